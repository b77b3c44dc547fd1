//! `xor.dat`: the 8-byte key that obfuscates every byte of every block and undo file.
//!
//! ```text
//! xor.dat   key [u8; 8], no length before it; the byte at offset p of a file is XORed with key[p % 8]
//! ```
//!
//! Core's rule: a stored key counts. If it is missing, Core makes a random key only if the blocks directory contains no
//! files except hidden ones. Otherwise it writes a zero key, because the existing files are taken to be plain. Before
//! ffwd writes that zero key it reads the block files: the key of obfuscated files can be computed (`work_out`). Absent
//! on purpose: changing a key. Source: facts of Bitcoin Core b88bffe, `InitBlocksdirXorKey` in node/blockstorage.cpp.

mod work_out;

use crate::fault::{Fault, FaultKind, Result};
use crate::layout::{self, Network};
use crate::private_files::write_whole;
use crate::record::Obfuscation;
use disk::{Disk, DiskFile};
use kernels::Kernels;
use primitives::hex;
use std::path::{Path, PathBuf};
use work_out::Content;

pub use crate::record::{Key, NO_KEY};

const NAME: &str = "xor.dat";
/// Block files that are tried for a lost key. The first one of an undamaged directory is enough.
const FILES_TRIED_MAX: usize = 32;

/// The key of a blocks directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlocksKey {
    /// The key.
    pub key: Key,
    /// Its origin.
    pub origin: Origin,
}

/// The origin of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Read from xor.dat.
    Stored,
    /// No xor.dat and no block file: a new directory, or one whose files were all removed.
    New,
    /// No xor.dat, and the block files are plain.
    Plain,
    /// No xor.dat. The key was computed from the first record of this block file.
    WorkedOut(PathBuf),
}

/// The key of `blocks_dir`; it is stored if xor.dat is missing. `-blocksxor=0` is `xor_wanted == false`.
///
/// # Errors
///
/// A truncated key; a lost key that cannot be computed from the block files; a key other than zero with -blocksxor=0
/// (Core's words); an I/O error.
pub fn open_key(disk: &dyn Disk, blocks_dir: &Path, network: &Network, xor_wanted: bool) -> Result<BlocksKey> {
    let path = blocks_dir.join(NAME);
    let mut found = find_key(disk, blocks_dir, network)?;
    if found.origin == Origin::New && xor_wanted && is_first_run(disk, blocks_dir)? {
        found.key = random_key(&path)?;
    }
    if !xor_wanted && found.key != NO_KEY {
        let core = format!(
            "The blocksdir XOR-key can not be disabled when a random key was already stored! \
             Stored key: '{}', stored path: '{}'.",
            hex::encode(&found.key),
            path.display()
        );
        let wanted = "a key of zeros, as -blocksxor=0 asks";
        return Err(Fault::new(FaultKind::Refused, &path, wanted, format!("another: {core}"), "Remove -blocksxor=0"));
    }
    if found.origin != Origin::Stored {
        // Hidden, so that after a crash the directory is still one that Core has never used.
        write_whole(disk, &path, &blocks_dir.join(".xor.dat.new"), &found.key)?;
        // Once it exists it is never rewritten.
        disk.sync_dir_once(blocks_dir)?;
    }
    Ok(found)
}

/// The key for reading the files in `blocks_dir`: as stored, otherwise computed from the block files; zeros if they are
/// plain, or there are no block files. Writes nothing.
///
/// # Errors
///
/// Those of [`open_key`], except for -blocksxor.
pub fn find_key(disk: &dyn Disk, blocks_dir: &Path, network: &Network) -> Result<BlocksKey> {
    if let Some(key) = read_key(disk, blocks_dir)? {
        return Ok(BlocksKey { key, origin: Origin::Stored });
    }
    let entries = match disk.list(blocks_dir) {
        Ok(entries) => entries,
        Err(why) if why.is_not_found() => Vec::new(),
        Err(why) => return Err(why.into()),
    };
    let files = entries.iter().filter(|entry| !entry.is_dir);
    let mut numbers: Vec<u32> = files.filter_map(|entry| layout::block_file_number(&entry.name)).collect();
    numbers.sort_unstable();
    let mut plain = None;
    let mut unknown = None;
    for &number in numbers.iter().take(FILES_TRIED_MAX) {
        let path = layout::block_file(blocks_dir, number);
        let file = disk.open(&path)?;
        match work_out::content(&work_out::start_of(&*file)?, file.len()?, network.magic) {
            Content::Obfuscated(key) => return Ok(BlocksKey { key, origin: Origin::WorkedOut(path) }),
            Content::Plain => plain = plain.or(Some(path)),
            Content::Empty => {}
            Content::Unknown(first) => unknown = unknown.or(Some((path, first))),
        }
    }
    match (plain, unknown) {
        (Some(_), _) => Ok(BlocksKey { key: NO_KEY, origin: Origin::Plain }),
        (None, None) => Ok(BlocksKey { key: NO_KEY, origin: Origin::New }),
        (None, Some((path, first))) => Err(unreadable(&path, network.magic, first)),
    }
}

