//! Clients that mean no good: each has its answer, and the others go on.

use crate::site::{AUTH, Site, answer};
use server::settings::{Settings, Subnet};
use std::collections::VecDeque;
use std::io::Write as _;
use std::net::{IpAddr, TcpStream, UdpSocket};
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
    let mut silent = VecDeque::new();
    let start = Instant::now();
    for number in 0..1_000 {
        // Those that the server has closed by now: this process may have few file descriptors.
        if silent.len() == 400 {
            silent.pop_front();
        }
        silent.push_back(site.connect());
        if number % 100 == 99 {
            assert!(site.call("getblockcount", "[]").is_ok(), "beside {number} silent ones");
        }
    }
    // 16 slots, each for 50 ms: 3 s in all.
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
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

/// Bytes that are no text, and numbers that fit nothing.
#[test]
fn values_out_of_range_end_with_cores_codes() {
    let site = Site::new(None);
    let call = |params: &str| format!("{{\"method\":\"getblockhash\",\"params\":{params},\"id\":1}}").into_bytes();
    let integer = "\"code\":-1,\"message\":\"JSON integer out of range\"";
    for (row, body, want) in [
        ("no UTF-8 in a name", b"{\"method\":\"\xff\"}".to_vec(), "-32700"),
        ("a cut character", b"{\"method\":\"\xe2\x82\"}".to_vec(), "-32700"),
        ("half a pair of surrogates", b"{\"method\":\"\\ud800\"}".to_vec(), "-32700"),
        ("a byte of zero", b"{\"method\":\"a\0\"}".to_vec(), "-32700"),
        ("below all heights", call("[-1]"), "\"code\":-8,\"message\":\"Block height out of range\""),
        ("above all heights", call("[2147483647]"), "\"code\":-8,\"message\":\"Block height out of range\""),
        ("beyond 32 bits", call("[2147483648]"), integer),
        ("beyond 64 bits", call("[18446744073709551616]"), integer),
        ("beyond all doubles", call("[1e400]"), integer),
        ("a fraction that is none", call("[1.0]"), integer),
        ("a negative zero with a fraction", call("[-0.0]"), integer),
        ("an exponent", call("[1e0]"), integer),
        ("many digits", call(&format!("[{}]", "9".repeat(100_000))), integer),
        ("a fraction", call("[0.5]"), integer),
        ("not a number", call("[NaN]"), "-32700"),
    ] {
        let (status, _, answer) = site.post(body);
        let text = String::from_utf8(answer).unwrap();
        assert!(status == 500 && text.contains(want), "{row}: {status} {text}");
    }
    let header =
        [&b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Basic \xff\xfe\r\n\r\n"[..]].concat();
    assert_eq!(site.raw(&header).0, 401, "a password that is no text");
}

/// A body of 64 MB, said to be that long or not: it is not read, or not to its end.
#[test]
fn long_bodies_are_refused_before_they_are_in_memory() {
    const CHUNK: usize = 1 << 20;
    let site = Site::new(None);
    let head = |auth: &str, length: &str| format!("POST / HTTP/1.1\r\nHost: x\r\n{auth}{length}\r\n\r\n").into_bytes();
    let mut chunk = format!("{CHUNK:x}\r\n").into_bytes();
    chunk.extend(vec![b' '; CHUNK]);
    chunk.extend(b"\r\n");
    let chunked = "Transfer-Encoding: chunked";
    for (row, head, want) in [
        ("chunks without an end", head(AUTH, chunked), 413),
        ("chunks, no password", head("", chunked), 401),
        ("its length, no password", head("", "Content-Length: 67108864"), 401),
    ] {
        let mut stream = site.connect();
        stream.write_all(&head).unwrap();
        // The server answers, and closes, before it has read all.
        let sent = (0..64).take_while(|_| stream.write_all(&chunk).is_ok()).count();
        let (status, ..) = answer(stream);
        assert_eq!(status, want, "{row}, after {sent} MiB");
    }
    let many = format!("[{}1]", "1,".repeat(1_100_000));
    let (status, _, text) = site.post(many);
    assert!(status == 500 && text.windows(6).any(|six| six == b"-32700"), "more values than a body may have");
    assert!(site.call("getblockcount", "[]").is_ok());
}

/// The address of this machine by which others know it; none without a network.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: the system chooses the address that it would send from.
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|own| !own.is_loopback() && !own.is_unspecified())
}

