//! The single table of options: bitcoind's, each with ffwd's handling of it, and ffwd's own.
//!
//! Readers: the command line (`spelling`), bitcoin.conf and settings.json (`conf`), bitcoind's checks (`checks`), the
//! warnings.
//! Source: Bitcoin Core b88bffe, init.cpp, `SetupServerArgs`; init/common.cpp, `AddLoggingArgs`; chainparamsbase.cpp,
//! `SetupChainParamsBaseOptions`; wallet/init.cpp, `AddWalletOptions`.
//! `--help`, man pages and shell completions also use it: clap's arguments of bitcoind's options are made from it
//! (`given`).
//! Absent on purpose: ffwd's own arguments, which are clap's (`args`).

pub(crate) mod given;
pub(crate) mod logging;
mod table;
pub(crate) mod values;

pub(crate) use table::{OWN, TABLE};

use clap::builder::ValueParser;

/// A group of arguments. A command has all of them or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Place {
    /// Options of every command on a data directory.
    Common,
    /// Options of every command that writes blocks and coins.
    Writing,
    /// The indexes that those commands keep.
    Indexes,
    /// Options of the command that replaces bitcoind.
    Sync,
    /// Jobs of that command before its sync.
    Before,
    /// Options of the commands with a server.
    Server,
    /// Notification commands, run on an event.
    Notify,
    /// Files of the program, such as the log.
    OwnFiles,
}

impl Place {
    /// The heading in the help; `None` for arguments listed under the command itself.
    pub(crate) fn heading(self) -> Option<&'static str> {
        match self {
            Place::Common => Some("Data directory and network"),
            Place::Writing => Some("Validation and storage"),
            Place::Indexes => Some("Indexes"),
            Place::Sync | Place::Before => None,
            Place::Server => Some("Server"),
            Place::Notify => Some("Notifications"),
            Place::OwnFiles => Some("Files of the program"),
        }
    }
}

/// The type of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A boolean, 0 or 1; 1 without a value.
    Flag,
    /// Text or a number; 1 without a value.
    FlagOrText,
    /// A whole number.
    Number,
    /// Text, an amount, an address.
    Text,
    /// A path.
    Path,
}

/// The section of bitcoin.conf in which the option counts on networks other than mainnet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sections {
    /// Any section.
    Any,
    /// Only the network's own section. Source: Core's `NETWORK_ONLY`.
    NetworksOwn,
}

/// The effect of "no" before the name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Negation {
    /// The value 0; for a repeatable option, an empty list.
    Off,
    /// Rejected. Source: Core's `DISALLOW_NEGATION`.
    Refused,
}

/// The number of values that count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Times {
    /// One value counts.
    Once,
    /// All values count.
    Many,
}

/// Whether its values may be printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shown {
    Yes,
    /// A secret. Source: Core's `SENSITIVE`.
    Never,
}

/// How ffwd handles an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// ffwd uses it as bitcoind does.
    Used,
    /// Used only in bitcoin.conf; bitcoind rejects it on the command line.
    FileOnly,
    /// Used only on the command line; bitcoind rejects it in bitcoin.conf.
    LineOnly,
    /// Without effect in ffwd: reported with this reason.
    Unused(&'static str),
    /// ffwd has a replacement: rejected on the command line; in files, reported with the replacement.
    Instead(&'static str),
    /// Removed in bitcoind, which still reports it in old files, in these words.
    Removed(&'static str),
}

/// The heading in bitcoind's help.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Category {
    Options,
    Connection,
    Wallet,
    WalletDebugTest,
    Zmq,
    DebugTest,
    ChainParams,
    NodeRelay,
    BlockCreation,
    Rpc,
    Hidden,
}

/// How an option is given on ffwd's command line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnCommandLine {
    /// Its group of arguments.
    pub(crate) place: Place,
    /// The name of its value in the help.
    pub(crate) value: &'static str,
    /// The parser of its value.
    pub(crate) parser: fn() -> ValueParser,
    /// Its help text.
    pub(crate) help: &'static str,
    /// Whether it is repeatable, and all values count.
    pub(crate) is_repeatable: bool,
    /// Whether the help omits it, as Core's does: options for tests.
    pub(crate) is_hidden: bool,
    /// Whether its value may begin with a dash.
    pub(crate) may_be_negative: bool,
    /// Whether the help omits its possible values, because another option lists the same ones.
    pub(crate) hides_values: bool,
}

/// An option of bitcoind, or an option of ffwd that bitcoin.conf may contain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoreOption {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) times: Times,
    pub(crate) negation: Negation,
    pub(crate) sections: Sections,
    pub(crate) shown: Shown,
    pub(crate) effect: Effect,
    pub(crate) category: Category,
    /// `None` for options that ffwd does not use, and for those of another form: networks, help, version.
    pub(crate) line: Option<OnCommandLine>,
}

