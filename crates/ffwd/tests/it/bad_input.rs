//! Damaged block files and unusable data directories: each kind has a message, and damage costs no valid block.

use crate::data::{self, MAIN_MAGIC, REGTEST_MAGIC, blocks_dir, records};
use crate::run::{Ran, command, run};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

const LINE: &str = "reindex --datadir @ --chain regtest --assumevalid 0 --json";

fn chain() -> Option<Vec<u8>> {
    testkit::data::load("chains/regtest_1_206.blk.xz")
}

fn reindexed(bytes: &[u8]) -> Ran {
    run(data::directory("regtest", bytes).path(), LINE)
}

/// A record with another body.
fn record(body: &[u8]) -> Vec<u8> {
    let size = u32::try_from(body.len()).unwrap().to_le_bytes();
    [&REGTEST_MAGIC[..], &size, body].concat()
}

/// Solves a block on regtest, where every second hash is good.
fn solve(body: &mut [u8]) {
    while !(0..=0x7f).contains(&hash(&body[..80])[31]) {
        let nonce = u32::from_le_bytes(body[76..80].try_into().unwrap()) + 1;
        body[76..80].copy_from_slice(&nonce.to_le_bytes());
    }
}

fn hash(header: &[u8]) -> [u8; 32] {
    primitives::Header(header.try_into().unwrap()).hash().to_bytes()
}

#[test]
fn reindex_of_damaged_file_keeps_every_other_block() {
    let Some(good) = chain() else { return };
    let all = records(&good);
    let (first, rest) = all.split_at(100);
    let (first, rest) = (first.concat(), rest.concat());
    let around = |middle: &[u8]| [&first[..], middle, &rest[..]].concat();
    let huge = [&REGTEST_MAGIC[..], &4_000_001u32.to_le_bytes(), &[1; 500]].concat();
    let beyond = [&good[..], &REGTEST_MAGIC, &3_000_000u32.to_le_bytes(), &[1; 500]].concat();
    let other = [&MAIN_MAGIC[..], &all[7][4..]].concat();
    // Where the damage begins, and what is said of it.
    let (middle, last) = (first.len(), good.len() - all[205].len());
    for (row, bytes, height, at, want) in [
        ("as it is", good.clone(), 206, None, ""),
        ("a cut last record", good[..good.len() - 50].to_vec(), 205, Some(last), "the file was cut short"),
        ("cut inside the last header", good[..last + 40].to_vec(), 205, Some(last), "of which 32 are there"),
        (
            "garbage before all",
            [&b"\0\x01\x02garbage\xfa\xbf\xb5"[..], &good].concat(),
            206,
            Some(0),
            "network's magic",
        ),
        ("garbage between records", around(&[0xfa; 1_000]), 206, Some(middle), "network's magic"),
        ("a magic without a record", around(&REGTEST_MAGIC), 206, Some(middle), "where a block has 80 to 4000000"),
        ("another network's record", around(&other), 206, Some(middle), "[f9, be, b4, d9]"),
        ("a size beyond 4 MB", around(&huge), 206, Some(middle), "a record of 4000001 bytes"),
        ("a size beyond the file", beyond, 206, Some(good.len()), "508 bytes do not deserialize as a block"),
        ("a duplicate", around(all[50]), 206, Some(middle + 8), "1 blocks are in the files more than once"),
        ("everything twice", [&good[..], &good].concat(), 206, Some(good.len() + 8), "206 blocks are in the files"),
        ("backwards", all.iter().rev().copied().collect::<Vec<_>>().concat(), 206, None, ""),
        ("zeros behind", [&good[..], &[0; 100_000]].concat(), 206, None, ""),
        (
            "a parent that never comes",
            [&first[..], all[150]].concat(),
            100,
            Some(middle + 8),
            "have no parent in the files",
        ),
    ] {
        let ran = reindexed(&bytes);
        let got = ran.good();
        assert_eq!(got["height"], height, "{row}: {got}");
        assert_eq!(got["blocks_invalid"], 0, "{row}: {got}");
        let said: Vec<&str> = ran.err.lines().filter(|line| line.contains("blk00000.dat")).collect();
        let Some(at) = at else {
            assert!(said.is_empty(), "{row}: {said:?}");
            continue;
        };
        let [said] = said[..] else { panic!("{row}: one line names the place in {}", ran.err) };
        assert!(
            said.contains(&format!("blk00000.dat byte {at}: "))
                || said.contains(&format!("blk00000.dat at byte {at}: ")),
            "{row}: byte {at} in {said}"
        );
        assert!(said.contains(want), "{row}: {want} in {said}");
        let next = ["ffwd sync fetches what is missing", "one copy is used", "Once ffwd sync or ffwd import"];
        assert!(next.iter().any(|next| said.contains(next)), "{row}: what to do in {said}");
    }
}

