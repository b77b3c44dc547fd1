//! The driver by itself: inputs in, actions out, and what always holds after each.

use super::*;
use crate::chain::headers::AssumeValid;
use crate::session::budget::{DownloadLimits, Hours};
use crate::session::finish::LEFT_PATIENCE;
use crate::session::testing::{Chains, claim, heights};
use crate::session::trust::HEADERS_PATIENCE;
use crate::snapshot::hints::run::HintedBlocks;
use consensus::ScriptCheckReason;
use primitives::Work;

/// A driver, its chains, and the time.
struct Bench {
    chains: Chains,
    driver: SyncDriver,
    now: Duration,
    is_prune_due: bool,
    /// Where the chain below a snapshot stands.
    past: Option<Standing>,
}

fn settings() -> Settings {
    Settings {
        ends_at_tip: true,
        stop_at: None,
        minimum_work: Work::ZERO,
        run_blocks_max: crate::options::RUN_BLOCKS_MAX,
        prune_target: None,
        assume: AssumeValid { hash: BlockHash::ZERO, minimum_chain_work: Work::ZERO },
        spacing_s: 600,
        expects_peers: true,
        snapshot: None,
        is_archiving: false,
        limits: DownloadLimits::default(),
    }
}

impl Bench {
    fn new(settings: Settings, goal: Goal) -> Bench {
        let chains = Chains::new();
        let driver = SyncDriver::new(settings, goal, chains.genesis());
        Bench { chains, driver, now: Duration::from_secs(1), is_prune_due: false, past: None }
    }

    fn tip() -> Bench {
        Bench::new(settings(), Goal::Tip)
    }

    fn on(&mut self, input: Input) -> Vec<Action> {
        let index = self.chains.index();
        let past_tip = self.past.map(|past| past.tip);
        let view = View { index, is_prune_due: self.is_prune_due, past_tip, hinted: None };
        let actions = self.driver.on(input, view, self.now);
        self.driver.invariants(index);
        let steps = actions.iter().filter(|action| is_step(action)).count();
        assert!(steps == 0 || (steps == 1 && actions.last().is_some_and(is_step)), "one step, the last: {actions:?}");
        actions
    }

    fn targets(&mut self, ends: &[NodeId]) -> Vec<Action> {
        let hashes = ends.iter().map(|&end| self.chains.hash(end)).collect();
        self.on(Input::Targets(hashes))
    }

    /// What the network says once every peer has told its chain, which ends there.
    fn told(&mut self, best: NodeId) {
        let progress = self.progress(best);
        self.on(Input::Network(Box::new(progress)));
    }

    fn progress(&self, best: NodeId) -> Progress {
        let best_claim = Some(claim(&self.chains, best));
        Progress { headers_done: true, headers_settled: true, best_claim, ..Progress::default() }
    }

    fn rested(&mut self, tip: NodeId, wanted: NodeId) -> Vec<Action> {
        self.on(Input::Rested { tip: standing(tip, wanted), past: self.past })
    }

    fn step(&mut self, tip: NodeId, wanted: NodeId) -> Action {
        self.rested(tip, wanted).pop().expect("a step is said")
    }

    /// They are stored and connected.
    fn connected(&mut self, nodes: &[NodeId]) {
        self.chains.store(nodes);
        self.chains.connect(nodes);
    }
}

fn standing(tip: NodeId, wanted: NodeId) -> Standing {
    Standing { tip, wanted, is_held: false, is_at_stop: false }
}

fn is_step(action: &Action) -> bool {
    matches!(
        action,
        Action::Activate | Action::RunTo(_) | Action::RunPast | Action::HashPast | Action::Wait | Action::Done(_)
    )
}

fn wanted(actions: &[Action]) -> Option<Vec<Vec<u32>>> {
    actions.iter().find_map(|action| if let Action::Want(lists) = action { Some(heights(lists)) } else { None })
}

#[test]
fn targets_are_asked_for_and_wake_the_engine() {
    let mut bench = Bench::tip();
    let main = bench.chains.grow(None, 3);
    let actions = bench.targets(&[main[2]]);
    assert_eq!(wanted(&actions), Some(vec![vec![1, 2, 3]]));
    assert!(actions.contains(&Action::Wake) && !actions.contains(&Action::Hurry));
}

