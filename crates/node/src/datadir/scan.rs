//! Scans block files, and adds the headers of the blocks found to the index.

use super::DataDir;
use super::lock::clock;
use crate::chain::index::Found;
use crate::chain::tree::NodeId;
use crate::fault::{Fault, Message};
use crate::reporting::Reporter;
use crate::threads;
use crate::threads::locks::{into_inner, lock};
use consensus::{Class, Params};
use primitives::{BlockHash, Height};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use store::FileEnd;
use store::blockfiles::{BlockAt, BlockFiles, FileScan, FoundBlock, Note, Reason};

/// Maximum number of log lines about blocks that precede their parents. Source of the texts: Bitcoin Core b88bffe,
/// `LoadExternalBlockFile`, which logs each of them with `-debug=reindex`.
const OUT_OF_ORDER_LINES_MAX: usize = 20;

/// Advice for unreadable records in a block file.
const RECORD_ADVICE: &str = "Good blocks around it are kept, and ffwd sync fetches what is missing";

/// Advice for blocks without a parent.
const ORPHAN_ADVICE: &str = "Once ffwd sync or ffwd import has brought the blocks that are missing, these are used from the \
                             files, and not downloaded again";

/// Result of scanning the block files.
pub(crate) struct Scan {
    /// Blocks in file order.
    pub(crate) blocks: Vec<FoundBlock>,
    /// End of the written data of each file.
    pub(crate) ends: Vec<FileEnd>,
    /// The first bytes that are not a block.
    pub(crate) first_note: Option<Note>,
}

/// Parts of a file that must be scanned.
pub(crate) struct FileParts {
    /// Number of the file.
    pub(crate) file: u32,
    /// Byte ranges, in file order.
    pub(crate) parts: Vec<Range<u64>>,
}

/// Found blocks, divided by whether their headers connect.
pub(crate) struct Ordered {
    /// Blocks whose headers are now in the tree, each after its parent.
    pub(crate) order: Vec<(NodeId, BlockAt)>,
    /// Blocks without a known parent, in file order.
    pub(crate) orphans: Vec<FoundBlock>,
}

/// Finds the blocks of all files, using all threads; warns of missing files and unreadable records.
pub(crate) fn scan(files: &BlockFiles, par: usize, reporter: &Reporter<'_>) -> Result<Scan, Fault> {
    let numbers = files.numbers()?;
    for (first, last) in &numbers.missing {
        let why = format!("{} to {last} are missing: continuing after the gap", files.path(*first).display());
        reporter.warn(Message::new(why, "Put the files back where you have them; ffwd sync fetches what is missing"));
    }
    scan_files(files, &numbers.there, par, reporter)
}

/// Finds the blocks of some files, like [`scan`].
pub(crate) fn scan_files(
    files: &BlockFiles,
    there: &[u32],
    par: usize,
    reporter: &Reporter<'_>,
) -> Result<Scan, Fault> {
    let scans = scan_each(there.len(), par, reporter, |at| files.scan(there[at]))?;
    scans.iter().for_each(|scan| say_notes(scan, reporter));
    Ok(Scan::of(scans))
}

/// Parts of one file that are warned of; further ones are counted only.
const NOTES_MAX: usize = 20;

/// Warns of the parts of a file that are not blocks.
pub(crate) fn say_notes(scan: &FileScan, reporter: &Reporter<'_>) {
    for (number, note) in scan.notes.iter().enumerate() {
        let is_split = note.reason == Reason::Split;
        let advice = if is_split { "No action is needed: Bitcoin's chain does not need it" } else { RECORD_ADVICE };
        if number < NOTES_MAX {
            reporter.warn(Message::new(note.to_string(), advice));
        }
        match is_split {
            true => reporter.shortfall.of_other_chain(note.records.into()),
            false => reporter.shortfall.damaged(note.path.clone(), note.bytes.start, None),
        }
    }
    if let Some(last) = scan.notes.last().filter(|_| scan.notes.len() > NOTES_MAX) {
        let more = scan.notes.len() - NOTES_MAX;
        let what = format!("{}: {more} more places like these cannot be read", last.path.display());
        reporter.warn(Message::new(what, RECORD_ADVICE));
    }
}

/// The first bytes that should be a block but are not; blocks of Knots 29.4.1's chain (`Reason::Split`) do not count.
pub(crate) fn first_unreadable(scan: &FileScan) -> Option<&Note> {
    scan.notes.iter().find(|note| note.reason != Reason::Split)
}

