//! Appends to block files and undo files: space is reserved in chunks, writes are large, syncs may run on another
//! thread.

use crate::fault::{Fault, FaultKind, Result};
use crate::record::Obfuscation;
use crate::xor::FileKeys;
use disk::{Disk, DiskError, DiskFile};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Bytes that must stay free on the disk beyond the reservation. Source: Core's `CheckDiskSpace`.
const SPARE_BYTES: u64 = 50 * 1024 * 1024;
/// Size of the write buffer. Appended bytes are copied, obfuscated and written in pieces of this size, which stay in
/// the processor's cache between these steps.
const PENDING_BYTES: usize = 128 * 1024;
/// Size of the pieces in which the page cache is flushed and dropped.
const CACHED_PIECE_BYTES: u64 = 1024 * 1024;
/// The last bytes written that stay in the page cache, where they can be read again. Earlier ones are dropped from it
/// in favour of the coins, which are read more often.
const CACHED_BYTES: u64 = 32 * 1024 * 1024;
/// Size of the reads that check the space after the end of a file before it is appended to.
const ROOM_READ_BYTES: usize = 1024 * 1024;
/// Maximum number of files that are written and not yet synced; beyond that the oldest is synced at once, so that few
/// stay open.
const UNSYNCED_FILES_MAX: usize = 64;

/// A file being appended to.
#[derive(Debug)]
pub(crate) struct Tail {
    file: Arc<dyn DiskFile>,
    /// A file is continued with the obfuscation that it begins with.
    obfuscation: Obfuscation,
    /// Length of the file, reserved space included.
    reserved: u64,
    /// Obfuscated bytes not yet written, and their offset.
    pending: Vec<u8>,
    pending_offset: u64,
    /// The fault of an earlier write of pending bytes; the next fallible call returns it.
    failed: Option<Fault>,
}

impl Tail {
    /// Bytes of the file, reserved space included.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.reserved
    }

    /// The offset of the next byte.
    pub(crate) fn end(&self) -> u64 {
        self.pending_offset + self.pending.len() as u64
    }

    /// Whether the file is plain although the directory has a key.
    pub(crate) fn is_plain_beside(&self, keys: &FileKeys) -> bool {
        self.obfuscation.key != keys.obfuscation.key
    }
}

/// Set by the first failed sync to its fault: after it the files' contents are unknown.
#[derive(Clone, Debug, Default)]
struct Broken(Arc<OnceLock<String>>);

impl Broken {
    fn because(&self, fault: &Fault) {
        self.keep(&fault.what());
    }

    /// Only the first fault is kept: it is the cause of the others.
    fn keep(&self, why: &str) {
        let _ = self.0.set(why.to_owned());
    }
}

/// The files of one kind (block or undo) being appended to: opens them, reserves space, writes, and tracks which are to
/// be synced.
#[derive(Debug)]
pub(crate) struct AppendSet {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) keys: FileKeys,
    /// Space is reserved in pieces of this many bytes.
    chunk_bytes: u64,
    unsynced: Vec<Arc<dyn DiskFile>>,
    cached: Cached,
    is_dir_changed: bool,
    broken: Broken,
}

