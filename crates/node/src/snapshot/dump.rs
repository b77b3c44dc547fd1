//! `coins dump`: the file that Core's dumptxoutset writes, of the UTXO set at the tip or at an earlier block.
//!
//! The data directory is only read. For an earlier block, temporary files with the changes are next to the file while
//! it is written; if it goes to a pipe, they are in `ffwd/`. The file gets its name only when it is complete and
//! durable. Source: Bitcoin Core b88bffe, rpc/blockchain.cpp, `dumptxoutset`.

use crate::chain::tree::NodeId;
use crate::datadir::lock::{self, Locked};
use crate::datadir::look::{self, Hold};
use crate::fault::Fault;
use crate::handle::Live;
use crate::options::Options;
use crate::reporting::Events;
use crate::reporting::Reporter;
use crate::snapshot::rollback::{Rollback, RolledBack};
use crate::snapshot::unfinished::{Claim, new_file, with_end};
use crate::threads;
use crate::threads::shares::{Shares, in_order};
use crate::utxo_stats::hashed::{self, HashedCoins};
use crate::utxo_stats::setinfo::decode;
use disk::{Appender, Disk, DiskFile};
use kernels::sha256::Sha256;
use primitives::snapshot::{GroupWriter, HEADER_BYTES, SnapshotHeader};
use primitives::{BlockHash, Hash256, Height, OutPoint};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use store::chainstate::{self, Chainstate, CoinsView};
use store::index::{BlockTreeDb, IndexEntry, LoadedIndex};
use store::undofiles::UndoFiles;

/// Bytes per read when the file is hashed.
const PIECE_BYTES: usize = 1 << 20;

/// Time between two checks whether a pipe has a reader.
const READER_PAUSE: Duration = Duration::from_millis(20);

/// Advice if blocks that are to be rolled back are pruned.
const PRUNED_ADVICE: &str = "Name a block above the pruned range, or use a data directory that has all blocks";

fn not_written(why: std::io::Error) -> Fault {
    Fault::system(
        format!("the snapshot cannot be written: {why}"),
        "Write it to a drive with enough space, or to a reader that reads all of it",
        why,
    )
}

/// The block whose set is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DumpTarget {
    /// The set's current block.
    Tip,
    /// The block of its chain at this height.
    Height(Height),
    /// This block of its chain.
    Hash(BlockHash),
}

/// Destination of the file.
pub enum DumpOut<'w> {
    /// A new file with this name.
    File(PathBuf),
    /// A pipe, through this writer.
    Stream(&'w mut (dyn Write + Send)),
}

/// A destination that is ready to be written.
enum Place<'w> {
    File(Claim),
    Stream(&'w mut (dyn Write + Send)),
}

/// Result of a dump; names are dumptxoutset's.
#[derive(Clone, Debug)]
pub struct DumpReport {
    /// Coins in the file.
    pub coins_written: u64,
    /// Hash of the block.
    pub base_hash: BlockHash,
    /// Its height.
    pub base_height: Height,
    /// The file, absolute; absent for a pipe.
    pub path: Option<PathBuf>,
    /// `hash_serialized_3` of the set.
    pub txoutset_hash: Hash256,
    /// Number of transactions up to and including the block.
    pub nchaintx: u64,
    /// SHA-256 of the file.
    pub sha256: [u8; 32],
    /// Its length.
    pub bytes: u64,
    /// Seconds.
    pub seconds: f64,
}

/// Opens a data directory for reading, with other programs locked out if possible, and reads its block index.
///
/// # Errors
///
/// It has no coins, is in use, or is damaged; an I/O error.
pub(super) fn begin<'e>(
    options: &'e Options,
    events: Events<'e>,
) -> Result<(Locked, Reporter<'e>, LoadedIndex), Fault> {
    let no_coins = || crate::offline::no_coins(&lock::layout(options).chainstate_dir());
    if lock::is_unused(options)? {
        return Err(no_coins());
    }
    let locked = look::open(options, Hold::IfPossible)?;
    let reporter = Reporter::new(events, crate::reporting::log::Log::none(), &options.stop);
    if !BlockTreeDb::exists(&*locked.disk, &locked.layout)? {
        return Err(no_coins());
    }
    let loaded = BlockTreeDb::open_read_only(&locked.host, &locked.layout)?.load(&lock::network(&options.params))?;
    Ok((locked, reporter, loaded))
}

