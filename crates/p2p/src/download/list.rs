//! The blocks of one chain to download, lowest first: missing, in flight, or arrived.

use crate::api::Want;
use primitives::BlockHash;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::time::Duration;

/// State of a block to download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WantState {
    /// Not requested yet.
    Missing,
    /// It is in flight.
    Requested,
    /// Arrived.
    Arrived,
}

#[derive(Debug)]
struct WantedBlock {
    want: Want,
    arrived: bool,
}

#[derive(Debug, Default)]
pub(super) struct List {
    entries: Vec<WantedBlock>,
    index: HashMap<BlockHash, usize>,
    /// Indices in `entries` of blocks that are neither in flight nor arrived.
    missing: BTreeSet<usize>,
    /// Indices of blocks that are in flight only from quiet peers: they are requested from others, too.
    pub(super) again: BTreeSet<usize>,
    first_open: usize,
    /// The lowest block if it stalls, and since when.
    pub(super) held_up: Option<(BlockHash, Duration)>,
    /// Whether the event that few are left to request was sent.
    pub(super) more_said: bool,
}

impl List {
    pub(super) fn new(blocks: Vec<Want>, state: impl Fn(&BlockHash) -> WantState) -> List {
        let index = blocks.iter().enumerate().map(|(place, want)| (want.hash, place)).collect();
        let is = |want: &Want, wanted: WantState| state(&want.hash) == wanted;
        let missing = blocks.iter().enumerate().filter(|(_, want)| is(want, WantState::Missing));
        let missing = missing.map(|(place, _)| place).collect();
        let entries =
            blocks.into_iter().map(|want| WantedBlock { want, arrived: is(&want, WantState::Arrived) }).collect();
        let mut list = List { entries, index, missing, ..List::default() };
        list.skip_arrived();
        list
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn missing_count(&self) -> usize {
        self.missing.len()
    }

    /// Blocks that have not arrived.
    pub(super) fn open_count(&self) -> usize {
        self.entries[self.first_open..].iter().filter(|entry| !entry.arrived).count()
    }

    /// Index of the lowest block that has not arrived.
    pub(super) fn first_open(&self) -> usize {
        self.first_open
    }

    pub(super) fn at(&self, place: usize) -> Option<Want> {
        self.entries.get(place).map(|entry| entry.want)
    }

    /// The lowest block that has not arrived.
    pub(super) fn head(&self) -> Option<Want> {
        self.at(self.first_open)
    }

    pub(super) fn last(&self) -> Option<BlockHash> {
        self.entries.last().map(|entry| entry.want.hash)
    }

    pub(super) fn contains(&self, hash: &BlockHash) -> bool {
        self.index.contains_key(hash)
    }

    /// Index of a block in the list.
    pub(super) fn place(&self, hash: &BlockHash) -> Option<usize> {
        self.index.get(hash).copied()
    }

    /// The block, if it is neither requested nor arrived.
    pub(super) fn missing(&self, hash: &BlockHash) -> Option<Want> {
        self.at(self.place(hash).filter(|place| self.missing.contains(place))?)
    }

    /// The first index in the range whose block is to be requested: it is missing, or in flight only from quiet
    /// peers.
    pub(super) fn first_to_ask(&self, places: Range<usize>) -> Option<usize> {
        let missing = self.missing.range(places.clone()).next();
        missing.into_iter().chain(self.again.range(places).next()).min().copied()
    }

    /// Marks a block in flight to be requested from another peer.
    pub(super) fn ask_again(&mut self, hash: &BlockHash) {
        let is_open = |place: &usize| !self.entries[*place].arrived && !self.missing.contains(place);
        if let Some(place) = self.place(hash).filter(is_open) {
            self.again.insert(place);
        }
    }

    fn skip_arrived(&mut self) {
        while self.entries.get(self.first_open).is_some_and(|entry| entry.arrived) {
            self.first_open += 1;
        }
    }

    /// Ends the stall of the lowest block, if `is` is true for it.
    pub(super) fn forget_held_up(&mut self, is: impl FnOnce(&BlockHash) -> bool) {
        self.held_up.take_if(|(head, _)| is(head));
    }

    /// Sets the state of a block, if it is in this list.
    pub(super) fn set(&mut self, hash: &BlockHash, state: WantState) {
        let Some(&place) = self.index.get(hash) else { return };
        self.entries[place].arrived = state == WantState::Arrived;
        self.again.remove(&place);
        if state == WantState::Missing {
            self.missing.insert(place);
            self.first_open = self.first_open.min(place);
        } else {
            self.missing.remove(&place);
        }
        self.skip_arrived();
        if state == WantState::Arrived {
            self.forget_held_up(|held| held == hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::Height;

    fn wants(count: u8) -> Vec<Want> {
        (0..count).map(|i| Want { hash: BlockHash::from_bytes([i; 32]), height: Height::new(i.into()) }).collect()
    }

    #[test]
    fn list_follows_the_state_of_each_block() {
        let hash = |i: u8| BlockHash::from_bytes([i; 32]);
        let state = |of: &BlockHash| {
            [WantState::Arrived, WantState::Requested, WantState::Missing][usize::from(of.as_bytes()[0].min(2))]
        };
        let mut list = List::new(wants(5), state);
        assert_eq!((list.first_open(), list.first_to_ask(0..5), list.open_count()), (1, Some(2), 4));
        list.set(&hash(1), WantState::Arrived);
        list.set(&hash(2), WantState::Requested);
        assert_eq!((list.first_open(), list.first_to_ask(0..5)), (2, Some(3)));
        list.held_up = Some((hash(2), Duration::ZERO));
        list.set(&hash(2), WantState::Arrived);
        assert_eq!((list.head().map(|want| want.height), list.held_up), (Some(Height::new(3)), None));
        // A body that proved bad is missing again.
        list.set(&hash(0), WantState::Missing);
        assert_eq!((list.first_open(), list.first_to_ask(0..5), list.missing_count()), (0, Some(0), 3));
        // What is not in the list is of another one.
        list.set(&hash(9), WantState::Missing);
        assert_eq!((list.contains(&hash(9)), list.last(), list.len()), (false, Some(hash(4)), 5));
    }
}
