//! Parses one line of a debug.log: its time, tags and message.
//!
//! Line: time | ` (mocktime: ..)`? | ` [tag]`* | ` ` | message. Time is `2026-01-01T00:00:00Z`, with `-logtimemicros`
//! `2026-01-01T00:00:00.000000Z`, and before v0.16 `2016-01-01 00:00:00`. A tag is a thread, a source position, a function,
//! a category or `background validation`. Source: Bitcoin Core b88bffe, logging.cpp `FormatLogStrInPlace`, and the logs of older versions.
//!
//! Absent on purpose: the meaning of a message for a run; see the parent module. Nothing here allocates.

use memchr::memchr;

/// Maximum number of tags of a line: thread, position, function, category, and some more.
const TAGS_MAX: usize = 6;

/// Maximum number of digits of a number that fits in 64 bits.
const DIGITS_MAX: usize = 18;

/// A parsed line. The message borrows from the line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Microseconds since 1970, as written.
    pub(super) time_us: i64,
    /// Whether the time has microseconds.
    pub(super) micros: bool,
    /// Whether it has the tag `[background validation]` or `[historical ..]`: not the active chain.
    pub(super) background: bool,
    /// The text after the tags, without leading spaces.
    pub(super) message: &'a [u8],
}

/// Parses a line without its line end; `None` if it does not begin with a time.
pub(super) fn parse(line: &[u8]) -> Option<Line<'_>> {
    let (time_us, micros, mut rest) = time(line)?;
    let mut background = false;
    for _ in 0..TAGS_MAX {
        rest = trim_start(rest);
        let (open, close) = match rest.first() {
            Some(b'[') => (1, b']'),
            Some(b'(') if rest.starts_with(b"(mocktime: ") => (1, b')'),
            _ => break,
        };
        let Some(end) = memchr(close, rest) else { break };
        background |= rest[open..end].starts_with(b"background") || rest[open..end].starts_with(b"historical");
        rest = &rest[end + 1..];
    }
    Some(Line { time_us, micros, background, message: trim_start(rest) })
}

/// Reads the time at the start of `line`: microseconds since 1970, whether it has microseconds, and the text after it.
fn time(line: &[u8]) -> Option<(i64, bool, &[u8])> {
    let head = line.get(..19)?;
    let separators =
        head[4] == b'-' && head[7] == b'-' && matches!(head[10], b'T' | b' ') && head[13] == b':' && head[16] == b':';
    if !separators {
        return None;
    }
    let year = digits(&head[..4])?;
    let month = digits(&head[5..7])?;
    let day = digits(&head[8..10])?;
    let hour = digits(&head[11..13])?;
    let minute = digits(&head[14..16])?;
    let second = digits(&head[17..19])?;
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    let mut rest = &line[19..];
    let mut us = 0;
    let micros = rest.first() == Some(&b'.');
    if micros {
        us = digits(rest.get(1..7)?)?;
        rest = &rest[7..];
    }
    rest = rest.strip_prefix(b"Z").unwrap_or(rest);
    Some((seconds * 1_000_000 + us, micros, rest))
}

/// Days from 1970-01-01 to a day of the Gregorian calendar; the year starts in March, so that the leap day is its last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468
}

/// A tip: those fields of an UpdateTip message that are drawn or compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TipFields {
    /// The last 64 bits of the displayed block hash: enough to distinguish chains.
    pub(crate) hash: u64,
    /// Height of the block.
    pub(crate) height: u32,
    /// Transactions of the chain up to this block; 0 if the line lacks them.
    pub(crate) tx: u64,
    /// Size of the coins cache in MiB; NaN if the line lacks it.
    pub(crate) cache_mib: f32,
    /// Entries of the coins cache; 0 if the line lacks them.
    pub(crate) entries: u64,
}

/// The start of an UpdateTip message, in every version that writes them.
pub(super) const TIP: &[u8] = b"UpdateTip: new best=";

/// Maximum plausible height: a thousand years of blocks are some 52 million.
const HEIGHT_MAX: u64 = 100_000_000;

