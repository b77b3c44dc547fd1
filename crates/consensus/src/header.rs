//! The rules of headers: proof of work, required bits, times, versions.
//!
//! A header is judged by what is known of its parent ([`Parent`]) and, at a change of difficulty, of one block a
//! period earlier, which the caller is asked for by height.
//! Absent on purpose: the header tree, the clock (`now` is an argument), and which chain is best.

use crate::params::Params;
use crate::verdict::{BlockError, Rule};
use primitives::{Hash256, Header, Height, Target, U256};

/// Blocks whose times the median time past is taken of.
pub const MEDIAN_TIME_SPAN: usize = 11;
/// Seconds that a header may be ahead of the clock. Source: Bitcoin Core b88bffe, `MAX_FUTURE_BLOCK_TIME`.
pub const MAX_FUTURE_BLOCK_TIME_S: i64 = 2 * 60 * 60;
/// Seconds that the first block of a period may be before its parent. Source: BIP-0094, `MAX_TIMEWARP`.
pub const MAX_TIMEWARP_S: i64 = 600;

/// What the rules need to know of a block further down the chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ancestor {
    /// Of its header.
    pub time: u32,
    /// Of its header.
    pub bits: u32,
}

/// What the rules need to know of the block that a header stands on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parent {
    /// Its height; the new block's is one more.
    pub height: Height,
    /// Of its header.
    pub time: u32,
    /// Of its header.
    pub bits: u32,
    /// See [`median_time_past`].
    pub median_time_past: u32,
    /// See [`real_bits`]; without it they are searched for, block by block.
    pub real_bits: Option<u32>,
}

/// The median of the times of a block and the ten before it (fewer near genesis), in any order.
///
/// With an even number of them it is the upper one of the two in the middle. Items beyond the eleventh are not looked at.
///
/// # Panics
///
/// Without any time.
///
/// Source: Bitcoin Core b88bffe, `CBlockIndex::GetMedianTimePast`.
pub fn median_time_past(times: impl IntoIterator<Item = u32>) -> u32 {
    let (mut sorted, mut count) = ([0; MEDIAN_TIME_SPAN], 0);
    for (place, time) in sorted.iter_mut().zip(times) {
        *place = time;
        count += 1;
    }
    assert!(count != 0, "the median of no times");
    sorted[..count].sort_unstable();
    sorted[count / 2]
}

/// The hash of a header MUST NOT be above the target of its bits, and that target MUST be positive, below 2^256 and not
/// above the network's easiest one: `high-hash`.
///
/// Source: Bitcoin Core b88bffe, `CheckProofOfWorkImpl`.
pub fn check_proof_of_work(params: &Params, hash: &Hash256, bits: u32) -> Result<(), Rule> {
    match Target::from_compact(bits) {
        Some(target) if target <= params.pow_limit && target.is_met_by(hash) => Ok(()),
        _ => Err(Rule::HighHash { bits }),
    }
}

/// The bits of a header MUST be those that the chain below it requires: `bad-diffbits`.
///
/// `ancestor` is asked for blocks at or below the parent's height.
pub fn check_bits(
    params: &Params,
    header: &Header,
    parent: &Parent,
    ancestor: impl FnMut(Height) -> Ancestor,
) -> Result<(), Rule> {
    let want = required_bits(params, parent, header.time(), ancestor);
    if header.bits() != want {
        return Err(Rule::BadDiffbits { have: header.bits(), want });
    }
    Ok(())
}

/// The time of a header MUST be above its parent's median time past: `time-too-old`.
pub fn check_time_not_too_old(header: &Header, parent: &Parent) -> Result<(), Rule> {
    if header.time() <= parent.median_time_past {
        return Err(Rule::TimeTooOld { time: header.time(), median_time_past: parent.median_time_past });
    }
    Ok(())
}

/// Under BIP-0094 the first header of a period MUST NOT be more than 600 seconds before its parent:
/// `time-timewarp-attack`.
pub fn check_timewarp(params: &Params, header: &Header, parent: &Parent) -> Result<(), Rule> {
    let first = (parent.height + 1).is_multiple_of(params.difficulty_adjustment_interval());
    let least = i64::from(parent.time) - MAX_TIMEWARP_S;
    if params.enforce_bip94 && first && i64::from(header.time()) < least {
        return Err(Rule::TimeTimewarpAttack { time: header.time(), parent_time: parent.time });
    }
    Ok(())
}

/// The time of a header MUST NOT be more than two hours ahead of `now`, in seconds since 1970: `time-too-new`.
///
/// This is no verdict: keep the header aside and try again.
pub fn check_time_not_too_new(header: &Header, now: i64) -> Result<(), Rule> {
    if i64::from(header.time()) > now.saturating_add(MAX_FUTURE_BLOCK_TIME_S) {
        return Err(Rule::TimeTooNew { time: header.time(), now });
    }
    Ok(())
}

/// The version of a header, a signed number, MUST be at least 2 with BIP-0034, 3 with BIP-0066, 4 with BIP-0065:
/// `bad-version(0x%08x)`.
pub fn check_version(params: &Params, version: i32, height: Height) -> Result<(), Rule> {
    for (want, active_from) in [(2, params.bip34_height), (3, params.bip66_height), (4, params.bip65_height)] {
        if version < want && height >= active_from {
            return Err(Rule::BadVersion { have: version, want });
        }
    }
    Ok(())
}

