//! Reads bitcoin.conf and settings.json with Core's precedence rules.
//!
//! ```text
//! order:    the command line, settings.json, the network's section, the part before any section
//!           in a configuration file the first value counts, elsewhere the last
//! ```
//!
//! Source: facts of Bitcoin Core b88bffe: common/config.cpp, `ReadConfigFiles`; common/settings.cpp, `GetSetting`,
//! `GetSettingsList` and `OnlyHasDefaultSectionSetting`; common/args.cpp, `GetChainArg`.
//! Absent on purpose: the meaning of an option (`settings`), and writing: both files belong to the user.

mod file;
mod findings;
mod json;
mod on_line;
mod value;

pub(crate) use findings::{Answers, is_quoted};
pub(crate) use on_line::OnLine;
pub(crate) use value::{Entry, Place, Setting, Value};

use crate::options::{self, Sections};
use consensus::Chain;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Maximum number of files that one configuration may include.
const INCLUDES_MAX: usize = 1_000;
/// Maximum length of a line or a name in a message, in bytes.
const SHOWN_BYTES_MAX: usize = 200;
/// Flags that name a network.
const FLAGS: [(&str, Chain); 4] =
    [("regtest", Chain::Regtest), ("signet", Chain::Signet), ("testnet", Chain::Test), ("testnet4", Chain::Testnet4)];
/// Core's message if two networks are named.
const TWO_NETWORKS: &str =
    "Invalid combination of -regtest, -signet, -testnet, -testnet4 and -chain. Can use at most one.";

/// Why a configuration is unusable.
#[derive(Debug)]
pub(crate) enum ConfError {
    /// The file exists but cannot be read.
    Read { path: PathBuf, why: io::Error },
    /// The file is too large, or not a regular file.
    Shape { path: PathBuf, why: String },
    /// An error in a line of a configuration file, or in the file as a whole; `at` is the place.
    File { at: String, why: String },
    /// An error in settings.json.
    Json { why: String },
    /// An invalid value.
    Value { place: Place, why: String },
}

impl fmt::Display for ConfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfError::Read { path, why } => {
                write!(f, "{} cannot be read: {why}: check its permissions", path.display())
            }
            ConfError::Shape { path, why } => write!(f, "{}: {why}", path.display()),
            ConfError::File { at, why } => write!(f, "Error reading configuration file: {why} ({at})"),
            ConfError::Json { why } => write!(f, "Settings file could not be read: {why}"),
            ConfError::Value { place, why } => write!(f, "{place}: {why}"),
        }
    }
}

impl std::error::Error for ConfError {}

/// The sections whose values count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    CommandLine,
    Json,
    Section,
    Default,
}

/// All entries of the files, and the options that bitcoind would read on the command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conf {
    /// Entries of the files, in the order of their lines.
    lines: Vec<Entry>,
    /// Entries of settings.json; `section` is empty.
    json: Vec<Entry>,
    line: OnLine,
    /// The lines of debug.log about settings.json.
    json_lines: Vec<String>,
    /// settings.json and the text with a comment that a node writes there; `None` with `-nosettings`, or if the file
    /// already has that comment.
    pub(crate) settings_file: Option<(PathBuf, String)>,
    /// Warnings for the user: lines without effect.
    pub(crate) warnings: Vec<String>,
}

/// A configuration file to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConfFile<'a> {
    /// The directory that its path, and the paths of included files, are relative to.
    pub(crate) datadir: &'a Path,
    pub(crate) file: &'a Path,
    /// Whether the command line names it. The file must then exist.
    pub(crate) is_named: bool,
    /// The network of the command line; `None` if the file decides.
    pub(crate) chain: Option<Chain>,
    /// Whether includeconf lines are followed; false with `-noincludeconf`.
    pub(crate) with_includes: bool,
}

/// The values of one source after its last negation, and whether that negation is the last entry.
struct Span<'a> {
    values: &'a [&'a Setting],
    has_negation: bool,
    ends_negated: bool,
}

