//! Totals of the UTXO set, updated block by block, so that a job can report them at its end without reading the set.
//!
//! At the end of a job they are stored in a private file, with the block to which the set belongs. A block has exactly
//! one UTXO set, whatever program made it. So a file that names another block is ignored, and one that names this block
//! is right.
//!
//! ```text
//! hash of the block 32 | coins u64 LE | bytes of their scripts u64 LE | satoshis u64 LE | SHA-256 of all before 32
//! ```

use crate::chain::tree::NodeId;
use coins::Totals;
use kernels::sha256::sha256;
use primitives::{BlockHash, Reader};
use std::collections::VecDeque;
use store::Fault;
use store::private_files::PrivateDir;

/// Name of the file.
const NAME: &str = "set-totals";
/// Size of the file in bytes.
const FILE_BYTES: usize = 32 + 3 * 8 + 32;
/// Number of blocks for which totals are kept: a run that disconnects more counts the set again.
const BLOCKS_MAX: usize = 1000;

/// The totals of the set at each of the last connected blocks.
#[derive(Debug, Default)]
pub(crate) struct TotalsAlong(VecDeque<(NodeId, Totals)>);

impl TotalsAlong {
    /// Starts at block `tip`, with the totals of the set there if they are known.
    pub(crate) fn begin(&mut self, tip: NodeId, totals: Option<Totals>) {
        self.0.clear();
        self.0.extend(totals.map(|totals| (tip, totals)));
    }

    /// A block was connected to `parent`, and changes the totals by `change`.
    pub(crate) fn connected(&mut self, parent: NodeId, node: NodeId, change: Totals) {
        let known = self.at(parent);
        if self.0.len() == BLOCKS_MAX {
            self.0.pop_front();
        }
        match known {
            Some(totals) => self.0.push_back((node, totals.plus(change))),
            None => self.0.clear(),
        }
    }

    /// The last block was disconnected.
    pub(crate) fn disconnected(&mut self, node: NodeId) {
        let last = self.0.pop_back();
        if last.is_some_and(|(last, _)| last != node) {
            self.0.clear();
        }
    }

    /// The totals of the set at the last block, if that block is `tip`.
    pub(crate) fn at(&self, tip: NodeId) -> Option<Totals> {
        self.0.back().filter(|(last, _)| *last == tip).map(|(_, totals)| *totals)
    }
}

/// The totals in the file, if they belong to block `best`. An unreadable file is ignored.
pub(crate) fn read(own: &PrivateDir, best: &BlockHash) -> Option<Totals> {
    let bytes = own.read(NAME, FILE_BYTES).ok()??;
    let (body, hash) = bytes.split_last_chunk::<32>()?;
    if sha256(body) != *hash {
        return None;
    }
    let mut reader = Reader::new(body);
    let is_of_best = reader.array().ok()? == best.as_bytes();
    let totals = Totals { coins: reader.u64().ok()?, script_bytes: reader.u64().ok()?, amount: reader.u64().ok()? };
    (is_of_best && reader.remaining() == 0).then_some(totals)
}

/// Writes the file.
///
/// # Errors
///
/// An I/O error.
pub(crate) fn write(own: &PrivateDir, best: &BlockHash, totals: Totals) -> Result<(), Fault> {
    let mut bytes = best.as_bytes().to_vec();
    for number in [totals.coins, totals.script_bytes, totals.amount] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    let hash = sha256(&bytes);
    bytes.extend_from_slice(&hash);
    own.write(NAME, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::SimDisk;
    use std::path::{Path, PathBuf};

    fn totals(coins: u64) -> Totals {
        Totals { coins, script_bytes: coins * 25, amount: coins * 7 }
    }

    #[test]
    fn totals_follow_the_chain_or_are_unknown() {
        let node = NodeId::new;
        let mut along = TotalsAlong::default();
        along.connected(node(0), node(1), totals(2));
        assert_eq!(along.at(node(1)), None, "what was not known before is not known after");
        along.begin(node(1), Some(totals(5)));
        along.connected(node(1), node(2), totals(2));
        along.connected(node(2), node(3), totals(1).minus(totals(3)));
        assert_eq!((along.at(node(3)), along.at(node(2))), (Some(totals(5)), None));
        along.disconnected(node(3));
        along.connected(node(2), node(4), totals(10));
        assert_eq!(along.at(node(4)), Some(totals(17)));
        let mut other = TotalsAlong(along.0.clone());
        other.connected(node(3), node(5), totals(1));
        assert_eq!(other.at(node(5)), None, "not built on the last one");
        along.disconnected(node(3));
        assert_eq!(along.at(node(2)), None, "not the last one");
        along.begin(node(0), Some(totals(0)));
        (0..2 * BLOCKS_MAX).for_each(|at| along.connected(node(at), node(at + 1), totals(1)));
        assert_eq!((along.at(node(2 * BLOCKS_MAX)), along.0.len()), (Some(totals(2 * BLOCKS_MAX as u64)), BLOCKS_MAX));
    }

    #[test]
    fn file_counts_for_its_block_alone_and_undamaged() {
        let sim = SimDisk::new(0);
        sim.shared().create_dir_all(Path::new("/n")).unwrap();
        let own = PrivateDir::new(sim.shared(), PathBuf::from("/n/ffwd"));
        let best = BlockHash::from_bytes([3; 32]);
        assert_eq!(read(&own, &best), None);
        write(&own, &best, totals(12)).unwrap();
        assert_eq!(read(&own, &best), Some(totals(12)));
        assert_eq!(read(&own, &BlockHash::from_bytes([4; 32])), None);
        let good = own.read(NAME, FILE_BYTES).unwrap().unwrap();
        assert_eq!(good.len(), FILE_BYTES);
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            own.write(NAME, &bad).unwrap();
            assert_eq!(read(&own, &best), None, "byte {at}");
            own.write(NAME, &good[..at]).unwrap();
            assert_eq!(read(&own, &best), None, "{at} bytes");
        }
        own.write(NAME, &[good, vec![0]].concat()).unwrap();
        assert_eq!(read(&own, &best), None);
    }
}
