//! A sync in parts, where a snapshot lies in the data directory or is to: headers up to its base, the tip first, then the
//! past, and what is best from there on; where hints are given, what they are about comes before.
//!
//! Each part opens the data directory for itself, so that a stop or a kill between any two leaves one that either program goes
//! on from.
//! Source: Bitcoin Core b88bffe, `ChainstateManager::ActivateBestChains`, `MaybeValidateSnapshot`.

use super::{Ended, Phase, hinted, run};
use crate::datadir::lock;
use crate::fault::{Fault, Message};
use crate::handle::{Loaded, NotLoaded};
use crate::jobs::AtEnd;
use crate::jobs::SyncOptions;
use crate::jobs::open::finish_reindex;
use crate::jobs::snapshot::validate::{State, state, validate};
use crate::options::{Event, Events, Options, Report};
use crate::snapshot::file::SnapshotFile;
use primitives::{Hash256, Height};
use std::path::PathBuf;

/// What a sync begins with.
#[derive(Clone, Debug, Default)]
pub struct FromSnapshot {
    /// `--snapshot`: this file, unless one is loaded or the chain is beyond it.
    pub file: Option<PathBuf>,
    /// `--snapshot-hash`: what the user vouches for where Core knows no hash of its base block.
    pub hash: Option<Hash256>,
    /// `--hints`: this file of hints, up to its height, in a data directory without blocks.
    pub hints: Option<PathBuf>,
}

/// Brings the data directory to the tip that its peers have.
///
/// # Errors
///
/// The data directory cannot be used, the network cannot be started, a snapshot proves false, or what the system says. Nothing
/// that peers do is one.
pub fn sync(options: &Options, sync: &SyncOptions, events: Events<'_>) -> Result<Report, Fault> {
    sync_from(options, sync, &FromSnapshot::default(), events)
}

/// The same, from a snapshot on: at the tip first, then the past is validated.
///
/// # Errors
///
/// As [`sync`], and Core's refusals of a snapshot.
pub fn sync_from(
    options: &Options,
    sync: &SyncOptions,
    from: &FromSnapshot,
    events: Events<'_>,
) -> Result<Report, Fault> {
    let _end = AtEnd(|| sync.handle.iter().for_each(|handle| handle.end_load()));
    lock::clock(options)?;
    finish_reindex(options, events)?;
    let mut sum = Sum::default();
    match &from.hints {
        Some(path) => {
            if let Some(report) = hinted::begin(options, sync, path, events)? {
                let is_stopped = report.stopped;
                let report = sum.add(report);
                if is_stopped {
                    return Ok(report);
                }
            }
        }
        None => hinted::forget(options, events)?,
    }
    if let Some(path) = &from.file
        && state(options, events)?.is_none()
        && let Some(report) = begin(options, sync, path, from.hash, events)?
    {
        return Ok(sum.add(report));
    }
    loop {
        if let Some(report) = on_snapshot(options, sync, from, &mut sum, events)? {
            return Ok(report);
        }
        let report = sum.add(run(options, sync, Phase::Tip, None, events)?.report);
        let handle = sync.handle.as_deref().filter(|_| !report.stopped);
        let Some((handle, request)) = handle.and_then(|handle| Some((handle, handle.take_load()?))) else {
            return Ok(report);
        };
        // What is wrong with the file is the caller's answer; the sync goes on.
        handle.opening("Loading UTXO snapshot…");
        let loaded = crate::jobs::load(options, &request.path, None, events);
        let loaded = loaded.map(|report| Loaded {
            coins: report.coins_loaded,
            base: report.tip_hash,
            height: report.base_height,
        });
        handle.answer_load(request, loaded.map_err(|why| NotLoaded::Refused(why.what())));
    }
}

/// Where a snapshot lies in the data directory: to the tip on top of it, then its past. A report where that was stopped.
fn on_snapshot(
    options: &Options,
    sync: &SyncOptions,
    from: &FromSnapshot,
    sum: &mut Sum,
    events: Events<'_>,
) -> Result<Option<Report>, Fault> {
    let Some(State { base, height, past }) = state(options, events)? else { return Ok(None) };
    events(Event::Note(format!(
        "The UTXO set comes from a snapshot at height {height}, block {base}: the tip first, then the past is validated from \
         height {past} on"
    )));
    if let Some(handle) = &sync.handle {
        handle.set_past_height(past);
        // One that was asked for while another was loaded.
        if let Some(request) = handle.take_load() {
            handle.answer_load(request, Err(NotLoaded::Refused("Another snapshot is loaded".to_owned())));
        }
    }
    let Ended { report, is_suspect, .. } = run(options, sync, Phase::Tip, None, events)?;
    if is_suspect {
        let why = "A block or a chain does not go together with the snapshot: its past is validated first";
        events(Event::Warning(Message::new(why, "Let it run: the end says which of them is wrong").to_string()));
    }
    let ends_here = report.stopped || (!is_suspect && is_at_stop(options, report.height));
    let report = sum.add(report);
    if ends_here {
        return Ok(Some(report));
    }
    sync.handle.iter().for_each(|handle| handle.set_snapshot_tip(report.best));
    events(Event::Note(format!("Validating the past, up to height {height}")));
    let report = sum.add(run(&without_stop(options), sync, Phase::Past, None, events)?.report);
    if report.stopped {
        return Ok(Some(report));
    }
    validate(options, from.hash, events)?;
    Ok(None)
}

/// The past ends at the base, wherever the tip is to stop.
fn without_stop(options: &Options) -> Options {
    Options { stop_at_height: None, ..options.clone() }
}

fn is_at_stop(options: &Options, height: Height) -> bool {
    options.stop_at_height.is_some_and(|stop| height >= stop)
}

/// Headers up to the base, then the load; a report where that was stopped.
fn begin(
    options: &Options,
    sync: &SyncOptions,
    path: &std::path::Path,
    hash: Option<Hash256>,
    events: Events<'_>,
) -> Result<Option<Report>, Fault> {
    let file = SnapshotFile::open(&*options.disk, path)?;
    file.check_network(&options.params)?;
    let base = file.header.base;
    if crate::jobs::snapshot::is_beyond(options, &base, events)? {
        events(Event::Note(format!("The chain has block {base} already: {} is not needed", path.display())));
        return Ok(None);
    }
    if !crate::jobs::snapshot::has_header(options, &base, events)? {
        events(Event::Note(format!("Headers first, up to the snapshot's base block {base}")));
        let Ended { report, .. } = run(options, sync, Phase::Headers(base), None, events)?;
        if report.stopped {
            return Ok(Some(report));
        }
    }
    crate::jobs::load(options, path, hash, events)?;
    Ok(None)
}

/// What several parts did.
#[derive(Default)]
struct Sum(Option<Report>);

impl Sum {
    fn add(&mut self, report: Report) -> Report {
        let report = match &self.0 {
            None => report,
            Some(earlier) => Report {
                blocks: earlier.blocks + report.blocks,
                blocks_invalid: earlier.blocks_invalid + report.blocks_invalid,
                seconds: earlier.seconds + report.seconds,
                height_start: earlier.height_start,
                stats: report.stats.after(&earlier.stats),
                ..report
            },
        };
        self.0 = Some(report.clone());
        report
    }
}
