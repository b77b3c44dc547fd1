//! The data directory as the pipeline's backend: blocks come from its files, results go into its files.

use super::open::{self, Ordered};
use super::{Folder, Mode};
use crate::block::{BlockContext, Job};
use crate::engine::World;
use crate::fault::Fault;
use crate::log::Tip;
use crate::options::unix_seconds;
use crate::pipeline::{Backend, Connected};
use crate::tree::NodeId;
use coins::Generation;
use coins::table::Change;
use consensus::{BlockError, ScriptCheckReason};
use primitives::coin::{COIN_KEY_BYTES_MAX, COIN_KEY_PREFIX, CoinRef};
use primitives::{BlockHash, CoinKey};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use store::FilePos;
use store::blockfiles::BlockAt;

/// What helps when coins are damaged.
const REBUILD: &str = "Rebuild the coins: ffwd reindex --chainstate-only";
/// What does not count of the headers held in memory: those of the main chain, about.
const HEADERS_BYTES: usize = 110 << 20;
/// Most plans that are looked at for one read.
const PLANS_PER_READ: usize = 512;

impl Backend for Folder<'_> {
    fn next(&self, is_wanted: &dyn Fn() -> bool, waited: &mut Duration) -> Result<Option<Job>, Fault> {
        let mut source = self.source.lock().expect("nobody panics with it");
        let source = &mut *source;
        if let Some(arrivals) = &self.arrivals
            && source.ready.is_empty()
        {
            let Some((height, next)) = source.plans.front().map(|plan| (plan.height, plan.node)) else {
                return Ok(None);
            };
            let begun = Instant::now();
            let has_come = arrivals.wait(|| self.place(next).is_some());
            *waited += begun.elapsed();
            if !has_come {
                return Ok(None);
            }
            source.ready.extend(arrivals.take(height, next).map(|(bytes, checked)| (bytes, Some(checked))));
        }
        if source.ready.is_empty() {
            // The next one is not in memory; it ends where one is that need not be read.
            let is_kept =
                |plan: &&BlockContext| self.arrivals.as_ref().is_some_and(|kept| kept.has(plan.height, plan.node));
            let read = source.plans.iter().take(PLANS_PER_READ).take_while(|plan| !is_kept(plan));
            let wanted: Vec<BlockAt> = {
                let index = self.index.read();
                read.map_while(|plan| index.place(plan.node)).collect()
            };
            if wanted.is_empty() {
                return Ok(None);
            }
            // What was stored just now may still be in the writer's buffer.
            self.write_out_blocks()?;
            let Some(read) = source.reader.read(&wanted, is_wanted, waited) else { return Ok(None) };
            for block in read {
                source.ready.push_back((block?, None));
            }
        }
        let (Some((bytes, checked)), Some(plan)) = (source.ready.pop_front(), source.plans.pop_front()) else {
            return Ok(None);
        };
        // Undo data that is there is never written again, as in Core.
        let undo = self.index.read().body(plan.node).undo().is_none();
        let undo = undo.then_some(self.params.magic);
        Ok(Some(Job { context: plan, bytes, checked, contextual: self.mode != Mode::RebuildCoins, undo }))
    }

    fn look_up(&self, keys: &[CoinKey], found: &mut dyn FnMut(usize, &[u8])) -> Result<(), Fault> {
        let mut damaged = None;
        self.coins.view().look_up(keys, |index, coin| match coin {
            // Everything later takes a stored coin for one.
            Some(coin) if CoinRef::decode(coin).is_err() => damaged = Some(index),
            Some(coin) => found(index, coin),
            None => {}
        })?;
        match damaged {
            None => Ok(()),
            Some(index) => {
                let found = format!("bytes that are no coin under {}", keys[index].outpoint());
                let fault = store::Fault::new(store::FaultKind::Damaged, self.coins.path(), "coins", found, REBUILD);
                Err(fault.into())
            }
        }
    }

    fn connected(&self, block: &Connected<'_>) -> Result<(), Fault> {
        let job = block.job;
        let transactions = block.prepared.txids.len() as u32;
        let begun = Instant::now();
        let undo_done;
        {
            let mut undo = None;
            if let Some(record) = &block.judged.undo {
                let file = self.index.read().body(job.context.node).file();
                undo = Some(self.with_room(|| {
                    let writers = &mut *self.writers();
                    writers.undo.append(&mut writers.infos, file, record)
                })?);
            }
            undo_done = Instant::now();
            self.index.write().connected(job.context.node, transactions, undo);
        }
        self.look_at_usage(job.context.height, job.bytes.len());
        if self.options.debug_bench {
            let (log, mut bench) = (self.teller.log(), self.bench.lock().expect("nobody panics with it"));
            let last = bench.lines(log, block, undo_done - begun, undo_done.elapsed());
            self.tell_tip(block);
            log.line(&last);
        } else {
            self.tell_tip(block);
        }
        Ok(())
    }

    fn flush_is_due(&self) -> bool {
        let late = || self.last_flush.lock().expect("nobody panics with it").elapsed() > self.options.commit_interval;
        self.mode != Mode::ReadOnly && (self.prune_is_due() || late())
    }

    fn sync(&self, _tip: (NodeId, BlockHash)) -> Result<(), Fault> {
        // From here on what is connected belongs to the next commit.
        *self.last_flush.lock().expect("nobody panics with it") = Instant::now();
        self.teller.log().flush();
        self.write_index(None)
    }

    fn begin_commit(&self, tip: (NodeId, BlockHash), records: u64, bytes: u64) -> Result<bool, Fault> {
        // Piece by piece, beside the blocks, rather than here and now.
        let is_blocked = !self.coins.has_room(records, bytes) && self.coins.wants_compaction();
        self.merge_is_needed.store(is_blocked, Relaxed);
        if is_blocked {
            return Ok(false);
        }
        let commit = self.with_room(|| {
            self.check_room(bytes)?;
            self.coins.begin_commit(tip.1, records, bytes)
        })?;
        let begun = commit.is_some();
        *self.commit.write().expect("nobody panics with it") = commit;
        Ok(begun)
    }

    fn write_part(&self, first_lane: usize, lanes: &[Generation]) -> Result<(), Fault> {
        let commit = self.commit.read().expect("nobody panics with it");
        let commit = commit.as_ref().expect("a commit was begun");
        let first_shard = first_lane * coins::ops::SHARDS_PER_LANE;
        let mut part = if first_lane == 0 { commit.first_part()? } else { commit.part() };
        let mut key = Vec::with_capacity(COIN_KEY_BYTES_MAX);
        for (within, table) in lanes.iter().flat_map(|lane| &lane.tables).enumerate() {
            for (tail, change) in table.sorted() {
                key.clear();
                key.extend_from_slice(&[COIN_KEY_PREFIX, (first_shard + within) as u8]);
                key.extend_from_slice(tail);
                match change {
                    Change::Put(coin) => part.put(&key, coin)?,
                    Change::Delete => part.delete(&key)?,
                }
            }
        }
        Ok(part.finish()?)
    }

    fn finish_commit(&self, tip: (NodeId, BlockHash)) -> Result<(), Fault> {
        let commit = self.commit.write().expect("nobody panics with it").take().expect("a commit was begun");
        commit.finish()?;
        self.waits.end(&self.teller);
        self.prune(tip.0)
    }

    fn drop_commit(&self, fault: Fault) -> Result<(), Fault> {
        *self.commit.write().expect("nobody panics with it") = None;
        self.wait_for_room(fault)
    }

    fn merge(&self) -> Result<bool, Fault> {
        match self.merge_some() {
            Err(fault) if fault.is_no_space() => {
                // It left nothing, and is planned again; but for a commit it can be done without.
                if !self.merge_is_needed.load(Relaxed) {
                    return Ok(false);
                }
                self.wait_for_room(fault).map(|()| true)
            }
            done => done,
        }
    }

    fn table_bytes(&self) -> usize {
        let index = self.index.read().memory_bytes();
        // Any node holds the headers of the main chain, whatever its cache: they do not count.
        self.coins.index_bytes() as usize + index.saturating_sub(HEADERS_BYTES) + self.pool.made_bytes()
    }

    fn stopping(&self) -> bool {
        self.is_stopping()
    }
}

