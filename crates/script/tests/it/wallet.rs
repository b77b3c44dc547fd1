//! Makes spending transactions with real signatures, of every common kind.

use crate::assembler::push_number;
use kernels::sha256::sha256;
use primitives::{Amount, OutPoint, Tables, Txid};
use script::opcode::*;
use script::sighash::{Leaf, leaf_hash, legacy, taproot, witness_v0};
use script::{Precomputed, SpentOutput};
use secp256k1::{Keypair, Message, Parity, PublicKey, Scalar, SecretKey, XOnlyPublicKey, ecdsa, schnorr};
use testkit::blocks::{In, transaction};

/// What an output pays to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub(crate) enum Kind {
    Key,
    KeyHash,
    BareMultisig,
    ScriptHashMultisig,
    WitnessKeyHash,
    WrappedKeyHash,
    WitnessMultisig,
    WrappedMultisig,
    TaprootKey,
    TaprootScript,
    TaprootMultisig,
}

impl Kind {
    pub(crate) const ALL: [Kind; 11] = [
        Kind::Key,
        Kind::KeyHash,
        Kind::BareMultisig,
        Kind::ScriptHashMultisig,
        Kind::WitnessKeyHash,
        Kind::WrappedKeyHash,
        Kind::WitnessMultisig,
        Kind::WrappedMultisig,
        Kind::TaprootKey,
        Kind::TaprootScript,
        Kind::TaprootMultisig,
    ];
}

/// A transaction and the coins that it spends.
pub(crate) struct Spending {
    pub(crate) bytes: Vec<u8>,
    pub(crate) coins: Vec<(i64, Vec<u8>)>,
}

impl Spending {
    pub(crate) fn spent(&self) -> Vec<SpentOutput<'_>> {
        self.coins.iter().map(|(value, script)| SpentOutput { value: Amount(*value), script }).collect()
    }
}

pub(crate) fn hash160(bytes: &[u8]) -> [u8; 20] {
    use ripemd::Digest;
    ripemd::Ripemd160::digest(sha256(bytes)).into()
}

pub(crate) fn secret(number: usize) -> SecretKey {
    SecretKey::from_secret_bytes(sha256(&(number as u64).to_le_bytes())).unwrap()
}

pub(crate) fn key(number: usize) -> [u8; 33] {
    PublicKey::from_secret_key(&secret(number)).serialize()
}

fn x_only(number: usize) -> [u8; 32] {
    key(number)[1..].try_into().unwrap()
}

/// The script of a plain kind, with its keys; wrapped kinds name the inner one.
fn inner_script(kind: Kind, number: usize) -> Vec<u8> {
    let mut script = Vec::new();
    match kind {
        Kind::Key => {
            push_data(&mut script, &key(number));
            script.push(OP_CHECKSIG);
        }
        Kind::KeyHash | Kind::WitnessKeyHash | Kind::WrappedKeyHash => {
            script.extend([OP_DUP, OP_HASH160]);
            push_data(&mut script, &hash160(&key(number)));
            script.extend([OP_EQUALVERIFY, OP_CHECKSIG]);
        }
        Kind::BareMultisig | Kind::ScriptHashMultisig | Kind::WitnessMultisig | Kind::WrappedMultisig => {
            push_number(&mut script, 2);
            (0..3).for_each(|n| push_data(&mut script, &key(number + n)));
            push_number(&mut script, 3);
            script.push(OP_CHECKMULTISIG);
        }
        Kind::TaprootScript => {
            push_data(&mut script, &x_only(number));
            script.push(OP_CHECKSIG);
        }
        Kind::TaprootMultisig => {
            for n in 0..3 {
                push_data(&mut script, &x_only(number + n));
                script.push(if n == 0 { OP_CHECKSIG } else { OP_CHECKSIGADD });
            }
            push_number(&mut script, 2);
            script.push(OP_NUMEQUAL);
        }
        Kind::TaprootKey => {}
    }
    script
}

pub(crate) fn witness_program(version: u8, program: &[u8]) -> Vec<u8> {
    let mut script = vec![version];
    push_data(&mut script, program);
    script
}

