//! Scripts whose way depends on what their signature checks say: results that are negated, branched on, added up or
//! used as a number of signatures, with checks that fail where they should, and where they should not.

use crate::Case;
use crate::assembler::push_number;
use crate::generate::Generator;
use crate::place::{Item, PLACES, Place};
use crate::wallet::key;
use script::opcode::*;

/// A piece of a script: it takes `items` (the top of the stack comes last) and leaves a result, or nothing.
struct Part {
    script: Vec<u8>,
    items: Vec<Item>,
    /// The result that it was made for; what is odd about keys and signatures may change it.
    expected: bool,
}

impl Generator {
    /// A script of several checks, each in a part of its own.
    pub(crate) fn chained_checks(&mut self) -> Case {
        let place = self.pick(&PLACES);
        let mut script = Vec::new();
        let mut items = Vec::new();
        let mut kept = Vec::new();
        for _ in 0..1 + self.below(5) {
            let part = self.part(place);
            script.extend(part.script);
            items.splice(0..0, part.items);
            if self.one_in(6) {
                script.push(OP_TOALTSTACK);
                kept.push(part.expected);
            } else {
                self.consume(&mut script, part.expected);
            }
        }
        for expected in kept.into_iter().rev() {
            script.push(OP_FROMALTSTACK);
            self.consume(&mut script, expected);
        }
        match self.below(20) {
            0 => script.push(OP_RETURN),
            1 => script.push(OP_0),
            2 => script.extend([OP_1, OP_1]),
            3 => script.push(OP_VERIFY),
            _ => script.push(OP_1),
        }
        self.placed(place, script, items)
    }

    /// What becomes of a result, mostly such that the script goes on.
    fn consume(&mut self, script: &mut Vec<u8>, expected: bool) {
        let expected = expected ^ self.one_in(16);
        let (good, bad): (&[u8], &[u8]) = if expected { (&[], &[OP_RETURN]) } else { (&[OP_RETURN], &[]) };
        match self.below(7) {
            0 | 1 if expected => script.push(OP_VERIFY),
            0 | 1 => script.extend([OP_NOT, OP_VERIFY]),
            2 => script.extend([&[OP_IF], good, &[OP_ELSE], bad, &[OP_ENDIF]].concat()),
            3 => script.extend([&[OP_NOTIF], bad, &[OP_ELSE], good, &[OP_ENDIF]].concat()),
            4 => script.push(OP_DROP),
            5 => script.extend([OP_SIZE, if expected { OP_1 } else { OP_0 }, OP_EQUALVERIFY, OP_DROP]),
            _ => script.extend([OP_1ADD, OP_1 + u8::from(expected), OP_NUMEQUALVERIFY]),
        }
    }

    fn part(&mut self, place: Place) -> Part {
        let number = self.below(50);
        match (place, self.below(8)) {
            (Place::Tapscript, 0..=2) => self.sum_of_checks(number),
            (Place::Tapscript, 3) => self.dear_checks(number),
            (_, 0..=2) => self.multisig(number),
            (_, 3) => self.counted_by_a_check(number),
            (_, 4) => self.either_of_two(place, number),
            _ => self.single(place, number),
        }
    }

    /// A signature that holds for the key of that number or not: then it is empty, another's, or broken.
    fn signature_that(&mut self, holds: bool, number: usize) -> Item {
        let (key, broken) = match self.below(4) {
            _ if holds => (number, 0),
            0 => (number, self.next() | 1),
            1 => (number + 1, 0),
            _ => return Item::Bytes(Vec::new()),
        };
        let hash_type = if self.one_in(20) { self.hash_type() } else { 1 };
        Item::Signature { key, hash_type, code_start: 0, separator: u32::MAX, broken }
    }

    fn put_key(&mut self, script: &mut Vec<u8>, place: Place, number: usize) {
        let written = match place {
            Place::Tapscript if self.one_in(16) => key(number).to_vec(), // A kind of key that is not known yet.
            Place::Tapscript => key(number)[1..].to_vec(),
            _ if self.one_in(3) => self.odd_key(number),
            _ => key(number).to_vec(),
        };
        push_data(script, &written);
    }

    fn single(&mut self, place: Place, number: usize) -> Part {
        let mut script = Vec::new();
        let expected = !self.one_in(3);
        let items = vec![self.signature_that(expected, number)];
        self.put_key(&mut script, place, number);
        script.push(OP_CHECKSIG);
        Part { script, items, expected }
    }

