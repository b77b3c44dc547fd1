//! `loadtxoutset` and `dumptxoutset` on the chain and the files that Core made.

use crate::calls::text;
use crate::site::Site;
use primitives::Height;
use std::time::{Duration, Instant};
use testkit::data;

const CHAIN: &str = "snapshots/regtest_assumeutxo_0_399.blk.xz";
const BASE: &str = "0c552ced4721c249a389eb9b08cb8da261cd46f0e7b5f9d064d48f3113406853";

/// Core's file, in the data directory of the site.
fn file(site: &Site, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut bytes = data::load("snapshots/regtest_assumeutxo_299.dat").unwrap();
    change(&mut bytes);
    std::fs::write(site.net_dir().join(name), bytes).unwrap();
    format!("[\"{name}\"]")
}

/// The code and the beginning of the message are Core's.
#[track_caller]
fn refused(site: &Site, params: &str, want: &str) {
    let got = text(site.call("loadtxoutset", params));
    assert!(got.starts_with(want), "{params}: {got}, wanted {want}");
}

/// A call that still reads the data directory as it was does not stop the load, and is not disturbed by it.
#[test]
fn loadtxoutset_loads_while_other_calls_read() {
    let Some(bytes) = data::load(CHAIN) else { return };
    let blocks = data::records(&bytes);
    let site = Site::new(None);
    let good = file(&site, "good.dat", |_| {});
    site.take_blocks(&blocks, 1..111);
    site.take_headers(&blocks, 111..299);
    refused(
        &site,
        &good,
        &format!("-32603 Unable to load UTXO snapshot: The base block header ({BASE}) must appear in"),
    );
    site.take_headers(&blocks, 299..400);
    let reader = site.handle.live().unwrap();
    let tip = reader.index.read().tip();
    let (result, end) = std::thread::scope(|scope| {
        // It goes on while the job opens the directory anew, and sees the snapshot.
        let wait = scope.spawn(|| site.call("waitforblockheight", "[299]"));
        std::thread::sleep(Duration::from_millis(200));
        let load = scope.spawn(|| site.call("loadtxoutset", &good));
        for _ in 0..20 {
            let count = text(site.call("getblockcount", "[]"));
            assert!(["110", "299"].contains(&count.as_str()), "calls are answered meanwhile: {count}");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(reader.block(tip).unwrap().is_some(), "which reads on");
        let end = Instant::now();
        drop(reader);
        assert_eq!(text(wait.join().unwrap()), format!("{{\"hash\":\"{BASE}\",\"height\":299}}"));
        (load.join().unwrap(), end)
    });
    let path = site.net_dir().join("good.dat");
    let want =
        format!("{{\"coins_loaded\":299,\"tip_hash\":\"{BASE}\",\"base_height\":299,\"path\":\"{}\"}}", path.display());
    assert_eq!(text(result), want);
    assert!(end.elapsed() < Duration::from_secs(20));
    // And stays there: nobody gives the blocks of the past.
    for _ in 0..20 {
        assert_eq!(text(site.call("getblockcount", "[]")), "299");
        std::thread::sleep(Duration::from_millis(20));
    }
    let states = text(site.call("getchainstates", "[]"));
    assert_eq!(states.matches("\"validated\":").count(), 2, "{states}");
    let progress: Vec<f64> = states
        .split("\"verificationprogress\":")
        .skip(1)
        .map(|rest| rest.split(',').next().unwrap().parse().unwrap())
        .collect();
    assert!(progress[0] < progress[1] / 2.0, "the past has a third of the transactions: {states}");
    let info = text(site.call("getnetworkinfo", "[]"));
    assert!(
        info.contains("NETWORK_LIMITED") && !info.contains("\"NETWORK\""),
        "blocks of the past are missing: {info}"
    );
    refused(
        &site,
        &good,
        "-32603 Unable to load UTXO snapshot: Can't activate a snapshot-based chainstate more than once. (",
    );
}

/// A file that is none, or not for this chain, is named before the server leaves its work for it, or after: it goes on.
#[test]
fn loadtxoutset_says_why_not_in_cores_words() {
    let Some(bytes) = data::load(CHAIN) else { return };
    let blocks = data::records(&bytes);
    let site = Site::new(None);
    site.take_blocks(&blocks, 1..111);
    site.take_headers(&blocks, 111..400);
    let missing = site.net_dir().join("missing.dat");
    refused(&site, "[\"missing.dat\"]", &format!("-8 Couldn't open file {} for reading.", missing.display()));
    std::fs::create_dir(site.net_dir().join("directory")).unwrap();
    refused(&site, "[\"directory\"]", "-22 Unable to parse metadata: ");
    for (name, change, want) in [
        ("empty", (|bytes| bytes.clear()) as fn(&mut Vec<u8>), "-22 Unable to parse metadata: "),
        ("cut", |bytes| bytes.truncate(50), "-22 Unable to parse metadata: "),
        (
            "magic",
            |bytes| bytes[0] ^= 1,
            "-22 Unable to parse metadata: Invalid UTXO set snapshot magic bytes. Please check if",
        ),
        (
            "version",
            |bytes| bytes[5] = 3,
            "-22 Unable to parse metadata: Version of snapshot 3 does not match any of the",
        ),
        (
            "mainnet",
            |bytes| bytes[7..11].copy_from_slice(&[0xf9, 0xbe, 0xb4, 0xd9]),
            "-22 Unable to parse metadata: The network of the snapshot (main) does not match the network of this node (regtest).",
        ),
        (
            "base",
            |bytes| bytes[11] ^= 1,
            "-32603 Unable to load UTXO snapshot: assumeutxo block hash in snapshot metadata not recognized (hash: ",
        ),
        ("coins", |bytes| bytes.truncate(9000), "-32603 Unable to load UTXO snapshot: Population failed: "),
        (
            "amount",
            |bytes| *bytes.last_mut().unwrap() ^= 1,
            "-32603 Unable to load UTXO snapshot: Population failed: Bad snapshot content hash: expected ",
        ),
    ] {
        let name = file(&site, name, change);
        refused(&site, &name, want);
        assert_eq!(text(site.call("getblockcount", "[]")), "110", "{name}: other calls are answered again");
    }
    let marked = blocks[299];
    let hash = primitives::Header(*marked.first_chunk().unwrap()).hash();
    assert_eq!(text(site.call("invalidateblock", &format!("[\"{hash}\"]"))), "null");
    let good = file(&site, "good.dat", |_| {});
    refused(
        &site,
        &good,
        &format!("-32603 Unable to load UTXO snapshot: The base block header ({BASE}) is part of an invalid chain. ("),
    );
    assert_eq!(text(site.call("reconsiderblock", &format!("[\"{hash}\"]"))), "null");
    site.take_blocks(&blocks, 111..301);
    assert_eq!(
        site.handle.live().unwrap().index.headers().height(site.handle.live().unwrap().index.read().tip()),
        Height::new(300)
    );
    refused(
        &site,
        &good,
        "-32603 Unable to load UTXO snapshot: Population failed: Work does not exceed active chainstate. (",
    );
}

/// One of two dumps to a pipe is refused, and a dump to a file does not wait for the reader of the pipe.
#[test]
fn dumptxoutset_to_a_pipe_holds_up_no_dump_to_a_file() {
    const BUSY: &str = "-1 Another dump to a pipe is in progress. Call again when it has ended";
    let site = Site::still();
    assert!(site.call("generatetodescriptor", "[3, \"raw(51)\"]").is_ok());
    let dump = |name: &str| text(site.call("dumptxoutset", &format!("[\"{name}\", \"latest\"]")));
    let is_whole = |got: &str| assert!(got.starts_with("{\"coins_written\":3,"), "{got}");
    let pipe = site.net_dir().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let piped = std::thread::scope(|scope| {
        let (sender, answers) = std::sync::mpsc::channel();
        for sender in [sender.clone(), sender] {
            scope.spawn(move || sender.send(dump("pipe")).unwrap());
        }
        assert_eq!(answers.recv().unwrap(), BUSY, "the other one waits for a reader");
        is_whole(&dump("file"));
        let piped = std::fs::read(&pipe).unwrap();
        is_whole(&answers.recv().unwrap());
        piped
    });
    assert!(std::fs::read(site.net_dir().join("file")).unwrap() == piped);
}

/// Whoever ends the program does not wait for a dump, and nothing of it is left.
#[test]
fn dumptxoutset_ends_with_the_program() {
    let site = Site::still();
    assert!(site.call("generatetodescriptor", "[3, \"raw(51)\"]").is_ok());
    let live = site.handle.live().unwrap();
    let (view, tip) = site.handle.ask(|quiet| Ok((quiet.coins()?, quiet.tip().0))).unwrap();
    live.options.stop.store(true, std::sync::atomic::Ordering::SeqCst);
    for below in [0_u32, 2] {
        let target = {
            let tree = live.index.headers();
            tree.ancestor(tip, tree.height(tip) - below)
        };
        let done = node::jobs::dump_live(&live, view.clone(), tip, target, 0, &site.net_dir().join("dump"));
        assert!(matches!(done, Err(node::Fault::Stopped)), "{below}: {done:?}");
    }
    let names = std::fs::read_dir(site.net_dir()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with("dump")).collect();
    assert!(left.is_empty(), "{left:?}");
}
