//! Paths: JSON-RPC on `/`, and what needs no password beside it.
//!
//! Statuses and texts are those of Core (b88bffe, httprpc.cpp, `HTTPReq_JSONRPC`; httpserver.cpp).

use crate::app::App;
use crate::context::Context;
use crate::execute::execute;
use crate::guard;
use crate::pages;
use crate::plain::{no_store, plain};
use crate::rest;
use crate::settings::Settings;
use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Bytes of a body. Source: Core's `MAX_BODY_SIZE`.
const BODY_BYTES_MAX: usize = 32 << 20;
/// Bytes of a body of which there may be one for each connection.
const BODY_BYTES_SHORT: usize = 1 << 20;
/// What a wrong password costs. Source: Core's `HTTPReq_JSONRPC`.
const WRONG_PASSWORD_DELAY: Duration = Duration::from_millis(250);

/// All paths.
///
/// # Errors
///
/// The cookie cannot be written.
pub(crate) fn router(settings: &Arc<Settings>, context: &Arc<Context>) -> io::Result<Router> {
    let app = Arc::new(App::new(context.clone(), settings.clone())?);
    let open = pages::routes().layer(middleware::from_fn(guard::check));
    let rest = if settings.rest { rest::routes() } else { Router::new() };
    let router = Router::new().route("/", any(root)).merge(open).merge(rest).fallback(not_found);
    Ok(router.with_state(app))
}

/// A path that there is not. Core's answers without a type of their own have this one.
pub(crate) async fn not_found() -> Response {
    let mut response = no_store(plain(StatusCode::NOT_FOUND, ""));
    let kind = HeaderValue::from_static("text/html; charset=ISO-8859-1");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

async fn root(State(app): State<Arc<App>>, request: Request) -> Response {
    match *request.method() {
        Method::POST => rpc(&app, request).await,
        Method::GET | Method::HEAD | Method::PUT => {
            plain(StatusCode::METHOD_NOT_ALLOWED, "JSONRPC server handles only POST requests")
        }
        _ => no_store(plain(StatusCode::METHOD_NOT_ALLOWED, "")),
    }
}

async fn rpc(app: &App, request: Request) -> Response {
    let Some(sent) = request.headers().get(header::AUTHORIZATION) else { return unauthorized() };
    let Some(allowed) = app.users.check(sent.as_bytes()) else {
        sleep(WRONG_PASSWORD_DELAY).await;
        return unauthorized();
    };
    let body = match read_body(app, request).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    if app.context.is_crowded() {
        return no_store(plain(StatusCode::SERVICE_UNAVAILABLE, "Work queue depth exceeded"));
    }
    let (status, text) = execute(app.context.clone(), body, allowed).await;
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    match text {
        Some(text) => (status, [(header::CONTENT_TYPE, "application/json")], text).into_response(),
        None => plain(status, ""),
    }
}

fn unauthorized() -> Response {
    let mut response = plain(StatusCode::UNAUTHORIZED, "");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"jsonrpc\""));
    response
}

/// The body, in the time that there is for it.
pub(crate) async fn read_body(app: &App, request: Request) -> Result<Vec<u8>, Response> {
    let too_large = || no_store(plain(StatusCode::PAYLOAD_TOO_LARGE, ""));
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
