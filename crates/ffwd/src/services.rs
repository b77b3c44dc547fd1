//! Who is told of a job beside the terminal: the service manager, and a person's own commands.

use crate::Failure;
use crate::args::service::Notify;
use crate::progress::Reporter;
use crate::settings::{Files, Settings};
use node::options::Event;
use std::sync::Arc;
use watch::notify::{Commands, Notifier};
use watch::service::Service;

impl Files {
    /// The commands of the command line, and those of the files.
    pub(crate) fn commands(&mut self, given: &Notify) -> Commands {
        let mut all = |given: &[String], name: &str| {
            let empty = |command: &String| !command.is_empty();
            given.iter().cloned().chain(self.list(name)).filter(empty).collect()
        };
        Commands {
            block: all(&given.blocknotify, "blocknotify"),
            alert: all(&given.alertnotify, "alertnotify"),
            startup: all(&given.startupnotify, "startupnotify"),
        }
    }
}

/// Those that there are.
pub(crate) struct Services {
    service: Option<Arc<Service>>,
    notifier: Option<Notifier>,
    reporter: Arc<Reporter>,
}

impl Services {
    /// For a job with these settings.
    ///
    /// # Errors
    ///
    /// A thread cannot be started.
    pub(crate) fn start(settings: &Settings, reporter: &Arc<Reporter>) -> Result<Arc<Services>, Failure> {
        let say = reporter.clone();
        let commands = settings.commands.clone();
        let notifier = if commands.is_empty() {
            None
        } else {
            let started = Notifier::start(commands, move |why| say.say(&format!("warning: {why}")));
            Some(started.map_err(|why| Failure::Fault(format!("no thread for -blocknotify and its like: {why}")))?)
        };
        let service = Service::from_environment(settings.options.par);
        Ok(Arc::new(Services { service, notifier, reporter: reporter.clone() }))
    }

    /// The job says something. Called from any thread of it, and waits for no one.
    pub(crate) fn event(&self, event: &Event) {
        if let Some(service) = &self.service {
            service.event(event);
        }
        if let Some(why) = self.notifier.as_ref().and_then(|notifier| notifier.event(event)) {
            self.reporter.say(&format!("warning: {why}"));
        }
    }

    /// The job is to stop.
    pub(crate) fn stopping(&self) {
        if let Some(service) = &self.service {
            service.stopping();
        }
    }
}
