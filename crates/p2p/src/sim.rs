//! A chain in memory, for tests and fuzzing: real proof of work at regtest's target; a block is a header and
//! arbitrary bytes. Not part of the interface.
//!
//! Block:  header [u8; 80] | body; the merkle root is sha256d(body). A body that starts with
//! [`INVALID`] matches its header, and is invalid when it is connected.

use crate::api::{BlockVerdict, PeerId, Want};
use crate::chain::{ChainView, FilterHeader, HEADERS_COUNT_MAX, HeaderInfo, HeaderRefusal, HeadersVerdict};
use crate::packet::Packet;
use primitives::{BlockHash, Hash256, Header, Height, MedianTime, Target, Work};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Start of an invalid body.
pub const INVALID: &[u8] = b"!invalid";

/// Bits of every header.
pub const BITS: u32 = 0x207f_ffff;

/// Time of the first header.
pub const GENESIS_TIME: u32 = 1_600_000_000;

/// Seconds between two headers.
pub const SPACING_S: u32 = 60;

#[derive(Clone)]
struct Node {
    info: HeaderInfo,
    body: Option<Vec<u8>>,
    /// Order of arrival: of equal chains, the first stays.
    number: usize,
    children: Vec<BlockHash>,
    /// Whether its body and those of all ancestors are stored.
    complete: bool,
}

struct Inner {
    nodes: HashMap<BlockHash, Node>,
    genesis: BlockHash,
    best: BlockHash,
    tip: BlockHash,
    /// The best header chain by height, for fast lookups.
    path: Vec<BlockHash>,
    /// The connected chain by height.
    active: Vec<BlockHash>,
    /// Complete valid blocks with more work than the tip.
    candidates: BTreeMap<(Work, Reverse<usize>), BlockHash>,
}

/// A chain of headers and blocks.
pub struct Chain {
    inner: Mutex<Inner>,
    minimum_work: Work,
    /// Whether bodies are validated; real blocks, which this module cannot parse, are not.
    judges: bool,
    /// Result of [`ChainView::has_all_blocks`].
    pub all_blocks: bool,
    /// Blocks above this height have no filter yet.
    pub filtered: Height,
    /// Whether the tip is too old: [`ChainView::initial_download`] then holds again.
    pub is_old: AtomicBool,
    filter_headers: Mutex<HashMap<BlockHash, FilterHeader>>,
}

/// Headers with their bodies.
#[derive(Clone, Default)]
pub struct Made {
    /// Headers in chain order.
    pub headers: Vec<Header>,
    /// Bodies in the same order.
    pub bodies: Vec<Vec<u8>>,
}

impl Made {
    /// The bytes of a block.
    pub fn block(&self, place: usize) -> Vec<u8> {
        [&self.headers[place].0[..], &self.bodies[place]].concat()
    }
}

/// A header on `prev` with this body.
pub fn mine(prev: &HeaderInfo, body: &[u8], time: u32) -> Header {
    let root = Hash256(kernels::sha256::sha256d(body));
    let target = Target::from_compact(BITS).expect("regtest's");
    (0..)
        .map(|nonce| Header::new(4, prev.hash, root, time, BITS, nonce))
        .find(|header| target.is_met_by(&header.hash()))
        .expect("every second nonce will do")
}

/// The header that follows `parent` in a tree.
pub fn child(parent: &HeaderInfo, header: Header) -> HeaderInfo {
    HeaderInfo {
        header,
        hash: header.hash(),
        height: parent.height + 1,
        work: parent.work.saturating_add(Work::of_bits(header.bits())),
        invalid: false,
    }
}

/// `count` blocks on `start`, with bodies of `body_bytes` that differ by height and `salt`.
pub fn made_on(start: &HeaderInfo, count: usize, salt: u64, body_bytes: usize) -> Made {
    let mut made = Made::default();
    let mut at = *start;
    for _ in 0..count {
        let mut body = format!("{} {salt} ", at.height + 1).into_bytes();
        body.resize(body_bytes.max(body.len()), b'.');
        at = push(&mut made, &at, body);
    }
    made
}

