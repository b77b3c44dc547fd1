//! Keys and packet ciphers of one connection. Names are BIP324's.

use super::length_cipher::LengthCipher;
use super::{HEADER_BYTES, IGNORE_BIT, KEY_BYTES, LENGTH_BYTES, REKEY_INTERVAL, TAG_BYTES, TERMINATOR_BYTES};
use crate::wire::WireError;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, Tag, UnboundKey};
use ring::hkdf;
use secp256k1::SecretKey;
use secp256k1::ellswift::{ElligatorSwift, Party};

/// Our half of the key exchange.
pub struct Keys {
    secret: SecretKey,
    public: [u8; KEY_BYTES],
}

impl Keys {
    /// Keys from 32 secret bytes and 32 bytes that choose the encoding, both random.
    ///
    /// `None` if the secret is not a valid key (probability 2^-128): draw again.
    pub fn new(secret: [u8; 32], choice: [u8; 32]) -> Option<Keys> {
        let secret = SecretKey::from_secret_bytes(secret).ok()?;
        Some(Keys { secret, public: ElligatorSwift::from_seckey(secret, Some(choice)).to_byte_array() })
    }

    /// Keys with a given encoding of the public key: for BIP324's vectors.
    #[cfg(test)]
    fn with_public(secret: [u8; 32], public: [u8; KEY_BYTES]) -> Keys {
        Keys { secret: SecretKey::from_secret_bytes(secret).expect("a vector's key"), public }
    }

    /// Our public key, sent to the peer.
    pub fn public(&self) -> &[u8; KEY_BYTES] {
        &self.public
    }

    /// The ciphers that follow from the peer's key. Any 64 bytes are a valid key.
    pub fn agree(&self, theirs: &[u8; KEY_BYTES], initiator: bool, magic: [u8; 4]) -> Cipher {
        let ours = ElligatorSwift::from_byte_array(self.public);
        let theirs = ElligatorSwift::from_byte_array(*theirs);
        let (a, b, party) = if initiator { (ours, theirs, Party::Initiator) } else { (theirs, ours, Party::Responder) };
        let shared = ElligatorSwift::shared_secret(a, b, self.secret, party);
        let salt = [&b"bitcoin_v2_shared_secret"[..], &magic].concat();
        let root = hkdf::Salt::new(hkdf::HKDF_SHA256, &salt).extract(shared.as_secret_bytes());
        Cipher::derive(&root, initiator)
    }
}

/// The packet ciphers of a connection, both ways.
pub struct Cipher {
    send_length: LengthCipher,
    send_packet: PacketCipher,
    recv_length: LengthCipher,
    recv_packet: PacketCipher,
    send_terminator: [u8; TERMINATOR_BYTES],
    recv_terminator: [u8; TERMINATOR_BYTES],
    session_id: [u8; 32],
}

impl Cipher {
    fn derive(root: &hkdf::Prk, initiator: bool) -> Cipher {
        let expand = |info: &str| {
            let mut out = [0; 32];
            let info = [info.as_bytes()];
            let okm = root.expand(&info, hkdf::HKDF_SHA256).expect("32 bytes are within HKDF's bound");
            okm.fill(&mut out).expect("the length that was asked for");
            out
        };
        let (ours, theirs) = if initiator { ("initiator", "responder") } else { ("responder", "initiator") };
        let terminators = expand("garbage_terminators");
        let (first, second) = terminators.split_at(TERMINATOR_BYTES);
        let (send, recv) = if initiator { (first, second) } else { (second, first) };
        Cipher {
            send_length: LengthCipher::new(expand(&format!("{ours}_L"))),
            send_packet: PacketCipher::new(expand(&format!("{ours}_P"))),
            recv_length: LengthCipher::new(expand(&format!("{theirs}_L"))),
            recv_packet: PacketCipher::new(expand(&format!("{theirs}_P"))),
            send_terminator: send.try_into().expect("half of 32 bytes"),
            recv_terminator: recv.try_into().expect("half of 32 bytes"),
            session_id: expand("session_id"),
        }
    }

    /// The terminator of our garbage.
    pub fn send_terminator(&self) -> &[u8; TERMINATOR_BYTES] {
        &self.send_terminator
    }

    /// The terminator of the peer's garbage.
    pub fn recv_terminator(&self) -> &[u8; TERMINATOR_BYTES] {
        &self.recv_terminator
    }

