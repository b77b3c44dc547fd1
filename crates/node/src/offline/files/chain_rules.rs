//! The rules of a range of headers, checked with times and nBits of the blocks below it.
//!
//! A header's rules need nothing else of the blocks below its parent. A range that is checked separately assumes these
//! values, and identifies them by [`digest`]: the range below either has the same digest at its end, or has other
//! headers.

use crate::offline::files::chain_source::ChainBlock;
use consensus::header::{self, Ancestor, Parent};
use consensus::{BlockError, Cleanup, Params, Rule};
use kernels::sha256::Sha256;
use primitives::{BlockHash, Height, MedianTime};

/// Median time past of the block at a height. `ancestors` has the values of at least all blocks up to this height, from
/// the genesis block on.
pub(crate) fn median_time_past(ancestors: &[Ancestor], height: Height) -> MedianTime {
    let end = height.to_usize();
    let times = &ancestors[end.saturating_sub(header::MEDIAN_TIME_SPAN - 1)..=end];
    header::median_time_past(times.iter().map(|ancestor| ancestor.time))
}

/// Checks the headers of the range from `first` on. The caller has checked that hashes and `ancestors` match these
/// headers. For blocks below, the values in `ancestors` are assumed.
///
/// # Errors
///
/// Height and hash of the first header that breaks a rule, and the rule.
pub(crate) fn check_headers(
    params: &Params,
    ancestors: &[Ancestor],
    first: Height,
    places: &[ChainBlock],
    now: i64,
) -> Result<(), Box<(Height, BlockHash, BlockError)>> {
    let mut below: Option<BlockHash> = None;
    for (height, place) in (first.to_usize()..).zip(places) {
        let at = Height::from_index(height);
        let checked = check_header(params, ancestors, at, place, below, now);
        checked.map_err(|error| Box::new((at, place.hash, error)))?;
        below = Some(place.hash);
    }
    Ok(())
}

fn check_header(
    params: &Params,
    ancestors: &[Ancestor],
    height: Height,
    place: &ChainBlock,
    below: Option<BlockHash>,
    now: i64,
) -> Result<(), BlockError> {
    let header = &place.header;
    let own = ancestors[height.to_usize()];
    let is_its = (own.time, own.bits) == (header.time(), header.bits());
    if height == Height::GENESIS {
        return if is_its && place.hash == params.genesis_hash { Ok(()) } else { Err(Rule::PrevBlkNotFound.into()) };
    }
    header::check_proof_of_work(params, &place.hash, header.bits())?;
    if !is_its || below.is_some_and(|below| below != header.prev()) {
        return Err(Rule::PrevBlkNotFound.into());
    }
    // Miners' signals are not known here: a chain that depends on them is refused when it is opened.
    let cleanup = Cleanup::everywhere(params).unwrap_or_default();
    let parent = height - 1;
    let known = ancestors[parent.to_usize()];
    let known = Parent {
        height: parent,
        time: known.time,
        bits: known.bits,
        median_time_past: median_time_past(ancestors, parent),
        real_bits: None,
        cleanup,
    };
    header::check(params, header, &known, now, |height| ancestors[height.to_usize()])
}

/// SHA-256 of time and nBits, four bytes each, little endian, of these blocks from the genesis block on.
pub(crate) fn digest(ancestors: &[Ancestor]) -> [u8; 32] {
    const AT_ONCE: usize = 512;
    let mut hash = Sha256::new();
    let mut bytes = Vec::with_capacity(8 * AT_ONCE);
    for some in ancestors.chunks(AT_ONCE) {
        bytes.clear();
        put_ancestors(&mut bytes, some);
        hash.update(&bytes);
    }
    hash.finalize()
}

/// Appends eight bytes for each block.
pub(crate) fn put_ancestors(out: &mut Vec<u8>, ancestors: &[Ancestor]) {
    for ancestor in ancestors {
        out.extend_from_slice(&ancestor.time.to_le_bytes());
        out.extend_from_slice(&ancestor.bits.to_le_bytes());
    }
}

