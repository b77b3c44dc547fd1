//! Transactions as JSON for the RPCs and REST.
//!
//! Source: Bitcoin Core b88bffe, core_io.cpp (`TxToUniv`, `ScriptToUniv`).

use crate::descriptor::put_descriptor;
use crate::output::{Payee, Prefixes, put_asm};
use crate::text::JsonText;
use primitives::block::{Input, Output, Transaction, Witness};
use primitives::{Amount, CoinRef, OutPoint, Txid, Wtxid};

/// Weight units of a byte that is not witness. Source: BIP-0141.
const WITNESS_SCALE: usize = 4;

/// Which fields of a transaction are shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Details {
    /// Inputs and outputs.
    Plain,
    /// Inputs with their spent outputs, and outputs.
    Prevouts,
}

/// A transaction's fields, from any source; `inputs` and `outputs` are passed to [`put_transaction`] separately.
#[derive(Clone, Copy, Debug)]
pub struct TxHead<'a> {
    /// Its id.
    pub txid: Txid,
    /// The hash of the transaction with witnesses.
    pub wtxid: Wtxid,
    /// The version.
    pub version: u32,
    /// The locktime.
    pub lock_time: u32,
    /// Bytes without witnesses.
    pub stripped_bytes: usize,
    /// The bytes, witnesses included.
    pub bytes: &'a [u8],
    /// Whether it is a coinbase.
    pub is_coinbase: bool,
}

impl<'a> TxHead<'a> {
    /// Fields of a parsed transaction with known ids.
    pub fn new(tx: &Transaction<'a>, txid: Txid, wtxid: Wtxid) -> TxHead<'a> {
        TxHead {
            txid,
            wtxid,
            version: tx.version(),
            lock_time: tx.lock_time(),
            stripped_bytes: tx.stripped_bytes(),
            bytes: tx.bytes(),
            is_coinbase: tx.is_coinbase(),
        }
    }

    /// Fields of a parsed transaction; computes its ids.
    pub fn of(tx: &Transaction<'a>) -> TxHead<'a> {
        TxHead::new(tx, tx.txid(), tx.wtxid())
    }

    /// Weight: three times the stripped size plus the total size. Source: BIP-0141.
    pub fn weight(&self) -> usize {
        (WITNESS_SCALE - 1) * self.stripped_bytes + self.bytes.len()
    }
}

/// An input's fields.
#[derive(Clone, Debug)]
pub struct InputParts<'a> {
    /// The outpoint that it spends.
    pub prevout: OutPoint,
    /// The scriptSig.
    pub script_sig: &'a [u8],
    /// The sequence number.
    pub sequence: u32,
    /// The witness stack, if there is one.
    pub witness: Option<Witness<'a>>,
}

impl<'a> From<Input<'a>> for InputParts<'a> {
    fn from(input: Input<'a>) -> InputParts<'a> {
        let prevout = input.prevout();
        let script_sig = input.script_sig();
        let sequence = input.sequence();
        InputParts { prevout, script_sig, sequence, witness: Some(input.witness()) }
    }
}

/// An output's fields.
#[derive(Clone, Copy, Debug)]
pub struct OutputParts<'a> {
    /// The amount.
    pub value: Amount,
    /// The script.
    pub script: &'a [u8],
}

impl<'a> From<Output<'a>> for OutputParts<'a> {
    fn from(output: Output<'a>) -> OutputParts<'a> {
        OutputParts { value: output.value(), script: output.script() }
    }
}

/// Options of [`put_transaction`].
#[derive(Clone, Copy, Debug)]
pub struct Show<'a> {
    /// The network.
    pub prefixes: &'a Prefixes,
    /// The coins that it spends, in the order of its inputs, if known; a coinbase has no such coins.
    pub spent: Option<&'a [CoinRef<'a>]>,
    /// Which fields are shown.
    pub details: Details,
}

/// A fee outside the range of money: the undo data belongs to another block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FeeOutOfRange;

/// Writes the fields of a script into the open object: asm, descriptor, hex, address, type.
///
/// Source: Core's `ScriptToUniv` with hex and address.
pub fn put_script_fields(json: &mut JsonText, script: &[u8], prefixes: &Prefixes) {
    let payee = Payee::of(script);
    json.key("asm").plain(|out| put_asm(out, script, false));
    json.key("desc").plain(|out| put_descriptor(out, script, &payee, prefixes));
    json.key("hex").hex(script);
    put_address_and_type(json, &payee, prefixes);
}

/// Writes address, if there is one, and type.
pub fn put_address_and_type(json: &mut JsonText, payee: &Payee<'_>, prefixes: &Prefixes) {
    if has_address(payee) {
        json.key("address").plain(|out| {
            prefixes.put_address(out, payee);
        });
    }
    json.key("type").string(payee.name());
}

