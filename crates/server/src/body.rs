//! The body of a request: within its bounds, in the time that there is for it.
//!
//! Bodies of more than a MiB have a few places, for callers whose password was right alone. While another one waits for a place,
//! an upload that is slower than [`SLOWEST_BYTES_A_S`] loses its own: an idle one holds nobody up.

use crate::app::App;
use crate::plain::{no_store, plain, too_large};
use axum::body::Body;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::Response;
use futures_util::StreamExt as _;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};

/// Bytes of a body. Source: Core's `MAX_BODY_SIZE`.
const BODY_BYTES_MAX: usize = 32 << 20;
/// Bytes of a body of which there may be one for each connection. All of REST's are: no request of it takes more than a KiB.
const BODY_BYTES_SHORT: usize = 1 << 20;
/// Bodies of more than that at the same time.
const LONG_BODIES: usize = 2;
/// Bytes a second that a long body must come with, from its beginning on, while others wait for its place.
const SLOWEST_BYTES_A_S: u128 = 1 << 20;
/// Time between two looks whether an upload is too slow; the first second is nobody's fault.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// The places of long bodies.
#[derive(Debug)]
pub(crate) struct LongBodies {
    places: Semaphore,
    /// Those that wait for one.
    waiting: AtomicUsize,
}

impl Default for LongBodies {
    fn default() -> LongBodies {
        LongBodies { places: Semaphore::new(LONG_BODIES), waiting: AtomicUsize::new(0) }
    }
}

/// One that waits; it does no more once this is dropped.
struct Waits<'l>(&'l LongBodies);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

impl LongBodies {
    async fn place(&self) -> Option<SemaphorePermit<'_>> {
        self.waiting.fetch_add(1, Relaxed);
        let _waits = Waits(self);
        // It is never closed.
        self.places.acquire().await.ok()
    }

    /// Whether an upload that has had `bytes` since `begun` is to leave its place to another one.
    fn is_too_slow(&self, bytes: usize, begun: Instant) -> bool {
        let wanted = begun.elapsed().saturating_sub(Duration::from_secs(1)).as_millis() * SLOWEST_BYTES_A_S / 1000;
        self.waiting.load(Relaxed) > 0 && (bytes as u128) < wanted
    }
}

/// The body of a request with a right password.
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

/// The body of a request that needs no password: a short one.
pub(crate) async fn read_short_body(app: &App, request: Request) -> Result<Vec<u8>, Response> {
    if length(&request).is_some_and(|length| length > BODY_BYTES_SHORT) {
        return Err(too_large());
    }
    let read = read(request.into_body(), BODY_BYTES_SHORT, |_| false);
    match timeout(app.settings.timeout, read).await {
        Ok(body) => body,
        Err(_) => Err(too_late()),
    }
}

/// How long a body is said to be.
fn length(request: &Request) -> Option<usize> {
    request.headers().get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Reads a body of at most `bytes_max`; `is_too_slow` is asked again and again, with the bytes that have come.
async fn read(body: Body, bytes_max: usize, is_too_slow: impl Fn(usize) -> bool) -> Result<Vec<u8>, Response> {
    let (mut stream, mut bytes) = (body.into_data_stream(), Vec::new());
    loop {
        match timeout(LOOK_INTERVAL, stream.next()).await {
            Ok(None) => return Ok(bytes),
            Ok(Some(Ok(piece))) if bytes.len() + piece.len() <= bytes_max => bytes.extend_from_slice(&piece),
            Ok(Some(_)) => return Err(too_large()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upload_is_too_slow_by_its_rate_and_only_while_another_waits() {
        let bodies = LongBodies::default();
        let before = |ms| Instant::now().checked_sub(Duration::from_millis(ms)).unwrap();
        assert!(!bodies.is_too_slow(0, before(60_000)), "nobody waits");
        bodies.waiting.store(1, Relaxed);
        for (row, bytes, ms, want) in [
            ("its first second", 0, 900, false),
            ("idle", 0, 1_100, true),
            ("fast enough", 2 << 20, 2_500, false),
            ("begun fast, idle since", 2 << 20, 4_000, true),
        ] {
            assert_eq!(bodies.is_too_slow(bytes, before(ms)), want, "{row}");
        }
    }
}
