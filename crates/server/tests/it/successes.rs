//! Every call succeeds, on a real chain: one row for each call of the registry, with arguments and what its result must be.
//!
//! A call without a row fails the test: a call whose success nothing runs may never have worked. Answers are those of
//! bitcoind b88bffe to the same chain (`snapshots/regtest_assumeutxo_0_399`), but for what is the program's own.

use crate::calls::text;
use crate::site::Site;
use server::json::Json;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use testkit::data;

/// What a result must be.
enum Want {
    /// This text, and nothing else.
    Is(&'static str),
    /// These pieces, wherever.
    Has(&'static [&'static str]),
}
use Want::{Has, Is};

type Row = (&'static str, &'static str, Want);

const TIP: &str = "6a970fb5ebb7623d8d4622022c0b7315ca7765a53084d48c48585332ff45928d";
/// Block 200 and its second transaction.
const BLOCK: &str = "2a52e0073347c8516fb4dd483229b8e8b164f3cd9b0d609c1ebc6e6f346571d8";
const TXID: &str = "f66ee666b41d078de45f289f60075b989dc0e71b84a3348795010f991a2179cd";
const SPENT: &str = "4adee23c83cfb2a65e5a77d20589b6f93d78bcb5432d3b966eb9e9721f9ecb70";
const ADDRESS: &str = "bcrt1p9yfmy5h72durp7zrhlw9lf7jpwjgvwdg0jr0lqmmjtgg83266lqsekaqka";
const RAW: &str = "0200000000010170cb9e1f72e9b96e963b2d43b5bc783df9b68905d2775a5ea6b2cf833ce2de4a000000000000000000012078052a010000002251202913b252fe537830f843bfdc5fa7d20ba48639a87c86ff837b92d083c55ad7c102015121c0000000000000000000000000000000000000000000000000000000000000000100000000";
const PROOF: &str = "0000003088e816cbe321467bd701f81a399ba4b93648f428d70fe34ce30712b7961656701ee03e7b711e8a22310f48bc3230078d33cd53f7bef516a91cb0f084f82614b3fee5494dffff7f200100000002000000026b37d16915d9965855917438caf76e500c0f2e7f3c9284211a8bb7d131739399cd79211a990f01958734a3841be7c09d985b07609f285fe48d071db466e66ef60105";
const AT_TIP: &str = "{\"hash\":\"6a970fb5ebb7623d8d4622022c0b7315ca7765a53084d48c48585332ff45928d\",\"height\":399}";

