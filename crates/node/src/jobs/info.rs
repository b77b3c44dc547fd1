//! `info`: what is in a folder, without changing it.

use crate::fault::Fault;
use crate::folder::open;
use crate::options::Options;
use primitives::{Hash256, Height};
use std::fmt;
use store::chainstate::{self, Chainstate};
use store::index::BlockIndex;

/// What is in a folder.
#[derive(Clone, Debug, Default)]
pub struct FolderInfo {
    /// The network, as -chain names it.
    pub chain: &'static str,
    /// Height of the block that the coins stand at.
    pub height: Height,
    /// Its hash.
    pub best: Hash256,
    /// Height of the highest header.
    pub headers: Height,
    /// Bytes of block files in use.
    pub blocks_bytes: u64,
    /// Bytes of undo files in use.
    pub undo_bytes: u64,
    /// Bytes of the coin tables.
    pub chainstate_bytes: u64,
    /// A reindex is unfinished.
    pub reindexing: bool,
    /// Block files were pruned.
    pub pruned: bool,
    /// Blocks that are marked invalid.
    pub failed: Vec<(Height, Hash256)>,
    /// What would be done next.
    pub next_step: String,
}

impl fmt::Display for FolderInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "chain        {}", self.chain)?;
        writeln!(f, "coins at     height {}, block {}", self.height, self.best)?;
        writeln!(f, "headers to   height {}", self.headers)?;
        let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
        writeln!(f, "block files  {:.1} MiB", mib(self.blocks_bytes))?;
        writeln!(f, "undo files   {:.1} MiB", mib(self.undo_bytes))?;
        writeln!(f, "coin tables  {:.1} MiB", mib(self.chainstate_bytes))?;
        if self.pruned {
            writeln!(f, "pruned       yes: bitcoind must run with -prune")?;
        }
        for (height, hash) in &self.failed {
            writeln!(f, "invalid      block {hash} at height {height}")?;
        }
        write!(f, "next         {}", self.next_step)
    }
}

/// Looks into a folder.
pub fn info(options: &Options) -> Result<FolderInfo, Fault> {
    let locked = open::lock(options, false)?;
    let (disk, layout) = (&locked.disk, &locked.layout);
    let mut info =
        FolderInfo { chain: options.params.chain.name(), best: options.params.genesis_hash, ..Default::default() };
    let has_files = !locked.files.numbers()?.there.is_empty();
    if !BlockIndex::exists(&**disk, layout)? {
        info.next_step = if has_files {
            "ffwd reindex: there are block files and no index"
        } else {
            "ffwd sync: the folder is empty"
        }
        .into();
        return Ok(info);
    }
    let loaded = BlockIndex::open_read_only(disk.clone(), layout)?.load(&open::network(&options.params))?;
    info.headers = loaded.entries.iter().map(|entry| entry.height).max().unwrap_or(0);
    info.blocks_bytes = loaded.files.iter().map(|file| u64::from(file.size)).sum();
    info.undo_bytes = loaded.files.iter().map(|file| u64::from(file.undo_size)).sum();
    (info.reindexing, info.pruned) = (loaded.is_reindexing, loaded.is_pruned);
    info.failed = loaded
        .entries
        .iter()
        .filter(|entry| entry.status.is_failed())
        .map(|entry| (entry.height, entry.hash))
        .collect();
    let dir = layout.chainstate_dir();
    let mut half = false;
    if Chainstate::exists(&**disk, &dir)? {
        let coins = Chainstate::open_read_only(disk.clone(), &dir)?;
        info.chainstate_bytes = coins.view().table_bytes();
        half = coins.head_blocks()?.is_some();
        if let Some(best) = coins.best_block()? {
            info.best = best;
            info.height = loaded.entries.iter().find(|entry| entry.hash == best).map_or(0, |entry| entry.height);
        }
    }
    let snapshot = chainstate::check_no_snapshot(&**disk, layout).is_err();
    info.next_step = match () {
        () if info.reindexing => "ffwd reindex: it was stopped half-way and goes on where it was".into(),
        () if snapshot => "bitcoind: a chainstate from a snapshot waits for its validation".into(),
        () if half => "ffwd sync: bitcoind was stopped while it wrote coins; they are replayed first".into(),
        () => format!("ffwd sync: from height {} on, or bitcoind", info.height),
    };
    Ok(info)
}
