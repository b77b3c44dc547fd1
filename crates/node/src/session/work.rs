//! The engine's side of a session: the steps that the driver says, on the thread that calls the job.

use super::driver::{Action, Input, Outcome};
use super::threads::Session;
use crate::datadir::DataDir;
use crate::engine::Engine;
use crate::fault::Fault;
use crate::handle::{Handle, Quiet};

/// Connects what arrives until this part of the sync is over.
///
/// # Errors
///
/// What another thread met, or what the system says. Nothing that peers do is one.
pub(super) fn follow(session: &Session<'_, '_>, engine: &mut Engine<'_>) -> Result<Outcome, Fault> {
    let datadir = session.datadir;
    loop {
        // A call to hurry from here on is heard.
        session.inbox.calm();
        session.take_fault()?;
        if datadir.reporter.is_stopping() {
            session.tell(Input::Stop);
        }
        serve(datadir, engine, session.handle)?;
        if session.handle.is_some_and(Handle::wants_load) {
            session.tell(Input::LoadAsked);
        }
        tell_news(session, engine);
        let seen = session.inbox.arrived_count();
        let actions = session.drive(Input::Rested(engine.standing()));
        for action in actions {
            match action {
                Action::NewTip { last, tip } => {
                    datadir.check_index();
                    session.network.new_tip();
                    datadir.tell_tips(last, tip);
                }
                Action::LookForAlerts => datadir.look_for_alerts(engine.tip()),
                Action::Commit => datadir.commit_if_due(engine)?,
                Action::Activate => drop(engine.activate()?),
                Action::RunTo(end) => drop(engine.stream(end)?),
                Action::Wait => {
                    engine.rest(true)?;
                    session.inbox.wait(|| datadir.turn.is_asked() || session.inbox.arrived_count() != seen);
                }
                Action::Done(outcome) => return Ok(outcome),
                action => unreachable!("{action:?} is done by the session"),
            }
        }
    }
}

/// What the engine found bad goes to the driver, and through it to the peers.
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

/// Does what others wait for: no block is in flight.
fn serve(datadir: &DataDir<'_>, engine: &mut Engine<'_>, handle: Option<&Handle>) -> Result<(), Fault> {
    match handle {
        Some(handle) if datadir.turn.is_asked() => handle.serve(&mut Quiet { datadir, engine }),
        _ => Ok(()),
    }
}
