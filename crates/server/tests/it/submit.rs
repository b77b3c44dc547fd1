//! `submitblock` beside the answers of bitcoind b88bffe to the same blocks, and the chain after a bad one.

use crate::calls::{block_of, text};
use crate::site::Site;
use primitives::{BlockHash, Header, hex};
use server::json::Json;
use testkit::data;

/// A line of the test data: fields of an object by name.
fn lines() -> Option<Vec<Json>> {
    let bytes = data::load("suites/fault_pairs.jsonl.xz")?;
    Some(
        bytes
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| Json::parse(line).unwrap())
            .collect(),
    )
}

fn string(json: &Json) -> &str {
    match json {
        Json::Str(text) => text,
        other => panic!("{other:?}"),
    }
}

/// Blocks with none, one or two faults on the same parent.
#[test]
fn submitblock_answers_blocks_with_two_faults_as_bitcoind() {
    let Some(lines) = lines() else { return };
    let site = Site::new(None);
    let submit = |block: &Json| site.call("submitblock", &format!("[\"{}\"]", string(block)));
    let Some(Json::Arr(base)) = lines[0].field("base") else { panic!("no base") };
    for block in base {
        assert_eq!(submit(block), Ok(Json::Null));
    }
    let tip = text(site.call("getbestblockhash", "[]"));
    assert_eq!(lines.len(), 380);
    for (number, line) in lines[1..].iter().enumerate() {
        let block = line.field("block").unwrap();
        let row = format!("row {number}, faults {}", line.field("faults").unwrap().text());
        let want = line.field("submitblock").unwrap();
        assert_eq!(submit(block).as_ref(), Ok(want), "{row}");
        if *want == Json::Null {
            let hash = text(site.call("getbestblockhash", "[]"));
            assert_eq!(text(site.call("invalidateblock", &format!("[{hash}]"))), "null", "{row}");
        }
        assert_eq!(text(site.call("getbestblockhash", "[]")), tip, "{row}");
    }
}

/// What `ContextualCheckBlock` refuses is marked, unless the body can be another one's: bitcoind's second answer shows it.
#[test]
fn submitblock_marks_what_cannot_be_a_mutated_body() {
    let Some(lines) = lines() else { return };
    let site = Site::new(None);
    let submit = |block: &Json| text(site.call("submitblock", &format!("[\"{}\"]", string(block))));
    let Some(Json::Arr(base)) = lines[0].field("base") else { panic!("no base") };
    base.iter().for_each(|block| assert_eq!(submit(block), "null"));
    for (faults, first, second) in [
        ("[\"height\"]", "bad-cb-height", "duplicate-invalid"),
        ("[\"nonfinal\"]", "bad-txns-nonfinal", "duplicate-invalid"),
    ] {
        let line = lines[1..].iter().find(|line| line.field("faults").unwrap().text() == faults).unwrap();
        let block = line.field("block").unwrap();
        assert_eq!((submit(block), submit(block)), (format!("\"{first}\""), format!("\"{second}\"")), "{faults}");
    }
}

/// Blocks of the test data on top of each other: the 100 in common, and those of the named files.
fn liveness(name: &str) -> Option<Vec<Vec<u8>>> {
    let bytes = data::load(&format!("liveness/{name}.blk.xz"))?;
    Some(data::records(&bytes).into_iter().map(<[u8]>::to_vec).collect())
}

/// A block whose parent proves bad only when the chain is tried was not judged; the next one on it has a bad parent.
#[test]
fn submitblock_of_a_child_of_a_bad_block_is_inconclusive() {
    let (Some(good), Some(bad), Some(above)) = (liveness("good"), liveness("r1"), liveness("r2")) else { return };
    let site = Site::new(None);
    let submit = |block: &[u8]| text(site.call("submitblock", &format!("[\"{}\"]", hex::encode(block))));
    good[..101].iter().for_each(|block| assert_eq!(submit(block), "null"));
    let tip = text(site.call("getbestblockhash", "[]"));
    for (row, block, want) in [
        ("of equal work: not tried", bad.last().unwrap(), "\"inconclusive\""),
        ("on it: the chain is tried, and its first block refused", &above[0], "\"inconclusive\""),
        ("on that", &above[1], "\"bad-prevblk\""),
        ("the refused one", bad.last().unwrap(), "\"duplicate-invalid\""),
        ("the one that was not judged", &above[0], "\"duplicate-invalid\""),
    ] {
        assert_eq!(submit(block), want, "{row}");
        assert_eq!(text(site.call("getbestblockhash", "[]")), tip, "{row}");
    }
}

