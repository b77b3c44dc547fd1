//! Experiment: process a block from a peer into a verified body.
//!
//! Core checks the checksum of the message, then the merkle root. The roots prove more about a block than the checksum:
//! ffwd skips the checksum of a block, and only checks it if the block is damaged. A v2 packet is also encrypted each
//! time, because it is decrypted in place: its row includes both. In the other direction, a block is served from its
//! file.

use crate::bench::Bench;
use crate::input::{Digest, Inputs, Sample};
use crate::{Error, Experiment};
use consensus::block::{self, Context, Scratch};
use p2p::rng::Rng;
use p2p::transport::{Transport, head_bytes};
use p2p::wire::Command;
use p2p::{BufferPool, Packet};
use primitives::{Height, MedianTime, Tables};
use std::io::Read;

pub(crate) const EXPERIMENT: Experiment = Experiment { tables: &[RECEIVE, SERVE], run };

const RECEIVE: &str = "message: a block received and checked";
const SERVE: &str = "message: a block served from its file";
const MEDIAN_TIME: u32 = 1_231_006_505;
const KEY: [u8; 8] = crate::block_io::KEY;

fn run(bench: &mut Bench<'_>, inputs: &Inputs) -> Result<(), Error> {
    receive(bench, inputs.full()?)?;
    serve(bench, inputs.full()?, inputs)
}

fn receive(bench: &mut Bench<'_>, sample: &Sample) -> Result<(), Error> {
    let magic = sample.params.magic;
    let message = p2p::wire::frame_v1(magic, Command::Block, &sample.bytes);
    let message = &message[..];
    let Some(mut table) = bench.table(RECEIVE, "block", 1) else { return Ok(()) };
    for (way, compare) in [("v1, checksum and roots compared", true), ("v1, roots compared", false)] {
        let mut body = Body::new();
        table.try_way(way, move || {
            let mut transport = Transport::v1(magic);
            transport.set_block_owed(true);
            body.received(sample, &mut transport, message, compare)
        })?;
    }
    table.shipped();
    let (mut sender, mut receiver) = paired(magic)?;
    let mut body = Body::new();
    table.try_way("v2, sealed, opened, roots compared", move || {
        sender.send(Command::Block, &sample.bytes);
        let packet = drained(&mut sender);
        receiver.set_block_owed(true);
        body.received(sample, &mut receiver, &packet, false)
    })?;
    bench.run(table)
}

/// Memory that is reused from block to block.
struct Body {
    tables: Tables,
    scratch: Scratch,
}

impl Body {
    fn new() -> Body {
        Body { tables: Tables::new(), scratch: Scratch::default() }
    }

    /// Receives `message` from a peer, and checks that the block in it is undamaged; returns a digest of the block.
    fn received(
        &mut self,
        sample: &Sample,
        transport: &mut Transport,
        message: &[u8],
        compare: bool,
    ) -> Result<Digest, Error> {
        let broken = |why: &dyn std::fmt::Display| Error::Broken(format!("a block's message is refused: {why}"));
        let mut rest = message;
        let received = loop {
            let taken = transport.feed(rest);
            rest = &rest[taken..];
            match transport.next().map_err(|why| broken(&why))? {
                Some(received) => break received,
                None if rest.is_empty() => return Err(broken(&"it has no end")),
                None => {}
            }
        };
        if let Some(frame) = received.unchecked.filter(|_| compare) {
            frame.check(received.payload()).map_err(|why| broken(&why))?;
        }
        let bytes = received.payload();
        let block = self.tables.parse_block(bytes).map_err(|why| broken(&why))?;
        let mut txids = Vec::new();
        let mut wtxids = Vec::new();
        let mut sigops = Vec::new();
        block.txids_into(&mut txids);
        block.wtxids_into(&txids, &mut wtxids);
        let hash = block.header().hash();
        block::check(&sample.params, &block, &hash, &txids, &mut sigops, &mut self.scratch)
            .map_err(|why| broken(&why))?;
        let height = height_of(&block)?;
        let median_time_past = MedianTime::new(MEDIAN_TIME);
        let context = Context { height, median_time_past, cleanup: consensus::Cleanup::Off };
        block::check_context(&sample.params, &block, &context, &txids, &wtxids, &mut self.scratch)
            .map_err(|why| broken(&why))?;
        let mut digest = Digest::default();
        digest.add(hash.as_bytes());
        digest.add_u64(bytes.len() as u64);
        Ok(digest)
    }
}

