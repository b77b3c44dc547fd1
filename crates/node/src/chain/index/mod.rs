//! The block index in memory: every header, its body's place and validity, the connected chain, and the best candidate.
//!
//! In: results for headers and bodies. Out: the best candidate, missing blocks, entries that must be written.
//! One lock guards all of it ([`SharedIndex`]). Each change is a method that preserves these invariants:
//! - A block's body is in the candidate set if it has a place, or is connected and pruned.
//! - If a body has several places, one of them is in use: the block's entry names it, unless its offset is beyond 4
//!   GiB.
//! - An entry that differs from its last written version is dirty, and is written once for all changes since.
//!
//! Absent on purpose: reading and writing files (`datadir::writer`), coins, time.
//! Source: Bitcoin Core b88bffe, `BlockManager` (`m_block_index`, `m_dirty_blockindex`, `m_blocks_unlinked`), `CChain`.

mod assumed;
mod body;
#[cfg(test)]
mod core_rules;
mod hinted;
mod load;
mod marks;
mod orphans;
mod prune_height;
mod shared;
#[cfg(test)]
mod tests;
mod transaction_count;

pub use body::{Body, Validity};
pub(crate) use marks::OfferedHeaders;
pub(crate) use orphans::Uncounted;
pub use prune_height::PruneHeight;
pub use shared::{Headers, SharedIndex};
pub use transaction_count::TransactionCount;

use crate::chain::best_chain::CandidateSet;
use crate::chain::headers;
use crate::chain::tree::{Fate, GENESIS, NodeId, Tree};
use consensus::Params;
use consensus::assume_valid::proof_equivalent_time_s;
use primitives::{BlockHash, Height};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use store::blockfiles::{BlockAt, FoundBlock};
use store::{FilePos, IndexEntry, Status};

/// Maximum age in seconds of stale blocks that are served to peers, by block time and by equivalent work: a month.
/// Source: Bitcoin Core b88bffe, `STALE_RELAY_AGE_LIMIT`.
const STALE_AGE_MAX_S: i64 = 30 * 24 * 60 * 60;
/// Block spacing in seconds. Source: Core's `nPowTargetSpacing`.
const SPACING_S: u32 = 600;

/// Whether a block is less than a month older than the best header, by block time and by equivalent work.
/// Source: Bitcoin Core b88bffe, `BlockRequestAllowed`, `GetBlockProofEquivalentTime`.
fn is_recent(headers: &Tree, id: NodeId) -> bool {
    let best = headers.best();
    let age = i64::from(headers.time(best)) - i64::from(headers.time(id));
    let worth = proof_equivalent_time_s(headers.work(best), headers.work(id), headers.bits(best), SPACING_S);
    age < STALE_AGE_MAX_S && worth < STALE_AGE_MAX_S
}

/// The block index.
#[derive(Debug)]
pub struct BlockIndex {
    headers: Tree,
    bodies: Vec<Body>,
    /// Further places of bodies, besides those stored in `bodies`; the next one to use is the first.
    copies: HashMap<NodeId, VecDeque<BlockAt>>,
    /// File and offset of damaged records.
    damaged: HashSet<(u32, u64)>,
    /// Blocks of the files whose parents are unknown: these may be inside a damaged record, in another file, or not yet
    /// received.
    orphans: orphans::Orphans,
    candidates: CandidateSet,
    /// Incremented with each new body.
    found_count: u64,
    /// Incremented when the body of a connected block is added, moved or removed.
    moved_count: u64,
    /// The connected chain by height.
    active: Vec<NodeId>,
    /// Headers whose entries must be written.
    dirty: Vec<NodeId>,
    /// Blocks that ffwd found invalid, in this run or an earlier one. Other marks were set by the user or bitcoind.
    refused: BTreeSet<NodeId>,
    /// The base block of a snapshot that is not validated: the blocks up to it count as connected even without bodies.
    assumed: Option<NodeId>,
    segwit_height: Height,
}

