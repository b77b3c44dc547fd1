//! `repair`: carries out what `doctor` advises, the smallest step first.
//!
//! Each step opens the data directory, repairs one thing, and closes it; the next step is determined by a new check. So
//! a kill at any point loses at most the current step, and running the command again continues.
//!
//! ```text
//! XOR key ─> file names ─> block index ─> blocks ─> undo data ─> coins ─> leftovers ─> optional indexes ─> marks
//! ```
//!
//! A damaged peers.dat is moved aside before all that.
//!
//! A damaged or missing block is rewritten at its place according to the index; nothing else in the files changes.
//! Damage that cannot be repaired this way leads to a rebuild from the files; blocks that these lack are fetched.
//! Absent on purpose: the kinds of damage (`offline::doctor`).

mod blocks;
mod index;
mod marks;
mod optional;
mod undo;
mod whole;

use super::options::SyncOptions;
use crate::datadir::{lock, look};
use crate::fault::{Fault, Message};
use crate::offline;
use crate::offline::common::engine;
use crate::offline::doctor::{Depth, Examination, Finding, Kind, Swapped, doctor, rebuild_dir};
use crate::offline::open::{Purpose, Which, open_existing};
use crate::options::{Options, Prune};
use crate::reporting::{Event, Events};
use p2p::addresses::peers_file::PEERS;
use primitives::BlockHash;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::Ordering;
use store::chainstate;
use store::index::{BlockTreeDb, LoadedIndex};
use store::restore::{self, Moves};

/// Maximum number of steps, so that a repair that makes no progress ends.
const STEPS_MAX: u32 = 64;

/// Report of a repair.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RepairReport {
    /// The completed steps, each as a sentence.
    pub done: Vec<String>,
    /// Blocks that were fetched from peers and rewritten.
    pub fetched: u64,
    /// Damage that remains, each as a sentence.
    pub left: Vec<String>,
}

/// Repairs the data directory.
///
/// # Errors
///
/// The damage cannot be repaired (the message names what is needed), another program uses the directory, or an I/O
/// error.
pub fn repair(options: &Options, sync: &SyncOptions, events: Events<'_>) -> Result<RepairReport, Fault> {
    lock::clock(options)?;
    let options = &kept_pruned(options);
    let mut repair = Repair {
        options,
        sync,
        events,
        report: RepairReport::default(),
        judged: HashSet::new(),
        wants_sync: false,
        wants_settle: false,
        is_anew: false,
        undo_waits: false,
        is_remade: false,
    };
    repair.run()?;
    Ok(repair.report)
}

/// A pruned directory stays one, also where the options do not say so: a repair fetches no pruned blocks.
fn kept_pruned(options: &Options) -> Options {
    let is_pruned = known_index(options).is_some_and(|loaded| loaded.is_pruned);
    let prune = if is_pruned && options.prune == Prune::Off { Prune::Manual } else { options.prune };
    Options { prune, ..options.clone() }
}

/// The block index, if it can be read.
fn known_index(options: &Options) -> Option<LoadedIndex> {
    let db = BlockTreeDb::open_read_only(options.host(), &lock::layout(options));
    db.and_then(|db| db.load(&lock::network(&options.params))).ok()
}

struct Repair<'r> {
    options: &'r Options,
    sync: &'r SyncOptions,
    events: Events<'r>,
    report: RepairReport,
    /// Marked blocks that were validated again and are invalid.
    judged: HashSet<BlockHash>,
    /// Blocks of the best chain are missing, and a sync must fetch them.
    wants_sync: bool,
    /// The index was rebuilt, and blocks of the files on other branches are not listed yet.
    wants_settle: bool,
    /// The directory has nothing of use, and begins again.
    is_anew: bool,
    /// Undo data above a snapshot cannot be made before the blocks below it are there.
    undo_waits: bool,
    /// The block index was made again, and the coins were kept.
    is_remade: bool,
}

/// Steps of a repair, in their order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Step {
    Peers,
    Key,
    Names,
    Reindex,
    Index,
    Blocks,
    Undo,
    Coins,
    Settle,
    OptionalIndexes,
    Marks,
}

