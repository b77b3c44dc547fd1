//! Test before eviction: an address that would replace another in "tried" waits until the old one was tested.
//!
//! Source: Bitcoin Core b88bffe, `AddrManImpl::ResolveCollisions_`, `SelectTriedCollision_`.

use super::entry::Seconds;
use super::{Addresses, Entry, Eviction, Id, seconds};

/// Maximum number of waiting addresses. Source: Core's `ADDRMAN_SET_TRIED_COLLISION_SIZE`.
pub(super) const COLLISION_COUNT_MAX: usize = 10;
/// An address that worked within this time keeps its place; one that was tried within it and failed loses its place.
/// Source: Core's `ADDRMAN_REPLACEMENT`.
const REPLACEMENT: Seconds = 4 * 3600;
/// An address that could not be tested loses its place after the other has waited this long. Source: Core's
/// `ADDRMAN_TEST_WINDOW`.
const TEST_WINDOW: Seconds = 40 * 60;
/// Time for a connection to succeed.
const ATTEMPT_S: Seconds = 60;

/// Outcome for a waiting address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Waits,
    Forgotten,
    Moves,
}

impl Addresses {
    /// Decides about waiting addresses if the addresses in their places were tested.
    pub fn resolve_collisions(&mut self, now: u64) {
        self.look();
        let now = seconds(now);
        for id in self.collisions.clone() {
            let fate = self.fate(id, now);
            if fate != Fate::Waits {
                self.collisions.remove(&id);
            }
            if fate == Fate::Moves {
                let peer = self.entries[&id].peer;
                self.note_good(&peer, Eviction::AtOnce, now);
            }
        }
        self.look();
    }

    fn fate(&self, id: Id, now: Seconds) -> Fate {
        let Some(new) = self.entries.get(&id).filter(|entry| entry.peer.address.is_valid()) else {
            return Fate::Forgotten;
        };
        let Some(old) = self.in_the_way(new) else { return Fate::Moves };
        let ago = |then: Seconds| now.saturating_sub(then);
        if ago(old.last_success) < REPLACEMENT {
            return Fate::Forgotten;
        }
        if ago(old.last_try) < REPLACEMENT {
            return if ago(old.last_try) > ATTEMPT_S { Fate::Moves } else { Fate::Waits };
        }
        if ago(new.last_success) > TEST_WINDOW { Fate::Moves } else { Fate::Waits }
    }

    fn in_the_way(&self, new: &Entry) -> Option<&Entry> {
        let place = self.key.tried_place(&new.peer, &self.groups);
        self.entries.get(&self.tried[place.index()]?)
    }

    /// An address in "tried" that must be tested because another waits for its place.
    pub fn select_collision(&mut self) -> Option<Entry> {
        self.look();
        if self.collisions.is_empty() {
            return None;
        }
        let count = self.rng.below(self.collisions.len());
        let id = *self.collisions.iter().nth(count)?;
        let Some(new) = self.entries.get(&id) else {
            self.collisions.remove(&id);
            return None;
        };
        self.in_the_way(new).cloned()
    }
}
