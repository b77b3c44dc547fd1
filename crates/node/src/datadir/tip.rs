//! Decisions based on the tip of a data directory: whether the initial block download lasts, which blocks count as
//! complete, when to commit.

use super::{Assumed, DataDir};
use crate::chain::tree::{GENESIS, NodeId, Tree};
use crate::fault::Fault;
use crate::options::unix_seconds;
use crate::pipeline::engine::Engine;
use crate::reporting::peer_lines::PeerLine;
use crate::threads::locks::lock;
use crate::utxo_stats::set_totals;
use coins::Totals;
use primitives::Height;
use store::private_files::PrivateDir;

/// Maximum number of announced blocks if several were connected in one go.
const TOLD_TIPS_MAX: usize = 144;

impl DataDir<'_> {
    /// Core's Initial Block Download state if `tip` is the last connected block.
    pub(crate) fn is_initial(&self, tree: &Tree, tip: NodeId) -> bool {
        let options = self.options;
        let now = unix_seconds(self.options.clock);
        let work = tree.work(tip);
        let time = tree.time(tip);
        crate::chain::headers::is_initial(work, time, options.minimum_chain_work, options.sizes.tip_age_max_s, now)
    }

    /// Height of the last connected block.
    pub(crate) fn tip_height(&self) -> Height {
        let index = self.index.read();
        index.headers().height(index.tip())
    }

    /// Logs the progress of headers during the initial block download, after new headers arrived.
    /// Source: Bitcoin Core b88bffe, `ProcessNewBlockHeaders`.
    pub(crate) fn say_headers(&self) {
        self.say_adopted();
        let line = {
            let index = self.index.read();
            let tree = index.headers();
            let best = index.headers().best();
            if !self.is_initial(tree, index.tip()) {
                return;
            }
            let height = tree.height(best).to_u32();
            let behind_s = unix_seconds(self.options.clock).saturating_sub(u64::from(tree.time(best)));
            let left = behind_s / u64::from(self.params.pow_target_spacing.max(1));
            let done = 100.0 * f64::from(height) / (f64::from(height) + left as f64).max(1.0);
            format!("Synchronizing blockheaders, height: {height} (~{done:.2}%)")
        };
        if self.reporter.peer_lines().allow(PeerLine::Headers, None, &line) {
            self.reporter.log().line(&line);
        }
    }

    /// Announces the new tip `tip` after `last`. After the initial block download also announces the blocks in between,
    /// as Core does. Source: Bitcoin Core b88bffe, `ActivateBestChainStep`, one block at a time there.
    pub(crate) fn tell_tips(&self, last: NodeId, tip: NodeId) {
        let tips: Vec<_> = {
            let tree = self.headers();
            let path = tree.path(tree.fork(last, tip), tip);
            let skipped = path.len().saturating_sub(TOLD_TIPS_MAX);
            let is_told = |id: &NodeId| *id == tip || !self.is_initial(&tree, *id);
            // After a refused block the tip may be below the last announced one.
            let lower = path.is_empty().then_some(tip);
            let told = path.into_iter().skip(skipped).chain(lower).filter(is_told);
            told.map(|id| (tree.height(id), tree.hash(id), self.is_initial(&tree, id))).collect()
        };
        tips.into_iter().for_each(|(height, hash, is_initial)| self.reporter.tip(height, hash, is_initial));
    }

    /// Sets the connected chain up to `tip`. Its blocks count as complete: their bodies are stored or pruned.
    pub(crate) fn set_active(&self, tip: NodeId) {
        let is_from_snapshot = self.assumed.is_some_and(Assumed::is_on_snapshot);
        let counts_whole = self.writer.is_pruned() || is_from_snapshot;
        let mut index = self.index.write();
        index.set_active(tip);
        if counts_whole {
            index.complete_active();
        }
        self.reporter.set_height(index.headers().height(tip));
        let best = index.headers().hash(tip);
        drop(index);
        // The genesis block's coinbase is not a coin.
        let totals =
            if tip == GENESIS { Some(Totals::default()) } else { set_totals::read(&self.private_dir(), &best) };
        lock(&self.totals).begin(tip, totals);
    }

    /// Stores the totals of the UTXO set at `tip`, the block of the last commit. Does not wait for space on a full
    /// disk.
    ///
    /// # Errors
    ///
    /// An I/O error other than a full disk.
    pub(crate) fn keep_totals(&self, tip: NodeId) -> Result<(), Fault> {
        let Some(totals) = lock(&self.totals).at(tip) else { return Ok(()) };
        let own = self.private_dir();
        let best = self.height_and_hash(tip).1;
        let consequence = "What the coins add up to is not kept: they are counted";
        self.reporter.if_room(consequence, || set_totals::write(&own, &best, totals))
    }

    /// ffwd's private files.
    fn private_dir(&self) -> PrivateDir {
        PrivateDir::new(self.disk.clone(), self.layout.private_dir())
    }

    /// Whether changes have waited for a commit long enough.
    pub(super) fn commit_is_late(&self) -> bool {
        self.options.sizes.commits_each_block() || self.coins.is_commit_late(self.options.commit_interval)
    }

    /// Commits changes if this is due by time or memory, or if it frees disk space.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn commit_if_due(&self, engine: &mut Engine<'_>) -> Result<(), Fault> {
        let is_wanted = self.commit_is_late() || engine.pipeline.is_full();
        if (is_wanted && engine.pipeline.has_changes()) || self.prune_is_due() {
            engine.pipeline.flush(engine.tip_and_hash())?;
        }
        Ok(())
    }
}
