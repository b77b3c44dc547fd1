//! A map of IP prefixes to autonomous systems (`-asmap`): a program of bits that is run on the bits of an address.
//!
//! Bits of the file: the lowest bit of a byte comes first. Bits of an address: the highest bit comes first.
//! Instruction: RETURN 0 | JUMP 10
//! | MATCH 110 | DEFAULT 111, and a number. Number: a 1 bit for each class before its own | a 0 bit, unless it is the
//! last class | its position in the class, highest bit first.
//!
//! Source: Bitcoin Core b88bffe, util/asmap.cpp. A map is checked as a whole before it is used, so that the program
//! ends with a RETURN for every address. Absent on purpose: the file, and a built-in map.

use std::fmt;

/// Largest file: the maps that Core's contributors make have about 2 MB.
pub const MAP_BYTES_MAX: usize = 64 << 20;
/// Bits of an address, of IPv4 as a mapped one.
const ADDRESS_BITS: usize = 128;

/// Sizes of the classes of each kind of number, in bits, and the smallest number.
struct Numbers {
    least: u32,
    bits: &'static [u8],
}

const KIND: Numbers = Numbers { least: 0, bits: &[0, 0, 1] };
const SYSTEM: Numbers = Numbers { least: 1, bits: &[15, 16, 17, 18, 19, 20, 21, 22, 23, 24] };
const MATCH: Numbers = Numbers { least: 2, bits: &[1, 2, 3, 4, 5, 6, 7, 8] };
const JUMP: Numbers = Numbers {
    least: 17,
    bits: &[5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30],
};

/// One instruction of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Return(u32),
    /// How many bits to skip if the next bit of the address is 1.
    Jump(usize),
    Match(Pattern),
    Default(u32),
}

/// The bits that the address must have next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pattern {
    bits: u32,
    length: usize,
}

/// Bits in order.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn left(&self) -> usize {
        self.bytes.len() * 8 - self.at
    }

    fn next(&mut self) -> Option<u32> {
        let byte = *self.bytes.get(self.at / 8)?;
        let bit = byte >> (self.at % 8) & 1;
        self.at += 1;
        Some(bit.into())
    }

    fn number(&mut self, of: &Numbers) -> Option<u32> {
        let mut value = of.least;
        for (place, &bits) in of.bits.iter().enumerate() {
            let is_last = place + 1 == of.bits.len();
            if !is_last && self.next()? == 1 {
                value += 1 << bits;
                continue;
            }
            for bit in (0..bits).rev() {
                value += self.next()? << bit;
            }
            return Some(value);
        }
        None
    }

    fn step(&mut self) -> Option<Step> {
        Some(match self.number(&KIND)? {
            0 => Step::Return(self.number(&SYSTEM)?),
            1 => Step::Jump(self.number(&JUMP)? as usize),
            2 => {
                let value = self.number(&MATCH)?;
                // The highest set bit marks the length.
                let length = value.ilog2();
                Step::Match(Pattern { bits: value - (1 << length), length: length as usize })
            }
            _ => Step::Default(self.number(&SYSTEM)?),
        })
    }
}

/// A checked map.
#[derive(Clone, PartialEq, Eq)]
pub struct AsMap {
    bytes: Vec<u8>,
    version: [u8; 32],
    file_hash: [u8; 32],
}

impl fmt::Debug for AsMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AsMap({} bytes)", self.bytes.len())
    }
}

impl AsMap {
    /// Parses a map; `None` if it is not valid.
    pub fn new(bytes: Vec<u8>) -> Option<AsMap> {
        let is_sound = bytes.len() <= MAP_BYTES_MAX && is_sound(&bytes);
        let version = kernels::sha256::sha256d(&bytes);
        let file_hash = kernels::sha256::sha256(&bytes);
        is_sound.then_some(AsMap { bytes, version, file_hash })
    }

    /// Version of the map: the hash of its bytes. Source: Core's `AsmapVersion`.
    pub fn version(&self) -> [u8; 32] {
        self.version
    }

    /// SHA-256 of the file, as `sha256sum` prints it: the version that Core 32 shows (bitcoin/bitcoin 36215, 36249).
    /// peers.dat has [`AsMap::version`] instead.
    pub fn file_hash(&self) -> [u8; 32] {
        self.file_hash
    }

