//! A file of block records that cannot be read in place: compressed (gzip, xz, zstd), or a pipe. It is decompressed in
//! memory, in pieces.
//!
//! A separate thread opens, reads and decompresses it, a few chunks ahead; it may sleep in a pipe for as long as the
//! writer does. Absent on purpose: records and blocks (`store::blockfiles`, [`super`]).

use crate::fault::Fault;
use crate::threads;
use disk::{Disk, DiskFile};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;
use store::Network;
use store::xor::{self, Key};

/// Maximum bytes of a chunk.
const CHUNK_BYTES_MAX: usize = 1 << 20;
/// Chunks that are decompressed ahead of the import.
const CHUNKS_AHEAD: usize = 4;
/// Memory limit for decompressing xz, in KiB: four times the need of `xz -9`. The file chooses the dictionary's size,
/// and is not trusted.
const XZ_KIB_MAX: u32 = 256 << 10;
/// Time between two checks for a stop request, while no data arrives.
const STOP_INTERVAL: Duration = Duration::from_millis(100);
/// Name of the decompressing thread.
const THREAD: &str = "unpack";
/// First bytes of a file, which identify its compression.
const HEAD_BYTES: usize = 6;

/// Compression of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Packing {
    Gzip,
    Xz,
    Zstd,
}

impl Packing {
    /// Source: RFC 1952, section 2.3.1; The .xz File Format 1.2, section 2.1.1.1; RFC 8878, section 3.1.1.
    fn of(head: &[u8]) -> Option<Packing> {
        match head {
            [0x1f, 0x8b, ..] => Some(Packing::Gzip),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Packing::Xz),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Packing::Zstd),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Packing::Gzip => "gzip",
            Packing::Xz => "xz",
            Packing::Zstd => "zstd",
        }
    }

    /// A reader of the decompressed bytes. Several compressed files that were concatenated are read as one.
    ///
    /// # Errors
    ///
    /// The head is malformed, or this program does not support the format.
    fn unpacked(self, packed: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Packing::Gzip => Box::new(flate2::read::MultiGzDecoder::new(packed)),
            Packing::Xz => Box::new(lzma_rust2::XzReader::new_mem_limit(packed, true, XZ_KIB_MAX)),
            #[cfg(feature = "zstd")]
            Packing::Zstd => Box::new(zstd::stream::read::Decoder::new(packed)?),
            #[cfg(not(feature = "zstd"))]
            Packing::Zstd => {
                drop(packed);
                let why = "this program was built without the feature `zstd`: unpack the file first, by `zstd -d`";
                return Err(io::Error::new(io::ErrorKind::Unsupported, why));
            }
        })
    }
}

/// A regular file, read in order.
struct InOrder {
    file: Arc<dyn DiskFile>,
    offset: u64,
}

impl Read for InOrder {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(self.offset, buffer).map_err(|why| why.source)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// Result of filling a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Filled {
    /// More data may follow.
    More,
    /// The stream has ended.
    Last,
    /// The user stopped the import.
    Stopped,
}

/// A stream of records.
pub(crate) struct Stream {
    path: PathBuf,
    chunks: Receiver<io::Result<Vec<u8>>>,
    /// Known after the first piece.
    key: Option<Key>,
    /// Bytes read so far.
    bytes: u64,
    /// Why it ended early.
    broken: Option<String>,
}

