//! Cases that go deep: scripts that run, signatures that hold, and small changes to both.

use crate::Case;
use crate::assembler::push_number;
use crate::place::{Item, PLACES};
use crate::wallet::{self, Kind, secret};
use script::opcode::*;
use secp256k1::PublicKey;
use testkit::Rng;

/// The flags of consensus, as bits.
const P2SH: u32 = 1;
const DERSIG: u32 = 1 << 2;
const NULLDUMMY: u32 = 1 << 4;
const CLTV: u32 = 1 << 9;
const CSV: u32 = 1 << 10;
const WITNESS: u32 = 1 << 11;
const TAPROOT: u32 = 1 << 17;
const ALL: u32 = P2SH | DERSIG | NULLDUMMY | CLTV | CSV | WITNESS | TAPROOT;

pub(crate) struct Generator {
    rng: Rng,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Generator {
        Generator { rng: Rng::new(seed) }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.rng.u64()
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.rng.below(n)
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }

    pub(crate) fn flags(&mut self) -> u32 {
        let mut flags = ALL;
        if self.one_in(3) {
            flags &= self.next() as u32;
        }
        if flags & P2SH == 0 {
            flags &= !WITNESS;
        }
        flags
    }

    pub(crate) fn case(&mut self) -> Case {
        match self.below(16) {
            0..=3 => self.changed_spending(),
            4 => self.deleted_signature(),
            5..=7 => self.signed_script(),
            8..=10 => self.chained_checks(),
            _ => self.random_script(),
        }
    }

    /// A good transaction of common kinds, with a few bytes changed.
    fn changed_spending(&mut self) -> Case {
        let kinds: Vec<Kind> = (0..1 + self.below(3)).map(|_| self.pick(&Kind::ALL)).collect();
        let outputs = self.below(4);
        let hash_type = self.hash_type();
        let number = self.below(1000);
        let spending = wallet::spending(&kinds, outputs, hash_type, number);
        let input = self.below(kinds.len());
        let mut case = Case { flags: self.flags(), input, coins: spending.coins, tx: spending.bytes };
        for _ in 0..self.below(3) {
            match self.below(6) {
                0 => self.change(&mut case.coins[input].1),
                1 => case.coins[input].0 ^= 1 << self.below(40),
                _ => self.change(&mut case.tx),
            }
        }
        case
    }

    pub(crate) fn hash_type(&mut self) -> u8 {
        if self.one_in(8) { self.next() as u8 } else { self.pick(&[0, 1, 2, 3, 0x81, 0x82, 0x83]) }
    }

    /// Changes, adds or takes away a byte.
    pub(crate) fn change(&mut self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let at = self.below(bytes.len());
        match self.below(6) {
            0..=2 => bytes[at] ^= 1 << self.below(8),
            3 => bytes[at] = self.next() as u8,
            4 => bytes.insert(at, self.next() as u8),
            _ => drop(bytes.remove(at)),
        }
    }

    /// A script of random instructions over random elements.
    fn random_script(&mut self) -> Case {
        let place = self.pick(&PLACES);
        let mut script = Vec::new();
        let mut depth = 0usize;
        for _ in 0..self.below(30) {
            self.instruction(&mut script, &mut depth);
        }
        while depth > 0 && !self.one_in(20) {
            script.push(OP_ENDIF);
            depth -= 1;
        }
        if self.one_in(2) {
            script.push(OP_1);
        }
        let items = (0..self.below(6)).map(|_| Item::Bytes(self.element())).collect();
        self.placed(place, script, items)
    }

    pub(crate) fn element(&mut self) -> Vec<u8> {
        match self.below(12) {
            0 => Vec::new(),
            1..=4 => vec![1 + self.below(5) as u8],
            5 => vec![self.pick(&[0, 0x80, 0x81, 0xff, 0x10, 0x11])],
            6 => self.bytes(2),
            7 => self.bytes(4),
            8 => self.bytes(5),
            9 => vec![0, 0, 0x80],
            10 => self.bytes(20),
            _ => {
                let length = self.pick(&[32, 33, 64, 65, 75, 76, 255, 256, 519, 520, 521]);
                self.bytes(length)
            }
        }
    }

    fn instruction(&mut self, script: &mut Vec<u8>, depth: &mut usize) {
        match self.below(20) {
            0..=5 => script.push(self.pick(&[OP_0, OP_1, OP_1 + 1, OP_1 + 2, OP_1NEGATE, OP_16])),
            6 => {
                let element = self.element();
                push_data(script, &element);
            }
            7 => {
                let number = self.next() as i64 % (1 << 33);
                push_number(script, number);
            }
            8 | 9 => {
                script.push(self.pick(&[OP_DUP, OP_2DUP, OP_3DUP, OP_OVER, OP_2OVER, OP_DEPTH, OP_TUCK, OP_IFDUP]))
            }
            10 => {
                script.push(self.pick(&[OP_IF, OP_NOTIF]));
                *depth += 1;
            }
            11 if *depth > 0 => {
                if self.one_in(2) {
                    script.push(OP_ELSE);
                } else {
                    script.push(OP_ENDIF);
                    *depth -= 1;
                }
            }
            12 => script.push(self.pick(&[OP_CHECKLOCKTIMEVERIFY, OP_CHECKSEQUENCEVERIFY, OP_NOP, OP_NOP1, OP_NOP10])),
            13 => {
                // Any key with any signature, most of them empty or no such thing.
                let key = self.odd_key(1);
                push_data(script, &key);
                script.push(self.pick(&[OP_CHECKSIG, OP_CHECKSIGVERIFY, OP_CHECKSIGADD, OP_CHECKMULTISIG]));
            }
            14 if self.one_in(6) => script.push(self.next() as u8),
            15 if self.one_in(6) => script.extend([OP_PUSHDATA1, self.next() as u8]),
            _ => {
                let opcode = OP_TOALTSTACK + self.below(usize::from(OP_HASH256 - OP_TOALTSTACK) + 1) as u8;
                let disabled =
                    matches!(opcode, OP_CAT..=OP_RIGHT | OP_INVERT..=OP_XOR | OP_2MUL | OP_2DIV | OP_MUL..=OP_RSHIFT);
                if !disabled || self.one_in(40) {
                    script.push(opcode);
                }
            }
        }
    }

    /// A key in an unusual form now and then.
    pub(crate) fn odd_key(&mut self, number: usize) -> Vec<u8> {
        let public = PublicKey::from_secret_key(&secret(number));
        let mut full = public.serialize_uncompressed().to_vec();
        match self.below(16) {
            0 | 1 => full,
            2 | 3 => {
                full[0] = 6 | full[64] & 1;
                full
            }
            4 => {
                full[0] = 7 - (full[64] & 1);
                full
            }
            5 => {
                let at = self.below(65);
                full[at] ^= 1 << self.below(8);
                full
            }
            6 => {
                let length = self.pick(&[0, 1, 31, 32, 33, 34, 64, 65]);
                self.bytes(length)
            }
            _ => public.serialize().to_vec(),
        }
    }
}
