//! A file system in memory that can simulate every failure, reproducibly for the same seed.
//!
//! It separates the state that programs see, the durable state, and the changes between the two, in order.
//! [`SimDisk::reopen`] makes a disk as a machine could have left it: the durable part, plus any choice of the unsynced
//! changes (whole or torn). A change of names depends only on the earlier changes of the same names.
//!
//! It can also be a file system with unusual behaviour: [`Kind`], [`SimDisk::mount`].
//!
//! Absent on purpose: time, permissions, links; false bytes (tests damage bytes themselves).

mod kinds;
mod state;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::state::{DirNode, FileNode, Node, Plan, SimState, Step, What, names};
use super::{Bytes, DirEntry, Disk, DiskError, DiskFile, DiskResult, Inner, LockError, LockGuard, Metadata};

/// The failure at a chosen operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The machine stops: this operation is torn, and every later one fails.
    Stop,
    /// No space: a write ends in the middle; any other operation does nothing.
    NoSpace,
    /// An I/O error: like no space, but a failed sync also discards its data, so that a second sync reports success, as
    /// on Linux.
    Io,
    /// The file system is read-only, as Linux remounts one after an error: operations do nothing. Data written and not
    /// synced can still be read.
    ReadOnly,
}

/// The losses when a disk is reopened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// No loss: the program was killed, the machine kept running.
    Nothing,
    /// Everything that was not synced.
    Unsynced,
    /// Some unsynced changes are kept, some lost, some torn, as the seed decides.
    Random(u64),
}

/// Differences of a file system from ext4. A disk may have several at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// fsync of a directory returns EINVAL, as on some CIFS and FUSE: names become durable at any time.
    NoDirectorySync,
    /// Two names cannot be swapped in one step, as on NFS, FUSE, exFAT and before Linux 3.15.
    NoExchange,
    /// A file that is removed while it is open becomes `.fuse_hidden` and a number, as libfuse does it.
    FuseNames,
    /// Like `FuseNames`, but the name is `.nfs` and a number, and removing it returns EBUSY, as on NFS.
    NfsNames,
    /// Files cannot be mapped (ENODEV).
    NoMaps,
    /// Files cannot be locked (ENOLCK).
    NoLocks,
    /// All directories that exist when the disk gets this kind are in the lower layer of an overlayfs: moving or
    /// swapping them returns EXDEV. Files can be moved.
    Overlay,
}

/// A file system in memory. All clones share it.
#[derive(Clone, Debug)]
pub struct SimDisk(Arc<Mutex<SimState>>);

impl SimDisk {
    /// An empty disk. `seed` decides how writes are torn.
    pub fn new(seed: u64) -> SimDisk {
        SimDisk(Arc::new(Mutex::new(SimState::new(seed))))
    }

    /// The same disk as a trait object.
    pub fn shared(&self) -> Arc<dyn Disk> {
        Arc::new(self.clone())
    }

    /// Adds this kind from now on, also after the disk is reopened.
    pub fn be(&self, kind: Kind) {
        self.state().be(kind);
    }

    /// Makes an existing directory with its contents a mount point: it can be neither moved nor removed (EBUSY), and
    /// nothing can be moved out of it or into it (EXDEV).
    ///
    /// # Panics
    /// If it does not exist.
    pub fn mount(&self, path: &Path) {
        let mut state = self.state();
        let inode = state.find(path).expect("a mount point is a directory that is there");
        state.mounts.insert(inode);
    }

    /// The free space that the disk reports, unless a failure is planned; writes do not reduce it.
    pub fn set_free_bytes(&self, bytes: u64) {
        self.state().free_bytes = bytes;
    }

    /// Number of further files that the disk says can be made; files that are made do not reduce it.
    pub fn set_free_inodes(&self, count: u64) {
        self.state().free_inodes = Some(count);
    }

