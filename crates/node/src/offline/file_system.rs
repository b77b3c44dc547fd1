//! Warns about features that the file systems of a data directory lack, if that affects the user. There is one warning,
//! before the work.
//!
//! Absent on purpose: features whose absence costs nothing. Without an atomic exchange of two names files are moved one
//! by one (`leveldb::install`); without reservations (fallocate) a full disk is detected a moment later; without
//! unnamed temporary files the coins that a block spends stay in memory. Without locks or maps nothing works, as in
//! bitcoind: that is an error at the first use.

use crate::datadir::lock;
use crate::fault::Message;
use crate::options::Options;
use std::path::Path;

/// A warning that names a directory whose entries cannot be made durable, if there is one.
pub fn file_system_warning(options: &Options) -> Option<Message> {
    let disk = &*options.disk;
    let layout = lock::layout(options);
    let dirs = [
        layout.net_dir().to_path_buf(),
        layout.blocks_dir().to_path_buf(),
        layout.index_dir(),
        layout.chainstate_dir(),
    ];
    let is_there = |dir: &&Path| matches!(disk.metadata(dir), Ok(Some(_)));
    let mut there = dirs.iter().filter_map(|dir| dir.ancestors().find(is_there));
    let dir = there.find(|dir| matches!(disk.can_sync_dir(dir), Ok(false)))?;
    let what = format!(
        "The file system of {} takes no fsync of a directory: it decides by itself when the names of new files are durable",
        dir.display()
    );
    Some(Message::new(what, "After a power failure run ffwd verify; where that finds damage, ffwd reindex"))
}
