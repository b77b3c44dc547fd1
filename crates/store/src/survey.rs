//! Recognizes a directory that was given as data directory but is not one of the requested network.
//!
//! Decided by names, and by the first record of a block file. Nothing is written, no lock is taken. Absent on purpose:
//! damage, and what a program does about it.

use crate::fault::{Fault, FaultKind, Result};
use crate::layout::{self, Layout};
use crate::xor;
use disk::Disk;
use std::fmt;
use std::path::{Path, PathBuf};

/// A network, as its files show it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    /// Its name in -chain.
    pub chain: &'static str,
    /// Its directory's name under the data directory; empty for mainnet.
    pub directory: &'static str,
    /// The first bytes of each record of its block files.
    pub magic: [u8; 4],
}

/// The kind of directory that was given by mistake.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seems {
    /// The directory blocks/ of a data directory, or of one given as -blocksdir.
    Blocks {
        /// The right data directory.
        owner: PathBuf,
        /// `owner` has only block files: it is a directory for -blocksdir.
        is_blocksdir: bool,
    },
    /// A database of a data directory: chainstate/, or blocks/index/.
    Database {
        /// The right data directory.
        owner: PathBuf,
        /// Its path inside the data directory.
        name: &'static str,
    },
    /// A network's directory inside a data directory.
    Network {
        /// The right data directory.
        owner: PathBuf,
        /// The network.
        chain: &'static str,
    },
    /// The directory contains block files directly, not in blocks/.
    LooseFiles {
        /// Number of block files.
        count: usize,
        /// The directory where they belong.
        blocks_dir: PathBuf,
    },
    /// The block files of this network are another network's.
    Foreign {
        /// Their directory.
        blocks_dir: PathBuf,
        /// The other network.
        chain: &'static str,
    },
    /// No data of this network, but data of others: name and directory of each.
    OtherNetworks(Vec<(&'static str, PathBuf)>),
}

impl Seems {
    /// The advice for the user.
    pub fn advice(&self) -> String {
        match self {
            Seems::Blocks { owner, is_blocksdir: false } | Seems::Database { owner, .. } => {
                format!("Give --datadir {}", owner.display())
            }
            Seems::Blocks { owner, is_blocksdir: true } => {
                format!("Give its data directory as --datadir, and --blocksdir {}", owner.display())
            }
            Seems::Network { owner, chain } => format!("Give --datadir {} --chain {chain}", owner.display()),
            Seems::LooseFiles { blocks_dir, .. } => format!(
                "Move them to {}, then run ffwd reindex; or give them to ffwd import in another data directory",
                blocks_dir.display()
            ),
            Seems::Foreign { chain, .. } => format!("Give the data directory of {chain}, and --chain {chain}"),
            Seems::OtherNetworks(others) => {
                let chains: Vec<String> = others.iter().map(|(chain, _)| format!("--chain {chain}")).collect();
                format!("Give {}; ffwd sync would start a new chain next to it", chains.join(" or "))
            }
        }
    }

    /// The fault of a job that would begin a chain in the wrong place; `None` if it may begin.
    pub fn refusal(&self, datadir: &Path) -> Option<Fault> {
        match self {
            Seems::Blocks { .. } | Seems::Database { .. } | Seems::Network { .. } => {
                let found = self.to_string();
                Some(Fault::new(FaultKind::Refused, datadir, "a data directory", found, self.advice()))
            }
            Seems::LooseFiles { .. } | Seems::Foreign { .. } | Seems::OtherNetworks(_) => None,
        }
    }
}

impl fmt::Display for Seems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Seems::Blocks { is_blocksdir: false, .. } => f.write_str("the directory blocks of a data directory"),
            Seems::Blocks { is_blocksdir: true, .. } => f.write_str("the directory blocks of one given as -blocksdir"),
            Seems::Database { name, .. } => write!(f, "the directory {name} of a data directory"),
            Seems::Network { chain, .. } => write!(f, "the network's directory of {chain} inside a data directory"),
            Seems::LooseFiles { count, .. } => {
                write!(f, "{count} block files (blk?????.dat) outside of a directory blocks")
            }
            Seems::Foreign { blocks_dir, chain } => {
                write!(f, "block files of {chain} in {}", blocks_dir.display())
            }
            Seems::OtherNetworks(others) => {
                let list: Vec<String> =
                    others.iter().map(|(chain, dir)| format!("{chain} in {}", dir.display())).collect();
                write!(f, "nothing of this network, and data of {}", list.join(", "))
            }
        }
    }
}

