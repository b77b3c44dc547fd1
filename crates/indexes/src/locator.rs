//! The last block of an index: Core's block locator, hashes from its best block back to genesis.
//!
//! ```text
//! version i32 LE (70016, any is accepted) | CompactSize hashes | hash 32 ...
//! ```
//!
//! Source: Bitcoin Core b88bffe, `CBlockLocator` (primitives/block.h), `LocatorEntries` (chain.cpp).

use primitives::encode::{DecodeError, Reader, put_compact_size};
use primitives::{BlockHash, Height};

/// The version that Core writes and never reads.
const VERSION: u32 = 70_016;
/// Core never writes more than 32 hashes plus ten; a longer list is not a locator.
const HASHES_MAX: usize = 101;
/// Number of steps of one block before the steps double.
const SINGLE_STEPS: usize = 10;

/// The heights of the blocks in a locator of the block at `height`, in its order.
pub fn heights(height: Height) -> Vec<Height> {
    let mut heights = Vec::with_capacity(32);
    let mut at = height.to_u32();
    let mut step = 1u32;
    loop {
        heights.push(Height::new(at));
        if at == 0 {
            return heights;
        }
        at = at.saturating_sub(step);
        if heights.len() > SINGLE_STEPS {
            step = step.saturating_mul(2);
        }
    }
}

/// The record of a locator with these hashes.
pub fn encode(hashes: &[BlockHash]) -> Vec<u8> {
    let mut out = VERSION.to_le_bytes().to_vec();
    put_compact_size(&mut out, hashes.len() as u64);
    hashes.iter().for_each(|hash| out.extend_from_slice(hash.as_bytes()));
    out
}

/// The first block of a stored locator; `None` for an empty list, which Core reads as "nothing indexed".
///
/// # Errors
///
/// Bytes that are not a locator.
pub fn decode(bytes: &[u8]) -> Result<Option<BlockHash>, DecodeError> {
    let mut reader = Reader::new(bytes);
    reader.u32()?;
    let count = reader.compact_size()?;
    if count > HASHES_MAX {
        return Err(DecodeError::Value { offset: 4, what: "a locator has at most 101 hashes" });
    }
    let mut first = None;
    for _ in 0..count {
        let hash = BlockHash::from_bytes(*reader.array()?);
        first = first.or(Some(hash));
    }
    reader.finish()?;
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heights_step_back_as_in_core() {
        let at = |height| heights(Height::new(height)).iter().map(|height| height.to_u32()).collect::<Vec<_>>();
        assert_eq!(at(0), [0]);
        assert_eq!(at(2), [2, 1, 0]);
        assert_eq!(at(20), [20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 7, 3, 0]);
        assert!(at(u32::MAX >> 1).len() < 50);
    }

    #[test]
    fn locator_round_trips_and_cuts_are_refused() {
        let hashes = [BlockHash::from_bytes([7; 32]), BlockHash::from_bytes([8; 32])];
        let bytes = encode(&hashes);
        assert_eq!(primitives::hex::encode(&bytes[..5]), "8011010002");
        assert_eq!(decode(&bytes), Ok(Some(hashes[0])));
        assert_eq!(decode(&encode(&[])), Ok(None));
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        assert!(decode(&[&bytes[..], &[0]].concat()).is_err());
        assert!(decode(&[0, 0, 0, 0, 200]).is_err(), "a count without its hashes");
    }
}
