//! The blocks of each kind.
//!
//! Consensus limits determine them: a block has at most 4,000,000 weight units and a sigops cost of 80,000; a script
//! before tapscript has at most 10,000 bytes and 201 operations, without pushes; tapscript allows one check for each 50
//! units of a witness.

use super::Kind;
use super::blocks::{Blocks, OP_TRUE, Spendable};
use super::scripts::*;
use super::tx::{Input, Output, Tx};
use crate::chain::Error;
use kernels::sha256::sha256d;
use secp256k1::schnorr;

/// Value of each coin that is created for a later spend.
const VALUE: u64 = 1_000;

/// Appends blocks that create the coins of a kind, then the blocks of the kind; returns the number of the latter.
pub(super) fn append(kind: Kind, blocks: &mut Blocks) -> Result<u32, Error> {
    match kind {
        Kind::QuadraticLegacy => quadratic_legacy(blocks),
        Kind::SigopsBadLast => sigops_bad_last(blocks),
        Kind::FindAndDelete => find_and_delete(blocks),
        Kind::Multisig => multisig(blocks),
        Kind::CodeSeparator => code_separator(blocks),
        Kind::DeepMast => deep_mast(blocks),
        Kind::Tapscript => tapscript(blocks),
        Kind::ScriptCache => script_cache(blocks),
    }
}

fn outputs(script: &[u8], count: usize) -> Vec<Output> {
    vec![Output { value: VALUE, script: script.to_vec() }; count]
}

/// An output of value zero with `bytes` bytes.
fn ballast(bytes: usize) -> Output {
    let mut script = vec![0x6a, OP_PUSHDATA2];
    script.extend_from_slice(&(bytes as u16).to_le_bytes());
    script.resize(script.len() + bytes, 0x55);
    Output { value: 0, script }
}

/// Outputs of about `bytes` bytes in all.
fn ballasts(bytes: usize) -> Vec<Output> {
    const ONE: usize = 50_000;
    (0..bytes / ONE).map(|_| ballast(ONE)).collect()
}

fn spending(coins: &[Spendable], outputs: Vec<Output>) -> Tx {
    Tx { inputs: coins.iter().map(Spendable::input).collect(), outputs }
}

/// A transaction of 1,000,000 bytes with 4,000 inputs, each with a different key and a signature.
fn quadratic_legacy(blocks: &mut Blocks) -> Result<u32, Error> {
    const INPUTS: u32 = 4_000;
    const BALLAST: usize = 520_000;
    let scripts = (0..INPUTS).map(|number| {
        let mut script = Vec::new();
        push(&mut script, &public(&pair(number)));
        script.push(OP_CHECKSIG);
        script
    });
    let scripts: Vec<Vec<u8>> = scripts.collect();
    let coins = blocks.fund(scripts.iter().map(|script| Output { value: VALUE, script: script.clone() }).collect())?;
    let mut tx = spending(&coins, ballasts(BALLAST));
    let unsigned = tx.clone();
    for (number, script) in (0..INPUTS).zip(&scripts) {
        let hash = sha256d(&unsigned.legacy_message(number as usize, script));
        push(&mut tx.inputs[number as usize].script, &sign(hash, &pair(number)));
    }
    blocks.append(&[tx])?;
    Ok(1)
}

/// As many checks as fit, each with a different signature and key; the last check of the last input fails.
fn sigops_bad_last(blocks: &mut Blocks) -> Result<u32, Error> {
    const INPUTS: u32 = 200;
    const CHECKS: u32 = 180;
    let script = |input: u32| {
        let mut script = Vec::new();
        for check in 0..CHECKS {
            push(&mut script, &public(&pair(input * CHECKS + check)));
            script.push(if check + 1 < CHECKS { OP_CHECKSIGVERIFY } else { OP_CHECKSIG });
        }
        script
    };
    let scripts: Vec<Vec<u8>> = (0..INPUTS).map(script).collect();
    let coins = blocks.fund(scripts.iter().map(|script| Output { value: VALUE, script: p2wsh(script) }).collect())?;
    let mut tx = spending(&coins, vec![Output { value: VALUE, script: vec![OP_TRUE] }]);
    for (input, script) in (0..INPUTS).zip(scripts) {
        let hash = tx.witness_v0_hash(input as usize, &script, VALUE);
        let last = (input + 1) * CHECKS - 1;
        // The first check uses the last pushed items.
        let signatures = (input * CHECKS..=last).rev().map(|number| {
            let is_bad = number + 1 == INPUTS * CHECKS;
            sign(hash, &pair(number + u32::from(is_bad)))
        });
        tx.inputs[input as usize].witness = signatures.chain([script]).collect();
    }
    blocks.append(&[tx])?;
    Ok(1)
}

