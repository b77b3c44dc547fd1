//! What is different where a data directory stands on a snapshot that is not validated.

use super::{Assumed, DataDir, FILTER_SHARE, Mode, prune};
use crate::chain::tree::NodeId;
use crate::datadir::coins_io::CoinsIo;
use crate::datadir::feed::{BlockFeed, Inbox};
use crate::fault::Fault;
use crate::indexing::Indexing;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use store::chainstate::Chainstate;

/// The last connected block of the chain below a snapshot: for those that look while it is at work.
#[derive(Debug, Default)]
pub(crate) struct PastTip(AtomicU32);

impl PastTip {
    /// The block.
    pub(crate) fn get(&self) -> NodeId {
        NodeId::new(self.0.load(Relaxed) as usize)
    }

    /// It is another one.
    pub(crate) fn set(&self, tip: NodeId) {
        self.0.store(tip.index() as u32, Relaxed);
    }
}

impl<'e> DataDir<'e> {
    /// The indexes that are kept with the chain; none on top of a snapshot, for they begin with the genesis block: they
    /// grow with the past. Core does the same.
    pub(crate) fn kept_indexes(&self) -> &'e [indexes::IndexKind] {
        let on_snapshot = self.assumed.is_some_and(|assumed| !assumed.is_past);
        if on_snapshot { &[] } else { &self.options.indexes }
    }

    /// Transactions of the chain up to a block, as far as they are known: those up to the base of a snapshot are Core's word
    /// while its blocks are absent.
    pub(crate) fn transactions_up_to(&self, tip: NodeId) -> u64 {
        let index = self.index.read();
        let Some(Assumed { base, is_past: false }) = self.assumed else { return index.transactions_up_to(tip) };
        let headers = index.headers();
        let hash = index.headers().hash(base);
        let known = self.params.assumeutxo.iter().find(|known| known.block_hash == hash);
        let above = if headers.is_ancestor(base, tip) { headers.path(base, tip) } else { Vec::new() };
        let above: u64 = above.into_iter().map(|id| u64::from(index.body(id).transactions())).sum();
        known.map_or(0, |known| known.chain_tx_count) + above
    }

    /// Whether its coins are those on the way to the base of a snapshot.
    pub(crate) fn is_past(&self) -> bool {
        self.assumed.is_some_and(|assumed| assumed.is_past)
    }

    /// The indexes that grow with the blocks that are connected here: none on top of a snapshot.
    pub(crate) fn fed_indexes(&self) -> Option<&Indexing> {
        let on_snapshot = self.assumed.is_some_and(|assumed| !assumed.is_past);
        self.indexing.get().filter(|_| !on_snapshot)
    }

    /// The same directory for the chain below the snapshot: with coins of its own, and blocks that come through `inbox`.
    pub(crate) fn beside(&self, chainstate: Chainstate, base: NodeId, inbox: Arc<dyn Inbox>) -> DataDir<'e> {
        let options = self.options;
        let mut feed = BlockFeed::new(self.files.clone(), options);
        feed.arrivals = Some(inbox);
        DataDir {
            params: self.params,
            options,
            layout: self.layout.clone(),
            reporter: self.reporter.beside(),
            mode: Mode::Work,
            assumed: Some(Assumed { base, is_past: true }),
            disk: self.disk.clone(),
            host: self.host.clone(),
            index: self.index.clone(),
            writer: self.writer.clone(),
            refused: self.refused.clone(),
            coins: CoinsIo::new(self.disk.clone(), chainstate, options.dbcache_bytes / FILTER_SHARE),
            cached_coins: AtomicU64::new(0),
            totals: Mutex::default(),
            feed,
            files: self.files.clone(),
            undo_files: self.undo_files.clone(),
            pruning: prune::Pruning::default(),
            indexing: self.indexing.clone(),
            unknown_rules: Mutex::default(),
            changes: AtomicU32::new(0),
            _pid: None,
            locks: self.locks.clone(),
            turn: self.turn.clone(),
            past_tip: self.past_tip.clone(),
            yields: self.yields.clone(),
            awaits_headers: AtomicBool::new(false),
            is_asked_to_connect: AtomicBool::new(false),
            #[cfg(feature = "regtest-tools")]
            mempool: None,
        }
    }

    /// Closes the coins, has `change` move directories, and opens the coins that lie in `dir` then.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn with_other_coins(
        self,
        dir: &Path,
        mut change: impl FnMut() -> store::Result<()>,
    ) -> Result<DataDir<'e>, Fault> {
        let mut datadir = self;
        drop(datadir.coins);
        datadir.reporter.with_room(&mut change)?;
        let chainstate = datadir.reporter.with_room(|| Chainstate::open(&datadir.host, dir))?;
        let filter_bytes = datadir.options.dbcache_bytes / FILTER_SHARE;
        datadir.coins = CoinsIo::new(datadir.disk.clone(), chainstate, filter_bytes);
        Ok(datadir)
    }
}
