//! `hints make`: which outputs of each block are unspent at the tip, as a file of BIP 456.
//!
//! Each block is read once, and its outputs are looked up in one sorted batch; memory does not grow with the set or the
//! chain. Absent on purpose: a sync that uses such a file (`session`).

use super::dump::{begin, opened};
use super::unfinished::{Claim, new_file};
use crate::fault::Fault;
use crate::options::Options;
use crate::reporting::Events;
use crate::snapshot::hints::counted_outputs;
use crate::threads::shares::in_order;
use crate::utxo_stats::setinfo::decode;
use disk::Appender;
use primitives::hints::{self, HEADER_BYTES};
use primitives::{BlockHash, CoinKey, Height, Tables};
use std::path::{Path, PathBuf};
use store::chainstate::CoinsView;
use store::index::IndexEntry;

/// Blocks that a thread takes at a time.
const BLOCKS_PER_SHARE: usize = 16;

/// Result of the command.
#[derive(Clone, Debug)]
pub struct HintsReport {
    /// Absolute path of the file.
    pub path: PathBuf,
    /// Height of the last block.
    pub height: Height,
    /// Its hash.
    pub best: BlockHash,
    /// Number of unspent outputs.
    pub unspent: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Seconds.
    pub seconds: f64,
}

/// Writes the hints of the chain up to the coins' best block. If there are two chainstates, because a snapshot is not
/// validated, the validated one is used.
///
/// # Errors
///
/// The file exists or cannot be written, blocks are pruned, damage, or an I/O error.
pub fn make_hints(options: &Options, path: &Path, events: Events<'_>) -> Result<HintsReport, Fault> {
    let path = new_file(&*options.disk, path)?;
    let (locked, reporter, loaded) = begin(options, events)?;
    let (view, chain) = opened(&locked, &loaded, &locked.layout.chainstate_dir())?;
    let tip = *chain.last().expect("genesis is always there");
    if let Some(entry) = chain[1..].iter().rev().find(|entry| entry.data().is_none()) {
        let IndexEntry { hash, height, .. } = entry;
        let why = format!("block {hash} at height {height} is pruned");
        return Err(Fault::refused(why, "Make hints from a data directory that has all blocks"));
    }
    let claim = Claim::take(&locked.disk, &path)?;
    let unfinished = claim.create()?;
    unfinished.file.write_at(0, &hints::header(tip.height)).map_err(store::Fault::from)?;
    let mut out = Appender::new(unfinished.file.clone(), HEADER_BYTES as u64);
    let shares: Vec<&[&IndexEntry]> = chain[1..].chunks(BLOCKS_PER_SHARE).collect();
    let work = |share: usize| {
        let mut lists = Vec::new();
        let mut count = 0;
        for entry in shares[share] {
            let at = entry.data().expect("looked at above");
            let indices = unspent_of(&view, entry, &locked.files.read_block(at)?)?;
            count += indices.len() as u64;
            hints::put_list(&mut lists, &indices);
        }
        Ok((lists, count))
    };
    let mut unspent = 0;
    in_order(options.par, shares.len(), work, |(lists, count)| {
        unspent += count;
        Ok(out.write_all(&lists).map_err(store::Fault::from)?)
    })?;
    unfinished.file.sync().map_err(store::Fault::from)?;
    let bytes = out.offset();
    unfinished.finish()?;
    Ok(HintsReport { path, height: tip.height, best: tip.hash, unspent, bytes, seconds: reporter.seconds() })
}

/// The indices of a block's outputs that are unspent.
fn unspent_of(view: &CoinsView, entry: &IndexEntry, bytes: &[u8]) -> Result<Vec<u32>, Fault> {
    let damaged = |what: &str| {
        let IndexEntry { hash, height, .. } = entry;
        Fault::refused(
            format!("block {hash} at height {height}: {what}"),
            "Run ffwd repair, or ffwd reindex if that finds nothing",
        )
    };
    let mut tables = Tables::with(view.kernels());
    let block = tables.parse_block(bytes).map_err(|why| damaged(&why.to_string()))?;
    if block.header().hash() != entry.hash {
        return Err(damaged("another block is in its place"));
    }
    let mut txids = Vec::new();
    block.txids_into(&mut txids);
    let outputs = counted_outputs(&block, &txids, entry.height, &entry.hash);
    let mut keys: Vec<(CoinKey, u32)> =
        (0..).zip(outputs).map(|(index, output)| (CoinKey::new(&output.outpoint), index)).collect();
    keys.sort_unstable();
    let sorted: Vec<CoinKey> = keys.iter().map(|(key, _)| *key).collect();
    let mut indices = Vec::new();
    let mut fault = None;
    view.look_up(&sorted, |at, stored| {
        let Some(stored) = stored else { return };
        match decode(view, &sorted[at].outpoint(), stored) {
            // The coin of this outpoint may be another block's.
            Ok(coin) if coin.height == entry.height => indices.push(keys[at].1),
            Ok(_) => {}
            Err(why) => fault = Some(why),
        }
    })?;
    if let Some(fault) = fault {
        return Err(fault.into());
    }
    indices.sort_unstable();
    Ok(indices)
}
