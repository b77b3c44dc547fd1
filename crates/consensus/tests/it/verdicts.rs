//! Every verdict there is: its string, its class, and its place in Core's order.

use consensus::{BlockError, Class, Rule};
use primitives::{Amount, Hash256, Height, MedianTime, Txid};
use script::ScriptError;
use script::signet::SignetError;

const AMOUNT: Amount = Amount(150_000_000);

/// All rules in Core's order.
const RULES: [(Rule, &str, Class); 49] = [
    (Rule::DuplicateInvalid, "duplicate-invalid", Class::CachedInvalid),
    (Rule::HighHash { bits: 1 }, "high-hash", Class::InvalidHeader),
    (Rule::PrevBlkNotFound, "prev-blk-not-found", Class::MissingPrev),
    (Rule::BadPrevblk, "bad-prevblk", Class::InvalidPrev),
    (Rule::BadDiffbits { have: 1, want: 2 }, "bad-diffbits", Class::InvalidHeader),
    (Rule::TimeTooOld { time: 1, median_time_past: MedianTime::new(2) }, "time-too-old", Class::InvalidHeader),
    (Rule::TimeTimewarpAttack { time: 1, parent_time: 2, most_s: 600 }, "time-timewarp-attack", Class::InvalidHeader),
    (Rule::TimeNegativeInterval { time: 1, first_time: 2 }, "time-negative-interval", Class::InvalidHeader),
    (Rule::TimeTooNew { time: 1, now: 2 }, "time-too-new", Class::TimeFuture),
    (Rule::BadVersion { have: -2, want: 4 }, "bad-version(0xfffffffe)", Class::InvalidHeader),
    (Rule::TooLittleChainwork, "too-little-chainwork", Class::HeaderLowWork),
    (Rule::BadSignetBlksig { why: SignetError::NoCommitment }, "bad-signet-blksig", Class::Consensus),
    (Rule::BadTxnmrklroot { want: Hash256::ZERO, have: Hash256::ZERO }, "bad-txnmrklroot", Class::Mutated),
    (Rule::BadTxnsDuplicate, "bad-txns-duplicate", Class::Mutated),
    (Rule::Mutated64, "mutated", Class::Mutated),
    (Rule::BadBlkLength { transactions: 0, stripped_bytes: 81 }, "bad-blk-length", Class::Consensus),
    (Rule::BadCbMissing, "bad-cb-missing", Class::Consensus),
    (Rule::BadCbMultiple, "bad-cb-multiple", Class::Consensus),
    (Rule::BadTxnsVinEmpty, "bad-txns-vin-empty", Class::Consensus),
    (Rule::BadTxnsVoutEmpty, "bad-txns-vout-empty", Class::Consensus),
    (Rule::BadTxnsOversize { stripped_bytes: 1 }, "bad-txns-oversize", Class::Consensus),
    (Rule::BadTxnsVoutNegative { value: AMOUNT }, "bad-txns-vout-negative", Class::Consensus),
    (Rule::BadTxnsVoutToolarge { value: AMOUNT }, "bad-txns-vout-toolarge", Class::Consensus),
    (Rule::BadTxnsTxouttotalToolarge, "bad-txns-txouttotal-toolarge", Class::Consensus),
    (Rule::BadTxnsInputsDuplicate, "bad-txns-inputs-duplicate", Class::Consensus),
    (Rule::BadCbLength { bytes: 1 }, "bad-cb-length", Class::Consensus),
    (Rule::BadTxnsPrevoutNull, "bad-txns-prevout-null", Class::Consensus),
    (Rule::BadBlkSigops { sigops: 1 }, "bad-blk-sigops", Class::Consensus),
    (Rule::BadTxnsNonfinal { lock_time: 1 }, "bad-txns-nonfinal", Class::Consensus),
    (Rule::BadTxnsSize, "bad-txns-size", Class::Consensus),
    (Rule::BadCbHeight { want: Height::new(1) }, "bad-cb-height", Class::Consensus),
    (Rule::BadCbLocktime { have: 1, want: 2 }, "bad-cb-locktime", Class::Consensus),
    (Rule::BadCbSequence, "bad-cb-sequence", Class::Consensus),
    (Rule::BadWitnessNonceSize, "bad-witness-nonce-size", Class::Mutated),
    (Rule::BadWitnessMerkleMatch, "bad-witness-merkle-match", Class::Mutated),
    (Rule::UnexpectedWitness, "unexpected-witness", Class::Mutated),
    (Rule::BadBlkWeight { weight: 1 }, "bad-blk-weight", Class::Consensus),
    (Rule::BadTxnsBip30, "bad-txns-BIP30", Class::Consensus),
    (Rule::BadTxnsInputsMissingorspent, "bad-txns-inputs-missingorspent", Class::Consensus),
    (Rule::BadTxnsLegacySigops { sigops: 2501 }, "bad-txns-legacy-sigops", Class::Consensus),
    (Rule::BadTxnsPrematureSpendOfCoinbase { depth: 1 }, "bad-txns-premature-spend-of-coinbase", Class::Consensus),
    (Rule::BadTxnsInputvaluesOutofrange, "bad-txns-inputvalues-outofrange", Class::Consensus),
    (Rule::BadTxnsInBelowout { value_in: AMOUNT, value_out: AMOUNT }, "bad-txns-in-belowout", Class::Consensus),
    (Rule::BadTxnsFeeOutofrange, "bad-txns-fee-outofrange", Class::Consensus),
    (Rule::BadTxnsAccumulatedFeeOutofrange, "bad-txns-accumulated-fee-outofrange", Class::Consensus),
    (Rule::BadTxnsNonfinalBip68, "bad-txns-nonfinal", Class::Consensus),
    (Rule::BadBlkSigopCost { cost: 1 }, "bad-blk-sigops", Class::Consensus),
    (Rule::BadCbAmount { actual: AMOUNT, limit: AMOUNT }, "bad-cb-amount", Class::Consensus),
    (
        Rule::BlockScriptVerifyFlagFailed { error: ScriptError::EvalFalse },
        "block-script-verify-flag-failed (Script evaluated without error but finished with a false/empty top stack element)",
        Class::Consensus,
    ),
];

