//! The table of silent payments that Frigate scans: a row for each eligible transaction, as Parquet.
//!
//! ```text
//! txid BLOB | height INTEGER | tweak_key BLOB | outputs BIGINT[]
//! ```
//!
//! txid: in the byte order of its text form, 32 bytes. tweak_key: x and y of the tweak, 32 bytes each, little-endian.
//! outputs: the first 8 bytes of each taproot output's key, as a big-endian number. Source: sparrowwallet/frigate
//! 01710e41, README.md ("The Tweak Index"), and index/Index.java (`TWEAK_TABLE`).
//!
//! Absent on purpose: DuckDB's own file format; `CREATE TABLE tweak AS FROM 'FILE'` imports this file.

use crate::aside::{Aside, claim, failed, with_end};
use crate::encode::{self, Format, fault};
use arrow_array::RecordBatch;
use arrow_array::builder::{BinaryBuilder, Int32Builder, Int64Builder, ListBuilder};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use node::Fault;
use node::jobs::{SilentTx, each_silent_block};
use node::options::Options;
use parquet::file::writer::SerializedFileWriter;
use primitives::Height;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Rows of a group: the number that DuckDB gives to one thread.
const GROUP_ROWS: usize = 122_880;
/// Approximate maximum number of a group's outputs; a block has up to some 100,000.
const GROUP_OUTPUTS_MAX: usize = 1 << 20;

/// The blocks to export, and the output file.
#[derive(Clone, Copy, Debug)]
pub struct TweaksRequest<'a> {
    /// The first height.
    pub from: Height,
    /// The last height; `None` for the tip.
    pub to: Option<Height>,
    /// The output file, which is overwritten if it exists.
    pub out: &'a Path,
}

/// The result of an export.
#[derive(Clone, Copy, Debug)]
pub struct TweaksReport {
    /// The last height.
    pub to: Height,
    /// Transactions.
    pub rows: u64,
    /// Their taproot outputs.
    pub outputs: u64,
    /// Bytes of the file.
    pub bytes_out: u64,
}

fn schema() -> SchemaRef {
    let item = Arc::new(Field::new_list_field(DataType::Int64, true));
    Arc::new(Schema::new(vec![
        Field::new("txid", DataType::Binary, false),
        Field::new("height", DataType::Int32, false),
        Field::new("tweak_key", DataType::Binary, false),
        Field::new("outputs", DataType::List(item), false),
    ]))
}

/// Rows under construction.
struct Columns {
    rows: usize,
    outputs_count: usize,
    txid: BinaryBuilder,
    height: Int32Builder,
    tweak_key: BinaryBuilder,
    outputs: ListBuilder<Int64Builder>,
}

impl Default for Columns {
    fn default() -> Columns {
        Columns {
            rows: 0,
            outputs_count: 0,
            txid: BinaryBuilder::new(),
            height: Int32Builder::new(),
            tweak_key: BinaryBuilder::new(),
            outputs: ListBuilder::new(Int64Builder::new()),
        }
    }
}

impl Columns {
    fn push(&mut self, height: Height, tx: &SilentTx) -> Result<(), Fault> {
        let mut txid = *tx.txid.as_bytes();
        txid.reverse();
        self.txid.append_value(txid);
        self.height.append_value(i32::try_from(height.to_u32()).map_err(fault)?);
        self.tweak_key.append_value(coordinates(tx)?);
        for output in &tx.outputs {
            let first = output.key.first_chunk().expect("a key has more bytes");
            self.outputs.values().append_value(i64::from_be_bytes(*first));
        }
        self.outputs.append(true);
        self.rows += 1;
        self.outputs_count += tx.outputs.len();
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.rows >= GROUP_ROWS || self.outputs_count >= GROUP_OUTPUTS_MAX
    }

    fn finish(mut self) -> Result<RecordBatch, Fault> {
        let columns: Vec<arrow_array::ArrayRef> = vec![
            Arc::new(self.txid.finish()),
            Arc::new(self.height.finish()),
            Arc::new(self.tweak_key.finish()),
            Arc::new(self.outputs.finish()),
        ];
        RecordBatch::try_new(schema(), columns).map_err(fault)
    }
}

/// x and y of a tweak, little-endian.
fn coordinates(tx: &SilentTx) -> Result<[u8; 64], Fault> {
    let key = secp256k1::PublicKey::from_slice(&tx.entry.tweak).map_err(|_| {
        let why = format!("silentpaymentindex has a tweak of transaction {} that is not a point of the curve", tx.txid);
        let advice = "Remove the directory indexes/silentpayments and run ffwd index --only silentpaymentindex";
        Fault::refused(why, advice)
    })?;
    let mut both = [0; 64];
    both.copy_from_slice(&key.serialize_uncompressed()[1..]);
    both.as_chunks_mut::<32>().0.iter_mut().for_each(|half| half.reverse());
    Ok(both)
}

