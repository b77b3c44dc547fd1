//! Clients that mean no good: each has its answer, and the others go on.

use crate::site::{AUTH, Site, answer};
use std::io::Write as _;
use std::time::{Duration, Instant};

#[test]
fn wrong_passwords_methods_and_paths_are_answered_as_core_does() {
    let site = Site::new(None);
    let begun = Instant::now();
    let wrong = b"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Basic Ym9iOng=\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let (status, head, _) = site.raw(wrong);
    assert!(status == 401 && head.contains("Basic realm=\"jsonrpc\"") && begun.elapsed() > Duration::from_millis(240));
    for (row, request, want) in [
        ("no password", "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", 401),
        ("another method", "PUT / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 405),
        ("another path", "POST /nosuch HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404),
        ("a page, by another name", "GET /healthz HTTP/1.1\r\nHost: rebound.example\r\nConnection: close\r\n\r\n", 403),
        ("a page", "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", 200),
        ("no HTTP", "\x16\x03\x01 hello\r\n\r\n", 400),
        ("long headers", &format!("POST / HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(1_000_000)), 431),
        ("headers above Core's bound", &format!("POST / HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(8192)), 400),
        ("a path above it", &format!("GET /{} HTTP/1.1\r\n\r\n", "y".repeat(8192)), 400),
        ("a path below it", &format!("GET /{} HTTP/1.1\r\nConnection: close\r\n\r\n", "y".repeat(8000)), 404),
        ("many lines", &format!("GET /x HTTP/1.1\r\n{}Connection: close\r\n\r\n", "a: b\r\n".repeat(400)), 404),
        ("a long body", &format!("POST / HTTP/1.1\r\nHost: x\r\n{AUTH}Content-Length: 99999999\r\n\r\n"), 413),
    ] {
        assert_eq!(site.raw(request.as_bytes()).0, want, "{row}");
    }
}

#[test]
fn bodies_that_are_no_requests_end_with_cores_codes() {
    let site = Site::new(None);
    let deep = "[".repeat(1 << 20);
    let objects = "{\"a\":".repeat(100_000);
    for (row, body, status, want) in [
        ("empty", "", 500, "-32700"),
        ("cut", "{", 500, "-32700"),
        ("deep", &deep, 500, "-32700"),
        ("deep objects", &objects, 500, "-32700"),
        ("a number", "5", 500, "Top-level object parse error"),
        ("no method", "{\"id\":1}", 400, "-32600"),
        ("no such method", "{\"method\":\"x\",\"id\":1}", 404, "-32601"),
        ("no such method, version 2", "{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"id\":1}", 200, "-32601"),
        ("a notification", "{\"jsonrpc\":\"2.0\",\"method\":\"uptime\"}", 204, ""),
        ("another version", "{\"jsonrpc\":\"3.0\",\"method\":\"uptime\"}", 400, "JSON-RPC version not supported"),
        ("no parameters", "{\"method\":\"uptime\",\"params\":5}", 400, "Params must be an array or object"),
        ("a batch", "[1,{\"method\":\"getblockcount\",\"id\":7}]", 200, "{\"result\":0,\"error\":null,\"id\":7}"),
        ("an empty batch", "[]", 200, "[]\n"),
    ] {
        let (got, _, answer) = site.post(body);
        let text = String::from_utf8(answer).unwrap();
        assert!(got == status && text.contains(want), "{row}: {got} {text}");
    }
}

/// More of them than there may be; the others are answered all the while.
#[test]
fn silent_connections_make_room_for_others() {
    let site = Site::new(None);
    let silent: Vec<_> = (0..300).map(|_| site.connect()).collect();
    for _ in 0..3 {
        assert!(site.call("getblockcount", "[]").is_ok());
    }
    drop(silent);
}

#[test]
fn slow_clients_have_their_time_and_no_more() {
    let site = Site::new(Some(Duration::from_millis(300)));
    // A byte at a time is slow, and yet in time.
    let mut slow = site.connect();
    let body = "{\"method\":\"getblockcount\",\"id\":1}";
    let request = format!(
        "POST / HTTP/1.1\r\nHost: x\r\n{AUTH}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    for byte in request.as_bytes() {
        slow.write_all(&[*byte]).unwrap();
    }
    assert_eq!(answer(slow).0, 200);
    let begun = Instant::now();
    for (row, cut) in [
        ("headers without an end", "POST / HTTP/1.1\r\nHost:"),
        ("no body", "POST / HTTP/1.1\r\nHost: x\r\n@Content-Length: 9\r\n\r\n{"),
        ("chunks without an end", "POST / HTTP/1.1\r\nHost: x\r\n@Transfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":"),
    ] {
        let mut stream = site.connect();
        stream.write_all(cut.replace('@', AUTH).as_bytes()).unwrap();
        let (status, ..) = answer(stream);
        assert!(matches!(status, 0 | 408), "{row}: {status}");
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}
