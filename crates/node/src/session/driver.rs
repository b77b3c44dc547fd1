//! The sync driver: decides the next step of a sync.
//!
//! In: events ([`Input`]), the block index, the time since the start. Out: instructions ([`Action`]). The driver has no
//! thread, socket, file or clock: `threads` passes inputs to it and carries out its actions. Decisions depend on its
//! own state and the block index, never on progress counters.
//!
//! The rules are in three files without threads or I/O: `request` selects the blocks to request, `finish` decides when
//! a sync is done, `trust` decides whether blocks wait for headers.
//!
//! Why is block N not requested? [`SyncDriver::want`] makes the lists of blocks that the network requests from peers.
//! It runs again when the peers' chains change, when the network has used up a list ([`Input::WantMore`]), and when
//! space becomes free ([`SyncDriver::want_if_room`]). A block is in no list for one of these reasons, in the order of
//! the checks:
//!
//! | reason | decided in |
//! |---|---|
//! | this part of the sync only needs headers, or the blocks of hints | [`SyncDriver::open_targets`], [`SyncDriver::lists`] |
//! | it is on no peer's chain; or that chain is marked invalid, or has less than the minimum work | [`request::open_targets`] |
//! | it is below a snapshot, and a block of the tip's chain is missing | [`SyncDriver::has_all_of_tip`] |
//! | it is above `--stopatheight` | [`request::requests`] |
//! | block files are pruned, and it is too far above the tip | [`request::ahead_max`] |
//! | block files are pruned, and a commit must free space first | [`request::requests`], `is_held_back` |
//! | its body is stored | [`BlockIndex::missing_from`] |
//! | 4,096 missing blocks are below it | [`request::WANTS_MAX`] |
//! | the download is paused, outside its hours, or at its daily limit | [`request::within`] |
//!
//! A listed block that does not arrive is a question for `p2p::hub::block_download`, which owns the download window and
//! decides which peer is asked, and when another one is.
//!
//! From a block's arrival to the next list there are five steps: `threads::take_events` receives it from the network,
//! `receive::store` checks and stores it, `link::Session::drive` passes [`Input::Judged`] to the driver,
//! [`SyncDriver::on`] decides whether new lists are due, `request::requests` makes them.
//!
//! The engine's thread sends [`Input::Rested`] when no block is in flight. The last action of the answer is always one
//! of the steps [`Action::Activate`], [`Action::RunTo`], [`Action::RunPast`], [`Action::HashPast`], [`Action::Wait`] or
//! [`Action::Done`]. No other input returns a step.

mod terms;

pub(crate) use terms::{Action, Doing, Goal, Input, Outcome, Settings, View};

use super::budget::{Allowance, Budget, LocalTime};
use super::finish::{self, Past};
use super::request::{self, Limits, WANTS_MAX};
use super::trust::HeadersGate;
use crate::chain::headers;
use crate::chain::index::{BlockIndex, OfferedHeaders};
use crate::chain::tree::{Fate, NodeId, Tree};
use crate::pipeline::engine::Standing;
use p2p::{BlockVerdict, Progress, Want};
use primitives::{BlockHash, Height};
use std::collections::HashSet;
use std::time::Duration;

/// Assumed block size before the first block has arrived, in bytes.
const BLOCK_BYTES_FIRST: u64 = 1_000_000;
/// Number of blocks over which the size of arriving blocks is smoothed.
const BLOCK_BYTES_OVER: u64 = 32;

/// Decides the next step of a sync.
#[derive(Debug)]
pub(crate) struct SyncDriver {
    settings: Settings,
    goal: Goal,
    /// The tips of the peers' chains, the preferred first.
    targets: Vec<BlockHash>,
    /// The last progress that the network reported.
    network: Progress,
    /// Smoothed size of arriving blocks.
    block_bytes: u64,
    /// Height up to which blocks were requested.
    wanted_to: Height,
    /// Fewer blocks were requested than possible, because a commit must free space first.
    is_held_back: bool,
    /// The requested blocks are those below the snapshot.
    asks_past: bool,
    /// The engine is validating blocks below the snapshot.
    is_past_at_work: bool,
    past_coins: PastCoins,
    /// Last block of the current run.
    run_to: Option<NodeId>,
    /// The tip when the engine last paused, and the time since which it is the tip.
    tip: NodeId,
    tip_since: Duration,
    /// The tip that was last announced to peers and the user.
    told: NodeId,
    /// A block was refused or lost: no tip is announced until the next best chain has been sought.
    is_unsettled: bool,
    /// Blocks that broke a rule in this run.
    judged: HashSet<NodeId>,
    gate: HeadersGate,
    budget: Budget,
    /// The allowance when blocks were last requested, and the largest recent block in bytes.
    allowed: Allowance,
    block_bytes_max: u64,
    /// Whether the feed currently makes blocks wait for headers.
    awaits_headers: bool,
    /// Headers on invalid blocks that peers offered: for each such block the offer with the most work.
    offered: Vec<OfferedHeaders>,
    is_stopping: bool,
    is_load_asked: bool,
    doing: Doing,
}

