//! Rewrites Core's spelling of options for clap: `-name=value`, `-name`, `-noname`, `-regtest`.
//!
//! ```text
//! -datadir=X  --datadir=X      -listen  --listen=1      -nolisten  --listen=0      -regtest  --chain=regtest
//! ```
//!
//! Options before the command are moved after it, so that `bitcoin-cli -regtest COMMAND` has an equivalent. Source:
//! facts of Bitcoin Core b88bffe, common/args.cpp: `ParseParameters`, `InterpretKey`, `InterpretValue`, `GetChainArg`.
//! Absent on purpose: the meaning of an option, and the commands that have it (`args`).

use crate::conf::OnLine;
use crate::options::{self, CoreOption, Effect, Negation, Times};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Options that name a network, and the network.
const CHAINS: [(&str, &str); 4] =
    [("regtest", "regtest"), ("signet", "signet"), ("testnet", "test"), ("testnet4", "testnet4")];
/// Commands with subcommands.
const GROUPS: [&str; 4] = ["audit", "coins", "hints", "lab"];
/// Commands that replace bitcoind: they accept its options that ffwd does not use.
const INSTEAD_OF_BITCOIND: [&str; 2] = ["serve", "sync"];

/// Repeatable options whose negation is the single value 0.
const ZERO_OF_MANY: [&str; 4] = ["blockfilterindex", "connect", "debug", "proxy"];
/// Prefix of Core's errors about the command line.
const PARSING: &str = "Error parsing command line arguments";

/// A rewritten command line.
#[derive(Debug)]
pub(crate) struct Line {
    /// The words that clap reads; the first one is the program's name.
    pub(crate) words: Vec<OsString>,
    pub(crate) on_line: OnLine,
}

/// Rewrites a command line for clap; the first word is the program's name.
///
/// # Errors
///
/// Why an option is unusable; the message names it.
pub(crate) fn rewrite(words: impl IntoIterator<Item = OsString>) -> Result<Line, String> {
    let words = command_first(words.into_iter().collect());
    let is_for_bitcoind = words.get(1).is_some_and(|word| INSTEAD_OF_BITCOIND.iter().any(|name| word == *name));
    let mut rewriting = Rewriting { is_for_bitcoind, ..Rewriting::default() };
    let mut words = words.into_iter().peekable();
    rewriting.out.extend(words.next());
    while let Some(word) = words.next() {
        if word == "--" {
            rewriting.out.push(word);
            rewriting.out.extend(words);
            break;
        }
        if word == "-?" {
            rewriting.out.push(OsString::from("--help"));
            continue;
        }
        let Some(option) = Written::read(&word) else {
            rewriting.out.push(word);
            continue;
        };
        if is_for_bitcoind && option.name == "version" {
            let name = rewriting.out.into_iter().next().unwrap_or_default();
            return Ok(Line { words: vec![name, OsString::from("--version")], on_line: rewriting.on_line });
        }
        // A value in the next word: Core has neither the double dash nor the space.
        let next = words.peek().filter(|next| option.double && is_value(next)).cloned();
        if rewriting.add(&option, next.as_deref())? == Next::IsItsValue {
            words.next();
        }
    }
    rewriting.end()
}

fn is_value(word: &OsStr) -> bool {
    !word.as_bytes().starts_with(b"-")
}

/// Whether the next word was consumed.
#[derive(PartialEq, Eq)]
enum Next {
    IsItsValue,
    IsLeft,
}

#[derive(Default)]
struct Rewriting {
    is_for_bitcoind: bool,
    out: Vec<OsString>,
    on_line: OnLine,
    chains: Vec<String>,
    challenge_count: usize,
}

