//! Executes a body and returns the reply: requests of JSON-RPC 1.0 and 2.0, single or in a batch.
//!
//! Source: Bitcoin Core b88bffe, httprpc.cpp, `ExecuteHTTPRPC`; rpc/request.cpp, `JSONRPCRequest::parse`.
//! Absent on purpose: HTTP (`http`), permissions (`auth`).

use crate::args::Args;
use crate::auth::Allowed;
use crate::calls;
use crate::context::Context;
use crate::error::{Code, RpcError};
use crate::json::Json;
use crate::registry::{Call, Run, Wait};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Interval of checks of a condition that a call waits for.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum bytes of a batch's answers: further requests are not executed. One more answer may exceed it, by a few
/// hundred MiB (a block with all details).
const BATCH_BYTES_MAX: usize = 256 << 20;

/// HTTP status and body; `None`: no body is sent.
pub(crate) type Reply = (u16, Option<String>);

/// A parsed request.
struct Request {
    /// `None` if the request has no id.
    id: Option<Json>,
    is_v2: bool,
    method: String,
    params: Json,
}

/// Fields of the previous request in a batch, for a request that is not an object: Core parses all of them into one
/// variable.
#[derive(Clone)]
struct Before {
    id: Option<Json>,
    is_v2: bool,
}

impl Before {
    /// State before the first request.
    fn none() -> Before {
        Before { id: Some(Json::Null), is_v2: false }
    }

    fn of(request: &Result<Request, Unread>) -> Before {
        match request {
            Ok(Request { id, is_v2, .. }) => Before { id: id.clone(), is_v2: *is_v2 },
            Err(Unread { id, is_v2, .. }) => Before { id: id.clone(), is_v2: *is_v2 },
        }
    }
}

/// An invalid request, with the fields parsed before the error.
struct Unread {
    id: Option<Json>,
    is_v2: bool,
    error: RpcError,
}

/// Executes a body.
pub(crate) async fn execute(context: Arc<Context>, body: Vec<u8>, allowed: Allowed) -> Reply {
    // Parsing a long text takes time.
    let parsed = if body.len() < 1 << 16 {
        Json::parse(&body).ok()
    } else {
        context.pool.on_thread(move || Json::parse(&body).ok()).await.flatten()
    };
    let Some(parsed) = parsed else {
        return failed(Some(Json::Null), false, &RpcError::new(Code::Parse, "Parse error"));
    };
    if !allowed.any() {
        return (403, None);
    }
    match parsed {
        Json::Arr(requests) => batch(&context, requests, &allowed).await,
        request @ Json::Obj(_) => single(&context, request, &allowed).await,
        _ => failed(Some(Json::Null), false, &RpcError::new(Code::Parse, "Top-level object parse error")),
    }
}

async fn single(context: &Arc<Context>, request: Json, allowed: &Allowed) -> Reply {
    let request = match read(request, Before::none()) {
        Ok(request) => request,
        Err(unread) => return failed(unread.id, unread.is_v2, &unread.error),
    };
    if !allowed.allows(&request.method) {
        return (403, None);
    }
    let Request { id, is_v2, method, params } = request;
    match call(context, method, params).await {
        _ if is_v2 && id.is_none() => (204, None),
        Err(error) if !is_v2 => failed(id, is_v2, &error),
        result => (200, Some(line(&reply(result, id, is_v2)))),
    }
}

