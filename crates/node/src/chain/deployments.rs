//! States of version bits deployments along the header tree.
//!
//! The state of a period follows from the previous period, so each state is computed once and stored with the tree, by
//! the last block before the period. A deployment that is disabled or always active costs one comparison.

use crate::chain::tree::{NodeId, Tree};
use consensus::deployments::{ThresholdState, VersionBits, fixed_state, next_state};
use consensus::{Cleanup, Deployment, Params};
use primitives::Height;

/// Whether BIP-0054 is active for a block on top of `parent`.
pub fn cleanup_after(tree: &Tree, params: &Params, parent: NodeId) -> Cleanup {
    match state_after(tree, params, Deployment::ConsensusCleanup, parent) {
        ThresholdState::Active => Cleanup::On,
        ThresholdState::Defined | ThresholdState::Started | ThresholdState::LockedIn | ThresholdState::Failed => {
            Cleanup::Off
        }
    }
}

/// State of a deployment for a block on top of `parent`.
///
/// Source: Bitcoin Core b88bffe, `AbstractThresholdConditionChecker::GetStateFor`.
pub fn state_after(tree: &Tree, params: &Params, which: Deployment, parent: NodeId) -> ThresholdState {
    let deployment = params.deployment(which);
    if let Some(state) = fixed_state(deployment) {
        return state;
    }
    // Last blocks of earlier periods, the highest first, down to one whose following state is stored.
    let mut unknown = Vec::new();
    let mut below = last_of_period(tree, deployment, parent);
    let mut state = loop {
        let Some(last) = below else { break ThresholdState::Defined };
        if let Some(state) = tree.states.get(which, last) {
            break state;
        }
        unknown.push(last);
        below = tree.parent(last).and_then(|parent| last_of_period(tree, deployment, parent));
        if i64::from(tree.median_time_past(last).to_u32()) < deployment.start_time {
            // Median times of ancestors are lower: the deployment cannot have started there.
            below = None;
        }
    };
    for last in unknown.into_iter().rev() {
        let signals = || signals_up_to(tree, deployment, last);
        state = next_state(deployment, state, tree.height(last), tree.median_time_past(last), signals);
        tree.states.keep(which, last, state);
    }
    state
}

/// The last block of the latest period that is complete at `tip`; `None` in the first period.
fn last_of_period(tree: &Tree, deployment: &VersionBits, tip: NodeId) -> Option<NodeId> {
    let count = tree.height(tip).to_u32() + 1;
    let complete = count - count % deployment.period;
    Some(tree.ancestor(tip, Height::new(complete.checked_sub(1)?)))
}

/// Number of signalling blocks in the period that ends with `last`.
fn signals_up_to(tree: &Tree, deployment: &VersionBits, last: NodeId) -> u32 {
    signals(tree, deployment, last).filter(|signal| *signal).count() as u32
}

/// Whether each block signals, from `tip` down to the first block of its period.
pub fn signals<'a>(tree: &'a Tree, deployment: &'a VersionBits, tip: NodeId) -> impl Iterator<Item = bool> + 'a {
    let in_period = tree.height(tip).to_u32() % deployment.period + 1;
    let blocks = std::iter::successors(Some(tip), |id| tree.parent(*id)).take(in_period as usize);
    blocks.map(|id| deployment.is_signalled_by(tree.version(id)))
}

