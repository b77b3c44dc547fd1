//! Snapshots by the command, and a half-validated data directory handed over between ffwd and bitcoind.

use crate::bitcoind::{Bitcoind, copy, core_set, is_there, set};
use crate::run::{Running, command, run, start};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};
use testkit::data;

const BASE: &str = "0c552ced4721c249a389eb9b08cb8da261cd46f0e7b5f9d064d48f3113406853";
const BASE_HASH: &str = "106b2c56233e378a824cf0d5ff2be42ed32c72f1605c9be288d00942908a40ac";
const TIP_HASH: &str = "1dfda63cd5d93ca7a4cd95a2a88154b560f84f7febc5fa402c3060f44eb2732f";
const ON: &str = "--datadir @ --chain regtest --json";
const PATIENCE: Duration = Duration::from_secs(60);

/// A data directory at the tip of Core's chain, one at height 110 of it that knows all headers, and Core's snapshot.
fn directories(dir: &Path) -> Option<()> {
    let blocks = data::load("snapshots/regtest_assumeutxo_0_399.blk.xz")?;
    let (whole, half) = (dir.join("whole"), dir.join("half"));
    let blocks_dir = whole.join("regtest/blocks");
    std::fs::create_dir_all(&blocks_dir).unwrap();
    std::fs::create_dir(&half).unwrap();
    std::fs::write(blocks_dir.join("blk00000.dat"), &blocks).unwrap();
    run(&whole, &format!("reindex {ON}")).good();
    // Without the blocks above: bitcoind looks for the undo data of a base block that lies there.
    let (server, address) = serving(dir);
    run(&half, &format!("sync {ON} --connect {address} --stopatheight 110 --exit-at-tip")).good();
    drop(server);
    std::fs::write(dir.join("snapshot"), data::load("snapshots/regtest_assumeutxo_299.dat").unwrap()).unwrap();
    Some(())
}

