//! Calls that change the chain, and those that wait for it.

use crate::site::Site;
use node::handle::Verified;
use primitives::{BlockHash, Hash256, Header, hex};
use server::json::Json;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

/// A block of regtest with nothing but a coinbase, and its hash.
fn block(prev: BlockHash, height: u8, time: u32) -> (Vec<u8>, BlockHash) {
    block_paying(&[0x51], prev, height, time)
}

/// The same; the coinbase pays to `script`.
pub(crate) fn block_paying(script: &[u8], prev: BlockHash, height: u8, time: u32) -> (Vec<u8>, BlockHash) {
    let mut coinbase =
        hex::decode("02000000010000000000000000000000000000000000000000000000000000000000000000ffffffff").unwrap();
    coinbase.extend_from_slice(&[2, 0x50 + height, 0]);
    coinbase.extend_from_slice(&hex::decode("ffffffff0100f2052a01000000").unwrap());
    primitives::encode::put_compact_size(&mut coinbase, script.len() as u64);
    coinbase.extend_from_slice(script);
    coinbase.extend_from_slice(&[0; 4]);
    block_of(&coinbase, prev, time)
}

/// A block of regtest with only this transaction, which has no witness, and its hash.
pub(crate) fn block_of(tx: &[u8], prev: BlockHash, time: u32) -> (Vec<u8>, BlockHash) {
    let root = Hash256(kernels::sha256::sha256(&kernels::sha256::sha256(tx)));
    let mined = (0..).map(|nonce| Header::new(0x2000_0000, prev, root, time, 0x207f_ffff, nonce));
    let header = mined.into_iter().find(|header| header.hash().as_bytes()[31] < 0x7f).unwrap();
    let mut bytes = header.0.to_vec();
    bytes.push(1);
    bytes.extend_from_slice(tx);
    (bytes, header.hash())
}

pub(crate) fn text(json: Result<Json, (i64, String)>) -> String {
    json.map_or_else(|(code, why)| format!("{code} {why}"), |json| json.text())
}

#[test]
fn a_chain_is_submitted_taken_back_and_preferred() {
    let site = Site::new(None);
    let genesis = BlockHash::literal("0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206");
    let (a, a_hash) = block(genesis, 1, 1_296_688_700);
    let (b, b_hash) = block(genesis, 1, 1_296_688_800);
    let (child, child_hash) = block(a_hash, 2, 1_296_688_900);
    let mut bad = child.clone();
    let last = bad.len() - 6;
    bad[last] ^= 1;
    let one = |bytes: &[u8]| format!("[\"{}\"]", hex::encode(bytes));
    let hash = |hash: BlockHash| format!("[\"{hash}\"]");
    let quoted = |hash: BlockHash| format!("\"{hash}\"");
    for (call, params, want) in [
        ("submitheader", one(&child[..80]), format!("-25 Must submit previous header ({a_hash}) first")),
        ("submitblock", one(&child), "\"prev-blk-not-found\"".to_owned()),
        ("submitheader", one(&a[..80]), "null".to_owned()),
        ("getblockcount", "[]".to_owned(), "0".to_owned()),
        ("submitblock", one(&a), "null".to_owned()),
        ("submitblock", one(&a), "\"duplicate\"".to_owned()),
        ("submitblock", one(&b), "\"inconclusive\"".to_owned()),
        ("submitblock", one(&bad), "\"bad-txnmrklroot\"".to_owned()),
        ("submitblock", "[\"00\"]".to_owned(), "-22 Block decode failed".to_owned()),
        ("getbestblockhash", "[]".to_owned(), quoted(a_hash)),
        ("preciousblock", hash(b_hash), "null".to_owned()),
        ("getbestblockhash", "[]".to_owned(), quoted(b_hash)),
        ("submitblock", one(&child), "null".to_owned()),
        ("getbestblockhash", "[]".to_owned(), quoted(child_hash)),
        ("verifychain", "[4, 0]".to_owned(), "true".to_owned()),
        ("invalidateblock", hash(a_hash), "null".to_owned()),
        ("getbestblockhash", "[]".to_owned(), quoted(b_hash)),
        ("submitblock", one(&child), "\"duplicate-invalid\"".to_owned()),
        ("waitforblockheight", "[5, 1]".to_owned(), format!("{{\"hash\":\"{b_hash}\",\"height\":1}}")),
        ("reconsiderblock", hash(child_hash), "null".to_owned()),
        ("getblockcount", "[]".to_owned(), "2".to_owned()),
        ("preciousblock", hash(b_hash), "null".to_owned()),
        ("getbestblockhash", "[]".to_owned(), quoted(child_hash)),
        ("pruneblockchain", "[1]".to_owned(), "-1 Cannot prune blocks because node is not in prune mode.".to_owned()),
    ] {
        assert_eq!(text(site.call(call, &params)), want, "{call} {params}");
    }
    let tips = text(site.call("getchaintips", "[]"));
    assert!(tips.contains("\"status\":\"active\"") && tips.contains("\"status\":\"valid-fork\""), "{tips}");
}