#[test]
fn machines_that_are_not_allowed_hear_nothing() {
    let Some(own) = own_address() else {
        eprintln!("no address but loopback: skipped");
        return;
    };
    let health = |auth: &str| format!("GET /healthz HTTP/1.1\r\nHost: x\r\n{auth}Connection: close\r\n\r\n");
    let call = format!("POST / HTTP/1.1\r\nHost: x\r\n{AUTH}Connection: close\r\nContent-Length: 2\r\n\r\n[]");
    for (row, allow, request, want) in [
        ("not allowed", None, &call, 0),
        ("its page neither", None, &health(AUTH), 0),
        ("allowed", Some(own), &call, 200),
        ("allowed: a page with the password", Some(own), &health(AUTH), 200),
        ("allowed: a page without", Some(own), &health(""), 401),
    ] {
        let allow = allow.into_iter().map(|address| Subnet::parse(&address.to_string()).unwrap()).collect();
        let site = Site::with(Settings { bind: vec!["0.0.0.0:0".parse().unwrap()], allow, ..Settings::default() });
        let mut stream = TcpStream::connect((own, site.at.port())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        // It may be closed by then.
        let _ = stream.write_all(request.as_bytes());
        assert_eq!(answer(stream).0, want, "{row}");
    }
}

/// Who scrapes while the server ends has a whole answer or none, and holds it up no longer than others do.
#[test]
fn scrapes_while_it_stops_are_answered_or_closed() {
    let site = Site::new(None);
    let at = site.at;
    let scrapers: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(move || {
                let mut whole = 0;
                while let Ok(mut stream) = TcpStream::connect(at) {
                    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
                    let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
                    let (status, head, body) = answer(stream);
                    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                    let is_whole = length.is_some_and(|length| length.parse() == Ok(body.len()));
                    assert!(status == 0 && body.is_empty() || status == 200 && is_whole, "{status} {head}");
                    whole += u32::from(status == 200);
                }
                whole
            })
        })
        .collect();
    // One that was answered and waits, and a page whose events go on.
    let mut idle = site.connect();
    idle.write_all(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let begun = Instant::now();
    drop(site);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let whole: u32 = scrapers.into_iter().map(|scraper| scraper.join().unwrap()).sum();
    assert!(whole > 0 && answer(idle).1.contains("text/event-stream"));
}

/// Uploads that never end: of REST, which asks for no password, and of callers with the right one.
#[test]
fn idle_uploads_hold_nobody_up() {
    let site = Site::with(Settings { rest: true, ..Settings::default() });
    let upload = |path: &str, auth: &str, length: u32| {
        let mut stream = site.connect();
        let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\n{auth}Content-Length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    assert_eq!(answer(upload("/rest/getutxos.bin", "", 20_000_000)).0, 413, "no request of REST is that long");
    // More of them than there are slots; half are short.
    let idle: Vec<TcpStream> =
        (0..64).map(|number| upload("/rest/getutxos.bin", "", if number % 2 == 0 { 1_000_000 } else { 100 })).collect();
    let long = format!("{{\"method\":\"submitblock\",\"params\":[\"{}\"],\"id\":1}}", "00".repeat(700_000));
    let begun = Instant::now();
    assert_eq!(site.post(&long).0, 200, "submitblock of zeros");
    assert!(begun.elapsed() < Duration::from_secs(3), "beside REST's: {:?}", begun.elapsed());
    drop(idle);
    let idle: Vec<TcpStream> = (0..2).map(|_| upload("/", AUTH, 20_000_000)).collect();
    let begun = Instant::now();
    assert_eq!(site.post(&long).0, 200, "submitblock of zeros");
    assert!(begun.elapsed() < Duration::from_secs(8), "beside callers' own: {:?}", begun.elapsed());
    let statuses: Vec<u16> = idle.into_iter().map(hung_up).collect();
    assert!(statuses.contains(&408), "the slowest lost its place: {statuses:?}");
}

/// The status that a connection was closed with; 0 where it is open still.
fn hung_up(stream: TcpStream) -> u16 {
    stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    answer(stream).0
}

/// More sockets with wrong passwords than there are places: the right password is answered within seconds.
#[test]
fn wrong_passwords_shut_nobody_out() {
    let site = Site::new(None);
    let over = std::sync::atomic::AtomicBool::new(false);
    let wrong = b"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Basic eDp5\r\nContent-Length: 2\r\n\r\n{}";
    std::thread::scope(|scope| {
        for _ in 0..140 {
            scope.spawn(|| {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    let Ok(mut stream) = TcpStream::connect(site.at) else { continue };
                    stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
                    let mut buffer = [0; 1024];
                    while stream.write_all(wrong).is_ok() && !over.load(std::sync::atomic::Ordering::Relaxed) {
                        if !matches!(std::io::Read::read(&mut stream, &mut buffer), Ok(1..)) {
                            break;
                        }
                    }
                }
            });
        }
        std::thread::sleep(Duration::from_millis(500));
        let tried = (0..5).filter(|_| {
            let begun = Instant::now();
            site.call("getblockcount", "[]").is_ok() && begun.elapsed() < Duration::from_secs(5)
        });
        let good = tried.count();
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(good, 5);
    });
}