    /// The session id, equal on both sides and secret from others: users may compare it.
    pub fn session_id(&self) -> &[u8; 32] {
        &self.session_id
    }

    /// Appends a packet to `out`. `fill` appends the contents.
    ///
    /// # Panics
    ///
    /// If the contents have 2^24 bytes or more.
    pub fn seal(&mut self, out: &mut Vec<u8>, aad: &[u8], ignore: bool, fill: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        out.extend_from_slice(&[0; LENGTH_BYTES + HEADER_BYTES]);
        fill(out);
        self.seal_in_place(out, start, aad, ignore);
    }

    /// Like [`Cipher::seal`], for contents that are already in `out`, after the space for length and header at `start`:
    /// they are encrypted in place, and the tag is appended.
    ///
    /// # Panics
    ///
    /// Like [`Cipher::seal`], but without that space.
    pub fn seal_in_place(&mut self, out: &mut Vec<u8>, start: usize, aad: &[u8], ignore: bool) {
        out[start + LENGTH_BYTES] = if ignore { IGNORE_BIT } else { 0 };
        let contents = out.len() - start - LENGTH_BYTES - HEADER_BYTES;
        let [a, b, c, 0] = u32::try_from(contents).unwrap_or(u32::MAX).to_le_bytes() else {
            panic!("contents of {contents} bytes have no length of three");
        };
        let mut length = [a, b, c];
        self.send_length.crypt(&mut length);
        out[start..start + LENGTH_BYTES].copy_from_slice(&length);
        let tag = self.send_packet.seal(&mut out[start + LENGTH_BYTES..], aad);
        out.extend_from_slice(tag.as_ref());
    }

    /// Bytes of contents of the packet that starts with `length`. Call it once for each packet.
    pub fn open_length(&mut self, mut length: [u8; LENGTH_BYTES]) -> usize {
        self.recv_length.crypt(&mut length);
        let [a, b, c] = length.map(usize::from);
        a | b << 8 | c << 16
    }

    /// Decrypts a packet in place, header to tag, without its length.
    ///
    /// Returns whether it is a decoy. The contents are `packet[HEADER_BYTES..packet.len() - TAG_BYTES]`.
    ///
    /// # Errors
    ///
    /// [`WireError::Decryption`] if it is too short or its tag is wrong.
    pub fn open(&mut self, packet: &mut [u8], aad: &[u8]) -> Result<bool, WireError> {
        let plain = self.recv_packet.open(packet, aad)?;
        let header = plain.first().ok_or(WireError::Decryption)?;
        Ok(header & IGNORE_BIT != 0)
    }
}

/// BIP324's FSChaCha20Poly1305: a new key after every [`REKEY_INTERVAL`] packets.
struct PacketCipher {
    key: LessSafeKey,
    packet_count: u32,
    rekey_count: u64,
}

impl PacketCipher {
    fn new(key: [u8; 32]) -> PacketCipher {
        PacketCipher { key: less_safe(&key), packet_count: 0, rekey_count: 0 }
    }

    fn nonce(packet: u32, rekey: u64) -> Nonce {
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&packet.to_le_bytes());
        nonce[4..].copy_from_slice(&rekey.to_le_bytes());
        Nonce::assume_unique_for_key(nonce)
    }

    fn seal(&mut self, plain: &mut [u8], aad: &[u8]) -> Tag {
        let nonce = PacketCipher::nonce(self.packet_count, self.rekey_count);
        let tag = self.key.seal_in_place_separate_tag(nonce, Aad::from(aad), plain);
        self.next_packet();
        tag.expect("a packet is far below ChaCha20's bound of 256 GiB")
    }

    fn open<'a>(&mut self, packet: &'a mut [u8], aad: &[u8]) -> Result<&'a [u8], WireError> {
        if packet.len() < HEADER_BYTES + TAG_BYTES {
            return Err(WireError::Decryption);
        }
        let nonce = PacketCipher::nonce(self.packet_count, self.rekey_count);
        let plain = self.key.open_in_place(nonce, Aad::from(aad), packet).map_err(|_| WireError::Decryption)?;
        self.next_packet();
        Ok(plain)
    }

    fn next_packet(&mut self) {
        self.packet_count += 1;
        if self.packet_count < REKEY_INTERVAL {
            return;
        }
        // The next key is the key stream itself, that is, encrypted zeros.
        let mut zeros = [0; 32];
        let nonce = PacketCipher::nonce(u32::MAX, self.rekey_count);
        let _tag = self.key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut zeros).expect("32 bytes");
        self.key = less_safe(&zeros);
        self.packet_count = 0;
        self.rekey_count += 1;
    }
}

