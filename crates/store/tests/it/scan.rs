//! Finding blocks in whole and damaged files, and reading them.

use crate::common::{bad_header, block, chain, hash_of, header, network, put_file, record, regtest};
use disk::SimDisk;
use primitives::BlockHash;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use store::blockfiles::{BlockAt, BlockFiles, BulkReader, FoundBlock, Pool, Reason};
use store::{FaultKind, FilePos};

const KEY: [u8; 8] = [0x9a, 0x01, 0, 0xff, 0x42, 0x77, 0x13, 0xe0];
const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];

/// One file with these bytes before obfuscation, then raw zeros.
fn files(bytes: &[u8], zeros: usize, key: [u8; 8]) -> BlockFiles {
    let sim = SimDisk::new(0);
    let path = Path::new("/blocks/blk00000.dat");
    put_file(&*sim.shared(), path, bytes, key);
    sim.shared().modify(path).unwrap().set_len((bytes.len() + zeros) as u64).unwrap();
    BlockFiles::new(sim.shared(), Path::new("/blocks"), &regtest(), key)
}

fn records(blocks: &[Vec<u8>]) -> Vec<u8> {
    blocks.iter().flat_map(|block| record(MAGIC, block)).collect()
}

fn hashes(found: &[FoundBlock]) -> Vec<BlockHash> {
    found.iter().map(|block| block.hash).collect()
}

#[test]
fn scan_of_an_undamaged_file_finds_all_blocks() {
    for (row, blocks, zeros) in [
        ("empty", vec![], 0),
        ("only reserved room", vec![], 100_000),
        ("small blocks", chain(50, |i| i as usize * 10), 0),
        ("small blocks and a tail", chain(50, |i| i as usize * 10), 70_001),
        ("large blocks", chain(5, |i| 60_000 * i as usize), 0),
        ("large blocks and a tail", chain(5, |i| 60_000 * i as usize), 3),
        ("the largest", vec![block(BlockHash::ZERO, 1, 4_000_000 - 155)], 9),
    ] {
        for key in [[0; 8], KEY] {
            let files = files(&records(&blocks), zeros, key);
            let scan = files.scan(0).unwrap();
            assert_eq!(hashes(&scan.blocks), blocks.iter().map(|b| hash_of(b)).collect::<Vec<_>>(), "{row}");
            assert_eq!(scan.notes, [], "{row}");
            assert!(scan.blocks.iter().all(|block| !block.is_parsed), "{row}: only headers are read");
            let mut offset = 8;
            for (found, block) in scan.blocks.iter().zip(&blocks) {
                assert_eq!(found.location, BlockAt { file: 0, offset, size: block.len() as u32 }, "{row}");
                let pos = found.location.file_pos().unwrap();
                assert_eq!(files.read_block(pos).unwrap(), *block, "{row}");
                for bytes in [0, 1, 80, block.len()] {
                    let mut out = vec![0xa5; bytes];
                    files.read_block_into(pos, &mut out).unwrap();
                    assert_eq!(out, block[..bytes], "{row}: the first {bytes}");
                }
                let why = files.read_block_into(pos, &mut vec![0; block.len() + 1]).unwrap_err().to_string();
                assert!(why.contains(&format!("one of {}", block.len())), "{row}: {why}");
                let part = |from: usize, bytes: usize| files.read_block_part(pos, from, bytes).unwrap();
                for (from, bytes) in [(0, 1), (3, 80), (0, block.len()), (block.len() - 1, 1)] {
                    assert_eq!(part(from, bytes).as_deref(), Some(&block[from..from + bytes]), "{row}: {from}+{bytes}");
                }
                for (from, bytes) in [(0, 0), (0, block.len() + 1), (block.len(), 1), (usize::MAX, 1), (1, usize::MAX)]
                {
                    assert_eq!(part(from, bytes), None, "{row}: {from}+{bytes}");
                }
                assert_eq!(files.probe(pos).unwrap(), Some(*found), "{row}");
                assert_eq!(files.probe(FilePos { offset: pos.offset + 1, ..pos }).unwrap(), None, "{row}");
                offset += block.len() as u64 + 8;
            }
        }
    }
}

