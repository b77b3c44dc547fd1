//! Computes many hashes at a time, in vector lanes: before a transaction's scripts run, the hashes that its inputs
//! share; afterwards, the hashes that signatures sign.
//!
//! [`hash_shared`] fills [`Precomputed`] of many transactions. [`Ahead`] collects the messages of many inputs until all
//! are hashed: the messages of signatures, and the keys whose HASH160 must match.
//!
//! Absent on purpose: long messages ([`super::longs`]), and rare ones, which are hashed when they are needed.

use super::taproot::put_message;
use super::{Code, Coins, Extension, Parts, Precomputed, Sink, legacy, segwit, tagged};
use crate::opcode::{OP_0, OP_1, p2sh};
use kernels::Kernels;
use kernels::sha256::Pieces;
use std::ops::Range;

/// Maximum number of inputs of a transaction whose shared hashes are computed ahead; it limits the copied bytes.
const INPUTS_MAX: usize = 64;
/// Maximum bytes of spent scripts with which a transaction's shared hashes are computed ahead, if these scripts are
/// hashed too.
const SCRIPT_BYTES_MAX: usize = 4096;
/// Maximum number of inputs that are examined to predict the needs of the transaction's other inputs.
const LOOKED_AT_MAX: usize = 8;

/// Computes the shared hashes that the inputs of each transaction are likely to need. Any others are computed on
/// demand.
pub fn hash_shared(kernels: Kernels, txs: &[Precomputed<'_>]) {
    let mut bytes = Vec::new();
    let mut twice = Vec::new();
    let mut once = Vec::new();
    for tx in txs.iter().filter(|tx| tx.spent.len() <= INPUTS_MAX) {
        match wants(tx) {
            Wants::Nothing => {}
            Wants::Twice => twice.push(Shared::gather(tx, &mut bytes, false)),
            Wants::Once if script_bytes(tx) > SCRIPT_BYTES_MAX => {}
            Wants::Once => once.push(Shared::gather(tx, &mut bytes, true)),
        }
    }
    let hashes = |shared: &[Shared<'_, '_>], many: fn(Kernels, &[Pieces<'_>], &mut [[u8; 32]])| {
        let messages: Vec<Pieces<'_>> = shared.iter().flat_map(|shared| shared.messages(&bytes)).collect();
        let mut hashes = vec![[0; 32]; messages.len()];
        many(kernels, &messages, &mut hashes);
        hashes
    };
    let parts = |&[prevouts, sequences, outputs]: &[[u8; 32]; 3]| Parts { prevouts, sequences, outputs };
    for (shared, hashes) in twice.iter().zip(hashes(&twice, Kernels::sha256d_many).as_chunks().0) {
        // If there is a value already, it is the same.
        let _ = shared.tx.parts_twice.set(parts(hashes));
    }
    for (shared, hashes) in once.iter().zip(hashes(&once, Kernels::sha256_many).as_chunks::<5>().0) {
        let (first, &[amounts, scripts]) = hashes.split_first_chunk().expect("five hashes") else {
            unreachable!("three of five leave two")
        };
        let _ = shared.tx.parts.set(parts(first));
        let _ = shared.tx.coins.set(Coins { amounts, scripts });
    }
}

/// The hashes that a transaction's inputs are likely to share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wants {
    Nothing,
    /// Inputs of a version 0 witness program need these hashes.
    Twice,
    /// Taproot inputs need them; for the others they are the first half of the work.
    Once,
}

fn wants(tx: &Precomputed<'_>) -> Wants {
    let mut wants = Wants::Nothing;
    for (input, coin) in tx.tx.inputs().zip(tx.spent).take(LOOKED_AT_MAX) {
        match *coin.script {
            [OP_1, 32, ref key @ ..] if key.len() == 32 => return Wants::Once,
            [OP_0, bytes @ (20 | 32), ref program @ ..] if program.len() == usize::from(bytes) => wants = Wants::Twice,
            _ if p2sh(coin.script).is_some() && input.witness().len() != 0 => wants = Wants::Twice,
            _ => {}
        }
    }
    wants
}

/// Bytes of the scripts that a transaction spends.
fn script_bytes(tx: &Precomputed<'_>) -> usize {
    tx.spent.iter().map(|coin| coin.script.len()).sum()
}

/// The positions, in the collected bytes, of a transaction's messages that are not contiguous in the transaction
/// itself.
struct Shared<'t, 'a> {
    tx: &'t Precomputed<'a>,
    prevouts: Range<usize>,
    sequences: Range<usize>,
    /// Amounts and scripts, if needed.
    coins: Option<[Range<usize>; 2]>,
}

impl<'t, 'a> Shared<'t, 'a> {
    fn gather(tx: &'t Precomputed<'a>, bytes: &mut Vec<u8>, with_coins: bool) -> Shared<'t, 'a> {
        let prevouts = bytes.len();
        tx.tx.inputs().for_each(|input| bytes.put(input.prevout_bytes()));
        let sequences = bytes.len();
        tx.tx.inputs().for_each(|input| bytes.put(&input.sequence().to_le_bytes()));
        let amounts = bytes.len();
        let coins = with_coins.then(|| {
            tx.spent.iter().for_each(|coin| bytes.put(&coin.value.0.to_le_bytes()));
            let scripts = bytes.len();
            tx.spent.iter().for_each(|coin| bytes.put_with_length(coin.script));
            [amounts..scripts, scripts..bytes.len()]
        });
        Shared { tx, prevouts: prevouts..sequences, sequences: sequences..amounts, coins }
    }

    /// Prevouts, sequences, outputs; amounts and scripts.
    fn messages<'b>(&'b self, bytes: &'b [u8]) -> impl Iterator<Item = Pieces<'b>> {
        let of = move |range: &Range<usize>| &bytes[range.clone()];
        let coins = self.coins.iter().flatten().map(of);
        [of(&self.prevouts), of(&self.sequences), self.tx.outputs]
            .into_iter()
            .chain(coins)
            .map(|bytes| [bytes, &[], &[]])
    }
}

/// Messages of inputs that wait to be hashed, each with its check.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    bytes: Vec<u8>,
    /// Before taproot: hashed twice.
    twice: Vec<Message>,
    /// Messages of taproot, hashed once after a tag.
    tagged: Vec<Message>,
    /// Keys and scripts, and their HASH160.
    hash160: Vec<(Message, [u8; 20])>,
    /// The check in progress.
    check: usize,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    start: usize,
    end: usize,
    /// The position of the check.
    check: usize,
}

