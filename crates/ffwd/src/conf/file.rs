//! Parses the lines of a configuration file.
//!
//! Source: facts of Bitcoin Core b88bffe: common/config.cpp, `GetConfigOptions` and `ReadConfigStream`.
//! Absent on purpose: the choice of the file, and the meaning of an option.

use super::value::{Entry, Place, Setting, Value};
use super::{ConfError, SHOWN_BYTES_MAX};
use crate::options::{self, Effect, Negation, Times};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Maximum size of a configuration file, which is read into memory.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Maximum number of unknown names that are listed.
const UNKNOWN_MAX: usize = 100;
/// The UTF-8 byte order mark, which editors on Windows write.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The contents of a file.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) entries: Vec<Entry>,
    /// Section headers in order, including sections without an entry.
    pub(super) sections: Vec<(String, Place)>,
    pub(super) warnings: Vec<String>,
}

/// Characters that Core removes around names and values.
fn trimmed(bytes: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let begin = bytes.iter().position(|byte| !is_space(byte)).unwrap_or(bytes.len());
    let end = bytes.iter().rposition(|byte| !is_space(byte)).map_or(begin, |last| last + 1);
    &bytes[begin..end]
}

/// `text` shortened for a message: a file may contain lines of any length.
pub(super) fn shown(text: &str) -> String {
    let mut end = text.len().min(SHOWN_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    if end < text.len() { format!("{}...", &text[..end]) } else { text.to_owned() }
}

/// Parses the lines of the file at `path`.
///
/// # Errors
///
/// The lines that Core rejects, in Core's words.
pub(super) fn lines(path: &Path, bytes: &[u8]) -> Result<Lines, ConfError> {
    let refuse = |why: String| ConfError::File { why, at: path.display().to_string() };
    let mut out = Lines::default();
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Err(refuse("it is UTF-16 text: save it as UTF-8 without a byte order mark".to_owned()));
    }
    let bytes = match bytes.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) => {
            let place = Place::Line { file: path.to_owned(), line: 1 };
            out.warnings.push(format!(
                "{place}: a byte order mark stands before the line: the line is used without it; bitcoind ignores the line, so save the file without one"
            ));
            rest
        }
        None => bytes,
    };
    let mut prefix = String::new();
    for (index, whole) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let number = index + 1;
        let place = || Place::Line { file: path.to_owned(), line: number };
        let has_hash = whole.contains(&b'#');
        let line = trimmed(whole.split(|byte| *byte == b'#').next().unwrap_or_default());
        let text = || shown(&String::from_utf8_lossy(line));
        if line.is_empty() {
            continue;
        }
        if line.len() > 1 && line[0] == b'[' && line[line.len() - 1] == b']' {
            let section = String::from_utf8_lossy(&line[1..line.len() - 1]).into_owned();
            prefix = format!("{section}.");
            out.sections.push((section, place()));
        } else if line[0] == b'-' {
            let why = "options in configuration file must be specified without leading -";
            return Err(refuse(format!("parse error on line {number}: {}, {why}", text())));
        } else if let Some(at) = line.iter().position(|byte| *byte == b'=') {
            let name = format!("{prefix}{}", String::from_utf8_lossy(trimmed(&line[..at])));
            if has_hash && name.contains("rpcpassword") {
                return Err(refuse(format!(
                    "parse error on line {number}, using # in rpcpassword can be ambiguous and should be avoided"
                )));
            }
            if let Some(at) = name.rfind('.').filter(|at| prefix.len() <= *at) {
                out.sections.push((name[..at].to_owned(), place()));
            }
            out.entries.push(Entry::new(&name, Setting::of_bytes(trimmed(&line[at + 1..]), place())));
        } else {
            let negated = line.starts_with(b"no");
            let hint = format!(", if you intended to specify a negated option, use {}=1 instead", text());
            let hint = if negated { hint } else { String::new() };
            return Err(refuse(format!("parse error on line {number}: {}{hint}", text())));
        }
    }
    known(out, path)
}

