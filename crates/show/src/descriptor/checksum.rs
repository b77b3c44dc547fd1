//! The eight characters after the `#` of a descriptor.
//!
//! Source: BIP-0380; Bitcoin Core b88bffe, `DescriptorChecksum`.

/// Characters of a checksum.
pub const CHECKSUM_CHARS: usize = 8;

const CHARSET: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
/// Marks a character that is not allowed in descriptors.
const UNKNOWN: u8 = 255;

/// The number of each character that a descriptor may have: its index in three groups of 32.
const NUMBERS: [u8; 256] = {
    const ALL: &[u8; 95] = b"0123456789()[],'/*abcdefgh@:$%{}\
        IJKLMNOPQRSTUVWXYZ&+-.;<=>?!^_|~\
        ijklmnopqrstuvwxyzABCDEFGH`#\"\\ ";
    let mut table = [UNKNOWN; 256];
    let mut at = 0;
    while at < ALL.len() {
        table[ALL[at] as usize] = at as u8;
        at += 1;
    }
    table
};

/// Feedback for the five bits shifted out of the residue: one lookup instead of five conditions.
const FEEDBACK: [u64; 32] = {
    const GENERATOR: [u64; 5] = [0xf5_dee5_1989, 0xa9_fdca_3312, 0x1b_ab10_e32d, 0x37_06b1_677a, 0x64_4d62_6ffd];
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

#[inline]
fn step(residue: u64, symbol: u8) -> u64 {
    (residue & 0x7_ffff_ffff) << 5 ^ u64::from(symbol) ^ FEEDBACK[(residue >> 35) as usize]
}

/// The checksum of a descriptor without one; `None` if it has a character that is not allowed.
pub fn checksum(descriptor: &[u8]) -> Option<[u8; CHECKSUM_CHARS]> {
    let mut residue = 1;
    let mut groups = 0;
    let mut count = 0;
    for char in descriptor {
        let number = NUMBERS[usize::from(*char)];
        if number == UNKNOWN {
            return None;
        }
        residue = step(residue, number & 31);
        (groups, count) = (groups * 3 + (number >> 5), count + 1);
        if count == 3 {
            residue = step(residue, groups);
            (groups, count) = (0, 0);
        }
    }
    if count > 0 {
        residue = step(residue, groups);
    }
    let residue = (0..CHECKSUM_CHARS).fold(residue, |residue, _| step(residue, 0)) ^ 1;
    Some(std::array::from_fn(|at| CHARSET[(residue >> (5 * (CHECKSUM_CHARS - 1 - at)) & 31) as usize]))
}

/// Appends `#` and the checksum of `out[start..]`, which must consist of allowed characters.
#[inline]
pub fn put_checksum(out: &mut Vec<u8>, start: usize) {
    let sum = checksum(&out[start..]).expect("made of characters of descriptors");
    out.push(b'#');
    out.extend_from_slice(&sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From Core's functional tests rpc_scantxoutset, rpc_decodescript.
    #[test]
    fn checksums_are_cores() {
        for descriptor in [
            "raw(deadbeef)#89f8spxm",
            "raw(76a91411b366edfc0a8b66feebae5c2e25a7b6a5d1cf3188ac)#fm24fxxy",
            "addr(bcrt1q73qyfypp47hvgnkjqnav0j3k2lq3v76wg22dk8tmwuz5sfgv66xsvxg6uu)#9p3q328s",
            "pkh([0c5f9a1e/0h/0h/0]026dbd8b2315f296d36e6b6920b1579ca75569464875c7ebe869b536a7d9503c8c)#rthll0rg",
        ] {
            let (body, want) = descriptor.split_once('#').unwrap();
            assert_eq!(checksum(body.as_bytes()).as_ref().map(|sum| &sum[..]), Some(want.as_bytes()), "{body}");
            let mut out = b"before ".to_vec();
            out.extend_from_slice(body.as_bytes());
            put_checksum(&mut out, 7);
            assert_eq!(out[7..], *descriptor.as_bytes());
        }
        assert_eq!(checksum("raw(é)".as_bytes()), None);
    }
}
