//! Rewrites damaged and missing blocks at their places in the block files.
//!
//! Sources of a block, in this order: the damaged record itself, if only its size field is wrong; block files that the
//! index does not name; the files of `--from`; peers. Blocks that no source has are reported. A block that has no place
//! in the index, or does not fit its place, is appended, and the index gets the new place.

use super::Repair;
use crate::chain::headers;
use crate::chain::index::{BlockIndex, OfferedHeaders, SharedIndex};
use crate::chain::tree::{GENESIS, NodeId};
use crate::datadir::lock;
use crate::datadir::lock::Locked;
use crate::datadir::writer::{BlockFileSetup, Writer};
use crate::fault::Fault;
use crate::options::Options;
use crate::pipeline::{scratch, stages};
use crate::reporting::Reporter;
use crate::session::chainview::{SharedChain, Unserved};
use crate::session::fetch::{self, BLOCK_BYTES_MAX, Fetching, Sink};
use crate::session::options::SyncOptions;
use crate::session::sources::{Found, Reading};
use primitives::{BlockHash, Header, Height};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use store::blockfiles::BlockAt;
use store::index::{BlockTreeDb, LoadedIndex};
use store::restore::Restorer;
use store::{FaultKind, FileInfos, FilePos};

/// Number of rewritten blocks between two syncs of their files.
const SYNC_EVERY: usize = 256;

/// A data directory opened for a repair: locked, with its index loaded, whatever the state of its blocks.
pub(super) struct Opened<'o> {
    pub(super) options: &'o Options,
    pub(super) reporter: Reporter<'o>,
    pub(super) index: Arc<SharedIndex>,
    pub(super) loaded: LoadedIndex,
    pub(super) locked: Locked,
    /// Appends blocks that have no place, and writes the changes of the index.
    pub(super) writer: Arc<Writer>,
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
        let index = Arc::new(SharedIndex::new(index));
        let setup = BlockFileSetup {
            host: options.host(),
            blocks_dir: locked.layout.blocks_dir().to_path_buf(),
            network: lock::network(&options.params),
            key: locked.key,
            limits: options.sizes.limits,
        };
        let writer = Writer::new(setup, db, index.clone(), FileInfos::new(loaded.files.clone()))?;
        writer.set_pruned(loaded.is_pruned);
        Ok(Opened { options, reporter, index, loaded, locked, writer: Arc::new(writer) })
    }

    /// Fails if the index names several block files, and none is there: more likely these are in another place than lost.
    fn has_some_of_its_files(&self) -> Result<(), Fault> {
        let named: HashSet<u32> = self.loaded.entries.iter().filter_map(|entry| Some(entry.data()?.file)).collect();
        let there = self.locked.files.numbers()?.there;
        if named.len() < 2 || there.iter().any(|file| named.contains(file)) {
            return Ok(());
        }
        let wanted = format!("{} block files, which the block index names", named.len());
        let advice = "Name their directory with --blocksdir, or mount their drive. If they are lost, remove the directories \
                      chainstate and blocks/index, and run ffwd sync";
        let dir = self.locked.layout.blocks_dir();
        Err(store::Fault::new(FaultKind::Missing, dir, wanted, "none of them", advice).into())
    }

    pub(super) fn restorer(&self) -> Restorer {
        let Locked { disk, layout, key, .. } = &self.locked;
        Restorer::new(disk.clone(), layout.blocks_dir(), self.options.params.magic, *key)
    }

    /// The chain as peers see it.
    fn chain(&self) -> Arc<SharedChain> {
        let Locked { disk, layout, files, .. } = &self.locked;
        Arc::new(SharedChain {
            params: self.options.params.clone(),
            minimum_work: self.options.minimum_chain_work,
            index: self.index.clone(),
            files: files.clone(),
            writer: self.writer.clone(),
            is_pruned: AtomicBool::new(true),
            clock: self.options.clock,
            tip_age_max_s: self.options.sizes.tip_age_max_s,
            unserved: Arc::<Unserved>::default(),
            offers: Mutex::default(),
            connects: AtomicBool::new(false),
            indexing: Arc::default(),
            disk: disk.clone(),
            layout: layout.clone(),
        })
    }

    /// Opens the files of `--from`; `None` without that option.
    fn open_given(&self, sync: &SyncOptions) -> Result<Option<Found>, Fault> {
        if sync.from.is_empty() {
            return Ok(None);
        }
        let with = Reading { options: self.options, host: &self.locked.host, reporter: &self.reporter };
        Found::open(with, &sync.from).map(Some)
    }

    /// Adds the headers in the files of `--from` to the index.
    pub(super) fn headers_from_files(&self, sync: &SyncOptions) -> Result<(), Fault> {
        let Some(found) = self.open_given(sync)? else { return Ok(()) };
        let now = lock::clock(self.options)?;
        let mut waiting: HashMap<BlockHash, Vec<Header>> = HashMap::new();
        for block in found.blocks {
            waiting.entry(block.header.prev()).or_default().push(block.header);
        }
        let mut index = self.index.write();
        let mut next: Vec<BlockHash> =
            waiting.keys().filter(|parent| index.headers().find(parent).is_some()).copied().collect();
        while let Some(parent) = next.pop() {
            for header in waiting.remove(&parent).unwrap_or_default() {
                let hash = header.hash();
                // A header that breaks a rule is on no chain.
                if index.accept(&self.options.params, &header, hash, now).is_ok() {
                    next.push(hash);
                }
            }
        }
        Ok(())
    }

    /// Downloads headers from peers; returns the headers that they offered on invalid blocks.
    pub(super) fn headers_from_peers(
        &self,
        sync: &SyncOptions,
        is_enough: &dyn Fn(&Opened<'_>) -> bool,
    ) -> Result<Vec<OfferedHeaders>, Fault> {
        let chain = self.chain();
        let with = Fetching { options: self.options, sync, reporter: &self.reporter, chain: chain.clone() };
        fetch::headers(&with, &|| is_enough(self))?;
        Ok(chain.take_offers())
    }
}