/// A waiter takes no thread: more of them than there are threads, and the block that ends their wait is taken.
#[test]
fn waiters_hear_of_a_block() {
    // Of them and those that ask: more than `-rpcmaxconnections` allows by default.
    let site = Site::with(server::settings::Settings { max_connections: 100, ..Default::default() });
    let genesis = BlockHash::literal("0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206");
    let (a, a_hash) = block(genesis, 1, 1_296_688_700);
    std::thread::scope(|scope| {
        let wait = || text(site.call("waitfornewblock", "[20000]"));
        let waiters: Vec<_> = (0..40).map(|_| scope.spawn(wait)).collect();
        // All of them are asked for, the last one at least waits.
        while text(site.call("getrpcinfo", "[]")).matches("waitfornewblock").count() < 40 {
            std::thread::yield_now();
        }
        assert_eq!(text(site.call("submitblock", &format!("[\"{}\"]", hex::encode(&a)))), "null");
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), format!("{{\"hash\":\"{a_hash}\",\"height\":1}}"));
        }
    });
}

/// Two that wait for a block fill a queue of one beside one thread, as in Core (interface_rpc): more is turned away until they end.
#[test]
fn calls_that_wait_count_for_the_queue() {
    let small = server::settings::Settings { threads: 1, work_queue: 1, ..Default::default() };
    let site = Site::with(small);
    let status = || site.post("{\"method\":\"getblockcount\",\"id\":1}").0;
    assert_eq!(status(), 200);
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..2).map(|_| scope.spawn(|| text(site.call("waitfornewblock", "[5000]")))).collect();
        let mut seen = 200;
        while seen == 200 && !waiters.iter().all(|waiter| waiter.is_finished()) {
            seen = status();
        }
        assert_eq!(seen, 503);
    });
    assert_eq!(status(), 200);
}

