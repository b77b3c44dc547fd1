//! Bytes of any kind as a snapshot, read in pieces: the coins that a plain reader finds, or a refusal where it has one.

use crate::coin::CoinRef;
use crate::snapshot::{CoinsParser, ENTRY_BYTES_MAX, GROUP_COINS_MAX, GroupWriter, HEADER_BYTES, Next, SnapshotHeader};
use crate::{Height, OutPoint, Txid};

/// Heights above are refused.
const HEIGHT_MAX: u32 = 1000;

/// Reads what follows the first byte, which says how long pieces are.
pub fn fuzz_snapshot(data: &[u8]) {
    let Some((piece, file)) = data.split_first() else { return };
    let Ok(header) = SnapshotHeader::decode(&file[..file.len().min(HEADER_BYTES)]) else { return };
    let read = in_pieces(&header, file, usize::from(*piece) + 1);
    let plain = plain(&header, &file[HEADER_BYTES..]);
    match (&read, &plain) {
        (Some(read), Some(plain)) => assert!(read == plain, "other coins than the plain reader's"),
        (None, None) => return,
        _ => panic!("read: {}, by the plain reader: {}", read.is_some(), plain.is_some()),
    }
    // What is written of them is read the same, where groups are whole.
    let coins = read.expect("just seen");
    let mut seen = std::collections::HashSet::new();
    let is_grouped = coins
        .chunk_by(|a, b| a.0.txid == b.0.txid)
        .all(|group| seen.insert(group[0].0.txid) && group.len() <= GROUP_COINS_MAX);
    if is_grouped {
        let mut writer = GroupWriter::default();
        coins.iter().for_each(|(outpoint, stored)| writer.push(outpoint, stored));
        let again = [&header.encode()[..], &writer.take()].concat();
        assert!(in_pieces(&header, &again, 300).is_some_and(|again| again == coins), "written and read again");
    }
}

/// Names and stored bytes.
type Coins = Vec<(OutPoint, Vec<u8>)>;

fn in_pieces(header: &SnapshotHeader, file: &[u8], piece: usize) -> Option<Coins> {
    let mut parser = CoinsParser::new(header, Height::new(HEIGHT_MAX));
    let (mut at, mut end, mut coins) = (HEADER_BYTES, HEADER_BYTES, Vec::new());
    loop {
        let (next, taken) = parser.next(&file[at..end], end == file.len()).ok()?;
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
            Next::End => return Some(coins),
        }
    }
}

/// By the description of the format alone.
fn plain(header: &SnapshotHeader, body: &[u8]) -> Option<Coins> {
    let (mut rest, mut left, mut coins) = (body, header.coins, Vec::new());
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
            // The chainstate has one spelling of each coin.
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
    use crate::BlockHash;

    /// Files that are nearly whole, so that changes get far.
    #[test]
    fn changed_snapshots_are_read_as_by_the_plain_reader() {
        let mut rng = testkit::Rng::new(11);
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
            fuzz_snapshot(&data);
        }
    }
}