#[test]
fn more_is_asked_for_when_the_network_wants_it() {
    let mut bench = Bench::tip();
    let main = bench.chains.grow(None, 4);
    bench.targets(&[main[3]]);
    bench.chains.store(&main[..2]);
    assert_eq!(wanted(&bench.on(Input::WantMore)), Some(vec![vec![3, 4]]));
}

#[test]
fn nothing_happens_before_a_peer_says_something() {
    let mut bench = Bench::tip();
    let genesis = bench.chains.genesis();
    assert_eq!(bench.step(genesis, genesis), Action::Wait);
    assert_eq!(bench.driver.doing(), Doing::AwaitingHeaders);
    assert_eq!(bench.on(Input::Tick), []);
}

#[test]
fn a_run_follows_the_preferred_chain() {
    let mut bench = Bench::tip();
    let main = bench.chains.grow(None, 3);
    bench.targets(&[main[2]]);
    let genesis = bench.chains.genesis();
    assert_eq!(bench.step(genesis, genesis), Action::RunTo(main[2]));
    let since = bench.now;
    assert_eq!(bench.driver.doing(), Doing::AwaitingBlock { node: main[0], since });
    bench.now += Duration::from_secs(9);
    bench.step(genesis, genesis);
    assert_eq!(bench.driver.doing(), Doing::AwaitingBlock { node: main[0], since }, "it waits for the same block");
    bench.chains.store(&main[..1]);
    bench.step(genesis, genesis);
    assert_eq!(bench.driver.doing(), Doing::Connecting);
}

#[test]
fn a_better_stored_chain_is_activated_unless_the_run_connects_it() {
    let mut bench = Bench::tip();
    let main = bench.chains.grow(None, 5);
    let side = bench.chains.grow(None, 3);
    let genesis = bench.chains.genesis();
    bench.chains.store(&main[..2]);
    bench.targets(&[main[4]]);
    assert_eq!(bench.step(genesis, main[1]), Action::RunTo(main[4]), "on the way");
    bench.chains.store(&side);
    assert_eq!(bench.step(main[1], side[2]), Action::Activate, "another branch");
    assert_eq!(bench.step(genesis, main[4]), Action::Activate, "all of it is there");
}

#[test]
fn a_new_tip_is_told_once() {
    let mut bench = Bench::tip();
    let main = bench.chains.grow(None, 3);
    bench.targets(&[main[2]]);
    bench.connected(&main[..2]);
    let actions = bench.rested(main[1], main[1]);
    let genesis = bench.chains.genesis();
    assert!(actions.contains(&Action::NewTip { last: genesis, tip: main[1] }), "{actions:?}");
    assert!(actions.contains(&Action::LookForAlerts));
    let again = bench.rested(main[1], main[1]);
    assert!(!again.iter().any(|action| matches!(action, Action::NewTip { .. })), "{again:?}");
}

#[test]
fn a_refusal_goes_to_the_peers_and_the_next_chain_is_tried_first() {
    let mut bench = Bench::tip();
    let (main, side) = (bench.chains.grow(None, 4), bench.chains.grow(None, 3));
    bench.targets(&[main[3], side[2]]);
    bench.connected(&main[..1]);
    bench.chains.refuse(main[1]);
    let hash = bench.chains.hash(main[1]);
    let actions = bench.on(Input::Refused { node: main[1], hash, why: "bad".to_owned() });
    assert_eq!(actions[0], Action::Verdict(hash, BlockVerdict::Invalid("bad".to_owned())));
    assert!(actions.contains(&Action::Forget), "what arrived is of another chain");
    assert_eq!(wanted(&actions), Some(vec![vec![1, 2, 3]]), "the other chain is asked for");
    let above = bench.chains.hash(main[2]);
    let actions = bench.on(Input::KnownInvalid { hash: above, why: "its parent is invalid".to_owned() });
    assert_eq!(actions, [Action::Verdict(above, BlockVerdict::Invalid("its parent is invalid".to_owned()))]);
    bench.chains.store(&side);
    let actions = bench.rested(main[0], side[2]);
    assert!(!actions.iter().any(|action| matches!(action, Action::NewTip { .. })), "{actions:?}");
    assert_eq!(actions.last(), Some(&Action::Activate));
}