async fn batch(context: &Arc<Context>, requests: Vec<Json>, allowed: &Allowed) -> Reply {
    if !allowed.is_everything() {
        for request in &requests {
            if !matches!(request, Json::Obj(_)) {
                return failed(Some(Json::Null), false, &RpcError::new(Code::InvalidRequest, "Invalid Request object"));
            }
            match crate::args::text(request.field("method").unwrap_or(&Json::Null)) {
                Ok(method) if allowed.allows(method) => {}
                Ok(_) => return (403, None),
                Err(why) => return failed(Some(Json::Null), false, &RpcError::new(Code::Parse, why.message)),
            }
        }
    }
    let is_empty = requests.is_empty();
    let mut replies = Replies::default();
    let mut requests = requests.into_iter().peekable();
    let mut before = Before::none();
    // One switch to a pool thread serves many requests.
    while requests.peek().is_some() {
        let mut now = Vec::new();
        let mut later = None;
        for request in requests.by_ref() {
            let request = read(request, before);
            before = Before::of(&request);
            if let Ok(Request { method, .. }) = &request
                && context.registry.get(method).is_some_and(|call| matches!(call.run, Run::Later(_)))
            {
                later = Some(request);
                break;
            }
            now.push(request);
        }
        // Without any, a call that waits must not wait for a thread too.
        if !now.is_empty() {
            let shared = Arc::clone(context);
            let work = move || {
                for request in now {
                    let answer = answer_now(&shared, request, replies.are_full());
                    replies.push(answer);
                }
                replies
            };
            // Its place is free again before the next call takes one: a batch does not wait for itself.
            replies = context.pool.on_thread(work).await.unwrap_or_default();
        }
        if let Some(Ok(Request { id, is_v2, method, params })) = later {
            let result = if replies.are_full() { Err(too_long()) } else { call(context, method, params).await };
            replies.push((!(is_v2 && id.is_none())).then(|| reply(result, id, is_v2)));
        }
    }
    match replies.end() {
        None if !is_empty => (204, None),
        text => (200, Some(text.unwrap_or_else(|| "[]\n".to_owned()))),
    }
}

/// The answers of a batch, serialized.
#[derive(Default)]
struct Replies(String);

impl Replies {
    fn push(&mut self, reply: Option<Json>) {
        if let Some(reply) = reply {
            self.0.push(if self.0.is_empty() { '[' } else { ',' });
            reply.write(&mut self.0);
        }
    }

    /// Whether no more requests are executed.
    fn are_full(&self) -> bool {
        self.0.len() >= BATCH_BYTES_MAX
    }

    /// The whole text; `None` without an answer.
    fn end(mut self) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        self.0.push_str("]\n");
        Some(self.0)
    }
}

fn too_long() -> RpcError {
    let why = format!("The answers before this one have {} MiB: send fewer requests in a batch", BATCH_BYTES_MAX >> 20);
    RpcError::new(Code::LimitExceeded, why)
}

/// The reply to a request in a batch; `None` for a notification. `is_late`: it is not executed.
fn answer_now(context: &Context, request: Result<Request, Unread>, is_late: bool) -> Option<Json> {
    let Request { id, is_v2, method, params } = match request {
        Ok(request) => request,
        Err(Unread { id, is_v2, error }) => {
            return (!(is_v2 && id.is_none())).then(|| reply(Err(error), id, is_v2));
        }
    };
    let called = if is_late { Err(too_long()) } else { prepare(context, &method, params) };
    let result = called.and_then(|(call, values)| match call.run {
        Run::Now(run) | Run::AtOnce(run) => run_now(context, &method, run, &values),
        Run::Later(_) => Err(RpcError::new(Code::Internal, "a call that waits was not waited for")),
    });
    (!(is_v2 && id.is_none())).then(|| reply(result, id, is_v2))
}

fn run_now(
    context: &Context,
    method: &str,
    run: fn(&Context, &Args<'_>) -> Result<Json, RpcError>,
    values: &[Json],
) -> Result<Json, RpcError> {
    let _active = context.begin(method);
    run(context, &Args::new(values))
}

/// Runs a call, on a thread of the pool or without one.
async fn call(context: &Arc<Context>, method: String, params: Json) -> Result<Json, RpcError> {
    let (call, values) = prepare(context, &method, params)?;
    match call.run {
        Run::Now(run) => {
            let shared = Arc::clone(context);
            let done = context.pool.on_thread(move || run_now(&shared, &method, run, &values)).await;
            done.unwrap_or_else(|| Err(RpcError::new(Code::Internal, "the call panicked")))
        }
        // A switch to a pool thread would cost more than the call.
        Run::AtOnce(run) => run_now(context, &method, run, &values),
        Run::Later(run) => {
            // It occupies no thread, but counts: beyond the limit, waiting clients are refused as in Core.
            let _place = context.pool.place().await;
            let _active = context.begin(&method);
            let wait = run(context, &Args::new(&values))?;
            wait_for(context, &wait).await
        }
    }
}

async fn wait_for(context: &Context, wait: &Wait) -> Result<Json, RpcError> {
    loop {
        if let Some(answer) = (wait.until)(context)? {
            return Ok(answer);
        }
        let is_over = context.is_stopping() && !wait.outlasts_stop;
        if is_over || wait.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Ok((wait.otherwise)(context)?.unwrap_or_default());
        }
        sleep(LOOK_INTERVAL).await;
    }
}

