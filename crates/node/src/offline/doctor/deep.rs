//! Reads every byte of blocks and undo data. Each block is checked without its chain (header, Merkle root, witness
//! commitment, record size), its undo data by its checksum and against the block.

use super::databases::Indexed;
use super::files::by_file;
use super::{At, Files, Finding, Kind, Look, read_through};
use crate::chain::block::Refusal;
use crate::chain::headers;
use crate::chain::tree::{GENESIS, NodeId};
use crate::fault::Fault;
use crate::options::Options;
use crate::pipeline::engine::undo_coins;
use crate::pipeline::{scratch, stages};
use crate::threads;
use crate::threads::locks::{into_inner, lock as locked};
use primitives::Tables;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use store::FaultKind;
use store::index::{IndexEntry, Status};

/// A fault of one block.
enum Wrong {
    Block(String),
    Undo(String),
    Unreadable(store::Fault),
}

/// Findings that concern whole files: their blocks are not reported one by one.
const OF_FILE: [Kind; 10] = [
    Kind::BlockFileMissing,
    Kind::BlockFileEmpty,
    Kind::BlockFileForeign,
    Kind::BlockFileSwapped,
    Kind::BlockFileReplaced,
    Kind::DanglingLink,
    Kind::NotReadable,
    Kind::UndoFileMissing,
    Kind::BlockFileCut,
    Kind::UndoFileCut,
];

impl Look<'_> {
    /// Reads all blocks and undo data that the index names, with all threads.
    ///
    /// # Errors
    ///
    /// The user stopped it, or the system has no threads.
    pub(super) fn every_byte(&mut self, known: &Indexed, files: &Files) -> Result<(), Fault> {
        self.absent(known);
        let named: Vec<_> = by_file(&known.loaded).into_iter().collect();
        self.reporter.set_bytes_left(known.block_bytes());
        let next = AtomicUsize::new(0);
        let wrong: Mutex<Vec<(&IndexEntry, Wrong)>> = Mutex::default();
        let reporter = self.reporter;
        let options = self.options;
        std::thread::scope(|scope| {
            for n in 0..self.options.par.clamp(1, named.len().max(1)) {
                threads::spawn(scope, format!("look.{n:02}"), || {
                    while let Some((_, records)) = named.get(next.fetch_add(1, Relaxed)) {
                        for entry in records.iter().take_while(|_| !reporter.is_stopping()) {
                            let found = look_at(options, known, entry, files);
                            locked(&wrong).extend(found.into_iter().map(|found| (*entry, found)));
                        }
                    }
                })?;
            }
            Ok::<(), Fault>(())
        })?;
        if self.reporter.is_stopping() {
            return Err(Fault::Stopped);
        }
        let mut wrong = into_inner(wrong);
        wrong.sort_unstable_by_key(|(entry, _)| (entry.height, entry.hash));
        for (entry, wrong) in wrong {
            self.note(entry, wrong, known, files);
        }
        Ok(())
    }

    fn note(&mut self, entry: &IndexEntry, wrong: Wrong, known: &Indexed, files: &Files) {
        match &wrong {
            Wrong::Block(_) => self.found.blocks.push(entry.hash),
            Wrong::Undo(_) => self.found.undo.push(entry.hash),
            Wrong::Unreadable(_) => {}
        }
        let path = files.blocks.path(entry.file);
        let undo = self.layout.undo_file(entry.file);
        match wrong {
            Wrong::Block(what) if !self.is_noted(&path, entry.data_offset.into()) => self.damaged(&path, entry, &what),
            Wrong::Undo(what) if !self.is_noted(&undo, entry.undo_offset.into()) => {
                let at = At {
                    offset: Some(u64::from(entry.undo_offset)),
                    height: Some(entry.height),
                    hash: Some(entry.hash),
                };
                let what = format!("undo data of the block at height {}: {what}", entry.height);
                self.find(Kind::UndoDamaged, &undo, at, what, read_through(known.block_bytes()));
            }
            Wrong::Unreadable(fault) if !self.is_noted(&fault.detail().path, 0) => {
                self.fault(Kind::BlockDamaged, &fault, At::height(entry.height), 1);
            }
            _ => {}
        }
    }

    /// Whether a finding about the whole file, or about its end from an offset on, covers this already.
    pub(super) fn is_noted(&self, path: &Path, offset: u64) -> bool {
        let says = |finding: &Finding| match finding.kind {
            Kind::BlockFileCut | Kind::UndoFileCut => finding.offset.is_some_and(|cut| offset >= cut),
            _ => true,
        };
        let findings = &self.found.findings;
        findings.iter().any(|finding| OF_FILE.contains(&finding.kind) && finding.path == path && says(finding))
    }

    /// Reports blocks of the chain that are in the index and in no file, and blocks whose undo data the index does not
    /// name.
    fn absent(&mut self, known: &Indexed) {
        if known.loaded.is_pruned || self.connected.is_empty() {
            return;
        }
        let tree = known.tree.headers();
        let chains = self.connected.iter().flat_map(|&(above, tip)| tree.path(above, tip));
        let chains: Vec<NodeId> = [GENESIS].into_iter().chain(chains).collect();
        for id in chains {
            let body = known.tree.body(id);
            let height = tree.height(id);
            let hash = tree.hash(id);
            let at = At { hash: Some(hash), ..At::height(height) };
            if body.location().is_none() {
                self.found.blocks.push(hash);
                let what = format!("block {hash} at height {height} is in no block file");
                let dir = self.layout.index_dir();
                self.find(Kind::BlockAbsent, &dir, at, what, 2);
            }
            if body.undo().is_none() && id != GENESIS {
                self.found.undo.push(hash);
                let what = format!("the block index names no undo data of the block at height {height}");
                let file = self.layout.undo_file(body.file());
                self.find(Kind::UndoDamaged, &file, at, what, read_through(known.block_bytes()));
            }
        }
    }
}

