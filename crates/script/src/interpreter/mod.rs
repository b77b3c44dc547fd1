//! Runs one script on a stack.
//!
//! A [`Machine`] is one run; a [`Spend`] is the state shared by all runs of one input. Opcodes are grouped in files by
//! subject: control flow here, numbers and hashes in `numeric`, signature checks in `signatures`.
//!
//! Absent on purpose: which scripts an input runs, and in which order. See `verify`.

mod layout;
mod numeric;
mod signatures;

pub(crate) use numeric::hash160;
pub(crate) use signatures::{check_schnorr, ecdsa_check};

use crate::check::Checker;
use crate::error::ScriptError;
use crate::flags::Flags;
use crate::number;
use crate::opcode::*;
use crate::sighash::{Cache, Extension, Precomputed};
use crate::stack::{ELEMENT_BYTES_MAX, Element, STACK_SIZE_MAX, Stack};
use layout::Layout;

/// Maximum bytes of a script, before tapscript. Source: Bitcoin Core b88bffe, `MAX_SCRIPT_SIZE`.
pub(crate) const SCRIPT_BYTES_MAX: usize = 10_000;
/// Maximum number of operations of a script, before tapscript. Source: Bitcoin Core b88bffe, `MAX_OPS_PER_SCRIPT`.
const OPERATIONS_MAX: u32 = 201;
/// Lower locktimes are heights, others are times. Source: Bitcoin Core b88bffe, `LOCKTIME_THRESHOLD`.
const LOCKTIME_THRESHOLD: i64 = 500_000_000;
/// Disables a sequence number's relative lock. Source: BIP-0068.
const SEQUENCE_DISABLE: i64 = 1 << 31;
/// The bits of a sequence number that CHECKSEQUENCEVERIFY compares. Source: BIP-0112.
const SEQUENCE_MASK: i64 = SEQUENCE_TIME | 0xffff;
/// The bit of a sequence number that makes it a time.
const SEQUENCE_TIME: i64 = 1 << 22;

/// The set of rules for a script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Version {
    Base,
    WitnessV0,
    Tapscript,
}

/// State shared by all scripts of one input.
pub(crate) struct Spend<'e, 'a> {
    pub(crate) tx: &'e Precomputed<'a>,
    pub(crate) input: usize,
    pub(crate) flags: Flags,
    pub(crate) checker: &'e mut dyn Checker,
    pub(crate) cache: &'e mut Cache,
}

/// Tapscript's state in addition to the stack.
#[derive(Debug, Default)]
pub(crate) struct Tapscript {
    /// Annex and leaf, for the signed hash.
    pub(crate) extension: Extension,
    /// The remaining weight for signature checks.
    pub(crate) weight_left: i64,
}

/// The enclosing IFs of an instruction: their number, and the first that is false. No other property of them has an
/// effect.
///
/// Source: Bitcoin Core b88bffe, `ConditionStack`.
#[derive(Clone, Copy, Default)]
struct Conditions {
    depth: usize,
    first_false: Option<usize>,
}

impl Conditions {
    #[inline]
    fn all_true(self) -> bool {
        self.first_false.is_none()
    }

    fn enter(&mut self, value: bool) {
        if !value && self.all_true() {
            self.first_false = Some(self.depth);
        }
        self.depth += 1;
    }

    fn toggle(&mut self) -> Result<(), ScriptError> {
        let top = self.depth.checked_sub(1).ok_or(ScriptError::UnbalancedConditional)?;
        match self.first_false {
            None => self.first_false = Some(top),
            Some(first) if first == top => self.first_false = None,
            Some(_) => {} // IFs inside a false branch have no effect.
        }
        Ok(())
    }

    fn leave(&mut self) -> Result<(), ScriptError> {
        self.depth = self.depth.checked_sub(1).ok_or(ScriptError::UnbalancedConditional)?;
        if self.first_false == Some(self.depth) {
            self.first_false = None;
        }
        Ok(())
    }
}

/// One run of one script.
struct Machine<'m, 'e, 'a, 's> {
    spend: &'m mut Spend<'e, 'a>,
    tapscript: &'m mut Tapscript,
    version: Version,
    script: &'s [u8],
    /// Start of the script code for signatures, in bytes: after the last executed CODESEPARATOR.
    code_start: usize,
    /// The script's instructions, if they were needed; `Some(None)` if it ends inside one.
    layout: Option<Option<Layout>>,
    stack: &'m mut Stack<'s>,
    altstack: Stack<'s>,
    operations: u32,
    conditions: Conditions,
    /// Whether pushes and numbers must be minimal.
    minimal: bool,
}

