//! A LevelDB in Core's form: values are obfuscated with a key stored in the database itself.
//!
//! ```text
//! 0e00 "obfuscate_key" -> 08 | key [u8; 8], itself plain
//! ```
//!
//! Keys are never obfuscated. A record of another form counts as no key.
//! Source: facts of Bitcoin Core b88bffe, `CDBWrapper` in dbwrapper.cpp.

use crate::fault::{Fault, FaultKind, Result};
use crate::host::Host;
use crate::record::Obfuscation;
use crate::xor::{Key, NO_KEY};
use disk::{Disk, is_still_open};
use leveldb::{Db, Error, Options, Run, TableWriter};
use std::path::Path;

/// Key of the record that holds the obfuscation key.
pub(crate) const KEY_KEY: &[u8] = b"\x0e\0obfuscate_key";

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        let rebuild = "Restore the directory from a copy";
        match error {
            Error::Disk(why) => why.into(),
            Error::Lock(why) => why.into(),
            Error::Damaged { path, offset, wanted, found } => {
                Fault::new(FaultKind::Damaged, &path, wanted, found, rebuild).at_offset(offset).or_reindex()
            }
            Error::Missing { path, wanted_by } => {
                let wanted = format!("the file, which {wanted_by} needs");
                Fault::new(FaultKind::Damaged, &path, wanted, "nothing", rebuild).or_reindex()
            }
            Error::Exists { path } => {
                Fault::new(FaultKind::Refused, &path, "no database", "one", "Open it, or remove it first")
            }
            Error::ReadOnly { path } => Fault::new(
                FaultKind::Refused,
                &path,
                "a database open for writing",
                "one open for reading",
                "Please report this: ffwd opened it wrongly",
            ),
            Error::TooLarge { bytes, bytes_max } => {
                let wanted = format!("a record of at most {bytes_max} bytes");
                let found = format!("one of {bytes}");
                Fault::new(FaultKind::Refused, Path::new("a table"), wanted, found, "No record of Core's is so large")
            }
            Error::CompactFirst { path, level0_count } => {
                let found = format!("{level0_count} files in level 0");
                Fault::new(FaultKind::Refused, &path, "a free level", found, "Let the compaction end first")
            }
        }
    }
}

/// A database and its obfuscation key.
#[derive(Clone, Debug)]
pub(crate) struct Obfuscated {
    pub(crate) db: Db,
    pub(crate) key: Key,
}

impl Obfuscated {
    /// Opens an existing database.
    fn open_with(host: Host, dir: &Path, options: Options) -> Result<Obfuscated> {
        Obfuscated::with_stored_key(Db::open(host.disk, dir, options)?)
    }

    /// Opens an existing database for reading only, without a lock.
    pub(crate) fn open_read_only(host: Host, dir: &Path) -> Result<Obfuscated> {
        Obfuscated::with_stored_key(Db::open_read_only_with(host.disk, dir, host.kernels)?)
    }

    /// Opens a database, or creates an empty one if it is missing. The remains of a database do not count as missing.
    pub(crate) fn open_or_create(host: Host, dir: &Path) -> Result<Obfuscated> {
        Obfuscated::open_or_create_with(host, dir, true)
    }

    /// [`Obfuscated::open_or_create`] with an option: whether new tables get filters.
    pub(crate) fn open_or_create_with(host: Host, dir: &Path, has_filters: bool) -> Result<Obfuscated> {
        let options = Options { has_filters, kernels: host.kernels, ..Options::default() };
        if Db::exists(&*host.disk, dir)? {
            return Obfuscated::open_with(host, dir, options);
        }
        match Db::create(host.disk, dir, options) {
            Ok(db) => Ok(Obfuscated { db, key: NO_KEY }),
            Err(Error::Exists { path }) => {
                let path = path.join("CURRENT");
                let wanted = "the database's first file";
                let advice = "Restore the directory from a copy";
                let fault = Fault::new(FaultKind::Damaged, &path, wanted, "tables or a log without it", advice);
                Err(fault.or_reindex())
            }
            Err(why) => Err(why.into()),
        }
    }

    /// Gives an empty database its own key; one that has records or a key is left unchanged.
    pub(crate) fn obfuscate_if_empty(self, key: Key) -> Result<Obfuscated> {
        if self.key != NO_KEY || self.db.iter()?.next_record()?.is_some() {
            return Ok(self);
        }
        self.db.write(&[(KEY_KEY, Some([&[8], &key[..]].concat()))])?;
        Ok(Obfuscated { key, ..self })
    }

