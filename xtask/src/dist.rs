//! The command `cargo xtask dist`: builds the programs, and packages them.

use crate::archive::{DATA, File, PROGRAM, Root, gzip, tar};
use crate::build::{self, FEATURES, Source, TARGETS, Target};
use crate::{Dist, Outcome, deb, licences, oci, sbom, sums};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files of the source that are added to the archive and the Debian package.
struct Extra {
    /// Path in the source.
    from: &'static str,
    /// Path in the archive.
    archive: &'static str,
    /// Path in the Debian package.
    debian: &'static str,
}

const EXTRAS: [Extra; 8] = [
    Extra { from: "README.md", archive: "README.md", debian: "usr/share/doc/ffwd/README.md" },
    Extra { from: "CHANGELOG.md", archive: "CHANGELOG.md", debian: "" },
    Extra { from: "SECURITY.md", archive: "SECURITY.md", debian: "usr/share/doc/ffwd/SECURITY.md" },
    Extra { from: "LICENSE-MIT", archive: "LICENSE-MIT", debian: "" },
    Extra { from: "LICENSE-APACHE", archive: "LICENSE-APACHE", debian: "" },
    Extra { from: "dist/ffwd.service", archive: "ffwd.service", debian: "usr/lib/systemd/system/ffwd.service" },
    Extra {
        from: "contrib/grafana-dashboard.json",
        archive: "contrib/grafana-dashboard.json",
        debian: "usr/share/doc/ffwd/grafana-dashboard.json",
    },
    Extra {
        from: "contrib/prometheus-alerts.yml",
        archive: "contrib/prometheus-alerts.yml",
        debian: "usr/share/doc/ffwd/prometheus-alerts.yml",
    },
];

/// The package contains a static program on purpose, and is not uploaded to Debian, whose first upload closes a bug.
const LINTIAN_OVERRIDES: &str = "ffwd: statically-linked-binary [usr/bin/ffwd]
ffwd: shared-library-lacks-prerequisites [usr/bin/ffwd]
ffwd: initial-upload-closes-no-bugs [usr/share/doc/ffwd/changelog.Debian.gz:1]
";

/// Builds all files of a release.
///
/// # Errors
///
/// The directory is in use, a build fails, or an I/O error.
pub(crate) fn run(given: &Dist) -> Outcome<()> {
    let source = Source::find()?;
    let out = given.out.clone().unwrap_or_else(|| source.default_out());
    let is_free = fs::read_dir(&out).map_or(true, |mut entries| entries.next().is_none());
    if !is_free {
        return Err(format!("{} is not empty: remove it, or name another --out", out.display()).into());
    }
    fs::create_dir_all(&out)?;
    let chosen = |target: &&Target| given.target.is_empty() || given.target.iter().any(|name| name == target.triple);
    let targets: Vec<Target> = TARGETS.iter().filter(chosen).copied().collect();
    let mut programs: Vec<(Target, Vec<u8>)> = Vec::new();
    for target in targets {
        eprintln!("building {}", target.triple);
        let program = source.program(target)?;
        programs.push((target, fs::read(&program).map_err(|why| format!("{}: {why}", program.display()))?));
    }
    manuals(&source, &programs, &out)?;
    let man = read(&out.join("man"))?;
    let completions = read(&out.join("completions"))?;
    let metadata = metadata()?;
    let documents = Documents { man, completions, licences: licences::document(&metadata, "ffwd")?.into_bytes() };
    let mut images = Vec::new();
    for (target, program) in programs {
        let name = format!("ffwd-{}-{}", source.version, target.triple);
        let packed = tar(archive_files(&source, &name, &program, &documents)?, Root::Bare, source.time)?;
        fs::write(out.join(format!("{name}.tar.gz")), gzip(&packed)?)?;
        let package = package(&source, target, &program, &documents)?;
        fs::write(out.join(format!("ffwd_{}-1_{}.deb", source.version, target.debian)), package)?;
        let files = vec![
            File::new("ffwd", PROGRAM, program),
            File::new("licenses/LICENSE-MIT", DATA, text(&source, "LICENSE-MIT")?),
            File::new("licenses/LICENSE-APACHE", DATA, text(&source, "LICENSE-APACHE")?),
            File::new(format!("licenses/{THIRD_PARTY}"), DATA, documents.licences.as_slice()),
        ];
        images.push(oci::Image { architecture: target.go, files });
    }
    let about = oci::About { version: &source.version, source: &source.repository, time: source.time };
    oci::write(&out.join(format!("ffwd-{}-oci", source.version)), images, &about)?;
    bill(&source, &metadata, &out)?;
    sums::write(&out)?;
    eprintln!("{} has the files of {} ({})", out.display(), source.version, source.commit);
    Ok(())
}

