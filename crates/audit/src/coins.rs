//! Sums the UTXO set, or the part with a range of txid prefixes, in the same way as the outputs of blocks.

use crate::record::{CoinsRecord, Record, rules_name, weighted};
use crate::sums::{Adder, Salt, Side, Sums};
use node::Fault;
use node::offline::files::SetFiles;
use node::options::Options;
use node::utxo_stats::SetHash;
use primitives::hex;

/// First and last two-byte prefix of the txids, both included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keys(pub u16, pub u16);

impl Keys {
    /// The whole set.
    pub const ALL: Keys = Keys(0, u16::MAX);

    /// Parses a text such as `0000-7fff`: two bytes in internal order, so the last byte of a printed txid comes first.
    pub fn from_text(text: &str) -> Option<Keys> {
        let (first, last) = text.split_once('-')?;
        let read = |text: &str| primitives::hex::decode(text)?.try_into().ok().map(u16::from_be_bytes);
        Some(Keys(read(first)?, read(last)?)).filter(|keys| keys.0 <= keys.1)
    }
}

/// Sums the coins of a data directory whose txids begin with `keys`; also computes `hash`.
///
/// # Errors
///
/// The set is missing, damaged or incomplete, `hash_serialized_3` of only a part was requested, or an I/O error.
pub fn coins(options: &Options, salt: &Salt, keys: Keys, hash: SetHash) -> Result<Record, Fault> {
    if hash == SetHash::Serialized && keys != Keys::ALL {
        let why = "hash_serialized_3 is one hash over all coins in order";
        return Err(Fault::refused(why, "Leave --keys out, or take --hash muhash"));
    }
    let set = SetFiles::open(options)?;
    let mut sums = Sums::default();
    let count = |adder: &mut Adder, outpoint: &_, coin: &primitives::CoinRef<'_>| {
        if coin.height > set.height {
            let why = format!("the coin {outpoint} is of block {}, above the set's block {}", coin.height, set.height);
            return Err(Fault::refused(why, "The chainstate is damaged: run ffwd reindex --chainstate-only"));
        }
        adder.add_stored(Side::Made, outpoint, coin);
        Ok(())
    };
    let done = |adder: Adder| sums = sums.plus(&adder.finish().0);
    let found = set.sum(hash, options.par, keys.0..=keys.1, || Adder::new(salt, options.kernels), count, done)?;
    Ok(Record::Coins(CoinsRecord {
        audit: salt.name(),
        chain: options.params.chain.name().to_owned(),
        rules: rules_name(&options.params),
        height: set.height.to_u32(),
        best: set.best.to_string(),
        keys_from: keys.0,
        keys_to: keys.1,
        coins: found.info.txouts,
        amount: u64::try_from(found.info.total_amount).unwrap_or(0),
        bogosize: found.info.bogosize,
        sum: sums.0[0].to_hex(),
        weighted: weighted(&sums),
        muhash_product: found.muhash.map(|product| hex::encode(&product.to_bytes())),
        hash_serialized_3: found
            .info
            .hash
            .filter(|(name, _)| *name == "hash_serialized_3")
            .map(|(_, hash)| hash.to_string()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_two_ends() {
        for (text, want) in [
            ("0000-ffff", Some(Keys::ALL)),
            ("00a0-00A1", Some(Keys(160, 161))),
            ("0001-0000", None),
            ("0-1", None),
            ("0000", None),
            ("+000-0001", None),
        ] {
            assert_eq!(Keys::from_text(text), want, "{text}");
        }
    }
}
