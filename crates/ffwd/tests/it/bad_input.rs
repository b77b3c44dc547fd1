//! Bad block files: each kind gets a message, and costs none of the good blocks.

use crate::data::{self, MAIN_MAGIC, REGTEST_MAGIC, blocks_dir, records};
use crate::run::{Ran, run};
use std::fs;
use std::os::unix::fs::PermissionsExt;

const LINE: &str = "reindex --datadir @ --chain regtest --assumevalid 0 --json";

fn chain() -> Option<Vec<u8>> {
    data::load("chains/regtest_1_206.blk.xz")
}

fn reindexed(bytes: &[u8]) -> Ran {
    run(data::folder("regtest", bytes).path(), LINE)
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
    primitives::Header(header.try_into().unwrap()).hash().0
}

#[test]
fn damage_costs_only_itself() {
    let Some(good) = chain() else { return };
    let all = records(&good);
    let (first, rest) = all.split_at(100);
    let (first, rest) = (first.concat(), rest.concat());
    let around = |middle: &[u8]| [&first[..], middle, &rest[..]].concat();
    let huge = [&REGTEST_MAGIC[..], &4_000_001u32.to_le_bytes(), &[1; 500]].concat();
    let beyond = [&good[..], &REGTEST_MAGIC, &3_000_000u32.to_le_bytes(), &[1; 500]].concat();
    let other = [&MAIN_MAGIC[..], &all[7][4..]].concat();
    for (row, bytes, height) in [
        ("as it is", good.clone(), 206),
        ("a cut last record", good[..good.len() - 50].to_vec(), 205),
        ("cut inside the last header", good[..good.len() - all[205].len() + 40].to_vec(), 205),
        ("garbage before all", [&b"\0\x01\x02garbage\xfa\xbf\xb5"[..], &good].concat(), 206),
        ("garbage between records", around(&[0xfa; 1_000]), 206),
        ("a magic without a record", around(&REGTEST_MAGIC), 206),
        ("another network's record", around(&other), 206),
        ("a size beyond 4 MB", around(&huge), 206),
        ("a size beyond the file", beyond, 206),
        ("a duplicate", around(all[50]), 206),
        ("everything twice", [&good[..], &good].concat(), 206),
        ("backwards", all.iter().rev().copied().collect::<Vec<_>>().concat(), 206),
        ("zeros behind", [&good[..], &[0; 100_000]].concat(), 206),
        ("a parent that never comes", [&first[..], all[150]].concat(), 100),
    ] {
        let got = reindexed(&bytes).good();
        assert_eq!(got["height"], height, "{row}: {got}");
        assert_eq!(got["blocks_invalid"], 0, "{row}: {got}");
    }
}

#[test]
fn blocks_that_break_a_rule_are_named() {
    let Some(good) = chain() else { return };
    let all = records(&good);
    let changed = |at: usize, change: &dyn Fn(&mut Vec<u8>)| {
        let mut body = all[at][8..].to_vec();
        change(&mut body);
        let before = all[..at].concat();
        [&before[..], &record(&body)].concat()
    };
    // A header without work is no block at all: it does not stand for one, and takes none of the good ones with it.
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
    for (row, bytes, height, invalid, want) in [
        ("bad proof of work", weak, 205, 0, None),
        ("another body", swapped, 205, 0, Some("bad-txnmrklroot")),
        ("too early", early, 205, 1, Some("time-too-old")),
    ] {
        let ran = reindexed(&bytes);
        let got = ran.good();
        assert_eq!((&got["height"], &got["blocks_invalid"]), (&height.into(), &invalid.into()), "{row}: {ran:?}");
        assert!(want.is_none_or(|want| ran.err.contains(want)), "{row}: {want:?} in {}", ran.err);
    }
}

#[test]
fn folders_that_cannot_be_used_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let blocks = blocks_dir(folder.path(), "regtest");
    let short_key = |bytes: &[u8]| {
        fs::create_dir_all(&blocks).unwrap();
        fs::write(blocks.join("xor.dat"), bytes).unwrap();
        fs::write(blocks.join("blk00000.dat"), [0; 100]).unwrap();
    };
    for (row, prepare, line, want) in [
        ("a missing folder", &(|| ()) as &dyn Fn(), "reindex --datadir @/none --chain regtest", "/none"),
        ("a missing folder, only looked at", &|| (), "info --datadir @/none --chain regtest", "/none"),
        ("a missing blocksdir", &|| (), "reindex --datadir @ --blocksdir @/gone --chain regtest", "/gone"),
        ("an empty folder", &|| (), LINE, "no block file"),
        ("no coins", &|| (), "coins info --datadir @ --chain regtest", "chainstate"),
        ("a key of four bytes", &|| short_key(&[1; 4]), LINE, "xor.dat"),
    ] {
        prepare();
        let ran = run(folder.path(), line);
        assert!(ran.code == Some(1) && ran.out.is_empty(), "{row}: {ran:?}");
        assert!(ran.err.starts_with("error: ") && ran.err.contains(want), "{row}: {want} in {}", ran.err);
    }
}

#[test]
fn a_folder_without_permission_is_named() {
    let Some(good) = chain() else { return };
    let folder = data::folder("regtest", &good);
    let blocks = blocks_dir(folder.path(), "regtest");
    fs::set_permissions(&blocks, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read_dir(&blocks).is_ok() {
        println!("skipped: this user may read everything");
        return;
    }
    let ran = run(folder.path(), LINE);
    fs::set_permissions(&blocks, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(ran.code == Some(1) && ran.err.contains("blocks"), "{ran:?}");
}

#[test]
fn obfuscated_files_are_read() {
    let Some(mut good) = chain() else { return };
    let key = *b"\x01\x23\x45\x67\x89\xab\xcd\xef";
    good.iter_mut().zip(key.iter().cycle()).for_each(|(byte, key)| *byte ^= key);
    let folder = data::folder("regtest", &good);
    fs::write(blocks_dir(folder.path(), "regtest").join("xor.dat"), key).unwrap();
    assert_eq!(run(folder.path(), LINE).good()["height"], 206);
}
