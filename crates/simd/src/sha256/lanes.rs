//! Which kernel: chosen once by what the processor has, or by name, to test and to measure.

use std::sync::OnceLock;

use super::Pieces;
use super::engine::{self, Engine, block_count, bytes_of, drive};
use super::plain::{Plain, Portable};
#[cfg(target_arch = "x86_64")]
use super::{avx2::Avx2, avx512::Avx512, avx512x2::Avx512x2, shani::ShaNi};

/// A way to compute SHA-256. All give the same digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// FIPS 180-4 as written, one message after the other: what the others are tested against.
    Plain,
    /// The `sha2` crate, one message after the other; it uses SHA instructions where it knows them.
    Portable,
    /// The SHA instructions of x86-64, one message after the other.
    ShaNi1,
    /// The SHA instructions of x86-64, three messages at a time.
    ShaNi3,
    /// AVX2, eight messages at a time.
    Avx2,
    /// AVX-512 F and BW, sixteen messages at a time.
    Avx512,
    /// AVX-512 F and BW, two vectors side by side: 32 messages at a time.
    Avx512x2,
}

/// What a kernel does with each kind of message.
pub(super) struct Kernel {
    pub(super) many: fn(&[Pieces<'_>], &mut [[u8; 32]]),
    pub(super) pairs: fn(&[[u8; 64]], &mut [[u8; 32]]),
    pub(super) headers: fn(&[[u8; 80]], &mut [[u8; 32]]),
}

impl Lanes {
    /// All of them, the plainest first.
    pub const ALL: [Lanes; 7] =
        [Lanes::Plain, Lanes::Portable, Lanes::ShaNi1, Lanes::ShaNi3, Lanes::Avx2, Lanes::Avx512, Lanes::Avx512x2];

    /// Those that this processor can run.
    #[must_use]
    pub fn available() -> Vec<Lanes> {
        Lanes::ALL.into_iter().filter(|lanes| lanes.kernel().is_some()).collect()
    }

    /// The functions, if this processor can run them.
    pub(super) fn kernel(self) -> Option<Kernel> {
        match self {
            Lanes::Plain => kernel_of::<Plain, 1>(),
            Lanes::Portable => kernel_of::<Portable, 1>(),
            #[cfg(target_arch = "x86_64")]
            Lanes::ShaNi1 => kernel_of::<ShaNi<1>, 1>(),
            #[cfg(target_arch = "x86_64")]
            Lanes::ShaNi3 => kernel_of::<ShaNi<3>, 3>(),
            #[cfg(target_arch = "x86_64")]
            Lanes::Avx2 => kernel_of::<Avx2, 8>(),
            #[cfg(target_arch = "x86_64")]
            Lanes::Avx512 => kernel_of::<Avx512, 16>(),
            #[cfg(target_arch = "x86_64")]
            Lanes::Avx512x2 => kernel_of::<Avx512x2, 32>(),
            #[cfg(not(target_arch = "x86_64"))]
            _ => None,
        }
    }
}

/// The fastest kernel of this processor: the widest lanes, and for what does not fill them the
/// fastest that takes few messages.
pub(super) fn best() -> &'static Kernel {
    static BEST: OnceLock<Kernel> = OnceLock::new();
    BEST.get_or_init(choose)
}

#[cfg(target_arch = "x86_64")]
fn choose() -> Kernel {
    // The least busy lanes for which the wide kernel wins, measured by `cargo bench` (Zen 5).
    let sha = ShaNi::<3>::detect().is_some();
    match (Avx512::detect(), Avx2::detect()) {
        (Some(_), _) if sha => mixed::<Avx512x2, 32, ShaNi<3>, 3, 16>(),
        (Some(_), _) => mixed::<Avx512, 16, Portable, 1, 2>(),
        _ if sha => mixed::<ShaNi<3>, 3, ShaNi<1>, 1, 2>(),
        (_, Some(_)) => mixed::<Avx2, 8, Portable, 1, 3>(),
        _ => mixed::<Portable, 1, Portable, 1, 1>(),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn choose() -> Kernel {
    mixed::<Portable, 1, Portable, 1, 1>()
}

/// The functions of one engine alone.
fn kernel_of<E: Engine<N>, const N: usize>() -> Option<Kernel> {
    E::detect()?;
    Some(mixed::<E, N, E, N, 1>())
}

/// The functions of a wide engine as long as `BUSY` lanes have work, then of a narrow one.
fn mixed<W, const WIDE: usize, E, const NARROW: usize, const BUSY: usize>() -> Kernel
where
    W: Engine<WIDE>,
    E: Engine<NARROW>,
{
    Kernel {
        many: many::<W, WIDE, E, NARROW, BUSY>,
        pairs: |pairs, out| {
            let (wide, rest) = pairs.split_at(full::<WIDE, BUSY>(pairs.len()));
            let (out, out_rest) = out.split_at_mut(wide.len());
            engine::pairs(detect::<W, WIDE>(), wide, out);
            engine::pairs(detect::<E, NARROW>(), rest, out_rest);
        },
        headers: |headers, out| {
            let (wide, rest) = headers.split_at(full::<WIDE, BUSY>(headers.len()));
            let (out, out_rest) = out.split_at_mut(wide.len());
            engine::headers(detect::<W, WIDE>(), wide, out);
            engine::headers(detect::<E, NARROW>(), rest, out_rest);
        },
    }
}

/// How many of `count` messages go through `WIDE` lanes where a last set must have `BUSY` of them.
fn full<const WIDE: usize, const BUSY: usize>(count: usize) -> usize {
    let last = count % WIDE;
    if last >= BUSY { count } else { count - last }
}

/// The engine of a kernel that was chosen.
fn detect<E: Engine<N>, const N: usize>() -> E {
    E::detect().expect("a kernel is chosen only where its engine was detected")
}

fn many<W, const WIDE: usize, E, const NARROW: usize, const BUSY: usize>(messages: &[Pieces<'_>], out: &mut [[u8; 32]])
where
    W: Engine<WIDE>,
    E: Engine<NARROW>,
{
    let (wide, narrow) = (detect::<W, WIDE>(), detect::<E, NARROW>());
    let left = if messages.len() < BUSY {
        drive(narrow, Vec::new(), &AS_THEY_COME[..messages.len()], messages, out, 1)
    } else {
        let order = longest_first(messages);
        let left = drive(wide, Vec::new(), &order, messages, out, BUSY);
        drive(narrow, left, &[], messages, out, 1)
    };
    assert!(left.is_empty(), "the last engine stops when no lane has work");
}

/// The order of messages that are too few for wide lanes.
const AS_THEY_COME: [usize; 32] = {
    let mut order = [0; 32];
    let mut at = 0;
    while at < order.len() {
        order[at] = at;
        at += 1;
    }
    order
};

/// The messages by falling number of blocks: lanes that start together end together, and the longest
/// are not left to the end, when nothing else would fill the lanes beside them.
fn longest_first(messages: &[Pieces<'_>]) -> Vec<usize> {
    // Longer ones share the first group, sorted apart: they are few.
    const GROUPS: usize = 64;
    let mut ends = [0_usize; GROUPS];
    let group = |message| (GROUPS - 1).saturating_sub(block_count(bytes_of(message)));
    for message in messages {
        ends[group(message)] += 1;
    }
    let mut sum = 0;
    for end in &mut ends {
        let count = *end;
        *end = sum;
        sum += count;
    }
    let mut order = vec![0; messages.len()];
    for (at, message) in messages.iter().enumerate() {
        let end = &mut ends[group(message)];
        order[*end] = at;
        *end += 1;
    }
    order[..ends[0]].sort_unstable_by_key(|at| std::cmp::Reverse(bytes_of(&messages[*at])));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_come_first_and_none_is_lost() {
        let bytes = vec![1; 20_000];
        let lengths: Vec<usize> = (0..500).map(|at| at * at * 37 % 19_997).collect();
        let messages: Vec<Pieces<'_>> =
            lengths.iter().map(|length| [&bytes[..length / 3], &[], &bytes[length / 3..*length]]).collect();
        let order = longest_first(&messages);
        assert!(order.is_sorted_by(|a, b| block_count(lengths[*a]) >= block_count(lengths[*b])));
        let mut all = order;
        all.sort_unstable();
        assert_eq!(all, (0..500).collect::<Vec<_>>());
    }
}
