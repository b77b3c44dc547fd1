//! Reads many blocks in the requested order, in as few and as large reads as their places allow.
//!
//! A piece is the longest prefix of the requested blocks that fits one buffer. Within a piece the blocks are sorted by
//! place, neighbours are read in one go, and the obfuscation is undone in the buffer. The blocks are returned in the
//! requested order. Block files hold blocks in order of arrival, which in a download deviates from chain order by about
//! a thousand blocks.

use super::pool::{Piece, Pool};
use super::{BlockAt, BlockBytes, BlockFiles, RECORD_HEADER_BYTES};
use crate::fault::Result;
#[cfg(feature = "ablation")]
use kernels::ideas::Idea;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Gaps of up to this many bytes between two blocks are read, not skipped.
const GAP_BYTES_MAX: u64 = 64 * 1024;

/// Bytes of a read while bulk reads are disabled: stdio's buffer size.
#[cfg(feature = "ablation")]
const STDIO_BYTES: usize = 4096;

/// Reads blocks in large pieces, on its own thread, which waits for the disk.
#[derive(Debug)]
pub struct BulkReader {
    files: Arc<BlockFiles>,
    pool: Arc<Pool>,
    /// Blocks are dropped from the page cache after reading.
    drops_behind: bool,
}

/// Neighbouring blocks that one read covers.
struct Run {
    file: u32,
    /// Offset of the read in the file: the header of the first record.
    start: u64,
    end: u64,
    /// Offset in the buffer.
    buffer_offset: usize,
}

impl Run {
    fn bytes(&self) -> usize {
        (self.end - self.start) as usize
    }
}

impl BulkReader {
    /// A reader of `files` into buffers from `pool`.
    pub fn new(files: Arc<BlockFiles>, pool: Arc<Pool>) -> BulkReader {
        BulkReader { files, pool, drops_behind: false }
    }

    /// Sets whether blocks are dropped from the page cache after reading. Blocks that are read only once then leave it
    /// to the coins' tables, if memory does not hold both.
    pub fn drop_behind(&mut self, drops: bool) {
        self.drops_behind = drops;
    }

    /// Reads the first blocks of `wanted`, as many as fit one buffer and at least one (an empty list gives an empty
    /// result); results are in the order of `wanted`. Waits for a buffer. Returns `None` once the pool is closed, or
    /// when `is_wanted`, called while it waits, returns false. The waiting time is added to `waited`.
    ///
    /// Each block must have the size given in `wanted`, and its record must agree. A failure affects only the blocks
    /// concerned: a failed read is repeated block by block.
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
            // A single block larger than a buffer gets its own memory, no larger than its file.
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

    /// The block whose record starts at offset `at` of the buffer.
    fn hand_out(&self, block: &BlockAt, piece: &Arc<Piece>, at: usize) -> Result<BlockBytes> {
        let header = *piece.bytes()[at..].first_chunk().expect("the record was read");
        self.files.check_record_header(block.file, block.offset, header, Some(block.size))?;
        let start = at + RECORD_HEADER_BYTES as usize;
        Ok(BlockBytes::new(piece, start, start + block.size as usize))
    }

    /// Reads one block separately, into its own memory.
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

/// The number of blocks to read, the reads, and for each block its read and the place of its record in the buffer.
fn plan(wanted: &[BlockAt], buffer_bytes: usize) -> (usize, Vec<Run>, Vec<(usize, usize)>) {
    let record = |block: &BlockAt| block.size as usize + RECORD_HEADER_BYTES as usize;
    let mut count = 0;
    let mut bytes = 0;
    while count < wanted.len() && (count == 0 || bytes + record(&wanted[count]) <= buffer_bytes) {
        bytes += record(&wanted[count]);
        count += 1;
    }
    // The gaps may use the space that the blocks leave.
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
