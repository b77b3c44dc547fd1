//! What bitcoind and ffwd say of a directory.

use crate::run::run;
use serde_json::Value;
use std::path::Path;
pub(crate) use testkit::bitcoind::{Bitcoind, CHECKS, is_there};

/// What gettxoutsetinfo and `coins info` have in common.
const FIELDS: [&str; 7] = ["height", "bestblock", "txouts", "bogosize", "total_amount", "hash_serialized_3", "muhash"];

/// What bitcoind says of its coins.
pub(crate) fn core_set(core: &Bitcoind) -> Value {
    let read = |hash: &str| serde_json::from_str::<Value>(&core.rpc(&["gettxoutsetinfo", hash])).unwrap();
    fields(&read("hash_serialized_3"), &read("muhash"))
}

fn fields(serialized: &Value, muhash: &Value) -> Value {
    let field = |name: &str| [serialized, muhash].into_iter().map(|set| &set[name]).find(|value| !value.is_null());
    FIELDS.iter().map(|name| (name.to_string(), field(name).unwrap_or(&Value::Null).clone())).collect()
}

/// What ffwd says of the coins of a directory.
pub(crate) fn set(directory: &Path) -> Value {
    let read =
        |hash: &str| run(directory, &format!("coins info --datadir @ --chain regtest --json --hash {hash}")).good();
    fields(&read("hash_serialized_3"), &read("muhash"))
}

/// Copies a directory whole.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        if path.is_dir() {
            copy(&path, &to.join(name));
        } else {
            std::fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

/// The tables of a directory of LevelDB's.
pub(crate) fn tables(directory: &Path) -> Vec<String> {
    let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".ldb")).collect();
    names.sort();
    names
}