impl World for Folder<'_> {
    fn start(&self, plans: Vec<BlockContext>) {
        let sizes: Vec<u64> = {
            let index = self.index.read();
            plans.iter().map(|plan| u64::from(index.body(plan.node).size())).collect()
        };
        // Where blocks are still to come, who fetches them says how much there is.
        if let Some(last) = plans.last().filter(|_| !sizes.contains(&0)) {
            self.teller.height_end.store(last.height, Relaxed);
            self.teller.bytes_end.store(self.teller.bytes.load(Relaxed) + sizes.iter().sum::<u64>(), Relaxed);
        }
        let mut source = self.source.lock().expect("nobody panics with it");
        (source.plans, source.ready) = (plans.into(), Default::default());
    }

    fn read(&self, node: NodeId) -> Result<Vec<u8>, Fault> {
        let at = self
            .place(node)
            .ok_or_else(|| Fault::own(format!("the place of block {} is not known", self.headers().hash(node))))?;
        self.write_out_blocks()?;
        let mut bytes = self.files.read_block(at.file_pos().ok_or_else(|| Fault::own("a block lies beyond 4 GiB"))?)?;
        bytes.truncate(at.size as usize);
        Ok(bytes)
    }

    fn read_undo(&self, node: NodeId, prev: BlockHash) -> Result<Vec<u8>, Fault> {
        let body = *self.index.read().body(node);
        // Undo data that is absent is refused with the path of its file.
        let at = body.undo().unwrap_or(FilePos { file: body.file(), offset: 0 });
        self.with_room(|| self.writers().undo.write_out())?;
        Ok(self.undo_files.read(at, &prev)?)
    }

    fn disconnected(&self, node: NodeId) -> Result<(), Fault> {
        let (height, hash) = self.height_and_hash(node);
        self.index.write().disconnected();
        if self.mode != Mode::ReadOnly {
            self.teller.log().line(&format!("Disconnect block: {hash} height={height}"));
        }
        self.teller.height.store(height - 1, Relaxed);
        self.teller.transactions.fetch_sub(u64::from(self.index.read().body(node).transactions()), Relaxed);
        Ok(())
    }

    fn refused(&self, node: NodeId, error: &BlockError) {
        self.say_refused(node, error);
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
            self.teller.refused(
                height,
                hash,
                &format!("{why} ({place}; this body only: its header is not marked)"),
                false,
            );
            if self.mode != Mode::ReadOnly {
                inside = self.blocks_inside(at)?;
            }
        }
        let replacement = {
            // First the infos, then the index: no entry names a block that they do not count.
            let mut writers = self.writers();
            let mut index = self.index.write();
            let replacement = index.body_lost(node, &inside);
            for &(id, at) in &replacement.first {
                if let Some(pos) = at.file_pos() {
                    let (height, time) = (index.headers().height(id), index.headers().time(id));
                    writers.infos.add_existing(pos, at.size, height, time);
                }
            }
            replacement
        };
        self.teller.lost.fetch_add(u64::from(!replacement.has_copy), Relaxed);
        Ok(replacement.has_copy)
    }

    fn scripts_change(&self, at: &BlockContext, reason: Option<ScriptCheckReason>) {
        let (height, hash) = (at.height, at.hash);
        self.teller.note(match reason {
            Some(reason) => format!("Enabling script verification at block #{height} ({hash}): {reason}."),
            None => format!("Disabling script verification at block #{height} ({hash})."),
        });
    }
}

