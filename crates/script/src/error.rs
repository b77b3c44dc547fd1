//! The reasons why a script fails: Core's errors, with Core's names and texts.

use std::fmt;

/// Declares every error once: variant, name in Core's `script_tests.json`, text, and meaning.
macro_rules! errors {
    ($($(#[$doc:meta])* $variant:ident, $name:literal, $text:literal;)*) => {
        /// Why a script fails. `Display` is the text that Core puts into `block-script-verify-flag-failed (..)`;
        /// [`ScriptError::name`] is the one of its vectors.
        ///
        /// Source: Bitcoin Core b88bffe, script/script_error.h, `ScriptErrorString`.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum ScriptError {
            $($(#[$doc])* $variant,)*
        }

        impl ScriptError {
            /// Every error.
            pub const ALL: &'static [ScriptError] = &[$(ScriptError::$variant),*];

            /// The name without `SCRIPT_ERR_`, as in Core's script_tests.json.
            pub const fn name(self) -> &'static str {
                match self { $(ScriptError::$variant => $name),* }
            }

            /// Core's text.
            pub const fn text(self) -> &'static str {
                match self { $(ScriptError::$variant => $text),* }
            }
        }
    };
}

errors! {
    /// Core's default error.
    UnknownError, "UNKNOWN_ERROR", "unknown error";
    /// The scripts ran, and the top of the stack is false or missing.
    EvalFalse, "EVAL_FALSE", "Script evaluated without error but finished with a false/empty top stack element";
    /// OP_RETURN was executed.
    OpReturn, "OP_RETURN", "OP_RETURN was encountered";
    /// A number is longer than allowed, or not minimal where it must be.
    Scriptnum, "SCRIPTNUM", "Script number overflowed or is non-minimally encoded";
    /// More than 10,000 bytes.
    ScriptSize, "SCRIPT_SIZE", "Script is too big";
    /// An element of more than 520 bytes.
    PushSize, "PUSH_SIZE", "Push value size limit exceeded";
    /// More than 201 operations.
    OpCount, "OP_COUNT", "Operation limit exceeded";
    /// More than 1,000 elements.
    StackSize, "STACK_SIZE", "Stack size limit exceeded";
    /// CHECKMULTISIG: signatures below zero or more than keys.
    SigCount, "SIG_COUNT", "Signature count negative or greater than pubkey count";
    /// CHECKMULTISIG: keys below zero or above 20.
    PubkeyCount, "PUBKEY_COUNT", "Pubkey count negative or limit exceeded";
    /// OP_VERIFY met a false value.
    Verify, "VERIFY", "Script failed an OP_VERIFY operation";
    /// OP_EQUALVERIFY met a difference.
    EqualVerify, "EQUALVERIFY", "Script failed an OP_EQUALVERIFY operation";
    /// OP_CHECKMULTISIGVERIFY failed.
    CheckMultisigVerify, "CHECKMULTISIGVERIFY", "Script failed an OP_CHECKMULTISIGVERIFY operation";
    /// OP_CHECKSIGVERIFY failed.
    CheckSigVerify, "CHECKSIGVERIFY", "Script failed an OP_CHECKSIGVERIFY operation";
    /// OP_NUMEQUALVERIFY met a difference.
    NumEqualVerify, "NUMEQUALVERIFY", "Script failed an OP_NUMEQUALVERIFY operation";
    /// An opcode that does not exist, is cut short, or must not be executed.
    BadOpcode, "BAD_OPCODE", "Opcode missing or not understood";
    /// An opcode that was disabled in 2010, executed or not.
    DisabledOpcode, "DISABLED_OPCODE", "Attempted to use a disabled opcode";
    /// Too few elements on the stack.
    InvalidStackOperation, "INVALID_STACK_OPERATION", "Operation not valid with the current stack size";
    /// Too few elements on the altstack.
    InvalidAltstackOperation, "INVALID_ALTSTACK_OPERATION", "Operation not valid with the current altstack size";
    /// IF, ELSE and ENDIF do not match.
    UnbalancedConditional, "UNBALANCED_CONDITIONAL", "Invalid OP_IF construction";
    /// CHECKLOCKTIMEVERIFY or CHECKSEQUENCEVERIFY below zero.
    NegativeLocktime, "NEGATIVE_LOCKTIME", "Negative locktime";
    /// The transaction does not satisfy CHECKLOCKTIMEVERIFY or CHECKSEQUENCEVERIFY.
    UnsatisfiedLocktime, "UNSATISFIED_LOCKTIME", "Locktime requirement not satisfied";
    /// Policy: an undefined hash type.
    SigHashtype, "SIG_HASHTYPE", "Signature hash type missing or not understood";
    /// The signature is not strict DER.
    SigDer, "SIG_DER", "Non-canonical DER signature";
    /// Policy: a push that could be shorter.
    MinimalData, "MINIMALDATA", "Data push larger than necessary";
    /// scriptSig has more than pushes.
    SigPushOnly, "SIG_PUSHONLY", "Only push operators allowed in signatures";
    /// Policy: S in the upper half.
    SigHighS, "SIG_HIGH_S", "Non-canonical signature: S value is unnecessarily high";
    /// CHECKMULTISIG's extra element is not empty.
    SigNullDummy, "SIG_NULLDUMMY", "Dummy CHECKMULTISIG argument must be zero";
    /// Policy: a key that is neither compressed nor uncompressed.
    PubkeyType, "PUBKEYTYPE", "Public key is neither compressed or uncompressed";
    /// The stack does not end with exactly one element.
    CleanStack, "CLEANSTACK", "Stack size must be exactly one after execution";
    /// Policy: IF's operand is neither empty nor 01.
    MinimalIf, "MINIMALIF", "OP_IF/NOTIF argument must be minimal";
    /// Policy: a failed check had a signature.
    SigNullFail, "NULLFAIL", "Signature must be zero for failed CHECK(MULTI)SIG operation";
    /// Policy: a NOP reserved for upgrades.
    DiscourageUpgradableNops, "DISCOURAGE_UPGRADABLE_NOPS", "NOPx reserved for soft-fork upgrades";
    /// Policy: a witness program reserved for upgrades.
    DiscourageUpgradableWitnessProgram, "DISCOURAGE_UPGRADABLE_WITNESS_PROGRAM",
        "Witness version reserved for soft-fork upgrades";
    /// Policy: a leaf version reserved for upgrades.
    DiscourageUpgradableTaprootVersion, "DISCOURAGE_UPGRADABLE_TAPROOT_VERSION",
        "Taproot version reserved for soft-fork upgrades";
    /// Policy: an OP_SUCCESS.
    DiscourageOpSuccess, "DISCOURAGE_OP_SUCCESS", "OP_SUCCESSx reserved for soft-fork upgrades";
    /// Policy: a key type reserved for upgrades.
    DiscourageUpgradablePubkeyType, "DISCOURAGE_UPGRADABLE_PUBKEYTYPE",
        "Public key version reserved for soft-fork upgrades";
    /// A version 0 program of neither 20 nor 32 bytes.
    WitnessProgramWrongLength, "WITNESS_PROGRAM_WRONG_LENGTH", "Witness program has incorrect length";
    /// No witness for a program that needs one.
    WitnessProgramWitnessEmpty, "WITNESS_PROGRAM_WITNESS_EMPTY", "Witness program was passed an empty witness";
    /// The witness does not match the program's hash.
    WitnessProgramMismatch, "WITNESS_PROGRAM_MISMATCH", "Witness program hash mismatch";
    /// A witness program's scriptSig is not empty.
    WitnessMalleated, "WITNESS_MALLEATED", "Witness requires empty scriptSig";
    /// The scriptSig of a wrapped program is not exactly one push of it.
    WitnessMalleatedP2sh, "WITNESS_MALLEATED_P2SH", "Witness requires only-redeemscript scriptSig";
    /// A witness for a script that is not a witness program.
    WitnessUnexpected, "WITNESS_UNEXPECTED", "Witness provided for non-witness script";
    /// Policy: an uncompressed key in a witness script.
    WitnessPubkeyType, "WITNESS_PUBKEYTYPE", "Using non-compressed keys in segwit";
    /// A Schnorr signature of neither 64 nor 65 bytes.
    SchnorrSigSize, "SCHNORR_SIG_SIZE", "Invalid Schnorr signature size";
    /// A hash type that taproot does not have, or SINGLE without its output.
    SchnorrSigHashtype, "SCHNORR_SIG_HASHTYPE", "Invalid Schnorr signature hash type";
    /// The Schnorr signature is invalid.
    SchnorrSig, "SCHNORR_SIG", "Invalid Schnorr signature";
    /// The size of a control block is not 33 bytes plus 0 to 128 times 32.
    TaprootWrongControlSize, "TAPROOT_WRONG_CONTROL_SIZE", "Invalid Taproot control block size";
    /// The signature checks exceed the weight that the witness allows.
    TapscriptValidationWeight, "TAPSCRIPT_VALIDATION_WEIGHT",
        "Too much signature validation relative to witness weight";
    /// CHECKMULTISIG in tapscript.
    TapscriptCheckMultisig, "TAPSCRIPT_CHECKMULTISIG", "OP_CHECKMULTISIG(VERIFY) is not available in tapscript";
    /// IF's operand in tapscript is neither empty nor 01.
    TapscriptMinimalIf, "TAPSCRIPT_MINIMALIF", "OP_IF/NOTIF argument must be minimal in tapscript";
    /// An empty key in tapscript.
    TapscriptEmptyPubkey, "TAPSCRIPT_EMPTY_PUBKEY", "Empty public key in tapscript";
    /// Policy: CODESEPARATOR before segwit.
    OpCodeSeparator, "OP_CODESEPARATOR", "Using OP_CODESEPARATOR in non-witness script";
    /// Policy: a signature found in its own script code.
    SigFindAndDelete, "SIG_FINDANDDELETE", "Signature is found in scriptCode";
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for ScriptError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn error_names_and_texts_are_unique() {
        let names: HashSet<&str> = ScriptError::ALL.iter().map(|e| e.name()).collect();
        let texts: HashSet<String> = ScriptError::ALL.iter().map(ToString::to_string).collect();
        // Core's enumeration has 54 values between OK and ERROR_COUNT.
        assert_eq!((names.len(), texts.len()), (ScriptError::ALL.len(), ScriptError::ALL.len()));
        assert_eq!(ScriptError::ALL.len(), 54);
    }
}
