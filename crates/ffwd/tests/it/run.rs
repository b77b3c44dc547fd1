//! Running the command.

use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What a run left.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    /// The exit code; none when a signal ended it.
    pub(crate) code: Option<i32>,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) err: String,
}

impl Ran {
    /// The JSON object on the last line of standard output.
    pub(crate) fn json(&self) -> Value {
        let line = self.out.lines().last().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|why| panic!("no JSON ({why}): {self:?}"))
    }

    /// The same, of a run that must have ended well.
    pub(crate) fn good(&self) -> Value {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.json()
    }
}

/// The command with these words, `@` standing for `directory`, and nothing of the user's.
pub(crate) fn command(directory: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ffwd"));
    let directory = directory.to_str().expect("temporary directories have plain names");
    command.args(line.split_whitespace().map(|word| word.replace('@', directory)));
    command.env("HOME", directory).env_remove("XDG_CONFIG_HOME").stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub(crate) fn run(directory: &Path, line: &str) -> Ran {
    let output = command(directory, line).output().expect("the command starts");
    let ran = Ran {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).expect("UTF-8"),
        err: String::from_utf8(output.stderr).expect("UTF-8"),
    };
    assert!(!ran.err.contains("panicked"), "{line}: {ran:?}");
    ran
}

/// A run that goes on; it does not outlive its test.
pub(crate) struct Running(Option<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Running {
    /// The process.
    pub(crate) fn child(&mut self) -> &mut Child {
        self.0.as_mut().expect("it is taken at the end only")
    }

    /// Whether it has not ended.
    pub(crate) fn goes_on(&mut self) -> bool {
        self.child().try_wait().unwrap().is_none()
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&mut self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.child().id().to_string()).status();
        assert!(sent.expect("there is a kill").success(), "the process is there to be signalled");
    }

    /// Waits for its end.
    pub(crate) fn ended(mut self) -> Ran {
        let output = self.0.take().expect("see child").wait_with_output().unwrap();
        let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        Ran { code: output.status.code(), out, err }
    }
}

/// Starts it, with both outputs to be read.
pub(crate) fn start(directory: &Path, line: &str) -> Running {
    Running(Some(
        command(directory, line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts"),
    ))
}

/// Whether tests that take minutes are wanted.
pub(crate) fn slow() -> bool {
    testkit::is_slow()
}