fn has_address(payee: &Payee<'_>) -> bool {
    !matches!(payee, Payee::PubKey(_) | Payee::Multisig(..) | Payee::NullData | Payee::NonStandard)
}

/// Writes the fields of a transaction into the open object, from `txid` to `fee`: those of Core's `TxToUniv` without
/// block hash and hex, which follow them.
///
/// # Errors
///
/// [`FeeOutOfRange`]; the written text is then incomplete.
pub fn put_transaction<'a>(
    json: &mut JsonText,
    head: &TxHead<'_>,
    inputs: impl Iterator<Item = InputParts<'a>>,
    outputs: impl Iterator<Item = OutputParts<'a>>,
    show: &Show<'_>,
) -> Result<(), FeeOutOfRange> {
    json.key("txid").hash(&head.txid.to_hash256());
    json.key("hash").hash(&head.wtxid.to_hash256());
    json.key("version").number(u64::from(head.version));
    let weight = head.weight();
    json.key("size").number(head.bytes.len() as u64);
    json.key("vsize").number(weight.div_ceil(WITNESS_SCALE) as u64);
    json.key("weight").number(weight as u64);
    json.key("locktime").number(u64::from(head.lock_time));
    let mut sum_in = 0i64;
    let mut sum_out = 0i64;
    let mut scratch = Vec::new();
    json.key("vin").open_list();
    for (at, input) in inputs.enumerate() {
        let coin = show.spent.map(|spent| &spent[at]);
        sum_in = coin.map_or(sum_in, |coin| sum_in.saturating_add(coin.value.0));
        let prevout = coin.filter(|_| show.details == Details::Prevouts);
        put_input(json, &input, head.is_coinbase, prevout, show.prefixes, &mut scratch);
    }
    json.close_list();
    json.key("vout").open_list();
    for (n, output) in outputs.enumerate() {
        sum_out = sum_out.saturating_add(output.value.0);
        json.open();
        json.key("value").amount(output.value);
        json.key("n").number(n as u64);
        json.key("scriptPubKey").open();
        put_script_fields(json, output.script, show.prefixes);
        json.close();
        json.close();
    }
    json.close_list();
    if show.spent.is_some() {
        let fee = Amount(sum_in.saturating_sub(sum_out));
        if !fee.in_range() {
            return Err(FeeOutOfRange);
        }
        json.key("fee").amount(fee);
    }
    Ok(())
}

fn put_input(
    json: &mut JsonText,
    input: &InputParts<'_>,
    is_coinbase: bool,
    prevout: Option<&CoinRef<'_>>,
    prefixes: &Prefixes,
    scratch: &mut Vec<u8>,
) {
    json.open();
    if is_coinbase {
        json.key("coinbase").hex(input.script_sig);
    } else {
        json.key("txid").hash(&input.prevout.txid.to_hash256());
        json.key("vout").number(u64::from(input.prevout.vout));
        json.key("scriptSig").open();
        json.key("asm").plain(|out| put_asm(out, input.script_sig, true));
        json.key("hex").hex(input.script_sig);
        json.close();
    }
    if let Some(witness) = input.witness.clone().filter(|witness| witness.len() > 0) {
        json.key("txinwitness").open_list();
        witness.for_each(|item| json.hex(item));
        json.close_list();
    }
    if let Some(coin) = prevout {
        json.key("prevout").open();
        json.key("generated").bool(coin.coinbase);
        json.key("height").number(u64::from(coin.height.to_u32()));
        json.key("value").amount(coin.value);
        put_script_of_coin(json, coin, prefixes, scratch);
        json.close();
    }
    json.key("sequence").number(u64::from(input.sequence));
    json.close();
}

/// Writes `scriptPubKey` of a coin; `scratch` is a reused buffer for its script.
pub fn put_script_of_coin(json: &mut JsonText, coin: &CoinRef<'_>, prefixes: &Prefixes, scratch: &mut Vec<u8>) {
    scratch.clear();
    coin.script.append_to(scratch);
    json.key("scriptPubKey").open();
    put_script_fields(json, scratch, prefixes);
    json.close();
}

/// Writes a parsed transaction, as [`put_transaction`] does.
///
/// # Errors
///
/// Those of [`put_transaction`].
pub fn put_parsed(
    json: &mut JsonText,
    tx: &Transaction<'_>,
    head: &TxHead<'_>,
    show: &Show<'_>,
) -> Result<(), FeeOutOfRange> {
    put_transaction(json, head, tx.inputs().map(Into::into), tx.outputs().map(Into::into), show)
}
