//! The record of a part of an audit: a JSON object on one line, with a checksum at its end.
//!
//! ```text
//! {"part":"blocks" or "coins", .. ,"checksum":"sha256d of the object without this field, 64 hexadecimal digits"}
//! ```
//!
//! The checksum detects truncation and damage, not forgery: anybody with the salt can make any record.

use crate::field::Number;
use crate::sums::{POWERS, Sums};
use consensus::{Cleanup, Params};
use kernels::sha256::sha256d;
use primitives::{BlockHash, hex};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Maximum size of a record: with the product of MuHash it has about 3,000 bytes.
pub(crate) const RECORD_BYTES_MAX: usize = 1 << 16;
const CHECKSUM: &str = ",\"checksum\":\"";

/// The record of one part.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "lowercase")]
pub enum Record {
    /// A record of a range of blocks.
    Blocks(BlocksRecord),
    /// A record of a range of the UTXO set.
    Coins(CoinsRecord),
}

/// The coins that a range of blocks creates and spends.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlocksRecord {
    /// Name of the audit, which follows from its salt.
    pub audit: String,
    /// The network.
    pub chain: String,
    /// Name of the network's rules, for those that options can change.
    pub rules: String,
    /// Height of the first block.
    pub from: u32,
    /// Height of the last block.
    pub to: u32,
    /// Hash of the first block's parent; zeros for the genesis block.
    pub prev: String,
    /// Hash of the first block.
    pub first: String,
    /// Hash of the last block.
    pub last: String,
    /// SHA-256 of time and nBits, four bytes each, little endian, of all blocks below the range: the context with
    /// which its headers and relative locks were validated.
    pub below: String,
    /// SHA-256 of time and nBits of all blocks up to the end of the range.
    pub through: String,
    /// Whether the chain was assumed to contain Core's BIP34 block; known if the range has its height.
    pub bip34: bool,
    /// Work of the blocks, in hexadecimal.
    pub work: String,
    /// Transactions, coinbases included.
    pub transactions: u64,
    /// Inputs, without those of coinbases.
    pub inputs: u64,
    /// Outputs.
    pub outputs: u64,
    /// Fees, in satoshi, as all amounts here.
    pub fees: u64,
    /// Sum of the coinbase outputs.
    pub coinbases: u64,
    /// Number of coins created; the next field has their amount.
    pub made_coins: u64,
    /// See `made_coins`.
    pub made_amount: u64,
    /// Number of coins spent; the next field has their amount.
    pub spent_coins: u64,
    /// See `spent_coins`.
    pub spent_amount: u64,
    /// Sum of the coins made, 64 hexadecimal digits.
    pub made: String,
    /// Sum of the coins spent.
    pub spent: String,
    /// The weighted sums of both, created less spent: weights are height + 1 to the powers 1 to 15.
    pub weighted: Vec<String>,
}

/// The record of a part of the UTXO set.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoinsRecord {
    /// Name of the audit, which follows from its salt.
    pub audit: String,
    /// The network.
    pub chain: String,
    /// Name of the network's rules.
    pub rules: String,
    /// Height of the set's best block.
    pub height: u32,
    /// Its hash.
    pub best: String,
    /// The first two bytes of this part's txids: lowest value.
    pub keys_from: u16,
    /// To, included.
    pub keys_to: u16,
    /// Number of coins; the next field has their amount in satoshi.
    pub coins: u64,
    /// See `coins`.
    pub amount: u64,
    /// Sum over coins of 50 and the length of the script.
    pub bogosize: u64,
    /// Sum of the coins, 64 hexadecimal digits.
    pub sum: String,
    /// Its weighted sums, like those of blocks.
    pub weighted: Vec<String>,
    /// The product of MuHash, 384 bytes, if requested.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub muhash_product: Option<String>,
    /// Core's `hash_serialized_3`, if requested; only for the whole set.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hash_serialized_3: Option<String>,
}

/// Why a text is not a valid record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadRecord(pub(crate) String);

impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Record {
    /// One line, without its end.
    pub fn to_text(&self) -> String {
        let body = serde_json::to_string(self).expect("a record has no map of other keys than text");
        let checksum = hex::encode(&sha256d(body.as_bytes()));
        format!("{}{CHECKSUM}{checksum}\"}}", &body[..body.len() - 1])
    }

    /// Parses a record.
    ///
    /// # Errors
    ///
    /// It is truncated, damaged, or of another version of this program.
    pub fn from_text(text: &str) -> Result<Record, BadRecord> {
        let bad = |why: &str| BadRecord(format!("no record of an audit: {why}"));
        if text.len() > RECORD_BYTES_MAX {
            return Err(bad("it is too long"));
        }
        let (body, rest) =
            text.trim_end().rsplit_once(CHECKSUM).ok_or_else(|| bad("it has no checksum; was it cut?"))?;
        let checksum = rest.strip_suffix("\"}").filter(|digits| digits.len() == 64);
        let body = format!("{body}}}");
        if checksum.ok_or_else(|| bad("its end is missing"))? != hex::encode(&sha256d(body.as_bytes())) {
            return Err(bad("its checksum does not fit: it was damaged"));
        }
        let record: Record = serde_json::from_str(&body).map_err(|why| bad(&why.to_string()))?;
        let is_sound = match &record {
            Record::Blocks(blocks) => {
                blocks.from <= blocks.to
                    && blocks.made_sums().is_some()
                    && is_hash(&[&blocks.prev, &blocks.first, &blocks.last, &blocks.below, &blocks.through])
            }
            Record::Coins(coins) => {
                coins.keys_from <= coins.keys_to && coins.sums().is_some() && is_hash(&[&coins.best])
            }
        };
        if is_sound { Ok(record) } else { Err(bad("a value is out of its range")) }
    }

    /// Name of its audit, chain and rules.
    pub(crate) fn audit(&self) -> (&str, &str, &str) {
        match self {
            Record::Blocks(BlocksRecord { audit, chain, rules, .. })
            | Record::Coins(CoinsRecord { audit, chain, rules, .. }) => (audit, chain, rules),
        }
    }

    /// A description of its part, for a message.
    pub(crate) fn what(&self) -> String {
        match self {
            Record::Blocks(blocks) => blocks_text(blocks.from, blocks.to),
            Record::Coins(coins) => format!("coins {:04x} to {:04x}", coins.keys_from, coins.keys_to),
        }
    }
}

fn is_hash(texts: &[&String]) -> bool {
    texts.iter().all(|text| BlockHash::from_display(text).is_some())
}

/// A range in a message.
pub(crate) fn blocks_text(from: u32, to: u32) -> String {
    format!("blocks {from} to {to}")
}

impl BlocksRecord {
    /// The sums of created less spent coins.
    pub(crate) fn made_sums(&self) -> Option<Sums> {
        let first = Number::from_hex(&self.made)?.minus(Number::from_hex(&self.spent)?);
        with_weighted(first, &self.weighted)
    }
}

impl CoinsRecord {
    pub(crate) fn sums(&self) -> Option<Sums> {
        with_weighted(Number::from_hex(&self.sum)?, &self.weighted)
    }
}

fn with_weighted(first: Number, weighted: &[String]) -> Option<Sums> {
    if weighted.len() + 1 != POWERS {
        return None;
    }
    let mut sums = Sums::default();
    sums.0[0] = first;
    for (sum, text) in sums.0[1..].iter_mut().zip(weighted) {
        *sum = Number::from_hex(text)?;
    }
    Some(sums)
}

/// The weighted sums in the form of a record.
pub(crate) fn weighted(sums: &Sums) -> Vec<String> {
    sums.0[1..].iter().map(|sum| sum.to_hex()).collect()
}

