//! Cuts a chain into ranges of about equal size in bytes. Only reads the block index.

use node::Fault;
use node::options::Options;
use primitives::BlockHash;

/// The ranges of an audit or an export.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// First and last height of each, in order, and its bytes.
    pub ranges: Vec<(u32, u32, u64)>,
    /// Hash of the last block of the last range.
    pub best: BlockHash,
}

/// Cuts the chain of a data directory, from height `from` to `to` (`None`: the tip), into at most `parts` ranges.
///
/// # Errors
///
/// There is no block index, it is damaged, the chain is lower than `to`, or an I/O error.
pub fn plan(options: &Options, from: u32, to: Option<u32>, parts: usize) -> Result<Plan, Fault> {
    let blocks = node::offline::files::block_bytes(options)?;
    let tip = blocks.len() as u32 - 1;
    let to = to.unwrap_or(tip);
    if from > to || to > tip {
        let why = format!("blocks {from} to {to}: wanted a range of a chain that ends at height {tip}");
        return Err(Fault::refused(why, "Name a range up to the tip"));
    }
    let best = blocks[to as usize].0;
    let bytes: Vec<u64> = blocks[from as usize..=to as usize].iter().map(|(_, bytes)| *bytes).collect();
    let ranges = cut(&bytes, parts);
    let ranges = ranges.into_iter().map(|(first, last, bytes)| (first + from, last + from, bytes)).collect();
    Ok(Plan { ranges, best })
}

/// Cuts blocks of these sizes into at most `parts` non-empty ranges of about equal bytes.
pub fn cut(bytes: &[u64], parts: usize) -> Vec<(u32, u32, u64)> {
    let all: u64 = bytes.iter().sum();
    let parts = parts.clamp(1, bytes.len().max(1));
    let mut ranges = Vec::new();
    let mut first = 0;
    let mut before = 0u64;
    let mut sum = 0u64;
    for (at, size) in bytes.iter().enumerate() {
        sum += size;
        let left = bytes.len() - at - 1;
        let made = ranges.len() + 1;
        // At least one block must remain for each remaining range.
        let is_full = u128::from(sum) * parts as u128 >= u128::from(all) * made as u128;
        if (is_full && made < parts) || left == parts - made || left == 0 {
            ranges.push((first as u32, at as u32, sum - before));
            (first, before) = (at + 1, sum);
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_all_blocks_once_and_are_about_equal() {
        let mut rng = testkit::Rng::new(4);
        for (count, parts) in
            [(1, 1), (1, 9), (2, 2), (7, 3), (1000, 1), (1000, 10), (1000, 999), (1000, 1000), (50, 400)]
        {
            let bytes: Vec<u64> = (0..count).map(|_| 200 + rng.below(1_000_000) as u64).collect();
            let ranges = cut(&bytes, parts);
            assert_eq!(ranges.len(), parts.min(count), "{count} {parts}");
            let mut next = 0;
            for (first, last, sum) in &ranges {
                assert_eq!(*first, next);
                assert!(first <= last);
                assert_eq!(*sum, bytes[*first as usize..=*last as usize].iter().sum::<u64>());
                next = last + 1;
            }
            assert_eq!(next as usize, count);
            let most = ranges.iter().map(|(.., sum)| sum).max().unwrap();
            assert!(*most <= bytes.iter().sum::<u64>() / ranges.len() as u64 + 2_000_000, "{count} {parts}");
        }
        assert_eq!(cut(&[0, 0, 0], 2), [(0, 0, 0), (1, 2, 0)]);
    }
}