impl Rewriting {
    /// Adds an option; `next` is the following word, if it may be the value.
    fn add(&mut self, option: &Written<'_>, next: Option<&OsStr>) -> Result<Next, String> {
        if option.is_include()? {
            self.out.push(OsString::from("--noincludeconf"));
            return Ok(Next::IsLeft);
        }
        self.challenge_count += usize::from(option.name == "signetchallenge");
        if self.challenge_count > 1 {
            return Err("-signetchallenge cannot be multiple values.".to_owned());
        }
        let core = option.core();
        let value = next.filter(|_| option.value.is_none());
        if let Some(core) = core {
            if core.negation == Negation::Refused && core.name != option.name {
                return Err(format!("{PARSING}: Negating of -{} is meaningless and therefore forbidden", core.name));
            }
            self.on_line.add(core, option.name, value.or(option.value).unwrap_or_default());
            if self.is_left_out(core, option)? {
                return Ok(if value.is_some() { Next::IsItsValue } else { Next::IsLeft });
            }
            let is_list = core.times == Times::Many && !ZERO_OF_MANY.contains(&core.name);
            if self.is_for_bitcoind && is_list && core.name != option.name {
                if !option.truth()? {
                    return Err(format!("-{}=0: give -{} a value instead", option.name, core.name));
                }
                // Earlier values do not count. Source: Core's `GetSettingsList`.
                let before = format!("--{}=", core.name);
                self.out.retain(|word| !word.as_bytes().starts_with(before.as_bytes()));
                return Ok(Next::IsLeft);
            }
            if let Some(value) = value.filter(|_| is_list) {
                let mut word = OsString::from(format!("--{}=", option.name));
                word.push(value);
                self.out.push(word);
                return Ok(Next::IsItsValue);
            }
        }
        match option.rewrite(core, value.is_some())? {
            Rewritten::As(word) => {
                // Earlier values do not count, and may be unknown. Source: Core's `SetLoggingCategories`.
                if word == "--debug=0" || word == "--debug=none" {
                    self.out.retain(|before| !before.as_bytes().starts_with(b"--debug="));
                }
                self.out.push(word);
            }
            Rewritten::Chain(chain) => self.chains.push(chain),
        }
        Ok(Next::IsLeft)
    }

