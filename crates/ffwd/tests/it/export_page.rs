//! docs/export.md: its questions have the answers that it says, on the first blocks of mainnet.

use crate::data;
use crate::run::run;
use std::path::Path;
use std::process::Command;

/// What export_page.py ends with where there is no DuckDB.
const SKIPPED: i32 = 77;

#[test]
fn questions_of_the_page_have_its_answers() {
    let Some(directory) = data::real("main", "mainnet_0_14131") else { return };
    let on = "--datadir @ --json";
    run(directory.path(), &format!("reindex {on}")).good();
    run(directory.path(), &format!("export --out @/out {on}")).good();
    let coins = run(directory.path(), &format!("export --coins --out @/out/coins {on}")).good();
    let info = run(directory.path(), &format!("coins info --hash none {on}")).good();
    assert_eq!((&coins["txouts"], &coins["total_amount"]), (&info["txouts"], &info["total_amount"]));
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = std::env::var("TABLES_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut asked = Command::new(&python);
    asked.arg(here.join("tests/it/export_page.py")).arg(here.join("../../docs/export.md"));
    let Ok(ran) = asked.arg(directory.path().join("out")).output() else {
        println!("skipped: there is no {python}");
        return;
    };
    let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    if ran.status.code() == Some(SKIPPED) {
        println!("{}: TABLES_PYTHON names one that has it", said.trim());
        return;
    }
    assert!(ran.status.success(), "{said}");
}
