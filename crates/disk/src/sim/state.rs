//! The state of a simulated disk: the visible state, the durable state, and the changes between them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use super::{Fault, Kind, Loss};

#[derive(Debug)]
pub(super) struct SimState {
    /// Files and directories by inode number; 0 is the root. Never removed: they may be open.
    pub(super) nodes: Vec<Node>,
    /// Changes of names that are not durable yet.
    pub(super) moves: Vec<Move>,
    pub(super) operations: u64,
    pub(super) plans: Vec<Plan>,
    pub(super) reads: u64,
    /// The numbers of the reads that fail.
    pub(super) failing_reads: Vec<Range<u64>>,
    /// Bytes that callers asked to drop from the page cache.
    pub(super) dropped_bytes: u64,
    pub(super) is_stopped: bool,
    pub(super) stopped_at: Option<PathBuf>,
    pub(super) random: Random,
    pub(super) free_bytes: u64,
    pub(super) free_inodes: Option<u64>,
    /// Differences of this file system from ext4.
    pub(super) kinds: BTreeSet<Kind>,
    /// Directories that are mount points, by inode number.
    pub(super) mounts: BTreeSet<usize>,
    /// Directories of the lower layer, if it is an overlayfs.
    pub(super) lower: BTreeSet<usize>,
    /// Open files by inode number, with the number of their holders.
    pub(super) open: BTreeMap<usize, usize>,
}

#[derive(Debug)]
pub(super) enum Node {
    File(FileNode),
    Dir(DirNode),
}

#[derive(Debug, Default)]
pub(super) struct FileNode {
    pub(super) now: Vec<u8>,
    pub(super) durable: Vec<u8>,
    pub(super) changes: Vec<Change>,
}

#[derive(Debug)]
pub(super) struct Change {
    pub(super) what: What,
    /// A failed sync has discarded the data: no later sync makes it durable.
    pub(super) is_forgotten: bool,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    Write { offset: usize, data: Vec<u8> },
    SetLen(usize),
}

pub(super) type Names = BTreeMap<OsString, usize>;

#[derive(Debug, Default)]
pub(super) struct DirNode {
    pub(super) now: Names,
    pub(super) durable: Names,
}

/// Names set (or removed) in one step: directory, name, inode.
pub(super) type Move = Vec<(usize, OsString, Option<usize>)>;

#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) from: u64,
    pub(super) until: u64,
    pub(super) fault: Fault,
}

/// SplitMix64: small, and the same everywhere.
#[derive(Clone, Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number from 0 to `bound`, both included.
    pub(super) fn up_to(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % (bound as u64 + 1)).expect("not above a usize")
    }
}

fn apply(bytes: &mut Vec<u8>, what: &What) {
    match what {
        What::SetLen(len) => bytes.resize(*len, 0),
        What::Write { offset, data } => {
            let end = offset + data.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[*offset..end].copy_from_slice(data);
        }
    }
}

impl FileNode {
    pub(super) fn change(&mut self, what: What) {
        apply(&mut self.now, &what);
        self.changes.push(Change { what, is_forgotten: false });
    }

    pub(super) fn sync(&mut self) {
        let durable = &mut self.durable;
        self.changes.retain(|change| {
            if !change.is_forgotten {
                apply(durable, &change.what);
            }
            change.is_forgotten
        });
    }

    /// The contents after `loss`.
    pub(super) fn left_by(&self, loss: Loss, random: &mut Random) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        match loss {
            Loss::Nothing => bytes.clone_from(&self.now),
            Loss::Unsynced => {}
            Loss::Random(_) => {
                for change in &self.changes {
                    match (random.up_to(3), &change.what) {
                        (0, _) => {}
                        (1, What::Write { offset, data }) => {
                            let data = data[..random.up_to(data.len())].to_vec();
                            apply(&mut bytes, &What::Write { offset: *offset, data });
                        }
                        (_, what) => apply(&mut bytes, what),
                    }
                }
            }
        }
        bytes
    }
}

/// The planned outcome of an operation.
pub(super) enum Step {
    Whole,
    /// Do a part (of a write this number of bytes, of another operation all or nothing), then return the error.
    Broken(Fault, io::Error),
}

impl SimState {
    pub(super) fn alive(&self) -> io::Result<()> {
        if self.is_stopped {
            return Err(io::Error::other("the machine has stopped"));
        }
        Ok(())
    }

    /// Counts a reading operation, and returns its planned failure.
    pub(super) fn read(&mut self) -> io::Result<()> {
        self.alive()?;
        let number = self.reads;
        self.reads += 1;
        if self.failing_reads.iter().any(|failing| failing.contains(&number)) {
            return Err(io::Error::other("I/O error"));
        }
        Ok(())
    }

