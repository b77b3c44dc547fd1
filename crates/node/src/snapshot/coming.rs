//! A chainstate made from a snapshot that arrives as a stream: its bytes become tables as they arrive, without a copy
//! in a file.
//!
//! ```text
//! ffwd/snapshot_coming:  version u8 = 1 | header of the snapshot 51 | hash wanted 32 | bytes of the file u64 LE (0: not known)
//!                        | mark before the last commit | mark after it  | first 4 bytes of the SHA-256 of all this
//! mark:                  offset u64 LE | coins u64 LE | coins left of the last txid u64 LE
//! ```
//!
//! The tables in `ffwd/chainstate_coming/` grow by commits of ascending keys. Both marks of a commit are written before
//! it, so that a crash at any time leaves the tables at one of them. A resumed load reads the coins back from the
//! tables and hashes them: only the tables count, not earlier reads. A stream that cannot seek starts from the
//! beginning each time.

use super::stream::{Got, READ_PATIENCE, SnapshotStream, StreamedSnapshot};
use crate::fault::{Fault, Message};
use crate::pipeline::stats::Snapshot;
use crate::reporting::Reporter;
use crate::reporting::disk_space::SpaceWait;
use crate::reporting::state::Loading;
use crate::snapshot::fill::{Batch, FAILED, tell};
use crate::snapshot::room::{Room, look_at_room};
use crate::threads;
use crate::utxo_stats::hashed::{self, HashedCoins};
use kernels::sha256::Sha256;
use primitives::snapshot::{CoinsMark, CoinsParser, ENTRY_BYTES_MAX, HEADER_BYTES, Next, SnapshotHeader};
use primitives::{CoinKey, CoinRef, Hash256, Height, Txid, human};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use store::chainstate::Chainstate;
use store::private_files::PrivateDir;
use store::{Host, Layout};

/// Private file with the progress.
const COMING: &str = "snapshot_coming";
const VERSION: u8 = 1;
const MARK_BYTES: usize = 24;
const CHECKSUM_BYTES: usize = 4;
const COMING_BYTES: usize = 1 + HEADER_BYTES + 32 + 8 + 2 * MARK_BYTES + CHECKSUM_BYTES;
/// Bytes per read.
const PIECE_BYTES: usize = 128 << 10;
/// Pieces between the reading and the writing thread.
const PIECES_AHEAD: usize = 8;
/// Divisor: a commit is due after this share of the file, within these bounds, and after this time. A kill loses at
/// most this share.
const COMMIT_SHARE: u64 = 64;
const COMMIT_BYTES_MIN: u64 = 256 << 10;
const COMMIT_BYTES_MAX: u64 = 128 << 20;
const COMMIT_INTERVAL: Duration = Duration::from_secs(60);

/// The snapshot to load.
pub(super) struct Wanted<'a> {
    pub(super) host: &'a Host,
    pub(super) layout: &'a Layout,
    pub(super) given: &'a StreamedSnapshot,
    /// Height of the base block.
    pub(super) height: Height,
    /// The required hash of its coins.
    pub(super) hash: Hash256,
    /// Counters of the earlier parts of the sync, for the displays.
    pub(super) stats: &'a Snapshot,
}

/// How an attempt ended.
enum Ended {
    /// The set is complete, and has the required hash.
    Whole,
    /// The bytes are not those of the required set.
    Wrong {
        /// Why.
        why: String,
        /// Whether coins of an earlier run are among them.
        has_resumed: bool,
    },
}

/// Removes the data of a snapshot that is no longer needed.
///
/// # Errors
///
/// An I/O error.
pub(crate) fn forget(private: &PrivateDir, disk: &dyn disk::Disk, layout: &Layout) -> Result<(), store::Fault> {
    private.remove(COMING)?;
    store::chainstate::remove_if_there(disk, &layout.coming_snapshot_dir())
}