/// Runs `script` on `stack`.
///
/// `tapscript` is used only with [`Version::Tapscript`].
///
/// Source: Bitcoin Core b88bffe, `EvalScript`.
pub(crate) fn run<'s>(
    spend: &mut Spend<'_, '_>,
    tapscript: &mut Tapscript,
    version: Version,
    script: &'s [u8],
    stack: &mut Stack<'s>,
) -> Result<(), ScriptError> {
    let minimal = spend.flags.has(Flags::MINIMALDATA);
    let mut machine = Machine {
        spend,
        tapscript,
        version,
        script,
        code_start: 0,
        layout: None,
        stack,
        altstack: Stack::default(),
        operations: 0,
        conditions: Conditions::default(),
        minimal,
    };
    machine.run()
}

impl Machine<'_, '_, '_, '_> {
    fn run(&mut self) -> Result<(), ScriptError> {
        if self.version != Version::Tapscript && self.script.len() > SCRIPT_BYTES_MAX {
            return Err(ScriptError::ScriptSize);
        }
        let mut instructions = Instructions::new(self.script);
        let mut position = 0u32;
        while let Some(Instruction { opcode, push }) = instructions.next() {
            let executed = self.conditions.all_true();
            if push.len() > ELEMENT_BYTES_MAX {
                return Err(ScriptError::PushSize);
            }
            self.admit(opcode)?;
            if opcode <= OP_PUSHDATA4 {
                if executed {
                    if self.minimal && !is_minimal_push(opcode, push) {
                        return Err(ScriptError::MinimalData);
                    }
                    self.stack.push(Element::Pushed(push));
                }
            } else if opcode == OP_CODESEPARATOR && executed {
                self.code_start = instructions.offset();
                if let Some(leaf) = &mut self.tapscript.extension.leaf {
                    leaf.code_separator = position;
                }
            } else if executed || (OP_IF..=OP_ENDIF).contains(&opcode) {
                self.execute(opcode, executed)?;
            }
            if self.stack.len() + self.altstack.len() > STACK_SIZE_MAX {
                return Err(ScriptError::StackSize);
            }
            position = position.wrapping_add(1);
        }
        if instructions.is_cut() {
            return Err(ScriptError::BadOpcode);
        }
        if self.conditions.depth != 0 {
            return Err(ScriptError::UnbalancedConditional);
        }
        Ok(())
    }

    /// The checks of an opcode that apply whether it is executed or not.
    #[inline]
    fn admit(&mut self, opcode: u8) -> Result<(), ScriptError> {
        if opcode <= OP_16 {
            return Ok(());
        }
        if self.version != Version::Tapscript {
            self.count(1)?;
        }
        match opcode {
            OP_CAT..=OP_RIGHT | OP_INVERT..=OP_XOR | OP_2MUL | OP_2DIV | OP_MUL..=OP_RSHIFT => {
                Err(ScriptError::DisabledOpcode)
            }
            OP_CODESEPARATOR if self.version == Version::Base && self.spend.flags.has(Flags::CONST_SCRIPTCODE) => {
                Err(ScriptError::OpCodeSeparator)
            }
            _ => Ok(()),
        }
    }

    /// Adds to the number of operations.
    #[inline]
    fn count(&mut self, operations: u32) -> Result<(), ScriptError> {
        self.operations += operations;
        if self.operations > OPERATIONS_MAX { Err(ScriptError::OpCount) } else { Ok(()) }
    }

