//! The real program on real file systems: mount points, overlayfs and a FUSE file system (bindfs), in a user namespace of their
//! own; without an fsync of directories by a library that is loaded before it; and beside another program at work.
//!
//! Where the machine has no such namespaces, or no bindfs, a test says that it skips. Every kind on the simulated disk:
//! `crates/node/tests/it/file_systems.rs`.

use crate::bitcoind::{self, Bitcoind, CHECKS, core_set};
use crate::run::{Ran, Running, command, run, start};
use serde_json::Value;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const AT: &str = "--datadir @ --chain regtest --json";
const INDEXES: &str = "--txindex --blockfilterindex --coinstatsindex --txospenderindex";
const PATIENCE: Duration = Duration::from_secs(60);

/// A chain, and what its set is.
struct Chain {
    dir: TempDir,
    height: u64,
    set: Value,
}

fn set(directory: &Path) -> Value {
    run(directory, &format!("coins info {AT}")).good()["hash_serialized_3"].clone()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    let copied = Command::new("cp").arg("-r").arg("--sparse=always").arg(from.join("regtest")).arg(to).status();
    assert!(copied.unwrap().success());
}

impl Chain {
    /// Indexed, with all indexes.
    fn new() -> Chain {
        let dir = tempfile::tempdir().unwrap();
        let made = run(dir.path(), "lab chain --out @ --blocks 2 --seed 5 --utxos 2000 --json").good();
        run(dir.path(), &format!("reindex {AT} {INDEXES}")).good();
        Chain { set: set(dir.path()), height: made["height"].as_u64().unwrap(), dir }
    }

    /// A copy below a directory of the test.
    fn copied(&self, to: PathBuf) -> PathBuf {
        copy(self.dir.path(), &to);
        to
    }

    /// The id of the coinbase of block 1.
    fn first_coinbase(&self) -> String {
        let bytes = fs::read(self.dir.path().join("regtest/blocks/blk00000.dat")).unwrap();
        let key = fs::read(self.dir.path().join("regtest/blocks/xor.dat")).unwrap();
        let plain: Vec<u8> = bytes.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key).collect();
        let end = |at: usize| at + 8 + u32::from_le_bytes(plain[at + 4..at + 8].try_into().unwrap()) as usize;
        let first = end(0);
        let mut tables = primitives::Tables::new();
        tables.parse_block(&plain[first + 8..end(first)]).unwrap().transaction(0).txid().to_string()
    }
}

/// Whether a program is there and does something.
fn can(words: &[&str]) -> bool {
    let ran = Command::new(words[0]).args(&words[1..]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    ran.is_ok_and(|status| status.success())
}

/// Whether mounts of our own can be made; says that it skips where not.
fn has_namespaces() -> bool {
    let has = can(&["unshare", "-rm", "true"]);
    if !has {
        println!("skipped: no mount namespaces for this user (unshare -rm)");
    }
    has
}

/// Runs ffwd's lines one after another in a namespace with these mounts, `@` standing for `directory`; what each left. None
/// where the mounts cannot be made.
fn within(directory: &Path, mounts: &str, lines: &[&str]) -> Option<Vec<Ran>> {
    let program = env!("CARGO_BIN_EXE_ffwd");
    let at = directory.to_str().unwrap();
    let script: String = lines
        .iter()
        .enumerate()
        .map(|(n, line)| {
            format!("{program} {} >$OUT/{n}.out 2>$OUT/{n}.err; echo $? >$OUT/{n}.code\n", line.replace('@', at))
        })
        .collect();
    let out = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &format!("( {} ) 2>/dev/null || exit 99\n{script}", mounts.replace('@', at))]);
    command.env("OUT", out.path()).env("HOME", directory).stdin(Stdio::null());
    if command.status().unwrap().code() == Some(99) {
        println!("skipped: {mounts}: cannot be made here");
        return None;
    }
    let read = |n: usize, what: &str| fs::read_to_string(out.path().join(format!("{n}.{what}"))).unwrap();
    let ran = |n: usize| Ran { code: read(n, "code").trim().parse().ok(), out: read(n, "out"), err: read(n, "err") };
    Some((0..lines.len()).map(ran).collect())
}

