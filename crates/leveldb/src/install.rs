//! Replaces a database by another whole, closed one, file by file: for directories that cannot be swapped or moved,
//! such as mount points, links, and directories of a lower overlayfs layer.
//!
//! ```text
//! from/ffwd-install   one record of LevelDB's log:
//!                     first number u64 LE | manifest's number u64 LE | CURRENT before, slice | edit
//! ```
//!
//! 1. The plan is written into `from` and made durable. It gives each table of `from` a number that no file of `to`
//!    has.
//! 2. The tables are moved into `to`, or copied if that is another file system.
//! 3. A manifest that lists them is written into `to`, and CURRENT names it in one atomic step. Then the other files of
//!    `to` are removed.
//!
//! Until CURRENT is replaced `to` is the old database, for LevelDB too, which removes tables that its manifest does not
//! list. After that it is the new one. Logs of the old database have numbers below the new manifest's, so they are not
//! replayed. After a crash, calling [`install`] again continues by the plan. If another program has opened `to`
//! meanwhile, CURRENT differs from the plan: then `to` stays as that program left it, and `from` is unusable.
//!
//! Absent on purpose: taking LOCK of `to`, which the caller holds, and removing `from`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::coding::{Reader, put_slice};
use crate::db::Db;
use crate::edit::{COMPARATOR, Edit, FileMeta};
use crate::error::{Damage, Error, Result};
use crate::log::{LogReader, put_record};
use crate::names::{CURRENT, Name};
use crate::options::Options;
use disk::{Disk, DiskError};

/// The plan's name; LevelDB ignores the file.
const PLAN: &str = "ffwd-install";
const PLAN_NEW: &str = "ffwd-install.new";
/// The largest plan: 100,000 tables, a hundred times what a UTXO set needs.
const PLAN_BYTES_MAX: u64 = 16 << 20;
/// CURRENT holds one short name.
const CURRENT_BYTES_MAX: u64 = 1024;
/// Bytes copied at a time.
const PIECE_BYTES: usize = 1 << 20;

/// The outcome of an installation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Installed {
    /// `to` is the database that was in `from`.
    Done,
    /// Another program opened `to` while the work was interrupted: `to` is as that program left it, `from` is
    /// incomplete.
    Overtaken,
}

/// The plan of an installation.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Plan {
    /// Added to the number of each table.
    first: u64,
    manifest: u64,
    /// The content of `to`'s CURRENT before.
    before: Vec<u8>,
    /// The one record of the new manifest, with the new numbers.
    edit: Edit,
}

/// Whether an installation from this directory has begun; see [`install`].
///
/// # Errors
/// An I/O error.
pub fn is_installing(disk: &dyn Disk, from: &Path) -> Result<bool> {
    Ok(disk.metadata(&from.join(PLAN))?.is_some())
}

/// Makes the database in `from` the database of `to`, and resumes an interrupted call. Both are closed; `to` may be
/// missing, empty or damaged. Afterwards the files left in `from` no longer form a database: remove them.
///
/// # Errors
/// `from` is damaged, or an I/O error; the call can be repeated.
pub fn install(disk: &Arc<dyn Disk>, from: &Path, to: &Path) -> Result<Installed> {
    let plan = match read_plan(&**disk, from)? {
        Some(plan) => plan,
        None => planned(disk, from, to)?,
    };
    let now = read_small(&**disk, &to.join(CURRENT), CURRENT_BYTES_MAX)?.unwrap_or_default();
    if !plan.is_in_place(&**disk, to, &now)? {
        if now != plan.before || !move_tables(&**disk, from, to, &plan)? {
            return Ok(Installed::Overtaken);
        }
        disk.sync_dir(from)?;
        disk.sync_dir(to)?;
        write_file(&**disk, &plan.manifest_in(to), &plan.manifest_bytes())?;
        disk.sync_dir(to)?;
        let temporary = to.join(Name::Temporary(plan.manifest).to_string());
        write_file(&**disk, &temporary, &plan.current())?;
        disk.rename(&temporary, &to.join(CURRENT))?;
        disk.sync_dir(to)?;
    }
    remove_others(&**disk, to, &plan);
    Ok(Installed::Done)
}