/// Role of a newly found place of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// It is the only place of the body.
    First,
    /// It is the place in use, which was known.
    InUse,
    /// It is the place of a further copy.
    Copy,
}

/// Replacement of a damaged record.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Replacement {
    /// Whether another copy of the block is now in use; otherwise its body is missing.
    pub has_copy: bool,
    /// Blocks found inside the record that had no place before.
    pub first: Vec<(NodeId, BlockAt)>,
}

impl BlockIndex {
    /// An index with only the genesis block.
    pub fn new(params: &Params) -> BlockIndex {
        let headers = headers::genesis_tree(params);
        let mut index = BlockIndex {
            candidates: CandidateSet::new(&headers),
            headers,
            bodies: Vec::new(),
            copies: HashMap::new(),
            damaged: HashSet::new(),
            orphans: orphans::Orphans::default(),
            found_count: 0,
            moved_count: 0,
            active: vec![GENESIS],
            dirty: Vec::new(),
            refused: BTreeSet::new(),
            assumed: None,
            segwit_height: params.segwit_height,
        };
        index.add_bodies(true);
        index
    }

    /// Reserves memory for this number of further headers.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.headers.reserve(more);
        self.bodies.reserve_exact(more);
    }

    /// The header tree.
    pub fn headers(&self) -> &Tree {
        &self.headers
    }

    /// The state of a block's body.
    pub fn body(&self, id: NodeId) -> &Body {
        &self.bodies[id.index()]
    }

    /// Bytes of memory used for headers and bodies.
    pub fn memory_bytes(&self) -> usize {
        self.headers.memory_bytes() + self.bodies.capacity() * size_of::<Body>()
    }

    /// The place of a block in the files.
    pub fn place(&self, id: NodeId) -> Option<BlockAt> {
        let body = self.body(id);
        let named =
            body.location().map(|at| BlockAt { file: at.file, offset: u64::from(at.offset), size: body.size() });
        named.or_else(|| self.copies.get(&id)?.front().copied())
    }

    /// The last connected block.
    pub fn tip(&self) -> NodeId {
        self.active.last().copied().unwrap_or(GENESIS)
    }

    /// The connected chain by height.
    pub fn active(&self) -> &[NodeId] {
        &self.active
    }

    /// Whether a block is on the connected chain.
    pub fn is_active(&self, id: NodeId) -> bool {
        self.active.get(self.headers.height(id).to_usize()) == Some(&id)
    }

    /// Incremented with each new body.
    pub fn found_count(&self) -> u64 {
        self.found_count
    }

    /// The best block that can become the tip: see [`CandidateSet::best`].
    pub fn best_candidate(&self, tip: NodeId) -> NodeId {
        self.candidates.best(&self.headers, tip)
    }

    /// Whether a block's body is stored, or was connected and pruned.
    pub fn has_body(&self, id: NodeId) -> bool {
        self.candidates.has_body(id)
    }

    /// Whether the bodies of a block and all its ancestors are stored, or were connected and pruned.
    pub fn is_complete(&self, id: NodeId) -> bool {
        self.candidates.is_complete(id)
    }

    /// Stored blocks off the chain of `tip` that were not checked yet, parents first; `tip` is the last connected
    /// block.
    pub fn unchecked_stale_blocks(&self, tip: NodeId) -> Vec<NodeId> {
        let headers = &self.headers;
        let is_waiting = |&id: &NodeId| self.body(id).validity() < Validity::Transactions && self.has_body(id);
        let waiting = headers.ids().filter(is_waiting);
        waiting.filter(|&id| id != GENESIS && !headers.is_ancestor(id, tip)).collect()
    }

    /// Whether a block may be accepted: no ancestor was refused on arrival. An ancestor that failed when it was
    /// connected does not matter for files, because their blocks are all accepted before the first is connected.
    /// Source: Bitcoin Core b88bffe, `AcceptBlockHeader` ("bad-prevblk").
    pub fn is_acceptable(&self, id: NodeId) -> bool {
        let parent = self.headers.parent(id);
        let is_parent_whole = |parent: NodeId| self.body(parent).validity() >= Validity::Transactions;
        match self.headers.fate(id) {
            Fate::Open => true,
            Fate::Failed => false,
            Fate::FailedParent => parent.is_some_and(is_parent_whole),
        }
    }

    /// Missing blocks on the way from `from` to `best`, up to `height`: the lowest ones, at most `limit`.
    pub fn missing_from(&self, mut from: NodeId, best: NodeId, height: Height, limit: usize) -> Vec<NodeId> {
        let headers = &self.headers;
        let mut missing = Vec::new();
        // The path is examined in pieces, because there may be a million headers of which only few blocks are needed,
        // or a single missing block above thousands of stored ones.
        let piece = (limit as u32).max(256);
        while headers.height(from) < height && missing.len() < limit {
            let to = headers.ancestor(best, height.min(headers.height(from).saturating_add(piece)));
            let absent = headers.path(from, to).into_iter().filter(|&id| self.body(id).location().is_none());
            missing.extend(absent.take(limit - missing.len()));
            from = to;
        }
        missing
    }

    /// Whether peers may request a block: it is on the active chain, or was connected once and is recent.
    /// Source: Bitcoin Core b88bffe, `BlockRequestAllowed`.
    pub fn is_shown(&self, id: NodeId) -> bool {
        let headers = &self.headers;
        let was_connected = headers.fate(id) == Fate::Open && self.body(id).validity() >= Validity::Scripts;
        self.is_active(id) || (was_connected && is_recent(headers, id))
    }

    /// Place and size of a block that peers may request.
    pub fn serve(&self, hash: &BlockHash) -> Option<(FilePos, u32)> {
        let body = self.body(self.headers.find(hash).filter(|&id| self.is_shown(id))?);
        Some((body.location()?, body.size()))
    }

    /// The lowest block up to `tip`, and not on the chain of `other`, that was never connected, according to the index.
    pub fn first_unconnected(&self, tip: NodeId, other: NodeId) -> Option<NodeId> {
        let path = self.headers.path(self.headers.fork(tip, other), tip);
        path.into_iter().find(|&id| !self.was_connected(id))
    }

    /// Whether the genesis block was not stored yet: the index is new.
    pub fn lacks_genesis(&self) -> bool {
        let genesis = self.body(GENESIS);
        !genesis.is_pruned() && genesis.validity() < Validity::Transactions
    }

    /// Whether a block was ever connected, according to the index; the genesis block counts as connected.
    pub fn was_connected(&self, id: NodeId) -> bool {
        id == GENESIS || self.body(id).validity() >= Validity::Scripts
    }

    /// Every place in use that an entry can name, with its block and size.
    pub fn places(&self) -> impl Iterator<Item = (NodeId, FilePos, u32)> + '_ {
        self.headers.ids().filter_map(|id| Some((id, self.body(id).location()?, self.body(id).size())))
    }

    /// The entry of a block for the index on disk.
    pub(crate) fn entry(&self, id: NodeId) -> IndexEntry {
        let headers = &self.headers;
        let body = self.body(id);
        let height = headers.height(id);
        let is_checked = body.validity() >= Validity::Transactions;
        let data = body.location().filter(|_| is_checked);
        let undo = body.undo().filter(|_| data.is_some());
        let mut status = Status(body.validity().level());
        if data.is_some() {
            status = status.with(Status::HAVE_DATA);
        }
        if undo.is_some() {
            status = status.with(Status::HAVE_UNDO);
        }
        if (is_checked || self.is_assumed(id)) && height >= self.segwit_height {
            status = status.with(Status::OPT_WITNESS);
        }
        if headers.fate(id) != Fate::Open {
            status = status.with(Status::FAILED_VALID);
        }
        IndexEntry {
            hash: headers.hash(id),
            header: headers.header(id),
            height,
            status,
            tx_count: body.transactions(),
            file: data.map_or(0, |at| at.file),
            data_offset: data.map_or(0, |at| at.offset),
            undo_offset: undo.map_or(0, |at| at.offset),
        }
    }
}

