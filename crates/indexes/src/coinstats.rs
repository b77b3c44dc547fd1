//! `coinstatsindex`: statistics of the UTXO set after every block.
//!
//! ```text
//! row (see [`crate::heights`] for its keys), all LE:
//!   muhash 32 | outputs u64 | bogosize u64 | amount i64 | subsidy i64
//!   | spent u256 | new outputs except of coinbases u256 | coinbases u256
//!   | unspendable: genesis i64 | repeated coinbases i64 | scripts i64 | unclaimed rewards i64
//! 'M' -> running MuHash: numerator 384 | denominator 384, which Core always leaves at 1     'B' -> locator
//! ```
//!
//! All amounts are sums from genesis on. The hash of each row costs a modular inverse; [`finalize_all`] shares one
//! among many. Source: Bitcoin Core b88bffe, index/coinstatsindex.cpp, kernel/coinstats.cpp.

use primitives::encode::{DecodeError, Reader};
use primitives::muhash::MuHash;
use primitives::{Hash256, U256};

/// The running MuHash as of the best block.
pub const MUHASH: &[u8] = b"M";
/// Bytes of a row.
const ROW_BYTES: usize = 192;
/// Blocks that share an inverse: each holds 384 bytes meanwhile.
const SHARED_BLOCKS_MAX: usize = 4096;
/// Bytes of a coin in addition to its script in Core's "bogosize".
const BOGO_BYTES: u64 = 50;

/// A block's changes to the UTXO set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockStats {
    /// Product of the coins that it creates, without those that it spends itself.
    pub created: MuHash,
    /// Product of the coins that it spends, without those that it creates.
    pub spent: MuHash,
    /// Number of coins that it creates, and spends.
    pub outputs: (u64, u64),
    /// Their bogosizes.
    pub bogosize: (u64, u64),
    /// Amount of the coins that its coinbase creates, in satoshis.
    pub coinbase: i128,
    /// Amount of the coins that its other transactions create.
    pub new_outputs: i128,
    /// Amount of the coins that it spends.
    pub prevouts: i128,
    /// Amount of provably unspendable outputs.
    pub unspendable: i128,
    /// The subsidy of its height.
    pub subsidy: i64,
    /// The kind of its coinbase.
    pub kind: CoinbaseKind,
}

/// The effect of a block's coinbase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CoinbaseKind {
    /// It creates coins.
    Normal,
    /// The genesis block's coinbase creates no coins.
    Genesis,
    /// A later block repeats this coinbase, which then counts in the later block. Source: Core's `IsBIP30Unspendable`.
    Repeated,
}

impl BlockStats {
    /// A block without changes.
    pub fn new(subsidy: i64, kind: CoinbaseKind) -> BlockStats {
        BlockStats {
            created: MuHash::new(),
            spent: MuHash::new(),
            outputs: (0, 0),
            bogosize: (0, 0),
            coinbase: 0,
            new_outputs: 0,
            prevouts: 0,
            unspendable: 0,
            subsidy,
            kind,
        }
    }
}

/// Bogosize of a coin by the length of its script.
pub fn bogosize(script_bytes: usize) -> u64 {
    BOGO_BYTES + script_bytes as u64
}

/// Sums over all blocks up to one; amounts in satoshis.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Number of coins.
    pub outputs: u64,
    /// Their bogosize.
    pub bogosize: u64,
    /// Their amount.
    pub amount: i64,
    /// Subsidies.
    pub subsidy: i64,
    /// Amount of coins spent.
    pub prevouts: u128,
    /// Amount of coins created, except by coinbases.
    pub new_outputs: u128,
    /// Amount of coins created by coinbases.
    pub coinbase: u128,
    /// Subsidy of the genesis block, which can never be spent.
    pub genesis: i64,
    /// Subsidies of coinbases that were repeated.
    pub repeated: i64,
    /// Amount of provably unspendable outputs.
    pub scripts: i64,
    /// Rewards that no coinbase claimed.
    pub unclaimed: i64,
}

