//! Chunks of a UTXO set from peers (BIP 452): which tree of chunk hashes is taken, and which peer sends which chunk.
//!
//! - Only outbound peers that offered the feature are asked, each once for its tree and then for up to
//!   [`CHUNKS_PER_PEER`] chunks at a time.
//! - No root is known beforehand (Core's parameters have none). The root that most peers offer is taken, once all that
//!   were asked have answered or [`TREE_GRACE`] after the first answer. The hash of the coins decides in the end; if it
//!   is wrong, the peers with that root are disconnected and another root is taken.
//! - A chunk whose hash differs from the tree's ends the connection, and so does unrequested data. A peer with the
//!   permission `noban` stays connected, and is not asked again for this set.
//! - A peer that does not answer gets no requests for a while; the chunk is requested from another one.
//!
//! Absent on purpose: the bytes' meaning, and where they go ([`crate::set_exchange`]).

use super::context::Context;
use crate::api::PeerId;
use crate::peer::Peer;
use crate::reason::Reason;
use crate::set_exchange::{Chunk, SetExchange, Shared};
use crate::time::Now;
use crate::transport::Received;
use crate::utxo_sets::{ChunkTree, chunk_named, chunk_start};
use crate::wire::Message;
use primitives::{BlockHash, Hash256};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Chunks that one peer is asked for at a time.
pub const CHUNKS_PER_PEER: usize = 2;
/// A peer that does not answer within this time gets no requests for a while.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// The reader's next chunk is requested from a second peer after this time.
pub const HEDGE_DELAY: Duration = Duration::from_secs(10);
/// How long further trees are awaited after the first one.
pub const TREE_GRACE: Duration = Duration::from_secs(5);
/// After a timeout a peer gets no requests for this time, multiplied by the number of consecutive timeouts.
const REST: Duration = Duration::from_secs(60);
/// Number of consecutive timeouts after which a peer is not asked any more.
const STALLS_COUNT_MAX: u32 = 5;

/// A peer's answer to `getutxotree`.
#[derive(Debug, Default)]
enum Offer {
    #[default]
    NotAsked,
    Asked(Duration),
    Tree(Hash256, Arc<ChunkTree>),
    /// The tree or a chunk of it proved wrong: the peer is not asked again for this set.
    Refuted,
}

/// The requests to one peer.
#[derive(Debug, Default)]
struct Sender {
    offer: Offer,
    /// Requested chunks, and when each was requested.
    awaited: BTreeMap<u32, Duration>,
    /// Requests that timed out or whose tree proved wrong: their answers are no offence. At most
    /// [`STALLS_COUNT_MAX`] times [`CHUNKS_PER_PEER`].
    late: BTreeSet<u32>,
    /// Timeouts since its last answer.
    stalls: u32,
    rests_until: Duration,
}

impl Sender {
    fn stall(&mut self, at: Duration) {
        self.stalls += 1;
        self.rests_until = at + REST * self.stalls;
    }

    fn may_ask(&self, at: Duration) -> bool {
        self.stalls < STALLS_COUNT_MAX && at >= self.rests_until
    }

    fn root(&self) -> Option<Hash256> {
        match &self.offer {
            Offer::Tree(root, _) => Some(*root),
            Offer::NotAsked | Offer::Asked(_) | Offer::Refuted => None,
        }
    }

    /// The tree or a chunk proved wrong. The requested chunks are requested from others.
    fn refute(&mut self) {
        self.offer = Offer::Refuted;
        self.late.extend(std::mem::take(&mut self.awaited).into_keys());
    }
}

/// The requests to all peers.
#[derive(Debug, Default)]
pub(super) struct SetDownload {
    /// The set to which they belong.
    base: Option<BlockHash>,
    senders: BTreeMap<PeerId, Sender>,
    /// When the first tree of this set arrived.
    first_tree_at: Option<Duration>,
    /// Since when no peer offers the chosen tree.
    deserted_at: Option<Duration>,
    /// Outstanding answers of each peer to requests for an earlier set: they are no offence.
    owed: BTreeMap<PeerId, usize>,
}

/// Whether a peer may be asked.
fn is_source(peer: &Peer) -> bool {
    peer.is_ready() && peer.is_outbound() && peer.speaks_utxo_sets() && !peer.is_of_other_chain()
}

/// Where the bytes of a chunk begin in its message.
///
/// # Errors
///
/// It is not the chunk `index` of the tree.
fn verified_start(tree: &ChunkTree, index: u32, payload: &[u8]) -> Result<usize, Reason> {
    let bytes = tree.chunk_bytes(index).ok_or(Reason::UNASKED_UTXO_SET)?;
    let start = chunk_start(payload, bytes).map_err(|_| Reason::BadUtxoSet("a chunk of another length"))?;
    if tree.has_chunk(index, &payload[start..]) {
        Ok(start)
    } else {
        Err(Reason::BadUtxoSet("a chunk without the hash of its tree"))
    }
}

impl SetDownload {
    /// A connection ended: its chunks are requested from others.
    pub(super) fn remove_peer(&mut self, id: PeerId) {
        self.senders.remove(&id);
        self.owed.remove(&id);
    }

