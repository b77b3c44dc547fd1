//! Files that another program reads, for example from an object store. It listens on a Unix socket, and serves ranges
//! of files.
//!
//! ```text
//! path       u16 | bytes, relative to the root, parts joined by /
//! asked      'M' | path                          length and kind
//!            'L' | path                          names in a directory
//!            'R' | path | offset u64 | bytes u32     at most READ_BYTES_MAX
//! answer     0 | M: is a directory u8 | length u64
//!                L: count u32 | of each: is a directory u8 | name u16 | bytes
//!                R: bytes u32, fewer only at the end of the file | bytes
//!            1: not found
//!            2: u16 | why, in words
//! ```
//!
//! Numbers are little endian. A connection carries one request at a time; each thread that waits for an answer has its
//! own connection. Absent on purpose: writing, locks, maps. Files that would be mapped on a real disk are read into
//! memory here.

use super::{Bytes, DirEntry, Disk, DiskError, DiskFile, DiskResult, LockError, LockGuard, Metadata};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Maximum size of an answer in bytes.
const READ_BYTES_MAX: usize = 8 << 20;
/// Maximum number of names in a directory.
const NAMES_MAX: u32 = 1 << 20;
/// Timeout for an answer: clients of object stores give up earlier.
const PATIENCE: Duration = Duration::from_secs(600);
/// Maximum number of idle connections kept for later requests.
const IDLE_MAX: usize = 64;

/// The files below a directory, read through the program at a socket. Nothing can be written.
#[derive(Debug)]
pub struct ServedDisk {
    link: Arc<Link>,
}

impl ServedDisk {
    /// The files that `socket` serves, which appear as those below `root`. Sends no request yet.
    pub fn new(socket: &Path, root: &Path) -> ServedDisk {
        let socket = socket.to_path_buf();
        let root = root.to_path_buf();
        let idle = Mutex::new(Vec::new());
        ServedDisk { link: Arc::new(Link { socket, root, idle }) }
    }

    /// The disk as a trait object.
    pub fn shared(self) -> Arc<dyn Disk> {
        Arc::new(self)
    }
}

#[derive(Debug)]
struct Link {
    socket: PathBuf,
    root: PathBuf,
    idle: Mutex<Vec<UnixStream>>,
}

/// A request, and the kind of answer to expect.
#[derive(Clone, Copy)]
enum Ask {
    Metadata,
    List,
    Read { offset: u64, bytes: u32 },
}

impl Link {
    /// Sends a request and reads the answer with `take`; `None` if there is no such file.
    fn ask<T>(
        &self,
        path: &Path,
        ask: Ask,
        take: impl FnOnce(&mut UnixStream) -> io::Result<T>,
    ) -> io::Result<Option<T>> {
        let below = path.strip_prefix(&self.root).map_err(|_| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("not below {}, whose files are served", self.root.display()),
            )
        })?;
        let question = question(below, ask)?;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut stream = match idle {
            Some(stream) => stream,
            None => connect(&self.socket)?,
        };
        stream.write_all(&question)?;
        let answer = match byte(&mut stream)? {
            0 => Some(take(&mut stream)?),
            1 => None,
            2 => {
                let why = short_bytes(&mut stream)?;
                self.keep(stream);
                return Err(io::Error::other(String::from_utf8_lossy(&why).into_owned()));
            }
            other => return Err(malformed(&format!("an answer of kind {other}"))),
        };
        self.keep(stream);
        Ok(answer)
    }

    /// Keeps a connection whose last answer was read to its end.
    fn keep(&self, stream: UnixStream) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(stream);
        }
    }

    fn metadata(&self, path: &Path) -> DiskResult<Option<Metadata>> {
        let known = self.ask(path, Ask::Metadata, |stream| {
            let is_dir = byte(stream)? != 0;
            Ok(Metadata { len: u64::from_le_bytes(array(stream)?), is_dir })
        });
        known.map_err(|why| DiskError::new("look at", path, why))
    }
}

