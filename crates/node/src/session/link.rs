//! Shared state of a session's threads, and their link to the driver: [`Session::drive`] passes events to it and
//! carries out its actions.
//!
//! Absent on purpose: threads, sockets (`threads`).

use super::driver::{Action, Input, SyncDriver, View};
use super::facts::NetworkSetup;
use super::sources::Sources;
use crate::chain::tree::NodeId;
use crate::datadir::DataDir;
use crate::datadir::feed::Inbox;
use crate::fault::Fault;
use crate::handle::Handle;
use crate::pipeline::stats::Stats;
use crate::session::chainview::SharedChain;
use crate::session::inbox::Arrivals;
use crate::session::options::Download;
use crate::session::past::Past;
use crate::snapshot::hints::run::HintedBlocks;
use crate::snapshot::hints::run::HintedRun;
use crate::threads::AtEnd;
use crate::threads::locks::lock;
use p2p::{BlockVerdict, Network, Progress, Want};
use primitives::{BlockHash, Hash256};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A session's interface to the network.
pub(super) trait Line: Send + Sync {
    /// See [`Network::want`].
    fn want(&self, lists: Vec<Vec<Want>>);
    /// See [`Network::verdict`].
    fn verdict(&self, hash: BlockHash, verdict: BlockVerdict);
    /// See [`Network::pause`].
    fn pause(&self, is_paused: bool);
    /// See [`Network::new_tip`].
    fn new_tip(&self);
    /// See [`Network::echo`].
    fn echo(&self);
    /// See [`Network::progress`].
    fn progress(&self) -> Progress;
    /// See [`Network::halt`].
    fn halt(&self);
}

impl Line for Network {
    fn want(&self, lists: Vec<Vec<Want>>) {
        Network::want(self, lists);
    }

    fn verdict(&self, hash: BlockHash, verdict: BlockVerdict) {
        Network::verdict(self, hash, verdict);
    }

    fn pause(&self, is_paused: bool) {
        Network::pause(self, is_paused);
    }

    fn new_tip(&self) {
        Network::new_tip(self);
    }

    fn echo(&self) {
        Network::echo(self);
    }

    fn progress(&self) -> Progress {
        Network::progress(self)
    }

    fn halt(&self) {
        Network::halt(self);
    }
}

/// Shared state of a session's threads.
pub(super) struct Session<'f, 'e> {
    pub(super) datadir: &'f DataDir<'e>,
    /// The chain below a snapshot that is not validated yet.
    pub(super) past: Option<&'f Past<'e>>,
    /// With hints, this receives the blocks instead of the block files.
    pub(super) hinted: Option<HintedRun<'f>>,
    pub(super) handle: Option<&'f Handle>,
    pub(super) inbox: Arc<Arrivals>,
    /// The chain as peers see it.
    pub(super) chain: Arc<SharedChain>,
    pub(super) network: Arc<dyn Line>,
    /// Files that also supply blocks.
    pub(super) sources: Option<Arc<Sources>>,
    pub(super) setup: NetworkSetup,
    pub(super) download: &'f Download,
    /// Whether there are no peers, and only requests through the handle are served.
    pub(super) is_alone: bool,
    /// Whether log lines about inbound connections are unlimited.
    pub(super) no_log_rate_limit: bool,
    pub(super) driver: &'f Mutex<SyncDriver>,
    /// Statistics of the engine at the tip.
    pub(super) stats: Arc<Stats>,
    /// A clock of the time since the start.
    pub(super) clock: Arc<dyn Fn() -> Duration + Send + Sync>,
    /// Blocks were stored since the index was last written.
    pub(super) is_dirty: AtomicBool,
    pub(super) ending: Mutex<Ending>,
    /// The hash of the coins below a snapshot, once it is computed.
    pub(super) past_hash: Mutex<Option<Hash256>>,
}

/// Whether and how the threads of a session end.
#[derive(Debug, Default)]
pub(super) enum Ending {
    /// They are running.
    #[default]
    None,
    /// The work is done.
    Done,
    /// One of the threads failed with this fault.
    Faulty(Fault),
}

impl Session<'_, '_> {
    /// Passes an event to the driver and carries out its actions; returns those that only the engine's thread can carry
    /// out.
    ///
    /// The driver stays locked during calls of the network and the inbox, so that an older list never replaces a newer
    /// one.
    pub(super) fn drive(&self, input: Input) -> Vec<Action> {
        let mut left = Vec::new();
        {
            let mut driver = lock(self.driver);
            let actions = {
                let index = self.datadir.index.read();
                let hinted = self.hinted.as_ref().map(|run| run as &dyn HintedBlocks);
                let is_prune_due = self.datadir.prune_is_due() || self.past.is_some_and(|past| past.prune_is_due());
                let past_tip = self.past.map(|past| past.past_tip.get());
                let view = View { index: &index, is_prune_due, past_tip, hinted };
                let actions = driver.on(input, view, (self.clock)());
                if cfg!(debug_assertions) {
                    driver.invariants(&index);
                }
                actions
            };
            for action in actions {
                match action {
                    Action::Want(lists) => self.network.want(lists),
                    Action::Verdict(hash, verdict) => self.network.verdict(hash, verdict),
                    Action::Wake => self.inboxes().for_each(Inbox::arrived),
                    Action::Hurry => self.inboxes().for_each(Arrivals::hurry),
                    Action::Forget => self.inbox.clear(),
                    Action::Yield => self.datadir.yields.store(true, Relaxed),
                    Action::AwaitHeaders(awaits) => self.datadir.awaits_headers.store(awaits, Relaxed),
                    action => left.push(action),
                }
            }
        }
        left
    }

