//! The polling thread, and the thread that reads blocks and filters for peers.

use super::dial::{Isolation, Proxy};
use super::rate::{RateLimit, Turns};
use super::unread::{Events, Unread};
use super::{LoopMessage, LoopSender, Network, descriptors, dial};
use crate::api::{Config, Event, PeerId, Progress, proxy_for};
use crate::budget::{InFlightBudget, Waker};
use crate::chain::ChainView;
use crate::hub::{Action, Hub, ReadRequest};
use crate::params::REGTEST;
use crate::permissions::Permissions;
use crate::reason::Reason;
use crate::rng::Rng;
use crate::time::Now;
use crate::wire::{PeerAddress, Target};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Interval of ticks.
const TICK_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum bytes read from one socket before the others have their turn.
const READ_BYTES_MAX: usize = 2 << 20;
/// Maximum connections accepted on one listening socket before the peers have their turn.
const ACCEPT_COUNT_MAX: usize = 8;

/// Purpose of a listening socket.
#[derive(Clone, Copy)]
enum Gate {
    /// A socket for all peers, with these permissions.
    Plain(Permissions),
    /// A socket for a Tor service.
    Onion,
}

/// Proxies, and how they are used.
struct Proxies {
    all: Option<String>,
    onion: Option<String>,
    isolation: Isolation,
}

impl Proxies {
    fn of(config: &Config) -> Proxies {
        let isolation = if config.proxy_randomize { Isolation::Each } else { Isolation::None };
        Proxies { all: config.proxy.clone(), onion: config.onion_proxy.clone(), isolation }
    }

    fn of_target(&self, target: &Target) -> Option<Proxy> {
        let address = proxy_for(target, self.all.as_deref(), self.onion.as_deref())?.to_owned();
        Some(Proxy { address, isolation: self.isolation })
    }
}

struct ReadJob {
    peer: PeerId,
    request: ReadRequest,
}

struct Runner {
    hub: Hub,
    budget: Arc<InFlightBudget>,
    proxies: Proxies,
    sockets: BTreeMap<PeerId, TcpStream>,
    listeners: Vec<(TcpListener, Gate)>,
    /// A listening socket failed: it is paused until the next tick.
    accept_paused: bool,
    /// The last accept failed.
    accept_failed: bool,
    woken: UnixStream,
    inbox: Receiver<LoopMessage>,
    inbox_sender: LoopSender,
    read_jobs: Sender<ReadJob>,
    events: Events,
    progress: Arc<Mutex<Progress>>,
    timeline: Timeline,
    rate: RateLimit,
    turns: Turns,
    /// By the machine's clock, which continues while the mock clock stands still.
    ticked_at: Option<Instant>,
}

pub(super) fn start(mut config: Config, chain: Arc<dyn ChainView>, events: Sender<Event>) -> io::Result<Network> {
    let listeners = listeners(&config, &events)?;
    if let Some(note) = descriptors::fit(&mut config) {
        // The receiver may have been dropped already: there is nothing to do then.
        let _ = events.send(Event::Note(note));
    }
    let listening = listeners.iter().map(|(socket, _)| socket.local_addr()).collect::<io::Result<Vec<_>>>()?;
    config.proxy = config.proxy.map(|text| dial::proxy_address(&text)).transpose()?;
    config.onion_proxy = config.onion_proxy.map(|text| dial::proxy_address(&text)).transpose()?;
    let (near, woken) = UnixStream::pair()?;
    near.set_nonblocking(true)?;
    woken.set_nonblocking(true)?;
    let waker = Waker::new(near);
    let budget = Arc::new(InFlightBudget::default());
    budget.set_waker(waker.clone());
    let (sender, inbox) = channel();
    let inbox_sender = LoopSender { sender, waker };
    let progress = Arc::new(Mutex::new(Progress::default()));

    let proxies = Proxies::of(&config);
    let is_paused = Arc::new(AtomicBool::new(false));
    let rate = RateLimit::new(config.download_rate_max, is_paused.clone());
    // Only on regtest can the user move the clock.
    let mut timeline = Timeline::new(config.clock, config.network.magic == REGTEST.magic);
    let hub = Hub::new(config, Arc::clone(&chain), Arc::clone(&budget), Rng::System, timeline.now())
        .map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why.to_string()))?;
    let (read_jobs, jobs) = channel();
    let reader = spawn_reader(chain, jobs, inbox_sender.clone())?;
    let unread = Arc::<Unread>::default();
    let runner = Runner {
        hub,
        budget: Arc::clone(&budget),
        proxies,
        sockets: BTreeMap::new(),
        listeners,
        accept_paused: false,
        accept_failed: false,
        woken,
        inbox,
        inbox_sender: inbox_sender.clone(),
        read_jobs,
        events: Events::new(events, unread.clone()),
        progress: Arc::clone(&progress),
        timeline,
        rate,
        turns: Turns::default(),
        ticked_at: None,
    };
    let thread = Builder::new().name("ffwd-net".to_owned()).spawn(move || {
        runner.run();
        let _ = reader.join();
    })?;
    let thread = Mutex::new(Some(thread));
    Ok(Network { inbox_sender, budget, progress, listening, thread, peers: None, is_paused, unread })
}

