//! Checks before a reindex removes anything: the state of the data directory, and whether the block files reach its
//! height.

use crate::chain::index::Validity;
use crate::chain::tree::{GENESIS, NodeId, Tree};
use crate::datadir::lock::{self, Locked};
use crate::datadir::prune;
use crate::fault::{Fault, Message};
use crate::options::{Options, Prune};
use crate::reporting::Reporter;
use primitives::{BlockHash, Header, Height};
use std::collections::HashSet;
use store::FaultKind;
use store::blockfiles::FoundBlock;
use store::chainstate::Chainstate;
use store::index::{BlockTreeDb, LoadedIndex};

/// How to treat a pruned data directory, whose index cannot be built again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pruned {
    /// Leave it unchanged.
    Refuse,
    /// Remove its block and undo files, if pruning is on: the blocks are downloaded again.
    BeginAnew,
}

/// Minimum bytes of a coin in the tables: the estimate of coins should be too high rather than too low.
const COIN_BYTES: u64 = 50;

/// State of the data directory before the reindex.
pub(super) struct Before {
    /// The block index, if it can be read.
    pub(super) loaded: Option<LoadedIndex>,
    /// The block of the coins, or the one that an unfinished flush leads to; `None` if they cannot be read.
    pub(super) best: Option<BlockHash>,
    /// Approximate number of coins; 0 if unknown.
    pub(super) coins: usize,
    /// The flag `R` is set, and the coins are those of the run that set it.
    pub(super) resumes: bool,
    /// Index and coins are those of another chain than Bitcoin's: they are removed.
    is_of_the_split: bool,
}

/// Chain that the block files contain.
struct Reach {
    /// Headers of blocks that link to the genesis block.
    tree: Tree,
    /// The best of these headers.
    best: NodeId,
    /// A header is ahead of the clock.
    is_ahead: bool,
}

/// Minimum that the result must reach.
#[derive(Clone, Copy)]
enum Wanted {
    /// A height that was connected.
    Height(Height),
    /// A block whose height is unknown.
    Block(BlockHash),
}

impl Before {
    /// Reads the state, and refuses a pruned data directory; changes nothing except to complete a step that a crash
    /// interrupted.
    pub(super) fn look(
        locked: &Locked,
        options: &Options,
        pruned: Pruned,
        reporter: &Reporter<'_>,
    ) -> Result<Before, Fault> {
        let Locked { disk, layout, .. } = locked;
        reporter.with_room(|| store::reindex::finish_index_swap(disk, layout))?;
        reporter.with_room(|| store::chainstate::finish_swap(disk, layout))?;
        let mut before = Before { loaded: None, best: None, coins: 0, resumes: false, is_of_the_split: false };
        if readable(BlockTreeDb::exists(&**disk, layout), reporter)? == Some(true) {
            let index = BlockTreeDb::open_read_only(&locked.host, layout);
            let read = index.and_then(|index| index.load(&lock::network(&options.params)));
            before.is_of_the_split = read.as_ref().is_err_and(|why| why.kind() == FaultKind::OtherForm);
            before.loaded = readable(read, reporter)?;
        }
        let is_reindexing = before.loaded.as_ref().is_some_and(|loaded| loaded.is_reindexing);
        if before.loaded.is_some() && !is_reindexing {
            reporter.with_room(|| store::reindex::forget(disk, layout))?;
        }
        let is_beginning = store::reindex::is_beginning(&**disk, layout)?;
        if let Some(coins) = stands_at(locked, reporter)? {
            (before.best, before.coins) = (coins.best, coins.count);
            // A run that was interrupted in its first steps repeats them. A flush that Core did not finish is
            // discarded.
            before.resumes = is_reindexing && !coins.is_half && !is_beginning;
        }
        let is_asked = pruned == Pruned::BeginAnew && options.prune != Prune::Off;
        // A run that was interrupted while it removed the blocks goes on with that.
        if before.is_pruned_by_another_run() && (is_asked || is_beginning) {
            return Before::without_blocks(locked, reporter);
        }
        before.check_pruned(locked, options)?;
        Ok(before)
    }

    /// Whether blocks were pruned, and not by a reindex that this run continues.
    fn is_pruned_by_another_run(&self) -> bool {
        !self.resumes && self.loaded.as_ref().is_some_and(|loaded| loaded.is_pruned)
    }

    /// Removes every block and undo file, because the blocks of a pruned directory do not form a chain from the first
    /// one on. Before that it is stored that a reindex begins, so that any later run goes on with it. The index keeps
    /// its flag for pruned blocks until a new one replaces it.
    fn without_blocks(locked: &Locked, reporter: &Reporter<'_>) -> Result<Before, Fault> {
        let Locked { disk, layout, .. } = locked;
        reporter.warn(Message::new(
            "The data directory is pruned: -reindex removes its blocks, and downloads the chain again",
            "No action is needed",
        ));
        reporter.with_room(|| store::reindex::announce(&locked.host, layout))?;
        let numbers = locked.files.numbers()?.there;
        prune::remove_files(&**disk, layout, &numbers, reporter)?;
        reporter.with_room(|| store::reindex::remove_undo_files(&**disk, layout))?;
        Ok(Before { loaded: None, best: None, coins: 0, resumes: false, is_of_the_split: false })
    }

