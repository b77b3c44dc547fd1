//! `doctor`: finds faults of a data directory, their consequences, and the one command that helps.
//!
//! It writes nothing and takes no lock, so that it works on any directory: while a program uses it, with read
//! permission only, and if no program can open it. A fault of a file is a finding; the check continues with the next
//! file.
//!
//! `place` checks the directory itself, `files` block and undo files by the positions in the index, `databases` index,
//! chainstate and optional indexes, `filters` the files of block filters, `marks` marks for invalid blocks; `deep` reads
//! every byte, `blind` does so without a block index. `kinds` has the texts.
//! Absent on purpose: repair.

mod blind;
mod databases;
mod deep;
mod files;
mod filters;
mod kinds;
mod marks;
mod place;

pub(crate) use blind::transactions;
pub(crate) use databases::has_connected;
pub use kinds::{Kind, Texts};

use crate::chain::tree::NodeId;
use crate::datadir::{lock, look};
use crate::fault::Fault;
use crate::options::Options;
use crate::reporting::log::Log;
use crate::reporting::{Events, Reporter};
use primitives::{BlockHash, Height};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use store::blockfiles::BlockFiles;
use store::undofiles::UndoFiles;
use store::{FaultKind, Layout, xor};

/// Exists from the beginning of a rebuild by `repair` until the sync after it is done.
pub(crate) fn rebuild_dir(layout: &Layout) -> PathBuf {
    layout.private_dir().join("repair")
}

/// How often files are read again while a program uses the data directory, and the delay between two tries.
const TRIES_BESIDE: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);
/// Maximum number of findings that are listed; the others are only counted.
const FINDINGS_MAX: usize = 1000;

/// How much to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// Checks sizes, first and last records, tables' footers and marks: this takes seconds.
    Quick,
    /// Checks every byte of blocks, undo data and tables.
    Deep,
}

/// One fault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Its kind.
    pub kind: Kind,
    /// The file or directory.
    pub path: PathBuf,
    /// Offset in the file, in bytes.
    pub offset: Option<u64>,
    /// Height of the affected block; the lowest of several.
    pub height: Option<Height>,
    /// Its hash.
    pub hash: Option<BlockHash>,
    /// Details of the fault.
    pub detail: String,
    /// The command that helps.
    pub command: String,
    /// Estimated time of that command on this machine, in seconds.
    pub seconds: u64,
    /// If a block file contains the blocks of another one: the numbers of both.
    pub swapped: Option<Swapped>,
}

/// Numbers of block files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Swapped {
    /// The number in its name.
    pub number: u32,
    /// The number of the file whose blocks it contains.
    pub owner: u32,
}

/// Result of a check.
#[derive(Clone, Debug, Default)]
pub struct Examination {
    /// Faults, in the order in which to repair them.
    pub findings: Vec<Finding>,
    /// Number of further findings that are not listed.
    pub left_off: u64,
    /// The program that uses the data directory.
    pub in_use: Option<String>,
    /// Deep check only: blocks that are not at their position in the index.
    pub blocks: Vec<BlockHash>,
    /// Deep check only: blocks whose undo data is not at its position in the index.
    pub undo: Vec<BlockHash>,
}

/// Checks a data directory.
///
/// # Errors
///
/// The user stopped it, or the system has no threads. A fault of the directory is a finding.
pub fn doctor(options: &Options, depth: Depth, events: Events<'_>) -> Result<Examination, Fault> {
    let reporter = Reporter::new(events, Log::none(), &options.stop);
    let mut tries = 0;
    loop {
        let holder = look::holder(options);
        let found = examine(options, depth, holder.is_some(), &reporter)?;
        // While a program writes, reads may be inconsistent, each time differently.
        let in_use = holder.or_else(|| look::holder(options)).map(|holder| look::named(&holder));
        if in_use.is_none() || found.findings.is_empty() || tries == TRIES_BESIDE {
            return Ok(Examination { in_use, ..found });
        }
        tries += 1;
        std::thread::sleep(PAUSE);
    }
}

fn examine(options: &Options, depth: Depth, is_beside: bool, reporter: &Reporter<'_>) -> Result<Examination, Fault> {
    let mut look = Look {
        options,
        layout: lock::layout(options),
        reporter,
        depth,
        is_beside,
        found: Examination::default(),
        connected: Vec::new(),
    };
    if let Some(files) = look.place() {
        let known = look.index(&files);
        look.leftovers();
        look.peers();
        look.block_files(&files, known.as_ref());
        let tip = look.coins(known.as_ref());
        look.optional_indexes(known.as_ref());
        if let Some(known) = &known {
            look.marks(known, tip, &files);
            if depth == Depth::Deep {
                look.every_byte(known, &files)?;
            }
        } else if depth == Depth::Deep {
            look.every_byte_without_index(&files)?;
        }
    }
    look.found.findings.sort_by_key(|finding| finding.kind);
    Ok(look.found)
}

