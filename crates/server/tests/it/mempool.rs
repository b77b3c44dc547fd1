//! What comes back from blocks that are taken off the chain, as bitcoind (b88bffe) shows it for the same calls.

use crate::calls::text;
use crate::site::Site;
use kernels::sha256::sha256;
use primitives::hex;
use server::json::Json;

/// Pays to an anchor, which anyone may spend.
const ADDRESS: &str = "bcrt1pfeesnyr2tx";

/// A transaction that spends an output without a signature, and its id as it is shown.
fn spend(txid: &str, vout: u32, outputs: &[u64]) -> (String, String) {
    let mut bytes = hex::decode("0200000001").unwrap();
    bytes.extend(hex::decode(txid).unwrap().into_iter().rev());
    bytes.extend_from_slice(&vout.to_le_bytes());
    bytes.extend_from_slice(&hex::decode("00ffffffff").unwrap());
    bytes.push(outputs.len() as u8);
    for value in outputs {
        bytes.extend_from_slice(&value.to_le_bytes());
        bytes.extend_from_slice(&hex::decode("0451024e73").unwrap());
    }
    bytes.extend_from_slice(&[0; 4]);
    let mut id = sha256(&sha256(&bytes));
    id.reverse();
    (hex::encode(&bytes), hex::encode(&id))
}

fn word(json: Option<&Json>) -> String {
    let Some(Json::Str(text)) = json else { panic!("{json:?}") };
    text.clone()
}

/// A chain whose two last blocks had a transaction, one that spends it, and another one.
struct Story {
    site: Site,
    coinbase: String,
    parent: (String, String),
    child: (String, String),
    other: (String, String),
    /// The block that had `parent` and `other`; behind it stands that of `child`.
    block: String,
}

impl Story {
    fn new() -> Story {
        let site = Site::still();
        site.call("generatetoaddress", &format!("[102, \"{ADDRESS}\"]")).unwrap();
        let coinbase = |height: u32| {
            let hash = site.call("getblockhash", &format!("[{height}]")).unwrap();
            let block = site.call("getblock", &format!("[{}]", hash.text())).unwrap();
            let Some(Json::Arr(txids)) = block.field("tx") else { panic!("{block:?}") };
            word(txids.first())
        };
        let (first, second) = (coinbase(1), coinbase(2));
        let parent = spend(&first, 0, &[4_999_990_000, 1000]);
        let child = spend(&parent.1, 0, &[4_999_970_000, 1000]);
        let other = spend(&second, 0, &[4_000_000_000, 999_900_000]);
        let make = |txs: &[&(String, String)]| {
            let txs: Vec<String> = txs.iter().map(|tx| format!("\"{}\"", tx.0)).collect();
            let made = site.call("generateblock", &format!("[\"{ADDRESS}\", [{}]]", txs.join(",")));
            word(made.unwrap().field("hash"))
        };
        let block = make(&[&parent, &other]);
        make(&[&child]);
        Story { coinbase: first, parent, child, other, block, site }
    }

    /// The result of a call, byte for byte, or its error.
    fn say(&self, call: &str, params: &str) -> String {
        let (_, _, body) = self.site.post(format!("{{\"method\":\"{call}\",\"params\":{params},\"id\":1}}"));
        let body = String::from_utf8(body).unwrap();
        let good = body
            .trim_end()
            .strip_suffix(",\"error\":null,\"id\":1}")
            .and_then(|text| text.strip_prefix("{\"result\":"));
        good.map_or_else(|| text(self.site.call(call, params)), str::to_owned)
    }
}

