//! Layout of `--help`: options in groups with the most used ones first, and examples for each command.
//!
//! The options and their help are clap's (`args`) and the table's (`options`); this module changes their order and headings only.
//! Man pages and the reference pages of docs/ read the same command.

use crate::args::Cli;
use crate::options::{self, Category};
use clap::builder::Resettable;
use clap::{Arg, Command, CommandFactory as _};

/// Options in the first group of a command that has them, in this order.
const FIRST: [&str; 10] =
    ["datadir", "chain", "exit-at-tip", "connect", "prune", "dbcache", "assumevalid", "snapshot", "server", "json"];

/// Heading of Core's options of connections.
const PEERS: &str = "Peers";

/// Headings, and the options below each. Of the others Core's options of connections are below [`PEERS`], and the rest keeps the
/// heading of its definition.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Sources of blocks",
        &["from", "window", "hints", "snapshot-hash", "snapshot-list", "loadblock", "reindex", "reindex-chainstate"],
    ),
    (PEERS, &["maxoutbound", "uacomment"]),
    ("Contents", &["format", "tables", "columns", "nested"]),
    ("Reading in parts", &["plan", "files"]),
    ("Configuration files", &["conf", "settings", "allowignoredconf", "check-configuration"]),
    (
        "Log and console",
        &["debug", "debugexclude", "logips", "logratelimit", "logtimemicros", "printtoconsole", "debuglogfile"],
    ),
    (
        "Tests and measurements",
        &["cpu", "without", "test", "testactivationheight", "signetchallenge", "stopatheight", "minimumchainwork"],
    ),
];

/// Options of every command on a data directory, and the commands that use them. Others accept them, so that scripts can
/// pass the same options to all; their help omits them.
const USERS: &[(&str, &[&str])] = &[
    ("assumevalid", &["sync", "serve", "reindex", "import", "verify", "repair", "coins load", "info"]),
    (
        "dbcache",
        &[
            "sync",
            "serve",
            "reindex",
            "import",
            "verify",
            "repair",
            "coins load",
            "coins dump",
            "index",
            "export",
            "lab commit",
            "lab estimate",
        ],
    ),
    ("minimumchainwork", &["sync", "serve", "reindex", "import", "verify", "repair", "coins load"]),
];

/// Further options that a command accepts with the others of their group, and does not use: its help omits them.
const UNUSED: &[(&str, &[&str])] = &[
    ("repair", &["bantime"]),
    (
        "stop",
        &[
            "rest",
            "rpcauth",
            "rpccookieperms",
            "rpcmaxconnections",
            "rpcservertimeout",
            "rpcthreads",
            "rpcwhitelist",
            "rpcwhitelistdefault",
            "rpcworkqueue",
        ],
    ),
];

