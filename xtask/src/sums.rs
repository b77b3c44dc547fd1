//! SHA-256 checksums, in the format of sha256sum(1).

use crate::Outcome;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Name of the file with the checksums.
pub(crate) const FILE: &str = "SHA256SUMS";

/// The hash in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut out, byte| {
        write!(out, "{byte:02x}").expect("a String takes all");
        out
    })
}

/// Writes the checksums of all files below a directory, in the order of their paths.
///
/// # Errors
///
/// An I/O error.
pub(crate) fn write(dir: &Path) -> Outcome<()> {
    let mut paths = Vec::new();
    files(dir, &mut paths)?;
    paths.sort();
    let mut text = String::new();
    for path in paths {
        let name = path.strip_prefix(dir)?.display().to_string();
        if name != FILE {
            writeln!(text, "{}  {name}", sha256(&std::fs::read(&path)?))?;
        }
    }
    std::fs::write(dir.join(FILE), text)?;
    Ok(())
}

/// All files below a directory.
///
/// # Errors
///
/// An I/O error.
pub(crate) fn files(dir: &Path, into: &mut Vec<PathBuf>) -> Outcome<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        match path.is_dir() {
            true => files(&path, into)?,
            false => into.push(path),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_sha256sum() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("man")).unwrap();
        std::fs::write(dir.path().join("man/a.1"), "abc").unwrap();
        std::fs::write(dir.path().join("b"), "").unwrap();
        write(dir.path()).unwrap();
        write(dir.path()).unwrap();
        // FIPS 180-2, appendix B.1; the hash of nothing.
        let want = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b\n\
                    ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  man/a.1\n";
        assert_eq!(std::fs::read_to_string(dir.path().join(FILE)).unwrap(), want);
    }
}
