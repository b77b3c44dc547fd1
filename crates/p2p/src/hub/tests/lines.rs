//! Lines of every speed beside each other: how much of the honest ones' sum a download reaches while others stall and lie.

use super::world::*;
use crate::api::{Config, Outbound};
use crate::chain::ChainView as _;
use crate::rng::Rng;
use crate::sim::{Chain, made_on};
use crate::wire::{Command, Inventory, Message, frame_v1};
use std::sync::Arc;
use std::time::Duration;

/// Blocks of a chain, and the bytes of each: 120 MB.
const BLOCK_COUNT: usize = 1200;
const BLOCK_BYTES: usize = 100_080;

/// What is at the other end of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Honest,
    /// Ends in the middle of its fifth block.
    Stalls,
    /// Gives other bodies.
    Lies,
}

#[derive(Clone, Copy, Debug)]
struct Line {
    mbit_per_s: f64,
    round_trip_ms: u64,
    end: End,
}

impl Line {
    const fn new(mbit_per_s: f64, round_trip_ms: u64, end: End) -> Line {
        Line { mbit_per_s, round_trip_ms, end }
    }

    fn bytes_per_s(&self) -> f64 {
        self.mbit_per_s * 125_000.0
    }
}

fn chain() -> Arc<Chain> {
    let made = made_on(&Chain::new().best_header(), BLOCK_COUNT, 1, BLOCK_BYTES - 80);
    Arc::new(Chain::having(&made))
}

/// What is at the end of a line.
fn peer(chain: &Arc<Chain>, end: End) -> Server {
    let mut asked = 0;
    let bend: Bend = Box::new(move |server, message, _| {
        let Message::GetData(list) = message else { return false };
        for hash in list.iter().filter_map(Inventory::block) {
            let mut block = server.chain.block(&hash, true).expect("it has the chain");
            asked += 1;
            match end {
                End::Stalls if asked == 5 => {
                    let mut frame = frame_v1(NETWORK.magic, Command::Block, &block);
                    frame.truncate(5000);
                    server.raw(frame);
                }
                End::Stalls if asked > 5 => {}
                End::Honest | End::Stalls => server.transport.send(Command::Block, &block),
                End::Lies => {
                    *block.last_mut().expect("a block has bytes") ^= 1;
                    server.transport.send(Command::Block, &block);
                }
            }
        }
        true
    });
    Server::bent(Arc::clone(chain), bend)
}

/// A sync over these lines: the share of what the honest ones could have given from the first request on.
fn share(chain: &Arc<Chain>, lines: &[Line]) -> f64 {
    let addresses: Vec<String> = (1..=lines.len()).map(|i| format!("{i}.1.1.1:18444")).collect();
    let config = Config {
        outbound: Outbound::Only(addresses.clone()),
        v2transport: false,
        // As the program has it with -dbcache=100.
        window_bytes: 16 << 20,
        ..Config::new(NETWORK)
    };
    let mut world = World::with_config(Chain::new(), config);
    for (address, line) in addresses.iter().zip(lines) {
        let chain = Arc::clone(chain);
        let end = line.end;
        let place = world.place(address, move || Box::new(peer(&chain, end)));
        place.rate = line.bytes_per_s();
        place.latency = Duration::from_millis(line.round_trip_ms) / 2;
    }
    let limit = Duration::from_secs(600);
    assert!(world.run_until(limit, |world| world.hub.progress().in_flight_count > 0));
    let start = world.time;
    world.sync_to(chain.tip().hash, limit);
    let honest: f64 = lines.iter().filter(|line| line.end == End::Honest).map(Line::bytes_per_s).sum();
    (BLOCK_COUNT * BLOCK_BYTES) as f64 / honest / (world.time - start).as_secs_f64()
}

/// With these lines it was found that the slowest held up the rest: 46 % of the sum of the honest five were reached.
#[test]
fn slowest_line_holds_up_neither_the_window_nor_the_end() {
    let lines = [
        Line::new(30.0, 20, End::Honest),
        Line::new(12.0, 50, End::Honest),
        Line::new(6.0, 100, End::Honest),
        Line::new(3.0, 200, End::Honest),
        Line::new(1.0, 200, End::Honest),
        Line::new(20.0, 50, End::Stalls),
        Line::new(5.0, 100, End::Stalls),
        Line::new(10.0, 50, End::Lies),
    ];
    let share = share(&chain(), &lines);
    assert!(share >= 0.95, "{share:.2} of the sum of the honest lines");
}

/// Eight lines of 20 to 200 ms and 1 to 50 Mbit/s, two of which stall and one lies: by the logarithm, so that as many are slow as
/// are fast.
fn lines_of(seed: u64) -> Vec<Line> {
    let mut rng = Rng::Seeded(seed);
    let ends = [End::Stalls, End::Stalls, End::Lies].into_iter().chain([End::Honest; 5]);
    let line = |end| {
        let mbit_per_s = 50_f64.powf(rng.below(1001) as f64 / 1000.0);
        Line::new(mbit_per_s, 20 + rng.below(181) as u64, end)
    };
    ends.map(line).collect()
}

/// `SEEDS=40` plays more of them.
#[test]
fn eight_lines_reach_most_of_the_sum_of_the_honest_ones() {
    let chain = chain();
    let count = std::env::var("SEEDS").ok().map_or(3, |text| text.parse().expect("SEEDS is a number"));
    for seed in 0..count {
        let lines = lines_of(seed);
        let share = share(&chain, &lines);
        assert!(share >= 0.9, "seed {seed}: {share:.2} of the sum of the honest ones; {lines:?}");
    }
}