    /// Number of modifying operations so far: writes, syncs, and changes of names.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Makes operation number `operation` (see [`SimDisk::operations`], which returns the number of the next one) and
    /// the `times - 1` after it fail.
    pub fn fail_at(&self, operation: u64, times: u64, fault: Fault) {
        let until = operation.saturating_add(times);
        self.state().plans.push(Plan { from: operation, until, fault });
    }

    /// Number of reading operations so far: opening or reading files, listing directories, metadata.
    pub fn reads(&self) -> u64 {
        self.state().reads
    }

    /// Makes read number `read` (see [`SimDisk::reads`]) and the `times - 1` after it fail with an I/O error.
    pub fn fail_reads_at(&self, read: u64, times: u64) {
        self.state().failing_reads.push(read..read.saturating_add(times));
    }

    /// Cancels all planned failures: space was freed, the drive is back.
    pub fn heal(&self) {
        let mut state = self.state();
        state.plans.clear();
        state.failing_reads.clear();
    }

    /// Bytes that callers asked to drop from the page cache, which this disk does not have.
    pub fn dropped_bytes(&self) -> u64 {
        self.state().dropped_bytes
    }

    /// Whether the machine has stopped: every operation fails until [`SimDisk::reopen`].
    pub fn is_stopped(&self) -> bool {
        self.state().is_stopped
    }

    /// The file or directory of the operation at which the machine stopped.
    pub fn stopped_at(&self) -> Option<PathBuf> {
        self.state().stopped_at.clone()
    }

    /// The disk as the next start of the machine finds it. This one is unchanged, so that several losses can be tried.
    pub fn reopen(&self, loss: Loss) -> SimDisk {
        SimDisk(Arc::new(Mutex::new(self.state().left_by(loss))))
    }

