//! A world in memory for the pipeline: blocks from a list, tables in a map.

use coins::Generation;
use coins::table::Change;
use consensus::{BlockError, Params};
use node::Fault;
use node::chain::block::{BlockContext, Job};
use node::chain::index::{BlockIndex, SharedIndex};
use node::chain::tree::NodeId;
use node::pipeline::engine::EngineBackend;
use node::pipeline::{Backend, Connected};
use primitives::coin::put_coin;
use primitives::undo::{UndoReader, put_count};
use primitives::{BlockHash, CoinKey, Hash256, OutPoint, coin};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};
use store::blockfiles::BlockAt;
use sys::spill::Spill;
use testkit::Rng;

/// Everything that a pipeline writes, and the blocks that it reads.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) jobs: Mutex<VecDeque<Job>>,
    pub(crate) tables: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    pending: Mutex<Vec<(Vec<u8>, Option<Vec<u8>>)>>,
    pub(crate) connected: Mutex<Vec<(NodeId, Option<Vec<u8>>)>>,
    pub(crate) commits: AtomicU32,
    /// Ask for a flush whenever one is possible.
    pub(crate) eager: AtomicBool,
    /// Bodies by block, the first copy first.
    pub(crate) bodies: Mutex<HashMap<NodeId, VecDeque<Vec<u8>>>>,
    /// How long each block takes to come.
    pub(crate) delay: Option<Duration>,
    /// At random a commit is to wait for compactions, or finds no room.
    pub(crate) moods: Mutex<Option<Rng>>,
    /// At random, one time in eight where a block is to come, someone asks: the run ends before it.
    pub(crate) questions: Mutex<Option<Rng>>,
    /// Someone asks.
    pub(crate) is_asked: AtomicBool,
    /// The block that does not come, and how often it was wanted.
    pub(crate) withheld: Mutex<Option<(NodeId, u32)>>,
    /// Two of three look-ups are to wait for the disk.
    pub(crate) has_slow_disk: AtomicBool,
    /// The first look-up waits for the disk until this number of others were done; no other one waits.
    pub(crate) first_read_waits_for: AtomicU32,
    reads_wanted: AtomicU32,
    pub(crate) look_ups: AtomicU32,
    compactions_left: AtomicU32,
    syncs: AtomicU32,
    /// By how much each connected block changed what the coins add up to.
    pub(crate) changes: Mutex<Vec<coins::Totals>>,
    /// Bytes of coins when there were most.
    pub(crate) coin_bytes_max: AtomicUsize,
    plans: Mutex<VecDeque<BlockContext>>,
    undo: Mutex<HashMap<NodeId, Vec<u8>>>,
    /// Undo data is read as Core before 0.15 wrote it where no transaction's last coin was spent.
    pub(crate) has_old_undo: AtomicBool,
    /// Every known block; set by [`Memory::new`].
    index: OnceLock<SharedIndex>,
    /// Where the next body lies.
    offset: AtomicU32,
    /// What was refused or lost, and why.
    pub(crate) reasons: Mutex<Vec<String>>,
}

fn without_heights(undo: &[u8]) -> Vec<u8> {
    let mut reader = UndoReader::new(undo);
    let mut old = Vec::new();
    let transactions = reader.count().unwrap();
    put_count(&mut old, transactions);
    for _ in 0..transactions {
        let inputs = reader.count().unwrap();
        put_count(&mut old, inputs);
        for _ in 0..inputs {
            let coin = reader.entry().unwrap();
            put_coin(&mut old, 0, coin.value, &coin.script.to_vec());
        }
    }
    old
}

impl EngineBackend for Memory {
    fn start(&self, plans: Vec<BlockContext>) {
        *self.plans.lock().unwrap() = plans.into();
    }

    fn read(&self, node: NodeId) -> Result<Vec<u8>, Fault> {
        Ok(self.bodies.lock().unwrap()[&node][0].clone())
    }

    fn read_undo(&self, node: NodeId, _: BlockHash) -> Result<Spill, Fault> {
        let undo = self.undo.lock().unwrap()[&node].clone();
        let undo = if self.has_old_undo.load(Ordering::Relaxed) { without_heights(&undo) } else { undo };
        Ok(undo[..].into())
    }

