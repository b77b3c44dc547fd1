//! The compaction policy: the level of each run, and which runs are compacted. Pure decisions about sizes.
//!
//! In terms of LSM trees this is a leveled tree with one run a level and whole-run compaction, triggered by the number
//! of files in level 0. A run is compacted with its neighbours as a whole, not table by table as in LevelDB.
//!
//! Level 0 holds at most three runs, one file each, of any size. Levels 1 to 6 hold one run each. A newer run is in a
//! level above every older one (in level 0: has a greater number). LevelDB compacts a level 0 of at least four files
//! and a level i of at least 10^i MiB (i = 1 to 5); below that it leaves the directory alone.
//!
//! A new run takes the deepest free level above the others that has room for it. Runs may move to deeper free levels
//! first (LevelDB's trivial move), which costs an edit and no bytes. So six or seven runs find a level without a
//! compaction. Compaction starts, in the background, only when level 0 has two files. A byte makes progress if it moves
//! to a run of at least twice the size; the chosen neighbours are those for which the fewest bytes are written per byte
//! of progress. One more run fits meanwhile; the commit after it has to wait.
//!
//! Write amplification (bytes written for each byte of data, including the commit itself) in the simulation at the end
//! of this file: below 3.5, 5.5 and 8.5 for data of up to 30, 100 and 300 commits.

use std::ops::Range;

use crate::edit::LEVELS;

/// Maximum number of files in level 0; LevelDB compacts at four.
pub(crate) const LEVEL0_MAX: usize = 3;
/// Files in level 0 at which LevelDB compacts it.
const LEVEL0_COMPACTS: usize = 4;
/// Files in level 0 at which runs are compacted: one more fits meanwhile.
const COMPACT_FROM: usize = 2;
/// The deepest level, which has no limit.
const DEEPEST: usize = LEVELS - 1;

/// The size of one run, for decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunSize {
    pub(crate) level: usize,
    pub(crate) bytes: u64,
    /// The run is one file, so it may be in level 0.
    pub(crate) is_one_file: bool,
}

/// The limits of the levels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Level 1 must stay below this size; each deeper level may hold ten times as much as the one above.
    pub(crate) level1_bytes: u64,
}

/// The place of a new run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) level: usize,
    /// The levels that the existing runs move to first, newest first.
    pub(crate) moves: Option<Vec<usize>>,
}

impl Limits {
    /// A run in `level` must have fewer bytes.
    fn of(&self, level: usize) -> u64 {
        match u32::try_from(level) {
            Ok(level @ 1..=5) => self.level1_bytes.saturating_mul(10_u64.pow(level - 1)),
            _ => u64::MAX,
        }
    }

    /// Whether LevelDB would begin to compact as soon as it opens the directory.
    pub(crate) fn would_compact(&self, runs: &[RunSize]) -> bool {
        level0_count(runs) >= LEVEL0_COMPACTS || runs.iter().any(|run| run.bytes >= self.of(run.level))
    }

    /// The deepest possible levels of the runs (newest first); `None` if there is no such order.
    pub(crate) fn deepest(&self, runs: &[RunSize]) -> Option<Vec<usize>> {
        let mut free = DEEPEST;
        let mut level0 = 0;
        let mut levels = Vec::with_capacity(runs.len());
        for run in runs.iter().rev() {
            if free > 0 && run.bytes < self.of(free) {
                levels.push(free);
                free -= 1;
            } else {
                free = 0;
                level0 += 1;
                if !run.is_one_file || level0 > LEVEL0_MAX {
                    return None;
                }
                levels.push(0);
            }
        }
        levels.reverse();
        Some(levels)
    }

    /// The place of a new run of about `bytes`; `None` if a compaction must free a level first.
    pub(crate) fn place(&self, runs: &[RunSize], bytes: u64) -> Option<Placement> {
        let top = runs.first().map_or(LEVELS, |run| run.level);
        if top >= 2 && bytes < self.of(top - 1) {
            return Some(Placement { level: top - 1, moves: None });
        }
        // With moves. In level 0 the new run would be one file, and the runs there may move down.
        for is_one_file in [false, true] {
            let mut all = vec![RunSize { level: 0, bytes, is_one_file }];
            all.extend_from_slice(runs);
            if let Some(levels) = self.deepest(&all) {
                return Some(Placement { level: levels[0], moves: Some(levels[1..].to_vec()) });
            }
        }
        (level0_count(runs) < LEVEL0_MAX).then_some(Placement { level: 0, moves: None })
    }

