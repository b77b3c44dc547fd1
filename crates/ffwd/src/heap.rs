//! The option `--debug heap`: records every allocation of a job with its call stack, in dhat's file format.
//!
//! Only a build with the feature `heap` supports it, because every allocation then goes through dhat, which
//! slows the job down many times. The file is [`FILE`], in the directory of debug.log; dhat's viewer
//! (dh_view.html of Valgrind) opens it.
//!
//! Without the feature the allocator is the system's. The static program uses mimalloc, because musl's allocator
//! has one lock for all threads. The program ends when memory is exhausted: `sys::allocator`.
//!
//! Absent on purpose: sampling. `lab run` records anonymous memory over time.

use crate::Failure;
use std::path::Path;
#[cfg(not(feature = "heap"))]
use sys::allocator::EndsWithoutMemory;

/// Name of the file, in the network's directory.
pub(crate) const FILE: &str = "dhat-heap.json";

#[cfg(feature = "heap")]
#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;
#[cfg(all(not(feature = "heap"), not(target_env = "musl")))]
#[global_allocator]
static ALLOCATOR: EndsWithoutMemory = EndsWithoutMemory(std::alloc::System);
#[cfg(all(not(feature = "heap"), target_env = "musl"))]
#[global_allocator]
static ALLOCATOR: EndsWithoutMemory<mimalloc::MiMalloc> = EndsWithoutMemory(mimalloc::MiMalloc);

/// Records allocations until it is ended or dropped; the file is written then.
pub(crate) struct Heap {
    #[cfg(feature = "heap")]
    _profiler: dhat::Profiler,
}

impl Heap {
    /// Writes the file.
    pub(crate) fn end(self) {}
}

/// Starts recording if `wanted`. The file is written to `dir`.
///
/// # Errors
///
/// This build lacks the feature.
#[cfg(feature = "heap")]
pub(crate) fn record(wanted: bool, dir: &Path) -> Result<Option<Heap>, Failure> {
    let profiler = || dhat::Profiler::builder().file_name(dir.join(FILE)).build();
    Ok(wanted.then(|| Heap { _profiler: profiler() }))
}

/// This build lacks the feature: always an error if `wanted`.
#[cfg(not(feature = "heap"))]
pub(crate) fn record(wanted: bool, _: &Path) -> Result<Option<Heap>, Failure> {
    if !wanted {
        return Ok(None);
    }
    Err(Failure::Usage(format!(
        "--debug heap writes {FILE} with dhat, and this ffwd was built without it: \
         build one with `cargo build --release -p ffwd --features heap`"
    )))
}

#[cfg(all(test, not(feature = "heap")))]
mod tests {
    use super::*;

    #[test]
    fn heap_without_the_feature_says_how_to_build() {
        assert!(record(false, Path::new("/nowhere")).unwrap().is_none());
        let Err(Failure::Usage(why)) = record(true, Path::new("/nowhere")) else { panic!("it was not built in") };
        assert!(why.contains("--features heap"), "{why}");
    }
}
