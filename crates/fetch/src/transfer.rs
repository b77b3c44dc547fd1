//! A running transfer: one thread for each mirror, and the stream that the snapshot loader reads.

use crate::connect::{Connection, Dialer, READ_BYTES, check_slowness};
use crate::http::{Body, Failure, Head, Offer};
use crate::plan::{Plan, Room, Taken, Task};
use crate::url::Url;
use node::Message;
use node::jobs::{Got, SnapshotStream};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of redirects for one request.
const REDIRECTS_MAX: u32 = 5;
/// Number of first bytes requested from each mirror before anything else: the header of a snapshot.
const PROBE_BYTES: u64 = 51;
/// Magic of a snapshot.
const MAGIC: &[u8] = b"utxo\xff";
/// Maximum number of mirrors: each has a thread.
const MIRRORS_MAX: usize = 16;

struct Shared {
    plan: Mutex<Plan>,
    /// Signals a change of the plan.
    changed: Condvar,
    dialer: Dialer,
    begun: Instant,
}

impl Shared {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Changes the plan, and wakes waiting threads.
    fn change<R>(&self, change: impl FnOnce(&mut Plan) -> R) -> R {
        let changed = change(&mut self.plan());
        self.changed.notify_all();
        changed
    }

    fn has_ended(&self) -> bool {
        self.dialer.has_ended.load(Relaxed)
    }

    fn rest(&self, plan: MutexGuard<'_, Plan>, time: Duration) {
        drop(self.changed.wait_timeout(plan, time));
    }
}

/// A snapshot from mirrors, as a stream.
pub struct Mirrors {
    shared: Arc<Shared>,
    urls: Vec<Url>,
    has_begun: bool,
}

impl Drop for Mirrors {
    /// The threads end by themselves, at the latest after the connection attempt in progress.
    fn drop(&mut self) {
        self.shared.dialer.has_ended.store(true, Relaxed);
        self.shared.changed.notify_all();
    }
}

impl Mirrors {
    /// A stream of the same file from each of these URLs; `proxy` is a SOCKS5 proxy for all addresses that are not
    /// local. Nothing is requested before the first read.
    ///
    /// # Errors
    ///
    /// A URL is invalid, or given twice.
    pub fn new(urls: &[String], proxy: Option<String>, agent: &str) -> Result<Mirrors, String> {
        let mut parsed: Vec<Url> = Vec::new();
        for text in urls {
            let url = Url::parse(text)?;
            if parsed.contains(&url) {
                return Err(format!("{text}: it is given twice"));
            }
            parsed.push(url);
        }
        if parsed.len() > MIRRORS_MAX {
            return Err(format!("{} mirrors: at most {MIRRORS_MAX} are used", parsed.len()));
        }
        let has_ended = AtomicBool::new(false);
        let dialer = Dialer { proxy, agent: agent.to_owned(), tls: OnceLock::new(), has_ended };
        let names = parsed.iter().map(Url::to_string).collect();
        let plan = Mutex::new(Plan::new(names, MAGIC, PROBE_BYTES, p2p::rng::Rng::System));
        let shared = Arc::new(Shared { plan, changed: Condvar::new(), dialer, begun: Instant::now() });
        Ok(Mirrors { shared, urls: parsed, has_begun: false })
    }

    fn begin(&mut self) -> Result<(), Message> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Ok(());
        }
        for (mirror, url) in self.urls.iter().enumerate() {
            let shared = self.shared.clone();
            let url = url.clone();
            let work = move || {
                Worker { shared: &shared, mirror, place: RefCell::new(url.clone()), opened: RefCell::default(), url }
                    .run()
            };
            std::thread::Builder::new().name(format!("mirror.{mirror:02}")).spawn(work).map_err(|why| {
                Message::new(
                    format!("the thread of a mirror cannot be started ({why})"),
                    "Raise the limit of threads (ulimit -u)",
                )
            })?;
        }
        Ok(())
    }
}

impl SnapshotStream for Mirrors {
    fn name(&self) -> String {
        self.urls.iter().map(Url::to_string).collect::<Vec<_>>().join(", ")
    }

