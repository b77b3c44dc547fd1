//! Collects the facts of a session's state from the block index and the network.

use crate::chain::index::{BlockIndex, OfferedHeaders};
use crate::chain::tree::{NodeId, Tree};
use crate::datadir::DataDir;
use crate::datadir::earlier::shut_out;
use crate::options::unix_seconds;
use crate::reporting::assumed::AssumedElsewhere;
use crate::reporting::state::{BlockWait, DialFailures, NetworkFacts, SessionFacts, ShutOut, Stage};
use p2p::facts::PeerFacts;
use p2p::trouble::{Trouble, TroubleKind};
use p2p::wire::Target;
use primitives::{BlockHash, Height};
use std::time::Instant;

/// Facts that are kept between two updates.
#[derive(Default)]
pub(crate) struct FactsSeen {
    /// Time since which there are peers.
    peers_since: Option<Instant>,
    /// Whether peers sent headers.
    has_headers: bool,
    /// The excluded better chain, and the inputs it was computed from: recomputed when these change.
    shut_out: (Marks, Option<ShutOut>),
}

/// Inputs from which the excluded chain is computed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Marks {
    tip: Option<NodeId>,
    /// Last header of the invalid chain with the most work.
    end: Option<NodeId>,
    refused_count: usize,
    offered: Vec<OfferedHeaders>,
}

/// Setup of the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct NetworkSetup {
    /// Whether peers may connect.
    pub(crate) listens: bool,
    /// Whether a proxy is used.
    pub(crate) has_proxy: bool,
}

impl FactsSeen {
    /// Facts from the block index; `offered` are headers that peers sent on invalid blocks.
    pub(crate) fn of_chain(&mut self, datadir: &DataDir<'_>, offered: Vec<OfferedHeaders>) -> SessionFacts {
        let index = datadir.index.read();
        let tree = index.headers();
        let tip = index.tip();
        let best = tree.best();
        let has_work = tree.work(best) >= datadir.options.minimum_chain_work;
        let now = unix_seconds(datadir.options.clock);
        SessionFacts {
            stage: Stage::Working,
            height: tree.height(tip),
            tip_age_s: now.saturating_sub(u64::from(tree.time(tip))),
            is_current: !datadir.is_initial(tree, tip),
            headers: if has_work { tree.height(best) } else { tree.height(tip) },
            stop_height: datadir.options.stop_at_height,
            shut_out: self.shut_out(&index, offered),
            ..SessionFacts::default()
        }
    }

    fn shut_out(&mut self, index: &BlockIndex, offered: Vec<OfferedHeaders>) -> Option<ShutOut> {
        let tip = index.tip();
        let end = index.headers().shut_out_end();
        let marks = Marks { tip: Some(tip), end, refused_count: index.refused().len(), offered };
        if self.shut_out.0 != marks {
            let found = shut_out(index, tip, &marks.offered);
            self.shut_out = (marks, found);
        }
        self.shut_out.1
    }

    /// Facts from the network; the chain is connected up to `height`.
    pub(crate) fn of_network(
        &mut self,
        setup: NetworkSetup,
        progress: &p2p::Progress,
        height: Height,
    ) -> (NetworkFacts, Option<BlockWait>) {
        let now = Instant::now();
        let facts = &progress.facts;
        let peers = &facts.peers;
        self.peers_since = if peers.handshaked_count == 0 { None } else { self.peers_since.or(Some(now)) };
        self.has_headers |= peers.headers_count > 0;
        let best = peers.best;
        let network = NetworkFacts {
            is_off: facts.is_off,
            makes_none: facts.dials.named_count == 0 && !facts.dials.is_automatic,
            listens: setup.listens,
            peers: u32::try_from(peers.handshaked_count).unwrap_or(u32::MAX),
            peers_for_s: self.peers_since.map_or(0, |since| now.duration_since(since).as_secs()),
            failures: failures(&facts.dials.troubles, setup.has_proxy),
            has_headers: self.has_headers,
            has_little_work: progress.presync_height.is_none() && best.is_some_and(|best| best.is_below_minimum),
            presync: progress.presync_height,
            headers_done: progress.headers_done,
            best_height: best.map(|best| best.height),
            pruned_below: pruned_below(peers, height),
        };
        let wait = facts.waits_for.as_ref().map(|wait| BlockWait {
            height: wait.want.height,
            peer: wait.peer.as_ref().map(|(_, address)| address.clone()),
            seconds: wait.time.as_secs(),
        });
        (network, wait)
    }
}

/// The assumed-valid block if it is not on the best header chain. An unknown one is reported once the peers have sent
/// all headers and their chain has enough work.
pub(crate) fn assumed_elsewhere(datadir: &DataDir<'_>, progress: &p2p::Progress) -> Option<AssumedElsewhere> {
    let tree = datadir.headers();
    let has_told = progress.headers_done && progress.facts.peers.headers_count > 0;
    let has_work = tree.work(tree.best()) >= datadir.options.minimum_chain_work;
    let find: fn(&Tree, &BlockHash) -> Option<AssumedElsewhere> =
        if has_told && has_work { AssumedElsewhere::find_in_all } else { AssumedElsewhere::find };
    find(&tree, &datadir.options.assumevalid)
}

