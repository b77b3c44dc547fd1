//! BIP-0054, the consensus cleanup: worst-case validation time, the timewarp and Murch-Zawy attacks, duplicate
//! coinbases, and transactions that look like a node of the merkle tree.
//!
//! [`Cleanup`] is the deployment's state for a block. Callers check it first: if it is off, they call no rule of this
//! module.
//!
//! Source: BIP-0054; the reject strings and the lock time of a coinbase (height - 1) are those of
//! bitcoin/bitcoin#35793, which is not merged.

use crate::deployments::{Deployment, ThresholdState, fixed_state};
use crate::params::Params;
use crate::transaction::SEQUENCE_FINAL;
use crate::verdict::{BlockError, Rule};
use primitives::{Block, Height, Input, Transaction, Txid};
use script::sigops;

/// Maximum number of signature operations in the scripts of one transaction, without witnesses. Source: BIP-0054.
pub const MAX_TX_SIGOPS: u32 = 2500;
/// Seconds that the first block of a period may be before its parent. Source: BIP-0054.
pub const MAX_TIMEWARP_S: i64 = 7200;
/// The size without witness that no transaction may have: two hashes, as in a node of the merkle tree. Source:
/// BIP-0054.
pub const FORBIDDEN_TX_BYTES: usize = 64;

/// Whether BIP-0054 is active for a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Cleanup {
    /// Not active.
    #[default]
    Off,
    /// Active.
    On,
}

impl Cleanup {
    /// The state for every block of a network, if signals do not decide it.
    pub fn everywhere(params: &Params) -> Option<Cleanup> {
        match fixed_state(params.deployment(Deployment::ConsensusCleanup))? {
            ThresholdState::Active => Some(Cleanup::On),
            ThresholdState::Defined | ThresholdState::Started | ThresholdState::LockedIn | ThresholdState::Failed => {
                Some(Cleanup::Off)
            }
        }
    }

    /// Whether it is active.
    #[inline]
    pub const fn is_on(self) -> bool {
        matches!(self, Cleanup::On)
    }
}

/// The first block of a period MUST NOT be more than 7,200 seconds before its parent: `time-timewarp-attack`.
///
/// `height` and `time` are the block's.
pub fn check_timewarp(params: &Params, height: Height, time: u32, parent_time: u32) -> Result<(), Rule> {
    check_period_start(params, height, time, parent_time, MAX_TIMEWARP_S)
}

/// The first block of a period MUST NOT be more than `most_s` seconds before its parent: BIP-0094 and BIP-0054 differ
/// only in this limit.
pub(crate) fn check_period_start(
    params: &Params,
    height: Height,
    time: u32,
    parent_time: u32,
    most_s: i64,
) -> Result<(), Rule> {
    let first = height.is_multiple_of(params.difficulty_adjustment_interval());
    if first && i64::from(time) < i64::from(parent_time) - most_s {
        return Err(Rule::TimeTimewarpAttack { time, parent_time, most_s });
    }
    Ok(())
}

/// The last block of a period MUST NOT be before the first one: `time-negative-interval`.
///
/// `height` and `time` are the block's; `time_of` returns the time of the first block of the period.
pub fn check_interval(
    params: &Params,
    height: Height,
    time: u32,
    time_of: impl FnOnce(Height) -> u32,
) -> Result<(), Rule> {
    let interval = params.difficulty_adjustment_interval();
    if !(height + 1).is_multiple_of(interval) {
        return Ok(());
    }
    let first_time = time_of(height + 1 - interval);
    if time < first_time { Err(Rule::TimeNegativeInterval { time, first_time }) } else { Ok(()) }
}

/// The coinbase MUST have the lock time of the height below (`bad-cb-locktime`), and its sequence MUST NOT be final
/// (`bad-cb-sequence`): so no two coinbases are equal.
pub fn check_coinbase(coinbase: &Transaction<'_>, height: Height) -> Result<(), Rule> {
    let want = height.saturating_sub(1).to_u32();
    let have = coinbase.lock_time();
    if have != want {
        return Err(Rule::BadCbLocktime { have, want });
    }
    if coinbase.input(0).sequence() == SEQUENCE_FINAL { Err(Rule::BadCbSequence) } else { Ok(()) }
}

/// A transaction MUST NOT have exactly 64 bytes without its witnesses: `bad-txns-size`.
pub fn check_sizes(block: &Block<'_>, txids: &[Txid]) -> Result<(), BlockError> {
    match block.transactions().position(|tx| tx.stripped_bytes() == FORBIDDEN_TX_BYTES) {
        Some(index) => Err(BlockError::in_transaction(Rule::BadTxnsSize, index, txids[index])),
        None => Ok(()),
    }
}

/// The scripts of a transaction's inputs and those of the outputs that they spend, including redeem scripts, MUST NOT
/// have more than 2,500 signature operations together: `bad-txns-legacy-sigops`. `sum` counts the inputs before this
/// one.
///
/// Source: Bitcoin Core b88bffe, policy/policy.cpp, `CheckSigopsBIP54`.
#[inline]
pub fn add_sigops(sum: u32, input: &Input<'_>, spent_script: &[u8]) -> Result<u32, Rule> {
    let script_sig = input.script_sig();
    let sigops =
        sum.saturating_add(sigops::count(script_sig, true)).saturating_add(sigops::of_spent(script_sig, spent_script));
    if sigops > MAX_TX_SIGOPS { Err(Rule::BadTxnsLegacySigops { sigops }) } else { Ok(sigops) }
}
