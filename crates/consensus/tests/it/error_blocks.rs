//! Headers that were really mined and were really invalid, with their coinbase scripts.

use consensus::header::{check_proof_of_work, check_version};
use consensus::transaction::check_coinbase_length;
use consensus::{Chain, Params, Rule, block};
use primitives::{Header, Height, Tables, hex};
use testkit::blocks::{Tx, with_body};

/// Which rules that need no neighbours a block of this header and coinbase breaks, in Core's order.
fn broken(params: &Params, header: Header, height: Height, script_sig: &[u8]) -> Vec<String> {
    let mut coinbase = Tx::coinbase(height.to_u32(), 0);
    coinbase.inputs[0].script_sig = script_sig.to_vec();
    let bytes = with_body(header, &[coinbase.bytes()]);
    let mut tables = Tables::new();
    let block = tables.parse_block(&bytes).unwrap();
    let results: [Result<(), Rule>; 4] = [
        check_proof_of_work(params, &header.hash(), header.bits()),
        check_version(params, header.version(), height),
        check_coinbase_length(&block.transaction(0)),
        block::check_coinbase_height(params, &block, height),
    ];
    results.into_iter().filter_map(|result| Some(result.err()?.reject_reason().into_owned())).collect()
}

#[test]
fn mined_invalid_blocks_get_their_reason() {
    let Some(directory) = testkit::data::dir() else { return };
    let text = std::fs::read_to_string(directory.join("suites/error_blocks.csv")).unwrap();
    let params = Params::new(Chain::Main);
    let (mut failed, mut buried, mut left_out, mut bits) = (0, 0, Vec::new(), 0);
    for line in text.lines().skip(1) {
        let row: Vec<&str> = line.split(',').collect();
        let height: Height = row[0].parse().unwrap();
        let header = Header(hex::decode(row[7]).unwrap().try_into().unwrap());
        let got = broken(&params, header, height, &hex::decode(row[9]).unwrap());
        assert_eq!(header.hash().to_string(), row[1]);
        let version = format!("bad-version(0x{:08x})", header.version());
        let want = match row[14] {
            "bip34_v2_coinbase_height_mismatch" => {
                buried += 1;
                assert!(height < params.bip34_height, "{height}");
                vec![]
            }
            "bip34_coinbase_height_mismatch" => vec!["bad-cb-height".to_owned()],
            "coinbase_scriptsig_length_above_100" => vec!["bad-cb-length".to_owned()],
            "bip66_block_version_below_3" | "bip65_block_version_below_4" => vec![version],
            "nbits_retarget_not_applied" => {
                bits += 1;
                assert_eq!(height, Height::new(717_696));
                assert_ne!(header.bits(), u32::from_str_radix(row[6], 16).unwrap(), "{height}");
                vec![]
            }
            // What they break is a median time past that the file does not have.
            "median_time_past_violation" | "time_below_mtp" => {
                left_out.push(height);
                vec![]
            }
            other => panic!("{height}: no rule is named {other}"),
        };
        failed += usize::from(!want.is_empty());
        assert_eq!(got, want, "{height} {}", row[1]);
    }
    assert_eq!((failed, bits, buried, left_out), (18, 1, 12, [380_992, 946_213].map(Height::new).to_vec()));
}
