//! bitcoin.conf and settings.json: any bytes, on every network, with includes that are not there.
//!
//! The program has no library: its files are compiled here.
#![no_main]
#![allow(dead_code, unused_imports, unexpected_cfgs, clippy::all, reason = "of the program, of which this uses a part")]

#[path = "../../crates/ffwd/src"]
mod program {
    pub(crate) mod conf;
    pub(crate) mod options;
    pub(crate) mod spelling;
}
use consensus::Chain;
use program::conf::{Answers, Conf, ConfFile, OnLine};
pub(crate) use program::{conf, options, spelling};
use std::path::Path;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let dir = std::env::temp_dir().join(format!("ffwd-fuzz-conf-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("the directory for temporary files is writable");
    std::fs::write(dir.join("bitcoin.conf"), data).expect("and so are files in it");
    let line = OnLine::default();
    for chain in [None, Some(Chain::Main), Some(Chain::Regtest)] {
        let from = ConfFile { datadir: &dir, file: Path::new("bitcoin.conf"), is_named: true, chain, with_includes: true };
        let Ok(mut conf) = Conf::read(from, &line) else { continue };
        let Ok(found) = conf.chain(chain) else { continue };
        let chain = found.unwrap_or(Chain::Main);
        for entry in conf.lines() {
            let _ = entry.asks_for_nothing();
        }
        let _ = (conf.misread(chain), conf.outside_their_section(chain).len(), conf.applying(chain).count());
        for name in ["dbcache", "connect", "rpcport", "datadir"] {
            let _ = (conf.get(name, chain), conf.list(name, chain).len(), conf.get_of_all(name, chain));
        }
        std::fs::write(dir.join("settings.json"), data).expect("as before");
        let _ = conf.read_settings(&dir, chain, None);
    }
});
