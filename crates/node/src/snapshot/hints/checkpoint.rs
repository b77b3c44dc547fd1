//! Progress of a UTXO set that is built with hints: a private file in the data directory, replaced after each run of
//! coins.
//!
//! ```text
//! SHA-256 of the hints 32 | hash of the last block 32 | keys of the sums 32 | created u128 LE | spent u128 LE | coins u64 LE
//! | for each height from 1 on: transactions of its block u32 LE, 0 where the block is not done | SHA-256 of all before 32
//! ```
//!
//! If a block is marked as done here, its coins are in the tables. If the program was killed between the two writes,
//! tables also have coins of other blocks: those blocks are processed again, and write the same coins again.

use super::sums::{SALT_BYTES, Salt, Sums};
use kernels::sha256::sha256;
use primitives::hints::HEIGHT_MAX;
use primitives::{BlockHash, Reader};
use store::Fault;
use store::private_files::PrivateDir;

/// Name of the file.
const NAME: &str = "hints";
/// Bytes of the file without those per block.
const FIXED_BYTES: usize = 32 + 32 + SALT_BYTES + 16 + 16 + 8 + 32;

/// Progress of the set.
#[derive(Clone)]
pub(crate) struct Checkpoint {
    /// SHA-256 of the hints.
    pub(crate) hints: [u8; 32],
    /// The block at which the set will be complete.
    pub(crate) target: BlockHash,
    /// Secret keys of the sums.
    pub(crate) salt: Salt,
    /// Sums of the completed blocks.
    pub(crate) sums: Sums,
    /// Number of coins of these blocks that survive.
    pub(crate) coins: u64,
    /// By height, from 1 on: transactions of the block; 0 if it is not done.
    pub(crate) transactions: Vec<u32>,
}

impl Checkpoint {
    /// Whether all blocks are done.
    pub(crate) fn is_complete(&self) -> bool {
        !self.transactions.contains(&0)
    }

    /// Whether all blocks are done, and the outputs that do not survive are exactly those that were spent.
    pub(crate) fn is_good(&self) -> bool {
        self.is_complete() && self.sums.agree()
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FIXED_BYTES + 4 * self.transactions.len());
        out.extend_from_slice(&self.hints);
        out.extend_from_slice(self.target.as_bytes());
        out.extend_from_slice(&self.salt.to_bytes());
        out.extend_from_slice(&self.sums.created.to_le_bytes());
        out.extend_from_slice(&self.sums.spent.to_le_bytes());
        out.extend_from_slice(&self.coins.to_le_bytes());
        self.transactions.iter().for_each(|count| out.extend_from_slice(&count.to_le_bytes()));
        let hash = sha256(&out);
        out.extend_from_slice(&hash);
        out
    }

    fn decode(bytes: &[u8]) -> Option<Checkpoint> {
        let (body, hash) = bytes.split_last_chunk::<32>()?;
        if sha256(body) != *hash {
            return None;
        }
        let mut reader = Reader::new(body);
        let hints = *reader.array().ok()?;
        let target = BlockHash::from_bytes(*reader.array().ok()?);
        let salt = Salt::from_bytes(reader.array().ok()?);
        let mut sum = || reader.array().ok().map(|bytes| u128::from_le_bytes(*bytes));
        let sums = Sums { created: sum()?, spent: sum()? };
        let coins = reader.u64().ok()?;
        let counts = reader.take(reader.remaining()).ok()?.chunks_exact(4);
        let transactions = counts.map(|count| u32::from_le_bytes(count.try_into().expect("four bytes"))).collect();
        Some(Checkpoint { hints, target, salt, sums, coins, transactions })
    }

    /// Replaces the file.
    ///
    /// # Errors
    ///
    /// No space, or an I/O error.
    pub(crate) fn write(&self, private: &PrivateDir) -> Result<(), Fault> {
        private.write(NAME, &self.encode())
    }

    /// Reads the file; `None` if it does not exist or is incomplete.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn read(private: &PrivateDir) -> Result<Option<Checkpoint>, Fault> {
        let bytes = private.read(NAME, FIXED_BYTES + 4 * HEIGHT_MAX as usize)?;
        Ok(bytes.and_then(|bytes| Checkpoint::decode(&bytes)))
    }

    /// Removes the file.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn remove(private: &PrivateDir) -> Result<(), Fault> {
        private.remove(NAME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_whole_or_none() {
        let all = Checkpoint {
            hints: [1; 32],
            target: BlockHash::from_bytes([2; 32]),
            salt: Salt::from_bytes(&[3; SALT_BYTES]),
            sums: Sums { created: 4 << 70, spent: 5 },
            coins: 6,
            transactions: vec![7, 0, 9],
        };
        let bytes = all.encode();
        assert_eq!(bytes.len(), FIXED_BYTES + 12);
        let again = Checkpoint::decode(&bytes).unwrap();
        assert!(again.encode() == bytes && again.salt == all.salt && again.sums == all.sums && !again.is_complete());
        let done = Checkpoint { transactions: vec![7, 8, 9], ..all.clone() };
        assert!(done.is_complete() && !done.is_good());
        assert!(Checkpoint { sums: Sums { created: 5, spent: 5 }, ..done }.is_good());
        for at in 0..bytes.len() {
            let mut bent = bytes.clone();
            bent[at] ^= 1;
            assert!(Checkpoint::decode(&bent).is_none() && Checkpoint::decode(&bytes[..at]).is_none(), "{at}");
        }
    }
}
