//! `import FILE...`: blocks from bootstrap.dat or loose block files, appended to this data directory's own and connected.

use super::open::{Purpose, Which, finish_reindex, open_existing};
use super::{activate, engine, report};
use crate::datadir::scan::{self, Ordered};
use crate::datadir::store_block::{NotStored, Source};
use crate::datadir::{DataDir, lock};
use crate::engine::Activated;
use crate::fault::{Fault, Message};
use crate::options::{Events, Options, Prune, Report};
use std::path::PathBuf;
use store::FilePos;
use store::blockfiles::{BlockAt, BlockFiles, FoundBlock};
use store::xor;

/// Says which blocks of the given files have no parent: none of them is stored. And which blocks of the data directory's own
/// files have one by now, from the given files.
fn say_left(datadir: &DataDir<'_>, orphans: &[FoundBlock], place: &dyn Fn(&BlockAt) -> String) {
    datadir.say_adopted();
    let Some(first) = orphans.first() else { return };
    datadir.reporter.shortfall.orphans(orphans.len());
    let (count, first) = (orphans.len(), place(&first.location));
    let why = format!(
        "{count} blocks have no parent, neither there nor in the data directory, the first at {first}: they are not stored"
    );
    let advice = "Import the blocks below them first, or fetch those with ffwd sync, then import this again";
    datadir.reporter.warn(Message::new(why, advice));
}

/// Takes in the blocks of `files`, which have no obfuscation, and brings the chain up to date.
///
/// # Errors
///
/// The data directory or a file cannot be used, or what the system says. A bad block is no error.
pub fn import(options: &Options, files: &[PathBuf], events: Events<'_>) -> Result<Report, Fault> {
    let now = lock::clock(options)?;
    finish_reindex(options, events)?;
    let existing = open_existing(options, events, "import", Purpose::Work, Which::Active)?;
    let datadir = &existing.datadir;
    let height_start = datadir.headers().height(existing.tip);
    datadir.open_indexes(datadir.kept_indexes(), existing.tip)?;
    let mut engine = engine(datadir, existing.tip);
    let network = lock::network(&options.params);
    let keyed = files.iter().map(|path| Ok((path.clone(), xor::key_of_foreign(&*datadir.disk, path, &network)?)));
    let foreign = BlockFiles::foreign(datadir.disk.clone(), keyed.collect::<Result<_, Fault>>()?, &network);
    let numbers: Vec<u32> = (0..files.len() as u32).collect();
    let scan = scan::scan_files(&foreign, &numbers, options.par, &datadir.reporter)?;
    let place_of = |at: &BlockAt| format!("{} byte {}", foreign.path(at.file).display(), at.offset);
    let Ordered { order, orphans } = datadir.order(scan.blocks, now, &place_of);
    say_left(datadir, &orphans, &place_of);
    // Where files are to go soon, not much is stored before it is connected.
    let prunes = matches!(options.prune, Prune::Target { .. });
    let (mut taken, mut waiting_bytes, mut stopped) = (0u64, 0, false);
    for (id, at) in order {
        if datadir.reporter.is_stopping() {
            stopped = true;
            break;
        }
        let is_known = {
            let index = datadir.index.read();
            index.place(id).is_some() || index.is_active(id)
        };
        if is_known {
            continue;
        }
        let Some(place) = at.file_pos() else { continue };
        let mut bytes = foreign.read_block(FilePos { ..place })?;
        bytes.truncate(at.size as usize);
        match datadir.store_block(id, &bytes, Source::File, |_| {})? {
            Ok(()) => (taken, waiting_bytes) = (taken + 1, waiting_bytes + bytes.len()),
            Err(why) => {
                let (height, hash) = datadir.height_and_hash(id);
                let is_invalid = matches!(why, NotStored::Invalid(_));
                if matches!(why, NotStored::Body(_) | NotStored::Unreadable(_)) {
                    datadir.reporter.shortfall.damaged(foreign.path(at.file), at.offset, Some(id));
                }
                datadir.reporter.refused(height, hash, &format!("{why} ({})", place_of(&at)), is_invalid);
            }
        }
        if prunes && waiting_bytes > options.sizes.limits.file_bytes_max as usize {
            waiting_bytes = 0;
            activate(datadir, &mut engine)?;
        }
    }
    datadir.reporter.note(format!("{taken} blocks were new"));
    stopped |= activate(datadir, &mut engine)? == Activated::Stopped;
    super::finish(datadir, &mut engine)?;
    Ok(report(datadir, &engine, height_start, stopped))
}
