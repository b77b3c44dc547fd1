//! The directory itself: whether it exists, is of this network, mounted, readable; its key, leftovers, peers.dat, free
//! space and inodes; memory and the clock.

use super::{At, Files, Kind, Look, quoted, rebuild_dir};
use crate::datadir::{lock, mounts, seems};
use crate::fault::Fault;
use crate::pipeline::machine_memory::{BESIDE_BYTES, CACHE_BYTES_MIN, MachineMemory};
use p2p::addresses::Addresses;
use p2p::addresses::peers_file::{PEERS, PEERS_BYTES_MAX, PeersFileError};
use std::path::Path;
use std::sync::Arc;
use store::FaultKind;
use store::blockfiles::BlockFiles;
use store::private_files::PrivateDir;
use store::survey::Seems;
use store::undofiles::UndoFiles;
use store::xor::{self, BlocksKey, Origin};

/// Space that Core keeps free. Source: Bitcoin Core b88bffe, util/fs_helpers.cpp, `CheckDiskSpace`.
const SPARE_BYTES: u64 = 50 << 20;
/// Inodes that must be free, because a commit or a compaction of a large chainstate creates hundreds of tables.
const SPARE_INODES: u64 = 1000;
/// Memory that must be available: the smallest cache, and the rest of a process.
const SPARE_MEMORY_BYTES: u64 = CACHE_BYTES_MIN + BESIDE_BYTES;
/// Time of a command that needs the user but no computation.
const ADVICE_SECONDS: u64 = 1;

