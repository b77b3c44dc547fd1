//! Counts the scripts of the UTXO set by their type.
//!
//!     cargo run --example coins -- ~/.bitcoin main

use ffwd_engine::{DataDir, Network, ScriptType};
use std::collections::BTreeMap;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, network] = &arguments[..] else { return Err("give a data directory and a network".into()) };
    let dir = DataDir::open(path, network.parse::<Network>()?)?;
    let coins = dir.coins()?;
    let mut types: BTreeMap<ScriptType, (u64, i64)> = BTreeMap::new();
    for coin in coins.iter()? {
        let coin = coin?;
        let (count, amount) = types.entry(coin.script_type()).or_default();
        *count += 1;
        *amount += coin.value;
    }
    println!("the UTXO set at height {}, block {}", coins.height(), coins.best_block());
    for (script_type, (count, amount)) in types {
        println!("{script_type:<24} {count:>12} coins {amount:>18} satoshi");
    }
    Ok(())
}
