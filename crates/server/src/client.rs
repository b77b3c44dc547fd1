//! A client of a server on this machine: for `ffwd stop`, and for tests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Request;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, HOST};
use hyper_util::rt::TokioIo;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Timeout of an answer.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum bytes of an answer.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// Sends `body` as `user:password` to the first of these addresses that answers; returns the status and the answer.
///
/// # Errors
///
/// No address answers within a minute.
pub fn post(addresses: &[SocketAddr], user: &str, body: String) -> io::Result<(u16, Vec<u8>)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match timeout(TIMEOUT, ask(addresses, user, body)).await {
            Ok(answer) => answer,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no answer within a minute")),
        }
    })
}

async fn ask(addresses: &[SocketAddr], user: &str, body: String) -> io::Result<(u16, Vec<u8>)> {
    let stream = TcpStream::connect(addresses).await?;
    let host = stream.peer_addr()?.to_string();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let request = Request::post("/")
        .header(HOST, host)
        .header(AUTHORIZATION, format!("Basic {}", STANDARD.encode(user)))
        .body(body)
        .map_err(io::Error::other)?;
    let answering = async move {
        let response = sender.send_request(request).await.map_err(io::Error::other)?;
        let status = response.status().as_u16();
        let body = axum::body::Body::new(response.into_body());
        let bytes = axum::body::to_bytes(body, ANSWER_BYTES_MAX).await.map_err(io::Error::other)?;
        Ok((status, bytes.to_vec()))
    };
    // The connection runs concurrently with the request; its errors show in the answer.
    let (answer, _) = tokio::join!(answering, connection);
    answer
}
