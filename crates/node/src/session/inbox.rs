//! Queue of blocks between peers and the pipeline, and the threads that wait for it.
//!
//! A body stays in memory from its arrival until it is connected, if there is space; otherwise it is read back from its
//! file. Back-pressure: while the pipeline consumes blocks from memory, the network side blocks until there is space,
//! because reading and checking a body twice would cost more. While the pipeline is starved, the network side never
//! blocks.

use crate::chain::block::Checked;
use crate::chain::tree::NodeId;
use crate::datadir::feed::Inbox;
use crate::threads::locks::{Signal, lock};
use primitives::Height;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use store::blockfiles::BlockBytes;

/// Memory of a kept block: tables and txids add about a quarter to a full block.
fn memory_bytes(block_bytes: usize) -> usize {
    block_bytes + block_bytes / 4
}

/// Blocks that have arrived and are not connected yet.
pub(crate) struct Arrivals {
    patience: Duration,
    state: Mutex<InboxState>,
    changed: Signal,
}

struct Kept {
    bytes: BlockBytes,
    checked: Arc<Checked>,
    _held: p2p::Reservation,
}

#[derive(Default)]
struct InboxState {
    /// Ordered by height.
    kept: BTreeMap<(Height, NodeId), Kept>,
    kept_bytes: usize,
    kept_bytes_max: usize,
    /// Incremented with every arrival.
    arrived_count: u64,
    /// Incremented with every block that is taken.
    taken_count: u64,
    flow: Flow,
}

/// State of the flow of blocks from the peers to the pipeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Flow {
    /// The pipeline takes blocks from memory: without space the network side waits.
    #[default]
    Fed,
    /// The pipeline waits for a block that is not here, or has taken no block for a while: the network side never
    /// waits.
    Starved,
    /// The plan changed, or another thread has a request: no thread waits until [`Arrivals::calm`].
    Hurried,
    /// The session ends: no thread waits any more.
    Ended,
}

impl InboxState {
    fn remove(&mut self, key: (Height, NodeId)) -> Option<Kept> {
        let kept = self.kept.remove(&key)?;
        self.kept_bytes -= memory_bytes(kept.bytes.len());
        Some(kept)
    }

    /// Changes the flow if it is `from`.
    fn turn_to(&mut self, from: Flow, to: Flow) {
        if self.flow == from {
            self.flow = to;
        }
    }

    fn is_full(&self, more_bytes: usize) -> bool {
        self.kept_bytes + memory_bytes(more_bytes) > self.kept_bytes_max
    }
}