/// A file of groups.
struct Table {
    format: Format,
    writer: SerializedFileWriter<File>,
    columns: Columns,
}

impl Table {
    fn flush(&mut self, place: &Path) -> Result<(), Fault> {
        if self.columns.rows == 0 {
            return Ok(());
        }
        let group = self.format.encode(&std::mem::take(&mut self.columns).finish()?)?;
        encode::append(&mut self.writer, group, place)
    }
}

/// Writes the table. `progress` is called with each height.
///
/// # Errors
///
/// There is no silentpaymentindex, it is damaged or lacks blocks, blocks are pruned, or an I/O error.
pub fn export_tweaks(
    options: &Options,
    request: &TweaksRequest<'_>,
    progress: &dyn Fn(Height),
) -> Result<TweaksReport, Fault> {
    let out = std::path::absolute(request.out).map_err(|why| failed(request.out, why))?;
    let _claim = claim(&out)?;
    let aside = Aside::new(with_end(&out, ".incomplete"), out.clone())?;
    let format = Format::of(schema())?;
    let writer = format.writer(aside.create()?).map_err(|why| failed(aside.place(), why))?;
    let mut table = Table { format, writer, columns: Columns::default() };
    let mut rows = 0;
    let mut outputs = 0;
    let to = each_silent_block(options, request.from, request.to, &mut |block| {
        for tx in block.transactions.iter().flatten() {
            table.columns.push(block.height, tx)?;
            rows += 1;
            outputs += tx.outputs.len() as u64;
        }
        if table.columns.is_full() {
            table.flush(aside.place())?;
        }
        progress(block.height);
        Ok(())
    })?;
    table.flush(aside.place())?;
    table.writer.finish().map_err(|why| failed(aside.place(), why))?;
    drop(table);
    Ok(TweaksReport { to, rows, outputs, bytes_out: aside.finish()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Int32Type, Int64Type};
    use node::jobs::SilentOutput;
    use primitives::{Amount, Txid, hex};

    /// The generator for a tweak. Source of the form: Frigate's README, "uncompressed little endian x,y format", and `getHashPrefix`.
    #[test]
    fn rows_have_frigates_form() {
        let x = "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";
        let y = "483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8";
        let tweak = hex::decode(&format!("02{x}")).unwrap().try_into().unwrap();
        let entry = indexes_entry(tweak);
        let output = |first: u8| SilentOutput {
            vout: 0,
            key: [&[first, 1, 2, 3, 4, 5, 6, 7][..], &[9; 24]].concat().try_into().unwrap(),
            value: Amount(5),
            is_unspent: true,
        };
        let txid = Txid::from_display(&"0102".repeat(16)).unwrap();
        let tx = SilentTx { txid, entry, outputs: vec![output(0), output(0xff)] };
        let mut columns = Columns::default();
        columns.push(Height::new(7), &tx).unwrap();
        columns.push(Height::new(8), &SilentTx { outputs: vec![output(1)], ..tx }).unwrap();
        assert!(!columns.is_full());
        let rows = columns.finish().unwrap();
        assert_eq!(rows.num_rows(), 2);
        assert_eq!(hex::encode(rows.column(0).as_binary::<i32>().value(0)), "0102".repeat(16));
        assert_eq!(rows.column(1).as_primitive::<Int32Type>().values()[..], [7, 8]);
        let reversed = |text: &str| hex::decode(text).unwrap().into_iter().rev().collect::<Vec<u8>>();
        assert_eq!(rows.column(2).as_binary::<i32>().value(0), [reversed(x), reversed(y)].concat());
        let outputs = rows.column(3).as_list::<i32>();
        let first = outputs.value(0);
        let want = [0x0001_0203_0405_0607, 0xff01_0203_0405_0607_u64.cast_signed()];
        assert_eq!(first.as_primitive::<Int64Type>().values()[..], want);
        assert_eq!(outputs.value(1).len(), 1);
        let bad = SilentTx { entry: indexes_entry([5; 33]), outputs: Vec::new(), txid };
        assert!(Columns::default().push(Height::new(7), &bad).unwrap_err().to_string().contains("not a point"));
    }

    fn indexes_entry(tweak: [u8; 33]) -> node::jobs::SilentEntry {
        node::jobs::SilentEntry { tx_index: 1, value_max: 5, tweak }
    }
}
