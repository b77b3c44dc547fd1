//! A UTXO set that is fetched in chunks: the state shared by the hub, which asks peers, and the reader of the set.
//!
//! The reader names a set and takes its chunks in order; the hub fetches those of a window. Nothing else of the set is
//! in memory.
//!
//! Absent on purpose: the choice of peers and requests ([`crate::hub`]).

use crate::utxo_sets::ChunkTree;
use primitives::{BlockHash, Hash256};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum number of chunks, from the reader's next one on, that are requested or in memory: 31 MB.
pub const WINDOW_COUNT: u32 = 8;
/// Notes that wait for the reader; later ones are dropped.
const NOTES_COUNT_MAX: usize = 64;
/// Roots that proved wrong; with more, nothing is fetched.
const REFUTED_COUNT_MAX: usize = 64;

/// A chunk in its message.
#[derive(Debug)]
pub struct Chunk {
    message: Vec<u8>,
    start: usize,
}

impl Chunk {
    pub(crate) fn new(message: Vec<u8>, start: usize) -> Chunk {
        Chunk { message, start }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.message[self.start..]
    }
}

/// The shared state.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// The base block of the set; `None` while nothing is wanted.
    wanted: Option<BlockHash>,
    /// The tree whose chunks are fetched.
    tree: Option<(Hash256, Arc<ChunkTree>)>,
    /// The chunk that the reader needs next.
    next: u32,
    /// The first chunk of this tree that the reader took: it took all of them up to `next`.
    taken_from: u32,
    /// No peer offers `tree` any more, and chunks of other trees do not continue those already taken: the set ends
    /// here.
    is_cut: bool,
    /// Verified chunks from `next` on, less than a window.
    chunks: BTreeMap<u32, Chunk>,
    refuted: BTreeSet<Hash256>,
    /// Whether a peer offers a tree that is neither `tree` nor refuted.
    has_other: bool,
    notes: VecDeque<String>,
}

impl Shared {
    pub(crate) fn wanted(&self) -> Option<BlockHash> {
        self.wanted
    }

    pub(crate) fn tree(&self) -> Option<&(Hash256, Arc<ChunkTree>)> {
        self.tree.as_ref()
    }

    pub(crate) fn is_refuted(&self, root: &Hash256) -> bool {
        self.refuted.contains(root)
    }

    pub(crate) fn choose(&mut self, root: Hash256, tree: Arc<ChunkTree>) {
        self.tree = Some((root, tree));
    }

    /// No peer offers the chosen tree any more: continues with this tree if the chunks that the reader took are the
    /// same in both; otherwise the set ends.
    pub(crate) fn change(&mut self, root: Hash256, tree: Arc<ChunkTree>) {
        let taken = self.taken_from as usize..self.next as usize;
        let is_same = self.tree.as_ref().is_none_or(|(_, before)| {
            taken.is_empty() || before.bytes == tree.bytes && before.hashes.get(taken.clone()) == tree.hashes.get(taken)
        });
        if is_same {
            self.chunks.clear();
            self.tree = Some((root, tree));
        } else {
            self.is_cut = true;
        }
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    pub(crate) fn set_has_other(&mut self, has_other: bool) {
        self.has_other = has_other;
    }

    pub(crate) fn note(&mut self, note: String) {
        if self.notes.len() < NOTES_COUNT_MAX {
            self.notes.push_back(note);
        }
    }

    /// Missing chunks of the window, lowest first.
    pub(crate) fn missing(&self) -> Vec<u32> {
        let Some((_, tree)) = &self.tree else { return Vec::new() };
        let count = u32::try_from(tree.hashes.len()).unwrap_or(u32::MAX);
        let window = self.next..self.next.saturating_add(WINDOW_COUNT).min(count);
        window.filter(|index| !self.chunks.contains_key(index)).collect()
    }

    /// Takes a verified chunk, if it is in the window and missing.
    pub(crate) fn put(&mut self, index: u32, chunk: Chunk) -> bool {
        let is_missing = self.missing().contains(&index);
        if is_missing {
            self.chunks.insert(index, chunk);
        }
        is_missing
    }

    fn move_to(&mut self, index: u32) {
        (self.next, self.taken_from) = (index, index);
        self.chunks = self.chunks.split_off(&index);
        // A step back leaves chunks beyond the window.
        drop(self.chunks.split_off(&index.saturating_add(WINDOW_COUNT)));
    }
}

/// The shared state behind its lock.
#[derive(Debug, Default)]
pub struct SetExchange {
    shared: Mutex<Shared>,
    changed: Condvar,
}

impl SetExchange {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the reader.
    pub(crate) fn wake(&self) {
        self.changed.notify_all();
    }

    /// Begins to fetch the set of this block.
    pub fn want(&self, base: BlockHash) {
        *self.lock() = Shared { wanted: Some(base), ..Shared::default() };
    }

    /// Nothing is fetched any more.
    pub fn end(&self) {
        *self.lock() = Shared::default();
    }

    /// Bytes of the set, once a tree was chosen.
    pub fn bytes(&self) -> Option<u64> {
        self.lock().tree.as_ref().map(|(_, tree)| tree.bytes)
    }