/// Makes the chainstate in [`Layout::coming_snapshot_dir`], closed and durable.
///
/// # Errors
///
/// The stream ended early, or the user stopped it: received data is kept if the stream can seek. The bytes are those of
/// another set: nothing is kept. An I/O error.
pub(super) fn fill_coming(wanted: &Wanted<'_>, reporter: &Reporter<'_>) -> Result<(), Fault> {
    let base = wanted.given.header.base;
    reporter.note(format!(
        "[snapshot] loading {} coins from snapshot {base} ({})",
        wanted.given.header.coins, wanted.given.name
    ));
    let bytes = wanted.given.stream.lock().bytes();
    if let Some(bytes) = bytes.filter(|_| wanted.kept().is_empty()) {
        look_at_room(wanted.host, wanted.layout, bytes, reporter)?;
    }
    let done = tries(wanted, reporter);
    reporter.last_progress(wanted.stats.clone());
    reporter.loading(None);
    done
}

fn tries(wanted: &Wanted<'_>, reporter: &Reporter<'_>) -> Result<(), Fault> {
    let can_seek = wanted.given.stream.lock().can_seek();
    loop {
        let mut room = Room::default();
        let ended = match can_seek {
            true => SpaceWait::default().repeat(reporter, |begun| {
                // Before all coins are read back, and a piece is downloaded again.
                room.begin_try(wanted.host, wanted.layout, wanted.next_commit_bytes(), reporter)?;
                begun();
                try_fill(wanted, &mut room, reporter)
            }),
            false => try_fill(wanted, &mut room, reporter),
        };
        let why = match ended {
            Ok(Ended::Whole) => return Ok(()),
            Ok(Ended::Wrong { why, has_resumed: true }) => {
                wanted.forget()?;
                let advice = "No action is needed: it starts again, because the data of an earlier run may be wrong";
                reporter.warn(Message::new(format!("{FAILED}{why}"), advice));
                continue;
            }
            Ok(Ended::Wrong { why, has_resumed: false }) => why,
            Err(fault) if can_seek => return Err(fault),
            Err(fault) => {
                wanted.forget()?;
                return Err(fault);
            }
        };
        wanted.forget()?;
        let again = wanted.given.stream.lock().try_others();
        say_notes(&mut *wanted.given.stream.lock(), reporter);
        match again {
            Some(how) => {
                let advice = "No action is needed: the bytes of the other mirror are checked in the same way";
                reporter.warn(Message::new(format!("{FAILED}{why}. {how}"), advice));
            }
            None => return Err(Fault::refused(format!("{FAILED}{why}. ({})", wanted.given.name), super::LOAD_ADVICE)),
        }
    }
}

impl Wanted<'_> {
    fn private(&self) -> PrivateDir {
        PrivateDir::new(self.host.disk.clone(), self.layout.private_dir())
    }

    fn forget(&self) -> Result<(), Fault> {
        Ok(forget(&self.private(), &*self.host.disk, self.layout)?)
    }

    /// The part of the progress file before its marks.
    fn head(&self) -> Vec<u8> {
        let bytes = self.given.stream.lock().bytes().unwrap_or(0);
        [&[VERSION][..], &self.given.header.encode(), &self.hash.0, &bytes.to_le_bytes()].concat()
    }

    /// The marks of an earlier run of this snapshot, if any.
    fn kept(&self) -> Vec<CoinsMark> {
        let head = self.head();
        let kept = self.private().read(COMING, COMING_BYTES).ok().flatten().unwrap_or_default();
        let (note, sum) = kept.split_at(kept.len().saturating_sub(CHECKSUM_BYTES));
        let is_sound = kept.len() == COMING_BYTES && note.starts_with(&head) && sum == checksum(note);
        let marks = note.get(head.len()..).filter(|_| is_sound).unwrap_or_default();
        marks.chunks_exact(MARK_BYTES).map(decode_mark).collect()
    }

    /// Bytes of the stream up to the next commit, or to its end: approximately the bytes that tables need for it.
    fn next_commit_bytes(&self) -> u64 {
        let all = self.given.stream.lock().bytes();
        let offset = self.kept().first().map_or(0, |mark| mark.offset);
        all.map_or(u64::MAX, |all| all.saturating_sub(offset)).min(commit_bytes(all))
    }
}

