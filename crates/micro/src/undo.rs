//! Experiment: write undo data to an undo file and read it back, field by field or in bulk.
//!
//! An undo record ends with a hash of its payload, so that Core writes and reads every field twice: once for the file,
//! once for the hasher.

use crate::bench::Bench;
use crate::block_io::{BUFFER_BYTES, KEY, STREAM_BYTES};
use crate::input::{self, Digest, Inputs, Mix, StoredCoin};
use crate::owned::{self, Hasher, Obfuscating};
use crate::{Error, Experiment};
use consensus::{Chain, Params};
use primitives::encode::put_varint;
use primitives::undo::{UndoReader, put_count, put_entry};
use primitives::{BlockHash, CoinRef, amount};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use store::undofiles::{UndoFiles, UndoWriter, undo_record};
use store::{FileInfos, FilePos, Network};

pub(crate) const EXPERIMENT: Experiment = Experiment { tables: &[WRITE, READ], run };

const WRITE: &str = "undo I/O: write";
const READ: &str = "undo I/O: read";
const PREV: BlockHash = BlockHash::from_bytes([7; 32]);
const HEADER_BYTES: u32 = 8;

/// A spent coin as an object, including its script.
struct Spent {
    code: u32,
    value: u64,
    /// The stored form of the script: its kind, which for uncompressed scripts encodes the length, and the payload.
    kind: u64,
    payload: Vec<u8>,
}

/// A block's undo data in both forms.
struct Work {
    dir: PathBuf,
    network: Network,
    transactions: Vec<Vec<Spent>>,
    stored: Vec<Vec<StoredCoin>>,
}

fn run(bench: &mut Bench<'_>, inputs: &Inputs) -> Result<(), Error> {
    let network = node::datadir::lock::network(&Params::new(Chain::Regtest));
    let mut coins = input::coins(bench.size(70, 7_300), Mix::In2025, 1).into_iter().peekable();
    let mut stored: Vec<Vec<StoredCoin>> = Vec::new();
    while coins.peek().is_some() {
        stored.push(coins.by_ref().take(1 + stored.len() % 3).collect());
    }
    let transactions = stored.iter().map(|tx| tx.iter().map(|coin| Spent::new(&coin.coin)).collect()).collect();
    let work = Work { dir: inputs.directory("undo")?, network, transactions, stored };
    write_table(bench, &work)?;
    read_table(bench, &work)
}

impl Spent {
    fn new(stored: &[u8]) -> Spent {
        let mut reader = primitives::Reader::new(stored);
        let mut varint = || reader.varint().expect("made as Core makes them");
        let code = varint() as u32;
        let value = amount::decompress(varint());
        let kind = varint();
        Spent { code, value, kind, payload: stored[reader.offset()..].to_vec() }
    }

    fn write(&self, to: &mut impl Write) -> io::Result<()> {
        write_varint(to, self.code.into())?;
        if self.code >= 2 {
            to.write_all(&[0])?;
        }
        write_varint(to, amount::compress(self.value))?;
        write_varint(to, self.kind)?;
        to.write_all(&self.payload)
    }

    fn read(from: &mut impl Read) -> io::Result<Spent> {
        let code = read_varint(from)? as u32;
        if code >= 2 {
            read_varint(from)?;
        }
        let value = amount::decompress(read_varint(from)?);
        let kind = read_varint(from)?;
        let bytes = match kind {
            0 | 1 => 20,
            2..=5 => 32,
            size => (size - 6).min(10_000),
        };
        let mut payload = vec![0; bytes as usize];
        from.read_exact(&mut payload)?;
        Ok(Spent { code, value, kind, payload })
    }

    fn add_to(&self, digest: &mut Digest) {
        digest.add_u64(self.code.into());
        digest.add_u64(self.value);
        digest.add_u64(if self.kind < 6 { 0 } else { self.kind });
    }
}

fn write_varint(to: &mut impl Write, value: u64) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(10);
    put_varint(&mut bytes, value);
    bytes.iter().try_for_each(|byte| to.write_all(&[*byte]))
}

