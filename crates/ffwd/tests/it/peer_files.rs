//! Core's files about peers: what is refused, what goes aside, what is made.

use crate::run::run;
use std::fs;
use std::path::Path;

/// Magic of regtest, format, lowest format, key 1, nothing else; with the right hash.
fn peers_dat(lowest: u8) -> Vec<u8> {
    let mut out = vec![0xfa, 0xbf, 0xb5, 0xda, 4, 32 + lowest, 1];
    out.extend_from_slice(&[0; 31 + 8]);
    out.extend_from_slice(&(1024i32 ^ 1 << 30).to_le_bytes());
    out.extend_from_slice(&[0; 4096 + 32]);
    let sum = kernels::sha256::sha256d(&out);
    out.extend_from_slice(&sum);
    out
}

/// A sync that ends at once: there is no block above the genesis block.
fn synced(directory: &Path, more: &str) -> crate::run::Ran {
    run(
        directory,
        &format!("sync --datadir @ --chain regtest --connect 0 --stopatheight 0 --exit-at-tip --from @ {more}"),
    )
}

#[test]
fn peers_dat_that_is_damaged_is_refused_and_stays() {
    let directory = tempfile::tempdir().unwrap();
    let net = directory.path().join("regtest");
    fs::create_dir(&net).unwrap();
    let path = net.join("peers.dat");
    let good = peers_dat(4);
    for (row, bytes, want) in [
        ("cut short", good[..good.len() - 1].to_vec(), "AutoFile::read: end of file: iostream error"),
        ("nothing at all", Vec::new(), "AutoFile::read: end of file"),
        ("a changed byte", [&good[..10], &[1], &good[11..]].concat(), "Checksum mismatch, data corrupted"),
        ("another network's", [&[0xf9, 0xbe, 0xb4, 0xd9], &good[4..]].concat(), "Invalid network magic number"),
    ] {
        fs::write(&path, &bytes).unwrap();
        let ran = synced(directory.path(), "");
        assert_eq!(ran.code, Some(1), "{row}: {ran:?}");
        let message = format!("Error: Invalid or corrupt peers.dat ({want}");
        assert!(ran.err.contains(&message) && ran.err.contains("out of the way"), "{row}: {ran:?}");
        assert_eq!(fs::read(&path).unwrap(), bytes, "{row}: it is left as it was");
    }
}

#[test]
fn peers_dat_of_a_later_version_goes_aside() {
    let directory = tempfile::tempdir().unwrap();
    let net = directory.path().join("regtest");
    fs::create_dir(&net).unwrap();
    fs::write(net.join("peers.dat"), peers_dat(111)).unwrap();
    let ran = synced(directory.path(), "");
    assert!(ran.err.contains("Original backed up to peers.dat.bak"), "{ran:?}");
    assert_eq!(fs::read(net.join("peers.dat.bak")).unwrap(), peers_dat(111));
    assert_eq!(fs::read(net.join("peers.dat")).unwrap()[..6], [0xfa, 0xbf, 0xb5, 0xda, 4, 36]);
}

#[test]
fn asmap_that_is_none_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("regtest")).unwrap();
    fs::write(directory.path().join("regtest/bad.map"), [0xff; 40]).unwrap();
    for (line, want) in [
        ("--asmap missing", "Could not find asmap file"),
        ("--asmap bad.map", "Could not parse asmap file"),
        ("--asmap 1", "Embedded asmap data not available"),
    ] {
        let ran = synced(directory.path(), line);
        assert!(ran.code.is_some_and(|code| code != 0) && ran.err.contains(want), "{line}: {ran:?}");
    }
}
