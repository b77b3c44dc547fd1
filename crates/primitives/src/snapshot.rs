//! UTXO snapshots: the file that `dumptxoutset` writes and `loadtxoutset` reads.
//!
//! ```text
//! 75 74 78 6f ff | version u16 LE = 2 | network magic 4 | base block hash 32 | coins u64 LE        (51 bytes)
//! group:  txid 32 | CompactSize coins of this txid | coin ...
//! coin:   CompactSize vout | VARINT code | VARINT compressed amount | compressed script
//! ```
//!
//! Groups are in the order of the chainstate's keys, and so are the coins of a group: by the VARINT bytes of their
//! numbers, where 16,512 precedes 256. The bytes after the number are those stored in the chainstate. The file has no
//! height: it follows from the header of the base block. Absent on purpose: files, the hash of the set, and a check of
//! the order (writing tables from it reveals a wrong one). Source: Bitcoin Core b88bffe, node/utxo_snapshot.h,
//! `WriteUTXOSnapshot`, `PopulateAndValidateSnapshot`.

use crate::amount::{self, Amount};
use crate::coin::{self, CoinRef, SCRIPT_BYTES_MAX};
use crate::encode::{DecodeError, Reader, VARINT_BYTES_MAX, put_compact_size};
use crate::height::Height;
use crate::ids::{BlockHash, OutPoint, Txid};
use std::fmt;

/// First bytes of the file.
pub const MAGIC: [u8; 5] = *b"utxo\xff";
/// The version that is written, and the only one that is accepted.
pub const VERSION: u16 = 2;
/// Bytes before the first group.
pub const HEADER_BYTES: usize = 51;
/// Enough bytes for any coin with the beginning of its group: the buffer that a reader needs.
pub const ENTRY_BYTES_MAX: usize = 32 + 9 + 9 + 3 * VARINT_BYTES_MAX + SCRIPT_BYTES_MAX;
/// More outputs than fit in a block: each takes 9 of its 1,000,000 bytes without witnesses.
pub const GROUP_COINS_MAX: usize = 1_000_000 / 9;

const _: () = assert!(MAGIC.len() + 2 + 4 + 32 + 8 == HEADER_BYTES);

/// The header before the coins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotHeader {
    /// Magic of the network.
    pub network: [u8; 4],
    /// The block at which the set was taken.
    pub base: BlockHash,
    /// Number of coins.
    pub coins: u64,
}

/// Why bytes are not the header of a snapshot. The texts are Core's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderError {
    /// Another file.
    Magic,
    /// An unsupported version.
    Version(u16),
    /// The file ends inside the header, after this number of bytes.
    Cut(usize),
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeaderError::Magic => f.write_str(
                "Invalid UTXO set snapshot magic bytes. Please check if this is indeed a snapshot file or if you are \
                 using an outdated snapshot format. (at byte 0)",
            ),
            HeaderError::Version(version) => {
                write!(f, "Version of snapshot {version} does not match any of the supported versions. (at byte 5)")
            }
            HeaderError::Cut(have) => {
                write!(f, "the file ends after {have} bytes, inside its header of {HEADER_BYTES} bytes")
            }
        }
    }
}

impl std::error::Error for HeaderError {}

impl SnapshotHeader {
    /// The bytes of the header.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[..5].copy_from_slice(&MAGIC);
        out[5..7].copy_from_slice(&VERSION.to_le_bytes());
        out[7..11].copy_from_slice(&self.network);
        out[11..43].copy_from_slice(self.base.as_bytes());
        out[43..].copy_from_slice(&self.coins.to_le_bytes());
        out
    }

    /// Decodes the header at the start of `bytes`: the first [`HEADER_BYTES`] of a file, fewer if it is shorter.
    ///
    /// # Errors
    ///
    /// [`HeaderError`]. The caller checks the network.
    pub fn decode(bytes: &[u8]) -> Result<SnapshotHeader, HeaderError> {
        let mut reader = Reader::new(bytes);
        let cut = |_| HeaderError::Cut(bytes.len());
        if *reader.array::<5>().map_err(cut)? != MAGIC {
            return Err(HeaderError::Magic);
        }
        let version = reader.u16().map_err(cut)?;
        if version != VERSION {
            return Err(HeaderError::Version(version));
        }
        let network = *reader.array().map_err(cut)?;
        let base = BlockHash::from_bytes(*reader.array().map_err(cut)?);
        Ok(SnapshotHeader { network, base, coins: reader.u64().map_err(cut)? })
    }
}