/// Recognizes what the data directory of `layout` is, if it is not one of the wanted network; `known` lists all
/// networks. `None` if there is no sign of a mistake.
///
/// # Errors
///
/// An I/O error.
pub fn seems(disk: &dyn Disk, layout: &Layout, wanted: &Known, known: &[Known]) -> Result<Option<Seems>> {
    let dir = layout.datadir();
    let has = |dir: &Path, name: &str| Ok::<bool, Fault>(disk.metadata(&dir.join(name))?.is_some());
    let has_data = |dir: &Path| Ok::<bool, Fault>(has(dir, "blocks")? || has(dir, "chainstate")?);
    // A path such as "." has no name.
    let place = std::path::absolute(dir).unwrap_or_else(|_| dir.to_path_buf());
    let name = place.file_name().unwrap_or_default();
    let above = place.parent().unwrap_or(Path::new("/"));
    if !has_data(dir)? {
        if let Some(database) = database(disk, &place, known)? {
            return Ok(Some(database));
        }
        let count = disk.list(dir)?.iter().filter(|entry| layout::block_file_number(&entry.name).is_some()).count();
        if name == "blocks" && (count > 0 || has(dir, "index")? || has(dir, "xor.dat")?) {
            let owner = owner_of(above, known);
            let is_blocksdir = !has(above, "chainstate")? && !has(dir, "index")?;
            return Ok(Some(Seems::Blocks { owner: owner.to_path_buf(), is_blocksdir }));
        }
        if count > 0 {
            return Ok(Some(Seems::LooseFiles { count, blocks_dir: layout.blocks_dir().to_path_buf() }));
        }
    } else {
        let by_magic = first_magic(disk, &dir.join("blocks"))?;
        let of_files = known.iter().find(|net| by_magic.is_some_and(|magic| magic.fits(net.magic)));
        let of_name = known.iter().find(|net| !net.directory.is_empty() && name == net.directory);
        // Files are stronger evidence than a name.
        let is = of_files.or(of_name).filter(|net| !net.directory.is_empty());
        match is {
            Some(net)
                if of_name == Some(net)
                    && (net == wanted || wanted.directory.is_empty())
                    && (net != wanted || !has_data(layout.net_dir())?) =>
            {
                return Ok(Some(Seems::Network { owner: above.to_path_buf(), chain: net.chain }));
            }
            Some(net) if wanted.directory.is_empty() && net != wanted => {
                return Ok(Some(Seems::Foreign { blocks_dir: dir.join("blocks"), chain: net.chain }));
            }
            _ => {}
        }
    }
    if !layout.is_unused(disk)? {
        let by_magic = first_magic(disk, layout.blocks_dir())?;
        let other = known.iter().find(|net| *net != wanted && by_magic.is_some_and(|magic| magic.fits(net.magic)));
        return Ok(other.map(|net| Seems::Foreign { blocks_dir: layout.blocks_dir().to_path_buf(), chain: net.chain }));
    }
    let mut others = Vec::new();
    for net in known.iter().filter(|net| *net != wanted) {
        let dir = dir.join(net.directory);
        if has_data(&dir)? {
            // Files are stronger evidence than their directory.
            let magic = first_magic(disk, &dir.join("blocks"))?;
            let is = known.iter().find(|net| magic.is_some_and(|magic| magic.fits(net.magic)));
            others.push((is.unwrap_or(net).chain, dir));
        }
    }
    Ok((!others.is_empty()).then_some(Seems::OtherNetworks(others)))
}

/// The data directory that a network's directory belongs to: for mainnet, itself.
fn owner_of<'p>(net_dir: &'p Path, known: &[Known]) -> &'p Path {
    let is_network = known.iter().any(|net| !net.directory.is_empty() && net_dir.ends_with(net.directory));
    if is_network { net_dir.parent().unwrap_or(net_dir) } else { net_dir }
}

/// Recognizes `place` as a database of a data directory.
fn database(disk: &dyn Disk, place: &Path, known: &[Known]) -> Result<Option<Seems>> {
    for name in ["chainstate", "blocks/index"] {
        let net_dir = place.ancestors().nth(Path::new(name).components().count()).filter(|_| place.ends_with(name));
        if let Some(net_dir) = net_dir
            && disk.metadata(&place.join("CURRENT"))?.is_some()
        {
            return Ok(Some(Seems::Database { owner: owner_of(net_dir, known).to_path_buf(), name }));
        }
    }
    Ok(None)
}

/// The first bytes of a block file, as stored and without obfuscation.
#[derive(Clone, Copy)]
struct Magic {
    raw: [u8; 4],
    plain: [u8; 4],
}

impl Magic {
    fn fits(self, magic: [u8; 4]) -> bool {
        self.raw == magic || self.plain == magic
    }
}