/// The fault of a block file whose first bytes no key makes readable.
fn unreadable(path: &Path, magic: [u8; 4], first: [u8; 4]) -> Fault {
    let wanted = format!("a record with magic {magic:02x?}, or one whose obfuscation key shows");
    match layout::network_of_magic(first) {
        Some(other) => {
            let found = format!("{first:02x?}, the magic of {other}");
            Fault::new(FaultKind::Refused, path, wanted, found, format!("Use --chain {other}, or another --datadir"))
        }
        None => {
            let found = format!("{first:02x?}, and no xor.dat in its directory");
            let advice = "Put the xor.dat back from where the block files came from; if they are not block files, move \
                          them out of this directory";
            Fault::new(FaultKind::Damaged, path, wanted, found, advice)
        }
    }
}

/// The key of one block file of another node, in any directory: that of xor.dat in the same directory if it fits,
/// otherwise computed from the file, otherwise no key.
///
/// # Errors
///
/// The file cannot be read.
pub fn key_of_foreign(disk: &dyn Disk, file: &Path, network: &Network) -> Result<Key> {
    let open = disk.open(file)?;
    let start = work_out::start_of(&*open)?;
    Ok(key_of_start(disk, file, &start, open.len()?, network))
}

/// [`key_of_foreign`] for a stream that is named `path` and already unpacked. `start` holds its first bytes: the whole
/// stream, or more than a record. `bytes` is the length of the stream, or [`u64::MAX`] if it is unknown.
pub fn key_of_start(disk: &dyn Disk, path: &Path, start: &[u8], bytes: u64, network: &Network) -> Key {
    // A truncated key is useless, as is one that belongs to other files.
    let stored = path.parent().map(|dir| read_key(disk, dir)).and_then(|read| read.ok().flatten());
    let magic = network.magic;
    let fits = |key: &Key| start.len() >= magic.len() && start.iter().zip(key).zip(magic).all(|((b, k), m)| b ^ k == m);
    if fits(&NO_KEY) && stored.is_none_or(|key| key[..magic.len()] != [0; 4]) {
        return NO_KEY;
    }
    match stored.filter(fits) {
        Some(key) => key,
        None => match work_out::content(start, bytes, magic) {
            Content::Obfuscated(key) => key,
            Content::Plain | Content::Empty | Content::Unknown(_) => NO_KEY,
        },
    }
}

/// The keys of the files of one directory: the directory's key, or no key for a file that begins with the plain magic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FileKeys {
    /// The directory's obfuscation.
    pub(crate) obfuscation: Obfuscation,
    /// The four bytes before every record.
    pub(crate) magic: [u8; 4],
}

impl FileKeys {
    /// Keys of files that are never obfuscated.
    pub(crate) const NONE: FileKeys = FileKeys::new(NO_KEY, [0; 4], Kernels::AUTO);

    pub(crate) const fn new(key: Key, magic: [u8; 4], kernels: Kernels) -> FileKeys {
        FileKeys { obfuscation: Obfuscation { key, kernels }, magic }
    }

    /// The keys with another key for the directory.
    pub(crate) fn with(self, key: Key) -> FileKeys {
        FileKeys { obfuscation: Obfuscation { key, ..self.obfuscation }, ..self }
    }

    /// The obfuscation of one file.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn of(&self, file: &dyn DiskFile) -> Result<Obfuscation> {
        // With such a key, a plain magic and an obfuscated one are the same bytes.
        if self.obfuscation.key[..self.magic.len()] == [0; 4] {
            return Ok(self.obfuscation);
        }
        let mut first = [0; 4];
        let is_plain = file.read_at(0, &mut first)? == first.len() && first == self.magic;
        Ok(if is_plain { self.with(NO_KEY).obfuscation } else { self.obfuscation })
    }
}

