//! Audits by the command: of real chains and of a made one, and forgeries that every checksum fits.

use crate::data::{self, blocks_dir, records};
use crate::run::{Ran, run};
use kernels::sha256::sha256d;
use primitives::undo::{UndoReader, put_count, put_entry};
use primitives::{Amount, BlockHash, CoinKey, CoinRef, Header, OutPoint, Txid, coin, hex};
use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Ends of the ranges of the made chain.
const RANGES: usize = 4;

/// All parts of an audit, each a run of its own, and the join of those that gave a record.
fn audit(directory: &Path, chain: &str, ranges: &[(u64, u64)], hash: &str) -> (Vec<Ran>, Ran) {
    let dir = tempfile::tempdir().unwrap();
    let salt = dir.path().join("salt");
    fs::write(&salt, "5a".repeat(32)).unwrap();
    let on = format!("--datadir @ --chain {chain} --json --salt {} --out {}", salt.display(), dir.path().display());
    let part = |(from, to): &(u64, u64)| run(directory, &format!("audit part --from {from} --to {to} {on}/{from}"));
    let mut parts: Vec<Ran> = ranges.iter().map(part).collect();
    let low = format!("audit coins --keys 0000-0fff {hash} {on}/low");
    let high = format!("audit coins --keys 1000-ffff {hash} {on}/high");
    parts.extend(match hash {
        "--hash hash_serialized_3" => vec![run(directory, &format!("audit coins {hash} {on}/all"))],
        _ => vec![run(directory, &high), run(directory, &low)],
    });
    let mut files: Vec<PathBuf> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| *path != salt);
    let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    let joined = run(directory, &format!("audit join --json {}", names.join(" ")));
    (parts, joined)
}

/// Ranges of about equal bytes, as the command cuts them.
fn plan(directory: &Path, chain: &str, parts: usize) -> Vec<(u64, u64)> {
    let plan = run(directory, &format!("audit plan --parts {parts} --datadir @ --chain {chain} --json")).good();
    let ends = |range: &serde_json::Value| (range[0].as_u64().unwrap(), range[1].as_u64().unwrap());
    plan["ranges"].as_array().unwrap().iter().map(ends).collect()
}

#[test]
fn audits_of_real_chains_say_what_the_coins_are() {
    for (chain, name, parts) in [("regtest", "regtest_1_206", 5), ("test", "testnet3_1_2100", 3)] {
        let Some(directory) = data::real(chain, name) else { return };
        let on = format!("--datadir @ --chain {chain} --json");
        run(directory.path(), &format!("reindex {on}")).good();
        for hash in ["muhash", "hash_serialized_3"] {
            let want = run(directory.path(), &format!("coins info {on} --hash {hash}")).good();
            let ranges = plan(directory.path(), chain, parts);
            assert_eq!((ranges.len(), ranges[0].0, ranges[parts - 1].1), (parts, 0, want["height"].as_u64().unwrap()));
            let (runs, joined) = audit(directory.path(), chain, &ranges, &format!("--hash {hash}"));
            assert!(runs.iter().all(|run| run.code == Some(0)), "{runs:?}");
            let verdict = joined.good();
            for name in ["height", "bestblock", "txouts", "total_amount", "bogosize", hash] {
                assert_eq!(verdict[name], want[name], "{chain} {name}: {verdict}");
            }
        }
        let beyond = format!("audit part --from 3 --to 9999 --salt @/salt --out @/beyond {on}");
        fs::write(directory.path().join("salt"), "00".repeat(32)).unwrap();
        let ran = run(directory.path(), &beyond);
        assert!(ran.code == Some(1) && ran.err.contains("3 to 9999"), "{ran:?}");
        assert!(!directory.path().join("beyond").exists());
    }
}

/// The records of all ranges, each with these options.
fn parts(directory: &Path, ranges: &[(u64, u64)], more: &str) -> Vec<Ran> {
    let on = format!("--chain regtest --json --salt @/salt {more}");
    ranges.iter().map(|(from, to)| run(directory, &format!("audit part --from {from} --to {to} {on}"))).collect()
}

/// Joins records, that of the coins among them.
fn join(directory: &Path, records: &[Ran]) -> Ran {
    let name = |at: usize| format!("{}/record{at}", directory.display());
    records.iter().enumerate().for_each(|(at, ran)| fs::write(name(at), &ran.out).unwrap());
    let names: Vec<String> = (0..records.len()).map(name).collect();
    run(directory, &format!("audit join --json {}", names.join(" ")))
}

/// Bytes of a plan before times and targets, and of these a block.
const PLAN_HEAD_BYTES: usize = 52;
const ANCESTOR_BYTES: usize = 8;

