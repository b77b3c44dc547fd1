//! Records of block files: their limits, and their obfuscation key. Shared by all readers and writers.

use kernels::Kernels;

/// The obfuscation key of a blocks directory. All zeros: plain.
pub type Key = [u8; 8];

/// No obfuscation.
pub const NO_KEY: Key = [0; 8];

/// A key, and the kernels that apply it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Obfuscation {
    pub(crate) key: Key,
    pub(crate) kernels: Kernels,
}

impl Obfuscation {
    /// Obfuscates bytes at `offset` of their file or value, or undoes that.
    #[inline]
    pub(crate) fn apply(self, bytes: &mut [u8], offset: u64) {
        self.kernels.xor(bytes, self.key, offset);
    }
}

/// Bytes before every block: magic and size.
pub const RECORD_HEADER_BYTES: u32 = 8;
/// The smallest block size that a scan accepts: a header. Source: Core's `LoadExternalBlockFile`.
pub const SCAN_SIZE_MIN: u32 = 80;
/// The largest block size that a scan accepts. Source: Core's `MAX_BLOCK_SERIALIZED_SIZE`.
pub const SCAN_SIZE_MAX: u32 = 4_000_000;
