//! `info`: describes a data directory, without changing it.

use super::forecast::Forecast;
use crate::chain::index::{self, SharedIndex};
use crate::chain::pruned_fork::PrunedFork;
use crate::chain::tree::Tree;
use crate::datadir::earlier::shut_out;
use crate::datadir::lock::{self, Locked};
use crate::datadir::look::{self, Hold};
use crate::datadir::refused::RefusedFile;
use crate::datadir::seems;
use crate::datadir::unindexed::{Unindexed, unindexed};
use crate::fault::{Fault, Message};
use crate::options::{Options, Prune};
use crate::reporting::assumed::AssumedElsewhere;
use primitives::{BlockHash, Height, hex, human};
use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;
use store::chainstate::{self, Chainstate};
use store::index::{BlockTreeDb, LoadedIndex};
use store::private_files::PrivateDir;
use store::xor::Origin;
use store::{FaultKind, IndexEntry};

/// How often files are read again while a program uses the data directory, and the delay between two tries.
const TRIES_BESIDE: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// State of a data directory.
#[derive(Clone, Debug, Default)]
pub struct DataDirInfo {
    /// The network, as -chain names it.
    pub chain: &'static str,
    /// Height of the coins' best block.
    pub height: Height,
    /// Its hash.
    pub best: BlockHash,
    /// Height of the highest header.
    pub headers: Height,
    /// Bytes of block files in use.
    pub blocks_bytes: u64,
    /// Bytes of undo files in use.
    pub undo_bytes: u64,
    /// Bytes of the coin tables.
    pub chainstate_bytes: u64,
    /// A reindex is unfinished.
    pub reindexing: bool,
    /// If block files were pruned: the lowest height from which on all blocks up to the coins' are stored.
    pub prune_height: Option<Height>,
    /// Blocks that are marked invalid although their parents are not.
    pub failed: Vec<Failed>,
    /// The UTXO set came from a snapshot at this block, whose history is not validated yet.
    pub snapshot_base: Option<BlockHash>,
    /// The program that uses the data directory, and how to query it; this report shows its last commit.
    pub in_use: Option<InUse>,
    /// Block files, or ends of them, that the index does not name; not reported while a program uses the data
    /// directory.
    pub unindexed: Option<Unindexed>,
    /// Disk space for the chain, if Core has figures for the network.
    pub space: Option<Forecast>,
    /// If xor.dat is missing and the block files are obfuscated: the key, in hexadecimal, that their contents reveal.
    pub lost_key: Option<String>,
    /// Why this is not a readable data directory of this network; the other fields are then meaningless.
    pub remark: Option<String>,
    /// Warnings about the chain: a mark that excludes a better one, an assumed-valid block that is not on the best one.
    pub warnings: Vec<String>,
    /// The next step for the user.
    pub next_step: String,
}

/// A program that uses a data directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InUse {
    /// Its process id.
    pub pid: Option<u32>,
    /// Its name and process: "ffwd (process 12)".
    pub program: String,
    /// The command that queries it.
    pub question: String,
    /// Why its files could not be read meanwhile, if so.
    pub unread: Option<String>,
}

/// A block that is marked invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failed {
    /// Its height.
    pub height: Height,
    /// Its hash.
    pub hash: BlockHash,
    /// Blocks and headers that are marked as its descendants.
    pub descendants: u64,
    /// Whether the marked chain has more work than any other.
    pub shuts_out: bool,
}

impl fmt::Display for DataDirInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "chain        {}", self.chain)?;
        if let Some(remark) = &self.remark {
            writeln!(f, "directory    wrong: {remark}")?;
            return write!(f, "next         {}", self.next_step);
        }
        writeln!(f, "coins at     height {}, block {}", self.height, self.best)?;
        writeln!(f, "headers to   height {}", self.headers)?;
        writeln!(f, "block files  {}", human::bytes(self.blocks_bytes))?;
        writeln!(f, "undo files   {}", human::bytes(self.undo_bytes))?;
        writeln!(f, "coin tables  {}", human::bytes(self.chainstate_bytes))?;
        if let Some(height) = self.prune_height {
            writeln!(f, "pruned       blocks from height {height} on are there: bitcoind must run with -prune")?;
        }
        if let Some(base) = self.snapshot_base {
            writeln!(f, "snapshot     the coins came from one at block {base}; the past is not validated yet")?;
        }
        for Failed { height, hash, descendants, .. } in &self.failed {
            write!(f, "invalid      block {hash} at height {height}")?;
            match descendants {
                0 => writeln!(f)?,
                above => writeln!(f, ", and its descendants: {above}")?,
            }
        }
        for warning in &self.warnings {
            writeln!(f, "warning      {warning}")?;
        }
        if let Some(key) = &self.lost_key {
            writeln!(
                f,
                "xor.dat      missing. The block files are obfuscated with the key {key}: the next sync or reindex stores it"
            )?;
        }
        if let Some(unindexed) = &self.unindexed {
            writeln!(f, "not indexed  {unindexed}")?;
        }
        if let Some(space) = &self.space {
            writeln!(f, "disk space   {space}")?;
        }
        if let Some(InUse { program, question, unread, .. }) = &self.in_use {
            let seen = match unread {
                Some(why) => format!("its files could not be read while it runs ({why})"),
                None => "all this is as of its last commit".to_owned(),
            };
            writeln!(f, "in use       by {program}: {seen}. It answers to {question}, and ffwd top watches an ffwd")?;
        }
        write!(f, "next         {}", self.next_step)
    }
}