/// Why the bytes after the header are not the promised coins. The texts begin with Core's, in which `after` is the
/// number of coins read before; `offset` is the place in the file, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CoinsError {
    /// A group with more coins than remain.
    Count {
        /// Offset of the group's count.
        offset: u64,
        /// The declared count.
        count: usize,
        /// Number of coins that remain according to the header.
        left: u64,
    },
    /// A group with more coins than fit in a block.
    Group {
        /// Offset of the group's count.
        offset: u64,
        /// The declared count.
        count: usize,
    },
    /// A coin from above the base block.
    Height {
        /// Coins before it.
        after: u64,
        /// Offset of the coin's code.
        offset: u64,
        /// Its height.
        height: Height,
    },
    /// An impossible amount.
    Amount {
        /// Coins before it.
        after: u64,
        /// Offset of the amount.
        offset: u64,
        /// The amount.
        value: Amount,
    },
    /// A script longer than any in the set. Core loads such a coin with another script, and then refuses the hash.
    Script {
        /// Coins before it.
        after: u64,
        /// Offset of the script's length.
        offset: u64,
    },
    /// The file ends, or a number is malformed.
    Format {
        /// Coins before it.
        after: u64,
        /// Offset of the group or coin.
        offset: u64,
        /// The cause; its offset counts from there.
        why: DecodeError,
    },
    /// Bytes after the last coin.
    LeftOver {
        /// Coins of the header.
        coins: u64,
        /// Offset of the first such byte.
        offset: u64,
    },
}

impl fmt::Display for CoinsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CoinsError::Count { offset, count, left } => write!(
                f,
                "Mismatch in coins count in snapshot metadata and actual snapshot data (byte {offset}: {count} coins of a \
                 transaction where {left} are left)"
            ),
            CoinsError::Group { offset, count } => write!(
                f,
                "Bad snapshot data: {count} coins of one transaction, a block holds at most {GROUP_COINS_MAX} \
                 (byte {offset})"
            ),
            CoinsError::Height { after, offset, height } => write!(
                f,
                "Bad snapshot data after deserializing {after} coins. (byte {offset}: height {height} is above the base block)"
            ),
            CoinsError::Amount { after, offset, value } => write!(
                f,
                "Bad snapshot data after deserializing {after} coins - bad tx out value (byte {offset}: {} satoshi)",
                value.0
            ),
            CoinsError::Script { after, offset } => write!(
                f,
                "Bad snapshot data after deserializing {after} coins. (byte {offset}: a script of more than \
                 {SCRIPT_BYTES_MAX} bytes)"
            ),
            CoinsError::Format { after, offset, why } => write!(
                f,
                "Bad snapshot format or truncated snapshot after deserializing {after} coins. (byte {offset}, and from there: \
                 {why})"
            ),
            CoinsError::LeftOver { coins, offset } => {
                write!(f, "Bad snapshot - coins left over after deserializing {coins} coins. (at byte {offset})")
            }
        }
    }
}

impl std::error::Error for CoinsError {}

/// A coin of a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotCoin<'a> {
    /// Its outpoint.
    pub outpoint: OutPoint,
    /// The decoded coin.
    pub coin: CoinRef<'a>,
    /// Its bytes in the file.
    pub bytes: &'a [u8],
    /// Whether the chainstate would store other bytes for the same coin: see [`SnapshotCoin::stored_into`].
    is_odd: bool,
}

impl SnapshotCoin<'_> {
    /// Appends the bytes that the chainstate stores: those of the file, except for the few encodings of an amount or a
    /// script that Core reads and does not write.
    pub fn stored_into(&self, out: &mut Vec<u8>) {
        if self.is_odd {
            coin::put_coin(out, self.coin.code(), self.coin.value, &self.coin.script.to_vec());
        } else {
            out.extend_from_slice(self.bytes);
        }
    }
}

/// The next item of a snapshot.
#[derive(Clone, Copy, Debug)]
pub enum Next<'a> {
    /// A coin.
    Coin(SnapshotCoin<'a>),
    /// The bytes end inside or before a coin; more of the file is needed.
    More,
    /// All coins were read, and the file ends.
    End,
}

