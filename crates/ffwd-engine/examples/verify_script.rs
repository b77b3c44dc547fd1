//! Verifies every script of a range of blocks, under the rules of each block's height.
//!
//!     cargo run --example verify_script -- ~/.bitcoin main 900000 900009

use ffwd_engine::{DataDir, Network, ScriptFlags, verify_script};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, network, first, last] = &arguments[..] else {
        return Err("give a data directory, a network, and the first and last height".into());
    };
    let network: Network = network.parse()?;
    let dir = DataDir::open(path, network)?;
    let mut verified = 0;
    for block in dir.blocks(first.parse::<u32>()?..=last.parse::<u32>()?)? {
        let block = block?;
        let flags = ScriptFlags::of_block(network, block.height(), &block.hash());
        // The coinbase spends nothing.
        for tx in block.transactions().skip(1) {
            let spent = tx.spent_outputs();
            for input in 0..spent.len() {
                verify_script(tx.bytes(), input, &spent, flags)
                    .map_err(|why| format!("transaction {}, input {input}: {why}", tx.txid()))?;
                verified += 1;
            }
        }
    }
    println!("{verified} scripts hold");
    Ok(())
}
