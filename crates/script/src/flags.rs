//! The verification flags of a script.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, Not};

/// A set of script verification flags, with Core's names (`SCRIPT_VERIFY_*`).
///
/// Consensus uses seven of them ([`Flags::CONSENSUS`]); the others are relay policy, included so that Core's vectors of
/// both kinds run unchanged. `consensus` decides the flags of a block.
///
/// Source: Bitcoin Core b88bffe, script/interpreter.h.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(u32);

/// Declares every flag once: its constant, its bit, and its name in Core's vectors.
macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident = $bit:literal, $text:literal;)*) => {
        impl Flags {
            $($(#[$doc])* pub const $name: Flags = Flags(1 << $bit);)*
            /// Every flag with its name in Core's vectors.
            pub const NAMES: &'static [(&'static str, Flags)] = &[$(($text, Flags::$name)),*];
        }
    };
}

flags! {
    /// Evaluate P2SH redeem scripts. Source: BIP-0016.
    P2SH = 0, "P2SH";
    /// Policy: signatures are strict DER with a defined hash type, keys are compressed or uncompressed.
    STRICTENC = 1, "STRICTENC";
    /// Signatures are strict DER. Source: BIP-0066.
    DERSIG = 2, "DERSIG";
    /// Policy: S is in the lower half.
    LOW_S = 3, "LOW_S";
    /// The extra element of CHECKMULTISIG is empty. Source: BIP-0147.
    NULLDUMMY = 4, "NULLDUMMY";
    /// Policy: scriptSig only pushes.
    SIGPUSHONLY = 5, "SIGPUSHONLY";
    /// Policy: pushes and numbers are as short as possible.
    MINIMALDATA = 6, "MINIMALDATA";
    /// Policy: NOP1 and NOP4 to NOP10 fail.
    DISCOURAGE_UPGRADABLE_NOPS = 7, "DISCOURAGE_UPGRADABLE_NOPS";
    /// Policy: one element is left on the stack. Needs P2SH and WITNESS.
    CLEANSTACK = 8, "CLEANSTACK";
    /// Enable CHECKLOCKTIMEVERIFY. Source: BIP-0065.
    CHECKLOCKTIMEVERIFY = 9, "CHECKLOCKTIMEVERIFY";
    /// Enable CHECKSEQUENCEVERIFY. Source: BIP-0112.
    CHECKSEQUENCEVERIFY = 10, "CHECKSEQUENCEVERIFY";
    /// Evaluate witness programs. Needs P2SH. Source: BIP-0141.
    WITNESS = 11, "WITNESS";
    /// Policy: witness programs of unknown version or size fail.
    DISCOURAGE_UPGRADABLE_WITNESS_PROGRAM = 12, "DISCOURAGE_UPGRADABLE_WITNESS_PROGRAM";
    /// Policy: the operand of IF and NOTIF in a version 0 witness script is empty or 01.
    MINIMALIF = 13, "MINIMALIF";
    /// Policy: a signature check that fails had an empty signature.
    NULLFAIL = 14, "NULLFAIL";
    /// Policy: keys in version 0 witness scripts are compressed.
    WITNESS_PUBKEYTYPE = 15, "WITNESS_PUBKEYTYPE";
    /// Policy: no CODESEPARATOR and no signature found in its own script code, before segwit.
    CONST_SCRIPTCODE = 16, "CONST_SCRIPTCODE";
    /// Evaluate taproot programs. Source: BIP-0341, BIP-0342.
    TAPROOT = 17, "TAPROOT";
    /// Policy: unknown taproot leaf versions fail.
    DISCOURAGE_UPGRADABLE_TAPROOT_VERSION = 18, "DISCOURAGE_UPGRADABLE_TAPROOT_VERSION";
    /// Policy: OP_SUCCESS fails.
    DISCOURAGE_OP_SUCCESS = 19, "DISCOURAGE_OP_SUCCESS";
    /// Policy: keys of unknown type in tapscript fail.
    DISCOURAGE_UPGRADABLE_PUBKEYTYPE = 20, "DISCOURAGE_UPGRADABLE_PUBKEYTYPE";
}