/// The height in the coinbase. Source: BIP-0034.
fn height_of(block: &primitives::Block<'_>) -> Result<Height, Error> {
    let script = block.transaction(0).inputs().next().map(|input| input.script_sig().to_vec()).unwrap_or_default();
    let (&count, rest) = script.split_first().unwrap_or((&0, &[]));
    let height = match count {
        0x51..=0x60 => u32::from(count - 0x50),
        1..=4 => rest.iter().take(usize::from(count)).rev().fold(0, |height, &byte| height << 8 | u32::from(byte)),
        _ => return Err(Error::Broken("the made block's coinbase names no height".to_owned())),
    };
    Ok(Height::new(height))
}

/// The two ends of a v2 connection after its handshake.
fn paired(magic: [u8; 4]) -> Result<(Transport, Transport), Error> {
    let broken = |why: &dyn std::fmt::Display| Error::Broken(format!("the v2 handshake fails: {why}"));
    let mut left = Rng::Seeded(1);
    let mut right = Rng::Seeded(2);
    let mut sender = Transport::v2_initiator(magic, &mut left);
    let mut receiver = Transport::responder(magic, &mut right);
    loop {
        let there = drained(&mut sender);
        let back = drained(&mut receiver);
        if there.is_empty() && back.is_empty() {
            break;
        }
        for (end, bytes) in [(&mut receiver, there), (&mut sender, back)] {
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let taken = end.feed(rest);
                rest = &rest[taken..];
                end.next().map_err(|why| broken(&why))?;
            }
        }
    }
    Ok((sender, receiver))
}

fn drained(transport: &mut Transport) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !transport.to_send().is_empty() {
        bytes.extend_from_slice(transport.to_send());
        let sent = transport.to_send().len();
        transport.sent(sent);
    }
    bytes
}

/// Reads from an obfuscated block file, and makes the bytes for a socket, preceded by the message's header.
fn serve(bench: &mut Bench<'_>, sample: &Sample, inputs: &Inputs) -> Result<(), Error> {
    let path = inputs.directory("served")?.join("blk00000.dat");
    let Some(mut table) = bench.table(SERVE, "block", 1) else { return Ok(()) };
    let mut obfuscated = sample.bytes.clone();
    kernels::Kernels::AUTO.xor(&mut obfuscated, KEY, 0);
    std::fs::write(&path, &obfuscated).map_err(Error::io("write", &path))?;
    let magic = sample.params.magic;
    let path = &path;
    let framed = move |payload: &[u8]| {
        let mut digest = Digest::default();
        digest.add(&p2p::wire::frame_v1(magic, Command::Block, payload));
        digest
    };
    let plain = framed(&sample.bytes);
    table.add(sample.name("parsed into objects, serialized again"), plain, move || {
        let bytes = read_plain(path)?;
        let block = crate::library::parse(&bytes)?;
        Ok(p2p::wire::frame_v1(magic, Command::Block, &crate::library::bytes_of(&block)))
    });
    let again = framed(&read_plain(path)?);
    table.add(sample.name("bytes as they lie, copied behind the header"), again, move || {
        Ok(p2p::wire::frame_v1(magic, Command::Block, &read_plain(path)?))
    });
    let buffers = BufferPool::default();
    table.add(
        sample.name("bytes read behind the header's place, the memory used again"),
        framed(read_into_packet(path, &buffers)?.payload()),
        move || {
            let mut transport = Transport::v1(magic);
            transport.set_buffer_pool(buffers.clone());
            transport.send_packet(Command::Block, read_into_packet(path, &buffers)?, None);
            let bytes = transport.out_bytes();
            transport.sent(bytes);
            Ok(bytes)
        },
    );
    table.shipped();
    bench.run(table)
}

fn read_into_packet(path: &std::path::Path, buffers: &BufferPool) -> Result<Packet, Error> {
    let mut file = std::fs::File::open(path).map_err(Error::io("open", path))?;
    let bytes = file.metadata().map_err(Error::io("look at", path))?.len();
    let mut packet = Packet::new(head_bytes(false), buffers.clone());
    let out = packet.payload_mut(bytes as usize);
    file.read_exact(out).map_err(Error::io("read", path))?;
    kernels::Kernels::AUTO.xor(out, KEY, 0);
    Ok(packet)
}

fn read_plain(path: &std::path::Path) -> Result<Vec<u8>, Error> {
    let mut file = std::fs::File::open(path).map_err(Error::io("open", path))?;
    let bytes = file.metadata().map_err(Error::io("look at", path))?.len();
    let mut out = Vec::with_capacity(bytes as usize);
    file.read_to_end(&mut out).map_err(Error::io("read", path))?;
    kernels::Kernels::AUTO.xor(&mut out, KEY, 0);
    Ok(out)
}
