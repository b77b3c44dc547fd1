//! Rewrites records at their indexed places: a block or its undo data that is damaged or missing.
//!
//! Only bytes of that record are written, so that a crash at any instant leaves every other record unchanged, and this
//! one can be rewritten again. The bytes equal those before the damage: a block has one serialization, and so has its
//! undo data.
//!
//! Whole files are replaced differently: written under another name in the same directory, then renamed ([`obfuscate`],
//! [`Moves`]). Unwanted block files are moved aside ([`aside`]) and stay there.
//!
//! Absent on purpose: whether the bytes are correct.

use crate::FilePos;
use crate::blockfiles::RECORD_HEADER_BYTES;
use crate::fault::{Fault, FaultKind, Result};
use crate::layout::{self, Layout};
use crate::xor::Key;
use disk::{Disk, DiskError, DiskFile};
use kernels::xor::xor;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Prefix of the temporary name of a file that is being renamed. Core ignores such names.
const ON_ITS_WAY: &str = ".ffwd-to-";
/// A file being rewritten is copied in pieces of this many bytes.
const PIECE_BYTES: usize = 1 << 20;

/// Rewrites records in the files of one data directory.
#[derive(Debug)]
pub struct Restorer {
    disk: Arc<dyn Disk>,
    blocks_dir: PathBuf,
    magic: [u8; 4],
    key: Key,
    /// Files written and not yet synced.
    written: BTreeSet<PathBuf>,
    has_new: bool,
}

impl Restorer {
    /// A restorer for the files in `blocks_dir`, obfuscated with `key`.
    pub fn new(disk: Arc<dyn Disk>, blocks_dir: &Path, magic: [u8; 4], key: Key) -> Restorer {
        let blocks_dir = blocks_dir.to_path_buf();
        Restorer { disk, blocks_dir, magic, key, written: BTreeSet::new(), has_new: false }
    }

    /// Rewrites a block at its place.
    ///
    /// # Errors
    ///
    /// An impossible place; no space, or an I/O error. The call can be repeated.
    pub fn block(&mut self, at: FilePos, block: &[u8]) -> Result<()> {
        let path = layout::block_file(&self.blocks_dir, at.file);
        let size = u32::try_from(block.len()).map_err(|_| self.impossible(&path, at))?;
        let mut record = Vec::with_capacity(block.len() + RECORD_HEADER_BYTES as usize);
        record.extend_from_slice(&self.magic);
        record.extend_from_slice(&size.to_le_bytes());
        record.extend_from_slice(block);
        self.put(&path, at, record)
    }

    /// Rewrites undo data: a whole record, as [`crate::undofiles::undo_record`] makes it; `at` is the place of its
    /// payload.
    ///
    /// # Errors
    ///
    /// Those of [`Restorer::block`].
    pub fn undo(&mut self, at: FilePos, record: &[u8]) -> Result<()> {
        let path = layout::undo_file(&self.blocks_dir, at.file);
        self.put(&path, at, record.to_vec())
    }

    /// Makes undo file `number` at least `len` bytes long, with zeros where it has nothing, so that it can be appended to.
    /// Returns whether it was shorter.
    ///
    /// # Errors
    ///
    /// No space, or an I/O error. The call can be repeated.
    pub fn extend_undo(&mut self, number: u32, len: u32) -> Result<bool> {
        let path = layout::undo_file(&self.blocks_dir, number);
        let is_long = |metadata: disk::Metadata| metadata.len >= u64::from(len);
        if len == 0 || self.disk.metadata(&path)?.is_some_and(is_long) {
            return Ok(false);
        }
        self.open(&path)?.write_at(u64::from(len) - 1, &[0])?;
        self.written.insert(path);
        Ok(true)
    }

    fn impossible(&self, path: &Path, at: FilePos) -> Fault {
        let advice = "Run ffwd reindex: the index does not fit the files";
        Fault::new(FaultKind::Damaged, path, "a place for a record", at.offset.to_string(), advice)
    }

