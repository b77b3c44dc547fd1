//! Decides whether a sync is done, whether its tip is the peers' tip, and why it ends below a better chain.
//!
//! Pure functions of the header tree and the network's last progress.
//! Absent on purpose: exit codes and messages of the displays.

use crate::chain::index::BlockIndex;
use crate::chain::tree::{Fate, NodeId, Tree};
use crate::fault::Message;
use crate::reporting::state::ShutOut;
use p2p::Progress;
use primitives::{BlockHash, Height, Work};
use std::time::Duration;

/// How long to wait at the tip for the blocks of a better known header chain that no peer withholds: the peer that
/// announced it may reconnect.
pub(crate) const LEFT_PATIENCE: Duration = Duration::from_secs(60);

/// Whether `tip` is also the tip of the peers' chains: no peer that delivers its blocks has more work. `network` must
/// be read before `tree`, so that headers that arrive in between do not count as the end. `tip_for` is the time since
/// this became the tip.
pub(crate) fn is_at_tip(tree: &Tree, tip: NodeId, network: &Progress, minimum: Work, tip_for: Duration) -> bool {
    // Of two chains with equal work the one that was connected first stays active, even if its header arrived later.
    let work = tree.work(tip);
    let is_best_claim = network.best_claim.is_none_or(|claim| work >= claim.work);
    let is_enough = is_best_claim && work >= minimum && tree.fate(tip) == Fate::Open;
    network.headers_done && is_enough && !is_waited_for(tree, tip, network, tip_for)
}

/// Whether a peer may still deliver a better known chain: the peer that announced it may be disconnected briefly.
fn is_waited_for(tree: &Tree, tip: NodeId, network: &Progress, tip_for: Duration) -> bool {
    tip_for < LEFT_PATIENCE && tree.work(tree.best()) > tree.work(tip) && !is_withheld(tree, network)
}

/// Whether a block of the best header chain was announced but not delivered by any peer.
fn is_withheld(tree: &Tree, network: &Progress) -> bool {
    let withheld = network.undelivered.iter().filter_map(|want| tree.find(&want.hash));
    withheld.into_iter().any(|node| tree.is_ancestor(node, tree.best()))
}

/// Whether waiting for the header `wanted` is over: the peers have sent all headers, and it is known, or their chains
/// do not contain it.
pub(crate) fn has_headers(tree: &Tree, wanted: &BlockHash, network: &Progress) -> bool {
    network.headers_done && (tree.find(wanted).is_some() || network.best_claim.is_some())
}

/// Whether blocks above the snapshot, or a chain that does not contain it, require that the blocks below it are
/// validated first.
pub(crate) fn is_suspect(is_on_snapshot: bool, has_refused: bool, is_held: bool) -> bool {
    is_on_snapshot && (has_refused || is_held)
}

/// Progress of the chain up to the base block of a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Past {
    /// Blocks are missing.
    Going,
    /// The base block is connected.
    Reached,
    /// The base block is part of an invalid chain.
    Refused,
}

/// Progress of the chain up to the base block of a snapshot. `past_tip` is that chain's last connected block.
pub(crate) fn past(tree: &Tree, base: NodeId, past_tip: NodeId) -> Past {
    match tree.fate(base) {
        Fate::Open if past_tip == base => Past::Reached,
        Fate::Open => Past::Going,
        Fate::Failed | Fate::FailedParent => Past::Refused,
    }
}

/// Why a sync ends although a better header chain is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum EndReason {
    /// A chain with more work contains a block marked invalid, but ffwd did not itself find it invalid.
    ShutOut(ShutOut),
    /// No connected peer delivers the blocks of the best header chain.
    Unreached {
        /// Height of its last header.
        height: Height,
    },
}

impl EndReason {
    /// What happened, and what the user can do.
    pub(crate) fn message(&self) -> Message {
        match self {
            EndReason::ShutOut(shut_out) => shut_out.message(),
            EndReason::Unreached { height } => {
                let what = "the best known header chain goes up to height";
                let text = format!("{what} {height}, and no connected peer gives its blocks");
                Message::new(text, "Run this again, with other peers")
            }
        }
    }
}