pub(crate) fn script_hash(redeem: &[u8]) -> Vec<u8> {
    let mut script = vec![OP_HASH160];
    push_data(&mut script, &hash160(redeem));
    script.push(OP_EQUAL);
    script
}

/// What P2SH wraps.
fn redeem_script(kind: Kind, number: usize) -> Vec<u8> {
    match kind {
        Kind::WrappedKeyHash => witness_program(OP_0, &hash160(&key(number))),
        Kind::WrappedMultisig => witness_program(OP_0, &sha256(&inner_script(kind, number))),
        _ => inner_script(kind, number),
    }
}

/// Tagged hash. Source: BIP-0340.
fn tagged(tag: &str, parts: &[&[u8]]) -> [u8; 32] {
    let tag = sha256(tag.as_bytes());
    sha256(&[&tag[..], &tag, &parts.concat()].concat())
}

/// The other children on the way from the leaf to the root: none to four, by `number`.
fn path(number: usize) -> Vec<[u8; 32]> {
    (0..number % 5).map(|level| sha256(format!("{number} {level}").as_bytes())).collect()
}

/// Internal key, tweak and output of a taproot kind with a tree of scripts or none.
fn taproot_parts(kind: Kind, number: usize) -> (XOnlyPublicKey, Scalar, XOnlyPublicKey, Parity) {
    let (internal, _) = PublicKey::from_secret_key(&secret(number)).x_only_public_key();
    let mut root = Vec::new();
    if kind != Kind::TaprootKey {
        let leaf = leaf_hash(0xc0, &inner_script(kind, number));
        let above = |node: [u8; 32], other: [u8; 32]| tagged("TapBranch", &[&node.min(other), &node.max(other)]);
        root.extend(path(number).into_iter().fold(leaf, above));
    }
    let tweak = Scalar::from_be_bytes(tagged("TapTweak", &[&internal.to_byte_array(), &root])).unwrap();
    let (output, parity) = internal.add_tweak(&tweak).unwrap();
    (internal, tweak, output, parity)
}

/// The script of the spent coin.
pub(crate) fn coin_script(kind: Kind, number: usize) -> Vec<u8> {
    match kind {
        Kind::Key | Kind::KeyHash | Kind::BareMultisig => inner_script(kind, number),
        Kind::ScriptHashMultisig | Kind::WrappedKeyHash | Kind::WrappedMultisig => {
            script_hash(&redeem_script(kind, number))
        }
        Kind::WitnessKeyHash => witness_program(OP_0, &hash160(&key(number))),
        Kind::WitnessMultisig => witness_program(OP_0, &sha256(&inner_script(kind, number))),
        Kind::TaprootKey | Kind::TaprootScript | Kind::TaprootMultisig => {
            witness_program(OP_1, &taproot_parts(kind, number).2.to_byte_array())
        }
    }
}

pub(crate) fn sign_ecdsa(sighash: [u8; 32], number: usize, hash_type: u8) -> Vec<u8> {
    let mut signature = ecdsa::sign(Message::from_digest(sighash), &secret(number)).serialize_der().to_vec();
    signature.push(hash_type);
    signature
}

fn sign_schnorr(sighash: [u8; 32], pair: &Keypair, hash_type: u8) -> Vec<u8> {
    let mut signature = schnorr::sign_no_aux_rand(&sighash, pair).to_byte_array().to_vec();
    if hash_type != 0 {
        signature.push(hash_type);
    }
    signature
}

