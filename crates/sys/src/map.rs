//! A file as a slice of bytes: mapped read-only, paged in by the system as it is read.
//!
//! For files that are never changed in place once they are complete: LevelDB tables, closed block files.
//!
//! Absent on purpose: writing through a map; a file that grows (map it again).

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::path::Path;

use memmap2::{Mmap, MmapOptions};

use crate::bus_error::{self, Named};

/// Maximum number of pages per query of residency.
#[cfg(all(target_os = "linux", not(miri)))]
const RESIDENT_PAGES: usize = 16;

/// The first bytes of a file, valid as long as this value exists, even if the file is closed.
///
/// If the file is truncated under a map, an access to a page past the new end raises SIGBUS, which ends the process; a
/// failing disk does the same. LevelDB, which maps its tables too, has the same risk. [`crate::bus_error`] can end the
/// program with a message instead. An in-place write to the file changes the slice under its readers: map only files
/// that are never rewritten (and are removed, if at all, by their names).
pub struct Map {
    /// Dropped before the map.
    _named: Option<Named>,
    /// `None` if the map is empty.
    map: Option<Mmap>,
}

/// Maps the first `len` bytes of `file`, read-only. `path` appears in the message if reading fails.
///
/// # Errors
///
/// `UnexpectedEof` if the file is shorter than `len`; the system's error if it refuses the map.
pub fn map(file: &File, len: u64, path: &Path) -> io::Result<Map> {
    let have = file.metadata()?.len();
    if have < len {
        let why = format!("a map needs {len} bytes, the file has {have}: was it cut short?");
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
    }
    if len == 0 {
        return Ok(Map { _named: None, map: None });
    }
    let bytes = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
    // SAFETY: the map is read-only and inside the file as it is now. The caller guarantees that the file is not
    // truncated or rewritten later, as `Map` requires.
    let map = unsafe { MmapOptions::new().len(bytes).map(file).or_else(|why| private_map(file, bytes, why))? };
    Ok(Map { _named: bus_error::name(&map, path), map: Some(map) })
}

/// A private map, for file systems without shared ones: FUSE with `direct_io`, which returns ENODEV for those. Nothing
/// is written through either kind.
///
/// # Safety
///
/// As for a shared map: the file is neither truncated nor rewritten.
unsafe fn private_map(file: &File, bytes: usize, why: io::Error) -> io::Result<Mmap> {
    if !is_not_mappable(&why) {
        return Err(why);
    }
    // SAFETY: the caller's, as above.
    unsafe { MmapOptions::new().len(bytes).map_copy_read_only(file) }
}

/// Whether a failed map means that the file system does not support maps: ENODEV, on some ENOSYS or EOPNOTSUPP.
pub fn is_not_mappable(why: &io::Error) -> bool {
    #[cfg(unix)]
    return matches!(why.raw_os_error(), Some(libc::ENODEV | libc::ENOSYS | libc::EOPNOTSUPP));
    #[cfg(not(unix))]
    return why.kind() == io::ErrorKind::Unsupported;
}

impl Map {
    /// Advises the system that reads are random, so that it does not read ahead.
    pub fn advise_random(&self) {
        #[cfg(unix)]
        self.advise(memmap2::Advice::Random);
    }

    /// Advises the system that reads are sequential, so that it reads far ahead.
    pub fn advise_sequential(&self) {
        #[cfg(unix)]
        self.advise(memmap2::Advice::Sequential);
    }

    /// Asks the system to start reading these bytes now, without waiting for them.
    ///
    /// The part of the range outside the map is ignored.
    pub fn advise_will_need(&self, range: Range<usize>) {
        #[cfg(not(unix))]
        let _ = range;
        #[cfg(unix)]
        if let Some(map) = &self.map {
            let end = range.end.min(map.len());
            if range.start < end {
                let _ = map.advise_range(memmap2::Advice::WillNeed, range.start, end - range.start);
            }
        }
    }

    /// Whether all pages of these bytes are in memory, as reported by the system; true if it does not report it. The
    /// part of the range outside the map is ignored.
    #[cfg(all(target_os = "linux", not(miri)))]
    pub fn is_resident(&self, range: Range<usize>) -> bool {
        let Some((map, page_bytes)) = self.map.as_ref().zip(page_bytes()) else { return true };
        let mut pages = [0_u8; RESIDENT_PAGES];
        runs_of_pages(range.start..range.end.min(map.len()), page_bytes).all(|(at, count)| {
            // SAFETY: `at` is a multiple of the page size within the map, which is page-aligned and lives as long as
            // `self`; the call writes one byte for each of `count` pages, which `pages` has room for.
            let told = unsafe {
                let address = map.as_ptr().add(at).cast_mut().cast::<libc::c_void>();
                libc::mincore(address, count * page_bytes, pages.as_mut_ptr())
            };
            told != 0 || pages[..count].iter().all(|page| page & 1 != 0)
        })
    }