    /// Starts a part of the sync: sets whether blocks wait for headers, and requests the missing blocks.
    pub(super) fn begin(&self) {
        let waits = lock(self.driver).waits_at_begin();
        self.datadir.awaits_headers.store(waits, Relaxed);
        self.tell(Input::Begun);
        if let Some(sources) = &self.sources {
            self.tell_targets(Vec::new());
            sources.told();
        }
    }

    /// Reports the tips of the peers' chains and of the files' chains to the driver.
    pub(super) fn tell_targets(&self, peers: Vec<BlockHash>) {
        let targets = match &self.sources {
            Some(sources) => sources.with_ends(peers),
            None => peers,
        };
        self.tell(Input::Targets(targets));
    }

    /// Like [`Session::drive`], for events that cause no action of the engine's thread.
    pub(super) fn tell(&self, input: Input) {
        let left = self.drive(input);
        for action in left {
            match action {
                Action::LookForAlerts => {
                    let tip = self.datadir.index.read().tip();
                    self.datadir.look_for_alerts(tip);
                }
                action => unreachable!("{action:?} is for the engine's thread"),
            }
        }
    }

    /// The inboxes of arriving blocks: of the tip's chain, and of the chain below a snapshot.
    pub(super) fn inboxes(&self) -> impl Iterator<Item = &Arrivals> {
        std::iter::once(&*self.inbox).chain(self.past.map(|past| &*past.inbox))
    }

    /// The inbox of this block.
    pub(super) fn inbox_of(&self, node: NodeId) -> &Arrivals {
        let Some(past) = self.past else { return &self.inbox };
        let base = past.assumed.map(|assumed| assumed.base);
        let is_of_past = base.is_some_and(|base| self.datadir.headers().is_ancestor(node, base));
        if is_of_past { &past.inbox } else { &self.inbox }
    }

    /// Records that blocks were stored or marked.
    pub(super) fn note_dirty(&self, is_dirty: bool) {
        self.is_dirty.fetch_or(is_dirty, Relaxed);
    }

    /// Ends the session with a fault, which the engine's thread returns.
    pub(super) fn end_by(&self, fault: Fault) {
        {
            let mut ending = lock(&self.ending);
            if !matches!(*ending, Ending::Faulty(_)) {
                *ending = Ending::Faulty(fault);
            }
        }
        self.inboxes().for_each(Arrivals::end);
    }

    pub(super) fn is_ending(&self) -> bool {
        !matches!(*lock(&self.ending), Ending::None)
    }

    /// Returns the fault of another thread, if there is one.
    pub(super) fn take_fault(&self) -> Result<(), Fault> {
        let mut ending = lock(&self.ending);
        match std::mem::take(&mut *ending) {
            Ending::Faulty(fault) => {
                *ending = Ending::Done;
                Err(fault)
            }
            same => {
                *ending = same;
                Ok(())
            }
        }
    }

    /// A guard to hold while a thread runs: if it panics, the session ends with a fault.
    pub(super) fn alarm(&self, whose: &'static str) -> AtEnd<impl FnMut()> {
        AtEnd(move || {
            if std::thread::panicking() {
                self.end_by(Fault::internal(format!("the thread that {whose} panicked")));
            }
        })
    }

    /// Reports the time, and whether the user paused the download, to the driver and the network.
    pub(super) fn tell_clock(&self) {
        let is_paused = self.download.switch.is_paused();
        self.network.pause(is_paused);
        self.tell(Input::Clock { local: self.download.local_time(self.datadir.options.clock), is_paused });
    }

    /// Updates the height of the validated chain below a snapshot in the handle.
    pub(super) fn tell_past_height(&self) {
        if let (Some(handle), Some(past)) = (self.handle, self.past) {
            handle.set_past_height(self.datadir.headers().height(past.past_tip.get()));
        }
    }

    /// Passes headers that peers offered on invalid blocks to the driver.
    pub(super) fn take_offers(&self) {
        let offers = self.chain.take_offers();
        let mut driver = lock(self.driver);
        offers.into_iter().for_each(|offered| driver.note_offered(offered));
    }
}
