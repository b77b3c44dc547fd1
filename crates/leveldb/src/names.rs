//! Names of the files in a database directory.
//!
//! Source: Bitcoin Core b88bffe, leveldb/db/filename.cc.

use std::ffi::OsStr;

/// The file that names the manifest.
pub(crate) const CURRENT: &str = "CURRENT";
/// The file whose fcntl lock marks the directory as in use by a program.
pub(crate) const LOCK: &str = "LOCK";

/// A file with a number in its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// `NNNNNN.ldb`, or `.sst` in databases of old LevelDB versions.
    Table(u64),
    /// `NNNNNN.log`
    Log(u64),
    /// `MANIFEST-NNNNNN`
    Manifest(u64),
    /// `NNNNNN.dbtmp`
    Temporary(u64),
}

impl Name {
    /// Parses a name; `None` for every other file, which is not LevelDB's.
    pub(crate) fn parse(name: &OsStr) -> Option<Name> {
        let name = name.to_str()?;
        if let Some(number) = name.strip_prefix("MANIFEST-") {
            return digits(number).map(Name::Manifest);
        }
        let (number, suffix) = name.split_once('.')?;
        let number = digits(number)?;
        match suffix {
            "ldb" | "sst" => Some(Name::Table(number)),
            "log" => Some(Name::Log(number)),
            "dbtmp" => Some(Name::Temporary(number)),
            _ => None,
        }
    }

    /// The number.
    pub(crate) fn number(self) -> u64 {
        match self {
            Name::Table(number) | Name::Log(number) => number,
            Name::Manifest(number) | Name::Temporary(number) => number,
        }
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Name::Table(number) => write!(f, "{number:06}.ldb"),
            Name::Log(number) => write!(f, "{number:06}.log"),
            Name::Manifest(number) => write!(f, "MANIFEST-{number:06}"),
            Name::Temporary(number) => write!(f, "{number:06}.dbtmp"),
        }
    }
}

fn digits(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_round_trip() {
        for (text, name) in [
            ("000007.ldb", Name::Table(7)),
            ("1234567.log", Name::Log(1_234_567)),
            ("MANIFEST-000002", Name::Manifest(2)),
            ("000009.dbtmp", Name::Temporary(9)),
        ] {
            assert_eq!(Name::parse(OsStr::new(text)), Some(name));
            assert_eq!(name.to_string(), text);
        }
        assert_eq!(Name::parse(OsStr::new("000007.sst")), Some(Name::Table(7)));
        for text in ["CURRENT", "LOCK", "LOG", "a.ldb", ".ldb", "7.txt", "MANIFEST-", "MANIFEST-+7", "+7.log"] {
            assert_eq!(Name::parse(OsStr::new(text)), None, "{text}");
        }
    }
}
