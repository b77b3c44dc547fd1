//! The manifest while a database is open for writing: edits are appended, or a new file is begun.
//!
//! Only the process that began a manifest appends to it, and only as long as every write and sync succeeded: LevelDB
//! reads nothing after a torn record. So every opening, and the first edit after a failed one, begins a new manifest:
//! written, synced, CURRENT renamed, directory synced, and only then the old one removed.

use std::sync::Arc;

use crate::edit::{COMPARATOR, Edit};
use crate::error::Result;
use crate::log::put_record;
use crate::names::{CURRENT, Name};
use crate::version::{Shared, TableFile, Version};
use disk::{Appender, DiskResult};

/// The part of a database's state that edits change, and their file.
#[derive(Debug)]
pub(crate) struct Manifest {
    /// `None`: begin a new manifest before the next edit.
    file: Option<Appender>,
    /// Logs below this number are in tables.
    pub(crate) log_number: u64,
    pub(crate) last_sequence: u64,
    /// Tables of failed edits. The disk may have them as committed until a new manifest replaces the old, so they are
    /// kept until then.
    limbo: Vec<Arc<TableFile>>,
}

impl Manifest {
    pub(crate) fn new(log_number: u64, last_sequence: u64) -> Manifest {
        Manifest { file: None, log_number, last_sequence, limbo: Vec::new() }
    }

    /// Ensures that an edit can be appended; `version` is the state without it.
    pub(crate) fn make_ready(&mut self, shared: &Shared, version: &Version) -> Result<()> {
        if self.file.is_none() {
            self.begin(shared, version)?;
        }
        Ok(())
    }

    /// Appends an edit and makes it durable. If that fails, the edit may or may not be on the disk: its new tables
    /// `added` are kept, and the next edit begins a new manifest.
    pub(crate) fn append(&mut self, edit: &Edit, added: &[Arc<TableFile>]) -> Result<()> {
        let mut file = self.file.take().expect("made ready before");
        let mut record = Vec::new();
        put_record(&mut record, file.offset(), &edit.encode());
        if let Err(why) = file.write_all(&record).and_then(|()| file.sync()) {
            self.limbo.extend_from_slice(added);
            return Err(why.into());
        }
        self.file = Some(file);
        self.last_sequence = edit.last_sequence.unwrap_or(self.last_sequence);
        Ok(())
    }

    /// Begins a new manifest with the whole state.
    pub(crate) fn begin(&mut self, shared: &Shared, version: &Version) -> Result<()> {
        self.file = None;
        let number = shared.take_number();
        let state = Edit {
            comparator: Some(COMPARATOR.into()),
            log_number: Some(self.log_number),
            prev_log_number: Some(0),
            next_file: Some(shared.next_file.load(std::sync::atomic::Ordering::Relaxed)),
            last_sequence: Some(self.last_sequence),
            deleted: Vec::new(),
            added: version.files().map(|(level, file)| (level, file.meta.clone())).collect(),
        };
        let file = match write_new(shared, number, &state) {
            Ok(file) => file,
            Err(why) => {
                // CURRENT does not name it yet.
                let _ = shared.disk.remove_file(&shared.dir.join(Name::Manifest(number).to_string()));
                return Err(why.into());
            }
        };
        set_current(shared, number)?;
        self.file = Some(file);
        for file in self.limbo.drain(..) {
            file.set_obsolete();
        }
        remove_others(shared, number);
        Ok(())
    }
}

fn write_new(shared: &Shared, number: u64, state: &Edit) -> DiskResult<Appender> {
    let path = shared.dir.join(Name::Manifest(number).to_string());
    let mut file = Appender::new(shared.disk.create(&path)?, 0);
    let mut record = Vec::new();
    put_record(&mut record, 0, &state.encode());
    file.write_all(&record)?;
    file.sync()?;
    // The name must be durable before CURRENT refers to it, because the system may write in any order.
    shared.disk.sync_dir(&shared.dir)?;
    Ok(file)
}

/// Names the manifest in CURRENT. After an error CURRENT may name either manifest.
fn set_current(shared: &Shared, number: u64) -> DiskResult<()> {
    let temporary = shared.dir.join(Name::Temporary(number).to_string());
    let written = (|| {
        let mut file = Appender::new(shared.disk.create(&temporary)?, 0);
        file.write_all(format!("{}\n", Name::Manifest(number)).as_bytes())?;
        file.sync()?;
        shared.disk.rename(&temporary, &shared.dir.join(CURRENT))
    })();
    if let Err(why) = written {
        let _ = shared.disk.remove_file(&temporary);
        return Err(why);
    }
    shared.disk.sync_dir(&shared.dir)
}

/// Removes all other manifests, and temporary files of CURRENT. Files that cannot be removed now are removed later.
fn remove_others(shared: &Shared, number: u64) {
    let Ok(entries) = shared.disk.list(&shared.dir) else {
        return;
    };
    for entry in entries {
        let is_stale = match Name::parse(&entry.name) {
            Some(Name::Manifest(other)) => other != number,
            Some(Name::Temporary(_)) => true,
            _ => false,
        };
        if is_stale {
            let _ = shared.disk.remove_file(&shared.dir.join(&entry.name));
        }
    }
}
