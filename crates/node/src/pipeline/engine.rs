//! Connects the best chain: which block to end with, what to disconnect, what to connect, how to treat an invalid
//! block.
//!
//! In: headers, and reports which bodies are stored. Out: a chain that is connected up to its last valid block. Absent
//! on purpose: the source of bodies and the storage of results (see [`EngineBackend`]).

use crate::chain::block::BlockContext;
use crate::chain::headers::{self, AssumeValid, ChainContext};
use crate::chain::index::{Headers, SharedIndex};
use crate::chain::pruned_fork::PrunedFork;
use crate::chain::tree::NodeId;
use crate::fault::{Ended, Fault};
use crate::pipeline::recheck::{self, Alone, Answer, Question, Suspect};
use crate::pipeline::{Backend, Outcome, Pipeline, Settings};
use coins::table::HashKey;
use consensus::{BlockError, Params, ScriptCheckReason, bip30};
use primitives::coin::{CoinRef, code, is_unspendable, put_coin};
use primitives::undo::spent_coins;
use primitives::{BlockHash, CoinKey, Height, OutPoint, Tables, Txid};
use sys::spill::{Spill, SpillFiles};

mod without_coins;

/// The storage that the engine needs, in addition to that of its pipeline.
pub trait EngineBackend: Backend {
    /// Sets the blocks that [`Backend::next`] returns from now on, in this order.
    fn start(&self, plans: Vec<BlockContext>);

    /// Reads a block again.
    ///
    /// # Errors
    ///
    /// The body is not stored, or its file cannot be read.
    fn read(&self, node: NodeId) -> Result<Vec<u8>, Fault>;

    /// The undo data of a connected block; `prev` is its parent's hash.
    ///
    /// # Errors
    ///
    /// The undo data is not stored, or its file cannot be read.
    fn read_undo(&self, node: NodeId, prev: BlockHash) -> Result<Spill, Fault>;

    /// A block was disconnected; `bytes` is its body.
    ///
    /// # Errors
    ///
    /// An I/O error.
    fn disconnected(&self, node: NodeId, bytes: &[u8]) -> Result<(), Fault>;

    /// A change of the chain is complete at `tip`, maybe after blocks were disconnected; if `adds`, their transactions
    /// return to the mempool. `coin` returns the stored bytes of a coin of the tip's UTXO set.
    ///
    /// # Errors
    ///
    /// Errors of `coin`.
    fn rested(&self, tip: NodeId, adds: bool, coin: &LookUp<'_>) -> Result<(), Fault> {
        let _ = (tip, adds, coin);
        Ok(())
    }

    /// A block is invalid, as two independent checks agree; the index already marks it and its descendants.
    fn refused(&self, node: NodeId, error: &BlockError);

    /// The body of a block is damaged, or is that of another block. Afterwards the index records what is stored
    /// instead. Returns whether there is another copy.
    ///
    /// # Errors
    ///
    /// The block files cannot be read; or the body must not be replaced here.
    fn lost(&self, node: NodeId, why: &str) -> Result<bool, Fault>;

    /// Whether other threads wait for the engine's thread: then it returns between two blocks.
    fn is_asked(&self) -> bool {
        false
    }
}

/// Looks up the stored bytes of a coin; `None` if it does not exist.
pub type LookUp<'a> = dyn Fn(&OutPoint) -> Result<Option<Vec<u8>>, Fault> + 'a;

/// How bringing the chain up to date ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activated {
    /// The best block is connected.
    Tip,
    /// The height to stop at is reached.
    StopHeight,
    /// Interrupted by the user.
    Stopped,
    /// Other threads wait for this one: call again later.
    Asked,
    /// The backend gave no next block, for example after a fault of another thread, for which the caller must check.
    Withheld,
}

/// State of an engine while no block is in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// The last block that is connected.
    pub tip: NodeId,
    /// The best block that is complete: the target of [`Engine::activate`].
    pub wanted: NodeId,
    /// A better chain exists that does not include the block of [`Aim::From`].
    pub is_held: bool,
    /// The height to stop at is reached.
    pub is_at_stop: bool,
}