/// What is done to a file of ten good records, which of them must still be found, and the reason in the only note.
type Damage = (&'static str, fn(&mut Vec<u8>, &[usize]), &'static [usize], Option<fn(Reason) -> bool>);

#[test]
fn scan_of_a_damaged_file_loses_only_the_damaged_records() {
    const ALL: &[usize] = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
    const WITHOUT_4: &[usize] = &[0, 1, 2, 3, 5, 6, 7, 8, 9];
    fn insert(file: &mut Vec<u8>, at: usize, bytes: &[u8]) {
        file.splice(at..at, bytes.iter().copied());
    }
    let rows: [Damage; 19] = [
        ("last record cut", |f, _| f.truncate(f.len() - 5), &ALL[..9], Some(|r| matches!(r, Reason::Cut { .. }))),
        ("cut in its header", |f, at| f.truncate(at[9] + 50), &ALL[..9], Some(|r| matches!(r, Reason::Cut { .. }))),
        ("cut in its size", |f, at| f.truncate(at[9] + 6), &ALL[..9], Some(|r| matches!(r, Reason::Cut { .. }))),
        ("cut in its magic", |f, at| f.truncate(at[9] + 3), &ALL[..9], Some(|r| matches!(r, Reason::Magic(_)))),
        ("garbage between", |f, at| insert(f, at[5], b"garbage"), ALL, Some(|r| matches!(r, Reason::Magic(_)))),
        ("garbage first", |f, _| insert(f, 0, &[9; 300]), ALL, Some(|r| matches!(r, Reason::Magic(_)))),
        ("a lone magic between", |f, at| insert(f, at[5], &MAGIC), ALL, Some(|r| matches!(r, Reason::Size(_)))),
        ("zeros between", |f, at| insert(f, at[5], &[0; 4096]), ALL, None),
        (
            "a torn record before a good one",
            |f, at| {
                let torn = f[at[4]..at[4] + 200].to_vec();
                insert(f, at[5], &torn);
            },
            // It parses, for its script swallows the next record; its body will not match its header.
            &[0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9],
            None,
        ),
        (
            "a torn record whose size is that of several",
            |f, at| {
                let mut torn = f[at[4]..at[4] + 120].to_vec();
                torn[4..8].copy_from_slice(&1500u32.to_le_bytes());
                insert(f, at[5], &torn);
            },
            ALL,
            Some(|r| matches!(r, Reason::Body(_))),
        ),
        (
            "a torn record that does not parse",
            |f, at| {
                let mut torn = f[at[4]..at[4] + 200].to_vec();
                torn[88] = 0xff;
                insert(f, at[5], &torn);
            },
            ALL,
            Some(|r| matches!(r, Reason::Body(_))),
        ),
        (
            "a record of more than 4 MB",
            |f, at| f[at[4] + 4..at[4] + 8].copy_from_slice(&4_000_001u32.to_le_bytes()),
            WITHOUT_4,
            Some(|r| r == Reason::Size(4_000_001)),
        ),
        (
            "a record below 80 bytes",
            |f, at| f[at[4] + 4..at[4] + 8].copy_from_slice(&79u32.to_le_bytes()),
            WITHOUT_4,
            Some(|r| r == Reason::Size(79)),
        ),
        (
            "a size beyond the file",
            |f, at| f[at[4] + 4..at[4] + 8].copy_from_slice(&3_999_999u32.to_le_bytes()),
            WITHOUT_4,
            Some(|r| matches!(r, Reason::Cut { .. })),
        ),
        (
            "a size that is too large: the block is whole inside it",
            |f, at| f[at[4] + 4..at[4] + 8].copy_from_slice(&1000u32.to_le_bytes()),
            ALL,
            None,
        ),
        (
            "a size that is too small",
            |f, at| f[at[4] + 4..at[4] + 8].copy_from_slice(&100u32.to_le_bytes()),
            WITHOUT_4,
            Some(|r| matches!(r, Reason::Body(_))),
        ),
        (
            "a header without work",
            |f, at| f[at[4] + 8..at[4] + 88].copy_from_slice(&bad_header(BlockHash::ZERO, 4).0),
            WITHOUT_4,
            Some(|r| matches!(r, Reason::ProofOfWork(_))),
        ),
        (
            "nBits of zero",
            |f, at| f[at[4] + 80..at[4] + 84].copy_from_slice(&[0; 4]),
            WITHOUT_4,
            Some(|r| matches!(r, Reason::ProofOfWork(_))),
        ),
        (
            "another network's record",
            |f, at| {
                let other = record([0xf9, 0xbe, 0xb4, 0xd9], &block(BlockHash::ZERO, 77, 40));
                insert(f, at[5], &other);
            },
            ALL,
            Some(|r| r == Reason::Magic([0xf9, 0xbe, 0xb4, 0xd9])),
        ),
    ];
    let blocks = chain(10, |i| 100 + 40 * i as usize);
    let starts: Vec<usize> =
        blocks.iter().scan(0, |at, block| Some(std::mem::replace(at, *at + block.len() + 8))).collect();
    for (row, damage, want, reason) in rows {
        for (key, zeros) in [([0; 8], 0), (KEY, 0), (KEY, 5000)] {
            if zeros > 0 && row.starts_with("last record cut") {
                continue; // Zeros behind it say that it is whole: what is missing shows when its body is read.
            }
            let mut file = records(&blocks);
            damage(&mut file, &starts);
            let scan = files(&file, zeros, key).scan(0).unwrap();
            let want: Vec<BlockHash> = want.iter().map(|&i| hash_of(&blocks[i])).collect();
            assert_eq!(hashes(&scan.blocks), want, "{row}, {zeros} zeros");
            // Zeros behind a torn record are a body like any other, so the reason may differ there.
            match reason {
                Some(is_it) if zeros == 0 => {
                    assert_eq!(scan.notes.len(), 1, "{row}: {:?}", scan.notes);
                    assert!(is_it(scan.notes[0].reason), "{row}: {:?}", scan.notes);
                    let text = scan.notes[0].to_string();
                    assert!(text.starts_with("/blocks/blk00000.dat at byte ") && text.contains("skipped"), "{text}");
                }
                Some(_) => assert_eq!(scan.notes.len(), 1, "{row}: {:?}", scan.notes),
                // Zeros that were obfuscated were written by a program.
                None if row == "zeros between" && key != [0; 8] => assert_eq!(scan.notes.len(), 1, "{row}"),
                None => assert_eq!(scan.notes, [], "{row}"),
            }
        }
    }
}

