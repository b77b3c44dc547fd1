//! The paths of a data directory's files, and checks that its directories are usable.
//!
//! ```text
//! DATADIR/[NET/]                 .lock, chainstate/, chainstate_snapshot/, indexes/, ffwd/
//! DATADIR/[NET/]blocks/index/    the block index; never moved by -blocksdir
//! BLOCKSDIR/[NET/]blocks/        .lock, xor.dat, blk?????.dat, rev?????.dat
//! ```
//!
//! Source: facts of Bitcoin Core b88bffe, common/args.cpp, chainparamsbase.cpp.

use crate::fault::{Fault, FaultKind, Result};
use disk::Disk;
use primitives::BlockHash;
use primitives::work::Target;
use std::path::{Path, PathBuf};

/// The properties of a network that its files depend on.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// Its directory's name under the data directory; empty for mainnet.
    pub directory: &'static str,
    /// The four bytes before every record of its block and undo files.
    pub magic: [u8; 4],
    /// Hash of its genesis block.
    pub genesis: BlockHash,
    /// The easiest allowed target of its headers.
    pub pow_limit: Target,
}

/// Core's networks by the magic of their records, each with its name in -chain. A test of `node` compares them with
/// `consensus::Params`.
const MAGICS: [([u8; 4], &str); 5] = [
    ([0xf9, 0xbe, 0xb4, 0xd9], "main"),
    ([0x0b, 0x11, 0x09, 0x07], "test"),
    ([0x1c, 0x16, 0x3f, 0x28], "testnet4"),
    ([0x0a, 0x03, 0xcf, 0x40], "signet"),
    ([0xfa, 0xbf, 0xb5, 0xda], "regtest"),
];

/// The network whose records begin with `magic`, by its name in -chain.
#[must_use]
pub fn network_of_magic(magic: [u8; 4]) -> Option<&'static str> {
    MAGICS.iter().find(|(known, _)| *known == magic).map(|(_, name)| *name)
}

/// The directories of one network's data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    datadir: PathBuf,
    net_dir: PathBuf,
    blocks_dir: PathBuf,
}

impl Layout {
    /// The directories of a network: `net_dir_name` (empty for mainnet) under `datadir`, with block files under
    /// `blocksdir` if that is given.
    pub fn new(datadir: &Path, net_dir_name: &str, blocksdir: Option<&Path>) -> Layout {
        let under = |root: &Path| if net_dir_name.is_empty() { root.to_path_buf() } else { root.join(net_dir_name) };
        let net_dir = under(datadir);
        let blocks_dir = blocksdir.map_or_else(|| net_dir.clone(), under).join("blocks");
        Layout { datadir: datadir.to_path_buf(), net_dir, blocks_dir }
    }

    /// The data directory itself, which contains bitcoin.conf.
    pub fn datadir(&self) -> &Path {
        &self.datadir
    }

    /// The network's directory.
    pub fn net_dir(&self) -> &Path {
        &self.net_dir
    }

    /// The directory of block files, undo files and xor.dat.
    pub fn blocks_dir(&self) -> &Path {
        &self.blocks_dir
    }

    /// The block index.
    pub fn index_dir(&self) -> PathBuf {
        self.net_dir.join("blocks").join("index")
    }

    /// The directory of the coins.
    pub fn chainstate_dir(&self) -> PathBuf {
        self.net_dir.join("chainstate")
    }

    /// The second chainstate, while an assumeutxo snapshot is not fully validated.
    pub fn snapshot_dir(&self) -> PathBuf {
        self.net_dir.join("chainstate_snapshot")
    }

    /// The directory of a chainstate that is being written from a snapshot.
    pub fn new_snapshot_dir(&self) -> PathBuf {
        self.private_dir().join("chainstate_snapshot")
    }

    /// The directory of a chainstate made from a streamed snapshot; it is kept when the program ends.
    pub fn coming_snapshot_dir(&self) -> PathBuf {
        self.private_dir().join("chainstate_coming")
    }

    /// Core's optional indexes: [`crate::indexes`].
    pub fn indexes_dir(&self) -> PathBuf {
        self.net_dir.join("indexes")
    }

    /// ffwd's private files, which may be lost without harm.
    pub fn private_dir(&self) -> PathBuf {
        self.net_dir.join("ffwd")
    }

    /// The directory of rebuilt coins, while the old ones are still in use.
    pub fn rebuilt_chainstate_dir(&self) -> PathBuf {
        self.private_dir().join("chainstate")
    }

    /// The directory of coins made with hints, while the empty ones are still in use.
    pub fn hinted_chainstate_dir(&self) -> PathBuf {
        self.private_dir().join("chainstate_hints")
    }

