//! getblock. Source: Bitcoin Core b88bffe, rpc/blockchain.cpp, `blockToJSON`, `coinbaseTxToJSON`.

use super::view::{HeaderView, block_bytes, known_block};
use crate::args::Args;
use crate::context::Context;
use crate::error::{Code, RpcError};
use crate::json::{Fields, Json};
use primitives::{Block, Tables, hex};

pub(super) fn get_block(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    // As in Core the hash is looked at first.
    args.block_hash(0, "blockhash")?;
    let verbosity = match args.get(1) {
        Json::Null => 1,
        Json::Bool(verbose) => i32::from(*verbose),
        _ => args.int(1)?,
    };
    let (live, id) = known_block(context, args, 0, "blockhash")?;
    let bytes = block_bytes(&live, id)?;
    if verbosity <= 0 {
        return Ok(hex::encode(&bytes).into());
    }
    let view = HeaderView::of(&live.index.read(), id);
    let mut tables = Tables::new();
    let block = tables.parse_block(&bytes).map_err(|why| damaged(&why.to_string()))?;
    let mut txids = Vec::new();
    block.txids_into(&mut txids);
    let ids: Vec<Json> = txids.into_iter().map(Json::from).collect();
    Ok(fields(&view, &block).put("tx", ids).end())
}

/// The fields of getblock up to its transactions.
pub(crate) fn fields(view: &HeaderView, block: &Block<'_>) -> Fields {
    view.fields()
        .put("strippedsize", block.stripped_bytes())
        .put("size", block.bytes().len())
        .put("weight", block.weight())
        .put("coinbase_tx", coinbase(block))
}

fn coinbase(block: &Block<'_>) -> Json {
    let tx = block.transaction(0);
    let input = tx.input(0);
    let witness = input.witness().next().map(hex::encode);
    Json::object()
        .put("version", tx.version())
        .put("locktime", tx.lock_time())
        .put("sequence", input.sequence())
        .put("coinbase", hex::encode(input.script_sig()))
        .put_some("witness", witness)
        .end()
}

/// A block whose bytes are not those that were stored.
pub(crate) fn damaged(why: &str) -> RpcError {
    RpcError::new(Code::Internal, format!("Block not found on disk. This could be due to disk corruption: {why}"))
}