/// Every cut, and every byte flipped in three ways: all records but the one that is hit are found.
#[test]
fn scan_after_a_cut_or_flip_loses_one_record_at_most() {
    let blocks = chain(4, |i| 20 + 31 * i as usize);
    let good = records(&blocks);
    let ends: Vec<usize> = blocks
        .iter()
        .scan(0, |end, block| {
            *end += block.len() + 8;
            Some(*end)
        })
        .collect();
    let found = |file: &[u8]| hashes(&files(file, 0, KEY).scan(0).unwrap().blocks);
    for cut in 0..good.len() {
        let whole = ends.iter().filter(|&&end| end <= cut).count();
        assert_eq!(found(&good[..cut]), blocks[..whole].iter().map(|b| hash_of(b)).collect::<Vec<_>>(), "cut at {cut}");
    }
    for at in 0..good.len() {
        for mask in [1, 0x80, 0xff] {
            let mut file = good.clone();
            file[at] ^= mask;
            let got = found(&file);
            let hit = ends.iter().filter(|&&end| end <= at).count();
            for (i, block) in blocks.iter().enumerate().filter(|(i, _)| *i != hit) {
                assert!(got.contains(&hash_of(block)), "byte {at} ^ {mask:02x} costs block {i} and not only {hit}");
            }
        }
    }
}