#[test]
fn transactions_of_blocks_taken_off_wait_and_are_mined_again() {
    let story = Story::new();
    let (parent, child, other) = (&*story.parent.1, &*story.child.1, &*story.other.1);
    assert_eq!(story.say("getrawmempool", "[false, true]"), "{\"txids\":[],\"mempool_sequence\":1}");
    assert_eq!(story.say("invalidateblock", &format!("[\"{}\"]", story.block)), "null");
    assert_eq!(story.say("getblockcount", "[]"), "102");
    let all = format!("[\"{other}\",\"{parent}\",\"{child}\"]");
    assert_eq!(story.say("getrawmempool", "[]"), all);
    let with_sequence = format!("{{\"txids\":{all},\"mempool_sequence\":4}}");
    assert_eq!(story.say("getrawmempool", "[false, true]"), with_sequence);
    let info = story.say("getmempoolinfo", "[]");
    assert!(info.starts_with("{\"loaded\":true,\"size\":3,\"bytes\":231,\"usage\":"), "{info}");
    assert!(info.contains("\"total_fee\":0.00128000,\"maxmempool\":300000000,"), "{info}");
    let child_entry = format!(
        "{{\"vsize_adjusted\":77,\"vsize\":77,\"vsize_bip141\":77,\"weight\":308,\"time\":1700000000,\"height\":103,\
         \"descendantcount\":1,\"descendantsize\":77,\"ancestorcount\":2,\"ancestorsize\":154,\"wtxid\":\"{child}\",\
         \"chunkweight\":616,\"fees\":{{\"base\":0.00019000,\"modified\":0.00019000,\"ancestor\":0.00028000,\
         \"descendant\":0.00019000,\"chunk\":0.00028000}},\"depends\":[\"{parent}\"],\"spentby\":[],\"unbroadcast\":false}}"
    );
    let parent_entry = format!(
        "{{\"vsize_adjusted\":77,\"vsize\":77,\"vsize_bip141\":77,\"weight\":308,\"time\":1700000000,\"height\":102,\
         \"descendantcount\":2,\"descendantsize\":154,\"ancestorcount\":1,\"ancestorsize\":77,\"wtxid\":\"{parent}\",\
         \"chunkweight\":616,\"fees\":{{\"base\":0.00009000,\"modified\":0.00009000,\"ancestor\":0.00009000,\
         \"descendant\":0.00028000,\"chunk\":0.00028000}},\"depends\":[],\"spentby\":[\"{child}\"],\"unbroadcast\":false}}"
    );
    assert_eq!(story.say("getmempoolentry", &format!("[\"{child}\"]")), child_entry);
    assert_eq!(story.say("getmempoolentry", &format!("[\"{parent}\"]")), parent_entry);
    let verbose = story.say("getrawmempool", "[true]");
    assert!(verbose.ends_with(&format!("\"{parent}\":{parent_entry},\"{child}\":{child_entry}}}")), "{verbose}");
    let verbose = story.say("getmempooldescendants", &format!("[\"{parent}\", true]"));
    assert_eq!(verbose, format!("{{\"{child}\":{child_entry}}}"));
    assert_eq!(story.say("getmempoolancestors", &format!("[\"{child}\"]")), format!("[\"{parent}\"]"));
    assert_eq!(story.say("getmempooldescendants", &format!("[\"{parent}\"]")), format!("[\"{child}\"]"));
    assert_eq!(story.say("getmempooldescendants", &format!("[\"{child}\"]")), "[]");
    assert_eq!(story.say("getmempoolentry", &format!("[\"{}\"]", story.coinbase)), "-5 Transaction not in mempool");

    // Those that wait are mined, and the coinbase takes their fees.
    let Ok(Json::Arr(made)) = story.site.call("generatetoaddress", &format!("[1, \"{ADDRESS}\"]")) else { panic!() };
    let block = story.say("getblock", &format!("[{}, 1]", made[0].text()));
    assert!(block.contains(&format!(",\"{other}\",\"{parent}\",\"{child}\"]}}")), "{block}");
    let block = story.say("getblock", &format!("[{}, 2]", made[0].text()));
    assert!(block.contains("\"value\":50.00128000,\"n\":0,"), "{block}");
    let info = story.say("getmininginfo", "[]");
    assert!(info.contains("\"currentblockweight\":8924,\"currentblocktx\":3"), "{info}");
    assert_eq!(story.say("getrawmempool", "[false, true]"), "{\"txids\":[],\"mempool_sequence\":7}");

    // Off again; one of them is asked for by its id.
    assert_eq!(story.say("invalidateblock", &format!("[{}]", made[0].text())), "null");
    assert_eq!(story.say("getrawmempool", "[]"), all);
    assert!(story.say("generateblock", &format!("[\"{ADDRESS}\", [\"{other}\"]]")).starts_with("{\"hash\":"));
    assert_eq!(story.say("getrawmempool", "[]"), format!("[\"{parent}\",\"{child}\"]"));
    let missing = story.say("generateblock", &format!("[\"{ADDRESS}\", [\"{other}\"]]"));
    assert_eq!(missing, format!("-5 Transaction {other} not in mempool."));
}

