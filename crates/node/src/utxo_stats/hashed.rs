//! The bytes that `hash_serialized_3` hashes: coins in the order of their txids, those of one txid by output index.
//!
//! Tables and snapshots order the coins of a txid by the bytes of a VARINT, which differs from the order of the numbers
//! above 16,511. Source: Bitcoin Core b88bffe, kernel/coinstats.cpp, `ComputeUTXOStats`, `ApplyHash`.

use kernels::sha256::Sha256;
use primitives::coin::put_coin_hashed;
use primitives::{CoinRef, Hash256, OutPoint, Txid};

/// Output indexes below this are one VARINT byte: their byte order is the numeric order.
const IN_ORDER: u32 = 128;

/// Coins that are not hashed yet.
#[derive(Default)]
pub(crate) struct HashedCoins {
    bytes: Vec<u8>,
    /// Coins of one txid that wait for its last one: output index, and the offset of their bytes in `waiting`.
    group: Vec<(u32, usize)>,
    waiting: Vec<u8>,
    txid: Option<Txid>,
}

impl HashedCoins {
    /// Adds a coin; coins must come in the order of their keys.
    #[inline]
    pub(crate) fn push(&mut self, outpoint: &OutPoint, coin: &CoinRef<'_>) {
        if !self.group.is_empty() && self.txid != Some(outpoint.txid) {
            self.close();
        }
        if outpoint.vout < IN_ORDER && self.group.is_empty() {
            // In order already, unless greater output indexes of the transaction came before.
            return put_coin_hashed(&mut self.bytes, outpoint, coin);
        }
        self.txid = Some(outpoint.txid);
        self.group.push((outpoint.vout, self.waiting.len()));
        put_coin_hashed(&mut self.waiting, outpoint, coin);
    }

    fn close(&mut self) {
        let ends = self.group.iter().skip(1).map(|(_, start)| *start).chain([self.waiting.len()]);
        let mut coins: Vec<(u32, usize, usize)> =
            self.group.iter().zip(ends).map(|((vout, start), end)| (*vout, *start, end)).collect();
        // Equal output indexes, which occur only in a damaged file, keep their order.
        coins.sort_by_key(|(vout, ..)| *vout);
        for (_, start, end) in coins {
            self.bytes.extend_from_slice(&self.waiting[start..end]);
        }
        self.group.clear();
        self.waiting.clear();
    }

    /// Bytes that can be hashed now. Coins that may have to be sorted with later ones of their txid wait.
    pub(crate) fn ready(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// All bytes: no coin of the last txid follows.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.close();
        std::mem::take(&mut self.bytes)
    }
}

/// The hash over all coins.
pub(crate) fn finish(sha: Sha256) -> Hash256 {
    Hash256(kernels::sha256::sha256(&sha.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::coin::put_coin;
    use primitives::{Amount, CoinKey};

    /// Against the definition: a map by txid and number.
    #[test]
    fn coins_of_one_txid_are_hashed_in_the_order_of_their_numbers() {
        let mut stored = Vec::new();
        put_coin(&mut stored, 9, Amount(7), &[0x51]);
        let coin = CoinRef::decode(&stored).unwrap();
        let mut rng = testkit::Rng::new(3);
        for _ in 0..50 {
            let mut outpoints: Vec<OutPoint> = (0..rng.below(40))
                .map(|_| OutPoint {
                    txid: Txid::from_bytes([rng.below(4) as u8; 32]),
                    vout: [0, 1, 127, 128, 255, 256, 16_511, 16_512, 20_000][rng.below(9)],
                })
                .collect();
            outpoints.sort_by_key(|outpoint| (outpoint.txid, outpoint.vout));
            outpoints.dedup();
            let mut want = Vec::new();
            outpoints.iter().for_each(|outpoint| put_coin_hashed(&mut want, outpoint, &coin));
            outpoints.sort_by_key(CoinKey::new);
            let (mut hashed, mut got) = (HashedCoins::default(), Vec::new());
            for outpoint in &outpoints {
                hashed.push(outpoint, &coin);
                if rng.one_in(3) {
                    got.append(hashed.ready());
                }
            }
            got.append(&mut hashed.take());
            assert!(got == want, "{outpoints:?}");
        }
    }
}