fn connect(socket: &Path) -> io::Result<UnixStream> {
    let named = |why: io::Error| io::Error::new(why.kind(), format!("{}: {why}", socket.display()));
    let stream = UnixStream::connect(socket).map_err(named)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn question(below: &Path, ask: Ask) -> io::Result<Vec<u8>> {
    let path = below.as_os_str().as_bytes();
    let length = u16::try_from(path.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let kind = match ask {
        Ask::Metadata => b'M',
        Ask::List => b'L',
        Ask::Read { .. } => b'R',
    };
    let mut out = vec![kind];
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(path);
    if let Ask::Read { offset, bytes } = ask {
        out.extend_from_slice(&offset.to_le_bytes());
        out.extend_from_slice(&bytes.to_le_bytes());
    }
    Ok(out)
}

/// Parses `data` as the answer to each kind of request: no panic, and no memory beyond the available bytes.
#[cfg(any(test, feature = "testing"))]
pub fn fuzz_served(mut data: &[u8]) {
    let (Ok(kind), Ok(status)) = (byte(&mut data), byte(&mut data)) else { return };
    match (status, kind % 3) {
        (2, _) => _ = short_bytes(&mut data),
        (_, 0) => _ = (byte(&mut data), array::<8>(&mut data)),
        (_, 1) => {
            let there = data.len();
            if let Ok(names) = names(&mut data) {
                assert!(names.len() * 3 <= there, "each name takes three bytes at least");
            }
        }
        _ => _ = fill(&mut data, &mut [0; 1000]),
    }
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the program that serves files sent {what}"))
}

fn array<const N: usize>(stream: &mut impl Read) -> io::Result<[u8; N]> {
    let mut out = [0; N];
    stream.read_exact(&mut out)?;
    Ok(out)
}

fn byte(stream: &mut impl Read) -> io::Result<u8> {
    Ok(array::<1>(stream)?[0])
}

fn short_bytes(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut out = vec![0; u16::from_le_bytes(array(stream)?).into()];
    stream.read_exact(&mut out)?;
    Ok(out)
}

/// Reads exactly the requested bytes of an answer.
fn fill(stream: &mut impl Read, piece: &mut [u8]) -> io::Result<()> {
    let bytes = u32::from_le_bytes(array(stream)?) as usize;
    if bytes != piece.len() {
        return Err(malformed(&format!("{bytes} bytes in place of {}", piece.len())));
    }
    stream.read_exact(piece)
}

fn names(stream: &mut impl Read) -> io::Result<Vec<DirEntry>> {
    let count = u32::from_le_bytes(array(stream)?);
    if count > NAMES_MAX {
        return Err(malformed(&format!("{count} names of a directory")));
    }
    let mut entries = Vec::new();
    for _ in 0..count {
        let is_dir = byte(stream)? != 0;
        entries.push(DirEntry { name: OsString::from_vec(short_bytes(stream)?), is_dir });
    }
    entries.sort();
    Ok(entries)
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

fn read_only(action: &'static str, path: &Path) -> DiskError {
    DiskError::new(action, path, io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "served files are only read"))
}

impl Disk for ServedDisk {
    fn open(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>> {
        match self.link.metadata(path)? {
            Some(known) if !known.is_dir => {
                Ok(Arc::new(ServedFile { link: self.link.clone(), path: path.to_path_buf(), len: known.len }))
            }
            Some(_) => Err(DiskError::new("open", path, io::Error::from(io::ErrorKind::IsADirectory))),
            None => Err(DiskError::new("open", path, not_found())),
        }
    }

    fn create(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>> {
        Err(read_only("create", path))
    }

    fn modify(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>> {
        Err(read_only("open for writing", path))
    }

    fn append(&self, path: &Path) -> DiskResult<Box<dyn Write + Send>> {
        Err(read_only("open for appending", path))
    }

    fn rename(&self, from: &Path, _: &Path) -> DiskResult<()> {
        Err(read_only("rename", from))
    }

    fn exchange(&self, a: &Path, _: &Path) -> DiskResult<()> {
        Err(read_only("exchange", a))
    }

    fn remove_file(&self, path: &Path) -> DiskResult<()> {
        Err(read_only("remove", path))
    }

    fn remove_dir_all(&self, path: &Path) -> DiskResult<()> {
        Err(read_only("remove", path))
    }

    fn create_dir_all(&self, path: &Path) -> DiskResult<()> {
        Err(read_only("create", path))
    }

    fn list(&self, path: &Path) -> DiskResult<Vec<DirEntry>> {
        let found = self.link.ask(path, Ask::List, names);
        found.and_then(|found| found.ok_or_else(not_found)).map_err(|why| DiskError::new("list", path, why))
    }

    fn metadata(&self, path: &Path) -> DiskResult<Option<Metadata>> {
        self.link.metadata(path)
    }

    fn sync_dir(&self, path: &Path) -> DiskResult<()> {
        Err(read_only("sync the names in", path))
    }

    fn free_space_bytes(&self, _: &Path) -> DiskResult<u64> {
        Ok(0)
    }

    fn lock(&self, path: &Path) -> Result<LockGuard, LockError> {
        let source = Some(io::ErrorKind::ReadOnlyFilesystem.into());
        Err(LockError { path: path.to_path_buf(), pid: None, program: None, source })
    }
}

/// A file as it was when it was opened: objects of a store are replaced as a whole.
#[derive(Debug)]
struct ServedFile {
    link: Arc<Link>,
    path: PathBuf,
    len: u64,
}

impl DiskFile for ServedFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> DiskResult<u64> {
        Ok(self.len)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> DiskResult<usize> {
        let have = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX).min(buffer.len());
        let mut at = offset;
        for piece in buffer[..have].chunks_mut(READ_BYTES_MAX) {
            let ask = Ask::Read { offset: at, bytes: piece.len() as u32 };
            let read = self.link.ask(&self.path, ask, |stream| fill(stream, piece));
            let done = read.and_then(|done| done.ok_or_else(not_found));
            done.map_err(|why| DiskError::new("read", &self.path, why).at_offset(at))?;
            at += piece.len() as u64;
        }
        Ok(have)
    }

    fn bytes(&self) -> DiskResult<Bytes> {
        // The other program states the length, so memory is allocated piece by piece, for the bytes received.
        let no_room = |kind: io::ErrorKind| DiskError::new("read", &self.path, io::Error::from(kind));
        let len = usize::try_from(self.len).map_err(|_| no_room(io::ErrorKind::FileTooLarge))?;
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let start = bytes.len();
            let more = READ_BYTES_MAX.min(len - start);
            bytes.try_reserve(more).map_err(|_| no_room(io::ErrorKind::OutOfMemory))?;
            bytes.resize(start + more, 0);
            self.read_exact_at(start as u64, &mut bytes[start..])?;
        }
        Ok(bytes.into())
    }

    fn write_at(&self, _: u64, _: &[u8]) -> DiskResult<()> {
        Err(read_only("write", &self.path))
    }

    fn set_len(&self, _: u64) -> DiskResult<()> {
        Err(read_only("set the length of", &self.path))
    }

    fn allocate(&self, _: u64, _: u64) -> DiskResult<()> {
        Err(read_only("reserve room in", &self.path))
    }

    fn drop_page_cache(&self, _: u64, _: u64) {}

    fn is_in_place(&self) -> DiskResult<bool> {
        Ok(true)
    }

    fn sync(&self) -> DiskResult<()> {
        Err(read_only("sync", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::thread;

    /// Serves one connection after another with canned answers: what was asked, and the answer to it.
    fn serving(answers: Vec<(Vec<u8>, Vec<u8>)>) -> (tempfile::TempDir, ServedDisk, thread::JoinHandle<()>) {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let server = thread::spawn(move || {
            let mut stream: Option<UnixStream> = None;
            for (asked, answer) in answers {
                let mut open = stream.take().unwrap_or_else(|| listener.accept().unwrap().0);
                let mut got = vec![0; asked.len()];
                open.read_exact(&mut got).unwrap();
                assert_eq!(got, asked);
                open.write_all(&answer).unwrap();
                stream = Some(open);
            }
        });
        let disk = ServedDisk::new(&socket, Path::new("/store/chain"));
        (dir, disk, server)
    }

    fn asked(kind: u8, path: &str, more: &[u8]) -> Vec<u8> {
        [&[kind], &(path.len() as u16).to_le_bytes()[..], path.as_bytes(), more].concat()
    }

    fn read_of(path: &str, offset: u64, bytes: u32) -> Vec<u8> {
        asked(b'R', path, &[&offset.to_le_bytes()[..], &bytes.to_le_bytes()].concat())
    }

    /// A program that says that a file has 4 EiB: memory is taken for what it gives, not for what it says.
    #[test]
    fn length_that_cannot_be_takes_no_memory() {
        let path = Path::new("/store/chain/blocks/blk00000.dat");
        let length = [&[0, 0][..], &(1u64 << 62).to_le_bytes()].concat();
        let (_dir, disk, server) = serving(vec![
            (asked(b'M', "blocks/blk00000.dat", &[]), length),
            (read_of("blocks/blk00000.dat", 0, READ_BYTES_MAX as u32), [&[2, 4, 0][..], b"away"].concat()),
        ]);
        let why = disk.open(path).unwrap().bytes().unwrap_err().to_string();
        assert!(why.contains("away"), "{why}");
        server.join().unwrap();
    }

    #[test]
    fn any_bytes_are_read_as_an_answer_or_refused() {
        let mut state = 1u64;
        for _ in 0..2000 {
            let mut byte = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            };
            let bytes: Vec<u8> = (0..byte()).map(|i| if i < 6 { byte() % 4 } else { byte() }).collect();
            fuzz_served(&bytes);
        }
    }

    #[test]
    fn files_are_read_by_another_program() {
        let (file, path) = ("blocks/blk00000.dat", Path::new("/store/chain/blocks/blk00000.dat"));
        let length = [&[0, 0][..], &10u64.to_le_bytes()].concat();
        let bytes = |bytes: &[u8]| [&[0][..], &(bytes.len() as u32).to_le_bytes(), bytes].concat();
        let names = [&[0][..], &2u32.to_le_bytes(), &[1, 1, 0, b'z'], &[0, 1, 0, b'a']].concat();
        let (_dir, disk, server) = serving(vec![
            (asked(b'M', file, &[]), length),
            (read_of(file, 4, 3), bytes(b"efg")),
            (read_of(file, 8, 2), bytes(b"ij")),
            (read_of(file, 0, 10), bytes(b"abcdefghij")),
            (asked(b'M', "none", &[]), vec![1]),
            (asked(b'L', "", &[]), names),
            (asked(b'L', "none", &[]), vec![1]),
            (read_of(file, 0, 1), [&[2, 4, 0][..], b"away"].concat()),
            (read_of(file, 0, 2), bytes(b"a")),
        ]);
        let open = disk.open(path).unwrap();
        let mut three = [0; 3];
        assert_eq!((open.len().unwrap(), open.read_at(4, &mut three).unwrap(), &three), (10, 3, b"efg"));
        assert_eq!((open.read_at(8, &mut three).unwrap(), &three[..2]), (2, &b"ij"[..]));
        assert_eq!(open.read_at(11, &mut three).unwrap(), 0, "nothing is asked behind the end");
        assert_eq!(&open.bytes().unwrap()[..], b"abcdefghij");
        assert_eq!(disk.metadata(Path::new("/store/chain/none")).unwrap(), None);
        let entry = |name: &str, is_dir| DirEntry { name: name.into(), is_dir };
        assert_eq!(disk.list(Path::new("/store/chain")).unwrap(), [entry("a", false), entry("z", true)]);
        assert!(disk.list(Path::new("/store/chain/none")).unwrap_err().is_not_found());
        let why = open.read_at(0, &mut [0]).unwrap_err().to_string();
        assert!(why.ends_with("away") && why.contains("blk00000.dat"), "{why}");
        let why = open.read_at(0, &mut [0; 2]).unwrap_err().to_string();
        assert!(why.contains("1 bytes in place of 2"), "{why}");
        server.join().unwrap();
        let why = disk.metadata(Path::new("/elsewhere/x")).unwrap_err().to_string();
        assert!(why.contains("not below /store/chain"), "{why}");
        for refused in [disk.create(path).map(drop), disk.remove_file(path), open.write_at(0, b"x"), open.sync()] {
            assert!(refused.unwrap_err().to_string().contains("only read"));
        }
        assert!(disk.lock(path).is_err());
    }

    #[test]
    fn what_the_other_program_sends_is_not_believed() {
        let path = Path::new("/store/chain/f");
        for (row, ask, answer) in [
            ("another kind of answer", asked(b'M', "f", &[]), vec![9]),
            ("the connection ends", asked(b'M', "f", &[]), vec![0, 0, 1]),
            ("too many names", asked(b'L', "f", &[]), vec![0, 255, 255, 255, 255]),
        ] {
            let is_list = ask[0] == b'L';
            let (_dir, disk, server) = serving(vec![(ask, answer)]);
            let refused = if is_list { disk.list(path).map(drop) } else { disk.metadata(path).map(drop) };
            assert!(refused.is_err(), "{row}");
            server.join().unwrap();
        }
        let nowhere = ServedDisk::new(Path::new("/nowhere/socket"), Path::new("/store/chain"));
        assert!(nowhere.metadata(path).unwrap_err().to_string().contains("/nowhere/socket"));
    }
}
