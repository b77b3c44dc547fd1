//! Snapshots written, looked into and loaded: against Core's own files, and Core's refusals word by word.

use crate::chain::{chain, file, hash_of, put, spend};
use crate::data_directory::{DATADIR, options};
use disk::{Disk, Fault as Accident, Loss, SimDisk};
use kernels::sha256::sha256;
use node::jobs::{self, Difference, DumpOut, DumpTarget};
use node::options::Options;
use node::reporting::Event;
use node::utxo_stats::SetHash;
use primitives::{Amount, BlockHash, Hash256, Height, OutPoint, Txid, amount, encode};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use testkit::data;

/// The base block that Core knows on regtest, and the hash of its coins.
const BASE: &str = "0c552ced4721c249a389eb9b08cb8da261cd46f0e7b5f9d064d48f3113406853";
const BASE_HASH: &str = "106b2c56233e378a824cf0d5ff2be42ed32c72f1605c9be288d00942908a40ac";

/// A coin as a reader without any code of the product sees it: txid, number, code, compressed amount, kind and payload.
pub(crate) type PlainCoin = (Vec<u8>, u64, u64, u64, Vec<u8>);

/// Reads a snapshot with nothing but its description: header, and where each coin's number begins.
pub(crate) fn plain(file: &[u8]) -> (Vec<u8>, Vec<(usize, PlainCoin)>) {
    assert_eq!(&file[..7], b"utxo\xff\x02\x00");
    let (mut at, mut coins) = (51, Vec::new());
    let mut left = u64::from_le_bytes(file[43..51].try_into().unwrap());
    let compact = |at: &mut usize| {
        let (size, first) = match file[*at] {
            253 => (2, 1),
            254 => (4, 1),
            _ => (1, 0),
        };
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(&file[*at + first..][..size]);
        *at += first + size;
        u64::from_le_bytes(bytes)
    };
    let varint = |at: &mut usize| {
        let mut n = 0_u64;
        loop {
            let byte = file[*at];
            *at += 1;
            n = n << 7 | u64::from(byte & 127);
            if byte < 128 {
                return n;
            }
            n += 1;
        }
    };
    while left > 0 {
        let txid = file[at..at + 32].to_vec();
        at += 32;
        let count = compact(&mut at);
        for _ in 0..count {
            let start = at;
            let vout = compact(&mut at);
            let (code, value, script_at) = (varint(&mut at), varint(&mut at), at);
            let kind = varint(&mut at);
            at += match kind {
                0 | 1 => 20,
                2..=5 => 32,
                raw => raw as usize - 6,
            };
            coins.push((start, (txid.clone(), vout, code, value, file[script_at..at].to_vec())));
        }
        left -= count;
    }
    assert_eq!(at, file.len());
    (file[11..43].to_vec(), coins)
}

fn blk() -> PathBuf {
    Path::new(DATADIR).join("regtest/blocks/blk00000.dat")
}

/// A disk whose data directory stands at `stop` and knows the headers of all blocks of the file.
fn disk_with(bytes: &[u8], stop: Option<u32>) -> SimDisk {
    let disk = SimDisk::new(0);
    put(&disk, &blk(), bytes);
    disk.create_dir_all(Path::new("/out")).unwrap();
    let options = Options { stop_at_height: stop.map(Height::new), ..options(&disk, false) };
    jobs::reindex(&options, false, &|_| ()).unwrap();
    disk
}

