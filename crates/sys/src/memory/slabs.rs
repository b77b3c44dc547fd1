//! Buffers cut from huge pages.
//!
//! A slab is one huge page, cut into runs of ordinary pages. A buffer takes the shortest sufficient free run of the
//! first slab that has one; freed runs merge with their free neighbours. So buffers of any size fill the gaps between
//! others, and the last slabs become empty first; an empty slab is returned to the system. (Slabs with pieces of one
//! size each were measured: tables of all sizes that a small set grows through used four times their bytes.)
//!
//! All jobs of the process share one pool of slabs, guarded by one lock: buffers are large and long-lived.

use super::{Buffer, CutMemory, HUGE_PAGE_BYTES, Memory, Pages};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Larger buffers have separate pages.
pub(super) const PIECE_BYTES_MAX: usize = HUGE_PAGE_BYTES / 2;
/// Pieces are whole pages.
const PAGE_BYTES: usize = super::ALIGNMENT;
const SLAB_PAGES: usize = HUGE_PAGE_BYTES / PAGE_BYTES;
const WORDS: usize = SLAB_PAGES / 64;

/// A set of a slab's pages.
type PageSet = [u64; WORDS];

/// A huge page and the set of its pages in use.
struct Slab {
    /// Its bytes are never accessed through this, only through the pieces.
    whole: Arc<Buffer>,
    taken: PageSet,
    /// Pages that have ever been in use; the others are still zero.
    used: PageSet,
}

/// All slabs. A slab keeps its number as long as it exists.
struct Slabs {
    kind: Pages,
    slabs: Vec<Option<Slab>>,
    /// For each number the longest free run in pages: 0 if there is no slab.
    longest: Vec<u16>,
    /// Numbers without a slab, the greatest first.
    absent: Vec<usize>,
    /// Pages in use.
    pages_out: usize,
}

type Pool = Mutex<Slabs>;

static SLABS: Pool = Mutex::new(Slabs::new(Pages::Huge));

/// Slabs with ordinary pages, to measure the effect of huge ones.
#[cfg(feature = "ablation")]
static SMALL_SLABS: Pool = Mutex::new(Slabs::new(Pages::Small));

fn lock(pool: &Pool) -> MutexGuard<'_, Slabs> {
    pool.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory of all slabs now.
pub(super) fn memory() -> CutMemory {
    let memory = lock(&SLABS).memory();
    #[cfg(feature = "ablation")]
    let memory = {
        let small = lock(&SMALL_SLABS).memory();
        CutMemory { bytes: memory.bytes + small.bytes, bytes_out: memory.bytes_out + small.bytes_out }
    };
    memory
}

/// A buffer of `bytes` zero bytes, which are at least 1 and at most [`PIECE_BYTES_MAX`].
pub(super) fn cut(bytes: usize) -> Buffer {
    cut_from(&SLABS, bytes)
}

/// [`cut`] with ordinary pages.
#[cfg(feature = "ablation")]
pub(super) fn cut_small(bytes: usize) -> Buffer {
    cut_from(&SMALL_SLABS, bytes)
}

fn cut_from(pool: &'static Pool, bytes: usize) -> Buffer {
    let pages = bytes.div_ceil(PAGE_BYTES);
    let (cut, is_used) = take(pool, pages);
    // SAFETY: page `first` is inside the slab.
    let start = unsafe { cut.whole.start.add(cut.first * PAGE_BYTES) };
    let mut buffer = Buffer { start, bytes, memory: Some(Box::new(Memory::Cut(cut))) };
    if is_used {
        buffer.fill(0);
    }
    buffer
}

/// This number of pages of one slab, and whether any of them was used before.
fn take(pool: &'static Pool, pages: usize) -> (Cut, bool) {
    let mut slabs = lock(pool);
    let slabs = &mut *slabs;
    let number = match slabs.longest.iter().position(|&longest| usize::from(longest) >= pages) {
        Some(number) => number,
        None => slabs.add(),
    };
    let slab = slabs.slabs[number].as_mut().expect("an absent one has no free run");
    let fitting = runs(&slab.taken).filter(|(_, length)| *length >= pages);
    let (first, _) = fitting.min_by_key(|(_, length)| *length).expect("the longest run fits");
    let is_used = set(&mut slab.used, first, pages, true) > 0;
    set(&mut slab.taken, first, pages, true);
    slabs.longest[number] = longest(&slab.taken);
    slabs.pages_out += pages;
    (Cut { pool, whole: slab.whole.clone(), number, first, pages }, is_used)
}

