//! Paths: JSON-RPC on `/`, and the paths without a password.
//!
//! Statuses and texts are those of Core (b88bffe, httprpc.cpp, `HTTPReq_JSONRPC`; httpserver.cpp).

use crate::app::App;
use crate::body::read_body;
use crate::execute::execute;
use crate::guard;
use crate::pages;
use crate::plain::{no_store, not_found, plain, unauthorized};
use crate::rest;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use std::sync::Arc;

/// All paths.
pub(crate) fn router(app: Arc<App>) -> Router {
    let owners = pages::private_routes().layer(middleware::from_fn_with_state(app.clone(), guard::check_owner));
    let open = pages::routes().layer(middleware::from_fn_with_state(app.clone(), guard::check)).merge(owners);
    let open = open.layer(middleware::map_response(pages::for_no_other_site));
    let rest = if app.settings.rest { rest::routes() } else { Router::new() };
    let router = Router::new().route("/", any(root)).merge(open).merge(rest).fallback(not_found);
    router.layer(middleware::from_fn(known_method)).with_state(app)
}

/// Passes on requests with a method that Core knows; the others are refused on every path.
/// Source: Core's `MaybeDispatchRequestToWorker`.
async fn known_method(request: Request, next: Next) -> Response {
    match *request.method() {
        Method::GET | Method::HEAD | Method::POST | Method::PUT => next.run(request).await,
        _ => no_store(plain(StatusCode::METHOD_NOT_ALLOWED, "")),
    }
}

async fn root(State(app): State<Arc<App>>, request: Request) -> Response {
    if request.uri().query().is_some() {
        // As in Core, only this exact path serves the calls.
        return not_found().await;
    }
    match *request.method() {
        Method::POST => rpc(&app, request).await,
        Method::GET if pages::is_browser(request.headers()) => guard::allow_owner(&app, request, pages::page).await,
        _ => plain(StatusCode::METHOD_NOT_ALLOWED, "JSONRPC server handles only POST requests"),
    }
}

async fn rpc(app: &App, request: Request) -> Response {
    if let Some(refusal) = guard::of_another_site(request.headers()) {
        return refusal;
    }
    let Some(sent) = request.headers().get(header::AUTHORIZATION) else { return unauthorized() };
    let Some(allowed) = app.users.check(sent.as_bytes()) else {
        return guard::wrong_password(app, request.extensions()).await;
    };
    guard::trust(request.extensions());
    let body = match read_body(app, request).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    if app.refuses() {
        return no_store(plain(StatusCode::SERVICE_UNAVAILABLE, "Work queue depth exceeded"));
    }
    let (status, text) = execute(app.context.clone(), body, allowed).await;
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    match text {
        Some(text) => (status, [(header::CONTENT_TYPE, "application/json")], text).into_response(),
        None => {
            let mut response = Response::default();
            *response.status_mut() = status;
            response
        }
    }
}
