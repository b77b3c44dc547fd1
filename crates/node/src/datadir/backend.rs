//! Implements the backend of pipeline and engine: each call is forwarded to the index, the writer, the coins, the feed
//! or the reporter.

use super::{DataDir, Mode};
use crate::chain::block::{BlockContext, Job};
use crate::chain::headers::may_vanish;
use crate::chain::headers::{self, AssumeValid};
use crate::chain::tree::{NodeId, Tree};
use crate::fault::Fault;
use crate::indexing::Indexing;
#[cfg(feature = "regtest-tools")]
use crate::mempool::Next;
use crate::options::unix_seconds;
use crate::pipeline::engine::EngineBackend;
#[cfg(feature = "regtest-tools")]
use crate::pipeline::engine::LookUp;
use crate::pipeline::{Backend, Connected};
use crate::reporting::RecentBlock;
use crate::reporting::bench_lines;
use crate::reporting::log::Tip;
use crate::threads::locks::lock;
use coins::Generation;
use consensus::{BlockError, ScriptCheckReason};
use indexes::Wanted;
use kernels::Kernels;
use primitives::{BlockHash, CoinKey};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use store::FilePos;
use store::signature_hints::SignatureHints;
use sys::memory::Buffer;
use sys::spill::{Spill, SpillFiles};

/// Memory of huge pages left free by coin tables that is not counted against the budget, in bytes.
const HOLES_BYTES: usize = 8 << 20;