/// A server of the whole chain, and its address.
fn serving(dir: &Path) -> (Running, String) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let whole = dir.join("whole");
    let server = start(&whole, &format!("sync --datadir @ --chain regtest --listen {address} --connect 0"));
    let begin = Instant::now();
    while std::net::TcpStream::connect(&address).is_err() {
        assert!(begin.elapsed() < PATIENCE, "the server does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    (server, address)
}

fn is_half(directory: &Path) -> bool {
    directory.join("regtest/chainstate_snapshot").exists()
}

#[test]
fn coins_commands_write_load_and_compare() {
    let dir = tempfile::tempdir().unwrap();
    let Some(()) = directories(dir.path()) else { return };
    let whole = dir.path().join("whole");
    let dumped = run(&whole, &format!("coins dump @/../out --height 299 {ON}")).good();
    assert_eq!(dumped["txoutset_hash"], BASE_HASH, "{dumped}");
    assert_eq!(std::fs::read(dir.path().join("out")).unwrap(), std::fs::read(dir.path().join("snapshot")).unwrap());
    let again = run(&whole, &format!("coins dump @/../out {ON}"));
    assert!(again.code == Some(1) && again.err.contains("already exists"), "{again:?}");
    let info = run(&whole, "coins info @/../out --chain regtest --json").good();
    assert_eq!(
        (&info["bestblock"], &info["txouts"], &info["hash_serialized_3"]),
        (&BASE.into(), &299.into(), &BASE_HASH.into())
    );
    assert_eq!(
        info["script_types"].as_object().unwrap().values().filter_map(|one| one["coins"].as_u64()).sum::<u64>(),
        299
    );
    let other = run(&whole, "coins info @/../out --chain main");
    assert!(other.code == Some(1) && other.err.contains("a snapshot of regtest, not of main"), "{other:?}");
    let text = run(&whole, "coins info @/../out --chain regtest").out;
    assert!(text.contains("Core knows this UTXO set") && text.contains("lengths       of scripts"), "{text}");
    run(&whole, &format!("coins dump @/../tip {ON}")).good();
    let diff = run(&whole, "coins diff @/../out @/../tip").out;
    assert_eq!(diff.lines().filter(|line| line.starts_with(['+', '-'])).count(), diff.lines().count() - 1, "{diff}");
    let ran = run(&whole, "coins diff @/../out @/../tip --json");
    assert_eq!(ran.code, Some(1), "they differ: {ran:?}");
    let counts = ran.json();
    assert_eq!(counts["only_second"].as_u64().unwrap() - counts["only_first"].as_u64().unwrap(), 100, "{counts}");
    let half = dir.path().join("half");
    let loaded = run(&half, &format!("coins load @/../snapshot {ON}")).good();
    assert_eq!(
        (&loaded["coins_loaded"], &loaded["tip_hash"], &loaded["base_height"]),
        (&299.into(), &BASE.into(), &299.into())
    );
    assert!(is_half(&half));
    let info = run(&half, &format!("info {ON}")).good();
    assert_eq!((&info["snapshot_blockhash"], &info["height"]), (&BASE.into(), &299.into()));
}

#[test]
fn a_half_validated_data_directory_is_finished_by_the_other_program() {
    let dir = tempfile::tempdir().unwrap();
    if !is_there() {
        return;
    }
    let Some(()) = directories(dir.path()) else { return };
    let (server, address) = serving(dir.path());
    // Begun here, ended by bitcoind.
    let ours = dir.path().join("ours");
    copy(&dir.path().join("half"), &ours);
    run(&ours, &format!("coins load @/../snapshot {ON}")).good();
    let core = Bitcoind::start(&ours, &["-checkblockindex=1"]);
    let states = core.rpc(&["getchainstates"]);
    assert!(states.contains(BASE), "{states}");
    core.rpc(&["addnode", &address, "onetry"]);
    let begin = Instant::now();
    while core.rpc(&["getchainstates"]).contains("snapshot_blockhash") && core.rpc(&["getblockcount"]) != "399"
        || core.rpc(&["getchainstates"]).matches("\"blocks\"").count() != 1
    {
        assert!(begin.elapsed() < PATIENCE, "{}", core.rpc(&["getchainstates"]));
        std::thread::sleep(Duration::from_millis(50));
    }
    core.stop();
    let core = Bitcoind::start(&ours, &["-checkblocks=0", "-checklevel=4", "-checkblockindex=1"]);
    assert_eq!(core_set(&core)["hash_serialized_3"], TIP_HASH);
    core.stop();
    assert!(!is_half(&ours));
    assert_eq!(set(&ours)["hash_serialized_3"], TIP_HASH);
    // Begun by bitcoind, ended here.
    let theirs = dir.path().join("theirs");
    copy(&dir.path().join("half"), &theirs);
    let core = Bitcoind::start(&theirs, &[]);
    core.rpc(&["loadtxoutset", dir.path().join("snapshot").to_str().unwrap()]);
    core.stop();
    assert!(is_half(&theirs));
    let done = run(&theirs, &format!("sync {ON} --connect {address} --exit-at-tip"));
    assert!(done.code == Some(0) && done.err.contains("fully validated"), "{done:?}");
    assert!(!is_half(&theirs));
    assert_eq!(set(&theirs)["hash_serialized_3"], TIP_HASH);
    run(&theirs, &format!("verify {ON} --level 4 --blocks 0")).good();
    let core = Bitcoind::start(&theirs, &["-checkblocks=0", "-checklevel=4", "-checkblockindex=1"]);
    assert_eq!(core_set(&core)["hash_serialized_3"], TIP_HASH);
    core.stop();
    drop(server);
}

/// A mirror of one file without ranges: the whole of it each time.
fn mirror(file: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/utxo.dat", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count == 1) {
                head.push(byte[0]);
            }
            let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", file.len()).as_bytes());
            let _ = stream.write_all(&file);
        }
    });
    url
}