    fn bytes(&self) -> Option<u64> {
        self.shared.plan().total()
    }

    fn can_seek(&self) -> bool {
        true
    }

    fn seek(&mut self, offset: u64) -> Result<(), Message> {
        self.shared.change(|plan| plan.seek(offset));
        Ok(())
    }

    fn read(&mut self, out: &mut [u8], patience: Duration) -> Result<Got, Message> {
        self.begin()?;
        let begun = Instant::now();
        let mut plan = self.shared.plan();
        loop {
            match plan.take(out) {
                Taken::Bytes(count) => {
                    drop(plan);
                    self.shared.changed.notify_all();
                    return Ok(Got::Bytes(count));
                }
                Taken::End => return Ok(Got::End),
                Taken::Failed(each) => {
                    let advice =
                        "The same command continues with the data already received; other mirrors can be given";
                    return Err(Message::new(format!("no mirror gives the snapshot: {each}"), advice));
                }
                // The reader now needs more than the first bytes: wake the threads.
                Taken::Nothing => self.shared.changed.notify_all(),
            }
            let left = patience.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Ok(Got::Waiting);
            }
            plan = self.shared.changed.wait_timeout(plan, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn notes(&mut self) -> Vec<String> {
        self.shared.plan().notes()
    }

    fn try_others(&mut self) -> Option<String> {
        self.shared.change(Plan::try_others)
    }
}

/// The thread of one mirror.
struct Worker<'s> {
    shared: &'s Shared,
    mirror: usize,
    /// Its URL as given.
    url: Url,
    /// Target of the last redirects.
    place: RefCell<Url>,
    /// The answer to the first request if it is the whole file: its first bytes are read, the others can follow.
    opened: RefCell<Option<Answer<'s>>>,
}

/// An answer in progress, after redirects.
struct Answer<'s> {
    connection: Connection<'s>,
    body: Body,
    keeps_alive: bool,
}

impl<'s> Worker<'s> {
    fn run(&self) {
        let mut kept: Option<Connection<'s>> = None;
        while !self.shared.has_ended() {
            let mut plan = self.shared.plan();
            let task = plan.task(self.mirror, self.shared.now());
            if let Task::Rest(time) = task {
                self.shared.rest(plan, time);
                continue;
            }
            drop(plan);
            match self.work(&task, kept.take()) {
                Ok(connection) => {
                    kept = connection;
                    self.shared.change(|plan| plan.done(self.mirror));
                }
                Err(why) => {
                    self.place.replace(self.url.clone());
                    let now = self.shared.now();
                    self.shared.change(|plan| plan.failed(self.mirror, &why, now));
                }
            }
        }
    }

