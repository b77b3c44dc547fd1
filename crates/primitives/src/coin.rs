//! Coins as Core stores them: `VARINT(2 * height + coinbase) | VARINT(compressed amount) | compressed script`.
//!
//! The same bytes are the value in the chainstate, the entry of a snapshot, and, apart from one byte, an entry of undo
//! data. ffwd uses them in memory too: a coin is encoded once, when it is created.
//!
//! Compressed script: VARINT kind, then the payload. Kinds 0 to 5 are templates; kind n + 6 is a script of n bytes.

use crate::amount::{self, Amount};
use crate::encode::{Append, DecodeError, Reader, VARINT_BYTES_MAX, copy_short, write_varint};
use crate::height::Height;
use crate::ids::{OutPoint, Txid};
use std::fmt;

/// Outputs with a longer script never enter the set. Source: Bitcoin Core b88bffe, `MAX_SCRIPT_SIZE`.
pub const SCRIPT_BYTES_MAX: usize = 10_000;
/// Lower kinds are templates.
const SPECIAL_KINDS: u64 = 6;
const OP_RETURN: u8 = 0x6a;

/// Whether an output is provably unspendable: its script starts with OP_RETURN or exceeds [`SCRIPT_BYTES_MAX`].
///
/// Source: Bitcoin Core b88bffe, `CScript::IsUnspendable`.
#[inline]
pub fn is_unspendable(script: &[u8]) -> bool {
    script.first() == Some(&OP_RETURN) || script.len() > SCRIPT_BYTES_MAX
}

/// The code of a coin: twice its height, plus one for a coinbase.
#[inline]
pub fn code(height: Height, coinbase: bool) -> u32 {
    height.to_u32() * 2 + u32::from(coinbase)
}

/// The template form of a script: a kind and the payload.
#[inline]
fn template(script: &[u8]) -> Option<(u8, &[u8])> {
    match script {
        [0x76, 0xa9, 0x14, hash @ .., 0x88, 0xac] if hash.len() == 20 => Some((0, hash)),
        [0xa9, 0x14, hash @ .., 0x87] if hash.len() == 20 => Some((1, hash)),
        [0x21, kind @ (2 | 3), x @ .., 0xac] if x.len() == 32 => Some((*kind, x)),
        [0x41, 4, xy @ .., 0xac] if xy.len() == 64 => {
            // Only for a point of the curve can the key be recomputed from its X.
            secp256k1::PublicKey::from_slice(&script[1..66]).ok()?;
            Some((4 | (xy[63] & 1), &xy[..32]))
        }
        _ => None,
    }
}

/// Maximum bytes that [`write_coin`] needs for a script of `script_bytes`.
#[inline]
pub fn coin_bytes_max(script_bytes: usize) -> usize {
    3 * VARINT_BYTES_MAX + script_bytes
}

/// Writes a coin at the start of `out` and returns the bytes used.
///
/// # Panics
///
/// If `out` is shorter; [`coin_bytes_max`] always suffices.
#[inline]
pub fn write_coin(out: &mut [u8], code: u32, value: Amount, script: &[u8]) -> usize {
    let mut at = write_varint(out, u64::from(code));
    at += write_varint(&mut out[at..], amount::compress(value.0.cast_unsigned()));
    let payload = match template(script) {
        Some((kind, payload)) => {
            out[at] = kind;
            at += 1;
            payload
        }
        None => {
            at += write_varint(&mut out[at..], script.len() as u64 + SPECIAL_KINDS);
            script
        }
    };
    copy_short(&mut out[at..], payload);
    at + payload.len()
}

/// Appends a coin.
pub fn put_coin(out: &mut Vec<u8>, code: u32, value: Amount, script: &[u8]) {
    let start = out.len();
    out.resize(start + coin_bytes_max(script.len()), 0);
    let bytes = write_coin(&mut out[start..], code, value, script);
    out.truncate(start + bytes);
}

/// A decoded stored coin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoinRef<'a> {
    /// Height of the block that made it.
    pub height: Height,
    /// Whether a coinbase made it.
    pub coinbase: bool,
    /// Its amount.
    pub value: Amount,
    /// Its script, compressed.
    pub script: CompressedScript<'a>,
}

