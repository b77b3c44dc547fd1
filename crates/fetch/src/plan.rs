//! Which range of the file comes from which mirror, which bytes are delivered, and which mirror is dropped. No
//! socket, clock or thread: times are arguments, and the threads with the sockets ask for their next task.
//!
//! ```text
//! file:    |-- given on --|-- piece --|-- piece --|-- piece --|     the window: at most [`WINDOW_PIECES`] pieces in memory
//! mirrors:                 a holds      b holds     free
//! ```
//!
//! A piece is filled from its start, by the mirror that holds it; if that mirror fails, another continues. With two
//! mirrors or more, each piece is delivered only after another mirror sent the same bytes for a small sample of it,
//! at a random offset. If two mirrors differ, a third decides. Without a third mirror, the one that the user named
//! first is trusted; if the whole file then proves wrong, [`Plan::try_others`] starts again without it.
//! A mirror without ranges sends the whole file in order, and is used only while no other is left.

mod piece;

use crate::http::{Body, Failure};
use p2p::rng::Rng;
use piece::{Piece, Sample};
use std::collections::VecDeque;
use std::time::Duration;

/// Maximum number of pieces in memory.
pub const WINDOW_PIECES: usize = 8;
/// Number of pieces of a file, unless their size in bytes would exceed these bounds.
const PIECE_SHARE: u64 = 64;
const PIECE_BYTES_MIN: u64 = 256 << 10;
const PIECE_BYTES_MAX: u64 = 4 << 20;
/// Size of a sample: that of a piece divided by this number, with this minimum in bytes.
const SAMPLE_SHARE: u64 = 32;
const SAMPLE_BYTES_MIN: u64 = 1 << 10;
/// If a piece hardly grew for this time and another mirror is idle, it is reassigned.
const PATIENCE: Duration = Duration::from_secs(2);
/// Consecutive failures without a byte after which a mirror is dropped: a mirror that has sent nothing yet, and one
/// that has.
const FAILURES_MAX_NEW: u32 = 3;
const FAILURES_MAX: u32 = 10;
/// Pause after the first such failure; doubled with each further one.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Next task of a mirror.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Task {
    /// Request this number of bytes from the start of the file.
    Probe(u64),
    /// Request the bytes from `from` on, to `to` or the end, and read while [`Plan::room`] allows it.
    Range {
        /// Offset of the first byte.
        from: u64,
        /// Offset of the end; `None`: the end of the file.
        to: Option<u64>,
    },
    /// Request a sample for comparison.
    Sample {
        /// Offset of the first byte.
        from: u64,
        /// Offset of the end.
        to: u64,
    },
    /// Request the whole file; bytes before `needed` are discarded.
    Whole {
        /// Offset of the first byte that is needed.
        needed: u64,
    },
    /// Wait, at most for this time.
    Rest(Duration),
}

/// Whether a mirror may deliver the next byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// Up to this number of bytes.
    Bytes(u64),
    /// Not yet: the window is full.
    Wait,
    /// No: another mirror delivers it, or it is already there.
    Stop,
}

/// Result of a read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Taken {
    /// Number of bytes read.
    Bytes(usize),
    /// No bytes yet.
    Nothing,
    /// End of the file.
    End,
    /// No mirror is left: each, and why.
    Failed(String),
}

/// What to do with undelivered bytes of a dropped mirror.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sent {
    /// Keep them: they are not in doubt.
    Kept,
    /// Discard them: they may be false.
    ThrownAway,
}

/// State of a mirror.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Kind {
    /// Not asked yet.
    New,
    /// It supports ranges.
    Ranges,
    /// It sends the whole file each time.
    Whole,
    /// Dropped: the reason.
    Dropped(String),
}

#[derive(Clone, Debug)]
struct Mirror {
    name: String,
    kind: Kind,
    /// Length and version of the file in its first answer.
    said: Option<(u64, Option<String>)>,
    failures: u32,
    rests_until: Duration,
    has_given: bool,
}

impl Mirror {
    fn is_used(&self) -> bool {
        !matches!(self.kind, Kind::Dropped(_))
    }
}