    /// Waits for the chunk at `index`, and makes the one after it the next; `None` if it does not arrive within
    /// `patience`.
    pub fn take(&self, index: u32, patience: Duration) -> Option<Chunk> {
        let mut shared = self.lock();
        if shared.next != index {
            shared.move_to(index);
        }
        let is_missing = |shared: &mut Shared| !shared.chunks.contains_key(&index) && !shared.is_cut;
        let waited = self.changed.wait_timeout_while(shared, patience, is_missing);
        let (mut shared, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let chunk = shared.chunks.remove(&index)?;
        shared.next = index.saturating_add(1);
        Some(chunk)
    }

    /// Waits until a tree was chosen; returns the bytes of the set.
    pub fn wait_for_bytes(&self, patience: Duration) -> Option<u64> {
        let waited = self.changed.wait_timeout_while(self.lock(), patience, |shared| shared.tree.is_none());
        let (shared, _) = waited.unwrap_or_else(PoisonError::into_inner);
        shared.tree.as_ref().map(|(_, tree)| tree.bytes)
    }

    /// Whether no more chunks follow those already taken, although the set has more.
    pub fn is_cut(&self) -> bool {
        self.lock().is_cut
    }

    /// Events since the last call: lines for the log.
    pub fn notes(&self) -> Vec<String> {
        self.lock().notes.drain(..).collect()
    }

    /// The set of the chosen tree proved wrong: its peers will be disconnected, and the set is fetched again from its
    /// start. `false` if no other tree was offered.
    pub fn refute(&self) -> bool {
        let mut shared = self.lock();
        if let Some((root, _)) = shared.tree.take() {
            shared.refuted.insert(root);
        }
        shared.chunks.clear();
        shared.move_to(0);
        shared.is_cut = false;
        let has_other = std::mem::take(&mut shared.has_other);
        has_other && shared.refuted.len() <= REFUTED_COUNT_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(chunks: usize) -> SetExchange {
        let exchange = SetExchange::default();
        exchange.want(BlockHash::from_bytes([1; 32]));
        let tree = ChunkTree { version: 2, bytes: 1, hashes: vec![Hash256::ZERO; chunks] };
        exchange.lock().choose(tree.root(), Arc::new(tree));
        exchange
    }

    fn put(exchange: &SetExchange, index: u32) -> bool {
        exchange.lock().put(index, Chunk::new(vec![0, 7], 1))
    }

    #[test]
    fn window_bounds_what_is_fetched_and_kept() {
        let exchange = exchange(20);
        assert_eq!(exchange.lock().missing(), (0..WINDOW_COUNT).collect::<Vec<_>>());
        assert!(put(&exchange, 3) && !put(&exchange, 3) && !put(&exchange, WINDOW_COUNT), "once, and of the window");
        assert!(exchange.take(0, Duration::ZERO).is_none());
        assert!(put(&exchange, 0));
        assert_eq!(exchange.take(0, Duration::ZERO).unwrap().bytes(), [7]);
        assert_eq!(exchange.lock().missing(), [1, 2, 4, 5, 6, 7, 8]);
        exchange.lock().move_to(18);
        assert_eq!(exchange.lock().missing(), [18, 19]);
        assert_eq!(exchange.lock().chunks.len(), 0);
        put(&exchange, 19);
        exchange.lock().move_to(1);
        assert_eq!(exchange.lock().chunks.len(), 0, "a step back keeps nothing beyond the window");
    }

    #[test]
    fn refuted_trees_are_not_chosen_again_and_another_is_needed() {
        let exchange = exchange(2);
        let root = exchange.lock().tree().unwrap().0;
        assert!(!exchange.refute(), "no other tree was offered");
        assert!(exchange.lock().is_refuted(&root) && exchange.bytes().is_none());
        exchange.lock().set_has_other(true);
        assert!(exchange.refute());
    }

    #[test]
    fn a_tree_is_changed_for_one_with_the_same_chunks_before() {
        for (row, taken, first, is_cut) in [
            ("nothing was taken", 0, 9, false),
            ("the same chunk was taken", 1, 0, false),
            ("another chunk was taken", 1, 9, true),
        ] {
            let exchange = exchange(3);
            if taken > 0 {
                put(&exchange, 0);
                exchange.take(0, Duration::ZERO).unwrap();
            }
            let hashes = vec![Hash256([first; 32]), Hash256([8; 32]), Hash256([8; 32])];
            let tree = Arc::new(ChunkTree { version: 2, bytes: 1, hashes });
            exchange.lock().change(tree.root(), Arc::clone(&tree));
            assert_eq!(exchange.is_cut(), is_cut, "{row}");
            let is_changed = exchange.lock().tree().is_some_and(|(root, _)| *root == tree.root());
            assert_eq!(is_changed, !is_cut, "{row}");
        }
    }

    #[test]
    fn notes_are_bounded() {
        let exchange = exchange(1);
        (0..200).for_each(|number| exchange.lock().note(number.to_string()));
        assert_eq!(exchange.notes().len(), NOTES_COUNT_MAX);
        assert!(exchange.notes().is_empty());
    }
}
