//! Recovery of a directory's state: CURRENT, the manifest, the tables, and logs not yet in tables.
//!
//! Nothing here writes. The records of a log become a table in memory, the newest of level 0; an opening for writing
//! puts it into a file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::build::{Part, Sink, finish};
use crate::coding::{KIND_DELETED, KIND_VALUE, Reader, SEQUENCE_MAX};
use crate::edit::{FileMeta, LEVELS, VersionState};
use crate::error::{Damage, Error, Result};
use crate::format::RECORD_BYTES_MAX;
use crate::log::LogReader;
use crate::names::{CURRENT, Name};
use crate::version::{Shared, TableFile, Version};
use disk::{DirEntry, MemoryFile};

/// CURRENT holds one short name.
const CURRENT_BYTES_MAX: u64 = 1024;

/// The bytes of a table, with its manifest entry.
pub(crate) type MemoryTable = (FileMeta, Vec<u8>);

/// The recovered state of a directory.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) version: Version,
    /// The records of the logs.
    pub(crate) from_logs: Option<MemoryTable>,
    pub(crate) last_sequence: u64,
}

/// Reads a directory. Raises `shared.next_file` above every number in it.
pub(crate) fn recover(shared: &Arc<Shared>, has_filters: bool) -> Result<Recovered> {
    let entries = shared.disk.list(&shared.dir)?;
    let manifest_path = manifest_named(shared)?;
    let manifest = shared.disk.open(&manifest_path).map_err(|why| missing(why, "CURRENT"))?;
    let state = VersionState::read(&manifest.bytes()?).map_err(|why| why.of(&manifest_path))?;
    let names = || entries.iter().filter_map(|entry| Name::parse(&entry.name));
    let used = names().map(Name::number).chain([state.log_number, state.prev_log_number]);
    let greatest = used.chain([state.next_file.saturating_sub(1)]).max().unwrap_or(0);
    let next_file = greatest
        .checked_add(1)
        .filter(|next| *next < 1 << 60)
        .ok_or_else(|| Damage::new(0, "file numbers below 2^60", greatest.to_string()).of(&manifest_path))?;
    shared.next_file.store(next_file, Ordering::Relaxed);

    let mut logs: Vec<u64> = names()
        .filter_map(|name| match name {
            Name::Log(number) => Some(number),
            _ => None,
        })
        .filter(|number| *number >= state.log_number || *number == state.prev_log_number)
        .collect();
    logs.sort_unstable();
    let version = Version::new(tables(shared, &entries, &state)?, &manifest_path)?;
    let (from_logs, last) = replay(shared, &logs, has_filters)?;
    Ok(Recovered { version, from_logs, last_sequence: last.max(state.last_sequence) })
}

fn missing(why: disk::DiskError, wanted_by: &str) -> Error {
    if why.is_not_found() {
        return Error::Missing { path: why.path, wanted_by: wanted_by.to_owned() };
    }
    why.into()
}

/// The manifest that CURRENT names.
pub(crate) fn manifest_named(shared: &Shared) -> Result<PathBuf> {
    let path = shared.dir.join(CURRENT);
    let file = shared.disk.open(&path).map_err(|why| missing(why, "the database"))?;
    let damaged = |found: String| Damage::new(0, "a manifest's name and the end of the line", found).of(&path);
    let len = file.len()?;
    if len > CURRENT_BYTES_MAX {
        return Err(damaged(format!("{len} bytes")));
    }
    let mut text = vec![0; usize::try_from(len).expect("bounded above")];
    file.read_exact_at(0, &mut text)?;
    let name = text.strip_suffix(b"\n").and_then(|name| std::str::from_utf8(name).ok());
    match name.map(|name| (name, Name::parse(name.as_ref()))) {
        Some((name, Some(Name::Manifest(_)))) => Ok(shared.dir.join(name)),
        _ => Err(damaged(format!("{:?}", String::from_utf8_lossy(&text)))),
    }
}