impl AppendSet {
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: &Path, keys: FileKeys, chunk_bytes: u64) -> AppendSet {
        AppendSet {
            disk,
            dir: dir.to_path_buf(),
            keys,
            chunk_bytes,
            unsynced: Vec::new(),
            cached: Cached::default(),
            is_dir_changed: false,
            broken: Broken::default(),
        }
    }

    /// Opens `path`, of which `used` bytes are in use; creates it if `used` is 0.
    pub(crate) fn open(&mut self, path: &Path, used: u64) -> Result<Tail> {
        self.check()?;
        let file = match self.disk.modify(path) {
            Ok(file) => file,
            Err(why) if why.is_not_found() && used == 0 => {
                self.is_dir_changed = true;
                self.disk.create(path)?
            }
            Err(why) if why.is_not_found() => {
                return Err(Fault::from(why).advise("The block index lists this file: put it back").or_reindex());
            }
            Err(why) => return Err(why.into()),
        };
        let reserved = file.len()?;
        if reserved < used {
            let advice = "Put the whole file back";
            let wanted = format!("{used} bytes, as the block index says");
            let found = format!("{reserved}");
            return Err(Fault::new(FaultKind::Damaged, path, wanted, found, advice).or_reindex());
        }
        self.tail(file, used, reserved)
    }

    /// Like [`AppendSet::open`], for a file whose lost data is written again after its end: a missing one is created, and
    /// a shorter one is extended with zeros. Core seeks to `used`, and writes there.
    pub(crate) fn open_extended(&mut self, path: &Path, used: u64) -> Result<Tail> {
        self.check()?;
        let file = match self.disk.modify(path) {
            Ok(file) => file,
            Err(why) if why.is_not_found() => {
                self.is_dir_changed = true;
                self.disk.create(path)?
            }
            Err(why) => return Err(why.into()),
        };
        let mut reserved = file.len()?;
        if reserved < used {
            file.set_len(used)?;
            self.mark(&file)?;
            reserved = used;
        }
        self.tail(file, used, reserved)
    }

    /// The tail of an open file of `reserved` bytes, of which `used` are in use.
    fn tail(&self, file: Arc<dyn DiskFile>, used: u64, reserved: u64) -> Result<Tail> {
        let obfuscation = if used == 0 { self.keys.obfuscation } else { self.keys.of(&*file)? };
        Ok(Tail { file, obfuscation, reserved, pending: Vec::new(), pending_offset: used, failed: None })
    }

    /// Whether a tail that was just opened is followed by anything but zeros, which are reserved space.
    pub(crate) fn holds_more(&self, tail: &Tail) -> Result<bool> {
        let mut at = tail.end();
        let mut piece = vec![0; ROOM_READ_BYTES.min(usize::try_from(tail.reserved - at).unwrap_or(usize::MAX))];
        while at < tail.reserved {
            let have = tail.file.read_at(at, &mut piece)?;
            if have == 0 {
                break;
            }
            if piece[..have].iter().any(|&byte| byte != 0) {
                return Ok(true);
            }
            at += have as u64;
        }
        Ok(false)
    }

    /// Reserves space for `bytes` more; call before [`AppendSet::put`]. A failure changes nothing, and the call can be
    /// repeated.
    pub(crate) fn reserve(&mut self, tail: &mut Tail, bytes: u64) -> Result<()> {
        if tail.pending.len() >= PENDING_BYTES {
            self.write_out(tail)?;
        }
        let end = tail.end() + bytes;
        if end <= tail.reserved {
            return Ok(());
        }
        let reserved = end.div_ceil(self.chunk_bytes) * self.chunk_bytes;
        let more = reserved - tail.reserved;
        let free = self.disk.free_space_bytes(&self.dir)?;
        if free < more + SPARE_BYTES {
            let wanted = format!("{} bytes of free space", more + SPARE_BYTES);
            let found = format!("{free}");
            let advice = "Free disk space; work resumes automatically";
            return Err(Fault::new(FaultKind::NoSpace, tail.file.path(), wanted, found, advice));
        }
        tail.file.allocate(tail.reserved, more)?;
        tail.reserved = reserved;
        Ok(())
    }

    /// Appends bytes whose space is reserved.
    pub(crate) fn put(&mut self, tail: &mut Tail, parts: &[&[u8]]) {
        for piece in parts.iter().flat_map(|part| part.chunks(PENDING_BYTES)) {
            let from = tail.pending.len();
            let at = tail.end();
            tail.pending.extend_from_slice(piece);
            tail.obfuscation.apply(&mut tail.pending[from..], at);
            if tail.pending.len() >= PENDING_BYTES && tail.failed.is_none() {
                tail.failed = self.write_pending(tail).err();
            }
        }
    }

    /// Writes the pending bytes, so that readers see them. They are kept until that succeeds. The fault of an earlier
    /// write is returned first, without a new attempt in the same call.
    pub(crate) fn write_out(&mut self, tail: &mut Tail) -> Result<()> {
        match tail.failed.take() {
            Some(why) => Err(why),
            None => self.write_pending(tail),
        }
    }

    fn write_pending(&mut self, tail: &mut Tail) -> Result<()> {
        self.check()?;
        if tail.pending.is_empty() {
            return Ok(());
        }
        tail.file.write_at(tail.pending_offset, &tail.pending)?;
        self.cached.add(&tail.file, tail.pending_offset, tail.pending.len() as u64);
        tail.pending_offset += tail.pending.len() as u64;
        tail.pending.clear();
        self.mark(&tail.file)
    }

    /// Writes the pending bytes and truncates the reserved space: this file is complete.
    pub(crate) fn finalise(&mut self, tail: &mut Tail) -> Result<()> {
        self.write_out(tail)?;
        if tail.reserved > tail.end() {
            tail.file.set_len(tail.end())?;
            tail.reserved = tail.end();
            self.mark(&tail.file)?;
        }
        Ok(())
    }

    fn mark(&mut self, file: &Arc<dyn DiskFile>) -> Result<()> {
        if !self.unsynced.iter().any(|known| Arc::ptr_eq(known, file)) {
            if self.unsynced.len() >= UNSYNCED_FILES_MAX {
                let oldest = self.unsynced.remove(0);
                sync(&*oldest, &self.broken)?;
            }
            self.unsynced.push(file.clone());
        }
        Ok(())
    }

    /// A file about to be removed: later flushes skip it.
    pub(crate) fn forget(&mut self, path: &Path) {
        self.unsynced.retain(|file| file.path() != path);
    }

    /// A flush of everything written and not yet durable; pending bytes are not included. Fails after a failed sync,
    /// whose data no later flush includes.
    pub(crate) fn take_flush(&mut self) -> Result<Flush> {
        self.check()?;
        let dir = std::mem::take(&mut self.is_dir_changed).then(|| (self.disk.clone(), self.dir.clone()));
        Ok(Flush {
            files: std::mem::take(&mut self.unsynced).into_iter().map(|f| (f, self.broken.clone())).collect(),
            dirs: dir.into_iter().map(|(disk, path)| (disk, path, self.broken.clone())).collect(),
        })
    }

    fn check(&self) -> Result<()> {
        if let Some(why) = self.broken.0.get() {
            let wanted = "files whose contents are known";
            let found = format!("a disk that failed to write earlier data ({why})");
            let advice =
                "Look at the drive and the system's log, then start again: what was not committed is done again";
            return Err(Fault::new(FaultKind::Io, &self.dir, wanted, found, advice));
        }
        Ok(())
    }
}

