//! Transactions as values, with their serialization and signature hashes, written directly from the rules without
//! optimization.
//!
//! Absent on purpose: reuse of parts of a hash between inputs, except for a kind of block that needs a million hashes.

use kernels::sha256::{sha256, sha256d};
use primitives::encode::put_compact_size;

use crate::chain::keys::tagged;

/// Hash type of all signatures here.
pub(super) const SIGHASH_ALL: u8 = 1;

/// An input.
#[derive(Clone, Debug, Default)]
pub(super) struct Input {
    pub(super) txid: [u8; 32],
    pub(super) vout: u32,
    pub(super) script: Vec<u8>,
    pub(super) witness: Vec<Vec<u8>>,
}

/// An output.
#[derive(Clone, Debug, Default)]
pub(super) struct Output {
    pub(super) value: u64,
    pub(super) script: Vec<u8>,
}

/// A transaction of version 2 without a lock time.
#[derive(Clone, Debug, Default)]
pub(super) struct Tx {
    pub(super) inputs: Vec<Input>,
    pub(super) outputs: Vec<Output>,
}

const VERSION: [u8; 4] = 2u32.to_le_bytes();
const SEQUENCE: [u8; 4] = u32::MAX.to_le_bytes();
const LOCK_TIME: [u8; 4] = [0; 4];

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_compact_size(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_outpoint(out: &mut Vec<u8>, input: &Input) {
    out.extend_from_slice(&input.txid);
    out.extend_from_slice(&input.vout.to_le_bytes());
}

fn put_output(out: &mut Vec<u8>, output: &Output) {
    out.extend_from_slice(&output.value.to_le_bytes());
    put_bytes(out, &output.script);
}

impl Tx {
    /// The bytes without witness.
    pub(super) fn stripped(&self) -> Vec<u8> {
        let mut out = VERSION.to_vec();
        put_compact_size(&mut out, self.inputs.len() as u64);
        for input in &self.inputs {
            put_outpoint(&mut out, input);
            put_bytes(&mut out, &input.script);
            out.extend_from_slice(&SEQUENCE);
        }
        self.put_outputs(&mut out);
        out.extend_from_slice(&LOCK_TIME);
        out
    }

    fn put_outputs(&self, out: &mut Vec<u8>) {
        put_compact_size(out, self.outputs.len() as u64);
        self.outputs.iter().for_each(|output| put_output(out, output));
    }

    /// All bytes. Source: BIP-0144.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let stripped = self.stripped();
        if self.inputs.iter().all(|input| input.witness.is_empty()) {
            return stripped;
        }
        let end = stripped.len() - LOCK_TIME.len();
        let mut out = [&stripped[..4], &[0, 1], &stripped[4..end]].concat();
        for input in &self.inputs {
            put_compact_size(&mut out, input.witness.len() as u64);
            input.witness.iter().for_each(|item| put_bytes(&mut out, item));
        }
        out.extend_from_slice(&LOCK_TIME);
        out
    }

    pub(super) fn txid(&self) -> [u8; 32] {
        sha256d(&self.stripped())
    }

    /// The bytes to which a legacy signature with [`SIGHASH_ALL`] commits. Source: Bitcoin Core b88bffe,
    /// `SignatureHash`.
    pub(super) fn legacy_message(&self, index: usize, script_code: &[u8]) -> Vec<u8> {
        let mut out = VERSION.to_vec();
        put_compact_size(&mut out, self.inputs.len() as u64);
        for (at, input) in self.inputs.iter().enumerate() {
            put_outpoint(&mut out, input);
            put_bytes(&mut out, if at == index { script_code } else { &[] });
            out.extend_from_slice(&SEQUENCE);
        }
        self.put_outputs(&mut out);
        out.extend_from_slice(&LOCK_TIME);
        out.extend_from_slice(&u32::from(SIGHASH_ALL).to_le_bytes());
        out
    }

    /// The hash to which a signature of witness version 0 with [`SIGHASH_ALL`] commits. Source: BIP-0143.
    pub(super) fn witness_v0_hash(&self, index: usize, script_code: &[u8], value: u64) -> [u8; 32] {
        let mut prevouts = Vec::new();
        let mut outputs = Vec::new();
        self.inputs.iter().for_each(|input| put_outpoint(&mut prevouts, input));
        self.outputs.iter().for_each(|output| put_output(&mut outputs, output));
        let mut out = VERSION.to_vec();
        out.extend_from_slice(&sha256d(&prevouts));
        out.extend_from_slice(&sha256d(&SEQUENCE.repeat(self.inputs.len())));
        put_outpoint(&mut out, &self.inputs[index]);
        put_bytes(&mut out, script_code);
        out.extend_from_slice(&value.to_le_bytes());
        out.extend_from_slice(&SEQUENCE);
        out.extend_from_slice(&sha256d(&outputs));
        out.extend_from_slice(&LOCK_TIME);
        out.extend_from_slice(&u32::from(SIGHASH_ALL).to_le_bytes());
        sha256d(&out)
    }

    /// The hash to which a signature with SIGHASH_DEFAULT in a leaf commits; `spent` are the outputs of all inputs.
    /// Source: BIP-0341, BIP-0342.
    pub(super) fn tapscript_hash(&self, index: usize, spent: &[Output], leaf: &[u8; 32]) -> [u8; 32] {
        let mut prevouts = Vec::new();
        let mut amounts = Vec::new();
        let mut scripts = Vec::new();
        let mut outputs = Vec::new();
        self.inputs.iter().for_each(|input| put_outpoint(&mut prevouts, input));
        for output in spent {
            amounts.extend_from_slice(&output.value.to_le_bytes());
            put_bytes(&mut scripts, &output.script);
        }
        self.outputs.iter().for_each(|output| put_output(&mut outputs, output));
        // Epoch and hash type.
        let mut out = vec![0, 0];
        out.extend_from_slice(&VERSION);
        out.extend_from_slice(&LOCK_TIME);
        for part in [&prevouts, &amounts, &scripts, &SEQUENCE.repeat(self.inputs.len()), &outputs] {
            out.extend_from_slice(&sha256(part));
        }
        // A script, no annex.
        out.push(2);
        out.extend_from_slice(&(index as u32).to_le_bytes());
        out.extend_from_slice(leaf);
        out.push(0);
        out.extend_from_slice(&u32::MAX.to_le_bytes());
        let mut hasher = tagged("TapSighash");
        hasher.update(&out);
        hasher.finalize()
    }
}