/// Invalid and damaged blocks found since the last call.
#[derive(Debug, Default)]
pub struct News {
    /// Invalid blocks, each with the broken rule.
    pub refused: Vec<(NodeId, String)>,
    /// A damaged body has no other copy.
    pub has_lost: bool,
}

/// The chain and the coins.
pub struct Engine<'w> {
    params: &'w Params,
    world: &'w dyn EngineBackend,
    index: &'w SharedIndex,
    assume: AssumeValid,
    stop_at: Option<Height>,
    tip: NodeId,
    aim: Aim,
    times: headers::Times,
    news: News,
    /// Coins in memory, and the threads that work on them.
    pub pipeline: Pipeline<'w>,
}

/// Which chain to connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Aim {
    /// The best chain.
    #[default]
    Best,
    /// The best chain that includes this block: blocks below it cannot be disconnected. Source: Bitcoin Core b88bffe,
    /// `Chainstate::SnapshotBase`.
    From(NodeId),
    /// The chain that ends with this block. Source: Bitcoin Core b88bffe, `Chainstate::TargetBlock`.
    To(NodeId),
}

/// Setup of an engine.
pub struct Setup {
    /// Settings of the pipeline.
    pub pipeline: Settings,
    /// Which scripts are assumed valid.
    pub assume: AssumeValid,
    /// Height at which to stop.
    pub stop_at: Option<Height>,
    /// The block to which the coins in the tables belong.
    pub tip: NodeId,
    /// Secret key of the coin tables' hash.
    pub secret: HashKey,
}

impl<'w> Engine<'w> {
    /// An engine on top of the coins in the backend's tables.
    pub fn new(params: &'w Params, world: &'w dyn EngineBackend, index: &'w SharedIndex, setup: Setup) -> Engine<'w> {
        let pipeline = Pipeline::new(world, params, setup.pipeline, setup.secret);
        let tip = setup.tip;
        let assume = setup.assume;
        let stop_at = setup.stop_at;
        let times = headers::Times::default();
        let aim = Aim::default();
        let news = News::default();
        Engine { params, world, index, assume, stop_at, tip, aim, times, news, pipeline }
    }

    /// Temporary files for the coins and scripts that a block spends, if they are too many for memory.
    pub fn spill_files(&self) -> SpillFiles {
        self.world.spill_files()
    }

    /// From now on this chain is the one to connect.
    pub fn aim(&mut self, aim: Aim) {
        self.aim = aim;
    }

    /// The block to end with; the tip, if the best chain must not be connected.
    fn wanted(&self) -> NodeId {
        let index = self.index.read();
        if let Aim::To(goal) = self.aim {
            return index.stored_towards(self.tip, goal);
        }
        let best = index.best_candidate(self.tip);
        let is_apart = matches!(self.aim, Aim::From(base) if !index.headers().is_ancestor(base, best));
        if is_apart { self.tip } else { best }
    }

    /// Whether a better chain exists that does not include the block of [`Aim::From`].
    pub fn is_held(&self) -> bool {
        let index = self.index.read();
        let best = index.best_candidate(self.tip);
        matches!(self.aim, Aim::From(base) if !index.headers().is_ancestor(base, best))
    }

    /// Its current state.
    pub fn standing(&self) -> Standing {
        let tip = self.tip;
        let is_held = self.is_held();
        let mut wanted = self.wanted();
        let tree = self.headers();
        if let Some(stop) = self.stop_at.filter(|&stop| tree.height(wanted) > stop) {
            wanted = tree.ancestor(wanted, stop);
        }
        let is_at_stop = self.stop_at.is_some_and(|stop| tree.height(tip) >= stop);
        Standing { tip, wanted, is_held, is_at_stop }
    }

    /// Takes the invalid and damaged blocks found since the last call.
    pub fn take_news(&mut self) -> News {
        std::mem::take(&mut self.news)
    }

    /// Why a block was refused, if [`Engine::take_news`] has not returned it yet.
    pub fn reason_of(&self, node: NodeId) -> Option<&str> {
        self.news.refused.iter().find(|(of, _)| *of == node).map(|(_, why)| &**why)
    }

    /// The last block that is connected.
    pub fn tip(&self) -> NodeId {
        self.tip
    }

    /// The last block that is connected, and its hash.
    pub fn tip_and_hash(&self) -> (NodeId, BlockHash) {
        (self.tip, self.headers().hash(self.tip))
    }

    /// The headers. Must not be called while this thread reads the index already: see [`SharedIndex::read`].
    fn headers(&self) -> Headers<'w> {
        self.index.headers()
    }

