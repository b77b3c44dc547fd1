//! The server: one thread that polls connections, and a pool for calls that read files or wait for the job.
//!
//! The cost of a client is bounded: a number of connections (`connections`), of which the one that is idle longest is
//! closed first; 8 KiB of headers; 32 MiB of a body, and few long ones at a time; a timeout for each of them.
//! Source: Bitcoin Core b88bffe, httpserver.cpp.
//!
//! Absent on purpose: HTTP itself (`hyper`), paths (`routes`).

use crate::app::{App, Ends};
use crate::connections::{Connections, PART_BYTES_MAX, Seat};
use crate::context::Context;
use crate::not_started::NotStarted;
use crate::plain::plain;
use crate::routes;
use crate::sent_body::SentBody;
use crate::settings::Settings;
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_io_timeout::TimeoutStream;
use tower::ServiceExt as _;

/// Maximum bytes of a request's headers. Source: Core's `MAX_HEADERS_SIZE`.
const HEADERS_BYTES_MAX: usize = 8192;
/// Maximum bytes of headers that are read: beyond [`HEADERS_BYTES_MAX`] a request is refused in Core's words, beyond
/// this by hyper.
const HEADERS_BYTES_READ: usize = 8 * HEADERS_BYTES_MAX;
// hyper has one bound for both directions: see `sent_body`.
const _: () = assert!(HEADERS_BYTES_READ == PART_BYTES_MAX);
/// Maximum lines of headers that are read: more than fit into [`HEADERS_BYTES_MAX`], so that too many are refused in
/// Core's words.
const HEADERS_COUNT_MAX: usize = HEADERS_BYTES_MAX / "a:\r\n".len();
/// Time for requests to finish when the server ends.
const END_TIME: Duration = Duration::from_secs(2);
/// Pause after a connection that could not be accepted: file descriptors may be short.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Maximum number of connections that wait in the system's queue. Linux has fewer if `net.core.somaxconn` is lower.
const QUEUE_COUNT_MAX: i32 = 4096;
/// Core's warning about an address that every network may reach.
const UNSAFE: &str = "The RPC server is not safe to expose to untrusted networks such as the public internet. Give \
                      --rpcbind an address of a private network, or use a tunnel";

/// A running server.
pub struct Server {
    context: Arc<Context>,
    addresses: Vec<SocketAddr>,
    warnings: Vec<String>,
    end: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server.
    ///
    /// # Errors
    ///
    /// [`NotStarted`].
    pub fn start(settings: Settings, context: Arc<Context>) -> Result<Server, NotStarted> {
        let bound = Bound::of(&settings.bind)?;
        let settings = Arc::new(settings);
        let app = App::new(context.clone(), settings.clone())?;
        let router = routes::router(Arc::new(app));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(context.pool.threads_max())
            .thread_name("ffwd-rpc")
            .build()
            .map_err(NotStarted::System)?;
        let (end, ended) = watch::channel(false);
        let Bound { listeners, addresses, warnings } = bound;
        let thread = std::thread::Builder::new().name("ffwd-http".to_owned()).spawn(move || {
            runtime.block_on(run(listeners, settings, router, ended));
            runtime.shutdown_timeout(END_TIME);
        });
        let thread = thread.map_err(NotStarted::System)?;
        Ok(Server { context, addresses, warnings, end, thread: Some(thread) })
    }

    /// The addresses of the server.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Addresses that could not be bound, and those that every network may reach.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Ends the server: short requests are finished, the cookie is removed.
    pub fn stop(mut self) {
        self.halt();
    }

    fn halt(&mut self) {
        self.context.end();
        // Without a receiver the thread has ended.
        let _ = self.end.send(true);
        if let Some(thread) = self.thread.take() {
            // A panic there was reported by its own thread.
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.halt();
    }
}

/// The sockets of a server.
#[derive(Default)]
struct Bound {
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    warnings: Vec<String>,
}

impl Bound {
    /// Sockets that listen on these addresses, of which one suffices.
    /// Source: Bitcoin Core b88bffe, httpserver.cpp, `InitHTTPServer`.
    fn of(wanted: &[SocketAddr]) -> Result<Bound, NotStarted> {
        let mut made = Bound::default();
        let mut failed = Vec::new();
        for address in wanted {
            match listen(*address).and_then(|listener| Ok((listener.local_addr()?, listener))) {
                Ok((address, listener)) => {
                    made.addresses.push(address);
                    made.listeners.push(listener);
                }
                Err(why) => failed.push(format!("Binding RPC on address {address} failed: {why}")),
            }
        }
        if made.listeners.is_empty() {
            return Err(NotStarted::Unbound(failed.join("; ")));
        }
        if made.addresses.iter().any(|address| address.ip().is_unspecified()) {
            made.warnings.push(UNSAFE.to_owned());
        }
        made.warnings.extend(failed);
        Ok(made)
    }
}

/// A socket that listens; of IPv6 only, so that `::` and 0.0.0.0 can have the same port.
/// Source: Bitcoin Core b88bffe, `HTTPServer::BindAndStartListening`.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, QUEUE_COUNT_MAX)?;
    Ok(TcpListener::from(socket))
}

