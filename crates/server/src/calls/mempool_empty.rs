//! Mempool calls of a program without a mempool: without the feature `regtest-tools`.
//!
//! Clients use them frequently, and get the answers of an empty mempool.

use crate::args::Args;
use crate::context::Context;
use crate::error::RpcError;
use crate::json::Json;

fn none(args: &Args<'_>) -> Result<Json, RpcError> {
    args.txid(0, "txid")?;
    Err(RpcError::not_found("Transaction not in mempool"))
}

pub(super) fn ancestors(_context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    args.bool_or(1, false)?;
    none(args)
}

pub(super) fn descendants(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    ancestors(context, args)
}

pub(super) fn entry(_context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    none(args)
}

/// The ids of all transactions.
pub(super) fn all(_context: &Context) -> Json {
    Json::Arr(Vec::new())
}

/// All transactions with details.
pub(super) fn all_detailed(_context: &Context) -> Json {
    Json::object().end()
}