fn read_varint(from: &mut impl Read) -> io::Result<u64> {
    let mut value = 0u64;
    loop {
        let mut byte = [0];
        from.read_exact(&mut byte)?;
        value = value << 7 | u64::from(byte[0] & 0x7f);
        if byte[0] & 0x80 == 0 {
            return Ok(value);
        }
        value += 1;
    }
}

fn write_all(to: &mut impl Write, transactions: &[Vec<Spent>]) -> io::Result<()> {
    owned::write_compact_size(to, transactions.len() as u64)?;
    for tx in transactions {
        owned::write_compact_size(to, tx.len() as u64)?;
        tx.iter().try_for_each(|spent| spent.write(to))?;
    }
    Ok(())
}

fn read_all(from: &mut impl Read) -> io::Result<Vec<Vec<Spent>>> {
    let count = owned::read_compact_size(from)?;
    (0..count).map(|_| (0..owned::read_compact_size(from)?).map(|_| Spent::read(from)).collect()).collect()
}

/// Also passes the bytes that it reads to a hasher.
struct Hashing<R> {
    inner: R,
    hasher: Hasher,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(out)?;
        self.hasher.write_all(&out[..count])?;
        Ok(count)
    }
}

impl Work {
    fn file(&self) -> PathBuf {
        self.dir.join("rev00000.dat")
    }

    fn open_to_write(&self) -> Result<File, Error> {
        let path = self.file();
        File::options().write(true).create(true).truncate(false).open(&path).map_err(Error::io("open", &path))
    }

    fn write_fields(&self, buffer_bytes: usize) -> Result<(), Error> {
        let inner = BufWriter::with_capacity(buffer_bytes, self.open_to_write()?);
        let mut out = Obfuscating { inner, key: KEY, at: 0 };
        let mut write = || -> io::Result<()> {
            let mut size = owned::Counter::default();
            write_all(&mut size, &self.transactions)?;
            out.write_all(&self.network.magic)?;
            out.write_all(&(size.0 as u32).to_le_bytes())?;
            write_all(&mut out, &self.transactions)?;
            let mut hasher = Hasher::new();
            hasher.write_all(PREV.as_bytes())?;
            write_all(&mut hasher, &self.transactions)?;
            out.write_all(&hasher.finish())?;
            out.flush()
        };
        write().map_err(Error::io("write", &self.file()))
    }

    fn write_once(&self) -> Result<(), Error> {
        let mut payload = Vec::new();
        write_all(&mut payload, &self.transactions).expect("memory takes everything");
        let mut record = undo_record(self.network.magic, &PREV, &payload);
        kernels::Kernels::AUTO.xor(&mut record, KEY, 0);
        self.open_to_write()?.write_all(&record).map_err(Error::io("write", &self.file()))
    }

    fn write_shipped(&self) -> Result<(), Error> {
        let mut payload = Vec::with_capacity(512 * 1024);
        put_count(&mut payload, self.stored.len());
        for tx in &self.stored {
            put_count(&mut payload, tx.len());
            for coin in tx {
                put_entry(&mut payload, &coin.coin).map_err(|why| Error::Broken(why.to_string()))?;
            }
        }
        let mut writer = UndoWriter::new(input::disk(), &self.dir, &self.network, KEY);
        let record = undo_record(self.network.magic, &PREV, &payload);
        writer.append(&mut FileInfos::new(Vec::new()), 0, &record)?;
        Ok(writer.write_out()?)
    }

    /// The record as stored in the file, without the reserved space after it.
    fn record(&self) -> Result<Vec<u8>, Error> {
        let path = self.file();
        let mut bytes = input::file_bytes(&path)?;
        std::fs::remove_file(&path).map_err(Error::io("remove", &path))?;
        let mut head: [u8; 8] = *bytes.first_chunk().ok_or_else(|| Error::Broken("no undo record".to_owned()))?;
        kernels::Kernels::AUTO.xor(&mut head, KEY, 0);
        let size = u32::from_le_bytes(*head.last_chunk().expect("4 of 8 bytes")) as usize;
        bytes.truncate(HEADER_BYTES as usize + size + 32);
        Ok(bytes)
    }

