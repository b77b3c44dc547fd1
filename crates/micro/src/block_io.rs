//! Experiment: write a block to a block file and read it back, field by field or in bulk.
//!
//! The files are in the page cache: the experiment measures serialization and calls, not the drive.

use crate::bench::Bench;
use crate::input::{self, Inputs, Sample};
use crate::library;
use crate::owned::{self, Obfuscating};
use crate::{Error, Experiment};
use primitives::Height;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;
use store::blockfiles::BlockFiles;
use store::blockfiles::write::{BlockWriter, Limits};
use store::{FileInfos, FilePos};

pub(crate) const EXPERIMENT: Experiment = Experiment { tables: &[WRITE, READ], run };

const WRITE: &str = "block I/O: write";
const READ: &str = "block I/O: read";
/// Buffer size of C's streams, and therefore of Core before version 30.
pub(crate) const STREAM_BYTES: usize = 4096;
/// Buffer size in Core since version 30.
pub(crate) const BUFFER_BYTES: usize = 64 * 1024;
pub(crate) const KEY: [u8; 8] = [0x4f, 0x1d, 0x93, 0xe2, 0x07, 0xc8, 0x5a, 0xb6];
/// Bytes before a block: magic and size.
const HEADER_BYTES: u32 = 8;

fn run(bench: &mut Bench<'_>, inputs: &Inputs) -> Result<(), Error> {
    let sample = inputs.real()?;
    write_table(bench, WRITE, sample, &inputs.directory("block-write")?)?;
    read_table(bench, READ, sample, &inputs.directory("block-read")?)
}

/// A directory with one block file, and its blocks.
pub(crate) struct Directory<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) sample: &'a Sample,
}

impl Directory<'_> {
    fn file(&self) -> std::path::PathBuf {
        self.dir.join("blk00000.dat")
    }

    /// The start of the record.
    fn head(&self) -> [u8; HEADER_BYTES as usize] {
        let size = u32::try_from(self.sample.bytes.len()).expect("a block has some megabytes");
        let mut head = [0; HEADER_BYTES as usize];
        head[..4].copy_from_slice(&self.sample.params.magic);
        head[4..].copy_from_slice(&size.to_le_bytes());
        head
    }

    fn open_to_write(&self) -> Result<File, Error> {
        let path = self.file();
        File::options().write(true).create(true).truncate(false).open(&path).map_err(Error::io("open", &path))
    }

    /// Field by field, through a buffer of `buffer_bytes`.
    pub(crate) fn write_fields(&self, block: &owned::Block, buffer_bytes: usize) -> Result<(), Error> {
        let inner = BufWriter::with_capacity(buffer_bytes, self.open_to_write()?);
        let mut out = Obfuscating { inner, key: KEY, at: 0 };
        let done = out.write_all(&self.head()).and_then(|()| block.write(&mut out, true)).and_then(|()| out.flush());
        done.map_err(Error::io("write", &self.file()))
    }

    /// Fields into memory, one XOR, one write.
    pub(crate) fn write_once(&self, block: &owned::Block) -> Result<(), Error> {
        self.write_by(|bytes| block.write(bytes, true).expect("memory takes everything"))
    }

    /// Like a user of the `bitcoin` crate.
    fn write_library(&self, block: &bitcoin::Block) -> Result<(), Error> {
        self.write_by(|bytes| library::write(block, bytes))
    }

    fn write_by(&self, put: impl FnOnce(&mut Vec<u8>)) -> Result<(), Error> {
        let mut bytes = Vec::with_capacity(self.sample.bytes.len() + HEADER_BYTES as usize);
        bytes.extend_from_slice(&self.head());
        put(&mut bytes);
        kernels::Kernels::AUTO.xor(&mut bytes, KEY, 0);
        self.open_to_write()?.write_all(&bytes).map_err(Error::io("write", &self.file()))
    }

    /// Like ffwd: the received bytes, copied and XORed in the writer's buffer, with one write.
    pub(crate) fn write_shipped(&self) -> Result<(), Error> {
        let mut infos = FileInfos::new(Vec::new());
        let network = self.sample.network();
        let mut writer = BlockWriter::new(input::disk(), self.dir, &network, KEY, &infos, Limits::default())?;
        writer.append(&mut infos, &self.sample.bytes, Height::new(1), 0)?;
        Ok(writer.write_out()?)
    }

    /// The record as stored in the file.
    fn record(&self) -> Result<Vec<u8>, Error> {
        let path = self.file();
        let bytes = input::file_bytes(&path)?;
        std::fs::remove_file(&path).map_err(Error::io("remove", &path))?;
        Ok(bytes[..bytes.len().min(self.sample.bytes.len() + HEADER_BYTES as usize)].to_vec())
    }

    /// Field by field, through a buffer of `buffer_bytes`.
    pub(crate) fn read_fields(&self, buffer_bytes: usize) -> Result<owned::Block, Error> {
        let path = self.file();
        let read = || -> io::Result<owned::Block> {
            let mut file = File::open(&path)?;
            file.seek(SeekFrom::Start(HEADER_BYTES.into()))?;
            let inner = BufReader::with_capacity(buffer_bytes, file);
            owned::Block::read(&mut Obfuscating { inner, key: KEY, at: HEADER_BYTES.into() })
        };
        read().map_err(Error::io("read", &path))
    }

    /// One read, one XOR.
    fn read_bytes(&self) -> Result<Vec<u8>, Error> {
        let path = self.file();
        let read = || -> io::Result<Vec<u8>> {
            let mut file = File::open(&path)?;
            file.seek(SeekFrom::Start(HEADER_BYTES.into()))?;
            let mut bytes = vec![0; self.sample.bytes.len()];
            file.read_exact(&mut bytes)?;
            kernels::Kernels::AUTO.xor(&mut bytes, KEY, HEADER_BYTES.into());
            Ok(bytes)
        };
        read().map_err(Error::io("read", &path))
    }

    /// Then the fields.
    pub(crate) fn read_once(&self) -> Result<owned::Block, Error> {
        owned::Block::read(&mut &self.read_bytes()?[..]).map_err(Error::io("read", &self.file()))
    }
}