    fn height_and_hash(&self, node: NodeId) -> (Height, BlockHash) {
        let tree = self.headers();
        (tree.height(node), tree.hash(node))
    }

    /// Connects the best chain up to its last complete block. Invalid blocks are refused on the way, and the next best
    /// chain is connected.
    ///
    /// # Errors
    ///
    /// An I/O error, or two computations that must agree and do not. An invalid block is not an error.
    pub fn activate(&mut self) -> Result<Activated, Fault> {
        loop {
            let target = {
                let best = self.wanted();
                let tree = self.headers();
                match self.stop_at {
                    Some(stop) if tree.height(best) > stop => tree.ancestor(best, stop),
                    _ => best,
                }
            };
            let at_stop = self.stop_at.is_some_and(|stop| self.headers().height(self.tip) >= stop);
            if target == self.tip || at_stop {
                self.rest(true)?;
                return Ok(if at_stop { Activated::StopHeight } else { Activated::Tip });
            }
            let ended = self.connect_to(target)?;
            if ended == Reached::Stopped {
                return Ok(Activated::Stopped);
            }
            if self.world.is_asked() {
                return Ok(Activated::Asked);
            }
            if ended == Reached::UpToMissing {
                return Ok(Activated::Withheld);
            }
        }
    }

    fn connect_to(&mut self, target: NodeId) -> Result<Reached, Fault> {
        let fork = self.headers().fork(self.tip, target);
        if self.tip != fork {
            self.check_kept(target)?;
            self.pipeline.stats().add_reorg();
        }
        while self.tip != fork {
            if self.world.stopping() {
                return Ok(Reached::Stopped);
            }
            self.disconnect_tip()?;
        }
        let plans = self.plan(target);
        self.world.start(plans);
        let outcome = self.pipeline.run()?;
        if let Some((tip, _)) = self.pipeline.take_tip() {
            self.tip = tip;
        }
        match outcome {
            Outcome::Done if self.tip != target => return Ok(Reached::UpToMissing),
            Outcome::Done => {}
            Outcome::Stopped => return Ok(Reached::Stopped),
            Outcome::Refused { node, error, .. } if error.mutated() => {
                self.lose_mutated(node, &error)?;
            }
            Outcome::Refused { node, error, script_reason } => self.refuse(node, &error, script_reason)?,
            Outcome::Unparsable { node, error } => {
                self.lose(node, &error.to_string())?;
            }
            Outcome::WrongBody { node } => {
                self.lose(node, "record contains a different block than the index says")?;
            }
        }
        Ok(Reached::Judged)
    }

    /// Refuses a target for which pruned blocks would have to be disconnected.
    fn check_kept(&self, target: NodeId) -> Result<(), Fault> {
        if !matches!(self.aim, Aim::Best) {
            return Ok(());
        }
        let index = self.index.read();
        let found = PrunedFork::find(index.headers(), self.tip, target, || index.prune_height());
        found.map_or(Ok(()), |fork| Err(Fault::Refused(fork.message())))
    }

    fn plan(&mut self, target: NodeId) -> Vec<BlockContext> {
        let tree = self.headers();
        let context = ChainContext::new(&tree, self.params, &self.assume, target);
        self.pipeline.set_times(self.times.to(&tree, target));
        tree.path(self.tip, target).into_iter().map(|node| context.block(node)).collect()
    }

