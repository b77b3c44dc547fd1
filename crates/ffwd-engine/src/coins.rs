//! The UTXO set of a data directory: hashes, statistics, coins.

use crate::error::Error;
use crate::ids::{BlockHash, OutPoint, SetHash};
use crate::script::ScriptType;
use node::offline::files::{SetCoins, SetFiles, at_rest};
use node::options::Options;
use node::utxo_stats::{SetHash as Wanted, SetInfo};
use primitives::CoinRef;
use std::fmt;

/// The RPC call that answers the same question while another program uses the data directory.
const QUESTION: &str = "gettxoutsetinfo";

/// The UTXO set at one block: [`crate::DataDir::coins`].
///
/// The set as of the time it was opened. It holds no lock: if another program writes to the set meanwhile, a later
/// call fails; it never returns a wrong result.
pub struct Coins {
    options: Options,
    set: SetFiles,
}

impl Coins {
    pub(crate) fn open(options: Options) -> Result<Coins, Error> {
        let set = at_rest(&options, QUESTION, || SetFiles::open(&options))?;
        Ok(Coins { options, set })
    }

    /// Height of the best block: the last one whose changes the set includes.
    pub fn height(&self) -> u32 {
        self.set.height.to_u32()
    }

    /// Hash of that block.
    pub fn best_block(&self) -> BlockHash {
        self.set.best.into()
    }

    fn sum(&self, hash: Wanted) -> Result<SetInfo, Error> {
        Ok(at_rest(&self.options, QUESTION, || self.set.info(hash, self.options.par))?)
    }

    fn hash(&self, wanted: Wanted) -> Result<SetHash, Error> {
        let (_, hash) = self.sum(wanted)?.hash.expect("it was asked for");
        Ok(hash.into())
    }

    /// Core's `hash_serialized_3`: double SHA-256 over all coins in order. Reads the whole set, on all processors.
    ///
    /// # Errors
    ///
    /// A damaged table, or an I/O error.
    ///
    /// Source: Bitcoin Core b88bffe, kernel/coinstats.cpp, `ComputeUTXOStats`.
    pub fn hash_serialized_3(&self) -> Result<SetHash, Error> {
        self.hash(Wanted::Serialized)
    }

    /// Core's `muhash`: a hash of the set that does not depend on the order of coins. Reads the whole set.
    ///
    /// # Errors
    ///
    /// A damaged table, or an I/O error.
    ///
    /// Source: Bitcoin Core b88bffe, crypto/muhash.cpp, `MuHash3072`.
    pub fn muhash(&self) -> Result<SetHash, Error> {
        self.hash(Wanted::Muhash)
    }

    /// Statistics of the set. Reads the whole set.
    ///
    /// # Errors
    ///
    /// A damaged table, or an I/O error.
    pub fn info(&self) -> Result<CoinsInfo, Error> {
        let info = self.sum(Wanted::None)?;
        Ok(CoinsInfo {
            coins: info.txouts,
            transactions: info.transactions.expect("the coins were counted"),
            total_amount: info.total_amount,
            bogosize: info.bogosize,
            disk_size: info.disk_size,
        })
    }

    /// Returns the coin with this outpoint; `None` if it is spent or never existed.
    ///
    /// # Errors
    ///
    /// A damaged table, or an I/O error.
    pub fn get(&self, outpoint: &OutPoint) -> Result<Option<Coin>, Error> {
        let failed = |fault| Error::of_reading(&self.options, QUESTION, fault);
        self.set.get(&outpoint.inner(), |coin| Coin::new(*outpoint, coin)).map_err(failed)
    }

    /// All coins, sorted by transaction id.
    ///
    /// # Errors
    ///
    /// A damaged table, or an I/O error.
    pub fn iter(&self) -> Result<CoinsIter, Error> {
        let failed = |fault| Error::of_reading(&self.options, QUESTION, fault);
        let coins = self.set.coins().map_err(failed)?;
        Ok(CoinsIter { options: self.options.clone(), coins: Some(coins) })
    }
}

impl fmt::Debug for Coins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coins")
            .field("height", &self.height())
            .field("best_block", &self.best_block())
            .finish_non_exhaustive()
    }
}

/// Iterator over the coins of a set. It ends after an error.
pub struct CoinsIter {
    options: Options,
    coins: Option<SetCoins>,
}

impl Iterator for CoinsIter {
    type Item = Result<Coin, Error>;

    fn next(&mut self) -> Option<Result<Coin, Error>> {
        let coins = self.coins.as_mut()?;
        let next = match coins.next_coin() {
            Ok(next) => next.map(|(outpoint, coin)| Ok(Coin::new(outpoint.into(), &coin))),
            Err(fault) => Some(Err(Error::of_reading(&self.options, QUESTION, fault))),
        };
        if !matches!(next, Some(Ok(_))) {
            self.coins = None;
        }
        next
    }
}

impl fmt::Debug for CoinsIter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CoinsIter").finish_non_exhaustive()
    }
}

/// An unspent output.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Coin {
    /// Its outpoint.
    pub outpoint: OutPoint,
    /// Its amount in satoshi.
    pub value: i64,
    /// Its script.
    pub script: Vec<u8>,
    /// Height of the block that created it.
    pub height: u32,
    /// Whether a coinbase created it.
    pub is_coinbase: bool,
}

impl Coin {
    fn new(outpoint: OutPoint, coin: &CoinRef<'_>) -> Coin {
        Coin {
            outpoint,
            value: coin.value.0,
            script: coin.script.to_vec(),
            height: coin.height.to_u32(),
            is_coinbase: coin.coinbase,
        }
    }

    /// The type of its script.
    pub fn script_type(&self) -> ScriptType {
        ScriptType::of(&self.script)
    }
}

/// Statistics of a UTXO set, as in Core's gettxoutsetinfo.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CoinsInfo {
    /// Number of coins: `txouts`.
    pub coins: u64,
    /// Number of transactions that have a coin in the set.
    pub transactions: u64,
    /// Sum of the amounts in satoshi.
    pub total_amount: i64,
    /// Core's measure of the set's size: 50 bytes and the script for each coin.
    pub bogosize: u64,
    /// Bytes of the tables on the disk.
    pub disk_size: u64,
}
