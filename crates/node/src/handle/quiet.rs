//! Access of other threads to the job's own thread, at a point where no block is in flight.

use crate::chain::index::SharedIndex;
use crate::chain::tree::NodeId;
use crate::datadir::DataDir;
use crate::fault::Fault;
#[cfg(feature = "regtest-tools")]
use crate::mempool::{Offer, PoolEntry, Refusal};
use crate::options::unix_seconds;
use crate::pipeline::engine::{Activated, Engine};
use consensus::Params;
use primitives::{BlockHash, OutPoint};
#[cfg(feature = "regtest-tools")]
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use store::chainstate::CoinsView;

/// The paused job: the coins match the tip, and the chain may be changed.
pub struct Quiet<'a, 'w, 'e> {
    pub(crate) datadir: &'a DataDir<'e>,
    pub(crate) engine: &'a mut Engine<'w>,
}

impl Quiet<'_, '_, '_> {
    /// The last connected block.
    pub fn tip(&self) -> (NodeId, BlockHash) {
        self.engine.tip_and_hash()
    }

    /// Every known block.
    pub fn index(&self) -> &SharedIndex {
        &self.datadir.index
    }

    /// Seconds since 1970, by the clock of the job.
    pub fn unix_time(&self) -> u64 {
        unix_seconds(self.datadir.options.clock)
    }

    /// The network's rules.
    pub fn params(&self) -> &Params {
        self.datadir.params
    }

    /// The stored bytes of a coin of the tip's UTXO set (`primitives::coin`).
    ///
    /// # Errors
    ///
    /// A damaged table, or an I/O error.
    pub fn coin(&self, outpoint: &OutPoint) -> Result<Option<Vec<u8>>, Fault> {
        self.engine.coin(outpoint)
    }

    /// Commits the connected blocks, with the optional indexes, and returns a view of the coins that later work of the
    /// job does not change.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn coins(&mut self) -> Result<CoinsView, Fault> {
        self.flush()?;
        Ok(self.datadir.coins.view())
    }

    /// Commits the connected blocks.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn flush(&mut self) -> Result<(), Fault> {
        if self.engine.pipeline.has_changes() {
            self.engine.pipeline.flush(self.engine.tip_and_hash())?;
        }
        self.datadir.write_index(None)
    }

    /// Activates the best chain, unless the job is stopping.
    ///
    /// # Errors
    ///
    /// Those of [`Engine::activate`].
    pub fn activate(&mut self) -> Result<(), Fault> {
        // Connects blocks without waiting for more headers: the job does nothing else meanwhile.
        self.datadir.is_asked_to_connect.store(true, Relaxed);
        let done = loop {
            match self.engine.activate() {
                // Other requests are waiting, and are served next.
                Ok(Activated::Asked) => {}
                Ok(Activated::Tip | Activated::StopHeight | Activated::Stopped | Activated::Withheld) => break Ok(()),
                Err(fault) => break Err(fault),
            }
        };
        self.datadir.is_asked_to_connect.store(false, Relaxed);
        // The commit is made before the answer, as in Core, because a client must know at which block a simulated crash
        // happens.
        if done.is_ok() && self.datadir.options.sizes.commits_each_block() {
            self.datadir.commit_if_due(self.engine)?;
        }
        done
    }

    /// Validates transactions for the next block, each on top of those before it, up to the first refused one. Adds
    /// them to the mempool if `offer` requires it. The caller ensures that the network allows this.
    ///
    /// # Errors
    ///
    /// A damaged table, or an I/O error.
    #[cfg(feature = "regtest-tools")]
    pub fn offer(&self, offered: &[Vec<u8>], offer: Offer) -> Result<Vec<Result<Arc<PoolEntry>, Refusal>>, Fault> {
        let Some(mempool) = &self.datadir.mempool else { return Ok(Vec::new()) };
        self.datadir.with_next(self.tip().0, |next| mempool.offer(offered, offer, next, |outpoint| self.coin(outpoint)))
    }

    /// Writes a line to debug.log.
    pub fn log(&self, line: &str) {
        self.datadir.reporter.log().line(line);
    }

    /// Makes the job commit and end, as after the first Ctrl-C.
    pub fn stop(&self) {
        self.datadir.options.stop.store(true, Relaxed);
    }
}