/// A saved state of [`Ahead`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark([usize; 4]);

impl Ahead {
    /// Begins the messages of the check that gets this position.
    pub(crate) fn begin(&mut self, check: usize) -> Mark {
        self.check = check;
        Mark([self.bytes.len(), self.twice.len(), self.tagged.len(), self.hash160.len()])
    }

    /// Removes the messages that were added since then.
    pub(crate) fn back_to(&mut self, Mark([bytes, twice, tagged, hash160]): Mark) {
        self.bytes.truncate(bytes);
        self.twice.truncate(twice);
        self.tagged.truncate(tagged);
        self.hash160.truncate(hash160);
    }

    /// Bytes of the messages that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Removes all messages, keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.back_to(Mark([0; 4]));
    }

    fn message(&self, start: usize) -> Message {
        Message { start, end: self.bytes.len(), check: self.check }
    }

    /// Requires that the HASH160 of `bytes` is `want`.
    pub(crate) fn want_hash160(&mut self, bytes: &[u8], want: [u8; 20]) {
        let start = self.bytes.len();
        self.bytes.put(bytes);
        self.hash160.push((self.message(start), want));
    }

    /// The check's hash is [`super::legacy`]. Returns `false`, and collects nothing, if the message is not suitable.
    pub(crate) fn want_legacy(&mut self, tx: &Precomputed<'_>, input: usize, code: &[u8], hash_type: u8) -> bool {
        let start = self.bytes.len();
        let kind = u32::from(hash_type);
        let is_short = legacy::put_short(&mut self.bytes, tx, input, Code::new(code), kind, legacy::SHORT_BYTES_MAX);
        if is_short {
            self.twice.push(self.message(start));
        }
        is_short
    }

    /// The check's hash is [`super::witness_v0`]; `code` is short.
    pub(crate) fn want_witness_v0(&mut self, tx: &Precomputed<'_>, input: usize, code: &[u8], hash_type: u8) {
        let start = self.bytes.len();
        segwit::put_message(&mut self.bytes, tx, input, code, u32::from(hash_type));
        self.twice.push(self.message(start));
    }

    /// The check's hash is that of [`super::taproot`] by key path, without an annex; `None` if there is no such hash.
    pub(crate) fn want_key_path(&mut self, tx: &Precomputed<'_>, input: usize, hash_type: u8) -> Option<()> {
        let start = self.bytes.len();
        put_message(&mut self.bytes, tx, input, hash_type, &mut Extension::default())?;
        self.tagged.push(self.message(start));
        Some(())
    }

    /// Computes all hashes, passes each to `set` with the position of its check, and returns the positions of checks
    /// whose key or script has the wrong hash.
    pub(crate) fn settle(&self, kernels: Kernels, mut set: impl FnMut(usize, [u8; 32])) -> Vec<usize> {
        let of = |message: &Message| &self.bytes[message.start..message.end];
        let messages: Vec<Pieces<'_>> = self.twice.iter().map(|message| [of(message), &[], &[]]).collect();
        let mut hashes = vec![[0; 32]; messages.len()];
        kernels.sha256d_many(&messages, &mut hashes);
        self.twice.iter().zip(&hashes).for_each(|(message, hash)| set(message.check, *hash));

        let tag = &tagged::SIGHASH_START[..];
        let mut messages: Vec<Pieces<'_>> = self.tagged.iter().map(|message| [tag, of(message), &[]]).collect();
        messages.extend(self.hash160.iter().map(|(message, _)| [of(message), &[], &[]]));
        hashes.clear();
        hashes.resize(messages.len(), [0; 32]);
        kernels.sha256_many(&messages, &mut hashes);
        let (sighashes, digests) = hashes.split_at(self.tagged.len());
        self.tagged.iter().zip(sighashes).for_each(|(message, hash)| set(message.check, *hash));

        let mut found = vec![[0; 20]; digests.len()];
        kernels.ripemd160(digests, &mut found);
        let is_wrong =
            |((message, want), found): (&(Message, [u8; 20]), [u8; 20])| (*want != found).then_some(message.check);
        self.hash160.iter().zip(found).filter_map(is_wrong).collect()
    }
}
