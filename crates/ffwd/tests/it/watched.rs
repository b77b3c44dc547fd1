//! What a server shows without a password, the calls about connections beside bitcoind's, and who is told of a sync.

use crate::run::{Running, run, start};
use crate::sync::serve;
use crate::{bitcoind, data};
use base64::Engine as _;
use serde_json::{Value, json};
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Waits for what must come.
fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{what} within a minute");
}

/// A program that answers, on a data directory of regtest.
struct Answering {
    port: u16,
    agent: ureq::Agent,
    cookie: std::path::PathBuf,
}

impl Answering {
    fn on(directory: &Path, port: u16) -> Answering {
        let config =
            ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(Duration::from_secs(60)));
        let one = Answering { port, agent: config.build().new_agent(), cookie: directory.join("regtest/.cookie") };
        wait("an answer", || {
            let asked = one.cookie.exists().then(|| one.ask("getblockcount", &json!([])))?;
            (asked?.0 == 200).then_some(())
        });
        one
    }

    /// Status and body, where there is an answer.
    fn ask(&self, method: &str, params: &Value) -> Option<(u16, Value)> {
        let user = base64::engine::general_purpose::STANDARD.encode(fs::read(&self.cookie).ok()?.trim_ascii());
        let body = json!({ "method": method, "params": params, "id": 1 }).to_string();
        let request = self.agent.post(format!("http://127.0.0.1:{}/", self.port));
        let mut answer = request.header("Authorization", format!("Basic {user}")).send(body).ok()?;
        let text = answer.body_mut().read_to_string().ok()?;
        Some((answer.status().as_u16(), serde_json::from_str(&text).ok()?))
    }

    fn call(&self, method: &str, params: &Value) -> Value {
        let (_, answer) = self.ask(method, params).unwrap_or_else(|| panic!("{method} is answered"));
        answer
    }

    fn result(&self, method: &str, params: &Value) -> Value {
        let answer = self.call(method, params);
        assert_eq!(answer["error"], Value::Null, "{method}");
        answer["result"].clone()
    }

    /// Status, content type and body.
    fn get(&self, path: &str, headers: &[(&str, &str)]) -> (u16, String, String) {
        let request = self.agent.get(format!("http://127.0.0.1:{}{path}", self.port));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let mut answer = request.call().unwrap_or_else(|why| panic!("{path}: {why}"));
        let kind =
            answer.headers().get("content-type").map_or_else(String::new, |kind| kind.to_str().unwrap().to_owned());
        let body = answer.body_mut().read_to_string().unwrap();
        (answer.status().as_u16(), kind, body)
    }
}

fn served(directory: &Path) -> (Running, Answering) {
    let port = free_port();
    let running = start(directory, &format!("serve --datadir @ --chain regtest --rpcport {port}"));
    (running, Answering::on(directory, port))
}

#[test]
fn page_and_metrics_need_no_password_and_refuse_foreign_names() {
    let Some(directory) = data::real("regtest", "regtest_1_206") else { return };
    run(directory.path(), "reindex --datadir @ --chain regtest --json").good();
    let (mut running, server) = served(directory.path());
    let html = ("Accept", "text/html,*/*");
    let (status, kind, page) = server.get("/", &[html]);
    assert_eq!((status, kind.as_str()), (200, "text/html; charset=utf-8"));
    let word = fs::read_to_string(&server.cookie).unwrap();
    assert!(page.contains("new EventSource(\"events\")") && !page.contains(word.split_once(':').unwrap().1.trim()));
    // The server answers before the data directory is open.
    wait("metrics of the directory", || {
        let (status, kind, text) = server.get("/metrics", &[]);
        assert_eq!((status, kind.as_str()), (200, "text/plain; version=0.0.4; charset=utf-8"));
        assert!(text.contains("ffwd_state{state=\"serving\"} 1"), "{text}");
        text.contains("\nffwd_block_height 206\n").then_some(())
    });
    for (path, headers, want) in [
        ("/", &[("Accept", "application/json")][..], 405),
        ("/", &[("Accept", "*/*")], 200),
        ("/healthz", &[], 200),
        ("/readyz", &[], 200),
        ("/nosuch", &[], 404),
        ("/", &[html, ("Host", "rebound.example")], 403),
        ("/events", &[("Host", "rebound.example")], 403),
        ("/metrics", &[("Host", "rebound.example:8332")], 403),
        ("/healthz", &[("Host", "127.0.0.1.example")], 403),
        ("/metrics", &[("Host", "localhost:1")], 200),
    ] {
        assert_eq!(server.get(path, headers).0, want, "{path} {headers:?}");
    }
    running.signal("HUP");
    running.signal("TERM");
    let log = directory.path().join("regtest/debug.log");
    let ended = running.ended();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(log.exists() && !server.cookie.exists());
}