impl Folder<'_> {
    /// What the index calls a sound body is none any more: a fault of the disk.
    fn body_fault(&self, node: NodeId, why: &str) -> Fault {
        let (height, hash) = self.height_and_hash(node);
        let at = self.place(node);
        let path = at.map_or(self.layout.blocks_dir().to_path_buf(), |at| self.files.path(at.file));
        let wanted = format!("block {hash} at height {height}, which was sound when it was stored");
        let advice = "The disk or the file is damaged; nothing was marked and nothing changed. Put the file back from a \
                      copy, or run ffwd reindex and then ffwd sync, which fetches the block again";
        store::Fault::new(store::FaultKind::Damaged, &path, wanted, why, advice).at(at.map_or(0, |at| at.offset)).into()
    }

    /// Stored blocks are seen by readers from here on.
    fn write_out_blocks(&self) -> Result<(), Fault> {
        self.with_room(|| self.writers().blocks.as_mut().map_or(Ok(()), |blocks| blocks.write_out()))
    }

    /// Blocks that lie inside a damaged record, parents first: a torn one may reach over its neighbours.
    pub(crate) fn blocks_inside(&self, bad: BlockAt) -> Result<Vec<(NodeId, BlockAt)>, Fault> {
        let blocks = self.files.scan_inside(bad)?.blocks;
        let blocks = self.index.write().found_inside(bad, blocks);
        if blocks.is_empty() {
            return Ok(Vec::new());
        }
        let place = |at: &BlockAt| format!("{} byte {}", self.files.path(at.file).display(), at.offset);
        let Ordered { order, orphans } = self.order(blocks, open::clock(self.options)?, &place);
        self.index.write().set_orphans(orphans);
        Ok(order)
    }

    fn tell_tip(&self, block: &Connected<'_>) {
        let job = block.job;
        self.teller.height.store(job.context.height, Relaxed);
        self.teller.blocks.fetch_add(1, Relaxed);
        self.teller.bytes.fetch_add(job.bytes.len() as u64, Relaxed);
        let count = block.prepared.txids.len() as u64;
        let transactions = self.teller.transactions.fetch_add(count, Relaxed) + count;
        // Who only looks moves no tip.
        if self.mode == Mode::ReadOnly {
            return;
        }
        let now = unix_seconds(self.options.clock) as i64;
        let tree = self.headers();
        let (time, blocks_left) =
            (tree.time(job.context.node), tree.height(tree.best()).blocks_above(job.context.height));
        self.teller.log().update_tip(&Tip {
            hash: job.context.hash,
            height: job.context.height,
            version: tree.version(job.context.node),
            work: tree.work(job.context.node),
            transactions,
            time,
            progress: self.params.progress(transactions, time, blocks_left, now),
            cache_bytes: block.coins.1 as u64,
            cache_coins: block.coins.0 as u64,
        });
    }
}
