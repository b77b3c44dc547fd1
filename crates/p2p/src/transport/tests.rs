//! Tests of the transport.

use super::*;
use crate::packet::Packet;
use crate::params::{MAIN, TEST};
use crate::wire::{PAYLOAD_BYTES_MAX, frame_v1};

/// Lets both sides talk until nothing is left to send; messages received by (a, b).
fn talk(a: &mut Transport, b: &mut Transport, piece_bytes: usize) -> Result<(Vec<Received>, Vec<Received>), WireError> {
    let (mut to_a, mut to_b) = (Vec::new(), Vec::new());
    loop {
        let moved = carry(a, b, piece_bytes, &mut to_b)? | carry(b, a, piece_bytes, &mut to_a)?;
        if !moved {
            return Ok((to_a, to_b));
        }
    }
}

/// Moves what `from` has to send, in pieces.
fn carry(from: &mut Transport, to: &mut Transport, piece: usize, got: &mut Vec<Received>) -> Result<bool, WireError> {
    let mut moved = false;
    while !from.to_send().is_empty() {
        let bytes = from.to_send();
        let bytes = &bytes[..bytes.len().min(piece)];
        let taken = to.feed(bytes);
        assert!(taken > 0, "there is always room");
        from.sent(taken);
        while let Some(message) = to.next()? {
            got.push(message);
        }
        moved = true;
    }
    Ok(moved)
}

fn v2_pair() -> (Transport, Transport) {
    let mut rng = Rng::Seeded(7);
    (Transport::v2_initiator(MAIN.magic, &mut rng), Transport::responder(MAIN.magic, &mut rng))
}

#[test]
fn messages_pass_in_pieces_of_any_size() {
    let body: Vec<u8> = (0..700_000u32).map(|i| i as u8).collect();
    for v2 in [false, true] {
        for piece in [1, 7, 4096, 100_000, usize::MAX] {
            let (mut a, mut b) = v2_pair();
            if !v2 {
                a = Transport::v1(MAIN.magic);
            }
            let body = &body[..if piece == 1 { 5000 } else { body.len() }];
            a.send(Command::Version, b"first");
            a.send(Command::Block, body);
            b.send(Command::Ping, &[1; 8]);
            a.send(Command::Other, &[9; 300]);
            a.send(Command::Verack, &[]);
            let (to_a, to_b) = talk(&mut a, &mut b, piece).unwrap();
            assert_eq!(
                to_a.iter().map(|m| (m.command, m.payload())).collect::<Vec<_>>(),
                [(Command::Ping, &[1; 8][..])]
            );
            let got: Vec<_> = to_b.iter().map(|m| (m.command, m.payload())).collect();
            assert_eq!(
                got,
                [(Command::Version, &b"first"[..]), (Command::Block, body), (Command::Verack, &[])],
                "v2 {v2}, pieces of {piece}"
            );
            assert_eq!((a.is_v2(), b.is_v2()), (v2, v2));
            assert_eq!((a.out_bytes(), b.out_bytes()), (0, 0));
        }
    }
}

#[test]
fn large_payload_is_received_into_its_own_vector() {
    for owed in [false, true] {
        let mut transport = Transport::v1(MAIN.magic);
        transport.set_block_owed(owed);
        let body = vec![5; 3_000_000];
        let message = frame_v1(MAIN.magic, Command::Block, &body);
        let (mut at, mut capacity_max) = (0, 0);
        loop {
            at += transport.feed(&message[at..(at + 50_000).min(message.len())]);
            let received = transport.next().unwrap();
            if let Some(partial) = &transport.partial {
                capacity_max = capacity_max.max(partial.bytes.len());
                let bound = partial.have_bytes + partial.have_bytes.max(STEP_BYTES);
                assert!(owed || partial.bytes.capacity() <= bound, "at {at}: {}", partial.bytes.capacity());
            }
            if let Some(received) = received {
                assert_eq!((received.payload(), received.start), (&body[..], 0));
                break;
            }
        }
        assert_eq!(at, message.len());
        assert!(capacity_max <= body.len(), "never more than announced");
    }
}

