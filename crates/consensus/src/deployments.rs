//! Deployments by version bits (BIP-0009): rules that activate once miners have signalled for them.
//!
//! The state of a block is that of its period, and follows from the blocks of the period before: [`next_state`]. Absent
//! on purpose: the header tree, and caching of states (`node::chain::deployments`).
//!
//! Source: Bitcoin Core b88bffe, versionbits.cpp, `AbstractThresholdConditionChecker`; deploymentinfo.cpp.

use primitives::{Height, MedianTime};

/// The top bits of a version with version bits. Source: Core's `VERSIONBITS_TOP_BITS`.
pub const TOP_BITS: u32 = 0x2000_0000;
const TOP_MASK: u32 = 0xe000_0000;

/// The version bits of a version; `None` if its top bits differ.
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
    /// All deployments, in Core's order.
    pub const ALL: [Deployment; 2] = [Deployment::TestDummy, Deployment::ConsensusCleanup];

    /// The name in `-vbparams` and the RPC.
    pub const fn name(self) -> &'static str {
        match self {
            Deployment::TestDummy => "testdummy",
            Deployment::ConsensusCleanup => "consensuscleanup",
        }
    }

    /// The deployment with this name.
    pub fn from_name(name: &str) -> Option<Deployment> {
        Deployment::ALL.into_iter().find(|deployment| deployment.name() == name)
    }
}

/// The activation parameters of a deployment on a network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VersionBits {
    /// The bit of the version with which blocks signal.
    pub bit: u8,
    /// Median time past at which signalling starts; or [`VersionBits::ALWAYS_ACTIVE`], [`VersionBits::NEVER_ACTIVE`].
    pub start_time: i64,
    /// Median time past at which it fails, unless enough blocks have signalled.
    pub timeout: i64,
    /// It is not active below this height.
    pub min_activation_height: i64,
    /// Number of blocks in a period.
    pub period: u32,
    /// Number of blocks in a period that must signal.
    pub threshold: u32,
}

impl VersionBits {
    /// Start time of a deployment that is active from the genesis block on.
    pub const ALWAYS_ACTIVE: i64 = -1;
    /// Start time of a deployment that is never active.
    pub const NEVER_ACTIVE: i64 = -2;
    /// Timeout of a deployment that never fails.
    pub const NO_TIMEOUT: i64 = i64::MAX;

    /// Whether a block with this version signals for it.
    pub fn is_signalled_by(&self, version: i32) -> bool {
        bits(version).is_some_and(|bits| bits >> self.bit & 1 == 1)
    }
}

/// State of a deployment. Source: Core's `ThresholdState`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThresholdState {
    /// Before its start time.
    Defined,
    /// Signals are counted.
    Started,
    /// Enough blocks have signalled; it activates with the next period, or at its minimum height.
    LockedIn,
    /// Active.
    Active,
    /// Its timeout came before enough signals.
    Failed,
}

impl ThresholdState {
    /// Core's name of the state.
    pub const fn name(self) -> &'static str {
        match self {
            ThresholdState::Defined => "defined",
            ThresholdState::Started => "started",
            ThresholdState::LockedIn => "locked_in",
            ThresholdState::Active => "active",
            ThresholdState::Failed => "failed",
        }
    }

    /// Whether the state cannot change any more.
    pub const fn is_final(self) -> bool {
        matches!(self, ThresholdState::Active | ThresholdState::Failed)
    }
}

/// The state of every block, if it follows from the parameters only.
pub fn fixed_state(deployment: &VersionBits) -> Option<ThresholdState> {
    match deployment.start_time {
        VersionBits::ALWAYS_ACTIVE => Some(ThresholdState::Active),
        VersionBits::NEVER_ACTIVE => Some(ThresholdState::Failed),
        _ => None,
    }
}

/// The state of the period that follows one whose state is `state`.
///
/// `last` and `median_time_past` are of the last block of that period; `signals` returns the number of its signalling
/// blocks, and is called only if needed.
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