    /// blk?????.dat
    pub fn block_file(&self, number: u32) -> PathBuf {
        block_file(&self.blocks_dir, number)
    }

    /// rev?????.dat
    pub fn undo_file(&self, number: u32) -> PathBuf {
        undo_file(&self.blocks_dir, number)
    }

    /// Fails if the data directory, or one given as blocksdir, is missing or cannot be listed.
    ///
    /// # Errors
    ///
    /// [`FaultKind::Missing`], [`FaultKind::Permission`], or [`FaultKind::Refused`] for a file in place of a data
    /// directory.
    pub fn check(&self, disk: &dyn Disk) -> Result<()> {
        check_directory(disk, &self.datadir, "the data directory")?;
        if !self.blocks_dir.starts_with(&self.datadir) {
            let root = self.blocksdir_root();
            check_directory(disk, &root, "the directory given as blocksdir")?;
        }
        if self.blocks_dir != self.net_dir.join("blocks") {
            self.check_blocksdir(disk, &self.blocksdir_root())?;
        }
        for dir in [&self.net_dir, &self.blocks_dir] {
            if disk.metadata(dir)?.is_some() {
                check_directory(disk, dir, "a directory")?;
            }
        }
        let others = [self.net_dir.join("blocks"), self.index_dir(), self.chainstate_dir(), self.indexes_dir()];
        [self.net_dir.clone(), self.blocks_dir.clone()].iter().chain(&others).try_for_each(|dir| check_link(disk, dir))
    }

    /// Refuses a directory blocks/ given as blocksdir: its parent is the right one.
    fn check_blocksdir(&self, disk: &dyn Disk, root: &Path) -> Result<()> {
        let is_there = disk.metadata(&self.blocks_dir)?.is_some();
        if is_there || !disk.list(root)?.iter().any(|entry| block_file_number(&entry.name).is_some()) {
            return Ok(());
        }
        let net = self.net_dir.strip_prefix(&self.datadir).unwrap_or(Path::new(""));
        let above = root.parent().unwrap_or(root);
        let owner =
            if above.ends_with(net) { above.ancestors().nth(net.iter().count()).unwrap_or(above) } else { above };
        let advice = format!("Give --blocksdir {}: block files are looked for in blocks/ below it", owner.display());
        let wanted = "the directory that holds blocks/, as blocksdir";
        Err(Fault::new(FaultKind::Refused, root, wanted, "the directory with the block files itself", advice))
    }

    /// Whether this network has no data: no blocks, index or coins.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn is_unused(&self, disk: &dyn Disk) -> Result<bool> {
        for dir in [self.blocks_dir.clone(), self.net_dir.join("blocks"), self.chainstate_dir()] {
            if disk.metadata(&dir)?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Bytes of the stored files, whatever their names, in the directories of blocks, index and coins.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn used_space(&self, disk: &dyn Disk) -> Result<UsedSpace> {
        let of = |dirs: &[PathBuf]| -> Result<u64> { dirs.iter().map(|dir| files_bytes(disk, dir)).sum() };
        Ok(UsedSpace {
            blocks: of(&[self.blocks_dir.clone(), self.index_dir()])?,
            coins: of(&[self.chainstate_dir(), self.snapshot_dir()])?,
        })
    }

    /// Creates the network's directory and blocks/ (also that of the index, if it is another) if they are missing. In a
    /// new network directory it also creates wallets/, as Core does (common/init.cpp, `InitConfig`): then Core keeps
    /// its wallets there. The index's directory is created when the index is opened: if it existed before xor.dat, Core
    /// would write a zero key.
    ///
    /// # Errors
    ///
    /// No space, no permission, or an I/O error.
    pub fn create(&self, disk: &dyn Disk) -> Result<()> {
        let roots = [self.datadir.clone(), self.blocksdir_root()];
        let wallets = disk.metadata(&self.net_dir)?.is_none().then(|| self.net_dir.join("wallets"));
        let dirs = [self.net_dir.clone(), self.blocks_dir.clone(), self.net_dir.join("blocks")];
        for dir in dirs.into_iter().chain(wallets) {
            disk.create_dir_all(&dir)?;
            // All directory names below the ones that existed before.
            let is_below = |above: &&Path| roots.iter().any(|root| above.starts_with(root));
            for above in dir.ancestors().skip(1).take_while(is_below) {
                disk.sync_dir_once(above)?;
            }
        }
        Ok(())
    }

    fn blocksdir_root(&self) -> PathBuf {
        let net = self.net_dir.strip_prefix(&self.datadir).unwrap_or(Path::new(""));
        let above = self.blocks_dir.parent().unwrap_or(&self.blocks_dir);
        let root = if net.as_os_str().is_empty() { Some(above) } else { above.parent() };
        root.unwrap_or(above).to_path_buf()
    }
}

/// The bytes stored in a data directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UsedSpace {
    /// Block and undo files, and the block index.
    pub blocks: u64,
    /// Chainstates.
    pub coins: u64,
}

