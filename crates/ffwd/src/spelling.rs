//! Core's spelling of options, rewritten for clap: `-name=value`, `-name`, `-noname`, `-regtest`.
//!
//! ```text
//! -datadir=X  --datadir=X      -listen  --listen=1      -nolisten  --listen=0      -regtest  --chain=regtest
//! ```
//!
//! Options before the command are moved behind it, as `bitcoin-cli -regtest COMMAND` has them.
//! Source: facts of Bitcoin Core b88bffe, common/args.cpp: `ParseParameters`, `InterpretKey`, `InterpretValue`, `GetChainArg`.
//! Absent on purpose: what an option means, and which command has it (`args`).

use crate::core_options::why_unused;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Options that are 1 without a value, and 0 with "no" before them.
const BOOLS: [&str; 23] = [
    "blockfilterindex",
    "blocksxor",
    "checkblockindex",
    "coinstatsindex",
    "debug",
    "dnsseed",
    "fastprune",
    "fixedseeds",
    "forcednsseed",
    "listen",
    "logips",
    "logratelimit",
    "logtimemicros",
    "peerblockfilters",
    "printtoconsole",
    "reindex",
    "reindex-chainstate",
    "rest",
    "rpcwhitelistdefault",
    "server",
    "txindex",
    "txospenderindex",
    "v2transport",
];
/// Options whose negation is the value 0, in Core too.
const ZERO_IS_OFF: [&str; 11] = [
    "assumevalid",
    "connect",
    "debuglogfile",
    "maxconnections",
    "mocktime",
    "par",
    "pid",
    "proxy",
    "prune",
    "rpccookiefile",
    "stopatheight",
];
/// Options that name a network, and the network.
const CHAINS: [(&str, &str); 4] =
    [("regtest", "regtest"), ("signet", "signet"), ("testnet", "test"), ("testnet4", "testnet4")];
/// Commands with commands of their own.
const GROUPS: [&str; 2] = ["coins", "lab"];
/// Commands that stand in for bitcoind: they take its options that ffwd has no use for.
const INSTEAD_OF_BITCOIND: [&str; 2] = ["serve", "sync"];

/// A command line that was rewritten.
#[derive(Debug)]
pub(crate) struct Line {
    /// As clap reads it; the first word is the program's name.
    pub(crate) words: Vec<OsString>,
    /// Options of bitcoind's that were left out, in warnings.
    pub(crate) unused: Vec<String>,
}

/// The command line as clap reads it; the first word is the program's name.
///
/// # Errors
///
/// Why an option cannot be used so: it names the option.
pub(crate) fn rewrite(words: impl IntoIterator<Item = OsString>) -> Result<Line, String> {
    let words = command_first(words.into_iter().collect());
    let is_for_bitcoind = words.get(1).is_some_and(|word| INSTEAD_OF_BITCOIND.iter().any(|name| word == *name));
    let mut unused: Vec<String> = Vec::new();
    let mut out = Vec::with_capacity(words.len());
    let mut chains: Vec<String> = Vec::new();
    let mut challenge_count = 0;
    let mut words = words.into_iter().peekable();
    out.extend(words.next());
    while let Some(word) = words.next() {
        if word == "--" {
            out.push(word);
            out.extend(words);
            break;
        }
        let Some(option) = Written::read(&word) else {
            out.push(word);
            continue;
        };
        if is_for_bitcoind && option.name == "version" {
            let name = out.into_iter().next().unwrap_or_default();
            return Ok(Line { words: vec![name, OsString::from("--version")], unused });
        }
        if option.is_include()? {
            continue;
        }
        challenge_count += usize::from(option.name == "signetchallenge");
        if challenge_count > 1 {
            return Err("-signetchallenge cannot be multiple values.".to_owned());
        }
        if let Some(why) = why_unused(option.name).filter(|_| is_for_bitcoind) {
            unused.push(format!("-{} is not used: {why}", option.name));
            continue;
        }
        if option.name.starts_with("no") && option.value.is_some() && option.truth().is_ok_and(|truth| !truth) {
            let name = option.name.strip_prefix("no").unwrap_or_default();
            unused.push(format!("Parsed potentially confusing double-negative -{name}=0"));
        }
        // A value of its own: the double dash and a space are ours, not Core's.
        let next_is_value = option.double && words.peek().is_some_and(|next| !next.as_bytes().starts_with(b"-"));
        match option.rewrite(next_is_value)? {
            Rewritten::As(word) => {
                // Those before it do not count, and need not be known. Source: Core's `SetLoggingCategories`.
                if word == "--debug=0" || word == "--debug=none" {
                    out.retain(|before| !before.as_bytes().starts_with(b"--debug="));
                }
                out.push(word);
            }
            Rewritten::Chain(chain) => chains.push(chain),
        }
    }
    if chains.windows(2).any(|pair| pair[0] != pair[1]) || (!chains.is_empty() && has_chain(&out)) {
        let why = "Invalid combination of -regtest, -signet, -testnet, -testnet4 and -chain. Can use at most one.";
        return Err(why.to_owned());
    }
    out.extend(chains.pop().map(|chain| OsString::from(format!("--chain={chain}"))));
    Ok(Line { words: out, unused })
}

