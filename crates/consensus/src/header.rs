//! The rules of headers: proof of work, required bits, times, versions.
//!
//! A header is judged by its parent's properties ([`Parent`]) and, at a change of difficulty, by one block a period
//! earlier, which a callback returns by height. Absent on purpose: the header tree, the clock (`now` is an argument),
//! and the choice of the best chain.

use crate::cleanup::{self, Cleanup};
use crate::params::Params;
use crate::verdict::{BlockError, Rule};
use primitives::{BlockHash, Header, Height, MedianTime, Target, U256};

/// Number of blocks in the median time past.
pub const MEDIAN_TIME_SPAN: usize = 11;
/// Seconds that a header's time may be ahead of the clock. Source: Bitcoin Core b88bffe, `MAX_FUTURE_BLOCK_TIME`.
pub const MAX_FUTURE_BLOCK_TIME_S: i64 = 2 * 60 * 60;
/// Seconds that the first block of a period may be before its parent. Source: BIP-0094, `MAX_TIMEWARP`.
pub const MAX_TIMEWARP_S: i64 = 600;

/// The properties of an ancestor that the rules need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ancestor {
    /// The time of its header.
    pub time: u32,
    /// The bits of its header.
    pub bits: u32,
}

/// The properties of a header's parent that the rules need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parent {
    /// Its height; the new block's is one more.
    pub height: Height,
    /// The time of its header.
    pub time: u32,
    /// The bits of its header.
    pub bits: u32,
    /// See [`median_time_past`].
    pub median_time_past: MedianTime,
    /// See [`real_bits`]; if it is `None`, they are searched, block by block.
    pub real_bits: Option<u32>,
    /// Whether BIP-0054 is active for the block on top of it.
    pub cleanup: Cleanup,
}

/// The median of the times of a block and the ten before it (fewer near genesis), in any order.
///
/// If their number is even, it is the upper one of the two in the middle. Items beyond the eleventh are ignored.
///
/// # Panics
///
/// If there are no times.
///
/// Source: Bitcoin Core b88bffe, `CBlockIndex::GetMedianTimePast`.
pub fn median_time_past(times: impl IntoIterator<Item = u32>) -> MedianTime {
    let mut sorted = [0; MEDIAN_TIME_SPAN];
    let mut count = 0;
    for (place, time) in sorted.iter_mut().zip(times) {
        *place = time;
        count += 1;
    }
    assert!(count != 0, "the median of no times");
    sorted[..count].sort_unstable();
    MedianTime::new(sorted[count / 2])
}

/// The hash of a header MUST NOT be above the target of its bits, and that target MUST be positive, below 2^256 and not
/// above the network's easiest one: `high-hash`.
///
/// Source: Bitcoin Core b88bffe, `CheckProofOfWorkImpl`.
pub fn check_proof_of_work(params: &Params, hash: &BlockHash, bits: u32) -> Result<(), Rule> {
    match Target::from_compact(bits) {
        Some(target) if target <= params.pow_limit && target.is_met_by(hash) => Ok(()),
        _ => Err(Rule::HighHash { bits }),
    }
}

/// The bits of a header MUST be those that its ancestors require: `bad-diffbits`.
///
/// `ancestor` returns blocks at or below the parent's height.
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
    if header.time() <= parent.median_time_past.to_u32() {
        return Err(Rule::TimeTooOld { time: header.time(), median_time_past: parent.median_time_past });
    }
    Ok(())
}

/// Under BIP-0094 the first header of a period MUST NOT be more than 600 seconds before its parent:
/// `time-timewarp-attack`.
pub fn check_timewarp(params: &Params, header: &Header, parent: &Parent) -> Result<(), Rule> {
    if !params.enforce_bip94 {
        return Ok(());
    }
    cleanup::check_period_start(params, parent.height + 1, header.time(), parent.time, MAX_TIMEWARP_S)
}

