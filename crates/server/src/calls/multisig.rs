//! createmultisig: the address of m signatures of n keys. Source: Bitcoin Core b88bffe, rpc/output_script.cpp;
//! rpc/util.cpp, `AddAndGetMultisigDestination`, `HexToPubKey`.

use crate::args::{self, Args};
use crate::context::Context;
use crate::descriptor::{Known, infer, multi, pay_to_script_hash};
use crate::error::RpcError;
use crate::json::Json;
use crate::output::{Payee, Prefixes};
use crate::registry::{Arg, Call, Kind, Run};
use kernels::sha256::sha256;
use primitives::hex;
use secp256k1::PublicKey;

/// This call.
pub(super) const CALLS: &[Call] = &[Call {
    category: "util",
    name: "createmultisig",
    about: "Creates a multi-signature address with n signatures of m keys required.\n\
            It returns a json object with the address and redeemScript.",
    args: &[
        Arg::needed("nrequired", Kind::Num, "The number of required signatures out of the m keys."),
        Arg::needed("keys", Kind::Arr, "The hex-encoded public keys.").shown_as("[\"key\",...]"),
        Arg::optional(
            "address_type",
            Kind::Str,
            "The address type to use. Options are \"legacy\", \"p2sh-segwit\", and \"bech32\".",
        ),
    ],
    run: Run::Now(create_multisig),
}];

/// Maximum number of keys. Source: Core's `MAX_PUBKEYS_PER_MULTISIG`.
const KEYS_MAX: usize = 20;
/// Maximum size of the redeem script of a P2SH address, in bytes. Source: Core's `MAX_SCRIPT_ELEMENT_SIZE`.
const REDEEM_BYTES_MAX: usize = 520;

/// Form of an address. Source: Core's `OutputType`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Legacy,
    P2shSegwit,
    Bech32,
}

impl Form {
    fn read(text: &str) -> Result<Form, RpcError> {
        match text {
            "legacy" => Ok(Form::Legacy),
            "p2sh-segwit" => Ok(Form::P2shSegwit),
            "bech32" => Ok(Form::Bech32),
            "bech32m" => Err(RpcError::not_found("createmultisig cannot create bech32m multisig addresses")),
            other => Err(RpcError::not_found(format!("Unknown address type '{other}'"))),
        }
    }

    /// The output script that pays to `script`; adds the scripts and keys of its hashes to `known`.
    fn wrapped(self, script: &[u8], known: &mut Known) -> Vec<u8> {
        known.add_script(script);
        if self == Form::Legacy {
            return pay_to_script_hash(script);
        }
        let program = [&[0, 32], &sha256(script)[..]].concat();
        known.add_script(&program);
        if self == Form::Bech32 { program } else { pay_to_script_hash(&program) }
    }
}

fn public_key(text: &str) -> Result<Vec<u8>, RpcError> {
    let wrong = |why: &str| RpcError::not_found(format!("Pubkey \"{text}\" must {why}"));
    let bytes = hex::decode(text).filter(|_| !text.is_empty()).ok_or_else(|| wrong("be a hex string"))?;
    match bytes.len() {
        33 | 65 if PublicKey::from_slice(&bytes).is_ok() => Ok(bytes),
        33 | 65 => Err(wrong("be cryptographically valid.")),
        _ => Err(wrong("have a length of either 33 or 65 bytes")),
    }
}

/// The script that needs `required` signatures of these keys.
fn script_of(required: i32, keys: &[Vec<u8>]) -> Result<Vec<u8>, RpcError> {
    let count = keys.len();
    let Some(threshold) = u32::try_from(required).ok().filter(|&threshold| threshold > 0) else {
        return Err(RpcError::parameter("a multisignature address must require at least one key to redeem"));
    };
    if count < threshold as usize {
        return Err(RpcError::parameter(format!(
            "not enough keys supplied (got {count} keys, but need at least {threshold} to redeem)"
        )));
    }
    if count > KEYS_MAX {
        return Err(RpcError::parameter(format!(
            "Number of keys involved in the multisignature address creation > {KEYS_MAX}\nReduce the number"
        )));
    }
    Ok(multi(threshold, keys))
}

fn create_multisig(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let prefixes = Prefixes::of(context.live()?.params().chain);
    let required = args.int(0)?;
    let keys = args.list(1)?.iter().map(|key| public_key(args::text(key)?));
    let keys = keys.collect::<Result<Vec<_>, RpcError>>()?;
    let wanted = Form::read(args.maybe_text(2)?.unwrap_or("legacy"))?;
    let script = script_of(required, &keys)?;
    // Witness scripts accept only compressed keys.
    let form = if keys.iter().all(|key| key.len() == 33) { wanted } else { Form::Legacy };
    if form == Form::Legacy && script.len() > REDEEM_BYTES_MAX {
        let why = format!("redeemScript exceeds size limit: {} > {REDEEM_BYTES_MAX}", script.len());
        return Err(RpcError::parameter(why));
    }
    let mut known = Known::default();
    let output = form.wrapped(&script, &mut known);
    let warning = "Unable to make chosen address type, please ensure no uncompressed public keys are present.";
    Ok(Json::object()
        .put("address", prefixes.address(&Payee::of(&output)).unwrap_or_default())
        .put("redeemScript", hex::encode(&script))
        .put("descriptor", infer(&output, &known, &prefixes))
        .put_some("warnings", (form != wanted).then(|| vec![Json::from(warning)]))
        .end())
}
