//! The program with the features that it was built with: what they bring works, and what they lack is named.
//!
//! `tests/it` needs all of them; this runs with any.

use std::process::{Command, Output};

fn ffwd(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ffwd")).args(words).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("what it says is text")
}

/// The features that it names.
fn features() -> Vec<String> {
    let said = text(&ffwd(&["--version"]).stdout);
    let names = said.lines().nth(1).and_then(|line| line.strip_prefix("features: ")).expect("the second line has them");
    names.split(", ").map(str::to_owned).collect()
}

#[test]
fn version_lists_features() {
    let said = text(&ffwd(&["--version"]).stdout);
    assert!(said.starts_with("ffwd ") && said.lines().count() == 2, "{said}");
    assert_eq!(text(&ffwd(&["-V"]).stdout).lines().collect::<Vec<_>>(), said.lines().take(1).collect::<Vec<_>>());
    let features = features();
    for (name, is_there) in [
        ("demo", cfg!(feature = "demo")),
        ("export", cfg!(feature = "export")),
        ("regtest-tools", cfg!(feature = "regtest-tools")),
        ("server", cfg!(feature = "server")),
    ] {
        assert_eq!(features.iter().any(|feature| feature == name), is_there, "{name} in {features:?}");
    }
}

#[test]
fn commands_work_or_name_their_feature() {
    let features = features();
    for (words, feature) in [
        (&["audit", "--help"][..], "audit"),
        (&["demo", "--help"], "demo"),
        (&["export", "--help"], "export"),
        (&["lab", "--help"], "lab"),
        (&["manuals", "--help"], "manuals"),
        (&["serve", "--help"], "server"),
        (&["help", "stop"], "server"),
        (&["top", "--help"], "top"),
    ] {
        let (ran, is_there) = (ffwd(words), features.iter().any(|name| name == feature));
        assert_eq!(ran.status.code(), Some(if is_there { 0 } else { 2 }), "{words:?}: {ran:?}");
        let wanted = format!("--features {feature}`");
        assert_eq!(text(&ran.stderr).contains(&wanted), !is_there, "{words:?}: {ran:?}");
        assert_eq!(ran.stdout.is_empty(), !is_there, "{words:?}: {ran:?}");
    }
}

/// README's main command, small.
#[cfg(feature = "demo")]
#[test]
fn demo_makes_and_validates_a_chain() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("demo");
    let ran = ffwd(&["demo", "--blocks", "1", "--json", "--out", out.to_str().unwrap()]);
    assert!(ran.status.success(), "{ran:?}");
    assert!(std::fs::read_to_string(out.join("report.html")).unwrap().contains("<svg"), "a chart is drawn");
}
