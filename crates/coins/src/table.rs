//! One shard of one generation: a flat table of buckets over packed records.
//!
//! A bucket is one cache line: twelve tags, twelve record addresses, and the number of its coins that are in later
//! buckets. A look-up costs one cache miss for the bucket and one for the record; both are prefetched.
//!
//! An outpoint may have several records: tombstones, and a coin that was created again. Records are stored in chunks
//! (`chunks`), which define addresses. The hash is keyed, because txids can be ground.

use crate::chunks::{Chunks, PAGE_BYTES};
use crate::record::{
    COIN_BYTES_AT, FLAGS_AT, FRESH, TOMBSTONE, TXID_AT, VOUT_AT, is_dead, key_of, record_bytes, stored_of, vout_of,
};
use crate::walk;
#[cfg(feature = "ablation")]
use crate::{apart::Apart, record::APART, record::apart_of};
use kernels::Kernels;
use kernels::bucket::{Bucket, Buckets, PLACES};
#[cfg(feature = "ablation")]
use kernels::ideas::Idea;
use primitives::OutPoint;
use primitives::encode::{Reader, copy_short, varint_bytes, write_varint};

/// A table grows if more than this part of its places is in use: 27 / 32.
const LOAD_MAX: (usize, usize) = (27, 32);
const BUCKETS_MIN: usize = 4;
/// Prefetch distance of a walk in key order, in records.
const RECORDS_AHEAD: usize = 8;

/// Secret key of one run, so that txids cannot be ground to share a bucket.
#[derive(Clone, Copy, Debug)]
pub struct HashKey(pub [u64; 4]);

/// An outpoint with its hash: 32 bytes of txid, vout.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    txid: &'a [u8; 32],
    vout: u32,
    hash: u64,
}

