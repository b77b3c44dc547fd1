//! The chain as peers see it: headers, locators, blocks to serve. Never waits for the pipeline.

use crate::chain::headers;
use crate::chain::index::{Headers, OfferedHeaders, SharedIndex};
use crate::chain::tree::{Fate, NodeId, Tree};
use crate::datadir::writer::Writer;
use crate::indexing::Indexing;
use crate::options::{Clock, unix_seconds};
use crate::threads::locks::lock;
use consensus::{BlockError, Class, Params, Rule};
use disk::Disk;
use p2p::{ChainView, FilterHeader, HEADERS_COUNT_MAX, HeaderInfo, HeaderRefusal, HeadersVerdict, Packet};
use primitives::{BlockHash, Header, Height, MedianTime, Tables, U256, Work};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use store::Layout;
use store::blockfiles::BlockFiles;

/// State that the network's threads share with the engine's thread.
pub(crate) struct SharedChain {
    pub(crate) params: Params,
    pub(crate) minimum_work: Work,
    pub(crate) index: Arc<SharedIndex>,
    pub(crate) files: Arc<BlockFiles>,
    pub(crate) writer: Arc<Writer>,
    /// Whether some blocks cannot be served.
    pub(crate) is_pruned: AtomicBool,
    pub(crate) clock: Clock,
    pub(crate) tip_age_max_s: u64,
    pub(crate) unserved: Arc<Unserved>,
    /// Headers on invalid blocks that peers sent since the last `take_offers`.
    pub(crate) offers: Mutex<Vec<OfferedHeaders>>,
    /// Whether this part of the sync connects the best stored chain.
    pub(crate) connects: AtomicBool,
    /// The maintained indexes, and the location of their files.
    pub(crate) indexing: Arc<OnceLock<Indexing>>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) layout: Layout,
}

/// Files that could not be read for a peer; each is reported once.
#[derive(Debug, Default)]
pub(crate) struct Unserved(Mutex<UnservedFiles>);

#[derive(Debug, Default)]
struct UnservedFiles {
    said: BTreeSet<PathBuf>,
    waiting: Vec<store::Fault>,
}

/// Maximum number of reported files, so that the log does not fill up.
const UNSERVED_MAX: usize = 16;

impl Unserved {
    fn note(&self, why: store::Fault) {
        let mut files = lock(&self.0);
        if files.said.len() < UNSERVED_MAX && files.said.insert(why.detail().path.clone()) {
            files.waiting.push(why);
        }
    }

    /// The faults since the last call.
    pub(crate) fn take(&self) -> Vec<store::Fault> {
        std::mem::take(&mut lock(&self.0).waiting)
    }
}

/// Maximum number of stored offers; further ones add no information.
const OFFERS_MAX: usize = 64;

impl SharedChain {
    /// Headers on invalid blocks that peers sent since the last call.
    pub(crate) fn take_offers(&self) -> Vec<OfferedHeaders> {
        std::mem::take(&mut lock(&self.offers))
    }

    /// Stores an offer: a peer sent headers, from `index` on, that descend from an invalid block or start with it.
    fn note_offer(&self, tree: &Tree, headers: &[Header], hashes: &[BlockHash], index: usize) {
        let on = tree.find(&hashes[index]).or_else(|| tree.find(&headers[index].prev()));
        let Some(on) = on.filter(|&on| tree.fate(on) != Fate::Open) else { return };
        let above = hashes[index..].iter().zip(&headers[index..]).skip_while(|(hash, _)| **hash == tree.hash(on));
        let mut blocks = 0;
        let mut work = tree.work(on);
        for (_, header) in above {
            blocks += 1;
            work = work.saturating_add(Work::of_bits(header.bits()));
        }
        let mut offers = lock(&self.offers);
        if offers.len() < OFFERS_MAX {
            offers.push(OfferedHeaders { on, blocks, work });
        }
    }

    fn headers(&self) -> Headers<'_> {
        self.index.headers()
    }

    /// Reads a block's filter data; a fault is reported and counts as no data.
    fn of_filters<T>(
        &self,
        block: &BlockHash,
        read: impl FnOnce(&Indexing, Height) -> Result<Option<T>, store::Fault>,
    ) -> Option<T> {
        let height = self.shown(block)?;
        read(self.indexing.get()?, height).unwrap_or_else(|why| {
            self.unserved.note(why);
            None
        })
    }
}