/// A legacy script that checks its signature `checks` times, with a separator before each check. All checks fail, but
/// the script ends with true. The `dead` bytes are searched, but never run.
fn failing_checks(number: u32, checks: usize, dead: &[u8]) -> Vec<u8> {
    let key = public(&pair(number));
    let mut script = Vec::new();
    for _ in 0..checks {
        script.push(OP_DUP);
        push(&mut script, &key);
        script.extend_from_slice(&[OP_CODESEPARATOR, OP_CHECKSIG, OP_DROP]);
    }
    script.extend_from_slice(&[OP_DROP, OP_0, OP_IF]);
    script.extend_from_slice(dead);
    script.extend_from_slice(&[OP_ENDIF, OP_1]);
    script
}

/// Appends a block with one transaction that spends these outputs with wrong signatures, and has `ballast` additional
/// bytes.
fn append_wrongly_signed(blocks: &mut Blocks, outputs: Vec<Output>, ballast: usize) -> Result<u32, Error> {
    let coins = blocks.fund(outputs)?;
    let mut tx = spending(&coins, ballasts(ballast));
    for (number, input) in (0..).zip(&mut tx.inputs) {
        push(&mut input.script, &wrong_signature(number));
    }
    blocks.append(&[tx])?;
    Ok(1)
}

/// Scripts of 10,000 bytes, mostly pushes of one byte, which contain the signature several times.
fn find_and_delete(blocks: &mut Blocks) -> Result<u32, Error> {
    const SCRIPT_BYTES: usize = 10_000;
    const CHECKS: usize = 48;
    const INPUTS: u32 = 360;
    let own = |number: u32| {
        let mut dead = Vec::new();
        let signature = wrong_signature(number);
        (0..4).for_each(|_| push(&mut dead, &signature));
        dead.resize(SCRIPT_BYTES - failing_checks(number, CHECKS, &[]).len(), OP_0);
        failing_checks(number, CHECKS, &dead)
    };
    let outputs = (0..INPUTS).map(|number| Output { value: VALUE, script: own(number) });
    append_wrongly_signed(blocks, outputs.collect(), 100_000)
}

/// Each input has 49 checks, with a separator before each, so it needs 49 hashes of a transaction of 1,000,000 bytes.
fn code_separator(blocks: &mut Blocks) -> Result<u32, Error> {
    const CHECKS: usize = 49;
    const INPUTS: u32 = 80;
    let outputs = (0..INPUTS).map(|number| Output { value: VALUE, script: failing_checks(number, CHECKS, &[]) });
    append_wrongly_signed(blocks, outputs.collect(), 950_000)
}

/// The matching key is the first of 20, because keys are tried from the last one down.
fn multisig(blocks: &mut Blocks) -> Result<u32, Error> {
    const INPUTS: usize = 3_900;
    const KEYS: u32 = 20;
    let mut script = vec![OP_1];
    (0..KEYS).for_each(|number| push(&mut script, &public(&pair(number))));
    script.extend_from_slice(&[1, KEYS as u8, OP_CHECKMULTISIG]);
    let coins = blocks.fund(outputs(&p2wsh(&script), INPUTS))?;
    // The hashes of all inputs are computed once for each transaction. There are several transactions, so that the
    // generation is not quadratic.
    let mut txs = Vec::new();
    for some in coins.chunks(INPUTS / 20) {
        let mut tx = spending(some, vec![Output { value: VALUE, script: vec![OP_TRUE] }]);
        for index in 0..some.len() {
            let hash = tx.witness_v0_hash(index, &script, VALUE);
            tx.inputs[index].witness = vec![Vec::new(), sign(hash, &pair(0)), script.clone()];
        }
        txs.push(tx);
    }
    blocks.append(&txs)?;
    Ok(1)
}