fn text(source: &Source, path: &str) -> Outcome<Vec<u8>> {
    fs::read(source.root.join(path)).map_err(|why| format!("{path}: {why}").into())
}

/// Runs one of the built programs to generate man pages and completions.
fn manuals(source: &Source, programs: &[(Target, Vec<u8>)], out: &Path) -> Outcome<()> {
    let program = match programs.iter().find(|(target, _)| target.is_of_this_machine()) {
        Some((target, _)) => source.program(*target)?,
        None => {
            let own = TARGETS.iter().find(|target| target.is_of_this_machine());
            source.program(*own.ok_or("man pages are written by the program: run this on x86-64 or ARM Linux")?)?
        }
    };
    let dir = out.join("manuals");
    build::printed(Command::new(program).arg("manuals").arg(&dir))?;
    for part in ["man", "completions"] {
        fs::rename(dir.join(part), out.join(part))?;
    }
    fs::remove_dir_all(dir)?;
    Ok(())
}

/// Name and contents of each file of a directory.
fn read(dir: &Path) -> Outcome<Vec<(String, Vec<u8>)>> {
    let mut paths: Vec<PathBuf> = Vec::new();
    sums::files(dir, &mut paths)?;
    paths.sort();
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    paths.iter().map(|path| Ok((name(path).ok_or("a file without a name")?, fs::read(path)?))).collect()
}

/// Generated documents, the same for each target.
struct Documents {
    /// Names and contents of the man pages.
    man: Vec<(String, Vec<u8>)>,
    /// Names and contents of the completions of each shell.
    completions: Vec<(String, Vec<u8>)>,
    /// Licences of the crates that are compiled in.
    licences: Vec<u8>,
}

/// Name of the file with the licences of the crates that are compiled in.
const THIRD_PARTY: &str = "THIRD-PARTY-LICENSES.txt";

fn archive_files(source: &Source, name: &str, program: &[u8], documents: &Documents) -> Outcome<Vec<File>> {
    let mut files = vec![File::new(format!("{name}/ffwd"), PROGRAM, program)];
    for (page, bytes) in &documents.man {
        files.push(File::new(format!("{name}/man/{page}"), DATA, bytes.as_slice()));
    }
    for (file, bytes) in &documents.completions {
        files.push(File::new(format!("{name}/completions/{file}"), DATA, bytes.as_slice()));
    }
    files.push(File::new(format!("{name}/{THIRD_PARTY}"), DATA, documents.licences.as_slice()));
    for extra in EXTRAS {
        files.push(File::new(format!("{name}/{}", extra.archive), DATA, text(source, extra.from)?));
    }
    for (page, bytes) in pages(source)? {
        files.push(File::new(format!("{name}/docs/{page}"), DATA, bytes));
    }
    Ok(files)
}

/// Pages and pictures of the documentation, to which README.md links.
fn pages(source: &Source) -> Outcome<Vec<(String, Vec<u8>)>> {
    let mut pages = read(&source.root.join("docs"))?;
    pages.retain(|(name, _)| [".md", ".png", ".svg"].iter().any(|end| name.ends_with(end)));
    Ok(pages)
}

/// Debian's path for the completions of each shell.
fn completion_path(name: &str) -> String {
    match name {
        "_ffwd" => "usr/share/zsh/vendor-completions/_ffwd".to_owned(),
        "ffwd.fish" => "usr/share/fish/vendor_completions.d/ffwd.fish".to_owned(),
        _ => "usr/share/bash-completion/completions/ffwd".to_owned(),
    }
}

