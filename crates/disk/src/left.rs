//! Removes directories on file systems that rename an open file instead of removing its name.
//!
//! FUSE (libfuse's `hide`: exFAT, NTFS, bindfs, sshfs) renames it to `.fuse_hidden` and a number, NFS to `.nfs` and a
//! number ("silly rename"). That name disappears when the last program closes or unmaps the file. Until then the
//! directory cannot be removed either.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use super::{Disk, DiskResult};

/// Whether a name is that of a removed file which is still open in some program.
pub fn is_still_open(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b".fuse_hidden") || name.starts_with(b".nfs")
}

/// Removes a directory with all its contents. Returns false if it stays for now because it contains only mount points
/// and files that are still open, which disappear when they are closed. Not atomic.
///
/// # Errors
/// Not found, or an I/O error.
pub fn remove_tree(disk: &dyn Disk, path: &Path) -> DiskResult<bool> {
    // The second attempt is for a file that was closed between the first attempt and this check.
    for _ in 0..2 {
        let Err(why) = disk.remove_dir_all(path) else { return Ok(true) };
        match why.source.kind() {
            io::ErrorKind::ResourceBusy if holds_nothing(disk, path)? => return Ok(false),
            io::ErrorKind::DirectoryNotEmpty if holds_nothing(disk, path)? && !disk.list(path)?.is_empty() => {
                return Ok(false);
            }
            io::ErrorKind::DirectoryNotEmpty => {}
            _ => return Err(why),
        }
    }
    disk.remove_dir_all(path).map(|()| true)
}

/// Whether only directories and files that are still open are left.
fn holds_nothing(disk: &dyn Disk, path: &Path) -> DiskResult<bool> {
    for entry in disk.list(path)? {
        let is_nothing = match entry.is_dir {
            true => holds_nothing(disk, &path.join(&entry.name))?,
            false => is_still_open(&entry.name),
        };
        if !is_nothing {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, SimDisk};

    #[test]
    fn a_directory_with_open_files_goes_when_they_are_closed() {
        for (kind, prefix) in [(Kind::FuseNames, ".fuse_hidden"), (Kind::NfsNames, ".nfs")] {
            let disk = SimDisk::new(0);
            disk.be(kind);
            let dir = Path::new("/d/e");
            disk.create_dir_all(dir).unwrap();
            for name in ["open", "mapped", "closed"] {
                disk.create(&dir.join(name)).unwrap().write_at(0, name.as_bytes()).unwrap();
            }
            let file = disk.open(&dir.join("open")).unwrap();
            let bytes = disk.open(&dir.join("mapped")).unwrap().bytes().unwrap();
            assert!(!remove_tree(&disk, Path::new("/d")).unwrap());
            let names = disk.list(dir).unwrap();
            assert!(names.len() == 2 && names.iter().all(|entry| is_still_open(&entry.name)), "{names:?}");
            assert!(names[0].name.to_str().unwrap().starts_with(prefix));
            assert_eq!((&file.bytes().unwrap()[..], &bytes[..]), (&b"open"[..], &b"mapped"[..]));
            assert!(!remove_tree(&disk, Path::new("/d")).unwrap(), "again");
            drop((file, bytes));
            assert_eq!(disk.list(dir).unwrap(), []);
            assert!(remove_tree(&disk, Path::new("/d")).unwrap());
            assert!(disk.metadata(Path::new("/d")).unwrap().is_none());
        }
    }

    #[test]
    fn a_mount_point_stays_and_is_empty() {
        let disk = SimDisk::new(0);
        disk.create_dir_all(Path::new("/d/e")).unwrap();
        disk.create(Path::new("/d/e/file")).unwrap();
        disk.mount(Path::new("/d/e"));
        assert!(!remove_tree(&disk, Path::new("/d")).unwrap());
        assert_eq!(disk.list(Path::new("/d/e")).unwrap(), []);
        assert!(remove_tree(&disk, Path::new("/none")).unwrap_err().is_not_found());
    }
}