    fn check_pruned(&self, locked: &Locked, options: &Options) -> Result<(), Fault> {
        let Some(loaded) = &self.loaded else { return Ok(()) };
        if self.resumes && options.prune == Prune::Off {
            store::index::check_not_pruned(loaded, &locked.layout)?;
        }
        if loaded.is_pruned && !self.resumes {
            let advice = "A reindex needs every block from the first on. Continue from its tip with ffwd sync --prune or \
                          bitcoind -prune. To have the pruned blocks again: ffwd sync --prune 0. To rebuild the UTXO set as well: \
                          ffwd sync --prune in an empty data directory";
            let wanted = "all block files";
            let found = "a pruned data directory";
            let dir = locked.layout.blocks_dir();
            return Err(store::Fault::new(FaultKind::Refused, dir, wanted, found, advice).into());
        }
        Ok(())
    }

    /// Refuses block files that end below the coins' height; if the coins cannot be read, below the highest block that
    /// was ever connected; without an index, files that lack the coins' block.
    pub(super) fn compare(
        &self,
        options: &Options,
        found: &[FoundBlock],
        now: i64,
        locked: &Locked,
    ) -> Result<(), Fault> {
        let Some(wanted) = self.wanted() else { return Ok(()) };
        let stop = options.stop_at_height.unwrap_or(Height::MAX);
        let mut reach = reach(options, found, &[], now);
        if !reach.has(wanted, stop) {
            let inside = self.found_by_the_index(found, locked)?;
            reach = self::reach(options, found, &inside, now);
        }
        if reach.has(wanted, stop) {
            return Ok(());
        }
        let reached = reach.height();
        let stand = wanted.words();
        if reach.is_ahead {
            let date = crate::reporting::log::date(now.unsigned_abs());
            let why = format!(
                "by this machine's clock, {date}, the blocks after height {reached} are more than two hours in the future, and \
                 the chainstate is at {stand}. Nothing was changed"
            );
            return Err(Fault::refused(why, "Set the clock, then run this again"));
        }
        let wanted = format!("block files up to {stand}, the best block of the chainstate");
        let advice = "A block file is missing or damaged, or the data directory was pruned: put the files back. Without them run ffwd repair, which fetches only what is missing. \
                      To go on with fewer blocks, remove the directories chainstate and blocks/index, and run this again. Nothing was changed";
        let found = format!("blocks up to height {reached}");
        let dir = locked.layout.blocks_dir();
        Err(store::Fault::new(FaultKind::Refused, dir, wanted, found, advice).into())
    }

    fn wanted(&self) -> Option<Wanted> {
        let of_coins = self.best.filter(|_| !self.is_of_the_split).map(Wanted::Block);
        let Some(loaded) = &self.loaded else { return of_coins };
        if loaded.is_reindexing {
            return None;
        }
        let Some(best) = self.best else {
            let connected = loaded
                .entries
                .iter()
                .filter(|entry| entry.status.level() >= Validity::Scripts.level() && !entry.status.is_failed());
            return connected.map(|entry| entry.height).max().map(Wanted::Height);
        };
        let entry = loaded.entries.iter().find(|entry| entry.hash == best);
        Some(entry.map_or(Wanted::Block(best), |entry| Wanted::Height(entry.height)))
    }

    /// Headers that are in no block file: those of the old index, and those that an earlier run kept.
    pub(super) fn bare_headers(&self, found: &[FoundBlock], locked: &Locked) -> Result<Vec<Header>, Fault> {
        let mut seen: HashSet<BlockHash> = found.iter().map(|block| block.hash).collect();
        let known = self.loaded.iter().flat_map(|loaded| loaded.entries.iter().map(|entry| (entry.hash, entry.header)));
        let kept = store::reindex::kept_headers(&locked.disk, &locked.layout)?;
        let all = known.chain(kept.into_iter().map(|header| (header.hash(), header)));
        Ok(all.filter(|&(hash, _)| seen.insert(hash)).map(|(_, header)| header).collect())
    }

    /// Blocks that a scan misses because they are inside a record of another block, but that are at their position in
    /// the index.
    fn found_by_the_index(&self, found: &[FoundBlock], locked: &Locked) -> Result<Vec<FoundBlock>, Fault> {
        let Some(loaded) = &self.loaded else { return Ok(Vec::new()) };
        let seen: HashSet<BlockHash> = found.iter().map(|block| block.hash).collect();
        let mut inside = Vec::new();
        for entry in loaded.entries.iter().filter(|entry| !seen.contains(&entry.hash)) {
            let Some(at) = entry.data() else { continue };
            match locked.files.probe(at) {
                Ok(block) => inside.extend(block.filter(|block| block.hash == entry.hash)),
                Err(why) if why.kind() == FaultKind::Missing => {}
                Err(why) => return Err(why.into()),
            }
        }
        Ok(inside)
    }
}