/// Core's `CheckBlock`: a first transaction with two inputs is no coinbase. Its header does not enter the tree.
#[test]
fn submitblock_refuses_a_coinbase_of_two_inputs() {
    let input = |outpoint: &str| format!("{outpoint}025151ffffffff");
    let null = format!("{}ffffffff", "00".repeat(32));
    let other = format!("{}00000000", "11".repeat(32));
    // A commitment to witnesses, and no witness: Core adds that of the coinbase.
    let outputs = format!("02{}0151{}266a24aa21a9ed{}", "00".repeat(8), "00".repeat(8), "22".repeat(32));
    let tx = format!("0200000002{}{}{outputs}00000000", input(&null), input(&other));
    let genesis = BlockHash::literal("0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206");
    let (block, hash) = block_of(&hex::decode(&tx).unwrap(), genesis, 1_296_688_700);
    let site = Site::new(None);
    assert_eq!(text(site.call("submitblock", &format!("[\"{}\"]", hex::encode(&block)))), "\"bad-cb-missing\"");
    assert_eq!(text(site.call("getblockheader", &format!("[\"{hash}\"]"))), "-5 Block not found");
}

/// Of two blocks with the same work the chain ends with the one that was received first, once nothing is known against it;
/// whichever the user prefers comes before that, whatever the chain was since.
#[test]
fn chain_goes_back_to_the_first_received_and_to_the_preferred() {
    let Some(lines) = lines() else { return };
    let Some(Json::Arr(base)) = lines[0].field("base") else { panic!("no base") };
    let of = |faults: &str| {
        let line = lines[1..].iter().find(|line| line.field("faults").unwrap().text() == faults).unwrap();
        hex::decode(string(line.field("block").unwrap())).unwrap()
    };
    let site = Site::new(None);
    let submit = |block: &[u8]| text(site.call("submitblock", &format!("[\"{}\"]", hex::encode(block))));
    let change = |call: &str, hash: BlockHash| assert_eq!(text(site.call(call, &format!("[\"{hash}\"]"))), "null");
    let tip = || text(site.call("getbestblockhash", "[]"));
    let status = |hash: BlockHash| {
        let tips = text(site.call("getchaintips", "[]"));
        let (_, rest) = tips.split_once(&hash.to_string()).unwrap_or_else(|| panic!("{hash}: {tips}"));
        rest.split('"').nth(6).unwrap().to_owned()
    };
    let hash_of = |block: &[u8]| Header(*block.first_chunk().unwrap()).hash();
    let quoted = |hash: BlockHash| format!("\"{hash}\"");
    base.iter()
        .for_each(|block| assert_eq!(site.call("submitblock", &format!("[\"{}\"]", string(block))), Ok(Json::Null)));
    let (first, second, bad) = (of("[]"), of("[\"sigopcost\"]"), of("[\"cbvalue\"]"));
    let [one, two, refused] = [&first, &second, &bad].map(|block| hash_of(block));
    assert_eq!(submit(&bad), "\"bad-cb-amount\"");
    assert_eq!((submit(&first), submit(&second)), ("null".to_owned(), "\"inconclusive\"".to_owned()));
    change("invalidateblock", one);
    assert_eq!(tip(), quoted(two));
    change("reconsiderblock", one);
    assert_eq!(tip(), quoted(one), "it was received first");
    change("reconsiderblock", refused);
    assert_eq!(
        (tip(), status(refused)),
        (quoted(one), "invalid".to_owned()),
        "received before, tried again, refused again"
    );
    change("preciousblock", two);
    assert_eq!(tip(), quoted(two));
    assert!(site.call("generatetodescriptor", "[1, \"raw(51)\"]").is_ok());
    let above = tip();
    assert_eq!(text(site.call("invalidateblock", &format!("[{above}]"))), "null");
    assert_eq!(tip(), quoted(two), "it is preferred after the chain moved");
}
