//! Searches the coins for scripts: `scantxoutset`. One search at a time; other calls may watch and abort it.
//!
//! Scripts are compared in stored form: the searched scripts are encoded once, so coins need not be decoded.
//! Source: Bitcoin Core b88bffe, rpc/blockchain.cpp, `scantxoutset`, `FindScriptPubKey`, `CoinsViewScanReserver`.

use crate::descriptor::{Expanded, infer};
use crate::error::RpcError;
use crate::output::Prefixes;
use crate::text::JsonText;
use node::handle::walk_coins;
use primitives::coin::put_coin;
use primitives::encode::Reader;
use primitives::{Amount, BlockHash, CoinRef, Height, OutPoint};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use store::chainstate::CoinsView;

/// Number of coins between two checks whether to end.
const LOOK_INTERVAL: u64 = 8192;
/// Number of coins between two updates of the progress.
const PROGRESS_INTERVAL: u64 = 256;

/// State of the running search, if there is one.
#[derive(Debug, Default)]
pub struct Scan {
    is_running: AtomicBool,
    is_aborted: AtomicBool,
    percent: AtomicU32,
    /// Height of the block being searched.
    height: AtomicU32,
}

/// A running search, until this is dropped.
#[derive(Debug)]
pub struct ScanTurn<'s>(&'s Scan);

impl Drop for ScanTurn<'_> {
    fn drop(&mut self) {
        self.0.is_running.store(false, Relaxed);
    }
}

impl Scan {
    /// Progress of the search in percent; `None` without a search.
    pub fn progress(&self) -> Option<u32> {
        self.is_running.load(Relaxed).then(|| self.percent.load(Relaxed))
    }

    /// Height of the block being searched.
    pub fn height(&self) -> u32 {
        self.height.load(Relaxed)
    }

    /// Aborts the search; returns whether there was one.
    pub fn abort(&self) -> bool {
        let runs = self.is_running.load(Relaxed);
        if runs {
            self.is_aborted.store(true, Relaxed);
        }
        runs
    }

    /// Begins a search; `None` if another is running.
    pub fn begin(&self) -> Option<ScanTurn<'_>> {
        self.is_running.compare_exchange(false, true, Relaxed, Relaxed).ok()?;
        self.is_aborted.store(false, Relaxed);
        self.percent.store(0, Relaxed);
        Some(ScanTurn(self))
    }
}

/// The searched scripts in stored form, with their original bytes and descriptors.
#[derive(Clone, Debug, Default)]
pub struct Needles {
    by_stored: HashMap<Vec<u8>, (Vec<u8>, String)>,
}

/// Bytes of a coin before its script, of height 0 and amount 0.
const EMPTY_HEAD_BYTES: usize = 2;

impl Needles {
    /// Adds the scripts of a descriptor; a script keeps its first descriptor.
    pub fn add(&mut self, expanded: Expanded, prefixes: &Prefixes) {
        for script in &expanded.scripts {
            let desc = || infer(script, &expanded.known, prefixes);
            self.by_stored.entry(stored_script(script)).or_insert_with(|| (script.clone(), desc()));
        }
    }
}

fn stored_script(script: &[u8]) -> Vec<u8> {
    let mut stored = Vec::new();
    put_coin(&mut stored, 0, Amount(0), script);
    stored.split_off(EMPTY_HEAD_BYTES)
}

/// The script's part of a stored coin; `None` if the bytes are not a coin.
#[inline]
fn script_part(stored: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(stored);
    reader.varint().ok()?;
    reader.varint().ok()?;
    stored.get(reader.offset()..)
}

/// A matching coin.
#[derive(Clone, Debug)]
pub struct FoundCoin {
    /// Its outpoint.
    pub outpoint: OutPoint,
    /// Height of the block that made it.
    pub height: Height,
    coinbase: bool,
    value: Amount,
    script: Vec<u8>,
    desc: String,
}

/// Result of a search.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Whether it was not aborted.
    pub is_complete: bool,
    /// Number of coins searched.
    pub looked_at: u64,
    /// Ordered by outpoint.
    pub coins: Vec<FoundCoin>,
}

