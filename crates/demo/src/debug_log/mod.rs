//! Parses debug.log, of ffwd and of any Bitcoin Core that writes UpdateTip lines, into runs.
//!
//! A run is the output of one start of a program. It begins at a line that names a version. In a log without such lines
//! it begins where the height falls by more than `REORG_MAX` blocks in one step (Core disconnects block by block), or
//! the time goes back by more than `CLOCK_BACK_MAX_US`. Truncated or damaged lines are counted and skipped.
//!
//! The log is read in pieces, so its size does not matter; memory is bounded by `TIPS_MAX`.
//! Absent on purpose: the choice of the file, and drawing.

mod line;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::io::{self, Read};

use memchr::{memchr, memmem, memrchr};

use crate::result::{ASSUMED_VALID, EVERY_SCRIPT};
use line::Line;

/// Maximum number of tips that are kept of one log: four times those of mainnet. Further ones are counted in
/// [`Log::tips_left_out`].
const TIPS_MAX: usize = 4_000_000;

/// Maximum number of runs that are kept of one log; later starts are counted in [`Log::runs_left_out`].
const RUNS_MAX: usize = 1_000;

/// Maximum number of flushes that are kept of one run: one a minute for more than a year.
const FLUSHES_MAX: usize = 1_000_000;

/// If the height falls by more blocks than this in one step, a new run begins.
const REORG_MAX: u32 = 100;

/// If the clock goes back further than this in a log without version lines, a new run begins.
const CLOCK_BACK_MAX_US: i64 = 3_600_000_000;

/// Bytes read at once. Longer lines are damaged: Core's longest have a few kilobytes.
const PIECE_BYTES: usize = 4 << 20;

/// Number of consecutive blocks whose stage times are summed.
pub(crate) const STAGE_BIN: u32 = 50;

/// The names of Core's `-debug=bench` lines, in the order of the lines of a block.
pub(crate) const STAGE_LINES: [&str; 12] = [
    "Load block from disk",
    "Sanity checks",
    "Fork checks",
    "Connect transactions",
    "Verify txins",
    "Write undo data",
    "Index writing",
    "Connect total",
    "Flush",
    "Writing chainstate",
    "Connect postprocess",
    "Connect block",
];
const LOAD: usize = 0;
const POSTPROCESS: usize = 10;
const BLOCK: usize = 11;

/// Milliseconds per entry of [`STAGE_LINES`], summed over a number of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct StageSums {
    /// Milliseconds, in the order of [`STAGE_LINES`].
    pub(crate) ms: [f64; STAGE_LINES.len()],
    /// Blocks in the sums.
    pub(crate) blocks: u32,
}

/// A block that became the tip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tip {
    /// Microseconds since 1970.
    pub(crate) time_us: i64,
    /// What the line said.
    pub(crate) fields: line::TipFields,
}

/// A write of the coins cache to disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Flush {
    /// Microseconds since 1970.
    pub(crate) time_us: i64,
    /// Height of the tip at the time of the flush; 0 before the first.
    pub(crate) height: u32,
    /// Its milliseconds, if the log has them (`-debug=bench`).
    pub(crate) ms: Option<f64>,
    /// Number of coins written, if the log has it.
    pub(crate) coins: Option<u64>,
}

/// The scripts that the program announced to verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trust {
    /// "Validating signatures for all blocks": an older version's plan.
    AllPlanned,
    /// "Assuming ancestors of block ..": a plan, which the first block may overrule.
    AssumedPlanned,
    /// "Enabling script verification at block ..", and no line that disables it.
    All,
    /// "Disabling script verification at block ..".
    Assumed,
}

impl Trust {
    /// The trust level in words, the same as those of `lab run`.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::All | Self::AllPlanned => EVERY_SCRIPT,
            Self::Assumed | Self::AssumedPlanned => ASSUMED_VALID,
        }
    }
}

