//! A job of the engine's on a thread of its own, while the thread that called it looks at signals and tells events.

use crate::errors;
use ffwd_engine::{Ended, Stop};
use pyo3::prelude::*;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

/// Interval at which signal handlers are run.
const SIGNALS_INTERVAL: Duration = Duration::from_millis(50);
/// Events that wait for the callback. With more of them, the job waits for it.
const EVENTS_MAX: usize = 1_000;

/// An event of a running job.
#[pyclass(frozen, get_all, module = "ffwd")]
#[derive(Default)]
pub(crate) struct Event {
    kind: &'static str,
    text: Option<String>,
    height: Option<u32>,
    height_end: Option<u32>,
    hash: Option<String>,
    bytes: Option<u64>,
    bytes_end: Option<u64>,
}

#[pymethods]
impl Event {
    fn __repr__(&self) -> String {
        let height = self.height.map_or_else(String::new, |height| format!(", height={height}"));
        let text = self.text.as_ref().map_or_else(String::new, |text| format!(", text={text:?}"));
        format!("Event(kind={:?}{height}{text})", self.kind)
    }
}

impl Event {
    fn of(event: ffwd_engine::Event) -> Option<Event> {
        use ffwd_engine::Event as Told;
        Some(match event {
            Told::Note(text) => Event { kind: "note", text: Some(text), ..Event::default() },
            Told::Warning(text) => Event { kind: "warning", text: Some(text), ..Event::default() },
            Told::BlockRefused { height, hash, reason, .. } => Event {
                kind: "block_refused",
                text: Some(reason),
                height: Some(height),
                hash: Some(hash.to_string()),
                ..Event::default()
            },
            Told::Ready => Event { kind: "ready", ..Event::default() },
            Told::Tip { height, hash, .. } => {
                Event { kind: "tip", height: Some(height), hash: Some(hash.to_string()), ..Event::default() }
            }
            Told::Progress(progress) => Event {
                kind: "progress",
                text: Some(progress.state),
                height: Some(progress.height),
                height_end: Some(progress.height_end),
                bytes: Some(progress.bytes),
                bytes_end: Some(progress.bytes_end),
                hash: None,
            },
            _ => return None,
        })
    }
}

/// The result of a reindex or a sync.
#[pyclass(frozen, get_all, module = "ffwd")]
pub(crate) struct JobReport {
    ended: &'static str,
    reason: Option<String>,
    height: u32,
    best_block: String,
    height_start: u32,
    blocks: u64,
    transactions: u64,
    bytes: u64,
    blocks_invalid: u64,
    seconds: f64,
}

#[pymethods]
impl JobReport {
    fn __repr__(&self) -> String {
        let JobReport { ended, height, blocks, seconds, .. } = self;
        format!("JobReport(ended={ended:?}, height={height}, blocks={blocks}, seconds={seconds:.3})")
    }
}

impl From<ffwd_engine::JobReport> for JobReport {
    fn from(report: ffwd_engine::JobReport) -> JobReport {
        let ended = match report.ended {
            Ended::Incomplete(_) => "incomplete",
            Ended::Stopped => "stopped",
            _ => "complete",
        };
        let reason = match report.ended {
            Ended::Incomplete(why) => Some(why),
            _ => None,
        };
        JobReport {
            ended,
            reason,
            height: report.height,
            best_block: report.best_block.to_string(),
            height_start: report.height_start,
            blocks: report.blocks,
            transactions: report.transactions,
            bytes: report.bytes,
            blocks_invalid: report.blocks_invalid,
            seconds: report.seconds,
        }
    }
}

/// The result of a verification.
#[pyclass(frozen, get_all, module = "ffwd")]
pub(crate) struct VerifyReport {
    blocks: u32,
    level: u8,
    transactions: u64,
    height: u32,
    best_block: String,
    seconds: f64,
}

#[pymethods]
impl VerifyReport {
    fn __repr__(&self) -> String {
        format!("VerifyReport(blocks={}, level={}, height={})", self.blocks, self.level, self.height)
    }
}

impl From<ffwd_engine::VerifyReport> for VerifyReport {
    fn from(report: ffwd_engine::VerifyReport) -> VerifyReport {
        VerifyReport {
            blocks: report.blocks,
            level: report.level,
            transactions: report.transactions,
            height: report.height,
            best_block: report.best_block.to_string(),
            seconds: report.seconds,
        }
    }
}

/// The event callback that the engine gets.
pub(crate) type Tell = Box<dyn Fn(ffwd_engine::Event) + Send + Sync>;

/// Does `work` on another thread, and calls `on_event` on this one, the only one that Python runs signal handlers on.
///
/// A signal handler that raises, as Ctrl-C's does, and a callback that raises stop the job; what was raised comes out when the
/// job has ended.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    stop: &Stop,
    on_event: Option<Py<PyAny>>,
    work: impl FnOnce(Tell) -> Result<T, ffwd_engine::Error> + Send,
) -> PyResult<T> {
    let (events, told) = sync_channel(EVENTS_MAX);
    let wants_events = on_event.is_some();
    let tell: Tell = Box::new(move |event| {
        if wants_events {
            let _ = events.send(event);
        }
    });
    let (raised, done) = py.detach(move || {
        let mut raised = None;
        thread::scope(|scope| {
            let worker = scope.spawn(move || work(tell));
            while !worker.is_finished() {
                let event = match told.recv_timeout(SIGNALS_INTERVAL) {
                    Ok(event) => Some(event),
                    Err(RecvTimeoutError::Timeout) => None,
                    // The job has ended, and its thread does at once.
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                if raised.is_none() {
                    raised = Python::attach(|py| look(py, on_event.as_ref(), event)).err();
                    if raised.is_some() {
                        stop.stop();
                    }
                }
            }
            let rest = told.try_iter().map(Some);
            for event in rest {
                if raised.is_none() {
                    raised = Python::attach(|py| look(py, on_event.as_ref(), event)).err();
                }
            }
            (raised, worker.join())
        })
    });
    match (raised, done) {
        (_, Err(panic)) => std::panic::resume_unwind(panic),
        (Some(raised), _) => Err(raised),
        (None, Ok(done)) => done.map_err(|why| errors::engine(py, &why)),
    }
}

/// Runs signal handlers, and the callback for an event.
fn look(py: Python<'_>, on_event: Option<&Py<PyAny>>, event: Option<ffwd_engine::Event>) -> PyResult<()> {
    py.check_signals()?;
    if let (Some(callback), Some(event)) = (on_event, event.and_then(Event::of)) {
        callback.call1(py, (event,))?;
    }
    Ok(())
}
