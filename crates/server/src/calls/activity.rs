//! getdescriptoractivity: what the scripts of descriptors receive and spend in some blocks and in the mempool.
//!
//! Source: Bitcoin Core b88bffe, rpc/blockchain.cpp, `getdescriptoractivity`.

use super::block::{parsed, spent, undo_bytes};
use super::scan_coins::scan_object;
use super::view::{block_bytes, not_found};
use crate::args::{self, Args};
use crate::context::Context;
use crate::error::RpcError;
use crate::json::Json;
use crate::output::Prefixes;
use crate::registry::{Arg, Call, Kind, Run};
use crate::text::JsonText;
use crate::tx_json::put_script_fields;
use node::chain::tree::NodeId;
use node::handle::Live;
use primitives::{Amount, BlockHash, Height, OutPoint, Tables, Transaction, Txid};
use std::collections::{BTreeMap, HashSet};

/// This call.
pub(super) const CALLS: &[Call] = &[Call {
    category: "blockchain",
    name: "getdescriptoractivity",
    about: "Get spend and receive activity associated with a set of descriptors for a set of blocks. \
            This command pairs well with the `relevant_blocks` output of `scanblocks()`.\n\
            This call may take several minutes. If you encounter timeouts, try specifying no RPC timeout \
            (bitcoin-cli -rpcclienttimeout=0)",
    args: &[
        Arg::needed(
            "blockhashes",
            Kind::Arr,
            "The list of blockhashes to examine for activity. Order doesn't matter. Must be along main chain or an error is \
            thrown.",
        )
        .shown_as("[\"blockhash\",...]"),
        Arg::needed("scanobjects", Kind::Arr, "Descriptors, or objects with desc and range")
            .shown_as("[scanobjects,...]"),
        Arg::optional("include_mempool", Kind::Bool, "Whether to include unconfirmed activity"),
    ],
    run: Run::Now(get_descriptor_activity),
}];

/// The answer while it is written.
struct Activity<'a> {
    json: JsonText,
    scripts: &'a HashSet<Vec<u8>>,
    prefixes: &'a Prefixes,
}

/// A coin that a transaction spends.
struct Spend<'a> {
    script: &'a [u8],
    value: Amount,
    by: Txid,
    input: usize,
    prevout: OutPoint,
}

/// The block of a transaction; `None`: it is in the mempool.
type Place = Option<(BlockHash, Height)>;