/// Appends a block with this body.
pub fn push(made: &mut Made, parent: &HeaderInfo, body: Vec<u8>) -> HeaderInfo {
    let header = mine(parent, &body, parent.header.time() + SPACING_S);
    made.headers.push(header);
    made.bodies.push(body);
    child(parent, header)
}

/// Like [`made_on`], but only headers.
pub fn headers_on(start: &HeaderInfo, count: usize, salt: u64) -> Vec<Header> {
    made_on(start, count, salt, 0).headers
}

impl Default for Chain {
    fn default() -> Chain {
        Chain::new()
    }
}

impl Chain {
    /// Genesis alone, without minimum work.
    pub fn new() -> Chain {
        Chain::on(Header::new(1, BlockHash::ZERO, Hash256::ZERO, GENESIS_TIME, BITS, 0), true)
    }

    /// Regtest's real genesis, and arbitrary bodies: for peers that are real programs.
    pub fn regtest() -> Chain {
        let root = Hash256::literal("4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b");
        Chain::on(Header::new(1, BlockHash::ZERO, root, 1_296_688_602, BITS, 2), false)
    }

    fn on(header: Header, judges: bool) -> Chain {
        let hash = header.hash();
        let info = HeaderInfo { header, hash, height: Height::GENESIS, work: Work::of_bits(BITS), invalid: false };
        let node = Node { info, body: Some(Vec::new()), number: 0, children: Vec::new(), complete: true };
        let inner = Inner {
            nodes: HashMap::from([(hash, node)]),
            genesis: hash,
            best: hash,
            tip: hash,
            path: vec![hash],
            active: vec![hash],
            candidates: BTreeMap::new(),
        };
        Chain {
            inner: Mutex::new(inner),
            minimum_work: Work::ZERO,
            judges,
            all_blocks: true,
            is_old: AtomicBool::new(false),
            filtered: Height::new(u32::MAX),
            filter_headers: Mutex::default(),
        }
    }

    /// With the work of a chain of `count` blocks on genesis as minimum work.
    pub fn with_minimum(count: usize) -> Chain {
        let one = Work::of_bits(BITS);
        let minimum_work = (0..count).fold(one, |sum, _| sum.saturating_add(one));
        Chain { minimum_work, ..Chain::new() }
    }

    /// A chain that has these blocks connected.
    pub fn having(made: &Made) -> Chain {
        let chain = Chain::new();
        chain.extend(made);
        chain
    }

