//! Surveys a chain's directory: block files, number of blocks, height; whether index and coins exist.
//!
//! Absent on purpose: validation. The height is that of the longest chain of headers, which on a chain of constant
//! difficulty is the best one; the results show the actual tip of the programs.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use consensus::{Chain, Params};
use disk::{Disk, RealDisk};
use primitives::BlockHash;
use store::Layout;
use store::blockfiles::BlockFiles;

use demo::result::ChainFacts;

/// The properties of a chain's directory.
#[derive(Clone, Debug)]
pub(super) struct Surveyed {
    /// The data directory.
    pub(super) directory: PathBuf,
    pub(super) network: Chain,
    pub(super) facts: ChainFacts,
    /// Hash of the highest block, as displayed.
    pub(super) tip: String,
    /// Bytes of all files that a work gets, including index, undo data and coins if they exist.
    pub(super) whole_bytes: u64,
    /// Whether block index and chainstate exist: a rebuild then needs no preparation.
    pub(super) is_whole: bool,
}

/// Surveys the chain `label` in `directory`.
///
/// # Errors
///
/// In words: no block files, those of another network, unreadable ones, no block in them.
pub(super) fn survey(label: &str, directory: &Path, network: Chain) -> Result<Surveyed, String> {
    let params = Params::new(network);
    let layout = Layout::new(directory, network.net_dir(), None);
    let blocks_dir = layout.blocks_dir();
    if !blocks_dir.is_dir() {
        return Err(format!("no chain at {}: {} is not there", directory.display(), blocks_dir.display()));
    }
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let net = node::datadir::lock::network(&params);
    let key = store::xor::find_key(&*disk, blocks_dir, &net).map_err(|fault| fault.to_string())?.key;
    let files = BlockFiles::new(disk, blocks_dir, &net, key);
    let numbers = files.numbers().map_err(|fault| fault.to_string())?.there;
    if numbers.is_empty() {
        return Err(format!("no block files in {}", blocks_dir.display()));
    }
    let mut bytes = 0;
    let mut links = Vec::new();
    for file in numbers {
        bytes += files.file_bytes(file).map_err(|fault| fault.to_string())?;
        let found = files.scan(file).map_err(|fault| fault.to_string())?;
        links.extend(found.blocks.iter().map(|block| (block.hash, block.header.prev())));
    }
    if links.is_empty() {
        return Err(format!(
            "the block files in {} hold no block of {}: another network's?",
            blocks_dir.display(),
            network.name()
        ));
    }
    let (tip, height) = highest(&links, params.genesis_hash);
    let is_whole = layout.index_dir().join("CURRENT").is_file() && layout.chainstate_dir().join("CURRENT").is_file();
    Ok(Surveyed {
        directory: directory.to_owned(),
        network,
        facts: ChainFacts { label: label.to_owned(), bytes, blocks: links.len() as u64, height },
        tip: tip.to_string(),
        whole_bytes: super::copy::bytes_of(layout.net_dir())
            .map_err(|error| format!("{}: {error}", directory.display()))?,
        is_whole,
    })
}

/// The block farthest from the genesis block, and its height. A missing parent counts as the genesis block.
fn highest(links: &[(BlockHash, BlockHash)], genesis: BlockHash) -> (BlockHash, u32) {
    let prev: HashMap<BlockHash, BlockHash> = links.iter().copied().collect();
    let mut heights = HashMap::from([(genesis, 0u32)]);
    let mut best = (genesis, 0);
    let mut path = Vec::new();
    for &(hash, _) in links {
        let mut at = hash;
        while !heights.contains_key(&at) && path.len() <= links.len() {
            path.push(at);
            let Some(&before) = prev.get(&at) else { break };
            at = before;
        }
        let mut height = heights.get(&at).copied();
        while let Some(block) = path.pop() {
            let own = height.map_or(0, |height| height + 1);
            heights.insert(block, own);
            height = Some(own);
            if own > best.1 {
                best = (block, own);
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(of: u8) -> BlockHash {
        BlockHash::from_bytes([of; 32])
    }

    #[test]
    fn longest_chain_is_found_in_any_file_order() {
        let genesis = hash(0);
        for (row, links, want) in [
            ("none but genesis", vec![(0, 98)], (0, 0)),
            ("in order", vec![(1, 0), (2, 1), (3, 2)], (3, 3)),
            ("backwards, with a stale one", vec![(3, 2), (2, 1), (9, 1), (1, 0)], (3, 3)),
            ("parent missing", vec![(7, 50), (8, 7), (1, 0)], (8, 2)),
            ("a ring, which no hash allows", vec![(1, 2), (2, 1)], (1, 2)),
        ] {
            let links: Vec<_> = links.into_iter().map(|(own, prev)| (hash(own), hash(prev))).collect();
            let got = highest(&links, genesis);
            assert_eq!(got.1, want.1, "{row}: height");
            assert!(row.starts_with("a ring") || got.0 == hash(want.0), "{row}: {:?}", got.0);
        }
    }
}
