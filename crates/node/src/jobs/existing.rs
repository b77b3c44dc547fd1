//! Opening a folder to go on with it: what its index and coins say, finished where Core or ffwd was cut short.

use super::engine;
use crate::candidates::Links;
use crate::engine::{Engine, World, undo_coins};
use crate::fault::Fault;
use crate::folder::Folder;
use crate::folder::open::{self, Locked};
use crate::folder::prune;
use crate::options::{Events, Options, Prune};
use crate::tree::{GENESIS, NodeId};
use primitives::coin::{code, is_unspendable, put_coin};
use primitives::{Block, Hash256, Height, Tables};
use std::path::Path;
use store::chainstate::{self, Chainstate, HeadBlocks};
use store::index::{self, BlockIndex};
use store::{FaultKind, FileInfos};

/// A folder, its links, and the block that its coins stand at.
pub(super) struct Existing<'e> {
    pub(super) folder: Folder<'e>,
    pub(super) links: Links,
    pub(super) tip: NodeId,
}

/// What a folder is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Blocks are added, and files pruned where that is wanted.
    Work,
    /// What is there is looked at, pruned or not.
    Look,
}

/// Opens a folder, or makes one where there is none. An unfinished reindex is finished first by the caller.
pub(super) fn open<'e>(
    options: &'e Options,
    events: Events<'e>,
    job: &str,
    purpose: Purpose,
) -> Result<Existing<'e>, Fault> {
    if purpose == Purpose::Look && open::is_unused(options)? {
        return Err(nothing_to_look_at(&open::layout(options).index_dir(), "a block index", "none"));
    }
    let locked = open::lock(options, events, false)?;
    let (disk, layout, stop) = (locked.disk.clone(), locked.layout.clone(), &options.stop);
    let teller = open::teller(events, &layout, job);
    chainstate::check_no_snapshot(&*disk, &layout)?;
    teller.with_room(stop, || chainstate::finish_swap(&*disk, &layout))?;
    teller.with_room(stop, || store::reindex::finish_index_swap(&*disk, &layout))?;
    check_there(&locked, purpose, options.params.genesis_hash)?;
    let block_index = teller.with_room(stop, || BlockIndex::open(disk.clone(), &layout))?;
    let loaded = block_index.load(&open::network(&options.params))?;
    if purpose == Purpose::Work {
        if !loaded.is_reindexing {
            teller.with_room(stop, || store::reindex::forget(&disk, &layout))?;
        }
        if options.prune == Prune::Off {
            index::check_not_pruned(&loaded, &layout)?;
        }
        prune::check(options, &*disk, &layout)?.into_iter().for_each(|warning| teller.warn(warning));
        teller.with_room(stop, || prune::finish_removal(&*disk, &layout, &loaded))?;
    }
    index::check_files_exist(&loaded, &locked.files.numbers()?, &layout)?;
    let coins = teller.with_room(stop, || Chainstate::open(disk.clone(), &layout.chainstate_dir()))?;
    let (best, heads) = (coins.best_block()?, coins.head_blocks()?);
    let infos = FileInfos::new(loaded.files.clone());
    let folder = Folder::assemble(options, teller, locked, block_index, coins, infos);
    folder.writers().is_pruned = loaded.is_pruned;
    let mut links = Links::new();
    folder.take_index(&loaded, &mut links)?;
    if purpose == Purpose::Look && loaded.entries.is_empty() {
        return Err(nothing_to_look_at(&folder.layout.index_dir(), "a block index", "an empty one"));
    }
    let tip = match heads {
        Some(heads) => replay(&folder, heads)?,
        None => {
            let start = open::start_of(&folder.tree(), best);
            start.ok_or_else(|| super::apart(best.unwrap_or_default()))?
        }
    };
    // Not before it is known that the folder can be gone on with.
    if loaded.entries.is_empty() {
        folder.write_genesis()?;
        folder.mark_genesis();
    }
    folder.set_active(tip);
    folder.link_connected(&mut links, tip);
    if purpose == Purpose::Work {
        folder.prune(tip)?;
    }
    Ok(Existing { folder, links, tip })
}