/// The transfer of one file.
#[derive(Debug)]
pub struct Plan {
    mirrors: Vec<Mirror>,
    /// The first bytes of a file of this kind.
    magic: Vec<u8>,
    probe_bytes: u64,
    /// The first bytes as sent by the first mirror.
    first: Option<Vec<u8>>,
    total: Option<u64>,
    piece_bytes: u64,
    pieces: VecDeque<Piece>,
    /// Offset of the next byte to deliver.
    next: u64,
    /// Whether the reader has asked for more than the first bytes. Until then nothing else is fetched because the
    /// reader may continue at another offset.
    has_begun: bool,
    /// The mirror that currently sends the whole file.
    whole: Option<usize>,
    /// Pairs of mirrors that differ: the trusted one, and the other.
    disputes: Vec<(usize, usize)>,
    notes: Vec<String>,
    rng: Rng,
}

impl Plan {
    /// A download of a file that begins with `magic` from mirrors with these names. Their first `probe_bytes` bytes
    /// are compared first. `rng` chooses the offsets of samples.
    pub fn new(names: Vec<String>, magic: &[u8], probe_bytes: u64, rng: Rng) -> Plan {
        let mirror = |name| Mirror {
            name,
            kind: Kind::New,
            said: None,
            failures: 0,
            rests_until: Duration::ZERO,
            has_given: false,
        };
        Plan {
            mirrors: names.into_iter().map(mirror).collect(),
            magic: magic.to_vec(),
            probe_bytes,
            first: None,
            total: None,
            piece_bytes: PIECE_BYTES_MIN,
            pieces: VecDeque::new(),
            next: 0,
            has_begun: false,
            whole: None,
            disputes: Vec::new(),
            notes: Vec::new(),
            rng,
        }
    }

    /// Length of the file, once known.
    pub fn total(&self) -> Option<u64> {
        self.total
    }

    /// Sets the offset of the next byte to deliver.
    pub fn seek(&mut self, offset: u64) {
        if offset != self.next {
            self.begin_at(offset);
        }
    }

    fn begin_at(&mut self, offset: u64) {
        self.next = offset;
        self.pieces.clear();
        self.whole = None;
        // The first bytes were already received.
        let first = self.first.as_ref().map_or(0, |first| first.len() as u64);
        self.has_begun &= offset >= first;
    }

    /// The next task of a mirror.
    pub fn task(&mut self, mirror: usize, now: Duration) -> Task {
        self.fill_window(now);
        let is_over = self.total.is_some_and(|total| self.next >= total);
        let rests_until = self.mirrors[mirror].rests_until;
        if now < rests_until {
            return Task::Rest((rests_until - now).min(PATIENCE));
        }
        match self.mirrors[mirror].kind {
            Kind::Dropped(_) => Task::Rest(PATIENCE),
            Kind::New => Task::Probe(self.probe_bytes),
            _ if is_over || !self.has_begun => Task::Rest(PATIENCE),
            Kind::Ranges => self.ranged_task(mirror, now).unwrap_or(Task::Rest(PATIENCE)),
            Kind::Whole => self.whole_task(mirror).unwrap_or(Task::Rest(PATIENCE)),
        }
    }

    fn ranged_task(&mut self, mirror: usize, now: Duration) -> Option<Task> {
        for piece in &mut self.pieces {
            if let Sample::Wanted { not_from, other } = &mut piece.sample
                && !not_from.contains(&mirror)
            {
                piece.sample = Sample::Asked { by: mirror, other: other.take() };
                let (from, to) = piece.sample_at;
                return Some(Task::Sample { from, to });
            }
        }
        let may_send = |one: &&Mirror| matches!(one.kind, Kind::New | Kind::Ranges);
        let is_alone = self.mirrors.iter().filter(may_send).count() == 1;
        let free = self.pieces.iter_mut().find(|piece| !piece.is_whole() && piece.holder.is_none());
        let piece = match free {
            Some(piece) => piece,
            None => self.pieces.iter_mut().find(|piece| piece.holder != Some(mirror) && piece.stalls(now, PATIENCE))?,
        };
        piece.assign(mirror, now);
        let from = piece.next();
        let to = (!is_alone).then_some(piece.end);
        Some(Task::Range { from, to })
    }

