//! Block filters over REST. Source: Bitcoin Core b88bffe, rest.cpp, blockfilter.h.

use super::{Answer, Format, IMMUTABLE, NO_STORE, Query, Refusal, Reply, bad, hash, header_count, missing};
use super::{parameter, split_format};
use crate::calls::indexed::is_index_ready;
use crate::context::Context;
use crate::text::JsonText;
use indexes::IndexKind;
use node::chain::index::Validity;
use node::chain::tree::NodeId;
use node::handle::Live;
use primitives::encode::put_compact_size;

/// The number of the basic type.
const BASIC: u8 = 0;

fn check_index(live: &Live, kind: &str) -> Result<(), Refusal> {
    if kind != "basic" {
        return Err(bad(format!("Unknown filtertype {kind}")));
    }
    if !live.has_index(IndexKind::BlockFilter) {
        return Err(bad(format!("Index is not enabled for filtertype {kind}")));
    }
    Ok(())
}

const CORRUPT: &str = "Filter not found. This error is unexpected and indicates index corruption.";
const INDEXING: &str = "Filter not found. Block filters are still in the process of being indexed.";

/// The filter of a block.
pub(super) fn filter(context: &Context, live: &Live, query: &Query<'_>) -> Answer {
    let (path, format) = split_format(query.path);
    let parts: Vec<&str> = path.split('/').collect();
    let [kind, text] = parts[..] else {
        return Err(bad("Invalid URI format. Expected /rest/blockfilter/<filtertype>/<blockhash>"));
    };
    let hash = hash(text)?;
    check_index(live, kind)?;
    let id = live.index.headers().find(&hash).ok_or_else(|| missing(format!("{text} not found")))?;
    let was_connected = live.index.read().body(id).validity() >= Validity::Scripts;
    let is_ready = is_index_ready(context, live, IndexKind::BlockFilter)?;
    let Some((filter, _)) = live.block_filter(id)? else {
        return Err(missing(match (was_connected, is_ready) {
            (false, _) => "Filter not found. Block was not connected to active chain.",
            (true, false) => INDEXING,
            (true, true) => CORRUPT,
        }));
    };
    if format == Format::Json {
        let mut json = JsonText::new();
        json.open();
        json.key("filter").hex(&filter);
        json.close();
        return Ok(Reply::json(IMMUTABLE, json.into_bytes()));
    }
    let mut out = vec![BASIC];
    out.extend_from_slice(hash.as_bytes());
    put_compact_size(&mut out, filter.len() as u64);
    out.extend_from_slice(&filter);
    Reply::bytes(format, IMMUTABLE, out)
}

/// Filter headers of the active chain from a block on.
pub(super) fn headers(context: &Context, live: &Live, query: &Query<'_>) -> Answer {
    let (path, format) = split_format(query.path);
    let parts: Vec<&str> = path.split('/').collect();
    let (kind, count, text) = match parts[..] {
        [kind, count, text] => (kind, count.to_owned(), text),
        [kind, text] => (kind, parameter(query.target, "count").unwrap_or_else(|| "5".into()), text),
        _ => {
            let why =
                "Invalid URI format. Expected /rest/blockfilterheaders/<filtertype>/<blockhash>.<ext>?count=<count>";
            return Err(bad(why));
        }
    };
    let count = header_count(&count)?;
    let hash = hash(text)?;
    check_index(live, kind)?;
    let ids: Vec<NodeId> = {
        let index = live.index.read();
        let first = index.headers().find(&hash).filter(|id| index.is_active(*id));
        let from = first.map_or(index.active().len(), |id| index.headers().height(id).to_usize());
        index.active()[from..].iter().take(count).copied().collect()
    };
    let is_ready = is_index_ready(context, live, IndexKind::BlockFilter)?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        let header = live.filter_header(id)?;
        found.push(header.ok_or_else(|| missing(if is_ready { CORRUPT } else { INDEXING }))?);
    }
    if format == Format::Json {
        let mut json = JsonText::new();
        json.open_list();
        found.iter().for_each(|header| json.hash(header));
        json.close_list();
        return Ok(Reply::json(NO_STORE, json.into_bytes()));
    }
    Reply::bytes(format, NO_STORE, found.iter().flat_map(|header| header.0).collect())
}