impl Conf {
    /// A configuration that has only the command line.
    pub(crate) fn without_file(line: &OnLine) -> Conf {
        Conf { line: line.clone(), ..Conf::default() }
    }

    /// Reads a configuration file and the files that it includes. A missing file counts as empty, unless it was
    /// named.
    ///
    /// # Errors
    ///
    /// [`ConfError`], with file and line.
    pub(crate) fn read(from: ConfFile<'_>, line: &OnLine) -> Result<Conf, ConfError> {
        let path = from.datadir.join(from.file);
        let mut conf = Conf { line: line.clone(), ..Conf::default() };
        let refuse = |why: String| ConfError::File { why, at: path.display().to_string() };
        if path.is_dir() {
            return Err(refuse(format!("Config file \"{}\" is a directory.", path.display())));
        }
        match file::read(&path)? {
            Some(bytes) => conf.add(&path, &bytes)?,
            None if from.is_named => {
                return Err(refuse(format!("specified config file \"{}\" could not be opened.", path.display())));
            }
            None => {
                // An editor on Windows may have added `.txt` to the name, and hides that extension.
                let other = path.with_extension("conf.txt");
                if other.is_file() {
                    let wanted = path.display();
                    let other = other.display();
                    conf.warnings.push(format!("{other} is not read: rename it to {wanted}"));
                }
                return Ok(conf);
            }
        }
        let chain = conf.chain(from.chain)?.unwrap_or(Chain::Main);
        if from.with_includes {
            conf.include(from.datadir, &path, chain)?;
        }
        Ok(conf)
    }

    fn add(&mut self, path: &Path, bytes: &[u8]) -> Result<(), ConfError> {
        let lines = file::lines(path, bytes)?;
        let unknown = lines.sections.iter().filter(|(name, _)| Chain::from_name(name).is_none());
        self.warnings.extend(unknown.map(|(name, place)| section_warning(name, place)));
        self.warnings.extend(lines.warnings);
        self.lines.extend(lines.entries);
        Ok(())
    }

    fn include(&mut self, datadir: &Path, by: &Path, chain: Chain) -> Result<(), ConfError> {
        let includes: Vec<Setting> = [chain.name(), ""]
            .iter()
            .flat_map(|section| after_last_no(self.of_section(section, "includeconf")).into_iter().cloned())
            .collect();
        if includes.len() > INCLUDES_MAX {
            let why = format!("it includes {} files, the limit is {INCLUDES_MAX}", includes.len());
            return Err(ConfError::File { why, at: by.display().to_string() });
        }
        for include in &includes {
            let name = include.value.text();
            let path = datadir.join(include.path());
            let refuse = |why: String| Err(ConfError::File { why, at: include.place.to_string() });
            if name.is_empty() {
                return refuse("Failed to include configuration file: no name".to_owned());
            }
            if path.is_dir() {
                return refuse(format!("Included config file \"{}\" is a directory.", path.display()));
            }
            let Some(bytes) = file::read(&path)? else {
                return refuse(format!("Failed to include configuration file {name}"));
            };
            let begin = self.lines.len();
            self.add(&path, &bytes)?;
            let nested = self.lines.split_off(begin);
            for entry in nested {
                if entry.name == "includeconf" {
                    let place = &entry.setting.place;
                    let text = entry.setting.value.text();
                    self.warnings.push(format!(
                        "{place}: -includeconf cannot be used from included files; ignoring -includeconf={}",
                        file::shown(text)
                    ));
                } else {
                    self.lines.push(entry);
                }
            }
        }
        Ok(())
    }

