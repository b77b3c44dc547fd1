//! Shared state of the parts of the hub: connections, chain, settings, and queued actions.
//!
//! Absent on purpose: the state of a part for each peer. Each part keeps that itself, by the peer's id.

use super::Action;
use crate::addresses::Discouraged;
use crate::api::{Config, Event, PeerId};
use crate::chain::ChainView;
use crate::journal::Journal;
use crate::peer::Peer;
use crate::rng::Rng;
use crate::time::Now;
use crate::upload_target::UploadTarget;
use crate::wire::{Message, NetAddress};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, PoisonError};

/// The shared state.
pub(super) struct Context {
    pub(super) config: Config,
    pub(super) chain: Arc<dyn ChainView>,
    pub(super) rng: Rng,
    /// The connections, by id.
    pub(super) peers: BTreeMap<PeerId, Peer>,
    /// Discouraged addresses.
    pub(super) discouraged: Discouraged,
    /// The user has turned the network off.
    pub(super) is_off: bool,
    pub(super) upload: UploadTarget,
    has_caught_up: bool,
    actions: VecDeque<Action>,
    next_id: u64,
}

impl Context {
    pub(super) fn new(config: Config, chain: Arc<dyn ChainView>, rng: Rng) -> Context {
        let peers = BTreeMap::new();
        let actions = VecDeque::new();
        let discouraged = Discouraged::default();
        let upload = UploadTarget::new(config.upload_max);
        Context {
            config,
            chain,
            rng,
            peers,
            discouraged,
            is_off: false,
            upload,
            has_caught_up: false,
            actions,
            next_id: 0,
        }
    }

    /// Whether initial block download has ended once. Unlike [`ChainView::initial_download`], this stays true when
    /// the tip grows old: an attacker who hides new blocks must not switch off what finds them.
    pub(super) fn has_caught_up(&mut self) -> bool {
        self.has_caught_up |= !self.chain.initial_download();
        self.has_caught_up
    }

    /// Removes and returns the next action.
    pub(super) fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Queues an action.
    pub(super) fn ask(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    /// Queues an event for the node.
    pub(super) fn event(&mut self, event: Event) {
        self.ask(Action::Event(event));
    }

    /// Writes a line to the log at once.
    pub(super) fn log(&self, line: impl AsRef<str>) {
        self.config.log.write(line.as_ref());
    }

    /// Writes a line of `--debug net` at once, if that is on.
    pub(super) fn debug(&self, line: impl FnOnce() -> String) {
        if let Some(lines) = &self.config.debug_net {
            lines.write(&line());
        }
    }

    /// Writes the lines of a connection, which has them with `--debug net` only.
    pub(super) fn debug_journal(&self, journal: &mut Journal) {
        let Some(lines) = &self.config.debug_net else { return };
        journal.take().iter().for_each(|line| lines.write(line));
    }

    /// A new id for a connection, never used before.
    pub(super) fn new_id(&mut self) -> PeerId {
        let id = PeerId(self.next_id);
        self.next_id += 1;
        id
    }

    /// The ids of the connections.
    pub(super) fn peer_ids(&self) -> Vec<PeerId> {
        self.peers.keys().copied().collect()
    }

    /// Sends a message to a peer, if it is connected.
    pub(super) fn send(&mut self, id: PeerId, message: &Message) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.send(message);
        }
    }

    /// Whether an address is neither connected to nor told to peers: it is discouraged, or the user banned it.
    pub(super) fn is_shunned(&self, address: &NetAddress, now: Now) -> bool {
        self.discouraged.has(address, now.unix) || self.is_banned(address, now)
    }

    /// Whether the user banned an address.
    pub(super) fn is_banned(&self, address: &NetAddress, now: Now) -> bool {
        let unix = i64::try_from(now.unix).unwrap_or(i64::MAX);
        self.config.bans.lock().unwrap_or_else(PoisonError::into_inner).is_banned(address, unix)
    }
}

/// Set-up for tests of single parts.
#[cfg(test)]
pub(super) mod alone {
    use super::*;
    use crate::api::Outbound;
    use crate::params::REGTEST;
    use crate::peer::{Greeting, Kind};
    use crate::sim::Chain;
    use crate::transport::Transport;
    use crate::wire::{Command, PeerAddress, Target, Version, frame_v1, services};
    use std::time::Duration;

    /// The time of these tests.
    pub(in super::super) fn now(seconds: u64) -> Now {
        Now { since_start: Duration::from_secs(seconds), unix: 1_700_000_000 + seconds }
    }

    /// A context without a peer.
    pub(in super::super) fn context(chain: &Arc<Chain>) -> Context {
        let config = Config { outbound: Outbound::Only(Vec::new()), ..Config::new(REGTEST) };
        Context::new(config, Arc::clone(chain) as Arc<dyn ChainView>, Rng::Seeded(1))
    }

    /// A peer in a /16 of its own that serves blocks, with a finished handshake.
    pub(in super::super) fn add_peer(cx: &mut Context, kind: Kind) -> PeerId {
        let id = cx.new_id();
        let place = u8::try_from(id.0).expect("a few peers");
        let remote = PeerAddress { address: NetAddress::V4([20 + place, 1, 1, 1]), port: 18444 };
        let greeting = Greeting { services: 0, agent: "/x/".to_owned(), height: 0, utxo_sets: false };
        let (transport, at) = (Transport::v1(REGTEST.magic), now(0));
        let mut peer = Peer::new(id, kind, Target::Peer(remote), transport, greeting, at, &mut cx.rng);
        let offered = services::NETWORK | services::WITNESS;
        let (agent, nonce) = (Vec::new(), 7);
        let version = Version { version: 70016, services: offered, time: 0, nonce, agent, height: 0, relay: false };
        let mut bytes = frame_v1(REGTEST.magic, Command::Version, &Message::Version(version).encode().1);
        bytes.extend(frame_v1(REGTEST.magic, Command::Verack, &[]));
        peer.transport.feed(&bytes);
        while peer.next(at, |_| false).expect("a sound handshake").is_some() {}
        assert!(peer.is_ready());
        cx.peers.insert(id, peer);
        id
    }

    /// The queued actions.
    pub(in super::super) fn actions(cx: &mut Context) -> Vec<Action> {
        std::iter::from_fn(|| cx.next_action()).collect()
    }
}