/// Some rules are checked in one loop, item by item: of them the earlier item speaks first, not the earlier rule.
fn same_loop(a: &str, b: &str) -> bool {
    let loops = [
        ["bad-txns-vout-negative", "bad-txns-vout-toolarge", "bad-txns-txouttotal-toolarge"],
        ["bad-cb-length", "bad-txns-prevout-null", ""],
        ["bad-txns-premature-spend-of-coinbase", "bad-txns-inputvalues-outofrange", ""],
    ];
    loops.iter().any(|rules| rules.contains(&a) && rules.contains(&b))
}

#[test]
fn every_rule_has_reason_and_class() {
    for (at, (rule, reason, class)) in RULES.iter().enumerate() {
        let error = BlockError::from(*rule);
        assert_eq!((error.reject_reason().as_ref(), error.class()), (*reason, *class));
        assert_eq!(error.mutated(), *class == Class::Mutated);
        let text = error.to_string();
        let words = text.strip_prefix(&format!("{reason}, ")).unwrap_or_else(|| panic!("{text}"));
        assert!(words.len() > 8, "{text}");
        for (later, other, _) in &RULES[at + 1..] {
            let ranks = (error.rank(), BlockError::from(*later).rank());
            assert!(ranks.0 < ranks.1 || (ranks.0 == ranks.1 && same_loop(reason, other)), "{reason}, {other}");
        }
    }
}

/// Core goes through all transactions for one step before it goes on to the next.
#[test]
fn first_failure_follows_the_steps_of_core() {
    let id = Txid::from_bytes([5; 32]);
    let script = Rule::BlockScriptVerifyFlagFailed { error: ScriptError::EvalFalse };
    let (missing, cost) = (Rule::BadTxnsInputsMissingorspent, Rule::BadBlkSigopCost { cost: 80_001 });
    let amount = Rule::BadCbAmount { actual: AMOUNT, limit: AMOUNT };
    for (row, first, second) in [
        ("a lower transaction", BlockError::in_transaction(cost, 3, id), BlockError::in_input(missing, 4, id, 0)),
        ("an earlier step", BlockError::in_input(missing, 3, id, 9), BlockError::in_transaction(cost, 3, id)),
        ("a lower input", BlockError::in_input(missing, 3, id, 1), BlockError::in_input(missing, 3, id, 2)),
        ("scripts speak last", BlockError::from(amount), BlockError::in_input(script, 1, id, 0)),
        ("the first script", BlockError::in_input(script, 1, id, 7), BlockError::in_input(script, 2, id, 0)),
        (
            "bodies before coins",
            BlockError::in_transaction(Rule::BadTxnsVinEmpty, 9, id),
            BlockError::in_input(missing, 1, id, 0),
        ),
    ] {
        assert_eq!((first.first(second), second.first(first)), (first, first), "{row}");
    }
}

#[test]
fn amounts_print_as_in_core() {
    for (value_in, text) in [
        (0, "(0.00)"),
        (1, "(0.00000001)"),
        (150_000_000, "(1.50)"),
        (123_456_789, "(1.23456789)"),
        (-10, "(-0.0000001)"),
    ] {
        let rule = Rule::BadTxnsInBelowout { value_in: Amount(value_in), value_out: AMOUNT };
        let got = BlockError::from(rule).to_string();
        assert!(got.contains(&format!("value in {text} < value out (1.50)")), "{got}");
    }
}