#[test]
fn a_plan_stands_for_the_block_index_and_a_false_one_is_found() {
    let Some(directory) = data::real("regtest", "regtest_1_206") else { return };
    let at = directory.path();
    run(at, "reindex --datadir @ --chain regtest --json").good();
    fs::write(at.join("salt"), "5a".repeat(32)).unwrap();
    let said = run(at, "audit plan --parts 4 --out @/plan --datadir @ --chain regtest --json").good();
    let ranges = plan(at, "regtest", 4);
    assert_eq!(said["ranges"].as_array().unwrap().len(), ranges.len());
    let want = parts(at, &ranges, "--datadir @");
    let to = ranges[0].1;
    let lower = run(at, &format!("audit plan --parts 2 --to {to} --datadir @ --chain regtest --json")).good();
    assert_eq!(lower["height"].as_u64(), Some(to));
    assert_eq!(lower["bestblock"], want[0].json()["last"], "the block of that height, not the tip");
    let coins = run(at, "audit coins --datadir @ --chain regtest --salt @/salt");
    // Block and undo files are all that is left.
    for gone in ["blocks/index", "chainstate"] {
        fs::remove_dir_all(at.join("regtest").join(gone)).unwrap();
    }
    let mut with_plan = parts(at, &ranges, "--datadir @ --plan @/plan");
    for (with_plan, want) in with_plan.iter().zip(&want) {
        assert!(want.code == Some(0), "{want:?}");
        assert_eq!(with_plan.out, want.out);
    }
    with_plan.push(coins.clone());
    assert_eq!(join(at, &with_plan).good()["height"], 206);
    // A time of a block that is not the range's: its own part says no, or the join.
    let good = fs::read(at.join("plan")).unwrap();
    let (start, end) = (PLAN_HEAD_BYTES, PLAN_HEAD_BYTES + 207 * ANCESTOR_BYTES);
    for height in [ranges[0].1, ranges[1].1 - 1] {
        let mut forged = good.clone();
        forged[start + height as usize * ANCESTOR_BYTES] ^= 1;
        let sum = kernels::sha256::sha256(&forged[..end]);
        forged[end..end + 32].copy_from_slice(&sum);
        fs::write(at.join("plan"), forged).unwrap();
        let mut runs = parts(at, &ranges[2..], "--datadir @ --plan @/plan");
        let own = ranges.iter().find(|range| (range.0..=range.1).contains(&height)).unwrap();
        let of_own = parts(at, &[*own], "--datadir @ --plan @/plan");
        assert_eq!(of_own[0].code, Some(1), "{of_own:?}");
        if runs.iter().all(|ran| ran.code == Some(0)) {
            runs.extend([want[0].clone(), want[1].clone(), coins.clone()]);
            let ran = join(at, &runs);
            assert!(ran.code == Some(1) && ran.err.contains("judged by other times"), "{ran:?}");
        }
    }
    for (row, bytes, want) in [("cut", &good[..good.len() - 1], "cut"), ("another file", &[7; 99][..], "another file")]
    {
        fs::write(at.join("plan"), bytes).unwrap();
        let ran = &parts(at, &ranges[..1], "--datadir @ --plan @/plan")[0];
        assert!(ran.code == Some(1) && ran.err.contains(want) && ran.err.contains("plan"), "{row}: {ran:?}");
    }
}

/// Answers questions about the files below `root` until the connections end: the other side of `disk::ServedDisk`.
fn serve(root: &Path, mut stream: UnixStream) -> std::io::Result<()> {
    loop {
        let mut head = [0; 3];
        if stream.read_exact(&mut head).is_err() {
            return Ok(());
        }
        let mut name = vec![0; usize::from(u16::from_le_bytes([head[1], head[2]]))];
        stream.read_exact(&mut name)?;
        let path = root.join(String::from_utf8(name).unwrap());
        let mut answer = vec![0];
        match (head[0], fs::metadata(&path)) {
            (_, Err(_)) => answer[0] = 1,
            (b'M', Ok(known)) => {
                answer.push(known.is_dir().into());
                answer.extend(if known.is_dir() { 0 } else { known.len() }.to_le_bytes());
            }
            (b'L', Ok(_)) => {
                let entries: Vec<_> = fs::read_dir(&path)?.map(|entry| entry.unwrap()).collect();
                answer.extend((entries.len() as u32).to_le_bytes());
                for entry in entries {
                    let name = entry.file_name().into_string().unwrap();
                    answer.push(entry.file_type()?.is_dir().into());
                    answer.extend((name.len() as u16).to_le_bytes());
                    answer.extend(name.as_bytes());
                }
            }
            _ => {
                let mut place = [0; 12];
                stream.read_exact(&mut place)?;
                let offset = u64::from_le_bytes(*place.first_chunk().unwrap()) as usize;
                let bytes = u32::from_le_bytes(*place.last_chunk().unwrap()) as usize;
                answer.extend((bytes as u32).to_le_bytes());
                answer.extend(&fs::read(&path)?[offset..offset + bytes]);
            }
        }
        stream.write_all(&answer)?;
    }
}