fn read(disk: &SimDisk, path: &Path) -> Vec<u8> {
    let file = disk.open(path).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

/// The file of a dump.
fn dumped(disk: &SimDisk, target: DumpTarget, small: bool) -> Vec<u8> {
    let path = Path::new("/out/dump.dat");
    let _ = disk.remove_file(path);
    // With a byte of memory every block makes a run.
    let options = Options { dbcache_bytes: if small { 1 } else { 16 << 20 }, ..options(disk, false) };
    let report = jobs::dump(&options, target, DumpOut::File(path.into()), &|_| ()).unwrap();
    let bytes = read(disk, path);
    assert_eq!((report.sha256, report.bytes), (sha256(&bytes), bytes.len() as u64));
    assert_eq!(disk.list(Path::new("/out")).unwrap().len(), 1, "nothing else is left");
    let (base, coins) = plain(&bytes);
    assert_eq!((report.base_hash.as_bytes().to_vec(), report.coins_written), (base, coins.len() as u64));
    let mut stream = Vec::new();
    let piped = jobs::dump(&options, target, DumpOut::Stream(&mut stream), &|_| ()).unwrap();
    assert!(stream == bytes && piped.sha256 == report.sha256 && piped.txoutset_hash == report.txoutset_hash);
    bytes
}

fn core_dumps() -> Option<Value> {
    Some(serde_json::from_slice(&data::load("snapshots/dumps.json")?).unwrap())
}

#[test]
fn dumps_are_cores_files_at_every_height() {
    let Some(dumps) = core_dumps() else { return };
    let blocks = data::load("snapshots/regtest_assumeutxo_0_399.blk.xz").unwrap();
    let disk = disk_with(&blocks, None);
    let before = crate::existing::everything(&disk);
    for height in [110, 200, 298, 299, 399] {
        let want = &dumps[format!("regtest_assumeutxo_{height}")];
        let core = data::load(&format!("snapshots/regtest_assumeutxo_{height}.dat")).unwrap();
        let hash = BlockHash::from_display(want["base_hash"].as_str().unwrap()).unwrap();
        for target in [DumpTarget::Height(Height::new(height)), DumpTarget::Hash(hash)] {
            for small in [false, true] {
                assert!(dumped(&disk, target, small) == core, "{target:?}");
            }
        }
        let path = Path::new("/out/dump.dat");
        disk.remove_file(path).unwrap();
        let target = DumpTarget::Height(Height::new(height));
        let report = jobs::dump(&options(&disk, false), target, DumpOut::File(path.into()), &|_| ()).unwrap();
        let said = (report.txoutset_hash.to_string(), report.nchaintx, report.coins_written);
        let core = (&want["txoutset_hash"], &want["nchaintx"], &want["coins_written"]);
        assert_eq!((said.0.into(), said.1.into(), said.2.into()), (core.0.clone(), core.1.clone(), core.2.clone()));
        let info = jobs::file_info(&disk, path, SetHash::Serialized, kernels::Kernels::AUTO).unwrap();
        assert_eq!(info.set.hash.unwrap().1, report.txoutset_hash);
        assert_eq!(info.is_known, (height == 299).then_some(true));
    }
    disk.remove_file(Path::new("/out/dump.dat")).unwrap();
    assert!(crate::existing::everything(&disk) == before, "dumps change nothing in the data directory");
}

/// A transaction of 16,601 outputs: in the file 16,512 stands before 256, in the hash behind it.
#[test]
fn outputs_come_in_the_order_of_keys_and_are_hashed_in_that_of_numbers() {
    let Some(dumps) = core_dumps() else { return };
    let disk = disk_with(&data::load("snapshots/regtest_wide_0_211.blk.xz").unwrap(), None);
    let core = data::load("snapshots/regtest_wide_211.dat.xz").unwrap();
    assert!(dumped(&disk, DumpTarget::Tip, false) == core);
    let info = jobs::file_info(&disk, Path::new("/out/dump.dat"), SetHash::Serialized, kernels::Kernels::AUTO).unwrap();
    assert_eq!(info.set.hash.unwrap().1.to_string(), dumps["regtest_wide_211"]["txoutset_hash"].as_str().unwrap());
    let vouts: Vec<u64> = plain(&core).1.iter().map(|(_, coin)| coin.1).collect();
    let place = |n: u64| vouts.iter().position(|vout| *vout == n).unwrap();
    assert!(place(16_512) < place(256) && place(255) < place(16_512));
    // The set of the block before all of it.
    assert_eq!(plain(&dumped(&disk, DumpTarget::Height(Height::new(199)), true)).1.len(), 199);
}

#[test]
fn a_dump_that_cannot_be_made_says_why() {
    let blocks = chain(120);
    let disk = disk_with(&file(&blocks), None);
    let dump = |target, name: &str| {
        let options = options(&disk, false);
        jobs::dump(&options, target, DumpOut::File(name.into()), &|_| ()).unwrap_err().to_string()
    };
    put(&disk, Path::new("/out/taken"), b"mine");
    for (row, target, name, want) in [
        ("a file that is there", DumpTarget::Tip, "/out/taken", "/out/taken already exists. If you are sure"),
        ("no such directory", DumpTarget::Tip, "/none/x", "Couldn't open file /none/x.incomplete for writing"),
        (
            "above the tip",
            DumpTarget::Height(Height::new(121)),
            "/out/x",
            "Target block height 121 after current tip 120",
        ),
        ("an unknown block", DumpTarget::Hash(BlockHash::from_bytes([1; 32])), "/out/x", "Block not found"),
    ] {
        let why = dump(target, name);
        assert!(why.contains(want), "{row}: {why}");
    }
    assert_eq!(read(&disk, Path::new("/out/taken")), b"mine");
    assert_eq!(disk.list(Path::new("/out")).unwrap().len(), 1);
    let unused = SimDisk::new(0);
    unused.create_dir_all(Path::new(DATADIR)).unwrap();
    let why = jobs::dump(&options(&unused, false), DumpTarget::Tip, DumpOut::File("/x".into()), &|_| ());
    assert!(why.unwrap_err().to_string().contains("chainstate"));
}

/// For standard output the temporary files are in `ffwd/`, which a directory that only bitcoind used does not have.
#[test]
fn a_dump_to_a_pipe_makes_its_directory() {
    let disk = disk_with(&file(&chain(120)), None);
    let own = Path::new(DATADIR).join("regtest/ffwd");
    if disk.metadata(&own).unwrap().is_some() {
        disk.remove_dir_all(&own).unwrap();
    }
    let dump = |height| {
        let mut stream = Vec::new();
        let target = DumpTarget::Height(Height::new(height));
        jobs::dump(&options(&disk, false), target, DumpOut::Stream(&mut stream), &|_| ()).unwrap();
        plain(&stream).1.len()
    };
    dump(120);
    assert!(disk.metadata(&own).unwrap().is_none(), "nothing is rolled back");
    assert_eq!(dump(100), 100);
    assert_eq!(disk.list(&own).unwrap().len(), 0, "a temporary file is left");
}

/// Undo data of another block, and coins of another chain, are found out by the coins that they name.
#[test]
fn a_rollback_over_files_that_do_not_belong_together_is_refused() {
    let mut blocks = chain(101);
    let tip = hash_of(&blocks[101]);
    let spent = coin_of(&blocks[1]);
    let txs = [crate::chain::coinbase(102), spend(spent.txid, 100)];
    blocks.push(crate::chain::block(tip, crate::chain::GENESIS_TIME + 600 * 102, &txs));
    let whole = disk_with(&file(&blocks), None);
    let rev = Path::new(DATADIR).join("regtest/blocks/rev00000.dat");
    let undo = read(&whole, &rev);
    // The last record, and what lies before it; the rest of the file is reserved.
    let used = undo.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    for (at, byte) in undo.iter().enumerate().take(used).skip(used - 100) {
        let disk = whole.reopen(Loss::Nothing);
        disk.modify(&rev).unwrap().write_at(at as u64, &[byte ^ 1]).unwrap();
        let target = DumpTarget::Height(Height::new(101));
        let out = jobs::dump(&options(&disk, false), target, DumpOut::File("/out/x".into()), &|_| ());
        let other = disk.list(Path::new("/out")).unwrap().len();
        assert!(out.is_err() == (other == 0), "byte {at}: {out:?}");
    }
}

fn coin_of(block: &[u8]) -> OutPoint {
    let mut tables = primitives::Tables::new();
    let block = tables.parse_block(block).unwrap();
    OutPoint { txid: block.transaction(0).txid(), vout: 0 }
}

/// What `dumptxoutset` and `ffwd coins dump` would be stopped in.
#[test]
fn a_dump_that_is_stopped_leaves_no_file_of_that_name() {
    let disk = disk_with(&file(&chain(120)), None);
    for at in 0..400 {
        let sim = disk.reopen(Loss::Nothing);
        sim.fail_at(sim.operations() + at, 1, Accident::Stop);
        let target = DumpTarget::Height(Height::new(100));
        let done = jobs::dump(&options(&sim, false), target, DumpOut::File("/out/x".into()), &|_| ());
        for loss in [Loss::Nothing, Loss::Unsynced, Loss::Random(at)] {
            let sim = sim.reopen(loss);
            if sim.metadata(Path::new("/out/x")).unwrap().is_some() {
                assert_eq!(plain(&read(&sim, Path::new("/out/x"))).1.len(), 100, "stopped at {at}");
            } else {
                assert!(done.is_err());
            }
        }
        if done.is_ok() {
            return;
        }
    }
    panic!("it has fewer operations");
}

/// Ctrl-C, and the server's `stop`.
#[test]
fn a_dump_ends_with_the_program_and_leaves_nothing() {
    let disk = disk_with(&file(&chain(120)), None);
    let options = options(&disk, false);
    options.stop.store(true, Ordering::SeqCst);
    for target in [DumpTarget::Tip, DumpTarget::Height(Height::new(100))] {
        let done = jobs::dump(&options, target, DumpOut::File("/out/x".into()), &|_| ());
        assert!(matches!(done, Err(node::Fault::Stopped)), "{target:?}: {done:?}");
        assert_eq!(disk.list(Path::new("/out")).unwrap(), [], "{target:?}");
    }
}

/// What is loaded in these tests.
struct Loading {
    /// At height 110, with headers to 399.
    disk: SimDisk,
    snapshot: Vec<u8>,
}

impl Loading {
    fn new() -> Option<Loading> {
        let blocks = data::load("snapshots/regtest_assumeutxo_0_399.blk.xz")?;
        let snapshot = data::load("snapshots/regtest_assumeutxo_299.dat").unwrap();
        Some(Loading { disk: disk_with(&blocks, Some(110)), snapshot })
    }

    fn load(&self, bytes: &[u8], hash: Option<Hash256>) -> Result<SimDisk, String> {
        let disk = self.disk.reopen(Loss::Nothing);
        put(&disk, Path::new("/out/snapshot"), bytes);
        match jobs::load(&options(&disk, false), Path::new("/out/snapshot"), hash, &|_| ()) {
            Ok(report) => {
                assert_eq!(report.coins_loaded, u64::from_le_bytes(bytes[43..51].try_into().unwrap()));
                Ok(disk)
            }
            Err(why) => {
                for gone in ["chainstate_snapshot", "ffwd/chainstate_snapshot"] {
                    let path = Path::new(DATADIR).join("regtest").join(gone);
                    assert!(disk.metadata(&path).unwrap().is_none(), "{gone} is left: {why}");
                }
                Err(why.to_string())
            }
        }
    }

    fn patched(&self, at: usize, bytes: &[u8]) -> Vec<u8> {
        [&self.snapshot[..at], bytes, &self.snapshot[at + bytes.len()..]].concat()
    }
}

/// The rows of Core's functional test feature_assumeutxo, `test_invalid_snapshot_scenarios`, with its words and hashes.
#[test]
fn load_refuses_what_core_refuses() {
    let Some(test) = Loading::new() else { return };
    let prev = "147d1789e3e29a62e3e15b80078b50603afb5e1e70ea07001c94666afbde38df";
    let content = |at: usize, bytes: &[u8]| test.patched(51 + at, bytes);
    let hash = |got: &str| format!("Population failed: Bad snapshot content hash: expected {BASE_HASH}, got {got}.");
    let mut rich = Vec::new();
    encode::put_varint(&mut rich, amount::compress(Amount::MAX.0.cast_unsigned() + 1));
    rich.push(0);
    let population = |why: &str| format!("Unable to load UTXO snapshot: Population failed: {why}");
    let network = |name: &str| {
        format!(
            "Unable to parse metadata: The network of the snapshot ({name}) does not match the network of this node (regtest)."
        )
    };
    let unrecognized = "Unable to parse metadata: This snapshot has been created for an unrecognized network. This could be a custom signet, a new testnet or possibly caused by data corruption.".to_owned();
    let bad = |hash: &str| {
        format!(
            "Unable to load UTXO snapshot: assumeutxo block hash in snapshot metadata not recognized (hash: {hash}). The following snapshot heights are available: 110, 200, 299."
        )
    };
    let zeros = "0".repeat(64);
    let below = BlockHash::from_bytes(
        *data::load("snapshots/regtest_assumeutxo_298.dat").unwrap()[11..43].first_chunk().unwrap(),
    );
    for (row, bytes, want) in [
        ("magic", test.patched(0, &[0xf0, 0x0f, 0, 0xf0, 0]), "Unable to parse metadata: Invalid UTXO set snapshot magic bytes. Please check if this is indeed a snapshot file or if you are using an outdated snapshot format.".to_owned()),
        ("version 0", test.patched(5, &[0]), "Unable to parse metadata: Version of snapshot 0 does not match any of the supported versions.".into()),
        ("version 1", test.patched(5, &[1]), "Version of snapshot 1 does not match any of the supported versions.".into()),
        ("version 3", test.patched(5, &[3]), "Version of snapshot 3 does not match any of the supported versions.".into()),
        ("main", test.patched(7, &[0xf9, 0xbe, 0xb4, 0xd9]), network("main")),
        ("testnet4", test.patched(7, &[0x1c, 0x16, 0x3f, 0x28]), network("testnet4")),
        ("signet", test.patched(7, &[0x0a, 0x03, 0xcf, 0x40]), network("signet")),
        ("no network", test.patched(7, &[0; 4]), unrecognized.clone()),
        ("no network either", test.patched(7, &[0xff; 4]), unrecognized),
        ("an unknown base", test.patched(11, &[0; 32]), bad(&zeros)),
        ("the block below the base", test.patched(11, below.as_bytes()), bad(&below.to_string())),
        ("a coin less", test.patched(43, &298_u64.to_le_bytes()), population("Bad snapshot - coins left over after deserializing 298 coins")),
        ("a coin more", test.patched(43, &300_u64.to_le_bytes()), population("Bad snapshot format or truncated snapshot after deserializing 299 coins")),
        ("wrong outpoint hash", content(0, &[0xff; 32]), hash("43bb0fcc50f3789d50ce41891810bbc571d549a32e2bbaabfc036f73ae2a23f9")),
        ("wrong txid coins count", content(32, &[2]), population("Bad snapshot data after deserializing 2 coins")),
        ("more coins than are left", content(32, &[0xfd, 0xff, 0xff]), population("Mismatch in coins count in snapshot metadata and actual snapshot data")),
        ("wrong outpoint index", content(33, &[1]), hash("0b0e96fd9a556157a68d9e6fe6e2c7562169c730347565ce0725032f824bea34")),
        ("wrong coin code", content(34, &[0x83]), hash("52084c732f760fbcfb804d854815a9145111e93d7c7f3f7bfcb0ade1ea4f6b99")),
        ("another wrong coin code", content(34, &[0x80]), hash("c1a1308fcf04cbb14fc777467eb5e98e77a921b66eac4ad47877d0b6ed7b15b1")),
        ("a height above the base", content(34, &[0x84, 0x58]), population("Bad snapshot data after deserializing 0 coins")),
        ("more than MAX_MONEY", content(36, &rich), population("Bad snapshot data after deserializing 0 coins - bad tx out value")),
        ("a byte behind", [&test.snapshot[..], &[0]].concat(), population("Bad snapshot - coins left over after deserializing 299 coins")),
        ("empty", Vec::new(), "inside its header".into()),
        ("a base that Core does not list", data::load("snapshots/regtest_assumeutxo_298.dat").unwrap(), "not recognized (hash: ".into()),
    ] {
        let why = test.load(&bytes, None).map(drop).unwrap_err();
        assert!(why.contains(&want), "{row}: {why}");
        assert!(!why.contains(prev));
    }
    let why = jobs::load(&options(&test.disk, false), Path::new("/none"), None, &|_| ()).unwrap_err().to_string();
    assert!(why.contains("Couldn't open file /none for reading."), "{why}");
}

/// Work, headers, a second one: `test_snapshot_with_less_work`, `test_headers_not_synced`,
/// `test_snapshot_block_invalidated`, `test_snapshot_not_on_most_work_chain`, and the last case of `run_test`.
#[test]
fn load_refuses_a_base_that_is_not_above() {
    let Some(test) = Loading::new() else { return };
    let blocks = data::load("snapshots/regtest_assumeutxo_0_399.blk.xz").unwrap();
    let records = data::records(&blocks);
    let path = Path::new("/out/snapshot");
    let refused = |disk: &SimDisk, want: &str| {
        if disk.metadata(path).unwrap().is_none() {
            put(disk, path, &test.snapshot);
        }
        let why = jobs::load(&options(disk, false), path, None, &|_| ()).unwrap_err().to_string();
        assert!(why.contains(want), "{why}");
    };
    for height in [299, 399] {
        refused(&disk_with(&blocks, Some(height)), "Population failed: Work does not exceed active chainstate.");
    }
    let short: Vec<Vec<u8>> = records[..200].iter().map(|block| block.to_vec()).collect();
    let want =
        format!("The base block header ({BASE}) must appear in the headers chain. Make sure all headers are syncing");
    refused(&disk_with(&file(&short), None), &want);
    // Two blocks on block 298 have more work than the base alone.
    let mut forked: Vec<Vec<u8>> = records[..300].iter().map(|block| block.to_vec()).collect();
    let mut tip = hash_of(&forked[298]);
    for height in 299..301 {
        let coinbase = crate::chain::numbered_coinbase(height, 7, 1);
        let time = u32::from_le_bytes(forked[298][68..72].try_into().unwrap()) + height;
        forked.push(crate::chain::block(tip, time, &[coinbase]));
        tip = hash_of(forked.last().unwrap());
    }
    let fork = disk_with(&file(&forked), Some(110));
    let best = jobs::info(&options(&fork, false)).unwrap().headers;
    assert_eq!(best, Height::new(300));
    refused(&fork, "A forked headers-chain with more work than the chain with the snapshot base block header exists.");

    let loaded = test.load(&test.snapshot, None).unwrap();
    let mark = Path::new(DATADIR).join("regtest/chainstate_snapshot/base_blockhash");
    assert_eq!(read(&loaded, &mark), BlockHash::from_display(BASE).unwrap().as_bytes());
    refused(&loaded, "Can't activate a snapshot-based chainstate more than once");
    let set = jobs::set_info(&options(&loaded, false), SetHash::Serialized, &|_| ()).unwrap();
    assert_eq!((set.height, set.hash.unwrap().1.to_string()), (Height::new(299), BASE_HASH.to_owned()));
    let info = jobs::info(&options(&loaded, false)).unwrap();
    assert_eq!(info.snapshot_base, BlockHash::from_display(BASE));
    jobs::verify(&options(&loaded, false), 3, 5, &|_| ()).unwrap();
}

/// The rows of Core's rpc_dumptxoutset, `test_dumptxoutset_with_fork`: a branch that parts at the wanted height.
#[test]
fn a_dump_is_of_the_chain_where_a_branch_parts() {
    let blocks = chain(120);
    let branch = crate::indexes::branch(&blocks, 111, 2, 7);
    let disk = disk_with(&[file(&blocks), file(&branch[111..])].concat(), None);
    let alone = disk_with(&file(&blocks[..=111]), None);
    for height in [110, 111, 112] {
        let target = DumpTarget::Height(Height::new(height));
        let report = jobs::dump(&options(&disk, false), target, DumpOut::File("/out/x".into()), &|_| ()).unwrap();
        assert_eq!((report.base_height, report.base_hash), (Height::new(height), hash_of(&blocks[height as usize])));
        disk.remove_file(Path::new("/out/x")).unwrap();
    }
    assert!(dumped(&disk, DumpTarget::Height(Height::new(111)), false) == dumped(&alone, DumpTarget::Tip, false));
    let why = jobs::dump(
        &options(&disk, false),
        DumpTarget::Hash(hash_of(&branch[112])),
        DumpOut::File("/out/x".into()),
        &|_| (),
    );
    assert!(why.unwrap_err().to_string().contains("Block is not in main chain"));
}

/// `test_invalid_chainstate_scenarios`: a base_blockhash that is not in the index; and the two reindexes of `run_test`, which remove
/// the snapshot's chainstate.
#[test]
fn a_snapshot_chainstate_of_an_unknown_base_is_refused_and_a_reindex_removes_any() {
    let Some(test) = Loading::new() else { return };
    let loaded = test.load(&test.snapshot, None).unwrap();
    let dir = Path::new(DATADIR).join("regtest/chainstate_snapshot");
    let odd = loaded.reopen(Loss::Nothing);
    odd.modify(&dir.join("base_blockhash")).unwrap().write_at(0, &[b'z'; 32]).unwrap();
    let sync = crate::peers::sync_options(&[], crate::peers::Until::Tip);
    let why = jobs::sync(&options(&odd, false), &sync, &|_| ()).unwrap_err().to_string();
    assert!(why.contains(&"7a".repeat(32)) && why.contains("chainstate_snapshot"), "{why}");
    for chainstate_only in [false, true] {
        let disk = loaded.reopen(Loss::Nothing);
        jobs::reindex(&options(&disk, false), chainstate_only, &|_| ()).unwrap();
        assert!(disk.metadata(&dir).unwrap().is_none());
        let set = jobs::set_info(&options(&disk, false), SetHash::None, &|_| ()).unwrap();
        assert_eq!((set.height, set.txouts), (Height::new(399), 399), "{chainstate_only}");
        // It can be loaded where the chain is below it, and not here.
        let why = jobs::load(&options(&disk, false), Path::new("/out/snapshot"), None, &|_| ()).unwrap_err();
        assert!(why.to_string().contains("Work does not exceed active chainstate"), "{why}");
    }
}

/// A base that is marked invalid, or stands on such a block.
#[test]
fn load_refuses_a_base_of_an_invalid_chain() {
    let Some(test) = Loading::new() else { return };
    for height in [299, 298] {
        let disk = test.disk.reopen(Loss::Nothing);
        put(&disk, Path::new("/out/snapshot"), &test.snapshot);
        let layout = crate::existing::layout();
        let index = store::BlockTreeDb::open(disk.shared(), &layout).unwrap();
        let network = node::datadir::lock::network(&options(&disk, false).params);
        let mut entry =
            index.load(&network).unwrap().entries.into_iter().find(|e| e.height == Height::new(height)).unwrap();
        entry.status = entry.status.with(store::Status::FAILED_VALID);
        index.write(&store::index::IndexChanges { entries: &[entry], ..Default::default() }).unwrap();
        drop(index);
        let why =
            jobs::load(&options(&disk, false), Path::new("/out/snapshot"), None, &|_| ()).unwrap_err().to_string();
        assert!(
            why.contains(&format!("The base block header ({BASE}) is part of an invalid chain")),
            "{height}: {why}"
        );
    }
}

/// The user's hash is for blocks that Core does not list; it must be that of the coins.
#[test]
fn load_takes_the_users_hash_where_core_knows_none() {
    let (Some(test), Some(dumps)) = (Loading::new(), core_dumps()) else { return };
    let other = data::load("snapshots/regtest_assumeutxo_200.dat").unwrap();
    let right = dumps["regtest_assumeutxo_200"]["txoutset_hash"].as_str().unwrap();
    let why = test.load(&other, Some(Hash256([0x11; 32]))).map(drop).unwrap_err();
    assert!(why.contains(&format!("expected {}, got {right}", "11".repeat(32))), "{why}");
    let right = Hash256(*BlockHash::from_display(right).unwrap().as_bytes());
    let disk = test.load(&other, Some(right)).unwrap();
    assert_eq!(jobs::set_info(&options(&disk, false), SetHash::None, &|_| ()).unwrap().txouts, 200);
    // For the block that Core knows its own hash counts.
    let why = test.load(&test.patched(51 + 33, &[1]), Some(right)).map(drop).unwrap_err();
    assert!(why.contains(&format!("expected {BASE_HASH}")), "{why}");
}

/// Every byte changed, cut at every place: refused, or the same set. Through the reader that `load` has, whose refusals come
/// before anything is written; and a sample through `load` itself.
#[test]
fn every_changed_byte_and_every_cut_is_found_out() {
    let Some(test) = Loading::new() else { return };
    let small = data::load("snapshots/regtest_assumeutxo_110.dat").unwrap();
    let disk = SimDisk::new(0);
    disk.create_dir_all(Path::new("/out")).unwrap();
    let path = Path::new("/out/snapshot");
    let file = disk.create(path).unwrap();
    file.write_at(0, &small).unwrap();
    let look = || jobs::file_info(&disk, path, SetHash::Serialized, kernels::Kernels::AUTO);
    let want = look().unwrap().set;
    for (at, byte) in small.iter().enumerate() {
        file.write_at(at as u64, &[byte ^ 1 << (at % 8)]).unwrap();
        if let Ok(info) = look() {
            assert!(info.set.hash != want.hash || info.set.best != want.best || (7..11).contains(&at), "byte {at}");
        }
        file.write_at(at as u64, &[*byte]).unwrap();
    }
    for cut in (0..small.len()).rev() {
        file.set_len(cut as u64).unwrap();
        let why = look().unwrap_err().to_string();
        assert!(why.contains("byte") && why.contains("/out/snapshot"), "cut at {cut}: {why}");
    }
    let mut rng = testkit::Rng::new(4);
    for _ in 0..25 {
        let at = rng.below(test.snapshot.len());
        test.load(&test.patched(at, &[test.snapshot[at] ^ 1 << rng.below(8)]), None).map(drop).unwrap_err();
        test.load(&test.snapshot[..at], None).map(drop).unwrap_err();
    }
}

/// Core takes coins in any order, for it hashes what lies in its tables.
#[test]
fn coins_in_another_order_are_sorted() {
    let Some(test) = Loading::new() else { return };
    let (_, coins) = plain(&test.snapshot);
    let mut groups: Vec<&[u8]> = Vec::new();
    for (place, (start, _)) in coins.iter().enumerate() {
        // Each transaction has one coin: the txid and the count stand before it.
        let end = coins.get(place + 1).map_or(test.snapshot.len(), |(next, _)| next - 33);
        groups.push(&test.snapshot[start - 33..end]);
    }
    let mut rng = testkit::Rng::new(8);
    for last in (1..groups.len()).rev() {
        groups.swap(last, rng.below(last + 1));
    }
    let mixed = [&test.snapshot[..51], &groups.concat()].concat();
    assert_eq!((mixed.len(), mixed == test.snapshot), (test.snapshot.len(), false));
    let disk = test.load(&mixed, None).unwrap();
    let set = jobs::set_info(&options(&disk, false), SetHash::Serialized, &|_| ()).unwrap();
    assert_eq!((set.txouts, set.hash.unwrap().1.to_string()), (299, BASE_HASH.to_owned()));
    // A txid that comes twice: the second has another coin.
    let twice = [&test.snapshot[..51], groups[0], &groups.concat()].concat();
    let twice = [&twice[..43], &300_u64.to_le_bytes(), &twice[51..]].concat();
    let disk = test.load(&twice, None).unwrap();
    assert_eq!(jobs::set_info(&options(&disk, false), SetHash::None, &|_| ()).unwrap().txouts, 299);
    put(&disk, Path::new("/out/mixed"), &mixed);
    let why = jobs::file_info(&disk, Path::new("/out/mixed"), SetHash::Serialized, kernels::Kernels::AUTO)
        .unwrap_err()
        .to_string();
    assert!(why.contains("not in the order that Core writes"), "{why}");
}

/// Stopped at every operation: the snapshot counts whole, or not at all, and the same command loads it then.
#[test]
fn a_load_that_is_stopped_leaves_all_or_nothing() {
    let Some(test) = Loading::new() else { return };
    let path = Path::new("/out/snapshot");
    let first = test.disk.reopen(Loss::Nothing);
    put(&first, path, &test.snapshot);
    let step = if testkit::is_slow() { 1 } else { 5 };
    for at in (0..600).step_by(step) {
        let sim = first.reopen(Loss::Nothing);
        sim.fail_at(sim.operations() + at, 1, Accident::Stop);
        let done = jobs::load(&options(&sim, false), path, None, &|_| ());
        for loss in [Loss::Unsynced, Loss::Random(at)] {
            let sim = sim.reopen(loss);
            let info = jobs::info(&options(&sim, false)).unwrap();
            let height = if info.snapshot_base.is_some() { 299 } else { 110 };
            let set = jobs::set_info(&options(&sim, false), SetHash::Serialized, &|_| ()).unwrap();
            assert_eq!(set.height, Height::new(height), "stopped at {at}");
            assert!(info.snapshot_base.is_some() || done.is_err());
            if info.snapshot_base.is_none() {
                jobs::load(&options(&sim, false), path, None, &|_| ()).unwrap();
            }
            let set = jobs::set_info(&options(&sim, false), SetHash::Serialized, &|_| ()).unwrap();
            assert_eq!(set.hash.unwrap().1.to_string(), BASE_HASH);
        }
        if done.is_ok() {
            return;
        }
    }
    panic!("it has fewer operations");
}

/// A full disk is waited for, and the load begins again once there is more space than the last try had.
#[test]
fn a_load_waits_for_disk_space() {
    const FREE: u64 = 10 << 30;
    let Some(test) = Loading::new() else { return };
    let waits = AtomicU32::new(0);
    for at in (0..300).step_by(7) {
        let disk = test.disk.reopen(Loss::Nothing);
        put(&disk, Path::new("/out/snapshot"), &test.snapshot);
        disk.set_free_bytes(FREE);
        disk.fail_at(disk.operations() + at, 3, Accident::NoSpace);
        let events = |event| match event {
            Event::Warning(text) if text.contains("Waiting for disk space") => disk.heal(),
            Event::Note(text) if text.contains("loading is tried again") => {
                waits.fetch_add(1, Ordering::Relaxed);
                disk.set_free_bytes(2 * FREE);
            }
            _ => {}
        };
        match jobs::load(&options(&disk, false), Path::new("/out/snapshot"), None, &events) {
            Ok(_) => {}
            Err(why) => assert!(why.to_string().contains("free disk space, then start again"), "{at}: {why}"),
        }
    }
    let waits = waits.into_inner();
    assert!(waits > 0, "no try of a load found the disk full, or none was waited for");
}

/// The watchdog expects reports until the last one. What follows, such as the index that is written, has none.
#[test]
fn a_load_ends_its_reports() {
    let Some(test) = Loading::new() else { return };
    let disk = test.disk.reopen(Loss::Nothing);
    put(&disk, Path::new("/out/snapshot"), &test.snapshot);
    let last = Mutex::new(None);
    let events = |event| {
        if let Event::Progress(progress) = event {
            *last.lock().unwrap() = Some((progress.is_last, progress.state.name()));
        }
    };
    jobs::load(&options(&disk, false), Path::new("/out/snapshot"), None, &events).unwrap();
    assert_eq!(last.into_inner().unwrap(), Some((true, "loading_snapshot")));
}

#[test]
fn diff_names_what_differs_and_nothing_else() {
    let disk = SimDisk::new(0);
    disk.create_dir_all(Path::new("/out")).unwrap();
    let mut writer = primitives::snapshot::GroupWriter::default();
    let outpoint = |txid: u8, vout| OutPoint { txid: Txid::from_bytes([txid; 32]), vout };
    let write = |name: &str, coins: &[(OutPoint, u8)], writer: &mut primitives::snapshot::GroupWriter| {
        coins.iter().for_each(|(outpoint, amount)| writer.push(outpoint, &[11, *amount, 7, 0x51]));
        let network = options(&disk, false).params.magic;
        let header = primitives::snapshot::SnapshotHeader { network, base: BlockHash::ZERO, coins: coins.len() as u64 };
        put(&disk, Path::new(name), &[&header.encode()[..], &writer.take()].concat());
    };
    write(
        "/out/a",
        &[(outpoint(1, 0), 1), (outpoint(1, 16_512), 1), (outpoint(1, 256), 1), (outpoint(3, 0), 2)],
        &mut writer,
    );
    write(
        "/out/b",
        &[(outpoint(1, 0), 1), (outpoint(1, 256), 9), (outpoint(2, 0), 1), (outpoint(4, 1), 1)],
        &mut writer,
    );
    let (a, b) = (Path::new("/out/a"), Path::new("/out/b"));
    let mut named = Vec::new();
    let report = jobs::diff(&disk, a, b, |difference, outpoint| {
        named.push((difference, *outpoint));
        Ok(())
    });
    use Difference::{Changed, First, Second};
    let want = [
        (First, outpoint(1, 16_512)),
        (Changed, outpoint(1, 256)),
        (Second, outpoint(2, 0)),
        (First, outpoint(3, 0)),
        (Second, outpoint(4, 1)),
    ];
    assert_eq!(named, want);
    let report = report.unwrap();
    assert_eq!((report.only_first, report.only_second, report.changed), (2, 2, 1));
    assert_eq!(jobs::diff(&disk, a, a, |_, _| panic!("they are one")).unwrap().first.1, 4);
}