fn has_chain(words: &[OsString]) -> bool {
    words.iter().any(|word| word == "--chain" || word.as_bytes().starts_with(b"--chain="))
}

/// Moves options that stand before the command behind it.
fn command_first(words: Vec<OsString>) -> Vec<OsString> {
    let mut words = words.into_iter();
    let mut out: Vec<OsString> = words.next().into_iter().collect();
    let (mut moved, mut commands_left) = (Vec::new(), 1);
    while commands_left > 0 {
        let Some(word) = words.next() else { break };
        if Written::read(&word).is_some() {
            moved.push(word);
            continue;
        }
        let is_command = !word.as_bytes().starts_with(b"-");
        let is_group = GROUPS.iter().any(|group| word == *group);
        commands_left = if is_command { commands_left - 1 + usize::from(is_group) } else { 0 };
        out.push(word);
    }
    out.extend(moved);
    out.extend(words);
    out
}

/// An option as it was written.
struct Written<'a> {
    name: &'a str,
    value: Option<&'a OsStr>,
    /// Two dashes.
    double: bool,
}

enum Rewritten {
    As(OsString),
    Chain(String),
}

impl Written<'_> {
    /// `None` for a value, a negative number, and clap's own short options.
    fn read(word: &OsStr) -> Option<Written<'_>> {
        let bytes = word.as_bytes();
        let (rest, double) = match bytes {
            [b'-', b'-', rest @ ..] => (rest, true),
            [b'-', rest @ ..] => (rest, false),
            _ => return None,
        };
        let end = rest.iter().position(|byte| *byte == b'=');
        let name = std::str::from_utf8(&rest[..end.unwrap_or(rest.len())]).ok()?;
        let is_short = !double && matches!(name, "h" | "V");
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || is_short {
            return None;
        }
        Some(Written { name, value: end.map(|end| OsStr::from_bytes(&rest[end + 1..])), double })
    }

    /// Whether it is `-noincludeconf`, which means nothing there. Source: Core's `ArgsManager::ParseParameters`.
    fn is_include(&self) -> Result<bool, String> {
        let shown = match self.name {
            "noincludeconf" if self.truth()? => return Ok(true),
            "noincludeconf" => "true".to_owned(),
            "includeconf" => format!("\"{}\"", self.value.unwrap_or_default().display()),
            _ => return Ok(false),
        };
        Err(format!(
            "Error parsing command line arguments: -includeconf cannot be used from commandline; -includeconf={shown}"
        ))
    }

    /// As a yes or no: no text is yes, otherwise a number that is not 0 is.
    fn truth(&self) -> Result<bool, String> {
        let Some(value) = self.value.filter(|value| !value.is_empty()) else { return Ok(true) };
        let number = value.to_str().and_then(|text| text.trim().parse::<i64>().ok());
        let why = || format!("-{}={}: expected 0 or 1", self.name, value.display());
        number.map(|number| number != 0).ok_or_else(why)
    }

    fn rewrite(&self, next_is_value: bool) -> Result<Rewritten, String> {
        if let Some((_, chain)) = CHAINS.iter().find(|(name, _)| *name == self.name) {
            let off = || Err(format!("-{0}=0: name the network with -chain instead", self.name));
            return if self.truth()? { Ok(Rewritten::Chain((*chain).to_owned())) } else { off() };
        }
        let negated = self.name.strip_prefix("no").filter(|name| !name.is_empty());
        let known = negated.filter(|name| BOOLS.contains(name) || ZERO_IS_OFF.contains(name));
        if let Some(name) = known {
            let is_on = !self.truth()?;
            if is_on && !BOOLS.contains(&name) {
                return Err(format!("-{}=0: give -{name} a value instead", self.name));
            }
            return Ok(Rewritten::As(OsString::from(format!("--{name}={}", u8::from(is_on)))));
        }
        let name = match self.name {
            "?" => "help",
            name => name,
        };
        let mut word = OsString::from(format!("--{name}"));
        let is_bool = BOOLS.contains(&name);
        match self.value {
            Some(value) if is_bool && value.is_empty() => word.push("=1"),
            Some(value) => {
                word.push("=");
                word.push(OsString::from_vec(value.as_bytes().to_vec()));
            }
            None if is_bool && !next_is_value => word.push("=1"),
            None => {}
        }
        Ok(Rewritten::As(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(line: &str) -> Result<String, String> {
        let words = rewrite(line.split_whitespace().map(OsString::from))?.words;
        Ok(words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn rewrite_takes_cores_spelling() {
        for (row, line, want) in [
            ("a value", "ffwd sync -datadir=/x=y", "ffwd sync --datadir=/x=y"),
            ("two dashes", "ffwd sync --datadir=/x --json", "ffwd sync --datadir=/x --json"),
            ("a value of its own", "ffwd sync --par -1 --v2transport 0", "ffwd sync --par -1 --v2transport 0"),
            ("a bare bool", "ffwd sync -dnsseed --listen", "ffwd sync --dnsseed=1 --listen=1"),
            ("an empty bool", "ffwd sync -dnsseed=", "ffwd sync --dnsseed=1"),
            ("a bare bool, then a file", "ffwd import -blocksxor a", "ffwd import --blocksxor=1 a"),
            ("negated", "ffwd sync -nolisten --nodnsseed -noconnect", "ffwd sync --listen=0 --dnsseed=0 --connect=0"),
            ("files negated", "ffwd sync -nopid -nodebuglogfile", "ffwd sync --pid=0 --debuglogfile=0"),
            ("categories dropped", "ffwd sync -debug=abc -nodebug -debug=rpc", "ffwd sync --debug=0 --debug=rpc"),
            ("negated twice", "ffwd sync -nolisten=0", "ffwd sync --listen=1"),
            ("a network", "ffwd info -testnet", "ffwd info --chain=test"),
            ("a network twice", "ffwd info -regtest -regtest=1", "ffwd info --chain=regtest"),
            (
                "before the command",
                "ffwd -regtest -datadir=x info -json",
                "ffwd info --datadir=x --json --chain=regtest",
            ),
            ("before both commands", "ffwd -json coins -signet info", "ffwd coins info --json --chain=signet"),
            ("help", "ffwd -h", "ffwd -h"),
            ("help of all", "ffwd --help", "ffwd --help"),
            ("help of one", "ffwd help sync", "ffwd help sync"),
            ("behind two dashes", "ffwd import -- -regtest", "ffwd import -- -regtest"),
            ("a file that is a dash", "ffwd import -", "ffwd import -"),
            ("the version", "ffwd sync -server=1 -version", "ffwd --version"),
            ("no file included", "ffwd sync -noincludeconf -par=1", "ffwd sync --par=1"),
            ("unknown", "ffwd info -rpcport=1", "ffwd info --rpcport=1"),
        ] {
            assert_eq!(rewritten(line).as_deref(), Ok(want), "{row}");
        }
    }

    #[test]
    fn options_of_bitcoind_that_mean_nothing_here_are_left_out_and_said() {
        let line = |text: &str| rewrite(text.split_whitespace().map(OsString::from)).unwrap();
        let got = line("ffwd -disablewallet sync -datadir=x -keypool=1 -nodnsseed -nolistenonion");
        assert_eq!(got.words, ["ffwd", "sync", "--datadir=x", "--dnsseed=0"]);
        let want = [
            "-disablewallet is not used: ffwd has no wallet",
            "-keypool is not used: ffwd has no wallet",
            "-nolistenonion is not used: ffwd's connections have no such setting",
        ];
        assert_eq!(got.unused, want);
        let twice = line("ffwd sync -nolisten=0").unused;
        assert_eq!(twice, ["Parsed potentially confusing double-negative -listen=0"]);
        let other = line("ffwd info -keypool=1");
        assert_eq!(other.words, ["ffwd", "info", "--keypool=1"], "clap refuses it");
        assert!(other.unused.is_empty());
    }

    #[test]
    fn rewrite_refuses_what_it_cannot_mean() {
        for (row, line, want) in [
            ("two networks", "ffwd info -regtest -signet", "Can use at most one."),
            ("a network and -chain", "ffwd info -regtest -chain=main", "Can use at most one."),
            ("a network off", "ffwd info -regtest=0", "-regtest=0: name the network"),
            (
                "a file included",
                "ffwd sync -includeconf=a",
                "-includeconf cannot be used from commandline; -includeconf=\"a\"",
            ),
            ("one not excluded", "ffwd sync -noincludeconf=0", "from commandline; -includeconf=true"),
            ("two challenges", "ffwd sync -signetchallenge=51 -signetchallenge=51", "cannot be multiple values."),
            ("a bool that is neither", "ffwd sync -nolisten=x", "-nolisten=x: expected 0 or 1"),
            ("a size on", "ffwd sync -noprune=0", "-noprune=0: give -prune a value"),
        ] {
            let why = rewritten(line).expect_err(row);
            assert!(why.contains(want), "{row}: {why}");
        }
    }

    #[test]
    fn paths_that_are_not_utf8_stay_as_they_are() {
        let path = OsStr::from_bytes(b"-datadir=/\xff").to_owned();
        let words = rewrite([OsString::from("ffwd"), OsString::from("info"), path]).unwrap().words;
        assert_eq!(words[2].as_bytes(), b"--datadir=/\xff");
    }
}
