//! When fixed seeds are used: after a minute, for networks without a known address; at once if there is no other
//! source of addresses.
//!
//! Source: Bitcoin Core b88bffe, net.cpp, `ThreadOpenConnections` and `GetReachableEmptyNetworks`.
//! Absent on purpose: the seeds ([`crate::fixed_seeds`]).

use super::super::context::Context;
use super::{Outbound, can_reach};
use crate::addresses::Addresses;
use crate::api::{self, Event};
use crate::fixed_seeds;
use crate::time::Now;
use crate::wire::{AddressEntry, NetAddress, services};
use std::time::Duration;

/// Time for DNS seeds and named peers to deliver addresses.
const FIXED_SEEDS_DELAY: Duration = Duration::from_secs(60);
/// Interval of checks for a network without an address.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// Assumed time since the seeds were last seen, in seconds: Core's is between one and two weeks.
const SEED_AGE_S: u64 = 10 * 24 * 3600;

/// State of the fixed seeds.
#[derive(Default)]
pub(super) struct FixedSeeds {
    taken: bool,
    looked_at: Option<Duration>,
}

impl Outbound {
    pub(super) fn seek_fixed_seeds(&mut self, cx: &mut Context, addresses: &mut Addresses, now: Now) {
        let config = &cx.config;
        let wanted = config.fixed_seeds && config.outbound == api::Outbound::Automatic && !self.fixed_seeds.taken;
        let no_other_source = !config.dns_seed && config.add_nodes.is_empty() && config.seed_nodes.is_empty();
        let at = now.since_start;
        let early = self.fixed_seeds.looked_at.is_some_and(|last| at.saturating_sub(last) < LOOK_INTERVAL);
        if !wanted || early || (at < FIXED_SEEDS_DELAY && !no_other_source) {
            return;
        }
        self.fixed_seeds.looked_at = Some(at);
        let mut seeds = fixed_seeds::parse(config.network.fixed_seeds);
        seeds.retain(|seed| can_reach(config, seed.address) && addresses.count_of(seed.address.network()) == 0);
        if seeds.is_empty() {
            return;
        }
        let time = u32::try_from(now.unix.saturating_sub(SEED_AGE_S)).unwrap_or(u32::MAX);
        let services = services::NETWORK | services::WITNESS;
        let entries: Vec<_> = seeds.into_iter().map(|peer| AddressEntry { peer, services, time }).collect();
        addresses.add(&entries, NetAddress::of_name("fixedseeds"), 0, now.unix);
        self.fixed_seeds.taken = true;
        cx.event(Event::Note(format!("Added {} fixed seeds from reachable networks.", entries.len())));
    }
}