    /// Reads settings.json, or the file that the option `settings` names, in the network's directory. `given` is
    /// the command line's value; `0` reads no file.
    ///
    /// # Errors
    ///
    /// [`ConfError`] if the file exists and is unusable.
    pub(crate) fn read_settings(
        &mut self,
        net_dir: &Path,
        chain: Chain,
        given: Option<&Path>,
    ) -> Result<(), ConfError> {
        let named = match (given, self.get("settings", chain)) {
            (Some(path), _) => Some(path.to_owned()),
            (None, Some(Setting { value: Value::No, .. })) => return Ok(()),
            (None, named) => named.map(|setting| setting.path()),
        };
        if given.is_some_and(|path| path.as_os_str() == "0") {
            return Ok(());
        }
        let file = named.filter(|path| !path.as_os_str().is_empty()).unwrap_or_else(|| PathBuf::from("settings.json"));
        let path = net_dir.join(file);
        if path.is_dir() {
            return Err(ConfError::Shape { path, why: "it is a directory: expected a file".to_owned() });
        }
        let Some(bytes) = file::read(&path)? else {
            self.settings_file = Some((path, json::empty_file()));
            return Ok(());
        };
        let stored = json::read(&path, &bytes)?;
        self.json = stored.entries;
        self.json_lines = stored.log_lines;
        self.settings_file = stored.with_comment.map(|text| (path, text));
        self.warnings.extend(stored.warnings);
        Ok(())
    }

    /// The network that the file names, if any. `given` is the command line's.
    ///
    /// # Errors
    ///
    /// [`ConfError::Value`]: an unknown network name, or several networks at once.
    pub(crate) fn chain(&self, given: Option<Chain>) -> Result<Option<Chain>, ConfError> {
        let mut found: Vec<(Chain, Option<Setting>)> = given.map(|chain| (chain, None)).into_iter().collect();
        for (name, chain) in FLAGS {
            // Of repeated network flags the last counts, not the first.
            let last = self.of_section("", name).pop().filter(|setting| setting.value.truth());
            found.extend(last.map(|setting| (chain, Some(setting.clone()))));
        }
        let named = self.merged("chain", None, Reads::Files).filter(|_| given.is_none());
        if let Some(setting) = named {
            let text = file::shown(setting.value.text());
            let chain = Chain::from_name(&text).ok_or_else(|| ConfError::Value {
                place: setting.place.clone(),
                why: format!("Unknown chain {text}. Expected one of main, test, testnet4, signet, regtest"),
            })?;
            found.push((chain, Some(setting)));
        }
        let Some((first, _)) = found.first() else { return Ok(None) };
        match found.iter().find(|(chain, _)| chain != first) {
            Some((other, Some(setting))) => Err(ConfError::Value {
                place: setting.place.clone(),
                why: format!("{TWO_NETWORKS} {other} is chosen here, {first} is chosen too"),
            }),
            // `spelling` rejects two networks on the command line.
            _ => Ok(Some(*first)),
        }
    }

    fn of_section(&self, section: &str, name: &str) -> Vec<&Setting> {
        let named = self.lines.iter().filter(|entry| entry.section == section && entry.name == name);
        named.map(|entry| &entry.setting).collect()
    }

