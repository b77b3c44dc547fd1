//! The features of this build, and the feature that a missing command or option needs.
//!
//! crates/ffwd/Cargo.toml describes each of them.

use std::ffi::OsString;

/// Every feature, and whether this build has it.
const FEATURES: [(&str, bool); 16] = [
    ("ablation", cfg!(feature = "ablation")),
    ("audit", cfg!(feature = "audit")),
    ("demo", cfg!(feature = "demo")),
    ("descriptors", cfg!(feature = "descriptors")),
    ("export", cfg!(feature = "export")),
    ("fetch", cfg!(feature = "fetch")),
    ("heap", cfg!(feature = "heap")),
    ("lab", cfg!(feature = "lab")),
    ("manuals", cfg!(feature = "manuals")),
    ("micro", cfg!(feature = "micro")),
    ("regtest-tools", cfg!(feature = "regtest-tools")),
    ("server", cfg!(feature = "server")),
    ("sqlite", cfg!(feature = "sqlite")),
    ("top", cfg!(feature = "top")),
    ("unproven", cfg!(feature = "unproven")),
    ("zstd", cfg!(feature = "zstd")),
];

/// Commands that need a feature, with that feature. `lab micro` also needs `micro`.
const COMMANDS: [(&str, &str); 8] = [
    ("audit", "audit"),
    ("demo", "demo"),
    ("export", "export"),
    ("lab", "lab"),
    ("manuals", "manuals"),
    ("serve", "server"),
    ("stop", "server"),
    ("top", "top"),
];
/// Options that need a feature.
const OPTIONS: [(&str, &str); 2] = [("--server", "server"), ("--without", "ablation")];

/// The names of the features of this build.
fn present() -> impl Iterator<Item = &'static str> {
    FEATURES.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name)
}

/// The line that `--version` prints below the version.
pub(crate) fn line() -> String {
    let names: Vec<&str> = present().collect();
    format!("features: {}", if names.is_empty() { "none".to_owned() } else { names.join(", ") })
}

/// Whether a known feature is absent from this build.
fn lacks(feature: &str) -> bool {
    FEATURES.contains(&(feature, false))
}

/// Why this build cannot run a command line that needs a feature. `words` are as clap reads them.
pub(crate) fn missing(words: &[OsString]) -> Option<String> {
    let words: Vec<&str> = words.iter().skip(1).map(|word| word.to_str().unwrap_or_default()).collect();
    let mut named = words.iter().copied().filter(|word| *word != "help");
    let command = named.next()?;
    if let Some((_, feature)) = COMMANDS.iter().find(|(name, feature)| *name == command && lacks(feature)) {
        return Some(told(&format!("the command {command}"), feature));
    }
    if command == "lab" && named.next() == Some("micro") && lacks("micro") {
        return Some(told("the command lab micro", "micro"));
    }
    let is_option = |word: &&&str, name: &str| word.split('=').next() == Some(name);
    let (option, feature) =
        OPTIONS.iter().find(|(name, feature)| lacks(feature) && words.iter().any(|word| is_option(&word, name)))?;
    Some(told(&format!("the option {option}"), feature))
}

/// The message that `what` is absent from this build, and how to get a build that has it.
pub(crate) fn told(what: &str, feature: &str) -> String {
    format!(
        "{what} is not in this program: it was built without the feature `{feature}`. \
         Build one with `cargo install --path crates/ffwd --features {feature}`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<String> {
        missing(&std::iter::once("ffwd").chain(line.split_whitespace()).map(OsString::from).collect::<Vec<_>>())
    }

    /// The list is that of the manifest.
    #[test]
    fn features_are_those_of_the_manifest() {
        let manifest = include_str!("../Cargo.toml");
        let section = manifest.split("[features]").nth(1).and_then(|rest| rest.split("\n[").next()).unwrap();
        let lines = section.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
        let mut names: Vec<&str> = lines.filter_map(|line| line.split_once(" = ")).map(|(name, _)| name).collect();
        names.retain(|name| !matches!(*name, "default" | "full"));
        assert_eq!(names, FEATURES.map(|(name, _)| name));
    }

    #[test]
    fn missing_commands_and_options_name_their_feature() {
        for (line, feature) in [
            ("lab plot x", "lab"),
            ("help lab", "lab"),
            ("lab micro", "micro"),
            ("export --out x", "export"),
            ("audit plan", "audit"),
            ("top", "top"),
            ("serve", "server"),
            ("stop --chain regtest", "server"),
            ("demo", "demo"),
            ("manuals x", "manuals"),
            ("reindex --without=prefetch", "ablation"),
            ("sync --server", "server"),
        ] {
            let said = of(line);
            let wanted = lacks(feature) || feature == "micro" && lacks("lab");
            assert_eq!(said.is_some(), wanted, "{line}: {said:?}");
            let feature = if feature == "micro" && lacks("lab") { "lab" } else { feature };
            assert!(said.is_none_or(|why| why.contains(&format!("--features {feature}`"))), "{line}");
        }
        // Features whose names are no commands are no commands either.
        for line in
            ["", "sync", "reindex --par 1", "import lab", "help", "nothing", "heap", "unproven", "micro", "zstd"]
        {
            assert_eq!(of(line), None, "{line}");
        }
    }
}
