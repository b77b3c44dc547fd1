//! A growing byte buffer that moves to a file when it is large.
//!
//! [`Spill`] is a `Vec<u8>` up to a limit. Beyond it the bytes are in a file without a name, which is mapped: the
//! system writes such pages out, and drops them when memory is needed, so they do not count as anonymous memory. The
//! file is removed with its bytes. [`SpillFiles`] makes such files, and is passed to the code that makes a spill.
//! Without it, or if the disk has no space, the bytes stay in memory.
//!
//! Absent on purpose: the directory, and the disk space to keep free (the caller decides); shrinking.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::MmapMut;

use crate::bus_error::{self, Named};

/// Makes a zeroed file of this number of bytes, without a name and with reserved disk space.
type Make = dyn Fn(u64) -> io::Result<File> + Send + Sync;

/// Makes files for large data, in one directory; the default makes no files. A clone makes them in the same directory.
#[derive(Clone, Default)]
pub struct SpillFiles(Option<Arc<Source>>);

struct Source {
    /// The name of the files in messages about failed reads.
    name: PathBuf,
    make: Box<Make>,
}

impl SpillFiles {
    /// Files made by `make`, which are in `dir`. Each of them must be zeroed, have the requested length and reserved
    /// disk space for it, and no name by which another program could open it.
    #[must_use]
    pub fn new(dir: &Path, make: impl Fn(u64) -> io::Result<File> + Send + Sync + 'static) -> SpillFiles {
        SpillFiles(Some(Arc::new(Source { name: dir.join("(a file without a name)"), make: Box::new(make) })))
    }

    /// An empty spill: its bytes stay in memory up to the limit of the type, and move to a file beyond it.
    #[must_use]
    pub fn empty<const IN_MEMORY: usize>(&self) -> Spill<IN_MEMORY> {
        Spill { held: Held::Memory(Vec::new()), limit: IN_MEMORY, files: self.clone() }
    }

    /// [`SpillFiles::empty`] with capacity for `bytes`.
    #[must_use]
    pub fn with_capacity<const IN_MEMORY: usize>(&self, bytes: usize) -> Spill<IN_MEMORY> {
        let mut spill = self.empty();
        spill.reserve(bytes);
        spill
    }

    /// A spill of `bytes` zero bytes.
    #[must_use]
    pub fn zeroed<const IN_MEMORY: usize>(&self, bytes: usize) -> Spill<IN_MEMORY> {
        let mut spill = if bytes > IN_MEMORY { self.with_capacity(bytes) } else { self.empty() };
        match &mut spill.held {
            Held::Memory(held) => *held = vec![0; bytes], // The zeros come from the system and are not written.
            Held::File(file) => file.used = bytes,
        }
        spill
    }
}

impl fmt::Debug for SpillFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(source) => write!(f, "SpillFiles({})", source.name.display()),
            None => f.write_str("SpillFiles(none)"),
        }
    }
}

/// A growing byte buffer: in memory up to `IN_MEMORY` bytes, in a file beyond.
pub struct Spill<const IN_MEMORY: usize = { 4 << 20 }> {
    held: Held,
    /// Maximum bytes kept in memory; unlimited once a file could not be made.
    limit: usize,
    files: SpillFiles,
}

enum Held {
    Memory(Vec<u8>),
    File(FileBytes),
}

/// The first bytes of a mapped file.
struct FileBytes {
    /// Dropped before the map.
    _named: Option<Named>,
    map: MmapMut,
    used: usize,
}

impl FileBytes {
    /// A file of `bytes` that begins with `start`; `None` if it cannot be made.
    fn new(files: &SpillFiles, bytes: usize, start: &[u8]) -> Option<FileBytes> {
        if cfg!(miri) {
            return None; // Miri has no file maps.
        }
        let source = files.0.as_deref()?;
        let file = (source.make)(bytes as u64).ok()?;
        // Access to a map beyond the end of its file would be a signal.
        let len = file.metadata().ok()?.len();
        // SAFETY: the file has no name, and its handle goes at the end of this function: nothing else reads, writes or
        // cuts it.
        let mut map = unsafe { MmapMut::map_mut(&file) }.ok().filter(|_| len == bytes as u64)?;
        map[..start.len()].copy_from_slice(start);
        Some(FileBytes { _named: bus_error::name(&map, &source.name), map, used: start.len() })
    }
}

