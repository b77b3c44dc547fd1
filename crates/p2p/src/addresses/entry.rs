//! One entry of the address memory.

use crate::wire::{AddressEntry, NetAddress, PeerAddress};

/// Seconds since 1970. The file is untrusted: any value is possible.
pub(super) type Seconds = i64;

const MINUTE: Seconds = 60;
const DAY: Seconds = 24 * 3600;
/// An address not seen for this time is forgotten. Source: Core's `ADDRMAN_HORIZON`.
const HORIZON: Seconds = 30 * DAY;
/// Failures after which an address that never worked is forgotten. Source: Core's `ADDRMAN_RETRIES`.
const RETRIES: i32 = 3;
/// Failures after which an address is forgotten that last worked at least [`FAIL_MIN`] ago. Source: Core's
/// `ADDRMAN_MAX_FAILURES`.
const FAILURES_MAX: i32 = 10;
/// Source: Core's `ADDRMAN_MIN_FAIL`.
const FAIL_MIN: Seconds = 7 * DAY;

/// An address of the memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Address and port.
    pub peer: PeerAddress,
    /// The services that it is announced with.
    pub services: u64,
    /// When it was last seen: seconds since 1970.
    pub time: u32,
    /// Address of the peer that announced it first.
    pub source: NetAddress,
    /// When a connection to it last succeeded; 0: never.
    pub last_success: i64,
    /// Attempts since then.
    pub attempts: i32,
    /// When it was last tried; not stored in the file.
    pub(super) last_try: Seconds,
    /// When a failure was last counted; not stored in the file.
    pub(super) last_counted: Seconds,
    /// Number of its buckets in "new"; 0 if it is in "tried".
    pub(super) new_count: u8,
    pub(super) is_tried: bool,
    /// Its index in the order of all entries.
    pub(super) place: usize,
}

impl Entry {
    pub(super) fn new(told: &AddressEntry, source: NetAddress) -> Entry {
        Entry {
            peer: told.peer,
            services: told.services,
            time: told.time,
            source,
            last_success: 0,
            attempts: 0,
            last_try: 0,
            last_counted: 0,
            new_count: 0,
            is_tried: false,
            place: 0,
        }
    }

    /// When it was last tried; 0: never.
    pub fn last_try(&self) -> i64 {
        self.last_try
    }

    /// The address as sent to peers.
    pub(super) fn told(&self) -> AddressEntry {
        AddressEntry { peer: self.peer, services: self.services, time: self.time }
    }

    /// Whether it is not worth keeping. Source: Bitcoin Core b88bffe, `AddrInfo::IsTerrible`.
    pub(super) fn is_terrible(&self, now: Seconds) -> bool {
        let time = Seconds::from(self.time);
        if now.saturating_sub(self.last_try) <= MINUTE {
            return false;
        }
        time > now.saturating_add(10 * MINUTE)
            || now.saturating_sub(time) > HORIZON
            || (self.last_success == 0 && self.attempts >= RETRIES)
            || (now.saturating_sub(self.last_success) > FAIL_MIN && self.attempts >= FAILURES_MAX)
    }

    /// Probability, 0 to 1, that it is chosen when drawn. Source: Bitcoin Core b88bffe, `AddrInfo::GetChance`.
    pub(super) fn chance(&self, now: Seconds) -> f64 {
        let rested = if now.saturating_sub(self.last_try) < 10 * MINUTE { 0.01 } else { 1.0 };
        rested * 0.66f64.powi(self.attempts.min(8))
    }

    /// BIP155 number of its network; 0 if it is not routable. Source: Core's `CNetAddr::GetNetwork`.
    pub(super) fn network(&self) -> usize {
        network_of(self.peer.address)
    }
}

/// BIP155 number of a network; 0 for an address that is not routable.
pub(super) fn network_of(address: NetAddress) -> usize {
    if address.is_routable() { address.network().into() } else { 0 }
}
