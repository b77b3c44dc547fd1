//! Calls that generate blocks.
//!
//! On regtest a block is created, mined, validated and connected in one step of the job, so that no other block comes
//! between; on other networks its nonce is searched outside the job. The coinbase has exactly Core's bytes: only time
//! and nonce differ.
//! Source: Bitcoin Core b88bffe, rpc/mining.cpp; node/miner.cpp, `CreateNewBlock`.

use super::block_template::{RESERVED_WEIGHT, next_version};
use super::mining::{BLOCK_MIN_FEE, bits_at, least_time};
use super::witness_commitment::{commitment, commitment_script};
use crate::args::{Args, int, text};
use crate::context::Context;
use crate::descriptor::{Descriptors, Known};
use crate::error::{Code, RpcError};
use crate::json::Json;
use crate::mempool_order::Graph;
use crate::output::Prefixes;
use crate::registry::{Arg, Call, Kind, Run};
use consensus::header::check_proof_of_work;
use consensus::{Chain, MAX_BLOCK_SIGOPS_COST, MAX_BLOCK_WEIGHT, Params, block, spend};
use kernels::sha256::sha256d;
use node::Fault;
use node::chain::tree::{NodeId, Tree};
use node::handle::{Live, Quiet, Submitted};
use node::mempool::Mempool;
use primitives::encode::put_compact_size;
use primitives::{BlockHash, Hash256, Header, Height, Tables, Txid, hex, merkle};
use std::collections::HashSet;
use std::sync::Arc;

/// Default number of nonces to try. Source: Core's `DEFAULT_MAX_TRIES`.
const TRIES_MAX: u64 = 1_000_000;
/// Signature operation cost that Core reserves for the coinbase. Source:
/// `DEFAULT_COINBASE_OUTPUT_MAX_ADDITIONAL_SIGOPS`.
const COINBASE_SIGOP_COST: u64 = 400;

const TRIES: Arg = Arg::optional("maxtries", Kind::Num, "How many iterations to try.");

/// These calls.
pub(super) const CALLS: &[Call] = &[
    Call {
        category: "hidden",
        name: "generate",
        about: "has been replaced by the -generate cli option. Refer to -help for more information.",
        args: &[],
        run: Run::Now(generate_is_gone),
    },
    Call {
        category: "hidden",
        name: "generateblock",
        about: "Mine a set of ordered transactions to a specified address or descriptor and return the block hash.\n\
                Transaction fees are not collected in the block reward.",
        args: &[
            Arg::needed("output", Kind::Str, "The address or descriptor to send the newly generated bitcoin to."),
            Arg::needed("transactions", Kind::Arr, "An array of hex strings which are raw transactions.")
                .shown_as("[\"rawtx/txid\",...]"),
            Arg::optional(
                "submit",
                Kind::Bool,
                "Whether to submit the block before the RPC call returns or to return it as hex.",
            ),
        ],
        run: Run::Now(generate_block),
    },
    Call {
        category: "hidden",
        name: "generatetoaddress",
        about: "Mine to a specified address and return the block hashes.",
        args: &[
            Arg::needed("nblocks", Kind::Num, "How many blocks are generated."),
            Arg::needed("address", Kind::Str, "The address to send the newly generated bitcoin to."),
            TRIES,
        ],
        run: Run::Now(generate_to_address),
    },
    Call {
        category: "hidden",
        name: "generatetodescriptor",
        about: "Mine to a specified descriptor and return the block hashes.",
        args: &[
            Arg::needed("num_blocks", Kind::Num, "How many blocks are generated."),
            Arg::needed("descriptor", Kind::Str, "The descriptor to send the newly generated bitcoin to."),
            TRIES,
        ],
        run: Run::Now(generate_to_descriptor),
    },
];

/// The script of an address of this network.
fn script_of_address(params: &Params, address: &str) -> Option<Vec<u8>> {
    Prefixes::of(params.chain).decode(address).ok()
}

