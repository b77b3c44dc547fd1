//! Merkle roots.

use crate::hash::Hash256;
use kernels::Kernels;

/// Root of the tree over `leaves`, and whether two hashes that are paired somewhere are equal before padding.
///
/// `leaves` is consumed as scratch memory. Without leaves the root is the null hash. Such a pair means that another
/// list of transactions has the same root (CVE-2012-2459).
///
/// Source: Bitcoin Core b88bffe, `ComputeMerkleRoot`.
pub fn root(kernels: Kernels, leaves: &mut Vec<Hash256>) -> (Hash256, bool) {
    let mut mutated = false;
    // Collected in place.
    let mut level: Vec<[u8; 32]> = std::mem::take(leaves).into_iter().map(|hash| hash.0).collect();
    let mut above: Vec<[u8; 32]> = vec![[0; 32]; level.len().div_ceil(2)];
    while level.len() > 1 {
        mutated |= level.as_chunks::<2>().0.iter().any(|[a, b]| a == b);
        if level.len() % 2 == 1 {
            level.push(level[level.len() - 1]);
        }
        // Two adjacent hashes are the message of the parent: nothing is copied.
        above.truncate(level.len() / 2);
        kernels.sha256d_64(level.as_flattened().as_chunks().0, &mut above);
        std::mem::swap(&mut level, &mut above);
    }
    let root = level.first().map_or(Hash256::ZERO, |&hash| Hash256(hash));
    // The caller keeps the capacity.
    let room = if above.capacity() > level.capacity() { above } else { level };
    *leaves = room.into_iter().map(Hash256).collect();
    leaves.clear();
    (root, mutated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernels::sha256::sha256d;

    /// The definition, one pair at a time.
    fn plain(leaves: &[Hash256]) -> Hash256 {
        match leaves {
            [] => Hash256::ZERO,
            [one] => *one,
            _ => {
                let up: Vec<Hash256> = leaves
                    .chunks(2)
                    .map(|pair| Hash256(sha256d(&[pair[0].0, pair[pair.len() - 1].0].concat())))
                    .collect();
                plain(&up)
            }
        }
    }

    #[test]
    fn merkle_root_matches_plain_one_and_reports_mutation() {
        for count in 0..70u8 {
            let leaves: Vec<Hash256> = (0..count).map(|i| Hash256([i + 1; 32])).collect();
            assert_eq!(root(Kernels::AUTO, &mut leaves.clone()), (plain(&leaves), false), "{count} leaves");
            // The classic trick: repeat what the padding repeats.
            for span in [1, 2, 4, 8usize] {
                let n = leaves.len();
                if n > span && n % (2 * span) == span {
                    let mut doubled = leaves.clone();
                    doubled.extend_from_slice(&leaves[n - span..]);
                    assert_eq!(
                        root(Kernels::AUTO, &mut doubled),
                        (plain(&leaves), true),
                        "{count} leaves, last {span} doubled"
                    );
                }
            }
        }
        // Equal hashes that are not paired are no mutation.
        let [a, b] = [Hash256([1; 32]), Hash256([2; 32])];
        assert!(!root(Kernels::AUTO, &mut vec![a, b, b, a]).1);
        assert!(root(Kernels::AUTO, &mut vec![a, a]).1);
    }
}
