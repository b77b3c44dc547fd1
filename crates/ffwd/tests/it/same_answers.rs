//! A served data directory beside a real bitcoind on a copy of it: the same bytes come back, by JSON-RPC and by REST;
//! with `SLOW=1` for every block of a real chain.

use crate::bitcoind::{Bitcoind, copy, is_there};
use crate::data;
use crate::run::{run, slow, start};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// User `u`, password `p`: as Core's share/rpcauth writes it, and as a request has it.
const RPCAUTH: &str = "u:aabb$75337cd533210e41bf890a347c538743537c3d57270809c393a01eb2bb4ab040";
const BASIC: &str = "dTpw";
const INDEXES: [&str; 4] = ["txindex", "blockfilterindex", "coinstatsindex", "txospenderindex"];
/// Nothing that is asked here takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Status and body of a request; `None` where no server listens.
fn http(port: u16, method: &str, path: &str, body: &str) -> Option<(String, Vec<u8>)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic {BASIC}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + body).as_bytes()).ok()?;
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).ok()?;
    let end = reply.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8(reply[..end].to_vec()).ok()?;
    let status = head.lines().next()?.split(' ').nth(1)?.to_owned();
    let kind = head.lines().find(|line| line.to_ascii_lowercase().starts_with("content-type:"));
    let kind = kind.and_then(|line| line.split_once(':')).map_or("", |(_, value)| value.trim());
    Some((format!("{status} {kind}"), reply[end + 4..].to_vec()))
}

fn rpc(port: u16, method: &str, params: &Value) -> Option<(String, Vec<u8>)> {
    http(port, "POST", "/", &json!({ "method": method, "params": params, "id": 1 }).to_string())
}

fn text(reply: Option<(String, Vec<u8>)>) -> Option<(String, String)> {
    reply.map(|(status, body)| (status, String::from_utf8(body).unwrap()))
}

fn result(port: u16, method: &str, params: &Value) -> Value {
    let (_, body) = rpc(port, method, params).expect("it answers");
    serde_json::from_slice::<Value>(&body).unwrap()["result"].take()
}

/// What is asked about a block, and its transactions.
fn calls(block: &Value) -> Vec<(&'static str, Value)> {
    let (hash, height) = (&block["hash"], &block["height"]);
    let mut calls = vec![
        ("getblockstats", json!([height])),
        ("getblockstats", json!([hash, ["avgfee", "txs", "utxo_size_inc"]])),
        ("getblockfilter", json!([hash])),
        ("gettxoutsetinfo", json!(["muhash", height])),
        ("gettxoutsetinfo", json!(["none", hash])),
    ];
    calls.extend((0..4).map(|verbosity| ("getblock", json!([hash, verbosity]))));
    for tx in block["tx"].as_array().unwrap() {
        let (txid, hex) = (&tx["txid"], &tx["hex"]);
        calls.push(("gettxoutproof", json!([[txid], hash])));
        calls.push(("gettxoutproof", json!([[txid]])));
        calls.push(("decoderawtransaction", json!([hex])));
        calls.extend((0..3).map(|verbosity| ("getrawtransaction", json!([txid, verbosity]))));
        calls.extend((0..3).map(|verbosity| ("getrawtransaction", json!([txid, verbosity, hash]))));
        for output in tx["vout"].as_array().unwrap() {
            let script = &output["scriptPubKey"];
            calls.push(("gettxout", json!([txid, output["n"]])));
            calls.push(("decodescript", json!([script["hex"]])));
            if output["n"] == 0 {
                calls.push(("scantxoutset", json!(["start", [script["desc"]]])));
            }
            if script.get("address").is_some() {
                calls.push(("validateaddress", json!([script["address"]])));
            }
        }
    }
    calls
}

/// What REST is asked about a block.
fn paths(block: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (hash, txid) = (text(&block["hash"]), text(&block["tx"][0]["txid"]));
    let mut paths = vec![
        format!("blockpart/{hash}.bin?offset=8&size=70"),
        format!("blockpart/{hash}.hex?offset=0&size=99999999"),
        format!("headers/{hash}.json?count=3"),
    ];
    for path in [
        format!("block/{hash}"),
        format!("block/notxdetails/{hash}"),
        format!("headers/2/{hash}"),
        format!("blockhashbyheight/{}", block["height"]),
        format!("spenttxouts/{hash}"),
        format!("getutxos/checkmempool/{txid}-0/{txid}-1"),
        format!("tx/{txid}"),
        format!("blockfilter/basic/{hash}"),
        format!("blockfilterheaders/basic/{hash}"),
        format!("blockfilter/other/{hash}"),
        format!("getutxos/{txid}"),
        "blockhashbyheight/-1".to_owned(),
    ] {
        paths.extend(["bin", "hex", "json", "xml"].map(|ending| format!("{path}.{ending}")));
    }
    paths
}

