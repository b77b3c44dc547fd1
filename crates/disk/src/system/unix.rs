//! The functions that differ from Windows, for Unix; `windows.rs` has the same functions.
//!
//! For operations that only Linux supports, the same function contains the fallback for other systems.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::Rights;
use rustix::fs::{Access, CWD, FallocateFlags, FlockOperation, OFlags, RenameFlags};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType};

/// The identity of a file, independent of its name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl From<Metadata> for FileId {
    fn from(known: Metadata) -> FileId {
        FileId { device: known.dev(), inode: known.ino() }
    }
}

/// The identity of the file that a name leads to.
pub(crate) fn id_at(path: &Path) -> io::Result<FileId> {
    std::fs::metadata(path).map(FileId::from)
}

/// The identity of an open file, independent of the name used to open it.
pub(crate) fn id_of(file: &File, _: &Path) -> io::Result<FileId> {
    file.metadata().map(FileId::from)
}

/// Opens without waiting for another program. This changes nothing for regular files.
pub(crate) fn without_waiting(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags(OFlags::NONBLOCK.bits() as i32)
}

/// Opens a FIFO that has a reader, so that writes wait for buffer space; `None` without a reader.
pub(crate) fn open_pipe_to_write(path: &Path) -> io::Result<Option<File>> {
    match without_waiting(OpenOptions::new().write(true)).open(path) {
        Ok(file) => {
            let flags = rustix::fs::fcntl_getfl(&file)?;
            rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
            Ok(Some(file))
        }
        Err(why) if why.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => Ok(None),
        Err(why) => Err(why),
    }
}

/// A new file gets mode 0644.
pub(crate) fn readable_by_all(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o644)
}

/// The kind of a file that is neither a regular file nor a directory.
pub(crate) fn kind(kind: FileType) -> &'static str {
    if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

/// Reads some bytes at a place.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(buffer, offset)
}

/// Writes all bytes at a place.
pub(crate) fn write_all_at(file: &File, data: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(data, offset)
}

/// Swaps two names in one step.
pub(crate) fn exchange(a: &Path, b: &Path) -> io::Result<()> {
    rustix::fs::renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).map_err(|why| match why {
        Errno::INVAL | Errno::NOSYS | Errno::NOTSUP => {
            io::Error::new(io::ErrorKind::Unsupported, "this file system cannot swap two names")
        }
        why => why.into(),
    })
}

/// Makes the names in a directory durable; false if the file system does not support it for directories. Source:
/// Bitcoin Core b88bffe, leveldb/util/env_posix.cc, `SyncFd`, which ignores EINVAL for a directory.
pub(crate) fn sync_dir(path: &Path) -> io::Result<bool> {
    match File::open(path)?.sync_all() {
        Ok(()) => Ok(true),
        Err(why) => match why.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Ok(false),
            _ => Err(why),
        },
    }
}

/// Bytes that an unprivileged program can still write.
pub(crate) fn free_space_bytes(path: &Path) -> io::Result<u64> {
    let known = rustix::fs::statvfs(path)?;
    Ok(known.f_bavail.saturating_mul(known.f_frsize))
}

/// Number of files that an unprivileged program can still make; `None` if the file system has no fixed number of
/// inodes: then it reports 0. Source: statvfs(3).
pub(crate) fn free_inodes(path: &Path) -> io::Result<Option<u64>> {
    let known = rustix::fs::statvfs(path)?;
    Ok((known.f_files > 0).then_some(known.f_favail))
}

/// This program's rights on `path`.
pub(crate) fn rights(path: &Path) -> Rights {
    let may_write =
        !matches!(rustix::fs::access(path, Access::WRITE_OK), Err(Errno::ACCESS | Errno::PERM | Errno::ROFS));
    let is_owner = std::fs::metadata(path).map_or(true, |known| known.uid() == rustix::process::geteuid().as_raw());
    Rights { may_write, is_owner }
}

/// Reserves space and extends the file to its end; false if the file system has no reservations.
pub(crate) fn reserve(file: &File, offset: u64, len: u64) -> io::Result<bool> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), offset, len) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
        Err(why) => Err(why.into()),
    }
}

/// A new file in a directory that never has a name, for reading and writing.
#[cfg(target_os = "linux")]
pub(crate) fn unnamed_file(dir: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).mode(0o600).custom_flags(OFlags::TMPFILE.bits() as i32).open(dir)
}

/// On other systems a file has a name, at least briefly, and a kill would leave it.
#[cfg(not(target_os = "linux"))]
pub(crate) fn unnamed_file(_: &Path) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Linux starts writing dirty pages and drops clean ones. It is only advice: nothing is lost if it fails.
#[cfg(not(target_vendor = "apple"))]
pub(crate) fn drop_page_cache(file: &File, offset: u64, len: u64) {
    let _ = rustix::fs::fadvise(file, offset, std::num::NonZeroU64::new(len), rustix::fs::Advice::DontNeed);
}

/// Apple's systems have no such advice.
#[cfg(target_vendor = "apple")]
pub(crate) fn drop_page_cache(_: &File, _: u64, _: u64) {}

/// This is also only advice.
#[cfg(not(target_vendor = "apple"))]
pub(crate) fn advise_random(file: &File) {
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Random);
}

/// Apple's systems have no such advice.
#[cfg(target_vendor = "apple")]
pub(crate) fn advise_random(_: &File) {}

/// Takes a record lock over the whole file; false if another process holds one.
pub(crate) fn try_lock(file: &File) -> io::Result<bool> {
    match rustix::fs::fcntl_lock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::AGAIN | Errno::ACCESS) => Ok(false),
        Err(why) => Err(why.into()),
    }
}

/// Whether an error of [`try_lock`] means that the file system has no locks.
pub(crate) fn means_no_locks(why: &io::Error) -> bool {
    let number = why.raw_os_error().map(Errno::from_raw_os_error);
    matches!(number, Some(Errno::NOLCK | Errno::NOSYS | Errno::NOTSUP | Errno::INVAL))
}

/// The process that holds a conflicting lock; it may have ended since. The file may be open for reading only.
pub(crate) fn lock_holder(file: &File) -> Option<u32> {
    let ask = Flock::from(FlockType::WriteLock);
    let found = rustix::process::fcntl_getlk(file, &ask).ok().flatten()?;
    u32::try_from(found.pid?.as_raw_pid()).ok()
}