/// Methods on bodies: each is one transition.
impl BlockIndex {
    /// Adds a place of a block. The first place is the one in use.
    pub fn found(&mut self, id: NodeId, at: BlockAt) -> Found {
        self.add_candidate(id);
        match self.place(id) {
            Some(known) if known == at => return Found::InUse,
            Some(_) => {}
            None => {
                self.put_places(id, VecDeque::from([at]));
                return Found::First;
            }
        }
        let copies = self.copies.entry(id).or_default();
        if !copies.contains(&at) {
            copies.push_back(at);
        }
        Found::Copy
    }

    /// Adds places of blocks, except for those marked as pruned.
    pub fn found_all(&mut self, found: &[(NodeId, BlockAt)]) {
        for &(id, at) in found {
            if !self.body(id).is_pruned() {
                self.found(id, at);
            }
        }
    }

    /// Adds a place of a block that takes precedence over all known places.
    pub fn prefer(&mut self, id: NodeId, at: BlockAt) {
        self.add_candidate(id);
        let mut places = self.take_places(id);
        places.retain(|known| *known != at);
        places.push_front(at);
        self.put_places(id, places);
    }

    /// Records that a body passed the checks that need no coins.
    pub fn checked(&mut self, id: NodeId, transactions: u32) {
        self.list(id);
        let body = self.change(id);
        body.set_checked(body.validity().max(Validity::Transactions), transactions);
    }

