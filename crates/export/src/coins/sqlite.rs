//! Coins as a database of SQLite: the table `utxos`. Hashes and scripts are hexadecimal text, as in the table of Core's own
//! script (utxo_to_sqlite in contrib).
//!
//! The file has no journal while it is written, because it gets its name only when it is complete.

use super::{Rows, Writer};
use crate::aside::{Aside, failed};
use node::Fault;
use rusqlite::{Connection, OpenFlags, Statement, params};
use show::text::put_hex;
use std::path::PathBuf;

/// KiB of pages in memory.
const PAGES_KIB: u32 = 16 << 10;

const TABLE: &str = "create table utxos (txid text not null, vout integer not null, height integer not null, \
                     coinbase integer not null, amount integer not null, script text not null, type text not null, \
                     address text)";
const INSERT: &str = "insert into utxos values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";

/// A row, ready to be written: its hexadecimal texts are ranges of the piece's text.
struct SqlRow {
    txid_and_script: std::ops::Range<usize>,
    vout: u32,
    height: u32,
    coinbase: bool,
    amount: i64,
    kind: &'static str,
    address: Option<Box<str>>,
}

/// The rows of a part.
#[derive(Default)]
pub(super) struct SqlRows {
    hex: Vec<u8>,
    rows: Vec<SqlRow>,
}

/// Hexadecimal digits of a txid.
const TXID_DIGITS: usize = 64;

impl SqlRows {
    fn insert(&self, insert: &mut Statement<'_>) -> rusqlite::Result<()> {
        let text = |range: std::ops::Range<usize>| std::str::from_utf8(&self.hex[range]).expect("digits are ASCII");
        for row in &self.rows {
            let (txid, script) = text(row.txid_and_script.clone()).split_at(TXID_DIGITS);
            let SqlRow { vout, height, coinbase, amount, kind, address, .. } = row;
            insert.execute(params![txid, vout, height, coinbase, amount, script, kind, address.as_deref()])?;
        }
        Ok(())
    }
}

/// A database under construction.
pub(super) struct SqliteWriter {
    database: Connection,
    path: PathBuf,
}

impl SqliteWriter {
    pub(super) fn create(aside: &Aside) -> Result<SqliteWriter, Fault> {
        let path = aside.place().to_path_buf();
        if aside.is_special() {
            let why = format!("{}: a pipe or a device, and SQLite writes a file in no order", path.display());
            return Err(Fault::refused(why, "Name a file, or give --format csv or parquet"));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let made = Connection::open_with_flags(&path, flags).and_then(|database| {
            database.execute_batch(&format!(
                "pragma journal_mode = off; pragma synchronous = off; pragma locking_mode = exclusive; \
                 pragma cache_size = -{PAGES_KIB}; begin; {TABLE};"
            ))?;
            Ok(database)
        });
        Ok(SqliteWriter { database: made.map_err(|why| failed(&path, why))?, path })
    }
}

impl Writer for SqliteWriter {
    type Piece = SqlRows;
    type Maker = ();

    fn maker(&self) {}

    fn piece((): &(), rows: &mut Rows<'_, '_>) -> Result<SqlRows, Fault> {
        let mut made = SqlRows::default();
        rows.each(|row| {
            let start = made.hex.len();
            put_hex(&mut made.hex, &row.shown_txid());
            put_hex(&mut made.hex, row.script);
            made.rows.push(SqlRow {
                txid_and_script: start..made.hex.len(),
                vout: row.outpoint.vout,
                height: row.coin.height.to_u32(),
                coinbase: row.coin.coinbase,
                amount: row.coin.value.0,
                kind: row.payee.name(),
                address: row.address.map(Box::from),
            });
            Ok(())
        })?;
        Ok(made)
    }

    fn append(&mut self, rows: SqlRows) -> Result<(), Fault> {
        let mut insert = self.database.prepare(INSERT).map_err(|why| failed(&self.path, why))?;
        rows.insert(&mut insert).map_err(|why| failed(&self.path, why))
    }

    fn close(self) -> Result<(), Fault> {
        let SqliteWriter { database, path } = self;
        database.execute_batch("commit").map_err(|why| failed(&path, why))?;
        database.close().map_err(|(_, why)| failed(&path, why))
    }
}