/// All commands of an audit where another program reads the files, and the data directory itself is empty.
#[test]
fn files_may_be_read_by_another_program() {
    let Some(directory) = data::real("regtest", "regtest_1_206") else { return };
    run(directory.path(), "reindex --datadir @ --chain regtest --json").good();
    let want = run(directory.path(), "coins info --datadir @ --chain regtest --hash muhash --json").good();
    let here = tempfile::tempdir().unwrap();
    let at = here.path();
    fs::write(at.join("salt"), "5a".repeat(32)).unwrap();
    fs::create_dir(at.join("empty")).unwrap();
    let (listener, root) = (UnixListener::bind(at.join("socket")).unwrap(), directory.path().to_path_buf());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let root = root.clone();
            std::thread::spawn(move || serve(&root, stream.unwrap()));
        }
    });
    let on = "--datadir @/empty --files @/socket --chain regtest --json";
    let plan = run(at, &format!("audit plan --parts 3 --out @/plan {on}")).good();
    let ends = |range: &serde_json::Value| (range[0].as_u64().unwrap(), range[1].as_u64().unwrap());
    let ranges: Vec<(u64, u64)> = plan["ranges"].as_array().unwrap().iter().map(ends).collect();
    let mut records = parts(at, &ranges, "--datadir @/empty --files @/socket --plan @/plan");
    records.push(run(at, &format!("audit coins --hash muhash --salt @/salt {on}")));
    assert!(records.iter().all(|ran| ran.code == Some(0)), "{records:?}");
    assert_eq!(join(at, &records).good()["muhash"], want["muhash"]);
    let away = run(at, &format!("audit coins --salt @/salt {}", on.replace("socket", "nothing")));
    assert!(away.code == Some(1) && away.err.contains("nothing"), "{away:?}");
    assert_eq!(fs::read_dir(at.join("empty")).unwrap().count(), 0, "nothing is written there");
}

#[test]
fn wrong_salts_and_records_are_refused_by_name() {
    let Some(directory) = data::real("regtest", "regtest_1_206") else { return };
    run(directory.path(), "reindex --datadir @ --chain regtest --json").good();
    for (name, text) in [("short", "00".repeat(31)), ("none", String::new()), ("letters", "zz".repeat(32))] {
        fs::write(directory.path().join(name), &text).unwrap();
        let ran = run(directory.path(), &format!("audit coins --salt @/{name} --datadir @ --chain regtest"));
        assert!(ran.code == Some(1) && ran.err.contains("64 hexadecimal digits"), "{ran:?}");
        assert!(text.is_empty() || !ran.err.contains(&text), "a salt is not shown: {ran:?}");
        let ran = run(directory.path(), &format!("audit join @/{name}"));
        assert!(ran.code == Some(1) && ran.err.contains(name), "{ran:?}");
    }
    fs::write(directory.path().join("salt"), "00".repeat(32)).unwrap();
    let on = "--datadir @ --chain regtest --salt @/salt";
    let ran = run(directory.path(), &format!("audit coins --keys 0000-7fff --hash hash_serialized_3 {on}"));
    assert!(ran.code == Some(1) && ran.err.contains("Leave --keys out"), "{ran:?}");
    let elsewhere = run(directory.path(), "audit part --from 0 --to 0 --salt @/salt --datadir @/none --chain regtest");
    assert_eq!(elsewhere.code, Some(1), "{elsewhere:?}");
}

/// A coin of undo data: code, amount, script.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Spent {
    code: u32,
    value: i64,
    script: Vec<u8>,
}

impl Spent {
    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        coin::put_coin(&mut out, self.code, Amount(self.value), &self.script);
        out
    }

    fn height(&self) -> u64 {
        u64::from(self.code / 2)
    }
}

/// A made chain whose block and undo files are not obfuscated.
struct Made {
    directory: TempDir,
    ranges: Vec<(u64, u64)>,
    /// Hashes of the parents, by height from 1 on.
    parents: Vec<BlockHash>,
}