/// The log of one start of a program.
#[derive(Debug, Default)]
pub(crate) struct LogRun {
    /// The version line, or empty.
    pub(crate) version: String,
    /// Time of its first line, microseconds since 1970.
    pub(crate) start_us: Option<i64>,
    /// Time of its last line.
    pub(crate) end_us: i64,
    /// Its tips in the order of the file.
    pub(crate) tips: Vec<Tip>,
    /// Tips of a background validation, if it made one.
    pub(crate) background: Vec<Tip>,
    /// Flushes that the log names.
    pub(crate) flushes: Vec<Flush>,
    /// Number of "Writing partial batch" lines: parts in which Core wrote the coins of flushes (`-debug=coindb`),
    /// without the last one of each flush.
    pub(crate) partial_batches: u64,
    /// Stage times by `height / STAGE_BIN`.
    pub(crate) stages: BTreeMap<u32, StageSums>,
    /// Milliseconds of each block, from "Connect block" lines.
    pub(crate) block_ms: Vec<f32>,
    /// Whether times have microseconds.
    pub(crate) micros: bool,
    /// Whether there is a line "Shutdown done": the program ended normally.
    pub(crate) shut_down: bool,
    /// Which scripts ran, if the log shows it.
    pub(crate) trust: Option<Trust>,
    /// Number of truncated or damaged lines.
    pub(crate) damaged: u64,
}

/// A log as read.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// Its runs, in the order of the file, including those without a tip.
    pub(crate) runs: Vec<LogRun>,
    /// Bytes read.
    pub(crate) bytes: u64,
    /// Lines read.
    pub(crate) lines: u64,
    /// Lines that begin with a time.
    pub(crate) timed: u64,
    /// Tips beyond [`TIPS_MAX`].
    pub(crate) tips_left_out: u64,
    /// Starts beyond [`RUNS_MAX`]: their lines are not in any run.
    pub(crate) runs_left_out: u64,
}

/// The trust level that a log states: [`EVERY_SCRIPT`] or [`ASSUMED_VALID`].
///
/// # Errors
///
/// What `input` gives.
pub fn trust(input: impl Read) -> io::Result<Option<&'static str>> {
    Ok(read(input)?.runs.iter().rev().find_map(|run| run.trust).map(Trust::words))
}

/// Reads a whole log.
///
/// # Errors
///
/// An I/O error of `input`. Empty input is an error; a file that is not a log yields no run with a tip.
pub(crate) fn read(mut input: impl Read) -> io::Result<Log> {
    let mut reader = Reader::default();
    let mut piece = vec![0; PIECE_BYTES];
    let mut held = 0;
    let mut skipping = false;
    loop {
        let read = match input.read(&mut piece[held..]) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        reader.log.bytes += read as u64;
        let filled = held + read;
        if read == 0 {
            if held > 0 && !skipping {
                reader.line(&piece[..held]);
            }
            return Ok(reader.finish());
        }
        let Some(end) = memrchr(b'\n', &piece[held..filled]).map(|at| held + at) else {
            held = filled;
            if held == piece.len() {
                (held, skipping) = (0, true);
                reader.run().damaged += 1;
            }
            continue;
        };
        let mut at = 0;
        for next in memchr::memchr_iter(b'\n', &piece[..end + 1]) {
            if !std::mem::take(&mut skipping) {
                reader.line(&piece[at..next]);
            }
            at = next + 1;
        }
        piece.copy_within(end + 1..filled, 0);
        held = filled - (end + 1);
    }
}

/// State of the parser.
#[derive(Default)]
struct Reader {
    log: Log,
    tips: usize,
    /// Stage times of the block that is being connected.
    pending: StageSums,
    /// Whether the current start is beyond [`RUNS_MAX`].
    overflow: bool,
}

impl Reader {
    /// The run to which lines belong; the first run begins with the first line.
    fn run(&mut self) -> &mut LogRun {
        if self.log.runs.is_empty() {
            self.log.runs.push(LogRun::default());
        }
        self.log.runs.last_mut().expect("there is one, made above if need be")
    }

    /// Ends the run and begins another.
    fn begin(&mut self) {
        self.pending = StageSums::default();
        let used = self.log.runs.last().is_some_and(|run| run.start_us.is_some());
        if !used {
            self.run(); // The run has no data yet, so it becomes the new run.
        } else if self.log.runs.len() < RUNS_MAX {
            self.log.runs.push(LogRun::default());
        } else {
            self.log.runs_left_out += 1;
            self.overflow = true;
        }
    }

    fn line(&mut self, line: &[u8]) {
        self.log.lines += 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(parsed) = line::parse(line) else {
            if memmem::find(line, line::TIP).is_some() || memchr(0, line).is_some() {
                self.run().damaged += 1;
            }
            return;
        };
        self.log.timed += 1;
        if is_version(parsed.message) {
            self.begin();
            if self.overflow {
                return;
            }
            self.run().version =
                String::from_utf8_lossy(&parsed.message[..parsed.message.len().min(200)]).trim_end().to_owned();
        }
        if self.overflow {
            return;
        }
        if let Some(fields) = parsed.message.strip_prefix(line::TIP) {
            self.tip(&parsed, fields);
        } else {
            self.message(&parsed, line);
        }
        let run = self.run();
        run.start_us.get_or_insert(parsed.time_us);
        run.end_us = parsed.time_us;
    }

