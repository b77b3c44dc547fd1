//! Surviving coins, in memory until they are written as one sorted run.

use primitives::coin::{code, coin_bytes_max, write_coin};
use primitives::{Amount, CoinKey, Height, OutPoint};

/// Bytes per coin for sorting, in addition to its own.
const ORDER_BYTES: usize = size_of::<Place>();

/// Coins of one block, as stored.
#[derive(Default)]
pub(super) struct Piece {
    bytes: Vec<u8>,
    /// Keys, and the end offsets of the coins.
    coins: Vec<(CoinKey, u32)>,
}

impl Piece {
    /// Adds a coin of the block at `height`.
    pub(super) fn push(&mut self, outpoint: &OutPoint, height: Height, coinbase: bool, value: Amount, script: &[u8]) {
        let start = self.bytes.len();
        self.bytes.resize(start + coin_bytes_max(script.len()), 0);
        let bytes = write_coin(&mut self.bytes[start..], code(height, coinbase), value, script);
        self.bytes.truncate(start + bytes);
        self.coins.push((CoinKey::new(outpoint), self.bytes.len() as u32));
    }

    /// Number of coins.
    pub(super) fn count(&self) -> usize {
        self.coins.len()
    }

    /// Releases memory that was reserved and not used: pieces wait for a long time.
    pub(super) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.coins.shrink_to_fit();
    }

    fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.coins.capacity() * size_of::<(CoinKey, u32)>() + size_of::<Piece>()
    }

    fn coin(&self, place: usize) -> (&CoinKey, &[u8]) {
        let (key, end) = &self.coins[place];
        let start = if place == 0 { 0 } else { self.coins[place - 1].1 };
        (key, &self.bytes[start as usize..*end as usize])
    }
}

/// Position of a coin: the first bytes of its txid, index of the piece, index in the piece.
type Place = (u64, u32, u32);

/// Coins of several blocks.
#[derive(Default)]
pub(super) struct Survivors {
    pieces: Vec<Piece>,
    count: usize,
    /// Bytes of memory, including those for sorting.
    bytes: usize,
}

impl Survivors {
    /// Adds the coins of one more block.
    pub(super) fn push(&mut self, piece: Piece) {
        if piece.count() > 0 {
            self.count += piece.count();
            self.bytes += piece.memory_bytes() + piece.count() * ORDER_BYTES;
            self.pieces.push(piece);
        }
    }

    /// Adds coins that were taken out.
    pub(super) fn put_back(&mut self, others: Survivors) {
        let Survivors { pieces, count, bytes } = others;
        self.pieces.extend(pieces);
        self.count += count;
        self.bytes += bytes;
    }

    /// Number of coins.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Bytes of memory that they use, also while they are written.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of keys and coins.
    pub(super) fn stored_bytes(&self) -> u64 {
        let key_bytes = |piece: &Piece| piece.coins.iter().map(|(key, _)| key.as_bytes().len()).sum::<usize>();
        self.pieces.iter().map(|piece| (piece.bytes.len() + key_bytes(piece)) as u64).sum()
    }

    /// Passes each coin to `each`, in the order of their keys, every key once.
    pub(super) fn in_order<E>(&self, mut each: impl FnMut(&CoinKey, &[u8]) -> Result<(), E>) -> Result<(), E> {
        let mut order: Vec<Place> = Vec::with_capacity(self.count);
        for (number, piece) in (0..).zip(&self.pieces) {
            let first = |key: &CoinKey| u64::from_be_bytes(*key.as_bytes()[1..].first_chunk().expect("a txid"));
            order.extend((0..).zip(&piece.coins).map(|(place, (key, _))| (first(key), number, place)));
        }
        let key = |at: &Place| self.pieces[at.1 as usize].coins[at.2 as usize].0;
        order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| key(a).cmp(&key(b))));
        let mut last = None;
        for at in &order {
            let (key, coin) = self.pieces[at.1 as usize].coin(at.2 as usize);
            if last.replace(key) != Some(key) {
                each(key, coin)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::coin::put_coin;
    use primitives::{CoinRef, Txid};
    use std::collections::BTreeMap;
    use std::convert::Infallible;

    #[test]
    fn coins_come_in_the_order_of_their_keys() {
        let mut rng = testkit::Rng::new(8);
        let (mut all, mut model) = (Survivors::default(), BTreeMap::new());
        for height in 1..60 {
            let mut piece = Piece::default();
            for _ in 0..rng.below(20) {
                // Many of them begin with the same bytes.
                let mut txid = [rng.below(3) as u8; 32];
                txid[31] = rng.u64() as u8;
                let outpoint = OutPoint { txid: Txid::from_bytes(txid), vout: [0, 255, 256, 16_512][rng.below(4)] };
                let script = vec![0x51; rng.below(60)];
                let value = Amount(rng.below(1 << 40) as i64);
                let mut stored = Vec::new();
                put_coin(&mut stored, code(Height::new(height), height % 2 == 0), value, &script);
                if model.insert(CoinKey::new(&outpoint), stored).is_none() {
                    piece.push(&outpoint, Height::new(height), height % 2 == 0, value, &script);
                }
            }
            piece.shrink();
            all.push(piece);
        }
        // Those that came twice are left out of both.
        let mut seen = Vec::new();
        all.in_order(|key, coin| -> Result<(), Infallible> {
            assert!(CoinRef::decode(coin).is_ok());
            seen.push(*key);
            Ok(())
        })
        .unwrap();
        assert!(seen.iter().eq(model.keys()) && seen.len() == all.count());
        assert!(all.memory_bytes() as u64 > all.stored_bytes());
    }
}
