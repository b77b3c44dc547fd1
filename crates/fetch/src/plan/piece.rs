//! A piece of the file in transfer: the mirror that fills it, the sources of its bytes, and the state of its sample.

use p2p::rng::Rng;
use std::time::Duration;

/// A piece that grows by fewer bytes in the plan's patience is as good as one that does not grow.
const GROWTH_BYTES_MIN: usize = 64 << 10;

/// State of a piece's sample.
#[derive(Clone, Debug)]
pub(super) enum Sample {
    /// The piece is not complete.
    None,
    /// It must be requested from a mirror not in this list; `other` sent bytes that differ from the piece.
    Wanted { not_from: Vec<usize>, other: Option<(usize, Vec<u8>)> },
    /// It was requested.
    Asked { by: usize, other: Option<(usize, Vec<u8>)> },
    /// The piece may be delivered.
    Done,
}

/// A piece of the file in memory.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) bytes: Vec<u8>,
    /// Number of bytes delivered.
    pub(super) given: usize,
    /// The mirror that fills it.
    pub(super) holder: Option<usize>,
    /// Time of its assignment, or of the last growth by [`GROWTH_BYTES_MIN`].
    grown_at: Duration,
    /// Its bytes at that time.
    grown_bytes: usize,
    /// Sources of its bytes: mirror, and end of its bytes in the piece.
    pub(super) sources: Vec<(usize, usize)>,
    pub(super) sample_at: (u64, u64),
    pub(super) sample: Sample,
}

impl Piece {
    pub(super) fn empty(start: u64, end: u64, now: Duration) -> Piece {
        Piece {
            start,
            end,
            bytes: Vec::new(),
            given: 0,
            holder: None,
            grown_at: now,
            grown_bytes: 0,
            sources: Vec::new(),
            sample_at: (start, start),
            sample: Sample::None,
        }
    }

    /// From now on `mirror` fills it.
    pub(super) fn assign(&mut self, mirror: usize, now: Duration) {
        self.holder = Some(mirror);
        self.grown_at = now;
        self.grown_bytes = self.bytes.len();
    }

    /// Whether it has hardly grown for this time.
    pub(super) fn stalls(&self, now: Duration, patience: Duration) -> bool {
        !self.is_whole() && now.saturating_sub(self.grown_at) >= patience
    }

    /// Appends bytes from a mirror.
    pub(super) fn grow(&mut self, mirror: usize, bytes: &[u8], now: Duration) {
        if self.bytes.is_empty() {
            self.bytes.reserve_exact((self.end - self.start) as usize);
        }
        self.bytes.extend_from_slice(bytes);
        let end = self.bytes.len();
        if end - self.grown_bytes >= GROWTH_BYTES_MIN {
            self.grown_at = now;
            self.grown_bytes = end;
        }
        match self.sources.last_mut() {
            Some((last, until)) if *last == mirror => *until = end,
            _ => self.sources.push((mirror, end)),
        }
    }

    /// The piece is complete: chooses a random offset for a sample of `bytes` bytes.
    pub(super) fn want_sample(&mut self, bytes: u64, rng: &mut Rng) {
        self.holder = None;
        let bytes = bytes.min(self.end - self.start);
        let places = (self.end - self.start - bytes + 1) as usize;
        let at = self.start + rng.below(places) as u64;
        self.sample_at = (at, at + bytes);
        let not_from = self.sample_sources();
        self.sample = Sample::Wanted { not_from, other: None };
    }

    /// Discards all its bytes.
    pub(super) fn throw_away(&mut self) {
        self.bytes.clear();
        self.grown_bytes = 0;
        self.sources.clear();
        self.holder = None;
        self.sample = Sample::None;
    }

    /// Offset of the next missing byte.
    pub(super) fn next(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    pub(super) fn is_whole(&self) -> bool {
        self.next() == self.end
    }

    /// The bytes with which a sample is compared.
    pub(super) fn sampled(&self) -> &[u8] {
        &self.bytes[(self.sample_at.0 - self.start) as usize..(self.sample_at.1 - self.start) as usize]
    }

    /// The mirrors that sent the bytes of the sample.
    pub(super) fn sample_sources(&self) -> Vec<usize> {
        let mut start = 0;
        let mut found = Vec::new();
        for &(mirror, end) in &self.sources {
            let overlaps = self.start + (start as u64) < self.sample_at.1 && self.start + end as u64 > self.sample_at.0;
            if overlaps && !found.contains(&mirror) {
                found.push(mirror);
            }
            start = end;
        }
        found
    }
}
