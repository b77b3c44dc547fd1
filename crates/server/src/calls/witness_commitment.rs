//! The commitment of a coinbase to the witnesses of its block (BIP-0141).

use kernels::sha256::sha256d;
use primitives::{Hash256, merkle};

/// The commitment to the witnesses of these transactions, which follow the coinbase. Source: BIP-0141.
pub(super) fn commitment(others: &[Vec<u8>]) -> [u8; 32] {
    let mut wtxids = vec![Hash256::ZERO];
    wtxids.extend(others.iter().map(|tx| Hash256(sha256d(tx))));
    let mut both = merkle::root(kernels::Kernels::PLAIN, &mut wtxids).0.0.to_vec();
    both.extend_from_slice(&[0; 32]);
    sha256d(&both)
}

/// The script of the coinbase output with the commitment.
pub(super) fn commitment_script(commitment: &[u8; 32]) -> Vec<u8> {
    [&[0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed], &commitment[..]].concat()
}

/// The commitment output of a block without other transactions.
pub(super) fn empty_commitment() -> Vec<u8> {
    commitment_script(&commitment(&[]))
}
