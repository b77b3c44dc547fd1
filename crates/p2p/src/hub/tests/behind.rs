//! Peers behind us: what they have of our past is requested from them, and nothing above.

use super::world::*;
use crate::api::Want;
use crate::chain::ChainView as _;
use crate::hub::NodeMessage;
use crate::sim::{Chain, Made, made_on};
use crate::wire::{Inventory, Message};
use primitives::{BlockHash, Header, Height};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const S: Duration = Duration::from_secs(1);
const ADDRESS: &str = "1.1.1.1:18444";
/// Blocks of our chain.
const COUNT: usize = 100;

fn first(made: &Made, count: usize) -> Made {
    Made { headers: made.headers[..count].to_vec(), bodies: made.bodies[..count].to_vec() }
}

/// What a peer was asked for.
#[derive(Default)]
struct Heard {
    blocks: Asked,
    locators: usize,
}

/// A peer with a chain, which reports a height and notes what it hears; `answers` is false if it shows no headers.
fn noting(chain: &Arc<Chain>, height: i32, answers: bool, heard: &Rc<RefCell<Heard>>) -> Box<dyn Far> {
    let heard = Rc::clone(heard);
    let bend: Bend = Box::new(move |server, message, now| match message {
        Message::Version(_) => {
            let version = crate::wire::Version { height, ..server.version(now) };
            server.send(&Message::Version(version));
            server.send(&Message::Verack);
            true
        }
        Message::GetHeaders(..) => {
            heard.borrow_mut().locators += 1;
            if !answers {
                server.send(&Message::Headers(Vec::new()));
            }
            !answers
        }
        Message::GetData(list) => {
            let hashes = list.iter().filter_map(Inventory::block);
            hashes.for_each(|hash| *heard.borrow_mut().blocks.entry(hash).or_default() += 1);
            false
        }
        _ => false,
    });
    Box::new(Server::bent(Arc::clone(chain), bend))
}

/// A world with our chain, of which the bodies of these blocks are missing.
fn without_past(chain: Chain, made: &Made, connect: &[&str]) -> World {
    let mut world = World::new(chain, connect);
    let heights = made.headers.iter().map(Header::hash).zip((1..).map(Height::new));
    world.past = heights.map(|(hash, height)| Want { hash, height }).collect();
    world.hub.from_node(NodeMessage::Want(vec![world.past.clone()]), world.now());
    world
}

/// Heights of the blocks that the peer was asked for, in order.
fn heights(asked: &Asked, made: &Made) -> Vec<usize> {
    let height = |hash: &BlockHash| made.headers.iter().position(|header| header.hash() == *hash).unwrap() + 1;
    let mut heights: Vec<_> = asked.keys().map(height).collect();
    heights.sort_unstable();
    heights
}

/// Also when the tip of its chain is in our locator, so that it has no headers for us.
#[test]
fn peer_behind_gives_the_past_up_to_its_tip() {
    let made = made_on(&Chain::new().best_header(), COUNT, 1, 300);
    for behind in [0, 1, 2, 5, 10, 11, 15, 40, 95, 99] {
        let has = COUNT - behind;
        let served = Arc::new(Chain::having(&first(&made, has)));
        let heard = Rc::new(RefCell::new(Heard::default()));
        let mut world = without_past(Chain::having(&made), &made, &["1.1.1.1"]);
        let log = Rc::clone(&heard);
        world.place(ADDRESS, move || noting(&served, has as i32, true, &log));
        world.run_until(20 * S, |world| world.past.len() == behind);
        world.run(5 * S);
        let heard = heard.borrow();
        assert_eq!(heights(&heard.blocks, &made), (1..=has).collect::<Vec<_>>(), "{behind} behind");
        assert!(heard.blocks.values().all(|times| *times == 1), "{behind} behind: each once");
        assert!(heard.locators <= 2, "{behind} behind: asked {} times", heard.locators);
        assert_eq!((&world.gone[..], world.done_count), (&[][..], 1), "{behind} behind");
        assert!(world.hub.progress().best_claim.is_some_and(|best| best.height.to_u32() as usize == has));
    }
}

