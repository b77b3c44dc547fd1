//! Calls that wait for the job, for a block or for nothing, while the job is blocked or the program ends.

use crate::calls::text;
use crate::site::{AUTH, Site, answer};
use server::json::Json;
use server::settings::Settings;
use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A call that asks the job, and so waits while it is blocked.
const ASKS: &str = "{\"method\":\"gettxoutsetinfo\",\"params\":[\"none\"],\"id\":1}";
/// Long enough for a request to be read, also on a busy machine.
const MOMENT: Duration = Duration::from_millis(500);
/// Time within which an answer that waits for nothing must come.
const SOON: Duration = Duration::from_secs(10);

/// A site where one call may run, and one wait.
fn narrow() -> Site {
    Site::with(Settings { threads: 1, work_queue: 1, ..Settings::default() })
}

/// A call that is sent, and not answered yet.
fn sent(site: &Site, body: &str) -> TcpStream {
    let mut stream = site.connect();
    let head =
        format!("POST / HTTP/1.1\r\nHost: x\r\n{AUTH}Connection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all((head + body).as_bytes()).unwrap();
    stream
}

/// Sends a call, and leaves time for it to begin.
fn begun(site: &Site, body: &str) -> TcpStream {
    let stream = sent(site, body);
    std::thread::sleep(MOMENT);
    stream
}

/// The field `result` or `error` of an answer, as text.
fn field(stream: TcpStream, name: &str) -> String {
    let (_, _, body) = answer(stream);
    let reply = Json::parse(&body).unwrap_or_default();
    reply.field(name).map_or_else(|| String::from_utf8_lossy(&body).into_owned(), Json::text)
}

/// A client that disconnects leaves its call behind: it has to count as long as it runs, or there are ever more.
#[test]
fn calls_of_clients_that_disconnect_count_until_they_end() {
    let site = narrow();
    let blocked = site.block_job();
    drop(begun(&site, ASKS));
    std::thread::sleep(MOMENT);
    let waiting = begun(&site, ASKS);
    assert_eq!(site.post(ASKS).0, 503, "one runs, though its client is gone, and one waits");
    drop(blocked);
    assert!(field(waiting, "result").contains("\"height\":0"));
    let end = Instant::now() + SOON;
    while site.post(ASKS).0 != 200 {
        assert!(Instant::now() < end, "all places are free again");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn metrics_and_pages_are_answered_while_every_call_is_blocked() {
    let site = narrow();
    let blocked = site.block_job();
    let running = begun(&site, ASKS);
    let begun = Instant::now();
    for path in ["/metrics", "/healthz", "/readyz", "/"] {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/html\r\nConnection: close\r\n\r\n");
        let (status, ..) = site.raw(request.as_bytes());
        // The page needs the password on systems that do not report the user of a connection.
        assert!(status == 200 || path == "/" && status == 401 && cfg!(not(target_os = "linux")), "{path}: {status}");
    }
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    drop(blocked);
    assert!(field(running, "result").contains("\"height\":0"));
}

#[test]
fn stop_is_answered_while_every_call_is_blocked() {
    let site = narrow();
    let blocked = site.block_job();
    let running = begun(&site, ASKS);
    let begun = Instant::now();
    assert_eq!(text(site.call("stop", "[]")), "\"ffwd stopping\"");
    assert_eq!(site.post("[{\"method\":\"stop\",\"id\":1}]").0, 200, "in a batch too");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    // The parameter of Core's tests: the answer comes later, though the program is ending.
    let begun = Instant::now();
    assert_eq!(text(site.call("stop", "[700]")), "\"ffwd stopping\"");
    assert!(begun.elapsed() >= Duration::from_millis(700), "{:?}", begun.elapsed());
    drop(blocked);
    let _ = answer(running);
}

/// A batch with one place left: its calls take it one after the other.
#[test]
fn batch_does_not_wait_for_its_own_place() {
    let site = narrow();
    let waiting = begun(&site, "{\"method\":\"waitfornewblock\",\"id\":1}");
    let begun = Instant::now();
    let (status, _, body) = site.post(
        "[{\"method\":\"uptime\",\"id\":1},{\"method\":\"waitfornewblock\",\"params\":[50],\"id\":2},{\"method\":\"uptime\",\"id\":3}]",
    );
    let body = String::from_utf8(body).unwrap();
    assert!(status == 200 && body.contains("\"height\":0") && body.contains("\"id\":3"), "{status} {body}");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    drop(waiting);
}

/// As in Core: the answer is the last block, not an error.
#[test]
fn waits_end_with_the_last_tip_when_the_program_ends() {
    let mut site = Site::new(None);
    let zeros = "00".repeat(32);
    let waits: Vec<_> = [
        "\"waitfornewblock\"".to_owned(),
        "\"waitforblockheight\",\"params\":[7]".to_owned(),
        format!("\"waitforblock\",\"params\":[\"{zeros}\"]"),
    ]
    .map(|call| sent(&site, &format!("{{\"method\":{call},\"id\":1}}")))
    .into();
    let template = begun(&site, "{\"method\":\"getblocktemplate\",\"params\":[{\"longpollid\":0}],\"id\":1}");
    let known = field(begun(&site, "{\"method\":\"getbestblockhash\",\"id\":1}"), "result");
    site.end_job();
    for wait in waits {
        assert_eq!(field(wait, "result"), format!("{{\"hash\":{known},\"height\":0}}"));
    }
    let error = field(template, "error");
    assert!(error.contains("-9") && error.contains("Shutting down"), "{error}");
}
