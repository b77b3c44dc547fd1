//! Reads many blocks in the order in which they are wanted, in as few and large reads as their places allow.
//!
//! As many of the wanted blocks as fit one buffer make a piece. Inside it the blocks are sorted by place, neighbours
//! are read in one go, and the obfuscation is undone on the buffer; the blocks come out in the order asked for. Block
//! files hold blocks in the order of arrival, which in a download is the order of the chain but for a thousand or so.

use super::pool::{Piece, Pool};
use super::{BlockAt, BlockBytes, BlockFiles, RECORD_HEADER_BYTES};
use crate::fault::Result;
#[cfg(feature = "ablation")]
use kernels::ideas::Idea;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes between two blocks that are rather read than skipped.
const GAP_BYTES_MAX: u64 = 64 * 1024;

/// Bytes of a read where bulk reads are left out, those of stdio's buffer.
#[cfg(feature = "ablation")]
const STDIO_BYTES: usize = 4096;

/// Reads blocks in large pieces. Meant for a thread of its own that sleeps in the disk.
#[derive(Debug)]
pub struct BulkReader {
    files: Arc<BlockFiles>,
    pool: Arc<Pool>,
    /// What was read is dropped from the page cache.
    drops_behind: bool,
}

/// Neighbours: one read.
struct Run {
    file: u32,
    /// Where the read starts in the file: at the first record's header.
    start: u64,
    end: u64,
    /// Where it goes in the buffer.
    buffer_offset: usize,
}

impl Run {
    fn bytes(&self) -> usize {
        (self.end - self.start) as usize
    }
}

impl BulkReader {
    /// A reader of `files` into buffers of `pool`.
    pub fn new(files: Arc<BlockFiles>, pool: Arc<Pool>) -> BulkReader {
        BulkReader { files, pool, drops_behind: false }
    }

    /// From now on what was read is dropped from the page cache, or not: blocks that are read once leave it to tables of
    /// coins, where memory does not hold both.
    pub fn drop_behind(&mut self, drops: bool) {
        self.drops_behind = drops;
    }

    /// Reads the first blocks of `wanted`, as many as fit one buffer and at least one (none only of an empty list);
    /// answers come in the order of `wanted`. Waits for a buffer; `None` once the pool is closed, or when `is_wanted`,
    /// asked meanwhile, says no. How long it waited is added to `waited`.
    ///
    /// A block is as long as `wanted` says, and its record must say so too. Whatever fails costs only the blocks that
    /// it touches: a read that fails is made again block by block.
    pub fn read(
        &self,
        wanted: &[BlockAt],
        is_wanted: &dyn Fn() -> bool,
        waited: &mut Duration,
    ) -> Option<Vec<Result<BlockBytes>>> {
        let (count, runs, places) = plan(wanted, self.pool.buffer_bytes());
        let wanted = &wanted[..count];
        let bytes = runs.last().map_or(0, |run| run.buffer_offset + run.bytes());
        let mut piece = if bytes > self.pool.buffer_bytes() {
            // A single block beyond all bounds of consensus: its own memory, no larger than its file.
            match self.read_alone(&wanted[0]) {
                Ok(block) => return Some(vec![Ok(block)]),
                Err(why) => return Some(vec![Err(why)]),
            }
        } else {
            let begun = Instant::now();
            let piece = self.pool.take(is_wanted);
            *waited += begun.elapsed();
            piece?
        };
        let is_read: Vec<bool> = runs.iter().map(|run| self.read_run(run, &mut piece).is_ok()).collect();
        let piece = Arc::new(piece);
        let answers = wanted.iter().zip(places).map(|(block, (run, at))| {
            if is_read[run] && block.offset >= u64::from(RECORD_HEADER_BYTES) {
                self.hand_out(block, &piece, at)
            } else {
                self.read_alone(block)
            }
        });
        Some(answers.collect())
    }

    fn read_run(&self, run: &Run, piece: &mut Piece) -> Result<()> {
        let buffer = &mut piece.bytes_mut()[run.buffer_offset..run.buffer_offset + run.bytes()];
        let file = self.files.file(run.file)?;
        #[cfg(feature = "ablation")]
        if self.pool.kernels().lacks(Idea::BulkReads) {
            let pieces = (run.start..).step_by(STDIO_BYTES).zip(buffer.chunks_mut(STDIO_BYTES));
            return pieces.into_iter().try_for_each(|(at, piece)| file.read_exact_at(at, piece));
        }
        file.read_exact_at(run.start, buffer)?;
        if self.drops_behind {
            file.drop_page_cache(run.start, buffer.len() as u64);
        }
        Ok(())
    }

    /// The block whose record starts at `at` of the buffer.
    fn hand_out(&self, block: &BlockAt, piece: &Arc<Piece>, at: usize) -> Result<BlockBytes> {
        let header = *piece.bytes()[at..].first_chunk().expect("the record was read");
        self.files.check_record_header(block.file, block.offset, header, Some(block.size))?;
        let start = at + RECORD_HEADER_BYTES as usize;
        Ok(BlockBytes::new(piece, start, start + block.size as usize))
    }

    /// One block by itself, in memory of its own.
    fn read_alone(&self, block: &BlockAt) -> Result<BlockBytes> {
        let file = self.files.file(block.file)?;
        let size = self.files.record_size(block.file, &file, block.offset)?;
        let have = file.len()?.saturating_sub(block.offset);
        if size != block.size || u64::from(size) > have {
            let wanted = format!("a block of {} bytes", block.size);
            return Err(self.files.not_a_block(
                block.file,
                block.offset,
                wanted,
                format!("one of {size}, {have} there"),
            ));
        }
        let mut bytes = vec![0; size as usize];
        file.read_exact_at(block.offset, &mut bytes)?;
        Ok(BlockBytes::from(bytes))
    }
}

/// How many blocks to read, the reads, and for each block its read and the place of its record in the buffer.
fn plan(wanted: &[BlockAt], buffer_bytes: usize) -> (usize, Vec<Run>, Vec<(usize, usize)>) {
    let record = |block: &BlockAt| block.size as usize + RECORD_HEADER_BYTES as usize;
    let mut count = 0;
    let mut bytes = 0;
    while count < wanted.len() && (count == 0 || bytes + record(&wanted[count]) <= buffer_bytes) {
        bytes += record(&wanted[count]);
        count += 1;
    }
    // What the gaps may take: the room that the blocks leave.
    let mut spare = (buffer_bytes.saturating_sub(bytes)) as u64;
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_unstable_by_key(|&i| wanted[i]);
    let mut runs: Vec<Run> = Vec::new();
    let mut places = vec![(0, 0); count];
    for i in order {
        let block = &wanted[i];
        let start = block.offset.saturating_sub(u64::from(RECORD_HEADER_BYTES));
        let end = block.offset.saturating_add(u64::from(block.size));
        let joins = runs.last().is_some_and(|run| {
            run.file == block.file && start >= run.end && start - run.end <= GAP_BYTES_MAX.min(spare)
        });
        if joins {
            let run = runs.last_mut().expect("there is one to join");
            spare -= start - run.end;
            run.end = end;
        } else {
            let buffer_offset = runs.last().map_or(0, |run| run.buffer_offset + run.bytes());
            runs.push(Run { file: block.file, start, end, buffer_offset });
        }
        let run = runs.last().expect("just made");
        places[i] = (runs.len() - 1, run.buffer_offset + (start - run.start) as usize);
    }
    (count, runs, places)
}