/// A torn record may end exactly where another begins; the caller finds that out when it reads the body.
#[test]
fn scan_inside_a_false_record_finds_its_blocks() {
    let blocks = chain(6, |i| 100 * i as usize);
    let mut file = records(&blocks);
    let starts: Vec<usize> =
        blocks.iter().scan(0, |at, block| Some(std::mem::replace(at, *at + block.len() + 8))).collect();
    // The second record claims all bytes up to the fifth.
    let size = (starts[4] - starts[1] - 8) as u32;
    file[starts[1] + 4..starts[1] + 8].copy_from_slice(&size.to_le_bytes());
    let files = files(&file, 0, KEY);
    let scan = files.scan(0).unwrap();
    let of = |wanted: &[usize]| wanted.iter().map(|&i| hash_of(&blocks[i])).collect::<Vec<_>>();
    assert_eq!(hashes(&scan.blocks), of(&[0, 1, 4, 5]));
    let inside = files.scan_inside(scan.blocks[1].location).unwrap();
    assert_eq!(hashes(&inside.blocks), of(&[2, 3]));
    assert!(inside.blocks[0].is_parsed);
}

/// No search takes longer than it should: a file of nothing but false records.
#[test]
fn scan_of_many_false_records_terminates() {
    let mut false_record = record(MAGIC, &header(BlockHash::ZERO, 1).0);
    false_record[4..8].copy_from_slice(&700_000u32.to_le_bytes());
    let file = false_record.repeat(20_000);
    let scan = files(&file, 0, KEY).scan(0).unwrap();
    // Header after header: each body is the next records, of which none parses.
    assert_eq!(scan.blocks, []);
    assert_eq!(scan.notes.len(), 1);
    assert_eq!(scan.notes[0].records, 20_000);
    let magics = MAGIC.repeat(500_000);
    assert_eq!(files(&magics, 0, KEY).scan(0).unwrap().notes[0].records, 500_000);
}

#[test]
fn numbers_lists_block_files_and_gaps() {
    let sim = SimDisk::new(0);
    let disk = sim.shared();
    let files = BlockFiles::new(disk.clone(), Path::new("/blocks"), &regtest(), KEY);
    assert_eq!(files.numbers().unwrap_err().kind(), FaultKind::Missing);
    disk.create_dir_all(Path::new("/blocks/blk00003.dat")).unwrap();
    assert!(files.numbers().unwrap().there.is_empty());
    for name in ["blk00001.dat", "blk00002.dat", "blk00007.dat", "rev00001.dat", "xor.dat"] {
        disk.create(&Path::new("/blocks").join(name)).unwrap();
    }
    let numbers = files.numbers().unwrap();
    assert_eq!((numbers.there, numbers.missing), (vec![1, 2, 7], vec![(0, 0), (3, 6)]));
    let why = files.scan(5).unwrap_err();
    assert!(why.to_string().contains("blk00005.dat") && why.kind() == FaultKind::Missing, "{why}");
    let foreign = BlockFiles::foreign(disk, vec![(PathBuf::from("/none"), [0; 8])], &regtest());
    assert_eq!(foreign.numbers().unwrap_err().kind(), FaultKind::Missing);
}

