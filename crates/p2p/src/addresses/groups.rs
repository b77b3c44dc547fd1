//! Groups of addresses: by prefix, or by autonomous system if there is a map of autonomous systems.
//!
//! Source: Bitcoin Core b88bffe, netgroup.cpp.

use super::asmap::AsMap;
use crate::wire::{Group, NetAddress};
use std::net::Ipv4Addr;

/// How addresses are grouped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetGroups {
    map: Option<AsMap>,
}

impl NetGroups {
    /// Grouping by this map.
    pub fn of(map: AsMap) -> NetGroups {
        NetGroups { map: Some(map) }
    }

    /// Whether there is a map.
    pub fn has_map(&self) -> bool {
        self.map.is_some()
    }

    /// Version of the map; zeros without a map, as in peers.dat.
    pub fn version(&self) -> [u8; 32] {
        self.map.as_ref().map_or([0; 32], AsMap::version)
    }

    /// SHA-256 of the map's file.
    pub fn map_file_hash(&self) -> Option<[u8; 32]> {
        self.map.as_ref().map(AsMap::file_hash)
    }

    /// The group of an address.
    pub fn group(&self, address: NetAddress) -> Group {
        match self.system_of(address) {
            0 => address.group(),
            number => Group::of_system(number),
        }
    }

    /// The autonomous system of an address, 0 if unknown.
    pub fn system_of(&self, address: NetAddress) -> u32 {
        let Some(map) = self.map.as_ref().filter(|_| address.is_mappable()) else { return 0 };
        match (address.linked_v4(), address) {
            (Some(v4), _) => map.system_of(&Ipv4Addr::from(v4).to_ipv6_mapped().octets()),
            (None, NetAddress::V6(bytes)) => map.system_of(&bytes),
            _ => 0,
        }
    }
}