/// Why a descriptor has no script to pay to.
enum NoScript {
    /// It is not a descriptor: Core's message.
    Unread(String),
    /// It is a descriptor, but cannot receive coins.
    Refused(RpcError),
}

impl From<NoScript> for RpcError {
    fn from(why: NoScript) -> RpcError {
        match why {
            NoScript::Unread(why) => RpcError::not_found(why),
            NoScript::Refused(error) => error,
        }
    }
}

/// The script to pay for a descriptor: of several, the witness script, otherwise that of a key's hash.
/// Source: Core's `getScriptFromDescriptor`.
fn script_of_descriptor(params: &Params, text: &str) -> Result<Vec<u8>, NoScript> {
    let refused = |error| Err(NoScript::Refused(error));
    let read = Descriptors::read(text, &Prefixes::of(params.chain)).map_err(NoScript::Unread)?;
    if read.count() > 1 {
        return refused(RpcError::parameter("Multipath descriptor not accepted"));
    }
    if read.is_ranged() {
        let why = "Ranged descriptor not accepted. Maybe pass through deriveaddresses first?";
        return refused(RpcError::parameter(why));
    }
    let scripts = read.scripts(0, 0, &mut Known::default()).unwrap_or_default();
    let at = match scripts.len() {
        0 | 1 => 0,
        4 => 2,
        _ => 1,
    };
    match scripts.into_iter().nth(at) {
        Some(script) => Ok(script),
        None => refused(RpcError::not_found("Cannot derive script without private keys")),
    }
}

/// Transactions of a block without its coinbase.
#[derive(Default)]
struct Others {
    transactions: Vec<Vec<u8>>,
    /// Their fees for the coinbase, in satoshis.
    fees: i64,
    weight: u64,
}

impl Others {
    /// The best transactions of the mempool, up to the size of a block. Source: Core's `addChunks`.
    fn waiting(mempool: &Mempool) -> Others {
        let graph = Graph::new(mempool.entries());
        let mut others = Others::default();
        let mut sigop_cost = COINBASE_SIGOP_COST;
        let mut skipped = HashSet::new();
        for chunk in graph.chunks() {
            let least = i128::from(chunk.rate.weight.div_ceil(4)) * i128::from(BLOCK_MIN_FEE);
            if i128::from(chunk.rate.fee) * 1000 < least {
                break;
            }
            let entries = || chunk.members.iter().map(|&index| &graph.entries()[index]);
            let cost: u64 = entries().map(|entry| entry.sigop_cost).sum();
            let has_room = RESERVED_WEIGHT + others.weight + chunk.rate.weight < MAX_BLOCK_WEIGHT as u64
                && sigop_cost + cost < MAX_BLOCK_SIGOPS_COST;
            // If a chunk did not fit, the rest of its cluster is skipped.
            if skipped.contains(&chunk.cluster) || !has_room {
                skipped.insert(chunk.cluster);
                continue;
            }
            sigop_cost += cost;
            others.fees += entries().map(|entry| entry.fee.0).sum::<i64>();
            others.weight += entries().map(|entry| entry.weight).sum::<u64>();
            others.transactions.extend(entries().map(|entry| entry.bytes.clone()));
        }
        others
    }

    fn given(transactions: Vec<Vec<u8>>) -> Others {
        Others { transactions, ..Others::default() }
    }

    /// Weight and number of transactions for getmininginfo.
    fn size(&self) -> (u64, u64) {
        (RESERVED_WEIGHT + self.weight, self.transactions.len() as u64)
    }
}

/// A block on top of the tip.
struct Template {
    header: Header,
    /// Coinbase first, all with witnesses.
    transactions: Vec<Vec<u8>>,
}

