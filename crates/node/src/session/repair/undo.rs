//! Rebuilds undo data from the blocks, and writes it to its place according to the index, or appends it.
//!
//! The coins that a block spent were created by blocks below it, or by itself. Blocks are read downwards from the
//! highest spending block until each output is found. Most spent outputs are young; in the worst case all blocks are
//! read once. Only some blocks are mended at a time, to bound the memory. If those do not include all the lost undo data,
//! index and coins are made again instead, which reads each block once.

use super::Repair;
use super::blocks::{Opened, Slots};
use crate::chain::tree::NodeId;
use crate::fault::Fault;
use primitives::coin::{code, put_coin};
use primitives::{BlockHash, Height, OutPoint, Tables, Txid, undo};
use std::collections::HashMap;
use store::restore::Restorer;
use store::undofiles::undo_record;

/// Memory that an input takes while its coin is sought.
const BYTES_PER_INPUT: usize = 400;

/// A block whose undo data is rebuilt.
struct Spender {
    node: NodeId,
    height: Height,
    prev: BlockHash,
    /// For each transaction except the coinbase the outpoints that it spends.
    spends: Vec<Vec<OutPoint>>,
    found: HashMap<OutPoint, Vec<u8>>,
    wanted: usize,
}

impl Spender {
    fn is_done(&self) -> bool {
        self.found.len() >= self.wanted
    }

    /// The undo data, once all coins are found.
    fn payload(&self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        undo::put_count(&mut out, self.spends.len());
        for spends in &self.spends {
            undo::put_count(&mut out, spends.len());
            for outpoint in spends {
                undo::put_entry(&mut out, self.found.get(outpoint)?).ok()?;
            }
        }
        Some(out)
    }
}

impl Repair<'_> {
    /// Rebuilds the undo data of these blocks.
    pub(super) fn undo(&mut self, hashes: &[BlockHash]) -> Result<(), Fault> {
        let opened = Opened::new(self.options, self.events)?;
        let mut nodes: Vec<NodeId> = hashes.iter().filter_map(|hash| opened.index.headers().find(hash)).collect();
        // Blocks that were given up have no undo data either.
        nodes.retain(|&node| opened.index.read().body(node).location().is_some());
        nodes.sort_unstable_by_key(|&node| opened.index.headers().height(node));
        let mut spenders = self.next_spenders(&opened, &mut nodes)?;
        if !nodes.is_empty() && !opened.loaded.is_pruned && !self.is_on_snapshot() {
            drop(opened);
            return self.whole("the undo data of many blocks is lost");
        }
        let slots = Slots::new(&opened, |entry| entry.undo());
        let mut restorer = opened.restorer();
        // A file is appended to behind all that it had, whether or not that can be made again.
        let mut extended = 0;
        for (number, info) in opened.loaded.files.iter().enumerate() {
            extended += usize::from(restorer.extend_undo(number as u32, info.undo_size)?);
        }
        restorer.sync()?;
        let mut count = 0;
        while !spenders.is_empty() {
            count += self.undo_of(&opened, &slots, &mut restorer, spenders)?;
            spenders = self.next_spenders(&opened, &mut nodes)?;
        }
        restorer.sync()?;
        opened.writer.commit(&opened.reporter, None)?;
        drop(opened);
        if extended > 0 {
            self.done(format!("{extended} undo files were shorter than the block index says, and were extended"));
        }
        if count > 0 {
            self.done(format!("The undo data of {count} blocks was made again from the blocks"));
        }
        Ok(())
    }

    /// Takes the highest of `nodes`, as many as the memory allows; the highest is the first.
    fn next_spenders(&self, opened: &Opened<'_>, nodes: &mut Vec<NodeId>) -> Result<Vec<Spender>, Fault> {
        let mut spenders = Vec::new();
        let mut bytes = 0;
        while bytes < self.options.sizes.undo_bytes_max
            && let Some(node) = nodes.pop()
        {
            let spender = spender(opened, node)?;
            bytes += spender.wanted * BYTES_PER_INPUT;
            spenders.push(spender);
        }
        Ok(spenders)
    }

    /// Writes the undo data of these blocks; returns of how many.
    fn undo_of(
        &mut self,
        opened: &Opened<'_>,
        slots: &Slots,
        restorer: &mut Restorer,
        mut spenders: Vec<Spender>,
    ) -> Result<usize, Fault> {
        let mut count = 0;
        while let Some(highest) = spenders.first() {
            let top = highest.node;
            // Blocks on the same chain share one pass; each stale branch needs its own.
            let (mut here, others): (Vec<Spender>, Vec<Spender>) =
                spenders.into_iter().partition(|spender| opened.index.headers().is_ancestor(spender.node, top));
            spenders = others;
            find_coins(opened, top, &mut here)?;
            for spender in here {
                let Some(payload) = spender.payload() else {
                    if !self.is_on_snapshot() {
                        return Err(not_found(opened, &spender));
                    }
                    // Blocks below the snapshot are missing yet.
                    self.undo_waits = true;
                    continue;
                };
                count += 1;
                let record = undo_record(self.options.params.magic, &spender.prev, &payload);
                // Magic and size of the record precede this position.
                match slots.get(spender.node, record.len() - 8) {
                    Some(at) => restorer.undo(at, &record)?,
                    // No place, or too little space there: the record is appended, and the index gets the new place.
                    None => {
                        let file = opened.index.read().body(spender.node).file();
                        let offset = opened.writer.append_undo(&opened.reporter, file, &record)?;
                        opened.index.write().undo_made(spender.node, offset);
                    }
                }
            }
        }
        Ok(count)
    }
}

