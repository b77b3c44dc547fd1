//! Peers after the machine was suspended: those that have gone are disconnected, the others stay.

use super::world::*;
use crate::chain::ChainView as _;
use crate::reason::Reason;
use crate::sim::{Chain, made_on};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const S: Duration = Duration::from_secs(1);
const GONE: &str = "1.1.1.1:18444";
const SLOW: &str = "1.2.1.1:18444";
const GOOD: &str = "2.2.2.2:18444";

#[test]
fn only_peers_that_have_gone_are_disconnected_after_a_suspension() {
    let served = Arc::new(Chain::having(&made_on(&Chain::new().best_header(), 20, 1, 10)));
    let mut world = World::new(Chain::new(), &[GONE, SLOW, GOOD]);
    world.honest(GOOD, &served);
    let has_slept = Rc::new(Cell::new(false));
    for (address, is_gone) in [(GONE, true), (SLOW, false)] {
        let chain = Arc::clone(&served);
        let has_slept = Rc::clone(&has_slept);
        world.place(address, move || {
            let has_slept = Rc::clone(&has_slept);
            let bend: Bend = Box::new(move |server, _, _| {
                // The slow one answers with a byte a second.
                if has_slept.get() && !is_gone {
                    server.drip = Some(S);
                }
                has_slept.get() && is_gone
            });
            Box::new(Server::bent(Arc::clone(&chain), bend))
        });
    }
    world.run(5 * S);
    assert_eq!(world.gone, []);
    has_slept.set(true);
    let now = world.now();
    world.hub.woke(now);
    world.run(59 * S);
    assert_eq!(world.gone, [], "the answers may be late");
    world.run(3 * S);
    assert!(matches!(world.reason(GONE), Some(Reason::PingTimeout(_))), "{:?}", world.gone);
    world.run(90 * S);
    assert_eq!((world.reason(SLOW), world.reason(GOOD)), (None, None), "{:?}", world.gone);
}
