//! Known keys and scripts, by their hashes. Source: Bitcoin Core b88bffe, `FlatSigningProvider`.

use kernels::sha256::sha256;
use ripemd::{Digest, Ripemd160};
use std::collections::BTreeMap;

/// Origin of a key: the fingerprint of its master key and the path from there, as `[fingerprint/path]`.
pub type Origin = String;

/// Keys and scripts known in addition to an output script. Hashes have 20 bytes: `RIPEMD160(SHA256(..))`.
#[derive(Clone, Default, Debug)]
pub struct Known {
    /// Keys and their origins, by hash.
    pub keys: BTreeMap<[u8; 20], (Vec<u8>, Option<Origin>)>,
    /// Scripts by hash.
    pub scripts: BTreeMap<[u8; 20], Vec<u8>>,
    /// The contents of `tr()`, by output key.
    pub taproot: BTreeMap<[u8; 32], String>,
}

impl Known {
    /// Adds a key.
    pub fn add_key(&mut self, key: &[u8], origin: Option<Origin>) {
        self.keys.insert(hash160(key), (key.to_vec(), origin));
    }

    /// Adds a script.
    pub fn add_script(&mut self, script: &[u8]) {
        self.scripts.insert(hash160(script), script.to_vec());
    }

    /// The text of a key in a descriptor.
    pub(super) fn show(&self, key: &[u8]) -> String {
        let origin = self.keys.get(&hash160(key)).and_then(|(_, origin)| origin.as_deref()).unwrap_or_default();
        format!("{origin}{}", primitives::hex::encode(key))
    }

    /// The text of a key of 32 bytes; both possible full keys are looked up.
    pub(super) fn show_x_only(&self, key: &[u8; 32]) -> String {
        let mut whole = [2; 33];
        whole[1..].copy_from_slice(key);
        let origins = [2, 3].map(|first| {
            whole[0] = first;
            self.keys.get(&hash160(&whole)).and_then(|(_, origin)| origin.clone())
        });
        let origin = origins.into_iter().flatten().next().unwrap_or_default();
        format!("{origin}{}", primitives::hex::encode(key))
    }
}

/// `RIPEMD160(SHA256(bytes))`.
pub fn hash160(bytes: &[u8]) -> [u8; 20] {
    Ripemd160::digest(sha256(bytes)).into()
}
