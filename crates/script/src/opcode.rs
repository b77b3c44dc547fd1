//! A script as a list of instructions, and the script forms that consensus rules recognize.
//!
//! Absent on purpose: the effect of an opcode. See `interpreter`.

/// Opcodes by Core's names. Source: Bitcoin Core b88bffe, `enum opcodetype`.
macro_rules! opcodes {
    ($($name:ident = $value:literal),* $(,)?) => {
        $(#[doc = concat!("`", stringify!($name), "`")] pub const $name: u8 = $value;)*
        /// Every named opcode.
        pub const NAMES: &[(&str, u8)] = &[$((stringify!($name), $value)),*];
    };
}

opcodes! {
    OP_0 = 0x00, OP_PUSHDATA1 = 0x4c, OP_PUSHDATA2 = 0x4d, OP_PUSHDATA4 = 0x4e, OP_1NEGATE = 0x4f,
    OP_RESERVED = 0x50, OP_1 = 0x51, OP_16 = 0x60,
    OP_NOP = 0x61, OP_VER = 0x62, OP_IF = 0x63, OP_NOTIF = 0x64, OP_VERIF = 0x65, OP_VERNOTIF = 0x66, OP_ELSE = 0x67,
    OP_ENDIF = 0x68, OP_VERIFY = 0x69, OP_RETURN = 0x6a,
    OP_TOALTSTACK = 0x6b, OP_FROMALTSTACK = 0x6c, OP_2DROP = 0x6d, OP_2DUP = 0x6e, OP_3DUP = 0x6f, OP_2OVER = 0x70,
    OP_2ROT = 0x71, OP_2SWAP = 0x72, OP_IFDUP = 0x73, OP_DEPTH = 0x74, OP_DROP = 0x75, OP_DUP = 0x76, OP_NIP = 0x77,
    OP_OVER = 0x78, OP_PICK = 0x79, OP_ROLL = 0x7a, OP_ROT = 0x7b, OP_SWAP = 0x7c, OP_TUCK = 0x7d,
    OP_CAT = 0x7e, OP_SUBSTR = 0x7f, OP_LEFT = 0x80, OP_RIGHT = 0x81, OP_SIZE = 0x82, OP_INVERT = 0x83, OP_AND = 0x84,
    OP_OR = 0x85, OP_XOR = 0x86, OP_EQUAL = 0x87, OP_EQUALVERIFY = 0x88, OP_RESERVED1 = 0x89, OP_RESERVED2 = 0x8a,
    OP_1ADD = 0x8b, OP_1SUB = 0x8c, OP_2MUL = 0x8d, OP_2DIV = 0x8e, OP_NEGATE = 0x8f, OP_ABS = 0x90, OP_NOT = 0x91,
    OP_0NOTEQUAL = 0x92, OP_ADD = 0x93, OP_SUB = 0x94, OP_MUL = 0x95, OP_DIV = 0x96, OP_MOD = 0x97, OP_LSHIFT = 0x98,
    OP_RSHIFT = 0x99, OP_BOOLAND = 0x9a, OP_BOOLOR = 0x9b, OP_NUMEQUAL = 0x9c, OP_NUMEQUALVERIFY = 0x9d,
    OP_NUMNOTEQUAL = 0x9e, OP_LESSTHAN = 0x9f, OP_GREATERTHAN = 0xa0, OP_LESSTHANOREQUAL = 0xa1,
    OP_GREATERTHANOREQUAL = 0xa2, OP_MIN = 0xa3, OP_MAX = 0xa4, OP_WITHIN = 0xa5,
    OP_RIPEMD160 = 0xa6, OP_SHA1 = 0xa7, OP_SHA256 = 0xa8, OP_HASH160 = 0xa9, OP_HASH256 = 0xaa,
    OP_CODESEPARATOR = 0xab, OP_CHECKSIG = 0xac, OP_CHECKSIGVERIFY = 0xad, OP_CHECKMULTISIG = 0xae,
    OP_CHECKMULTISIGVERIFY = 0xaf,
    OP_NOP1 = 0xb0, OP_CHECKLOCKTIMEVERIFY = 0xb1, OP_CHECKSEQUENCEVERIFY = 0xb2, OP_NOP4 = 0xb3, OP_NOP5 = 0xb4,
    OP_NOP6 = 0xb5, OP_NOP7 = 0xb6, OP_NOP8 = 0xb7, OP_NOP9 = 0xb8, OP_NOP10 = 0xb9,
    OP_CHECKSIGADD = 0xba, OP_INVALIDOPCODE = 0xff,
}

/// One instruction: the opcode, and its pushed bytes (empty for opcodes above `OP_PUSHDATA4`, and for `OP_0`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instruction<'a> {
    /// The opcode.
    pub opcode: u8,
    /// The pushed bytes in the script.
    pub push: &'a [u8],
}