    /// Handles a message that answers no request for this set.
    fn on_unasked(&mut self, id: PeerId) -> Result<(), Reason> {
        let owed = self.owed.get_mut(&id).filter(|owed| **owed > 0).ok_or(Reason::UNASKED_UTXO_SET)?;
        *owed -= 1;
        Ok(())
    }

    /// Handles `utxotree`.
    ///
    /// # Errors
    ///
    /// The tree was not requested.
    pub(super) fn on_tree(
        &mut self,
        cx: &mut Context,
        id: PeerId,
        base: BlockHash,
        tree: ChunkTree,
        now: Now,
    ) -> Result<(), Reason> {
        let Some(exchange) = cx.config.set_exchange.clone() else { return Err(Reason::UNASKED_UTXO_SET) };
        let is_asked = |sender: &&mut Sender| self.base == Some(base) && matches!(sender.offer, Offer::Asked(_));
        let Some(sender) = self.senders.get_mut(&id).filter(is_asked) else { return self.on_unasked(id) };
        if tree.hashes.is_empty() {
            sender.refute();
            return Err(Reason::BadUtxoSet("an empty set"));
        }
        let root = tree.root();
        sender.offer = Offer::Tree(root, Arc::new(tree));
        sender.stalls = 0;
        self.first_tree_at.get_or_insert(now.since_start);
        self.ask(cx, &exchange, now);
        Ok(())
    }

    /// Handles `utxoset`.
    ///
    /// # Errors
    ///
    /// The chunk was not requested, or is not that of the tree.
    pub(super) fn on_chunk(
        &mut self,
        cx: &mut Context,
        id: PeerId,
        received: Received,
        now: Now,
    ) -> Result<(), Reason> {
        let Some(exchange) = cx.config.set_exchange.clone() else { return Err(Reason::UNASKED_UTXO_SET) };
        let payload = received.payload();
        let Some((base, index)) = chunk_named(payload) else { return Err(Reason::BadUtxoSet("a chunk cut short")) };
        let is_asked = |sender: &&mut Sender| {
            self.base == Some(base) && (sender.awaited.contains_key(&index) || sender.late.contains(&index))
        };
        let Some(sender) = self.senders.get_mut(&id).filter(is_asked) else { return self.on_unasked(id) };
        let Offer::Tree(root, tree) = &sender.offer else {
            sender.late.remove(&index);
            return Ok(());
        };
        let root = *root;
        let start = match verified_start(tree, index, payload) {
            Ok(start) => start,
            Err(reason) => {
                sender.refute();
                return Err(reason);
            }
        };
        sender.awaited.remove(&index);
        sender.late.remove(&index);
        sender.stalls = 0;
        sender.rests_until = Duration::ZERO;
        let mut shared = exchange.lock();
        if shared.tree().is_some_and(|(chosen, _)| *chosen == root) {
            let start = received.start + start;
            shared.put(index, Chunk::new(received.bytes, start));
        }
        drop(shared);
        self.ask(cx, &exchange, now);
        Ok(())
    }

    /// Runs the timers and asks peers; returns the peers to disconnect.
    pub(super) fn tick(&mut self, cx: &mut Context, now: Now) -> Vec<(PeerId, Reason)> {
        let Some(exchange) = cx.config.set_exchange.clone() else { return Vec::new() };
        self.begin(&exchange);
        if self.base.is_none() {
            return Vec::new();
        }
        self.time_out(now.since_start);
        let liars = self.liars(&exchange.lock());
        for id in &liars {
            self.senders.entry(*id).or_default().refute();
        }
        self.ask(cx, &exchange, now);
        liars.into_iter().map(|id| (id, Reason::BadUtxoSet("a set with another hash than the wanted one"))).collect()
    }

    /// Starts over if the reader wants another set.
    fn begin(&mut self, exchange: &SetExchange) {
        let wanted = exchange.lock().wanted();
        if wanted != self.base {
            let mut owed = std::mem::take(&mut self.owed);
            for (id, sender) in &self.senders {
                let tree = usize::from(matches!(sender.offer, Offer::Asked(_)));
                *owed.entry(*id).or_default() += sender.awaited.len() + sender.late.len() + tree;
            }
            *self = SetDownload { base: wanted, owed, ..SetDownload::default() };
        }
    }

    fn time_out(&mut self, at: Duration) {
        let is_over = |since: Duration| at.saturating_sub(since) > ANSWER_TIMEOUT;
        for sender in self.senders.values_mut() {
            if let Offer::Asked(since) = sender.offer
                && is_over(since)
            {
                // It is not asked again: a node that cannot serve a set does not answer.
                sender.stalls = STALLS_COUNT_MAX;
            }
            let over: Vec<u32> =
                sender.awaited.extract_if(.., |_, since| is_over(*since)).map(|(index, _)| index).collect();
            if !over.is_empty() {
                sender.late.extend(over);
                sender.stall(at);
            }
        }
    }

