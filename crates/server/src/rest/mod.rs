//! REST with bitcoind's paths: `/rest/..`, in binary, hexadecimal digits or JSON. Without a password, for all clients
//! that may connect.
//!
//! As in Core, the Host header is not checked: the data is public, and clients on other machines use this machine's
//! name.
//! Source: Bitcoin Core b88bffe, rest.cpp.

mod blocks;
mod coins;
mod filters;
mod silent_payments;

use crate::app::App;
use crate::body::read_short_body;
use crate::context::Context;
use crate::error::RpcError;
use crate::json::Json;
use crate::plain::{no_store, plain};
use crate::registry::Run;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::any;
use hyper::body::Body as _;
use node::handle::Live;
use primitives::{BlockHash, Hash256};
use std::sync::Arc;

/// Cache control for bytes that never change: one day, so that an update of the program takes effect.
const IMMUTABLE: &str = "public, immutable, max-age=86400";
/// Cache control for everything else.
const NO_STORE: &str = "no-store";

/// The path of REST.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new().route("/rest/{*path}", any(answer))
}

/// Formats of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    Binary,
    Hex,
    Json,
    /// Another suffix, or none.
    Unknown,
}

/// The request.
struct Query<'q> {
    /// The path after the prefix, including the query.
    path: &'q str,
    /// The whole target.
    target: &'q str,
    body: &'q [u8],
}

/// An answer.
struct Reply {
    status: StatusCode,
    content_type: &'static str,
    cache: &'static str,
    body: Vec<u8>,
}

impl Reply {
    fn good(content_type: &'static str, cache: &'static str, body: Vec<u8>) -> Reply {
        Reply { status: StatusCode::OK, content_type, cache, body }
    }

    fn binary(cache: &'static str, bytes: Vec<u8>) -> Reply {
        Reply::good("application/octet-stream", cache, bytes)
    }

    /// Hexadecimal digits of `bytes` and a newline.
    fn hex(cache: &'static str, bytes: &[u8]) -> Reply {
        let mut out = Vec::with_capacity(2 * bytes.len() + 1);
        crate::text::put_hex(&mut out, bytes);
        out.push(b'\n');
        Reply::good("text/plain", cache, out)
    }

    /// Serialized JSON and a newline.
    fn json(cache: &'static str, mut text: Vec<u8>) -> Reply {
        text.push(b'\n');
        Reply::good("application/json", cache, text)
    }

    /// Bytes in binary or hexadecimal; other formats are refused.
    fn bytes(format: Format, cache: &'static str, bytes: Vec<u8>) -> Answer {
        match format {
            Format::Binary => Ok(Reply::binary(cache, bytes)),
            Format::Hex => Ok(Reply::hex(cache, &bytes)),
            Format::Json | Format::Unknown => Err(no_format()),
        }
    }
}

/// A refusal in Core's words.
struct Refusal {
    status: StatusCode,
    message: String,
}

type Answer = Result<Reply, Refusal>;

fn bad(message: impl Into<String>) -> Refusal {
    Refusal { status: StatusCode::BAD_REQUEST, message: message.into() }
}

fn missing(message: impl Into<String>) -> Refusal {
    Refusal { status: StatusCode::NOT_FOUND, message: message.into() }
}

fn no_format() -> Refusal {
    missing("output format not found (available: .bin, .hex, .json)")
}

fn json_only() -> Refusal {
    missing("output format not found (available: json)")
}

/// An I/O error, or a bug of the program.
impl From<RpcError> for Refusal {
    fn from(why: RpcError) -> Refusal {
        Refusal { status: StatusCode::INTERNAL_SERVER_ERROR, message: why.message }
    }
}

impl From<node::Fault> for Refusal {
    fn from(why: node::Fault) -> Refusal {
        Refusal::from(RpcError::from(why))
    }
}

/// Splits off the format: the suffix after the last point before the last question mark.
///
/// Source: Core's `ParseDataFormat`.
fn split_format(path: &str) -> (&str, Format) {
    let path = path.rfind('?').map_or(path, |at| &path[..at]);
    let Some((before, ending)) = path.rsplit_once('.') else { return (path, Format::Unknown) };
    match ending {
        "bin" => (before, Format::Binary),
        "hex" => (before, Format::Hex),
        "json" => (before, Format::Json),
        // The empty name is in the list of formats, but is not a format.
        "" => (before, Format::Unknown),
        _ => (path, Format::Unknown),
    }
}