impl Template {
    /// A block with these transactions and a coinbase that pays subsidy and fees to `script`, without proof of work.
    /// `now` is in seconds since 1970.
    fn new(params: &Params, tree: &Tree, tip: NodeId, now: u64, script: &[u8], others: Others) -> Template {
        let Others { transactions: others, fees, .. } = others;
        let height = tree.height(tip) + 1;
        let time = u32::try_from(least_time(params, tree, tip).max(now)).unwrap_or(u32::MAX);
        let bits = bits_at(params, tree, tip, time);
        let reward = spend::subsidy(params, height).0 + fees;
        let coinbase = Coinbase::new(params, height, reward, script, &commitment(&others));
        let mut txids = vec![Hash256(sha256d(&coinbase.plain))];
        txids.extend(others.iter().map(|tx| txid(tx)));
        let root = merkle::root(kernels::Kernels::PLAIN, &mut txids).0;
        let header = Header::new(next_version(params, tree, tip), tree.hash(tip), root, time, bits, 0);
        let transactions = std::iter::once(coinbase.whole).chain(others).collect();
        Template { header, transactions }
    }

    /// A block on the tip of a job without blocks in flight.
    fn on_tip(quiet: &Quiet<'_, '_, '_>, script: &[u8], others: Others) -> Template {
        let tree = quiet.index().headers();
        Template::new(quiet.params(), &tree, quiet.tip().0, quiet.unix_time(), script, others)
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.header.0.to_vec();
        put_compact_size(&mut bytes, self.transactions.len() as u64);
        self.transactions.iter().for_each(|tx| bytes.extend_from_slice(tx));
        bytes
    }

    /// Searches a nonce from the last one on, and decrements `tries` for each failure; returns whether one was found.
    /// Source: Core's `GenerateBlock`.
    fn mine(&mut self, params: &Params, tries: &mut u64) -> bool {
        let old = self.header;
        for nonce in old.nonce()..u32::MAX {
            if *tries == 0 {
                return false;
            }
            self.header = Header::new(old.version(), old.prev(), old.merkle_root(), old.time(), old.bits(), nonce);
            if check_proof_of_work(params, &self.header.hash(), old.bits()).is_ok() {
                return true;
            }
            *tries -= 1;
        }
        false
    }
}

/// The id of a transaction that was parsed before.
fn txid(tx: &[u8]) -> Hash256 {
    let mut tables = Tables::new();
    let id = tables.parse_transaction(tx).map(|tx| tx.txid());
    id.map_or(Hash256::ZERO, |id| Hash256(*id.as_bytes()))
}

/// A coinbase.
struct Coinbase {
    /// Its bytes without the witness.
    plain: Vec<u8>,
    /// Its bytes with the witness that segwit requires.
    whole: Vec<u8>,
}

impl Coinbase {
    /// A coinbase that pays `reward` satoshis to `script`. As in Core, it commits to the witnesses even before
    /// segwit.
    fn new(params: &Params, height: Height, reward: i64, script: &[u8], commitment: &[u8; 32]) -> Coinbase {
        let (push, length) = block::height_push(height);
        let mut script_sig = push[..length].to_vec();
        if height.to_u32() <= 16 {
            // A coinbase's scriptSig has at least two bytes.
            script_sig.push(0);
        }
        let mut body = vec![1];
        body.extend_from_slice(&[0; 32]);
        body.extend_from_slice(&[0xff; 4]);
        put_compact_size(&mut body, script_sig.len() as u64);
        body.extend_from_slice(&script_sig);
        // Not final, so that the lock time counts.
        body.extend_from_slice(&0xffff_fffe_u32.to_le_bytes());
        body.push(2);
        put_output(&mut body, reward, script);
        put_output(&mut body, 0, &commitment_script(commitment));
        let version = 2_u32.to_le_bytes();
        let lock_time = (height.to_u32() - 1).to_le_bytes();
        let plain = [&version[..], &body, &lock_time].concat();
        let whole = match height >= params.segwit_height {
            true => [&version[..], &[0, 1], &body, &[1, 32], &[0; 32], &lock_time].concat(),
            false => plain.clone(),
        };
        Coinbase { plain, whole }
    }
}

