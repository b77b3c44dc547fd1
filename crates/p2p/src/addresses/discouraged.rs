//! Discouraged addresses: ignored for a day after misbehaviour, at most [`DISCOURAGED_COUNT_MAX`] of them.

use crate::wire::NetAddress;
use std::collections::HashMap;

/// Maximum number of discouraged addresses.
pub const DISCOURAGED_COUNT_MAX: usize = 1000;
/// How long an address is discouraged, in seconds.
pub const DISCOURAGED_S: u64 = 24 * 3600;

/// The discouraged addresses.
#[derive(Clone, Debug, Default)]
pub struct Discouraged {
    until: HashMap<NetAddress, u64>,
}

impl Discouraged {
    /// Discourages an address for a day because it misbehaved.
    pub fn add(&mut self, address: NetAddress, now: u64) {
        if self.until.len() >= DISCOURAGED_COUNT_MAX {
            self.until.retain(|_, until| *until > now);
        }
        if self.until.len() >= DISCOURAGED_COUNT_MAX
            && let Some(first) = self.until.iter().min_by_key(|(_, until)| **until).map(|(address, _)| *address)
        {
            self.until.remove(&first);
        }
        self.until.insert(address, now + DISCOURAGED_S);
    }

    /// Whether an address is discouraged.
    pub fn has(&self, address: &NetAddress, now: u64) -> bool {
        self.until.get(address).is_some_and(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discouraged_addresses_are_bounded() {
        let mut discouraged = Discouraged::default();
        for i in 0..3000u32 {
            discouraged.add(NetAddress::V4(i.to_be_bytes()), 1000 + u64::from(i));
        }
        assert_eq!(discouraged.until.len(), DISCOURAGED_COUNT_MAX);
        let last = NetAddress::V4(2999u32.to_be_bytes());
        assert!(discouraged.has(&last, 1000) && !discouraged.has(&last, 3999 + DISCOURAGED_S));
    }
}