/// Bytes of a commit in a stream of `all` bytes.
fn commit_bytes(all: Option<u64>) -> u64 {
    all.map_or(COMMIT_BYTES_MAX, |all| all / COMMIT_SHARE).clamp(COMMIT_BYTES_MIN, COMMIT_BYTES_MAX)
}

fn checksum(note: &[u8]) -> [u8; CHECKSUM_BYTES] {
    *kernels::sha256::sha256(note).first_chunk().expect("4 of 32 bytes")
}

fn encode_mark(mark: &CoinsMark) -> [u8; MARK_BYTES] {
    let mut out = [0; MARK_BYTES];
    for (place, number) in out.chunks_exact_mut(8).zip([mark.offset, mark.count, mark.left_in_group]) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    out
}

fn decode_mark(bytes: &[u8]) -> CoinsMark {
    let number = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("a mark has 24 bytes"));
    CoinsMark { offset: number(0), count: number(8), left_in_group: number(16) }
}

/// The state of reading: the position, and the totals of the coins so far.
struct Reading {
    parser: CoinsParser,
    sha: Sha256,
    hashed: HashedCoins,
    last: Option<CoinKey>,
    /// Bytes that are read but not parsed.
    buffer: Vec<u8>,
}

impl Reading {
    fn new(header: &SnapshotHeader, height: Height) -> Reading {
        Reading {
            parser: CoinsParser::new(header, height),
            sha: Sha256::new(),
            hashed: HashedCoins::default(),
            last: None,
            buffer: Vec::new(),
        }
    }

    fn hash_ready(&mut self) {
        self.sha.update(self.hashed.ready());
        self.hashed.ready().clear();
    }

    /// Parses the buffered bytes as far as possible; returns whether all coins are read.
    ///
    /// # Errors
    ///
    /// The bytes are not coins, or the coins are in another order: the reason.
    fn parse(&mut self, batch: &mut Batch, is_last: bool) -> Result<bool, String> {
        let mut at = 0;
        let is_end = loop {
            let rest = &self.buffer[at..];
            // Enough bytes to decide, so that nothing is parsed twice.
            if !is_last && rest.len() < ENTRY_BYTES_MAX {
                break false;
            }
            let (next, taken) = self.parser.next(rest, is_last).map_err(|why| why.to_string())?;
            at += taken;
            match next {
                Next::Coin(coin) => {
                    let key = CoinKey::new(&coin.outpoint);
                    if self.last.is_some_and(|last| last >= key) {
                        return Err(format!(
                            "coin {} follows one that belongs after it (near byte {}): not in the order that \
                             Core writes, which a stream must have; a file may have any order",
                            coin.outpoint,
                            self.parser.offset()
                        ));
                    }
                    self.last = Some(key);
                    self.hashed.push(&coin.outpoint, &coin.coin);
                    batch.push(&key, &coin);
                }
                Next::More => break false,
                Next::End => break true,
            }
        };
        self.buffer.drain(..at);
        self.hash_ready();
        Ok(is_end)
    }

    fn finish(mut self) -> Hash256 {
        self.sha.update(&self.hashed.take());
        hashed::finish(self.sha)
    }
}

/// Coins for the tables. If `mark` is set, they are committed with it; it is the position after them.
struct Piece {
    batch: Batch,
    mark: Option<CoinsMark>,
}