    /// The autonomous system of an address (IPv4 as a mapped one); 0 if it is not in the map.
    pub fn system_of(&self, address: &[u8; 16]) -> u32 {
        let mut bits = Bits { bytes: &self.bytes, at: 0 };
        let mut read = 0;
        let mut next_bit = || {
            let bit = u32::from(address.get(read / 8)? >> (7 - read % 8) & 1);
            read += 1;
            Some(bit)
        };
        let mut default = 0;
        // Each step advances in the file, so the loop ends with it.
        while let Some(step) = bits.step() {
            match step {
                Step::Return(system) => return system,
                Step::Default(system) => default = system,
                Step::Jump(offset) => match next_bit() {
                    Some(1) => bits.at += offset.min(bits.left()),
                    Some(_) => {}
                    None => break,
                },
                Step::Match(pattern) => {
                    for bit in (0..pattern.length).rev() {
                        match next_bit() {
                            Some(found) if found == pattern.bits >> bit & 1 => {}
                            Some(_) => return default,
                            None => return 0,
                        }
                    }
                }
            }
        }
        0
    }
}

/// State of the check of a whole map.
struct Walk {
    /// Bits of the address not yet used.
    left: usize,
    /// Targets of pending jumps, with the number of address bits left there.
    jumps: Vec<(usize, usize)>,
    previous: Step,
    had_short_match: bool,
}

/// Whether every path through the program ends, in order and without unused bytes, as in Core's `SanityCheckAsmap`.
fn is_sound(bytes: &[u8]) -> bool {
    let mut bits = Bits { bytes, at: 0 };
    let mut walk = Walk { left: ADDRESS_BITS, jumps: Vec::new(), previous: Step::Jump(0), had_short_match: false };
    while bits.left() > 0 {
        if walk.jumps.last().is_some_and(|(target, _)| bits.at >= *target) {
            return false;
        }
        match walk.take(&mut bits) {
            Some(Way::On) => {}
            Some(Way::End) => {
                let is_padding = bits.left() <= 7;
                return is_padding && std::iter::from_fn(|| bits.next()).all(|bit| bit == 0);
            }
            None => return false,
        }
    }
    false
}

/// The effect of an instruction.
enum Way {
    On,
    End,
}