#[test]
fn coins_are_shown_as_they_are_once_what_waits_is_mined() {
    let story = Story::new();
    assert_eq!(story.say("invalidateblock", &format!("[\"{}\"]", story.block)), "null");
    let (parent, child) = (&*story.parent.1, &*story.child.1);
    let script = "\"scriptPubKey\":{\"asm\":\"1 29518\",";
    for (row, params, want) in [
        ("made by one that waits", format!("\"{parent}\", 1"), "\"confirmations\":0,\"value\":0.00001000,"),
        ("and spent by one that waits", format!("\"{parent}\", 0"), "null"),
        ("not looked for there", format!("\"{parent}\", 1, false"), "null"),
        ("of a block, spent by one that waits", format!("\"{}\", 0", story.coinbase), "null"),
        (
            "which is not looked for",
            format!("\"{}\", 0, false", story.coinbase),
            "\"confirmations\":102,\"value\":50.00000000,",
        ),
        ("no such output", format!("\"{child}\", 2"), "null"),
    ] {
        let got = story.say("gettxout", &format!("[{params}]"));
        match want {
            "null" => assert_eq!(got, want, "{row}"),
            _ => assert!(got.contains(want) && got.contains(script), "{row}: {got}"),
        }
    }
    assert_eq!(story.say("getrawtransaction", &format!("[\"{child}\"]")), format!("\"{}\"", story.child.0));
    for verbosity in [1, 2] {
        let shown = story.say("getrawtransaction", &format!("[\"{child}\", {verbosity}]"));
        assert!(shown.ends_with(&format!("\"hex\":\"{}\"}}", story.child.0)), "no block, no prevouts: {shown}");
        assert!(shown.starts_with("{\"vsize_adjusted\":77,\"txid\":"), "{shown}");
        assert!(!shown.contains("\"prevout\"") && !shown.contains("\"fee\""), "{shown}");
    }
    let outputs = format!("[{{\"txid\":\"{parent}\",\"vout\":0}},{{\"txid\":\"{parent}\",\"vout\":1}}]");
    assert_eq!(
        story.say("gettxspendingprevout", &format!("[{outputs}]")),
        format!(
            "[{{\"txid\":\"{parent}\",\"vout\":0,\"spendingtxid\":\"{child}\"}},{{\"txid\":\"{parent}\",\"vout\":1}}]"
        )
    );
    assert_eq!(
        story.say("gettxspendingprevout", &format!("[{outputs}, {{\"mempool_only\":false}}]")),
        "-1 Mempool lacks a relevant spend, and txospenderindex is unavailable."
    );
    let first =
        format!("[[{{\"txid\":\"{parent}\",\"vout\":0}}], {{\"mempool_only\":false, \"return_spending_tx\":true}}]");
    let found = story.say("gettxspendingprevout", &first);
    assert!(
        found.ends_with(&format!("\"spendingtxid\":\"{child}\",\"spendingtx\":\"{}\"}}]", story.child.0)),
        "{found}"
    );
    assert!(story.say("getmininginfo", "[]").contains("\"pooledtx\":3,"));
}

/// Words and numbers are bitcoind's (b88bffe) for the same transactions.
#[test]
fn transactions_that_calls_give_are_judged_wait_and_are_mined() {
    let story = Story::new();
    let tip = word(story.site.call("getbestblockhash", "[]").ok().as_ref());
    let (raw, txid) = spend(&story.child.1, 0, &[4_999_900_000, 1000]);
    let say = |call: &str, params: &str| story.say(call, params);
    let tested = say("testmempoolaccept", &format!("[[\"{raw}\"]]"));
    assert_eq!(
        tested,
        format!(
            "[{{\"txid\":\"{txid}\",\"wtxid\":\"{txid}\",\"allowed\":true,\"vsize_adjusted\":77,\"vsize\":77,\
             \"vsize_bip141\":77,\"fees\":{{\"base\":0.00069000,\"effective-feerate\":0.00896103,\
             \"effective-includes\":[\"{txid}\"]}}}}]"
        )
    );
    assert_eq!(say("getrawmempool", "[]"), "[]", "a test takes nothing");
    let too_dear = "-25 Fee exceeds maximum configured by user (e.g. -maxtxfee, maxfeerate)";
    assert_eq!(say("sendrawtransaction", &format!("[\"{raw}\", 0.00001]")), too_dear);
    assert_eq!(say("getrawmempool", "[]"), "[]");
    let refused = say("testmempoolaccept", &format!("[[\"{raw}\"], 0.00001]"));
    assert!(refused.ends_with("\"allowed\":false,\"reject-reason\":\"max-fee-exceeded\"}]"), "{refused}");
    assert_eq!(say("sendrawtransaction", &format!("[\"{raw}\"]")), format!("\"{txid}\""));
    assert_eq!(say("sendrawtransaction", &format!("[\"{raw}\"]")), format!("\"{txid}\""), "again");
    assert_eq!(say("getrawmempool", "[]"), format!("[\"{txid}\"]"));
    let again = say("testmempoolaccept", &format!("[[\"{raw}\"]]"));
    assert!(
        again.contains("\"reject-reason\":\"txn-already-in-mempool\",\"reject-details\":\"txn-already-in-mempool\"")
    );
    // What waits is mined, and then it is in the UTXO set.
    assert!(say("generatetoaddress", &format!("[1, \"{ADDRESS}\"]")).starts_with('['));
    let block = say("getblock", &format!("[{}]", story.site.call("getbestblockhash", "[]").unwrap().text()));
    assert!(block.contains(&txid) && !block.contains(&tip.repeat(2)), "{block}");
    let there = "-27 Transaction outputs already in utxo set";
    assert_eq!(say("sendrawtransaction", &format!("[\"{raw}\"]")), there);
}

