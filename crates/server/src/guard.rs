//! Access without a password: only from this machine, and for data that names peers only for the user who runs the
//! server. A page of another site must not read it through a browser on this machine (DNS rebinding), and must not make
//! calls with a password that the browser has stored (CSRF).

use crate::app::{App, Ends};
use crate::auth::Allowed;
use crate::connections::Seat;
use crate::owner;
use crate::plain::{WRONG_PASSWORD_DELAY, no_store, plain, unauthorized};
use axum::extract::{Request, State};
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, StatusCode, header, uri::Authority};
use axum::middleware::Next;
use axum::response::Response;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::time::sleep;

/// A browser's own word about the page that sends a request.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Calls that a user with a password must be allowed to use.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needed {
    /// Some call.
    AnyCall,
    /// The call that shows the peers: the page shows them too.
    Peers,
}

impl Needed {
    fn is_allowed(self, allowed: &Allowed) -> bool {
        match self {
            Needed::AnyCall => allowed.any(),
            Needed::Peers => allowed.allows("getpeerinfo"),
        }
    }
}

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
        return with_password(app, request, Needed::AnyCall, answer).await;
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
        let look = move || ends.is_some_and(|ends| owner::is_own(ends.client, ends.server));
        if app.context.pool.on_spare_thread(look).await.unwrap_or(false) {
            return answer(request).await;
        }
    }
    with_password(app, request, Needed::Peers, answer).await
}

fn is_near(request: &Request) -> bool {
    request.extensions().get::<Ends>().is_some_and(|ends| ends.client.ip().to_canonical().is_loopback())
}

async fn with_password<F: Future<Output = Response>>(
    app: &App,
    request: Request,
    needed: Needed,
    answer: impl FnOnce(Request) -> F,
) -> Response {
    let Some(sent) = request.headers().get(header::AUTHORIZATION) else { return unauthorized() };
    match app.users.check(sent.as_bytes()) {
        Some(allowed) if needed.is_allowed(&allowed) => {
            trust(request.extensions());
            answer(request).await
        }
        Some(_) if needed == Needed::Peers => {
            no_store(plain(StatusCode::FORBIDDEN, "This user may not call getpeerinfo, whose peers are shown here\n"))
        }
        _ => wrong_password(app, request.extensions()).await,
    }
}

/// Records that the client of the connection has shown a right password.
pub(crate) fn trust(of_request: &Extensions) {
    if let Some(seat) = of_request.get::<Arc<Seat>>() {
        seat.trust();
    }
}

/// Refuses a call that a browser sends for a page of another site: it may add a stored password to a form, which needs
/// no permission of this server. Clients that are no browsers send neither header.
pub(crate) fn of_another_site(headers: &HeaderMap) -> Option<Response> {
    let why = "A page of another site may make no calls\n";
    is_of_another_site(headers).then(|| no_store(plain(StatusCode::FORBIDDEN, why)))
}

fn is_of_another_site(headers: &HeaderMap) -> bool {
    match (headers.get(SEC_FETCH_SITE), headers.get(header::ORIGIN)) {
        (Some(site), _) => site != "same-origin" && site != "none",
        // Browsers omit the first one where neither TLS nor a loopback address protects the connection.
        (None, Some(origin)) => !is_same_host(origin, headers.get(header::HOST)),
        (None, None) => false,
    }
}

/// Whether an Origin has the authority of a Host header. An origin that is not told ("null") has none.
fn is_same_host(origin: &HeaderValue, host: Option<&HeaderValue>) -> bool {
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    let host = host.and_then(|host| host.to_str().ok());
    origin.zip(host).is_some_and(|((_, authority), host)| authority.eq_ignore_ascii_case(host))
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
    fn calls_of_other_sites_are_known_by_what_the_browser_sends() {
        const FORM: &str = "http://evil.example";
        for (row, site, origin, host, want) in [
            ("no browser", None, None, Some("127.0.0.1:8332"), false),
            ("no browser, HTTP/1.0", None, None, None, false),
            ("a form of another site", Some("cross-site"), Some(FORM), Some("127.0.0.1:8332"), true),
            ("of another port", Some("same-site"), Some("http://127.0.0.1:80"), Some("127.0.0.1:8332"), true),
            ("its own page", Some("same-origin"), Some("http://127.0.0.1:8332"), Some("127.0.0.1:8332"), false),
            ("the user", Some("none"), None, Some("127.0.0.1:8332"), false),
            ("an unknown word", Some("x"), None, Some("127.0.0.1:8332"), true),
            ("older: another site", None, Some(FORM), Some("127.0.0.1:8332"), true),
            ("older: another port", None, Some("http://127.0.0.1"), Some("127.0.0.1:8332"), true),
            ("older: a file, or a sandbox", None, Some("null"), Some("127.0.0.1:8332"), true),
            ("older: no scheme", None, Some("127.0.0.1:8332"), Some("127.0.0.1:8332"), true),
            ("older: no host", None, Some("http://127.0.0.1:8332"), None, true),
            ("older: its own page", None, Some("http://LOCALHOST:8332"), Some("localhost:8332"), false),
            ("older: its own page, behind a proxy", None, Some("https://node.example"), Some("node.example"), false),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in [(SEC_FETCH_SITE, site), (header::ORIGIN, origin), (header::HOST, host)] {
                value.map(|value| headers.insert(name, HeaderValue::from_static(value)));
            }
            assert_eq!(is_of_another_site(&headers), want, "{row}");
        }
    }

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
