//! The command `ffwd manuals`: man pages, shell completions and reference pages, generated from the options.
//!
//! ```text
//! DIR/man/ffwd.1, ffwd-sync.1, ..    DIR/completions/ffwd.bash, _ffwd (zsh), ffwd.fish    DIR/reference: pages in Markdown
//! ```

use crate::args::service;
use crate::{Failure, help, out_file, output, reference};
use clap_complete::Shell;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The shells.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// Writes the pages.
///
/// # Errors
///
/// [`Failure::Fault`] that names the directory.
pub(crate) fn run(given: &service::Manuals) -> Result<ExitCode, Failure> {
    for file in files(&given.dir) {
        out_file::check_free(&file, given.overwrite.force)?;
    }
    write(&given.dir).map_err(|why| {
        Failure::fault(format!("{}: {why}", given.dir.display()), "Name a directory that this user may write to")
    })?;
    output::print(&format!("man pages, completions and reference pages are in {}", given.dir.display()));
    Ok(ExitCode::SUCCESS)
}

/// The files that are written.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut cli = help::command();
    cli.build();
    let man = dir.join("man");
    let completions = dir.join("completions");
    let pages = cli.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help");
    let pages = pages.map(|command| man.join(format!("ffwd-{}.1", command.get_name())));
    let shells = ["ffwd.bash", "_ffwd", "ffwd.fish"].map(|name| completions.join(name));
    let reference = reference::pages().map(|(name, _)| dir.join("reference").join(name));
    pages.chain([man.join("ffwd.1")]).chain(shells).chain(reference).collect()
}

fn write(dir: &Path) -> io::Result<()> {
    let man = dir.join("man");
    let completions = dir.join("completions");
    std::fs::create_dir_all(&man)?;
    std::fs::create_dir_all(&completions)?;
    clap_mangen::generate_to(help::command(), &man)?;
    for shell in SHELLS {
        clap_complete::generate_to(shell, &mut help::command(), "ffwd", &completions)?;
    }
    let pages = dir.join("reference");
    std::fs::create_dir_all(&pages)?;
    for (name, text) in reference::pages() {
        std::fs::write(pages.join(name), text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Category, TABLE};

    #[test]
    fn every_command_has_a_page_and_every_shell_its_completions() {
        let dir = tempfile::tempdir().unwrap();
        let free = |dir: &Path| files(dir).iter().all(|file| out_file::check_free(file, false).is_ok());
        assert!(free(dir.path()));
        write(dir.path()).unwrap();
        for file in files(dir.path()) {
            assert!(out_file::check_free(&file, false).is_err(), "{}: it is written", file.display());
        }
        let read =
            |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap_or_else(|why| panic!("{name}: {why}"));
        for command in help::command().get_subcommands() {
            let page = read(&format!("man/ffwd-{}.1", command.get_name()));
            assert!(page.contains(".TH ffwd-"), "{page}");
        }
        let page = read("man/ffwd-sync.1").replace("\\-", "-");
        let shells = ["ffwd.bash", "_ffwd", "ffwd.fish"].map(|name| read(&format!("completions/{name}")));
        let shown = TABLE.iter().filter(|option| option.line.is_some_and(|line| !line.is_hidden));
        let has_server = cfg!(feature = "server");
        for option in shown.filter(|option| has_server || option.category != Category::Rpc) {
            assert!(page.contains(&format!("--{}", option.name)), "{}", option.name);
            assert!(shells.iter().all(|shell| shell.contains(option.name)), "{}", option.name);
        }
    }
}