/// Bytes of the files of a directory, without subdirectories; 0 if it is missing.
fn files_bytes(disk: &dyn Disk, dir: &Path) -> Result<u64> {
    if disk.metadata(dir)?.is_none_or(|known| !known.is_dir) {
        return Ok(0);
    }
    let entries = disk.list(dir)?;
    let files = entries.iter().filter(|entry| !entry.is_dir).map(|entry| dir.join(&entry.name));
    files.map(|path| Ok(disk.metadata(&path)?.map_or(0, |known| known.len))).sum()
}

/// The greatest file number that is accepted. Full files up to it hold 128 TB, a hundred times what the longest chain
/// needs. It bounds the memory that a file name or an index entry can make this program allocate.
pub const FILE_NUMBER_MAX: u32 = 999_999;

/// The block files of a directory, also packed ones (blk00000.dat.gz), recognized by name; empty if `dir` is not a
/// directory.
///
/// # Errors
///
/// An I/O error.
pub fn block_files(disk: &dyn Disk, dir: &Path) -> Result<Vec<PathBuf>> {
    if disk.metadata(dir)?.is_none_or(|known| !known.is_dir) {
        return Ok(Vec::new());
    }
    let is_block_file = |name: &std::ffi::OsStr| {
        let whole = name.to_str().unwrap_or_default();
        let packed = [".gz", ".xz", ".zst"].iter().find_map(|end| whole.strip_suffix(end));
        block_file_number(std::ffi::OsStr::new(packed.unwrap_or(whole))).is_some()
    };
    let entries = disk.list(dir)?.into_iter().filter(|entry| !entry.is_dir && is_block_file(&entry.name));
    Ok(entries.map(|entry| dir.join(entry.name)).collect())
}

/// Path of a block file in `blocks_dir`.
pub(crate) fn block_file(blocks_dir: &Path, number: u32) -> PathBuf {
    blocks_dir.join(format!("blk{number:05}.dat"))
}

/// Path of an undo file in `blocks_dir`.
pub(crate) fn undo_file(blocks_dir: &Path, number: u32) -> PathBuf {
    blocks_dir.join(format!("rev{number:05}.dat"))
}

/// The number in the name of a block file; `None` for every other name.
pub(crate) fn block_file_number(name: &std::ffi::OsStr) -> Option<u32> {
    file_number(name, "blk")
}

/// The number in the name of an undo file; `None` for every other name.
pub(crate) fn undo_file_number(name: &std::ffi::OsStr) -> Option<u32> {
    file_number(name, "rev")
}

fn file_number(name: &std::ffi::OsStr, prefix: &str) -> Option<u32> {
    let digits = name.to_str()?.strip_prefix(prefix)?.strip_suffix(".dat")?;
    if digits.len() < 5 || (digits.len() > 5 && digits.starts_with('0')) || !digits.bytes().all(|b| b.is_ascii_digit())
    {
        return None;
    }
    digits.parse().ok().filter(|&number| number <= FILE_NUMBER_MAX)
}

/// Refuses a dangling link: a directory created in its place would be the wrong one.
fn check_link(disk: &dyn Disk, path: &Path) -> Result<()> {
    if disk.metadata(path)?.is_some() {
        return Ok(());
    }
    let Some(target) = disk.read_link(path)? else { return Ok(()) };
    let found = format!("a link to {}, which is not there", target.display());
    let advice = "Mount the drive that it leads to, or correct or remove the link";
    Err(Fault::new(FaultKind::Missing, path, "a directory", found, advice))
}