/// A script as stored: kind and payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompressedScript<'a> {
    kind: u8,
    payload: &'a [u8],
}

/// Kind of a script that is stored verbatim.
const RAW: u8 = 6;
/// Kind of a script that is longer than any in the set; Core reads it as a single OP_RETURN.
const OVERSIZE: u8 = 7;

impl<'a> CoinRef<'a> {
    /// Decodes exactly one coin.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the bytes are not a coin. An amount may be any 64 bits, as in Core.
    pub fn decode(bytes: &'a [u8]) -> Result<CoinRef<'a>, DecodeError> {
        let mut reader = Reader::new(bytes);
        let coin = CoinRef::read(&mut reader)?;
        reader.finish()?;
        Ok(coin)
    }

    /// Reads a coin.
    pub fn read(reader: &mut Reader<'a>) -> Result<CoinRef<'a>, DecodeError> {
        let code = reader.varint_u32()?;
        CoinRef::read_after_code(code, reader)
    }

    /// Reads the rest of a coin after its code; undo data has a byte between them.
    #[inline]
    pub fn read_after_code(code: u32, reader: &mut Reader<'a>) -> Result<CoinRef<'a>, DecodeError> {
        let value = Amount(amount::decompress(reader.varint()?).cast_signed());
        let script = CompressedScript::read(reader)?;
        Ok(CoinRef { height: Height::new(code >> 1), coinbase: code & 1 == 1, value, script })
    }

    /// The code: twice the height, plus one for a coinbase.
    #[inline]
    pub fn code(&self) -> u32 {
        code(self.height, self.coinbase)
    }
}

impl<'a> CompressedScript<'a> {
    #[inline]
    fn read(reader: &mut Reader<'a>) -> Result<CompressedScript<'a>, DecodeError> {
        let offset = reader.offset();
        match reader.varint()? {
            kind @ 0..=1 => Ok(CompressedScript { kind: kind as u8, payload: reader.take(20)? }),
            kind @ 2..=5 => Ok(CompressedScript { kind: kind as u8, payload: reader.take(32)? }),
            size => {
                let bytes = usize::try_from(size - SPECIAL_KINDS)
                    .map_err(|_| DecodeError::Value { offset, what: "a script longer than memory" })?;
                let payload = reader.take(bytes)?;
                let kind = if bytes > SCRIPT_BYTES_MAX { OVERSIZE } else { RAW };
                Ok(CompressedScript { kind, payload })
            }
        }
    }

    /// Bytes of the script itself.
    ///
    /// An uncompressed key that is not on the curve, which only damaged data can have, gives the empty script, as in
    /// Core.
    pub fn script_bytes(&self) -> usize {
        match self.kind {
            0 => 25,
            1 => 23,
            2 | 3 => 35,
            4 | 5 => decompress_key(self.kind, self.payload).map_or(0, |_| 67),
            OVERSIZE => 1,
            _ => self.payload.len(),
        }
    }

    /// The script if it is stored verbatim; templates must be expanded by [`CompressedScript::append_to`].
    pub fn raw(&self) -> Option<&'a [u8]> {
        (self.kind == RAW).then_some(self.payload)
    }

    /// The kind with which it is stored; for templates 0 to 5.
    pub(crate) fn template_kind(&self) -> u8 {
        self.kind
    }

    /// Whether it can be P2SH or a witness program; otherwise it pays to a key or the hash of one.
    #[inline]
    pub fn may_hold_program(&self) -> bool {
        self.kind == 1 || self.kind == RAW
    }

    /// Appends the script.
    #[inline]
    pub fn append_to(&self, out: &mut impl Append) {
        match self.kind {
            0 => {
                out.extend_from_slice(&[0x76, 0xa9, 0x14]);
                out.extend_from_slice(self.payload);
                out.extend_from_slice(&[0x88, 0xac]);
            }
            1 => {
                out.extend_from_slice(&[0xa9, 0x14]);
                out.extend_from_slice(self.payload);
                out.push(0x87);
            }
            2 | 3 => {
                out.extend_from_slice(&[0x21, self.kind]);
                out.extend_from_slice(self.payload);
                out.push(0xac);
            }
            4 | 5 => {
                if let Some(key) = decompress_key(self.kind, self.payload) {
                    out.push(0x41);
                    out.extend_from_slice(&key);
                    out.push(0xac);
                }
            }
            OVERSIZE => out.push(OP_RETURN),
            _ => out.extend_from_slice(self.payload),
        }
    }

    /// The script.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.append_to(&mut out);
        out
    }
}

/// Reads a script.
#[inline]
pub(crate) fn read_script<'a>(reader: &mut Reader<'a>) -> Result<CompressedScript<'a>, DecodeError> {
    CompressedScript::read(reader)
}

