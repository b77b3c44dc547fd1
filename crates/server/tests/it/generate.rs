//! Calls that make blocks. Hashes and errors are bitcoind's (b88bffe) for the same calls with `setmocktime 1700000000`.

use crate::calls::text;
use crate::site::Site;
use primitives::hex;
use server::json::Json;

/// 300 blocks have every height push of one byte and some of two, the signal of testdummy from block 144 on, times that the
/// clock does not give, and two halvings: the hash of the last one stands for all of it.
#[test]
fn blocks_are_bitcoinds_byte_for_byte() {
    let site = Site::still();
    let Ok(Json::Arr(hashes)) = site.call("generatetodescriptor", "[300, \"raw(51)\"]") else { panic!("no blocks") };
    let shown = |at: usize| hashes[at].text();
    for (at, want) in [
        (0, "\"56930a229ddfde641b497c06370c7424f7c821113361b31d812faa2c6e59dd9a\""),
        (15, "\"3404b886cd882880164bf0b3c35f85fc46d209465ce8ac2ebfd9706b1ba48f28\""),
        (16, "\"4f9e9e89d6037013c9e33b8cd4a6065c61fe09d3317db51dca17b8bfaff74ecd\""),
        (142, "\"38c55810a6dd997ad5e951f3fc2153d67cefd1ab86b53398aa01ea11df9bb52a\""),
        (143, "\"00a6a7bb1d623dfa27e73dc958ba04b0f52e94e20ed39908134d333bbbb4816b\""),
        (299, "\"1b7166c054abec8d8f1c88fbc6678fc368e09ca80c3f15c60013e042fd57d495\""),
    ] {
        assert_eq!(shown(at), want, "block {}", at + 1);
    }
    assert_eq!(hashes.len(), 300);
    assert_eq!(text(site.call("getbestblockhash", "[]")), shown(299));
    let info = text(site.call("getmininginfo", "[]"));
    assert!(info.contains("\"currentblockweight\":8000,\"currentblocktx\":0"), "{info}");
}

/// A transaction that spends the coin of block 1, which anyone may.
fn spend_of_block_one(site: &Site) -> String {
    let hash = site.call("getblockhash", "[1]").unwrap();
    let block = text(site.call("getblock", &format!("[{}]", hash.text())));
    let from = block.find("\"tx\":[\"").expect("a coinbase") + 7;
    let mut txid = hex::decode(&block[from..from + 64]).unwrap();
    txid.reverse();
    let mut raw = hex::decode("0200000001").unwrap();
    raw.extend_from_slice(&txid);
    raw.extend_from_slice(&hex::decode("0000000000ffffffff0100ca9a3b00000000015100000000").unwrap());
    hex::encode(&raw)
}

