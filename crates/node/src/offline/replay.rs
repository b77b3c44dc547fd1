//! Completes a flush of the UTXO set that bitcoind did not finish: rolls back to the fork with undo data, then connects
//! blocks again.

use super::engine;
use crate::chain::tree::{GENESIS, NodeId};
use crate::datadir::DataDir;
use crate::fault::Fault;
use crate::pipeline::engine::{Engine, EngineBackend, NO_HEIGHT, undo_coins, with_height};
use primitives::coin::{code, is_unspendable, put_coin};
use primitives::{Block, BlockHash, Height, OutPoint, Tables, Txid};
use store::chainstate::HeadBlocks;

/// Completes an interrupted flush of Core's: rolls back to the fork with undo data, then connects blocks again. A
/// created coin may exist already, and a spent coin may be missing, because any part of the flush may be on disk.
///
/// Source: Bitcoin Core b88bffe, `Chainstate::ReplayBlocks`, `RollforwardBlock`.
pub(crate) fn replay(datadir: &DataDir<'_>, heads: HeadBlocks) -> Result<NodeId, Fault> {
    let find = |hash: BlockHash| datadir.stand(Some(hash));
    let new = find(heads.new)?;
    let old = heads.old.map_or(Ok(GENESIS), find)?;
    datadir
        .reporter
        .note(format!("Replaying blocks: bitcoind was stopped while it wrote the coins of block {}", heads.new));
    let (fork, back, forward) = {
        let tree = datadir.headers();
        let fork = tree.fork(new, old);
        let mut back = tree.path(fork, old);
        back.reverse();
        (fork, back, tree.path(fork, new))
    };
    let engine = engine(datadir, fork);
    for node in back {
        roll_back(datadir, &engine, node)?;
    }
    for node in forward {
        roll_forward(datadir, &engine, node)?;
    }
    engine.pipeline.flush((new, heads.new))?;
    datadir.reporter.note("Rolled forward: the coins are whole again");
    Ok(new)
}

/// A block to replay: its place in the chain, and its bytes.
struct Rolled {
    hash: BlockHash,
    height: Height,
    bytes: Vec<u8>,
}

impl Rolled {
    fn read(datadir: &DataDir<'_>, engine: &Engine<'_>, node: NodeId) -> Result<Rolled, Fault> {
        let (height, hash) = datadir.height_and_hash(node);
        let bytes = datadir.read(node)?;
        // It was valid when it was connected, but its body may have been damaged since, and must then not become coins.
        engine.check_alone(node, bytes.clone())?;
        Ok(Rolled { hash, height, bytes })
    }

    fn damaged(&self, what: &str) -> Fault {
        let Rolled { hash, height, .. } = self;
        Fault::refused(
            format!("block {hash} at height {height} cannot be replayed: {what}"),
            "Run ffwd repair, or ffwd reindex if that finds nothing",
        )
    }

    /// The block, and the ids of its transactions.
    fn parse<'t>(&'t self, tables: &'t mut Tables) -> Result<(Block<'t>, Vec<Txid>), Fault> {
        let block = tables.parse_block(&self.bytes).map_err(|why| self.damaged(&why.to_string()))?;
        let mut txids = Vec::new();
        block.txids_into(&mut txids);
        Ok((block, txids))
    }
}

/// Processes transactions from the last to the first, so that a coin that was created and spent in this block is
/// removed in the end.
fn roll_back(datadir: &DataDir<'_>, engine: &Engine<'_>, node: NodeId) -> Result<(), Fault> {
    let rolled = Rolled::read(datadir, engine, node)?;
    let mut tables = Tables::with(datadir.options.kernels);
    let (block, txids) = rolled.parse(&mut tables)?;
    let prev = {
        let tree = datadir.headers();
        tree.hash(tree.parent(node).expect("the fork is below it"))
    };
    let undo = datadir.read_undo(node, prev)?;
    let spent = undo_coins(&undo, &block).ok_or_else(|| rolled.damaged("its undo data does not fit it"))?;
    for (index, tx) in block.transactions().enumerate().collect::<Vec<_>>().into_iter().rev() {
        for (vout, _) in tx.outputs().enumerate().filter(|(_, output)| !is_unspendable(output.script())) {
            engine
                .pipeline
                .with_group(&txids[index], |group| group.take(&OutPoint { txid: txids[index], vout: vout as u32 }));
        }
        if index == 0 {
            continue;
        }
        for input in (0..tx.input_count()).rev() {
            let outpoint = tx.input(input).prevout();
            let coin = with_height(&spent[tx.first_input() + input - 1], outpoint.txid, |at| engine.coin(at))?;
            let coin = coin.ok_or_else(|| rolled.damaged(&format!("{NO_HEIGHT} {outpoint}")))?;
            engine.pipeline.with_group(&outpoint.txid, |group| group.put_back(&outpoint, &coin));
        }
    }
    Ok(())
}

fn roll_forward(datadir: &DataDir<'_>, engine: &Engine<'_>, node: NodeId) -> Result<(), Fault> {
    let rolled = Rolled::read(datadir, engine, node)?;
    let mut tables = Tables::with(datadir.options.kernels);
    let (block, txids) = rolled.parse(&mut tables)?;
    for (index, tx) in block.transactions().enumerate() {
        for spent in tx.inputs().filter(|_| index > 0).map(|input| input.prevout()) {
            engine.pipeline.with_group(&spent.txid, |group| group.take(&spent));
        }
        for (vout, output) in tx.outputs().enumerate().filter(|(_, output)| !is_unspendable(output.script())) {
            let mut coin = Vec::new();
            put_coin(&mut coin, code(rolled.height, index == 0), output.value(), output.script());
            engine.pipeline.with_group(&txids[index], |group| {
                group.put_back(&OutPoint { txid: txids[index], vout: vout as u32 }, &coin)
            });
        }
    }
    Ok(())
}
