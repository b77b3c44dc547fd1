//! Where test data lies, and how its pieces are read.
//!
//! Folder: `FFWD_TEST_DATA`, else `../shared/data` beside the workspace. Without it a test says that it skips, and
//! passes.

use primitives::{Amount, Reader, hex};
use script::{Flags, SpentOutput};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The file of that name, unless there is no test data at all.
pub(crate) fn path(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("FFWD_TEST_DATA").map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"));
    if !folder.is_dir() {
        println!("skipped: no test data in {}", folder.display());
        return None;
    }
    Some(folder.join(name))
}

/// A file, decompressed when its name ends in `.xz`.
pub(crate) fn bytes(name: &str) -> Option<Vec<u8>> {
    let path = path(name)?;
    let bytes = std::fs::read(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    if !name.ends_with(".xz") {
        return Some(bytes);
    }
    let mut out = Vec::new();
    std::io::Read::read_to_end(&mut liblzma::read::XzDecoder::new(&bytes[..]), &mut out).unwrap();
    Some(out)
}

pub(crate) fn json(name: &str) -> Option<Value> {
    bytes(name).map(|bytes| serde_json::from_slice(&bytes).unwrap())
}

pub(crate) fn unhex(value: &Value) -> Vec<u8> {
    hex::decode(value.as_str().unwrap()).unwrap_or_else(|| panic!("{value} is not hexadecimal"))
}

/// Flags by names with commas between; "NONE" and nothing are none.
pub(crate) fn flags(names: &str) -> Flags {
    names
        .split(',')
        .filter(|name| !name.is_empty() && *name != "NONE")
        .fold(Flags::NONE, |flags, name| flags | Flags::from_name(name).unwrap_or_else(|| panic!("no flag {name}")))
}

/// Adds what WITNESS and CLEANSTACK need.
pub(crate) fn filled(mut flags: Flags) -> Flags {
    if flags.has(Flags::CLEANSTACK) {
        flags |= Flags::WITNESS;
    }
    if flags.has(Flags::WITNESS) {
        flags |= Flags::P2SH;
    }
    flags
}

/// Leaves out WITNESS and CLEANSTACK where they lack what they need.
pub(crate) fn trimmed(mut flags: Flags) -> Flags {
    if !flags.has(Flags::P2SH) {
        flags = flags & !Flags::WITNESS;
    }
    if !flags.has(Flags::WITNESS) {
        flags = flags & !Flags::CLEANSTACK;
    }
    flags
}

/// Random flags, the same on every run.
pub(crate) fn random_flags(state: &mut u64) -> Flags {
    let bits = next(state);
    let chosen = Flags::NAMES.iter().enumerate().filter(|(at, _)| bits >> (at + 8) & 1 == 1);
    chosen.fold(Flags::NONE, |flags, (_, &(_, flag))| flags | flag)
}

/// A small generator: splitmix64.
pub(crate) fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Serialized outputs, one after another.
pub(crate) fn outputs(bytes: &[u8]) -> Vec<SpentOutput<'_>> {
    let mut reader = Reader::new(bytes);
    let mut outputs = Vec::new();
    while reader.remaining() > 0 {
        let value = Amount(reader.u64().unwrap().cast_signed());
        let length = reader.compact_size().unwrap();
        outputs.push(SpentOutput { value, script: reader.take(length).unwrap() });
    }
    outputs
}

/// Whether the long form of a test was asked for.
pub(crate) fn slow() -> bool {
    std::env::var_os("SLOW").is_some_and(|value| value != "0")
}
