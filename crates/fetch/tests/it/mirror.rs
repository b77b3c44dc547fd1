//! A server of one file, honest and not, that counts what it sends.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// How it answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    Good,
    NoRange,
    /// A quarter of each answer, then it closes the connection.
    Cuts,
    /// A third of each answer, then nothing.
    Stalls,
    Html,
    Missing,
    Gzip,
    Chunked,
    Redirects(String),
    /// From its second answer on the file is a longer one.
    Changes,
    /// The same length, and another ETag each time.
    Retags,
    /// Other bytes from a third on.
    Lies,
    /// 503 for the first answers.
    Busy,
    /// 206 with another range than was asked for.
    WrongRange,
    /// No HTTP.
    Garbage,
    /// A head that does not end.
    EndlessHead,
}

pub(crate) struct Mirror {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

struct Shared {
    file: Vec<u8>,
    way: Way,
    sent: AtomicU64,
    answers: AtomicU64,
}

impl Mirror {
    pub(crate) fn new(file: &[u8], way: Way) -> Mirror {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/utxo.dat", listener.local_addr().unwrap());
        let (sent, answers) = (AtomicU64::new(0), AtomicU64::new(0));
        let shared = Arc::new(Shared { file: file.to_vec(), way, sent, answers });
        let served = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let served = served.clone();
                std::thread::spawn(move || while served.answer(&stream).is_some() {});
            }
        });
        Mirror { url, shared }
    }

    /// Bytes of bodies.
    pub(crate) fn sent(&self) -> u64 {
        self.shared.sent.load(Relaxed)
    }

    pub(crate) fn answers(&self) -> u64 {
        self.shared.answers.load(Relaxed)
    }
}

impl Shared {
    /// Answers one request; `None` where the connection ends.
    fn answer(&self, mut stream: &TcpStream) -> Option<()> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            (stream.read(&mut byte).ok()? == 1).then_some(())?;
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let answer = self.answers.fetch_add(1, Relaxed);
        let mut file = self.file.clone();
        match self.way {
            Way::Lies => (file.len() / 3..file.len()).for_each(|at| file[at] ^= 1),
            Way::Changes if answer > 0 => file.extend_from_slice(&[0; 77]),
            _ => {}
        }
        let text = |text: &str| {
            let _ = (&*stream).write_all(text.as_bytes());
            None
        };
        match &self.way {
            Way::Html => return text("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>"),
            Way::Missing => return text("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
            Way::Gzip => {
                return text("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x08xx");
            }
            Way::Chunked => return text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            Way::Redirects(to) => {
                return text(&format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n"));
            }
            Way::Busy if answer < 2 => return text("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"),
            Way::Garbage => return text("SSH-2.0-OpenSSH_9\r\n\r\n"),
            Way::EndlessHead => return text(&format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(100_000))),
            _ => {}
        }
        let range = head.lines().find_map(|line| line.strip_prefix("Range: bytes="))?;
        let (first, last) = range.split_once('-')?;
        let first: usize = first.parse().ok()?;
        let last = last.parse().unwrap_or(usize::MAX).min(file.len() - 1);
        let tag = if self.way == Way::Retags { answer } else { 1 };
        let (status, body) = match self.way {
            Way::NoRange => ("200 OK".to_owned(), &file[..]),
            _ => {
                let said = first + usize::from(self.way == Way::WrongRange);
                let range = format!("206 Partial Content\r\nContent-Range: bytes {said}-{last}/{}", file.len());
                (range, &file[first..=last])
            }
        };
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nETag: \"{tag}\"\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).ok()?;
        let share = match self.way {
            Way::Cuts => (body.len() / 4).max(20_000),
            Way::Stalls => (body.len() / 3).max(20_000),
            _ => body.len(),
        };
        let part = &body[..share.min(body.len())];
        stream.write_all(part).ok()?;
        self.sent.fetch_add(part.len() as u64, Relaxed);
        match self.way {
            Way::Cuts if part.len() < body.len() => None,
            Way::Stalls if part.len() < body.len() => {
                std::thread::sleep(Duration::from_secs(60));
                None
            }
            _ => Some(()),
        }
    }
}