    /// The same signature under one key, and where that fails under another.
    fn either_of_two(&mut self, place: Place, number: usize) -> Part {
        let first = self.one_in(2);
        let items = vec![self.signature_that(true, if first { number } else { number + 1 })];
        let mut script = vec![OP_DUP];
        self.put_key(&mut script, place, number);
        script.extend([OP_CHECKSIG, OP_IF, OP_DROP, OP_1, OP_ELSE]);
        self.put_key(&mut script, place, number + 1);
        script.extend([OP_CHECKSIG, OP_ENDIF]);
        Part { script, items, expected: true }
    }

    /// A result says how many signatures a CHECKMULTISIG wants.
    fn counted_by_a_check(&mut self, number: usize) -> Part {
        let mut script = Vec::new();
        let one = self.one_in(2);
        let first = self.signature_that(one, number);
        self.put_key(&mut script, Place::Bare, number);
        script.push(OP_CHECKSIG);
        let expected = !one || !self.one_in(4);
        let mut items = vec![Item::Bytes(Vec::new())];
        if one {
            let among = self.below(2);
            items.push(self.signature_that(expected, number + 1 + among));
        }
        items.push(first);
        (1..3).for_each(|n| self.put_key(&mut script, Place::Bare, number + n));
        script.extend([OP_1 + 1, OP_CHECKMULTISIG]);
        Part { script, items, expected }
    }

    /// Signatures in the keys' order, or with two of them changed about, one twice, or one that does not hold.
    fn multisig(&mut self, number: usize) -> Part {
        let most = if self.one_in(8) { 20 } else { 5 };
        let keys = 1 + self.below(most);
        let needed = self.below(keys.min(6) + 1);
        let mut chosen: Vec<usize> = (0..keys).collect();
        while chosen.len() > needed {
            let at = self.below(chosen.len());
            chosen.remove(at);
        }
        let mut bad = None;
        let mut expected = true;
        match self.below(8) {
            0 if needed > 1 => {
                let at = self.below(needed - 1);
                chosen.swap(at, at + 1);
                expected = false;
            }
            1 if needed > 1 => {
                let at = self.below(needed - 1);
                chosen[at + 1] = chosen[at];
                expected = false;
            }
            2 | 3 if needed > 0 => (bad, expected) = (Some(self.below(needed)), false),
            _ => {}
        }
        let dummy = if self.one_in(20) { vec![1] } else { Vec::new() };
        let mut items = vec![Item::Bytes(dummy)];
        for (at, n) in chosen.into_iter().enumerate() {
            items.push(self.signature_that(bad != Some(at), number + n));
        }
        let mut script = Vec::new();
        push_number(&mut script, needed as i64);
        // The same key twice now and then: a signature may match either.
        let twice = self.one_in(6);
        (0..keys).for_each(|n| self.put_key(&mut script, Place::Bare, number + if twice { n / 2 * 2 } else { n }));
        push_number(&mut script, keys as i64);
        script.push(OP_CHECKMULTISIG);
        Part { script, items, expected: expected && !twice }
    }

    /// CHECKSIGADD over a few keys, compared with the sum.
    fn sum_of_checks(&mut self, number: usize) -> Part {
        let mut script = vec![OP_0];
        let mut items = Vec::new();
        let mut sum = 0;
        for n in 0..1 + self.below(4) {
            let holds = !self.one_in(3);
            let item =
                if holds || self.one_in(16) { self.signature_that(holds, number + n) } else { Item::Bytes(Vec::new()) };
            items.insert(0, item);
            sum += i64::from(holds);
            self.put_key(&mut script, Place::Tapscript, number + n);
            script.push(OP_CHECKSIGADD);
        }
        push_number(&mut script, sum);
        script.push(OP_NUMEQUAL);
        Part { script, items, expected: true }
    }

    /// One signature, checked more often than its weight may last.
    fn dear_checks(&mut self, number: usize) -> Part {
        let mut script = Vec::new();
        let items = vec![self.signature_that(true, number)];
        self.put_key(&mut script, Place::Tapscript, number);
        for _ in 0..self.below(8) {
            script.extend([OP_2DUP, OP_CHECKSIGVERIFY]);
        }
        script.push(OP_CHECKSIG);
        Part { script, items, expected: true }
    }
}
