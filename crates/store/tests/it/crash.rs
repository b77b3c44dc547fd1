//! A small node's worth of writing, stopped at every operation: blocks, undo data, index, coins, in that order.
//!
//! Whatever is lost, the directory reopens to a committed state: the coins stand at a block that the index lists with data
//! and undo data, both of which can be read, and the work goes on from there to the same end.

use crate::common::{chain, hash_of, network};
use disk::{Disk, Fault as Accident, Loss, SimDisk};
use primitives::{CoinKey, Header, Height, OutPoint, Txid};
use std::path::Path;
use std::sync::Arc;
use store::blockfiles::{BlockFiles, BlockWriter, Limits};
use store::index::IndexChanges;
use store::undofiles::{UndoFiles, UndoWriter, undo_record};
use store::{BlockTreeDb, Chainstate, FaultKind, FileInfos, FilePos, IndexEntry, Layout, Network, Result, Status, xor};

const COUNT: u32 = 6;

struct Node {
    disk: Arc<dyn Disk>,
    layout: Layout,
    network: Network,
    blocks: Vec<Vec<u8>>,
}

/// The coin that the block at a height makes, for which it spends the one before.
fn coin(height: u32) -> OutPoint {
    OutPoint { txid: Txid::from_bytes(kernels::sha256::sha256(&height.to_le_bytes())), vout: height }
}

fn key(outpoint: &OutPoint) -> Vec<u8> {
    CoinKey::new(outpoint).as_bytes().to_vec()
}

impl Node {
    fn new(disk: Arc<dyn Disk>, blocks: &[Vec<u8>]) -> Node {
        let network = network("", [0xfa, 0xbf, 0xb5, 0xda], &hash_of(&blocks[0]).to_string());
        Node { disk, layout: Layout::new(Path::new("/d"), "", None), network, blocks: blocks.to_vec() }
    }

    /// Goes on from where the directory is to the last block, two blocks a commit of index and coins.
    fn run(&self) -> Result<()> {
        self.layout.create(&*self.disk)?;
        let key_of_files = xor::open_key(&*self.disk, self.layout.blocks_dir(), &self.network, false)?.key;
        let index = BlockTreeDb::open(self.disk.clone(), &self.layout)?;
        let chainstate = Chainstate::open_with(self.disk.clone(), &self.layout.chainstate_dir(), [3; 8])?;
        let loaded = index.load(&self.network)?;
        let mut infos = FileInfos::new(loaded.files);
        let dir = self.layout.blocks_dir();
        // Two blocks a file, and little room: opened hundreds of times, the disk is copied each time.
        let limits = Limits { file_bytes_max: 700, chunk_bytes: 512 };
        let mut blocks = BlockWriter::new(self.disk.clone(), dir, &self.network, key_of_files, &infos, limits)?;
        let mut undo = UndoWriter::new(self.disk.clone(), dir, &self.network, key_of_files);
        let best = chainstate.best_block()?;
        let next =
            best.map_or(Height::GENESIS, |best| loaded.entries.iter().find(|e| e.hash == best).unwrap().height + 1);
        for start in (next.to_u32()..COUNT).step_by(2) {
            let mut entries = Vec::new();
            for height in start..COUNT.min(start + 2) {
                // The index may be ahead of the coins: what it lists is stored.
                if let Some(known) = loaded.entries.get(height as usize) {
                    entries.push(*known);
                    continue;
                }
                let block = &self.blocks[height as usize];
                let header = Header(*block.first_chunk().unwrap());
                let at = blocks.append(&mut infos, block, Height::new(height), header.time())?;
                let record = undo_record(self.network.magic, &header.prev(), &[height as u8; 3]);
                let undo_offset = undo.append(&mut infos, at.file, &record)?;
                entries.push(IndexEntry {
                    status: Status::SCRIPTS.with(Status::HAVE_DATA | Status::HAVE_UNDO),
                    tx_count: 1,
                    file: at.file,
                    data_offset: at.offset,
                    undo_offset,
                    ..IndexEntry::header_only(header, header.hash(), Height::new(height))
                });
            }
            let mut flush = blocks.begin_flush()?;
            flush.add(undo.begin_flush()?);
            flush.run()?;
            let files = infos.take_changed();
            let last_file = Some(infos.last_file());
            index.write(&IndexChanges { entries: &entries, files: &files, last_file, ..IndexChanges::default() })?;
            let last = entries.last().unwrap();
            let commit = chainstate.begin_commit(last.hash, 3, 200)?.expect("no compaction is under way");
            let mut records = vec![(key(&coin(last.height.to_u32())), true)];
            records.extend(start.checked_sub(1).map(|before| (key(&coin(before)), false)));
            records.sort();
            let mut part = commit.first_part()?;
            for (key, is_made) in records {
                if is_made { part.put(&key, b"a coin")? } else { part.delete(&key)? }
            }
            part.finish()?;
            commit.finish()?;
        }
        index.settle()?;
        chainstate.settle()
    }