    /// The runs to compact next; `None` if there is no need.
    pub(crate) fn choose_compaction(&self, runs: &[RunSize]) -> Option<Range<usize>> {
        match self.deepest(runs) {
            Some(levels) if levels.iter().filter(|level| **level == 0).count() < COMPACT_FROM => {
                return None;
            }
            _ => {}
        }
        let mut best: Option<(u128, u128, Range<usize>)> = None;
        for start in 0..runs.len() {
            for end in start + 2..=runs.len() {
                let range = start..end;
                if self.level_after_compaction(runs, &range).is_none() {
                    continue;
                }
                let sizes = || runs[range.clone()].iter().map(|run| u128::from(run.bytes.max(1)));
                let total = sizes().sum::<u128>();
                let largest = sizes().max().unwrap_or(1);
                let rising = total - largest;
                // The smallest ratio of total to rising bytes comes first; of equal ratios the one that compacts more
                // runs.
                let is_better = best.as_ref().is_none_or(|(best_total, best_rising, best)| {
                    let ours = total * best_rising;
                    let theirs = best_total * rising;
                    ours < theirs || (ours == theirs && range.len() > best.len())
                });
                if is_better {
                    best = Some((total, rising, range));
                }
            }
        }
        best.map(|(_, _, range)| range)
    }

    /// The level of the run that results from compacting `range`, if all runs then have a level and that one is below
    /// 0.
    fn level_after_compaction(&self, runs: &[RunSize], range: &Range<usize>) -> Option<usize> {
        let bytes = runs[range.clone()].iter().map(|run| run.bytes).sum();
        let compacted = RunSize { level: runs[range.end - 1].level, bytes, is_one_file: false };
        let mut after = runs[..range.start].to_vec();
        after.push(compacted);
        after.extend_from_slice(&runs[range.end..]);
        // Runs in level 0 above the range stay there, whatever their number.
        let newer = range.start.saturating_sub(LEVEL0_MAX);
        self.deepest(&after[newer..]).map(|levels| levels[range.start - newer])
    }

    /// The levels of all runs after those of `range` have become one run of `bytes`: the others stay if possible.
    /// `None` if there is no place for the new run.
    pub(crate) fn place_compacted(&self, runs: &[RunSize], range: &Range<usize>, bytes: u64) -> Option<Vec<usize>> {
        let older = runs.get(range.end).map_or(LEVELS, |run| run.level);
        let oldest = runs[range.end - 1].level;
        let deepest = older.checked_sub(1).filter(|level| *level >= oldest.max(1));
        let mut levels: Vec<usize> = runs[..range.start].iter().map(|run| run.level).collect();
        let rest = runs[range.end..].iter().map(|run| run.level);
        if let Some(level) = deepest.filter(|level| bytes < self.of(*level)) {
            levels.push(level);
            levels.extend(rest);
            return Some(levels);
        }
        let mut after = runs[..range.start].to_vec();
        after.push(RunSize { level: oldest, bytes, is_one_file: false });
        after.extend_from_slice(&runs[range.end..]);
        if let Some(levels) = self.deepest(&after) {
            return Some(levels);
        }
        // The run is over its level's limit, but the order is right: the next compaction moves it further down.
        levels.push(deepest?);
        levels.extend(rest);
        Some(levels)
    }
}