/// Writes only the plan, durably: [`install`] continues from there.
///
/// # Errors
/// Those of [`install`].
pub fn begin_install(disk: &Arc<dyn Disk>, from: &Path, to: &Path) -> Result<()> {
    planned(disk, from, to).map(drop)
}

/// Removes the plan of an installation that has done nothing else yet.
///
/// # Errors
/// An I/O error.
pub fn forget_install(disk: &dyn Disk, from: &Path) -> Result<()> {
    remove_if_there(disk, &from.join(PLAN))?;
    Ok(disk.sync_dir(from)?)
}

fn planned(disk: &Arc<dyn Disk>, from: &Path, to: &Path) -> Result<Plan> {
    disk.create_dir_all(to)?;
    let plan = make_plan(disk, from, to)?;
    write_plan(&**disk, from, &plan)?;
    Ok(plan)
}

/// Whether a file can be renamed from one directory into the other, so that it need not be copied.
///
/// # Errors
/// An I/O error.
pub fn can_move_files(disk: &dyn Disk, from: &Path, to: &Path) -> Result<bool> {
    let probe = from.join(PLAN_NEW);
    let moved = to.join(PLAN_NEW);
    write_file(disk, &probe, b"")?;
    match disk.rename(&probe, &moved) {
        Ok(()) => {
            disk.remove_file(&moved)?;
            Ok(true)
        }
        Err(why) if why.is_immovable() => {
            disk.remove_file(&probe)?;
            Ok(false)
        }
        Err(why) => Err(why.into()),
    }
}

impl Plan {
    /// The final content of CURRENT.
    fn current(&self) -> Vec<u8> {
        format!("{}\n", Name::Manifest(self.manifest)).into_bytes()
    }

    fn manifest_in(&self, to: &Path) -> PathBuf {
        to.join(Name::Manifest(self.manifest).to_string())
    }

    fn manifest_bytes(&self) -> Vec<u8> {
        let mut record = Vec::new();
        put_record(&mut record, 0, &self.edit.encode());
        record
    }

    /// Whether CURRENT, whose content is `now`, names the new manifest: another program may have created a manifest of
    /// the same number.
    fn is_in_place(&self, disk: &dyn Disk, to: &Path, now: &[u8]) -> Result<bool> {
        if now != self.current() {
            return Ok(false);
        }
        let wanted = self.manifest_bytes();
        let file = disk.open(&self.manifest_in(to))?;
        let mut there = vec![0; wanted.len()];
        Ok(file.read_at(0, &mut there)? == wanted.len() && there == wanted)
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = [self.first.to_le_bytes(), self.manifest.to_le_bytes()].concat();
        put_slice(&mut out, &self.before);
        out.extend(self.edit.encode());
        out
    }

    fn decode(bytes: &[u8]) -> Option<Plan> {
        let mut reader = Reader(bytes);
        let first = reader.fixed64()?;
        let manifest = reader.fixed64()?;
        let before = reader.slice()?.to_vec();
        let edit = Edit::decode(reader.0).ok()?;
        let is_sound = edit.added.iter().all(|(_, file)| (first..manifest).contains(&file.number));
        is_sound.then_some(Plan { first, manifest, before, edit })
    }
}

/// Opens `from`, so that the records of its log are in tables, and assigns the numbers.
fn make_plan(disk: &Arc<dyn Disk>, from: &Path, to: &Path) -> Result<Plan> {
    let numbers = |dir: &Path| -> Result<u64> {
        let entries = disk.list(dir)?;
        Ok(entries.iter().filter_map(|entry| Name::parse(&entry.name)).map(Name::number).max().unwrap_or(0))
    };
    let db = Db::open(disk.clone(), from, Options::default())?;
    let (tables, last_sequence) = db.contents()?;
    drop(db);
    let last = tables.iter().map(|(_, file)| file.number).max().unwrap_or(0);
    let first = numbers(to)?.saturating_add(1);
    let manifest = first.saturating_add(last).saturating_add(1);
    if manifest >= 1 << 60 {
        return Err(Damage::new(0, "file numbers below 2^60", manifest.to_string()).of(to));
    }
    let moved = |(level, file): (usize, FileMeta)| (level, FileMeta { number: first + file.number, ..file });
    let edit = Edit {
        comparator: Some(COMPARATOR.into()),
        log_number: Some(manifest),
        prev_log_number: Some(0),
        next_file: Some(manifest + 1),
        last_sequence: Some(last_sequence),
        deleted: Vec::new(),
        added: tables.into_iter().map(moved).collect(),
    };
    let before = read_small(&**disk, &to.join(CURRENT), CURRENT_BYTES_MAX)?.unwrap_or_default();
    Ok(Plan { first, manifest, before, edit })
}

