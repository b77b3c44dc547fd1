//! Importing packed files: pieces of any size, blocks out of order, junk and cuts between them.

use crate::chain::{chain, file, put};
use crate::data_directory::{DATADIR, options};
use disk::{Disk, SimDisk};
use node::jobs;
use node::options::Options;
use node::reporting::{Event, JobReport};
use primitives::Height;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use testkit::Rng;

const BLOCKS: u32 = 60;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// Imports packed bytes into an empty data directory, so many at a time; gives the report, and what was said.
fn import(unpacked: &[u8], piece_bytes: usize) -> (JobReport, String) {
    let disk = SimDisk::new(0);
    disk.create_dir_all(Path::new(DATADIR)).unwrap();
    put(&disk, Path::new("/boot.dat.gz"), &gzip(unpacked));
    let mut options: Options = options(&disk, false);
    options.sizes.import_piece_bytes = piece_bytes;
    let said = Mutex::new(String::new());
    let listen = |event| {
        if let Event::Note(text) | Event::Warning(text) = event {
            said.lock().unwrap().push_str(&format!("{text}\n"));
        }
    };
    let report = jobs::import(&options, &["/boot.dat.gz".into()], &listen).unwrap();
    (report, said.into_inner().unwrap())
}

#[test]
fn packed_blocks_come_whole_in_pieces_of_any_size() {
    let blocks = chain(BLOCKS);
    for seed in testkit::seeds(5) {
        let mut rng = Rng::new(seed);
        // Blocks change places with one of the next ten, as in a download.
        let mut mixed = blocks.clone();
        for at in 1..mixed.len() {
            let with = (at + rng.below(10)).min(mixed.len() - 1);
            mixed.swap(at, with);
        }
        let mut bytes = Vec::new();
        for block in &mixed {
            bytes.extend_from_slice(&file(std::slice::from_ref(block)));
            if rng.one_in(8) {
                bytes.resize(bytes.len() + rng.below(6000), 0);
            }
        }
        for piece_bytes in [100, 7000] {
            let (report, said) = import(&bytes, piece_bytes);
            assert_eq!(report.height, Height::new(BLOCKS), "seed {seed}, {piece_bytes} bytes: {said}");
            assert_eq!(report.end_reason, None, "seed {seed}, {piece_bytes} bytes: {said}");
            assert!(said.contains(&format!("{BLOCKS} blocks were new")), "seed {seed}: {said}");
        }
    }
}

/// Each record comes once, and junk is said.
#[test]
fn records_across_pieces_come_once() {
    let blocks = chain(BLOCKS);
    let junk = Rng::new(5).bytes(100_000);
    let mut bytes = Vec::new();
    for block in &blocks {
        bytes.extend_from_slice(&file(std::slice::from_ref(block)));
        bytes.extend_from_slice(&junk);
    }
    let (report, said) = import(&bytes, 1_000_000);
    assert_eq!(report.height, Height::new(BLOCKS), "{said}");
    assert!(said.contains(&format!("{BLOCKS} blocks were new")) && said.contains("do not deserialize"), "{said}");
}

#[test]
fn import_says_which_blocks_have_no_parent() {
    let (report, said) = import(&file(&chain(BLOCKS)[20..]), 1 << 20);
    assert_eq!(report.height, Height::GENESIS);
    assert!(said.contains("41 blocks have no parent, neither there nor in the data directory"), "{said}");
    assert!(said.contains("Import the blocks below them first"), "{said}");
}
