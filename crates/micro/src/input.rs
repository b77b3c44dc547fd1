//! Inputs of the experiments: two blocks, coins, a scratch directory, and the random number generator.
//!
//! Absent on purpose: data that differs between machines, except for the block of the test data.

use crate::{Error, Options};
use consensus::{Chain, Params};
use demo::chain::profile::Scripts;
use demo::chain::{self, Profile, Signatures};
use disk::{Disk, RealDisk};
use node::datadir::lock::network;
use primitives::coin::put_coin;
use primitives::{Amount, OutPoint, Tables, Txid};
use std::cell::OnceCell;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::blockfiles::BlockFiles;
use store::{FilePos, Network};
use tempfile::TempDir;

/// Number of coins and blocks of the chain from which the full block is taken.
const CHAIN_UTXOS: u64 = 40_000;
const CHAIN_UTXOS_QUICK: u64 = 2_000;
const CHAIN_BLOCKS: u32 = 2;

/// SplitMix64. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count.next_multiple_of(8)];
        for word in bytes.as_chunks_mut::<8>().0 {
            *word = self.next().to_le_bytes();
        }
        bytes.truncate(count);
        bytes
    }

    pub(crate) fn txid(&mut self) -> Txid {
        Txid::from_bytes(self.bytes(32).try_into().expect("32 bytes were asked for"))
    }

    /// Shuffles `items`.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at as u64 + 1) as usize);
        }
    }
}

/// A block and its chain.
pub(crate) struct Sample {
    pub(crate) bytes: Vec<u8>,
    pub(crate) params: Params,
    /// A note for rows: empty, or the information that another block is used.
    pub(crate) note: &'static str,
}

impl Sample {
    pub(crate) fn network(&self) -> Network {
        network(&self.params)
    }

    /// `way` with the block's note.
    pub(crate) fn name(&self, way: &str) -> String {
        format!("{way}{}", self.note)
    }

    /// Tables that are filled from the block.
    pub(crate) fn tables(&self) -> Result<Tables, Error> {
        let mut tables = Tables::new();
        tables.parse_block(&self.bytes).map_err(|why| Error::Broken(format!("the sample block: {why}")))?;
        Ok(tables)
    }
}

/// Shared by all experiments; slow inputs are created on first use.
pub(crate) struct Inputs {
    quick: bool,
    data: Option<PathBuf>,
    scratch: TempDir,
    full: OnceCell<Sample>,
    real: OnceCell<Sample>,
}

impl Inputs {
    pub(crate) fn new(options: &Options) -> Result<Inputs, Error> {
        let parent = options.scratch.clone().unwrap_or_else(std::env::temp_dir);
        let scratch = tempfile::Builder::new()
            .prefix("ffwd-lab-micro-")
            .tempdir_in(&parent)
            .map_err(Error::io("make a scratch directory in", &parent))?;
        let full = OnceCell::new();
        let real = OnceCell::new();
        Ok(Inputs { quick: options.quick, data: options.data.clone(), scratch, full, real })
    }

    /// A new directory of this name.
    pub(crate) fn directory(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.scratch.path().join(name);
        std::fs::create_dir_all(&path).map_err(Error::io("make", &path))?;
        Ok(path)
    }

    /// A full block of a chain like mainnet's in 2025.
    pub(crate) fn full(&self) -> Result<&Sample, Error> {
        kept(&self.full, || Ok(Sample { bytes: self.make_full()?, params: Params::new(Chain::Regtest), note: "" }))
    }

    /// Mainnet's block 413567, or the generated one if it is missing.
    pub(crate) fn real(&self) -> Result<&Sample, Error> {
        kept(&self.real, || {
            let path = self.data.as_ref().map(|data| data.join("blocks/main_413567.blk"));
            if let Some(path) = path.filter(|path| path.is_file()) {
                let bytes = std::fs::read(&path).map_err(Error::io("read", &path))?;
                return Ok(Sample { bytes, params: Params::new(Chain::Main), note: "" });
            }
            let bytes = self.full()?.bytes.clone();
            Ok(Sample { bytes, params: Params::new(Chain::Regtest), note: " (a made block stands in)" })
        })
    }

    /// A block of the test data with the coins that it spends; `None` if it is missing.
    pub(crate) fn with_coins(&self, name: &str) -> Result<Option<(Sample, Vec<u8>)>, Error> {
        let Some(blocks) = self.data.as_ref().map(|data| data.join("blocks")) else { return Ok(None) };
        let block = blocks.join(format!("{name}.blk"));
        let coins = blocks.join(format!("{name}.spent.xz"));
        if !block.is_file() || !coins.is_file() {
            return Ok(None);
        }
        let packed = File::open(&coins).map_err(Error::io("open", &coins))?;
        let mut spent = Vec::new();
        liblzma::read::XzDecoder::new(packed).read_to_end(&mut spent).map_err(Error::io("unpack", &coins))?;
        let sample = Sample { bytes: file_bytes(&block)?, params: Params::new(Chain::Main), note: "" };
        Ok(Some((sample, spent)))
    }