/// What names peers and has lines of the log is for the user of the program, without a password, and for no other one.
#[test]
#[cfg(target_os = "linux")]
fn page_and_events_are_for_the_user_of_the_program() {
    use std::os::unix::process::CommandExt as _;
    let site = Site::new(None);
    let get = |path: &str, auth: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/html\r\n{auth}Connection: close\r\n\r\n")
    };
    let status = |request: &str| {
        let mut stream = site.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut line = [0; 12];
        std::io::Read::read_exact(&mut stream, &mut line).unwrap();
        String::from_utf8_lossy(&line[9..]).into_owned()
    };
    for path in ["/", "/events", "/metrics", "/healthz", "/readyz"] {
        assert_eq!(status(&get(path, "")), "200", "{path}, the same user");
    }
    assert_eq!(status(&get("/events", AUTH)), "200", "with the password");
    assert_eq!(status(&get("/events", "Authorization: Basic Ym9iOng=\r\n")), "401", "with a wrong one");
    for path in ["/", "/events", "/metrics"] {
        let head = headers(&site, &get(path, "")).to_lowercase();
        assert!(head.contains("x-content-type-options: nosniff"), "{path}: {head}");
        assert!(head.contains("cross-origin-resource-policy: same-origin"), "{path}: {head}");
    }
    // Another user, by a program that has a socket and needs no rights: only root may start one.
    let other = |path: &str, auth: &str| {
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{}; printf '%s' \"$0\" >&3; head -c 12 <&3", site.at.port());
        let mut command = std::process::Command::new("bash");
        command.arg("-c").arg(script).arg(get(path, auth)).uid(65_534).gid(65_534).current_dir("/");
        command.output().ok().map(|out| String::from_utf8_lossy(&out.stdout).into_owned())
    };
    let Some(health) = other("/healthz", "").filter(|health| health.ends_with("200")) else {
        eprintln!("not root, or no bash: what another user sees is skipped");
        return;
    };
    assert_eq!(health, "HTTP/1.1 200");
    for (path, auth, want) in
        [("/", "", "401"), ("/events", "", "401"), ("/events", AUTH, "200"), ("/metrics", "", "200")]
    {
        assert_eq!(other(path, auth).as_deref(), Some(&*format!("HTTP/1.1 {want}")), "{path}, another user");
    }
}

