//! Header sync with a peer whose chain has not yet proven enough work to be stored.
//!
//! Presync: headers are checked and dropped, except for one bit of a salted hash of every `commitment_period`-th,
//! until their work reaches the threshold. Redownload: the same headers are requested again and compared with the
//! bits; they are released once `redownload_buffer_count` follow them, or the threshold is reached again. The bits
//! detect a peer that shows one chain and sends another.
//!
//! Memory of one peer: at most six bits a second since the start's median time past, divided by the period, and 48
//! bytes for each buffered header.
//!
//! Source: Bitcoin Core b88bffe, headerssync.cpp. The caller checks proof of work.

use crate::chain::{ChainView, HeaderInfo};
use crate::params::NetworkParams;
use crate::rng::Rng;
use primitives::{BlockHash, Header, Height, MedianTime, Work};
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};

/// Maximum time of a block ahead of the clock, in seconds. Source: `MAX_FUTURE_BLOCK_TIME`.
const FUTURE_BLOCK_S_MAX: u64 = 7200;

/// Fastest chain that median time past allows, in blocks a second. Source: headerssync.cpp.
const BLOCKS_PER_S_MAX: u64 = 6;

/// The current phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Work is counted.
    Presync,
    /// Headers are requested again.
    Redownload,
}

/// Result of [`LowWorkSync::process`].
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether they continue the sync; if not, it is over, and they may be processed normally.
    pub success: bool,
    /// Whether to request more with [`LowWorkSync::locator`]; if not, the sync is over.
    pub more: bool,
    /// Headers whose chain has enough work to be stored.
    pub headers: Vec<Header>,
}

/// A sync with one peer.
#[derive(Debug)]
pub struct LowWorkSync {
    phase: Phase,
    start: HeaderInfo,
    threshold: Work,
    period: u32,
    offset: u32,
    buffer_count: usize,
    commitments: Bits,
    commitments_max: usize,
    salt: RandomState,
    /// Presync: the last header, its hash, height and chain work.
    last: Header,
    last_hash: BlockHash,
    height: Height,
    work: Work,
    /// Redownload: buffered headers without the hash of their parent.
    buffer: VecDeque<[u8; 48]>,
    /// Parent of the first buffered header.
    buffer_prev: BlockHash,
    buffer_last_hash: BlockHash,
    buffer_last_bits: u32,
    buffer_height: Height,
    buffer_work: Work,
    let_all_through: bool,
}

impl LowWorkSync {
    /// Starts from `start`, which is in the tree, towards `threshold`.
    pub fn new(
        network: &NetworkParams,
        start: HeaderInfo,
        start_median_time_past: MedianTime,
        threshold: Work,
        unix_time: u64,
        rng: &mut Rng,
    ) -> LowWorkSync {
        let period = network.commitment_period;
        let seconds = (unix_time + FUTURE_BLOCK_S_MAX).saturating_sub(u64::from(start_median_time_past.to_u32()));
        let commitments_max = BLOCKS_PER_S_MAX * seconds / u64::from(period);
        LowWorkSync {
            phase: Phase::Presync,
            start,
            threshold,
            period,
            offset: u32::try_from(rng.below(period as usize)).expect("below a u32"),
            buffer_count: network.redownload_buffer_count,
            commitments: Bits::default(),
            commitments_max: usize::try_from(commitments_max).unwrap_or(usize::MAX),
            salt: RandomState::new(),
            last: start.header,
            last_hash: start.hash,
            height: start.height,
            work: start.work,
            buffer: VecDeque::new(),
            buffer_prev: start.hash,
            buffer_last_hash: start.hash,
            buffer_last_bits: start.header.bits(),
            buffer_height: start.height,
            buffer_work: start.work,
            let_all_through: false,
        }
    }

    /// The current phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Height that presync has reached.
    pub fn height(&self) -> Height {
        self.height
    }

    /// Work that presync has counted, from genesis on.
    pub fn work(&self) -> Work {
        self.work
    }

    /// Height that redownload has reached.
    pub fn redownload_height(&self) -> Height {
        self.buffer_height
    }

    /// Work that redownload has counted, from genesis on.
    pub fn redownload_work(&self) -> Work {
        self.buffer_work
    }