/// Why a sync that was not stopped ends at `tip` although a better header chain is known. `None` if the best chain is
/// connected, or if all peers that announced a chain with more work withhold its blocks and another peer has this tip.
pub(crate) fn end_reason(
    index: &BlockIndex,
    tip: NodeId,
    network: &Progress,
    shut_out: Option<ShutOut>,
) -> Option<EndReason> {
    if let Some(shut_out) = shut_out {
        return Some(EndReason::ShutOut(shut_out));
    }
    let tree = index.headers();
    let best = tree.best();
    let is_reached = tree.work(best) <= tree.work(tip) || is_withheld(tree, network);
    (!is_reached).then(|| EndReason::Unreached { height: tree.height(best) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datadir::earlier::shut_out;
    use crate::session::testing::{Chains, claim};
    use p2p::Want;

    const LONG: Duration = Duration::from_secs(3600);

    fn heard(chains: &Chains, best: NodeId) -> Progress {
        Progress { headers_done: true, best_claim: Some(claim(chains, best)), ..Progress::default() }
    }

    #[test]
    fn the_tip_is_the_peers_best_that_is_delivered() {
        let mut chains = Chains::new();
        let main = chains.grow(None, 5);
        let at = |network: &Progress, tip: usize, tip_for: Duration| {
            is_at_tip(chains.index().headers(), main[tip], network, Work::ZERO, tip_for)
        };
        let network = heard(&chains, main[4]);
        assert!(at(&network, 4, Duration::ZERO));
        assert!(!at(&network, 3, LONG), "a peer has more");
        assert!(!at(&Progress { headers_done: false, ..network.clone() }, 4, LONG), "not all are told");
        let lower = heard(&chains, main[3]);
        assert!(!at(&lower, 3, Duration::ZERO), "the one that announced the last may come again");
        assert!(at(&lower, 3, LONG));
        let undelivered = vec![Want { hash: chains.hash(main[4]), height: Height::new(5) }];
        assert!(at(&Progress { undelivered, ..lower }, 3, Duration::ZERO), "no peer delivers it");
    }

    #[test]
    fn the_tip_needs_the_minimum_work_and_is_not_refused() {
        let mut chains = Chains::new();
        let main = chains.grow(None, 5);
        let network = heard(&chains, main[4]);
        let more = chains.work(main[4]).saturating_add(chains.work(main[0]));
        assert!(!is_at_tip(chains.index().headers(), main[4], &network, more, LONG));
        chains.refuse(main[4]);
        assert!(!is_at_tip(chains.index().headers(), main[4], &network, Work::ZERO, LONG));
    }

    #[test]
    fn a_claim_of_as_much_work_is_reached() {
        let mut chains = Chains::new();
        let (main, side) = (chains.grow(None, 3), chains.grow(None, 3));
        let network = heard(&chains, side[2]);
        assert!(is_at_tip(chains.index().headers(), main[2], &network, Work::ZERO, Duration::ZERO));
    }

    #[test]
    fn headers_are_there_or_no_peer_has_them() {
        let mut chains = Chains::new();
        let main = chains.grow(None, 3);
        let (known, unknown) = (chains.hash(main[2]), BlockHash::from_bytes([7; 32]));
        let has = |hash: &BlockHash, network: &Progress| has_headers(chains.index().headers(), hash, network);
        let network = heard(&chains, main[2]);
        assert!(has(&known, &network) && has(&unknown, &network), "it is for the load to refuse");
        assert!(!has(&unknown, &Progress { best_claim: None, ..network.clone() }));
        assert!(!has(&known, &Progress { headers_done: false, ..network }));
    }

    #[test]
    fn a_snapshot_is_suspect_where_its_chain_is() {
        for (on_snapshot, refused, held, want) in [
            (false, true, true, false),
            (true, false, false, false),
            (true, true, false, true),
            (true, false, true, true),
        ] {
            assert_eq!(is_suspect(on_snapshot, refused, held), want, "{on_snapshot} {refused} {held}");
        }
    }

    #[test]
    fn the_past_ends_at_the_base_or_where_that_is_refused() {
        let mut chains = Chains::new();
        let main = chains.grow(None, 4);
        let at = |chains: &Chains, tip: usize| past(chains.index().headers(), main[3], main[tip]);
        assert_eq!((at(&chains, 2), at(&chains, 3)), (Past::Going, Past::Reached));
        chains.refuse(main[1]);
        assert_eq!(at(&chains, 0), Past::Refused);
    }

    #[test]
    fn a_mark_that_is_no_broken_rule_is_named_with_what_helps() {
        let mut chains = Chains::new();
        let main = chains.grow(None, 10);
        chains.mark(main[5]);
        let index = chains.index();
        let shut_out = shut_out(index, main[4], &[]);
        let reason = end_reason(index, main[4], &Progress::default(), shut_out).unwrap();
        let text = reason.message().to_string();
        for word in [&chains.hash(main[5]).to_string(), "height 6", "5 blocks", "reconsiderblock", "reindex"] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }

    #[test]
    fn the_best_header_chain_is_connected_or_named() {
        let mut chains = Chains::new();
        let main = chains.grow(None, 5);
        let network = heard(&chains, main[4]);
        let reason = |tip: usize, network: &Progress| end_reason(chains.index(), main[tip], network, None);
        assert_eq!(reason(4, &network), None);
        let unreached = reason(2, &network).unwrap();
        assert_eq!(unreached, EndReason::Unreached { height: Height::new(5) });
        let text = unreached.message().to_string();
        assert!(text.contains("height 5") && text.contains("other peers"), "{text}");
        let undelivered = vec![Want { hash: chains.hash(main[3]), height: Height::new(4) }];
        assert_eq!(reason(2, &Progress { undelivered, ..network }), None, "all that announced it withhold it");
    }
}