fn info(tree: &Tree, id: NodeId) -> HeaderInfo {
    HeaderInfo {
        header: tree.header(id),
        hash: tree.hash(id),
        height: tree.height(id),
        work: tree.work(id),
        invalid: tree.fate(id) != Fate::Open,
    }
}

/// Serializes a block without its witnesses.
pub(crate) fn stripped(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut tables = Tables::new();
    let block = tables.parse_block(bytes).ok()?;
    let mut out = Vec::with_capacity(block.stripped_bytes());
    out.extend_from_slice(&block.header().0);
    primitives::encode::put_compact_size(&mut out, block.transaction_count() as u64);
    for tx in block.transactions() {
        tx.txid_pieces().iter().for_each(|piece| out.extend_from_slice(piece));
    }
    Some(out)
}

impl ChainView for SharedChain {
    fn header(&self, hash: &BlockHash) -> Option<HeaderInfo> {
        let tree = self.headers();
        tree.find(hash).map(|id| info(&tree, id))
    }

    fn ancestor(&self, of: &BlockHash, height: Height) -> Option<BlockHash> {
        let index = self.index.read();
        let tree = index.headers();
        let id = tree.find(of).filter(|&id| tree.height(id) >= height)?;
        if index.is_active(id) {
            return index.active().get(height.to_usize()).map(|&id| tree.hash(id));
        }
        Some(tree.hash(tree.ancestor(id, height)))
    }

    fn best_header(&self) -> HeaderInfo {
        let tree = self.headers();
        info(&tree, tree.best())
    }

    fn tip(&self) -> HeaderInfo {
        let index = self.index.read();
        info(index.headers(), index.tip())
    }

    fn minimum_work(&self) -> Work {
        self.minimum_work
    }

    fn anti_dos_work(&self) -> Work {
        let index = self.index.read();
        let tree = index.headers();
        let tip = index.tip();
        let proof = Work::of_bits(tree.bits(tip)).0.wrapping_mul_u64(144);
        let near = Work(tree.work(tip).0.checked_sub(proof).unwrap_or(U256::ZERO));
        near.max(self.minimum_work)
    }

    fn median_time_past(&self, hash: &BlockHash) -> Option<MedianTime> {
        let tree = self.headers();
        tree.find(hash).map(|id| tree.median_time_past(id))
    }

    fn locator(&self, from: &BlockHash) -> Vec<BlockHash> {
        let tree = self.headers();
        let mut at = tree.find(from).unwrap_or_else(|| tree.best());
        let mut hashes = Vec::new();
        let mut step = 1;
        loop {
            hashes.push(tree.hash(at));
            let height = tree.height(at);
            if height == Height::GENESIS {
                return hashes;
            }
            if hashes.len() > 10 {
                step *= 2;
            }
            at = tree.ancestor(at, height.saturating_sub(step));
        }
    }

    fn check_proof_of_work(&self, headers: &[Header], hashes: &[BlockHash]) -> bool {
        let meets = |(header, hash): (&Header, &BlockHash)| {
            consensus::header::check_proof_of_work(&self.params, hash, header.bits()).is_ok()
        };
        headers.iter().zip(hashes).all(meets)
    }

    fn permitted_difficulty_transition(&self, height: Height, old_bits: u32, new_bits: u32) -> bool {
        consensus::header::permitted_difficulty_transition(&self.params, height, old_bits, new_bits)
    }