    /// Checks a refused block a second time, separately, and marks it. Its scripts run if they ran before, whichever
    /// headers have arrived since.
    fn refuse(
        &mut self,
        node: NodeId,
        first: &BlockError,
        script_reason: Option<ScriptCheckReason>,
    ) -> Result<(), Fault> {
        let bytes = self.world.read(node)?;
        let answer = {
            let tree = self.headers();
            let context = ChainContext::new(&tree, self.params, &self.assume, node).block(node);
            let context = BlockContext { script_reason, ..context };
            let times = headers::median_times(&tree, node);
            let spill = self.world.spill_files();
            let question = Question {
                params: self.params,
                context: &context,
                bytes: &bytes,
                times: &times,
                spill: &spill,
                alone: Alone::Judge,
                suspect: Suspect::of(first),
            };
            recheck::judge(&question, |outpoint| self.coin(outpoint))?
        };
        let (height, hash) = self.height_and_hash(node);
        match answer {
            Answer::Refused { error, .. } if error.mutated() => self.lose_mutated(node, &error).map(|_| ()),
            Answer::Refused { error, transactions } => {
                {
                    let mut index = self.index.write();
                    // The block was refused for its coins or scripts: its body stays stored, as in Core.
                    transactions.into_iter().for_each(|count| index.checked(node, count));
                    index.refuse(node);
                }
                self.world.refused(node, &error);
                self.news.refused.push((node, error.to_string()));
                Ok(())
            }
            Answer::Good => Err(recheck::disagreement(hash, height, first, "it was found valid")),
            Answer::WrongBody => {
                Err(recheck::disagreement(hash, height, first, "its bytes were those of another block"))
            }
        }
    }

    /// A body does not match its header. Core has accepted the header before it detects this, so the header is listed.
    /// Returns whether there is another copy.
    fn lose_mutated(&mut self, node: NodeId, error: &BlockError) -> Result<bool, Fault> {
        self.index.write().list(node);
        self.lose(node, &error.to_string())
    }

    /// The body of a block is damaged, or is that of another block. Returns whether there is another copy.
    fn lose(&mut self, node: NodeId, why: &str) -> Result<bool, Fault> {
        let has_copy = self.world.lost(node, why)?;
        self.news.has_lost |= !has_copy;
        Ok(has_copy)
    }

    /// The coin of this outpoint, from memory or tables.
    ///
    /// # Errors
    ///
    /// A damaged table, or an I/O error.
    pub fn coin(&self, outpoint: &OutPoint) -> Result<Option<Vec<u8>>, Fault> {
        let known =
            self.pipeline.with_group(&outpoint.txid, |group| group.get(outpoint).map(|coin| coin.map(<[u8]>::to_vec)));
        if let Some(known) = known {
            return Ok(known);
        }
        let mut coin = None;
        self.world.look_up(&[CoinKey::new(outpoint)], &mut |_, bytes| coin = Some(bytes.to_vec()))?;
        Ok(coin)
    }

    /// Disconnects the last block with its undo data, then applies the memory budget, because the coins that the block
    /// had spent are in memory again.
    ///
    /// # Errors
    ///
    /// Block or undo data that cannot be read, coins that differ from those that the block left, or an I/O error.
    ///
    /// Source: Bitcoin Core b88bffe, `Chainstate::DisconnectTip`, which calls `FlushStateToDisk` with `IF_NEEDED`.
    pub fn disconnect_tip(&mut self) -> Result<(), Fault> {
        self.disconnect()?;
        self.pipeline.make_room(self.tip_and_hash())
    }

