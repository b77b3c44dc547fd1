//! Encodes rows into the pages of a Parquet file, on any thread; one thread writes them to the file.

use crate::aside::failed;
use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef};
use node::Fault;
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::add_encoded_arrow_schema_to_metadata;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, TypePtr};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// The common properties of a table's files.
pub(crate) struct Format {
    schema: SchemaRef,
    root: TypePtr,
    properties: WriterPropertiesPtr,
    factory: ArrowRowGroupWriterFactory,
}

/// The columns of a group of rows, encoded and compressed.
pub(crate) type Group = Vec<ArrowColumnChunk>;

pub(crate) fn fault(why: impl std::fmt::Display) -> Fault {
    Fault::internal(format!("Parquet cannot be written: {why}"))
}

impl Format {
    /// Files of these columns.
    ///
    /// # Errors
    ///
    /// Parquet does not support these columns.
    pub(crate) fn of(schema: SchemaRef) -> Result<Format, Fault> {
        let mut properties = properties(&schema);
        add_encoded_arrow_schema_to_metadata(&schema, &mut properties);
        let properties = Arc::new(properties);
        let root = ArrowSchemaConverter::new().convert(&schema).map_err(fault)?.root_schema_ptr();
        let writer = SerializedFileWriter::new(Vec::new(), root.clone(), properties.clone()).map_err(fault)?;
        let factory = ArrowRowGroupWriterFactory::new(&writer, schema.clone());
        Ok(Format { schema, root, properties, factory })
    }

    /// A file of this table.
    pub(crate) fn writer<W: Write + Send>(&self, out: W) -> Result<SerializedFileWriter<W>, ParquetError> {
        SerializedFileWriter::new(out, self.root.clone(), self.properties.clone())
    }

    /// Encodes rows.
    pub(crate) fn encode(&self, rows: &RecordBatch) -> Result<Group, Fault> {
        let mut writers = self.factory.create_column_writers(0).map_err(fault)?.into_iter();
        let mut group = Vec::new();
        for (field, column) in self.schema.fields().iter().zip(rows.columns()) {
            for leaf in compute_leaves(field, column).map_err(fault)? {
                let mut writer = writers.next().ok_or_else(|| fault("a column has no writer"))?;
                writer.write(&leaf).map_err(fault)?;
                group.push(writer.close().map_err(fault)?);
            }
        }
        Ok(group)
    }
}

/// Appends a group of rows to the file at `place`.
pub(crate) fn append(writer: &mut SerializedFileWriter<File>, group: Group, place: &Path) -> Result<(), Fault> {
    let mut rows = writer.next_row_group().map_err(fault)?;
    for column in group {
        column.append_to_row_group(&mut rows).map_err(|why| failed(place, why))?;
    }
    rows.close().map_err(|why| failed(place, why))?;
    Ok(())
}

/// zstd 1. Hashes and scripts hardly repeat: for them there is neither a dictionary nor statistics. A hash has nothing to compress.
fn properties(schema: &SchemaRef) -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_created_by(format!("ffwd {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1).expect("zstd has a level 1")))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(None);
    let mut bare = |path: Vec<String>, kind: &DataType, name: &str| {
        let hardly_repeats = matches!(kind, DataType::FixedSizeBinary(_) | DataType::Binary) || name == "address";
        if hardly_repeats {
            let path = ColumnPath::new(path);
            let with = std::mem::take(&mut properties);
            let is_hash = matches!(kind, DataType::FixedSizeBinary(_));
            let with =
                if is_hash { with.set_column_compression(path.clone(), Compression::UNCOMPRESSED) } else { with };
            properties = with
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_statistics_enabled(path, EnabledStatistics::None);
        }
    };
    for field in schema.fields() {
        match field.data_type() {
            DataType::List(item) => {
                let DataType::Struct(fields) = item.data_type() else { continue };
                for inner in fields {
                    let path = [field.name(), "list", "element", inner.name()].map(str::to_owned);
                    bare(path.to_vec(), inner.data_type(), inner.name());
                }
            }
            kind => bare(vec![field.name().clone()], kind, field.name()),
        }
    }
    properties.build()
}
