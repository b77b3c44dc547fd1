//! Large transactions before segwit: their messages are hashed many at a time and kept for a second run. The verdict is
//! that of each input on its own, whatever its scripts check and expect.

use primitives::encode::put_compact_size;
use primitives::{Amount, Tables};
use script::lanes::Compared;
use script::sighash::legacy;
use script::{
    Batch, Deferred, Ended, Flags, Immediate, OneByOne, Precomputed, Scratch, ScriptError, SpentOutput, VerifyOptions,
    lanes, verify, verify_all, verify_all_with,
};
use secp256k1::{Keypair, Message, SecretKey, ecdsa};
use std::cell::Cell;
use testkit::Rng;

const OP_IF: u8 = 0x63;
const OP_ENDIF: u8 = 0x68;
const OP_DROP: u8 = 0x75;
const OP_VERIFY: u8 = 0x69;
const OP_NOT: u8 = 0x91;
const OP_CODESEPARATOR: u8 = 0xab;
const OP_CHECKSIG: u8 = 0xac;
const OP_CHECKMULTISIG: u8 = 0xae;
const OP_1: u8 = 0x51;

/// A signature check of a script.
struct Step {
    /// Where the script code begins that it signs.
    code_start: usize,
    key: Keypair,
    hash_type: u8,
    /// Whether it is one of two keys.
    is_multisig: bool,
    is_good: bool,
    /// A signature of something else, which may stand in the script too.
    planted: Option<Vec<u8>>,
}

/// A script of some checks, and they.
fn script(rng: &mut Rng, keys: &[Keypair], is_honest: bool) -> (Vec<u8>, Vec<Step>) {
    let mut script = Vec::new();
    let mut steps = Vec::new();
    let mut code_start = 0;
    let mut hash_type = 1;
    // Scripts from 512 bytes on are read once for all checks.
    let most = [12, 40][rng.below(2)];
    for _ in 0..1 + rng.below(most) {
        if rng.below(3) == 0 {
            script.push(OP_CODESEPARATOR);
            code_start = script.len();
        }
        if rng.below(3) == 0 {
            hash_type = [1, 1, 2, 3, 0x81, 0x82, 0x83, 0, 4, 0x1f, 0xc1][rng.below(11)];
        }
        let key = keys[rng.below(keys.len())];
        let is_multisig = rng.below(4) == 0;
        let is_good = is_honest || rng.below(3) > 0;
        let planted = (!is_good && rng.below(2) == 0).then(|| {
            let signature = ecdsa::sign(Message::from_digest(rng.array()), &key.secret_key()).serialize_der();
            [&*signature, &[hash_type]].concat()
        });
        if let Some(signature) = planted.as_ref().filter(|_| rng.below(2) == 0) {
            // Twice, in a branch that never runs.
            script.extend([0, OP_IF]);
            for _ in 0..2 {
                script.push(signature.len() as u8);
                script.extend(signature);
            }
            script.push(OP_ENDIF);
        }
        let push = |script: &mut Vec<u8>, key: &Keypair| {
            script.push(33);
            script.extend(key.public_key().serialize());
        };
        if is_multisig {
            script.push(OP_1);
            push(&mut script, &key);
            push(&mut script, &keys[0]);
            script.extend([OP_1 + 1, OP_CHECKMULTISIG]);
        } else {
            push(&mut script, &key);
            script.push(OP_CHECKSIG);
        }
        steps.push(Step { code_start, key, hash_type, is_multisig, is_good, planted });
        match (is_good, rng.below(5)) {
            (_, 0) => script.push(OP_DROP),
            // Sometimes a bad signature is taken for a good one.
            (true, _) | (false, 1) => script.push(OP_VERIFY),
            (false, _) => script.extend([OP_NOT, OP_VERIFY]),
        }
    }
    script.push(OP_1);
    (script, steps)
}

