//! Builds the UTXO set of a block with hints: blocks in any order, each once. No coin is looked up, and no spent one is
//! stored.
//!
//! Outputs that are unspent by the hints are kept until they are some MiB, then written as one sorted run. All other
//! outputs, and all inputs, go into two sums that must agree at the end ([`super::sums`]). Locks: `turn` is held while
//! a run is written, even while the disk is full, and a thread waits for it only to write the next run; `state` is
//! taken after it, briefly.

use super::checkpoint::Checkpoint;
use super::counted_outputs;
use super::file::HintsFile;
use super::sums::{SALT_BYTES, Salt, Sums};
use super::survivors::{Piece, Survivors};
use crate::chain::tree::NodeId;
use crate::fault::Fault;
use crate::reporting::Reporter;
use crate::threads::locks::lock;
use primitives::{Block, BlockHash, Height, Txid, human};
use std::sync::Mutex;
use store::Host;
use store::Layout;
use store::chainstate::{self, Chainstate, Rebuilt};
use store::private_files::PrivateDir;

/// Progress of a set that is built with hints.
pub(crate) trait HintedBlocks {
    /// The lowest missing blocks, at most `limit`.
    fn missing(&self, limit: usize) -> Vec<NodeId>;

    /// Whether all blocks are done, or the hints proved wrong.
    fn is_at_end(&self) -> bool;
}

/// The set to build, and its location.
pub(crate) struct Setup<'a> {
    pub(crate) host: Host,
    pub(crate) layout: &'a Layout,
    /// Hash of the block at which the set will be complete.
    pub(crate) target: BlockHash,
    /// The blocks up to it, from height 1 on.
    pub(crate) path: Vec<NodeId>,
    /// Maximum bytes of coins that wait for the next run; another run of the same size may be being written.
    pub(crate) waiting_bytes_max: usize,
}

/// A set that is being built.
pub(crate) struct HintedRun<'h> {
    hints: &'h HintsFile,
    path: Vec<NodeId>,
    salt: Salt,
    waiting_bytes_max: usize,
    coins: Chainstate,
    private: PrivateDir,
    turn: Mutex<()>,
    state: Mutex<RunState>,
}

struct RunState {
    checkpoint: Checkpoint,
    /// Number of completed blocks.
    done: usize,
    /// No block below this index is missing.
    missing_from: usize,
    waiting: Survivors,
    /// Why the hints do not match this chain.
    wrong: Option<String>,
}

/// A block that passed the rules that need no coins.
pub(crate) struct CheckedBlock<'b> {
    pub(crate) node: NodeId,
    pub(crate) height: Height,
    pub(crate) hash: BlockHash,
    pub(crate) block: &'b Block<'b>,
    pub(crate) txids: &'b [Txid],
}

impl HintedBlocks for HintedRun<'_> {
    fn missing(&self, limit: usize) -> Vec<NodeId> {
        let mut state = lock(&self.state);
        let counts = &state.checkpoint.transactions;
        let first = (state.missing_from..counts.len()).find(|&place| counts[place] == 0).unwrap_or(counts.len());
        let missing = (first..counts.len()).filter(|&place| counts[place] == 0).map(|place| self.path[place]);
        let missing = missing.take(limit).collect();
        state.missing_from = first;
        missing
    }

    fn is_at_end(&self) -> bool {
        let state = lock(&self.state);
        state.done == self.path.len() || state.wrong.is_some()
    }
}