/// Message for a file that contains no block of this network although it is not empty; `note` is the first problem
/// found in it.
pub(crate) fn why_unreadable(params: &Params, note: &Note) -> Message {
    let (what, advice) = match note.reason {
        Reason::Magic(magic) => match store::layout::network_of_magic(magic) {
            Some(other) => {
                (format!("its records are blocks of {other}"), format!("Use --chain {other}, or another file"))
            }
            None => {
                let advice = "Check whether these are block files, and whether their xor.dat is in the same directory";
                (format!("it begins with {magic:02x?}, not the magic of a known network"), advice.to_owned())
            }
        },
        _ => ("its records are damaged".to_owned(), "Get the file again from where it came from".to_owned()),
    };
    let chain = params.chain.name();
    let path = note.path.display();
    Message::new(format!("no block of {chain} could be read from {path}: {what}"), advice)
}

/// Finds the blocks in parts of files; unreadable records there were reported by the first scan.
pub(crate) fn scan_parts(
    files: &BlockFiles,
    there: &[FileParts],
    par: usize,
    reporter: &Reporter<'_>,
) -> Result<Scan, Fault> {
    let scan = |at: usize| files.scan_parts(there[at].file, &there[at].parts);
    Ok(Scan::of(scan_each(there.len(), par, reporter, scan)?))
}

impl Scan {
    fn of(scans: Vec<FileScan>) -> Scan {
        let ends = scans.iter().map(|scan| scan.end).collect();
        let first_note = scans.iter().find_map(|scan| first_unreadable(scan).cloned());
        Scan { blocks: scans.into_iter().flat_map(|scan| scan.blocks).collect(), ends, first_note }
    }
}

/// Runs `count` scans on all threads; returns their results in order.
pub(crate) fn scan_each<T: Send>(
    count: usize,
    par: usize,
    reporter: &Reporter<'_>,
    scan: impl Fn(usize) -> store::Result<T> + Sync,
) -> Result<Vec<T>, Fault> {
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<Option<store::Result<T>>>> = Mutex::new((0..count).map(|_| None).collect());
    std::thread::scope(|scope| {
        for n in 0..par.clamp(1, count.max(1)) {
            let started = threads::spawn(scope, format!("scan.{n:02}"), || {
                loop {
                    let at = next.fetch_add(1, Relaxed);
                    if at >= count || reporter.is_stopping() {
                        return;
                    }
                    let found_here = scan(at);
                    lock(&found)[at] = Some(found_here);
                }
            });
            if let Err(fault) = started {
                next.store(count, Relaxed);
                return Err(fault);
            }
        }
        Ok(())
    })?;
    into_inner(found).into_iter().map(|scan| Ok(scan.ok_or(Fault::Stopped)??)).collect()
}