impl Backend for DataDir<'_> {
    fn next(&self, is_wanted: &dyn Fn() -> bool, waited: &mut Duration) -> Result<Option<Job>, Fault> {
        if self.has_other_work() || self.next_awaits_headers() {
            return Ok(None);
        }
        // The block may still be in the writer's buffer.
        let write_out = || self.with_room(|| self.writer.write_out_blocks());
        let Some(mut next) = self.feed.next(&self.index, write_out, || self.has_other_work(), is_wanted, waited)?
        else {
            return Ok(None);
        };
        let has_undo = {
            let index = self.index.read();
            // Headers may have arrived since the block was planned.
            if self.feed.arrivals.is_some() {
                next.context.script_reason = self.script_reason(index.headers(), next.context.node);
            }
            index.body(next.context.node).undo().is_some()
        };
        // Existing undo data is never written again, as in Core.
        let has_undo = has_undo && self.can_use_undo(&next.context);
        self.reporter.scripts(&next.context);
        let undo = (!has_undo).then_some(self.params.magic);
        let contextual = self.mode != Mode::RebuildCoins;
        Ok(Some(Job { context: next.context, bytes: next.bytes, checked: next.checked, contextual, undo }))
    }

    fn look_up(&self, keys: &[CoinKey], found: &mut dyn FnMut(usize, &[u8])) -> Result<(), Fault> {
        self.coins.look_up(keys, found)
    }

    fn has_any_coin(&self, keys: &[CoinKey]) -> Result<bool, Fault> {
        self.coins.has_any(keys)
    }

    fn kernels(&self) -> Kernels {
        self.options.kernels
    }

    fn signature_hints(&self) -> Option<&SignatureHints> {
        match &self.options.signature_hints {
            Some(given) => Some(given),
            None if self.options.uses_hints() => self.kept_hints.earlier(self.reporter.log()),
            None => None,
        }
    }

    fn keeps_hints(&self) -> bool {
        self.mode != Mode::ReadOnly && self.kept_hints.are_wanted(self.options)
    }

    fn spill_files(&self) -> SpillFiles {
        self.host.spill.clone()
    }

    fn wanted_records(&self) -> Option<&Wanted> {
        self.fed_indexes().filter(|_| self.mode == Mode::Work).map(Indexing::wanted)
    }

    fn wants_read_ahead(&self) -> bool {
        self.coins.wants_read_ahead()
    }

    fn look_up_from_disk(&self, keys: &[CoinKey], found: &mut dyn FnMut(usize, &[u8])) -> Result<(), Fault> {
        self.coins.look_up_from_disk(keys, found)
    }

    fn connected(&self, block: &Connected<'_>) -> Result<(), Fault> {
        let node = block.job.context.node;
        let begun = Instant::now();
        let mut undo = None;
        if let Some(record) = &block.judged.undo {
            let file = self.index.read().body(node).file();
            undo = Some(self.writer.append_undo(&self.reporter, file, record)?);
        }
        let undo_done = Instant::now();
        let transactions = block.prepared.txids.len() as u32;
        if self.is_past() {
            self.index.write().validated(node, transactions, undo);
            self.past_tip.set(node);
        } else {
            self.index.write().connected(node, transactions, undo);
        }
        self.kept_hints.connected(&block.job.context, block.judged, self.reporter.log());
        if let Some(parent) = self.headers().parent(node) {
            lock(&self.totals).connected(parent, node, block.judged.change);
        }
        if let Some(indexing) = self.fed_indexes()
            && let Some(records) = lock(&block.judged.records).take()
        {
            indexing.connected(&self.reporter, &self.indexed(node), records)?;
        }
        #[cfg(feature = "regtest-tools")]
        if let Some(mempool) = &self.mempool {
            mempool.connected(&block.job.bytes, &block.prepared.txids, unix_seconds(self.options.clock));
        }
        self.look_at_usage(block.job.context.height, block.job.bytes.len());
        if self.options.debug_bench {
            let last = self.reporter.bench(block, undo_done - begun, undo_done.elapsed());
            self.tell_tip(block);
            self.reporter.log().line(&last);
        } else {
            self.tell_tip(block);
        }
        Ok(())
    }

    fn flush_is_due(&self) -> bool {
        let is_late = || self.commit_is_late();
        let is_full = || self.fed_indexes().is_some_and(Indexing::is_full);
        self.mode != Mode::ReadOnly && (self.prune_is_due() || is_full() || is_late())
    }

    fn sync(&self, _tip: (NodeId, BlockHash)) -> Result<(), Fault> {
        self.coins.mark_commit();
        self.kept_hints.write_out(self.reporter.log());
        self.reporter.log().flush();
        self.write_index(None)
    }

    fn begin_commit(&self, tip: (NodeId, BlockHash), records: u64, bytes: u64) -> Result<bool, Fault> {
        self.coins.begin_commit(&self.reporter, tip.1, records, bytes)
    }

    fn write_part(&self, first_group: usize, groups: &[Generation]) -> Result<(), Fault> {
        self.coins.write_part(first_group, groups)
    }

    fn finish_commit(&self, tip: (NodeId, BlockHash)) -> Result<(), Fault> {
        #[cfg(feature = "regtest-tools")]
        super::crash::perhaps(self.options.sizes.crash_ratio, self.reporter.log());
        let flushed = self.coins.finish_commit(&self.reporter)?;
        if self.options.debug_bench {
            let cached = self.cached_coins.load(Relaxed).max(flushed.records);
            self.reporter.log().line(&bench_lines::flush(&flushed, cached));
        }
        // Indexes are committed after the coins, and before pruning removes files that are needed to rebuild an index.
        self.commit_indexes(tip.0)?;
        self.prune(tip.0)
    }

    fn drop_commit(&self, fault: Fault) -> Result<(), Fault> {
        self.coins.drop_commit(&self.reporter, fault)
    }

    fn compact(&self) -> Result<bool, Fault> {
        self.coins.compact(&self.reporter)
    }

    fn table_bytes(&self) -> usize {
        let index = self.index.read().memory_bytes();
        let cut = Buffer::cut_memory();
        let holes = (cut.bytes - cut.bytes_out).saturating_sub(HOLES_BYTES);
        let waiting = self.fed_indexes().map_or(0, Indexing::memory_bytes);
        self.coins.index_bytes() + index + self.feed.memory_bytes() + holes + waiting
    }

    fn stopping(&self) -> bool {
        self.reporter.is_stopping()
    }
}