pub(crate) fn parsed(sample: &Sample) -> Result<owned::Block, Error> {
    owned::Block::read(&mut &sample.bytes[..]).map_err(|why| Error::Broken(format!("the plain parser: {why}")))
}

pub(crate) fn bytes_of(block: &owned::Block) -> Vec<u8> {
    let mut bytes = Vec::new();
    block.write(&mut bytes, true).expect("memory takes everything");
    bytes
}

pub(crate) fn write_table(bench: &mut Bench<'_>, name: &'static str, sample: &Sample, dir: &Path) -> Result<(), Error> {
    let block = &parsed(sample)?;
    let theirs = &library::parse(&sample.bytes)?;
    let directory = &Directory { dir, sample };
    let Some(mut table) = bench.table(name, "block", 1) else { return Ok(()) };
    for (way, bytes) in
        [("field by field, 4 KiB stream", STREAM_BYTES), ("field by field, 64 KiB buffer", BUFFER_BYTES)]
    {
        directory.write_fields(block, bytes)?;
        table.add(sample.name(way), directory.record()?, move || directory.write_fields(block, bytes));
    }
    directory.write_once(block)?;
    table.add(sample.name("fields to memory, one write"), directory.record()?, move || directory.write_once(block));
    directory.write_library(theirs)?;
    table.add(sample.name(library::ONE_WRITE), directory.record()?, move || directory.write_library(theirs));
    directory.write_shipped()?;
    table
        .add(sample.name("bytes as they came, one write"), directory.record()?, move || directory.write_shipped())
        .shipped();
    bench.run(table)
}

pub(crate) fn read_table(bench: &mut Bench<'_>, name: &'static str, sample: &Sample, dir: &Path) -> Result<(), Error> {
    let directory = &Directory { dir, sample };
    directory.write_shipped()?;
    let Some(mut table) = bench.table(name, "block", 1) else { return Ok(()) };
    for (way, bytes) in
        [("field by field, 4 KiB stream", STREAM_BYTES), ("field by field, 64 KiB buffer", BUFFER_BYTES)]
    {
        let result = bytes_of(&directory.read_fields(bytes)?);
        table.add(sample.name(way), result, move || directory.read_fields(bytes));
    }
    table.add(sample.name("one read, then fields"), bytes_of(&directory.read_once()?), move || directory.read_once());
    let theirs = move || library::parse(&directory.read_bytes()?);
    table.add(sample.name(library::ONE_READ), library::bytes_of(&theirs()?), theirs);
    let files = BlockFiles::new(input::disk(), dir, &sample.network(), KEY);
    let mut tables = primitives::Tables::new();
    let mut read = move || -> Result<Vec<u8>, Error> {
        let bytes = files.read_block(FilePos { file: 0, offset: HEADER_BYTES })?;
        tables.parse_block(&bytes).map_err(|why| Error::Broken(format!("the block that was written: {why}")))?;
        Ok(bytes)
    };
    table.add(sample.name("one read, then tables of offsets"), read()?, read).shipped();
    bench.run(table)
}
