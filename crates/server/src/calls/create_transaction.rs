//! createrawtransaction: an unsigned transaction of given inputs and outputs. Source: Bitcoin Core b88bffe,
//! rpc/rawtransaction.cpp; rpc/rawtransaction_util.cpp, `ConstructTransaction`.

use crate::args::{self, Args, amount, int};
use crate::context::Context;
use crate::error::RpcError;
use crate::json::Json;
use crate::output::Prefixes;
use crate::registry::{Arg, Call, Kind, Run};
use primitives::encode::put_compact_size;
use primitives::{OutPoint, Txid, hex};
use script::opcode::{OP_RETURN, push_data};
use std::borrow::Cow;
use std::collections::HashSet;

/// This call.
pub(super) const CALLS: &[Call] = &[Call {
    category: "rawtransactions",
    name: "createrawtransaction",
    about: "Create a transaction spending the given inputs and creating new outputs.\n\
            Outputs can be addresses or data.\n\
            Returns hex-encoded raw transaction.\n\
            Note that the transaction's inputs are not signed, and\n\
            it is not stored in the wallet or transmitted to the network.",
    args: &[
        Arg::needed("inputs", Kind::Arr, "The inputs").shown_as("[{\"txid\":\"hex\",\"vout\":n,\"sequence\":n},...]"),
        Arg::needed(
            "outputs",
            Kind::Arr,
            "The outputs: objects with an address and its amount, or data in hexadecimal",
        )
        .unchecked()
        .shown_as("[{\"address\":amount,...},{\"data\":\"hex\"},...]"),
        Arg::optional("locktime", Kind::Num, "Raw locktime. Non-0 value also locktime-activates inputs"),
        Arg::optional("replaceable", Kind::Bool, "Marks this transaction as BIP125-replaceable."),
        Arg::optional("version", Kind::Num, "Transaction version"),
    ],
    run: Run::Now(create_raw_transaction),
}];

/// Default version. Source: Core's `DEFAULT_RAWTX_VERSION`.
const VERSION: u32 = 2;
/// Versions of standard transactions. Source: Core's `TX_MIN_STANDARD_VERSION`, `TX_MAX_STANDARD_VERSION`.
const VERSIONS: std::ops::RangeInclusive<u32> = 1..=3;
/// Sequence number of a final input.
const FINAL: u32 = u32::MAX;
/// Highest sequence number that signals replaceability. Source: BIP-0125.
const REPLACEABLE_MAX: u32 = FINAL - 2;

struct Input {
    prevout: OutPoint,
    sequence: u32,
}

/// Sequence number of inputs that were given without one.
fn default_sequence(is_replaceable: Option<bool>, lock_time: u32) -> u32 {
    match (is_replaceable, lock_time) {
        (None | Some(true), _) => REPLACEABLE_MAX,
        (_, 0) => FINAL,
        _ => FINAL - 1,
    }
}

/// Source: Core's `AddInputs`.
fn input(value: &Json, default_sequence: u32) -> Result<Input, RpcError> {
    if !matches!(value, Json::Obj(_)) {
        return Err(RpcError::of_type(value, "object"));
    }
    let field = |name: &str| value.field(name).unwrap_or(&Json::Null);
    let is_number = |value: &Json| matches!(value, Json::Int(_) | Json::Num(_));
    let txid = Txid::from_hash256(args::hash(field("txid"), "txid")?);
    if !is_number(field("vout")) {
        return Err(RpcError::parameter("Invalid parameter, missing vout key"));
    }
    let vout: i32 = int(field("vout"))?;
    let vout = u32::try_from(vout).map_err(|_| RpcError::parameter("Invalid parameter, vout cannot be negative"))?;
    let sequence = match field("sequence") {
        given if is_number(given) => {
            let out_of_range = || RpcError::parameter("Invalid parameter, sequence number is out of range");
            u32::try_from(int::<i64>(given)?).map_err(|_| out_of_range())?
        }
        _ => default_sequence,
    };
    Ok(Input { prevout: OutPoint { txid, vout }, sequence })
}

