//! Block and undo files, by the positions in the index: presence, links, sizes, first and last records.

use super::databases::Indexed;
use super::{At, Files, Kind, Look, Swapped, fetched, read_through};
use primitives::{BlockHash, Height};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use store::blockfiles::Reason;
use store::index::{IndexEntry, LoadedIndex};
use store::layout::network_of_magic;
use store::{FaultKind, FilePos};

/// Bytes that are searched for records that the index does not name.
const LOOKED_BYTES: u64 = 8 << 20;

/// The records of one file that the index names, in the order of the file.
pub(super) type Records<'k> = Vec<&'k IndexEntry>;

/// Records by the number of their file.
pub(super) fn by_file(loaded: &LoadedIndex) -> BTreeMap<u32, Records<'_>> {
    let mut files: BTreeMap<u32, Records<'_>> = BTreeMap::new();
    for entry in &loaded.entries {
        if let Some(at) = entry.data() {
            files.entry(at.file).or_default().push(entry);
        }
    }
    files.values_mut().for_each(|records| records.sort_unstable_by_key(|entry| entry.data_offset));
    files
}

/// What exists at a path.
enum There {
    Nothing,
    /// A link without a target.
    Dangling(PathBuf),
    Unreadable(store::Fault),
    File {
        len: u64,
        raw: [u8; 4],
    },
}

/// A fault in the first bytes of a block file.
struct Begin {
    kind: Kind,
    what: String,
    seconds: u64,
}

/// Data that all findings about one block file share.
struct OfFile<'k> {
    number: u32,
    path: PathBuf,
    records: &'k Records<'k>,
    /// Size of the file by the index.
    size: u64,
}

impl OfFile<'_> {
    fn lowest(&self) -> Height {
        lowest(self.records)
    }

    /// "150 blocks, heights 300 to 449".
    fn words(&self) -> String {
        words(self.records)
    }
}

fn lowest(records: &[&IndexEntry]) -> Height {
    records.iter().map(|entry| entry.height).min().unwrap_or(Height::GENESIS)
}

fn words(records: &[&IndexEntry]) -> String {
    let highest = records.iter().map(|entry| entry.height).max().unwrap_or(Height::GENESIS);
    format!("{} blocks, heights {} to {highest}", records.len(), lowest(records))
}

