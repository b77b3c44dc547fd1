//! Access without a password: only from this machine, and for data that names peers only for the user who runs the
//! server. A page of another site must not read it through a browser on this machine (DNS rebinding).

use crate::app::{App, Ends};
use crate::connections::Seat;
use crate::owner;
use crate::plain::{WRONG_PASSWORD_DELAY, plain, unauthorized};
use axum::extract::{Request, State};
use axum::http::{Extensions, StatusCode, header, uri::Authority};
use axum::middleware::Next;
use axum::response::Response;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// Passes on requests that [`allow`] accepts.
pub(crate) async fn check(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    allow(&app, request, |request| next.run(request)).await
}

/// Passes on requests that [`allow_owner`] accepts.
pub(crate) async fn check_owner(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    allow_owner(&app, request, |request| next.run(request)).await
}

/// Answers a request from this machine without a password if its Host header is an address or localhost; from another
/// machine within `-rpcallowip`, only with an RPC password.
async fn allow<F: Future<Output = Response>>(
    app: &App,
    request: Request,
    answer: impl FnOnce(Request) -> F,
) -> Response {
    if !is_near(&request) {
        return with_password(app, request, answer).await;
    }
    if let Some(refusal) = foreign_name(&request) {
        return refusal;
    }
    answer(request).await
}

/// Like [`allow`], but without a password only for the user of this process and root on this machine. Other users need
/// the password, and all users if the system does not report the owner of a connection.
pub(crate) async fn allow_owner<F: Future<Output = Response>>(
    app: &App,
    request: Request,
    answer: impl FnOnce(Request) -> F,
) -> Response {
    if is_near(&request)
        && let Some(refusal) = foreign_name(&request)
    {
        return refusal;
    }
    if is_near(&request) && !request.headers().contains_key(header::AUTHORIZATION) {
        let ends = request.extensions().get::<Ends>().copied();
        let look = spawn_blocking(move || ends.is_some_and(|ends| owner::is_own(ends.client, ends.server)));
        if look.await.unwrap_or(false) {
            return answer(request).await;
        }
    }
    with_password(app, request, answer).await
}

fn is_near(request: &Request) -> bool {
    request.extensions().get::<Ends>().is_some_and(|ends| ends.client.ip().to_canonical().is_loopback())
}

async fn with_password<F: Future<Output = Response>>(
    app: &App,
    request: Request,
    answer: impl FnOnce(Request) -> F,
) -> Response {
    let sent = request.headers().get(header::AUTHORIZATION).map(|sent| app.users.check(sent.as_bytes()));
    match sent {
        Some(Some(allowed)) if allowed.any() => answer(request).await,
        Some(_) => wrong_password(app, request.extensions()).await,
        None => unauthorized(),
    }
}

/// Logs it, and delays the answer; if slots are short, the connection is closed for others meanwhile.
pub(crate) async fn wrong_password(app: &App, of_request: &Extensions) -> Response {
    app.log_wrong_password(of_request.get::<Ends>());
    match of_request.get::<Arc<Seat>>() {
        Some(seat) => seat.delay(WRONG_PASSWORD_DELAY).await,
        None => sleep(WRONG_PASSWORD_DELAY).await,
    }
    unauthorized()
}

/// Refuses a request whose Host header may belong to another site.
fn foreign_name(request: &Request) -> Option<Response> {
    let host = request.headers().get(header::HOST).map(|host| host.to_str().unwrap_or("?"));
    let why = "This host's name is not known here: use an address, or localhost\n";
    (!host.is_none_or(is_own)).then(|| plain(StatusCode::FORBIDDEN, why))
}

/// Whether a Host header is an address or localhost: any other name may belong to another site.
fn is_own(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_own() {
        for (host, want) in [
            ("127.0.0.1:8332", true),
            ("[::1]:8332", true),
            ("localhost", true),
            ("LOCALHOST:1", true),
            ("192.168.1.4", true),
            ("rebound.example", false),
            ("localhost.example:8332", false),
            ("127.0.0.1.example", false),
            ("", false),
            ("a b", false),
        ] {
            assert_eq!(is_own(host), want, "{host}");
        }
    }
}
