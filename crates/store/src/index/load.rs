//! Reads a whole block index, with the checks that Core makes when it loads one.
//!
//! Every entry decodes, its header meets its own nBits within the network's limit, its key is its hash, and its parent
//! exists at the height below. The genesis block is this network's. Source: facts of Bitcoin Core b88bffe,
//! `LoadBlockIndexGuts`, `BlockManager::LoadBlockIndex`, node/chainstate.cpp.

use super::record::split_height;
use super::{BLOCK_TRANSACTIONS_MAX, BlockTreeDb, ENTRY, FILE, IndexEntry, LAST_FILE, Status};
use crate::fault::{Fault, FaultKind, Result};
use crate::fileinfo::FileInfo;
use crate::layout::{FILE_NUMBER_MAX, Network};
use crate::record::Obfuscation;
use crate::xor::NO_KEY;
use primitives::header::HEADER_BYTES;
use primitives::{BlockHash, Height, Target};

/// Entries whose headers are hashed at a time.
const HASHED_AT_ONCE: usize = 1024;

/// A whole block index.
#[derive(Clone, Debug, Default)]
pub struct LoadedIndex {
    /// All entries; every parent precedes its children, because they are sorted by height, then hash.
    pub entries: Vec<IndexEntry>,
    /// File infos; the position is the number. Those that the index lacks are zero.
    pub files: Vec<FileInfo>,
    /// A reindex is unfinished.
    pub is_reindexing: bool,
    /// Block files were pruned.
    pub is_pruned: bool,
    /// Number of entries with an old form of the mark for invalid blocks, which was read as the new one.
    pub migrated_count: usize,
}

impl BlockTreeDb {
    /// Reads the whole index.
    ///
    /// # Errors
    ///
    /// [`FaultKind::OtherNetwork`] if its root is another genesis block; [`FaultKind::Damaged`] names the entry that is
    /// malformed, does not meet its target, or has no parent.
    pub fn load(&self, network: &Network) -> Result<LoadedIndex> {
        let mut loaded = LoadedIndex {
            is_reindexing: self.is_reindexing()?,
            is_pruned: self.is_pruned()?,
            files: self.load_files()?,
            ..LoadedIndex::default()
        };
        self.load_entries(network, &mut loaded)?;
        loaded.entries = sorted(loaded.entries);
        match without_parent(network, &loaded.entries) {
            Some(entry) => Err(self.no_parent(entry)),
            None => Ok(loaded),
        }
    }

    /// Reads the entry of one block, without its ancestors; `None` if it is not listed.
    ///
    /// # Errors
    ///
    /// Those of [`BlockTreeDb::load`], for this entry only.
    pub fn find(&self, network: &Network, hash: &BlockHash) -> Result<Option<IndexEntry>> {
        let key = [&[ENTRY], &hash.as_bytes()[..]].concat();
        let Some(value) = self.store.get(&key)? else { return Ok(None) };
        let mut entry = [self.decoded(&key, &value)?];
        self.check_headers(network, &mut entry, &mut vec![*hash])?;
        Ok(Some(entry[0]))
    }

    fn decoded(&self, key: &[u8], plain: &[u8]) -> Result<IndexEntry> {
        let entry = IndexEntry::decode(plain).map_err(|why| match split_height(plain) {
            Some(height) => self.of_the_split(height),
            None => self.store.bad_record(key, "a block index entry", why.to_string()),
        })?;
        check_numbers(&entry).map_err(|(wanted, found)| self.store.bad_record(key, wanted, found))?;
        Ok(entry)
    }