/// Progress of hashing the coins below a snapshot, after all its blocks are connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum PastCoins {
    /// Not hashed.
    #[default]
    Open,
    /// Being hashed, in parallel with the work at the tip.
    Hashing,
    /// Their hash is known.
    Hashed,
}

/// Maximum number of offers that are kept.
const OFFERED_MAX: usize = 16;

impl SyncDriver {
    /// The state at the start of a session, with its chain at `tip`.
    pub(crate) fn new(settings: Settings, goal: Goal, tip: NodeId) -> SyncDriver {
        let may_wait = settings.expects_peers && !settings.assume.hash.is_zero();
        SyncDriver {
            goal,
            targets: Vec::new(),
            network: Progress::default(),
            block_bytes: BLOCK_BYTES_FIRST,
            wanted_to: Height::GENESIS,
            is_held_back: false,
            asks_past: false,
            is_past_at_work: false,
            past_coins: PastCoins::default(),
            run_to: None,
            tip,
            tip_since: Duration::ZERO,
            told: tip,
            is_unsettled: false,
            judged: HashSet::new(),
            gate: HeadersGate::new(may_wait),
            budget: Budget::new(settings.limits),
            allowed: Allowance::All,
            block_bytes_max: BLOCK_BYTES_FIRST,
            awaits_headers: may_wait,
            offered: Vec::new(),
            is_stopping: false,
            is_load_asked: false,
            doing: Doing::AwaitingHeaders,
            settings,
        }
    }

    /// Handles an event and returns the actions to carry out. `now` is the time since the start.
    pub(crate) fn on(&mut self, input: Input, view: View<'_>, now: Duration) -> Vec<Action> {
        let mut actions = Vec::new();
        match input {
            Input::Begun => actions.push(self.want(view)),
            Input::Targets(targets) => self.on_targets(targets, view, &mut actions),
            Input::WantMore => actions.push(self.want(view)),
            Input::Headers => actions.push(Action::Wake),
            Input::Network(progress) => self.on_network(*progress, view, &mut actions),
            Input::Judged { hash, verdict, bytes } => self.on_judged(hash, verdict, bytes, view, &mut actions),
            Input::KnownInvalid { hash, why } => self.on_known_invalid(hash, why, view, &mut actions),
            Input::Refused { node, hash, why } => self.on_refused(node, hash, why, view, &mut actions),
            Input::Lost => self.begin_anew(view, &mut actions),
            Input::PastHashed => {
                self.past_coins = PastCoins::Hashed;
                actions.push(Action::Hurry);
            }
            Input::Rested { tip, past } => self.on_rested(tip, past, view, now, &mut actions),
            Input::LoadAsked => self.is_load_asked = true,
            Input::Clock { local, is_paused } => self.on_clock(local, is_paused, view, &mut actions),
            Input::Stop => {
                self.is_stopping = true;
                actions.push(Action::Hurry);
            }
            Input::Tick => actions.extend(self.want_if_room(view)),
        }
        self.tell_feed(now, &mut actions);
        actions
    }

    fn on_targets(&mut self, targets: Vec<BlockHash>, view: View<'_>, actions: &mut Vec<Action>) {
        self.targets = targets;
        if self.is_elsewhere(view.index.headers()) {
            actions.push(Action::Hurry);
        }
        // A new chain may be the one to follow.
        actions.extend([self.want(view), Action::Wake]);
    }

    fn on_clock(&mut self, local: LocalTime, is_paused: bool, view: View<'_>, actions: &mut Vec<Action>) {
        self.budget.look(local, is_paused);
        // With a daily limit the lists cover only what is left of it, so they are made again as blocks arrive.
        if self.budget.allowance() != self.allowed || self.budget.has_target() {
            actions.push(self.want(view));
        }
    }

