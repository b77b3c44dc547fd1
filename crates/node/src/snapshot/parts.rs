//! A UTXO set in parts that threads read in parallel, for programs that convert it to something other than a snapshot.
//!
//! The set is that of a block (of the chainstate, or rolled back from it), or that of a snapshot file. Coins come in
//! the order of the bytes of their txids, and those of one transaction by output index; tables and snapshots order the
//! latter by VARINT bytes instead.
//!
//! A chainstate is read by any number of threads. A file is parsed by one thread at a time, part after part: only the
//! callers' work on its coins runs in parallel.

use super::dump::{self, DumpTarget, Set, Source};
use super::file::{CoinsReader, PIECE_BYTES, SnapshotFile, network_of};
use super::look;
use super::unfinished::with_end;
use crate::fault::Fault;
use crate::options::Options;
use crate::reporting::Events;
use crate::threads::locks::{lock, wait};
use crate::utxo_stats::setinfo::decode;
use consensus::Chain;
use primitives::snapshot::HEADER_BYTES;
use primitives::{BlockHash, CoinKey, CoinRef, Height, OutPoint, Txid};
use std::ops::Range;
use std::path::Path;
use std::sync::{Condvar, Mutex};

/// Output indexes below this are one VARINT byte: their byte order is the numeric order.
const IN_ORDER: u32 = 128;

/// Maximum bytes of coins of one transaction that wait to be sorted: more than the outputs of a block of 4,000,000
/// weight units.
const GROUP_BYTES_MAX: usize = 4_000_000;

/// Text before the reason if a file is incomplete.
const FAILED: &str = "";

/// The set to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CoinsOf<'a> {
    /// The set of a block on the data directory's chain.
    Block(DumpTarget),
    /// The set of a snapshot file.
    File {
        /// The file.
        path: &'a Path,
        /// The required network; `None`: the one in its header.
        chain: Option<Chain>,
    },
}

/// A set, open for reading.
pub struct CoinParts<'f> {
    /// The block of the set.
    pub base: BlockHash,
    /// Its height; `None` if only the file names the block.
    pub height: Option<Height>,
    /// The network.
    pub chain: Chain,
    coins: Coins<'f>,
    count: usize,
}

enum Coins<'f> {
    Tables { source: Source, shares_per_part: usize },
    File { path: &'f Path, state: Mutex<FileState<'f>>, changed: Condvar, pieces_per_part: usize },
}

