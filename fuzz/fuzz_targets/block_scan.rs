//! The block file scanner, on any file: blocks are inside it, in order, and overlap only where a record may be torn.
//!
//! Input: kind of what follows u8 | bytes. An odd kind has the magic of regtest before each piece of a length that follows.
#![no_main]

use disk::SimDisk;
use primitives::{BlockHash, Target};
use std::path::Path;
use store::blockfiles::{BlockAt, BlockFiles, FoundBlock};
use store::{Layout, Network, xor::NO_KEY};

const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((kind, rest)) = data.split_first() else { return };
    let mut file = Vec::new();
    if kind % 2 == 1 {
        for piece in rest.chunks(usize::from(*kind).max(90)) {
            file.extend(MAGIC);
            file.extend(u32::try_from(piece.len()).expect("a piece is short").to_le_bytes());
            file.extend(piece);
        }
    } else {
        file.extend_from_slice(rest);
    }
    let disk = SimDisk::new(0).shared();
    let layout = Layout::new(Path::new("/d"), "regtest", None);
    disk.create_dir_all(layout.blocks_dir()).expect("a simulated disk makes directories");
    let out = disk.create(&layout.block_file(0)).expect("and files");
    out.write_at(0, &file).expect("and writes them");
    let pow_limit = Target::from_compact(0x207f_ffff).expect("regtest's");
    let network = Network { directory: "regtest", magic: MAGIC, genesis: BlockHash::ZERO, pow_limit };
    let files = BlockFiles::new(&disk, layout.blocks_dir(), &network, NO_KEY);
    let scan = files.scan(0).expect("whatever the file has, it can be read");
    let mut last: Option<&FoundBlock> = None;
    for block in &scan.blocks {
        let BlockAt { offset, size, .. } = block.location;
        assert!(offset + u64::from(size) <= file.len() as u64, "a block is inside the file");
        if let Some(last) = last {
            assert!(offset > last.location.offset, "blocks are in order of their places");
            // A record that was accepted because its body parses may be torn, and is searched for others.
            let end = last.location.offset + u64::from(last.location.size);
            assert!(offset >= end || last.is_parsed, "blocks that records follow do not overlap");
        }
        last = Some(block);
    }
});