impl EngineBackend for DataDir<'_> {
    fn is_asked(&self) -> bool {
        self.has_other_work()
    }

    fn start(&self, plans: Vec<BlockContext>) {
        let sizes: Vec<u64> = {
            let index = self.index.read();
            plans.iter().map(|plan| u64::from(index.body(plan.node).size())).collect()
        };
        let bytes: u64 = sizes.iter().sum();
        // If blocks are still missing, the session reports the remaining work.
        if let Some(last) = plans.last().filter(|_| !sizes.contains(&0)) {
            self.reporter.set_end(last.height);
            self.reporter.set_bytes_left(bytes);
        }
        self.feed.start(plans, bytes);
    }

    fn read(&self, node: NodeId) -> Result<Vec<u8>, Fault> {
        let at = self
            .place(node)
            .ok_or_else(|| Fault::internal(format!("the place of block {} is not known", self.headers().hash(node))))?;
        self.with_room(|| self.writer.write_out_blocks())?;
        let mut bytes =
            self.files.read_block(at.file_pos().ok_or_else(|| Fault::internal("a block lies beyond 4 GiB"))?)?;
        bytes.truncate(at.size as usize);
        Ok(bytes)
    }

    fn read_undo(&self, node: NodeId, prev: BlockHash) -> Result<Spill, Fault> {
        let body = *self.index.read().body(node);
        // For missing undo data the error names its file.
        let at = body.undo().unwrap_or(FilePos { file: body.file(), offset: 0 });
        self.with_room(|| self.writer.write_out_undo())?;
        Ok(self.undo_files.read(at, &prev)?)
    }

    #[cfg_attr(not(feature = "regtest-tools"), expect(unused_variables, reason = "the mempool alone takes the bytes"))]
    fn disconnected(&self, node: NodeId, bytes: &[u8]) -> Result<(), Fault> {
        let (height, hash) = self.height_and_hash(node);
        #[cfg(feature = "regtest-tools")]
        if let Some(mempool) = &self.mempool {
            mempool.disconnected(bytes);
        }
        if self.is_past() {
            self.past_tip.set(self.headers().parent(node).expect("genesis is never disconnected"));
        } else {
            self.index.write().disconnected();
        }
        lock(&self.totals).disconnected(node);
        if let Some(indexing) = self.fed_indexes() {
            self.disconnect_indexed(indexing, node)?;
        }
        if self.mode != Mode::ReadOnly {
            self.reporter.log().line(&format!("Disconnect block: {hash} height={height}"));
        }
        self.reporter.remove_block(height - 1, u64::from(self.index.read().body(node).transactions()));
        Ok(())
    }

    #[cfg(feature = "regtest-tools")]
    fn rested(&self, tip: NodeId, adds: bool, coin: &LookUp<'_>) -> Result<(), Fault> {
        let Some(mempool) = self.mempool.as_ref().filter(|mempool| mempool.is_stale()) else { return Ok(()) };
        self.with_next(tip, |next| mempool.rest(adds, next, coin))
    }

    fn refused(&self, node: NodeId, error: &BlockError) {
        let (height, hash) = self.height_and_hash(node);
        // The peer is no longer known here, because the block was stored earlier.
        self.reporter.refused_block(None, height, hash, error);
    }

    fn lost(&self, node: NodeId, why: &str) -> Result<bool, Fault> {
        if self.mode == Mode::RebuildCoins {
            return Err(self.body_fault(node, why));
        }
        let (height, hash) = self.height_and_hash(node);
        let mut inside = Vec::new();
        if let Some(at) = self.place(node) {
            let path = self.files.path(at.file);
            let place = format!("{} byte {}", path.display(), at.offset);
            self.reporter.shortfall.damaged(path, at.offset, Some(node));
            let text = format!("{why} ({place}; this body only: its header is not marked)");
            self.reporter.refused_body(None, height, hash, &text);
            if self.mode != Mode::ReadOnly {
                inside = self.blocks_inside(at)?;
            }
        }
        let replacement = self.writer.body_lost(node, &inside);
        Ok(replacement.has_copy)
    }
}