/// The rules of BIP-0054 about the times of a period's first and last block, if it is active.
///
/// `ancestor` returns the first block of a period that ends with this one.
fn check_cleanup(
    params: &Params,
    header: &Header,
    parent: &Parent,
    mut ancestor: impl FnMut(Height) -> Ancestor,
) -> Result<(), Rule> {
    if !parent.cleanup.is_on() {
        return Ok(());
    }
    let height = parent.height + 1;
    let time = header.time();
    cleanup::check_timewarp(params, height, time, parent.time)?;
    cleanup::check_interval(params, height, time, |first| ancestor(first).time)
}

/// The time of a header MUST NOT be more than two hours ahead of `now`, in seconds since 1970: `time-too-new`.
///
/// This is not a final verdict: keep the header and try again later.
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

/// All rules of a header on top of `parent`, in Core's order. Its proof of work is checked before its parent is
/// searched: see [`check_proof_of_work`].
///
/// For a header that is both too new and of an outdated version, Core reports the former.
///
/// # Errors
///
/// The first broken rule. [`Rule::TimeTooNew`] does not mark a header invalid.
///
/// Source: Bitcoin Core b88bffe, `ContextualCheckBlockHeader`.
pub fn check(
    params: &Params,
    header: &Header,
    parent: &Parent,
    now: i64,
    mut ancestor: impl FnMut(Height) -> Ancestor,
) -> Result<(), BlockError> {
    check_bits(params, header, parent, &mut ancestor)?;
    check_time_not_too_old(header, parent)?;
    check_timewarp(params, header, parent)?;
    check_cleanup(params, header, parent, ancestor)?;
    check_time_not_too_new(header, now)?;
    check_version(params, header.version(), parent.height + 1)?;
    Ok(())
}

/// The bits that a header with this `time` must have on top of `parent`.
///
/// `ancestor` returns the first block of a period that ends with the parent. If blocks may have the easiest target and
/// [`Parent::real_bits`] is `None`, it also returns each block from the parent down.
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

/// The bits of the last block, this one or an ancestor, that did not use the 20-minute rule, as Core determines it: its
/// bits are not the easiest, or it begins a period. A caller that stores them avoids a long search.
///
/// `of_parent` are the parent's; ignored for genesis.
///
/// Source: Bitcoin Core b88bffe, the loop in `GetNextWorkRequired`.
pub fn real_bits(params: &Params, height: Height, bits: u32, of_parent: u32) -> u32 {
    if is_real(params, height, bits) { bits } else { of_parent }
}

fn is_real(params: &Params, height: Height, bits: u32) -> bool {
    height.is_multiple_of(params.difficulty_adjustment_interval()) || bits != params.pow_limit.to_compact()
}

fn search_real_bits(params: &Params, parent: &Parent, mut ancestor: impl FnMut(Height) -> Ancestor) -> u32 {
    let mut height = parent.height;
    let mut bits = parent.bits;
    // Genesis begins a period, so this loop ends there at the latest.
    while !is_real(params, height, bits) {
        height -= 1;
        bits = ancestor(height).bits;
    }
    bits
}

/// The bits of the period after the one from `first` to `last`.
///
/// The time between the two covers one block less than a period: Core's old mistake, now a rule.
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

/// The compact form as a number, whatever its sign, modulo 2^256, as Core computes it after checking proof of work.
///
/// Source: Bitcoin Core b88bffe, `arith_uint256::SetCompact`.
fn compact_value(bits: u32) -> U256 {
    let exponent = bits >> 24;
    let mantissa = U256::from_u64(u64::from(bits & 0x007f_ffff));
    if exponent <= 3 { mantissa.shifted_right(8 * (3 - exponent)) } else { mantissa.shifted_left(8 * (exponent - 3)) }
}