/// The peer reports a height that is not that of its chain: it gets no request that its headers do not justify.
#[test]
fn height_that_a_peer_reports_is_no_claim() {
    let made = made_on(&Chain::new().best_header(), COUNT, 1, 300);
    for (row, has, height, answers, want, asked_max) in [
        ("shows no headers", 95, 95, false, 0, 2),
        ("is lower than it says, in the locator", 90, 95, true, 0, 2),
        ("is higher than it says", 95, 20, true, 95, 3),
        ("says genesis", 95, 0, true, 0, 1),
        ("says less than that", 95, -1, true, 0, 1),
        ("says more than we have", 95, 101, true, 0, 1),
        ("says the most", 95, i32::MAX, true, 0, 1),
    ] {
        let served = Arc::new(Chain::having(&first(&made, has)));
        let heard = Rc::new(RefCell::new(Heard::default()));
        let mut world = without_past(Chain::having(&made), &made, &["1.1.1.1"]);
        let log = Rc::clone(&heard);
        world.place(ADDRESS, move || noting(&served, height, answers, &log));
        world.run(300 * S);
        let heard = heard.borrow();
        assert_eq!(heights(&heard.blocks, &made), (1..=want).collect::<Vec<_>>(), "{row}");
        assert!(heard.locators <= asked_max, "{row}: asked {} times", heard.locators);
        assert_eq!(world.gone, [], "{row}");
    }
}

/// Its headers lead away from our chain: it has the blocks below the fork.
#[test]
fn peer_on_a_shorter_fork_gives_the_past_below_the_fork() {
    let made = made_on(&Chain::new().best_header(), COUNT, 1, 300);
    let below = first(&made, 90);
    let served = Chain::having(&below);
    served.extend(&made_on(&served.best_header(), 5, 7, 300));
    let (served, heard) = (Arc::new(served), Rc::new(RefCell::new(Heard::default())));
    let mut world = without_past(Chain::having(&made), &made, &["1.1.1.1"]);
    let log = Rc::clone(&heard);
    world.place(ADDRESS, move || noting(&served, 95, true, &log));
    world.run(20 * S);
    assert_eq!(heights(&heard.borrow().blocks, &made), (1..=90).collect::<Vec<_>>());
    assert_eq!((world.gone, world.past.len()), (vec![], 10));
}

/// It shows headers of our chain, and no blocks: an honest peer gives them.
#[test]
fn peer_behind_that_withholds_holds_nothing_up() {
    let made = made_on(&Chain::new().best_header(), COUNT, 1, 300);
    let mut world = without_past(Chain::having(&made), &made, &["1.1.1.1", "1.2.1.1"]);
    let withheld = Arc::new(Chain::having(&first(&made, 95)));
    world.place(ADDRESS, move || {
        let bend: Bend = Box::new(|_, message, _| matches!(message, Message::GetData(_)));
        Box::new(Server::bent(Arc::clone(&withheld), bend))
    });
    world.honest("1.2.1.1:18444", &Arc::new(Chain::having(&made)));
    assert!(world.run_until(30 * S, |world| world.past.is_empty()), "{} are missing", world.past.len());
}

/// Blocks of a chain with less than minimum work are requested from nobody, so nothing is asked.
#[test]
fn peer_behind_minimum_work_is_not_asked_again() {
    let made = made_on(&Chain::new().best_header(), COUNT, 1, 300);
    for (has, want) in [(94, 0), (95, 95)] {
        let chain = Chain::with_minimum(95);
        chain.extend(&made);
        let mut world = without_past(chain, &made, &["1.1.1.1"]);
        let served = Arc::new(Chain::having(&first(&made, has)));
        let heard = Rc::new(RefCell::new(Heard::default()));
        let log = Rc::clone(&heard);
        world.place(ADDRESS, move || noting(&served, has as i32, true, &log));
        world.run(20 * S);
        assert_eq!(heights(&heard.borrow().blocks, &made), (1..=want).collect::<Vec<_>>(), "{has}");
        assert_eq!((world.gone, heard.borrow().locators), (vec![], 1 + usize::from(want > 0)), "{has}");
    }
}
