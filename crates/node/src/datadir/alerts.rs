//! Checks the chain for conditions that the operator must know: after each change of the chain, outside the initial
//! block download.
//!
//! Source: Bitcoin Core b88bffe, validation.cpp, `UpdateTip`, `CheckForkWarningConditions`.

use super::DataDir;
use crate::chain::index::BlockIndex;
use crate::chain::tree::{Fate, NodeId};
use crate::reporting::alerts::AlertKind;
use crate::threads::locks::lock;
use consensus::version_bits::unknown_activations;
use primitives::{Height, Work};

/// An invalid chain is reported if its work exceeds the active chain's by more than this many blocks.
const LONGER_COUNT: u64 = 6;
/// Core's warning about such a chain.
const INVALID_CHAIN: &str = "Warning: Found invalid chain more than 6 blocks longer than our best chain. This could be due to database corruption or consensus incompatibility with peers.";

impl DataDir<'_> {
    /// Sets the alerts that apply to the chain up to `tip`, and ends the others. Does nothing in the initial block
    /// download.
    pub(crate) fn look_for_alerts(&self, tip: NodeId) {
        let (rules, is_longer) = {
            let index = self.index.read();
            if self.is_initial(index.headers(), tip) {
                return;
            }
            (self.unknown_rules(&index, tip), has_longer_invalid_chain(&index, tip))
        };
        let advice = "Look for a newer ffwd: blocks are checked by the rules that it knows";
        self.reporter.alert(AlertKind::UnknownRules, rules.as_deref(), advice);
        let advice =
            "Look for a newer ffwd, and compare the tip with another node's; reconsiderblock removes an old mark";
        self.reporter.alert(AlertKind::InvalidChain, is_longer.then_some(INVALID_CHAIN), advice);
    }

    /// Unknown rules that miners activated. The result changes only at the end of a period, so it is computed once for
    /// each last block of a period.
    fn unknown_rules(&self, index: &BlockIndex, tip: NodeId) -> Option<String> {
        let tree = index.headers();
        let active = index.active();
        let complete = (tree.height(tip).to_u32() + 1) / self.params.difficulty_adjustment_interval();
        let last = (complete * self.params.difficulty_adjustment_interval()).checked_sub(1)?;
        let last = *active.get(Height::new(last).to_usize())?;
        let mut known = lock(&self.unknown_rules);
        if let Some((_, rules)) = known.as_ref().filter(|(at, _)| *at == last) {
            return rules.clone();
        }
        let version = |height: Height| active.get(height.to_usize()).map_or(0, |&id| tree.version(id));
        let announced = unknown_activations(self.params, tree.height(tip), version);
        let first = announced.into_iter().find(|rules| rules.is_active);
        let rules = first.map(|rules| format!("Unknown new rules activated (versionbit {})", rules.bit));
        *known = Some((last, rules.clone()));
        rules
    }
}

fn has_longer_invalid_chain(index: &BlockIndex, tip: NodeId) -> bool {
    let tree = index.headers();
    let refused = tree.ids().filter(|&id| tree.fate(id) != Fate::Open).map(|id| tree.work(id)).max();
    let more = Work::of_bits(tree.bits(tip)).0.wrapping_mul_u64(LONGER_COUNT);
    refused.is_some_and(|work| work > tree.work(tip).saturating_add(Work(more)))
}
