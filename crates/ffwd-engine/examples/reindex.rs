//! Rebuilds a data directory from its block files, with progress, and prints the hash of the UTXO set.
//!
//!     cargo run --example reindex -- ~/.bitcoin main

use ffwd_engine::{DataDir, Ended, Event, Network};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, network] = &arguments[..] else { return Err("give a data directory and a network".into()) };
    let dir = DataDir::open(path, network.parse::<Network>()?)?;
    let report = dir
        .reindex()
        .on_event(|event| match event {
            Event::Progress(progress) => {
                let part = progress.bytes as f64 / progress.bytes_end.max(1) as f64;
                eprintln!("height {} of {}, {:.1} %", progress.height, progress.height_end, 100.0 * part);
            }
            Event::Note(text) => eprintln!("{text}"),
            Event::Warning(text) => eprintln!("warning: {text}"),
            Event::BlockRefused { height, hash, reason, .. } => eprintln!("block {hash} at height {height}: {reason}"),
            _ => {}
        })
        .run()?;
    if let Ended::Incomplete(why) = &report.ended {
        eprintln!("{why}");
    }
    println!("{} blocks, up to height {}, in {:.1} s", report.blocks, report.height, report.seconds);
    println!("hash_serialized_3 {}", dir.coins()?.hash_serialized_3()?);
    Ok(())
}
