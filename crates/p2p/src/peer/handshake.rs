//! The handshake of a connection: the messages before all others.
//!
//! Source: BIP-0031, BIP-0155, BIP-0434; Bitcoin Core b88bffe, net_processing.cpp, `ProcessMessage`.

use super::{Input, Kind, Peer, VERSION_MIN};
use crate::reason::Reason;
use crate::time::Now;
use crate::utxo_sets;
use crate::wire::{ADDRV2_VERSION, Command, FEATURE_VERSION, Message, PROTOCOL_VERSION, Version};

/// Whether a byte from a peer may be shown. Source: Bitcoin Core b88bffe, util/strencodings.cpp,
/// `SAFE_CHARS_DEFAULT`.
fn is_safe(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b" .,;-_/:?@()".contains(byte)
}

impl Peer {
    /// Until the handshake is finished, all other messages are ignored, as in Core.
    pub(super) fn shake_hands(
        &mut self,
        command: Command,
        message: Message,
        now: Now,
        is_own_nonce: &impl Fn(u64) -> bool,
    ) -> Result<Option<Input>, Reason> {
        match message {
            // The feeler's test has succeeded.
            _ if self.kind == Kind::Feeler && self.version.is_some() => Ok(None),
            Message::Version(_) if self.version.is_some() => {
                self.journal.say(|| format!("redundant version message from peer={}", self.id));
                Ok(None)
            }
            Message::Version(version) => {
                if version.version < VERSION_MIN {
                    return Err(Reason::ObsoleteVersion(version.version));
                }
                if is_own_nonce(version.nonce) {
                    return Err(Reason::SelfConnection);
                }
                let ours = i64::try_from(now.unix).unwrap_or(i64::MAX);
                self.time_offset = version.time.saturating_sub(ours);
                let common = version.version.min(PROTOCOL_VERSION);
                self.say_version(&version);
                self.version = Some(version);
                if !self.is_outbound() {
                    self.send_version(now);
                }
                if common >= ADDRV2_VERSION {
                    self.send(&Message::SendAddrV2);
                }
                if common >= FEATURE_VERSION && self.greeting.utxo_sets {
                    self.send(&Message::Feature(Some(utxo_sets::FEATURE.to_vec())));
                }
                self.send(&Message::Verack);
                Ok(None)
            }
            Message::SendAddrV2 => {
                self.wants_addrv2 = true;
                Ok(None)
            }
            Message::Feature(name) if self.version.is_some() => self.note_feature(name).map(|()| None),
            Message::Verack if self.version.is_some() => {
                self.ready = true;
                self.ping(self.first_ping_nonce, now);
                Ok(Some(Input::Ready))
            }
            _ => {
                let name = command.name();
                let id = self.id;
                self.journal.say(|| match self.version {
                    None => format!("non-version message before version handshake. Message \"{name}\" from peer={id}"),
                    Some(_) => format!("Unsupported message \"{name}\" prior to verack from peer={id}"),
                });
                Ok(None)
            }
        }
    }

    /// Source of the words: Bitcoin Core b88bffe, `ProcessMessage` and `CNode::LogPeer`. The part about our address is
    /// ignored.
    fn say_version(&mut self, version: &Version) {
        let agent =
            |bytes: &[u8]| bytes.iter().filter(|byte| is_safe(byte)).map(|&b| char::from(b)).collect::<String>();
        let Version { version: number, height, relay, .. } = version;
        let address = if self.is_address_logged { format!(", peeraddr={}", self.target) } else { String::new() };
        let id = self.id;
        self.journal.say(|| {
            let agent = if version.agent.is_empty() { "<no user agent>".to_owned() } else { agent(&version.agent) };
            let relay = u8::from(*relay);
            format!("receive version message: {agent}: version {number}, blocks={height}, txrelay={relay}, peer={id}{address}")
        });
    }

    /// Features are offered by the peer; ffwd supports one, BIP-0452. Source: Bitcoin Core b88bffe, `ProcessMessage`.
    fn note_feature(&mut self, name: Option<Vec<u8>>) -> Result<(), Reason> {
        let common = self.version.as_ref().map_or(0, |version| version.version.min(PROTOCOL_VERSION));
        if common < FEATURE_VERSION {
            return Err(Reason::FeatureVersion(common));
        }
        let name = name.ok_or(Reason::Feature)?;
        if name == utxo_sets::FEATURE {
            self.speaks_utxo_sets = true;
            return Ok(());
        }
        self.journal.say(|| {
            let name: String = name.iter().filter(|byte| is_safe(byte)).map(|&byte| char::from(byte)).collect();
            format!("unknown feature advertised: {name}")
        });
        Ok(())
    }

    /// Whether a feeler has succeeded, and the peer has received our answer.
    pub(crate) fn is_felt(&self) -> bool {
        self.kind == Kind::Feeler && self.version.is_some() && self.transport.out_bytes() == 0
    }

