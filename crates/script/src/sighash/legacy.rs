//! The message that a signature before segwit signs: the transaction itself, with other scripts blanked.
//!
//! A transaction of n inputs is hashed n times, so the work grows with n squared, in Core as here. Two optimizations
//! reduce it. The blanked inputs are prepared in one buffer, so that a hash is a few long runs without copies. The hash
//! of the inputs before the signed one continues from a state saved every [`STEP_INPUTS`] inputs, which halves the
//! work. Messages that are short enough are collected and hashed whole, many at a time ([`put_short`]). Longer ones are
//! kept without the part that they share ([`Long`]), and hashed many at a time too.

use crate::opcode::{Instructions, OP_CODESEPARATOR};
use crate::sighash::{Outputs, Precomputed, SIGHASH_ANYONECANPAY, Sink, Writer, with_hash_type};
use kernels::sha256::{Midstate, Pieces, Sha256};
use primitives::Transaction;
use std::ops::Range;
use std::sync::OnceLock;

/// From this number of inputs on, the blanked inputs are cached; with fewer inputs they are written each time, without
/// an allocation.
const KEPT_INPUTS_MIN: usize = 12;
/// Number of inputs between two saved states.
const STEP_INPUTS: usize = 32;
/// Number of blocks of SHA-256 between two saved states of the lanes.
const STEP_BLOCKS: usize = 20;
/// A blanked input: prevout, empty script, sequence.
const BLANK_BYTES: usize = 36 + 1 + 4;
/// An output that SINGLE blanks: amount -1, empty script.
const BLANK_OUTPUT: [u8; 9] = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0];
/// A run of blanked outputs.
const BLANK_OUTPUTS: [[u8; 9]; 64] = [BLANK_OUTPUT; 64];

/// A script code: the script after the last executed CODESEPARATOR, with the signature's own push already removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code<'c> {
    pub(crate) bytes: &'c [u8],
    /// Whether it has no CODESEPARATOR, and does not end inside an instruction.
    pub(crate) is_clean: bool,
}