#[test]
fn without_another_chain_the_tip_is_told_after_a_refusal() {
    let mut bench = Bench::tip();
    let main = bench.chains.grow(None, 2);
    bench.targets(&[main[1]]);
    bench.connected(&main[..1]);
    bench.chains.refuse(main[1]);
    let hash = bench.chains.hash(main[1]);
    bench.on(Input::Refused { node: main[1], hash, why: "bad".to_owned() });
    let actions = bench.rested(main[0], main[0]);
    assert!(actions.iter().any(|action| matches!(action, Action::NewTip { .. })), "{actions:?}");
}

#[test]
fn a_lost_body_is_asked_for_again() {
    let mut bench = Bench::tip();
    let main = bench.chains.grow(None, 2);
    bench.targets(&[main[1]]);
    let actions = bench.on(Input::Lost);
    assert_eq!(wanted(&actions), Some(vec![vec![1, 2]]));
    assert!(actions.contains(&Action::Forget));
}

#[test]
fn a_stored_block_wakes_the_engine_and_is_judged_to_the_network() {
    let mut bench = Bench::tip();
    let main = bench.chains.grow(None, 1);
    let hash = bench.chains.hash(main[0]);
    let stored = Input::Judged { hash, verdict: BlockVerdict::Stored, bytes: Some(100) };
    let before = bench.driver.block_bytes();
    assert_eq!(bench.on(stored), [Action::Wake, Action::Verdict(hash, BlockVerdict::Stored)]);
    assert!(bench.driver.block_bytes() < before, "sizes are smoothed");
    let known = Input::Judged { hash, verdict: BlockVerdict::Stored, bytes: None };
    assert_eq!(bench.on(known), [Action::Verdict(hash, BlockVerdict::Stored)], "nothing new");
}

#[test]
fn a_run_that_no_peer_has_any_more_is_left() {
    let mut bench = Bench::tip();
    let (main, side) = (bench.chains.grow(None, 5), bench.chains.grow(None, 6));
    bench.targets(&[main[4]]);
    let genesis = bench.chains.genesis();
    bench.step(genesis, genesis);
    assert!(bench.targets(&[side[5]]).contains(&Action::Hurry));
    assert!(!bench.targets(&[main[4], side[5]]).contains(&Action::Hurry), "one peer has it");
}

#[test]
fn a_sync_ends_at_the_peers_tip() {
    let mut bench = Bench::tip();
    let main = bench.chains.grow(None, 3);
    bench.targets(&[main[2]]);
    bench.told(main[2]);
    bench.connected(&main[..2]);
    assert_eq!(bench.step(main[1], main[1]), Action::RunTo(main[2]));
    bench.connected(&main[2..]);
    assert_eq!(bench.step(main[2], main[2]), Action::Done(Outcome::Reached));
}

#[test]
fn a_sync_that_follows_does_not_end() {
    let mut bench = Bench::new(Settings { ends_at_tip: false, ..settings() }, Goal::Tip);
    let main = bench.chains.grow(None, 3);
    bench.targets(&[main[2]]);
    bench.told(main[2]);
    bench.connected(&main);
    assert_eq!(bench.step(main[2], main[2]), Action::Wait);
    assert_eq!(bench.driver.doing(), Doing::AtTip);
}

#[test]
fn the_end_waits_for_a_peer_that_left() {
    let mut bench = Bench::tip();
    let main = bench.chains.grow(None, 3);
    bench.told(main[1]);
    bench.connected(&main[..2]);
    assert_eq!(bench.step(main[1], main[1]), Action::Wait, "a header above is known");
    bench.now += LEFT_PATIENCE;
    assert_eq!(bench.step(main[1], main[1]), Action::Done(Outcome::Reached));
}

#[test]
fn a_stored_better_chain_is_connected_before_the_end() {
    let mut bench = Bench::tip();
    let (main, side) = (bench.chains.grow(None, 3), bench.chains.grow(None, 4));
    bench.told(main[2]);
    bench.connected(&main);
    bench.chains.store(&side);
    assert_eq!(bench.step(main[2], side[3]), Action::Activate);
}

#[test]
fn the_height_to_stop_at_ends_a_sync() {
    let mut bench = Bench::new(Settings { stop_at: Some(Height::new(2)), ..settings() }, Goal::Tip);
    let main = bench.chains.grow(None, 5);
    let actions = bench.targets(&[main[4]]);
    assert_eq!(wanted(&actions), Some(vec![vec![1, 2]]));
    bench.connected(&main[..2]);
    let standing = Standing { tip: main[1], wanted: main[1], is_held: false, is_at_stop: true };
    assert_eq!(
        bench.on(Input::Rested { tip: standing, past: bench.past }).pop(),
        Some(Action::Done(Outcome::StopHeight))
    );
}