fn less_safe(key: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key).expect("a ChaCha20 key has 32 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::hex;

    const MAGIC: [u8; 4] = crate::params::MAIN.magic;

    fn bytes<const N: usize>(text: &str) -> [u8; N] {
        hex::decode(text).unwrap().try_into().unwrap()
    }

    /// One row of BIP324's packet_encoding_test_vectors.csv.
    fn check_vector(row: &[&str]) {
        let [index, secret, ours, theirs, initiating, contents, multiply, aad, ignore, rest @ ..] = row else {
            panic!("row with {} columns", row.len());
        };
        let [.., send, recv, session, ciphertext, ends] = rest else { panic!("too few columns") };
        let keys = Keys::with_public(bytes(secret), bytes(ours));
        let mut cipher = keys.agree(&bytes(theirs), *initiating == "1", MAGIC);
        assert_eq!(cipher.session_id, bytes(session));
        assert_eq!(cipher.send_terminator, bytes(send));
        assert_eq!(cipher.recv_terminator, bytes(recv));
        let index: usize = index.parse().unwrap();
        let contents = hex::decode(contents).unwrap().repeat(multiply.parse().unwrap());
        for _ in 0..index {
            cipher.seal(&mut Vec::new(), &[], true, |_| ());
        }
        let mut packet = Vec::new();
        let aad = hex::decode(aad).unwrap();
        cipher.seal(&mut packet, &aad, *ignore == "1", |out| out.extend_from_slice(&contents));
        if !ciphertext.is_empty() {
            assert_eq!(packet, hex::decode(ciphertext).unwrap());
        }
        assert!(packet.ends_with(&hex::decode(ends).unwrap()));
    }

    #[test]
    fn packets_match_bip324_vectors() {
        let Some(text) = testkit::data::load("suites/bip-0324_packet_encoding_test_vectors.csv") else { return };
        let text = String::from_utf8(text).unwrap();
        let mut count = 0;
        for line in text.lines().skip(1) {
            check_vector(&line.split(',').collect::<Vec<_>>());
            count += 1;
        }
        assert!(count >= 7, "the file has seven rows or more, not {count}");
    }

    fn pair() -> (Cipher, Cipher) {
        let (a, b) = (Keys::new([1; 32], [2; 32]).unwrap(), Keys::new([3; 32], [4; 32]).unwrap());
        (a.agree(b.public(), true, MAGIC), b.agree(a.public(), false, MAGIC))
    }

    #[test]
    fn ciphers_agree_across_rekeys() {
        let (mut a, mut b) = pair();
        assert_eq!((a.session_id(), a.send_terminator()), (b.session_id(), b.recv_terminator()));
        for i in 0..3 * REKEY_INTERVAL as usize {
            let (mut packet, contents) = (Vec::new(), vec![i as u8; i]);
            a.seal(&mut packet, b"aad", i % 5 == 0, |out| out.extend_from_slice(&contents));
            let (length, rest) = packet.split_first_chunk_mut::<LENGTH_BYTES>().unwrap();
            assert_eq!(b.open_length(*length), i);
            assert_eq!(b.open(rest, b"aad"), Ok(i % 5 == 0));
            assert_eq!(&rest[HEADER_BYTES..HEADER_BYTES + i], contents);
        }
    }

    #[test]
    fn altered_packet_does_not_decrypt() {
        for (row, at, aad) in [("flipped", 5, &b""[..]), ("tag flipped", 20, b""), ("other aad", usize::MAX, b"x")] {
            let (mut a, mut b) = pair();
            let mut packet = Vec::new();
            a.seal(&mut packet, &[], false, |out| out.extend_from_slice(b"hello"));
            if let Some(byte) = packet.get_mut(at) {
                *byte ^= 1;
            }
            b.open_length(packet[..3].try_into().unwrap());
            assert_eq!(b.open(&mut packet[3..], aad), Err(WireError::Decryption), "{row}");
        }
        let (_, mut b) = pair();
        assert_eq!(b.open(&mut [0; 16], &[]), Err(WireError::Decryption), "too short for a header");
        assert_eq!(Keys::new([0; 32], [0; 32]).map(|_| ()), None, "zero is no key");
    }
}