/// Describes a data directory, also while a program uses it. Creates and writes nothing, and takes no lock.
///
/// # Errors
///
/// The data directory is damaged, or cannot be read.
pub fn info(options: &Options) -> Result<DataDirInfo, Fault> {
    let mut tries = 0;
    let (looked, holder) = loop {
        let looked = look_into(options);
        // While a program writes, reads may be inconsistent, each time differently.
        let holder = look::holder(options);
        if looked.is_ok() || holder.is_none() || tries == TRIES_BESIDE {
            break (looked, holder);
        }
        tries += 1;
        std::thread::sleep(PAUSE);
    };
    let Some(holder) = holder else {
        let seen = looked?;
        return Ok(DataDirInfo { space: space(options, &seen), ..seen });
    };
    let program = look::named(&holder);
    let (seen, unread) = match looked {
        Ok(seen) => (seen, None),
        Err(why) => (nothing_seen(options), Some(why.to_string())),
    };
    let next_step = format!("nothing, while {program} is at work there");
    let question = look::question(options, "getblockchaininfo");
    let in_use = Some(InUse { pid: holder.pid, program, question, unread });
    Ok(DataDirInfo { in_use, unindexed: None, space: space(options, &seen), next_step, ..seen })
}

fn space(options: &Options, seen: &DataDirInfo) -> Option<Forecast> {
    let forecast = Forecast::of(options)?;
    let was_pruned = seen.prune_height.is_some() && options.prune == Prune::Off;
    Some(if was_pruned { forecast.of_pruned() } else { forecast })
}

fn nothing_seen(options: &Options) -> DataDirInfo {
    DataDirInfo { chain: options.params.chain.name(), best: options.params.genesis_hash, ..Default::default() }
}

fn look_into(options: &Options) -> Result<DataDirInfo, Fault> {
    let mut info = nothing_seen(options);
    if let Some(seems) = seems::seems(options, &lock::layout(options))? {
        (info.remark, info.next_step) = (Some(seems.to_string()), seems.advice());
        return Ok(info);
    }
    if lock::is_unused(options)? {
        seems::check_new(options, &lock::layout(options))?;
        info.next_step = "ffwd sync: the data directory is empty".into();
        return Ok(info);
    }
    let locked = look::open(options, Hold::Nothing)?;
    info.lost_key = matches!(locked.key_origin, Origin::WorkedOut(_)).then(|| hex::encode(&locked.key));
    let disk = &locked.disk;
    let layout = &locked.layout;
    let read = || match BlockTreeDb::exists(&**disk, layout)? {
        true => BlockTreeDb::open_read_only(&locked.host, layout)?.load(&lock::network(&options.params)),
        false => Ok(LoadedIndex::default()),
    };
    let loaded = match read() {
        Err(why) if why.kind() == FaultKind::OtherForm => {
            let detail = why.detail();
            (info.remark, info.next_step) = (Some(detail.found.clone()), detail.advice.clone());
            let network = lock::network(&options.params);
            match store::index::load_flat(&**disk, layout, &network) {
                Ok(Some(flat)) => fill_index(&mut info, &flat),
                Ok(None) => {}
                // Damaged, or of an unknown version: reported as the next step.
                Err(why) => info.next_step = why.to_string(),
            }
            return Ok(info);
        }
        read => read?,
    };
    if loaded.entries.is_empty() && !loaded.is_reindexing {
        fill_without_index(&mut info, &locked)?;
        return Ok(info);
    }
    // A sync would stop at a missing file, so it is reported here.
    let missing = store::index::check_files_exist(&loaded, &locked.files.numbers()?, layout).err();
    fill_index(&mut info, &loaded);
    let base = chainstate::snapshot_base(&**disk, layout)?;
    // A base that is not in this index is not of this data directory.
    let is_of_index = base.is_some_and(|base| loaded.entries.iter().any(|entry| entry.hash == base));
    let dir = if is_of_index { layout.snapshot_dir() } else { layout.chainstate_dir() };
    let standing = look_at_coins(&mut info, &locked, &loaded, &dir, base.filter(|_| is_of_index))?;
    info.unindexed = if info.reindexing { None } else { unindexed(&locked.files, &loaded)? };
    let top = highest(&loaded).filter(|_| standing == Standing::Lost).unwrap_or(info.best);
    info.prune_height = loaded.is_pruned.then(|| prune_height(&loaded, top));
    look_at_headers(&mut info, &loaded, options, PrivateDir::new(disk.clone(), layout.private_dir()));
    info.snapshot_base = base;
    info.next_step = next_step(&info, standing, loaded.is_pruned);
    if let Some(missing) = missing {
        info.next_step = missing.to_string();
    }
    Ok(info)
}