/// The instructions of a script in sequence.
///
/// The iterator ends at the end of the script, and at the first truncated instruction; [`Instructions::is_cut`]
/// distinguishes the two. After a truncated instruction the offset is the one at which Core's reader stops: after the
/// opcode, and after the length if that is complete.
///
/// Source: Bitcoin Core b88bffe, `GetScriptOp`.
#[derive(Clone, Debug)]
pub struct Instructions<'a> {
    script: &'a [u8],
    offset: usize,
    cut: bool,
}

impl<'a> Instructions<'a> {
    /// Starts at the first byte.
    #[inline]
    pub fn new(script: &'a [u8]) -> Instructions<'a> {
        Instructions::at(script, 0)
    }

    /// Starts at `offset`, in bytes.
    #[inline]
    pub fn at(script: &'a [u8], offset: usize) -> Instructions<'a> {
        Instructions { script, offset, cut: false }
    }

    /// Offset of the next instruction, in bytes.
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Whether the script ended inside an instruction.
    #[inline]
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// The number of bytes that `opcode` pushes, and their offset. `None` if the length itself is truncated.
    #[inline]
    fn operand(&self, opcode: u8, at: usize) -> Option<(usize, usize)> {
        let rest = self.script.get(at..)?;
        Some(match opcode {
            OP_PUSHDATA1 => (usize::from(*rest.first()?), at + 1),
            OP_PUSHDATA2 => (usize::from(u16::from_le_bytes(*rest.first_chunk()?)), at + 2),
            OP_PUSHDATA4 => (u32::from_le_bytes(*rest.first_chunk()?) as usize, at + 4),
            direct => (usize::from(direct), at),
        })
    }

    /// Reads the bytes that `opcode` pushes; the offset stays at a truncated instruction.
    #[inline]
    fn push(&mut self, opcode: u8) -> Option<&'a [u8]> {
        let (bytes, start) = self.operand(opcode, self.offset)?;
        self.offset = start;
        let push = self.script.get(start..)?.get(..bytes)?;
        self.offset += bytes;
        Some(push)
    }
}

impl<'a> Iterator for Instructions<'a> {
    type Item = Instruction<'a>;

    #[inline]
    fn next(&mut self) -> Option<Instruction<'a>> {
        if self.cut {
            return None;
        }
        let &opcode = self.script.get(self.offset)?;
        self.offset += 1;
        if opcode > OP_PUSHDATA4 {
            return Some(Instruction { opcode, push: &[] });
        }
        let push = self.push(opcode);
        self.cut = push.is_none();
        push.map(|push| Instruction { opcode, push })
    }
}

/// Whether every instruction is a push. `OP_RESERVED` counts as one.
///
/// Source: Bitcoin Core b88bffe, `CScript::IsPushOnly`.
pub fn is_push_only(script: &[u8]) -> bool {
    let mut instructions = Instructions::new(script);
    instructions.all(|instruction| instruction.opcode <= OP_16) && !instructions.is_cut()
}

/// The hash in a pay-to-script-hash script: `HASH160 <20> EQUAL`, 23 bytes in all. Source: BIP-0016.
#[inline]
pub fn p2sh(script: &[u8]) -> Option<&[u8; 20]> {
    match script {
        [OP_HASH160, 20, hash @ .., OP_EQUAL] => hash.try_into().ok(),
        _ => None,
    }
}

/// The hash in a pay-to-public-key-hash script: `DUP HASH160 <20> EQUALVERIFY CHECKSIG`.
#[inline]
pub fn p2pkh(script: &[u8]) -> Option<&[u8; 20]> {
    match script {
        [OP_DUP, OP_HASH160, 20, hash @ .., OP_EQUALVERIFY, OP_CHECKSIG] => hash.try_into().ok(),
        _ => None,
    }
}

/// A witness program: its version, 0 to 16, and its 2 to 40 bytes. Source: BIP-0141.
#[inline]
pub fn witness_program(script: &[u8]) -> Option<(u8, &[u8])> {
    let (&[version, bytes], program) = script.split_first_chunk()?;
    let version = match version {
        OP_0 => 0,
        OP_1..=OP_16 => version - (OP_1 - 1),
        _ => return None,
    };
    let fits = (2..=40).contains(&program.len()) && usize::from(bytes) == program.len();
    fits.then_some((version, program))
}

/// Whether the opcode is an OP_SUCCESS: if the parser reaches it, the tapscript succeeds. Source: BIP-0342.
#[inline]
pub fn is_op_success(opcode: u8) -> bool {
    matches!(opcode,
        80 | 98 | 126..=129 | 131..=134 | 137..=138 | 141..=142 | 149..=153 | 187..=254)
}