#[test]
fn a_stop_ends_the_wait_and_then_the_sync() {
    let mut bench = Bench::tip();
    let genesis = bench.chains.genesis();
    assert_eq!(bench.on(Input::Stop), [Action::Hurry]);
    assert_eq!(bench.step(genesis, genesis), Action::Done(Outcome::Stopped));
}

#[test]
fn a_snapshot_is_loaded_between_two_runs() {
    let mut bench = Bench::tip();
    let genesis = bench.chains.genesis();
    bench.on(Input::LoadAsked);
    assert_eq!(bench.step(genesis, genesis), Action::Done(Outcome::Load));
    let (mut bench, main) = on_snapshot(5, 3);
    bench.on(Input::LoadAsked);
    assert_eq!(bench.step(main[2], main[2]), Action::Wait, "one is loaded already");
}

/// A chain of so many blocks, whose coins up to the `height` come from a snapshot; nothing of its past is there.
fn on_snapshot(blocks: usize, height: usize) -> (Bench, Vec<NodeId>) {
    let mut bench = Bench::new(Settings { ends_at_tip: false, ..settings() }, Goal::Tip);
    let main = bench.chains.grow(None, blocks);
    let base = main[height - 1];
    bench.chains.assume(base);
    let settings = Settings { ends_at_tip: false, snapshot: Some(base), ..settings() };
    bench.driver = SyncDriver::new(settings, Goal::Tip, base);
    let genesis = bench.chains.genesis();
    bench.past = Some(standing(genesis, genesis));
    (bench, main)
}

#[test]
fn the_tip_is_asked_for_first_and_then_the_past() {
    let (mut bench, main) = on_snapshot(5, 3);
    assert_eq!(wanted(&bench.targets(&[main[4]])), Some(vec![vec![4, 5]]));
    bench.connected(&main[3..]);
    let progress = bench.progress(main[4]);
    let actions = bench.on(Input::Network(Box::new(progress)));
    assert_eq!(wanted(&actions), Some(vec![vec![1, 2, 3]]), "the past");
    // A new block goes first again.
    let more = bench.chains.grow(Some(main[4]), 1);
    assert_eq!(wanted(&bench.targets(&more)), Some(vec![vec![6]]));
}

#[test]
fn the_past_runs_while_the_tip_has_nothing_to_do() {
    let (mut bench, main) = on_snapshot(5, 3);
    let genesis = bench.chains.genesis();
    bench.targets(&[main[4]]);
    bench.chains.store(&main[..1]);
    bench.past = Some(standing(genesis, main[0]));
    assert_eq!(bench.step(main[2], main[2]), Action::RunPast, "the next block of the tip is not there");
    assert_eq!(bench.driver.doing(), Doing::ValidatingPast);
    bench.chains.store(&main[3..4]);
    let hash = bench.chains.hash(main[3]);
    let stored = |hash| Input::Judged { hash, verdict: BlockVerdict::Stored, bytes: Some(100) };
    assert!(bench.on(stored(hash)).contains(&Action::Yield), "the tip's block is there");
    assert_eq!(bench.step(main[2], main[3]), Action::RunTo(main[4]));
    let of_past = bench.chains.hash(main[1]);
    bench.chains.store(&main[1..2]);
    assert!(!bench.on(stored(of_past)).contains(&Action::Yield));
}

#[test]
fn a_past_that_reached_the_base_is_done() {
    let (mut bench, main) = on_snapshot(3, 3);
    assert_eq!(bench.step(main[2], main[2]), Action::Wait);
    bench.past = Some(standing(main[2], main[2]));
    assert_eq!(bench.step(main[2], main[2]), Action::HashPast);
    assert_eq!(bench.step(main[2], main[2]), Action::Wait, "once");
    assert!(bench.on(Input::PastHashed).contains(&Action::Hurry));
    assert_eq!(bench.step(main[2], main[2]), Action::Done(Outcome::PastDone));
    bench.driver.enter(Goal::Tip, main[2], None);
    bench.past = None;
    assert_eq!(bench.step(main[2], main[2]), Action::Wait, "an ordinary chain");
}

