//! The kernels of a job: a value in its options, passed to all code that hashes or multiplies.
//!
//! Two jobs of one process may use different kernels. A value is one byte, a [`Cpu`]: its kernels are selected on first
//! use, and never change. With the feature `ablation` it also has a set of disabled optimizations.
//!
//! Absent on purpose: libraries that detect the processor themselves (`sha2`, `memchr`, libsecp256k1); prefetches
//! inside a kernel's loops.

use crate::bucket::Buckets;
use crate::cpu::{Cpu, Missing};
#[cfg(feature = "ablation")]
use crate::ideas::{Idea, Ideas};
use crate::muhash::Accumulator;
use crate::sha256::{self, Midstate, Pieces, Times};
use crate::{crc32c, muhash, ripemd160, secp256k1, xor};
use std::sync::LazyLock;
use sys::memory::{Array, Buffer};

/// The kernels of a job. The default is the fastest on this processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kernels {
    cpu: Cpu,
    #[cfg(feature = "ablation")]
    without: Ideas,
}

/// One kernel for each task.
struct Set {
    sha256: sha256::Kernel,
    widest: sha256::Lanes,
    ripemd160: ripemd160::Lanes,
    xor: xor::Kernel,
    crc32c: crc32c::Kernel,
    muhash: muhash::Kernel,
    secp256k1: Option<secp256k1::Lanes>,
}

impl Set {
    /// The fastest kernels that `cpu` allows and this processor has.
    fn of(cpu: Cpu) -> Set {
        Set {
            sha256: sha256::Kernel::best(cpu),
            widest: sha256::Lanes::best(cpu),
            ripemd160: ripemd160::Lanes::best(cpu),
            xor: xor::Kernel::best(cpu),
            crc32c: crc32c::Kernel::best(cpu),
            muhash: muhash::Kernel::best(cpu),
            secp256k1: secp256k1::Lanes::best(cpu),
        }
    }
}

/// A set for each kind of processor, in the order of [`Cpu::ALL`].
static SETS: [LazyLock<Set>; Cpu::ALL.len()] = [
    LazyLock::new(|| Set::of(Cpu::Auto)),
    LazyLock::new(|| Set::of(Cpu::Plain)),
    LazyLock::new(|| Set::of(Cpu::Neon)),
    LazyLock::new(|| Set::of(Cpu::Avx2)),
    LazyLock::new(|| Set::of(Cpu::AvxIfma)),
    LazyLock::new(|| Set::of(Cpu::Avx512)),
];

impl Default for Kernels {
    fn default() -> Kernels {
        Kernels::AUTO
    }
}

impl Kernels {
    /// The fastest kernels on this processor.
    pub const AUTO: Kernels = Kernels::unchecked(Cpu::Auto);
    /// Portable code, which every processor runs.
    pub const PLAIN: Kernels = Kernels::unchecked(Cpu::Plain);

    /// The kernels of one kind of processor, for measurements and tests.
    ///
    /// # Errors
    ///
    /// [`Missing`] if this processor lacks the instructions that they need.
    pub fn of(cpu: Cpu) -> Result<Kernels, Missing> {
        if cpu.is_here() { Ok(Kernels::unchecked(cpu)) } else { Err(Missing(cpu)) }
    }

    /// Safe even if this processor lacks the instructions of `cpu`: a set contains only kernels that this processor can
    /// run.
    const fn unchecked(cpu: Cpu) -> Kernels {
        Kernels {
            cpu,
            #[cfg(feature = "ablation")]
            without: Ideas::NONE,
        }
    }

