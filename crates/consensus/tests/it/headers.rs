//! Real headers: every rule of `header` on every one of them.

use crate::data;
use crate::ledger::Ledger;
use consensus::header::{check_proof_of_work, permitted_difficulty_transition, real_bits};
use consensus::{Chain, Params};
use primitives::{Header, Height, U256, Work, hex};

fn split(bytes: &[u8]) -> Vec<Header> {
    assert_eq!(bytes.len() % 80, 0, "whole headers");
    bytes.chunks_exact(80).map(|header| Header(header.try_into().unwrap())).collect()
}

/// Judges headers from block 1 on; says the last hash and how often the bits changed.
fn judge(params: Params, headers: &[Header]) -> (String, usize) {
    let mut chain = Ledger::new(params);
    let mut real = chain.ancestor(Height::GENESIS).bits;
    let mut changes = 0;
    for header in headers {
        let mut parent = chain.parent();
        let height = parent.height + 1;
        chain.check_header(header).unwrap_or_else(|why| panic!("header {height}: {why}"));
        assert!(permitted_difficulty_transition(&chain.params, height, parent.bits, header.bits()), "{height}");
        // The kept bits and the searched ones are the same.
        real = real_bits(&chain.params, parent.height, parent.bits, real);
        parent.real_bits = Some(real);
        let required = consensus::header::required_bits(&chain.params, &parent, header.time(), |h| chain.ancestor(h));
        assert_eq!(required, header.bits(), "{height}");
        changes += usize::from(header.bits() != parent.bits);
        chain.push(header);
    }
    (chain.tip().to_string(), changes)
}

#[test]
fn mainnet_headers_to_99999_pass() {
    let Some(directory) = testkit::data::dir() else { return };
    let Some(bytes) = data::bz2(&directory.join("headers/block-headers-mainnet-1-100_000.bz2")) else { return };
    let headers = split(&bytes[10..]); // Behind magic, type and start height.
    let params = Params::new(Chain::Main);
    assert_eq!((headers.len(), headers[0].hash()), (100_000, params.genesis_hash));
    let (last, changes) = judge(params, &headers[1..]);
    assert_eq!(last, "000000000002d01c1fccc21636b607dfd930d31d01c3a62104612a1719011250");
    assert_eq!(changes, 34);
}

#[test]
fn signet_headers_to_2015_pass() {
    let Some(directory) = testkit::data::dir() else { return };
    let headers = split(&testkit::data::read(&directory.join("headers/signet_headers_0_2015.bin.xz")));
    let params = Params::new(Chain::Signet);
    assert_eq!((headers.len(), headers[0].hash()), (2016, params.genesis_hash));
    let (last, changes) = judge(params, &headers[1..]);
    assert_eq!(last, "000000c0a3841a6ae64c45864ae25314b40fd522bfb299a4b6bd5ef288cae74d");
    assert_eq!(changes, 0);
}

#[test]
fn testnet3_headers_with_fork_pass() {
    let Some(directory) = testkit::data::dir() else { return };
    let text = std::fs::read_to_string(directory.join("headers/blockheader_testnet3.hex")).unwrap();
    let parse = |line: &str| Header(hex::decode(line).unwrap().try_into().unwrap());
    let (fork, chain): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("fork:"));
    let chain: Vec<Header> = chain.into_iter().map(parse).collect();
    let fork: Vec<Header> = fork.into_iter().map(|line| parse(&line["fork:".len()..])).collect();
    assert_eq!((chain.len(), fork.len()), (546, 2));
    assert_eq!(judge(Params::new(Chain::Test), &chain).0, chain[545].hash().to_string());
    // No checkpoint stands against the fork any more.
    assert_eq!(judge(Params::new(Chain::Test), &fork).0, fork[1].hash().to_string());
}

/// chainwork 12 bytes big endian | height u32 big endian | header, at every change of difficulty.
#[test]
fn mainnet_headers_at_every_retarget_pass() {
    let Some(directory) = testkit::data::dir() else { return };
    let text = std::fs::read_to_string(directory.join("headers/mainnet_checkpoints.txt")).unwrap();
    let params = Params::new(Chain::Main);
    let mut before: Option<(u32, Work, Header)> = None;
    let mut steps = 0;
    for line in text.lines().skip(3).filter(|line| !line.is_empty()) {
        let bytes = base64(line);
        let work = Work(U256::from_hex(&hex::encode(&bytes[..12])).unwrap());
        let height = u32::from_be_bytes(bytes[12..16].try_into().unwrap());
        let header = Header(bytes[16..].try_into().unwrap());
        assert_eq!(check_proof_of_work(&params, &header.hash(), header.bits()), Ok(()), "{height}");
        if let Some((below, work_below, old)) = before {
            assert_eq!(height, below + 2016);
            let of_period = (0..2015).fold(work_below, |sum, _| sum.saturating_add(Work::of_bits(old.bits())));
            assert_eq!(of_period.saturating_add(Work::of_bits(header.bits())), work, "{height}");
            assert!(
                permitted_difficulty_transition(&params, Height::new(height), old.bits(), header.bits()),
                "{height}"
            );
            steps += 1;
        }
        before = Some((height, work, header));
    }
    assert_eq!((steps, before.unwrap().0), (435, 878_976));
}

/// Base64 without padding or line ends.
fn base64(text: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => panic!("{c} is no base64"),
    };
    let (mut out, mut held, mut bits) = (Vec::new(), 0u32, 0);
    for c in text.bytes().filter(|&c| c != b'=') {
        held = held << 6 | u32::from(digit(c));
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push((held >> bits) as u8);
        }
    }
    out
}
