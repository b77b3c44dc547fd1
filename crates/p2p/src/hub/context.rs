//! What every part of the hub works with: the connections, the chain, the settings, and what the world is asked to do.
//!
//! Absent on purpose: what a part knows of a peer. Each part keeps that itself, by the peer's name.

use super::Action;
use crate::addresses::Discouraged;
use crate::api::{Config, Event, PeerId};
use crate::chain::ChainView;
use crate::peer::Peer;
use crate::rng::Rng;
use crate::time::Now;
use crate::upload_target::UploadTarget;
use crate::wire::{Message, NetAddress};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, PoisonError};

/// What the parts share.
pub(super) struct Context {
    pub(super) config: Config,
    pub(super) chain: Arc<dyn ChainView>,
    pub(super) rng: Rng,
    /// The connections, by name.
    pub(super) peers: BTreeMap<PeerId, Peer>,
    /// Addresses that misbehaved.
    pub(super) discouraged: Discouraged,
    /// A person wants no connections at the moment.
    pub(super) is_off: bool,
    pub(super) upload: UploadTarget,
    actions: VecDeque<Action>,
    next_id: u64,
}

impl Context {
    pub(super) fn new(config: Config, chain: Arc<dyn ChainView>, rng: Rng) -> Context {
        let peers = BTreeMap::new();
        let actions = VecDeque::new();
        let discouraged = Discouraged::default();
        let upload = UploadTarget::new(config.upload_max);
        Context { config, chain, rng, peers, discouraged, is_off: false, upload, actions, next_id: 0 }
    }

    /// What is to be done next.
    pub(super) fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Asks the world to do something.
    pub(super) fn ask(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    /// Tells the node.
    pub(super) fn event(&mut self, event: Event) {
        self.ask(Action::Event(event));
    }

    /// A line for the log alone.
    pub(super) fn log(&mut self, line: impl Into<String>) {
        self.event(Event::Log(line.into()));
    }

    /// A line of `--debug net`, where that is wanted.
    pub(super) fn debug(&mut self, line: impl FnOnce() -> String) {
        if self.config.debug_net {
            self.event(Event::Debug(line()));
        }
    }

    /// The name of a connection, never used before.
    pub(super) fn new_id(&mut self) -> PeerId {
        let id = PeerId(self.next_id);
        self.next_id += 1;
        id
    }

    /// The connections, by name.
    pub(super) fn peer_ids(&self) -> Vec<PeerId> {
        self.peers.keys().copied().collect()
    }

    /// Sends a message to a peer that is there.
    pub(super) fn send(&mut self, id: PeerId, message: &Message) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.send(message);
        }
    }

    /// Whether a person banned an address.
    pub(super) fn is_banned(&self, address: &NetAddress, now: Now) -> bool {
        let unix = i64::try_from(now.unix).unwrap_or(i64::MAX);
        self.config.bans.lock().unwrap_or_else(PoisonError::into_inner).is_banned(address, unix)
    }
}

/// What tests of single parts begin with.
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

    /// A peer of a /16 of its own that offers blocks, its handshake done.
    pub(in super::super) fn add_peer(cx: &mut Context, kind: Kind) -> PeerId {
        let id = cx.new_id();
        let place = u8::try_from(id.0).expect("a few peers");
        let remote = PeerAddress { address: NetAddress::V4([20 + place, 1, 1, 1]), port: 18444 };
        let greeting = Greeting { services: 0, agent: "/x/".to_owned(), height: 0 };
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

    /// The actions that are asked for.
    pub(in super::super) fn actions(cx: &mut Context) -> Vec<Action> {
        std::iter::from_fn(|| cx.next_action()).collect()
    }
}