/// The places of records in the files, each with the space available there.
pub(super) struct Slots(HashMap<NodeId, (FilePos, u64)>);

impl Slots {
    /// `place` returns the place of an entry's record, if it has one.
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

    /// The place of a block's record, if these bytes fit there.
    pub(super) fn get(&self, id: NodeId, bytes: usize) -> Option<FilePos> {
        self.0.get(&id).filter(|(_, room)| bytes as u64 <= *room).map(|(at, _)| *at)
    }

    fn room(&self, id: NodeId) -> Option<(FilePos, u64)> {
        self.0.get(&id).copied()
    }
}

/// Rewrites blocks after checking them.
struct Mender<'m> {
    opened: &'m Opened<'m>,
    slots: Slots,
    restorer: Restorer,
    unsynced: usize,
    /// Number of appended blocks, which had no place or did not fit into it.
    appended: usize,
}

impl Sink for Mender<'_> {
    /// Writes `bytes` as the block of `id`, or returns why they are not that block.
    fn take(&mut self, id: NodeId, bytes: &[u8]) -> Result<Result<(), String>, Fault> {
        let Opened { options, index, writer, reporter, .. } = self.opened;
        let context = headers::context(&index.headers(), &options.params, id);
        let checked = scratch::with_check(options.kernels, |scratch| {
            stages::check_arrived(&options.params, &context, bytes, scratch)
        });
        let checked = match checked {
            Ok(checked) => checked,
            Err(refusal) => return Ok(Err(format!("{refusal:?}"))),
        };
        let size = checked.block_bytes(bytes);
        if let Some(at) = self.slots.get(id, size) {
            self.restorer.block(at, &bytes[..size])?;
        } else {
            let FilePos { file, offset } =
                writer.append_block(reporter, &bytes[..size], context.height, context.header.time())?;
            index.write().prefer(id, BlockAt { file, offset: offset.into(), size: size as u32 });
            self.appended += 1;
        }
        index.write().restored(id, checked.txids.len() as u32);
        self.unsynced += 1;
        if self.unsynced >= SYNC_EVERY {
            self.unsynced = 0;
            self.sync()?;
        }
        Ok(Ok(()))
    }

    /// Syncs the rewritten blocks, and then commits the changes of the index.
    fn sync(&mut self) -> Result<(), Fault> {
        self.restorer.sync()?;
        self.opened.writer.commit(&self.opened.reporter, None)
    }
}

