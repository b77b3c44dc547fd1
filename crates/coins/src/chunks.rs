//! The memory of a table's records: chunks that never move, and free lists.
//!
//! An address consists of a chunk and a place in units of four bytes. A freed record is put on a list for its size, and
//! reused from there.
//!
//! freed record:  next u32 | count u32 | addresses [u32; count]
//!
//! The first record of a list stores the addresses of other free records, as many as fit (7 in the shortest record);
//! these others are not written to while they are free. So reuse reads a record that was accessed recently, and rarely
//! one that has left the processor's caches. (A list that is linked from record to record took a twelfth of the time of
//! spending and creating.)
//!
//! Absent on purpose: the contents of a record (`record`), and the search for it (`table`).

use kernels::Kernels;
use sys::memory::Buffer;

/// Bits of an address for the unit within its chunk: 2^18 units of 4 bytes are 1 MiB.
const CHUNK_UNITS_LOG2: u32 = 18;
const UNIT: usize = 4;
/// Chunks grow with the table up to this size.
const CHUNK_BYTES_MAX: usize = UNIT << CHUNK_UNITS_LOG2;
const CHUNK_BYTES_MIN: usize = 8 << 10;
/// Minimum number of records that an additional chunk has space for, whatever their length.
const LONG_RECORDS_MIN: usize = 3;
/// Memory is allocated in pages.
pub(crate) const PAGE_BYTES: usize = 4096;
/// Units of a freed record that are not addresses of others.
const LIST_UNITS: usize = 2;
/// No address; chunk numbers stay far below it.
const NOWHERE: u32 = u32::MAX;

/// The memory of a table's records.
pub(crate) struct Chunks {
    kernels: Kernels,
    chunks: Vec<Buffer>,
    /// Used bytes of the last chunk.
    used: usize,
    /// Lists of freed records by size in units: the first record of each.
    free: Vec<u32>,
    /// Bytes of all chunks.
    bytes: usize,
}

impl Chunks {
    /// No chunks yet; `kernels` chooses the size of their pages.
    pub(crate) fn new(kernels: Kernels) -> Chunks {
        Chunks { kernels, chunks: Vec::new(), used: 0, free: Vec::new(), bytes: 0 }
    }

    /// Bytes of all chunks.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The record at an address, and the bytes after it in its chunk.
    #[inline]
    pub(crate) fn record(&self, address: u32) -> &[u8] {
        let (chunk, at) = split(address);
        &self.chunks[chunk][at..]
    }

    /// [`Chunks::record`], mutable.
    #[inline]
    pub(crate) fn record_mut(&mut self, address: u32) -> &mut [u8] {
        let (chunk, at) = split(address);
        &mut self.chunks[chunk][at..]
    }

    /// Prefetches the cache lines with the bytes `first` and `last` of a record.
    #[inline]
    pub(crate) fn prefetch(&self, address: u32, first: usize, last: usize) {
        let (chunk, at) = split(address);
        self.kernels.prefetch(&self.chunks[chunk], at + first);
        self.kernels.prefetch(&self.chunks[chunk], at + last);
    }

    /// Prefetches the list of chunks, which every look-up of a record reads.
    #[inline]
    pub(crate) fn prefetch_list(&self) {
        for at in (0..self.chunks.len()).step_by(64 / size_of::<Buffer>()) {
            self.kernels.prefetch(&self.chunks, at);
        }
    }

    /// Prefetches the memory that [`Chunks::allocate`] and the record's writer will touch, if `behind` bytes of new
    /// records come before it. Returns the bytes that the record uses.
    #[inline]
    pub(crate) fn prefetch_room(&self, behind: usize, bytes: usize) -> usize {
        let units = bytes.div_ceil(UNIT);
        if let Some(first) = self.first_free(units) {
            let (chunk, at) = split(first);
            self.kernels.prefetch(&self.chunks[chunk], at);
        }
        if let Some(chunk) = self.chunks.last() {
            self.kernels.prefetch(chunk, self.used + behind);
            self.kernels.prefetch(chunk, self.used + behind + bytes - 1);
        }
        units * UNIT
    }

    #[inline]
    fn first_free(&self, units: usize) -> Option<u32> {
        self.free.get(units).copied().filter(|first| *first != NOWHERE)
    }

    /// An address for `bytes`: a freed record of that size, otherwise the end of the last chunk, otherwise a new chunk.
    #[inline]
    pub(crate) fn allocate(&mut self, bytes: usize) -> u32 {
        let units = bytes.div_ceil(UNIT);
        if let Some(first) = self.first_free(units) {
            let record = self.record_mut(first);
            let count = word(record, 1) as usize;
            if count > 0 {
                let address = word(record, LIST_UNITS + count - 1);
                put_word(record, 1, count as u32 - 1);
                return address;
            }
            self.free[units] = word(record, 0);
            return first;
        }
        let bytes = units * UNIT;
        if self.chunks.last().is_none_or(|chunk| chunk.len() - self.used < bytes) {
            self.add_chunk(bytes);
        }
        self.used += bytes;
        join(self.chunks.len() - 1, self.used - bytes)
    }