impl Activity<'_> {
    fn open(&mut self, kind: &str, value: Amount, place: Place) {
        self.json.open();
        self.json.key("type").string(kind);
        self.json.key("amount").amount(value);
        if let Some((hash, height)) = place {
            self.json.key("blockhash").hash(&hash.to_hash256());
            self.json.key("height").number(u64::from(height.to_u32()));
        }
    }

    fn close(&mut self, name: &'static str, script: &[u8]) {
        self.json.key(name).open();
        put_script_fields(&mut self.json, script, self.prefixes);
        self.json.close();
        self.json.close();
    }

    fn put_spend(&mut self, spend: &Spend<'_>, place: Place) {
        if !self.scripts.contains(spend.script) {
            return;
        }
        self.open("spend", spend.value, place);
        self.json.key("spend_txid").hash(&spend.by.to_hash256());
        self.json.key("spend_vin").number(spend.input as u64);
        self.json.key("prevout_txid").hash(&spend.prevout.txid.to_hash256());
        self.json.key("prevout_vout").number(u64::from(spend.prevout.vout));
        self.close("prevout_spk", spend.script);
    }

    fn put_receives(&mut self, tx: &Transaction<'_>, txid: Txid, place: Place) {
        for (vout, output) in tx.outputs().enumerate() {
            if self.scripts.contains(output.script()) {
                self.open("receive", output.value(), place);
                self.json.key("txid").hash(&txid.to_hash256());
                self.json.key("vout").number(vout as u64);
                self.close("output_spk", output.script());
            }
        }
    }

    fn put_block(&mut self, live: &Live, id: NodeId, height: Height) -> Result<(), RpcError> {
        let bytes = block_bytes(live, id)?;
        let mut tables = Tables::with(live.options.kernels);
        let block = parsed(&mut tables, &bytes)?;
        // Genesis has no undo data.
        let undo = if height == Height::GENESIS { None } else { Some(undo_bytes(live, id)?) };
        let coins = undo.as_deref().map(|undo| spent(undo, &block)).transpose()?.unwrap_or_default();
        let mut coins = coins.into_iter();
        let place = Some((live.index.headers().hash(id), height));
        for tx in block.transactions() {
            let by = tx.txid();
            if !tx.is_coinbase() {
                for ((input, spending), coin) in tx.inputs().enumerate().zip(coins.by_ref()) {
                    let script = coin.script.to_vec();
                    let spend = Spend { script: &script, value: coin.value, by, input, prevout: spending.prevout() };
                    self.put_spend(&spend, place);
                }
            }
            self.put_receives(&tx, by, place);
        }
        Ok(())
    }

    /// Mempool transactions in mining order.
    #[cfg(feature = "regtest-tools")]
    fn put_waiting(&mut self, context: &Context) -> Result<(), RpcError> {
        let mempool = context.handle.mempool().clone();
        let waiting = context.ask(move |quiet| {
            let graph = crate::mempool_order::Graph::new(mempool.entries());
            let mut all = Vec::new();
            for index in graph.in_order() {
                let entry = graph.entries()[index].clone();
                let mut coins = Vec::with_capacity(entry.inputs.len());
                for outpoint in &entry.inputs {
                    let stored = quiet.coin(outpoint)?;
                    let coin = stored.as_deref().and_then(|stored| primitives::CoinRef::decode(stored).ok());
                    let coin = coin.map(|coin| (coin.value, coin.script.to_vec()));
                    coins.push(coin.or_else(|| mempool.get(&outpoint.txid)?.output(outpoint.vout)));
                }
                all.push((entry, coins));
            }
            Ok(all)
        })?;
        for (entry, coins) in &waiting {
            for (input, (prevout, coin)) in entry.inputs.iter().zip(coins).enumerate() {
                if let Some((value, script)) = coin {
                    let spend = Spend { script, value: *value, by: entry.txid, input, prevout: *prevout };
                    self.put_spend(&spend, None);
                }
            }
            let mut tables = Tables::new();
            self.put_receives(&super::transaction::stored(&mut tables, &entry.bytes)?, entry.txid, None);
        }
        Ok(())
    }

    /// Nothing: without the feature `regtest-tools` the mempool is always empty.
    #[cfg(not(feature = "regtest-tools"))]
    #[allow(clippy::unnecessary_wraps, reason = "the other one can fail")]
    fn put_waiting(&mut self, _context: &Context) -> Result<(), RpcError> {
        Ok(())
    }
}

/// The blocks by height. As in Core, a block that is given twice counts once.
fn blocks(live: &Live, hashes: &[Json]) -> Result<BTreeMap<Height, NodeId>, RpcError> {
    let index = live.index.read();
    let mut blocks = BTreeMap::new();
    for hash in hashes {
        let hash = BlockHash::from_bytes(*args::hash(hash, "blockhash")?.as_bytes());
        let id = index.headers().find(&hash).ok_or_else(not_found)?;
        if !index.is_active(id) {
            return Err(RpcError::parameter("Block is not in main chain"));
        }
        blocks.insert(index.headers().height(id), id);
    }
    Ok(blocks)
}

fn get_descriptor_activity(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let live = context.live()?;
    let prefixes = Prefixes::of(live.params().chain);
    let blocks = blocks(&live, args.list(0)?)?;
    let mut scripts: HashSet<Vec<u8>> = HashSet::new();
    for value in args.list(1)? {
        scripts.extend(scan_object(value, &prefixes)?.scripts);
    }
    let mut activity = Activity { json: JsonText::new(), scripts: &scripts, prefixes: &prefixes };
    activity.json.open();
    activity.json.key("activity").open_list();
    for (height, id) in blocks {
        if context.is_stopping() {
            return Err(node::handle::Unanswered::Ended.into());
        }
        activity.put_block(&live, id, height)?;
    }
    if args.bool_or(2, true)? {
        activity.put_waiting(context)?;
    }
    activity.json.close_list();
    activity.json.close();
    Ok(activity.json.into_json())
}