    /// Records that the block of a known header was rewritten, with this number of transactions. A block of the active
    /// chain counts as connected.
    pub(crate) fn restored(&mut self, id: NodeId, transactions: u32) {
        let is_connected = id != GENESIS && self.is_active(id);
        let validity = if is_connected { Validity::Scripts } else { Validity::Transactions };
        let body = *self.body(id);
        if body.validity() < validity || body.transactions() != transactions {
            self.list(id);
            self.change(id).set_checked(body.validity().max(validity), transactions);
        }
    }

    /// Records that the undo data of a block was rebuilt at this offset.
    pub(crate) fn undo_made(&mut self, id: NodeId, offset: u32) {
        self.change(id).set_undo(offset);
    }

    /// Marks the genesis block as checked: it is never connected, and has no undo data.
    pub fn checked_genesis(&mut self) {
        let body = self.change(GENESIS);
        body.set_checked(Validity::Transactions, 1);
        body.set_undo(0);
    }

    /// Connects a block on top of the tip; `undo` is the offset of its undo data, if that was written.
    pub fn connected(&mut self, id: NodeId, transactions: u32, undo: Option<u32>) {
        let known = *self.body(id);
        self.list(id);
        if known.validity() != Validity::Scripts || known.transactions() != transactions || undo.is_some() {
            let body = self.change(id);
            body.set_checked(Validity::Scripts, transactions);
            undo.into_iter().for_each(|offset| body.set_undo(offset));
        }
        self.active.push(id);
    }

    /// Disconnects the tip.
    pub fn disconnected(&mut self) {
        self.active.pop();
    }

    /// Marks a block invalid, for whatever reason: it and its descendants are no longer candidates.
    pub fn invalid(&mut self, id: NodeId) {
        self.list(id);
        for marked in self.headers.fail(id) {
            self.change(marked);
        }
        self.candidates.invalid(&self.headers, id);
    }

    /// Removes invalid marks: see [`Tree::reconsider`].
    pub fn reconsider(&mut self, id: NodeId) {
        for changed in self.headers.reconsider(id) {
            self.refused.remove(&changed);
            self.change(changed);
        }
        self.candidates.reopened(&self.headers);
    }

    /// Prefers a block to others with equal work: see [`CandidateSet::precious`]. `tip` is the last connected block.
    pub fn precious(&mut self, id: NodeId, tip: NodeId) {
        self.candidates.precious(&self.headers, id, tip);
    }

