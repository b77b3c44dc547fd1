//! Arbitrary bytes as a snapshot, read in pieces: the coins must be those of a plain reader, or an error if it has one.
//!
//! The first byte selects the length of pieces. The rest is a file if it begins like one; otherwise the bytes after its
//! first are choices of groups of coins to make and mutate.

use super::choices::{Choices, bend};
use crate::coin::CoinRef;
use crate::encode::{put_compact_size, put_varint};
use crate::snapshot::{
    CoinsError, CoinsParser, ENTRY_BYTES_MAX, GROUP_COINS_MAX, GroupWriter, HEADER_BYTES, MAGIC, Next, SnapshotHeader,
};
use crate::{BlockHash, Height, OutPoint, Txid};

/// Greater heights are refused.
const HEIGHT_MAX: u32 = 1000;
/// Maximum number of groups that are made, and of coins in most groups.
const GROUPS_MAX: usize = 5;
const COINS_MAX: usize = 6;

/// Reads a snapshot; returns the number of its coins, or the error, and `None` if it does not begin like one.
pub fn fuzz_snapshot(data: &[u8]) -> Option<Result<usize, CoinsError>> {
    let (piece, rest) = data.split_first()?;
    let made = rest.split_first().filter(|(first, _)| **first != MAGIC[0]).map(|(_, choices)| made(choices));
    let file = made.as_deref().unwrap_or(rest);
    let header = SnapshotHeader::decode(&file[..file.len().min(HEADER_BYTES)]).ok()?;
    Some(read(&header, file, usize::from(*piece) + 1))
}

fn read(header: &SnapshotHeader, file: &[u8], piece: usize) -> Result<usize, CoinsError> {
    let coins = match (in_pieces(header, file, piece), plain(header, &file[HEADER_BYTES..])) {
        (Ok(read), Some(plain)) => {
            assert!(read == plain, "other coins than the plain reader's");
            read
        }
        (Err(why), None) => {
            assert!(!why.to_string().is_empty());
            return Err(why);
        }
        (read, plain) => panic!("read: {:?}, by the plain reader: {}", read.map(|_| ()), plain.is_some()),
    };
    // Coins written again read the same, if groups are whole.
    let mut seen = std::collections::HashSet::new();
    let is_grouped = coins
        .chunk_by(|a, b| a.0.txid == b.0.txid)
        .all(|group| seen.insert(group[0].0.txid) && group.len() <= GROUP_COINS_MAX);
    if is_grouped {
        let mut writer = GroupWriter::default();
        coins.iter().for_each(|(outpoint, stored)| writer.push(outpoint, stored));
        let again = [&header.encode()[..], &writer.take()].concat();
        assert!(in_pieces(header, &again, 300) == Ok(coins.clone()), "written and read again");
    }
    Ok(coins.len())
}

/// A file from choices: usually with the number of coins that it declares, each of a kind that a file may have.
fn made(choices: &[u8]) -> Vec<u8> {
    let mut choices = Choices(choices);
    let bends = choices.bends();
    let said = choices.of(&[0, 0, 0, 0, 1, -1, i64::MAX]);
    let mut body = Vec::new();
    let mut coins = 0_u64;
    for _ in 0..choices.below(GROUPS_MAX + 1) {
        let txid = choices.byte();
        let count = choices.below(COINS_MAX);
        // A few declare more than they have, or enough that the count takes three bytes.
        let (count, counted) = match choices.below(16) {
            14 => (count, GROUP_COINS_MAX + count),
            15 => (250 + count, 250 + count),
            _ => (count, count),
        };
        body.extend([txid; 32]);
        put_compact_size(&mut body, counted as u64);
        (0..count).for_each(|_| put_coin(&mut body, &mut choices));
        coins += count as u64;
    }
    let coins = coins.saturating_add_signed(said);
    let mut file = SnapshotHeader { network: [1, 2, 3, 4], base: BlockHash::ZERO, coins }.encode().to_vec();
    file.append(&mut body);
    bend(&mut file, &bends);
    file
}

