//! Blocks from peers on their way to the pipeline: what arrived, and who waits for it.
//!
//! A body is kept in memory from its arrival to its turn while there is room; without room it is read back from its file.

use crate::stages::Checked;
use crate::tree::NodeId;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use store::blockfiles::BlockBytes;

/// How long the pipeline waits for a block before it lets the run end, so that other things are looked at.
const PATIENCE: Duration = Duration::from_millis(200);

/// What a kept block takes: tables and ids are about a quarter of a full block.
fn memory_bytes(block_bytes: usize) -> usize {
    block_bytes + block_bytes / 4
}

/// What arrived and was not connected yet.
#[derive(Default)]
pub struct Arrivals {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    kept: HashMap<NodeId, (BlockBytes, Arc<Checked>, p2p::Held)>,
    kept_bytes: usize,
    kept_bytes_max: usize,
    /// Goes up with every arrival.
    count: u64,
    /// Another chain is wanted, or it is time to stop: nobody waits any more.
    hurry: bool,
}

impl Arrivals {
    /// Keeps at most so many bytes in memory.
    pub fn new(kept_bytes_max: usize) -> Arrivals {
        Arrivals { state: Mutex::new(State { kept_bytes_max, ..State::default() }), changed: Condvar::new() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }

    /// A block is stored; its bytes are kept if there is room, and room in the window is free when they are gone.
    pub fn arrived(&self, id: NodeId, bytes: Vec<u8>, checked: Arc<Checked>, held: p2p::Held) {
        let mut state = self.lock();
        if state.kept_bytes + memory_bytes(bytes.len()) <= state.kept_bytes_max {
            state.kept_bytes += memory_bytes(bytes.len());
            state.kept.insert(id, (BlockBytes::from(bytes), checked, held));
        }
        state.count += 1;
        self.changed.notify_all();
    }

    /// Takes a block out of memory, if it is there: its bytes, and what checking them gave.
    pub fn take(&self, id: NodeId) -> Option<(BlockBytes, Arc<Checked>)> {
        let mut state = self.lock();
        let (bytes, checked, _held) = state.kept.remove(&id)?;
        state.kept_bytes -= memory_bytes(bytes.len());
        Some((bytes, checked))
    }

    /// Ends all waiting until [`Arrivals::calm`].
    pub fn hurry(&self) {
        self.lock().hurry = true;
        self.changed.notify_all();
    }

    /// Waiting makes sense again.
    pub fn calm(&self) {
        self.lock().hurry = false;
    }

    /// Waits until `is_there`, asked again after each arrival; says no when patience or the occasion ends.
    pub fn wait(&self, is_there: impl Fn() -> bool) -> bool {
        let mut state = self.lock();
        loop {
            let seen = state.count;
            drop(state);
            if is_there() {
                return true;
            }
            state = self.lock();
            if state.hurry {
                return false;
            }
            if state.count == seen {
                let (next, waited) = self.changed.wait_timeout(state, PATIENCE).expect("nobody panics with it");
                state = next;
                if waited.timed_out() && state.count == seen {
                    return false;
                }
            }
        }
    }
}
