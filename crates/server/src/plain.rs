//! Answers without JSON.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use hyper::ext::ReasonPhrase;
use std::time::Duration;

/// Delay after a wrong password. Source: Core's `HTTPReq_JSONRPC`.
pub(crate) const WRONG_PASSWORD_DELAY: Duration = Duration::from_millis(250);

/// A plain-text answer with Core's text.
pub(crate) fn plain(status: StatusCode, text: impl Into<Body>) -> Response {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// Forbids caching of an answer.
pub(crate) fn no_store(mut response: Response) -> Response {
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The body is too large, in Core's words.
pub(crate) fn too_large() -> Response {
    let mut response = no_store(plain(StatusCode::PAYLOAD_TOO_LARGE, ""));
    response.extensions_mut().insert(ReasonPhrase::from_static(b"Content too large"));
    response
}

/// The path does not exist. Core's answers that set no content type have this type.
pub(crate) async fn not_found() -> Response {
    let mut response = no_store(plain(StatusCode::NOT_FOUND, ""));
    let kind = HeaderValue::from_static("text/html; charset=ISO-8859-1");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// The password is missing or wrong.
pub(crate) fn unauthorized() -> Response {
    let mut response = plain(StatusCode::UNAUTHORIZED, "");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"jsonrpc\""));
    response
}