    fn load_entries(&self, network: &Network, loaded: &mut LoadedIndex) -> Result<()> {
        let mut records = self.store.db.snapshot().range(&[ENTRY], Some(&[ENTRY + 1]))?;
        let mut value = Vec::new();
        let mut keys = Vec::with_capacity(HASHED_AT_ONCE);
        while let Some((key, stored)) = records.next_record()? {
            // Core stops at the first key of another form.
            let Some(hash) = key.get(1..).and_then(|hash| <[u8; 32]>::try_from(hash).ok()) else { break };
            if loaded.entries.is_empty() && keys.is_empty() {
                self.check_genesis(network)?;
            }
            let plain =
                if self.store.key == NO_KEY { stored } else { plain(&mut value, stored, self.store.obfuscation()) };
            let mut entry = self.decoded(key, plain)?;
            if entry.status.has(Status::FAILED_CHILD) {
                entry.status = entry.status.without(Status::FAILED_CHILD).with(Status::FAILED_VALID);
                loaded.migrated_count += 1;
            }
            keys.push(BlockHash::from_bytes(hash));
            loaded.entries.push(entry);
            if keys.len() == HASHED_AT_ONCE {
                self.check_headers(network, &mut loaded.entries, &mut keys)?;
            }
        }
        self.check_headers(network, &mut loaded.entries, &mut keys)
    }

    /// The fault of an index with blocks of another chain than Bitcoin's.
    fn of_the_split(&self, height: Height) -> Fault {
        let found =
            format!("another chain, that of Knots 29.4.1, which has headers of 164 bytes, here at height {height}");
        let advice = "Knots 29.4.1 continues that chain. To return to Bitcoin's, run ffwd reindex, which keeps the blocks \
                      before the split, then ffwd sync";
        Fault::new(FaultKind::OtherForm, self.store.db.path(), "Bitcoin's chain", found, advice)
    }

    fn no_parent(&self, entry: &IndexEntry) -> Fault {
        let key = [&[ENTRY], &entry.hash.as_bytes()[..]].concat();
        let wanted = format!("a parent at the height below {}", entry.height);
        self.store.bad_record(&key, wanted, format!("no entry {}", entry.header.prev()))
    }

    /// Distinguishes another network's index from a damaged one.
    ///
    /// # Errors
    ///
    /// [`FaultKind::OtherNetwork`], a damaged table, or an I/O error.
    pub fn check_genesis(&self, network: &Network) -> Result<()> {
        if self.store.get(&[&[ENTRY], &network.genesis.as_bytes()[..]].concat())?.is_some() {
            return Ok(());
        }
        let wanted = format!("the genesis block {}", network.genesis);
        let found = "another network's blocks: Incorrect or no genesis block found. Wrong datadir for network?";
        let advice = "Name the right --datadir or --chain";
        Err(Fault::new(FaultKind::OtherNetwork, self.store.db.path(), wanted, found, advice))
    }

    /// Hashes the last `keys.len()` entries, whose database keys are `keys`, and checks them.
    fn check_headers(&self, network: &Network, entries: &mut [IndexEntry], keys: &mut Vec<BlockHash>) -> Result<()> {
        let from = entries.len() - keys.len();
        let headers: Vec<[u8; HEADER_BYTES]> = entries[from..].iter().map(|entry| entry.header.0).collect();
        let mut hashes = vec![[0; 32]; headers.len()];
        self.store.db.kernels().sha256d_80(&headers, &mut hashes);
        for ((entry, key), hash) in entries[from..].iter_mut().zip(keys.drain(..)).zip(hashes) {
            entry.hash = BlockHash::from_bytes(hash);
            let judged = match entry.hash == key {
                true => check_work(network, entry),
                false => Err(("the header that it is named after".to_owned(), format!("header {}", entry.hash))),
            };
            judged.map_err(|(wanted, found)| {
                self.store.bad_record(&[&[ENTRY], &key.as_bytes()[..]].concat(), wanted, found)
            })?;
        }
        Ok(())
    }