impl Made {
    fn new() -> Made {
        let directory = tempfile::tempdir().unwrap();
        run(directory.path(), "lab chain --out @ --blocks 3 --seed 13 --utxos 1500 --tail 2 --json");
        let on = "--datadir @ --chain regtest --json";
        run(directory.path(), &format!("reindex --assumevalid 0 {on}")).good();
        let file = fs::read(blocks_dir(directory.path(), "regtest").join("blk00000.dat")).unwrap();
        let mut children: HashMap<BlockHash, BlockHash> = HashMap::new();
        for record in records(&file) {
            let header = Header(*record[8..].first_chunk().unwrap());
            children.insert(header.prev(), header.hash());
        }
        let (mut parents, mut at) = (Vec::new(), children[&BlockHash::ZERO]);
        while let Some(child) = children.get(&at) {
            parents.push(at);
            at = *child;
        }
        // The full blocks lie at the end: a range for each, so that coins go from one to another.
        let top = parents.len() as u64;
        let ends = [top - 5, top - 4, top - 3, top];
        let ranges = (0..RANGES).map(|n| (if n == 0 { 0 } else { ends[n - 1] + 1 }, ends[n])).collect();
        Made { directory, ranges, parents }
    }

    fn undo_file(&self) -> PathBuf {
        blocks_dir(self.directory.path(), "regtest").join("rev00000.dat")
    }

    /// Undo data by height: where its payload lies, and its coins by transaction.
    fn undo(&self) -> HashMap<u64, (usize, Vec<Vec<Spent>>)> {
        let file = fs::read(self.undo_file()).unwrap();
        let (mut found, mut at) = (HashMap::new(), 0);
        while file[at..].starts_with(&data::REGTEST_MAGIC) {
            let size = u32::from_le_bytes(*file[at + 4..].first_chunk().unwrap()) as usize;
            let payload = &file[at + 8..at + 8 + size];
            let sum = &file[at + 8 + size..][..32];
            let is_its = |parent: &&BlockHash| sha256d(&[parent.as_bytes(), payload].concat())[..] == *sum;
            let parent = self.parents.iter().position(|parent| is_its(&parent)).unwrap();
            found.insert(parent as u64 + 1, (at + 8, spent(payload)));
            at += 8 + size + 32;
        }
        found
    }

    /// Writes undo data of a block in its place, its checksum mended.
    fn forge(&self, height: u64, at: usize, coins: &[Vec<Spent>]) {
        let mut payload = Vec::new();
        put_count(&mut payload, coins.len());
        for tx in coins {
            put_count(&mut payload, tx.len());
            tx.iter().for_each(|coin| put_entry(&mut payload, &coin.bytes()).unwrap());
        }
        let mut file = fs::read(self.undo_file()).unwrap();
        let size = u32::from_le_bytes(*file[at - 4..].first_chunk().unwrap()) as usize;
        assert_eq!(size, payload.len(), "a forgery has the length of what it replaces");
        let parent = self.parents[height as usize - 1];
        let sum = sha256d(&[parent.as_bytes(), &payload[..]].concat());
        file[at..at + size].copy_from_slice(&payload);
        file[at + size..at + size + 32].copy_from_slice(&sum);
        fs::write(self.undo_file(), file).unwrap();
    }

    fn range_of(&self, height: u64) -> (u64, u64) {
        *self.ranges.iter().find(|range| (range.0..=range.1).contains(&height)).unwrap()
    }

    /// Audits, and says no where no range of `heights` is named.
    fn is_found(&self, row: &str, heights: &[u64]) {
        let (parts, joined) = audit(self.directory.path(), "regtest", &self.ranges, "");
        let runs = || parts.iter().chain([&joined]).filter(|run| run.code != Some(0));
        assert!(runs().all(|run| run.code == Some(1)) && runs().count() > 0, "{row}: {parts:?} {joined:?}");
        let said: String = runs().map(|run| run.err.clone()).collect();
        let named = heights.iter().map(|height| self.range_of(*height));
        let is_named = named.clone().any(|(from, to)| said.contains(&format!("blocks {from} to {to}")));
        assert!(is_named, "{row}: one of {:?} in {said}", named.collect::<Vec<_>>());
    }
}

fn spent(payload: &[u8]) -> Vec<Vec<Spent>> {
    let mut reader = UndoReader::new(payload);
    let transactions = reader.count().unwrap();
    let entry = |reader: &mut UndoReader<'_>| {
        let coin = reader.entry().unwrap();
        Spent { code: coin.code(), value: coin.value.0, script: coin.script.to_vec() }
    };
    (0..transactions).map(|_| (0..reader.count().unwrap()).map(|_| entry(&mut reader)).collect()).collect()
}