/// Every job that rebuilds, and all that reads, on each kind of mount.
#[test]
fn jobs_work_on_mount_points_and_overlays() {
    if !has_namespaces() {
        return;
    }
    let chain = Chain::new();
    let top = tempfile::tempdir().unwrap();
    // Each below `@`, the data directory; what lies beside it is `@.x`.
    let mounts = [
        ("the chainstate a bind mount", "cp -r @/regtest/chainstate @.x && mount --bind @.x @/regtest/chainstate"),
        (
            "the chainstate on another file system",
            "cp -r @/regtest/chainstate @.x && mount -t tmpfs none @/regtest/chainstate && cp @.x/* @/regtest/chainstate",
        ),
        ("the block index a bind mount", "cp -r @/regtest/blocks/index @.x && mount --bind @.x @/regtest/blocks/index"),
        (
            "blocks and indexes bind mounts",
            "for d in blocks indexes; do mount --bind @/regtest/$d @/regtest/$d || exit 1; done",
        ),
        ("the whole a bind mount", "mount --bind @ @"),
        ("overlayfs", "mkdir @.u @.w && mount -t overlay none -o lowerdir=@,upperdir=@.u,workdir=@.w,userxattr @"),
        ("a linked chainstate", "mv @/regtest/chainstate @.x && ln -s @.x @/regtest/chainstate"),
    ];
    for (number, (name, mount)) in mounts.into_iter().enumerate() {
        let directory = chain.copied(top.path().join(number.to_string()));
        let (info, coins) = (format!("info {AT}"), format!("coins info {AT}"));
        let verify = format!("verify --level 4 --blocks 0 {AT}");
        let (rebuild, reindex) = (format!("reindex --chainstate-only {AT}"), format!("reindex {AT}"));
        let lines = [&*rebuild, &coins, &rebuild, &reindex, &coins, &verify, &info];
        let Some(ran) = within(&directory, mount, &lines) else { continue };
        for (line, ran) in lines.iter().zip(&ran) {
            assert_eq!(ran.code, Some(0), "{name}, {line}: {ran:?}");
        }
        for at in [1, 4] {
            assert_eq!(ran[at].json()["hash_serialized_3"], chain.set, "{name}");
        }
        assert_eq!(ran[6].json()["height"], chain.height, "{name}");
        // Outside of the namespace it is still a sound directory, if perhaps the one from before.
        if !name.contains("another file system") {
            assert_eq!(set(&directory), chain.set, "{name}");
        }
    }
}

/// `chainstate/` on a file system that has no room for the new coins beside the old ones.
#[test]
fn a_mount_without_room_is_refused_before_the_work() {
    if !has_namespaces() {
        return;
    }
    let chain = Chain::new();
    let top = tempfile::tempdir().unwrap();
    let directory = chain.copied(top.path().join("full"));
    let mount = "cp -r @/regtest/chainstate @.x && mount -t tmpfs -o size=16m none @/regtest/chainstate && cp @.x/* @/regtest/chainstate";
    let (rebuild, coins) = (format!("reindex --chainstate-only {AT}"), format!("coins info {AT}"));
    let Some(ran) = within(&directory, mount, &[&rebuild, &coins]) else { return };
    assert_eq!(ran[0].code, Some(1), "{:?}", ran[0]);
    assert!(ran[0].err.contains("mount point") && ran[0].err.contains("Nothing was changed"), "{}", ran[0].err);
    assert!(!directory.join("regtest/ffwd/chainstate/CURRENT").exists());
    assert_eq!(ran[1].good()["hash_serialized_3"], chain.set);
}

