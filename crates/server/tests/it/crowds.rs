//! Many clients without a password that send requests all the time: others are still answered.

use crate::site::Site;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Time within which a call must be answered beside a crowd.
const SOON: Duration = Duration::from_secs(5);

/// A connection of a crowd: open again as soon as it is closed.
struct Client {
    at: SocketAddr,
    stream: Option<TcpStream>,
    /// The requests, which it repeats.
    requests: Vec<u8>,
    /// Bytes of it that are sent.
    sent: usize,
}

impl Client {
    fn new(at: SocketAddr, path: &str, count: usize) -> Client {
        let requests = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").repeat(count).into_bytes();
        Client { at, stream: None, requests, sent: 0 }
    }

    /// Reads what there is, and sends what there is room for.
    fn go_on(&mut self) {
        if self.stream.is_none() {
            self.sent = 0;
            self.stream = TcpStream::connect(self.at).ok();
            let _ = self.stream.as_ref().map(|stream| stream.set_nonblocking(true));
        }
        let Some(stream) = &mut self.stream else { return };
        let mut buffer = [0; 1 << 16];
        let is_open = loop {
            match stream.read(&mut buffer) {
                Ok(1..) => {}
                Err(why) if why.kind() == ErrorKind::WouldBlock => break true,
                _ => break false,
            }
        };
        match stream.write(&self.requests[self.sent..]) {
            Ok(count) if is_open => self.sent = (self.sent + count) % self.requests.len(),
            Err(why) if is_open && why.kind() == ErrorKind::WouldBlock => {}
            _ => self.stream = None,
        }
    }
}

/// Calls beside a crowd of `count` clients, each of which goes on every `pause`.
fn call_beside(count: usize, pause: Duration, client: impl Fn(SocketAddr) -> Client + Sync) {
    let site = Site::new(None);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut crowd: Vec<_> = (0..count).map(|_| client(site.at)).collect();
            while !over.load(Relaxed) {
                let begun = Instant::now();
                crowd.iter_mut().for_each(Client::go_on);
                std::thread::sleep(pause.saturating_sub(begun.elapsed()));
            }
        });
        std::thread::sleep(Duration::from_secs(2));
        let times: Vec<_> = (0..5)
            .map(|_| {
                let begun = Instant::now();
                // Without a slot there is no answer, and no JSON.
                let (status, ..) = site.post("{\"method\":\"getblockcount\"}");
                (status, begun.elapsed())
            })
            .collect();
        over.store(true, Relaxed);
        assert!(times.iter().all(|(status, time)| *status == 200 && *time < SOON), "{times:?}");
    });
}

/// As many as there are slots: each of them always has a request in progress.
#[test]
fn pipelined_requests_without_a_password_keep_nobody_out() {
    call_beside(16, Duration::from_millis(2), |at| Client::new(at, "/metrics", 100));
}

/// As many as there may be connections: none of them is silent for so long that it may be closed for another.
#[test]
fn frequent_requests_without_a_password_keep_nobody_out() {
    call_beside(128, Duration::from_millis(100), |at| Client::new(at, "/healthz", 1));
}
