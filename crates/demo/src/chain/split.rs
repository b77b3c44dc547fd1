//! Recomputes the coins of one block of the first phase from its random number generator.
//!
//! There may be hundreds of millions of coins, and most are never spent. Only the state of the generator is stored, a
//! few dozen bytes for each block. Each coin takes a fixed number of draws, and the generator can skip draws.
//!
//! Draws of a block, in order: two for each value; two for the output that each transaction spends, and for the output
//! with the remaining value; one for the transaction that creates those; then for each transaction two for each coin,
//! and one at its end.
//!
//! Absent on purpose: which of the coins are unspent (`coins`).

use super::coin::{Coin, Out};
use super::profile::{Kind, Model};
use super::rng::Rng;

/// Number of coins that a transaction of the first phase creates.
pub(super) const TX_COINS: usize = 25;

/// One block of the first phase.
#[derive(Clone, Debug)]
pub(super) struct Split {
    pub(super) model: &'static Model,
    /// Keys of the pool.
    pub(super) keys: u64,
    /// Half of the coins have about this value.
    pub(super) unit: u64,
    /// Number of coins that it creates.
    pub(super) count: usize,
    /// Number of the transaction that funds those that create the coins.
    pub(super) first_tx: u32,
    /// How often all values were halved.
    pub(super) halvings: u32,
    /// State of the generator before the first value was drawn.
    pub(super) rng: Rng,
}

/// Draws a value: half of them have about the unit, a quarter twice that, and so on ten times.
pub(super) fn draw_value(rng: &mut Rng, unit: u64) -> u64 {
    let doublings = rng.next().trailing_zeros().min(9);
    (unit << doublings) * (512 + rng.below(1024)) / 1024 + 1
}

/// A value, reduced if there is not enough money.
pub(super) fn halved(value: u64) -> u64 {
    value / 2 + 1
}

/// Draws kind and key of an output with this value.
pub(super) fn draw_output(rng: &mut Rng, model: &Model, keys: u64, value: u64) -> Out {
    let kind: Kind = model.draw_kind(rng);
    Out::new(value, kind, rng.below(keys) as u16)
}

impl Split {
    /// Coin number `index` of the block.
    pub(super) fn coin(&self, index: usize) -> Coin {
        let mut rng = self.rng.clone();
        rng.skip(2 * index as u64);
        let value = (0..self.halvings).fold(draw_value(&mut rng, self.unit), |value, _| halved(value));
        let tx = index / TX_COINS;
        let vout = index % TX_COINS;
        let paid = 2 * (self.count.div_ceil(TX_COINS) + 1) + 1;
        let before = 2 * self.count + paid + tx * (2 * TX_COINS + 1) + 2 * vout;
        let mut rng = self.rng.clone();
        rng.skip(before as u64);
        let out = draw_output(&mut rng, self.model, self.keys, value);
        Coin { tx: self.first_tx + 1 + tx as u32, vout: vout as u32, out }
    }
}