    fn whole_task(&mut self, mirror: usize) -> Option<Task> {
        let is_needed = self.mirrors.iter().all(|other| !matches!(other.kind, Kind::New | Kind::Ranges));
        if !is_needed || self.whole.is_some_and(|other| other != mirror) {
            return None;
        }
        self.whole = Some(mirror);
        let piece = self.pieces.iter_mut().find(|piece| !piece.is_whole())?;
        piece.holder = Some(mirror);
        Some(Task::Whole { needed: piece.next() })
    }

    /// Records an answer of a mirror; `first` are the first bytes of the file, if they were requested.
    ///
    /// # Errors
    ///
    /// Why the mirror was dropped.
    pub fn offered(&mut self, mirror: usize, body: &Body, first: Option<&[u8]>) -> Result<(), String> {
        let known = &self.mirrors[mirror];
        let said = (body.total, body.tag.clone());
        let why = match (&known.said, self.total, first, &self.first) {
            (Some(before), ..) if before.0 != said.0 => {
                Some(format!("its file has changed: it had {} bytes, and has {} now", before.0, said.0))
            }
            (Some(before), ..) if before.1 != said.1 => Some("its file has changed (ETag or Last-Modified)".to_owned()),
            (_, Some(total), ..) if total != body.total => {
                Some(format!("its file has {} bytes, and that of the others {total}", body.total))
            }
            (_, _, Some(first), _) if !first.starts_with(&self.magic) => Some("its file is not a snapshot".to_owned()),
            (_, _, Some(first), Some(other)) if first != other => Some("its file is another snapshot".to_owned()),
            _ => None,
        };
        if let Some(why) = why {
            self.drop_mirror(mirror, &why, Sent::ThrownAway);
            return Err(why);
        }
        if self.total.is_none() {
            self.total = Some(body.total);
            self.piece_bytes = (body.total / PIECE_SHARE).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX);
        }
        if let Some(first) = first {
            self.first.get_or_insert_with(|| first.to_vec());
        }
        let known = &mut self.mirrors[mirror];
        known.said = Some(said);
        if known.kind == Kind::New {
            known.kind = if body.has_ranges { Kind::Ranges } else { Kind::Whole };
            if !body.has_ranges {
                self.notes.push(format!("{}: sends no ranges, but the whole file each time", known.name));
            }
        }
        Ok(())
    }

    /// Whether the front piece may be delivered; decides between mirrors that differ if no other is left.
    fn is_front_sound(&mut self) -> bool {
        let ranged: Vec<usize> =
            (0..self.mirrors.len()).filter(|&one| self.mirrors[one].kind == Kind::Ranges).collect();
        // A mirror without an answer may become the second one: it answers, or fails, before the first piece counts.
        if self.mirrors.iter().any(|mirror| mirror.kind == Kind::New && mirror.failures == 0) {
            return false;
        }
        let Some(piece) = self.pieces.front_mut() else { return false };
        if ranged.len() < 2 {
            return true;
        }
        let other = match &mut piece.sample {
            Sample::Done => return true,
            Sample::Wanted { not_from, other } if ranged.iter().all(|one| not_from.contains(one)) => other.take(),
            Sample::None | Sample::Wanted { .. } | Sample::Asked { .. } => return false,
        };
        piece.sample = Sample::Done;
        let sources = piece.sample_sources();
        let at = piece.sample_at.0;
        match other {
            None => true,
            Some((other, _)) => {
                self.dispute(&sources, other, at);
                false
            }
        }
    }

    /// Whether `mirror` may deliver the byte at `from` now, and how many bytes.
    pub fn room(&mut self, mirror: usize, from: u64, now: Duration) -> Room {
        self.fill_window(now);
        if !self.mirrors[mirror].is_used() || self.total.is_none_or(|total| from >= total) || from < self.next {
            return Room::Stop;
        }
        let Some(piece) = self.pieces.iter_mut().find(|piece| from < piece.end) else { return Room::Wait };
        if piece.holder.is_none() && piece.next() == from {
            piece.assign(mirror, now);
        }
        let is_its = piece.holder == Some(mirror) && piece.next() == from;
        if is_its { Room::Bytes(piece.end - from) } else { Room::Stop }
    }

    /// Stores bytes that arrived at `from`, within the room granted.
    pub fn came(&mut self, mirror: usize, from: u64, bytes: &[u8], now: Duration) {
        let is_used = self.mirrors[mirror].is_used();
        let place = self.pieces.iter_mut().find(|piece| {
            piece.holder == Some(mirror) && piece.next() == from && bytes.len() as u64 <= piece.end - from
        });
        let Some(piece) = place.filter(|_| is_used) else { return };
        piece.grow(mirror, bytes, now);
        if piece.is_whole() {
            piece.want_sample((self.piece_bytes / SAMPLE_SHARE).max(SAMPLE_BYTES_MIN), &mut self.rng);
        }
        let known = &mut self.mirrors[mirror];
        known.failures = 0;
        known.has_given = true;
    }

    /// Compares the bytes of a sample.
    pub fn sampled(&mut self, mirror: usize, from: u64, bytes: Vec<u8>) {
        self.mirrors[mirror].failures = 0;
        let asked = |piece: &&mut Piece| {
            piece.sample_at.0 == from && matches!(piece.sample, Sample::Asked { by, .. } if by == mirror)
        };
        let Some(piece) = self.pieces.iter_mut().find(asked) else { return };
        let Sample::Asked { other, .. } = std::mem::replace(&mut piece.sample, Sample::Done) else { return };
        let is_same = piece.sampled() == bytes;
        let sources = piece.sample_sources();
        match other {
            None if is_same => {}
            None => {
                let mut not_from = sources.clone();
                not_from.push(mirror);
                let has_judge = (0..self.mirrors.len())
                    .any(|one| self.mirrors[one].kind == Kind::Ranges && !not_from.contains(&one));
                if has_judge {
                    piece.sample = Sample::Wanted { not_from, other: Some((mirror, bytes)) };
                } else {
                    self.dispute(&sources, mirror, from);
                }
            }
            Some((liar, _)) if is_same => self.drop_liar(liar, from),
            Some((_, said)) if said == bytes => sources.iter().for_each(|&liar| self.drop_liar(liar, from)),
            // All three differ.
            Some((other, _)) => {
                self.drop_liar(mirror, from);
                self.dispute(&sources, other, from);
            }
        }
    }

    fn drop_liar(&mut self, mirror: usize, at: u64) {
        self.drop_mirror(mirror, &format!("it sends other bytes than two others near byte {at}"), Sent::ThrownAway);
    }

    /// `sources` and `other` differ, and there is no third mirror: the one named first is trusted.
    fn dispute(&mut self, sources: &[usize], other: usize, at: u64) {
        for &source in sources {
            let (kept, dropped) = if source < other { (source, other) } else { (other, source) };
            if self.mirrors[kept].is_used() && self.mirrors[dropped].is_used() {
                let why = format!(
                    "it and {} send different bytes near byte {at}, and there is no third mirror to decide",
                    self.mirrors[kept].name
                );
                self.drop_mirror(dropped, &why, Sent::ThrownAway);
                self.disputes.push((kept, dropped));
            }
        }
    }

    /// Drops a mirror.
    fn drop_mirror(&mut self, mirror: usize, why: &str, sent: Sent) {
        if !self.mirrors[mirror].is_used() {
            return;
        }
        self.mirrors[mirror].kind = Kind::Dropped(why.to_owned());
        self.notes.push(format!("{}: not used any more: {why}", self.mirrors[mirror].name));
        self.let_go(mirror);
        for piece in &mut self.pieces {
            if sent == Sent::ThrownAway && piece.given == 0 && piece.sources.iter().any(|(source, _)| *source == mirror)
            {
                piece.throw_away();
            }
        }
    }

    /// Releases the pieces and samples that a mirror holds.
    fn let_go(&mut self, mirror: usize) {
        if self.whole == Some(mirror) {
            self.whole = None;
        }
        for piece in &mut self.pieces {
            if piece.holder == Some(mirror) {
                piece.holder = None;
            }
            if let Sample::Asked { by, other } = &mut piece.sample
                && *by == mirror
            {
                let other = other.take();
                let mut not_from = piece.sample_sources();
                not_from.extend(other.iter().map(|(source, _)| *source));
                piece.sample = Sample::Wanted { not_from, other };
            }
        }
    }

    /// A mirror has finished its task, or is to get another.
    pub fn done(&mut self, mirror: usize) {
        self.let_go(mirror);
    }

    /// Records a failure of a mirror.
    pub fn failed(&mut self, mirror: usize, why: &Failure, now: Duration) {
        self.let_go(mirror);
        let known = &mut self.mirrors[mirror];
        let why = match why {
            Failure::Never(why) => why.clone(),
            Failure::Later(why) => {
                known.failures += 1;
                let max = if known.has_given { FAILURES_MAX } else { FAILURES_MAX_NEW };
                if known.failures < max {
                    // The first failure after bytes arrived costs no pause: servers cut connections, and continue.
                    let pause = if known.has_given && known.failures == 1 {
                        Duration::ZERO
                    } else {
                        PAUSE.saturating_mul(1 << (known.failures - 1)).min(PAUSE_MAX)
                    };
                    known.rests_until = now + pause;
                    if known.failures == 2 {
                        self.notes.push(format!("{}: {why}; it is tried again", known.name));
                    }
                    return;
                }
                format!("{why} ({max} times)")
            }
        };
        self.drop_mirror(mirror, &why, Sent::Kept);
    }

    /// Delivers bytes to the reader.
    pub fn take(&mut self, out: &mut [u8]) -> Taken {
        if self.total.is_some_and(|total| self.next >= total) {
            return Taken::End;
        }
        if let Some(first) = self.first.as_ref().filter(|first| self.next < first.len() as u64) {
            let rest = &first[self.next as usize..];
            let count = rest.len().min(out.len());
            out[..count].copy_from_slice(&rest[..count]);
            self.next += count as u64;
            return Taken::Bytes(count);
        }
        self.has_begun |= self.first.is_some();
        if self.is_front_sound()
            && let Some(piece) = self.pieces.front_mut()
        {
            let count = (piece.bytes.len() - piece.given).min(out.len());
            if count > 0 {
                out[..count].copy_from_slice(&piece.bytes[piece.given..piece.given + count]);
                piece.given += count;
                self.next += count as u64;
                if piece.start + piece.given as u64 == piece.end {
                    self.pieces.pop_front();
                }
                return Taken::Bytes(count);
            }
        }
        if self.mirrors.iter().any(Mirror::is_used) {
            return Taken::Nothing;
        }
        let each = self.mirrors.iter().map(|mirror| match &mirror.kind {
            Kind::Dropped(why) => format!("{}: {why}", mirror.name),
            _ => mirror.name.clone(),
        });
        Taken::Failed(each.collect::<Vec<_>>().join("; "))
    }

    /// Adds pieces up to the window's size.
    fn fill_window(&mut self, now: Duration) {
        let Some(total) = self.total.filter(|_| self.has_begun) else { return };
        while self.pieces.len() < WINDOW_PIECES {
            let start = self.pieces.back().map_or(self.next, |last| last.end);
            if start >= total {
                return;
            }
            let end = (start / self.piece_bytes + 1).saturating_mul(self.piece_bytes).min(total);
            self.pieces.push_back(Piece::empty(start, end, now));
        }
    }

    /// Removes and returns the messages for the log.
    pub fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// The file was wrong: drops the trusted mirror of a pair that differed, and starts again with the other. `None`
    /// if no two differed.
    pub fn try_others(&mut self) -> Option<String> {
        let (kept, other) = self.disputes.pop()?;
        self.drop_mirror(kept, "what came with it has another hash", Sent::ThrownAway);
        let mirror = &mut self.mirrors[other];
        mirror.kind = Kind::New;
        mirror.failures = 0;
        let name = mirror.name.clone();
        self.begin_at(0);
        Some(format!(
            "Mirrors differ: it is tried again from the start, with {name} in place of {}",
            self.mirrors[kept].name
        ))
    }

    /// Bytes in memory.
    pub fn memory_bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.bytes.capacity()).sum()
    }
}

#[cfg(test)]
mod tests;
