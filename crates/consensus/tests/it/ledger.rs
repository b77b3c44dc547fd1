//! A chain and its coins in the plainest form: one vector, one hash map, one block at a time.

use consensus::block::{self, Context};
use consensus::header::{self, Ancestor, Parent};
use consensus::spend::Totals;
use consensus::{BlockError, BlockSpend, Cleanup, Params, Rule, SpentCoin, bip30, flags};
use primitives::{Amount, Block, BlockHash, Header, Height, MedianTime, OutPoint, Tables, Txid};
use script::{Flags, Immediate, Precomputed, SpentOutput};
use std::collections::HashMap;

/// A clock that no block here is ahead of but those that mean to be: 2026-11-21.
pub(crate) const NOW: i64 = 1_795_219_200;

#[derive(Clone)]
pub(crate) struct Coin {
    pub(crate) height: Height,
    pub(crate) coinbase: bool,
    pub(crate) value: i64,
    pub(crate) script: Vec<u8>,
}

#[derive(Clone)]
pub(crate) struct Ledger {
    pub(crate) params: Params,
    /// Whether scripts run.
    pub(crate) scripts: bool,
    chain: Vec<(Ancestor, BlockHash)>,
    pub(crate) coins: HashMap<OutPoint, Coin>,
}

/// Why a block did not become the tip.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Its bytes do not deserialize as a block.
    Unparsable,
    /// Its parent is not the tip.
    Elsewhere,
    /// It breaks a rule.
    Verdict(BlockError),
}

impl From<BlockError> for Refused {
    fn from(error: BlockError) -> Refused {
        Refused::Verdict(error)
    }
}

impl Ledger {
    pub(crate) fn new(params: Params) -> Ledger {
        let mut ledger = Ledger { chain: Vec::new(), coins: HashMap::new(), params, scripts: true };
        let genesis = Header(*ledger.params.genesis.first_chunk().unwrap());
        ledger.push(&genesis);
        ledger
    }

    pub(crate) fn push(&mut self, header: &Header) {
        self.chain.push((Ancestor { time: header.time(), bits: header.bits() }, header.hash()));
    }

    pub(crate) fn height(&self) -> Height {
        Height::new(self.chain.len() as u32) - 1
    }

    pub(crate) fn tip(&self) -> BlockHash {
        self.chain.last().unwrap().1
    }

    pub(crate) fn ancestor(&self, height: Height) -> Ancestor {
        self.chain[height.to_usize()].0
    }

    pub(crate) fn median_time_past(&self, height: Height) -> MedianTime {
        MedianTime::new(
            (header::median_time_past(self.chain[..=height.to_usize()].iter().rev().map(|(block, _)| block.time)))
                .to_u32(),
        )
    }

    /// Whether BIP-0054 holds; chains here have no signals.
    pub(crate) fn cleanup(&self) -> Cleanup {
        Cleanup::everywhere(&self.params).expect("parameters without signals")
    }

    /// What a block on the tip is told of its parent.
    pub(crate) fn parent(&self) -> Parent {
        let Ancestor { time, bits } = self.ancestor(self.height());
        let median_time_past = self.median_time_past(self.height());
        Parent { height: self.height(), time, bits, median_time_past, real_bits: None, cleanup: self.cleanup() }
    }

    /// All rules of a header on the tip.
    pub(crate) fn check_header(&self, header: &Header) -> Result<(), BlockError> {
        header::check_proof_of_work(&self.params, &header.hash(), header.bits())?;
        if header.prev() != self.tip() {
            return Err(Rule::PrevBlkNotFound.into());
        }
        header::check(&self.params, header, &self.parent(), NOW, |height| self.ancestor(height))
    }

    /// All rules of a block on the tip; makes it the tip when they hold.
    pub(crate) fn connect(&mut self, bytes: &[u8]) -> Result<Totals, Refused> {
        let mut tables = Tables::new();
        let block = tables.parse_block(bytes).map_err(|_| Refused::Unparsable)?;
        let header = block.header();
        match self.check_header(&header) {
            Err(BlockError { rule: Rule::PrevBlkNotFound, .. }) => return Err(Refused::Elsewhere),
            checked => checked?,
        }
        let (mut txids, mut wtxids, mut sigops) = (Vec::new(), Vec::new(), Vec::new());
        let mut scratch = block::Scratch::default();
        block.txids_into(&mut txids);
        block.wtxids_into(&txids, &mut wtxids);
        block::check(&self.params, &block, &header.hash(), &txids, &mut sigops, &mut scratch)?;
        let median_time_past = self.median_time_past(self.height());
        let context = Context { height: self.height() + 1, median_time_past, cleanup: self.cleanup() };
        block::check_context(&self.params, &block, &context, &txids, &wtxids, &mut scratch)?;
        let mut journal = Vec::new();
        let totals = self.spend(&block, context, &txids, &sigops, &mut journal);
        match totals {
            Ok(_) => self.push(&header),
            Err(_) => journal.into_iter().rev().for_each(|(outpoint, coin)| self.put(outpoint, coin)),
        }
        Ok(totals?)
    }