    /// Stores and connects blocks.
    pub fn extend(&self, made: &Made) {
        let hashes: Vec<_> = made.headers.iter().map(Header::hash).collect();
        self.accept_headers(&made.headers, &hashes, u64::MAX / 2);
        for (hash, body) in hashes.iter().zip(&made.bodies) {
            self.lock().put_body(hash, body.clone());
        }
        self.connect();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks of the best chain that are not stored, lowest first, at most `count`.
    pub fn wanted(&self, count: usize) -> Vec<Want> {
        let best = self.lock().best;
        self.wanted_up_to(&best, count)
    }

    /// Blocks up to `target` that are not stored, lowest first, at most `count`.
    pub fn wanted_up_to(&self, target: &BlockHash, count: usize) -> Vec<Want> {
        let inner = self.lock();
        let Some(info) = inner.nodes.get(target).map(|node| node.info) else { return Vec::new() };
        let on_path = inner.path.get(info.height.to_usize()) == Some(target);
        let path = if on_path { inner.path[..=info.height.to_usize()].to_vec() } else { inner.path_to(target) };
        let connected = path.iter().zip(&inner.active).take_while(|(a, b)| a == b).count();
        let missing = path[connected..].iter().map(|hash| &inner.nodes[hash]).filter(|node| node.body.is_none());
        missing.take(count).map(|node| Want { hash: node.info.hash, height: node.info.height }).collect()
    }

    /// Number of headers in the tree, including invalid ones.
    pub fn header_count(&self) -> usize {
        self.lock().nodes.len()
    }

    /// Stores a block of this peer if its body matches its header.
    pub fn store(&self, peer: PeerId, bytes: &[u8]) -> BlockVerdict {
        let (head, body) = bytes.split_first_chunk::<80>().expect("the caller saw a header");
        let header = Header(*head);
        if self.judges && kernels::sha256::sha256d(body) != header.merkle_root().0 {
            return BlockVerdict::BadBody { peer, reason: "bad-txnmrklroot".to_owned() };
        }
        self.lock().put_body(&header.hash(), body.to_vec());
        BlockVerdict::Stored
    }

    /// Connects the best complete chain; invalid blocks are marked and returned.
    pub fn connect(&self) -> Vec<BlockHash> {
        let mut refused = Vec::new();
        let mut inner = self.lock();
        while let Some((_, best)) = inner.candidates.pop_last() {
            if inner.nodes[&best].info.work <= inner.nodes[&inner.tip].info.work {
                continue;
            }
            let mut fresh = Vec::new();
            let mut at = inner.nodes[&best].info;
            while inner.active.get(at.height.to_usize()) != Some(&at.hash) {
                fresh.push(at.hash);
                at = inner.nodes[&at.header.prev()].info;
            }
            fresh.reverse();
            let is_bad = |hash: &&BlockHash| inner.nodes[hash].body.as_ref().is_some_and(|b| b.starts_with(INVALID));
            if let Some(bad) = fresh.iter().find(is_bad).copied() {
                inner.refuse(bad);
                refused.push(bad);
                continue;
            }
            inner.active.truncate(at.height.to_usize() + 1);
            inner.active.extend(fresh);
            inner.tip = best;
        }
        refused
    }
}

impl Inner {
    /// The chain that ends with a block, from genesis on.
    fn path_to(&self, hash: &BlockHash) -> Vec<BlockHash> {
        let mut path = vec![*hash];
        let mut at = self.nodes[hash].info;
        while at.height > Height::GENESIS {
            at = self.nodes[&at.header.prev()].info;
            path.push(at.hash);
        }
        path.reverse();
        path
    }

    /// Stores a body: it and the blocks waiting for it may be complete.
    fn put_body(&mut self, hash: &BlockHash, body: Vec<u8>) {
        let Some(node) = self.nodes.get_mut(hash) else { return };
        node.body = Some(body);
        let mut queue = vec![*hash];
        while let Some(hash) = queue.pop() {
            let node = &self.nodes[&hash];
            let parent = node.info.header.prev();
            let has_parent = self.nodes.get(&parent).is_some_and(|parent| parent.complete);
            if node.complete || node.body.is_none() || !has_parent {
                continue;
            }
            let key = (node.info.work, Reverse(node.number));
            if !node.info.invalid {
                self.candidates.insert(key, hash);
            }
            let node = self.nodes.get_mut(&hash).expect("just seen");
            node.complete = true;
            queue.extend(&node.children);
        }
    }

    fn refuse(&mut self, bad: BlockHash) {
        let mut on_it = vec![bad];
        while let Some(hash) = on_it.pop() {
            let node = self.nodes.get_mut(&hash).expect("known");
            node.info.invalid = true;
            on_it.extend(&node.children);
            let key = (node.info.work, Reverse(node.number));
            self.candidates.remove(&key);
        }
        let sound = self.nodes.values().filter(|node| !node.info.invalid);
        let best = sound.max_by_key(|node| (node.info.work, Reverse(node.number)));
        self.set_best(best.expect("genesis is sound").info.hash);
    }

    fn set_best(&mut self, best: BlockHash) {
        self.best = best;
        let height = self.nodes[&best].info.height.to_usize();
        self.path.truncate(height + 1);
        let mut at = best;
        let mut fresh = Vec::new();
        while self.path.get(self.nodes[&at].info.height.to_usize()) != Some(&at) {
            fresh.push(at);
            at = self.nodes[&at].info.header.prev();
        }
        self.path.truncate(self.nodes[&at].info.height.to_usize() + 1);
        self.path.extend(fresh.iter().rev());
    }