/// What is asked about a mempool that is empty, and about who spent which of these outputs.
fn about_spenders(outputs: &[Value]) -> Vec<(&'static str, Value)> {
    let (one, id) = (&outputs[1], "11".repeat(32));
    let mut calls: Vec<(&str, Value)> =
        ["getmempoolentry", "getmempoolancestors", "getmempooldescendants"].map(|name| (name, json!([id]))).into();
    calls.push(("getmempoolentry", json!(["11"])));
    calls.push(("getmempoolancestors", json!([id, true])));
    calls.push(("getmempooldescendants", json!([id, 5])));
    for params in [
        json!([outputs]),
        json!([outputs, { "return_spending_tx": true }]),
        json!([[one], { "mempool_only": true }]),
        json!([[one], { "mempool_only": null }]),
        json!([[one], { "mempool_only": 1 }]),
        json!([[one], { "other": true }]),
        json!([[]]),
        json!([[7]]),
        json!([[{ "txid": id }]]),
        json!([[{ "txid": "zz", "vout": 0 }]]),
        json!([[{ "txid": id, "vout": -1 }]]),
        json!([[{ "txid": id, "vout": 0, "n": 0 }]]),
        json!([[{ "vout": 4_294_967_296_u64, "txid": id }]]),
        json!([[{ "vout": 4_000_000, "txid": id.to_uppercase() }, one]]),
    ] {
        calls.push(("gettxspendingprevout", params));
    }
    calls
}

#[test]
fn blocks_are_answered_as_by_bitcoind() {
    let Some(dir) = data::real("regtest", "regtest_1_206").filter(|_| is_there()) else { return };
    let (on, off) = (INDEXES.map(|name| format!("--{name}")).join(" "), INDEXES.map(|name| format!("-{name}=1")));
    run(dir.path(), &format!("reindex --datadir @ --chain regtest --json {on}")).good();
    let other = tempfile::tempdir().unwrap();
    copy(dir.path(), other.path());
    let auth = format!("-rpcauth={RPCAUTH}");
    let mut options: Vec<&str> = off.iter().map(String::as_str).collect();
    options.extend([&auth[..], "-rest=1"]);
    let core = Bitcoind::start(other.path(), &options);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut served = start(
        dir.path(),
        &format!("serve --datadir @ --chain regtest --rest {on} --rpcport {port} --rpcauth={RPCAUTH}"),
    );
    let begin = Instant::now();
    while rpc(port, "getblockcount", &json!([])).is_none_or(|(status, _)| !status.starts_with("200")) {
        assert!(served.goes_on() && begin.elapsed() < PATIENCE, "it answers, or says why it does not");
        std::thread::sleep(Duration::from_millis(50));
    }
    while core.rpc(&["getindexinfo"]).contains("\"synced\": false") {
        assert!(begin.elapsed() < PATIENCE, "bitcoind finds its indexes in a moment");
        std::thread::sleep(Duration::from_millis(50));
    }
    // 206 is the tip.
    for height in (0..=206).step_by(if slow() { 1 } else { 103 }) {
        let hash = result(core.rpc_port, "getblockhash", &json!([height]));
        let block = result(core.rpc_port, "getblock", &json!([hash, 2]));
        for (method, params) in calls(&block) {
            let of = |port| text(rpc(port, method, &params));
            assert_eq!(of(port), of(core.rpc_port), "{method} {params}");
        }
        for path in paths(&block) {
            let get = |port| http(port, "GET", &format!("/rest/{path}"), "");
            assert!(get(port) == get(core.rpc_port), "{path}: {:?} instead of {:?}", get(port), get(core.rpc_port));
        }
    }
    let outputs = (1..=206).map(|height| {
        let hash = result(port, "getblockhash", &json!([height]));
        json!({ "txid": result(port, "getblock", &json!([hash]))["tx"][0], "vout": 0 })
    });
    let outputs: Vec<Value> = outputs.collect();
    for (method, params) in about_spenders(&outputs) {
        let of = |port| text(rpc(port, method, &params));
        assert_eq!(of(port), of(core.rpc_port), "{method} {params}");
    }
    let found = result(port, "gettxspendingprevout", &json!([outputs]));
    let spent = found.as_array().unwrap().iter().filter(|entry| entry.get("spendingtxid").is_some()).count();
    assert!(0 < spent && spent < outputs.len(), "{spent} of {} are spent", outputs.len());
    served.signal("INT");
    assert_eq!(served.ended().code, Some(0));
    core.stop();
}
