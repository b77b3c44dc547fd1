//! Reproducible archives: tar with fixed owners and times, gzip without a name and a time.

use crate::Outcome;
use flate2::{Compression, GzBuilder};
use std::io::Write as _;

/// Mode of executables.
pub(crate) const PROGRAM: u32 = 0o755;
/// Mode of other files.
pub(crate) const DATA: u32 = 0o644;

/// One file of an archive, or one directory with its own mode and owner.
pub(crate) struct File {
    /// Path within the archive, without a slash at its beginning. That of a directory ends with a slash.
    pub(crate) path: String,
    pub(crate) mode: u32,
    /// User and group.
    owner: u64,
    pub(crate) bytes: Vec<u8>,
}

impl File {
    /// A file of root.
    pub(crate) fn new(path: impl Into<String>, mode: u32, bytes: impl Into<Vec<u8>>) -> File {
        File { path: path.into(), mode, owner: ROOT, bytes: bytes.into() }
    }

    /// An empty directory of the user and group `owner`.
    pub(crate) fn directory(name: &str, mode: u32, owner: u64) -> File {
        File { path: format!("{name}/"), mode, owner, bytes: Vec::new() }
    }

    fn kind(&self) -> tar::EntryType {
        match self.path.ends_with('/') {
            true => tar::EntryType::Directory,
            false => tar::EntryType::Regular,
        }
    }
}

/// User and group root.
const ROOT: u64 = 0;

/// The prefix of an archive's paths.
#[derive(Clone, Copy)]
pub(crate) enum Root {
    /// As given.
    Bare,
    /// With `./`, as dpkg has them.
    Dot,
}

/// A tar archive of the files, sorted by path, each preceded by its parent directories.
///
/// # Errors
///
/// A path that tar cannot hold.
pub(crate) fn tar(mut files: Vec<File>, root: Root, time: u64) -> Outcome<Vec<u8>> {
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let start = match root {
        Root::Bare => "",
        Root::Dot => "./",
    };
    let mut archive = tar::Builder::new(Vec::new());
    let mut made: Vec<String> = Vec::new();
    if matches!(root, Root::Dot) {
        append(&mut archive, "./", &File::directory("", PROGRAM, ROOT), time)?;
    }
    for file in &files {
        for (at, _) in file.path.trim_end_matches('/').match_indices('/') {
            let directory = format!("{start}{}/", &file.path[..at]);
            if !made.contains(&directory) {
                append(&mut archive, &directory, &File::directory("", PROGRAM, ROOT), time)?;
                made.push(directory);
            }
        }
        append(&mut archive, &format!("{start}{}", file.path), file, time)?;
    }
    Ok(archive.into_inner()?)
}

/// Appends `file` under the name `path`.
fn append(archive: &mut tar::Builder<Vec<u8>>, path: &str, file: &File, time: u64) -> Outcome<()> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(file.kind());
    header.set_mode(file.mode);
    header.set_uid(file.owner);
    header.set_gid(file.owner);
    if file.owner == ROOT {
        header.set_username("root")?;
        header.set_groupname("root")?;
    }
    header.set_mtime(time);
    header.set_size(file.bytes.len().try_into()?);
    // `append_data` would remove the `./`.
    let name = &mut header.as_old_mut().name;
    let Some(place) = name.get_mut(..path.len()).filter(|place| place.len() < 100) else {
        return Err(format!("{path}: the name is too long for an archive").into());
    };
    place.copy_from_slice(path.as_bytes());
    header.set_cksum();
    archive.append(&header, file.bytes.as_slice())?;
    Ok(())
}

/// Compresses bytes with gzip, at the highest level.
///
/// # Errors
///
/// Never, in memory.
pub(crate) fn gzip(bytes: &[u8]) -> Outcome<Vec<u8>> {
    let mut out = GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::best());
    out.write_all(bytes)?;
    Ok(out.finish()?)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Read as _;

    /// Paths, modes and contents of a tar archive. Directories have no contents. The owner of all but `/data/` and
    /// `/tmp/` is root.
    pub(crate) fn entries(bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut archive = tar::Archive::new(bytes);
        let read = |entry: Result<tar::Entry<'_, &[u8]>, std::io::Error>| {
            let mut entry = entry.unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            let header = entry.header();
            let path = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
            let owner = if matches!(path.as_str(), "data/" | "tmp/") { 1000 } else { 0 };
            assert_eq!((header.uid().unwrap(), header.gid().unwrap(), header.mtime().unwrap()), (owner, owner, 7));
            (path, entry.header().mode().unwrap(), bytes)
        };
        archive.entries().unwrap().map(read).collect()
    }

    #[test]
    fn tar_has_files_in_order_behind_their_directories() {
        let files =
            || vec![File::new("b/two", PROGRAM, "2"), File::new("a/x/one", DATA, "1"), File::new("b/one", DATA, "")];
        let bytes = tar(files(), Root::Dot, 7).unwrap();
        let paths: Vec<_> = entries(&bytes).into_iter().map(|(path, mode, bytes)| (path, mode, bytes.len())).collect();
        let want = [
            ("./", 0o755, 0),
            ("./a/", 0o755, 0),
            ("./a/x/", 0o755, 0),
            ("./a/x/one", 0o644, 1),
            ("./b/", 0o755, 0),
            ("./b/one", 0o644, 0),
            ("./b/two", 0o755, 1),
        ];
        assert_eq!(paths, want.map(|(path, mode, len)| (path.to_owned(), mode, len)));
        let mut turned = files();
        turned.reverse();
        assert_eq!(tar(turned, Root::Dot, 7).unwrap(), bytes, "the order given does not matter");
        assert!(tar(vec![File::new("x".repeat(100), DATA, "")], Root::Bare, 7).is_err(), "too long a name");
    }

    #[test]
    fn gzip_has_neither_name_nor_time() {
        let bytes = gzip(b"hello").unwrap();
        assert_eq!(&bytes[..8], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0], "no flags, no time");
        let mut back = String::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut back).unwrap();
        assert_eq!(back, "hello");
    }
}