/// Moves or copies the tables that are not in `to` yet; false if a table is in neither place.
fn move_tables(disk: &dyn Disk, from: &Path, to: &Path, plan: &Plan) -> Result<bool> {
    for (_, file) in &plan.edit.added {
        let there = to.join(Name::Table(file.number).to_string());
        let Some(here) = table_in(disk, from, file.number - plan.first)? else {
            if disk.metadata(&there)?.is_none_or(|known| known.len != file.bytes) {
                return Ok(false);
            }
            continue;
        };
        remove_if_there(disk, &there)?;
        match disk.rename(&here, &there) {
            Ok(()) => {}
            Err(why) if why.is_immovable() => copy(disk, &here, &there)?,
            Err(why) => return Err(why.into()),
        }
    }
    Ok(true)
}

/// The table with this number, under either of its names.
fn table_in(disk: &dyn Disk, dir: &Path, number: u64) -> Result<Option<PathBuf>> {
    let name = dir.join(Name::Table(number).to_string());
    for path in [name.clone(), name.with_extension("sst")] {
        if disk.metadata(&path)?.is_some() {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// The copy is durable when this returns; its name is not yet.
fn copy(disk: &dyn Disk, from: &Path, to: &Path) -> Result<()> {
    let source = disk.open(from)?;
    let target = disk.create(to)?;
    let len = source.len()?;
    let mut at = 0;
    let mut piece = vec![0; PIECE_BYTES];
    while at < len {
        let count = usize::try_from(len - at).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
        source.read_exact_at(at, &mut piece[..count])?;
        target.write_at(at, &piece[..count])?;
        target.drop_page_cache(at, count as u64);
        at += count as u64;
    }
    Ok(target.sync()?)
}

/// Removes all of LevelDB's files that the new manifest does not need. Files that cannot be removed are removed when
/// the database is next opened.
fn remove_others(disk: &dyn Disk, to: &Path, plan: &Plan) {
    let live: std::collections::BTreeSet<u64> = plan.edit.added.iter().map(|(_, file)| file.number).collect();
    for entry in disk.list(to).unwrap_or_default() {
        let is_stale = match Name::parse(&entry.name) {
            Some(Name::Table(number)) => !live.contains(&number) && number < plan.manifest,
            Some(Name::Manifest(number) | Name::Log(number)) => number < plan.manifest,
            Some(Name::Temporary(_)) => true,
            None => false,
        };
        if is_stale {
            let _ = disk.remove_file(&to.join(&entry.name));
        }
    }
}

fn read_plan(disk: &dyn Disk, from: &Path) -> Result<Option<Plan>> {
    let path = from.join(PLAN);
    let Some(bytes) = read_small(disk, &path, PLAN_BYTES_MAX)? else { return Ok(None) };
    let record = LogReader::new(&bytes).next().map_err(|why| why.of(&path))?;
    let plan = record.and_then(|(_, record)| Plan::decode(&record));
    plan.map(Some)
        .ok_or_else(|| Damage::new(0, "the plan of an installation", format!("{} bytes", bytes.len())).of(&path))
}

/// This is atomic: afterwards the plan is complete, or does not exist.
fn write_plan(disk: &dyn Disk, from: &Path, plan: &Plan) -> Result<()> {
    let mut record = Vec::new();
    put_record(&mut record, 0, &plan.encode());
    let beside = from.join(PLAN_NEW);
    write_file(disk, &beside, &record)?;
    disk.rename(&beside, &from.join(PLAN))?;
    Ok(disk.sync_dir(from)?)
}

/// Writes a whole small file, replacing the remains of an earlier attempt; its name is not durable yet.
fn write_file(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<()> {
    remove_if_there(disk, path)?;
    let file = disk.create(path)?;
    file.write_at(0, bytes)?;
    Ok(file.sync().map_err(DiskError::of_last_try)?)
}

fn remove_if_there(disk: &dyn Disk, path: &Path) -> Result<()> {
    match disk.metadata(path)? {
        Some(_) => Ok(disk.remove_file(path)?),
        None => Ok(()),
    }
}

fn read_small(disk: &dyn Disk, path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>> {
    let file = match disk.open(path) {
        Ok(file) => file,
        Err(why) if why.is_not_found() => return Ok(None),
        Err(why) => return Err(why.into()),
    };
    let len = file.len()?;
    let damaged = || -> Error { Damage::new(0, format!("at most {bytes_max} bytes"), format!("{len}")).of(path) };
    let mut bytes = vec![0; usize::try_from(len).ok().filter(|_| len <= bytes_max).ok_or_else(damaged)?];
    file.read_exact_at(0, &mut bytes)?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{Fault, Loss, SimDisk};

    const FROM: &str = "/n/ffwd/chainstate";
    const TO: &str = "/n/chainstate";

    /// Small tables, so that there are several.
    fn options() -> Options {
        Options { table_bytes: 200, level1_bytes: 1000, has_filters: true, kernels: kernels::Kernels::AUTO }
    }

    type Records = Vec<(Vec<u8>, Vec<u8>)>;

    fn records(of: &str) -> Records {
        (0..60_u32)
            .map(|n| (format!("{n:04}").into_bytes(), format!("{of} {n}, and some more of it").into_bytes()))
            .collect()
    }

    fn make(disk: &SimDisk, dir: &str, records: &Records) {
        let db = Db::create(disk.shared(), Path::new(dir), options()).unwrap();
        for some in records.chunks(25) {
            db.write(&some.iter().map(|(key, value)| (key, Some(value))).collect::<Vec<_>>()).unwrap();
        }
    }

    /// What LevelDB, or this crate, finds: opening removes files that belong to nothing.
    fn opened(disk: &SimDisk, dir: &str) -> Records {
        let db = Db::open(disk.shared(), Path::new(dir), options()).unwrap();
        let (mut found, mut all) = (Vec::new(), db.iter().unwrap());
        while let Some((key, value)) = all.next_record().unwrap() {
            found.push((key.to_vec(), value.to_vec()));
        }
        found
    }

    /// `mounted`: the place is another file system, into which tables are copied.
    fn scene(seed: u64, mounted: bool) -> SimDisk {
        let disk = SimDisk::new(seed);
        disk.create_dir_all(Path::new("/n/ffwd")).unwrap();
        for dir in ["/", "/n"] {
            disk.sync_dir(Path::new(dir)).unwrap();
        }
        make(&disk, TO, &records("old"));
        make(&disk, FROM, &records("new"));
        if mounted {
            disk.mount(Path::new(TO));
        }
        disk
    }

    fn go(disk: &SimDisk) -> Result<Installed> {
        install(&disk.shared(), Path::new(FROM), Path::new(TO))
    }

    #[test]
    fn database_takes_the_place_of_another_and_nothing_else_is_left() {
        for mounted in [false, true] {
            let disk = scene(1, mounted);
            assert!(can_move_files(&disk, Path::new(FROM), Path::new(TO)).unwrap() != mounted);
            assert!(!is_installing(&disk, Path::new(FROM)).unwrap());
            assert_eq!(go(&disk).unwrap(), Installed::Done);
            assert_eq!(go(&disk).unwrap(), Installed::Done, "again");
            assert!(is_installing(&disk, Path::new(FROM)).unwrap());
            let names: Vec<_> = disk.list(Path::new(TO)).unwrap().into_iter().map(|entry| entry.name).collect();
            let manifests = names.iter().filter(|name| matches!(Name::parse(name), Some(Name::Manifest(_)))).count();
            assert!(
                manifests == 1 && names.iter().all(|name| !name.to_string_lossy().contains("install")),
                "{names:?}"
            );
            assert_eq!(opened(&disk, TO), records("new"));
            // Something else was done with it since: what is left of the other is not put over it.
            assert_eq!(go(&disk).unwrap(), Installed::Overtaken);
            assert_eq!(opened(&disk, TO), records("new"));
        }
    }

    #[test]
    fn an_absent_a_damaged_and_an_empty_place_are_taken() {
        for row in ["absent", "damaged", "no manifest", "empty"] {
            let disk = scene(2, false);
            let to = Path::new(TO);
            match row {
                "absent" => disk.remove_dir_all(to).unwrap(),
                "damaged" => disk.modify(&to.join(CURRENT)).unwrap().write_at(0, b"rubbish").unwrap(),
                "no manifest" => disk.remove_file(&to.join("MANIFEST-000001")).unwrap_or(()),
                _ => {
                    for entry in disk.list(to).unwrap() {
                        disk.remove_file(&to.join(entry.name)).unwrap();
                    }
                }
            }
            // A log of the old one is not replayed into the new one.
            if row != "absent" {
                let log = disk.create(&to.join("000900.log")).unwrap();
                log.write_at(0, b"not a log").unwrap();
            }
            assert_eq!(go(&disk).unwrap(), Installed::Done, "{row}");
            assert_eq!(opened(&disk, TO), records("new"), "{row}");
        }
    }

    /// Stopped at every operation: another program finds the old or the new database, whole; without one the same call
    /// leads to the end.
    #[test]
    fn stop_at_any_operation_leaves_the_old_or_the_new_database() {
        for mounted in [false, true] {
            let (mut at, mut overtaken) = (0, 0);
            loop {
                let disk = scene(at, mounted);
                let from = disk.operations() + at;
                disk.fail_at(from, 1, Fault::Stop);
                let done = go(&disk);
                let was_met = disk.is_stopped();
                for loss in [Loss::Nothing, Loss::Unsynced, Loss::Random(at)] {
                    let row = format!("mounted {mounted}, stopped at {at}, {loss:?}");
                    let left = disk.reopen(loss);
                    assert_eq!(go(&left).unwrap(), Installed::Done, "{row}");
                    assert_eq!(opened(&left, TO), records("new"), "{row}");

                    // Another program comes first, and does its own work.
                    let left = disk.reopen(loss);
                    let found = opened(&left, TO);
                    assert!(found == records("new") || (found == records("old") && done.is_err()), "{row}");
                    let db = Db::open(left.shared(), Path::new(TO), options()).unwrap();
                    db.write(&[(b"own", Some(b"work"))]).unwrap();
                    drop(db);
                    let kept = opened(&left, TO);
                    if is_installing(&left, Path::new(FROM)).unwrap() {
                        assert_eq!(go(&left).unwrap(), Installed::Overtaken, "{row}");
                        overtaken += 1;
                        assert_eq!(opened(&left, TO), kept, "{row}");
                    }
                }
                if !was_met {
                    break;
                }
                at += 1;
            }
            assert!(at > 20 && overtaken > 20, "{at} operations, {overtaken} overtaken");
        }
    }

    #[test]
    fn a_full_disk_is_said_and_the_same_call_goes_on() {
        for mounted in [false, true] {
            for at in 0.. {
                let disk = scene(at, mounted);
                let from = disk.operations() + at;
                disk.fail_at(from, 3, Fault::NoSpace);
                let done = go(&disk);
                let was_met = disk.operations() > from;
                disk.heal();
                assert!(was_met || done.is_ok(), "{done:?}");
                assert_eq!(go(&disk).unwrap(), Installed::Done, "{at}");
                assert_eq!(opened(&disk, TO), records("new"), "{at}");
                if !was_met {
                    break;
                }
            }
        }
    }

    #[test]
    fn a_damaged_plan_is_named_and_changes_nothing() {
        let disk = scene(3, false);
        let plan = make_plan(&disk.shared(), Path::new(FROM), Path::new(TO)).unwrap();
        write_plan(&disk, Path::new(FROM), &plan).unwrap();
        let path = Path::new(FROM).join(PLAN);
        let bytes = disk.open(&path).unwrap().bytes().unwrap().to_vec();
        assert_eq!(read_plan(&disk, Path::new(FROM)).unwrap(), Some(plan.clone()));
        for end in 0..plan.encode().len() {
            assert!(Plan::decode(&plan.encode()[..end]).is_none_or(|cut| cut.edit != plan.edit));
        }
        for at in (0..bytes.len()).step_by(7) {
            disk.modify(&path).unwrap().write_at(at as u64, &[bytes[at] ^ 1]).unwrap();
            assert!(go(&disk).is_err(), "{at}");
            disk.modify(&path).unwrap().write_at(at as u64, &[bytes[at]]).unwrap();
        }
        assert_eq!(opened(&disk, TO), records("old"));
    }
}