fn package(source: &Source, target: Target, program: &[u8], documents: &Documents) -> Outcome<Vec<u8>> {
    let mut files = vec![
        File::new("usr/bin/ffwd", PROGRAM, program),
        File::new("usr/share/doc/ffwd/copyright", DATA, text(source, "dist/copyright")?),
        File::new("usr/share/doc/ffwd/changelog.Debian.gz", DATA, gzip(&text(source, "dist/changelog")?)?),
        File::new("usr/share/doc/ffwd/changelog.gz", DATA, gzip(&text(source, "CHANGELOG.md")?)?),
        File::new("usr/share/lintian/overrides/ffwd", DATA, LINTIAN_OVERRIDES),
        File::new(format!("usr/share/doc/ffwd/{THIRD_PARTY}.gz"), DATA, gzip(&documents.licences)?),
    ];
    for (page, bytes) in &documents.man {
        files.push(File::new(format!("usr/share/man/man1/{page}.gz"), DATA, gzip(bytes)?));
    }
    for (name, bytes) in &documents.completions {
        files.push(File::new(completion_path(name), DATA, bytes.as_slice()));
    }
    for extra in EXTRAS.iter().filter(|extra| !extra.debian.is_empty()) {
        files.push(File::new(extra.debian, DATA, text(source, extra.from)?));
    }
    for (page, bytes) in pages(source)? {
        files.push(File::new(format!("usr/share/doc/ffwd/docs/{page}"), DATA, bytes));
    }
    let scripts = ["postinst", "prerm", "postrm"];
    let scripts = scripts.map(|name| Ok(deb::script(name, text(source, &format!("dist/debian/{name}"))?)));
    deb::package(deb::Package {
        version: &source.version,
        architecture: target.debian,
        maintainer: &maintainer(source)?,
        homepage: &source.repository,
        files,
        scripts: scripts.into_iter().collect::<Outcome<_>>()?,
        time: source.time,
    })
}

/// Name and address of the maintainer, from the newest entry of dist/changelog.
fn maintainer(source: &Source) -> Outcome<String> {
    let changelog = String::from_utf8(text(source, "dist/changelog")?)?;
    let line =
        changelog.lines().find_map(|line| line.strip_prefix(" -- ")).ok_or("dist/changelog has no ` -- ` line")?;
    Ok(line.split("  ").next().unwrap_or(line).to_owned())
}

/// The packages of the program, for the first target; both targets have the same ones.
fn metadata() -> Outcome<Value> {
    let features: Vec<String> = FEATURES.split(',').map(|name| format!("ffwd/{name}")).collect();
    build::metadata(&["--filter-platform", TARGETS[0].triple, "--features", &features.join(",")])
}

/// Writes the bill of materials.
fn bill(source: &Source, metadata: &Value, out: &Path) -> Outcome<()> {
    let document = sbom::document(metadata, "ffwd")?;
    fs::write(out.join(format!("ffwd-{}.cdx.json", source.version)), serde_json::to_vec_pretty(&document)?)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::tests::entries;

    fn source() -> Source {
        let mut source = Source::find().unwrap();
        source.time = 7;
        source
    }

    fn named(names: &[&str]) -> Vec<(String, Vec<u8>)> {
        names.iter().map(|name| ((*name).to_owned(), name.as_bytes().to_vec())).collect()
    }

    fn documents() -> Documents {
        let man = named(&["ffwd.1", "ffwd-sync.1"]);
        Documents { man, completions: named(&["ffwd.bash", "_ffwd", "ffwd.fish"]), licences: b"licences".to_vec() }
    }

    #[test]
    fn archive_has_program_manuals_and_licences() {
        let files = archive_files(&source(), "ffwd-0.1.0-x", b"program", &documents()).unwrap();
        let packed = tar(files, Root::Bare, 7).unwrap();
        let paths: Vec<String> = entries(&packed).into_iter().map(|(path, _, _)| path).collect();
        let program = ["ffwd", "man/ffwd-sync.1", "completions/_ffwd", "ffwd.service", "docs/limitations.md"];
        for want in program.into_iter().chain(["LICENSE-MIT", THIRD_PARTY]) {
            assert!(paths.contains(&format!("ffwd-0.1.0-x/{want}")), "{want}: {paths:?}");
        }
    }

    #[test]
    fn package_takes_scripts_and_documents_of_the_source() {
        let made = || package(&source(), TARGETS[0], b"program", &documents()).unwrap();
        assert_eq!(made(), made(), "the same bytes again");
        let mail = maintainer(&source()).unwrap();
        assert!(mail.contains('<') && mail.ends_with('>') && !mail.contains("localhost"), "{mail}");
    }

    #[test]
    fn directory_in_use_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("x"), "").unwrap();
        let why = run(&Dist { target: vec![], out: Some(dir.path().to_owned()) }).unwrap_err().to_string();
        assert!(why.contains("is not empty"), "{why}");
    }

    #[test]
    fn bill_is_that_of_the_program() {
        let dir = tempfile::tempdir().unwrap();
        let source = source();
        bill(&source, &metadata().unwrap(), dir.path()).unwrap();
        let text = fs::read_to_string(dir.path().join(format!("ffwd-{}.cdx.json", source.version))).unwrap();
        for name in ["\"clap\"", "\"parquet\"", "\"ffwd-node\"", "\"mimalloc\""] {
            assert!(text.contains(name), "{name}");
        }
        assert!(!text.contains("\"testkit\"") && !text.contains("\"xtask\""));
    }
}
