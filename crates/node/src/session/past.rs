//! The chain of the missing blocks: below a snapshot that is not validated yet, or of a pruned data directory that becomes
//! archival. It shares the block index and files with the main chain, and has its own coins, inbox and engine.

use crate::chain::tree::NodeId;
use crate::datadir::{DataDir, Origin, apart};
use crate::fault::Fault;
use crate::offline::replay::replay;
use crate::session::archive;
use crate::session::inbox::Arrivals;
use std::ops::Deref;
use std::sync::Arc;
use store::chainstate::Chainstate;

/// The data directory of that chain, and its inbox of blocks.
pub(super) struct Past<'e> {
    pub(super) datadir: DataDir<'e>,
    pub(super) inbox: Arc<Arrivals>,
}

impl<'e> Deref for Past<'e> {
    type Target = DataDir<'e>;

    fn deref(&self) -> &DataDir<'e> {
        &self.datadir
    }
}

/// Opens that chain; `None` if no blocks are missing. `inbox_bytes` is the memory for blocks that have arrived.
///
/// # Errors
///
/// Coins that do not match the block index, or an I/O error.
pub(super) fn open<'e>(datadir: &DataDir<'e>, inbox_bytes: usize) -> Result<Option<Past<'e>>, Fault> {
    let Some(assumed) = datadir.assumed else { return Ok(None) };
    let dir = match assumed.origin {
        Origin::Snapshot => datadir.layout.chainstate_dir(),
        Origin::Pruned => archive::dir(&datadir.layout),
    };
    let coins = datadir.reporter.with_room(|| Chainstate::open(&datadir.host, &dir))?;
    let best = coins.best_block()?;
    let heads = coins.head_blocks()?;
    let inbox = Arc::new(Arrivals::new(inbox_bytes, datadir.options.sizes.arrival_patience));
    let past = datadir.beside(coins, assumed, inbox.clone());
    let tip: NodeId = match heads {
        Some(heads) => replay(&past, heads)?,
        None => past.stand(best)?,
    };
    let is_beyond = past.headers().height(tip) > past.headers().height(assumed.base);
    if assumed.origin == Origin::Snapshot && is_beyond {
        return Err(apart(past.height_and_hash(tip).1));
    }
    past.past_tip.set(tip);
    past.open_indexes(past.kept_indexes(), tip)?;
    if assumed.origin == Origin::Snapshot {
        datadir.writer.keep_apart(&datadir.reporter, datadir.headers().height(assumed.base))?;
    }
    Ok(Some(Past { datadir: past, inbox }))
}