    fn on_network(&mut self, progress: Progress, view: View<'_>, actions: &mut Vec<Action>) {
        self.gate.heard(progress.headers_settled);
        self.network = progress;
        // All blocks of the tip's chain are stored: blocks below the snapshot are requested again.
        if self.settings.snapshot.is_some() && !self.asks_past && self.has_all_of_tip(view) {
            actions.push(self.want(view));
        }
    }

    fn on_judged(
        &mut self,
        hash: BlockHash,
        verdict: BlockVerdict,
        bytes: Option<u64>,
        view: View<'_>,
        actions: &mut Vec<Action>,
    ) {
        if let Some(bytes) = bytes {
            self.block_bytes = (self.block_bytes * (BLOCK_BYTES_OVER - 1) + bytes) / BLOCK_BYTES_OVER;
            self.block_bytes_max = self.block_bytes_max.max(bytes);
            self.budget.took(bytes);
            if self.is_past_at_work && !self.is_of_past(view.index.headers(), &hash) {
                actions.push(Action::Yield);
            }
            actions.push(Action::Wake);
        }
        if matches!(verdict, BlockVerdict::Invalid(_)) {
            self.judged.extend(view.index.headers().find(&hash));
        }
        actions.push(Action::Verdict(hash, verdict));
    }

    fn on_known_invalid(&mut self, hash: BlockHash, why: String, view: View<'_>, actions: &mut Vec<Action>) {
        self.judged.extend(view.index.headers().find(&hash));
        // As in `on_refused`; with the snapshot, the block is requested again if the snapshot proves invalid.
        let is_fault = self.settings.snapshot.is_none();
        actions.push(Action::Verdict(hash, if is_fault { BlockVerdict::Invalid(why) } else { BlockVerdict::Stored }));
    }

    fn on_refused(&mut self, node: NodeId, hash: BlockHash, why: String, view: View<'_>, actions: &mut Vec<Action>) {
        self.judged.insert(node);
        // On top of a snapshot that may be invalid, a refused block does not prove that the peer is at fault.
        if self.settings.snapshot.is_none() {
            actions.push(Action::Verdict(hash, BlockVerdict::Invalid(why)));
        }
        self.begin_anew(view, actions);
    }

    /// The planned chain changed: plans and requests again.
    fn begin_anew(&mut self, view: View<'_>, actions: &mut Vec<Action>) {
        self.is_unsettled = true;
        actions.extend([Action::Forget, self.want(view), Action::LookForAlerts]);
    }

    fn on_rested(
        &mut self,
        standing: Standing,
        past: Option<Standing>,
        view: View<'_>,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        (self.run_to, self.is_past_at_work) = (None, false);
        if standing.tip != self.tip {
            self.tip = standing.tip;
            self.tip_since = now;
        }
        let run_to = self.next_run(view, now);
        let must_activate = self.must_activate(&standing, run_to, view, now);
        let is_settled = !std::mem::take(&mut self.is_unsettled) || !(must_activate || run_to.is_some());
        if is_settled && standing.tip != self.told {
            let last = std::mem::replace(&mut self.told, standing.tip);
            actions.extend([Action::NewTip { last, tip: standing.tip }, Action::LookForAlerts]);
        }
        if is_settled && let Some(outcome) = self.outcome(&standing, past.as_ref(), view, now) {
            actions.push(Action::Done(outcome));
            return;
        }
        actions.extend(self.want_if_room(view));
        actions.push(Action::Commit);
        let has_next = |end: NodeId| {
            let tree = view.index.headers();
            view.index.place(tree.ancestor(end, tree.height(standing.tip) + 1)).is_some()
        };
        let has_past = past.is_some_and(|past| past.wanted != past.tip);
        let step = match run_to {
            _ if self.must_hash_past(past.as_ref(), view) => {
                self.past_coins = PastCoins::Hashing;
                Action::HashPast
            }
            _ if must_activate => Action::Activate,
            Some(end) if !has_past || has_next(end) => {
                self.run_to = Some(end);
                Action::RunTo(end)
            }
            _ if has_past => {
                self.is_past_at_work = true;
                Action::RunPast
            }
            _ => Action::Wait,
        };
        self.note_doing(&step, view, now);
        actions.push(step);
    }