/// A place between two coins of a snapshot, from which reading can resume later.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CoinsMark {
    /// Offset in bytes from the start of the file.
    pub offset: u64,
    /// Coins before it.
    pub count: u64,
    /// Coins after it that have the same txid as the last one.
    pub left_in_group: u64,
}

/// Parses the coins after the header, in pieces, with constant memory.
#[derive(Clone, Debug)]
pub struct CoinsParser {
    coins: u64,
    left: u64,
    height_max: Height,
    txid: Txid,
    left_in_group: usize,
    /// Offset of the next byte in the file.
    offset: u64,
}

impl CoinsParser {
    /// A parser for the coins of a snapshot; none may have a greater height than `height_max`, which is that of the
    /// base block.
    pub fn new(header: &SnapshotHeader, height_max: Height) -> CoinsParser {
        let txid = Txid::from_bytes([0; 32]);
        let offset = HEADER_BYTES as u64;
        CoinsParser { coins: header.coins, left: header.coins, height_max, txid, left_in_group: 0, offset }
    }

    /// A parser that resumes at a mark: `last` is the txid of the last coin read. `None` for an impossible mark.
    pub fn resume(header: &SnapshotHeader, height_max: Height, mark: &CoinsMark, last: Txid) -> Option<CoinsParser> {
        let left = header.coins.checked_sub(mark.count)?;
        let left_in_group = usize::try_from(mark.left_in_group).ok()?;
        let is_sound =
            mark.left_in_group <= left && left_in_group <= GROUP_COINS_MAX && mark.offset >= HEADER_BYTES as u64;
        let start = CoinsParser::new(header, height_max);
        is_sound.then_some(CoinsParser { left, txid: last, left_in_group, offset: mark.offset, ..start })
    }

    /// The current place between two coins.
    pub fn mark(&self) -> CoinsMark {
        CoinsMark { offset: self.offset, count: self.count(), left_in_group: self.left_in_group as u64 }
    }

    /// Offset of the next coin, in bytes from the start of the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Coins read so far.
    pub fn count(&self) -> u64 {
        self.coins - self.left
    }

