//! Experiment: verify many signatures: by libsecp256k1, separately in vector lanes, and Schnorr signatures as one
//! batch sum.
//!
//! All are valid. If a batch has an invalid one, the sum is wasted and the lanes run after it.

use crate::bench::Bench;
use crate::input::{Inputs, Rng};
use crate::{Error, Experiment};
use script::check::KeyBytes;
use script::lanes::best;
use script::{Batch, Check, Lanes, OneByOne};
use secp256k1::{Keypair, Message, ecdsa, schnorr};

pub(crate) const EXPERIMENT: Experiment =
    Experiment { tables: &[ECDSA, SCHNORR_64, SCHNORR_256, SCHNORR_1024, SCHNORR_4096], run };

const ECDSA: &str = "signatures: ECDSA, 256 at once";
const SCHNORR_64: &str = "signatures: Schnorr, 64 at once";
const SCHNORR_256: &str = "signatures: Schnorr, 256 at once";
const SCHNORR_1024: &str = "signatures: Schnorr, 1,024 at once";
/// The number of signatures in a task of the pipeline.
const SCHNORR_4096: &str = "signatures: Schnorr, 4,096 at once";

fn run(bench: &mut Bench<'_>, _: &Inputs) -> Result<(), Error> {
    table(bench, ECDSA, 256, by_ecdsa)?;
    table(bench, SCHNORR_64, 64, by_schnorr)?;
    table(bench, SCHNORR_256, 256, by_schnorr)?;
    table(bench, SCHNORR_1024, 1024, by_schnorr)?;
    table(bench, SCHNORR_4096, 4096, by_schnorr)
}

fn table(
    bench: &mut Bench<'_>,
    name: &'static str,
    count: usize,
    sign: fn(&Keypair, [u8; 32]) -> Check,
) -> Result<(), Error> {
    if !bench.wants(name) {
        return Ok(());
    }
    let count = bench.size(count.min(64), count);
    let mut rng = Rng(21);
    let random = |rng: &mut Rng| -> [u8; 32] { rng.bytes(32).try_into().expect("32 bytes were asked for") };
    let checks: Vec<Check> = (0..count)
        .map(|_| {
            let pair = Keypair::from_secret_bytes(random(&mut rng)).expect("nearly every number is a secret");
            sign(&pair, random(&mut rng))
        })
        .collect();
    let checks = &checks[..];
    let Some(mut table) = bench.table(name, "signature", count) else { return Ok(()) };
    table.way("libsecp256k1, one by one", move || OneByOne.verify(checks));
    for lanes in Lanes::available().into_iter().filter(|lanes| lanes.is_fast()) {
        table.way(format!("{}, separately", lanes.name()), move || lanes.prove_each(checks));
        if name != ECDSA {
            table.way(format!("{}, one sum", lanes.name()), move || vec![lanes.hold_by_sum(checks); checks.len()]);
        }
    }
    table.way("what verifies blocks here", move || best(kernels::Kernels::AUTO).verify(checks));
    table.shipped();
    bench.run(table)
}

fn by_ecdsa(pair: &Keypair, sighash: [u8; 32]) -> Check {
    let signature = ecdsa::sign(Message::from_digest(sighash), &pair.secret_key()).serialize_compact();
    let key = KeyBytes::new(&pair.public_key().serialize()).expect("33 bytes");
    Check::Ecdsa { signature, key, sighash, odd: None }
}

fn by_schnorr(pair: &Keypair, sighash: [u8; 32]) -> Check {
    let signature = schnorr::sign_no_aux_rand(&sighash, pair).to_byte_array();
    Check::Schnorr { signature, key: pair.x_only_public_key().0.to_byte_array(), sighash }
}
