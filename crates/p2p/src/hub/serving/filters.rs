//! Requests for compact block filters: an invalid one ends the connection, a valid one waits to be read.
//!
//! An invalid request is not an offence: a peer may know a block that we do not. Source: Bitcoin Core b88bffe,
//! `PrepareBlockFilterRequest`.

use super::super::context::Context;
use super::Serving;
use crate::api::PeerId;
use crate::filter_request::{BASIC, FilterRequest, Stop};
use crate::reason::Reason;
use crate::wire::FilterRange;
use primitives::{BlockHash, Height};

/// Maximum number of filters in one request. Source: `MAX_GETCFILTERS_SIZE`.
pub(super) const FILTERS_COUNT_MAX: u32 = 1000;
/// Maximum number of filter hashes in one request. Source: `MAX_GETCFHEADERS_SIZE`.
pub(super) const FILTER_HASHES_COUNT_MAX: u32 = 2000;

impl Serving {
    pub(in super::super) fn on_get_filters(
        &mut self,
        cx: &mut Context,
        id: PeerId,
        range: &FilterRange,
    ) -> Result<(), Reason> {
        let (next, stop) = check_range(cx, range, FILTERS_COUNT_MAX)?;
        self.read_filters(cx, id, FilterRequest::Filters { next, stop, is_begun: false })
    }

    pub(in super::super) fn on_get_filter_hashes(
        &mut self,
        cx: &mut Context,
        id: PeerId,
        range: &FilterRange,
    ) -> Result<(), Reason> {
        let (start, stop) = check_range(cx, range, FILTER_HASHES_COUNT_MAX)?;
        self.read_filters(cx, id, FilterRequest::Hashes { start, stop })
    }

    pub(in super::super) fn on_get_filter_checkpoints(
        &mut self,
        cx: &mut Context,
        id: PeerId,
        kind: u8,
        stop: &BlockHash,
    ) -> Result<(), Reason> {
        let stop = check_stop(cx, kind, stop)?;
        self.read_filters(cx, id, FilterRequest::Checkpoints { stop })
    }

    fn read_filters(&mut self, cx: &mut Context, id: PeerId, request: FilterRequest) -> Result<(), Reason> {
        self.of(id).filters = Some(request);
        self.serve_next(cx, id)
    }
}

fn check_stop(cx: &Context, kind: u8, stop: &BlockHash) -> Result<Stop, Reason> {
    if kind != BASIC || !cx.config.compact_filters {
        return Err(Reason::FilterType(kind));
    }
    let height = cx.chain.shown(stop).ok_or(Reason::FilterStop(*stop))?;
    Ok(Stop { height, hash: *stop })
}

fn check_range(cx: &Context, range: &FilterRange, max: u32) -> Result<(Height, Stop), Reason> {
    let stop = check_stop(cx, range.kind, &range.stop)?;
    let start = range.start;
    let last = stop.height.to_u32();
    let Some(above) = last.checked_sub(start) else { return Err(Reason::FilterRange { start, stop: last }) };
    if above >= max {
        return Err(Reason::FilterCount { count: above.saturating_add(1), max });
    }
    Ok((Height::new(start), stop))
}