/// A transaction whose inputs spend such scripts, with large outputs, and its coins' scripts.
fn transaction(rng: &mut Rng, keys: &[Keypair], is_honest: bool) -> (Vec<u8>, Vec<Vec<u8>>) {
    let count = [1, 2, 5, 13, 40][rng.below(5)];
    // Messages of inputs with the same script have the same ends, at the same places in blocks of SHA-256.
    let shared = (rng.below(3) == 0).then(|| rng.u64());
    let own = |_| match shared {
        Some(seed) => script(&mut Rng::new(seed), keys, is_honest),
        None => script(rng, keys, is_honest),
    };
    let scripts: Vec<_> = (0..count).map(own).collect();
    let outputs: Vec<Vec<u8>> = (0..1 + rng.below(30)).map(|_| vec![0x6a; rng.below(3000)]).collect();
    let sequences: Vec<u32> = (0..count).map(|_| rng.u64() as u32).collect();
    let build = |script_sigs: &[Vec<u8>]| {
        let mut bytes = vec![1, 0, 0, 0];
        put_compact_size(&mut bytes, count as u64);
        for (at, script_sig) in script_sigs.iter().enumerate() {
            bytes.extend([at as u8; 36]);
            put_compact_size(&mut bytes, script_sig.len() as u64);
            bytes.extend(script_sig);
            bytes.extend(sequences[at].to_le_bytes());
        }
        put_compact_size(&mut bytes, outputs.len() as u64);
        for script in &outputs {
            bytes.extend(5u64.to_le_bytes());
            put_compact_size(&mut bytes, script.len() as u64);
            bytes.extend(script);
        }
        bytes.extend([0; 4]);
        bytes
    };
    let unsigned = build(&vec![Vec::new(); count]);
    let coins: Vec<Vec<u8>> = scripts.iter().map(|(script, _)| script.clone()).collect();
    let spent = spent(&coins);
    let mut tables = Tables::new();
    let tx = Precomputed::new(tables.parse_transaction(&unsigned).unwrap(), &spent);
    let sign = |input: usize, script: &[u8], step: &Step| {
        let mut push = if step.is_multisig { vec![0] } else { Vec::new() };
        if let Some(planted) = &step.planted {
            push.push(planted.len() as u8);
            push.extend(planted);
            return push;
        }
        let mut hash = legacy(&tx, input, &script[step.code_start..], u32::from(step.hash_type));
        hash[7] ^= u8::from(!step.is_good);
        let signature = ecdsa::sign(Message::from_digest(hash), &step.key.secret_key());
        let der = signature.serialize_der();
        push.push(der.len() as u8 + 1);
        push.extend(&*der);
        push.push(step.hash_type);
        push
    };
    let script_sigs = scripts.iter().enumerate().map(|(input, (script, steps))| {
        // The first check takes what was pushed last.
        steps.iter().rev().flat_map(|step| sign(input, script, step)).collect()
    });
    let script_sigs: Vec<Vec<u8>> = script_sigs.collect();
    (build(&script_sigs), coins)
}

fn spent(coins: &[Vec<u8>]) -> Vec<SpentOutput<'_>> {
    coins.iter().map(|script| SpentOutput { value: Amount(1), script }).collect()
}