/// Says no where there is nothing to look at, and where coins lie without the index that knows their block: before
/// anything is made that was not there.
fn check_there(locked: &Locked, purpose: Purpose, genesis: Hash256) -> Result<(), Fault> {
    let Locked { disk, layout, .. } = locked;
    let has_index = BlockIndex::exists(&**disk, layout)?;
    if purpose == Purpose::Look && !has_index {
        return Err(nothing_to_look_at(&layout.index_dir(), "a block index", "none"));
    }
    let dir = layout.chainstate_dir();
    if !Chainstate::exists(&**disk, &dir)? {
        return match purpose {
            Purpose::Work => Ok(()),
            Purpose::Look => Err(nothing_to_look_at(&dir, "a chainstate", "none")),
        };
    }
    if !has_index {
        let coins = Chainstate::open_read_only(disk.clone(), &dir)?;
        let best = coins.best_block()?.or(coins.head_blocks()?.map(|heads| heads.new));
        return best.filter(|best| *best != genesis).map_or(Ok(()), |best| Err(super::apart(best)));
    }
    Ok(())
}

fn nothing_to_look_at(dir: &Path, wanted: &str, found: &str) -> Fault {
    let advice = "Run ffwd reindex where block files are, or ffwd sync";
    store::Fault::new(FaultKind::Missing, dir, wanted, found, advice).into()
}

/// Finishes a flush of Core's that was cut short: rolls back to the fork with undo data, then forward again. Creations
/// overwrite, and spends may miss, for any part of it may be there already.
///
/// Source: Bitcoin Core b88bffe, `Chainstate::ReplayBlocks`, `RollforwardBlock`.
fn replay(folder: &Folder<'_>, heads: HeadBlocks) -> Result<NodeId, Fault> {
    let find = |hash: Hash256| folder.tree().find(&hash).ok_or_else(|| super::apart(hash));
    let new = find(heads.new)?;
    let old = heads.old.map_or(Ok(GENESIS), find)?;
    folder
        .teller
        .note(format!("Replaying blocks: bitcoind was stopped while it wrote the coins of block {}", heads.new));
    let (fork, back, forward) = {
        let tree = folder.tree();
        let fork = tree.fork(new, old);
        let mut back = tree.path(fork, old);
        back.reverse();
        (fork, back, tree.path(fork, new))
    };
    let engine = engine(folder, fork);
    for node in back {
        roll_back(folder, &engine, node)?;
    }
    for node in forward {
        roll_forward(folder, &engine, node)?;
    }
    engine.pipeline.flush((new, heads.new))?;
    folder.teller.note("Rolled forward: the coins are whole again");
    Ok(new)
}

/// A block that is replayed: where it stands, and its bytes.
struct Rolled {
    hash: Hash256,
    height: Height,
    bytes: Vec<u8>,
}

impl Rolled {
    fn read(folder: &Folder<'_>, engine: &Engine<'_>, node: NodeId) -> Result<Rolled, Fault> {
        let (height, hash) = folder.height_and_hash(node);
        let bytes = folder.read(node)?;
        // It was good once; what is not now must not become coins.
        engine.check_alone(node, bytes.clone())?;
        Ok(Rolled { hash, height, bytes })
    }

    fn damaged(&self, what: &str) -> Fault {
        let Rolled { hash, height, .. } = self;
        Fault::refused(format!("block {hash} at height {height} cannot be replayed: {what}; run ffwd reindex"))
    }

    /// The block, and the ids of its transactions.
    fn parse<'t>(&'t self, tables: &'t mut Tables) -> Result<(Block<'t>, Vec<Hash256>), Fault> {
        let block = tables.parse_block(&self.bytes).map_err(|why| self.damaged(&why.to_string()))?;
        let mut txids = Vec::new();
        block.txids_into(&mut txids);
        Ok((block, txids))
    }
}

