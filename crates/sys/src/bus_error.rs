//! Turns SIGBUS in a mapped file into an error message that names the file, and exit code 1.
//!
//! If the disk fails to read a mapped page, or the page is past the end of a truncated file, no call returns an error:
//! the reading thread gets the signal, which by default ends the process silently. Here maps are registered in a fixed
//! table with their paths; the handler looks up the address, and prints what could not be read and what helps.
//!
//! ```text
//! slot   start, 0: free, 1: being filled | end | bytes of the path | the path, its last 256 bytes
//! ```
//!
//! The handler takes no lock and allocates nothing: it reads atomics and calls only functions that POSIX lists as
//! async-signal-safe. It runs on the thread's stack, not on an alternate one, which may be too small for it: a stack
//! overflow is another signal. Absent on purpose: continuing. The data cannot be read, and the data on disk must
//! survive a crash.

use std::ffi::{CStr, c_int, c_void};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Maximum number of registered maps. A UTXO set in tables of 2 MiB has some 6,000; maps beyond the limit have no name.
const SLOTS: usize = 16_384;
/// Maximum bytes of a path that are stored, from its end.
const PATH_BYTES_MAX: usize = 256;
const PATH_WORDS: usize = PATH_BYTES_MAX / 8;
/// Maximum bytes of the message without the path.
const TEXT_BYTES_MAX: usize = 1024;
/// Exit code of the process after such an error.
const EXIT_CODE: c_int = 1;

/// In place of a start: there is no map.
const FREE: usize = 0;
/// In place of a start: a map is being registered or removed. No map starts at such an address.
const CLAIMED: usize = 1;

struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
    path_bytes: AtomicUsize,
    path: [AtomicU64; PATH_WORDS],
}

static TABLE: [Slot; SLOTS] = [const {
    Slot {
        start: AtomicUsize::new(FREE),
        end: AtomicUsize::new(0),
        path_bytes: AtomicUsize::new(0),
        path: [const { AtomicU64::new(0) }; PATH_WORDS],
    }
}; SLOTS];
/// Where the search for a free slot starts.
static HINT: AtomicUsize = AtomicUsize::new(0);
static ADVICE: OnceLock<&str> = OnceLock::new();
static IS_SAID: AtomicBool = AtomicBool::new(false);

