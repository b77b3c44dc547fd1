//! The machine's own file system.

use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, FallocateFlags, RenameFlags};
use rustix::io::Errno;

use super::{Bytes, Disk, DiskError, DiskFile, DiskResult, Entry, LockError, LockGuard, Metadata, lock_file};
use crate::regular::{NONBLOCK, open_regular};

/// The machine's own file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl RealDisk {
    /// As the trait object that everything takes.
    pub fn shared() -> Arc<dyn Disk> {
        Arc::new(RealDisk)
    }
}

#[derive(Debug)]
struct RealFile {
    path: PathBuf,
    file: File,
}

fn wrap<T>(action: &'static str, path: &Path, result: io::Result<T>) -> DiskResult<T> {
    result.map_err(|why| DiskError::new(action, path, why))
}

fn opened(action: &'static str, path: &Path, options: &mut OpenOptions) -> DiskResult<Arc<dyn DiskFile>> {
    let file = wrap(action, path, open_regular(path, options))?;
    Ok(Arc::new(RealFile { path: path.to_path_buf(), file }))
}

impl Disk for RealDisk {
    fn open(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>> {
        opened("open", path, OpenOptions::new().read(true))
    }

    fn create(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>> {
        opened("create", path, OpenOptions::new().read(true).write(true).create_new(true))
    }

    fn modify(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>> {
        opened("open for writing", path, OpenOptions::new().read(true).write(true))
    }

    fn append(&self, path: &Path) -> DiskResult<Box<dyn io::Write + Send>> {
        // Any kind of file, for debug.log may be a link to /dev/null; but a FIFO that no program reads is not waited for.
        let file = OpenOptions::new().create(true).append(true).custom_flags(NONBLOCK).open(path);
        Ok(Box::new(wrap("open for appending", path, file)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> DiskResult<()> {
        wrap("rename", from, std::fs::rename(from, to))
    }

    fn exchange(&self, a: &Path, b: &Path) -> DiskResult<()> {
        let why = match rustix::fs::renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE) {
            Ok(()) => return Ok(()),
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                io::Error::new(io::ErrorKind::Unsupported, "this file system cannot swap two names")
            }
            Err(why) => why.into(),
        };
        Err(DiskError::new("exchange", a, why))
    }

    fn remove_file(&self, path: &Path) -> DiskResult<()> {
        wrap("remove", path, std::fs::remove_file(path))
    }

    fn remove_dir_all(&self, path: &Path) -> DiskResult<()> {
        wrap("remove", path, std::fs::remove_dir_all(path))
    }

    fn create_dir_all(&self, path: &Path) -> DiskResult<()> {
        wrap("create", path, std::fs::create_dir_all(path))
    }

    fn list(&self, path: &Path) -> DiskResult<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in wrap("list", path, std::fs::read_dir(path))? {
            let entry = wrap("list", path, entry)?;
            let is_dir = wrap("look at", &entry.path(), entry.file_type())?.is_dir();
            entries.push(Entry { name: entry.file_name(), is_dir });
        }
        entries.sort();
        Ok(entries)
    }

    fn metadata(&self, path: &Path) -> DiskResult<Option<Metadata>> {
        match std::fs::metadata(path) {
            Ok(known) if known.is_dir() => Ok(Some(Metadata { len: 0, is_dir: true })),
            Ok(known) => Ok(Some(Metadata { len: known.len(), is_dir: false })),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(DiskError::new("look at", path, why)),
        }
    }

    fn sync_dir(&self, path: &Path) -> DiskResult<()> {
        wrap("sync the names in", path, File::open(path).and_then(|dir| dir.sync_all()))
    }

    fn free_space_bytes(&self, path: &Path) -> DiskResult<u64> {
        let known = wrap("look at", path, rustix::fs::statvfs(path).map_err(Into::into))?;
        Ok(known.f_bavail.saturating_mul(known.f_frsize))
    }

    fn lock(&self, path: &Path) -> Result<LockGuard, LockError> {
        lock_file(path)
    }
}

impl DiskFile for RealFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> DiskResult<u64> {
        wrap("look at", &self.path, self.file.metadata().map(|known| known.len()))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> DiskResult<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match self.file.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => return Err(DiskError::new("read", &self.path, why).at_offset(offset)),
            }
        }
        Ok(done)
    }

    fn bytes(&self) -> DiskResult<Bytes> {
        let len = self.len()?;
        if len == 0 {
            return Ok(Vec::new().into());
        }
        Ok(wrap("map", &self.path, simd::map::map(&self.file, len, &self.path))?.into())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> DiskResult<()> {
        let written = self.file.write_all_at(data, offset);
        written.map_err(|why| DiskError::new("write", &self.path, why).at_offset(offset).taking(data.len() as u64))
    }

    fn set_len(&self, len: u64) -> DiskResult<()> {
        wrap("set the length of", &self.path, self.file.set_len(len))
    }

    fn allocate(&self, offset: u64, len: u64) -> DiskResult<()> {
        let end = offset.saturating_add(len);
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), offset, len) {
            Ok(()) => Ok(()),
            // A file system without reservations: the length alone, as zeros.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) if self.len()? < end => self.set_len(end),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(why) => Err(DiskError::new("reserve room in", &self.path, why).at_offset(offset).taking(len)),
        }
    }

    fn drop_page_cache(&self, offset: u64, len: u64) {
        // Linux begins to write what is dirty and drops what is clean. It is advice: where it is refused, nothing is lost.
        let len = NonZeroU64::new(len);
        // Apple's systems take no such advice.
        #[cfg(not(target_vendor = "apple"))]
        let _ = rustix::fs::fadvise(&self.file, offset, len, rustix::fs::Advice::DontNeed);
        #[cfg(target_vendor = "apple")]
        let _ = (offset, len);
    }

    fn advise_random(&self) {
        // Advice, too.
        #[cfg(not(target_vendor = "apple"))]
        let _ = rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::Random);
    }

    fn system_file(&self) -> Option<&File> {
        Some(&self.file)
    }

    fn is_in_place(&self) -> DiskResult<bool> {
        let own = wrap("look at", &self.path, self.file.metadata())?;
        match std::fs::metadata(&self.path) {
            Ok(there) => Ok((there.dev(), there.ino()) == (own.dev(), own.ino())),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(why) => Err(DiskError::new("look at", &self.path, why)),
        }
    }

    fn sync(&self) -> DiskResult<()> {
        wrap("sync", &self.path, self.file.sync_data())
    }
}