    /// Runs an opcode above `OP_PUSHDATA4`; if it is not `executed`, it is one of IF to ENDIF.
    fn execute(&mut self, opcode: u8, executed: bool) -> Result<(), ScriptError> {
        match opcode {
            OP_1NEGATE | OP_1..=OP_16 => {
                self.stack.push(small_number(opcode));
                Ok(())
            }
            OP_IF | OP_NOTIF => self.enter(opcode, executed),
            OP_ELSE => self.conditions.toggle(),
            OP_ENDIF => self.conditions.leave(),
            OP_VERIFY => self.verify(ScriptError::Verify),
            OP_RETURN => Err(ScriptError::OpReturn),
            OP_NOP => Ok(()),
            OP_CHECKLOCKTIMEVERIFY => self.check_locktime(),
            OP_CHECKSEQUENCEVERIFY => self.check_sequence(),
            OP_NOP1 | OP_NOP4..=OP_NOP10 => {
                let discouraged = self.spend.flags.has(Flags::DISCOURAGE_UPGRADABLE_NOPS);
                if discouraged { Err(ScriptError::DiscourageUpgradableNops) } else { Ok(()) }
            }
            OP_TOALTSTACK..=OP_TUCK | OP_SIZE => self.arrange(opcode),
            OP_EQUAL | OP_EQUALVERIFY => self.equal(opcode),
            OP_1ADD | OP_1SUB | OP_NEGATE..=OP_0NOTEQUAL => self.unary(opcode),
            OP_ADD | OP_SUB | OP_BOOLAND..=OP_MAX => self.binary(opcode),
            OP_WITHIN => self.within(),
            OP_RIPEMD160..=OP_HASH256 => self.hash(opcode),
            OP_CHECKSIG | OP_CHECKSIGVERIFY => self.check_sig(opcode),
            OP_CHECKSIGADD => self.check_sig_add(),
            OP_CHECKMULTISIG | OP_CHECKMULTISIGVERIFY => self.check_multisig(opcode),
            _ => Err(ScriptError::BadOpcode),
        }
    }

    fn enter(&mut self, opcode: u8, executed: bool) -> Result<(), ScriptError> {
        if !executed {
            self.conditions.enter(false);
            return Ok(());
        }
        let condition = *self.stack.peek(0)?;
        let minimal = matches!(condition.bytes(), [] | [1]);
        if self.version == Version::Tapscript && !minimal {
            return Err(ScriptError::TapscriptMinimalIf);
        }
        if self.version == Version::WitnessV0 && self.spend.flags.has(Flags::MINIMALIF) && !minimal {
            return Err(ScriptError::MinimalIf);
        }
        self.stack.drop(1)?;
        self.conditions.enter(condition.is_true() == (opcode == OP_IF));
        Ok(())
    }

    /// Pops the top element, which must be true.
    #[inline]
    fn verify(&mut self, otherwise: ScriptError) -> Result<(), ScriptError> {
        if self.stack.pop()?.is_true() { Ok(()) } else { Err(otherwise) }
    }

    /// Source: BIP-0065; Bitcoin Core b88bffe, `CheckLockTime`.
    fn check_locktime(&mut self) -> Result<(), ScriptError> {
        if !self.spend.flags.has(Flags::CHECKLOCKTIMEVERIFY) {
            return Ok(());
        }
        let wanted = self.locktime_operand()?;
        let tx = self.spend.tx.transaction();
        let locktime = i64::from(tx.lock_time());
        let same_kind = (locktime < LOCKTIME_THRESHOLD) == (wanted < LOCKTIME_THRESHOLD);
        let is_final = tx.input(self.spend.input).sequence() == u32::MAX;
        if same_kind && wanted <= locktime && !is_final { Ok(()) } else { Err(ScriptError::UnsatisfiedLocktime) }
    }

    /// Source: BIP-0112; Bitcoin Core b88bffe, `CheckSequence`.
    fn check_sequence(&mut self) -> Result<(), ScriptError> {
        if !self.spend.flags.has(Flags::CHECKSEQUENCEVERIFY) {
            return Ok(());
        }
        let wanted = self.locktime_operand()?;
        if wanted & SEQUENCE_DISABLE != 0 {
            return Ok(());
        }
        let tx = self.spend.tx.transaction();
        let sequence = i64::from(tx.input(self.spend.input).sequence());
        if tx.version() < 2 || sequence & SEQUENCE_DISABLE != 0 {
            return Err(ScriptError::UnsatisfiedLocktime);
        }
        let sequence = sequence & SEQUENCE_MASK;
        let wanted = wanted & SEQUENCE_MASK;
        let same_kind = (sequence < SEQUENCE_TIME) == (wanted < SEQUENCE_TIME);
        if same_kind && wanted <= sequence { Ok(()) } else { Err(ScriptError::UnsatisfiedLocktime) }
    }

    /// The operand of the previous two opcodes, which stays on the stack.
    fn locktime_operand(&self) -> Result<i64, ScriptError> {
        let operand = number::decode(self.stack.peek(0)?.bytes(), self.minimal, number::LOCKTIME_BYTES_MAX)?;
        if operand < 0 { Err(ScriptError::NegativeLocktime) } else { Ok(operand) }
    }

