//! Writes blocks into Core's block files, with headers that connect them to a chain.
//!
//! Record: magic [u8; 4] | size u32 LE | block. `blk00000.dat` starts with the genesis block; a record goes to the next file
//! when the current one would reach [`FILE_BYTES_END`]. Files are plain (no `xor.dat`) and not preallocated.
//!
//! Absent on purpose: the contents of blocks, and fsync: a chain lost to a power cut is generated again.

use super::Error;
use consensus::Params;
use primitives::encode::{compact_size_bytes, put_compact_size};
use primitives::header::HEADER_BYTES;
use primitives::{BlockHash, Hash256, Header, Target};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Size limit of a file. Source: Bitcoin Core b88bffe, `MAX_BLOCKFILE_SIZE`.
const FILE_BYTES_END: u64 = 0x800_0000;
/// Bytes buffered for a write.
const BUFFER_BYTES: usize = 4 << 20;
/// Version of all headers: no deployment is signalled. Source: BIP-0009.
const VERSION: i32 = 0x2000_0000;

/// A block without its header.
#[derive(Debug)]
pub(crate) struct Body<'a> {
    pub(crate) merkle_root: Hash256,
    pub(crate) transactions: usize,
    /// All transactions, in pieces.
    pub(crate) pieces: &'a [&'a [u8]],
}

/// The block files of one chain.
#[derive(Debug)]
pub(crate) struct BlockFiles {
    directory: PathBuf,
    magic: [u8; 4],
    bits: u32,
    target: Target,
    spacing: u32,
    file: BufWriter<File>,
    path: PathBuf,
    number: u32,
    file_bytes: u64,
    file_bytes_end: u64,
    bytes: u64,
    tip: BlockHash,
    time: u32,
}

impl BlockFiles {
    /// Creates `directory` and its first file, with the genesis block. Block times are `spacing` seconds apart.
    ///
    /// # Errors
    ///
    /// [`Error::Taken`] if `directory` already has blocks, undo data, an index or a key; [`Error::Io`].
    pub(crate) fn create(directory: &Path, params: &Params, spacing: u32) -> Result<BlockFiles, Error> {
        fs::create_dir_all(directory).map_err(|why| Error::io("make the directory", directory, why))?;
        refuse_taken(directory)?;
        let genesis = Header(*params.genesis.first_chunk().expect("a genesis block has a header"));
        let (file, path) = open(directory, 0)?;
        let mut files = BlockFiles {
            directory: directory.to_owned(),
            magic: params.magic,
            bits: genesis.bits(),
            target: Target::from_compact(genesis.bits()).expect("the genesis block has a target"),
            spacing,
            file,
            path,
            number: 0,
            file_bytes: 0,
            file_bytes_end: FILE_BYTES_END,
            bytes: 0,
            tip: params.genesis_hash,
            time: genesis.time(),
        };
        files.record(params.genesis.len(), &[&params.genesis])?;
        Ok(files)
    }

    /// Appends the next block of the chain.
    pub(crate) fn append(&mut self, body: &Body<'_>) -> Result<(), Error> {
        self.time += self.spacing;
        let (header, hash) = self.mine(body.merkle_root);
        let mut head = header.0.to_vec();
        put_compact_size(&mut head, body.transactions as u64);
        let size = HEADER_BYTES
            + compact_size_bytes(body.transactions as u64)
            + body.pieces.iter().map(|piece| piece.len()).sum::<usize>();
        let pieces: Vec<&[u8]> = std::iter::once(&head[..]).chain(body.pieces.iter().copied()).collect();
        self.record(size, &pieces)?;
        self.tip = hash;
        Ok(())
    }

    /// The header with the first nonce for which the work suffices, and its hash.
    fn mine(&self, merkle_root: Hash256) -> (Header, BlockHash) {
        (0..=u32::MAX)
            .find_map(|nonce| {
                let header = Header::new(VERSION, self.tip, merkle_root, self.time, self.bits, nonce);
                let hash = header.hash();
                self.target.is_met_by(&hash).then_some((header, hash))
            })
            .expect("every other hash meets regtest's target")
    }

