//! Invariants of the address memory. Source: Bitcoin Core b88bffe, `AddrManImpl::CheckAddrman`; the codes are Core's.

use super::{Addresses, BUCKET_SIZE, BUCKETS_PER_ADDRESS, Counts, Entry, Id, NETWORK_COUNT, Place, Table};
use std::collections::HashMap;

impl Addresses {
    /// Core's code of the first violated invariant.
    pub fn check(&self) -> Option<i32> {
        if self.order.len() != self.count_in(Table::New, None) + self.count_in(Table::Tried, None) {
            return Some(-7);
        }
        let mut counts = [Counts::default(); NETWORK_COUNT];
        for (id, entry) in &self.entries {
            if let Some(code) = self.check_entry(*id, entry) {
                return Some(code);
            }
            let of = &mut counts[entry.network()];
            *(if entry.is_tried { &mut of.tried } else { &mut of.new }) += 1;
        }
        let tried = counts.iter().map(|of| of.tried).sum::<usize>();
        let new = counts.iter().map(|of| of.new).sum::<usize>();
        if tried != self.count_in(Table::Tried, None) {
            return Some(-9);
        }
        if new != self.count_in(Table::New, None) {
            return Some(-10);
        }
        let code = self.check_tried(tried).or_else(|| self.check_new());
        let is_counted = |table: Table| {
            self.filled(table).len()
                == self.table(table).chunks(BUCKET_SIZE).filter(|bucket| bucket.iter().any(Option::is_some)).count()
        };
        assert!(is_counted(Table::New) && is_counted(Table::Tried), "buckets are counted");
        code.or_else(|| (self.key.0 == [0; 32]).then_some(-16)).or_else(|| (counts != self.counts).then_some(-21))
    }

    fn check_entry(&self, id: Id, entry: &Entry) -> Option<i32> {
        match entry {
            _ if entry.is_tried && entry.last_success == 0 => Some(-1),
            _ if entry.is_tried && entry.new_count != 0 => Some(-2),
            _ if !entry.is_tried && entry.new_count > BUCKETS_PER_ADDRESS => Some(-3),
            _ if !entry.is_tried && entry.new_count == 0 => Some(-4),
            _ if self.by_peer.get(&entry.peer) != Some(&id) => Some(-5),
            _ if self.order.get(entry.place) != Some(&id) => Some(-14),
            _ if entry.last_try < 0 => Some(-6),
            _ if entry.last_success < 0 => Some(-8),
            _ => None,
        }
    }

    fn check_tried(&self, mut left: usize) -> Option<i32> {
        for (index, id) in self.tried.iter().enumerate() {
            let Some(id) = id else { continue };
            let Some(entry) = self.entries.get(id).filter(|entry| entry.is_tried) else { return Some(-11) };
            let place = self.key.tried_place(&entry.peer, &self.groups);
            if place.bucket != index / BUCKET_SIZE {
                return Some(-17);
            }
            if place.position != index % BUCKET_SIZE {
                return Some(-18);
            }
            left = left.saturating_sub(1);
        }
        (left != 0).then_some(-13)
    }

    fn check_new(&self) -> Option<i32> {
        let mut found: HashMap<Id, u8> = HashMap::new();
        for (index, id) in self.new.iter().enumerate() {
            let Some(id) = id else { continue };
            let Some(entry) = self.entries.get(id).filter(|entry| !entry.is_tried) else { return Some(-12) };
            let place = Place { bucket: index / BUCKET_SIZE, position: index % BUCKET_SIZE };
            if self.key.position(Table::New, place.bucket, &entry.peer) != place {
                return Some(-19);
            }
            let count = found.entry(*id).or_default();
            *count += 1;
            if *count > entry.new_count {
                return Some(-12);
            }
        }
        let is_whole =
            |(id, entry): (&Id, &Entry)| entry.is_tried || found.get(id).copied().unwrap_or(0) == entry.new_count;
        (!self.entries.iter().all(is_whole)).then_some(-15)
    }
}
