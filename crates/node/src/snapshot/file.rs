//! A snapshot file, read sequentially in pieces.

use crate::fault::Fault;
use consensus::{Chain, Params};
use disk::{Disk, DiskFile};
use primitives::Height;
use primitives::snapshot::{CoinsParser, ENTRY_BYTES_MAX, HEADER_BYTES, Next, SnapshotCoin, SnapshotHeader};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Bytes per read.
pub(super) const PIECE_BYTES: usize = 1 << 20;

/// Advice if a file is damaged or not a snapshot.
pub(super) const NO_SNAPSHOT: &str = "Compare the file's SHA-256 with that of its source, and copy it again";

/// An open snapshot file.
#[derive(Debug)]
pub(crate) struct SnapshotFile {
    file: Arc<dyn DiskFile>,
    bytes: u64,
    /// The header before the coins.
    pub(crate) header: SnapshotHeader,
}

/// Why a file cannot be read as a snapshot.
#[derive(Debug)]
pub(crate) enum NoSnapshot {
    /// It cannot be opened: the path, and the I/O error.
    Unopened(String, io::Error),
    /// It does not begin with a snapshot's header.
    Metadata(String),
}

impl From<NoSnapshot> for Fault {
    fn from(why: NoSnapshot) -> Fault {
        match why {
            NoSnapshot::Unopened(what, why) => Fault::system(what, "Name a snapshot file that this user may read", why),
            NoSnapshot::Metadata(why) => Fault::refused(unparsable(&why), NO_SNAPSHOT),
        }
    }
}

/// The reason, after Core's words.
pub(super) fn unparsable(why: &str) -> String {
    format!("Unable to parse metadata: {why}")
}

/// The network with these magic bytes.
pub(crate) fn network_of(magic: [u8; 4]) -> Option<Chain> {
    Chain::ALL.into_iter().find(|chain| Params::new(*chain).magic == magic)
}

/// Refuses a snapshot of another network; `name` is the snapshot's name in the message.
///
/// # Errors
///
/// The snapshot's network.
pub(super) fn check_network(header: &SnapshotHeader, params: &Params, name: &dyn fmt::Display) -> Result<(), Fault> {
    let advice = "Name the snapshot's network with --chain, or a snapshot of this one";
    metadata_of(header, params, name).map_err(|why| Fault::refused(unparsable(&why), advice))
}

/// Source: Bitcoin Core b88bffe, `SnapshotMetadata::Unserialize`.
fn metadata_of(header: &SnapshotHeader, params: &Params, name: &dyn fmt::Display) -> Result<(), String> {
    if header.network == params.magic {
        return Ok(());
    }
    Err(match network_of(header.network) {
        Some(chain) => format!(
            "The network of the snapshot ({chain}) does not match the network of this node ({}). \
             ({name}, byte 7)",
            params.chain
        ),
        None => format!(
            "This snapshot has been created for an unrecognized network. This could be a custom \
             signet, a new testnet or possibly caused by data corruption. ({name}, byte 7)"
        ),
    })
}

impl SnapshotFile {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    ///
    /// It is missing, or not a snapshot; an I/O error. A directory, device or pipe can be opened, as in Core, but is
    /// not a snapshot.
    pub(crate) fn open(disk: &dyn Disk, path: &Path) -> Result<SnapshotFile, NoSnapshot> {
        let no_metadata = |why: &dyn fmt::Display| NoSnapshot::Metadata(format!("{why} ({})", path.display()));
        let file = disk.open(path).map_err(|why| match why.source.kind() {
            io::ErrorKind::IsADirectory | io::ErrorKind::InvalidInput => no_metadata(&why.source),
            _ => {
                let what = format!("Couldn't open file {} for reading. ({})", path.display(), why.source);
                NoSnapshot::Unopened(what, why.source)
            }
        })?;
        let bytes = file.len().map_err(|why| no_metadata(&why.source))?;
        let mut start = [0; HEADER_BYTES];
        let count = file.read_at(0, &mut start).map_err(|why| no_metadata(&why.source))?;
        let header = SnapshotHeader::decode(&start[..count]).map_err(|why| no_metadata(&why))?;
        Ok(SnapshotFile { file, bytes, header })
    }

    /// Refuses a file of another network.
    ///
    /// # Errors
    ///
    /// The file's network.
    pub(crate) fn check_network(&self, params: &Params) -> Result<(), Fault> {
        check_network(&self.header, params, &self.file.path().display())
    }

    /// Like [`SnapshotFile::check_network`], with only the reason.
    pub(crate) fn metadata_of(&self, params: &Params) -> Result<(), String> {
        metadata_of(&self.header, params, &self.file.path().display())
    }

    /// Its length in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Fills `out` with its bytes from `offset` on; `false` if they cannot be read.
    pub(crate) fn read_at(&self, offset: u64, out: &mut [u8]) -> bool {
        self.file.read_exact_at(offset, out).is_ok()
    }

    /// Its coins, from the first one on. `failed` is the text before the reason if the file is incomplete.
    pub(crate) fn coins(&self, height_max: Height, failed: &'static str) -> CoinsReader<'_> {
        let parser = CoinsParser::new(&self.header, height_max);
        CoinsReader { file: self, parser, buffer: Vec::new(), read: HEADER_BYTES as u64, failed }
    }
}

/// Reads the coins of a snapshot in bounded memory.
#[derive(Debug)]
pub(crate) struct CoinsReader<'f> {
    file: &'f SnapshotFile,
    parser: CoinsParser,
    /// Bytes that are read but not parsed.
    buffer: Vec<u8>,
    /// Offset after the buffer in the file.
    read: u64,
    failed: &'static str,
}

impl CoinsReader<'_> {
    /// Reads about a MiB, and passes its coins to `each`; returns whether there may be more.
    ///
    /// # Errors
    ///
    /// The file does not match its header: the offset and reason, in Core's words; an I/O error; errors of `each`.
    pub(crate) fn piece(
        &mut self,
        mut each: impl FnMut(&SnapshotCoin<'_>) -> Result<(), Fault>,
    ) -> Result<bool, Fault> {
        let kept = self.buffer.len();
        let left = self.file.bytes - self.read;
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE_BYTES);
        self.buffer.resize(kept + wanted, 0);
        self.file.file.read_exact_at(self.read, &mut self.buffer[kept..]).map_err(store::Fault::from)?;
        self.read += wanted as u64;
        let is_last = self.read == self.file.bytes;
        let mut at = 0;
        loop {
            let rest = &self.buffer[at..];
            // Enough bytes to decide, so that nothing is parsed twice.
            if !is_last && rest.len() < ENTRY_BYTES_MAX {
                break;
            }
            let (next, taken) = self.parser.next(rest, is_last).map_err(|why| {
                let why = format!("{}{why}. ({})", self.failed, self.file.file.path().display());
                Fault::refused(why, NO_SNAPSHOT)
            })?;
            at += taken;
            match next {
                Next::Coin(coin) => each(&coin)?,
                Next::More => break,
                Next::End => return Ok(false),
            }
        }
        self.buffer.drain(..at);
        Ok(true)
    }

    /// Coins read so far.
    pub(crate) fn count(&self) -> u64 {
        self.parser.count()
    }

    /// Offset of the next coin in the file.
    pub(crate) fn offset(&self) -> u64 {
        self.parser.offset()
    }
}
