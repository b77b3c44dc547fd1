//! Sources of addresses while there are too few: nodes named by `-seednode`, and DNS seeds.
//!
//! - A seed node is connected to only for its addresses: the first at once if no address is known, another each
//!   [`SEED_NODE_INTERVAL`] while there are fewer than [`ENOUGH_PEERS`] automatic peers.
//! - DNS seeds begin after seed nodes had [`SEED_NODES_TIMEOUT`]. If no address is known, all are queried at once,
//!   otherwise [`SEEDS_AT_ONCE`] after each delay, until there are enough peers. The query asks for nodes with the
//!   services that we need. A seed that returns no such nodes is connected to as a seed node; behind a proxy, where
//!   names cannot be looked up, every seed is.
//! - If all queries fail, they are repeated after [`SEED_AGAIN`]; Core has no such rule.
//!
//! Source: Bitcoin Core b88bffe, net.cpp, `ThreadDNSAddressSeed`, `ThreadOpenConnections`.

use super::super::Action;
use super::super::context::Context;
use super::{DIAL_COUNT_MAX, Dialed, Outbound};
use crate::addresses::Addresses;
use crate::api::{self, Config, Event};
use crate::peer::Kind;
use crate::time::Now;
use crate::trouble::{DialError, TroubleKind};
use crate::wire::{AddressEntry, NetAddress, PeerAddress, Target, TargetError, services};
use std::net::SocketAddr;
use std::time::Duration;

/// Interval between two seed nodes. Source: Core's `ADD_NEXT_SEEDNODE`.
pub const SEED_NODE_INTERVAL: Duration = Duration::from_secs(10);
/// How long DNS seeds wait for seed nodes. Source: Core's `SEEDNODE_TIMEOUT`.
pub const SEED_NODES_TIMEOUT: Duration = Duration::from_secs(30);
/// Delay before DNS seeds are queried. Source: Core's `DNSSEEDS_DELAY_FEW_PEERS`.
pub const SEED_DELAY: Duration = Duration::from_secs(11);
/// Delay if at least [`ADDRESSES_MANY`] addresses are known. Source: Core's `DNSSEEDS_DELAY_MANY_PEERS`.
pub const SEED_DELAY_LONG: Duration = Duration::from_secs(5 * 60);
/// Source: Core's `DNSSEEDS_DELAY_PEER_THRESHOLD`.
pub const ADDRESSES_MANY: usize = 1000;
/// Number of seeds queried at a time. Source: Core's `DNSSEEDS_TO_QUERY_AT_ONCE`.
pub const SEEDS_AT_ONCE: usize = 3;
/// Sufficient number of automatic peers. Source: Core's `SEED_OUTBOUND_CONNECTION_THRESHOLD`.
pub const ENOUGH_PEERS: usize = 2;
/// All seeds are queried again after this time.
pub const SEED_AGAIN: Duration = Duration::from_secs(10 * 60);
/// Maximum number of addresses accepted from one seed's answer. Source: Core's `nMaxIPs`.
pub const SEED_ADDRESS_COUNT_MAX: usize = 32;
/// Assumed time since the addresses of a seed were last seen, in seconds.
const SEED_AGE_S: u64 = 3 * 24 * 3600;
/// Services for which a seed is queried, and the label of its name for them.
const SERVICES: u64 = services::NETWORK | services::WITNESS;
const SERVICES_NAME: &str = "x9.";
const _: () = assert!(SERVICES == 9);

/// State of DNS seeding.
#[derive(Clone, Copy, Debug)]
enum Dns {
    /// Not begun.
    Start,
    /// Since when DNS seeds wait for seed nodes.
    AfterSeedNodes(Duration),
    /// Seeds are queried while some of the current round are left.
    Asking,
    /// There is no query before the first time; at the second time it is checked whether there are enough peers.
    Waiting(Duration, Duration),
    /// Ended at this time.
    Done(Duration),
}

/// State of seeds.
pub(super) struct Seeds {
    /// The seed nodes: their text, and the parsed address.
    nodes: Vec<(String, Target)>,
    is_first_look: bool,
    node_added_at: Duration,
    dns: Dns,
    left: Vec<&'static str>,
    at_once: usize,
    found_count: usize,
    /// The seeds are being queried again, so log lines are not repeated.
    is_again: bool,
}

impl Seeds {
    pub(super) fn new(config: &Config, now: Now) -> Result<Seeds, TargetError> {
        let node = |text: &String| Ok((text.clone(), Target::parse(text, config.network.port)?));
        Ok(Seeds {
            nodes: config.seed_nodes.iter().map(node).collect::<Result<_, _>>()?,
            is_first_look: true,
            node_added_at: now.since_start,
            dns: Dns::Start,
            left: Vec::new(),
            at_once: 0,
            found_count: 0,
            is_again: false,
        })
    }
}