fn put_output(out: &mut Vec<u8>, value: i64, script: &[u8]) {
    out.extend_from_slice(&value.to_le_bytes());
    put_compact_size(out, script.len() as u64);
    out.extend_from_slice(script);
}

/// Refuses a call on other networks than regtest, where the job would wait for the nonce.
fn check_regtest(context: &Context) -> Result<Arc<Live>, RpcError> {
    let live = context.live()?;
    match live.params().chain {
        Chain::Regtest => Ok(live),
        _ => Err(RpcError::misc("ffwd makes such blocks only on regtest")),
    }
}

fn generate_is_gone(context: &Context, _args: &Args<'_>) -> Result<Json, RpcError> {
    Err(RpcError::new(Code::MethodNotFound, context.registry.help("generate")))
}

fn test_failed(why: &str) -> String {
    format!("TestBlockValidity failed: {why}")
}

/// Generates blocks in sequence, with other clients' actions in between. Source: Core's `generateBlocks`.
fn generate(context: &Context, count: i32, tries: u64, script: &[u8]) -> Result<Json, RpcError> {
    let mut hashes: Vec<Json> = Vec::new();
    let mut tries: u64 = tries;
    for _ in 0..count.max(0) {
        if context.is_stopping() {
            break;
        }
        // Except on regtest, a nonce takes time, for which the job does not wait.
        let made = match context.live()?.params().chain {
            Chain::Regtest => made_at_once(context, &mut tries, script)?,
            _ => made_aside(context, &mut tries, script)?,
        };
        match made {
            None => break,
            Some(hash) => hashes.push(hash.into()),
        }
    }
    Ok(hashes.into())
}

/// Generates one block while the job waits; `None` if no nonce was found.
fn made_at_once(context: &Context, tries: &mut u64, script: &[u8]) -> Result<Option<BlockHash>, RpcError> {
    let script = script.to_vec();
    let handle = context.handle.clone();
    let given = *tries;
    let (made, left) = context.ask(move |quiet| {
        let mut tries = given;
        let others = Others::waiting(handle.mempool());
        let (weight, count) = others.size();
        let mut block = Template::on_tip(quiet, &script, others);
        handle.set_last_made(weight, count);
        if !block.mine(quiet.params(), &mut tries) {
            return Ok((None, 0));
        }
        Ok((Some(take(quiet, &block)?), tries))
    })?;
    *tries = left;
    made.transpose()
}

/// Generates one block, with the search for its nonce on this thread.
fn made_aside(context: &Context, tries: &mut u64, script: &[u8]) -> Result<Option<BlockHash>, RpcError> {
    /// Number of tries between two checks whether the program ends.
    const TRIES_AT_ONCE: u64 = 1 << 16;
    let script = script.to_vec();
    let handle = context.handle.clone();
    let live = context.live()?;
    let mut block = context.ask(move |quiet| {
        let others = Others::waiting(handle.mempool());
        let (weight, count) = others.size();
        handle.set_last_made(weight, count);
        Ok(Template::on_tip(quiet, &script, others))
    })?;
    loop {
        let mut some = (*tries).min(TRIES_AT_ONCE);
        *tries -= some;
        let is_found = block.mine(live.params(), &mut some);
        *tries += some;
        if is_found {
            break;
        }
        if *tries == 0 || block.header.nonce() == u32::MAX - 1 || context.is_stopping() {
            return Ok(None);
        }
    }
    context.ask(move |quiet| take(quiet, &block))?.map(Some)
}

/// Submits a generated block.
fn take(quiet: &mut Quiet<'_, '_, '_>, block: &Template) -> Result<Result<BlockHash, RpcError>, Fault> {
    let bytes = block.bytes();
    if let Some(why) = quiet.test_block(&bytes)? {
        return Ok(Err(RpcError::misc(test_failed(&why))));
    }
    Ok(not_accepted(&quiet.submit_block(&bytes)?).map_or_else(|| Ok(block.header.hash()), Err))
}