#[test]
fn reindex_names_invalid_blocks_with_cores_reason() {
    let Some(good) = chain() else { return };
    let all = records(&good);
    let changed = |at: usize, change: &dyn Fn(&mut Vec<u8>)| {
        let mut body = all[at][8..].to_vec();
        change(&mut body);
        let before = all[..at].concat();
        [&before[..], &record(&body)].concat()
    };
    // A header without proof of work is not indexed, and no valid block is lost with it.
    let weak = changed(205, &|body| {
        while hash(&body[..80])[31] <= 0x7f {
            body[76] = body[76].wrapping_add(1);
        }
    });
    // The body of another block under a good header: that body is lost, the header is not marked.
    let swapped = changed(205, &|body| {
        let other = all[204][88..].to_vec();
        body.truncate(80);
        body.extend(other);
    });
    // A header that breaks a rule of headers: refused, with Core's reason.
    let early = changed(205, &|body| {
        body[68..72].copy_from_slice(&1u32.to_le_bytes());
        solve(body);
    });
    // A body that breaks a rule, under the header that belongs to it: the coinbase takes one satoshi more than it may.
    let greedy = changed(205, &|body| {
        let value = 2_500_000_232u64.to_le_bytes();
        let at = body.windows(8).position(|bytes| bytes == value).expect("what block 206 pays");
        body[at] += 1;
        let mut txids = Vec::new();
        primitives::Tables::new().parse_block(body).unwrap().txids_into(&mut txids);
        let (root, _) =
            primitives::merkle::root(kernels::Kernels::AUTO, &mut txids.iter().map(|txid| txid.to_hash256()).collect());
        body[36..68].copy_from_slice(&root.0);
        solve(body);
    });
    for (row, bytes, height, invalid, code, want) in [
        ("bad proof of work", weak, 205, 0, 0, "does not meet its own nBits (high-hash)"),
        ("another body", swapped, 205, 0, 1, "bad-txnmrklroot"),
        ("too early", early, 205, 1, 0, "time-too-old"),
        ("too much", greedy, 205, 1, 0, "bad-cb-amount"),
    ] {
        let ran = reindexed(&bytes);
        let got = ran.json();
        assert_eq!(ran.code, Some(code), "{row}: {ran:?}");
        assert_eq!((&got["height"], &got["blocks_invalid"]), (&height.into(), &invalid.into()), "{row}: {ran:?}");
        assert!(ran.err.contains(want), "{row}: {want} in {}", ran.err);
    }
}

#[test]
fn reindex_that_damage_ends_early_exits_with_1() {
    let Some(good) = chain() else { return };
    let at = good.len() / 2;
    let all = records(&good);
    let mut start = 0;
    let damaged = all.iter().position(|record| {
        start += record.len();
        start > at
    });
    let (damaged, start) = (damaged.unwrap(), start - all[damaged.unwrap()].len());
    let body = start + 8 + 80 + (all[damaged].len() - 88) / 2;
    for (row, byte, headers) in [("in a body", body, 206), ("in a header", start + 8 + 40, damaged)] {
        let mut bytes = good.clone();
        bytes[byte] ^= 1;
        let ran = reindexed(&bytes);
        let got = ran.json();
        assert_eq!(
            (ran.code, &got["height"], &got["headers"]),
            (Some(1), &damaged.into(), &headers.into()),
            "{row}: {ran:?}"
        );
        let [record] = &got["records_damaged"].as_array().unwrap()[..] else { panic!("{row}: one record: {got}") };
        assert!(record["file"].as_str().unwrap().ends_with("blk00000.dat"), "{row}: {record}");
        let offset = record["offset"].as_u64().unwrap() as usize;
        assert!((start..=start + 8).contains(&offset), "{row}: {offset} for the record at {start}");
        assert!(got["end_reason"].as_str().unwrap().contains("damaged"), "{row}: {got}");
        assert!(ran.err.contains("Error: the chain ends at height"), "{row}: {ran:?}");
    }
}

