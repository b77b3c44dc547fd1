//! Gives the program the commit and the compiler that it is built from, as `FFWD_BUILD`: `ef1bea7ec9b0-dirty, rustc 1.95.0`.
//!
//! The commit is git's, where this source is a checkout of its own; without git, or from an archive of the source, it is
//! what the environment variable `FFWD_COMMIT` says, else `no commit`. `-dirty`: tracked files differ from it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Digits of a commit: Core's number of them.
const COMMIT_DIGITS: usize = 12;

fn main() {
    // Asked when this runs: a target directory may have been copied with its checkout.
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    println!("cargo::rerun-if-env-changed=FFWD_COMMIT");
    // Whatever is compiled into the program; without git's files, from which `-dirty` cannot be told.
    for path in ["crates", "Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", root.join(path).display());
    }
    let commit = std::env::var("FFWD_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = commit.or_else(|| commit_of(&root)).unwrap_or_else(|| "no commit".to_owned());
    println!("cargo::rustc-env=FFWD_BUILD={commit}, {}", compiler());
}

/// The compiler's name and version.
fn compiler() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = output(Command::new(rustc).arg("--version")).unwrap_or_default();
    let mut words = version.split_whitespace();
    match (words.next(), words.next()) {
        (Some(name), Some(version)) => format!("{name} {version}"),
        _ => "unknown compiler".to_owned(),
    }
}

/// The commit of the checkout at `root`, if that is one.
fn commit_of(root: &Path) -> Option<String> {
    let git = |arguments: &[&str]| output(Command::new("git").arg("-C").arg(root).args(arguments));
    // An archive may lie within another project's checkout.
    let top = PathBuf::from(git(&["rev-parse", "--show-toplevel"])?);
    if top.canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    let commit = git(&["rev-parse", "--verify", "HEAD"])?;
    // HEAD names a branch, or is a commit; a branch is a file, or a line of packed-refs.
    let branch = git(&["symbolic-ref", "-q", "HEAD"]);
    for name in ["HEAD", "packed-refs"].into_iter().map(str::to_owned).chain(branch) {
        let path = git(&["rev-parse", "--git-path", &name]).map(|path| root.join(path));
        if let Some(path) = path.filter(|path| path.exists()) {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    let changes = git(&["--no-optional-locks", "status", "--porcelain", "--untracked-files=no"]);
    let dirty = if changes.is_some_and(|changes| changes.is_empty()) { "" } else { "-dirty" };
    Some(format!("{}{dirty}", commit.get(..COMMIT_DIGITS)?))
}

/// What a command prints, if it succeeds.
fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
