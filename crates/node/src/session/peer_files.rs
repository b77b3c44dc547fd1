//! Core's files about peers: peers.dat, anchors.dat, and the map of `-asmap`.
//!
//! peers.dat has Core's format, so ffwd and bitcoind can use each other's file. A damaged one is refused, as in Core,
//! and left unchanged; one of a later version is renamed to peers.dat.bak. anchors.dat is read and removed at the
//! start, and written at the end.
//!
//! Source: Bitcoin Core b88bffe, addrdb.cpp, `LoadAddrman`, `ReadAnchors`, `DumpAnchors`; init.cpp, `AppInitMain`.

use crate::datadir::DataDir;
use crate::fault::Fault;
use crate::session::options::PeerSettings;
use p2p::addresses::Addresses;
use p2p::addresses::anchors_file::{self, ANCHOR_COUNT_MAX, ANCHORS_BYTES_MAX};
use p2p::addresses::asmap::{AsMap, MAP_BYTES_MAX};
use p2p::addresses::groups::NetGroups;
use p2p::addresses::peers_file::{PEERS, PEERS_BYTES_MAX, PeersFileError};
use p2p::wire::AddressEntry;
use primitives::hex;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use store::private_files::PrivateDir;

const PEERS_OF_LATER_VERSION: &str = "peers.dat.bak";
const ANCHORS: &str = "anchors.dat";
/// The address file of earlier versions of ffwd.
const OLD_PEERS: &str = "addresses";

/// Stored peers that the network starts with.
pub(super) struct KnownPeers {
    pub(super) groups: Arc<NetGroups>,
    pub(super) addresses: Option<Addresses>,
    pub(super) anchors: Vec<AddressEntry>,
}

impl KnownPeers {
    /// The addresses of peers.dat in `net_dir`, for a repair, which does not write it; none if it cannot be read.
    pub(super) fn for_repair(net_dir: &PrivateDir, magic: [u8; 4]) -> KnownPeers {
        let groups = Arc::new(NetGroups::default());
        let bytes = net_dir.read(PEERS, PEERS_BYTES_MAX).ok().flatten();
        let empty = || Addresses::new(&mut p2p::rng::Rng::System, groups.clone());
        let addresses = bytes.and_then(|bytes| empty().read(&bytes, magic).ok());
        KnownPeers { groups, addresses, anchors: Vec::new() }
    }
}

/// Files that are written while the network runs.
pub(super) struct Kept {
    /// ffwd's own files.
    pub(super) own: PrivateDir,
    pub(super) peers: PeerFiles,
}

/// Core's peer files, in the network's directory.
pub(super) struct PeerFiles {
    dir: PrivateDir,
    magic: [u8; 4],
}

impl PeerFiles {
    pub(super) fn of(datadir: &DataDir<'_>) -> PeerFiles {
        let dir = PrivateDir::new(datadir.disk.clone(), datadir.layout.net_dir().to_owned());
        PeerFiles { dir, magic: datadir.params.magic }
    }

    /// Reads all files; anchors only if the sync connects to peers (`seeks`).
    ///
    /// # Errors
    ///
    /// A map or a peers.dat that is unusable, or an I/O error.
    pub(super) fn read(
        &self,
        datadir: &DataDir<'_>,
        settings: &PeerSettings,
        seeks: bool,
    ) -> Result<KnownPeers, Fault> {
        PrivateDir::new(datadir.disk.clone(), datadir.layout.private_dir()).remove(OLD_PEERS)?;
        let groups = Arc::new(read_map(datadir, settings.asmap.as_deref())?);
        let addresses = self.read_addresses(datadir, settings, &groups)?;
        if groups.has_map() {
            say_map(datadir, &groups, &addresses);
        }
        let anchors = if seeks { self.take_anchors(datadir)? } else { Vec::new() };
        Ok(KnownPeers { groups, addresses: Some(addresses), anchors })
    }

    fn read_addresses(
        &self,
        datadir: &DataDir<'_>,
        settings: &PeerSettings,
        groups: &Arc<NetGroups>,
    ) -> Result<Addresses, Fault> {
        let empty = || {
            let addresses = match settings.has_known_key {
                true => Addresses::deterministic(groups.clone()),
                false => Addresses::new(&mut p2p::rng::Rng::System, groups.clone()),
            };
            addresses.checked_every(settings.check_addresses)
        };
        let path = datadir.layout.net_dir().join(PEERS);
        let log = datadir.reporter.log();
        let Some(bytes) = self.dir.read(PEERS, PEERS_BYTES_MAX)? else {
            log.line(&format!("Creating peers.dat because the file was not found (\"{}\")", path.display()));
            let addresses = empty();
            self.keep_addresses(datadir, &addresses.to_bytes(self.magic))?;
            return Ok(addresses);
        };
        match empty().read(&bytes, self.magic) {
            Ok(addresses) => {
                log.line(&format!("Loaded {} addresses from peers.dat", addresses.count()));
                Ok(addresses)
            }
            Err(PeersFileError::Version(_)) => {
                let aside = datadir.layout.net_dir().join(PEERS_OF_LATER_VERSION);
                datadir.disk.rename(&path, &aside).map_err(store::Fault::from)?;
                datadir.reporter.note(format!(
                    "Creating new peers.dat because the file version was not compatible (\"{}\"). Original backed up to \
                     peers.dat.bak",
                    path.display()
                ));
                let addresses = empty();
                self.keep_addresses(datadir, &addresses.to_bytes(self.magic))?;
                Ok(addresses)
            }
            Err(PeersFileError::Damaged(why)) => Err(Fault::refused(
                format!(
                    "Invalid or corrupt peers.dat ({why}). If you believe this is a bug, please report it to the authors of ffwd."
                ),
                format!(
                    "As a workaround, you can move the file (\"{}\") out of the way (rename, move, or delete) to have a new one \
                     created on the next start.",
                    path.display()
                ),
            )),
        }
    }

