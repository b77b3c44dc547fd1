//! The machine as a job uses it: handed down to whatever opens a file of a data directory.
//!
//! Two jobs of one process may have different ones: nothing here is a property of the process.

use disk::Disk;
use kernels::Kernels;
use std::sync::Arc;
use sys::spill::SpillFiles;

/// Disk, kernels, and files for many bytes. Where the disk alone is given, the kernels are the fastest of this processor, and
/// all bytes stay in memory.
#[derive(Clone, Debug)]
pub struct Host {
    /// Where files lie.
    pub disk: Arc<dyn Disk>,
    /// What hashes, undoes obfuscation, and computes checksums.
    pub kernels: Kernels,
    /// Where undo data of large blocks lies.
    pub spill: SpillFiles,
}

impl Host {
    /// This disk and these kernels; all bytes stay in memory.
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
