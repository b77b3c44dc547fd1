//! The columns of the tables, and rows that are put into them from the first column to the last.

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, FixedSizeBinaryBuilder, Int64Builder, StringBuilder, TimestampMillisecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use std::sync::Arc;

/// Bytes of a hash.
const HASH_BYTES: i32 = 32;

/// The kind of a column's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A whole number.
    Number,
    /// The same, or nothing.
    MaybeNumber,
    /// 32 bytes, in the order in which they are printed.
    Hash,
    /// Bytes.
    Bytes,
    /// A name.
    Text,
    /// Yes or no.
    Flag,
    /// A time, in UTC.
    Time,
}

impl Kind {
    fn field(self, name: &str) -> Field {
        let (data_type, nullable) = match self {
            Kind::Number => (DataType::Int64, false),
            Kind::MaybeNumber => (DataType::Int64, true),
            Kind::Hash => (DataType::FixedSizeBinary(HASH_BYTES), false),
            Kind::Bytes => (DataType::Binary, false),
            Kind::Text => (DataType::Utf8, false),
            Kind::Flag => (DataType::Boolean, false),
            Kind::Time => (DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())), false),
        };
        Field::new(name, data_type, nullable)
    }
}

/// The schema of columns.
pub(crate) fn schema(columns: &[(&str, Kind)]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(|(name, kind)| kind.field(name)).collect::<Vec<_>>()))
}

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
    fn new(kind: Kind) -> Column {
        match kind {
            Kind::Number | Kind::MaybeNumber => Column::Number(Int64Builder::new()),
            Kind::Hash => Column::Hash(FixedSizeBinaryBuilder::new(HASH_BYTES)),
            Kind::Bytes => Column::Bytes(BinaryBuilder::new()),
            Kind::Text => Column::Text(StringBuilder::new()),
            Kind::Flag => Column::Flag(BooleanBuilder::new()),
            Kind::Time => Column::Time(TimestampMillisecondBuilder::new().with_timezone("UTC")),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Column::Number(column) => Arc::new(column.finish()),
            Column::Hash(column) => Arc::new(column.finish()),
            Column::Bytes(column) => Arc::new(column.finish()),
            Column::Text(column) => Arc::new(column.finish()),
            Column::Flag(column) => Arc::new(column.finish()),
            Column::Time(column) => Arc::new(column.finish()),
        }
    }
}

const KIND: &str = "a column gets values of its own kind";

/// Rows under construction.
pub(crate) struct Rows {
    schema: SchemaRef,
    columns: Vec<Column>,
    next: usize,
    count: usize,
    bytes: usize,
}

impl Rows {
    /// No rows of these columns.
    pub(crate) fn new(columns: &[(&str, Kind)]) -> Rows {
        let schema = schema(columns);
        let columns = columns.iter().map(|(_, kind)| Column::new(*kind)).collect();
        Rows { schema, columns, next: 0, count: 0, bytes: 0 }
    }

    /// Whole rows.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Bytes of scripts and the like in them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn next(&mut self) -> &mut Column {
        let at = self.next;
        self.next += 1;
        if self.next == self.columns.len() {
            self.next = 0;
            self.count += 1;
        }
        &mut self.columns[at]
    }

    pub(crate) fn number(&mut self, value: impl Into<i64>) {
        self.maybe(Some(value.into()));
    }

    /// A size or a count of something in memory.
    pub(crate) fn size(&mut self, value: usize) {
        self.number(i64::try_from(value).expect("memory has fewer bytes"));
    }

    pub(crate) fn maybe(&mut self, value: Option<i64>) {
        let Column::Number(column) = self.next() else { panic!("{KIND}") };
        column.append_option(value);
    }

    /// A hash in internal order; its last byte is printed first.
    pub(crate) fn hash(&mut self, mut bytes: [u8; 32]) {
        let Column::Hash(column) = self.next() else { panic!("{KIND}") };
        bytes.reverse();
        column.append_value(bytes).expect("a hash has 32 bytes");
    }

    pub(crate) fn bytes_of(&mut self, value: &[u8]) {
        self.bytes += value.len();
        let Column::Bytes(column) = self.next() else { panic!("{KIND}") };
        column.append_value(value);
    }

    pub(crate) fn text(&mut self, value: &str) {
        let Column::Text(column) = self.next() else { panic!("{KIND}") };
        column.append_value(value);
    }

    pub(crate) fn flag(&mut self, value: bool) {
        let Column::Flag(column) = self.next() else { panic!("{KIND}") };
        column.append_value(value);
    }

    pub(crate) fn time(&mut self, seconds: u32) {
        let Column::Time(column) = self.next() else { panic!("{KIND}") };
        column.append_value(i64::from(seconds) * 1000);
    }

    /// The rows; none are left.
    pub(crate) fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        assert_eq!(self.next, 0, "the last row is whole");
        self.count = 0;
        self.bytes = 0;
        RecordBatch::try_new(self.schema.clone(), self.columns.iter_mut().map(Column::finish).collect())
    }
}