#[test]
fn looking_works_on_a_read_only_directory() {
    if !has_namespaces() {
        return;
    }
    let chain = Chain::new();
    let top = tempfile::tempdir().unwrap();
    let directory = chain.copied(top.path().join("read-only"));
    let before = names(&directory);
    let txid = chain.first_coinbase();
    let lines = [
        format!("info {AT}"),
        format!("verify --level 4 --blocks 0 {AT}"),
        format!("coins info {AT}"),
        format!("coins info --height 5 {AT}"),
        format!("tx {txid} {AT}"),
        format!("filter 5 {AT}"),
        format!("spender {txid}:0 {AT}"),
        format!("coins dump @.dump {AT}"),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let Some(ran) = within(&directory, "mount --bind @ @ && mount -o remount,bind,ro @", &lines) else { return };
    for (line, ran) in lines.iter().zip(&ran) {
        assert_eq!(ran.code, Some(0), "{line}: {ran:?}");
    }
    assert_eq!(ran[0].json()["height"], chain.height);
    assert_eq!(ran[2].json()["hash_serialized_3"], chain.set);
    assert_eq!(names(&directory), before);
    // What writes says what is wrong, and that at once.
    let Some(ran) = within(&directory, "mount --bind @ @ && mount -o remount,bind,ro @", &[&format!("reindex {AT}")])
    else {
        return;
    };
    assert!(ran[0].code == Some(1) && ran[0].err.contains("a mount that is not read-only"), "{:?}", ran[0]);
}

/// User id of `nobody`.
const NOBODY: u32 = 65_534;

/// Another user than the owner, as the one that an explorer runs as.
#[test]
fn looking_works_for_a_user_who_may_only_read() {
    let chain = Chain::new();
    let top = tempfile::tempdir().unwrap();
    let directory = chain.copied(top.path().join("of-another"));
    for path in [top.path(), &directory] {
        assert!(can(&["chmod", "-R", "go=rX", &path.to_string_lossy()]));
    }
    let txid = chain.first_coinbase();
    let before = names(&directory);
    for line in [
        "info",
        "verify --level 4 --blocks 0",
        "coins info",
        &format!("tx {txid}"),
        "filter 5",
        &format!("spender {txid}:0"),
    ] {
        let mut command = command(&directory, &format!("{line} {AT}"));
        // Whoever runs the tests as another user than root owns the files: then the modes alone are tested.
        if fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
            std::os::unix::process::CommandExt::uid(&mut command, NOBODY);
        }
        let output = match command.output() {
            Ok(output) => output,
            Err(why) => return println!("skipped: the user nobody cannot run the command here ({why})"),
        };
        assert_eq!(output.status.code(), Some(0), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(names(&directory), before);
}

/// All paths below a directory.
fn names(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(names(&path));
        }
        found.push(path);
    }
    found.sort();
    found
}

/// A mount of bindfs, undone when dropped.
struct Fuse(PathBuf);

impl Drop for Fuse {
    fn drop(&mut self) {
        let _ = Command::new("fusermount3").arg("-uz").arg(&self.0).status();
    }
}

/// On FUSE a file that is removed while it is open stays as `.fuse_hidden`, and names cannot be swapped.
#[test]
fn jobs_work_on_fuse() {
    let chain = Chain::new();
    let top = tempfile::tempdir().unwrap();
    let (below, mounted) = (chain.copied(top.path().join("below")), top.path().join("mounted"));
    fs::create_dir(&mounted).unwrap();
    let words = [&*below.to_string_lossy(), &*mounted.to_string_lossy()];
    if !can(&["bindfs", "--no-allow-other", words[0], words[1]]) {
        println!("skipped: bindfs cannot be mounted here");
        return;
    }
    let _fuse = Fuse(mounted.clone());
    let port = free_port();
    let serving = chain.copied(top.path().join("serving"));
    let _server = listening(&serving, port);
    for line in [
        "reindex --chainstate-only".to_owned(),
        "reindex --chainstate-only".to_owned(),
        format!("reindex {INDEXES}"),
        "verify --level 4 --blocks 0".to_owned(),
        format!("sync --connect 127.0.0.1:{port} --exit-at-tip"),
    ] {
        run(&mounted, &format!("{line} {AT}")).good();
        assert_eq!(set(&mounted), chain.set, "{line}");
        let left: Vec<PathBuf> = names(&below)
            .into_iter()
            .filter(|path| ["install", ".old", "fuse_hidden"].iter().any(|word| path.to_string_lossy().contains(word)))
            .collect();
        assert_eq!(left, Vec::<PathBuf>::new(), "{line}");
        assert!(!below.join("regtest/ffwd/chainstate").exists(), "{line}");
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A sync that serves its blocks to peers, once it listens.
fn listening(directory: &Path, port: u16) -> Running {
    let line = format!("sync --datadir @ --chain regtest --connect 0 --listen 127.0.0.1:{port}");
    let (server, begin) = (start(directory, &line), Instant::now());
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begin.elapsed() < PATIENCE, "it listens");
        std::thread::sleep(Duration::from_millis(20));
    }
    server
}

