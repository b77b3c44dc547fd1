//! silentpaymentindex by the commands: the tweaks of a chain, made with the blocks and from the files, shown and exported.

use crate::data;
use crate::run::run;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;

const ON: &str = "--datadir @ --chain regtest --json";
/// Tweaks of blocks, by the reference code of BIP 352, from the transactions and what they spend.
const TWEAKS: [(u32, &str); 3] = [
    (200, "02cde96698518b659a8a65c54f26abb14757fdd15400b35fe312bb83b9db51a694"),
    (203, "023b31e8b00ae00b40401391492b51b9be8a9ab103b961e95b1a872d372abd1989"),
    (206, "0311ceceac6b540f58dfa43ecee4731fc0a1b520dd381d9c9e9f59101052590c48"),
];

fn chain(flags: &str) -> Option<tempfile::TempDir> {
    let directory = data::directory("regtest", &testkit::data::load("snapshots/regtest_assumeutxo_0_399.blk.xz")?);
    run(directory.path(), &format!("reindex {flags} {ON}")).good();
    Some(directory)
}

#[test]
fn tweaks_are_shown_and_exported() {
    let Some(with) = chain("--silentpaymentindex") else { return };
    let after = chain("").unwrap();
    run(after.path(), &format!("index --only silentpaymentindex {ON}")).good();
    let made = fs::metadata(after.path().join("regtest/indexes")).unwrap();
    assert_eq!(made.permissions().mode() & 0o077, 0, "as with any other command, only the user may read it");
    let ask = |directory: &tempfile::TempDir, line: &str| -> Value {
        run(directory.path(), &format!("silentpayments {line} {ON}")).good()
    };
    let mut all = 0;
    for height in (0..400).step_by(7).chain(TWEAKS.map(|(height, _)| height)) {
        let found = ask(&with, &height.to_string());
        assert_eq!(found, ask(&after, &height.to_string()), "{height}: made with the blocks, and from the files");
        assert_eq!(found["height"], height);
        all += found["bip352_tweaks"].as_array().unwrap().len();
    }
    assert!(all >= TWEAKS.len());
    for (height, tweak) in TWEAKS {
        let found = ask(&with, &height.to_string());
        assert_eq!(found["bip352_tweaks"], serde_json::json!([tweak]), "{height}");
        let hash = found["blockhash"].as_str().unwrap();
        assert_eq!(ask(&with, hash), found, "by the block's hash");
    }
    let outputs = ask(&with, "200 --outputs");
    let output = &outputs["transactions"][0]["outputs"][0];
    assert_eq!(output["pubkey"], "2913b252fe537830f843bfdc5fa7d20ba48639a87c86ff837b92d083c55ad7c1");
    assert_eq!((output["vout"].as_u64(), output["value"].as_f64()), (Some(0), Some(49.999688)));
    let count = |line: &str| ask(&with, line)["bip352_tweaks"].as_array().unwrap().len();
    assert_eq!((count("200 --dust-limit 4999968800"), count("200 --dust-limit 4999968801")), (1, 0));
    assert_eq!(count("200 --unspent"), usize::from(output["spent"] == false), "cut-through");
    let lines = run(with.path(), "silentpayments 200 --outputs --datadir @ --chain regtest");
    assert!(lines.code == Some(0) && lines.out.contains(TWEAKS[0].1) && lines.out.contains("49.999688"), "{lines:?}");

    let exported = run(with.path(), &format!("export --tweaks --out @/tweak.parquet {ON}")).good();
    assert_eq!((&exported["transactions"], &exported["to"]), (&34.into(), &399.into()));
    let bytes = fs::read(with.path().join("tweak.parquet")).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    let part = run(with.path(), &format!("export --tweaks --from 200 --to 203 --out @/part.parquet {ON}")).good();
    assert_eq!((&part["from"], &part["to"], &part["transactions"]), (&200.into(), &203.into(), &2.into()));
}

#[test]
fn what_the_index_lacks_is_named() {
    let Some(directory) = chain("") else { return };
    let top = directory.path();
    for (line, code, want) in [
        ("silentpayments 200", 1, "Run ffwd index --only silentpaymentindex"),
        ("export --tweaks --out @/x", 1, "Run ffwd index --only silentpaymentindex"),
        ("export --tweaks --out @/x --format csv", 2, "only parquet"),
        ("export --tweaks --coins --out @/x", 2, "--coins"),
        ("export --tweaks --out @", 1, "makes one file"),
    ] {
        let ran = run(top, &format!("{line} --force {ON}").replace("silentpayments 200 --force", "silentpayments 200"));
        assert!(ran.code == Some(code) && ran.err.contains(want), "{line}: {ran:?}");
        assert!(!top.join("x").exists() && !top.join("x.incomplete").exists(), "{line}");
    }
    run(top, &format!("index --only silentpaymentindex {ON}")).good();
    for (line, want) in [
        ("silentpayments 400", "after current tip 399"),
        (&format!("silentpayments {}", "11".repeat(32)), "Block not found"),
        ("export --tweaks --out @/x --from 9 --to 5", "no blocks 9 to 5"),
        ("export --tweaks --out @/x --to 400", "the chain ends at height 399"),
    ] {
        let ran = run(top, &format!("{line} {ON}"));
        assert!(ran.code == Some(1) && ran.err.contains(want), "{line}: {ran:?}");
    }
    assert!(!top.join("x").exists());
}
