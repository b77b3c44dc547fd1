//! Differences of a data directory with a snapshot whose earlier blocks are not validated yet.

use super::{Assumed, DataDir, FILTER_SHARE, Mode, Origin, prune};
use crate::chain::tree::NodeId;
use crate::datadir::coins_io::CoinsIo;
use crate::datadir::feed::{BlockFeed, Inbox};
use crate::fault::Fault;
use crate::indexing::Indexing;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use store::chainstate::Chainstate;

/// The last connected block of the chain below a snapshot, readable while that chain grows.
#[derive(Debug, Default)]
pub(crate) struct PastTip(AtomicU32);

impl PastTip {
    /// The block.
    pub(crate) fn get(&self) -> NodeId {
        NodeId::new(self.0.load(Relaxed) as usize)
    }

    /// Sets the block.
    pub(crate) fn set(&self, tip: NodeId) {
        self.0.store(tip.index() as u32, Relaxed);
    }
}

impl<'e> DataDir<'e> {
    /// The indexes to maintain. On top of a snapshot there are no indexes, because they start at the genesis block:
    /// they grow with the chain below the snapshot, as in Core. While pruned blocks are downloaded, indexes are not
    /// maintained.
    pub(crate) fn kept_indexes(&self) -> &'e [indexes::IndexKind] {
        let rests = self.assumed.is_some_and(|assumed| !assumed.is_past || assumed.origin == Origin::Pruned);
        if rests { &[] } else { &self.options.indexes }
    }

    /// Number of transactions of the chain up to a block, as far as known. While blocks below a snapshot are missing,
    /// Core's number for its base is used.
    pub(crate) fn transactions_up_to(&self, tip: NodeId) -> u64 {
        let index = self.index.read();
        let Some(Assumed { base, .. }) = self.assumed.filter(|assumed| assumed.is_on_snapshot()) else {
            return index.transactions_up_to(tip);
        };
        let headers = index.headers();
        let hash = index.headers().hash(base);
        let known = self.params.assumeutxo.iter().find(|known| known.block_hash == hash);
        let above = if headers.is_ancestor(base, tip) { headers.path(base, tip) } else { Vec::new() };
        let above: u64 = above.into_iter().map(|id| u64::from(index.body(id).transactions())).sum();
        known.map_or(0, |known| known.chain_tx_count) + above
    }

    /// Whether the open coins are those of the chain up to a snapshot's base.
    pub(crate) fn is_past(&self) -> bool {
        self.assumed.is_some_and(|assumed| assumed.is_past)
    }

    /// The indexes that grow with the blocks connected here; `None` on top of a snapshot.
    pub(crate) fn fed_indexes(&self) -> Option<&Indexing> {
        let is_fed = self.assumed.is_none_or(|assumed| assumed.is_past && assumed.origin == Origin::Snapshot);
        self.indexing.get().filter(|_| is_fed)
    }

    /// The same directory for the chain below the snapshot: with its own coins, and blocks that arrive through `inbox`.
    pub(crate) fn beside(&self, chainstate: Chainstate, assumed: Assumed, inbox: Arc<dyn Inbox>) -> DataDir<'e> {
        let options = self.options;
        let mut feed = BlockFeed::new(self.files.clone(), options);
        feed.arrivals = Some(inbox);
        DataDir {
            params: self.params,
            options,
            layout: self.layout.clone(),
            reporter: self.reporter.beside(),
            mode: Mode::Work,
            assumed: Some(Assumed { is_past: true, ..assumed }),
            disk: self.disk.clone(),
            host: self.host.clone(),
            index: self.index.clone(),
            writer: self.writer.clone(),
            kept_hints: self.kept_hints.clone(),
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

    /// Closes the coins, lets `change` move directories, and opens the coins that are in `dir` afterwards.
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
