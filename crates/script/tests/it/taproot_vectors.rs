//! Core's feature_taproot dump: thousands of inputs, with a witness that makes each succeed and one that makes it fail.

use crate::data;
use primitives::Tables;
use script::lanes::Compared;
use script::{Deferred, Flags, Immediate, Precomputed, Scratch, verify, verify_all};
use serde_json::Value;
use testkit::blocks::{In, transaction};

/// Every combination of the flags of consensus that is consistent.
fn combinations() -> Vec<Flags> {
    let single: Vec<Flags> = Flags::NAMES.iter().map(|&(_, flag)| flag).filter(|&f| Flags::CONSENSUS.has(f)).collect();
    let all = (0..1u32 << single.len()).map(|bits| {
        let chosen = single.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
        chosen.fold(Flags::NONE, |flags, (_, &flag)| flags | flag)
    });
    all.filter(|flags| flags.is_consistent() && (!flags.has(Flags::TAPROOT) || flags.has(Flags::WITNESS))).collect()
}

/// The transaction of a case with scriptSig and witness of its input put in.
fn spending(case: &Value, input: usize, with: &Value) -> Vec<u8> {
    let bytes = data::unhex(&case["tx"]);
    let mut tables = Tables::new();
    let tx = tables.parse_transaction(&bytes).unwrap();
    let inputs: Vec<In> = tx
        .inputs()
        .enumerate()
        .map(|(index, old)| {
            let (script_sig, witness) = if index == input {
                (data::unhex(&with["scriptSig"]), with["witness"].as_array().unwrap().iter().map(data::unhex).collect())
            } else {
                (old.script_sig().to_vec(), old.witness().map(<[u8]>::to_vec).collect())
            };
            In { prevout: old.prevout(), script_sig, sequence: old.sequence(), witness }
        })
        .collect();
    let outputs: Vec<(i64, Vec<u8>)> =
        tx.outputs().map(|output| (output.value().0, output.script().to_vec())).collect();
    transaction(tx.version(), &inputs, &outputs, tx.lock_time())
}

#[test]
fn every_case_of_script_assets() {
    let Some(cases) = data::json("scripts/script_assets_kmp.json.xz") else { return };
    let all = combinations();
    assert_eq!(all.len(), 64);
    let mut scratch = Scratch::new();
    let (mut successes, mut failures, mut runs, mut checks) = (0, 0, 0, 0);
    for case in cases.as_array().unwrap() {
        let flags = data::flags(case["flags"].as_str().unwrap());
        let prevouts: Vec<u8> = case["prevouts"].as_array().unwrap().iter().flat_map(data::unhex).collect();
        let spent = data::outputs(&prevouts);
        let input = case["index"].as_u64().unwrap() as usize;
        let is_final = case["final"].as_bool().unwrap_or(false);
        for kind in ["success", "failure"] {
            let Some(with) = case.get(kind) else { continue };
            let good = kind == "success";
            *(if good { &mut successes } else { &mut failures }) += 1;
            let bytes = spending(case, input, with);
            let mut tables = Tables::new();
            let precomputed = Precomputed::new(tables.parse_transaction(&bytes).unwrap(), &spent);
            let mut want = |flags: Flags| {
                let verdict = verify(&precomputed, input, flags, &mut Immediate, &mut scratch);
                assert_eq!(verdict.is_ok(), good, "{kind} under {flags:?}: {verdict:?}, {}", case["comment"]);
                runs += 1;
            };
            want(flags);
            let mut deferred = Deferred::with_pairs();
            let later = verify_all([(&precomputed, input)], flags, &Compared, &mut deferred, &mut Scratch::new());
            assert_eq!(later.is_ok(), good, "{kind} in lanes: {later:?}, {}", case["comment"]);
            checks += deferred.checks().len();
            // A success holds under fewer flags, a final one under all; a failure under more.
            let binds = |other: &Flags| if good { is_final || flags.has(*other) } else { other.has(flags) };
            for &other in all.iter().filter(|other| binds(other)) {
                want(other);
            }
        }
    }
    assert_eq!((successes, failures), (2760, 2483), "cases");
    assert!(checks > successes, "{checks} checks in lanes");
    println!("{runs} runs, {checks} checks in lanes");
}