/// ScriptSig and witness of an input. A hash type that its kind does not have makes a bad signature.
fn unlock(tx: &Precomputed<'_>, input: usize, kind: Kind, number: usize, hash_type: u8) -> (Vec<u8>, Vec<Vec<u8>>) {
    let inner = inner_script(kind, number);
    let old = |n: usize| sign_ecdsa(legacy(tx, input, &inner, u32::from(hash_type)), number + n, hash_type);
    let segwit = |n: usize| sign_ecdsa(witness_v0(tx, input, &inner, u32::from(hash_type)), number + n, hash_type);
    let mut script_sig = Vec::new();
    let mut push = |item: &[u8]| push_data(&mut script_sig, item);
    let mut witness = Vec::new();
    match kind {
        Kind::Key => push(&old(0)),
        Kind::KeyHash => [&old(0)[..], &key(number)].into_iter().for_each(push),
        Kind::BareMultisig => [&[][..], &old(0), &old(2)].into_iter().for_each(push),
        Kind::ScriptHashMultisig => [&[][..], &old(0), &old(2), &inner].into_iter().for_each(push),
        Kind::WitnessKeyHash => witness = vec![segwit(0), key(number).to_vec()],
        Kind::WrappedKeyHash => {
            push(&redeem_script(kind, number));
            witness = vec![segwit(0), key(number).to_vec()];
        }
        Kind::WitnessMultisig => witness = vec![Vec::new(), segwit(0), segwit(2), inner],
        Kind::WrappedMultisig => {
            push(&redeem_script(kind, number));
            witness = vec![Vec::new(), segwit(0), segwit(2), inner];
        }
        Kind::TaprootKey | Kind::TaprootScript | Kind::TaprootMultisig => {
            witness = unlock_taproot(tx, input, kind, number, hash_type);
        }
    }
    (script_sig, witness)
}

fn unlock_taproot(tx: &Precomputed<'_>, input: usize, kind: Kind, number: usize, hash_type: u8) -> Vec<Vec<u8>> {
    let (internal, tweak, _, parity) = taproot_parts(kind, number);
    let pair = |n: usize| Keypair::from_secret_key(&secret(number + n));
    if kind == Kind::TaprootKey {
        let sighash = taproot(tx, input, hash_type, None, None).unwrap_or_default();
        return vec![sign_schnorr(sighash, &pair(0).add_xonly_tweak(&tweak).unwrap(), hash_type)];
    }
    let inner = inner_script(kind, number);
    let leaf = Leaf { hash: leaf_hash(0xc0, &inner), code_separator: u32::MAX };
    let sighash = taproot(tx, input, hash_type, None, Some(leaf)).unwrap_or_default();
    let sign = |n: usize| sign_schnorr(sighash, &pair(n), hash_type);
    let mut witness = if kind == Kind::TaprootScript { vec![sign(0)] } else { vec![sign(2), Vec::new(), sign(0)] };
    let first = 0xc0 | u8::from(parity == Parity::Odd);
    witness.extend([inner, [&[first][..], &internal.to_byte_array(), path(number).as_flattened()].concat()]);
    witness
}

/// A transaction that spends one coin of each of `kinds`, in order, with keys that follow from `number`.
pub(crate) fn spending(kinds: &[Kind], outputs: usize, hash_type: u8, number: usize) -> Spending {
    let number = |input: usize| number + input * 3;
    let coins: Vec<(i64, Vec<u8>)> = kinds
        .iter()
        .enumerate()
        .map(|(input, &kind)| (100_000 + input as i64, coin_script(kind, number(input))))
        .collect();
    let mut inputs: Vec<In> = (0..kinds.len())
        .map(|input| {
            let prevout = OutPoint { txid: Txid::from_bytes(sha256(&number(input).to_le_bytes())), vout: 0 };
            In { prevout, script_sig: Vec::new(), sequence: u32::MAX - 2, witness: Vec::new() }
        })
        .collect();
    let outputs: Vec<(i64, Vec<u8>)> =
        (0..outputs).map(|n| (1000 + n as i64, coin_script(Kind::WitnessKeyHash, number(0) + n))).collect();
    let unsigned = transaction(2, &inputs, &outputs, 0);
    let spent = Spending { bytes: Vec::new(), coins };
    let (mut tables, coins) = (Tables::new(), spent.spent());
    let tx = Precomputed::new(tables.parse_transaction(&unsigned).unwrap(), &coins);
    for (input, &kind) in kinds.iter().enumerate() {
        (inputs[input].script_sig, inputs[input].witness) = unlock(&tx, input, kind, number(input), hash_type);
    }
    let bytes = transaction(2, &inputs, &outputs, 0);
    Spending { bytes, ..spent }
}