    fn accept_headers(&self, headers: &[Header], hashes: &[BlockHash], unix_time: u64) -> HeadersVerdict {
        let now = i64::try_from(unix_time).unwrap_or(i64::MAX);
        let mut chain = self.index.write();
        let mut verdict = HeadersVerdict { new_count: 0, last: None, refused: None };
        for (index, (header, hash)) in headers.iter().zip(hashes).enumerate() {
            let tree = chain.headers();
            let before = tree.len();
            // As in Core, the parent's fate is checked before a header is stored.
            let is_cut_off = tree.find(hash).is_none()
                && tree.find(&header.prev()).is_some_and(|parent| tree.fate(parent) != Fate::Open);
            if is_cut_off {
                self.note_offer(tree, headers, hashes, index);
                let reason = BlockError::from(Rule::BadPrevblk).to_string();
                verdict.refused = Some(HeaderRefusal::Invalid { index, hash: *hash, reason });
                break;
            }
            let is_known = tree.find(hash).is_some();
            let refused = match chain.accept(&self.params, header, *hash, now) {
                Ok(id) if is_known && chain.headers().fate(id) != Fate::Open => HeaderRefusal::Known { hash: *hash },
                Ok(id) if chain.headers().fate(id) != Fate::Open => HeaderRefusal::Invalid {
                    index,
                    hash: *hash,
                    reason: "bad-prevblk, an ancestor is a refused block".into(),
                },
                Ok(id) => {
                    verdict.new_count += usize::from(chain.headers().len() > before);
                    verdict.last = Some(info(chain.headers(), id));
                    continue;
                }
                Err(error) if error.class() == Class::TimeFuture => {
                    HeaderRefusal::TooNew { index, time: header.time() }
                }
                Err(error) => HeaderRefusal::Invalid { index, hash: *hash, reason: error.to_string() },
            };
            if matches!(refused, HeaderRefusal::Known { .. }) {
                self.note_offer(chain.headers(), headers, hashes, index);
            }
            verdict.refused = Some(refused);
            break;
        }
        verdict
    }

    fn missing_up_to(&self, last: &BlockHash, count_max: usize) -> Vec<BlockHash> {
        let index = self.index.read();
        let tree = index.headers();
        let Some(last) = tree.find(last) else { return Vec::new() };
        let fork = tree.fork(index.tip(), last);
        let height = tree.height(last);
        if height.blocks_above(tree.height(fork)) as usize > count_max {
            return Vec::new();
        }
        index.missing_from(fork, last, height, count_max).into_iter().map(|id| tree.hash(id)).collect()
    }

    fn headers_after(&self, locator: &[BlockHash], stop: &BlockHash) -> Vec<Header> {
        let index = self.index.read();
        let tree = index.headers();
        if locator.is_empty() {
            let wanted = tree.find(stop).filter(|&id| index.is_shown(id));
            return wanted.map(|id| tree.header(id)).into_iter().collect();
        }
        let known = locator.iter().filter_map(|hash| tree.find(hash)).find(|&id| index.is_active(id));
        let from = known.map_or(1, |id| tree.height(id).to_usize() + 1);
        let mut headers = Vec::new();
        for &id in index.active().iter().skip(from).take(HEADERS_COUNT_MAX) {
            headers.push(tree.header(id));
            if tree.hash(id) == *stop {
                break;
            }
        }
        headers
    }

    fn read_block(&self, hash: &BlockHash, witness: bool, packet: &mut Packet) -> bool {
        let Some((at, size)) = self.index.read().serve(hash) else { return false };
        // The block may still be in the writer's buffer.
        if self.writer.write_out_blocks().is_err() {
            return false;
        }
        if let Err(why) = self.files.read_block_into(at, packet.payload_mut(size as usize)) {
            // The block may have been pruned meanwhile; Core ignores this too.
            if self.index.read().serve(hash).is_some() {
                self.unserved.note(why);
            }
            return false;
        }
        if witness {
            return true;
        }
        let Some(bytes) = stripped(packet.payload()) else { return false };
        packet.payload_mut(bytes.len()).copy_from_slice(&bytes);
        true
    }

    fn shown(&self, hash: &BlockHash) -> Option<Height> {
        let index = self.index.read();
        let tree = index.headers();
        tree.find(hash).filter(|&id| index.is_shown(id)).map(|id| tree.height(id))
    }

    fn filter_header(&self, block: &BlockHash) -> Option<FilterHeader> {
        let row = self.of_filters(block, |indexing, height| indexing.served_filter_row(*block, height))?;
        Some(FilterHeader { hash: row.hash, header: row.header })
    }

    fn filter(&self, block: &BlockHash) -> Option<Vec<u8>> {
        self.of_filters(block, |indexing, height| indexing.served_filter(&*self.disk, &self.layout, *block, height))
    }

    fn has_all_blocks(&self) -> bool {
        !self.is_pruned.load(Relaxed)
    }

    fn is_connecting(&self) -> bool {
        let index = self.index.read();
        let tip = index.tip();
        self.connects.load(Relaxed) && index.best_candidate(tip) != tip
    }

    fn initial_download(&self) -> bool {
        let tip = self.tip();
        headers::is_initial(
            tip.work,
            tip.header.time(),
            self.minimum_work,
            self.tip_age_max_s,
            unix_seconds(self.clock),
        )
    }
}
