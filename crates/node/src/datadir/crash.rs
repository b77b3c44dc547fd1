//! `-dbcrashratio`: ends the program in the middle of a commit of coins, for tests of the recovery.
//!
//! The program ends when all tables of the commit are written, and no manifest names them yet. So the next start finds
//! the coins of the previous commit, and block files and an index that are ahead of them. Core ends between two batches
//! of a flush, which leaves a part of the new coins in its database. Absent on purpose: crashes in commits of indexes
//! and in compactions; Core has no simulated crashes there either.
//!
//! Source: Bitcoin Core b88bffe, txdb.cpp, `CCoinsViewDB::BatchWrite`.

use crate::reporting::log::Log;
use std::hash::{BuildHasher, RandomState};

/// With a chance of one in `ratio` ends the program at once, with Core's exit code. 0: never.
pub(super) fn perhaps(ratio: u32, log: &Log) {
    if is_hit(ratio, RandomState::new().hash_one(())) {
        log.line("Simulating a crash. Goodbye.");
        log.flush();
        std::process::exit(0);
    }
}

/// Whether a random number ends the program.
fn is_hit(ratio: u32, random: u64) -> bool {
    ratio != 0 && random.is_multiple_of(u64::from(ratio))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_as_many_numbers_ends_the_program() {
        for (ratio, hits) in [(0, 0), (1, 1000), (8, 125), (1001, 1)] {
            assert_eq!((0..1000).filter(|&random| is_hit(ratio, random)).count(), hits, "{ratio}");
        }
        let hits = (0..4000).filter(|_| is_hit(8, RandomState::new().hash_one(()))).count();
        assert!((300..700).contains(&hits), "{hits} of 4000, 500 are expected");
    }
}