    /// The values of an option, strongest source first.
    fn sources(&self, name: &str, chain: Option<Chain>, reads: Reads) -> Vec<(Source, Vec<&Setting>)> {
        let of = |entries: &'_ [Entry]| -> Vec<usize> {
            (0..entries.len()).filter(|index| entries[*index].name == name).collect()
        };
        let line = if reads == Reads::All { of(&self.line.entries) } else { Vec::new() };
        let json = of(&self.json);
        let section = chain.map(|chain| self.of_section(chain.name(), name)).unwrap_or_default();
        vec![
            (Source::CommandLine, line.into_iter().map(|index| &self.line.entries[index].setting).collect()),
            (Source::Json, json.into_iter().map(|index| &self.json[index].setting).collect()),
            (Source::Section, section),
            (Source::Default, self.of_section("", name)),
        ]
    }

    fn merged(&self, name: &str, chain: Option<Chain>, reads: Reads) -> Option<Setting> {
        for (source, values) in self.sources(name, chain, reads) {
            let span = Span::of(&values);
            // A negation counts even in a section whose values do not count.
            if source == Source::Default && !span.ends_negated && is_without_default(name, chain) {
                continue;
            }
            let in_a_file = matches!(source, Source::Section | Source::Default);
            let found = match span.values {
                [] if span.ends_negated => values.last(),
                [first, ..] if in_a_file => Some(first),
                [.., last] => Some(last),
                [] => None,
            };
            if let Some(found) = found {
                return Some((*found).clone()).filter(|setting| setting.value != Value::Null);
            }
        }
        None
    }

    fn merged_list(&self, name: &str, chain: Chain) -> Vec<Setting> {
        let mut result: Vec<Setting> = Vec::new();
        let mut is_done = false;
        let mut negated_and_empty = false;
        for (source, values) in self.sources(name, Some(chain), Reads::All) {
            if source == Source::Default && is_without_default(name, Some(chain)) {
                continue;
            }
            let span = Span::of(&values);
            // As in Core, a negation does not remove the values of the files unless no value follows it.
            let comes_back = matches!(source, Source::Section | Source::Default) && !negated_and_empty;
            if !is_done || comes_back {
                result.extend(span.values.iter().map(|setting| (*setting).clone()));
            }
            is_done |= span.has_negation;
            negated_and_empty |= span.ends_negated && result.is_empty();
        }
        result
    }

    /// The files' value of an option on a network, if set.
    pub(crate) fn get(&self, name: &str, chain: Chain) -> Option<Setting> {
        self.merged(name, Some(chain), Reads::Files)
    }

    /// The files' value before the network is known: the one before any section.
    pub(crate) fn get_before_chain(&self, name: &str) -> Option<Setting> {
        self.merged(name, None, Reads::Files)
    }

    /// The value that bitcoind would use, which may come from the command line.
    pub(crate) fn get_of_all(&self, name: &str, chain: Chain) -> Option<Setting> {
        self.merged(name, Some(chain), Reads::All)
    }

    /// The files' values of a repeatable option. Empty if the option is unset or negated.
    pub(crate) fn list(&self, name: &str, chain: Chain) -> Vec<Setting> {
        let mut list = self.merged_list(name, chain);
        list.retain(|setting| setting.place != Place::CommandLine);
        list
    }

    /// The values that bitcoind would use, those of the command line first.
    pub(crate) fn list_of_all(&self, name: &str, chain: Chain) -> Vec<Setting> {
        self.merged_list(name, chain)
    }

    /// Options that count only in the network's own section but are set only before any section. bitcoind
    /// rejects them.
    pub(crate) fn outside_their_section(&self, chain: Chain) -> Vec<(&'static str, Setting)> {
        let is_own = |option: &&options::CoreOption| option.sections == Sections::NetworksOwn;
        let mut found = Vec::new();
        for option in options::TABLE.iter().filter(is_own).filter(|_| chain != Chain::Main) {
            let sources = self.sources(option.name, Some(chain), Reads::All);
            let has = |source: &(Source, Vec<&Setting>)| !Span::of(&source.1).is_empty();
            let elsewhere = sources[..3].iter().any(has);
            let outside = sources.last().filter(|source| has(source)).filter(|_| !elsewhere);
            let first = outside.and_then(|(_, values)| after_last_no(values.clone()).first().copied().cloned());
            found.extend(first.map(|setting| (option.name, setting)));
        }
        found.sort_by_key(|(name, _)| *name);
        found
    }

    /// The entries of the files that apply to a network, weakest last.
    pub(crate) fn applying(&self, chain: Chain) -> impl Iterator<Item = &Entry> {
        let counts = move |entry: &&Entry| entry.section.is_empty() || entry.section == chain.name();
        self.json.iter().chain(self.lines.iter().filter(counts))
    }

    /// All lines of the configuration files.
    pub(crate) fn lines(&self) -> &[Entry] {
        &self.lines
    }

    /// The lines of debug.log about every option that was given, in Core's words; secrets are not shown. Source:
    /// Bitcoin Core b88bffe, common/args.cpp, `ArgsManager::LogArgs`.
    pub(crate) fn log_lines(&self) -> Vec<String> {
        let mut files: Vec<&Entry> = self.lines.iter().collect();
        files.sort_by_key(|entry| (&entry.section, &entry.name));
        let mut line: Vec<&Entry> = self.line.entries.iter().collect();
        line.sort_by_key(|entry| &entry.name);
        let files = files.into_iter().filter_map(|entry| entry.log_line("Config file arg:"));
        let line = line.into_iter().filter_map(|entry| entry.log_line("Command-line arg:"));
        files.chain(self.json_lines.iter().cloned()).chain(line).collect()
    }

    /// Options of the command line.
    pub(crate) fn on_line(&self) -> &[Entry] {
        &self.line.entries
    }
}

