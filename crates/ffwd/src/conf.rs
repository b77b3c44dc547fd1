//! bitcoin.conf and settings.json, read as Core reads them.
//!
//! ```text
//! line:     # comment | [section] | name=value | section.name=value; "no" before a name negates it
//! order:    settings.json, then the network's section, then the part before any section; in a file the first value counts
//! json:     { name: text | number | true | false | [values] }, in the network's directory; the last value counts
//! ```
//!
//! Source: facts of Bitcoin Core b88bffe: common/config.cpp, `GetConfigOptions` and `ReadConfigFiles`; common/settings.cpp,
//! `GetSetting` and `GetSettingsList`; common/args.cpp, `InterpretKey`, `InterpretValue` and `InterpretBool`.
//! Absent on purpose: what an option means (`settings`), and writing: both files are the user's.

use consensus::Chain;
use std::fmt;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Bound of what is read into memory: no configuration is larger.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Files that one configuration may include.
const INCLUDES_MAX: usize = 1_000;
/// Options that count on other networks than mainnet only in the network's own section. Source: init.cpp, `NETWORK_ONLY`.
const NETWORK_ONLY: [&str; 6] = ["addnode", "bind", "connect", "port", "rpcbind", "rpcport"];
/// Options that mean nothing with "no" before them. Source: init.cpp and chainparamsbase.cpp, `DISALLOW_NEGATION`.
const NEVER_NEGATED: [&str; 2] = ["datadir", "signetchallenge"];

/// What an option was set to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Value {
    /// `noname=1`, or false in settings.json.
    No,
    /// `noname=0`, or true in settings.json.
    Yes,
    /// `name=text`.
    Text(String),
}

impl Value {
    /// As a yes or no: no text is yes, otherwise the number it begins with is not 0.
    pub(crate) fn truth(&self) -> bool {
        match self {
            Value::No => false,
            Value::Yes => true,
            Value::Text(text) => text.is_empty() || begins_with_number_but_zero(text),
        }
    }

    /// As text.
    pub(crate) fn text(&self) -> &str {
        match self {
            Value::No => "0",
            Value::Yes => "1",
            Value::Text(text) => text,
        }
    }
}

fn begins_with_number_but_zero(text: &str) -> bool {
    let text = text.trim_start();
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    digits.bytes().take_while(u8::is_ascii_digit).any(|digit| digit != b'0')
}

/// File and line of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    file: PathBuf,
    /// From 1; 0 for settings.json.
    line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}", self.file.display()),
            line => write!(f, "{} line {line}", self.file.display()),
        }
    }
}

/// A value, and its file and line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Setting {
    pub(crate) value: Value,
    pub(crate) place: Place,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    section: String,
    name: String,
    setting: Setting,
}

/// Why a configuration cannot be used.
#[derive(Debug)]
pub(crate) enum ConfError {
    /// The file is there, and cannot be read.
    Read { path: PathBuf, why: io::Error },
    /// A file that was named is not there.
    Missing { path: PathBuf, by: String },
    /// It is a directory, too large, or of another format.
    Shape { path: PathBuf, why: String },
    /// A line, or a value.
    Line { place: Place, why: String },
}

impl fmt::Display for ConfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfError::Read { path, why } => {
                write!(f, "{} cannot be read: {why}: check its permissions", path.display())
            }
            ConfError::Missing { path, by } => write!(f, "{} does not exist, and {by} names it", path.display()),
            ConfError::Shape { path, why } => write!(f, "{}: {why}", path.display()),
            ConfError::Line { place, why } => write!(f, "{place}: {why}"),
        }
    }
}

impl std::error::Error for ConfError {}

/// Everything that the files say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conf {
    /// In order of the files' lines.
    lines: Vec<Entry>,
    /// Of settings.json; `section` is empty.
    json: Vec<Entry>,
    /// What the user should know: includes in included files, sections without a network.
    pub(crate) warnings: Vec<String>,
}