impl Look<'_> {
    /// Checks all files that the index names, and all that exist.
    pub(super) fn block_files(&mut self, files: &Files, known: Option<&Indexed>) {
        let there = match files.blocks.numbers() {
            Ok(numbers) => numbers.there,
            Err(fault) => {
                self.fault(Kind::DirectoryMissing, &fault, At::ALL, 1);
                return;
            }
        };
        let Some(known) = known else {
            there.iter().for_each(|&number| self.unnamed_file(files, number));
            self.missing_numbers(files);
            return;
        };
        let named = by_file(&known.loaded);
        let file_of: HashMap<BlockHash, u32> =
            known.loaded.entries.iter().filter_map(|e| Some((e.hash, e.data()?.file))).collect();
        for (&number, records) in &named {
            let size = known.loaded.files.get(number as usize).map_or(0, |info| u64::from(info.size));
            let of_file = OfFile { number, path: files.blocks.path(number), records, size };
            self.block_file(files, &of_file, &file_of);
            self.undo_file(number, records, known);
        }
        if !self.is_beside && !known.loaded.is_reindexing {
            for number in there {
                self.not_indexed(files, number, named.get(&number).map_or(&[], |records| &records[..]), &known.loaded);
            }
        }
    }

    fn there(&self, path: &Path) -> There {
        let disk = &*self.options.disk;
        let read = || -> store::Result<There> {
            if disk.metadata(path)?.is_none() {
                return Ok(disk.read_link(path)?.map_or(There::Nothing, There::Dangling));
            }
            let file = disk.open(path)?;
            let mut raw = [0; 4];
            file.read_at(0, &mut raw)?;
            Ok(There::File { len: file.len()?, raw })
        };
        read().unwrap_or_else(There::Unreadable)
    }

    /// Whether a file cannot be read at all; if so, reports it.
    fn is_absent(&mut self, path: &Path, at: At, what: &str, missing: Kind, seconds: u64) -> Option<(u64, [u8; 4])> {
        match self.there(path) {
            There::File { len, raw } => return Some((len, raw)),
            There::Nothing => self.find(missing, path, at, what, seconds),
            There::Dangling(target) => {
                let what = format!("a link to {}, which is not there; {what}", target.display());
                self.find(Kind::DanglingLink, path, at, what, seconds);
            }
            There::Unreadable(fault) => self.fault(missing, &fault, at, seconds),
        }
        None
    }

    fn block_file(&mut self, files: &Files, of_file: &OfFile<'_>, file_of: &HashMap<BlockHash, u32>) {
        let OfFile { path, records, size, .. } = of_file;
        let at = At::height(of_file.lowest());
        let seconds = fetched(*size);
        let read = self.is_absent(path, at, &of_file.words(), Kind::BlockFileMissing, seconds);
        let Some((len, raw)) = read else { return };
        if let Some(Begin { kind, what, seconds }) = self.wrong_begin(files, raw, len, seconds) {
            self.find(kind, path, at, format!("{what}; {}", of_file.words()), seconds);
            return;
        }
        let beyond = records.partition_point(|entry| u64::from(entry.data_offset) < len);
        let first = self.is_record(files, records.first());
        let last = self.is_record(files, records[..beyond].last());
        if beyond < records.len() || (first && !last && self.is_cut(files, records[..beyond].last(), len)) {
            let whole = if last { beyond } else { beyond.saturating_sub(1) };
            self.cut(files, of_file, len, &records[whole..]);
        } else if !first && !last {
            self.replaced(files, of_file, file_of, seconds);
        } else {
            let ends = [(first, records.first()), (last, records.last())];
            for (_, entry) in ends.into_iter().filter(|(is_there, _)| !is_there) {
                entry.into_iter().for_each(|entry| {
                    self.damaged(path, entry, "the index names a block there, but there is no block")
                });
            }
        }
    }

    /// The fault of a file that begins with these bytes. `fetch_seconds`: time to fetch the blocks of this file.
    fn wrong_begin(&self, files: &Files, raw: [u8; 4], len: u64, fetch_seconds: u64) -> Option<Begin> {
        let chain = self.options.params.chain.name();
        let plain: [u8; 4] = std::array::from_fn(|i| raw[i] ^ files.key[i]);
        if let Some(other) = [raw, plain].into_iter().filter_map(network_of_magic).find(|&name| name != chain) {
            let what = format!("it begins with the magic of {other}");
            return Some(Begin { kind: Kind::BlockFileForeign, what, seconds: fetch_seconds });
        }
        let is_plain = raw == files.blocks.magic() && files.key[..4] != [0; 4];
        let what = "it begins with the plain magic".to_owned();
        is_plain.then(|| Begin { kind: Kind::BlockFilePlain, what, seconds: read_through(len) })
    }

    /// Whether the block of an entry is at the entry's position.
    fn is_record(&self, files: &Files, entry: Option<&&IndexEntry>) -> bool {
        let Some((at, entry)) = entry.and_then(|entry| Some((entry.data()?, entry))) else { return false };
        files.blocks.probe(at).ok().flatten().is_some_and(|found| found.hash == entry.hash)
    }

    /// Whether the record of an entry begins in the file but does not end in it.
    fn is_cut(&self, files: &Files, entry: Option<&&IndexEntry>, len: u64) -> bool {
        let Some(entry) = entry else { return false };
        let start = u64::from(entry.data_offset).saturating_sub(8);
        let Ok(head) = files.blocks.read_range(entry.file, start, 8) else { return false };
        let Some(size) = head.get(4..8) else { return true };
        let size = u32::from_le_bytes(size.try_into().expect("four bytes"));
        head[..4] == files.blocks.magic() && u64::from(entry.data_offset) + u64::from(size) > len
    }

    fn cut(&mut self, files: &Files, of_file: &OfFile<'_>, len: u64, lost: &[&IndexEntry]) {
        let OfFile { path, size, .. } = of_file;
        let kind = match len == 0 || !files.blocks.is_written(of_file.number, 0).unwrap_or(true) {
            true => Kind::BlockFileEmpty,
            false => Kind::BlockFileCut,
        };
        let what = format!("it has {len} bytes, where the index names {size}; {}", words(lost));
        let at = At { offset: Some(len), ..At::height(lowest(lost)) };
        self.find(kind, path, at, what, fetched(size.saturating_sub(len)));
    }

    /// Reports a file in which neither the first nor the last record is at its position.
    fn replaced(&mut self, files: &Files, of_file: &OfFile<'_>, file_of: &HashMap<BlockHash, u32>, seconds: u64) {
        let OfFile { number, path, .. } = of_file;
        let at = At::height(of_file.lowest());
        if !files.blocks.is_written(*number, 0).unwrap_or(true) {
            let what = format!("it begins with zeros; {}", of_file.words());
            self.find(Kind::BlockFileEmpty, path, at, what, seconds);
            return;
        }
        let first = files.blocks.probe(FilePos { file: *number, offset: 8 }).ok().flatten();
        let owner = first.and_then(|block| file_of.get(&block.hash)).filter(|owner| *owner != number);
        match owner {
            Some(&owner) => {
                let name = files.blocks.path(owner);
                let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let what = format!("it begins with a block of {name}; {}", of_file.words());
                self.find(Kind::BlockFileSwapped, path, at, what, 1);
                if let Some(found) = self.found.findings.last_mut().filter(|found| found.path == *path) {
                    found.swapped = Some(Swapped { number: *number, owner });
                }
            }
            None => self.find(Kind::BlockFileReplaced, path, at, of_file.words(), seconds),
        }
    }

    /// Reports a damaged block.
    pub(super) fn damaged(&mut self, path: &Path, entry: &IndexEntry, what: &str) {
        let at = At { offset: Some(u64::from(entry.data_offset)), height: Some(entry.height), hash: Some(entry.hash) };
        self.find(Kind::BlockDamaged, path, at, format!("block at height {}: {what}", entry.height), fetched(4 << 20));
    }

    fn undo_file(&mut self, number: u32, records: &Records<'_>, known: &Indexed) {
        let mut with_undo: Vec<&IndexEntry> = records.iter().copied().filter(|entry| entry.undo().is_some()).collect();
        let path = self.layout.undo_file(number);
        let seconds = read_through(known.block_bytes());
        let used = u64::from(known.loaded.files.get(number as usize).map_or(0, |info| info.undo_size));
        if with_undo.is_empty() && used == 0 {
            return;
        }
        let (at, what) = match with_undo.is_empty() {
            true => (At::ALL, "undo data of no block in use".to_owned()),
            false => (At::height(lowest(&with_undo)), format!("undo data of {}", words(&with_undo))),
        };
        let read = self.is_absent(&path, at, &what, Kind::UndoFileMissing, seconds);
        let Some((len, _)) = read else { return };
        with_undo.sort_unstable_by_key(|entry| entry.undo_offset);
        let beyond = with_undo.partition_point(|entry| u64::from(entry.undo_offset) < len);
        if beyond < with_undo.len() {
            let lost = &with_undo[beyond..];
            let what = format!("it has {len} bytes; undo data of {} is missing", words(lost));
            let at = At { offset: Some(len), ..At::height(lowest(lost)) };
            self.find(Kind::UndoFileCut, &path, at, what, seconds);
        } else if len < used {
            // What is behind is of no block in use, and undo data is appended behind that.
            let what = format!("it has {len} bytes, and the block index counts {used}");
            self.find(Kind::UndoFileCut, &path, At { offset: Some(len), ..At::ALL }, what, seconds);
        }
    }

    /// Reports records that the index does not name, after those that it names.
    fn not_indexed(&mut self, files: &Files, number: u32, records: &[&IndexEntry], loaded: &LoadedIndex) {
        let path = files.blocks.path(number);
        let of_file = [
            Kind::BlockFileForeign,
            Kind::BlockFilePlain,
            Kind::BlockFileSwapped,
            Kind::BlockFileReplaced,
            Kind::NotReadable,
            Kind::DanglingLink,
        ];
        if self.has(&of_file, &path) {
            return;
        }
        let size = loaded.files.get(number as usize).map_or(0, |info| u64::from(info.size));
        let looked = || -> store::Result<Option<String>> {
            let len = files.blocks.file_bytes(number)?;
            if len <= size || !files.blocks.is_written(number, size)? {
                return Ok(None);
            }
            let end = len.min(size + LOOKED_BYTES);
            let scan = files.blocks.scan_parts(number, std::slice::from_ref(&(size..end)))?;
            let is_split = scan.notes.iter().any(|note| note.reason == Reason::Split);
            let what = if is_split { ", of a chain whose headers have 164 bytes (Knots 29.4)" } else { "" };
            let blocks = scan.blocks.len();
            Ok(Some(format!("{} bytes behind byte {size}, {blocks} blocks in the first of them{what}", len - size)))
        };
        match looked() {
            Ok(None) => {}
            Ok(Some(what)) => {
                let at = At { offset: Some(size), ..At::ALL };
                let what = if records.is_empty() { format!("the index does not know the file: {what}") } else { what };
                self.find(Kind::NotIndexed, &path, at, what, 1);
            }
            Err(fault) if fault.kind() == FaultKind::Missing => self.dangling(&path),
            Err(fault) => self.fault(Kind::BlockFileReplaced, &fault, At::ALL, 1),
        }
    }

    /// Checks a file without an index: can it be read, and is it of this network.
    fn unnamed_file(&mut self, files: &Files, number: u32) {
        let path = files.blocks.path(number);
        match self.there(&path) {
            There::Nothing => {}
            There::Dangling(_) => self.dangling(&path),
            There::Unreadable(fault) => self.fault(Kind::BlockFileReplaced, &fault, At::ALL, 1),
            There::File { raw, len } => {
                if let Some(Begin { kind, what, seconds }) = self.wrong_begin(files, raw, len, fetched(len)) {
                    self.find(kind, &path, At::ALL, what, seconds);
                }
            }
        }
    }

    fn dangling(&mut self, path: &Path) {
        if let Ok(Some(target)) = self.options.disk.read_link(path) {
            let what = format!("a link to {}, which is not there", target.display());
            self.find(Kind::DanglingLink, path, At::ALL, what, 1);
        }
    }
}