impl<'c> Code<'c> {
    /// A script code whose contents have not been examined.
    pub(crate) fn new(bytes: &'c [u8]) -> Code<'c> {
        Code { bytes, is_clean: false }
    }
}

/// The hash that a signature before segwit signs.
///
/// `script_code` is the script after the last executed CODESEPARATOR, with the signature's own push already removed.
/// `hash_type` has 32 bits because they are hashed so; a signature holds its low eight.
///
/// # Panics
///
/// If the transaction has no input of that number.
///
/// Source: Bitcoin Core b88bffe, `SignatureHash` for `SigVersion::BASE`.
pub fn legacy(tx: &Precomputed<'_>, input: usize, script_code: &[u8], hash_type: u32) -> [u8; 32] {
    match state(tx, input, Code::new(script_code), hash_type) {
        Some(state) => with_hash_type(state, hash_type),
        None => SINGLE_WITHOUT_OUTPUT,
    }
}

/// The signed hash if SINGLE has no output of the input's number: the number 1, whatever the transaction.
pub(crate) const SINGLE_WITHOUT_OUTPUT: [u8; 32] = {
    let mut one = [0; 32];
    one[0] = 1;
    one
};

/// The hash up to the hash type; `None` when it is [`SINGLE_WITHOUT_OUTPUT`].
pub(crate) fn state(tx: &Precomputed<'_>, input: usize, script_code: Code<'_>, hash_type: u32) -> Option<Sha256> {
    let outputs = Outputs::of(hash_type);
    let transaction = tx.transaction();
    if outputs == Outputs::Single && input >= transaction.output_count() {
        assert!(input < transaction.input_count(), "input index out of range");
        return None;
    }
    let mut writer = if keeps_blanks(transaction, hash_type) {
        after_kept_inputs(tx, input, script_code, outputs)
    } else {
        let mut writer = Writer::new();
        put_inputs(&mut writer, transaction, input, script_code, is_alone(hash_type), outputs);
        writer
    };
    put_outputs(&mut writer, tx, input, outputs);
    writer.put(&transaction.lock_time().to_le_bytes());
    Some(writer.finish())
}

/// Appends the whole message, whose double hash is [`legacy`]. Returns `false`, and appends nothing, if it may have
/// more than `bytes_max` bytes or signs a single output.
pub(crate) fn put_short(
    out: &mut Vec<u8>,
    tx: &Precomputed<'_>,
    input: usize,
    script_code: Code<'_>,
    hash_type: u32,
    bytes_max: usize,
) -> bool {
    let outputs = Outputs::of(hash_type);
    let transaction = tx.transaction();
    if outputs == Outputs::Single || bytes_at_most(tx, script_code.bytes) > bytes_max {
        return false;
    }
    if keeps_blanks(transaction, hash_type) {
        let before = &blanks(tx, outputs).inputs()[..input * BLANK_BYTES];
        put_head(out, transaction);
        out.put(before);
        put_signed_and_later(out, tx, input, script_code, outputs);
    } else {
        put_inputs(out, transaction, input, script_code, is_alone(hash_type), outputs);
    }
    put_outputs(out, tx, input, outputs);
    out.put(&transaction.lock_time().to_le_bytes());
    out.put(&hash_type.to_le_bytes());
    true
}

/// A bound of a message's bytes, whatever its hash type except SINGLE.
fn bytes_at_most(tx: &Precomputed<'_>, script_code: &[u8]) -> usize {
    /// Version, three counts, an input without its script, lock time, hash type.
    const OTHER_BYTES_MAX: usize = 4 + 3 * 5 + BLANK_BYTES + 4 + 4;
    OTHER_BYTES_MAX + tx.transaction().input_count() * BLANK_BYTES + script_code.len() + tx.outputs.len()
}

/// Messages with more bytes are kept until the verdict.
pub(crate) const SHORT_BYTES_MAX: usize = 2048;

/// Whether the message may be a [`Long`] one: its transaction is large.
pub(crate) fn is_long(tx: &Precomputed<'_>, script_code: &[u8]) -> bool {
    bytes_at_most(tx, script_code) > SHORT_BYTES_MAX
}

/// A long message of a transaction consists of a state that includes its first blocks, its own bytes, bytes that all
/// messages of the transaction share, and its own bytes again. Two messages of an input are the same if their hash
/// types and own bytes are.
#[derive(Clone, Debug)]
pub(crate) struct Long {
    pub(crate) hash_type: u32,
    start: Midstate,
    /// Own bytes up to the signed input, in the collection's bytes.
    pub(crate) first: Range<usize>,
    /// Bytes of [`Blanks`].
    shared: Range<usize>,
    /// Own bytes after them: at least the hash type.
    pub(crate) last: Range<usize>,
}

impl Long {
    /// Appends a message's own bytes; `None` if its hash is [`SINGLE_WITHOUT_OUTPUT`].
    pub(crate) fn put(
        out: &mut Vec<u8>,
        tx: &Precomputed<'_>,
        input: usize,
        script_code: Code<'_>,
        hash_type: u32,
    ) -> Option<Long> {
        let outputs = Outputs::of(hash_type);
        let transaction = tx.transaction();
        if outputs == Outputs::Single && input >= transaction.output_count() {
            return None;
        }
        let begin = out.len();
        let is_alone = is_alone(hash_type);
        let blanks = blanks(tx, outputs);
        let mut start = Midstate::START;
        if is_alone {
            put_inputs(out, transaction, input, script_code, true, outputs);
        } else {
            let before = blanks.place_of(input);
            let (blocks, midstate) = blanks.midstate_before(before);
            start = midstate;
            out.put(&blanks.bytes[blocks * 64..before]);
            put_signed_input(out, transaction, input, script_code);
        }
        let middle = out.len();
        let after = if is_alone { blanks.inputs_end } else { blanks.place_of(input + 1) };
        let mut shared = after..blanks.inputs_end;
        if outputs == Outputs::All {
            shared.end = blanks.bytes.len();
        } else {
            put_outputs(out, tx, input, outputs);
            out.put(&transaction.lock_time().to_le_bytes());
        }
        out.put(&hash_type.to_le_bytes());
        Some(Long { hash_type, start, first: begin..middle, shared, last: middle..out.len() })
    }

    /// The state that includes the first blocks, and the rest; `bytes` are those of the collection.
    pub(crate) fn pieces<'b>(&self, tx: &'b Precomputed<'_>, bytes: &'b [u8]) -> (Midstate, Pieces<'b>) {
        let shared = &blanks(tx, Outputs::of(self.hash_type)).bytes[self.shared.clone()];
        (self.start, [&bytes[self.first.clone()], shared, &bytes[self.last.clone()]])
    }

    /// Bytes that are hashed.
    pub(crate) fn hashed_bytes(&self) -> usize {
        self.first.len() + self.shared.len() + self.last.len()
    }
}

fn is_alone(hash_type: u32) -> bool {
    hash_type & u32::from(SIGHASH_ANYONECANPAY) != 0
}

