//! Disk space for the coins of a snapshot: a warning before the load, and when a load that filled the disk is tried
//! again.
//!
//! Absent on purpose: the pause between two checks, and the state of the wait (`reporting::disk_space`).

use crate::fault::{Fault, Message};
use crate::reporting::Reporter;
use primitives::human;
use store::{FaultKind, Host, Layout};

/// Space that stays free in addition to the tables; by so much more a failed try is repeated.
const SPARE_BYTES: u64 = 50 << 20;
/// Checks without enough space after which a failed try is repeated in any case: with one a second, about an hour.
const CHECKS_MAX: u32 = 3600;

/// Warns if the tables of a snapshot of `bytes` bytes would not fit. On a full disk the load waits in any case.
pub(super) fn look_at_room(host: &Host, layout: &Layout, bytes: u64, reporter: &Reporter<'_>) -> Result<(), Fault> {
    let free = free_bytes(host, layout)?;
    // Each table block has one complete key; the others omit the shared prefix.
    let needed = bytes.saturating_mul(5) / 4 + SPARE_BYTES;
    if free < needed {
        let needed = human::bytes(needed);
        let free = human::bytes(free);
        let why = format!("The snapshot's coins need about {needed} of disk space, and {free} are free");
        reporter.warn(Message::new(why, "Free space; when the disk is full, loading waits for it"));
    }
    Ok(())
}

/// Free space where the tables are written: `ffwd/` may be on another file system.
fn free_bytes(host: &Host, layout: &Layout) -> Result<u64, store::Fault> {
    let private = layout.private_dir();
    let dir = if host.disk.metadata(&private)?.is_some() { private } else { layout.net_dir().to_owned() };
    Ok(host.disk.free_space_bytes(&dir)?)
}

/// The tries of one load. Each writes and removes up to the whole set, so a failed one is not repeated blindly.
///
/// The estimate of [`look_at_room`] may be too high, so it decides nothing: the first try begins in any case. A failed
/// try fails again with the space that it had. The next one has more, or comes after [`CHECKS_MAX`] checks, because a
/// quota, or a file of another program that is gone by now, may have been the cause.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Free space at the beginning of the last try; `None` before the first. 0 after [`Room::moved_on`].
    begun_bytes: Option<u64>,
    /// Checks without enough space since then.
    checks: u32,
}

impl Room {
    /// Begins a try, which can keep coins once it has written `piece_bytes`. Coins that are not kept must be removed
    /// before.
    ///
    /// # Errors
    ///
    /// No space for a try after one that failed; or an I/O error.
    pub(super) fn begin_try(
        &mut self,
        host: &Host,
        layout: &Layout,
        piece_bytes: u64,
        reporter: &Reporter<'_>,
    ) -> Result<(), Fault> {
        let free = free_bytes(host, layout)?;
        let bytes = self.begun_bytes.map_or(0, |begun| begun.max(piece_bytes).saturating_add(SPARE_BYTES));
        if free >= bytes || self.checks >= CHECKS_MAX {
            self.begun_bytes = Some(free);
            self.checks = 0;
            return Ok(());
        }
        if self.checks == 0 {
            let bytes = human::bytes(bytes);
            reporter.note(format!(
                "[snapshot] no space for the coins: loading is tried again when {bytes} of disk space are free"
            ));
        }
        self.checks += 1;
        let wanted = format!("{bytes} bytes of free space for coins");
        let found = format!("{free} bytes free");
        let advice = "Free disk space; work resumes automatically";
        Err(store::Fault::new(FaultKind::NoSpace, layout.net_dir(), wanted, found, advice).into())
    }

    /// The try has kept coins: the next one needs space for the rest alone, whatever this one had.
    pub(super) fn moved_on(&mut self) {
        self.begun_bytes = Some(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reporting::Event;
    use crate::reporting::log::Log;
    use disk::SimDisk;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

    const GIB: u64 = 1 << 30;

    /// A load on a disk, and the number of notes.
    struct Bench {
        sim: SimDisk,
        room: Room,
        notes: AtomicU32,
    }

    impl Bench {
        fn new() -> Bench {
            Bench { sim: SimDisk::new(0), room: Room::default(), notes: AtomicU32::new(0) }
        }

        /// Whether a try begins with this space.
        fn begins(&mut self, free: u64, piece_bytes: u64) -> bool {
            self.sim.set_free_bytes(free);
            let host = Host::from(self.sim.shared());
            let layout = Layout::new(Path::new("/d"), "regtest", None);
            let notes = &self.notes;
            let events = |event| {
                if let Event::Note(_) = event {
                    notes.fetch_add(1, Relaxed);
                }
            };
            let stop = AtomicBool::new(false);
            let reporter = Reporter::new(&events, Log::none(), &stop);
            match self.room.begin_try(&host, &layout, piece_bytes, &reporter) {
                Ok(()) => true,
                Err(why) => {
                    assert!(why.is_no_space(), "it is waited for: {why}");
                    false
                }
            }
        }
    }

    #[test]
    fn try_that_failed_is_repeated_with_more_space() {
        let more = GIB + SPARE_BYTES;
        for (row, steps) in [
            ("the first one begins with any space", &[(0, true)][..]),
            ("not with the same", &[(GIB, true), (GIB, false), (GIB, false), (more - 1, false), (more, true)][..]),
            ("not with less", &[(GIB, true), (0, false), (GIB, false), (more, true)][..]),
            ("each time more than the last had", &[(GIB, true), (more, true), (more, false)][..]),
            ("a file system that knows no bound", &[(u64::MAX, true), (u64::MAX, true)][..]),
        ] {
            let mut bench = Bench::new();
            for (step, (free, want)) in steps.iter().enumerate() {
                assert_eq!(bench.begins(*free, 0), *want, "{row}: step {step}, {free} bytes free");
            }
        }
    }

    /// A quota is not seen in the free space.
    #[test]
    fn try_that_failed_is_repeated_in_the_end_without_more_space() {
        let mut bench = Bench::new();
        assert!(bench.begins(GIB, 0));
        for again in 1..3 {
            let refused = (0..2 * CHECKS_MAX).take_while(|_| !bench.begins(GIB, 0)).count();
            assert_eq!(refused, CHECKS_MAX as usize);
            assert_eq!(bench.notes.load(Relaxed), again, "one note for each failed try");
        }
    }

    #[test]
    fn load_that_has_kept_coins_is_continued_with_space_for_its_next_piece() {
        let mut bench = Bench::new();
        let piece = 100 << 20;
        assert!(bench.begins(GIB, piece));
        bench.room.moved_on();
        assert!(!bench.begins(piece + SPARE_BYTES - 1, piece), "it would keep nothing");
        assert!(bench.begins(piece + SPARE_BYTES, piece));
        assert!(!bench.begins(piece + SPARE_BYTES, piece), "the piece was larger");
    }
}
