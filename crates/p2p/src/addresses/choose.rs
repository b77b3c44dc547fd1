//! Random choices: an address to connect to, and addresses for a `getaddr` answer.
//!
//! Source: Bitcoin Core b88bffe, `AddrManImpl::Select_`, `GetAddr_`.

use super::entry::network_of;
use super::{Addresses, BUCKET_SIZE, Entry, Table, seconds};
use crate::wire::{AddressEntry, NetAddress};

/// Maximum number of draws for one choice: an address is accepted at the latest when it is drawn the 44th time, and for
/// a rare network only one bucket in a thousand is not empty.
const DRAW_COUNT_MAX: usize = 1_000_000;

/// A set of networks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Networks(u8);

impl Networks {
    /// No network.
    pub const NONE: Networks = Networks(0);

    /// Adds the network with this BIP155 number.
    #[must_use]
    pub fn with(self, network: u8) -> Networks {
        Networks(self.0 | 1 << (network & 7))
    }

    /// Whether the network of an address is in the set; false for an address that is not routable.
    pub fn has(self, address: NetAddress) -> bool {
        self.has_number(network_of(address))
    }

    /// Whether the network with this BIP155 number is in the set.
    pub fn has_number(self, network: usize) -> bool {
        network != 0 && self.0 >> network & 1 != 0
    }
}

/// The table to draw from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum From {
    /// Both tables, with the same chance.
    Both,
    /// Addresses from gossip.
    New,
}

impl Addresses {
    /// Draws an address of these networks to connect to.
    pub fn select(&mut self, from: From, networks: Networks, now: u64) -> Option<Entry> {
        self.look();
        let count = |table| {
            let of = (0..8).filter(|network| networks.has_number(*network));
            of.map(|network| self.count_in(table, u8::try_from(network).ok())).sum::<usize>()
        };
        let table = match (from, count(Table::New), count(Table::Tried)) {
            (_, 0, 0) | (From::New, 0, _) => return None,
            (From::New, ..) | (_, _, 0) => Table::New,
            (From::Both, 0, _) => Table::Tried,
            (From::Both, ..) if self.rng.number() & 1 == 0 => Table::New,
            (From::Both, ..) => Table::Tried,
        };
        // Core draws from all buckets until one is not empty: all buckets with an address have the same chance.
        let filled = self.filled(table);
        let mut factor = 1.0;
        for _ in 0..DRAW_COUNT_MAX {
            let bucket = filled[self.rng.below(filled.len())];
            let start = self.rng.below(BUCKET_SIZE);
            let drawn = (self.rng.number() >> 34) as f64 / f64::from(1 << 30);
            let Some(entry) = self.first_of(table, bucket, start, networks) else { continue };
            if drawn < factor * entry.chance(seconds(now)) {
                return Some(entry.clone());
            }
            factor *= 1.2;
        }
        None
    }

    /// The first address of these networks in a bucket, searched from `start` on and around the end.
    fn first_of(&self, table: Table, bucket: usize, start: usize, networks: Networks) -> Option<&Entry> {
        let places = &self.table(table)[bucket * BUCKET_SIZE..(bucket + 1) * BUCKET_SIZE];
        let around = places[start..].iter().chain(&places[..start]).flatten();
        around.filter_map(|id| self.entries.get(id)).find(|entry| networks.has_number(entry.network()))
    }

    /// Addresses in random order, without those not worth keeping: at most `count`, and at most `percent` of all (0:
    /// no limit), optionally only of one network.
    pub fn get(&mut self, count: usize, percent: usize, network: Option<u8>, now: u64) -> Vec<AddressEntry> {
        self.look();
        let all = self.order.len();
        let part = if percent == 0 { all } else { percent.min(100) * all / 100 };
        let most = if count == 0 { part } else { part.min(count) };
        let mut out = Vec::with_capacity(most);
        for place in 0..all {
            if out.len() >= most {
                break;
            }
            let other = place + self.rng.below(all - place);
            self.swap_order(place, other);
            let entry = &self.entries[&self.order[place]];
            let is_meant = network.is_none_or(|network| entry.peer.address.class_network() == network);
            if is_meant && !entry.is_terrible(seconds(now)) {
                out.push(entry.told());
            }
        }
        self.look();
        out
    }

    /// Every IPv4 and IPv6 address, for a check of the map.
    pub fn clear_net(&self) -> Vec<NetAddress> {
        let all = self.entries.values().map(|entry| entry.peer.address);
        all.filter(|address| address.is_ip() && address.is_routable()).collect()
    }
}
