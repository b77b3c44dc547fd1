//! What the peers ask of the chain: the trait that `node` implements, and the values it answers with.
//!
//! This crate never judges a header or a block. It moves headers and bytes, and asks here what they are.
//! Every method may be called from the network thread at any time, some of them for every message:
//! none may wait for the pipeline. Only [`ChainView::read_block`] and those about filters may read a disk; they run in a thread of
//! their own.

use crate::packet::Packet;
use kernels::Kernels;
use primitives::{BlockHash, Hash256, Header, Height, MedianTime, Work};

/// Greatest number of headers in one message. Source: Bitcoin Core b88bffe, `MAX_HEADERS_RESULTS`.
pub const HEADERS_COUNT_MAX: usize = 2000;

/// A header that stands in the header tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderInfo {
    /// The 80 bytes.
    pub header: Header,
    /// Hash of the 80 bytes.
    pub hash: BlockHash,
    /// Height; genesis has 0.
    pub height: Height,
    /// Work of the chain from genesis up to and including this header.
    pub work: Work,
    /// Whether this block, or an ancestor of it, was refused.
    pub invalid: bool,
}

/// What became of headers that were given to [`ChainView::accept_headers`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadersVerdict {
    /// How many of them were new and are in the tree now.
    pub new_count: usize,
    /// The last one that is in the tree (new or known before) and not refused.
    pub last: Option<HeaderInfo>,
    /// Why the first one that is not in the tree was refused; `None` when all are in.
    pub refused: Option<HeaderRefusal>,
}

/// Why a header was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderRefusal {
    /// It breaks a rule of headers, or stands on a refused block: a peer that sends it is disconnected.
    Invalid {
        /// Its place in the list that was given.
        index: usize,
        /// Its hash.
        hash: BlockHash,
        /// Core's reject string, with details where there are some.
        reason: String,
    },
    /// It is in the tree, and was refused before, by a rule or a person: a peer that we chose is disconnected.
    Known {
        /// Its hash.
        hash: BlockHash,
    },
    /// Its time is too far ahead. No offence: the headers from `index` on are kept here and
    /// given again when the time has come, see [`crate::hub`].
    TooNew {
        /// Its place in the list that was given.
        index: usize,
        /// Its time, seconds since 1970.
        time: u32,
    },
}

/// What is kept of a block's filter beside itself. Source: BIP-0157.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterHeader {
    /// Double SHA-256 of the filter.
    pub hash: Hash256,
    /// Filter header: what the chain of filters up to this one is known by.
    pub header: Hash256,
}