/// Whether bits may change from `old` to `new` at `height`, as far as can be decided from only two headers.
///
/// Only for headers that are not kept (presync): headers that are kept are checked against [`required_bits`].
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Chain;
    use primitives::Hash256;

    fn at(time: u32, bits: u32) -> Ancestor {
        Ancestor { time, bits }
    }

    /// Rows of Core's pow_tests.cpp, and what they allow at that height without the blocks in between.
    #[test]
    fn retarget_matches_mainnet() {
        let params = Params::new(Chain::Main);
        for (first_time, height, last_time, bits, want) in [
            (1_261_130_161, 32_255, 1_262_152_739, 0x1d00_ffff, 0x1d00_d86a),
            (1_231_006_505, 2015, 1_233_061_996, 0x1d00_ffff, 0x1d00_ffff),
            (1_279_008_237, 68_543, 1_279_297_671, 0x1c05_a3f4, 0x1c01_68fd),
            (1_263_163_443, 46_367, 1_269_211_443, 0x1c38_7f6f, 0x1d00_e1fd),
        ] {
            let first = at(first_time, 0x1b00_ffff); // Its bits do not count but under BIP-0094.
            assert_eq!(retarget(&params, first, at(last_time, bits)), want, "{height}");
            let parent = Parent {
                height: Height::new(height),
                time: last_time,
                bits,
                median_time_past: MedianTime::ZERO,
                real_bits: None,
                cleanup: Cleanup::Off,
            };
            let got = required_bits(&params, &parent, last_time + 600, |ancestor| {
                assert_eq!(ancestor, Height::new(height - 2015), "the first block of the period");
                first
            });
            assert_eq!(got, want, "{height}");
            assert!(permitted_difficulty_transition(&params, Height::new(height + 1), bits, want), "{height}");
        }
        // One step beyond the factor of four, to either side.
        assert!(!permitted_difficulty_transition(&params, Height::new(68_544), 0x1c05_a3f4, 0x1c01_68fd - 1));
        assert!(!permitted_difficulty_transition(&params, Height::new(46_368), 0x1c38_7f6f, 0x1d00_e1fd + 1));
        assert!(
            !permitted_difficulty_transition(&params, Height::new(2016), 0x1d00_ffff, 0x1d01_0000),
            "above the easiest"
        );
        assert!(
            !permitted_difficulty_transition(&params, Height::new(2017), 0x1d00_ffff, 0x1d00_fffe),
            "within a period"
        );
        assert!(permitted_difficulty_transition(&params, Height::new(2017), 0x1d00_ffff, 0x1d00_ffff));
        let test = Params::new(Chain::Test);
        assert!(
            permitted_difficulty_transition(&test, Height::new(2017), 0x1d00_ffff, 0x1700_ffff),
            "test networks allow any"
        );
    }

    /// A period whose last block has the easiest target, under each network's rules.
    #[test]
    fn retarget_base_follows_bip94() {
        let easiest = 0x1d00_ffff;
        let (first, last) = (at(1_700_000_000, 0x1b0f_0000), at(1_700_000_000 + 1_209_600, easiest));
        for (params, want) in [
            (Params::new(Chain::Main), easiest),
            (Params::new(Chain::Test), easiest),
            (Params::new(Chain::Testnet4), 0x1b0f_0000),
            (Params::new(Chain::Regtest), easiest),
            (Params::new(Chain::Regtest).with_bip94().unwrap(), easiest), // No retargeting comes first.
        ] {
            assert_eq!(retarget(&params, first, last), want, "{}", params.chain);
        }
        // Time that runs backwards counts as the shortest period.
        let main = Params::new(Chain::Main);
        assert_eq!(retarget(&main, at(2_000_000_000, 0), at(1_000_000_000, 0x1c10_0000)), 0x1c04_0000);
        // The easiest target of signet caps it, in its own precision.
        let signet = Params::new(Chain::Signet);
        assert_eq!(retarget(&signet, at(0, 0), at(u32::MAX, 0x1e03_77ae)), 0x1e03_77ae);
    }

    /// Heights and bits of a small testnet; the first block of a period counts as real whatever its bits.
    #[test]
    fn required_bits_after_20_minutes_on_test_networks() {
        let (easiest, real) = (0x1d00_ffff, 0x1c12_3456);
        let params = Params::new(Chain::Test);
        for (name, height, time, chain, want) in [
            ("20 minutes and a second late", 4034, 1201, [real, real, real], easiest),
            ("20 minutes late is in time", 4034, 1200, [real, real, real], real),
            ("in time after a late one", 4034, 1, [real, real, easiest], real),
            ("in time after three late ones", 4034, 1, [easiest, easiest, easiest], easiest),
            ("earlier than its parent", 4034, -600, [real, easiest, easiest], real),
        ] {
            // Blocks 4032 (the first of a period) to 4034.
            let bits = |height: Height| chain[(height - 4032).to_usize()];
            let mut parent = Parent {
                height: Height::new(height),
                time: 1_500_000_000,
                bits: bits(Height::new(height)),
                median_time_past: MedianTime::ZERO,
                real_bits: None,
                cleanup: Cleanup::Off,
            };
            let time = u32::try_from(1_500_000_000 + time).unwrap();
            let searched = required_bits(&params, &parent, time, |height| at(0, bits(height)));
            assert_eq!(searched, want, "{name}");
            let kept = (4032..=height).fold(0, |of_parent, height| {
                real_bits(&params, Height::new(height), bits(Height::new(height)), of_parent)
            });
            parent.real_bits = Some(kept);
            let spared = required_bits(&params, &parent, time, |_| panic!("nothing is searched"));
            assert_eq!(spared, want, "{name}, real bits kept");
        }
        // Down to genesis, and no further.
        let parent = Parent {
            height: Height::new(3),
            time: 9,
            bits: easiest,
            median_time_past: MedianTime::ZERO,
            real_bits: None,
            cleanup: Cleanup::Off,
        };
        assert_eq!(required_bits(&params, &parent, 9, |_| at(0, easiest)), easiest);
        // Mainnet has no such rule.
        let main = Params::new(Chain::Main);
        let parent = Parent {
            height: Height::new(4034),
            time: 0,
            bits: real,
            median_time_past: MedianTime::ZERO,
            real_bits: None,
            cleanup: Cleanup::Off,
        };
        assert_eq!(required_bits(&main, &parent, 1_000_000, |_| panic!("the parent's bits do")), real);
    }

    #[test]
    fn median_time_past_of_eleven() {
        for (times, want) in [
            (vec![5], 5),
            (vec![5, 9], 9),
            (vec![9, 5, 7], 7),
            (vec![4, 3, 2, 1], 3),
            ((1..=10).collect(), 6),
            ((1..=11).rev().collect(), 6),
            ((1..=12).collect(), 6), // The twelfth is not looked at.
            (vec![u32::MAX, 0, u32::MAX], u32::MAX),
        ] {
            assert_eq!(median_time_past(times.iter().copied()), MedianTime::new(want), "{times:?}");
        }
    }

    /// Core's pow_tests.cpp: a hash of 1 under invalid targets, and a hash above a good one.
    #[test]
    fn proof_of_work_with_invalid_target_fails() {
        let params = Params::new(Chain::Main);
        let one = BlockHash::from_bytes({
            let mut bytes = [0; 32];
            bytes[0] = 1;
            bytes
        });
        for (name, hash, bits, good) in [
            ("the easiest", one, 0x1d00_ffff, true),
            ("negative", one, 0x1d80_ffff, false),
            ("overflow", one, !0x0080_0000, false),
            ("twice the easiest", one, 0x1d01_fffe, false),
            ("a little above the easiest", one, 0x1d01_0000, false),
            ("zero", one, 0, false),
            ("zero with an exponent", one, 0x1d00_0000, false),
            ("zero after the shift", one, 0x0100_ffff, false),
            ("exactly the target", one, 0x0101_0000, true),
            ("a hash above", BlockHash::from_bytes([0xff; 32]), 0x1d00_ffff, false),
        ] {
            let got = check_proof_of_work(&params, &hash, bits);
            assert_eq!(got, if good { Ok(()) } else { Err(Rule::HighHash { bits }) }, "{name}");
        }
        let regtest = Params::new(Chain::Regtest);
        assert_eq!(check_proof_of_work(&regtest, &one, 0x207f_ffff), Ok(()));
        assert!(check_proof_of_work(&regtest, &one, 0x2100_ffff).is_err(), "above regtest's easiest");
    }

    /// Each rule with the last header that passes and the first that does not.
    #[test]
    fn header_rules_and_neighbours() {
        let main = Params::new(Chain::Main);
        let test4 = Params::new(Chain::Testnet4);
        let real = 0x1c12_3456;
        let now = 2_000_000_000;
        // Before height 4032 of testnet4, and elsewhere of mainnet.
        let header = |version, time, bits| Header::new(version, BlockHash::ZERO, Hash256::ZERO, time, bits, 0);
        let judge = |params: &Params, height, header: Header| {
            let parent = Parent {
                height,
                time: 1_600_000_000,
                bits: real,
                median_time_past: MedianTime::new(1_599_990_000),
                real_bits: None,
                cleanup: Cleanup::Off,
            };
            let first = at(1_600_000_000 - 1_209_600, real);
            check(params, &header, &parent, now, |_| first).map_err(|error| error.reject_reason().into_owned())
        };
        for (name, params, height, header, want) in [
            ("good", &main, 500_000, header(4, 1_600_000_000, real), ""),
            ("other bits", &main, 500_000, header(4, 1_600_000_000, real + 1), "bad-diffbits"),
            ("a second above the median", &main, 500_000, header(4, 1_599_990_001, real), ""),
            ("at the median", &main, 500_000, header(4, 1_599_990_000, real), "time-too-old"),
            ("600 seconds before, new period", &test4, 4031, header(4, 1_599_999_400, real), ""),
            ("601 seconds before, new period", &test4, 4031, header(4, 1_599_999_399, real), "time-timewarp-attack"),
            ("601 seconds before, within", &test4, 4030, header(4, 1_599_999_399, real), ""),
            ("601 seconds before, mainnet", &main, 4031, header(4, 1_599_999_399, real), ""),
            ("two hours ahead", &main, 500_000, header(4, 2_000_007_200, real), ""),
            ("two hours and a second ahead", &main, 500_000, header(4, 2_000_007_201, real), "time-too-new"),
            ("too new and outdated", &main, 500_000, header(1, u32::MAX, real), "time-too-new"),
            ("version 1 before BIP-0034", &main, 227_929, header(1, 1_600_000_000, real), ""),
            ("version 1 with BIP-0034", &main, 227_930, header(1, 1_600_000_000, real), "bad-version(0x00000001)"),
            ("version 2 before BIP-0066", &main, 363_723, header(2, 1_600_000_000, real), ""),
            ("version 2 with BIP-0066", &main, 363_724, header(2, 1_600_000_000, real), "bad-version(0x00000002)"),
            ("version 3 before BIP-0065", &main, 388_379, header(3, 1_600_000_000, real), ""),
            ("version 3 with BIP-0065", &main, 388_380, header(3, 1_600_000_000, real), "bad-version(0x00000003)"),
            ("a negative version", &main, 388_380, header(-1, 1_600_000_000, real), "bad-version(0xffffffff)"),
            ("a negative version, early", &main, 227_929, header(i32::MIN, 1_600_000_000, real), ""),
        ] {
            let got = judge(params, Height::new(height), header).err().unwrap_or_default();
            assert_eq!(got, want, "{name}");
        }
    }
}
