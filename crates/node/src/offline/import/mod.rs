//! `import FILE...`: blocks from bootstrap.dat or loose block files, appended to this data directory's own and
//! connected.
//!
//! Plain files are read in place, with the xor.dat in their directory or the key that their contents reveal. Compressed
//! files and pipes are read as a [`stream`], in pieces: the unused rest of a piece is put before the next one.

mod stream;

use super::open::{Purpose, Which, finish_reindex, open_existing};
use super::{activate, engine, report};
use crate::datadir::scan::{self, Ordered};
use crate::datadir::store_block::{NotStored, Source};
use crate::datadir::{DataDir, lock};
use crate::fault::{Fault, Message};
use crate::options::{Options, Prune};
use crate::pipeline::engine::{Activated, Engine};
use crate::reporting::{Events, JobReport};
use primitives::human;
use std::path::PathBuf;
use store::blockfiles::{BlockAt, BlockFiles, FileScan, FoundBlock, Note, RECORD_HEADER_BYTES, Reason, SCAN_SIZE_MAX};
use store::xor::{self, Key};
use store::{FilePos, Network};
pub(crate) use stream::{Filled, Stream};

/// Maximum bytes of a stream's blocks that wait for their parents: more than a thousand blocks, the usual disorder of a
/// download.
const ORPHAN_BYTES_MAX: usize = 128 << 20;

/// Reports blocks of the given files that have no parent, which are not stored, and blocks of the data directory's own
/// files whose parents were in the given files.
fn say_left(datadir: &DataDir<'_>, orphans: &[FoundBlock], place: &dyn Fn(&BlockAt) -> String) {
    datadir.say_adopted();
    let Some(first) = orphans.first() else { return };
    datadir.reporter.shortfall.orphans(orphans.len());
    let count = orphans.len();
    let first = place(&first.location);
    let why = format!(
        "{count} blocks have no parent, neither there nor in the data directory, the first at {first}: they are not stored"
    );
    let advice = "Import the blocks below them first, or fetch those with ffwd sync, then import this again";
    datadir.reporter.warn(Message::new(why, advice));
}

/// Stores the blocks of `files` and connects the best chain.
///
/// # Errors
///
/// The data directory or a file cannot be used, or an I/O error. An invalid block is not an error.
pub fn import(options: &Options, files: &[PathBuf], events: Events<'_>) -> Result<JobReport, Fault> {
    let now = lock::clock(options)?;
    finish_reindex(options, events)?;
    let existing = open_existing(options, events, "import", Purpose::Work, Which::Active)?;
    let datadir = &existing.datadir;
    let height_start = datadir.headers().height(existing.tip);
    datadir.open_indexes(datadir.kept_indexes(), existing.tip)?;
    let engine = engine(datadir, existing.tip);
    let network = lock::network(&options.params);
    let mut import = Import { datadir, engine, network, now, found: 0, taken: 0, waiting_bytes: 0 };
    let mut end = End::Whole;
    for group in groups(datadir, files)? {
        end = match group {
            Group::Files(files) => import.files(files)?,
            Group::Stream(stream) => import.stream(stream)?,
        };
        if end == End::Stopped {
            break;
        }
    }
    let Import { mut engine, found, taken, .. } = import;
    datadir.reporter.note(format!("{taken} blocks were new"));
    if found == 0 && end == End::Whole && !datadir.reporter.shortfall.has_unreadable() {
        let why = Message::new("no block is in what was given to import", "Get it again from where it came from");
        datadir.reporter.warn(why.clone());
        datadir.reporter.shortfall.unreadable(why);
    }
    let stopped = activate(datadir, &mut engine)? == Activated::Stopped || end == End::Stopped;
    super::finish(datadir, &mut engine)?;
    Ok(report(datadir, engine.tip(), height_start, engine.pipeline.stats().snapshot(), stopped))
}

/// Files that are read together.
enum Group {
    /// Read in place, each with its key: their blocks may have their parents in each other.
    Files(Vec<(PathBuf, Key)>),
    /// Read separately, in order.
    Stream(Stream),
}