impl DataDir<'_> {
    /// Calls `work` with the context for validating a transaction in the next block after this tip.
    #[cfg(feature = "regtest-tools")]
    pub(crate) fn with_next<R>(&self, tip: NodeId, work: impl FnOnce(&Next<'_>) -> R) -> R {
        let median_times = |height: primitives::Height| {
            let tree = self.headers();
            tree.median_time_past(tree.ancestor(tip, height))
        };
        let (height, median_time_past) = {
            let tree = self.headers();
            (tree.height(tip) + 1, tree.median_time_past(tip))
        };
        let now = unix_seconds(self.options.clock);
        work(&Next { height, median_time_past, median_times: &median_times, now })
    }

    /// Why the scripts of a block are verified, according to the headers known now.
    fn script_reason(&self, tree: &Tree, node: NodeId) -> Option<ScriptCheckReason> {
        let assume =
            AssumeValid { hash: self.options.assumevalid, minimum_chain_work: self.options.minimum_chain_work };
        headers::script_reason(tree, &assume, self.params.pow_target_spacing, node)
    }

    /// Whether the undo data that the index names can be read. bitcoind syncs only its last undo file before it writes
    /// the index, so a power failure may lose undo data of others.
    fn can_use_undo(&self, block: &BlockContext) -> bool {
        // What builds coins alone, or only reads, writes none.
        if self.mode != Mode::Work {
            return true;
        }
        let read = self.read_undo(block.node, block.header.prev());
        if let Err(why) = &read {
            let hash = block.hash;
            self.reporter.log().line(&format!("Undo data of block {hash} is written again: {why}"));
        }
        read.is_ok()
    }

    /// Whether the engine's thread must interrupt its work between two blocks.
    fn has_other_work(&self) -> bool {
        self.turn.is_due() || (self.is_past() && self.yields.load(Relaxed))
    }

    /// Whether the next block's scripts would be verified only because expected headers have not arrived yet.
    fn next_awaits_headers(&self) -> bool {
        self.awaits_headers.load(Relaxed)
            && !self.is_asked_to_connect.load(Relaxed)
            && self.feed.first().is_some_and(|node| {
                let index = self.index.read();
                self.script_reason(index.headers(), node).is_some_and(may_vanish)
            })
    }

    /// The fault for a damaged body that the index calls valid: a fault of the disk.
    fn body_fault(&self, node: NodeId, why: &str) -> Fault {
        let (height, hash) = self.height_and_hash(node);
        let (path, offset) = self.path_and_offset(node);
        let wanted = format!("block {hash} at height {height}, which was sound when it was stored");
        let advice = "The disk or the file is damaged; nothing was marked and nothing changed. Put the file back from a \
                      copy, or run ffwd repair, which fetches only damaged blocks";
        store::Fault::new(store::FaultKind::Damaged, &path, wanted, why, advice).at_offset(offset).into()
    }

    fn tell_tip(&self, block: &Connected<'_>) {
        let job = block.job;
        self.cached_coins.store(block.coins.0 as u64, Relaxed);
        let count = block.prepared.txids.len() as u64;
        self.reporter.add_block(job.context.height, job.bytes.len(), count);
        // A read-only job does not change the tip.
        if self.mode == Mode::ReadOnly {
            return;
        }
        let now = unix_seconds(self.options.clock) as i64;
        let tree = self.headers();
        self.reporter.connected(RecentBlock {
            height: job.context.height,
            hash: job.context.hash,
            time: job.context.header.time(),
            transactions: count,
            bytes: job.bytes.len() as u64,
        });
        let time = tree.time(job.context.node);
        let blocks_left = tree.height(tree.best()).blocks_above(job.context.height);
        self.reporter.update_tip(|transactions| Tip {
            hash: job.context.hash,
            height: job.context.height,
            version: tree.version(job.context.node),
            work: tree.work(job.context.node),
            transactions,
            time,
            has_more: blocks_left > 0,
            progress: self.params.progress(transactions, time, blocks_left, now),
            cache_bytes: block.coins.1 as u64,
            cache_coins: block.coins.0 as u64,
        });
    }
}