/// Reads the bytes that [`put_ancestors`] wrote.
pub(crate) fn read_ancestors(bytes: &[u8]) -> Vec<Ancestor> {
    let number = |bytes: [u8; 4]| u32::from_le_bytes(bytes);
    let (all, _) = bytes.as_chunks::<8>();
    all.iter()
        .map(|[a, b, c, d, e, f, g, h]| Ancestor { time: number([*a, *b, *c, *d]), bits: number([*e, *f, *g, *h]) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::headers;
    use crate::chain::tree::{GENESIS, NodeId};
    use consensus::Chain;
    use primitives::{Hash256, Header};
    use testkit::Rng;

    /// A chain of regtest headers with proof of work.
    fn chain(count: u32, seed: u64) -> Vec<ChainBlock> {
        let params = Params::new(Chain::Regtest);
        let (mut rng, mut places) = (Rng::new(seed), Vec::new());
        let genesis = Header(*params.genesis.first_chunk().unwrap());
        places.push(ChainBlock { hash: genesis.hash(), header: genesis, data: None, undo: None, bytes: 0 });
        let mut time = genesis.time();
        for _ in 1..count {
            let prev = places[places.len() - 1].hash;
            time += 1 + rng.below(900) as u32;
            let mut nonce = 0;
            let header = loop {
                let header = Header::new(4, prev, Hash256([7; 32]), time, genesis.bits(), nonce);
                if header::check_proof_of_work(&params, &header.hash(), header.bits()).is_ok() {
                    break header;
                }
                nonce += 1;
            };
            places.push(ChainBlock { hash: header.hash(), header, data: None, undo: None, bytes: 0 });
        }
        places
    }

    fn ancestors_of(places: &[ChainBlock]) -> Vec<Ancestor> {
        places.iter().map(|place| Ancestor { time: place.header.time(), bits: place.header.bits() }).collect()
    }

    /// The plain twin: all headers from the genesis block on into a tree.
    #[test]
    fn a_range_alone_is_judged_as_in_the_tree() {
        let (params, now) = (Params::new(Chain::Regtest), i64::from(u32::MAX));
        for (row, change) in [
            ("good", None::<fn(&mut Header)>),
            ("a time that is too old", Some(|header: &mut Header| header.0[68..72].copy_from_slice(&[0; 4]))),
            ("other bits", Some(|header: &mut Header| header.0[72] ^= 1)),
            ("an old version", Some(|header: &mut Header| header.0[0] = 1)),
            ("another parent", Some(|header: &mut Header| header.0[10] ^= 1)),
        ] {
            let mut places = chain(60, 3);
            if let Some(change) = change {
                let header = &mut places[40].header;
                change(header);
                // Proof of work again, where the target is one.
                while header.hash().as_bytes()[31] & 0x80 != 0 {
                    let nonce = header.nonce().wrapping_add(1);
                    header.0[76..].copy_from_slice(&nonce.to_le_bytes());
                }
                places[40].hash = header.hash();
            }
            let mut tree = headers::genesis_tree(&params);
            let is_refused =
                |place: &ChainBlock| headers::accept(&mut tree, &params, &place.header, place.hash, now).is_err();
            let first_bad = places[1..].iter().position(is_refused).map(|at| at + 1);
            assert_eq!(first_bad, change.map(|_| 40), "{row}");
            let ancestors = ancestors_of(&places);
            for (from, to) in [(0, 59), (1, 59), (30, 45), (20, 39), (40, 40), (40, 59), (41, 41), (45, 59)] {
                // Above a bad header the others are no headers of that chain.
                if from > 40 && first_bad.is_some() {
                    continue;
                }
                let first = Height::from_index(from);
                let found = check_headers(&params, &ancestors[..=to], first, &places[from..=to], now)
                    .map_err(|bad| bad.0.to_usize());
                let want = first_bad.filter(|at| (from..=to).contains(at));
                // The parent of a range's first header is compared by join; that of the next one is not its hash.
                let want = match (row, from) {
                    ("another parent", 40) => (to > 40).then_some(41),
                    _ => want,
                };
                assert_eq!(found.err(), want, "{row}: {from} to {to}");
            }
        }
    }

    #[test]
    fn medians_are_those_of_the_tree() {
        let (params, places) = (Params::new(Chain::Regtest), chain(40, 5));
        let mut tree = headers::genesis_tree(&params);
        for place in &places[1..] {
            headers::accept(&mut tree, &params, &place.header, place.hash, i64::from(u32::MAX)).unwrap();
        }
        let ancestors = ancestors_of(&places);
        let want = headers::median_times(&tree, NodeId::new(places.len() - 1));
        assert_eq!(tree.hash(GENESIS), places[0].hash);
        for (height, want) in want.iter().enumerate() {
            assert_eq!(median_time_past(&ancestors, Height::from_index(height)), *want, "{height}");
        }
    }

    #[test]
    fn every_time_and_target_counts_for_the_digest() {
        let ancestors = ancestors_of(&chain(30, 7));
        let base = digest(&ancestors);
        let mut bytes = Vec::new();
        put_ancestors(&mut bytes, &ancestors);
        assert_eq!(base, kernels::sha256::sha256(&bytes));
        assert_eq!(read_ancestors(&bytes), ancestors);
        assert_ne!(digest(&ancestors[..29]), base);
        for at in 0..ancestors.len() {
            let mut other = ancestors.clone();
            other[at].time ^= 1;
            assert_ne!(digest(&other), base);
            let mut other = ancestors.clone();
            other[at].bits ^= 1;
            assert_ne!(digest(&other), base);
        }
    }
}
