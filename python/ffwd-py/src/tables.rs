//! Blocks and coins as tables that are made while they are read: `__arrow_c_stream__` of the Arrow PyCapsule interface.
//!
//! Names and types of columns are those of `ffwd export` (docs/export.md). Source: arrow.apache.org, "The Arrow PyCapsule
//! Interface".

use crate::columns::{Kind, Rows, schema};
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::ArrowError;
use ffwd_engine::{Block, Blocks, Coin, Coins, DataDir, Error, Transaction};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::{Arc, Mutex, PoisonError};

/// A batch ends behind the block, or the coin, with which it has this many rows, or this many bytes of scripts.
const BATCH_ROWS: usize = 1 << 15;
const BATCH_BYTES: usize = 8 << 20;

/// A table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Table {
    Blocks,
    Transactions,
    Inputs,
    Outputs,
    Coins,
}

impl Table {
    fn columns(self) -> &'static [(&'static str, Kind)] {
        match self {
            Table::Blocks => &[
                ("hash", Kind::Hash),
                ("size", Kind::Number),
                ("stripped_size", Kind::Number),
                ("weight", Kind::Number),
                ("number", Kind::Number),
                ("version", Kind::Number),
                ("merkle_root", Kind::Hash),
                ("timestamp", Kind::Time),
                ("nonce", Kind::Number),
                ("bits", Kind::Number),
                ("coinbase_param", Kind::Bytes),
                ("transaction_count", Kind::Number),
            ],
            Table::Transactions => &[
                ("hash", Kind::Hash),
                ("size", Kind::Number),
                ("virtual_size", Kind::Number),
                ("version", Kind::Number),
                ("lock_time", Kind::Number),
                ("block_number", Kind::Number),
                ("block_hash", Kind::Hash),
                ("block_timestamp", Kind::Time),
                ("is_coinbase", Kind::Flag),
                ("index", Kind::Number),
                ("input_count", Kind::Number),
                ("output_count", Kind::Number),
                ("input_value", Kind::MaybeNumber),
                ("output_value", Kind::Number),
                ("fee", Kind::MaybeNumber),
            ],
            Table::Inputs => &[
                ("block_number", Kind::Number),
                ("transaction_hash", Kind::Hash),
                ("index", Kind::Number),
                ("spent_transaction_hash", Kind::Hash),
                ("spent_output_index", Kind::Number),
                ("script_hex", Kind::Bytes),
                ("sequence", Kind::Number),
                ("type", Kind::Text),
                ("value", Kind::Number),
                ("spent_block_number", Kind::Number),
                ("spent_is_coinbase", Kind::Flag),
                ("spent_script_hex", Kind::Bytes),
            ],
            Table::Outputs => &[
                ("block_number", Kind::Number),
                ("transaction_hash", Kind::Hash),
                ("index", Kind::Number),
                ("script_hex", Kind::Bytes),
                ("type", Kind::Text),
                ("value", Kind::Number),
            ],
            Table::Coins => &[
                ("transaction_hash", Kind::Hash),
                ("index", Kind::Number),
                ("block_number", Kind::Number),
                ("is_coinbase", Kind::Flag),
                ("script_hex", Kind::Bytes),
                ("type", Kind::Text),
                ("value", Kind::Number),
            ],
        }
    }

    /// The rows of a block.
    fn add(self, rows: &mut Rows, block: &Block) {
        match self {
            Table::Blocks => block_row(rows, block),
            Table::Transactions => block.transactions().enumerate().for_each(|(at, tx)| tx_row(rows, block, at, &tx)),
            Table::Inputs => block.transactions().skip(1).for_each(|tx| input_rows(rows, block, &tx)),
            Table::Outputs => block.transactions().for_each(|tx| output_rows(rows, block, &tx)),
            Table::Coins => unreachable!("coins are of no block"),
        }
    }
}

fn block_row(rows: &mut Rows, block: &Block) {
    let header = block.header();
    rows.hash(block.hash().to_bytes());
    rows.size(block.bytes().len());
    rows.size(block.stripped_size());
    rows.size(block.weight());
    rows.number(block.height());
    rows.number(header.version);
    rows.hash(header.merkle_root);
    rows.time(header.time);
    rows.number(header.nonce);
    rows.number(header.bits);
    let coinbase = block.transaction(0);
    rows.bytes_of(coinbase.inputs().next().map_or(&[], |input| input.script_sig()));
    rows.size(block.transactions().len());
}

fn tx_row(rows: &mut Rows, block: &Block, index: usize, tx: &Transaction<'_>) {
    let sum_in = tx.inputs().filter_map(|input| input.prevout()).fold(0i64, |sum, coin| sum.wrapping_add(coin.value));
    let sum_out = tx.outputs().fold(0i64, |sum, output| sum.wrapping_add(output.value));
    let spends = !tx.is_coinbase();
    rows.hash(tx.txid().to_bytes());
    rows.size(tx.bytes().len());
    rows.size(tx.virtual_size());
    rows.number(tx.version());
    rows.number(tx.lock_time());
    rows.number(block.height());
    rows.hash(block.hash().to_bytes());
    rows.time(block.header().time);
    rows.flag(tx.is_coinbase());
    rows.size(index);
    rows.size(if spends { tx.inputs().len() } else { 0 });
    rows.size(tx.outputs().len());
    rows.maybe(spends.then_some(sum_in));
    rows.number(sum_out);
    rows.maybe(spends.then_some(sum_in.wrapping_sub(sum_out)));
}

