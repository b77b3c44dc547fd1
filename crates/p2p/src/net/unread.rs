//! Bounds on the events that the node has not read: it reads none while it waits for disk space, which may take days.
//!
//! - Peers cause events about connections and messages as often as they connect. [`UNREAD_COUNT_MAX`] about inbound peers
//!   may be unread, and as many about outbound ones; further ones are left out and counted. The node keeps state for a
//!   connection whose begin was reported, so its end is reported in any case: the number of connections is bounded.
//! - Of the address memory (megabytes every quarter of an hour) and of the end of header sync, one event may be unread.
//!
//! Other events have bounds of their own: blocks the download window, targets and requests for more an answer of the node,
//! headers their work or a quota, notes an interval for each kind of error.

use crate::api::{Event, PeerId};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::Sender;

/// Maximum number of unread events about inbound peers, and about outbound ones: at most a megabyte each. The log takes
/// fewer lines at once.
pub(super) const UNREAD_COUNT_MAX: usize = 1024;

/// Events of one kind.
#[derive(Debug)]
struct Count {
    unread_max: usize,
    unread: AtomicUsize,
    left_out: AtomicU64,
}

impl Count {
    fn new(unread_max: usize) -> Count {
        Count { unread_max, unread: AtomicUsize::new(0), left_out: AtomicU64::new(0) }
    }

    fn is_full(&self) -> bool {
        self.unread.load(Relaxed) >= self.unread_max
    }

    fn take_left_out(&self) -> u64 {
        self.left_out.swap(0, Relaxed)
    }
}

/// Numbers of unread events, shared by the sender and the receiver.
#[derive(Debug)]
pub(super) struct Unread {
    inbound: Count,
    outbound: Count,
    addresses: Count,
    headers_done: Count,
}

impl Default for Unread {
    fn default() -> Unread {
        Unread {
            inbound: Count::new(UNREAD_COUNT_MAX),
            outbound: Count::new(UNREAD_COUNT_MAX),
            addresses: Count::new(1),
            headers_done: Count::new(1),
        }
    }
}

/// Numbers of events about peers that were left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// About inbound peers.
    pub inbound: u64,
    /// About outbound peers.
    pub outbound: u64,
}

impl Unread {
    /// The count of an event whose number is bounded here.
    fn of(&self, event: &Event) -> Option<&Count> {
        let is_inbound = match event {
            Event::PeerConnected { info, .. } => info.inbound,
            Event::PeerGone { inbound, .. } | Event::PeerNote { inbound, .. } => *inbound,
            Event::Addresses(_) => return Some(&self.addresses),
            Event::HeadersDone => return Some(&self.headers_done),
            Event::Headers { .. }
            | Event::Block { .. }
            | Event::Targets(_)
            | Event::WantMore
            | Event::Echo
            | Event::Anchors(..)
            | Event::Note(_) => return None,
        };
        Some(if is_inbound { &self.inbound } else { &self.outbound })
    }

    /// The receiver has read an event.
    pub(super) fn heard(&self, event: &Event) {
        if let Some(count) = self.of(event) {
            // An event that is reported twice must not make it negative.
            let _ = count.unread.fetch_update(Relaxed, Relaxed, |unread| unread.checked_sub(1));
        }
    }

    /// The events about peers that were left out since the last call.
    pub(super) fn take_left_out(&self) -> LeftOut {
        LeftOut { inbound: self.inbound.take_left_out(), outbound: self.outbound.take_left_out() }
    }
}

/// Sends events to the node.
pub(super) struct Events {
    sender: Sender<Event>,
    unread: Arc<Unread>,
    /// Connections whose begin was reported, and whose end was not.
    begun: BTreeSet<PeerId>,
    is_ending: bool,
}

impl Events {
    pub(super) fn new(sender: Sender<Event>, unread: Arc<Unread>) -> Events {
        Events { sender, unread, begun: BTreeSet::new(), is_ending: false }
    }

    /// Sends an event, unless too many of its kind are unread.
    pub(super) fn send(&mut self, event: Event) {
        let is_owed = matches!(&event, Event::PeerGone { peer, .. } if self.begun.remove(peer)) || self.is_ending;
        if let Some(count) = self.unread.of(&event) {
            if count.is_full() && !is_owed {
                count.left_out.fetch_add(1, Relaxed);
                return;
            }
            count.unread.fetch_add(1, Relaxed);
        }
        if let Event::PeerConnected { peer, .. } = &event {
            self.begun.insert(*peer);
        }
        // The receiver may have been dropped: the network continues without events.
        let _ = self.sender.send(event);
    }