    /// The last block of the next run; `None` if its first block waits for headers.
    fn next_run(&mut self, view: View<'_>, now: Duration) -> Option<NodeId> {
        if self.goal != Goal::Tip {
            return None;
        }
        let tree = view.index.headers();
        let run_to = request::next_run(tree, self.tip, &self.open_targets(tree), self.settings.run_blocks_max)?;
        (!self.waits_for_headers(run_to, tree, now)).then_some(run_to)
    }

    /// Whether a better chain is stored that a run over arriving blocks would not connect.
    fn must_activate(&mut self, standing: &Standing, run_to: Option<NodeId>, view: View<'_>, now: Duration) -> bool {
        if self.goal != Goal::Tip || standing.wanted == standing.tip {
            return false;
        }
        let tree = view.index.headers();
        let is_between =
            |end: NodeId| tree.is_ancestor(standing.tip, standing.wanted) && tree.is_ancestor(standing.wanted, end);
        let is_on_way = run_to.is_some_and(|end| standing.wanted != end && is_between(end));
        !is_on_way && !self.waits_for_headers(standing.wanted, tree, now)
    }

    /// Whether the first block on the way to `end` must wait for headers.
    fn waits_for_headers(&mut self, end: NodeId, tree: &Tree, now: Duration) -> bool {
        let fork = tree.fork(self.tip, end);
        if fork == end {
            return false;
        }
        let first = tree.ancestor(end, tree.height(fork) + 1);
        let reason = headers::script_reason(tree, &self.settings.assume, self.settings.spacing_s, first);
        self.gate.waits(reason, now)
    }

    fn outcome(&self, standing: &Standing, past: Option<&Standing>, view: View<'_>, now: Duration) -> Option<Outcome> {
        if self.is_stopping {
            return Some(Outcome::Stopped);
        }
        let tree = view.index.headers();
        let is_past_done = |base: NodeId| {
            past.is_none_or(|past| match finish::past(tree, base, past.tip) {
                Past::Going => false,
                Past::Reached => self.settings.is_archiving || self.past_coins == PastCoins::Hashed,
                Past::Refused => true,
            })
        };
        let is_reached = match (self.goal, self.settings.snapshot) {
            (Goal::Headers(wanted), _) => finish::has_headers(tree, &wanted, &self.network),
            (Goal::Hinted, _) => view.hinted.is_none_or(|hinted| hinted.is_at_end()),
            (Goal::Past, Some(base)) => return is_past_done(base).then_some(Outcome::PastDone),
            (Goal::Past, None) => return Some(Outcome::PastDone),
            (Goal::Tip, Some(_)) if self.is_suspect(standing) => return Some(Outcome::Suspect),
            (Goal::Tip, _) if standing.is_at_stop => return Some(Outcome::StopHeight),
            (Goal::Tip, Some(base)) => return is_past_done(base).then_some(Outcome::PastDone),
            (Goal::Tip, None) if self.is_load_asked => return Some(Outcome::Load),
            (Goal::Tip, None) => self.settings.ends_at_tip && self.is_at_tip(standing, tree, now),
        };
        is_reached.then_some(Outcome::Reached)
    }

    /// Whether the blocks below the snapshot are all connected and their coins must be hashed now.
    fn must_hash_past(&self, past: Option<&Standing>, view: View<'_>) -> bool {
        let base = self.past_end(view.index.headers()).zip(past);
        let is_reached =
            base.is_some_and(|(base, past)| finish::past(view.index.headers(), base, past.tip) == Past::Reached);
        is_reached && self.past_coins == PastCoins::Open && !self.settings.is_archiving
    }

    fn is_suspect(&self, standing: &Standing) -> bool {
        let is_on_snapshot = self.settings.snapshot.is_some() && !self.settings.is_archiving;
        finish::is_suspect(is_on_snapshot, !self.judged.is_empty(), standing.is_held)
    }

    fn is_at_tip(&self, standing: &Standing, tree: &Tree, now: Duration) -> bool {
        let tip_for = now.saturating_sub(self.tip_since);
        standing.wanted == standing.tip
            && finish::is_at_tip(tree, standing.tip, &self.network, self.settings.minimum_work, tip_for)
    }

    /// The tips of the chains that may be followed, the preferred first.
    fn open_targets(&self, tree: &Tree) -> Vec<NodeId> {
        match self.goal {
            Goal::Tip => request::open_targets(tree, &self.targets, self.settings.minimum_work),
            Goal::Headers(_) | Goal::Hinted | Goal::Past => Vec::new(),
        }
    }

