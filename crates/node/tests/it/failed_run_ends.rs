//! A run that cannot go on ends: where its reader waits for a buffer that blocks in flight hold, and where the next block
//! does not come.

use crate::chain::{chain, file, hash_of, put};
use crate::data_directory::{DATADIR, options};
use crate::memory_backend::Memory;
use crate::traps::{NOW, combinations, engine_on};
use consensus::{Chain, Params};
use disk::SimDisk;
use node::jobs;
use node::pipeline::engine::Activated;
use primitives::Header;
use std::path::Path;

/// Small blocks are read 512 at a time, into one of three buffers. While block 1000 is judged all three hold blocks in
/// flight, and the reader waits for one.
const BLOCKS: u32 = 3000;
const BAD: usize = 1000;

#[test]
fn refused_block_frees_the_reader_that_waits_for_a_buffer() {
    let mut blocks = chain(BLOCKS);
    // The body no longer fits the Merkle root of its header.
    let end = blocks[BAD].len() - 1;
    blocks[BAD][end] ^= 1;
    let disk = SimDisk::new(0);
    put(&disk, &Path::new(DATADIR).join("regtest/blocks/blk00000.dat"), &file(&blocks));
    let report = jobs::reindex(&options(&disk, false), false, &|_| {}).unwrap();
    assert_eq!((report.height.to_u32(), report.best), (BAD as u32 - 1, hash_of(&blocks[BAD - 1])));
}

/// The queue of a session gives no block once another thread has had a fault, which only the caller looks for.
#[test]
fn chain_whose_next_block_does_not_come_is_left_there() {
    let params = Params::new(Chain::Regtest);
    for (settings, _) in combinations() {
        let memory = Memory::new(&params);
        let mut engine = engine_on(&params, &memory, settings);
        let mut nodes = Vec::new();
        for block in chain(30).into_iter().skip(1) {
            let header = Header(*block.first_chunk().unwrap());
            let node = memory.index().write().accept(&params, &header, header.hash(), NOW).unwrap();
            memory.found(node, block);
            nodes.push(node);
        }
        *memory.withheld.lock().unwrap() = Some((nodes[20], 0));
        assert_eq!((engine.activate().unwrap(), engine.tip()), (Activated::Withheld, nodes[19]));
        *memory.withheld.lock().unwrap() = None;
        assert_eq!((engine.activate().unwrap(), engine.tip()), (Activated::Tip, nodes[29]));
    }
}