    /// All listed file infos, read as Core does: up to the last file, and on as long as more follow.
    fn load_files(&self) -> Result<Vec<FileInfo>> {
        let mut files: Vec<FileInfo> = Vec::new();
        let mut records = self.store.db.snapshot().range(&[FILE], Some(&[FILE + 1]))?;
        while let Some((key, stored)) = records.next_record()? {
            let Some(number) = key.get(1..).and_then(|number| <[u8; 4]>::try_from(number).ok()) else { continue };
            let number = u32::from_le_bytes(number);
            if number > FILE_NUMBER_MAX {
                let wanted = format!("a file number of at most {FILE_NUMBER_MAX}");
                return Err(self.store.bad_record(key, wanted, number.to_string()));
            }
            let mut value = stored.to_vec();
            self.store.obfuscation().apply(&mut value, 0);
            let info = FileInfo::decode(&value)
                .map_err(|why| self.store.bad_record(key, "a block file info", why.to_string()))?;
            files.resize(files.len().max(number as usize + 1), FileInfo::default());
            files[number as usize] = info;
        }
        let last = match self.store.get(LAST_FILE)? {
            None => 0,
            Some(value) => match <[u8; 4]>::try_from(&value[..]).map(u32::from_le_bytes) {
                Ok(last) if last <= FILE_NUMBER_MAX => last,
                _ => return Err(self.store.bad_record(LAST_FILE, "the last file's number", format!("{value:02x?}"))),
            },
        };
        if last > 0 {
            files.resize(files.len().max(last as usize + 1), FileInfo::default());
        }
        Ok(files)
    }
}

/// Checks the numbers of an entry. An error is a pair: expected and actual content.
pub(super) fn check_numbers(entry: &IndexEntry) -> std::result::Result<(), (String, String)> {
    if entry.file > FILE_NUMBER_MAX {
        return Err((format!("a file number of at most {FILE_NUMBER_MAX}"), entry.file.to_string()));
    }
    if entry.tx_count > BLOCK_TRANSACTIONS_MAX {
        let wanted = format!("at most {BLOCK_TRANSACTIONS_MAX} transactions in a block");
        return Err((wanted, entry.tx_count.to_string()));
    }
    Ok(())
}

/// Checks the proof of work of an entry whose hash is known. Errors as in [`check_numbers`].
pub(super) fn check_work(network: &Network, entry: &IndexEntry) -> std::result::Result<(), (String, String)> {
    match Target::from_compact(entry.header.bits()) {
        Some(target) if target <= network.pow_limit && target.is_met_by(&entry.hash) => Ok(()),
        _ => Err(("a header that meets its own nBits".to_owned(), format!("nBits {:08x}", entry.header.bits()))),
    }
}

/// Sorts by height, then hash. Entries come in the order of their hashes, and few heights have more than one.
pub(super) fn sorted(mut entries: Vec<IndexEntry>) -> Vec<IndexEntry> {
    let mut starts = vec![0u32; entries.len() + 1];
    for entry in &entries {
        match starts.get_mut(entry.height.to_usize() + 1) {
            Some(count) => *count += 1,
            // A height beyond the number of entries: a parent is missing, and the next check names it.
            None => {
                entries.sort_unstable_by_key(|entry| (entry.height, entry.hash));
                return entries;
            }
        }
    }
    for at in 1..starts.len() {
        starts[at] += starts[at - 1];
    }
    let mut order = vec![0u32; entries.len()];
    for (from, entry) in (0..).zip(&entries) {
        let to = &mut starts[entry.height.to_usize()];
        order[*to as usize] = from;
        *to += 1;
    }
    order.into_iter().map(|from| entries[from as usize]).collect()
}

/// The first entry that is not the genesis block and has no parent one height below. `entries` are sorted by height,
/// then hash.
pub(super) fn without_parent<'e>(network: &Network, entries: &'e [IndexEntry]) -> Option<&'e IndexEntry> {
    let mut below: &[IndexEntry] = &[];
    let mut rest = entries;
    while let Some(first) = rest.first() {
        let (level, above) = rest.split_at(rest.partition_point(|entry| entry.height == first.height));
        for entry in level {
            let prev = entry.header.prev();
            let is_linked =
                below.binary_search_by_key(&prev, |parent| parent.hash).is_ok() && below[0].height + 1 == entry.height;
            let is_root = entry.hash == network.genesis && entry.height == Height::GENESIS;
            if !is_linked && !is_root {
                return Some(entry);
            }
        }
        (below, rest) = (level, above);
    }
    None
}

/// `stored` without its obfuscation, decoded in `buffer`.
fn plain<'a>(buffer: &'a mut Vec<u8>, stored: &[u8], obfuscation: Obfuscation) -> &'a [u8] {
    buffer.clear();
    buffer.extend_from_slice(stored);
    obfuscation.apply(buffer, 0);
    buffer
}