/// All rules of a header that stands on `parent`, in Core's order. Its proof of work is checked before its parent is
/// looked for: see [`check_proof_of_work`].
///
/// Of a header that is both too new and of an outdated version, Core says the first.
///
/// # Errors
///
/// The first rule that is broken. [`Rule::TimeTooNew`] is none that marks.
///
/// Source: Bitcoin Core b88bffe, `ContextualCheckBlockHeader`.
pub fn check(
    params: &Params,
    header: &Header,
    parent: &Parent,
    now: i64,
    ancestor: impl FnMut(Height) -> Ancestor,
) -> Result<(), BlockError> {
    check_bits(params, header, parent, ancestor)?;
    check_time_not_too_old(header, parent)?;
    check_timewarp(params, header, parent)?;
    check_time_not_too_new(header, now)?;
    check_version(params, header.version(), parent.height + 1)?;
    Ok(())
}

/// The bits that a header with this `time` must have on top of `parent`.
///
/// `ancestor` is asked for the first block of a period that ends with the parent; and, where blocks may have the easiest
/// target and [`Parent::real_bits`] is not there, for one block after the other from the parent down.
///
/// Source: Bitcoin Core b88bffe, `GetNextWorkRequired`.
pub fn required_bits(params: &Params, parent: &Parent, time: u32, mut ancestor: impl FnMut(Height) -> Ancestor) -> u32 {
    let interval = params.difficulty_adjustment_interval();
    if (parent.height + 1).is_multiple_of(interval) {
        let first = ancestor(parent.height + 1 - interval);
        return retarget(params, first, Ancestor { time: parent.time, bits: parent.bits });
    }
    if !params.pow_allow_min_difficulty_blocks {
        return parent.bits;
    }
    if i64::from(time) > i64::from(parent.time) + 2 * i64::from(params.pow_target_spacing) {
        return params.pow_limit.to_compact();
    }
    parent.real_bits.unwrap_or_else(|| search_real_bits(params, parent, ancestor))
}

/// The bits of the last block, this one or below it, that did not use the 20-minute rule, as far as Core can tell:
/// whose bits are not the easiest, or which begins a period. A caller that keeps them spares a long search.
///
/// `of_parent` are the parent's, and are not looked at for genesis.
///
/// Source: Bitcoin Core b88bffe, the loop in `GetNextWorkRequired`.
pub fn real_bits(params: &Params, height: Height, bits: u32, of_parent: u32) -> u32 {
    if is_real(params, height, bits) { bits } else { of_parent }
}

fn is_real(params: &Params, height: Height, bits: u32) -> bool {
    height.is_multiple_of(params.difficulty_adjustment_interval()) || bits != params.pow_limit.to_compact()
}

fn search_real_bits(params: &Params, parent: &Parent, mut ancestor: impl FnMut(Height) -> Ancestor) -> u32 {
    let (mut height, mut bits) = (parent.height, parent.bits);
    // Genesis begins a period, so this ends there at the latest.
    while !is_real(params, height, bits) {
        height -= 1;
        bits = ancestor(height).bits;
    }
    bits
}

/// The bits of the period after the one from `first` to `last`.
///
/// The time between the two covers one block less than a period: Core's old mistake, kept by everybody.
///
/// Source: Bitcoin Core b88bffe, `CalculateNextWorkRequired`.
pub fn retarget(params: &Params, first: Ancestor, last: Ancestor) -> u32 {
    if params.pow_no_retargeting {
        return last.bits;
    }
    let want = i64::from(params.pow_target_timespan);
    let actual = (i64::from(last.time) - i64::from(first.time)).clamp(want / 4, want * 4);
    let base = if params.enforce_bip94 { first.bits } else { last.bits };
    scaled(params, base, actual.unsigned_abs()).to_compact()
}

/// The target of `bits` for blocks that took `timespan` seconds a period, at most the easiest.
fn scaled(params: &Params, bits: u32, timespan: u64) -> Target {
    let product = compact_value(bits).wrapping_mul_u64(timespan);
    let target = product.quotient(U256::from_u64(u64::from(params.pow_target_timespan)));
    Target(target).min(params.pow_limit)
}

/// The number in compact form, whatever its sign, modulo 2^256: what Core computes with once proof of work was checked.
///
/// Source: Bitcoin Core b88bffe, `arith_uint256::SetCompact`.
fn compact_value(bits: u32) -> U256 {
    let (exponent, mantissa) = (bits >> 24, U256::from_u64(u64::from(bits & 0x007f_ffff)));
    if exponent <= 3 { mantissa.shifted_right(8 * (3 - exponent)) } else { mantissa.shifted_left(8 * (exponent - 3)) }
}

/// Whether bits may go from `old` to `new` at `height`, as far as two headers alone can tell.
///
/// Only for headers that are not kept (presync): a chain that is kept is held to [`required_bits`].
///
/// Source: Bitcoin Core b88bffe, `PermittedDifficultyTransition`.
pub fn permitted_difficulty_transition(params: &Params, height: Height, old: u32, new: u32) -> bool {
    if params.pow_allow_min_difficulty_blocks {
        return true;
    }
    if !height.is_multiple_of(params.difficulty_adjustment_interval()) {
        return old == new;
    }
    let timespan = u64::from(params.pow_target_timespan);
    let rounded = |timespan| compact_value(scaled(params, old, timespan).to_compact());
    (rounded(timespan / 4)..=rounded(timespan * 4)).contains(&compact_value(new))
}
