//! Salted sums of coins: a keyed hash of each, added modulo a prime, and added again with weights by height.
//!
//! ```text
//! coin     txid 32 | vout u32 | height * 2 + coinbase u32 | value i64 | CompactSize script bytes | script
//! number   sha256d(salt 32 | tag, zeros up to 64 bytes | coin), little endian, modulo 2^256 - 189
//! sum k    of number * (height + 1)^k, over the coins; k from 0 to 15
//! ```
//!
//! Sum 0 proves that two multisets of coins are equal. The others locate the heights at which they differ: `locate`.
//! Absent on purpose: number and amount of the coins, which are in the records.

use crate::field::Number;
use kernels::Kernels;
use kernels::sha256::sha256d;
use primitives::coin::put_coin_hashed;
use primitives::encode::put_compact_size;
use primitives::{Amount, CoinRef, Height, OutPoint};

/// Number of sums: two for each height that can be located.
pub(crate) const POWERS: usize = 16;
/// Domain separation of the hash; another use of the same salt has another tag.
const TAG: &[u8; 16] = b"ffwd/audit/coin1";
const NAME_TAG: &[u8; 16] = b"ffwd/audit/name1";
/// Number of heights whose spent coins are gathered before they are weighted: as many as fit into the L2 cache
/// together with a block.
const HEIGHTS_GATHERED: usize = 2048;
/// Coins that are hashed at a time: enough for all lanes, few enough for the L1 cache.
const BATCH: usize = 128;
/// Maximum bytes of a batch's coins; with more, it is hashed with fewer coins.
const BATCH_BYTES: usize = 64 << 10;

/// The audit's secret.
#[derive(Clone)]
pub struct Salt([u8; 32]);

impl Salt {
    /// Parses 64 hexadecimal digits, ignoring white space around them. `None` for any other text.
    pub fn from_hex(text: &str) -> Option<Salt> {
        Some(Salt(primitives::hex::decode(text.trim())?.try_into().ok()?))
    }

    /// The name of the audit: reveals nothing about a randomly chosen salt.
    pub(crate) fn name(&self) -> String {
        primitives::hex::encode(&sha256d(&self.block(NAME_TAG))[..16])
    }

    /// Salt and tag as a full block of SHA-256, so that the salt is hashed separately from the coin.
    fn block(&self, tag: &[u8; 16]) -> [u8; 64] {
        let mut block = [0; 64];
        block[..32].copy_from_slice(&self.0);
        block[32..48].copy_from_slice(tag);
        block
    }
}

impl std::fmt::Debug for Salt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Salt(secret)")
    }
}

/// The sums of some coins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sums(pub(crate) [Number; POWERS]);

impl Sums {
    /// Adds a coin's number.
    #[inline]
    pub(crate) fn add(&mut self, mut number: Number, height: u32) {
        // One more than the height, so that coins of height 0 have a weight as well. Heights are below 2^31, because
        // their code has 32 bits.
        let weight = height + 1;
        for (power, sum) in self.0.iter_mut().enumerate() {
            *sum = sum.plus(number);
            if power + 1 < POWERS {
                number = number.times_u32(weight);
            }
        }
    }

    pub(crate) fn plus(&self, other: &Sums) -> Sums {
        Sums(std::array::from_fn(|power| self.0[power].plus(other.0[power])))
    }

    pub(crate) fn minus(&self, other: &Sums) -> Sums {
        Sums(std::array::from_fn(|power| self.0[power].minus(other.0[power])))
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.0.iter().all(|sum| sum.is_zero())
    }
}

/// Sums by height, weighted later: one multiplication for all consecutive coins of a height.
struct Gathered {
    /// A height, and the sum of its coins that are not in `sums` yet. Their number is a power of two; an entry is found
    /// by the height's last bits.
    slots: Vec<(u32, Number)>,
    sums: Sums,
}

impl Gathered {
    fn new(slots: usize) -> Gathered {
        assert!(slots.is_power_of_two(), "the last bits of a height are its slot");
        Gathered { slots: vec![(0, Number::ZERO); slots], sums: Sums::default() }
    }

    #[inline]
    fn add(&mut self, number: Number, height: u32) {
        let mask = self.slots.len() - 1;
        let slot = &mut self.slots[height as usize & mask];
        if slot.0 == height {
            slot.1 = slot.1.plus(number);
        } else {
            let (other, sum) = std::mem::replace(slot, (height, number));
            self.weigh(sum, other);
        }
    }

