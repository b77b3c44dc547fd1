//! The server: one thread that polls connections, and a pool for calls that read files or wait for the job.
//!
//! The cost of a client is bounded: a number of connections (`connections`), of which the one that is idle longest is
//! closed first; 8 KiB of headers; 32 MiB of a body, and few long ones at a time; a timeout for each of them.
//! Source: Bitcoin Core b88bffe, httpserver.cpp.
//!
//! Absent on purpose: HTTP itself (`hyper`), paths (`routes`).

use crate::app::Ends;
use crate::connections::Connections;
use crate::context::Context;
use crate::plain::plain;
use crate::routes;
use crate::settings::Settings;
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
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
/// Maximum lines of headers that are read: more than fit into [`HEADERS_BYTES_MAX`], so that too many are refused in
/// Core's words.
const HEADERS_COUNT_MAX: usize = HEADERS_BYTES_MAX / "a:\r\n".len();
/// Time for requests to finish when the server ends.
const END_TIME: Duration = Duration::from_secs(2);
/// Pause after a connection that could not be accepted: file descriptors may be short.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

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
    /// No address is free; the cookie cannot be written; no thread can be started.
    pub fn start(settings: Settings, context: Arc<Context>) -> io::Result<Server> {
        let mut listeners = Vec::new();
        let mut warnings = Vec::new();
        let mut addresses = Vec::new();
        for address in &settings.bind {
            let bound = TcpListener::bind(address).and_then(|listener| {
                listener.set_nonblocking(true)?;
                Ok((listener.local_addr()?, listener))
            });
            match bound {
                Ok((address, listener)) => {
                    addresses.push(address);
                    listeners.push(listener);
                }
                Err(why) => warnings.push(format!("Binding RPC on address {address} failed: {why}")),
            }
        }
        if listeners.is_empty() {
            let why = format!("Unable to bind any endpoint for RPC server: {}", warnings.join("; "));
            return Err(io::Error::new(io::ErrorKind::AddrInUse, why));
        }
        let settings = Arc::new(settings);
        let router = routes::router(&settings, &context)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(settings.threads.max(1))
            .thread_name("ffwd-rpc")
            .build()?;
        let (end, ended) = watch::channel(false);
        let thread = std::thread::Builder::new().name("ffwd-http".to_owned()).spawn(move || {
            runtime.block_on(run(listeners, settings, router, ended));
            runtime.shutdown_timeout(END_TIME);
        })?;
        Ok(Server { context, addresses, warnings, end, thread: Some(thread) })
    }

    /// The addresses of the server.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Addresses that could not be bound.
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
        // While all slots are used, clients wait in the system's queue.
        connections.room().await;
        match listener.accept().await {
            // As in Core, a client that is not allowed gets no answer.
            Ok((_, peer)) if !settings.is_allowed(peer.ip()) => {}
            Ok((stream, client)) => {
                let Ok(server) = stream.local_addr() else { continue };
                let ends = Ends { client, server };
                // An idle connection may have become busy since, and another listener may have used its slot.
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
    seat: crate::connections::Seat,
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
            if header_bytes(request.uri(), request.headers()) > HEADERS_BYTES_MAX {
                let mut response = plain(StatusCode::BAD_REQUEST, "");
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                return Ok(response);
            }
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(ends);
            request.extensions_mut().insert(seat);
            let response = router.oneshot(request).await;
            drop(busy);
            response
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