impl ScanTurn<'_> {
    /// Updates the progress of a search of blocks; returns whether to continue.
    pub fn at(&self, height: Height, percent: u32) -> bool {
        self.0.percent.store(percent, Relaxed);
        self.0.height.store(height.to_u32(), Relaxed);
        !self.0.is_aborted.load(Relaxed)
    }

    /// Searches all coins of a view; `is_ending` returns true when the program ends.
    ///
    /// # Errors
    ///
    /// A damaged table, or another I/O error.
    pub fn search(&self, view: &CoinsView, needles: &Needles, is_ending: impl Fn() -> bool) -> Result<Found, RpcError> {
        let scan = self.0;
        let mut found = Found { is_complete: true, ..Found::default() };
        let mut coins: BTreeMap<OutPoint, FoundCoin> = BTreeMap::new();
        walk_coins(view, |outpoint, stored| {
            found.looked_at += 1;
            if found.looked_at.is_multiple_of(PROGRESS_INTERVAL) {
                let [a, b, ..] = *outpoint.txid.as_bytes();
                let high = f64::from(u16::from_be_bytes([a, b]));
                scan.percent.store((high * 100.0 / 65536.0 + 0.5) as u32, Relaxed);
            }
            if found.looked_at.is_multiple_of(LOOK_INTERVAL) && (scan.is_aborted.load(Relaxed) || is_ending()) {
                found.is_complete = false;
                return false;
            }
            let hit = script_part(stored).and_then(|part| needles.by_stored.get(part));
            if let Some(((script, desc), coin)) = hit.zip(CoinRef::decode(stored).ok()) {
                let script = script.clone();
                let desc = desc.clone();
                let CoinRef { height, coinbase, value, .. } = coin;
                coins.insert(outpoint, FoundCoin { outpoint, height, coinbase, value, script, desc });
            }
            true
        })?;
        scan.percent.store(100, Relaxed);
        found.coins = coins.into_values().collect();
        Ok(found)
    }
}

/// Writes the matches and their sum; `blocks` are the hashes of the blocks that created the coins.
pub fn put_found(json: &mut JsonText, found: &Found, blocks: &[BlockHash], tip: Height) {
    let mut total = 0i64;
    json.key("unspents").open_list();
    for (coin, block) in found.coins.iter().zip(blocks) {
        total = total.saturating_add(coin.value.0);
        json.open();
        json.key("txid").hash(&coin.outpoint.txid.to_hash256());
        json.key("vout").number(u64::from(coin.outpoint.vout));
        json.key("scriptPubKey").hex(&coin.script);
        json.key("desc").string(&coin.desc);
        json.key("amount").amount(coin.value);
        json.key("coinbase").bool(coin.coinbase);
        json.key("height").number(u64::from(coin.height.to_u32()));
        json.key("blockhash").hash(&block.to_hash256());
        json.key("confirmations").number(u64::from(tip.blocks_above(coin.height)) + 1);
        json.close();
    }
    json.close_list();
    json.key("total_amount").amount(Amount(total));
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::hex;

    #[test]
    fn one_search_at_a_time() {
        let scan = Scan::default();
        assert_eq!((scan.progress(), scan.abort()), (None, false));
        let turn = scan.begin().unwrap();
        assert!(scan.begin().is_none());
        assert_eq!((scan.progress(), scan.abort()), (Some(0), true));
        drop(turn);
        assert_eq!(scan.progress(), None);
        let _turn = scan.begin().unwrap();
        assert!(!scan.is_aborted.load(Relaxed), "it is another one");
    }

    /// The script's part of any coin is what the script alone is stored as.
    #[test]
    fn scripts_are_compared_as_they_are_stored() {
        for script in [
            format!("76a914{}88ac", "ab".repeat(20)),
            format!("a914{}87", "ab".repeat(20)),
            "210279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798ac".into(),
            "410479be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8ac".into(),
            format!("0014{}", "ab".repeat(20)),
            "51".repeat(300),
            String::new(),
        ] {
            let script = hex::decode(&script).unwrap();
            let mut stored = Vec::new();
            put_coin(&mut stored, 1_700_001, Amount(123_456_789), &script);
            assert_eq!(script_part(&stored), Some(&stored_script(&script)[..]));
        }
        assert_eq!(script_part(&[0x80]), None);
    }
}