impl Totals {
    /// The totals after one more block; `None` if its amounts are not those of a valid block on this chain.
    #[must_use]
    pub fn with(mut self, block: &BlockStats) -> Option<Totals> {
        self.subsidy = self.subsidy.checked_add(block.subsidy)?;
        match block.kind {
            CoinbaseKind::Normal => {}
            CoinbaseKind::Genesis => self.genesis = self.genesis.checked_add(block.subsidy)?,
            CoinbaseKind::Repeated => self.repeated = self.repeated.checked_add(block.subsidy)?,
        }
        self.outputs = self.outputs.checked_add(block.outputs.0)?.checked_sub(block.outputs.1)?;
        self.bogosize = self.bogosize.checked_add(block.bogosize.0)?.checked_sub(block.bogosize.1)?;
        let grown = block.coinbase.checked_add(block.new_outputs)?.checked_sub(block.prevouts)?;
        self.amount = self.amount.checked_add(i64::try_from(grown).ok()?)?;
        self.scripts = self.scripts.checked_add(i64::try_from(block.unspendable).ok()?)?;
        let add = |sum: u128, more: i128| sum.checked_add(u128::try_from(more).ok()?);
        self.prevouts = add(self.prevouts, block.prevouts)?;
        self.new_outputs = add(self.new_outputs, block.new_outputs)?;
        self.coinbase = add(self.coinbase, block.coinbase)?;
        let came = self.prevouts.checked_add(u128::try_from(self.subsidy).ok()?)?;
        let went = add(self.new_outputs.checked_add(self.coinbase)?, i128::from(self.unspendable()))?;
        let unclaimed = i64::try_from(came.checked_sub(went)?).ok()?;
        self.unclaimed = self.unclaimed.checked_add(unclaimed)?;
        Some(self)
    }

    /// Total of unspendable amounts, in satoshis.
    pub fn unspendable(&self) -> i64 {
        [self.repeated, self.scripts, self.unclaimed].into_iter().fold(self.genesis, i64::saturating_add)
    }
}

/// The index's statistics of the UTXO set at a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatsRow {
    /// The set's MuHash.
    pub muhash: Hash256,
    /// The sums.
    pub totals: Totals,
}

impl StatsRow {
    /// The bytes of the row.
    pub fn encode(&self) -> Vec<u8> {
        let Totals { outputs, bogosize, amount, subsidy, prevouts, new_outputs, coinbase, .. } = self.totals;
        let Totals { genesis, repeated, scripts, unclaimed, .. } = self.totals;
        let mut out = Vec::with_capacity(ROW_BYTES);
        out.extend_from_slice(&self.muhash.0);
        [outputs, bogosize].iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        [amount, subsidy].iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        for number in [prevouts, new_outputs, coinbase] {
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&[0; 16]);
        }
        [genesis, repeated, scripts, unclaimed].iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        out
    }

    /// Decodes exactly one row.
    ///
    /// # Errors
    ///
    /// Malformed bytes, or a sum beyond 2^128.
    pub fn decode(bytes: &[u8]) -> Result<StatsRow, DecodeError> {
        let mut reader = Reader::new(bytes);
        let muhash = Hash256(*reader.array()?);
        let outputs = reader.u64()?;
        let bogosize = reader.u64()?;
        let amount = reader.u64()?.cast_signed();
        let subsidy = reader.u64()?.cast_signed();
        let prevouts = sum(&mut reader)?;
        let new_outputs = sum(&mut reader)?;
        let coinbase = sum(&mut reader)?;
        let mut next = || Ok(reader.u64()?.cast_signed());
        let genesis = next()?;
        let repeated = next()?;
        let scripts = next()?;
        let unclaimed = next()?;
        reader.finish()?;
        let totals = Totals {
            outputs,
            bogosize,
            amount,
            subsidy,
            prevouts,
            new_outputs,
            coinbase,
            genesis,
            repeated,
            scripts,
            unclaimed,
        };
        Ok(StatsRow { muhash, totals })
    }
}

fn sum(reader: &mut Reader<'_>) -> Result<u128, DecodeError> {
    let offset = reader.offset();
    let bytes: &[u8; 32] = reader.array()?;
    if U256::from_le_bytes(bytes).bits() > 128 {
        return Err(DecodeError::Value { offset, what: "a sum of amounts is below 2^128" });
    }
    Ok(u128::from_le_bytes(*bytes.first_chunk().expect("sixteen of 32 bytes")))
}

/// The running MuHash as Core stores it.
pub fn encode_muhash(set: &MuHash) -> Vec<u8> {
    [set.to_bytes(), MuHash::new().to_bytes()].concat()
}

/// The running MuHash, from its two parts.
///
/// # Errors
///
/// Another length.
pub fn decode_muhash(bytes: &[u8]) -> Result<MuHash, DecodeError> {
    let mut reader = Reader::new(bytes);
    let mut numerator = MuHash::from_bytes(reader.array()?);
    let denominator = MuHash::from_bytes(reader.array()?);
    reader.finish()?;
    if denominator != MuHash::new() {
        numerator.combine(&denominator.inverse());
    }
    Ok(numerator)
}

