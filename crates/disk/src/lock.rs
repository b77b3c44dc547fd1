//! Core's kind of lock: an fcntl record lock over a whole file, seen by every program that asks.
//!
//! Two traps of such locks are kept away from callers. A process that closes *any* descriptor of a
//! locked file loses its lock, and a process never conflicts with itself. So the files that this
//! process holds are listed here, by device and inode, and none is opened a second time.
//!
//! Absent on purpose: flock (and so `File::lock`), which Core does not see.
//!
//! Source: Bitcoin Core b88bffe, `FileLock::TryLock` (util/fs_helpers), LevelDB `PosixEnv::LockFile`.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::FlockOperation;
use rustix::process::{Flock, FlockType};

use crate::regular::open_regular;

/// The locks that this process holds, by device and inode.
static HELD: Mutex<BTreeSet<(u64, u64)>> = Mutex::new(BTreeSet::new());

/// A lock that is held until this value is dropped, or the process ends.
#[derive(Debug)]
pub struct LockGuard(Option<Held>);

#[derive(Debug)]
struct Held {
    /// Closing it is what frees the lock.
    file: File,
    id: (u64, u64),
}

impl LockGuard {
    /// A guard that guards nothing: for disks that no other program can see.
    pub(super) fn nothing() -> LockGuard {
        LockGuard(None)
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if let Some(Held { file, id }) = self.0.take() {
            let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
            drop(file);
            held.remove(&id);
        }
    }
}

/// Why a lock was not given.
#[derive(Debug)]
pub struct LockError {
    /// The file.
    pub path: PathBuf,
    /// The process that holds it, if another one does and the system tells.
    pub pid: Option<u32>,
    /// Its program's name, if the system tells.
    pub program: Option<String>,
    /// What the system said when no process holds it (a directory that cannot be written to).
    pub source: Option<io::Error>,
}

impl LockError {
    /// Another process, or another part of this one, holds the lock.
    pub fn is_held(&self) -> bool {
        self.source.is_none()
    }
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match (&self.source, self.pid) {
            (Some(source), _) => return write!(f, "cannot lock {path}: {source}"),
            (None, Some(pid)) => write!(f, "{path} is locked by process {pid}")?,
            (None, None) => write!(f, "{path} is locked by a process that the system does not name")?,
        }
        if let Some(program) = &self.program {
            write!(f, " ({program})")?;
        }
        write!(f, ": stop it, or use another directory")
    }
}

impl std::error::Error for LockError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

/// Locks the file at `path`, made (mode 0644) if it is missing.
///
/// # Errors
/// [`LockError`] says who holds it, or why it cannot be opened.
pub fn lock_file(path: &Path) -> Result<LockGuard, LockError> {
    let broken =
        |source: io::Error| LockError { path: path.to_path_buf(), pid: None, program: None, source: Some(source) };
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    // Looked at before it is opened: opening and closing it again would lose our own lock.
    if std::fs::metadata(path).is_ok_and(|known| held.contains(&(known.dev(), known.ino()))) {
        return Err(held_by(path, Some(std::process::id())));
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o644);
    let file = open_regular(path, &mut options).map_err(broken)?;
    match rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => {
            return Err(held_by(path, holder(&file)));
        }
        Err(why) => return Err(broken(why.into())),
    }
    let known = file.metadata().map_err(broken)?;
    let id = (known.dev(), known.ino());
    held.insert(id);
    Ok(LockGuard(Some(Held { file, id })))
}

fn held_by(path: &Path, pid: Option<u32>) -> LockError {
    let program = pid.and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok());
    let program = program.map(|name| name.trim_end().to_owned()).filter(|name| !name.is_empty());
    LockError { path: path.to_path_buf(), pid, program, source: None }
}

/// The process whose lock is in the way; it may have ended since.
fn holder(file: &File) -> Option<u32> {
    let ask = Flock::from(FlockType::WriteLock);
    let found = rustix::process::fcntl_getlk(file, &ask).ok().flatten()?;
    u32::try_from(found.pid?.as_raw_pid()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_lock_is_refused_until_the_first_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let guard = lock_file(&path).unwrap();
        let why = lock_file(&path).unwrap_err();
        assert!(why.is_held());
        assert_eq!(why.pid, Some(std::process::id()));
        assert!(why.to_string().contains("is locked by process"), "{why}");
        drop(guard);
        drop(lock_file(&path).unwrap());
        let why = lock_file(&dir.path().join("not/there")).unwrap_err();
        assert!(!why.is_held());
    }

    /// Another program must be refused, and named; perl is on every machine that has git.
    #[test]
    fn lock_held_by_another_program_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let script = "use Fcntl qw(:DEFAULT); sysopen(F, $ARGV[0], O_RDWR|O_CREAT) or die; \
             my $l = pack('s s x4 q q l x4', F_WRLCK, 0, 0, 0, 0); fcntl(F, F_SETLK, $l) or die; \
             $| = 1; print \"ready\\n\"; <STDIN>;";
        let child = std::process::Command::new("perl")
            .args(["-e", script])
            .arg(&path)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            println!("skipped: no perl to hold a lock");
            return;
        };
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
        assert_eq!(line, "ready\n");
        let why = lock_file(&path).unwrap_err();
        assert_eq!(why.pid, Some(child.id()));
        assert_eq!(why.program.as_deref(), Some("perl"));
        drop(child.stdin.take());
        child.wait().unwrap();
        drop(lock_file(&path).unwrap());
    }
}
