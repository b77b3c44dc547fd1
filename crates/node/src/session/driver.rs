//! The sync driver: what a sync does next.
//!
//! In: what happened ([`Input`]), the block index, the time since the start. Out: what is to be done ([`Action`]). The driver
//! does nothing by itself: it has no thread, socket, file or clock; `threads` carries inputs to it and does what it says.
//! It decides by its own state and the block index, never by the counters of the progress line.
//!
//! Which blocks are listed is in `request`, when a sync is done in `finish`, whether blocks wait for headers in `trust`: pure
//! functions, called from here alone.
//!
//! Why is it not asking for block N? [`SyncDriver::want`] makes the lists that the network asks peers for. It runs again when
//! the peers' chains change, when the network has used a list up ([`Input::WantMore`]), and when there is room again
//! ([`SyncDriver::want_if_room`]). A block is in no list for one of these reasons, in the order in which they are decided:
//!
//! | reason | decided in |
//! |---|---|
//! | this part of the sync wants headers alone, or the blocks of hints | [`SyncDriver::open_targets`], [`SyncDriver::lists`] |
//! | no peer's chain has it; or that chain is marked invalid, or has less than the minimum work | [`request::open_targets`] |
//! | it lies below a snapshot, and a block of the tip is missing | [`SyncDriver::has_all_of_tip`] |
//! | it lies above `--stopatheight` | [`request::requests`] |
//! | block files are pruned, and it lies too far above the tip | [`request::ahead_max`] |
//! | block files are pruned, and a commit must free space first | [`request::requests`], `is_held_back` |
//! | its body is stored | [`BlockIndex::missing_from`] |
//! | 4,096 missing blocks lie below it | [`request::WANTS_MAX`] |
//! | the download is paused, or the budget of the hour or the day is used up | [`request::within`] |
//!
//! A block that is listed and does not come is the network's matter: `p2p::hub::block_download` has the window, which peer is
//! asked, and when another one is.
//!
//! From a block's arrival to the next list there are five stops: `threads::take_events` takes it from the network,
//! `receive::store` checks and stores it, `link::Session::drive` brings [`Input::Judged`] here, [`SyncDriver::on`] decides whether
//! lists are due, `request::requests` makes them.
//!
//! The engine's thread gives [`Input::Rested`] when no block is in flight, and gets one of the steps [`Action::Activate`],
//! [`Action::RunTo`], [`Action::RunPast`], [`Action::HashPast`], [`Action::Wait`] or [`Action::Done`] as the last action. The other inputs never give a step.

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

/// What a block is taken for before one has arrived.
const BLOCK_BYTES_FIRST: u64 = 1_000_000;
/// The size of the blocks that arrive is smoothed over so many.
const BLOCK_BYTES_OVER: u64 = 32;

/// Decides what a sync does next.
#[derive(Debug)]
pub(crate) struct SyncDriver {
    settings: Settings,
    goal: Goal,
    /// The ends of the chains that peers have, the preferred first.
    targets: Vec<BlockHash>,
    /// What the network last said of itself.
    network: Progress,
    /// Size of the blocks that arrive, smoothed.
    block_bytes: u64,
    /// Height up to which blocks were asked for.
    wanted_to: Height,
    /// Less was asked for than could be: a commit is to make room first.
    is_held_back: bool,
    /// The blocks asked for are those of the snapshot's past.
    asks_past: bool,
    /// The past is at work.
    is_past_at_work: bool,
    past_coins: PastCoins,
    /// Where the run ends that is under way.
    run_to: Option<NodeId>,
    /// The tip when the engine last rested, and since when it is the tip.
    tip: NodeId,
    tip_since: Duration,
    /// The tip that peers and the user were told of.
    told: NodeId,
    /// A block was refused or lost: nobody is told of a tip before the next best chain was looked for.
    is_unsettled: bool,
    /// Blocks that broke a rule in this run.
    judged: HashSet<NodeId>,
    gate: HeadersGate,
    budget: Budget,
    /// What was allowed when blocks were asked for last; the largest block of late.
    allowed: Allowance,
    block_bytes_max: u64,
    /// Whether the feed was told to hold blocks back.
    awaits_headers: bool,
    /// Headers on marked blocks that peers offered, of each block the most.
    offered: Vec<OfferedHeaders>,
    is_stopping: bool,
    is_load_asked: bool,
    doing: Doing,
}

