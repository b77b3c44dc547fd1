//! A signet block's solution: the coinbase contains a signature over the rest of the block. Source: BIP-0325.
//!
//! The solution is the first push, in the script of the witness commitment, that begins with `ec c7 da a2` and has
//! further bytes. It is verified as if it spent an output with the network's challenge, in a transaction that commits
//! to the block without the solution.
//!
//! Absent on purpose: the genesis block, which needs no solution; check only other blocks.

use crate::check::Immediate;
use crate::error::ScriptError;
use crate::flags::Flags;
use crate::opcode::{Instructions, OP_0, OP_RETURN, push_data};
use crate::sighash::{Precomputed, SpentOutput};
use crate::verify::{Scratch, verify};
use kernels::sha256::sha256d;
use primitives::encode::put_compact_size;
use primitives::{Amount, Block, DecodeError, Hash256, Reader, Tables, Transaction, Txid, merkle};
use std::fmt;

/// The first bytes of a solution. Source: BIP-0325.
const HEADER: [u8; 4] = [0xec, 0xc7, 0xda, 0xa2];
/// The first bytes of a witness commitment: RETURN, a push of 36 bytes, four of them fixed. Source: BIP-0141.
const COMMITMENT_HEADER: [u8; 6] = [OP_RETURN, 0x24, 0xaa, 0x21, 0xa9, 0xed];
/// Minimum bytes of a witness commitment.
const COMMITMENT_BYTES_MIN: usize = 38;

/// Why a block has no valid solution. Core rejects every one of them as `bad-signet-blksig`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignetError {
    /// The block has no transaction.
    NoCoinbase,
    /// The coinbase has no witness commitment, which would contain the solution.
    NoCommitment,
    /// The solution does not consist of a scriptSig and a witness.
    Solution(DecodeError),
    /// The challenge does not accept the solution.
    Script(ScriptError),
}

impl fmt::Display for SignetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SignetError::NoCoinbase => f.write_str("the block has no coinbase to hold a signet solution"),
            SignetError::NoCommitment => {
                f.write_str("the coinbase has no witness commitment to hold a signet solution")
            }
            SignetError::Solution(why) => write!(f, "the signet solution is not a scriptSig and a witness: {why}"),
            SignetError::Script(why) => write!(f, "the signet challenge does not accept the solution: {why}"),
        }
    }
}

impl std::error::Error for SignetError {}

/// Verifies the solution of a block that is not the genesis block. `txids` are those of its transactions, in order.
///
/// # Errors
///
/// See [`SignetError`].
///
/// # Panics
///
/// If the numbers of ids and transactions differ.
///
/// Source: Bitcoin Core b88bffe, `CheckSignetBlockSolution`, `SignetTxs::Create`.
pub fn check_solution(block: &Block<'_>, txids: &[Txid], challenge: &[u8]) -> Result<(), SignetError> {
    assert_eq!(txids.len(), block.transaction_count(), "one id for each transaction");
    if txids.is_empty() {
        return Err(SignetError::NoCoinbase);
    }
    let coinbase = block.transaction(0);
    let commitment = commitment_index(coinbase).ok_or(SignetError::NoCommitment)?;
    let (script, solution) = take_solution(coinbase.output(commitment).script());
    let solution = read_solution(&solution).map_err(SignetError::Solution)?;
    let mut leaves: Vec<Hash256> = txids.iter().map(|txid| txid.to_hash256()).collect();
    leaves[0] = Hash256(sha256d(&with_script(coinbase, commitment, &script)));
    let (root, _) = merkle::root(block.kernels(), &mut leaves);
    let bytes = to_sign(to_spend(block, root, challenge), &solution);
    let mut tables = Tables::new();
    let tx = tables.parse_transaction(&bytes).map_err(SignetError::Solution)?;
    let spent = [SpentOutput { value: Amount(0), script: challenge }];
    let flags = Flags::P2SH | Flags::WITNESS | Flags::DERSIG | Flags::NULLDUMMY;
    verify(&Precomputed::new(tx, &spent), 0, flags, &mut Immediate, &mut Scratch::new()).map_err(SignetError::Script)
}

/// The last output that is a witness commitment. Source: Bitcoin Core b88bffe, `GetWitnessCommitmentIndex`.
fn commitment_index(coinbase: Transaction<'_>) -> Option<usize> {
    (0..coinbase.output_count()).rev().find(|&index| {
        let script = coinbase.output(index).script();
        script.len() >= COMMITMENT_BYTES_MIN && script.starts_with(&COMMITMENT_HEADER)
    })
}

/// The script with the solution removed from its push, and the solution. Without a solution the script is unchanged.
/// With one, every push is rewritten, opcodes without data are copied, and a truncated instruction at the end is
/// dropped.
///
/// Source: Bitcoin Core b88bffe, `FetchAndClearCommitmentSection`.
fn take_solution(script: &[u8]) -> (Vec<u8>, Option<Vec<u8>>) {
    let mut rest = Vec::with_capacity(script.len());
    let mut solution = None;
    for instruction in Instructions::new(script) {
        let mut push = instruction.push;
        if push.is_empty() {
            rest.push(instruction.opcode);
            continue;
        }
        if solution.is_none()
            && let Some(found) = push.strip_prefix(&HEADER)
            && !found.is_empty()
        {
            solution = Some(found.to_vec());
            push = &push[..HEADER.len()];
        }
        push_data(&mut rest, push);
    }
    (if solution.is_some() { rest } else { script.to_vec() }, solution)
}

/// A solution: serialized scriptSig and witness, and whether the witness has items.
#[derive(Default)]
struct Solution<'a> {
    script_sig: &'a [u8],
    witness: &'a [u8],
    has_witness: bool,
}

