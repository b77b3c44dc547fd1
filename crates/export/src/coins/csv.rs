//! Coins as text: a line for each, hashes and scripts in hexadecimal, nothing that needs quotes.

use super::{COLUMNS, Row, Rows, Writer};
use crate::aside::{Aside, failed};
use node::Fault;
use show::text::put_hex;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

/// A file of lines.
pub(super) struct CsvWriter {
    file: File,
    path: PathBuf,
}

impl CsvWriter {
    pub(super) fn create(aside: &Aside) -> Result<CsvWriter, Fault> {
        let mut out = CsvWriter { file: aside.create()?, path: aside.place().to_path_buf() };
        out.append(format!("{}\n", COLUMNS.join(",")).into_bytes())?;
        Ok(out)
    }
}

impl Writer for CsvWriter {
    type Piece = Vec<u8>;
    type Maker = ();

    fn maker(&self) {}

    fn piece((): &(), rows: &mut Rows<'_, '_>) -> Result<Vec<u8>, Fault> {
        let mut text = Vec::new();
        rows.each(|row| {
            put_line(&mut text, row);
            Ok(())
        })?;
        Ok(text)
    }

    fn append(&mut self, text: Vec<u8>) -> Result<(), Fault> {
        self.file.write_all(&text).map_err(|why| failed(&self.path, why))
    }

    fn close(self) -> Result<(), Fault> {
        Ok(())
    }
}

fn put_line(text: &mut Vec<u8>, row: &Row<'_>) {
    put_hex(text, &row.shown_txid());
    for number in [i64::from(row.outpoint.vout), i64::from(row.coin.height.to_u32())] {
        text.push(b',');
        put_number(text, number);
    }
    text.extend_from_slice(if row.coin.coinbase { b",true," } else { b",false," });
    put_number(text, row.coin.value.0);
    text.push(b',');
    put_hex(text, row.script);
    text.push(b',');
    text.extend_from_slice(row.payee.name().as_bytes());
    text.push(b',');
    text.extend_from_slice(row.address.unwrap_or_default().as_bytes());
    text.push(b'\n');
}

fn put_number(text: &mut Vec<u8>, number: i64) {
    write!(text, "{number}").expect("memory takes what is written");
}