fn try_fill(wanted: &Wanted<'_>, room: &mut Room, reporter: &Reporter<'_>) -> Result<Ended, Fault> {
    let mut reading = match go_on(wanted, reporter)? {
        Some(reading) => reading,
        None => {
            wanted.forget()?;
            Reading::new(&wanted.given.header, wanted.height)
        }
    };
    let dir = wanted.layout.coming_snapshot_dir();
    let coins = Chainstate::open(wanted.host, &dir)?;
    let begun = reading.parser.mark();
    let has_resumed = begun.count > 0;
    let mut mark = begun;
    let head = wanted.head();
    let read = std::thread::scope(|scope| {
        let (pieces, receiver) = sync_channel::<Piece>(PIECES_AHEAD);
        let coins = &coins;
        let head = &head[..];
        let mark = &mut mark;
        let writing = threads::spawn(scope, "coins.write", move || write_pieces(wanted, head, coins, mark, receiver))?;
        let read = read_coins(wanted, &mut reading, pieces, reporter);
        writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        read
    });
    if mark.count > begun.count {
        room.moved_on();
    }
    if let Some(why) = read? {
        let why = format!("{why}. The hash of the coins is to be {}", wanted.hash);
        return Ok(Ended::Wrong { why, has_resumed });
    }
    let got = reading.finish();
    if got != wanted.hash {
        let why = format!("Bad snapshot content hash: expected {}, got {got}", wanted.hash);
        return Ok(Ended::Wrong { why, has_resumed });
    }
    coins.settle()?;
    Ok(Ended::Whole)
}

/// Resumes from the tables of an earlier run; `None` without usable ones.
fn go_on(wanted: &Wanted<'_>, reporter: &Reporter<'_>) -> Result<Option<Reading>, Fault> {
    let dir = wanted.layout.coming_snapshot_dir();
    let marks = wanted.kept();
    if marks.is_empty() || !wanted.given.stream.lock().can_seek() || !Chainstate::exists(&*wanted.host.disk, &dir)? {
        return Ok(None);
    }
    reporter.note("[snapshot] reading back what came before");
    let (mut reading, count) = match read_back(wanted, reporter) {
        Ok(read) => read,
        Err(Fault::Store(why)) if !why.is_no_space() => {
            reporter.note(format!("[snapshot] earlier data is damaged, starting again: {why}"));
            return Ok(None);
        }
        Err(fault) => return Err(fault),
    };
    let header = &wanted.given.header;
    let resumed = marks.iter().find(|mark| mark.count == count).and_then(|mark| {
        let last = reading.last.map_or(Txid::from_bytes([0; 32]), |last| last.outpoint().txid);
        Some((mark, CoinsParser::resume(header, wanted.height, mark, last)?))
    });
    let Some((mark, parser)) = resumed else { return Ok(None) };
    reading.parser = parser;
    reporter.note(format!("[snapshot] going on at byte {}, behind {} coins", mark.offset, human::count(mark.count)));
    Ok(Some(reading))
}

/// Reads and hashes the coins in the tables; the second result is their number.
fn read_back(wanted: &Wanted<'_>, reporter: &Reporter<'_>) -> Result<(Reading, u64), Fault> {
    let coins = Chainstate::open_read_only(wanted.host, &wanted.layout.coming_snapshot_dir())?;
    let mut records = coins.view().coins()?;
    let mut reading = Reading::new(&wanted.given.header, wanted.height);
    let mut count = 0_u64;
    while let Some((outpoint, stored)) = records.next_coin()? {
        let Ok(coin) = CoinRef::decode(stored) else { break };
        reading.hashed.push(&outpoint, &coin);
        reading.last = Some(CoinKey::new(&outpoint));
        count += 1;
        if count.is_multiple_of(1 << 12) {
            reading.hash_ready();
            if reporter.is_stopping() {
                return Err(stopped(true, reporter));
            }
        }
    }
    Ok((reading, count))
}

/// The user's stop. What came of the stream is kept only if it can be read from any place on.
fn stopped(can_seek: bool, reporter: &Reporter<'_>) -> Fault {
    let next = if can_seek { "continues with the data already received" } else { "begins again" };
    reporter.note(format!("[snapshot] stopped while it was received: the same command {next}"));
    Fault::Stopped
}