impl Slabs {
    const fn new(kind: Pages) -> Slabs {
        Slabs { kind, slabs: Vec::new(), longest: Vec::new(), absent: Vec::new(), pages_out: 0 }
    }

    fn memory(&self) -> CutMemory {
        let count = self.slabs.len() - self.absent.len();
        CutMemory { bytes: count * HUGE_PAGE_BYTES, bytes_out: self.pages_out * PAGE_BYTES }
    }

    /// Adds a slab; returns its number.
    fn add(&mut self) -> usize {
        let whole = Buffer::with_pages(HUGE_PAGE_BYTES, self.kind);
        let whole = Arc::new(whole.unwrap_or_else(|_| crate::allocator::out_of_memory(HUGE_PAGE_BYTES)));
        let slab = Slab { whole, taken: [0; WORDS], used: [0; WORDS] };
        let number = self.absent.pop().unwrap_or(self.slabs.len());
        if number == self.slabs.len() {
            self.slabs.push(None);
            self.longest.push(0);
        }
        self.slabs[number] = Some(slab);
        number
    }

    /// Frees pages. If they were the slab's last ones in use, returns the slab, to be dropped without the lock.
    fn give_back(&mut self, cut: &Cut) -> Option<Slab> {
        let place = self.slabs.get_mut(cut.number)?;
        let slab = place.as_mut()?;
        set(&mut slab.taken, cut.first, cut.pages, false);
        self.pages_out -= cut.pages;
        if slab.taken != [0; WORDS] {
            self.longest[cut.number] = longest(&slab.taken);
            return None;
        }
        self.longest[cut.number] = 0;
        let at = self.absent.partition_point(|&other| other > cut.number);
        self.absent.insert(at, cut.number);
        place.take()
    }
}

/// The free runs: first page and length.
fn runs(taken: &PageSet) -> impl Iterator<Item = (usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        at = next(taken, at, false);
        if at == SLAB_PAGES {
            return None;
        }
        let first = at;
        at = next(taken, at, true);
        Some((first, at - first))
    })
}

/// The first page from `at` on that is taken, or free.
fn next(taken: &PageSet, mut at: usize, is_taken: bool) -> usize {
    while at < SLAB_PAGES {
        let word = if is_taken { taken[at / 64] } else { !taken[at / 64] };
        let rest = word >> (at % 64);
        if rest != 0 {
            return at + rest.trailing_zeros() as usize;
        }
        at = (at / 64 + 1) * 64;
    }
    SLAB_PAGES
}

fn longest(taken: &PageSet) -> u16 {
    runs(taken).map(|(_, length)| length).max().unwrap_or(0) as u16
}

/// Adds pages to a set or removes them; returns how many of them were in it.
fn set(pages: &mut PageSet, first: usize, count: usize, is_in: bool) -> u32 {
    let mut at = first;
    let end = first + count;
    let mut before = 0;
    while at < end {
        let bits = (end - at).min(64 - at % 64);
        let mask = (u64::MAX >> (64 - bits)) << (at % 64);
        let word = &mut pages[at / 64];
        before += (*word & mask).count_ones();
        if is_in {
            *word |= mask
        } else {
            *word &= !mask
        }
        at += bits;
    }
    before
}

/// Pages of a slab in use: nothing else reads or writes them. They are freed on drop.
pub(super) struct Cut {
    pool: &'static Pool,
    whole: Arc<Buffer>,
    number: usize,
    first: usize,
    pages: usize,
}

