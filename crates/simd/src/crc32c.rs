//! CRC-32C (Castagnoli), the checksum of LevelDB.

/// The CRC-32C of `data`.
#[must_use]
pub fn crc32c(data: &[u8]) -> u32 {
    append(0, data)
}

/// The CRC-32C of what `crc` is the CRC-32C of, followed by `data`.
#[must_use]
pub fn append(crc: u32, data: &[u8]) -> u32 {
    let mut crc = !crc;
    for byte in data {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ (0x82F6_3B78 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}