    /// The base block of the snapshot while the blocks below it must be validated.
    fn past_end(&self, tree: &Tree) -> Option<NodeId> {
        self.settings
            .snapshot
            .filter(|&base| matches!(self.goal, Goal::Tip | Goal::Past) && tree.fate(base) == Fate::Open)
    }

    /// Whether a block is at or below the snapshot's base.
    fn is_of_past(&self, tree: &Tree, hash: &BlockHash) -> bool {
        let on = |base: NodeId| tree.find(hash).is_some_and(|node| tree.is_ancestor(node, base));
        self.settings.snapshot.is_some_and(on)
    }

    /// Whether no block of the chains that may be followed is missing.
    fn has_all_of_tip(&self, view: View<'_>) -> bool {
        let tree = view.index.headers();
        let tip = view.index.tip();
        let stop = self.settings.stop_at.unwrap_or(Height::MAX);
        self.open_targets(tree).iter().all(|&target| {
            let from = tree.fork(tip, target);
            let end = tree.height(target).min(stop).max(tree.height(from));
            view.index.missing_from(from, target, end, 1).is_empty()
        })
    }

    /// Requests the missing blocks of each chain of the peers. If no block is missing, requests the blocks below the
    /// snapshot. With hints, requests the blocks up to their height.
    fn want(&mut self, view: View<'_>) -> Action {
        let lists = self.lists(view);
        self.allowed = self.budget.allowance();
        // Neither hinted blocks nor those below a snapshot are new blocks at the tip.
        let is_near = || {
            let targets = self.open_targets(view.index.headers());
            view.hinted.is_none() && !self.asks_past && request::is_near(view.index, view.index.tip(), &targets)
        };
        let left = self.budget.left_bytes();
        Action::Want(request::within(lists, self.allowed, is_near, left, self.block_bytes_max))
    }

    /// The same lists, without the limits of the download budget.
    fn lists(&mut self, view: View<'_>) -> Vec<Vec<Want>> {
        let tree = view.index.headers();
        if let Some(hinted) = view.hinted {
            return vec![request::wants(tree, hinted.missing(WANTS_MAX))];
        }
        let past_end = self.past_end(tree);
        let was_past = self.asks_past;
        self.asks_past = past_end.is_some() && self.has_all_of_tip(view);
        if was_past != self.asks_past {
            self.wanted_to = Height::GENESIS;
        }
        let limits = Limits {
            stop_at: self.settings.stop_at.filter(|_| !self.asks_past).unwrap_or(Height::MAX),
            ahead_max: request::ahead_max(self.settings.prune_target, self.block_bytes),
            is_prune_due: view.is_prune_due,
            wanted_to: self.wanted_to,
        };
        let asked = match past_end.filter(|_| self.asks_past).zip(view.past_tip) {
            Some((base, past_tip)) => request::requests(view.index, past_tip, &[base], limits),
            None => request::requests(view.index, view.index.tip(), &self.open_targets(tree), limits),
        };
        self.is_held_back = asked.is_held_back;
        self.wanted_to = asked.wanted_to;
        asked.lists
    }

    /// Requests more blocks if a limit on blocks ahead of the tip has room again: the tip moved up, blocks became
    /// smaller, or a commit freed space.
    fn want_if_room(&mut self, view: View<'_>) -> Option<Action> {
        let ahead = request::ahead_max(self.settings.prune_target, self.block_bytes)?;
        if view.hinted.is_some() {
            return None; // Nothing is stored.
        }
        if self.is_held_back {
            return (!view.is_prune_due).then(|| self.want(view));
        }
        let tree = view.index.headers();
        let (tip, end) = match self.past_end(tree).filter(|_| self.asks_past).zip(view.past_tip) {
            Some((base, past_tip)) => (past_tip, tree.height(base)),
            None => {
                let end = self.open_targets(tree).first().map_or(Height::GENESIS, |&target| tree.height(target));
                (view.index.tip(), end.min(self.settings.stop_at.unwrap_or(Height::MAX)))
            }
        };
        let is_short = request::is_short(tree.height(tip), self.wanted_to, ahead, end);
        is_short.then(|| self.want(view))
    }

    /// Whether the current run leads to a chain that no peer has any more.
    fn is_elsewhere(&self, tree: &Tree) -> bool {
        let is_on = |run_to: NodeId| self.open_targets(tree).iter().any(|&target| tree.is_ancestor(run_to, target));
        self.run_to.is_some_and(|run_to| !is_on(run_to))
    }

