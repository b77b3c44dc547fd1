//! Damaged and missing blocks, written back where the index says that they lie.
//!
//! In this order: from the damaged record itself, where only its size was wrong; from block files that the index does not name;
//! from peers. What none of them gives is left, and said.

use super::Repair;
use crate::chain::headers;
use crate::chain::index::{BlockIndex, SharedIndex};
use crate::chain::tree::NodeId;
use crate::datadir::lock;
use crate::datadir::lock::Locked;
use crate::datadir::writer::{BlockFileSetup, Writer};
use crate::fault::Fault;
use crate::options::Options;
use crate::pipeline::{scratch, stages};
use crate::reporting::Reporter;
use crate::session::chainview::{SharedChain, Unserved};
use crate::session::fetch::{Fetching, fetch};
use primitives::{BlockHash, Height};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use store::index::{BlockTreeDb, LoadedIndex};
use store::restore::Restorer;
use store::{FileInfos, FilePos};

/// No block is larger.
const BLOCK_BYTES_MAX: u64 = 4_000_000;
/// Blocks that are put back between two syncs of their files.
const SYNC_EVERY: usize = 256;

/// A data directory opened for a repair: locked, its index read, whatever its blocks are.
pub(super) struct Opened<'o> {
    pub(super) options: &'o Options,
    pub(super) reporter: Reporter<'o>,
    pub(super) index: Arc<SharedIndex>,
    pub(super) loaded: LoadedIndex,
    pub(super) locked: Locked,
    db: BlockTreeDb,
}

impl<'o> Opened<'o> {
    pub(super) fn new(options: &'o Options, events: crate::reporting::Events<'o>) -> Result<Opened<'o>, Fault> {
        let locked = lock::lock(options, events, false)?;
        let reporter = lock::reporter(events, options, "repair");
        let db = reporter.with_room(|| BlockTreeDb::open(&locked.host, &locked.layout))?;
        let loaded = db.load(&lock::network(&options.params))?;
        let mut index = BlockIndex::new(&options.params);
        for entry in &loaded.entries {
            index.load(entry);
        }
        let connected = loaded.entries.iter().filter(|entry| entry.status.is_connected());
        let tip =
            connected.filter_map(|entry| index.headers().find(&entry.hash)).max_by_key(|&id| index.headers().work(id));
        tip.into_iter().for_each(|tip| index.set_active(tip));
        Ok(Opened { options, reporter, index: Arc::new(SharedIndex::new(index)), loaded, locked, db })
    }

    pub(super) fn restorer(&self) -> Restorer {
        let Locked { disk, layout, key, .. } = &self.locked;
        Restorer::new(disk.clone(), layout.blocks_dir(), self.options.params.magic, *key)
    }

    /// The chain as peers see it.
    fn chain(self) -> Result<(Arc<SharedChain>, Reporter<'o>, Locked), Fault> {
        let Opened { options, reporter, index, loaded, locked, db } = self;
        let Locked { disk, layout, key, files, .. } = &locked;
        let setup = BlockFileSetup {
            host: options.host(),
            blocks_dir: layout.blocks_dir().to_path_buf(),
            network: lock::network(&options.params),
            key: *key,
            limits: options.sizes.limits,
        };
        let writer = Arc::new(Writer::new(setup, db, index.clone(), FileInfos::new(loaded.files.clone()))?);
        let chain = SharedChain {
            params: options.params.clone(),
            minimum_work: options.minimum_chain_work,
            index,
            files: files.clone(),
            writer,
            is_pruned: AtomicBool::new(true),
            clock: options.clock,
            tip_age_max_s: options.sizes.tip_age_max_s,
            unserved: Arc::<Unserved>::default(),
            offers: Mutex::default(),
            connects: AtomicBool::new(false),
            indexing: Arc::default(),
            disk: disk.clone(),
            layout: layout.clone(),
        };
        Ok((Arc::new(chain), reporter, locked))
    }
}

/// The places of records, and how much room each has.
pub(super) struct Slots(HashMap<NodeId, (FilePos, u64)>);

impl Slots {
    /// `place` says where a block's record lies, if it does.
    pub(super) fn new(opened: &Opened<'_>, place: impl Fn(&store::IndexEntry) -> Option<FilePos>) -> Slots {
        let tree = opened.index.headers();
        let mut files: BTreeMap<u32, Vec<(u32, NodeId)>> = BTreeMap::new();
        for entry in &opened.loaded.entries {
            if let (Some(at), Some(id)) = (place(entry), tree.find(&entry.hash)) {
                files.entry(at.file).or_default().push((at.offset, id));
            }
        }
        let mut slots = HashMap::new();
        for (file, mut records) in files {
            records.sort_unstable();
            let nexts = records.iter().skip(1).map(|&(offset, _)| u64::from(offset).saturating_sub(8));
            let ends: Vec<u64> = nexts.chain([u64::from(u32::MAX)]).collect();
            for ((offset, id), end) in records.into_iter().zip(ends) {
                slots.insert(id, (FilePos { file, offset }, end.saturating_sub(u64::from(offset))));
            }
        }
        Slots(slots)
    }

    /// Where the record of a block belongs, if there is room for these bytes.
    pub(super) fn get(&self, id: NodeId, bytes: usize) -> Option<FilePos> {
        self.0.get(&id).filter(|(_, room)| bytes as u64 <= *room).map(|(at, _)| *at)
    }