    fn tip(&mut self, line: &Line<'_>, fields: &[u8]) {
        let Some(fields) = line::tip(fields) else {
            self.run().damaged += 1;
            return;
        };
        let tip = Tip { time_us: line.time_us, fields };
        if self.tips == TIPS_MAX {
            self.log.tips_left_out += 1;
            return;
        }
        self.tips += 1;
        if line.background {
            self.run().background.push(tip);
            return;
        }
        if let Some(last) = self.run().tips.last() {
            let fell = last.fields.height.saturating_sub(fields.height) > REORG_MAX;
            let clock_back = last.time_us.saturating_sub(line.time_us) > CLOCK_BACK_MAX_US;
            if (fell || clock_back) && self.log.runs.len() < RUNS_MAX {
                let version = self.run().version.clone();
                self.begin();
                self.run().version = version;
            }
        }
        let pending = std::mem::take(&mut self.pending);
        let run = self.run();
        run.micros |= line.micros;
        run.tips.push(tip);
        if pending.ms.iter().any(|&ms| ms > 0.0) {
            let bin = run.stages.entry(fields.height / STAGE_BIN).or_default();
            bin.blocks += 1;
            bin.ms.iter_mut().zip(pending.ms).for_each(|(sum, ms)| *sum += ms);
        }
    }

    /// Parses any message except a tip: a stage, a flush, the trust level, the end.
    fn message(&mut self, line: &Line<'_>, whole: &[u8]) {
        let message = line.message;
        if let Some(stage) = message.strip_prefix(b"- ") {
            self.stage(stage);
            return;
        }
        match message.first() {
            Some(b'B' | b'C' | b'W' | b'F' | b'w') => self.flush(line),
            Some(b'S') if message == b"Shutdown done" || message == b"Shutdown: done" => self.run().shut_down = true,
            Some(b'D' | b'E' | b'A' | b'V') => self.trust(message),
            _ => {
                if memmem::find(whole, line::TIP).is_some() || memchr(0, whole).is_some() {
                    self.run().damaged += 1; // Two joined lines, or zeros of a page that was never written.
                }
            }
        }
    }

    fn trust(&mut self, message: &[u8]) {
        for (words, trust) in [
            (&b"Disabling script verification at block"[..], Trust::Assumed),
            (b"Enabling script verification at block", Trust::All),
            (b"Assuming ancestors of block", Trust::AssumedPlanned),
            (b"Validating signatures for all blocks", Trust::AllPlanned),
        ] {
            if message.starts_with(words) {
                let run = self.run();
                run.trust = run.trust.max(Some(trust));
            }
        }
    }

    /// `Connect 12 transactions: 1.25ms (..)`, without the dash before it.
    fn stage(&mut self, text: &[u8]) {
        if text.starts_with(b"Using cached block") {
            self.pending = StageSums::default();
            return;
        }
        let Some(colon) = memchr(b':', text) else { return };
        let name = &text[..colon];
        let Some(stage) = STAGE_LINES.iter().position(|want| same_stage(name, want.as_bytes())) else { return };
        let value = &text[colon + 1..];
        let value = &value[value.iter().position(|&b| b != b' ').unwrap_or(value.len())..];
        // Every value that a stage can have ends in "ms"; a cut line does not.
        let Some(ms) = memmem::find(value, b"ms").and_then(|end| line::decimal(&value[..end])) else {
            self.run().damaged += 1;
            return;
        };
        if stage == LOAD {
            self.pending = StageSums::default(); // Drops times of a block template's check.
        }
        if stage < POSTPROCESS {
            self.pending.ms[stage] += ms;
            return;
        }
        let run = self.run();
        if let Some(last) = run.tips.last() {
            run.stages.entry(last.fields.height / STAGE_BIN).or_default().ms[stage] += ms;
            if stage == BLOCK {
                run.block_ms.push(ms as f32);
            }
        }
    }