    fn with_stored_key(db: Db) -> Result<Obfuscated> {
        let key = match db.get(KEY_KEY)?.as_deref() {
            Some([8, key @ ..]) if key.len() == 8 => key.try_into().expect("just measured"),
            _ => NO_KEY,
        };
        Ok(Obfuscated { db, key })
    }

    /// Its key, and the kernels that apply it.
    pub(crate) fn obfuscation(&self) -> Obfuscation {
        Obfuscation { key: self.key, kernels: self.db.kernels() }
    }

    /// The plain value of `key`.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = self.db.get(key)?;
        if let Some(value) = &mut value {
            self.obfuscation().apply(value, 0);
        }
        Ok(value)
    }

    /// Reads every table block that may have records from `start` to `end`, those of replaced records too.
    pub(crate) fn read(&self, start: &[u8], end: Option<&[u8]>) -> Result<()> {
        let mut records = self.db.snapshot().range(start, end)?;
        while records.next_record()?.is_some() {}
        Ok(())
    }

    /// Commits the records that `fill` writes, about `bytes` of tables. Compacts first if needed.
    pub(crate) fn commit(&self, bytes: u64, fill: impl FnOnce(&mut RecordWriter) -> Result<()>) -> Result<()> {
        let run = self.begin(bytes)?;
        let mut writer = self.writer(&run);
        fill(&mut writer)?;
        writer.finish()?;
        Ok(self.db.commit(run)?)
    }

    /// Begins a commit of about `bytes` of tables. Compacts first if needed.
    pub(crate) fn begin(&self, bytes: u64) -> Result<Run> {
        while !self.db.has_room(bytes) {
            self.db.compact_now()?;
        }
        Ok(self.db.begin_run(bytes)?)
    }

    /// A writer for one range of keys; those of one run do not overlap.
    pub(crate) fn writer(&self, run: &Run) -> RecordWriter {
        RecordWriter { table: run.table(), obfuscation: self.obfuscation(), value: Vec::new() }
    }

    /// The fault of a record that Core would not have written.
    pub(crate) fn bad_record(&self, key: &[u8], wanted: impl Into<String>, found: impl Into<String>) -> Fault {
        let wanted = format!("{} in the record {}", wanted.into(), primitives::hex::encode(key));
        Fault::new(FaultKind::Damaged, self.db.path(), wanted, found, "Restore the directory from a copy").or_reindex()
    }
}

/// Writes records in rising order of their keys.
pub(crate) struct RecordWriter {
    table: TableWriter,
    obfuscation: Obfuscation,
    value: Vec<u8>,
}

impl RecordWriter {
    /// A record whose plain value `encode` appends.
    pub(crate) fn put(&mut self, key: &[u8], encode: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        self.value.clear();
        encode(&mut self.value);
        self.obfuscation.apply(&mut self.value, 0);
        Ok(self.table.put(key, &self.value)?)
    }

    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<()> {
        Ok(self.table.delete(key)?)
    }

    /// Writes the remaining records. A commit with a writer that was dropped without this cannot be finished.
    pub(crate) fn finish(self) -> Result<()> {
        Ok(self.table.finish()?)
    }
}

/// Empties the directory of a database in place, even a damaged one, a link, or a mount point.
///
/// The database must not be open. Its log is removed first: without the log an older state is left, whereas a log
/// without CURRENT would be replayed into the next database here. Then CURRENT is removed, after which it is not a
/// database any more, then the rest.
pub(crate) fn empty_database(disk: &dyn Disk, dir: &Path) -> Result<()> {
    if disk.metadata(dir)?.is_none() {
        return Ok(());
    }
    let _lock = disk.lock(&dir.join("LOCK"))?;
    let names = |wanted: fn(&str) -> bool| -> Result<Vec<std::path::PathBuf>> {
        let entries = disk.list(dir)?;
        let files = entries.iter().filter(|entry| !entry.is_dir && !is_still_open(&entry.name));
        Ok(files.filter(|entry| wanted(&entry.name.to_string_lossy())).map(|entry| dir.join(&entry.name)).collect())
    };
    let steps: [fn(&str) -> bool; 3] = [|name| name.ends_with(".log"), |name| name == "CURRENT", |name| name != "LOCK"];
    for step in steps {
        for path in names(step)? {
            disk.remove_file(&path)?;
        }
        disk.sync_dir_once(dir)?;
    }
    Ok(())
}