fn put_coin(out: &mut Vec<u8>, choices: &mut Choices<'_>) {
    let vout = u64::from(choices.byte()) << choices.of(&[0, 1, 8, 16]);
    put_compact_size(out, vout);
    let height = u64::from(choices.byte()) << choices.below(3);
    put_varint(out, height << 1 | u64::from(choices.byte() & 1));
    let amount = match choices.below(6) {
        // The maximum amount of money, compressed, and larger values; also non-canonical numbers of amounts in range.
        3 => choices.of(&[21_000_000, 21_000_010, 1 << 55, (1 << 55) + 1, u64::MAX]),
        exponent => u64::from(choices.number()) << (exponent * 8),
    };
    put_varint(out, amount);
    put_script(out, choices);
}

/// Stored as a template, or verbatim although it has the form or the length of one.
fn put_script(out: &mut Vec<u8>, choices: &mut Choices<'_>) {
    /// X of the curve's generator: SEC 2, secp256k1.
    const X: [u8; 32] = [
        0x79, 0xbe, 0x66, 0x7e, 0xf9, 0xdc, 0xbb, 0xac, 0x55, 0xa0, 0x62, 0x95, 0xce, 0x87, 0x0b, 0x07, 0x02, 0x9b,
        0xfc, 0xdb, 0x2d, 0xce, 0x28, 0xd9, 0x59, 0xf2, 0x81, 0x5b, 0x16, 0xf8, 0x17, 0x98,
    ];
    let kind = choices.below(16);
    let with = choices.byte();
    let raw = match kind {
        0 | 1 => vec![with; 20],
        2..=4 => X.to_vec(),
        // Half of the numbers are X of a key.
        5 => vec![with; 32],
        6 => [&[0x76, 0xa9, 0x14][..], &[with; 20], &[0x88, 0xac]].concat(),
        7 => [&[0xa9, 0x14][..], &[with; 20], &[0x87]].concat(),
        8 => [&[0x21, 2 | with & 1][..], &X, &[0xac]].concat(),
        9 => vec![with; choices.of(&[23, 25, 35, 67])],
        10 => vec![with; choices.of(&[9_999, 10_000])],
        11 => vec![with; 10_001],
        _ => vec![with; choices.byte().into()],
    };
    match kind {
        0..=5 => out.push(kind as u8),
        _ => put_varint(out, raw.len() as u64 + 6),
    }
    out.extend_from_slice(&raw);
}

/// Outpoints and stored bytes.
type Coins = Vec<(OutPoint, Vec<u8>)>;

fn in_pieces(header: &SnapshotHeader, file: &[u8], piece: usize) -> Result<Coins, CoinsError> {
    let mut parser = CoinsParser::new(header, Height::new(HEIGHT_MAX));
    let mut at = HEADER_BYTES;
    let mut end = HEADER_BYTES;
    let mut coins = Vec::new();
    loop {
        let (next, taken) = parser.next(&file[at..end], end == file.len())?;
        at += taken;
        match next {
            Next::Coin(coin) => {
                let mut stored = Vec::new();
                coin.stored_into(&mut stored);
                CoinRef::decode(&stored).expect("what is stored is a coin");
                coins.push((coin.outpoint, stored));
            }
            Next::More => {
                assert!(end - at < ENTRY_BYTES_MAX, "a whole coin gives an answer");
                end = file.len().min(end + piece);
            }
            Next::End => return Ok(coins),
        }
    }
}

/// Decodes from the description of the format only.
fn plain(header: &SnapshotHeader, body: &[u8]) -> Option<Coins> {
    let mut rest = body;
    let mut left = header.coins;
    let mut coins = Vec::new();
    while left > 0 {
        let txid = Txid::from_bytes(*take(&mut rest, 32)?.first_chunk()?);
        let count = compact(&mut rest)?;
        if count > left || count > GROUP_COINS_MAX as u64 {
            return None;
        }
        for _ in 0..count {
            let vout = compact(&mut rest)? as u32;
            let start = rest;
            let code = varint(&mut rest).filter(|code| *code <= u64::from(u32::MAX))?;
            let amount = crate::amount::decompress(varint(&mut rest)?);
            let size = match varint(&mut rest)? {
                0 | 1 => 20,
                2..=5 => 32,
                raw if raw - 6 > 10_000 => return None,
                raw => raw as usize - 6,
            };
            take(&mut rest, size)?;
            if code >> 1 > u64::from(HEIGHT_MAX) || amount > 2_100_000_000_000_000 {
                return None;
            }
            let bytes = &start[..start.len() - rest.len()];
            // The chainstate has one encoding of each coin.
            let coin = CoinRef::decode(bytes).ok()?;
            let mut stored = Vec::new();
            crate::coin::put_coin(&mut stored, coin.code(), coin.value, &coin.script.to_vec());
            coins.push((OutPoint { txid, vout }, stored));
            left -= 1;
        }
    }
    rest.is_empty().then_some(coins)
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(count)?;
    *rest = after;
    Some(taken)
}

