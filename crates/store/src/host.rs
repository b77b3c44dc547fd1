//! The machine's resources for one job: passed to everything that opens a file of a data directory.
//!
//! Two jobs of one process may use different ones: nothing here is global to the process.

use disk::Disk;
use kernels::Kernels;
use std::sync::Arc;
use sys::spill::SpillFiles;

/// Disk, kernels, and the files for large data. If only the disk is given, the kernels are the fastest of this
/// processor, and all data stays in memory.
#[derive(Clone, Debug)]
pub struct Host {
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// Kernels for hashing, obfuscation and checksums.
    pub kernels: Kernels,
    /// Files for the undo data of large blocks.
    pub spill: SpillFiles,
}

impl Host {
    /// This disk and these kernels; all data stays in memory.
    pub fn new(disk: Arc<dyn Disk>, kernels: Kernels) -> Host {
        Host { disk, kernels, spill: SpillFiles::default() }
    }
}

impl From<&Arc<dyn Disk>> for Host {
    fn from(disk: &Arc<dyn Disk>) -> Host {
        disk.clone().into()
    }
}

impl From<&Host> for Host {
    fn from(host: &Host) -> Host {
        host.clone()
    }
}

impl From<Arc<dyn Disk>> for Host {
    fn from(disk: Arc<dyn Disk>) -> Host {
        Host::new(disk, Kernels::AUTO)
    }
}
