//! The handshake of a connection: what is said before anything else.
//!
//! Source: BIP-0031, BIP-0155; Bitcoin Core b88bffe, net_processing.cpp, `ProcessMessage`.

use super::{Input, Kind, Peer, VERSION_MIN};
use crate::reason::Reason;
use crate::time::Now;
use crate::wire::{Command, Message, PROTOCOL_VERSION, Version};

impl Peer {
    /// Before the handshake is done everything that is not part of it is ignored, as in Core.
    pub(super) fn shake_hands(
        &mut self,
        command: Command,
        message: Message,
        now: Now,
        is_own_nonce: &impl Fn(u64) -> bool,
    ) -> Result<Option<Input>, Reason> {
        match message {
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
                self.version = Some(version);
                if !self.is_outbound() {
                    self.send_version(now);
                }
                if common >= PROTOCOL_VERSION {
                    self.send(&Message::SendAddrV2);
                }
                self.send(&Message::Verack);
                if self.kind == Kind::Feeler {
                    return Err(Reason::FeelerDone);
                }
                Ok(None)
            }
            Message::SendAddrV2 => {
                self.wants_addrv2 = true;
                Ok(None)
            }
            Message::Verack if self.version.is_some() => {
                self.ready = true;
                self.ping(now);
                Ok(Some(Input::Ready))
            }
            _ => {
                let (name, id) = (command.name(), self.id);
                self.journal.say(|| match self.version {
                    None => format!("non-version message before version handshake. Message \"{name}\" from peer={id}"),
                    Some(_) => format!("Unsupported message \"{name}\" prior to verack from peer={id}"),
                });
                Ok(None)
            }
        }
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
