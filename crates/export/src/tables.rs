//! The four tables, their columns, and the selection of both.

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// A table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(usize)]
pub enum Table {
    /// A row for each block.
    Blocks,
    /// A row for each transaction.
    Transactions,
    /// A row for each input with its spent coin, except for coinbases.
    Inputs,
    /// A row for each output.
    Outputs,
}

impl Table {
    /// All tables, in their order.
    pub const ALL: [Table; 4] = [Table::Blocks, Table::Transactions, Table::Inputs, Table::Outputs];

    /// Its name, which is also its directory's.
    pub const fn name(self) -> &'static str {
        match self {
            Table::Blocks => "blocks",
            Table::Transactions => "transactions",
            Table::Inputs => "inputs",
            Table::Outputs => "outputs",
        }
    }

    /// Finds a table by its name.
    pub fn from_name(name: &str) -> Option<Table> {
        Table::ALL.into_iter().find(|table| table.name() == name)
    }

    /// Its columns, flat, in their order.
    pub fn fields(self) -> Vec<Field> {
        let number = |name: &str| Field::new(name, DataType::Int64, false);
        let hash = |name: &str| Field::new(name, DataType::FixedSizeBinary(32), false);
        let bytes = |name: &str| Field::new(name, DataType::Binary, false);
        let text = |name: &str, nullable| Field::new(name, DataType::Utf8, nullable);
        let flag = |name: &str| Field::new(name, DataType::Boolean, false);
        let time = |name: &str| Field::new(name, DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())), false);
        let maybe = |name: &str| Field::new(name, DataType::Int64, true);
        match self {
            Table::Blocks => vec![
                hash("hash"),
                number("size"),
                number("stripped_size"),
                number("weight"),
                number("number"),
                number("version"),
                hash("merkle_root"),
                time("timestamp"),
                number("nonce"),
                number("bits"),
                bytes("coinbase_param"),
                number("transaction_count"),
            ],
            Table::Transactions => vec![
                hash("hash"),
                number("size"),
                number("virtual_size"),
                number("version"),
                number("lock_time"),
                number("block_number"),
                hash("block_hash"),
                time("block_timestamp"),
                flag("is_coinbase"),
                number("index"),
                number("input_count"),
                number("output_count"),
                maybe("input_value"),
                number("output_value"),
                maybe("fee"),
            ],
            Table::Inputs => vec![
                number("block_number"),
                hash("transaction_hash"),
                number("index"),
                hash("spent_transaction_hash"),
                number("spent_output_index"),
                bytes("script_hex"),
                number("sequence"),
                bytes("witness"),
                text("type", false),
                text("address", true),
                number("value"),
                number("spent_block_number"),
                flag("spent_is_coinbase"),
                bytes("spent_script_hex"),
            ],
            Table::Outputs => vec![
                number("block_number"),
                hash("transaction_hash"),
                number("index"),
                bytes("script_hex"),
                text("type", false),
                text("address", true),
                number("value"),
            ],
        }
    }
}

/// Columns that identify the transaction of an input or output: absent if it is nested in the transaction.
pub(crate) const PARENT_COLUMNS: [&str; 2] = ["block_number", "transaction_hash"];

/// Why tables or columns cannot be selected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadSelection(String);

impl fmt::Display for BadSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The selected tables and columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selection {
    tables: Vec<Table>,
    columns: Option<BTreeSet<String>>,
    nested: bool,
}

impl Selection {
    /// Tables by name (empty: all, or with `nested`, blocks and transactions), columns by name or `table.name` (empty:
    /// all). `nested`: each transaction has lists of its inputs and outputs.
    ///
    /// # Errors
    ///
    /// An unknown table or column, or a table without any column.
    pub fn new(tables: &[String], columns: &[String], nested: bool) -> Result<Selection, BadSelection> {
        let mut named = Vec::new();
        for name in tables {
            let table = Table::from_name(name);
            named.push(table.ok_or_else(|| {
                BadSelection(format!("there is no table {name}: blocks, transactions, inputs, outputs"))
            })?);
        }
        named.sort_unstable();
        named.dedup();
        if named.is_empty() {
            named = if nested { Table::ALL[..2].to_vec() } else { Table::ALL.to_vec() };
        }
        let columns = (!columns.is_empty()).then(|| columns.iter().cloned().collect::<BTreeSet<_>>());
        let selection = Selection { tables: named, columns, nested };
        selection.check()?;
        Ok(selection)
    }

    /// Everything, flat.
    pub fn all() -> Selection {
        Selection { tables: Table::ALL.to_vec(), columns: None, nested: false }
    }