/// A registered map. Drop it before the map.
#[derive(Debug)]
pub(crate) struct Named(&'static Slot);

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Slot({:#x})", self.start.load(Relaxed))
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        self.0.start.store(FREE, Release);
    }
}

/// Registers a map; `None` if all slots are taken.
pub(crate) fn name(bytes: &[u8], path: &Path) -> Option<Named> {
    let start = bytes.as_ptr().addr();
    let from = HINT.fetch_add(1, Relaxed);
    let slot = (0..SLOTS).map(|step| &TABLE[from.wrapping_add(step) % SLOTS]).find(|slot| {
        let is_free = slot.start.load(Relaxed) == FREE;
        is_free && slot.start.compare_exchange(FREE, CLAIMED, Acquire, Relaxed).is_ok()
    })?;
    // A thread that reads a word of this path also sees the slot as taken.
    std::sync::atomic::fence(Release);
    let path = path.as_os_str().as_bytes();
    let tail = &path[path.len().saturating_sub(PATH_BYTES_MAX)..];
    for (word, bytes) in slot.path.iter().zip(tail.chunks(8)) {
        let mut padded = [0; 8];
        padded[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_ne_bytes(padded), Relaxed);
    }
    slot.path_bytes.store(path.len(), Relaxed);
    slot.end.store(start.saturating_add(bytes.len()), Relaxed);
    slot.start.store(start, Release);
    Some(Named(slot))
}

/// A place in a mapped file.
struct Found {
    offset: usize,
    /// The stored part of the path, and a zero.
    path: [u8; PATH_BYTES_MAX + 1],
    /// Number of stored bytes.
    kept: usize,
    /// The path is longer.
    is_cut: bool,
}

/// The file mapped at `address`. A thread that is reading there holds its map, so the slot does not change meanwhile. A
/// slot that another thread reuses meanwhile is detected by its changed start.
fn find(address: usize) -> Option<Found> {
    TABLE.iter().find_map(|slot| {
        let start = slot.start.load(Acquire);
        if start <= CLAIMED || address < start || address >= slot.end.load(Relaxed) {
            return None;
        }
        let bytes = slot.path_bytes.load(Relaxed);
        let mut path = [0; PATH_BYTES_MAX + 1];
        for (word, out) in slot.path.iter().zip(path.chunks_exact_mut(8)) {
            out.copy_from_slice(&word.load(Relaxed).to_ne_bytes());
        }
        std::sync::atomic::fence(Acquire);
        if slot.start.load(Relaxed) != start {
            return None;
        }
        let kept = bytes.min(PATH_BYTES_MAX);
        path[kept] = 0;
        Some(Found { offset: address - start, path, kept, is_cut: bytes > kept })
    })
}

impl Found {
    /// Length of the file with this path, if the path is stored whole and exists.
    fn file_bytes(&self) -> Option<u64> {
        let path = CStr::from_bytes_until_nul(&self.path).ok().filter(|_| !self.is_cut)?;
        let mut stat = std::mem::MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: a path that ends with a zero, and room for one `stat`, in which all zeros are a value too.
        let stat = unsafe { (libc::stat(path.as_ptr(), stat.as_mut_ptr()) == 0).then(|| stat.assume_init())? };
        u64::try_from(stat.st_size).ok()
    }

    /// Writes the message; returns its length.
    fn message_into(&self, message: &mut [u8; TEXT_BYTES_MAX + PATH_BYTES_MAX], file_bytes: Option<u64>) -> usize {
        let room = message.len();
        let mut rest = &mut message[..];
        // A message that does not fit is truncated.
        let _ = rest.write_all(if self.is_cut { b"Error: ..." } else { b"Error: " });
        let _ = rest.write_all(&self.path[..self.kept]);
        let _ = write!(rest, " at byte {}: wanted to read it, found ", self.offset);
        let _ = match file_bytes {
            Some(bytes) if bytes <= self.offset as u64 => {
                write!(rest, "a file of {bytes} bytes: it was cut short while it was in use")
            }
            _ => write!(rest, "an I/O error of the drive"),
        };
        let _ = writeln!(rest, " (SIGBUS). {}", ADVICE.get().copied().unwrap_or_default());
        room - rest.len()
    }
}

extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: the system gives a handler with SA_SIGINFO a valid `info`, and of this signal it has an address.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    // Codes up to 0 are those of signals that a process sent.
    let found = if code > 0 { find(address) } else { None };
    let Some(found) = found else {
        // SAFETY: both calls are async-signal-safe. The signal is raised again when this returns, and ends the process.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
        return;
    };
    if IS_SAID.swap(true, AcqRel) {
        loop {
            // SAFETY: async-signal-safe. The thread that came first ends the process.
            unsafe { libc::pause() };
        }
    }
    let mut message = [0; TEXT_BYTES_MAX + PATH_BYTES_MAX];
    let length = found.message_into(&mut message, found.file_bytes());
    // SAFETY: async-signal-safe calls (isatty is tcgetattr), a buffer of `length` bytes; standard error may be closed,
    // which is ignored. Destructors and exit handlers could need what a thread holds.
    unsafe {
        if libc::isatty(libc::STDERR_FILENO) == 1 {
            libc::write(libc::STDERR_FILENO, c"\n".as_ptr().cast(), 1); // On a line below the progress bar.
        }
        libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), length);
        libc::_exit(EXIT_CODE)
    }
}

/// Installs the handler: from now on an unreadable mapped page ends the process with exit code 1 and a line on standard
/// error that names the file, the offset, and `advice`. SIGBUS from anywhere else has the default effect, without
/// Rust's handler: it ends the process.
pub fn end_with_a_message(advice: &'static str) {
    let _ = ADVICE.set(advice);
    // SAFETY: all zeros are a value of `sigaction`; the handler has the signature that SA_SIGINFO wants, and is
    // async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
    }
}