/// Which sources are read: the files, or also the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reads {
    Files,
    All,
}

impl<'a> Span<'a> {
    fn of(all: &'a [&'a Setting]) -> Span<'a> {
        let is_no = |setting: &&Setting| setting.value == Value::No;
        let begin = all.iter().rposition(is_no).map_or(0, |last| last + 1);
        Span { values: &all[begin..], has_negation: begin > 0, ends_negated: begin > 0 && begin == all.len() }
    }

    fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// Whether an option's value before any section is ignored on this network.
fn is_without_default(name: &str, chain: Option<Chain>) -> bool {
    let is_own = options::find(name).is_some_and(|option| option.sections == Sections::NetworksOwn);
    is_own && chain.is_some_and(|chain| chain != Chain::Main)
}

fn after_last_no(mut values: Vec<&Setting>) -> Vec<&Setting> {
    let begin = values.iter().rposition(|setting| setting.value == Value::No).map_or(0, |last| last + 1);
    values.split_off(begin)
}

/// Core's warning about an unknown section, with the likely intended name.
fn section_warning(name: &str, place: &Place) -> String {
    let place = match place {
        Place::Line { file, line } => format!("{}:{line}", file.display()),
        other => other.to_string(),
    };
    let meant = match name {
        "testnet" | "testnet3" => "Did you mean [test]?",
        "mainnet" | "bitcoin" => "Did you mean [main]?",
        _ => "Sections are main, test, testnet4, signet and regtest.",
    };
    format!("{place} Section [{}] is not recognized. Its lines have no effect. {meant}", file::shown(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;
    use std::fs;

    /// The configuration of a data directory with these files, of which the first is bitcoin.conf.
    fn read_with(files: &[(&str, &str)], chain: Option<Chain>, line: &str) -> Result<Conf, ConfError> {
        let datadir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(datadir.path().join(name), text.replace("@", datadir.path().to_str().unwrap())).unwrap();
        }
        let words = ["ffwd", "sync"].into_iter().chain(line.split_whitespace()).map(OsString::from);
        let line = crate::spelling::rewrite(words).unwrap().on_line;
        let file = Path::new("bitcoin.conf");
        let from = ConfFile { datadir: datadir.path(), file, is_named: false, chain, with_includes: true };
        Conf::read(from, &line)
    }

    fn read(files: &[(&str, &str)], chain: Option<Chain>) -> Result<Conf, ConfError> {
        read_with(files, chain, "")
    }

    fn text(setting: Option<Setting>) -> String {
        setting.map_or("-".to_owned(), |setting| setting.value.text().to_owned())
    }

    #[test]
    fn get_takes_the_value_that_core_takes() {
        for (row, file, chain, name, want) in [
            ("plain", "dbcache=100", Chain::Main, "dbcache", "100"),
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
            ("unknown names do no harm", "nowalet=x\nrpcusr=y", Chain::Main, "dbcache", "-"),
        ] {
            let conf = read(&[("bitcoin.conf", file)], Some(chain)).unwrap();
            assert_eq!(text(conf.get(name, chain)), want, "{row}");
        }
    }

    #[test]
    fn list_joins_sections_as_core_does() {
        for (row, file, chain, line, want) in [
            ("in order", "addnode=a\naddnode=b", Chain::Main, "", vec!["a", "b"]),
            ("the section before the rest", "addnode=a\n[main]\naddnode=b", Chain::Main, "", vec!["b", "a"]),
            ("negated in between", "addnode=a\nnoaddnode=1\naddnode=b", Chain::Main, "", vec!["b"]),
            ("negated in the section", "addnode=a\n[main]\nnoaddnode=1", Chain::Main, "", vec![]),
            (
                "values after a negation in the section",
                "addnode=a\n[main]\nnoaddnode=1\naddnode=b",
                Chain::Main,
                "",
                vec!["b", "a"],
            ),
            ("not for this network", "addnode=a", Chain::Regtest, "", vec![]),
            ("beside the command line's", "addnode=a", Chain::Main, "-addnode=x", vec!["a"]),
            ("negated on the command line", "addnode=a", Chain::Main, "-noaddnode", vec![]),
            ("negated there, and a value after it", "addnode=a", Chain::Main, "-noaddnode -addnode=x", vec!["a"]),
        ] {
            let conf = read_with(&[("bitcoin.conf", file)], Some(chain), line).unwrap();
            let got: Vec<String> = conf.list("addnode", chain).iter().map(|s| s.value.text().to_owned()).collect();
            assert_eq!(got, want, "{row}");
        }
        let conf = read_with(&[("bitcoin.conf", "dns=1\nonlynet=ipv4")], None, "-nodns -onlynet=ipv6").unwrap();
        let all: Vec<Setting> = conf.list_of_all("onlynet", Chain::Main);
        assert_eq!(all.iter().map(|s| s.value.text()).collect::<Vec<_>>(), ["ipv6", "ipv4"]);
        let both = (conf.get_of_all("dns", Chain::Main), conf.get("dns", Chain::Main));
        assert_eq!((text(both.0), text(both.1)), ("0".to_owned(), "1".to_owned()));
    }

    #[test]
    fn chain_is_read_from_flags_and_name() {
        for (row, file, given, want) in [
            ("none", "dbcache=4", None, "-"),
            ("by name", "chain=testnet4", None, "testnet4"),
            ("by flag", "testnet=1", None, "test"),
            ("off", "regtest=0", None, "-"),
            ("the last flag", "regtest=0\nregtest=1", None, "regtest"),
            ("negated last", "regtest=1\nnoregtest=1", None, "-"),
            ("the first name", "chain=signet\nchain=main", None, "signet"),
            ("in a section it has no effect", "[main]\nregtest=1", None, "-"),
            ("behind a byte order mark", "\u{feff}regtest=1", None, "regtest"),
            ("the command line above a name", "chain=signet", Some(Chain::Test), "test"),
            ("the command line says the same", "regtest=1", Some(Chain::Regtest), "regtest"),
        ] {
            let conf = read(&[("bitcoin.conf", file)], given).unwrap();
            assert_eq!(conf.chain(given).unwrap().map_or("-", Chain::name), want, "{row}");
        }
    }

    #[test]
    fn wrong_file_is_refused_with_file_and_line() {
        let conf = "bitcoin.conf";
        for (row, files, given, want) in [
            ("a dash", &[(conf, "\n-dbcache=4")][..], None, "parse error on line 2: -dbcache=4, options in"),
            (
                "no network",
                &[(conf, "chain=testnet3")],
                None,
                "line 1: Unknown chain testnet3. Expected one of main, test",
            ),
            ("a network negated", &[(conf, "nochain=1")], None, "Unknown chain 0."),
            ("two networks", &[(conf, "signet=1\nchain=main")], None, "line 2: Invalid combination of -regtest"),
            ("two flags", &[(conf, "signet=1\nregtest=1")], None, "signet is chosen here, regtest is chosen too"),
            ("the command line's, and a flag", &[(conf, "signet=1")], Some(Chain::Main), "line 1: Invalid combination"),
            (
                "an include that is not there",
                &[(conf, "includeconf=more.conf")],
                None,
                "Failed to include configuration file more.conf",
            ),
            ("an include without a name", &[(conf, "includeconf=")], None, "Failed to include"),
            ("an include that is a directory", &[(conf, "includeconf=@")], None, "Included config file \""),
            ("an include that is wrong", &[(conf, "includeconf=a"), ("a", "x\n")], None, "parse error on line 1: x ("),
        ] {
            let conf = read(files, given).and_then(|conf| conf.chain(given));
            let why = conf.expect_err(row).to_string();
            assert!(why.contains(want), "{row}: {why}");
        }
        let datadir = tempfile::tempdir().unwrap();
        for (row, file, is_named, want) in [
            ("named and not there", "other.conf", true, "specified config file \""),
            ("a directory", ".", false, "\" is a directory."),
        ] {
            let file = Path::new(file);
            let from = ConfFile { datadir: datadir.path(), file, is_named, chain: None, with_includes: true };
            let why = Conf::read(from, &OnLine::default()).expect_err(row).to_string();
            assert!(why.starts_with("Error reading configuration file: ") && why.contains(want), "{row}: {why}");
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
        assert!(conf.warnings[0].contains("ignoring -includeconf=b"), "{:?}", conf.warnings);
        let conf = read(&files, Some(Chain::Main)).unwrap();
        assert_eq!(text(conf.get("par", Chain::Main)), "2", "b belongs to regtest");
        let conf = read(&[("bitcoin.conf", "includeconf=a\nnoincludeconf=1"), ("a", "par=3")], None).unwrap();
        assert_eq!(text(conf.get("par", Chain::Main)), "-", "negated");
        let conf = read(&[("bitcoin.conf", "includeconf=a"), ("a", "regtest=1")], None).unwrap();
        assert_eq!(conf.chain(None).unwrap(), Some(Chain::Regtest), "an included file may name the network");
    }

    #[test]
    fn a_file_with_txt_behind_its_name_is_named() {
        let conf = read(&[("bitcoin.conf.txt", "regtest=1")], None).unwrap();
        assert!(conf.warnings[0].contains("bitcoin.conf.txt is not read: rename it to "), "{:?}", conf.warnings);
        let conf = read(&[("bitcoin.conf.txt", ""), ("bitcoin.conf", "")], None).unwrap();
        assert_eq!(conf.warnings, Vec::<String>::new());
    }

    #[test]
    fn sections_that_are_no_network_are_named_with_what_may_be_meant() {
        for (file, want) in [
            (
                "[regtset]\npar=3",
                "bitcoin.conf:1 Section [regtset] is not recognized. Its lines have no effect. Sections are",
            ),
            ("\n[testnet3]", ":2 Section [testnet3] is not recognized. Its lines have no effect. Did you mean [test]?"),
            ("mainnet.par=3", "Section [mainnet] is not recognized. Its lines have no effect. Did you mean [main]?"),
            ("[]\npar=3", "Section [] is not recognized."),
        ] {
            let conf = read(&[("bitcoin.conf", file)], None).unwrap();
            assert!(conf.warnings.len() == 1 && conf.warnings[0].contains(want), "{file}: {:?}", conf.warnings);
        }
    }

    #[test]
    fn what_counts_in_its_section_alone_is_found_outside() {
        for (row, file, line, want) in [
            ("outside alone", "port=1\nbind=a\nport=2", "", vec!["bind", "port"]),
            ("in the section too", "port=1\n[regtest]\nport=2", "", vec![]),
            ("in another section too", "port=1\n[main]\nport=2", "", vec!["port"]),
            ("on the command line too", "port=1", "-port=2", vec![]),
            ("negated on the command line", "connect=1", "-noconnect", vec!["connect"]),
            ("negated outside", "noconnect=1", "", vec![]),
            ("other options", "dbcache=5", "", vec![]),
            ("of the wallet", "wallet=w", "", vec!["wallet"]),
        ] {
            let conf = read_with(&[("bitcoin.conf", file)], Some(Chain::Regtest), line).unwrap();
            let got: Vec<&str> = conf.outside_their_section(Chain::Regtest).into_iter().map(|(name, _)| name).collect();
            assert_eq!(got, want, "{row}");
            assert!(conf.outside_their_section(Chain::Main).is_empty(), "{row}");
        }
    }

    #[test]
    fn log_has_every_option_as_it_was_given_and_no_secret() {
        let datadir = tempfile::tempdir().unwrap();
        let conf = "regtest=1\nrpcuser=somebody\nfoo=1\n[regtest]\nserver=1\nnosettings=1\ndbcache=5\n";
        fs::write(datadir.path().join("bitcoin.conf"), conf).unwrap();
        let mut line = OnLine::default();
        for (written, value) in [("rpcpassword", "hidden"), ("nolisten", ""), ("addnode", "some \"node\"")] {
            let option = options::find(written.strip_prefix("no").unwrap_or(written)).unwrap();
            line.add(option, written, std::ffi::OsStr::new(value));
        }
        let from = ConfFile {
            datadir: datadir.path(),
            file: Path::new("bitcoin.conf"),
            is_named: false,
            chain: None,
            with_includes: true,
        };
        let conf = Conf::read(from, &line).unwrap();
        let want = [
            "Config file arg: regtest=\"1\"",
            "Config file arg: rpcuser=****",
            "Config file arg: [regtest] dbcache=\"5\"",
            "Config file arg: [regtest] server=\"1\"",
            "Config file arg: [regtest] settings=false",
            "Command-line arg: addnode=\"some \\\"node\\\"\"",
            "Command-line arg: listen=false",
            "Command-line arg: rpcpassword=****",
        ];
        assert_eq!(conf.log_lines(), want);
    }

    #[test]
    fn settings_json_overrides_bitcoin_conf() {
        for (row, json, want) in [
            ("text", r#"{"dbcache": "7", "_warning_": "x"}"#, Ok("7")),
            ("number", r#"{"dbcache": 8}"#, Ok("8")),
            ("false", r#"{"dbcache": false}"#, Ok("0")),
            ("null hides what follows", r#"{"dbcache": null}"#, Ok("-")),
            ("empty", "{}", Ok("5")),
            ("several", r#"{"dbcache": ["7", "9"]}"#, Err("JSON value of type array")),
            ("no object", "[1]", Err("Found non-object value")),
        ] {
            let datadir = tempfile::tempdir().unwrap();
            fs::write(datadir.path().join("settings.json"), json).unwrap();
            let mut conf = read(&[("bitcoin.conf", "dbcache=5")], None).unwrap();
            match (conf.read_settings(datadir.path(), Chain::Main, None), want) {
                (Ok(()), Ok(want)) => assert_eq!(text(conf.get("dbcache", Chain::Main)), want, "{row}"),
                (Err(why), Err(want)) => assert!(why.to_string().contains(want), "{row}: {why}"),
                (got, want) => panic!("{row}: got {got:?}, want {want:?}"),
            }
            for (file, given) in [("dbcache=5\nnosettings=1", None), ("dbcache=5", Some(Path::new("0")))] {
                let mut conf = read(&[("bitcoin.conf", file)], None).unwrap();
                conf.read_settings(datadir.path(), Chain::Main, given).unwrap();
                assert_eq!(text(conf.get("dbcache", Chain::Main)), "5", "{row}: not read");
            }
        }
        let datadir = tempfile::tempdir().unwrap();
        fs::write(datadir.path().join("s"), r#"{"dbcache": "7"}"#).unwrap();
        for (file, given) in [("dbcache=5\nsettings=s", None), ("dbcache=5", Some(Path::new("s")))] {
            let mut conf = read(&[("bitcoin.conf", file)], None).unwrap();
            conf.read_settings(datadir.path(), Chain::Main, given).unwrap();
            assert_eq!(text(conf.get("dbcache", Chain::Main)), "7", "{file}");
        }
    }
}
