//! Opens the block files that the paths of `--from` denote: lists their blocks, and the place of each block in a plain
//! file.
//!
//! Absent on purpose: which blocks are needed. A sync (`sources`) or a repair decides that.

use super::packed::Packed;
use super::reading::Reading;
use crate::datadir::lock;
use crate::datadir::scan;
use crate::fault::Fault;
use primitives::{BlockHash, human};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use store::blockfiles::{BlockAt, BlockFiles, FoundBlock};
use store::{FaultKind, xor};

/// Block files of `--from`, opened.
pub(in crate::session) struct Found {
    pub(in crate::session) plain: BlockFiles,
    /// Place of each block in `plain`.
    pub(in crate::session) places: HashMap<BlockHash, BlockAt>,
    pub(in crate::session) packed: Packed,
    /// All blocks, for their headers.
    pub(in crate::session) blocks: Vec<FoundBlock>,
}

impl Found {
    /// Finds block files in `paths` and reads their headers.
    ///
    /// # Errors
    ///
    /// A path that does not exist or has no blocks, or an I/O error.
    pub(in crate::session) fn open(with: Reading<'_>, paths: &[PathBuf]) -> Result<Found, Fault> {
        let Reading { options, host, reporter } = with;
        let network = lock::network(&options.params);
        let mut plain = Vec::new();
        let mut packed = Packed::default();
        for path in paths {
            for file in files_of(with, path)? {
                if packed.takes(with, &file)? {
                    continue;
                }
                match xor::key_of_foreign(&*host.disk, &file, &network) {
                    Ok(key) => plain.push((file, key)),
                    Err(why) => reporter.note(format!("{}: left out: {why}", file.display())),
                }
            }
        }
        let plain = BlockFiles::foreign(host, plain, &network);
        let count = plain.numbers()?.there.len();
        let scans = scan::scan_each(count, options.par, reporter, |at| plain.scan(at as u32))?;
        let mut unreadable = 0;
        let mut blocks: Vec<FoundBlock> = Vec::new();
        for scan in scans {
            unreadable += scan.notes.len();
            blocks.extend(scan.blocks);
        }
        let mut places = HashMap::with_capacity(blocks.len());
        for block in &blocks {
            places.entry(block.hash).or_insert(block.location);
        }
        let from_packed = packed.headers(with)?;
        let all = blocks.len() + from_packed.len();
        if all == 0 {
            let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            let chain = options.params.chain.name();
            let why = format!("no block of {chain} could be read from {}", names.join(", "));
            let advice = "Give --from a data directory, its directory blocks, or block files of this network";
            return Err(Fault::refused(why, advice));
        }
        blocks.extend(from_packed);
        let bytes = places.values().map(|at: &BlockAt| u64::from(at.size)).sum();
        reporter.note(format!(
            "{all} blocks are in the files of --from ({} of them in plain files); {unreadable} places in them cannot be read",
            human::bytes(bytes)
        ));
        Ok(Found { plain, places, packed, blocks })
    }
}

/// The block files that a path of `--from` denotes: the file itself, or the files in the directory or its subdirectory
/// `blocks`.
fn files_of(with: Reading<'_>, path: &Path) -> Result<Vec<PathBuf>, Fault> {
    let disk = &*with.host.disk;
    let missing = |found: &str| {
        let advice = "Give a data directory, its directory blocks, or block files";
        Fault::from(store::Fault::new(FaultKind::Missing, path, "block files, for --from", found, advice))
    };
    let Some(known) = disk.metadata(path).map_err(store::Fault::from)? else { return Err(missing("nothing")) };
    if !known.is_dir {
        return Ok(vec![path.to_path_buf()]);
    }
    let net_dir = with.options.params.chain.net_dir();
    let mut places = vec![path.join(net_dir).join("blocks"), path.join("blocks"), path.to_path_buf()];
    places.dedup();
    for place in places {
        let files = store::layout::block_files(disk, &place)?;
        if !files.is_empty() {
            return Ok(files);
        }
    }
    Err(missing("none"))
}
