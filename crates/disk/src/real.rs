//! The machine's own file system.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::lock::holder_of;
use super::{
    Bytes, DirEntry, Disk, DiskError, DiskFile, DiskResult, LockError, LockGuard, Metadata, Rights, lock_file,
};
use crate::regular::open_regular;
use crate::system;

/// The machine's own file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl RealDisk {
    /// The disk as a trait object.
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

    fn is_pipe(&self, path: &Path) -> DiskResult<bool> {
        // Checked by its name: a pipe that is opened and closed again loses its writer.
        match std::fs::metadata(path) {
            Ok(known) => Ok(!known.is_file() && !known.is_dir()),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(why) => Err(DiskError::new("look for", path, why)),
        }
    }

    fn open_pipe(&self, path: &Path) -> DiskResult<Box<dyn io::Read + Send>> {
        Ok(Box::new(wrap("open", path, File::open(path))?))
    }

    fn open_pipe_to_write(&self, path: &Path) -> DiskResult<Option<Box<dyn io::Write + Send>>> {
        let opened = system::open_pipe_to_write(path);
        Ok(wrap("open for writing", path, opened)?.map(|file| Box::new(file) as Box<dyn io::Write + Send>))
    }

    fn create(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>> {
        opened("create", path, OpenOptions::new().read(true).write(true).create_new(true))
    }

    fn modify(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>> {
        opened("open for writing", path, OpenOptions::new().read(true).write(true))
    }

    fn append(&self, path: &Path) -> DiskResult<Box<dyn io::Write + Send>> {
        // Any kind of file, because debug.log may be a link to /dev/null; but this does not wait for a reader of a
        // FIFO.
        let file = system::without_waiting(OpenOptions::new().create(true).append(true)).open(path);
        Ok(Box::new(wrap("open for appending", path, file)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> DiskResult<()> {
        wrap("rename", from, std::fs::rename(from, to))
    }

    fn exchange(&self, a: &Path, b: &Path) -> DiskResult<()> {
        wrap("exchange", a, system::exchange(a, b))
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

    fn list(&self, path: &Path) -> DiskResult<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in wrap("list", path, std::fs::read_dir(path))? {
            let entry = wrap("list", path, entry)?;
            let is_dir = wrap("look at", &entry.path(), entry.file_type())?.is_dir();
            entries.push(DirEntry { name: entry.file_name(), is_dir });
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

    fn read_link(&self, path: &Path) -> DiskResult<Option<PathBuf>> {
        match std::fs::read_link(path) {
            Ok(target) => Ok(Some(target)),
            // InvalidInput: not a link.
            Err(why) if matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) => Ok(None),
            Err(why) => Err(DiskError::new("look at", path, why)),
        }
    }

    fn rights(&self, path: &Path) -> Rights {
        system::rights(path)
    }

    fn sync_dir(&self, path: &Path) -> DiskResult<()> {
        self.can_sync_dir(path).map(drop)
    }

    fn can_sync_dir(&self, path: &Path) -> DiskResult<bool> {
        wrap("sync the names in", path, system::sync_dir(path))
    }

    fn free_space_bytes(&self, path: &Path) -> DiskResult<u64> {
        wrap("look at", path, system::free_space_bytes(path))
    }

    fn free_inodes(&self, path: &Path) -> DiskResult<Option<u64>> {
        wrap("look at", path, system::free_inodes(path))
    }

    fn unnamed_file(&self, dir: &Path, bytes: u64) -> DiskResult<File> {
        let made = system::unnamed_file(dir).and_then(|file| match system::reserve(&file, 0, bytes)? {
            true => Ok(file),
            false => Err(io::ErrorKind::Unsupported.into()),
        });
        wrap("create a file without a name in", dir, made)
    }

    fn lock(&self, path: &Path) -> Result<LockGuard, LockError> {
        lock_file(path)
    }

    fn lock_holder(&self, path: &Path) -> Option<LockError> {
        holder_of(path)
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
            match system::read_at(&self.file, &mut buffer[done..], offset + done as u64) {
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
        let map = sys::map::map(&self.file, len, &self.path).map_err(|why| match sys::map::is_not_mappable(&why) {
            true => io::Error::new(io::ErrorKind::Unsupported, format!("{why}: the file system cannot map files")),
            false => why,
        });
        Ok(wrap("map", &self.path, map)?.into())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> DiskResult<()> {
        let written = system::write_all_at(&self.file, data, offset);
        written.map_err(|why| DiskError::new("write", &self.path, why).at_offset(offset).taking(data.len() as u64))
    }

    fn set_len(&self, len: u64) -> DiskResult<()> {
        wrap("set the length of", &self.path, self.file.set_len(len))
    }

    fn allocate(&self, offset: u64, len: u64) -> DiskResult<()> {
        let reserved = system::reserve(&self.file, offset, len);
        let reserved =
            reserved.map_err(|why| DiskError::new("reserve room in", &self.path, why).at_offset(offset).taking(len))?;
        // A file system without reservations: only the length, as zeros.
        let end = offset.saturating_add(len);
        if !reserved && self.len()? < end { self.set_len(end) } else { Ok(()) }
    }

    fn drop_page_cache(&self, offset: u64, len: u64) {
        system::drop_page_cache(&self.file, offset, len);
    }

    fn advise_random(&self) {
        system::advise_random(&self.file);
    }

    fn system_file(&self) -> Option<&File> {
        Some(&self.file)
    }

    fn is_in_place(&self) -> DiskResult<bool> {
        let own = wrap("look at", &self.path, system::id_of(&self.file, &self.path))?;
        match system::id_at(&self.path) {
            Ok(there) => Ok(there == own),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(why) => Err(DiskError::new("look at", &self.path, why)),
        }
    }

    fn sync(&self) -> DiskResult<()> {
        wrap("sync", &self.path, self.file.sync_data())
    }
}
