//! Two jobs of one process at the same time, each with a data directory and a choice of kernels of its own.

use crate::chain::{chain, file, put};
use crate::data_directory::{DATADIR, options};
use disk::{Disk, SimDisk};
use kernels::Kernels;
use node::jobs;
use node::options::Options;
use node::utxo_stats::SetHash;
use primitives::{Hash256, Height};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

const TOGETHER: Duration = Duration::from_secs(60);

fn disk_of(blocks: &[Vec<u8>]) -> SimDisk {
    let disk = SimDisk::new(0);
    put(&disk, &Path::new(DATADIR).join("regtest/blocks/blk00000.dat"), &file(blocks));
    disk
}

fn set_of(disk: &SimDisk) -> (Height, Hash256) {
    let set = jobs::set_info(&options(disk, false), SetHash::Serialized, &|_| ()).unwrap();
    (set.height, set.hash.unwrap().1)
}

fn log_of(disk: &SimDisk) -> String {
    let log = disk.open(&Path::new(DATADIR).join("regtest/debug.log")).unwrap();
    String::from_utf8(log.bytes().unwrap().to_vec()).unwrap()
}

/// The least of what a job can be given: portable code, and with the feature `ablation` all optimizations left out.
fn plainest() -> Kernels {
    let kernels = Kernels::PLAIN;
    #[cfg(feature = "ablation")]
    let kernels = kernels.without(&kernels::ideas::Idea::ALL);
    kernels
}

#[test]
fn jobs_with_different_choices_run_at_once() {
    let chains = [chain(130), chain(160)];
    let want = chains.each_ref().map(|blocks| {
        let disk = disk_of(blocks);
        jobs::reindex(&options(&disk, false), false, &|_| ()).unwrap();
        set_of(&disk)
    });
    for choices in [[Kernels::AUTO, plainest()], [plainest(), Kernels::AUTO]] {
        let disks = chains.each_ref().map(|blocks| disk_of(blocks));
        let begun = AtomicUsize::new(0);
        thread::scope(|scope| {
            for (disk, kernels) in disks.iter().zip(choices) {
                let begun = &begun;
                scope.spawn(move || {
                    let told = AtomicUsize::new(0);
                    // In the middle of its work each waits until the other one is there, too.
                    let events = |_| {
                        if told.fetch_add(1, SeqCst) == 0 {
                            begun.fetch_add(1, SeqCst);
                            let start = Instant::now();
                            while begun.load(SeqCst) < 2 && start.elapsed() < TOGETHER {
                                thread::sleep(Duration::from_millis(1));
                            }
                        }
                    };
                    jobs::reindex(&Options { kernels, par: 2, ..options(disk, true) }, false, &events).unwrap();
                });
            }
        });
        assert_eq!(begun.load(SeqCst), 2, "both say that they work");
        for ((disk, kernels), want) in disks.iter().zip(choices).zip(want) {
            assert_eq!(set_of(disk), want, "{kernels:?}");
            let log = log_of(disk);
            assert!(log.contains(&format!("(--cpu {})", kernels.cpu().name())), "{kernels:?}: {log}");
            let has_left_out = log.contains("Left out: bulk-reads,");
            assert_eq!(has_left_out, cfg!(feature = "ablation") && kernels != Kernels::AUTO, "{kernels:?}: {log}");
        }
    }
}
