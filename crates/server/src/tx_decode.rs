//! Transactions from bytes that may or may not be in the witness form.
//!
//! Source: Bitcoin Core b88bffe, core_io.cpp, `DecodeTx`.

use crate::output::Prefixes;
use crate::text::JsonText;
use crate::tx_json::{Details, InputParts, OutputParts, Show, TxHead, put_parsed, put_transaction};
use primitives::coin::SCRIPT_BYTES_MAX;
use primitives::encode::{DecodeError, Reader};
use primitives::{Amount, OutPoint, Tables, Txid, Wtxid};
use script::opcode::{Instructions, OP_NOP10};

/// Longest push of a script that can run.
const PUSH_BYTES_MAX: usize = 520;

/// Forms to try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forms {
    /// Both; if both fit, the one with sane scripts, otherwise the witness form.
    Both,
    /// The witness form only.
    Witness,
    /// The form without witness only.
    Plain,
}

/// A transaction in the form without witness, which may have no inputs.
#[derive(Clone, Debug)]
struct PlainTx<'a> {
    version: u32,
    inputs: Vec<InputParts<'a>>,
    outputs: Vec<OutputParts<'a>>,
    lock_time: u32,
}

/// Minimum bytes of an input, and of an output: they bound the length of lists.
const INPUT_BYTES_MIN: usize = 41;
const OUTPUT_BYTES_MIN: usize = 9;

impl<'a> PlainTx<'a> {
    fn read(bytes: &'a [u8]) -> Result<PlainTx<'a>, DecodeError> {
        let mut reader = Reader::new(bytes);
        let version = reader.u32()?;
        let count = reader.compact_size()?;
        let mut inputs = Vec::with_capacity(count.min(reader.remaining() / INPUT_BYTES_MIN));
        for _ in 0..count {
            let prevout = OutPoint::from_bytes(reader.array()?);
            let script_bytes = reader.compact_size()?;
            let script_sig = reader.take(script_bytes)?;
            inputs.push(InputParts { prevout, script_sig, sequence: reader.u32()?, witness: None });
        }
        let count = reader.compact_size()?;
        let mut outputs = Vec::with_capacity(count.min(reader.remaining() / OUTPUT_BYTES_MIN));
        for _ in 0..count {
            let value = Amount(reader.u64()?.cast_signed());
            let script_bytes = reader.compact_size()?;
            outputs.push(OutputParts { value, script: reader.take(script_bytes)? });
        }
        let lock_time = reader.u32()?;
        reader.finish()?;
        Ok(PlainTx { version, inputs, outputs, lock_time })
    }

    fn is_coinbase(&self) -> bool {
        matches!(&self.inputs[..], [only] if only.prevout.is_null())
    }
}

/// Only known opcodes, pushes that can run, and a valid length. Source: Core's `CheckTxScriptsSanity`, `HasValidOps`.
fn is_sane(script: &[u8]) -> bool {
    let mut instructions = Instructions::new(script);
    let known = instructions.by_ref().all(|one| one.opcode <= OP_NOP10 && one.push.len() <= PUSH_BYTES_MAX);
    known && !instructions.is_cut() && script.len() <= SCRIPT_BYTES_MAX
}

fn are_sane<'a>(
    is_coinbase: bool,
    inputs: impl Iterator<Item = InputParts<'a>>,
    outputs: impl Iterator<Item = OutputParts<'a>>,
) -> bool {
    let mut inputs = inputs.filter(|_| !is_coinbase);
    inputs.all(|input| is_sane(input.script_sig)) && outputs.map(|output| output.script).all(is_sane)
}

/// Whether every instruction of `script` is known to Core and short enough to run.
///
/// Source: Bitcoin Core b88bffe, `CScript::HasValidOps`.
pub fn has_valid_ops(script: &[u8]) -> bool {
    let mut instructions = Instructions::new(script);
    let known = instructions.by_ref().all(|one| one.opcode <= OP_NOP10 && one.push.len() <= PUSH_BYTES_MAX);
    known && !instructions.is_cut()
}

