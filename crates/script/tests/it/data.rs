//! How the pieces of Core's vectors are read.

use primitives::{Amount, Reader, hex};
use script::{Flags, SpentOutput};
use serde_json::Value;
use testkit::Rng;

pub(crate) fn json(name: &str) -> Option<Value> {
    testkit::data::load(name).map(|bytes| serde_json::from_slice(&bytes).unwrap())
}

pub(crate) fn unhex(value: &Value) -> Vec<u8> {
    hex::decode(value.as_str().unwrap()).unwrap_or_else(|| panic!("{value} is not hexadecimal"))
}

/// Flags by names with commas between; "NONE" and an empty text are no flags.
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
pub(crate) fn random_flags(rng: &mut Rng) -> Flags {
    let bits = rng.u64();
    let chosen = Flags::NAMES.iter().enumerate().filter(|(at, _)| bits >> (at + 8) & 1 == 1);
    chosen.fold(Flags::NONE, |flags, (_, &(_, flag))| flags | flag)
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