    fn disconnected(&self, _: NodeId, _: &[u8]) -> Result<(), Fault> {
        Ok(())
    }

    fn refused(&self, _: NodeId, error: &BlockError) {
        self.reasons.lock().unwrap().push(error.to_string());
    }

    fn lost(&self, node: NodeId, why: &str) -> Result<bool, Fault> {
        self.reasons.lock().unwrap().push(why.to_owned());
        let mut bodies = self.bodies.lock().unwrap();
        let copies = bodies.get_mut(&node).unwrap();
        copies.pop_front();
        let replacement = self.index().write().body_lost(node, &[]);
        assert_eq!(replacement.has_copy, !copies.is_empty());
        Ok(replacement.has_copy)
    }

    fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }
}

impl Backend for Memory {
    fn next(&self, _is_wanted: &dyn Fn() -> bool, _: &mut Duration) -> Result<Option<Job>, Fault> {
        self.delay.iter().for_each(|delay| std::thread::sleep(*delay));
        if self.questions.lock().unwrap().as_mut().is_some_and(|random| random.below(8) == 0) {
            self.is_asked.store(true, Ordering::Relaxed);
            self.plans.lock().unwrap().clear();
        }
        let first = self.plans.lock().unwrap().front().map(|context| context.node);
        if let Some((withheld, wanted)) = &mut *self.withheld.lock().unwrap()
            && first == Some(*withheld)
        {
            *wanted += 1;
            assert!(*wanted < 10, "asked for again and again");
            return Ok(None);
        }
        if let Some(context) = self.plans.lock().unwrap().pop_front() {
            let bytes = self.bodies.lock().unwrap()[&context.node][0].clone().into();
            return Ok(Some(Job { context, bytes, checked: None, contextual: true, undo: Some([1; 4]) }));
        }
        Ok(self.jobs.lock().unwrap().pop_front())
    }

    fn look_up(&self, keys: &[CoinKey], found: &mut dyn FnMut(usize, &[u8])) -> Result<(), Fault> {
        self.look_ups.fetch_add(1, Ordering::Relaxed);
        let tables = self.tables.lock().unwrap();
        assert!(keys.is_sorted_by(|a, b| a.as_bytes() < b.as_bytes()), "look-ups come sorted, and none twice");
        for (index, key) in keys.iter().enumerate() {
            if let Some(value) = tables.get(key.as_bytes()) {
                found(index, value);
            }
        }
        Ok(())
    }

    fn wants_read_ahead(&self) -> bool {
        let before = self.reads_wanted.fetch_add(1, Ordering::Relaxed);
        match self.first_read_waits_for.load(Ordering::Relaxed) {
            0 => self.has_slow_disk.load(Ordering::Relaxed) && before % 3 != 2,
            _ => before == 0,
        }
    }

    fn look_up_from_disk(&self, keys: &[CoinKey], found: &mut dyn FnMut(usize, &[u8])) -> Result<(), Fault> {
        assert!(!keys.is_empty());
        let begun = Instant::now();
        while self.look_ups.load(Ordering::Relaxed) < self.first_read_waits_for.load(Ordering::Relaxed) {
            assert!(begun.elapsed() < Duration::from_secs(60), "a worker waits with this look-up");
            std::thread::sleep(Duration::from_millis(1));
        }
        self.look_up(keys, found)
    }

    fn connected(&self, block: &Connected<'_>) -> Result<(), Fault> {
        self.coin_bytes_max.fetch_max(block.coins.1, Ordering::Relaxed);
        self.changes.lock().unwrap().push(block.judged.change);
        // Magic and size before the payload, a checksum behind it.
        let undo = block.judged.undo.as_ref().map(|record| record[8..record.len() - 32].to_vec());
        self.undo.lock().unwrap().extend(undo.clone().map(|undo| (block.job.context.node, undo)));
        self.connected.lock().unwrap().push((block.job.context.node, undo));
        Ok(())
    }

    fn flush_is_due(&self) -> bool {
        self.eager.load(Ordering::Relaxed)
    }

    fn sync(&self, _: (NodeId, BlockHash)) -> Result<(), Fault> {
        let (syncs, commits) = (self.syncs.fetch_add(1, Ordering::Relaxed), self.commits.load(Ordering::Relaxed));
        assert_eq!(syncs, commits, "once for each commit, however often that is begun");
        Ok(())
    }

