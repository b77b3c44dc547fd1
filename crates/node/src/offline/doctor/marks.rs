//! Marks for invalid blocks that exclude a better chain, or contradict an earlier validation.

use super::databases::Indexed;
use super::{At, Files, Kind, Look};
use crate::chain::block::Refusal;
use crate::chain::headers;
use crate::chain::tree::{Fate, NodeId, Tree};
use crate::pipeline::{scratch, stages};
use consensus::Chain;
use primitives::Height;
use store::index::Status;

/// Activation height of BIP 110 on the main chain: nodes with it refuse blocks that are valid by Bitcoin's rules.
const BIP110_HEIGHT: Height = Height::new(961_632);

impl Look<'_> {
    /// Reports marks that exclude a chain with more work than the one of `tip`. A mark is right, and is not reported,
    /// if its block breaks a rule that can be checked without the chain.
    pub(super) fn marks(&mut self, known: &Indexed, tip: Option<NodeId>, files: &Files) {
        let Some(tip) = tip else { return };
        self.marks_set_later(known);
        let tree = known.tree.headers();
        let Some((lowest, end)) = shut_out(tree, tip) else { return };
        if self.is_invalid_alone(known, lowest, files) {
            return;
        }
        let height = tree.height(lowest);
        let hash = tree.hash(lowest);
        let above = tree.height(end).blocks_above(tree.height(tip));
        let mut what = format!("block {hash} at height {height} is marked; the chain on it is {above} blocks longer");
        if self.options.params.chain == Chain::Main && height >= BIP110_HEIGHT {
            what.push_str("; a node with the rules of BIP 110 marks such blocks from height 961632 on");
        }
        let blocks = tree.height(tip).blocks_above(height) + tree.height(end).blocks_above(height);
        let path = self.layout.index_dir();
        let at = At { hash: Some(hash), ..At::height(height) };
        self.find(Kind::ShutOut, &path, at, what, 2 + u64::from(blocks) / 20);
    }

    /// Reports marks on blocks that passed every check before, according to their validity level. Such a mark comes
    /// from a program or user that applies rules other than Bitcoin's.
    fn marks_set_later(&mut self, known: &Indexed) {
        let tree = known.tree.headers();
        let passed = |status: Status| status.is_failed() && status.level() >= Status::SCRIPTS.level();
        for entry in known.loaded.entries.iter().filter(|entry| passed(entry.status)) {
            let Some(id) = tree.find(&entry.hash) else { continue };
            if tree.parent(id).is_some_and(|parent| tree.fate(parent) != Fate::Open) {
                continue;
            }
            let what = format!("block {} at height {} is marked", entry.hash, entry.height);
            let path = self.layout.index_dir();
            self.find(Kind::MarkedLater, &path, At { hash: Some(entry.hash), ..At::height(entry.height) }, what, 2);
        }
    }

    fn is_invalid_alone(&self, known: &Indexed, id: NodeId, files: &Files) -> bool {
        let Some(at) = known.tree.body(id).location() else { return false };
        let Ok(bytes) = files.blocks.read_block(at) else { return false };
        let context = headers::context(known.tree.headers(), &self.options.params, id);
        let checked = scratch::with_check(self.options.kernels, |scratch| {
            stages::check_from_file(&self.options.params, &context, &bytes, scratch)
        });
        matches!(checked, Err(Refusal::Rule(error)) if !error.mutated())
    }
}

/// The lowest marked block of the excluded chain with the most work, and the end of that chain; `None` if the chain of
/// `tip` has as much work.
fn shut_out(tree: &Tree, tip: NodeId) -> Option<(NodeId, NodeId)> {
    let marked = tree.ids().filter(|&id| tree.fate(id) != Fate::Open && tree.work(id) > tree.work(tip));
    let end = marked.max_by_key(|&id| tree.work(id))?;
    let chain = std::iter::successors(Some(end), |&id| tree.parent(id));
    let lowest = chain.take_while(|&id| tree.fate(id) != Fate::Open).last()?;
    Some((lowest, end))
}
