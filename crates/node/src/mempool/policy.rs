//! Which transactions Core mines by default: rules of policy, not of consensus. Values in, verdict out.
//!
//! Core's options for them have their defaults here, except for `-acceptnonstdtxn` (`returned`). Source: Bitcoin Core
//! b88bffe, policy/policy.cpp.

use consensus::spend::input_sigop_cost;
use consensus::transaction::legacy_sigops;
use consensus::{SpentCoin, WITNESS_SCALE_FACTOR, cleanup};
use primitives::coin::is_unspendable;
use primitives::script_type::ScriptType;
use primitives::{Output, Transaction};
use script::Flags;
use script::opcode::{Instructions, is_push_only, p2sh, witness_program};
use script::sigops;

/// Versions. Source: `TX_MIN_STANDARD_VERSION`, `TX_MAX_STANDARD_VERSION`.
const VERSIONS: std::ops::RangeInclusive<u32> = 1..=3;
/// Source: `MAX_STANDARD_TX_WEIGHT`.
const WEIGHT_MAX: u64 = 400_000;
/// Bytes without witnesses, against CVE-2017-12842. Source: `MIN_STANDARD_TX_NONWITNESS_SIZE`.
const STRIPPED_BYTES_MIN: usize = 65;
/// Source: `MAX_STANDARD_SCRIPTSIG_SIZE`.
const SCRIPT_SIG_BYTES_MAX: usize = 1650;
/// Bytes of all data-carrier scripts. Source: `MAX_OP_RETURN_RELAY`.
const DATA_BYTES_MAX: usize = 100_000;
/// Outputs that cost more to spend than they are worth. Source: `MAX_DUST_OUTPUTS_PER_TX`.
const DUST_OUTPUTS_MAX: usize = 1;
/// Fee rate that defines dust, in satoshis per byte. Source: `DUST_RELAY_TX_FEE`.
const DUST_FEE: u64 = 3;
/// Bytes of the input that spends an output, with a witness and without. Source: `GetDustThreshold`.
const INPUT_BYTES: (u64, u64) = (67, 148);
/// Source: `MAX_P2SH_SIGOPS`.
const P2SH_SIGOPS_MAX: u32 = 15;
/// Source: `MAX_STANDARD_TX_SIGOPS_COST`.
pub(super) const SIGOP_COST_MAX: u64 = 16_000;
/// Source: `MAX_STANDARD_P2WSH_SCRIPT_SIZE`, `MAX_STANDARD_P2WSH_STACK_ITEMS`, `MAX_STANDARD_P2WSH_STACK_ITEM_SIZE`.
const P2WSH_SCRIPT_BYTES_MAX: usize = 3600;
const P2WSH_ITEMS_MAX: usize = 100;
const P2WSH_ITEM_BYTES_MAX: usize = 80;
/// Source: `MAX_STANDARD_TAPSCRIPT_STACK_ITEM_SIZE`.
const TAPSCRIPT_ITEM_BYTES_MAX: usize = 80;
/// First byte of an annex. Source: BIP-0341.
const ANNEX: u8 = 0x50;
/// Leaf version of tapscript, and the bits of a control block that hold one. Source: BIP-0342, BIP-0341.
const TAPSCRIPT: u8 = 0xc0;
const LEAF_MASK: u8 = 0xfe;

/// The flags for verifying scripts. Source: `STANDARD_SCRIPT_VERIFY_FLAGS`.
pub(super) fn flags() -> Flags {
    !Flags::SIGPUSHONLY
}

/// Weight of a transaction. Source: BIP-0141.
pub(super) fn weight(tx: &Transaction<'_>) -> u64 {
    (tx.stripped_bytes() * (WITNESS_SCALE_FACTOR - 1) + tx.bytes().len()) as u64
}