/// A user who may not call getpeerinfo does not see the peers on the page either.
#[test]
fn whitelist_without_getpeerinfo_excludes_the_page() {
    for (calls, want) in [("getblockcount", 403), ("getblockcount,getpeerinfo", 200)] {
        let whitelist = vec![format!("bob:{calls}")];
        let site = Site::with(Settings { whitelist, ..Settings::default() });
        let get = |path: &str| {
            format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/html\r\n{AUTH}Connection: close\r\n\r\n")
        };
        assert_eq!(site.raw(get("/").as_bytes()).0, want, "{calls}: the page");
        let mut events = site.connect();
        events.write_all(get("/events").as_bytes()).unwrap();
        assert_eq!(next_status(&mut events), want.to_string(), "{calls}: its events");
        assert_eq!(site.raw(get("/metrics").as_bytes()).0, 200, "{calls}: the metrics name no peer");
    }
}

/// A browser that knows the password sends it with a form of any site: the call must not run.
#[test]
fn forms_of_other_sites_make_no_calls() {
    let site = Site::new(None);
    let call = "{\"method\":\"getblockcount\"}";
    for (row, headers, want) in [
        ("a form", "Origin: http://evil.example\r\nSec-Fetch-Site: cross-site\r\n", 403),
        ("a form, from an older browser", "Origin: http://evil.example\r\n", 403),
        ("a form in a sandbox", "Origin: null\r\n", 403),
        ("a page of this server", "Origin: http://127.0.0.1:8332\r\nSec-Fetch-Site: same-origin\r\n", 200),
        ("the same, from an older browser", "Origin: http://127.0.0.1:8332\r\n", 200),
        ("no browser", "", 200),
    ] {
        let length = call.len();
        let head = format!("POST / HTTP/1.1\r\nHost: 127.0.0.1:8332\r\n{AUTH}Content-Type: text/plain\r\n{headers}");
        let request = format!("{head}Connection: close\r\nContent-Length: {length}\r\n\r\n{call}");
        assert_eq!(site.raw(request.as_bytes()).0, want, "{row}");
    }
}