/// A missing solution means an empty scriptSig and witness, which a trivial challenge accepts.
fn read_solution(solution: &Option<Vec<u8>>) -> Result<Solution<'_>, DecodeError> {
    let Some(bytes) = solution else { return Ok(Solution::default()) };
    let mut reader = Reader::new(bytes);
    let length = reader.compact_size()?;
    let script_sig = reader.take(length)?;
    let start = reader.offset();
    let items = reader.compact_size()?;
    for _ in 0..items {
        let length = reader.compact_size()?;
        reader.take(length)?;
    }
    reader.finish()?;
    Ok(Solution { script_sig, witness: &bytes[start..], has_witness: items != 0 })
}

fn put_with_length(out: &mut Vec<u8>, bytes: &[u8]) {
    put_compact_size(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A transaction serialized without witness, with one output's script replaced.
fn with_script(tx: Transaction<'_>, replaced: usize, script: &[u8]) -> Vec<u8> {
    let mut out = tx.version().to_le_bytes().to_vec();
    put_compact_size(&mut out, tx.input_count() as u64);
    for input in tx.inputs() {
        out.extend_from_slice(input.prevout_bytes());
        put_with_length(&mut out, input.script_sig());
        out.extend_from_slice(&input.sequence().to_le_bytes());
    }
    put_compact_size(&mut out, tx.output_count() as u64);
    for (index, output) in tx.outputs().enumerate() {
        out.extend_from_slice(&output.value().0.to_le_bytes());
        put_with_length(&mut out, if index == replaced { script } else { output.script() });
    }
    out.extend_from_slice(&tx.lock_time().to_le_bytes());
    out
}

/// The id of the transaction that commits to the block and pays to the challenge.
fn to_spend(block: &Block<'_>, root: Hash256, challenge: &[u8]) -> Txid {
    let header = block.header();
    let mut data = Vec::with_capacity(72);
    data.extend_from_slice(&header.version().to_le_bytes());
    data.extend_from_slice(header.prev().as_bytes());
    data.extend_from_slice(&root.0);
    data.extend_from_slice(&header.time().to_le_bytes());
    let mut script_sig = vec![OP_0];
    push_data(&mut script_sig, &data);
    let mut out = vec![0, 0, 0, 0, 1];
    out.extend_from_slice(&[0; 32]);
    out.extend_from_slice(&[0xff; 4]);
    put_with_length(&mut out, &script_sig);
    out.extend_from_slice(&[0; 4]);
    out.push(1);
    out.extend_from_slice(&[0; 8]);
    put_with_length(&mut out, challenge);
    out.extend_from_slice(&[0; 4]);
    Txid::from_bytes(sha256d(&out))
}

/// The transaction that spends it with the solution.
fn to_sign(spent: Txid, solution: &Solution<'_>) -> Vec<u8> {
    let mut out = vec![0, 0, 0, 0];
    if solution.has_witness {
        out.extend_from_slice(&[0, 1]);
    }
    out.push(1);
    out.extend_from_slice(spent.as_bytes());
    out.extend_from_slice(&[0; 4]);
    put_with_length(&mut out, solution.script_sig);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 1, OP_RETURN]);
    if solution.has_witness {
        out.extend_from_slice(solution.witness);
    }
    out.extend_from_slice(&[0; 4]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::hex;

    #[test]
    fn signet_solution_is_cut_from_commitment() {
        for (name, script, rest, solution) in [
            ("no header", "6a02abcd", "6a02abcd", None),
            ("the header alone is none", "6a04ecc7daa2", "6a04ecc7daa2", None),
            ("one byte more", "6a05ecc7daa2ff", "6a04ecc7daa2", Some("ff")),
            ("by a longer opcode, written again", "6a4c05ecc7daa2ff", "6a04ecc7daa2", Some("ff")),
            ("others are written again, too", "6a4c02abcd05ecc7daa2ff", "6a02abcd04ecc7daa2", Some("ff")),
            ("the second one stays", "05ecc7daa2ff05ecc7daa2ee", "04ecc7daa205ecc7daa2ee", Some("ff")),
            ("an empty push is its opcode", "4c0005ecc7daa2ff", "4c04ecc7daa2", Some("ff")),
            ("what is cut short is gone", "05ecc7daa2ff05ab", "04ecc7daa2", Some("ff")),
            ("and stays without a solution", "6a05ab", "6a05ab", None),
        ] {
            let got = take_solution(&hex::decode(script).unwrap());
            assert_eq!(hex::encode(&got.0), rest, "{name}");
            assert_eq!(got.1.map(|bytes| hex::encode(&bytes)), solution.map(str::to_owned), "{name}");
        }
    }

    #[test]
    fn signet_solution_must_end_with_its_bytes() {
        for (name, bytes, want) in [
            ("empty scriptSig and witness", "0000", true),
            ("both", "0151 02 01aa 00", true),
            ("no witness", "0151", false),
            ("scriptSig cut", "0251", false),
            ("item cut", "00 01 02aa", false),
            ("items missing", "00 02 01aa", false),
            ("a byte too many", "0000 00", false),
            ("length in three bytes", "fd0100 51 00", false),
            ("a count beyond everything", "00 fe00000002", false),
        ] {
            let bytes = Some(hex::decode(&bytes.replace(' ', "")).unwrap());
            assert_eq!(read_solution(&bytes).is_ok(), want, "{name}");
        }
        assert!(read_solution(&None).is_ok_and(|none| none.script_sig.is_empty() && !none.has_witness));
    }
}
