//! Assumevalid: whether the scripts of a block must run, and the reason in Core's words.
//!
//! Only script execution is ever skipped. Everything else is checked for every block.

use primitives::{Height, Work};
use std::fmt;

/// Seconds of work, at the best header's difficulty, that must be on top of a block whose scripts are not run.
pub const TWO_WEEKS_S: i64 = 60 * 60 * 24 * 7 * 2;

/// The block that is assumed to be valid (`-assumevalid`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AssumedValid {
    /// Nothing is assumed (`-assumevalid=0`).
    Nothing,
    /// No header with that hash is known.
    UnknownHeader,
    /// Its header is known.
    Known {
        /// Its height.
        height: Height,
        /// Whether the block to be checked is this block or an ancestor of it.
        contains_block: bool,
    },
}

/// The header with the most work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BestHeader {
    /// Work of its chain.
    pub chain_work: Work,
    /// Bits of its header.
    pub bits: u32,
    /// Whether the block to be checked is this block or an ancestor of it.
    pub contains_block: bool,
}

/// The block to be checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockInChain {
    /// Its height.
    pub height: Height,
    /// Work of the chain up to it.
    pub chain_work: Work,
}

/// Why the scripts of a block must run. `Display` gives Core's words.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScriptCheckReason {
    /// `assumevalid=0 (always verify)`.
    AlwaysVerify,
    /// `assumevalid hash not in headers`.
    HashNotInHeaders,
    /// `block height above assumevalid height`.
    AboveAssumedValid,
    /// `block not in assumevalid chain`.
    NotInAssumedValidChain,
    /// `block not in best header chain`.
    NotInBestHeaderChain,
    /// `best header chainwork below minimumchainwork`.
    LowChainWork,
    /// `block too recent relative to best header`.
    TooRecent,
}

impl fmt::Display for ScriptCheckReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ScriptCheckReason::AlwaysVerify => "assumevalid=0 (always verify)",
            ScriptCheckReason::HashNotInHeaders => "assumevalid hash not in headers",
            ScriptCheckReason::AboveAssumedValid => "block height above assumevalid height",
            ScriptCheckReason::NotInAssumedValidChain => "block not in assumevalid chain",
            ScriptCheckReason::NotInBestHeaderChain => "block not in best header chain",
            ScriptCheckReason::LowChainWork => "best header chainwork below minimumchainwork",
            ScriptCheckReason::TooRecent => "block too recent relative to best header",
        })
    }
}

/// Why the scripts of `block` must run; `None` if they may be skipped.
///
/// `minimum_chain_work` is the configured value, `spacing_s` the network's seconds a block.
///
/// Source: Bitcoin Core b88bffe, `Chainstate::ConnectBlock`.
pub fn script_check_reason(
    assumed: AssumedValid,
    block: BlockInChain,
    best: BestHeader,
    minimum_chain_work: Work,
    spacing_s: u32,
) -> Option<ScriptCheckReason> {
    match assumed {
        AssumedValid::Nothing => return Some(ScriptCheckReason::AlwaysVerify),
        AssumedValid::UnknownHeader => return Some(ScriptCheckReason::HashNotInHeaders),
        AssumedValid::Known { height, contains_block: false } => {
            let above = block.height > height;
            let above_it = ScriptCheckReason::AboveAssumedValid;
            let beside_it = ScriptCheckReason::NotInAssumedValidChain;
            return Some(if above { above_it } else { beside_it });
        }
        AssumedValid::Known { contains_block: true, .. } => {}
    }
    if !best.contains_block {
        return Some(ScriptCheckReason::NotInBestHeaderChain);
    }
    if best.chain_work < minimum_chain_work {
        return Some(ScriptCheckReason::LowChainWork);
    }
    let seconds = proof_equivalent_time_s(best.chain_work, block.chain_work, best.bits, spacing_s);
    (seconds <= TWO_WEEKS_S).then_some(ScriptCheckReason::TooRecent)
}

