//! A set that comes as a stream: broken off, stopped and killed anywhere, false, out of order.

use super::*;
use crate::reporting::Event;
use crate::reporting::log::Log;
use crate::snapshot::stream::SharedStream;
use crate::utxo_stats::SetHash;
use crate::utxo_stats::setinfo::set_info;
use disk::{Disk, Fault as Accident, Loss, SimDisk};
use primitives::snapshot::GroupWriter;
use primitives::{Amount, BlockHash, OutPoint};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

const HEIGHT: Height = Height::new(100);

/// A snapshot and the hash of its coins.
struct Set {
    file: Vec<u8>,
    header: SnapshotHeader,
    hash: Hash256,
}

fn set(count: u64) -> Set {
    let mut rng = testkit::Rng::new(count);
    let mut outpoints: Vec<OutPoint> = (0..count)
        .map(|number| {
            let mut txid = [0; 32];
            // Some groups are of several coins.
            txid[..8].copy_from_slice(&(number / 3 * 7).to_be_bytes());
            OutPoint { txid: Txid::from_bytes(txid), vout: number as u32 % 3 * 200 }
        })
        .collect();
    outpoints.sort_by_key(CoinKey::new);
    let header = SnapshotHeader { network: *b"net!", base: BlockHash::from_bytes([9; 32]), coins: count };
    let mut groups = GroupWriter::default();
    let mut sha = Sha256::new();
    let mut hashed = HashedCoins::default();
    for outpoint in &outpoints {
        let mut stored = Vec::new();
        let length = 20 + rng.below(40);
        let script = rng.bytes(length);
        primitives::coin::put_coin(&mut stored, rng.below(200) as u32, Amount(rng.below(1 << 40) as i64), &script);
        groups.push(outpoint, &stored);
        hashed.push(outpoint, &CoinRef::decode(&stored).unwrap());
    }
    sha.update(&hashed.take());
    Set { file: [&header.encode()[..], &groups.take()].concat(), header, hash: hashed::finish(sha) }
}

/// A stream of bytes that breaks where it is told to.
struct Scripted {
    file: Vec<u8>,
    at: usize,
    /// Bytes that are read in all.
    read: Arc<AtomicU64>,
    breaks_at: Option<usize>,
    can_seek: bool,
    /// What comes after the first file was refused.
    other: Option<Vec<u8>>,
}

impl SnapshotStream for Scripted {
    fn name(&self) -> String {
        "scripted".to_owned()
    }

    fn bytes(&self) -> Option<u64> {
        self.can_seek.then_some(self.file.len() as u64)
    }

    fn can_seek(&self) -> bool {
        self.can_seek
    }

    fn seek(&mut self, offset: u64) -> Result<(), Message> {
        self.at = offset as usize;
        Ok(())
    }

    fn read(&mut self, out: &mut [u8], _: Duration) -> Result<Got, Message> {
        let end = self.breaks_at.unwrap_or(self.file.len());
        let count = out.len().min(end.saturating_sub(self.at)).min(50_000);
        if count == 0 {
            let is_end = self.at >= self.file.len();
            return if is_end { Ok(Got::End) } else { Err(Message::new("the line is dead", "Wait")) };
        }
        out[..count].copy_from_slice(&self.file[self.at..self.at + count]);
        self.at += count;
        self.read.fetch_add(count as u64, Relaxed);
        Ok(Got::Bytes(count))
    }

    fn notes(&mut self) -> Vec<String> {
        Vec::new()
    }

    fn try_others(&mut self) -> Option<String> {
        self.file = self.other.take()?;
        self.at = 0;
        Some("Another mirror is asked".to_owned())
    }
}

struct Scene<'s> {
    set: &'s Set,
    sim: SimDisk,
    read: Arc<AtomicU64>,
    said: Mutex<Vec<String>>,
    /// Whether the last report of progress said that it is the last one.
    is_last: Mutex<bool>,
    stop_after: Option<&'static str>,
}

fn layout() -> Layout {
    Layout::new(Path::new("/d"), "regtest", None)
}

