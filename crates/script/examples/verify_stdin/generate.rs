//! Cases that go deep: scripts that run, signatures that hold, and small changes to both.

use crate::Case;
use crate::assembler::{In, push_number, transaction};
use crate::wallet::{self, Kind, key, script_hash, secret, sign_ecdsa, witness_program};
use primitives::{Amount, Tables};
use script::opcode::*;
use script::sighash::{Leaf, leaf_hash, legacy, taproot, witness_v0};
use script::{Precomputed, SpentOutput};
use secp256k1::{Keypair, Parity, PublicKey, Scalar, schnorr};
use simd::sha256::sha256;

/// The flags of consensus, as bits.
const P2SH: u32 = 1;
const DERSIG: u32 = 1 << 2;
const NULLDUMMY: u32 = 1 << 4;
const CLTV: u32 = 1 << 9;
const CSV: u32 = 1 << 10;
const WITNESS: u32 = 1 << 11;
const TAPROOT: u32 = 1 << 17;
const ALL: u32 = P2SH | DERSIG | NULLDUMMY | CLTV | CSV | WITNESS | TAPROOT;

/// Where a script is run from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Bare,
    ScriptHash,
    Witness,
    WrappedWitness,
    Tapscript,
}

const PLACES: [Place; 5] = [Place::Bare, Place::ScriptHash, Place::Witness, Place::WrappedWitness, Place::Tapscript];

/// What unlocks a script: a finished item, or a signature to be made for the key of that number.
enum Item {
    Bytes(Vec<u8>),
    Signature { key: usize, hash_type: u8, code_start: usize, separator: u32, broken: u64 },
}

pub(crate) struct Generator {
    state: u64,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Generator {
        Generator { state: seed }
    }

    /// splitmix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }

