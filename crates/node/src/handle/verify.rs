//! Core's verifychain on a running job: checks the last blocks again, on the coins of the last commit.
//!
//! Level 0 reads blocks, 1 checks each separately, 2 reads their undo data, 3 disconnects them from a set in memory, 4
//! reconnects them to it with the reference implementations (`pipeline::recheck`). The job's own state is not changed.
//! Source: Bitcoin Core b88bffe, `CVerifyDB::VerifyDB`.

use super::live::Live;
use crate::chain::block::HeaderContext;
use crate::chain::headers::{self, AssumeValid, ChainContext};
use crate::chain::tree::NodeId;
use crate::fault::Fault;
use crate::pipeline::engine::{NO_HEIGHT, undo_coins, with_height};
use crate::pipeline::recheck::{self, Alone, Answer, Question};
use consensus::{BlockError, Rule, bip30};
use kernels::Kernels;
use primitives::coin::{code, is_unspendable, put_coin};
use primitives::{Block, Height, OutPoint, Tables};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use store::FaultKind;
use store::chainstate::CoinsView;
use sys::spill::SpillFiles;

/// The coins of a view, with changes in memory.
struct Overlay {
    view: CoinsView,
    changed: HashMap<OutPoint, Option<Vec<u8>>>,
    bytes: usize,
}

/// Memory of one change, besides its coin.
const CHANGE_BYTES: usize = 100;

impl Overlay {
    fn get(&self, outpoint: &OutPoint) -> Result<Option<Vec<u8>>, Fault> {
        match self.changed.get(outpoint) {
            Some(known) => Ok(known.clone()),
            None => Ok(self.view.get(outpoint)?),
        }
    }

    fn set(&mut self, outpoint: OutPoint, coin: Option<Vec<u8>>) {
        self.bytes += CHANGE_BYTES + coin.as_ref().map_or(0, Vec::len);
        self.changed.insert(outpoint, coin);
    }
}

/// Result of checking the last blocks. Source: Core's `VerifyDBResult`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verified {
    /// All requested checks were made and passed.
    Whole,
    /// The checks that were made passed, but this block and all below it are pruned and were not checked.
    MissingBlocks(Height),
    /// The checks that were made passed, but memory did not suffice for the coins of all blocks.
    MissingCoins,
    /// The program is to end: the other checks were not made.
    Interrupted,
    /// A check failed: the reason.
    Wrong(String),
}

/// Result of reading a block, or its undo data.
enum Read<T> {
    /// It is there.
    Whole(T),
    /// It was not stored, or is pruned.
    Absent,
    /// It is missing or damaged: the reason.
    Damaged(String),
}

impl<T> Read<T> {
    /// The result of a read.
    ///
    /// # Errors
    ///
    /// The machine cannot read: that says nothing of the data.
    fn of(read: Result<Option<T>, Fault>) -> Result<Read<T>, Fault> {
        match read {
            Ok(Some(data)) => Ok(Read::Whole(data)),
            Ok(None) => Ok(Read::Absent),
            Err(Fault::Store(why)) if is_damage(&why) => Ok(Read::Damaged(why.to_string())),
            Err(why) => Err(why),
        }
    }
}

/// `EIO` of Linux, macOS and the BSDs: a bad sector.
const IO_ERROR: i32 = 5;

/// Whether a file is missing or damaged. Too many open files, for example, say nothing of it.
fn is_damage(fault: &store::Fault) -> bool {
    match fault.kind() {
        FaultKind::Missing | FaultKind::Damaged | FaultKind::OtherForm => true,
        FaultKind::Io => fault.detail().source.as_ref().and_then(std::io::Error::raw_os_error) == Some(IO_ERROR),
        _ => false,
    }
}

