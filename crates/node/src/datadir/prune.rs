//! Pruning: removes old block and undo files while the chain grows, by Core's rules (`store::prune`).
//!
//! Pruning starts after a durable commit of the coins: first the coins, then the index with its flag
//! `prunedblockfiles`, then the files. After a crash between the last two steps the next start removes the files that
//! the index no longer lists. A commit is made early if it allows files to be removed.
//!
//! Absent on purpose: which file may be removed (`store::prune`); formats.

use super::{DataDir, Mode};
use crate::chain::index::BlockIndex;
use crate::chain::tree::NodeId;
use crate::fault::{Fault, Message};
use crate::options::{Options, Prune};
use crate::reporting::Reporter;
use disk::Disk;
use primitives::Height;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use store::index::LoadedIndex;
use store::prune::{self, Selection, Stayed};
use store::{FileInfo, Layout};

/// If files far exceed the target, as at the start of a reindex, a commit is made early only once it frees this much,
/// or the target if that is less: each commit takes time, and the files are not growing.
const BATCH_BYTES_MAX: u64 = 512 << 20;

/// State of pruning.
#[derive(Debug, Default)]
pub(crate) struct Pruning {
    /// A commit would allow files to be removed.
    due: AtomicBool,
    /// Bytes of blocks connected since the last check.
    unseen_bytes: AtomicU64,
    /// Number and bytes of the files removed in this run.
    files: AtomicU64,
    bytes: AtomicU64,
}

/// Warns of wallets that would need pruned blocks. For jobs that write.
pub(crate) fn check(options: &Options, disk: &dyn Disk, layout: &Layout) -> Result<Vec<Message>, Fault> {
    if !matches!(options.prune, Prune::Target { .. }) {
        return Ok(Vec::new());
    }
    let wallets = layout.net_dir().join("wallets");
    let has_some = disk.metadata(&wallets).map_err(store::Fault::from)?.is_some()
        && !disk.list(&wallets).map_err(store::Fault::from)?.is_empty();
    let old_place = layout.net_dir().join("wallet.dat");
    let place = match disk.metadata(&old_place).map_err(store::Fault::from)? {
        Some(_) => old_place,
        None if has_some => wallets,
        None => return Ok(Vec::new()),
    };
    let why = format!(
        "{}: wallets in a data directory that is pruned: one that was last used before the lowest block that stays cannot be \
         loaded by bitcoind afterwards without fetching the whole chain again",
        place.display()
    );
    Ok(vec![Message::new(why, "Stop now (Ctrl-C) and let bitcoind load them first, if they are older")])
}

/// Removes files that the index lists as pruned but a crash left behind.
pub(crate) fn finish_removal(
    disk: &dyn Disk,
    layout: &Layout,
    loaded: &LoadedIndex,
    reporter: &Reporter<'_>,
) -> Result<(), Fault> {
    remove_files(disk, layout, &prune::already_pruned(loaded), reporter)
}

/// Removes files, including the targets of links; warns of targets that could not be removed.
pub(crate) fn remove_files(
    disk: &dyn Disk,
    layout: &Layout,
    files: &[u32],
    reporter: &Reporter<'_>,
) -> Result<(), Fault> {
    let mut stayed = Vec::new();
    let done = reporter.with_room(|| prune::remove_files(disk, layout, files, &mut stayed));
    for Stayed { path, why } in stayed {
        let what = format!("{}: the link to it was pruned, and the file stays and takes room: {why}", path.display());
        reporter.warn(Message::new(what, "Remove the file, unless it is needed elsewhere"));
    }
    done
}