#[test]
fn transactions_are_refused_with_cores_codes_and_words() {
    let story = Story::new();
    let (lost, _) = spend(&"11".repeat(32), 0, &[5000, 5000]);
    let (dear, _) = spend(&story.child.1, 0, &[5000, 5000]);
    let (poor, _) = spend(&story.child.1, 0, &[4_999_970_000, 0]);
    let burnt = dear.replacen("0451024e73", "046a024e73", 1);
    for (call, params, want) in [
        ("sendrawtransaction", "[\"00\"]".to_owned(), "-22 TX decode failed. Make sure the tx has at least one input."),
        ("sendrawtransaction", format!("[\"{lost}\"]"), "-25 bad-txns-inputs-missingorspent"),
        ("sendrawtransaction", format!("[\"{dear}\"]"), "-25 Fee exceeds maximum configured by user"),
        ("sendrawtransaction", format!("[\"{dear}\", 0]"), "\""),
        (
            "sendrawtransaction",
            format!("[\"{dear}\", 1]"),
            "-8 Fee rates larger than or equal to 1BTC/kvB are not accepted",
        ),
        ("sendrawtransaction", format!("[\"{dear}\", -1]"), "-3 Amount out of range"),
        ("sendrawtransaction", format!("[\"{dear}\", []]"), "-3 Amount is not a number or string"),
        ("sendrawtransaction", format!("[\"{poor}\"]"), "-26 bip125-replacement-disallowed"),
        (
            "sendrawtransaction",
            format!("[\"{burnt}\"]"),
            "-25 Unspendable output exceeds maximum configured by user (maxburnamount)",
        ),
        ("sendrawtransaction", format!("[\"{burnt}\", 0, 0.00005]"), "-26 bip125-replacement-disallowed"),
        ("testmempoolaccept", "[[]]".to_owned(), "-8 Array must contain between 1 and 25 transactions."),
        (
            "testmempoolaccept",
            "[[\"00\"]]".to_owned(),
            "-22 TX decode failed: 00 Make sure the tx has at least one input.",
        ),
        ("testmempoolaccept", format!("[[\"{lost}\", \"{dear}\"]]"), "[{\"txid\":"),
    ] {
        let said = story.say(call, &params);
        assert!(said.starts_with(want), "{call} {params}: {said}");
    }
    let both = story.say("testmempoolaccept", &format!("[[\"{lost}\", \"{dear}\"]]"));
    assert_eq!(both.matches("\"allowed\":").count(), 1, "nothing is said of what comes behind: {both}");
    assert!(both.contains("\"allowed\":false,\"reject-reason\":\"missing-inputs\"},{"), "{both}");
}