impl Drop for Cut {
    fn drop(&mut self) {
        // The memory of an empty slab is freed with `self`, its last holder, after the lock is released.
        let empty = lock(self.pool).give_back(self);
        drop(empty);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::{Rng, rounds};

    /// Random buffers of a few sizes come and go: each is zero at first, and holds what was written into it alone.
    #[test]
    fn pieces_are_zeroed_and_not_shared() {
        let sizes = [1, 4096, 5000, 100_000, 300_000, PIECE_BYTES_MAX];
        // Miri reads byte by byte.
        let sizes = if cfg!(miri) { &sizes[..3] } else { &sizes[..] };
        let mut held: Vec<(Buffer, u8)> = Vec::new();
        let mut rng = Rng::new(5);
        for round in 0..rounds(3000) {
            if rng.one_in(4) && !held.is_empty() {
                let (buffer, byte) = held.swap_remove(rng.below(held.len()));
                assert!(buffer.iter().all(|have| *have == byte), "round {round}");
            } else if held.len() < 60 {
                let mut buffer = Buffer::cut(*rng.pick(sizes));
                assert!(buffer.iter().all(|have| *have == 0), "round {round}: zeroed");
                assert!(buffer.as_ptr().addr().is_multiple_of(PAGE_BYTES));
                buffer.fill(round as u8 | 1);
                held.push((buffer, round as u8 | 1));
            }
        }
        for (buffer, byte) in &held {
            assert!(buffer.iter().all(|have| have == byte));
        }
    }

    /// The numbers of pages that are taken, as a plain list of bits says them.
    #[test]
    fn sets_of_pages_are_as_bit_by_bit() {
        let mut rng = Rng::new(8);
        let (mut pages, mut plain) = ([0; WORDS], [false; SLAB_PAGES]);
        for _ in 0..rounds(2000) {
            let first = rng.below(SLAB_PAGES);
            let count = 1 + rng.below((SLAB_PAGES - first).min(100));
            let is_in = rng.one_in(2);
            let before = plain[first..first + count].iter().filter(|taken| **taken).count();
            assert_eq!(set(&mut pages, first, count, is_in) as usize, before);
            plain[first..first + count].fill(is_in);
            let mut want = Vec::new();
            for (at, _) in plain.iter().enumerate().filter(|(_, taken)| !**taken) {
                match want.last_mut() {
                    Some((first, length)) if *first + *length == at => *length += 1,
                    _ => want.push((at, 1)),
                }
            }
            assert_eq!(runs(&pages).collect::<Vec<_>>(), want);
        }
    }

    /// Buffers of many sizes come and go for long: slabs stay close to what is out.
    #[test]
    fn slabs_waste_little() {
        let mut slabs = Vec::new();
        let mut held: Vec<(usize, usize, usize)> = Vec::new();
        let (mut out, mut rng) = (0, Rng::new(3));
        let mut worst: f64 = 1.0;
        for round in 0..rounds(20_000) {
            // As tables do: 4 pages and more, by quarters of a power of two.
            let pages = (4 + rng.below(4)) << rng.below(5);
            if out + pages > 40 * SLAB_PAGES || rng.one_in(3) && !held.is_empty() {
                let (number, first, pages): (usize, usize, usize) = held.swap_remove(rng.below(held.len()));
                set(&mut slabs[number], first, pages, false);
                out -= pages;
                continue;
            }
            let fits = |taken: &PageSet| usize::from(longest(taken)) >= pages;
            let number = slabs.iter().position(fits).unwrap_or(slabs.len());
            if number == slabs.len() {
                slabs.push([0; WORDS]);
            }
            let fitting = runs(&slabs[number]).filter(|(_, length)| *length >= pages);
            let (first, _) = fitting.min_by_key(|(_, length)| *length).unwrap();
            set(&mut slabs[number], first, pages, true);
            held.push((number, first, pages));
            out += pages;
            let count = slabs.iter().filter(|taken| **taken != [0; WORDS]).count();
            if round > 1000 {
                worst = worst.max((count * SLAB_PAGES) as f64 / out as f64);
            }
        }
        assert!(worst < 1.25, "{worst:.2} times what is out");
    }

    #[test]
    fn memory_of_slabs_is_counted() {
        let bytes = 40 * PIECE_BYTES_MAX;
        let held: Vec<Buffer> = (0..40).map(|_| Buffer::cut(PIECE_BYTES_MAX)).collect();
        let now = memory();
        // Other tests have buffers at the same time.
        assert!(now.bytes_out >= bytes && now.bytes >= now.bytes_out, "{now:?}");
        assert!(held.windows(2).all(|two| two[0].as_ptr().addr().abs_diff(two[1].as_ptr().addr()) >= PIECE_BYTES_MAX));
        drop(held);
        assert!(memory().bytes_out < now.bytes_out, "{now:?}");
        assert_eq!((Buffer::cut(0).len(), Buffer::cut(PIECE_BYTES_MAX + 1).len()), (0, PIECE_BYTES_MAX + 1));
    }
}