/// Opens a set, divided into parts of about `part_bytes` of tables or file, and passes it to `work`. If the set must be
/// rolled back, the changes are in temporary files whose names begin with `beside`: the file to be made, which the
/// caller has claimed.
///
/// # Errors
///
/// There is no such block or file, its set can no longer be built, the file is of another network; damage, an I/O
/// error, or errors of `work`.
pub fn coins_in_parts<R>(
    options: &Options,
    of: CoinsOf<'_>,
    beside: &Path,
    part_bytes: u64,
    events: Events<'_>,
    work: impl FnOnce(&CoinParts<'_>) -> Result<R, Fault>,
) -> Result<R, Fault> {
    match of {
        CoinsOf::Block(target) => {
            let (locked, reporter, loaded) = dump::begin(options, events)?;
            let (set, chain) = Set::find(&locked, &loaded, target)?;
            let base = chain[set.target.to_usize()];
            let rolled_back = set.roll_back(&locked, options, &chain, &with_end(beside, ".rollback"), &reporter)?;
            let source = Source { view: set.view, rolled_back, stop: options.stop.clone() };
            let shares = source.shares().count();
            let share_bytes = (source.view.table_bytes() / shares as u64).max(1);
            let shares_per_part = usize::try_from(part_bytes / share_bytes).unwrap_or(usize::MAX).clamp(1, shares);
            let count = shares.div_ceil(shares_per_part);
            let coins = Coins::Tables { source, shares_per_part };
            let chain = options.params.chain;
            work(&CoinParts { base: base.hash, height: Some(base.height), chain, coins, count })
        }
        CoinsOf::File { path, chain } => {
            let file = SnapshotFile::open(&*options.disk, path)?;
            let named = if chain.is_none() { network_of(file.header.network) } else { None };
            if named.is_none() {
                file.check_network(&options.params)?;
            }
            let (height_max, known) = look::height_max(&file);
            let pieces = (file.bytes().saturating_sub(HEADER_BYTES as u64)).div_ceil(PIECE_BYTES as u64).max(1);
            let pieces_per_part = part_bytes.div_ceil(PIECE_BYTES as u64).max(1);
            let count = usize::try_from(pieces.div_ceil(pieces_per_part)).unwrap_or(usize::MAX);
            let reader = file.coins(height_max, FAILED);
            let state = FileState { reader, next: 0, has_ended: false, last: None, waiting: ByNumber::default() };
            let pieces_per_part = pieces_per_part as usize;
            let coins = Coins::File { path, state: Mutex::new(state), changed: Condvar::new(), pieces_per_part };
            let base = file.header.base;
            let height = known.map(|known| known.height);
            work(&CoinParts { base, height, chain: named.unwrap_or(options.params.chain), coins, count })
        }
    }
}

impl CoinParts<'_> {
    /// Number of parts.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Passes each coin of a part to `each`, in order. Every part must be requested once, lower ones first.
    ///
    /// # Errors
    ///
    /// Damage, an I/O error, or errors of `each`.
    pub fn coins(
        &self,
        part: usize,
        mut each: impl FnMut(&OutPoint, &CoinRef<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        match &self.coins {
            Coins::Tables { source, shares_per_part } => {
                let first = part * shares_per_part;
                let mut decoded =
                    |outpoint: &OutPoint, stored: &[u8]| each(outpoint, &decode(&source.view, outpoint, stored)?);
                for share in first..(first + shares_per_part).min(source.shares().count()) {
                    let mut waiting = ByNumber::default();
                    source.coins(share, |outpoint, stored| waiting.push(outpoint, stored, &mut decoded))?;
                    waiting.close(&mut decoded)?;
                }
                Ok(())
            }
            Coins::File { path, state, changed, pieces_per_part } => {
                let read = {
                    let mut state = lock(state);
                    while state.next != part {
                        state = wait(changed, state);
                    }
                    // Even after an error: the next part must not wait indefinitely.
                    state.next += 1;
                    changed.notify_all();
                    state.read(path, *pieces_per_part, part + 1 == self.count)?
                };
                let internal = |why| Fault::internal(format!("a coin that was read before cannot be read: {why}"));
                let mut start = 0;
                for (outpoint, end) in &read.coins {
                    each(outpoint, &CoinRef::decode(&read.bytes[start..*end]).map_err(internal)?)?;
                    start = *end;
                }
                Ok(())
            }
        }
    }
}

/// The coins of a part of a file.
#[derive(Default)]
struct Read {
    /// Each coin, and the end of its bytes in `bytes`.
    coins: Vec<(OutPoint, usize)>,
    bytes: Vec<u8>,
}

/// Progress of reading a file.
struct FileState<'f> {
    reader: CoinsReader<'f>,
    /// The next part to read.
    next: usize,
    /// Whether the end of the file was read, or a fault ended it.
    has_ended: bool,
    last: Option<CoinKey>,
    /// Coins of a transaction of which more may follow.
    waiting: ByNumber,
}

impl FileState<'_> {
    fn read(&mut self, path: &Path, pieces: usize, is_last: bool) -> Result<Read, Fault> {
        let FileState { reader, last, waiting, .. } = self;
        let mut read = Read::default();
        let mut keep = |outpoint: &OutPoint, stored: &[u8]| {
            read.bytes.extend_from_slice(stored);
            read.coins.push((*outpoint, read.bytes.len()));
            Ok(())
        };
        let mut stored = Vec::new();
        let mut left = pieces;
        while !self.has_ended && (left > 0 || is_last) {
            left = left.saturating_sub(1);
            let before = reader.count();
            let start = reader.offset();
            let mut count = 0;
            let goes_on = reader.piece(|coin| {
                look::in_order(last, &coin.outpoint, before + count, start, path)?;
                count += 1;
                stored.clear();
                coin.stored_into(&mut stored);
                waiting.push(&coin.outpoint, &stored, &mut keep)
            });
            // After a fault nothing more is read.
            self.has_ended = !matches!(goes_on, Ok(true));
            goes_on?;
        }
        if is_last {
            waiting.close(&mut keep)?;
        }
        Ok(read)
    }
}

