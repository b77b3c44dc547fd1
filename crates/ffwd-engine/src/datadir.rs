//! A data directory of one network, and the jobs and queries on it.

use crate::block::Blocks;
use crate::coins::Coins;
use crate::error::Error;
use crate::jobs::{ReindexJob, SyncJob, VerifyJob};
use crate::network::Network;
use consensus::Params;
use node::options::Options;
use std::fmt;
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use store::Layout;

/// A data directory of Bitcoin Core, for one of its networks.
///
/// It holds no lock and no open file. Each call opens the files that it needs, and returns an error if another program
/// uses the data directory. Clones are cheap, and may be used from any thread.
#[derive(Clone)]
pub struct DataDir {
    network: Network,
    params: Params,
    path: PathBuf,
    blocks_dir: Option<PathBuf>,
    threads: Option<usize>,
}

impl DataDir {
    /// The data directory at `path`: Core's `-datadir`, the directory of `bitcoin.conf`, not the network's
    /// subdirectory.
    ///
    /// The directory must exist and may be empty: [`DataDir::sync`] fills it. This call creates and reads no files.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Missing`] if there is no such directory, [`crate::ErrorKind::Permission`], or another I/O
    /// error.
    pub fn open(path: impl AsRef<Path>, network: Network) -> Result<DataDir, Error> {
        DataDir::builder(path, network).open()
    }

    /// Like [`DataDir::open`], with options such as a separate directory of block files and a number of threads.
    ///
    /// ```no_run
    /// use ffwd_engine::{DataDir, Network};
    ///
    /// let dir = DataDir::builder("/home/me/.bitcoin", Network::Main).blocks_dir("/mnt/blocks").threads(4).open()?;
    /// # Ok::<(), ffwd_engine::Error>(())
    /// ```
    pub fn builder(path: impl AsRef<Path>, network: Network) -> DataDirBuilder {
        let path = path.as_ref().to_path_buf();
        DataDirBuilder { path, network, blocks_dir: None, signet_challenge: None, threads: None }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its network.
    pub fn network(&self) -> Network {
        self.network
    }

    /// Rebuilds block index, undo files and UTXO set from the block files: Core's `-reindex`. Work starts with
    /// [`ReindexJob::run`].
    pub fn reindex<'a>(&self) -> ReindexJob<'a> {
        ReindexJob::new(self.options())
    }

    /// Downloads blocks from peers and connects them. Work starts with [`SyncJob::run`].
    pub fn sync<'a>(&self) -> SyncJob<'a> {
        SyncJob::new(self.options())
    }

    /// Checks the last blocks of the chain: Core's `verifychain`. Work starts with [`VerifyJob::run`].
    pub fn verify<'a>(&self) -> VerifyJob<'a> {
        VerifyJob::new(self.options())
    }

    /// The blocks of a range of heights, each with the coins that it spends: `..` for all, `100..200`, `100..=199`,
    /// `100..`.
    ///
    /// The chain is the one of the UTXO set; without a UTXO set, the connected chain with the most work. A pruned data
    /// directory has only the recent blocks.
    ///
    /// # Errors
    ///
    /// There is no block index, it is damaged, the chain ends below the range, or another program uses the data
    /// directory.
    pub fn blocks(&self, range: impl RangeBounds<u32>) -> Result<Blocks, Error> {
        Blocks::open(self.options(), range)
    }

    /// The UTXO set. While a snapshot is not validated there are two UTXO sets; this is the snapshot's, as in Core's
    /// calls.
    ///
    /// # Errors
    ///
    /// There is no complete UTXO set, it is damaged, or another program uses the data directory.
    pub fn coins(&self) -> Result<Coins, Error> {
        Coins::open(self.options())
    }

    /// The options of the engine.
    pub(crate) fn options(&self) -> Options {
        let mut options = Options::new(self.path.clone(), self.params.clone(), SystemTime::now);
        options.blocksdir = self.blocks_dir.clone();
        options.par = self.threads.unwrap_or(options.par);
        options.build = concat!("ffwd-engine ", env!("CARGO_PKG_VERSION"));
        options
    }
}

impl fmt::Debug for DataDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataDir").field("path", &self.path).field("network", &self.network).finish_non_exhaustive()
    }
}

/// Options of a data directory before it is opened: [`DataDir::builder`].
#[derive(Clone, Debug)]
#[must_use = "nothing is opened before `open`"]
pub struct DataDirBuilder {
    path: PathBuf,
    network: Network,
    blocks_dir: Option<PathBuf>,
    signet_challenge: Option<Vec<u8>>,
    threads: Option<usize>,
}

impl DataDirBuilder {
    /// The directory of block files, if outside the data directory: Core's `-blocksdir`, the directory that contains
    /// `blocks/`.
    pub fn blocks_dir(mut self, path: impl AsRef<Path>) -> DataDirBuilder {
        self.blocks_dir = Some(path.as_ref().to_path_buf());
        self
    }

    /// The block script of a custom signet: Core's `-signetchallenge`. Source: BIP-0325.
    pub fn signet_challenge(mut self, script: impl Into<Vec<u8>>) -> DataDirBuilder {
        self.signet_challenge = Some(script.into());
        self
    }

    /// Number of worker threads, at least 1 (default: one for each processor).
    pub fn threads(mut self, threads: usize) -> DataDirBuilder {
        self.threads = Some(threads.max(1));
        self
    }

    /// Opens it: see [`DataDir::open`].
    ///
    /// # Errors
    ///
    /// Those of [`DataDir::open`]; also a signet challenge on another network.
    pub fn open(self) -> Result<DataDir, Error> {
        let DataDirBuilder { path, network, blocks_dir, signet_challenge, threads } = self;
        let mut params = network.params();
        if let Some(challenge) = signet_challenge {
            params = params
                .with_signet_challenge(&challenge)
                .map_err(|why| Error::refused(why.to_string(), "Leave the challenge out, or name signet"))?;
        }
        let layout = Layout::new(&path, params.chain.net_dir(), blocks_dir.as_deref());
        layout.check(&*node::options::real_disk())?;
        Ok(DataDir { network, params, path, blocks_dir, threads })
    }
}