/// On the chain of 399 blocks, in this order. `@NAME` stands for one of the constants.
const ON_CHAIN: &[Row] = &[
    ("getbestblockhash", "[]", Has(&[TIP])),
    ("getblock", "[\"@BLOCK\", 1]", Has(&["\"height\":200", "\"nTx\":2", TXID, "\"weight\":1315"])),
    ("getblockcount", "[]", Is("399")),
    (
        "getblockfilter",
        "[\"@TIP\"]",
        Is("{\"filter\":\"018c6240\",\"header\":\"b5aca4abdeac09bfe9e3a02f3a31c45449854e31940ccea4cfe0884b498f9f27\"}"),
    ),
    ("getblockhash", "[200]", Has(&[BLOCK])),
    (
        "getsilentpaymentblockdata",
        "[\"@BLOCK\", 4999968800, true]",
        // By the reference code of BIP 352, from the transaction and what it spends.
        Is("{\"bip352_tweaks\":[\"02cde96698518b659a8a65c54f26abb14757fdd15400b35fe312bb83b9db51a694\"]}"),
    ),
    (
        "getblockheader",
        "[\"@TIP\"]",
        Has(&[
            "\"confirmations\":1,\"height\":399",
            "\"chainwork\":\"0000000000000000000000000000000000000000000000000000000000000320\"",
        ]),
    ),
    (
        "getblockstats",
        "[200, [\"txs\", \"totalfee\", \"utxo_increase\", \"subsidy\"]]",
        Is("{\"subsidy\":2500000000,\"totalfee\":31200,\"txs\":2,\"utxo_increase\":2}"),
    ),
    ("waitforblock", "[\"@TIP\", 1000]", Is(AT_TIP)),
    ("waitforblockheight", "[399, 1000]", Is(AT_TIP)),
    ("waitfornewblock", "[1]", Is(AT_TIP)),
    (
        "getblockchaininfo",
        "[]",
        Has(&["\"chain\":\"regtest\",\"blocks\":399,\"headers\":399", TIP, "\"pruned\":false"]),
    ),
    ("getchainstates", "[]", Has(&["{\"headers\":399,\"chainstates\":[{\"blocks\":399", "\"validated\":true}]}"])),
    (
        "getchaintips",
        "[]",
        Is(
            "[{\"height\":399,\"hash\":\"6a970fb5ebb7623d8d4622022c0b7315ca7765a53084d48c48585332ff45928d\",\"branchlen\":0,\"status\":\"active\"}]",
        ),
    ),
    (
        "getchaintxstats",
        "[100, \"@TIP\"]",
        Has(&["\"txcount\":434", "\"window_tx_count\":100,\"txrate\":5.882352941176471"]),
    ),
    (
        "getdeploymentinfo",
        "[]",
        Has(&["\"height\":399", "\"status\":\"locked_in\",\"since\":288", "\"elapsed\":112,\"count\":112"]),
    ),
    ("getdifficulty", "[]", Is("4.656542373906925e-10")),
    ("decoderawtransaction", "[\"@RAW\"]", Has(&[TXID, "\"vsize\":104,\"weight\":415", "\"value\":49.99968800"])),
    (
        "decodescript",
        "[\"76a9142b4569203694fc997e13f2c0a1383b9e16c77a0d88ac\"]",
        Has(&[
            "addr(mjTkW3DjgyZck4KbiRusZsqTgaYTxdSz6z)#jdtmxdcm",
            "2MwgqnoVKWBb97BpddmCHNp9sndWiV6nzR5",
            "2NAu8gm3D7qyWoGbtXSNLF83x3BZDBtyFwm",
        ]),
    ),
    (
        "deriveaddresses",
        "[\"pkh(02f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9)#9tvfrq3z\"]",
        Has(&["[\"m"]),
    ),
    (
        "getdescriptorinfo",
        "[\"pkh(02f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9)\"]",
        Has(&["\"checksum\":\"9tvfrq3z\",\"isrange\":false,\"issolvable\":true,\"hasprivatekeys\":false"]),
    ),
    (
        "createmultisig",
        "[1, [\"0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798\"], \"bech32\"]",
        Is(
            "{\"address\":\"bcrt1q9qs9xv7mjghkd69fgx62xttxmeww5q7eekjxu0nxtzf4yu4ekf8s0sr689\",\"redeemScript\":\"51210279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f8179851ae\",\"descriptor\":\"wsh(multi(1,0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798))#ukecy0kt\"}",
        ),
    ),
    (
        "createrawtransaction",
        "[[{\"txid\":\"@TXID\",\"vout\":0}], [{\"@ADDRESS\":1.5},{\"data\":\"0a0b\"}], 200]",
        Is(
            "\"0200000001cd79211a990f01958734a3841be7c09d985b07609f285fe48d071db466e66ef60000000000fdffffff0280d1f008000000002251202913b252fe537830f843bfdc5fa7d20ba48639a87c86ff837b92d083c55ad7c10000000000000000046a020a0bc8000000\"",
        ),
    ),
    (
        "signmessagewithprivkey",
        // Of Core's rpc_signmessagewithprivkey.py.
        "[\"cUeKHd5orzT3mz8P9pxyREHfsWtVfgsfDjiZZBcjUBAaGk1BTj7N\", \"This is just a test message\"]",
        Is("\"INbVnW4e6PeRmsv2Qgu8NuopvrVjkcxob+sX8OcZG0SALhWybUjzMLPdAsXI46YZGb0KQTRii+wWIQzRpG/U+S0=\""),
    ),
    (
        "verifymessage",
        "[\"mpLQjfK79b7CCV4VMJWEWAj5Mpx8Up5zxB\", \"INbVnW4e6PeRmsv2Qgu8NuopvrVjkcxob+sX8OcZG0SALhWybUjzMLPdAsXI46YZGb0KQTRii+wWIQzRpG/U+S0=\", \"This is just a test message\"]",
        Is("true"),
    ),
    (
        "getdescriptoractivity",
        "[[\"@BLOCK\"], [\"addr(@ADDRESS)\"]]",
        Is(concat!(
            "{\"activity\":[{\"type\":\"spend\",\"amount\":50.00000000,\"blockhash\":\"2a52e0073347c8516fb4dd483229b8e8b164f3cd9b0d609c1ebc6e6f346571d8\",\"height\":200,",
            "\"spend_txid\":\"f66ee666b41d078de45f289f60075b989dc0e71b84a3348795010f991a2179cd\",\"spend_vin\":0,",
            "\"prevout_txid\":\"4adee23c83cfb2a65e5a77d20589b6f93d78bcb5432d3b966eb9e9721f9ecb70\",\"prevout_vout\":0,\"prevout_spk\":{\"asm\":\"1 2913b252fe537830f843bfdc5fa7d20ba48639a87c86ff837b92d083c55ad7c1\",\"desc\":\"rawtr(2913b252fe537830f843bfdc5fa7d20ba48639a87c86ff837b92d083c55ad7c1)#jfevjtpc\",",
            "\"hex\":\"51202913b252fe537830f843bfdc5fa7d20ba48639a87c86ff837b92d083c55ad7c1\",\"address\":\"bcrt1p9yfmy5h72durp7zrhlw9lf7jpwjgvwdg0jr0lqmmjtgg83266lqsekaqka\",\"type\":\"witness_v1_taproot\"}},",
            "{\"type\":\"receive\",\"amount\":49.99968800,\"blockhash\":\"2a52e0073347c8516fb4dd483229b8e8b164f3cd9b0d609c1ebc6e6f346571d8\",\"height\":200,",
            "\"txid\":\"f66ee666b41d078de45f289f60075b989dc0e71b84a3348795010f991a2179cd\",\"vout\":0,\"output_spk\":{\"asm\":\"1 2913b252fe537830f843bfdc5fa7d20ba48639a87c86ff837b92d083c55ad7c1\",\"desc\":\"rawtr(2913b252fe537830f843bfdc5fa7d20ba48639a87c86ff837b92d083c55ad7c1)#jfevjtpc\",",
            "\"hex\":\"51202913b252fe537830f843bfdc5fa7d20ba48639a87c86ff837b92d083c55ad7c1\",\"address\":\"bcrt1p9yfmy5h72durp7zrhlw9lf7jpwjgvwdg0jr0lqmmjtgg83266lqsekaqka\",\"type\":\"witness_v1_taproot\"}}]}",
        )),
    ),
    ("getrawtransaction", "[\"@TXID\"]", Has(&[RAW])),
    ("gettxoutproof", "[[\"@TXID\"]]", Has(&[PROOF])),
    ("validateaddress", "[\"@ADDRESS\"]", Has(&["\"isvalid\":true", "\"witness_version\":1"])),
    ("verifytxoutproof", "[\"@PROOF\"]", Is("[\"f66ee666b41d078de45f289f60075b989dc0e71b84a3348795010f991a2179cd\"]")),
    ("gettxout", "[\"@TXID\", 0]", Has(&[TIP, "\"confirmations\":200,\"value\":49.99968800", "\"coinbase\":false"])),
    (
        "gettxoutsetinfo",
        "[\"muhash\"]",
        Has(&[
            "\"txouts\":399,\"bogosize\":30366,\"muhash\":\"8dacf73d12e2e6b50e14b22e8638f44c7c9d6cb42aa9fcaeee662b52804be352\",\"total_amount\":12450.00000000",
        ]),
    ),
    (
        "gettxspendingprevout",
        "[[{\"txid\":\"@SPENT\",\"vout\":0}]]",
        Has(&["\"spendingtxid\":\"f66ee666b41d078de45f289f60075b989dc0e71b84a3348795010f991a2179cd\"", BLOCK]),
    ),
    (
        "scantxoutset",
        "[\"start\", [\"addr(@ADDRESS)\"]]",
        Has(&["\"success\":true,\"txouts\":399,\"height\":399", "\"amount\":49.99968800", "\"confirmations\":191"]),
    ),
    (
        "scanblocks",
        "[\"start\", [\"addr(@ADDRESS)\"], 0, 399, \"basic\", {\"filter_false_positives\":true}]",
        Has(&["\"from_height\":0,\"to_height\":399,\"relevant_blocks\":[\"", "\"completed\":true"]),
    ),
    (
        "scanblocks",
        "[\"start\", [\"addr(@ADDRESS)\"], 1, 1]",
        Has(&["\"to_height\":1,\"relevant_blocks\":[],\"completed\":true"]),
    ),
    ("scanblocks", "[\"status\"]", Is("null")),
    ("scanblocks", "[\"abort\"]", Is("false")),
    ("verifychain", "[4, 0]", Is("true")),
    (
        "getmininginfo",
        "[]",
        Has(&[
            "\"blocks\":399,\"bits\":\"207fffff\"",
            "\"networkhashps\":12,\"pooledtx\":0",
            "\"next\":{\"height\":400",
        ]),
    ),
    ("getnetworkhashps", "[]", Is("12")),
    (
        "getblocktemplate",
        "[{\"rules\":[\"segwit\"]}]",
        Has(&[TIP, "\"coinbasevalue\":1250000000", "\"height\":400,\"default_witness_commitment\":\"6a24aa21a9ed"]),
    ),
    (
        "estimaterawfee",
        "[100, 0.5]",
        Is(
            "{\"long\":{\"decay\":0.99931,\"scale\":24,\"fail\":{\"startrange\":0,\"endrange\":1e+99,\"withintarget\":0,\
            \"totalconfirmed\":0,\"inmempool\":0,\"leftmempool\":0},\
            \"errors\":[\"Insufficient data or no feerate found which meets threshold\"]}}",
        ),
    ),
    (
        "estimaterawfee",
        "[12]",
        Has(&["{\"short\":{\"decay\":0.962,\"scale\":1,", "\"medium\":{\"decay\":0.9952,\"scale\":2,"]),
    ),
    ("estimatesmartfee", "[6]", Is("{\"errors\":[\"Insufficient data or no feerate found\"],\"blocks\":0}")),
    (
        "estimatesmartfee",
        "[6, null, {\"fee_rate_estimator\":\"mempool_policy\",\"verbosity\":2}]",
        Has(&["\"blocks\":0,\"mempool_health_statistics\":[]"]),
    ),
    ("getopenrpcinfo", "[true]", Has(&["{\"openrpc\":\"1.4.1\",", "\"name\":\"setmocktime\""])),
    ("rpc.discover", "[]", Has(&["{\"openrpc\":\"1.4.1\",", "\"name\":\"getblock\""])),
    ("getmempoolinfo", "[]", Has(&["\"loaded\":true,\"size\":0,\"bytes\":0"])),
    ("getrawmempool", "[]", Is("[]")),
    (
        "getindexinfo",
        "[]",
        Has(&[
            "\"txindex\":{\"synced\":true,\"best_block_height\":399}",
            "\"basic block filter index\":{\"synced\":true",
        ]),
    ),
    ("getmemoryinfo", "[]", Has(&["{\"locked\":{\"used\":"])),
    ("getrpcinfo", "[]", Has(&["{\"active_commands\":[{\"method\":\"getrpcinfo\"", "debug.log"])),
    ("help", "[\"uptime\"]", Has(&["uptime\\n\\nReturns the total uptime of the server."])),
    ("logging", "[]", Has(&["\"addrman\":false,\"bench\":false"])),
    ("syncwithvalidationinterfacequeue", "[]", Is("null")),
    ("echo", "[1, \"a\"]", Is("[1,\"a\"]")),
    ("echojson", "[1, \"a\"]", Is("[1,\"a\"]")),
    ("uptime", "[]", Has(&[])),
    ("setban", "[\"1.2.3.4\", \"add\"]", Is("null")),
    ("listbanned", "[]", Has(&["[{\"address\":\"1.2.3.4/32\"", "\"ban_duration\":86400"])),
    ("clearbanned", "[]", Is("null")),
    ("addpeeraddress", "[\"1.2.3.4\", 18444]", Is("{\"success\":true}")),
    ("getnodeaddresses", "[0]", Has(&["\"address\":\"1.2.3.4\",\"port\":18444,\"network\":\"ipv4\""])),
    ("getaddrmaninfo", "[]", Has(&["\"ipv4\":{\"new\":1,\"tried\":0,\"total\":1}", "\"all_networks\":{\"new\":1"])),
    ("getrawaddrman", "[]", Has(&["\"address\":\"1.2.3.4\"", "\"port\":18444", "\"source\":\"1.2.3.4\""])),
    ("setnetworkactive", "[true]", Is("true")),
    ("pausedownload", "[]", Is("null")),
    ("resumedownload", "[]", Is("null")),
    ("getnetworkinfo", "[]", Has(&["\"version\":320100", "\"networkactive\":true"])),
    ("addnode", "[\"127.0.0.1:9\", \"add\"]", Is("null")),
    ("getaddednodeinfo", "[]", Is("[{\"addednode\":\"127.0.0.1:9\",\"connected\":false,\"addresses\":[]}]")),
    ("invalidateblock", "[\"@TIP\"]", Is("null")),
    ("getblockcount", "[]", Is("398")),
    ("reconsiderblock", "[\"@TIP\"]", Is("null")),
    ("preciousblock", "[\"@TIP\"]", Is("null")),
    ("getblockcount", "[]", Is("399")),
    (
        "dumptxoutset",
        "[\"dump.dat\", \"latest\"]",
        Has(&[
            "\"coins_written\":399",
            TIP,
            "\"txoutset_hash\":\"1dfda63cd5d93ca7a4cd95a2a88154b560f84f7febc5fa402c3060f44eb2732f\",\"nchaintx\":434",
        ]),
    ),
];