impl<'s> Scene<'s> {
    fn new(set: &'s Set, sim: SimDisk) -> Scene<'s> {
        let said = Mutex::default();
        Scene { set, sim, read: Arc::default(), said, is_last: Mutex::default(), stop_after: None }
    }

    fn fresh(set: &'s Set) -> Scene<'s> {
        let sim = SimDisk::new(0);
        sim.create_dir_all(&layout().private_dir()).unwrap();
        for dir in ["/", "/d", "/d/regtest"] {
            sim.sync_dir(Path::new(dir)).unwrap();
        }
        Scene::new(set, sim)
    }

    fn stream(&self) -> Scripted {
        let (file, read) = (self.set.file.clone(), self.read.clone());
        Scripted { file, at: HEADER_BYTES, read, breaks_at: None, can_seek: true, other: None }
    }

    fn load(&self, stream: Scripted) -> Result<(), String> {
        let host = Host::from(self.sim.shared());
        let given = StreamedSnapshot {
            stream: SharedStream::new(stream),
            header: self.set.header,
            name: "scripted".to_owned(),
        };
        let (layout, stats) = (layout(), Snapshot::default());
        let wanted =
            Wanted { host: &host, layout: &layout, given: &given, height: HEIGHT, hash: self.set.hash, stats: &stats };
        let stop = AtomicBool::new(false);
        let events = |event| match event {
            Event::Note(text) | Event::Warning(text) => {
                if self.stop_after.is_some_and(|words| text.contains(words)) {
                    stop.store(true, Relaxed);
                }
                if text.contains("loading is tried again") {
                    self.sim.set_free_bytes(1 << 30); // The user frees space.
                }
                self.said.lock().unwrap().push(text);
            }
            Event::Progress(progress) => *self.is_last.lock().unwrap() = progress.is_last,
            _ => {}
        };
        let reporter = Reporter::new(&events, Log::none(), &stop);
        fill_coming(&wanted, &reporter).map_err(|why| why.to_string())
    }

    /// The set is there, of one run, and nothing else would be done to it.
    fn check(&self, row: &str) {
        let coins = Chainstate::open_read_only(self.sim.shared(), &layout().coming_snapshot_dir()).unwrap();
        assert_eq!(coins.best_block().unwrap(), Some(self.set.header.base), "{row}");
        let info = set_info(&coins.view(), SetHash::Serialized, false, 1).unwrap();
        assert_eq!(
            (info.txouts, info.hash.map(|(_, hash)| hash)),
            (self.set.header.coins, Some(self.set.hash)),
            "{row}"
        );
        assert_eq!(coins.view().run_count(), 1, "{row}");
    }

    fn is_empty(&self) -> bool {
        let there = |path: &Path| self.sim.metadata(path).unwrap().is_some();
        !there(&layout().coming_snapshot_dir()) && !there(&layout().private_dir().join(COMING))
    }
}

/// Broken off at several places, each time gone on with: no byte is asked for twice but those of coins that were not whole.
#[test]
fn a_broken_transfer_goes_on_from_what_came() {
    let set = set(40_000);
    let scene = Scene::fresh(&set);
    let size = set.file.len();
    for share in [1, 3, 4, 7] {
        let why = scene.load(Scripted { breaks_at: Some(size * share / 8), ..scene.stream() }).unwrap_err();
        assert!(why.contains("the line is dead"), "{why}");
    }
    scene.load(scene.stream()).unwrap();
    scene.check("four breaks");
    let read = scene.read.load(Relaxed) as usize;
    assert!(read <= size + 4 * ENTRY_BYTES_MAX, "{read} bytes read of {size}");
    let said = scene.said.lock().unwrap().join("\n");
    assert_eq!(said.matches("going on at byte").count(), 4, "{said}");
    // All is there: nothing is asked for.
    scene.load(scene.stream()).unwrap();
    assert_eq!(scene.read.load(Relaxed) as usize, read);
}

/// Killed at operations of the disk all over a load: what is left is gone on with, to the right set.
#[test]
fn a_killed_transfer_goes_on_from_what_was_committed() {
    let set = set(20_000);
    let whole = Scene::fresh(&set);
    let begun = whole.sim.operations();
    whole.load(whole.stream()).unwrap();
    whole.check("without a kill");
    let operations = whole.sim.operations() - begun;
    let step = if testkit::is_slow() { 1 } else { 7 };
    let mut gone_on = 0;
    for operation in (0..operations).step_by(step) {
        let scene = Scene::fresh(&set);
        scene.sim.fail_at(scene.sim.operations() + operation, 1, Accident::Stop);
        if scene.load(scene.stream()).is_ok() {
            break;
        }
        for loss in [Loss::Nothing, Loss::Unsynced, Loss::Random(operation)] {
            let row = format!("{operation}, {loss:?}");
            let left = Scene::new(&set, scene.sim.reopen(loss));
            left.load(left.stream()).unwrap_or_else(|why| panic!("{row}: {why}"));
            left.check(&row);
            gone_on += u32::from(left.said.lock().unwrap().iter().any(|text| text.contains("going on at")));
        }
    }
    assert!(gone_on > 5, "{gone_on} times something was kept");
}

/// Full at operations all over a load, of which the free space does not tell: nothing is read back, and nothing fetched
/// again, before there is space for a piece.
#[test]
fn a_full_disk_is_waited_for_before_anything_is_read_back() {
    let set = set(40_000);
    let whole = Scene::fresh(&set);
    let begun = whole.sim.operations();
    whole.load(whole.stream()).unwrap();
    assert!(*whole.is_last.lock().unwrap(), "the watchdog would expect more reports");
    let operations = whole.sim.operations() - begun;
    let mut waits = 0;
    for operation in (0..operations).step_by(if testkit::is_slow() { 1 } else { 5 }) {
        let scene = Scene::fresh(&set);
        scene.sim.set_free_bytes(1 << 20);
        scene.sim.fail_at(scene.sim.operations() + operation, 1, Accident::NoSpace);
        match scene.load(scene.stream()) {
            Ok(()) => scene.check(&format!("full at {operation}")),
            Err(why) => assert!(why.contains("free disk space, then start again"), "{operation}: {why}"),
        }
        let said = scene.said.lock().unwrap();
        let place = |words: &str| said.iter().position(|text| text.contains(words));
        if let Some(read_back) = place("reading back") {
            let waited = place("loading is tried again");
            assert!(waited.is_some_and(|waited| waited < read_back), "{operation}: {said:#?}");
            waits += 1;
        }
    }
    assert!(waits > 3, "{waits} loads were continued");
}

#[test]
fn a_stop_keeps_what_came() {
    let set = set(40_000);
    let scene = Scene { stop_after: Some("loading"), ..Scene::fresh(&set) };
    scene.load(scene.stream()).unwrap_err();
    let said = scene.said.lock().unwrap().concat();
    assert!(said.contains("stopped while it was received"), "{said}");
    let scene = Scene::new(&set, scene.sim);
    scene.load(scene.stream()).unwrap();
    scene.check("stopped");
}

#[test]
fn what_is_not_the_wanted_set_is_refused_and_nothing_is_kept() {
    let good = set(20_000);
    let other = set(20_001);
    let turned = |at: usize| {
        let mut file = good.file.clone();
        file[at] ^= 1;
        file
    };
    let cut = good.file[..good.file.len() - 9].to_vec();
    let longer = [&good.file[..], b"x"].concat();
    // The last byte is of a script; near the begin it is the first byte of a txid.
    let hash = good.hash.to_string();
    for (row, file, want) in [
        ("a bit", turned(good.file.len() - 1), "Bad snapshot content hash: expected"),
        ("another order", turned(HEADER_BYTES + 1), "not in the order that Core writes"),
        ("cut", cut, "Bad snapshot format or truncated snapshot"),
        ("longer", longer, "coins left over"),
        ("another set", other.file.clone(), "Mismatch in coins count"),
    ] {
        let scene = Scene::fresh(&good);
        let why = scene.load(Scripted { file, ..scene.stream() }).unwrap_err();
        assert!(why.contains(want) && why.contains(&hash) && why.contains("(scripted)"), "{row}: {why}");
        assert!(scene.is_empty(), "{row}: something is kept");
    }
    // Another mirror has the right one.
    let scene = Scene::fresh(&good);
    let other = Some(good.file.clone());
    scene.load(Scripted { file: turned(good.file.len() - 1), other, ..scene.stream() }).unwrap();
    scene.check("from another");
    assert!(scene.said.lock().unwrap().join("\n").contains("Another mirror is asked"));
}

#[test]
fn coins_of_an_earlier_run_that_were_false_are_fetched_again() {
    let good = set(40_000);
    let scene = Scene::fresh(&good);
    // Of a script, far from the place where it breaks off.
    let mut false_one = good.file.clone();
    let coin = good.file.len() / 4;
    let at = (coin..).find(|&at| {
        let mut file = good.file.clone();
        file[at] ^= 1;
        let mut parser = CoinsParser::new(&good.header, HEIGHT);
        let mut rest = &file[HEADER_BYTES..];
        while let Ok((Next::Coin(_), taken)) = parser.next(rest, true) {
            rest = &rest[taken..];
        }
        rest.is_empty()
    });
    false_one[at.unwrap()] ^= 1;
    let breaks_at = Some(good.file.len() / 2);
    scene.load(Scripted { file: false_one, breaks_at, ..scene.stream() }).unwrap_err();
    scene.load(scene.stream()).unwrap();
    scene.check("after false coins");
    let said = scene.said.lock().unwrap().join("\n");
    assert!(said.contains("going on at byte") && said.contains("it starts again"), "{said}");
}

/// A pipe is read once: nothing of a broken one is kept.
#[test]
fn a_pipe_is_loaded_in_one_go() {
    let set = set(20_000);
    let scene = Scene::fresh(&set);
    let piped = || Scripted { can_seek: false, ..scene.stream() };
    scene.load(Scripted { breaks_at: Some(500_000), ..piped() }).unwrap_err();
    assert!(scene.is_empty());
    scene.load(piped()).unwrap();
    scene.check("a pipe");
}

/// Any bytes in the file of what came, and of another snapshot: it starts again, or gone on with, to the right set.
#[test]
fn a_damaged_note_of_what_came_costs_no_more_than_the_transfer() {
    let set = set(20_000);
    let broken = Scene::fresh(&set);
    broken.load(Scripted { breaks_at: Some(700_000), ..broken.stream() }).unwrap_err();
    let path = layout().private_dir().join(COMING);
    let mut rng = testkit::Rng::new(1);
    for turn in 0..40 {
        let scene = Scene::new(&set, broken.sim.reopen(Loss::Nothing));
        let note = scene.sim.modify(&path).unwrap();
        let at = rng.below(COMING_BYTES) as u64;
        note.write_at(at, &[rng.byte()]).unwrap();
        scene.load(scene.stream()).unwrap_or_else(|why| panic!("{turn}: byte {at}: {why}"));
        scene.check(&format!("{turn}: byte {at}"));
    }
}
