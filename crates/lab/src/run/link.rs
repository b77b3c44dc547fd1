//! Simulates a slow, long and lossy network link between two programs of this machine.
//!
//! It is a proxy: it accepts connections for the server, and forwards bytes in both directions with delays. The rate
//! is shared by all connections in each direction; each direction has half of the round trip; a lost segment delays
//! the following ones by one round trip, as a retransmission does; a cut closes the connection, and the client
//! reconnects.
//! Absent on purpose: congestion. TCP on the loopback interface does not see the simulated losses.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::plan::Link;

/// Bytes that are forwarded at a time.
const PIECE: usize = 16 << 10;

/// Maximum pieces in flight in one direction of a connection; beyond it, the sender blocks.
const PIECES_MAX: usize = 512;

/// Bytes of a segment on Ethernet.
const SEGMENT: usize = 1448;

/// Interval at which the threads check whether to end.
const LOOK: Duration = Duration::from_millis(20);

/// A running link; ends when dropped.
#[derive(Debug)]
pub(super) struct Line {
    /// The address to connect to.
    pub(super) at: SocketAddr,
    stop: Arc<AtomicBool>,
    accepts: Option<JoinHandle<()>>,
}

impl Line {
    /// Starts accepting connections for `server`.
    ///
    /// # Errors
    ///
    /// No port is free.
    pub(super) fn open(server: SocketAddr, link: Link) -> io::Result<Line> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let at = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let accepts =
            thread::Builder::new().name("line".to_owned()).spawn(move || accept(&listener, server, link, &stopped))?;
        Ok(Line { at, stop, accepts: Some(accepts) })
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(accepts) = self.accepts.take() {
            let _ = accepts.join(); // The thread does not panic; if it did, the link would be closed, as intended.
        }
    }
}

/// A description of the link for the results.
pub(super) fn said(link: &Link) -> String {
    let parts = [
        link.mbit_per_s.map(|rate| format!("{rate} Mbit/s")),
        link.round_trip_ms.map(|ms| format!("a round trip of {ms} ms")),
        link.loss_percent.map(|share| format!("{share} % lost")),
        link.cut_every_s.map(|seconds| format!("cut after {seconds} s")),
    ];
    format!("the line to the server: {}", parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

/// When the link is free again, for each direction.
type Free = Arc<Mutex<Instant>>;

fn accept(listener: &TcpListener, server: SocketAddr, link: Link, stop: &Arc<AtomicBool>) {
    let now = Instant::now();
    let ways: [Free; 2] = [Arc::new(Mutex::new(now)), Arc::new(Mutex::new(now))];
    let mut connections: Vec<(Instant, [TcpStream; 2])> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        if let Ok((near, _)) = listener.accept()
            && let Ok(ends) = connect(near, server, link, &ways, connections.len() as u64)
        {
            connections.push((Instant::now(), ends));
        }
        let is_due = |since: &Instant| link.cut_every_s.is_some_and(|seconds| since.elapsed().as_secs_f64() > seconds);
        connections.retain(|(since, ends)| {
            if is_due(since) {
                close(ends);
            }
            !is_due(since)
        });
        thread::sleep(LOOK);
    }
    connections.iter().for_each(|(_, ends)| close(ends));
}

fn close(ends: &[TcpStream; 2]) {
    for end in ends {
        let _ = end.shutdown(Shutdown::Both); // The connection is already closed, as intended.
    }
}

/// Connects a client to the server; the threads end with the connection.
fn connect(near: TcpStream, server: SocketAddr, link: Link, ways: &[Free; 2], seed: u64) -> io::Result<[TcpStream; 2]> {
    let far = TcpStream::connect(server)?;
    near.set_nonblocking(false)?;
    for end in [&near, &far] {
        end.set_nodelay(true)?;
    }
    for (at, (from, to)) in [(&far, &near), (&near, &far)].into_iter().enumerate() {
        let from = from.try_clone()?;
        let to = to.try_clone()?;
        let free = ways[at].clone();
        let (send, receive) = sync_channel(PIECES_MAX);
        thread::Builder::new()
            .name("line.in".to_owned())
            .spawn(move || take(from, &send, link, &free, seed * 2 + at as u64))?;
        thread::Builder::new().name("line.out".to_owned()).spawn(move || give(to, &receive))?;
    }
    Ok([near, far])
}

/// Bytes, and their time of arrival.
type Piece = (Instant, Vec<u8>);

/// Reads bytes from one end, and computes when they arrive at the other.
fn take(mut from: TcpStream, send: &SyncSender<Piece>, link: Link, free: &Free, seed: u64) {
    let trip = Duration::from_millis(link.round_trip_ms.unwrap_or(0));
    let mut lost = Losses { share: link.loss_percent.unwrap_or(0.0) / 100.0, state: seed };
    let mut buffer = vec![0; PIECE];
    let mut held = Duration::ZERO;
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        let on_line = {
            let mut free = free.lock().unwrap_or_else(PoisonError::into_inner);
            let time =
                link.mbit_per_s.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(bytes as f64 * 8e-6 / rate));
            *free = (*free).max(Instant::now()) + time;
            *free
        };
        held += trip * lost.of(bytes.div_ceil(SEGMENT));
        // When nothing waits any more, there is no remaining delay.
        held = held.min(trip * PIECES_MAX as u32);
        if send.send((on_line + trip / 2 + held, buffer[..bytes].to_vec())).is_err() {
            break;
        }
        held = held.saturating_sub(Duration::from_millis(1));
    }
}