/// Writes the UTXO set of a block as a snapshot.
///
/// # Errors
///
/// There is no such block, its set can no longer be built, the file exists or cannot be written, damage, or an I/O
/// error.
pub fn dump(options: &Options, target: DumpTarget, out: DumpOut<'_>, events: Events<'_>) -> Result<DumpReport, Fault> {
    let out = match out {
        DumpOut::File(path) => DumpOut::File(new_file(&*options.disk, &path)?),
        stream => stream,
    };
    let (locked, reporter, loaded) = begin(options, events)?;
    let (set, chain) = Set::find(&locked, &loaded, target)?;
    let base = chain[set.target.to_usize()];
    // Held until the temporary files of the rollback, which are beside the file, are removed.
    let mut place = match out {
        DumpOut::File(path) => Place::File(Claim::take(&locked.disk, &path)?),
        DumpOut::Stream(out) => Place::Stream(out),
    };
    let stem = match &place {
        Place::File(claim) => with_end(claim.path(), ".rollback"),
        Place::Stream(_) => {
            let dir = locked.layout.private_dir();
            if set.target != set.tip {
                // bitcoind does not make it. Nothing in it is to outlast the dump, so its name need not be durable.
                locked.disk.create_dir_all(&dir).map_err(store::Fault::from)?;
            }
            dir.join("rollback")
        }
    };
    let rolled_back = set.roll_back(&locked, options, &chain, &stem, &reporter)?;
    let source = Source { view: set.view, rolled_back, stop: options.stop.clone() };
    let header = SnapshotHeader { network: options.params.magic, base: base.hash, coins: 0 };
    let written = match &mut place {
        Place::File(claim) => source.write_file(claim, header, options.par)?,
        Place::Stream(out) => source.write_stream(&mut **out, header, options.par)?,
    };
    Ok(DumpReport {
        coins_written: written.coins,
        base_hash: base.hash,
        base_height: base.height,
        path: written.path,
        txoutset_hash: written.hash,
        nchaintx: transactions(options, &chain, base.height),
        sha256: written.sha256,
        bytes: written.bytes,
        seconds: reporter.seconds(),
    })
}

/// Like [`dump`], within a running job. `target` is `tip` or an ancestor of it; `view` has the coins of `tip`, and
/// `nchaintx` is the number of transactions up to the target.
///
/// # Errors
///
/// Those of [`dump`].
pub fn dump_live(
    live: &Live,
    view: CoinsView,
    tip: NodeId,
    target: NodeId,
    nchaintx: u64,
    path: &Path,
) -> Result<DumpReport, Fault> {
    let options = &live.options;
    let begun = std::time::Instant::now();
    let disk = &options.disk;
    // A pipe receives the bytes as they are produced.
    let is_pipe = disk.is_pipe(path).map_err(store::Fault::from)?;
    // Held until the temporary files of the rollback, which are beside the file, are removed.
    let claim = if is_pipe { None } else { Some(Claim::take(disk, &new_file(&**disk, path)?)?) };
    let stem = with_end(claim.as_ref().map_or(path, Claim::path), ".rollback");
    let rolled_back = roll_back_live(live, &view, tip, target, &stem)?;
    let base = live.index.read().entry(target);
    let header = SnapshotHeader { network: options.params.magic, base: base.hash, coins: 0 };
    let source = Source { view, rolled_back, stop: options.stop.clone() };
    let written = match &claim {
        Some(claim) => source.write_file(claim, header, options.par)?,
        None => {
            let mut out = reader_of(disk, path, &options.stop)?;
            source.write_stream(&mut *out, header, options.par)?
        }
    };
    Ok(DumpReport {
        coins_written: written.coins,
        base_hash: base.hash,
        base_height: base.height,
        path: written.path,
        txoutset_hash: written.hash,
        nchaintx,
        sha256: written.sha256,
        bytes: written.bytes,
        seconds: begun.elapsed().as_secs_f64(),
    })
}