/// Whether a transaction is standard by the rules that need no coins; Core's reason if not. Source: `IsStandardTx`.
pub(super) fn check_standard(tx: &Transaction<'_>) -> Result<(), &'static str> {
    if !VERSIONS.contains(&tx.version()) {
        return Err("version");
    }
    if weight(tx) > WEIGHT_MAX {
        return Err("tx-size");
    }
    for input in tx.inputs() {
        if input.script_sig().len() > SCRIPT_SIG_BYTES_MAX {
            return Err("scriptsig-size");
        }
        if !is_push_only(input.script_sig()) {
            return Err("scriptsig-not-pushonly");
        }
    }
    let mut data_bytes = 0;
    for script in tx.outputs().map(|output| output.script()) {
        match ScriptType::of_script(script) {
            ScriptType::NonStandard => return Err("scriptpubkey"),
            // The number of keys is before the last opcode, as OP_1 to OP_3.
            ScriptType::Multisig if !matches!(script, [.., 0x51..=0x53, _]) => return Err("scriptpubkey"),
            ScriptType::NullData => data_bytes += script.len(),
            _ => {}
        }
        if data_bytes > DATA_BYTES_MAX {
            return Err("datacarrier");
        }
    }
    if dust_outputs(tx) > DUST_OUTPUTS_MAX { Err("dust") } else { Ok(()) }
}

/// Whether a transaction is too large to be confused with a node of a Merkle tree. Source: `PreChecks`.
pub(super) fn is_large_enough(tx: &Transaction<'_>) -> bool {
    tx.stripped_bytes() >= STRIPPED_BYTES_MIN
}

/// Source: `GetDustThreshold`.
fn is_dust(output: &Output<'_>) -> bool {
    let script = output.script();
    if is_unspendable(script) {
        return false;
    }
    let input = if witness_program(script).is_some() { INPUT_BYTES.0 } else { INPUT_BYTES.1 };
    let threshold = (output.serialized().len() as u64 + input) * DUST_FEE;
    output.value().0 < threshold.cast_signed()
}

/// Number of outputs that are not worth spending; a transaction with one must pay no fee. Source: `GetDust`,
/// `PreCheckEphemeralTx`.
pub(super) fn dust_outputs(tx: &Transaction<'_>) -> usize {
    tx.outputs().filter(is_dust).count()
}

/// Whether a transaction's inputs, without their witnesses, are standard; the reason if not, in Core's words. `coins`
/// are those of its inputs. Source: `ValidateInputsStandardness`.
pub(super) fn check_inputs_standard(tx: &Transaction<'_>, coins: &[SpentCoin<'_>]) -> Result<(), String> {
    let mut legacy = 0;
    for (input, coin) in tx.inputs().zip(coins) {
        // BIP-0054's limit already applies as policy.
        let sum = cleanup::add_sigops(legacy, &input, coin.script);
        legacy = sum.map_err(|_| "non-witness sigops exceed bip54 limit")?;
    }
    for (index, (input, coin)) in tx.inputs().zip(coins).enumerate() {
        match ScriptType::of_script(coin.script) {
            ScriptType::NonStandard => return Err(format!("input {index} script unknown")),
            ScriptType::WitnessUnknown => return Err(format!("input {index} witness program is undefined")),
            _ => {}
        }
        if p2sh(coin.script).is_some() && Instructions::new(input.script_sig()).next().is_none() {
            return Err(format!("input {index} P2SH redeemscript missing"));
        }
        let sigops = sigops::p2sh(input.script_sig(), coin.script);
        if sigops > P2SH_SIGOPS_MAX {
            let found = format!("input {index}: {sigops} > {P2SH_SIGOPS_MAX}");
            return Err(format!("p2sh redeemscript sigops exceed limit ({found})"));
        }
    }
    Ok(())
}

/// Whether its witnesses are standard. Source: `IsWitnessStandard`.
pub(super) fn are_witnesses_standard(tx: &Transaction<'_>, coins: &[SpentCoin<'_>]) -> bool {
    tx.inputs().zip(coins).all(|(input, coin)| {
        let stack: Vec<&[u8]> = input.witness().collect();
        let nested = p2sh(coin.script).map(|_| last_push(input.script_sig()));
        stack.is_empty() || is_stack_standard(&stack, nested.unwrap_or(coin.script), nested.is_some())
    })
}

