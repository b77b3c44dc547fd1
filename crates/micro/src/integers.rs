//! Experiment: Core's two variable-length integers, read and written.
//!
//! Most have one byte: lengths of scripts, counts of inputs and outputs, numbers of outputs.

use crate::bench::Bench;
use crate::input::{Inputs, Rng};
use crate::{Error, Experiment};
use primitives::Reader;
use primitives::encode::{put_compact_size, put_varint, put_varint_plain, varint_bytes};
use std::hint::cold_path;
use std::io::{Read, Write};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    tables: &[
        READ_SHORT,
        READ_LONG,
        WRITE_SHORT,
        WRITE_LONG,
        VARINT_READ_SHORT,
        VARINT_READ_LONG,
        VARINT_WRITE_SHORT,
        VARINT_WRITE_LONG,
        VARINT_SIZE_SHORT,
        VARINT_SIZE_LONG,
    ],
    run,
};

const READ_SHORT: &str = "CompactSize: reading, one byte";
const READ_LONG: &str = "CompactSize: reading, one to five bytes";
const WRITE_SHORT: &str = "CompactSize: writing, one byte";
const WRITE_LONG: &str = "CompactSize: writing, one to five bytes";
const VARINT_READ_SHORT: &str = "VARINT: reading, one byte";
const VARINT_READ_LONG: &str = "VARINT: reading, one to five bytes";
const VARINT_WRITE_SHORT: &str = "VARINT: writing, one byte";
const VARINT_WRITE_LONG: &str = "VARINT: writing, one to five bytes";
const VARINT_SIZE_SHORT: &str = "VARINT: sizing, one byte";
const VARINT_SIZE_LONG: &str = "VARINT: sizing, one to five bytes";

fn run(bench: &mut Bench<'_>, _: &Inputs) -> Result<(), Error> {
    let count = bench.size(200, 20_000);
    let mut rng = Rng(5);
    let short: Vec<u64> = (0..count).map(|_| rng.below(253)).collect();
    let long: Vec<u64> = (0..count).map(|at| rng.below([253, 0x1_0000, 0x200_0000][at % 3])).collect();
    let digit: Vec<u64> = (0..count).map(|_| rng.below(128)).collect();
    let coins: Vec<u64> = (0..count).map(|at| rng.below([128, 2_000_000, 1 << 33][at % 3])).collect();
    read_compact(bench, READ_SHORT, &short)?;
    read_compact(bench, READ_LONG, &long)?;
    write_compact(bench, WRITE_SHORT, &short)?;
    write_compact(bench, WRITE_LONG, &long)?;
    read_varint(bench, VARINT_READ_SHORT, &digit)?;
    read_varint(bench, VARINT_READ_LONG, &coins)?;
    write_varint(bench, VARINT_WRITE_SHORT, &digit)?;
    write_varint(bench, VARINT_WRITE_LONG, &coins)?;
    size_varint(bench, VARINT_SIZE_SHORT, &digit)?;
    size_varint(bench, VARINT_SIZE_LONG, &coins)
}

fn sum(digest: u64, value: u64) -> u64 {
    digest.rotate_left(5) ^ value
}

fn read_compact(bench: &mut Bench<'_>, name: &'static str, values: &[u64]) -> Result<(), Error> {
    let mut bytes = Vec::new();
    values.iter().for_each(|&value| put_compact_size(&mut bytes, value));
    let bytes = &bytes[..];
    let count = values.len();
    let all = move |read: fn(&mut &[u8]) -> u64| {
        let mut rest = bytes;
        (0..count).fold(0, |digest, _| sum(digest, read(&mut rest)))
    };
    let Some(mut table) = bench.table(name, "integer", values.len()) else { return Ok(()) };
    table.way("loop per byte", move || all(compact_by_bytes));
    table.way("early return for one byte", move || all(compact_early));
    table.way("early return, the rest marked cold", move || all(compact_cold));
    table.way("one chunk", move || all(compact_chunk));
    let inlined = move || {
        let mut reader = Reader::new(bytes);
        (0..count).fold(0, |digest, _| sum(digest, reader.compact_size().map_or(0, |value| value as u64)))
    };
    table.way("early return, inlined, checked", inlined).shipped();
    bench.run(table)
}

/// Each byte separately through `Read`, as from a stream.
#[inline(never)]
fn compact_by_bytes(from: &mut &[u8]) -> u64 {
    let mut byte = || {
        let mut one = [0];
        from.read_exact(&mut one).map_or(0, |()| u64::from(one[0]))
    };
    let bytes = match byte() {
        253 => 2,
        254 => 4,
        255 => 8,
        small => return small,
    };
    (0..bytes).fold(0, |value, at| value | byte() << (8 * at))
}

