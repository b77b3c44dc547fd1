//! The best chain, connected: which block to end with, what to disconnect, what to connect, what to do when a block is bad.
//!
//! In: headers and the news which bodies are there. Out: a chain that is connected as far as it is good.
//! Absent on purpose: where bodies come from and where results go (the [`EngineBackend`]'s).

use crate::chain::block::{BlockContext, Refusal};
use crate::chain::headers::{self, AssumeValid, ChainContext};
use crate::chain::index::{Headers, SharedIndex};
use crate::chain::pruned_fork::PrunedFork;
use crate::chain::tree::NodeId;
use crate::fault::{Ended, Fault};
use crate::pipeline::recheck::{self, Alone, Answer, Question};
use crate::pipeline::scratch;
use crate::pipeline::stages;
use crate::pipeline::{Backend, Outcome, Pipeline, Settings};
use coins::table::HashKey;
use consensus::{BlockError, Params, ScriptCheckReason, bip30};
use primitives::coin::{CoinRef, code, is_unspendable, put_coin};
use primitives::undo::spent_coins;
use primitives::{BlockHash, CoinKey, Height, OutPoint, Tables};
use sys::spill::{Spill, SpillFiles};

/// What the engine needs of the world beside what its pipeline needs.
pub trait EngineBackend: Backend {
    /// What [`Backend::next`] is to hand out from now on, in this order.
    fn start(&self, plans: Vec<BlockContext>);

    /// A block, read again.
    ///
    /// # Errors
    ///
    /// The body is not there, or its file cannot be read.
    fn read(&self, node: NodeId) -> Result<Vec<u8>, Fault>;

    /// The undo data of a connected block; `prev` is its parent's hash.
    ///
    /// # Errors
    ///
    /// The same of its undo data.
    fn read_undo(&self, node: NodeId, prev: BlockHash) -> Result<Spill, Fault>;

    /// A block was taken off the chain; its bytes.
    ///
    /// # Errors
    ///
    /// What the system says.
    fn disconnected(&self, node: NodeId, bytes: &[u8]) -> Result<(), Fault>;

    /// The chain came to rest at `tip`, maybe after blocks were disconnected; `adds` says whether their transactions are to
    /// wait for other blocks. `coin` gives the stored bytes of a coin of the tip's UTXO set.
    ///
    /// # Errors
    ///
    /// What `coin` says.
    fn rested(&self, tip: NodeId, adds: bool, coin: &LookUp<'_>) -> Result<(), Fault> {
        let _ = (tip, adds, coin);
        Ok(())
    }

    /// A block broke a rule, twice judged; it and what stands on it is marked in the index already.
    fn refused(&self, node: NodeId, error: &BlockError);

    /// The body of a block is damaged, or another block's. The index says afterwards what is there instead; says whether
    /// that is another copy.
    ///
    /// # Errors
    ///
    /// The block files cannot be read; or the body may not be replaced here.
    fn lost(&self, node: NodeId, why: &str) -> Result<bool, Fault>;

    /// Whether others wait for the engine's thread: then it leaves its work between two blocks.
    fn is_asked(&self) -> bool {
        false
    }
}

/// Gives the stored bytes of a coin, where it is there.
pub type LookUp<'a> = dyn Fn(&OutPoint) -> Result<Option<Vec<u8>>, Fault> + 'a;

/// How bringing the chain up to date ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activated {
    /// The best block is connected.
    Tip,
    /// The height to stop at is reached.
    StopHeight,
    /// Stopped on demand.
    Stopped,
    /// Others wait for the thread: the work is to be taken up again.
    Asked,
}

/// Where an engine stands while no block is in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// The last block that is connected.
    pub tip: NodeId,
    /// The best block that is complete: where [`Engine::activate`] would go.
    pub wanted: NodeId,
    /// A chain is better that does not stand on the block which [`Aim::From`] names.
    pub is_held: bool,
    /// The height to stop at is reached.
    pub is_at_stop: bool,
}

