//! `index`: builds the optional indexes from the stored block and undo files.

use super::open::{Purpose, Which, open_existing};
use crate::fault::{Ended, Fault};
use crate::options::Options;
use crate::reporting::Reporter;
use crate::reporting::{Events, JobReport};
use indexes::IndexKind;
use primitives::{BlockHash, Height};
use store::indexes::IndexDb;

/// Result of the command.
#[derive(Clone, Debug, Default)]
pub struct IndexReport {
    /// The indexes.
    pub indexes: Vec<IndexKind>,
    /// Height of their best block.
    pub height: Height,
    /// Hash of that block.
    pub best: BlockHash,
    /// Bytes of the blocks that were read.
    pub bytes: u64,
    /// Seconds.
    pub seconds: f64,
    /// It was interrupted; the same command continues.
    pub stopped: bool,
}

/// Builds these indexes up to the coins' best block; without `kinds`, all existing ones.
///
/// # Errors
///
/// The directory or an index cannot be used, blocks or undo data are missing or damaged, or an I/O error.
pub fn index(options: &Options, kinds: &[IndexKind], events: Events<'_>) -> Result<IndexReport, Fault> {
    let existing = open_existing(options, events, "index", Purpose::Look, Which::Past)?;
    let datadir = &existing.datadir;
    let tip = existing.tip;
    let mut there = Vec::new();
    for kind in IndexKind::ALL {
        if IndexDb::exists(&*datadir.disk, &datadir.layout, kind)? {
            there.push(kind);
        }
    }
    let kinds = if kinds.is_empty() { &there[..] } else { kinds };
    if kinds.is_empty() {
        let advice = "Name one with --only, or set txindex=1, blockfilterindex=1, txospenderindex=1, coinstatsindex=1 or silentpaymentindex=1 in bitcoin.conf";
        return Err(Fault::refused("no index is requested, and no index exists", advice));
    }
    let stopped = datadir.open_indexes(kinds, tip)? == Ended::Stopped;
    if !stopped {
        datadir.finish_indexes(tip)?;
    }
    let (height, best) = datadir.height_and_hash(tip);
    let height = if stopped { datadir.indexed_height(height) } else { height };
    Ok(report(kinds, &datadir.reporter, height, best, stopped))
}

fn report(kinds: &[IndexKind], reporter: &Reporter<'_>, height: Height, best: BlockHash, stopped: bool) -> IndexReport {
    let JobReport { seconds, .. } = reporter.report(JobReport::default());
    let bytes = reporter.bytes_indexed();
    IndexReport { indexes: kinds.to_vec(), height, best, bytes, seconds, stopped }
}