/// As text it is printed in `serve`'s test.
#[test]
fn stop_prints_the_answer_as_one_json_object() {
    let directory = tempfile::tempdir().unwrap();
    let (running, server) = served(directory.path());
    let line = format!("stop --datadir @ --chain regtest --rpcport {} --json", server.port);
    let said = run(directory.path(), &line);
    let datadir = directory.path().to_str().unwrap();
    assert_eq!(said.good(), json!({ "chain": "regtest", "datadir": datadir, "answer": "ffwd stopping" }));
    assert_eq!(said.out.lines().count(), 1, "{said:?}");
    assert_eq!(running.ended().code, Some(0));
}

/// Calls that a node without connections answers, with what bitcoind b88bffe answered to them.
fn calls() -> Vec<(&'static str, Value, Value)> {
    let error = |code: i32, message: &str| json!({ "code": code, "message": message });
    vec![
        ("ping", json!([]), Value::Null),
        ("getconnectioncount", json!([]), Value::Null),
        ("getpeerinfo", json!([]), Value::Null),
        ("getnodeaddresses", json!([]), Value::Null),
        ("listbanned", json!([]), Value::Null),
        ("addnode", json!(["127.0.0.1:1", "add"]), Value::Null),
        ("addnode", json!(["127.0.0.1:1", "add"]), error(-23, "Error: Node already added")),
        ("getaddednodeinfo", json!([]), Value::Null),
        ("getaddednodeinfo", json!(["127.0.0.1:2"]), error(-24, "Error: Node has not been added.")),
        ("addnode", json!(["127.0.0.1:1", "remove"]), Value::Null),
        (
            "addnode",
            json!(["127.0.0.1:1", "remove"]),
            error(-24, "Error: Node could not be removed. It has not been added previously."),
        ),
        ("addnode", json!(["  ", "add"]), error(-8, "Error: Node address cannot be empty")),
        ("disconnectnode", json!(["127.0.0.1:1"]), error(-29, "Node not found in connected nodes")),
        ("disconnectnode", json!([]), error(-32602, "Only one of address and nodeid should be provided.")),
        (
            "disconnectnode",
            json!(["127.0.0.1:1", 3]),
            error(-32602, "Only one of address and nodeid should be provided."),
        ),
        ("disconnectnode", json!(["", 3]), error(-29, "Node not found in connected nodes")),
        ("getnodeaddresses", json!([-1]), error(-8, "Address count out of range")),
        ("getnodeaddresses", json!([1, "foo"]), error(-8, "Network not recognized: foo")),
        ("getnodeaddresses", json!([0, "ipv4"]), Value::Null),
        ("setban", json!(["nonsense", "add"]), error(-30, "Error: Invalid IP/Subnet")),
        ("setban", json!(["0.0.0.0", "add"]), error(-30, "Error: Invalid IP/Subnet")),
        ("setban", json!(["10.9.0.1/33", "add"]), error(-30, "Error: Invalid IP/Subnet")),
        ("setban", json!(["10.9.0.1", "add", 5, true]), error(-8, "Error: Absolute timestamp is in the past")),
        ("setban", json!(["192.0.2.0/24", "add", 1000]), Value::Null),
        ("setban", json!(["192.0.2.0/24", "add", 1000]), error(-23, "Error: IP/Subnet already banned")),
        ("setban", json!(["192.0.2.7", "add"]), error(-23, "Error: IP/Subnet already banned")),
        (
            "setban",
            json!(["192.0.2.7", "remove"]),
            error(-30, "Error: Unban failed. Requested address/subnet was not previously manually banned."),
        ),
        ("setban", json!(["10.0.0.1/255.255.255.0", "add"]), Value::Null),
        ("setban", json!(["2001:db9::/32", "add", 50]), Value::Null),
    ]
}

