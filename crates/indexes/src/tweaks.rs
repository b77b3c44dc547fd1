//! Tweaks of BIP 352 from keys: the input hash times the sum of keys, of many transactions at a time in vector lanes.
//!
//! Tweaks that lanes do not compute, and all of them without lanes, come from [`plain_tweak`], by libsecp256k1: the
//! reference implementation that the lanes are tested against.

use kernels::Kernels;
use kernels::secp256k1::{CurvePoint, Lanes};
use kernels::sha256::sha256;
use secp256k1::{PublicKey, Scalar};

/// With fewer groups lanes are not faster: they take as long for one group as for a full set.
const LANES_MIN: usize = 4;
/// Source: BIP 352, "Inputs For Shared Secret Derivation".
const TAG: &[u8] = b"BIP0352/Inputs";

/// A transaction: a number of consecutive keys; the keys of all transactions are concatenated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    /// The lexicographically smallest of its outpoints.
    pub outpoint: [u8; 36],
    /// The number of its keys.
    pub keys: usize,
}

/// The tweak of each group; `None` if its keys sum to infinity, none of them is a point, or its input hash is not a
/// valid scalar.
///
/// # Panics
///
/// If the groups do not cover all keys.
pub fn tweaks(kernels: Kernels, keys: &[[u8; 33]], groups: &[Group]) -> Vec<Option<[u8; 33]>> {
    let lanes = kernels.signatures().filter(|_| groups.len() >= LANES_MIN);
    let found = lanes.map_or_else(|| vec![None; groups.len()], |lanes| in_lanes(lanes, kernels, keys, groups));
    let mut next = 0;
    let with_keys = groups.iter().map(|group| {
        next += group.keys;
        (&keys[next - group.keys..next], group)
    });
    let tweaks = with_keys.zip(found);
    tweaks.map(|((keys, group), found)| found.or_else(|| plain_tweak(keys, &group.outpoint))).collect()
}

/// [`tweaks`] for the groups that the lanes can compute; `None` for the others.
fn in_lanes(lanes: Lanes, kernels: Kernels, keys: &[[u8; 33]], groups: &[Group]) -> Vec<Option<[u8; 33]>> {
    let counts: Vec<usize> = groups.iter().map(|group| group.keys).collect();
    let sums = lanes.sum_keys(keys, &counts);
    let known: Vec<(usize, CurvePoint)> =
        sums.into_iter().enumerate().filter_map(|(at, sum)| Some((at, sum?))).collect();
    let prefix = prefix();
    let compressed: Vec<[u8; 33]> = known.iter().map(|(_, sum)| sum.compressed()).collect();
    let messages = known.iter().zip(&compressed);
    let messages: Vec<_> = messages.map(|(&(at, _), sum)| [&prefix[..], &groups[at].outpoint, sum]).collect();
    let mut hashes = vec![[0; 32]; messages.len()];
    kernels.sha256_many(&messages, &mut hashes);
    let factors: Vec<(CurvePoint, [u8; 32])> = known.iter().zip(hashes).map(|(&(_, sum), hash)| (sum, hash)).collect();
    let mut tweaks = vec![None; groups.len()];
    for ((at, _), product) in known.iter().zip(lanes.multiply(&factors)) {
        tweaks[*at] = product.map(|product| product.compressed());
    }
    tweaks
}

/// The prefix of the tagged hash: twice the tag's hash. Source: BIP 340.
fn prefix() -> [u8; 64] {
    let mut prefix = [0; 64];
    prefix.as_chunks_mut::<32>().0.fill(sha256(TAG));
    prefix
}

/// The tweak of one transaction with these keys, by libsecp256k1. Keys that are not points are skipped.
pub fn plain_tweak(keys: &[[u8; 33]], outpoint: &[u8; 36]) -> Option<[u8; 33]> {
    let points: Vec<PublicKey> = keys.iter().filter_map(|key| PublicKey::from_slice(key).ok()).collect();
    let sum = PublicKey::combine_keys(&points.iter().collect::<Vec<_>>()).ok()?;
    let hash = sha256(&[&prefix()[..], outpoint, &sum.serialize()].concat());
    Some(sum.mul_tweak(&Scalar::from_be_bytes(hash).ok()?).ok()?.serialize())
}

#[cfg(test)]
mod tests {
    use super::*;
    use secp256k1::SecretKey;
    use testkit::Rng;

    fn key(rng: &mut Rng) -> [u8; 33] {
        let secret = SecretKey::from_secret_bytes(rng.array()).expect("2^256 less the order is small");
        PublicKey::from_secret_key(&secret).serialize()
    }

    fn negative(mut key: [u8; 33]) -> [u8; 33] {
        key[0] ^= 1;
        key
    }

    /// Groups of all sizes: keys that come again, opposite ones, sums at infinity, no points; with each choice of
    /// kernels.
    #[test]
    fn lanes_agree_with_libsecp256k1() {
        let mut rng = Rng::new(352);
        let some: Vec<[u8; 33]> = (0..50).map(|_| key(&mut rng)).collect();
        for count in [0, 1, LANES_MIN, 17, 400] {
            let mut keys = Vec::new();
            let mut groups = Vec::new();
            for at in 0..count {
                let mut of_group: Vec<[u8; 33]> =
                    (0..[1, 2, 3, 1, 40][at % 5]).map(|_| some[rng.below(some.len())]).collect();
                match at % 12 {
                    3 => of_group = vec![of_group[0], negative(of_group[0])],
                    4 => of_group.extend([negative(of_group[0]), some[7]]),
                    5 => of_group.push([5; 33]),
                    6 => of_group = vec![[2; 33].map(|_| 0xff)],
                    _ => {}
                }
                groups.push(Group { outpoint: rng.array(), keys: of_group.len() });
                keys.extend(of_group);
            }
            let mut first = 0;
            let want: Vec<Option<[u8; 33]>> = groups
                .iter()
                .map(|group| {
                    first += group.keys;
                    plain_tweak(&keys[first - group.keys..first], &group.outpoint)
                })
                .collect();
            let nothing = want.iter().filter(|tweak| tweak.is_none()).count();
            assert_eq!(nothing, (0..count).filter(|at| matches!(at % 12, 3 | 6)).count(), "{count}");
            for cpu in kernels::cpu::Cpu::ALL {
                let Ok(kernels) = Kernels::of(cpu) else { continue };
                assert_eq!(tweaks(kernels, &keys, &groups), want, "{cpu:?} {count}");
            }
            for lanes in Lanes::available() {
                let have = in_lanes(lanes, Kernels::AUTO, &keys, &groups);
                let wrong = have.iter().zip(&want).filter(|(have, want)| have.is_some() && have != want).count();
                assert_eq!(wrong, 0, "{lanes:?} {count}");
            }
        }
    }
}
