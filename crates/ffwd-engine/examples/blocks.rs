//! Reads a range of blocks and prints, for each transaction, what it spends and its fee.
//!
//!     cargo run --example blocks -- ~/.bitcoin main 900000 900009

use ffwd_engine::{DataDir, Network};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, network, first, last] = &arguments[..] else {
        return Err("give a data directory, a network, and the first and last height".into());
    };
    let dir = DataDir::open(path, network.parse::<Network>()?)?;
    for block in dir.blocks(first.parse::<u32>()?..=last.parse::<u32>()?)? {
        let block = block?;
        println!("block {} at height {}, {} bytes", block.hash(), block.height(), block.bytes().len());
        for tx in block.transactions() {
            let mut spent = 0;
            for input in tx.inputs() {
                // A coinbase spends nothing.
                let Some(prevout) = input.prevout() else { continue };
                println!("  {} {} satoshi, {}", input.outpoint(), prevout.value, prevout.script_type());
                spent += prevout.value;
            }
            let made: i64 = tx.outputs().map(|output| output.value).sum();
            let fee = if tx.is_coinbase() { 0 } else { spent - made };
            println!("  tx {}: {made} satoshi, fee {fee}", tx.txid());
        }
    }
    Ok(())
}
