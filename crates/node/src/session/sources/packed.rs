//! Packed block files (gzip, xz, zstd), which are read from the start twice: once for the headers, then for the blocks.

use super::reading::Reading;
use crate::datadir::lock;
use crate::fault::Fault;
use crate::offline::import::{Filled, Stream, split_off_cut};
use primitives::BlockHash;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use store::blockfiles::{BlockFiles, FoundBlock};

/// The packed files, and the hashes of their blocks.
#[derive(Debug, Default)]
pub(in crate::session) struct Packed {
    files: Vec<PathBuf>,
    hashes: HashSet<BlockHash>,
}

impl Packed {
    pub(in crate::session) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Adds a file if it is packed; returns whether it is.
    ///
    /// # Errors
    ///
    /// A pipe, which cannot be read twice; or an I/O error.
    pub(super) fn takes(&mut self, with: Reading<'_>, path: &Path) -> Result<bool, Fault> {
        if with.host.disk.is_pipe(path).map_err(store::Fault::from)? {
            let why = format!("{}: a pipe or a device cannot be read twice, as --from does", path.display());
            return Err(Fault::refused(why, "Give it to ffwd import"));
        }
        let is_packed = Stream::open(&with.host.disk, path, 1)?.is_some();
        if is_packed {
            self.files.push(path.to_path_buf());
        }
        Ok(is_packed)
    }

    pub(super) fn has(&self, hash: &BlockHash) -> bool {
        self.hashes.contains(hash)
    }

    /// Lists the blocks of all packed files, for their headers; their locations are meaningless.
    ///
    /// # Errors
    ///
    /// The sync was stopped, or no thread could be started.
    pub(in crate::session) fn headers(&mut self, with: Reading<'_>) -> Result<Vec<FoundBlock>, Fault> {
        let mut all = Vec::new();
        for file in &self.files {
            let is_stopping = || with.reporter.is_stopping();
            let broken = each_piece(with, file, &is_stopping, &mut |_, blocks| {
                all.extend_from_slice(blocks);
                Ok(())
            })?;
            if let Some(why) = broken {
                with.reporter.note(format!("{}: {why}: what came before is used", file.display()));
            }
        }
        self.hashes.extend(all.iter().map(|block| block.hash));
        Ok(all)
    }

    /// Reads all packed files and passes the blocks that `is_wanted` to `take`; returns how many it accepted.
    ///
    /// # Errors
    ///
    /// An I/O error, or an error of `take`.
    pub(in crate::session) fn pass(
        &self,
        with: Reading<'_>,
        is_stopping: &dyn Fn() -> bool,
        is_wanted: &dyn Fn(&BlockHash) -> bool,
        take: &mut TakeBlock<'_>,
    ) -> Result<usize, Fault> {
        let mut count = 0;
        for file in &self.files {
            each_piece(with, file, is_stopping, &mut |piece, blocks| {
                for block in blocks.iter().filter(|block| is_wanted(&block.hash)) {
                    if is_stopping() {
                        break;
                    }
                    let Some(at) = block.location.file_pos() else { continue };
                    let bytes = piece.read_block(at)?;
                    count += usize::from(take(file, block.hash, bytes)?);
                }
                Ok(())
            })?;
        }
        Ok(count)
    }
}

/// Accepts a block from a file; returns whether it is valid.
pub(in crate::session) type TakeBlock<'t> = dyn FnMut(&Path, BlockHash, Vec<u8>) -> Result<bool, Fault> + 't;

/// Handles the blocks of one piece.
type OfPiece<'p> = dyn FnMut(&BlockFiles, &[FoundBlock]) -> Result<(), Fault> + 'p;

/// Unpacks a file in pieces; returns the reason if it is broken off.
fn each_piece(
    with: Reading<'_>,
    path: &Path,
    is_stopping: &dyn Fn() -> bool,
    take: &mut OfPiece<'_>,
) -> Result<Option<String>, Fault> {
    let piece_bytes = with.options.sizes.import_piece_bytes;
    let network = lock::network(&with.options.params);
    let Some(mut stream) = Stream::open(&with.host.disk, path, piece_bytes)? else { return Ok(None) };
    let mut cut = Vec::new();
    loop {
        let mut piece = std::mem::take(&mut cut);
        let filled = stream.fill(&mut piece, piece_bytes, (&*with.host.disk, &network), is_stopping);
        if filled == Filled::Stopped {
            return Ok(None);
        }
        let files = BlockFiles::piece(with.host.disk.clone(), path.to_path_buf(), piece, &network);
        let mut scan = files.scan(0)?;
        let from = if filled == Filled::More { split_off_cut(&mut scan, files.file_bytes(0)?) } else { None };
        take(&files, &scan.blocks)?;
        if filled == Filled::Last {
            return Ok(stream.broken().map(str::to_owned));
        }
        if let Some(from) = from {
            cut = files.read_range(0, from, files.file_bytes(0)? - from)?;
        }
    }
}