impl DataDir<'_> {
    /// Adds found blocks to the index in file order: headers, places, and links between bodies. Blocks marked as pruned
    /// stay so.
    pub(crate) fn take_in(&self, found: Vec<FoundBlock>, now: i64) {
        let place = |at: &BlockAt| format!("{} byte {}", self.files.path(at.file).display(), at.offset);
        let Ordered { order, orphans } = self.order(found, now, &place);
        let mut again = Vec::new();
        for (id, at) in order {
            let mut index = self.index.write();
            if index.body(id).is_pruned() {
                continue;
            }
            if index.found(id, at) == Found::Copy {
                again.push(at);
            }
        }
        if let Some(first) = again.first() {
            self.reporter.note(format!(
                "{} blocks are in the files more than once, the first again at {}: one copy is used, the others stay",
                again.len(),
                place(first)
            ));
        }
        self.index.write().add_orphans(orphans);
    }

    /// Adds waiting blocks whose parents an older index knew, and warns of those that still have no parent.
    pub(crate) fn take_in_orphans(&self, now: i64) {
        let place = |at: &BlockAt| format!("{} byte {}", self.files.path(at.file).display(), at.offset);
        let waiting = self.index.write().take_orphans();
        let Ordered { order, orphans } = self.order(waiting, now, &place);
        for (id, at) in order {
            let mut index = self.index.write();
            if !index.body(id).is_pruned() {
                index.found(id, at);
            }
        }
        self.say_orphans(&orphans, &place);
        self.index.write().add_orphans(orphans);
    }

    /// Adds the headers of found blocks to the tree; returns the blocks with parents first. `place` formats a location
    /// for messages.
    pub(crate) fn order(&self, found: Vec<FoundBlock>, now: i64, place: &dyn Fn(&BlockAt) -> String) -> Ordered {
        let mut waiting: HashMap<BlockHash, Vec<FoundBlock>> = HashMap::new();
        let mut order = Vec::with_capacity(found.len());
        let mut ahead: Vec<(FoundBlock, consensus::BlockError)> = Vec::new();
        let mut said = 0_usize;
        // The number of these lines is bounded, because blocks are stored in the order in which peers send them.
        let mut say = |line: &dyn Fn() -> String| {
            said += 1;
            if said <= OUT_OF_ORDER_LINES_MAX {
                self.reporter.log().later(&line());
            }
        };
        let mut rest: VecDeque<FoundBlock> = found.into();
        while let Some(block) = rest.pop_front() {
            let mut queue = VecDeque::from([block]);
            while let Some(block) = queue.pop_front() {
                let accepted = self.index.write().accept_in_file(self.params, &block.header, block.hash, now);
                match accepted {
                    Ok(id) => {
                        order.push((id, block.location));
                        for child in waiting.remove(&block.hash).unwrap_or_default() {
                            let hash = child.hash;
                            let parent = block.hash;
                            say(&|| format!("LoadExternalBlockFile: Processing out of order child {hash} of {parent}"));
                            queue.push_back(child);
                        }
                    }
                    Err(error) if error.class() == Class::MissingPrev => {
                        let hash = block.hash;
                        let parent = block.header.prev();
                        say(&|| format!("LoadExternalBlockFile: Out of order block {hash}, parent {parent} not known"));
                        waiting.entry(block.header.prev()).or_default().push(block);
                    }
                    // This is not a verdict: the clock may be wrong, or the block may become valid later.
                    Err(error) if error.class() == Class::TimeFuture => ahead.push((block, error)),
                    Err(error) => {
                        let parent = self.headers().find(&block.header.prev());
                        let height = parent.map_or(Height::GENESIS, |parent| self.headers().height(parent) + 1);
                        self.reporter.refused(
                            height,
                            block.hash,
                            &format!("{error} ({})", place(&block.location)),
                            true,
                        );
                    }
                }
            }
            if rest.is_empty() {
                rest.extend(self.with_known_parents(&mut waiting));
            }
        }
        self.say_ahead(&ahead, &mut waiting, now, place);
        let mut orphans: Vec<FoundBlock> = waiting.into_values().flatten().collect();
        orphans.sort_by_key(|block| (block.location.file, block.location.offset));
        Ordered { order, orphans }
    }

    /// Takes blocks from `waiting` whose parents have become known in another way: as waiting blocks of the block
    /// files.
    fn with_known_parents(&self, waiting: &mut HashMap<BlockHash, Vec<FoundBlock>>) -> Vec<FoundBlock> {
        let mut known: Vec<BlockHash> = {
            let tree = self.headers();
            waiting.keys().filter(|parent| tree.find(parent).is_some()).copied().collect()
        };
        known.sort_unstable();
        known.iter().filter_map(|parent| waiting.remove(parent)).flatten().collect()
    }

    /// Warns of blocks without a parent.
    pub(crate) fn say_orphans(&self, orphans: &[FoundBlock], place: &dyn Fn(&BlockAt) -> String) {
        if let Some(first) = orphans.first() {
            self.reporter.shortfall.orphans(orphans.len());
            let count = orphans.len();
            let first = place(&first.location);
            let why = format!(
                "{count} blocks have no parent in the files, the first at {first}: they stay there, and are not overwritten"
            );
            self.reporter.warn(Message::new(why, ORPHAN_ADVICE));
        }
    }

    /// Warns of blocks that are ahead of the clock, and removes their descendants from `waiting`, because these have a
    /// parent.
    fn say_ahead(
        &self,
        ahead: &[(FoundBlock, consensus::BlockError)],
        waiting: &mut HashMap<BlockHash, Vec<FoundBlock>>,
        now: i64,
        place: &dyn Fn(&BlockAt) -> String,
    ) {
        let Some((first, error)) = ahead.first() else { return };
        self.reporter.shortfall.clock_behind();
        let mut queue: Vec<BlockHash> = ahead.iter().map(|(block, _)| block.hash).collect();
        let mut behind = 0;
        while let Some(hash) = queue.pop() {
            let children = waiting.remove(&hash).unwrap_or_default();
            behind += children.len();
            queue.extend(children.iter().map(|block| block.hash));
        }
        let date = |seconds: i64| crate::reporting::log::date(seconds.unsigned_abs());
        let why = format!(
            "{} blocks are more than two hours ahead of this machine's clock, and {behind} more descend from them: they \
             are not invalid, and were not connected. The first is {} at {}: {error} (it says {}, the clock {})",
            ahead.len(),
            first.hash,
            place(&first.location),
            date(i64::from(first.header.time())),
            date(now)
        );
        self.reporter.warn(Message::new(why, "Set the clock if it is wrong, or run this again later"));
    }

    /// Finds blocks inside a damaged record, parents first: a torn write may extend over neighbouring records.
    pub(crate) fn blocks_inside(&self, bad: BlockAt) -> Result<Vec<(NodeId, BlockAt)>, Fault> {
        let blocks = self.files.scan_inside(bad)?.blocks;
        let blocks = self.index.write().found_inside(bad, blocks);
        if blocks.is_empty() {
            return Ok(Vec::new());
        }
        let place = |at: &BlockAt| format!("{} byte {}", self.files.path(at.file).display(), at.offset);
        let Ordered { order, orphans } = self.order(blocks, clock(self.options)?, &place);
        self.index.write().add_orphans(orphans);
        Ok(order)
    }
}
