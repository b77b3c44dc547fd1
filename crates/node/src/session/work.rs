//! The engine's side of a session: carries out the driver's steps on the thread that called the job.

use super::driver::{Action, Input, Outcome};
use super::link::Session;
use crate::datadir::DataDir;
use crate::datadir::feed::Inbox;
use crate::fault::Fault;
use crate::handle::{Handle, Quiet};
use crate::offline;
use crate::pipeline::engine::{Engine, Standing};
use crate::session::inbox::Arrivals;
use crate::threads::locks::lock;
use crate::utxo_stats::SetHash;
use crate::utxo_stats::setinfo::set_info_while;
use std::sync::atomic::Ordering::Relaxed;

/// A closure that runs on another thread, in parallel with the engine's.
pub(super) type Aside<'s> = Box<dyn FnOnce() + Send + 's>;
/// Starts such a closure.
pub(super) type DoAside<'a, 's> = &'a mut dyn FnMut(Aside<'s>) -> Result<(), Fault>;

/// Connects arriving blocks until this part of the sync is over.
///
/// # Errors
///
/// A fault of another thread, or an I/O error. Peers cannot cause an error.
pub(super) fn follow<'s>(
    session: &'s Session<'_, '_>,
    mut engines: Engines<'s, '_>,
    aside: DoAside<'_, 's>,
) -> Result<Outcome, Fault> {
    engines.begin();
    loop {
        if let Some(outcome) = step(session, &mut engines, aside)? {
            return Ok(outcome);
        }
    }
}

/// Carries out the driver's next step; returns the outcome if this part of the sync is over.
///
/// # Errors
///
/// Those of [`follow`].
pub(super) fn step<'s>(
    session: &'s Session<'_, '_>,
    engines: &mut Engines<'s, '_>,
    aside: DoAside<'_, 's>,
) -> Result<Option<Outcome>, Fault> {
    let datadir = session.datadir;
    // From here on, requests to hurry or to yield are handled.
    session.inboxes().for_each(Arrivals::calm);
    datadir.yields.store(false, Relaxed);
    session.take_fault()?;
    if datadir.reporter.is_stopping() {
        session.tell(Input::Stop);
    }
    serve(datadir, engines.tip, session.handle)?;
    if session.handle.is_some_and(Handle::wants_load) {
        session.tell(Input::LoadAsked);
    }
    tell_news(session, engines.tip);
    if let PastEngine::Here(past) = &mut engines.past {
        tell_news(session, past);
    }
    let seen = session.inbox.arrived_count();
    let past = engines.past.standing();
    for action in session.drive(Input::Rested { tip: engines.tip.standing(), past }) {
        match action {
            Action::NewTip { last, tip } => {
                datadir.check_index();
                session.network.new_tip();
                datadir.tell_tips(last, tip);
            }
            Action::LookForAlerts => datadir.look_for_alerts(engines.tip.tip()),
            Action::Commit => engines.commit_if_due(session)?,
            Action::Activate => drop(engines.tip.activate()?),
            Action::RunTo(end) => drop(engines.tip.stream(end)?),
            Action::RunPast => engines.run_past(session)?,
            Action::HashPast => engines.hash_past(session, aside)?,
            Action::Wait => {
                engines.tip.rest(true)?;
                session.inbox.wait(&|| datadir.turn.is_asked() || session.inbox.arrived_count() != seen);
            }
            Action::Done(outcome) => return Ok(Some(outcome)),
            action => unreachable!("{action:?} is done by the session"),
        }
    }
    Ok(None)
}

/// The engines of a session.
pub(super) struct Engines<'s, 'f> {
    /// The engine on the best chain.
    pub(super) tip: &'s mut Engine<'f>,
    /// The engine on the chain below a snapshot.
    pub(super) past: PastEngine<'s, 'f>,
    /// Memory for both, in bytes.
    pub(super) budget_bytes: usize,
    /// The engine that has most of it.
    pub(super) first: First,
}

/// The engine on the chain below a snapshot.
pub(super) enum PastEngine<'s, 'f> {
    /// There is no such chain.
    None,
    /// It connects blocks.
    Here(&'s mut Engine<'f>),
    /// All its blocks are connected, and its coins are being hashed on another thread.
    Aside(Standing),
}

impl<'s, 'f> From<Option<&'s mut Engine<'f>>> for PastEngine<'s, 'f> {
    fn from(engine: Option<&'s mut Engine<'f>>) -> PastEngine<'s, 'f> {
        engine.map_or(PastEngine::None, PastEngine::Here)
    }
}

impl PastEngine<'_, '_> {
    fn standing(&self) -> Option<Standing> {
        match self {
            PastEngine::None => None,
            PastEngine::Here(engine) => Some(engine.standing()),
            PastEngine::Aside(standing) => Some(*standing),
        }
    }
}

