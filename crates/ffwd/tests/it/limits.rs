//! The real program with few threads and little memory: exit code 1 and a message that names the limit, or success.

use crate::data;
use crate::run::Ran;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::Command;

/// User id of `nobody`: limits of processes do not hold for root.
const NOBODY: u32 = 65_534;

/// Runs the command under a limit of `prlimit`, as `uid` where that is given.
fn limited(directory: &Path, limit: &str, uid: Option<u32>, line: &str) -> Result<Ran, std::io::Error> {
    let mut command = Command::new("prlimit");
    let line = line.replace('@', directory.to_str().unwrap());
    command.args([limit, env!("CARGO_BIN_EXE_ffwd")]).args(line.split_whitespace());
    command.env("HOME", directory).current_dir("/");
    if let Some(uid) = uid {
        command.uid(uid);
    }
    let output = command.output()?;
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let ran = Ran { code: output.status.code(), out, err };
    assert_eq!(output.status.signal(), None, "{limit}: {line}: {ran:?}");
    assert!(!ran.err.contains("panicked"), "{limit}: {line}: {ran:?}");
    Ok(ran)
}

#[test]
fn few_threads_exit_with_1_and_name_the_limit() {
    let Some(directory) = data::real("regtest", "regtest_1_206") else { return };
    let open = std::fs::Permissions::from_mode(0o777);
    for path in ["", "regtest", "regtest/blocks"] {
        std::fs::set_permissions(directory.path().join(path), open.clone()).unwrap();
    }
    for line in [
        "reindex --datadir @ --chain regtest",
        "sync --datadir @ --chain regtest --connect 127.0.0.1:1",
        "info --datadir @ --chain regtest",
    ] {
        for processes in 2..9 {
            let ran = match limited(directory.path(), &format!("--nproc={processes}"), Some(NOBODY), line) {
                Ok(ran) => ran,
                Err(why) => return println!("skipped: the user nobody cannot run the command here ({why})"),
            };
            if ran.err.contains("Permission denied") {
                return println!("skipped: the user nobody may not read the command here");
            }
            assert_eq!(ran.code, Some(1), "{line}, {processes}: {ran:?}");
            let want = format!("(ulimit -u, RLIMIT_NPROC) is {processes}");
            assert!(ran.err.contains(&want), "{line}: {want} in {ran:?}");
        }
    }
}

/// Bytes of address space that the kernel maps for the program's file: the end of its last `PT_LOAD` segment. Below this
/// limit the kernel ends the program before its first instruction. `None` for what is no little-endian ELF-64 file.
fn image_size(program: &Path) -> Option<u64> {
    let file = std::fs::read(program).unwrap();
    let number =
        |at: usize, bytes: usize| file[at..at + bytes].iter().rev().fold(0, |n, &byte| n << 8 | u64::from(byte));
    if file[..6] != *b"\x7fELF\x02\x01" {
        return None;
    }
    let (headers, each, count) = (number(32, 8) as usize, number(54, 2) as usize, number(56, 2) as usize);
    let ends = (0..count).map(|i| headers + i * each).filter(|&at| number(at, 4) == 1);
    ends.map(|at| number(at + 16, 8) + number(at + 40, 8)).max()
}

#[test]
fn little_memory_exits_with_1_and_names_the_limit() {
    let Some(directory) = data::real("regtest", "regtest_1_206") else { return };
    let Some(image) = image_size(Path::new(env!("CARGO_BIN_EXE_ffwd"))) else {
        return println!("skipped: the program is no little-endian ELF-64 file");
    };
    let mut reached = 0;
    // From too little for the program's first allocation to enough: KiB beyond the program's own file.
    for beyond in [1, 4, 8, 16, 32, 64, 96, 160, 224, 288, 352, 416, 480, 608, 736, 992, 1504].map(|mib| mib << 10) {
        let line = "reindex --datadir @ --chain regtest --par 2 --dbcache 100 --json";
        let kib = (image >> 10) + beyond;
        let ran = limited(directory.path(), &format!("--as={}", kib << 10), None, line).unwrap();
        match ran.code {
            Some(0) => reached += 1,
            Some(1) => assert!(ran.err.contains("ulimit -v"), "{kib} KiB: {ran:?}"),
            // The loader of the system ends a program that it cannot map.
            Some(127) => assert!(ran.err.contains("shared lib") || ran.err.contains("map"), "{kib} KiB: {ran:?}"),
            _ => panic!("{kib} KiB: {ran:?}"),
        }
    }
    assert!(reached > 0, "1.5 GiB are enough");
}
