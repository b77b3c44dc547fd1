//! Opening a data directory for a job: checks, locks, what is there.

use super::{Folder, Mode, Source, Teller, Writers};
use crate::block::{Checked, Refusal};
use crate::fault::Fault;
use crate::headers;
use crate::index::{BlockIndex, Found, SharedIndex};
use crate::log::Log;
use crate::options::{Events, Options};
use crate::scratch;
use crate::stages;
use crate::tree::{GENESIS, NodeId, Tree};
use consensus::{Class, Params};
use disk::Disk;
use primitives::{BlockHash, Header, Height};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Instant, UNIX_EPOCH};
use store::blockfiles::{BlockAt, BlockFiles, BlockWriter, BulkReader, FileScan, FoundBlock, Pool};
use store::chainstate::Chainstate;
use store::index::{BlockIndex as IndexDb, LoadedIndex};
use store::locks::FolderLocks;
use store::undofiles::{UndoFiles, UndoWriter};
use store::{FileInfos, FilePos, Layout, Network, xor};

/// What the store needs to know of a network.
pub fn network(params: &Params) -> Network {
    Network {
        folder: params.chain.net_dir(),
        magic: params.magic,
        genesis: params.genesis_hash,
        pow_limit: params.pow_limit,
    }
}

/// A folder with its locks held and nothing read.
pub struct Locked {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) layout: Layout,
    pub(crate) locks: FolderLocks,
    pub(crate) key: xor::Key,
    pub(crate) files: Arc<BlockFiles>,
}

/// Seconds since 1970.
///
/// # Errors
///
/// For a clock that cannot be right: before the first block of any chain.
pub fn clock(options: &Options) -> Result<i64, Fault> {
    const FIRST_BLOCK: u64 = 1_231_006_505;
    let wrong = |says: &str| {
        let first = crate::log::date(FIRST_BLOCK);
        Fault::refused(format!(
            "this machine's clock {says}, and the first block is of {first}: set the clock, for headers are judged by it"
        ))
    };
    let now = (options.clock)().duration_since(UNIX_EPOCH).map_err(|_| wrong("says a time before 1970"))?.as_secs();
    if now < FIRST_BLOCK {
        return Err(wrong(&format!("says {}", crate::log::date(now))));
    }
    i64::try_from(now).map_err(|_| wrong("is beyond all bounds"))
}

/// Checks the folder and takes its locks, before anything is read; waits for room where there is none for them.
/// `needs_blocks`: without block files there is nothing to do.
pub fn lock(options: &Options, events: Events<'_>, needs_blocks: bool) -> Result<Locked, Fault> {
    // The log lies in the folder.
    let teller = Teller::new(events, Log::none());
    teller.with_room(&options.stop, || lock_now(options, needs_blocks))
}

/// The same, and waits for nothing.
pub fn lock_now(options: &Options, needs_blocks: bool) -> Result<Locked, Fault> {
    let disk = options.disk.clone();
    let net = network(&options.params);
    let layout = layout(options);
    layout.check(&*disk)?;
    if needs_blocks && disk.metadata(layout.blocks_dir()).map_err(store::Fault::from)?.is_none() {
        return Err(no_blocks(&layout));
    }
    layout.create(&*disk)?;
    let locks = FolderLocks::take(&*disk, &layout)?;
    // The databases' own locks are taken when they are opened; whoever holds one is named before anything is changed.
    for dir in [layout.index_dir(), layout.chainstate_dir()] {
        if disk.metadata(&dir).map_err(store::Fault::from)?.is_some() {
            drop(disk.lock(&dir.join("LOCK")).map_err(store::Fault::from)?);
        }
    }
    let key = xor::open_key(&*disk, layout.blocks_dir(), options.blocksxor)?;
    let files = Arc::new(BlockFiles::new(disk.clone(), layout.blocks_dir(), &net, key));
    if needs_blocks && files.numbers()?.there.is_empty() {
        return Err(no_blocks(&layout));
    }
    Ok(Locked { disk, layout, locks, key, files })
}

fn no_blocks(layout: &Layout) -> Fault {
    let found = "no block file (blk00000.dat and so on)";
    let advice = "Name the folder that has them with --datadir, --blocksdir, --chain; or fetch them with ffwd sync";
    store::Fault::new(store::FaultKind::Missing, layout.blocks_dir(), "block files", found, advice).into()
}

