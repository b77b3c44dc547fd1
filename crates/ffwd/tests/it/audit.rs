//! Audits by the command: of real chains and of a made one, and forgeries that every checksum fits.

use crate::data::{self, blocks_dir, records};
use crate::run::{Ran, run};
use primitives::undo::{UndoReader, put_count, put_entry};
use primitives::{Amount, BlockHash, CoinKey, CoinRef, Header, OutPoint, Txid, coin, hex};
use simd::sha256::sha256d;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// Ends of the ranges of the made chain.
const RANGES: usize = 4;

/// All parts of an audit, each a run of its own, and the join of those that gave a record.
fn audit(folder: &Path, chain: &str, ranges: &[(u64, u64)], hash: &str) -> (Vec<Ran>, Ran) {
    let dir = tempfile::tempdir().unwrap();
    let salt = dir.path().join("salt");
    fs::write(&salt, "5a".repeat(32)).unwrap();
    let on = format!("--datadir @ --chain {chain} --json --salt {} --out {}", salt.display(), dir.path().display());
    let part = |(from, to): &(u64, u64)| run(folder, &format!("audit part --from {from} --to {to} {on}/{from}"));
    let mut parts: Vec<Ran> = ranges.iter().map(part).collect();
    let low = format!("audit coins --keys 0000-0fff {hash} {on}/low");
    let high = format!("audit coins --keys 1000-ffff {hash} {on}/high");
    parts.extend(match hash {
        "--hash hash_serialized_3" => vec![run(folder, &format!("audit coins {hash} {on}/all"))],
        _ => vec![run(folder, &high), run(folder, &low)],
    });
    let mut files: Vec<PathBuf> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| *path != salt);
    let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    let joined = run(folder, &format!("audit join --json {}", names.join(" ")));
    (parts, joined)
}

/// Ranges of about equal bytes, as the command cuts them.
fn plan(folder: &Path, chain: &str, parts: usize) -> Vec<(u64, u64)> {
    let plan = run(folder, &format!("audit plan --parts {parts} --datadir @ --chain {chain} --json")).good();
    let ends = |range: &serde_json::Value| (range[0].as_u64().unwrap(), range[1].as_u64().unwrap());
    plan["ranges"].as_array().unwrap().iter().map(ends).collect()
}

#[test]
fn audits_of_real_chains_say_what_the_coins_are() {
    for (chain, name, parts) in [("regtest", "regtest_1_206", 5), ("test", "testnet3_1_2100", 3)] {
        let Some(folder) = data::real(chain, name) else { return };
        let on = format!("--datadir @ --chain {chain} --json");
        run(folder.path(), &format!("reindex {on}")).good();
        for hash in ["muhash", "hash_serialized_3"] {
            let want = run(folder.path(), &format!("coins info {on} --hash {hash}")).good();
            let ranges = plan(folder.path(), chain, parts);
            assert_eq!((ranges.len(), ranges[0].0, ranges[parts - 1].1), (parts, 0, want["height"].as_u64().unwrap()));
            let (runs, joined) = audit(folder.path(), chain, &ranges, &format!("--hash {hash}"));
            assert!(runs.iter().all(|run| run.code == Some(0)), "{runs:?}");
            let verdict = joined.good();
            for name in ["height", "bestblock", "txouts", "total_amount", "bogosize", hash] {
                assert_eq!(verdict[name], want[name], "{chain} {name}: {verdict}");
            }
        }
        let beyond = format!("audit part --from 3 --to 9999 --salt @/salt --out @/beyond {on}");
        fs::write(folder.path().join("salt"), "00".repeat(32)).unwrap();
        let ran = run(folder.path(), &beyond);
        assert!(ran.code == Some(1) && ran.err.contains("3 to 9999"), "{ran:?}");
        assert!(!folder.path().join("beyond").exists());
    }
}

#[test]
fn wrong_salts_and_records_are_refused_by_name() {
    let Some(folder) = data::real("regtest", "regtest_1_206") else { return };
    run(folder.path(), "reindex --datadir @ --chain regtest --json").good();
    for (name, text) in [("short", "00".repeat(31)), ("none", String::new()), ("letters", "zz".repeat(32))] {
        fs::write(folder.path().join(name), &text).unwrap();
        let ran = run(folder.path(), &format!("audit coins --salt @/{name} --datadir @ --chain regtest"));
        assert!(ran.code == Some(1) && ran.err.contains("64 hexadecimal digits"), "{ran:?}");
        assert!(text.is_empty() || !ran.err.contains(&text), "a salt is not shown: {ran:?}");
        let ran = run(folder.path(), &format!("audit join @/{name}"));
        assert!(ran.code == Some(1) && ran.err.contains(name), "{ran:?}");
    }
    fs::write(folder.path().join("salt"), "00".repeat(32)).unwrap();
    let on = "--datadir @ --chain regtest --salt @/salt";
    let ran = run(folder.path(), &format!("audit coins --keys 0000-7fff --hash hash_serialized_3 {on}"));
    assert!(ran.code == Some(1) && ran.err.contains("leave --keys out"), "{ran:?}");
    let elsewhere = run(folder.path(), "audit part --from 0 --to 0 --salt @/salt --datadir @/none --chain regtest");
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
    folder: TempDir,
    ranges: Vec<(u64, u64)>,
    /// Hashes of the parents, by height from 1 on.
    parents: Vec<BlockHash>,
}

impl Made {
    fn new() -> Made {
        let folder = tempfile::tempdir().unwrap();
        run(folder.path(), "lab chain --out @ --blocks 3 --seed 13 --utxos 1500 --tail 2 --json");
        let on = "--datadir @ --chain regtest --json";
        run(folder.path(), &format!("reindex --assumevalid 0 {on}")).good();
        let file = fs::read(blocks_dir(folder.path(), "regtest").join("blk00000.dat")).unwrap();
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
        Made { folder, ranges, parents }
    }

    fn undo_file(&self) -> PathBuf {
        blocks_dir(self.folder.path(), "regtest").join("rev00000.dat")
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
        let (parts, joined) = audit(self.folder.path(), "regtest", &self.ranges, "");
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
    let (parts, joined) = audit(made.folder.path(), "regtest", &made.ranges, "--hash muhash");
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
    let dir = made.folder.path().join("regtest/chainstate");
    let coins = store::Chainstate::open(Arc::new(disk::RealDisk), &dir).unwrap();
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
