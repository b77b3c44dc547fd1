//! Totals of coins, as in gettxoutsetinfo.
//!
//! Sums wrap: the totals of a change may be negative; added to those of a set they give the set's totals after it.

/// Sums over coins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Number of coins.
    pub coins: u64,
    /// Bytes of their scripts.
    pub script_bytes: u64,
    /// Their amounts, in satoshis.
    pub amount: u64,
}

impl Totals {
    /// Adds a coin.
    #[inline]
    pub fn count(&mut self, script_bytes: usize, amount: i64) {
        *self = self.plus(Totals { coins: 1, script_bytes: script_bytes as u64, amount: amount as u64 });
    }

    /// Adds the totals of other coins.
    #[must_use]
    #[inline]
    pub fn plus(self, other: Totals) -> Totals {
        Totals {
            coins: self.coins.wrapping_add(other.coins),
            script_bytes: self.script_bytes.wrapping_add(other.script_bytes),
            amount: self.amount.wrapping_add(other.amount),
        }
    }

    /// Subtracts the totals of other coins.
    #[must_use]
    #[inline]
    pub fn minus(self, other: Totals) -> Totals {
        Totals {
            coins: self.coins.wrapping_sub(other.coins),
            script_bytes: self.script_bytes.wrapping_sub(other.script_bytes),
            amount: self.amount.wrapping_sub(other.amount),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_below_nothing_comes_out_right() {
        let coins = |list: &[(usize, i64)]| {
            let mut totals = Totals::default();
            list.iter().for_each(|&(script_bytes, amount)| totals.count(script_bytes, amount));
            totals
        };
        let (set, made, spent) = (coins(&[(25, 50), (23, 7), (0, 0)]), coins(&[(34, 3)]), coins(&[(25, 50), (23, 7)]));
        assert_eq!(set.plus(made.minus(spent)), coins(&[(34, 3), (0, 0)]));
        assert_eq!(set, Totals { coins: 3, script_bytes: 48, amount: 57 });
    }
}
