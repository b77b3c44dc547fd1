//! More kinds of hostile peers: messages of other services, counts and lengths that cannot be, blocks that only look like blocks.
//!
//! After Bitcoin Core b88bffe, test/functional/p2p_*.py, and after what was disclosed of Core, btcd, bcoin and others: the table
//! of CVEs in docs/peers.md names them.

use super::kinds::*;
use super::world::*;
use crate::chain::HEADERS_COUNT_MAX;
use crate::sim::headers_on;
use crate::wire::{Command, Inventory, Message, frame_v1};
use primitives::{BlockHash, Hash256};

/// Says this so many times.
fn says(server: &mut Server, command: &str, payload: &[u8], times: usize) {
    (0..times).for_each(|_| server.say(command, payload));
}

/// An address of 30 bytes as `addr` has it.
fn old_address(time: u32, ip: [u8; 4]) -> Vec<u8> {
    let services = [&time.to_le_bytes()[..], &[0xff; 8]].concat();
    [services, vec![0; 10], vec![0xff, 0xff], ip.to_vec(), vec![0x20, 0x8d]].concat()
}

/// A range of filters up to the last block of the honest chain.
fn filter_range() -> Vec<u8> {
    let last = honest().headers.last().expect("it has blocks").hash();
    [&[0][..], &1u32.to_le_bytes(), last.as_bytes()].concat()
}

/// Core disconnects who asks for compact filters, which neither offers by default.
const NO_FILTERS: &str = "filters of type 0, which we do not offer";

