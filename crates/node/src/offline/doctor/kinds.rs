//! Kinds of findings about a data directory: each with its name, a description, the consequence for the user, and the
//! one command that helps.
//!
//! Absent on purpose: location and extent of a fault; see [`super::Finding`].

/// Kind of a fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// The directory has nothing of this network.
    Empty,
    /// Not a data directory of this network.
    OtherDirectory,
    /// A drive that /etc/fstab names is not mounted.
    NotMounted,
    /// A required directory is missing.
    DirectoryMissing,
    /// The target of a link is missing.
    DanglingLink,
    /// The system denies this program reading.
    NotReadable,
    /// The system denies this program writing.
    NotWritable,
    /// The drive fails.
    DriveFails,
    /// The disk is full.
    NoSpace,
    /// The file system takes no more files.
    NoInodes,
    /// Hardly any memory is available.
    LowMemory,
    /// The clock is wrong.
    ClockWrong,
    /// xor.dat is missing, and the block files reveal the key.
    KeyLost,
    /// xor.dat is invalid, or is missing and nothing reveals the key.
    KeyUnusable,
    /// A block file that the index names is missing.
    BlockFileMissing,
    /// It ends before blocks that the index places in it.
    BlockFileCut,
    /// It is empty.
    BlockFileEmpty,
    /// It is not obfuscated, although there is a key.
    BlockFilePlain,
    /// It contains blocks of another network.
    BlockFileForeign,
    /// It contains the blocks of another block file.
    BlockFileSwapped,
    /// It contains none of the blocks that the index places in it.
    BlockFileReplaced,
    /// One block is damaged.
    BlockDamaged,
    /// The index has a block of the chain, but no position for it.
    BlockAbsent,
    /// Records that the index does not name.
    NotIndexed,
    /// An undo file is missing.
    UndoFileMissing,
    /// It ends before undo data that the index places in it.
    UndoFileCut,
    /// The undo data of one block is damaged.
    UndoDamaged,
    /// There is no block index.
    IndexMissing,
    /// It is damaged.
    IndexDamaged,
    /// It has blocks of another chain, or another format.
    IndexOfOtherForm,
    /// It belongs to another network.
    IndexOfOtherNetwork,
    /// A reindex was not finished.
    ReindexUnfinished,
    /// There is no chainstate.
    CoinsMissing,
    /// It is damaged.
    CoinsDamaged,
    /// bitcoind was stopped while it wrote the coins.
    CoinsHalfWritten,
    /// Its best block is not in the index, or not connected there.
    CoinsApart,
    /// An optional index is damaged.
    OptionalIndexDamaged,
    /// A file of block filters is missing or damaged.
    FilterFileDamaged,
    /// Files left by interrupted work.
    Leftover,
    /// A mark for an invalid block excludes a better chain.
    ShutOut,
    /// A block that was connected is marked invalid.
    MarkedLater,
    /// peers.dat is damaged.
    PeersDamaged,
    /// It is pruned, but the configuration does not have `prune`.
    PrunedUnsaid,
}

/// Name and texts of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Texts {
    /// Its name in JSON.
    pub name: &'static str,
    /// What happened.
    pub what: &'static str,
    /// The consequence for the user.
    pub meaning: &'static str,
    /// The command that helps: `{at}` is replaced by the options that name the data directory, `{path}` by the file,
    /// `{other}` by another argument from the finding.
    pub command: &'static str,
}

