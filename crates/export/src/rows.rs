//! Converts blocks to columns: one pass over each block, with the spent coins of its inputs from undo data.

use crate::address::Addresses;
use crate::tables::{Selection, Table, list_field};
use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, FixedSizeBinaryBuilder, Int64Builder, StringBuilder, TimestampMillisecondBuilder,
};
use arrow_array::{ArrayRef, ListArray, RecordBatch, StructArray};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType};
use primitives::{Block, CoinRef, Height, Txid};
use show::output::Payee;
use std::sync::Arc;

/// Bytes of a hash.
const HASH_BYTES: i32 = 32;

/// A column under construction.
enum Column {
    Number(Int64Builder),
    Hash(FixedSizeBinaryBuilder),
    Bytes(BinaryBuilder),
    Text(StringBuilder),
    Flag(BooleanBuilder),
    Time(TimestampMillisecondBuilder),
}

impl Column {
    fn new(kind: &DataType) -> Column {
        match kind {
            DataType::Int64 => Column::Number(Int64Builder::new()),
            DataType::FixedSizeBinary(_) => Column::Hash(FixedSizeBinaryBuilder::new(HASH_BYTES)),
            DataType::Binary => Column::Bytes(BinaryBuilder::new()),
            DataType::Utf8 => Column::Text(StringBuilder::new()),
            DataType::Boolean => Column::Flag(BooleanBuilder::new()),
            DataType::Timestamp(..) => Column::Time(TimestampMillisecondBuilder::new().with_timezone("UTC")),
            kind => unreachable!("no table has a column of {kind}"),
        }
    }

    fn finish(self) -> ArrayRef {
        match self {
            Column::Number(mut column) => Arc::new(column.finish()),
            Column::Hash(mut column) => Arc::new(column.finish()),
            Column::Bytes(mut column) => Arc::new(column.finish()),
            Column::Text(mut column) => Arc::new(column.finish()),
            Column::Flag(mut column) => Arc::new(column.finish()),
            Column::Time(mut column) => Arc::new(column.finish()),
        }
    }
}

/// The columns of a table, filled from the first to the last for each row. Unselected columns are skipped.
struct Columns {
    columns: Vec<Option<Column>>,
    next: usize,
}

const KIND: &str = "a column gets values of its own kind";

impl Columns {
    fn new(selection: &Selection, table: Table) -> Columns {
        // Nested as a whole: the name `inputs` selects all its columns.
        let nested = selection.nested_fields(table);
        let is_nested = |name: &str| selection.nests(table) && nested.iter().any(|field| field.name() == name);
        let columns = table.fields().into_iter().map(|field| {
            let is_wanted = selection.has(table, field.name()) || is_nested(field.name());
            is_wanted.then(|| Column::new(field.data_type()))
        });
        Columns { columns: columns.collect(), next: 0 }
    }

    fn next(&mut self) -> Option<&mut Column> {
        let at = self.next;
        self.next = if at + 1 == self.columns.len() { 0 } else { at + 1 };
        self.columns[at].as_mut()
    }

    fn number(&mut self, value: i64) {
        self.maybe(Some(value));
    }

    fn maybe(&mut self, value: Option<i64>) {
        match self.next() {
            Some(Column::Number(column)) => column.append_option(value),
            Some(_) => panic!("{KIND}"),
            None => {}
        }
    }

    /// A hash in the byte order of its text form: reversed.
    fn hash(&mut self, bytes: &[u8; 32]) {
        match self.next() {
            Some(Column::Hash(column)) => {
                let mut shown = *bytes;
                shown.reverse();
                column.append_value(shown).expect("a hash has 32 bytes");
            }
            Some(_) => panic!("{KIND}"),
            None => {}
        }
    }

    fn bytes(&mut self, value: &[u8]) {
        match self.next() {
            Some(Column::Bytes(column)) => column.append_value(value),
            Some(_) => panic!("{KIND}"),
            None => {}
        }
    }