impl<'a> Key<'a> {
    /// Hashes an outpoint.
    #[inline]
    pub fn new(secret: &HashKey, txid: &'a [u8; 32], vout: u32) -> Key<'a> {
        let word = |at: usize| u64::from_le_bytes(*txid[at..].first_chunk().expect("8 of 32 bytes"));
        let [k0, k1, k2, k3] = secret.0;
        // Two folded multiplications; the second spreads the outputs of one transaction.
        let a = fold(word(8) ^ k0, word(16) ^ k1) ^ word(24);
        let hash = fold(a ^ k2, (u64::from(vout) << 1 | 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ k3);
        Key { txid, vout, hash }
    }

    /// [`Key::new`] for an outpoint.
    #[inline]
    pub fn of(secret: &HashKey, outpoint: &'a OutPoint) -> Key<'a> {
        Key::new(secret, outpoint.txid.as_bytes(), outpoint.vout)
    }

    /// The hash of the outpoint.
    #[inline]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The tag, 1 to 255.
    #[inline]
    fn tag(&self) -> u8 {
        ((self.hash as u32 as u64 * 255) >> 32) as u8 + 1
    }

    #[inline]
    fn bucket(&self, buckets: usize) -> usize {
        (((self.hash >> 32) * buckets as u64) >> 32) as usize
    }
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

/// A generation's change of a coin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change<'a> {
    /// It exists, with these bytes.
    Put(&'a [u8]),
    /// It is deleted.
    Delete,
}

/// Result of a look-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// A coin, with its place.
    Coin(TablePlace),
    /// A tombstone, with its place.
    Tombstone(TablePlace),
    /// No record.
    Nothing,
}

/// The place of a record in a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TablePlace {
    bucket: u32,
    slot: u8,
    address: u32,
}

/// One shard of one generation.
pub struct Table {
    buckets: Buckets,
    count: usize,
    chunks: Chunks,
    kernels: Kernels,
    #[cfg(feature = "ablation")]
    apart: Apart,
    /// Staggers the growth of shards, so that they never all grow at once.
    stagger: usize,
    /// Number of records for which space is allocated with the first record.
    expected: usize,
}

impl Table {
    /// An empty table; `shard` only staggers its growth.
    pub fn new(shard: usize) -> Table {
        Table::with_expected(shard, 0, Kernels::AUTO)
    }

    /// An empty table for an expected number of records: growing would read all of them each time. It allocates nothing
    /// before the first record.
    pub fn with_expected(shard: usize, expected: usize, kernels: Kernels) -> Table {
        Table {
            buckets: kernels.buckets(0),
            count: 0,
            chunks: Chunks::new(kernels),
            kernels,
            #[cfg(feature = "ablation")]
            apart: Apart::default(),
            stagger: shard % 16,
            expected,
        }
    }

    /// Records, tombstones included.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether it has no records.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes allocated for buckets and records.
    pub fn memory_bytes(&self) -> usize {
        let bytes = (self.buckets.len() * size_of::<Bucket>()).next_multiple_of(PAGE_BYTES) + self.chunks.bytes();
        #[cfg(feature = "ablation")]
        let bytes = bytes + self.apart.bytes();
        bytes
    }

    /// Prefetches the bucket of a key.
    #[inline]
    pub fn prefetch_bucket(&self, key: &Key<'_>) {
        if !self.buckets.is_empty() {
            self.kernels.prefetch(&self.buckets, key.bucket(self.buckets.len()));
        }
    }

    /// Prefetches the records that a key may have in its own bucket: usually one.
    #[inline]
    pub fn prefetch_record(&self, key: &Key<'_>) {
        if self.buckets.is_empty() {
            return;
        }
        let bucket = &self.buckets[key.bucket(self.buckets.len())];
        let mut places = bucket.match_tag(key.tag());
        while places != 0 {
            self.chunks.prefetch(bucket.offsets[places.trailing_zeros() as usize], 0, 64);
            places &= places - 1;
        }
    }

    /// Prefetches the list of chunks, which every look-up of a record reads, before many operations.
    #[inline]
    pub fn prefetch_chunks(&self) {
        self.chunks.prefetch_list();
    }

    /// Finds a coin or its tombstone; if there are both, the coin.
    #[inline]
    pub fn find(&self, key: &Key<'_>) -> Found {
        match self.find_where(key, |_| true) {
            Found::Tombstone(place) => match self.find_where(key, |record| !is_dead(record)) {
                Found::Nothing => Found::Tombstone(place),
                coin => coin,
            },
            found => found,
        }
    }

    /// Finds the tombstone of a coin with these bytes, not one that was inserted without a coin.
    pub fn find_spent(&self, key: &Key<'_>, coin: &[u8]) -> Found {
        self.find_where(key, |record| is_dead(record) && self.coin_of(record) == coin)
    }

    /// Finds the tombstone of a coin with another code.
    pub fn find_spent_other(&self, key: &Key<'_>, code: u32) -> Found {
        let is_other = |record: &[u8]| !self.coin_of(record).is_empty() && self.code_of(record) != Ok(code);
        self.find_where(key, |record| is_dead(record) && is_other(record))
    }

    /// Finds a record of the outpoint that satisfies `accept`.
    #[inline]
    fn find_where(&self, key: &Key<'_>, accept: impl Fn(&[u8]) -> bool) -> Found {
        if self.buckets.is_empty() {
            return Found::Nothing;
        }
        let mut at = key.bucket(self.buckets.len());
        let tag = key.tag();
        for _ in 0..self.buckets.len() {
            let bucket = &self.buckets[at];
            let mut places = bucket.match_tag(tag);
            while places != 0 {
                let slot = places.trailing_zeros() as usize;
                let address = bucket.offsets[slot];
                let record = self.record(address);
                if is_of(record, key) && accept(record) {
                    let place = TablePlace { bucket: at as u32, slot: slot as u8, address };
                    return if is_dead(record) { Found::Tombstone(place) } else { Found::Coin(place) };
                }
                places &= places - 1;
            }
            if bucket.overflow == 0 {
                break;
            }
            at = if at + 1 == self.buckets.len() { 0 } else { at + 1 };
        }
        Found::Nothing
    }

    /// The coin at a place.
    #[inline]
    pub fn coin(&self, place: TablePlace) -> &[u8] {
        self.coin_of(self.record(place.address))
    }

    /// Whether the coin at a place is in no older generation and no table.
    #[inline]
    pub fn is_fresh(&self, place: TablePlace) -> bool {
        self.record(place.address)[FLAGS_AT] & FRESH != 0
    }

    /// Prefetches the place of a new record, if `behind` bytes of records are added before it. Returns the bytes that
    /// the record uses.
    #[inline]
    pub fn prefetch_room(&self, behind: usize, coin: &[u8]) -> usize {
        self.chunks.prefetch_room(behind, VOUT_AT + 1 + coin.len())
    }

    /// Adds a coin. The outpoint must have no record here, unless a second one is intended.
    #[inline]
    pub fn insert(&mut self, secret: &HashKey, key: &Key<'_>, fresh: bool, coin: &[u8]) {
        self.insert_coin(secret, key, if fresh { FRESH } else { 0 }, coin);
    }

    /// Adds a coin, given by its stored bytes, that is not fresh.
    pub fn insert_stored(&mut self, secret: &HashKey, key: &Key<'_>, coin: &[u8]) {
        self.insert_coin(secret, key, 0, coin);
    }

    #[inline]
    fn insert_coin(&mut self, secret: &HashKey, key: &Key<'_>, flags: u8, coin: &[u8]) {
        #[cfg(feature = "ablation")]
        if self.kernels.lacks(Idea::PackedCoins) {
            let number = self.apart.put(coin);
            return self.insert_bytes(secret, key, flags | APART, &number.to_le_bytes());
        }
        self.insert_bytes(secret, key, flags, coin);
    }

    /// Adds a tombstone.
    #[inline]
    pub fn insert_tombstone(&mut self, secret: &HashKey, key: &Key<'_>) {
        self.insert_bytes(secret, key, TOMBSTONE, &[]);
    }

    #[inline]
    fn insert_bytes(&mut self, secret: &HashKey, key: &Key<'_>, flags: u8, coin: &[u8]) {
        if (self.count + 1) * LOAD_MAX.1 > self.buckets.len() * PLACES * LOAD_MAX.0 {
            self.grow(secret);
        }
        let bytes = VOUT_AT + varint_bytes(u64::from(key.vout)) + coin.len();
        let address = self.chunks.allocate(bytes);
        let record = &mut self.chunks.record_mut(address)[..bytes];
        record[FLAGS_AT] = flags;
        record[COIN_BYTES_AT..TXID_AT].copy_from_slice(&(coin.len() as u16).to_le_bytes());
        record[TXID_AT..VOUT_AT].copy_from_slice(&key.txid[1..]);
        let vout_bytes = write_varint(&mut record[VOUT_AT..], u64::from(key.vout));
        copy_short(&mut record[VOUT_AT + vout_bytes..], coin);
        put(&mut self.buckets, key, address);
        self.count += 1;
    }

    /// Turns the coin at a place into a tombstone; its bytes are kept, so that [`Table::unmark_spent`] can undo it.
    #[inline]
    pub fn mark_spent(&mut self, place: TablePlace) {
        self.chunks.record_mut(place.address)[FLAGS_AT] |= TOMBSTONE;
    }

    /// Undoes [`Table::mark_spent`].
    pub fn unmark_spent(&mut self, place: TablePlace) {
        self.chunks.record_mut(place.address)[FLAGS_AT] &= !TOMBSTONE;
    }

    /// Removes the record at a place; `key` must be the key that found it.
    #[inline]
    pub fn remove(&mut self, key: &Key<'_>, place: TablePlace) {
        let buckets = self.buckets.len();
        let mut at = key.bucket(buckets);
        while at != place.bucket as usize {
            // An item in a later bucket no longer counts; a saturated counter stays saturated.
            let overflow = &mut self.buckets[at].overflow;
            *overflow -= u16::from(*overflow != u16::MAX);
            at = if at + 1 == buckets { 0 } else { at + 1 };
        }
        self.buckets[at].tags[usize::from(place.slot)] = kernels::bucket::EMPTY;
        self.count -= 1;
        let record = self.record(place.address);
        let bytes = record_bytes(record);
        #[cfg(feature = "ablation")]
        if let Some(number) = apart_of(record) {
            self.apart.release(number);
        }
        self.chunks.release(place.address, bytes);
    }

    /// Removes the unspent coin of this outpoint with this code; returns whether there was one.
    pub fn remove_created(&mut self, key: &Key<'_>, code: u32) -> bool {
        let place = match self.find_where(key, |record| !is_dead(record) && self.code_of(record) == Ok(code)) {
            Found::Coin(place) => place,
            Found::Tombstone(_) | Found::Nothing => return false,
        };
        self.remove(key, place);
        true
    }

    /// All changes of this table in key order: 31 bytes of txid and VARINT vout, and the change of the coin. For an
    /// outpoint with several records the unspent coin counts.
    pub fn sorted(&self) -> impl ExactSizeIterator<Item = (&[u8], Change<'_>)> {
        let order = walk::by_key(&self.buckets, &self.chunks, self.count);
        (0..order.len()).map(move |at| {
            if let Some(ahead) = order.get(at + RECORDS_AHEAD) {
                self.chunks.prefetch(*ahead, 0, 64);
            }
            let record = self.record(order[at]);
            (key_of(record), self.change_of(record))
        })
    }

    /// All records in any order: key and change as in [`Table::sorted`]. An outpoint with several records occurs
    /// several times.
    pub fn for_each<'a>(&'a self, mut each: impl FnMut(&'a [u8], Change<'a>)) {
        walk::each(&self.buckets, &self.chunks, |address| {
            let record = self.record(address);
            each(key_of(record), self.change_of(record));
        });
    }

    fn change_of<'a>(&'a self, record: &'a [u8]) -> Change<'a> {
        if is_dead(record) { Change::Delete } else { Change::Put(self.coin_of(record)) }
    }

    #[inline]
    fn coin_of<'a>(&'a self, record: &'a [u8]) -> &'a [u8] {
        #[cfg(feature = "ablation")]
        if let Some(number) = apart_of(record) {
            return self.apart.coin(number);
        }
        stored_of(record)
    }

    /// The code of a record's coin (height and coinbase flag).
    fn code_of(&self, record: &[u8]) -> Result<u32, primitives::DecodeError> {
        Reader::new(self.coin_of(record)).varint_u32()
    }

    /// The record at an address, and the bytes after it in its chunk.
    #[inline]
    fn record(&self, address: u32) -> &[u8] {
        self.chunks.record(address)
    }

    fn grow(&mut self, secret: &HashKey) {
        let buckets = match self.buckets.len() {
            0 if self.expected * LOAD_MAX.1 > BUCKETS_MIN * PLACES * LOAD_MAX.0 => {
                (self.expected * LOAD_MAX.1).div_ceil(PLACES * LOAD_MAX.0)
            }
            0 => BUCKETS_MIN * (16 + self.stagger) / 16,
            have => have * 2,
        };
        let mut wider = self.kernels.buckets(buckets);
        walk::each(&self.buckets, &self.chunks, |address| {
            let record = self.record(address);
            let mut txid = [0; 32];
            txid[1..].copy_from_slice(&record[TXID_AT..VOUT_AT]);
            put(&mut wider, &Key::new(secret, &txid, vout_of(record)), address);
        });
        self.buckets = wider;
    }
}

/// Stores an address in the first bucket with room, starting at the key's own.
#[inline]
fn put(buckets: &mut Buckets, key: &Key<'_>, address: u32) {
    let count = buckets.len();
    let mut at = key.bucket(count);
    loop {
        let bucket = &mut buckets[at];
        let empty = bucket.match_empty();
        if empty != 0 {
            let slot = empty.trailing_zeros() as usize;
            bucket.tags[slot] = key.tag();
            bucket.offsets[slot] = address;
            return;
        }
        bucket.overflow = bucket.overflow.saturating_add(1);
        at = if at + 1 == count { 0 } else { at + 1 };
    }
}

/// Whether a record has this key. Bytes after the vout do not matter: a VARINT is self-delimiting.
#[inline]
fn is_of(record: &[u8], key: &Key<'_>) -> bool {
    record[TXID_AT..VOUT_AT] == key.txid[1..] && vout_of(record) == key.vout
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const SECRET: HashKey = HashKey([1, 2, 3, 4]);

    fn txid(n: u64) -> [u8; 32] {
        kernels::sha256::sha256(&n.to_le_bytes())
    }

    /// Random inserts, burials, removals: the table holds what a plain map holds, at every size.
    #[test]
    fn table_agrees_with_plain_map() {
        check_against_plain_map(Table::new(3));
        #[cfg(feature = "ablation")]
        check_against_plain_map(Table::with_expected(3, 0, Kernels::AUTO.without(&[Idea::PackedCoins])));
    }

    fn check_against_plain_map(mut table: Table) {
        let mut plain: BTreeMap<(Vec<u8>, u32), Option<Vec<u8>>> = BTreeMap::new();
        let mut rng = testkit::Rng::new(7);
        for step in 0..60_000u64 {
            let seed = rng.u64();
            let id = txid(seed >> 50);
            let vout = [0, 1, 127, 128, 16_511, 16_512, u32::MAX][(seed >> 20) as usize % 7];
            let key = Key::new(&SECRET, &id, vout);
            let name = (id[1..].to_vec(), vout);
            match (table.find(&key), plain.get(&name)) {
                (Found::Nothing, None) => {
                    let coin = vec![step as u8; 1 + (seed >> 40) as usize % 90];
                    if seed >> 33 & 7 == 0 {
                        table.insert_tombstone(&SECRET, &key);
                        plain.insert(name, None);
                    } else {
                        table.insert(&SECRET, &key, true, &coin);
                        plain.insert(name, Some(coin));
                    }
                }
                (Found::Coin(place), Some(Some(coin))) => {
                    assert_eq!(table.coin(place), coin);
                    if seed >> 33 & 1 == 0 {
                        table.remove(&key, place);
                        plain.remove(&name);
                    } else {
                        table.mark_spent(place);
                        plain.insert(name, None);
                    }
                }
                (Found::Tombstone(place), Some(None)) => {
                    table.remove(&key, place);
                    plain.remove(&name);
                }
                (got, want) => panic!("step {step}: {got:?}, want {want:?}"),
            }
            assert_eq!(table.len(), plain.len());
        }
        let own = |(key, change): (&[u8], Change<'_>)| {
            (key.to_vec(), if let Change::Put(coin) = change { Some(coin.to_vec()) } else { None })
        };
        let got: Vec<(Vec<u8>, Option<Vec<u8>>)> = table.sorted().map(own).collect();
        let mut unsorted = Vec::new();
        table.for_each(|key, change| unsorted.push(own((key, change))));
        unsorted.sort();
        assert_eq!(got, unsorted);
        let mut want: Vec<(Vec<u8>, Option<Vec<u8>>)> = plain
            .into_iter()
            .map(|((mut key, vout), coin)| {
                primitives::encode::put_varint(&mut key, u64::from(vout));
                (key, coin)
            })
            .collect();
        want.sort();
        assert_eq!(got, want);
    }

    /// Room for what is expected: nothing before the first record, and then no growth up to that number.
    #[test]
    fn table_with_expected_records_grows_behind_them_alone() {
        for expected in [0, 1, 40, 41, 1000, 5000] {
            let mut table = Table::with_expected(2, expected, Kernels::AUTO);
            assert_eq!(table.memory_bytes(), 0);
            let mut lengths = Vec::new();
            for n in 0..3 * expected.max(50) as u64 {
                table.insert_stored(&SECRET, &Key::new(&SECRET, &txid(n), 0), &[1, 2, 3]);
                lengths.push(table.buckets.len());
            }
            assert!(expected < 41 || lengths[0] == lengths[expected - 1], "{expected}: {:?}", lengths[0]);
            assert!(lengths.last() > lengths.first(), "{expected}");
            assert_eq!(table.len(), lengths.len());
        }
    }

    /// One bucket that everything belongs to: overflow counts go up and down again.
    #[test]
    fn table_removal_clears_overflow_counts() {
        let mut table = Table::new(0);
        let ids: Vec<[u8; 32]> = (0..2000).map(txid).collect();
        for id in &ids {
            table.insert_stored(&SECRET, &Key::new(&SECRET, id, 0), &[1, 2, 3]);
        }
        for id in &ids {
            let key = Key::new(&SECRET, id, 0);
            let Found::Coin(place) = table.find(&key) else { panic!("lost") };
            table.remove(&key, place);
            assert_eq!(table.find(&key), Found::Nothing);
        }
        assert!(table.is_empty());
        assert!(table.buckets.iter().all(|bucket| bucket.overflow == 0 && bucket.match_empty() == 0xfff));
    }

    /// At most 90 bytes a coin at the worst fill, for the mix of a full chain.
    #[test]
    fn table_memory_per_coin_is_bounded() {
        let mut table = Table::new(5);
        let (mut worst, count) = (0.0f64, 40_000);
        for n in 0..count {
            let bytes = [23, 23, 35, 21, 21][n as usize % 5] + 3 + 4;
            table.insert(&SECRET, &Key::new(&SECRET, &txid(n), 0), true, &[9; 64][..bytes]);
            if n > 20_000 {
                worst = worst.max(table.memory_bytes() as f64 / (n + 1) as f64);
            }
        }
        assert!(worst < 90.0, "{worst} bytes a coin");
    }

    /// Coins of the longest scripts, of which a page or three hold few: little of their chunks is left over.
    #[test]
    fn table_of_long_coins_wastes_little() {
        for bytes in [5000, 9000, 10_000] {
            let (mut table, coin) = (Table::new(1), vec![9; bytes]);
            for n in 0..100 {
                table.insert(&SECRET, &Key::new(&SECRET, &txid(n), 0), true, &coin);
            }
            let most = 100 * (bytes + 36) * 118 / 100;
            assert!(table.memory_bytes() <= most, "{} bytes for {most}", table.memory_bytes());
        }
    }
}
