//! Log lines of each connection with `-debug=net`, in Core's words, so that tools for Core's log can parse them.
//!
//! Source: Bitcoin Core b88bffe, net.cpp and net_processing.cpp, `LogDebug(BCLog::NET, ..)`.
//! Absent on purpose: messages that are always logged; these are the text of [`Reason`].

use crate::api::PeerId;
use crate::reason::Reason;
use crate::wire::{Command, WireError, limits};
use primitives::hex;

/// Lines of one peer; `None` if they are off.
#[derive(Debug, Default)]
pub(crate) struct Journal(Option<Vec<String>>);

impl Journal {
    /// A journal that collects lines if `is_wanted`.
    pub(crate) fn new(is_wanted: bool) -> Journal {
        Journal(is_wanted.then(Vec::new))
    }

    /// Adds a line.
    pub(crate) fn say(&mut self, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.0 {
            lines.push(line());
        }
    }

    /// Removes and returns the lines.
    pub(crate) fn take(&mut self) -> Vec<String> {
        self.0.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Adds a line for a received message.
    pub(crate) fn received(&mut self, command: Command, bytes: usize, peer: PeerId) {
        self.say(|| format!("received: {} ({bytes} bytes) peer={peer}", command.name()));
    }

    /// Adds a line for a queued message.
    pub(crate) fn sending(&mut self, command: Command, bytes: usize, peer: PeerId) {
        self.say(|| format!("sending {} ({bytes} bytes) peer={peer}", command.name()));
    }
}

/// Why a connection ends.
pub(crate) fn of_end(reason: &Reason, peer: PeerId) -> String {
    let why = match reason {
        Reason::Wire(error) => return of_wire(error, peer),
        Reason::HandshakeTimeout => "version handshake timeout".to_owned(),
        Reason::V2HandshakeTimeout => "V2 handshake timeout".to_owned(),
        Reason::NeverSpoke { time, has_received, has_sent } => {
            let received = if *has_received { "" } else { ", never received from peer" };
            let sent = if *has_sent { "" } else { ", never sent to peer" };
            format!("socket no message in first {} seconds{received}{sent}", time.as_secs())
        }
        Reason::Silent(time) => format!("socket receive timeout: {}s", time.as_secs()),
        Reason::SendTimeout(time) => format!("socket sending timeout: {}s", time.as_secs()),
        Reason::PingTimeout(time) => format!("ping timeout: {:.6}s", time.as_secs_f64()),
        Reason::ObsoleteVersion(version) => format!("peer using obsolete version {version}"),
        Reason::SelfConnection => "connected to self".to_owned(),
        Reason::MissingServices { offered, expected } => {
            format!("peer does not offer the expected services ({offered:08x} offered, {expected:08x} expected)")
        }
        Reason::AddressesFetched => "addrfetch connection completed".to_owned(),
        Reason::LittleWork => "outbound peer headers chain has insufficient work".to_owned(),
        Reason::HeadersStalled => "Timeout downloading headers".to_owned(),
        Reason::BlockStalled(_) => "Peer is stalling block download".to_owned(),
        Reason::BlockTimeout(hash) => format!("Timeout downloading block {hash}"),
        Reason::BeyondOffer(_) => "Ignore block request below NODE_NETWORK_LIMITED threshold".to_owned(),
        Reason::UploadLimit => "historical block serving limit reached".to_owned(),
        Reason::FilterType(kind) => format!("peer requested unsupported block filter type: {kind}"),
        Reason::FilterStop(hash) => format!("peer requested invalid block hash: {hash}"),
        Reason::FilterRange { start, stop } => {
            format!("peer sent invalid getcfilters/getcfheaders with start height {start} and stop height {stop}")
        }
        Reason::FilterCount { count, max } => format!("peer requested too many cfilters/cfheaders: {count} / {max}"),
        Reason::OfBloom(what @ "filtered block request") => format!("{what} received when NODE_BLOOM service disabled"),
        Reason::OfBloom("mempool") => "mempool request with bloom filters disabled".to_owned(),
        Reason::OfBloom(what) => format!("{what} received despite not offering bloom services"),
        Reason::Feature => "invalid feature payload".to_owned(),
        Reason::FeatureVersion(version) => format!("feature received with incompatible version {version}"),
        Reason::OutOfTurn(command) => format!("{command} received after verack"),
        Reason::LongLocator { command, count } => {
            format!("{command} locator size {count} > {}", limits::LOCATOR_COUNT_MAX)
        }
        Reason::HeaderWork => return misbehaving("header with invalid proof of work", peer),
        Reason::HeadersNotContinuous => return misbehaving("non-continuous headers sequence", peer),
        Reason::HeaderInvalid { reason, .. } => {
            return misbehaving(&format!("invalid header received: {reason}"), peer);
        }
        Reason::BadBody { reason, .. } | Reason::InvalidBlock { reason, .. } => return misbehaving(reason, peer),
        Reason::BadMessage { command, why } => return misbehaving(&format!("{command} message {why}"), peer),
        other => other.to_string(),
    };
    format!("{why}, disconnecting peer={peer}")
}

fn misbehaving(why: &str, peer: PeerId) -> String {
    format!("Misbehaving: peer={peer}: {why}")
}

fn of_wire(error: &WireError, peer: PeerId) -> String {
    let why = match error {
        WireError::Magic { have, .. } => format!("Header error: Wrong MessageStart {} received", hex::encode(have)),
        WireError::MagicOfV1 { have, .. } => {
            format!("V2 transport error: V1 peer with wrong MessageStart {}", hex::encode(have))
        }
        WireError::Command(_) => "Header error: Invalid message type".to_owned(),
        WireError::Oversized { bytes } => format!("Header error: Size too large ({bytes} bytes)"),
        WireError::Checksum { command, want, have } => {
            let want = hex::encode(want);
            let have = hex::encode(have);
            format!("Header error: Wrong checksum ({command}), expected {have} was {want}")
        }
        WireError::NoGarbageTerminator => "V2 transport error: missing garbage terminator".to_owned(),
        WireError::Decryption => "V2 transport error: packet decryption failure".to_owned(),
        WireError::MessageType => "V2 transport error: invalid message type".to_owned(),
    };
    format!("{why}, peer={peer}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn ends_are_said_in_cores_words() {
        let peer = PeerId(3);
        for (reason, want) in [
            (Reason::HandshakeTimeout, "version handshake timeout, disconnecting peer=3"),
            (
                Reason::NeverSpoke { time: Duration::from_secs(3), has_received: false, has_sent: false },
                "socket no message in first 3 seconds, never received from peer, never sent to peer, disconnecting peer=3",
            ),
            (Reason::HeaderWork, "Misbehaving: peer=3: header with invalid proof of work"),
            (
                Reason::Wire(WireError::Magic { want: [0; 4], have: [255; 4] }),
                "Header error: Wrong MessageStart ffffffff received, peer=3",
            ),
            (Reason::Closed, "closed by the peer, disconnecting peer=3"),
        ] {
            assert_eq!(of_end(&reason, peer), want);
        }
    }

    #[test]
    fn lines_are_collected_where_they_are_wanted() {
        for (is_wanted, count) in [(true, 2), (false, 0)] {
            let mut journal = Journal::new(is_wanted);
            journal.received(Command::Ping, 8, PeerId(0));
            journal.sending(Command::Pong, 8, PeerId(0));
            assert_eq!(journal.take().len(), count);
            assert!(journal.take().is_empty());
        }
    }
}
