//! Memory in large pages: zeroed, mapped from the system directly and returned to it, without an allocator.
//!
//! [`Buffer`] is bytes, [`Array`] is the same for a type for which zero bytes are a valid value ([`Zeroed`]). A page
//! uses memory only once it is touched. Tables with random reads gain a third to a half from 2 MiB pages (fewer TLB
//! misses); the system provides them if it can (`MADV_HUGEPAGE`). Smaller buffers have huge pages too if they are cut
//! from a larger one ([`Buffer::cut`]).
//!
//! Absent on purpose: growth (a table grows by allocating a new one, records by another buffer), file maps (see
//! [`crate::map`]).

mod slabs;

use std::io;
use std::marker::PhantomData;
use std::num::NonZero;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;

use memmap2::{MmapMut, MmapOptions};

/// Bytes of a huge page on the known machines (x86-64, and aarch64 with 4 KiB pages).
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The page size to request from the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// The system's ordinary pages, 4 KiB on x86-64.
    Small,
    /// 2 MiB pages if the system has them, otherwise ordinary ones.
    Huge,
}

/// Memory used by buffers that are cut from larger ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CutMemory {
    /// Bytes of the larger ones.
    pub bytes: usize,
    /// Bytes of the buffers, in whole pages.
    pub bytes_out: usize,
}

/// Zeroed bytes in separate pages, aligned to 2 MiB if they are at least as many.
pub struct Buffer {
    /// The first byte: inside `memory` (in a map, at the first multiple of 2 MiB), or dangling if `bytes` is 0. Aligned
    /// to at least 4 KiB.
    start: NonNull<u8>,
    bytes: usize,
    /// The memory that `start` points into; `None` if `bytes` is 0. Held only to keep the memory. May be larger than
    /// `bytes`: untouched pages use no memory. Boxed, because tables have many buffers in a row.
    #[cfg_attr(not(all(target_os = "linux", not(miri))), expect(dead_code, reason = "held for what its drop does"))]
    memory: Option<Box<Memory>>,
}

/// The source of a buffer's bytes.
enum Memory {
    Map(#[cfg_attr(not(all(target_os = "linux", not(miri))), expect(dead_code))] MmapMut),
    /// A piece of a larger buffer, used by nothing else until this is dropped.
    Cut(#[expect(dead_code, reason = "held for what its drop does")] slabs::Cut),
}

// SAFETY: the buffer owns the bytes that `start` points to, as a boxed slice would.
unsafe impl Send for Buffer {}
// SAFETY: as above; shared references only read.
unsafe impl Sync for Buffer {}

/// Every buffer, even an empty one, is aligned to this.
const ALIGNMENT: usize = 4096;

impl Buffer {
    /// Returns `bytes` zero bytes, in huge pages if there are enough to fill one.
    ///
    /// If the system refuses the address space the program ends ([`crate::allocator::out_of_memory`]);
    /// [`Buffer::with_pages`] returns an error instead.
    #[must_use]
    pub fn new(bytes: usize) -> Buffer {
        match Buffer::with_pages(bytes, Pages::Huge) {
            Ok(buffer) => buffer,
            Err(_) => crate::allocator::out_of_memory(bytes),
        }
    }

    /// [`Buffer::new`] with a choice of pages.
    ///
    /// # Errors
    ///
    /// The system's error if it refuses the address space.
    pub fn with_pages(bytes: usize, pages: Pages) -> io::Result<Buffer> {
        if bytes == 0 {
            let start = NonNull::without_provenance(const { NonZero::new(ALIGNMENT).expect("not 0") });
            return Ok(Buffer { start, bytes, memory: None });
        }
        let slack = if bytes >= HUGE_PAGE_BYTES { HUGE_PAGE_BYTES } else { 0 };
        let total = bytes.checked_add(slack).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut map = MmapOptions::new().len(total).map_anon()?;
        let skip = if slack == 0 { 0 } else { map.as_ptr().align_offset(HUGE_PAGE_BYTES) };
        if pages == Pages::Huge && slack != 0 {
            advise_huge(&map, skip, bytes);
        }
        let start = NonNull::from_mut(&mut map[skip..skip + bytes]).cast::<u8>();
        assert!(start.addr().get().is_multiple_of(ALIGNMENT), "the system maps whole pages");
        Ok(Buffer { start, bytes, memory: Some(Box::new(Memory::Map(map))) })
    }

    /// [`Buffer::new`], except that a buffer that is too small for a separate huge page shares one with others. For
    /// many buffers with random reads. Uses whole pages of 4 KiB.
    #[must_use]
    pub fn cut(bytes: usize) -> Buffer {
        if bytes == 0 || bytes > slabs::PIECE_BYTES_MAX { Buffer::new(bytes) } else { slabs::cut(bytes) }
    }

    /// [`Buffer::cut`] with ordinary pages, to measure the effect of huge ones.
    #[cfg(feature = "ablation")]
    #[must_use]
    pub fn cut_small(bytes: usize) -> Buffer {
        if bytes == 0 || bytes > slabs::PIECE_BYTES_MAX {
            return Buffer::with_pages(bytes, Pages::Small).unwrap_or_else(|_| crate::allocator::out_of_memory(bytes));
        }
        slabs::cut_small(bytes)
    }

    /// Memory used by the buffers of [`Buffer::cut`] now, in the whole process.
    #[must_use]
    pub fn cut_memory() -> CutMemory {
        slabs::memory()
    }

    /// The bytes as 32-bit numbers in this machine's byte order; an incomplete last one is left out.
    #[must_use]
    pub fn as_u32s(&self) -> &[u32] {
        view(self)
    }

    /// [`Buffer::as_u32s`], mutable.
    pub fn as_u32s_mut(&mut self) -> &mut [u32] {
        view_mut(self)
    }

    /// The bytes as 64-bit numbers in this machine's byte order; an incomplete last one is left out.
    #[must_use]
    pub fn as_u64s(&self) -> &[u64] {
        view(self)
    }

    /// [`Buffer::as_u64s`], mutable.
    pub fn as_u64s_mut(&mut self) -> &mut [u64] {
        view_mut(self)
    }

    /// Zeroes the bytes in `range`, and returns the whole pages among them to the system if it supports that (Linux).
    ///
    /// # Panics
    ///
    /// If `range` is not within the buffer.
    pub fn clear(&mut self, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.bytes, "{range:?} of {}", self.bytes);
        let whole = range.start.next_multiple_of(RELEASE_BYTES)..range.end / RELEASE_BYTES * RELEASE_BYTES;
        if whole.start < whole.end && self.release(whole.clone()) {
            self[range.start..whole.start].fill(0);
            self[whole.end..range.end].fill(0);
        } else {
            self[range].fill(0);
        }
    }

    /// Returns the pages of `range` to the system; true if they read as zero from now on.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn release(&mut self, range: Range<usize>) -> bool {
        let Some(Memory::Map(map)) = self.memory.as_deref() else { return false };
        let skip = self.start.addr().get() - map.as_ptr().addr();
        let offset = skip + range.start;
        let bytes = range.end - range.start;
        // SAFETY: the range is inside the private anonymous mapping, which `&mut self` holds alone.
        // After MADV_DONTNEED Linux gives such pages as zero bytes, and any bytes are valid u8s.
        unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, offset, bytes).is_ok() }
    }

    /// Other systems do not promise zero bytes.
    #[cfg(not(all(target_os = "linux", not(miri))))]
    fn release(&mut self, _: Range<usize>) -> bool {
        false
    }
}

