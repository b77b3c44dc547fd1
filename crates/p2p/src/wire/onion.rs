//! Names of Tor version 3 services: base32 of key, checksum and version.
//!
//! The checksum needs one SHA3-256 of 48 bytes; it is implemented here because nothing else needs it.
//! Source: Tor's rend-spec-v3, section 6; FIPS 202.

/// Text of the key's onion service, with `.onion`.
pub(super) fn name(key: &[u8; 32]) -> String {
    let mut bytes = [0; 35];
    bytes[..32].copy_from_slice(key);
    bytes[32..34].copy_from_slice(&checksum(key));
    bytes[34] = VERSION;
    base32(&bytes) + ".onion"
}

/// The key in `text` (with `.onion`); `None` if it is not such a name.
pub(crate) fn key(text: &str) -> Option<[u8; 32]> {
    let bytes = base32_decode(text.strip_suffix(".onion")?)?;
    let (key, rest) = bytes.split_first_chunk::<32>()?;
    let [a, b, version] = <[u8; 3]>::try_from(rest).ok()?;
    (version == VERSION && [a, b] == checksum(key)).then_some(*key)
}

/// The hash in `text`, of 52 letters and `.b32.i2p`; `None` if it is not such a name.
pub(crate) fn i2p_hash(text: &str) -> Option<[u8; 32]> {
    let name = text.strip_suffix(".b32.i2p").filter(|name| name.len() == 52)?;
    let bytes = base32_decode(name)?;
    // 52 letters have 260 bits, of which the last four are unused.
    let hash: [u8; 32] = bytes.try_into().ok()?;
    (base32(&hash) == name).then_some(hash)
}

const VERSION: u8 = 3;

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

fn checksum(key: &[u8; 32]) -> [u8; 2] {
    let mut message = Vec::with_capacity(48);
    message.extend_from_slice(b".onion checksum");
    message.extend_from_slice(key);
    message.push(VERSION);
    let [a, b, ..] = sha3_256_short(&message);
    [a, b]
}

/// RFC 4648 base32 in lower case, for lengths that are multiples of 5 bytes, or padded away.
pub(super) fn base32(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(5) * 8);
    let mut bits = 0u32;
    let mut have = 0;
    for &byte in bytes {
        bits = bits << 8 | u32::from(byte);
        have += 8;
        while have >= 5 {
            have -= 5;
            out.push(char::from(ALPHABET[(bits >> have) as usize & 31]));
        }
    }
    if have > 0 {
        out.push(char::from(ALPHABET[(bits << (5 - have)) as usize & 31]));
    }
    out
}

fn base32_decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() * 5 / 8);
    let mut bits = 0u32;
    let mut have = 0;
    for byte in text.bytes() {
        let digit = ALPHABET.iter().position(|&c| c == byte.to_ascii_lowercase())?;
        bits = bits << 5 | u32::try_from(digit).ok()?;
        have += 5;
        if have >= 8 {
            have -= 8;
            out.push((bits >> have & 0xff) as u8);
        }
    }
    Some(out)
}

/// SHA3-256 of a message shorter than one block of 136 bytes.
fn sha3_256_short(message: &[u8]) -> [u8; 32] {
    const RATE: usize = 136;
    assert!(message.len() < RATE, "one block only");
    let mut block = [0u8; RATE];
    block[..message.len()].copy_from_slice(message);
    block[message.len()] = 6;
    block[RATE - 1] |= 0x80;
    let mut state = [0u64; 25];
    for (lane, bytes) in state.iter_mut().zip(block.chunks_exact(8)) {
        *lane = u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    }
    keccak_f(&mut state);
    let mut out = [0; 32];
    for (bytes, lane) in out.chunks_exact_mut(8).zip(state) {
        bytes.copy_from_slice(&lane.to_le_bytes());
    }
    out
}

/// Keccak-f[1600], lane (x, y) at index x + 5y; the round constants come from their shift register.
fn keccak_f(state: &mut [u64; 25]) {
    let mut register = 1u8;
    for _ in 0..24 {
        let mut parity = [0u64; 5];
        for (i, lane) in state.iter().enumerate() {
            parity[i % 5] ^= lane;
        }
        for (i, lane) in state.iter_mut().enumerate() {
            *lane ^= parity[(i + 4) % 5] ^ parity[(i + 1) % 5].rotate_left(1);
        }
        let mut x = 1;
        let mut y = 0;
        let mut moved = state[1];
        for t in 1..=24u32 {
            (x, y) = (y, (2 * x + 3 * y) % 5);
            let place = &mut state[x + 5 * y];
            (*place, moved) = (moved.rotate_left(t * (t + 1) / 2 % 64), *place);
        }
        for row in state.chunks_exact_mut(5) {
            let old: [u64; 5] = (&*row).try_into().expect("5 lanes");
            for x in 0..5 {
                row[x] = old[x] ^ (!old[(x + 1) % 5] & old[(x + 2) % 5]);
            }
        }
        for j in 0..7 {
            if register & 1 == 1 {
                state[0] ^= 1 << ((1 << j) - 1);
            }
            register = register << 1 ^ if register & 0x80 == 0 { 0 } else { 0x71 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::hex;

    /// FIPS 202: the digest of nothing, and of "abc".
    #[test]
    fn sha3_matches_fips_202() {
        for (row, message, want) in [
            ("empty", "", "a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a"),
            ("abc", "abc", "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532"),
        ] {
            assert_eq!(sha3_256_short(message.as_bytes()).to_vec(), hex::decode(want).unwrap(), "{row}");
        }
    }

    /// From Bitcoin Core b88bffe, src/test/net_tests.cpp.
    #[test]
    fn onion_names_match_tor_vectors() {
        let text = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion";
        let want = hex::decode("79bcc625184b05194975c28b66b66b0469f7f6556fb1ac3189a79b40dda32f1f").unwrap();
        assert_eq!(key(text).unwrap().to_vec(), want);
        assert_eq!(name(&key(text).unwrap()), text);
        for (row, bad) in [
            ("wrong checksum", "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscsad.onion"),
            ("wrong version", "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscrye.onion"),
            ("short", "mfrggzak.onion"),
            ("version 2", "6hzph5hv6337r6p2.onion"),
            ("no onion", "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd"),
            ("digits", "1g6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion"),
        ] {
            assert_eq!(key(bad), None, "{row}");
        }
    }
}
