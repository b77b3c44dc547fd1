//! The body of a request: within its bounds, in the time that there is for it.

use crate::app::App;
use crate::plain::{no_store, plain, too_large};
use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::Response;
use tokio::time::timeout;

/// Bytes of a body. Source: Core's `MAX_BODY_SIZE`.
const BODY_BYTES_MAX: usize = 32 << 20;
/// Bytes of a body of which there may be one for each connection.
const BODY_BYTES_SHORT: usize = 1 << 20;

/// The body, in the time that there is for it.
pub(crate) async fn read_body(app: &App, request: Request) -> Result<Vec<u8>, Response> {
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > BODY_BYTES_MAX) {
        return Err(too_large());
    }
    let is_short = length.is_some_and(|length| length <= BODY_BYTES_SHORT);
    let read = async {
        let permit = if is_short { None } else { Some(app.long_bodies.acquire().await) };
        let body = to_bytes(request.into_body(), BODY_BYTES_MAX).await;
        drop(permit);
        body
    };
    match timeout(app.settings.timeout, read).await {
        Ok(Ok(body)) => Ok(body.into()),
        Ok(Err(_)) => Err(too_large()),
        Err(_) => Err(no_store(plain(StatusCode::REQUEST_TIMEOUT, ""))),
    }
}