    /// Parses the next coin at the start of `input`, and returns it with the number of bytes consumed, which the next
    /// `input` must leave out. `is_last`: nothing of the file follows `input`. With [`ENTRY_BYTES_MAX`] bytes there is
    /// always a result.
    ///
    /// # Errors
    ///
    /// [`CoinsError`]; stop reading then.
    #[inline]
    pub fn next<'a>(&mut self, input: &'a [u8], is_last: bool) -> Result<(Next<'a>, usize), CoinsError> {
        let mut reader = Reader::new(input);
        if self.left_in_group == 0 {
            if self.left == 0 {
                return match (input.is_empty(), is_last) {
                    (true, false) => Ok((Next::More, 0)),
                    (true, true) => Ok((Next::End, 0)),
                    (false, _) => Err(CoinsError::LeftOver { coins: self.coins, offset: self.offset }),
                };
            }
            // A group without coins is ignored, as in Core.
            let (at, txid, count) = loop {
                let at = reader.offset();
                match self.group(&mut reader) {
                    Ok((_, 0)) if reader.remaining() >= ENTRY_BYTES_MAX || is_last => {}
                    Ok((_, 0)) => {
                        let taken = reader.offset();
                        self.offset += taken as u64;
                        return Ok((Next::More, taken));
                    }
                    Ok((txid, count)) => break (at, txid, count),
                    Err(why) => return self.cut_or(why, is_last),
                }
            };
            let offset = self.offset + at as u64 + 32;
            if count as u64 > self.left {
                return Err(CoinsError::Count { offset, count, left: self.left });
            }
            if count > GROUP_COINS_MAX {
                return Err(CoinsError::Group { offset, count });
            }
            match self.coin(&mut reader, txid) {
                Ok(coin) => {
                    (self.txid, self.left_in_group) = (txid, count);
                    Ok(self.took(coin?, reader.offset()))
                }
                Err(why) => self.cut_or(why, is_last),
            }
        } else {
            match self.coin(&mut reader, self.txid) {
                Ok(coin) => Ok(self.took(coin?, reader.offset())),
                Err(why) => self.cut_or(why, is_last),
            }
        }
    }

    fn took<'a>(&mut self, coin: SnapshotCoin<'a>, bytes: usize) -> (Next<'a>, usize) {
        self.left_in_group -= 1;
        self.left -= 1;
        self.offset += bytes as u64;
        (Next::Coin(coin), bytes)
    }

    fn cut_or<'a>(&self, why: DecodeError, is_last: bool) -> Result<(Next<'a>, usize), CoinsError> {
        match why {
            DecodeError::Cut { .. } if !is_last => Ok((Next::More, 0)),
            why => Err(CoinsError::Format { after: self.count(), offset: self.offset, why }),
        }
    }

    #[inline]
    fn group(&self, reader: &mut Reader<'_>) -> Result<(Txid, usize), DecodeError> {
        let txid = Txid::from_bytes(*reader.array()?);
        Ok((txid, reader.compact_size()?))
    }

    /// Parses a coin; the outer error concerns the encoding, the inner one the values.
    #[inline]
    fn coin<'a>(
        &self,
        reader: &mut Reader<'a>,
        txid: Txid,
    ) -> Result<Result<SnapshotCoin<'a>, CoinsError>, DecodeError> {
        let vout = reader.compact_size()? as u32;
        let start = reader.offset();
        let code = reader.varint_u32()?;
        let amount_at = reader.offset();
        let compressed = reader.varint()?;
        let script_at = reader.offset();
        let place = |at: usize| self.offset + at as u64;
        let after = self.count();
        if coin::is_oversize(reader.clone())? {
            return Ok(Err(CoinsError::Script { after, offset: place(script_at) }));
        }
        let script = coin::read_script(reader)?;
        let height = Height::new(code >> 1);
        if height > self.height_max {
            return Ok(Err(CoinsError::Height { after, offset: place(start), height }));
        }
        let value = Amount(amount::decompress(compressed).cast_signed());
        if !value.in_range() {
            return Ok(Err(CoinsError::Amount { after, offset: place(amount_at), value }));
        }
        let coin = CoinRef { height, coinbase: code & 1 == 1, value, script };
        let bytes = reader.since(start);
        let is_odd = amount::is_odd(compressed) || coin::is_odd(&script);
        Ok(Ok(SnapshotCoin { outpoint: OutPoint { txid, vout }, coin, bytes, is_odd }))
    }
}

/// Appends coins as groups.
#[derive(Clone, Debug, Default)]
pub struct GroupWriter {
    out: Vec<u8>,
    group: Vec<u8>,
    txid: Option<Txid>,
    count: u64,
}

impl GroupWriter {
    /// Appends a coin and its stored bytes. Coins come in the order of their keys.
    #[inline]
    pub fn push(&mut self, outpoint: &OutPoint, stored: &[u8]) {
        if self.txid != Some(outpoint.txid) {
            self.close();
            self.txid = Some(outpoint.txid);
        }
        put_compact_size(&mut self.group, u64::from(outpoint.vout));
        self.group.extend_from_slice(stored);
        self.count += 1;
    }

    fn close(&mut self) {
        if let Some(txid) = self.txid.take() {
            self.out.extend_from_slice(txid.as_bytes());
            put_compact_size(&mut self.out, self.count);
            self.out.extend_from_slice(&self.group);
            self.group.clear();
            self.count = 0;
        }
    }