/// Examples: the command, then command lines with their explanations.
const EXAMPLES: &[(&str, &[(&str, &str)])] = &[
    (
        "demo",
        &[
            ("ffwd demo", "a chain, its validation and a report, in a temporary directory"),
            ("ffwd demo --out /tmp/demo", "keep the report there"),
        ],
    ),
    (
        "sync",
        &[
            ("ffwd sync --exit-at-tip", "download and validate the chain in ~/.bitcoin, then exit"),
            ("ffwd sync --datadir /mnt/btc --prune 10000 --exit-at-tip", "keep about 10 GB of block files"),
            ("ffwd sync --connect 192.168.1.5 --server", "from one peer, with page and RPC calls on port 8332"),
            ("ffwd sync --check-configuration", "report how each line of bitcoin.conf is handled"),
        ],
    ),
    ("serve", &[("ffwd serve --datadir /mnt/btc --rest", "RPC and REST on port 8332, without peers")]),
    ("stop", &[("ffwd stop --datadir /mnt/btc", "stop the program that uses this data directory")]),
    (
        "reindex",
        &[
            ("ffwd reindex --datadir /mnt/btc", "rebuild block index, undo files and UTXO set"),
            ("ffwd reindex --datadir /mnt/btc --chainstate-only", "rebuild only the UTXO set"),
        ],
    ),
    ("import", &[("ffwd import bootstrap.dat --datadir /mnt/btc", "import the blocks of a file")]),
    ("verify", &[("ffwd verify --level 4 --blocks 1000", "check the last 1000 blocks, with their scripts")]),
    ("info", &[("ffwd info --datadir /mnt/btc", "chain, height, files, and the next step")]),
    ("params", &[("ffwd params --chain signet --json", "all parameters of signet, as JSON")]),
    (
        "doctor",
        &[
            ("ffwd doctor --datadir /mnt/btc", "quick check"),
            ("ffwd doctor --datadir /mnt/btc --deep", "read every byte"),
        ],
    ),
    (
        "repair",
        &[
            ("ffwd repair --datadir /mnt/btc", "fetch damaged or missing blocks from peers"),
            ("ffwd repair --datadir /mnt/btc --connect 192.168.1.5", "from one peer"),
        ],
    ),
    (
        "index",
        &[
            ("ffwd index --only txindex --datadir /mnt/btc", "build the transaction index"),
            ("ffwd index --only silentpaymentindex --datadir /mnt/btc", "build the index of silent payments"),
        ],
    ),
    ("tx", &[("ffwd tx 4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b", "show a transaction")]),
    ("silentpayments", &[("ffwd silentpayments 850000 --unspent", "tweaks of the block at this height")]),
    ("filter", &[("ffwd filter 800000", "basic filter of the block at this height")]),
    (
        "spender",
        &[(
            "ffwd spender 0437cd7f8525ceed2324359c2d0ba26006d92d856a9c20fa0241106ee5a597c9:0",
            "the transaction that spends this output",
        )],
    ),
    (
        "top",
        &[
            ("ffwd top", "the sync of ~/.bitcoin; q quits"),
            ("ffwd top --rpcconnect 192.168.1.5 --rpcuser me --rpcpassword secret", "another machine"),
        ],
    ),
    ("manuals", &[("ffwd manuals /tmp/ffwd-manuals", "man pages, completions and reference pages")]),
    (
        "coins info",
        &[
            ("ffwd coins info --hash muhash", "statistics of the UTXO set"),
            ("ffwd coins info utxo.dat", "statistics of a snapshot file"),
        ],
    ),
    (
        "coins dump",
        &[
            ("ffwd coins dump utxo.dat", "write a snapshot at the tip"),
            ("ffwd coins dump utxo.dat --height 840000", "at an earlier height"),
        ],
    ),
    ("coins load", &[("ffwd coins load utxo.dat --datadir /mnt/btc", "load a snapshot that Core knows")]),
    ("coins diff", &[("ffwd coins diff a.dat b.dat", "coins that only one of two snapshots has")]),
    (
        "hints make",
        &[
            ("ffwd hints make utxo.hints --datadir /mnt/btc", "write hints from a full data directory"),
            ("ffwd hints make signatures.bin --signatures --datadir /mnt/btc", "one bit for each signature"),
        ],
    ),
    ("audit plan", &[("ffwd audit plan --parts 90 --out plan", "cut the chain into 90 ranges")]),
    ("audit part", &[("ffwd audit part --from 700000 --to 709999 --salt salt --out part70", "audit one range")]),
    ("audit coins", &[("ffwd audit coins --hash muhash --salt salt --out coins", "audit the UTXO set")]),
    ("audit join", &[("ffwd audit join part0 part1 coins", "the verdict on the whole chain")]),
    ("export", &[("ffwd export --from 800000 --to 809999 --out tables", "Parquet files of 10,000 blocks")]),
    (
        "lab chain",
        &[(
            "ffwd lab chain --out /tmp/chain --blocks 1200 --tail 2100 --signatures fake",
            "a chain like mainnet's, on regtest",
        )],
    ),
    (
        "lab worst",
        &[("ffwd lab worst --out /tmp/worst --kind quadratic-legacy", "a chain whose last blocks take long to verify")],
    ),
    ("lab cores", &[("ffwd lab cores cores.json --quick", "measure what more processors give")]),
    ("lab micro", &[("ffwd lab micro sha256", "microbenchmarks whose name contains sha256")]),
    (
        "lab run",
        &[
            ("ffwd lab run --example", "print a plan to start from"),
            ("ffwd lab run plan.toml --out results", "run a plan"),
        ],
    ),
    ("lab commit", &[("ffwd lab commit --datadir /tmp/chain --chain regtest", "write the whole UTXO set again")]),
    ("lab estimate", &[("ffwd lab estimate --download 100", "time of a mainnet sync at 100 Mbit/s")]),
    ("lab plot", &[("ffwd lab plot ~/.bitcoin/debug.log", "draw report.html from a log, of Core too")]),
];

/// The program's commands, with groups and examples.
pub(crate) fn command() -> Command {
    dress(Cli::command(), "")
}

/// Adds groups and examples to a command and its subcommands. `path` is its words without the program's name.
fn dress(command: Command, path: &str) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    if names.is_empty() {
        let command = command.mut_args(|arg| group(arg, path));
        return match examples(path) {
            Some(text) => command.after_help(text),
            None => command,
        };
    }
    names.into_iter().fold(command, |command, name| {
        let path = if path.is_empty() { name.clone() } else { format!("{path} {name}") };
        command.mut_subcommand(name, |below| dress(below, &path))
    })
}

/// Whether a command uses an option that it accepts.
fn is_used(name: &str, path: &str) -> bool {
    let users = USERS.iter().find(|(option, _)| *option == name);
    let unused = UNUSED.iter().find(|(command, _)| *command == path);
    users.is_none_or(|(_, commands)| commands.contains(&path))
        && unused.is_none_or(|(_, options)| !options.contains(&name))
}

