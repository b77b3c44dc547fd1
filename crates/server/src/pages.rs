//! Pages without a password, only for this machine: metrics and health checks for all users; the status page with its
//! events for the user who runs the server.

use crate::app::App;
use crate::connections::Seat;
use crate::plain::{no_store, plain};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use futures_util::StreamExt as _;
use std::convert::Infallible;
use std::sync::Arc;

/// Content security policy of the page: only its own code, and its events from this server.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Paths for all users of this machine: figures that name no peer.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new().route("/healthz", get(health)).route("/readyz", get(ready)).route("/metrics", get(metrics))
}

/// Paths with names of peers and lines of the log. The path of the page is not among them, because the RPC calls have
/// the same one.
pub(crate) fn private_routes() -> Router<Arc<App>> {
    Router::new().route("/events", get(events))
}

/// Makes browsers respect the content type, and hide the answer from other sites' pages.
pub(crate) async fn for_no_other_site(mut response: Response) -> Response {
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether the client accepts the page: a browser, or a tool that accepts anything (`curl`). A client of the calls
/// sends no such header, and gets Core's answer.
pub(crate) fn is_browser(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accepted.is_some_and(|accepted| accepted.contains("text/html") || accepted.contains("*/*"))
}

/// The page.
pub(crate) async fn page(_request: Request) -> Response {
    let mut response = for_no_other_site(no_store(plain(StatusCode::OK, watch::PAGE))).await;
    for (name, value) in [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The page's event stream, until the server ends.
async fn events(State(app): State<Arc<App>>, request: Request) -> Response {
    let context = app.context.clone();
    let Some(events) = app.publisher.events(move || context.has_ended()) else {
        return no_store(plain(StatusCode::SERVICE_UNAVAILABLE, "Too many pages are open\n"));
    };
    // The connection is not closed for another while its reader is connected, and uses no slot for calls.
    let reads = request.extensions().get::<Arc<Seat>>().map(|seat| seat.clone().reads_events());
    let events = events.map(move |text| {
        let _ = &reads;
        Ok::<_, Infallible>(Event::default().data(&*text))
    });
    no_store(Sse::new(events).into_response())
}

/// Metrics for Prometheus.
async fn metrics(State(app): State<Arc<App>>) -> Response {
    let board = app.context.program.board.clone();
    // An operator needs them most when all calls are blocked.
    match app.context.pool.on_spare_thread(move || board.metrics()).await {
        Some(text) => {
            let mut response = no_store(plain(StatusCode::OK, text));
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(watch::CONTENT_TYPE));
            response
        }
        None => no_store(plain(StatusCode::INTERNAL_SERVER_ERROR, "")),
    }
}

/// Liveness: the program runs.
async fn health() -> Response {
    no_store(plain(StatusCode::OK, "ok\n"))
}

/// Readiness: whether answers come from the tip of the chain. Always true for a data directory without peers; for a
/// sync, after initial block download.
async fn ready(State(app): State<Arc<App>>) -> Response {
    let context = &app.context;
    let is_ready = |live: &node::handle::Live| context.program.is_served || !context.handle.is_initial_download(live);
    match context.handle.live() {
        Ok(live) if is_ready(&live) => no_store(plain(StatusCode::OK, "ready\n")),
        _ => no_store(plain(StatusCode::SERVICE_UNAVAILABLE, "not ready\n")),
    }
}
