//! Puts a script where an input runs it, and signs.

use crate::Case;
use crate::generate::Generator;
use crate::wallet::{self, Kind, script_hash, secret, sign_ecdsa, witness_program};
use kernels::sha256::sha256;
use primitives::{Amount, OutPoint, Tables};
use script::opcode::*;
use script::sighash::{Leaf, leaf_hash, legacy, taproot, witness_v0};
use script::{Precomputed, SpentOutput};
use secp256k1::{Keypair, Parity, PublicKey, Scalar, schnorr};
use testkit::blocks::{In, transaction};

/// Where a script is run from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Bare,
    ScriptHash,
    Witness,
    WrappedWitness,
    Tapscript,
}

pub(crate) const PLACES: [Place; 5] =
    [Place::Bare, Place::ScriptHash, Place::Witness, Place::WrappedWitness, Place::Tapscript];

/// What unlocks a script: a finished item, or a signature to be made for the key of that number.
pub(crate) enum Item {
    Bytes(Vec<u8>),
    Signature { key: usize, hash_type: u8, code_start: usize, separator: u32, broken: u64 },
}

/// The coin that a script is behind, and how to get at it.
struct Lock {
    place: Place,
    script: Vec<u8>,
    /// The spent script.
    spent: Vec<u8>,
    /// What P2SH wraps.
    redeem: Vec<u8>,
    /// Of the leaf, in tapscript.
    leaf: [u8; 32],
    control: Vec<u8>,
    annex: Vec<u8>,
}

impl Lock {
    fn new(place: Place, script: Vec<u8>, generator: &mut Generator) -> Lock {
        let (internal, _) = PublicKey::from_secret_key(&secret(7)).x_only_public_key();
        let leaf_version = if generator.one_in(20) { 0xc2 } else { 0xc0 };
        let path: Vec<u8> = if generator.one_in(3) { generator.bytes(32) } else { Vec::new() };
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
        let first = leaf_version | u8::from(parity == Parity::Odd);
        let control = [&[first][..], &internal.to_byte_array(), &path].concat();
        let annex = if place == Place::Tapscript && generator.one_in(4) { vec![0x50, 1, 2] } else { Vec::new() };
        Lock { place, script, spent, redeem, leaf, control, annex }
    }

    /// Puts items, and whatever the place wants beside them, into an input.
    fn open(self, input: &mut In, items: Vec<Vec<u8>>) {
        match self.place {
            Place::Bare => input.script_sig = push_all(&items),
            Place::ScriptHash => {
                input.script_sig = push_all(&items);
                push_data(&mut input.script_sig, &self.redeem);
            }
            Place::Witness => input.witness = [items, vec![self.script]].concat(),
            Place::WrappedWitness => {
                push_data(&mut input.script_sig, &self.redeem);
                input.witness = [items, vec![self.script]].concat();
            }
            Place::Tapscript => {
                input.witness = [items, vec![self.script, self.control]].concat();
                if !self.annex.is_empty() {
                    input.witness.push(self.annex);
                }
            }
        }
    }
}

/// A script that pushes the items.
fn push_all(items: &[Vec<u8>]) -> Vec<u8> {
    let mut script_sig = Vec::new();
    for item in items {
        match &item[..] {
            [small @ 1..=16] => script_sig.push(OP_1 - 1 + small),
            item => push_data(&mut script_sig, item),
        }
    }
    script_sig
}

impl Generator {
    /// A transaction whose one interesting input runs `script` at `place`, unlocked by `items`.
    pub(crate) fn placed(&mut self, place: Place, script: Vec<u8>, items: Vec<Item>) -> Case {
        let inputs = 1 + self.below(3) * self.below(2);
        let input = self.below(inputs);
        let lock = Lock::new(place, script, self);
        let other = |n: usize| wallet::coin_script(Kind::KeyHash, n);
        let coins: Vec<(i64, Vec<u8>)> =
            (0..inputs).map(|n| (1000 + n as i64, if n == input { lock.spent.clone() } else { other(n) })).collect();
        let mut ins: Vec<In> = (0..inputs)
            .map(|n| In {
                prevout: OutPoint::from_bytes(&std::array::from_fn(|at| if at < 33 { n as u8 + 1 } else { 0 })),
                script_sig: Vec::new(),
                sequence: self.pick(&[0, 1, 2, 0xffff_ffff, 0xffff_fffe, 1 << 31, 1 << 22, (1 << 22) + 2]),
                witness: Vec::new(),
            })
            .collect();
        let outs: Vec<(i64, Vec<u8>)> = (0..self.below(4)).map(|n| (n as i64, vec![OP_1; n])).collect();
        let version = self.pick(&[0, 1, 2, 2, 2, u32::MAX]);
        let lock_time = self.pick(&[0, 1, 2, 16, 499_999_999, 500_000_000, u32::MAX]);
        let unsigned = transaction(version, &ins, &outs, lock_time);
        let items = items.into_iter().map(|item| match item {
            Item::Bytes(bytes) => bytes,
            Item::Signature { key, hash_type, code_start, separator, broken } => {
                let leaf = Leaf { hash: lock.leaf, code_separator: separator };
                let annex = (!lock.annex.is_empty()).then_some(&lock.annex[..]);
                let sign = Sign { coins: &coins, unsigned: &unsigned, input, place, annex, leaf };
                let good = sign.sign(key, hash_type, &lock.script[code_start..]);
                self.broken(good, broken)
            }
        });
        let items = items.collect();
        lock.open(&mut ins[input], items);
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
        let s = &rest[2..rest.len() - 1];
        let hash_type = rest[rest.len() - 1];
        let mut r = r.to_vec();
        let mut s = s.to_vec();
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
pub(crate) struct Sign<'s> {
    pub(crate) coins: &'s [(i64, Vec<u8>)],
    pub(crate) unsigned: &'s [u8],
    pub(crate) input: usize,
    pub(crate) place: Place,
    pub(crate) annex: Option<&'s [u8]>,
    pub(crate) leaf: Leaf,
}

impl Sign<'_> {
    pub(crate) fn sign(&self, number: usize, hash_type: u8, script_code: &[u8]) -> Vec<u8> {
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
