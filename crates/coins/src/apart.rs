//! Coins in separate allocations: the layout of a table without packed coins, to measure the benefit of packing.
//!
//! A record then has the number of the coin's allocation instead of the coin. Compiled only with the feature
//! `ablation`.

/// Bytes of an allocation in addition to the coin: its handle, and the allocator's overhead.
const APART_BYTES: usize = 24 + 16;

/// The coins of one table.
#[derive(Default)]
pub(crate) struct Apart {
    /// The coins by number, including freed ones.
    coins: Vec<Vec<u8>>,
    /// Numbers of the freed ones.
    free: Vec<u32>,
    /// Bytes of all coins, including the overhead of their allocations.
    bytes: usize,
}

impl Apart {
    /// Bytes allocated.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The coin with this number.
    pub(crate) fn coin(&self, number: u32) -> &[u8] {
        &self.coins[number as usize]
    }

    /// Allocates a coin separately; returns its number.
    pub(crate) fn put(&mut self, coin: &[u8]) -> u32 {
        self.bytes += coin.len() + APART_BYTES;
        match self.free.pop() {
            Some(number) => {
                self.coins[number as usize] = coin.to_vec();
                number
            }
            None => {
                self.coins.push(coin.to_vec());
                u32::try_from(self.coins.len() - 1).expect("a shard has fewer coins than an address can name")
            }
        }
    }

    /// Frees the memory of a coin.
    pub(crate) fn release(&mut self, number: u32) {
        let coin = std::mem::take(&mut self.coins[number as usize]);
        self.bytes -= coin.len() + APART_BYTES;
        self.free.push(number);
    }
}