/// Reads the blocks above `target` up to `tip`, the highest first; `None` if there are none.
fn roll_back_live(
    live: &Live,
    view: &CoinsView,
    tip: NodeId,
    target: NodeId,
    stem: &Path,
) -> Result<Option<RolledBack>, Fault> {
    let options = &live.options;
    let above: Vec<(NodeId, IndexEntry)> = {
        let index = live.index.read();
        index.headers().path(target, tip).into_iter().map(|id| (id, index.entry(id))).collect()
    };
    if above.is_empty() {
        return Ok(None);
    }
    let shares = Shares::of(view.table_bytes());
    let mut rollback = Rollback::new(options.host(), stem, shares, options.dbcache_bytes / 8);
    for (id, entry) in above.iter().rev() {
        check_stop(&options.stop)?;
        let (Some(bytes), Some(undo)) = (live.block(*id)?, live.undo(*id)?) else {
            let why = "Could not roll back to requested height since necessary block data is already pruned.";
            return Err(Fault::refused(why, PRUNED_ADVICE));
        };
        rollback.disconnect(entry, &bytes, &undo)?;
    }
    rollback.finish().map(Some)
}

/// Ends a dump if the program is to end.
fn check_stop(stop: &AtomicBool) -> Result<(), Fault> {
    if stop.load(Relaxed) { Err(Fault::Stopped) } else { Ok(()) }
}

/// Opens a named pipe; waits until it has a reader.
fn reader_of(disk: &Arc<dyn Disk>, path: &Path, stop: &AtomicBool) -> Result<Box<dyn Write + Send>, Fault> {
    loop {
        let opened = disk.open_pipe_to_write(path).map_err(|why| {
            let text = format!("Couldn't open file {} for writing. ({})", path.display(), why.source);
            Fault::refused(text, "Name a pipe that this user may write to")
        })?;
        match opened {
            Some(out) => return Ok(out),
            None if stop.load(Relaxed) => return Err(Fault::Stopped),
            None => std::thread::sleep(READER_PAUSE),
        }
    }
}

/// Number of transactions of the chain up to a height. Up to a base block that Core knows, its constant is used: below a
/// snapshot that is not validated, blocks are not counted yet.
fn transactions(options: &Options, chain: &[&IndexEntry], height: Height) -> u64 {
    let up_to = &chain[..=height.to_usize()];
    let known = options.params.assumeutxo.iter().rev().find(|known| {
        let at = up_to.get(known.height.to_usize());
        at.is_some_and(|entry| entry.hash == known.block_hash)
    });
    let from = known.map_or(0, |known| known.height.to_usize() + 1);
    let sum = |entries: &[&IndexEntry]| entries.iter().map(|entry| u64::from(entry.tx_count)).sum::<u64>();
    known.map_or(0, |known| known.chain_tx_count) + sum(&up_to[from..])
}

/// The set to dump or to roll back.
pub(super) struct Set {
    pub(super) view: CoinsView,
    tip: Height,
    pub(super) target: Height,
}

