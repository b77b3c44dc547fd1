//! Fixed seeds: addresses of nodes, used if no DNS seed answers.
//!
//! Record:  network u8 | length u8 | address | port u16 BE, as in BIP-0155
//!
//! Source: Bitcoin Core b88bffe, chainparamsseeds.h: its records of IPv4, IPv6 and Tor, byte by byte and in its order.
//! Absent on purpose: I2P and CJDNS, which are not supported; regtest and custom signets, for which Core has no
//! seeds.

use crate::wire::{NetAddress, PeerAddress};
use primitives::Reader;

/// Fixed seeds of mainnet.
pub const MAIN: &[u8] = include_bytes!("fixed_seeds/main.bin");
/// Fixed seeds of testnet3.
pub const TEST: &[u8] = include_bytes!("fixed_seeds/test.bin");
/// Fixed seeds of testnet4.
pub const TESTNET4: &[u8] = include_bytes!("fixed_seeds/testnet4.bin");
/// Fixed seeds of the default signet.
pub const SIGNET: &[u8] = include_bytes!("fixed_seeds/signet.bin");

/// Parses records; stops at the first record that is not valid.
pub fn parse(records: &[u8]) -> Vec<PeerAddress> {
    let mut reader = Reader::new(records);
    std::iter::from_fn(|| next(&mut reader)).collect()
}

fn next(reader: &mut Reader<'_>) -> Option<PeerAddress> {
    let &[network, length] = reader.array().ok()?;
    let bytes = reader.take(length.into()).ok()?;
    let address = NetAddress::from_bip155(network, bytes).ok()??;
    Some(PeerAddress { address, port: u16::from_be_bytes(*reader.array().ok()?) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_record_of_every_network_is_an_address() {
        for (row, records, counts) in [
            ("main", MAIN, [512, 512, 512]),
            ("test", TEST, [65, 38, 69]),
            ("testnet4", TESTNET4, [63, 70, 78]),
            ("signet", SIGNET, [46, 47, 67]),
        ] {
            let seeds = parse(records);
            let count = |network| seeds.iter().filter(|seed| seed.address.network() == network).count();
            assert_eq!([count(1), count(2), count(4)], counts, "{row}");
            let distinct: HashSet<_> = seeds.iter().collect();
            assert_eq!(distinct.len(), seeds.len(), "{row}");
            assert!(seeds.iter().all(|seed| seed.port > 0 && seed.address.is_routable()), "{row}");
        }
    }

    #[test]
    fn parse_ends_at_a_cut_or_false_record() {
        let whole = [&[1, 4, 30, 1, 7, 7, 0x20, 0x8d][..], &[1, 4, 30, 2, 7, 7, 0, 5]].concat();
        assert_eq!(parse(&whole).iter().map(ToString::to_string).collect::<Vec<_>>(), ["30.1.7.7:8333", "30.2.7.7:5"]);
        for cut in 0..8 {
            assert_eq!(parse(&whole[..cut]), [], "{cut}");
        }
        assert_eq!(parse(&[&[1, 5, 0, 0, 0, 0, 0, 0, 0][..], &whole].concat()), []);
    }
}