impl Outbound {
    fn sought_count(cx: &Context) -> usize {
        cx.peers.values().filter(|peer| peer.kind == Kind::Automatic && peer.is_ready()).count()
    }

    /// Queries seed nodes and DNS seeds that are due.
    pub(super) fn seek_addresses(&mut self, cx: &mut Context, addresses: &mut Addresses, now: Now) {
        if cx.config.outbound == api::Outbound::Automatic {
            self.seek_seed_nodes(cx, addresses, now);
        }
        if cx.config.dns_seed {
            // Each step leads to another step, to a pause, or to the end.
            while self.step_dns(cx, addresses, now) {}
        } else if matches!(self.seeds.dns, Dns::Start) {
            self.seeds.dns = Dns::Done(now.since_start);
            cx.log("DNS seeding disabled");
        }
    }

    fn seek_seed_nodes(&mut self, cx: &mut Context, addresses: &mut Addresses, now: Now) {
        let is_first = std::mem::take(&mut self.seeds.is_first_look);
        let is_empty = addresses.count() == 0;
        let waited = now.since_start.saturating_sub(self.seeds.node_added_at);
        let is_due = waited > SEED_NODE_INTERVAL && Outbound::sought_count(cx) < ENOUGH_PEERS;
        if !(is_first && is_empty || is_due) || self.dial_count() >= DIAL_COUNT_MAX {
            return;
        }
        let Some((text, target)) = self.seeds.nodes.pop() else { return };
        self.seeds.node_added_at = now.since_start;
        cx.log(if is_empty {
            format!("Empty addrman, adding seednode ({text}) to addrfetch")
        } else {
            let seconds = SEED_NODE_INTERVAL.as_secs();
            format!(
                "Couldn't connect to peers from addrman after {seconds} seconds. Adding seednode ({text}) to addrfetch"
            )
        });
        self.dial(cx, Dialed::of(Kind::AddressFetch, target), now);
    }

    /// One step of DNS seeding; returns whether another follows at once.
    fn step_dns(&mut self, cx: &mut Context, addresses: &mut Addresses, now: Now) -> bool {
        let at = now.since_start;
        let is_enough = Outbound::sought_count(cx) >= ENOUGH_PEERS;
        let is_ended = is_enough && self.is_look(at);
        match self.seeds.dns {
            Dns::Start if cx.config.seed_nodes.is_empty() => self.begin_dns(cx, addresses, now),
            Dns::Start => {
                let seconds = SEED_NODES_TIMEOUT.as_secs();
                cx.log(format!(
                    "-seednode enabled. Trying the provided seeds for {seconds} seconds before defaulting to the dnsseeds."
                ));
                self.seeds.dns = Dns::AfterSeedNodes(at);
                false
            }
            Dns::AfterSeedNodes(since) => {
                let is_late = at.saturating_sub(since) > SEED_NODES_TIMEOUT;
                if is_late {
                    cx.log("Couldn't connect to enough peers via seed nodes. Handing fetch logic to the DNS seeds.");
                } else if is_enough {
                    cx.log("P2P peers available. Finished fetching data from seed nodes.");
                }
                (is_late || is_enough) && self.begin_dns(cx, addresses, now)
            }
            Dns::Asking => self.ask_dns(cx, addresses, now),
            Dns::Waiting(..) if is_ended => {
                let found = self.seeds.found_count;
                cx.log(if found > 0 {
                    "P2P peers available. Finished DNS seeding."
                } else {
                    "P2P peers available. Skipped DNS seeding."
                });
                self.seeds.dns = Dns::Done(at);
                false
            }
            Dns::Waiting(until, _) if at >= until => {
                self.seeds.dns = Dns::Asking;
                true
            }
            Dns::Waiting(..) => false,
            Dns::Done(since) => {
                let is_late = at.saturating_sub(since) >= SEED_AGAIN;
                let is_again = is_late && !is_enough;
                self.seeds.is_again |= is_again;
                is_again && self.begin_dns(cx, addresses, now)
            }
        }
    }

    /// Whether the check for enough peers is due.
    fn is_look(&mut self, at: Duration) -> bool {
        let Dns::Waiting(_, look) = &mut self.seeds.dns else { return false };
        let is_look = at >= *look;
        if is_look {
            *look = at + SEED_DELAY;
        }
        is_look
    }