impl CoreOption {
    const fn new(name: &'static str, kind: Kind, category: Category, effect: Effect) -> CoreOption {
        CoreOption {
            name,
            kind,
            times: Times::Once,
            negation: Negation::Off,
            sections: Sections::Any,
            shown: Shown::Yes,
            effect,
            category,
            line: None,
        }
    }

    const fn line(
        mut self,
        place: Place,
        value: &'static str,
        parser: fn() -> ValueParser,
        help: &'static str,
    ) -> CoreOption {
        self.line = Some(OnCommandLine {
            place,
            value,
            parser,
            help,
            is_repeatable: false,
            is_hidden: false,
            may_be_negative: false,
            hides_values: false,
        });
        self
    }

    const fn lines(
        self,
        place: Place,
        value: &'static str,
        parser: fn() -> ValueParser,
        help: &'static str,
    ) -> CoreOption {
        let mut option = self.line(place, value, parser, help);
        if let Some(line) = &mut option.line {
            line.is_repeatable = true;
        }
        option
    }

    const fn hidden(mut self) -> CoreOption {
        if let Some(line) = &mut self.line {
            line.is_hidden = true;
        }
        self
    }

    const fn negative(mut self) -> CoreOption {
        if let Some(line) = &mut self.line {
            line.may_be_negative = true;
        }
        self
    }

    const fn values_hidden(mut self) -> CoreOption {
        if let Some(line) = &mut self.line {
            line.hides_values = true;
        }
        self
    }

    const fn many(mut self) -> CoreOption {
        self.times = Times::Many;
        self
    }

    const fn networks_own(mut self) -> CoreOption {
        self.sections = Sections::NetworksOwn;
        self
    }

    const fn never_negated(mut self) -> CoreOption {
        self.negation = Negation::Refused;
        self
    }

    const fn secret(mut self) -> CoreOption {
        self.shown = Shown::Never;
        self
    }

    /// Whether its value is 1 if it is given without a value.
    pub(crate) fn is_one_when_bare(&self) -> bool {
        matches!(self.kind, Kind::Flag | Kind::FlagOrText)
    }

    /// Why ffwd does not use it, or what replaces it; `None` if it is used.
    pub(crate) fn why_unused(&self) -> Option<&'static str> {
        match self.effect {
            Effect::Used | Effect::FileOnly | Effect::LineOnly => None,
            Effect::Unused(why) | Effect::Instead(why) | Effect::Removed(why) => Some(why),
        }
    }
}

/// Finds an option of bitcoind by its name, without "no".
pub(crate) fn find(name: &str) -> Option<&'static CoreOption> {
    TABLE.iter().find(|option| option.name == name)
}

/// A hint for a name that bitcoind does not have.
pub(crate) fn hint(name: &str) -> String {
    if OWN.iter().any(|(own, _)| *own == name) {
        return ": it is ffwd's own, only for the command line".to_owned();
    }
    nearest(name).map(|near| format!(": did you mean {near}?")).unwrap_or_default()
}

/// Maximum edit distance between a name and the option that it may be a typing error of.
const TYPING_ERRORS_MAX: usize = 2;

/// The known name that is closest to an unknown one, if it is close enough.
fn nearest(name: &str) -> Option<&'static str> {
    let known = TABLE.iter().filter(|option| option.category != Category::Hidden).map(|option| option.name);
    let near = known.map(|known| (distance(name, known), known)).min()?;
    // A short name is within one or two edits of everything.
    (near.0 <= TYPING_ERRORS_MAX && near.0 * 3 < name.len()).then_some(near.1)
}

