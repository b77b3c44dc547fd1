//! Open connections: their maximum number, and which one is closed for a new one.
//!
//! `-rpcmaxconnections` slots are for connections with a request in progress or an answer that is being sent, and for
//! those that have sent nothing yet. An answered client that keeps its connection, and a reader of the page's events,
//! use no slot: neither costs a thread, and neither keeps others out. All of them together are at most
//! [`CONNECTIONS_MAX`].
//!
//! A client that has shown a right password is trusted: its requests and answers are never cut off for another client.
//! While another client waits for room, an untrusted connection is closed after its next answer, or within an answer
//! that it takes too slowly: frequent requests do not use up the connections.

use crate::long_bodies::SLOWEST_BYTES_A_S;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

/// Maximum number of connections, with and without a slot, whatever `-rpcmaxconnections` is: each takes a file
/// descriptor and some ten KB.
pub(crate) const CONNECTIONS_MAX: usize = 128;
/// Time after an answer, or for a body without a password, before the connection may be closed for a new one.
const GRACE: Duration = Duration::from_millis(200);
/// Time that a client which has just connected has to send something, however many others connect. It is short, because
/// others wait for the slot meanwhile: with 16 slots, 320 silent clients pass in a second.
const NEW_GRACE: Duration = Duration::from_millis(50);
/// Time after a wrong password before the connection may be closed for a new one: it is closed before idle ones, so
/// that others are answered, and each guess still occupies a slot for this time.
const WRONG_GRACE: Duration = Duration::from_millis(50);
/// Maximum bytes of a part of an answer: see `sent_body`.
pub(crate) const PART_BYTES_MAX: usize = 64 << 10;
/// Time by which a client without a password may be late in taking its answer, before its connection may be closed for
/// a new one.
const SEND_GRACE: Duration = Duration::from_secs(2);
/// Time for such a client to take a part of its answer: what a long request has for as many bytes.
const PART_TIME: Duration = Duration::from_millis(PART_BYTES_MAX as u64 * 1000 / SLOWEST_BYTES_A_S);

/// Interval of checks while all slots are busy; the end of a connection, or an idle one, ends it early.
const BUSY_PAUSE: Duration = Duration::from_millis(500);

/// All connections.
#[derive(Debug)]
pub(crate) struct Connections {
    table: Mutex<Table>,
    /// Number of slots.
    count_max: usize,
    /// A connection has ended, or become idle.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    open: BTreeMap<u64, Open>,
    /// Number of clients that wait for room, at most one for each listener.
    waiting: usize,
}

#[derive(Debug)]
struct Open {
    /// Number of requests in progress, answers that are being sent included, except those whose client still sends a
    /// body without a password.
    busy: usize,
    /// Since when no request is in progress. For an answer that is being sent: when its parts would have been sent at
    /// the lowest rate, and never later than now.
    idle_since: Instant,
    /// Whether an answer is being sent.
    is_sending: bool,
    /// Whether the client has shown a right password.
    is_trusted: bool,
    /// Since when the answer to a wrong password is delayed.
    wrong_since: Option<Instant>,
    /// Whether the headers of a request have arrived.
    has_asked: bool,
    /// Whether a request was answered.
    is_answered: bool,
    /// Whether it reads the page's events.
    reads_events: bool,
    task: Option<AbortHandle>,
}

/// What a new connection needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Room {
    /// Nothing: there is room.
    Free,
    /// This connection has to be closed.
    Close(u64),
    /// Time: no connection may be closed yet.
    After(Duration),
}

impl Open {
    fn new() -> Open {
        let idle_since = Instant::now();
        Open {
            busy: 0,
            idle_since,
            is_sending: false,
            is_trusted: false,
            wrong_since: None,
            has_asked: false,
            is_answered: false,
            reads_events: false,
            task: None,
        }
    }

    /// Whether it uses one of the slots.
    fn has_slot(&self) -> bool {
        !self.reads_events && (self.busy > 0 || !self.is_answered)
    }

    /// Time until it may be closed for a new one; `None` while it must not be.
    fn time_left(&self) -> Option<Duration> {
        match (self.wrong_since, self.busy) {
            (Some(since), _) => Some(WRONG_GRACE.saturating_sub(since.elapsed())),
            (None, 0) => Some(self.grace().saturating_sub(self.idle_since.elapsed())),
            _ if self.is_sending && !self.is_trusted && !self.reads_events => {
                Some(SEND_GRACE.saturating_sub(self.idle_since.elapsed()))
            }
            _ => None,
        }
    }

    fn grace(&self) -> Duration {
        if self.has_asked { GRACE } else { NEW_GRACE }
    }

    /// Ordered first: closed first. After a wrong password before idle; then the longest time.
    fn rank(&self) -> (bool, Instant) {
        (self.wrong_since.is_none(), self.wrong_since.unwrap_or(self.idle_since))
    }
}

