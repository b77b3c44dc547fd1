//! Exports a range of blocks to files: groups of rows are built and encoded in parallel, and written in order.

use crate::address::Addresses;
use crate::encode::{Format, Group, fault};
use crate::output::{Partial, check_free, partitions};
use crate::rows::{Counts, Rows};
use crate::tables::{Selection, Table};
use node::Fault;
use node::offline::files::{ChainFiles, Needs, in_order};
use node::options::Options;
use primitives::Height;
use std::path::Path;

/// Size of a group in bytes of blocks: the maximum, and the minimum if there are many workers. It bounds the memory.
const GROUP_BYTES_MAX: u64 = 24 << 20;
const GROUP_BYTES_MIN: u64 = 2 << 20;
/// Bytes of blocks that all workers may have in work.
const ALL_GROUPS_BYTES: u64 = 48 << 20;

/// The range to export, and the output directory.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Height of the first block.
    pub from: u32,
    /// Height of the last block; `None`: the tip.
    pub to: Option<u32>,
    /// Tables and columns.
    pub selection: &'a Selection,
    /// A plan of the chain; the block index is then not read.
    pub plan: Option<&'a Path>,
    /// Directory of the tables, created if missing.
    pub out: &'a Path,
    /// Overwrites files of the same ranges.
    pub overwrite: bool,
}

/// The result of an export.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExportReport {
    /// Height of the first block.
    pub from: u32,
    /// Height of the last block.
    pub to: u32,
    /// Rows.
    pub counts: Counts,
    /// Bytes of blocks read.
    pub bytes_in: u64,
    /// Bytes of files written.
    pub bytes_out: u64,
    /// Files written.
    pub files: u64,
}

/// Blocks that become one group of rows, all of one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Chunk {
    from: u32,
    to: u32,
    /// Number of the file.
    file: usize,
}

/// Cuts files into groups of at most `most` bytes, a block at least; `bytes` are those of the blocks from `from` on.
fn chunks(files: &[(u32, u32)], from: u32, bytes: &[u64], most: u64) -> Vec<Chunk> {
    let mut chunks: Vec<Chunk> = Vec::new();
    for (file, (first, last)) in files.iter().enumerate() {
        let mut start = *first;
        let mut sum = 0u64;
        for height in *first..=*last {
            let size = bytes[(height - from) as usize];
            if height > start && sum + size > most {
                chunks.push(Chunk { from: start, to: height - 1, file });
                (start, sum) = (height, 0);
            }
            sum += size;
        }
        chunks.push(Chunk { from: start, to: *last, file });
    }
    chunks
}

/// A chunk, encoded.
struct Done {
    chunk: Chunk,
    groups: Vec<Group>,
    counts: Counts,
    bytes_in: u64,
}

/// Exports a range; calls `progress` with the height after each group.
///
/// # Errors
///
/// Blocks are missing or damaged, conflicting files exist, or an I/O error.
pub fn export(options: &Options, request: &Request<'_>, mut progress: impl FnMut(u32)) -> Result<ExportReport, Fault> {
    let last = request.to.map(Height::new);
    let chain = ChainFiles::open(options, Height::new(request.from), last, Needs::Blocks, request.plan)?;
    let from = chain.first().to_u32();
    let to = chain.last().to_u32();
    let selection = request.selection;
    let out = request.out;
    let files = partitions(from, to);
    check_free(out, selection.tables(), &files, request.overwrite)?;
    let par = options.par.max(1);
    let most = (ALL_GROUPS_BYTES / par as u64).clamp(GROUP_BYTES_MIN, GROUP_BYTES_MAX);
    let chunks = chunks(&files, from, &chain.block_bytes(), most);
    let formats: Vec<Format> =
        selection.tables().iter().map(|table| Format::of(selection.schema(*table))).collect::<Result<_, _>>()?;
    let mut report = ExportReport { from, to, ..ExportReport::default() };
    let mut open: Option<(usize, Vec<Partial>)> = None;
    let work = |at: usize| encode(&chain, selection, &formats, chunks[at]);
    in_order(par, chunks.len(), work, |done: Done| {
        if open.as_ref().is_none_or(|(file, _)| *file != done.chunk.file) {
            close(open.take(), &mut report)?;
            let tables = selection.tables().iter().zip(&formats);
            let (from, to) = files[done.chunk.file];
            let files = tables.map(|(table, format)| Partial::create(out, *table, format, from, to));
            open = Some((done.chunk.file, files.collect::<Result<_, _>>()?));
        }
        let (_, files) = open.as_mut().expect("it was opened just now");
        files.iter_mut().zip(done.groups).try_for_each(|(file, group)| file.append(group))?;
        report.add(&done.counts, done.bytes_in);
        progress(done.chunk.to);
        Ok(())
    })?;
    close(open, &mut report)?;
    Ok(report)
}

impl ExportReport {
    fn add(&mut self, counts: &Counts, bytes_in: u64) {
        self.counts.blocks += counts.blocks;
        self.counts.transactions += counts.transactions;
        self.counts.inputs += counts.inputs;
        self.counts.outputs += counts.outputs;
        self.bytes_in += bytes_in;
    }
}

fn close(open: Option<(usize, Vec<Partial>)>, report: &mut ExportReport) -> Result<(), Fault> {
    for file in open.into_iter().flat_map(|(_, files)| files) {
        report.bytes_out += file.finish()?;
        report.files += 1;
    }
    Ok(())
}

/// Reads the blocks of a chunk, and makes and encodes their rows.
fn encode(chain: &ChainFiles, selection: &Selection, formats: &[Format], chunk: Chunk) -> Result<Done, Fault> {
    let mut rows = Rows::new(selection, Addresses::of(chain.params().chain));
    let mut bytes_in = 0;
    for height in Height::new(chunk.from).to(Height::new(chunk.to)) {
        let whole = chain.read_whole(height)?;
        let block = whole.block();
        rows.block(height, &block, whole.txids(), &whole.spent());
        bytes_in += block.bytes().len() as u64;
    }
    let (batches, counts) = rows.finish().map_err(fault)?;
    let mut groups = Vec::new();
    for ((_, batch), format) in batches.into_iter().zip(formats) {
        groups.push(format.encode(&batch)?);
    }
    Ok(Done { chunk, groups, counts, bytes_in })
}

/// Names of the tables of a selection, for a message.
pub fn table_names(selection: &Selection) -> String {
    selection.tables().iter().map(|table| Table::name(*table)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_every_block_of_every_file() {
        let mut rng = testkit::Rng::new(3);
        for (from, to, most) in [(0, 0, 10), (990, 2010, 5000), (7, 3000, 1), (5, 2500, u64::MAX)] {
            let files = partitions(from, to);
            let bytes: Vec<u64> = (from..=to).map(|_| 1 + rng.below(1000) as u64).collect();
            let mut next = from;
            for chunk in chunks(&files, from, &bytes, most) {
                let (first, last) = files[chunk.file];
                assert!(chunk.from == next && chunk.from >= first && chunk.to <= last && chunk.from <= chunk.to);
                let sum: u64 = (chunk.from..=chunk.to).map(|height| bytes[(height - from) as usize]).sum();
                assert!(sum <= most || chunk.from == chunk.to);
                next = chunk.to + 1;
            }
            assert_eq!(next, to + 1);
        }
    }
}
