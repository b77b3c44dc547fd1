//! Two sums that are equal if the outputs that did not survive are exactly those that were spent.
//!
//! The sum of a set of outpoints is that of their hashes, modulo 2^128, so that blocks may come in any order. The hash
//! is a pair of SipHash-2-4 with two secret random keys.
//!
//! Why that suffices: the makers of blocks and hints know neither key, and learn only once whether the sums agree. Let
//! the two sets differ in some outpoint, which one contains c times more often than the other. If the hash is as random
//! as SipHash is assumed to be, the sums agree with probability 2^(v - 128), where 2^v is the greatest power of two in
//! c. No chain of Bitcoin has 2^33 inputs: the probability is below 2^-95 for the most adversarial chain, and 2^-128
//! for one that spends no coin twice. A probability of 2^-64 would suffice for a file that is made once and used by
//! every node with its own keys; the second key's half of the sum costs 15 ns per outpoint. BIP 457 uses SHA-256 sums
//! modulo 2^256 over whole coins, for peers that send those along; here only outpoints are needed.

use indexes::siphash::{SipKey, siphash24};
use primitives::OutPoint;

/// Bytes of the keys.
pub(crate) const SALT_BYTES: usize = 32;

/// The secret keys of the hash.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Salt([SipKey; 2]);

impl Salt {
    /// Makes the salt from 32 secret random bytes.
    pub(crate) fn from_bytes(bytes: &[u8; SALT_BYTES]) -> Salt {
        let key = |at: usize| SipKey::from_bytes(bytes[at..at + 16].first_chunk().expect("two keys of 16 bytes"));
        Salt([key(0), key(16)])
    }

    /// The 32 bytes.
    pub(crate) fn to_bytes(self) -> [u8; SALT_BYTES] {
        let mut bytes = [0; SALT_BYTES];
        bytes[..16].copy_from_slice(&self.0[0].to_bytes());
        bytes[16..].copy_from_slice(&self.0[1].to_bytes());
        bytes
    }

    /// Hash of an outpoint as encoded in an input.
    #[inline]
    fn hash(&self, outpoint: &[u8; OutPoint::BYTES]) -> u128 {
        let [low, high] = self.0.map(|key| siphash24(key, outpoint));
        u128::from(high) << 64 | u128::from(low)
    }
}

/// Sums of outputs that do not survive, and of spent outputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sums {
    /// Sum of outpoints that blocks created.
    pub(crate) created: u128,
    /// Sum of outpoints that inputs spend.
    pub(crate) spent: u128,
}

impl Sums {
    /// Adds an output that will be spent.
    #[inline]
    pub(crate) fn create(&mut self, salt: &Salt, outpoint: &OutPoint) {
        self.created = self.created.wrapping_add(salt.hash(&outpoint.to_bytes()));
    }

    /// Adds an input that spends this outpoint.
    #[inline]
    pub(crate) fn spend(&mut self, salt: &Salt, outpoint: &[u8; OutPoint::BYTES]) {
        self.spent = self.spent.wrapping_add(salt.hash(outpoint));
    }

    /// Adds the sums of other blocks.
    pub(crate) fn add(&mut self, other: &Sums) {
        self.created = self.created.wrapping_add(other.created);
        self.spent = self.spent.wrapping_add(other.spent);
    }

    /// Whether both sums are equal.
    pub(crate) fn agree(&self) -> bool {
        self.created == self.spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::Txid;

    /// In any order, in any parts; and every difference of one outpoint shows.
    #[test]
    fn sums_agree_for_the_same_outpoints_alone() {
        let mut rng = testkit::Rng::new(457);
        let salt = Salt::from_bytes(&std::array::from_fn(|_| rng.u64() as u8));
        assert!(Salt::from_bytes(&salt.to_bytes()) == salt);
        let mut outpoint = || {
            let txid = Txid::from_bytes(std::array::from_fn(|_| rng.u64() as u8));
            OutPoint { txid, vout: rng.below(3) as u32 }
        };
        let all: Vec<OutPoint> = (0..50).map(|_| outpoint()).collect();
        let mut sums = [Sums::default(), Sums::default()];
        for (place, outpoint) in all.iter().enumerate() {
            sums[place % 2].create(&salt, outpoint);
        }
        for (place, outpoint) in all.iter().rev().enumerate() {
            sums[usize::from(place < 9)].spend(&salt, &outpoint.to_bytes());
        }
        let mut whole = Sums::default();
        sums.iter().for_each(|part| whole.add(part));
        assert!(whole.agree() && !sums[0].agree());
        let other = OutPoint { vout: all[7].vout + 1, ..all[7] };
        for (row, change) in [
            ("one more created", &(|sums: &mut Sums| sums.create(&salt, &all[3])) as &dyn Fn(&mut Sums)),
            ("one spent twice", &|sums| sums.spend(&salt, &all[3].to_bytes())),
            ("another output of the same transaction", &|sums| {
                sums.create(&salt, &all[7]);
                sums.spend(&salt, &other.to_bytes());
            }),
        ] {
            let mut sums = whole;
            change(&mut sums);
            assert!(!sums.agree(), "{row}");
        }
        let another = Salt::from_bytes(&[1; SALT_BYTES]);
        assert_ne!(another.hash(&other.to_bytes()), salt.hash(&other.to_bytes()));
        assert_ne!(salt.hash(&other.to_bytes()) >> 64, salt.hash(&other.to_bytes()) & u128::from(u64::MAX));
    }
}