#[test]
fn read_block_error_says_why() {
    let blocks = chain(3, |_| 200);
    let file = records(&blocks);
    let size = blocks[0].len() as u32;
    let last = 2 * (size + 8);
    type Edit = fn(&mut Vec<u8>);
    for (row, edit, offset, want) in [
        ("before any record", (|_| ()) as Edit, 7, "behind a record's header"),
        ("not at a record", |_| (), 9, "a record with magic"),
        ("behind the end", |_| (), u32::MAX, "the end of the file"),
        ("cut", |f| f.truncate(f.len() - 1), last + 8, "to the end"),
        ("a size beyond all bounds", |f| f[4..8].copy_from_slice(&0x0200_0001u32.to_le_bytes()), 8, "at most 33554432"),
    ] {
        let mut file = file.clone();
        edit(&mut file);
        let (files, at) = (files(&file, 0, KEY), FilePos { file: 0, offset });
        let mut known = vec![0; blocks.last().expect("three blocks").len()];
        for why in [files.read_block(at).unwrap_err(), files.read_block_into(at, &mut known).unwrap_err()] {
            assert_eq!(why.kind(), FaultKind::Damaged, "{row}");
            assert!(why.to_string().contains(want) && why.to_string().contains("blk00000.dat at byte"), "{row}: {why}");
        }
    }
}

#[test]
fn bulk_read_returns_blocks_in_the_order_asked_for() {
    let sim = SimDisk::new(0);
    let mut wanted = Vec::new();
    let mut blocks = Vec::new();
    for number in 0..3u32 {
        let made = chain(40, |i| ((i * 37 + number * 11) % 50) as usize * 40);
        let path = PathBuf::from(format!("/blocks/blk{number:05}.dat"));
        put_file(&*sim.shared(), &path, &records(&made), KEY);
        let mut offset = 8;
        for block in made {
            wanted.push(BlockAt { file: number, offset, size: block.len() as u32 });
            offset += block.len() as u64 + 8;
            blocks.push(block);
        }
    }
    let files = Arc::new(BlockFiles::new(sim.shared(), Path::new("/blocks"), &regtest(), KEY));
    // Any order: a fixed shuffle, neighbours swapped, and some twice.
    let mut order: Vec<usize> = (0..blocks.len()).map(|i| i * 47 % blocks.len()).collect();
    order.extend([5, 5, 0, 119]);
    for (row, order) in [("in order", (0..blocks.len()).collect()), ("shuffled", order)] {
        for buffer_bytes in [1, 3000, 20_000, 1 << 20] {
            let pool = Pool::new(buffer_bytes, 2, kernels::Kernels::AUTO);
            let reader = BulkReader::new(files.clone(), pool.clone());
            let list: Vec<BlockAt> = order.iter().map(|&i: &usize| wanted[i]).collect();
            let mut at = 0;
            while at < list.len() {
                let got = reader.read(&list[at..], &|| true, &mut Duration::default()).unwrap();
                assert!(!got.is_empty());
                for block in got {
                    assert_eq!(block.unwrap()[..], blocks[order[at]][..], "{row}, block {at}, {buffer_bytes}");
                    at += 1;
                }
            }
            assert_eq!(reader.read(&[], &|| true, &mut Duration::default()).unwrap().len(), 0);
            assert!(pool.made_bytes() <= 2 * buffer_bytes);
            pool.close();
        }
    }
}

#[test]
fn bulk_read_drops_what_it_read_where_it_is_told_to() {
    let blocks = chain(5, |_| 300);
    let (sim, file) = (SimDisk::new(0), records(&blocks));
    put_file(&*sim.shared(), Path::new("/blocks/blk00000.dat"), &file, KEY);
    let files = Arc::new(BlockFiles::new(sim.shared(), Path::new("/blocks"), &regtest(), KEY));
    let size = blocks[0].len() as u64;
    let list: Vec<BlockAt> =
        (0..5).map(|i| BlockAt { file: 0, offset: 8 + i * (size + 8), size: size as u32 }).collect();
    let mut reader = BulkReader::new(files, Pool::new(1 << 20, 1, kernels::Kernels::AUTO));
    for (drops, want) in [(false, 0), (true, file.len() as u64)] {
        reader.drop_behind(drops);
        let got = reader.read(&list, &|| true, &mut Duration::default()).unwrap();
        assert!(got.into_iter().zip(&blocks).all(|(got, block)| got.unwrap()[..] == block[..]));
        assert_eq!(sim.dropped_bytes(), want, "{drops}");
    }
}