    fn room(&self, id: NodeId) -> Option<(FilePos, u64)> {
        self.0.get(&id).copied()
    }
}

/// Puts blocks back that are the right ones.
struct Mender<'m> {
    options: &'m Options,
    index: Arc<SharedIndex>,
    slots: Slots,
    restorer: Restorer,
    unsynced: usize,
    /// Blocks that are larger than the room that the index has for them.
    misfits: usize,
}

impl Mender<'_> {
    /// Puts `bytes` back as the block of `id`, or says why they are not.
    fn take(&mut self, id: NodeId, bytes: &[u8]) -> Result<Result<(), String>, Fault> {
        let context = headers::context(&self.index.headers(), &self.options.params, id);
        let params = &self.options.params;
        let checked = scratch::with_check(self.options.kernels, |scratch| {
            stages::check_arrived(params, &context, bytes, scratch)
        });
        let size = match checked {
            Ok(checked) => checked.block_bytes(bytes),
            Err(refusal) => return Ok(Err(format!("{refusal:?}"))),
        };
        let Some(at) = self.slots.get(id, size) else {
            self.misfits += 1;
            return Ok(Ok(()));
        };
        self.restorer.block(at, &bytes[..size])?;
        self.unsynced += 1;
        if self.unsynced >= SYNC_EVERY {
            self.unsynced = 0;
            self.restorer.sync()?;
        }
        Ok(Ok(()))
    }
}

impl Repair<'_> {
    /// Puts these blocks back.
    pub(super) fn blocks(&mut self, hashes: &[BlockHash]) -> Result<(), Fault> {
        let opened = Opened::new(self.options, self.events)?;
        if hashes.is_empty() {
            // The index lists blocks of the chain without a place: only a rebuild gives them one.
            drop(opened);
            return self.whole("blocks of the chain have no place in the index");
        }
        let mut nodes: Vec<NodeId> = hashes.iter().filter_map(|hash| opened.index.headers().find(hash)).collect();
        nodes.sort_unstable_by_key(|&id| opened.index.headers().height(id));
        let slots = Slots::new(&opened, |entry| entry.data());
        let index = opened.index.clone();
        let restorer = opened.restorer();
        let mut mender = Mender { options: self.options, index, slots, restorer, unsynced: 0, misfits: 0 };
        let count = nodes.len();
        let left = from_themselves(&opened, &mut mender, nodes)?;
        let left = from_unnamed_files(&opened, &mut mender, left)?;
        let here = count - left.len();
        let (chain, reporter, locked) = opened.chain()?;
        let with = Fetching { options: self.options, sync: self.sync, reporter: &reporter, chain: chain.clone() };
        let missing = fetch(&with, &left, &mut |id, bytes| mender.take(id, bytes))?;
        mender.restorer.sync()?;
        locked.files.forget_open_files();
        let fetched = left.len() - missing.len();
        self.report.fetched += fetched as u64;
        let lowest = missing.first().map(|&id| (chain.index.headers().height(id), chain.index.headers().hash(id)));
        let misfits = mender.misfits;
        drop(with);
        drop((chain, locked));
        if let Some((height, hash)) = lowest {
            return Err(not_given(missing.len(), height, hash));
        }
        if misfits > 0 {
            return self.whole("blocks do not fit where the index says that they lie");
        }
        self.done(format!("{count} blocks were put back: {here} from the files, {fetched} from peers"));
        Ok(())
    }
}

fn not_given(count: usize, height: Height, hash: BlockHash) -> Fault {
    let why = format!(
        "{count} damaged or missing blocks were not to be had, the lowest at height {height} ({hash}): no peer gave them"
    );
    Fault::refused(why, "Run ffwd repair with peers that have the whole chain (--connect); what was put back stays")
}

/// Where only the size of the record was wrong the block is there.
fn from_themselves(opened: &Opened<'_>, mender: &mut Mender<'_>, nodes: Vec<NodeId>) -> Result<Vec<NodeId>, Fault> {
    let mut left = Vec::new();
    for id in nodes {
        let room = mender.slots.room(id);
        let read = room.and_then(|(at, room)| {
            let offset = u64::from(at.offset);
            opened.locked.files.read_range(at.file, offset, room.min(BLOCK_BYTES_MAX)).ok()
        });
        match read {
            Some(bytes) if mender.take(id, &bytes)?.is_ok() => {}
            _ => left.push(id),
        }
    }
    Ok(left)
}

/// Block files that the index does not name may be copies of others.
fn from_unnamed_files(opened: &Opened<'_>, mender: &mut Mender<'_>, nodes: Vec<NodeId>) -> Result<Vec<NodeId>, Fault> {
    if nodes.is_empty() {
        return Ok(nodes);
    }
    let named: HashSet<u32> = opened.loaded.entries.iter().filter_map(|entry| Some(entry.data()?.file)).collect();
    let files = &opened.locked.files;
    let mut there = HashMap::new();
    for number in files.numbers()?.there.into_iter().filter(|number| !named.contains(number)) {
        for block in files.scan(number)?.blocks {
            there.entry(block.hash).or_insert(block.location);
        }
    }
    let mut left = Vec::new();
    for id in nodes {
        let hash = opened.index.headers().hash(id);
        let at = there.get(&hash).and_then(|location| location.file_pos());
        let read = at.and_then(|at| files.read_block(at).ok());
        match read {
            Some(bytes) if mender.take(id, &bytes)?.is_ok() => {}
            _ => left.push(id),
        }
    }
    Ok(left)
}
