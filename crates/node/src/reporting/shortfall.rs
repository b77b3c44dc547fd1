//! Why a chain ends below the best known one: damaged records, a clock that is behind the chain, or blocks that no peer
//! delivered.
//!
//! If the blocks above the tip were never available, that is not a shortfall: the reachable chain is complete. Absent
//! on purpose: reporting it (`reporter`), and the program's reaction.

use crate::chain::tree::{NodeId, Tree};
use crate::fault::Message;
use crate::reporting::DamagedRecord;
use crate::threads::locks::lock;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

/// Maximum of damaged records that are listed; further ones are only counted.
const RECORDS_MAX: usize = 1000;

/// Findings during the job, from all threads.
#[derive(Default)]
pub(crate) struct Shortfall(Mutex<Found>);

#[derive(Default)]
struct Found {
    records: Vec<DamagedRecord>,
    record_count: u64,
    /// Records of another chain.
    other_chain_count: u64,
    /// Blocks whose body was damaged.
    bodies: Vec<NodeId>,
    /// Blocks of the files without a parent.
    orphan_count: u64,
    /// Whether blocks were refused because they break a rule.
    has_refused: bool,
    /// Whether headers were refused because of the clock.
    is_clock_behind: bool,
    /// Why a file that is not empty could not be read.
    unreadable: Option<Message>,
    /// Whether announced blocks were not delivered, and no peer reports a chain that ends below them.
    is_undelivered: bool,
}

impl Shortfall {
    fn lock(&self) -> MutexGuard<'_, Found> {
        lock(&self.0)
    }

    /// A record of a block file is damaged; `body` is its block, if its header is known.
    pub(crate) fn damaged(&self, path: PathBuf, offset: u64, body: Option<NodeId>) {
        let mut found = self.lock();
        found.record_count += 1;
        found.bodies.extend(body);
        if found.records.len() < RECORDS_MAX {
            found.records.push(DamagedRecord { path, offset });
        }
    }

    /// Records of block files are of another chain.
    pub(crate) fn of_other_chain(&self, count: u64) {
        self.lock().other_chain_count += count;
    }

    /// Number of records of another chain.
    pub(crate) fn other_chain_count(&self) -> u64 {
        self.lock().other_chain_count
    }

    /// Blocks of the files have no parent.
    pub(crate) fn orphans(&self, count: usize) {
        self.lock().orphan_count += count as u64;
    }

    /// A block breaks a rule.
    pub(crate) fn refused(&self) {
        self.lock().has_refused = true;
    }

    /// Whether a block broke a rule.
    pub(crate) fn has_refused(&self) -> bool {
        self.lock().has_refused
    }

    /// Whether something was unreadable.
    pub(crate) fn has_unreadable(&self) -> bool {
        self.lock().unreadable.is_some()
    }

    /// Headers are further ahead of the clock than a rule allows.
    pub(crate) fn clock_behind(&self) {
        self.lock().is_clock_behind = true;
    }

    /// A file that is not empty has no block of this network, or could not be read to its end.
    pub(crate) fn unreadable(&self, why: Message) {
        self.lock().unreadable.get_or_insert(why);
    }

    /// No peer delivered announced blocks, and no connected peer has another tip.
    pub(crate) fn undelivered(&self) {
        self.lock().is_undelivered = true;
    }

    /// The damaged records.
    pub(crate) fn records(&self) -> Vec<DamagedRecord> {
        self.lock().records.clone()
    }

    /// Why the chain ends at `tip`, if it is not the best. `is_current`: its time is near the clock's; `is_stored`
    /// returns whether a block's body is stored.
    pub(crate) fn reason(
        &self,
        tree: &Tree,
        tip: NodeId,
        is_current: bool,
        is_stored: &dyn Fn(NodeId) -> bool,
    ) -> Option<Message> {
        let found = self.lock();
        if let Some(why) = &found.unreadable {
            return Some(why.clone());
        }
        let best = tree.best();
        let height = tree.height(tip);
        if found.is_clock_behind && !is_current {
            let why = "time-too-new: further headers are more than two hours ahead of this machine's clock";
            return Some(Message::new(why, "Set the clock and run this again"));
        }
        let is_better = tree.work(best) > tree.work(tip);
        if found.is_undelivered && is_better {
            let why = format!(
                "blocks above height {height} were announced, no peer delivered them, and no connected peer has another \
                 tip"
            );
            return Some(Message::new(why, "Run this again, with other peers"));
        }
        let is_needed = |&body: &NodeId| tree.is_ancestor(body, best) && !tree.is_ancestor(body, tip);
        let on_best = is_better && found.bodies.iter().any(is_needed);
        // Blocks after the gap: their headers have no parent, or an older index had it.
        let is_behind_gap = || is_better && is_cut(tree, tip, best, is_stored);
        let cut_off = found.record_count > 0 && (found.orphan_count > 0 || is_behind_gap());
        let first = found.records.first().filter(|_| on_best || cut_off)?;
        let why = format!(
            "{} records of the block files are damaged, the first at {} byte {}: the chain above height {height} needs them",
            found.record_count,
            first.path.display(),
            first.offset
        );
        Some(Message::new(why, "ffwd sync downloads what is missing"))
    }
}

/// Whether the chain to `best` lacks a body above `tip` and has one above that.
fn is_cut(tree: &Tree, tip: NodeId, best: NodeId, is_stored: &dyn Fn(NodeId) -> bool) -> bool {
    let mut node = best;
    let fork = tree.fork(tip, best);
    let mut is_any_above = false;
    while node != fork {
        let is_there = is_stored(node);
        if is_any_above && !is_there {
            return true;
        }
        is_any_above |= is_there;
        let Some(parent) = tree.parent(node) else { break };
        node = parent;
    }
    false
}
