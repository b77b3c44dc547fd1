//! The forecast of disk space: space for a network's chain by Core's figures, space used already, free space.
//!
//! Core warns at the first start if its figure exceeds the free space (init.cpp, `AppInitMain`; kernel/chainparams.cpp,
//! `m_assumed_blockchain_size`, `m_assumed_chain_state_size`). Here the check is made at every start, and existing data
//! counts as used already.

use crate::datadir::lock;
use crate::fault::Message;
use crate::options::{Options, Prune};
use primitives::human;
use std::fmt;
use std::path::{Path, PathBuf};

/// Core's unit of its figures, which it calls GB.
const GIB: u64 = 1 << 30;
/// Space that Core keeps free. Source: util/fs_helpers.cpp, `CheckDiskSpace`.
const SPARE_BYTES: u64 = 50 << 20;

/// Space for one part of the chain, and its directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Share {
    /// The directory; if it does not exist yet, its nearest existing parent.
    pub dir: PathBuf,
    /// Approximate bytes when complete.
    pub expected_bytes: u64,
    /// Bytes used already.
    pub there_bytes: u64,
    /// Free bytes on that file system.
    pub free_bytes: u64,
}

impl Share {
    /// Bytes still to be written.
    pub fn missing_bytes(&self) -> u64 {
        self.expected_bytes.saturating_sub(self.there_bytes)
    }
}

/// Space for the chain of a network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forecast {
    /// The network.
    pub chain: &'static str,
    /// Block and undo files, and the block index.
    pub blocks: Share,
    /// The UTXO set.
    pub coins: Share,
    /// Whether block files are pruned.
    pub is_pruned: bool,
}

impl Forecast {
    /// The forecast of a data directory; `None` for a network without figures (regtest, a custom signet), and if the
    /// system does not report the space used.
    pub fn of(options: &Options) -> Option<Forecast> {
        let disk = &*options.disk;
        let layout = lock::layout(options);
        let params = &options.params;
        let blocks_gb = params.assumed_blockchain_gb;
        let coins_gb = params.assumed_chain_state_gb;
        if blocks_gb == 0 {
            return None;
        }
        let all = blocks_gb * GIB;
        let expected_bytes = match options.prune {
            Prune::Target { bytes } => all.min(bytes),
            Prune::Off | Prune::Manual => all,
        };
        let used = layout.used_space(disk).ok()?;
        let share = |dir: &Path, expected_bytes, there_bytes| {
            let is_there = |dir: &&Path| matches!(disk.metadata(dir), Ok(Some(_)));
            let dir = dir.ancestors().find(is_there)?;
            let free_bytes = disk.free_space_bytes(dir).ok()?;
            Some(Share { dir: dir.to_path_buf(), expected_bytes, there_bytes, free_bytes })
        };
        Some(Forecast {
            chain: params.chain.name(),
            blocks: share(layout.blocks_dir(), expected_bytes, used.blocks)?,
            coins: share(&layout.chainstate_dir(), coins_gb * GIB, used.coins)?,
            is_pruned: matches!(options.prune, Prune::Target { .. }),
        })
    }

    /// The forecast for a directory whose block files were pruned to an unknown size: no growth is expected.
    #[must_use]
    pub fn of_pruned(mut self) -> Forecast {
        self.blocks.expected_bytes = self.blocks.there_bytes;
        self.is_pruned = true;
        self
    }

    /// Bytes still to be written, in total.
    pub fn missing_bytes(&self) -> u64 {
        self.blocks.missing_bytes() + self.coins.missing_bytes()
    }

    /// Whether both parts are on one file system: this is assumed if their free space is equal.
    fn is_one_place(&self) -> bool {
        self.blocks.free_bytes == self.coins.free_bytes
    }

    /// The warning if there is not enough space, in Core's words.
    pub fn warning(&self) -> Option<Message> {
        let fits = |missing: u64, free: u64| missing == 0 || free >= missing.saturating_add(SPARE_BYTES);
        let has_room = match self.is_one_place() {
            true => fits(self.missing_bytes(), self.blocks.free_bytes),
            false => fits(self.blocks.missing_bytes(), self.blocks.free_bytes),
        };
        if !has_room {
            let what = format!(
                "Disk space for {:?} may not accommodate the block files. Approximately {} GB of data will be stored in this directory",
                self.blocks.dir.display().to_string(),
                self.blocks.expected_bytes.div_ceil(GIB)
            );
            return Some(Message::new(what, SPACE_ADVICE));
        }
        if !self.is_one_place() && !fits(self.coins.missing_bytes(), self.coins.free_bytes) {
            let dir = self.coins.dir.display();
            let missing = human::bytes(self.coins.missing_bytes());
            let what =
                format!("Disk space for {dir} may not accommodate the UTXO set: about {missing} more are stored there");
            return Some(Message::new(what, SPACE_ADVICE));
        }
        None
    }
}

