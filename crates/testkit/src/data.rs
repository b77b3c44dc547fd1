//! External test data: real blocks, real chains, Core's test vectors.
//!
//! The data is in the directory `FFWD_TEST_DATA`, by default `../shared/data` relative to the project. Without it a
//! test prints that it skips, and passes. If the directory lacks a file, it is another version of the data, and the
//! test fails.

use std::io::Read;
use std::path::{Path, PathBuf};

/// The directory of the data. If it is missing, prints that the test skips.
#[must_use]
pub fn dir() -> Option<PathBuf> {
    let dir = std::env::var_os("FFWD_TEST_DATA")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")), PathBuf::from);
    if dir.is_dir() {
        return Some(dir);
    }
    println!("skipped: no test data in {} (FFWD_TEST_DATA names its directory)", dir.display());
    None
}

/// The path of a file of the data.
#[must_use]
pub fn path(name: &str) -> Option<PathBuf> {
    dir().map(|dir| dir.join(name))
}

/// The bytes of a file of the data, decompressed if its name ends in `.xz`.
///
/// # Panics
///
/// If the data exists but this file does not.
#[must_use]
pub fn load(name: &str) -> Option<Vec<u8>> {
    path(name).map(|path| read(&path))
}

/// The bytes of a file, decompressed if its name ends in `.xz`.
///
/// # Panics
///
/// If it cannot be read or decompressed.
#[must_use]
pub fn read(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    if path.extension().is_none_or(|ending| ending != "xz") {
        return bytes;
    }
    let mut out = Vec::new();
    let unpacked = liblzma::read::XzDecoder::new(&bytes[..]).read_to_end(&mut out);
    unpacked.unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    out
}

/// The blocks of consecutive records `magic | size u32 LE | block`; zeros after the last record are ignored.
///
/// # Panics
///
/// If a record is truncated.
#[must_use]
pub fn records(bytes: &[u8]) -> Vec<&[u8]> {
    let (mut blocks, mut rest) = (Vec::new(), bytes);
    while rest.len() >= 8 && rest[..4] != [0; 4] {
        let size = u32::from_le_bytes([rest[4], rest[5], rest[6], rest[7]]) as usize;
        blocks.push(&rest[8..8 + size]);
        rest = &rest[8 + size..];
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_end_at_the_padding() {
        let file = [&[1, 2, 3, 4, 2, 0, 0, 0, 9, 8][..], &[1, 2, 3, 4, 0, 0, 0, 0], &[0; 40]].concat();
        assert_eq!(records(&file), [&[9, 8][..], &[]]);
        assert!(records(&[]).is_empty());
    }
}
