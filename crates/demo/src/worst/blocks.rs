//! Builds blocks around the transactions of a kind: anyone-can-spend coinbases, wide transactions that create the
//! coins to spend, and the witness commitment.

use std::path::Path;

use consensus::block::height_push;
use consensus::{Chain, Params};
use kernels::Kernels;
use kernels::sha256::sha256d;
use primitives::{Hash256, Height, merkle};

use super::tx::{Input, Output, Tx};
use crate::chain::Error;
use crate::chain::files::{BlockFiles, Body};

/// A script that anybody can spend.
pub(super) const OP_TRUE: u8 = 0x51;
/// Number of blocks above a coinbase before it may be spent. Source: Bitcoin Core b88bffe, `COINBASE_MATURITY`.
const MATURITY: u32 = 100;
/// Regtest's first subsidy. It is halved above height 149.
const SUBSIDY: u64 = 50 * 100_000_000;
const HALVING_BLOCKS: u32 = 150;
/// Start of the script in the last output of a coinbase. Source: BIP-0141.
const COMMITMENT: [u8; 6] = [0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed];
/// Maximum bytes of a transaction that creates coins: a block without witnesses has a million.
const FUND_BYTES_MAX: usize = 950_000;

/// A coin that may be spent.
#[derive(Clone, Debug)]
pub(super) struct Spendable {
    pub(super) txid: [u8; 32],
    pub(super) vout: u32,
    pub(super) output: Output,
}

impl Spendable {
    /// An input that spends it, without script and witness.
    pub(super) fn input(&self) -> Input {
        Input { txid: self.txid, vout: self.vout, ..Input::default() }
    }
}

/// A chain that is being built.
pub(super) struct Blocks {
    files: BlockFiles,
    height: u32,
    /// Unspent coinbases, the oldest first: height and coin.
    coinbases: std::collections::VecDeque<(u32, Spendable)>,
    pub(super) largest_block_bytes: u64,
}

impl Blocks {
    /// Starts with genesis, and enough blocks for two mature coinbases.
    ///
    /// # Errors
    ///
    /// The directory already has blocks, or an I/O error.
    pub(super) fn new(out: &Path) -> Result<Blocks, Error> {
        let params = Params::new(Chain::Regtest);
        let directory = out.join(Chain::Regtest.net_dir()).join("blocks");
        let files = BlockFiles::create(&directory, &params, params.pow_target_spacing)?;
        let mut blocks = Blocks { files, height: 0, coinbases: Default::default(), largest_block_bytes: 0 };
        for _ in 0..MATURITY + 1 {
            blocks.append(&[])?;
        }
        Ok(blocks)
    }

    /// The height of the last block.
    pub(super) fn height(&self) -> u32 {
        self.height
    }

    /// Appends a block with a coinbase and these transactions.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(super) fn append(&mut self, txs: &[Tx]) -> Result<(), Error> {
        self.height += 1;
        let bytes: Vec<Vec<u8>> = txs.iter().map(Tx::bytes).collect();
        let wtxids = std::iter::once(Hash256::ZERO).chain(bytes.iter().map(|bytes| Hash256(sha256d(bytes))));
        let coinbase = coinbase(self.height, wtxids.collect());
        let mut leaves: Vec<Hash256> = std::iter::once(&coinbase).chain(txs).map(|tx| Hash256(tx.txid())).collect();
        let (merkle_root, _) = merkle::root(Kernels::AUTO, &mut leaves);
        let coinbase_bytes = coinbase.bytes();
        let pieces: Vec<&[u8]> = std::iter::once(&coinbase_bytes).chain(&bytes).map(|bytes| &bytes[..]).collect();
        self.largest_block_bytes = self.largest_block_bytes.max(pieces.iter().map(|piece| piece.len() as u64).sum());
        self.files.append(&Body { merkle_root, transactions: txs.len() + 1, pieces: &pieces })?;
        let coin = Spendable { txid: coinbase.txid(), vout: 0, output: coinbase.outputs[0].clone() };
        self.coinbases.push_back((self.height, coin));
        Ok(())
    }

    /// Appends blocks whose transactions create these coins, and returns the coins.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(super) fn fund(&mut self, outputs: Vec<Output>) -> Result<Vec<Spendable>, Error> {
        let mut coins = Vec::with_capacity(outputs.len());
        let mut rest = outputs.into_iter().peekable();
        while rest.peek().is_some() {
            let mut bytes = 0;
            let mut some = Vec::new();
            while let Some(output) = rest.next_if(|output| bytes + output.script.len() < FUND_BYTES_MAX) {
                bytes += output.script.len() + 12;
                some.push(output);
            }
            coins.extend(self.fund_block(some)?);
        }
        Ok(coins)
    }

    fn fund_block(&mut self, outputs: Vec<Output>) -> Result<Vec<Spendable>, Error> {
        while self.coinbases.front().is_none_or(|(height, _)| self.height + 1 < height + MATURITY) {
            self.append(&[])?;
        }
        let (_, coin) = self.coinbases.pop_front().expect("there is one, seen just now");
        let tx = Tx { inputs: vec![coin.input()], outputs };
        assert!(
            tx.outputs.iter().map(|output| output.value).sum::<u64>() <= coin.output.value,
            "a coinbase pays for it"
        );
        self.append(std::slice::from_ref(&tx))?;
        let txid = tx.txid();
        Ok((0..).zip(tx.outputs).map(|(vout, output)| Spendable { txid, vout, output }).collect())
    }

    /// Writes everything to the system; returns the hash of the last block, and the bytes of all blocks.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(super) fn finish(mut self) -> Result<(String, u64), Error> {
        self.files.flush()?;
        Ok((self.files.tip().to_string(), self.files.bytes()))
    }
}

fn coinbase(height: u32, mut wtxids: Vec<Hash256>) -> Tx {
    let (root, _) = merkle::root(Kernels::AUTO, &mut wtxids);
    let reserved = vec![0; 32];
    let commitment = sha256d(&[&root.0[..], &reserved].concat());
    let (push, bytes) = height_push(Height::new(height));
    // Two bytes at least.
    let script = [&push[..bytes], &[0]].concat();
    let input = Input { txid: [0; 32], vout: u32::MAX, script, witness: vec![reserved] };
    let value = SUBSIDY >> (height / HALVING_BLOCKS);
    let outputs = vec![
        Output { value, script: vec![OP_TRUE] },
        Output { value: 0, script: [&COMMITMENT[..], &commitment].concat() },
    ];
    Tx { inputs: vec![input], outputs }
}