fn input_rows(rows: &mut Rows, block: &Block, tx: &Transaction<'_>) {
    for (index, input) in tx.inputs().enumerate() {
        let Some(prevout) = input.prevout() else { continue };
        let outpoint = input.outpoint();
        rows.number(block.height());
        rows.hash(tx.txid().to_bytes());
        rows.size(index);
        rows.hash(outpoint.txid.to_bytes());
        rows.number(outpoint.vout);
        rows.bytes_of(input.script_sig());
        rows.number(input.sequence());
        rows.text(prevout.script_type().name());
        rows.number(prevout.value);
        rows.number(prevout.height);
        rows.flag(prevout.is_coinbase);
        rows.bytes_of(prevout.script);
    }
}

fn output_rows(rows: &mut Rows, block: &Block, tx: &Transaction<'_>) {
    for (index, output) in tx.outputs().enumerate() {
        rows.number(block.height());
        rows.hash(tx.txid().to_bytes());
        rows.size(index);
        rows.bytes_of(output.script);
        rows.text(output.script_type().name());
        rows.number(output.value);
    }
}

fn coin_row(rows: &mut Rows, coin: &Coin) {
    rows.hash(coin.outpoint.txid.to_bytes());
    rows.number(coin.outpoint.vout);
    rows.number(coin.height);
    rows.flag(coin.is_coinbase);
    rows.bytes_of(&coin.script);
    rows.text(coin.script_type().name());
    rows.number(coin.value);
}

/// Where rows come from.
enum Source {
    /// Blocks of heights from `start` to below `stop`.
    Blocks {
        dir: DataDir,
        start: u32,
        stop: Option<u32>,
        /// Opened to see that they are there; the first stream takes them.
        opened: Mutex<Option<Blocks>>,
    },
    /// A UTXO set.
    Coins(Arc<Coins>),
}

/// Rows that are made when they are read. Each reader gets all of them.
#[pyclass(frozen, module = "ffwd")]
pub(crate) struct ArrowTable {
    table: Table,
    source: Source,
}

impl ArrowTable {
    /// The blocks, or what is in them.
    pub(crate) fn of_blocks(dir: &DataDir, table: Table, start: u32, stop: Option<u32>) -> Result<ArrowTable, Error> {
        let opened = Mutex::new(Some(open(dir, start, stop)?));
        Ok(ArrowTable { table, source: Source::Blocks { dir: dir.clone(), start, stop, opened } })
    }

    /// A UTXO set.
    pub(crate) fn of_coins(coins: &Arc<Coins>) -> ArrowTable {
        ArrowTable { table: Table::Coins, source: Source::Coins(coins.clone()) }
    }

    fn batches(&self) -> Result<Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>, Error> {
        let table = self.table;
        let rows = Rows::new(table.columns());
        Ok(match &self.source {
            Source::Blocks { dir, start, stop, opened } => {
                let opened = opened.lock().unwrap_or_else(PoisonError::into_inner).take();
                let blocks = opened.map_or_else(|| open(dir, *start, *stop), Ok)?;
                Box::new(Batches {
                    items: blocks,
                    rows,
                    add: move |rows: &mut Rows, block: Block| table.add(rows, &block),
                })
            }
            Source::Coins(coins) => {
                let items = coins.iter()?;
                Box::new(Batches { items, rows, add: |rows: &mut Rows, coin: Coin| coin_row(rows, &coin) })
            }
        })
    }
}

fn open(dir: &DataDir, start: u32, stop: Option<u32>) -> Result<Blocks, Error> {
    match stop {
        Some(stop) => dir.blocks(start..stop),
        None => dir.blocks(start..),
    }
}

/// Batches of the rows of some items.
struct Batches<I, A> {
    items: I,
    rows: Rows,
    add: A,
}

impl<T, I: Iterator<Item = Result<T, Error>>, A: Fn(&mut Rows, T)> Iterator for Batches<I, A> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        while self.rows.count() < BATCH_ROWS && self.rows.bytes() < BATCH_BYTES {
            match self.items.next() {
                Some(Ok(item)) => (self.add)(&mut self.rows, item),
                Some(Err(why)) => return Some(Err(ArrowError::ExternalError(Box::new(why)))),
                None => break,
            }
        }
        (self.rows.count() > 0).then(|| self.rows.finish())
    }
}

#[pymethods]
impl ArrowTable {
    pub(crate) fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*schema(self.table.columns()));
        let schema = schema.map_err(|why| PyValueError::new_err(why.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// A schema that is asked for is not heeded: the interface leaves that to who gives the stream.
    #[pyo3(signature = (requested_schema = None))]
    pub(crate) fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = py.detach(|| self.batches()).map_err(|why| crate::errors::engine(py, &why))?;
        let reader = RecordBatchIterator::new(batches, schema(self.table.columns()));
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), c"arrow_array_stream")
    }

    fn __repr__(&self) -> String {
        let names: Vec<&str> = self.table.columns().iter().map(|(name, _)| *name).collect();
        format!("ArrowTable({})", names.join(", "))
    }
}