/// As bitcoind (b88bffe) answers to the same calls.
#[test]
fn fees_that_calls_change_decide_about_chunks_and_not_about_the_reward() {
    let story = Story::new();
    let say = |call: &str, params: &str| story.say(call, params);
    let parent = &*story.parent.1;
    let child = &*story.child.1;
    let other = &*story.other.1;
    assert_eq!(say("invalidateblock", &format!("[\"{}\"]", story.block)), "null");
    assert_eq!(say("getprioritisedtransactions", "[]"), "{}");
    let chunk =
        |fee: &str, weight: u32, txs: &str| format!("{{\"chunkfee\":{fee},\"chunkweight\":{weight},\"txs\":[{txs}]}}");
    let cluster = |chunks: &str| format!("{{\"clusterweight\":616,\"txcount\":2,\"chunks\":[{chunks}]}}");
    let together = cluster(&chunk("0.00028000", 616, &format!("\"{parent}\",\"{child}\"")));
    for txid in [parent, child] {
        assert_eq!(say("getmempoolcluster", &format!("[\"{txid}\"]")), together);
    }
    assert_eq!(say("getmempoolcluster", &format!("[\"{}\"]", story.coinbase)), "-5 Transaction not in mempool");

    assert_eq!(say("prioritisetransaction", &format!("[\"{parent}\", 0, 100000]")), "true");
    let apart = [chunk("0.00109000", 308, &format!("\"{parent}\"")), chunk("0.00019000", 308, &format!("\"{child}\""))];
    assert_eq!(say("getmempoolcluster", &format!("[\"{child}\"]")), cluster(&apart.join(",")));
    let entry = say("getmempoolentry", &format!("[\"{child}\"]"));
    let fees = "\"fees\":{\"base\":0.00019000,\"modified\":0.00019000,\"ancestor\":0.00128000,\
                \"descendant\":0.00019000,\"chunk\":0.00019000}";
    assert!(entry.contains(fees), "{entry}");
    let absent = "11".repeat(32);
    assert_eq!(say("prioritisetransaction", &format!("[\"{absent}\", null, -5]")), "true");
    let deltas = say("getprioritisedtransactions", "[]");
    let of_parent = format!("\"{parent}\":{{\"fee_delta\":100000,\"in_mempool\":true,\"modified_fee\":109000}}");
    assert!(deltas.contains(&of_parent), "{deltas}");
    let of_absent = format!("\"{absent}\":{{\"fee_delta\":-5,\"in_mempool\":false}}");
    assert!(deltas.contains(&of_absent), "{deltas}");
    assert!(say("getmempoolinfo", "[]").contains("\"total_fee\":0.00128000,"), "of what they pay");

    // The order of the block follows them; the reward has what was paid.
    assert_eq!(say("prioritisetransaction", &format!("[\"{other}\", 0, -99900]")), "true");
    let Ok(Json::Arr(made)) = story.site.call("generatetoaddress", &format!("[1, \"{ADDRESS}\"]")) else { panic!() };
    let block = say("getblock", &format!("[{}, 1]", made[0].text()));
    assert!(block.contains(&format!(",\"{parent}\",\"{child}\",\"{other}\"]}}")), "{block}");
    let block = say("getblock", &format!("[{}, 2]", made[0].text()));
    assert!(block.contains("\"value\":50.00128000,\"n\":0,"), "{block}");
    assert_eq!(say("getprioritisedtransactions", "[]"), format!("{{{of_absent}}}"), "mined: forgotten");

    for (params, want) in [
        (
            format!("[\"{absent}\", 1, 0]"),
            "-8 Priority is no longer supported, dummy argument to prioritisetransaction must be 0.",
        ),
        (format!("[\"{absent}\", 0, 1.5]"), "-1 JSON integer out of range"),
        ("[\"11\", 0, 1]".to_owned(), "-8 txid must be of length 64 (not 2, for '11')"),
    ] {
        assert_eq!(say("prioritisetransaction", &params), want, "{params}");
    }
}

/// What waits is shown behind what is in blocks.
#[test]
fn activity_of_what_waits_has_no_block() {
    let story = Story::new();
    let say = |params: &str| story.say("getdescriptoractivity", params);
    let mined = say(&format!("[[\"{}\"], [\"addr({ADDRESS})\"]]", story.block));
    assert_eq!(mined.matches("\"type\":\"receive\"").count(), 5, "a reward and four outputs: {mined}");
    assert_eq!(mined.matches("\"type\":\"spend\"").count(), 2, "{mined}");
    assert_eq!(mined.matches("\"height\":103").count(), 7, "{mined}");
    story.say("invalidateblock", &format!("[\"{}\"]", story.block));
    let refused = say(&format!("[[\"{}\"], []]", story.block));
    assert_eq!(refused, "-8 Block is not in main chain");
    let waiting = say(&format!("[[], [\"addr({ADDRESS})\"]]"));
    assert_eq!(waiting.matches("\"type\":\"receive\"").count(), 6, "{waiting}");
    assert_eq!(waiting.matches("\"type\":\"spend\"").count(), 3, "{waiting}");
    let of_child = format!(
        "{{\"type\":\"spend\",\"amount\":49.99990000,\"spend_txid\":\"{}\",\"spend_vin\":0,\"prevout_txid\":\"{}\",\
         \"prevout_vout\":0,\"prevout_spk\":{{\"asm\":\"1 29518\",",
        story.child.1, story.parent.1
    );
    assert!(waiting.contains(&of_child) && !waiting.contains("blockhash"), "{waiting}");
    assert_eq!(say(&format!("[[], [\"addr({ADDRESS})\"], false]")), "{\"activity\":[]}");
}
