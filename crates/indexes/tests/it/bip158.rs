//! The vectors of BIP-0158, as Core has them (test/data/blockfilters.json at b88bffe).
//!
//! Row: height, block hash, block, scripts of the coins that it spends, previous filter header, filter, filter header, note.

use indexes::filter;
use primitives::{Hash256, Tables, hex};

const VECTORS: &str = include_str!("../data/blockfilters.json");

#[test]
fn filters_and_headers_match_bip_158() {
    let rows: Vec<serde_json::Value> = serde_json::from_str(VECTORS).unwrap();
    let mut count = 0;
    for row in rows.iter().filter(|row| row[1].is_string()) {
        let text = |place: usize| row[place].as_str().unwrap();
        let note = format!("height {} {}", row[0], row[7]);
        let bytes = hex::decode(text(2)).unwrap();
        let mut tables = Tables::new();
        let block = tables.parse_block(&bytes).unwrap();
        let hash = block.header().hash();
        assert_eq!(hash.to_string(), text(1), "{note}");
        let spent: Vec<Vec<u8>> =
            row[3].as_array().unwrap().iter().map(|script| hex::decode(script.as_str().unwrap()).unwrap()).collect();
        let made: Vec<&[u8]> = (0..block.output_count()).map(|index| block.output(index).script()).collect();
        let made = made.into_iter().filter(|script| filter::is_element_of_output(script));
        let spent = spent.iter().map(Vec::as_slice).filter(|script| !script.is_empty());
        let elements: Vec<&[u8]> = made.chain(spent).collect();
        let got = filter::encode(&hash, elements.len(), elements.iter().copied());
        assert_eq!(hex::encode(&got), text(5), "{note}");
        let before = Hash256::from_display(text(4)).unwrap();
        assert_eq!(filter::header(&filter::hash(&got), &before).to_string(), text(6), "{note}");
        assert!(elements.iter().all(|script| filter::matches_any(&got, &hash, &[script]).unwrap()), "{note}");
        count += 1;
    }
    assert_eq!(count, 10, "rows");
}