/// Coins whose signatures speak neither of their amount nor of their height: number of transaction and input, and the coin.
fn old_coins(coins: &[Vec<Spent>]) -> Vec<(usize, usize, Spent)> {
    let all = coins
        .iter()
        .enumerate()
        .flat_map(|(tx, coins)| coins.iter().enumerate().map(move |(input, coin)| (tx, input, coin.clone())));
    all.filter(|(.., coin)| coin.script.len() == 25 && coin.code & 1 == 0).collect()
}

#[test]
fn forged_undo_data_and_coins_are_found_and_the_range_is_named() {
    let made = Made::new();
    let (parts, joined) = audit(made.directory.path(), "regtest", &made.ranges, "--hash muhash");
    assert!(parts.iter().all(|run| run.code == Some(0)), "{parts:?}");
    joined.good();
    let good = fs::read(made.undo_file()).unwrap();
    let undo = made.undo();
    let (first, second) = (made.ranges[2].0, made.ranges[1].0);
    let ((at, coins), (other_at, other_coins)) = (&undo[&first], &undo[&second]);
    let (mine, theirs) = (old_coins(coins), old_coins(other_coins));
    // An amount that takes as many bytes, and leaves a fee.
    let (tx, input, richer) = mine
        .iter()
        .flat_map(|(tx, input, coin)| {
            (1..200).map(move |more| (*tx, *input, Spent { value: coin.value + more, ..coin.clone() }))
        })
        .find(|(tx, input, richer)| richer.bytes().len() == coins[*tx][*input].bytes().len())
        .unwrap();
    let mut forged = coins.clone();
    forged[tx][input] = richer.clone();
    made.forge(first, *at, &forged);
    made.is_found("an amount", &[first, richer.height()]);
    fs::write(made.undo_file(), &good).unwrap();
    // A height one less.
    let (tx, input, older) = mine
        .iter()
        .map(|(tx, input, coin)| (*tx, *input, Spent { code: coin.code - 2, ..coin.clone() }))
        .find(|(tx, input, older)| {
            older.bytes().len() == coins[*tx][*input].bytes().len() && older.height() < first - 1
        })
        .unwrap();
    let mut forged = coins.clone();
    forged[tx][input] = older.clone();
    made.forge(first, *at, &forged);
    made.is_found("a height", &[first, older.height(), older.height() + 1]);
    fs::write(made.undo_file(), &good).unwrap();
    // The heights of two coins of two ranges, swapped.
    let pairs = mine.iter().flat_map(|a| theirs.iter().map(move |b| (a, b)));
    let (a, b) = pairs
        .filter(|(a, b)| a.2.code != b.2.code && a.2.height() < first && b.2.height() < second)
        .find(|(a, b)| {
            let swapped = [Spent { code: b.2.code, ..a.2.clone() }, Spent { code: a.2.code, ..b.2.clone() }];
            swapped[0].bytes().len() == a.2.bytes().len() && swapped[1].bytes().len() == b.2.bytes().len()
        })
        .unwrap();
    let (mut forged, mut other) = (coins.clone(), other_coins.clone());
    (forged[a.0][a.1].code, other[b.0][b.1].code) = (b.2.code, a.2.code);
    made.forge(first, *at, &forged);
    made.forge(second, *other_at, &other);
    made.is_found("heights swapped", &[first, second, a.2.height(), b.2.height()]);
    fs::write(made.undo_file(), &good).unwrap();
    // A byte that no checksum was mended for.
    let mut damaged = good.clone();
    damaged[at + 20] ^= 1;
    fs::write(made.undo_file(), &damaged).unwrap();
    made.is_found("a byte of undo data", &[first]);
    fs::write(made.undo_file(), &good).unwrap();
    one_coin_more(&made);
}

/// A UTXO set with a coin that no block made.
fn one_coin_more(made: &Made) {
    let dir = made.directory.path().join("regtest/chainstate");
    let coins = store::Chainstate::open(disk::RealDisk::shared(), &dir).unwrap();
    let best = coins.best_block().unwrap().unwrap();
    let key = CoinKey::new(&OutPoint { txid: Txid::from_bytes([7; 32]), vout: 0 });
    let height = made.ranges[1].1;
    let bytes = Spent { code: height as u32 * 2, value: 5, script: hex::decode("51").unwrap() }.bytes();
    assert!(CoinRef::decode(&bytes).is_ok());
    let commit = coins.begin_commit(best, 1, 100).unwrap().unwrap();
    let mut part = commit.first_part().unwrap();
    part.put(key.as_bytes(), &bytes).unwrap();
    part.finish().unwrap();
    commit.finish().unwrap();
    drop(coins);
    made.is_found("one coin more", &[height]);
}