#[test]
fn responder_detects_v1_and_v2() {
    let mut rng = Rng::Seeded(3);
    let mut b = Transport::responder(MAIN.magic, &mut rng);
    let hello = frame_v1(MAIN.magic, Command::Version, b"hi");
    b.send(Command::Verack, &[]);
    b.feed(&hello[..15]);
    assert_eq!(b.next(), Ok(None));
    assert!(b.to_send().is_empty(), "not known yet");
    b.feed(&hello[15..]);
    assert_eq!(b.next().unwrap().unwrap().command, Command::Version);
    assert_eq!(b.to_send(), frame_v1(MAIN.magic, Command::Verack, &[]), "what waited goes out as v1");

    let mut b = Transport::responder(MAIN.magic, &mut rng);
    b.feed(&frame_v1(TEST.magic, Command::Version, &[0; 86]));
    assert_eq!(b.next(), Err(WireError::MagicOfV1 { want: MAIN.magic, have: TEST.magic }));
}

#[test]
fn only_unanswered_v2_initiator_retries_v1() {
    let (mut a, b) = v2_pair();
    assert!(a.may_retry_v1());
    assert!(!b.may_retry_v1() && !Transport::v1(MAIN.magic).may_retry_v1());
    a.feed(&[1]);
    assert!(!a.may_retry_v1());
}

#[test]
fn bad_v1_bytes_fail_with_their_error() {
    let flip = |mut bytes: Vec<u8>, at: usize| {
        bytes[at] ^= 1;
        bytes
    };
    let ping = || frame_v1(MAIN.magic, Command::Ping, &[0; 8]);
    for (row, bytes, want) in [
        ("magic", flip(ping(), 0), "another network"),
        ("checksum", flip(ping(), 20), "wrong checksum"),
        ("payload", flip(ping(), 25), "wrong checksum"),
        ("garbage", vec![0x55; 100], "another network"),
        ("gigantic", flip(ping(), 19), "oversized"),
    ] {
        let mut transport = Transport::v1(MAIN.magic);
        transport.feed(&bytes);
        let why = transport.next().unwrap_err().to_string();
        assert!(why.contains(want), "{row}: {why}");
    }
}

#[test]
fn bad_v2_bytes_fail_with_their_error() {
    // A key, and then garbage that never ends.
    let (_, mut b) = v2_pair();
    let bytes = [0x77; 5000];
    let mut at = 0;
    let why = loop {
        at += b.feed(&bytes[at..(at + 100).min(bytes.len())]);
        if let Err(why) = b.next() {
            break why;
        }
    };
    assert_eq!(why, WireError::NoGarbageTerminator);

    // A flipped bit after the handshake: the length is not authenticated before the packet is there,
    // so a flip in it shows as oversized, as a wait, or as a tag that is wrong.
    let (mut a, mut b) = v2_pair();
    talk(&mut a, &mut b, usize::MAX).unwrap();
    a.send(Command::Ping, &[0; 8]);
    let mut bytes = a.to_send().to_vec();
    bytes[10] ^= 1;
    b.feed(&bytes);
    assert_eq!(b.next(), Err(WireError::Decryption));

    let (mut a, mut b) = v2_pair();
    talk(&mut a, &mut b, usize::MAX).unwrap();
    a.send(Command::Ping, &[0; 8]);
    let mut bytes = a.to_send().to_vec();
    bytes[2] ^= 0x80;
    b.feed(&bytes);
    assert!(matches!(b.next(), Err(WireError::Oversized { .. })));
}

#[test]
fn decoy_packets_are_dropped() {
    let (mut a, mut b) = v2_pair();
    talk(&mut a, &mut b, usize::MAX).unwrap();
    let mut bytes = Vec::new();
    a.cipher().seal(&mut bytes, &[], true, |out| out.extend_from_slice(&[3; 500]));
    let decoy_bytes = bytes.len() as u64;
    a.push(bytes);
    a.send(Command::Verack, &[]);
    let before = b.unknown_bytes();
    let (_, got) = talk(&mut a, &mut b, usize::MAX).unwrap();
    assert_eq!(got.iter().map(|m| m.command).collect::<Vec<_>>(), [Command::Verack]);
    assert_eq!(b.unknown_bytes() - before, decoy_bytes);
}