    /// Runs a task; returns the connection if it can be reused.
    fn work(&self, task: &Task, kept: Option<Connection<'s>>) -> Result<Option<Connection<'s>>, Failure> {
        let (from, to) = match task {
            Task::Probe(bytes) => (0, Some(*bytes)),
            Task::Range { from, to } => (*from, *to),
            Task::Sample { from, to } => (*from, Some(*to)),
            Task::Whole { .. } => (0, None),
            Task::Rest(_) => return Ok(kept),
        };
        if let Task::Whole { needed } = task
            && *needed >= PROBE_BYTES
            && let Some(mut answer) = self.opened.take()
        {
            let at = self.skip(&mut answer, PROBE_BYTES, *needed)?;
            return self.stream(answer, at);
        }
        let mut answer = self.ask(kept, from, to)?;
        if matches!(task, Task::Range { .. } | Task::Sample { .. }) && !answer.body.has_ranges {
            return Err(Failure::Never("it sent ranges before, and does not any more".to_owned()));
        }
        let first = match task {
            Task::Probe(bytes) => Some(self.exactly(&mut answer, *bytes)?),
            _ => None,
        };
        let body = &answer.body;
        let offered = self.shared.change(|plan| plan.offered(self.mirror, body, first.as_deref()));
        offered.map_err(Failure::Never)?;
        match task {
            Task::Sample { from, to } => {
                let bytes = self.exactly(&mut answer, to - from)?;
                self.shared.change(|plan| plan.sampled(self.mirror, *from, bytes));
            }
            Task::Range { from, .. } => return self.stream(answer, *from),
            Task::Whole { needed } => {
                let at = self.skip(&mut answer, 0, *needed)?;
                return self.stream(answer, at);
            }
            Task::Probe(_) if !answer.body.has_ranges => {
                self.opened.replace(Some(answer));
                return Ok(None);
            }
            Task::Probe(_) | Task::Rest(_) => {}
        }
        let is_read = answer.body.to == to.unwrap_or(answer.body.total).min(answer.body.total);
        Ok(Some(answer.connection).filter(|_| is_read && answer.keeps_alive))
    }

    /// Sends a request, and follows redirects.
    fn ask(&self, mut kept: Option<Connection<'s>>, from: u64, to: Option<u64>) -> Result<Answer<'s>, Failure> {
        let mut url = self.place.borrow().clone();
        for _ in 0..=REDIRECTS_MAX {
            let (connection, head) = self.head(kept.take().filter(|kept| kept.serves(&url)), &url, from, to)?;
            match head.offer(from, to)? {
                Offer::Body(body) => {
                    self.place.replace(url);
                    return Ok(Answer { connection, body, keeps_alive: head.keeps_alive });
                }
                Offer::Moved(location) => {
                    url = url.join(&location).map_err(Failure::Never)?;
                    // The body of a redirect is ignored.
                    drop(connection);
                }
            }
        }
        Err(Failure::Never(format!("it redirects more than {REDIRECTS_MAX} times")))
    }

    /// Reads the head of an answer. A reused connection may have been closed meanwhile: then a new one is made.
    fn head(
        &self,
        kept: Option<Connection<'s>>,
        url: &Url,
        from: u64,
        to: Option<u64>,
    ) -> Result<(Connection<'s>, Head), Failure> {
        if let Some(mut connection) = kept
            && let Ok(head) = connection.ask(url, from, to)
        {
            return Ok((connection, head));
        }
        let mut connection = self.shared.dialer.connect(url)?;
        let head = connection.ask(url, from, to)?;
        Ok((connection, head))
    }

    /// Reads exactly this number of bytes of the body.
    fn exactly(&self, answer: &mut Answer<'s>, bytes: u64) -> Result<Vec<u8>, Failure> {
        let wanted = bytes.min(answer.body.to - answer.body.from) as usize;
        let mut out = vec![0; wanted];
        let mut have = 0;
        let begun = Instant::now();
        while have < wanted {
            check_slowness(begun)?;
            have += answer.connection.read(&mut out[have..])?;
        }
        Ok(out)
    }

    /// Discards the bytes before `needed` in a whole file.
    fn skip(&self, answer: &mut Answer<'s>, mut at: u64, needed: u64) -> Result<u64, Failure> {
        let mut waste = vec![0; READ_BYTES];
        while at < needed.min(answer.body.to) {
            let count = (needed - at).min(waste.len() as u64) as usize;
            at += answer.connection.read(&mut waste[..count])? as u64;
        }
        Ok(at)
    }

    /// Reads the body from `at` on, as long as the plan has room for it.
    fn stream(&self, mut answer: Answer<'s>, mut at: u64) -> Result<Option<Connection<'s>>, Failure> {
        let mut buffer = vec![0; READ_BYTES];
        while at < answer.body.to {
            if self.shared.has_ended() {
                return Ok(None);
            }
            let mut plan = self.shared.plan();
            let room = match plan.room(self.mirror, at, self.shared.now()) {
                Room::Bytes(room) => room,
                Room::Wait => {
                    self.shared.rest(plan, Duration::from_secs(1));
                    continue;
                }
                Room::Stop => return Ok(None),
            };
            drop(plan);
            let most = room.min(answer.body.to - at).min(buffer.len() as u64) as usize;
            let count = answer.connection.read(&mut buffer[..most])?;
            let now = self.shared.now();
            self.shared.change(|plan| plan.came(self.mirror, at, &buffer[..count], now));
            at += count as u64;
        }
        Ok(Some(answer.connection).filter(|_| answer.keeps_alive && answer.body.has_ranges))
    }
}
