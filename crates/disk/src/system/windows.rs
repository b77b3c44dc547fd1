//! The functions of `unix.rs` for Windows, as far as std supports them. Compiled in checks, never run.

use std::fs::{File, FileType, OpenOptions, TryLockError};
use std::io;
use std::os::windows::fs::FileExt;
use std::path::{Path, PathBuf};

/// The identity of a file is the path used to find it, because std offers no other. So a replaced file cannot be
/// distinguished from the one before.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct FileId(PathBuf);

/// The identity of the file that a name leads to.
pub(crate) fn id_at(path: &Path) -> io::Result<FileId> {
    std::fs::canonicalize(path).map(FileId)
}

/// The identity of a file that was opened by this name.
pub(crate) fn id_of(_: &File, path: &Path) -> io::Result<FileId> {
    id_at(path)
}

/// Opening a file never waits here.
pub(crate) fn without_waiting(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// There are no FIFOs among files here.
pub(crate) fn open_pipe_to_write(path: &Path) -> io::Result<Option<File>> {
    OpenOptions::new().write(true).open(path).map(Some)
}

/// The permissions are inherited from the directory.
pub(crate) fn readable_by_all(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// The kind of a file that is neither a regular file nor a directory.
pub(crate) fn kind(_: FileType) -> &'static str {
    "a device"
}

/// Reads some bytes at a place.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    match file.seek_read(buffer, offset) {
        // ERROR_HANDLE_EOF: the place is past the end.
        Err(why) if why.raw_os_error() == Some(38) => Ok(0),
        read => read,
    }
}

/// Writes all bytes at a place.
pub(crate) fn write_all_at(file: &File, data: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < data.len() {
        match file.seek_write(&data[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => done += count,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
    Ok(())
}

/// Windows has no such operation.
pub(crate) fn exchange(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "Windows cannot swap two names"))
}

/// The file system makes names durable by itself. Source: Bitcoin Core b88bffe, `DirectoryCommit` (util/fs_helpers).
pub(crate) fn sync_dir(_: &Path) -> io::Result<bool> {
    Ok(true)
}

/// std does not report it.
pub(crate) fn free_space_bytes(_: &Path) -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}

/// NTFS has no fixed number of files.
pub(crate) fn free_inodes(_: &Path) -> io::Result<Option<u64>> {
    Ok(None)
}

/// Permissions are unknown.
pub(crate) fn rights(_: &Path) -> crate::Rights {
    crate::Rights::ALL
}

/// Windows files always have a name.
pub(crate) fn unnamed_file(_: &Path) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Windows has no reservations: only the file's length is extended.
pub(crate) fn reserve(_: &File, _: u64, _: u64) -> io::Result<bool> {
    Ok(false)
}

/// Windows has no such advice.
pub(crate) fn drop_page_cache(_: &File, _: u64, _: u64) {}

/// Windows has no such advice.
pub(crate) fn advise_random(_: &File) {}

/// Takes Core's kind of lock (`LockFileEx`); false if another process holds it.
/// Source: Bitcoin Core b88bffe, `FileLock::TryLock` (util/fs).
pub(crate) fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(why)) => Err(why),
    }
}

/// ERROR_NOT_SUPPORTED and ERROR_INVALID_FUNCTION.
pub(crate) fn means_no_locks(why: &io::Error) -> bool {
    matches!(why.raw_os_error(), Some(1 | 50))
}

/// Windows does not report it.
pub(crate) fn lock_holder(_: &File) -> Option<u32> {
    None
}