impl Conf {
    /// Reads the configuration file `file` of the data directory, and what it includes. `chain` is the network, where
    /// the command line gives it; otherwise the file decides. Without a file there is nothing in it, unless it was `named`.
    ///
    /// # Errors
    ///
    /// [`ConfError`], with file and line.
    pub(crate) fn read(datadir: &Path, file: &Path, named: bool, chain: Option<Chain>) -> Result<Conf, ConfError> {
        let (mut conf, path) = (Conf::default(), datadir.join(file));
        match read_text(&path)? {
            Some(text) => conf.add_lines(&path, &text)?,
            None if named => return Err(ConfError::Missing { path, by: "--conf".to_owned() }),
            None => return Ok(conf),
        }
        let chain = chain.map_or_else(|| conf.chain(), |chain| Ok(Some(chain)))?.unwrap_or(Chain::Main);
        let includes: Vec<Setting> =
            [chain.name(), ""].iter().flat_map(|section| conf.span(section, "includeconf")).collect();
        if includes.len() > INCLUDES_MAX {
            return Err(ConfError::Shape {
                path,
                why: format!("includes {} files, the limit is {INCLUDES_MAX}", includes.len()),
            });
        }
        for include in &includes {
            let path = datadir.join(include.value.text());
            let text = read_text(&path)?.ok_or_else(|| ConfError::Missing {
                path: path.clone(),
                by: format!("includeconf in {}", include.place),
            })?;
            let begin = conf.lines.len();
            conf.add_lines(&path, &text)?;
            let ignored = conf.lines[begin..].iter().filter(|entry| entry.name == "includeconf");
            conf.warnings.extend(ignored.map(|entry| {
                format!("{}: includeconf in an included file is ignored, as in Core", entry.setting.place)
            }));
            let mut at = 0;
            conf.lines.retain(|entry| {
                at += 1;
                at <= begin || entry.name != "includeconf"
            });
        }
        Ok(conf)
    }

