//! Core's sighash.json: 500 hashes before segwit, with hash types of 32 bits.

use crate::data;
use primitives::{Amount, Tables, Txid};
use script::sighash::legacy;
use script::{Precomputed, SpentOutput};

#[test]
fn every_row_of_sighash() {
    let Some(rows) = data::json("scripts/sighash.json") else { return };
    let mut count = 0;
    for row in rows.as_array().unwrap().iter().filter(|row| row.as_array().unwrap().len() > 1) {
        let (bytes, code) = (data::unhex(&row[0]), data::unhex(&row[1]));
        let input = row[2].as_u64().unwrap() as usize;
        let hash_type = row[3].as_i64().unwrap() as u32;
        let mut tables = Tables::new();
        let tx = tables.parse_transaction(&bytes).unwrap();
        let spent = vec![SpentOutput { value: Amount(0), script: &[] }; tx.input_count()];
        let hash = legacy(&Precomputed::new(tx, &spent), input, &code, hash_type);
        assert_eq!(Txid::from_bytes(hash).to_string(), row[4].as_str().unwrap(), "{row}");
        count += 1;
    }
    assert_eq!(count, 500, "rows");
}
