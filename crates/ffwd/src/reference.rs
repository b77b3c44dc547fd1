//! Reference pages of the documentation, generated from the program: commands, configuration, exit codes.
//!
//! `ffwd manuals DIR` writes them. A test compares them with the pages in docs/;
//! `UPDATE_REFERENCE=1 cargo test -p ffwd --features full reference` updates those in docs/.
//! Absent on purpose: messages, which `testkit` collects from the source.

use crate::exit_codes;
use crate::help;
use crate::options::{Category, CoreOption, Effect, Kind, Negation, OWN, Sections, TABLE, Times};
use clap::{Arg, Command};
use std::fmt::Write as _;

/// Name and text of each page.
pub(crate) fn pages() -> [(&'static str, String); 3] {
    [("commands.md", commands()), ("configuration.md", configuration()), ("exit-codes.md", exit_codes())]
}

const MADE: &str = "This page is made from the program: `UPDATE_REFERENCE=1 cargo test -p ffwd --features full reference` writes it.\n";

/// Escapes text so that Markdown shows it unchanged.
fn plain(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.chars().fold(String::new(), |mut out, letter| {
        match letter {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '*' | '_' | '|' => out.extend(['\\', letter]),
            _ => out.push(letter),
        }
        out
    })
}

fn commands() -> String {
    let mut command = help::command();
    command.build();
    let mut out = format!(
        "# Commands\n\nAll commands and options of a program with all features (`--features full`), as `ffwd help COMMAND` prints them.\n{MADE}\
         Every option takes Core's spelling too: `-datadir=DIR`, `-nolisten`.\n"
    );
    below(&command, "ffwd", &mut out);
    out
}

fn below(command: &Command, path: &str, out: &mut String) {
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help" && !sub.is_hide_set()) {
        let path = format!("{path} {}", sub.get_name());
        match sub.has_subcommands() {
            true => below(sub, &path, out),
            false => section(sub, &path, out),
        }
    }
}

fn section(command: &Command, path: &str, out: &mut String) {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").trim();
    let usage = if usage.starts_with("ffwd") { usage.to_owned() } else { format!("ffwd {usage}") };
    write!(out, "\n## {path}\n\n{}.\n\n    {usage}\n", plain(&about)).expect("a String takes all");
    if let Some(examples) = command.get_after_help() {
        let lines: Vec<String> = examples.to_string().lines().skip(1).map(|line| format!("  {line}")).collect();
        write!(out, "\nExamples:\n\n{}\n", lines.join("\n")).expect("a String takes all");
    }
    let positional: Vec<&Arg> = command.get_positionals().filter(|arg| !arg.is_hide_set()).collect();
    group("Arguments", &positional, out);
    let options: Vec<&Arg> = command
        .get_opts()
        .chain(command.get_arguments().filter(|arg| is_switch(arg)))
        .filter(|arg| is_shown(arg))
        .collect();
    let mut headings: Vec<Option<&str>> = vec![None];
    for arg in &options {
        if !headings.contains(&arg.get_help_heading()) {
            headings.push(arg.get_help_heading());
        }
    }
    for heading in headings {
        let args: Vec<&Arg> = options.iter().copied().filter(|arg| arg.get_help_heading() == heading).collect();
        group(heading.unwrap_or("Options"), &args, out);
    }
}

fn is_switch(arg: &Arg) -> bool {
    !arg.is_positional() && !arg.get_action().takes_values()
}

fn is_shown(arg: &Arg) -> bool {
    !arg.is_hide_set() && !matches!(arg.get_long(), Some("help" | "version") | None)
}

fn group(heading: &str, args: &[&Arg], out: &mut String) {
    if args.is_empty() {
        return;
    }
    write!(out, "\n{heading}:\n\n").expect("a String takes all");
    for arg in args {
        let value = arg.get_value_names().map(|names| names.join("> <")).filter(|_| !is_switch(arg));
        let name = match (arg.get_long(), value) {
            (Some(long), Some(value)) => format!("--{long} <{value}>"),
            (Some(long), None) => format!("--{long}"),
            (None, value) => format!("<{}>", value.unwrap_or_default()),
        };
        let text = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
        let default =
            arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let default = match default.is_empty() || arg.is_hide_default_value_set() || is_switch(arg) {
            true => String::new(),
            false => format!(" [default: {default}]"),
        };
        let values: Vec<String> = arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        let values = match values.is_empty() || arg.is_hide_possible_values_set() || is_switch(arg) {
            true => String::new(),
            false => format!(" [one of: {}]", values.join(", ")),
        };
        writeln!(out, "- `{name}`: {}", plain(&format!("{text}{default}{values}"))).expect("a String takes all");
    }
}

/// bitcoind's headings, in the order of its help.
const CATEGORIES: &[(Category, &str)] = &[
    (Category::Options, "General options"),
    (Category::Connection, "Connections"),
    (Category::Rpc, "RPC server"),
    (Category::ChainParams, "Network selection"),
    (Category::DebugTest, "Debugging and tests"),
    (Category::NodeRelay, "Relay"),
    (Category::BlockCreation, "Block creation"),
    (Category::Wallet, "Wallet"),
    (Category::WalletDebugTest, "Wallet debugging"),
    (Category::Zmq, "ZeroMQ"),
    (Category::Hidden, "Hidden in bitcoind's help"),
];