impl<const IN_MEMORY: usize> Spill<IN_MEMORY> {
    /// An empty spill that never uses a file.
    #[must_use]
    pub const fn new() -> Spill<IN_MEMORY> {
        Spill { held: Held::Memory(Vec::new()), limit: IN_MEMORY, files: SpillFiles(None) }
    }

    /// Reserves capacity for `more` bytes.
    fn reserve(&mut self, more: usize) {
        let used = self.len();
        let wanted = self.len() + more;
        match &mut self.held {
            Held::Memory(bytes) if wanted <= self.limit => return bytes.reserve(more),
            Held::File(file) if wanted <= file.map.len() => return,
            Held::Memory(_) | Held::File(_) => {}
        }
        // Grows like a vector, so that small appended pieces are copied a few times only.
        match FileBytes::new(&self.files, wanted.max(used * 2), self) {
            Some(file) => self.held = Held::File(file),
            None => {
                let mut bytes = Vec::with_capacity(wanted);
                bytes.extend_from_slice(self);
                self.held = Held::Memory(bytes);
                self.limit = usize::MAX;
            }
        }
    }

    /// Appends bytes.
    #[inline]
    pub fn extend_from_slice(&mut self, more: &[u8]) {
        match &mut self.held {
            Held::Memory(bytes) if more.len() <= self.limit.saturating_sub(bytes.len()) => {
                bytes.extend_from_slice(more)
            }
            Held::Memory(_) | Held::File(_) => self.extend_beyond(more),
        }
    }

    #[cold]
    fn extend_beyond(&mut self, more: &[u8]) {
        self.reserve(more.len());
        match &mut self.held {
            Held::Memory(bytes) => bytes.extend_from_slice(more),
            Held::File(file) => {
                file.map[file.used..file.used + more.len()].copy_from_slice(more);
                file.used += more.len();
            }
        }
    }

    /// Keeps at most the first `bytes`.
    pub fn truncate(&mut self, bytes: usize) {
        match &mut self.held {
            Held::Memory(held) => held.truncate(bytes),
            Held::File(file) => file.used = file.used.min(bytes),
        }
    }

    /// Capacity in bytes, in memory or in a file.
    #[must_use]
    pub fn capacity(&self) -> usize {
        match &self.held {
            Held::Memory(bytes) => bytes.capacity(),
            Held::File(file) => file.map.len(),
        }
    }

    /// Whether the bytes are in a file.
    fn is_in_file(&self) -> bool {
        matches!(self.held, Held::File(_))
    }
}

impl<const IN_MEMORY: usize> Default for Spill<IN_MEMORY> {
    fn default() -> Spill<IN_MEMORY> {
        Spill::new()
    }
}

impl<const IN_MEMORY: usize> From<&[u8]> for Spill<IN_MEMORY> {
    fn from(bytes: &[u8]) -> Spill<IN_MEMORY> {
        Spill { held: Held::Memory(bytes.to_vec()), limit: usize::MAX, files: SpillFiles(None) }
    }
}

impl<const IN_MEMORY: usize> Clone for Spill<IN_MEMORY> {
    fn clone(&self) -> Spill<IN_MEMORY> {
        let mut copy = self.files.with_capacity(self.len());
        copy.extend_from_slice(self);
        copy
    }
}

impl<const IN_MEMORY: usize> Deref for Spill<IN_MEMORY> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.held {
            Held::Memory(bytes) => bytes,
            Held::File(file) => &file.map[..file.used],
        }
    }
}

impl<const IN_MEMORY: usize> DerefMut for Spill<IN_MEMORY> {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.held {
            Held::Memory(bytes) => bytes,
            Held::File(file) => &mut file.map[..file.used],
        }
    }
}

