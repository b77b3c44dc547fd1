//! peers.dat: the address memory in Core's format, so that each program can use the other's file.
//!
//! Contents: format u8 | 32 + lowest format that a reader has to know u8 | key [u8; 32] | new count i32 | tried count i32
//!           | buckets xor 2^30 i32 | entries, new then tried | buckets | version of the map [u8; 32]
//! Entry:    address | source (network address) | last success i64 | attempts i32
//! Bucket:   count i32 | numbers of new entries i32
//!
//! Source: Bitcoin Core b88bffe, `AddrManImpl::Serialize` and `Unserialize`: formats 0 to 4 are read, 4 is written.
//! The frame is that of `super::disk_form`. Absent on purpose: the file itself.

use super::disk_form::{Fault, Form, Source, begin, end, put_address, put_net_address, stream};
use super::{
    Addresses, BUCKET_SIZE, BUCKETS_PER_ADDRESS, Entry, Id, Key, NEW_BUCKET_COUNT, Place, TRIED_BUCKET_COUNT, Table,
};
use std::collections::HashMap;
use std::fmt;

/// Its name, in the directory of the network.
pub const PEERS: &str = "peers.dat";
/// Largest file that is read: 81,920 entries of 110 bytes have 9 MB.
pub const PEERS_BYTES_MAX: usize = 32 << 20;
/// The format that is written, and that a reader has to know.
const FORMAT: u8 = 4;
/// First format with a version of the map after the buckets.
const FORMAT_WITH_MAP: u8 = 2;
/// First format with addresses as in BIP155.
const FORMAT_BIP155: u8 = 3;
const INCOMPATIBILITY_BASE: u8 = 32;
/// Makes the number of buckets invalid for readers of the oldest format.
const BUCKETS_MASK: i32 = 1 << 30;

/// Why bytes are not a valid address memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PeersFileError {
    /// Written by a later version: the file is kept under another name.
    Version(String),
    /// Damaged.
    Damaged(String),
}

impl fmt::Display for PeersFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (PeersFileError::Version(why) | PeersFileError::Damaged(why)) = self;
        f.write_str(why)
    }
}

impl std::error::Error for PeersFileError {}

impl From<Fault> for PeersFileError {
    fn from(why: Fault) -> PeersFileError {
        PeersFileError::Damaged(why)
    }
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&i32::try_from(count).expect("bounded by the tables").to_le_bytes());
}

fn put_entry(out: &mut Vec<u8>, entry: &Entry) {
    put_address(out, &entry.told());
    put_net_address(out, entry.source);
    out.extend_from_slice(&entry.last_success.to_le_bytes());
    out.extend_from_slice(&entry.attempts.to_le_bytes());
}

impl Addresses {
    /// Serializes the memory.
    pub fn to_bytes(&self, magic: [u8; 4]) -> Vec<u8> {
        let mut out = begin(magic);
        out.extend_from_slice(&[FORMAT, INCOMPATIBILITY_BASE + FORMAT]);
        out.extend_from_slice(&self.key.0);
        put_count(&mut out, self.count_in(Table::New, None));
        put_count(&mut out, self.count_in(Table::Tried, None));
        let buckets = i32::try_from(NEW_BUCKET_COUNT).expect("1024") ^ BUCKETS_MASK;
        out.extend_from_slice(&buckets.to_le_bytes());
        let mut numbers: HashMap<Id, usize> = HashMap::new();
        for (id, entry) in self.entries.iter().filter(|(_, entry)| !entry.is_tried) {
            numbers.insert(*id, numbers.len());
            put_entry(&mut out, entry);
        }
        self.entries.values().filter(|entry| entry.is_tried).for_each(|entry| put_entry(&mut out, entry));
        for bucket in self.new.chunks_exact(BUCKET_SIZE) {
            put_count(&mut out, bucket.iter().flatten().count());
            bucket.iter().flatten().for_each(|id| put_count(&mut out, numbers[id]));
        }
        out.extend_from_slice(&self.groups.version());
        end(out)
    }

