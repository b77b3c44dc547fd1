//! Bech32 and Bech32m: checksums, and the positions of wrong characters.
//!
//! The crate `bech32` only accepts or refuses; Core's validateaddress also reports the positions of up to two errors,
//! which follow from the residue. The code is a BCH code over GF(32) whose generator has three consecutive powers
//! (997 to 999) of a primitive element of GF(1024) as its roots; the syndromes there yield the positions.
//! Source: BIP-0173, BIP-0350; Bitcoin Core b88bffe, bech32.cpp.

/// The variant of the checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoding {
    /// BIP-0173: witness version 0.
    Bech32,
    /// BIP-0350: versions 1 to 16.
    Bech32m,
}

impl Encoding {
    const ALL: [Encoding; 2] = [Encoding::Bech32, Encoding::Bech32m];

    /// The residue of a valid text.
    const fn constant(self) -> u32 {
        match self {
            Encoding::Bech32 => 1,
            Encoding::Bech32m => 0x2bc8_30a3,
        }
    }
}

/// A decoded text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decoded {
    /// The variant of its checksum.
    pub encoding: Encoding,
    /// The part before the separator, in lower case.
    pub hrp: String,
    /// The symbols between separator and checksum, 0 to 31 each.
    pub symbols: Vec<u8>,
}

/// Maximum length of a text in Core.
const TEXT_BYTES_MAX: usize = 90;
/// Symbols of the checksum.
const CHECKSUM_SYMBOLS: usize = 6;
const CHARSET: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";

/// The symbol of each character; 255 if the character is not allowed.
const SYMBOLS: [u8; 256] = {
    let mut table = [255; 256];
    let mut symbol = 0;
    while symbol < 32 {
        table[CHARSET[symbol] as usize] = symbol as u8;
        table[CHARSET[symbol].to_ascii_uppercase() as usize] = symbol as u8;
        symbol += 1;
    }
    table
};

/// Contribution of the five bits shifted out of a residue. Source: Core's `PolyMod`.
const LEAVING: [u32; 32] = {
    const GENERATOR: [u32; 5] = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];
    let mut table = [0; 32];
    let mut top = 0;
    while top < 32 {
        let mut bit = 0;
        while bit < 5 {
            if top >> bit & 1 == 1 {
                table[top] ^= GENERATOR[bit];
            }
            bit += 1;
        }
        top += 1;
    }
    table
};

/// The residue, of 30 bits, after another symbol. Source: Core's `PolyMod`.
#[inline]
const fn step(residue: u32, symbol: u8) -> u32 {
    let top = residue >> 25 & 31;
    (residue & 0x1ff_ffff) << 5 ^ symbol as u32 ^ LEAVING[top as usize]
}

fn residue(hrp: &str, symbols: &[u8]) -> u32 {
    let high = hrp.bytes().map(|char| char >> 5);
    let low = hrp.bytes().map(|char| char & 31);
    let all = high.chain([0]).chain(low).chain(symbols.iter().copied());
    all.fold(1, step)
}

/// Appends a segwit address: witness version, 0 to 16, and program. Source: BIP-0173, BIP-0350.
pub fn put_segwit_address(out: &mut Vec<u8>, hrp: &str, version: u8, program: &[u8]) {
    let encoding = if version == 0 { Encoding::Bech32 } else { Encoding::Bech32m };
    out.extend_from_slice(hrp.as_bytes());
    out.push(b'1');
    let mut remainder = residue(hrp, &[]);
    let mut put = |out: &mut Vec<u8>, symbol: u8| {
        out.push(CHARSET[usize::from(symbol)]);
        remainder = step(remainder, symbol);
    };
    put(out, version);
    let mut bits = 0u32;
    let mut count = 0;
    for byte in program {
        (bits, count) = (bits << 8 | u32::from(*byte), count + 8);
        while count >= 5 {
            count -= 5;
            put(out, (bits >> count & 31) as u8);
        }
    }
    if count > 0 {
        put(out, (bits << (5 - count) & 31) as u8);
    }
    let checksum = (0..CHECKSUM_SYMBOLS).fold(remainder, |residue, _| step(residue, 0)) ^ encoding.constant();
    out.extend((0..CHECKSUM_SYMBOLS).rev().map(|at| CHARSET[(checksum >> (5 * at) & 31) as usize]));
}