    fn insert(&mut self, header: &Header, hash: BlockHash) {
        let parent = self.nodes[&header.prev()].info;
        let info = child(&parent, *header);
        let number = self.nodes.len();
        self.nodes.insert(hash, Node { info, body: None, number, children: Vec::new(), complete: false });
        self.nodes.get_mut(&header.prev()).expect("its parent").children.push(hash);
        if info.work > self.nodes[&self.best].info.work {
            self.set_best(hash);
        }
    }
}

impl ChainView for Chain {
    fn header(&self, hash: &BlockHash) -> Option<HeaderInfo> {
        self.lock().nodes.get(hash).map(|node| node.info)
    }

    fn ancestor(&self, of: &BlockHash, height: Height) -> Option<BlockHash> {
        let inner = self.lock();
        let mut at = inner.nodes.get(of)?.info;
        if at.height < height {
            return None;
        }
        while inner.path.get(at.height.to_usize()) != Some(&at.hash) && at.height > height {
            at = inner.nodes[&at.header.prev()].info;
        }
        if at.height == height { Some(at.hash) } else { inner.path.get(height.to_usize()).copied() }
    }

    fn best_header(&self) -> HeaderInfo {
        let inner = self.lock();
        inner.nodes[&inner.best].info
    }

    fn tip(&self) -> HeaderInfo {
        let inner = self.lock();
        inner.nodes[&inner.tip].info
    }

    fn minimum_work(&self) -> Work {
        self.minimum_work
    }

    fn anti_dos_work(&self) -> Work {
        let margin = (0..144).fold(Work::ZERO, |sum, _| sum.saturating_add(Work::of_bits(BITS)));
        self.tip().work.saturating_sub(margin).max(self.minimum_work)
    }

    fn median_time_past(&self, hash: &BlockHash) -> Option<MedianTime> {
        self.header(hash).map(|info| MedianTime::new(info.header.time()))
    }

    fn locator(&self, from: &BlockHash) -> Vec<BlockHash> {
        let inner = self.lock();
        let mut at = inner.nodes.get(from).unwrap_or(&inner.nodes[&inner.best]).info;
        let mut out = vec![at.hash];
        let mut step = 1;
        while at.height > Height::GENESIS {
            for _ in 0..step.min(at.height.to_u32()) {
                at = inner.nodes[&at.header.prev()].info;
            }
            out.push(at.hash);
            if out.len() > 10 {
                step *= 2;
            }
        }
        out
    }

    fn check_proof_of_work(&self, headers: &[Header], hashes: &[BlockHash]) -> bool {
        let limit = Target::from_compact(BITS).expect("regtest's");
        headers.iter().zip(hashes).all(|(header, hash)| {
            Target::from_compact(header.bits()).is_some_and(|target| target.0 <= limit.0 && target.is_met_by(hash))
        })
    }

    fn permitted_difficulty_transition(&self, _: Height, old_bits: u32, new_bits: u32) -> bool {
        old_bits == new_bits
    }

    fn accept_headers(&self, headers: &[Header], hashes: &[BlockHash], unix_time: u64) -> HeadersVerdict {
        let mut inner = self.lock();
        let mut verdict = HeadersVerdict { new_count: 0, last: None, refused: None };
        for (index, (header, hash)) in headers.iter().zip(hashes).enumerate() {
            let invalid = |reason: &str| Some(HeaderRefusal::Invalid { index, hash: *hash, reason: reason.to_owned() });
            let parent = inner.nodes.get(&header.prev()).map(|node| node.info);
            verdict.refused = match (inner.nodes.get(hash), parent) {
                (Some(known), _) if known.info.invalid => Some(HeaderRefusal::Known { hash: *hash }),
                (Some(known), _) => {
                    verdict.last = Some(known.info);
                    continue;
                }
                (None, None) => invalid("prev-blk-not-found"),
                (None, Some(parent)) if parent.invalid => invalid("bad-prevblk"),
                (None, Some(_)) if header.bits() != BITS => invalid("bad-diffbits"),
                (None, Some(parent)) if header.time() < parent.header.time() => invalid("time-too-old"),
                (None, Some(_)) if u64::from(header.time()) > unix_time + 7200 => {
                    Some(HeaderRefusal::TooNew { index, time: header.time() })
                }
                (None, Some(_)) => None,
            };
            if verdict.refused.is_some() {
                return verdict;
            }
            inner.insert(header, *hash);
            verdict.new_count += 1;
            verdict.last = Some(inner.nodes[hash].info);
        }
        verdict
    }