    fn make_full(&self) -> Result<Vec<u8>, Error> {
        let directory = self.directory("chain")?;
        let mut options = chain::Options::new(&directory, CHAIN_BLOCKS, 413_567);
        options.utxos = if self.quick { CHAIN_UTXOS_QUICK } else { CHAIN_UTXOS };
        options.signatures = Signatures::Fake;
        chain::generate(&options, |_| {})?;
        let params = Params::new(Chain::Regtest);
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let blocks_dir = directory.join(params.chain.net_dir()).join("blocks");
        let key = store::xor::read_key(&*disk, &blocks_dir)?.unwrap_or(store::xor::NO_KEY);
        let files = BlockFiles::new(disk, &blocks_dir, &network(&params), key);
        let mut last = None;
        let mut found = Vec::new();
        for file in files.numbers()?.there {
            found.extend(files.scan(file)?.blocks);
            last = found.last();
        }
        let at = last.and_then(|block| block.location.file_pos());
        let at = at.ok_or_else(|| Error::Broken("the made chain has no block".to_owned()))?;
        let block = files.read_block(FilePos { file: at.file, offset: at.offset })?;
        std::fs::remove_dir_all(&directory).map_err(Error::io("remove", &directory))?;
        Ok(block)
    }
}

fn kept<T>(cell: &OnceCell<T>, make: impl FnOnce() -> Result<T, Error>) -> Result<&T, Error> {
    if cell.get().is_none() {
        // No other code sets it while it is created.
        let _ = cell.set(make()?);
    }
    Ok(cell.get().expect("it was just set"))
}

/// The real disk, in the form that the store needs.
pub(crate) fn disk() -> Arc<dyn Disk> {
    Arc::new(RealDisk)
}

/// Bytes of a scratch file.
pub(crate) fn file_bytes(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(Error::io("read", path))
}

/// The distribution of script types.
#[derive(Clone, Copy)]
pub(crate) enum Mix {
    /// Mostly P2PKH and P2SH, which Core compresses, too.
    Before2017,
    /// Mostly P2WPKH and P2TR.
    In2025,
}

impl Mix {
    /// A random script, with the distribution of the same profile of `lab chain`.
    pub(crate) fn script(self, rng: &mut Rng) -> Vec<u8> {
        let profile = match self {
            Mix::Before2017 => Profile::Mainnet2016,
            Mix::In2025 => Profile::Mainnet2025,
        };
        let Scripts { p2wpkh, p2tr, p2pkh, p2sh, p2wsh } = profile.scripts();
        let shares = [p2pkh, p2sh, p2wpkh, p2tr, p2wsh].map(u64::from);
        let mut draw = rng.below(shares.iter().sum());
        let kind = shares.iter().position(|share| {
            let is_it = draw < *share;
            draw = draw.saturating_sub(*share);
            is_it
        });
        let (head, payload, tail): (&[u8], usize, &[u8]) = match kind {
            Some(0) => (&[0x76, 0xa9, 0x14], 20, &[0x88, 0xac]),
            Some(1) => (&[0xa9, 0x14], 20, &[0x87]),
            Some(2) => (&[0, 0x14], 20, &[]),
            Some(3) => (&[0x51, 0x20], 32, &[]),
            _ => (&[0, 0x20], 32, &[]),
        };
        [head, &rng.bytes(payload), tail].concat()
    }
}

/// A coin in Core's stored form, and its outpoint.
pub(crate) struct StoredCoin {
    pub(crate) outpoint: OutPoint,
    pub(crate) coin: Vec<u8>,
}

/// `count` coins in random order; one to three of each transaction.
pub(crate) fn coins(count: usize, mix: Mix, seed: u64) -> Vec<StoredCoin> {
    let mut rng = Rng(seed);
    let mut coins = Vec::with_capacity(count);
    while coins.len() < count {
        let txid = rng.txid();
        let outputs = 1 + rng.below(3) as u32;
        for vout in 0..outputs.min((count - coins.len()) as u32) {
            let script = mix.script(&mut rng);
            let value = Amount((546 + rng.below(100_000_000)) as i64);
            let mut coin = Vec::new();
            put_coin(&mut coin, (800_000 + rng.below(100_000) as u32) * 2, value, &script);
            coins.push(StoredCoin { outpoint: OutPoint { txid, vout }, coin });
        }
    }
    coins
}

/// A hash of bytes for comparing results, which no experiment measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Digest(u64);

impl Digest {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.add_u64(u64::from_le_bytes(*word)));
        rest.iter().for_each(|&byte| self.add_u64(u64::from(byte)));
        self.add_u64(bytes.len() as u64);
    }

    pub(crate) fn add_u64(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value ^ 0x2545_f491_4f6c_dd1d) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    pub(crate) fn of(bytes: &[u8]) -> Digest {
        let mut digest = Digest::default();
        digest.add(bytes);
        digest
    }
}
