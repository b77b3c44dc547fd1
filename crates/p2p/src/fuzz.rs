//! Entry points for fuzzing: arbitrary bytes as input from the wire, a file or a peer.
//!
//! Not part of the interface. Required: no panic, and no memory beyond the limits of the settings.

mod peer;

pub use peer::fuzz_peer;

use crate::addresses::asmap::AsMap;
use crate::addresses::{Addresses, anchors_file};
use crate::bans::Subnet;
use crate::params::{NetworkParams, REGTEST};
use crate::rng::Rng;
use crate::socks5;
use crate::transport::Transport;
use crate::v2;
use crate::wire::{Command, FRAME_BYTES, Frame, Message, NetAddress, PeerAddress, Target};
use std::io::{self, Read, Write};

/// Presync with few headers, a DNS seed and a fixed one: 30.1.7.7:8333.
const NETWORK: NetworkParams = NetworkParams {
    commitment_period: 7,
    redownload_buffer_count: 10,
    fixed_seeds: &[1, 4, 30, 1, 7, 7, 0x20, 0x8d],
    ..REGTEST
};

/// Feeds `data` to every parser of untrusted bytes; parsed values must serialize to the same bytes.
pub fn fuzz_codec(data: &[u8]) {
    for command in Command::ALL.iter().copied().chain([Command::Other]) {
        if let Ok(message) = Message::parse(command, data) {
            let (again, payload) = message.encode();
            if message != Message::Ignored {
                assert_eq!(again, command, "a message keeps its command");
                assert_eq!(Message::parse(again, &payload).as_ref(), Ok(&message), "and its contents");
            }
        }
    }
    if let Some(head) = data.first_chunk::<FRAME_BYTES>() {
        let _ = Frame::parse(head, NETWORK.magic);
    }
    let _ = v2::message_type(data);
    check_addresses(data);
    if let Ok(text) = std::str::from_utf8(data) {
        if let Ok(target) = Target::parse(text, 1) {
            assert_eq!(Target::parse(&target.to_string(), 1), Ok(target), "what is printed is read");
        }
        if let Some(subnet) = Subnet::parse(text) {
            assert_eq!(Subnet::parse(&subnet.to_string()), Some(subnet), "what is printed is read");
        }
    }
    let _ = socks5::connect(&mut Says(data), "host", 1, Some(2));
    let mut rng = Rng::Seeded(1);
    let transports = [
        Transport::v1(NETWORK.magic),
        Transport::v2_initiator(NETWORK.magic, &mut rng),
        Transport::responder(NETWORK.magic, &mut rng),
    ];
    transports.into_iter().for_each(|transport| feed(transport, data));
    // Handshakes take longer than everything else: one input in eight has them.
    if let Some((&at, payload)) = data.split_first()
        && at % 8 == 7
    {
        check_v2(usize::from(at), &payload[..payload.len().min(V2_BYTES_MAX)]);
    }
}

/// Feeds `data` to the parser of a proxy's answers, for hosts of each kind: it terminates, and reads only available
/// bytes.
pub fn fuzz_socks5(data: &[u8]) {
    for host in ["host", "9.9.9.9", &"n".repeat(255)] {
        // Every error and answer has a text.
        if let Err(why) = socks5::connect(&mut Says(data), host, 8333, Some(7)) {
            assert!(why.to_string().starts_with("proxy: "), "{why}");
        }
    }
}

/// Maximum payload of an encrypted message; more would only take time.
const V2_BYTES_MAX: usize = 2000;