/// The chain as the peers need it. Implemented by `node`.
pub trait ChainView: Send + Sync + 'static {
    /// The header `hash`, if the tree has it (refused ones too, marked as such).
    fn header(&self, hash: &BlockHash) -> Option<HeaderInfo>;

    /// Hash of the ancestor of `of` at `height` (`of` itself at its own height).
    ///
    /// `None` when `of` is unknown or lower than `height`. Called in binary searches: a skip list, or
    /// a table for the best chain, is wanted.
    fn ancestor(&self, of: &BlockHash, height: Height) -> Option<BlockHash>;

    /// The header of most work that is not refused.
    fn best_header(&self) -> HeaderInfo;

    /// The best block that is connected and committed.
    fn tip(&self) -> HeaderInfo;

    /// Minimum chain work of this network (`--minimumchainwork`).
    fn minimum_work(&self) -> Work;

    /// Work from which headers are taken without presync:
    /// the greater of minimum work and the tip's work less that of 144 blocks like the tip.
    ///
    /// Source: Bitcoin Core b88bffe, `GetAntiDoSWorkThreshold`.
    fn anti_dos_work(&self) -> Work;

    /// Median time past of a known header, seconds since 1970; `None` when it is unknown.
    fn median_time_past(&self, hash: &BlockHash) -> Option<MedianTime>;

    /// A locator from `from` back to genesis: ten hashes one apart, then steps doubled.
    ///
    /// Source: Bitcoin Core b88bffe, `LocatorEntries`. An unknown `from` gives the best header's.
    fn locator(&self, from: &BlockHash) -> Vec<BlockHash>;

    /// Whether every header meets the target that it claims, and that target is within the network's limit.
    ///
    /// `hashes[i]` is the hash of `headers[i]`. No other rule is asked for here.
    fn check_proof_of_work(&self, headers: &[Header], hashes: &[BlockHash]) -> bool;

    /// Whether a header at `height` may claim `new_bits` on a parent that claims `old_bits`.
    ///
    /// Source: Bitcoin Core b88bffe, `PermittedDifficultyTransition`.
    fn permitted_difficulty_transition(&self, height: Height, old_bits: u32, new_bits: u32) -> bool;

    /// Gives headers to the tree, in chain order; each is the parent of the next.
    ///
    /// The first one's parent is in the tree, their proof of work was checked, and their work
    /// is enough to be stored. `unix_time` is the local clock in seconds. Known ones are no error.
    fn accept_headers(&self, headers: &[Header], hashes: &[BlockHash], unix_time: u64) -> HeadersVerdict;

    /// Blocks that are not stored, from the connected chain up to `last`, lowest first.
    ///
    /// None where `last` is unknown, or the chains part more than `count_max` blocks below it.
    fn missing_up_to(&self, last: &BlockHash, count_max: usize) -> Vec<BlockHash>;

    /// The headers of the connected chain after the last hash of `locator` that is on it, up to and
    /// including `stop` (zero: no stop), at most [`HEADERS_COUNT_MAX`].
    ///
    /// With an empty locator the header `stop` alone, if it may be shown (on the connected chain, or a
    /// recent stale one). With no hash of the locator on the chain, from height 1.
    /// The rule that none are given below minimum work is kept by the caller.
    fn headers_after(&self, locator: &[BlockHash], stop: &BlockHash) -> Vec<Header>;

    /// Puts the bytes of a block that may be served into `packet`: of the connected chain, or of a recent stale one.
    ///
    /// With `witness` raw as stored, without it stripped. `false` when it is not there or not to be shown: then what is in
    /// `packet` means nothing. Runs in the serving thread: it may read a disk.
    fn read_block(&self, hash: &BlockHash, witness: bool, packet: &mut Packet) -> bool;

    /// The same by themselves.
    fn block(&self, hash: &BlockHash, witness: bool) -> Option<Vec<u8>> {
        let mut packet = Packet::default();
        self.read_block(hash, witness, &mut packet).then(|| packet.payload().to_vec())
    }

    /// Height of a block that peers may be shown: of the connected chain, or a recent stale one.
    ///
    /// Source: Bitcoin Core b88bffe, `BlockRequestAllowed`.
    fn shown(&self, hash: &BlockHash) -> Option<Height>;

    /// Hash and header of a block's basic filter, if it is indexed.
    /// Runs in the serving thread: it may read a disk.
    fn filter_header(&self, block: &BlockHash) -> Option<FilterHeader>;

    /// The basic filter of a block, if it is indexed.
    /// Runs in the serving thread: it may read a disk.
    fn filter(&self, block: &BlockHash) -> Option<Vec<u8>>;

    /// Whether every block from genesis to the tip can be served (NODE_NETWORK);
    /// otherwise the last 288 can (NODE_NETWORK_LIMITED).
    fn has_all_blocks(&self) -> bool;

    /// Whether a block with more work than the tip is there and may yet be connected: judging goes on.
    fn is_connecting(&self) -> bool {
        false
    }

    /// Core's Initial Block Download state: the tip has less than minimum work, or is older than a day.
    fn initial_download(&self) -> bool;
}

/// The hashes of headers, several at a time.
pub(crate) fn hash_all(kernels: Kernels, headers: &[Header]) -> Vec<BlockHash> {
    let bytes: Vec<[u8; 80]> = headers.iter().map(|header| header.0).collect();
    let mut hashes = vec![[0; 32]; bytes.len()];
    kernels.sha256d_80(&bytes, &mut hashes);
    hashes.into_iter().map(BlockHash::from_bytes).collect()
}
