//! Finds the minimum memory for a work by bisection between two limits of a cgroup.
//!
//! Each attempt is a normal run with its own limit. It is kept in its directory, so that an interrupted search
//! continues. If the work succeeds at the upper limit and fails at the lower, the range is bisected on a logarithmic
//! scale, until the limits differ by ten percent.
//! Absent on purpose: repeats. A run that fails by chance makes the result too large.

use super::RunError;
use super::state::{Engine, Least, Turn, is_wanted, read_record, slug};
use demo::result::Outcome;

/// Maximum ratio of the limits at which the search ends.
const APART: f64 = 1.1;

impl Engine<'_> {
    /// Searches for every selected cell, if the plan requests it.
    pub(super) fn least_memory(&mut self) -> Result<Vec<Least>, RunError> {
        let plan = self.plan;
        let only = self.only;
        let mut found = Vec::new();
        for cell in plan.cells.iter().filter(|cell| is_wanted(only, &cell.name)) {
            let Some(limits) = plan.works[cell.work].limits.least_memory_mib else { continue };
            let mut stopped = false;
            let searched = search(limits.0, limits.1, |mib| {
                let turn = Turn { number: mib as usize, repeat: 1, cell };
                match self.try_with(&turn, mib)? {
                    Some(done) => Ok(Some(done)),
                    None => {
                        stopped = true;
                        Ok(None)
                    }
                }
            })?;
            if stopped {
                return Err(self.stopped(self.records.len()));
            }
            found.push((cell.name.clone(), searched));
        }
        Ok(found)
    }

    /// Whether the work succeeds with this memory; `None` if the attempt was stopped.
    fn try_with(&mut self, turn: &Turn<'_>, mib: u64) -> Result<Option<Result<bool, String>>, RunError> {
        let directory = self.out.join("least").join(format!("{}-{mib}", slug(&turn.cell.name)));
        let record = match read_record(&directory, turn) {
            Some(record) => record,
            None => {
                self.progress.line(&format!("      {} with {mib} MiB", turn.cell.name));
                self.memory_mib = Some(mib);
                let made = self.turn(turn, &directory, &[turn.cell], 0);
                self.memory_mib = None;
                match made? {
                    Some(record) => record,
                    None => return Ok(None),
                }
            }
        };
        let unlimited = record.limits.iter().find(|said| said.starts_with("memory") && said.contains("not limited"));
        if let Some(why) = unlimited {
            return Ok(Some(Err(why.clone())));
        }
        Ok(Some(Ok(record.outcome == Outcome::Done)))
    }
}

/// Bisects between the limits. Returns the smallest limit that sufficed, and the largest that did not (0 if the lower
/// limit sufficed). `ends` is whether the work succeeds; `None` stops the search.
fn search<E>(
    from: u64,
    to: u64,
    mut ends: impl FnMut(u64) -> Result<Option<Result<bool, String>>, E>,
) -> Result<Result<(u64, u64), String>, E> {
    let mut asked = |mib: u64| ends(mib).map(|answer| answer.unwrap_or(Err("stopped".to_owned())));
    match asked(to)? {
        Err(why) => return Ok(Err(why)),
        Ok(false) => return Ok(Err(format!("it does not end with {to} MiB either"))),
        Ok(true) => {}
    }
    match asked(from)? {
        Err(why) => return Ok(Err(why)),
        Ok(true) => return Ok(Ok((from, 0))),
        Ok(false) => {}
    }
    let mut low = from;
    let mut high = to;
    while high as f64 > low as f64 * APART && high > low + 1 {
        let middle = ((low as f64 * high as f64).sqrt() as u64).clamp(low + 1, high - 1);
        match asked(middle)? {
            Err(why) => return Ok(Err(why)),
            Ok(true) => high = middle,
            Ok(false) => low = middle,
        }
    }
    Ok(Ok((high, low)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_ends_at_the_least_that_is_enough() {
        for (least, limits, want) in [
            (100, (64, 4096), Ok((100..=110, 91..=99))),
            (64, (64, 4096), Ok((64..=64, 0..=0))),
            (4096, (64, 4096), Ok((4096..=4096, 3724..=4095))),
            (5000, (64, 4096), Err("does not end with 4096 MiB")),
        ] {
            let mut tries = 0;
            let found = search::<()>(limits.0, limits.1, |mib| {
                tries += 1;
                Ok(Some(Ok(mib >= least)))
            });
            match (found.unwrap(), want) {
                (Ok((enough, not)), Ok((high, low))) => {
                    assert!(high.contains(&enough) && low.contains(&not), "{least}: {enough}, {not}");
                }
                (Err(why), Err(want)) => assert!(why.contains(want), "{why}"),
                (found, want) => panic!("{least}: {found:?}, want {want:?}"),
            }
            assert!(tries <= 10, "{tries} tries");
        }
        let unlimited = search::<()>(64, 128, |_| Ok(Some(Err("memory 64 MiB: not limited".to_owned()))));
        assert_eq!(unlimited, Ok(Err("memory 64 MiB: not limited".to_owned())));
    }
}