    pub(super) fn send_version(&mut self, now: Now) {
        let version = Version {
            version: PROTOCOL_VERSION,
            services: self.greeting.services,
            time: i64::try_from(now.unix).unwrap_or(i64::MAX),
            nonce: self.nonce,
            agent: self.greeting.agent.clone().into_bytes(),
            height: self.greeting.height,
            relay: false,
        };
        self.send(&Message::Version(version));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::PeerId;
    use crate::journal::Journal;
    use crate::peer::Greeting;
    use crate::rng::Rng;
    use crate::transport::Transport;
    use crate::wire::{NetAddress, PeerAddress, Target, frame_v1};
    use std::time::Duration;

    const MAGIC: [u8; 4] = [1, 2, 3, 4];

    /// An inbound peer of this version that has sent these payloads of `feature`: why it went, and what was said of it.
    fn offered(version: u32, features: &[&[u8]], after: &[Command]) -> (Option<Reason>, Vec<String>) {
        let now = Now { since_start: Duration::ZERO, unix: 1_700_000_000 };
        let target = Target::Peer(PeerAddress { address: NetAddress::V4([127, 0, 0, 1]), port: 7 });
        let greeting = Greeting { services: 0, agent: "/x/".to_owned(), height: 0, utxo_sets: false };
        let mut peer =
            Peer::new(PeerId(3), Kind::Inbound, target, Transport::v1(MAGIC), greeting, now, &mut Rng::Seeded(1));
        peer.journal = Journal::new(true);
        peer.is_address_logged = true;
        let hello =
            Version { version, services: 0, time: 0, nonce: 9, agent: b"/a<b>/".to_vec(), height: 5, relay: true };
        let mut bytes = frame_v1(MAGIC, Command::Version, &Message::Version(hello).encode().1);
        after.iter().for_each(|command| bytes.extend(frame_v1(MAGIC, *command, &[])));
        features.iter().for_each(|feature| bytes.extend(frame_v1(MAGIC, Command::Feature, feature)));
        let mut gone = None;
        while !bytes.is_empty() && gone.is_none() {
            let space = peer.transport.space();
            let count = space.len().min(bytes.len());
            space[..count].copy_from_slice(&bytes[..count]);
            peer.transport.received(count);
            bytes.drain(..count);
            while gone.is_none() {
                match peer.next(now, |_| false) {
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(reason) => gone = Some(reason),
                }
            }
        }
        (gone, peer.journal.take())
    }

    /// Such a round trip of 0 would protect it from eviction.
    #[test]
    fn a_peer_cannot_answer_a_ping_that_it_has_not_received() {
        let now = Now { since_start: Duration::ZERO, unix: 1_700_000_000 };
        let target = Target::Peer(PeerAddress { address: NetAddress::V4([8, 1, 1, 1]), port: 7 });
        let greeting = Greeting { services: 0, agent: "/x/".to_owned(), height: 0, utxo_sets: false };
        let rng = &mut Rng::Seeded(1);
        let mut peer = Peer::new(PeerId(3), Kind::Inbound, target, Transport::v1(MAGIC), greeting, now, rng);
        let version = Version { version: 70016, services: 0, time: 0, nonce: 9, agent: vec![], height: 5, relay: true };
        let nonce = peer.nonce();
        for message in [Message::Version(version), Message::Verack, Message::Pong(nonce)] {
            let (command, payload) = message.encode();
            let bytes = frame_v1(MAGIC, command, &payload);
            peer.transport.space()[..bytes.len()].copy_from_slice(&bytes);
            peer.transport.received(bytes.len());
            while peer.next(now, |_| false).unwrap().is_some() {}
        }
        let (ping, _) = peer.ping.expect("the first ping waits for its answer");
        assert!(peer.is_ready() && ping != nonce && peer.round_trip.is_none(), "{:?}", peer.round_trip);
    }

    /// The cases of Core's p2p_bip434_feature.py.
    #[test]
    fn features_are_heard_between_version_and_verack() {
        let good: &[u8] = b"\x04ab\xff1\x00";
        for (row, version, features, after, want) in [
            ("one", 70017, vec![good], vec![], None),
            ("many", 70017, vec![good; 16], vec![], None),
            ("of a later version", 80000, vec![good], vec![], None),
            ("of an earlier version", 70016, vec![good], vec![], Some(Reason::FeatureVersion(70016))),
            ("not well-formed", 70017, vec![&good[..4]], vec![], Some(Reason::Feature)),
            ("after verack", 70017, vec![good], vec![Command::Verack], Some(Reason::OutOfTurn("feature"))),
        ] {
            let (gone, said) = offered(version, &features, &after);
            assert_eq!(gone, want, "{row}");
            let count = said.iter().filter(|line| *line == "unknown feature advertised: ab1").count();
            assert_eq!(count, if want.is_none() { features.len() } else { 0 }, "{row}");
        }
        let (_, said) = offered(70016, &[], &[]);
        let want = "receive version message: /ab/: version 70016, blocks=5, txrelay=1, peer=3, peeraddr=127.0.0.1:7";
        assert!(said.iter().any(|line| line == want), "{said:?}");
    }
}