fn not_accepted(submitted: &Submitted) -> Option<RpcError> {
    match submitted {
        Submitted::Connected | Submitted::Inconclusive | Submitted::Duplicate => None,
        Submitted::Refused(_) => Some(RpcError::new(Code::Internal, "ProcessNewBlock, block not accepted")),
    }
}

fn generate_to_address(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let live = context.live()?;
    let count = args.int(0)?;
    // As in Core, a negative number becomes a large one.
    let tries = if args.is_given(2) { i64::from(args.int(2)?).cast_unsigned() } else { TRIES_MAX };
    let script = script_of_address(live.params(), args.text(1)?);
    let script = script.ok_or_else(|| RpcError::not_found("Error: Invalid address"))?;
    generate(context, count, tries, &script)
}

fn generate_to_descriptor(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let live = context.live()?;
    let count = args.int(0)?;
    let tries = if args.is_given(2) { int::<u64>(args.get(2))? } else { TRIES_MAX };
    let script = script_of_descriptor(live.params(), args.text(1)?)?;
    generate(context, count, tries, &script)
}

/// The transactions of the block: in hexadecimal, or by their ids from the mempool.
fn given_transactions(context: &Context, args: &Args<'_>) -> Result<Vec<Vec<u8>>, RpcError> {
    let read = |value: &Json| {
        let given = text(value)?;
        let raw = hex::decode(given);
        if given.len() == 64
            && let Some(txid) = Txid::from_display(given)
        {
            let waiting = context.handle.mempool().get(&txid).map(|entry| entry.bytes.clone());
            return waiting.ok_or_else(|| RpcError::not_found(format!("Transaction {given} not in mempool.")));
        }
        raw.filter(|raw| Tables::new().parse_transaction(raw).is_ok_and(|tx| tx.bytes() == raw)).ok_or_else(|| {
            let why = format!("Transaction decode failed for {given}. Make sure the tx has at least one input.");
            RpcError::new(Code::Deserialization, why)
        })
    };
    args.list(1)?.iter().map(read).collect()
}

fn generate_block(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let live = check_regtest(context)?;
    let output = args.text(0)?;
    let script = match script_of_descriptor(live.params(), output) {
        Ok(script) => script,
        Err(NoScript::Refused(error)) => return Err(error),
        Err(NoScript::Unread(_)) => script_of_address(live.params(), output)
            .ok_or_else(|| RpcError::not_found("Error: Invalid address or descriptor"))?,
    };
    let others = given_transactions(context, args)?;
    let is_submitted = args.bool_or(2, true)?;
    let handle = context.handle.clone();
    let made: Result<(BlockHash, Vec<u8>), RpcError> = context.ask(move |quiet| {
        // A block without other transactions must be valid.
        let mut tries = TRIES_MAX;
        let mut empty = Template::on_tip(quiet, &script, Others::default());
        handle.set_last_made(RESERVED_WEIGHT, 0);
        if empty.mine(quiet.params(), &mut tries)
            && let Some(why) = quiet.test_block(&empty.bytes())?
        {
            return Ok(Err(RpcError::misc(test_failed(&why))));
        }
        let mut block = Template::on_tip(quiet, &script, Others::given(others));
        let mut tries = TRIES_MAX;
        if !block.mine(quiet.params(), &mut tries) {
            return Ok(Err(RpcError::misc("Failed to make block.")));
        }
        let hash = block.header.hash();
        let bytes = block.bytes();
        if let Some(why) = quiet.test_block(&bytes)? {
            return Ok(Err(RpcError::new(Code::Verify, test_failed(&why))));
        }
        if is_submitted && let Some(error) = not_accepted(&quiet.submit_block(&bytes)?) {
            return Ok(Err(error));
        }
        Ok(Ok((hash, bytes)))
    })?;
    let (hash, bytes) = made?;
    let fields = Json::object().put("hash", hash);
    Ok(if is_submitted { fields.end() } else { fields.put("hex", hex::encode(&bytes)).end() })
}