/// Converts symbols to bytes; `None` if more than four bits, or nonzero bits, are left over. Source: Core's
/// `ConvertBits`.
pub fn symbols_to_bytes(symbols: &[u8]) -> Option<Vec<u8>> {
    let mut bits = 0u32;
    let mut count = 0;
    let mut bytes = Vec::with_capacity(symbols.len() * 5 / 8);
    for symbol in symbols {
        (bits, count) = ((bits << 5 | u32::from(*symbol)) & 0xfff, count + 5);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    let is_padding = count < 5 && bits & ((1 << count) - 1) == 0;
    is_padding.then_some(bytes)
}

/// Offsets of characters that are not allowed: not printable, or of mixed case.
fn bad_characters(text: &[u8]) -> Vec<usize> {
    let mut lower = false;
    let mut upper = false;
    let mut bad = Vec::new();
    for (at, char) in text.iter().enumerate() {
        match char {
            b'a'..=b'z' if upper => bad.push(at),
            b'a'..=b'z' => lower = true,
            b'A'..=b'Z' if lower => bad.push(at),
            b'A'..=b'Z' => upper = true,
            33..=126 => {}
            _ => bad.push(at),
        }
    }
    bad
}

/// Decodes a text; `None` if it is neither Bech32 nor Bech32m.
pub fn decode(text: &str) -> Option<Decoded> {
    if text.len() > TEXT_BYTES_MAX || !bad_characters(text.as_bytes()).is_empty() {
        return None;
    }
    let at = text.rfind('1').filter(|at| *at > 0 && at + CHECKSUM_SYMBOLS < text.len())?;
    let hrp = text[..at].to_ascii_lowercase();
    let data = &text.as_bytes()[at + 1..];
    let mut symbols: Vec<u8> = data.iter().map(|char| SYMBOLS[usize::from(*char)]).collect();
    if symbols.contains(&255) {
        return None;
    }
    let residue = residue(&hrp, &symbols);
    let encoding = Encoding::ALL.into_iter().find(|encoding| encoding.constant() == residue)?;
    symbols.truncate(symbols.len() - CHECKSUM_SYMBOLS);
    Some(Decoded { encoding, hrp, symbols })
}

/// The error of a text that [`decode`] refuses, in Core's words, and the offsets of wrong bytes.
///
/// Source: Bitcoin Core b88bffe, `bech32::LocateErrors`.
pub fn locate_errors(text: &str) -> (&'static str, Vec<usize>) {
    if text.len() > TEXT_BYTES_MAX {
        return ("Bech32 string too long", (TEXT_BYTES_MAX..text.len()).collect());
    }
    let bad = bad_characters(text.as_bytes());
    if !bad.is_empty() {
        return ("Invalid character or mixed case", bad);
    }
    let Some(separator) = text.rfind('1') else { return ("Missing separator", Vec::new()) };
    if separator == 0 || separator + CHECKSUM_SYMBOLS >= text.len() {
        return ("Invalid separator position", vec![separator]);
    }
    let hrp = text[..separator].to_ascii_lowercase();
    let data = &text.as_bytes()[separator + 1..];
    let symbols: Vec<u8> = data.iter().map(|char| SYMBOLS[usize::from(*char)]).collect();
    if let Some(at) = symbols.iter().position(|symbol| *symbol == 255) {
        return ("Invalid Base 32 character", vec![separator + 1 + at]);
    }
    let residue = residue(&hrp, &symbols);
    let mut found = Vec::new();
    let mut kind = None;
    for encoding in Encoding::ALL {
        let difference = residue ^ encoding.constant();
        if difference == 0 {
            return ("", Vec::new());
        }
        let mut places: Vec<usize> = error_places(difference, symbols.len());
        // The last symbol is number 0.
        places.iter_mut().for_each(|place| *place = text.len() - *place - 1);
        if found.is_empty() || (!places.is_empty() && places.len() < found.len()) {
            found = places;
            if !found.is_empty() {
                kind = Some(encoding);
            }
        }
    }
    let why = match kind {
        Some(Encoding::Bech32m) => "Invalid Bech32m checksum",
        Some(Encoding::Bech32) => "Invalid Bech32 checksum",
        None => "Invalid checksum",
    };
    (why, found)
}

/// Number of nonzero elements of GF(1024).
const ORDER: usize = 1023;
/// Nonzero elements of GF(32) are the powers of this one.
const SUBGROUP: usize = 33;

/// Powers of the primitive element, and the exponent of each element; 0 is not a power.
const FIELD: ([u16; ORDER], [u16; 1024]) = {
    let mut small_powers = [0u16; 31];
    let mut small_logs = [0u16; 32];
    let mut at = 0;
    let mut value = 1u16;
    while at < 31 {
        small_powers[at] = value;
        small_logs[value as usize] = at as u16;
        value <<= 1;
        // b^5 + b^3 + 1, the polynomial of GF(32).
        if value & 32 != 0 {
            value ^= 41;
        }
        at += 1;
    }
    let mut powers = [0; ORDER];
    let mut logs = [0; 1024];
    let mut at = 0;
    let mut value = 1u16;
    while at < ORDER {
        powers[at] = value;
        logs[value as usize] = at as u16;
        // (v1 e + v0) e = (9 v1 + v0) e + 23 v1.
        let low = value & 31;
        let high = value >> 5;
        let mut next_low = 0;
        let mut next_high = low;
        if high != 0 {
            next_low = small_powers[(small_logs[high as usize] as usize + small_logs[23] as usize) % 31];
            next_high ^= small_powers[(small_logs[high as usize] as usize + small_logs[9] as usize) % 31];
        }
        value = next_high << 5 | next_low;
        at += 1;
    }
    (powers, logs)
};

fn power(exponent: usize) -> u16 {
    FIELD.0[exponent % ORDER]
}

/// Discrete logarithm of an element; `None` for zero.
fn log(element: u16) -> Option<usize> {
    (element != 0).then(|| usize::from(FIELD.1[usize::from(element)]))
}

/// `element` times a power.
fn times_power(element: u16, exponent: usize) -> u16 {
    log(element).map_or(0, |log| power(log + exponent))
}

/// The value of a residue's polynomial at a power: its five bits of number k are the coefficient of x^k.
fn syndrome(residue: u32, exponent: usize) -> u16 {
    (0..CHECKSUM_SYMBOLS).fold(0, |sum, k| sum ^ times_power((residue >> (5 * k) & 31) as u16, exponent * k))
}

/// Positions, counted from the last symbol, of the one or two errors that explain a residue; the greater first.
fn error_places(residue: u32, symbols: usize) -> Vec<usize> {
    let [s0, s1, s2] = [997, 998, 999].map(|exponent| syndrome(residue, exponent));
    if let (Some(l0), Some(l1), Some(l2)) = (log(s0), log(s1), log(s2))
        && (2 * l1 + 2 * ORDER - l2 - l0).is_multiple_of(ORDER)
    {
        let place = (l1 + ORDER - l0) % ORDER;
        let error = l0 + (ORDER - 997) * place;
        let is_one = place < symbols && error.is_multiple_of(SUBGROUP);
        return if is_one { vec![place] } else { Vec::new() };
    }
    (0..symbols).find_map(|first| second_place(first, [s0, s1, s2], symbols)).unwrap_or_default()
}

/// Both positions, if one error is at `first` and there is a second one.
fn second_place(first: usize, [s0, s1, s2]: [u16; 3], symbols: usize) -> Option<Vec<usize>> {
    let upper = log(s2 ^ times_power(s1, first))?;
    let lower = log(s1 ^ times_power(s0, first))?;
    let second = (upper + ORDER - lower) % ORDER;
    if second >= symbols || second == first {
        return None;
    }
    let other = log(s1 ^ times_power(s0, second))?;
    let inverse = ORDER - log(power(first) ^ power(second))?;
    // Errors are symbols, so both must be in GF(32).
    let errors = [lower + inverse + (ORDER - 997) * second, other + inverse + (ORDER - 997) * first];
    let fits = errors.iter().all(|error| error.is_multiple_of(SUBGROUP));
    fits.then(|| vec![first.max(second), first.min(second)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From BIP-0173 and BIP-0350.
    #[test]
    fn texts_of_the_bips_decode() {
        for (text, encoding, hrp, symbols) in [
            ("A12UEL5L", Encoding::Bech32, "a", 0),
            ("abcdef1qpzry9x8gf2tvdw0s3jn54khce6mua7lmqqqxw", Encoding::Bech32, "abcdef", 32),
            ("?1ezyfcl", Encoding::Bech32, "?", 0),
            ("A1LQFN3A", Encoding::Bech32m, "a", 0),
            ("abcdef1l7aum6echk45nj3s0wdvt2fg8x9yrzpqzd3ryx", Encoding::Bech32m, "abcdef", 32),
            ("split1checkupstagehandshakeupstreamerranterredcaperredlc445v", Encoding::Bech32m, "split", 48),
        ] {
            let decoded = decode(text).unwrap();
            assert_eq!((decoded.encoding, &decoded.hrp[..], decoded.symbols.len()), (encoding, hrp, symbols), "{text}");
        }
        for text in
            ["pzry9x0s0muk", "1pzry9x0s0muk", "x1b4n0q5v", "li1dgmt3", "A1G7SGD8", "10a06t8", "1qzzfhee", "M1VUXWEZ"]
        {
            assert_eq!(decode(text), None, "{text}");
        }
        let mut out = Vec::new();
        put_segwit_address(
            &mut out,
            "bc",
            0,
            &primitives::hex::literal::<20>("751e76e8199196d454941c45d1b3a323f1433bd6"),
        );
        assert_eq!(out, b"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4");
        out.clear();
        put_segwit_address(&mut out, "bc", 16, &[0x75, 0x1e]);
        assert_eq!(out, b"bc1sw50qgdz25j");
        assert_eq!(symbols_to_bytes(&decode("bc1sw50qgdz25j").unwrap().symbols[1..]), Some(vec![0x75, 0x1e]));
        assert_eq!(
            (symbols_to_bytes(&[0, 1]), symbols_to_bytes(&[0]), symbols_to_bytes(&[])),
            (None, None, Some(vec![]))
        );
    }

    /// From Core's bech32_tests.cpp (`bech32_testvectors_invalid`, `bech32m_testvectors_invalid`) and
    /// rpc_validateaddress.
    #[test]
    fn errors_are_located_as_in_core() {
        for (text, why, places) in [
            (" 1nwldj5", "Invalid character or mixed case", vec![0]),
            ("\x7f1axkwrx", "Invalid character or mixed case", vec![0]),
            (
                "an84characterslonghumanreadablepartthatcontainsthenumber1andtheexcludedcharactersbio1569pvx",
                "Bech32 string too long",
                vec![90],
            ),
            ("pzry9x0s0muk", "Missing separator", vec![]),
            ("1pzry9x0s0muk", "Invalid separator position", vec![0]),
            ("x1b4n0q5v", "Invalid Base 32 character", vec![2]),
            ("li1dgmt3", "Invalid separator position", vec![2]),
            ("A1G7SGD8", "Invalid checksum", vec![]),
            ("10a06t8", "Invalid separator position", vec![0]),
            ("1qzzfhee", "Invalid separator position", vec![0]),
            ("a12UEL5L", "Invalid character or mixed case", vec![3, 4, 5, 7]),
            ("A12uEL5L", "Invalid character or mixed case", vec![3]),
            ("abcdef1qpzrz9x8gf2tvdw0s3jn54khce6mua7lmqqqxw", "Invalid Bech32 checksum", vec![11]),
            ("test1zg69w7y6hn0aqy352euf40x77qddq3dc", "Invalid Bech32 checksum", vec![9, 16]),
            ("M1VUXWEZ", "Invalid checksum", vec![]),
            ("abcdef1l7aum6echk45nj2s0wdvt2fg8x9yrzpqzd3ryx", "Invalid Bech32m checksum", vec![21]),
            ("test1zg69v7y60n00qy352euf40x77qcusag6", "Invalid Bech32m checksum", vec![13, 32]),
            ("A12UEL5L", "", vec![]),
        ] {
            assert_eq!(locate_errors(text), (why, places), "{text}");
        }
    }

    /// Every change of one symbol, and many of two, is found where it is.
    #[test]
    fn one_and_two_errors_are_found() {
        let good = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080";
        let change = |text: &str, at: usize, symbol: usize| {
            let mut text = text.as_bytes().to_vec();
            text[at] = CHARSET[(usize::from(SYMBOLS[usize::from(text[at])]) + symbol) % 32];
            String::from_utf8(text).unwrap()
        };
        assert!(decode(good).is_some());
        for at in 5..good.len() {
            for symbol in 1..32 {
                let one = change(good, at, symbol);
                assert_eq!(locate_errors(&one), ("Invalid Bech32 checksum", vec![at]), "{one}");
                let other = 5 + (at * 7 + symbol) % (good.len() - 5);
                if other != at {
                    let two = change(&one, other, 1 + symbol % 31);
                    let (why, places) = locate_errors(&two);
                    // Another code may explain it with fewer errors; with as many, the first is kept.
                    assert!(!places.is_empty() && why.starts_with("Invalid Bech32"), "{two}: {why} {places:?}");
                    if why == "Invalid Bech32 checksum" {
                        assert_eq!(places, vec![at.min(other), at.max(other)], "{two}");
                    }
                }
            }
        }
    }
}
