//! The scripts of an input and their order: scriptSig, the spent script, P2SH, witness programs, taproot.
//!
//! [`verify`] takes a fast path for inputs of a common template, and runs the interpreter ([`verify_by_interpreter`])
//! for all others. Both give the same verdict.

use crate::check::Checker;
use crate::commitment::Commitment;
use crate::error::ScriptError;
use crate::flags::Flags;
use crate::interpreter::{Spend, Tapscript, Version, check_schnorr, run};
use crate::opcode::{
    self, Instructions, OP_CHECKSIG, OP_DUP, OP_EQUALVERIFY, OP_HASH160, is_op_success, is_push_only, push_prefix,
};
use crate::sighash::{Cache, Extension, Leaf, Precomputed, annex_hash, leaf_hash};
use crate::stack::{ELEMENT_BYTES_MAX, Element, STACK_SIZE_MAX, Stack};
use crate::templates;
use kernels::sha256::sha256;
use primitives::block::Witness;

/// The first byte of an annex. Source: BIP-0341.
const ANNEX_TAG: u8 = 0x50;
/// The bits of a control block's first byte that hold the leaf's version. Source: BIP-0341.
const LEAF_VERSION_MASK: u8 = 0xfe;
/// The leaf version of tapscript. Source: BIP-0342.
const LEAF_VERSION_TAPSCRIPT: u8 = 0xc0;
/// A control block without its path: version and internal key.
const CONTROL_BASE_BYTES: usize = 33;
/// Maximum number of nodes of its path.
const CONTROL_NODES_MAX: usize = 128;
/// Weight that signature checks may use beyond the size of the witness. Source: BIP-0342.
const WEIGHT_OFFSET: i64 = 50;

/// Memory that is reused for the next input. One for each thread.
#[derive(Debug, Default)]
pub struct Scratch {
    stack: Stack<'static>,
    witness_stack: Stack<'static>,
    cache: Cache,
}

impl Scratch {
    /// Empty scratch memory.
    pub fn new() -> Scratch {
        Scratch::default()
    }
}

/// Whether the scripts of input `input` accept it.
///
/// With a checker that only records, `Ok` means "if all recorded checks hold", and an error means nothing: see
/// [`crate::deferred`].
///
/// # Errors
///
/// Core's error for the same input under the same flags.
///
/// # Panics
///
/// If the transaction has no such input, or the flags are not consistent ([`Flags::is_consistent`]).
///
/// Source: Bitcoin Core b88bffe, `VerifyScript`.
pub fn verify(
    tx: &Precomputed<'_>,
    input: usize,
    flags: Flags,
    checker: &mut dyn Checker,
    scratch: &mut Scratch,
) -> Result<(), ScriptError> {
    assert!(flags.is_consistent(), "{flags:?}: WITNESS needs P2SH, CLEANSTACK needs both");
    if templates::accepts(tx, input, flags, checker) {
        return Ok(());
    }
    verify_by_interpreter(tx, input, flags, checker, scratch)
}

/// [`verify`] without the fast path: the reference implementation that the templates are tested against.
#[doc(hidden)]
pub fn verify_by_interpreter(
    tx: &Precomputed<'_>,
    input: usize,
    flags: Flags,
    checker: &mut dyn Checker,
    scratch: &mut Scratch,
) -> Result<(), ScriptError> {
    scratch.cache.clear();
    let mut stack = Stack::recycled(std::mem::take(&mut scratch.stack));
    let mut spend = Spend { tx, input, flags, checker, cache: &mut scratch.cache };
    let verdict = run_all(&mut spend, &mut stack, &mut scratch.witness_stack);
    scratch.stack = Stack::recycled(stack);
    verdict
}