    fn flag(&mut self, value: bool) {
        match self.next() {
            Some(Column::Flag(column)) => column.append_value(value),
            Some(_) => panic!("{KIND}"),
            None => {}
        }
    }

    fn time(&mut self, seconds: u32) {
        match self.next() {
            Some(Column::Time(column)) => column.append_value(i64::from(seconds) * 1000),
            Some(_) => panic!("{KIND}"),
            None => {}
        }
    }

    /// Type and address of a script: two columns.
    fn payee(&mut self, addresses: &mut Addresses, script: &[u8]) {
        let payee = Payee::of(script);
        match self.next() {
            Some(Column::Text(column)) => column.append_value(payee.name()),
            Some(_) => panic!("{KIND}"),
            None => {}
        }
        match self.next() {
            Some(Column::Text(column)) => addresses.append(&payee, column),
            Some(_) => panic!("{KIND}"),
            None => {}
        }
    }
}

/// Number of rows in each table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Blocks.
    pub blocks: u64,
    /// Transactions.
    pub transactions: u64,
    /// Inputs, without those of coinbases.
    pub inputs: u64,
    /// Outputs.
    pub outputs: u64,
}

/// Rows of consecutive blocks.
pub struct Rows<'s> {
    selection: &'s Selection,
    addresses: Addresses,
    tables: [Columns; 4],
    /// Ends of each transaction's inputs and outputs, where they are nested.
    ends: [Vec<i32>; 2],
    counts: Counts,
    script: Vec<u8>,
}

impl<'s> Rows<'s> {
    /// No rows yet.
    pub fn new(selection: &'s Selection, addresses: Addresses) -> Rows<'s> {
        let tables = Table::ALL.map(|table| Columns::new(selection, table));
        let ends = [vec![0], vec![0]];
        let script = Vec::new();
        Rows { selection, addresses, tables, ends, counts: Counts::default(), script }
    }

    fn table(&mut self, table: Table) -> &mut Columns {
        &mut self.tables[table as usize]
    }

    /// Adds a block. `spent` are the coins of its inputs in order, without the coinbase's input.
    ///
    /// # Panics
    ///
    /// If there are fewer coins than inputs.
    pub fn block(&mut self, height: Height, block: &Block<'_>, txids: &[Txid], spent: &[CoinRef<'_>]) {
        let number = i64::from(height.to_u32());
        let header = block.header();
        let hash = header.hash();
        let coinbase_script = if block.input_count() > 0 { block.input(0).script_sig() } else { &[] };
        let row = self.table(Table::Blocks);
        row.hash(hash.as_bytes());
        row.number(block.bytes().len() as i64);
        row.number(block.stripped_bytes() as i64);
        row.number(block.weight() as i64);
        row.number(number);
        row.number(header.version().into());
        row.hash(header.merkle_root().as_bytes());
        row.time(header.time());
        row.number(header.nonce().into());
        row.number(header.bits().into());
        row.bytes(coinbase_script);
        row.number(block.transaction_count() as i64);
        for (index, tx) in block.transactions().enumerate() {
            let coins = if index == 0 { &[] } else { &spent[tx.first_input() - 1..][..tx.input_count()] };
            let value_in = self.inputs(number, &tx, &txids[index], coins);
            let value_out = self.outputs(number, &tx, &txids[index]);
            let is_coinbase = index == 0;
            let row = self.table(Table::Transactions);
            row.hash(txids[index].as_bytes());
            row.number(tx.bytes().len() as i64);
            row.number((3 * tx.stripped_bytes() + tx.bytes().len()).div_ceil(4) as i64);
            row.number(tx.version().into());
            row.number(tx.lock_time().into());
            row.number(number);
            row.hash(hash.as_bytes());
            row.time(header.time());
            row.flag(is_coinbase);
            row.number(index as i64);
            row.number(coins.len() as i64);
            row.number(tx.output_count() as i64);
            row.maybe((!is_coinbase).then_some(value_in));
            row.number(value_out);
            row.maybe((!is_coinbase).then_some(value_in.wrapping_sub(value_out)));
        }
        self.counts.blocks += 1;
        self.counts.transactions += block.transaction_count() as u64;
    }