/// Sorts the coins of each transaction by output index.
#[derive(Default)]
struct ByNumber {
    txid: Option<Txid>,
    /// Coins that wait for the last one of their transaction: output index, and their bytes in `bytes`.
    group: Vec<(u32, Range<usize>)>,
    bytes: Vec<u8>,
}

impl ByNumber {
    /// Adds a coin; coins must come in the order of their keys.
    fn push(
        &mut self,
        outpoint: &OutPoint,
        stored: &[u8],
        each: &mut impl FnMut(&OutPoint, &[u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        if !self.group.is_empty() && self.txid != Some(outpoint.txid) {
            self.close(each)?;
        }
        if outpoint.vout < IN_ORDER && self.group.is_empty() {
            // In order already: greater output indexes have greater keys.
            return each(outpoint, stored);
        }
        self.txid = Some(outpoint.txid);
        let start = self.bytes.len();
        if start + stored.len() > GROUP_BYTES_MAX {
            let why = format!("the coins of transaction {} have more bytes than fit in a block", outpoint.txid);
            return Err(Fault::refused(
                why,
                "Copy the snapshot again, or rebuild the coins: ffwd reindex --chainstate-only",
            ));
        }
        self.bytes.extend_from_slice(stored);
        self.group.push((outpoint.vout, start..self.bytes.len()));
        Ok(())
    }

    /// Passes on the coins of the last transaction.
    fn close(&mut self, each: &mut impl FnMut(&OutPoint, &[u8]) -> Result<(), Fault>) -> Result<(), Fault> {
        self.group.sort_by_key(|(vout, _)| *vout);
        if let Some(txid) = self.txid.take() {
            for (vout, range) in &self.group {
                each(&OutPoint { txid, vout: *vout }, &self.bytes[range.clone()])?;
            }
        }
        self.group.clear();
        self.bytes.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the definition: a list sorted by txid and number.
    #[test]
    fn coins_of_a_transaction_come_by_their_numbers() {
        let mut rng = testkit::Rng::new(8);
        for _ in 0..50 {
            let mut coins: Vec<(OutPoint, Vec<u8>)> = (0..rng.below(60))
                .map(|n| {
                    let vout = [0, 1, 127, 128, 255, 256, 16_511, 16_512, 20_000][rng.below(9)];
                    (
                        OutPoint { txid: Txid::from_bytes([rng.below(4) as u8; 32]), vout },
                        vec![n as u8; 1 + rng.below(5)],
                    )
                })
                .collect();
            coins.sort_by_key(|(outpoint, _)| (outpoint.txid, outpoint.vout));
            coins.dedup_by_key(|(outpoint, _)| *outpoint);
            let want = coins.clone();
            coins.sort_by_key(|(outpoint, _)| CoinKey::new(outpoint));
            let (mut by_number, mut got) = (ByNumber::default(), Vec::new());
            let mut each = |outpoint: &OutPoint, stored: &[u8]| {
                got.push((*outpoint, stored.to_vec()));
                Ok(())
            };
            for (outpoint, stored) in &coins {
                by_number.push(outpoint, stored, &mut each).unwrap();
            }
            by_number.close(&mut each).unwrap();
            assert!(got == want, "{coins:?}");
        }
    }

    #[test]
    fn coins_that_no_transaction_can_have_are_refused() {
        let mut by_number = ByNumber::default();
        let outpoint = |vout| OutPoint { txid: Txid::from_bytes([1; 32]), vout };
        let script = vec![0x51; 10_000];
        let all = (0..GROUP_BYTES_MAX / script.len() + 200).map(|n| n as u32 + IN_ORDER);
        let why = all.map(|vout| by_number.push(&outpoint(vout), &script, &mut |_, _| Ok(()))).find_map(Result::err);
        assert!(why.unwrap().to_string().contains("more bytes than fit in a block"));
    }
}
