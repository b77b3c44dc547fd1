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
