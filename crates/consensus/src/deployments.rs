//! Deployments by version bits (BIP-0009): rules that begin to hold once miners have signalled for them.
//!
//! The state of a block is that of its period, and follows from the blocks of the period before it: [`next_state`].
//! Absent on purpose: the header tree, and remembering states (`node::chain::deployments`).
//!
//! Source: Bitcoin Core b88bffe, versionbits.cpp, `AbstractThresholdConditionChecker`; deploymentinfo.cpp.

use primitives::{Height, MedianTime};

/// What the top bits of a version of bits are. Source: Core's `VERSIONBITS_TOP_BITS`.
pub const TOP_BITS: u32 = 0x2000_0000;
const TOP_MASK: u32 = 0xe000_0000;

/// The bits of a version, where it is one of bits.
pub fn bits(version: i32) -> Option<u32> {
    let bits = version.cast_unsigned();
    (bits & TOP_MASK == TOP_BITS).then_some(bits)
}

/// A deployment that has not been buried.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Deployment {
    /// Changes no rule; Core's tests signal for it.
    TestDummy,
    /// BIP-0054: see [`crate::cleanup`]. Source: bitcoin/bitcoin#35793, not merged.
    ConsensusCleanup,
}

impl Deployment {
    /// All of them, in Core's order.
    pub const ALL: [Deployment; 2] = [Deployment::TestDummy, Deployment::ConsensusCleanup];

    /// The name that `-vbparams` and the RPC use.
    pub const fn name(self) -> &'static str {
        match self {
            Deployment::TestDummy => "testdummy",
            Deployment::ConsensusCleanup => "consensuscleanup",
        }
    }

    /// The deployment of that name.
    pub fn from_name(name: &str) -> Option<Deployment> {
        Deployment::ALL.into_iter().find(|deployment| deployment.name() == name)
    }
}

/// When a deployment begins to hold on a network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VersionBits {
    /// Bit of the version by which blocks signal.
    pub bit: u8,
    /// Median time past from which signals count; or [`VersionBits::ALWAYS_ACTIVE`], [`VersionBits::NEVER_ACTIVE`].
    pub start_time: i64,
    /// Median time past at which it has failed, unless enough blocks have signalled.
    pub timeout: i64,
    /// It does not hold below this height.
    pub min_activation_height: i64,
    /// Blocks of a period.
    pub period: u32,
    /// Blocks of a period that must signal.
    pub threshold: u32,
}

impl VersionBits {
    /// Start of a deployment that holds from the genesis block on.
    pub const ALWAYS_ACTIVE: i64 = -1;
    /// Start of a deployment that never holds.
    pub const NEVER_ACTIVE: i64 = -2;
    /// End of a deployment that never fails.
    pub const NO_TIMEOUT: i64 = i64::MAX;

    /// Whether a block with this version signals for it.
    pub fn is_signalled_by(&self, version: i32) -> bool {
        bits(version).is_some_and(|bits| bits >> self.bit & 1 == 1)
    }
}

/// How a deployment stands. Source: Core's `ThresholdState`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThresholdState {
    /// Its start has not come.
    Defined,
    /// Signals count.
    Started,
    /// Enough blocks have signalled; it holds from the next period on, or from its least height.
    LockedIn,
    /// It holds.
    Active,
    /// Its end came first.
    Failed,
}

impl ThresholdState {
    /// Core's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            ThresholdState::Defined => "defined",
            ThresholdState::Started => "started",
            ThresholdState::LockedIn => "locked_in",
            ThresholdState::Active => "active",
            ThresholdState::Failed => "failed",
        }
    }

    /// Whether nothing changes it any more.
    pub const fn is_final(self) -> bool {
        matches!(self, ThresholdState::Active | ThresholdState::Failed)
    }
}

/// The state of every block, where it follows from the parameters alone.
pub fn fixed_state(deployment: &VersionBits) -> Option<ThresholdState> {
    match deployment.start_time {
        VersionBits::ALWAYS_ACTIVE => Some(ThresholdState::Active),
        VersionBits::NEVER_ACTIVE => Some(ThresholdState::Failed),
        _ => None,
    }
}

/// The state of the period that follows one whose state is `state`.
///
/// `last` and `median_time_past` are of the last block of that period; `signals` counts its blocks that signal, and is
/// asked only where that matters.
pub fn next_state(
    deployment: &VersionBits,
    state: ThresholdState,
    last: Height,
    median_time_past: MedianTime,
    signals: impl FnOnce() -> u32,
) -> ThresholdState {
    let time = i64::from(median_time_past.to_u32());
    match state {
        ThresholdState::Defined if time >= deployment.start_time => ThresholdState::Started,
        ThresholdState::Started if signals() >= deployment.threshold => ThresholdState::LockedIn,
        ThresholdState::Started if time >= deployment.timeout => ThresholdState::Failed,
        ThresholdState::LockedIn if i64::from(last.to_u32()) + 1 >= deployment.min_activation_height => {
            ThresholdState::Active
        }
        state => state,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_follow_core() {
        let plain = VersionBits {
            bit: 3,
            start_time: 1000,
            timeout: 2000,
            min_activation_height: 0,
            period: 144,
            threshold: 108,
        };
        let late = VersionBits { min_activation_height: 432, ..plain };
        for (row, deployment, state, last, time, signals, want) in [
            ("before the start", &plain, ThresholdState::Defined, 143, 999, 144, ThresholdState::Defined),
            ("at the start", &plain, ThresholdState::Defined, 143, 1000, 0, ThresholdState::Started),
            ("past the end before it began", &plain, ThresholdState::Defined, 143, 9000, 0, ThresholdState::Started),
            ("too few signals", &plain, ThresholdState::Started, 287, 1999, 107, ThresholdState::Started),
            ("enough signals", &plain, ThresholdState::Started, 287, 1999, 108, ThresholdState::LockedIn),
            ("enough signals at the end", &plain, ThresholdState::Started, 287, 2000, 108, ThresholdState::LockedIn),
            ("at the end", &plain, ThresholdState::Started, 287, 2000, 107, ThresholdState::Failed),
            ("locked in", &plain, ThresholdState::LockedIn, 287, 9000, 0, ThresholdState::Active),
            ("below its least height", &late, ThresholdState::LockedIn, 287, 0, 0, ThresholdState::LockedIn),
            ("at its least height", &late, ThresholdState::LockedIn, 431, 0, 0, ThresholdState::Active),
            ("active", &plain, ThresholdState::Active, 431, 0, 0, ThresholdState::Active),
            ("failed", &plain, ThresholdState::Failed, 431, 1500, 144, ThresholdState::Failed),
        ] {
            let got = next_state(deployment, state, Height::new(last), MedianTime::new(time), || signals);
            assert_eq!(got, want, "{row}");
        }
        let with_start = |start_time| fixed_state(&VersionBits { start_time, ..plain });
        assert_eq!([-1, -2, 0].map(with_start), [Some(ThresholdState::Active), Some(ThresholdState::Failed), None]);
    }

    #[test]
    fn signals_need_the_top_bits() {
        let main = crate::Params::new(crate::Chain::Main);
        let cleanup = main.deployment(Deployment::ConsensusCleanup);
        for (version, want) in
            [(0x2000_0008, true), (0x2000_0000, false), (0x0000_0008, false), (0x6000_0008, false), (-1, false)]
        {
            assert_eq!(cleanup.is_signalled_by(version), want, "{version:#x}");
        }
    }
}
