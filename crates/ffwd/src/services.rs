//! Reports a job's events outside of the terminal: to the service manager, and to the user's notification
//! commands.

use crate::Failure;
use crate::args::service::{Notify, OwnFiles};
use crate::progress::Reporter;
use crate::settings::{Files, Settings};
use node::reporting::Event;
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::sync::Arc;
use watch::notify::{Commands, Notifier};
use watch::service::Service;

impl Files {
    /// The notification commands of the command line and the files.
    pub(crate) fn commands(&mut self, given: &Notify) -> Commands {
        let mut all = |name: &str| {
            let is_command = |command: &String| !command.is_empty();
            self.texts(given, name).into_iter().filter(is_command).collect()
        };
        Commands {
            block: all("blocknotify"),
            alert: all("alertnotify"),
            startup: all("startupnotify"),
            shutdown: all("shutdownnotify"),
        }
    }
}

impl Settings {
    /// Applies the program's own files, such as the log, of the command line or the files: for a job that
    /// replaces bitcoind.
    ///
    /// # Errors
    ///
    /// The log cannot be opened.
    pub(crate) fn own_files(&mut self, given: &OwnFiles) -> Result<(), Failure> {
        let mut file = |name| self.files.option(given, name, |setting| Ok(setting.path()));
        let off = |path: PathBuf| if path.as_os_str() == "0" { PathBuf::new() } else { path };
        let log = file("debuglogfile")?.map(off);
        let pid = file("pid")?.map(off);
        let pid = pid.unwrap_or_else(|| PathBuf::from(node::datadir::pid_file::FILE));
        let pid = Some(pid).filter(|path| !path.as_os_str().is_empty());
        let settings = self.files.conf.settings_file.take();
        let first_lines = self.files.conf.log_lines();
        self.options.own_files =
            node::options::OwnFiles { log, pid, settings, first_lines, ..self.options.own_files.clone() };
        let Some(path) = self.options.log_path() else { return Ok(()) };
        // A log of its own name is made with its directory. A pipe that is opened and closed again loses its reader.
        let is_made_later = self.options.own_files.log.is_none() && path.symlink_metadata().is_err();
        if is_made_later || matches!(self.options.disk.is_pipe(&path), Ok(true)) {
            return Ok(());
        }
        // The job that takes the locks creates the network's directory.
        let is_early =
            path.parent().is_some_and(|dir| dir.ends_with(self.options.params.chain.net_dir()) && !dir.exists());
        let opened = OpenOptions::new().append(true).create(true).open(&path);
        opened.map(drop).or_else(|why| if is_early { Ok(()) } else { Err(why) }).map_err(|why| {
            let why = format!("Could not open debug log file {}: {why}", path.display());
            Failure::fault(why, "Make it writable for this user (another one may have run the program), or give --debuglogfile another file")
        })
    }
}

/// The receivers of events.
pub(crate) struct Services {
    service: Option<Arc<Service>>,
    notifier: Option<Notifier>,
    reporter: Arc<Reporter>,
}

impl Services {
    /// Starts the receivers for a job with these settings.
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
            Some(started.map_err(|why| {
                Failure::fault(format!("no thread for notification commands: {why}"), crate::limits::THREADS)
            })?)
        };
        let service = Service::from_environment();
        Ok(Arc::new(Services { service, notifier, reporter: reporter.clone() }))
    }

    /// Forwards an event of the job. Called from any of its threads; does not block.
    pub(crate) fn event(&self, event: &Event) {
        if let Some(service) = &self.service {
            service.event(event);
        }
        if let Some(why) = self.notifier.as_ref().and_then(|notifier| notifier.event(event)) {
            self.reporter.say(&format!("warning: {why}"));
        }
    }

    /// Called when the program ends: waits for the commands that are running.
    pub(crate) fn ended(&self) {
        let failed = self.notifier.as_ref().map(Notifier::shut_down).unwrap_or_default();
        failed.into_iter().for_each(|why| self.reporter.say(&format!("warning: {why}")));
    }

    /// Called when the job is asked to stop.
    pub(crate) fn stopping(&self) {
        self.notifier.iter().for_each(Notifier::shutting_down);
        if let Some(service) = &self.service {
            service.stopping();
        }
    }
}
