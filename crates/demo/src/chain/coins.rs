//! The unspent coins of a chain being generated, grouped by age.
//!
//! Coins of the first phase are stored as their [`Split`] until they are spent.
//!
//! Absent on purpose: txids and scripts, which `ids` and `keys` have.

use super::coin::Coin;
use super::profile::{Model, RECENT_BLOCKS};
use super::rng::Rng;
use super::split::Split;
use std::collections::{HashMap, VecDeque};

/// All coins except immature coinbases.
#[derive(Debug, Default)]
pub(super) struct Coins {
    /// Coins of the block that is being built.
    fresh: Vec<Coin>,
    /// The split of the block that is being built.
    split: Option<Split>,
    /// Coins of each of the last [`RECENT_BLOCKS`] blocks, the newest block first.
    recent: VecDeque<(Vec<Coin>, Option<Split>)>,
    /// All older coins.
    old: Old,
    /// A coin was taken.
    is_touched: bool,
}

/// A list of older coins, which begins with the remaining coins of the splits.
#[derive(Debug, Default)]
struct Old {
    splits: Vec<Split>,
    /// Number of coins up to and including each split.
    ends: Vec<usize>,
    /// Remaining coins of the splits: the first ones.
    split_count: usize,
    /// Places among them that now contain another coin.
    moved: HashMap<usize, Coin>,
    /// Coins after those of the splits.
    rest: Vec<Coin>,
}

impl Old {
    fn len(&self) -> usize {
        self.split_count + self.rest.len()
    }

    /// Adds all coins of a split. No coin was removed yet, and no other was added.
    fn push_split(&mut self, split: Split) {
        assert!(self.rest.is_empty() && self.moved.is_empty(), "splits come first");
        self.split_count += split.count;
        self.ends.push(self.split_count);
        self.splits.push(split);
    }

    /// The original coin of a place among those of the splits, if it is unspent.
    fn made(&self, place: usize) -> Coin {
        let split = self.ends.partition_point(|&end| end <= place);
        let start = if split == 0 { 0 } else { self.ends[split - 1] };
        self.splits[split].coin(place - start)
    }

    /// Removes the coin of a place, and moves the last one there.
    fn swap_remove(&mut self, place: usize) -> Coin {
        let last_place = self.len() - 1;
        let last = self.rest.pop().unwrap_or_else(|| {
            self.split_count -= 1;
            self.moved.remove(&last_place).unwrap_or_else(|| self.made(last_place))
        });
        if place == last_place {
            return last;
        }
        match place.checked_sub(self.split_count) {
            Some(at) => std::mem::replace(&mut self.rest[at], last),
            None => self.moved.insert(place, last).unwrap_or_else(|| self.made(place)),
        }
    }
}

/// Age of a coin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Age {
    SameBlock,
    /// Number of blocks ago, from 1 to [`RECENT_BLOCKS`].
    Blocks(usize),
    Old,
}

fn swap_remove(coins: &mut Vec<Coin>, rng: &mut Rng) -> Option<Coin> {
    (!coins.is_empty()).then(|| coins.swap_remove(rng.index(coins.len())))
}

impl Coins {
    /// Adds a coin of the block that is being built. It may be spent by the next transaction.
    pub(super) fn add_fresh(&mut self, coin: Coin) {
        self.fresh.push(coin);
    }

    /// Adds a coin of an old block.
    pub(super) fn add_old(&mut self, coin: Coin) {
        self.old.rest.push(coin);
    }

    /// From now on the coins that are added to the block are those of a split.
    pub(super) fn begin_split(&mut self, split: Split) {
        self.split = Some(split);
    }

    /// Ends a block: its coins are one block old from now on.
    pub(super) fn end_block(&mut self) {
        self.recent.push_front((std::mem::take(&mut self.fresh), self.split.take()));
        if self.recent.len() > RECENT_BLOCKS {
            match self.recent.pop_back().expect("it is not empty") {
                (_, Some(split)) if !self.is_touched && self.old.rest.is_empty() => self.old.push_split(split),
                (coins, _) => self.old.rest.extend(coins),
            }
        }
    }

    pub(super) fn count(&self) -> usize {
        self.fresh.len() + self.recent.iter().map(|(coins, _)| coins.len()).sum::<usize>() + self.old.len()
    }