/// The lowest block that a peer has, if all peers are pruned and none has the next block.
fn pruned_below(peers: &PeerFacts, height: Height) -> Option<Height> {
    peers.pruned_from.filter(|&lowest| peers.are_all_pruned() && lowest > height + 1)
}

/// Reasons why connections fail, by cause: for each the most frequent one.
fn failures(troubles: &[Trouble], has_proxy: bool) -> DialFailures {
    let mut failures = DialFailures::default();
    for Trouble { kind, subject, why, .. } in troubles {
        let both = || Some((subject.clone(), why.clone()));
        match kind {
            TroubleKind::NoRoute => failures.is_unreachable = true,
            TroubleKind::Lookup => failures.name = failures.name.take().or_else(|| Some(subject.clone())),
            TroubleKind::ProxyUnreachable | TroubleKind::ProxyRefuses => {
                failures.proxy = failures.proxy.take().or_else(both);
            }
            TroubleKind::Refused | TroubleKind::TimedOut | TroubleKind::NoHandshake | TroubleKind::Other => {
                failures.address = failures.address.take().or_else(both);
            }
        }
    }
    let is_proxied = |address: &str| Target::parse(address, 0).is_ok_and(|target| target.is_proxied());
    failures.is_past_proxy = has_proxy && failures.address.as_ref().is_some_and(|(address, _)| !is_proxied(address));
    failures
}

#[cfg(test)]
mod tests {
    use super::*;
    use p2p::facts::{ChainEnd, DialFacts};
    use p2p::{PeerId, Progress};
    use primitives::Work;
    use std::time::Duration;

    fn trouble(kind: TroubleKind, subject: &str) -> Trouble {
        let (subject, why) = (subject.to_owned(), "why".to_owned());
        Trouble { kind, subject, why, count: 1, since: Duration::ZERO, last: Duration::ZERO }
    }

    #[test]
    fn failures_are_sorted_by_cause() {
        let all = [
            trouble(TroubleKind::Refused, "1.1.1.1:1"),
            trouble(TroubleKind::TimedOut, "2.2.2.2:2"),
            trouble(TroubleKind::Lookup, "seed"),
            trouble(TroubleKind::ProxyRefuses, "127.0.0.1:9050"),
        ];
        let got = failures(&all, false);
        let pair = |address: &str| Some((address.to_owned(), "why".to_owned()));
        let want = DialFailures {
            address: pair("1.1.1.1:1"),
            name: Some("seed".to_owned()),
            proxy: pair("127.0.0.1:9050"),
            is_unreachable: false,
            is_past_proxy: false,
        };
        assert_eq!(got, want);
        assert!(failures(&[trouble(TroubleKind::NoRoute, "a")], false).is_unreachable);
        for (row, address, has_proxy, want) in [
            ("a local address", "192.168.1.2:8333", true, true),
            ("the same without a proxy", "192.168.1.2:8333", false, false),
            ("a public address", "1.1.1.1:1", true, false),
        ] {
            let got = failures(&[trouble(TroubleKind::Refused, address)], has_proxy);
            assert_eq!(got.is_past_proxy, want, "{row}");
        }
    }

    #[test]
    fn network_facts_follow_from_those_of_the_network() {
        let mut progress = Progress::default();
        let mut seen = FactsSeen::default();
        let mut look = |progress: &Progress| seen.of_network(NetworkSetup::default(), progress, Height::new(100)).0;
        assert!(look(&progress).makes_none, "neither named nor sought");
        progress.facts.dials = DialFacts { named_count: 1, ..DialFacts::default() };
        assert_eq!((look(&progress).makes_none, look(&progress).peers), (false, 0));
        let best = ChainEnd { peer: PeerId(1), height: Height::new(400), work: Work::ZERO, is_below_minimum: true };
        progress.facts.peers = PeerFacts {
            handshaked_count: 1,
            headers_count: 1,
            serving_count: 1,
            pruned_count: 1,
            pruned_from: Some(Height::new(113)),
            best: Some(best),
            ..PeerFacts::default()
        };
        let got = look(&progress);
        assert_eq!((got.has_headers, got.has_little_work, got.best_height), (true, true, Some(Height::new(400))));
        assert_eq!(got.pruned_below, Some(Height::new(113)));
        for (row, serving, from) in [("another keeps all", 2, 113), ("it has the next block", 1, 101)] {
            (progress.facts.peers.serving_count, progress.facts.peers.pruned_from) = (serving, Some(Height::new(from)));
            assert_eq!(look(&progress).pruned_below, None, "{row}");
        }
        progress.facts.peers = PeerFacts::default();
        assert!(look(&progress).has_headers, "an earlier peer has told some");
    }
}