    /// Adds the rows of a transaction's inputs; returns the sum of their amounts.
    fn inputs(&mut self, number: i64, tx: &primitives::Transaction<'_>, txid: &Txid, coins: &[CoinRef<'_>]) -> i64 {
        let mut script = std::mem::take(&mut self.script);
        let mut value_in = 0i64;
        let addresses = &mut self.addresses;
        let row = &mut self.tables[Table::Inputs as usize];
        for (index, (input, coin)) in tx.inputs().zip(coins).enumerate() {
            script.clear();
            coin.script.append_to(&mut script);
            let prevout = input.prevout();
            row.number(number);
            row.hash(txid.as_bytes());
            row.number(index as i64);
            row.hash(prevout.txid.as_bytes());
            row.number(prevout.vout.into());
            row.bytes(input.script_sig());
            row.number(input.sequence().into());
            row.bytes(input.witness_bytes());
            row.payee(addresses, &script);
            row.number(coin.value.0);
            row.number(coin.height.to_u32().into());
            row.flag(coin.coinbase);
            row.bytes(&script);
            value_in = value_in.wrapping_add(coin.value.0);
        }
        self.script = script;
        self.counts.inputs += coins.len() as u64;
        self.ends[0].push(self.counts.inputs as i32);
        value_in
    }

    /// Adds the rows of a transaction's outputs; returns the sum of their amounts.
    fn outputs(&mut self, number: i64, tx: &primitives::Transaction<'_>, txid: &Txid) -> i64 {
        let mut value_out = 0i64;
        let addresses = &mut self.addresses;
        let row = &mut self.tables[Table::Outputs as usize];
        for (index, output) in tx.outputs().enumerate() {
            row.number(number);
            row.hash(txid.as_bytes());
            row.number(index as i64);
            row.bytes(output.script());
            row.payee(addresses, output.script());
            row.number(output.value().0);
            value_out = value_out.wrapping_add(output.value().0);
        }
        self.counts.outputs += tx.output_count() as u64;
        self.ends[1].push(self.counts.outputs as i32);
        value_out
    }

    /// The selected tables, and the number of rows in each.
    ///
    /// # Errors
    ///
    /// The columns do not fit their schema.
    pub fn finish(self) -> Result<(Vec<(Table, RecordBatch)>, Counts), ArrowError> {
        let Rows { selection, tables, ends, counts, .. } = self;
        let arrays = tables.map(|columns| {
            columns.columns.into_iter().map(|column| column.map(Column::finish)).collect::<Vec<Option<ArrayRef>>>()
        });
        let mut batches = Vec::new();
        for table in selection.tables() {
            let schema = selection.schema(*table);
            let fields = table.fields();
            let named = fields.iter().zip(&arrays[*table as usize]);
            let mut columns: Vec<ArrayRef> = named
                .filter(|(field, _)| selection.has(*table, field.name()))
                .filter_map(|(_, array)| array.clone())
                .collect();
            if *table == Table::Transactions {
                for (nested, ends) in [Table::Inputs, Table::Outputs].into_iter().zip(&ends) {
                    if selection.nests(nested) {
                        columns.push(list(selection, nested, &arrays[nested as usize], ends)?);
                    }
                }
            }
            batches.push((*table, RecordBatch::try_new(schema, columns)?));
        }
        Ok((batches, counts))
    }
}