/// What was found bad since this was asked.
#[derive(Debug, Default)]
pub struct News {
    /// Blocks that broke a rule, and which.
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
    /// Coins in memory, and who works on them.
    pub pipeline: Pipeline<'w>,
}

/// Which chain is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Aim {
    /// The best one.
    #[default]
    Best,
    /// The best one of those that stand on this block: below it there is nothing to go back to.
    /// Source: Bitcoin Core b88bffe, `Chainstate::SnapshotBase`.
    From(NodeId),
    /// The one that ends with this block. Source: Bitcoin Core b88bffe, `Chainstate::TargetBlock`.
    To(NodeId),
}

/// How an engine is set up.
pub struct Setup {
    /// The pipeline's.
    pub pipeline: Settings,
    /// Whose scripts are assumed valid.
    pub assume: AssumeValid,
    /// Where to stop.
    pub stop_at: Option<Height>,
    /// The block that the coins in the tables belong to.
    pub tip: NodeId,
    /// Secret of the coin tables.
    pub secret: HashKey,
}

impl<'w> Engine<'w> {
    /// An engine on top of what the world's tables hold.
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

    /// Files for the coins and scripts that a block spends, where they are many.
    pub fn spill_files(&self) -> SpillFiles {
        self.world.spill_files()
    }

    /// From now on this chain is wanted.
    pub fn aim(&mut self, aim: Aim) {
        self.aim = aim;
    }

    /// The block that the chain should end with; the tip where another chain is better that must not be taken.
    fn wanted(&self) -> NodeId {
        let index = self.index.read();
        if let Aim::To(goal) = self.aim {
            return index.stored_towards(self.tip, goal);
        }
        let best = index.best_candidate(self.tip);
        let is_apart = matches!(self.aim, Aim::From(base) if !index.headers().is_ancestor(base, best));
        if is_apart { self.tip } else { best }
    }

    /// Whether a chain is better that does not stand on the block which [`Aim::From`] names.
    pub fn is_held(&self) -> bool {
        let index = self.index.read();
        let best = index.best_candidate(self.tip);
        matches!(self.aim, Aim::From(base) if !index.headers().is_ancestor(base, best))
    }

    /// Where it stands.
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

    /// What was found bad since this was asked.
    pub fn take_news(&mut self) -> News {
        std::mem::take(&mut self.news)
    }

    /// What a block was refused for, of those that were not taken.
    pub fn reason_of(&self, node: NodeId) -> Option<&str> {
        self.news.refused.iter().find(|(of, _)| *of == node).map(|(_, why)| &**why)
    }

    /// The last block that is connected.
    pub fn tip(&self) -> NodeId {
        self.tip
    }

    /// Its hash, too.
    pub fn tip_and_hash(&self) -> (NodeId, BlockHash) {
        (self.tip, self.headers().hash(self.tip))
    }