/// Depth of a Merkle tree of scripts. Source: BIP-0341.
const DEPTH_MAX: usize = 128;

/// Inputs that reveal a script 128 levels deep, which runs no operations.
fn deep_mast(blocks: &mut Blocks) -> Result<u32, Error> {
    const BLOCKS: usize = 24;
    const INPUTS: usize = 910;
    let script = vec![OP_1];
    let (output, control) = taproot(&script, DEPTH_MAX);
    let coins = blocks.fund(outputs(&output, BLOCKS * INPUTS))?;
    for some in coins.chunks(INPUTS) {
        let mut tx = spending(some, vec![Output { value: VALUE, script: vec![OP_TRUE] }]);
        for input in &mut tx.inputs {
            input.witness = vec![script.clone(), control.clone()];
        }
        blocks.append(&[tx])?;
    }
    Ok(BLOCKS as u32)
}

/// 79,000 checks of Schnorr signatures: each takes 35 bytes of script, and 15 bytes that add to the budget.
fn tapscript(blocks: &mut Blocks) -> Result<u32, Error> {
    const INPUTS: u32 = 40;
    const CHECKS: usize = 1_960;
    const PAYS: [u8; 15] = [13, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, OP_DROP];
    let own = |number: u32| {
        let key = pair(number).x_only_public_key().0.to_byte_array();
        let mut script = Vec::new();
        for _ in 1..CHECKS {
            script.push(OP_DUP);
            push(&mut script, &key);
            script.push(OP_CHECKSIGVERIFY);
            script.extend_from_slice(&PAYS);
        }
        push(&mut script, &key);
        script.push(OP_CHECKSIG);
        script
    };
    let leaves: Vec<_> = (0..INPUTS).map(|number| (own(number), number)).collect();
    let proofs: Vec<_> = leaves.iter().map(|(script, _)| taproot(script, 0)).collect();
    let coins = proofs.iter().map(|(output, _)| Output { value: VALUE, script: output.clone() });
    let coins = blocks.fund(coins.collect())?;
    let spent: Vec<Output> = coins.iter().map(|coin| coin.output.clone()).collect();
    let mut tx = spending(&coins, vec![Output { value: VALUE, script: vec![OP_TRUE] }]);
    for (index, ((script, number), (_, control))) in leaves.into_iter().zip(proofs).enumerate() {
        let hash = tx.tapscript_hash(index, &spent, &tapleaf(&script));
        let signature = schnorr::sign_no_aux_rand(&hash, &pair(number)).to_byte_array().to_vec();
        tx.inputs[index].witness = vec![signature, script, control];
    }
    blocks.append(&[tx])?;
    Ok(1)
}

/// Chains of transactions with one input and one output, each with a unique script in its witness.
fn script_cache(blocks: &mut Blocks) -> Result<u32, Error> {
    const BLOCKS: u32 = 24;
    const CHAINS: u32 = 100;
    const LENGTH: u32 = 95;
    let own = |number: u32| {
        let mut script = Vec::new();
        push(&mut script, &number.to_le_bytes());
        script.extend_from_slice(&[OP_DROP, OP_1]);
        script
    };
    let script_of = |block: u32, chain: u32, at: u32| own((block * CHAINS + chain) * (LENGTH + 1) + at);
    let firsts =
        (0..BLOCKS * CHAINS).map(|n| Output { value: VALUE, script: p2wsh(&script_of(n / CHAINS, n % CHAINS, 0)) });
    let coins = blocks.fund(firsts.collect())?;
    for block in 0..BLOCKS {
        let mut txs = Vec::new();
        for chain in 0..CHAINS {
            let mut before = coins[(block * CHAINS + chain) as usize].input();
            for at in 0..LENGTH {
                let witness = vec![script_of(block, chain, at)];
                let output = Output { value: VALUE, script: p2wsh(&script_of(block, chain, at + 1)) };
                let tx = Tx { inputs: vec![Input { witness, ..before }], outputs: vec![output] };
                before = Input { txid: tx.txid(), ..Input::default() };
                txs.push(tx);
            }
        }
        blocks.append(&txs)?;
    }
    Ok(BLOCKS)
}
