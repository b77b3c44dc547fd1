//! Copies a chain's directory for a run, by reflink if the file system supports it; checks free space; prepares the
//! page cache.
//!
//! The source directory is only read. Never copied: logs, locks, wallets, keys, `ffwd/`; see [`PARTS`]. Absent on
//! purpose: hard links. A program that appends to a block file would change the original.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use super::plan::PageCache;

/// The copied directories, below the network's directory.
const PARTS: [&str; 2] = ["blocks", "chainstate"];

/// Bytes read at once to bring a file into the page cache.
const READ_BYTES: usize = 1 << 20;

/// The files to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Block files and xor.dat, for a run from scratch.
    Blocks,
    /// Blocks, undo, index and coins.
    All,
}

/// Number of files by method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Copied {
    pub(super) reflinked: u64,
    pub(super) copied: u64,
}

impl Copied {
    /// The method in words.
    pub(super) fn by(self) -> &'static str {
        match self {
            Self { reflinked: 0, copied: 0 } => "nothing to copy",
            Self { copied: 0, .. } => "reflinked",
            Self { .. } => "copied",
        }
    }
}

/// Copies the parts of the network directory `from` into `to`, and syncs them.
///
/// # Errors
///
/// An I/O error.
pub(super) fn chain(from: &Path, to: &Path, what: What) -> io::Result<Copied> {
    let mut done = Copied::default();
    for part in PARTS {
        let source = from.join(part);
        if (part == "blocks" || what == What::All) && source.is_dir() {
            directory(&source, &to.join(part), what, &mut done)?;
        }
    }
    fs::create_dir_all(to)?;
    rustix::fs::syncfs(File::open(to)?)?; // Data of the copy must not be written back during the run.
    Ok(done)
}

fn directory(from: &Path, to: &Path, what: What, done: &mut Copied) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let source = entry.path();
        let target = to.join(entry.file_name());
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            if what == What::All {
                directory(&source, &target, what, done)?;
            }
        } else if name != "LOCK" && name != ".lock" && (what == What::All || is_block_file(&name)) {
            file(&fs::canonicalize(&source)?, &target, done)?;
        }
    }
    Ok(())
}

fn is_block_file(name: &str) -> bool {
    name == "xor.dat" || name.starts_with("blk") && name.ends_with(".dat")
}

fn file(from: &Path, to: &Path, done: &mut Copied) -> io::Result<()> {
    let target = File::create(to)?;
    if rustix::fs::ioctl_ficlone(&target, File::open(from)?).is_ok() {
        done.reflinked += 1;
        return Ok(());
    }
    drop(target);
    fs::copy(from, to)?;
    done.copied += 1;
    Ok(())
}

/// Size of the parts of a network directory in bytes.
pub(super) fn bytes_of(net_dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for part in PARTS.map(|part| net_dir.join(part)).iter().filter(|part| part.is_dir()) {
        each_file(part, &mut |path| {
            bytes += fs::metadata(path)?.len();
            Ok(())
        })?;
    }
    Ok(bytes)
}

fn each_file(directory: &Path, then: &mut dyn FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            each_file(&entry.path(), then)?;
        } else {
            then(&entry.path())?;
        }
    }
    Ok(())
}

/// Free space for an unprivileged user below `directory`, in bytes.
pub(super) fn free_bytes(directory: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(directory)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Whether files of `from` can be reflinked into the directory `to`.
pub(super) fn can_reflink(from: &Path, to: &Path) -> bool {
    let probe = to.join("reflink.probe");
    let try_one = || -> io::Result<bool> {
        let mut some = None;
        each_file(from, &mut |path| {
            some.get_or_insert_with(|| path.to_owned());
            Ok(())
        })?;
        let Some(some) = some else { return Ok(false) };
        Ok(rustix::fs::ioctl_ficlone(File::create(&probe)?, File::open(some)?).is_ok())
    };
    let can = try_one().unwrap_or(false);
    let _ = fs::remove_file(&probe); // The file may not exist.
    can
}

/// Brings the page cache of `directory` into the state that the plan requests; returns the method in words.
///
/// # Errors
///
/// A file cannot be read.
pub(super) fn page_cache(directory: &Path, wanted: PageCache) -> io::Result<&'static str> {
    if wanted == PageCache::Kept {
        let mut piece = vec![0; READ_BYTES];
        each_file(directory, &mut |path| {
            let mut file = File::open(path)?;
            while file.read(&mut piece)? > 0 {}
            Ok(())
        })?;
        return Ok("kept: every file was read once before each run");
    }
    rustix::fs::sync();
    if fs::write("/proc/sys/vm/drop_caches", "1\n").is_ok() {
        return Ok("dropped for the whole system before each run");
    }
    each_file(directory, &mut |path| {
        let file = File::open(path)?;
        Ok(rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?)
    })?;
    Ok("dropped for the chain's files before each run, by advice: the system may keep some, and the program's own")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_takes_only_files_of_the_work() {
        let scratch = tempfile::tempdir().unwrap();
        let from = scratch.path().join("from");
        for name in [
            "blocks/blk00000.dat",
            "blocks/rev00000.dat",
            "blocks/xor.dat",
            "blocks/index/CURRENT",
            "blocks/index/LOCK",
            "chainstate/CURRENT",
            "debug.log",
            "wallets/w.dat",
        ] {
            fs::create_dir_all(from.join(name).parent().unwrap()).unwrap();
            fs::write(from.join(name), name).unwrap();
        }
        for (what, want) in [
            (What::Blocks, &["blocks/blk00000.dat", "blocks/xor.dat"][..]),
            (
                What::All,
                &[
                    "blocks/blk00000.dat",
                    "blocks/index/CURRENT",
                    "blocks/rev00000.dat",
                    "blocks/xor.dat",
                    "chainstate/CURRENT",
                ],
            ),
        ] {
            let to = scratch.path().join(format!("{what:?}"));
            let done = chain(&from, &to, what).unwrap();
            let mut found = Vec::new();
            each_file(&to, &mut |path| {
                found.push(path.strip_prefix(&to).unwrap().to_string_lossy().into_owned());
                assert_eq!(fs::read(path)?, fs::read(from.join(path.strip_prefix(&to).unwrap()))?);
                Ok(())
            })
            .unwrap();
            found.sort();
            assert_eq!(found, want, "{what:?}");
            assert_eq!((done.copied + done.reflinked) as usize, want.len(), "{what:?}");
        }
        assert_eq!(bytes_of(&from).unwrap(), 19 + 19 + 14 + 20 + 17 + 18);
        assert!(free_bytes(scratch.path()).unwrap() > 0);
        for wanted in [PageCache::Kept, PageCache::Dropped] {
            assert!(!page_cache(&from, wanted).unwrap().is_empty());
        }
    }
}