/// The value of a query parameter. Source: Core's `GetQueryParameterFromUri`.
fn parameter(target: &str, key: &str) -> Option<String> {
    let (_, query) = target.split_once('?')?;
    let query = query.split('#').next().unwrap_or_default();
    query.split('&').find_map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(name) == key).then(|| decoded(value))
    })
}

/// Decodes `%xx`; invalid codes stay. Source: Core's `UrlDecode`.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = bytes.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let code = code.filter(|code| code.iter().all(u8::is_ascii_hexdigit));
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        out.push(code.unwrap_or(bytes[at]));
        at += if code.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A number as Core's `ToIntegral` parses it: only digits, with a minus if the type is signed.
fn integral<T: std::str::FromStr>(text: &str) -> Option<T> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// A hash, or Core's refusal.
fn hash(text: &str) -> Result<BlockHash, Refusal> {
    Hash256::from_display(text).map(BlockHash::from_hash256).ok_or_else(|| bad(format!("Invalid hash: {text}")))
}

/// Maximum number of headers in a reply.
const HEADERS_MAX: usize = 2000;

fn header_count(text: &str) -> Result<usize, Refusal> {
    let count = integral::<usize>(text).filter(|count| (1..=HEADERS_MAX).contains(count));
    let why = || bad(format!("Header count is invalid or out of acceptable range (1-{HEADERS_MAX}): {text}"));
    count.ok_or_else(why)
}

/// Handler of a prefix.
type Handler = fn(&Context, &Live, &Query<'_>) -> Answer;

/// The prefixes in Core's order: the first match counts.
const HANDLERS: &[(&str, Handler)] = &[
    ("/rest/tx/", coins::transaction),
    ("/rest/block/notxdetails/", blocks::without_details),
    ("/rest/block/", blocks::whole),
    ("/rest/blockpart/", blocks::part),
    ("/rest/blockfilter/", filters::filter),
    ("/rest/blockfilterheaders/", filters::headers),
    ("/rest/chaininfo", chain_info),
    ("/rest/mempool/", mempool),
    ("/rest/headers/", blocks::headers),
    ("/rest/getutxos", coins::outputs),
    ("/rest/deploymentinfo/", deployment_info),
    ("/rest/deploymentinfo", deployment_info),
    ("/rest/blockhashbyheight/", blocks::hash_by_height),
    ("/rest/spenttxouts/", blocks::spent_outputs),
    // Not in Core.
    ("/rest/silentpayments/", silent_payments::answer),
];

async fn answer(State(app): State<Arc<App>>, request: Request) -> Response {
    let target = request.uri().path_and_query().map_or_else(String::new, |target| target.as_str().to_owned());
    let Some((prefix, handler)) = HANDLERS.iter().find(|(prefix, _)| target.starts_with(prefix)) else {
        return crate::plain::not_found().await;
    };
    if app.refuses() {
        return no_store(plain(StatusCode::SERVICE_UNAVAILABLE, "Work queue depth exceeded"));
    }
    let body = match request.body().is_end_stream() {
        true => Ok(Vec::new()),
        false => read_short_body(&app, request).await,
    };
    let body = match body {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let context = app.context.clone();
    let work = move || {
        let live = context.live().map_err(|why| Refusal {
            status: StatusCode::SERVICE_UNAVAILABLE,
            message: format!("Service temporarily unavailable: {}", why.message),
        })?;
        handler(&context, &live, &Query { path: &target[prefix.len()..], target: &target, body: &body })
    };
    let panicked = || Refusal { status: StatusCode::INTERNAL_SERVER_ERROR, message: "the request panicked".into() };
    let reply = app.context.pool.on_thread(work).await.unwrap_or_else(|| Err(panicked()));
    let reply = reply.unwrap_or_else(|refusal| Reply {
        status: refusal.status,
        content_type: "text/plain",
        cache: NO_STORE,
        body: (refusal.message + "\r\n").into_bytes(),
    });
    let mut response = Response::new(Body::from(reply.body));
    *response.status_mut() = reply.status;
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(reply.cache));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(reply.content_type));
    response
}