impl Look<'_> {
    /// Checks the directory; returns access to its block files, if there is anything to read.
    pub(super) fn place(&mut self) -> Option<Files> {
        self.clock();
        if let Err(fault) = self.layout.check(&*self.options.disk) {
            self.no_directory(&fault);
            return None;
        }
        match seems::seems(self.options, &self.layout) {
            Ok(None) => {}
            Ok(Some(seems)) => {
                self.other_directory(&seems);
                return None;
            }
            Err(fault) => {
                self.any_fault(Kind::DirectoryMissing, &fault);
                return None;
            }
        }
        match self.layout.is_unused(&*self.options.disk) {
            Ok(false) => {}
            Ok(true) => {
                self.nothing();
                return None;
            }
            Err(fault) => {
                self.fault(Kind::DirectoryMissing, &fault, At::ALL, ADVICE_SECONDS);
                return None;
            }
        }
        self.rights_and_room();
        self.memory(MachineMemory::default().left());
        self.key()
    }

    fn clock(&mut self) {
        if let Err(fault) = lock::clock(self.options) {
            let dir = self.options.datadir.clone();
            self.find(Kind::ClockWrong, &dir, At::ALL, fault.what(), ADVICE_SECONDS);
        }
    }

    fn no_directory(&mut self, fault: &store::Fault) {
        let path = fault.detail().path.clone();
        let kind = match self.options.disk.read_link(&path) {
            Ok(Some(_)) => Kind::DanglingLink,
            _ => Kind::DirectoryMissing,
        };
        self.fault(kind, fault, At::ALL, ADVICE_SECONDS);
    }

    fn any_fault(&mut self, kind: Kind, fault: &Fault) {
        match fault {
            Fault::Store(fault) => self.fault(kind, fault, At::ALL, ADVICE_SECONDS),
            other => {
                let dir = self.options.datadir.clone();
                self.find(kind, &dir, At::ALL, other.what(), ADVICE_SECONDS);
            }
        }
    }

    fn other_directory(&mut self, seems: &Seems) {
        let chain = self.options.params.chain.name();
        let at = |owner: &Path, chain: &str| format!("--datadir={} --chain={chain}", quoted(owner));
        let other = match seems {
            Seems::Blocks { owner, is_blocksdir: true } => {
                format!("--datadir=DIR --blocksdir={} --chain={chain}", quoted(owner))
            }
            Seems::Blocks { owner, .. } | Seems::Database { owner, .. } => at(owner, chain),
            Seems::Network { owner, chain } => at(owner, chain),
            Seems::Foreign { chain, .. } => at(&self.options.datadir, chain),
            Seems::OtherNetworks(others) => {
                at(&self.options.datadir, others.first().map_or(chain, |(chain, _)| *chain))
            }
            Seems::LooseFiles { blocks_dir, .. } => {
                let above = blocks_dir.parent().unwrap_or(blocks_dir);
                format!("--datadir={} after the files were moved to {}", quoted(above), quoted(blocks_dir))
            }
        };
        let dir = self.options.datadir.clone();
        self.find_other(Kind::OtherDirectory, &dir, At::ALL, seems.to_string(), ADVICE_SECONDS, &other);
    }

    fn nothing(&mut self) {
        let dir = self.options.datadir.clone();
        let disk = &*self.options.disk;
        let is_empty = disk.list(&dir).is_ok_and(|entries| entries.is_empty());
        if let Some(point) = mounts::unmounted(disk, &dir).filter(|_| is_empty) {
            let what = format!("/etc/fstab names {}, and nothing is mounted there", point.display());
            self.find_other(Kind::NotMounted, &dir, At::ALL, what, ADVICE_SECONDS, &quoted(&point));
            return;
        }
        let gb = self.options.params.assumed_blockchain_gb;
        let net_dir = self.layout.net_dir().to_path_buf();
        self.find(Kind::Empty, &net_dir, At::ALL, "neither blocks nor a chainstate", super::fetched(gb << 30));
    }

    fn rights_and_room(&mut self) {
        let disk = self.options.disk.clone();
        let dirs = [
            self.layout.net_dir().to_path_buf(),
            self.layout.blocks_dir().to_path_buf(),
            self.layout.index_dir(),
            self.layout.chainstate_dir(),
        ];
        let there = |dir: &Path| matches!(disk.metadata(dir), Ok(Some(_)));
        if let Some(dir) = dirs.iter().find(|dir| there(dir) && !disk.rights(dir).may_write) {
            self.find(Kind::NotWritable, dir, At::ALL, "no permission to write for this user", ADVICE_SECONDS);
        }
        for dir in dirs.iter().take(2).filter(|dir| there(dir)) {
            if let Ok(free) = disk.free_space_bytes(dir)
                && free < SPARE_BYTES
            {
                let what = format!("{free} bytes are free, {SPARE_BYTES} are needed");
                self.find(Kind::NoSpace, dir, At::ALL, what, ADVICE_SECONDS);
                return;
            }
            if let Ok(Some(free)) = disk.free_inodes(dir)
                && free < SPARE_INODES
            {
                let what = format!("{free} inodes are free, {SPARE_INODES} are needed");
                let place = quoted(dir.ancestors().nth(1).unwrap_or(dir));
                self.find_other(Kind::NoInodes, dir, At::ALL, what, ADVICE_SECONDS, &place);
                return;
            }
        }
    }

    /// Reports that less memory is available than any job needs. If a program uses the directory, it has its memory
    /// already.
    fn memory(&mut self, left: Option<u64>) {
        let Some(left) = left.filter(|left| *left < SPARE_MEMORY_BYTES && !self.is_beside) else { return };
        let what = format!("{} MiB are available, {} MiB are needed", left >> 20, SPARE_MEMORY_BYTES >> 20);
        let dir = self.options.datadir.clone();
        self.find(Kind::LowMemory, &dir, At::ALL, what, ADVICE_SECONDS);
    }

    /// The key; `None` if no block can be read.
    fn key(&mut self) -> Option<Files> {
        let disk = self.options.disk.clone();
        let network = lock::network(&self.options.params);
        let dir = self.layout.blocks_dir().to_path_buf();
        let path = dir.join("xor.dat");
        let key = match xor::find_key(&*disk, &dir, &network) {
            Ok(BlocksKey { key, origin: Origin::WorkedOut(file) }) => {
                let key_text = primitives::hex::encode(&key);
                let what = format!("{} shows that the key is {key_text}", file.display());
                self.find(Kind::KeyLost, &path, At::ALL, what, ADVICE_SECONDS);
                key
            }
            Ok(BlocksKey { key, .. }) => key,
            Err(fault) => {
                let kind = if fault.kind() == FaultKind::Refused { Kind::OtherDirectory } else { Kind::KeyUnusable };
                self.fault(kind, &fault, At::ALL, ADVICE_SECONDS);
                return None;
            }
        };
        let host = self.options.host();
        let blocks = Arc::new(BlockFiles::new(&host, &dir, &network, key));
        let undo = UndoFiles::new(host, &dir, &network, key);
        Some(Files { blocks, undo, key })
    }

    /// Reads the addresses of peers. A file of a later version is no damage: the next start puts it aside.
    pub(super) fn peers(&mut self) {
        let path = self.layout.net_dir().join(PEERS);
        let dir = PrivateDir::new(self.options.disk.clone(), self.layout.net_dir().to_owned());
        match dir.read(PEERS, PEERS_BYTES_MAX) {
            Ok(Some(bytes)) => {
                let empty = Addresses::deterministic(Arc::default());
                if let Err(PeersFileError::Damaged(why)) = empty.read(&bytes, self.options.params.magic) {
                    self.find(Kind::PeersDamaged, &path, At::ALL, why, ADVICE_SECONDS);
                }
            }
            Ok(None) => {}
            Err(fault) => self.fault(Kind::PeersDamaged, &fault, At::ALL, ADVICE_SECONDS),
        }
    }

    /// Reports leftovers of an interrupted rebuild, snapshot or hinted sync that no later run continues.
    pub(super) fn leftovers(&mut self) {
        if self.is_beside {
            return;
        }
        let disk = self.options.disk.clone();
        let index_dir = self.layout.index_dir();
        let dirs = [
            self.layout.private_dir().join("chainstate.old"),
            rebuild_dir(&self.layout),
            index_dir.with_file_name("ffwd-index.new"),
            index_dir.with_file_name("ffwd-index.old"),
        ];
        for dir in dirs {
            if matches!(disk.metadata(&dir), Ok(Some(_))) {
                self.find(Kind::Leftover, &dir, At::ALL, "left by work that was interrupted", ADVICE_SECONDS);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Depth, Examination};
    use super::*;
    use crate::options::Options;
    use crate::reporting::Reporter;
    use crate::reporting::log::Log;
    use disk::SimDisk;

    #[test]
    fn little_memory_is_a_finding_unless_a_program_has_it() {
        let params = consensus::Params::new(consensus::Chain::Regtest);
        let options = Options::new("/d".into(), params, std::time::SystemTime::now);
        let options = Options { disk: SimDisk::new(0).shared(), ..options };
        let events = |_: crate::reporting::Event| ();
        let reporter = Reporter::new(&events, Log::none(), &options.stop);
        for (left, is_beside, want) in [
            (None, false, 0),
            (Some(SPARE_MEMORY_BYTES), false, 0),
            (Some(SPARE_MEMORY_BYTES - 1), false, 1),
            (Some(0), false, 1),
            (Some(0), true, 0),
        ] {
            let layout = lock::layout(&options);
            let found = Examination::default();
            let mut look = Look {
                options: &options,
                layout,
                reporter: &reporter,
                depth: Depth::Quick,
                is_beside,
                found,
                connected: Vec::new(),
            };
            look.memory(left);
            assert_eq!(look.found.findings.len(), want, "{left:?} {is_beside}");
            for finding in look.found.findings {
                assert!(finding.detail.contains("154 MiB") && finding.command.ends_with("--dbcache 4"), "{finding:?}");
            }
        }
    }
}