/// Whether the next script is longer than any in the set, judged only by its length.
#[inline]
pub(crate) fn is_oversize(mut reader: Reader<'_>) -> Result<bool, DecodeError> {
    Ok(reader.varint()? > SCRIPT_BYTES_MAX as u64 + SPECIAL_KINDS)
}

/// Whether Core writes the same script in other bytes: one that fits a template, or a key that is not on the curve.
#[inline]
pub(crate) fn is_odd(script: &CompressedScript<'_>) -> bool {
    match script.kind {
        0..=3 => false,
        4 | 5 => decompress_key(script.kind, script.payload).is_none(),
        // The lengths of scripts that fit templates.
        _ => matches!(script.payload.len(), 23 | 25 | 35 | 67) && template(script.payload).is_some(),
    }
}

/// The 65 bytes of a key whose X and parity of Y are stored.
fn decompress_key(kind: u8, x: &[u8]) -> Option<[u8; 65]> {
    let mut key = [0; 33];
    key[0] = kind - 2;
    key[1..].copy_from_slice(x);
    Some(secp256k1::PublicKey::from_slice(&key).ok()?.serialize_uncompressed())
}

/// First byte of a coin's key in the chainstate.
pub const COIN_KEY_PREFIX: u8 = b'C';
/// Maximum bytes of a coin's key.
pub const COIN_KEY_BYTES_MAX: usize = 1 + 32 + 5;

/// A coin's key in the chainstate: `C`, txid, VARINT vout. Ordered by bytes, as the chainstate orders its records.
///
/// Source: Bitcoin Core b88bffe, `CoinEntry` in txdb.cpp.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoinKey {
    /// Zero-padded. No key is a prefix of another one, so comparing all bytes compares the keys.
    bytes: [u8; COIN_KEY_BYTES_MAX],
    len: u8,
}

const _: () = assert!(size_of::<CoinKey>() == COIN_KEY_BYTES_MAX + 1, "only the bytes and their number");

impl CoinKey {
    /// The key of a coin.
    #[inline]
    pub fn new(outpoint: &OutPoint) -> CoinKey {
        let mut bytes = [0; COIN_KEY_BYTES_MAX];
        bytes[0] = COIN_KEY_PREFIX;
        bytes[1..33].copy_from_slice(outpoint.txid.as_bytes());
        let vout_bytes = write_varint(&mut bytes[33..], u64::from(outpoint.vout));
        CoinKey { bytes, len: 33 + vout_bytes as u8 }
    }

    /// The key as stored in the chainstate.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The coin's outpoint.
    pub fn outpoint(&self) -> OutPoint {
        decode_coin_key(self.as_bytes()).expect("it was made from one")
    }
}

impl AsRef<[u8]> for CoinKey {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Debug for CoinKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CoinKey({})", self.outpoint())
    }
}

/// Decodes a chainstate key.
///
/// # Errors
///
/// Another prefix, truncated data, a number beyond 32 bits, or trailing bytes.
pub fn decode_coin_key(key: &[u8]) -> Result<OutPoint, DecodeError> {
    let mut reader = Reader::new(key);
    if reader.u8()? != COIN_KEY_PREFIX {
        return Err(DecodeError::Value { offset: 0, what: "the key of a coin starts with 'C'" });
    }
    let txid = Txid::from_bytes(*reader.array()?);
    let vout = reader.varint_u32()?;
    reader.finish()?;
    Ok(OutPoint { txid, vout })
}

