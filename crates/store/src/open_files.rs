//! Numbered files, opened for reading; a few of those used last stay open.

use crate::fault::{Fault, Result};
use crate::layout;
use disk::{Disk, DiskFile};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Files kept open for reading, well below the 1,024 that a process usually may have.
const OPEN_FILES_MAX: usize = 64;

/// Which files, and under which names.
#[derive(Debug)]
pub(crate) enum FileNames {
    /// blk?????.dat of a directory.
    Blocks(PathBuf),
    /// rev?????.dat of a directory.
    Undo(PathBuf),
    /// A list; the index in it is the number.
    Foreign(Vec<PathBuf>),
}

/// The files of one directory or list. Shared by all threads.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) names: FileNames,
    /// The one used last is at the end.
    open: Mutex<Vec<(u32, Arc<dyn DiskFile>)>>,
}

impl OpenFiles {
    pub(crate) fn new(disk: Arc<dyn Disk>, names: FileNames) -> OpenFiles {
        OpenFiles { disk, names, open: Mutex::new(Vec::new()) }
    }

    /// Panics for a foreign file that is not in the list.
    pub(crate) fn path(&self, number: u32) -> PathBuf {
        match &self.names {
            FileNames::Blocks(dir) => layout::block_file(dir, number),
            FileNames::Undo(dir) => layout::undo_file(dir, number),
            FileNames::Foreign(paths) => paths[number as usize].clone(),
        }
    }

    pub(crate) fn open(&self, number: u32) -> Result<Arc<dyn DiskFile>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match open.iter().position(|(known, _)| *known == number) {
            Some(index) => open.remove(index).1,
            None => self.disk.open(&self.path(number)).map_err(|why| {
                let is_gone = why.is_not_found();
                let fault = Fault::from(why);
                match self.names {
                    FileNames::Foreign(_) if is_gone => fault.advise("Is the path right?"),
                    _ if is_gone => fault.advise("Put the file back, or run reindex"),
                    _ => fault,
                }
            })?,
        };
        if open.len() >= OPEN_FILES_MAX {
            open.remove(0);
        }
        open.push((number, file.clone()));
        Ok(file)
    }

    pub(crate) fn forget(&self) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
