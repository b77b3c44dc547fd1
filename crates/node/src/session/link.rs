//! What the threads of a session share, and how what happened comes to the driver: [`Session::drive`] gives it what happened, and
//! does what it says.
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
use crate::offline::AtEnd;
use crate::pipeline::stats::Stats;
use crate::session::chainview::SharedChain;
use crate::session::inbox::Arrivals;
use crate::session::options::Download;
use crate::session::past::Past;
use crate::snapshot::hints::run::HintedBlocks;
use crate::snapshot::hints::run::HintedRun;
use crate::threads::locks::lock;
use p2p::{BlockVerdict, Network, Progress, Want};
use primitives::{BlockHash, Hash256};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a session says to the network.
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

/// What the threads of a session share.
pub(super) struct Session<'f, 'e> {
    pub(super) datadir: &'f DataDir<'e>,
    /// The chain below a snapshot that is not validated.
    pub(super) past: Option<&'f Past<'e>>,
    /// Blocks go to this in place of the block files.
    pub(super) hinted: Option<HintedRun<'f>>,
    pub(super) handle: Option<&'f Handle>,
    pub(super) inbox: Arc<Arrivals>,
    /// The chain as peers see it.
    pub(super) chain: Arc<SharedChain>,
    pub(super) network: Arc<dyn Line>,
    /// Files that have blocks too.
    pub(super) sources: Option<Arc<Sources>>,
    pub(super) setup: NetworkSetup,
    pub(super) download: &'f Download,
    /// A data directory is served, and no peer is sought.
    pub(super) is_alone: bool,
    /// Lines about inbound connections are all in the log.
    pub(super) no_log_rate_limit: bool,
    pub(super) driver: &'f Mutex<SyncDriver>,
    /// Of the engine at the tip.
    pub(super) stats: Arc<Stats>,
    /// The time since the start.
    pub(super) clock: Arc<dyn Fn() -> Duration + Send + Sync>,
    /// Blocks were stored since the index was written.
    pub(super) is_dirty: AtomicBool,
    pub(super) ending: Mutex<Ending>,
    /// The hash of the coins below a snapshot, once that is known.
    pub(super) past_hash: Mutex<Option<Hash256>>,
}

/// How the threads of a session end.
#[derive(Debug, Default)]
pub(super) enum Ending {
    /// They work.
    #[default]
    None,
    /// The work is done.
    Done,
    /// One of them met this.
    Faulty(Fault),
}

impl Session<'_, '_> {
    /// Gives the driver what happened, does what it says, and gives what only the engine's thread can do.
    ///
    /// What goes to the network and the inbox is done with the driver locked, so that an older list never replaces a newer one.
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

    /// A part begins: blocks wait for headers where that is to be, and what is missing is asked for.
    pub(super) fn begin(&self) {
        let waits = lock(self.driver).waits_at_begin();
        self.datadir.awaits_headers.store(waits, Relaxed);
        self.tell(Input::Begun);
        if let Some(sources) = &self.sources {
            self.tell_targets(Vec::new());
            sources.told();
        }
    }

    /// The driver hears where the peers' chains end, and those of the files.
    pub(super) fn tell_targets(&self, peers: Vec<BlockHash>) {
        let targets = match &self.sources {
            Some(sources) => sources.with_ends(peers),
            None => peers,
        };
        self.tell(Input::Targets(targets));
    }

    /// The same as [`Session::drive`] for what never gives the engine's thread anything to do.
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

    /// Where blocks go that arrived: those of the tip, and those of a snapshot's past.
    pub(super) fn inboxes(&self) -> impl Iterator<Item = &Arrivals> {
        std::iter::once(&*self.inbox).chain(self.past.map(|past| &*past.inbox))
    }

    /// Where this block goes.
    pub(super) fn inbox_of(&self, node: NodeId) -> &Arrivals {
        let Some(past) = self.past else { return &self.inbox };
        let base = past.assumed.map(|assumed| assumed.base);
        let is_of_past = base.is_some_and(|base| self.datadir.headers().is_ancestor(node, base));
        if is_of_past { &past.inbox } else { &self.inbox }
    }

    /// Blocks were stored, or marked.
    pub(super) fn note_dirty(&self, is_dirty: bool) {
        self.is_dirty.fetch_or(is_dirty, Relaxed);
    }

    /// The thread that connects ends its run and finds this.
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

    /// What another thread met.
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

    /// Tells the thread that connects when this one panics: to be kept until it ends.
    pub(super) fn alarm(&self, whose: &'static str) -> AtEnd<impl FnMut()> {
        AtEnd(move || {
            if std::thread::panicking() {
                self.end_by(Fault::internal(format!("the thread that {whose} panicked")));
            }
        })
    }

    /// The driver hears what time it is, and whether a person paused the download.
    pub(super) fn tell_clock(&self) {
        let is_paused = self.download.switch.is_paused();
        self.network.pause(is_paused);
        self.tell(Input::Clock { local: self.download.local_time(self.datadir.options.clock), is_paused });
    }

    /// Those that ask hear how far the past of a snapshot is.
    pub(super) fn tell_past_height(&self) {
        if let (Some(handle), Some(past)) = (self.handle, self.past) {
            handle.set_past_height(self.datadir.headers().height(past.past_tip.get()));
        }
    }

    /// Headers on marked blocks that peers offered go to the driver.
    pub(super) fn take_offers(&self) {
        let offers = self.chain.take_offers();
        let mut driver = lock(self.driver);
        offers.into_iter().for_each(|offered| driver.note_offered(offered));
    }
}