#[test]
fn blocks_are_made_of_given_transactions_or_refused_in_cores_words() {
    let site = Site::still();
    // The number of tries, below 0, becomes a large one.
    assert!(site.call("generatetoaddress", "[101, \"bcrt1pfeesnyr2tx\", -1]").is_ok());
    let site_spend = {
        assert!(site.call("generatetodescriptor", "[1, \"raw(51)\"]").is_ok());
        // Block 1 pays to an anchor, which anyone may spend without a signature.
        spend_of_block_one(&site)
    };
    let tx = site_spend.as_str();
    let sigops = "ac".repeat(20_001);
    let descriptor = "pkh(tpubD6NzVbkrYhZ4XgiXtGrdW5XDAPFCL9h7we1vwNCpn8tGbBcgfVYjXyhWo4E1xkh56hjod1RhGjxbaTLV3X4FyWuejifB9jusQ46QzG87VKp";
    for (call, params, want) in [
        (
            "generate",
            "[]".to_owned(),
            "-32601 generate\n\nhas been replaced by the -generate cli option. Refer to -help for more information.\n",
        ),
        (
            "generate",
            "[1]".to_owned(),
            "-1 generate\n\nhas been replaced by the -generate cli option. Refer to -help for more information.\n",
        ),
        ("generatetoaddress", "[1, \"x\"]".to_owned(), "-5 Error: Invalid address"),
        ("generatetoaddress", "[-1, \"bcrt1pfeesnyr2tx\"]".to_owned(), "[]"),
        ("generatetodescriptor", "[1, \"raw(5)\"]".to_owned(), "-5 Raw script is not hex"),
        ("generatetodescriptor", "[1, \"raw(51)\", 0]".to_owned(), "[]"),
        ("generatetodescriptor", "[1, \"raw(51)\", -1]".to_owned(), "-1 JSON integer out of range"),
        ("generatetodescriptor", format!("[1, \"raw({sigops})\"]"), "-1 TestBlockValidity failed: bad-blk-sigops, "),
        (
            "generateblock",
            "[\"raw(51)\", [\"0000\"]]".to_owned(),
            "-22 Transaction decode failed for 0000. Make sure the tx has at least one input.",
        ),
        ("generateblock", format!("[\"raw(51)\", [\"{}\"]]", "01".repeat(32)), "-5 Transaction 01"),
        ("generateblock", "[\"x\", []]".to_owned(), "-5 Error: Invalid address or descriptor"),
        (
            "generateblock",
            format!("[\"{descriptor}/0/*)\", []]"),
            "-8 Ranged descriptor not accepted. Maybe pass through deriveaddresses first?",
        ),
        ("generateblock", format!("[\"{descriptor}/<0;1>)\", []]"), "-8 Multipath descriptor not accepted"),
        ("generateblock", format!("[\"{descriptor}/0'/0)\", []]"), "-5 Cannot derive script without private keys"),
        (
            "generateblock",
            format!("[\"raw(51)\", [\"{tx}\", \"{tx}\"]]"),
            "-25 TestBlockValidity failed: bad-txns-inputs-missingorspent, CheckTxInputs: inputs missing/spent in transaction ",
        ),
        ("generateblock", format!("[\"raw({sigops})\", []]"), "-1 TestBlockValidity failed: bad-blk-sigops, "),
        ("getblockcount", "[]".to_owned(), "102"),
        ("generateblock", format!("[\"raw(51)\", [\"{tx}\"], false]"), "{\"hash\":\""),
        ("getblockcount", "[]".to_owned(), "102"),
        ("generateblock", format!("[\"raw(51)\", [\"{tx}\"]]"), "{\"hash\":\""),
        ("getblockcount", "[]".to_owned(), "103"),
        ("generateblock", format!("[\"raw(51)\", [\"{tx}\"]]"), "-25 TestBlockValidity failed: bad-txns-BIP30, "),
        ("echojson", "{\"arg1\": 1}".to_owned(), "[null,1]"),
        ("syncwithvalidationinterfacequeue", "[]".to_owned(), "null"),
    ] {
        let got = text(site.call(call, &params));
        assert!(got.starts_with(want), "{call} {params:.200}: {got:.300}");
    }
}

/// The block that is not submitted is the one that would have been.
#[test]
fn a_block_that_is_not_submitted_is_given() {
    let site = Site::still();
    let kept = site.call("generateblock", "[\"raw(51)\", [], false]").unwrap();
    let Some(Json::Str(hex)) = kept.field("hex") else { panic!("{kept:?}") };
    assert_eq!(text(site.call("getblockcount", "[]")), "0");
    assert_eq!(text(site.call("submitblock", &format!("[\"{hex}\"]"))), "null");
    assert_eq!(text(site.call("getbestblockhash", "[]")), kept.field("hash").unwrap().text());
    let want = "\"56930a229ddfde641b497c06370c7424f7c821113361b31d812faa2c6e59dd9a\"";
    assert_eq!(kept.field("hash").unwrap().text(), want, "as generatetodescriptor makes it");
}

