//! Numbered files of records, opened for reading; the most recently used stay open.
//!
//! Each file has its own key: the directory's, or no key if the file begins with the plain magic. A directory with a
//! key may contain such plain files, when xor.dat was created later, or when files were copied from a node without one.
//!
//! The name of an open file is checked from time to time. A file that was removed, moved or replaced is opened again,
//! which fails or returns the current file.

use crate::fault::{Fault, FaultKind, Result};
use crate::layout;
use crate::record::Obfuscation;
use crate::xor::{FileKeys, Key, NO_KEY};
use disk::{Bytes, Disk, DiskError, DiskFile, DiskResult};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of files kept open for reading, well below the usual limit of 1,024 for a process.
const OPEN_FILES_MAX: usize = 64;
/// Interval between two checks that an open file is still the one of its name. A check costs two system calls, compared
/// with a few microseconds for a read.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The files and their names.
#[derive(Clone, Debug)]
pub(crate) enum FileNames {
    /// blk?????.dat of a directory.
    Blocks(PathBuf),
    /// rev?????.dat of a directory.
    Undo(PathBuf),
    /// A list, each file with the key of its own directory; its index is the number.
    Foreign(Vec<(PathBuf, Key)>),
    /// Plain bytes in memory: a part of a stream, with number 0.
    Piece(Arc<Piece>),
}

/// Plain bytes of a stream, read like a file.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The stream.
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

impl Piece {
    fn not_a_file(&self, action: &'static str) -> DiskError {
        DiskError::new(action, &self.path, std::io::ErrorKind::Unsupported)
    }
}

impl DiskFile for Piece {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> DiskResult<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> DiskResult<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.bytes.len());
        let there = &self.bytes[start..];
        let count = there.len().min(buffer.len());
        buffer[..count].copy_from_slice(&there[..count]);
        Ok(count)
    }

    fn bytes(&self) -> DiskResult<Bytes> {
        Ok(Bytes::from(self.bytes.clone()))
    }

    fn write_at(&self, _: u64, _: &[u8]) -> DiskResult<()> {
        Err(self.not_a_file("write"))
    }

    fn set_len(&self, _: u64) -> DiskResult<()> {
        Err(self.not_a_file("resize"))
    }

    fn allocate(&self, _: u64, _: u64) -> DiskResult<()> {
        Err(self.not_a_file("reserve room in"))
    }

    fn drop_page_cache(&self, _: u64, _: u64) {}

    fn is_in_place(&self) -> DiskResult<bool> {
        Ok(true)
    }

    fn sync(&self) -> DiskResult<()> {
        Err(self.not_a_file("sync"))
    }
}

/// An open file of records. Reads undo its obfuscation.
#[derive(Clone, Debug)]
pub(crate) struct RecordFile {
    file: Arc<dyn DiskFile>,
    obfuscation: Obfuscation,
}

impl RecordFile {
    /// The key of this file.
    pub(crate) fn key(&self) -> Key {
        self.obfuscation.key
    }

    pub(crate) fn len(&self) -> Result<u64> {
        Ok(self.file.len()?)
    }

    /// Up to `buffer.len()` bytes at `offset`; fewer only at the end of the file.
    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let count = self.file.read_at(offset, buffer)?;
        self.obfuscation.apply(&mut buffer[..count], offset);
        Ok(count)
    }

    /// Exactly `buffer.len()` bytes at `offset`; a file that ends earlier is an error.
    pub(crate) fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(offset, buffer)?;
        self.obfuscation.apply(buffer, offset);
        Ok(())
    }

    /// See [`DiskFile::drop_page_cache`].
    pub(crate) fn drop_page_cache(&self, offset: u64, bytes: u64) {
        self.file.drop_page_cache(offset, bytes);
    }

    #[cfg(test)]
    fn text(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len().unwrap() as usize];
        self.read_exact_at(0, &mut bytes).unwrap();
        bytes
    }
}

/// The files of one directory or list. Shared by all threads.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) names: FileNames,
    /// The directory's keys; foreign files have their own.
    pub(crate) keys: FileKeys,
    /// Ordered by use; the most recently used is last.
    open: Mutex<Vec<Open>>,
    look_interval: Duration,
}

#[derive(Debug)]
struct Open {
    number: u32,
    file: RecordFile,
    looked: Instant,
}

impl OpenFiles {
    pub(crate) fn new(disk: Arc<dyn Disk>, names: FileNames, keys: FileKeys) -> OpenFiles {
        OpenFiles { disk, names, keys, open: Mutex::new(Vec::new()), look_interval: LOOK_INTERVAL }
    }

    /// The same files, with a check of the name at every read.
    pub(crate) fn seeing_names(&self) -> OpenFiles {
        let look_interval = Duration::ZERO;
        OpenFiles { look_interval, ..OpenFiles::new(self.disk.clone(), self.names.clone(), self.keys) }
    }

    /// Panics for a foreign file that is not in the list.
    pub(crate) fn path(&self, number: u32) -> PathBuf {
        match &self.names {
            FileNames::Blocks(dir) => layout::block_file(dir, number),
            FileNames::Undo(dir) => layout::undo_file(dir, number),
            FileNames::Foreign(files) => files[number as usize].0.clone(),
            FileNames::Piece(piece) => piece.path.clone(),
        }
    }