/// The lists of all transactions' inputs, or outputs.
fn list(
    selection: &Selection,
    table: Table,
    arrays: &[Option<ArrayRef>],
    ends: &[i32],
) -> Result<ArrayRef, ArrowError> {
    let fields = selection.nested_fields(table);
    let is_nested = |name: &str| fields.iter().any(|field| field.name() == name);
    let all = table.fields();
    let columns = all.iter().zip(arrays).filter(|(field, _)| is_nested(field.name()));
    let columns: Vec<ArrayRef> = columns.filter_map(|(_, array)| array.clone()).collect();
    let fields = fields.into();
    let DataType::List(item) = list_field(table, &fields).data_type().clone() else {
        unreachable!("it is a list");
    };
    let items = StructArray::try_new(fields, columns, None)?;
    let offsets = OffsetBuffer::new(ScalarBuffer::from(ends.to_vec()));
    Ok(Arc::new(ListArray::try_new(item, offsets, Arc::new(items), None)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::Format;
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use consensus::Chain;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use primitives::{Amount, BlockHash, Tables, coin};
    use std::fs::File;
    use testkit::blocks::{In, Tx, block};

    /// A coinbase, and a transaction that spends two coins, one of them to a key's hash with a witness.
    fn sample() -> (Vec<u8>, Vec<Vec<u8>>, Vec<Tx>) {
        let coinbase = Tx::coinbase(9, 50);
        let mut tx = Tx::spend(coinbase.out(0), 5);
        tx.inputs[0].witness = vec![vec![1, 2], vec![]];
        tx.inputs.push(In::of(coinbase.out(1)));
        tx.inputs[1].script_sig = vec![0x51];
        tx.outputs.push((7, [&[0, 20][..], &[3; 20]].concat()));
        let stored = |code, value, script: &[u8]| {
            let mut out = Vec::new();
            coin::put_coin(&mut out, code, Amount(value), script);
            out
        };
        let spent = vec![stored(6, 20, &[&[0, 20][..], &[4; 20]].concat()), stored(11, 30, &[0x51])];
        (block(BlockHash::ZERO, 1000, &[coinbase.clone(), tx.clone()]), spent, vec![coinbase, tx])
    }

    fn batches(selection: &Selection) -> (Vec<(Table, RecordBatch)>, Counts) {
        let (bytes, spent, txs) = sample();
        let mut tables = Tables::new();
        let block = tables.parse_block(&bytes).unwrap();
        let spent: Vec<CoinRef<'_>> = spent.iter().map(|coin| CoinRef::decode(coin).unwrap()).collect();
        let mut rows = Rows::new(selection, Addresses::of(Chain::Regtest));
        let txids: Vec<Txid> = txs.iter().map(Tx::txid).collect();
        rows.block(Height::new(9), &block, &txids, &spent);
        rows.block(Height::new(10), &block, &txids, &spent);
        rows.finish().unwrap()
    }

    fn numbers(batch: &RecordBatch, name: &str) -> Vec<Option<i64>> {
        batch.column_by_name(name).unwrap().as_primitive::<Int64Type>().iter().collect()
    }

    fn texts(batch: &RecordBatch, name: &str) -> Vec<Option<String>> {
        batch.column_by_name(name).unwrap().as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect()
    }

    #[test]
    fn rows_are_what_blocks_and_undo_data_hold() {
        let (tables, counts) = batches(&Selection::all());
        assert_eq!(counts, Counts { blocks: 2, transactions: 4, inputs: 4, outputs: 6 });
        let [blocks, transactions, inputs, outputs] = &tables[..] else { panic!("four tables") };
        let (bytes, _, txs) = sample();
        assert_eq!(numbers(&blocks.1, "number"), [Some(9), Some(10)]);
        assert_eq!(numbers(&blocks.1, "size"), [Some(bytes.len() as i64); 2]);
        let fees = numbers(&transactions.1, "fee");
        assert_eq!(fees, [None, Some(38), None, Some(38)]);
        assert_eq!(numbers(&transactions.1, "input_count"), [0, 2, 0, 2].map(Some));
        let size = txs[1].bytes().len() as i64;
        assert_eq!(numbers(&transactions.1, "size")[1], Some(size));
        // Marker, flag and the stacks: two items of 2 and 0 bytes, and no items, count a quarter.
        assert_eq!(numbers(&transactions.1, "virtual_size")[1], Some((4 * (size - 8) + 8 + 3) / 4));
        assert_eq!(numbers(&inputs.1, "spent_block_number")[..2], [Some(3), Some(5)]);
        assert_eq!(numbers(&inputs.1, "value")[..2], [Some(20), Some(30)]);
        assert_eq!(
            texts(&inputs.1, "type")[..2],
            ["witness_v0_keyhash", "nonstandard"].map(|text| Some(text.to_owned()))
        );
        assert!(texts(&inputs.1, "address")[0].as_ref().is_some_and(|text| text.starts_with("bcrt1q")));
        assert_eq!(texts(&inputs.1, "address")[1], None);
        let witness = inputs.1.column_by_name("witness").unwrap().as_binary::<i32>();
        assert_eq!((witness.value(0), witness.value(1)), (&[2, 2, 1, 2, 0][..], &[0][..]));
        let flags = inputs.1.column_by_name("spent_is_coinbase").unwrap().as_boolean();
        assert_eq!((flags.value(0), flags.value(1)), (false, true));
        let mut shown = txs[1].txid().to_bytes();
        shown.reverse();
        let hashes = outputs.1.column_by_name("transaction_hash").unwrap().as_fixed_size_binary();
        assert_eq!(hashes.value(1), shown);
        assert_eq!(numbers(&outputs.1, "value")[..3], [Some(50), Some(5), Some(7)]);
    }

    #[test]
    fn nested_lists_hold_each_transactions_own() {
        let selection = Selection::new(&[], &[], true).unwrap();
        let (tables, _) = batches(&selection);
        let lists = tables[1].1.column_by_name("inputs").unwrap().as_list::<i32>();
        let lengths: Vec<i32> = (0..lists.len()).map(|row| lists.value_length(row)).collect();
        assert_eq!(lengths, [0, 2, 0, 2]);
        let second = lists.value(1);
        let values = second.as_struct().column_by_name("value").unwrap().as_primitive::<Int64Type>();
        assert_eq!(values.values()[..], [20, 30]);
        assert!(second.as_struct().column_by_name("transaction_hash").is_none());
        let outputs = tables[1].1.column_by_name("outputs").unwrap().as_list::<i32>();
        assert_eq!((0..4).map(|row| outputs.value_length(row)).collect::<Vec<_>>(), [1, 2, 1, 2]);
    }

    #[test]
    fn files_read_back_as_they_were_written() {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        for selection in [
            Selection::all(),
            Selection::new(&[], &[], true).unwrap(),
            Selection::new(&owned(&["inputs"]), &owned(&["value", "address"]), false).unwrap(),
            Selection::new(&owned(&["transactions"]), &owned(&["outputs", "inputs.value"]), true).unwrap(),
        ] {
            for (table, batch) in batches(&selection).0 {
                let format = Format::of(selection.schema(table)).unwrap();
                let path = tempfile::NamedTempFile::new().unwrap();
                let mut writer = format.writer(path.reopen().unwrap()).unwrap();
                for _ in 0..2 {
                    let mut group = writer.next_row_group().unwrap();
                    for column in format.encode(&batch).unwrap() {
                        column.append_to_row_group(&mut group).unwrap();
                    }
                    group.close().unwrap();
                }
                writer.close().unwrap();
                let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path.path()).unwrap()).unwrap();
                assert_eq!(reader.metadata().num_row_groups(), 2);
                let rows = batch.num_rows();
                let read: Vec<RecordBatch> =
                    reader.with_batch_size(rows).build().unwrap().map(Result::unwrap).collect();
                assert_eq!(read.len(), 2, "{table:?}");
                assert!(read.iter().all(|read| read.columns() == batch.columns()), "{table:?}");
            }
        }
    }
}
