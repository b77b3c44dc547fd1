//! Who may see what needs no password: another site's page must not read it through a browser on this machine (DNS rebinding).

use crate::app::Peer;
use crate::plain::plain;
use axum::extract::Request;
use axum::http::{StatusCode, header, uri::Authority};
use axum::middleware::Next;
use axum::response::Response;
use std::net::IpAddr;

/// Lets requests of this machine through that name it by an address or as localhost.
pub(crate) async fn check(request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>();
    if !peer.is_some_and(|peer| peer.0.ip().to_canonical().is_loopback()) {
        return plain(StatusCode::FORBIDDEN, "This is for this machine alone\n");
    }
    let host = request.headers().get(header::HOST).map(|host| host.to_str().unwrap_or("?"));
    if host.is_none_or(is_own) {
        return next.run(request).await;
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