pub(super) const MORE: &[Row] = &[
    // The handshake.
    hello("has line ends and escapes in its user agent", KEPT, KEPT, |server, now| {
        version(server, now, |version| version.agent = b"/x/\r\n2026-01-01T00:00:00Z \x1b[2J%n%s\0".to_vec());
        true
    }),
    hello("has a protocol version of the year 3000", KEPT, KEPT, |server, now| {
        version(server, now, |version| version.version = 0x7fff_ffff);
        true
    }),
    hello("offers every service", KEPT, KEPT, |server, now| {
        version(server, now, |version| version.services = u64::MAX);
        true
    }),
    hello("sends unknown messages before its version", KEPT, KEPT, |server, now| {
        says(server, "junk", &[7; 500], 100);
        server.greet(now);
        true
    })
    .v1(),
    // Messages of other services.
    row("sends sendheaders 10,000 times", KEPT, KEPT, || once(|server| says(server, "sendheaders", &[], 10_000))),
    row("sends wtxidrelay after verack", KEPT, KEPT, || once(|server| says(server, "wtxidrelay", &[], 1))),
    row("sends sendtxrcncl after verack", KEPT, KEPT, || once(|server| says(server, "sendtxrcncl", &[1; 12], 3))),
    row("sets a fee filter above the money supply", KEPT, KEPT, || {
        once(|server| says(server, "feefilter", &[0xff; 8], 100))
    }),
    row("clears a bloom filter", BLOOM, BLOOM, || once(|server| says(server, "filterclear", &[], 1))),
    row("adds to a bloom filter", BLOOM, BLOOM, || once(|server| says(server, "filteradd", &[4, 1, 2, 3, 4], 1))),
    row("loads an empty bloom filter", BLOOM, BLOOM, || once(|server| says(server, "filterload", &[0; 10], 1))),
    row("asks for the mempool", BLOOM, BLOOM, || once(|server| says(server, "mempool", &[], 1))),
    row("asks for compact filters that are not offered", NO_FILTERS, NO_FILTERS, || {
        once(|server| says(server, "getcfilters", &filter_range(), 1))
    }),
    row("asks for filter headers that are not offered", NO_FILTERS, NO_FILTERS, || {
        once(|server| says(server, "getcfheaders", &filter_range(), 1))
    }),
    row("asks for filter checkpoints that are not offered", NO_FILTERS, NO_FILTERS, || {
        once(|server| says(server, "getcfcheckpt", &[0; 33], 1))
    }),
    row("sends alerts", KEPT, KEPT, || once(|server| says(server, "alert", &[0x60; 200], 100))),
    row("sends 10,000 transactions that do not deserialize", KEPT, KEPT, || {
        once(|server| says(server, "tx", &[0xfd; 60], 10_000))
    }),
    row("sends a transaction of 3.9 MB", KEPT, KEPT, || once(|server| says(server, "tx", &vec![1; 3_900_000], 1))),
    row("asks for transactions beyond the end of a block", KEPT, KEPT, || {
        once(|server| {
            let hash = honest().headers[0].hash();
            let payload = [&hash.as_bytes()[..], &[2, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xfd, 0xff, 0xff]].concat();
            says(server, "getblocktxn", &payload, 100);
        })
    }),
    row("sends compact blocks whose short ids are all the same", KEPT, KEPT, || {
        once(|server| {
            let start = [&longer().headers[0].0[..], &[9; 8], &[0xfd, 0x10, 0x27]].concat();
            says(server, "cmpctblock", &[start, vec![5; 6 * 10_000]].concat(), 10);
        })
    }),
    row("sends unrequested transactions of a block", KEPT, KEPT, || {
        once(|server| says(server, "blocktxn", &[&longer().headers[0].0[..32], &[0xfd, 0xff, 0xff]].concat(), 100))
    }),
    // Inventories and questions.
    row("announces the same block 50,000 times", KEPT, KEPT, || {
        once(|server| {
            let hash = longer().headers[0].hash();
            server.send(&Message::Inv(vec![Inventory::Block(hash); 50_000]));
        })
    }),
    row("announces and asks for things of unknown kinds", KEPT, KEPT, || {
        once(|server| {
            let things: Vec<_> =
                (0..1000).map(|kind| Inventory::Other { kind: 0x1000 + kind, hash: Hash256([6; 32]) }).collect();
            server.send(&Message::Inv(things.clone()));
            server.send(&Message::GetData(things));
        })
    }),
    row("sends empty inventories 10,000 times", KEPT, KEPT, || {
        once(|server| {
            says(server, "inv", &[0], 10_000);
            says(server, "getdata", &[0], 10_000);
            says(server, "notfound", &[0], 10_000);
        })
    }),
    row("counts 4 billion announcements", "inv message", "inv message", || {
        once(|server| server.transport.send(Command::Inv, &[0xfe, 0xff, 0xff, 0xff, 0xff, 2]))
    }),
    row("counts 4 billion addresses", KEPT, KEPT, || {
        once(|server| server.transport.send(Command::Addr, &[0xfe, 0xff, 0xff, 0xff, 0xff, 2]))
    }),
    row("sends a count that is not minimally encoded", "headers message", "headers message", || {
        once(|server| server.transport.send(Command::Headers, &[0xfd, 1, 0, 7]))
    }),
    row("asks for headers with an empty locator 1,000 times", KEPT, KEPT, || {
        once(|server| {
            for i in 0..1000_u32 {
                let stop = BlockHash::from_bytes([i as u8; 32]);
                server.send(&Message::GetHeaders(Vec::new(), stop));
            }
        })
    }),
    row("asks by getblocks with a locator of 102 hashes", "getblocks message", "getblocks message", || {
        once(|server| says(server, "getblocks", &locator_of(102), 1))
    }),
    // Addresses.
    row("sends addresses of the year 2106 and of this machine", KEPT, KEPT, || {
        once(|server| {
            let all = [old_address(u32::MAX, [60, 1, 2, 3]), old_address(0, [127, 0, 0, 1]), old_address(1, [0; 4])];
            says(server, "addr", &[&[3][..], &all.concat()].concat(), 100);
        })
    }),
    row("sends addresses of Tor version 2", KEPT, KEPT, || {
        once(|server| {
            let one = [&[0, 0, 0, 0, 9, 3, 10][..], &[8; 10], &[0x20, 0x8d]].concat();
            server.transport.send(Command::AddrV2, &counted(1000, &one));
        })
    }),
    // Lengths.
    row("pings and answers pings with 3.9 MB", KEPT, KEPT, || {
        once(|server| {
            says(server, "ping", &vec![1; 3_900_000], 1);
            says(server, "pong", &vec![1; 3_900_000], 1);
        })
    }),
    row("sends verack with 3.9 MB", KEPT, KEPT, || once(|server| says(server, "verack", &vec![1; 3_900_000], 1))),
    row("sends a message of another network", "another network", "another network", || {
        once(|server| server.raw(frame_v1([0xf9, 0xbe, 0xb4, 0xd9], Command::Ping, &[0; 8])))
    })
    .v1(),
    // Headers and blocks.
    row("sends 2,000 headers of low work, then none", KEPT, KEPT, || {
        let mut has_sent = false;
        on_get_headers_mut(move |server| {
            let count = if std::mem::replace(&mut has_sent, true) { 0 } else { HEADERS_COUNT_MAX };
            server.send(&Message::Headers(headers_on(&genesis(), count, 4242)));
        })
    }),
    row("sends the first block at every request", KEPT, KEPT, || {
        Box::new(|server, message, _| {
            let Message::GetData(list) = message else { return false };
            list.iter().for_each(|_| server.transport.send(Command::Block, &honest().block(0)));
            true
        })
    }),
    row("sends blocks with a duplicated last transaction", "body of block", "body of block", || {
        gives(|block| block.extend_from_within(100..))
    }),
    row("sends blocks without a transaction", "body of block", "body of block", || {
        gives(|block| {
            block.truncate(80);
            block.push(0);
        })
    }),
    row("sends blocks that count 4 billion transactions", "body of block", "body of block", || {
        gives(|block| {
            block.truncate(80);
            block.extend([0xfe, 0xff, 0xff, 0xff, 0xff, 1]);
        })
    }),
    row("sends the same block 1,000 times, unrequested", KEPT, KEPT, || {
        once(|server| {
            server.send(&Message::Headers(honest().headers.clone()));
            (0..1000).for_each(|_| server.transport.send(Command::Block, &honest().block(5)));
        })
    }),
];