/// The tables of the state; each must exist with the length in the manifest.
fn tables(shared: &Arc<Shared>, entries: &[DirEntry], state: &VersionState) -> Result<[Vec<Arc<TableFile>>; LEVELS]> {
    let mut names = BTreeMap::new();
    for entry in entries {
        if let Some(Name::Table(number)) = Name::parse(&entry.name) {
            // If both names exist, LevelDB opens the .ldb file, so it is tried first.
            names.entry(number).or_insert_with(|| shared.dir.join(&entry.name));
        }
    }
    let mut levels = [const { Vec::new() }; LEVELS];
    for (level, files) in state.levels.iter().enumerate() {
        for meta in files.values() {
            let path = names
                .get(&meta.number)
                .cloned()
                .unwrap_or_else(|| shared.dir.join(Name::Table(meta.number).to_string()));
            let wanted_by = || format!("level {level} of the manifest");
            let len = shared
                .disk
                .metadata(&path)?
                .map(|known| known.len)
                .ok_or_else(|| Error::Missing { path: path.clone(), wanted_by: wanted_by() })?;
            if len != meta.bytes {
                let wanted = format!("{} bytes, as the manifest says", meta.bytes);
                return Err(Damage::new(len, wanted, format!("{len} bytes")).of(&path));
            }
            levels[level].push(Arc::new(TableFile::new(shared, meta.clone(), path)));
        }
    }
    Ok(levels)
}

/// The newest record of each key: its tag and value.
type Memory<'a> = BTreeMap<&'a [u8], (u64, &'a [u8])>;

/// Reads the logs, oldest first, into a table with or without filters; also returns their greatest sequence number.
fn replay(shared: &Arc<Shared>, logs: &[u64], has_filters: bool) -> Result<(Option<MemoryTable>, u64)> {
    let mut files = Vec::new();
    for number in logs {
        let path = shared.dir.join(Name::Log(*number).to_string());
        let bytes = shared.disk.open(&path)?.bytes()?;
        files.push((path, bytes));
    }
    let mut batches = Vec::new();
    for (path, bytes) in &files {
        let mut reader = LogReader::new(bytes);
        while let Some((at, batch)) = reader.next().map_err(|why| why.of(path))? {
            batches.push((path, at, batch));
        }
    }
    let mut memory = Memory::new();
    let mut last = 0;
    for (path, at, batch) in &batches {
        let done = read_batch(batch, &mut memory).ok_or_else(|| {
            let wanted = "a batch of puts and deletes as long as its count says";
            Damage::new(*at, wanted, format!("{} other bytes", batch.len())).of(path)
        })?;
        last = last.max(done);
    }
    if memory.is_empty() {
        return Ok((None, last));
    }
    Ok((Some(table_of(shared, &memory, has_filters)?), last))
}

/// Adds one write batch to `memory`; returns its last sequence number, or `None` if it is malformed.
///
/// Batch:  sequence u64 LE | count u32 LE | (1 key value | 0 key)*
fn read_batch<'a>(batch: &'a [u8], memory: &mut Memory<'a>) -> Option<u64> {
    let mut reader = Reader(batch);
    let first = reader.fixed64()?;
    let count = reader.fixed32()?;
    let mut sequence = first;
    while !reader.is_empty() {
        let (kind, key, value) = match reader.byte()? {
            1 => (KIND_VALUE, reader.slice()?, reader.slice()?),
            0 => (KIND_DELETED, reader.slice()?, &[][..]),
            _ => return None,
        };
        if sequence > SEQUENCE_MAX || key.len() + value.len() > RECORD_BYTES_MAX {
            return None;
        }
        let record = (sequence << 8 | kind, value);
        let newest = memory.entry(key).or_insert(record);
        if newest.0 < record.0 {
            *newest = record;
        }
        sequence += 1;
    }
    let is_whole = sequence - first == u64::from(count);
    is_whole.then_some(sequence.saturating_sub(1).min(SEQUENCE_MAX))
}

/// A table in memory, with the number reserved for its file.
fn table_of(shared: &Shared, memory: &Memory<'_>, has_filters: bool) -> Result<MemoryTable> {
    let sink = Sink::new(Arc::new(MemoryFile::new("table")), false);
    let mut part = Part::new(has_filters, shared.kernels);
    for (key, (tag, value)) in memory {
        part.put(key, *tag, value);
    }
    part.close();
    part.write_piece(&sink)?;
    let done = finish(&sink, &[part])?;
    let meta =
        FileMeta { number: shared.take_number(), bytes: done.bytes, smallest: done.smallest, largest: done.largest };
    Ok((meta, sink.file.bytes()?.to_vec()))
}