    /// Whether an option is dropped because ffwd does not use it. An option that has a replacement here is
    /// rejected, unless it requests the default behaviour.
    fn is_left_out(&mut self, core: &CoreOption, option: &Written<'_>) -> Result<bool, String> {
        match core.effect {
            Effect::Instead(way) => {
                let last = self.on_line.entries.last().expect("it was added just now");
                if last.asks_for_nothing() && self.is_for_bitcoind {
                    return Ok(true);
                }
                Err(format!("-{} is not used: {way}", option.name))
            }
            Effect::Unused(why) if self.is_for_bitcoind => {
                self.on_line.warnings.push(format!("-{} is not used: {why}", option.name));
                Ok(true)
            }
            Effect::Removed(why) if self.is_for_bitcoind => {
                self.on_line.warnings.push(why.to_owned());
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn end(mut self) -> Result<Line, String> {
        let chains = &self.chains;
        if chains.windows(2).any(|pair| pair[0] != pair[1]) || (!chains.is_empty() && has_chain(&self.out)) {
            let why = "Invalid combination of -regtest, -signet, -testnet, -testnet4 and -chain. Can use at most one.";
            return Err(why.to_owned());
        }
        self.out.extend(self.chains.pop().map(|chain| OsString::from(format!("--chain={chain}"))));
        Ok(Line { words: self.out, on_line: self.on_line })
    }
}

fn has_chain(words: &[OsString]) -> bool {
    words.iter().any(|word| word == "--chain" || word.as_bytes().starts_with(b"--chain="))
}

/// Moves options from before the command to after it.
fn command_first(words: Vec<OsString>) -> Vec<OsString> {
    let mut words = words.into_iter();
    let mut out: Vec<OsString> = words.next().into_iter().collect();
    let mut moved = Vec::new();
    let mut commands_left = 1;
    while commands_left > 0 {
        let Some(word) = words.next() else { break };
        if Written::read(&word).is_some() {
            moved.push(word);
            continue;
        }
        let is_command = !word.as_bytes().starts_with(b"-");
        // A group has no group in it: `audit coins`.
        let is_group = out.len() == 1 && GROUPS.iter().any(|group| word == *group);
        commands_left = if is_command { commands_left - 1 + usize::from(is_group) } else { 0 };
        out.push(word);
    }
    out.extend(moved);
    out.extend(words);
    out
}

/// An option as written.
struct Written<'a> {
    name: &'a str,
    value: Option<&'a OsStr>,
    /// Whether it has two dashes.
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

    /// The option of bitcoind that it sets or negates.
    fn core(&self) -> Option<&'static CoreOption> {
        options::find(self.name).or_else(|| options::find(self.name.strip_prefix("no")?))
    }

    /// Whether it is `-noincludeconf`, which is not a setting. Source: Core's `ArgsManager::ParseParameters`.
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

    /// Its value as a boolean: empty text is true, otherwise a number is true unless it is 0.
    fn truth(&self) -> Result<bool, String> {
        let Some(value) = self.value.filter(|value| !value.is_empty()) else { return Ok(true) };
        let number = value.to_str().and_then(|text| text.trim().parse::<i64>().ok());
        let why = || format!("-{}={}: expected 0 or 1", self.name, value.display());
        number.map(|number| number != 0).ok_or_else(why)
    }

    fn rewrite(&self, core: Option<&CoreOption>, next_is_value: bool) -> Result<Rewritten, String> {
        if let Some((_, chain)) = CHAINS.iter().find(|(name, _)| *name == self.name) {
            let off = || Err(format!("-{0}=0: name the network with -chain instead", self.name));
            return if self.truth()? { Ok(Rewritten::Chain((*chain).to_owned())) } else { off() };
        }
        let negated = self.name.strip_prefix("no");
        if CHAINS.iter().any(|(name, _)| Some(*name) == negated) {
            return Err(format!("-{}: name the network with -chain instead", self.name));
        }
        let used = core.filter(|core| matches!(core.effect, Effect::Used | Effect::LineOnly));
        if let Some(core) = used.filter(|core| core.name != self.name) {
            let name = core.name;
            let is_on = !self.truth()?;
            if is_on && !core.is_one_when_bare() {
                return Err(format!("-{}=0: give -{name} a value instead", self.name));
            }
            return Ok(Rewritten::As(OsString::from(format!("--{name}={}", u8::from(is_on)))));
        }
        let name = match self.name {
            "?" | "help-debug" => "help",
            name => name,
        };
        let mut word = OsString::from(format!("--{name}"));
        let is_bool = used.is_some_and(|core| core.is_one_when_bare() && core.effect == Effect::Used);
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
            ("before an audit's", "ffwd -datadir=x audit coins -json", "ffwd audit coins --datadir=x --json"),
            ("help", "ffwd -h", "ffwd -h"),
            ("help of all", "ffwd --help", "ffwd --help"),
            ("help of one", "ffwd help sync", "ffwd help sync"),
            ("behind two dashes", "ffwd import -- -regtest", "ffwd import -- -regtest"),
            ("a file that is a dash", "ffwd import -", "ffwd import -"),
            ("the version", "ffwd sync -server=1 -version", "ffwd --version"),
            ("no file included", "ffwd sync -noincludeconf -par=1", "ffwd sync --noincludeconf --par=1"),
            ("no configuration", "ffwd info -noconf -nosettings", "ffwd info --conf=0 --settings=0"),
            ("bitcoind's short help", "ffwd sync -?", "ffwd sync --help"),
            ("help of everything", "ffwd sync -help-debug", "ffwd sync --help"),
            ("a list negated", "ffwd sync -addnode=a --addnode b -noaddnode -addnode=c", "ffwd sync --addnode=c"),
            ("a list in words", "ffwd sync --addnode b --json", "ffwd sync --addnode=b --json"),
            ("nothing of it left", "ffwd serve --rpcbind b -norpcbind", "ffwd serve"),
            ("its text negated", "ffwd sync -norpcuser -noproxy", "ffwd sync --rpcuser=0 --proxy=0"),
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
        assert_eq!(got.on_line.warnings, want);
        let twice = line("ffwd sync -nolisten=0").on_line.warnings;
        assert_eq!(twice, ["Parsed potentially confusing double-negative -listen=0"]);
        let other = line("ffwd info -keypool=1");
        assert_eq!(other.words, ["ffwd", "info", "--keypool=1"], "clap refuses it");
        assert!(other.on_line.warnings.is_empty());
        let apart = line("ffwd sync --maxmempool 300 --json");
        assert_eq!(apart.words, ["ffwd", "sync", "--json"], "a value of its own is left out too");
        assert_eq!(apart.on_line.entries[0].setting.value.text(), "300");
        let removed = line("ffwd sync -checkpoints=1").on_line.warnings;
        assert_eq!(removed, ["Option '-checkpoints' is set but checkpoints were removed. This option has no effect."]);
        let off = line("ffwd sync -nodaemon -daemonwait=0 -networkactive -nozmqpubrawtx");
        assert_eq!(off.words, ["ffwd", "sync"], "what ffwd does anyway");
    }

    #[test]
    fn rewrite_refuses_what_it_cannot_mean() {
        for (row, line, want) in [
            ("two networks", "ffwd info -regtest -signet", "Can use at most one."),
            ("a network and -chain", "ffwd info -regtest -chain=main", "Can use at most one."),
            ("a network off", "ffwd info -regtest=0", "-regtest=0: name the network"),
            ("a network negated", "ffwd info -noregtest", "-noregtest: name the network"),
            (
                "a file included",
                "ffwd sync -includeconf=a",
                "-includeconf cannot be used from commandline; -includeconf=\"a\"",
            ),
            ("one not excluded", "ffwd sync -noincludeconf=0", "from commandline; -includeconf=true"),
            ("two challenges", "ffwd sync -signetchallenge=51 -signetchallenge=51", "cannot be multiple values."),
            ("a bool that is neither", "ffwd sync -nolisten=x", "-nolisten=x: expected 0 or 1"),
            ("a size on", "ffwd sync -noprune=0", "-noprune=0: give -prune a value"),
            ("a list on", "ffwd sync -noaddnode=0", "-noaddnode=0: give -addnode a value"),
            ("a directory negated", "ffwd info -nodatadir", "Negating of -datadir is meaningless and therefore"),
            (
                "the background",
                "ffwd sync -daemon",
                "-daemon is not used: ffwd runs in the foreground: start it by systemd",
            ),
            ("the background, of another command", "ffwd reindex -daemon=1", "or behind `nohup ffwd sync"),
            ("messages", "ffwd sync -zmqpubhashblock=tcp://127.0.0.1:1", "-blocknotify runs a command"),
            ("messages in words", "ffwd serve --zmqpubrawtx tcp://127.0.0.1:1", "call waitfornewblock waits"),
            ("no network", "ffwd sync -networkactive=0", "ffwd serve works without peers"),
            ("an import alone", "ffwd sync -stopafterblockimport", "ffwd import FILE and ffwd reindex end"),
        ] {
            let why = rewritten(line).expect_err(row);
            assert!(why.contains(want), "{row}: {why}");
        }
    }

    #[test]
    fn groups_are_the_commands_with_subcommands() {
        let cli = crate::help::command();
        let groups: Vec<&str> =
            cli.get_subcommands().filter(|command| command.has_subcommands()).map(clap::Command::get_name).collect();
        assert!(groups.iter().all(|group| GROUPS.contains(group)), "{groups:?}");
    }

    #[test]
    fn what_bitcoind_reads_is_kept() {
        let words = "ffwd sync -listen --connect a -nodns -json -addnode=b -noaddnode --par -1";
        let got = rewrite(words.split_whitespace().map(OsString::from)).unwrap().on_line.entries;
        let got: Vec<_> = got.iter().map(|entry| format!("{}={}", entry.name, entry.setting.value.text())).collect();
        assert_eq!(got, ["listen=", "connect=a", "dns=0", "addnode=b", "addnode=0", "par="]);
    }

    #[test]
    fn paths_that_are_not_utf8_stay_as_they_are() {
        let path = OsStr::from_bytes(b"-datadir=/\xff").to_owned();
        let words = rewrite([OsString::from("ffwd"), OsString::from("info"), path]).unwrap().words;
        assert_eq!(words[2].as_bytes(), b"--datadir=/\xff");
    }
}