    /// Reads the anchors of the last run and removes their file. A damaged file counts as empty.
    fn take_anchors(&self, datadir: &DataDir<'_>) -> Result<Vec<AddressEntry>, Fault> {
        let path = datadir.layout.net_dir().join(ANCHORS);
        let length = datadir.disk.metadata(&path).map_err(store::Fault::from)?.map_or(0, |found| found.len);
        let is_small = length <= ANCHORS_BYTES_MAX as u64;
        let bytes = if is_small { self.dir.read(ANCHORS, ANCHORS_BYTES_MAX)? } else { None };
        self.dir.remove(ANCHORS)?;
        let mut anchors = bytes.map_or_else(Vec::new, |bytes| anchors_file::from_bytes(&bytes, self.magic));
        anchors.truncate(ANCHOR_COUNT_MAX);
        let count = anchors.len();
        datadir.reporter.log().line(&format!("{count} block-relay-only anchors will be tried for connections."));
        Ok(anchors)
    }

    /// Writes peers.dat; does not wait for space on a full disk.
    pub(super) fn keep_addresses(&self, datadir: &DataDir<'_>, bytes: &[u8]) -> Result<(), Fault> {
        let otherwise = "The addresses of peers stay as they were kept before";
        datadir.reporter.if_room(otherwise, || self.dir.write(PEERS, bytes))
    }

    /// Stores the block-relay-only peers for the next run.
    pub(super) fn keep_anchors(&self, datadir: &DataDir<'_>, count: usize, bytes: &[u8]) -> Result<(), Fault> {
        datadir
            .reporter
            .log()
            .line(&format!("DumpAnchors: Flush {count} outbound block-relay-only peer addresses to anchors.dat"));
        datadir.reporter.if_room("The next run has no anchors", || self.dir.write(ANCHORS, bytes))
    }
}

/// Reads the map of `-asmap`, and logs its version.
fn read_map(datadir: &DataDir<'_>, file: Option<&Path>) -> Result<NetGroups, Fault> {
    let log = datadir.reporter.log();
    let Some(file) = file else {
        log.line("Using /16 prefix for IP bucketing");
        return Ok(NetGroups::default());
    };
    let path = datadir.layout.net_dir().join(file);
    let refused = |what: &str| {
        let advice = "Give the file of a map of autonomous systems, in Core's format, or leave -asmap out";
        Fault::refused(format!("Could not {what} asmap file \"{}\"", path.display()), advice)
    };
    let dir = PrivateDir::new(datadir.disk.clone(), path.parent().unwrap_or(Path::new("/")).to_owned());
    let name = path.file_name().and_then(std::ffi::OsStr::to_str).ok_or_else(|| refused("find"))?;
    let bytes = dir.read(name, MAP_BYTES_MAX)?.ok_or_else(|| refused("find"))?;
    log.line(&format!("Opened asmap file \"{}\" ({} bytes) from disk", path.display(), bytes.len()));
    let map = AsMap::new(bytes).ok_or_else(|| refused("parse"))?;
    let mut version = map.version();
    version.reverse();
    log.line(&format!("Using asmap version {} for IP bucketing", hex::encode(&version)));
    Ok(NetGroups::of(map))
}

/// Logs how many autonomous systems the map distinguishes. Source: Core's `ASMapHealthCheck`.
fn say_map(datadir: &DataDir<'_>, groups: &NetGroups, addresses: &Addresses) {
    let all = addresses.clear_net();
    let systems: Vec<u32> = all.iter().map(|address| groups.system_of(*address)).collect();
    let unmapped = systems.iter().filter(|system| **system == 0).count();
    let distinct = systems.iter().filter(|system| **system != 0).collect::<HashSet<_>>().len();
    let count = all.len();
    datadir.reporter.log().line(&format!(
        "ASMap Health Check: {count} clearnet peers are mapped to {distinct} ASNs with {unmapped} peers being unmapped"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::SimDisk;
    use p2p::wire::{NetAddress, PeerAddress};

    const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];
    const NOW: u64 = 1_700_000_000;

    #[test]
    fn a_repair_knows_the_addresses_of_peers_dat_and_does_without_it() {
        let dir = PrivateDir::new(Arc::new(SimDisk::new(1)), "/net".into());
        let count = |known: KnownPeers| known.addresses.map(|addresses| addresses.count());
        assert_eq!(count(KnownPeers::for_repair(&dir, MAGIC)), None, "no file");
        let mut addresses = Addresses::deterministic(Arc::default());
        for at in 1..=20 {
            let peer = PeerAddress { address: NetAddress::V4([40 + at, 1, 2, 3]), port: 8333 };
            addresses.add(&[AddressEntry { peer, services: 9, time: NOW as u32 }], peer.address, 0, NOW);
        }
        dir.write(PEERS, &addresses.to_bytes(MAGIC)).unwrap();
        assert_eq!(count(KnownPeers::for_repair(&dir, MAGIC)), Some(20));
        assert_eq!(count(KnownPeers::for_repair(&dir, [1, 2, 3, 4])), None, "of another network");
    }
}
