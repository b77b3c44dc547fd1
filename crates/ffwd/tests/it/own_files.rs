//! What the program writes beside the chain: debug.log, its results, the output of notification commands.

use crate::run::{command, run};
use std::fs;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::blocks::{chain, record};

/// A sync of a few blocks from a file.
const SYNC: &str = "sync --datadir @ --chain regtest --connect 0 --stopatheight 3 --exit-at-tip --from @/few.dat";

/// A directory with the file, and with an empty data directory of regtest.
fn with_blocks() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("regtest")).unwrap();
    let params = consensus::Params::new(consensus::Chain::Regtest);
    let blocks = chain(&params.genesis, 3);
    let file: Vec<u8> = blocks.iter().flat_map(|block| record(params.magic, block)).collect();
    fs::write(directory.path().join("few.dat"), file).unwrap();
    directory
}

#[test]
fn a_log_that_cannot_be_opened_is_refused() {
    let directory = with_blocks();
    fs::create_dir(directory.path().join("regtest/debug.log")).unwrap();
    for line in [SYNC.to_owned(), format!("{SYNC} -debuglogfile=@/regtest/debug.log")] {
        let ran = run(directory.path(), &line);
        assert_eq!(ran.code, Some(1), "{line}: {ran:?}");
        assert!(ran.err.contains("Could not open debug log file") && ran.err.contains("debug.log"), "{line}: {ran:?}");
    }
    let ran = run(directory.path(), &format!("{SYNC} -debuglogfile=0"));
    assert_eq!(ran.code, Some(0), "who wants no log needs no file: {ran:?}");
}

#[test]
fn a_pipe_gets_the_lines_of_the_log() {
    let directory = with_blocks();
    let pipe = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        File::open(pipe).unwrap().read_to_string(&mut text).unwrap();
        text
    });
    // A reader that waits to open the pipe is one only once the program opens it.
    let held = File::options().read(true).write(true).open(directory.path().join("pipe")).unwrap();
    let ran = run(directory.path(), &format!("{SYNC} -debuglogfile=@/pipe"));
    drop(held);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let text = reader.join().unwrap();
    assert!(text.contains("Using data directory") || text.lines().count() > 5, "{text}");
}

#[test]
fn a_result_that_cannot_be_written_is_no_success() {
    let directory = tempfile::tempdir().unwrap();
    let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    if !Path::new("/dev/full").exists() {
        println!("skipped: no /dev/full");
        return;
    }
    for line in ["params --chain regtest", "params --chain regtest --json"] {
        let done = command(directory.path(), line).stdout(full()).output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(1), "{line}: {said}");
        assert!(said.contains("standard output cannot be written: No space left"), "{line}: {said}");
    }
}

#[test]
fn notification_commands_leave_standard_output_to_the_result() {
    let directory = with_blocks();
    let mut command = command(directory.path(), &format!("{SYNC} --json"));
    let done = command.args(["-startupnotify=echo hello", "-shutdownnotify=echo bye"]).output().unwrap();
    let (out, said) = (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap());
    assert!(done.status.success() && out.starts_with('{') && out.lines().count() == 1, "{out} {said}");
    assert!(said.contains("hello") && said.contains("bye"), "{said}");
}

#[test]
fn a_cache_beyond_the_memory_is_a_warning() {
    let directory = with_blocks();
    for (line, is_named) in [("--dbcache 16777216", true), ("--dbcache 100", false)] {
        let ran = run(directory.path(), &format!("{SYNC} {line}"));
        assert_eq!(ran.code, Some(0), "{line}: {ran:?}");
        let warned = ran.err.contains("dbcache may be too large for a system memory of only");
        assert_eq!(warned, is_named, "{line}: {ran:?}");
    }
}

/// The data directory is named by a file, and the user has no home directory.
#[test]
fn a_file_with_the_data_directory_needs_no_home() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().display();
    fs::write(directory.path().join("x.conf"), format!("regtest=1\n[regtest]\ndatadir={at}\n")).unwrap();
    fs::write(directory.path().join("bitcoin_rw.conf"), "prune=550\n").unwrap();
    let ran = run(directory.path(), "sync -conf=@/x.conf --check-configuration");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let said = format!("{}{}", ran.out, ran.err);
    assert!(said.contains("bitcoin_rw.conf is a configuration of Bitcoin Knots and is not read"), "{ran:?}");
}