/// Keeps the entries that are options of bitcoind, and warns about the others.
fn known(mut lines: Lines, path: &Path) -> Result<Lines, ConfError> {
    let refuse = |why: String| ConfError::File { why, at: path.display().to_string() };
    let mut kept = Vec::with_capacity(lines.entries.len());
    let mut unknown_count = 0;
    for entry in lines.entries {
        let place = &entry.setting.place;
        let Some(option) = options::find(&entry.name) else {
            unknown_count += 1;
            if unknown_count > UNKNOWN_MAX {
                continue;
            }
            let hint = options::hint(&entry.name);
            let name = shown(&entry.written);
            lines.warnings.push(format!("{place}: Ignoring unknown configuration value {name}{hint}"));
            continue;
        };
        if option.name == "conf" {
            let why = "conf cannot be set in the configuration file; use includeconf= if you want to include additional config files";
            return Err(refuse(why.to_owned()));
        }
        let is_negation = matches!(entry.setting.value, Value::No | Value::Yes);
        if is_negation && option.negation == Negation::Refused {
            return Err(refuse(format!("Negating of -{} is meaningless and therefore forbidden", option.name)));
        }
        if entry.setting.value == Value::Yes {
            let name = option.name;
            let is_list = option.times == Times::Many && !option.is_one_when_bare();
            let effect = if is_list { ": it names nothing, and has no effect; bitcoind reads it as 1" } else { "" };
            lines.warnings.push(format!("{place}: Parsed potentially confusing double-negative -{name}=0{effect}"));
            if is_list {
                continue;
            }
        }
        if option.name == "reindex" && entry.setting.value.truth() {
            lines.warnings.push(format!(
                "{place}: reindex=1 is set in the configuration file, which will significantly slow down startup. Consider removing or commenting out this option for better performance, unless there is currently a condition which makes rebuilding the indexes necessary"
            ));
        }
        if option.effect == Effect::LineOnly {
            let name = option.name;
            lines.warnings.push(format!("{place}: {name} has no effect in a file: it is for the command line"));
            continue;
        }
        kept.push(entry);
    }
    if unknown_count > UNKNOWN_MAX {
        let more = unknown_count - UNKNOWN_MAX;
        lines
            .warnings
            .push(format!("{}: {more} more unknown configuration values: is it a configuration?", path.display()));
    }
    lines.entries = kept;
    Ok(lines)
}