/// The hash of the set after each step (coins added, coins removed), beginning with `start`, and the final set.
///
/// Montgomery's trick: the product of all removals is inverted once. Blocks that spend nothing remove nothing.
pub fn finalize_all(start: &MuHash, steps: &[(&MuHash, &MuHash)]) -> (Vec<Hash256>, MuHash) {
    let mut hashes = Vec::with_capacity(steps.len());
    let mut set = start.clone();
    for steps in steps.chunks(SHARED_BLOCKS_MAX) {
        let mut taken = MuHash::new();
        let mut put = Vec::with_capacity(steps.len());
        for (created, spent) in steps {
            set.combine(created);
            taken.combine(spent);
            put.push(set.clone());
        }
        let mut inverse = taken.inverse();
        let from = hashes.len();
        for (index, (_, spent)) in steps.iter().enumerate().rev() {
            put[index].combine(&inverse);
            hashes.push(Hash256(put[index].finalize()));
            inverse.combine(spent);
        }
        hashes[from..].reverse();
        set = put.pop().expect("a chunk has a step").reduced();
    }
    (hashes, set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_round_trip_and_cuts_are_refused() {
        let totals = Totals {
            outputs: 1,
            bogosize: 2,
            amount: 3,
            subsidy: 4,
            prevouts: 5 << 70,
            new_outputs: 6,
            coinbase: 7,
            genesis: 8,
            repeated: 9,
            scripts: 10,
            unclaimed: 11,
        };
        let row = StatsRow { muhash: Hash256([12; 32]), totals };
        let bytes = row.encode();
        assert_eq!(bytes.len(), ROW_BYTES);
        assert_eq!(StatsRow::decode(&bytes), Ok(row));
        (0..bytes.len()).for_each(|cut| assert!(StatsRow::decode(&bytes[..cut]).is_err(), "cut at {cut}"));
        let mut beyond = bytes.clone();
        beyond[32 + 32 + 16] = 1;
        assert!(StatsRow::decode(&beyond).is_err(), "a sum beyond 128 bits");
        assert_eq!(totals.unspendable(), 38);
    }

    #[test]
    fn totals_refuse_amounts_of_no_valid_block() {
        let block = |change: &dyn Fn(&mut BlockStats)| {
            let mut block = BlockStats::new(50, CoinbaseKind::Normal);
            (block.outputs, block.bogosize, block.coinbase) = ((1, 0), (75, 0), 40);
            change(&mut block);
            Totals::default().with(&block)
        };
        let good = block(&|_| {}).unwrap();
        assert_eq!((good.outputs, good.amount, good.unclaimed, good.unspendable()), (1, 40, 10, 10));
        for (row, change) in [
            ("more than came", &(|block: &mut BlockStats| block.coinbase = 51) as &dyn Fn(&mut BlockStats)),
            ("coins that are not there", &|block| block.outputs = (0, 1)),
            ("sizes that are not there", &|block| block.bogosize = (0, 1)),
            ("less than nothing", &|block| block.new_outputs = -1),
            ("beyond all bounds", &|block| block.prevouts = i128::MAX),
        ] {
            assert_eq!(block(change), None, "{row}");
        }
        let genesis = Totals::default().with(&BlockStats::new(50, CoinbaseKind::Genesis)).unwrap();
        assert_eq!((genesis.genesis, genesis.unclaimed, genesis.subsidy), (50, 0, 50));
        let repeated = Totals::default().with(&BlockStats::new(50, CoinbaseKind::Repeated)).unwrap();
        assert_eq!((repeated.repeated, repeated.unclaimed), (50, 0));
    }

    /// One inverse for many blocks gives what one a block gives.
    #[test]
    fn finalize_all_is_one_block_after_the_other() {
        let part = |n: u8| {
            let mut set = MuHash::new();
            set.insert(&[n]);
            set
        };
        // The one in the middle takes nothing out.
        let gone = |n: u8| if n == 2 { MuHash::new() } else { part(n + 100) };
        let steps: Vec<(MuHash, MuHash)> = (0..5).map(|n| (part(n), gone(n))).collect();
        let borrowed: Vec<(&MuHash, &MuHash)> = steps.iter().map(|(a, b)| (a, b)).collect();
        let start = part(200);
        let (hashes, end) = finalize_all(&start, &borrowed);
        let mut set = start.clone();
        for (n, hash) in hashes.iter().enumerate() {
            set.insert(&[n as u8]);
            if n != 2 {
                set.remove(&[n as u8 + 100]);
            }
            assert_eq!(hash.0, set.finalize(), "step {n}");
        }
        assert_eq!((hashes.len(), end.finalize()), (5, set.finalize()));
        assert_eq!(decode_muhash(&encode_muhash(&end)).unwrap(), end);
        let apart = [part(1).to_bytes(), part(2).to_bytes()].concat();
        let mut want = part(1);
        want.remove(&[2]);
        assert_eq!(decode_muhash(&apart).unwrap().finalize(), want.finalize());
        assert!(decode_muhash(&apart[1..]).is_err());
        assert_eq!(finalize_all(&start, &[]), (Vec::new(), start));
    }
}
