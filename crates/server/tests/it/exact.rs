//! Small things that bitcoind b88bffe was asked: its answers, byte by byte.

use crate::calls::{block_paying, text};
use crate::site::{AUTH, Site};
use primitives::{BlockHash, hex};

/// A request that is no object is answered with the id and the version of the one before it; numbers are echoed as written.
#[test]
fn batch_and_numbers_are_bitcoinds() {
    let site = Site::new(None);
    let call = r#"{"method":"getblockcount","id":7}"#;
    let echo = r#"{"method":"echo","params":[-0.0,1.5e3,18446744073709551616,1e400],"id":8,"jsonrpc":"2.0"}"#;
    let silent = r#"{"method":"uptime","jsonrpc":"2.0"}"#;
    let (status, _, body) = site.post(format!("[{call},5,{echo},\"x\",{silent},7,[1]]"));
    let no_object = r#""error":{"code":-32600,"message":"Invalid Request object"}"#;
    let want = [
        r#"[{"result":0,"error":null,"id":7}"#.to_owned(),
        format!(r#"{{"result":null,{no_object},"id":7}}"#),
        r#"{"jsonrpc":"2.0","result":[-0.0,1.5e3,18446744073709551616,1e400],"id":8}"#.to_owned(),
        format!(r#"{{"jsonrpc":"2.0",{no_object},"id":8}}]"#),
    ];
    assert_eq!((status, String::from_utf8(body).unwrap()), (200, want.join(",") + "\n"));
    let (_, _, body) = site.post("[5]");
    assert_eq!(String::from_utf8(body).unwrap(), format!("[{{\"result\":null,{no_object},\"id\":null}}]\n"));
}

#[test]
fn targets_and_types_are_bitcoinds() {
    let site = Site::new(None);
    let body = r#"{"method":"getblockcount","id":1}"#;
    let length = body.len();
    for target in ["/?a=b", "/?"] {
        let request = format!(
            "POST {target} HTTP/1.1\r\nHost: x\r\n{AUTH}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let (status, head, body) = site.raw(request.as_bytes());
        assert_eq!((status, body.len()), (404, 0), "{target}");
        assert!(head.to_lowercase().contains("content-type: text/html; charset=iso-8859-1"), "{head}");
    }
    let (status, head, body) = site.post(r#"{"method":"uptime","jsonrpc":"2.0"}"#);
    assert_eq!((status, body.len()), (204, 0));
    assert!(!head.to_lowercase().contains("content-type"), "{head}");
    let (_, _, help) = site.post(r#"{"method":"help","params":["generateblock"]}"#);
    let help = String::from_utf8(help).unwrap();
    assert!(help.contains(r#""result":"generateblock \"output\" [\"rawtx/txid\",...] ( submit )\n"#), "{help}");
    for (params, want) in [
        ("[\"x\",100000]", "-1 JSON integer out of range"),
        (
            "[\"x\",1000,5]",
            "-3 Wrong type passed:\n{\n    \"Position 3 (tried)\": \"JSON value of type number is not of expected type bool\"\n}",
        ),
        ("[\"x\",1000]", "-30 Invalid IP address"),
    ] {
        assert_eq!(text(site.call("addpeeraddress", params)), want, "{params}");
    }
}

/// A file that was there a moment ago and is gone: what is open of it is not read on.
#[test]
fn getblock_says_that_undo_data_is_gone() {
    let site = Site::new(None);
    assert!(site.call("generatetodescriptor", "[3, \"raw(51)\"]").is_ok());
    let hash = text(site.call("getblockhash", "[2]"));
    assert!(site.call("getblock", &format!("[{hash}, 2]")).is_ok());
    let file = site.net_dir().join("blocks/rev00000.dat");
    std::fs::rename(&file, file.with_extension("away")).unwrap();
    let why = "-32603 Undo data expected but can't be read. This could be due to disk corruption or a conflict with a pruning event.";
    for verbosity in [2, 3] {
        assert_eq!(text(site.call("getblock", &format!("[{hash}, {verbosity}]"))), why);
    }
    assert!(site.call("getblock", &format!("[{hash}, 1]")).is_ok());
    // The end of the job looks for it.
    std::fs::rename(file.with_extension("away"), &file).unwrap();
}

/// The answers of a batch have a bound in memory: what is beyond it is not done.
#[test]
fn batch_ends_where_its_answers_are_too_long() {
    let site = Site::new(None);
    let genesis = BlockHash::literal("0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206");
    let (block, hash) = block_paying(&vec![0x6a; 900_000], genesis, 1, 1_296_688_700);
    assert_eq!(text(site.call("submitblock", &format!("[\"{}\"]", hex::encode(&block)))), "null");
    let batch = |count: usize| {
        let get = format!("{{\"method\":\"getblock\",\"params\":[\"{hash}\",0],\"id\":1}}");
        let (status, _, body) = site.post(format!("[{}]", vec![get; count].join(",")));
        assert_eq!(status, 200);
        String::from_utf8(body).unwrap()
    };
    let answer = batch(1).len();
    assert!(answer > 1_800_000);
    assert!(!batch(5).contains("\"code\""), "well below");
    let text = batch((256 << 20) / answer + 20);
    assert!(text.len() < (256 << 20) + 2 * answer, "{}", text.len());
    assert!(text.ends_with("\"code\":-37,\"message\":\"The answers before this one have 256 MiB: send fewer requests in a batch\"},\"id\":1}]\n"));
    assert!((15..=20).contains(&text.matches("\"code\":-37").count()), "each request has an answer");
}