impl Flags {
    /// Only the original rules.
    pub const NONE: Flags = Flags(0);

    /// The flags that a block can have. Source: Bitcoin Core b88bffe, `GetBlockScriptFlags`.
    pub const CONSENSUS: Flags = Flags(
        Flags::P2SH.0
            | Flags::DERSIG.0
            | Flags::NULLDUMMY.0
            | Flags::CHECKLOCKTIMEVERIFY.0
            | Flags::CHECKSEQUENCEVERIFY.0
            | Flags::WITNESS.0
            | Flags::TAPROOT.0,
    );

    /// The flag with this name, without `SCRIPT_VERIFY_`.
    pub fn from_name(name: &str) -> Option<Flags> {
        Flags::NAMES.iter().find(|(text, _)| *text == name).map(|&(_, flag)| flag)
    }

    /// Whether all of `flags` are set.
    #[inline]
    pub const fn has(self, flags: Flags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Whether any of `flags` is set.
    #[inline]
    pub const fn has_any(self, flags: Flags) -> bool {
        self.0 & flags.0 != 0
    }

    /// Whether the set includes the flags that its flags need: WITNESS needs P2SH, CLEANSTACK needs both.
    ///
    /// Source: Bitcoin Core b88bffe, the assertions in `VerifyScript`.
    pub const fn is_consistent(self) -> bool {
        (!self.has(Flags::WITNESS) || self.has(Flags::P2SH))
            && (!self.has(Flags::CLEANSTACK) || self.has(Flags::WITNESS))
    }
}

impl BitOr for Flags {
    type Output = Flags;
    #[inline]
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    #[inline]
    fn bitor_assign(&mut self, other: Flags) {
        self.0 |= other.0;
    }
}

impl BitAnd for Flags {
    type Output = Flags;
    #[inline]
    fn bitand(self, other: Flags) -> Flags {
        Flags(self.0 & other.0)
    }
}

impl Not for Flags {
    type Output = Flags;
    /// Every known flag that is not in the set.
    #[inline]
    fn not(self) -> Flags {
        Flags(!self.0 & ((1 << Flags::NAMES.len()) - 1))
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = Flags::NAMES.iter().filter(|(_, flag)| self.has(*flag)).map(|(name, _)| *name).collect();
        if names.is_empty() { f.write_str("NONE") } else { f.write_str(&names.join(",")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_names_and_bits_agree() {
        for (at, &(name, flag)) in Flags::NAMES.iter().enumerate() {
            assert_eq!(flag.0, 1 << at, "{name}: bits in order, each once");
            assert_eq!(Flags::from_name(name), Some(flag));
            assert_eq!(format!("{flag:?}"), name);
        }
        assert_eq!(Flags::from_name("NONE"), None);
        assert_eq!(format!("{:?}", Flags::P2SH | Flags::WITNESS), "P2SH,WITNESS");
        assert_eq!(!Flags::NONE & Flags::P2SH, Flags::P2SH);
        assert!(Flags::CONSENSUS.has(Flags::TAPROOT) && !Flags::CONSENSUS.has_any(Flags::LOW_S | Flags::NULLFAIL));
    }

    #[test]
    fn flag_combinations_are_checked() {
        for (flags, want) in [
            (Flags::NONE, true),
            (Flags::WITNESS, false),
            (Flags::WITNESS | Flags::P2SH, true),
            (Flags::CLEANSTACK | Flags::P2SH, false),
            (Flags::CLEANSTACK | Flags::WITNESS, false),
            (Flags::CLEANSTACK | Flags::P2SH | Flags::WITNESS, true),
            (Flags::TAPROOT, true),
        ] {
            assert_eq!(flags.is_consistent(), want, "{flags:?}");
        }
    }
}
