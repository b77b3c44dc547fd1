//! Exit codes, and the text of `ffwd help exit-codes`.

/// Success.
pub(crate) const DONE: u8 = 0;
/// A fault, or the answer "no".
pub(crate) const FAULT: u8 = 1;
/// Usage error.
pub(crate) const USAGE: u8 = 2;
/// The program was ended by Ctrl-C, as shells report it: 128 plus the number of SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;
/// The program was ended by SIGPIPE: 128 plus its number.
pub(crate) const CLOSED_PIPE: u8 = 141;

/// Each code with its meaning, one sentence a line.
pub(crate) const CODES: [(u8, &[&str]); 5] = [
    (
        DONE,
        &[
            "The command succeeded.",
            "sync --exit-at-tip: the best known chain is connected and committed, or --stopatheight is reached.",
            "A chain with a block that ffwd found to break a rule, in this run or an earlier one, does not count as a better chain.",
            "A sync without --exit-at-tip has no end of its own: stopped by Ctrl-C or SIGTERM it ends with 0.",
            "coins diff: the two files have the same coins.",
        ],
    ),
    (
        FAULT,
        &[
            "A fault of the disk, the network, a file, standard output or the configuration; standard error has what happened and what to do.",
            "sync, reindex, import: the chain ends before the best one that is known; end_reason of --json has the reason.",
            "This includes a better chain with a block marked invalid by invalidateblock or bitcoind: the mark may be wrong.",
            "verify, audit: something is not valid.",
            "coins diff: the two files differ.",
            "doctor: something is wrong with the data directory.",
            "repair: some damage remains that it cannot repair.",
        ],
    ),
    (
        USAGE,
        &[
            "Wrong use: an option or a value that this command does not accept. Nothing was changed.",
            "coins diff: a file cannot be read.",
        ],
    ),
    (
        INTERRUPTED,
        &[
            "Stopped by Ctrl-C or SIGTERM before the end.",
            "Committed blocks are kept: the same command continues from there.",
        ],
    ),
    (CLOSED_PIPE, &["coins dump -: the reader of standard output closed it before the end."]),
];

/// The text of `ffwd help exit-codes`.
pub(crate) fn text() -> String {
    let lines = CODES.into_iter().flat_map(|(code, lines)| {
        lines.iter().enumerate().map(move |(number, line)| {
            let code = if number == 0 { code.to_string() } else { String::new() };
            format!("  {code:<5}{line}")
        })
    });
    let lines: Vec<String> = lines.collect();
    format!(
        "Exit codes of ffwd:\n\n{}\n\nA signal that cannot be handled, such as SIGKILL, ends the program with the shell's code for it.",
        lines.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_line() {
        let text = text();
        for (code, lines) in CODES {
            assert!(text.contains(&format!("\n  {code:<5}{}", lines[0])), "{code} in\n{text}");
        }
    }
}