    /// Handles a damaged record of a block; `inside` are blocks found in it, parents first. The next copy is used.
    /// Without one no descendant counts as connected, because bitcoind's check of the index requires that.
    pub fn body_lost(&mut self, id: NodeId, inside: &[(NodeId, BlockAt)]) -> Replacement {
        // Pruned blocks stay pruned.
        let inside: Vec<_> = inside.iter().copied().filter(|&(id, _)| !self.body(id).is_pruned()).collect();
        let mut places = self.take_places(id);
        places.pop_front();
        let mut first = Vec::new();
        for (other, at) in inside {
            if other != id {
                first.extend((self.found(other, at) == Found::First).then_some((other, at)));
            } else if !places.contains(&at) {
                places.push_back(at);
            }
        }
        let has_copy = !places.is_empty();
        if has_copy {
            self.put_places(id, places);
            self.orphans.count_again(id);
        } else {
            self.no_body_left(&[id]);
        }
        Replacement { has_copy, first }
    }

    /// Forgets all places of these blocks: they are not there. See [`BlockIndex::body_lost`].
    pub fn bodies_lost(&mut self, lost: &[NodeId]) {
        lost.iter().for_each(|&id| drop(self.take_places(id)));
        self.no_body_left(lost);
    }

    /// Clears blocks without a place, and lowers what stands on them.
    fn no_body_left(&mut self, lost: &[NodeId]) {
        lost.iter().for_each(|&id| self.moved(id));
        lost.iter().for_each(|&id| self.change(id).clear());
        let needed: Vec<NodeId> = lost.iter().copied().filter(|&id| !self.counts_without_body(id)).collect();
        let above = self.headers.descendants(&needed);
        for &other in &above {
            if self.body(other).validity() > Validity::Transactions {
                self.change(other).set_validity(Validity::Transactions);
            }
        }
        self.candidates.remove(&self.headers, &needed, &above);
    }

    /// Removes the places in files that are about to be removed. Connected blocks stay complete. Other copies of a
    /// removed body are not used, because pruned blocks stay pruned.
    pub fn pruned(&mut self, goes: impl Fn(u32) -> bool) {
        let mut absent = Vec::new();
        for id in self.headers.ids() {
            if self.body(id).location().is_some_and(|at| goes(at.file)) {
                self.moved(id);
                self.change(id).set_pruned();
                self.copies.remove(&id);
                absent.extend((!self.is_active(id)).then_some(id));
            }
        }
        let copied: Vec<NodeId> = self.copies.keys().copied().collect();
        for id in copied {
            let mut places = self.take_places(id);
            places.retain(|at| !goes(at.file));
            absent.extend((places.is_empty() && !self.is_active(id)).then_some(id));
            self.put_places(id, places);
        }
        self.orphans.retain(|block| !goes(block.location.file));
        let above = self.headers.descendants(&absent);
        self.candidates.remove(&self.headers, &absent, &above);
    }

    /// Takes the entries that changed since the last call, in the order of their headers. Changes made while these
    /// entries are being written make them dirty again.
    pub fn take_dirty(&mut self) -> Vec<IndexEntry> {
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.sort_unstable();
        dirty.retain(|id| {
            let body = &mut self.bodies[id.index()];
            let was_dirty = body.is_dirty();
            body.set_dirty(false);
            was_dirty
        });
        dirty.into_iter().map(|id| self.entry(id)).collect()
    }

    fn add_candidate(&mut self, id: NodeId) {
        let is_new = !self.candidates.has_body(id);
        self.found_count += u64::from(is_new);
        self.candidates.add(&self.headers, id);
        // The body of a connected block was lost and is stored again: its chain keeps its precedence.
        if is_new && id != GENESIS && self.is_active(id) {
            self.candidates.connected(&self.headers, &self.active);
        }
    }

    /// Takes all places of a body, the one in use first; the caller must put them back.
    fn take_places(&mut self, id: NodeId) -> VecDeque<BlockAt> {
        let named = self.body(id).location().and_then(|_| self.place(id));
        let mut places = self.copies.remove(&id).unwrap_or_default();
        named.into_iter().for_each(|at| places.push_front(at));
        places
    }

