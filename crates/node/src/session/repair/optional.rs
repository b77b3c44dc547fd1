//! Core's optional indexes: rebuilds damaged ones, and remembers those that a rebuild removes.
//!
//! Their names are kept in a private file, `ffwd/repair-indexes`, from before the first is removed until all are at the
//! tip again. So a repair that was killed in between rebuilds them when it runs again.
//!
//! File: one name per line, as in bitcoind's options.

use super::Repair;
use crate::datadir::lock;
use crate::fault::Fault;
use crate::offline;
use crate::offline::doctor::{Examination, Finding, Kind};
use crate::options::IndexKind;
use std::path::Path;
use store::FaultKind;
use store::indexes::{self, IndexDb};
use store::private_files::PrivateDir;
use store::restore;

const NAME: &str = "repair-indexes";
/// Maximum size of that file in bytes, larger than all names together.
const BYTES_MAX: usize = 4096;

impl Repair<'_> {
    fn own_files(&self) -> PrivateDir {
        PrivateDir::new(self.options.disk.clone(), lock::layout(self.options).private_dir())
    }

    /// The indexes that an earlier run still had to rebuild; empty if the file cannot be read.
    fn listed_indexes(&self) -> Vec<IndexKind> {
        let bytes = self.own_files().read(NAME, BYTES_MAX).ok().flatten().unwrap_or_default();
        let text = String::from_utf8(bytes).unwrap_or_default();
        IndexKind::ALL.into_iter().filter(|kind| text.lines().any(|line| line == kind.name())).collect()
    }

    /// The optional indexes that exist, or existed when the repair began.
    fn indexes(&self) -> Result<Vec<IndexKind>, Fault> {
        let layout = lock::layout(self.options);
        let mut indexes = self.listed_indexes();
        for kind in IndexKind::ALL {
            if !indexes.contains(&kind) && IndexDb::exists(&*self.options.disk, &layout, kind)? {
                indexes.push(kind);
            }
        }
        Ok(indexes)
    }

    /// Stores their names, and those of damaged ones, because the next step removes some of them.
    pub(super) fn keep_indexes(&self, damaged: &[IndexKind]) -> Result<Vec<IndexKind>, Fault> {
        let mut indexes = self.indexes()?;
        let new: Vec<IndexKind> = damaged.iter().copied().filter(|kind| !indexes.contains(kind)).collect();
        indexes.extend(new);
        if !indexes.is_empty() {
            let names: Vec<&str> = indexes.iter().map(|kind| kind.name()).collect();
            self.own_files().write(NAME, names.join("\n").as_bytes())?;
        }
        Ok(indexes)
    }

    /// The indexes that are damaged.
    pub(super) fn damaged(&self, found: &Examination) -> Vec<IndexKind> {
        let layout = lock::layout(self.options);
        let damaged = found.findings.iter().filter(|finding| finding.kind == Kind::OptionalIndexDamaged);
        let damaged: Vec<&Finding> = damaged.collect();
        let is_of = |kind: IndexKind, finding: &Finding| finding.path.starts_with(indexes::root(&layout, kind));
        IndexKind::ALL.into_iter().filter(|&kind| damaged.iter().any(|finding| is_of(kind, finding))).collect()
    }

    /// The index whose damage ended a step.
    pub(super) fn index_of(&self, why: &Fault) -> Option<IndexKind> {
        let Fault::Store(fault) = why else { return None };
        if !matches!(fault.kind(), FaultKind::Damaged | FaultKind::Missing) {
            return None;
        }
        let layout = lock::layout(self.options);
        let path = &fault.detail().path;
        IndexKind::ALL.into_iter().find(|&kind| path.starts_with(indexes::root(&layout, kind)))
    }

    /// Removes damaged indexes before a step that opens them; they are made again at the end. Returns all indexes that
    /// will be there.
    pub(super) fn remove_damaged(&mut self, damaged: &[IndexKind]) -> Result<Vec<IndexKind>, Fault> {
        let indexes = self.keep_indexes(damaged)?;
        for &kind in damaged {
            self.not_pruned(kind.name())?;
            self.remove_index(kind)?;
            self.done(format!("{} was damaged, and is made again", kind.name()));
        }
        Ok(indexes)
    }

    fn remove_index(&self, kind: IndexKind) -> Result<(), Fault> {
        let locked = lock::lock(self.options, self.events, false)?;
        Ok(IndexDb::remove(&*locked.disk, &locked.layout, kind)?)
    }

    pub(super) fn optional_indexes(&mut self, found: &Examination) -> Result<(), Fault> {
        let damaged = self.damaged(found);
        for &kind in &damaged {
            self.not_pruned(kind.name())?;
            self.keep_indexes(&damaged)?;
            self.remove_index(kind)?;
            self.make_indexes(&[kind])?;
            self.done(format!("{} was made again", kind.name()));
        }
        if damaged.contains(&IndexKind::BlockFilter) {
            return Ok(());
        }
        self.filter_files(found)
    }

    /// Rebuilds damaged filter files from the blocks. An existing file is moved aside first, because opening the index
    /// rebuilds only missing files.
    fn filter_files(&mut self, found: &Examination) -> Result<(), Fault> {
        let damaged = found.findings.iter().filter(|finding| finding.kind == Kind::FilterFileDamaged);
        let paths: Vec<&Path> = damaged.map(|finding| finding.path.as_path()).collect();
        if paths.is_empty() {
            return Ok(());
        }
        {
            let locked = lock::lock(self.options, self.events, false)?;
            let is_there = |path: &&Path| matches!(locked.disk.metadata(path), Ok(Some(_)));
            for path in paths.iter().copied().filter(is_there) {
                let went = restore::aside(&*locked.disk, &locked.layout, path)?;
                self.done(format!("{}: moved aside to {}", path.display(), went.display()));
            }
        }
        self.make_indexes(&[IndexKind::BlockFilter])?;
        self.done(format!("{} files of block filters were made again", paths.len()));
        Ok(())
    }

    /// Brings these indexes to the tip. Without blocks they are removed, and begin with the first one.
    fn make_indexes(&self, kinds: &[IndexKind]) -> Result<(), Fault> {
        if self.known_index().is_none_or(|loaded| loaded.entries.is_empty()) {
            return kinds.iter().try_for_each(|&kind| self.remove_index(kind));
        }
        if offline::index(&self.plain_options(), kinds, self.events)?.stopped {
            return Err(Fault::Stopped);
        }
        Ok(())
    }

    /// Rebuilds all optional indexes that existed when the repair began, up to the tip.
    pub(super) fn finish_indexes(&mut self) -> Result<(), Fault> {
        let listed = self.listed_indexes();
        if listed.is_empty() {
            return Ok(());
        }
        self.make_indexes(&listed)?;
        Ok(self.own_files().remove(NAME)?)
    }
}
