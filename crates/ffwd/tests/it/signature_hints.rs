//! Hints about signatures by the command: made of a data directory, used by a rebuild and an audit, and of no matter to
//! their result.

use crate::run::run;
use std::fs;
use std::path::Path;

const ON: &str = "--chain regtest --json";

/// Copies the block files alone.
fn blocks_of(from: &Path, to: &Path) {
    let from = from.join("regtest/blocks");
    let to = to.join("regtest/blocks");
    fs::create_dir_all(&to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        if entry.file_name().to_string_lossy().starts_with("blk") {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

#[test]
fn a_rebuild_with_hints_ends_as_one_without() {
    let dir = tempfile::tempdir().unwrap();
    let go = |line: &str| run(dir.path(), line);
    go("lab chain --out @/made --blocks 2 --seed 5 --utxos 6000 --tail 3 --signatures real --json").good();
    fs::create_dir(dir.path().join("plain")).unwrap();
    blocks_of(&dir.path().join("made"), &dir.path().join("plain"));
    let plain = go(&format!("reindex --datadir @/plain {ON} --assumevalid 0 --hash muhash")).good();
    let made = go(&format!("hints make @/bits --signatures --datadir @/plain {ON}"));
    if made.code == Some(1) && made.err.contains("no vector lanes") {
        return println!("skipped: this processor has no vector lanes for signatures");
    }
    let made = made.good();
    let bytes = fs::read(dir.path().join("bits")).unwrap();
    assert_eq!((&made["bestblock"], made["bytes"].as_u64()), (&plain["bestblock"], Some(bytes.len() as u64)));
    assert!(made["inputs"].as_u64().unwrap() > 3000, "{made}");
    let taken = go(&format!("hints make @/bits --signatures --datadir @/plain {ON}"));
    assert!(taken.code == Some(1) && taken.err.contains("already exists"), "{taken:?}");
    assert!(
        go("hints make @/text --signatures --datadir @/plain --chain regtest").out.contains("hints about signatures")
    );

    // The same hints, all of them wrong, and those of no block: the file's entries are before its bits.
    let height = u64::from(u32::from_le_bytes(bytes[5..9].try_into().unwrap())) as usize;
    let mut wrong = bytes.clone();
    wrong[9 + height * 16..].iter_mut().for_each(|byte| *byte ^= 0xff);
    fs::write(dir.path().join("wrong"), wrong).unwrap();
    let mut foreign = bytes.clone();
    foreign[9..9 + height * 16].fill(0);
    fs::write(dir.path().join("foreign"), foreign).unwrap();
    for (name, blocks) in [("bits", height), ("wrong", height), ("foreign", 0)] {
        let to = dir.path().join(format!("with-{name}"));
        blocks_of(&dir.path().join("made"), &to);
        let line =
            format!("reindex --datadir @/with-{name} {ON} --assumevalid 0 --hash muhash --signature-hints @/{name}");
        let done = go(&line);
        let said = format!("hints about signatures were read for {blocks} blocks");
        assert!(done.err.contains(&said), "{name}: wanted {said}, found {}", done.err);
        let done = done.good();
        for field in ["bestblock", "muhash"] {
            assert_eq!(done[field], plain[field], "{name}, {field}");
        }
    }
    fs::write(dir.path().join("salt"), "5a".repeat(32)).unwrap();
    let part = |more: &str| {
        let line = format!("audit part --from 0 --to {height} --salt @/salt --datadir @/plain {ON} {more}");
        let done = go(&line);
        assert_eq!(done.code, Some(0), "{done:?}");
        (done.out, done.err)
    };
    let (with, said) = part("--signature-hints @/wrong");
    assert_eq!(with, part("").0, "the record of an audit");
    assert!(said.contains("hints about signatures were read for"), "{said}");
    let none = go(&format!("reindex --datadir @/plain {ON} --signature-hints @/salt"));
    assert!(none.code == Some(1) && none.err.contains("wanted a file of ffwd hints make --signatures"), "{none:?}");
}

/// What [`kept`] returns if there are none.
const NONE: [Vec<u8>; 2] = [Vec::new(), Vec::new()];

/// The two files of hints that a run keeps.
fn kept(dir: &Path) -> [Vec<u8>; 2] {
    let own = dir.join("regtest/ffwd");
    ["index", "bits"].map(|end| fs::read(own.join(format!("signature_hints.{end}"))).unwrap_or_default())
}

/// A run keeps the hints that `hints make` makes, later ones use them and mend wrong ones, and nothing else differs.
#[test]
fn a_run_keeps_hints_for_later_ones() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let go = |line: &str| run(dir.path(), line);
    go("lab chain --out @/made --blocks 2 --seed 5 --utxos 6000 --tail 2100 --signatures real --json").good();
    for name in ["own", "assumed", "pruned", "given", "full"] {
        blocks_of(&at("made"), &at(name));
    }
    let reindex = |name: &str, more: &str| {
        let done = go(&format!("reindex --datadir @/{name} {ON} --hash muhash {more}"));
        assert_eq!(done.code, Some(0), "{done:?}");
        done.good()
    };
    let plain = reindex("own", "--assumevalid 0");
    let made = go(&format!("hints make @/bits --signatures --datadir @/own {ON}"));
    if made.code == Some(1) && made.err.contains("no vector lanes") {
        assert_eq!(kept(&at("own")), NONE);
        return println!("skipped: this processor has no vector lanes for signatures");
    }
    made.good();
    // Entry by entry; in a reindex the bits come in the order of heights.
    let bytes = fs::read(at("bits")).unwrap();
    let height = u64::from(u32::from_le_bytes(bytes[5..9].try_into().unwrap())) as usize;
    let start = 9 + 16 * height;
    let [index, bits] = kept(&at("own"));
    assert_eq!(bits, bytes[start..], "the bits");
    for (number, (entry, of_file)) in index.chunks(16).zip(bytes[9..start].chunks(16)).enumerate() {
        let offset = |entry: &[u8]| u64::from_le_bytes(entry[8..].try_into().unwrap());
        assert_eq!(entry[..8], of_file[..8], "the block of entry {number}");
        assert_eq!(offset(entry) + start as u64, offset(of_file), "the offset of entry {number}");
    }
    assert_eq!(index.len(), 16 * height);

    let log = || fs::read_to_string(at("own").join("regtest/debug.log")).unwrap();
    let uses = || log().matches("Using hints about signatures that an earlier run kept").count();
    assert_eq!(uses(), 0, "the first run had none");
    assert_eq!(reindex("own", "--assumevalid 0")["muhash"], plain["muhash"]);
    assert_eq!((uses(), kept(&at("own"))), (1, [index.clone(), bits.clone()]), "the second run changes none");
    fs::write(at("salt"), "5a".repeat(32)).unwrap();
    let part = || go(&format!("audit part --from 0 --to {height} --salt @/salt --datadir @/own {ON}")).good();
    let verify = |more: &str| {
        let mut done = go(&format!("verify --level 4 --blocks 40 --datadir @/own {ON} {more}")).good();
        done["seconds"] = 0.into();
        done
    };
    let (audited, verified) = (part(), verify(""));
    assert_eq!(verify("--signature-hints @/bits"), verified);

    // All of them wrong: nothing but the time differs, and the next run that writes has put the right ones in their place.
    let wrong: Vec<u8> = bits.iter().map(|byte| !byte).collect();
    fs::write(at("own").join("regtest/ffwd/signature_hints.bits"), &wrong).unwrap();
    assert_eq!((part(), verify("")), (audited, verified));
    assert_eq!(kept(&at("own")), [index.clone(), wrong.clone()], "reading jobs change none");
    assert_eq!(reindex("own", "--assumevalid 0")["muhash"], plain["muhash"]);
    assert_eq!(kept(&at("own"))[1], [wrong, bits].concat());
    let mended = kept(&at("own"));
    assert_eq!(reindex("own", "--assumevalid 0")["muhash"], plain["muhash"]);
    assert_eq!(kept(&at("own")), mended, "no bit was wrong any more");

    // No scripts, no hints; a pruned directory is never rebuilt; a given file is there anyway.
    let best = plain["bestblock"].as_str().unwrap();
    for (name, more) in [
        ("assumed", format!("--assumevalid {best} --minimumchainwork 0")),
        ("pruned", "--assumevalid 0 --prune 550".to_owned()),
        ("given", "--assumevalid 0 --signature-hints @/bits".to_owned()),
    ] {
        reindex(name, &more);
        let [index, bits] = kept(&at(name));
        assert!(bits.is_empty(), "{name}: {} bytes", bits.len());
        // Blocks within two weeks of the tip are verified though they are assumed to be valid, and have no inputs here.
        assert_eq!(!index.is_empty(), name == "assumed", "{name}");
    }
    // What cannot be written ends no run.
    fs::create_dir_all(at("full").join("regtest/ffwd/signature_hints.bits")).unwrap();
    assert_eq!(reindex("full", "--assumevalid 0")["muhash"], plain["muhash"]);
    let log = fs::read_to_string(at("full").join("regtest/debug.log")).unwrap();
    assert_eq!(log.matches("Hints about signatures are no longer kept").count(), 1, "{log}");
}