/// fsync of a directory is EINVAL, as on some CIFS; of a file it is done.
const WITHOUT_FSYNC: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/stat.h>
static int is_directory(int fd) {
    struct stat s;
    if (fstat(fd, &s) || !S_ISDIR(s.st_mode)) return 0;
    errno = EINVAL;
    return 1;
}
int fsync(int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    return is_directory(fd) ? -1 : real(fd);
}
"#;

#[test]
fn directories_that_cannot_be_fsynced_cost_one_warning() {
    let chain = Chain::new();
    let top = tempfile::tempdir().unwrap();
    let (source, library) = (top.path().join("without.c"), top.path().join("without.so"));
    fs::write(&source, WITHOUT_FSYNC).unwrap();
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl").status();
    assert!(compiled.is_ok_and(|status| status.success()), "a C compiler is a requirement of ffwd");
    let directory = chain.copied(top.path().join("directory"));
    for line in ["reindex --chainstate-only", "reindex", "verify --level 4 --blocks 0"] {
        let output = command(&directory, &format!("{line} {AT}")).env("LD_PRELOAD", &library).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{line}: {said}");
        let warnings = said.lines().filter(|text| text.contains("fsync")).count();
        assert_eq!(warnings, usize::from(!line.starts_with("verify")), "{line}: {said}");
        assert_eq!(set(&directory), chain.set, "{line}");
    }
}

/// `info` shows what is committed; the others say how to ask the program.
#[test]
fn beside_a_program_at_work_it_is_said_how_to_ask_it() {
    let chain = Chain::new();
    let top = tempfile::tempdir().unwrap();
    let directory = chain.copied(top.path().join("in-use"));
    let (port, txid) = (free_port(), chain.first_coinbase());
    let mut server = listening(&directory, port);
    let pid = server.child().id();
    let info = run(&directory, &format!("info {AT}")).good();
    assert_eq!((&info["height"], &info["in_use"]["pid"]), (&chain.height.into(), &pid.into()), "{info}");
    let text = run(&directory, "info --datadir @ --chain regtest").out;
    assert!(
        text.contains(&format!("in use       by ffwd (process {pid})")) && text.contains("getblockchaininfo"),
        "{text}"
    );
    for (line, question) in [
        ("coins info".to_owned(), "gettxoutsetinfo".to_owned()),
        ("coins info --height 5".to_owned(), "gettxoutsetinfo muhash".to_owned()),
        ("verify".to_owned(), "verifychain".to_owned()),
        (format!("tx {txid}"), format!("getrawtransaction {txid} 2")),
        ("filter 5".to_owned(), "getblockfilter $(bitcoin-cli getblockhash 5)".to_owned()),
        (format!("spender {txid}:0"), format!("gettxspendingprevout '[{{\"txid\":\"{txid}\",\"vout\":0}}]'")),
    ] {
        let ran = run(&directory, &format!("{line} {AT}"));
        assert_eq!(ran.code, Some(1), "{line}: {ran:?}");
        let words =
            [format!("ffwd (process {pid})"), format!("bitcoin-cli -datadir={}", directory.display()), question];
        assert!(words.iter().all(|word| ran.err.contains(word)), "{line}: {words:?}: {}", ran.err);
    }
    server.signal("INT");
    assert_eq!(server.ended().code, Some(0));
    assert_eq!(set(&directory), chain.set);
    assert!(run(&directory, &format!("info {AT}")).good().get("in_use").is_none());
}

