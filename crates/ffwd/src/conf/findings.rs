//! Warnings about lines of the files that may not have the intended effect.
//!
//! Absent on purpose: lines that bitcoind rejects (`checks`), and unknown names, which are reported while
//! parsing.

use super::value::{Entry, Place, Setting, Value};
use super::{Conf, FLAGS, file};
use crate::options::{self, Category, CoreOption, Effect, Kind, Sections, Times};
use consensus::Chain;
use std::path::Path;

/// Maximum number of lines that one warning names.
const NAMED_MAX: usize = 40;
/// Maximum number of warnings about lines that may be misread.
const MISREAD_MAX: usize = 100;

/// Why server options have no effect.
const NO_SERVER: &str = "ffwd sync has no server without server=1, which is bitcoind's default";

/// Whether there is an RPC server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answers {
    Yes,
    No,
}

/// Whether an option has no effect without an RPC server.
fn is_of_server(option: &CoreOption) -> bool {
    option.category == Category::Rpc && option.name != "server"
}

fn add<'a>(reasons: &mut Vec<(&'static str, Vec<&'a Entry>)>, why: &'static str, entry: &'a Entry) {
    match reasons.iter_mut().find(|(known, _)| *known == why) {
        Some((_, entries)) => entries.push(entry),
        None => reasons.push((why, vec![entry])),
    }
}

impl Conf {
    /// Values that bitcoind parses in an unexpected way, values that do not count, and networks that are named
    /// too late.
    pub(crate) fn misread(&self, chain: Chain) -> Vec<String> {
        let mut out: Vec<String> = self.applying(chain).filter_map(reading).collect();
        out.extend(self.lines().iter().filter_map(late_network));
        out.extend(self.shadowed(chain));
        out.extend(self.outside_but_set(chain));
        let more = out.len().saturating_sub(MISREAD_MAX);
        out.truncate(MISREAD_MAX);
        out.extend((more > 0).then(|| format!("{more} more lines are read in part, or not at all")));
        out
    }