/// The headers of an answer that does not end.
#[cfg(target_os = "linux")]
fn headers(site: &Site, request: &str) -> String {
    let mut stream = site.connect();
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        std::io::Read::read_exact(&mut stream, &mut byte).unwrap();
        bytes.push(byte[0]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The status of the next answer on a connection that stays open, whose body is read.
fn next_status(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        match std::io::Read::read(stream, &mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return "closed".to_owned(),
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.and_then(|length| length.parse().ok()).unwrap_or(0)];
    std::io::Read::read_exact(stream, &mut body).unwrap();
    head.get(9..12).unwrap_or_default().to_owned()
}

/// A call on a connection that stays open: the status, or that it was closed.
fn call_again(stream: &mut TcpStream) -> String {
    let call =
        format!("POST / HTTP/1.1\r\nHost: x\r\n{AUTH}Content-Length: 26\r\n\r\n{{\"method\":\"getblockcount\"}}");
    match stream.write_all(call.as_bytes()) {
        Ok(()) => next_status(stream),
        Err(_) => "closed".to_owned(),
    }
}

/// More pages than slots: calls are answered, and the page after the last is refused.
#[test]
fn open_pages_leave_slots_for_calls() {
    let site = Site::new(None);
    let open = || {
        let mut page = site.connect();
        page.write_all(format!("GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n{AUTH}\r\n").as_bytes()).unwrap();
        let status = next_status(&mut page);
        (page, status)
    };
    let mut pages: Vec<_> = (0..24).map(|_| open()).collect();
    assert!(pages.iter().all(|(_, status)| status == "200"));
    assert_eq!(open().1, "503", "too many pages");
    let begun = Instant::now();
    assert!(site.call("getblockcount", "[]").is_ok() && begun.elapsed() < Duration::from_secs(2));
    drop(pages.pop());
    let end = Instant::now() + Duration::from_secs(10);
    while open().1 != "200" {
        assert!(Instant::now() < end, "the place of a closed page is free");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// More clients than slots, each with a connection that it keeps: none of them loses a request, whatever else connects.
#[test]
fn clients_that_keep_their_connections_lose_no_request() {
    let site = Site::new(None);
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let crowd = scope.spawn(|| {
            let mut silent = VecDeque::new();
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                silent.push_back(TcpStream::connect(site.at));
                if silent.len() == 100 {
                    silent.pop_front();
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let client = || {
            let mut stream = site.connect();
            let mut statuses = Vec::new();
            for _ in 0..6 {
                statuses.push(call_again(&mut stream));
                std::thread::sleep(Duration::from_millis(400));
            }
            statuses
        };
        let clients: Vec<_> = (0..20).map(|_| scope.spawn(client)).collect();
        let statuses: Vec<_> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        crowd.join().unwrap();
        assert_eq!(statuses, vec!["200"; 120]);
    });
}

/// As in Core's debug.log; a flood is limited in `client_lines`.
#[test]
fn wrong_passwords_and_rejected_requests_are_logged() {
    let site = Site::with(Settings { threads: 1, work_queue: 1, ..Settings::default() });
    let wrong = "POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Basic eDp5\r\nConnection: close\r\n\r\n";
    assert_eq!(site.raw(wrong.as_bytes()).0, 401);
    let wait = "{\"method\":\"waitfornewblock\",\"id\":1}";
    let head = format!("POST / HTTP/1.1\r\nHost: x\r\n{AUTH}Content-Length: {}\r\n\r\n{wait}", wait.len());
    let waiting = [site.connect(), site.connect()];
    waiting.iter().for_each(|mut stream| stream.write_all(head.as_bytes()).unwrap());
    let end = Instant::now() + Duration::from_secs(10);
    while site.post("{\"method\":\"getblockcount\"}").0 != 503 {
        assert!(Instant::now() < end, "all slots are used");
        std::thread::sleep(Duration::from_millis(20));
    }
    let log = std::fs::read_to_string(site.log_path()).unwrap();
    for want in ["ThreadRPCServer incorrect password attempt from 127.0.0.1:", "http work queue depth exceeded"] {
        assert!(log.contains(want), "{want}: {log}");
    }
}

/// Core's `MaybeDispatchRequestToWorker` and `HTTPRequest::LoadBody`.
#[test]
fn methods_and_chunks_are_refused_as_in_core() {
    let site = Site::with(Settings { rest: true, ..Settings::default() });
    let chunks = "Transfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n0\r\n\r\n";
    for (row, request, want) in [
        ("REST by GET", "GET /rest/chaininfo.json HTTP/1.1\r\n@\r\n".to_owned(), 200),
        ("by HEAD", "HEAD /rest/chaininfo.json HTTP/1.1\r\n@\r\n".to_owned(), 200),
        ("by POST", "POST /rest/chaininfo.json HTTP/1.1\r\n@Content-Length: 0\r\n\r\n".to_owned(), 200),
        ("by PUT", "PUT /rest/chaininfo.json HTTP/1.1\r\n@Content-Length: 0\r\n\r\n".to_owned(), 200),
        ("by DELETE", "DELETE /rest/chaininfo.json HTTP/1.1\r\n@\r\n".to_owned(), 405),
        ("by OPTIONS", "OPTIONS /rest/chaininfo.json HTTP/1.1\r\n@\r\n".to_owned(), 405),
        ("by PATCH", "PATCH /rest/chaininfo.json HTTP/1.1\r\n@\r\n".to_owned(), 405),
        ("by TRACE", "TRACE /rest/chaininfo.json HTTP/1.1\r\n@\r\n".to_owned(), 405),
        ("by a method of nobody", "BREW /rest/chaininfo.json HTTP/1.1\r\n@\r\n".to_owned(), 405),
        ("another path by DELETE", "DELETE /nosuch HTTP/1.1\r\n@\r\n".to_owned(), 405),
        ("the calls by DELETE", "DELETE / HTTP/1.1\r\n@\r\n".to_owned(), 405),
        ("chunks of a call", format!("POST / HTTP/1.1\r\n@{AUTH}{chunks}"), 400),
        ("chunks of REST", format!("POST /rest/getutxos.bin HTTP/1.1\r\n@{chunks}"), 400),
    ] {
        let request = request.replace('@', "Host: 127.0.0.1\r\nConnection: close\r\n");
        assert_eq!(site.raw(request.as_bytes()).0, want, "{row}");
    }
}
