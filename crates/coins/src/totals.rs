//! What coins add up to, as gettxoutsetinfo sums them.
//!
//! Sums wrap: that of a change may stand for less than nothing, and added to that of a set it gives the set's after it.

/// Sums over coins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// How many.
    pub coins: u64,
    /// Bytes of their scripts.
    pub script_bytes: u64,
    /// Their amounts, in satoshis.
    pub amount: u64,
}

impl Totals {
    /// Counts a coin more.
    #[inline]
    pub fn count(&mut self, script_bytes: usize, amount: i64) {
        *self = self.plus(Totals { coins: 1, script_bytes: script_bytes as u64, amount: amount as u64 });
    }

    /// With those of other coins.
    #[must_use]
    #[inline]
    pub fn plus(self, other: Totals) -> Totals {
        Totals {
            coins: self.coins.wrapping_add(other.coins),
            script_bytes: self.script_bytes.wrapping_add(other.script_bytes),
            amount: self.amount.wrapping_add(other.amount),
        }
    }

    /// Without other coins.
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
