//! Submitted transactions: tests whether the next block may include them, and on regtest adds them to the mempool.
//!
//! They serve tests of programs that need blocks with transactions. They are not relayed to peers, so on other
//! networks a submitted transaction would go nowhere.
//!
//! Source: Bitcoin Core b88bffe, rpc/mempool.cpp, node/transaction.cpp.

use crate::args::{self, Args, amount};
use crate::context::Context;
use crate::error::{Code, RpcError};
use crate::json::Json;
use crate::registry::{Arg, Call, Kind, Run};
use consensus::{Chain, transaction};
use node::Fault;
use node::handle::Quiet;
use node::mempool::{Offer, PoolEntry, Refusal, fee_at};
use primitives::coin::is_unspendable;
use primitives::{OutPoint, Tables, Transaction, Txid, Wtxid, hex};
use script::opcode::Instructions;
use std::sync::Arc;

/// Default maximum fee rate, in satoshis for 1,000 vbytes. Source: Core's `DEFAULT_MAX_RAW_TX_FEE_RATE`.
const FEE_RATE_MAX: i64 = 10_000_000;
/// Satoshis in a bitcoin: an upper bound of fee rates.
const COIN: i64 = 100_000_000;
/// Maximum number of transactions in one call. Source: Core's `MAX_PACKAGE_COUNT`.
const TESTED_MAX: usize = 25;

/// These calls.
pub(super) const CALLS: &[Call] = &[
    Call {
        category: "rawtransactions",
        name: "sendrawtransaction",
        about: "Submit a raw transaction (serialized, hex-encoded) to the local mempool, on regtest.\n\
                ffwd relays no transactions: it is mined by generatetoaddress and its like, and no peer hears of it.",
        args: &[
            Arg::needed("hexstring", Kind::Hex, "The hex string of the raw transaction"),
            Arg::optional("maxfeerate", Kind::Amount, FEE_RATE),
            Arg::optional(
                "maxburnamount",
                Kind::Amount,
                "Reject transactions with provably unspendable outputs greater than this, in BTC (default: 0)",
            ),
        ],
        run: Run::Now(send_raw_transaction),
    },
    Call {
        category: "rawtransactions",
        name: "testmempoolaccept",
        about: "Returns result of mempool acceptance tests indicating if raw transaction(s) (serialized, hex-encoded) would be accepted by mempool, on regtest.\n\
                Parents must come before children.",
        args: &[
            Arg::needed("rawtxs", Kind::Arr, "An array of hex strings of raw transactions, at most 25."),
            Arg::optional("maxfeerate", Kind::Amount, FEE_RATE),
        ],
        run: Run::Now(test_mempool_accept),
    },
];

const FEE_RATE: &str =
    "Reject transactions whose fee rate is higher, in BTC/kvB; 0: accept any (default: 0.10). 1 and more are refused.";

/// Refuses a call on other networks than regtest, where a transaction would never leave this node.
fn check_regtest(context: &Context) -> Result<(), RpcError> {
    match context.live()?.params().chain {
        Chain::Regtest => Ok(()),
        _ => Err(RpcError::misc(
            "ffwd accepts transactions only on regtest: it does not relay, so send it through another node",
        )),
    }
}

/// The maximum fee for a number of vbytes; `None`: no limit. Source: Core's `ParseFeeRate`.
fn fee_max(args: &Args<'_>) -> Result<impl Fn(u64) -> Option<i64> + use<>, RpcError> {
    let rate = if args.is_given(1) { amount(args.get(1))? } else { FEE_RATE_MAX };
    if rate >= COIN {
        return Err(RpcError::parameter("Fee rates larger than or equal to 1BTC/kvB are not accepted"));
    }
    Ok(move |vsize| Some(fee_at(rate, vsize)).filter(|&fee| fee > 0))
}

/// Parses the bytes of a transaction.
fn raw(text: &str) -> Option<Vec<u8>> {
    hex::decode(text).filter(|raw| Tables::new().parse_transaction(raw).is_ok_and(|tx| tx.bytes() == raw))
}

/// The largest provably unspendable output. Source: Core's `CScript::HasValidOps`.
fn burnt(tx: &Transaction<'_>) -> i64 {
    let is_burnt = |script: &[u8]| {
        let mut instructions = Instructions::new(script);
        let is_odd = instructions.by_ref().any(|instruction| instruction.push.len() > 520 || instruction.opcode > 0xb9);
        is_unspendable(script) || is_odd || instructions.is_cut()
    };
    tx.outputs().filter(|output| is_burnt(output.script())).map(|output| output.value().0).max().unwrap_or(0)
}

/// Result for a submitted transaction.
enum Sent {
    Taken,
    InUtxoSet,
    Refused(Refusal),
    TooDear,
}