    fn put_places(&mut self, id: NodeId, mut places: VecDeque<BlockAt>) {
        let Some(&first) = places.front() else { return };
        if !self.body(id).is_at(first) {
            self.moved(id);
            self.change(id).set_location(first);
        }
        if self.body(id).location().is_some() {
            places.pop_front();
        }
        if !places.is_empty() {
            self.copies.insert(id, places);
        }
    }

    /// Counts a change of the body's place if the block is connected.
    fn moved(&mut self, id: NodeId) {
        self.moved_count += u64::from(self.is_active(id));
    }

    fn change(&mut self, id: NodeId) -> &mut Body {
        let body = &mut self.bodies[id.index()];
        if body.is_listed() && !body.is_dirty() {
            body.set_dirty(true);
            self.dirty.push(id);
        }
        body
    }

    /// Marks an entry as equal to the one on disk.
    fn clean(&mut self, id: NodeId) {
        self.bodies[id.index()].set_dirty(false);
        self.dirty.pop_if(|last| *last == id);
    }
}

/// Methods on found records that are not usable yet.
impl BlockIndex {
    /// Returns the blocks found inside the damaged record at `bad`, and those that wait for a parent. A record inside
    /// several damaged ones is tried only once: records known as damaged are left out.
    pub fn found_inside(&mut self, bad: BlockAt, mut blocks: Vec<FoundBlock>) -> Vec<FoundBlock> {
        self.damaged.insert((bad.file, bad.offset));
        blocks.retain(|block| !self.damaged.contains(&(block.location.file, block.location.offset)));
        if !blocks.is_empty() {
            blocks.append(&mut self.take_orphans());
        }
        blocks
    }
}

impl BlockIndex {
    /// Checks the invariants; called in tests, and with `-checkblockindex`.
    ///
    /// # Panics
    ///
    /// If an invariant is violated.
    pub(crate) fn invariants(&self) {
        let headers = &self.headers;
        assert_eq!(headers.len(), self.bodies.len(), "a body for each header");
        self.candidates.invariants(headers);
        let dirty: HashSet<NodeId> = self.dirty.iter().copied().collect();
        for id in headers.ids().filter(|&id| id != GENESIS) {
            let has_place = self.place(id).is_some();
            assert!(has_place <= self.has_body(id), "what has a place is there");
            let is_kept = self.is_active(id) && (self.body(id).is_pruned() || self.is_assumed(id));
            assert!(self.has_body(id) <= (has_place || is_kept), "stored data has a place, or was pruned");
            assert!(self.body(id).is_dirty() <= dirty.contains(&id), "what is dirty is written");
            let is_named = self.body(id).location().is_some();
            let copies = self.copies.get(&id);
            assert!(copies.is_none_or(
                |all| !all.is_empty() && (!is_named || self.place(id).is_some_and(|at| !all.contains(&at)))
            ));
        }
        let linked = |pair: &[NodeId]| headers.parent(pair[1]) == Some(pair[0]);
        assert!(self.active.windows(2).all(linked), "the connected chain is one");
        let best = headers.ids().filter(|&id| headers.fate(id) == Fate::Open);
        let best = best.max_by_key(|&id| (headers.work(id), std::cmp::Reverse(id)));
        assert_eq!(Some(headers.work(headers.best())), best.map(|id| headers.work(id)), "the best header");
        let marked = headers.ids().filter(|&id| headers.fate(id) != Fate::Open).map(|id| headers.work(id)).max();
        let is_better = |work: &primitives::Work| *work > headers.work(headers.best());
        let shut_out = headers.shut_out_end().map(|end| headers.work(end));
        assert_eq!(shut_out, marked.filter(is_better), "the chain that a mark shuts out");
        assert!(self.refused.iter().all(|&id| headers.fate(id) != Fate::Open), "what was refused is marked");
    }
}