/// The result of a call.
fn called(context: &Context, name: &str, args: &[Json]) -> Result<Vec<u8>, Refusal> {
    match context.registry.get(name).map(|call| call.run) {
        Some(Run::Now(run) | Run::AtOnce(run)) => Ok(run(context, &crate::args::Args::new(args))?.text().into_bytes()),
        _ => Err(missing(format!("{name} is not served"))),
    }
}

fn chain_info(context: &Context, _live: &Live, query: &Query<'_>) -> Answer {
    match split_format(query.path) {
        (_, Format::Json) => Ok(Reply::json(NO_STORE, called(context, "getblockchaininfo", &[])?)),
        _ => Err(json_only()),
    }
}

fn deployment_info(context: &Context, live: &Live, query: &Query<'_>) -> Answer {
    let (text, Format::Json) = split_format(query.path) else { return Err(json_only()) };
    if text.is_empty() {
        return Ok(Reply::json(NO_STORE, called(context, "getdeploymentinfo", &[])?));
    }
    let hash = hash(text)?;
    if live.index.headers().find(&hash).is_none() {
        return Err(bad("Block not found"));
    }
    Ok(Reply::json(IMMUTABLE, called(context, "getdeploymentinfo", &[Json::from(text)])?))
}

fn mempool(context: &Context, _live: &Live, query: &Query<'_>) -> Answer {
    let (what, format) = split_format(query.path);
    if what != "contents" && what != "info" {
        return Err(bad("Invalid URI format. Expected /rest/mempool/<info|contents>.json"));
    }
    if format != Format::Json {
        return Err(json_only());
    }
    if what == "info" {
        return Ok(Reply::json(NO_STORE, called(context, "getmempoolinfo", &[])?));
    }
    let flag = |name: &str, default: &str| {
        let text = parameter(query.target, name).unwrap_or_else(|| default.to_owned());
        let why = || bad(format!("The \"{name}\" query parameter must be either \"true\" or \"false\"."));
        text.parse::<bool>().map_err(|_| why())
    };
    let verbose = flag("verbose", "true")?;
    let sequence = flag("mempool_sequence", "false")?;
    if verbose && sequence {
        return Err(bad("Verbose results cannot contain mempool sequence values. (hint: set \"verbose=false\")"));
    }
    Ok(Reply::json(NO_STORE, called(context, "getrawmempool", &[Json::Bool(verbose), Json::Bool(sequence)])?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_and_parameters_are_read_as_in_core() {
        for (path, want) in [
            ("abc.bin", ("abc", Format::Binary)),
            ("abc.hex?count=3", ("abc", Format::Hex)),
            ("a.b.json", ("a.b", Format::Json)),
            ("abc.xml", ("abc.xml", Format::Unknown)),
            ("abc", ("abc", Format::Unknown)),
            ("abc.", ("abc", Format::Unknown)),
            ("abc?x=.json", ("abc", Format::Unknown)),
            ("abc.json?a?b", ("abc.json?a", Format::Unknown)),
            (".json", ("", Format::Json)),
        ] {
            assert_eq!(split_format(path), want, "{path}");
        }
        let target = "/rest/x.json?count=3&%63=%41%4&count=4&empty#later&b=1";
        for (key, want) in [("count", Some("3")), ("c", Some("A%4")), ("empty", Some("")), ("b", None), ("x", None)] {
            assert_eq!(parameter(target, key).as_deref(), want, "{key}");
        }
        assert_eq!(parameter("/rest/x", "a"), None);
    }

    #[test]
    fn numbers_are_digits() {
        assert_eq!(integral::<usize>("007"), Some(7));
        assert_eq!(integral::<i32>("-1"), Some(-1));
        for text in ["", "-", "+1", " 1", "1 ", "0x1", "99999999999999999999", "-1"] {
            assert_eq!(integral::<usize>(text), None, "{text}");
        }
        assert!(header_count("2000").is_ok() && header_count("2001").is_err() && header_count("0").is_err());
        assert_eq!(hash("zz").err().map(|why| why.message), Some("Invalid hash: zz".into()));
    }
}