/// Writes the fields of a transaction; `None` if `bytes` are not a transaction in these forms.
pub fn put_decoded(json: &mut JsonText, bytes: &[u8], forms: Forms, prefixes: &Prefixes) -> Option<()> {
    let show = Show { prefixes, spent: None, details: Details::Plain };
    let mut tables = Tables::new();
    let parsed = match forms {
        Forms::Plain => None,
        _ => tables.parse_transaction(bytes).ok().filter(|tx| tx.bytes().len() == bytes.len()),
    };
    let inputs_outputs = parsed.map(|tx| (tx.inputs().map(Into::into), tx.outputs().map(Into::into)));
    let makes_sense = inputs_outputs
        .is_some_and(|(inputs, outputs)| are_sane(parsed.is_some_and(|tx| tx.is_coinbase()), inputs, outputs));
    let plain = (!makes_sense && forms != Forms::Witness).then(|| PlainTx::read(bytes).ok()).flatten();
    let plain = plain.filter(|plain| {
        parsed.is_none() || are_sane(plain.is_coinbase(), plain.inputs.iter().cloned(), plain.outputs.iter().copied())
    });
    let written = match (plain, parsed) {
        (Some(plain), _) => {
            let hash = kernels::sha256::sha256d(bytes);
            let head = TxHead {
                txid: Txid::from_bytes(hash),
                wtxid: Wtxid::from_bytes(hash),
                version: plain.version,
                lock_time: plain.lock_time,
                stripped_bytes: bytes.len(),
                bytes,
                is_coinbase: plain.is_coinbase(),
            };
            put_transaction(json, &head, plain.inputs.into_iter(), plain.outputs.into_iter(), &show)
        }
        (None, Some(tx)) => put_parsed(json, &tx, &TxHead::of(&tx), &show),
        (None, None) => return None,
    };
    written.expect("without spent coins there is no fee");
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use consensus::Chain;
    use primitives::hex;

    fn decoded(text: &str, forms: Forms) -> Option<String> {
        let mut json = JsonText::new();
        json.open();
        put_decoded(&mut json, &hex::decode(text).unwrap(), forms, &Prefixes::of(Chain::Main))?;
        json.close();
        Some(json.into_string())
    }

    /// A transaction without inputs is read without witness; one with marker and witness is not.
    #[test]
    fn the_form_is_found() {
        // Version 2, no inputs, one output of 1 satoshi to OP_TRUE: its bytes look like marker and flag.
        let empty = concat!("02000000", "00", "01", "0100000000000000", "01", "51", "00000000");
        let text = decoded(empty, Forms::Both).unwrap();
        assert!(text.contains(r#""vin":[],"vout":[{"value":0.00000001,"n":0,"scriptPubKey":{"asm":"1","#), "{text}");
        assert_eq!(decoded(empty, Forms::Plain).unwrap(), text);
        assert_eq!(decoded(empty, Forms::Witness), None);
        // BIP-0143's P2SH-P2WPKH example.
        let witness = concat!(
            "01000000000101db6b1b20aa0fd7b23880be2ecbd4a98130974cf4748fb66092ac4d3ceb1a5477010000001716001479091972186c449eb1",
            "ded22b78e40d009bdf0089feffffff02b8b4eb0b000000001976a914a457b684d7f0d539a46a45bbc043f35b59d0d96388ac0008af2f0000",
            "00001976a914fd270b1ee6abcaea97fea7ad0402e8bd8ad6d77c88ac02473044022047ac8e878352d3ebbde1c94ce3a10d057c24175747116f",
            "8288e5d794d12d482f0220217f36a485cae903c713331d877c1f64677e3622ad4010726870540656fe9dcb012103ad1d8e89212f0b92c74d23",
            "bb710c00662ad1470198ac48c43f7d6f93a2a2687392040000"
        );
        let text = decoded(witness, Forms::Both).unwrap();
        assert!(
            text.starts_with(r#"{"txid":"ef48d9d0f595052e0f8cdcf825f7a5e50b6a388a81f206f3f4846e5ecd7a0c23","hash":""#),
            "{text}"
        );
        assert!(text.contains(r#""version":1,"size":251,"vsize":170,"weight":677,"locktime":1170,"vin":[{"txid":"77541aeb3c4dac9260b68f74f44c973081a9d4cb2ebe8038b2d70faa201b6bdb","vout":1,"scriptSig":{"asm":"001479091972186c449eb1ded22b78e40d009bdf0089","hex":"16001479091972186c449eb1ded22b78e40d009bdf0089"},"txinwitness":["3044"#), "{text}");
        assert!(text.ends_with(r#""address":"1Q5YjKVj5yQWHBBsyEBamkfph3cA6G9KK8","type":"pubkeyhash"}}]}"#), "{text}");
        assert_eq!(decoded(witness, Forms::Plain), None);
        for cut in (0..witness.len()).step_by(2) {
            assert_eq!(decoded(&witness[..cut], Forms::Witness), None, "cut at {cut}");
        }
        assert_eq!(decoded(&format!("{witness}00"), Forms::Witness), None);
    }
}