impl Stream {
    /// Opens `path` as a stream that is read `piece_bytes` at a time; `None` for a plain file, which is read in place.
    ///
    /// # Errors
    ///
    /// It does not exist, cannot be read, or the system refused a thread for it.
    pub(crate) fn open(disk: &Arc<dyn Disk>, path: &Path, piece_bytes: usize) -> Result<Option<Stream>, Fault> {
        let is_pipe = disk.is_pipe(path).map_err(store::Fault::from)?;
        if !is_pipe {
            let mut head = [0; HEAD_BYTES];
            let file = disk.open(path).map_err(|why| store::Fault::from(why).advise("Is the path right?"))?;
            let have = file.read_at(0, &mut head).map_err(store::Fault::from)?;
            if Packing::of(&head[..have]).is_none() {
                return Ok(None);
            }
        }
        let (sender, chunks) = sync_channel(CHUNKS_AHEAD);
        let disk = disk.clone();
        let of_thread = path.to_path_buf();
        let chunk_bytes = piece_bytes.clamp(1, CHUNK_BYTES_MAX);
        let unpack = move || {
            let opened = if is_pipe {
                disk.open_pipe(&of_thread)
            } else {
                disk.open(&of_thread).map(|file| Box::new(InOrder { file, offset: 0 }) as Box<dyn Read + Send>)
            };
            match opened {
                Ok(reader) => send_all(reader, chunk_bytes, &sender),
                // If there is no receiver, the import has ended.
                Err(why) => drop(sender.send(Err(why.source))),
            }
        };
        let thread = std::thread::Builder::new().name(THREAD.to_owned()).spawn(unpack);
        thread.map_err(|why| threads::refused(THREAD, why))?;
        Ok(Some(Stream { path: path.to_path_buf(), chunks, key: None, bytes: 0, broken: None }))
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Decompressed bytes read so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Why it ended early, if it did.
    pub(crate) fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Appends at least the next `bytes`, and at most one chunk more, to `piece`, without obfuscation.
    pub(crate) fn fill(
        &mut self,
        piece: &mut Vec<u8>,
        bytes: usize,
        source: (&dyn Disk, &Network),
        is_stopping: &dyn Fn() -> bool,
    ) -> Filled {
        let start = piece.len();
        let mut filled = Filled::More;
        while piece.len() - start < bytes && filled == Filled::More {
            match self.chunks.recv_timeout(STOP_INTERVAL) {
                Ok(Ok(chunk)) => piece.extend_from_slice(&chunk),
                Ok(Err(why)) => {
                    self.broken = Some(why.to_string());
                    filled = Filled::Last;
                }
                Err(RecvTimeoutError::Timeout) if is_stopping() => return Filled::Stopped,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => filled = Filled::Last,
            }
        }
        let new = &mut piece[start..];
        let (disk, network) = source;
        let total = if filled == Filled::Last { new.len() as u64 } else { u64::MAX };
        let key = *self.key.get_or_insert_with(|| xor::key_of_start(disk, &self.path, new, total, network));
        kernels::xor::xor(new, key, self.bytes);
        self.bytes += new.len() as u64;
        filled
    }
}

/// Reads and decompresses to the end, or until the receiver is dropped.
fn send_all(mut reader: Box<dyn Read + Send>, chunk_bytes: usize, to: &SyncSender<io::Result<Vec<u8>>>) {
    let mut head = Vec::new();
    let unpacked = (&mut reader).take(HEAD_BYTES as u64).read_to_end(&mut head).and_then(|_| {
        let packing = Packing::of(&head);
        let whole = io::Cursor::new(head).chain(reader);
        let unpacked: Box<dyn Read + Send> = match packing {
            Some(packing) => packing.unpacked(whole)?,
            None => Box::new(whole),
        };
        Ok((packing, unpacked))
    });
    let (packing, mut unpacked) = match unpacked {
        Ok(opened) => opened,
        Err(why) => return drop(to.send(Err(why))),
    };
    loop {
        let mut chunk = Vec::with_capacity(chunk_bytes);
        let read = (&mut unpacked).take(chunk_bytes as u64).read_to_end(&mut chunk);
        let is_last = chunk.is_empty() || read.is_err();
        if !chunk.is_empty() && to.send(Ok(chunk)).is_err() {
            return;
        }
        if let Err(why) = read {
            let what = packing.map_or("reading it failed".to_owned(), |packing| {
                format!("it cannot be unpacked further ({})", packing.name())
            });
            let what = match (packing, why.kind()) {
                (Some(Packing::Xz), io::ErrorKind::OutOfMemory) => format!(
                    "{what}, which takes more than {} MiB of memory; unpack it by `xz -d` first",
                    XZ_KIB_MAX >> 10
                ),
                _ => what,
            };
            return drop(to.send(Err(io::Error::new(why.kind(), format!("{what}: {why}")))));
        }
        if is_last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::SimDisk;
    use std::io::Write;

    const KEY: Key = [9, 8, 7, 6, 5, 4, 3, 2];

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    fn xz(bytes: &[u8]) -> Vec<u8> {
        let mut out = liblzma::write::XzEncoder::new(Vec::new(), 1);
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    fn zst(bytes: &[u8]) -> Vec<u8> {
        zstd::stream::encode_all(bytes, 1).unwrap()
    }

    /// Everything that comes of a file, in pieces of `piece_bytes`, and why it broke off.
    fn read(bytes: &[u8], stored: Option<Key>, piece_bytes: usize) -> Option<(Vec<u8>, Option<String>)> {
        let disk = SimDisk::new(0).shared();
        let path = Path::new("/in/file");
        disk.create_dir_all(Path::new("/in")).unwrap();
        disk.create(path).unwrap().write_at(0, bytes).unwrap();
        if let Some(key) = stored {
            disk.create(Path::new("/in/xor.dat")).unwrap().write_at(0, &key).unwrap();
        }
        let mut stream = Stream::open(&disk, path, piece_bytes).unwrap()?;
        let network = crate::datadir::lock::network(&consensus::Params::new(consensus::Chain::Regtest));
        let mut all = Vec::new();
        while stream.fill(&mut all, piece_bytes, (&*disk, &network), &|| false) == Filled::More {}
        assert_eq!(stream.bytes(), all.len() as u64);
        Some((all, stream.broken().map(str::to_owned)))
    }

    #[test]
    fn stream_unpacks_each_packing() {
        let plain: Vec<u8> =
            [0xfa, 0xbf, 0xb5, 0xda].into_iter().chain((0..3_000_000_u32).map(|n| (n / 7) as u8)).collect();
        let mut hidden = plain.clone();
        kernels::xor::xor(&mut hidden, KEY, 0);
        assert_eq!(read(&plain, None, 1), None, "a plain file is read in place");
        for (row, pack) in [("gzip", gzip as fn(&[u8]) -> Vec<u8>), ("xz", xz), ("zstd", zst)] {
            for piece_bytes in [10_000, 1_500_000, usize::MAX] {
                assert_eq!(read(&pack(&plain), None, piece_bytes), Some((plain.clone(), None)), "{row}");
                let got = read(&pack(&hidden), Some(KEY), piece_bytes);
                assert_eq!(got, Some((plain.clone(), None)), "{row}, obfuscated");
            }
            let two = [pack(&plain[..1000]), pack(&plain[1000..])].concat();
            assert_eq!(read(&two, None, 100), Some((plain.clone(), None)), "{row}, two in one file");
            let cut = &pack(&plain)[..pack(&plain).len() / 2];
            let (came, broken) = read(cut, None, 100).unwrap();
            assert!(plain.starts_with(&came), "{row}, cut");
            let broken = broken.expect("it ends before its end");
            assert!(broken.contains(row) && broken.contains("cannot be unpacked further"), "{row}: {broken}");
        }
    }

    #[test]
    fn hostile_bytes_end_a_stream() {
        let mut rng = testkit::Rng::new(3);
        for pack in [gzip as fn(&[u8]) -> Vec<u8>, xz, zst] {
            let good = pack(&rng.bytes(5000));
            for _ in 0..50 {
                let mut bad = good.clone();
                let at = rng.below(bad.len() - HEAD_BYTES) + HEAD_BYTES;
                bad[at] ^= 1 << rng.below(8);
                let (came, _) = read(&bad, None, 100).unwrap();
                assert!(came.len() <= 64 << 20, "what comes is bounded by the piece, whatever it says of its size");
            }
        }
    }
    /// The size of the dictionary stands in the file: the greatest there is asks for 4 GiB.
    #[test]
    fn xz_takes_no_more_memory_than_its_bound() {
        let mut packed = xz(b"a block");
        // Stream header, then the block's: its size, flags, the id of LZMA2, one byte of properties, padding, CRC32.
        let header = 12..12 + (usize::from(packed[12]) + 1) * 4;
        assert_eq!(packed[14..16], [0x21, 1]);
        packed[16] = 40;
        let mut sum = flate2::Crc::new();
        sum.update(&packed[header.start..header.end - 4]);
        packed[header.end - 4..header.end].copy_from_slice(&sum.sum().to_le_bytes());
        let (came, broken) = read(&packed, None, 100).unwrap();
        let broken = broken.expect("it is not unpacked");
        assert!(came.is_empty() && broken.contains("more than 256 MiB") && broken.contains("xz -d"), "{broken}");
    }
}
