//! Arguments of calls: JSON of a request, and each argument as every kind that a call may ask for.
#![no_main]

use server::args::{self, Args};
use show::json::Json;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(json) = Json::parse(data) else { return };
    let one = [json];
    for values in [&one[..], &[]] {
        let args = Args::new(values);
        for at in 0..3 {
            let _ = (args.get(at), args.is_given(at), args.int(at), args.int64(at), args.maybe_int64(at));
            let _ = (args.text(at), args.maybe_text(at), args.bool(at), args.bool_or(at, true));
            let _ = (args.block_hash(at, "blockhash"), args.txid(at, "txid"), args.list(at).map(<[Json]>::len));
        }
        for value in values {
            let _ = (args::int::<u32>(value), args::text(value), args::boolean(value));
            let _ = (args::hash(value, "hash"), args::bytes(value, "bytes"));
        }
    }
});
