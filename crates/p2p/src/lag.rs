//! Whether the chain of an outbound peer keeps up with ours.
//!
//! A peer whose chain has less work than our tip has [`LAG_TIMEOUT`] to reach that tip. Then it is asked once more,
//! and has [`LAG_ANSWER_TIMEOUT`]. If it reached that tip in time but not the current one, the time restarts with the
//! current tip. A peer that was at our tip once may be protected: it is never checked again.
//!
//! Source: Bitcoin Core b88bffe, net_processing.cpp, `ChainSyncTimeoutState` and `ConsiderEviction`.
//! Absent on purpose: which peers are checked, and how many are protected (`hub::lagging`).

use crate::chain::HeaderInfo;
use primitives::Work;
use std::time::Duration;

/// How long a peer may lag before it is asked again. Source: Core's `CHAIN_SYNC_TIMEOUT`.
pub(crate) const LAG_TIMEOUT: Duration = Duration::from_secs(20 * 60);
/// Time for the answer. Source: Core's `HEADERS_RESPONSE_TIME`.
pub(crate) const LAG_ANSWER_TIMEOUT: Duration = Duration::from_secs(2 * 60);

/// State of one peer.
#[derive(Debug, Default)]
pub(crate) struct Lag {
    /// It is never disconnected because of its chain.
    pub(crate) is_protected: bool,
    timer: Option<Timer>,
}

#[derive(Clone, Copy, Debug)]
struct Timer {
    /// The tip that it must reach.
    goal: HeaderInfo,
    due: Duration,
    is_asked: bool,
}

/// The next action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Nothing.
    Wait,
    /// Request headers from below this block on.
    Ask(HeaderInfo),
    /// Disconnect: its time is over.
    Drop,
}

impl Lag {
    /// Checks a peer whose best chain has the work `best`, with our tip at `tip`.
    pub(crate) fn look(&mut self, best: Option<Work>, tip: HeaderInfo, at: Duration) -> Step {
        let reaches = |goal: &HeaderInfo| best.is_some_and(|best| best >= goal.work);
        if self.is_protected || reaches(&tip) {
            self.timer = None;
            return Step::Wait;
        }
        match &mut self.timer {
            Some(timer) if !reaches(&timer.goal) => {
                if at <= timer.due {
                    return Step::Wait;
                }
                if timer.is_asked {
                    return Step::Drop;
                }
                (timer.is_asked, timer.due) = (true, at + LAG_ANSWER_TIMEOUT);
                Step::Ask(timer.goal)
            }
            _ => {
                self.timer = Some(Timer { goal: tip, due: at + LAG_TIMEOUT, is_asked: false });
                Step::Wait
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::ChainView as _;
    use crate::sim::{Chain, made_on};

    const S: Duration = Duration::from_secs(1);

    /// The cases of Core's p2p_outbound_eviction.py.
    #[test]
    fn who_lags_is_asked_once_and_then_dropped() {
        let chain = Chain::having(&made_on(&Chain::new().best_header(), 4, 1, 300));
        let tip = chain.best_header();
        let of = |height: u32| {
            let hash = chain.ancestor(&tip.hash, primitives::Height::new(height)).unwrap();
            chain.header(&hash).unwrap()
        };
        let (late, asked) = (LAG_TIMEOUT + S, LAG_TIMEOUT + LAG_ANSWER_TIMEOUT + 2 * S);
        let work = |height: u32| Some(of(height).work);
        for (row, looks, want) in [
            ("tells nothing", vec![(None, 3, S), (None, 3, late + S), (None, 3, asked + S)], "wad"),
            ("stays one behind", vec![(work(2), 3, S), (work(2), 3, late + S), (work(2), 3, asked + S)], "wad"),
            ("not yet", vec![(work(2), 3, S), (work(2), 3, LAG_TIMEOUT)], "ww"),
            (
                "answers late",
                vec![(None, 3, S), (None, 3, late + S), (work(3), 3, asked), (work(3), 3, 9 * late)],
                "waww",
            ),
            (
                "reaches the tip of then, and lags behind that of now",
                vec![
                    (None, 2, S),
                    (None, 3, late + S),
                    (work(2), 3, asked + S),
                    (work(2), 4, asked + 2 * S),
                    (work(2), 4, 2 * asked + 3 * S),
                ],
                "wawwa",
            ),
        ] {
            let mut lag = Lag::default();
            let steps = looks.into_iter().map(|(best, tip, at)| match lag.look(best, of(tip), at) {
                Step::Wait => 'w',
                Step::Ask(goal) => {
                    assert!(best.is_none_or(|best| best < goal.work), "{row}");
                    'a'
                }
                Step::Drop => 'd',
            });
            assert_eq!(steps.collect::<String>(), want, "{row}");
        }
        let mut lag = Lag { is_protected: true, timer: None };
        assert!((0..9).all(|n| lag.look(None, of(3), n * late) == Step::Wait), "who is protected is kept");
    }
}