    /// The lines that Core's versions write about a write of the coins cache.
    ///
    /// `BatchWrite: write coins cache to disk (N out of M cached coins) completed (12.00ms)` since v31,
    /// `FlushStateToDisk: write coins cache to disk (N coins, ..kB) completed (1.00s)` since v0.21, `Committed N
    /// changed transaction outputs (out of M) to coin database...` in all. The last of these is written just before the
    /// end of the first, so both are one flush. `FlushSnapshotToDisk: completed (12.00ms)` is a flush while a snapshot
    /// is loaded; it has no number of coins. The same applies to `BatchWrite took=12ms, maxMem=317MiB` and `BatchWrite:
    /// completed in 12ms`, of patched programs in threads about flushes.
    fn flush(&mut self, line: &Line<'_>) {
        const TITLE: &[u8] = b"write coins cache to disk (";
        const COMPLETED: &[u8] = b" completed (";
        const TOOK: [&[u8]; 2] = [b"BatchWrite took=", b"BatchWrite: completed in "];
        const SNAPSHOT: &[u8] = b"FlushSnapshotToDisk: completed (";
        let (coins, ms) = if let Some(rest) = line.message.strip_prefix(b"Committed ") {
            if memmem::find(rest, b" changed transaction outputs").is_none() {
                return;
            }
            (line::leading(rest), None)
        } else if let Some(at) = memmem::find(line.message, TITLE) {
            let rest = &line.message[at + TITLE.len()..];
            let Some(done) = memmem::find(rest, COMPLETED).map(|at| &rest[at + COMPLETED.len()..]) else { return };
            let Some(value) = line::decimal(done) else { return };
            let in_seconds = memchr(b's', done).is_some() && memmem::find(done, b"ms").is_none();
            (line::leading(rest), Some(if in_seconds { value * 1000.0 } else { value }))
        } else if let Some(done) = line.message.strip_prefix(SNAPSHOT) {
            let Some(value) = line::decimal(done) else { return };
            (None, Some(value))
        } else if let Some(took) = TOOK.iter().find_map(|start| line.message.strip_prefix(*start)) {
            let is_whole = memmem::find(took, b"ms").is_some();
            let Some(value) = line::decimal(took).filter(|_| is_whole) else { return };
            (None, Some(value))
        } else if line.message.starts_with(b"Writing partial batch") {
            self.run().partial_batches += 1;
            return;
        } else {
            return;
        };
        if coins == Some(0) {
            return; // The second half of a forced flush, with nothing left to write.
        }
        let run = self.run();
        let height = run.tips.last().map_or(0, |tip| tip.fields.height);
        if let Some(last) =
            run.flushes.last_mut().filter(|last| last.ms.is_none() && last.height == height && last.coins == coins)
        {
            last.ms = ms;
        } else if run.flushes.len() < FLUSHES_MAX {
            run.flushes.push(Flush { time_us: line.time_us, height, ms, coins });
        }
    }

    fn finish(mut self) -> Log {
        self.log.runs.retain(|run| run.start_us.is_some() || run.damaged > 0);
        self.log
    }
}

/// Height of the last tip in a piece of a log that consists of whole lines.
pub fn last_height(piece: &[u8]) -> Option<u32> {
    let mut end = piece.len();
    while let Some(at) = memmem::rfind(&piece[..end], line::TIP) {
        let fields = &piece[at + line::TIP.len()..];
        let fields = &fields[..memchr(b'\n', fields).unwrap_or(fields.len())];
        let begin = memrchr(b'\n', &piece[..at]).map_or(0, |newline| newline + 1);
        let is_own =
            line::parse(&piece[begin..]).is_some_and(|whole| !whole.background && whole.message.starts_with(line::TIP));
        if let Some(tip) = line::tip(fields).filter(|_| is_own) {
            return Some(tip.height);
        }
        end = at;
    }
    None
}

/// True for `Bitcoin Core version v31.0.0 ..`, `Bitcoin Knots version ..`, `Bitcoin version v0.9..`, `ffwd version ..`.
fn is_version(message: &[u8]) -> bool {
    message.starts_with(b"ffwd version ")
        || message.starts_with(b"Bitcoin ") && memmem::find(&message[..message.len().min(64)], b" version ").is_some()
}

/// Whether `name` equals `want` apart from a count between its words: `Connect 12 transactions` is `Connect
/// transactions`.
fn same_stage(name: &[u8], want: &[u8]) -> bool {
    if name == want {
        return true;
    }
    let Some(space) = memchr(b' ', want) else { return false };
    let (head, tail) = want.split_at(space);
    name.strip_prefix(head)
        .and_then(|rest| rest.strip_suffix(tail))
        .and_then(|between| between.strip_prefix(b" "))
        .is_some_and(|count| !count.is_empty() && count.iter().all(u8::is_ascii_digit))
}
