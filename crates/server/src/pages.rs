//! What is given without a password, to this machine alone.

use crate::app::App;
use crate::plain::{no_store, plain};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use std::sync::Arc;

/// The paths of pages.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new().route("/healthz", get(health)).route("/readyz", get(ready))
}

/// The program lives.
async fn health() -> Response {
    no_store(plain(StatusCode::OK, "ok\n"))
}

/// Whether what is asked is answered from the tip of the chain: always of a data directory without peers, of a sync after the
/// initial block download.
async fn ready(State(app): State<Arc<App>>) -> Response {
    let context = &app.context;
    let is_ready = |live: &node::handle::Live| context.program.is_served || !context.handle.is_initial_download(live);
    match context.handle.live() {
        Ok(live) if is_ready(&live) => no_store(plain(StatusCode::OK, "ready\n")),
        _ => no_store(plain(StatusCode::SERVICE_UNAVAILABLE, "not ready\n")),
    }
}