    /// Draws the age of a coin to spend.
    pub(super) fn draw_age(model: &Model, rng: &mut Rng) -> Age {
        let at = rng.below(1_000) as u32;
        if at < model.same_block_per_mille {
            Age::SameBlock
        } else if at < model.same_block_per_mille + model.recent_per_mille {
            Age::Blocks(model.draw_age(rng))
        } else {
            Age::Old
        }
    }

    /// Removes a coin of that age. If there is no such coin, uses an older one, or else a newer one; `None` without
    /// any coin.
    pub(super) fn take(&mut self, age: Age, chained: bool, rng: &mut Rng) -> Option<Coin> {
        self.is_touched = true;
        let taken = match age {
            Age::SameBlock if chained => self.fresh.pop(),
            Age::SameBlock => swap_remove(&mut self.fresh, rng),
            Age::Blocks(blocks) => self.recent.get_mut(blocks - 1).and_then(|(coins, _)| swap_remove(coins, rng)),
            Age::Old => self.take_old(rng),
        };
        taken.or_else(|| self.take_oldest(rng))
    }

    fn take_old(&mut self, rng: &mut Rng) -> Option<Coin> {
        let count = self.old.len();
        (count > 0).then(|| self.old.swap_remove(rng.index(count)))
    }

    fn take_oldest(&mut self, rng: &mut Rng) -> Option<Coin> {
        if self.old.len() > 0 {
            return self.take_old(rng);
        }
        let lists = self.recent.iter_mut().rev().map(|(coins, _)| coins).chain([&mut self.fresh]);
        lists.into_iter().find(|coins| !coins.is_empty()).and_then(|coins| swap_remove(coins, rng))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::coin::Out;
    use crate::chain::profile::Kind;

    /// Splits and what was moved, beside a plain list of the same coins.
    #[test]
    fn old_coins_are_as_in_a_plain_list() {
        let model = super::super::profile::Profile::default().model();
        let (mut old, mut plain, mut rng) = (Old::default(), Vec::new(), Rng::new(4, 4));
        for (first_tx, count) in [(1, 60), (9, 1), (20, 25), (30, 111)] {
            let rng = Rng::new(u64::from(first_tx), 0);
            let split = Split { model, keys: 90, unit: 1000, count, first_tx, halvings: first_tx % 3, rng };
            plain.extend((0..count).map(|index| split.coin(index)));
            old.push_split(split);
        }
        while !plain.is_empty() {
            if rng.below(3) == 0 && plain.len() < 300 {
                let coin = Coin { tx: 1_000_000, vout: rng.below(9) as u32, out: Out::new(5, Kind::P2tr, 3) };
                plain.push(coin);
                old.rest.push(coin);
            }
            let place = rng.index(plain.len());
            assert_eq!(old.swap_remove(place), plain.swap_remove(place));
            assert_eq!(old.len(), plain.len());
        }
        assert!(old.moved.is_empty(), "nothing is kept of what is gone");
    }

    #[test]
    fn coin_is_spent_once_at_its_age() {
        let (mut coins, mut rng) = (Coins::default(), Rng::new(1, 1));
        let blocks = RECENT_BLOCKS as u32 + 5;
        for tx in 0..blocks {
            coins.add_fresh(Coin { tx, vout: 0, out: Out::new(1, Kind::P2tr, 0) });
            coins.end_block();
        }
        coins.add_fresh(Coin { tx: blocks, vout: 0, out: Out::new(1, Kind::P2tr, 0) });
        assert_eq!(coins.count(), blocks as usize + 1);
        let mut take = |age| coins.take(age, false, &mut rng).map(|coin| coin.tx);
        assert_eq!(take(Age::SameBlock), Some(blocks));
        assert_eq!(take(Age::Blocks(1)), Some(blocks - 1));
        assert_eq!(take(Age::Blocks(RECENT_BLOCKS)), Some(5));
        let mut old: Vec<_> = (0..5).filter_map(|_| take(Age::Old)).collect();
        old.sort_unstable();
        assert_eq!(old, [0, 1, 2, 3, 4], "old coins are those of more than {RECENT_BLOCKS} blocks ago");
        assert_eq!(take(Age::Old), Some(6), "then the oldest of the others");
        assert_eq!(take(Age::SameBlock), Some(7));
        while take(Age::Old).is_some() {}
        assert_eq!(coins.count(), 0);
    }
}
