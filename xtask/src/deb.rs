//! Debian packages (deb(5)): an ar archive of `debian-binary`, `control.tar.gz` and `data.tar.gz`.

use crate::Outcome;
use crate::archive::{DATA, File, PROGRAM, Root, gzip, tar};

/// The contents of a package.
pub(crate) struct Package<'a> {
    pub(crate) version: &'a str,
    /// Debian's name of the architecture.
    pub(crate) architecture: &'a str,
    pub(crate) maintainer: &'a str,
    pub(crate) homepage: &'a str,
    /// Installed files.
    pub(crate) files: Vec<File>,
    /// Maintainer scripts: `postinst` and others.
    pub(crate) scripts: Vec<File>,
    /// Seconds since 1970 of all files.
    pub(crate) time: u64,
}

/// Builds a package.
///
/// # Errors
///
/// A path that tar cannot hold.
pub(crate) fn package(package: Package<'_>) -> Outcome<Vec<u8>> {
    let time = package.time;
    let installed_kib: usize = package.files.iter().map(|file| file.bytes.len().div_ceil(1024)).sum();
    let control = format!(
        "Package: ffwd\nVersion: {}-1\nArchitecture: {}\nMaintainer: {}\nInstalled-Size: {installed_kib}\nDepends: adduser\n\
         Section: net\nPriority: optional\nHomepage: {}\n\
         Description: fast Initial Block Download for Bitcoin nodes\n \
         Downloads blocks, validates them as Bitcoin Core does, and stores them in\n \
         Bitcoin Core's own data directory: stop one program, start the other.\n",
        package.version, package.architecture, package.maintainer, package.homepage
    );
    let mut members = package.scripts;
    members.push(File::new("control", DATA, control));
    let control = gzip(&tar(members, Root::Dot, time)?)?;
    let data = gzip(&tar(package.files, Root::Dot, time)?)?;
    Ok(ar(&[("debian-binary", b"2.0\n"), ("control.tar.gz", &control), ("data.tar.gz", &data)], time))
}

/// An ar archive: eight bytes, then for each member a header of 60 bytes and its contents, padded to two.
fn ar(members: &[(&str, &[u8])], time: u64) -> Vec<u8> {
    let mut out = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        let header = format!("{name:<16}{time:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, "100644", bytes.len());
        assert_eq!(header.len(), 60, "ar(5): names have 16 bytes at most");
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(bytes);
        if bytes.len() % 2 == 1 {
            out.push(b'\n');
        }
    }
    out
}

/// A maintainer script.
pub(crate) fn script(name: &str, text: impl Into<Vec<u8>>) -> File {
    File::new(name, PROGRAM, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::tests::entries;
    use std::io::Read as _;
    use std::process::Command;

    fn made() -> Vec<u8> {
        package(Package {
            version: "0.1.0",
            architecture: "amd64",
            maintainer: "A <a@example.org>",
            homepage: "https://example.org",
            files: vec![File::new("usr/bin/ffwd", PROGRAM, vec![7; 2000])],
            scripts: vec![script("postinst", "#!/bin/sh\n")],
            time: 7,
        })
        .unwrap()
    }

    /// Name and contents of each member, by ar(5).
    fn members(mut bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
        bytes = bytes.strip_prefix(b"!<arch>\n").unwrap();
        let mut members = Vec::new();
        while !bytes.is_empty() {
            let text = |from: usize, to: usize| std::str::from_utf8(&bytes[from..to]).unwrap().trim().to_owned();
            let len: usize = text(48, 58).parse().unwrap();
            assert_eq!(&bytes[58..60], b"`\n");
            members.push((text(0, 16), bytes[60..60 + len].to_vec()));
            bytes = &bytes[60 + len.next_multiple_of(2)..];
        }
        members
    }

    fn unpacked(bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut tar = Vec::new();
        flate2::read::GzDecoder::new(bytes).read_to_end(&mut tar).unwrap();
        entries(&tar)
    }

    #[test]
    fn package_has_its_three_members() {
        let members = members(&made());
        let names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["debian-binary", "control.tar.gz", "data.tar.gz"]);
        assert_eq!(members[0].1, b"2.0\n");
        let control = unpacked(&members[1].1);
        let names: Vec<_> = control.iter().map(|(name, mode, _)| (name.as_str(), *mode)).collect();
        assert_eq!(names, [("./", 0o755), ("./control", 0o644), ("./postinst", 0o755)]);
        let text = String::from_utf8(control[1].2.clone()).unwrap();
        assert!(
            text.contains("Version: 0.1.0-1\nArchitecture: amd64\n") && text.contains("Installed-Size: 2\n"),
            "{text}"
        );
        let data = unpacked(&members[2].1);
        assert_eq!(
            data.last().map(|(name, mode, bytes)| (name.as_str(), *mode, bytes.len())),
            Some(("./usr/bin/ffwd", 0o755, 2000))
        );
        assert_eq!(made(), made(), "the same bytes again");
    }

    #[test]
    fn dpkg_reads_the_package() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.deb");
        std::fs::write(&file, made()).unwrap();
        let Ok(said) = Command::new("dpkg-deb").arg("--contents").arg(&file).output() else {
            println!("skipped: dpkg-deb is not installed");
            return;
        };
        let text = String::from_utf8(said.stdout).unwrap();
        assert!(said.status.success() && text.contains("root/root") && text.contains("./usr/bin/ffwd"), "{text}");
    }
}