/// Recently written bytes, which are in the page cache.
#[derive(Debug, Default)]
struct Cached {
    pieces: VecDeque<CachedPiece>,
    bytes: u64,
}

#[derive(Debug)]
struct CachedPiece {
    file: Arc<dyn DiskFile>,
    offset: u64,
    bytes: u64,
}

impl CachedPiece {
    /// Whether these bytes follow directly and the piece still has space for them.
    fn grows(&self, file: &Arc<dyn DiskFile>, offset: u64) -> bool {
        self.bytes < CACHED_PIECE_BYTES && self.offset + self.bytes == offset && Arc::ptr_eq(&self.file, file)
    }

    /// Starts writeback of dirty pages; drops clean pages from the page cache.
    fn drop_from_cache(&self) {
        self.file.drop_page_cache(self.offset, self.bytes);
    }
}

impl Cached {
    /// Records a write. Writeback of a piece starts when it is complete; older pieces are dropped from the page cache.
    fn add(&mut self, file: &Arc<dyn DiskFile>, offset: u64, bytes: u64) {
        self.bytes += bytes;
        match self.pieces.back_mut() {
            Some(last) if last.grows(file, offset) => last.bytes += bytes,
            last => {
                if let Some(cut_short) = last.filter(|last| last.bytes < CACHED_PIECE_BYTES) {
                    cut_short.drop_from_cache();
                }
                self.pieces.push_back(CachedPiece { file: file.clone(), offset, bytes });
            }
        }
        if let Some(whole) = self.pieces.back().filter(|last| last.bytes >= CACHED_PIECE_BYTES) {
            whole.drop_from_cache();
        }
        while self.bytes > CACHED_BYTES
            && let Some(oldest) = self.pieces.pop_front()
        {
            oldest.drop_from_cache();
            self.bytes -= oldest.bytes;
        }
    }
}

fn sync(file: &dyn DiskFile, broken: &Broken) -> Result<()> {
    let synced = match file.sync() {
        // A file system without this call. Source: Bitcoin Core b88bffe, `FileCommit`, which ignores EINVAL.
        Err(why) if why.source.kind() == std::io::ErrorKind::InvalidInput => Ok(()),
        synced => synced.map_err(DiskError::of_last_try).map_err(Fault::from),
    };
    synced.and_then(|()| check_in_place(file)).inspect_err(|why| broken.because(why))
}

/// Bytes written to a removed file are lost without an error from write or sync, so this checks.
fn check_in_place(file: &dyn DiskFile) -> Result<()> {
    if file.is_in_place()? {
        return Ok(());
    }
    let found = "it removed, moved or replaced by another program";
    let advice = "Put the file back and start again: what was not committed is done again";
    Err(Fault::new(FaultKind::Missing, file.path(), "the file that is being appended to", found, advice).or_reindex())
}

/// The files that were written and must reach the disk. May run on another thread while appending continues. If it is
/// dropped before it completes, its writers refuse further work.
#[must_use = "nothing is durable before it has run"]
#[derive(Debug, Default)]
pub struct Flush {
    files: Vec<(Arc<dyn DiskFile>, Broken)>,
    dirs: Vec<(Arc<dyn Disk>, PathBuf, Broken)>,
}

impl Flush {
    /// Adds the files of another flush. (It does not consume the first one: if the second cannot be begun because the
    /// disk is full, the first must remain.)
    pub fn add(&mut self, mut other: Flush) {
        self.files.append(&mut other.files);
        self.dirs.append(&mut other.dirs);
    }

    /// Makes all of it durable: contents and lengths, then names.
    ///
    /// # Errors
    ///
    /// An I/O error. A failed sync is never retried: the writer refuses all further work. The data since the last flush
    /// must be written again, by a new writer that starts from the index.
    pub fn run(mut self) -> Result<()> {
        self.run_all().inspect_err(|why| self.break_rest(&why.what()))
    }

    fn run_all(&mut self) -> Result<()> {
        while let Some((file, broken)) = self.files.pop() {
            sync(&*file, &broken)?;
        }
        while let Some((disk, dir, broken)) = self.dirs.pop() {
            disk.sync_dir_once(&dir).map_err(Fault::from).inspect_err(|why| broken.because(why))?;
        }
        Ok(())
    }

    /// Makes the writers of the unsynced files refuse further work, because no later flush includes these files.
    fn break_rest(&mut self, why: &str) {
        let files = self.files.drain(..).map(|(_, broken)| broken);
        let dirs = self.dirs.drain(..).map(|(.., broken)| broken);
        files.chain(dirs).for_each(|broken| broken.keep(why));
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        self.break_rest("it was not synced");
    }
}