#[test]
fn long_messages_give_the_verdict_of_each_input() {
    let mut rng = Rng::new(44);
    let keys: Vec<Keypair> =
        (0..5).map(|_| Keypair::from_secret_key(&SecretKey::from_secret_bytes(rng.array()).unwrap())).collect();
    // Before strict encodings: hash types of all kinds.
    let flags = Flags::P2SH;
    let batches: [(&str, &dyn Batch); 3] =
        [("one by one", &OneByOne), ("best", &lanes::best(kernels::Kernels::AUTO)), ("lanes", &Compared)];
    let mut accepted = 0;
    let mut refused = 0;
    for round in 0..if testkit::is_slow() { 2000 } else { 60 } {
        let (bytes, coins) = transaction(&mut rng, &keys, round % 4 == 0);
        let spent = spent(&coins);
        let mut tables = Tables::new();
        let tx = Precomputed::new(tables.parse_transaction(&bytes).unwrap(), &spent);
        let mut scratch = Scratch::new();
        let alone: Vec<Result<(), ScriptError>> =
            (0..coins.len()).map(|input| verify(&tx, input, flags, &mut Immediate, &mut scratch)).collect();
        let want = alone.iter().enumerate().try_for_each(|(place, verdict)| verdict.map_err(|why| (place, why)));
        // The signatures are of hashes that no interpreter has made.
        assert!(round % 4 > 0 || want.is_ok(), "round {round}: honest ones are accepted: {want:?}");
        let good = (0..coins.len()).filter(|input| alone[*input].is_ok());
        (accepted, refused) = (accepted + good.clone().count(), refused + coins.len() - good.clone().count());
        for (name, batch) in batches {
            for mut deferred in [Deferred::new(), Deferred::for_batch(batch)] {
                let all = (0..coins.len()).map(|input| (&tx, input));
                let got = verify_all(all, flags, batch, &mut deferred, &mut scratch);
                assert_eq!(got, want, "round {round}, {name}");
                let good = good.clone().map(|input| (&tx, input));
                assert_eq!(
                    verify_all(good, flags, batch, &mut deferred, &mut scratch),
                    Ok(()),
                    "round {round}, {name}"
                );
            }
        }
    }
    assert!(accepted > 100 && refused > 100, "{accepted} accepted, {refused} refused");
}

/// Signatures of other hashes, so that each input runs again.
#[test]
fn stop_is_asked_before_an_input_runs_again() {
    let mut rng = Rng::new(45);
    let keys = [Keypair::from_secret_key(&SecretKey::from_secret_bytes(rng.array()).unwrap())];
    let push = |script: &mut Vec<u8>, bytes: &[u8]| {
        script.push(bytes.len() as u8);
        script.extend(bytes);
    };
    let mut coin = Vec::new();
    push(&mut coin, &keys[0].public_key().serialize());
    coin.extend([OP_CHECKSIG, OP_NOT]);
    let der = ecdsa::sign(Message::from_digest([7; 32]), &keys[0].secret_key()).serialize_der();
    let mut bytes = vec![1, 0, 0, 0, 20];
    for at in 0..20 {
        bytes.extend([at; 36]);
        let mut script_sig = Vec::new();
        push(&mut script_sig, &[&*der, &[1]].concat());
        put_compact_size(&mut bytes, script_sig.len() as u64);
        bytes.extend(script_sig);
        bytes.extend([0xff; 4]);
    }
    bytes.extend([1, 0, 0, 0, 0, 0, 0, 0, 0, 0xfd, 0x00, 0x10]);
    bytes.extend([0x6a; 0x1000]);
    bytes.extend([0; 4]);
    let coins = vec![coin; 20];
    let spent = spent(&coins);
    let mut tables = Tables::new();
    let tx = Precomputed::new(tables.parse_transaction(&bytes).unwrap(), &spent);
    for (after, want) in [(0, Ended::Stopped), (7, Ended::Stopped), (19, Ended::Stopped), (20, Ended::Whole)] {
        let asked = Cell::new(0);
        let stop = || asked.replace(asked.get() + 1) == after;
        let inputs = (0..coins.len()).map(|input| (&tx, input));
        let best = lanes::best(kernels::Kernels::AUTO);
        let mut deferred = Deferred::for_batch(&best);
        let mut scratch = Scratch::new();
        let options = VerifyOptions { flags: Flags::P2SH, batch: &best, hints: &|_| None, found: None, stop: &stop };
        let ended = verify_all_with(inputs, options, &mut deferred, &mut scratch);
        assert_eq!(ended, Ok(want), "after {after}");
        assert_eq!(asked.get(), 20.min(after + 1), "after {after}");
    }
}