fn is_stack_standard(stack: &[&[u8]], script: &[u8], is_nested: bool) -> bool {
    if ScriptType::of_script(script) == ScriptType::Anchor {
        return false;
    }
    let Some((version, program)) = witness_program(script) else { return false };
    let Some((last, below)) = stack.split_last() else { return true };
    let are_small = |items: &[&[u8]], most: usize| items.iter().all(|item| item.len() <= most);
    match (version, program.len(), is_nested) {
        (0, 32, _) => {
            last.len() <= P2WSH_SCRIPT_BYTES_MAX
                && below.len() <= P2WSH_ITEMS_MAX
                && are_small(below, P2WSH_ITEM_BYTES_MAX)
        }
        // A key path spend has nothing more to check.
        (1, 32, false) if below.is_empty() => true,
        (1, 32, false) => match last.first() {
            None | Some(&ANNEX) => false,
            Some(leaf) if leaf & LEAF_MASK == TAPSCRIPT => {
                are_small(&below[..below.len() - 1], TAPSCRIPT_ITEM_BYTES_MAX)
            }
            Some(_) => true,
        },
        _ => true,
    }
}

/// The data pushed by the last instruction of a script.
fn last_push(script: &[u8]) -> &[u8] {
    Instructions::new(script).last().map_or(&[], |instruction| instruction.push)
}

