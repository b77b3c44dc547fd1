//! What a job's own thread does for others, at a point where no block is in flight.

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

/// The job, standing still: the coins are those of the tip, and the chain may be changed.
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
    /// A damaged table, or what the system says.
    pub fn coin(&self, outpoint: &OutPoint) -> Result<Option<Vec<u8>>, Fault> {
        self.engine.coin(outpoint)
    }

    /// Commits what is connected, with the optional indexes, and gives the coins as they are then; they stay so, whatever
    /// the job does afterwards.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn coins(&mut self) -> Result<CoinsView, Fault> {
        self.flush()?;
        Ok(self.datadir.coins.view())
    }

    /// Commits what is connected.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn flush(&mut self) -> Result<(), Fault> {
        if self.engine.pipeline.has_changes() {
            self.engine.pipeline.flush(self.engine.tip_and_hash())?;
        }
        self.datadir.write_index(None)
    }

    /// Brings the chain to its best block, unless the job is to end first.
    ///
    /// # Errors
    ///
    /// As [`Engine::activate`].
    pub fn activate(&mut self) -> Result<(), Fault> {
        // A request does not wait for headers that may still come: nothing else goes on meanwhile.
        self.datadir.is_asked_to_connect.store(true, Relaxed);
        let done = loop {
            match self.engine.activate() {
                // Others wait: they are next.
                Ok(Activated::Asked) => {}
                Ok(Activated::Tip | Activated::StopHeight | Activated::Stopped) => break Ok(()),
                Err(fault) => break Err(fault),
            }
        };
        self.datadir.is_asked_to_connect.store(false, Relaxed);
        done
    }

    /// Judges transactions for the next block, each behind those before it, up to the first that is refused, and has them wait
    /// for it if `offer` says so. Whether the network is one for this the caller knows.
    ///
    /// # Errors
    ///
    /// A damaged table, or what the system says.
    #[cfg(feature = "regtest-tools")]
    pub fn offer(&self, offered: &[Vec<u8>], offer: Offer) -> Result<Vec<Result<Arc<PoolEntry>, Refusal>>, Fault> {
        let Some(mempool) = &self.datadir.mempool else { return Ok(Vec::new()) };
        self.datadir.with_next(self.tip().0, |next| mempool.offer(offered, offer, next, |outpoint| self.coin(outpoint)))
    }

    /// Puts a line into debug.log.
    pub fn log(&self, line: &str) {
        self.datadir.reporter.log().line(line);
    }

    /// The job is to commit and end, as after the first Ctrl-C.
    pub fn stop(&self) {
        self.datadir.options.stop.store(true, Relaxed);
    }
}