#[test]
fn the_tip_goes_on_while_the_coins_of_the_past_are_hashed() {
    let (mut bench, main) = on_snapshot(3, 3);
    bench.past = Some(standing(main[2], main[2]));
    assert_eq!(bench.step(main[2], main[2]), Action::HashPast);
    let more = bench.chains.grow(Some(main[2]), 2);
    assert_eq!(wanted(&bench.targets(&more[1..])), Some(vec![vec![4, 5]]));
    assert_eq!(bench.step(main[2], main[2]), Action::RunTo(more[1]));
    bench.connected(&more);
    let actions = bench.rested(more[1], more[1]);
    assert!(actions.contains(&Action::NewTip { last: main[2], tip: more[1] }), "{actions:?}");
    assert_eq!(actions.last(), Some(&Action::Wait));
    bench.on(Input::PastHashed);
    assert_eq!(bench.step(more[1], more[1]), Action::Done(Outcome::PastDone));
}

#[test]
fn a_past_that_begins_again_is_hashed_again() {
    let (mut bench, main) = on_snapshot(3, 3);
    bench.past = Some(standing(main[2], main[2]));
    assert_eq!(bench.step(main[2], main[2]), Action::HashPast);
    bench.driver.enter(Goal::Past, main[2], Some(main[2]));
    assert_eq!(bench.step(main[2], main[2]), Action::HashPast);
}

#[test]
fn a_base_that_is_refused_ends_the_past() {
    let (mut bench, main) = on_snapshot(3, 3);
    bench.chains.refuse(main[0]);
    let hash = bench.chains.hash(main[0]);
    bench.on(Input::Refused { node: main[0], hash, why: "bad".to_owned() });
    let genesis = bench.chains.genesis();
    bench.driver.enter(Goal::Past, main[2], Some(main[2]));
    bench.past = Some(standing(genesis, genesis));
    assert_eq!(bench.step(main[2], main[2]), Action::Done(Outcome::PastDone));
}

#[test]
fn headers_alone_ask_for_no_block_and_end_with_the_wanted_one() {
    let mut bench = Bench::tip();
    let main = bench.chains.grow(None, 3);
    let hash = bench.chains.hash(main[2]);
    bench.driver = SyncDriver::new(settings(), Goal::Headers(hash), bench.chains.genesis());
    assert_eq!(wanted(&bench.targets(&[main[2]])), Some(vec![]));
    let genesis = bench.chains.genesis();
    assert_eq!(bench.step(genesis, main[2]), Action::Wait, "what is stored is not connected either");
    bench.told(main[2]);
    assert_eq!(bench.step(genesis, genesis), Action::Done(Outcome::Reached));
}

#[test]
fn the_past_alone_asks_for_one_chain() {
    let (mut bench, main) = on_snapshot(5, 4);
    let side = bench.chains.grow(None, 9);
    bench.driver.enter(Goal::Past, main[3], Some(main[3]));
    assert_eq!(wanted(&bench.on(Input::Begun)), Some(vec![vec![1, 2, 3, 4]]));
    assert_eq!(wanted(&bench.targets(&[side[8]])), Some(vec![vec![1, 2, 3, 4]]));
    assert_eq!(bench.step(main[3], side[8]), Action::Wait, "what is better is not connected");
    bench.chains.store(&main[..2]);
    bench.past = Some(standing(bench.chains.genesis(), main[1]));
    assert_eq!(bench.step(main[3], main[3]), Action::RunPast);
}

#[test]
fn what_does_not_go_with_a_snapshot_makes_it_suspect() {
    let (mut bench, main) = on_snapshot(3, 1);
    let held = Standing { is_held: true, ..standing(main[0], main[0]) };
    let past = bench.past;
    assert_eq!(bench.on(Input::Rested { tip: held, past }).pop(), Some(Action::Done(Outcome::Suspect)));
    let (mut bench, main) = on_snapshot(3, 1);
    bench.chains.refuse(main[1]);
    let hash = bench.chains.hash(main[1]);
    let actions = bench.on(Input::Refused { node: main[1], hash, why: "bad".to_owned() });
    assert!(!actions.iter().any(|action| matches!(action, Action::Verdict(..))), "no peer is to blame: {actions:?}");
    // A block above it, which was on its way.
    let hash = bench.chains.hash(main[2]);
    let actions = bench.on(Input::KnownInvalid { hash, why: "its parent is invalid".to_owned() });
    assert_eq!(actions, [Action::Verdict(hash, BlockVerdict::Stored)], "no peer is to blame");
    assert_eq!(bench.step(main[0], main[0]), Action::Done(Outcome::Suspect));
}

