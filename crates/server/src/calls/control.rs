//! Calls about the server itself. Source: Bitcoin Core b88bffe, rpc/server.cpp.

use crate::args::Args;
use crate::context::Context;
use crate::error::RpcError;
use crate::json::Json;
use crate::openrpc::{self, Scope};
use crate::registry::{Arg, Call, Kind, Run, Wait};
use std::time::{Duration, Instant};

/// These calls.
pub(super) const CALLS: &[Call] = &[
    Call {
        category: "control",
        name: "getopenrpcinfo",
        about: "Returns an OpenRPC document for currently available RPC commands.",
        args: &[Arg::optional("show_hidden", Kind::Bool, "Also include hidden RPC commands and arguments.")],
        run: Run::Now(get_open_rpc_info),
    },
    Call {
        category: "control",
        name: "rpc.discover",
        about: "Returns an OpenRPC schema as a description of this service.",
        args: &[],
        run: Run::Now(discover),
    },
    Call {
        category: "control",
        name: "getrpcinfo",
        about: "Returns details of the RPC server.",
        args: &[],
        run: Run::Now(get_rpc_info),
    },
    Call {
        category: "control",
        name: "help",
        about: "List all commands, or get help for a specified command.",
        args: &[Arg::optional("command", Kind::Str, "The command to get help on")],
        run: Run::Now(help),
    },
    Call {
        category: "control",
        name: "stop",
        about: "Request a graceful shutdown of ffwd.",
        args: &[Arg::optional("wait", Kind::Num, "how long to wait in ms").hidden()],
        run: Run::Later(stop),
    },
    Call {
        category: "control",
        name: "uptime",
        about: "Returns the total uptime of the server.",
        args: &[],
        run: Run::AtOnce(uptime),
    },
];

fn get_open_rpc_info(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let scope = if args.bool_or(0, false)? { Scope::WithHidden } else { Scope::Public };
    Ok(openrpc::document(&context.registry, context.program.version, scope))
}

fn discover(context: &Context, _args: &Args<'_>) -> Result<Json, RpcError> {
    Ok(openrpc::document(&context.registry, context.program.version, Scope::Public))
}

fn get_rpc_info(context: &Context, _args: &Args<'_>) -> Result<Json, RpcError> {
    let active = context.active_calls().into_iter().map(|(method, since)| {
        let micros = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
        Json::object().put("method", method).put("duration", micros).end()
    });
    let log = context.program.log_path.to_string_lossy().into_owned();
    Ok(Json::object().put("active_commands", active.collect::<Vec<_>>()).put("logpath", log).end())
}

fn help(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    match args.maybe_text(0)?.unwrap_or_default() {
        "dump_all_command_conversions" => Ok(context.registry.conversions()),
        command => Ok(context.registry.help(command).into()),
    }
}

/// It occupies no thread, so that it is answered while all of them are blocked.
fn stop(context: &Context, args: &Args<'_>) -> Result<Wait, RpcError> {
    context.stop();
    let pause = args.maybe_int64(0)?.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis);
    let answer = || Ok(Some("ffwd stopping".into()));
    Ok(Wait {
        until: Box::new(move |_| if pause.is_none() { answer() } else { Ok(None) }),
        deadline: pause.map(|pause| Instant::now() + pause),
        outlasts_stop: true,
        otherwise: Box::new(move |_| answer()),
    })
}

fn uptime(context: &Context, _args: &Args<'_>) -> Result<Json, RpcError> {
    Ok(context.handle.uptime().as_secs().into())
}
