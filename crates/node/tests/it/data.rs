//! Where test data lies: `FFWD_TEST_DATA`, else `../shared/data` beside the project.

use std::io::Read;
use std::path::PathBuf;

/// The bytes of a file of the test data, unpacked; none, with a word about it, where the data is not there.
pub(crate) fn load(name: &str) -> Option<Vec<u8>> {
    let folder = std::env::var_os("FFWD_TEST_DATA")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")), PathBuf::from);
    let path = folder.join(name);
    let Ok(bytes) = std::fs::read(&path) else {
        println!("skipped: {} is not there (set FFWD_TEST_DATA)", path.display());
        return None;
    };
    if !name.ends_with(".xz") {
        return Some(bytes);
    }
    let mut out = Vec::new();
    liblzma::read::XzDecoder::new(&bytes[..]).read_to_end(&mut out).expect("test data unpacks");
    Some(out)
}

/// The blocks of a file of records.
pub(crate) fn records(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (mut blocks, mut at) = (Vec::new(), 0);
    while at + 8 <= bytes.len() {
        let size = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
        blocks.push(bytes[at + 8..at + 8 + size].to_vec());
        at += 8 + size;
    }
    blocks
}
