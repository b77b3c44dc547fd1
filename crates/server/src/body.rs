//! The body of a request: reads it within its size and time limits.
//!
//! Limits of long bodies are in `long_bodies`.

use crate::app::App;
use crate::connections::Seat;
use crate::plain::{no_store, plain, too_large};
use axum::body::Body;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::Response;
use futures_util::StreamExt as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Maximum bytes of a body. Source: Core's `MAX_BODY_SIZE`.
const BODY_BYTES_MAX: usize = 32 << 20;
/// Maximum bytes of a short body, of which each connection may have one. REST bodies are all short: no request takes
/// more than a KiB.
const BODY_BYTES_SHORT: usize = 1 << 20;
/// Interval of checks whether an upload is too slow.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// Reads the body of a request with a correct password.
pub(crate) async fn read_body(app: &App, request: Request) -> Result<Vec<u8>, Response> {
    let length = length(&request);
    if length.is_some_and(|length| length > BODY_BYTES_MAX) {
        return Err(too_large());
    }
    let is_short = length.is_some_and(|length| length <= BODY_BYTES_SHORT);
    let read = async {
        let _place = if is_short { None } else { app.long_bodies.place().await };
        let begun = Instant::now();
        read(request.into_body(), BODY_BYTES_MAX, |bytes| !is_short && app.long_bodies.is_too_slow(bytes, begun)).await
    };
    match timeout(app.settings.timeout, read).await {
        Ok(body) => body,
        Err(_) => Err(too_late()),
    }
}

/// Reads the body of a request that needs no password: a short one. Meanwhile the connection may be closed for another
/// one, as an idle one may.
pub(crate) async fn read_short_body(app: &App, request: Request) -> Result<Vec<u8>, Response> {
    if length(&request).is_some_and(|length| length > BODY_BYTES_SHORT) {
        return Err(too_large());
    }
    let _receives = request.extensions().get::<Arc<Seat>>().map(|seat| seat.clone().receives());
    let read = read(request.into_body(), BODY_BYTES_SHORT, |_| false);
    match timeout(app.settings.timeout, read).await {
        Ok(body) => body,
        Err(_) => Err(too_late()),
    }
}

/// The announced length of a body.
fn length(request: &Request) -> Option<usize> {
    request.headers().get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Reads a body of at most `bytes_max`; `is_too_slow` is called regularly with the number of received bytes.
async fn read(body: Body, bytes_max: usize, is_too_slow: impl Fn(usize) -> bool) -> Result<Vec<u8>, Response> {
    let mut stream = body.into_data_stream();
    let mut bytes = Vec::new();
    loop {
        match timeout(LOOK_INTERVAL, stream.next()).await {
            Ok(None) => return Ok(bytes),
            Ok(Some(Ok(piece))) if bytes.len() + piece.len() <= bytes_max => bytes.extend_from_slice(&piece),
            Ok(Some(Ok(_))) => return Err(too_large()),
            // As in Core: chunks that are none, or a connection that has ended.
            Ok(Some(Err(_))) => return Err(no_store(plain(StatusCode::BAD_REQUEST, ""))),
            Err(_) => {}
        }
        if is_too_slow(bytes.len()) {
            return Err(too_late());
        }
    }
}

fn too_late() -> Response {
    no_store(plain(StatusCode::REQUEST_TIMEOUT, ""))
}
