//! Finds keys that are repeated among many claims often enough for separate tables ([`super::combs`]).
//!
//! If several keys have the same slot, only the first is counted. An attacker who makes colliding keys gains nothing,
//! and does not slow down others.

use super::reference::Field;

/// A key: x, and whether its y is odd.
pub(super) type Key = (Field, bool);

/// Slots of the key search: twice the number of claims processed at a time.
const SLOTS: usize = 2048;

/// Minimum number of claims for each lane of a set of keys, because tables are computed for all lanes at once.
/// Measured: with thirteen claims a lane they save 4 % with AVX-512, 18 % with AVX2.
const CLAIMS_A_LANE_MIN: usize = 12;

/// A set of keys, at most as many as there are lanes, and the questions about them.
#[derive(Debug)]
pub(super) struct Set {
    pub(super) keys: Vec<Key>,
    /// Indexes of the questions, and of their keys in `keys`.
    pub(super) asked: Vec<(usize, usize)>,
}

/// The sets of repeated keys in `keys`, the most frequent ones first; `lanes` is the maximum size of a set.
pub(super) fn sets(keys: &[Option<Key>], lanes: usize) -> Vec<Set> {
    if keys.len() < CLAIMS_A_LANE_MIN * lanes {
        return Vec::new();
    }
    let mut slots: [Option<u32>; SLOTS] = [None; SLOTS];
    let mut counts = vec![0_usize; keys.len()];
    let mut firsts = vec![None; keys.len()];
    for (at, key) in keys.iter().enumerate() {
        let Some((x, _)) = key else { continue };
        let first = *slots[x.words()[0] as usize % SLOTS].get_or_insert(at as u32) as usize;
        if keys[first] == *key {
            counts[first] += 1;
            firsts[at] = Some(first);
        }
    }
    let mut again: Vec<usize> = (0..keys.len()).filter(|&first| counts[first] > 1).collect();
    again.sort_by_key(|&first| std::cmp::Reverse(counts[first]));
    let is_worth =
        |firsts: &&[usize]| firsts.iter().map(|&first| counts[first]).sum::<usize>() >= CLAIMS_A_LANE_MIN * lanes;
    let mut numbers = vec![None; keys.len()];
    let mut sets: Vec<Set> = Vec::new();
    for chosen in again.chunks(lanes).take_while(is_worth) {
        let keys = chosen.iter().map(|&first| keys[first].expect("only keys are counted")).collect();
        chosen.iter().enumerate().for_each(|(at, &first)| numbers[first] = Some((sets.len(), at)));
        sets.push(Set { keys, asked: Vec::new() });
    }
    for (at, first) in firsts.into_iter().enumerate() {
        if let Some((set, key)) = first.and_then(|first| numbers[first]) {
            sets[set].asked.push((at, key));
        }
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> Key {
        (Field::constant([number, 5, 5, 5]), number.is_multiple_of(3))
    }

    #[test]
    fn common_keys_come_first_and_rare_ones_not_at_all() {
        assert!(sets(&[], 2).is_empty());
        let single: Vec<Option<Key>> = (0..1000).map(|number| Some(key(number))).collect();
        assert!(sets(&single, 2).is_empty(), "none comes again");
        // Three times key 1 six times, 2 twice, 3 thrice, 4 thrice, 5 once; two are no keys.
        let numbers = [1, 2, 0, 1, 3, 4, 1, 3, 4, 1, 5, 2, 3, 4, 1, 0, 1].repeat(3);
        let keys: Vec<Option<Key>> = numbers.iter().map(|&number| (number > 0).then(|| key(number))).collect();
        let sets = sets(&keys, 2);
        assert_eq!(sets.len(), 1, "the second set would have fifteen claims");
        assert_eq!(sets[0].keys, [key(1), key(3)]);
        let want: Vec<(usize, usize)> = (numbers.iter().enumerate())
            .filter_map(|(at, number)| Some((at, [1, 3].iter().position(|key| key == number)?)))
            .collect();
        assert_eq!(sets[0].asked, want);
    }

    #[test]
    fn keys_in_one_slot_and_of_other_parity_are_not_mixed_up() {
        let (first, other) = (key(7), key(7 + SLOTS as u64));
        let opposite = (first.0, !first.1);
        let keys: Vec<Option<Key>> = [first, other, opposite].into_iter().cycle().take(90).map(Some).collect();
        let sets = sets(&keys, 2);
        assert_eq!((sets.len(), &sets[0].keys[..]), (1, &[first][..]));
        assert!(sets[0].asked.iter().all(|&(at, key)| at % 3 == 0 && key == 0) && sets[0].asked.len() == 30);
    }
}