    fn add_lines(&mut self, path: &Path, text: &str) -> Result<(), ConfError> {
        let mut prefix = String::new();
        for (number, line) in text.split('\n').enumerate() {
            let place = Place { file: path.to_owned(), line: number + 1 };
            let line = line.split('#').next().unwrap_or_default().trim_matches([' ', '\t', '\r']);
            let refuse = |why: String| Err(ConfError::Line { place: place.clone(), why });
            if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                self.look_at_section(section, &place);
                prefix = format!("{section}.");
            } else if line.starts_with('-') {
                return refuse(format!("{line}: remove the leading -: options are written without it here"));
            } else if let Some((name, value)) = line.split_once('=') {
                let full = format!("{prefix}{}", name.trim_matches([' ', '\t', '\r']));
                let entry = entry(&full, value.trim_matches([' ', '\t', '\r']), place.clone());
                if entry.name == "conf" {
                    return refuse("conf cannot be set here: includeconf adds another file".to_owned());
                }
                if entry.setting.value == Value::No && NEVER_NEGATED.contains(&entry.name.as_str()) {
                    return refuse(format!("no{}: this option cannot be negated", entry.name));
                }
                self.lines.push(entry);
            } else if !line.is_empty() {
                let hint = if line.starts_with("no") {
                    format!(": to negate an option, write {line}=1")
                } else {
                    String::new()
                };
                return refuse(format!("{line:?} is neither NAME=VALUE nor [SECTION]{hint}"));
            }
        }
        Ok(())
    }

    fn look_at_section(&mut self, section: &str, place: &Place) {
        if Chain::from_name(section).is_none() {
            self.warnings.push(format!("{place}: section [{section}] is not a network: ignored"));
        }
    }

    /// Reads settings.json, or the file that the option `settings` names, in the network's directory.
    ///
    /// # Errors
    ///
    /// [`ConfError`], when it is there and cannot be used.
    pub(crate) fn read_settings(&mut self, net_dir: &Path, chain: Chain) -> Result<(), ConfError> {
        let file = match self.get("settings", chain) {
            Some(Setting { value: Value::No, .. }) => return Ok(()),
            Some(setting) if !setting.value.text().is_empty() => PathBuf::from(setting.value.text()),
            _ => PathBuf::from("settings.json"),
        };
        let path = net_dir.join(file);
        let Some(text) = read_text(&path)? else { return Ok(()) };
        let shape = |why: String| ConfError::Shape { path: path.clone(), why };
        let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text).map_err(|why| {
            shape(format!("it is not a JSON object ({why}): removing it resets what bitcoind stored there"))
        })?;
        for (name, value) in object {
            let values = match value {
                serde_json::Value::Array(values) => values,
                one => vec![one],
            };
            for value in values {
                let value = match value {
                    serde_json::Value::Bool(false) => Value::No,
                    serde_json::Value::Bool(true) => Value::Yes,
                    serde_json::Value::Number(number) => Value::Text(number.to_string()),
                    serde_json::Value::String(text) => Value::Text(text),
                    serde_json::Value::Null => continue,
                    other => return Err(shape(format!("{name} is {other}: expected text, a number, true or false"))),
                };
                let setting = Setting { value, place: Place { file: path.clone(), line: 0 } };
                self.json.push(Entry { section: String::new(), name: name.clone(), setting });
            }
        }
        Ok(())
    }

    /// The network that the file names, if any.
    ///
    /// # Errors
    ///
    /// [`ConfError::Line`]: the name of no network, or several networks at once.
    ///
    /// Source: common/args.cpp, `GetChainArg`.
    pub(crate) fn chain(&self) -> Result<Option<Chain>, ConfError> {
        let mut found: Vec<(Chain, Setting)> = Vec::new();
        for (name, chain) in [
            ("regtest", Chain::Regtest),
            ("signet", Chain::Signet),
            ("testnet", Chain::Test),
            ("testnet4", Chain::Testnet4),
        ] {
            // Of flags for networks the last counts, not the first.
            let last = self.all("", name).pop();
            found.extend(last.filter(|setting| setting.value.truth()).map(|setting| (chain, setting)));
        }
        if let Some(setting) = self.span("", "chain").into_iter().next() {
            let chain = Chain::from_name(setting.value.text()).ok_or_else(|| ConfError::Line {
                place: setting.place.clone(),
                why: format!("chain={}: expected one of main, test, testnet4, signet, regtest", setting.value.text()),
            })?;
            found.push((chain, setting));
        }
        match &found[..] {
            [] => Ok(None),
            [(chain, _)] => Ok(Some(*chain)),
            [(a, _), (b, setting), ..] => Err(ConfError::Line {
                place: setting.place.clone(),
                why: format!(
                    "{b} is chosen here, {a} is chosen too: leave at most one of regtest, signet, testnet, testnet4, chain"
                ),
            }),
        }
    }

    fn all(&self, section: &str, name: &str) -> Vec<Setting> {
        let named = self.lines.iter().filter(|entry| entry.section == section && entry.name == name);
        named.map(|entry| entry.setting.clone()).collect()
    }

    /// Values of one section after the last negation.
    fn span(&self, section: &str, name: &str) -> Vec<Setting> {
        after_last_no(self.all(section, name))
    }

    /// The sources of an option, the strongest first; the last is not the network's own.
    fn sources(&self, name: &str, chain: Chain) -> [Vec<Setting>; 3] {
        let json = self.json.iter().filter(|entry| entry.name == name).map(|entry| entry.setting.clone()).collect();
        [json, self.all(chain.name(), name), self.all("", name)]
    }

    /// The value of an option on a network, if it is set.
    pub(crate) fn get(&self, name: &str, chain: Chain) -> Option<Setting> {
        for (index, values) in self.sources(name, chain).into_iter().enumerate() {
            let Some(last) = values.last().cloned() else { continue };
            if last.value == Value::No {
                return Some(last); // Even where a value would not count.
            }
            if index == 2 && chain != Chain::Main && NETWORK_ONLY.contains(&name) {
                continue;
            }
            let mut span = after_last_no(values);
            return Some(if index == 0 { last } else { span.swap_remove(0) });
        }
        None
    }

    /// All values of a repeatable option; empty where it is not set, or negated.
    pub(crate) fn list(&self, name: &str, chain: Chain) -> Vec<Setting> {
        let (mut result, mut negated_and_empty) = (Vec::new(), false);
        let (mut done, last) = (false, 2);
        for (index, values) in self.sources(name, chain).into_iter().enumerate() {
            if index == last && chain != Chain::Main && NETWORK_ONLY.contains(&name) {
                continue;
            }
            let has_no = values.iter().any(|setting| setting.value == Value::No);
            let ends_with_no = values.last().is_some_and(|setting| setting.value == Value::No);
            // As in Core, a negation in the section does not remove the values before it in the file unless no value follows.
            if !done || (index > 0 && !negated_and_empty) {
                result.extend(after_last_no(values));
            }
            done |= has_no;
            negated_and_empty |= ends_with_no && result.is_empty();
        }
        result
    }
}