    fn weigh(&mut self, sum: Number, height: u32) {
        if !sum.is_zero() {
            self.sums.add(sum, height);
        }
    }

    fn finish(mut self) -> Sums {
        for (height, sum) in std::mem::take(&mut self.slots) {
            self.weigh(sum, height);
        }
        self.sums
    }
}

/// The sum that counts a coin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Made,
    Spent,
}

/// Adds coins, hashed in lanes.
pub(crate) struct Adder {
    kernels: Kernels,
    key: [u8; 64],
    bytes: Vec<u8>,
    /// End of the coin's bytes, its height, and the sum that counts it.
    coins: Vec<(usize, u32, Side)>,
    /// All coins of a block have the same height.
    made: Gathered,
    spent: Gathered,
}

impl Adder {
    pub(crate) fn new(salt: &Salt, kernels: Kernels) -> Adder {
        let bytes = Vec::with_capacity(BATCH_BYTES);
        let coins = Vec::with_capacity(BATCH);
        let made = Gathered::new(1);
        let spent = Gathered::new(HEIGHTS_GATHERED);
        Adder { kernels, key: salt.block(TAG), bytes, coins, made, spent }
    }

    /// Adds a coin with its unencoded script.
    #[inline]
    pub(crate) fn add(
        &mut self,
        side: Side,
        outpoint: &OutPoint,
        height: Height,
        coinbase: bool,
        value: Amount,
        script: &[u8],
    ) {
        put_coin(&mut self.bytes, outpoint, primitives::coin::code(height, coinbase), value, script);
        self.added(side, height);
    }

    /// Adds a coin in its stored form.
    #[inline]
    pub(crate) fn add_stored(&mut self, side: Side, outpoint: &OutPoint, coin: &CoinRef<'_>) {
        put_coin_hashed(&mut self.bytes, outpoint, coin);
        self.added(side, coin.height);
    }

    #[inline]
    fn added(&mut self, side: Side, height: Height) {
        self.coins.push((self.bytes.len(), height.to_u32(), side));
        if self.coins.len() == BATCH || self.bytes.len() >= BATCH_BYTES {
            self.hash();
        }
    }

    fn hash(&mut self) {
        let mut hashes = [[0; 32]; BATCH];
        let hashes = &mut hashes[..self.coins.len()];
        let mut start = 0;
        let pieces: Vec<[&[u8]; 3]> = self
            .coins
            .iter()
            .map(|(end, ..)| {
                let coin = &self.bytes[start..*end];
                start = *end;
                [&self.key[..], coin, &[]]
            })
            .collect();
        self.kernels.sha256d_many(&pieces, hashes);
        for (hash, (_, height, side)) in hashes.iter().zip(&self.coins) {
            let gathered = if *side == Side::Made { &mut self.made } else { &mut self.spent };
            gathered.add(Number::from_hash(hash), *height);
        }
        self.coins.clear();
        self.bytes.clear();
    }

    /// The sums of created, and of spent coins.
    pub(crate) fn finish(mut self) -> (Sums, Sums) {
        self.hash();
        (self.made.finish(), self.spent.finish())
    }
}