/// As in Core, one element is left on the stack if a witness program accepted the input.
fn run_all<'a>(
    spend: &mut Spend<'_, 'a>,
    stack: &mut Stack<'a>,
    witness_stack: &mut Stack<'static>,
) -> Result<(), ScriptError> {
    let flags = spend.flags;
    let input = spend.tx.transaction().input(spend.input);
    let script_sig = input.script_sig();
    let spent = spend.tx.spent()[spend.input].script;
    if flags.has(Flags::SIGPUSHONLY) && !is_push_only(script_sig) {
        return Err(ScriptError::SigPushOnly);
    }
    let mut none = Tapscript::default();
    run(spend, &mut none, Version::Base, script_sig, stack)?;
    let redeem = stack.peek(0).copied();
    run(spend, &mut none, Version::Base, spent, stack)?;
    want_true(stack)?;
    let mut left = stack.len();
    let mut program = flags.has(Flags::WITNESS).then(|| opcode::witness_program(spent)).flatten();
    if program.is_some() && !script_sig.is_empty() {
        return Err(ScriptError::WitnessMalleated);
    }
    let is_p2sh = flags.has(Flags::P2SH) && opcode::p2sh(spent).is_some();
    if is_p2sh {
        if !is_push_only(script_sig) {
            return Err(ScriptError::SigPushOnly);
        }
        // The spent script has popped one element and pushed one, so the elements below are those that scriptSig left.
        stack.drop(1)?;
        let Element::Pushed(redeem) = redeem.expect("HASH160 has found an element") else {
            unreachable!("a push-only script computes nothing")
        };
        run(spend, &mut none, Version::Base, redeem, stack)?;
        want_true(stack)?;
        left = stack.len();
        program = flags.has(Flags::WITNESS).then(|| opcode::witness_program(redeem)).flatten();
        if program.is_some() && !is_one_push(script_sig, redeem) {
            return Err(ScriptError::WitnessMalleatedP2sh);
        }
    }
    if let Some((version, program)) = program {
        let mut witness = Stack::recycled(std::mem::take(witness_stack));
        let verdict = run_program(spend, version, program, is_p2sh, &mut witness);
        *witness_stack = Stack::recycled(witness);
        verdict?;
        left = 1;
    }
    if flags.has(Flags::CLEANSTACK) && left != 1 {
        return Err(ScriptError::CleanStack);
    }
    if flags.has(Flags::WITNESS) && program.is_none() && input.witness().len() != 0 {
        return Err(ScriptError::WitnessUnexpected);
    }
    Ok(())
}

/// The end of a script before segwit: the top element must exist and be true.
fn want_true(stack: &Stack<'_>) -> Result<(), ScriptError> {
    if stack.peek(0).is_ok_and(Element::is_true) { Ok(()) } else { Err(ScriptError::EvalFalse) }
}

/// Whether a script is exactly the shortest push of `data`.
fn is_one_push(script: &[u8], data: &[u8]) -> bool {
    let (prefix, used) = push_prefix(data.len());
    script.strip_prefix(&prefix[..used]) == Some(data)
}

/// Source: Bitcoin Core b88bffe, `VerifyWitnessProgram`.
fn run_program<'a>(
    spend: &mut Spend<'_, 'a>,
    version: u8,
    program: &'a [u8],
    is_p2sh: bool,
    stack: &mut Stack<'a>,
) -> Result<(), ScriptError> {
    let witness = spend.tx.transaction().input(spend.input).witness();
    if version == 0 {
        return run_version_0(spend, program, witness, stack);
    }
    if version == 1 && !is_p2sh {
        if let Ok(key) = program.try_into() {
            let on = spend.flags.has(Flags::TAPROOT);
            return if on { run_taproot(spend, key, witness, stack) } else { Ok(()) };
        }
        if program == [0x4e, 0x73] {
            return Ok(()); // Pay to anchor.
        }
    }
    if spend.flags.has(Flags::DISCOURAGE_UPGRADABLE_WITNESS_PROGRAM) {
        return Err(ScriptError::DiscourageUpgradableWitnessProgram);
    }
    Ok(())
}

/// Source: BIP-0141.
fn run_version_0<'a>(
    spend: &mut Spend<'_, 'a>,
    program: &[u8],
    witness: Witness<'a>,
    stack: &mut Stack<'a>,
) -> Result<(), ScriptError> {
    match program.len() {
        32 => {
            stack.extend(witness);
            let Ok(Element::Pushed(script)) = stack.pop() else {
                return Err(ScriptError::WitnessProgramWitnessEmpty);
            };
            if sha256(script) != program {
                return Err(ScriptError::WitnessProgramMismatch);
            }
            run_witness_script(spend, &mut Tapscript::default(), Version::WitnessV0, script, stack)
        }
        20 if witness.len() == 2 => {
            let mut implied = [0; 25];
            implied[..3].copy_from_slice(&[OP_DUP, OP_HASH160, 20]);
            implied[3..23].copy_from_slice(program);
            implied[23..].copy_from_slice(&[OP_EQUALVERIFY, OP_CHECKSIG]);
            // This script, and the elements that it pushes, live only in this function.
            let mut short = Stack::recycled(std::mem::take(stack));
            short.extend(witness);
            let verdict =
                run_witness_script(spend, &mut Tapscript::default(), Version::WitnessV0, &implied, &mut short);
            *stack = Stack::recycled(short);
            verdict
        }
        20 => Err(ScriptError::WitnessProgramMismatch),
        _ => Err(ScriptError::WitnessProgramWrongLength),
    }
}