/// The edit distance with transpositions: optimal string alignment (Damerau 1964). Only names of bounded length
/// are compared.
fn distance(a: &str, b: &str) -> usize {
    let a = a.as_bytes();
    let b = b.as_bytes();
    if a.len().abs_diff(b.len()) > TYPING_ERRORS_MAX {
        return usize::MAX;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::CommandFactory;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    /// Names of `bitcoind -help-debug`, of a build with wallet and ZeroMQ, then those that its help hides.
    const CORES_NAMES: &str = include_str!("../testdata/bitcoind_options.txt");

    fn names() -> BTreeSet<&'static str> {
        TABLE.iter().map(|option| option.name).collect()
    }

    #[test]
    fn table_has_all_of_bitcoinds_options_once() {
        assert_eq!(names().len(), TABLE.len(), "each once");
        let cores: BTreeSet<&str> = CORES_NAMES.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(cores.len() > 180, "the file has them all");
        let names = names();
        let not_cores: Vec<&&str> = names.difference(&cores).collect();
        assert_eq!(not_cores, [&"silentpaymentindex"], "not bitcoind's");
        assert_eq!(cores.difference(&names).collect::<Vec<_>>(), Vec::<&&str>::new(), "missing in the table");
    }

    /// Long names of a command that takes bitcoind's options.
    fn long_names(command: &str) -> BTreeSet<String> {
        let cli = Cli::command();
        let command = cli.find_subcommand(command).unwrap();
        command.get_arguments().filter_map(clap::Arg::get_long).map(str::to_owned).collect()
    }

    #[test]
    fn command_line_has_what_the_table_says() {
        let sync = long_names("sync");
        let own: BTreeSet<&str> = OWN.iter().map(|(name, _)| *name).collect();
        assert_eq!(own.intersection(&names()).count(), 0, "what is bitcoind's is not ffwd's own");
        for name in &sync {
            let is_used = find(name).is_some_and(|option| matches!(option.effect, Effect::Used | Effect::LineOnly));
            assert!(is_used || own.contains(&**name), "--{name} of sync is in neither table, or is not used there");
        }
        for option in TABLE {
            let is_used = matches!(option.effect, Effect::Used | Effect::LineOnly);
            // Rewritten to --chain.
            let is_network = matches!(option.name, "regtest" | "signet" | "testnet" | "testnet4");
            let is_claps = matches!(option.name, "help" | "help-debug" | "?" | "h" | "version");
            let is_there = sync.contains(option.name) || is_network || is_claps;
            let needs_server = cfg!(not(feature = "server")) && option.category == Category::Rpc;
            assert!(
                is_used == is_there || needs_server,
                "{}: used {is_used}, on the command line {is_there}",
                option.name
            );
        }
        let all: BTreeSet<String> = ["sync", "reindex", "import", "serve", "info", "verify", "doctor"]
            .into_iter()
            .filter(|name| Cli::command().find_subcommand(name).is_some())
            .flat_map(long_names)
            .collect();
        let missing = own.iter().filter(|name| !all.contains(**name)).collect::<Vec<_>>();
        assert!(missing.is_empty(), "own options that no command has: {missing:?}");
    }

    /// The text of every source file but the table's.
    fn sources(directory: &Path, into: &mut String) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, into);
            } else if !path.ends_with("options/table.rs") {
                into.push_str(&fs::read_to_string(path).unwrap());
            }
        }
    }

    /// A row that is used has its argument, and its name stands where it takes effect.
    #[test]
    fn table_is_complete() {
        let mut code = String::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut code);
        let indexes = node::options::IndexKind::ALL.map(node::options::IndexKind::name);
        for option in TABLE {
            let name = option.name;
            let is_used = matches!(option.effect, Effect::Used | Effect::LineOnly);
            let is_written_otherwise = matches!(
                name,
                "regtest" | "signet" | "testnet" | "testnet4" | "help" | "help-debug" | "?" | "h" | "version"
            );
            assert_eq!(option.line.is_some(), is_used && !is_written_otherwise, "{name}");
            let Some(line) = option.line else { continue };
            assert!(
                line.help.len() > 10 && !line.help.ends_with('.') && !line.value.is_empty(),
                "{name}: {}",
                line.help
            );
            assert!(
                code.contains(&format!("\"{name}\"")) || indexes.contains(&name),
                "{name} takes effect nowhere: no file names it"
            );
        }
    }

    #[test]
    fn rows_agree_with_bitcoind() {
        let with = |is: fn(&CoreOption) -> bool| -> Vec<&str> {
            TABLE.iter().filter(|option| is(option)).map(|option| option.name).collect()
        };
        let own = with(|option| option.sections == Sections::NetworksOwn);
        assert_eq!(own, ["addnode", "bind", "connect", "port", "wallet", "walletdir", "rpcbind", "rpcport"]);
        let refused = with(|option| option.negation == Negation::Refused);
        assert_eq!(refused, ["datadir", "loglevel", "signetchallenge", "signetseednode"]);
        let secret = with(|option| option.shown == Shown::Never);
        assert_eq!(secret, ["torpassword", "rpcauth", "rpcpassword", "rpcuser"]);
    }

    #[test]
    fn typing_errors_are_told_from_other_names() {
        for (name, want) in [
            ("prun", Some("prune")),
            ("dbcahe", Some("dbcache")),
            ("rpcprot", Some("rpcport")),
            ("txindx", Some("txindex")),
            ("dash_conf", None),
            ("foo", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(name), want, "{name}");
        }
        assert_eq!(hint("exit-at-tip"), ": it is ffwd's own, only for the command line");
        assert_eq!((distance("ab", "ba"), distance("", ""), distance("abc", "abc")), (1, 0, 0));
    }

    #[test]
    fn options_without_use_say_why() {
        assert_eq!(find("keypool").and_then(CoreOption::why_unused), Some("ffwd has no wallet"));
        assert_eq!(find("dnsseed").and_then(CoreOption::why_unused), None);
        let why = find("daemon").and_then(CoreOption::why_unused).unwrap();
        assert!(why.contains("systemd") && why.contains("nohup"), "{why}");
    }
}