    fn begin_commit(&self, tip: (NodeId, BlockHash), _: u64, _: u64) -> Result<bool, Fault> {
        let connected = self.connected.lock().unwrap();
        assert!(connected.is_empty() || connected.iter().any(|(node, _)| *node == tip.0), "coins never lead");
        assert!(self.pending.lock().unwrap().is_empty(), "one commit at a time");
        if let Some(random) = &mut *self.moods.lock().unwrap()
            && random.below(3) == 0
        {
            self.compactions_left.fetch_add(1 + random.below(4) as u32, Ordering::Relaxed);
            return Ok(false);
        }
        Ok(true)
    }

    fn write_part(&self, first_group: usize, groups: &[Generation]) -> Result<(), Fault> {
        self.need_room(40)?;
        let mut pending = self.pending.lock().unwrap();
        for (within, table) in groups.iter().flat_map(|group| &group.tables).enumerate() {
            for (tail, change) in table.sorted() {
                let shard = (first_group * coins::ops::SHARDS_PER_GROUP + within) as u8;
                let key = [&[coin::COIN_KEY_PREFIX, shard], tail].concat();
                let value = if let Change::Put(coin) = change { Some(coin.to_vec()) } else { None };
                pending.push((key, value));
            }
        }
        Ok(())
    }

    fn finish_commit(&self, _: (NodeId, BlockHash)) -> Result<(), Fault> {
        self.need_room(5)?;
        let mut tables = self.tables.lock().unwrap();
        for (key, value) in self.pending.lock().unwrap().drain(..) {
            match value {
                Some(value) => tables.insert(key, value),
                None => tables.remove(&key),
            };
        }
        self.commits.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn drop_commit(&self, fault: Fault) -> Result<(), Fault> {
        assert!(fault.is_no_space());
        self.pending.lock().unwrap().clear();
        Ok(())
    }

    fn compact(&self) -> Result<bool, Fault> {
        let one_less = |left: u32| left.checked_sub(1);
        Ok(self.compactions_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok())
    }

    fn table_bytes(&self) -> usize {
        0
    }

    fn stopping(&self) -> bool {
        false
    }
}

impl Memory {
    /// Nothing but the genesis block.
    pub(crate) fn new(params: &Params) -> Memory {
        Memory { index: OnceLock::from(SharedIndex::new(BlockIndex::new(params))), ..Memory::default() }
    }

    /// Every known block.
    pub(crate) fn index(&self) -> &SharedIndex {
        self.index.get().expect("made with an index")
    }

    /// Takes a body in; the same block twice is a second copy.
    pub(crate) fn found(&self, id: NodeId, block: Vec<u8>) {
        let size = block.len() as u32;
        let offset = u64::from(self.offset.fetch_add(1 + size, Ordering::Relaxed)) + 8;
        self.bodies.lock().unwrap().entry(id).or_default().push_back(block);
        self.index().write().found(id, BlockAt { file: 0, offset, size });
    }

    /// At random, one time in `times`, there is no room.
    fn need_room(&self, times: usize) -> Result<(), Fault> {
        let is_full = self.moods.lock().unwrap().as_mut().is_some_and(|random| random.below(times) == 0);
        if !is_full {
            return Ok(());
        }
        let kind = store::FaultKind::NoSpace;
        Err(store::Fault::new(kind, std::path::Path::new("/"), "room", "none", "").into())
    }

    /// Core's hash of the set in the tables.
    pub(crate) fn hash_serialized(&self) -> Hash256 {
        let mut coins: Vec<(OutPoint, Vec<u8>)> = Vec::new();
        for (key, value) in self.tables.lock().unwrap().iter() {
            let outpoint = coin::decode_coin_key(key).unwrap();
            let mut bytes = Vec::new();
            coin::put_coin_hashed(&mut bytes, &outpoint, &coin::CoinRef::decode(value).unwrap());
            coins.push((outpoint, bytes));
        }
        coins.sort();
        let all: Vec<u8> = coins.into_iter().flat_map(|(_, bytes)| bytes).collect();
        Hash256(kernels::sha256::sha256d(&all))
    }
}
