//! Core's optional indexes: one that is damaged is made again, and none is forgotten that a rebuild removes.
//!
//! Their names lie in a private file, `ffwd/repair-indexes`, from before the first of them is removed until all are at the tip
//! again: a repair that is killed in between makes them when it is called again.
//!
//! File:  one name a line, as in the options of bitcoind

use super::Repair;
use crate::datadir::lock;
use crate::fault::Fault;
use crate::offline;
use crate::offline::doctor::{Examination, Finding, Kind};
use crate::options::IndexKind;
use store::indexes::{self, IndexDb};
use store::private_files::PrivateDir;

const NAME: &str = "repair-indexes";
/// More than all names are.
const BYTES_MAX: usize = 4096;

impl Repair<'_> {
    fn own_files(&self) -> PrivateDir {
        PrivateDir::new(self.options.disk.clone(), lock::layout(self.options).private_dir())
    }

    /// Those that an earlier run had still to make. A file that cannot be read names none.
    fn listed_indexes(&self) -> Vec<IndexKind> {
        let bytes = self.own_files().read(NAME, BYTES_MAX).ok().flatten().unwrap_or_default();
        let text = String::from_utf8(bytes).unwrap_or_default();
        IndexKind::ALL.into_iter().filter(|kind| text.lines().any(|line| line == kind.name())).collect()
    }

    /// The optional indexes that are there, or were when the repair began.
    pub(super) fn indexes(&self) -> Result<Vec<IndexKind>, Fault> {
        let layout = lock::layout(self.options);
        let mut indexes = self.listed_indexes();
        for kind in IndexKind::ALL {
            if !indexes.contains(&kind) && IndexDb::exists(&*self.options.disk, &layout, kind)? {
                indexes.push(kind);
            }
        }
        Ok(indexes)
    }

    /// Keeps their names: what comes next removes some of them.
    pub(super) fn keep_indexes(&self) -> Result<Vec<IndexKind>, Fault> {
        let indexes = self.indexes()?;
        if !indexes.is_empty() {
            let names: Vec<&str> = indexes.iter().map(|kind| kind.name()).collect();
            self.own_files().write(NAME, names.join("\n").as_bytes())?;
        }
        Ok(indexes)
    }

    pub(super) fn optional_indexes(&mut self, found: &Examination) -> Result<(), Fault> {
        let layout = lock::layout(self.options);
        let is_of = |kind: IndexKind, finding: &Finding| finding.path.starts_with(indexes::root(&layout, kind));
        let damaged = found.findings.iter().filter(|finding| finding.kind == Kind::OptionalIndexDamaged);
        let damaged: Vec<&Finding> = damaged.collect();
        for kind in IndexKind::ALL {
            if !damaged.iter().any(|finding| is_of(kind, finding)) {
                continue;
            }
            self.not_pruned(kind.name())?;
            self.keep_indexes()?;
            {
                let locked = lock::lock(self.options, self.events, false)?;
                IndexDb::remove(&*locked.disk, &locked.layout, kind)?;
            }
            if offline::index(&self.plain_options(), &[kind], self.events)?.stopped {
                return Err(Fault::Stopped);
            }
            self.done(format!("{} was made again", kind.name()));
        }
        Ok(())
    }

    /// All that were there when the repair began are brought to the tip.
    pub(super) fn finish_indexes(&mut self) -> Result<(), Fault> {
        let listed = self.listed_indexes();
        if listed.is_empty() {
            return Ok(());
        }
        if offline::index(&self.plain_options(), &listed, self.events)?.stopped {
            return Err(Fault::Stopped);
        }
        Ok(self.own_files().remove(NAME)?)
    }
}