    /// The locator of the next request: `tail` is the locator of [`LowWorkSync::start`].
    pub fn locator(&self, tail: Vec<BlockHash>) -> Vec<BlockHash> {
        let first = match self.phase {
            Phase::Presync => self.last_hash,
            Phase::Redownload => self.buffer_last_hash,
        };
        std::iter::once(first).chain(tail).collect()
    }

    /// The header at which the sync started.
    pub fn start(&self) -> &HeaderInfo {
        &self.start
    }

    /// Processes the headers of one message: not empty, continuous, with valid proof of work.
    ///
    /// `full`: the message had the maximum number.
    pub fn process(&mut self, headers: &[Header], hashes: &[BlockHash], full: bool, chain: &dyn ChainView) -> Outcome {
        let over = |success| Outcome { success, more: false, headers: Vec::new() };
        if self.phase == Phase::Presync {
            if headers.first().is_none_or(|first| first.prev() != self.last_hash) {
                return over(false);
            }
            if !headers.iter().zip(hashes).all(|(header, hash)| self.look_at(header, hash, chain)) {
                return over(false);
            }
            if self.work >= self.threshold {
                self.phase = Phase::Redownload;
            }
            let more = full || self.phase == Phase::Redownload;
            return Outcome { success: true, more, headers: Vec::new() };
        }
        if !headers.iter().zip(hashes).all(|(header, hash)| self.store(header, hash, chain)) {
            return over(false);
        }
        let headers = self.let_through();
        let done = self.buffer.is_empty() && self.let_all_through;
        Outcome { success: true, more: full && !done, headers }
    }

    fn bit(&self, hash: &BlockHash) -> bool {
        self.salt.hash_one(hash.to_bytes()) & 1 == 1
    }

    fn look_at(&mut self, header: &Header, hash: &BlockHash, chain: &dyn ChainView) -> bool {
        let height = self.height + 1;
        if !chain.permitted_difficulty_transition(height, self.last.bits(), header.bits()) {
            return false;
        }
        if height.to_u32() % self.period == self.offset {
            let bit = self.bit(hash);
            self.commitments.push(bit);
            if self.commitments.count > self.commitments_max {
                return false;
            }
        }
        self.work = self.work.saturating_add(Work::of_bits(header.bits()));
        (self.last, self.last_hash, self.height) = (*header, *hash, height);
        true
    }

    fn store(&mut self, header: &Header, hash: &BlockHash, chain: &dyn ChainView) -> bool {
        let height = self.buffer_height + 1;
        if header.prev() != self.buffer_last_hash
            || !chain.permitted_difficulty_transition(height, self.buffer_last_bits, header.bits())
        {
            return false;
        }
        self.buffer_work = self.buffer_work.saturating_add(Work::of_bits(header.bits()));
        if self.buffer_work >= self.threshold {
            // The peer may have extended its chain meanwhile: from this header on there may be no bits.
            self.let_all_through = true;
        }
        if !self.let_all_through
            && height.to_u32() % self.period == self.offset
            && self.commitments.pop() != Some(self.bit(hash))
        {
            return false;
        }
        let mut short = [0; 48];
        short[..4].copy_from_slice(&header.0[..4]);
        short[4..].copy_from_slice(&header.0[36..]);
        self.buffer.push_back(short);
        (self.buffer_last_hash, self.buffer_last_bits, self.buffer_height) = (*hash, header.bits(), height);
        true
    }

    fn let_through(&mut self) -> Vec<Header> {
        let keep = if self.let_all_through { 0 } else { self.buffer_count };
        let count = self.buffer.len().saturating_sub(keep);
        let mut out = Vec::with_capacity(count);
        for short in self.buffer.drain(..count) {
            let mut bytes = [0; 80];
            bytes[..4].copy_from_slice(&short[..4]);
            bytes[4..36].copy_from_slice(self.buffer_prev.as_bytes());
            bytes[36..].copy_from_slice(&short[4..]);
            let header = Header(bytes);
            self.buffer_prev = header.hash();
            out.push(header);
        }
        out
    }
}

/// A queue of bits, written first and read later.
#[derive(Debug, Default)]
struct Bits {
    words: Vec<u64>,
    count: usize,
    read_count: usize,
}

impl Bits {
    fn push(&mut self, bit: bool) {
        if self.count.is_multiple_of(64) {
            self.words.push(0);
        }
        self.words[self.count / 64] |= u64::from(bit) << (self.count % 64);
        self.count += 1;
    }