/// The state of a block on top of `parent` has been the same since this height.
///
/// Source: Bitcoin Core b88bffe, `GetStateSinceHeightFor`.
pub fn since(tree: &Tree, params: &Params, which: Deployment, parent: NodeId) -> Height {
    let deployment = params.deployment(which);
    let state = state_after(tree, params, which, parent);
    if fixed_state(deployment).is_some() || state == ThresholdState::Defined {
        return Height::GENESIS;
    }
    let mut first = last_of_period(tree, deployment, parent);
    while let Some(last) = first {
        let before = tree.parent(last).and_then(|parent| last_of_period(tree, deployment, parent));
        match before {
            Some(before) if state_after(tree, params, which, before) == state => first = Some(before),
            _ => return tree.height(last) + 1,
        }
    }
    Height::GENESIS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::tree::GENESIS;
    use consensus::Chain;
    use consensus::params::VersionBitsTimes;
    use primitives::{BlockHash, Hash256, Header};

    const CLEANUP: Deployment = Deployment::ConsensusCleanup;

    fn regtest(start_time: i64, timeout: i64) -> Params {
        let moved = VersionBitsTimes { deployment: CLEANUP, start_time, timeout, min_activation_height: 0 };
        Params::new(Chain::Regtest).with_version_bits(&moved).unwrap()
    }

    /// Adds blocks with this version, with times one second apart.
    fn grow(tree: &mut Tree, from: NodeId, count: u32, version: i32) -> NodeId {
        (0..count).fold(from, |parent, _| {
            let time = tree.time(parent) + 1;
            let header = Header::new(version, tree.hash(parent), Hash256::ZERO, time, 0x207f_ffff, 0);
            tree.insert(&header, header.hash(), parent)
        })
    }

    fn tree() -> Tree {
        Tree::new(&Header::new(1, BlockHash::ZERO, Hash256::ZERO, 1000, 0x207f_ffff, 0))
    }

    #[test]
    fn signalling_chain_activates_and_its_sibling_does_not() {
        let params = regtest(0, i64::MAX);
        let signal = 0x2000_0000 | 1 << params.deployment(CLEANUP).bit;
        let mut tree = tree();
        let fork = grow(&mut tree, GENESIS, 143, 4);
        let yes = grow(&mut tree, fork, 108, signal);
        let no = grow(&mut tree, fork, 107, signal);
        let yes = grow(&mut tree, yes, 400, 4);
        let no = grow(&mut tree, no, 401, 4);
        for (height, want, want_sibling) in [
            (0, ThresholdState::Defined, ThresholdState::Defined),
            (142, ThresholdState::Defined, ThresholdState::Defined),
            (143, ThresholdState::Started, ThresholdState::Started),
            (286, ThresholdState::Started, ThresholdState::Started),
            (287, ThresholdState::LockedIn, ThresholdState::Started),
            (430, ThresholdState::LockedIn, ThresholdState::Started),
            (431, ThresholdState::Active, ThresholdState::Started),
            (600, ThresholdState::Active, ThresholdState::Started),
        ] {
            let at = |tip| tree.ancestor(tip, Height::new(height));
            let states = [yes, no].map(|tip| state_after(&tree, &params, CLEANUP, at(tip)));
            assert_eq!(states, [want, want_sibling], "on top of height {height}");
            assert_eq!(cleanup_after(&tree, &params, at(yes)).is_on(), want == ThresholdState::Active, "{height}");
        }
        let first = |height| since(&tree, &params, CLEANUP, tree.ancestor(yes, Height::new(height)));
        assert_eq!(
            [0, 143, 286, 287, 430, 431, 600].map(|height| first(height).to_u32()),
            [0, 144, 144, 288, 288, 432, 432]
        );
        let count = signals(&tree, params.deployment(CLEANUP), tree.ancestor(yes, Height::new(200)));
        assert_eq!(count.collect::<Vec<_>>(), [true; 57]);
    }

    #[test]
    fn states_without_signals_follow_the_parameters() {
        let mut tree = tree();
        let tip = grow(&mut tree, GENESIS, 600, 4);
        for (row, start_time, timeout, want) in [
            ("never", VersionBits::NEVER_ACTIVE, i64::MAX, ThresholdState::Failed),
            ("always", VersionBits::ALWAYS_ACTIVE, -1, ThresholdState::Active),
            ("later", 5000, i64::MAX, ThresholdState::Defined),
            ("failed", 1000, 1300, ThresholdState::Failed),
        ] {
            assert_eq!(state_after(&tree, &regtest(start_time, timeout), CLEANUP, tip), want, "{row}");
            tree = self::tree();
            grow(&mut tree, GENESIS, 600, 4);
        }
    }
}
