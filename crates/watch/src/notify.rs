//! Notification commands of the user: `-blocknotify`, `-alertnotify`, `-startupnotify`, `-shutdownnotify`.
//!
//! They run in sequence in a separate thread, by `sh -c`, as in Core; the job never waits for them. Startup and shutdown
//! commands run in parallel, and the program waits for those of the shutdown. The output of all goes to the program's
//! standard error, because its standard output is for results.
//!
//! Source: Bitcoin Core b88bffe, init.cpp (`-blocknotify`, `StartupNotify`, `ShutdownNotify`),
//! node/kernel_notifications.cpp (`AlertNotify`), common/system.cpp (`runCommand`).

use node::reporting::Event;
use primitives::BlockHash;
use std::process::{Command, Stdio};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Maximum number of waiting commands: further ones are skipped, and reported.
const WAITING_MAX: usize = 256;
/// Characters of a message that are passed to a shell, in addition to letters and digits. Source: Bitcoin Core
/// b88bffe, util/strencodings.cpp, `SAFE_CHARS_DEFAULT`.
const SAFE: &str = " .,;-_/:?@()";

/// The commands, as configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commands {
    /// `-blocknotify`: when the best block changes, after the initial block download; `%s` is its hash.
    pub block: Vec<String>,
    /// `-alertnotify`: on a warning; `%s` is the message.
    pub alert: Vec<String>,
    /// `-startupnotify`: when the program is ready.
    pub startup: Vec<String>,
    /// `-shutdownnotify`: when the program ends; it waits for them.
    pub shutdown: Vec<String>,
}

impl Commands {
    /// Whether there are no commands.
    pub fn is_empty(&self) -> bool {
        [&self.block, &self.alert, &self.startup, &self.shutdown].iter().all(|commands| commands.is_empty())
    }
}

/// A started shutdown command: a thread that returns its error, or the command itself if no thread could be started.
type Begun = Result<JoinHandle<Option<String>>, String>;

/// Runs the commands.
pub struct Notifier {
    commands: Commands,
    sender: SyncSender<String>,
    say: Arc<dyn Fn(String) + Send + Sync>,
    /// The shutdown commands, if they were started.
    shutdown: Mutex<Option<Vec<Begun>>>,
}

impl Notifier {
    /// Starts the thread that runs the commands. `say` gets a message for each command that fails or is skipped.
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub fn start(commands: Commands, say: impl Fn(String) + Send + Sync + 'static) -> std::io::Result<Notifier> {
        let say: Arc<dyn Fn(String) + Send + Sync> = Arc::new(say);
        let say_here = say.clone();
        let (sender, waiting) = sync_channel::<String>(WAITING_MAX);
        std::thread::Builder::new().name("notify".to_owned()).spawn(move || {
            for command in waiting {
                if let Some(why) = run(&command) {
                    say_here(why);
                }
            }
        })?;
        Ok(Notifier { commands, sender, say, shutdown: Mutex::default() })
    }

    /// The program ends: starts the shutdown commands, all in parallel, once.
    pub fn shutting_down(&self) {
        let mut running = self.shutdown.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_none() {
            // If no thread can be started, the command runs when it is waited for.
            let begin = |command: &String| {
                let text = command.clone();
                let begun = std::thread::Builder::new().name("shutdownnotify".to_owned()).spawn(move || run(&text));
                begun.map_err(|_| command.clone())
            };
            *running = Some(self.commands.shutdown.iter().map(begin).collect());
        }
    }

    /// Waits for the shutdown commands; returns the errors of those that failed.
    pub fn shut_down(&self) -> Vec<String> {
        self.shutting_down();
        let running = self.shutdown.lock().unwrap_or_else(PoisonError::into_inner).replace(Vec::new());
        let end = |begun: Begun| match begun {
            Ok(thread) => thread.join().ok().flatten(),
            Err(command) => run(&command),
        };
        running.into_iter().flatten().filter_map(end).collect()
    }