fn configuration() -> String {
    let mut out = format!(
        "# Configuration reference\n\nEvery option of bitcoind, for `bitcoin.conf`, `settings.json` and the command line, and how ffwd handles it.\n{MADE}\
         `ffwd sync --check-configuration` reports how each line of your own files is handled.\n\n\
         - Used: same name, values and meaning as in bitcoind.\n\
         - Ignored: has no effect. `sync` and `serve` accept it, and name it in a warning with the reason; `repair` does so for lines of files. Other commands refuse it on the command line, and say nothing about it in files.\n\
         - Refused: bitcoind would do something that ffwd cannot; the alternative is named.\n\n\
         \"Network section\": on a network other than mainnet a file sets it only in that network's section, such as `[signet]`.\n\
         A command uses those lines of a file that concern it, so that all commands can share the files; `ffwd help COMMAND` lists its options.\n"
    );
    for (category, title) in CATEGORIES {
        let rows: Vec<&CoreOption> =
            TABLE.iter().filter(|option| option.category == *category && !option.name.starts_with('?')).collect();
        if rows.is_empty() {
            continue;
        }
        write!(out, "\n## {title}\n\n| option | value | handling |\n|---|---|---|\n").expect("a String takes all");
        for option in rows {
            writeln!(out, "| `{}` | {} | {} |", option.name, plain(value(option)), plain(&handling(option)))
                .expect("a String takes all");
        }
    }
    write!(out, "\n## Options of ffwd only\n\nThese exist on the command line only; [Commands](commands.md) has their values.\n\n| option | about |\n|---|---|\n")
        .expect("a String takes all");
    for (name, about) in OWN {
        writeln!(out, "| `{name}` | {} |", plain(about)).expect("a String takes all");
    }
    out
}

fn value(option: &CoreOption) -> &'static str {
    match (option.line, option.kind) {
        (Some(line), _) => line.value,
        (None, Kind::Flag) => "0|1",
        (None, Kind::FlagOrText) => "0|1|TEXT",
        (None, Kind::Number) => "N",
        (None, Kind::Text) => "TEXT",
        (None, Kind::Path) => "PATH",
    }
}

/// The effect of a job in a file on commands other than a sync: see `settings`.
const ENDS_JOBS: &str = "set in a file, unless to 0, it ends serve, reindex, import and coins load with exit code 1";
/// Options that end a command if a file sets them, and what they end.
const IN_FILES: [(&str, &str); 4] = [
    ("loadblock", ENDS_JOBS),
    ("networkactive", "but networkactive=0 in a file ends sync and repair with exit code 1"),
    ("reindex", ENDS_JOBS),
    ("reindex-chainstate", ENDS_JOBS),
];

fn handling(option: &CoreOption) -> String {
    let mut text = match option.effect {
        Effect::Used => "Used".to_owned(),
        Effect::FileOnly => "Used in files only".to_owned(),
        Effect::LineOnly => "Used on the command line only".to_owned(),
        Effect::Unused(why) => format!("Ignored: {why}"),
        Effect::Instead(way) => format!("Refused on the command line, ignored in files: {way}"),
        Effect::Removed(words) => format!("Ignored, as in bitcoind: {words}"),
    };
    if let (Some(line), Effect::Used | Effect::LineOnly) = (option.line, option.effect) {
        write!(text, ". {}", line.help).expect("a String takes all");
        if line.is_hidden {
            text.push_str(" (for tests; not in --help)");
        }
    }
    let is_many = option.times == Times::Many && !text.contains("(repeatable)");
    let notes = [
        (is_many, "repeatable"),
        (option.sections == Sections::NetworksOwn, "network section"),
        (option.negation == Negation::Refused, "cannot be negated"),
    ];
    for (_, note) in notes.into_iter().filter(|(is_so, _)| *is_so) {
        write!(text, "; {note}").expect("a String takes all");
    }
    if let Some((_, note)) = IN_FILES.iter().find(|(name, _)| *name == option.name) {
        write!(text, "; {note}").expect("a String takes all");
    }
    text
}

fn exit_codes() -> String {
    let mut out = format!(
        "# Exit codes\n\nThe codes with which ffwd ends, as `ffwd help exit-codes` prints them.\n{MADE}\
         Every message that may come with code 1 or 2 is on the page [Messages](messages.md), with its remedy.\n\
         Codes and their meanings are stable: a later 0.x release may add codes, and does not change the meaning of one.\n"
    );
    for (code, lines) in exit_codes::CODES {
        write!(out, "\n## {code}\n\n").expect("a String takes all");
        for line in lines {
            writeln!(out, "- {}", plain(line)).expect("a String takes all");
        }
    }
    out.push_str(
        "\nA signal that cannot be handled, such as SIGKILL, ends the program with the shell's code for it.\n",
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Only a program with all features has all commands.
    #[test]
    #[cfg(all(
        feature = "ablation",
        feature = "audit",
        feature = "export",
        feature = "micro",
        feature = "server",
        feature = "top"
    ))]
    fn reference_pages_are_up_to_date() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        for (name, text) in pages() {
            let file = docs.join(name);
            if std::env::var_os("UPDATE_REFERENCE").is_some() {
                std::fs::write(&file, &text).unwrap();
            }
            let there = std::fs::read_to_string(&file).unwrap_or_default();
            let differs = text.lines().zip(there.lines()).find(|(new, old)| new != old);
            assert!(there == text, "docs/{name} is out of date, first at {differs:?}: {MADE}");
        }
    }

    #[test]
    fn configuration_has_every_option_of_the_table() {
        let page = configuration();
        for option in TABLE.iter().filter(|option| option.name != "?") {
            assert!(page.contains(&format!("| `{}` |", option.name)), "{}", option.name);
        }
    }

    #[test]
    fn plain_text_is_not_markup() {
        assert_eq!(plain("a <b> *c*\n  d_e | f"), "a &lt;b&gt; \\*c\\* d\\_e \\| f");
    }
}