    /// To be asked for once at a time: see [`SharedIndex::read`].
    fn headers(&self) -> Headers<'w> {
        self.index.headers()
    }

    fn height_and_hash(&self, node: NodeId) -> (Height, BlockHash) {
        let tree = self.headers();
        (tree.height(node), tree.hash(node))
    }

    /// Brings the chain to the best block that is complete. Bad blocks are refused on the way, and the next best chain
    /// is taken.
    ///
    /// # Errors
    ///
    /// What the system says, or two computations that must agree and do not. A bad block is no error.
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
            if self.connect_to(target)? == Ended::Stopped {
                return Ok(Activated::Stopped);
            }
            if self.world.is_asked() {
                return Ok(Activated::Asked);
            }
        }
    }

    fn connect_to(&mut self, target: NodeId) -> Result<Ended, Fault> {
        let fork = self.headers().fork(self.tip, target);
        if self.tip != fork {
            self.check_kept(target)?;
            self.pipeline.stats().add_reorg();
        }
        while self.tip != fork {
            if self.world.stopping() {
                return Ok(Ended::Stopped);
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
            Outcome::Done => {}
            Outcome::Stopped => return Ok(Ended::Stopped),
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
        Ok(Ended::Done)
    }

    /// Says no where blocks would have to be taken off the chain that are not there any more.
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

    /// Judges a refused block again, alone, and marks it. Its scripts run if they did before, whatever headers came since.
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
            };
            recheck::judge(&question, |outpoint| self.coin(outpoint))?
        };
        let (height, hash) = self.height_and_hash(node);
        match answer {
            Answer::Refused { error, .. } if error.mutated() => self.lose_mutated(node, &error).map(|_| ()),
            Answer::Refused { error, transactions } => {
                {
                    let mut index = self.index.write();
                    // Refused for its coins or scripts: its body stays where it is, as in Core.
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

    /// A body is not its header's, which Core has taken in by then: the header is listed. Says whether there is another
    /// copy.
    fn lose_mutated(&mut self, node: NodeId, error: &BlockError) -> Result<bool, Fault> {
        self.index.write().list(node);
        self.lose(node, &error.to_string())
    }

    /// The body of a block is damaged, or another block's. Says whether there is another copy.
    fn lose(&mut self, node: NodeId, why: &str) -> Result<bool, Fault> {
        let has_copy = self.world.lost(node, why)?;
        self.news.has_lost |= !has_copy;
        Ok(has_copy)
    }

    /// The coin of this name, from memory or tables.
    ///
    /// # Errors
    ///
    /// A damaged table, or what the system says.
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

    /// Takes the last block off the chain, with its undo data, and keeps the budget: what it had spent is in memory then.
    ///
    /// # Errors
    ///
    /// Block or undo data that cannot be read, coins that are not as the block left them, or what the system says.
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
                let coin = &spent[tx.first_input() + input - 1];
                self.pipeline.with_group(&outpoint.txid, |group| group.put_back(&outpoint, coin));
            }
        }
        self.tip = self.headers().parent(node).expect("see above");
        self.pipeline.stats().add_disconnected();
        self.world.disconnected(node, &bytes)
    }

    /// The chain rests, and others may look at it. With `adds` what only blocks had that were disconnected may wait for others.
    ///
    /// # Errors
    ///
    /// A damaged table, or what the system says.
    pub fn rest(&self, adds: bool) -> Result<(), Fault> {
        self.world.rested(self.tip, adds, &|outpoint: &OutPoint| self.coin(outpoint))
    }

    /// Whether no better chain is stored that is to be connected.
    pub fn is_at_best(&self) -> bool {
        self.wanted() == self.tip
    }

    /// Whether [`Engine::activate`] would only connect blocks below `target`, which [`Engine::stream`] to it connects too,
    /// and then goes on in the same run as more of them come.
    pub fn is_on_way(&self, target: NodeId) -> bool {
        let wanted = self.wanted();
        let tree = self.headers();
        let is_at_stop = self.stop_at.is_some_and(|stop| tree.height(self.tip) >= stop);
        let is_between = |node| tree.is_ancestor(self.tip, node) && tree.is_ancestor(node, target);
        !is_at_stop && wanted != self.tip && wanted != target && is_between(wanted)
    }

    /// Connects up to a block that was connected before; says whether all went well.
    ///
    /// # Errors
    ///
    /// As [`Engine::activate`].
    pub fn reconnect(&mut self, target: NodeId) -> Result<bool, Fault> {
        Ok(self.connect_to(target)? == Ended::Done && self.tip == target)
    }

    /// Checks a block as far as that goes without coins, and gives the number of its transactions.
    ///
    /// # Errors
    ///
    /// A fault that names the block: what was good once is not any more.
    pub fn check_alone(&self, node: NodeId, bytes: Vec<u8>) -> Result<usize, Fault> {
        self.check_body(node, &bytes).map_err(|why| {
            let (height, hash) = self.height_and_hash(node);
            let why = match why {
                BadBody::Refused(error) | BadBody::Mutated(error) => error.to_string(),
                BadBody::Damaged(why) => why,
            };
            let advice = "Look at the disk, then run ffwd reindex, and ffwd sync, which fetches the block again";
            Fault::refused(format!("block {hash} at height {height} is damaged: {why}"), advice)
        })
    }

    /// Connects blocks up to `target`, which stands on the tip, as their bodies come; ends when the world has no next one.
    ///
    /// # Errors
    ///
    /// As [`Engine::activate`].
    pub fn stream(&mut self, target: NodeId) -> Result<Ended, Fault> {
        let target = match self.stop_at {
            Some(stop) if self.headers().height(target) > stop => self.headers().ancestor(target, stop),
            _ => target,
        };
        if target == self.tip {
            return Ok(Ended::Done);
        }
        self.connect_to(target)
    }

    /// Checks blocks off the chain as far as they can be checked without coins: those with a body, not connected, no
    /// ancestor of which was refused on arrival.
    ///
    /// # Errors
    ///
    /// What the system says; or the two checks of a block that is about to be marked disagree.
    pub fn check_stale_blocks(&mut self) -> Result<Ended, Fault> {
        let waiting = self.index.read().unchecked_stale_blocks(self.tip);
        for node in waiting {
            if self.world.stopping() {
                return Ok(Ended::Stopped);
            }
            while self.index.read().is_acceptable(node) && self.check_stale(node)? {}
        }
        Ok(Ended::Done)
    }

    /// Says whether the body was damaged and another copy of it waits.
    fn check_stale(&mut self, node: NodeId) -> Result<bool, Fault> {
        let bytes = self.world.read(node)?;
        match self.check_body(node, &bytes) {
            Ok(transactions) => self.index.write().checked(node, transactions as u32),
            Err(BadBody::Refused(first)) => {
                let header = headers::context(&self.headers(), self.params, node);
                let (error, _) = recheck::confirm(self.params, &header, &bytes, &first)?;
                self.index.write().refuse(node);
                self.world.refused(node, &error);
            }
            Err(BadBody::Mutated(error)) => return self.lose_mutated(node, &error),
            Err(BadBody::Damaged(why)) => return self.lose(node, &why),
        }
        Ok(false)
    }

    fn check_body(&self, node: NodeId, bytes: &[u8]) -> Result<usize, BadBody> {
        let header = headers::context(&self.headers(), self.params, node);
        let checked = scratch::with_check(self.world.kernels(), |scratch| {
            stages::check(self.params, &header, bytes, true, scratch)
        });
        match checked {
            Ok(checked) => Ok(checked.txids.len()),
            Err(Refusal::Rule(error)) if error.mutated() => Err(BadBody::Mutated(error)),
            Err(Refusal::Rule(error)) => Err(BadBody::Refused(error)),
            Err(Refusal::Unparsable(why)) => Err(BadBody::Damaged(why.to_string())),
            Err(Refusal::WrongBody) => {
                Err(BadBody::Damaged("record contains a different block than the index says".into()))
            }
        }
    }
}

/// What is wrong with a body.
enum BadBody {
    /// A rule of the block: it is invalid.
    Refused(BlockError),
    /// A block, and not its header's: the header is not judged.
    Mutated(BlockError),
    /// The bytes are not this block's: it is not judged.
    Damaged(String),
}

/// The stored coins of undo data, in the order of the block's inputs; none when it is not of this block.
pub(crate) fn undo_coins(undo: &[u8], block: &primitives::Block<'_>) -> Option<Vec<Vec<u8>>> {
    let stored = |coin: CoinRef<'_>| {
        let mut bytes = Vec::new();
        put_coin(&mut bytes, coin.code(), coin.value, &coin.script.to_vec());
        bytes
    };
    Some(spent_coins(undo, block)?.into_iter().map(stored).collect())
}