impl Table {
    /// Room for one more. If all slots are used, only a connection with a slot makes room: a crowd of new connections
    /// closes none of an answered client.
    fn room(&self, count_max: usize) -> Room {
        let slots = self.open.values().filter(|open| open.has_slot()).count();
        if slots < count_max && self.open.len() < CONNECTIONS_MAX {
            return Room::Free;
        }
        let needs_slot = slots >= count_max;
        let candidates = self.open.iter().filter(|(_, open)| !needs_slot || open.has_slot());
        let candidates = candidates.filter_map(|(id, open)| Some((open.time_left()?, open.rank(), *id)));
        let candidates: Vec<_> = candidates.collect();
        let first = candidates.iter().filter(|(left, ..)| left.is_zero()).min_by_key(|(_, rank, id)| (*rank, *id));
        match first {
            Some((.., id)) => Room::Close(*id),
            None => Room::After(candidates.iter().map(|(left, ..)| *left).min().unwrap_or(BUSY_PAUSE)),
        }
    }
}

impl Connections {
    /// Slots for `count_max` connections (`-rpcmaxconnections`), at most [`CONNECTIONS_MAX`].
    pub(crate) fn new(count_max: usize) -> Connections {
        let count_max = count_max.clamp(1, CONNECTIONS_MAX);
        Connections { table: Mutex::default(), count_max, changed: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until one more can be opened without closing a busy connection, one idle for less than [`GRACE`] or
    /// [`NEW_GRACE`], one whose wrong password is younger than [`WRONG_GRACE`], or one that is late by less than
    /// [`SEND_GRACE`] in taking its answer.
    pub(crate) async fn room(&self) {
        let mut waits = None;
        while let Some(left) = self.time_to_room() {
            waits.get_or_insert_with(|| Waits::new(self));
            tokio::select! {
                () = sleep(left) => {}
                () = self.changed.notified() => {}
            }
        }
    }

    fn time_to_room(&self) -> Option<Duration> {
        match self.lock().room(self.count_max) {
            Room::Free | Room::Close(_) => None,
            Room::After(left) => Some(left),
        }
    }

    /// Opens a connection, which `spawn` starts. Without room, closes the connection that waits longest after a wrong
    /// password; otherwise the one that is idle longest; otherwise the new one.
    pub(crate) fn open(self: &Arc<Self>, spawn: impl FnOnce(Seat) -> AbortHandle) {
        let mut table = self.lock();
        match table.room(self.count_max) {
            Room::Free => {}
            Room::Close(id) => {
                if let Some(task) = table.open.remove(&id).and_then(|open| open.task) {
                    task.abort();
                }
            }
            Room::After(_) => return,
        }
        let id = table.next;
        table.next += 1;
        table.open.insert(id, Open::new());
        drop(table);
        let task = spawn(Seat { connections: self.clone(), id });
        if let Some(open) = self.lock().open.get_mut(&id) {
            open.task = Some(task);
        }
    }

    /// Number of connections.
    pub(crate) fn count(&self) -> usize {
        self.lock().open.len()
    }

    /// Waits until all connections have ended.
    pub(crate) async fn all_ended(&self) {
        while self.count() > 0 {
            sleep(Duration::from_millis(10)).await;
        }
    }
}

/// A client that waits for room, counted until this is dropped.
struct Waits<'c>(&'c Connections);

impl<'c> Waits<'c> {
    fn new(connections: &'c Connections) -> Waits<'c> {
        connections.lock().waiting += 1;
        Waits(connections)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}

/// The entry of one connection, removed on drop.
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

    /// Records that the client has shown a right password.
    pub(crate) fn trust(&self) {
        self.change(|open| open.is_trusted = true);
    }

    /// Whether the connection must be closed after the next answer: another client waits for room, and this one has
    /// shown no password.
    pub(crate) fn must_close(&self) -> bool {
        let table = self.connections.lock();
        table.waiting > 0 && table.open.get(&self.id).is_some_and(|open| !open.is_trusted)
    }

    /// Delays the answer to a wrong password.
    pub(crate) async fn delay(&self, time: Duration) {
        self.change(|open| open.wrong_since = Some(Instant::now()));
        sleep(time).await;
        self.change(|open| open.wrong_since = None);
    }

    /// Marks the connection as busy until the result is dropped.
    pub(crate) fn busy(self: Arc<Seat>) -> Busy {
        self.change(|open| {
            open.busy += 1;
            open.has_asked = true;
        });
        Busy(self)
    }

    /// Counts the request as none in progress until the result is dropped: its client sends a body without a password,
    /// and one that stops sending makes room for others, as one does that stops within its headers.
    pub(crate) fn receives(self: Arc<Seat>) -> Receives {
        self.change(|open| {
            open.busy = open.busy.saturating_sub(1);
            open.idle_since = Instant::now();
        });
        self.connections.changed.notify_one();
        Receives(self)
    }

    /// Marks the connection as a busy one without a slot until the result is dropped.
    pub(crate) fn reads_events(self: Arc<Seat>) -> ReadsEvents {
        self.change(|open| open.reads_events = true);
        self.connections.changed.notify_one();
        ReadsEvents { seat: self.clone(), _busy: self.busy() }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.connections.lock().open.remove(&self.id);
        self.connections.changed.notify_one();
    }
}

/// A request in progress.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Seat>);

impl Busy {
    /// The answer is being sent from now on.
    pub(crate) fn sends(&self) {
        self.0.change(|open| {
            open.is_sending = true;
            open.idle_since = Instant::now();
        });
    }