    fn begin_dns(&mut self, cx: &mut Context, addresses: &Addresses, now: Now) -> bool {
        let mut left = cx.config.network.dns_seeds.to_vec();
        let is_all = cx.config.force_dns_seed || addresses.count() == 0;
        self.seeds.at_once = if is_all { left.len() } else { 0 };
        self.seeds.left.clear();
        while !left.is_empty() {
            let place = cx.rng.below(left.len());
            self.seeds.left.push(left.swap_remove(place));
        }
        if Outbound::sought_count(cx) >= ENOUGH_PEERS && self.seeds.at_once == 0 {
            cx.log("Skipping DNS seeds. Enough peers have been found");
            self.seeds.dns = Dns::Done(now.since_start);
            return false;
        }
        self.seeds.dns = Dns::Asking;
        true
    }

    /// Logs a line of the seeds' first round only: a node without a network would repeat it all day.
    fn say_once(&self, cx: &mut Context, line: String) {
        if !self.seeds.is_again {
            cx.log(line);
        }
    }

    /// Queries one seed, or begins to wait.
    fn ask_dns(&mut self, cx: &mut Context, addresses: &mut Addresses, now: Now) -> bool {
        let at = now.since_start;
        let Some(seed) = self.seeds.left.last().copied() else {
            self.seeds.dns = Dns::Done(at);
            self.log_found(cx);
            return false;
        };
        if self.seeds.at_once == 0 {
            self.seeds.at_once = SEEDS_AT_ONCE;
            let count = addresses.count();
            if count > 0 {
                let delay = if count >= ADDRESSES_MANY { SEED_DELAY_LONG } else { SEED_DELAY };
                self.say_once(cx, format!("Waiting {} seconds before querying DNS seeds.", delay.as_secs()));
                self.seeds.dns = Dns::Waiting(at + delay, at + SEED_DELAY);
                return false;
            }
        }
        let has_proxy = cx.config.proxy.is_some();
        if has_proxy && self.dial_count() >= DIAL_COUNT_MAX {
            return false;
        }
        self.seeds.left.pop();
        self.seeds.at_once -= 1;
        self.say_once(cx, format!("Loading addresses from DNS seed {seed}"));
        let name = seed.trim_end_matches('.');
        let port = cx.config.network.port;
        if has_proxy {
            self.dial(cx, Dialed::of(Kind::AddressFetch, Target::Name(name.to_owned(), port)), now);
        } else {
            // Only one lookup of a name runs at a time, however long it takes: each has a thread.
            let name = format!("{SERVICES_NAME}{name}");
            if self.begin_resolving(&name, now) {
                cx.ask(Action::Resolve { name, port });
            }
        }
        true
    }

    fn log_found(&self, cx: &mut Context) {
        if matches!(self.seeds.dns, Dns::Done(_)) && !self.is_resolving() {
            self.say_once(cx, format!("{} addresses found from DNS seeds", self.seeds.found_count));
        }
    }

    /// Failure of [`Action::Resolve`].
    pub(in super::super) fn not_resolved(
        &mut self,
        cx: &mut Context,
        addresses: &mut Addresses,
        name: &str,
        why: &str,
        now: Now,
    ) {
        let error = DialError::of(TroubleKind::Lookup, name, why);
        if self.troubles.meet(&error, name, now.since_start) {
            cx.event(Event::Note(format!("{error}. Repeats are counted, not logged")));
        }
        self.take_found(cx, addresses, name, &[], now);
    }

    /// Result of [`Action::Resolve`]: the addresses of a name; empty if the name has no address.
    pub(in super::super) fn resolved(
        &mut self,
        cx: &mut Context,
        addresses: &mut Addresses,
        name: &str,
        found: &[SocketAddr],
        now: Now,
    ) {
        self.troubles.looked_up(name);
        self.take_found(cx, addresses, name, found, now);
    }

    fn take_found(&mut self, cx: &mut Context, addresses: &mut Addresses, name: &str, found: &[SocketAddr], now: Now) {
        self.end_resolving(name);
        let time = u32::try_from(now.unix.saturating_sub(SEED_AGE_S)).unwrap_or(u32::MAX);
        let entry = |address: &SocketAddr| AddressEntry { peer: PeerAddress::from(*address), services: SERVICES, time };
        let entries: Vec<_> = found.iter().take(SEED_ADDRESS_COUNT_MAX).map(entry).collect();
        addresses.add(&entries, NetAddress::of_name(name), 0, now.unix);
        self.seeds.found_count += entries.len();
        // The seed may not support service bits: its plain name still leads to nodes.
        if let Some(seed) = name.strip_prefix(SERVICES_NAME).filter(|_| entries.is_empty())
            && self.dial_count() < DIAL_COUNT_MAX
        {
            let target = Target::Name(seed.to_owned(), cx.config.network.port);
            self.dial(cx, Dialed::of(Kind::AddressFetch, target), now);
        }
        self.log_found(cx);
    }
}