/// Name of the rules that options can change on a network.
pub(crate) fn rules_name(params: &Params) -> String {
    let heights =
        [params.bip34_height, params.bip65_height, params.bip66_height, params.csv_height, params.segwit_height];
    // No network has BIP-0054 by default: then nothing is added, so that the name is that of older records.
    let cleanup = match Cleanup::everywhere(params) {
        Some(Cleanup::Off) => "",
        Some(Cleanup::On) => " consensuscleanup",
        None => " consensuscleanup by signals",
    };
    let text = format!("{heights:?} {} {:?}{cleanup}", params.enforce_bip94, params.signet_challenge);
    hex::encode(&sha256d(text.as_bytes())[..8])
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use consensus::params::VersionBitsTimes;
    use consensus::{Chain, Deployment};
    use primitives::Height;

    pub(crate) fn blocks(from: u32, to: u32, prev: &str, last: &str) -> BlocksRecord {
        let zero = Number::ZERO.to_hex();
        BlocksRecord {
            audit: "a1".into(),
            chain: "regtest".into(),
            rules: "r1".into(),
            from,
            to,
            prev: prev.repeat(32),
            first: last.repeat(32),
            last: last.repeat(32),
            below: if from == 0 { hex::encode(&kernels::sha256::sha256(&[])) } else { prev.repeat(32) },
            through: last.repeat(32),
            bip34: false,
            work: "2".into(),
            transactions: 3,
            inputs: 1,
            outputs: 4,
            fees: 5,
            coinbases: 10,
            made_coins: 2,
            made_amount: 6,
            spent_coins: 1,
            spent_amount: 5,
            made: zero.clone(),
            spent: zero.clone(),
            weighted: vec![zero; POWERS - 1],
        }
    }

    pub(crate) fn coins(height: u32, best: &str) -> CoinsRecord {
        let zero = Number::ZERO.to_hex();
        CoinsRecord {
            audit: "a1".into(),
            chain: "regtest".into(),
            rules: "r1".into(),
            height,
            best: best.repeat(32),
            keys_from: 0,
            keys_to: u16::MAX,
            coins: 1,
            amount: 1,
            bogosize: 60,
            sum: zero.clone(),
            weighted: vec![zero; POWERS - 1],
            muhash_product: None,
            hash_serialized_3: None,
        }
    }

    #[test]
    fn records_round_trip_and_every_damage_is_found() {
        for record in [Record::Blocks(blocks(3, 7, "11", "22")), Record::Coins(coins(7, "22"))] {
            let text = record.to_text();
            assert!(text.len() < 2500, "{} bytes", text.len());
            assert_eq!(Record::from_text(&format!("{text}\n")), Ok(record.clone()));
            for cut in 0..text.len() {
                assert!(Record::from_text(&text[..cut]).is_err(), "cut at {cut}");
                let mut flipped = text.clone().into_bytes();
                flipped[cut] ^= 1;
                if let Ok(flipped) = String::from_utf8(flipped) {
                    assert!(Record::from_text(&flipped).is_err(), "byte {cut}: {flipped}");
                }
            }
        }
        let longest = CoinsRecord { muhash_product: Some("f".repeat(768)), ..coins(7, "22") };
        assert!(Record::Coins(longest).to_text().len() < 4096);
    }

    #[test]
    fn rules_have_a_name_for_each_change_that_decides_a_verdict() {
        let regtest = || Params::new(Chain::Regtest);
        let moved = |deployment, start_time| {
            let times = VersionBitsTimes { deployment, start_time, timeout: i64::MAX, min_activation_height: 0 };
            regtest().with_version_bits(&times).unwrap()
        };
        let own = rules_name(&regtest());
        for (row, params, is_same) in [
            ("a deployment without a rule", moved(Deployment::TestDummy, -1), true),
            ("BIP-0054, never active as by default", moved(Deployment::ConsensusCleanup, -2), true),
            ("BIP-0054, always active", moved(Deployment::ConsensusCleanup, -1), false),
            ("BIP-0054, by signals", moved(Deployment::ConsensusCleanup, 0), false),
            ("BIP-0094", regtest().with_bip94().unwrap(), false),
            ("a buried height", regtest().with_activation_height("csv", Height::new(9)).unwrap(), false),
        ] {
            assert_eq!(rules_name(&params) == own, is_same, "{row}");
        }
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let good = blocks(3, 7, "11", "22");
        for (row, record) in [
            ("from above to", Record::Blocks(BlocksRecord { from: 8, ..good.clone() })),
            ("a sum from the prime on", Record::Blocks(BlocksRecord { made: "f".repeat(64), ..good.clone() })),
            ("too few sums", Record::Blocks(BlocksRecord { weighted: vec![], ..good.clone() })),
            ("no hash", Record::Blocks(BlocksRecord { last: "zz".into(), ..good })),
            ("keys", Record::Coins(CoinsRecord { keys_from: 9, keys_to: 8, ..coins(7, "22") })),
        ] {
            assert!(Record::from_text(&record.to_text()).is_err(), "{row}");
        }
        assert!(Record::from_text(&"x".repeat(RECORD_BYTES_MAX + 1)).is_err());
    }
}