/// Whether the coins of the chain below a snapshot are hashed, once its blocks are all connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum PastCoins {
    /// Not hashed.
    #[default]
    Open,
    /// Being hashed, beside the work at the tip.
    Hashing,
    /// Their hash is known.
    Hashed,
}

/// Offers that are remembered.
const OFFERED_MAX: usize = 16;

impl SyncDriver {
    /// At the begin of a session, with its chain at `tip`.
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

    /// Takes what happened, and says what is to be done. `now` is the time since the start.
    pub(crate) fn on(&mut self, input: Input, view: View<'_>, now: Duration) -> Vec<Action> {
        let mut actions = Vec::new();
        match input {
            Input::Begun => actions.push(self.want(view)),
            Input::Targets(targets) => self.on_targets(targets, view, &mut actions),
            Input::WantMore => actions.push(self.want(view)),
            Input::Headers => actions.push(Action::Wake),
            Input::Network(progress) => self.on_network(*progress, view, &mut actions),
            Input::Judged { hash, verdict, bytes } => self.on_judged(hash, verdict, bytes, view, &mut actions),
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
        // With a target the lists are as short as what is left: they are made again as blocks come.
        if self.budget.allowance() != self.allowed || self.budget.has_target() {
            actions.push(self.want(view));
        }
    }

    fn on_network(&mut self, progress: Progress, view: View<'_>, actions: &mut Vec<Action>) {
        self.gate.heard(progress.headers_settled);
        self.network = progress;
        // The tip's blocks are there: those of the past are asked for again.
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

    fn on_refused(&mut self, node: NodeId, hash: BlockHash, why: String, view: View<'_>, actions: &mut Vec<Action>) {
        self.judged.insert(node);
        // On top of a snapshot that may be false a refusal says nothing of the peers.
        if self.settings.snapshot.is_none() {
            actions.push(Action::Verdict(hash, BlockVerdict::Invalid(why)));
        }
        self.begin_anew(view, actions);
    }

    /// The chain is another one than was planned.
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

    /// Where the next run ends; none where its first block waits for headers.
    fn next_run(&mut self, view: View<'_>, now: Duration) -> Option<NodeId> {
        if self.goal != Goal::Tip {
            return None;
        }
        let tree = view.index.headers();
        let run_to = request::next_run(tree, self.tip, &self.open_targets(tree), self.settings.run_blocks_max)?;
        (!self.waits_for_headers(run_to, tree, now)).then_some(run_to)
    }

    /// Whether something better is stored that a run as blocks arrive does not connect.
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
                Past::Reached => self.past_coins == PastCoins::Hashed,
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

    /// Whether the blocks below the snapshot are all connected, and the hash of their coins is to be made.
    fn must_hash_past(&self, past: Option<&Standing>, view: View<'_>) -> bool {
        let base = self.past_end(view.index.headers()).zip(past);
        let is_reached =
            base.is_some_and(|(base, past)| finish::past(view.index.headers(), base, past.tip) == Past::Reached);
        is_reached && self.past_coins == PastCoins::Open
    }

    fn is_suspect(&self, standing: &Standing) -> bool {
        finish::is_suspect(self.settings.snapshot.is_some(), !self.judged.is_empty(), standing.is_held)
    }

    fn is_at_tip(&self, standing: &Standing, tree: &Tree, now: Duration) -> bool {
        let tip_for = now.saturating_sub(self.tip_since);
        standing.wanted == standing.tip
            && finish::is_at_tip(tree, standing.tip, &self.network, self.settings.minimum_work, tip_for)
    }

    /// The ends of the chains that may be followed, the preferred first.
    fn open_targets(&self, tree: &Tree) -> Vec<NodeId> {
        match self.goal {
            Goal::Tip => request::open_targets(tree, &self.targets, self.settings.minimum_work),
            Goal::Headers(_) | Goal::Hinted | Goal::Past => Vec::new(),
        }
    }

    /// The base block of the snapshot, while its past is to be validated.
    fn past_end(&self, tree: &Tree) -> Option<NodeId> {
        self.settings
            .snapshot
            .filter(|&base| matches!(self.goal, Goal::Tip | Goal::Past) && tree.fate(base) == Fate::Open)
    }

    /// Whether a block is of the snapshot's past.
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

    /// Asks for the blocks that are not there of each chain that peers have; where none is missing, for those of the
    /// snapshot's past; with hints for those up to their height.
    fn want(&mut self, view: View<'_>) -> Action {
        let lists = self.lists(view);
        self.allowed = self.budget.allowance();
        Action::Want(request::within(lists, self.allowed, self.budget.left_bytes(), self.block_bytes_max))
    }

    /// The same, whatever the budget allows.
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

    /// Where the number of blocks ahead of the tip is limited, more are wanted as it goes up, and as blocks become smaller;
    /// and when a commit has made room.
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

    /// Whether the run under way leads to a chain that no peer has any more.
    fn is_elsewhere(&self, tree: &Tree) -> bool {
        let is_on = |run_to: NodeId| self.open_targets(tree).iter().any(|&target| tree.is_ancestor(run_to, target));
        self.run_to.is_some_and(|run_to| !is_on(run_to))
    }

    fn tell_feed(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let awaits = self.gate.is_closed(now);
        if awaits != self.awaits_headers {
            self.awaits_headers = awaits;
            // What waited may go on.
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

    /// Another part of the sync begins, with the chain at `tip`; what the network said stays. `snapshot` is the base block of one
    /// that is not validated.
    pub(crate) fn enter(&mut self, goal: Goal, tip: NodeId, snapshot: Option<NodeId>) {
        self.goal = goal;
        if self.settings.snapshot != snapshot {
            // What was refused says something of the snapshot that was there.
            self.judged.clear();
        }
        self.settings.snapshot = snapshot;
        (self.tip, self.told, self.run_to) = (tip, tip, None);
        (self.is_unsettled, self.is_held_back, self.is_load_asked) = (false, false, false);
        (self.asks_past, self.is_past_at_work) = (false, false);
        self.past_coins = PastCoins::Open;
        self.wanted_to = Height::GENESIS;
    }

    /// Whether the feed is to hold blocks back from the begin on.
    pub(crate) fn waits_at_begin(&self) -> bool {
        self.awaits_headers
    }

    /// A peer offered headers on a marked block.
    pub(crate) fn note_offered(&mut self, offered: OfferedHeaders) {
        self.offered.retain(|known| known.on != offered.on || known.work > offered.work);
        if self.offered.len() < OFFERED_MAX && self.offered.iter().all(|known| known.on != offered.on) {
            self.offered.push(offered);
        }
    }

    /// Headers on marked blocks that peers offered, of each block the most.
    pub(crate) fn offered(&self) -> &[OfferedHeaders] {
        &self.offered
    }

    /// What it is about.
    pub(crate) fn doing(&self) -> Doing {
        self.doing
    }

    /// What may be downloaded, and what was.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Another run had used this of the budget.
    pub(crate) fn go_on_with_budget(&mut self, kept: &[u8], now: LocalTime) {
        self.budget.go_on(kept, now);
    }

    /// What the network last said of itself.
    pub(crate) fn network(&self) -> &Progress {
        &self.network
    }

    /// Size of the blocks that arrive, smoothed.
    pub(crate) fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// What always holds; checked after every input in tests.
    ///
    /// # Panics
    ///
    /// Where it does not.
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
