//! The rules of a block that need no coins: the context-free ones ([`check`]), and those that depend on its place in
//! the chain ([`check_context`]).
//!
//! The caller computes the ids once for the whole block ([`Block::txids_into`], [`Block::wtxids_into`]). Absent on
//! purpose: the rules of headers (`header`) and of spent coins (`spend`).

use crate::cleanup::{self, Cleanup, FORBIDDEN_TX_BYTES};
use crate::params::Params;
use crate::transaction::{self, is_final, legacy_sigops};
use crate::verdict::{BlockError, Rule};
use crate::{MAX_BLOCK_SIGOPS_COST, MAX_BLOCK_WEIGHT, WITNESS_SCALE_FACTOR, header};
use kernels::sha256::sha256d;
use primitives::{Block, BlockHash, Hash256, Height, MedianTime, Transaction, Txid, Wtxid, merkle};
use script::signet;

/// First bytes of a witness commitment: OP_RETURN, a push of 36 bytes, and the BIP's four.
const COMMITMENT_PREFIX: [u8; 6] = [0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed];

/// Memory for one block's checks, reused for the next.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    leaves: Vec<Hash256>,
    transaction: transaction::Scratch,
}

/// The place of a block in the chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Context {
    /// Its height.
    pub height: Height,
    /// The parent's: see [`header::median_time_past`].
    pub median_time_past: MedianTime,
    /// Whether BIP-0054 is active for the block.
    pub cleanup: Cleanup,
}

/// All context-free rules of a block, in Core's order.
///
/// `hash` is its header's, `txids` are its transactions'. `sigops` is cleared and filled with the legacy signature
/// operations of each transaction, which `spend` needs again.
///
/// # Errors
///
/// The first broken rule.
///
/// # Panics
///
/// If the numbers of `txids` and transactions differ.
///
/// Source: Bitcoin Core b88bffe, `CheckBlock`.
pub fn check(
    params: &Params,
    block: &Block<'_>,
    hash: &BlockHash,
    txids: &[Txid],
    sigops: &mut Vec<u32>,
    scratch: &mut Scratch,
) -> Result<(), BlockError> {
    sigops.clear();
    header::check_proof_of_work(params, hash, block.header().bits())?;
    check_signet_solution(params, block, hash, txids)?;
    check_merkle_root(block, txids, scratch)?;
    check_length(block)?;
    check_coinbases(block, txids)?;
    for (index, tx) in block.transactions().enumerate() {
        transaction::check(&tx, &mut scratch.transaction)
            .map_err(|rule| BlockError::in_transaction(rule, index, txids[index]))?;
    }
    sigops.extend(block.transactions().map(|tx| legacy_sigops(&tx)));
    check_legacy_sigops(sigops)?;
    Ok(())
}

/// All rules of a block that need its place in the chain but no coins, in Core's order. [`check`] must have passed.
///
/// `wtxids` are used only if [`needs_wtxids`].
///
/// # Errors
///
/// The first broken rule.
///
/// # Panics
///
/// If the numbers of `txids` and transactions differ, or those of `wtxids` when they are needed.
///
/// Swapping the two lists does not compile:
///
/// ```
/// # use consensus::{Params, block};
/// # use primitives::{Block, Txid, Wtxid};
/// # fn check(params: &Params, body: &Block<'_>, context: &block::Context, txids: &[Txid], wtxids: &[Wtxid]) {
/// let verdict = block::check_context(params, body, context, txids, wtxids, &mut Default::default());
/// # }
/// ```
///
/// ```compile_fail,E0308
/// # use consensus::{Params, block};
/// # use primitives::{Block, Txid, Wtxid};
/// # fn check(params: &Params, body: &Block<'_>, context: &block::Context, txids: &[Txid], wtxids: &[Wtxid]) {
/// let verdict = block::check_context(params, body, context, wtxids, txids, &mut Default::default());
/// # }
/// ```
///
/// Source: Bitcoin Core b88bffe, `ContextualCheckBlock`.
pub fn check_context(
    params: &Params,
    block: &Block<'_>,
    context: &Context,
    txids: &[Txid],
    wtxids: &[Wtxid],
    scratch: &mut Scratch,
) -> Result<(), BlockError> {
    check_final(params, block, context, txids)?;
    if context.cleanup.is_on() {
        cleanup::check_sizes(block, txids)?;
    }
    check_coinbase_height(params, block, context.height)?;
    if context.cleanup.is_on() {
        cleanup::check_coinbase(&coinbase_of(block), context.height)?;
    }
    check_witness_commitment(block, context.height >= params.segwit_height, wtxids, scratch)?;
    check_weight(block)?;
    Ok(())
}

/// On signet every block except genesis MUST have a solution to the challenge: `bad-signet-blksig`.
///
/// Source: BIP-0325; Bitcoin Core b88bffe, `CheckSignetBlockSolution`.
pub fn check_signet_solution(params: &Params, block: &Block<'_>, hash: &BlockHash, txids: &[Txid]) -> Result<(), Rule> {
    match &params.signet_challenge {
        Some(challenge) if *hash != params.genesis_hash => {
            signet::check_solution(block, txids, challenge).map_err(|why| Rule::BadSignetBlksig { why })
        }
        _ => Ok(()),
    }
}