    fn flags(&mut self) -> u32 {
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
            5..=9 => self.signed_script(),
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

    fn hash_type(&mut self) -> u8 {
        if self.one_in(8) { self.next() as u8 } else { self.pick(&[0, 1, 2, 3, 0x81, 0x82, 0x83]) }
    }

    /// Changes, adds or takes away a byte.
    fn change(&mut self, bytes: &mut Vec<u8>) {
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

    fn element(&mut self) -> Vec<u8> {
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
    fn odd_key(&mut self, number: usize) -> Vec<u8> {
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

    /// A script that checks signatures which mostly hold, amid instructions that change nothing.
    fn signed_script(&mut self) -> Case {
        let place = self.pick(&PLACES);
        let mut script = Vec::new();
        let (mut code_start, mut separator, mut position) = (0, u32::MAX, 0u32);
        for _ in 0..self.below(5) {
            match self.below(5) {
                0 | 1 => {
                    script.push(OP_CODESEPARATOR);
                    (code_start, separator) = (script.len(), position);
                    position += 1;
                }
                2 => {
                    let element = self.element();
                    push_data(&mut script, &element);
                    script.push(OP_DROP);
                    position += 2;
                }
                3 => {
                    script.extend([OP_0, OP_IF, OP_CODESEPARATOR, OP_CHECKSIG, OP_ENDIF]);
                    position += 5;
                }
                _ => {
                    script.push(OP_NOP);
                    position += 1;
                }
            }
        }
        let number = self.below(50);
        let signature = |key: usize, generator: &mut Generator| Item::Signature {
            key,
            hash_type: generator.hash_type(),
            code_start,
            separator,
            broken: if generator.one_in(3) { generator.next() } else { 0 },
        };
        let mut items = Vec::new();
        if place == Place::Tapscript {
            let x_only = |n: usize| key(n)[1..].to_vec();
            items.push(signature(number, self));
            push_data(&mut script, &x_only(number));
            match self.below(3) {
                0 => script.push(OP_CHECKSIG),
                1 => script.extend([OP_CHECKSIGVERIFY, OP_1]),
                _ => {
                    script.extend([OP_CHECKSIG, OP_SWAP]);
                    items.insert(0, signature(number + 1, self));
                    script.push(OP_SWAP);
                    push_data(&mut script, &x_only(number + 1));
                    script.extend([OP_CHECKSIGADD, OP_1 + 1, OP_NUMEQUAL]);
                }
            }
        } else if self.one_in(2) {
            items.push(signature(number, self));
            let key = self.odd_key(number);
            push_data(&mut script, &key);
            script.extend(if self.one_in(2) { &[OP_CHECKSIG][..] } else { &[OP_CHECKSIGVERIFY, OP_1] });
        } else {
            let keys = 1 + self.below(4);
            let needed = self.below(keys + 1);
            let dummy = if self.one_in(10) { vec![1] } else { Vec::new() };
            items.push(Item::Bytes(dummy));
            let mut skipped = keys - needed;
            for n in 0..keys {
                if skipped > 0 && self.one_in(2) {
                    skipped -= 1;
                } else if items.len() <= needed {
                    items.push(signature(number + n, self));
                }
            }
            while items.len() <= needed {
                items.push(Item::Bytes(self.element()));
            }
            push_number(&mut script, needed as i64);
            for n in 0..keys {
                let key = self.odd_key(number + n);
                push_data(&mut script, &key);
            }
            push_number(&mut script, keys as i64);
            script.push(OP_CHECKMULTISIG);
        }
        for _ in 0..self.below(2) {
            script.extend([OP_CODESEPARATOR, OP_NOP]);
        }
        self.placed(place, script, items)
    }

    /// A script that holds the very signature that it checks, in one of many ways to push it.
    fn deleted_signature(&mut self) -> Case {
        let number = self.below(50);
        let mut code = if self.one_in(4) { vec![OP_CODESEPARATOR] } else { Vec::new() };
        let start = code.len();
        let copies = 1 + self.below(2);
        code.extend([OP_DROP, OP_2DROP][copies - 1..copies].iter());
        push_data(&mut code, &key(number));
        code.push(OP_CHECKSIG);
        let prevout = std::array::from_fn(|at| at as u8);
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

    /// A transaction whose one interesting input runs `script` at `place`, unlocked by `items`.
    fn placed(&mut self, place: Place, script: Vec<u8>, items: Vec<Item>) -> Case {
        let inputs = 1 + self.below(3) * self.below(2);
        let input = self.below(inputs);
        let (internal, _) = PublicKey::from_secret_key(&secret(7)).x_only_public_key();
        let leaf_version = if self.one_in(20) { 0xc2 } else { 0xc0 };
        let path: Vec<u8> = if self.one_in(3) { self.bytes(32) } else { Vec::new() };
        let leaf = leaf_hash(leaf_version, &script);
        let (output, parity) = internal.add_tweak(&tweak(&internal.to_byte_array(), leaf, &path)).unwrap();
        let redeem = match place {
            Place::WrappedWitness => witness_program(OP_0, &sha256(&script)),
            _ => script.clone(),
        };
        let spent = match place {
            Place::Bare => script.clone(),
            Place::ScriptHash | Place::WrappedWitness => script_hash(&redeem),
            Place::Witness => witness_program(OP_0, &sha256(&script)),
            Place::Tapscript => witness_program(OP_1, &output.to_byte_array()),
        };
        let coins: Vec<(i64, Vec<u8>)> = (0..inputs)
            .map(|n| (1000 + n as i64, if n == input { spent.clone() } else { wallet::coin_script(Kind::KeyHash, n) }))
            .collect();
        let mut ins: Vec<In> = (0..inputs)
            .map(|n| In {
                prevout: std::array::from_fn(|at| if at < 33 { n as u8 + 1 } else { 0 }),
                script_sig: Vec::new(),
                sequence: self.pick(&[0, 1, 2, 0xffff_ffff, 0xffff_fffe, 1 << 31, 1 << 22, (1 << 22) + 2]),
                witness: Vec::new(),
            })
            .collect();
        let outs: Vec<(i64, Vec<u8>)> = (0..self.below(4)).map(|n| (n as i64, vec![OP_1; n])).collect();
        let version = self.pick(&[0, 1, 2, 2, 2, u32::MAX]);
        let lock_time = self.pick(&[0, 1, 2, 16, 499_999_999, 500_000_000, u32::MAX]);
        let unsigned = transaction(version, &ins, &outs, lock_time);
        let annex = if place == Place::Tapscript && self.one_in(4) { vec![0x50, 1, 2] } else { Vec::new() };
        let items: Vec<Vec<u8>> = items
            .into_iter()
            .map(|item| match item {
                Item::Bytes(bytes) => bytes,
                Item::Signature { key, hash_type, code_start, separator, broken } => {
                    let leaf = Leaf { hash: leaf, code_separator: separator };
                    let annex = (!annex.is_empty()).then_some(&annex[..]);
                    let sign = Sign { coins: &coins, unsigned: &unsigned, input, place, annex, leaf };
                    let good = sign.sign(key, hash_type, &script[code_start..]);
                    self.broken(good, broken)
                }
            })
            .collect();
        let push_all = |items: &[Vec<u8>]| {
            let mut script_sig = Vec::new();
            for item in items {
                match &item[..] {
                    [small @ 1..=16] => script_sig.push(OP_1 - 1 + small),
                    item => push_data(&mut script_sig, item),
                }
            }
            script_sig
        };
        match place {
            Place::Bare => ins[input].script_sig = push_all(&items),
            Place::ScriptHash => {
                ins[input].script_sig = push_all(&items);
                push_data(&mut ins[input].script_sig, &redeem);
            }
            Place::Witness => ins[input].witness = [items, vec![script]].concat(),
            Place::WrappedWitness => {
                push_data(&mut ins[input].script_sig, &redeem);
                ins[input].witness = [items, vec![script]].concat();
            }
            Place::Tapscript => {
                let control = [&[leaf_version | u8::from(parity == Parity::Odd)][..], &internal.to_byte_array(), &path];
                ins[input].witness = [items, vec![script, control.concat()]].concat();
                if !annex.is_empty() {
                    ins[input].witness.push(annex);
                }
            }
        }
        let mut tx = transaction(version, &ins, &outs, lock_time);
        if self.one_in(12) {
            self.change(&mut tx);
        }
        Case { flags: self.flags(), input, coins, tx }
    }

    /// A signature written in another way, or changed.
    fn broken(&mut self, mut signature: Vec<u8>, how: u64) -> Vec<u8> {
        if how == 0 || signature.len() < 9 || signature[0] != 0x30 {
            if how % 2 == 1 {
                self.change(&mut signature);
            }
            return signature;
        }
        let Some((r, rest)) = signature[4..].split_at_checked(usize::from(signature[3])) else { return signature };
        if rest.len() < 4 {
            return signature; // A Schnorr signature that happens to begin like DER.
        }
        let (s, hash_type) = (&rest[2..rest.len() - 1], rest[rest.len() - 1]);
        let (mut r, mut s) = (r.to_vec(), s.to_vec());
        match how % 9 {
            0 => return Vec::new(),
            1 => r.insert(0, 0),
            2 => s.insert(0, 0),
            3 => s = high_s(&s),
            4 => {
                self.change(&mut signature);
                return signature;
            }
            5 => return [&[0x30, 0x81, signature[1]][..], &signature[2..]].concat(),
            6 => {
                let long = [&[0x30, 0x80, 2, 0x83, 0, 0, r.len() as u8][..], &r, &[2, 0x81, s.len() as u8], &s];
                return [&long.concat()[..], &[hash_type]].concat();
            }
            7 => r = vec![0xff; 33],
            _ => signature[1] ^= 1,
        }
        let length = if how % 9 == 8 { signature[1] } else { (r.len() + s.len() + 4) as u8 };
        [&[0x30, length, 2, r.len() as u8][..], &r, &[2, s.len() as u8], &s, &[hash_type]].concat()
    }
}

/// The tweak that commits to a leaf, or to it and a neighbour.
fn tweak(internal: &[u8; 32], leaf: [u8; 32], path: &[u8]) -> Scalar {
    let tagged = |tag: &str, parts: &[&[u8]]| {
        let tag = sha256(tag.as_bytes());
        sha256(&[&[&tag[..], &tag], parts].concat().concat())
    };
    let root = match <[u8; 32]>::try_from(path) {
        Ok(other) => tagged("TapBranch", &[&leaf.min(other), &leaf.max(other)]),
        Err(_) => leaf,
    };
    Scalar::from_be_bytes(tagged("TapTweak", &[internal, &root])).unwrap()
}

/// S replaced by its negative.
fn high_s(s: &[u8]) -> Vec<u8> {
    let mut padded = [0; 32];
    let digits = &s[s.len().saturating_sub(32)..];
    padded[32 - digits.len()..].copy_from_slice(digits);
    let Ok(number) = secp256k1::SecretKey::from_secret_bytes(padded) else { return s.to_vec() };
    let mut bytes = number.negate().to_secret_bytes().to_vec();
    if bytes[0] & 0x80 != 0 {
        bytes.insert(0, 0);
    }
    bytes
}

/// Everything that a signature depends on.
struct Sign<'s> {
    coins: &'s [(i64, Vec<u8>)],
    unsigned: &'s [u8],
    input: usize,
    place: Place,
    annex: Option<&'s [u8]>,
    leaf: Leaf,
}

impl Sign<'_> {
    fn sign(&self, number: usize, hash_type: u8, script_code: &[u8]) -> Vec<u8> {
        let spent: Vec<SpentOutput<'_>> =
            self.coins.iter().map(|(value, script)| SpentOutput { value: Amount(*value), script }).collect();
        let mut tables = Tables::new();
        let tx = Precomputed::new(tables.parse_transaction(self.unsigned).unwrap(), &spent);
        let kind = u32::from(hash_type);
        match self.place {
            Place::Bare | Place::ScriptHash => {
                sign_ecdsa(legacy(&tx, self.input, script_code, kind), number, hash_type)
            }
            Place::Witness | Place::WrappedWitness => {
                sign_ecdsa(witness_v0(&tx, self.input, script_code, kind), number, hash_type)
            }
            Place::Tapscript => {
                let sighash = taproot(&tx, self.input, hash_type, self.annex, Some(self.leaf)).unwrap_or_default();
                let pair = Keypair::from_secret_key(&secret(number));
                let mut signature = schnorr::sign_no_aux_rand(&sighash, &pair).to_byte_array().to_vec();
                if hash_type != 0 {
                    signature.push(hash_type);
                }
                signature
            }
        }
    }
}