/// While a node is connected that has the same chain, and one block that is not here.
const WITH_A_PEER: &[Row] = &[
    ("getconnectioncount", "[]", Is("1")),
    ("getpeerinfo", "[]", Has(&["[{\"id\":0,", "\"connection_type\":\"outbound-full-relay\"", "\"synced_blocks\":20"])),
    ("getnettotals", "[]", Has(&["\"totalbytesrecv\":", "\"uploadtarget\":{\"timeframe\":86400"])),
    ("ping", "[]", Is("null")),
    ("sendmsgtopeer", "[0, \"addr\", \"00\"]", Is("{}")),
    ("disconnectnode", "[\"\", 0]", Is("null")),
];

/// On a chain that is made here, by a clock that stands still.
const MADE: &[Row] = &[
    ("setmocktime", "[0]", Is("null")),
    ("generatetodescriptor", "[1, \"raw(51)\"]", Has(&["[\""])),
    ("generatetoaddress", "[1, \"@ADDRESS\"]", Has(&["[\""])),
    ("generateblock", "[\"raw(51)\", []]", Has(&["{\"hash\":\""])),
    ("getblockcount", "[]", Is("3")),
    ("stop", "[]", Has(&["stopping"])),
];

/// Calls whose success wants more than a row, and the file that has it.
const APART: &[(&str, &str)] = &[
    ("submitblock", include_str!("submit.rs")),
    ("loadtxoutset", include_str!("snapshots.rs")),
    ("submitheader", include_str!("successes.rs")),
    ("addconnection", include_str!("successes.rs")),
    ("getblockfrompeer", include_str!("successes.rs")),
    ("pruneblockchain", include_str!("successes.rs")),
    ("sendrawtransaction", include_str!("mempool.rs")),
    ("testmempoolaccept", include_str!("mempool.rs")),
    ("getmempoolentry", include_str!("mempool.rs")),
    ("getmempoolancestors", include_str!("mempool.rs")),
    ("getmempooldescendants", include_str!("mempool.rs")),
    ("getmempoolcluster", include_str!("mempool.rs")),
    ("prioritisetransaction", include_str!("mempool.rs")),
    ("getprioritisedtransactions", include_str!("mempool.rs")),
];

