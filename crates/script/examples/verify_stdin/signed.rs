//! Scripts that check signatures, amid instructions that change nothing.

use crate::Case;
use crate::assembler::push_number;
use crate::generate::Generator;
use crate::place::{Item, PLACES, Place, Sign};
use crate::wallet::key;
use primitives::OutPoint;
use script::opcode::*;
use script::sighash::Leaf;
use testkit::blocks::{In, transaction};

/// A script being written, and what its signatures will sign.
struct Draft {
    script: Vec<u8>,
    items: Vec<Item>,
    /// Behind the last executed CODESEPARATOR, in bytes.
    code_start: usize,
    /// Its number among the instructions.
    separator: u32,
}

impl Generator {
    /// A script that checks signatures which mostly hold.
    pub(crate) fn signed_script(&mut self) -> Case {
        let place = self.pick(&PLACES);
        let mut draft = self.noise();
        let number = self.below(50);
        match (place, self.below(2)) {
            (Place::Tapscript, _) => self.tapscript_checks(&mut draft, number),
            (_, 0) => {
                let signature = self.signature(&draft, number);
                draft.items.push(signature);
                push_data(&mut draft.script, &self.odd_key(number));
                draft.script.extend(if self.one_in(2) { &[OP_CHECKSIG][..] } else { &[OP_CHECKSIGVERIFY, OP_1] });
            }
            _ => self.multisig_checks(&mut draft, number),
        }
        for _ in 0..self.below(2) {
            draft.script.extend([OP_CODESEPARATOR, OP_NOP]);
        }
        self.placed(place, draft.script, draft.items)
    }

    /// Instructions that change nothing but what is signed.
    fn noise(&mut self) -> Draft {
        let mut draft = Draft { script: Vec::new(), items: Vec::new(), code_start: 0, separator: u32::MAX };
        let mut position = 0u32;
        for _ in 0..self.below(5) {
            position += match self.below(5) {
                0 | 1 => {
                    draft.script.push(OP_CODESEPARATOR);
                    (draft.code_start, draft.separator) = (draft.script.len(), position);
                    1
                }
                2 => {
                    push_data(&mut draft.script, &self.element());
                    draft.script.push(OP_DROP);
                    2
                }
                3 => {
                    draft.script.extend([OP_0, OP_IF, OP_CODESEPARATOR, OP_CHECKSIG, OP_ENDIF]);
                    5
                }
                _ => {
                    draft.script.push(OP_NOP);
                    1
                }
            };
        }
        draft
    }

    fn signature(&mut self, draft: &Draft, key: usize) -> Item {
        Item::Signature {
            key,
            hash_type: self.hash_type(),
            code_start: draft.code_start,
            separator: draft.separator,
            broken: if self.one_in(3) { self.next() } else { 0 },
        }
    }

    fn tapscript_checks(&mut self, draft: &mut Draft, number: usize) {
        let x_only = |n: usize| key(n)[1..].to_vec();
        let first = self.signature(draft, number);
        draft.items.push(first);
        push_data(&mut draft.script, &x_only(number));
        match self.below(3) {
            0 => draft.script.push(OP_CHECKSIG),
            1 => draft.script.extend([OP_CHECKSIGVERIFY, OP_1]),
            _ => {
                let second = self.signature(draft, number + 1);
                draft.items.insert(0, second);
                draft.script.push(OP_CHECKSIG);
                push_data(&mut draft.script, &x_only(number + 1));
                draft.script.extend([OP_CHECKSIGADD, OP_1 + 1, OP_NUMEQUAL]);
            }
        }
    }

    fn multisig_checks(&mut self, draft: &mut Draft, number: usize) {
        let keys = 1 + self.below(4);
        let needed = self.below(keys + 1);
        let dummy = if self.one_in(10) { vec![1] } else { Vec::new() };
        draft.items.push(Item::Bytes(dummy));
        let mut skipped = keys - needed;
        for n in 0..keys {
            if skipped > 0 && self.one_in(2) {
                skipped -= 1;
            } else if draft.items.len() <= needed {
                let signature = self.signature(draft, number + n);
                draft.items.push(signature);
            }
        }
        while draft.items.len() <= needed {
            draft.items.push(Item::Bytes(self.element()));
        }
        push_number(&mut draft.script, needed as i64);
        for n in 0..keys {
            push_data(&mut draft.script, &self.odd_key(number + n));
        }
        push_number(&mut draft.script, keys as i64);
        draft.script.push(OP_CHECKMULTISIG);
    }

    /// A script that holds the very signature that it checks, in one of many ways to push it.
    pub(crate) fn deleted_signature(&mut self) -> Case {
        let number = self.below(50);
        let mut code = if self.one_in(4) { vec![OP_CODESEPARATOR] } else { Vec::new() };
        let start = code.len();
        let copies = 1 + self.below(2);
        code.extend([OP_DROP, OP_2DROP][copies - 1..copies].iter());
        push_data(&mut code, &key(number));
        code.push(OP_CHECKSIG);
        let prevout = OutPoint::from_bytes(&std::array::from_fn(|at| at as u8));
        let input = |script_sig| In { prevout, script_sig, sequence: 0, witness: Vec::new() };
        let outs = [(1, vec![OP_1])];
        let unsigned = transaction(1, &[input(Vec::new())], &outs, 0);
        let coins = vec![(5, Vec::new())];
        let leaf = Leaf { hash: [0; 32], code_separator: 0 };
        let sign = Sign { coins: &coins, unsigned: &unsigned, input: 0, place: Place::Bare, annex: None, leaf };
        let hash_type = self.hash_type();
        let signature = sign.sign(number, hash_type, &code[start..]);
        let mut script = code[..start].to_vec();
        for _ in 0..copies {
            match self.below(4) {
                0 => script.extend([&[OP_PUSHDATA1, signature.len() as u8][..], &signature].concat()),
                _ => push_data(&mut script, &signature),
            }
        }
        script.extend(&code[start..]);
        let mut script_sig = Vec::new();
        push_data(&mut script_sig, &signature);
        let tx = transaction(1, &[input(script_sig)], &outs, 0);
        Case { flags: self.flags(), input: 0, coins: vec![(5, script)], tx }
    }
}
