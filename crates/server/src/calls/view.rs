//! Header data for calls: copied under the index's lock, formatted without it.
//!
//! Source: Bitcoin Core b88bffe, rpc/blockchain.cpp, `blockheaderToJSON`, `GetDifficulty`.

use crate::args::Args;
use crate::context::Context;
use crate::error::{Code, RpcError};
use crate::json::{Fields, Json};
use node::chain::index::BlockIndex;
use node::chain::tree::NodeId;
use node::handle::Live;
use primitives::{BlockHash, Header, Height, MedianTime, U256, Work};
use std::sync::Arc;

/// A header and its position in the chain.
#[derive(Clone, Debug)]
pub struct HeaderView {
    /// Its hash.
    pub hash: BlockHash,
    /// Its 80 bytes.
    pub header: Header,
    /// Its height.
    pub height: Height,
    /// Blocks from this one up to the tip; -1 off the connected chain.
    pub confirmations: i64,
    /// Median of the times of the last eleven blocks.
    pub median_time: MedianTime,
    /// Work of the chain up to it.
    pub work: Work,
    /// Number of transactions; 0 until a valid body was stored.
    pub transactions: u32,
    /// The next block of the connected chain.
    pub next: Option<BlockHash>,
    /// Its parent.
    pub prev: Option<BlockHash>,
}

impl HeaderView {
    /// The view of a block in the index.
    pub fn of(index: &BlockIndex, id: NodeId) -> HeaderView {
        let tree = index.headers();
        let height = tree.height(id);
        let tip = index.tip();
        let next = index.active().get(height.to_usize() + 1).copied().filter(|_| index.is_active(id));
        let depth = if index.is_active(id) { i64::from(tree.height(tip).blocks_above(height)) + 1 } else { -1 };
        HeaderView {
            hash: tree.hash(id),
            header: tree.header(id),
            height,
            confirmations: depth,
            median_time: tree.median_time_past(id),
            work: tree.work(id),
            transactions: index.body(id).transactions(),
            next: next.map(|next| tree.hash(next)),
            prev: tree.parent(id).map(|parent| tree.hash(parent)),
        }
    }

    /// The fields of getblockheader.
    pub fn fields(&self) -> Fields {
        let header = &self.header;
        Json::object()
            .put("hash", self.hash)
            .put("confirmations", self.confirmations)
            .put("height", self.height)
            .put("version", header.version())
            .put("versionHex", format!("{:08x}", header.version()))
            .put("merkleroot", header.merkle_root())
            .put("time", header.time())
            .put("mediantime", self.median_time.to_u32())
            .put("nonce", header.nonce())
            .put("bits", format!("{:08x}", header.bits()))
            .put("target", target(header.bits()))
            .put("difficulty", Json::double(difficulty(header.bits())))
            .put("chainwork", number(self.work.0))
            .put("nTx", self.transactions)
            .put_some("previousblockhash", self.prev)
            .put_some("nextblockhash", self.next)
    }
}

/// 256 bits in hexadecimal, most significant digits first.
pub fn number(value: U256) -> String {
    let mut bytes = value.to_le_bytes();
    bytes.reverse();
    primitives::hex::encode(&bytes)
}

/// The target of these bits; zero if they are invalid.
pub fn target(bits: u32) -> String {
    number(primitives::Target::from_compact(bits).map_or(U256::ZERO, |target| target.0))
}

/// Difficulty: relative to mainnet's greatest target.
pub fn difficulty(bits: u32) -> f64 {
    let mut difficulty = f64::from(0xffff_u32) / f64::from(bits & 0x00ff_ffff);
    let mut shift = bits >> 24;
    while shift < 29 {
        difficulty *= 256.0;
        shift += 1;
    }
    while shift > 29 {
        difficulty /= 256.0;
        shift -= 1;
    }
    difficulty
}

/// The block whose hash is the parameter at `at`.
///
/// # Errors
///
/// The parameter is not a hash, or the block is unknown.
pub fn known_block(context: &Context, args: &Args<'_>, at: usize, name: &str) -> Result<(Arc<Live>, NodeId), RpcError> {
    let hash = args.block_hash(at, name)?;
    let live = context.live()?;
    let id = live.index.headers().find(&hash).ok_or_else(not_found)?;
    Ok((live, id))
}

/// "Block not found".
pub fn not_found() -> RpcError {
    RpcError::not_found("Block not found")
}

/// The block with this hash, or with this height on the connected chain.
///
/// # Errors
///
/// Core's. Source: `ParseHashOrHeight`.
pub fn by_hash_or_height(live: &Live, value: &Json) -> Result<NodeId, RpcError> {
    if !matches!(value, Json::Int(_) | Json::Num(_)) {
        let hash = crate::args::hash(value, "hash_or_height")?;
        let hash = BlockHash::from_bytes(*hash.as_bytes());
        return live.index.headers().find(&hash).ok_or_else(not_found);
    }
    let height: i32 = crate::args::int(value)?;
    let Ok(at) = usize::try_from(height) else {
        return Err(RpcError::parameter(format!("Target block height {height} is negative")));
    };
    let index = live.index.read();
    let tip = index.active().len() - 1;
    let found = index.active().get(at).copied();
    drop(index);
    found.ok_or_else(|| RpcError::parameter(format!("Target block height {height} after current tip {tip}")))
}

/// The bytes of a block, or why they are missing. Source: Core's `GetRawBlockChecked`.
///
/// # Errors
///
/// The block was pruned, or was never received.
pub fn block_bytes(live: &Live, id: NodeId) -> Result<Vec<u8>, RpcError> {
    let was_pruned = live.index.read().body(id).is_pruned();
    match live.block(id) {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) if was_pruned || live.index.read().body(id).is_pruned() => {
            Err(RpcError::misc("Block not available (pruned data)"))
        }
        Ok(None) => Err(RpcError::misc("Block not available (not fully downloaded)")),
        Err(why) => Err(RpcError::new(
            Code::Misc,
            format!(
                "Block not found on disk. This could be due to disk corruption or a conflict with a pruning event. ({why})"
            ),
        )),
    }
}