async fn run(listeners: Vec<TcpListener>, settings: Arc<Settings>, router: Router, mut ended: watch::Receiver<bool>) {
    let connections = Arc::new(Connections::new(settings.max_connections));
    let mut tasks = Vec::new();
    for listener in listeners {
        let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { continue };
        let settings = settings.clone();
        let router = router.clone();
        let connections = connections.clone();
        let ended = ended.clone();
        tasks.push(tokio::spawn(accept(listener, settings, router, connections, ended)));
    }
    let _ = ended.wait_for(|ended| *ended).await;
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    let _ = tokio::time::timeout(END_TIME, connections.all_ended()).await;
}

async fn accept(
    listener: tokio::net::TcpListener,
    settings: Arc<Settings>,
    router: Router,
    connections: Arc<Connections>,
    ended: watch::Receiver<bool>,
) {
    loop {
        match listener.accept().await {
            // As in Core, a client that is not allowed gets no answer.
            Ok((_, peer)) if !settings.is_allowed(peer.ip()) => {}
            Ok((stream, client)) => {
                let Ok(server) = stream.local_addr() else { continue };
                let ends = Ends { client, server };
                // Without room one client waits here, so that it is known that one waits, and further ones wait in the
                // system's queue.
                connections.room().await;
                // Small answers must not be delayed.
                let _ = stream.set_nodelay(true);
                connections.open(|seat| {
                    tokio::spawn(serve(stream, ends, settings.timeout, router.clone(), seat, ended.clone()))
                        .abort_handle()
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Approximate bytes of the request line and headers.
fn header_bytes(uri: &Uri, headers: &HeaderMap) -> usize {
    const AROUND_LINE: usize = "GET  HTTP/1.1\r\n".len();
    let line = AROUND_LINE + uri.path_and_query().map_or(0, |path| path.as_str().len());
    let lines = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    line + lines.sum::<usize>()
}

/// Serves one connection.
async fn serve(
    stream: TcpStream,
    ends: Ends,
    timeout: Duration,
    router: Router,
    seat: Seat,
    mut ended: watch::Receiver<bool>,
) {
    // A client that does not read its answer times out.
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(timeout));
    let seat = Arc::new(seat);
    let service = hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let router = router.clone();
        let busy = seat.clone().busy();
        let seat = seat.clone();
        async move {
            let is_long = header_bytes(request.uri(), request.headers()) > HEADERS_BYTES_MAX;
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(ends);
            request.extensions_mut().insert(seat.clone());
            let mut response = match is_long {
                true => plain(StatusCode::BAD_REQUEST, ""),
                false => router.oneshot(request).await?,
            };
            if is_long || seat.must_close() {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response.map(|body| SentBody::new(body, busy)))
        }
    });
    let stream = Box::pin(stream);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(timeout)
        .max_buf_size(HEADERS_BYTES_READ)
        .max_headers(HEADERS_COUNT_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let has_ended = tokio::select! {
        // An error of a connection concerns only the client.
        _ = connection.as_mut() => true,
        () = async { drop(ended.wait_for(|ended| *ended).await) } => false,
    };
    if !has_ended {
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::extract::Request;
    use axum::routing::get;
    use std::io::{Read as _, Write as _};
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::time::Instant;

    /// More than the system's buffers hold of a client that does not read.
    const LONG_BYTES: usize = 32 << 20;

    /// A server with one slot. `/long` and `/trusted` have a long answer, the second one after a right password.
    fn with_one_slot(test: impl FnOnce(SocketAddr)) {
        let long = |request: Request, is_trusted: bool| async move {
            let seat = request.extensions().get::<Arc<Seat>>().unwrap();
            is_trusted.then(|| seat.trust());
            vec![0; LONG_BYTES]
        };
        let router = Router::new()
            .route("/long", get(move |request: Request| long(request, false)))
            .route("/trusted", get(move |request: Request| long(request, true)))
            .route("/none", get(async || StatusCode::NO_CONTENT))
            .route("/", get(async || "short"));
        let listener = listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let address = listener.local_addr().unwrap();
        let settings = Arc::new(Settings { max_connections: 1, ..Settings::default() });
        let (end, ended) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || runtime.block_on(run(vec![listener], settings, router, ended)));
            // Also after a panic: the thread is waited for.
            let _end = end;
            test(address);
        });
    }

    fn asked(address: SocketAddr, request: &str) -> std::net::TcpStream {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(request.replace('@', " HTTP/1.1\r\nHost: x\r\n").as_bytes()).unwrap();
        stream
    }

    /// All bytes until the connection is closed.
    fn rest(mut stream: std::net::TcpStream) -> Vec<u8> {
        let mut bytes = Vec::new();
        // It may be reset.
        let _ = stream.read_to_end(&mut bytes);
        bytes
    }

    const SHORT: &str = "GET /@Connection: close\r\n\r\n";

    /// A client may pause within its answer for as long as `-rpcservertimeout`, whoever else wants its slot.
    #[test]
    fn trusted_client_loses_no_part_of_a_long_answer() {
        with_one_slot(|address| {
            let long = asked(address, "GET /trusted@Connection: close\r\n\r\n");
            let mut other = asked(address, SHORT);
            other.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
            assert!(other.read(&mut [0]).is_err(), "there is one slot, and it is used until the answer is taken");
            assert!(rest(long).len() > LONG_BYTES, "nothing is missing");
            assert!(rest(other).ends_with(b"short"), "then the other one is answered");
        });
    }

    #[test]
    fn untrusted_client_that_does_not_read_loses_its_answer_to_others() {
        with_one_slot(|address| {
            let long = asked(address, "GET /long@Connection: close\r\n\r\n");
            std::thread::sleep(Duration::from_millis(200));
            let begun = Instant::now();
            assert!(rest(asked(address, SHORT)).ends_with(b"short"));
            let time = begun.elapsed();
            assert!(time > Duration::from_secs(1) && time < Duration::from_secs(10), "{time:?}");
            assert!(rest(long).len() < LONG_BYTES);
        });
    }

    #[test]
    fn untrusted_client_that_reads_its_answer_has_all_of_it() {
        with_one_slot(|address| {
            let long = asked(address, "GET /long@Connection: close\r\n\r\n");
            let other = asked(address, SHORT);
            assert!(rest(long).len() > LONG_BYTES);
            assert!(rest(other).ends_with(b"short"));
        });
    }

    /// Lengths are announced, and the connection is kept.
    #[test]
    fn answers_of_each_kind_follow_each_other_on_one_connection() {
        with_one_slot(|address| {
            let requests = "HEAD /long@\r\nGET /none@\r\nGET /@\r\nGET /long@\r\n".to_owned() + SHORT;
            let bytes = rest(asked(address, &requests));
            let heads: Vec<_> = bytes.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
            let heads = heads.concat();
            let lengths: Vec<_> = heads.lines().filter_map(|line| line.strip_prefix("content-length: ")).collect();
            let long = LONG_BYTES.to_string();
            assert_eq!(lengths, [&*long, "5", &long, "5"], "{heads}");
            assert_eq!(heads.matches("HTTP/1.1 20").count(), 5, "{heads}");
            assert_eq!(bytes.iter().filter(|byte| **byte == 0).count(), LONG_BYTES);
        });
    }

    #[test]
    fn both_wildcards_have_one_port_and_are_warned_about() {
        let free = listen((Ipv4Addr::UNSPECIFIED, 0).into()).unwrap().local_addr().unwrap().port();
        let v4: SocketAddr = (Ipv4Addr::UNSPECIFIED, free).into();
        let v6: SocketAddr = (Ipv6Addr::UNSPECIFIED, free).into();
        if listen((Ipv6Addr::LOCALHOST, 0).into()).is_err() {
            eprintln!("no IPv6: skipped");
            return;
        }
        for wanted in [[v4, v6], [v6, v4]] {
            let bound = Bound::of(&wanted).unwrap();
            assert_eq!(bound.addresses, wanted);
            assert_eq!(bound.warnings, [UNSAFE]);
        }
        let alone = Bound::of(&[v6]).unwrap();
        assert!(std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, free)).is_err(), "IPv6 only, as in bitcoind");
        let taken = Bound::of(&[v6]).err().map(|why| why.to_string()).unwrap_or_default();
        assert!(taken.contains(&format!("Binding RPC on address [::]:{free} failed")), "{taken}");
        drop(alone);
        let own = Bound::of(&[(Ipv4Addr::LOCALHOST, 0).into()]).unwrap();
        assert_eq!(own.warnings, Vec::<String>::new());
    }
}