/// The first bytes of the first block file of a directory; `None` without a block file.
fn first_magic(disk: &dyn Disk, blocks_dir: &Path) -> Result<Option<Magic>> {
    let is_dir = disk.metadata(blocks_dir)?.is_some_and(|known| known.is_dir);
    let entries = if is_dir { disk.list(blocks_dir)? } else { Vec::new() };
    let first = entries.iter().filter_map(|entry| layout::block_file_number(&entry.name)).min();
    let Some(number) = first else { return Ok(None) };
    let path = layout::block_file(blocks_dir, number);
    // A link to a missing target is listed nevertheless.
    if disk.metadata(&path)?.is_none() {
        return Ok(None);
    }
    let mut raw = [0; 4];
    if disk.open(&path)?.read_at(0, &mut raw)? < raw.len() {
        return Ok(None);
    }
    let key = xor::read_key(disk, blocks_dir).ok().flatten().unwrap_or(xor::NO_KEY);
    Ok(Some(Magic { raw, plain: std::array::from_fn(|i| raw[i] ^ key[i]) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::SimDisk;

    const MAIN: Known = Known { chain: "main", directory: "", magic: [1; 4] };
    const TEST: Known = Known { chain: "test", directory: "testnet3", magic: [3; 4] };
    const REGTEST: Known = Known { chain: "regtest", directory: "regtest", magic: [2; 4] };
    const ALL: [Known; 3] = [MAIN, TEST, REGTEST];

    /// A disk on which these files lie, each with its content.
    fn disk(files: &[(&str, &[u8])]) -> std::sync::Arc<dyn Disk> {
        let disk = SimDisk::new(0).shared();
        disk.create_dir_all(Path::new("/d")).unwrap();
        for (path, content) in files {
            let path = Path::new(path);
            disk.create_dir_all(path.parent().unwrap()).unwrap();
            disk.create(path).unwrap().write_at(0, content).unwrap();
        }
        disk
    }

    #[test]
    fn directory_that_is_another_is_named() {
        let key: &[u8] = &[9; 8];
        type Row<'r> = (&'r str, &'r [(&'r str, &'r [u8])], (&'r str, Known), &'r str);
        let rows: [Row<'_>; 16] = [
            (
                "inside chainstate",
                &[("/d/chainstate/CURRENT", &[])],
                ("/d/chainstate", MAIN),
                "the directory chainstate of a data directory; Give --datadir /d",
            ),
            (
                "inside the index of regtest",
                &[("/d/regtest/blocks/index/CURRENT", &[])],
                ("/d/regtest/blocks/index", REGTEST),
                "the directory blocks/index of a data directory; Give --datadir /d",
            ),
            ("an empty one", &[], ("/d", MAIN), ""),
            ("a data directory", &[("/d/blocks/blk00000.dat", &[1; 9])], ("/d", MAIN), ""),
            ("one of regtest", &[("/d/regtest/blocks/blk00000.dat", &[2; 9])], ("/d", REGTEST), ""),
            ("files alone", &[("/d/blk00000.dat", &[1; 9]), ("/d/blk00001.dat", &[])], ("/d", MAIN), "2 block files"),
            (
                "inside blocks",
                &[("/d/blocks/blk00000.dat", &[1; 9]), ("/d/chainstate/CURRENT", &[])],
                ("/d/blocks", MAIN),
                "the directory blocks of a data directory; Give --datadir /d",
            ),
            (
                "inside blocks of regtest",
                &[("/d/regtest/blocks/blk00000.dat", &[2; 9]), ("/d/regtest/blocks/index/CURRENT", &[])],
                ("/d/regtest/blocks", REGTEST),
                "the directory blocks of a data directory; Give --datadir /d",
            ),
            (
                "inside blocks of a moved one",
                &[("/big/blocks/blk00000.dat", &[1; 9])],
                ("/big/blocks", MAIN),
                "--blocksdir /big",
            ),
            (
                "the network's directory",
                &[("/d/regtest/blocks/blk00000.dat", &[2; 9])],
                ("/d/regtest", REGTEST),
                "Give --datadir /d --chain regtest",
            ),
            (
                "the network's directory, as mainnet's",
                &[("/d/testnet3/blocks/blk00000.dat", &[3; 9])],
                ("/d/testnet3", MAIN),
                "Give --datadir /d --chain test",
            ),
            (
                "a data directory with the name of a network",
                &[("/regtest/blocks/blk00000.dat", &[1; 9])],
                ("/regtest", MAIN),
                "",
            ),
            (
                "another network's files in this one's place",
                &[("/d/blocks/blk00000.dat", &[3; 9])],
                ("/d", MAIN),
                "block files of test in /d/blocks",
            ),
            (
                "the same, obfuscated",
                &[("/d/blocks/blk00000.dat", &[3 ^ 9; 9]), ("/d/blocks/xor.dat", key)],
                ("/d", MAIN),
                "block files of test",
            ),
            (
                "another network's data",
                &[("/d/regtest/chainstate/CURRENT", &[]), ("/d/testnet3/blocks/blk00000.dat", &[3; 9])],
                ("/d", MAIN),
                "data of test in /d/testnet3, regtest in /d/regtest; Give --chain test or --chain regtest",
            ),
            ("main's data", &[("/d/blocks/blk00000.dat", &[1; 9])], ("/d", REGTEST), "data of main in /d"),
        ];
        for (row, files, (dir, wanted), want) in rows {
            let layout = Layout::new(Path::new(dir), wanted.directory, None);
            let got = seems(&*disk(files), &layout, &wanted, &ALL).unwrap();
            let text = got.as_ref().map_or(String::new(), |got| format!("{got}; {}", got.advice()));
            assert!(text.contains(want) && text.is_empty() == want.is_empty(), "{row}: {text}");
            let is_refused = got.is_some_and(|got| got.refusal(Path::new(dir)).is_some());
            assert_eq!(is_refused, want.contains("--datadir /d") || want.contains("--blocksdir"), "{row}");
        }
    }
}
