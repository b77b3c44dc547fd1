//! Coins as Parquet: groups of rows that are encoded in parallel.

use super::{Row, Rows, Writer};
use crate::aside::{Aside, failed};
use crate::encode::{self, Format, Group, fault};
use arrow_array::RecordBatch;
use arrow_array::builder::{BinaryBuilder, BooleanBuilder, FixedSizeBinaryBuilder, Int64Builder, StringBuilder};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use node::Fault;
use parquet::file::writer::SerializedFileWriter;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes of a hash.
const HASH_BYTES: i32 = 32;
/// Maximum rows of a group, and the approximate maximum of their scripts' bytes: a reader and a worker must hold a
/// group in memory.
const GROUP_ROWS_MAX: usize = 1 << 18;
const GROUP_SCRIPT_BYTES_MAX: usize = 16 << 20;

/// The columns.
fn schema() -> SchemaRef {
    let [txid, vout, height, coinbase, amount, script, kind, address] = super::COLUMNS;
    let number = |name| Field::new(name, DataType::Int64, false);
    Arc::new(Schema::new(vec![
        Field::new(txid, DataType::FixedSizeBinary(HASH_BYTES), false),
        number(vout),
        number(height),
        Field::new(coinbase, DataType::Boolean, false),
        number(amount),
        Field::new(script, DataType::Binary, false),
        Field::new(kind, DataType::Utf8, false),
        Field::new(address, DataType::Utf8, true),
    ]))
}

/// A file of groups.
pub(super) struct ParquetWriter {
    format: Arc<Format>,
    writer: SerializedFileWriter<File>,
    path: PathBuf,
}

impl ParquetWriter {
    pub(super) fn create(aside: &Aside) -> Result<ParquetWriter, Fault> {
        let format = Arc::new(Format::of(schema())?);
        let writer = format.writer(aside.create()?).map_err(|why| failed(aside.place(), why))?;
        Ok(ParquetWriter { format, writer, path: aside.place().to_path_buf() })
    }
}

impl Writer for ParquetWriter {
    type Piece = Vec<Group>;
    type Maker = Arc<Format>;

    fn maker(&self) -> Arc<Format> {
        self.format.clone()
    }

    fn piece(format: &Arc<Format>, rows: &mut Rows<'_, '_>) -> Result<Vec<Group>, Fault> {
        let mut groups = Vec::new();
        let mut columns = Columns::default();
        rows.each(|row| {
            columns.push(row);
            if columns.rows >= GROUP_ROWS_MAX || columns.script_bytes >= GROUP_SCRIPT_BYTES_MAX {
                groups.push(format.encode(&std::mem::take(&mut columns).finish()?)?);
            }
            Ok(())
        })?;
        if columns.rows > 0 {
            groups.push(format.encode(&columns.finish()?)?);
        }
        Ok(groups)
    }

    fn append(&mut self, groups: Vec<Group>) -> Result<(), Fault> {
        groups.into_iter().try_for_each(|group| encode::append(&mut self.writer, group, &self.path))
    }

    fn close(mut self) -> Result<(), Fault> {
        self.writer.finish().map_err(|why| failed(&self.path, why))?;
        Ok(())
    }
}

/// The columns of a group under construction.
struct Columns {
    rows: usize,
    script_bytes: usize,
    txid: FixedSizeBinaryBuilder,
    vout: Int64Builder,
    height: Int64Builder,
    coinbase: BooleanBuilder,
    amount: Int64Builder,
    script: BinaryBuilder,
    kind: StringBuilder,
    address: StringBuilder,
}

impl Default for Columns {
    fn default() -> Columns {
        Columns {
            rows: 0,
            script_bytes: 0,
            txid: FixedSizeBinaryBuilder::new(HASH_BYTES),
            vout: Int64Builder::new(),
            height: Int64Builder::new(),
            coinbase: BooleanBuilder::new(),
            amount: Int64Builder::new(),
            script: BinaryBuilder::new(),
            kind: StringBuilder::new(),
            address: StringBuilder::new(),
        }
    }
}

impl Columns {
    fn push(&mut self, row: &Row<'_>) {
        self.rows += 1;
        self.script_bytes += row.script.len();
        self.txid.append_value(row.shown_txid()).expect("a hash has 32 bytes");
        self.vout.append_value(row.outpoint.vout.into());
        self.height.append_value(row.coin.height.to_u32().into());
        self.coinbase.append_value(row.coin.coinbase);
        self.amount.append_value(row.coin.value.0);
        self.script.append_value(row.script);
        self.kind.append_value(row.payee.name());
        self.address.append_option(row.address);
    }

    fn finish(mut self) -> Result<RecordBatch, Fault> {
        RecordBatch::try_new(
            schema(),
            vec![
                Arc::new(self.txid.finish()),
                Arc::new(self.vout.finish()),
                Arc::new(self.height.finish()),
                Arc::new(self.coinbase.finish()),
                Arc::new(self.amount.finish()),
                Arc::new(self.script.finish()),
                Arc::new(self.kind.finish()),
                Arc::new(self.address.finish()),
            ],
        )
        .map_err(fault)
    }
}