fn after_last_no(mut values: Vec<Setting>) -> Vec<Setting> {
    let begin = values.iter().rposition(|setting| setting.value == Value::No).map_or(0, |last| last + 1);
    values.split_off(begin)
}

/// `test.noprune=1` is section `test`, name `prune`, value no.
fn entry(full: &str, value: &str, place: Place) -> Entry {
    let (section, name) = full.split_once('.').unwrap_or(("", full));
    let text = Value::Text(value.to_owned());
    let (name, value) = match name.strip_prefix("no") {
        Some(name) if text.truth() => (name, Value::No),
        Some(name) => (name, Value::Yes),
        None => (name, text),
    };
    Entry { section: section.to_owned(), name: name.to_owned(), setting: Setting { value, place } }
}

/// The text of a file, if it exists.
fn read_text(path: &Path) -> Result<Option<String>, ConfError> {
    let shape = |why: &str| ConfError::Shape { path: path.to_owned(), why: why.to_owned() };
    // Opening a FIFO waits for its writer.
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo() || metadata.file_type().is_socket())
    {
        return Err(shape("it is a FIFO or a socket: expected a file"));
    }
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(why) if matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(None),
        Err(why) => return Err(ConfError::Read { path: path.to_owned(), why }),
    };
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(shape("it is a directory: expected a file"));
    }
    let mut bytes = Vec::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    let count = read.map_err(|why| ConfError::Read { path: path.to_owned(), why })? as u64;
    if count > FILE_BYTES_MAX {
        return Err(shape(&format!("it is larger than {FILE_BYTES_MAX} bytes: is it a configuration file?")));
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// The configuration of a data directory with these files, of which the first is bitcoin.conf.
    fn read(files: &[(&str, &str)], chain: Option<Chain>) -> Result<Conf, ConfError> {
        let datadir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(datadir.path().join(name), text).unwrap();
        }
        Conf::read(datadir.path(), Path::new("bitcoin.conf"), false, chain)
    }

    fn text(setting: Option<Setting>) -> String {
        setting.map_or("-".to_owned(), |setting| setting.value.text().to_owned())
    }

    #[test]
    fn get_takes_the_value_that_core_takes() {
        for (row, file, chain, name, want) in [
            ("plain", "dbcache=100", Chain::Main, "dbcache", "100"),
            ("spaces, comment, line end of Windows", " dbcache = 100 \t# much\r\n", Chain::Main, "dbcache", "100"),
            ("a comment alone", "#dbcache=100", Chain::Main, "dbcache", "-"),
            ("no value", "dbcache=", Chain::Main, "dbcache", ""),
            ("the first of two", "dbcache=1\ndbcache=2", Chain::Main, "dbcache", "1"),
            ("the first after a negation", "dbcache=1\nnodbcache=1\ndbcache=2\ndbcache=3", Chain::Main, "dbcache", "2"),
            ("negated", "nodbcache=1", Chain::Main, "dbcache", "0"),
            ("negated twice", "nodbcache=0", Chain::Main, "dbcache", "1"),
            ("the network's section first", "dbcache=1\n[regtest]\ndbcache=2", Chain::Regtest, "dbcache", "2"),
            ("another network's section", "dbcache=1\n[regtest]\ndbcache=2", Chain::Test, "dbcache", "1"),
            ("mainnet's section", "dbcache=1\n[main]\ndbcache=2", Chain::Main, "dbcache", "2"),
            ("prefix", "test.dbcache=3\ndbcache=1", Chain::Test, "dbcache", "3"),
            ("prefix and negation", "test.nodbcache=1\ndbcache=1", Chain::Test, "dbcache", "0"),
            ("for a network only", "connect=1.2.3.4", Chain::Test, "connect", "-"),
            ("for a network only, on mainnet", "connect=1.2.3.4", Chain::Main, "connect", "1.2.3.4"),
            ("for a network only, but negated", "noconnect=1", Chain::Test, "connect", "0"),
            ("unknown names do no harm", "wallet=x\nrpcuser=y", Chain::Main, "dbcache", "-"),
        ] {
            let conf = read(&[("bitcoin.conf", file)], Some(chain)).unwrap();
            assert_eq!(text(conf.get(name, chain)), want, "{row}");
        }
    }

    #[test]
    fn list_joins_sections_as_core_does() {
        for (row, file, chain, want) in [
            ("in order", "addnode=a\naddnode=b", Chain::Main, vec!["a", "b"]),
            ("the section before the rest", "addnode=a\n[main]\naddnode=b", Chain::Main, vec!["b", "a"]),
            ("negated in between", "addnode=a\nnoaddnode=1\naddnode=b", Chain::Main, vec!["b"]),
            ("negated in the section", "addnode=a\n[main]\nnoaddnode=1", Chain::Main, vec![]),
            (
                "values after a negation in the section",
                "addnode=a\n[main]\nnoaddnode=1\naddnode=b",
                Chain::Main,
                vec!["b", "a"],
            ),
            ("not for this network", "addnode=a", Chain::Regtest, vec![]),
        ] {
            let conf = read(&[("bitcoin.conf", file)], Some(chain)).unwrap();
            let got: Vec<String> = conf.list("addnode", chain).iter().map(|s| s.value.text().to_owned()).collect();
            assert_eq!(got, want, "{row}");
        }
    }

    #[test]
    fn chain_is_read_from_flags_and_name() {
        for (row, file, want) in [
            ("none", "dbcache=4", "-"),
            ("by name", "chain=testnet4", "testnet4"),
            ("by flag", "testnet=1", "test"),
            ("off", "regtest=0", "-"),
            ("the last flag", "regtest=0\nregtest=1", "regtest"),
            ("the first name", "chain=signet\nchain=main", "signet"),
            ("in a section it has no effect", "[main]\nregtest=1", "-"),
        ] {
            let conf = read(&[("bitcoin.conf", file)], None).unwrap();
            assert_eq!(conf.chain().unwrap().map_or("-", Chain::name), want, "{row}");
        }
    }

    #[test]
    fn wrong_file_is_refused_with_file_and_line() {
        for (row, files, want) in [
            (
                "a dash",
                &[("bitcoin.conf", "\n-dbcache=4")][..],
                "bitcoin.conf line 2: -dbcache=4: remove the leading -",
            ),
            (
                "no =",
                &[("bitcoin.conf", "nodbcache")],
                "line 1: \"nodbcache\" is neither NAME=VALUE nor [SECTION]: to negate",
            ),
            ("conf", &[("bitcoin.conf", "conf=x")], "includeconf adds another file"),
            ("a negation without sense", &[("bitcoin.conf", "nodatadir=1")], "cannot be negated"),
            ("no network", &[("bitcoin.conf", "chain=testnet3")], "one of main, test"),
            (
                "two networks",
                &[("bitcoin.conf", "signet=1\nchain=main")],
                "line 2: main is chosen here, signet is chosen too",
            ),
            ("an include that is not there", &[("bitcoin.conf", "includeconf=more.conf")], "more.conf does not exist"),
            ("an include that is wrong", &[("bitcoin.conf", "includeconf=a"), ("a", "x\n")], "a line 1: \"x\""),
        ] {
            let conf = read(files, None).and_then(|conf| conf.chain());
            let why = conf.expect_err(row).to_string();
            assert!(why.contains(want), "{row}: {why}");
        }
        let datadir = tempfile::tempdir().unwrap();
        for (row, file, named, want) in [
            ("named and not there", "other.conf", true, "--conf names it"),
            ("a directory", ".", false, "it is a directory"),
        ] {
            let why = Conf::read(datadir.path(), Path::new(file), named, None).expect_err(row).to_string();
            assert!(why.contains(want), "{row}: {why}");
        }
    }

    #[test]
    fn includeconf_is_followed_one_level_deep() {
        let files = [
            ("bitcoin.conf", "includeconf=a\n[regtest]\nincludeconf=b\ndbcache=5"),
            ("a", "dbcache=6\npar=2\nincludeconf=b"),
            ("b", "[regtest]\npar=3"),
        ];
        let conf = read(&files, Some(Chain::Regtest)).unwrap();
        assert_eq!(text(conf.get("dbcache", Chain::Regtest)), "5");
        assert_eq!(text(conf.get("par", Chain::Regtest)), "3");
        assert_eq!(conf.warnings.len(), 1, "{:?}", conf.warnings);
        let conf = read(&files, Some(Chain::Main)).unwrap();
        assert_eq!(text(conf.get("par", Chain::Main)), "2", "b belongs to regtest");
        let conf = read(&[("bitcoin.conf", "[regtset]\npar=3")], None).unwrap();
        assert!(conf.warnings[0].contains("[regtset] is not a network"), "{:?}", conf.warnings);
    }

    #[test]
    fn settings_json_overrides_bitcoin_conf() {
        for (row, json, want) in [
            ("text", r#"{"dbcache": "7", "_warning_": "x"}"#, Ok("7")),
            ("number", r#"{"dbcache": 8}"#, Ok("8")),
            ("false", r#"{"dbcache": false}"#, Ok("0")),
            ("the last of several", r#"{"dbcache": ["7", "9"]}"#, Ok("9")),
            ("null", r#"{"dbcache": null}"#, Ok("5")),
            ("empty", "{}", Ok("5")),
            ("no object", "[1]", Err("not a JSON object")),
            ("cut", r#"{"dbcache":"#, Err("removing it resets")),
            ("an object inside", r#"{"dbcache": {}}"#, Err("text, a number, true or false")),
        ] {
            let datadir = tempfile::tempdir().unwrap();
            fs::write(datadir.path().join("settings.json"), json).unwrap();
            let mut conf = read(&[("bitcoin.conf", "dbcache=5")], None).unwrap();
            match (conf.read_settings(datadir.path(), Chain::Main), want) {
                (Ok(()), Ok(want)) => assert_eq!(text(conf.get("dbcache", Chain::Main)), want, "{row}"),
                (Err(why), Err(want)) => assert!(why.to_string().contains(want), "{row}: {why}"),
                (got, want) => panic!("{row}: got {got:?}, want {want:?}"),
            }
            let mut conf = read(&[("bitcoin.conf", "dbcache=5\nnosettings=1")], None).unwrap();
            conf.read_settings(datadir.path(), Chain::Main).unwrap();
            assert_eq!(text(conf.get("dbcache", Chain::Main)), "5", "{row}: not read");
        }
    }

    #[test]
    fn truth_of_a_value_is_cores() {
        for (text, want) in [
            ("", true),
            ("1", true),
            ("0", false),
            ("00", false),
            ("yes", false),
            ("true", false),
            ("2x", true),
            (" -1", true),
            ("+0", false),
        ] {
            assert_eq!(Value::Text(text.to_owned()).truth(), want, "{text:?}");
        }
    }
}
