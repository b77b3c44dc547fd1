//! The last resort: rebuilds index and coins from the block files, then fetches missing blocks from peers.
//!
//! The old index and coins are moved to `ffwd/repair` until the rebuild is done. After a kill they stay there: the next
//! repair finds index and coins missing, and continues.

use super::Repair;
use crate::datadir::lock;
use crate::fault::Fault;
use crate::offline;
use crate::options::Options;
use std::path::Path;

impl Repair<'_> {
    /// Rebuilds everything except the block files.
    pub(super) fn whole(&mut self, why: &str) -> Result<(), Fault> {
        self.not_pruned("the block index")?;
        {
            let locked = lock::lock(self.options, self.events, true)?;
            let disk = &*locked.disk;
            let aside = self.aside();
            disk.create_dir_all(&aside).map_err(store::Fault::from)?;
            let move_away = |from: &Path, name: &str| -> Result<(), store::Fault> {
                let to = aside.join(name);
                if disk.metadata(from)?.is_some() && disk.metadata(&to)?.is_none() {
                    disk.rename(from, &to)?;
                    disk.sync_dir_once(&aside)?;
                    disk.sync_dir_once(from.parent().unwrap_or(Path::new(".")))?;
                }
                Ok(())
            };
            move_away(&locked.layout.chainstate_dir(), "chainstate")?;
            move_away(&locked.layout.index_dir(), "index")?;
        }
        self.done(format!("Index and UTXO set are made again from the block files: {why}"));
        self.whole_reindex()
    }

    /// Reindexes, including the existing optional indexes; a sync fetches missing blocks at the end.
    pub(super) fn whole_reindex(&mut self) -> Result<(), Fault> {
        let indexes = self.keep_indexes()?;
        let options = Options { indexes, ..self.plain_options() };
        offline::reindex(&options, false, self.events)?;
        self.wants_sync = true;
        self.done("The block files were indexed, and their chain was connected");
        Ok(())
    }
}