/// Whether nothing of this network is in the folder; makes nothing.
pub fn is_unused(options: &Options) -> Result<bool, Fault> {
    let layout = layout(options);
    layout.check(&*options.disk)?;
    Ok(layout.is_unused(&*options.disk)?)
}

/// Where everything lies.
pub fn layout(options: &Options) -> Layout {
    Layout::new(&options.datadir, options.params.chain.net_dir(), options.blocksdir.as_deref())
}

/// Everything that scanning the block files gave.
pub struct Scan {
    /// Blocks in the order of the files.
    pub blocks: Vec<FoundBlock>,
}

/// Found blocks by what their headers say.
pub struct Ordered {
    /// Those whose headers are in the tree now, in the order in which they link.
    pub order: Vec<(NodeId, BlockAt)>,
    /// Those without a parent, in the order of the files.
    pub orphans: Vec<FoundBlock>,
}

/// Finds the blocks of all files, with all threads; says what is not as it should be.
pub fn scan(files: &BlockFiles, par: usize, teller: &Teller<'_>) -> Result<Scan, Fault> {
    let numbers = files.numbers()?;
    for (first, last) in &numbers.missing {
        teller.warn(format!("{} to {last} are missing: going on behind the gap", files.path(*first).display()));
    }
    scan_files(files, &numbers.there, par, teller)
}

/// The same for some files.
pub fn scan_files(files: &BlockFiles, there: &[u32], par: usize, teller: &Teller<'_>) -> Result<Scan, Fault> {
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<Option<store::Result<FileScan>>>> = Mutex::new((0..there.len()).map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..par.clamp(1, there.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Relaxed);
                    let Some(&file) = there.get(at) else { return };
                    let scan = files.scan(file);
                    found.lock().expect("nobody panics with it")[at] = Some(scan);
                }
            });
        }
    });
    let mut blocks = Vec::new();
    for scan in found.into_inner().expect("nobody panics with it") {
        let scan = scan.expect("every file was scanned")?;
        scan.notes.iter().for_each(|note| teller.warn(note.to_string()));
        blocks.extend(scan.blocks);
    }
    Ok(Scan { blocks })
}