const fn texts(name: &'static str, what: &'static str, meaning: &'static str, command: &'static str) -> Texts {
    Texts { name, what, meaning, command }
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 43] = [
        Kind::Empty,
        Kind::OtherDirectory,
        Kind::NotMounted,
        Kind::DirectoryMissing,
        Kind::DanglingLink,
        Kind::NotReadable,
        Kind::NotWritable,
        Kind::DriveFails,
        Kind::NoSpace,
        Kind::NoInodes,
        Kind::LowMemory,
        Kind::ClockWrong,
        Kind::KeyLost,
        Kind::KeyUnusable,
        Kind::BlockFileMissing,
        Kind::BlockFileCut,
        Kind::BlockFileEmpty,
        Kind::BlockFilePlain,
        Kind::BlockFileForeign,
        Kind::BlockFileSwapped,
        Kind::BlockFileReplaced,
        Kind::BlockDamaged,
        Kind::BlockAbsent,
        Kind::NotIndexed,
        Kind::UndoFileMissing,
        Kind::UndoFileCut,
        Kind::UndoDamaged,
        Kind::IndexMissing,
        Kind::IndexDamaged,
        Kind::IndexOfOtherForm,
        Kind::IndexOfOtherNetwork,
        Kind::ReindexUnfinished,
        Kind::CoinsMissing,
        Kind::CoinsDamaged,
        Kind::CoinsHalfWritten,
        Kind::CoinsApart,
        Kind::OptionalIndexDamaged,
        Kind::FilterFileDamaged,
        Kind::Leftover,
        Kind::ShutOut,
        Kind::MarkedLater,
        Kind::PeersDamaged,
        Kind::PrunedUnsaid,
    ];

    /// Its name and texts.
    pub fn texts(self) -> Texts {
        let of_files = || self.block_files().or_else(|| self.records());
        self.place()
            .or_else(|| self.machine())
            .or_else(of_files)
            .or_else(|| self.index())
            .unwrap_or_else(|| self.coins())
    }

    /// Kinds about the directory itself.
    fn place(self) -> Option<Texts> {
        Some(match self {
            Kind::Empty => {
                texts("empty", "nothing of this network is there", "There is no chain yet", "ffwd sync {at}")
            }
            Kind::OtherDirectory => texts(
                "other-directory",
                "it is not a data directory of this network",
                "bitcoind would begin a new chain inside it",
                "ffwd doctor {other}",
            ),
            Kind::NotMounted => texts(
                "not-mounted",
                "the drive of the data directory is not mounted",
                "The chain is on that drive, and no defect of it is known",
                "mount {other}",
            ),
            Kind::DirectoryMissing => texts(
                "directory-missing",
                "a directory is not there",
                "The path is wrong, or the drive is not mounted",
                "mount -a",
            ),
            Kind::DanglingLink => texts(
                "dangling-link",
                "a link leads to nothing",
                "The drive that it leads to is not mounted, or the target was moved",
                "ln -sfn NEW-PLACE {path}",
            ),
            Kind::NotReadable => texts(
                "not-readable",
                "this user has no permission to read it",
                "Neither ffwd nor bitcoind starts for this user",
                "chmod -R u+rwX {path}",
            ),
            Kind::NotWritable => texts(
                "not-writable",
                "this user has no permission to write there",
                "It can be read; ffwd and bitcoind need write permission for this user to continue",
                "chmod -R u+rwX {path}",
            ),
            Kind::DriveFails => texts(
                "drive-fails",
                "the system cannot read it",
                "The drive or its cable fails: copy what can be read before anything else",
                "cp -a {path} NEW-PLACE",
            ),
            _ => return None,
        })
    }

    /// Kinds about the machine.
    fn machine(self) -> Option<Texts> {
        Some(match self {
            Kind::NoSpace => texts(
                "no-space",
                "the file system is full",
                "Neither ffwd nor bitcoind can write until there is room",
                "ffwd sync {at} --prune 550",
            ),
            Kind::NoInodes => texts(
                "no-inodes",
                "the file system has hardly any free inodes",
                "No new files can be made there although bytes are free: other directories hold too many small files",
                "du --inodes -x -d 3 {other}",
            ),
            Kind::LowMemory => texts(
                "low-memory",
                "hardly any memory is available",
                "The system may end ffwd or bitcoind in the middle of their work. End other programs, or use the smallest cache",
                "ffwd sync {at} --dbcache 4",
            ),
            Kind::ClockWrong => texts(
                "clock-wrong",
                "the clock cannot be right",
                "Blocks are judged by the clock: good ones would be refused",
                "timedatectl set-ntp true && ffwd doctor {at}",
            ),
            _ => return None,
        })
    }

    /// Kinds about whole block files, and about their key.
    fn block_files(self) -> Option<Texts> {
        Some(match self {
            Kind::KeyLost => texts(
                "key-lost",
                "xor.dat is missing, and the block files are obfuscated",
                "bitcoind cannot read any block. The key can be computed from the files",
                "ffwd repair {at}",
            ),
            Kind::KeyUnusable => texts(
                "key-unusable",
                "the key of the block files is not known",
                "No block can be read. Put the xor.dat back from where the block files came from, where there is a copy",
                "cp COPY/blocks/xor.dat {path}",
            ),
            Kind::BlockFileMissing => texts(
                "block-file-missing",
                "a block file is missing",
                "bitcoind does not start. Only the blocks of this file are fetched again",
                "ffwd repair {at}",
            ),
            Kind::BlockFileCut => texts(
                "block-file-cut",
                "a block file is cut short",
                "Blocks at its end cannot be read. Only they are fetched again",
                "ffwd repair {at}",
            ),
            Kind::BlockFileEmpty => texts(
                "block-file-empty",
                "a block file has only zeros",
                "Its blocks cannot be read. Only they are fetched again",
                "ffwd repair {at}",
            ),
            Kind::BlockFilePlain => texts(
                "block-file-plain",
                "a block file is plain, and xor.dat holds a key",
                "bitcoind cannot read its blocks. Nothing is fetched: the file is written again with the key",
                "ffwd repair {at}",
            ),
            Kind::BlockFileForeign => texts(
                "block-file-foreign",
                "a block file is of another network",
                "The blocks that belong there are fetched again; the file is moved aside",
                "ffwd repair {at}",
            ),
            Kind::BlockFileSwapped => texts(
                "block-file-swapped",
                "a block file holds the blocks of another one",
                "It was renamed or copied over. Blocks that are in a file are not fetched",
                "ffwd repair {at}",
            ),
            Kind::BlockFileReplaced => texts(
                "block-file-replaced",
                "a block file does not hold the blocks that it should",
                "Its blocks cannot be read. Only they are fetched again",
                "ffwd repair {at}",
            ),
            _ => return None,
        })
    }

    /// Kinds about single records, and about undo files.
    fn records(self) -> Option<Texts> {
        Some(match self {
            Kind::BlockDamaged => texts(
                "block-damaged",
                "a block is damaged",
                "It cannot be served, or read in a reindex. Only this block is fetched again",
                "ffwd repair {at}",
            ),
            Kind::BlockAbsent => texts(
                "block-absent",
                "a block of the chain is in no file",
                "It cannot be served, or read in a reindex. Only this block is fetched",
                "ffwd repair {at}",
            ),
            Kind::NotIndexed => texts(
                "not-indexed",
                "a block file holds records that the index does not name",
                "bitcoind may overwrite them, or leave them unused. ffwd uses those of the chain",
                "ffwd repair {at}",
            ),
            Kind::UndoFileMissing => texts(
                "undo-file-missing",
                "an undo file is missing",
                "Its blocks cannot be disconnected. The undo data is made again from the blocks",
                "ffwd repair {at}",
            ),
            Kind::UndoFileCut => texts(
                "undo-file-cut",
                "an undo file is cut short",
                "Blocks at its end cannot be disconnected. Their undo data is made again from the blocks",
                "ffwd repair {at}",
            ),
            Kind::UndoDamaged => texts(
                "undo-damaged",
                "the undo data of a block is damaged",
                "The block cannot be disconnected. Its undo data is made again from the blocks",
                "ffwd repair {at}",
            ),
            _ => return None,
        })
    }

    /// Kinds about the block index, and its contents.
    fn index(self) -> Option<Texts> {
        Some(match self {
            Kind::IndexMissing => texts(
                "index-missing",
                "there is no block index",
                "It is made again from the block files",
                "ffwd repair {at}",
            ),
            Kind::IndexDamaged => texts(
                "index-damaged",
                "the block index is damaged",
                "bitcoind does not start. It is made again from the block files",
                "ffwd repair {at}",
            ),
            Kind::IndexOfOtherForm => texts(
                "index-of-other-form",
                "the block index is of another chain or of a newer program",
                "Use the program that wrote it; or have the index made again from the block files",
                "ffwd repair {at}",
            ),
            Kind::IndexOfOtherNetwork => texts(
                "index-of-other-network",
                "the block index is of another network",
                "Name the network that it belongs to",
                "ffwd doctor {at} --chain NETWORK",
            ),
            Kind::ReindexUnfinished => texts(
                "reindex-unfinished",
                "a reindex was stopped half-way",
                "It goes on from there",
                "ffwd reindex {at}",
            ),
            Kind::ShutOut => texts(
                "shut-out",
                "a block is marked invalid, and the best known chain descends from it",
                "The node follows a chain with less work. The block is judged again; if it is valid, the mark is removed",
                "ffwd repair {at}",
            ),
            Kind::MarkedLater => texts(
                "marked-later",
                "a block is marked invalid that was connected before",
                "If the mark is wrong, no chain on this block is followed. The block is judged again, with what peers have on it",
                "ffwd repair {at}",
            ),
            Kind::PrunedUnsaid => texts(
                "pruned-unsaid",
                "the data directory is pruned, and the configuration has no prune=",
                "bitcoind does not start without it",
                "bitcoind -prune=1 {at}",
            ),
            _ => return None,
        })
    }

    /// Kinds about the chainstate, optional indexes, peers.dat, and files left by interrupted work.
    fn coins(self) -> Texts {
        match self {
            Kind::CoinsMissing => texts(
                "chainstate-missing",
                "there is no chainstate",
                "bitcoind would connect the whole chain again. The UTXO set is made again from the block files",
                "ffwd repair {at}",
            ),
            Kind::CoinsDamaged => texts(
                "chainstate-damaged",
                "the chainstate is damaged",
                "bitcoind does not start, or fails later. The UTXO set is made again from the block files",
                "ffwd repair {at}",
            ),
            Kind::CoinsHalfWritten => texts(
                "chainstate-half-written",
                "bitcoind was stopped while it wrote the chainstate",
                "The last blocks are replayed at the next start, of ffwd or of bitcoind",
                "ffwd repair {at}",
            ),
            Kind::CoinsApart => texts(
                "chainstate-apart",
                "block index and chainstate do not belong together",
                "One of the two was put back from a copy, or a repair was interrupted. bitcoind does not start, or fails later. \
                 The index is made again from the block files",
                "ffwd repair {at}",
            ),
            Kind::OptionalIndexDamaged => texts(
                "optional-index-damaged",
                "an optional index is damaged",
                "The chain is not affected. Only this index is built again",
                "ffwd repair {at}",
            ),
            Kind::FilterFileDamaged => texts(
                "filter-file-damaged",
                "a file of block filters is missing or damaged",
                "Its filters cannot be served or looked up. Only this file is made again, from the blocks",
                "ffwd repair {at}",
            ),
            Kind::Leftover => texts(
                "leftover",
                "interrupted work left a directory behind",
                "It takes room, and nothing needs it",
                "ffwd repair {at}",
            ),
            Kind::PeersDamaged => texts(
                "peers-damaged",
                "peers.dat is damaged",
                "Neither ffwd nor bitcoind starts. It is moved aside, and a new one begins with the addresses of the seeds",
                "ffwd repair {at}",
            ),
            _ => unreachable!("the lists before have it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_kind_has_its_texts_and_one_command() {
        let mut names = BTreeSet::new();
        let mut kinds = BTreeSet::new();
        for kind in Kind::ALL {
            let Texts { name, what, meaning, command } = kind.texts();
            assert!(kinds.insert(kind) && names.insert(name), "{kind:?} is listed once");
            assert!(!name.contains(' ') && !what.is_empty() && !meaning.is_empty(), "{kind:?}");
            assert!(what.starts_with(char::is_lowercase) && meaning.starts_with(char::is_alphabetic), "{kind:?}");
            let program = command.split(' ').next().unwrap();
            let programs = ["ffwd", "bitcoind", "mount", "chmod", "chown", "cp", "ln", "timedatectl", "du"];
            assert!(programs.contains(&program), "{kind:?}: {command}");
        }
        // The last one of the enum is the last one of the list: none is left out.
        assert_eq!(Kind::ALL.len(), Kind::PrunedUnsaid as usize + 1);
    }
}