#[inline(never)]
fn compact_early(from: &mut &[u8]) -> u64 {
    match from.split_first() {
        Some((&small @ 0..=252, rest)) => {
            *from = rest;
            u64::from(small)
        }
        _ => compact_by_bytes(from),
    }
}

/// Reads a CompactSize, with a hint like Core's `[[likely]]`.
#[inline(never)]
fn compact_cold(from: &mut &[u8]) -> u64 {
    match from.split_first() {
        Some((&small @ 0..=252, rest)) => {
            *from = rest;
            u64::from(small)
        }
        _ => {
            cold_path();
            compact_by_bytes(from)
        }
    }
}

#[inline(never)]
fn compact_chunk(from: &mut &[u8]) -> u64 {
    let Some((&first, rest)) = from.split_first() else { return 0 };
    let bytes = match first {
        253 => 2,
        254 => 4,
        255 => 8,
        small => {
            *from = rest;
            return u64::from(small);
        }
    };
    let (chunk, rest) = rest.split_at(bytes);
    *from = rest;
    let mut value = [0; 8];
    value[..bytes].copy_from_slice(chunk);
    u64::from_le_bytes(value)
}

fn write_compact(bench: &mut Bench<'_>, name: &'static str, values: &[u64]) -> Result<(), Error> {
    let Some(mut table) = bench.table(name, "integer", values.len()) else { return Ok(()) };
    let all = move |write: fn(&mut Vec<u8>, u64)| {
        let mut out = Vec::with_capacity(values.len() * 5);
        values.iter().for_each(|&value| write(&mut out, value));
        out
    };
    table.way("byte after byte", move || all(write_by_bytes));
    table.way("early return for one byte", move || all(write_fields));
    table.way("one chunk", move || all(write_chunk));
    let inlined = move || {
        let mut out = Vec::with_capacity(values.len() * 5);
        values.iter().for_each(|&value| put_compact_size(&mut out, value));
        out
    };
    table.way("early return, inlined", inlined).shipped();
    bench.run(table)
}

#[inline(never)]
fn write_by_bytes(out: &mut Vec<u8>, value: u64) {
    let (marker, bytes) = match value {
        0..=252 => (None, 1),
        253..=0xffff => (Some(253), 2),
        0x1_0000..=0xffff_ffff => (Some(254), 4),
        _ => (Some(255), 8),
    };
    for byte in marker.into_iter().chain(value.to_le_bytes().into_iter().take(bytes)) {
        out.write_all(&[byte]).expect("memory takes everything");
    }
}

#[inline(never)]
fn write_fields(out: &mut Vec<u8>, value: u64) {
    crate::owned::write_compact_size(out, value).expect("memory takes everything");
}

#[inline(never)]
fn write_chunk(out: &mut Vec<u8>, value: u64) {
    let mut chunk = [0; 9];
    let bytes = match value {
        0..=252 => {
            chunk[0] = value as u8;
            1
        }
        253..=0xffff => {
            chunk[0] = 253;
            chunk[1..3].copy_from_slice(&(value as u16).to_le_bytes());
            3
        }
        _ => {
            chunk[0] = 254;
            chunk[1..5].copy_from_slice(&(value as u32).to_le_bytes());
            5
        }
    };
    out.extend_from_slice(&chunk[..bytes]);
}

fn read_varint(bench: &mut Bench<'_>, name: &'static str, values: &[u64]) -> Result<(), Error> {
    let mut bytes = Vec::new();
    values.iter().for_each(|&value| put_varint(&mut bytes, value));
    let bytes = &bytes[..];
    let count = values.len();
    let all = move |read: fn(&mut &[u8]) -> u64| {
        let mut rest = bytes;
        (0..count).fold(0, |digest, _| sum(digest, read(&mut rest)))
    };
    let Some(mut table) = bench.table(name, "integer", values.len()) else { return Ok(()) };
    table.way("loop per byte", move || all(varint_by_bytes));
    table.way("early return for one byte", move || all(varint_early));
    table.way("chunk of eight bytes", move || all(varint_chunk));
    let inlined = move || {
        let mut reader = Reader::new(bytes);
        (0..count).fold(0, |digest, _| sum(digest, reader.varint().unwrap_or(0)))
    };
    table.way("loop over a slice, inlined, checked", inlined).shipped();
    bench.run(table)
}

#[inline(never)]
fn varint_by_bytes(from: &mut &[u8]) -> u64 {
    let mut value = 0;
    loop {
        let mut one = [0];
        if from.read_exact(&mut one).is_err() {
            return value;
        }
        value = value << 7 | u64::from(one[0] & 0x7f);
        if one[0] & 0x80 == 0 {
            return value;
        }
        value += 1;
    }
}

#[inline(never)]
fn varint_early(from: &mut &[u8]) -> u64 {
    match from.split_first() {
        Some((&small @ 0..=127, rest)) => {
            *from = rest;
            u64::from(small)
        }
        _ => varint_by_bytes(from),
    }
}