    fn put(&mut self, outpoint: OutPoint, coin: Option<Coin>) {
        match coin {
            Some(coin) => self.coins.insert(outpoint, coin),
            None => self.coins.remove(&outpoint),
        };
    }

    /// `journal` gets what each changed outpoint was before.
    fn spend(
        &mut self,
        block: &Block<'_>,
        context: Context,
        txids: &[Txid],
        sigops: &[u32],
        journal: &mut Vec<(OutPoint, Option<Coin>)>,
    ) -> Result<Totals, BlockError> {
        let (height, hash) = (context.height, block.header().hash());
        let bip34 = self.chain.get(self.params.bip34_height.to_usize()).map(|(_, hash)| hash);
        let enforced = bip30::is_enforced(&self.params, height, &hash, bip34);
        bip30::check(enforced, self.overwrites(block, txids))?;
        let mut spend =
            BlockSpend::new(&self.params, height, &hash, context.median_time_past).with_cleanup(context.cleanup);
        for (index, tx) in block.transactions().enumerate() {
            let spent: Vec<Option<Coin>> = match index {
                0 => Vec::new(),
                _ => tx.inputs().map(|input| self.coins.remove(&input.prevout())).collect(),
            };
            journal.extend(tx.inputs().zip(&spent).map(|(input, coin)| (input.prevout(), coin.clone())));
            let coin = |input: usize| {
                let coin = spent[input].as_ref()?;
                let (value, script) = (Amount(coin.value), &coin.script[..]);
                Some(SpentCoin { height: coin.height, coinbase: coin.coinbase, value, script })
            };
            spend.transaction(&tx, &txids[index], sigops[index], coin, |height| self.median_time_past(height))?;
            for (vout, output) in (0..).zip(tx.outputs()) {
                if bip30::makes_coin(height, output.script()) {
                    let (value, script) = (output.value().0, output.script().to_vec());
                    let outpoint = OutPoint { txid: txids[index], vout };
                    let coin = Coin { height, coinbase: index == 0, value, script };
                    journal.push((outpoint, self.coins.insert(outpoint, coin)));
                }
            }
        }
        let totals = spend.finish(&block.transaction(0))?;
        if self.scripts {
            self.run_scripts(block, txids, journal, flags::of_block(&self.params, height, &hash))?;
        }
        Ok(totals)
    }

    /// Every script, one by one, after everything else. The journal has the spent coins in the order of the inputs.
    fn run_scripts(
        &self,
        block: &Block<'_>,
        txids: &[Txid],
        journal: &[(OutPoint, Option<Coin>)],
        flags: Flags,
    ) -> Result<(), BlockError> {
        let mut changes = journal.iter();
        let mut scratch = script::Scratch::new();
        for (index, tx) in block.transactions().enumerate().skip(1) {
            let coins = tx.inputs().map(|input| {
                let (_, coin) =
                    changes.find(|(outpoint, coin)| *outpoint == input.prevout() && coin.is_some()).unwrap();
                coin.as_ref().unwrap()
            });
            let spent: Vec<SpentOutput<'_>> =
                coins.map(|coin| SpentOutput { value: Amount(coin.value), script: &coin.script }).collect();
            let precomputed = Precomputed::new(tx, &spent);
            for input in 0..tx.input_count() {
                script::verify(&precomputed, input, flags, &mut Immediate, &mut scratch).map_err(|error| {
                    let rule = Rule::BlockScriptVerifyFlagFailed { error };
                    BlockError::in_input(rule, index, txids[index], input)
                })?;
            }
        }
        Ok(())
    }

    fn overwrites(&self, block: &Block<'_>, txids: &[Txid]) -> bool {
        block.transactions().zip(txids).any(|(tx, &txid)| {
            (0..tx.output_count() as u32).any(|vout| self.coins.contains_key(&OutPoint { txid, vout }))
        })
    }
}