/// The block and undo files of a directory whose key is known.
struct Files {
    blocks: Arc<BlockFiles>,
    undo: UndoFiles,
    key: xor::Key,
}

/// A check in progress.
struct Look<'l> {
    options: &'l Options,
    layout: Layout,
    reporter: &'l Reporter<'l>,
    depth: Depth,
    /// A program is using the data directory.
    is_beside: bool,
    found: Examination,
    /// First and last block of each chain that is connected on coins; the first does not belong to it.
    connected: Vec<(NodeId, NodeId)>,
}

/// Location of a finding.
#[derive(Clone, Copy, Debug, Default)]
struct At {
    offset: Option<u64>,
    height: Option<Height>,
    hash: Option<BlockHash>,
}

impl At {
    const ALL: At = At { offset: None, height: None, hash: None };

    fn height(height: Height) -> At {
        At { height: Some(height), ..At::ALL }
    }
}

impl Look<'_> {
    /// Adds a finding whose command needs only the file and the data directory.
    fn find(&mut self, kind: Kind, path: &Path, at: At, detail: impl Into<String>, seconds: u64) {
        self.find_other(kind, path, at, detail, seconds, "");
    }

    /// Like [`Look::find`], with another argument for the command.
    fn find_other(&mut self, kind: Kind, path: &Path, at: At, detail: impl Into<String>, seconds: u64, other: &str) {
        let command = self.command(kind, path, other);
        let At { offset, height, hash } = at;
        let path = path.to_path_buf();
        let detail = detail.into();
        self.add(Finding { kind, path, offset, height, hash, detail, command, seconds, swapped: None });
    }

    fn add(&mut self, finding: Finding) {
        let found = &mut self.found;
        let is_known = found.findings.iter().any(|known| {
            (known.kind, &known.path, known.offset, known.hash)
                == (finding.kind, &finding.path, finding.offset, finding.hash)
        });
        if is_known {
            return;
        }
        if found.findings.len() < FINDINGS_MAX {
            found.findings.push(finding);
        } else {
            found.left_off += 1;
        }
    }

    fn command(&self, kind: Kind, path: &Path, other: &str) -> String {
        let options = self.options;
        let mut at = format!("--datadir={}", quoted(&options.datadir));
        if let Some(dir) = &options.blocksdir {
            at.push_str(&format!(" --blocksdir={}", quoted(dir)));
        }
        at.push_str(&format!(" --chain={}", options.params.chain.name()));
        let rights = options.disk.rights(path);
        let is_of_other = matches!(kind, Kind::NotReadable | Kind::NotWritable) && !rights.is_owner;
        let command = if is_of_other { "chown -R USER {path}" } else { kind.texts().command };
        command.replace("{at}", &at).replace("{path}", &quoted(path)).replace("{other}", other)
    }

    /// Adds the fault that prevented reading a file: as `kind`, unless the system reports a specific cause.
    fn fault(&mut self, kind: Kind, fault: &store::Fault, at: At, seconds: u64) {
        let detail = fault.detail();
        let kind = match detail.kind {
            FaultKind::Permission => Kind::NotReadable,
            FaultKind::Io => Kind::DriveFails,
            _ => kind,
        };
        let what = format!("wanted {}, found {}", detail.wanted, detail.found);
        let path = detail.path.clone();
        self.find(kind, &path, At { offset: at.offset.or(detail.offset), ..at }, what, seconds);
    }

    fn has(&self, kinds: &[Kind], path: &Path) -> bool {
        self.found.findings.iter().any(|finding| kinds.contains(&finding.kind) && finding.path == path)
    }
}

/// A path, quoted for a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Seconds to download this number of bytes from peers.
fn fetched(bytes: u64) -> u64 {
    2 + bytes / (5 << 20)
}

/// Seconds to read this number of bytes of blocks and connect them again.
fn rebuilt(bytes: u64) -> u64 {
    1 + bytes / (60 << 20)
}

/// Seconds to read this number of bytes.
fn read_through(bytes: u64) -> u64 {
    1 + bytes / (150 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_as_a_shell_takes_them() {
        for (path, want) in [
            ("/d/regtest/blocks/blk00001.dat", "/d/regtest/blocks/blk00001.dat"),
            ("/my disk", "'/my disk'"),
            ("/it's", r"'/it'\''s'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(Path::new(path)), want);
        }
    }
}