/// A ban without its times.
fn addresses(bans: &Value) -> Vec<(String, i64)> {
    let bans = bans.as_array().expect("a list");
    bans.iter()
        .map(|ban| (ban["address"].as_str().unwrap().to_owned(), ban["ban_duration"].as_i64().unwrap()))
        .collect()
}

#[test]
fn calls_about_connections_answer_as_bitcoind() {
    let (directory, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut running, ours) = served(directory.path());
    let core = bitcoind::is_there().then(|| {
        let port = free_port();
        let mut command = Command::new(std::env::var_os("BITCOIND_EXE").expect("it is there"));
        command.arg("-regtest").arg(format!("-datadir={}", theirs.path().display())).arg(format!("-rpcport={port}"));
        let child = command.args(["-connect=0", "-listen=0", "-printtoconsole=0"]).spawn().expect("bitcoind starts");
        (child, Answering::on(theirs.path(), port))
    });
    for (method, params, want) in calls() {
        let got = ours.call(method, &params);
        assert_eq!(got["error"], want, "{method} {params}");
        if let Some((_, core)) = &core {
            assert_eq!(core.call(method, &params), got, "{method} {params}");
        }
    }
    let want =
        vec![("10.0.0.0/24".to_owned(), 86_400), ("192.0.2.0/24".to_owned(), 1000), ("2001:db9::/32".to_owned(), 50)];
    assert_eq!(addresses(&ours.result("listbanned", &json!([]))), want);
    let fields = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    if let Some((mut child, core)) = core {
        for method in ["getnettotals", "getnetworkinfo"] {
            let (mut theirs, ours) = (core.result(method, &json!([])), ours.result(method, &json!([])));
            ["tx_send_rate", "inv_buckets"].iter().for_each(|name| drop(theirs.as_object_mut().unwrap().remove(*name)));
            assert_eq!(fields(&ours), fields(&theirs), "{method}");
        }
        core.result("stop", &json!([]));
        assert!(child.wait().unwrap().success());
        // Its bans are ours, and ours are its.
        running.signal("TERM");
        running.ended();
        let (from, to) = (theirs.path().join("regtest/banlist.json"), directory.path().join("regtest/banlist.json"));
        let entries = |path: &Path| {
            let json: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
            json["banned_nets"].as_array().unwrap().iter().map(|ban| ban["address"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(entries(&from), entries(&to));
        fs::copy(&from, &to).unwrap();
        let (mut again, ours) = served(directory.path());
        assert_eq!(addresses(&ours.result("listbanned", &json!([]))), want);
        ours.result("clearbanned", &json!([]));
        again.signal("TERM");
        again.ended();
        assert_eq!(entries(&to).len(), 0);
    }
}

#[test]
fn a_sync_is_seen_and_tells_who_wants_to_be_told() {
    let Some(source) = data::real("regtest", "regtest_1_206") else { return };
    let report = run(source.path(), "reindex --datadir @ --chain regtest --json").good();
    let (_far, peer) = serve(source.path());
    let (directory, port) = (tempfile::tempdir().unwrap(), free_port());
    let (told, ready) = (directory.path().join("told"), directory.path().join("ready"));
    // The options lie in a file, for they have spaces.
    fs::create_dir_all(directory.path().join("regtest")).unwrap();
    let conf = format!("blocknotify=echo %s > {}\nstartupnotify=echo > {}\n", told.display(), ready.display());
    fs::write(directory.path().join("bitcoin.conf"), conf).unwrap();
    let line = format!(
        "sync --server --datadir @ --chain regtest --connect 127.0.0.1:{peer} --rpcport {port} --maxtipage 9999999999"
    );
    let mut running = start(directory.path(), &line);
    let server = Answering::on(directory.path(), port);
    wait("the tip", || (server.result("getblockcount", &json!([])) == 206).then_some(()));
    let best = report["bestblock"].as_str().unwrap();
    wait("the command for the best block", || (fs::read_to_string(&told).ok()?.trim() == best).then_some(()));
    assert!(ready.exists());
    let peers = server.result("getpeerinfo", &json!([]));
    let one = &peers[0];
    assert_eq!((peers.as_array().unwrap().len(), &one["addr"]), (1, &json!(format!("127.0.0.1:{peer}"))));
    assert_eq!(
        (&one["connection_type"], &one["inbound"], &one["synced_blocks"]),
        (&json!("manual"), &json!(false), &json!(206))
    );
    assert!(
        one["bytesrecv"].as_u64() > Some(206 * 200) && one["bytesrecv_per_msg"]["block"].as_u64() > Some(206 * 200),
        "{one}"
    );
    wait("readiness", || (server.get("/readyz", &[]).0 == 200).then_some(()));
    wait("metrics of the sync", || {
        let (_, _, text) = server.get("/metrics", &[]);
        let is_seen = text.contains("\nffwd_block_height 206\n") && text.contains("ffwd_state{state=\"following\"} 1");
        is_seen.then_some(())
    });
    running.signal("HUP");
    assert_eq!(server.result("disconnectnode", &json!([format!("127.0.0.1:{peer}")])), Value::Null);
    running.signal("INT");
    assert_eq!(running.ended().code, Some(0));
}

/// Assumed valid is the last block of a chain that lost by one block: it is said where a person or a program looks.
#[test]
fn assumed_block_beside_the_best_chain_is_in_every_display() {
    let Some(directory) = data::real("regtest", "regtest_1_206") else { return };
    let assumed = run(directory.path(), "reindex --datadir @ --chain regtest --json").good()["bestblock"].clone();
    let (mut running, server) = served(directory.path());
    let fork = server.result("getblockhash", &json!([200]));
    server.result("invalidateblock", &json!([fork]));
    server.result("generatetodescriptor", &json!([8, "raw(51)"]));
    server.result("reconsiderblock", &json!([fork]));
    assert_eq!(server.result("getblockcount", &json!([])), 207);
    running.signal("TERM");
    running.ended();
    let at = format!("--datadir @ --chain regtest --assumevalid {}", assumed.as_str().unwrap());
    let want =
        format!("Block {} at height 206, assumed valid, is not on the best header chain", assumed.as_str().unwrap());
    let is_said = |row: &str, text: &str| {
        assert!(text.contains(&want) && text.contains("bitcoin-cli getchaintips"), "{row}: {text}");
    };
    let lists_it = |row: &str, value: &Value| is_said(row, &value["warnings"].to_string());
    let info = run(directory.path(), &format!("info {at}"));
    is_said("info", &info.out);
    lists_it("info --json", &run(directory.path(), &format!("info {at} --json")).good());
    let port = free_port();
    let mut running = start(directory.path(), &format!("sync --server {at} --connect 0 --rpcport {port}"));
    let server = Answering::on(directory.path(), port);
    for method in ["getblockchaininfo", "getnetworkinfo", "getmininginfo"] {
        lists_it(method, &server.result(method, &json!([])));
    }
    let events = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    std::io::Write::write_all(&mut &events, b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    events.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let lines = std::io::BufRead::lines(std::io::BufReader::new(events)).map_while(Result::ok);
    let mut views = lines.filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
    let view = views.find(|view| view["warnings"].as_array().is_some_and(|all| !all.is_empty()));
    lists_it("/events", &view.expect("a view with the warning"));
    running.signal("TERM");
    let ended = running.ended();
    is_said("sync", &ended.err);
    is_said("the end of sync", &ended.out);
    let ended = run(directory.path(), &format!("sync {at} --connect 0 --exit-at-tip --stopatheight 207 --json"));
    lists_it("sync --json", &ended.json());
    let ended = run(directory.path(), &format!("reindex {at} --json"));
    is_said("reindex", &ended.err);
    lists_it("reindex --json", &ended.good());
    assert!(ended.good()["end_reason"].is_null(), "the best chain is connected: {ended:?}");
}

#[test]
fn top_without_a_terminal_says_where_to_look() {
    let directory = tempfile::tempdir().unwrap();
    let ran = run(directory.path(), "top --chain regtest");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("needs a terminal") && ran.err.contains("http://127.0.0.1:18443/metrics"), "{ran:?}");
}