    /// Counts a modifying operation, and returns its planned failure.
    pub(super) fn step(&mut self) -> io::Result<Step> {
        self.alive()?;
        let number = self.operations;
        self.operations += 1;
        let plan = self.plans.iter().find(|plan| plan.from <= number && number < plan.until);
        Ok(match plan.map(|plan| plan.fault) {
            None => Step::Whole,
            Some(fault @ Fault::Stop) => {
                self.is_stopped = true;
                Step::Broken(fault, io::Error::other("the machine stops here"))
            }
            Some(fault @ Fault::NoSpace) => {
                Step::Broken(fault, io::Error::new(io::ErrorKind::StorageFull, "no space left"))
            }
            Some(fault @ Fault::ReadOnly) => {
                Step::Broken(fault, io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "read-only file system"))
            }
            Some(fault @ Fault::Io) => Step::Broken(fault, io::Error::other("I/O error")),
        })
    }

    /// [`SimState::step`] for all-or-nothing operations: whether to do it, and the result to return in either case.
    pub(super) fn step_whole(&mut self) -> io::Result<(bool, io::Result<()>)> {
        Ok(match self.step()? {
            Step::Whole => (true, Ok(())),
            Step::Broken(Fault::Stop, why) => (self.random.up_to(1) == 1, Err(why)),
            Step::Broken(_, why) => (false, Err(why)),
        })
    }

    pub(super) fn dir(&self, inode: usize) -> io::Result<&DirNode> {
        match &self.nodes[inode] {
            Node::Dir(dir) => Ok(dir),
            Node::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    pub(super) fn file(&mut self, inode: usize) -> io::Result<&mut FileNode> {
        match &mut self.nodes[inode] {
            Node::File(file) => Ok(file),
            Node::Dir(_) => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    pub(super) fn find(&self, path: &Path) -> io::Result<usize> {
        let mut inode = 0;
        for name in names(path)? {
            inode = *self.dir(inode)?.now.get(name).ok_or(io::ErrorKind::NotFound)?;
        }
        Ok(inode)
    }

    /// The directory that holds `path`, and the name in it.
    pub(super) fn parent<'a>(&self, path: &'a Path) -> io::Result<(usize, &'a OsStr)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let dir = self.find(path.parent().unwrap_or(Path::new("")))?;
        self.dir(dir)?;
        Ok((dir, name))
    }

    pub(super) fn set_names(&mut self, change: Move) {
        for (dir, name, inode) in &change {
            if let Node::Dir(dir) = &mut self.nodes[*dir] {
                set(&mut dir.now, name, *inode);
            }
        }
        self.moves.push(change);
    }

    pub(super) fn add(&mut self, dir: usize, name: &OsStr, node: Node) -> usize {
        let inode = self.nodes.len();
        self.nodes.push(node);
        self.set_names(vec![(dir, name.to_owned(), Some(inode))]);
        inode
    }

    /// Makes the moves that touch the directory durable, with those that they depend on.
    pub(super) fn sync_names(&mut self, dir: usize) {
        let mut wanted = BTreeSet::new();
        let mut chosen = vec![false; self.moves.len()];
        for (index, change) in self.moves.iter().enumerate().rev() {
            let touches =
                |(of, name, _): &(usize, OsString, Option<usize>)| *of == dir || wanted.contains(&(*of, name.clone()));
            if change.iter().any(touches) {
                chosen[index] = true;
                wanted.extend(change.iter().map(|(of, name, _)| (*of, name.clone())));
            }
        }
        let moves = std::mem::take(&mut self.moves);
        for (change, is_chosen) in moves.into_iter().zip(chosen) {
            if is_chosen {
                self.make_durable(&change);
            } else {
                self.moves.push(change);
            }
        }
    }

    pub(super) fn make_durable(&mut self, change: &Move) {
        for (dir, name, inode) in change {
            if let Node::Dir(dir) = &mut self.nodes[*dir] {
                set(&mut dir.durable, name, *inode);
            }
        }
    }

    /// The state of the disk after `loss`.
    pub(super) fn left_by(&self, loss: Loss) -> SimState {
        let mut random = Random(match loss {
            Loss::Random(seed) => seed,
            Loss::Nothing | Loss::Unsynced => self.random.0,
        });
        let mut left = SimState { nodes: Vec::new(), moves: Vec::new(), ..SimState::new(random.next()) };
        left.kinds.clone_from(&self.kinds);
        left.mounts.clone_from(&self.mounts);
        left.lower.clone_from(&self.lower);
        for node in &self.nodes {
            left.nodes.push(match node {
                Node::File(file) => {
                    let durable = file.left_by(loss, &mut random);
                    Node::File(FileNode { now: durable.clone(), durable, changes: Vec::new() })
                }
                Node::Dir(dir) => Node::Dir(DirNode { now: Names::new(), durable: dir.durable.clone() }),
            });
        }
        let mut dropped = BTreeSet::new();
        for change in &self.moves {
            let keys = || change.iter().map(|(dir, name, _)| (*dir, name.clone()));
            let is_kept = match loss {
                Loss::Nothing => true,
                Loss::Unsynced => false,
                Loss::Random(_) => random.up_to(1) == 1 && !keys().any(|key| dropped.contains(&key)),
            };
            if is_kept {
                left.make_durable(change);
            } else {
                dropped.extend(keys());
            }
        }
        for node in &mut left.nodes {
            if let Node::Dir(dir) = node {
                dir.now = dir.durable.clone();
            }
        }
        left
    }

    pub(super) fn new(seed: u64) -> SimState {
        SimState {
            nodes: vec![Node::Dir(DirNode::default())],
            moves: Vec::new(),
            operations: 0,
            plans: Vec::new(),
            reads: 0,
            failing_reads: Vec::new(),
            dropped_bytes: 0,
            is_stopped: false,
            stopped_at: None,
            random: Random(seed),
            free_bytes: u64::MAX,
            free_inodes: None,
            kinds: BTreeSet::new(),
            mounts: BTreeSet::new(),
            lower: BTreeSet::new(),
            open: BTreeMap::new(),
        }
    }
}

fn set(names: &mut Names, name: &OsStr, inode: Option<usize>) {
    match inode {
        Some(inode) => names.insert(name.to_owned(), inode),
        None => names.remove(name),
    };
}

/// The names of a path from the root down; a relative path starts at the root too.
pub(super) fn names(path: &Path) -> io::Result<Vec<&OsStr>> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                return Err(io::ErrorKind::InvalidInput.into());
            }
        }
    }
    Ok(names)
}