/// Where the directories cannot be swapped the tables are moved, under other numbers: LevelDB's to read all the same.
#[test]
fn bitcoind_opens_coins_that_were_put_into_place_file_by_file() {
    if !bitcoind::is_there() {
        return;
    }
    let chain = Chain::new();
    let top = tempfile::tempdir().unwrap();
    let (directory, elsewhere) = (chain.copied(top.path().join("linked")), top.path().join("elsewhere"));
    fs::rename(directory.join("regtest/chainstate"), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, directory.join("regtest/chainstate")).unwrap();
    let before = bitcoind::tables(&elsewhere);
    run(&directory, &format!("reindex --chainstate-only {AT}")).good();
    let after = bitcoind::tables(&elsewhere);
    assert!(after.iter().all(|name| !before.contains(name)), "{before:?} {after:?}");
    let core = Bitcoind::start(&directory, CHECKS);
    assert_eq!(core_set(&core)["hash_serialized_3"], chain.set);
    // What ffwd sees beside it.
    let info = run(&directory, &format!("info {AT}")).good();
    assert_eq!(info["height"], chain.height, "{info}");
    assert!(
        info["in_use"]["program"].as_str().is_some_and(|program| program.starts_with("bitcoind (process ")),
        "{info}"
    );
    let ran = run(&directory, &format!("verify {AT}"));
    assert!(ran.code == Some(1) && ran.err.contains("verifychain"), "{ran:?}");
    core.generate(3);
    core.stop();
    // Its blocks went into the same tables.
    run(&directory, &format!("verify --level 4 --blocks 0 {AT}")).good();
    run(&directory, &format!("reindex --chainstate-only {AT}")).good();
    let core = Bitcoind::start(&directory, CHECKS);
    assert_eq!(core_set(&core)["height"], chain.height + 3);
    core.stop();
}

#[test]
fn a_sync_begins_with_a_forecast_of_disk_space() {
    let directory = tempfile::tempdir().unwrap();
    let info = run(directory.path(), "info --datadir @ --json").good();
    let space = &info["disk_space"];
    assert_eq!(
        (space["expected_bytes"].as_u64(), &space["missing_bytes"]),
        (Some(870 << 30), &space["expected_bytes"])
    );
    assert!(space["free_bytes"].as_u64().is_some_and(|free| free > 0), "{info}");
    let text = run(directory.path(), "info --datadir @").out;
    assert!(
        text.contains("disk space   the chain of main takes about 919 GB of blocks and 15.0 GB of coins"),
        "{text}"
    );
    let regtest = run(directory.path(), "info --datadir @ --chain regtest --json").good();
    assert!(regtest.get("disk_space").is_none(), "no figures: {regtest}");
    fs::write(directory.path().join("bitcoin.conf"), "prune=600\n").unwrap();
    let pruned = run(directory.path(), "info --datadir @ --json").good();
    assert_eq!(pruned["disk_space"]["expected_bytes"].as_u64(), Some((600 << 20) + (14 << 30)), "{pruned}");
    fs::remove_file(directory.path().join("bitcoin.conf")).unwrap();

    let mut syncing = start(directory.path(), "sync --datadir @ --connect 0 --prune 600");
    std::thread::sleep(Duration::from_secs(2));
    syncing.signal("INT");
    let said = syncing.ended();
    let line =
        said.err.lines().position(|line| line.contains("Disk space: the chain of main, pruned, takes about 629 MB"));
    assert!(line.is_some_and(|line| line < 3), "{said:?}");
    // Where it does not fit, Core's words; nobody's test machine has room for 900 GB less what it needs.
    let mut syncing = start(directory.path(), "sync --datadir @ --connect 0");
    std::thread::sleep(Duration::from_secs(2));
    syncing.signal("INT");
    let said = syncing.ended();
    let fits = space["free_bytes"].as_u64().unwrap() > 934_200_000_000;
    let warned = said
        .err
        .contains("may not accommodate the block files. Approximately 856 GB of data will be stored in this directory");
    assert!(said.err.contains("about 919 GB of blocks") && (warned || fits), "{said:?}");
}