impl<const IN_MEMORY: usize> AsRef<[u8]> for Spill<IN_MEMORY> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl<const IN_MEMORY: usize, T: AsRef<[u8]>> PartialEq<T> for Spill<IN_MEMORY> {
    fn eq(&self, other: &T) -> bool {
        self[..] == *other.as_ref()
    }
}

impl<const IN_MEMORY: usize> fmt::Debug for Spill<IN_MEMORY> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Spill({} bytes{})", self.len(), if self.is_in_file() { ", in a file" } else { "" })
    }
}

#[cfg(all(test, not(miri)))] // Miri has no file maps.
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
    use testkit::Rng;

    /// Files that are still given; below 0 none is.
    static LEFT: AtomicI64 = AtomicI64::new(-1);

    fn make(bytes: u64) -> io::Result<File> {
        if LEFT.fetch_sub(1, Relaxed) <= 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let file = tempfile::tempfile()?;
        file.set_len(bytes)?;
        Ok(file)
    }

    /// A vector of the same bytes is what it must be like at each step, with files, without, and where they run out.
    #[test]
    fn spill_holds_what_a_vector_holds() {
        let source = SpillFiles::new(Path::new("somewhere"), make);
        let mut rng = Rng::new(7);
        for files in [i64::MAX, 0, 1, 2, 3] {
            for begun in 0..3 {
                LEFT.store(files, Relaxed);
                let capacity = [0, 100, 5000][begun];
                let mut spill = source.with_capacity::<1000>(capacity);
                let mut twin = Vec::new();
                if begun == 2 {
                    (spill, twin) = (source.zeroed(capacity), vec![0; capacity]);
                }
                for step in 0..400 {
                    let more: Vec<u8> = (0..rng.below(200)).map(|_| rng.below(256) as u8).collect();
                    spill.extend_from_slice(&more);
                    twin.extend_from_slice(&more);
                    if rng.below(60) == 0 {
                        let bytes = rng.below(twin.len() + 10);
                        spill.truncate(bytes);
                        twin.truncate(bytes);
                    }
                    if let Some(last) = spill.last_mut() {
                        *last ^= 1;
                        *twin.last_mut().unwrap() ^= 1;
                    }
                    assert!(spill == twin, "{files} files, begun {begun}, step {step}");
                    assert!(spill.capacity() >= spill.len());
                }
                assert!(spill.is_in_file() || files < 4, "{files} files: {spill:?}");
                assert!(!spill.is_in_file() || files > 0, "{files} files: {spill:?}");
                assert!(spill.clone() == twin);
            }
        }
    }

    #[test]
    fn few_bytes_stay_in_memory() {
        let source = SpillFiles::new(Path::new("somewhere"), |_| panic!("no file is wanted"));
        let mut spill = source.with_capacity::<1000>(1000);
        spill.extend_from_slice(&[7; 1000]);
        assert!(!spill.is_in_file() && spill.len() == 1000, "{spill:?}");
        assert_eq!(format!("{:?}", Spill::<1>::new()), "Spill(0 bytes)");
    }

    /// Spills of two directories at the same time: each takes files of its own.
    #[test]
    fn sources_are_apart() {
        let counted = |count: &Arc<AtomicI64>| {
            let count = Arc::clone(count);
            SpillFiles::new(Path::new("somewhere"), move |bytes| {
                count.fetch_add(1, Relaxed);
                let file = tempfile::tempfile()?;
                file.set_len(bytes)?;
                Ok(file)
            })
        };
        let counts = [Arc::default(), Arc::default()];
        let [first, second] = [counted(&counts[0]), counted(&counts[1])];
        let mut spills = [first.empty::<10>(), second.empty(), first.empty(), Spill::new()];
        spills.iter_mut().for_each(|spill| spill.extend_from_slice(&[1; 11]));
        let copy = spills[1].clone();
        assert_eq!(spills.each_ref().map(Spill::is_in_file), [true, true, true, false]);
        assert!(copy.is_in_file() && copy == spills[3]);
        assert_eq!(counts.map(|count| count.load(Relaxed)), [2, 2]);
    }
}