/// Appends the bytes of one coin that `hash_serialized_3` and MuHash hash.
///
/// txid 32 | vout u32 | code u32 | value i64 | CompactSize length, script. Source: Bitcoin Core b88bffe, `TxOutSer`.
pub fn put_coin_hashed(out: &mut Vec<u8>, outpoint: &OutPoint, coin: &CoinRef<'_>) {
    out.extend_from_slice(&outpoint.to_bytes());
    out.extend_from_slice(&coin.code().to_le_bytes());
    out.extend_from_slice(&coin.value.0.to_le_bytes());
    crate::encode::put_compact_size(out, coin.script.script_bytes() as u64);
    coin.script.append_to(out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::put_varint;
    use crate::{Hash256, hex};

    /// From Core's coins_tests.cpp, and the coinbase of mainnet's block 1.
    #[test]
    fn coin_of_core_vectors_round_trips() {
        let p2pk = "410496b538e853519c726a2c91e61ec11600ae1390813a627c66fb8be7947be63c52da7589379515d4e0a604f8141781e6229472\
                    1166bf621e73a82cbf2342c858eeac";
        for (bytes, height, coinbase, value, script) in [
            (
                "97f23c835800816115944e077fe7c803cfa57f29b36bf87c1d35",
                203_998,
                false,
                60_000_000_000,
                "76a914816115944e077fe7c803cfa57f29b36bf87c1d3588ac",
            ),
            (
                "8ddf77bbd123008c988f1a4a4de2161e0f50aac7f17e7f9555caa4",
                120_891,
                true,
                110_397,
                "76a9148c988f1a4a4de2161e0f50aac7f17e7f9555caa488ac",
            ),
            ("000006", 0, false, 0, ""),
            ("03320496b538e853519c726a2c91e61ec11600ae1390813a627c66fb8be7947be63c52", 1, true, 5_000_000_000, p2pk),
        ] {
            let script = hex::decode(&script.replace(' ', "")).unwrap();
            let stored = hex::decode(bytes).unwrap();
            let coin = CoinRef::decode(&stored).unwrap();
            assert_eq!(
                (coin.height, coin.coinbase, coin.value),
                (Height::new(height), coinbase, Amount(value)),
                "{bytes}"
            );
            assert_eq!(hex::encode(&coin.script.to_vec()), hex::encode(&script), "{bytes}");
            assert_eq!(coin.script.script_bytes(), script.len());
            let mut again = Vec::new();
            put_coin(&mut again, coin.code(), coin.value, &script);
            assert_eq!(hex::encode(&again), bytes);
            for cut in 0..stored.len() {
                assert!(CoinRef::decode(&stored[..cut]).is_err(), "{bytes} cut at {cut}");
            }
        }
    }

    #[test]
    fn coin_script_of_every_kind_round_trips() {
        let on_curve =
            "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798483ada7726a3c4655da4fbfc0e1108a8fd17b448\
                        a68554199c47d08ffb10d4b8"
                .replace(' ', "");
        let off_curve = "11".repeat(64);
        for (name, script, bytes) in [
            ("P2PKH", "76a914".to_owned() + &"ab".repeat(20) + "88ac", 21),
            ("P2PKH with a wrong end", "76a914".to_owned() + &"ab".repeat(20) + "88ad", 26),
            ("P2SH", "a914".to_owned() + &"ab".repeat(20) + "87", 21),
            ("P2PK 02", "2102".to_owned() + &"ff".repeat(32) + "ac", 33),
            ("P2PK 03", "2103".to_owned() + &"ff".repeat(32) + "ac", 33),
            ("P2PK 05 is raw", "2105".to_owned() + &"ff".repeat(32) + "ac", 36),
            ("P2PK 04 on the curve", format!("4104{on_curve}ac"), 33),
            ("P2PK 04 off the curve is raw", format!("4104{off_curve}ac"), 68),
            ("hybrid is raw", format!("4106{on_curve}ac"), 68),
            ("P2WPKH is raw", "0014".to_owned() + &"cd".repeat(20), 23),
            ("empty", String::new(), 1),
            ("122 bytes: kind in two", "51".repeat(122), 124),
            ("10,000 bytes", "51".repeat(10_000), 10_002),
        ] {
            let script = hex::decode(&script).unwrap();
            let mut out = Vec::new();
            put_coin(&mut out, 0, Amount(0), &script);
            assert_eq!(out.len(), 2 + bytes, "{name}");
            let coin = CoinRef::decode(&out).unwrap();
            assert_eq!(coin.script.to_vec(), script, "{name}");
            assert_eq!(coin.script.script_bytes(), script.len(), "{name}");
            let is_to_key = ["P2PKH", "P2PK 02", "P2PK 03", "P2PK 04 on the curve"].contains(&name);
            assert_eq!(coin.script.may_hold_program(), !is_to_key, "{name}");
        }
    }

    #[test]
    fn coin_with_odd_script_reads_as_in_core() {
        let mut oversize = vec![0, 0];
        put_varint(&mut oversize, 10_001 + SPECIAL_KINDS);
        oversize.extend_from_slice(&[0x51; 10_001]);
        assert_eq!(CoinRef::decode(&oversize).unwrap().script.to_vec(), [OP_RETURN]);
        let not_on_curve = [&[0, 0, 4][..], &[0xff; 32]].concat();
        let coin = CoinRef::decode(&not_on_curve).unwrap();
        assert_eq!((coin.script.to_vec(), coin.script.script_bytes()), (vec![], 0));
        assert!(is_unspendable(&[OP_RETURN]) && is_unspendable(&[0; 10_001]));
        assert!(!is_unspendable(&[]) && !is_unspendable(&[0; 10_000]) && !is_unspendable(&[0x51, OP_RETURN]));
    }

    #[test]
    fn coin_key_of_known_outpoints() {
        let txid = Txid::literal("0e3e2357e806b6cdb1f70b54c3a3a17b6714ee1f0e68bebb44a74b1efd512098");
        let rows = [(0, "00"), (127, "7f"), (128, "8000"), (16_512, "808000"), (u32::MAX, "8efefefe7f")];
        for (vout, hex) in rows {
            let outpoint = OutPoint { txid, vout };
            let key = CoinKey::new(&outpoint);
            assert_eq!(
                hex::encode(key.as_bytes()),
                format!("43982051fd1e4ba744bbbe680e1fee14677ba1a3c3540bf7b1cdb606e857233e0e{hex}")
            );
            assert_eq!((decode_coin_key(key.as_bytes()), key.outpoint()), (Ok(outpoint), outpoint));
            assert!(decode_coin_key(&key.as_bytes()[..key.as_bytes().len() - 1]).is_err());
        }
        assert!(decode_coin_key(b"B").is_err());
    }

    /// The order of the records, which is not that of the numbers: VARINT 128 is `80 00`, 127 is `7f`, 16,511 is
    /// `ff 7f`.
    #[test]
    fn coin_key_order_is_byte_order() {
        let vouts = [0, 1, 126, 127, 128, 255, 256, 16_511, 16_512, 2_113_663, 2_113_664, u32::MAX];
        let txids = [[0; 32], [1; 32], [0xff; 32]].map(Txid::from_bytes);
        let all = || txids.iter().flat_map(|&txid| vouts.map(|vout| CoinKey::new(&OutPoint { txid, vout })));
        for (a, b) in all().flat_map(|a| all().map(move |b| (a, b))) {
            assert_eq!(a.cmp(&b), a.as_bytes().cmp(b.as_bytes()), "{a:?} {b:?}");
        }
    }

    /// The only coin of mainnet's chain at height 1: hash computed with Core's code.
    #[test]
    fn coin_hashed_form_matches_core() {
        let stored = hex::literal::<35>("03320496b538e853519c726a2c91e61ec11600ae1390813a627c66fb8be7947be63c52");
        let txid = Txid::literal("0e3e2357e806b6cdb1f70b54c3a3a17b6714ee1f0e68bebb44a74b1efd512098");
        let mut out = Vec::new();
        put_coin_hashed(&mut out, &OutPoint { txid, vout: 0 }, &CoinRef::decode(&stored).unwrap());
        assert_eq!(out.len(), 116);
        let hash = Hash256(kernels::sha256::sha256d(&out));
        assert_eq!(hash, Hash256::literal("b911fd5864945251985ebc2820ff542df1cebe84255ee476684fa9d026a1b578"));
    }
}