/// The header MUST contain the merkle root of the transactions (`bad-txnmrklroot`), and no two hashes that are paired
/// in the tree MUST be equal (`bad-txns-duplicate`, CVE-2012-2459). After either failure another body with the same
/// header may still be valid.
///
/// Source: Bitcoin Core b88bffe, `CheckMerkleRoot`.
pub fn check_merkle_root(block: &Block<'_>, txids: &[Txid], scratch: &mut Scratch) -> Result<(), Rule> {
    assert_eq!(txids.len(), block.transaction_count(), "one id a transaction");
    scratch.leaves.clear();
    scratch.leaves.extend(txids.iter().map(|txid| txid.to_hash256()));
    let (have, mutated) = merkle::root(block.kernels(), &mut scratch.leaves);
    let want = block.header().merkle_root();
    if have != want {
        return Err(Rule::BadTxnmrklroot { want, have });
    }
    if mutated {
        return Err(Rule::BadTxnsDuplicate);
    }
    Ok(())
}

/// A block MUST have at least one and at most 1,000,000 transactions, and at most 1,000,000 bytes without witnesses:
/// `bad-blk-length`.
pub fn check_length(block: &Block<'_>) -> Result<(), Rule> {
    let transactions = block.transaction_count();
    let stripped_bytes = block.stripped_bytes();
    let most = transactions.max(stripped_bytes);
    if transactions == 0 || most * WITNESS_SCALE_FACTOR > MAX_BLOCK_WEIGHT {
        return Err(Rule::BadBlkLength { transactions, stripped_bytes });
    }
    Ok(())
}

/// The first transaction MUST be a coinbase (`bad-cb-missing`), and the others MUST NOT be (`bad-cb-multiple`).
pub fn check_coinbases(block: &Block<'_>, txids: &[Txid]) -> Result<(), BlockError> {
    let mut transactions = block.transactions();
    if !transactions.next().is_some_and(|first| first.is_coinbase()) {
        return Err(Rule::BadCbMissing.into());
    }
    match transactions.position(|tx| tx.is_coinbase()) {
        Some(behind) => Err(BlockError::in_transaction(Rule::BadCbMultiple, behind + 1, txids[behind + 1])),
        None => Ok(()),
    }
}

/// Four times the legacy signature operations of a block MUST NOT exceed 80,000: `bad-blk-sigops`.
///
/// `sigops` are the counts of each transaction: see [`legacy_sigops`].
pub fn check_legacy_sigops(sigops: &[u32]) -> Result<(), Rule> {
    let sigops = sigops.iter().map(|&count| u64::from(count)).sum();
    if sigops * WITNESS_SCALE_FACTOR as u64 > MAX_BLOCK_SIGOPS_COST {
        return Err(Rule::BadBlkSigops { sigops });
    }
    Ok(())
}

/// Every transaction, including the coinbase, MUST be final at the height of the block and, with CSV, at the median
/// time past of its parent, before CSV at the block's own time: `bad-txns-nonfinal`.
///
/// Source: BIP-0113; Bitcoin Core b88bffe, `ContextualCheckBlock`.
pub fn check_final(params: &Params, block: &Block<'_>, context: &Context, txids: &[Txid]) -> Result<(), BlockError> {
    let median = context.height >= params.csv_height;
    let cutoff = if median { context.median_time_past.to_u32() } else { block.header().time() };
    for (index, tx) in block.transactions().enumerate() {
        if !is_final(&tx, context.height, cutoff) {
            let rule = Rule::BadTxnsNonfinal { lock_time: tx.lock_time() };
            return Err(BlockError::in_transaction(rule, index, txids[index]));
        }
    }
    Ok(())
}

/// With BIP-0034 the coinbase's scriptSig MUST start with the push of the height: `bad-cb-height`.
pub fn check_coinbase_height(params: &Params, block: &Block<'_>, height: Height) -> Result<(), Rule> {
    let (push, bytes) = height_push(height);
    if height >= params.bip34_height && !coinbase_of(block).input(0).script_sig().starts_with(&push[..bytes]) {
        return Err(Rule::BadCbHeight { want: height });
    }
    Ok(())
}

/// The push of a height as a script contains it, and its length in bytes: one opcode up to 16, above that the shortest
/// signed number.
///
/// Source: Bitcoin Core b88bffe, `CScript::operator<<(int64_t)`.
pub fn height_push(height: Height) -> ([u8; 6], usize) {
    let mut push = [0; 6];
    let number = height.to_u32();
    match number {
        0 => return (push, 1),
        1..=16 => push[0] = 0x50 + number as u8,
        _ => {
            // One more bit than the number, for the sign.
            let bytes = (number.ilog2() as usize + 1) / 8 + 1;
            push[0] = bytes as u8;
            push[1..5].copy_from_slice(&number.to_le_bytes());
            return (push, 1 + bytes);
        }
    }
    (push, 1)
}

