//! Exports a range of the chain as tables for data analysis: Parquet files that DuckDB, Polars, pandas and Spark read.
//!
//! In: a data directory through [`node::offline::files`]. Undo data has the coins that inputs spend, so that a range
//! only needs its own files. Out: a directory for each table, with a subdirectory for every thousand blocks; names of
//! columns are those of bitcoin-etl (docs/export.md). The only check is that a block matches its header: the export
//! shows the contents of the files.
//!
//! [`mod@run`] cuts a range into groups of rows that workers build in parallel; [`rows`] fills the columns of
//! [`tables`]. [`coins`] makes one table of a UTXO set, as Parquet, CSV or SQLite; [`silent_payments`] makes the table
//! that Frigate scans. Absent on purpose: Parquet itself (crate `parquet`), queries.

#![warn(clippy::missing_errors_doc)]

pub mod address;
mod aside;
pub mod coins;
mod encode;
mod output;
pub mod rows;
pub mod run;
pub mod silent_payments;
pub mod tables;

pub use coins::{CoinsFormat, CoinsReport, CoinsRequest, export_coins};
pub use run::{ExportReport, Request, export};
pub use silent_payments::{TweaksReport, TweaksRequest, export_tweaks};
pub use tables::{Selection, Table};