    /// Peers whose root was refuted.
    fn liars(&self, shared: &Shared) -> Vec<PeerId> {
        let is_liar = |sender: &Sender| sender.root().is_some_and(|root| shared.is_refuted(&root));
        self.senders.iter().filter(|(_, sender)| is_liar(sender)).map(|(id, _)| *id).collect()
    }

    /// Asks peers for their trees, chooses one, asks for chunks, and wakes the reader.
    fn ask(&mut self, cx: &mut Context, exchange: &SetExchange, now: Now) {
        let Some(base) = self.base else { return };
        let at = now.since_start;
        let sources: Vec<PeerId> = cx.peers.values().filter(|peer| is_source(peer)).map(|peer| peer.id).collect();
        for id in sources {
            let sender = self.senders.entry(id).or_default();
            if matches!(sender.offer, Offer::NotAsked) {
                sender.offer = Offer::Asked(at);
                cx.send(id, &Message::GetUtxoTree(base));
            }
        }
        let mut shared = exchange.lock();
        if shared.tree().is_none()
            && let Some((root, tree, votes)) = self.choice(&shared, at)
        {
            let count = tree.hashes.len();
            shared.note(format!(
                "peers: {count} chunks, Merkle root {root}, offered by {votes} of {} peers",
                self.offers()
            ));
            shared.choose(root, tree);
        }
        self.leave_deserted(&mut shared, at);
        exchange.wake();
        let Some(chosen) = shared.tree().map(|(root, _)| *root) else { return };
        let is_other = |root: Hash256| root != chosen && !shared.is_refuted(&root);
        let has_other = self.senders.values().filter_map(Sender::root).any(is_other);
        shared.set_has_other(has_other);
        let missing = shared.missing();
        drop(shared);
        for (id, index) in self.assign(&missing, chosen, at) {
            cx.send(id, &Message::GetUtxoSet(base, index));
        }
    }

    /// Changes to another tree if no peer has offered the chosen one for [`HEDGE_DELAY`].
    fn leave_deserted(&mut self, shared: &mut Shared, at: Duration) {
        let Some(chosen) = shared.tree().map(|(root, _)| *root) else { return };
        let is_offered = |sender: &Sender| sender.root() == Some(chosen) && sender.stalls < STALLS_COUNT_MAX;
        // A set that was cut ends: the reader must refute its tree before another one is chosen.
        if shared.is_cut() || self.senders.values().any(is_offered) {
            self.deserted_at = None;
            return;
        }
        let since = *self.deserted_at.get_or_insert(at);
        if at.saturating_sub(since) >= HEDGE_DELAY
            && let Some((root, tree, _)) = self.choice(shared, at)
            && root != chosen
        {
            shared.note(format!("peers: nobody offers the tree {chosen} any more; Merkle root {root} is tried"));
            shared.change(root, tree);
        }
    }

    fn offers(&self) -> usize {
        self.senders.values().filter(|sender| sender.root().is_some()).count()
    }

    /// The root that most peers offer and how many they are, once there was time for all to answer. Between equals, the
    /// one of the peer that was connected first.
    fn choice(&self, shared: &Shared, at: Duration) -> Option<(Hash256, Arc<ChunkTree>, usize)> {
        let is_waiting = self.senders.values().any(|sender| matches!(sender.offer, Offer::Asked(_)));
        let is_over = self.first_tree_at.is_some_and(|first| at.saturating_sub(first) >= TREE_GRACE);
        if is_waiting && !is_over {
            return None;
        }
        let mut best: Option<(Hash256, Arc<ChunkTree>, usize)> = None;
        for sender in self.senders.values() {
            let Offer::Tree(root, tree) = &sender.offer else { continue };
            let votes = self.senders.values().filter(|other| other.root() == Some(*root)).count();
            if !shared.is_refuted(root) && best.as_ref().is_none_or(|(_, _, most)| votes > *most) {
                best = Some((*root, Arc::clone(tree), votes));
            }
        }
        best
    }

    /// Chooses a peer for each missing chunk, as far as there are peers: the one with the fewest requests.
    fn assign(&mut self, missing: &[u32], chosen: Hash256, at: Duration) -> Vec<(PeerId, u32)> {
        let mut asks = Vec::new();
        for (place, index) in missing.iter().enumerate() {
            let asked: Vec<Duration> =
                self.senders.values().filter_map(|sender| sender.awaited.get(index)).copied().collect();
            let is_due = match &asked[..] {
                [] => true,
                [since] => place == 0 && at.saturating_sub(*since) >= HEDGE_DELAY,
                _ => false,
            };
            if !is_due {
                continue;
            }
            let free = self.senders.iter_mut().filter(|(_, sender)| {
                sender.root() == Some(chosen)
                    && sender.may_ask(at)
                    && sender.awaited.len() < CHUNKS_PER_PEER
                    && !sender.awaited.contains_key(index)
            });
            if let Some((id, sender)) = free.min_by_key(|(id, sender)| (sender.awaited.len(), sender.stalls, **id)) {
                sender.awaited.insert(*index, at);
                asks.push((*id, *index));
            }
        }
        asks
    }
}