/// Calls that have no success: bitcoind's neither.
const NEVER: &[&str] = &["exportasmap", "generate"];

fn filled(params: &str) -> String {
    let names = [
        ("@TIP", TIP),
        ("@BLOCK", BLOCK),
        ("@TXID", TXID),
        ("@SPENT", SPENT),
        ("@ADDRESS", ADDRESS),
        ("@RAW", RAW),
        ("@PROOF", PROOF),
    ];
    names.iter().fold(params.to_owned(), |params, (name, value)| params.replace(name, value))
}

fn run(site: &Site, rows: &[Row]) {
    for (call, params, want) in rows {
        let result = site.call(call, &filled(params));
        let got = result.map_or_else(|why| panic!("{call} {params}: {why:?}"), |json| json.text());
        match want {
            Is(text) => assert_eq!(got, *text, "{call} {params}"),
            Has(pieces) => {
                pieces.iter().for_each(|piece| assert!(got.contains(piece), "{call} {params}: {got}: {piece}"))
            }
        }
    }
}

/// Each call has a row, here or in the tests below; what is listed as apart is tested there.
#[test]
fn every_call_has_a_row() {
    let rows = ON_CHAIN.iter().chain(WITH_A_PEER).chain(MADE).map(|(call, ..)| *call);
    for (call, file) in APART {
        assert!(file.contains(&format!("call(\"{call}\"")) || file.contains(&format!("say(\"{call}\"")), "{call}");
    }
    let apart = APART.iter().map(|(call, _)| *call);
    let with: BTreeSet<&str> = rows.chain(apart).chain(NEVER.iter().copied()).collect();
    let all: BTreeSet<&str> = server::calls::all().into_iter().map(|call| call.name).collect();
    assert_eq!(with, all);
    let page = include_str!("../../../../docs/server.md");
    let missing: Vec<_> = all.iter().filter(|call| !page.contains(**call)).collect();
    assert!(missing.is_empty(), "docs/server.md does not name {missing:?}");
}

