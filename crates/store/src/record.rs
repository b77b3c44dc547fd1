//! Records of block files: their bounds, and the key that hides them. What all who read or write such a file share.

/// The obfuscation key of a blocks directory. All zero: nothing is changed.
pub type Key = [u8; 8];

/// No obfuscation.
pub const NO_KEY: Key = [0; 8];

/// Bytes before every block: magic and size.
pub const RECORD_HEADER_BYTES: u32 = 8;
/// The smallest size that a scan takes for a block: a header. Source: Core's `LoadExternalBlockFile`.
pub const SCAN_SIZE_MIN: u32 = 80;
/// The greatest size that a scan takes for a block. Source: Core's `MAX_BLOCK_SERIALIZED_SIZE`.
pub const SCAN_SIZE_MAX: u32 = 4_000_000;
