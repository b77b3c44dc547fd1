//! Core's kind of lock: an fcntl record lock over a whole file, which every program can see; on Windows its own kind.
//!
//! This hides two traps of fcntl locks. A process that closes *any* descriptor of a locked file loses its lock, and a
//! process never conflicts with itself. So the locked files of this process are listed here, by device and inode, and
//! are never opened a second time.
//!
//! Absent on purpose: flock (and so `File::lock` of Unix), which Core does not see.
//!
//! Source: Bitcoin Core b88bffe, `FileLock::TryLock` (util/fs), LevelDB `PosixEnv::LockFile`.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::regular::open_regular;
use crate::system::{self, FileId};

/// The locks that this process holds.
static HELD: Mutex<BTreeSet<FileId>> = Mutex::new(BTreeSet::new());

/// A lock that is held until this value is dropped, or the process ends.
#[derive(Debug)]
pub struct LockGuard(Guarded);

#[derive(Debug)]
enum Guarded {
    /// A file of this machine.
    Machine(Option<Held>),
    /// A file of a disk that no other program sees: it is open as long as this lives.
    #[cfg(any(test, feature = "testing"))]
    Own { file: std::sync::Arc<dyn crate::DiskFile> },
}

#[derive(Debug)]
struct Held {
    /// Closing it releases the lock.
    file: File,
    id: FileId,
}

impl LockGuard {
    /// Whether `path`, which was locked, still leads to the locked file: it was not removed or replaced.
    pub fn is_at(&self, path: &Path) -> bool {
        match &self.0 {
            Guarded::Machine(held) => {
                held.as_ref().is_some_and(|held| system::id_at(path).is_ok_and(|there| there == held.id))
            }
            #[cfg(any(test, feature = "testing"))]
            Guarded::Own { file } => file.is_in_place().unwrap_or(false),
        }
    }
}

#[cfg(any(test, feature = "testing"))]
impl LockGuard {
    /// A guard that only keeps a file open: for disks that no other program can see.
    pub(super) fn of(file: std::sync::Arc<dyn crate::DiskFile>) -> LockGuard {
        LockGuard(Guarded::Own { file })
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if let Guarded::Machine(held) = &mut self.0
            && let Some(Held { file, id }) = held.take()
        {
            let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
            drop(file);
            held.remove(&id);
        }
    }
}

/// Why a lock could not be taken.
#[derive(Debug)]
pub struct LockError {
    /// The file.
    pub path: PathBuf,
    /// The process that holds it, if another one does and the system reports it.
    pub pid: Option<u32>,
    /// The name of its program, if the system reports it.
    pub program: Option<String>,
    /// The system's error if no process holds the lock (such as a directory that cannot be written to).
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

/// Locks the file at `path`, which is created (mode 0644) if it is missing.
///
/// # Errors
/// [`LockError`] with the holder, or with the reason why the file cannot be opened.
pub fn lock_file(path: &Path) -> Result<LockGuard, LockError> {
    let broken =
        |source: io::Error| LockError { path: path.to_path_buf(), pid: None, program: None, source: Some(source) };
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    // Checked before the file is opened: opening and closing it again would lose our own lock.
    if system::id_at(path).is_ok_and(|known| held.contains(&known)) {
        return Err(held_by(path, Some(std::process::id())));
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let file = open_regular(path, system::readable_by_all(&mut options)).map_err(broken)?;
    if !system::try_lock(&file).map_err(without_locks).map_err(broken)? {
        return Err(held_by(path, system::lock_holder(&file)));
    }
    let id = system::id_of(&file, path).map_err(broken)?;
    held.insert(id.clone());
    Ok(LockGuard(Guarded::Machine(Some(Held { file, id }))))
}

/// Explains that a file system has no locks (ENOLCK of NFS without its lock service, ENOSYS or EOPNOTSUPP of others).
/// Core and LevelDB refuse such a directory too: two programs could use it at the same time.
fn without_locks(why: io::Error) -> io::Error {
    if !system::means_no_locks(&why) {
        return why;
    }
    io::Error::new(io::ErrorKind::Unsupported, format!("{why}: the file system has no file locks"))
}

/// The holder of the lock on a file: see [`crate::Disk::lock_holder`].
///
/// A program with only read permission can check it too. The file is not opened if this process holds the lock: closing
/// it again would lose that.
pub(crate) fn holder_of(path: &Path) -> Option<LockError> {
    let held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    if system::id_at(path).is_ok_and(|known| held.contains(&known)) {
        return Some(held_by(path, Some(std::process::id())));
    }
    let file = open_regular(path, OpenOptions::new().read(true)).ok()?;
    system::lock_holder(&file).map(|pid| held_by(path, Some(pid)))
}

fn held_by(path: &Path, pid: Option<u32>) -> LockError {
    LockError { path: path.to_path_buf(), pid, program: pid.and_then(program_of), source: None }
}

/// The name of a process's program, from its command line, because Core names its main thread `b-init`, `b-shutoff` and
/// so on.
fn program_of(pid: u32) -> Option<String> {
    let read = |what: &str| std::fs::read(format!("/proc/{pid}/{what}")).ok();
    let line = read("cmdline").unwrap_or_default();
    let first = line.split(|byte| *byte == 0).next().unwrap_or_default();
    let named = first.rsplit(|byte| *byte == b'/').next().filter(|name| !name.is_empty()).map(<[u8]>::to_vec);
    let named = named.or_else(|| read("comm"))?;
    // It is printed on a terminal, and any program can choose it.
    let shown = String::from_utf8_lossy(&named).chars().filter(|char| !char.is_control()).take(64).collect::<String>();
    Some(shown).filter(|name| !name.is_empty())
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
        assert_eq!(holder_of(&path).unwrap().pid, Some(std::process::id()));
        assert!(guard.is_at(&path) && !guard.is_at(dir.path()));
        assert!(holder_of(&dir.path().join("none")).is_none());
        drop(guard);
        assert!(holder_of(&path).is_none());
        drop(lock_file(&path).unwrap());
        let why = lock_file(&dir.path().join("not/there")).unwrap_err();
        assert!(!why.is_held());
    }

    #[test]
    fn a_file_system_without_locks_is_named() {
        for (number, is_named) in [(37, true), (38, true), (95, true), (5, false)] {
            let why = without_locks(io::Error::from_raw_os_error(number)).to_string();
            assert_eq!(why.contains("no file locks"), is_named, "{why}");
        }
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
        let holder = holder_of(&path).unwrap();
        assert_eq!((holder.pid, holder.program.as_deref()), (Some(child.id()), Some("perl")));
        assert!(lock_file(&path).unwrap_err().is_held(), "looking took no lock away");
        drop(child.stdin.take());
        child.wait().unwrap();
        drop(lock_file(&path).unwrap());
    }
}
