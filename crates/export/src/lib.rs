//! A range of a chain as tables for analysts: Parquet files that DuckDB, Polars, pandas and Spark read.
//!
//! In: a data directory through [`node::offline::files`]; undo data says what each input spends, so that a range needs nothing but
//! its own files. Out: a directory a table, in it one for every thousand blocks; names of columns are bitcoin-etl's
//! (docs/export.md). Nothing is judged but that a block is its header's: what is exported is what the files hold.
//!
//! [`mod@run`] cuts a range into groups of rows that workers make side by side; [`rows`] fills the columns of [`tables`].
//! [`coins`] makes one table of a UTXO set, as Parquet, CSV or SQLite; [`silent_payments`] the one that Frigate scans.
//! Absent on purpose: Parquet itself (crate `parquet`), queries.

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