fn step_of(kind: Kind) -> Option<Step> {
    Some(match kind {
        Kind::PeersDamaged => Step::Peers,
        Kind::KeyLost => Step::Key,
        Kind::BlockFilePlain | Kind::BlockFileForeign | Kind::BlockFileSwapped | Kind::BlockFileReplaced => Step::Names,
        Kind::ReindexUnfinished => Step::Reindex,
        Kind::IndexMissing | Kind::IndexDamaged | Kind::IndexOfOtherForm | Kind::CoinsApart => Step::Index,
        Kind::BlockFileMissing | Kind::BlockFileCut | Kind::BlockFileEmpty | Kind::BlockDamaged | Kind::BlockAbsent => {
            Step::Blocks
        }
        Kind::UndoFileMissing | Kind::UndoFileCut | Kind::UndoDamaged => Step::Undo,
        Kind::CoinsMissing | Kind::CoinsDamaged => Step::Coins,
        Kind::CoinsHalfWritten | Kind::Leftover | Kind::NotIndexed => Step::Settle,
        Kind::OptionalIndexDamaged | Kind::FilterFileDamaged => Step::OptionalIndexes,
        Kind::ShutOut | Kind::MarkedLater => Step::Marks,
        _ => return None,
    })
}

impl Repair<'_> {
    fn run(&mut self) -> Result<(), Fault> {
        look::at_rest(self.options, "getblockchaininfo", || Ok(()))?;
        self.finish_moves()?;
        // A rebuild that was interrupted has not fetched the missing blocks yet.
        self.wants_sync = self.options.disk.metadata(&self.aside()).map_err(store::Fault::from)?.is_some();
        self.mend()?;
        if std::mem::take(&mut self.wants_settle) {
            self.settle()?;
            self.mend()?;
        }
        self.marks_below_unknown_headers()?;
        if self.wants_sync || self.undo_waits {
            self.sync()?;
            self.undo_waits = false;
            // The sync listed blocks that waited for their parents: check these too.
            self.mend()?;
        }
        self.finish_indexes()
    }

    /// Finishes renaming block files, if an earlier repair was interrupted while doing this.
    fn finish_moves(&self) -> Result<(), Fault> {
        let layout = lock::layout(self.options);
        if Moves::is_under_way(&*self.options.disk, layout.blocks_dir())? {
            let locked = lock::lock(self.options, self.events, false)?;
            Moves::finish(&*locked.disk, locked.layout.blocks_dir())?;
        }
        Ok(())
    }

    /// Runs steps until no finding is left that a step repairs.
    fn mend(&mut self) -> Result<(), Fault> {
        let mut deep: Option<Examination> = None;
        let mut last = None;
        for _ in 0..STEPS_MAX {
            if self.options.stop.load(Ordering::Relaxed) {
                return Err(Fault::Stopped);
            }
            let quick = self.look(Depth::Quick)?;
            let next = self.next(&quick);
            // A deep check needs the key, file names and index to be in order.
            if deep.is_none() && next.is_none_or(|step| step > Step::Index) {
                deep = Some(self.look(Depth::Deep)?);
            }
            let found = deep.take().unwrap_or(quick);
            let Some(step) = self.next(&found) else { break };
            let now = (step, found.findings.clone(), found.blocks.len());
            if last.as_ref() == Some(&now) {
                return Err(not_mended(&found.findings));
            }
            last = Some(now);
            self.step(step, &found)?;
            // Remaining findings of the deep check are passed on to the next round.
            deep = self.rest(found, step)?;
        }
        Ok(())
    }

    fn look(&mut self, depth: Depth) -> Result<Examination, Fault> {
        let found = doctor(self.options, depth, self.events)?;
        let is_for_the_user = |kind| is_for_the_user(kind) && !(self.is_anew && kind == Kind::Empty);
        let helpless = found.findings.iter().find(|finding| is_for_the_user(finding.kind));
        match helpless {
            Some(finding) => Err(for_the_user(finding)),
            None => Ok(found),
        }
    }

    /// The next step for the current findings.
    fn next(&self, found: &Examination) -> Option<Step> {
        let open = found.findings.iter().filter(|finding| !self.is_settled(finding));
        open.filter_map(|finding| self.step_for(finding)).min()
    }

    /// The step for a finding. Coins of a snapshot's past that do not go with an index made again are given up.
    fn step_for(&self, finding: &Finding) -> Option<Step> {
        let is_apart = finding.kind == Kind::CoinsApart && self.is_remade && self.is_on_snapshot();
        let is_of_past = || finding.path.starts_with(lock::layout(self.options).chainstate_dir());
        if is_apart && is_of_past() { Some(Step::Coins) } else { step_of(finding.kind) }
    }

    /// Directory that is there from the beginning of a rebuild until its sync is done.
    fn aside(&self) -> std::path::PathBuf {
        rebuild_dir(&lock::layout(self.options))
    }

    /// Whether a finding needs no step: an invalid block that was validated again keeps its mark, a rebuild removes its
    /// own directory at the end, and a directory that begins again has no index yet.
    fn is_settled(&self, finding: &Finding) -> bool {
        if (finding.kind == Kind::IndexMissing && self.is_anew) || self.must_wait(finding) {
            return true;
        }
        if finding.kind == Kind::Leftover && finding.path == self.aside() {
            return true;
        }
        step_of(finding.kind) == Some(Step::Marks) && finding.hash.is_some_and(|hash| self.judged.contains(&hash))
    }

    /// The findings of a deep check that remain after a step.
    fn rest(&self, found: Examination, done: Step) -> Result<Option<Examination>, Fault> {
        let is_left = |finding: &Finding| step_of(finding.kind).is_some_and(|step| step > done);
        let findings: Vec<Finding> = found.findings.into_iter().filter(is_left).collect();
        let blocks = if done >= Step::Blocks { Vec::new() } else { found.blocks };
        let undo = if done >= Step::Undo { Vec::new() } else { found.undo };
        let is_over = findings.is_empty() && blocks.is_empty() && undo.is_empty();
        Ok((!is_over && done > Step::Index).then_some(Examination { findings, blocks, undo, ..found }))
    }

    /// Whether a finding cannot be mended before the past of a snapshot is validated.
    fn must_wait(&self, finding: &Finding) -> bool {
        self.undo_waits && step_of(finding.kind) == Some(Step::Undo)
    }

    fn is_on_snapshot(&self) -> bool {
        let base = chainstate::snapshot_base(&*self.options.disk, &lock::layout(self.options));
        base.is_ok_and(|base| base.is_some())
    }

    fn step(&mut self, step: Step, found: &Examination) -> Result<(), Fault> {
        match step {
            Step::Peers => self.peers(),
            Step::Key => self.key(),
            Step::Names => self.names(found),
            Step::Reindex => self.finish_reindex(found),
            Step::Index => self.index(),
            Step::Blocks => self.blocks(&found.blocks),
            Step::Undo => self.undo(&found.undo),
            Step::Coins => self.coins(found),
            Step::Settle => {
                let damaged = self.damaged(found);
                if !damaged.is_empty() {
                    self.remove_damaged(&damaged)?;
                }
                self.settle()
            }
            Step::OptionalIndexes => self.optional_indexes(found),
            Step::Marks => self.marks(found),
        }
    }

    fn done(&mut self, what: impl Into<String>) {
        let what = what.into();
        (self.events)(Event::Note(what.clone()));
        self.report.done.push(what);
    }

    /// Moves a damaged peers.dat aside; the next sync makes a new one.
    fn peers(&mut self) -> Result<(), Fault> {
        let locked = lock::lock(self.options, self.events, false)?;
        let path = locked.layout.net_dir().join(PEERS);
        let went = restore::aside(&*locked.disk, &locked.layout, &path)?;
        drop(locked);
        self.done(format!("{}: moved aside to {}", path.display(), went.display()));
        Ok(())
    }

    /// Opening the directory for writing computes the key from the files and stores it.
    fn key(&mut self) -> Result<(), Fault> {
        drop(lock::lock(self.options, self.events, false)?);
        self.done("The key was computed from the block files and stored in xor.dat");
        Ok(())
    }

    /// Repairs block files that are unobfuscated, misnamed, or not of this chain.
    fn names(&mut self, found: &Examination) -> Result<(), Fault> {
        let locked = lock::lock(self.options, self.events, false)?;
        let disk = &*locked.disk;
        let dir = locked.layout.blocks_dir();
        let mut moves = BTreeMap::new();
        let of_kind = |kind: Kind| found.findings.iter().filter(move |finding| finding.kind == kind);
        for finding in of_kind(Kind::BlockFilePlain) {
            restore::obfuscate(disk, &finding.path, locked.key)?;
            self.done(format!("{}: written again with the key", finding.path.display()));
        }
        let swapped = found.findings.iter().filter_map(|finding| finding.swapped);
        moves.extend(swapped.map(|Swapped { number, owner }| (number, owner)));
        // A file is renamed only if its target name is free or becomes free.
        loop {
            let is_free = |to: u32| {
                moves.contains_key(&to)
                    || disk.metadata(&locked.layout.block_file(to)).is_ok_and(|known| known.is_none())
            };
            let targets: Vec<u32> = moves.values().copied().collect();
            let is_double = |to: u32| targets.iter().filter(|&&other| other == to).count() > 1;
            let stuck: Vec<u32> =
                moves.iter().filter(|&(_, &to)| !is_free(to) || is_double(to)).map(|(&from, _)| from).collect();
            if stuck.is_empty() {
                break;
            }
            moves.retain(|from, _| !stuck.contains(from));
        }
        let pairs: Vec<(u32, u32)> = moves.iter().map(|(&from, &to)| (from, to)).collect();
        if !pairs.is_empty() {
            Moves::begin(disk, dir, &pairs)?;
            self.done(format!("{} block files got their own names back", pairs.len()));
        }
        let others = [Kind::BlockFileForeign, Kind::BlockFileReplaced, Kind::BlockFileSwapped];
        for finding in found.findings.iter().filter(|finding| others.contains(&finding.kind)) {
            let is_moved = finding.swapped.is_some_and(|swapped| moves.contains_key(&swapped.number));
            if !is_moved && disk.metadata(&finding.path).map_err(store::Fault::from)?.is_some() {
                let went = restore::aside(disk, &locked.layout, &finding.path)?;
                self.done(format!("{}: moved aside to {}", finding.path.display(), went.display()));
            }
        }
        Ok(())
    }

    /// Rebuilds the coins from the blocks in the index. While a snapshot is loaded, those of its past are emptied instead,
    /// and the next sync validates the past again, with the blocks that are there; or the snapshot is given up.
    fn coins(&mut self, found: &Examination) -> Result<(), Fault> {
        let layout = lock::layout(self.options);
        let of_snapshot = |finding: &Finding| finding.path.starts_with(layout.snapshot_dir());
        let mut damaged = found.findings.iter().filter(|finding| self.step_for(finding) == Some(Step::Coins));
        if damaged.any(of_snapshot) {
            return self.forget_snapshot("its UTXO set is damaged");
        }
        if self.begin_anew()? {
            return Ok(());
        }
        if self.known_index().is_some_and(|loaded| loaded.entries.is_empty()) {
            return self.whole("the block index is empty, and the UTXO set is damaged");
        }
        if self.is_on_snapshot() {
            let locked = lock::lock(self.options, self.events, false)?;
            chainstate::empty(&*locked.disk, &layout)?;
            self.done("The UTXO set of the snapshot's past was removed: the past is validated again from the start");
            return Ok(());
        }
        self.not_pruned("the chainstate")?;
        if offline::reindex(&self.plain_options(), true, self.events)?.stopped {
            return Err(Fault::Stopped);
        }
        self.done("The UTXO set was made again from the block files");
        Ok(())
    }

    /// These options, without those that only a sync supports.
    fn plain_options(&self) -> Options {
        Options { prune: Prune::Off, indexes: Vec::new(), stop_at_height: None, ..self.options.clone() }
    }

    /// Fails if blocks are pruned that a rebuild needs.
    fn not_pruned(&self, what: &str) -> Result<(), Fault> {
        if !self.known_index().is_some_and(|loaded| loaded.is_pruned) {
            return Ok(());
        }
        let why = format!("{what} cannot be made again: the blocks that it takes were pruned. Nothing was changed");
        let advice = "Put it back from a copy. Or run ffwd sync --prune: it connects the chain again if the block index is there. \
                      Without the index it needs an empty data directory";
        Err(Fault::refused(why, advice))
    }

    /// The block index, if it can be read.
    fn known_index(&self) -> Option<LoadedIndex> {
        known_index(self.options)
    }

    /// Opens the directory for work, which finishes interrupted work and lists records missing from the index.
    fn settle(&mut self) -> Result<(), Fault> {
        let is_whole = self.stand().is_some_and(|stand| stand.from.is_none());
        let existing = open_existing(self.options, self.events, "repair", Purpose::Work, Which::Active)?;
        let datadir = &existing.datadir;
        datadir.open_indexes(datadir.kept_indexes(), existing.tip)?;
        let mut engine = engine(datadir, existing.tip);
        engine.activate()?;
        if is_whole && engine.tip() == existing.tip {
            // Unchanged coins are not written.
            datadir.write_index(None)?;
            datadir.with_room(|| datadir.writer.settle())?;
            datadir.finish_indexes(existing.tip)?;
        } else {
            offline::finish(datadir, &mut engine)?;
        }
        drop(engine);
        drop(existing);
        self.done("What interrupted work left was finished or removed, and all records of the block files are listed");
        Ok(())
    }

    /// Fetches the missing blocks of the best chain, if there are peers.
    fn sync(&mut self) -> Result<(), Fault> {
        if self.is_alone() {
            self.forget_aside()?;
            let left = if self.undo_waits {
                "Undo data waits for the past of the snapshot: run ffwd sync, which validates it, then ffwd repair"
            } else {
                "Blocks of the best chain are in no file: ffwd sync fetches them"
            };
            self.report.left.push(left.to_owned());
            return Ok(());
        }
        // A pruned directory stays pruned.
        let sync = SyncOptions { exit_at_tip: true, to_archival: false, ..self.sync.clone() };
        // Indexes are built from undo data too.
        let kept = self.keep_indexes(&[])?;
        let indexes = if self.undo_waits { Vec::new() } else { kept };
        let options = Options { indexes, ..self.options.clone() };
        let report = super::phases::sync(&options, &sync, self.events)?;
        self.done(format!("The chain is at height {}", report.height));
        if let Some(why) = report.end_reason {
            return Err(Fault::Refused(why));
        }
        if report.stopped {
            return Err(Fault::Stopped);
        }
        self.forget_aside()
    }

    /// The sync after a rebuild is done.
    fn forget_aside(&self) -> Result<(), Fault> {
        Ok(store::chainstate::remove_if_there(&*self.options.disk, &self.aside())?)
    }
}

/// Whether only the user can repair this kind of damage.
fn is_for_the_user(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Empty
            | Kind::OtherDirectory
            | Kind::NotMounted
            | Kind::DirectoryMissing
            | Kind::DanglingLink
            | Kind::NotReadable
            | Kind::NotWritable
            | Kind::DriveFails
            | Kind::NoSpace
            | Kind::NoInodes
            | Kind::ClockWrong
            | Kind::KeyUnusable
            | Kind::IndexOfOtherNetwork
    )
}

fn for_the_user(finding: &Finding) -> Fault {
    let texts = finding.kind.texts();
    let why = format!(
        "{}: {}: {}. Nothing was changed or fetched for it",
        finding.path.display(),
        texts.what,
        finding.detail
    );
    Fault::Refused(Message::new(why, format!("What helps: {}", finding.command)))
}

fn not_mended(findings: &[Finding]) -> Fault {
    let first = findings.first().map_or_else(String::new, |finding| {
        format!("{}: {}: {}", finding.path.display(), finding.kind.texts().what, finding.detail)
    });
    let why = format!("{} findings are left after the step that repairs them, the first: {first}", findings.len());
    Fault::refused(why, "Run ffwd doctor --deep, and report what it says")
}