#[test]
fn addresses_are_derived_as_in_core() {
    let site = Site::still();
    let tprv = "tprv8ZgxMBicQKsPd7Uf69XL1XwhmjHopUGep8GuEiJDZmbQz6o58LninorQAfcKZWARbtRtfnLcJ5MQ2AtHcQJCCRUcMRvmDUjyEmNUWwx8UbK";
    let summed = |text: String| {
        let info = site.call("getdescriptorinfo", &format!("[\"{text}\"]")).unwrap();
        let Some(Json::Str(sum)) = info.field("checksum") else { panic!("{info:?}") };
        format!("{text}#{sum}")
    };
    // From Core's functional test rpc_deriveaddresses.
    for (descriptor, range, want) in [
        (format!("wpkh({tprv}/1/1/0)#t6wfjs64"), "", "[\"bcrt1qjqmxmkpmxt80xz4y3746zgt0q3u3ferr34acd5\"]"),
        (format!("wpkh({tprv}/1/1/0)"), "", "-5 Missing checksum"),
        (
            format!("wpkh({tprv}/1/1/*)#kft60nuy"),
            ", [1, 2]",
            "[\"bcrt1qhku5rq7jz8ulufe2y6fkcpnlvpsta7rq4442dy\",\"bcrt1qpgptk2gvshyl0s9lqshsmx932l9ccsv265tvaq\"]",
        ),
        (
            format!("wpkh({tprv}/1/1/*)#kft60nuy"),
            ", [2147483647, 2147483647]",
            "[\"bcrt1qtzs23vgzpreks5gtygwxf8tv5rldxvvsyfpdkg\"]",
        ),
        (format!("wpkh({tprv}/1/1/*)#kft60nuy"), "", "-8 Range must be specified for a ranged descriptor"),
        (format!("wpkh({tprv}/1/1/0)#t6wfjs64"), ", 2", "-8 Range should not be specified for an un-ranged descriptor"),
        (
            format!("wpkh({tprv}/1/1/*)#kft60nuy"),
            ", [2, 0]",
            "-8 Range specified as [begin,end] must not have begin after end",
        ),
        (
            summed(format!("wpkh({tprv}/1/<0;1>/*)")),
            ", [1, 1]",
            "[[\"bcrt1q7c8mdmdktrzs8xgpjmqw90tjn65j5a3yj04m3n\"],[\"bcrt1qhku5rq7jz8ulufe2y6fkcpnlvpsta7rq4442dy\"]]",
        ),
        (
            summed(format!("combo({tprv}/1/1/0)")),
            "",
            "[\"mtfUoUax9L4tzXARpw1oTGxWyoogp52KhJ\",\"bcrt1qjqmxmkpmxt80xz4y3746zgt0q3u3ferr34acd5\",\"2NDvEwGfpEqJWfybzpKPHF2XH3jwoQV3D7x\"]",
        ),
        (summed(format!("pk({tprv})")), "", "-5 Descriptor does not have a corresponding address"),
    ] {
        assert_eq!(
            text(site.call("deriveaddresses", &format!("[\"{descriptor}\"{range}]"))),
            want,
            "{descriptor}{range}"
        );
    }
}

/// Fields are bitcoind's at the same block and time, but for those that docs/server.md names.
#[test]
fn a_template_is_of_the_next_block() {
    let site = Site::still();
    assert!(site.call("generatetodescriptor", "[300, \"raw(51)\"]").is_ok());
    for (params, want) in [
        ("[{\"rules\":[\"segwit\"]}]", TEMPLATE),
        (
            "[{\"rules\":[\"segwit\"],\"longpollid\":\"0000000000000000000000000000000000000000000000000000000000000001x\"}]",
            TEMPLATE,
        ),
        ("[{}]", "-8 getblocktemplate must be called with the segwit rule set (call with {\"rules\": [\"segwit\"]})"),
        ("[{\"rules\":[5]}]", "-3 JSON value of type number is not of expected type string"),
        ("[{\"mode\":5}]", "-8 Invalid mode"),
        ("[{\"mode\":\"x\"}]", "-8 Invalid mode"),
        ("[{\"rules\":[\"segwit\"],\"longpollid\":\"ff\"}]", "-8 longpollid must be of length 64 (not 2, for 'ff')"),
    ] {
        assert_eq!(text(site.call("getblocktemplate", params)), want, "{params}");
    }
    // Who waits for a new tip hears of it.
    let site = &site;
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let tip = text(site.call("getbestblockhash", "[]"));
            let id = tip.trim_matches('"');
            text(site.call("getblocktemplate", &format!("[{{\"rules\":[\"segwit\"],\"longpollid\":\"{id}300\"}}]")))
        });
        while !text(site.call("getrpcinfo", "[]")).contains("getblocktemplate") {
            std::thread::yield_now();
        }
        assert!(site.call("generatetodescriptor", "[1, \"raw(51)\"]").is_ok());
        let got = waiter.join().unwrap();
        assert!(got.contains("\"height\":302,"), "{got}");
    });
}

const TEMPLATE: &str = r#"{"capabilities":[],"version":805306368,"rules":["csv","!segwit","taproot"],"vbavailable":{"testdummy":28},"vbrequired":0,"previousblockhash":"1b7166c054abec8d8f1c88fbc6678fc368e09ca80c3f15c60013e042fd57d495","transactions":[],"coinbaseaux":{},"coinbasevalue":1250000000,"longpollid":"1b7166c054abec8d8f1c88fbc6678fc368e09ca80c3f15c60013e042fd57d495301","target":"7fffff0000000000000000000000000000000000000000000000000000000000","mintime":1700000051,"mutable":["time","transactions","prevblock"],"noncerange":"00000000ffffffff","sigoplimit":80000,"sizelimit":4000000,"weightlimit":4000000,"curtime":1700000051,"bits":"207fffff","height":301,"default_witness_commitment":"6a24aa21a9ede2f61c3f71d1defd3fa999dfa36953755c690689799962b48bebd836974e8cf9"}"#;