#[cfg(all(test, not(miri)))] // Miri has no file maps and no signals.
mod tests {
    use super::*;
    use crate::map::map;
    use std::fs::File;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Output};

    /// Tells the child which case it is, and where.
    const CASE: &str = "FFWD_BUS_ERROR_CASE";
    const DIR: &str = "FFWD_BUS_ERROR_DIR";
    /// Whole pages on every machine: some kernels for ARM have pages of 64 KiB.
    const PAGE: usize = 64 << 10;

    fn file_of(path: &Path, pages: u64) -> File {
        let file = File::options().read(true).write(true).create(true).truncate(true).open(path).unwrap();
        file.set_len(pages * PAGE as u64).unwrap();
        file
    }

    /// Runs in a process of its own, which does not come back from it.
    #[test]
    fn child() {
        let Ok(case) = std::env::var(CASE) else { return };
        let dir = std::env::var_os(DIR).unwrap();
        let (dir, bytes) = (Path::new(&dir), 4 * PAGE as u64);
        end_with_a_message("Look at the drive.");
        let others: Vec<_> = (0..20)
            .map(|n| {
                let path = dir.join(format!("other{n}"));
                map(&file_of(&path, 4), bytes, &path).unwrap()
            })
            .collect();
        // Some come and go before and after.
        let others: Vec<_> = others.into_iter().step_by(2).collect();
        let path =
            if case == "a long path" { dir.join("d".repeat(200)).join("t".repeat(200)) } else { dir.join("table") };
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let file = file_of(&path, 4);
        let mapped = map(&file, bytes, &path).unwrap();
        assert_eq!(mapped[3 * PAGE], 0);
        match &*case {
            "an I/O error" => {
                file.set_len(PAGE as u64).unwrap();
                file_of(&dir.join("new"), 4);
                std::fs::rename(dir.join("new"), &path).unwrap();
            }
            "removed" => {
                file.set_len(0).unwrap();
                std::fs::remove_file(&path).unwrap();
            }
            "sent" => {
                // SAFETY: a signal to this process itself.
                unsafe { libc::raise(libc::SIGBUS) };
            }
            "without a name" => {
                file.set_len(0).unwrap();
                drop(others);
                TABLE.iter().for_each(|slot| slot.start.store(FREE, Relaxed));
            }
            _ => file.set_len(PAGE as u64).unwrap(),
        }
        let sum: u64 = std::thread::scope(|scope| {
            let read = || mapped.iter().skip(2 * PAGE + 7).map(|&byte| u64::from(byte)).sum::<u64>();
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(read)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        panic!("{sum} was read of {} bytes", mapped.len());
    }

    fn run(case: &str) -> (Output, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "bus_error::tests::child", "--nocapture"]).env(CASE, case).env(DIR, dir.path());
        (child.output().unwrap(), dir)
    }

    #[test]
    fn bus_error_names_the_file_and_exits_with_1() {
        for (case, want) in [
            (
                "cut",
                "table at byte 131079: wanted to read it, found a file of 65536 bytes: it was cut short while it was in use",
            ),
            ("an I/O error", "table at byte 131079: wanted to read it, found an I/O error of the drive"),
            ("removed", "table at byte 131079: wanted to read it, found an I/O error of the drive"),
            ("a long path", "tttttt at byte 131079: wanted to read it, found an I/O error of the drive"),
        ] {
            let (output, dir) = run(case);
            let text = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{case}: {output:?}");
            assert!(text.contains(&format!("{want} (SIGBUS). Look at the drive.\n")), "{case}: {text}");
            assert_eq!(text.matches("Error: ").count(), 1, "{case}: several threads fail, one says so: {text}");
            let start = if case == "a long path" {
                "Error: ...".to_owned()
            } else {
                format!("Error: {}/", dir.path().display())
            };
            assert!(text.contains(&start), "{case}: {text}");
        }
    }

    #[test]
    fn bus_error_that_is_not_at_a_known_map_ends_by_the_signal() {
        for case in ["sent", "without a name"] {
            let (output, _dir) = run(case);
            assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{case}: {output:?}");
        }
    }

    #[test]
    fn slots_are_used_again() {
        let bytes = [0; 100];
        for round in 0..2 * SLOTS {
            let path = format!("/a/path/{round}");
            let named = name(&bytes[round % 50..], Path::new(&path)).unwrap();
            if round % 999 == 0 {
                let found = find(bytes.as_ptr().addr() + 60).unwrap();
                assert_eq!((found.offset, &found.path[..found.kept]), (60 - round % 50, path.as_bytes()));
            }
            drop(named);
        }
        assert!(find(bytes.as_ptr().addr() + 60).is_none());
    }
}