/// [`Buffer::clear`] returns multiples of this size: no supported system has larger pages.
const RELEASE_BYTES: usize = 64 << 10;

/// Requests huge pages. A hint: if it is refused, ordinary pages are used.
#[cfg(all(target_os = "linux", not(miri)))]
fn advise_huge(map: &MmapMut, start: usize, bytes: usize) {
    let _ = map.advise_range(memmap2::Advice::HugePage, start, bytes);
}

/// Other systems decide this themselves.
#[cfg(not(all(target_os = "linux", not(miri))))]
fn advise_huge(_: &MmapMut, _: usize, _: usize) {}

impl Deref for Buffer {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: `bytes` bytes of `memory` (or none), zeroed first, borrowed as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for Buffer {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; the borrow is exclusive, and nothing else has these bytes.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes)", self.bytes)
    }
}

/// A type for which any bytes, including all zeros, are a valid value.
///
/// # Safety
///
/// No padding, no invalid bit pattern, no interior mutability, no destructor.
pub unsafe trait Zeroed: Copy + Send + Sync + 'static {}

macro_rules! zeroed {
    ($($number:ty),*) => { $(
        // SAFETY: an integer: every bit pattern is a value, and it has no padding.
        unsafe impl Zeroed for $number {}
    )* };
}
zeroed!(u8, u16, u32, u64, u128, i32, i64, usize);

// SAFETY: the items follow each other without padding; each is `Zeroed`.
unsafe impl<T: Zeroed, const N: usize> Zeroed for [T; N] {}

/// The whole `T`s at the start of the buffer.
#[inline(always)]
fn view<T: Zeroed>(buffer: &Buffer) -> &[T] {
    const { assert!(size_of::<T>() > 0 && align_of::<T>() <= ALIGNMENT) };
    let count = buffer.bytes / size_of::<T>();
    // SAFETY: `start` is aligned to more than a `T`, `count` of them are inside the buffer, and any
    // bytes are a `T` (`Zeroed`). The borrow is kept.
    unsafe { std::slice::from_raw_parts(buffer.start.cast().as_ptr(), count) }
}

/// [`view`], mutable.
#[inline(always)]
fn view_mut<T: Zeroed>(buffer: &mut Buffer) -> &mut [T] {
    const { assert!(size_of::<T>() > 0 && align_of::<T>() <= ALIGNMENT) };
    let count = buffer.bytes / size_of::<T>();
    // SAFETY: as in `view`; the borrow is exclusive, and any `T` is bytes (no padding).
    unsafe { std::slice::from_raw_parts_mut(buffer.start.cast().as_ptr(), count) }
}