fn blocks(bytes: &[u8]) -> Vec<&[u8]> {
    data::records(bytes)
}

#[test]
fn calls_succeed_on_a_real_chain() {
    let Some(bytes) = data::load("snapshots/regtest_assumeutxo_0_399.blk.xz") else { return };
    let blocks = blocks(&bytes);
    let site = Site::indexed();
    site.take_headers(&blocks, 1..200);
    site.take_blocks(&blocks, 1..400);
    run(&site, ON_CHAIN);
    silent_payments_over_rest(&site);
    let dumped = std::fs::read(site.net_dir().join("dump.dat")).unwrap();
    assert_eq!(dumped, data::load("snapshots/regtest_assumeutxo_399.dat").unwrap());
}

/// As blindbit-oracle answers: what a client of its version 1 reads.
fn silent_payments_over_rest(site: &Site) {
    let get = |path: &str| {
        let request = format!("GET /rest/silentpayments/{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let (status, _, body) = site.raw(request.as_bytes());
        (status, String::from_utf8(body).unwrap().trim().to_owned())
    };
    let tweak = "[\"02cde96698518b659a8a65c54f26abb14757fdd15400b35fe312bb83b9db51a694\"]";
    let key = "2913b252fe537830f843bfdc5fa7d20ba48639a87c86ff837b92d083c55ad7c1";
    for (path, want) in [
        ("block-height", "{\"block_height\":399}"),
        ("tweaks/200", tweak),
        ("tweak-index/200?dustLimit=4999968800", tweak),
        ("tweak-index/200?dustLimit=4999968801", "[]"),
        ("tweaks/200?filterSpent=1", tweak),
        ("tweaks/199", "[]"),
        ("tweaks/0", "[]"),
    ] {
        assert_eq!(get(path), (200, want.to_owned()), "{path}");
    }
    let (_, info) = get("info");
    assert!(info.starts_with("{\"network\":\"regtest\",\"height\":399,\"tweaks_only\":false,"), "{info}");
    let (_, utxos) = get("utxos/200");
    let output = format!("[{{\"txid\":\"{TXID}\",\"vout\":0,\"value\":4999968800,\"scriptpubkey\":\"5120{key}\",");
    assert!(utxos.starts_with(&output) && utxos.ends_with("\"spent\":false}]"), "{utxos}");
    let block = primitives::BlockHash::from_display(BLOCK).unwrap();
    let data = |text: &str| {
        let at = text.find("\"data\":\"").unwrap_or_else(|| panic!("{text}")) + 8;
        primitives::hex::decode(text[at..].split('"').next().unwrap()).unwrap()
    };
    let (_, new) = get("filter/new-utxos/200");
    let key = primitives::hex::decode(key).unwrap();
    assert!(indexes::filter::matches_any(&data(&new), &block, &[&key[..]]).unwrap(), "{new}");
    // SHA-256 of the outpoint and the block's hash: what is spent is what a coinbase paid to a taproot key.
    let outpoint = [primitives::Txid::from_display(SPENT).unwrap().as_bytes().as_slice(), &[0; 4]].concat();
    let short = kernels::sha256::sha256(&[&outpoint[..], block.as_bytes()].concat());
    let (_, spent) = get("spent-index/200");
    let want = format!("{{\"block_hash\":\"{BLOCK}\",\"data\":[\"{}\"]}}", primitives::hex::encode(&short[..8]));
    assert_eq!(spent, want);
    let (_, filter) = get("filter/spent/200");
    assert!(indexes::filter::matches_any(&data(&filter), &block, &[&short[..8]]).unwrap(), "{filter}");
    for (path, status) in [("tweaks/400", 404), ("tweaks/x", 400), ("tweaks/200?dustLimit=-1", 400), ("scan/200", 404)]
    {
        assert_eq!(get(path).0, status, "{path}");
    }
}

/// One node takes another one's connection, and gives it a block that it has not.
#[test]
fn calls_about_peers_succeed_with_a_peer() {
    let Some(bytes) = data::load("snapshots/regtest_assumeutxo_0_399.blk.xz") else { return };
    let blocks = blocks(&bytes);
    let (far, site) = (Site::listening(), Site::new(None));
    let Some(place) = far.listens_at else { panic!("it listens") };
    far.take_blocks(&blocks, 1..21);
    // A block beside the chain, of which the other node has the header alone.
    site.take_blocks(&blocks, 1..20);
    let one = format!("[\"{place}\", \"outbound-full-relay\", false]");
    let connected = text(site.call("addconnection", &one));
    assert_eq!(connected, format!("{{\"address\":\"{place}\",\"connection_type\":\"outbound-full-relay\"}}"));
    until("the handshake", || text(site.call("getpeerinfo", "[]")).contains("\"subver\":\"/"));
    until("the block", || text(site.call("getblockcount", "[]")) == "20");
    run(&site, WITH_A_PEER);
    // The other one has a map of autonomous systems; the version is the file's SHA-256, as of Core 32.
    let map = kernels::sha256::sha256(&primitives::hex::decode(crate::site::MAP).unwrap());
    let version = format!("\"asmap_version\":\"{}\",\"warnings\"", primitives::hex::encode(&map));
    let info = text(far.call("getnetworkinfo", "[]"));
    assert!(info.contains(&version), "{info}");
    assert!(!text(site.call("getnetworkinfo", "[]")).contains("asmap"), "no map");
    until("the end", || text(site.call("getconnectioncount", "[]")) == "0");
    // Pruned blocks come again: here one that was never there, on another branch than the best.
    assert!(far.call("generatetodescriptor", "[1, \"raw(51)\"]").is_ok());
    let hash = text(far.call("getbestblockhash", "[]"));
    let header = text(far.call("getblockheader", &format!("[{hash}, false]")));
    assert!(
        far.call("invalidateblock", &format!("[{hash}]")).is_ok()
            && far.call("generatetodescriptor", "[2, \"raw(52)\"]").is_ok()
    );
    assert!(far.call("reconsiderblock", &format!("[{hash}]")).is_ok());
    assert!(site.call("addconnection", &one).is_ok());
    until("its chain", || text(site.call("getblockcount", "[]")) == "22");
    assert_eq!(text(site.call("submitheader", &format!("[{header}]"))), "null");
    let peer = text(site.call("getpeerinfo", "[]"));
    let id: u64 = peer["[{\"id\":".len()..].split(',').next().unwrap().parse().unwrap();
    assert_eq!(text(site.call("getblockfrompeer", &format!("[{hash}, {id}]"))), "{}");
    until("the block", || text(site.call("getblock", &format!("[{hash}, 0]"))).len() > 200);
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn calls_succeed_on_a_chain_made_here() {
    let site = Site::mocked();
    run(&site, MADE);
    let pruned = Site::pruned();
    assert!(pruned.call("generatetodescriptor", "[600, \"raw(51)\"]").is_ok());
    let last = pruned.call("pruneblockchain", "[300]").unwrap();
    assert!(matches!(last, Json::Int(100..=300)), "{last:?}");
    assert!(text(pruned.call("getblockchaininfo", "[]")).contains("\"pruned\":true"));
}