impl Set {
    /// Opens the chainstate that has the requested block, and its chain by height. If there are two, because a snapshot
    /// is not validated, the one from the snapshot is used when it has the block.
    ///
    /// # Errors
    ///
    /// There is no such block on the chain; damage; an I/O error.
    pub(super) fn find<'i>(
        locked: &Locked,
        loaded: &'i LoadedIndex,
        target: DumpTarget,
    ) -> Result<(Set, Vec<&'i IndexEntry>), Fault> {
        let Locked { disk, layout, .. } = locked;
        let base = chainstate::snapshot_base(&**disk, layout)?;
        let active = if base.is_some() { layout.snapshot_dir() } else { layout.chainstate_dir() };
        let (view, chain) = opened(locked, loaded, &active)?;
        let tip = chain.last().expect("genesis is always there").height;
        let height = match target {
            DumpTarget::Tip => tip,
            DumpTarget::Height(height) if height > tip => {
                let why = format!("Target block height {height} after current tip {tip}");
                return Err(Fault::refused(why, "Name a height up to the tip's"));
            }
            DumpTarget::Height(height) => height,
            DumpTarget::Hash(hash) => match loaded.entries.iter().find(|entry| entry.hash == hash) {
                None => {
                    return Err(Fault::refused(
                        format!("Block not found: {hash}"),
                        "Name a block of this chain; ffwd sync fetches newer ones",
                    ));
                }
                Some(entry) if chain.get(entry.height.to_usize()).is_none_or(|on| on.hash != hash) => {
                    return Err(Fault::refused(
                        format!("Block is not in main chain: {hash}"),
                        "Name a block of the main chain",
                    ));
                }
                Some(entry) => entry.height,
            },
        };
        let base = base.and_then(|base| chain.iter().find(|entry| entry.hash == base));
        if base.is_none_or(|base| height >= base.height) {
            return Ok((Set { view, tip, target: height }, chain));
        }
        let wanted = chain[height.to_usize()].hash;
        let (view, chain) = opened(locked, loaded, &layout.chainstate_dir())?;
        match chain.get(height.to_usize()) {
            Some(entry) if entry.hash == wanted => {
                let tip = chain.last().expect("genesis is always there").height;
                Ok((Set { view, tip, target: height }, chain))
            }
            _ => {
                let why = format!(
                    "block {wanted} at height {height} is below the base of a snapshot, and is not validated yet"
                );
                Err(Fault::refused(why, "Run ffwd sync first"))
            }
        }
    }

    /// Reads the blocks above the target, the highest first.
    ///
    /// # Errors
    ///
    /// Blocks or undo data that are missing or damaged; no space for the changes.
    pub(super) fn roll_back(
        &self,
        locked: &Locked,
        options: &Options,
        chain: &[&IndexEntry],
        stem: &Path,
        reporter: &Reporter<'_>,
    ) -> Result<Option<RolledBack>, Fault> {
        if self.target == self.tip {
            return Ok(None);
        }
        let from = self.tip;
        let to = self.target;
        reporter.note(format!("Rolling back from height {from} to {to}, outside the data directory"));
        let network = lock::network(&options.params);
        let undo_files = UndoFiles::new(&locked.host, locked.layout.blocks_dir(), &network, locked.key);
        let shares = Shares::of(self.view.table_bytes());
        let mut rollback = Rollback::new(locked.host.clone(), stem, shares, options.dbcache_bytes);
        for entry in chain[to.to_usize() + 1..=from.to_usize()].iter().rev() {
            check_stop(&options.stop)?;
            let (Some(data), Some(undo)) = (entry.data(), entry.undo()) else {
                let why = format!(
                    "Could not roll back to requested height since necessary block data is already pruned. (block {} at height \
                     {} has no block or undo data)",
                    entry.hash, entry.height
                );
                return Err(Fault::refused(why, PRUNED_ADVICE));
            };
            let bytes = locked.files.read_block(data)?;
            let undo = undo_files.read(undo, &entry.header.prev())?;
            rollback.disconnect(entry, &bytes, &undo)?;
        }
        rollback.finish().map(Some)
    }
}

/// The coins of a chainstate, and the chain up to their best block.
///
/// # Errors
///
/// The chainstate is missing, or does not match the index; an I/O error.
pub(super) fn opened<'i>(
    locked: &Locked,
    loaded: &'i LoadedIndex,
    dir: &Path,
) -> Result<(CoinsView, Vec<&'i IndexEntry>), Fault> {
    if !Chainstate::exists(&*locked.disk, dir)? {
        return Err(crate::offline::no_coins(dir));
    }
    let coins = Chainstate::open_read_only(&locked.host, dir)?;
    let best = crate::offline::complete_best(&coins, dir)?;
    let mut wanted = best.unwrap_or_else(|| loaded.entries.first().map_or(BlockHash::ZERO, |genesis| genesis.hash));
    let mut chain = Vec::new();
    // Parents are before their children.
    for entry in loaded.entries.iter().rev() {
        if entry.hash == wanted {
            chain.push(entry);
            wanted = entry.header.prev();
        }
    }
    chain.reverse();
    if chain.first().is_none_or(|first| first.height != Height::GENESIS) {
        return Err(crate::offline::apart(best.unwrap_or_default()));
    }
    Ok((coins.view(), chain))
}

/// Coins of one share, encoded for the file and for the hash.
#[derive(Default)]
struct Piece {
    coins: u64,
    body: Vec<u8>,
    hashed: Vec<u8>,
}

/// Figures of the written file.
struct Written {
    coins: u64,
    hash: Hash256,
    sha256: [u8; 32],
    bytes: u64,
    path: Option<PathBuf>,
}

/// Source of the coins.
pub(super) struct Source {
    pub(super) view: CoinsView,
    pub(super) rolled_back: Option<RolledBack>,
    /// Whether the program is to end: looked at before each share.
    pub(super) stop: Arc<AtomicBool>,
}

impl Source {
    /// The shares of the set.
    pub(super) fn shares(&self) -> Shares {
        Shares::of(self.view.table_bytes())
    }