    /// Opens a file, or creates an empty one.
    fn open(&mut self, path: &Path) -> Result<Arc<dyn DiskFile>> {
        match self.disk.modify(path) {
            Ok(file) => Ok(file),
            Err(why) if why.is_not_found() => {
                self.has_new = true;
                Ok(self.disk.create(path)?)
            }
            Err(why) => Err(why.into()),
        }
    }

    fn put(&mut self, path: &Path, at: FilePos, mut record: Vec<u8>) -> Result<()> {
        let Some(start) = at.offset.checked_sub(RECORD_HEADER_BYTES) else { return Err(self.impossible(path, at)) };
        let file = self.open(path)?;
        let start = u64::from(start);
        xor(&mut record, self.key, start);
        file.write_at(start, &record)?;
        self.written.insert(path.to_path_buf());
        Ok(())
    }

    /// Makes all rewritten records durable.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn sync(&mut self) -> Result<()> {
        for path in std::mem::take(&mut self.written) {
            self.disk.modify(&path)?.sync()?;
        }
        if std::mem::take(&mut self.has_new) {
            self.disk.sync_dir_once(&self.blocks_dir)?;
        }
        Ok(())
    }
}

/// Rewrites a plain block file, obfuscated with `key`: under a temporary name first, then replaces it in one step.
///
/// # Errors
///
/// No space, or an I/O error; the file is unchanged then. The call can be repeated.
pub fn obfuscate(disk: &dyn Disk, path: &Path, key: Key) -> Result<()> {
    // If the file is a link, its target is rewritten and the link stays.
    let target = resolved(disk, path)?;
    let beside = beside(&target, ".ffwd-new-");
    if disk.metadata(&beside)?.is_some() {
        disk.remove_file(&beside)?;
    }
    let from = disk.open(&target)?;
    let to = disk.create(&beside)?;
    let len = from.len()?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = 0;
    while at < len {
        let count = from.read_at(at, &mut piece)?;
        if count == 0 {
            break;
        }
        xor(&mut piece[..count], key, at);
        to.write_at(at, &piece[..count])?;
        at += count as u64;
    }
    to.sync()?;
    disk.rename(&beside, &target)?;
    Ok(disk.sync_dir_once(target.parent().unwrap_or(Path::new(".")))?)
}

/// Follows a chain of at most 8 links to its end.
pub(crate) fn resolved(disk: &dyn Disk, path: &Path) -> Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..8 {
        let Some(target) = disk.read_link(&path)? else { return Ok(path) };
        path = path.parent().unwrap_or(Path::new("/")).join(target);
    }
    Ok(path)
}

fn beside(path: &Path, prefix: &str) -> PathBuf {
    let mut name = std::ffi::OsString::from(prefix);
    name.push(path.file_name().unwrap_or_default());
    path.with_file_name(name)
}

/// Moves a file into `ffwd/aside`, under a free name; returns its new path.
///
/// # Errors
///
/// An I/O error; the file is at its old place then.
pub fn aside(disk: &dyn Disk, layout: &Layout, path: &Path) -> Result<PathBuf> {
    let dir = layout.private_dir().join("aside");
    disk.create_dir_all(&dir)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut to = dir.join(&name);
    let mut count = 1;
    while disk.metadata(&to)?.is_some() {
        to = dir.join(format!("{name}.{count}"));
        count += 1;
    }
    let dir_of = path.parent().unwrap_or(Path::new("."));
    match disk.rename(path, &to) {
        Ok(()) => disk.sync_dir_once(&dir)?,
        // If that is another file system, the file stays in its directory under a name that no program reads.
        Err(why) if why.is_immovable() => {
            to = beside(path, &format!(".ffwd-aside-{count}-"));
            disk.rename(path, &to)?;
        }
        Err(why) => return Err(why.into()),
    }
    disk.sync_dir_once(dir_of)?;
    Ok(to)
}

/// Renumbering of block files.
///
/// Each file is first renamed to a temporary name that contains both numbers, then to its new name. After a crash
/// between two steps, [`Moves::finish`] continues from the temporary names.
#[derive(Debug)]
pub struct Moves;

