//! Who may see what needs no password: another site's page must not read it through a browser on this machine (DNS rebinding).

use crate::app::{App, Peer};
use crate::plain::{WRONG_PASSWORD_DELAY, plain, unauthorized};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header, uri::Authority};
use axum::middleware::Next;
use axum::response::Response;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::time::sleep;

/// Lets requests through that [`allow`] lets through.
pub(crate) async fn check(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    allow(&app, request, |request| next.run(request)).await
}

/// Answers a request without a password from this machine, where it names this server by an address or as localhost; from
/// another machine, which `-rpcallowip` names, with the password of the calls.
pub(crate) async fn allow<F: Future<Output = Response>>(
    app: &App,
    request: Request,
    answer: impl FnOnce(Request) -> F,
) -> Response {
    let is_near = request.extensions().get::<Peer>().is_some_and(|Peer(peer)| peer.ip().to_canonical().is_loopback());
    if !is_near {
        let sent = request.headers().get(header::AUTHORIZATION);
        return match sent.map(|sent| app.users.check(sent.as_bytes())) {
            Some(Some(allowed)) if allowed.any() => answer(request).await,
            Some(_) => {
                sleep(WRONG_PASSWORD_DELAY).await;
                unauthorized()
            }
            None => unauthorized(),
        };
    }
    let host = request.headers().get(header::HOST).map(|host| host.to_str().unwrap_or("?"));
    if host.is_none_or(is_own) {
        return answer(request).await;
    }
    let why = "This host's name is not known here: use an address, or localhost\n";
    plain(StatusCode::FORBIDDEN, why)
}

/// Whether a Host header names an address or localhost: a name could be any site's.
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