    /// Source: Bitcoin Core b88bffe, `Chainstate::DisconnectBlock`; the result must be clean, as in `DisconnectTip`.
    fn disconnect(&mut self) -> Result<(), Fault> {
        let node = self.tip;
        let (hash, height, prev) = {
            let tree = self.headers();
            (tree.hash(node), tree.height(node), tree.hash(tree.parent(node).expect("genesis is never disconnected")))
        };
        let bytes = self.world.read(node)?;
        let undo = self.world.read_undo(node, prev)?;
        let unclean =
            |what: &str| Fault::internal(format!("block {hash} at height {height} cannot be disconnected: {what}"));
        let mut tables = Tables::with(self.world.kernels());
        let block = tables.parse_block(&bytes).map_err(|why| unclean(&why.to_string()))?;
        let mut txids = Vec::new();
        block.txids_into(&mut txids);
        let spent = undo_coins(&undo, &block).ok_or_else(|| unclean("its undo data does not fit it"))?;
        for (index, tx) in block.transactions().enumerate().collect::<Vec<_>>().into_iter().rev() {
            for (vout, output) in tx.outputs().enumerate().filter(|(_, output)| !is_unspendable(output.script())) {
                let mut want = Vec::new();
                put_coin(&mut want, code(height, index == 0), output.value(), output.script());
                let outpoint = OutPoint { txid: txids[index], vout: vout as u32 };
                let have = self.coin(&outpoint)?;
                self.pipeline.with_group(&outpoint.txid, |group| group.take(&outpoint));
                let overwritten = index == 0 && bip30::is_overwritten(height, &hash);
                if have.as_ref() != Some(&want) && !overwritten {
                    return Err(unclean(&format!("coin {outpoint} is not as it was made")));
                }
            }
            if index == 0 {
                continue;
            }
            for input in (0..tx.input_count()).rev() {
                let outpoint = tx.input(input).prevout();
                if self.coin(&outpoint)?.is_some() {
                    return Err(unclean(&format!("coin {outpoint}, which it spent, is there")));
                }
                let coin = with_height(&spent[tx.first_input() + input - 1], outpoint.txid, |at| self.coin(at))?;
                let coin = coin.ok_or_else(|| unclean(&format!("{NO_HEIGHT} {outpoint}")))?;
                self.pipeline.with_group(&outpoint.txid, |group| group.put_back(&outpoint, &coin));
            }
        }
        self.tip = self.headers().parent(node).expect("see above");
        self.pipeline.stats().add_disconnected();
        self.world.disconnected(node, &bytes)
    }

    /// Reports that a change of the chain is complete, so that others may read it. If `adds`, transactions that only
    /// disconnected blocks contained return to the mempool.
    ///
    /// # Errors
    ///
    /// A damaged table, or an I/O error.
    pub fn rest(&self, adds: bool) -> Result<(), Fault> {
        self.world.rested(self.tip, adds, &|outpoint: &OutPoint| self.coin(outpoint))
    }

    /// Whether the tip is the block to end with.
    pub fn is_at_best(&self) -> bool {
        self.wanted() == self.tip
    }

    /// Whether [`Engine::activate`] would only connect blocks below `target`. [`Engine::stream`] to it connects them
    /// too, and continues in the same run as more of them arrive.
    pub fn is_on_way(&self, target: NodeId) -> bool {
        let wanted = self.wanted();
        let tree = self.headers();
        let is_at_stop = self.stop_at.is_some_and(|stop| tree.height(self.tip) >= stop);
        let is_between = |node| tree.is_ancestor(self.tip, node) && tree.is_ancestor(node, target);
        !is_at_stop && wanted != self.tip && wanted != target && is_between(wanted)
    }

    /// Connects up to a block that was connected before; returns whether all blocks were valid.
    ///
    /// # Errors
    ///
    /// Those of [`Engine::activate`].
    pub fn reconnect(&mut self, target: NodeId) -> Result<bool, Fault> {
        Ok(self.connect_to(target)? == Reached::Judged && self.tip == target)
    }

    /// Connects blocks up to `target`, a descendant of the tip, as their bodies arrive; ends when the backend has no
    /// next one.
    ///
    /// # Errors
    ///
    /// Those of [`Engine::activate`].
    pub fn stream(&mut self, target: NodeId) -> Result<Ended, Fault> {
        let target = match self.stop_at {
            Some(stop) if self.headers().height(target) > stop => self.headers().ancestor(target, stop),
            _ => target,
        };
        if target == self.tip {
            return Ok(Ended::Done);
        }
        Ok(match self.connect_to(target)? {
            Reached::Stopped => Ended::Stopped,
            Reached::Judged | Reached::UpToMissing => Ended::Done,
        })
    }
}