/// Standard input, a named pipe, a mirror, and the mirror of a list: each sync ends at the tip, its past validated.
#[test]
fn a_snapshot_comes_from_a_pipe_a_mirror_and_a_list() {
    let dir = tempfile::tempdir().unwrap();
    let Some(()) = directories(dir.path()) else { return };
    let (server, address) = serving(dir.path());
    let snapshot = std::fs::read(dir.path().join("snapshot")).unwrap();
    let url = mirror(snapshot.clone());
    let list = format!("# mine\nregtest 299 {url}\nregtest 110 http://127.0.0.1:1/none\n");
    let made = std::process::Command::new("mkfifo").arg(dir.path().join("a-pipe")).status().unwrap();
    assert!(made.success());
    for (row, from) in [("stdin", "-"), ("pipe", "@/../a-pipe"), ("mirror", &url), ("list", "auto")] {
        let folder = dir.path().join(row);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("snapshots.txt"), &list).unwrap();
        let line = format!("sync {ON} --connect {address} --exit-at-tip --snapshot {from}");
        let mut child = command(&folder, &line);
        child.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = child.stderr(std::process::Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let (bytes, pipe) = (snapshot.clone(), dir.path().join("a-pipe"));
        let writer = std::thread::spawn(move || match row {
            "stdin" => input.write_all(&bytes),
            "pipe" => std::fs::write(pipe, bytes),
            _ => Ok(()),
        });
        let done = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        writer.join().unwrap().unwrap();
        assert!(done.status.success() && said.contains("fully validated"), "{row}: {said}");
        assert!(said.contains("[snapshot] loading 299 coins"), "{row}: {said}");
        assert_eq!(set(&folder)["hash_serialized_3"], TIP_HASH, "{row}");
        let left = std::fs::read_dir(folder.join("regtest/ffwd")).unwrap().flatten();
        let left: Vec<_> = left.map(|one| one.file_name()).filter(|name| *name != "addresses").collect();
        assert!(left.iter().all(|name| !name.to_string_lossy().contains("coming")), "{row}: {left:?}");
    }
    // Another file of the same header: refused, and nothing is left of it.
    let mut wrong = snapshot.clone();
    *wrong.last_mut().unwrap() ^= 1;
    let folder = dir.path().join("wrong");
    std::fs::create_dir(&folder).unwrap();
    let line = format!("sync {ON} --connect {address} --exit-at-tip --snapshot {}", mirror(wrong));
    let refused = run(&folder, &line);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains(&format!("expected {BASE_HASH}, got ")), "{refused:?}");
    assert!(!is_half(&folder) && !folder.join("regtest/ffwd/chainstate_coming").exists());
    // A transfer whose end never came goes when the snapshot is not wanted any more.
    std::fs::create_dir(folder.join("regtest/ffwd/chainstate_coming")).unwrap();
    run(&folder, &format!("sync {ON} --connect {address} --exit-at-tip")).good();
    assert!(!folder.join("regtest/ffwd/chainstate_coming").exists());
    drop(server);
}

/// Two nodes that share the snapshot, one whose file has a false byte, and a third without a file: the tip, and the past.
#[test]
fn a_snapshot_comes_from_peers() {
    let dir = tempfile::tempdir().unwrap();
    let Some(()) = directories(dir.path()) else { return };
    let whole = dir.path().join("whole");
    let snapshot = std::fs::read(dir.path().join("snapshot")).unwrap();
    let mut wrong = snapshot.clone();
    *wrong.last_mut().unwrap() ^= 1;
    let share = |row: &str, file: Option<&[u8]>| {
        let folder = dir.path().join(row);
        copy(&whole, &folder.join("whole"));
        if let Some(file) = file {
            std::fs::create_dir(folder.join("whole/regtest/share")).unwrap();
            std::fs::write(folder.join("whole/regtest/share/utxo.dat"), file).unwrap();
        }
        serving(&folder)
    };
    let servers = [share("a", Some(&wrong)), share("b", Some(&snapshot)), share("c", None)];
    let connect: String = servers.iter().map(|(_, address)| format!(" --connect {address}")).collect();
    let folder = dir.path().join("fresh");
    std::fs::create_dir(&folder).unwrap();
    let done = run(&folder, &format!("sync {ON}{connect} --exit-at-tip --snapshot peers"));
    assert!(done.code == Some(0) && done.err.contains("fully validated"), "{done:?}");
    assert!(done.err.contains("[snapshot] loading 299 coins") && done.err.contains("Merkle root"), "{done:?}");
    assert_eq!(set(&folder)["hash_serialized_3"], TIP_HASH);
    // The false one alone: both hashes, and nothing is left.
    let folder = dir.path().join("false");
    std::fs::create_dir(&folder).unwrap();
    let alone = &servers[0].1;
    let refused = run(&folder, &format!("sync {ON} --connect {alone} --exit-at-tip --snapshot peers"));
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains(&format!("expected {BASE_HASH}, got ")), "{refused:?}");
    assert!(!is_half(&folder) && !folder.join("regtest/ffwd/chainstate_coming").exists());
}