/// Finds the end with one operation, then puts the digits together.
#[inline(never)]
fn varint_chunk(from: &mut &[u8]) -> u64 {
    let Some(chunk) = from.first_chunk::<8>() else { return varint_by_bytes(from) };
    let ends = !u64::from_le_bytes(*chunk) & 0x8080_8080_8080_8080;
    if ends == 0 {
        return varint_by_bytes(from);
    }
    let bytes = ends.trailing_zeros() as usize / 8 + 1;
    let (now, rest) = from.split_at(bytes);
    *from = rest;
    let (last, digits) = now.split_last().expect("one byte at least");
    let head = digits.iter().fold(0, |value, &digit| (value << 7 | u64::from(digit & 0x7f)) + 1);
    head << 7 | u64::from(*last)
}

fn write_varint(bench: &mut Bench<'_>, name: &'static str, values: &[u64]) -> Result<(), Error> {
    let Some(mut table) = bench.table(name, "integer", values.len()) else { return Ok(()) };
    let all = move |write: fn(&mut Vec<u8>, u64)| {
        let mut out = Vec::with_capacity(values.len() * 10);
        values.iter().for_each(|&value| write(&mut out, value));
        out
    };
    table.way("byte after byte", move || all(varint_write_by_bytes));
    table.way("early return for one byte", move || all(varint_write_early));
    table.way("one chunk", move || all(varint_write_chunk));
    let pushed = move || {
        let mut out = Vec::with_capacity(values.len() * 10);
        values.iter().for_each(|&value| put_varint_plain(&mut out, value));
        out
    };
    table.way("digits pushed, inlined", pushed);
    let inlined = move || {
        let mut out = Vec::with_capacity(values.len() * 10);
        values.iter().for_each(|&value| put_varint(&mut out, value));
        out
    };
    table.way("early return, digits in one word, inlined", inlined).shipped();
    bench.run(table)
}

fn varint_digits(mut value: u64) -> (usize, [u8; 10]) {
    let mut digits = [0; 10];
    let mut at = 9;
    digits[at] = (value & 0x7f) as u8;
    while value > 0x7f {
        value = (value >> 7) - 1;
        at -= 1;
        digits[at] = (value & 0x7f) as u8 | 0x80;
    }
    (at, digits)
}

#[inline(never)]
fn varint_write_by_bytes(out: &mut Vec<u8>, value: u64) {
    let (at, digits) = varint_digits(value);
    for digit in &digits[at..] {
        out.write_all(&[*digit]).expect("memory takes everything");
    }
}

#[inline(never)]
fn varint_write_early(out: &mut Vec<u8>, value: u64) {
    if value < 0x80 {
        out.push(value as u8);
    } else {
        varint_write_by_bytes(out, value);
    }
}

#[inline(never)]
fn varint_write_chunk(out: &mut Vec<u8>, value: u64) {
    let (at, digits) = varint_digits(value);
    out.extend_from_slice(&digits[at..]);
}

fn size_varint(bench: &mut Bench<'_>, name: &'static str, values: &[u64]) -> Result<(), Error> {
    let Some(mut table) = bench.table(name, "integer", values.len()) else { return Ok(()) };
    let all = move |size: fn(u64) -> usize| values.iter().map(|&value| size(value)).sum::<usize>();
    table.way("written to a counter, byte after byte", move || all(varint_size_by_writing));
    table.way("loop per digit", move || all(varint_size_by_digits));
    let compared = move || values.iter().map(|&value| varint_size_by_bounds(value)).sum::<usize>();
    table.way("compared with each bound, inlined", compared);
    let inlined = move || values.iter().map(|&value| varint_bytes(value)).sum::<usize>();
    table.way("digits made, inlined", inlined).shipped();
    bench.run(table)
}

#[inline(never)]
fn varint_size_by_writing(value: u64) -> usize {
    let mut counter = crate::owned::Counter::default();
    let (at, digits) = varint_digits(value);
    for digit in &digits[at..] {
        counter.write_all(&[*digit]).expect("counting cannot fail");
    }
    counter.0 as usize
}

/// Like Core's `GetSizeOfVarInt`.
#[inline(never)]
fn varint_size_by_digits(mut value: u64) -> usize {
    let mut bytes = 1;
    while value > 0x7f {
        value = (value >> 7) - 1;
        bytes += 1;
    }
    bytes
}

/// Numbers of up to 33 bits, as in a coin.
#[inline]
fn varint_size_by_bounds(value: u64) -> usize {
    const BOUNDS: [u64; 5] = [0x80, 0x4080, 0x20_4080, 0x1020_4080, 0x8_1020_4080];
    1 + BOUNDS.iter().map(|&bound| usize::from(value >= bound)).sum::<usize>()
}