/// Source: BIP-0341.
fn run_taproot<'a>(
    spend: &mut Spend<'_, 'a>,
    output: &[u8; 32],
    witness: Witness<'a>,
    stack: &mut Stack<'a>,
) -> Result<(), ScriptError> {
    stack.extend(witness);
    let mut tapscript = Tapscript::default();
    let Ok(&Element::Pushed(last)) = stack.peek(0) else { return Err(ScriptError::WitnessProgramWitnessEmpty) };
    if stack.len() >= 2 && last.first() == Some(&ANNEX_TAG) {
        tapscript.extension = Extension { annex: Some(annex_hash(last)), ..Extension::default() };
        stack.drop(1)?;
    }
    if let [Element::Pushed(signature)] = *stack.elements() {
        return check_schnorr(spend, &mut tapscript, signature, output);
    }
    let (Element::Pushed(control), Element::Pushed(script)) = (stack.pop()?, stack.pop()?) else {
        unreachable!("a witness computes nothing")
    };
    let Some((&[first], internal, path)) = split_control(control) else {
        return Err(ScriptError::TaprootWrongControlSize);
    };
    let leaf_version = first & LEAF_VERSION_MASK;
    let leaf = leaf_hash(leaf_version, script);
    if !spend.checker.commits(&Commitment { output, odd: first & 1 != 0, internal, leaf, path }) {
        return Err(ScriptError::WitnessProgramMismatch);
    }
    if leaf_version == LEAF_VERSION_TAPSCRIPT {
        tapscript.extension.leaf = Some(Leaf { hash: leaf, code_separator: u32::MAX });
        let witness_bytes = spend.tx.transaction().input(spend.input).witness_bytes().len();
        tapscript.weight_left = witness_bytes as i64 + WEIGHT_OFFSET;
        return run_witness_script(spend, &mut tapscript, Version::Tapscript, script, stack);
    }
    if spend.flags.has(Flags::DISCOURAGE_UPGRADABLE_TAPROOT_VERSION) {
        return Err(ScriptError::DiscourageUpgradableTaprootVersion);
    }
    Ok(())
}

/// A control block: first byte, internal key, and the nodes of the path.
type Control<'c> = (&'c [u8; 1], &'c [u8; 32], &'c [[u8; 32]]);

/// `None` when the control block has a wrong size.
fn split_control(control: &[u8]) -> Option<Control<'_>> {
    let (first, rest) = control.split_first_chunk()?;
    let (internal, path) = rest.split_first_chunk()?;
    let (nodes, rest) = path.as_chunks();
    const { assert!(CONTROL_BASE_BYTES == 1 + 32) };
    (rest.is_empty() && nodes.len() <= CONTROL_NODES_MAX).then_some((first, internal, nodes))
}

/// Source: Bitcoin Core b88bffe, `ExecuteWitnessScript`.
fn run_witness_script<'s>(
    spend: &mut Spend<'_, '_>,
    tapscript: &mut Tapscript,
    version: Version,
    script: &'s [u8],
    stack: &mut Stack<'s>,
) -> Result<(), ScriptError> {
    if version == Version::Tapscript {
        let mut instructions = Instructions::new(script);
        if instructions.any(|instruction| is_op_success(instruction.opcode)) {
            let discouraged = spend.flags.has(Flags::DISCOURAGE_OP_SUCCESS);
            return if discouraged { Err(ScriptError::DiscourageOpSuccess) } else { Ok(()) };
        }
        if instructions.is_cut() {
            return Err(ScriptError::BadOpcode);
        }
        if stack.len() > STACK_SIZE_MAX {
            return Err(ScriptError::StackSize);
        }
    }
    if stack.elements().iter().any(|element| element.bytes().len() > ELEMENT_BYTES_MAX) {
        return Err(ScriptError::PushSize);
    }
    run(spend, tapscript, version, script, stack)?;
    match stack.elements() {
        [only] if only.is_true() => Ok(()),
        [_] => Err(ScriptError::EvalFalse),
        _ => Err(ScriptError::CleanStack),
    }
}