    /// The client has taken the earlier parts of the answer, and gets the next one.
    pub(crate) fn sends_part(&self) {
        self.0.change(|open| open.idle_since = Instant::now().min(open.idle_since + PART_TIME));
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.change(|open| {
            open.busy = open.busy.saturating_sub(1);
            open.is_sending = false;
            open.is_answered = true;
            open.idle_since = Instant::now();
        });
        self.0.connections.changed.notify_one();
    }
}

/// A body that is received without a password.
#[derive(Debug)]
pub(crate) struct Receives(Arc<Seat>);

impl Drop for Receives {
    fn drop(&mut self) {
        self.0.change(|open| open.busy += 1);
    }
}

/// A reader of the page's events.
#[derive(Debug)]
pub(crate) struct ReadsEvents {
    seat: Arc<Seat>,
    _busy: Busy,
}

impl Drop for ReadsEvents {
    fn drop(&mut self) {
        self.seat.change(|open| open.reads_events = false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// Every place is taken by a connection with a wrong password: one of them goes, and not the one that has just
    /// come.
    #[test]
    fn wrong_passwords_make_room_first() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let connections = Arc::new(Connections::new(CONNECTIONS_MAX));
            let (entered, delayed) = (Arc::new(AtomicUsize::new(0)), GRACE * 100);
            let open = |is_wrong: bool| {
                let entered = entered.clone();
                connections.open(|seat| {
                    let task = async move {
                        let seat = Arc::new(seat);
                        let _busy = seat.clone().busy();
                        entered.fetch_add(1, Relaxed);
                        if is_wrong { seat.delay(delayed).await } else { sleep(delayed).await }
                    };
                    tokio::spawn(task).abort_handle()
                });
            };
            open(false);
            (1..CONNECTIONS_MAX).for_each(|_| open(true));
            while entered.load(Relaxed) < CONNECTIONS_MAX {
                tokio::task::yield_now().await;
            }
            let start = Instant::now();
            connections.room().await;
            assert!(start.elapsed() < GRACE, "a guess costs a place for a moment");
            open(false);
            let open: Vec<u64> = connections.lock().open.keys().copied().collect();
            assert_eq!(open.len(), CONNECTIONS_MAX);
            assert!(open.contains(&0) && !open.contains(&1) && open.contains(&(CONNECTIONS_MAX as u64)));
        });
    }