/// They are no blocks, and make no peer faster: in pieces, by both transports.
#[test]
fn bytes_of_unknown_messages_are_counted() {
    for is_v2 in [false, true] {
        let (mut a, mut b) = v2_pair();
        if !is_v2 {
            a = Transport::v1(MAIN.magic);
            a.send(Command::Version, b"first");
        }
        talk(&mut a, &mut b, usize::MAX).unwrap();
        let (before, unknown) = (b.received_bytes(), b.unknown_bytes());
        for _ in 0..3 {
            assert!(a.send_named("cmpctblock", &[7; 200_000]));
        }
        let (_, got) = talk(&mut a, &mut b, 1000).unwrap();
        assert_eq!(got, [], "v2: {is_v2}");
        assert_eq!(b.unknown_bytes() - unknown, b.received_bytes() - before, "v2: {is_v2}");
        assert!(b.unknown_bytes() > 600_000);
    }
}

/// As with Core's sendmsgtopeer, the user may send what the other end refuses.
#[test]
fn oversized_message_of_the_user_is_sent_and_refused_by_the_other_end() {
    for is_v2 in [false, true] {
        let (mut a, mut b) = v2_pair();
        if !is_v2 {
            a = Transport::v1(MAIN.magic);
            a.send(Command::Version, b"first");
        }
        talk(&mut a, &mut b, usize::MAX).unwrap();
        assert!(!a.send_named("addr", &vec![0; 1 << 24]), "v2: {is_v2}: its length has no three bytes");
        assert!(a.send_named("addr", &vec![0; PAYLOAD_BYTES_MAX]), "v2: {is_v2}");
        talk(&mut a, &mut b, usize::MAX).unwrap();
        assert!(a.send_named("addr", &vec![0; (1 << 24) - 1 - 13]), "v2: {is_v2}");
        let why = talk(&mut a, &mut b, usize::MAX).unwrap_err();
        assert!(matches!(why, WireError::Oversized { .. }), "v2: {is_v2}: {why:?}");
    }
}

/// What a plain send gives, by every transport, for packets made for either, in vectors of any earlier use.
#[test]
fn packet_is_sent_as_its_payload_is() {
    let body: Vec<u8> = (0..700_000_u32).map(|i| (i * 7 / 3).to_le_bytes()[0]).collect();
    for is_v2 in [false, true] {
        for made_for_v2 in [false, true] {
            for (row, command, bytes, is_summed) in [
                ("a block", Command::Block, 700_000, false),
                ("a block, summed", Command::Block, 700_000, true),
                ("a small block", Command::Block, 81, false),
                ("nothing", Command::CFilter, 0, true),
                ("a filter", Command::CFilter, 30_000, true),
                ("no short type", Command::SendHeaders, 10, false),
            ] {
                let buffers = BufferPool::default();
                buffers.give(vec![0xa5; 1_000_000]);
                let body = &body[..bytes];
                let (mut plain, mut packed) = (v2_pair(), v2_pair());
                for (a, b) in [&mut plain, &mut packed] {
                    if !is_v2 {
                        *a = Transport::v1(MAIN.magic);
                        a.send(Command::Version, b"first");
                    }
                    talk(a, b, usize::MAX).unwrap();
                    a.set_buffer_pool(buffers.clone());
                }
                plain.0.send(command, body);
                let mut packet = Packet::new(head_bytes(made_for_v2), buffers.clone());
                packet.payload_mut(bytes).copy_from_slice(body);
                packed.0.send_packet(command, packet, is_summed.then(|| crate::wire::checksum(body)));
                let row = format!("{row}, v2 {is_v2}, made for v2 {made_for_v2}");
                assert!(plain.0.to_send() == packed.0.to_send(), "{row}: the same bytes");
                assert_eq!(plain.0.traffic().1.by_type(), packed.0.traffic().1.by_type(), "{row}: counted alike");
                let (_, got) = talk(&mut packed.0, &mut packed.1, 50_000).unwrap();
                let got: Vec<_> = got.iter().map(|m| (m.command, m.payload())).collect();
                assert_eq!(got, [(command, body)], "{row}");
            }
        }
    }
}

#[test]
fn vector_of_a_sent_block_is_used_again() {
    let buffers = BufferPool::default();
    let mut transport = Transport::v1(MAIN.magic);
    transport.set_buffer_pool(buffers.clone());
    let mut places = Vec::new();
    for _ in 0..3 {
        let mut packet = Packet::new(head_bytes(false), buffers.clone());
        places.push(packet.payload_mut(2_000_000).as_ptr());
        transport.send_packet(Command::Block, packet, None);
        transport.sent(transport.to_send().len());
    }
    assert!(places.iter().all(|place| *place == places[0]));
}
