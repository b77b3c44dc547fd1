//! The commitment of a taproot output to a script: a path of hashes from the leaf to the root of a tree, and the key
//! tweaked by the root.
//!
//! Each hash of a path needs the one before, so that a single path cannot use a vector. `Trees` keeps the paths of many
//! inputs and computes them level by level, in lanes; [`Commitment::tweak`] computes one, hash by hash.

use crate::sighash::{Sink, Writer, tagged};
use kernels::Kernels;
use std::ops::Range;

/// The statement that an output commits to a leaf. Source: BIP-0341.
#[derive(Clone, Copy, Debug)]
pub struct Commitment<'c> {
    /// The x coordinate of the output's key.
    pub output: &'c [u8; 32],
    /// Whether its y coordinate is odd.
    pub odd: bool,
    /// The x coordinate of the internal key.
    pub internal: &'c [u8; 32],
    /// The hash of the leaf.
    pub leaf: [u8; 32],
    /// The other child of each node on the way from the leaf to the root.
    pub path: &'c [[u8; 32]],
}

impl Commitment<'_> {
    /// The tweak of the internal key, by all hashes of the path.
    pub fn tweak(&self) -> [u8; 32] {
        let mut writer = Writer::after(tagged::TWEAK.clone());
        writer.put(self.internal);
        writer.put(&root(self.leaf, self.path));
        writer.finish().finalize()
    }
}

/// The root computed from a leaf and its path. Source: BIP-0341; Bitcoin Core b88bffe, `ComputeTaprootMerkleRoot`.
fn root(leaf: [u8; 32], path: &[[u8; 32]]) -> [u8; 32] {
    path.iter().fold(leaf, |node, other| {
        let mut writer = Writer::after(tagged::BRANCH.clone());
        writer.put((&node).min(other));
        writer.put((&node).max(other));
        writer.finish().finalize()
    })
}

/// The paths of many inputs, until their tweaks are computed.
#[derive(Debug, Default)]
pub(crate) struct Trees {
    trees: Vec<Tree>,
    /// The paths of all commitments, concatenated.
    nodes: Vec<[u8; 32]>,
}

#[derive(Debug)]
struct Tree {
    /// The position of the check that gets the tweak.
    check: usize,
    internal: [u8; 32],
    leaf: [u8; 32],
    path: Range<usize>,
}

impl Trees {
    /// Keeps a path whose tweak is computed later, for the check at position `check`. Positions grow.
    pub(crate) fn put(&mut self, check: usize, commitment: &Commitment<'_>) {
        let start = self.nodes.len();
        self.nodes.extend_from_slice(commitment.path);
        let path = start..self.nodes.len();
        self.trees.push(Tree { check, internal: *commitment.internal, leaf: commitment.leaf, path });
    }

    /// The checks from this position on were removed.
    pub(crate) fn removed(&mut self, first_check: usize) {
        while let Some(last) = self.trees.pop_if(|tree| tree.check >= first_check) {
            self.nodes.truncate(last.path.start);
        }
    }

    /// Bytes of memory that the paths use.
    pub(crate) fn bytes(&self) -> usize {
        self.trees.len() * size_of::<Tree>() + self.nodes.as_flattened().len()
    }

    /// Computes all tweaks, calls `set` with the position of each check and its tweak, and removes all paths.
    pub(crate) fn settle(&mut self, kernels: Kernels, mut set: impl FnMut(usize, [u8; 32])) {
        // Those that still have a level are the first ones, at every level.
        self.trees.sort_unstable_by_key(|tree| std::cmp::Reverse(tree.path.len()));
        let mut hashes: Vec<[u8; 32]> = self.trees.iter().map(|tree| tree.leaf).collect();
        let mut pairs = Vec::with_capacity(hashes.len());
        for level in 0..self.trees.first().map_or(0, |tree| tree.path.len()) {
            pairs.clear();
            let deep = self.trees.iter().take_while(|tree| tree.path.len() > level);
            pairs.extend(deep.zip(&hashes).map(|(tree, hash)| {
                let other = &self.nodes[tree.path.start + level];
                pair(hash.min(other), hash.max(other))
            }));
            kernels.sha256_64_after(*tagged::BRANCHES, &pairs, &mut hashes[..pairs.len()]);
        }
        pairs.clear();
        pairs.extend(self.trees.iter().zip(&hashes).map(|(tree, root)| pair(&tree.internal, root)));
        kernels.sha256_64_after(*tagged::TWEAKS, &pairs, &mut hashes);
        self.trees.iter().zip(hashes).for_each(|(tree, tweak)| set(tree.check, tweak));
        self.trees.clear();
        self.nodes.clear();
    }
}

fn pair(first: &[u8; 32], second: &[u8; 32]) -> [u8; 64] {
    *[*first, *second].as_flattened().first_chunk().expect("two hashes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::{Rng, rounds};

    #[test]
    fn tweaks_of_many_paths_are_those_of_each() {
        let mut rng = Rng::new(11);
        let mut trees = Trees::default();
        for round in 0..rounds(60) {
            let count = rng.below([1, 3, 20, 70][round % 4]) + round % 2;
            let mut node = || -> [u8; 32] { rng.bytes(32).try_into().unwrap() };
            let keys: Vec<[[u8; 32]; 2]> = (0..count).map(|_| [node(), node()]).collect();
            let leaves: Vec<[u8; 32]> = (0..count).map(|_| node()).collect();
            let paths: Vec<Vec<[u8; 32]>> =
                (0..count).map(|at| (0..[0, 1, 2, 5, 128][(at * 7 + round) % 5]).map(|_| node()).collect()).collect();
            let commitment = |at: usize| {
                let [output, internal] = &keys[at];
                Commitment { output, odd: at % 2 == 1, internal, leaf: leaves[at], path: &paths[at] }
            };
            // Every second check belongs to something else; the last third is removed again, and put back.
            let removed = count - count / 3;
            (0..count).for_each(|at| trees.put(at * 2, &commitment(at)));
            trees.removed(removed * 2);
            let nodes: usize = paths[..removed].iter().map(Vec::len).sum();
            assert_eq!((trees.trees.len(), trees.nodes.len()), (removed, nodes), "{count}, round {round}");
            (removed..count).for_each(|at| trees.put(at * 2, &commitment(at)));
            let mut set = Vec::new();
            trees.settle(Kernels::AUTO, |check, tweak| set.push((check, tweak)));
            set.sort_unstable();
            let want: Vec<(usize, [u8; 32])> = (0..count).map(|at| (at * 2, commitment(at).tweak())).collect();
            assert!(set == want, "{count}, round {round}");
            assert_eq!(trees.bytes(), 0);
        }
    }
}