/// Whether the other inputs are signed, and enough of them to cache their blanked form.
fn keeps_blanks(tx: Transaction<'_>, hash_type: u32) -> bool {
    !is_alone(hash_type) && tx.input_count() >= KEPT_INPUTS_MIN
}

/// Version and number of inputs.
fn put_head(writer: &mut impl Sink, tx: Transaction<'_>) {
    writer.put(&tx.version().to_le_bytes());
    writer.put_compact_size(tx.input_count());
}

/// The signed input: prevout, script code without its CODESEPARATORs, sequence.
fn put_signed_input(writer: &mut impl Sink, tx: Transaction<'_>, input: usize, script_code: Code<'_>) {
    let input = tx.input(input);
    writer.put(input.prevout_bytes());
    put_script_code(writer, script_code);
    writer.put(&input.sequence().to_le_bytes());
}

/// The script code without its CODESEPARATORs.
///
/// If its last instruction is truncated, Core writes a length for all of it, and of that instruction only the part that
/// its reader has passed. Such a script fails anyway; its error depends on this.
///
/// Source: Bitcoin Core b88bffe, `CTransactionSignatureSerializer::SerializeScriptCode`.
fn put_script_code(writer: &mut impl Sink, Code { bytes: script_code, is_clean }: Code<'_>) {
    if is_clean {
        writer.put_with_length(script_code);
        return;
    }
    let is_separator = |opcode: u8| opcode == OP_CODESEPARATOR;
    let separators = Instructions::new(script_code).filter(|instruction| is_separator(instruction.opcode)).count();
    writer.put_compact_size(script_code.len() - separators);
    let mut instructions = Instructions::new(script_code);
    let mut start = 0;
    while let Some(instruction) = instructions.next() {
        if is_separator(instruction.opcode) {
            writer.put(&script_code[start..instructions.offset() - 1]);
            start = instructions.offset();
        }
    }
    writer.put(&script_code[start..instructions.offset()]);
}

/// Version, count, and all inputs, the others blanked; or only the signed one (`alone`).
fn put_inputs(
    writer: &mut impl Sink,
    tx: Transaction<'_>,
    signed: usize,
    script_code: Code<'_>,
    alone: bool,
    outputs: Outputs,
) {
    if alone {
        writer.put(&tx.version().to_le_bytes());
        writer.put_compact_size(1);
        put_signed_input(writer, tx, signed, script_code);
        return;
    }
    put_head(writer, tx);
    for (index, input) in tx.inputs().enumerate() {
        if index == signed {
            put_signed_input(writer, tx, signed, script_code);
            continue;
        }
        writer.put(input.prevout_bytes());
        writer.put(&[0]);
        let sequence = if outputs == Outputs::All { input.sequence() } else { 0 };
        writer.put(&sequence.to_le_bytes());
    }
}

/// All inputs blanked, built on first use.
fn blanks<'t>(tx: &'t Precomputed<'_>, outputs: Outputs) -> &'t Blanks {
    let with_sequences = outputs == Outputs::All;
    let kept = if with_sequences { &tx.blanks } else { &tx.blanks_without_sequences };
    kept.get_or_init(|| Box::new(Blanks::new(tx, outputs)))
}

/// [`put_inputs`] from the last saved state before the signed input.
fn after_kept_inputs(tx: &Precomputed<'_>, signed: usize, script_code: Code<'_>, outputs: Outputs) -> Writer {
    let blanks = blanks(tx, outputs);
    let step = signed / STEP_INPUTS;
    let mut writer = Writer::after(blanks.states(tx.transaction())[step].clone());
    writer.put(&blanks.inputs()[step * STEP_INPUTS * BLANK_BYTES..signed * BLANK_BYTES]);
    put_signed_and_later(&mut writer, tx, signed, script_code, outputs);
    writer
}

/// The signed input, and the blanked ones after it.
fn put_signed_and_later(
    writer: &mut impl Sink,
    tx: &Precomputed<'_>,
    signed: usize,
    script_code: Code<'_>,
    outputs: Outputs,
) {
    put_signed_input(writer, tx.transaction(), signed, script_code);
    writer.put(&blanks(tx, outputs).inputs()[(signed + 1) * BLANK_BYTES..]);
}