    /// Passes each coin of a share to `each`, in the order of their keys.
    ///
    /// # Errors
    ///
    /// Damaged tables; an I/O error; errors of `each`; the program is to end.
    pub(super) fn coins(
        &self,
        share: usize,
        mut each: impl FnMut(&OutPoint, &[u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        check_stop(&self.stop)?;
        if let Some(rolled_back) = &self.rolled_back {
            return rolled_back.coins(&self.view, share, each);
        }
        let range = self.shares().range(share);
        let mut coins = self.view.coins_between(*range.start(), *range.end())?;
        while let Some((outpoint, stored)) = coins.next_coin()? {
            each(&outpoint, stored)?;
        }
        Ok(())
    }

    fn piece(&self, share: usize) -> Result<Piece, Fault> {
        let mut groups = GroupWriter::default();
        let mut hashed = HashedCoins::default();
        let mut piece = Piece::default();
        self.coins(share, |outpoint, stored| {
            hashed.push(outpoint, &decode(&self.view, outpoint, stored)?);
            groups.push(outpoint, stored);
            piece.coins += 1;
            Ok(())
        })?;
        Ok(Piece { body: groups.take(), hashed: hashed.take(), ..piece })
    }

    /// Passes the bytes after the header to `put`; returns the number of coins, and their hash.
    fn write_body(&self, par: usize, mut put: impl FnMut(&[u8]) -> Result<(), Fault>) -> Result<(u64, Hash256), Fault> {
        let mut coins = 0;
        let mut sha = Sha256::new();
        in_order(
            par,
            self.shares().count(),
            |share| self.piece(share),
            |piece| {
                coins += piece.coins;
                sha.update(&piece.hashed);
                put(&piece.body)
            },
        )?;
        Ok((coins, hashed::finish(sha)))
    }

    /// The count is at the beginning but known last. It is filled in at the end, and then the file is read once more
    /// for its hash, which costs less than counting the coins of all tables first.
    fn write_file(&self, claim: &Claim, header: SnapshotHeader, par: usize) -> Result<Written, Fault> {
        let unfinished = claim.create()?;
        let mut out = Appender::new(unfinished.file.clone(), HEADER_BYTES as u64);
        let (coins, hash) = self.write_body(par, |body| Ok(out.write_all(body).map_err(store::Fault::from)?))?;
        let bytes = out.offset();
        unfinished.file.write_at(0, &SnapshotHeader { coins, ..header }.encode()).map_err(store::Fault::from)?;
        let sha256 = std::thread::scope(|scope| {
            let syncing = threads::spawn(scope, "sync", || unfinished.file.sync().map_err(store::Fault::from))?;
            let sha256 = self.hash_file(&*unfinished.file, bytes);
            syncing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            sha256
        })?;
        unfinished.finish()?;
        Ok(Written { coins, hash, sha256, bytes, path: Some(claim.path().to_path_buf()) })
    }

    fn hash_file(&self, file: &dyn DiskFile, bytes: u64) -> Result<[u8; 32], Fault> {
        let mut sha = Sha256::new();
        let mut buffer = vec![0; PIECE_BYTES];
        let mut at = 0;
        while at < bytes {
            check_stop(&self.stop)?;
            let count = usize::try_from(bytes - at).unwrap_or(usize::MAX).min(PIECE_BYTES);
            file.read_exact_at(at, &mut buffer[..count]).map_err(store::Fault::from)?;
            sha.update(&buffer[..count]);
            at += count as u64;
        }
        Ok(sha.finalize())
    }

    fn write_stream(&self, out: &mut dyn Write, header: SnapshotHeader, par: usize) -> Result<Written, Fault> {
        let mut coins = 0;
        let shares = self.shares();
        let count = |share| {
            let mut count = 0_u64;
            self.coins(share, |_, _| {
                count += 1;
                Ok(())
            })?;
            Ok(count)
        };
        in_order(par, shares.count(), count, |count| {
            coins += count;
            Ok(())
        })?;
        let mut sha = Sha256::new();
        let mut bytes = 0;
        let mut put = |piece: &[u8]| {
            sha.update(piece);
            bytes += piece.len() as u64;
            out.write_all(piece).map_err(not_written)
        };
        put(&SnapshotHeader { coins, ..header }.encode())?;
        let (_, hash) = self.write_body(par, &mut put)?;
        out.flush().map_err(not_written)?;
        Ok(Written { coins, hash, sha256: sha.finalize(), bytes, path: None })
    }
}