impl Moves {
    /// Renumbers: each pair is a file's old and new number. No two files get the same number, and a file whose number
    /// another one gets is in the list too.
    ///
    /// # Errors
    ///
    /// An I/O error; [`Moves::finish`] completes or undoes the renumbering.
    pub fn begin(disk: &dyn Disk, blocks_dir: &Path, moves: &[(u32, u32)]) -> Result<()> {
        for &(from, to) in moves {
            let on_its_way = beside(&layout::block_file(blocks_dir, to), &format!("{ON_ITS_WAY}{from}-"));
            disk.rename(&layout::block_file(blocks_dir, from), &on_its_way)?;
        }
        Moves::finish(disk, blocks_dir)
    }

    /// Gives each file with a temporary name its new name. If one of the new names is taken, the renumbering was
    /// interrupted in its first phase: then the files get their old names back.
    ///
    /// # Errors
    ///
    /// An I/O error; the call can be repeated.
    pub fn finish(disk: &dyn Disk, blocks_dir: &Path) -> Result<()> {
        if disk.metadata(blocks_dir)?.is_none() {
            return Ok(());
        }
        let mut begun = Vec::new();
        for entry in disk.list(blocks_dir)? {
            let Some(name) = entry.name.to_str().and_then(|name| name.strip_prefix(ON_ITS_WAY)) else { continue };
            let Some((from, to)) = name.split_once('-') else { continue };
            let Ok(from) = from.parse() else { continue };
            begun.push((blocks_dir.join(&entry.name), layout::block_file(blocks_dir, from), blocks_dir.join(to)));
        }
        let is_free = |path: &Path| Ok::<_, DiskError>(disk.metadata(path)?.is_none());
        let mut all_free = true;
        for (_, _, to) in &begun {
            all_free &= is_free(to)?;
        }
        for (file, from, to) in &begun {
            let names = if all_free { [to, from] } else { [from, to] };
            for name in names {
                if is_free(name)? {
                    disk.rename(file, name)?;
                    break;
                }
            }
        }
        Ok(disk.sync_dir_once(blocks_dir)?)
    }