/// The sockets that accept connections.
fn listeners(config: &Config, events: &Sender<Event>) -> io::Result<Vec<(TcpListener, Gate)>> {
    let plain = config.listen.iter().map(|address| (*address, Gate::Plain(Permissions::NONE)));
    let permitted = config.whitebind.iter().map(|(address, given)| (*address, Gate::Plain(*given)));
    let onion = config.onion.iter().map(|address| (*address, Gate::Onion));
    let sockets = plain.chain(permitted).chain(onion);
    let mut listeners = sockets.map(|(address, gate)| Ok((listen(&address)?, gate))).collect::<io::Result<Vec<_>>>()?;
    match config.onion_default.map(|address| listen(&address)) {
        Some(Ok(socket)) => listeners.push((socket, Gate::Onion)),
        Some(Err(why)) => {
            let text = format!(
                "No connections from a Tor service are taken: {why}. -bind=IP:PORT=onion names another address"
            );
            let _ = events.send(Event::Note(text));
        }
        None => {}
    }
    Ok(listeners)
}

fn listen(address: &SocketAddr) -> io::Result<TcpListener> {
    // Source of the words: Bitcoin Core b88bffe, `CConnman::BindListenPort`.
    let why = |why: io::Error| {
        let text = format!("Unable to bind to {address} on this computer (bind returned error {why})");
        io::Error::new(why.kind(), text)
    };
    let listener = TcpListener::bind(address).map_err(why)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The time since the start and the time of day.
///
/// On a test network the user may stop and move the time of day. Then timeouts follow it, as with Core's `-mocktime`:
/// no time passes while it stands still, and a forward move counts as elapsed time.
struct Timeline {
    clock: fn() -> SystemTime,
    follows_clock: bool,
    since_start: Duration,
    /// When both clocks were last read, and the time of day then.
    read_at: Instant,
    day: Duration,
    /// The time of day was moved, and no tick has seen it yet.
    is_moved: bool,
    /// The machine was suspended or its clock was set, on a network where timeouts do not follow the time of day, and no
    /// tick has seen it yet.
    is_woken: bool,
}

/// The maximum difference of the two clocks between two readings, if neither was stopped or moved.
const JUMP_MIN: Duration = Duration::from_secs(1);
/// From this difference on, peers are asked whether they are still there. [`Instant`] does not count the time during
/// which the machine is suspended.
const SUSPENSION_MIN: Duration = Duration::from_secs(60);

impl Timeline {
    fn new(clock: fn() -> SystemTime, follows_clock: bool) -> Timeline {
        let day = since_1970(clock);
        Timeline {
            clock,
            follows_clock,
            since_start: Duration::ZERO,
            read_at: Instant::now(),
            day,
            is_moved: false,
            is_woken: false,
        }
    }

    fn now(&mut self) -> Now {
        let read_at = Instant::now();
        let day = since_1970(self.clock);
        let elapsed = read_at.saturating_duration_since(self.read_at);
        let passed = self.passed(elapsed, day);
        self.is_moved |= passed >= elapsed + JUMP_MIN;
        self.is_woken |= !self.follows_clock && day.saturating_sub(self.day) >= elapsed + SUSPENSION_MIN;
        self.since_start += passed;
        self.read_at = read_at;
        self.day = day;
        Now { since_start: self.since_start, unix: day.as_secs() }
    }

    /// How much time has passed since the last reading: `elapsed` by the machine's clock, `day` is the time of day now.
    fn passed(&self, elapsed: Duration, day: Duration) -> Duration {
        if !self.follows_clock {
            return elapsed;
        }
        let moved = day.saturating_sub(self.day);
        // A stopped clock shows whole seconds; a running one almost never does.
        let is_stopped = day.subsec_nanos() == 0;
        if !is_stopped && moved.abs_diff(elapsed) < JUMP_MIN { elapsed } else { moved }
    }
}

fn since_1970(clock: fn() -> SystemTime) -> Duration {
    clock().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn spawn_reader(
    chain: Arc<dyn ChainView>,
    jobs: Receiver<ReadJob>,
    inbox_sender: LoopSender,
) -> io::Result<JoinHandle<()>> {
    Builder::new().name("ffwd-serve".to_owned()).spawn(move || {
        for ReadJob { peer, request } in jobs {
            inbox_sender.send(LoopMessage::Served(peer, request.read(&*chain)));
        }
    })
}

impl Runner {
    fn run(mut self) {
        loop {
            if self.take_messages().is_break() {
                let now = self.now();
                self.events.begin_end();
                self.hub.stop(now);
                self.act();
                return;
            }
            self.tick();
            let now = self.now();
            self.hub.schedule(now);
            self.act();
            self.write_all();
            self.act();
            self.hub.will_wait();
            self.poll();
        }
    }

    fn now(&mut self) -> Now {
        self.timeline.now()
    }

    /// Handles messages of other threads; breaks at the one that stops the loop.
    fn take_messages(&mut self) -> ControlFlow<()> {
        let now = self.now();
        self.inbox_sender.waker.looks();
        while let Ok(message) = self.inbox.try_recv() {
            match message {
                LoopMessage::Stop => return ControlFlow::Break(()),
                LoopMessage::FromNode(message) => self.hub.from_node(message, now),
                LoopMessage::Asked(question) => question(&mut self.hub, now),
                LoopMessage::Served(peer, served) => {
                    self.hub.read_ahead(peer, &served);
                    self.act();
                    self.hub.served(peer, served, now);
                }
                LoopMessage::Resolved(name, Ok(found)) => self.hub.resolved(&name, &found, now),
                LoopMessage::Resolved(name, Err(why)) => self.hub.not_resolved(&name, &why, now),
                LoopMessage::Dialed(peer, Ok(stream)) => {
                    let local = stream.local_addr().ok();
                    let remote = stream.peer_addr().ok();
                    self.sockets.insert(peer, stream);
                    self.hub.connected(peer, now);
                    self.note_local(peer, local);
                    remote.into_iter().for_each(|remote| self.hub.note_remote(peer, remote));
                }
                LoopMessage::Dialed(peer, Err(why)) => self.hub.not_connected(peer, &why, now),
            }
        }
        ControlFlow::Continue(())
    }

    fn tick(&mut self) {
        let now = self.now();
        let is_moved = std::mem::take(&mut self.timeline.is_moved);
        if !is_moved && self.ticked_at.is_some_and(|last| last.elapsed() < TICK_INTERVAL) {
            return;
        }
        self.ticked_at = Some(Instant::now());
        self.accept_paused = false;
        if std::mem::take(&mut self.timeline.is_woken) {
            self.hub.woke(now);
        }
        self.hub.tick(now);
        if self.hub.take_freed() {
            sys::allocator::give_back();
        }
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = self.hub.progress();
    }

    fn act(&mut self) {
        while let Some(action) = self.hub.next_action() {
            match action {
                Action::Dial { peer, target } => {
                    let proxy = self.proxies.of_target(&target);
                    dial::dial(peer, target, proxy, &self.inbox_sender);
                }
                Action::Close { peer } => {
                    self.sockets.remove(&peer);
                }
                Action::Read { peer, request } => {
                    // The reader ends only after this thread.
                    let _ = self.read_jobs.send(ReadJob { peer, request });
                }
                Action::Resolve { name, port } => dial::resolve(name, port, &self.inbox_sender),
                Action::Event(event) => self.events.send(event),
            }
        }
    }

    fn write_all(&mut self) {
        let ids: Vec<_> = self.sockets.keys().copied().collect();
        for id in ids {
            self.write(id);
        }
    }

    /// Sends as much as a socket accepts.
    fn write(&mut self, id: PeerId) {
        loop {
            let (Some(socket), Some(peer)) = (self.sockets.get_mut(&id), self.hub.peer(id)) else { return };
            let bytes = peer.transport.to_send();
            if bytes.is_empty() {
                return;
            }
            let result = socket.write(bytes);
            let now = self.now();
            match result {
                Ok(0) => return self.hub.closed(id, Reason::Closed, now),
                Ok(count) => self.hub.sent(id, count, now),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => return self.hub.closed(id, Reason::Io(why.to_string()), now),
            }
        }
    }

    /// Waits for sockets, messages, or the next tick; then reads and accepts.
    fn poll(&mut self) {
        let ids: Vec<(PeerId, PollFlags)> = self.interests();
        let mut woken = false;
        let mut accepting = Vec::new();
        let mut ready = Vec::new();
        let wait = self.until_tick();
        {
            let mut fds = vec![PollFd::from_borrowed_fd(self.woken.as_fd(), PollFlags::IN)];
            let listeners = if self.accept_paused { &[][..] } else { &self.listeners[..] };
            fds.extend(listeners.iter().map(|(l, _)| PollFd::from_borrowed_fd(l.as_fd(), PollFlags::IN)));
            fds.extend(ids.iter().map(|(id, flags)| PollFd::from_borrowed_fd(self.sockets[id].as_fd(), *flags)));
            match poll(&mut fds, Some(&wait)) {
                Ok(0) | Err(Errno::INTR) => return,
                Ok(_) => {}
                Err(_) => return std::thread::sleep(TICK_INTERVAL),
            }
            for (place, fd) in fds.iter().enumerate().filter(|(_, fd)| !fd.revents().is_empty()) {
                match place.checked_sub(1) {
                    None => woken = true,
                    Some(at) if at < listeners.len() => accepting.push(at),
                    // A closed or failed socket is detected by reading it, whatever it was polled for.
                    Some(at) if fd.revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) => {
                        ready.push(ids[at - listeners.len()].0);
                    }
                    Some(_) => {}
                }
            }
        }
        if woken {
            while matches!(self.woken.read(&mut [0; 256]), Ok(1..)) {}
        }
        // Actions that became due because the time of day was moved precede the answers to later messages of peers.
        self.now();
        if self.timeline.is_moved {
            self.tick();
            self.act();
        }
        self.read_all(ready);
        for listener in accepting {
            self.accept(listener);
        }
    }

    /// Poll flags of each socket. A socket that is neither to be read nor written is left out: if it was closed
    /// meanwhile, poll would return at once each time.
    fn interests(&mut self) -> Vec<(PeerId, PollFlags)> {
        let mut out = Vec::with_capacity(self.sockets.len());
        let now = self.now();
        let may_read_any = self.rate.available(now.since_start) > 0;
        if self.rate.is_paused() {
            self.hub.reading_is_paused();
        }
        for id in self.sockets.keys() {
            let mut flags = PollFlags::empty();
            if may_read_any && self.hub.may_read(*id) {
                flags |= PollFlags::IN;
            }
            if self.hub.peer(*id).is_some_and(|peer| !peer.transport.to_send().is_empty()) {
                flags |= PollFlags::OUT;
            }
            if !flags.is_empty() {
                out.push((*id, flags));
            }
        }
        out
    }

    fn until_tick(&mut self) -> Timespec {
        let passed = self.ticked_at.map_or(TICK_INTERVAL, |last| last.elapsed());
        let wait = TICK_INTERVAL.saturating_sub(passed);
        Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() }
    }

    fn read_all(&mut self, mut ready: Vec<PeerId>) {
        self.turns.order(&mut ready);
        let now = self.now();
        let share = READ_BYTES_MAX.min(self.rate.share(ready.len(), now.since_start));
        for id in ready {
            self.read(id, share);
        }
    }

    /// Reads a socket, at most `share` bytes of it.
    fn read(&mut self, id: PeerId, share: usize) {
        let now = self.now();
        let mut left = share.min(self.rate.available(now.since_start));
        if left > 0 {
            self.turns.had(id);
        }
        while left > 0 && self.hub.may_read(id) {
            let (Some(socket), Some(space)) = (self.sockets.get(&id), self.hub.space(id, now)) else { return };
            let room = space.len().min(left);
            let result = rustix::io::read(socket, &mut space[..room]);
            let now = self.now();
            match result {
                Ok(0) => return self.hub.closed(id, Reason::Closed, now),
                Ok(count) => {
                    self.hub.received(id, count, now);
                    self.rate.took(count);
                    left = left.saturating_sub(count);
                    // A short read means that the socket is empty.
                    if count < room {
                        return;
                    }
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Err(why) => return self.hub.closed(id, Reason::Io(io::Error::from(why).to_string()), now),
            }
        }
    }

    fn note_local(&mut self, id: PeerId, local: Option<SocketAddr>) {
        if let Some(peer) = self.hub.peer_mut(id) {
            peer.set_local(local);
        }
    }

    fn accept(&mut self, listener: usize) {
        for _ in 0..ACCEPT_COUNT_MAX {
            let (stream, remote) = match self.listeners[listener].0.accept() {
                Ok(accepted) => accepted,
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return,
                Err(why) => {
                    self.accept_paused = true;
                    // Peers can cause this ten times a second, so it is logged once until it is over.
                    if !std::mem::replace(&mut self.accept_failed, true) {
                        let text = format!("cannot accept connections: {why}. Repeats are not logged");
                        self.events.send(Event::PeerNote { peer: None, inbound: true, text });
                    }
                    return;
                }
            };
            self.accept_failed = false;
            let now = self.now();
            if dial::prepare(&stream).is_ok()
                && let Some(id) = self.accepted(self.listeners[listener].1, PeerAddress::from(remote), now)
            {
                let local = stream.local_addr().ok();
                self.sockets.insert(id, stream);
                self.note_local(id, local);
            }
        }
    }
}

impl Runner {
    fn accepted(&mut self, gate: Gate, remote: PeerAddress, now: Now) -> Option<PeerId> {
        match gate {
            Gate::Plain(given) => self.hub.accepted_with(given, remote, now),
            Gate::Onion => self.hub.accepted_from_onion(remote, now),
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // Reservations outlive the thread, which then no longer waits for space.
        self.budget.wait_no_more();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    static DAY: AtomicU64 = AtomicU64::new(1_000_000);

    fn moved() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(DAY.load(Relaxed))
    }

    #[test]
    fn time_that_a_person_skips_has_passed_on_a_network_for_tests() {
        let (mut follows, mut other) = (Timeline::new(moved, true), Timeline::new(moved, false));
        DAY.store(1_000_600, Relaxed);
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(follows.now().since_start, Duration::from_secs(600));
        assert!(std::mem::take(&mut follows.is_moved), "a tick is due");
        let other_passed = other.now().since_start;
        assert!(other_passed > Duration::ZERO && other_passed < Duration::from_secs(60), "{other_passed:?}");
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(follows.now().since_start, Duration::from_secs(600), "no time passes on a clock that is stopped");
        assert!(!follows.is_moved);
        assert!(other.now().since_start > other_passed, "the machine's time goes on");
        DAY.store(1_000_601, Relaxed);
        assert_eq!(follows.now().since_start, Duration::from_secs(601));
        DAY.store(1_000_000, Relaxed);
        let now = follows.now();
        assert_eq!((now.since_start.as_secs(), now.unix), (601, 1_000_000), "time does not go back");
    }

    /// A clock that is set looks like a suspension: peers are asked once more.
    #[test]
    fn suspension_is_seen_by_the_time_of_day() {
        static DAY: AtomicU64 = AtomicU64::new(1_000_000);
        fn slept() -> SystemTime {
            UNIX_EPOCH + Duration::from_secs(DAY.load(Relaxed))
        }
        let mut other = Timeline::new(slept, false);
        let mut follows = Timeline::new(slept, true);
        for (row, day, want) in [
            ("none", 1_000_000, false),
            ("less than a minute", 1_000_059, false),
            ("an hour", 1_003_659, true),
            ("none since then", 1_003_659, false),
            ("set back", 1_000_000, false),
        ] {
            DAY.store(day, Relaxed);
            let before = other.since_start;
            let passed = other.now().since_start - before;
            assert_eq!(std::mem::take(&mut other.is_woken), want, "{row}");
            assert!(passed < Duration::from_secs(30), "{row}: the machine's clock stood still: {passed:?}");
            follows.now();
            assert!(!follows.is_woken, "{row}: the time has passed");
        }
    }

    #[test]
    fn running_clock_and_the_machine_agree() {
        let mut follows = Timeline::new(SystemTime::now, true);
        std::thread::sleep(Duration::from_millis(20));
        let passed = follows.now().since_start;
        assert!(passed >= Duration::from_millis(20) && passed < Duration::from_secs(60), "{passed:?}");
    }
}
