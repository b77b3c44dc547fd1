//! Whether an optional index answers for the tip.
//!
//! Source: Bitcoin Core b88bffe, `BaseIndex::BlockUntilSyncedToCurrentChain`, which waits for the last blocks'
//! notifications; here the job commits them, unless it is busy with the initial block download.

use crate::context::Context;
use crate::error::RpcError;
use indexes::IndexKind;
use node::handle::Live;

/// Whether the index has reached the tip of now, after a commit.
///
/// # Errors
///
/// A damaged index, or the job ended.
pub(crate) fn is_index_ready(context: &Context, live: &Live, kind: IndexKind) -> Result<bool, RpcError> {
    if live.indexed_tip(kind)?.is_some_and(|best| best == live.index.read().tip()) {
        return Ok(true);
    }
    if !context.program.is_served && context.handle.is_initial_download(live) {
        return Ok(false);
    }
    let tip = context.committed_tip()?;
    // Blocks that were connected since then are not waited for.
    Ok(live.indexed_tip(kind)?.is_some_and(|best| live.index.headers().is_ancestor(tip, best)))
}
