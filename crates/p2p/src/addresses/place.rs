//! Places of addresses: a keyed hash of the address, its group, and the group of its source.
//!
//! One group of sources reaches [`BUCKETS_PER_SOURCE_GROUP`] buckets of new addresses, one group of addresses reaches
//! [`BUCKETS_PER_GROUP`] buckets of tried ones: an attacker with few groups cannot fill the memory.
//!
//! Source: Bitcoin Core b88bffe, addrman.cpp, `GetTriedBucket`, `GetNewBucket`, `GetBucketPosition`; hash.h,
//! `GetCheapHash`.

use super::groups::NetGroups;
use crate::wire::{NetAddress, PeerAddress};
use kernels::sha256::sha256d;

/// Buckets of new addresses. Source: Core's `ADDRMAN_NEW_BUCKET_COUNT`.
pub const NEW_BUCKET_COUNT: usize = 1024;
/// Buckets of tried addresses. Source: Core's `ADDRMAN_TRIED_BUCKET_COUNT`.
pub const TRIED_BUCKET_COUNT: usize = 256;
/// Places of a bucket. Source: Core's `ADDRMAN_BUCKET_SIZE`.
pub const BUCKET_SIZE: usize = 64;
/// Buckets of new addresses that one group of sources reaches. Source: Core's `ADDRMAN_NEW_BUCKETS_PER_SOURCE_GROUP`.
pub(super) const BUCKETS_PER_SOURCE_GROUP: u64 = 64;
/// Buckets of tried addresses that one group reaches. Source: Core's `ADDRMAN_TRIED_BUCKETS_PER_GROUP`.
pub(super) const BUCKETS_PER_GROUP: u64 = 8;
/// Maximum number of buckets in "new" for one address. Source: Core's `ADDRMAN_NEW_BUCKETS_PER_ADDRESS`.
pub const BUCKETS_PER_ADDRESS: u8 = 8;

/// One of the two tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// Addresses from gossip.
    New,
    /// Addresses that a connection was made to.
    Tried,
}

/// A place of a table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// The bucket.
    pub bucket: usize,
    /// The position within the bucket.
    pub position: usize,
}

impl Place {
    /// Index over all buckets.
    pub(super) fn index(self) -> usize {
        self.bucket * BUCKET_SIZE + self.position
    }
}

/// The secret key of all places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Key(pub(super) [u8; 32]);

/// Input of the hash, in Core's serialization.
struct Hashed(Vec<u8>);

impl Hashed {
    fn of(key: &Key) -> Hashed {
        let mut bytes = Vec::with_capacity(96);
        bytes.extend_from_slice(&key.0);
        Hashed(bytes)
    }

    fn then(mut self, bytes: &[u8]) -> Hashed {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends the length of `bytes`, which is below 253, and then the bytes.
    fn then_sized(mut self, bytes: &[u8]) -> Hashed {
        self.0.push(u8::try_from(bytes.len()).expect("a short one"));
        self.then(bytes)
    }

    /// Address and port. Source: Core's `CService::GetKey`.
    fn then_peer(self, peer: &PeerAddress) -> Hashed {
        let mut bytes = match peer.address {
            NetAddress::V4(v4) => [&[0; 10][..], &[0xff; 2], &v4].concat(),
            other => other.bytes().to_vec(),
        };
        bytes.extend_from_slice(&peer.port.to_be_bytes());
        self.then_sized(&bytes)
    }

    fn cheap(self) -> u64 {
        let hash = sha256d(&self.0);
        u64::from_le_bytes(*hash.first_chunk().expect("32 bytes"))
    }

    /// The hash modulo `count`.
    fn below(self, count: usize) -> usize {
        usize::try_from(self.cheap() % count as u64).expect("below a small number")
    }
}

impl Key {
    pub(super) fn position(&self, table: Table, bucket: usize, peer: &PeerAddress) -> Place {
        let letter = match table {
            Table::New => b'N',
            Table::Tried => b'K',
        };
        let number = u32::try_from(bucket).expect("a few buckets");
        let hashed = Hashed::of(self).then(&[letter]).then(&number.to_le_bytes()).then_peer(peer);
        Place { bucket, position: hashed.below(BUCKET_SIZE) }
    }

    pub(super) fn new_bucket(&self, peer: &PeerAddress, source: NetAddress, groups: &NetGroups) -> usize {
        let source = groups.group(source);
        let group = groups.group(peer.address);
        let lane = Hashed::of(self).then_sized(group.bytes()).then_sized(source.bytes()).cheap();
        let lane = lane % BUCKETS_PER_SOURCE_GROUP;
        Hashed::of(self).then_sized(source.bytes()).then(&lane.to_le_bytes()).below(NEW_BUCKET_COUNT)
    }

    /// The place of a new address from this source.
    pub(super) fn new_place(&self, peer: &PeerAddress, source: NetAddress, groups: &NetGroups) -> Place {
        self.position(Table::New, self.new_bucket(peer, source, groups), peer)
    }

    /// The place of a tried address.
    pub(super) fn tried_place(&self, peer: &PeerAddress, groups: &NetGroups) -> Place {
        let lane = Hashed::of(self).then_peer(peer).cheap() % BUCKETS_PER_GROUP;
        let group = groups.group(peer.address);
        let hashed = Hashed::of(self).then_sized(group.bytes()).then(&lane.to_le_bytes());
        self.position(Table::Tried, hashed.below(TRIED_BUCKET_COUNT), peer)
    }
}