/// Faults of a block and its undo data.
fn look_at(options: &Options, known: &Indexed, entry: &IndexEntry, files: &Files) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    let Some(at) = entry.data() else { return wrong };
    let bytes = match files.blocks.read_block(at) {
        Ok(bytes) => Some(bytes),
        Err(fault) => {
            wrong.push(of_fault(fault, Wrong::Block));
            None
        }
    };
    if let Some(bytes) = &bytes
        && let Some(why) = why_damaged(options, known, entry, bytes)
    {
        wrong.push(Wrong::Block(why));
    }
    let is_good = wrong.is_empty();
    if let Some(at) = entry.undo() {
        match files.undo.read(at, &entry.header.prev()) {
            Err(fault) => wrong.push(of_fault(fault, Wrong::Undo)),
            Ok(undo) => {
                let mut tables = Tables::new();
                let block = bytes.as_ref().filter(|_| is_good).and_then(|bytes| tables.parse_block(bytes).ok());
                if block.is_some_and(|block| undo_coins(&undo, &block).is_none()) {
                    wrong.push(Wrong::Undo("it does not fit the block".to_owned()));
                }
            }
        }
    }
    wrong
}

fn of_fault(fault: store::Fault, damaged: fn(String) -> Wrong) -> Wrong {
    match fault.kind() {
        FaultKind::Permission | FaultKind::Io => Wrong::Unreadable(fault),
        _ => damaged(format!("wanted {}, found {}", fault.detail().wanted, fault.detail().found)),
    }
}

/// Why the bytes are not the block of the entry; `None` for a block that is intact, even if it breaks a rule.
fn why_damaged(options: &Options, known: &Indexed, entry: &IndexEntry, bytes: &[u8]) -> Option<String> {
    let tree = known.tree.headers();
    let id = tree.find(&entry.hash)?;
    let context = headers::context(tree, &options.params, id);
    match scratch::with_check(options.kernels, |scratch| {
        stages::check_from_file(&options.params, &context, bytes, scratch)
    }) {
        Ok(checked) => {
            let size = checked.block_bytes(bytes);
            let transactions = checked.txids.len() as u32;
            if size != bytes.len() {
                return Some(format!("its record says {} bytes, and the block has {size}", bytes.len()));
            }
            let is_counted = entry.tx_count == transactions || entry.status.level() < Status::TRANSACTIONS.level();
            (!is_counted).then(|| {
                format!("the index says that it has {} transactions, and it has {transactions}", entry.tx_count)
            })
        }
        Err(Refusal::Unparsable(why)) => Some(format!("it does not deserialize: {why}")),
        Err(Refusal::WrongBody) => Some("another header is there".to_owned()),
        Err(Refusal::Rule(error)) => error.mutated().then(|| error.to_string()),
    }
}
