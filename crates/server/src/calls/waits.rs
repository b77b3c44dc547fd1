//! Calls that wait for a block; they occupy no thread. Source: Bitcoin Core b88bffe, rpc/blockchain.cpp.

use crate::args::Args;
use crate::context::Context;
use crate::error::RpcError;
use crate::json::Json;
use crate::registry::{Arg, Call, Kind, Run, Wait};
use primitives::BlockHash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const TIMEOUT: Arg =
    Arg::optional("timeout", Kind::Num, "Time in milliseconds to wait for a response. 0 indicates no timeout.");

/// These calls.
pub(super) const CALLS: &[Call] = &[
    Call {
        category: "blockchain",
        name: "waitforblock",
        about: "Waits for a specific new block and returns useful info about it.\n\n\
                Returns the current block on timeout or exit.\n\n\
                Make sure to use no RPC timeout (bitcoin-cli -rpcclienttimeout=0)",
        args: &[Arg::needed("blockhash", Kind::Hex, "Block hash to wait for."), TIMEOUT],
        run: Run::Later(wait_for_block),
    },
    Call {
        category: "blockchain",
        name: "waitforblockheight",
        about: "Waits for (at least) block height and returns the height and hash\nof the current tip.\n\n\
                Returns the current block on timeout or exit.\n\n\
                Make sure to use no RPC timeout (bitcoin-cli -rpcclienttimeout=0)",
        args: &[Arg::needed("height", Kind::Num, "Block height to wait for."), TIMEOUT],
        run: Run::Later(wait_for_block_height),
    },
    Call {
        category: "blockchain",
        name: "waitfornewblock",
        about: "Waits for any new block and returns useful info about it.\n\n\
                Returns the current block on timeout or exit.\n\n\
                Make sure to use no RPC timeout (bitcoin-cli -rpcclienttimeout=0)",
        args: &[
            TIMEOUT,
            Arg::optional("current_tip", Kind::Hex, "Method waits for the chain tip to differ from this."),
        ],
        run: Run::Later(wait_for_new_block),
    },
];

fn wait_for_new_block(context: &Context, args: &Args<'_>) -> Result<Wait, RpcError> {
    let deadline = deadline(args, 0)?;
    let tip = tip(context)?;
    let known = match args.is_given(1) {
        true => args.block_hash(1, "current_tip")?,
        false => tip.1,
    };
    Ok(wait(tip, deadline, move |(_, hash)| hash != known))
}

fn wait_for_block(context: &Context, args: &Args<'_>) -> Result<Wait, RpcError> {
    let wanted = args.block_hash(0, "blockhash")?;
    let deadline = deadline(args, 1)?;
    Ok(wait(tip(context)?, deadline, move |(_, hash)| hash == wanted))
}

fn wait_for_block_height(context: &Context, args: &Args<'_>) -> Result<Wait, RpcError> {
    let wanted = i64::from(args.int(0)?);
    let deadline = deadline(args, 1)?;
    Ok(wait(tip(context)?, deadline, move |(height, _)| i64::from(height) >= wanted))
}

fn deadline(args: &Args<'_>, at: usize) -> Result<Option<Instant>, RpcError> {
    let ms = if args.is_given(at) { args.int(at)? } else { 0 };
    match u64::try_from(ms) {
        Ok(0) => Ok(None),
        Ok(ms) => Ok(Some(Instant::now() + Duration::from_millis(ms))),
        Err(_) => Err(RpcError::misc("Negative timeout")),
    }
}

/// Height and hash of a chain's last block.
type Tip = (u32, BlockHash);

fn tip(context: &Context) -> Result<Tip, RpcError> {
    let live = context.live()?;
    let index = live.index.read();
    let id = index.tip();
    Ok((index.headers().height(id).to_u32(), index.headers().hash(id)))
}

fn shown((height, hash): Tip) -> Json {
    Json::object().put("hash", hash).put("height", height).end()
}

/// Waits for a tip for which `is_it` is true; `seen` is the tip now.
///
/// While the job opens the data directory anew, or ends, there is no tip: the wait goes on, and at its end the last seen
/// tip is the answer.
fn wait(seen: Tip, deadline: Option<Instant>, is_it: impl Fn(Tip) -> bool + Send + Sync + 'static) -> Wait {
    let seen = Arc::new(Mutex::new(seen));
    let last = seen.clone();
    Wait {
        until: Box::new(move |context| {
            let Ok(tip) = tip(context) else { return Ok(None) };
            *seen.lock().unwrap_or_else(PoisonError::into_inner) = tip;
            Ok(is_it(tip).then(|| shown(tip)))
        }),
        deadline,
        outlasts_stop: false,
        otherwise: Box::new(move |_| Ok(Some(shown(*last.lock().unwrap_or_else(PoisonError::into_inner))))),
    }
}
