//! A file as a slice of bytes: mapped read-only, paged in by the system as it is read.
//!
//! For files that are not changed in place once they are whole: LevelDB tables, closed block files.
//!
//! Absent on purpose: writing through a map; a file that grows (map it again).

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::path::Path;

use memmap2::{Mmap, MmapOptions};

use crate::bus_error::{self, Named};

/// What `mincore` counts in on the machines that we know; with larger pages it refuses some places, which then count as there.
#[cfg(all(target_os = "linux", not(miri)))]
const PAGE_BYTES: usize = 4096;
/// Pages that are asked about at once.
#[cfg(all(target_os = "linux", not(miri)))]
const RESIDENT_PAGES: usize = 16;

/// The first bytes of a file, in memory as long as this value lives, the file open or not.
///
/// Where the file is cut under a map, the next access to a page past the new end fails with the
/// signal SIGBUS, which ends the process, as it ends LevelDB, which maps its tables too. So does a
/// failing disk. A program that asks for it ends with a message instead: [`crate::bus_error`].
/// A write into the file in place changes the slice under its readers: a caller maps only what is
/// never rewritten (and is removed, if at all, by its name).
pub struct Map {
    /// Goes before the map.
    _named: Option<Named>,
    /// None where the map is empty.
    map: Option<Mmap>,
}

/// Maps the first `len` bytes of `file`, read-only. `path` is what it is called where reading it fails.
///
/// # Errors
///
/// `UnexpectedEof` where the file is shorter than `len`; the system's own where it refuses the map.
pub fn map(file: &File, len: u64, path: &Path) -> io::Result<Map> {
    let have = file.metadata()?.len();
    if have < len {
        let why = format!("a map of {len} bytes was wanted, the file has {have}: was it cut short?");
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
    }
    if len == 0 {
        return Ok(Map { _named: None, map: None });
    }
    let bytes = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
    // SAFETY: the map is read-only and inside the file as it is now. That the file is not cut or
    // rewritten later is the caller's side of the bargain, written at `Map`.
    let map = unsafe { MmapOptions::new().len(bytes).map(file)? };
    Ok(Map { _named: bus_error::name(&map, path), map: Some(map) })
}

impl Map {
    /// Says that reads come at random places, so that the system reads no neighbours ahead.
    pub fn advise_random(&self) {
        #[cfg(unix)]
        self.advise(memmap2::Advice::Random);
    }

    /// Says that reads go from the start to the end, so that the system reads well ahead.
    pub fn advise_sequential(&self) {
        #[cfg(unix)]
        self.advise(memmap2::Advice::Sequential);
    }

    /// Asks the system to start reading these bytes now, without waiting for them.
    ///
    /// What lies outside the map is left out.
    pub fn advise_will_need(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let Some(map) = &self.map {
            let end = range.end.min(map.len());
            if range.start < end {
                let _ = map.advise_range(memmap2::Advice::WillNeed, range.start, end - range.start);
            }
        }
    }

    /// Whether all pages of these bytes are in memory, as far as the system tells; what lies outside the map is left out.
    /// Where it does not tell, they count as there.
    #[cfg(all(target_os = "linux", not(miri)))]
    pub fn is_resident(&self, range: Range<usize>) -> bool {
        let Some(map) = &self.map else { return true };
        let (start, end) = (range.start / PAGE_BYTES * PAGE_BYTES, range.end.min(map.len()));
        if start >= end {
            return true;
        }
        let mut pages = [0_u8; RESIDENT_PAGES];
        (start..end).step_by(RESIDENT_PAGES * PAGE_BYTES).all(|at| {
            let count = (end - at).div_ceil(PAGE_BYTES).min(RESIDENT_PAGES);
            // SAFETY: `at` is a multiple of the page size within the map, which is page-aligned and lives as long as `self`;
            // the call writes one byte for each of `count` pages, which `pages` has room for.
            let told = unsafe {
                let address = map.as_ptr().add(at).cast_mut().cast::<libc::c_void>();
                libc::mincore(address, count * PAGE_BYTES, pages.as_mut_ptr())
            };
            told != 0 || pages[..count].iter().all(|page| page & 1 != 0)
        })
    }

    /// Not told here.
    #[cfg(not(all(target_os = "linux", not(miri))))]
    pub fn is_resident(&self, _: Range<usize>) -> bool {
        true
    }

    /// Passes a hint on; a system that does not take it is not at fault.
    #[cfg(unix)]
    fn advise(&self, advice: memmap2::Advice) {
        if let Some(map) = &self.map {
            let _ = map.advise(advice);
        }
    }
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
