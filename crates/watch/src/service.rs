//! The service manager: notifies systemd of readiness, status, liveness and stopping.
//!
//! Uses the protocol of sd_notify(3); without `NOTIFY_SOCKET` in the environment it does nothing. Watchdog messages
//! are sent when the job reports progress: the reporting thread takes the locks of the job, so that a deadlock stops
//! them. When no progress is reported, a separate thread sends them: between two parts of the work, and while the disk
//! is full.
//! Before the program is ready, and while it stops, each message extends the timeout.

use crate::rates::{Window, seconds_to_go};
use node::reporting::state::SessionState;
use node::reporting::{Event, Progress};
use primitives::human;
use sd_notify::NotifyState;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Interval of status texts for `systemctl status`.
const STATUS_INTERVAL: Duration = Duration::from_secs(5);
/// Extension of the start and stop timeouts with each message.
const MORE_TIME: Duration = Duration::from_secs(600);

/// Sends messages; a function, so that tests can record them.
type Send = Box<dyn Fn(&[NotifyState<'_>]) + std::marker::Send + Sync>;

/// Messages to the service manager.
pub struct Service {
    send: Send,
    /// Interval of watchdog messages: half the watchdog's timeout.
    beat_interval: Option<Duration>,
    state: Mutex<ServiceState>,
}

#[derive(Default)]
struct ServiceState {
    is_ready: bool,
    is_stopping: bool,
    window: Window,
    status_at: Option<Instant>,
    beat_at: Option<Instant>,
    /// Whether a part of the work reports progress. One that waits for disk space may not.
    is_telling: bool,
}

impl Service {
    /// `None` without a service manager.
    pub fn from_environment() -> Option<Arc<Service>> {
        std::env::var_os("NOTIFY_SOCKET")?;
        let watchdog = sd_notify::watchdog_enabled();
        // An error of a notification does not stop the program.
        let service = Arc::new(Service::new(watchdog, Box::new(|state| drop(sd_notify::notify(state)))));
        if let Some(interval) = service.beat_interval {
            let beating = Arc::downgrade(&service);
            let beat = move || {
                while let Some(service) = beating.upgrade() {
                    service.beat_between();
                    drop(service);
                    std::thread::sleep(interval);
                }
            };
            // Without it the watchdog may kill the program during a long part without progress reports.
            let _ = std::thread::Builder::new().name("watchdog".to_owned()).spawn(beat);
        }
        Some(service)
    }

    /// Sends a watchdog message if no part of the work reports progress.
    fn beat_between(&self) {
        if !self.state().is_telling {
            (self.send)(&[NotifyState::Watchdog]);
        }
    }

    fn new(watchdog: Option<Duration>, send: Send) -> Service {
        Service { send, beat_interval: watchdog.map(|time| time / 2), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, ServiceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles an event of the job.
    pub fn event(&self, event: &Event) {
        match event {
            Event::Ready => self.ready(),
            Event::Progress(progress) => self.progress(progress, Instant::now()),
            Event::Note(text) | Event::Warning(text) => {
                let state = self.state();
                if !state.is_ready || state.is_stopping {
                    (self.send)(&[NotifyState::Status(text), more_time()]);
                }
            }
            Event::Refused { .. } | Event::Tip { .. } => {}
        }
    }

    /// The server answers, including for a data directory without peers.
    pub fn ready(&self) {
        if !std::mem::replace(&mut self.state().is_ready, true) {
            (self.send)(&[NotifyState::Ready]);
        }
    }

    fn progress(&self, progress: &Progress, now: Instant) {
        let mut state = self.state();
        let is_telling = !progress.is_last && progress.state != SessionState::DiskFull;
        // The separate thread may have looked just before, and looks again after an interval.
        let is_handed_over = std::mem::replace(&mut state.is_telling, is_telling) && !is_telling;
        let rates = state.window.add(progress);
        let is_over = |at: Option<Instant>, time: Duration| at.is_none_or(|at| now.duration_since(at) >= time);
        if self.beat_interval.is_some_and(|time| is_handed_over || is_over(state.beat_at, time)) {
            state.beat_at = Some(now);
            (self.send)(&[NotifyState::Watchdog]);
        }
        if is_over(state.status_at, STATUS_INTERVAL) {
            state.status_at = Some(now);
            let to_go = seconds_to_go(progress, &rates).filter(|&seconds| seconds > 0.0);
            let to_go = to_go.map_or_else(String::new, |seconds| format!(", {} to go", human::duration(seconds)));
            let height = |height: primitives::Height| human::count(height.to_u32().into());
            let heights = format!("height {} of {}", height(progress.height), height(progress.height_end));
            let text = match progress.state.is_working() {
                true => format!("{heights}{to_go}"),
                false => format!("{}; {heights}", progress.state.sentence()),
            };
            let mut said = vec![NotifyState::Status(&text)];
            if !state.is_ready || state.is_stopping {
                said.push(more_time());
            }
            (self.send)(&said);
        }
    }

    /// The program stops: connected blocks are committed, which may take minutes.
    pub fn stopping(&self) {
        if !std::mem::replace(&mut self.state().is_stopping, true) {
            let text = "Stopping: what is connected is committed first";
            (self.send)(&[NotifyState::Stopping, NotifyState::Status(text), more_time()]);
        }
    }
}

fn more_time() -> NotifyState<'static> {
    NotifyState::ExtendTimeoutUsec(u32::try_from(MORE_TIME.as_micros()).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::Height;

    /// A service with messages every 20 s, and the messages.
    fn service() -> (Service, Arc<Mutex<Vec<String>>>) {
        let heard = Arc::<Mutex<Vec<String>>>::default();
        let all = heard.clone();
        let send = move |state: &[NotifyState<'_>]| {
            let text: Vec<String> = state.iter().map(ToString::to_string).map(|text| text.trim().to_owned()).collect();
            all.lock().unwrap().push(text.join(" "));
        };
        (Service::new(Some(Duration::from_secs(20)), Box::new(send)), heard)
    }

    /// The thread that waits for disk space tells its state once, and then nothing until there is space.
    #[test]
    fn watchdog_is_told_while_the_disk_is_full() {
        let (service, heard) = service();
        let beats = || {
            heard.lock().unwrap().clear();
            service.beat_between();
            std::mem::take(&mut *heard.lock().unwrap())
        };
        let tell = |state, is_last| {
            heard.lock().unwrap().clear();
            service.event(&Event::Progress(Box::new(Progress { state, is_last, ..Progress::default() })));
            heard.lock().unwrap().iter().any(|text| text == "WATCHDOG=1")
        };
        service.ready();
        assert!(tell(SessionState::Blocks, false), "the first report");
        assert_eq!(beats(), [""; 0], "the job itself says that it lives");
        assert!(tell(SessionState::DiskFull, false), "the separate thread may have looked just before");
        assert_eq!(beats(), ["WATCHDOG=1"]);
        assert!(!tell(SessionState::Blocks, false), "20 s have not passed");
        assert_eq!(beats(), [""; 0], "there is space again");
        assert!(tell(SessionState::Blocks, true));
        assert_eq!(beats(), ["WATCHDOG=1"]);
    }

    #[test]
    fn service_manager_hears_the_life_of_a_job() {
        let (service, heard) = service();
        let take = || std::mem::take(&mut *heard.lock().unwrap());
        service.event(&Event::Note("Loading".to_owned()));
        assert_eq!(take(), ["STATUS=Loading EXTEND_TIMEOUT_USEC=600000000"], "it is not ready yet");
        service.event(&Event::Ready);
        service.event(&Event::Ready);
        assert_eq!(take(), ["READY=1"], "once");
        service.event(&Event::Note("Peer 1".to_owned()));
        assert!(take().is_empty());
        let start = Instant::now();
        let at = |seconds: u32| {
            let (height, height_end) = (Height::new(1_000 * seconds), Height::new(1_000_000));
            let (bytes, bytes_end) = (u64::from(seconds) * 1_000_000, 100_000_000);
            let progress = Progress {
                height,
                height_end,
                bytes,
                bytes_end,
                seconds: seconds.into(),
                state: SessionState::Blocks,
                ..Progress::default()
            };
            service.progress(&progress, start + Duration::from_secs(seconds.into()));
        };
        at(0);
        assert_eq!(take(), ["WATCHDOG=1", "STATUS=height 0 of 1,000,000"]);
        (1..5).for_each(at);
        assert!(take().is_empty());
        at(5);
        assert_eq!(take(), ["STATUS=height 5,000 of 1,000,000, 1 min 35 s to go"]);
        at(10);
        assert_eq!(take()[0], "WATCHDOG=1");
        let waiting = Progress { state: SessionState::NoHeaders, ..Progress::default() };
        service.progress(&waiting, start + Duration::from_secs(16));
        assert_eq!(take(), ["STATUS=No peer has sent headers yet; height 0 of 0"]);
        service.beat_between();
        assert!(take().is_empty(), "the job itself says that it lives");
        service.event(&Event::Progress(Box::new(Progress { is_last: true, ..Progress::default() })));
        take();
        service.beat_between();
        assert_eq!(take(), ["WATCHDOG=1"]);
        service.stopping();
        service.stopping();
        let said = take();
        assert!(said.len() == 1 && said[0].starts_with("STOPPING=1 STATUS=Stopping"), "{said:?}");
    }
}