    fn check(&self) -> Result<(), BadSelection> {
        for name in self.columns.iter().flatten() {
            let is_there = |table: &Table| {
                let nested = self.nested && *table == Table::Transactions && matches!(&name[..], "inputs" | "outputs");
                nested || table.fields().iter().any(|field| is_named(name, *table, field.name()))
            };
            let tables = if self.nested { &Table::ALL[..] } else { &self.tables };
            if !tables.iter().any(is_there) {
                return Err(BadSelection(format!("no table of this export has a column {name}")));
            }
        }
        let bare = self.tables.iter().find(|table| self.fields(**table).is_empty());
        bare.map_or(Ok(()), |table| {
            Err(BadSelection(format!("no column of {} is selected: remove it from --tables", table.name())))
        })
    }

    /// The selected tables.
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// Whether a column of a table is selected anywhere.
    pub fn has(&self, table: Table, column: &str) -> bool {
        let is_made = self.tables.contains(&table) || (self.nested && table >= Table::Inputs);
        is_made && self.columns.as_ref().is_none_or(|names| names.iter().any(|name| is_named(name, table, column)))
    }

    /// Whether transactions have lists of their inputs, or outputs.
    pub(crate) fn nests(&self, table: Table) -> bool {
        self.nested && !self.nested_fields(table).is_empty()
    }

    /// The selected columns of inputs or outputs nested in a transaction.
    pub(crate) fn nested_fields(&self, table: Table) -> Vec<Field> {
        let has_all = self.columns.as_ref().is_some_and(|names| names.contains(table.name()));
        let fields = table.fields().into_iter();
        let fields = fields.filter(|field| !PARENT_COLUMNS.contains(&&field.name()[..]));
        fields.filter(|field| has_all || self.has(table, field.name())).collect()
    }

    fn fields(&self, table: Table) -> Vec<Field> {
        let mut fields: Vec<Field> = table.fields().into_iter().filter(|field| self.has(table, field.name())).collect();
        if table == Table::Transactions {
            for nested in [Table::Inputs, Table::Outputs].into_iter().filter(|nested| self.nests(*nested)) {
                fields.push(list_field(nested, &self.nested_fields(nested).into()));
            }
        }
        fields
    }

    /// The schema of a table's files.
    pub fn schema(&self, table: Table) -> SchemaRef {
        Arc::new(Schema::new(self.fields(table)))
    }
}

fn is_named(name: &str, table: Table, column: &str) -> bool {
    match name.split_once('.') {
        Some((of, name)) => of == table.name() && name == column,
        None => name == column,
    }
}

/// The column of a transaction's inputs or outputs.
pub(crate) fn list_field(table: Table, fields: &Fields) -> Field {
    let item = Field::new("element", DataType::Struct(fields.clone()), false);
    Field::new(table.name(), DataType::List(Arc::new(item)), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(selection: &Selection, table: Table) -> Vec<String> {
        selection.schema(table).fields().iter().map(|field| field.name().clone()).collect()
    }

    fn select(tables: &[&str], columns: &[&str], nested: bool) -> Result<Selection, BadSelection> {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        Selection::new(&owned(tables), &owned(columns), nested)
    }

    #[test]
    fn tables_and_columns_are_chosen_by_name() {
        assert_eq!(select(&[], &[], false), Ok(Selection::all()));
        let some = select(&["outputs", "blocks", "outputs"], &["value", "blocks.hash"], false).unwrap();
        assert_eq!(some.tables(), [Table::Blocks, Table::Outputs]);
        assert_eq!(
            (names(&some, Table::Blocks), names(&some, Table::Outputs)),
            (vec!["hash".into()], vec!["value".into()])
        );
        assert!(
            some.has(Table::Outputs, "value") && !some.has(Table::Inputs, "value") && !some.has(Table::Outputs, "type")
        );
        for (tables, columns) in
            [(&["block"][..], &[][..]), (&[], &["fees"]), (&["blocks"], &["value"]), (&[], &["fee"])]
        {
            assert!(select(tables, columns, false).is_err(), "{tables:?} {columns:?}");
        }
    }

    #[test]
    fn nested_tables_have_lists() {
        let nested = select(&[], &[], true).unwrap();
        assert_eq!(nested.tables(), [Table::Blocks, Table::Transactions]);
        assert_eq!(names(&nested, Table::Transactions)[15..], ["inputs", "outputs"]);
        assert!(nested.has(Table::Inputs, "address"));
        let some = select(&["transactions"], &["hash", "outputs.value"], true).unwrap();
        assert_eq!(names(&some, Table::Transactions), ["hash", "outputs"]);
        let whole = select(&["transactions"], &["hash", "inputs"], true).unwrap();
        assert_eq!((names(&whole, Table::Transactions).len(), whole.nested_fields(Table::Inputs).len()), (2, 12));
    }
}