impl Live {
    /// Checks the last `depth` blocks (0: all) up to `tip` at `level` (0 to 4); `view` has the coins of `tip`. Changed
    /// coins may use `bytes_max`, plus those of one block.
    ///
    /// # Errors
    ///
    /// The machine cannot read a file: damaged and missing files are a result.
    pub fn verify(
        &self,
        view: CoinsView,
        tip: NodeId,
        level: i32,
        depth: i32,
        bytes_max: usize,
    ) -> Result<Verified, Fault> {
        let mut coins = Overlay { view, changed: HashMap::new(), bytes: 0 };
        let mut taken_off = Vec::new();
        let mut verified = Verified::Whole;
        for id in self.last_blocks(tip, depth) {
            if self.options.stop.load(Relaxed) {
                return Ok(Verified::Interrupted);
            }
            let header = headers::context(&self.index.headers(), self.params(), id);
            let bytes = match Read::of(self.block(id))? {
                Read::Whole(bytes) => bytes,
                // Pruned blocks are not checked, as in Core.
                Read::Absent => {
                    if verified == Verified::Whole {
                        verified = Verified::MissingBlocks(header.height);
                    }
                    break;
                }
                Read::Damaged(why) => return Ok(wrong("ReadBlock failed", &header, why)),
            };
            if let Some(wrong) = self.check_alone(&header, &bytes, level) {
                return Ok(wrong);
            }
            if level < 2 {
                continue;
            }
            let undo = match Read::of(self.undo(id))? {
                Read::Whole(undo) => undo,
                Read::Absent => continue,
                Read::Damaged(why) => return Ok(wrong("found bad undo data", &header, why)),
            };
            // As in Core, blocks are disconnected only while their coins fit the cache.
            if level >= 3 && coins.bytes <= bytes_max {
                if let Some(why) = take_off(&mut coins, &header, &bytes, &undo, self.options.kernels)? {
                    return Ok(Verified::Wrong(why));
                }
                taken_off.push((id, bytes));
            } else if level >= 3 {
                verified = Verified::MissingCoins;
            }
        }
        // Core reconnects only if it disconnected all blocks.
        let wrong = match level {
            4 if verified != Verified::MissingCoins => self.put_on(&mut coins, tip, taken_off)?,
            _ => None,
        };
        Ok(wrong.unwrap_or(verified))
    }

    /// The last `depth` blocks (0: all but genesis) up to `tip`, the highest first.
    fn last_blocks(&self, tip: NodeId, depth: i32) -> Vec<NodeId> {
        let tree = self.index.headers();
        let height = tree.height(tip).to_u32();
        let depth = u32::try_from(depth).ok().filter(|&depth| depth > 0).unwrap_or(height).min(height);
        let mut chain = tree.path(tree.ancestor(tip, tree.height(tip) - depth), tip);
        chain.reverse();
        chain
    }

    /// Checks the bytes of a block: that they are this block, and from level 1 on the rules that need no coins. Returns
    /// what is wrong. Source: Bitcoin Core b88bffe, `BlockManager::ReadBlock`, `CheckBlock`.
    fn check_alone(&self, header: &HeaderContext, bytes: &[u8], level: i32) -> Option<Verified> {
        let mut tables = Tables::with(self.options.kernels);
        match tables.parse_block(bytes).map(|block| block.header().hash()) {
            Err(why) => return Some(wrong("ReadBlock failed", header, why)),
            Ok(found) if found != header.hash => {
                return Some(wrong("ReadBlock failed", header, format!("its header has the hash {found}")));
            }
            Ok(_) => {}
        }
        if level < 1 {
            return None;
        }
        let (error, _) = recheck::alone_of(self.params(), header, bytes)?;
        (!is_passed_over(&error)).then(|| wrong("found bad block", header, error))
    }

    fn put_on(
        &self,
        coins: &mut Overlay,
        tip: NodeId,
        taken_off: Vec<(NodeId, Vec<u8>)>,
    ) -> Result<Option<Verified>, Fault> {
        let assume =
            AssumeValid { hash: self.options.assumevalid, minimum_chain_work: self.options.minimum_chain_work };
        let times = headers::median_times(&self.index.headers(), tip);
        for (id, bytes) in taken_off.into_iter().rev() {
            if self.options.stop.load(Relaxed) {
                return Ok(Some(Verified::Interrupted));
            }
            let context = ChainContext::new(&self.index.headers(), self.params(), &assume, tip).block(id);
            let spill = SpillFiles::default();
            let question = Question {
                params: self.params(),
                context: &context,
                bytes: &bytes,
                times: &times,
                spill: &spill,
                alone: Alone::Judged,
                suspect: None,
            };
            match recheck::judge(&question, |outpoint| coins.get(outpoint))? {
                Answer::Good => {}
                wrong => {
                    let why = format!("found unconnectable block {}: {wrong:?}", context.hash);
                    return Ok(Some(Verified::Wrong(why)));
                }
            }
            let mut tables = Tables::with(self.options.kernels);
            let Ok(block) = tables.parse_block(&bytes) else { continue };
            apply(coins, &context.at, &block);
        }
        Ok(None)
    }
}