/// Signature operation cost of a transaction that spends these coins. Source: `GetTransactionSigOpCost`.
pub(super) fn sigop_cost(tx: &Transaction<'_>, coins: &[SpentCoin<'_>]) -> u64 {
    let of_inputs = tx.inputs().zip(coins).map(|(input, coin)| input_sigop_cost(&input, coin.script, flags()));
    u64::from(legacy_sigops(tx)) * WITNESS_SCALE_FACTOR as u64 + of_inputs.sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::{Amount, Height, OutPoint, Tables, Txid};
    use testkit::blocks::{In, Tx};

    const ANCHOR: &[u8] = &[0x51, 2, 0x4e, 0x73];

    fn outpoint() -> OutPoint {
        OutPoint { txid: Txid::from_bytes([7; 32]), vout: 0 }
    }

    fn key_hash() -> Vec<u8> {
        [&[0x76, 0xa9, 0x14][..], &[1; 20], &[0x88, 0xac]].concat()
    }

    fn paying(outputs: Vec<(i64, Vec<u8>)>) -> Tx {
        Tx { outputs, ..Tx::spend(outpoint(), 0) }
    }

    fn is(tx: &Tx) -> bool {
        let (bytes, mut tables) = (tx.bytes(), Tables::new());
        let tx = tables.parse_transaction(&bytes).unwrap();
        check_standard(&tx).is_ok() && is_large_enough(&tx)
    }

    /// Each row is on one side of a limit of Core's.
    #[test]
    fn transactions_are_standard_or_not_as_in_core() {
        let good = paying(vec![(1000, key_hash())]);
        let multisig = |keys: usize| {
            let key = [&[33, 2][..], &[5; 32]].concat();
            [&[0x51][..], &key.repeat(keys), &[0x50 + keys as u8, 0xae]].concat()
        };
        let data = |bytes: usize| {
            let mut script = vec![0x6a, 0x4e];
            script.extend_from_slice(&(bytes as u32 - 6).to_le_bytes());
            script.resize(bytes, 0);
            script
        };
        let signed = |script_sig: Vec<u8>| Tx {
            inputs: vec![In { script_sig, ..In::of(outpoint()) }],
            ..paying(vec![(1000, key_hash())])
        };
        for (row, tx, want) in [
            ("pays to a key's hash", good.clone(), true),
            ("version 0", Tx { version: 0, ..good.clone() }, false),
            ("version 3", Tx { version: 3, ..good.clone() }, true),
            ("version 4", Tx { version: 4, ..good.clone() }, false),
            ("64 bytes", paying(vec![(1000, ANCHOR.to_vec())]), false),
            ("65 bytes", paying(vec![(1000, [&[0x51, 3][..], &[1; 3]].concat())]), true),
            ("anyone can spend", paying(vec![(1000, vec![0x51]), (1000, key_hash())]), false),
            ("of three keys", paying(vec![(1000, multisig(3))]), true),
            ("of four keys", paying(vec![(1000, multisig(4))]), false),
            ("data up to the weight", paying(vec![(0, data(99_900))]), true),
            ("data beyond the weight", paying(vec![(0, data(100_000))]), false),
            ("545 satoshis, and 545", paying(vec![(545, key_hash()), (545, key_hash())]), false),
            ("545 satoshis, and 546", paying(vec![(545, key_hash()), (546, key_hash())]), true),
            ("239 to an anchor, twice", paying(vec![(239, ANCHOR.to_vec()), (239, ANCHOR.to_vec())]), false),
            ("240 to an anchor, twice", paying(vec![(240, ANCHOR.to_vec()), (240, ANCHOR.to_vec())]), true),
            ("scriptSig of 1,650 bytes", signed(vec![0; 1650]), true),
            ("scriptSig of 1,651 bytes", signed(vec![0; 1651]), false),
            ("scriptSig that does more than push", signed(vec![0x61]), false),
        ] {
            assert_eq!(is(&tx), want, "{row}");
        }
    }

    fn coin(script: &[u8]) -> SpentCoin<'_> {
        SpentCoin { height: Height::new(1), coinbase: false, value: Amount(1000), script }
    }

    #[test]
    fn inputs_are_standard_or_not_as_in_core() {
        let hash = [&[0xa9, 0x14][..], &[1; 20], &[0x87]].concat();
        let redeem = |operations: usize| [&[operations as u8][..], &vec![0xac; operations]].concat();
        let program = |version: u8, bytes: usize| [&[version, bytes as u8][..], &vec![1; bytes]].concat();
        let (wrapped, nothing) = (redeem(0), Vec::new());
        for (row, script, script_sig, want) in [
            ("key's hash", key_hash(), &nothing, true),
            ("not known", vec![0x51], &nothing, false),
            ("witness of version 2", program(0x52, 32), &nothing, false),
            ("anchor", ANCHOR.to_vec(), &nothing, true),
            ("script without operations", hash.clone(), &wrapped, true),
            ("script of 15 operations", hash.clone(), &redeem(15), true),
            ("script of 16 operations", hash.clone(), &redeem(16), false),
        ] {
            let tx = Tx { inputs: vec![In { script_sig: script_sig.clone(), ..In::of(outpoint()) }], ..paying(vec![]) };
            let (bytes, mut tables) = (tx.bytes(), Tables::new());
            let tx = tables.parse_transaction(&bytes).unwrap();
            assert_eq!(check_inputs_standard(&tx, &[coin(&script)]).is_ok(), want, "{row}");
        }
    }

    #[test]
    fn witnesses_are_standard_or_not_as_in_core() {
        let program = |version: u8, bytes: usize| [&[version, bytes as u8][..], &vec![1; bytes]].concat();
        let (hash, root) = (program(0, 32), program(0x51, 32));
        let big = |bytes: usize| vec![1; bytes];
        let control = |leaf: u8| vec![leaf; 33];
        for (row, script, is_nested, stack, want) in [
            ("with an anchor", ANCHOR.to_vec(), false, vec![big(1)], false),
            ("without a program", key_hash(), false, vec![big(1)], false),
            ("script of 3,600 bytes", hash.clone(), false, vec![big(80), big(3600)], true),
            ("script of 3,601 bytes", hash.clone(), true, vec![big(80), big(3601)], false),
            ("item of 81 bytes", hash.clone(), false, vec![big(81), big(1)], false),
            ("100 items", hash.clone(), false, vec![big(1); 101], true),
            ("101 items", hash, false, vec![big(1); 102], false),
            ("key", root.clone(), false, vec![big(64)], true),
            ("annex", root.clone(), false, vec![big(64), control(0x50)], false),
            ("tapscript, item of 80 bytes", root.clone(), false, vec![big(80), big(9000), control(0xc1)], true),
            ("tapscript, item of 81 bytes", root.clone(), false, vec![big(81), big(9), control(0xc0)], false),
            ("another leaf, item of 81 bytes", root.clone(), false, vec![big(81), big(9), control(0xc2)], true),
            ("in a hash it is another program", root.clone(), true, vec![big(64), control(0x50)], true),
            ("control block of no byte", root, false, vec![big(9), big(0)], false),
        ] {
            let stack: Vec<&[u8]> = stack.iter().map(Vec::as_slice).collect();
            assert_eq!(is_stack_standard(&stack, &script, is_nested), want, "{row}");
        }
    }
}