    fn tell_feed(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let awaits = self.gate.is_closed(now);
        if awaits != self.awaits_headers {
            self.awaits_headers = awaits;
            // Waiting blocks may continue.
            actions.extend([Action::AwaitHeaders(awaits), Action::Wake]);
        }
    }

    fn note_doing(&mut self, step: &Action, view: View<'_>, now: Duration) {
        let tree = view.index.headers();
        let next = match step {
            Action::RunTo(end) => Some(tree.ancestor(*end, tree.height(self.tip) + 1)),
            _ => None,
        };
        self.doing = match next.filter(|&node| view.index.place(node).is_none()) {
            Some(node) => {
                let since = match self.doing {
                    Doing::AwaitingBlock { node: known, since } if known == node => since,
                    _ => now,
                };
                Doing::AwaitingBlock { node, since }
            }
            None if next.is_some() || *step == Action::Activate => Doing::Connecting,
            None if matches!(step, Action::RunPast | Action::HashPast) => Doing::ValidatingPast,
            None if !self.network.headers_done => Doing::AwaitingHeaders,
            None => Doing::AtTip,
        };
    }

    /// Starts another part of the sync, with the chain at `tip`; the last network progress is kept. `snapshot` is the
    /// base block of a snapshot that is not validated yet.
    pub(crate) fn enter(&mut self, goal: Goal, tip: NodeId, snapshot: Option<NodeId>) {
        self.goal = goal;
        if self.settings.snapshot != snapshot {
            // Blocks were refused on top of the old snapshot only.
            self.judged.clear();
        }
        self.settings.snapshot = snapshot;
        self.settings.is_archiving &= snapshot.is_some();
        (self.tip, self.told, self.run_to) = (tip, tip, None);
        (self.is_unsettled, self.is_held_back, self.is_load_asked) = (false, false, false);
        (self.asks_past, self.is_past_at_work) = (false, false);
        self.past_coins = PastCoins::Open;
        self.wanted_to = Height::GENESIS;
    }

    /// Whether blocks must wait for headers in the feed from the start.
    pub(crate) fn waits_at_begin(&self) -> bool {
        self.awaits_headers
    }

    /// Stores that a peer offered headers on an invalid block.
    pub(crate) fn note_offered(&mut self, offered: OfferedHeaders) {
        self.offered.retain(|known| known.on != offered.on || known.work > offered.work);
        if self.offered.len() < OFFERED_MAX && self.offered.iter().all(|known| known.on != offered.on) {
            self.offered.push(offered);
        }
    }

    /// Headers on invalid blocks that peers offered: for each such block the offer with the most work.
    pub(crate) fn offered(&self) -> &[OfferedHeaders] {
        &self.offered
    }

    /// The current activity.
    pub(crate) fn doing(&self) -> Doing {
        self.doing
    }

    /// The download budget: limits and usage.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Continues with the usage that an earlier run stored.
    pub(crate) fn go_on_with_budget(&mut self, kept: &[u8], now: LocalTime) {
        self.budget.go_on(kept, now);
    }

    /// The last progress that the network reported.
    pub(crate) fn network(&self) -> &Progress {
        &self.network
    }

    /// Smoothed size of arriving blocks.
    pub(crate) fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// Checks the invariants; called after every input in tests.
    ///
    /// # Panics
    ///
    /// If an invariant is violated.
    pub(crate) fn invariants(&self, index: &BlockIndex) {
        let tree = index.headers();
        let is_known = |node: NodeId| node.index() < tree.len();
        assert!(is_known(self.tip) && is_known(self.told), "the tip is a known block");
        assert!(self.run_to.is_none_or(is_known), "a run ends at a known block");
        assert!(
            self.run_to.is_none_or(|end| tree.is_ancestor(self.tip, end) && end != self.tip),
            "a run goes up from the tip"
        );
        assert!(self.offered.len() <= OFFERED_MAX, "offers have a bound");
        assert!(self.judged.iter().all(|&node| is_known(node)), "a judged block is known");
        let highest =
            self.settings.stop_at.filter(|_| self.goal == Goal::Tip && !self.asks_past).unwrap_or(Height::MAX);
        assert!(self.wanted_to <= highest, "nothing is asked for above the height to stop at");
    }
}

#[cfg(test)]
mod step_cost;
#[cfg(test)]
mod tests;
