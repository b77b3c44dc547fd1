//! The folder of real data, and how its files are packed.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `FFWD_TEST_DATA`, else `../shared/data` beside the project; says so when there is neither.
pub(crate) fn folder() -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let folder = std::env::var_os("FFWD_TEST_DATA").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: no test data in {} (set FFWD_TEST_DATA)", folder.display());
    None
}

pub(crate) fn xz(path: &Path) -> Vec<u8> {
    let file = std::fs::File::open(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let mut bytes = Vec::new();
    liblzma::read::XzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    bytes
}

/// Unpacked by the system's `bzip2`; says so when there is none.
pub(crate) fn bz2(path: &Path) -> Option<Vec<u8>> {
    match Command::new("bzip2").arg("-dc").arg(path).output() {
        Ok(output) if output.status.success() => Some(output.stdout),
        Ok(output) => panic!("{}: {}", path.display(), String::from_utf8_lossy(&output.stderr)),
        Err(why) => {
            println!("skipped: bzip2 does not run here ({why})");
            None
        }
    }
}

/// The blocks of `magic | size u32 | block` records that lie without a gap; zero padding ends them.
pub(crate) fn records(bytes: &[u8]) -> Vec<&[u8]> {
    let (mut blocks, mut rest) = (Vec::new(), bytes);
    while rest.len() >= 8 && rest[..4] != [0; 4] {
        let size = u32::from_le_bytes(rest[4..8].try_into().unwrap()) as usize;
        blocks.push(&rest[8..8 + size]);
        rest = &rest[8 + size..];
    }
    blocks
}