struct Missing(Vec<NodeId>);

impl HintedBlocks for Missing {
    fn missing(&self, limit: usize) -> Vec<NodeId> {
        self.0.iter().copied().take(limit).collect()
    }

    fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }
}

#[test]
fn with_hints_the_missing_blocks_are_asked_for_until_none_is() {
    let mut bench = Bench::new(settings(), Goal::Hinted);
    let main = bench.chains.grow(None, 4);
    let genesis = bench.chains.genesis();
    let standing = standing(genesis, genesis);
    let mut on = |input: Input, missing: &[NodeId]| {
        let missing = Missing(missing.to_vec());
        let view = View { index: bench.chains.index(), is_prune_due: false, past_tip: None, hinted: Some(&missing) };
        bench.driver.on(input, view, bench.now)
    };
    let asked = on(Input::WantMore, &[main[1], main[3]]);
    assert_eq!(wanted(&asked), Some(vec![vec![2, 4]]));
    assert_eq!(on(Input::Rested { tip: standing, past: None }, &[main[3]]).pop(), Some(Action::Wait));
    assert_eq!(on(Input::Rested { tip: standing, past: None }, &[]).pop(), Some(Action::Done(Outcome::Reached)));
}

fn pruned() -> Settings {
    Settings { prune_target: Some(BLOCK_BYTES_FIRST * 8 * 16), ..settings() }
}

#[test]
fn a_pruned_sync_asks_as_far_ahead_as_may_be_and_more_as_the_tip_rises() {
    let mut bench = Bench::new(pruned(), Goal::Tip);
    let main = bench.chains.grow(None, 40);
    let asked = wanted(&bench.targets(&[main[39]])).unwrap();
    assert_eq!(asked[0], (1..=16).collect::<Vec<u32>>());
    assert_eq!(wanted(&bench.on(Input::Tick)), None, "enough is asked for");
    bench.connected(&main[..5]);
    let asked = wanted(&bench.on(Input::Tick)).unwrap();
    assert_eq!(asked[0], (6..=21).collect::<Vec<u32>>());
}

#[test]
fn a_commit_that_makes_room_is_waited_for() {
    let mut bench = Bench::new(pruned(), Goal::Tip);
    let main = bench.chains.grow(None, 40);
    bench.targets(&[main[39]]);
    bench.connected(&main[..5]);
    bench.is_prune_due = true;
    let asked = wanted(&bench.on(Input::WantMore)).unwrap();
    assert_eq!(asked[0], (6..=16).collect::<Vec<u32>>(), "no more than before");
    assert_eq!(wanted(&bench.on(Input::Tick)), None);
    bench.is_prune_due = false;
    let asked = wanted(&bench.on(Input::Tick)).unwrap();
    assert_eq!(asked[0], (6..=21).collect::<Vec<u32>>(), "there is room");
}

fn assuming(hash: BlockHash) -> Settings {
    let assume = AssumeValid { hash, minimum_chain_work: Work::ZERO };
    Settings { assume, ends_at_tip: false, ..settings() }
}

#[test]
fn blocks_wait_while_headers_come_that_decide_their_trust() {
    let mut bench = Bench::tip();
    let main = bench.chains.grow(None, 2100);
    let unknown = BlockHash::from_bytes([3; 32]);
    bench.driver = SyncDriver::new(assuming(unknown), Goal::Tip, bench.chains.genesis());
    assert!(bench.driver.waits_at_begin());
    bench.targets(&[main[2099]]);
    bench.chains.store(&main[..10]);
    let genesis = bench.chains.genesis();
    assert_eq!(bench.step(genesis, main[9]), Action::Wait, "neither activated nor run to");
    let mut progress = bench.progress(main[2099]);
    progress.headers_settled = false;
    bench.on(Input::Network(Box::new(progress)));
    assert_eq!(bench.step(genesis, main[9]), Action::Wait, "the last headers message was full");
    let progress = bench.progress(main[2099]);
    let actions = bench.on(Input::Network(Box::new(progress)));
    assert_eq!(actions, [Action::AwaitHeaders(false), Action::Wake]);
    assert_eq!(bench.step(genesis, main[9]), Action::RunTo(main[2099]));
}

