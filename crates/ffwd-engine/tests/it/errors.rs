//! What cannot be done: the kind, the path and the system's error of each refusal.

use crate::support::{blocks_dir, indexed, small};
use ffwd_engine::{DataDir, Error, ErrorKind, Index, Network};
use std::error::Error as _;

/// The number of the system's error among the sources.
fn errno(error: &Error) -> Option<i32> {
    let mut next = error.source();
    while let Some(source) = next {
        if let Some(error) = source.downcast_ref::<std::io::Error>() {
            return error.raw_os_error();
        }
        next = source.source();
    }
    None
}

#[test]
fn what_is_not_there_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let why = DataDir::open(folder.path().join("none"), Network::Main).unwrap_err();
    assert_eq!((why.kind(), why.path()), (ErrorKind::Missing, Some(&*folder.path().join("none"))));
    std::fs::write(folder.path().join("file"), "x").unwrap();
    let why = DataDir::open(folder.path().join("file"), Network::Main).unwrap_err();
    assert_eq!(why.kind(), ErrorKind::Refused, "{why}");
    let empty = DataDir::open(folder.path(), Network::Regtest).unwrap();
    for why in [
        empty.reindex().run().unwrap_err(),
        empty.verify().run().unwrap_err(),
        empty.coins().unwrap_err(),
        empty.blocks(..).unwrap_err(),
    ] {
        assert_eq!(why.kind(), ErrorKind::Missing, "{why}");
        assert!(why.path().is_some_and(|path| path.starts_with(folder.path())) && errno(&why).is_none(), "{why}");
    }
}

#[cfg(unix)]
#[test]
fn an_error_of_the_system_keeps_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let net = folder.path().join("regtest");
    std::fs::create_dir(&net).unwrap();
    std::os::unix::fs::symlink("blocks", net.join("blocks")).unwrap();
    let why = DataDir::open(folder.path(), Network::Regtest).and_then(|dir| dir.reindex().run()).unwrap_err();
    // A link to itself: "Too many levels of symbolic links".
    let looped = std::fs::metadata(net.join("blocks")).unwrap_err().raw_os_error();
    assert_eq!((errno(&why), looped.is_some()), (looped, true), "{why}");
}

#[test]
fn files_of_another_network_are_named() {
    let (folder, _) = small();
    let blocks = blocks_dir(folder.path(), Network::Signet);
    std::fs::copy(folder.path().join("regtest/blocks/blk00000.dat"), blocks.join("blk00000.dat")).unwrap();
    let dir = DataDir::open(folder.path(), Network::Signet).unwrap();
    let why = dir.reindex().run().unwrap_err();
    assert!(matches!(why.kind(), ErrorKind::OtherNetwork | ErrorKind::Refused), "{why}");
    assert!(why.to_string().contains("regtest"), "{why}");
}

#[test]
fn options_that_do_not_go_together_are_refused_before_anything_is_done() {
    let (folder, dir) = small();
    let challenge = DataDir::builder(folder.path(), Network::Regtest).signet_challenge([0x51]).open().unwrap_err();
    DataDir::builder(folder.path(), Network::Signet).signet_challenge([0x51]).open().unwrap();
    let nobody: [&str; 0] = [];
    for (why, want) in [
        (challenge, "signet"),
        (dir.reindex().prune_to(1).run().unwrap_err(), "minimum of 550 MiB"),
        (dir.reindex().prune_to(600 << 20).index(Index::Transactions).run().unwrap_err(), "incompatible with -txindex"),
        (dir.sync().connect(nobody).run().unwrap_err(), "without peers"),
        (dir.sync().connect(["host:0"]).run().unwrap_err(), "no peer listens on port 0"),
        (dir.sync().connect(["127.0.0.1"]).proxy("").run().unwrap_err(), "HOST:PORT"),
        (dir.verify().level(9).run().unwrap_err(), "no level 9"),
    ] {
        assert_eq!(why.kind(), ErrorKind::Refused, "{why}");
        assert!(why.to_string().contains(want), "{why}");
    }
    assert!(!folder.path().join("regtest/chainstate").exists(), "nothing was begun");
}

/// A UTXO set without the block index that knows its block.
#[test]
fn coins_without_their_index_are_refused() {
    let (folder, dir) = indexed();
    std::fs::remove_dir_all(folder.path().join("regtest/blocks/index")).unwrap();
    for why in [dir.coins().unwrap_err(), dir.blocks(..).unwrap_err(), dir.verify().run().unwrap_err()] {
        assert!(matches!(why.kind(), ErrorKind::Missing | ErrorKind::Refused), "{why}");
    }
}