fn check_directory(disk: &dyn Disk, dir: &Path, what: &str) -> Result<()> {
    check_link(disk, dir)?;
    match disk.metadata(dir)? {
        None => {
            let advice = if dir.starts_with("~") {
                "Only a shell replaces ~, and not within --datadir=~: write the whole path".to_owned()
            } else {
                format!("Is the drive mounted, and the path right? To start a new one: mkdir -p {}", dir.display())
            };
            Err(Fault::new(FaultKind::Missing, dir, what, "nothing", advice))
        }
        Some(known) if !known.is_dir => {
            Err(Fault::new(FaultKind::Refused, dir, what, "a file", "Name the directory, not a file in it"))
        }
        Some(_) => disk.list(dir).map(drop).map_err(Fault::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{Loss, SimDisk};
    use std::ffi::OsStr;

    #[test]
    fn layout_paths_are_cores() {
        let main = Layout::new(Path::new("/d"), "", None);
        assert_eq!(main.block_file(7), Path::new("/d/blocks/blk00007.dat"));
        assert_eq!(main.undo_file(123_456), Path::new("/d/blocks/rev123456.dat"));
        let moved = Layout::new(Path::new("/d"), "regtest", Some(Path::new("/big")));
        assert_eq!(moved.blocks_dir(), Path::new("/big/regtest/blocks"));
        assert_eq!(moved.index_dir(), Path::new("/d/regtest/blocks/index"));
        assert_eq!(moved.rebuilt_chainstate_dir(), Path::new("/d/regtest/ffwd/chainstate"));
        assert_eq!(moved.blocksdir_root(), Path::new("/big"));
        assert_eq!(Layout::new(Path::new("/d"), "", Some(Path::new("/big"))).blocksdir_root(), Path::new("/big"));
    }

    #[test]
    fn block_file_number_takes_only_cores_names() {
        for (name, want) in [
            ("blk00000.dat", Some(0)),
            ("blk99999.dat", Some(99_999)),
            ("blk100000.dat", Some(100_000)),
            ("blk000001.dat", None),
            ("blk0001.dat", None),
            ("blk+0001.dat", None),
            ("blk00001.dat.bak", None),
            ("rev00001.dat", None),
            ("blk1000000.dat", None),
            ("blk99999999999999.dat", None),
        ] {
            assert_eq!(block_file_number(OsStr::new(name)), want, "{name}");
        }
        assert_eq!(undo_file_number(OsStr::new("rev00001.dat")), Some(1));
    }

    #[test]
    fn check_names_the_directory_that_cannot_be_used() {
        let sim = SimDisk::new(0);
        let disk = sim.shared();
        let layout = Layout::new(Path::new("/d"), "regtest", Some(Path::new("/big")));
        let why = layout.check(&*disk).unwrap_err();
        assert!(why.to_string().starts_with("/d: wanted the data directory, found nothing"), "{why}");
        disk.create_dir_all(Path::new("/d")).unwrap();
        let why = layout.check(&*disk).unwrap_err();
        assert!(why.to_string().starts_with("/big: wanted the directory given as blocksdir"), "{why}");
        disk.create(Path::new("/big")).unwrap();
        assert_eq!(layout.check(&*disk).unwrap_err().kind(), FaultKind::Refused);
        disk.remove_file(Path::new("/big")).unwrap();
        assert!(layout.is_unused(&*disk).unwrap());
        layout.create(&*disk).unwrap();
        layout.check(&*disk).unwrap();
        assert!(!layout.is_unused(&*disk).unwrap());
        assert_eq!(layout.used_space(&*disk).unwrap(), UsedSpace::default());
        for (path, bytes) in [(layout.block_file(0), 100), (layout.undo_file(0), 20)] {
            disk.create(&path).unwrap().set_len(bytes).unwrap();
        }
        disk.create_dir_all(&layout.chainstate_dir()).unwrap();
        disk.create(&layout.chainstate_dir().join("000005.ldb")).unwrap().set_len(3).unwrap();
        assert_eq!(layout.used_space(&*disk).unwrap(), UsedSpace { blocks: 120, coins: 3 });
        assert!(disk.metadata(Path::new("/big/regtest/blocks")).unwrap().is_some());
        assert!(disk.metadata(Path::new("/d/regtest/blocks/index")).unwrap().is_none());
    }

    /// Also where two of them are new: what is committed inside must not go with a name above it.
    #[test]
    fn create_makes_directories_that_survive_a_crash() {
        let sim = SimDisk::new(0);
        for root in ["/d", "/big"] {
            sim.create_dir_all(Path::new(root)).unwrap();
        }
        sim.sync_dir(Path::new("/")).unwrap();
        let layout = Layout::new(Path::new("/d"), "regtest", Some(Path::new("/big")));
        layout.create(&sim).unwrap();
        let sim = sim.reopen(Loss::Unsynced);
        for dir in ["/big/regtest/blocks", "/d/regtest/blocks", "/d/regtest/wallets"] {
            assert!(sim.metadata(Path::new(dir)).unwrap().is_some(), "{dir}");
        }
        sim.remove_dir_all(Path::new("/d/regtest/wallets")).unwrap();
        layout.create(&sim).unwrap();
        assert!(sim.metadata(Path::new("/d/regtest/wallets")).unwrap().is_none(), "in a new directory alone");
    }
}
