//! A file in memory, for data that is written like a file but never to a disk.

use super::{Bytes, DiskFile, DiskResult};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A file in memory, freed when it is dropped. Its operations never fail.
#[derive(Debug, Default)]
pub struct MemoryFile {
    path: PathBuf,
    bytes: Mutex<Vec<u8>>,
}

impl MemoryFile {
    /// An empty file; `name` appears in errors of its readers.
    pub fn new(name: &str) -> MemoryFile {
        MemoryFile { path: PathBuf::from(name), bytes: Mutex::default() }
    }

    fn contents(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in memory: data beyond it was never written.
fn place(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

impl DiskFile for MemoryFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> DiskResult<u64> {
        Ok(self.contents().len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> DiskResult<usize> {
        let bytes = self.contents();
        let rest = bytes.get(place(offset)..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn bytes(&self) -> DiskResult<Bytes> {
        Ok(Bytes::from(self.contents().clone()))
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> DiskResult<()> {
        let mut bytes = self.contents();
        let start = place(offset);
        let end = start + data.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[start..end].copy_from_slice(data);
        Ok(())
    }

    fn set_len(&self, len: u64) -> DiskResult<()> {
        self.contents().resize(place(len), 0);
        Ok(())
    }

    fn allocate(&self, offset: u64, len: u64) -> DiskResult<()> {
        let mut bytes = self.contents();
        let end = place(offset) + place(len);
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        Ok(())
    }

    fn drop_page_cache(&self, _offset: u64, _len: u64) {}

    fn is_in_place(&self) -> DiskResult<bool> {
        Ok(true)
    }

    fn sync(&self) -> DiskResult<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_file_grows_with_zeros_and_is_read_to_its_end() {
        let file = MemoryFile::new("table");
        file.write_at(3, b"abc").unwrap();
        assert_eq!(&*file.bytes().unwrap(), b"\0\0\0abc");
        file.allocate(4, 4).unwrap();
        file.set_len(7).unwrap();
        let mut buffer = [9; 4];
        assert_eq!((file.read_at(4, &mut buffer).unwrap(), buffer), (3, [b'b', b'c', 0, 9]));
        assert_eq!((file.read_at(99, &mut buffer).unwrap(), file.len().unwrap()), (0, 7));
        assert!(file.read_exact_at(6, &mut buffer).is_err() && file.is_in_place().unwrap());
        assert_eq!(file.path(), Path::new("table"));
    }
}
