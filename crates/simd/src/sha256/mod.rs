//! SHA-256, single, double and incremental.

use sha2::Digest;

/// A message in up to three pieces, to be hashed as if they were one; any piece may be empty.
pub type Pieces<'a> = [&'a [u8]; 3];

/// The SHA-256 of `data`.
#[must_use]
pub fn sha256(data: &[u8]) -> [u8; 32] {
    sha2::Sha256::digest(data).into()
}

/// The SHA-256 of the SHA-256 of `data`: Bitcoin's usual hash.
#[must_use]
pub fn sha256d(data: &[u8]) -> [u8; 32] {
    sha256(&sha256(data))
}

/// Double SHA-256 of each message, of any lengths, into the same place of `out`.
///
/// # Panics
///
/// Where there are not as many places as messages.
pub fn sha256d_many(messages: &[Pieces<'_>], out: &mut [[u8; 32]]) {
    assert_eq!(messages.len(), out.len(), "a place for each message");
    for (message, out) in messages.iter().zip(out) {
        let mut first = Sha256::new();
        for piece in message {
            first.update(piece);
        }
        *out = sha256(&first.finalize());
    }
}

/// Double SHA-256 of each pair of hashes: one level of a merkle tree.
///
/// # Panics
///
/// Where there are not as many places as pairs.
pub fn sha256d_64(pairs: &[[u8; 64]], out: &mut [[u8; 32]]) {
    assert_eq!(pairs.len(), out.len(), "a place for each pair");
    for (pair, out) in pairs.iter().zip(out) {
        *out = sha256d(pair);
    }
}

/// Double SHA-256 of each block header.
///
/// # Panics
///
/// Where there are not as many places as headers.
pub fn sha256d_80(headers: &[[u8; 80]], out: &mut [[u8; 32]]) {
    assert_eq!(headers.len(), out.len(), "a place for each header");
    for (header, out) in headers.iter().zip(out) {
        *out = sha256d(header);
    }
}

/// SHA-256 of a message that comes bit by bit. A clone is a midstate: hash a common start once.
#[derive(Clone, Default)]
pub struct Sha256(sha2::Sha256);

impl Sha256 {
    /// The start of a message.
    #[must_use]
    pub fn new() -> Sha256 {
        Sha256::default()
    }

    /// Appends `data` to the message.
    pub fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    /// The hash of the message.
    #[must_use]
    pub fn finalize(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

impl std::fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sha256")
    }
}
