//! `xor.dat`: the 8-byte key with which every byte of every block and undo file is obfuscated.
//!
//! ```text
//! xor.dat   key [u8; 8], no length before it; the byte at offset p of a file is XORed with key[p % 8]
//! ```
//!
//! Core's rule: a key that is there counts. Where it is missing, a random one is made only in a blocks directory that holds
//! nothing but hidden files; beside anything else a zero key is written, for what lies there is plain.
//! Absent on purpose: changing a key.
//! Source: facts of Bitcoin Core b88bffe, `InitBlocksdirXorKey` in node/blockstorage.cpp.

use crate::fault::{Fault, FaultKind, Result};
use crate::private_files::write_whole;
use disk::Disk;
use primitives::hex;
use std::path::Path;

/// The key. All zero: nothing is changed.
pub type Key = [u8; 8];

/// No obfuscation.
pub const NO_KEY: Key = [0; 8];

const NAME: &str = "xor.dat";

/// The key of `blocks_dir`, made and stored where it is missing. `-blocksxor=0` is `xor_wanted == false`.
///
/// # Errors
///
/// A key cut short; a key other than zero where -blocksxor=0 is given (Core's words); what the system says.
pub fn open_key(disk: &dyn Disk, blocks_dir: &Path, xor_wanted: bool) -> Result<Key> {
    let path = blocks_dir.join(NAME);
    let key = match read_key(disk, blocks_dir)? {
        Some(key) => key,
        None => {
            let key = if xor_wanted && is_first_run(disk, blocks_dir)? { random_key(&path)? } else { NO_KEY };
            // Hidden, so that after a crash the directory is still one that Core has never used.
            write_whole(disk, &path, &blocks_dir.join(".xor.dat.new"), &key)?;
            // Once it is there it is never written again.
            disk.sync_dir_once(blocks_dir)?;
            key
        }
    };
    if !xor_wanted && key != NO_KEY {
        let core = format!(
            "The blocksdir XOR-key can not be disabled when a random key was already stored! \
             Stored key: '{}', stored path: '{}'.",
            hex::encode(&key),
            path.display()
        );
        let wanted = "a key of zeros, as -blocksxor=0 asks";
        return Err(Fault::new(FaultKind::Refused, &path, wanted, format!("another: {core}"), "Remove -blocksxor=0"));
    }
    Ok(key)
}

/// The key of `blocks_dir` as it is stored; `None` where there is no xor.dat. Writes nothing.
///
/// # Errors
///
/// A key cut short, or what the system says.
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
            let advice = "Put the right xor.dat back from where the block files came from; \
                          where they were never obfuscated, remove it";
            Err(Fault::new(FaultKind::Damaged, &path, "8 bytes", format!("{bytes}"), advice))
        }
    }
}

/// Nothing but regular files whose names start with a dot.
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

    #[test]
    fn open_key_follows_cores_rules() {
        let dir = Path::new("/blocks");
        let random = [1, 2, 3, 4, 5, 6, 7, 8];
        type Row =
            (&'static str, &'static [(&'static str, &'static [u8])], bool, std::result::Result<bool, &'static str>);
        let rows: [Row; 10] = [
            ("fresh", &[], true, Ok(true)),
            ("fresh, none wanted", &[], false, Ok(false)),
            ("only hidden files", &[(".lock", b"")], true, Ok(true)),
            ("beside block files", &[("blk00000.dat", b"x")], true, Ok(false)),
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
            match (open_key(&*disk, dir, wanted), want) {
                (Ok(key), Ok(is_random)) => {
                    assert_eq!(key != NO_KEY, is_random, "{row}");
                    assert_eq!(read_key(&*disk, dir).unwrap(), Some(key), "{row}");
                    assert_eq!(open_key(&*disk, dir, true).unwrap(), key, "{row}: again");
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
