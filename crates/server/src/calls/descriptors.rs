//! Calls about output descriptors. Source: Bitcoin Core b88bffe, rpc/output_script.cpp.

use super::scan_coins::parse_range;
use crate::args::Args;
use crate::context::Context;
use crate::descriptor::{Descriptors, Known, Range, checksum::checksum};
use crate::error::RpcError;
use crate::json::Json;
use crate::output::{Payee, Prefixes};
use crate::registry::{Arg, Call, Kind, Run};

/// These calls.
pub(super) const CALLS: &[Call] = &[
    Call {
        category: "util",
        name: "deriveaddresses",
        about: "Derives one or more addresses corresponding to an output descriptor.",
        args: &[
            Arg::needed("descriptor", Kind::Str, "The descriptor."),
            Arg::optional(
                "range",
                Kind::Range,
                "If a ranged descriptor is used, this specifies the end or the range (in [begin,end] notation) to derive.",
            ),
        ],
        run: Run::Now(derive_addresses),
    },
    Call {
        category: "util",
        name: "getdescriptorinfo",
        about: "Analyses a descriptor.",
        args: &[Arg::needed("descriptor", Kind::Str, "The descriptor.")],
        run: Run::Now(get_descriptor_info),
    },
];

/// Number of positions between two checks whether the program ends.
const LOOK_INTERVAL: u32 = 1024;

fn get_descriptor_info(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let text = args.text(0)?;
    let prefixes = Prefixes::of(context.live()?.params().chain);
    let read = Descriptors::read(text, &prefixes).map_err(RpcError::not_found)?;
    let texts = read.texts(&prefixes);
    let body = text.split('#').next().unwrap_or_default();
    let sum = checksum(body.as_bytes()).map(|sum| String::from_utf8_lossy(&sum).into_owned());
    let several = (texts.len() > 1).then(|| texts.iter().map(|text| Json::from(text.as_str())).collect::<Vec<_>>());
    Ok(Json::object()
        .put("descriptor", texts.first().map_or("", String::as_str))
        .put_some("multipath_expansion", several)
        .put("checksum", sum.unwrap_or_default())
        .put("isrange", read.is_ranged())
        .put("issolvable", read.is_solvable())
        .put("hasprivatekeys", read.has_private_keys())
        .end())
}

fn derive_addresses(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let text = args.text(0)?;
    let range = args.is_given(1).then(|| parse_range(args.get(1))).transpose()?;
    let prefixes = Prefixes::of(context.live()?.params().chain);
    let read = Descriptors::read_checked(text, &prefixes).map_err(RpcError::not_found)?;
    if !read.is_ranged() && range.is_some() {
        return Err(RpcError::parameter("Range should not be specified for an un-ranged descriptor"));
    }
    if read.is_ranged() && range.is_none() {
        return Err(RpcError::parameter("Range must be specified for a ranged descriptor"));
    }
    let range = range.unwrap_or(Range { first: 0, last: 0 });
    let lists = (0..read.count()).map(|which| addresses(context, &read, which, range, &prefixes));
    let mut lists = lists.collect::<Result<Vec<Json>, RpcError>>()?;
    Ok(if lists.len() == 1 { lists.remove(0) } else { lists.into() })
}

/// Source: Core's `DeriveAddresses`.
fn addresses(
    context: &Context,
    read: &Descriptors,
    which: usize,
    range: Range,
    prefixes: &Prefixes,
) -> Result<Json, RpcError> {
    let mut addresses: Vec<Json> = Vec::new();
    for position in range.first..=range.last {
        if position % LOOK_INTERVAL == 0 && context.is_stopping() {
            return Err(node::handle::Unanswered::Ended.into());
        }
        let scripts = read.scripts(which, position, &mut Known::default());
        let scripts = scripts.ok_or_else(|| RpcError::not_found("Cannot derive script without private keys"))?;
        for script in &scripts {
            let payee = Payee::of(script);
            match prefixes.address(&payee) {
                Some(address) => addresses.push(address.into()),
                // If a key has several scripts, the bare key has no address.
                None if scripts.len() > 1 && matches!(payee, Payee::PubKey(_)) => {}
                None => return Err(RpcError::not_found("Descriptor does not have a corresponding address")),
            }
        }
    }
    if addresses.is_empty() {
        return Err(RpcError::misc("Unexpected empty result"));
    }
    Ok(addresses.into())
}