type Fields = Vec<(Cow<'static, str>, Json)>;

/// The outputs as one list of names and values. Source: Core's `NormalizeOutputs`.
fn normalized(outputs: &Json) -> Result<Fields, RpcError> {
    let list = match outputs {
        Json::Null => return Err(RpcError::parameter("Invalid parameter, output argument must be non-null")),
        Json::Obj(fields) => return Ok(fields.clone()),
        Json::Arr(list) => list,
        other => return Err(RpcError::of_type(other, "array")),
    };
    let mut all = Fields::new();
    for output in list {
        let Json::Obj(fields) = output else {
            return Err(RpcError::parameter("Invalid parameter, key-value pair not an object as expected"));
        };
        if fields.len() != 1 {
            return Err(RpcError::parameter("Invalid parameter, key-value pair must contain exactly one key"));
        }
        all.extend(fields.iter().cloned());
    }
    Ok(all)
}

/// Text of a value as it was written, without quotes. Source: Core's `UniValue::getValStr`.
fn written(value: &Json) -> String {
    match value {
        Json::Str(text) | Json::Num(text) => text.clone(),
        Json::Int(number) => number.to_string(),
        Json::Bool(true) => "1".to_owned(),
        _ => String::new(),
    }
}

struct Output {
    satoshis: i64,
    script: Vec<u8>,
}

/// Source: Core's `ParseOutputs`, which takes the first value of a name that is given twice.
fn outputs(fields: &Fields, prefixes: &Prefixes) -> Result<Vec<Output>, RpcError> {
    let mut seen: HashSet<Vec<u8>> = HashSet::new();
    let mut outputs = Vec::new();
    let mut has_data = false;
    for (name, value) in fields {
        if name == "data" {
            if std::mem::replace(&mut has_data, true) {
                return Err(RpcError::parameter("Invalid parameter, duplicate key: data"));
            }
            let data = args::bytes(&Json::from(written(value)), "Data")?;
            let mut script = vec![OP_RETURN];
            push_data(&mut script, &data);
            outputs.push(Output { satoshis: 0, script });
            continue;
        }
        let script = prefixes.decode(name);
        let first = fields.iter().find(|(other, _)| other == name).map_or(value, |(_, first)| first);
        let satoshis = amount(first)?;
        let script = script.map_err(|_| RpcError::not_found(format!("Invalid Bitcoin address: {name}")))?;
        if !seen.insert(script.clone()) {
            return Err(RpcError::parameter(format!("Invalid parameter, duplicated address: {name}")));
        }
        outputs.push(Output { satoshis, script });
    }
    Ok(outputs)
}

fn serialized(version: u32, inputs: &[Input], outputs: &[Output], lock_time: u32) -> Vec<u8> {
    let mut bytes = version.to_le_bytes().to_vec();
    put_compact_size(&mut bytes, inputs.len() as u64);
    for input in inputs {
        bytes.extend_from_slice(input.prevout.txid.as_bytes());
        bytes.extend_from_slice(&input.prevout.vout.to_le_bytes());
        // No scriptSig.
        bytes.push(0);
        bytes.extend_from_slice(&input.sequence.to_le_bytes());
    }
    put_compact_size(&mut bytes, outputs.len() as u64);
    for output in outputs {
        bytes.extend_from_slice(&output.satoshis.to_le_bytes());
        put_compact_size(&mut bytes, output.script.len() as u64);
        bytes.extend_from_slice(&output.script);
    }
    bytes.extend_from_slice(&lock_time.to_le_bytes());
    bytes
}

fn create_raw_transaction(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let prefixes = Prefixes::of(context.live()?.params().chain);
    let is_replaceable = args.is_given(3).then(|| args.bool(3)).transpose()?;
    let version = if args.is_given(4) { int::<u32>(args.get(4))? } else { VERSION };
    let lock_time = if args.is_given(2) { args.int64(2)? } else { 0 };
    let lock_time =
        u32::try_from(lock_time).map_err(|_| RpcError::parameter("Invalid parameter, locktime out of range"))?;
    if !VERSIONS.contains(&version) {
        let why = format!("Invalid parameter, version out of range({}~{})", VERSIONS.start(), VERSIONS.end());
        return Err(RpcError::parameter(why));
    }
    let sequence = default_sequence(is_replaceable, lock_time);
    let inputs = args.list(0)?.iter().map(|value| input(value, sequence)).collect::<Result<Vec<_>, _>>()?;
    let outputs = outputs(&normalized(args.get(1))?, &prefixes)?;
    let signals = inputs.iter().any(|input| input.sequence <= REPLACEABLE_MAX);
    if is_replaceable == Some(true) && !inputs.is_empty() && !signals {
        let why = "Invalid parameter combination: Sequence number(s) contradict replaceable option";
        return Err(RpcError::parameter(why));
    }
    Ok(hex::encode(&serialized(version, &inputs, &outputs, lock_time)).into())
}
