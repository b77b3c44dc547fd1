//! Peers that ask and do not read: what waits for them is bounded, and nothing of it is lost.

use super::world::*;
use crate::api::{Config, Outbound};
use crate::chain::{ChainView as _, HEADERS_COUNT_MAX};
use crate::hub::dispatch::SEND_TOTAL_BYTES_MAX;
use crate::peer::SEND_PAUSE_BYTES;
use crate::sim::{Chain, made_on};
use crate::time::Now;
use crate::wire::{Message, Version, services};
use primitives::BlockHash;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

const S: Duration = Duration::from_secs(1);
/// An answer of 2,000 headers.
const ANSWER_BYTES: usize = HEADERS_COUNT_MAX * 81 + 27;
const ASKED_COUNT: usize = 40;

/// Asks for headers again and again, and reads nothing until `reads` is set.
struct Greedy {
    server: Server,
    greeted: bool,
    genesis: BlockHash,
    reads: Rc<Cell<bool>>,
}

impl Far for Greedy {
    fn receive(&mut self, bytes: &[u8], now: Now) {
        self.server.receive(bytes, now);
    }
    fn take(&mut self, now: Now) -> Vec<u8> {
        if !std::mem::replace(&mut self.greeted, true) {
            let version = Version {
                version: 70016,
                services: services::NETWORK | services::WITNESS,
                time: now.unix as i64,
                nonce: 1,
                agent: Vec::new(),
                height: 0,
                relay: false,
            };
            self.server.send(&Message::Version(version));
            self.server.send(&Message::Verack);
            for _ in 0..ASKED_COUNT {
                self.server.send(&Message::GetHeaders(vec![self.genesis], BlockHash::ZERO));
            }
        }
        self.server.take(now)
    }
    fn is_reading(&self, now: Now) -> bool {
        self.reads.get() || now.since_start < S / 10
    }
}

#[test]
fn send_queues_of_peers_that_do_not_read_are_bounded() {
    for (row, inbound, count, limit) in [
        ("outbound", false, 2, 2 * (SEND_PAUSE_BYTES + ANSWER_BYTES)),
        ("inbound", true, 24, 24 * (SEND_PAUSE_BYTES + ANSWER_BYTES)),
        ("more than all queues may hold", true, 60, SEND_TOTAL_BYTES_MAX + 60 * ANSWER_BYTES),
    ] {
        let made = made_on(&Chain::new().best_header(), HEADERS_COUNT_MAX, 1, 0);
        let names: Vec<String> = (0..count).map(|i| format!("1.{i}.1.1:18444")).collect();
        let outbound = if inbound { Vec::new() } else { names.clone() };
        let config = Config {
            outbound: Outbound::Only(outbound),
            inbound_count_max: 100,
            v2transport: false,
            ..Config::new(NETWORK)
        };
        let mut world = World::with_config(Chain::having(&made), config);
        let genesis = Chain::new().best_header().hash;
        let (reads, answers) = (Rc::new(Cell::new(false)), Rc::new(RefCell::new(0)));
        let (reads_too, answers_too) = (Rc::clone(&reads), Rc::clone(&answers));
        let make = move || -> Box<dyn Far> {
            let log = Rc::clone(&answers_too);
            let bend: Bend = Box::new(move |_, message, _| {
                if let Message::Headers(headers) = message {
                    assert_eq!(headers.len(), HEADERS_COUNT_MAX);
                    *log.borrow_mut() += 1;
                }
                matches!(message, Message::Version(_))
            });
            let server = Server::bent(std::sync::Arc::new(Chain::new()), bend);
            Box::new(Greedy { server, greeted: false, genesis, reads: Rc::clone(&reads_too) })
        };
        for name in &names {
            if inbound {
                world.connect_inbound(name, make()).unwrap();
            } else {
                let make = make.clone();
                world.place(name, make);
            }
        }
        world.run(5 * S);
        assert_eq!(world.gone, [], "{row}");
        assert!((count * SEND_PAUSE_BYTES / 2..limit).contains(&world.queued_max), "{row}: {}", world.queued_max);
        // Nothing is lost: who reads at last gets every answer, and what was queued is freed.
        if count < 24 {
            let before = *answers.borrow();
            reads.set(true);
            world.run(S);
            assert_eq!(*answers.borrow(), count * ASKED_COUNT, "{row}: {before} before");
            assert_eq!(world.hub.queued_bytes(), 0, "{row}");
        }
        assert_eq!(world.chain.tip().height.to_usize(), HEADERS_COUNT_MAX);
    }
}