/// The address memory, as it is and with a corrected checksum; addresses as text.
fn check_addresses(data: &[u8]) {
    const NOW: u64 = 1_700_000_000;
    let read = |bytes: &[u8]| Addresses::plain(&mut Rng::Seeded(0)).read(bytes, NETWORK.magic);
    let _ = read(data);
    let _ = anchors_file::from_bytes(data, NETWORK.magic);
    let _ = anchors_file::from_bytes(&Addresses::file_of(data, NETWORK.magic), NETWORK.magic);
    if let Ok(mut addresses) = read(&Addresses::file_of(data, NETWORK.magic)) {
        let again = read(&addresses.to_bytes(NETWORK.magic)).expect("what is written is read");
        assert_eq!(again.count(), addresses.count(), "and no address is lost");
        addresses.resolve_collisions(NOW);
        let _ = addresses.get(0, 0, None, NOW);
    }
    if let Some(map) = AsMap::new(data.to_vec()) {
        let _ = map.system_of(&[data.len() as u8; 16]);
    }
    let Some((&network, bytes)) = data.split_first() else { return };
    if let Ok(Some(address)) = NetAddress::from_bip155(network % 8, bytes) {
        let peer = PeerAddress { address, port: 1 };
        let _ = address.group();
        match Target::parse(&peer.to_string(), 2) {
            Ok(Target::Peer(read)) => {
                assert_eq!(NetAddress::from_bip155(network % 8, read.address.bytes()), Ok(Some(address)))
            }
            // An I2P name is treated as a name to be looked up.
            Ok(Target::Name(..)) => {}
            Err(why) => panic!("{peer}: {why}"),
        }
    }
}

/// Both ends of an encrypted connection after the handshake.
fn shaken_hands() -> (Transport, Transport) {
    let mut rng = Rng::Seeded(7);
    let (mut near, mut far) =
        (Transport::v2_initiator(NETWORK.magic, &mut rng), Transport::responder(NETWORK.magic, &mut rng));
    for _ in 0..4 {
        pass(&mut near, &mut far, None).expect("honest ends");
        pass(&mut far, &mut near, None).expect("honest ends");
    }
    (near, far)
}

/// Passes all pending bytes of one end to the other, with the byte at `bent` changed; returns what arrives there, or
/// that the connection ends.
fn pass(from: &mut Transport, to: &mut Transport, bent: Option<usize>) -> Result<Vec<Vec<u8>>, ()> {
    let (mut arrived, mut done) = (Vec::new(), 0);
    loop {
        let mut bytes = from.to_send().to_vec();
        if bytes.is_empty() {
            return Ok(arrived);
        }
        if let Some(byte) = bent.and_then(|bent| bytes.get_mut(bent.checked_sub(done)?)) {
            *byte ^= 0x20;
        }
        from.sent(bytes.len());
        done += bytes.len();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            rest = &rest[to.feed(rest)..];
            while let Some(message) = to.next().map_err(drop)? {
                arrived.push(message.payload().to_vec());
            }
        }
    }
}

/// An encrypted message arrives unchanged; if a byte of it is changed, the connection ends, or the message stays
/// incomplete.
fn check_v2(bent: usize, payload: &[u8]) {
    let (mut near, mut far) = shaken_hands();
    near.send(Command::Pong, payload);
    assert_eq!(pass(&mut near, &mut far, None), Ok(vec![payload.to_vec()]), "as it was sent");
    far.send(Command::Ping, payload);
    let got = pass(&mut far, &mut near, Some(bent % (payload.len() + 20)));
    assert!(got.is_err() || got == Ok(Vec::new()), "a changed byte is seen");
}

struct Says<'a>(&'a [u8]);

impl Read for Says<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.read(out)
    }
}

impl Write for Says<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn feed(mut transport: Transport, mut data: &[u8]) {
    while !data.is_empty() {
        let taken = transport.feed(data);
        assert!(taken > 0, "there is always room");
        data = &data[taken..];
        loop {
            match transport.next() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codec_survives_arbitrary_bytes() {
        let mut rng = Rng::Seeded(21);
        for _ in 0..if testkit::is_slow() { 200_000 } else { 1000 } {
            let mut data = vec![0; rng.below(300)];
            rng.fill(&mut data);
            // Small numbers make counts and lengths that can be met.
            if rng.below(2) == 0 {
                data.iter_mut().for_each(|byte| *byte &= 0x1f);
            }
            fuzz_codec(&data);
            fuzz_socks5(&data);
        }
    }

    #[test]
    fn seeds_of_the_fuzzer_hold() {
        for (target, run) in [("codec", fuzz_codec as fn(&[u8])), ("peer", fuzz_peer), ("socks5", fuzz_socks5)] {
            for seed in testkit::fuzz_seeds(target) {
                run(&seed);
            }
        }
    }
}