    /// Lines that ffwd does not use: one warning for each replacement, and one for each reason. `server` is
    /// whether RPC calls are answered.
    pub(crate) fn without_use(&self, chain: Chain, server: Answers) -> Vec<String> {
        let mut out = Vec::new();
        let mut reasons: Vec<(&'static str, Vec<&Entry>)> = Vec::new();
        for entry in self.applying(chain) {
            let Some(option) = options::find(&entry.name) else { continue };
            let place = &entry.setting.place;
            match option.effect {
                Effect::Instead(_) if entry.asks_for_nothing() => {}
                Effect::Instead(way) => out.push(format!("{place}: {} is not used: {way}", option.name)),
                Effect::Removed(why) => out.push(format!("{place}: {why}")),
                Effect::Unused(why) => add(&mut reasons, why, entry),
                Effect::Used if server == Answers::No && is_of_server(option) => add(&mut reasons, NO_SERVER, entry),
                Effect::Used | Effect::FileOnly | Effect::LineOnly => {}
            }
        }
        out.extend(reasons.into_iter().map(|(why, entries)| format!("not used: {}: {why}", named(&entries))));
        out
    }

    /// Values that an earlier line shadows: of a non-repeatable option the first value in a file counts.
    fn shadowed(&self, chain: Chain) -> Vec<String> {
        let mut out = Vec::new();
        for option in options::TABLE.iter().filter(|option| option.times == Times::Once && !is_network(option.name)) {
            for section in ["", chain.name()] {
                let all = self.of_section(section, option.name);
                let kept = super::after_last_no(all);
                let Some((first, rest)) = kept.split_first() else { continue };
                let other = rest.iter().find(|other| other.value != first.value);
                out.extend(other.map(|other| {
                    format!(
                        "{}: {} is set before, at {}, and of several values in a file the first counts: this line has no effect",
                        other.place, option.name, place_in(&first.place)
                    )
                }));
            }
        }
        out
    }

    /// Options that count only in the network's own section, are also set outside, and have a value that counts.
    fn outside_but_set(&self, chain: Chain) -> Vec<String> {
        let is_own = |option: &&CoreOption| option.sections == Sections::NetworksOwn;
        let refused = self.outside_their_section(chain);
        let mut out = Vec::new();
        for option in options::TABLE.iter().filter(is_own).filter(|_| chain != Chain::Main) {
            let outside = super::after_last_no(self.of_section("", option.name));
            let Some(first) = outside.first().filter(|_| refused.iter().all(|(name, _)| *name != option.name)) else {
                continue;
            };
            out.push(format!(
                "{}: {} has no effect on {chain}: before any section it applies only to mainnet",
                first.place, option.name
            ));
        }
        out
    }
}

fn is_network(name: &str) -> bool {
    FLAGS.iter().any(|(flag, _)| *flag == name)
}

fn place_in(place: &Place) -> String {
    match place {
        Place::Line { line, .. } => format!("line {line}"),
        other => other.to_string(),
    }
}

/// Names and places of entries, grouped by file.
fn named(entries: &[&Entry]) -> String {
    let mut out = String::new();
    let mut in_file: Option<&Path> = None;
    for entry in entries.iter().take(NAMED_MAX) {
        let name = file::shown(&entry.name);
        let file = match &entry.setting.place {
            Place::Line { file, .. } | Place::Json { file } => Some(file.as_path()),
            Place::CommandLine => None,
        };
        if !out.is_empty() {
            out.push_str(", ");
        }
        let same = in_file == file && file.is_some();
        let place = if same { place_in(&entry.setting.place) } else { entry.setting.place.to_string() };
        out.push_str(&format!("{name} ({place})"));
        in_file = file;
    }
    if entries.len() > NAMED_MAX {
        out.push_str(&format!(" and {} more", entries.len() - NAMED_MAX));
    }
    out
}

/// A number or boolean that uses only part of the text.
fn reading(entry: &Entry) -> Option<String> {
    let Setting { value: Value::Text(text), place, .. } = &entry.setting else { return None };
    let option = options::find(&entry.name)?;
    let read = entry.setting.value.read_number();
    if read.is_whole || matches!(option.effect, Effect::Unused(_) | Effect::Removed(_)) {
        return None;
    }
    let name = option.name;
    let shown = file::shown(text);
    if is_quoted(text) && matches!(option.kind, Kind::Text | Kind::Path) {
        return Some(format!("{place}: the quotes are part of the value of {name}, as in bitcoind: remove them"));
    }
    match option.kind {
        Kind::Flag if text.is_empty() => None,
        Kind::Flag => {
            let truth = u8::from(entry.setting.value.truth());
            Some(format!(
                "{place}: {name}={shown} is read as {truth}, as bitcoind reads it: write {name}=1 or {name}=0"
            ))
        }
        // A port is checked as a whole.
        Kind::Number if !matches!(name, "port" | "rpcport") => {
            let number = read.number;
            Some(format!("{place}: {name}={shown} is read as {number}, as bitcoind reads it: expected a whole number"))
        }
        _ => None,
    }
}

/// Whether `text` is in quotes, which Core does not remove.
pub(crate) fn is_quoted(text: &str) -> bool {
    ['"', '\''].iter().any(|quote| text.len() > 1 && text.starts_with(*quote) && text.ends_with(*quote))
}

/// A network that is named in a section: the network is chosen before sections are read.
fn late_network(entry: &Entry) -> Option<String> {
    let is_late = !entry.section.is_empty() && (is_network(&entry.name) || entry.name == "chain");
    is_late.then(|| {
        format!(
            "{}: {} has no effect in a section: name the network before the first section",
            entry.setting.place, entry.name
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::ConfFile;
    use super::*;
    use crate::conf::OnLine;

    fn read(text: &str) -> Conf {
        let datadir = tempfile::tempdir().unwrap();
        std::fs::write(datadir.path().join("c"), text).unwrap();
        let from = ConfFile {
            datadir: datadir.path(),
            file: Path::new("c"),
            is_named: true,
            chain: Some(Chain::Regtest),
            with_includes: true,
        };
        let mut conf = Conf::read(from, &OnLine::default()).unwrap();
        // The directory has another name each time.
        for entry in &mut conf.lines {
            if let Place::Line { file, .. } = &mut entry.setting.place {
                *file = "c".into();
            }
        }
        conf
    }

    #[test]
    fn values_that_are_read_in_part_or_not_at_all_are_named() {
        for (row, text, want) in [
            ("whole", "dbcache=4\nlisten=1\nserver=\nprune=-1", vec![]),
            ("a unit", "dbcache=4G", vec!["c line 1: dbcache=4G is read as 4, as bitcoind reads it: expected a whole"]),
            ("no number", "prune=", vec!["c line 1: prune= is read as 0"]),
            (
                "yes",
                "server=yes",
                vec!["c line 1: server=yes is read as 0, as bitcoind reads it: write server=1 or server=0"],
            ),
            ("a number and more", "listen=2x", vec!["listen=2x is read as 1"]),
            ("of another network", "[main]\ndbcache=4G", vec![]),
            ("quotes", "rpcpassword=\"a\"", vec!["c line 1: the quotes are part of the value of rpcpassword, as in"]),
            ("quotes around a number", "dbcache=\"50\"", vec!["dbcache=\"50\" is read as 0"]),
            ("an apostrophe", "uacomment=a's", vec![]),
            (
                "twice",
                "dbcache=4\npar=1\ndbcache=9",
                vec!["c line 3: dbcache is set before, at line 1, and of several"],
            ),
            ("twice the same", "dbcache=4\ndbcache=4", vec![]),
            ("twice, negated between", "dbcache=4\nnodbcache=1\ndbcache=5", vec![]),
            ("in each section once", "dbcache=4\n[regtest]\ndbcache=5", vec![]),
            ("a list", "uacomment=a\nuacomment=b", vec![]),
            ("a network in a section", "[main]\nregtest=1", vec!["c line 2: regtest has no effect in a section"]),
            ("a chain in a section", "[main]\nchain=main", vec!["c line 2: chain has no effect in a section"]),
            (
                "outside, and in the section",
                "port=1\n[regtest]\nport=2",
                vec!["c line 1: port has no effect on regtest: before any section it applies only to mainnet"],
            ),
            ("outside alone is refused elsewhere", "port=1", vec![]),
        ] {
            let got = read(text).misread(Chain::Regtest);
            assert_eq!(got.len(), want.len(), "{row}: {got:?}");
            assert!(got.iter().zip(&want).all(|(got, want)| got.contains(want)), "{row}: {got:?}");
        }
    }

    #[test]
    fn lines_without_use_are_named_with_the_reason() {
        let got = read(
            "daemon=1\nkeypool=5\nmaxmempool=9\nfallbackfee=1\nzmqpubrawtx=a\nnodaemonwait=1\ncheckpoints=1\n[main]\nlang=de",
        );
        let got = got.without_use(Chain::Regtest, Answers::Yes);
        assert!(got[0].starts_with("c line 1: daemon is not used: ffwd runs in the foreground"), "{got:?}");
        assert!(got[1].starts_with("c line 5: zmqpubrawtx is not used: ffwd publishes nothing by ZeroMQ"), "{got:?}");
        assert!(got[2].starts_with("c line 7: Option '-checkpoints' is set but"), "{got:?}");
        assert_eq!(got[3], "not used: keypool (c line 2), fallbackfee (line 4): ffwd has no wallet");
        assert_eq!(got[4], "not used: maxmempool (c line 3): ffwd takes and relays no transactions");
        assert_eq!(got.len(), 5);
        let rpc = read("rpcuser=a\nrest=1\nserver=0\ndbcache=5");
        assert!(rpc.without_use(Chain::Regtest, Answers::Yes).is_empty());
        let want = "not used: rpcuser (c line 1), rest (line 2): ffwd sync has no server without server=1, which is bitcoind's default";
        assert_eq!(rpc.without_use(Chain::Regtest, Answers::No), [want]);
        let many = read(&"par=x\n".repeat(1_000)).misread(Chain::Regtest);
        assert!(many.len() == MISREAD_MAX + 1 && many[MISREAD_MAX].starts_with("900 more"), "{many:?}");
        let many = "wallet=a\n".repeat(1_000);
        let got = read(&format!("[regtest]\n{many}")).without_use(Chain::Regtest, Answers::Yes);
        assert!(got.len() == 1 && got[0].len() < 4_000 && got[0].contains("and 960 more"), "{got:?}");
    }
}