/// A [`Buffer`] of items: zeroed, in huge pages if it is large enough, of fixed length.
pub struct Array<T> {
    buffer: Buffer,
    items: PhantomData<T>,
}

impl<T: Zeroed> Array<T> {
    /// Returns `count` items of zero bytes.
    ///
    /// # Panics
    ///
    /// Those of [`Buffer::new`].
    #[must_use]
    pub fn new(count: usize) -> Array<T> {
        Array::of(Buffer::new(Array::<T>::bytes_of(count)))
    }

    /// The whole items at the start of a buffer.
    #[must_use]
    pub fn of(buffer: Buffer) -> Array<T> {
        Array { buffer, items: PhantomData }
    }

    /// Bytes of this number of items.
    ///
    /// # Panics
    ///
    /// If the size overflows.
    #[must_use]
    pub fn bytes_of(count: usize) -> usize {
        count.checked_mul(size_of::<T>()).expect("an array fits the address space")
    }

    /// [`Array::new`] with a choice of pages.
    ///
    /// # Errors
    ///
    /// Those of [`Buffer::with_pages`].
    pub fn with_pages(count: usize, pages: Pages) -> io::Result<Array<T>> {
        let bytes = count.checked_mul(size_of::<T>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Array { buffer: Buffer::with_pages(bytes, pages)?, items: PhantomData })
    }

    /// Zeroes every item, and returns the pages to the system if it supports that.
    pub fn clear(&mut self) {
        let bytes = self.buffer.bytes;
        self.buffer.clear(0..bytes);
    }
}

impl<T: Zeroed> Deref for Array<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        view(&self.buffer)
    }
}

impl<T: Zeroed> DerefMut for Array<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        view_mut(&mut self.buffer)
    }
}

impl<T: Zeroed> std::fmt::Debug for Array<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Array({} items of {} bytes)", self.len(), size_of::<T>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::rounds;

    #[test]
    fn buffer_is_zeroed_aligned_and_clears() {
        let sizes = [0, 1, 4095, 4096, 100_000, HUGE_PAGE_BYTES, 3 * HUGE_PAGE_BYTES + 5];
        for bytes in sizes.into_iter().take(if cfg!(miri) { 4 } else { 7 }) {
            for pages in [Pages::Small, Pages::Huge] {
                let mut buffer = Buffer::with_pages(bytes, pages).unwrap();
                assert_eq!(buffer.len(), bytes);
                assert!(buffer.iter().all(|byte| *byte == 0), "{bytes}: zeroed");
                if bytes >= HUGE_PAGE_BYTES {
                    assert!(buffer.as_ptr().addr().is_multiple_of(HUGE_PAGE_BYTES), "{bytes}: aligned");
                }
                let range = bytes / 3..bytes - bytes / 4;
                buffer.fill(7);
                buffer.clear(range.clone());
                for (at, byte) in buffer.iter().enumerate() {
                    assert_eq!(*byte, if range.contains(&at) { 0 } else { 7 }, "{bytes}: byte {at}");
                }
            }
        }
    }

    #[test]
    fn numbers_are_the_bytes() {
        let mut buffer = Buffer::new(23);
        for (at, byte) in (0..).zip(buffer.iter_mut()) {
            *byte = at;
        }
        assert_eq!(
            buffer.as_u64s(),
            [u64::from_ne_bytes([0, 1, 2, 3, 4, 5, 6, 7]), u64::from_ne_bytes([8, 9, 10, 11, 12, 13, 14, 15])]
        );
        assert_eq!(buffer.as_u32s().len(), 5);
        buffer.as_u32s_mut()[4] = u32::from_ne_bytes([9, 9, 9, 8]);
        buffer.as_u64s_mut()[0] = 0;
        assert_eq!(buffer[..], [0, 0, 0, 0, 0, 0, 0, 0, 8, 9, 10, 11, 12, 13, 14, 15, 9, 9, 9, 8, 20, 21, 22]);
        assert_eq!(Buffer::new(0).as_u64s_mut().len(), 0);
    }

    #[test]
    fn array_holds_items() {
        let mut array = Array::<[u64; 3]>::new(rounds(100_000));
        let last = rounds(100_000) - 1;
        assert_eq!((array.len(), array[last]), (last + 1, [0; 3]));
        array[last] = [1, 2, 3];
        assert_eq!(array.iter().flatten().sum::<u64>(), 6);
        array.clear();
        assert_eq!(array.iter().flatten().sum::<u64>(), 0);
        assert!(Array::<u64>::with_pages(usize::MAX / 8 + 1, Pages::Huge).is_err(), "too large a count");
        assert!(Buffer::with_pages(usize::MAX - 4096, Pages::Small).is_err(), "too many bytes");
        assert_eq!(Array::<u32>::new(0).len(), 0);
    }
}