/// The stored key of `blocks_dir`; `None` if there is no xor.dat. Writes nothing.
///
/// # Errors
///
/// A truncated key, or an I/O error.
pub fn read_key(disk: &dyn Disk, blocks_dir: &Path) -> Result<Option<Key>> {
    let path = blocks_dir.join(NAME);
    let file = match disk.open(&path) {
        Ok(file) => file,
        Err(why) if why.is_not_found() => return Ok(None),
        Err(why) => return Err(why.into()),
    };
    let mut key = NO_KEY;
    match file.read_at(0, &mut key)? {
        8 => Ok(Some(key)),
        bytes => {
            let advice = "Move this file away: ffwd computes the key from the block files if they reveal it";
            Err(Fault::new(FaultKind::Damaged, &path, "8 bytes", format!("{bytes}"), advice))
        }
    }
}

/// Whether the directory contains only regular files whose names begin with a dot.
fn is_first_run(disk: &dyn Disk, blocks_dir: &Path) -> Result<bool> {
    let entries = disk.list(blocks_dir)?;
    Ok(entries.iter().all(|entry| !entry.is_dir && entry.name.as_encoded_bytes().starts_with(b".")))
}

fn random_key(path: &Path) -> Result<Key> {
    let mut key = NO_KEY;
    match getrandom::fill(&mut key) {
        Ok(()) => Ok(key),
        Err(why) => Err(Fault::new(
            FaultKind::Io,
            path,
            "8 random bytes from the system",
            why.to_string(),
            "Use -blocksxor=0, or a system with a source of randomness",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::SimDisk;
    use primitives::{BlockHash, Target, U256};

    fn regtest() -> Network {
        let pow_limit = Target(U256::MAX.shifted_right(1));
        Network { directory: "regtest", magic: [0xfa, 0xbf, 0xb5, 0xda], genesis: BlockHash::default(), pow_limit }
    }

    #[test]
    fn open_key_follows_cores_rules() {
        let dir = Path::new("/blocks");
        let random = [1, 2, 3, 4, 5, 6, 7, 8];
        type Row =
            (&'static str, &'static [(&'static str, &'static [u8])], bool, std::result::Result<bool, &'static str>);
        let rows: [Row; 15] = [
            ("fresh", &[], true, Ok(true)),
            ("fresh, none wanted", &[], false, Ok(false)),
            ("only hidden files", &[(".lock", b"")], true, Ok(true)),
            ("beside plain block files", &[("blk00000.dat", b"\xfa\xbf\xb5\xda")], true, Ok(false)),
            ("beside an empty block file", &[("blk00000.dat", b"")], true, Ok(false)),
            ("beside a block file of zeros", &[("blk00000.dat", &[0; 100])], true, Ok(false)),
            ("beside an undo file", &[("rev00000.dat", b"x")], true, Ok(false)),
            ("beside unknown bytes", &[("blk00000.dat", b"xyz..")], true, Err("and no xor.dat in its directory")),
            (
                "beside another network's",
                &[("blk00000.dat", b"\x0a\x03\xcf\x40....")],
                true,
                Err("the magic of signet. Use --chain signet"),
            ),
            ("beside an index", &[("index/CURRENT", b"x")], true, Ok(false)),
            ("beside a hidden directory", &[(".x/y", b"x")], true, Ok(false)),
            ("short", &[("xor.dat", b"1234")], true, Err("xor.dat: wanted 8 bytes, found 4")),
            ("empty", &[("xor.dat", b"")], true, Err("found 0")),
            ("there, and wanted", &[("xor.dat", &[1, 2, 3, 4, 5, 6, 7, 8, 9])], true, Ok(true)),
            (
                "there, not wanted",
                &[("xor.dat", &[1, 2, 3, 4, 5, 6, 7, 8])],
                false,
                Err("can not be disabled when a random"),
            ),
        ];
        for (row, files, wanted, want) in rows {
            let sim = SimDisk::new(0);
            let disk = sim.shared();
            disk.create_dir_all(dir).unwrap();
            for (name, bytes) in files {
                let path = dir.join(name);
                disk.create_dir_all(path.parent().unwrap()).unwrap();
                disk.create(&path).unwrap().write_at(0, bytes).unwrap();
            }
            match (open_key(&*disk, dir, &regtest(), wanted).map(|found| found.key), want) {
                (Ok(key), Ok(is_random)) => {
                    assert_eq!(key != NO_KEY, is_random, "{row}");
                    assert_eq!(read_key(&*disk, dir).unwrap(), Some(key), "{row}");
                    assert_eq!(open_key(&*disk, dir, &regtest(), true).unwrap().key, key, "{row}: again");
                    if files.iter().any(|(name, _)| *name == "xor.dat") {
                        assert_eq!(key, random, "{row}");
                    }
                }
                (Err(why), Err(text)) => assert!(why.to_string().contains(text), "{row}: {why}"),
                (got, want) => panic!("{row}: {got:?}, want {want:?}"),
            }
        }
    }
}