#[test]
fn failed_bulk_read_loses_only_its_block() {
    let blocks = chain(5, |_| 300);
    let mut file = records(&blocks);
    let size = blocks[0].len() as u64;
    let at = |i: u64| BlockAt { file: 0, offset: 8 + i * (size + 8), size: size as u32 };
    file[2 * (size as usize + 8)] ^= 1;
    file.truncate(file.len() - 1);
    let files = Arc::new(files(&file, 0, KEY));
    let reader = BulkReader::new(files, Pool::new(1 << 20, 1, kernels::Kernels::AUTO));
    let wrong_size = BlockAt { size: at(1).size + 1, ..at(1) };
    let before_all = BlockAt { offset: 3, ..at(0) };
    let missing = BlockAt { file: 9, ..at(0) };
    let list = [at(0), at(1), at(2), at(3), at(4), wrong_size, before_all, missing];
    let got = reader.read(&list, &|| true, &mut Duration::default()).unwrap();
    let texts: Vec<String> =
        got.iter().map(|answer| answer.as_ref().map_or_else(ToString::to_string, |_| "good".to_owned())).collect();
    let want = ["good", "good", "magic", "good", "there", "found one of", "behind a record", "blk00009.dat"];
    assert_eq!(texts.len(), want.len());
    for (text, want) in texts.iter().zip(want) {
        assert!(text.contains(want), "{text:?} should say {want:?}");
    }
}

/// The real chains: every block is found by hopping, with the hash that the chain says it has.
#[test]
fn scan_of_real_chains_finds_every_block() {
    for (name, magic, count, tip) in [
        (
            "mainnet_0_14131",
            [0xf9, 0xbe, 0xb4, 0xd9],
            14_132,
            "00000000b3e750f37fdb42e1018799a9f44b546d393b130b369590a072430a1c",
        ),
        ("regtest_0_150", MAGIC, 151, "4ddf4a47b50945bb53f5dc81c3ffb6fc709f363e202a6770cb35cade739b9c78"),
        ("regtest_1_206", MAGIC, 206, "3de082158b117acd088306c395d09771bb7cbf0b7355796c1b1e0bd748ef9bed"),
        (
            "signet_0_120",
            [0x0a, 0x03, 0xcf, 0x40],
            121,
            "0000013673a6d6169418a65dc888b51c10dd666ef0e82785515c2086476066ea",
        ),
        (
            "testnet3_1_2100",
            [0x0b, 0x11, 0x09, 0x07],
            2100,
            "000000004f1cf82dedcee0f46fcdd6c27eeb6a234cc39d1516e8b64a7e77ad52",
        ),
    ] {
        let Some(bytes) = testkit::data::load(&format!("chains/{name}.blk.xz")) else { continue };
        let sim = SimDisk::new(0);
        let path = PathBuf::from("/bootstrap.dat");
        put_file(&*sim.shared(), &path, &bytes, [0; 8]);
        let files = BlockFiles::foreign(sim.shared(), vec![(path, [0; 8])], &network("", magic, tip));
        let scan = files.scan(0).unwrap();
        assert_eq!((scan.blocks.len(), &scan.notes[..]), (count, &[][..]), "{name}");
        assert_eq!(scan.blocks.last().unwrap().hash, BlockHash::literal(tip), "{name}");
        let mut prev = scan.blocks[0].header.prev();
        for block in &scan.blocks {
            assert_eq!(block.header.prev(), prev, "{name}");
            prev = block.hash;
        }
    }
}
