//! Coins in allocations of their own: the layout of a table that leaves packed coins out, to measure what these give.
//!
//! A record then holds, in place of the coin, the number of its allocation. Compiled with the feature `ablation` only.

/// What an allocation takes beside the coin: its handle, and what the allocator adds.
const APART_BYTES: usize = 24 + 16;

/// The coins of one table.
#[derive(Default)]
pub(crate) struct Apart {
    /// Empty ones among them.
    coins: Vec<Vec<u8>>,
    /// Numbers of the empty ones.
    free: Vec<u32>,
    /// Bytes of all coins, with what their allocations take besides.
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

    /// Gives a coin an allocation of its own; returns its number.
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

    /// Gives the memory of a coin back.
    pub(crate) fn release(&mut self, number: u32) {
        let coin = std::mem::take(&mut self.coins[number as usize]);
        self.bytes -= coin.len() + APART_BYTES;
        self.free.push(number);
    }
}
