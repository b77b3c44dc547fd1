//! Hashes of one input, kept while its scripts run: a script may check hundreds of signatures over the same bytes.

use crate::sighash::{Outputs, SIGHASH_ANYONECANPAY};
use kernels::sha256::Sha256;

/// One cached hash, up to the hash type.
#[derive(Debug, Default)]
struct KeptHash {
    used: bool,
    script_code: Vec<u8>,
    state: Sha256,
}

/// The last hash for each of the six choices of inputs and outputs that a hash type can make.
///
/// No input needs both the legacy and the version 0 form, so the entries do not distinguish them.
///
/// Source: Bitcoin Core b88bffe, `SigHashCache`.
#[derive(Debug, Default)]
pub(crate) struct Cache([KeptHash; 6]);

impl Cache {
    /// Clears the cache, keeps the memory. Call before each input.
    #[inline]
    pub(crate) fn clear(&mut self) {
        for entry in &mut self.0 {
            entry.used = false;
        }
    }

    /// The hash up to the hash type, cached or computed; `None` if it cannot be computed.
    #[inline]
    pub(crate) fn state(
        &mut self,
        script_code: &[u8],
        hash_type: u8,
        make: impl FnOnce() -> Option<Sha256>,
    ) -> Option<Sha256> {
        let outputs = Outputs::of(u32::from(hash_type)) as usize;
        let entry = &mut self.0[outputs + 3 * usize::from(hash_type & SIGHASH_ANYONECANPAY != 0)];
        if !entry.used || entry.script_code != script_code {
            entry.state = make()?;
            entry.script_code.clear();
            entry.script_code.extend_from_slice(script_code);
            entry.used = true;
        }
        Some(entry.state.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sighash_cache_is_kept_until_script_code_changes() {
        let mut cache = Cache::default();
        let mut made = 0;
        let mut ask = |cache: &mut Cache, code: &[u8], hash_type| {
            let before = made;
            cache.state(code, hash_type, || {
                made += 1;
                Some(Sha256::new())
            });
            made > before
        };
        for (name, code, hash_type, want) in [
            ("first", &[1][..], 1, true),
            ("again", &[1], 1, false),
            ("another that signs the same", &[1], 0x41, false),
            ("none", &[1], 2, true),
            ("single", &[1], 3, true),
            ("alone", &[1], 0x81, true),
            ("other code", &[2], 1, true),
            ("back again", &[1], 1, true),
            ("single is still there", &[1], 3, false),
        ] {
            assert_eq!(ask(&mut cache, code, hash_type), want, "{name}");
        }
        cache.clear();
        assert!(ask(&mut cache, &[1], 1), "cleared");
    }
}