fn not_found(opened: &Opened<'_>, spender: &Spender) -> Fault {
    let hash = opened.index.headers().hash(spender.node);
    let why = format!(
        "the undo data of block {hash} at height {} cannot be made again: {} of the outputs that it spends are in no \
         available block",
        spender.height,
        spender.wanted - spender.found.len()
    );
    let advice = "Put the undo file back from a copy; where blocks were pruned, start again with ffwd sync --prune in an empty data directory";
    Fault::refused(why, advice)
}

fn read(opened: &Opened<'_>, node: NodeId) -> Result<Option<Vec<u8>>, Fault> {
    let at = opened.index.read().body(node).location();
    Ok(at.map(|at| opened.locked.files.read_block(at)).transpose()?)
}

fn spender(opened: &Opened<'_>, node: NodeId) -> Result<Spender, Fault> {
    let (height, hash, prev) = {
        let tree = opened.index.headers();
        (tree.height(node), tree.hash(node), tree.header(node).prev())
    };
    let unreadable = || Fault::refused(format!("block {hash} cannot be read"), "Run ffwd repair again");
    let bytes = read(opened, node)?.ok_or_else(unreadable)?;
    let mut tables = Tables::new();
    let block = tables.parse_block(&bytes).map_err(|_| unreadable())?;
    let mut spends: Vec<Vec<OutPoint>> = Vec::new();
    for tx in block.transactions().skip(1) {
        spends.push(tx.inputs().map(|input| input.prevout()).collect());
    }
    let wanted = spends.iter().map(Vec::len).sum();
    Ok(Spender { node, height, prev, spends, found: HashMap::new(), wanted })
}

/// Reads blocks from `top` down until every coin that `spenders` spend is found, or no block is left.
fn find_coins(opened: &Opened<'_>, top: NodeId, spenders: &mut [Spender]) -> Result<(), Fault> {
    let mut wanted: HashMap<Txid, Vec<(usize, OutPoint)>> = HashMap::new();
    for (number, spender) in spenders.iter().enumerate() {
        for outpoint in spender.spends.iter().flatten() {
            wanted.entry(outpoint.txid).or_default().push((number, *outpoint));
        }
    }
    let mut next = Some(top);
    let mut txids = Vec::new();
    let mut tables = Tables::with(opened.options.kernels);
    while let Some(node) = next.filter(|_| spenders.iter().any(|spender| !spender.is_done())) {
        if opened.reporter.is_stopping() {
            return Err(Fault::Stopped);
        }
        let height = opened.index.headers().height(node);
        next = opened.index.headers().parent(node);
        let Some(bytes) = read(opened, node)? else { continue };
        let Ok(block) = tables.parse_block(&bytes) else { continue };
        txids.clear();
        block.txids_into(&mut txids);
        for (index, (tx, txid)) in block.transactions().zip(&txids).enumerate() {
            for (number, outpoint) in wanted.get(txid).into_iter().flatten() {
                let spender = &mut spenders[*number];
                // An older coin with the same outpoint was overwritten (BIP-0030).
                if spender.height < height || spender.found.contains_key(outpoint) {
                    continue;
                }
                if let Some(output) = tx.outputs().nth(outpoint.vout as usize) {
                    let mut coin = Vec::new();
                    put_coin(&mut coin, code(height, index == 0), output.value(), output.script());
                    spender.found.insert(*outpoint, coin);
                }
            }
        }
    }
    Ok(())
}