    /// Everything that the directory says is true.
    fn check(&self, row: &str) {
        if !Chainstate::exists(&*self.disk, &self.layout.chainstate_dir()).unwrap() {
            return;
        }
        let chainstate = Chainstate::open_read_only(self.disk.clone(), &self.layout.chainstate_dir()).unwrap();
        let Some(best) = chainstate.best_block().unwrap() else { return };
        let index = BlockTreeDb::open_read_only(self.disk.clone(), &self.layout).unwrap();
        let loaded = index.load(&self.network).unwrap();
        let tip = loaded.entries.iter().find(|entry| entry.hash == best).unwrap_or_else(|| panic!("{row}: no {best}"));
        let files = BlockFiles::new(self.disk.clone(), self.layout.blocks_dir(), &self.network, [0; 8]);
        let undo = UndoFiles::new(self.disk.clone(), self.layout.blocks_dir(), &self.network, [0; 8]);
        for entry in &loaded.entries {
            let FilePos { file, offset } = entry.data().unwrap();
            let block = files.read_block(FilePos { file, offset }).unwrap();
            assert_eq!(block, self.blocks[entry.height.to_usize()], "{row}");
            assert_eq!(
                undo.read(entry.undo().unwrap(), &entry.header.prev()).unwrap(),
                [entry.height.to_u32() as u8; 3],
                "{row}"
            );
        }
        let mut coins = chainstate.view().coins().unwrap();
        assert_eq!(coins.next_coin().unwrap().unwrap().0, coin(tip.height.to_u32()), "{row}");
        assert!(coins.next_coin().unwrap().is_none(), "{row}");
    }
}

#[test]
fn data_directory_is_consistent_after_a_stop_at_any_operation() {
    let blocks = chain(COUNT, |i| 50 * i as usize);
    for at in 0..500 {
        let sim = SimDisk::new(at);
        sim.shared().create_dir_all(Path::new("/d")).unwrap();
        sim.shared().sync_dir(Path::new("/")).unwrap();
        sim.fail_at(sim.operations() + at, 1, Accident::Stop);
        let result = Node::new(sim.shared(), &blocks).run();
        for loss in [Loss::Nothing, Loss::Unsynced, Loss::Random(at)] {
            let row = format!("stopped at {at}, {loss:?}");
            let node = Node::new(sim.reopen(loss).shared(), &blocks);
            node.check(&row);
            node.run().unwrap_or_else(|why| panic!("{row}: {why}"));
            node.check(&row);
            let chainstate = Chainstate::open_read_only(node.disk.clone(), &node.layout.chainstate_dir()).unwrap();
            assert_eq!(chainstate.best_block().unwrap(), Some(hash_of(blocks.last().unwrap())), "{row}");
        }
        if result.is_ok() {
            return;
        }
    }
    panic!("the run has fewer than 500 operations");
}

/// A full disk or a failing one at any operation: a fault, and the next run goes on.
#[test]
fn io_errors_are_faults_and_lose_nothing_committed() {
    let blocks = chain(COUNT, |i| 50 * i as usize);
    for accident in [Accident::NoSpace, Accident::Io] {
        for at in 0..500 {
            let sim = SimDisk::new(at);
            sim.shared().create_dir_all(Path::new("/d")).unwrap();
            sim.fail_at(sim.operations() + at, 1, accident);
            let (node, start) = (Node::new(sim.shared(), &blocks), sim.operations());
            let result = node.run();
            let had_none = sim.operations() <= start + at;
            sim.heal();
            let row = format!("{accident:?} at {at}: {result:?}");
            node.check(&row);
            let is_last_try = |why: &store::Fault| why.to_string().contains("never tried again");
            assert_eq!(
                result.as_ref().is_err_and(|why| why.is_no_space() || is_last_try(why)),
                result.is_err() && accident == Accident::NoSpace,
                "{row}"
            );
            node.run().unwrap_or_else(|why| panic!("{row}: {why}"));
            node.check(&row);
            if had_none {
                break;
            }
            assert!(at < 499, "the run has fewer than 500 operations");
        }
    }
}

/// Runs with an accident until one run meets none: each is a fault that says where and what to do, and the next run ends.
fn every_accident(accident: &dyn Fn(&SimDisk, u64), count: &dyn Fn(&SimDisk) -> u64, kind: FaultKind) {
    let blocks = chain(COUNT, |i| 50 * i as usize);
    for at in 0..2000 {
        let sim = SimDisk::new(at);
        sim.shared().create_dir_all(Path::new("/d")).unwrap();
        sim.shared().sync_dir(Path::new("/")).unwrap();
        let from = count(&sim) + at;
        accident(&sim, from);
        let result = Node::new(sim.shared(), &blocks).run();
        let was_met = count(&sim) > from;
        if let Err(why) = &result {
            assert_eq!(why.kind(), kind, "at {at}: {why}");
            assert!(why.detail().path.starts_with("/d") && !why.detail().advice.is_empty(), "at {at}: {why}");
        }
        sim.heal();
        for loss in [Loss::Nothing, Loss::Unsynced, Loss::Random(at)] {
            let row = format!("at {at}, {loss:?}: {result:?}");
            let node = Node::new(sim.reopen(loss).shared(), &blocks);
            node.check(&row);
            node.run().unwrap_or_else(|why| panic!("{row}: {why}"));
            node.check(&row);
        }
        if !was_met {
            return assert!(result.is_ok(), "{result:?}");
        }
    }
    panic!("the run has fewer than 2000 operations");
}

#[test]
fn io_error_at_any_read_is_a_fault_and_loses_nothing_committed() {
    every_accident(&|sim, from| sim.fail_reads_at(from, 1), &SimDisk::reads, FaultKind::Io);
}

#[test]
fn disk_read_only_from_any_operation_on_is_a_fault_and_loses_nothing_committed() {
    let read_only = |sim: &SimDisk, from| sim.fail_at(from, u64::MAX, Accident::ReadOnly);
    every_accident(&read_only, &SimDisk::operations, FaultKind::Permission);
}