/// Reads to the end of the file; returns what was wrong with its bytes. However it ends, the coins read so far are
/// committed.
fn read_coins(
    wanted: &Wanted<'_>,
    reading: &mut Reading,
    pieces: SyncSender<Piece>,
    reporter: &Reporter<'_>,
) -> Result<Option<String>, Fault> {
    let mut stream = wanted.given.stream.lock();
    let can_seek = stream.can_seek();
    if can_seek {
        stream.seek(reading.parser.offset()).map_err(Fault::Refused)?;
    }
    let mut pace = Pace::new(reading.parser.offset());
    loop {
        let kept = reading.buffer.len();
        reading.buffer.resize(kept + PIECE_BYTES, 0);
        let got = match reporter.is_stopping() {
            true => Err(stopped(can_seek, reporter)),
            false => stream
                .read(&mut reading.buffer[kept..], READ_PATIENCE)
                .map_err(|why| Fault::refused(format!("{FAILED}{}", why.what()), why.advice())),
        };
        let bytes = if let Ok(Got::Bytes(bytes)) = got { bytes } else { 0 };
        reading.buffer.truncate(kept + bytes);
        say_notes(&mut *stream, reporter);
        let mut batch = Batch::default();
        let before = reading.parser.count();
        let is_end = match reading.parse(&mut batch, matches!(got, Ok(Got::End))) {
            Ok(is_end) => is_end,
            Err(why) => return Ok(Some(why)),
        };
        tell(reporter, before, reading.parser.count(), wanted.given.header.coins);
        let all = stream.bytes();
        pace.show(reading.parser.offset(), all, wanted.stats, reporter);
        let is_due = is_end || can_seek && (got.is_err() || pace.is_commit_due(reading.parser.offset(), all));
        // The writer has ended with a fault, which joining it returns.
        if pieces.send(Piece { batch, mark: is_due.then(|| reading.parser.mark()) }).is_err() {
            return Ok(None);
        }
        if got? == Got::End || is_end {
            return Ok(None);
        }
    }
}

fn say_notes(stream: &mut dyn SnapshotStream, reporter: &Reporter<'_>) {
    stream.notes().into_iter().for_each(|note| reporter.note(format!("[snapshot] {note}")));
}

/// Writes tables, and commits them when a piece has a mark. `mark` is that of the existing tables, also after a fault.
fn write_pieces(
    wanted: &Wanted<'_>,
    head: &[u8],
    coins: &Chainstate,
    mark: &mut CoinsMark,
    pieces: Receiver<Piece>,
) -> Result<(), store::Fault> {
    let private = wanted.private();
    let base = wanted.given.header.base;
    let mut commit = coins.begin_commit_behind(base)?;
    let mut part = commit.next_part()?;
    for piece in pieces {
        piece.batch.write(&mut part)?;
        let Some(behind) = piece.mark else { continue };
        part.finish()?;
        let note = [head, &encode_mark(mark), &encode_mark(&behind)].concat();
        private.write(COMING, &[&note[..], &checksum(&note)].concat())?;
        commit.finish()?;
        *mark = behind;
        commit = coins.begin_commit_behind(base)?;
        part = commit.next_part()?;
    }
    Ok(())
}

/// Download speed, and when a commit is due.
struct Pace {
    begun: Instant,
    offset_begun: u64,
    committed: Instant,
    offset_committed: u64,
}

impl Pace {
    fn new(offset: u64) -> Pace {
        let now = Instant::now();
        Pace { begun: now, offset_begun: offset, committed: now, offset_committed: offset }
    }

    fn is_commit_due(&mut self, offset: u64, all: Option<u64>) -> bool {
        let new = offset - self.offset_committed;
        let is_due = new >= commit_bytes(all) || new >= COMMIT_BYTES_MIN && self.committed.elapsed() >= COMMIT_INTERVAL;
        if is_due {
            self.committed = Instant::now();
            self.offset_committed = offset;
        }
        is_due
    }

    fn show(&self, offset: u64, all: Option<u64>, stats: &Snapshot, reporter: &Reporter<'_>) {
        let seconds = self.begun.elapsed().as_secs_f64();
        let rate = (offset - self.offset_begun) as f64 / seconds.max(1e-3);
        let left = all.map(|all| all.saturating_sub(offset) as f64 / rate).filter(|_| seconds >= 1.0 && rate > 0.0);
        reporter.loading(Some(Loading { bytes: offset, bytes_end: all, seconds_left: left.map(|left| left as u64) }));
        reporter.progress(|| stats.clone());
    }
}

#[cfg(test)]
mod tests;