/// The input, in the order of the command line. Every file is opened before the first is read.
fn groups(datadir: &DataDir<'_>, files: &[PathBuf]) -> Result<Vec<Group>, Fault> {
    let network = lock::network(datadir.params);
    let mut groups = Vec::new();
    for path in files {
        if let Some(stream) = Stream::open(&datadir.disk, path, datadir.options.sizes.import_piece_bytes)? {
            groups.push(Group::Stream(stream));
            continue;
        }
        let file = (path.clone(), xor::key_of_foreign(&*datadir.disk, path, &network)?);
        match groups.last_mut() {
            Some(Group::Files(files)) => files.push(file),
            _ => groups.push(Group::Files(vec![file])),
        }
    }
    Ok(groups)
}

/// How reading a group ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Whole,
    Stopped,
}

struct Import<'d, 'e> {
    datadir: &'d DataDir<'e>,
    engine: Engine<'d>,
    network: Network,
    now: i64,
    /// Number of blocks that were found.
    found: usize,
    /// Number of blocks that were stored.
    taken: u64,
    /// Bytes that were stored since the chain was last connected.
    waiting_bytes: usize,
}

impl Import<'_, '_> {
    fn files(&mut self, files: Vec<(PathBuf, Key)>) -> Result<End, Fault> {
        let datadir = self.datadir;
        let numbers: Vec<u32> = (0..files.len() as u32).collect();
        let foreign = BlockFiles::foreign(&datadir.host, files, &self.network);
        let scans =
            scan::scan_each(numbers.len(), datadir.options.par, &datadir.reporter, |at| foreign.scan(numbers[at]))?;
        let mut blocks = Vec::new();
        for scan in scans {
            scan::say_notes(&scan, &datadir.reporter);
            if scan.blocks.is_empty() {
                self.say_unreadable(&scan);
            }
            blocks.extend(scan.blocks);
        }
        self.found += blocks.len();
        let place = |at: &BlockAt| format!("{} byte {}", foreign.path(at.file).display(), at.offset);
        let Ordered { order, orphans } = datadir.order(blocks, self.now, &place);
        say_left(datadir, &orphans, &place);
        self.store(order, &foreign, &place)
    }

    fn stream(&mut self, mut stream: Stream) -> Result<End, Fault> {
        let datadir = self.datadir;
        let is_stopping = || datadir.reporter.is_stopping();
        let piece_bytes = datadir.options.sizes.import_piece_bytes;
        let mut rest = Rest::default();
        let mut found_any = false;
        loop {
            // Offset of the piece in the stream.
            let base = stream.bytes() - rest.cut.len() as u64;
            let orphan_bytes = rest.orphans.len();
            let mut piece = rest.take();
            let filled = stream.fill(&mut piece, piece_bytes, (&*datadir.disk, &self.network), &is_stopping);
            if filled == Filled::Stopped {
                return Ok(End::Stopped);
            }
            let foreign = BlockFiles::piece(datadir.disk.clone(), stream.path().to_path_buf(), piece, &self.network);
            let mut scan = foreign.scan(0)?;
            let cut_from = if filled == Filled::More { split_off_cut(&mut scan, foreign.file_bytes(0)?) } else { None };
            found_any |= !scan.blocks.is_empty();
            self.found += scan.blocks.len();
            let place = |at: &BlockAt| {
                let offset = (base + at.offset).saturating_sub(orphan_bytes as u64);
                format!("{} byte {offset}", stream.path().display())
            };
            scan::say_notes(&scan, &datadir.reporter);
            if filled == Filled::Last && !found_any {
                self.say_unreadable(&scan);
            }
            let Ordered { order, orphans } = datadir.order(scan.blocks, self.now, &place);
            if self.store(order, &foreign, &place)? == End::Stopped {
                return Ok(End::Stopped);
            }
            if filled == Filled::Last {
                say_left(datadir, &orphans, &place);
                break;
            }
            rest = self.keep_rest(&foreign, &orphans, cut_from)?;
        }
        if let Some(why) = stream.broken() {
            let what = format!("{}: {why}", stream.path().display());
            let why = Message::new(what, "What came before is stored; get the whole file and import it again");
            datadir.reporter.warn(why.clone());
            datadir.reporter.shortfall.unreadable(why);
        }
        Ok(End::Whole)
    }