impl Arrivals {
    /// Keeps at most `kept_bytes_max` in memory. `patience` is the maximum wait for a block, and for space while no
    /// block is taken.
    pub(crate) fn new(kept_bytes_max: usize, patience: Duration) -> Arrivals {
        Arrivals {
            patience,
            state: Mutex::new(InboxState { kept_bytes_max, ..InboxState::default() }),
            changed: Signal::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, InboxState> {
        lock(&self.state)
    }

    /// Waits until `bytes` can be kept, unless the flow forbids waiting.
    fn wait_for_room(&self, bytes: usize) -> MutexGuard<'_, InboxState> {
        let mut state = self.lock();
        while state.is_full(bytes) && state.flow == Flow::Fed && !state.kept.is_empty() {
            let seen = state.taken_count;
            let is_over;
            (state, is_over) = self.changed.wait_for(state, self.patience);
            if is_over && state.taken_count == seen {
                state.turn_to(Flow::Fed, Flow::Starved);
            }
        }
        state
    }

    /// Keeps a valid body that is about to be stored, if there is space. Its reservation in the download window is
    /// released when it is removed.
    pub(crate) fn keep(
        &self,
        height: Height,
        id: NodeId,
        bytes: BlockBytes,
        checked: Arc<Checked>,
        held: p2p::Reservation,
    ) {
        let mut state = self.wait_for_room(bytes.len());
        if !state.is_full(bytes.len()) {
            state.kept_bytes += memory_bytes(bytes.len());
            state.kept.insert((height, id), Kept { bytes, checked, _held: held });
        }
    }

    /// Incremented with every arrival.
    pub(crate) fn arrived_count(&self) -> u64 {
        self.lock().arrived_count
    }

    /// Drops all blocks because another chain is followed. They can be read from their files.
    pub(crate) fn clear(&self) {
        let mut state = self.lock();
        state.kept_bytes = 0;
        let all = std::mem::take(&mut state.kept);
        drop(state);
        drop(all);
        self.changed.notify_all();
    }

    /// Ends all waits, and prevents new ones until [`Arrivals::calm`].
    pub(crate) fn hurry(&self) {
        let mut state = self.lock();
        if state.flow != Flow::Ended {
            state.flow = Flow::Hurried;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Ends all waits permanently; blocks that are here are not delivered any more.
    pub(crate) fn end(&self) {
        self.lock().flow = Flow::Ended;
        self.changed.notify_all();
    }

    /// Allows waiting again.
    pub(crate) fn calm(&self) {
        self.lock().turn_to(Flow::Hurried, Flow::Fed);
    }
}

impl Inbox for Arrivals {
    fn wait(&self, is_there: &dyn Fn() -> bool) -> bool {
        let end = Instant::now() + self.patience;
        loop {
            let state = self.lock();
            if state.flow == Flow::Ended {
                return false;
            }
            let seen = state.arrived_count;
            drop(state);
            if is_there() {
                return true;
            }
            let mut state = self.lock();
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || matches!(state.flow, Flow::Hurried | Flow::Ended) {
                return false;
            }
            if state.arrived_count == seen {
                state.turn_to(Flow::Fed, Flow::Starved);
                self.changed.notify_all();
                (state, _) = self.changed.wait_for(state, left);
                state.turn_to(Flow::Starved, Flow::Fed);
            }
        }
    }

    /// Also drops the blocks below `height`, which will not be connected next.
    fn take(&self, height: Height, id: NodeId) -> Option<(BlockBytes, Arc<Checked>)> {
        let mut state = self.lock();
        while let Some((&key, _)) = state.kept.first_key_value()
            && key.0 < height
        {
            state.remove(key);
        }
        let taken = state.remove((height, id));
        state.taken_count += 1;
        state.turn_to(Flow::Starved, Flow::Fed);
        drop(state);
        self.changed.notify_all();
        taken.map(|kept| (kept.bytes, kept.checked))
    }

    fn has(&self, height: Height, id: NodeId) -> bool {
        self.lock().kept.contains_key(&(height, id))
    }

    fn arrived(&self) {
        self.lock().arrived_count += 1;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ARRIVAL_PATIENCE as PATIENCE;

    fn node(number: u32) -> NodeId {
        NodeId::new(number as usize)
    }

    fn keep(arrivals: &Arrivals, height: Height, bytes: usize) {
        let checked = Checked { tables: primitives::Tables::new(), txids: Vec::new(), sigops: Vec::new() };
        let bytes = BlockBytes::from(vec![height.to_u32() as u8; bytes]);
        arrivals.keep(height, node(height.to_u32()), bytes, Arc::new(checked), p2p::Reservation::none());
        arrivals.arrived();
    }

    #[test]
    fn keep_without_room_drops_what_is_passed() {
        // Space for three blocks of 100 bytes.
        let arrivals = Arrivals::new(375, PATIENCE);
        for height in [7, 3, 5] {
            keep(&arrivals, Height::new(height), 100);
        }
        // No block is taken: this one is only in its file, and the next one does not even wait.
        keep(&arrivals, Height::new(6), 100);
        assert!(!arrivals.has(Height::new(6), node(6)));
        let before = Instant::now();
        keep(&arrivals, Height::new(8), 100);
        assert!(!arrivals.has(Height::new(8), node(8)) && before.elapsed() < PATIENCE);
        // Blocks 3 and 5 were read from their files, or are on another chain.
        assert!(arrivals.take(Height::new(6), node(6)).is_none());
        assert!(!arrivals.has(Height::new(3), node(3)) && !arrivals.has(Height::new(5), node(5)));
        assert_eq!(arrivals.take(Height::new(7), node(7)).unwrap().0[..], [7; 100]);
        assert_eq!(arrivals.lock().kept_bytes, 0);
        keep(&arrivals, Height::new(9), 100);
        arrivals.clear();
        assert!(arrivals.take(Height::new(9), node(9)).is_none());
        assert_eq!(arrivals.lock().kept_bytes, 0);
    }

    #[test]
    fn keep_waits_while_blocks_are_taken() {
        let arrivals = Arrivals::new(125, PATIENCE);
        keep(&arrivals, Height::new(1), 100);
        std::thread::scope(|scope| {
            let brings = scope.spawn(|| (2..50).for_each(|height| keep(&arrivals, Height::new(height), 100)));
            for height in 1..50 {
                while !arrivals.has(Height::new(height), node(height)) {
                    std::thread::yield_now();
                }
                assert!(arrivals.take(Height::new(height), node(height)).is_some(), "each of them came through memory");
            }
            brings.join().unwrap();
        });
    }

    #[test]
    fn keep_does_not_wait_while_the_pipeline_is_starved() {
        let arrivals = Arrivals::new(125, PATIENCE);
        keep(&arrivals, Height::new(2), 100);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| arrivals.wait(&|| arrivals.lock().arrived_count == 31));
            while arrivals.lock().flow != Flow::Starved {
                std::thread::yield_now();
            }
            (3..33).for_each(|height| keep(&arrivals, Height::new(height), 100));
            waits.join().unwrap();
        });
        assert!(arrivals.has(Height::new(2), node(2)) && !arrivals.has(Height::new(3), node(3)));
        arrivals.hurry();
        assert!(!arrivals.wait(&|| false), "no thread waits in a hurry");
        assert!(arrivals.wait(&|| true), "what is there is taken in a hurry");
        arrivals.end();
        arrivals.calm();
        assert!(!arrivals.wait(&|| true), "nothing is taken after the end");
    }
}