/// It is said without waiting for the files' writer, and is the sum of what the files hold all the same.
#[test]
fn size_on_disk_counts_blocks_and_undo_data() {
    const HEADER: usize = 8;
    // Regtest's genesis block has no undo data; that of a block without spends is a count and a checksum.
    const GENESIS: usize = HEADER + 285;
    const UNDO: usize = HEADER + 1 + 32;
    let site = Site::new(None);
    let size = || match site.call("getblockchaininfo", "[]").unwrap().field("size_on_disk") {
        Some(Json::Int(size)) => usize::try_from(*size).unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(size(), GENESIS);
    let genesis = BlockHash::literal("0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206");
    let (a, a_hash) = block(genesis, 1, 1_296_688_700);
    assert_eq!(text(site.call("submitblock", &format!("[\"{}\"]", hex::encode(&a)))), "null");
    assert_eq!(size(), GENESIS + HEADER + a.len() + UNDO);
    let (b, _) = block(genesis, 1, 1_296_688_800);
    assert_eq!(text(site.call("submitblock", &format!("[\"{}\"]", hex::encode(&b)))), "\"inconclusive\"");
    assert_eq!(
        size(),
        GENESIS + 2 * HEADER + a.len() + b.len() + UNDO,
        "a block that is not connected has no undo data"
    );
    assert_eq!(text(site.call("invalidateblock", &format!("[\"{a_hash}\"]"))), "null");
    assert_eq!(size(), GENESIS + 2 * HEADER + a.len() + b.len() + 2 * UNDO, "the other one is connected; nothing goes");
}

/// Core's `VerifyDBResult`: blocks that are pruned, and coins for which the cache is too small, were not checked.
#[test]
fn verifychain_says_whether_all_was_checked() {
    let site = Site::pruned();
    assert!(site.call("generatetodescriptor", "[600, \"raw(51)\"]").is_ok());
    assert_eq!(text(site.call("verifychain", "[4, 0]")), "true", "before it is pruned");
    for (level, want) in [(2, Verified::Whole), (3, Verified::MissingCoins), (4, Verified::MissingCoins)] {
        let (view, tip) = site.handle.ask(|quiet| Ok((quiet.coins()?, quiet.tip().0))).unwrap();
        let small = site.handle.live().unwrap().verify(view, tip, level, 0, 10_000);
        assert_eq!(small.unwrap(), want, "{level}");
    }
    let last = text(site.call("pruneblockchain", "[300]"));
    let last: u32 = last.parse().unwrap();
    assert!((1..=300).contains(&last));
    for (params, want) in [("[4, 0]", "false"), ("[0, 0]", "false"), ("[4, 100]", "true")] {
        assert_eq!(text(site.call("verifychain", params)), want, "{params}");
    }
    let log = std::fs::read_to_string(site.log_path()).unwrap();
    assert!(log.contains(&format!("Block verification stopping at height {last} (no data).")), "{log}");
}

/// Changes a byte of a file in place, as a bad drive does; the same again changes it back.
fn flip(path: &Path, at: u64) {
    let mut file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.seek(SeekFrom::Start(at)).unwrap();
    file.read_exact(&mut byte).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(&[byte[0] ^ 0x80]).unwrap();
}

/// Core's `VerifyDBResult::CORRUPTED_BLOCK_DB`: damage is a result, with its reason in debug.log, not an error.
#[test]
fn verifychain_finds_damaged_and_missing_files() {
    /// Bytes of a record before a block, and of the undo record of a block without spends.
    const HEADER: u64 = 8;
    const UNDO: u64 = HEADER + 1 + 32;
    let site = Site::still();
    assert!(site.call("generatetodescriptor", "[3, \"raw(51)\"]").is_ok());
    let all = |level| text(site.call("verifychain", &format!("[{level}, 0]")));
    assert_eq!(all(4), "true");
    let bytes = |height| {
        let hash = text(site.call("getblockhash", &format!("[{height}]")));
        let hex = text(site.call("getblock", &format!("[{hash}, 0]")));
        (hex.len() as u64 - 2) / 2
    };
    let block = (0..2).map(|height| HEADER + bytes(height)).sum::<u64>() + HEADER;
    let blocks = site.net_dir().join("blocks");
    let blk = blocks.join("blk00000.dat");
    let rev = blocks.join("rev00000.dat");
    for (row, file, at, level, want) in [
        ("magic of the record", &blk, block - 8, 0, "ReadBlock failed at 2, hash="),
        ("size of the record", &blk, block - 1, 0, "ReadBlock failed at 2, hash="),
        ("time in the header", &blk, block + 68, 0, "its header has the hash"),
        ("number of transactions", &blk, block + 80, 0, "ReadBlock failed at 2, hash="),
        ("version of the coinbase", &blk, block + 82, 1, "found bad block at 2, hash="),
        ("checksum of the undo data", &rev, UNDO + HEADER + 1, 2, "found bad undo data at 2, hash="),
    ] {
        flip(file, at);
        let found: Vec<String> = (0..=4).map(all).collect();
        flip(file, at);
        let expected: Vec<&str> = (0..=4).map(|at| if at < level { "true" } else { "false" }).collect();
        assert_eq!(found, expected, "{row}");
        let log = std::fs::read_to_string(site.log_path()).unwrap();
        let line = log.lines().rfind(|line| line.contains("Verification error: ")).unwrap_or_default();
        assert!(line.contains(want), "{row}: {want} in {line}");
        assert_eq!(all(4), "true", "{row}: mended");
    }
    // Not by the call, which commits first: a job whose files are gone ends.
    let live = site.handle.live().unwrap();
    for (file, level, want) in [(&rev, 2, "found bad undo data at 3, hash="), (&blk, 0, "ReadBlock failed at 3, hash=")]
    {
        let (view, tip) = site.handle.ask(|quiet| Ok((quiet.coins()?, quiet.tip().0))).unwrap();
        let away = file.with_extension("away");
        std::fs::rename(file, &away).unwrap();
        let found = live.verify(view, tip, level, 0, 1 << 20);
        std::fs::rename(&away, file).unwrap();
        assert!(matches!(&found, Ok(Verified::Wrong(why)) if why.starts_with(want)), "{found:?}");
    }
}

/// Core's `VerifyDBResult::INTERRUPTED`: who stops the program does not wait for the checks.
#[test]
fn verifychain_ends_with_the_program() {
    let site = Site::still();
    assert!(site.call("generatetodescriptor", "[3, \"raw(51)\"]").is_ok());
    let (view, tip) = site.handle.ask(|quiet| Ok((quiet.coins()?, quiet.tip().0))).unwrap();
    let live = site.handle.live().unwrap();
    live.options.stop.store(true, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(live.verify(view, tip, 4, 0, 1 << 20).unwrap(), Verified::Interrupted);
}

/// Core's `BlockAssembler::m_last_block_weight`: a template is an assembled block too.
#[test]
fn template_counts_as_an_assembled_block() {
    let site = Site::still();
    assert!(!text(site.call("getmininginfo", "[]")).contains("currentblock"));
    assert!(site.call("getblocktemplate", "[{\"rules\":[]}]").is_err());
    assert!(!text(site.call("getmininginfo", "[]")).contains("currentblock"), "a refused template is none");
    assert!(site.call("getblocktemplate", "[{\"rules\":[\"segwit\"]}]").is_ok());
    let info = text(site.call("getmininginfo", "[]"));
    assert!(info.starts_with("{\"blocks\":0,\"currentblockweight\":8000,\"currentblocktx\":0,"), "{info}");
}
