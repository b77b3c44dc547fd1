//! Detects a drive that is not mounted: /etc/fstab lists its mount point, but no file system is mounted there.
//!
//! Source of the two formats: fstab(5), proc_pid_mounts(5).
//! Absent on purpose: systems other than Linux, which lack these files: no such drive is detected there.

use disk::Disk;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// Maximum size of a mount table in bytes.
const TABLE_BYTES_MAX: usize = 1 << 20;

/// The mount point at or above `dir` that is listed but not mounted, if there is one.
pub(crate) fn unmounted(disk: &dyn Disk, dir: &Path) -> Option<PathBuf> {
    let dir = std::path::absolute(dir).ok()?;
    let wanted = read(disk, "/etc/fstab")?;
    let mounted = read(disk, "/proc/self/mounts")?;
    missing(&wanted, &mounted, &dir)
}

/// Reads a file of unknown length.
fn read(disk: &dyn Disk, path: &str) -> Option<Vec<u8>> {
    let file = disk.open(Path::new(path)).ok()?;
    let mut bytes = Vec::new();
    while bytes.len() < TABLE_BYTES_MAX {
        let mut piece = [0; 4096];
        match file.read_at(bytes.len() as u64, &mut piece).ok()? {
            0 => break,
            count => bytes.extend_from_slice(&piece[..count]),
        }
    }
    Some(bytes)
}

fn missing(wanted: &[u8], mounted: &[u8], dir: &Path) -> Option<PathBuf> {
    let mounted: Vec<PathBuf> = points(mounted).map(|(point, _)| point).collect();
    let is_wanted = |point: &PathBuf, options: &[u8]| {
        let is_by_hand = options.split(|byte| *byte == b',').any(|option| option == b"noauto");
        point.is_absolute() && point != Path::new("/") && dir.starts_with(point) && !is_by_hand
    };
    points(wanted).filter(|(point, options)| is_wanted(point, options)).map(|(point, _)| point).find(|point| {
        // Another drive may be mounted above or below this point: then the table does not match the actual use.
        !mounted.contains(point)
    })
}

/// Mount points with their options.
fn points(table: &[u8]) -> impl Iterator<Item = (PathBuf, &[u8])> {
    table.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut fields = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|field| !field.is_empty());
        let device = fields.next()?;
        let point = fields.next().filter(|_| device[0] != b'#')?;
        let _ = fields.next()?;
        let options = fields.next().unwrap_or_default();
        Some((PathBuf::from(OsString::from_vec(unescaped(point))), options))
    })
}

/// Undoes escapes such as `\040`, which stand for field separators.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut at = 0;
    while at < field.len() {
        let digits = field.get(at + 1..at + 4).filter(|_| field[at] == b'\\');
        let octal = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|octal| u8::from_str_radix(octal, 8).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 4;
            }
            None => {
                out.push(field[at]);
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drive_that_is_not_mounted_is_named() {
        const FSTAB: &[u8] = b"# drives\nUUID=1 / ext4 defaults 0 1\nUUID=2\t/mnt/chain\text4\tdefaults,nofail 0 2\n\
                               UUID=3 /mnt/my\\040disk ext4 defaults\nUUID=4 /mnt/hand ext4 noauto\nnone swap swap sw\nshort\n";
        const NONE: &[u8] = b"/dev/root / ext4 rw 0 0\n";
        const ALL: &[u8] =
            b"/dev/root / ext4 rw 0 0\n/dev/a /mnt/chain ext4 rw 0 0\n/dev/b /mnt/my\\040disk ext4 rw 0 0\n";
        for (row, mounted, dir, want) in [
            ("on it", NONE, "/mnt/chain/bitcoin", Some("/mnt/chain")),
            ("the place itself", NONE, "/mnt/chain", Some("/mnt/chain")),
            ("a space in its name", NONE, "/mnt/my disk/bitcoin", Some("/mnt/my disk")),
            ("mounted", ALL, "/mnt/chain/bitcoin", None),
            ("mounted, with a space", ALL, "/mnt/my disk/bitcoin", None),
            ("mounted by hand", NONE, "/mnt/hand/bitcoin", None),
            ("beside it", NONE, "/mnt/chain2/bitcoin", None),
            ("the root", NONE, "/home/u/.bitcoin", None),
        ] {
            assert_eq!(missing(FSTAB, mounted, Path::new(dir)).as_deref(), want.map(Path::new), "{row}");
        }
        assert_eq!(missing(b"", b"", Path::new("/d")), None);
        assert_eq!(unescaped(b"a\\04"), b"a\\04", "a cut escape is no escape");
    }
}