/// From its last transaction to its first: what one of them made and a later one spent must go last.
fn roll_back(folder: &Folder<'_>, engine: &Engine<'_>, node: NodeId) -> Result<(), Fault> {
    let rolled = Rolled::read(folder, engine, node)?;
    let mut tables = Tables::new();
    let (block, txids) = rolled.parse(&mut tables)?;
    let prev = {
        let tree = folder.tree();
        tree.hash(tree.parent(node).expect("the fork is below it"))
    };
    let undo = folder.read_undo(node, prev)?;
    let spent = undo_coins(&undo, &block).ok_or_else(|| rolled.damaged("its undo data does not fit it"))?;
    for (index, tx) in block.transactions().enumerate().collect::<Vec<_>>().into_iter().rev() {
        for (vout, _) in tx.outputs().enumerate().filter(|(_, output)| !is_unspendable(output.script())) {
            engine.pipeline.with_lane(&txids[index], |lane| lane.take(&txids[index], vout as u32));
        }
        if index == 0 {
            continue;
        }
        for input in (0..tx.input_count()).rev() {
            let outpoint = tx.input(input).prevout();
            let coin = &spent[tx.first_input() + input - 1];
            engine.pipeline.with_lane(&outpoint.txid, |lane| lane.put_back(&outpoint.txid, outpoint.vout, coin));
        }
    }
    Ok(())
}

fn roll_forward(folder: &Folder<'_>, engine: &Engine<'_>, node: NodeId) -> Result<(), Fault> {
    let rolled = Rolled::read(folder, engine, node)?;
    let mut tables = Tables::new();
    let (block, txids) = rolled.parse(&mut tables)?;
    for (index, tx) in block.transactions().enumerate() {
        for spent in tx.inputs().filter(|_| index > 0).map(|input| input.prevout()) {
            engine.pipeline.with_lane(&spent.txid, |lane| lane.take(&spent.txid, spent.vout));
        }
        for (vout, output) in tx.outputs().enumerate().filter(|(_, output)| !is_unspendable(output.script())) {
            let mut coin = Vec::new();
            put_coin(&mut coin, code(rolled.height, index == 0), output.value(), output.script());
            engine.pipeline.with_lane(&txids[index], |lane| lane.put_back(&txids[index], vout as u32, &coin));
        }
    }
    Ok(())
}

/// Ends a reindex that was cut short in this folder. Does the same for blocks that no index lists: somebody brought the
/// files alone, or the run that stored them ended before its first commit.
pub(super) fn finish_reindex(options: &Options, events: Events<'_>) -> Result<(), Fault> {
    if must_reindex(options, events)? {
        super::reindex(options, false, events)?;
    }
    Ok(())
}

fn must_reindex(options: &Options, events: Events<'_>) -> Result<bool, Fault> {
    let locked = open::lock(options, events, false)?;
    let (disk, layout) = (&locked.disk, &locked.layout);
    if BlockIndex::exists(&**disk, layout)? {
        let index = BlockIndex::open_read_only(disk.clone(), layout)?;
        if index.is_reindexing()? || !index.is_empty()? {
            return Ok(index.is_reindexing()?);
        }
    }
    // Coins without an index are not thrown away in passing: opening the folder says what to do.
    let dir = layout.chainstate_dir();
    if Chainstate::exists(&**disk, &dir)? {
        let coins = Chainstate::open_read_only(disk.clone(), &dir)?;
        if coins.best_block()?.is_some() || coins.head_blocks()?.is_some() {
            return Ok(false);
        }
    }
    for file in locked.files.numbers()?.there {
        if locked.files.scan(file)?.blocks.iter().any(|block| block.hash != options.params.genesis_hash) {
            return Ok(true);
        }
    }
    Ok(false)
}