    /// Reads a file that [`Addresses::to_bytes`] or Core wrote into this memory, which must be empty; its groups
    /// stay.
    ///
    /// # Errors
    ///
    /// See [`PeersFileError`]. The bytes are untrusted: no input panics. On an error the memory must not be used.
    pub fn read(mut self, bytes: &[u8], magic: [u8; 4]) -> Result<Addresses, PeersFileError> {
        let mut source = Source::new(bytes, magic)?;
        let format = source.u8()?;
        let form = if format >= FORMAT_BIP155 { Form::Bip155 } else { Form::Old };
        let lowest = lowest_format(source.u8()?)?;
        if lowest > FORMAT {
            return Err(PeersFileError::Version(format!(
                "Unsupported format of addrman database: {format}. It is compatible with formats >={lowest}, but the maximum \
                 supported by this version of ffwd is {FORMAT}."
            )));
        }
        self.key = Key(source.array()?);
        let new = source.i32()?;
        let tried = source.i32()?;
        let mask = if format >= 1 { BUCKETS_MASK } else { 0 };
        let buckets = source.i32()? ^ mask;
        let new = bounded("nNew", new, NEW_BUCKET_COUNT * BUCKET_SIZE)?;
        let tried = bounded("nTried", tried, TRIED_BUCKET_COUNT * BUCKET_SIZE)?;
        let ids = self.read_new(&mut source, new, form)?;
        self.read_tried(&mut source, tried, form)?;
        let places = read_buckets(&mut source, buckets, &ids)?;
        let version = if format >= FORMAT_WITH_MAP { source.array()? } else { [0; 32] };
        let is_same = usize::try_from(buckets) == Ok(NEW_BUCKET_COUNT) && version == self.groups.version();
        self.put_in_buckets(&places, is_same);
        for id in ids {
            if self.entries[&id].new_count == 0 {
                self.delete(id);
            }
        }
        if let Some(code) = self.check() {
            return Err(stream(&format!("Corrupt data. Consistency check failed with code {code}")).into());
        }
        source.finish()?;
        Ok(self)
    }

    /// A file with these contents, for `fuzz::fuzz_codec`.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn file_of(contents: &[u8], magic: [u8; 4]) -> Vec<u8> {
        let mut out = begin(magic);
        out.extend_from_slice(contents);
        end(out)
    }

    fn read_entry(source: &mut Source<'_>, form: Form) -> Result<Entry, Fault> {
        let told = source.address(form)?;
        let from = source.net_address(form)?;
        let last_success = source.i64()?;
        Ok(Entry { last_success, attempts: source.i32()?, ..Entry::new(&told, from) })
    }

    /// The new entries, in no bucket yet.
    fn read_new(&mut self, source: &mut Source<'_>, count: usize, form: Form) -> Result<Vec<Id>, Fault> {
        (0..count).map(|_| Ok(self.create(Addresses::read_entry(source, form)?))).collect()
    }

    /// Reads the tried entries; those that are not valid, or whose place is occupied, are dropped.
    fn read_tried(&mut self, source: &mut Source<'_>, count: usize, form: Form) -> Result<(), Fault> {
        for _ in 0..count {
            let entry = Addresses::read_entry(source, form)?;
            let place = self.key.tried_place(&entry.peer, &self.groups).index();
            if !entry.peer.address.is_valid() || self.tried[place].is_some() {
                continue;
            }
            let network = entry.network();
            let id = self.create(Entry { is_tried: true, ..entry });
            self.put(Table::Tried, place, Some(id));
            self.counts[network].new -= 1;
            self.counts[network].tried += 1;
        }
        Ok(())
    }

    /// Puts new entries into the places of the file; if that is impossible, into the place for their first source.
    fn put_in_buckets(&mut self, places: &[(usize, Id)], is_same: bool) {
        for (bucket, id) in places {
            let Entry { peer, source, new_count, .. } = self.entries[id];
            if !peer.address.is_valid() || new_count >= BUCKETS_PER_ADDRESS {
                continue;
            }
            let was = is_same.then(|| self.key.position(Table::New, *bucket, &peer));
            let free = was.filter(|place: &Place| self.new[place.index()].is_none());
            let place = free.unwrap_or_else(|| self.key.new_place(&peer, source, &self.groups));
            if self.new[place.index()].is_none() {
                self.put(Table::New, place.index(), Some(*id));
                self.of(*id).new_count += 1;
            }
        }
    }
}

/// The lowest format that a reader must support.
fn lowest_format(compat: u8) -> Result<u8, Fault> {
    compat.checked_sub(INCOMPATIBILITY_BASE).ok_or_else(|| {
        stream(&format!(
            "Corrupted addrman database: The compat value ({compat}) is lower than the expected minimum value \
             {INCOMPATIBILITY_BASE}."
        ))
    })
}

fn bounded(name: &str, count: i32, most: usize) -> Result<usize, Fault> {
    let fits = usize::try_from(count).ok().filter(|count| *count <= most);
    fits.ok_or_else(|| stream(&format!("Corrupt AddrMan serialization: {name}={count}, should be in [0, {most}]")))
}

/// Reads which bucket has which entries. Each count and number takes bytes of the file, so both loops end with it.
fn read_buckets(source: &mut Source<'_>, buckets: i32, ids: &[Id]) -> Result<Vec<(usize, Id)>, Fault> {
    let mut places = Vec::new();
    for bucket in 0..usize::try_from(buckets).unwrap_or(0) {
        for _ in 0..source.i32()?.max(0) {
            let number = usize::try_from(source.i32()?).ok();
            if let Some(id) = number.and_then(|number| ids.get(number)) {
                places.push((bucket, *id));
            }
        }
    }
    Ok(places)
}
