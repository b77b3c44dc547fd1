//! A transaction that waits for a block.

use primitives::{Amount, Height, OutPoint, Tables, Txid, Wtxid};

/// Maximum number of transactions in a cluster. Source: Bitcoin Core b88bffe, `DEFAULT_CLUSTER_LIMIT`.
pub const CLUSTER_MAX: usize = 64;
/// Minimum fee rate of a transaction from a call, in satoshis per 1,000 vbytes. Source: Core's
/// `DEFAULT_MIN_RELAY_TX_FEE`.
pub const MIN_FEE_RATE: i64 = 100;
/// Minimum weight for which a signature operation counts. Source: Core's `DEFAULT_BYTES_PER_SIGOP`.
const SIGOP_WEIGHT: u64 = 20;

/// The fee of `vsize` vbytes at `rate` satoshis per 1,000, rounded up. Source: Core's `CFeeRate::GetFee`.
pub fn fee_at(rate: i64, vsize: u64) -> i64 {
    let fee = i128::from(rate) * i128::from(vsize);
    i64::try_from(fee.div_euclid(1000) + i128::from(fee.rem_euclid(1000) != 0)).unwrap_or(i64::MAX)
}

/// A transaction that waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolEntry {
    /// Its id.
    pub txid: Txid,
    /// Its witness transaction id.
    pub wtxid: Wtxid,
    /// Its bytes, with witnesses.
    pub bytes: Vec<u8>,
    /// Its fee.
    pub fee: Amount,
    /// The fee delta that RPC calls set for the order of mining, in satoshis. Source: Core's `prioritisetransaction`.
    pub fee_delta: i64,
    /// Its weight.
    pub weight: u64,
    /// Its signature operation cost.
    pub sigop_cost: u64,
    /// Time of its arrival, in seconds since 1970.
    pub time: u64,
    /// Height of the tip at that time.
    pub height: Height,
    /// The outpoints that it spends.
    pub inputs: Vec<OutPoint>,
}

impl PoolEntry {
    /// The fee that decides when it is mined, in satoshis. Source: Core's `GetModifiedFee`.
    pub fn modified_fee(&self) -> i64 {
        self.fee.0.saturating_add(self.fee_delta)
    }

    /// Its weight, or that of its signature operations if more. Source: Core's `GetSigOpsAdjustedWeight`.
    pub fn adjusted_weight(&self) -> u64 {
        self.weight.max(self.sigop_cost * SIGOP_WEIGHT)
    }

    /// A quarter of the adjusted weight, rounded up.
    pub fn vsize(&self) -> u64 {
        self.adjusted_weight().div_ceil(4)
    }

    /// A quarter of its weight, rounded up. Source: BIP-0141.
    pub fn vsize_bip141(&self) -> u64 {
        self.weight.div_ceil(4)
    }

    /// Value and script of an output; `None` if it does not exist.
    pub fn output(&self, vout: u32) -> Option<(Amount, Vec<u8>)> {
        let mut tables = Tables::new();
        let tx = tables.parse_transaction(&self.bytes).ok()?;
        let output = tx.outputs().nth(usize::try_from(vout).ok()?)?;
        Some((output.value(), output.script().to_vec()))
    }
}