    /// Ends the last group, and returns the bytes written. The next coin begins a new group.
    pub fn take(&mut self) -> Vec<u8> {
        self.close();
        std::mem::take(&mut self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::put_varint;
    use crate::hex;

    const BASE: BlockHash = BlockHash::literal("0c552ced4721c249a389eb9b08cb8da261cd46f0e7b5f9d064d48f3113406853");

    fn header(coins: u64) -> SnapshotHeader {
        SnapshotHeader { network: [0xfa, 0xbf, 0xb5, 0xda], base: BASE, coins }
    }

    fn file(coins: u64, body: &[u8]) -> Vec<u8> {
        [&header(coins).encode()[..], body].concat()
    }

    /// One coin: height 5 of a coinbase, 50 BTC, the script OP_TRUE.
    fn coin(vout: u8) -> Vec<u8> {
        [vout, 11, 0x32, 7, 0x51].to_vec()
    }

    fn group(txid: u8, coins: &[Vec<u8>]) -> Vec<u8> {
        [&[txid; 32][..], &[coins.len() as u8], &coins.concat()].concat()
    }

    /// Names and stored bytes, in the order of the file.
    type Coins = Vec<(OutPoint, Vec<u8>)>;

    /// All coins, read from pieces of at most `piece` bytes more than a coin may take.
    fn read(file: &[u8], height_max: u32, piece: usize) -> Result<Coins, String> {
        let start = &file[..file.len().min(HEADER_BYTES)];
        let header = SnapshotHeader::decode(start).map_err(|why| why.to_string())?;
        let mut parser = CoinsParser::new(&header, Height::new(height_max));
        let (mut at, mut end, mut coins) = (HEADER_BYTES, HEADER_BYTES, Vec::new());
        loop {
            let (next, taken) = parser.next(&file[at..end], end == file.len()).map_err(|why| why.to_string())?;
            at += taken;
            assert_eq!(parser.offset(), at as u64);
            match next {
                Next::Coin(coin) => {
                    let mut stored = Vec::new();
                    coin.stored_into(&mut stored);
                    coins.push((coin.outpoint, stored));
                    assert_eq!(parser.count(), coins.len() as u64);
                }
                Next::More => {
                    assert!(end - at < ENTRY_BYTES_MAX, "a whole coin is always read");
                    end = file.len().min(end + piece);
                }
                Next::End => return Ok(coins),
            }
        }
    }

    #[test]
    fn header_is_cores() {
        let bytes = hex::decode(
            "7574786fff0200fabfb5da53684013318fd464d0f9b5e7f046cd61a28dcb089beb89a349c22147ed2c550c2b01000000000000",
        );
        assert_eq!(header(299).encode().to_vec(), bytes.unwrap());
        assert_eq!(SnapshotHeader::decode(&header(299).encode()), Ok(header(299)));
        for cut in 0..HEADER_BYTES {
            assert_eq!(SnapshotHeader::decode(&header(1).encode()[..cut]), Err(HeaderError::Cut(cut)));
        }
    }

    /// The words are those that Core's functional test feature_assumeutxo expects.
    #[test]
    fn parser_refuses_with_cores_words() {
        let good = [group(1, &[coin(0), coin(3)]), group(2, &[coin(1)])].concat();
        let with = |at: usize, bytes: &[u8]| [&good[..at], bytes, &good[at + bytes.len()..]].concat();
        let mut rich = vec![0, 11];
        put_varint(&mut rich, amount::compress(Amount::MAX.0.cast_unsigned() + 1));
        rich.push(6);
        let mut long = vec![0, 11, 0x32];
        put_varint(&mut long, 10_001 + 6);
        for (row, file, want) in [
            ("magic", [&b"utxo\xfe"[..], &file(3, &good)[5..]].concat(), "magic bytes"),
            (
                "version 0",
                [&b"utxo\xff\0\0"[..], &file(3, &good)[7..]].concat(),
                "Version of snapshot 0 does not match",
            ),
            ("version 3", [&b"utxo\xff\x03\0"[..], &file(3, &good)[7..]].concat(), "Version of snapshot 3 does not"),
            ("no coins", file(0, &good), "coins left over after deserializing 0 coins"),
            ("one less", file(2, &good), "coins left over after deserializing 2 coins"),
            ("one more", file(4, &good), "truncated snapshot after deserializing 3 coins"),
            (
                "one byte more",
                file(3, &[&good[..], &[0]].concat()),
                "left over after deserializing 3 coins. (at byte 132)",
            ),
            (
                "more in a group than are left",
                file(3, &with(32, &[0xfd, 0xff, 0xff])),
                "Mismatch in coins count in snapshot",
            ),
            ("more than a block holds", file(1 << 40, &with(32, &[0xfe, 0, 0, 2, 0])), "a block holds at most 111111"),
            (
                "a count below its form",
                file(300, &with(32, &[0xfd, 1, 0])),
                "truncated snapshot after deserializing 0 coins",
            ),
            (
                "above the base",
                file(3, &with(34, &[14])),
                "Bad snapshot data after deserializing 0 coins. (byte 85: height 7",
            ),
            ("too rich", file(1, &group(1, &[rich])), "after deserializing 0 coins - bad tx out value (byte 86"),
            ("a long script", file(1, &group(1, &[long])), "a script of more than 10000 bytes"),
            ("a code beyond 32 bits", file(3, &with(34, &[0xff; 5])), "the VARINT at byte"),
            ("an output number beyond all", file(3, &with(33, &[0xfe, 1, 0, 0, 2])), "truncated snapshot"),
        ] {
            for piece in [1, 7, 1 << 20] {
                let why = read(&file, 6, piece).unwrap_err();
                assert!(why.contains(want), "{row}: {why}");
            }
        }
        assert_eq!(read(&file(3, &good), 6, 1).unwrap().len(), 3);
        assert_eq!(read(&file(0, &[]), 6, 1).unwrap(), []);
    }

    #[test]
    fn groups_without_coins_are_nothing() {
        let body = [group(1, &[]), group(2, &[coin(1)]), group(3, &[])].concat();
        assert!(read(&file(1, &body), 6, 1).unwrap_err().contains("left over"));
        assert_eq!(read(&file(1, &body[..body.len() - 33]), 6, 1).unwrap().len(), 1);
        assert!(read(&file(2, &[&group(1, &[])[..], &vec![0; 33 * 2000]].concat()), 6, 100).is_err());
    }

    #[test]
    fn what_core_reads_and_never_writes_is_stored_as_core_stores_it() {
        let key = "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";
        let p2pkh = "76a914".to_owned() + &"ab".repeat(20) + "88ac";
        for (row, script, stored) in [
            ("P2PKH as it is", "1f".to_owned() + &p2pkh, "00".to_owned() + &"ab".repeat(20)),
            ("P2SH as it is", "1da914".to_owned() + &"cd".repeat(20) + "87", "01".to_owned() + &"cd".repeat(20)),
            ("a point", "04".to_owned() + key, "04".to_owned() + key),
            ("no point", "05".to_owned() + &"ff".repeat(32), "06".to_owned()),
            ("25 bytes of another kind", "1f".to_owned() + &"51".repeat(25), "1f".to_owned() + &"51".repeat(25)),
        ] {
            let bytes = [vec![0, 11, 0x32], hex::decode(&script).unwrap()].concat();
            let coins = read(&file(1, &group(9, &[bytes])), 6, 1).unwrap();
            assert_eq!(hex::encode(&coins[0].1), format!("0b32{stored}"), "{row}");
            CoinRef::decode(&coins[0].1).unwrap();
        }
        // Modulo 2^64, 10^9 times 2^55 + 1 is 10^9 again, and 10^9 times 18,446,744,074 is 290,448,384.
        for (compressed, amount) in [((1 << 55) * 10 + 10, 1_000_000_000), (184_467_440_740, 290_448_384)] {
            let coin = |amount| {
                let mut bytes = vec![11];
                put_varint(&mut bytes, amount);
                bytes.extend([7, 0x51]);
                bytes
            };
            let odd = [vec![0], coin(compressed)].concat();
            assert_eq!(read(&file(1, &group(9, &[odd])), 6, 1).unwrap()[0].1, coin(amount::compress(amount)));
        }
    }

    /// The order of keys: 16512 is `80 80 00`, before 256, which is `81 00`.
    #[test]
    fn written_groups_are_read_again() {
        let outpoint = |txid: u8, vout| OutPoint { txid: Txid::from_bytes([txid; 32]), vout };
        let stored = vec![11, 0x32, 7, 0x51];
        let all = [(1, 0), (1, 127), (1, 16_512), (1, 256), (1, 70_000), (2, 1)].map(|(txid, n)| outpoint(txid, n));
        let mut writer = GroupWriter::default();
        all.iter().for_each(|outpoint| writer.push(outpoint, &stored));
        let body = writer.take();
        assert_eq!(&body[32..39], [5, 0, 11, 0x32, 7, 0x51, 127]);
        let coins = read(&file(6, &body), 6, 3).unwrap();
        assert_eq!(coins, all.map(|outpoint| (outpoint, stored.clone())));
    }

    /// Cut at every place, every byte changed: an answer or a refusal, always.
    #[test]
    fn no_change_of_a_file_panics() {
        let good = file(3, &[group(1, &[coin(0), coin(3)]), group(2, &[coin(1)])].concat());
        for at in 0..good.len() {
            assert!(read(&good[..at], 6, 5).is_err(), "cut at {at}");
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                let _ = read(&bad, 6, 5);
            }
        }
    }
}