    #[test]
    fn busy_connections_are_waited_for() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let connections = Arc::new(Connections::new(2));
            let (end, ended) = tokio::sync::watch::channel(false);
            for _ in 0..2 {
                let mut ended = ended.clone();
                connections.open(|seat| {
                    let task = async move {
                        let _busy = Arc::new(seat).busy();
                        let _ = ended.wait_for(|ended| *ended).await;
                    };
                    tokio::spawn(task).abort_handle()
                });
            }
            tokio::task::yield_now().await;
            let waited = tokio::time::timeout(GRACE * 2, connections.room()).await;
            assert!(waited.is_err() && connections.count() == 2, "no place while both are busy");
            end.send(true).unwrap();
            tokio::time::timeout(BUSY_PAUSE * 10, connections.room()).await.expect("there is one when they have ended");
            assert_eq!(Connections::new(usize::MAX).count_max, CONNECTIONS_MAX);
        });
    }

    #[test]
    fn who_has_just_connected_makes_no_room() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let connections = Arc::new(Connections::new(CONNECTIONS_MAX));
            let open = || {
                connections.open(|seat| tokio::spawn(async { drop((seat, sleep(GRACE * 100).await)) }).abort_handle())
            };
            let start = Instant::now();
            (0..CONNECTIONS_MAX - 1).for_each(|_| open());
            assert_eq!(connections.time_to_room(), None, "there is a place");
            open();
            assert!(connections.time_to_room().is_some() || start.elapsed() >= NEW_GRACE);
            connections.room().await;
            assert!(start.elapsed() >= NEW_GRACE, "the first one had its time");
            open();
            assert_eq!(connections.count(), CONNECTIONS_MAX);
            assert!(!connections.lock().open.contains_key(&0), "then it makes room");
        });
    }

    /// Beyond all slots, up to the bound of all connections; then the one that is idle longest goes.
    #[test]
    fn answered_clients_and_readers_use_no_slot() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let connections = Arc::new(Connections::new(2));
            let open = |reads: bool| {
                connections.open(|seat| {
                    let seat = Arc::new(seat);
                    let task = async move {
                        if reads {
                            let _reads = seat.reads_events();
                            sleep(GRACE * 100).await;
                        } else {
                            drop(seat.clone().busy());
                            sleep(GRACE * 100).await;
                            drop(seat);
                        }
                    };
                    tokio::spawn(task).abort_handle()
                });
            };
            for number in 0..CONNECTIONS_MAX {
                assert_eq!(connections.lock().room(2), Room::Free, "{number}");
                open(number == 0);
                tokio::task::yield_now().await;
            }
            assert!(matches!(connections.lock().room(2), Room::After(left) if left <= GRACE));
            connections.room().await;
            assert_eq!(connections.lock().room(2), Room::Close(1), "the oldest that is no reader");
        });
    }

    /// A request whose body stalls makes room, and is in progress again when the body is complete.
    #[test]
    fn body_without_a_password_counts_as_silence() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let connections = Arc::new(Connections::new(1));
            let mut seats = Vec::new();
            connections.open(|seat| {
                seats.push(Arc::new(seat));
                tokio::spawn(async {}).abort_handle()
            });
            let seat = seats.pop().unwrap();
            let busy = seat.clone().busy();
            assert_eq!(connections.lock().room(1), Room::After(BUSY_PAUSE), "in progress");
            let receives = seat.receives();
            let room = connections.lock().room(1);
            assert!(matches!(room, Room::After(left) if left > NEW_GRACE && left <= GRACE), "{room:?}");
            sleep(GRACE).await;
            assert_eq!(connections.lock().room(1), Room::Close(0));
            drop(receives);
            assert_eq!(connections.lock().room(1), Room::After(BUSY_PAUSE), "in progress");
            drop(busy);
            assert_eq!(connections.lock().room(1), Room::Free);
        });
    }

    /// One connection that is opened, with a task that does nothing.
    fn opened(connections: &Arc<Connections>) -> Arc<Seat> {
        let mut seats = Vec::new();
        connections.open(|seat| {
            seats.push(Arc::new(seat));
            tokio::spawn(async {}).abort_handle()
        });
        seats.pop().unwrap()
    }

    #[test]
    fn untrusted_connections_are_closed_after_answers_while_others_wait() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let connections = Arc::new(Connections::new(2));
            let untrusted = opened(&connections);
            let trusted = opened(&connections);
            trusted.trust();
            let busy = [untrusted.clone().busy(), trusted.clone().busy()];
            assert!(!untrusted.must_close(), "nobody waits");
            let mut room = Box::pin(connections.room());
            assert!(tokio::time::timeout(GRACE, room.as_mut()).await.is_err());
            assert!(untrusted.must_close() && !trusted.must_close());
            drop(room);
            assert!(!untrusted.must_close(), "nobody waits any more");
            drop(busy);
        });
    }

    /// A trusted client takes its answer at any pace; another one at a lowest rate, or its connection makes room.
    #[test]
    fn answers_that_untrusted_clients_do_not_take_make_room() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let connections = Arc::new(Connections::new(1));
            let seat = opened(&connections);
            let busy = seat.clone().busy();
            busy.sends();
            let left = || match connections.lock().room(1) {
                Room::After(left) => left,
                other => panic!("{other:?}"),
            };
            assert!(left() <= SEND_GRACE && left() > GRACE, "{:?}", left());
            sleep(GRACE).await;
            assert!(left() <= SEND_GRACE - GRACE, "{:?}", left());
            busy.sends_part();
            assert!(left() <= SEND_GRACE - GRACE + PART_TIME, "a part is worth its time: {:?}", left());
            (0..1_000).for_each(|_| busy.sends_part());
            assert!(left() <= SEND_GRACE, "time is not saved up: {:?}", left());
            let late = Instant::now().checked_sub(SEND_GRACE).unwrap();
            seat.change(|open| open.idle_since = late);
            assert_eq!(connections.lock().room(1), Room::Close(0));
            seat.change(|open| open.reads_events = true);
            assert_eq!(connections.lock().room(1), Room::Free, "a reader uses no slot");
            assert_eq!(connections.lock().open[&0].time_left(), None, "and stays");
            seat.change(|open| open.reads_events = false);
            seat.trust();
            assert_eq!(connections.lock().room(1), Room::After(BUSY_PAUSE), "in progress");
            drop(busy);
            assert_eq!(connections.lock().room(1), Room::Free);
            assert!(!connections.lock().open[&0].is_sending);
        });
    }
}