    /// The unused rest of a piece, which is put before the next piece.
    fn keep_rest(&self, foreign: &BlockFiles, orphans: &[FoundBlock], cut_from: Option<u64>) -> Result<Rest, Fault> {
        let mut rest = Rest::default();
        let mut left_out = 0;
        for block in orphans {
            let record = u64::from(RECORD_HEADER_BYTES) + u64::from(block.location.size);
            if rest.orphans.len() as u64 + record > ORPHAN_BYTES_MAX as u64 {
                left_out += 1;
                continue;
            }
            let start = block.location.offset - u64::from(RECORD_HEADER_BYTES);
            rest.orphans.extend_from_slice(&foreign.read_range(0, start, record)?);
        }
        if left_out > 0 {
            let what = format!(
                "{left_out} blocks lie more than {} before their parents",
                human::bytes(ORPHAN_BYTES_MAX as u64)
            );
            let what = format!("{}: {what} and were left out", foreign.path(0).display());
            self.datadir.reporter.warn(Message::new(what, "Import the same file once more"));
        }
        if let Some(from) = cut_from {
            rest.cut = foreign.read_range(0, from, foreign.file_bytes(0)? - from)?;
        }
        Ok(rest)
    }

    /// Reports a file that is not empty and has no block of this network.
    fn say_unreadable(&self, scan: &FileScan) {
        let Some(note) = scan::first_unreadable(scan) else { return };
        let why = scan::why_unreadable(self.datadir.params, note);
        self.datadir.reporter.warn(why.clone());
        self.datadir.reporter.shortfall.unreadable(why);
    }

    /// Stores blocks, parents before children.
    fn store(
        &mut self,
        order: Vec<(crate::chain::tree::NodeId, BlockAt)>,
        foreign: &BlockFiles,
        place: &dyn Fn(&BlockAt) -> String,
    ) -> Result<End, Fault> {
        let datadir = self.datadir;
        // With pruning, little is stored before it is connected, so that files can be removed early.
        let prunes = matches!(datadir.options.prune, Prune::Target { .. });
        for (id, at) in order {
            if datadir.reporter.is_stopping() {
                return Ok(End::Stopped);
            }
            let is_known = {
                let index = datadir.index.read();
                index.place(id).is_some() || index.is_active(id)
            };
            if is_known {
                continue;
            }
            let Some(file_pos) = at.file_pos() else { continue };
            let mut bytes = foreign.read_block(FilePos { ..file_pos })?;
            bytes.truncate(at.size as usize);
            match datadir.store_block(id, &bytes, Source::File, |_| {})? {
                Ok(()) => {
                    self.taken += 1;
                    self.waiting_bytes += bytes.len();
                }
                Err(why) => {
                    let (height, hash) = datadir.height_and_hash(id);
                    let is_invalid = matches!(why, NotStored::Invalid(_));
                    if matches!(why, NotStored::Body(_) | NotStored::Unreadable(_)) {
                        datadir.reporter.shortfall.damaged(foreign.path(at.file), at.offset, Some(id));
                    }
                    datadir.reporter.refused(height, hash, &format!("{why} ({})", place(&at)), is_invalid);
                }
            }
            if prunes && self.waiting_bytes > datadir.options.sizes.limits.file_bytes_max as usize {
                self.waiting_bytes = 0;
                activate(datadir, &mut self.engine)?;
            }
        }
        Ok(End::Whole)
    }
}

/// The unused rest of a piece, which is put before the next piece.
#[derive(Default)]
struct Rest {
    /// Records of blocks whose parents are not stored yet.
    orphans: Vec<u8>,
    /// The start of a record that continues in the next piece.
    cut: Vec<u8>,
}

impl Rest {
    /// Orphans, then that start of a record.
    fn take(&mut self) -> Vec<u8> {
        let mut all = std::mem::take(&mut self.orphans);
        all.append(&mut self.cut);
        all
    }
}

/// Removes notes and blocks from a scan that may continue after the end of the piece; returns where they begin.
pub(crate) fn split_off_cut(scan: &mut FileScan, piece_bytes: u64) -> Option<u64> {
    let record_bytes_max = u64::from(SCAN_SIZE_MAX) + u64::from(RECORD_HEADER_BYTES);
    let near_end = piece_bytes.saturating_sub(record_bytes_max);
    let is_cut = |note: &&Note| matches!(note.reason, Reason::Cut { .. }) && note.bytes.start >= near_end;
    let from = match (scan.notes.iter().find(is_cut), scan.notes.last()) {
        (Some(cut), _) => cut.bytes.start,
        // A record may begin anywhere in these bytes.
        (None, Some(last)) if last.bytes.end == piece_bytes => last.bytes.start.max(near_end),
        _ => piece_bytes,
    };
    scan.notes.retain(|note| note.bytes.start < from);
    scan.blocks.retain(|block| block.location.offset < from);
    (from < piece_bytes).then_some(from)
}