/// A selection without files that have a block above `height_max`, or at or below `kept_to`, although their infos do not
/// say so: these do not count blocks that were found in a file and are not checked yet.
fn without_needed(
    mut selected: Selection,
    infos: &[FileInfo],
    index: &BlockIndex,
    height_max: Height,
    kept_to: Height,
) -> Selection {
    if selected.files.is_empty() {
        return selected;
    }
    let tree = index.headers();
    let is_needed = |height| height > height_max || (kept_to > Height::GENESIS && height <= kept_to);
    let needed: HashSet<u32> =
        index.places().filter(|&(id, _, _)| is_needed(tree.height(id))).map(|(_, at, _)| at.file).collect();
    for &file in selected.files.iter().filter(|file| needed.contains(file)) {
        let bytes = infos[file as usize].used_bytes();
        selected.bytes -= bytes;
        selected.left_bytes += bytes;
    }
    selected.files.retain(|file| !needed.contains(file));
    selected
}

impl DataDir<'_> {
    /// Whether block files are missing, or may be removed soon, so that not every block can be served.
    pub(crate) fn is_pruning(&self) -> bool {
        self.options.prune != Prune::Off || self.writer.is_pruned() || self.assumed.is_some()
    }

    fn select(&self, infos: &[FileInfo], index: &BlockIndex, tip_height: Height) -> Selection {
        let Prune::Target { bytes } = self.options.prune else { return Selection::default() };
        let kept_to = self.kept_to(index);
        let ask = {
            let tree = index.headers();
            let tip = index.tip();
            let best = tree.best();
            // Without peers the blocks come from files, which Core also treats as initial block download.
            let initial = self.feed.arrivals.is_none() || self.is_initial(tree, tip);
            prune::Prune {
                target_bytes: bytes,
                buffer_bytes: self.options.sizes.prune_buffer_bytes,
                tip_height,
                best_header_height: tree.height(best),
                prune_after_height: self.params.prune_after_height,
                initial_download: initial,
                kept_to,
            }
        };
        let selected = prune::select(infos, &ask);
        without_needed(selected, infos, index, tip_height.saturating_sub(prune::BLOCKS_KEPT_MIN), kept_to)
    }

    /// Blocks up to this height stay, because they validate a snapshot.
    fn kept_to(&self, index: &BlockIndex) -> Height {
        match self.assumed {
            Some(assumed) if assumed.is_on_snapshot() => index.headers().height(assumed.base),
            _ => Height::GENESIS,
        }
    }

    /// Counts a connected block of `bytes`; checks at intervals whether a commit would free space.
    pub(crate) fn look_at_usage(&self, height: Height, bytes: usize) {
        if !matches!(self.options.prune, Prune::Target { .. }) || self.awaits_indexes() {
            return;
        }
        let unseen = self.pruning.unseen_bytes.fetch_add(bytes as u64, Relaxed) + bytes as u64;
        if unseen < self.options.sizes.limits.chunk_bytes {
            return;
        }
        self.pruning.unseen_bytes.store(0, Relaxed);
        let selected = self.writer.select(|infos, index| self.select(infos, index, height));
        let Prune::Target { bytes: target } = self.options.prune else { return };
        let is_worth_it = selected.left_bytes < target || selected.bytes >= target.min(BATCH_BYTES_MAX);
        self.pruning.due.store(!selected.files.is_empty() && is_worth_it, Relaxed);
    }

    /// Whether a commit would allow files to be removed now.
    pub(crate) fn prune_is_due(&self) -> bool {
        self.pruning.due.load(Relaxed)
    }

    /// Whether an index needs blocks of all files, because it has not caught up: it grows with the past of a snapshot.
    fn awaits_indexes(&self) -> bool {
        !self.options.indexes.is_empty() && self.fed_indexes().is_none()
    }

    /// Removes the files that may be removed. The coins as of `tip` are durable.
    pub(crate) fn prune(&self, tip: NodeId) -> Result<(), Fault> {
        self.pruning.due.store(false, Relaxed);
        if !matches!(self.options.prune, Prune::Target { .. }) || self.mode == Mode::ReadOnly {
            return Ok(());
        }
        if self.awaits_indexes() {
            return Ok(());
        }
        let height = self.headers().height(tip);
        let selected = self.writer.prune(|infos, index| self.select(infos, index, height));
        selected.map_or(Ok(()), |selected| self.remove(&selected, height))
    }

    /// Removes files whose blocks are all at or below `height`, except for the last 288 blocks. The coins of the tip
    /// are durable.
    /// Source: Bitcoin Core b88bffe, `BlockManager::FindFilesToPruneManual`.
    pub(crate) fn prune_manually(&self, height: Height) -> Result<(), Fault> {
        if self.awaits_indexes() {
            return Ok(());
        }
        let selected = self.writer.prune(|infos, index| {
            let tree = index.headers();
            let kept_to = self.kept_to(index);
            let height = height.min(tree.height(index.tip()).saturating_sub(prune::BLOCKS_KEPT_MIN));
            without_needed(prune::select_up_to(infos, height, kept_to), infos, index, height, kept_to)
        });
        selected.map_or(Ok(()), |selected| self.remove(&selected, height))
    }

    /// Removes files that the index no longer lists.
    fn remove(&self, selected: &Selection, height: Height) -> Result<(), Fault> {
        self.write_index(None)?;
        // An open file would keep its disk space.
        self.writer.forget_undo(&selected.files);
        self.undo_files.forget_open_files();
        self.files.forget_open_files();
        remove_files(&*self.disk, &self.layout, &selected.files, &self.reporter)?;
        if self.pruning.files.fetch_add(selected.files.len() as u64, Relaxed) == 0 {
            let kept = prune::BLOCKS_KEPT_MIN;
            self.reporter
                .note(format!("Pruning block files whose blocks are all {kept} or more below height {height}"));
        }
        self.pruning.bytes.fetch_add(selected.bytes, Relaxed);
        let mib = |bytes: u64| bytes >> 20;
        self.reporter.log().line(&format!(
            "Pruned {} blk/rev pairs of {} MiB as of height {height}: {} MiB are left",
            selected.files.len(),
            mib(selected.bytes),
            mib(selected.left_bytes)
        ));
        Ok(())
    }

    /// Reports at the end of a job which files were removed, and the consequences for bitcoind.
    pub(crate) fn tell_pruned(&self) {
        let files = self.pruning.files.load(Relaxed);
        if files > 0 {
            let height = self.index.read().prune_height();
            let mib = self.pruning.bytes.load(Relaxed) >> 20;
            self.reporter.note(format!(
                "Pruned {files} pairs of block and undo files ({mib} MiB): blocks below height {height} are removed. \
                 bitcoind must run with -prune on this data directory, and ffwd with --prune; a wallet last used below that \
                 height cannot be loaded there"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::testing::Chains;
    use store::blockfiles::BlockAt;

    /// The infos of a file do not count a block that was found in it and is not checked yet.
    #[test]
    fn a_file_with_a_needed_block_stays_although_its_info_lacks_it() {
        let h = Height::new;
        let mut chains = Chains::new();
        let nodes = chains.grow(None, 10);
        let infos = [6, 7].map(|height| {
            let mut info = FileInfo { size: 1000, ..FileInfo::default() };
            info.add_block(h(height), 0);
            info
        });
        let mut at = |height: usize, file: u32| {
            let place = BlockAt { file, offset: 8 + 100 * height as u64, size: 90 };
            chains.index_mut().found(nodes[height - 1], place);
        };
        at(6, 0);
        at(7, 1);
        at(3, 1);
        let chosen = |index: &BlockIndex, height_max, kept_to| {
            let selected = prune::select_up_to(&infos, h(height_max), h(kept_to));
            let selected = without_needed(selected, &infos, index, h(height_max), h(kept_to));
            assert_eq!(selected.bytes + selected.left_bytes, 2000);
            selected.files
        };
        assert_eq!(chosen(chains.index(), 8, 0), [0, 1], "all of it is old");
        assert_eq!(chosen(chains.index(), 8, 5), [0], "block 3 validates a snapshot at height 5");
        assert_eq!(chosen(chains.index(), 8, 2), [0, 1]);
        assert_eq!(chosen(chains.index(), 6, 0), [0]);
        chains.index_mut().found(nodes[9], BlockAt { file: 0, offset: 5000, size: 90 });
        assert_eq!(chosen(chains.index(), 8, 0), [1], "block 10 is too young");
    }
}