/// Whether `opcode` is the shortest way to push `data`. Source: Bitcoin Core b88bffe, `CheckMinimalPush`.
pub fn is_minimal_push(opcode: u8, data: &[u8]) -> bool {
    match data {
        [] => opcode == OP_0,
        [1..=16 | 0x81] => false,
        _ => match data.len() {
            bytes @ 0..=75 => usize::from(opcode) == bytes,
            76..=255 => opcode == OP_PUSHDATA1,
            256..=65_535 => opcode == OP_PUSHDATA2,
            _ => true,
        },
    }
}

/// The prefix of a push of `bytes` bytes as Core pushes a vector: by its length only, so that even one byte of 1 to 16
/// is pushed as data. Returns the array, and the number of its bytes in use.
///
/// Source: Bitcoin Core b88bffe, `CScript::AppendDataSize`.
#[inline]
pub fn push_prefix(bytes: usize) -> ([u8; 5], usize) {
    let size = u32::try_from(bytes).expect("a script is shorter than 4 GiB").to_le_bytes();
    match bytes {
        0..=75 => ([size[0], 0, 0, 0, 0], 1),
        76..=255 => ([OP_PUSHDATA1, size[0], 0, 0, 0], 2),
        256..=65_535 => ([OP_PUSHDATA2, size[0], size[1], 0, 0], 3),
        _ => ([OP_PUSHDATA4, size[0], size[1], size[2], size[3]], 5),
    }
}

/// Appends the push of `data`, see [`push_prefix`].
pub fn push_data(script: &mut Vec<u8>, data: &[u8]) {
    let (prefix, used) = push_prefix(data.len());
    script.extend_from_slice(&prefix[..used]);
    script.extend_from_slice(data);
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::hex;

    #[test]
    fn instructions_end_as_in_core() {
        for (hex, count, end, cut) in [
            ("", 0, 0, false),
            ("00", 1, 1, false),
            ("51ac", 2, 2, false),
            ("0101", 1, 2, false),
            ("01", 0, 1, true),
            ("5102aa", 1, 2, true),
            ("4c", 0, 1, true),
            ("4c01", 0, 2, true),
            ("4c0101", 1, 3, false),
            ("4d01", 0, 1, true),
            ("4d0100", 0, 3, true),
            ("4d0100ff", 1, 4, false),
            ("4e010000", 0, 1, true),
            ("4effffffff00", 0, 5, true),
            ("4e01000000ff61", 2, 7, false),
        ] {
            let script = hex::decode(hex).unwrap();
            let mut instructions = Instructions::new(&script);
            let seen = instructions.by_ref().count();
            assert_eq!((seen, instructions.offset(), instructions.is_cut()), (count, end, cut), "{hex}");
            assert_eq!(instructions.next(), None, "{hex}: over is over");
        }
    }

    #[test]
    fn script_shapes_are_recognized() {
        let hash = "11".repeat(20);
        for (hex, want) in [
            (format!("0014{hash}"), Some((0, 20))),
            ("51024e73".to_owned(), Some((1, 2))),
            (format!("6028{}", "22".repeat(40)), Some((16, 40))),
            (format!("6029{}", "22".repeat(41)), None),
            ("510122".to_owned(), None),
            (format!("4f14{hash}"), None),
            (format!("0015{hash}"), None),
            (format!("6114{hash}"), None),
            (String::new(), None),
        ] {
            let script = hex::decode(&hex).unwrap();
            assert_eq!(witness_program(&script).map(|(v, p)| (v, p.len())), want, "{hex}");
        }
        assert!(p2sh(&hex::decode(&format!("a914{hash}87")).unwrap()).is_some());
        assert!(p2sh(&hex::decode(&format!("a914{hash}1187")).unwrap()).is_none());
        assert!(p2pkh(&hex::decode(&format!("76a914{hash}88ac")).unwrap()).is_some());
        assert!(p2pkh(&hex::decode(&format!("76a914{hash}8888ac")).unwrap()).is_none());
        for (hex, want) in [("", true), ("0050604f", true), ("61", false), ("02aa", false)] {
            assert_eq!(is_push_only(&hex::decode(hex).unwrap()), want, "{hex}");
        }
    }

    #[test]
    fn push_opcodes_are_recognized() {
        for bytes in [0, 1, 75, 76, 255, 256, 520, 65_535, 65_536] {
            let data = vec![0xab; bytes];
            let mut script = Vec::new();
            push_data(&mut script, &data);
            let mut instructions = Instructions::new(&script);
            let instruction = instructions.next().unwrap();
            assert_eq!(instruction.push, data);
            assert_eq!(instructions.next(), None);
            assert!(is_minimal_push(instruction.opcode, &data), "{bytes}");
        }
        for (opcode, data) in [(1, &[16][..]), (1, &[0x81]), (OP_PUSHDATA1, &[]), (OP_PUSHDATA1, &[7, 7])] {
            assert!(!is_minimal_push(opcode, data), "{opcode} {data:?}");
        }
    }
}