    fn pop(&mut self) -> Option<bool> {
        if self.read_count == self.count {
            return None;
        }
        let bit = self.words[self.read_count / 64] >> (self.read_count % 64) & 1 == 1;
        self.read_count += 1;
        Some(bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Chain, headers_on};

    /// A small network: bits of every 8th header, 20 headers held back.
    fn network() -> NetworkParams {
        NetworkParams { commitment_period: 8, redownload_buffer_count: 20, ..crate::params::REGTEST }
    }

    fn start(chain: &Chain, threshold_count: u32, unix_time: u64) -> LowWorkSync {
        let genesis = chain.best_header();
        let bits = genesis.header.bits();
        let work = (0..threshold_count).fold(genesis.work, |sum, _| sum.saturating_add(Work::of_bits(bits)));
        let time = genesis.header.time();
        LowWorkSync::new(&network(), genesis, MedianTime::new(time), work, unix_time, &mut Rng::Seeded(1))
    }

    fn give(sync: &mut LowWorkSync, chain: &Chain, headers: &[Header], full: bool) -> Outcome {
        let hashes: Vec<_> = headers.iter().map(Header::hash).collect();
        sync.process(headers, &hashes, full, chain)
    }

    #[test]
    fn chain_with_enough_work_is_released_after_redownload() {
        let chain = Chain::new();
        let headers = headers_on(&chain.best_header(), 300, 1);
        let mut sync = start(&chain, 250, 2_000_000_000);
        for piece in headers.chunks(100) {
            assert_eq!(sync.phase(), Phase::Presync);
            let outcome = give(&mut sync, &chain, piece, true);
            assert_eq!((outcome.success, outcome.more, outcome.headers.len()), (true, true, 0));
        }
        assert_eq!((sync.phase(), sync.height()), (Phase::Redownload, Height::new(300)));
        assert_eq!(sync.locator(vec![])[0], chain.best_header().hash, "again from the start");
        let mut got = Vec::new();
        for (piece, held) in headers.chunks(100).zip([20, 20, 0]) {
            let outcome = give(&mut sync, &chain, piece, true);
            assert!(outcome.success);
            got.extend(outcome.headers);
            assert_eq!(sync.buffer.len(), held);
            assert_eq!(outcome.more, held > 0, "over when all are through");
        }
        assert_eq!(got, headers);
    }

    #[test]
    fn different_chain_in_redownload_fails() {
        let chain = Chain::new();
        let genesis = chain.best_header();
        let (shown, given) = (headers_on(&genesis, 300, 1), headers_on(&genesis, 300, 2));
        let mut sync = start(&chain, 280, 2_000_000_000);
        assert!(give(&mut sync, &chain, &shown, true).more);
        // Of the 35 bits each has a chance of one half to agree: with a fixed seed of the test the bound is loose.
        let outcome = give(&mut sync, &chain, &given, true);
        assert_eq!(outcome, Outcome { success: false, more: false, headers: vec![] });
    }

    #[test]
    fn low_work_sync_ends_for_each_reason() {
        let chain = Chain::new();
        let genesis = chain.best_header();
        let headers = headers_on(&genesis, 100, 1);
        let over = |success| Outcome { success, more: false, headers: vec![] };

        let mut sync = start(&chain, 200, 2_000_000_000);
        assert_eq!(give(&mut sync, &chain, &headers, false), over(true), "the chain ends with too little work");

        let mut sync = start(&chain, 200, 2_000_000_000);
        assert_eq!(give(&mut sync, &chain, &headers[1..], true), over(false), "does not connect");

        // The clock allows no more than 6 * 7200 / 8 bits beyond genesis' own time; here none at all.
        let mut sync = start(&chain, 200, u64::from(genesis.header.time()) - 7200);
        assert_eq!(give(&mut sync, &chain, &headers, true), over(false), "too many commitments");

        let mut sync = start(&chain, 90, 2_000_000_000);
        assert!(give(&mut sync, &chain, &headers, true).more);
        assert_eq!(give(&mut sync, &chain, &headers[..10], false), over(true), "does not give it again");

        let mut bad = headers.clone();
        let last = bad.last_mut().unwrap();
        last.0[72..76].copy_from_slice(&0x1f00_ffff_u32.to_le_bytes());
        let mut sync = start(&chain, 200, 2_000_000_000);
        assert_eq!(give(&mut sync, &chain, &bad, true), over(false), "difficulty that may not be");
    }
}