/// A check that failed, in Core's words, and the reason.
fn wrong(what: &str, header: &HeaderContext, why: impl fmt::Display) -> Verified {
    Verified::Wrong(format!("{what} at {}, hash={} ({why})", header.height, header.hash))
}

/// Whether this error is ignored. Core's verifychain skips `ContextualCheckBlock`. Here it runs, except for witness
/// data below segwit's height: on a test network `-testactivationheight` can move that height, and blocks that were
/// stored before stay valid.
fn is_passed_over(error: &BlockError) -> bool {
    error.rule == Rule::UnexpectedWitness
}

/// Disconnects a block; returns the inconsistency, if there is one.
fn take_off(
    coins: &mut Overlay,
    header: &HeaderContext,
    bytes: &[u8],
    undo: &[u8],
    kernels: Kernels,
) -> Result<Option<String>, Fault> {
    let wrong =
        |what: &str| Ok(Some(format!("irrecoverable inconsistency in block data at {}: {what}", header.height)));
    let mut tables = Tables::with(kernels);
    let Ok(block) = tables.parse_block(bytes) else { return wrong("it does not deserialize") };
    let Some(spent) = undo_coins(undo, &block) else { return wrong("its undo data does not fit it") };
    let mut txids = Vec::new();
    block.txids_into(&mut txids);
    for (index, tx) in block.transactions().enumerate().collect::<Vec<_>>().into_iter().rev() {
        for (vout, output) in tx.outputs().enumerate().filter(|(_, output)| !is_unspendable(output.script())) {
            let mut want = Vec::new();
            put_coin(&mut want, code(header.height, index == 0), output.value(), output.script());
            let outpoint = OutPoint { txid: txids[index], vout: vout as u32 };
            let overwritten = index == 0 && bip30::is_overwritten(header.height, &header.hash);
            if coins.get(&outpoint)?.as_ref() != Some(&want) && !overwritten {
                return wrong(&format!("coin {outpoint} is not as it was made"));
            }
            coins.set(outpoint, None);
        }
        for input in (0..if index == 0 { 0 } else { tx.input_count() }).rev() {
            let outpoint = tx.input(input).prevout();
            if coins.get(&outpoint)?.is_some() {
                return wrong(&format!("coin {outpoint}, which it spent, is there"));
            }
            let coin = with_height(&spent[tx.first_input() + input - 1], outpoint.txid, |at| coins.get(at))?;
            let Some(coin) = coin else { return wrong(&format!("{NO_HEIGHT} {outpoint}")) };
            coins.set(outpoint, Some(coin));
        }
    }
    Ok(None)
}

/// Applies a valid block to the coins.
fn apply(coins: &mut Overlay, header: &HeaderContext, block: &Block<'_>) {
    let mut txids = Vec::new();
    block.txids_into(&mut txids);
    for (index, tx) in block.transactions().enumerate() {
        if index > 0 {
            tx.inputs().for_each(|input| coins.set(input.prevout(), None));
        }
        for (vout, output) in tx.outputs().enumerate().filter(|(_, output)| !is_unspendable(output.script())) {
            let mut coin = Vec::new();
            put_coin(&mut coin, code(header.height, index == 0), output.value(), output.script());
            coins.set(OutPoint { txid: txids[index], vout: vout as u32 }, Some(coin));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::DiskError;
    use std::io;
    use std::path::Path;

    #[test]
    fn damage_is_a_result_and_a_fault_of_the_machine_is_none() {
        for (row, error, want) in [
            ("a missing file", io::Error::from(io::ErrorKind::NotFound), true),
            ("a file that was cut", io::Error::from(io::ErrorKind::UnexpectedEof), true),
            ("a bad sector", io::Error::from_raw_os_error(IO_ERROR), true),
            ("too many open files", io::Error::from_raw_os_error(24), false),
            ("no permission", io::Error::from(io::ErrorKind::PermissionDenied), false),
        ] {
            let fault = store::Fault::from(DiskError::new("read", Path::new("/d/blk00000.dat"), error));
            let read = Read::<()>::of(Err(fault.into()));
            assert_eq!(matches!(read, Ok(Read::Damaged(_))), want, "{row}");
            assert_eq!(read.is_err(), !want, "{row}");
        }
    }
}
