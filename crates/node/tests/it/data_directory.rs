//! A data directory on a simulated disk, and what jobs are told about it.

use consensus::{Chain, Params};
use disk::SimDisk;
use node::options::{COMMIT_INTERVAL, Options};
use primitives::{BlockHash, Work};
use std::path::PathBuf;
use std::time::Duration;

/// Not a place of the real disk: only the log would be looked for there.
pub(crate) const DATADIR: &str = "/no-such-directory";

/// Everything is verified, by one worker.
pub(crate) fn options(disk: &SimDisk, is_eager: bool) -> Options {
    Options {
        disk: disk.shared(),
        commit_interval: if is_eager { Duration::ZERO } else { COMMIT_INTERVAL },
        minimum_chain_work: Work::ZERO,
        dbcache_bytes: 16 << 20,
        par: 1,
        assumevalid: BlockHash::ZERO,
        blocksxor: false,
        ..Options::new(PathBuf::from(DATADIR), Params::new(Chain::Regtest), std::time::SystemTime::now)
    }
}