/// Seconds of mining between the chain works `from` and `to`, if a block with `bits` takes `spacing_s`; negative if
/// `from` has more work. The result saturates at 63 bits. Bits without work, which no header in a chain has, count as
/// one hash.
///
/// Source: Bitcoin Core b88bffe, `GetBlockProofEquivalentTime`.
pub fn proof_equivalent_time_s(to: Work, from: Work, bits: u32, spacing_s: u32) -> i64 {
    let proof = Work::of_bits(bits).max(Work(primitives::U256::from_u64(1)));
    let (work, sign) = if to > from { (to.saturating_sub(from), 1) } else { (from.saturating_sub(to), -1) };
    let seconds = work.0.wrapping_mul_u64(u64::from(spacing_s)).quotient(proof.0);
    sign * i64::try_from(seconds.low_u64()).ok().filter(|_| seconds.bits() <= 63).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::U256;

    fn work(n: u64) -> Work {
        Work(U256::from_u64(n))
    }

    /// Blocks of difficulty 1 (4,295,032,833 hashes), 600 seconds each: two weeks are 2016 of them.
    #[test]
    fn script_checks_are_skipped_only_if_all_conditions_hold() {
        const PROOF: u64 = 0x1_0001_0001;
        let known = |height, contains_block| AssumedValid::Known { height, contains_block };
        let best =
            |blocks, contains_block| BestHeader { chain_work: work(PROOF * blocks), bits: 0x1d00_ffff, contains_block };
        for (row, assumed, best, minimum, want) in [
            ("all hold", known(Height::new(200), true), best(2118, true), 0, None),
            ("nothing assumed", AssumedValid::Nothing, best(9999, true), 0, Some("assumevalid=0 (always verify)")),
            ("not known", AssumedValid::UnknownHeader, best(9999, true), 0, Some("assumevalid hash not in headers")),
            (
                "above",
                known(Height::new(99), false),
                best(9999, true),
                0,
                Some("block height above assumevalid height"),
            ),
            (
                "beside, same height",
                known(Height::new(100), false),
                best(9999, true),
                0,
                Some("block not in assumevalid chain"),
            ),
            (
                "beside the best",
                known(Height::new(200), true),
                best(9999, false),
                0,
                Some("block not in best header chain"),
            ),
            (
                "low work",
                known(Height::new(200), true),
                best(9999, true),
                PROOF * 10_000,
                Some("best header chainwork below minimumchainwork"),
            ),
            ("enough work", known(Height::new(200), true), best(9999, true), PROOF * 9999, None),
            (
                "exactly two weeks",
                known(Height::new(200), true),
                best(2117, true),
                0,
                Some("block too recent relative to best header"),
            ),
            (
                "best below the block",
                known(Height::new(200), true),
                best(5, true),
                0,
                Some("block too recent relative to best header"),
            ),
        ] {
            let block = BlockInChain { height: Height::new(100), chain_work: work(PROOF * 101) };
            let got = script_check_reason(assumed, block, best, work(minimum), 600);
            assert_eq!(got.map(|reason| reason.to_string()).as_deref(), want, "{row}");
        }
    }

    #[test]
    fn equivalent_time_matches_core() {
        let most = Work(U256::MAX);
        for (row, to, from, bits, want) in [
            ("none", work(7), work(7), 0x1d00_ffff, 0),
            ("one block", work(0x1_0001_0001), work(0), 0x1d00_ffff, 600),
            ("one block back", work(0), work(0x1_0001_0001), 0x1d00_ffff, -600),
            ("rounded down", work(0x1_0001_0000), work(0), 0x1d00_ffff, 599),
            ("beyond 63 bits", Work(U256::MAX.shifted_right(20)), work(0), 0x207f_ffff, i64::MAX),
            ("beyond 63 bits, back", work(0), Work(U256::MAX.shifted_right(20)), 0x207f_ffff, -i64::MAX),
            ("no work in the bits", work(2), work(0), 0, 1200),
            ("the product wraps as in Core", most, work(0), 0x0300_0001, 1),
        ] {
            assert_eq!(proof_equivalent_time_s(to, from, bits, 600), want, "{row}");
        }
    }
}