impl Wanted {
    fn words(self) -> String {
        match self {
            Wanted::Height(height) => format!("height {height}"),
            Wanted::Block(hash) => format!("block {hash}"),
        }
    }
}

impl Reach {
    fn height(&self) -> Height {
        self.tree.height(self.best)
    }

    /// Whether a result that ends at `stop` at the latest reaches the minimum.
    fn has(&self, wanted: Wanted, stop: Height) -> bool {
        match wanted {
            Wanted::Height(height) => self.height() >= height.min(stop),
            Wanted::Block(hash) => self.tree.find(&hash).is_some() || self.height() >= stop,
        }
    }
}

/// State of a set of coins.
struct Stands {
    /// Its block, or the one that an unfinished flush leads to; `None` for an empty set.
    best: Option<BlockHash>,
    /// Approximate number of its coins.
    count: usize,
    /// Core was stopped while it wrote it.
    is_half: bool,
}

/// State of the coins of a data directory, if they can be read.
fn stands_at(locked: &Locked, reporter: &Reporter<'_>) -> Result<Option<Stands>, Fault> {
    let dir = locked.layout.chainstate_dir();
    if !Chainstate::exists(&*locked.disk, &dir)? {
        return Ok(None);
    }
    let coins = Chainstate::open_read_only(&locked.host, &dir);
    let stands = coins.and_then(|coins| {
        let heads = coins.head_blocks()?;
        let best = coins.best_block()?.or(heads.map(|heads| heads.new));
        let count = coins.view().table_bytes() / COIN_BYTES;
        Ok(Stands { best, count: usize::try_from(count).unwrap_or(usize::MAX), is_half: heads.is_some() })
    });
    readable(stands, reporter)
}

/// Height of the highest block up to `end` that was ever connected and is not marked.
fn connected_height(loaded: &LoadedIndex, end: Height) -> Option<Height> {
    let connected = loaded
        .entries
        .iter()
        .filter(|entry| entry.status.level() >= Validity::Scripts.level() && !entry.status.is_failed());
    connected.map(|entry| entry.height).filter(|&height| height <= end).max()
}

/// Height that a rebuild from this index must reach, and the approximate number of coins: the height of the old coins,
/// or if that is unknown, of the highest block that was ever connected. What was connected on the coins of a snapshot
/// with this base does not count.
pub(super) fn old_coins(
    locked: &Locked,
    loaded: &LoadedIndex,
    base: Option<BlockHash>,
    reporter: &Reporter<'_>,
) -> Result<(Height, usize), Fault> {
    let (best, count) = stands_at(locked, reporter)?.map_or((None, 0), |coins| (coins.best, coins.count));
    let height_of = |hash| loaded.entries.iter().find(|entry| entry.hash == hash).map(|entry| entry.height);
    let end = base.and_then(height_of).unwrap_or(Height::MAX);
    let height = best.and_then(height_of).or_else(|| connected_height(loaded, end));
    Ok((height.unwrap_or(Height::GENESIS), count))
}

/// `None` for data that is damaged or of an old format, because a reindex replaces it. Any other error stops the run.
fn readable<T>(read: store::Result<T>, reporter: &Reporter<'_>) -> Result<Option<T>, Fault> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(why) if matches!(why.kind(), FaultKind::Damaged | FaultKind::Refused | FaultKind::OtherForm) => {
            reporter.warn(Message::new(why.what(), "No action is needed: it is rebuilt"));
            Ok(None)
        }
        Err(why) => Err(why.into()),
    }
}

/// The best complete chain of the files, and of `inside`, by headers.
fn reach(options: &Options, found: &[FoundBlock], inside: &[FoundBlock], now: i64) -> Reach {
    let tree = crate::chain::headers::genesis_tree(&options.params);
    let mut reach = Reach { tree, best: GENESIS, is_ahead: false };
    let mut rest: Vec<&FoundBlock> = found.iter().chain(inside).collect();
    // Files are nearly in the order of the chain, so few passes suffice.
    loop {
        let before = rest.len();
        rest.retain(|block| {
            let tree = &mut reach.tree;
            match crate::chain::headers::accept(tree, &options.params, &block.header, block.hash, now) {
                Ok(id) => {
                    if tree.work(id) > tree.work(reach.best) {
                        reach.best = id;
                    }
                    false
                }
                Err(error) => {
                    reach.is_ahead |= error.class() == consensus::Class::TimeFuture;
                    error.class() == consensus::Class::MissingPrev
                }
            }
        });
        if rest.len() == before {
            return reach;
        }
    }
}