    /// Handles an event of the job; returns a message about skipped commands.
    pub fn event(&self, event: &Event) -> Option<String> {
        let commands: Vec<String> = match event {
            Event::Tip { hash, initial_download: false, .. } => self.of_block(hash),
            Event::Warning(text) => self.of_alert(text),
            Event::Ready => {
                self.commands.startup.iter().for_each(|command| self.start_up(command.clone()));
                return None;
            }
            _ => return None,
        };
        let left_out = |command: &String| matches!(self.sender.try_send(command.clone()), Err(TrySendError::Full(_)));
        let count = commands.iter().filter(|command| left_out(command)).count();
        (count > 0).then(|| format!("{WAITING_MAX} commands wait to be run: {} is left out", commands.join("; ")))
    }

    /// Runs a startup command, which may never end, beside all others.
    fn start_up(&self, command: String) {
        let say = self.say.clone();
        let begin = move || run(&command).into_iter().for_each(|why| say(why));
        let begun = std::thread::Builder::new().name("startupnotify".to_owned()).spawn(begin);
        begun.err().into_iter().for_each(|why| (self.say)(format!("no thread for a command of -startupnotify: {why}")));
    }

    fn of_block(&self, hash: &BlockHash) -> Vec<String> {
        self.commands.block.iter().map(|command| command.replace("%s", &hash.to_string())).collect()
    }

    fn of_alert(&self, message: &str) -> Vec<String> {
        let safe: String = message.chars().filter(|c| c.is_ascii_alphanumeric() || SAFE.contains(*c)).collect();
        self.commands.alert.iter().map(|command| command.replace("%s", &format!("'{safe}'"))).collect()
    }
}

/// Runs a command and waits for it; returns why it failed.
fn run(command: &str) -> Option<String> {
    match Command::new("sh").arg("-c").arg(command).stdin(Stdio::null()).stdout(std::io::stderr()).status() {
        Ok(status) if status.success() => None,
        Ok(status) => Some(format!("runCommand error: system({command}) returned {status}")),
        Err(why) => Some(format!("runCommand error: system({command}): {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::Height;
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    #[test]
    fn commands_run_in_order_with_what_happened() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let to = |name: &str| vec![format!("echo {name} %s >> {}", out.display())];
        let commands =
            Commands { block: to("block"), alert: to("alert"), startup: Vec::new(), shutdown: to("shutdown") };
        let (failed, failures) = channel();
        let notifier = Notifier::start(commands, move |why| drop(failed.send(why))).unwrap();
        let tip = |initial_download| Event::Tip { height: Height::new(1), hash: BlockHash::ZERO, initial_download };
        notifier.event(&Event::Ready);
        notifier.event(&tip(true));
        notifier.event(&tip(false));
        notifier.event(&Event::Warning("it's `odd`; $(rm) | done".to_owned()));
        notifier.event(&Event::Note("a note".to_owned()));
        let want = format!("block {}\nalert its odd; (rm)  done\n", BlockHash::ZERO);
        let end = Instant::now() + Duration::from_secs(20);
        while std::fs::read_to_string(&out).unwrap_or_default() != want && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(std::fs::read_to_string(&out).unwrap(), want);
        notifier.shutting_down();
        assert_eq!(notifier.shut_down(), Vec::<String>::new());
        assert_eq!(std::fs::read_to_string(&out).unwrap(), format!("{want}shutdown %s\n"), "once, and waited for");
        drop(notifier);
        assert_eq!(failures.recv().ok(), None);
    }

    #[test]
    fn a_command_that_fails_is_named_and_one_that_hangs_is_not_waited_for() {
        let (failed, failures) = channel();
        let commands = Commands {
            startup: vec!["sleep 9".to_owned(), "exit 3".to_owned()],
            block: vec!["sleep 1".to_owned()],
            ..Commands::default()
        };
        let notifier = Notifier::start(commands, move |why| drop(failed.send(why))).unwrap();
        notifier.event(&Event::Ready);
        let why = failures.recv_timeout(Duration::from_secs(20)).unwrap();
        assert!(why.contains("exit 3") && why.contains("3"), "{why}");
        let begun = Instant::now();
        let tip = Event::Tip { height: Height::new(1), hash: BlockHash::ZERO, initial_download: false };
        let left_out = (0..WAITING_MAX + 10).filter(|_| notifier.event(&tip).is_some()).count();
        assert!((8..=10).contains(&left_out), "{left_out}");
        assert!(begun.elapsed() < Duration::from_secs(1), "the job does not wait");
    }
}
