//! `import FILE...`: blocks from bootstrap.dat or loose block files, appended to this folder's own and connected.

use super::open::{Purpose, finish_reindex, open_existing};
use super::{activate, engine, report};
use crate::datadir::open::{self, Ordered};
use crate::engine::Activated;
use crate::fault::Fault;
use crate::options::{Events, Options, Prune, Report};
use std::path::PathBuf;
use store::FilePos;
use store::blockfiles::{BlockAt, BlockFiles};

/// Takes in the blocks of `files`, which have no obfuscation, and brings the chain up to date.
pub fn import(options: &Options, files: &[PathBuf], events: Events<'_>) -> Result<Report, Fault> {
    let now = open::clock(options)?;
    finish_reindex(options, events)?;
    let existing = open_existing(options, events, "import", Purpose::Work)?;
    let folder = &existing.folder;
    let height_start = folder.headers().height(existing.tip);
    let mut engine = engine(folder, existing.tip);
    let foreign = BlockFiles::foreign(folder.disk.clone(), files.to_vec(), &open::network(&options.params));
    let numbers: Vec<u32> = (0..files.len() as u32).collect();
    let scan = open::scan_files(&foreign, &numbers, options.par, &folder.teller)?;
    let place = |at: &BlockAt| format!("{} byte {}", foreign.path(at.file).display(), at.offset);
    let Ordered { order, orphans } = folder.order(scan.blocks, now, &place);
    folder.say_orphans(&orphans, &place);
    // Where files are to go soon, not much is stored before it is connected.
    let prunes = matches!(options.prune, Prune::Target { .. });
    let (mut taken, mut waiting_bytes, mut stopped) = (0u64, 0, false);
    for (id, at) in order {
        if folder.is_stopping() {
            stopped = true;
            break;
        }
        let is_known = {
            let index = folder.index.read();
            index.place(id).is_some() || index.is_active(id)
        };
        if is_known {
            continue;
        }
        let Some(place) = at.file_pos() else { continue };
        let mut bytes = foreign.read_block(FilePos { ..place })?;
        bytes.truncate(at.size as usize);
        match folder.store_block(id, &bytes, |_| {})? {
            Ok(_) => {
                (taken, waiting_bytes) = (taken + 1, waiting_bytes + bytes.len());
            }
            Err(why) => {
                let (height, hash) = folder.height_and_hash(id);
                folder.teller.refused(height, hash, &why, false);
            }
        }
        if prunes && waiting_bytes > options.sizes.limits.file_bytes_max as usize {
            waiting_bytes = 0;
            activate(folder, &mut engine)?;
        }
    }
    folder.teller.note(format!("{taken} blocks were new"));
    stopped |= activate(folder, &mut engine)? == Activated::Stopped;
    super::finish(folder, &mut engine)?;
    Ok(report(folder, &engine, height_start, stopped))
}