fn put_outputs(writer: &mut impl Sink, tx: &Precomputed<'_>, signed: usize, outputs: Outputs) {
    match outputs {
        Outputs::None => writer.put_compact_size(0),
        Outputs::All => {
            writer.put_compact_size(tx.transaction().output_count());
            writer.put(tx.outputs);
        }
        Outputs::Single => {
            writer.put_compact_size(signed + 1);
            let mut left = signed;
            while left > 0 {
                let run = left.min(BLANK_OUTPUTS.len());
                writer.put(BLANK_OUTPUTS[..run].as_flattened());
                left -= run;
            }
            writer.put(tx.transaction().output(signed).serialized());
        }
    }
}

/// The bytes that the messages of a transaction share, and saved states of the hash.
#[derive(Debug)]
pub(crate) struct Blanks {
    /// Version and number of inputs, all inputs with their scripts blanked; if all outputs are signed, also their
    /// number, the outputs, and the lock time.
    bytes: Vec<u8>,
    /// Start and end offsets of the inputs.
    inputs_start: usize,
    inputs_end: usize,
    /// Hash states after version, count, and `n * STEP_INPUTS` inputs; computed on first use.
    states: OnceLock<Vec<Sha256>>,
    /// Hash states after `n * STEP_BLOCKS` blocks of `bytes`, up to the last input; computed on first use.
    midstates: OnceLock<Vec<Midstate>>,
}

impl Blanks {
    fn new(tx: &Precomputed<'_>, outputs: Outputs) -> Blanks {
        let transaction = tx.transaction();
        let mut bytes = Vec::with_capacity(bytes_at_most(tx, &[]));
        put_head(&mut bytes, transaction);
        let inputs_start = bytes.len();
        for input in transaction.inputs() {
            bytes.extend_from_slice(input.prevout_bytes());
            bytes.push(0);
            let sequence = if outputs == Outputs::All { input.sequence() } else { 0 };
            bytes.extend_from_slice(&sequence.to_le_bytes());
        }
        let inputs_end = bytes.len();
        if outputs == Outputs::All {
            put_outputs(&mut bytes, tx, 0, Outputs::All);
            bytes.put(&transaction.lock_time().to_le_bytes());
        }
        Blanks { bytes, inputs_start, inputs_end, states: OnceLock::new(), midstates: OnceLock::new() }
    }

    /// The blanked inputs.
    fn inputs(&self) -> &[u8] {
        &self.bytes[self.inputs_start..self.inputs_end]
    }

    /// Start offset of an input.
    fn place_of(&self, input: usize) -> usize {
        self.inputs_start + input * BLANK_BYTES
    }

    fn states(&self, tx: Transaction<'_>) -> &[Sha256] {
        self.states.get_or_init(|| {
            let mut writer = Writer::new();
            put_head(&mut writer, tx);
            let mut states = vec![writer.finish()];
            // No hash continues after the last run.
            let (runs, _) = self.inputs().as_chunks::<{ STEP_INPUTS * BLANK_BYTES }>();
            for run in &runs[..(tx.input_count() - 1) / STEP_INPUTS] {
                let mut state = states[states.len() - 1].clone();
                state.update(run);
                states.push(state);
            }
            states
        })
    }