    /// Not reported on this system.
    #[cfg(not(all(target_os = "linux", not(miri))))]
    pub fn is_resident(&self, _: Range<usize>) -> bool {
        true
    }

    /// Passes advice to the system; errors are ignored.
    #[cfg(unix)]
    fn advise(&self, advice: memmap2::Advice) {
        if let Some(map) = &self.map {
            let _ = map.advise(advice);
        }
    }
}

/// The page size of `mincore`: 4 KiB on x86-64; on ARM the kernel's choice, 16 KiB on a Raspberry Pi 5.
#[cfg(all(target_os = "linux", not(miri)))]
fn page_bytes() -> Option<usize> {
    // SAFETY: asks for a number.
    let told = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(told).ok().filter(|bytes| *bytes > 0)
}

/// The pages that contain these bytes, in runs of at most [`RESIDENT_PAGES`]: start and number of pages.
#[cfg(all(target_os = "linux", not(miri)))]
fn runs_of_pages(range: Range<usize>, page_bytes: usize) -> impl Iterator<Item = (usize, usize)> {
    let start = range.start / page_bytes * page_bytes;
    // An empty range has no page.
    let end = if range.is_empty() { start } else { range.end };
    (start..end)
        .step_by(RESIDENT_PAGES * page_bytes)
        .map(move |at| (at, (end - at).div_ceil(page_bytes).min(RESIDENT_PAGES)))
}

impl Deref for Map {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.map.as_deref().unwrap_or(&[])
    }
}

impl std::fmt::Debug for Map {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Map({} bytes)", self.len())
    }
}

#[cfg(all(test, not(miri)))] // Miri has no file maps.
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn map_shows_the_file() {
        let bytes: Vec<u8> = (0..10_000_u32).map(|at| at.to_le_bytes()[0] ^ 0x5A).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        for len in [0, 1, 4096, 4097, 9_999, 10_000] {
            let map = map(&file, len, Path::new("file")).unwrap();
            map.advise_random();
            map.advise_sequential();
            for range in [0..10_000, 0..0, 4095..4098, 9_999..usize::MAX, usize::MAX..usize::MAX] {
                map.advise_will_need(range.clone());
                std::hint::black_box(map.iter().map(|byte| u64::from(*byte)).sum::<u64>());
                assert!(map.is_resident(range), "what was just read is in memory");
            }
            assert_eq!(map[..], bytes[..usize::try_from(len).unwrap()], "{len} bytes");
        }
        let kept = map(&file, 10_000, Path::new("file")).unwrap();
        drop(file);
        assert_eq!(kept[..], bytes, "the map outlives the file handle");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn pages_of_every_size_are_whole_and_none_is_left_out() {
        const KIB: usize = 1 << 10;
        for (row, page_bytes, range, want) in [
            ("nothing", 4 * KIB, 5000..5000, &[][..]),
            ("behind the end of a map", 4 * KIB, 9000..std::hint::black_box(5000), &[]),
            ("a page", 4 * KIB, 4096..8192, &[(4096, 1)]),
            ("a byte more", 4 * KIB, 4096..8193, &[(4096, 2)]),
            ("two in part", 4 * KIB, 4095..4097, &[(0, 2)]),
            ("more than are asked at once", 4 * KIB, 0..68 * KIB, &[(0, 16), (64 * KIB, 1)]),
            ("a page of 4 KiB within one of 16", 16 * KIB, 4 * KIB..8 * KIB, &[(0, 1)]),
            ("its neighbours too", 16 * KIB, 12 * KIB..20 * KIB, &[(0, 2)]),
            ("16 of 16 KiB, and one", 16 * KIB, 17 * KIB..273 * KIB, &[(16 * KIB, 16), (272 * KIB, 1)]),
            ("64 KiB", 64 * KIB, 65 * KIB..66 * KIB, &[(64 * KIB, 1)]),
        ] {
            assert_eq!(runs_of_pages(range, page_bytes).collect::<Vec<_>>(), want, "{row}");
        }
        assert!(page_bytes().is_some_and(usize::is_power_of_two));
    }

    #[test]
    fn map_refuses_what_is_not_there() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 100]).unwrap();
        for len in [101, 5000, u64::MAX] {
            let why = map(&file, len, Path::new("file")).unwrap_err();
            assert_eq!(why.kind(), io::ErrorKind::UnexpectedEof);
            assert!(why.to_string().contains("the file has 100"), "{why}");
        }
    }
}