    fn missing_up_to(&self, last: &BlockHash, count_max: usize) -> Vec<BlockHash> {
        let mut at = self.header(last);
        let tip = self.tip().hash;
        let mut missing = Vec::new();
        for _ in 0..=count_max {
            let Some(info) = at else { break };
            if self.ancestor(&tip, info.height) == Some(info.hash) {
                missing.reverse();
                return missing;
            }
            if self.lock().nodes[&info.hash].body.is_none() {
                missing.push(info.hash);
            }
            at = self.header(&info.header.prev());
        }
        Vec::new()
    }

    fn headers_after(&self, locator: &[BlockHash], stop: &BlockHash) -> Vec<Header> {
        let tip = self.tip();
        if locator.is_empty() {
            return self.header(stop).map(|info| info.header).into_iter().collect();
        }
        let fork = locator.iter().find_map(|hash| {
            let info = self.header(hash)?;
            (self.ancestor(&tip.hash, info.height) == Some(*hash)).then_some(info.height)
        });
        let mut out = Vec::new();
        for height in (fork.unwrap_or(Height::GENESIS) + 1).to(tip.height) {
            let Some(info) = self.ancestor(&tip.hash, height).and_then(|hash| self.header(&hash)) else { break };
            out.push(info.header);
            if out.len() == HEADERS_COUNT_MAX || info.hash == *stop {
                break;
            }
        }
        out
    }

    fn read_block(&self, hash: &BlockHash, witness: bool, packet: &mut Packet) -> bool {
        let inner = self.lock();
        let Some(node) = inner.nodes.get(hash) else { return false };
        let Some(body) = node.body.as_ref().filter(|_| witness && *hash != inner.genesis) else { return false };
        let block = [&node.info.header.0[..], body].concat();
        packet.payload_mut(block.len()).copy_from_slice(&block);
        true
    }

    fn shown(&self, hash: &BlockHash) -> Option<Height> {
        let inner = self.lock();
        let node = inner.nodes.get(hash)?;
        (node.complete && !node.info.invalid).then_some(node.info.height)
    }

    fn filter_header(&self, block: &BlockHash) -> Option<FilterHeader> {
        let mut known = self.filter_headers.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains_key(block) {
            let mut header = Hash256::ZERO;
            let path = self.lock().path_to(block);
            for block in path {
                let hash = Hash256(kernels::sha256::sha256d(&self.filter(&block)?));
                header = Hash256(kernels::sha256::sha256d(&[hash.0, header.0].concat()));
                known.insert(block, FilterHeader { hash, header });
            }
        }
        known.get(block).copied()
    }

    /// Arbitrary bytes that follow from the block.
    fn filter(&self, block: &BlockHash) -> Option<Vec<u8>> {
        let inner = self.lock();
        let node = inner.nodes.get(block).filter(|node| node.info.height <= self.filtered)?;
        Some(block.as_bytes().repeat(1 + node.body.as_ref().map_or(0, Vec::len) / 32))
    }

    fn has_all_blocks(&self) -> bool {
        self.all_blocks
    }

    fn initial_download(&self) -> bool {
        let inner = self.lock();
        self.is_old.load(Relaxed) || inner.tip == inner.genesis || inner.nodes[&inner.tip].info.work < self.minimum_work
    }
}
