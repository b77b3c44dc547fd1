//! Tasks of the maintainers. `cargo xtask dist` makes the files of a release.
//!
//! Absent on purpose: signatures, which need the owner's key (docs/releasing.md), and uploads.

mod archive;
mod build;
mod deb;
mod dist;
mod licences;
mod oci;
mod sbom;
mod sums;

use clap::{Parser, Subcommand};
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

/// Result of a step; the error is a sentence.
type Outcome<T> = Result<T, Box<dyn Error>>;

#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Make the files of a release
    #[command(after_help = ARTIFACTS)]
    Dist(Dist),
}

/// Options of `dist`.
#[derive(clap::Args)]
struct Dist {
    /// Target to build for (repeatable) [default: both]
    #[arg(long, value_name = "TARGET", value_parser = build::TARGETS.map(|target| target.triple))]
    target: Vec<String>,
    /// Directory for the files; must be empty or absent [default: target/dist]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

const ARTIFACTS: &str = "\
Targets: x86_64-unknown-linux-musl, aarch64-unknown-linux-musl. Each needs `rustup target add TARGET` and a C compiler
for it (musl-tools of Debian; CC_aarch64_unknown_linux_musl names another one).

Artifacts, in --out:
  ffwd-VERSION-TARGET.tar.gz   static program, man pages, completions, documentation, licences of all crates,
                               systemd unit
  ffwd_VERSION-1_ARCH.deb      Debian package (amd64, arm64)
  ffwd-VERSION-oci/            OCI image layout with an image for each target
  ffwd-VERSION.cdx.json        SBOM (CycloneDX) of the crates that are compiled in
  man/, completions/           man pages; completions for bash, zsh and fish
  SHA256SUMS                   SHA-256 checksums of all files

The same commit and compiler give the same bytes in any directory: paths, times and owners are fixed.

Examples:
  cargo xtask dist
  cargo xtask dist --target x86_64-unknown-linux-musl --out /tmp/release
  skopeo copy oci:target/dist/ffwd-0.1.0-oci:0.1.0 containers-storage:ffwd:0.1.0";

fn main() -> ExitCode {
    let Cli { task: Task::Dist(given) } = Cli::parse();
    match dist::run(&given) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn help_lists_targets_and_artifacts() {
        Cli::command().debug_assert();
        let help = Cli::command().find_subcommand_mut("dist").unwrap().render_help().to_string();
        for word in ["x86_64", "aarch64", "SHA256SUMS", "SBOM", "man pages", "completions", ".deb", "OCI"] {
            assert!(help.contains(word), "{word}: {help}");
        }
    }
}
