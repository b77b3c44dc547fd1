//! The peers' view of the chain: the trait that `node` implements, and its return types.
//!
//! This crate never validates a header or a block. It moves headers and bytes, and asks this trait about them.
//! Every method may be called from the network thread at any time, some of them for every message: they must not wait
//! for the pipeline. Only [`ChainView::read_block`] and the methods for filters may read a disk; they run in a thread
//! of their own.

use crate::packet::Packet;
use kernels::Kernels;
use primitives::{BlockHash, Hash256, Header, Height, MedianTime, Work};

/// Maximum number of headers in one message. Source: Bitcoin Core b88bffe, `MAX_HEADERS_RESULTS`.
pub const HEADERS_COUNT_MAX: usize = 2000;

/// A header in the header tree.
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
    /// Whether this block, or an ancestor of it, is invalid.
    pub invalid: bool,
}

/// Result of [`ChainView::accept_headers`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadersVerdict {
    /// How many of them were new and are in the tree now.
    pub new_count: usize,
    /// The last header that is in the tree (new or known before) and not invalid.
    pub last: Option<HeaderInfo>,
    /// Why the first header that is not in the tree was refused; `None` if all are in the tree.
    pub refused: Option<HeaderRefusal>,
}

/// Why a header was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderRefusal {
    /// It breaks a rule of headers, or builds on an invalid block: a peer that sends it is disconnected.
    Invalid {
        /// Its index in the list.
        index: usize,
        /// Its hash.
        hash: BlockHash,
        /// Core's reject string, with details if there are any.
        reason: String,
    },
    /// It is in the tree and marked invalid, by a rule or by the user: an outbound peer that sends it is
    /// disconnected.
    Known {
        /// Its hash.
        hash: BlockHash,
    },
    /// Its time is too far in the future. Not an offence: the headers from `index` on are kept here and submitted
    /// again when their time has come, see [`crate::hub`].
    TooNew {
        /// Its index in the list.
        index: usize,
        /// Its time, seconds since 1970.
        time: u32,
    },
}

/// Hash and header that are stored with a block's filter. Source: BIP-0157.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterHeader {
    /// Double SHA-256 of the filter.
    pub hash: Hash256,
    /// Filter header: commits to the chain of filters up to this one.
    pub header: Hash256,
}

/// The chain as peers need it. Implemented by `node`.
pub trait ChainView: Send + Sync + 'static {
    /// The header `hash`, if it is in the tree (invalid ones too, marked as such).
    fn header(&self, hash: &BlockHash) -> Option<HeaderInfo>;

    /// Hash of the ancestor of `of` at `height` (`of` itself at its own height).
    ///
    /// `None` if `of` is unknown or lower than `height`. Called in binary searches: implement it with a skip list, or
    /// a table for the best chain.
    fn ancestor(&self, of: &BlockHash, height: Height) -> Option<BlockHash>;

    /// The header with most work that is not invalid.
    fn best_header(&self) -> HeaderInfo;

    /// The best block that is connected and committed.
    fn tip(&self) -> HeaderInfo;

    /// Minimum chain work of this network (`--minimumchainwork`).
    fn minimum_work(&self) -> Work;

    /// Work from which headers are accepted without presync: the greater of minimum work and the tip's work less the
    /// work of 144 blocks like the tip.
    ///
    /// Source: Bitcoin Core b88bffe, `GetAntiDoSWorkThreshold`.
    fn anti_dos_work(&self) -> Work;

    /// Median time past of a known header, seconds since 1970; `None` if it is unknown.
    fn median_time_past(&self, hash: &BlockHash) -> Option<MedianTime>;

    /// A locator from `from` back to genesis: ten consecutive hashes, then steps that double.
    ///
    /// Source: Bitcoin Core b88bffe, `LocatorEntries`. For an unknown `from`, the locator of the best header.
    fn locator(&self, from: &BlockHash) -> Vec<BlockHash>;

    /// Whether every header meets the target that it claims, and that target is within the network's limit.
    ///
    /// `hashes[i]` is the hash of `headers[i]`. Checks no other rule.
    fn check_proof_of_work(&self, headers: &[Header], hashes: &[BlockHash]) -> bool;

    /// Whether a header at `height` may claim `new_bits` on a parent that claims `old_bits`.
    ///
    /// Source: Bitcoin Core b88bffe, `PermittedDifficultyTransition`.
    fn permitted_difficulty_transition(&self, height: Height, old_bits: u32, new_bits: u32) -> bool;

    /// Adds headers to the tree, in chain order; each is the parent of the next.
    ///
    /// The caller ensures that the first one's parent is in the tree, that their proof of work was checked, and that
    /// their work is enough to be stored. `unix_time` is the local clock in seconds. Headers already in the tree are
    /// allowed.
    fn accept_headers(&self, headers: &[Header], hashes: &[BlockHash], unix_time: u64) -> HeadersVerdict;

    /// Blocks that are not stored, from the connected chain up to `last`, lowest first.
    ///
    /// Empty if `last` is unknown, or if the chains fork more than `count_max` blocks below it.
    fn missing_up_to(&self, last: &BlockHash, count_max: usize) -> Vec<BlockHash>;

    /// The headers of the connected chain after the last hash of `locator` that is on it, up to and
    /// including `stop` (zero: no stop), at most [`HEADERS_COUNT_MAX`].
    ///
    /// With an empty locator only the header `stop`, if it may be served (on the connected chain, or a recent stale
    /// one). If no hash of the locator is on the chain, from height 1.
    /// The caller enforces the rule that no headers are served below minimum work.
    fn headers_after(&self, locator: &[BlockHash], stop: &BlockHash) -> Vec<Header>;

    /// Puts the bytes of a block into `packet` if it may be served: on the connected chain, or a recent stale one.
    ///
    /// With `witness` the bytes as stored, otherwise without witness data. `false` if the block is not stored or must
    /// not be served: the contents of `packet` are then undefined. Runs in the serving thread: it may read a disk.
    fn read_block(&self, hash: &BlockHash, witness: bool, packet: &mut Packet) -> bool;

    /// Returns the bytes of a block as in [`ChainView::read_block`].
    fn block(&self, hash: &BlockHash, witness: bool) -> Option<Vec<u8>> {
        let mut packet = Packet::default();
        self.read_block(hash, witness, &mut packet).then(|| packet.payload().to_vec())
    }

    /// Height of a block that may be served to peers: on the connected chain, or a recent stale one.
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

    /// Whether a block with more work than the tip is stored and may still be connected: validation is still running.
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