impl<'e> Folder<'e> {
    /// Puts a folder together around open databases.
    pub(crate) fn assemble(
        options: &'e Options,
        teller: Teller<'e>,
        locked: Locked,
        index_db: IndexDb,
        coins: Chainstate,
        infos: FileInfos,
    ) -> Folder<'e> {
        let Locked { disk, layout, locks, key, files } = locked;
        let net = network(&options.params);
        let buffers = ((options.dbcache_bytes / 16) / super::READ_BYTES).clamp(3, 64);
        let pool = Pool::new(super::READ_BYTES, buffers);
        let undo = UndoWriter::new(disk.clone(), layout.blocks_dir(), key);
        Folder {
            params: &options.params,
            options,
            index: Arc::new(SharedIndex::new(BlockIndex::new(&options.params))),
            teller,
            coins,
            index_db,
            merge: Mutex::new(None),
            merge_is_needed: Default::default(),
            waits: Default::default(),
            index_write: Mutex::new(()),
            undo_files: UndoFiles::new(disk.clone(), layout.blocks_dir(), &net, key),
            writers: Arc::new(Mutex::new(Writers { infos, undo, blocks: None, is_pruned: false })),
            pruning: Default::default(),
            source: Mutex::new(Source {
                plans: Default::default(),
                ready: Default::default(),
                reader: BulkReader::new(files.clone(), pool.clone()),
            }),
            pool,
            commit: RwLock::new(None),
            last_flush: Mutex::new(Instant::now()),
            bench: Mutex::default(),
            mode: Mode::Work,
            newly_refused: Mutex::default(),
            arrivals: None,
            key,
            files,
            disk,
            layout,
            _locks: locks,
        }
    }

    /// Takes found blocks in, in the order of the files: headers into the tree, places noted, bodies linked. Those that
    /// are known as pruned stay so.
    pub fn take_in(&self, found: Vec<FoundBlock>, now: i64) {
        let place = |at: &BlockAt| format!("{} byte {}", self.files.path(at.file).display(), at.offset);
        let Ordered { order, orphans } = self.order(found, now, &place);
        let mut again = Vec::new();
        for (id, at) in order {
            let mut index = self.index.write();
            if index.body(id).is_pruned() {
                continue;
            }
            if index.found(id, at) == Found::Copy {
                again.push(at);
            }
        }
        if let Some(first) = again.first() {
            self.teller.note(format!(
                "{} blocks lie in the files more than once, the first again at {}: one copy is used, the others are left where they are",
                again.len(),
                place(first)
            ));
        }
        self.index.write().set_orphans(orphans);
    }

    /// Takes in the found blocks whose parents an older index knew, and says which have none.
    pub fn take_in_orphans(&self, now: i64) {
        let place = |at: &BlockAt| format!("{} byte {}", self.files.path(at.file).display(), at.offset);
        let waiting = self.index.write().take_orphans();
        let Ordered { order, orphans } = self.order(waiting, now, &place);
        for (id, at) in order {
            let mut index = self.index.write();
            if !index.body(id).is_pruned() {
                index.found(id, at);
            }
        }
        self.say_orphans(&orphans, &place);
        self.index.write().set_orphans(orphans);
    }

    /// Headers of found blocks into the tree; gives the blocks in the order in which they link. `place` names one.
    pub fn order(&self, found: Vec<FoundBlock>, now: i64, place: &dyn Fn(&BlockAt) -> String) -> Ordered {
        let mut waiting: HashMap<BlockHash, Vec<FoundBlock>> = HashMap::new();
        let mut order = Vec::with_capacity(found.len());
        let mut ahead: Vec<(FoundBlock, consensus::BlockError)> = Vec::new();
        for block in found {
            let mut queue = std::collections::VecDeque::from([block]);
            while let Some(block) = queue.pop_front() {
                let accepted = self.index.write().accept(self.params, &block.header, block.hash, now);
                match accepted {
                    Ok(id) => {
                        order.push((id, block.at));
                        queue.extend(waiting.remove(&block.hash).unwrap_or_default());
                    }
                    Err(error) if error.class() == Class::MissingPrev => {
                        waiting.entry(block.header.prev()).or_default().push(block);
                    }
                    // No verdict: the clock may be wrong, or it will be right later.
                    Err(error) if error.class() == Class::TimeFuture => ahead.push((block, error)),
                    Err(error) => {
                        let parent = self.headers().find(&block.header.prev());
                        let height = parent.map_or(Height::GENESIS, |parent| self.headers().height(parent) + 1);
                        self.teller.refused(height, block.hash, &format!("{error} ({})", place(&block.at)), true);
                    }
                }
            }
        }
        self.say_ahead(&ahead, &mut waiting, now, place);
        let mut orphans: Vec<FoundBlock> = waiting.into_values().flatten().collect();
        orphans.sort_by_key(|block| (block.at.file, block.at.offset));
        Ordered { order, orphans }
    }

    /// Says how many blocks have no parent.
    pub fn say_orphans(&self, orphans: &[FoundBlock], place: &dyn Fn(&BlockAt) -> String) {
        if let Some(first) = orphans.first() {
            let (count, first) = (orphans.len(), place(&first.at));
            self.teller.warn(format!(
                "{count} blocks have no parent in the files, the first at {first}: they are left where they are; ffwd sync fetches what is missing"
            ));
        }
    }

    /// Says which blocks the clock keeps out, and takes those that stand on them out of `waiting`: they have a parent.
    fn say_ahead(
        &self,
        ahead: &[(FoundBlock, consensus::BlockError)],
        waiting: &mut HashMap<BlockHash, Vec<FoundBlock>>,
        now: i64,
        place: &dyn Fn(&BlockAt) -> String,
    ) {
        let Some((first, error)) = ahead.first() else { return };
        let mut queue: Vec<BlockHash> = ahead.iter().map(|(block, _)| block.hash).collect();
        let mut behind = 0;
        while let Some(hash) = queue.pop() {
            let children = waiting.remove(&hash).unwrap_or_default();
            behind += children.len();
            queue.extend(children.iter().map(|block| block.hash));
        }
        let date = |seconds: i64| crate::log::date(seconds.unsigned_abs());
        self.teller.warn(format!(
            "{} blocks are more than two hours ahead of this machine's clock, and {behind} more stand on them: none is \
             invalid, none was taken. The first is {} at {}: {error} (it says {}, the clock {}). Set the clock if it is \
             wrong, or run this again later",
            ahead.len(),
            first.hash,
            place(&first.at),
            date(i64::from(first.header.time())),
            date(now)
        ));
    }

    /// Appends a block to the block files, if it is whole and good as far as it can be alone; gives what checking it gave.
    /// A body that is not is never stored and never marks its header: the reason is returned. What lies behind a block
    /// is not stored. `keep` is given what checking it gave before anybody can see that it is there.
    pub fn store_block(
        &self,
        id: NodeId,
        bytes: &[u8],
        keep: impl FnOnce(Arc<Checked>),
    ) -> Result<Result<(), String>, Fault> {
        let checked = match self.check_body(id, bytes) {
            Ok(checked) => Arc::new(checked),
            Err(why) => return Ok(Err(why)),
        };
        keep(checked.clone());
        let bytes = &bytes[..checked.block_bytes(bytes)];
        let (height, time) = self.height_and_time(id);
        let at = self.with_room(|| {
            let writers = &mut *self.writers();
            if writers.blocks.is_none() {
                let (net, limits) = (network(self.params), self.options.sizes.limits);
                let dir = self.layout.blocks_dir();
                writers.blocks =
                    Some(BlockWriter::new(self.disk.clone(), dir, &net, self.key, &writers.infos, limits)?);
            }
            let blocks = writers.blocks.as_mut().expect("just made");
            blocks.append(&mut writers.infos, bytes, height, time)
        })?;
        let size = bytes.len() as u32;
        let mut index = self.index.write();
        index.found(id, BlockAt { file: at.file, offset: u64::from(at.offset), size });
        index.checked(id, checked.txids.len() as u32);
        Ok(Ok(()))
    }

    /// Checks a body as far as that goes without coins.
    fn check_body(&self, id: NodeId, bytes: &[u8]) -> Result<Checked, String> {
        let header = headers::context(&self.headers(), id);
        let checked = scratch::with_check(|scratch| stages::check_arrived(self.params, &header, bytes, scratch));
        checked.map_err(|refusal| match refusal {
            Refusal::Rule(error) => error.to_string(),
            Refusal::Unparsable(why) => format!("its {} bytes are no block: {why}", bytes.len()),
            Refusal::WrongBody => "its header is another's".to_owned(),
        })
    }

    /// Headers that an older index knew, so that none of them is forgotten.
    pub fn keep_headers(&self, entries: &[store::IndexEntry]) {
        let mut index = self.index.write();
        for entry in entries {
            index.insert_known(entry);
        }
    }

    /// The same for those that were kept when this reindex began.
    pub fn keep_bare_headers(&self, now: i64) -> Result<(), Fault> {
        for header in store::reindex::kept_headers(&self.disk, &self.layout)? {
            // What does not hold any more is not taken: the file is not Core's, and has no checksum.
            let _ = self.index.write().accept(self.params, &header, header.hash(), now);
        }
        Ok(())
    }

    /// What an index of an interrupted run says of blocks that lie where it says, also where a scan finds others first:
    /// such a run found that one false, and looked for what lies inside.
    pub fn keep_work(&self, loaded: &LoadedIndex) -> Result<(), Fault> {
        for entry in &loaded.entries {
            let (Some(id), Some(at)) = (self.headers().find(&entry.hash), entry.data()) else { continue };
            let known = self.index.read().body(id).location();
            if known != Some(at) {
                let Some(found) = self.files.probe(at)?.filter(|found| found.hash == entry.hash) else { continue };
                let scanned = self.place(id);
                self.index.write().prefer(id, found.at);
                if let Some(scanned) = scanned {
                    let inside = self.blocks_inside(scanned)?;
                    self.index.write().found_all(&inside);
                }
            }
            self.index.write().load_checked(id, entry);
        }
        Ok(())
    }

    /// Says no where the coins stand on blocks that the files do not hold, or that the index does not call connected.
    pub fn check_connected(&self, tip: NodeId) -> Result<(), Fault> {
        let broken = self.index.read().first_unconnected(tip);
        let Some(id) = broken else { return Ok(()) };
        let (height, hash) = self.height_and_hash(id);
        let wanted = format!("block {hash} at height {height}, on which the coins stand");
        let advice = "Put the block file back that this reindex began with; or remove the folder chainstate, and ffwd \
                      reindex starts anew with the files that are there";
        let (dir, found) = (self.layout.blocks_dir(), "none where the index says");
        Err(store::Fault::new(store::FaultKind::Missing, dir, wanted, found, advice).into())
    }

    /// Takes a whole index in as it is: headers, places, marks.
    pub fn take_index(&self, loaded: &LoadedIndex) -> Result<(), Fault> {
        for entry in &loaded.entries {
            let Some(id) = self.index.write().load(entry) else { continue };
            if let Some(at) = entry.data() {
                self.known_place(id, at)?;
            }
        }
        Ok(())
    }

    /// A block whose place the index names; its size comes from its record.
    fn known_place(&self, id: NodeId, at: FilePos) -> Result<(), Fault> {
        let Some(found) = self.files.probe(at)?.filter(|found| found.hash == self.headers().hash(id)) else {
            let (hash, path) = (self.headers().hash(id), self.files.path(at.file));
            let found = "none there";
            let advice = "The index and the block files do not belong together: run ffwd reindex";
            let fault = store::Fault::new(store::FaultKind::Damaged, &path, format!("block {hash}"), found, advice);
            return Err(fault.at(u64::from(at.offset)).into());
        };
        self.index.write().loaded_body(id, found.at.size);
        Ok(())
    }

    /// Counts the blocks that are in use into the infos of their files, which start from what undo data they hold.
    pub fn count_files(&self, found: &[BlockAt]) {
        let mut writers = self.writers();
        let index = self.index.read();
        for (id, at, size) in index.places() {
            writers.infos.add_existing(at, size, index.headers().height(id), index.headers().time(id));
        }
        // Whatever lies behind them must not be written over either.
        for at in found {
            if let Ok(end) = u32::try_from(at.offset + u64::from(at.size)) {
                let info = writers.infos.change(at.file);
                info.size = info.size.max(end);
            }
        }
    }

    /// Writes the genesis block into a new file behind the others, where no file has it.
    pub fn write_genesis(&self) -> Result<(), Fault> {
        let genesis = *self.index.read().body(GENESIS);
        if genesis.location().is_some() || genesis.is_pruned() {
            return Ok(());
        }
        let net = network(self.params);
        let genesis = &self.params.genesis;
        let header = Header(*genesis.first_chunk().expect("a block has a header"));
        let has_files = !self.files.numbers()?.there.is_empty();
        let at = self.with_room(|| {
            let writers = &mut *self.writers();
            // Only once: with room made, it goes on in the file that it began.
            if writers.blocks.is_none() {
                let (dir, limits) = (self.layout.blocks_dir(), self.options.sizes.limits);
                let mut blocks = BlockWriter::new(self.disk.clone(), dir, &net, self.key, &writers.infos, limits)?;
                if has_files {
                    blocks.start_new_file()?;
                }
                writers.blocks = Some(blocks);
            }
            let blocks = writers.blocks.as_mut().expect("just made");
            blocks.append(&mut writers.infos, genesis, Height::GENESIS, header.time())
        })?;
        self.index
            .write()
            .found(GENESIS, BlockAt { file: at.file, offset: u64::from(at.offset), size: genesis.len() as u32 });
        Ok(())
    }

    /// The genesis block is never connected, and always there.
    pub fn mark_genesis(&self) {
        self.index.write().checked_genesis();
    }
}

/// A teller with the log of this folder.
pub fn teller<'e>(events: Events<'e>, options: &Options, layout: &Layout, job: &str) -> Teller<'e> {
    let log = Log::open(&*options.disk, layout.net_dir(), options.clock);
    log.line(&format!("ffwd version v{} ({job})", env!("CARGO_PKG_VERSION")));
    // The widest is the last; few messages at a time are left to narrower ones.
    if let Some(sha256) = simd::sha256::Lanes::available().last() {
        log.line(&format!("Using the '{sha256:?}' SHA256 implementation"));
    }
    log.line(match script::lanes::Lanes::detect() {
        Some(_) => "Using vector lanes (AVX-512 IFMA) for signatures, libsecp256k1 for those that they do not prove",
        None => "Using libsecp256k1 for signatures",
    });
    Teller::new(events, log)
}

/// The chain that is to be built on: its tree needs a tip to start from.
pub fn start_of(tree: &Tree, best: Option<BlockHash>) -> Option<NodeId> {
    best.map_or(Some(GENESIS), |hash| tree.find(&hash))
}