/// Reads the text after [`TIP`]; `None` if the line is cut or damaged.
///
/// Fields by version: `hash height= .. log2_work= tx= date= progress=` since v0.8, `cache=N` (entries) since v0.10,
/// `cache=1.0MiB(Ntx)` since v0.11, `cache=1.0MiB(Ntxo)` since v0.15; one or two spaces between.
pub(super) fn tip(fields: &[u8]) -> Option<TipFields> {
    let hash = fields.get(..64)?;
    let mut tip = TipFields { hash: hex_u64(&hash[48..])?, height: 0, tx: 0, cache_mib: f32::NAN, entries: 0 };
    hash[..48].iter().all(u8::is_ascii_hexdigit).then_some(())?;
    let mut height = None;
    let mut progress = false;
    let mut rest = &fields[64..];
    while let Some(at) = memchr(b'=', rest) {
        let name = &rest[..at];
        let name = &name[name.iter().rposition(|&b| b == b' ').map_or(0, |space| space + 1)..];
        let value = &rest[at + 1..];
        let value = &value[..memchr(b' ', value).unwrap_or(value.len())];
        match name {
            b"height" => height = Some(leading(value)?).filter(|&h| h <= HEIGHT_MAX),
            b"tx" => tip.tx = leading(value)?,
            b"progress" => progress = true,
            b"cache" => (tip.cache_mib, tip.entries) = cache(value)?,
            _ => {}
        }
        rest = &rest[at + 1 + value.len()..];
        if name == b"cache" {
            break; // The last field that is read; a warning may follow.
        }
    }
    // A line that was cut inside a number would give a wrong number, so the field after the last needed one must be
    // present.
    progress.then_some(())?;
    tip.height = u32::try_from(height?).ok()?;
    Some(tip)
}

/// Parses `1.5MiB(12txo)`, or `12` in versions that print only the number of entries.
fn cache(value: &[u8]) -> Option<(f32, u64)> {
    let Some(open) = memchr(b'(', value) else {
        let entries = leading(value)?;
        return value.iter().all(u8::is_ascii_digit).then_some((f32::NAN, entries));
    };
    value.ends_with(b")").then_some(())?;
    Some((decimal(value)? as f32, leading(&value[open + 1..])?))
}

/// Reads the number at the start of `text` with its decimals, such as `12.50` of `12.50ms`.
pub(super) fn decimal(text: &[u8]) -> Option<f64> {
    let whole = leading(text)?;
    let width = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let Some(fraction) = text[width..].strip_prefix(b".") else { return Some(whole as f64) };
    let digits_of_fraction = fraction.iter().take_while(|b| b.is_ascii_digit()).count().min(9);
    let part = digits(&fraction[..digits_of_fraction]).unwrap_or(0);
    Some(whole as f64 + part as f64 / 10f64.powi(digits_of_fraction as i32))
}

/// Reads the decimal digits at the start of `text`; `None` without a digit, or with too many for 64 bits.
pub(super) fn leading(text: &[u8]) -> Option<u64> {
    let width = text.iter().take_while(|b| b.is_ascii_digit()).count();
    u64::try_from(digits(&text[..width])?).ok()
}

/// The value of `text`, which must consist of decimal digits only.
fn digits(text: &[u8]) -> Option<i64> {
    if text.is_empty() || text.len() > DIGITS_MAX {
        return None;
    }
    text.iter().try_fold(0i64, |value, &b| b.is_ascii_digit().then(|| value * 10 + i64::from(b - b'0')))
}

/// The value of sixteen hexadecimal digits.
fn hex_u64(text: &[u8]) -> Option<u64> {
    text.iter().try_fold(0u64, |value, &b| Some(value << 4 | u64::from(char::from(b).to_digit(16)?)))
}