/// Advice of the warning.
const SPACE_ADVICE: &str = "Free disk space, prune (--prune MiB), or put the blocks elsewhere (--blocksdir). A full disk pauses the work, \
                      and nothing is lost";

impl fmt::Display for Forecast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Forecast { chain, blocks, coins, .. } = self;
        let bytes = human::bytes;
        let pruned = if self.is_pruned { ", pruned," } else { "" };
        write!(
            f,
            "the chain of {chain}{pruned} takes about {} of blocks and {} of coins (Bitcoin Core's figures), ",
            bytes(blocks.expected_bytes),
            bytes(coins.expected_bytes)
        )?;
        match blocks.there_bytes + coins.there_bytes {
            0 => write!(f, "none of it is here")?,
            there => write!(f, "{} are here", bytes(there))?,
        }
        match self.missing_bytes() {
            0 => write!(f, ", which is all of it")?,
            missing => write!(f, ": about {} more", bytes(missing))?,
        }
        write!(f, "; {} are free", bytes(blocks.free_bytes))?;
        if !self.is_one_place() {
            write!(f, " for blocks, {} for coins", bytes(coins.free_bytes))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIN: u64 = 856;

    fn forecast(blocks: (u64, u64), coins: (u64, u64)) -> Forecast {
        let share = |dir: &str, expected: u64, (there, free): (u64, u64)| Share {
            dir: dir.into(),
            expected_bytes: expected * GIB,
            there_bytes: there * GIB,
            free_bytes: free * GIB,
        };
        Forecast {
            chain: "main",
            blocks: share("/d/blocks", MAIN, blocks),
            coins: share("/d/chainstate", 14, coins),
            is_pruned: false,
        }
    }

    #[test]
    fn forecast_says_what_is_to_come_and_warns_where_it_does_not_fit() {
        for (row, blocks, coins, missing, warns) in [
            ("nothing there, room", (0, 900), (0, 900), 870, None),
            ("nothing there, no room", (0, 870), (0, 870), 870, Some("/d/blocks")),
            ("half there", (400, 480), (10, 480), 460, None),
            ("all there, a full disk", (860, 0), (14, 0), 0, None),
            ("two file systems", (0, 860), (0, 15), 870, None),
            ("two file systems, blocks do not fit", (0, 800), (0, 900), 870, Some("Approximately 856 GB")),
            ("two file systems, coins do not fit", (0, 900), (0, 5), 870, Some("may not accommodate the UTXO set")),
        ] {
            let forecast = forecast(blocks, coins);
            assert_eq!(forecast.missing_bytes(), missing * GIB, "{row}");
            let warning = forecast.warning().map(|message| message.to_string());
            assert_eq!(warning.is_some(), warns.is_some(), "{row}: {warning:?}");
            assert!(
                warns.is_none_or(|words| warning.as_ref().is_some_and(|text| text.contains(words))),
                "{row}: {warning:?}"
            );
        }
        // Core names the size of the whole chain here, pruned or not.
        let mut small = forecast((0, 1), (0, 1));
        (small.blocks.expected_bytes, small.is_pruned) = (39 * GIB, true);
        assert!(small.warning().unwrap().to_string().contains("Approximately 39 GB"));
        let text = forecast((0, 900), (0, 900)).to_string();
        assert!(
            text.contains("about 919 GB of blocks and 15.0 GB of coins") && text.contains("none of it is here"),
            "{text}"
        );
        let text = forecast((400, 900), (14, 30)).to_string();
        assert!(
            text.contains("445 GB are here: about 490 GB more; 966 GB are free for blocks, 32.2 GB for coins"),
            "{text}"
        );
        let pruned = forecast((2, 100), (4, 100)).of_pruned();
        assert_eq!((pruned.missing_bytes(), pruned.warning().is_some()), (10 * GIB, false));
        assert!(pruned.to_string().contains("of main, pruned, takes about 2.15 GB"), "{pruned}");
        assert!(forecast((900, 1), (14, 1)).to_string().contains("which is all of it"));
    }
}