pub(crate) fn level0_count(runs: &[RunSize]) -> usize {
    runs.iter().filter(|run| run.level == 0).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const LIMITS: Limits = Limits { level1_bytes: 10 * MIB };

    fn runs(list: &[(usize, u64)]) -> Vec<RunSize> {
        let run = |(level, mib): &(usize, u64)| RunSize { level: *level, bytes: mib * MIB, is_one_file: *level == 0 };
        list.iter().map(run).collect()
    }

    #[test]
    fn place_new_run_is_above_all_others_and_within_limits() {
        for (row, there, mib, want) in [
            ("the first goes to the bottom", &[][..], 5000, Some((6, None))),
            ("the second above it", &[(6, 5000)], 5000, Some((5, None))),
            ("not under a small one", &[(2, 1), (6, 5000)], 5, Some((1, None))),
            ("small ones make room", &[(2, 1), (6, 5000)], 50, Some((4, Some(vec![5, 6])))),
            ("too big for level 3", &[(4, 500), (5, 500), (6, 500)], 1024, Some((0, Some(vec![4, 5, 6])))),
            (
                "what another program left in level 0 makes room",
                &[(0, 1), (0, 1), (0, 1), (6, 5000)],
                20_000,
                Some((0, Some(vec![3, 4, 5, 6]))),
            ),
            ("beside one in level 0", &[(0, 50), (3, 50), (4, 50)], 50, Some((3, Some(vec![4, 5, 6])))),
            ("no room at all", &[(0, 2000), (0, 2000), (0, 2000), (4, 2000), (5, 20000), (6, 1)], 9, None),
        ] {
            let place = LIMITS.place(&runs(there), mib * MIB);
            let want = want.map(|(level, moves)| Placement { level, moves });
            assert_eq!(place, want, "{row}");
        }
    }

    #[test]
    fn choose_compaction_takes_the_runs_that_cost_least() {
        for (row, there, want) in [
            ("nothing to do", &[(5, 100), (6, 100)][..], None),
            ("moves are enough", &[(0, 50), (0, 50), (1, 5)], None),
            ("one may lie in level 0", &[(0, 50), (4, 2000), (5, 2000), (6, 5000)], None),
            ("equals at the top", &[(0, 20), (0, 20), (2, 20), (3, 500), (4, 900), (5, 2000), (6, 5000)], Some(0..3)),
            ("equals in the middle", &[(0, 1024), (0, 1024), (4, 4000), (5, 4000), (6, 90_000)], Some(0..4)),
        ] {
            assert_eq!(LIMITS.choose_compaction(&runs(there)), want, "{row}");
        }
        let full: Vec<_> = (0..12).map(|_| (0, 2)).chain([(1, 12), (2, 120), (3, 1200)]).collect();
        assert!(LIMITS.would_compact(&runs(&full)));
        let range = LIMITS.choose_compaction(&runs(&full)).unwrap();
        assert!(range.len() > 9, "{range:?} makes one of what LevelDB left in level 0");
    }

    /// Commits of `commit` bytes until the data is `count` of them long; a compaction whenever one is wanted, done
    /// before the next commit (`is_prompt`) or as late as can be. Returns the write amplification, and the maximum
    /// number of runs that a look-up met.
    fn simulate(commit: u64, count: u64, is_prompt: bool) -> (f64, usize) {
        let mut runs: Vec<RunSize> = Vec::new();
        let (mut written, mut most) = (0, 0);
        for _ in 0..count {
            let mut place = LIMITS.place(&runs, commit);
            while place.is_none() || (is_prompt && LIMITS.choose_compaction(&runs).is_some()) {
                let range = LIMITS.choose_compaction(&runs).expect("no place, so there is a compaction");
                let bytes = runs[range.clone()].iter().map(|run| run.bytes).sum();
                let levels = LIMITS.place_compacted(&runs, &range, bytes).unwrap();
                runs.splice(range, [RunSize { level: 0, bytes, is_one_file: false }]);
                for (run, level) in runs.iter_mut().zip(levels) {
                    run.level = level;
                }
                written += bytes;
                place = LIMITS.place(&runs, commit);
            }
            let Placement { level, moves } = place.unwrap();
            for (run, level) in runs.iter_mut().zip(moves.unwrap_or_default()) {
                run.level = level;
            }
            runs.insert(0, RunSize { level, bytes: commit, is_one_file: level == 0 });
            written += commit;
            most = most.max(runs.len());
            assert!(!LIMITS.would_compact(&runs), "{runs:?}");
            assert!(runs.is_sorted_by_key(|run| run.level), "{runs:?}");
            let deeper: Vec<_> = runs.iter().map(|run| run.level).filter(|l| *l > 0).collect();
            assert!(deeper.windows(2).all(|pair| pair[0] < pair[1]), "{runs:?}");
        }
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
        let ratio = written as f64 / (commit * count) as f64;
        (ratio, most)
    }

    #[test]
    fn simulated_write_amplification_stays_within_the_stated_factors() {
        for mib in [1, 5, 20, 50, 200, 900, 2000] {
            for (count, limit) in [(5, 1.01), (10, 2.0), (30, 3.5), (100, 5.5), (300, 8.5)] {
                for is_prompt in [false, true] {
                    let (factor, most) = simulate(mib * MIB, count, is_prompt);
                    println!("{mib} MiB x {count} prompt {is_prompt}: {factor:.2}, {most} runs");
                    assert!(factor < limit, "{mib} MiB x {count}: {factor}");
                    assert!(most <= LEVELS - 1 + LEVEL0_MAX);
                }
            }
        }
    }
}