    fn read_fields(&self, buffer_bytes: usize) -> Result<Digest, Error> {
        let path = self.file();
        let read = || -> io::Result<Digest> {
            let mut file = File::open(&path)?;
            file.seek(SeekFrom::Start(HEADER_BYTES.into()))?;
            let inner = BufReader::with_capacity(buffer_bytes, file);
            checked(Obfuscating { inner, key: KEY, at: HEADER_BYTES.into() })
        };
        read().map_err(Error::io("read", &path))
    }

    fn read_once(&self) -> Result<Digest, Error> {
        let mut bytes = input::file_bytes(&self.file())?;
        kernels::Kernels::AUTO.xor(&mut bytes, KEY, 0);
        checked(&bytes[HEADER_BYTES as usize..]).map_err(Error::io("read", &self.file()))
    }
}

/// Reads undo data and its checksum; a digest of the coins.
fn checked(from: impl Read) -> io::Result<Digest> {
    let mut hashing = Hashing { inner: from, hasher: Hasher::new() };
    hashing.hasher.write_all(PREV.as_bytes())?;
    let transactions = read_all(&mut hashing)?;
    let mut checksum = [0; 32];
    hashing.inner.read_exact(&mut checksum)?;
    let mut digest = Digest::default();
    if hashing.hasher.finish() == checksum {
        transactions.iter().flatten().for_each(|spent| spent.add_to(&mut digest));
    }
    Ok(digest)
}

fn write_table(bench: &mut Bench<'_>, work: &Work) -> Result<(), Error> {
    let Some(mut table) = bench.table(WRITE, "coin", work.stored.iter().map(Vec::len).sum()) else { return Ok(()) };
    for (way, bytes) in
        [("field by field, 4 KiB stream", STREAM_BYTES), ("field by field, 64 KiB buffer", BUFFER_BYTES)]
    {
        work.write_fields(bytes)?;
        table.add(way, work.record()?, move || work.write_fields(bytes));
    }
    work.write_once()?;
    table.add("fields to memory, one write", work.record()?, || work.write_once());
    work.write_shipped()?;
    table.add("stored coins copied, one write", work.record()?, || work.write_shipped()).shipped();
    bench.run(table)
}

fn read_table(bench: &mut Bench<'_>, work: &Work) -> Result<(), Error> {
    let Some(mut table) = bench.table(READ, "coin", work.stored.iter().map(Vec::len).sum()) else { return Ok(()) };
    work.write_once()?;
    for (way, bytes) in
        [("field by field, 4 KiB stream", STREAM_BYTES), ("field by field, 64 KiB buffer", BUFFER_BYTES)]
    {
        table.try_way(way, move || work.read_fields(bytes))?;
    }
    table.try_way("one read, then fields", || work.read_once())?;
    let files = UndoFiles::new(input::disk(), &work.dir, &work.network, KEY);
    table.try_way("one read, coins borrowed", move || read_shipped(&files))?.shipped();
    bench.run(table)
}

fn read_shipped(files: &UndoFiles) -> Result<Digest, Error> {
    let payload = files.read(FilePos { file: 0, offset: HEADER_BYTES }, &PREV)?;
    let broken = |why: primitives::DecodeError| Error::Broken(format!("undo data that was just written: {why}"));
    let mut reader = UndoReader::new(&payload);
    let mut digest = Digest::default();
    for _ in 0..reader.count().map_err(broken)? {
        for _ in 0..reader.count().map_err(broken)? {
            let coin = reader.entry().map_err(broken)?;
            add_coin(&mut digest, &coin);
        }
    }
    Ok(digest)
}

fn add_coin(digest: &mut Digest, coin: &CoinRef<'_>) {
    digest.add_u64(coin.code().into());
    digest.add_u64(coin.value.0.cast_unsigned());
    digest.add_u64(coin.script.raw().map_or(0, |script| script.len() as u64 + 6));
}