#[test]
fn blocks_do_not_wait_for_headers_for_ever() {
    let mut bench = Bench::tip();
    let main = bench.chains.grow(None, 3);
    bench.driver = SyncDriver::new(assuming(BlockHash::from_bytes([3; 32])), Goal::Tip, bench.chains.genesis());
    bench.targets(&[main[2]]);
    let genesis = bench.chains.genesis();
    assert_eq!(bench.step(genesis, genesis), Action::Wait);
    bench.now += HEADERS_PATIENCE;
    assert_eq!(bench.on(Input::Tick), [Action::AwaitHeaders(false), Action::Wake]);
    assert_eq!(bench.step(genesis, genesis), Action::RunTo(main[2]));
}

#[test]
fn blocks_that_are_trusted_already_wait_for_nothing() {
    let mut bench = Bench::tip();
    let main = bench.chains.grow(None, 2100);
    let assumed = bench.chains.hash(main[2099]);
    bench.driver = SyncDriver::new(assuming(assumed), Goal::Tip, bench.chains.genesis());
    bench.targets(&[main[2099]]);
    let genesis = bench.chains.genesis();
    let reason = headers::script_reason(bench.chains.index().headers(), &bench.driver.settings.assume, 600, main[0]);
    assert_eq!(reason, None);
    assert_eq!(bench.step(genesis, genesis), Action::RunTo(main[2099]));
    bench.connected(&main[..90]);
    let reason = headers::script_reason(bench.chains.index().headers(), &bench.driver.settings.assume, 600, main[90]);
    assert_eq!(reason, Some(ScriptCheckReason::TooRecent), "more headers would take that away");
    assert_eq!(bench.step(main[89], main[89]), Action::Wait);
}

#[test]
fn without_peers_no_block_waits_for_headers() {
    let settings = Settings { expects_peers: false, ..assuming(BlockHash::from_bytes([3; 32])) };
    let mut bench = Bench::new(settings, Goal::Tip);
    let main = bench.chains.grow(None, 3);
    bench.chains.store(&main);
    let genesis = bench.chains.genesis();
    assert_eq!(bench.step(genesis, main[2]), Action::Activate);
}

#[test]
fn offers_on_marked_blocks_have_a_bound_and_the_most_counts() {
    let mut bench = Bench::tip();
    let main = bench.chains.grow(None, 40);
    bench.connected(&main[..1]);
    bench.chains.mark(main[1]);
    let one = bench.chains.work(main[0]);
    for &on in &main[1..] {
        let work = (0..50).fold(bench.chains.work(on), |sum, _| sum.saturating_add(one));
        bench.driver.note_offered(OfferedHeaders { on, blocks: 50, work });
        bench.driver.note_offered(OfferedHeaders { on, blocks: 1, work: one });
    }
    bench.driver.invariants(bench.chains.index());
    let found = bench.chains.index().shut_out(main[0], bench.driver.offered()).unwrap();
    assert_eq!(
        (found.mark, found.blocks),
        (main[1], 66),
        "16 offers: the highest is on block 17, with 50 above; the fork is at 1"
    );
}

#[test]
fn a_pause_asks_for_nothing_until_it_ends() {
    let mut bench = Bench::tip();
    let main = bench.chains.grow(None, 3);
    bench.targets(&[main[2]]);
    let local = LocalTime { day: 1, hour: 2 };
    assert_eq!(bench.on(Input::Clock { local, is_paused: false }), [], "nothing changes");
    assert_eq!(wanted(&bench.on(Input::Clock { local, is_paused: true })), Some(vec![]));
    assert_eq!(wanted(&bench.on(Input::WantMore)), Some(vec![]));
    assert_eq!(bench.on(Input::Clock { local, is_paused: true }), []);
    assert_eq!(wanted(&bench.on(Input::Clock { local, is_paused: false })), Some(vec![vec![1, 2, 3]]));
}

#[test]
fn a_days_bytes_shorten_the_lists_and_end_them() {
    let limits = DownloadLimits { target_mib: Some(10), ..DownloadLimits::default() };
    let mut bench = Bench::new(Settings { limits, ..settings() }, Goal::Tip);
    let main = bench.chains.grow(None, 300);
    let local = LocalTime { day: 1, hour: 2 };
    bench.on(Input::Clock { local, is_paused: false });
    assert_eq!(wanted(&bench.targets(&[main[299]])).unwrap()[0].len(), 9, "blocks of a megabyte");
    bench.chains.store(&main[..9]);
    for &node in &main[..9] {
        let hash = bench.chains.hash(node);
        bench.on(Input::Judged { hash, verdict: BlockVerdict::Stored, bytes: Some(1 << 20) });
    }
    assert_eq!(
        wanted(&bench.on(Input::Clock { local, is_paused: false })),
        Some(vec![]),
        "a tenth is kept for the tip"
    );
    let local = LocalTime { day: 2, hour: 0 };
    assert_eq!(wanted(&bench.on(Input::Clock { local, is_paused: false })).unwrap()[0].len(), 9);
}

