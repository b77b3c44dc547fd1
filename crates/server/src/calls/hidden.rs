//! Calls for tests of clients. Source: Bitcoin Core b88bffe, rpc/node.cpp, rpc/blockchain.cpp.

use crate::args::Args;
use crate::context::Context;
use crate::error::RpcError;
use crate::json::Json;
use crate::registry::{Arg, Call, Kind, Run};

/// These calls.
pub(super) const CALLS: &[Call] = &[
    Call { category: "hidden", name: "echo", about: ECHO, args: ECHOED, run: Run::Now(echo) },
    Call { category: "hidden", name: "echojson", about: ECHO, args: ECHOED, run: Run::Now(echo) },
    Call {
        category: "hidden",
        name: "syncwithvalidationinterfacequeue",
        about: "Waits for the validation interface queue to catch up on everything that was there when we entered this function.",
        args: &[],
        run: Run::Now(sync_with_queue),
    },
];

const ECHO: &str = "Simply echo back the input arguments. This command is for testing.\n\n\
                    It will return an internal bug report when arg9='trigger_internal_bug' is passed.\n\n\
                    The difference between echo and echojson is that echojson has argument conversion enabled in the client-side table in \
                    bitcoin-cli and the GUI. There is no server-side difference.";
const ECHOED: &[Arg] = &[
    echoed("arg0"),
    echoed("arg1"),
    echoed("arg2"),
    echoed("arg3"),
    echoed("arg4"),
    echoed("arg5"),
    echoed("arg6"),
    echoed("arg7"),
    echoed("arg8"),
    echoed("arg9"),
];

const fn echoed(name: &'static str) -> Arg {
    Arg::optional(name, Kind::Str, "").unchecked()
}

fn echo(_context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    if matches!(args.get(9), Json::Str(text) if text == "trigger_internal_bug") {
        return Err(RpcError::misc("Internal bug detected: request.params[9].get_str() != \"trigger_internal_bug\""));
    }
    Ok(args.all().to_vec().into())
}

/// Returns after the job has finished all earlier actions and has notified all calls that wait for blocks.
fn sync_with_queue(context: &Context, _args: &Args<'_>) -> Result<Json, RpcError> {
    context.ask(|_| Ok(()))?;
    Ok(Json::Null)
}
