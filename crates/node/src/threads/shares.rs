//! A whole UTXO set in shares: ranges of txids that threads process in parallel, and whose results come in order.
//!
//! Memory for shares that wait is bounded: a share is a few MiB of tables however large the set is.

use crate::fault::Fault;
use crate::threads;
use crate::threads::locks::{lock, wait};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Condvar, Mutex};

/// Finished shares that may wait for their turn, per thread.
const SHARES_AHEAD: usize = 2;
/// Approximate bytes of tables in a share.
const SHARE_BYTES: u64 = 2 << 20;

/// How a set is divided: by the first bits of the txid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shares {
    /// Bits of the prefix: 8 to 16.
    bits: u32,
}

impl Shares {
    /// The division of a UTXO set whose tables have this number of bytes.
    pub(crate) fn of(table_bytes: u64) -> Shares {
        Shares { bits: (table_bytes / SHARE_BYTES).checked_ilog2().unwrap_or(0).clamp(8, 16) }
    }

    /// Number of shares.
    pub(crate) fn count(self) -> usize {
        1 << self.bits
    }

    /// Range of the first two txid bytes in a share.
    pub(crate) fn range(self, share: usize) -> RangeInclusive<u16> {
        let size = 1_u32 << (16 - self.bits);
        let first = share as u32 * size;
        first as u16..=(first + size - 1) as u16
    }

    /// The share of a txid.
    pub(crate) fn of_txid(self, txid: &[u8; 32]) -> usize {
        usize::from(u16::from_be_bytes([txid[0], txid[1]])) >> (16 - self.bits)
    }
}

struct Turns<T> {
    claimed: usize,
    taken: usize,
    done: BTreeMap<usize, Result<T, Fault>>,
}

/// Runs `work` for each of `count` shares on `par` threads, and passes the results to `take`, in order, on this thread.
///
/// # Errors
///
/// The first error of either; remaining shares are not processed.
pub fn in_order<T: Send>(
    par: usize,
    count: usize,
    work: impl Fn(usize) -> Result<T, Fault> + Sync,
    mut take: impl FnMut(T) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let turns = Mutex::new(Turns { claimed: 0, taken: 0, done: BTreeMap::new() });
    let changed = Condvar::new();
    let ahead = par.max(1) * SHARES_AHEAD;
    let worker = || {
        loop {
            let share = {
                let mut all = lock(&turns);
                while all.claimed < count && all.claimed >= all.taken + ahead {
                    all = wait(&changed, all);
                }
                if all.claimed >= count {
                    return;
                }
                all.claimed += 1;
                all.claimed - 1
            };
            let result = work(share);
            lock(&turns).done.insert(share, result);
            changed.notify_all();
        }
    };
    let end = || {
        lock(&turns).claimed = count;
        changed.notify_all();
    };
    std::thread::scope(|scope| {
        for n in 0..par.max(1) {
            threads::spawn(scope, format!("coins.{n:02}"), worker).inspect_err(|_| end())?;
        }
        for next in 0..count {
            let mut all = lock(&turns);
            let share = loop {
                if let Some(share) = all.done.remove(&next) {
                    all.taken += 1;
                    break share;
                }
                all = wait(&changed, all);
            };
            drop(all);
            changed.notify_all();
            share.and_then(&mut take).inspect_err(|_| end())?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_every_txid_once() {
        for (bytes, count) in [(0, 256), (1 << 29, 256), (1 << 30, 512), (11 << 30, 4096), (1 << 50, 65_536)] {
            let shares = Shares::of(bytes);
            assert_eq!(shares.count(), count, "{bytes}");
            let mut next = 0_u32;
            for share in 0..count {
                let range = shares.range(share);
                assert_eq!(u32::from(*range.start()), next);
                next = u32::from(*range.end()) + 1;
                for first in [*range.start(), *range.end()] {
                    let mut txid = [7; 32];
                    txid[..2].copy_from_slice(&first.to_be_bytes());
                    assert_eq!(shares.of_txid(&txid), share);
                }
            }
            assert_eq!(next, 65_536);
        }
    }

    #[test]
    fn results_come_in_order_and_the_first_fault_ends_it() {
        for par in [1, 3] {
            let mut got = Vec::new();
            in_order(par, 300, Ok, |share| {
                got.push(share);
                Ok(())
            })
            .unwrap();
            assert!(got.iter().copied().eq(0..300));
            let work = |share| if share == 40 { Err(Fault::refused("forty", "Wait")) } else { Ok(share) };
            let why = in_order(par, 300, work, |_| Ok(())).unwrap_err();
            assert_eq!(why.to_string(), "forty. Wait");
            let why =
                in_order(par, 300, Ok, |share| if share < 7 { Ok(()) } else { Err(Fault::refused("seven", "Wait")) });
            assert_eq!(why.unwrap_err().to_string(), "seven. Wait");
        }
    }
}