    /// The network stops: its last events, a few for each connection, are all sent.
    pub(super) fn begin_end(&mut self) {
        self.is_ending = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::PeerInfo;
    use crate::reason::Reason;
    use std::sync::mpsc::{Receiver, channel};

    fn events() -> (Events, Arc<Unread>, Receiver<Event>) {
        let (sender, receiver) = channel();
        let unread = Arc::<Unread>::default();
        (Events::new(sender, unread.clone()), unread, receiver)
    }

    fn connected(peer: u64, inbound: bool) -> Event {
        let address = "20.1.1.1:8333".to_owned();
        let info =
            PeerInfo { address, inbound, v2: true, version: 70016, services: 9, agent: String::new(), height: 0 };
        Event::PeerConnected { peer: PeerId(peer), info }
    }

    fn gone(peer: u64, inbound: bool) -> Event {
        Event::PeerGone { peer: PeerId(peer), address: "20.1.1.1:8333".to_owned(), inbound, reason: Reason::Closed }
    }

    #[test]
    fn events_about_inbound_peers_are_bounded_and_hide_no_others() {
        let (mut events, unread, receiver) = events();
        (0..10_000).for_each(|peer| events.send(gone(peer, true)));
        events.send(Event::PeerNote { peer: None, inbound: true, text: String::new() });
        events.send(connected(10_000, true));
        events.send(connected(10_001, false));
        events.send(Event::Note("disk".to_owned()));
        let sent: Vec<Event> = receiver.try_iter().collect();
        assert_eq!(sent.len(), UNREAD_COUNT_MAX + 2);
        assert!(
            matches!(&sent[UNREAD_COUNT_MAX..], [Event::PeerConnected { info, .. }, Event::Note(_)] if !info.inbound)
        );
        let left_out = LeftOut { inbound: 10_002 - UNREAD_COUNT_MAX as u64, outbound: 0 };
        assert_eq!(unread.take_left_out(), left_out);
        assert_eq!(unread.take_left_out(), LeftOut::default(), "told once");
        sent.iter().for_each(|event| unread.heard(event));
        (0..10_000).for_each(|peer| events.send(gone(peer, true)));
        assert_eq!(receiver.try_iter().count(), UNREAD_COUNT_MAX, "as many again");
    }

    /// The node keeps state for a connection from its begin to its end.
    #[test]
    fn end_of_a_reported_connection_is_reported() {
        let (mut events, unread, receiver) = events();
        (0..200).for_each(|peer| events.send(connected(peer, true)));
        for peer in 200..10_000 {
            events.send(connected(peer, true));
            events.send(gone(peer, true));
        }
        (0..200).for_each(|peer| events.send(gone(peer, true)));
        let mut open = BTreeSet::new();
        let mut count = 0;
        for event in receiver.try_iter() {
            count += 1;
            unread.heard(&event);
            match event {
                Event::PeerConnected { peer, .. } => assert!(open.insert(peer)),
                Event::PeerGone { peer, .. } => assert!(open.remove(&peer), "{peer:?}"),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(open.len(), 0);
        assert!((UNREAD_COUNT_MAX..UNREAD_COUNT_MAX + 202).contains(&count), "{count}");
        assert!(!unread.inbound.is_full());
    }

    #[test]
    fn one_copy_of_the_addresses_is_unread_and_the_last_one_is_sent() {
        let (mut events, unread, receiver) = events();
        let sent = |receiver: &Receiver<Event>| -> Vec<Event> { receiver.try_iter().collect() };
        (1..100).for_each(|copy| events.send(Event::Addresses(vec![copy])));
        let first = sent(&receiver);
        assert!(matches!(&first[..], [Event::Addresses(bytes)] if bytes[..] == [1_u8]), "{first:?}");
        unread.heard(&first[0]);
        (101..200).for_each(|copy| events.send(Event::Addresses(vec![copy])));
        events.begin_end();
        events.send(Event::Addresses(vec![200]));
        let last = sent(&receiver);
        assert!(matches!(last.last(), Some(Event::Addresses(bytes)) if bytes[..] == [200_u8]), "{last:?}");
        assert_eq!(last.len(), 2);
        (0..100).for_each(|_| events.send(Event::Echo));
        assert_eq!(receiver.try_iter().count(), 100, "an answer to the node");
        assert_eq!(unread.take_left_out(), LeftOut::default(), "no line of the log");
    }
}