    pub(crate) fn open(&self, number: u32) -> Result<RecordFile> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let known = open.iter().position(|known| known.number == number).map(|index| open.remove(index));
        let known = match known {
            Some(known) if known.looked.elapsed() < self.look_interval => Some(known),
            Some(known) if known.file.file.is_in_place()? => Some(Open { looked: Instant::now(), ..known }),
            _ => None,
        };
        let known = match known {
            Some(known) => known,
            None => Open { number, file: self.open_by_name(number)?, looked: Instant::now() },
        };
        let file = known.file.clone();
        if open.len() >= OPEN_FILES_MAX {
            open.remove(0);
        }
        open.push(known);
        Ok(file)
    }

    fn open_by_name(&self, number: u32) -> Result<RecordFile> {
        if let FileNames::Piece(piece) = &self.names {
            return Ok(RecordFile { file: piece.clone(), obfuscation: self.keys.with(NO_KEY).obfuscation });
        }
        let path = self.path(number);
        let file = self.disk.open(&path).map_err(|why| {
            if let Some(target) = self.disk.read_link(&path).ok().flatten().filter(|_| why.is_not_found()) {
                let found = format!("a link to {}, which is not there", target.display());
                let advice = "Mount the drive that it leads to, or put the file back";
                return Fault::new(FaultKind::Missing, &path, "the file", found, advice).or_reindex();
            }
            let is_gone = why.is_not_found();
            let fault = Fault::from(why);
            match self.names {
                FileNames::Foreign(_) if is_gone => fault.advise("Is the path right?"),
                _ if is_gone => fault.advise("Put the file back").or_reindex(),
                _ => fault,
            }
        })?;
        let key = match &self.names {
            FileNames::Foreign(files) => files[number as usize].1,
            FileNames::Blocks(_) | FileNames::Undo(_) | FileNames::Piece(_) => self.keys.obfuscation.key,
        };
        let obfuscation = self.keys.with(key).of(&*file)?;
        Ok(RecordFile { file, obfuscation })
    }

    pub(crate) fn forget(&self) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::FaultKind;
    use disk::SimDisk;
    use kernels::Kernels;

    #[test]
    fn open_file_that_was_removed_or_replaced_is_opened_again() {
        let (disk, dir) = (SimDisk::new(0).shared(), Path::new("/blocks"));
        disk.create_dir_all(dir).unwrap();
        let (name, aside) = (dir.join("blk00000.dat"), dir.join("aside"));
        let write = |path: &Path, text: &[u8]| disk.create(path).unwrap().write_at(0, text).unwrap();
        write(&name, b"first");
        let names = FileNames::Blocks(dir.to_path_buf());
        let files = OpenFiles::new(disk.clone(), names, FileKeys::NONE).seeing_names();
        let read = || files.open(0).map(|file| file.text());
        assert_eq!(read().unwrap(), b"first");
        disk.rename(&name, &aside).unwrap();
        let why = read().unwrap_err();
        assert_eq!((why.kind(), &why.detail().path), (FaultKind::Missing, &name));
        assert!(why.to_string().contains("Put the file back"), "{why}");
        write(&name, b"another");
        assert_eq!(read().unwrap(), b"another");
        disk.rename(&aside, &name).unwrap();
        assert_eq!(read().unwrap(), b"first");
    }

    #[test]
    fn open_file_is_not_looked_for_at_every_read() {
        let sim = SimDisk::new(0);
        sim.shared().create_dir_all(Path::new("/blocks")).unwrap();
        drop(sim.shared().create(Path::new("/blocks/blk00000.dat")).unwrap());
        let files = OpenFiles::new(sim.shared(), FileNames::Blocks("/blocks".into()), FileKeys::NONE);
        files.open(0).unwrap();
        let before = sim.reads();
        (0..100).for_each(|_| drop(files.open(0).unwrap()));
        assert!(sim.reads() - before < 2, "a hundred reads within a moment");
    }

    #[test]
    fn plain_file_beside_a_key_is_read_as_it_is() {
        let (disk, dir) = (SimDisk::new(0).shared(), Path::new("/blocks"));
        disk.create_dir_all(dir).unwrap();
        let (magic, key) = ([0xfa, 0xbf, 0xb5, 0xda], [1, 2, 3, 4, 5, 6, 7, 8]);
        let record = b"\xfa\xbf\xb5\xda and what follows";
        let mut hidden = record.to_vec();
        kernels::xor::xor(&mut hidden, key, 0);
        for (number, bytes) in [(0, record.as_slice()), (1, &hidden)] {
            disk.create(&layout::block_file(dir, number)).unwrap().write_at(0, bytes).unwrap();
        }
        let files =
            OpenFiles::new(disk, FileNames::Blocks(dir.to_path_buf()), FileKeys::new(key, magic, Kernels::AUTO));
        let opened = [0, 1].map(|number| files.open(number).unwrap());
        assert_eq!(opened.each_ref().map(RecordFile::key), [NO_KEY, key]);
        for (number, file) in opened.iter().enumerate() {
            assert_eq!(file.text(), record, "file {number}");
            let mut part = [0; 5];
            assert_eq!((file.read_at(record.len() as u64 - 7, &mut part).unwrap(), &part), (5, b"follo"));
        }
    }
}