impl<'h> HintedRun<'h> {
    /// Continues a set that was begun with the same hints, or begins one.
    ///
    /// # Errors
    ///
    /// The system has no random bytes; another I/O error.
    pub(crate) fn open(
        hints: &'h HintsFile,
        setup: Setup<'_>,
        reporter: &Reporter<'_>,
    ) -> Result<HintedRun<'h>, Fault> {
        let Setup { host, layout, target, path, waiting_bytes_max } = setup;
        let disk = host.disk.clone();
        let private = PrivateDir::new(disk.clone(), layout.private_dir());
        let is_same = |known: &Checkpoint| {
            (known.hints, known.target, known.transactions.len()) == (hints.sha256(), target, path.len())
        };
        let known = Checkpoint::read(&private)?.filter(is_same);
        let mut begun = reporter.with_room(|| chainstate::hinted(&disk, layout))?;
        if begun == Rebuilt::Started && known.is_none() {
            reporter.with_room(|| chainstate::remove_hinted(&*disk, layout))?;
            begun = reporter.with_room(|| chainstate::hinted(&disk, layout))?;
        }
        let checkpoint = match known {
            Some(known) if begun == Rebuilt::Started => known,
            _ => {
                reporter.with_room(|| Checkpoint::remove(&private))?;
                let salt = random_salt()?;
                let transactions = vec![0; path.len()];
                let sums = Sums::default();
                let hints = hints.sha256();
                Checkpoint { hints, target, salt, sums, coins: 0, transactions }
            }
        };
        let coins = reporter.with_room(|| Chainstate::open(&host, &layout.hinted_chainstate_dir()))?;
        let done = checkpoint.transactions.iter().filter(|count| **count > 0).count();
        if done > 0 {
            reporter.note(format!("Going on with the hints, of whose {} blocks {done} are done", path.len()));
        }
        let salt = checkpoint.salt;
        let state = RunState { checkpoint, done, missing_from: 0, waiting: Survivors::default(), wrong: None };
        let turn = Mutex::new(());
        let state = Mutex::new(state);
        Ok(HintedRun { hints, path, salt, waiting_bytes_max, coins, private, turn, state })
    }

    /// Height of the last block.
    pub(crate) fn height(&self) -> Height {
        Height::from_index(self.path.len())
    }

    /// Number of completed blocks.
    pub(crate) fn done(&self) -> usize {
        lock(&self.state).done
    }

    /// Whether a block is one that must be processed.
    pub(crate) fn wants(&self, height: Height, node: NodeId) -> bool {
        let place = height.to_usize().wrapping_sub(1);
        self.path.get(place) == Some(&node) && lock(&self.state).checkpoint.transactions[place] == 0
    }

    /// Records that the hints do not match this chain; the first reason is kept.
    pub(crate) fn set_wrong(&self, why: String) {
        lock(&self.state).wrong.get_or_insert(why);
    }

    /// Processes a block, unless that was done already.
    ///
    /// # Errors
    ///
    /// The hints cannot be read; no space, or an I/O error.
    pub(crate) fn take(&self, taken: &CheckedBlock<'_>, reporter: &Reporter<'_>) -> Result<(), Fault> {
        let CheckedBlock { node, height, hash, block, txids } = *taken;
        let indices = self.hints.list(height)?;
        let mut sums = Sums::default();
        let mut piece = Piece::default();
        let mut next = indices.iter().peekable();
        for (index, output) in (0..).zip(counted_outputs(block, txids, height, &hash)) {
            if next.next_if(|unspent| **unspent == index).is_some() {
                piece.push(&output.outpoint, height, output.coinbase, output.value, output.script);
            } else {
                sums.create(&self.salt, &output.outpoint);
            }
        }
        if let Some(index) = next.next() {
            self.set_wrong(format!("block {hash} at height {height} has no output number {index}"));
            return Ok(());
        }
        for input in 1..block.input_count() {
            sums.spend(&self.salt, block.input(input).prevout_bytes());
        }
        piece.shrink();
        let is_due = {
            let mut state = lock(&self.state);
            let place = height.to_usize() - 1;
            if self.path.get(place) != Some(&node) || state.checkpoint.transactions[place] > 0 {
                return Ok(());
            }
            state.checkpoint.transactions[place] = txids.len() as u32;
            state.checkpoint.sums.add(&sums);
            state.checkpoint.coins += piece.count() as u64;
            state.done += 1;
            state.waiting.push(piece);
            state.waiting.memory_bytes() > self.waiting_bytes_max
        };
        if is_due { self.write(reporter, self.waiting_bytes_max) } else { Ok(()) }
    }

    /// Writes the waiting coins as one run, if they are more than `above` bytes, and then the checkpoint. Coins that
    /// could not be written wait for the next call.
    fn write(&self, reporter: &Reporter<'_>, above: usize) -> Result<(), Fault> {
        let _turn = lock(&self.turn);
        let (coins, checkpoint, done) = {
            let mut state = lock(&self.state);
            if state.waiting.memory_bytes() <= above && above > 0 {
                return Ok(());
            }
            (std::mem::take(&mut state.waiting), state.checkpoint.clone(), state.done)
        };
        if coins.count() > 0
            && let Err(fault) = reporter.with_room(|| self.write_run(&coins, checkpoint.target))
        {
            // Another thread may wait to write the next run, and its checkpoint has these blocks too.
            lock(&self.state).waiting.put_back(coins);
            return Err(fault);
        }
        reporter.with_room(|| checkpoint.write(&self.private))?;
        let all = self.path.len();
        let kept = human::count(checkpoint.coins);
        reporter.log().line(&format!("[hints] {done} of {all} blocks are done, {kept} coins survive so far"));
        Ok(())
    }

    fn write_run(&self, coins: &Survivors, target: BlockHash) -> Result<(), Fault> {
        let Some(commit) = self.coins.begin_commit(target, coins.count() as u64, coins.stored_bytes())? else {
            return Err(Fault::internal("a chainstate compacts that no other thread uses"));
        };
        let mut part = commit.first_part()?;
        coins.in_order(|key, coin| part.put(key.as_bytes(), coin))?;
        part.finish()?;
        Ok(commit.finish()?)
    }

    /// Writes the waiting coins, so that the next run of the program continues here. Returns whether the completed set
    /// is right, or the reason why it is not; `None` if blocks are missing.
    ///
    /// # Errors
    ///
    /// No space, or an I/O error.
    pub(crate) fn finish(self, reporter: &Reporter<'_>) -> Result<Option<Result<(), String>>, Fault> {
        if let Some(why) = lock(&self.state).wrong.take() {
            return Ok(Some(Err(why)));
        }
        self.write(reporter, 0)?;
        let checkpoint = lock(&self.state).checkpoint.clone();
        if !checkpoint.is_complete() {
            return Ok(None);
        }
        if !checkpoint.is_good() {
            let height = self.height();
            return Ok(Some(Err(format!(
                "the outpoints that blocks up to height {height} created and the hints do not call unspent are not those that \
                 they spent"
            ))));
        }
        if checkpoint.coins == 0 {
            reporter.with_room(|| self.write_run(&Survivors::default(), checkpoint.target))?;
        }
        reporter.with_room(|| self.coins.settle())?;
        Ok(Some(Ok(())))
    }
}