impl<'s> Engines<'s, '_> {
    /// Divides the memory between the engines.
    pub(super) fn begin(&self) {
        if let PastEngine::Here(past) = &self.past {
            share_out(self.tip, past, self.budget_bytes, self.first);
        }
    }

    fn commit_if_due(&mut self, session: &Session<'_, '_>) -> Result<(), Fault> {
        session.datadir.commit_if_due(self.tip)?;
        match (session.past, &mut self.past) {
            (Some(below), PastEngine::Here(past)) => below.commit_if_due(past),
            _ => Ok(()),
        }
    }

    /// Validates stored blocks below the snapshot.
    fn run_past(&mut self, session: &Session<'_, '_>) -> Result<(), Fault> {
        let PastEngine::Here(past) = &mut self.past else { unreachable!("the driver runs a past that connects") };
        if self.first == First::Tip {
            self.first = First::Past;
            say_past(session);
            share_out(self.tip, past, self.budget_bytes, First::Past);
            self.tip.pipeline.make_room(self.tip.tip_and_hash())?;
        }
        past.activate()?;
        session.tell_past_height();
        Ok(())
    }

    /// All blocks below the snapshot are connected: commits and hashes their coins on another thread.
    fn hash_past(&mut self, session: &'s Session<'_, '_>, aside: DoAside<'_, 's>) -> Result<(), Fault> {
        let standing = self.past.standing().expect("the driver hashes a past that is there");
        let PastEngine::Here(past) = std::mem::replace(&mut self.past, PastEngine::Aside(standing)) else {
            unreachable!("the driver hashes the past once");
        };
        self.first = First::Tip;
        share_out(self.tip, past, self.budget_bytes, First::Tip);
        aside(Box::new(move || {
            let _alarm = session.alarm("hashes the coins below the snapshot");
            if let Err(fault) = hash_past(session, past) {
                session.end_by(fault);
            }
        }))
    }
}

/// Commits the coins below the snapshot, hashes them, and reports to the driver. Ends early if the session does.
fn hash_past(session: &Session<'_, '_>, past: &mut Engine<'_>) -> Result<(), Fault> {
    let datadir = session.past.expect("there is a past where its engine is");
    offline::finish_past(datadir, past)?;
    // No coin is looked up again.
    past.pipeline.make_room(past.tip_and_hash())?;
    datadir.reporter.note("[snapshot] computing UTXO stats for background chainstate to validate snapshot");
    let goes_on = || !session.is_ending() && !datadir.reporter.is_stop_asked();
    let set = set_info_while(&datadir.coins.view(), SetHash::Serialized, false, datadir.options.par, &goes_on)?;
    if let Some((_, hash)) = set.and_then(|set| set.hash) {
        *lock(&session.past_hash) = Some(hash);
        session.tell(Input::PastHashed);
    }
    Ok(())
}

/// The engine that has most of the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum First {
    /// The one on the best chain.
    Tip,
    /// The one below a snapshot.
    Past,
}

/// Gives the engine that works most seven eighths of the memory, and the other one an eighth.
/// Source: Bitcoin Core b88bffe, `MaybeRebalanceCaches`, with other shares.
fn share_out(tip: &Engine<'_>, past: &Engine<'_>, budget_bytes: usize, first: First) {
    let least = budget_bytes / 8;
    let most = budget_bytes - budget_bytes / 8;
    let of_tip = if first == First::Tip { most } else { least };
    tip.pipeline.budget().store(of_tip, Relaxed);
    past.pipeline.budget().store(budget_bytes - of_tip, Relaxed);
}

/// Logs that validation of the blocks below the snapshot starts.
fn say_past(session: &Session<'_, '_>) {
    let base = session.past.and_then(|past| past.assumed).map(|assumed| assumed.base);
    if let Some(base) = base {
        let height = session.datadir.headers().height(base);
        session.datadir.reporter.note(format!("Validating the past, up to height {height}"));
    }
}

/// Reports refused and lost blocks to the driver, which reports them to the peers.
fn tell_news(session: &Session<'_, '_>, engine: &mut Engine<'_>) {
    let news = engine.take_news();
    for (node, why) in news.refused {
        let hash = session.datadir.headers().hash(node);
        session.tell(Input::Refused { node, hash, why });
    }
    if news.has_lost {
        session.tell(Input::Lost);
    }
}

/// Runs the tasks of other threads; no block is in flight.
fn serve(datadir: &DataDir<'_>, engine: &mut Engine<'_>, handle: Option<&Handle>) -> Result<(), Fault> {
    match handle {
        Some(handle) if datadir.turn.is_asked() => handle.serve(&mut Quiet { datadir, engine }),
        _ => Ok(()),
    }
}