    fn state(&self) -> MutexGuard<'_, SimState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run<T>(
        &self,
        action: &'static str,
        path: &Path,
        work: impl FnOnce(&mut SimState) -> io::Result<T>,
    ) -> DiskResult<T> {
        let mut state = self.state();
        let was_stopped = state.is_stopped;
        let result = work(&mut state);
        if state.is_stopped && !was_stopped {
            state.stopped_at = Some(path.to_path_buf());
        }
        result.map_err(|why| DiskError::new(action, path, why))
    }

    fn opened(&self, path: &Path, inode: usize, is_writable: bool) -> Arc<dyn DiskFile> {
        self.state().opened(inode);
        Arc::new(SimFile { disk: self.clone(), path: path.to_path_buf(), inode, is_writable })
    }

    fn open_file(&self, action: &'static str, path: &Path, is_writable: bool) -> DiskResult<Arc<dyn DiskFile>> {
        let inode = self.run(action, path, |state| {
            state.read()?;
            let inode = state.find(path)?;
            state.file(inode)?;
            Ok(inode)
        })?;
        Ok(self.opened(path, inode, is_writable))
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>> {
        self.open_file("open", path, false)
    }

    fn create(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>> {
        let inode = self.run("create", path, |state| {
            let (is_done, answer) = state.step_whole()?;
            let (dir, name) = state.parent(path)?;
            if state.dir(dir)?.now.contains_key(name) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            let node = Node::File(FileNode::default());
            let inode = if is_done { state.add(dir, name, node) } else { 0 };
            answer.map(|()| inode)
        })?;
        Ok(self.opened(path, inode, true))
    }

    fn modify(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>> {
        self.open_file("open for writing", path, true)
    }

    fn append(&self, path: &Path) -> DiskResult<Box<dyn io::Write + Send>> {
        if self.metadata(path)?.is_none() {
            self.create(path)?;
        }
        let inode = self.run("open for appending", path, |state| {
            let inode = state.find(path)?;
            state.file(inode)?;
            Ok(inode)
        })?;
        Ok(Box::new(SimLog { disk: self.clone(), path: path.to_path_buf(), inode }))
    }

    fn rename(&self, from: &Path, to: &Path) -> DiskResult<()> {
        self.run("rename", from, |state| {
            let (is_done, answer) = state.step_whole()?;
            let inode = state.find(from)?;
            state.check_move(from, to)?;
            let (from_dir, from_name) = state.parent(from)?;
            let (to_dir, to_name) = state.parent(to)?;
            if let Some(target) = state.dir(to_dir)?.now.get(to_name)
                && let Node::Dir(target) = &state.nodes[*target]
                && !target.now.is_empty()
            {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
            if is_done && (from_dir, from_name) != (to_dir, to_name) {
                let replaced = state.dir(to_dir)?.now.get(to_name).copied();
                let kept = replaced.map(|old| state.name_while_open(old, to_name)).transpose()?.flatten();
                let mut change =
                    vec![(from_dir, from_name.to_owned(), None), (to_dir, to_name.to_owned(), Some(inode))];
                change.extend(kept.map(|name| (to_dir, name, replaced)));
                state.set_names(change);
            }
            answer
        })
    }

    fn exchange(&self, a: &Path, b: &Path) -> DiskResult<()> {
        self.run("exchange", a, |state| {
            if state.is(Kind::NoExchange) {
                return Err(io::ErrorKind::Unsupported.into());
            }
            let (is_done, answer) = state.step_whole()?;
            state.check_move(a, b)?;
            let inode_a = state.find(a)?;
            let inode_b = state.find(b)?;
            let (dir_a, name_a) = state.parent(a)?;
            let (dir_b, name_b) = state.parent(b)?;
            if is_done {
                state.set_names(vec![
                    (dir_a, name_a.to_owned(), Some(inode_b)),
                    (dir_b, name_b.to_owned(), Some(inode_a)),
                ]);
            }
            answer
        })
    }

    fn remove_file(&self, path: &Path) -> DiskResult<()> {
        self.run("remove", path, |state| {
            let (is_done, answer) = state.step_whole()?;
            let inode = state.find(path)?;
            state.file(inode)?;
            let (dir, name) = state.parent(path)?;
            if is_done {
                let kept = state.name_while_open(inode, name)?.filter(|kept| kept != name);
                if kept.is_some()
                    || !state.is(Kind::FuseNames)
                    || state.open.get(&inode).is_none_or(|count| *count == 0)
                {
                    let mut change = vec![(dir, name.to_owned(), None)];
                    change.extend(kept.map(|kept| (dir, kept, Some(inode))));
                    state.set_names(change);
                }
            }
            answer
        })
    }

    fn remove_dir_all(&self, path: &Path) -> DiskResult<()> {
        for entry in self.list(path)? {
            let child = path.join(&entry.name);
            if entry.is_dir {
                self.remove_dir_all(&child)?;
            } else {
                self.remove_file(&child)?;
            }
        }
        self.run("remove", path, |state| {
            let (is_done, answer) = state.step_whole()?;
            let (dir, name) = state.parent(path)?;
            let inode = state.find(path)?;
            if state.mounts.contains(&inode) {
                return Err(io::ErrorKind::ResourceBusy.into());
            }
            if !state.dir(inode)?.now.is_empty() {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
            if is_done {
                state.set_names(vec![(dir, name.to_owned(), None)]);
            }
            answer
        })
    }

    fn create_dir_all(&self, path: &Path) -> DiskResult<()> {
        self.run("create", path, |state| {
            state.alive()?;
            let mut inode = 0;
            for name in names(path)? {
                inode = match state.dir(inode)?.now.get(name) {
                    Some(known) => *known,
                    None => {
                        let (is_done, answer) = state.step_whole()?;
                        let node = Node::Dir(DirNode::default());
                        let made = if is_done { state.add(inode, name, node) } else { 0 };
                        answer?;
                        made
                    }
                };
            }
            state.dir(inode).map(|_| ())
        })
    }

    fn list(&self, path: &Path) -> DiskResult<Vec<DirEntry>> {
        self.run("list", path, |state| {
            state.read()?;
            let inode = state.find(path)?;
            let entry = |(name, inode): (&OsString, &usize)| DirEntry {
                name: name.clone(),
                is_dir: matches!(state.nodes[*inode], Node::Dir(_)),
            };
            Ok(state.dir(inode)?.now.iter().map(entry).collect())
        })
    }

    fn metadata(&self, path: &Path) -> DiskResult<Option<Metadata>> {
        self.run("look at", path, |state| {
            state.read()?;
            let inode = match state.find(path) {
                Ok(inode) => inode,
                Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(why) => return Err(why),
            };
            Ok(Some(match &state.nodes[inode] {
                Node::File(file) => Metadata { len: file.now.len() as u64, is_dir: false },
                Node::Dir(_) => Metadata { len: 0, is_dir: true },
            }))
        })
    }

    fn sync_dir(&self, path: &Path) -> DiskResult<()> {
        self.run("sync the names in", path, |state| {
            let (is_done, answer) = state.step_whole()?;
            let inode = state.find(path)?;
            state.dir(inode)?;
            if is_done && !state.is(Kind::NoDirectorySync) {
                state.sync_names(inode);
            }
            answer
        })
    }

    fn can_sync_dir(&self, _: &Path) -> DiskResult<bool> {
        Ok(!self.state().is(Kind::NoDirectorySync))
    }

    fn free_space_bytes(&self, path: &Path) -> DiskResult<u64> {
        self.run("look at", path, |state| {
            state.alive()?;
            let next = state.operations;
            let is_full =
                state.plans.iter().any(|plan| plan.fault == Fault::NoSpace && plan.from <= next && next < plan.until);
            Ok(if is_full { 0 } else { state.free_bytes })
        })
    }

    fn free_inodes(&self, _: &Path) -> DiskResult<Option<u64>> {
        Ok(self.state().free_inodes)
    }

    fn lock(&self, path: &Path) -> Result<LockGuard, LockError> {
        let lock = || -> DiskResult<Arc<dyn DiskFile>> {
            if self.state().is(Kind::NoLocks) {
                let why = io::Error::new(io::ErrorKind::Unsupported, "the file system has no file locks");
                return Err(DiskError::new("lock", path, why));
            }
            match self.metadata(path)? {
                None => self.create(path),
                Some(_) => self.modify(path),
            }
        };
        lock().map(LockGuard::of).map_err(|why| LockError {
            path: path.to_path_buf(),
            pid: None,
            program: None,
            source: Some(why.source),
        })
    }
}

/// An open file of a [`SimDisk`].
#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    path: PathBuf,
    inode: usize,
    is_writable: bool,
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.disk.state().closed(self.inode);
    }
}

/// A file of a [`SimDisk`] that is being appended to.
struct SimLog {
    disk: SimDisk,
    path: PathBuf,
    inode: usize,
}

impl io::Write for SimLog {
    /// Appends all of `data`, or nothing if the disk is full or fails; only a stopping machine leaves a part.
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let written = self.disk.run("write", &self.path, |state| {
            let (part, answer) = match state.step()? {
                Step::Whole => (data.len(), Ok(data.len())),
                Step::Broken(Fault::Stop, why) => (state.random.up_to(data.len()), Err(why)),
                Step::Broken(_, why) => (0, Err(why)),
            };
            let file = state.file(self.inode)?;
            file.change(What::Write { offset: file.now.len(), data: data[..part].to_vec() });
            answer
        });
        written.map_err(|why| why.source)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn to_usize(value: u64) -> io::Result<usize> {
    // Bounded, so that a mistaken offset fails here and not in the allocator.
    let bounded = Some(value).filter(|len| *len <= 1 << 40);
    bounded.and_then(|len| usize::try_from(len).ok()).ok_or(io::ErrorKind::FileTooLarge.into())
}

impl SimFile {
    fn run<T>(&self, action: &'static str, work: impl FnOnce(&mut SimState, usize) -> io::Result<T>) -> DiskResult<T> {
        self.disk.run(action, &self.path, |state| work(state, self.inode))
    }

    fn writable(&self) -> io::Result<()> {
        if self.is_writable { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }
}

impl DiskFile for SimFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> DiskResult<u64> {
        self.run("look at", |state, inode| {
            state.read()?;
            Ok(state.file(inode)?.now.len() as u64)
        })
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> DiskResult<usize> {
        self.run("read", |state, inode| {
            state.read()?;
            let bytes = &state.file(inode)?.now;
            let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
            let count = buffer.len().min(bytes.len() - start);
            buffer[..count].copy_from_slice(&bytes[start..start + count]);
            Ok(count)
        })
    }

    fn bytes(&self) -> DiskResult<Bytes> {
        let bytes = self.run("map", |state, inode| {
            state.read()?;
            if state.is(Kind::NoMaps) {
                return Err(io::Error::new(io::ErrorKind::Unsupported, "the file system cannot map files"));
            }
            Ok(state.file(inode)?.now.clone())
        })?;
        // For these kinds it counts as open, like a map.
        let kinds = [Kind::FuseNames, Kind::NfsNames];
        if kinds.into_iter().any(|kind| self.disk.state().is(kind)) {
            let file = self.disk.opened(&self.path, self.inode, false);
            return Ok(Bytes(Inner::Open { bytes, _file: file }));
        }
        Ok(bytes.into())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> DiskResult<()> {
        let result = self.run("write", |state, inode| {
            self.writable()?;
            let offset = to_usize(offset)?;
            let (data, answer) = match state.step()? {
                Step::Whole => (data, Ok(())),
                Step::Broken(Fault::ReadOnly, why) => return Err(why),
                Step::Broken(_, why) => (&data[..state.random.up_to(data.len())], Err(why)),
            };
            let data = data.to_vec();
            state.file(inode)?.change(What::Write { offset, data });
            answer
        });
        result.map_err(|why| why.at_offset(offset).taking(data.len() as u64))
    }

    fn set_len(&self, len: u64) -> DiskResult<()> {
        self.run("set the length of", |state, inode| {
            self.writable()?;
            let len = to_usize(len)?;
            let (is_done, answer) = state.step_whole()?;
            if is_done {
                state.file(inode)?.change(What::SetLen(len));
            }
            answer
        })
    }

    fn allocate(&self, offset: u64, len: u64) -> DiskResult<()> {
        let end = offset.saturating_add(len);
        self.run("reserve room in", |state, inode| {
            self.writable()?;
            let end = to_usize(end)?;
            let (is_done, answer) = state.step_whole()?;
            let file = state.file(inode)?;
            if is_done && file.now.len() < end {
                file.change(What::SetLen(end));
            }
            answer
        })
    }

    fn drop_page_cache(&self, _offset: u64, len: u64) {
        self.disk.state().dropped_bytes += len;
    }

    fn is_in_place(&self) -> DiskResult<bool> {
        self.run("look at", |state, inode| {
            state.read()?;
            match state.find(&self.path) {
                Ok(found) => Ok(found == inode),
                Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(false),
                Err(why) => Err(why),
            }
        })
    }

    fn sync(&self) -> DiskResult<()> {
        self.run("sync", |state, inode| match state.step()? {
            Step::Whole => {
                state.file(inode)?.sync();
                Ok(())
            }
            Step::Broken(fault, why) => {
                if fault == Fault::ReadOnly {
                    return Err(why);
                }
                let is_done = fault == Fault::Stop && state.random.up_to(1) == 1;
                let file = state.file(inode)?;
                if is_done {
                    file.sync();
                }
                for change in &mut file.changes {
                    change.is_forgotten = true;
                }
                Err(why)
            }
        })
    }
}