/// Generates secret keys.
fn random_salt() -> Result<Salt, Fault> {
    let mut bytes = [0; SALT_BYTES];
    getrandom::fill(&mut bytes).map_err(|why| {
        Fault::refused(
            format!("hints need 32 random bytes of the system: {why}"),
            "Use a system with a source of randomness, or sync without --hints",
        )
    })?;
    Ok(Salt::from_bytes(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::testing::Chains;
    use crate::reporting::log::Log;
    use disk::{Disk, Fault as Accident, Loss, SimDisk};
    use primitives::hints::{header, put_list};
    use primitives::{OutPoint, Tables};
    use std::path::Path;
    use std::sync::atomic::AtomicBool;
    use testkit::blocks::{self, Tx, coinbase};

    const BLOCKS: u32 = 3;

    /// Hints that call the only output of each block unspent.
    fn hints() -> HintsFile {
        let disk = SimDisk::new(0);
        let path = Path::new("/hints");
        let mut bytes = header(Height::new(BLOCKS)).to_vec();
        (0..BLOCKS).for_each(|_| put_list(&mut bytes, &[0]));
        disk.create(path).unwrap().write_at(0, &bytes).unwrap();
        HintsFile::open(&disk, path).unwrap()
    }

    /// A block with only a coinbase, whose coin is a run of its own.
    fn take(run: &HintedRun<'_>, tx: &Tx, height: u32, reporter: &Reporter<'_>) -> Result<(), Fault> {
        let bytes = blocks::block(BlockHash::ZERO, blocks::GENESIS_TIME + height, std::slice::from_ref(tx));
        let mut tables = Tables::new();
        let block = tables.parse_block(&bytes).unwrap();
        let hash = blocks::hash_of(&bytes);
        let node = run.path[height as usize - 1];
        let height = Height::new(height);
        run.take(&CheckedBlock { node, height, hash, block: &block, txids: &[tx.txid()] }, reporter)
    }

    /// The checkpoint on the disk has no block whose coin is not in the tables. Returns the number of its blocks.
    fn check_left(disk: &SimDisk, layout: &Layout, coins: &[Tx], row: &str) -> usize {
        let private = PrivateDir::new(disk.shared(), layout.private_dir());
        let Some(checkpoint) = Checkpoint::read(&private).unwrap() else { return 0 };
        let tables = Chainstate::open_read_only(disk.shared(), &layout.hinted_chainstate_dir()).unwrap().view();
        let done = checkpoint.transactions.iter().zip(coins).filter(|(count, _)| **count > 0);
        let is_there = |tx: &Tx| tables.get(&OutPoint { txid: tx.txid(), vout: 0 }).unwrap().is_some();
        assert!(done.clone().all(|(_, tx)| is_there(tx)), "{row}: {:?}", checkpoint.transactions);
        done.count()
    }

    /// Another thread writes the next run before the fault of this one has ended the sync.
    #[test]
    fn coins_of_a_failed_run_are_in_the_next_one() {
        let hints = hints();
        let coins: Vec<Tx> = (1..=BLOCKS).map(coinbase).collect();
        let layout = Layout::new(Path::new("/d"), "regtest", None);
        // Nothing waits for space.
        let stop = AtomicBool::new(true);
        let reporter = Reporter::new(&|_| (), Log::none(), &stop);
        for accident in [Accident::Io, Accident::NoSpace] {
            let mut went_on = 0;
            for at in 0.. {
                let row = format!("{accident:?} at {at}");
                let sim = SimDisk::new(at);
                layout.create(&sim).unwrap();
                sim.sync_dir(Path::new("/")).unwrap();
                let path = Chains::new().grow(None, BLOCKS as usize);
                let host = Host::from(sim.shared());
                let target = BlockHash::from_bytes([9; 32]);
                let setup = Setup { host, layout: &layout, target, path, waiting_bytes_max: 0 };
                let run = HintedRun::open(&hints, setup, &reporter).unwrap();
                let fails_at = sim.operations() + at;
                sim.fail_at(fails_at, 1, accident);
                let first = take(&run, &coins[0], 1, &reporter);
                if sim.operations() <= fails_at {
                    first.unwrap();
                    break;
                }
                let second = take(&run, &coins[1], 2, &reporter);
                let done = check_left(&sim.reopen(Loss::Unsynced), &layout, &coins, &row);
                if second.is_ok() {
                    assert_eq!(done, 2, "{row}");
                    went_on += usize::from(first.is_err());
                }
                assert!(at < 200, "{row}: a run has fewer operations");
            }
            assert!(went_on > 3, "{accident:?}: {went_on}");
        }
    }
}