/// Fills in what is known of a directory without a block index.
fn fill_without_index(info: &mut DataDirInfo, locked: &Locked) -> Result<(), Fault> {
    let Locked { disk, host, layout, files, .. } = locked;
    let numbers = files.numbers()?.there;
    for &number in &numbers {
        let len = |path: &Path| Ok::<u64, store::Fault>(disk.metadata(path)?.map_or(0, |known| known.len));
        info.blocks_bytes += len(&layout.block_file(number))?;
        info.undo_bytes += len(&layout.undo_file(number))?;
    }
    let is_on_snapshot = chainstate::snapshot_base(&**disk, layout)?.is_some();
    let dir = if is_on_snapshot { layout.snapshot_dir() } else { layout.chainstate_dir() };
    let mut has_coins = false;
    if Chainstate::exists(&**disk, &dir)? {
        let coins = Chainstate::open_read_only(host, &dir)?;
        info.chainstate_bytes = coins.view().table_bytes();
        if let Some(best) = coins.best_block()?.or(coins.head_blocks()?.map(|heads| heads.new)) {
            has_coins = true;
            info.best = best;
            info.remark = Some(format!("the UTXO set is that of block {best}, whose height only the block index has"));
        }
    }
    info.next_step = match (numbers.is_empty(), has_coins) {
        (false, true) => "ffwd repair: the block index is made again from the block files, and the UTXO set stays",
        (false, false) => "ffwd reindex: there are block files and no index",
        (true, true) => "remove the directory chainstate, then ffwd sync: a UTXO set without blocks is of no use",
        (true, false) => "ffwd sync: the data directory is empty",
    }
    .to_owned();
    Ok(())
}

/// Fills in the facts that need only the block index.
fn fill_index(info: &mut DataDirInfo, loaded: &LoadedIndex) {
    info.headers = loaded.entries.iter().map(|entry| entry.height).max().unwrap_or(Height::GENESIS);
    info.blocks_bytes = loaded.files.iter().map(|file| u64::from(file.size)).sum();
    info.undo_bytes = loaded.files.iter().map(|file| u64::from(file.undo_size)).sum();
    info.reindexing = loaded.is_reindexing;
}

/// What is known of the coins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// They are those of a block that is connected in the index; or no block is.
    Good,
    /// bitcoind was stopped while it wrote them.
    Half,
    /// The index does not have their block as a connected one.
    Apart,
    /// There are none, although blocks were connected.
    Lost,
}

/// Fills in what the coins in `dir` say; `base` is the block of the snapshot that they come from.
fn look_at_coins(
    info: &mut DataDirInfo,
    locked: &Locked,
    loaded: &LoadedIndex,
    dir: &Path,
    base: Option<BlockHash>,
) -> Result<Standing, Fault> {
    let lost = if highest(loaded).is_some() { Standing::Lost } else { Standing::Good };
    if !Chainstate::exists(&*locked.disk, dir)? {
        return Ok(lost);
    }
    let coins = Chainstate::open_read_only(&locked.host, dir)?;
    info.chainstate_bytes = coins.view().table_bytes();
    let heads = coins.head_blocks()?;
    // What bitcoind was writing is replayed from the older of the two blocks.
    let Some(best) = coins.best_block()?.or(heads.and_then(|heads| heads.old)) else {
        return Ok(if heads.is_some() { Standing::Half } else { lost });
    };
    (info.best, info.height) = (best, super::height_of(loaded, best)?);
    let is_connected = loaded.entries.iter().any(|entry| entry.hash == best && entry.status.is_connected());
    Ok(match () {
        () if !is_connected && base != Some(best) => Standing::Apart,
        () if heads.is_some() => Standing::Half,
        () => Standing::Good,
    })
}