impl Walk {
    /// Executes the next instruction; `None` if it is not valid.
    fn take(&mut self, bits: &mut Bits<'_>) -> Option<Way> {
        let step = bits.step()?;
        match step {
            Step::Return(_) => {
                if matches!(self.previous, Step::Default(_)) {
                    return None;
                }
                let Some((target, left)) = self.jumps.pop() else { return Some(Way::End) };
                if bits.at != target {
                    return None;
                }
                self.left = left;
                self.previous = Step::Jump(0);
                return Some(Way::On);
            }
            Step::Jump(offset) => {
                let target = bits.at + offset;
                self.left = self.left.checked_sub(1)?;
                if offset > bits.left() || self.jumps.last().is_some_and(|(other, _)| target >= *other) {
                    return None;
                }
                self.jumps.push((target, self.left));
            }
            Step::Match(pattern) => {
                if !matches!(self.previous, Step::Match(_)) {
                    self.had_short_match = false;
                }
                let is_short = pattern.length < 8;
                if is_short && self.had_short_match {
                    return None;
                }
                self.had_short_match = is_short;
                self.left = self.left.checked_sub(pattern.length)?;
            }
            Step::Default(_) if matches!(self.previous, Step::Default(_)) => return None,
            Step::Default(_) => {}
        }
        self.previous = step;
        Some(Way::On)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use crate::wire::NetAddress;

    /// Bitcoin Core b88bffe, src/test/data/asmap.raw.
    const RAW: &str = "fb03ec0fb03fc0fe00fb03ec0fb03fc0fe00fb03ec0fb0fffffeffedb0ffd486e628290000400000400040990100800180040000050006001cf039";

    /// The systems are those of Core's asmap tool, the version that of its feature_asmap.py.
    #[test]
    fn core_s_map_is_read_as_by_core() {
        let map = AsMap::new(primitives::hex::decode(RAW).unwrap()).unwrap();
        let mut version = map.version();
        version.reverse();
        let want = "bafc9da308f45179443bd1d22325400ac9104f741522d003e3fac86700f68895";
        assert_eq!((map.bytes.len(), primitives::hex::encode(&version).as_str()), (59, want));
        let groups = super::super::groups::NetGroups::of(map.clone());
        for (ip, want) in [
            ([101, 0, 0, 0], 1),
            ([101, 1, 0, 0], 1),
            ([101, 2, 0, 0], 2),
            ([101, 5, 0, 0], 5),
            ([101, 8, 0, 0], 8),
            ([250, 1, 1, 1], 1000),
            ([1, 2, 3, 4], 0),
        ] {
            assert_eq!(groups.system_of(NetAddress::V4(ip)), want, "{ip:?}");
        }
        assert_eq!(groups.group(NetAddress::V4([101, 0, 0, 0])), groups.group(NetAddress::V4([101, 1, 9, 9])));
        assert_eq!(groups.group(NetAddress::TorV3([7; 32])), NetAddress::TorV3([7; 32]).group());
        // Each cut of the file is none.
        let bytes = primitives::hex::decode(RAW).unwrap();
        (0..bytes.len()).for_each(|cut| assert_eq!(AsMap::new(bytes[..cut].to_vec()), None, "{cut}"));
    }

    fn put(out: &mut Vec<u8>, at: &mut usize, bit: u32) {
        if at.is_multiple_of(8) {
            out.push(0);
        }
        *out.last_mut().unwrap() |= (bit as u8) << (*at % 8);
        *at += 1;
    }

    /// A map that a test writes: bits as text.
    fn of_bits(text: &str) -> Vec<u8> {
        let (mut out, mut at) = (Vec::new(), 0);
        text.bytes().filter(|byte| *byte != b' ').for_each(|byte| put(&mut out, &mut at, u32::from(byte - b'0')));
        out
    }

    /// RETURN of system 1 to 8.
    fn returned(system: u32) -> String {
        format!("0 0 {:015b} ", system - 1)
    }

    fn v6(first: u8) -> [u8; 16] {
        let mut out = [0; 16];
        out[0] = first;
        out
    }

    #[test]
    fn programs_of_one_step_each() {
        let all = AsMap::new(of_bits(&returned(5))).unwrap();
        assert_eq!(all.system_of(&v6(9)), 5);
        // JUMP over 17 bits, which a RETURN has.
        let halves = format!("10 0 00000 {}{}", returned(2), returned(3));
        let halves = AsMap::new(of_bits(&halves)).unwrap();
        assert_eq!((halves.system_of(&v6(0x7f)), halves.system_of(&v6(0x80))), (2, 3));
        // DEFAULT 4, MATCH of three bits 101: 8 + 5 = 13 is the class of three bits, place 5.
        let some = format!("111 0 {:015b} 110 110 101 {}", 3, returned(6));
        let some = AsMap::new(of_bits(&some)).unwrap();
        assert_eq!((some.system_of(&v6(0b1010_0000)), some.system_of(&v6(0b1110_0000))), (6, 4));
        assert_eq!(all.version(), kernels::sha256::sha256d(&of_bits(&returned(5))));
    }

    #[test]
    fn maps_that_are_not_sound_are_none() {
        let one = returned(1);
        for (row, bits) in [
            ("nothing", String::new()),
            ("no end", "111 0 000000000000000".to_owned()),
            ("too much behind the end", format!("{one}00000000")),
            ("behind the end bits that are set", format!("{one}1")),
            ("a default before a return", format!("111 0 000000000000001 {one}")),
            ("two defaults", format!("111 0 000000000000001 111 0 000000000000001 110 0 0 {one}")),
            ("a jump beyond the end", "10 0 11111 0 0 000000000000000".to_owned()),
            ("what no way leads to", format!("10 0 00001 {one}{one}{one}")),
            ("cut within a number", "0 0 0000".to_owned()),
            ("two short matches", format!("110 0 0 110 0 0 {one}")),
        ] {
            assert_eq!(AsMap::new(of_bits(&bits)), None, "{row}");
        }
        // 129 bits of an address.
        let long = "110 1111111 00000000 ".repeat(16) + "110 0 0 " + &one;
        assert_eq!(AsMap::new(of_bits(&long)), None);
        assert!(AsMap::new(of_bits(&("110 1111111 00000000 ".repeat(16) + &one))).is_some());
    }

    #[test]
    fn no_bytes_make_the_look_up_go_wrong() {
        let mut rng = Rng::Seeded(7);
        let sound = of_bits(&format!("10 0 00000 {}{}", returned(2), returned(3)));
        for _ in 0..20_000 {
            let mut bytes = sound.clone();
            for _ in 0..=rng.below(3) {
                let place = rng.below(bytes.len());
                bytes[place] ^= 1 << rng.below(8);
            }
            // Not checked: it ends all the same, and reads nothing beyond.
            let map = AsMap { bytes: bytes.clone(), version: [0; 32], file_hash: [0; 32] };
            let _ = map.system_of(&rng.bytes());
            if let Some(map) = AsMap::new(bytes) {
                let _ = map.system_of(&rng.bytes());
            }
        }
    }
}
