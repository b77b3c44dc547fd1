//! The coins that a chain has at one moment of its making, sorted by how long ago they were made.
//!
//! A coin is 16 bytes: the number of its transaction in the chain (its txid need not be known yet), the number of the
//! output, and the output itself: value in the upper 44 bits, kind in 4, key in 16.
//!
//! Absent on purpose: txids and scripts, which `ids` and `keys` have.

use super::profile::{Kind, Model, RECENT_BLOCKS};
use super::rng::Rng;
use std::collections::VecDeque;

/// What an output is worth and how it is locked; for [`Kind::OpReturn`] the key is the number of bytes of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Out(u64);

impl Out {
    /// Values are below this; the whole money of regtest is a twelfth of it.
    const VALUE_END: u64 = 1 << 44;

    pub(super) fn new(value: u64, kind: Kind, key: u16) -> Out {
        assert!(value < Out::VALUE_END, "regtest has less money than that");
        Out(value << 20 | (kind as u64) << 16 | u64::from(key))
    }

    /// Satoshis.
    pub(super) fn value(self) -> u64 {
        self.0 >> 20
    }

    pub(super) fn kind(self) -> Kind {
        Kind::COINS.get((self.0 >> 16 & 15) as usize).copied().unwrap_or(Kind::OpReturn)
    }

    /// Index into the pool of keys.
    pub(super) fn key(self) -> u16 {
        self.0 as u16
    }
}

/// An output that can be spent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Coin {
    /// Number of its transaction in the chain, coinbases counted.
    pub(super) tx: u32,
    pub(super) vout: u32,
    pub(super) out: Out,
}

/// All coins but immature coinbases.
#[derive(Debug, Default)]
pub(super) struct Coins {
    /// Of the block in the making.
    fresh: Vec<Coin>,
    /// Of each of the last [`RECENT_BLOCKS`] blocks, the newest in front.
    recent: VecDeque<Vec<Coin>>,
    /// All others.
    old: Vec<Coin>,
}

/// How long ago a coin was made.
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
    /// Adds a coin of the block in the making. It may be spent by the next transaction.
    pub(super) fn add_fresh(&mut self, coin: Coin) {
        self.fresh.push(coin);
    }

    /// Adds a coin of a block long ago.
    pub(super) fn add_old(&mut self, coin: Coin) {
        self.old.push(coin);
    }

    /// Ends a block: its coins are one block old from now on.
    pub(super) fn end_block(&mut self) {
        self.recent.push_front(std::mem::take(&mut self.fresh));
        if self.recent.len() > RECENT_BLOCKS {
            self.old.extend(self.recent.pop_back().expect("it is not empty"));
        }
    }

    pub(super) fn count(&self) -> usize {
        self.fresh.len() + self.recent.iter().map(Vec::len).sum::<usize>() + self.old.len()
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

    /// Takes a coin of that age. Without one, takes an older one, or else a newer one; `None` when there is no coin.
    pub(super) fn take(&mut self, age: Age, chained: bool, rng: &mut Rng) -> Option<Coin> {
        let taken = match age {
            Age::SameBlock if chained => self.fresh.pop(),
            Age::SameBlock => swap_remove(&mut self.fresh, rng),
            Age::Blocks(blocks) => self.recent.get_mut(blocks - 1).and_then(|coins| swap_remove(coins, rng)),
            Age::Old => swap_remove(&mut self.old, rng),
        };
        taken.or_else(|| self.take_oldest(rng))
    }

    fn take_oldest(&mut self, rng: &mut Rng) -> Option<Coin> {
        let lists = std::iter::once(&mut self.old).chain(self.recent.iter_mut().rev()).chain([&mut self.fresh]);
        lists.into_iter().find(|coins| !coins.is_empty()).and_then(|coins| swap_remove(coins, rng))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coin_pool_keeps_output_fields() {
        for kind in Kind::COINS.into_iter().chain([Kind::OpReturn]) {
            for (value, key) in [(0, 0), (1, u16::MAX), (Out::VALUE_END - 1, 7)] {
                let out = Out::new(value, kind, key);
                assert_eq!((out.value(), out.kind(), out.key()), (value, kind, key));
            }
        }
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