    fn record(&mut self, size: usize, pieces: &[&[u8]]) -> Result<(), Error> {
        let record_bytes = 8 + size as u64;
        if self.file_bytes + record_bytes >= self.file_bytes_end {
            self.flush()?;
            self.number += 1;
            (self.file, self.path) = open(&self.directory, self.number)?;
            self.file_bytes = 0;
        }
        let size = u32::try_from(size).expect("a block has at most 4 MB");
        let head = [self.magic, size.to_le_bytes()].concat();
        let mut write = || -> io::Result<()> {
            self.file.write_all(&head)?;
            pieces.iter().try_for_each(|piece| self.file.write_all(piece))
        };
        write().map_err(|why| Error::io("write to", &self.path, why))?;
        self.file_bytes += record_bytes;
        self.bytes += record_bytes;
        Ok(())
    }

    /// Flushes the buffer to the system.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.file.flush().map_err(|why| Error::io("write to", &self.path, why))
    }

    /// Hash of the last block.
    pub(crate) fn tip(&self) -> BlockHash {
        self.tip
    }

    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

fn open(directory: &Path, number: u32) -> Result<(BufWriter<File>, PathBuf), Error> {
    let path = directory.join(format!("blk{number:05}.dat"));
    let file = File::create_new(&path).map_err(|why| Error::io("make the file", &path, why))?;
    Ok((BufWriter::with_capacity(BUFFER_BYTES, file), path))
}

/// Rejects a directory with any node files: their index or key would not match the new blocks.
fn refuse_taken(directory: &Path) -> Result<(), Error> {
    let entries = fs::read_dir(directory).map_err(|why| Error::io("read the directory", directory, why))?;
    for entry in entries {
        let name = entry.map_err(|why| Error::io("read the directory", directory, why))?.file_name();
        let text = name.to_string_lossy();
        let of_blocks = text.ends_with(".dat") && ["blk", "rev", "xor"].iter().any(|start| text.starts_with(start));
        if of_blocks || text == "index" {
            return Err(Error::Taken { found: directory.join(&name) });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use consensus::Chain;

    #[test]
    fn record_beyond_file_size_starts_the_next_file() {
        let directory = tempfile::tempdir().unwrap();
        let params = Params::new(Chain::Regtest);
        let mut files = BlockFiles::create(directory.path(), &params, 600).unwrap();
        let genesis = 8 + params.genesis.len() as u64;
        let body = |bytes: usize| vec![0; bytes - 8 - HEADER_BYTES - 1];
        // (bytes of the record, file that it must be in)
        files.file_bytes_end = genesis + 1_000;
        for (bytes, number) in [(500, 0), (499, 0), (1_000, 1), (genesis as usize - 1, 1), (200, 2), (200, 2)] {
            let body = body(bytes);
            files.append(&Body { merkle_root: Hash256::ZERO, transactions: 1, pieces: &[&body] }).unwrap();
            assert_eq!(files.number, number, "record of {bytes} bytes");
        }
        files.flush().unwrap();
        let sizes =
            [0, 1, 2].map(|number| fs::metadata(directory.path().join(format!("blk{number:05}.dat"))).unwrap().len());
        assert_eq!(sizes, [genesis + 999, genesis + 999, 400]);
        assert_eq!(files.bytes(), sizes.iter().sum::<u64>());
    }

    #[test]
    fn directory_with_node_data_is_refused() {
        for name in ["blk00003.dat", "rev00000.dat", "xor.dat", "index"] {
            let directory = tempfile::tempdir().unwrap();
            fs::write(directory.path().join(".lock"), "").unwrap();
            fs::write(directory.path().join(name), "").unwrap();
            let why = BlockFiles::create(directory.path(), &Params::new(Chain::Regtest), 600).unwrap_err();
            assert!(matches!(&why, Error::Taken { found } if found.ends_with(name)), "{name}: {why}");
        }
    }
}
