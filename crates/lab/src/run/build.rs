//! Builds programs that a plan names by commit, in a worktree below the results, once for each commit and set of
//! flags.
//!
//! Absent on purpose: any toolchain except the one that `cargo` selects in the repository. The worktree is removed
//! after the build.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::plan::{Build, Plan, Problem};
use super::progress::Progress;

/// Builds every program of `plan` that is a commit; returns the paths, by program.
///
/// # Errors
///
/// The output of git or cargo, with the program's line in the plan.
pub(super) fn all(plan: &Plan, out: &Path, progress: &Progress) -> Result<Vec<Option<PathBuf>>, Vec<Problem>> {
    let one = |program: &super::plan::Program| {
        let Some(build) = &program.build else { return Ok(None) };
        let wrong =
            |what: String| vec![Problem { line: Some(program.line), what: format!("{}: {what}", program.label) }];
        built(build, out, progress).map(Some).map_err(wrong)
    };
    plan.programs.iter().map(one).collect()
}

fn built(build: &Build, out: &Path, progress: &Progress) -> Result<PathBuf, String> {
    let commit = git(&build.repository, &["rev-parse", "--verify", &format!("{}^{{commit}}", build.commit)])?;
    let flags: String = build.rustflags.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let directory = out.join("builds").join(format!("{}{flags}", &commit[..commit.len().min(12)]));
    let exe = directory.join("ffwd");
    if exe.is_file() {
        return Ok(exe);
    }
    let source = directory.join("source");
    let target = directory.join("target");
    let wrong = |error: io::Error| format!("{}: {error}", directory.display());
    std::fs::create_dir_all(&directory).map_err(wrong)?;
    progress.line(&format!("      {} is built from {}", build.commit, build.repository.display()));
    let place = source.display().to_string();
    // Removes the worktree of an interrupted build.
    let _ = git(&build.repository, &["worktree", "remove", "--force", &place]);
    git(&build.repository, &["worktree", "add", "--detach", &place, &commit])?;
    let made = cargo(&source, &target, &build.rustflags);
    let removed = git(&build.repository, &["worktree", "remove", "--force", &place]);
    made?;
    removed?;
    std::fs::rename(target.join("release/ffwd"), &exe).map_err(wrong)?;
    std::fs::remove_dir_all(&target).map_err(wrong)?;
    Ok(exe)
}

fn cargo(source: &Path, target: &Path, rustflags: &str) -> Result<(), String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--locked", "-p", "ffwd", "--target-dir"]).arg(target).current_dir(source);
    if !rustflags.is_empty() {
        cargo.env("RUSTFLAGS", rustflags);
    }
    said("cargo build", &mut cargo).map(drop)
}

fn git(repository: &Path, words: &[&str]) -> Result<String, String> {
    let mut git = Command::new("git");
    said(&format!("git {}", words[0]), git.arg("-C").arg(repository).args(words))
}

/// Runs a command to its end. Returns its first line, or the last line of its error output.
fn said(name: &str, command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{name} does not start: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout).lines().next().unwrap_or_default().to_owned());
    }
    let last = text(&output.stderr).lines().rev().find(|line| !line.trim().is_empty()).map(str::to_owned);
    Err(format!("{name}: {}: {}", output.status, last.unwrap_or("nothing said".to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(repository: &Path, commit: &str) -> Plan {
        let text = format!(
            "[[program]]\nlabel = \"old\"\ncommit = \"{commit}\"\nrepository = \"{}\"\n[[chain]]\nlabel = \"c\"\ndatadir = \"x\"\n[[work]]\nkind = \"reindex\"\n",
            repository.display()
        );
        super::super::plan::parse(&text, Path::new("/")).unwrap()
    }

    /// A repository whose only package is an `ffwd` that says what it is.
    #[test]
    fn commit_is_built_once_in_a_worktree() {
        let scratch = tempfile::tempdir().unwrap();
        let (repository, out) = (scratch.path().join("repository"), scratch.path().join("out"));
        std::fs::create_dir_all(repository.join("src")).unwrap();
        std::fs::write(
            repository.join("Cargo.toml"),
            "[package]\nname = \"ffwd\"\nversion = \"9.0.0\"\nedition = \"2021\"\n",
        )
        .unwrap();
        std::fs::write(
            repository.join("Cargo.lock"),
            "version = 3\n\n[[package]]\nname = \"ffwd\"\nversion = \"9.0.0\"\n",
        )
        .unwrap();
        std::fs::write(repository.join("src/main.rs"), "fn main() { println!(\"ffwd 9.0.0\") }\n").unwrap();
        let name = ["-c", "user.name=n", "-c", "user.email=e"];
        for words in [&["init", "-q"][..], &["add", "."], &["commit", "-q", "-m", "one"]] {
            let done = Command::new("git").arg("-C").arg(&repository).args(name).args(words).status();
            assert!(done.unwrap().success(), "{words:?}");
        }
        let progress = Progress::new(true);
        for _ in 0..2 {
            let exes = all(&plan(&repository, "HEAD"), &out, &progress).unwrap();
            let exe = exes[0].clone().unwrap();
            assert_eq!(super::super::program::version(&exe).unwrap(), "ffwd 9.0.0");
            assert!(!exe.with_file_name("source").exists());
        }
        let why = all(&plan(&repository, "absent"), &out, &progress).unwrap_err();
        assert!(why[0].line == Some(2) && why[0].what.contains("git rev-parse"), "{}", why[0]);
    }
}