fn send_raw_transaction(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    check_regtest(context)?;
    let burnt_max = if args.is_given(2) { amount(args.get(2))? } else { 0 };
    let bytes = raw(args.text(0)?).ok_or_else(|| {
        RpcError::new(Code::Deserialization, "TX decode failed. Make sure the tx has at least one input.")
    })?;
    let failed = |why: &str| RpcError::new(Code::Verify, why);
    let mut tables = Tables::new();
    let tx = tables.parse_transaction(&bytes).expect("it was parsed before");
    if burnt(&tx) > burnt_max {
        return Err(failed("Unspendable output exceeds maximum configured by user (maxburnamount)"));
    }
    let txid = tx.txid();
    let is_sized = transaction::check_size(&tx).is_ok();
    let outputs = if is_sized { u32::try_from(tx.output_count()).unwrap_or(0) } else { 0 };
    let fee_max = fee_max(args)?;
    let mempool = context.handle.mempool().clone();
    let sent = context.ask(move |quiet| {
        for vout in 0..outputs {
            if quiet.coin(&OutPoint { txid, vout })?.is_some() {
                return Ok(Sent::InUtxoSet);
            }
        }
        if mempool.get(&txid).is_some() {
            return Ok(Sent::Taken);
        }
        send(quiet, bytes, fee_max)
    })?;
    match sent {
        Sent::Taken => Ok(txid.into()),
        Sent::InUtxoSet => Err(RpcError::new(Code::AlreadyInUtxoSet, "Transaction outputs already in utxo set")),
        Sent::TooDear => Err(failed("Fee exceeds maximum configured by user (e.g. -maxtxfee, maxfeerate)")),
        Sent::Refused(why) if why.is_missing_input() => Err(failed(&why.line())),
        Sent::Refused(why) => Err(RpcError::new(Code::VerifyRejected, why.line())),
    }
}

/// Tests first, so that a transaction with a too high fee is not accepted.
fn send(quiet: &Quiet<'_, '_, '_>, bytes: Vec<u8>, fee_max: impl Fn(u64) -> Option<i64>) -> Result<Sent, Fault> {
    let offered = [bytes];
    for judged in quiet.offer(&offered, Offer::Test)? {
        match judged {
            Err(refusal) => return Ok(Sent::Refused(refusal)),
            Ok(entry) if fee_max(entry.vsize_bip141()).is_some_and(|most| entry.fee.0 > most) => {
                return Ok(Sent::TooDear);
            }
            Ok(_) => {}
        }
    }
    quiet.offer(&offered, Offer::Take)?;
    Ok(Sent::Taken)
}

fn test_mempool_accept(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    check_regtest(context)?;
    let list = args.list(0)?;
    if list.is_empty() || list.len() > TESTED_MAX {
        return Err(RpcError::parameter(format!("Array must contain between 1 and {TESTED_MAX} transactions.")));
    }
    let fee_max = fee_max(args)?;
    let mut offered = Vec::new();
    let mut ids = Vec::new();
    for value in list {
        let text = args::text(value)?;
        let bytes = raw(text).ok_or_else(|| {
            let why = format!("TX decode failed: {text} Make sure the tx has at least one input.");
            RpcError::new(Code::Deserialization, why)
        })?;
        let mut tables = Tables::new();
        let tx = tables.parse_transaction(&bytes).expect("it was parsed before");
        ids.push((tx.txid(), tx.wtxid()));
        offered.push(bytes);
    }
    let mut judged = context.ask(move |quiet| quiet.offer(&offered, Offer::Test))?.into_iter();
    let mut rows = Vec::new();
    let mut is_over = false;
    for (txid, wtxid) in ids {
        let result = judged.next().filter(|_| !is_over);
        let (row, ends) = tested(&txid, &wtxid, result, &fee_max);
        is_over |= ends;
        rows.push(row);
    }
    Ok(rows.into())
}

/// Results of a tested transaction, and whether the transactions after it get no results.
fn tested(
    txid: &Txid,
    wtxid: &Wtxid,
    result: Option<Result<Arc<PoolEntry>, Refusal>>,
    fee_max: &impl Fn(u64) -> Option<i64>,
) -> (Json, bool) {
    let fields = Json::object().put("txid", *txid).put("wtxid", wtxid.to_hash256());
    match result {
        None => (fields.end(), true),
        Some(Err(why)) if why.is_missing_input() => {
            (fields.put("allowed", false).put("reject-reason", "missing-inputs").end(), true)
        }
        Some(Err(why)) => {
            let fields = fields.put("allowed", false).put("reject-reason", why.reason.to_string());
            (fields.put("reject-details", why.line()).end(), true)
        }
        Some(Ok(entry)) if fee_max(entry.vsize()).is_some_and(|most| entry.fee.0 > most) => {
            (fields.put("allowed", false).put("reject-reason", "max-fee-exceeded").end(), true)
        }
        Some(Ok(entry)) => {
            let rate = (i128::from(entry.modified_fee()) * 1000 / i128::from(entry.vsize())) as i64;
            let includes: Vec<Json> = vec![wtxid.to_hash256().into()];
            let fees = Json::object()
                .put("base", Json::amount(entry.fee.0))
                .put("effective-feerate", Json::amount(rate))
                .put("effective-includes", includes);
            let fields = fields.put("allowed", true).put("vsize_adjusted", entry.vsize());
            let fields = fields.put("vsize", entry.vsize()).put("vsize_bip141", entry.vsize_bip141());
            (fields.put("fees", fees.end()).end(), false)
        }
    }
}
