//! The last resort: rebuilds index and coins from the block files, then fetches missing blocks from peers.
//!
//! It begins like any reindex, and is stored as one before anything is removed: after a kill the next repair goes on with
//! it, and bitcoind could, unless the index was damaged. An empty directory `ffwd/repair` says until the end that a sync
//! is still due.
//!
//! A directory without blocks, in which none was ever connected, has nothing to rebuild: its index and coins are emptied.

use super::Repair;
use super::blocks::Opened;
use crate::chain::tree::NodeId;
use crate::datadir::lock;
use crate::fault::Fault;
use crate::offline;
use crate::offline::doctor::Examination;
use crate::options::{IndexKind, Options};
use crate::reporting::Reporter;
use crate::reporting::log::Log;
use store::FaultKind;
use store::chainstate::{self, Chainstate};
use store::index::BlockTreeDb;

impl Repair<'_> {
    /// Rebuilds everything except the block files.
    pub(super) fn whole(&mut self, why: &str) -> Result<(), Fault> {
        if self.begin_anew()? {
            return Ok(());
        }
        self.not_pruned("the block index")?;
        {
            let locked = lock::lock(self.options, self.events, true)?;
            let reporter = Reporter::new(self.events, Log::none(), &self.options.stop);
            // By this directory the next repair knows that a sync is still due.
            reporter.with_room(|| locked.disk.create_dir_all(&self.aside()).map_err(store::Fault::from))?;
            reporter.with_room(|| store::reindex::announce(&locked.host, &locked.layout))?;
        }
        self.done(format!("Index and UTXO set are made again from the block files: {why}"));
        self.whole_reindex(&[])
    }

    /// Empties index and coins if there is no block file, and nothing else shows that a block was ever connected. Returns
    /// whether that was so.
    pub(super) fn begin_anew(&mut self) -> Result<bool, Fault> {
        let locked = lock::lock(self.options, self.events, false)?;
        if !locked.files.numbers()?.there.is_empty() {
            return Ok(false);
        }
        let was_used = match self.known_index() {
            Some(loaded) => offline::doctor::has_connected(&loaded),
            None => !self.are_coins_empty(),
        };
        // A snapshot whose coins can be read is worth more than an index.
        let snapshot = Chainstate::open_read_only(self.options.host(), &locked.layout.snapshot_dir());
        if was_used || snapshot.is_ok_and(|coins| coins.best_block().is_ok()) {
            return Ok(false);
        }
        let disk = &*locked.disk;
        chainstate::remove_snapshot(disk, &locked.layout)?;
        chainstate::empty(disk, &locked.layout)?;
        BlockTreeDb::empty(disk, &locked.layout)?;
        drop(locked);
        self.is_anew = true;
        self.wants_sync = true;
        self.done("No block is stored here yet: the block index and the UTXO set were emptied");
        Ok(true)
    }

    /// Removes a snapshot whose coins cannot be used. First the index forgets what was connected on them, which nobody
    /// validated: blocks whose parent was never connected, and those above.
    pub(super) fn forget_snapshot(&mut self, why: &str) -> Result<(), Fault> {
        let opened = Opened::new(self.options, self.events)?;
        let bases: Vec<NodeId> = {
            let index = opened.index.read();
            let connected = index.headers().ids().filter(|&id| index.was_connected(id));
            let parents = connected.filter_map(|id| index.headers().parent(id));
            parents.filter(|&parent| !index.was_connected(parent)).collect()
        };
        bases.into_iter().for_each(|base| opened.index.write().distrust(base));
        opened.writer.commit(&opened.reporter, None)?;
        chainstate::remove_snapshot(&*opened.locked.disk, &opened.locked.layout)?;
        drop(opened);
        self.wants_sync = true;
        self.done(format!("The snapshot was removed: {why}. The chain is connected from where its past ends"));
        Ok(())
    }

    /// Whether the coins are those of a chain that has only the genesis block.
    fn are_coins_empty(&self) -> bool {
        let dir = lock::layout(self.options).chainstate_dir();
        let disk = &*self.options.disk;
        match Chainstate::exists(disk, &dir) {
            Ok(true) => {}
            Ok(false) => return Chainstate::lacks_current(disk, &dir).is_ok_and(|lacks| !lacks),
            Err(_) => return false,
        }
        let coins = Chainstate::open_read_only(self.options.host(), &dir);
        let best = coins.and_then(|coins| Ok(coins.best_block()?.or(coins.head_blocks()?.map(|heads| heads.new))));
        best.is_ok_and(|best| best.is_none_or(|best| best == self.options.params.genesis_hash))
    }

    /// Goes on with a reindex that was interrupted; begins again if block files that it had read are not there any more.
    pub(super) fn finish_reindex(&mut self, found: &Examination) -> Result<(), Fault> {
        let layout = lock::layout(self.options);
        match self.whole_reindex(&self.damaged(found)) {
            Err(Fault::Store(fault))
                if matches!(fault.kind(), FaultKind::Missing | FaultKind::Damaged)
                    && fault.detail().path.starts_with(layout.blocks_dir()) =>
            {
                self.whole(&fault.what())
            }
            ended => ended,
        }
    }

    /// Reindexes, including the existing optional indexes; a sync fetches missing blocks at the end. Damaged indexes
    /// would end a reindex that goes on with them.
    pub(super) fn whole_reindex(&mut self, damaged: &[IndexKind]) -> Result<(), Fault> {
        let indexes = self.remove_damaged(damaged)?;
        let options = Options { indexes, ..self.plain_options() };
        let mut removed = damaged.to_vec();
        // Only a check of every byte finds the damage of some tables before they are read.
        let report = loop {
            let why = match offline::reindex(&options, false, self.events) {
                Ok(report) => break report,
                Err(why) => why,
            };
            let kind = self.index_of(&why).filter(|kind| !removed.contains(kind));
            let Some(kind) = kind else { return Err(why) };
            self.remove_damaged(&[kind])?;
            removed.push(kind);
        };
        if report.stopped {
            return Err(Fault::Stopped);
        }
        self.wants_sync = true;
        self.done("The block files were indexed, and their chain was connected");
        Ok(())
    }
}