fn compact(rest: &mut &[u8]) -> Option<u64> {
    let first = take(rest, 1)?[0];
    let (size, least) = match first {
        253 => (2, 253),
        254 => (4, 1 << 16),
        255 => (8, 1 << 32),
        small => return Some(small.into()),
    };
    let value = take(rest, size)?.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
    (value >= least && value <= 0x0200_0000).then_some(value)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    loop {
        let byte = take(rest, 1)?[0];
        value = value.checked_mul(128)? | u64::from(byte & 127);
        if byte < 128 {
            return Some(value);
        }
        value = value.checked_add(1)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Files that are nearly whole, so that changes get far.
    #[test]
    fn changed_snapshots_are_read_as_by_the_plain_reader() {
        let mut rng = testkit::Rng::new(11);
        let mut met = BTreeSet::new();
        for _ in 0..3000 {
            let coins = rng.below(6) as u64;
            let header = SnapshotHeader { network: [1, 2, 3, 4], base: BlockHash::ZERO, coins };
            let mut writer = GroupWriter::default();
            for _ in 0..coins {
                let outpoint = OutPoint {
                    txid: Txid::from_bytes([rng.below(3) as u8; 32]),
                    vout: rng.u32() >> (7 + rng.below(25)),
                };
                let length = *rng.pick(&[0, 1, 20, 23, 25, 35, 67]);
                let script = rng.bytes(length);
                let mut stored = Vec::new();
                crate::coin::put_coin(
                    &mut stored,
                    rng.below(2010) as u32,
                    crate::Amount((rng.u64() >> 24) as i64),
                    &script,
                );
                writer.push(&outpoint, &stored);
            }
            let mut data = [&[rng.byte()][..], &header.encode(), &writer.take()].concat();
            for _ in 0..rng.below(3) {
                let at = 8 + rng.below(data.len() - 8);
                data[at] = if rng.one_in(2) { rng.byte() } else { data[at] ^ 1 << rng.below(8) };
            }
            if rng.one_in(5) {
                data.truncate(rng.below(data.len() + 1));
            }
            let _ = fuzz_snapshot(&data);
            // The length of pieces, a byte that is no start of a snapshot, then choices.
            let length = 2 + rng.below(100);
            let mut choices = rng.bytes(length);
            choices[1] = 1;
            met.insert(what(fuzz_snapshot(&choices)));
        }
        assert!(met.len() > 7, "{met:?}");
    }

    fn what(read: Option<Result<usize, CoinsError>>) -> &'static str {
        match read {
            None => "no header",
            Some(Ok(0)) => "no coins",
            Some(Ok(1..=249)) => "coins",
            Some(Ok(_)) => "many coins",
            Some(Err(CoinsError::Count { .. })) => "count",
            Some(Err(CoinsError::Group { .. })) => "group",
            Some(Err(CoinsError::Height { .. })) => "height",
            Some(Err(CoinsError::Amount { .. })) => "amount",
            Some(Err(CoinsError::Script { .. })) => "script",
            Some(Err(CoinsError::Format { .. })) => "format",
            Some(Err(CoinsError::LeftOver { .. })) => "left over",
        }
    }

    #[test]
    fn seeds_of_the_fuzzer_meet_every_refusal() {
        let (mut of_files, mut of_choices) = (BTreeSet::new(), BTreeSet::new());
        for data in testkit::fuzz_seeds("snapshot") {
            let met = if data.get(1) == Some(&MAGIC[0]) { &mut of_files } else { &mut of_choices };
            met.insert(what(fuzz_snapshot(&data)));
        }
        assert!(of_files.contains("coins"), "{of_files:?}");
        for want in
            ["no coins", "coins", "many coins", "count", "group", "height", "amount", "script", "format", "left over"]
        {
            assert!(of_choices.contains(want), "{want}: {of_choices:?}");
        }
    }
}
