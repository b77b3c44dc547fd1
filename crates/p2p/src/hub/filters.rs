//! Requests for compact block filters: what is not in order ends the connection, what is waits to be read.
//!
//! None of it is an offence: a peer may know a block that we do not. Source: Bitcoin Core b88bffe,
//! `PrepareBlockFilterRequest`.

use super::Hub;
use crate::api::PeerId;
use crate::filter_request::{BASIC, FilterRequest, Stop};
use crate::reason::Reason;
use crate::time::Now;
use crate::wire::FilterRange;
use primitives::{BlockHash, Height};

/// Filters of one request. Source: `MAX_GETCFILTERS_SIZE`.
pub(super) const FILTERS_COUNT_MAX: u32 = 1000;
/// Filter hashes of one request. Source: `MAX_GETCFHEADERS_SIZE`.
pub(super) const FILTER_HASHES_COUNT_MAX: u32 = 2000;

impl Hub {
    pub(super) fn on_get_filters(&mut self, id: PeerId, range: &FilterRange, now: Now) -> Result<(), Reason> {
        let (next, stop) = self.check_range(range, FILTERS_COUNT_MAX)?;
        self.read_filters(id, FilterRequest::Filters { next, stop, is_begun: false }, now);
        Ok(())
    }

    pub(super) fn on_get_filter_hashes(&mut self, id: PeerId, range: &FilterRange, now: Now) -> Result<(), Reason> {
        let (start, stop) = self.check_range(range, FILTER_HASHES_COUNT_MAX)?;
        self.read_filters(id, FilterRequest::Hashes { start, stop }, now);
        Ok(())
    }

    pub(super) fn on_get_filter_checkpoints(
        &mut self,
        id: PeerId,
        kind: u8,
        stop: &BlockHash,
        now: Now,
    ) -> Result<(), Reason> {
        let stop = self.check_stop(kind, stop)?;
        self.read_filters(id, FilterRequest::Checkpoints { stop }, now);
        Ok(())
    }

    fn check_stop(&self, kind: u8, stop: &BlockHash) -> Result<Stop, Reason> {
        if kind != BASIC || !self.config.compact_filters {
            return Err(Reason::FilterType(kind));
        }
        let height = self.chain.shown(stop).ok_or(Reason::FilterStop(*stop))?;
        Ok(Stop { height, hash: *stop })
    }

    fn check_range(&self, range: &FilterRange, max: u32) -> Result<(Height, Stop), Reason> {
        let stop = self.check_stop(range.kind, &range.stop)?;
        let (start, last) = (range.start, stop.height.to_u32());
        let Some(above) = last.checked_sub(start) else { return Err(Reason::FilterRange { start, stop: last }) };
        if above >= max {
            return Err(Reason::FilterCount { count: above.saturating_add(1), max });
        }
        Ok((Height::new(start), stop))
    }

    fn read_filters(&mut self, id: PeerId, request: FilterRequest, now: Now) {
        self.peers.get_mut(&id).expect("it just spoke").filters = Some(request);
        self.serve_next(id, now);
    }
}