fn trim_start(text: &[u8]) -> &[u8] {
    &text[text.iter().position(|&b| b != b' ').unwrap_or(text.len())..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_parses_into_time_tags_message() {
        for (row, line, time_us, background, message) in [
            ("plain", "1970-01-02T00:00:01Z Shutdown done", 86_401_000_000, false, "Shutdown done"),
            ("micros", "1970-01-01T00:00:00.000007Z x", 7, false, "x"),
            ("before v0.16", "1970-01-01 00:01:00 x", 60_000_000, false, "x"),
            ("leap day", "2024-02-29T00:00:00Z x", 1_709_164_800_000_000, false, "x"),
            (
                "tags",
                "1970-01-01T00:00:00Z [initload] [validation.cpp:1] [F] [bench]   - Flush: 1ms",
                0,
                false,
                "- Flush: 1ms",
            ),
            ("mocktime", "1970-01-01T00:00:00Z (mocktime: 2020-01-01T00:00:00Z) [a] x", 0, false, "x"),
            ("background", "1970-01-01T00:00:00Z [background validation] x", 0, true, "x"),
            ("open bracket", "1970-01-01T00:00:00Z [x", 0, false, "[x"),
            ("nothing", "1970-01-01T00:00:00Z", 0, false, ""),
        ] {
            let got = parse(line.as_bytes()).unwrap_or_else(|| panic!("{row}: no line"));
            assert_eq!((got.time_us, got.background, got.message), (time_us, background, message.as_bytes()), "{row}");
        }
        for line in [
            "",
            "x",
            "1970-13-01T00:00:00Z x",
            "1970-01-01T24:00:00Z x",
            "1970-01-01T00:00:0xZ x",
            "1970-01-01T00:00:00.1Z",
        ] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
    }

    /// A tip line of each generation, written for this test in the formats of v0.8, v0.10, v0.12 and v31.
    #[test]
    fn tip_line_parses_in_every_version() {
        let hash = format!("{:064x}", 0xabcdefu64);
        for (row, rest, height, tx, mib, entries) in [
            ("v0.8", "  height=7  log2_work=35.1  tx=9  date=2013-01-01 00:00:00 progress=0.1", 7, 9, None, 0),
            (
                "v0.10",
                "  height=7  log2_work=35.1  tx=9  date=2013-01-01 00:00:00 progress=0.1  cache=12",
                7,
                9,
                None,
                12,
            ),
            (
                "v0.12",
                " height=7 log2_work=35.1 tx=9 date=2013-01-01 00:00:00 progress=0.1 cache=1.5MiB(12tx)",
                7,
                9,
                Some(1.5),
                12,
            ),
            (
                "v31",
                " height=7 version=0x2 log2_work=2.0 tx=9 date='2013-01-01T00:00:00Z' progress=0.1 cache=1.5MiB(12txo)",
                7,
                9,
                Some(1.5),
                12,
            ),
            (
                "warning",
                " height=7 tx=9 progress=0.1 cache=1.5MiB(12txo) warning='height=9 unknown'",
                7,
                9,
                Some(1.5),
                12,
            ),
        ] {
            let got = tip(format!("{hash}{rest}").as_bytes()).unwrap_or_else(|| panic!("{row}: no tip"));
            assert_eq!((got.hash, got.height, got.tx, got.entries), (0xabcdef, height, tx, entries), "{row}");
            assert_eq!((!got.cache_mib.is_nan()).then_some(got.cache_mib), mib, "{row}");
        }
    }

    /// Cut anywhere, a line gives no tip or the right height; it never gives a wrong one.
    #[test]
    fn cut_tip_line_gives_no_wrong_height() {
        let line = format!(
            "{:064x} height=4999 version=0x2 log2_work=2.0 tx=9 date='2013-01-01T00:00:00Z' progress=0.10 cache=1.5MiB(12txo)",
            1
        );
        for cut in 0..line.len() {
            if let Some(got) = tip(&line.as_bytes()[..cut]) {
                assert_eq!((got.height, got.tx), (4999, 9), "cut at {cut}");
            }
            for flip in 0..8 {
                let mut bytes = line.clone().into_bytes();
                bytes[cut] ^= 1 << flip;
                let _ = (tip(&bytes), parse(&bytes));
            }
        }
        assert_eq!(tip(line.replace("4999", "99999999999999999999").as_bytes()), None, "a height beyond any chain");
    }

    #[test]
    fn decimal_parses_leading_number() {
        for (text, want) in [
            ("12.50ms", Some(12.5)),
            ("3", Some(3.0)),
            ("0.003ms", Some(0.003)),
            ("5.", Some(5.0)),
            ("ms", None),
            ("", None),
        ] {
            assert_eq!(decimal(text.as_bytes()), want, "{text}");
        }
    }
}
