//! A data directory on a simulated disk, and what jobs are told about it.

use consensus::{Chain, Params};
use disk::SimDisk;
use node::options::{COMMIT_INTERVAL, Options, Prune, Sizes};
use primitives::{BlockHash, Work};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Not a place of the real disk: only the log would be looked for there.
pub(crate) const DATADIR: &str = "/no-such-directory";

/// Everything is verified, by one worker.
pub(crate) fn options(disk: &SimDisk, is_eager: bool) -> Options {
    let params = Params::new(Chain::Regtest);
    Options {
        disk: disk.shared(),
        commit_interval: if is_eager { Duration::ZERO } else { COMMIT_INTERVAL },
        clock: std::time::SystemTime::now,
        datadir: PathBuf::from(DATADIR),
        blocksdir: None,
        minimum_chain_work: Work::ZERO,
        params,
        dbcache_bytes: 16 << 20,
        par: 1,
        assumevalid: BlockHash::ZERO,
        stop_at_height: None,
        prune: Prune::Off,
        sizes: Sizes::default(),
        blocksxor: false,
        indexes: Vec::new(),
        debug_bench: false,
        log_time_micros: false,
        own_files: node::options::OwnFiles::default(),
        warnings: Vec::new(),
        build: "test",
        stop: Arc::new(AtomicBool::new(false)),
    }
}