/// A pruned sync requests few blocks at once, however far the tip is.
#[test]
fn only_new_blocks_at_the_tip_are_requested_outside_the_hours() {
    let hours = Hours::parse("22-7").unwrap();
    let limits = DownloadLimits { hours: Some(hours), ..DownloadLimits::default() };
    for (row, settings) in [("pruned", pruned()), ("archival", settings())] {
        let mut bench = Bench::new(Settings { limits, ..settings }, Goal::Tip);
        let main = bench.chains.grow(None, 400);
        let at = |hour: u8| Input::Clock { local: LocalTime { day: 1, hour }, is_paused: false };
        bench.on(at(12));
        assert_eq!(wanted(&bench.targets(&[main[399]])), Some(vec![]), "{row}");
        assert!(!wanted(&bench.on(at(23))).unwrap()[0].is_empty(), "{row}: within the hours");
        let later = bench.on(Input::Clock { local: LocalTime { day: 2, hour: 12 }, is_paused: false });
        assert_eq!(wanted(&later), Some(vec![]), "{row}: after them");
        bench.connected(&main[..300]);
        bench.rested(main[299], main[299]);
        assert!(!wanted(&bench.targets(&[main[399]])).unwrap()[0].is_empty(), "{row}: near the tip");
    }
}

#[test]
fn random_inputs_keep_the_invariants() {
    for seed in 0..200 {
        let mut rng = testkit::Rng::new(seed);
        let is_pruned = rng.one_in(2);
        let mut bench = Bench::new(if is_pruned { pruned() } else { settings() }, Goal::Tip);
        let mut nodes = vec![bench.chains.genesis()];
        let mut tip = 0;
        for _ in 0..60 {
            bench.now += Duration::from_millis(rng.below(3000) as u64);
            bench.is_prune_due = rng.one_in(5);
            match rng.below(9) {
                0 => {
                    let on = nodes[rng.below(nodes.len())];
                    nodes.extend(bench.chains.grow(Some(on), 1 + rng.below(20)));
                }
                1 => {
                    let ends: Vec<NodeId> = (0..rng.below(3)).map(|_| nodes[rng.below(nodes.len())]).collect();
                    bench.targets(&ends);
                }
                2 => {
                    // The next block of some chain on the tip is stored and connected.
                    let on = nodes[tip];
                    let tree = bench.chains.index().headers();
                    let is_next = |&&node: &&NodeId| tree.parent(node) == Some(on) && tree.fate(node) == Fate::Open;
                    if let Some(&next) = nodes.iter().find(is_next) {
                        bench.connected(&[next]);
                        tip = nodes.iter().position(|&node| node == next).unwrap();
                    }
                }
                3 => {
                    let node = nodes[rng.below(nodes.len())];
                    let (is_active, hash) = (bench.chains.index().is_active(node), bench.chains.hash(node));
                    if !is_active && bench.chains.index().headers().fate(node) == Fate::Open {
                        bench.chains.refuse(node);
                        bench.on(Input::Refused { node, hash, why: "bad".to_owned() });
                    }
                }
                4 => drop(bench.on(Input::WantMore)),
                5 => bench.told(nodes[rng.below(nodes.len())]),
                6 => drop(bench.on(Input::Tick)),
                7 => drop(bench.on(Input::Lost)),
                _ => {
                    let index = bench.chains.index();
                    let wanted = index.best_candidate(nodes[tip]);
                    let step = bench.step(nodes[tip], wanted);
                    let tree = bench.chains.index().headers();
                    match step {
                        Action::RunTo(end) => assert!(tree.is_ancestor(nodes[tip], end), "seed {seed}"),
                        Action::Activate => assert_ne!(wanted, nodes[tip], "seed {seed}"),
                        Action::Done(outcome) => assert_eq!(outcome, Outcome::Reached, "seed {seed}"),
                        _ => {}
                    }
                }
            }
        }
    }
}