/// The highest block that was connected, above the genesis block.
fn highest(loaded: &LoadedIndex) -> Option<BlockHash> {
    let connected = |entry: &&IndexEntry| entry.status.is_connected() && entry.height > Height::GENESIS;
    loaded.entries.iter().filter(connected).max_by_key(|entry| entry.height).map(|entry| entry.hash)
}

fn next_step(info: &DataDirInfo, standing: Standing, is_pruned: bool) -> String {
    let prune = if is_pruned { " --prune MiB" } else { "" };
    match standing {
        _ if info.reindexing => format!("ffwd reindex{prune}: it was stopped half-way and goes on where it was"),
        Standing::Apart => "ffwd repair: block index and chainstate do not belong together".to_owned(),
        Standing::Lost if is_pruned => {
            "ffwd sync --prune MiB: there is no UTXO set, and the chain is connected again".to_owned()
        }
        Standing::Lost => "ffwd repair: there is no UTXO set, and it is made again from the block files".to_owned(),
        _ if info.snapshot_base.is_some() => {
            format!("ffwd sync{prune}, or bitcoind: a snapshot waits for its validation")
        }
        Standing::Half => {
            format!("ffwd sync{prune}: bitcoind was stopped while it wrote coins; they are replayed first")
        }
        Standing::Good if is_pruned => {
            format!("ffwd sync --prune MiB: from height {} on, or bitcoind -prune", info.height)
        }
        Standing::Good => format!("ffwd sync: from height {} on, or bitcoind", info.height),
    }
}

/// Fills in the facts from headers: marked blocks, and warnings.
fn look_at_headers(info: &mut DataDirInfo, loaded: &LoadedIndex, options: &Options, own: PrivateDir) {
    let headers = headers_of(loaded, options, own);
    info.failed = failed(loaded, &headers.headers());
    info.warnings = warnings(&headers.read(), info, options);
}

/// The headers of an index, its marks, and which marks ffwd made for a broken rule. An entry without its parent is
/// skipped, because it may be read while a program writes.
fn headers_of(loaded: &LoadedIndex, options: &Options, own: PrivateDir) -> SharedIndex {
    let mut index = index::BlockIndex::new(&options.params);
    // Parents are before their children.
    for entry in &loaded.entries {
        let _ = index.load(entry);
    }
    let index = SharedIndex::new(index);
    RefusedFile::new(own).load(&index);
    index
}

/// Warnings about state from earlier runs that affects the next one, as printed when the data directory is opened.
fn warnings(index: &index::BlockIndex, info: &DataDirInfo, options: &Options) -> Vec<String> {
    let tree = index.headers();
    let Some(tip) = tree.find(&info.best) else { return Vec::new() };
    let kept_from = info.prune_height.unwrap_or(Height::GENESIS);
    let messages = [
        shut_out(index, tip, &[]).map(|shut_out| shut_out.message()),
        PrunedFork::find(tree, tip, tree.best(), || kept_from).map(|fork| fork.message()),
        AssumedElsewhere::find(tree, &options.assumevalid).map(|assumed| assumed.message()),
    ];
    messages.iter().flatten().map(Message::to_string).collect()
}

/// Marked blocks, without those that descend from another of them.
fn failed(loaded: &LoadedIndex, tree: &Tree) -> Vec<Failed> {
    let mut failed = Vec::<Failed>::new();
    let mut root_of = HashMap::<BlockHash, usize>::new();
    let best_work = tree.work(tree.best());
    // Parents are before their children.
    for entry in loaded.entries.iter().filter(|entry| entry.status.is_failed()) {
        let root = root_of.get(&entry.header.prev()).copied().unwrap_or_else(|| {
            failed.push(Failed { height: entry.height, hash: entry.hash, descendants: 0, shuts_out: false });
            failed.len() - 1
        });
        failed[root].descendants += u64::from(failed[root].hash != entry.hash);
        failed[root].shuts_out |= tree.find(&entry.hash).is_some_and(|id| tree.work(id) > best_work);
        root_of.insert(entry.hash, root);
    }
    failed
}

/// Lowest height from which on all blocks up to `best` are stored with their undo data; genesis needs no undo data.
/// Source: Core's getblockchaininfo, `pruneheight`.
fn prune_height(loaded: &LoadedIndex, best: BlockHash) -> Height {
    let mut wanted = best;
    let mut lowest = None;
    // Parents are before their children.
    for entry in loaded.entries.iter().rev() {
        if entry.hash == wanted {
            let has_undo = entry.undo().is_some() || entry.height == Height::GENESIS;
            if entry.data().is_none() || !has_undo {
                return entry.height + 1;
            }
            (wanted, lowest) = (entry.header.prev(), Some(entry.height));
        }
    }
    lowest.unwrap_or(Height::GENESIS)
}
