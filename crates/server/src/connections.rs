//! The connections that are open: how many there may be, and which one makes room for a new one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

/// Connections at the same time: each takes a file descriptor and some ten KB.
pub(crate) const CONNECTIONS_MAX: usize = 128;

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Connections(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    next: u64,
    open: BTreeMap<u64, Open>,
}

#[derive(Debug)]
struct Open {
    /// Requests that are being answered.
    busy: usize,
    /// Since when no request is being answered.
    idle_since: Instant,
    task: Option<AbortHandle>,
}

impl Connections {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens one more, which `spawn` starts. Where there are too many, the one that is idle for the longest is closed; where
    /// none is idle, the new one.
    pub(crate) fn open(self: &Arc<Self>, spawn: impl FnOnce(Seat) -> AbortHandle) {
        let mut table = self.lock();
        if table.open.len() >= CONNECTIONS_MAX {
            let idle = table.open.iter().filter(|(_, open)| open.busy == 0);
            let Some(id) = idle.min_by_key(|(_, open)| open.idle_since).map(|(id, _)| *id) else { return };
            if let Some(task) = table.open.remove(&id).and_then(|open| open.task) {
                task.abort();
            }
        }
        let id = table.next;
        table.next += 1;
        table.open.insert(id, Open { busy: 0, idle_since: Instant::now(), task: None });
        drop(table);
        let task = spawn(Seat { connections: self.clone(), id });
        if let Some(open) = self.lock().open.get_mut(&id) {
            open.task = Some(task);
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.lock().open.len()
    }

    /// Waits until none is open.
    pub(crate) async fn all_ended(&self) {
        while self.count() > 0 {
            sleep(Duration::from_millis(10)).await;
        }
    }
}

/// One connection's place; it is free when this is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    connections: Arc<Connections>,
    id: u64,
}

impl Seat {
    fn change(&self, change: impl FnOnce(&mut Open)) {
        if let Some(open) = self.connections.lock().open.get_mut(&self.id) {
            change(open);
        }
    }

    /// A request is being answered until this is dropped.
    pub(crate) fn busy(self: Arc<Seat>) -> Busy {
        self.change(|open| open.busy += 1);
        Busy(self)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.connections.lock().open.remove(&self.id);
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Seat>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.change(|open| {
            open.busy -= 1;
            open.idle_since = Instant::now();
        });
    }
}
