//! A validated request of a peer for compact block filters, and how its answer is read.
//!
//! Filters are read in pieces of [`READ_BYTES_MAX`] bytes, so that a thousand of them never wait in memory; hashes
//! and checkpoints are one message. An answer ends at the first filter that is not indexed; as in Core, there is no
//! answer if the last one is not indexed.
//! Source: BIP-0157; Bitcoin Core b88bffe, `ProcessGetCFilters`, `ProcessGetCFHeaders`, `ProcessGetCFCheckPt`.

use crate::chain::ChainView;
use crate::wire::{Command, cfcheckpt, cfheaders, cfilter};
use primitives::{BlockHash, Hash256, Height};

/// The only filter type.
pub const BASIC: u8 = 0;
/// Blocks from one checkpoint to the next. Source: `CFCHECKPT_INTERVAL`.
pub const CHECKPOINT_INTERVAL: u32 = 1000;
/// Bytes after which reading filters for one peer pauses.
pub const READ_BYTES_MAX: usize = 1_000_000;

/// The last block of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Its height.
    pub height: Height,
    /// Its hash.
    pub hash: BlockHash,
}

/// A valid request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterRequest {
    /// The filters from `next` on; `is_begun` once some of them were read.
    Filters {
        /// The next height.
        next: Height,
        /// The last block.
        stop: Stop,
        /// Whether filters below `next` were part of the request, and are read.
        is_begun: bool,
    },
    /// The hashes of the filters from `start` on, with the filter header before them.
    Hashes {
        /// The first height.
        start: Height,
        /// The last block.
        stop: Stop,
    },
    /// The filter headers at every checkpoint up to a block.
    Checkpoints {
        /// The last block.
        stop: Stop,
    },
}

/// The messages read, and the rest of the request.
pub(crate) type Read = (Vec<(Command, Vec<u8>)>, Option<FilterRequest>);

impl FilterRequest {
    /// Reads the next messages of the answer, at least one if there are any.
    pub(crate) fn read(&self, chain: &dyn ChainView) -> Read {
        match *self {
            FilterRequest::Filters { next, stop, is_begun } => read_filters(chain, next, stop, is_begun),
            FilterRequest::Hashes { start, stop } => (read_hashes(chain, start, stop).into_iter().collect(), None),
            FilterRequest::Checkpoints { stop } => (read_checkpoints(chain, stop).into_iter().collect(), None),
        }
    }
}

fn read_filters(chain: &dyn ChainView, next: Height, stop: Stop, is_begun: bool) -> Read {
    let mut messages = Vec::new();
    let mut bytes = 0;
    if !is_begun && chain.filter_header(&stop.hash).is_none() {
        return (messages, None);
    }
    for height in next.to(stop.height) {
        let block = chain.ancestor(&stop.hash, height);
        let Some((block, filter)) = block.and_then(|block| Some((block, chain.filter(&block)?))) else {
            return (messages, None);
        };
        let payload = cfilter(BASIC, &block, &filter);
        bytes += payload.len();
        messages.push((Command::CFilter, payload));
        if bytes >= READ_BYTES_MAX && height < stop.height {
            return (messages, Some(FilterRequest::Filters { next: height + 1, stop, is_begun: true }));
        }
    }
    (messages, None)
}

fn read_hashes(chain: &dyn ChainView, start: Height, stop: Stop) -> Option<(Command, Vec<u8>)> {
    let at = |height| chain.filter_header(&chain.ancestor(&stop.hash, height)?);
    let before = match start.to_u32().checked_sub(1) {
        Some(below) => at(Height::new(below))?.header,
        None => Hash256::ZERO,
    };
    let hashes = start.to(stop.height).map(|height| Some(at(height)?.hash)).collect::<Option<Vec<_>>>()?;
    Some((Command::CFHeaders, cfheaders(BASIC, &stop.hash, &before, &hashes)))
}

fn read_checkpoints(chain: &dyn ChainView, stop: Stop) -> Option<(Command, Vec<u8>)> {
    let heights = (1..=stop.height.to_u32() / CHECKPOINT_INTERVAL).map(|n| Height::new(n * CHECKPOINT_INTERVAL));
    let headers = heights.map(|height| Some(chain.filter_header(&chain.ancestor(&stop.hash, height)?)?.header));
    let headers = headers.collect::<Option<Vec<_>>>()?;
    Some((Command::CFCheckpt, cfcheckpt(BASIC, &stop.hash, &headers)))
}