#[test]
fn unusable_data_directory_is_refused_by_path() {
    let directory = tempfile::tempdir().unwrap();
    let blocks = blocks_dir(directory.path(), "regtest");
    let short_key = |bytes: &[u8]| {
        fs::create_dir_all(&blocks).unwrap();
        fs::write(blocks.join("xor.dat"), bytes).unwrap();
        fs::write(blocks.join("blk00000.dat"), [0; 100]).unwrap();
    };
    for (row, prepare, line, want) in [
        ("a missing directory", &(|| ()) as &dyn Fn(), "reindex --datadir @/none --chain regtest", "/none"),
        ("a missing directory, only looked at", &|| (), "info --datadir @/none --chain regtest", "/none"),
        ("a missing blocksdir", &|| (), "reindex --datadir @ --blocksdir @/gone --chain regtest", "/gone"),
        ("an empty directory", &|| (), LINE, "no block file"),
        ("no coins", &|| (), "coins info --datadir @ --chain regtest", "chainstate"),
        ("a key of four bytes", &|| short_key(&[1; 4]), LINE, "xor.dat"),
    ] {
        prepare();
        let ran = run(directory.path(), line);
        assert!(ran.code == Some(1) && ran.out.is_empty(), "{row}: {ran:?}");
        let last = ran.err.trim_end().lines().last().unwrap_or_default();
        assert!(last.starts_with("Error: ") && last.contains(want), "{row}: {want} in {}", ran.err);
    }
}

#[test]
fn read_only_commands_on_empty_directory_create_nothing() {
    let directory = tempfile::tempdir().unwrap();
    for (line, code, want) in [
        ("info", 0, "the data directory is empty"),
        ("coins info", 1, "wanted a chainstate, found none"),
        ("verify", 1, "wanted a block index, found none"),
    ] {
        for chain in ["main", "regtest"] {
            let ran = run(directory.path(), &format!("{line} --datadir @ --chain {chain}"));
            assert!(ran.code == Some(code) && (ran.out + &ran.err).contains(want), "{line}");
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "{line} --chain {chain}");
        }
    }
}

/// User id of `nobody`.
const NOBODY: u32 = 65_534;

#[test]
fn unreadable_blocks_directory_is_refused_by_path() {
    let Some(good) = chain() else { return };
    let directory = data::directory("regtest", &good);
    let blocks = blocks_dir(directory.path(), "regtest");
    let closed = fs::Permissions::from_mode(0o000);
    fs::set_permissions(&blocks, closed.clone()).unwrap();
    let mut command = command(directory.path(), LINE);
    if fs::read_dir(&blocks).is_ok() {
        // This user may read everything: run it as another one that owns all but the block files.
        let directories = [directory.path(), &directory.path().join("regtest")];
        directories.iter().for_each(|path| std::os::unix::fs::chown(path, Some(NOBODY), None).unwrap());
        command.uid(NOBODY);
    }
    let ran = match command.output() {
        Ok(output) => output,
        Err(why) => return println!("skipped: the user nobody cannot run the command here ({why})"),
    };
    fs::set_permissions(&blocks, fs::Permissions::from_mode(0o755)).unwrap();
    let err = String::from_utf8(ran.stderr).unwrap();
    assert!(ran.status.code() == Some(1) && ran.stdout.is_empty(), "{err}");
    let last = err.trim_end().lines().last().unwrap_or_default();
    assert!(last.starts_with("Error: ") && last.contains(&blocks.display().to_string()), "{err}");
    assert!(last.contains("ermission"), "{err}");
}

#[test]
fn reindex_reads_obfuscated_files() {
    let Some(mut good) = chain() else { return };
    let key = *b"\x01\x23\x45\x67\x89\xab\xcd\xef";
    good.iter_mut().zip(key.iter().cycle()).for_each(|(byte, key)| *byte ^= key);
    let directory = data::directory("regtest", &good);
    fs::write(blocks_dir(directory.path(), "regtest").join("xor.dat"), key).unwrap();
    assert_eq!(run(directory.path(), LINE).good()["height"], 206);
}
