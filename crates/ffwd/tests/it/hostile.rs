//! Hostile peers over sockets, where the whole program matters: signals, memory of the process, file descriptors.
//! What peers of each kind may do is played in `crates/p2p/src/hub/tests`, and beside Core by `interop/peers.py`.

use crate::data;
use crate::run::{run, start};
use crate::sync::serve;
use p2p::params::REGTEST;
use p2p::sim::{Chain, child, headers_on};
use p2p::wire::{FRAME_BYTES, Frame, Message, Version, frame_v1, services};
use p2p::{ChainView as _, HEADERS_COUNT_MAX};
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

fn send(stream: &mut TcpStream, message: &Message) -> io::Result<()> {
    let (command, payload) = message.encode();
    stream.write_all(&frame_v1(REGTEST.magic, command, &payload))
}

fn receive(stream: &mut TcpStream) -> io::Result<Message> {
    let mut head = [0; FRAME_BYTES];
    stream.read_exact(&mut head)?;
    let frame = Frame::parse(&head, REGTEST.magic).map_err(io::Error::other)?;
    let mut payload = vec![0; frame.payload_bytes];
    stream.read_exact(&mut payload)?;
    Message::parse(frame.command, &payload).map_err(io::Error::other)
}

fn greet(stream: &mut TcpStream) -> io::Result<()> {
    let (version, services) = (70016, services::NETWORK | services::WITNESS);
    let agent = b"/test/".to_vec();
    send(stream, &Message::Version(Version { version, services, time: 0, nonce: 7, agent, height: 0, relay: false }))?;
    send(stream, &Message::Verack)
}

/// Answers every getheaders with 2,000 headers more, for as long as it is connected to.
fn tell_headers_without_end(stream: &mut TcpStream) -> io::Result<()> {
    greet(stream)?;
    let mut at = Chain::regtest().best_header();
    loop {
        if matches!(receive(stream)?, Message::GetHeaders(..)) {
            let headers = headers_on(&at, HEADERS_COUNT_MAX, 1);
            at = headers.iter().fold(at, |parent, header| child(&parent, *header));
            send(stream, &Message::Headers(headers))?;
        }
    }
}

/// Anonymous memory of a process, in KiB.
fn anonymous_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

#[test]
fn ctrl_c_is_heeded_during_headers_without_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            // It ends when the connection does.
            let _ = tell_headers_without_end(&mut stream);
        }
    });
    let directory = tempfile::tempdir().unwrap();
    let line = format!("sync --datadir @ --chain regtest --connect 127.0.0.1:{port} --v2transport 0 --exit-at-tip");
    let mut child = start(directory.path(), &line);
    let begin = Instant::now();
    // Until some tens of thousands of headers are there, and on.
    while anonymous_kib(child.child().id()) < 40 << 10 && begin.elapsed() < Duration::from_secs(20) {
        assert!(child.goes_on());
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(500));
    let memory = anonymous_kib(child.child().id());
    let told = Instant::now();
    child.signal("INT");
    let ran = child.ended();
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert!(told.elapsed() < Duration::from_secs(10), "{:?}", told.elapsed());
    assert!(memory < 400 << 10, "250,000 headers and a program: {memory} KiB");
}

#[test]
fn idle_inbound_peers_and_few_file_descriptors_do_not_end_a_sync() {
    let Some(source) = data::real("regtest", "regtest_1_206") else { return };
    run(source.path(), "reindex --datadir @ --chain regtest --json").good();
    let (mut server, from) = serve(source.path());
    for descriptors in [64, 200] {
        let target = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let ffwd = env!("CARGO_BIN_EXE_ffwd");
        let path = target.path().to_str().unwrap();
        let line = |connect: &str, more: &str| {
            let limit = format!("--nofile={descriptors}:{descriptors}");
            let words =
                format!("{limit} {ffwd} sync --datadir {path} --chain regtest --connect {connect} --json {more}");
            let mut command = std::process::Command::new("prlimit");
            command.args(words.split_whitespace()).env("HOME", target.path());
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
            command.spawn().unwrap()
        };
        let listen = format!("--listen 127.0.0.1:{port} --exit-at-tip");
        // The peer is not there yet, so it waits; meanwhile more connect to it than there are descriptors for.
        let late = TcpListener::bind("127.0.0.1:0").unwrap();
        let child = line(&format!("127.0.0.1:{}", late.local_addr().unwrap().port()), &listen);
        let begin = Instant::now();
        let mut idle = Vec::new();
        while idle.len() < 80 && begin.elapsed() < Duration::from_secs(20) {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(stream) => idle.push(stream),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        assert_eq!(idle.len(), 80);
        // From now on it is a way to the real one.
        std::thread::spawn(move || {
            while let Ok((near, _)) = late.accept() {
                let Ok(far) = TcpStream::connect(("127.0.0.1", from)) else { return };
                for (mut from, mut to) in [(near.try_clone(), far.try_clone()), (Ok(far), Ok(near))]
                    .map(|(from, to)| (from.unwrap(), to.unwrap()))
                {
                    std::thread::spawn(move || {
                        let _ = io::copy(&mut from, &mut to);
                        let _ = to.shutdown(std::net::Shutdown::Both);
                    });
                }
            }
        });
        let output = child.wait_with_output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{descriptors} descriptors: {out}{err}");
        assert!(out.contains("\"height\":206"), "{descriptors} descriptors: {out}{err}");
        let log = std::fs::read_to_string(target.path().join("regtest/debug.log")).unwrap();
        assert!(log.contains("Reducing -maxconnections from 200 to"), "{descriptors} descriptors: {log}");
    }
    server.signal("TERM");
    assert_eq!(server.ended().code, Some(0));
}