    /// The last saved state that includes no byte from `place` on, and its number of blocks.
    fn midstate_before(&self, place: usize) -> (usize, Midstate) {
        let midstates = self.midstates.get_or_init(|| {
            let mut state = Midstate::START;
            let mut midstates = vec![state];
            let (steps, _) = self.bytes[..self.inputs_end].as_chunks::<{ STEP_BLOCKS * 64 }>();
            for step in steps {
                state.update(step.as_chunks().0);
                midstates.push(state);
            }
            midstates
        });
        let step = place / (STEP_BLOCKS * 64);
        (step * STEP_BLOCKS, midstates[step])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sighash::SpentOutput;
    use kernels::sha256::sha256d;
    use primitives::encode::put_compact_size;
    use primitives::{Amount, Tables};

    /// A transaction of that many inputs and outputs, no two alike.
    fn transaction(inputs: usize, outputs: usize) -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0];
        put_compact_size(&mut bytes, inputs as u64);
        for n in 0..inputs {
            bytes.extend([n as u8; 32]);
            bytes.extend((n as u32).to_le_bytes());
            bytes.extend([2, 0x51, n as u8]);
            bytes.extend((n as u32 * 3 + 1).to_le_bytes());
        }
        put_compact_size(&mut bytes, outputs as u64);
        for n in 0..outputs {
            bytes.extend((n as u64 + 1).to_le_bytes());
            bytes.extend([3, 0x6a, 1, n as u8]);
        }
        bytes.extend([9, 0, 0, 0]);
        bytes
    }

    /// The definition, written out: a changed copy of the transaction.
    fn plain(tx: Transaction<'_>, signed: usize, code: &[u8], hash_type: u32) -> [u8; 32] {
        let (kind, alone) = (hash_type & 0x1f, hash_type & 0x80 != 0);
        if kind == 3 && signed >= tx.output_count() {
            return SINGLE_WITHOUT_OUTPUT;
        }
        let mut out = tx.version().to_le_bytes().to_vec();
        put_compact_size(&mut out, if alone { 1 } else { tx.input_count() as u64 });
        for (index, input) in tx.inputs().enumerate().filter(|(index, _)| !alone || *index == signed) {
            out.extend(input.prevout_bytes());
            let script = if index == signed { code } else { &[] };
            put_compact_size(&mut out, script.len() as u64);
            out.extend(script);
            let blank = index != signed && (kind == 2 || kind == 3);
            out.extend(if blank { 0 } else { input.sequence() }.to_le_bytes());
        }
        let outputs = match kind {
            2 => 0,
            3 => signed + 1,
            _ => tx.output_count(),
        };
        put_compact_size(&mut out, outputs as u64);
        for (index, output) in tx.outputs().enumerate().take(outputs) {
            out.extend(if kind == 3 && index != signed { &BLANK_OUTPUT } else { output.serialized() });
        }
        out.extend(tx.lock_time().to_le_bytes());
        out.extend(hash_type.to_le_bytes());
        sha256d(&out)
    }

    #[test]
    fn legacy_sighash_of_every_type_matches_plain_one() {
        let code = [0x76, 0xa9, 2, 0xab, 0xab, 0x88];
        for (inputs, outputs) in [(1, 1), (2, 1), (5, 7), (11, 3), (12, 14), (33, 40), (64, 2), (100, 70), (300, 260)] {
            let bytes = transaction(inputs, outputs);
            let mut tables = Tables::new();
            let tx = tables.parse_transaction(&bytes).unwrap();
            let spent = vec![SpentOutput { value: Amount(1), script: &[] }; inputs];
            let precomputed = Precomputed::new(tx, &spent);
            for input in [0, 1, inputs / 2, inputs - 1].into_iter().filter(|&input| input < inputs) {
                for hash_type in [0, 1, 2, 3, 4, 0x1f, 0x22, 0x43, 0x80, 0x81, 0x82, 0x83, 0xff, 0xffff_ff03] {
                    let want = plain(tx, input, &code, hash_type);
                    assert_eq!(legacy(&precomputed, input, &code, hash_type), want, "{inputs}, {input}, {hash_type:x}");
                    let mut message = vec![7; 3];
                    let is_put = put_short(&mut message, &precomputed, input, Code::new(&code), hash_type, 1 << 16);
                    assert_eq!(is_put, hash_type & 0x1f != 3, "all but SINGLE");
                    let put = if is_put { sha256d(&message[3..]) } else { want };
                    assert_eq!(put, want, "put, {inputs}, {input}, {hash_type:x}");
                    let mut own = vec![7; 3];
                    let long = Long::put(&mut own, &precomputed, input, Code::new(&code), hash_type);
                    assert_eq!(long.is_none(), want == SINGLE_WITHOUT_OUTPUT, "long, {inputs}, {input}, {hash_type:x}");
                    let Some(long) = long else { continue };
                    let (start, pieces) = long.pieces(&precomputed, &own);
                    let mut hash = [[0; 32]];
                    kernels::Kernels::AUTO.sha256d_after(&[start], &[pieces], &mut hash);
                    assert_eq!(hash, [want], "long, {inputs}, {input}, {hash_type:x}");
                }
            }
        }
    }

    #[test]
    fn legacy_sighash_skips_code_separators() {
        for (name, code, want) in [
            ("none", &[0x51, 0x52][..], &[2, 0x51, 0x52][..]),
            ("some", &[0xab, 0x51, 0xab, 0xab, 0x52, 0xab], &[2, 0x51, 0x52]),
            ("one in a push stays", &[1, 0xab, 0xab], &[2, 1, 0xab]),
            ("cut push: its opcode only", &[0x51, 5, 0xab], &[3, 0x51, 5]),
            ("cut push behind a separator", &[0xab, 0x4c, 9, 1], &[3, 0x4c, 9]),
            ("cut length", &[0x51, 0x4d, 1], &[3, 0x51, 0x4d]),
        ] {
            let mut writer = Writer::new();
            put_script_code(&mut writer, Code::new(code));
            assert_eq!(writer.finish().finalize(), kernels::sha256::sha256(want), "{name}");
        }
    }
}