/// The bytes of a file, or `None` if it does not exist.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, ConfError> {
    let shape = |why: &str| ConfError::Shape { path: path.to_owned(), why: why.to_owned() };
    // Opening a FIFO would block until it has a writer.
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo() || metadata.file_type().is_socket())
    {
        return Err(shape("it is a FIFO or a socket: expected a file"));
    }
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(why) if matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(None),
        Err(why) => return Err(ConfError::Read { path: path.to_owned(), why }),
    };
    let mut bytes = Vec::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    let count = read.map_err(|why| ConfError::Read { path: path.to_owned(), why })? as u64;
    if count > FILE_BYTES_MAX {
        return Err(shape(&format!("it is larger than {FILE_BYTES_MAX} bytes: is it a configuration file?")));
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Result<Lines, String> {
        lines(Path::new("f"), text).map_err(|why| why.to_string())
    }

    #[test]
    fn lines_are_read_as_core_reads_them() {
        for (row, text, want) in [
            ("plain", "dbcache=1", vec![("", "dbcache", "1")]),
            ("spaces, comment, line end of Windows", " dbcache = 1 \t# much\r\n", vec![("", "dbcache", "1")]),
            ("a comment alone", "#dbcache=1\n\n  # x", vec![]),
            ("no value", "dbcache=", vec![("", "dbcache", "")]),
            ("a second =", "uacomment=a=b", vec![("", "uacomment", "a=b")]),
            ("a section", "[regtest]\npar=1", vec![("regtest", "par", "1")]),
            ("a section's prefix", "regtest.par=1", vec![("regtest", "par", "1")]),
            ("a section without a name is none", "[]\npar=1", vec![("", "par", "1")]),
            ("negated", "nopar=1\nregtest.nopar=", vec![("", "par", "0"), ("regtest", "par", "0")]),
        ] {
            let got = read(text.as_bytes()).unwrap();
            let entries: Vec<_> =
                got.entries.iter().map(|e| (e.section.as_str(), e.name.as_str(), e.setting.value.text())).collect();
            assert_eq!(entries, want, "{row}");
            assert_eq!(got.warnings, Vec::<String>::new(), "{row}");
        }
    }

    #[test]
    fn what_core_refuses_is_refused_in_its_words() {
        for (text, want) in [
            ("x=1\nrubbish", "Error reading configuration file: parse error on line 2: rubbish (f)"),
            ("nodbcache", "line 1: nodbcache, if you intended to specify a negated option, use nodbcache=1 instead"),
            ("-par=1", "line 1: -par=1, options in configuration file must be specified without leading -"),
            ("[regtest", "parse error on line 1: [regtest"),
            ("rpcpassword=a#b", "parse error on line 1, using # in rpcpassword can be ambiguous"),
            ("main.rpcpassword=a # b", "using # in rpcpassword"),
            ("conf=x", "conf cannot be set in the configuration file; use includeconf="),
            ("main.conf=x", "conf cannot be set"),
            ("nodatadir=1", "Negating of -datadir is meaningless and therefore forbidden"),
            ("nologlevel=0", "Negating of -loglevel"),
            ("\u{feff}rubbish", "parse error on line 1: rubbish ("),
        ] {
            let why = read(text.as_bytes()).expect_err(text);
            assert!(why.contains(want), "{text}: {why}");
        }
        let why = read(b"\xff\xfex\0=\0").unwrap_err();
        assert!(why.contains("UTF-16 text: save it as UTF-8"), "{why}");
        let why = read("x".repeat(1 << 20).as_bytes()).unwrap_err();
        assert!(why.len() < 1_000, "a line of any length has a short message");
    }

    #[test]
    fn what_has_no_effect_is_named() {
        for (text, want) in [
            ("prun=550", "f line 1: Ignoring unknown configuration value prun: did you mean prune?"),
            ("\nfoo=1", "f line 2: Ignoring unknown configuration value foo"),
            ("regtest.prun=1", "Ignoring unknown configuration value regtest.prun: did you mean prune?"),
            ("nofoo=1", "Ignoring unknown configuration value nofoo"),
            ("nolisten=0", "f line 1: Parsed potentially confusing double-negative -listen=0"),
            ("reindex=1", "reindex=1 is set in the configuration file, which will significantly slow down startup."),
            ("\u{feff}listen=1", "f line 1: a byte order mark stands before the line: the line is used without it"),
            ("version=1", "version has no effect in a file"),
        ] {
            let got = read(text.as_bytes()).unwrap();
            assert!(got.warnings.len() == 1 && got.warnings[0].contains(want), "{text}: {:?}", got.warnings);
        }
        let got = read(b"noconnect=0\nnodebug=0").unwrap();
        assert!(got.warnings[0].contains("double-negative -connect=0: it names nothing, and has no effect"), "{got:?}");
        assert_eq!(got.entries.len(), 1, "connect=1 would be a peer");
        assert_eq!(read("\u{feff}listen=1".as_bytes()).unwrap().entries[0].name, "listen");
    }

    #[test]
    fn any_bytes_are_read_or_refused() {
        let file =
            "\u{feff}[main]\r\nrpcpassword=a#b\n# \u{e4}\nregtest.nopar=0\nuacomment= \u{20ac} \n-x=1\n".as_bytes();
        for at in 0..file.len() {
            let _ = read(&file[..at]);
            for flip in [1, 0x20, 0x80, 0xff] {
                let mut bytes = file.to_vec();
                bytes[at] ^= flip;
                let _ = read(&bytes[..bytes.len() - at % 7]);
            }
        }
        let many = "x=1\n".repeat(10_000);
        let warnings = read(many.as_bytes()).unwrap().warnings;
        assert!(
            warnings.len() == UNKNOWN_MAX + 1 && warnings[UNKNOWN_MAX].contains("9900 more unknown"),
            "{warnings:?}"
        );
    }

    #[test]
    fn sections_are_those_of_lines_and_of_prefixes() {
        let got = read(b"[test]\npar=1\na.b.par=1\n[regtest]\nx.par=1\nmain.par=1").unwrap();
        let sections: Vec<_> = got.sections.iter().map(|(name, place)| format!("{name} {place}")).collect();
        assert_eq!(
            sections,
            ["test f line 1", "test.a.b f line 3", "regtest f line 4", "regtest.x f line 5", "regtest.main f line 6"]
        );
    }
}