    #[inline]
    fn set(self) -> &'static Set {
        &SETS[self.cpu as usize]
    }

    /// The chosen kind of processor.
    #[must_use]
    pub fn cpu(self) -> Cpu {
        self.cpu
    }

    /// The widest lanes of SHA-256; narrower lanes hash the messages that do not fill them.
    #[must_use]
    pub fn widest_sha256(self) -> sha256::Lanes {
        self.set().widest
    }

    /// Double SHA-256 of each message, of any length, into the same position of `out`.
    ///
    /// # Panics
    ///
    /// If the lengths of `messages` and `out` differ.
    pub fn sha256d_many(self, messages: &[Pieces<'_>], out: &mut [[u8; 32]]) {
        self.sha256().many(Times::Twice, messages, out);
    }

    /// Single SHA-256 of each message, of any length, into the same position of `out`.
    ///
    /// # Panics
    ///
    /// If the lengths of `messages` and `out` differ.
    pub fn sha256_many(self, messages: &[Pieces<'_>], out: &mut [[u8; 32]]) {
        self.sha256().many(Times::Once, messages, out);
    }

    /// Double SHA-256 of messages that begin with the blocks of `starts` and continue with `messages`. Those with the same
    /// second pieces take less time, see [`sha256::sha256d_after_with`].
    ///
    /// # Panics
    ///
    /// If the lengths of `starts`, `messages` and `out` differ.
    pub fn sha256d_after(self, starts: &[Midstate], messages: &[Pieces<'_>], out: &mut [[u8; 32]]) {
        self.sha256().many_after(starts, messages, out);
    }

    /// Double SHA-256 of each pair of hashes: one level of a merkle tree.
    ///
    /// # Panics
    ///
    /// If the lengths of `pairs` and `out` differ.
    pub fn sha256d_64(self, pairs: &[[u8; 64]], out: &mut [[u8; 32]]) {
        assert_eq!(pairs.len(), out.len(), "a place for each pair");
        self.sha256().pairs(pairs, out);
    }

    /// SHA-256 of messages that begin with the blocks of `start` and go on with 64 bytes: one level of many trees of
    /// hashes with a tag.
    ///
    /// # Panics
    ///
    /// If the lengths of `pairs` and `out` differ.
    pub fn sha256_64_after(self, start: Midstate, pairs: &[[u8; 64]], out: &mut [[u8; 32]]) {
        assert_eq!(pairs.len(), out.len(), "a place for each pair");
        self.sha256().pairs_after(start, pairs, out);
    }

    /// Double SHA-256 of each block header.
    ///
    /// # Panics
    ///
    /// If the lengths of `headers` and `out` differ.
    pub fn sha256d_80(self, headers: &[[u8; 80]], out: &mut [[u8; 32]]) {
        assert_eq!(headers.len(), out.len(), "a place for each header");
        self.sha256().headers(headers, out);
    }

    fn sha256(self) -> &'static sha256::Kernel {
        #[cfg(feature = "ablation")]
        if self.without.has(Idea::HashLanes) {
            static PORTABLE: LazyLock<sha256::Kernel> = LazyLock::new(|| sha256::Lanes::PORTABLE.kernel());
            return &PORTABLE;
        }
        &self.set().sha256
    }

    /// RIPEMD-160 of each digest, into the same position of `out`.
    ///
    /// # Panics
    ///
    /// If the lengths of `digests` and `out` differ.
    pub fn ripemd160(self, digests: &[[u8; 32]], out: &mut [[u8; 20]]) {
        #[cfg(feature = "ablation")]
        if self.without.has(Idea::HashLanes) {
            return ripemd160::of_digests_with(ripemd160::Lanes::PORTABLE, digests, out);
        }
        ripemd160::of_digests_with(self.set().ripemd160, digests, out);
    }

    /// Whether hashes should be deferred, to compute many of them at once.
    #[must_use]
    pub fn hashes_many(self) -> bool {
        #[cfg(feature = "ablation")]
        if self.without.has(Idea::HashLanes) {
            return false;
        }
        true
    }

    /// Whether [`Kernels::sha256d_after`] takes less time for messages with the same second pieces.
    #[must_use]
    pub fn shares_blocks(self) -> bool {
        self.sha256().shares()
    }

    /// XORs `data` with `key`, starting at key byte `offset % 8`: `data[i] ^= key[(offset + i) % 8]`.
    #[inline]
    pub fn xor(self, data: &mut [u8], key: [u8; 8], offset: u64) {
        #[cfg(feature = "ablation")]
        if self.without.has(Idea::WideXor) {
            return xor::xor_with(xor::Kernel::REFERENCE, data, key, offset);
        }
        if data.len() < xor::WIDE_BYTES_MIN {
            xor::xor(data, key, offset);
        } else {
            xor::xor_with(self.set().xor, data, key, offset);
        }
    }

    /// The CRC-32C of `data`.
    #[must_use]
    pub fn crc32c(self, data: &[u8]) -> u32 {
        self.crc32c_append(0, data)
    }

    /// The CRC-32C of data whose CRC-32C is `crc`, followed by `data`.
    #[must_use]
    pub fn crc32c_append(self, crc: u32, data: &[u8]) -> u32 {
        crc32c::append_with(self.set().crc32c, crc, data)
    }

    /// An empty product, to multiply numbers into.
    #[must_use]
    pub fn muhash(self) -> Accumulator {
        self.set().muhash.accumulator()
    }

    /// The lanes that prove signatures, if some are faster than checking signatures in sequence.
    #[must_use]
    pub fn signatures(self) -> Option<secp256k1::Lanes> {
        #[cfg(feature = "ablation")]
        if self.without.has(Idea::SignatureLanes) {
            return None;
        }
        self.set().secp256k1
    }

    /// Whether one sum proves many signatures, if that is faster than proving each separately.
    #[must_use]
    pub fn sums_signatures(self) -> bool {
        #[cfg(feature = "ablation")]
        if self.without.has(Idea::SignatureSums) {
            return false;
        }
        true
    }

    /// Prefetches the start of `slice[index]`: [`crate::prefetch::prefetch`].
    #[inline(always)]
    pub fn prefetch<T>(self, slice: &[T], index: usize) {
        #[cfg(feature = "ablation")]
        if self.without.has(Idea::Prefetch) {
            return;
        }
        crate::prefetch::prefetch(slice, index);
    }

    /// Zero bytes on huge pages: [`Buffer::new`].
    #[must_use]
    pub fn buffer(self, bytes: usize) -> Buffer {
        #[cfg(feature = "ablation")]
        if self.without.has(Idea::HugePages) {
            let small = Buffer::with_pages(bytes, sys::memory::Pages::Small);
            return small.unwrap_or_else(|_| sys::allocator::out_of_memory(bytes));
        }
        Buffer::new(bytes)
    }

    /// Zero bytes that share huge pages with other buffers: [`Buffer::cut`].
    #[must_use]
    pub fn cut(self, bytes: usize) -> Buffer {
        #[cfg(feature = "ablation")]
        if self.without.has(Idea::HugePages) {
            return Buffer::cut_small(bytes);
        }
        Buffer::cut(bytes)
    }

    /// Empty buckets of a hash table, in memory of [`Kernels::cut`].
    #[must_use]
    pub fn buckets(self, count: usize) -> Buckets {
        Array::of(self.cut(Buckets::bytes_of(count)))
    }
}

/// Disabled optimizations, to measure their effect.
#[cfg(feature = "ablation")]
impl Kernels {
    /// These kernels with the given optimizations disabled.
    #[must_use]
    pub fn without(self, ideas: &[Idea]) -> Kernels {
        Kernels { without: self.without.and(ideas), ..self }
    }

    /// The names of the disabled optimizations.
    #[must_use]
    pub fn left_out(self) -> Vec<&'static str> {
        Idea::ALL.into_iter().filter(|idea| self.lacks(*idea)).map(Idea::name).collect()
    }

    /// Whether this optimization is disabled.
    #[inline(always)]
    #[must_use]
    pub fn lacks(self, idea: Idea) -> bool {
        self.without.has(idea)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::{Rng, rounds};

    /// The kernels of every kind of processor that this one can stand in for.
    fn all() -> Vec<Kernels> {
        Cpu::ALL.into_iter().filter_map(|cpu| Kernels::of(cpu).ok()).collect()
    }

    #[test]
    fn kinds_are_told_apart_and_missing_ones_refused() {
        for cpu in Cpu::ALL {
            match Kernels::of(cpu) {
                Ok(kernels) => assert_eq!(kernels.cpu(), cpu),
                Err(why) => assert!(!cpu.is_here() && why.to_string().contains(cpu.name()), "{why}"),
            }
        }
        assert_eq!(Kernels::default(), Kernels::of(Cpu::Auto).unwrap());
        assert_ne!(Kernels::default(), Kernels::of(Cpu::Plain).unwrap());
        assert_eq!(Kernels::of(Cpu::Plain).unwrap().signatures(), None);
    }

    /// Each set beside the reference implementations.
    #[test]
    fn every_choice_agrees_with_the_references() {
        let mut rng = Rng::new(45);
        let data = rng.bytes(rounds(5000).max(700));
        let key = [1, 2, 3, 4, 5, 6, 7, 8];
        let messages: Vec<Pieces<'_>> = (0..70).map(|at| [&data[at..at * 8], &[], &data[..at]]).collect();
        let lanes = sha256::Lanes::REFERENCE;
        let mut want = (vec![[0; 32]; 70], vec![[0; 32]; 70], vec![[0; 20]; 70], data.clone());
        sha256::sha256d_many_with(lanes, &messages, &mut want.0);
        sha256::sha256_many_with(lanes, &messages, &mut want.1);
        ripemd160::of_digests_with(ripemd160::Lanes::PORTABLE, &want.1, &mut want.2);
        xor::xor_with(xor::Kernel::REFERENCE, &mut want.3, key, 3);
        let crc = crc32c::append_with(crc32c::Kernel::REFERENCE, 0, &data);
        let mut product = Accumulator::reference();
        want.0.iter().for_each(|key| product.push(key));
        let product = muhash::reduce(&product.finish());
        for kernels in all() {
            let mut have = (vec![[1; 32]; 70], vec![[1; 32]; 70], vec![[1; 20]; 70], data.clone());
            kernels.sha256d_many(&messages, &mut have.0);
            kernels.sha256_many(&messages, &mut have.1);
            kernels.ripemd160(&have.1, &mut have.2);
            kernels.xor(&mut have.3, key, 3);
            assert!(have == want, "{kernels:?}");
            assert_eq!(kernels.crc32c(&data), crc, "{kernels:?}");
            let mut numbers = kernels.muhash();
            want.0.iter().for_each(|key| numbers.push(key));
            assert_eq!(muhash::reduce(&numbers.finish()), product, "{kernels:?}");
        }
    }

    /// A choice holds for its own job, whatever other jobs use at the same time.
    #[test]
    fn choices_live_side_by_side() {
        let plain = Kernels::of(Cpu::Plain).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for kernels in all() {
                        assert_eq!(kernels.set().xor, xor::Kernel::best(kernels.cpu()));
                        assert!(!plain.muhash().has_lanes());
                    }
                });
            }
        });
    }

    #[cfg(feature = "ablation")]
    #[test]
    fn what_is_left_out_is_not_done_and_changes_no_result() {
        let all = Kernels::default().without(&Idea::ALL);
        assert!(Idea::ALL.into_iter().all(|idea| all.lacks(idea) && !Kernels::default().lacks(idea)));
        assert_ne!(all, Kernels::default());
        assert_eq!((all.signatures(), all.hashes_many()), (None, false));
        let (mut have, mut want) = ([[0; 32]; 9], [[1; 32]; 9]);
        let messages = [[&b"ab"[..], b"c", b""]; 9];
        all.sha256d_many(&messages, &mut have);
        Kernels::default().sha256d_many(&messages, &mut want);
        assert_eq!(have, want);
        assert_eq!((all.cut(5000).len(), all.buffer(3 << 20).len(), all.buckets(7).len()), (5000, 3 << 20, 7));
    }
}