/// With segwit, a block with a witness commitment MUST have one reserved value of 32 bytes in its coinbase
/// (`bad-witness-nonce-size`), and the commitment MUST match its witnesses (`bad-witness-merkle-match`). A block
/// without a commitment, or before segwit, MUST NOT have any witness (`unexpected-witness`). After any of these
/// failures another body with the same header may still be valid.
///
/// Source: BIP-0141; Bitcoin Core b88bffe, `CheckWitnessMalleation`.
pub fn check_witness_commitment(
    block: &Block<'_>,
    segwit: bool,
    wtxids: &[Wtxid],
    scratch: &mut Scratch,
) -> Result<(), Rule> {
    let Some(commitment) = commitment(block).filter(|_| segwit) else {
        return if block.has_witness() { Err(Rule::UnexpectedWitness) } else { Ok(()) };
    };
    let mut witness = coinbase_of(block).input(0).witness();
    let (1, Some(Ok(reserved))) = (witness.len(), witness.next().map(<&[u8; 32]>::try_from)) else {
        return Err(Rule::BadWitnessNonceSize);
    };
    assert_eq!(wtxids.len(), block.transaction_count(), "one id a transaction");
    scratch.leaves.clear();
    scratch.leaves.extend(wtxids.iter().map(|wtxid| wtxid.to_hash256()));
    scratch.leaves[0] = Hash256::ZERO;
    let (root, _) = merkle::root(block.kernels(), &mut scratch.leaves);
    let mut both = [0; 64];
    both[..32].copy_from_slice(&root.0);
    both[32..].copy_from_slice(reserved);
    if sha256d(&both) != *commitment {
        return Err(Rule::BadWitnessMerkleMatch);
    }
    Ok(())
}

/// Whether [`check_context`] and [`mutation`] use the wtxids of this block.
pub fn needs_wtxids(params: &Params, block: &Block<'_>, height: Height) -> bool {
    height >= params.segwit_height && commitment(block).is_some()
}

/// The hash in the last witness commitment of the coinbase.
///
/// Source: BIP-0141; Bitcoin Core b88bffe, `GetWitnessCommitmentIndex`.
pub fn commitment<'a>(block: &Block<'a>) -> Option<&'a [u8; 32]> {
    if block.transaction_count() == 0 {
        return None;
    }
    coinbase_of(block)
        .outputs()
        .filter_map(|output| output.script().strip_prefix(&COMMITMENT_PREFIX)?.first_chunk())
        .last()
}

fn coinbase_of<'a>(block: &Block<'a>) -> Transaction<'a> {
    block.transaction(0)
}

/// Three times the size without witnesses plus the total size MUST NOT exceed 4,000,000: `bad-blk-weight`.
///
/// Source: BIP-0141.
pub fn check_weight(block: &Block<'_>) -> Result<(), Rule> {
    let weight = block.weight();
    if weight > MAX_BLOCK_WEIGHT { Err(Rule::BadBlkWeight { weight }) } else { Ok(()) }
}

/// Why a body from a peer is not the one of its header, if that can be determined. Such a body is discarded before
/// validation, and never marks the header invalid. The parent must be known; `segwit` says whether segwit is active for
/// the block.
///
/// A body without coinbase that has a transaction of 64 bytes without witness counts too: that transaction may be a
/// node of the tree.
///
/// # Panics
///
/// Those of [`check_context`].
///
/// Source: Bitcoin Core b88bffe, `IsBlockMutated`.
pub fn mutation(
    block: &Block<'_>,
    segwit: bool,
    txids: &[Txid],
    wtxids: &[Wtxid],
    scratch: &mut Scratch,
) -> Option<BlockError> {
    let root = check_merkle_root(block, txids, scratch);
    let with_coinbase = block.transactions().next().is_some_and(|first| first.is_coinbase());
    let body = root.and_then(|()| match with_coinbase {
        true => check_witness_commitment(block, segwit, wtxids, scratch),
        false if block.transactions().any(|tx| tx.stripped_bytes() == FORBIDDEN_TX_BYTES) => Err(Rule::Mutated64),
        false => Ok(()),
    });
    body.err().map(BlockError::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Core's `CScript() << n`.
    #[test]
    fn height_push_matches_core() {
        for (height, want) in [
            (0, "00"),
            (1, "51"),
            (16, "60"),
            (17, "0111"),
            (127, "017f"),
            (128, "028000"),
            (255, "02ff00"),
            (256, "020001"),
            (32_767, "02ff7f"),
            (32_768, "03008000"),
            (227_931, "035b7a03"),
            (8_388_607, "03ffff7f"),
            (8_388_608, "0400008000"),
            (0x7fff_ffff, "04ffffff7f"),
            (u32::MAX, "05ffffffff00"),
        ] {
            let (push, bytes) = height_push(Height::new(height));
            assert_eq!(primitives::hex::encode(&push[..bytes]), want, "{height}");
        }
    }
}
