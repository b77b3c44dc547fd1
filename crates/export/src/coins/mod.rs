//! The UTXO set as one table, in one file: Parquet, CSV or SQLite.
//!
//! ```text
//! txid | vout | height | coinbase | amount | script | type | address
//! ```
//!
//! In: a set in parts ([`node::snapshot::coins_in_parts`]): of the tip, of an earlier block, or of a snapshot file.
//! Out: rows sorted by the bytes of their txids, and by vout within a transaction. Each worker builds and encodes the
//! rows of a part; one thread writes them in order, so that memory does not grow with the set.

mod csv;
mod parquet;
#[cfg(feature = "sqlite")]
mod sqlite;

use crate::address::Addresses;
use crate::aside::{Aside, claim, with_end};
use node::Fault;
use node::offline::files::in_order;
use node::options::Options;
use node::reporting::Events;
use node::snapshot::{CoinParts, CoinsOf, coins_in_parts};
use primitives::{BlockHash, CoinRef, Height, OutPoint};
use show::output::Payee;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

/// Names of the columns, in their order.
pub const COLUMNS: [&str; 8] = ["txid", "vout", "height", "coinbase", "amount", "script", "type", "address"];

/// Size of a part, in bytes of tables or of a snapshot: the maximum, and the minimum if there are many workers.
const PART_BYTES_MAX: u64 = 8 << 20;
const PART_BYTES_MIN: u64 = 1 << 20;
/// Total size of the parts in progress. The rows of these parts take about five times as much memory.
const ALL_PARTS_BYTES: u64 = 16 << 20;

/// The format of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CoinsFormat {
    /// Apache Parquet, compressed with zstd.
    Parquet,
    /// Text, a line for each coin, names of the columns in the first.
    Csv,
    /// A database of SQLite with the table `utxos`.
    #[cfg(feature = "sqlite")]
    Sqlite,
}

/// The set to export, and the output file.
#[derive(Clone, Debug)]
pub struct CoinsRequest<'a> {
    /// The set.
    pub of: CoinsOf<'a>,
    /// The format.
    pub format: CoinsFormat,
    /// The output file, which is overwritten if it exists.
    pub out: &'a Path,
}

/// Totals of coins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sums {
    /// Number of coins.
    pub coins: u64,
    /// Sum of their amounts, in satoshi.
    pub amount: i64,
}

impl Sums {
    fn add(&mut self, other: Sums) {
        self.coins += other.coins;
        self.amount = self.amount.saturating_add(other.amount);
    }
}

/// The result of an export.
#[derive(Clone, Debug)]
pub struct CoinsReport {
    /// The block of the set.
    pub base: BlockHash,
    /// Its height; `None` if only a snapshot names the block.
    pub height: Option<Height>,
    /// The network.
    pub chain: consensus::Chain,
    /// Totals of the coins.
    pub sums: Sums,
    /// Size of the file in bytes; 0 for a pipe.
    pub bytes_out: u64,
}

/// A row.
struct Row<'a> {
    outpoint: &'a OutPoint,
    coin: &'a CoinRef<'a>,
    script: &'a [u8],
    payee: &'a Payee<'a>,
    address: Option<&'a str>,
}

impl Row<'_> {
    /// The txid in the byte order of its text form: reversed.
    fn shown_txid(&self) -> [u8; 32] {
        let mut shown = *self.outpoint.txid.as_bytes();
        shown.reverse();
        shown
    }
}

/// A file of rows in one format. Workers build pieces of parts in parallel; they are appended in order.
trait Writer: Sized {
    /// The rows of a part, ready to be written.
    type Piece: Send;
    /// Makes pieces.
    type Maker: Sync;

    /// Makes pieces of the file that `self` writes.
    fn maker(&self) -> Self::Maker;
    /// The rows of a part.
    fn piece(maker: &Self::Maker, rows: &mut Rows<'_, '_>) -> Result<Self::Piece, Fault>;
    /// Writes a piece.
    fn append(&mut self, piece: Self::Piece) -> Result<(), Fault>;
    /// Writes the end of the file, and closes it.
    fn close(self) -> Result<(), Fault>;
}

/// Exports a set.
///
/// # Errors
///
/// The set cannot be read or computed, the file cannot be written, or another I/O error.
pub fn export_coins(options: &Options, request: &CoinsRequest<'_>, events: Events<'_>) -> Result<CoinsReport, Fault> {
    let out = std::path::absolute(request.out).map_err(|why| crate::aside::failed(request.out, why))?;
    // Held until the temporary files of a rollback, which are beside the file, are removed.
    let _claim = claim(&out)?;
    let par = options.par.max(1);
    let part_bytes = match request.format {
        CoinsFormat::Parquet => (ALL_PARTS_BYTES / par as u64).clamp(PART_BYTES_MIN, PART_BYTES_MAX),
        // SQLite has no groups of rows.
        _ => PART_BYTES_MIN,
    };
    coins_in_parts(options, request.of, &out, part_bytes, events, |parts| {
        let aside = Aside::new(with_end(&out, ".incomplete"), out.clone())?;
        let sums = match request.format {
            CoinsFormat::Parquet => write(options, parts, parquet::ParquetWriter::create(&aside)?)?,
            CoinsFormat::Csv => write(options, parts, csv::CsvWriter::create(&aside)?)?,
            #[cfg(feature = "sqlite")]
            CoinsFormat::Sqlite => write(options, parts, sqlite::SqliteWriter::create(&aside)?)?,
        };
        let bytes_out = aside.finish()?;
        Ok(CoinsReport { base: parts.base, height: parts.height, chain: parts.chain, sums, bytes_out })
    })
}

fn write<W: Writer>(options: &Options, parts: &CoinParts<'_>, mut out: W) -> Result<Sums, Fault> {
    let mut sums = Sums::default();
    let maker = out.maker();
    let work = |part| {
        if options.stop.load(Relaxed) {
            return Err(Fault::Stopped);
        }
        let mut rows = Rows { parts, part, sums: Sums::default() };
        let piece = W::piece(&maker, &mut rows)?;
        Ok((piece, rows.sums))
    };
    in_order(options.par.max(1), parts.count(), work, |(piece, of_part)| {
        sums.add(of_part);
        out.append(piece)
    })?;
    out.close()?;
    Ok(sums)
}

/// The rows of a part, for a single pass.
struct Rows<'p, 'f> {
    parts: &'p CoinParts<'f>,
    part: usize,
    sums: Sums,
}

impl Rows<'_, '_> {
    fn each(&mut self, mut each: impl FnMut(&Row<'_>) -> Result<(), Fault>) -> Result<(), Fault> {
        let mut addresses = Addresses::of(self.parts.chain);
        let mut script = Vec::new();
        let sums = &mut self.sums;
        self.parts.coins(self.part, |outpoint, coin| {
            script.clear();
            coin.script.append_to(&mut script);
            sums.add(Sums { coins: 1, amount: coin.value.0 });
            let payee = Payee::of(&script);
            let address = addresses.of_payee(&payee);
            each(&Row { outpoint, coin, script: &script, payee: &payee, address })
        })
    }
}