    /// A chunk with room for some records of this size.
    #[cold]
    fn add_chunk(&mut self, record_bytes: usize) {
        // Whole records of this size, so that long ones waste little space.
        let least = if self.chunks.is_empty() { 1 } else { LONG_RECORDS_MIN };
        let records = (chunk_bytes(self.bytes) / record_bytes).max(least);
        let next = (records * record_bytes).next_multiple_of(PAGE_BYTES);
        self.bytes += next;
        self.chunks.push(self.kernels.cut(next));
        self.used = 0;
    }

    /// Frees the allocation of a record of `bytes`.
    #[inline]
    pub(crate) fn release(&mut self, address: u32, bytes: usize) {
        let units = bytes.div_ceil(UNIT);
        if self.free.len() <= units {
            self.free.resize(units + 1, NOWHERE);
        }
        let first = self.free[units];
        if first != NOWHERE {
            let record = self.record_mut(first);
            let count = word(record, 1) as usize;
            if LIST_UNITS + count < units {
                put_word(record, LIST_UNITS + count, address);
                put_word(record, 1, count as u32 + 1);
                return;
            }
        }
        let record = self.record_mut(address);
        put_word(record, 0, first);
        put_word(record, 1, 0);
        self.free[units] = address;
    }
}

/// Size of the next chunk after `bytes` of chunks: a sixteenth of them or somewhat more, in quarters of a power of two,
/// because memory is cut separately for each size.
fn chunk_bytes(have: usize) -> usize {
    let want = (have / 16).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
    want.next_multiple_of((1 << want.ilog2()) / 4).next_multiple_of(PAGE_BYTES)
}

#[inline]
fn split(address: u32) -> (usize, usize) {
    ((address >> CHUNK_UNITS_LOG2) as usize, (address & ((1 << CHUNK_UNITS_LOG2) - 1)) as usize * UNIT)
}

#[inline]
fn join(chunk: usize, at: usize) -> u32 {
    assert!(chunk < 1 << (32 - CHUNK_UNITS_LOG2), "a shard holds at most 16 GiB");
    (chunk as u32) << CHUNK_UNITS_LOG2 | (at / UNIT) as u32
}

/// The number at `index` of a freed record.
#[inline]
fn word(record: &[u8], index: usize) -> u32 {
    u32::from_le_bytes(*record[index * UNIT..].first_chunk().expect("a record has its units"))
}

#[inline]
fn put_word(record: &mut [u8], index: usize, word: u32) {
    record[index * UNIT..][..UNIT].copy_from_slice(&word.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Rng;

    /// Records of some sizes come and go: none shares a byte with another, and what was freed is taken again.
    #[test]
    fn records_do_not_share_bytes() {
        let (mut chunks, mut rng) = (Chunks::new(Kernels::AUTO), Rng::new(11));
        let mut held: Vec<(u32, usize, u8)> = Vec::new();
        let (mut out, mut most) = (0, 0);
        for round in 0..60_000 {
            let more = if round / 5000 % 2 == 0 { 7 } else { 3 };
            if held.is_empty() || rng.below(10) < more {
                let bytes = 35 + rng.below(12);
                let address = chunks.allocate(bytes);
                chunks.record_mut(address)[..bytes].fill(round as u8);
                held.push((address, bytes, round as u8));
                out += bytes.next_multiple_of(UNIT);
                most = most.max(out);
            } else {
                let (address, bytes, byte) = held.swap_remove(rng.below(held.len()));
                assert!(chunks.record(address)[..bytes].iter().all(|have| *have == byte), "round {round}");
                chunks.release(address, bytes);
                out -= bytes.next_multiple_of(UNIT);
            }
        }
        assert!(held.iter().all(|(address, bytes, byte)| chunks.record(*address)[..*bytes].iter().all(|b| b == byte)));
        assert!(chunks.bytes() < most * 3 / 2, "{} bytes for {most}: what is freed is taken again", chunks.bytes());
    }

    /// As many as were freed are taken again before any room is, whatever their number.
    #[test]
    fn freed_records_are_all_taken_again() {
        for (units, count) in [(9, 1), (9, 7), (9, 8), (9, 9), (17, 100), (400, 1000)] {
            let mut chunks = Chunks::new(Kernels::AUTO);
            let bytes = units * UNIT;
            let mut first: Vec<u32> = (0..count).map(|_| chunks.allocate(bytes)).collect();
            let (used, all) = (chunks.used, chunks.bytes);
            first.iter().for_each(|address| chunks.release(*address, bytes));
            let mut again: Vec<u32> = (0..count).map(|_| chunks.allocate(bytes)).collect();
            assert_eq!((chunks.used, chunks.bytes), (used, all), "{units} units, {count} records");
            first.sort_unstable();
            again.sort_unstable();
            assert_eq!(first, again, "{units} units, {count} records");
        }
    }
}