/// Bytes of a coin for its hash, as for MuHash.
fn put_coin(out: &mut Vec<u8>, outpoint: &OutPoint, code: u32, value: Amount, script: &[u8]) {
    out.extend_from_slice(&outpoint.to_bytes());
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&value.0.to_le_bytes());
    put_compact_size(out, script.len() as u64);
    out.extend_from_slice(script);
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::Txid;

    fn salt(byte: u8) -> Salt {
        Salt::from_hex(&format!("{byte:02x}").repeat(32)).unwrap()
    }

    /// By the definition at the head of this file, one coin at a time, with no lanes.
    fn plain(salt: &Salt, coins: &[(OutPoint, u32, i64, Vec<u8>)]) -> Sums {
        let mut sums = Sums::default();
        for (outpoint, code, value, script) in coins {
            let mut bytes = salt.block(TAG).to_vec();
            put_coin(&mut bytes, outpoint, *code, Amount(*value), script);
            let number = Number::from_hash(&sha256d(&bytes));
            let weight = Number::from_u64(u64::from(code / 2) + 1);
            let mut power = Number::ONE;
            for sum in &mut sums.0 {
                *sum = sum.plus(number.times(power));
                power = power.times(weight);
            }
        }
        sums
    }

    fn coins(seed: u64, count: usize) -> Vec<(OutPoint, u32, i64, Vec<u8>)> {
        let mut rng = testkit::Rng::new(seed);
        let coin = |rng: &mut testkit::Rng| {
            let txid = Txid::from_bytes(std::array::from_fn(|_| rng.u64() as u8));
            let script = vec![rng.u64() as u8; if rng.one_in(9) { 9000 } else { rng.below(60) }];
            let outpoint = OutPoint { txid, vout: rng.below(70_000) as u32 };
            (outpoint, rng.u32(), rng.below(2_100_000_000_000_000) as i64, script)
        };
        (0..count).map(|_| coin(&mut rng)).collect()
    }

    #[test]
    fn sums_are_those_of_the_definition() {
        let coins = coins(1, 400);
        let mut adder = Adder::new(&salt(7), Kernels::AUTO);
        for (outpoint, code, value, script) in &coins {
            let place = (Height::new(code / 2), code & 1 == 1);
            adder.add(Side::Made, outpoint, place.0, place.1, Amount(*value), script);
        }
        let (made, spent) = adder.finish();
        assert_eq!((made, spent), (plain(&salt(7), &coins), Sums::default()));
        assert_ne!(made, plain(&salt(8), &coins));
    }

    /// Heights that come again, that share a slot, and the highest.
    #[test]
    fn gathered_sums_are_those_of_one_coin_after_another() {
        let mut rng = testkit::Rng::new(12);
        for slots in [1, 4, HEIGHTS_GATHERED] {
            let (mut gathered, mut plain) = (Gathered::new(slots), Sums::default());
            for _ in 0..3000 {
                let height = match rng.below(4) {
                    0 => rng.below(3) as u32,
                    1 => (rng.below(5) * slots) as u32,
                    2 => u32::MAX / 2 - rng.below(2) as u32,
                    _ => rng.below(10_000) as u32,
                };
                let number = Number::from_hash(&std::array::from_fn(|_| rng.u64() as u8));
                gathered.add(number, height);
                plain.add(number, height);
            }
            assert_eq!(gathered.finish(), plain, "{slots} slots");
        }
    }

    #[test]
    fn stored_coins_sum_as_plain_ones() {
        let (mut stored, mut bare) = (Adder::new(&salt(1), Kernels::AUTO), Adder::new(&salt(1), Kernels::AUTO));
        for (outpoint, code, value, script) in &coins(2, 50) {
            let mut bytes = Vec::new();
            primitives::coin::put_coin(&mut bytes, *code, Amount(*value), script);
            stored.add_stored(Side::Spent, outpoint, &CoinRef::decode(&bytes).unwrap());
            bare.add(Side::Spent, outpoint, Height::new(code / 2), code & 1 == 1, Amount(*value), script);
        }
        assert_eq!(stored.finish(), bare.finish());
    }

    /// Each field of a coin counts.
    #[test]
    fn every_change_of_a_coin_changes_its_sum() {
        let coin = coins(3, 1).remove(0);
        let base = plain(&salt(1), std::slice::from_ref(&coin));
        let (outpoint, code, value, script) = coin;
        let other = OutPoint { vout: outpoint.vout + 1, ..outpoint };
        for (row, changed) in [
            ("vout", (other, code, value, script.clone())),
            ("txid", (OutPoint { txid: Txid::ZERO, ..outpoint }, code, value, script.clone())),
            ("coinbase", (outpoint, code ^ 1, value, script.clone())),
            ("height", (outpoint, code ^ 2, value, script.clone())),
            ("value", (outpoint, code, value ^ 1, script.clone())),
            ("script", (outpoint, code, value, [&script[..], &[0]].concat())),
        ] {
            assert_ne!(plain(&salt(1), &[changed]).0[0], base.0[0], "{row}");
        }
    }

    #[test]
    fn salt_is_read_named_and_not_shown() {
        for (text, is_salt) in [
            ("0f".repeat(32), true),
            (format!(" {}\n", "0f".repeat(32)), true),
            ("0f".repeat(31), false),
            (String::new(), false),
        ] {
            assert_eq!(Salt::from_hex(&text).is_some(), is_salt, "{text}");
        }
        assert_ne!(salt(1).name(), salt(2).name());
        assert_eq!(format!("{:?}", salt(1)), "Salt(secret)");
    }
}