/// Puts an option of the command `path` below its heading.
fn group(arg: Arg, path: &str) -> Arg {
    let Some(name) = arg.get_long().map(str::to_owned) else { return arg };
    let arg = if is_used(&name, path) { arg } else { arg.hide(true) };
    if let Some(order) = FIRST.iter().position(|first| *first == name) {
        return arg.help_heading(Resettable::Reset).display_order(order);
    }
    match GROUPS.iter().find(|(_, options)| options.contains(&&*name)) {
        Some((heading, _)) => arg.help_heading(*heading),
        None => match options::find(&name) {
            Some(option) if option.category == Category::Connection => arg.help_heading(PEERS),
            _ => arg,
        },
    }
}

/// "Examples:", then each command line with its explanation below.
fn examples(path: &str) -> Option<String> {
    let (_, lines) = EXAMPLES.iter().find(|(command, _)| *command == path)?;
    let lines = lines.iter().map(|(line, does)| format!("  {line}\n      {does}"));
    Some(format!("Examples:\n{}", lines.collect::<Vec<_>>().join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each command without commands below it: its words, and itself.
    fn leaves(command: &Command, path: &str, into: &mut Vec<(String, Command)>) {
        for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
            let path = format!("{path} {}", below.get_name()).trim().to_owned();
            match below.has_subcommands() {
                true => leaves(below, &path, into),
                false => into.push((path, below.clone())),
            }
        }
    }

    #[test]
    fn every_command_has_examples_that_parse() {
        let mut all = Vec::new();
        leaves(&command(), "", &mut all);
        assert!(all.len() > 15, "{}", all.len());
        for (path, mut leaf) in all {
            let help = leaf.render_long_help().to_string();
            assert!(help.contains("\nExamples:\n"), "{path}: {help}");
            let (_, lines) = EXAMPLES.iter().find(|(command, _)| *command == path).unwrap();
            for (line, _) in *lines {
                assert!(line.starts_with(&format!("ffwd {path}")), "{path}: {line}");
                let line = crate::spelling::rewrite(line.split(' ').map(Into::into)).unwrap();
                let read = command().try_get_matches_from(line.words);
                assert!(read.is_ok(), "{path}: {}", read.unwrap_err());
            }
        }
    }

    #[test]
    fn long_help_is_grouped_with_few_options_first() {
        let mut all = Vec::new();
        leaves(&command(), "", &mut all);
        for (path, leaf) in all {
            let shown: Vec<&Arg> =
                leaf.get_arguments().filter(|arg| arg.get_long().is_some() && !arg.is_hide_set()).collect();
            let first = shown.iter().filter(|arg| arg.get_help_heading().is_none()).count();
            if shown.len() >= 16 {
                let mut headings: Vec<&str> = shown.iter().filter_map(|arg| arg.get_help_heading()).collect();
                headings.sort_unstable();
                headings.dedup();
                // clap adds --help.
                assert!(first < 12, "{path}: {first} options in the first group");
                assert!(headings.len() >= 2, "{path}: {headings:?}");
            }
        }
    }

    #[test]
    fn help_omits_options_that_a_command_accepts_and_does_not_use() {
        let mut all = Vec::new();
        leaves(&command(), "", &mut all);
        for (path, leaf) in &all {
            let path = path.as_str();
            let arg = |name: &str| leaf.get_arguments().find(|arg| arg.get_long() == Some(name));
            for (name, commands) in USERS {
                let is_shown = arg(name).is_some_and(|arg| !arg.is_hide_set());
                assert_eq!(is_shown, commands.contains(&path), "{path}: --{name}");
            }
            for (_, options) in UNUSED.iter().filter(|(command, _)| *command == path) {
                for name in *options {
                    assert!(arg(name).is_some_and(Arg::is_hide_set), "{path}: --{name}");
                }
            }
        }
        let need_features = ["serve", "export", "lab commit", "lab estimate"];
        for path in USERS.iter().flat_map(|(_, commands)| *commands) {
            let is_there = all.iter().any(|(known, _)| known == path);
            assert!(is_there || need_features.contains(path), "no command {path}");
        }
    }

    #[test]
    fn groups_name_options_that_exist_once() {
        let mut all = Vec::new();
        leaves(&command(), "", &mut all);
        let known: Vec<String> = all
            .iter()
            .flat_map(|(_, leaf)| leaf.get_arguments().filter_map(Arg::get_long).map(str::to_owned))
            .collect();
        let named: Vec<&str> = GROUPS.iter().flat_map(|(_, options)| *options).chain(&FIRST).copied().collect();
        for (place, name) in named.iter().enumerate() {
            assert!(!named[..place].contains(name), "{name} is in two groups");
            let needs_feature = ["server", "without"].contains(name);
            assert!(needs_feature || known.iter().any(|known| known == name), "no command has --{name}");
        }
    }
}
