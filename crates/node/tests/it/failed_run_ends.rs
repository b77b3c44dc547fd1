//! A run that cannot go on ends, also where its reader waits for a buffer that blocks in flight hold.

use crate::chain::{chain, file, hash_of, put};
use crate::data_directory::{DATADIR, options};
use disk::SimDisk;
use node::jobs;
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
