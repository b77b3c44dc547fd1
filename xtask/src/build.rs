//! Reproducible builds of the static program: the same bytes for the same commit and compiler, in any directory.
//!
//! Absolute paths are remapped in the output of rustc and the C compiler; times come from the commit.

use crate::Outcome;
use serde_json::Value;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// Features of the released program: those for node operators and for readers of the chain, without those for
/// benchmarks.
pub(crate) const FEATURES: &str = "audit,descriptors,export,lab,top";

/// A target of a release, and its name in other systems.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) triple: &'static str,
    /// Debian's.
    pub(crate) debian: &'static str,
    /// Go's, which OCI images use.
    pub(crate) go: &'static str,
}

/// All of them.
pub(crate) const TARGETS: [Target; 2] = [
    Target { triple: "x86_64-unknown-linux-musl", debian: "amd64", go: "amd64" },
    Target { triple: "aarch64-unknown-linux-musl", debian: "arm64", go: "arm64" },
];

impl Target {
    /// Whether this machine can run programs of the target.
    pub(crate) fn is_of_this_machine(self) -> bool {
        cfg!(target_os = "linux") && self.triple.starts_with(std::env::consts::ARCH)
    }
}

/// The checkout: its root, version and commit.
pub(crate) struct Source {
    pub(crate) root: PathBuf,
    pub(crate) version: String,
    pub(crate) repository: String,
    /// Short hash; empty outside a checkout.
    pub(crate) commit: String,
    /// Time of the commit, in seconds since 1970.
    pub(crate) time: u64,
    target_dir: PathBuf,
}

impl Source {
    /// Finds the workspace in which this program was started.
    ///
    /// # Errors
    ///
    /// cargo fails, or its output has an unexpected form.
    pub(crate) fn find() -> Outcome<Source> {
        let metadata = metadata(&["--no-deps"])?;
        let text = |value: &Value| value.as_str().map(str::to_owned).ok_or("cargo metadata printed another form");
        let root = PathBuf::from(text(&metadata["workspace_root"])?);
        let packages = metadata["packages"].as_array().ok_or("cargo metadata printed no packages")?;
        let program = packages.iter().find(|package| package["name"] == "ffwd").ok_or("there is no package ffwd")?;
        let git = |words: &[&str]| printed(Command::new("git").arg("-C").arg(&root).args(words));
        let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|_| "no commit".to_owned());
        let time = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(time) => time,
            Err(_) => git(&["log", "-1", "--format=%ct"]).unwrap_or_else(|_| "0".to_owned()),
        };
        Ok(Source {
            version: text(&program["version"])?,
            repository: text(&program["repository"])?,
            target_dir: PathBuf::from(text(&metadata["target_directory"])?),
            time: time.parse().map_err(|_| format!("SOURCE_DATE_EPOCH is not a number: {time}"))?,
            commit,
            root,
        })
    }

    /// `target/dist`.
    pub(crate) fn default_out(&self) -> PathBuf {
        self.target_dir.join("dist")
    }

    /// Builds the program, and returns its path.
    ///
    /// # Errors
    ///
    /// The build fails; cargo has printed the reason.
    pub(crate) fn program(&self, target: Target) -> Outcome<PathBuf> {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&self.root);
        cargo.args(["build", "--release", "--locked", "--package", "ffwd", "--features", FEATURES]);
        cargo.args(["--target", target.triple]);
        cargo.args(["--config", "profile.release.lto='fat'", "--config", "profile.release.codegen-units=1"]);
        cargo.args(["--config", "profile.release.strip='symbols'"]);
        let maps = self.maps();
        let flags: Vec<String> = maps.iter().map(|(from, to)| format!("--remap-path-prefix={from}={to}")).collect();
        cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
        cargo.env_remove("RUSTFLAGS");
        cargo.env(format!("CFLAGS_{}", target.triple.replace('-', "_")), c_flags(&maps));
        // The machine's linker knows its own processor only.
        let linker = format!("CARGO_TARGET_{}_LINKER", target.triple.replace('-', "_").to_uppercase());
        if !target.triple.starts_with(std::env::consts::ARCH) && std::env::var_os(&linker).is_none() {
            cargo.env(linker, "rust-lld");
        }
        cargo.env("SOURCE_DATE_EPOCH", self.time.to_string());
        cargo.env("FFWD_COMMIT", &self.commit);
        let status = cargo.status().map_err(|why| format!("cargo: {why}"))?;
        if !status.success() {
            let triple = target.triple;
            return Err(format!(
                "the program for {triple} was not built: it needs `rustup target add {triple}` and a C compiler for it (CC_{})",
                triple.replace('-', "_")
            )
            .into());
        }
        Ok(self.target_dir.join(target.triple).join("release/ffwd"))
    }

    /// Directories of this machine with their replacements. If several match, the last one applies.
    fn maps(&self) -> Vec<(String, String)> {
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let of = |name: &str, below: &str| std::env::var_os(name).map_or_else(|| home.join(below), PathBuf::from);
        let maps = [
            (of("RUSTUP_HOME", ".rustup"), "/rustup"),
            (of("CARGO_HOME", ".cargo"), "/cargo"),
            (self.root.clone(), "/ffwd"),
            (self.target_dir.clone(), "/ffwd/target"),
        ];
        maps.map(|(from, to)| (from.display().to_string(), to.to_owned())).into()
    }
}

/// Flags of the C compiler: those of .cargo/config.toml, which the environment variable would replace, and the path
/// maps.
fn c_flags(maps: &[(String, String)]) -> OsString {
    let mut flags = vec!["-DMI_DEFAULT_ARENA_EAGER_COMMIT=0".to_owned()];
    flags.extend(maps.iter().map(|(from, to)| format!("-ffile-prefix-map={from}={to}")));
    flags.join(" ").into()
}

/// The output of `cargo metadata`.
///
/// # Errors
///
/// cargo fails.
pub(crate) fn metadata(words: &[&str]) -> Outcome<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let text = printed(Command::new(cargo).args(["metadata", "--format-version", "1", "--locked"]).args(words))?;
    Ok(serde_json::from_str(&text)?)
}

/// The standard output of a command that succeeds.
///
/// # Errors
///
/// It cannot be started, or fails.
pub(crate) fn printed(command: &mut Command) -> Outcome<String> {
    let name = command.get_program().display().to_string();
    let output = command.output().map_err(|why| format!("{name}: {why}"))?;
    if !output.status.success() {
        return Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_c_keep_those_of_the_configuration() {
        let config = include_str!("../../.cargo/config.toml");
        let flags = c_flags(&[("/home/me/x".to_owned(), "/ffwd".to_owned())]).into_string().unwrap();
        assert_eq!(flags, "-DMI_DEFAULT_ARENA_EAGER_COMMIT=0 -ffile-prefix-map=/home/me/x=/ffwd");
        for target in TARGETS {
            let name = format!("CFLAGS_{}", target.triple.replace('-', "_"));
            let line = config.lines().find(|line| line.starts_with(&name)).unwrap();
            let value = line.split('"').nth(1).unwrap();
            assert!(flags.starts_with(value), "{line}");
        }
    }

    #[test]
    fn source_is_this_workspace() {
        let source = Source::find().unwrap();
        assert_eq!(source.version, env!("CARGO_PKG_VERSION"));
        assert!(source.root.join("xtask").is_dir() && source.maps().iter().any(|(_, to)| to == "/ffwd"));
    }
}