impl Repair<'_> {
    /// Rewrites these blocks.
    pub(super) fn blocks(&mut self, hashes: &[BlockHash]) -> Result<(), Fault> {
        let opened = Opened::new(self.options, self.events)?;
        opened.has_some_of_its_files()?;
        let mut nodes: Vec<NodeId> = hashes.iter().filter_map(|hash| opened.index.headers().find(hash)).collect();
        if nodes.is_empty() {
            drop(opened);
            return self.whole("blocks of the chain have no place in the index");
        }
        nodes.sort_unstable_by_key(|&id| opened.index.headers().height(id));
        let slots = Slots::new(&opened, |entry| entry.data());
        let restorer = opened.restorer();
        let mut mender = Mender { opened: &opened, slots, restorer, unsynced: 0, appended: 0 };
        let count = nodes.len();
        let left = from_themselves(&opened, &mut mender, nodes)?;
        let left = from_unnamed_files(&opened, &mut mender, left)?;
        let here = count - left.len();
        let left = from_given_files(&opened, self.sync, &mut mender, left)?;
        let given = count - here - left.len();
        let with =
            Fetching { options: self.options, sync: self.sync, reporter: &opened.reporter, chain: opened.chain() };
        mender.sync()?;
        // Peers have the blocks of their chains: those come first.
        let (active, others): (Vec<_>, Vec<_>) =
            left.iter().copied().partition(|&id| opened.index.read().is_active(id));
        let missing = fetch::fetch(&with, &[active, others].concat(), &mut mender);
        if matches!(missing, Ok(_) | Err(Fault::Stopped)) {
            mender.sync()?; // Fetched blocks stay, also if the user stopped the fetch.
        }
        let missing = missing?;
        opened.locked.files.forget_open_files();
        let fetched = left.len() - missing.len();
        self.report.fetched += fetched as u64;
        let (missing, stale): (Vec<_>, Vec<_>) = missing.into_iter().partition(|&id| opened.index.read().is_active(id));
        self.give_up(&opened, &stale)?;
        if let Some(&id) = missing.first() {
            let headers = opened.index.headers();
            return Err(not_given(missing.len(), headers.height(id), headers.hash(id)));
        }
        let elsewhere = match mender.appended {
            0 => String::new(),
            appended => format!("; {appended} of them were appended"),
        };
        let from =
            if self.sync.from.is_empty() { String::new() } else { format!("{given} from the files of --from, ") };
        let count = count - stale.len();
        if count > 0 {
            self.done(format!(
                "{count} blocks were put back: {here} from the files, {from}{fetched} from peers{elsewhere}"
            ));
        }
        Ok(())
    }

    /// Forgets blocks off the connected chain that are not to be had, and the blocks above them: peers give no old block
    /// that is not on their best chain. Source: Bitcoin Core b88bffe, `PeerManagerImpl::BlockRequestAllowed`.
    fn give_up(&mut self, opened: &Opened<'_>, stale: &[NodeId]) -> Result<(), Fault> {
        if stale.is_empty() {
            return Ok(());
        }
        let above = opened.index.headers().descendants(stale);
        opened.writer.bodies_lost(&[stale, &above].concat());
        opened.writer.commit(&opened.reporter, None)?;
        self.done(format!(
            "{} blocks off the chain were given up: they are damaged, and no peer gave them",
            stale.len()
        ));
        Ok(())
    }
}

fn not_given(count: usize, height: Height, hash: BlockHash) -> Fault {
    let why = format!(
        "{count} damaged or missing blocks were not to be had, the lowest at height {height} ({hash}): no peer gave them"
    );
    let advice = "Run ffwd repair with peers that have the whole chain (--connect), or with files that have these blocks (--from); \
                  what was put back stays";
    Fault::refused(why, advice)
}

/// Finds blocks that are intact in their place, because only the size field of the record is wrong.
fn from_themselves(opened: &Opened<'_>, mender: &mut Mender<'_>, nodes: Vec<NodeId>) -> Result<Vec<NodeId>, Fault> {
    let mut left = Vec::new();
    for id in nodes {
        if id == GENESIS && mender.take(id, &opened.options.params.genesis)?.is_ok() {
            continue;
        }
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

/// Finds blocks in block files that the index does not name: these may be copies of others.
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

/// Finds blocks in the files of `--from`.
fn from_given_files(
    opened: &Opened<'_>,
    sync: &SyncOptions,
    mender: &mut Mender<'_>,
    nodes: Vec<NodeId>,
) -> Result<Vec<NodeId>, Fault> {
    if nodes.is_empty() {
        return Ok(nodes);
    }
    let Some(found) = opened.open_given(sync)? else { return Ok(nodes) };
    let mut left: BTreeMap<NodeId, BlockHash> = BTreeMap::new();
    for id in nodes {
        let hash = opened.index.headers().hash(id);
        let at = found.places.get(&hash).and_then(|at| at.file_pos());
        let read = at.and_then(|at| found.plain.read_block(at).ok());
        match read {
            Some(bytes) if mender.take(id, &bytes)?.is_ok() => {}
            _ => drop(left.insert(id, hash)),
        }
    }
    if !left.is_empty() && !found.packed.is_empty() {
        let with = Reading { options: opened.options, host: &opened.locked.host, reporter: &opened.reporter };
        let is_packed: HashMap<BlockHash, NodeId> = left.iter().map(|(&id, &hash)| (hash, id)).collect();
        let is_wanted = |hash: &BlockHash| is_packed.contains_key(hash);
        found.packed.pass(with, &|| opened.reporter.is_stopping(), &is_wanted, &mut |_, hash, bytes| {
            let Some(&id) = is_packed.get(&hash).filter(|id| left.contains_key(id)) else { return Ok(false) };
            let is_good = mender.take(id, &bytes)?.is_ok();
            if is_good {
                left.remove(&id);
            }
            Ok(is_good)
        })?;
    }
    let tree = opened.index.headers();
    let mut left: Vec<NodeId> = left.into_keys().collect();
    left.sort_unstable_by_key(|&id| tree.height(id));
    Ok(left)
}
