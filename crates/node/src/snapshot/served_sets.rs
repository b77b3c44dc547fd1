//! Snapshot files that are served to peers in chunks (BIP 452): those in the directory `share` of the network.
//!
//! The hashes of a file's chunks are made in a thread of its own after the start; until they are there, its set is not
//! served. A file that is not a snapshot of this network is left out, with a note.
//!
//! Source: bitcoin/bitcoin 35054, which serves the files of a directory of this name.

use super::file::SnapshotFile;
use crate::fault::Fault;
use crate::options::Options;
use kernels::sha256::sha256d;
use p2p::utxo_sets::CHUNK_BYTES;
use p2p::{ChunkTree, SetSource};
use primitives::snapshot::VERSION;
use primitives::{BlockHash, Hash256};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

/// Name of the directory.
pub(crate) const SHARE: &str = "share";
/// Files that are served at most; each has a tree in memory.
const FILES_COUNT_MAX: usize = 8;

/// One file.
#[derive(Debug)]
struct ServedFile {
    file: SnapshotFile,
    tree: OnceLock<Arc<ChunkTree>>,
}

/// The files.
#[derive(Debug)]
pub(crate) struct ServedSets(Vec<ServedFile>);

/// Opens the files of the directory `share` in `net_dir`; notes say what is served and what is left out. `None` without
/// a file to serve.
pub(crate) fn open(options: &Options, net_dir: &Path, note: impl Fn(String)) -> Option<Arc<ServedSets>> {
    let dir = net_dir.join(SHARE);
    let entries = options.disk.list(&dir).unwrap_or_default();
    let mut files: Vec<ServedFile> = Vec::new();
    for entry in entries {
        let path = dir.join(&entry.name);
        let opened = SnapshotFile::open(&*options.disk, &path).map_err(|why| Fault::from(why).what());
        let file = opened.and_then(|file| file.metadata_of(&options.params).map(|()| file));
        match file {
            Err(why) => note(format!("[snapshot] {} is not served to peers: {why}", path.display())),
            Ok(_) if files.len() == FILES_COUNT_MAX => {
                note(format!("[snapshot] {} is not served to peers: {FILES_COUNT_MAX} are", path.display()));
            }
            Ok(file) => {
                note(format!(
                    "[snapshot] {} is served to peers that ask for block {}",
                    path.display(),
                    file.header.base
                ));
                files.push(ServedFile { file, tree: OnceLock::new() });
            }
        }
    }
    if files.is_empty() {
        return None;
    }
    let sets = Arc::new(ServedSets(files));
    let work = {
        let sets = Arc::downgrade(&sets);
        let stop = options.stop.clone();
        move || {
            let count = sets.upgrade().map_or(0, |sets| sets.0.len());
            for place in 0..count {
                let Some(sets) = sets.upgrade() else { return };
                let served = &sets.0[place];
                hash(&served.file, &stop).into_iter().for_each(|tree| drop(served.tree.set(Arc::new(tree))));
            }
        }
    };
    let begun = std::thread::Builder::new().name("snapshot.hash".to_owned()).spawn(work);
    if let Err(why) = begun {
        note(format!("[snapshot] no snapshot is served to peers: no thread for its hashes ({why})"));
        return None;
    }
    Some(sets)
}

/// The hashes of a file's chunks; `None` if it cannot be read, or the program stops.
fn hash(file: &SnapshotFile, stop: &AtomicBool) -> Option<ChunkTree> {
    let mut tree = ChunkTree { version: VERSION, bytes: file.bytes(), hashes: Vec::new() };
    let mut chunk = Vec::new();
    let mut offset = 0;
    while offset < file.bytes() {
        if stop.load(Relaxed) {
            return None;
        }
        let left = usize::try_from(file.bytes() - offset).unwrap_or(usize::MAX);
        chunk.resize(left.min(CHUNK_BYTES), 0);
        file.read_at(offset, &mut chunk).then_some(())?;
        tree.hashes.push(Hash256(sha256d(&chunk)));
        offset += chunk.len() as u64;
    }
    Some(tree)
}

impl ServedSets {
    fn of(&self, base: &BlockHash) -> Option<&ServedFile> {
        self.0.iter().find(|served| served.file.header.base == *base)
    }
}

impl SetSource for ServedSets {
    fn bases(&self) -> Vec<BlockHash> {
        self.0.iter().filter(|served| served.tree.get().is_some()).map(|served| served.file.header.base).collect()
    }

    fn tree(&self, base: &BlockHash) -> Option<Arc<ChunkTree>> {
        self.of(base)?.tree.get().cloned()
    }

    fn read(&self, base: &BlockHash, offset: u64, out: &mut [u8]) -> bool {
        self.of(base).is_some_and(|served| served.file.read_at(offset, out))
    }
}