    /// Opcodes that move, copy or drop elements.
    fn arrange(&mut self, opcode: u8) -> Result<(), ScriptError> {
        let stack = &mut *self.stack;
        match opcode {
            OP_TOALTSTACK => self.altstack.push(stack.pop()?),
            OP_FROMALTSTACK => {
                stack.push(self.altstack.pop().map_err(|_| ScriptError::InvalidAltstackOperation)?);
            }
            OP_2DROP => stack.drop(2)?,
            OP_2DUP => stack.copy(1, 2)?,
            OP_3DUP => stack.copy(2, 3)?,
            OP_2OVER => stack.copy(3, 2)?,
            OP_2ROT => stack.rotate(6, 2)?,
            OP_2SWAP => stack.rotate(4, 2)?,
            OP_IFDUP => {
                if stack.peek(0)?.is_true() {
                    stack.copy(0, 1)?;
                }
            }
            OP_DEPTH => stack.push(number::encode(stack.len() as i64)),
            OP_DROP => stack.drop(1)?,
            OP_DUP => stack.copy(0, 1)?,
            OP_NIP => {
                stack.remove(1)?;
            }
            OP_OVER => stack.copy(1, 1)?,
            OP_PICK | OP_ROLL => self.pick_or_roll(opcode)?,
            OP_ROT => stack.rotate(3, 1)?,
            OP_SWAP => stack.rotate(2, 1)?,
            OP_TUCK => stack.tuck()?,
            OP_SIZE => stack.push(number::encode(stack.peek(0)?.bytes().len() as i64)),
            _ => return Err(ScriptError::BadOpcode),
        }
        Ok(())
    }

    fn pick_or_roll(&mut self, opcode: u8) -> Result<(), ScriptError> {
        self.stack.need(2)?;
        let depth = self.operand(0)?;
        self.stack.drop(1)?;
        let depth = usize::try_from(depth).map_err(|_| ScriptError::InvalidStackOperation)?;
        let element = if opcode == OP_ROLL { self.stack.remove(depth)? } else { *self.stack.peek(depth)? };
        self.stack.push(element);
        Ok(())
    }

    fn equal(&mut self, opcode: u8) -> Result<(), ScriptError> {
        let equal = self.stack.peek(1)?.bytes() == self.stack.peek(0)?.bytes();
        self.stack.drop(2)?;
        self.conclude(equal, opcode == OP_EQUALVERIFY, ScriptError::EqualVerify)
    }

    /// The number `depth` places below the top, of the usual length.
    #[inline]
    fn operand(&self, depth: usize) -> Result<i64, ScriptError> {
        number::decode(self.stack.peek(depth)?.bytes(), self.minimal, number::OPERAND_BYTES_MAX)
    }

    /// The end of every opcode with a VERIFY form: pushes the result, or requires it to be true.
    #[inline]
    fn conclude(&mut self, result: bool, verify: bool, otherwise: ScriptError) -> Result<(), ScriptError> {
        match (verify, result) {
            (false, _) => self.stack.push(Element::boolean(result)),
            (true, true) => {}
            (true, false) => return Err(otherwise),
        }
        Ok(())
    }
}

/// The element that `OP_1NEGATE` and `OP_1` to `OP_16` push. It is static, like every other pushed element.
fn small_number<'s>(opcode: u8) -> Element<'s> {
    static SMALL: [u8; 17] = [0x81, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
    let index = usize::from(opcode.saturating_sub(OP_RESERVED));
    Element::Pushed(&SMALL[index..=index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_a_stack_of_booleans() {
        // Every sequence of six steps, against the stack itself.
        for steps in 0..4u32.pow(6) {
            let mut conditions = Conditions::default();
            let mut plain: Vec<bool> = Vec::new();
            for step in 0..6 {
                let (got, want) = match steps >> (2 * step) & 3 {
                    0 | 1 => {
                        let value = steps >> (2 * step) & 1 == 1;
                        conditions.enter(value);
                        plain.push(value);
                        (true, true)
                    }
                    2 => (conditions.toggle().is_ok(), plain.last_mut().map(|top| *top = !*top).is_some()),
                    _ => (conditions.leave().is_ok(), plain.pop().is_some()),
                };
                assert_eq!(got, want);
                assert_eq!(conditions.depth, plain.len());
                assert_eq!(conditions.all_true(), plain.iter().all(|&value| value), "{steps:o}");
            }
        }
    }

    #[test]
    fn small_number_opcodes_push_their_number() {
        assert_eq!(small_number(OP_1NEGATE).bytes(), [0x81]);
        assert_eq!(small_number(OP_1).bytes(), [1]);
        assert_eq!(small_number(OP_16).bytes(), [16]);
    }
}
