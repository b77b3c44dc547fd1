//! Composition of a UTXO set: script types, script lengths, ages of coins.

use primitives::coin::SCRIPT_BYTES_MAX;
use primitives::script_type::ScriptType;
use primitives::{CoinRef, Height};

/// Blocks per day, the unit of age.
const DAY_BLOCKS: u32 = 144;
/// Days with a count of their own: 178 years. Coins above that height, which a file may contain, count for the last
/// day.
const DAYS_MAX: usize = 1 << 16;

/// Age bands: end of the band in blocks, and its name.
const BANDS: [(u32, &str); 7] = [
    (DAY_BLOCKS, "day"),
    (7 * DAY_BLOCKS, "week"),
    (30 * DAY_BLOCKS, "month"),
    (365 * DAY_BLOCKS, "year"),
    (2 * 365 * DAY_BLOCKS, "2 years"),
    (5 * 365 * DAY_BLOCKS, "5 years"),
    (u32::MAX, "older"),
];

/// Number and sums of some coins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Coins.
    pub coins: u64,
    /// Sum of their amounts, in satoshi.
    pub amount: i64,
    /// Bytes of their scripts.
    pub script_bytes: u64,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.coins += other.coins;
        self.amount = self.amount.saturating_add(other.amount);
        self.script_bytes += other.script_bytes;
    }
}

/// Composition of a set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetStats {
    types: [Tally; ScriptType::ALL.len()],
    /// Coins by the length of their script.
    lengths: Vec<u64>,
    /// Coins by day of the chain in which they were made.
    days: Vec<Tally>,
    height_max: Height,
}

impl Default for SetStats {
    fn default() -> SetStats {
        let types = Default::default();
        let days = Vec::new();
        SetStats { types, lengths: Vec::new(), days, height_max: Height::GENESIS }
    }
}

impl SetStats {
    /// Counts a coin.
    #[inline]
    pub fn count(&mut self, coin: &CoinRef<'_>) {
        let script_bytes = coin.script.script_bytes();
        let one = Tally { coins: 1, amount: coin.value.0, script_bytes: script_bytes as u64 };
        self.types[ScriptType::of(&coin.script) as usize].add(one);
        let length = script_bytes.min(SCRIPT_BYTES_MAX);
        if self.lengths.len() <= length {
            self.lengths.resize(length + 1, 0);
        }
        self.lengths[length] += 1;
        let day = (coin.height.to_u32() / DAY_BLOCKS) as usize;
        let day = day.min(DAYS_MAX - 1);
        if self.days.len() <= day {
            self.days.resize(day + 1, Tally::default());
        }
        self.days[day].add(one);
        self.height_max = self.height_max.max(coin.height);
    }

    /// Adds the counts of another part of the set.
    pub fn merge(&mut self, other: &SetStats) {
        self.types.iter_mut().zip(&other.types).for_each(|(sum, part)| sum.add(*part));
        if self.lengths.len() < other.lengths.len() {
            self.lengths.resize(other.lengths.len(), 0);
        }
        self.lengths.iter_mut().zip(&other.lengths).for_each(|(sum, part)| *sum += part);
        if self.days.len() < other.days.len() {
            self.days.resize(other.days.len(), Tally::default());
        }
        self.days.iter_mut().zip(&other.days).for_each(|(sum, part)| sum.add(*part));
        self.height_max = self.height_max.max(other.height_max);
    }

    /// The script types that occur, by Core's names.
    pub fn types(&self) -> impl Iterator<Item = (&'static str, Tally)> + '_ {
        ScriptType::ALL
            .iter()
            .zip(self.types)
            .filter(|(_, tally)| tally.coins > 0)
            .map(|(kind, tally)| (kind.name(), tally))
    }

    /// The script lengths that occur, in bytes, with the number of coins of each.
    pub fn lengths(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.lengths.iter().copied().enumerate().filter(|(_, coins)| *coins > 0)
    }

    /// Coins by age below the tip: name of the band, and its coins. Each day of the chain is in one band as a whole.
    pub fn ages(&self, tip: Height) -> Vec<(&'static str, Tally)> {
        let mut bands = BANDS.map(|(_, name)| (name, Tally::default()));
        for (day, tally) in self.days.iter().enumerate() {
            let end = (day as u32 + 1).saturating_mul(DAY_BLOCKS) - 1;
            let age = tip.to_u32().saturating_sub(end);
            let band = BANDS.iter().position(|(below, _)| age < *below).unwrap_or(BANDS.len() - 1);
            bands[band].1.add(*tally);
        }
        bands.into_iter().collect()
    }

    /// The greatest height of a coin.
    pub fn height_max(&self) -> Height {
        self.height_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::Amount;
    use primitives::coin::{code, put_coin};

    fn stored(height: u32, value: i64, script: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put_coin(&mut out, code(Height::new(height), false), Amount(value), script);
        out
    }

    #[test]
    fn stats_of_parts_are_those_of_the_whole() {
        let p2sh = [&[0xa9, 0x14][..], &[7; 20], &[0x87]].concat();
        let coins = [
            stored(1000, 5, &p2sh),
            stored(999, 6, &p2sh),
            stored(800, 7, &[0x51]),
            stored(0, 8, &[]),
            stored(u32::MAX >> 1, 9, &[0; 300]),
        ];
        let (mut whole, mut even, mut odd) = (SetStats::default(), SetStats::default(), SetStats::default());
        for (place, coin) in coins.iter().enumerate() {
            let coin = CoinRef::decode(coin).unwrap();
            whole.count(&coin);
            if place % 2 == 0 { even.count(&coin) } else { odd.count(&coin) }
        }
        even.merge(&odd);
        assert_eq!(even, whole);
        let types: Vec<_> = whole.types().map(|(name, tally)| (name, tally.coins, tally.amount)).collect();
        assert_eq!(types, [("scripthash", 2, 11), ("nonstandard", 3, 24)]);
        assert_eq!(whole.lengths().collect::<Vec<_>>(), [(0, 1), (1, 1), (23, 2), (300, 1)]);
        let ages: Vec<_> = whole.ages(Height::new(1000)).iter().map(|(name, tally)| (*name, tally.coins)).collect();
        assert_eq!(
            ages,
            [("day", 4), ("week", 1), ("month", 0), ("year", 0), ("2 years", 0), ("5 years", 0), ("older", 0)]
        );
        assert_eq!(whole.height_max(), Height::new(u32::MAX >> 1));
    }
}