    /// Whether a renumbering was interrupted.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn is_under_way(disk: &dyn Disk, blocks_dir: &Path) -> Result<bool> {
        if disk.metadata(blocks_dir)?.is_none() {
            return Ok(false);
        }
        Ok(disk.list(blocks_dir)?.iter().any(|entry| entry.name.as_encoded_bytes().starts_with(ON_ITS_WAY.as_bytes())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{Fault as Accident, Loss, SimDisk};

    const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];
    const KEY: Key = [1, 2, 3, 4, 5, 6, 7, 8];

    fn content(disk: &dyn Disk, path: &str) -> Option<Vec<u8>> {
        let file = disk.open(Path::new(path)).ok()?;
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(0, &mut bytes).unwrap();
        Some(bytes)
    }

    fn put(disk: &dyn Disk, path: &str, bytes: &[u8]) {
        let file = disk.create(Path::new(path)).unwrap();
        file.write_at(0, bytes).unwrap();
        file.sync().unwrap();
        disk.sync_dir(Path::new(path).parent().unwrap()).unwrap();
    }

    fn fresh() -> SimDisk {
        let sim = SimDisk::new(7);
        sim.shared().create_dir_all(Path::new("/d/blocks")).unwrap();
        sim.shared().sync_dir(Path::new("/d")).unwrap();
        sim.shared().sync_dir(Path::new("/")).unwrap();
        sim
    }

    #[test]
    fn records_are_put_back_where_they_lay_and_nothing_else_is_written() {
        let sim = fresh();
        let disk = sim.shared();
        let mut restorer = Restorer::new(disk.clone(), Path::new("/d/blocks"), MAGIC, KEY);
        restorer.block(FilePos { file: 3, offset: 20 }, b"block").unwrap();
        restorer.undo(FilePos { file: 3, offset: 8 }, b"whole record").unwrap();
        restorer.sync().unwrap();
        let mut got = content(&*disk, "/d/blocks/blk00003.dat").unwrap();
        assert_eq!(got[..12], [0; 12], "what lies before is not touched");
        xor(&mut got[12..], KEY, 12);
        assert_eq!(got[12..], [&MAGIC[..], &5_u32.to_le_bytes(), b"block"].concat());
        let mut undo = content(&*disk, "/d/blocks/rev00003.dat").unwrap();
        xor(&mut undo, KEY, 0);
        assert_eq!(undo, b"whole record");
        let why = restorer.block(FilePos { file: 3, offset: 7 }, b"block").unwrap_err();
        assert_eq!(why.kind(), FaultKind::Damaged);
        let sim = sim.reopen(Loss::Unsynced);
        assert!(content(&*sim.shared(), "/d/blocks/blk00003.dat").is_some(), "it is durable");
    }

    /// The plain file or the obfuscated one, whole, whatever instant it ends at.
    #[test]
    fn obfuscated_file_is_old_or_new_after_a_stop_at_any_operation() {
        let plain: Vec<u8> = (0..3000_u32).map(|n| n as u8).collect();
        let mut hidden = plain.clone();
        xor(&mut hidden, KEY, 0);
        for at in 0..40 {
            let sim = fresh();
            put(&*sim.shared(), "/d/blocks/blk00001.dat", &plain);
            sim.fail_at(sim.operations() + at, 1, Accident::Stop);
            let done = obfuscate(&*sim.shared(), Path::new("/d/blocks/blk00001.dat"), KEY).is_ok();
            for loss in [Loss::Nothing, Loss::Unsynced, Loss::Random(at)] {
                let sim = sim.reopen(loss);
                let got = content(&*sim.shared(), "/d/blocks/blk00001.dat").unwrap();
                assert!(got == hidden || (got == plain && !done), "stopped at {at}, {loss:?}");
                if got == plain {
                    obfuscate(&*sim.shared(), Path::new("/d/blocks/blk00001.dat"), KEY).unwrap();
                    assert_eq!(content(&*sim.shared(), "/d/blocks/blk00001.dat").unwrap(), hidden);
                }
            }
            if done {
                return;
            }
        }
        panic!("fewer operations than that are needed");
    }

    #[test]
    fn moved_files_all_lie_somewhere_after_a_stop_at_any_operation() {
        for at in 0..40 {
            let sim = fresh();
            put(&*sim.shared(), "/d/blocks/blk00001.dat", b"two");
            put(&*sim.shared(), "/d/blocks/blk00002.dat", b"one");
            sim.fail_at(sim.operations() + at, 1, Accident::Stop);
            let dir = Path::new("/d/blocks");
            let done = Moves::begin(&*sim.shared(), dir, &[(1, 2), (2, 1)]).is_ok();
            for loss in [Loss::Nothing, Loss::Unsynced, Loss::Random(at)] {
                let sim = sim.reopen(loss);
                let disk = sim.shared();
                let all: Vec<Vec<u8>> = disk
                    .list(dir)
                    .unwrap()
                    .iter()
                    .map(|entry| content(&*disk, dir.join(&entry.name).to_str().unwrap()).unwrap())
                    .collect();
                assert!(
                    all.iter().any(|c| c == b"one") && all.iter().any(|c| c == b"two"),
                    "stopped at {at}, {loss:?}"
                );
                Moves::finish(&*disk, dir).unwrap();
                assert!(!Moves::is_under_way(&*disk, dir).unwrap());
            }
            if done {
                assert_eq!(content(&*sim.shared(), "/d/blocks/blk00001.dat").unwrap(), b"one");
                return;
            }
        }
        panic!("fewer operations than that are needed");
    }

    #[test]
    fn aside_takes_free_names() {
        let sim = fresh();
        let disk = sim.shared();
        let layout = Layout::new(Path::new("/d"), "", None);
        for want in ["/d/ffwd/aside/blk00001.dat", "/d/ffwd/aside/blk00001.dat.1"] {
            put(&*disk, "/d/blocks/blk00001.dat", b"other");
            let went = aside(&*disk, &layout, Path::new("/d/blocks/blk00001.dat")).unwrap();
            assert_eq!((went.as_path(), content(&*disk, want).as_deref()), (Path::new(want), Some(&b"other"[..])));
        }
    }
}
