//! Commands that read optional indexes: `index`, `tx`, `filter`, `spender`, `silentpayments`, and `coins info`
//! at a height.
//!
//! JSON field names are those of getrawtransaction, getblockfilter, gettxspendingprevout and gettxoutsetinfo.

use crate::args::indexes::{Filter, Flags, Index, SilentPayments, Spender, Tx};
use crate::args::{CoinsInfo, Common, HashType};
use crate::output::{amount, json, print, row};
use crate::settings::Settings;
use crate::{Failure, INTERRUPTED, begin, begin_read_only, limits, load, private_files, was_stopped};
use node::Fault;
use node::jobs::{self, BlockId, FoundTx, IndexReport, SetAt};
use node::options::Options;
use node::reporting::Events;
use primitives::{CoinRef, Tables, hex, human};
use serde::Serialize;
use serde_json::value::RawValue;
use show::output::{Payee, Prefixes};
use show::text::JsonText;
use show::tx_json::{Details, Show, TxHead, put_parsed};
use std::process::ExitCode;

#[derive(Serialize)]
struct IndexObject<'a> {
    chain: &'a str,
    height: u32,
    bestblock: String,
    indexes: Vec<&'a str>,
    bytes: u64,
    seconds: f64,
    stopped: bool,
}

/// Builds indexes up to the tip.
pub(crate) fn index(given: &Index) -> Result<ExitCode, Failure> {
    let mut settings = load(&given.common, None)?;
    let kinds = match &given.only[..] {
        [] => settings.files.indexes(&Flags::default())?,
        only => only.to_vec(),
    };
    limits::check(settings.options.par, settings.options.dbcache_bytes)?;
    private_files();
    let reporter = begin(&settings)?;
    let done = jobs::index(&settings.options, &kinds, &|event| reporter.event(event));
    reporter.finish();
    let report = match done {
        Err(fault) if was_stopped(&fault, &settings.options, &reporter) => return Ok(ExitCode::from(INTERRUPTED)),
        done => done?,
    };
    let chain = settings.options.params.chain.name();
    print(&if given.common.json { index_json(chain, &report) } else { index_lines(chain, &report) });
    Ok(if report.stopped { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

fn index_json(chain: &str, report: &IndexReport) -> String {
    json(&IndexObject {
        chain,
        height: report.height.to_u32(),
        bestblock: report.best.to_string(),
        indexes: report.indexes.iter().map(|kind| kind.name()).collect(),
        bytes: report.bytes,
        seconds: report.seconds,
        stopped: report.stopped,
    })
}

fn index_lines(chain: &str, report: &IndexReport) -> String {
    let names = report.indexes.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
    let height = human::count(report.height.to_u32().into());
    let stopped = if report.stopped { "; stopped, the same command goes on from there" } else { "" };
    format!("{names} of {chain} reached height {height}, after {}{stopped}", human::duration(report.seconds))
}

/// Runs a look-up and prints the result.
fn look_up<T>(
    common: &Common,
    ask: impl FnOnce(&Options, Events<'_>) -> Result<T, Fault>,
    as_json: impl FnOnce(&T) -> String,
    as_lines: impl FnOnce(&T) -> String,
) -> Result<ExitCode, Failure> {
    let settings: Settings = load(common, None)?;
    let reporter = begin_read_only(&settings)?;
    let done = ask(&settings.options, &|event| reporter.event(event));
    reporter.finish();
    let found = done?;
    print(&if common.json { as_json(&found) } else { as_lines(&found) });
    Ok(ExitCode::SUCCESS)
}

/// Prints a transaction.
pub(crate) fn tx(given: &Tx) -> Result<ExitCode, Failure> {
    let ask = |options: &Options, events: Events<'_>| {
        Ok((jobs::tx(options, given.txid, events)?, Prefixes::of(options.params.chain)))
    };
    look_up(
        &given.common,
        ask,
        |(found, prefixes)| tx_json(found, prefixes),
        |(found, prefixes)| tx_lines(found, prefixes),
    )
}

/// The coins that a transaction spends, if known.
fn spent(found: &FoundTx) -> Option<Vec<CoinRef<'_>>> {
    let spent = found.spent.as_ref()?;
    Some(spent.iter().map(|stored| CoinRef::decode(stored).expect("it was read as a coin")).collect())
}

/// As Core's getrawtransaction with verbosity 2; without undo data as with verbosity 1.
fn tx_json(found: &FoundTx, prefixes: &Prefixes) -> String {
    let mut tables = Tables::new();
    let tx = tables.parse_transaction(&found.bytes).expect("it was read as a transaction");
    let spent = spent(found);
    let details = if spent.is_some() { Details::Prevouts } else { Details::Plain };
    let head = TxHead::of(&tx);
    let mut json = JsonText::new();
    let show = Show { prefixes, spent: spent.as_deref(), details };
    json.open();
    if put_parsed(&mut json, &tx, &head, &show).is_err() {
        // The undo data has impossible amounts: print only the transaction itself.
        json = JsonText::new();
        json.open();
        let plain = Show { prefixes, spent: None, details: Details::Plain };
        put_parsed(&mut json, &tx, &head, &plain).expect("without spent coins there is no fee");
    }
    json.key("hex").hex(&found.bytes);
    json.key("blockhash").hash(&found.block.to_hash256());
    json.key("confirmations").number(found.confirmations.into());
    if found.confirmations > 0 {
        json.key("time").number(found.time.into());
        json.key("blocktime").number(found.time.into());
    }
    json.close();
    json.into_string()
}

fn tx_lines(found: &FoundTx, prefixes: &Prefixes) -> String {
    let mut tables = Tables::new();
    let tx = tables.parse_transaction(&found.bytes).expect("it was read as a transaction");
    let place = match found.confirmations {
        0 => "which is not in the active chain".to_owned(),
        count => format!("{} confirmations", human::count(count.into())),
    };
    let height = human::count(found.height.to_u32().into());
    let size = found.bytes.len() as u64;
    let weight = TxHead::of(&tx).weight() as u64;
    let mut lines = vec![
        format!("transaction {}", found.txid),
        row("block", format!("{} at height {height}, {place}", found.block)),
        row("size", format!("{} bytes, weight {}", human::count(size), human::count(weight))),
    ];
    let payee = |script: &[u8]| {
        let payee = Payee::of(script);
        prefixes.address(&payee).unwrap_or_else(|| payee.name().to_owned())
    };
    let coins = spent(found).unwrap_or_default();
    for (at, input) in tx.inputs().enumerate() {
        let what = match coins.get(at) {
            _ if tx.is_coinbase() => "coinbase".to_owned(),
            Some(coin) => {
                let value = human::btc(coin.value.0);
                let to = payee(&coin.script.to_vec());
                format!("{}: {value} of {to}", input.prevout())
            }
            None => input.prevout().to_string(),
        };
        lines.push(row(&format!("input {at}"), what));
    }
    let mut left = coins.iter().fold(0i64, |sum, coin| sum.saturating_add(coin.value.0));
    for (at, output) in tx.outputs().enumerate() {
        left = left.saturating_sub(output.value().0);
        lines.push(row(
            &format!("output {at}"),
            format!("{} to {}", human::btc(output.value().0), payee(output.script())),
        ));
    }
    if !coins.is_empty() {
        lines.push(row("fee", human::btc(left)));
    }
    lines.push(row("hex", hex::encode(&found.bytes)));
    lines.join("\n")
}

#[derive(Serialize)]
struct FilterObject {
    filter: String,
    header: String,
    blockhash: String,
    height: u32,
}

/// Prints the filter of a block.
pub(crate) fn filter(given: &Filter) -> Result<ExitCode, Failure> {
    let object = |found: &jobs::Filter| FilterObject {
        filter: hex::encode(&found.filter),
        header: found.header.to_string(),
        blockhash: found.block.to_string(),
        height: found.height.to_u32(),
    };
    let lines = |found: &jobs::Filter| {
        let FilterObject { filter, header, blockhash, height } = object(found);
        let title = format!("basic filter of block {blockhash} at height {}", human::count(height.into()));
        [title, row("filter header", header), row("filter", filter)].join("\n")
    };
    let ask = |options: &Options, events: Events<'_>| jobs::filter(options, &given.block, events);
    look_up(&given.common, ask, |found| json(&object(found)), lines)
}

#[derive(Serialize)]
struct SpenderObject {
    txid: String,
    vout: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    spendingtxid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blockhash: Option<String>,
}

/// Prints the spender of an output.
pub(crate) fn spender(given: &Spender) -> Result<ExitCode, Failure> {
    let object = |found: &jobs::Spender| SpenderObject {
        txid: found.outpoint.txid.to_string(),
        vout: found.outpoint.vout,
        spendingtxid: found.spent_by.map(|(txid, _)| txid.to_string()),
        blockhash: found.spent_by.map(|(_, block)| block.to_string()),
    };
    let lines = |found: &jobs::Spender| match found.spent_by {
        Some((txid, block)) => format!("{} is spent by {txid} in block {block}", found.outpoint),
        None => format!("{} is not spent in the active chain", found.outpoint),
    };
    let ask = |options: &Options, events: Events<'_>| jobs::spender(options, given.outpoint, events);
    look_up(&given.common, ask, |found| json(&object(found)), lines)
}

#[derive(Serialize)]
struct SilentPaymentsObject {
    blockhash: String,
    height: u32,
    bip352_tweaks: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transactions: Option<Vec<SilentTxObject>>,
}

#[derive(Serialize)]
struct SilentTxObject {
    txid: String,
    outputs: Vec<SilentOutputObject>,
}

#[derive(Serialize)]
struct SilentOutputObject {
    vout: u32,
    pubkey: String,
    value: Box<RawValue>,
    spent: bool,
}

impl SilentTxObject {
    fn new(tx: &jobs::SilentTx) -> SilentTxObject {
        let output = |output: &jobs::SilentOutput| SilentOutputObject {
            vout: output.vout,
            pubkey: hex::encode(&output.key),
            value: amount(output.value.0),
            spent: !output.is_unspent,
        };
        SilentTxObject { txid: tx.txid.to_string(), outputs: tx.outputs.iter().map(output).collect() }
    }
}

/// Prints the tweaks of a block, under getsilentpaymentblockdata's field name.
pub(crate) fn silent_payments(given: &SilentPayments) -> Result<ExitCode, Failure> {
    let question =
        jobs::SilentQuestion { dust_limit: given.dust_limit, only_unspent: given.unspent, with_outputs: given.outputs };
    let object = |found: &jobs::SilentPayments| SilentPaymentsObject {
        blockhash: found.block.to_string(),
        height: found.height.to_u32(),
        bip352_tweaks: found.entries.iter().map(|entry| hex::encode(&entry.tweak)).collect(),
        transactions: found.transactions.as_ref().map(|all| all.iter().map(SilentTxObject::new).collect()),
    };
    let ask = |options: &Options, events: Events<'_>| jobs::silent_payments(options, &given.block, &question, events);
    look_up(&given.common, ask, |found| json(&object(found)), silent_payments_lines)
}

fn silent_payments_lines(found: &jobs::SilentPayments) -> String {
    let height = human::count(found.height.to_u32().into());
    let count = human::count(found.entries.len() as u64);
    let mut lines = vec![format!("block {} at height {height}: {count} transactions may pay silently", found.block)];
    match &found.transactions {
        None => lines.extend(found.entries.iter().map(|entry| row("tweak", hex::encode(&entry.tweak)))),
        Some(transactions) => {
            for tx in transactions {
                lines.push(row("transaction", tx.txid.to_string()));
                lines.push(row("tweak", hex::encode(&tx.entry.tweak)));
                for output in &tx.outputs {
                    let spent = if output.is_unspent { "unspent" } else { "spent" };
                    let value = human::btc(output.value.0);
                    let key = hex::encode(&output.key);
                    lines.push(row(&format!("output {}", output.vout), format!("{value} to {key}, {spent}")));
                }
            }
        }
    }
    lines.join("\n")
}

#[derive(Serialize)]
struct Unspendables {
    genesis_block: Box<RawValue>,
    bip30: Box<RawValue>,
    scripts: Box<RawValue>,
    unclaimed_rewards: Box<RawValue>,
}

#[derive(Serialize)]
struct BlockInfo {
    prevout_spent: Box<RawValue>,
    coinbase: Box<RawValue>,
    new_outputs_ex_coinbase: Box<RawValue>,
    unspendable: Box<RawValue>,
    unspendables: Unspendables,
}

#[derive(Serialize)]
struct SetAtObject {
    height: u32,
    bestblock: String,
    txouts: u64,
    bogosize: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    muhash: Option<String>,
    total_amount: Box<RawValue>,
    total_unspendable_amount: Box<RawValue>,
    block_info: BlockInfo,
}

/// Prints the UTXO set as of a block.
pub(crate) fn coins_at(given: &CoinsInfo, block: &BlockId) -> Result<ExitCode, Failure> {
    let hash = given.hash.unwrap_or(HashType::Muhash);
    if hash == HashType::Serialized {
        let why = "hash_serialized_3 hash type cannot be queried for a specific block";
        return Err(Failure::Usage(why.to_owned()));
    }
    let object = |found: &SetAt| set_at(found, hash == HashType::Muhash);
    let lines = |found: &SetAt| set_at_lines(&object(found), found);
    let ask = |options: &Options, events: Events<'_>| jobs::set_info_at(options, block, events);
    look_up(&given.common, ask, |found| json(&object(found)), lines)
}

fn set_at(found: &SetAt, has_hash: bool) -> SetAtObject {
    let now = &found.row.totals;
    let before = &found.before.totals;
    // In a sound index two rows differ by a block's sums, which are below the total money supply.
    let grown = |now: u128, before: u128| amount(i64::try_from(now.wrapping_sub(before)).unwrap_or(i64::MAX));
    let more = |now: i64, before: i64| amount(now.wrapping_sub(before));
    SetAtObject {
        height: found.height.to_u32(),
        bestblock: found.block.to_string(),
        txouts: now.outputs,
        bogosize: now.bogosize,
        muhash: has_hash.then(|| found.row.muhash.to_string()),
        total_amount: amount(now.amount),
        total_unspendable_amount: amount(now.unspendable()),
        block_info: BlockInfo {
            prevout_spent: grown(now.prevouts, before.prevouts),
            coinbase: grown(now.coinbase, before.coinbase),
            new_outputs_ex_coinbase: grown(now.new_outputs, before.new_outputs),
            unspendable: more(now.unspendable(), before.unspendable()),
            unspendables: Unspendables {
                genesis_block: more(now.genesis, before.genesis),
                bip30: more(now.repeated, before.repeated),
                scripts: more(now.scripts, before.scripts),
                unclaimed_rewards: more(now.unclaimed, before.unclaimed),
            },
        },
    }
}

fn set_at_lines(object: &SetAtObject, found: &SetAt) -> String {
    let height = human::count(object.height.into());
    let totals = &found.row.totals;
    let mut lines = vec![format!("UTXO set at height {height}, block {}", object.bestblock)];
    lines.push(row("UTXO set", format!("{} coins, {} BTC", human::count(totals.outputs), human::btc(totals.amount))));
    lines.extend(object.muhash.as_ref().map(|hash| row("hash", format!("muhash {hash}"))));
    lines.push(row("bogosize", human::count(totals.bogosize)));
    lines.push(row("unspendable", format!("{} BTC", human::btc(totals.unspendable()))));
    let info = &object.block_info;
    lines.push(row(
        "this block",
        format!(
            "spent {}, coinbase {}, other outputs {} BTC",
            info.prevout_spent, info.coinbase, info.new_outputs_ex_coinbase
        ),
    ));
    lines.join("\n")
}