/// How connecting blocks up to a target ended.
#[derive(PartialEq, Eq)]
enum Reached {
    /// Each block is connected, or the first one that is not was refused or lost.
    Judged,
    /// The backend gave no next block.
    UpToMissing,
    /// Interrupted by the user.
    Stopped,
}

/// Whether a coin of undo data lacks its height and coinbase flag. Bitcoin Core before 0.15 wrote them only with the last
/// coin of a transaction that was spent, and height 0 with the others. No coin that can be spent has height 0.
pub(crate) fn lacks_height(coin: &[u8]) -> bool {
    coin.first().is_some_and(|code| *code < 2)
}

/// Message for a coin of undo data whose height is unknown. The outpoint follows it.
pub(crate) const NO_HEIGHT: &str = "undo data of Bitcoin Core before 0.15 lacks the height of";
/// Maximum number of outputs of a block. Source: Bitcoin Core b88bffe, coins.cpp, `MAX_OUTPUTS_PER_BLOCK`.
const OUTPUTS_MAX: u32 = 4_000_000 / (4 * 9);

/// A coin of undo data, with the height and the coinbase flag of another coin of its transaction if it lacks them; `None`
/// if there is no such coin. `coin_of` is what the UTXO set has.
///
/// # Errors
///
/// Those of `coin_of`.
///
/// Source: Bitcoin Core b88bffe, validation.cpp, `ApplyTxInUndo`; coins.cpp, `AccessByTxid`.
pub(crate) fn with_height(
    coin: &[u8],
    txid: Txid,
    mut coin_of: impl FnMut(&OutPoint) -> Result<Option<Vec<u8>>, Fault>,
) -> Result<Option<Vec<u8>>, Fault> {
    if !lacks_height(coin) {
        return Ok(Some(coin.to_vec()));
    }
    for vout in 0..OUTPUTS_MAX {
        if let Some(other) = coin_of(&OutPoint { txid, vout })? {
            let (Ok(other), Ok(coin)) = (CoinRef::decode(&other), CoinRef::decode(coin)) else { return Ok(None) };
            let mut whole = Vec::new();
            put_coin(&mut whole, other.code(), coin.value, &coin.script.to_vec());
            return Ok(Some(whole));
        }
    }
    Ok(None)
}

/// The stored coins of undo data, in the order of the block's inputs; `None` if it does not belong to this block.
pub(crate) fn undo_coins(undo: &[u8], block: &primitives::Block<'_>) -> Option<Vec<Vec<u8>>> {
    let stored = |coin: CoinRef<'_>| {
        let mut bytes = Vec::new();
        put_coin(&mut bytes, coin.code(), coin.value, &coin.script.to_vec());
        bytes
    };
    Some(spent_coins(undo, block)?.into_iter().map(stored).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::Amount;

    fn coin(height: u32, is_coinbase: bool, value: i64) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_coin(&mut bytes, code(Height::new(height), is_coinbase), Amount(value), &[0x51]);
        bytes
    }

    #[test]
    fn a_coin_without_height_has_that_of_another_coin_of_its_transaction() {
        let txid = Txid::from_bytes([7; 32]);
        let old = coin(0, false, 500);
        for (row, other, given, want) in [
            ("it has one", None, coin(9, false, 500), Some(coin(9, false, 500))),
            ("of a coinbase", Some((3, coin(120, true, 1))), old.clone(), Some(coin(120, true, 500))),
            ("of another transaction", Some((0, coin(77, false, 1))), old.clone(), Some(coin(77, false, 500))),
            (
                "the last of a block's most outputs",
                Some((OUTPUTS_MAX - 1, coin(5, false, 1))),
                old.clone(),
                Some(coin(5, false, 500)),
            ),
            ("more than a block has", Some((OUTPUTS_MAX, coin(5, false, 1))), old.clone(), None),
            ("none is left", None, old, None),
        ] {
            let coin_of = |at: &OutPoint| {
                assert_eq!(at.txid, txid);
                Ok(other.clone().filter(|(vout, _)| *vout == at.vout).map(|(_, coin)| coin))
            };
            assert_eq!(with_height(&given, txid, coin_of).unwrap(), want, "{row}");
        }
    }
}