/// Delivers bytes when they arrive; forwards the end of the stream to the other side.
fn give(mut to: TcpStream, receive: &Receiver<Piece>) {
    let mut last = Instant::now();
    while let Ok((at, bytes)) = receive.recv() {
        last = last.max(at); // Arrivals stay in order, even after a delay.
        thread::sleep(last.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write); // The connection is already closed, as intended.
}

/// Draws the number of lost segments.
struct Losses {
    share: f64,
    state: u64,
}

impl Losses {
    fn of(&mut self, segments: usize) -> u32 {
        if self.share <= 0.0 {
            return 0;
        }
        let mut draw = || {
            self.state = self.state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (self.state >> 11) as f64 / (1u64 << 53) as f64
        };
        (0..segments).filter(|_| draw() < self.share).count() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that sends back what it gets.
    fn echo() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                thread::spawn(move || io::copy(&mut stream.try_clone().unwrap(), &mut stream));
            }
        });
        at
    }

    fn back_and_forth(link: Link, bytes: usize) -> (Vec<u8>, Duration) {
        let line = Line::open(echo(), link).unwrap();
        let start = Instant::now();
        let mut stream = TcpStream::connect(line.at).unwrap();
        let sent: Vec<u8> = (0..bytes).map(|at| (at * 7 % 251) as u8).collect();
        let mut writing = stream.try_clone().unwrap();
        let writes = thread::spawn(move || {
            let _ = writing.write_all(&sent); // Cut in the row that is about that.
            let _ = writing.shutdown(Shutdown::Write);
        });
        let mut got = Vec::new();
        let _ = stream.read_to_end(&mut got); // The same.
        writes.join().unwrap();
        (got, start.elapsed())
    }

    /// Whatever the line does, bytes arrive as they were sent, and not before its rate and length let them.
    #[test]
    fn line_keeps_bytes_and_takes_its_time() {
        let sent: Vec<u8> = (0..50_000).map(|at| (at * 7 % 251) as u8).collect();
        for (row, link, least_ms) in [
            ("as the machine", Link::default(), 0),
            ("slow", Link { mbit_per_s: Some(4.0), ..Link::default() }, 100),
            ("long", Link { round_trip_ms: Some(60), ..Link::default() }, 60),
            ("lossy", Link { round_trip_ms: Some(4), loss_percent: Some(10.0), ..Link::default() }, 4),
        ] {
            let (got, took) = back_and_forth(link, sent.len());
            assert!(got == sent, "{row}: {} bytes", got.len());
            assert!(took >= Duration::from_millis(least_ms), "{row}: {took:?}");
        }
    }

    #[test]
    fn line_that_is_cut_closes_its_connections() {
        let link = Link { mbit_per_s: Some(0.1), cut_every_s: Some(0.1), ..Link::default() };
        let (got, _) = back_and_forth(link, 50_000);
        assert!(got.len() < 50_000);
        assert_eq!(said(&link), "the line to the server: 0.1 Mbit/s, cut after 0.1 s",);
    }

    #[test]
    fn losses_follow_their_share() {
        let mut losses = Losses { share: 0.1, state: 3 };
        assert!((900..1_100).contains(&losses.of(10_000)));
        assert_eq!(Losses { share: 0.0, state: 3 }.of(10_000), 0);
    }
}