/// The call with this name, and its parameters by position.
fn prepare(context: &Context, method: &str, params: Json) -> Result<(Call, Vec<Json>), RpcError> {
    // As in Core, calls are refused until the data directory is open.
    if method != "stop" {
        context.live()?;
    }
    let Some(call) = context.registry.get(method) else {
        let why = match calls::feature_of(method) {
            Some(feature) => format!("Method not found: it comes with an ffwd that is built with --features {feature}"),
            None => "Method not found".to_owned(),
        };
        return Err(RpcError::new(Code::MethodNotFound, why));
    };
    Ok((*call, call.bind(params)?))
}

/// Parses a request; `before` is the previous one in a batch.
fn read(request: Json, before: Before) -> Result<Request, Unread> {
    let unread = |id, is_v2, text: &str| Err(Unread { id, is_v2, error: RpcError::new(Code::InvalidRequest, text) });
    let Json::Obj(fields) = request else { return unread(before.id, before.is_v2, "Invalid Request object") };
    let mut id = None;
    let mut version = None;
    let mut method = None;
    let mut params = None;
    for (name, value) in fields {
        let slot = match &*name {
            "id" => &mut id,
            "jsonrpc" => &mut version,
            "method" => &mut method,
            "params" => &mut params,
            _ => continue,
        };
        // Of duplicate fields, the first counts.
        slot.get_or_insert(value);
    }
    let is_v2 = match version {
        None | Some(Json::Null) => false,
        Some(Json::Str(text)) if text == "1.0" => false,
        Some(Json::Str(text)) if text == "2.0" => true,
        Some(Json::Str(_)) => return unread(id, false, "JSON-RPC version not supported"),
        Some(_) => return unread(id, false, "jsonrpc field must be a string"),
    };
    let method = match method {
        Some(Json::Str(method)) => method,
        None | Some(Json::Null) => return unread(id, is_v2, "Missing method"),
        Some(_) => return unread(id, is_v2, "Method must be a string"),
    };
    let params = match params {
        Some(params @ (Json::Arr(_) | Json::Obj(_))) => params,
        None | Some(Json::Null) => Json::Arr(Vec::new()),
        Some(_) => return unread(id, is_v2, "Params must be an array or object"),
    };
    Ok(Request { id, is_v2, method, params })
}

/// Source: Core's `JSONRPCReplyObj`.
fn reply(result: Result<Json, RpcError>, id: Option<Json>, is_v2: bool) -> Json {
    let fields = if is_v2 { Json::object().put("jsonrpc", "2.0") } else { Json::object() };
    let fields = match result {
        Ok(result) if is_v2 => fields.put("result", result),
        Ok(result) => fields.put("result", result).put("error", Json::Null),
        Err(error) if is_v2 => fields.put("error", error.json()),
        Err(error) => fields.put("result", Json::Null).put("error", error.json()),
    };
    fields.put_some("id", id).end()
}

fn line(json: &Json) -> String {
    let mut text = json.text();
    text.push('\n');
    text
}

/// Source: Core's `JSONErrorReply`.
fn failed(id: Option<Json>, is_v2: bool, error: &RpcError) -> Reply {
    let status = match error.code {
        Code::InvalidRequest => 400,
        Code::MethodNotFound => 404,
        _ => 500,
    };
    (status, Some(line(&reply(Err(error.clone()), id, is_v2))))
}
