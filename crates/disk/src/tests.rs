//! Both disks behave alike, and the simulated one has the accidents that it promises.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Disk, Fault, Kind, Loss, RealDisk, SimDisk};

/// Every operation once, the same on any disk.
fn works(disk: &dyn Disk, root: &Path) {
    let dir = root.join("a/b");
    disk.create_dir_all(&dir).unwrap();
    disk.create_dir_all(&dir).unwrap();
    let (one, two) = (dir.join("one"), dir.join("two"));
    let file = disk.create(&one).unwrap();
    assert!(disk.create(&one).is_err(), "a name is made once");
    file.write_at(0, b"hello").unwrap();
    file.write_at(8, b"there").unwrap();
    assert_eq!(&file.bytes().unwrap()[..], b"hello\0\0\0there");
    file.set_len(10).unwrap();
    file.allocate(0, 12).unwrap();
    file.allocate(0, 4).unwrap();
    file.sync().unwrap();
    disk.sync_dir(&dir).unwrap();
    let file = disk.open(&one).unwrap();
    assert_eq!(file.len().unwrap(), 12);
    let mut buffer = [9; 4];
    assert_eq!(file.read_at(9, &mut buffer).unwrap(), 3);
    assert_eq!(buffer, [b'h', 0, 0, 9]);
    let why = file.read_exact_at(9, &mut buffer).unwrap_err();
    assert!(why.to_string().contains("at byte 9: wanted 4 bytes, the file ends after 3"), "{why}");
    assert!(file.write_at(0, b"x").is_err(), "opened for reading only");
    disk.modify(&one).unwrap().write_at(1, b"u").unwrap();
    assert_eq!(&file.bytes().unwrap()[..3], b"hul");
    disk.rename(&one, &two).unwrap();
    assert!(disk.open(&one).unwrap_err().is_not_found());
    assert!(disk.rename(&one, &two).unwrap_err().is_not_found());
    disk.create_dir_all(&root.join("c")).unwrap();
    disk.create(&root.join("c/new")).unwrap();
    disk.exchange(&dir, &root.join("c")).unwrap();
    let names = |path: &str| -> Vec<_> {
        let list = disk.list(&root.join(path)).unwrap();
        list.into_iter().map(|entry| (entry.name.into_string().unwrap(), entry.is_dir)).collect()
    };
    assert_eq!(names("c"), [("two".to_owned(), false)]);
    assert_eq!(names("a/b"), [("new".to_owned(), false)]);
    assert_eq!(names("a"), [("b".to_owned(), true)]);
    let metadata = |path: &str| disk.metadata(&root.join(path)).unwrap();
    assert_eq!(metadata("c/two").map(|known| (known.len, known.is_dir)), Some((12, false)));
    assert_eq!(metadata("c").map(|known| known.is_dir), Some(true));
    assert_eq!(metadata("d"), None);
    disk.remove_file(&root.join("c/two")).unwrap();
    assert_eq!(&file.bytes().unwrap()[..3], b"hul", "open files outlive their names");
    assert!(disk.remove_file(&root.join("c/two")).unwrap_err().is_not_found());
    disk.remove_dir_all(&root.join("a")).unwrap();
    assert_eq!(metadata("a"), None);
    assert!(disk.list(&root.join("a")).unwrap_err().is_not_found());
    assert!(disk.free_space_bytes(root).unwrap() > 0);
    assert_ne!(disk.free_inodes(root).unwrap(), Some(0), "files were made there just now");
    match disk.unnamed_file(root, 5000) {
        Ok(file) => assert_eq!(file.metadata().unwrap().len(), 5000),
        Err(why) => assert!(why.is_unsupported(), "{why}"),
    }
    let names = disk.list(root).unwrap();
    assert!(names.iter().all(|entry| ["c", "LOCK"].iter().any(|name| entry.name == *name)), "{names:?}");
    drop(disk.lock(&root.join("LOCK")).unwrap());
}

#[test]
fn real_and_simulated_disk_behave_alike() {
    let dir = tempfile::tempdir().unwrap();
    works(&RealDisk, dir.path());
    let sim = SimDisk::new(1);
    sim.create_dir_all(dir.path()).unwrap();
    works(&sim, dir.path());
}

/// A disk with `/d/f` = "old" durable, then "new!" written over it and a file beside it made.
fn scene() -> (SimDisk, Arc<dyn super::DiskFile>) {
    let disk = SimDisk::new(7);
    let dir = PathBuf::from("/d");
    disk.create_dir_all(&dir).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    let file = disk.create(&dir.join("f")).unwrap();
    file.write_at(0, b"old").unwrap();
    file.sync().unwrap();
    disk.sync_dir(&dir).unwrap();
    file.write_at(0, b"new!").unwrap();
    let beside = disk.create(&dir.join("g")).unwrap();
    beside.write_at(0, b"g").unwrap();
    beside.sync().unwrap();
    (disk, file)
}

fn contents(disk: &SimDisk) -> (String, bool) {
    let bytes = disk.open(Path::new("/d/f")).unwrap().bytes().unwrap();
    let beside = disk.metadata(Path::new("/d/g")).unwrap();
    (String::from_utf8_lossy(&bytes).into_owned(), beside.is_some())
}

#[test]
fn reopen_may_lose_what_was_not_synced() {
    let (disk, file) = scene();
    assert_eq!(contents(&disk.reopen(Loss::Unsynced)), ("old".to_owned(), false));
    assert_eq!(contents(&disk.reopen(Loss::Nothing)), ("new!".to_owned(), true));
    let seen: std::collections::BTreeSet<_> = (0..200).map(|seed| contents(&disk.reopen(Loss::Random(seed)))).collect();
    for text in ["old", "nld", "ned", "new", "new!"] {
        for beside in [false, true] {
            assert!(seen.contains(&(text.to_owned(), beside)), "{text} {beside} among {seen:?}");
        }
    }
    assert_eq!(seen.len(), 10, "nothing else comes out");
    file.sync().unwrap();
    disk.sync_dir(Path::new("/d")).unwrap();
    assert_eq!(contents(&disk.reopen(Loss::Unsynced)), ("new!".to_owned(), true));
}

#[test]
fn fail_at_injects_the_fault_at_the_planned_operation() {
    let (disk, file) = scene();
    let next = disk.operations();
    disk.fail_at(next, 2, Fault::NoSpace);
    let why = file.write_at(4, b"more").unwrap_err();
    assert!(why.is_no_space(), "{why}");
    assert_eq!(disk.free_space_bytes(Path::new("/d")).unwrap(), 0);
    assert!(disk.rename(Path::new("/d/f"), Path::new("/d/h")).unwrap_err().is_no_space());
    file.write_at(4, b"more").unwrap();

    // A sync that failed has forgotten what it was to write; the next one does not bring it back.
    disk.fail_at(disk.operations(), 1, Fault::Io);
    assert!(file.sync().is_err());
    file.sync().unwrap();
    assert_eq!(contents(&disk.reopen(Loss::Unsynced)).0, "old");

    disk.fail_at(disk.operations(), 1, Fault::Stop);
    assert!(file.write_at(0, b"torn").is_err());
    assert!(disk.is_stopped());
    assert!(disk.open(Path::new("/d/f")).is_err());
    assert!(file.sync().is_err() && file.len().is_err());
    let left = disk.reopen(Loss::Nothing);
    assert!(contents(&left).0.ends_with("more"));
}

#[test]
fn reopen_after_rename_keeps_one_name_and_the_contents() {
    for seed in 0..64 {
        let (disk, _) = scene();
        disk.rename(Path::new("/d/g"), Path::new("/d/h")).unwrap();
        let left = disk.reopen(Loss::Random(seed));
        let there = |path| left.metadata(Path::new(path)).unwrap().is_some();
        assert!(!(there("/d/g") && there("/d/h")), "one file has one name");
        disk.sync_dir(Path::new("/d")).unwrap();
        let left = disk.reopen(Loss::Random(seed));
        assert_eq!(&left.open(Path::new("/d/h")).unwrap().bytes().unwrap()[..], b"g");
        assert_eq!(left.metadata(Path::new("/d/g")).unwrap(), None);
    }
}

#[test]
fn open_of_what_is_not_a_regular_file_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("blk00000.dat");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    for (row, path, want) in [
        ("a FIFO", &*fifo, "a FIFO"),
        ("a directory", dir.path(), "directory"),
        ("a device", Path::new("/dev/zero"), "a device"),
    ] {
        let why = RealDisk.open(path).unwrap_err();
        assert!(why.to_string().contains(want), "{row}: {why}");
    }
    assert!(RealDisk.modify(&fifo).is_err());
    assert!(!RealDisk.lock(&fifo).unwrap_err().is_held());
    assert!(RealDisk.append(&fifo).is_err(), "no program reads it");
}

#[test]
fn is_in_place_tells_removed_moved_and_replaced_files() {
    let dir = tempfile::tempdir().unwrap();
    let sim = SimDisk::new(0);
    sim.create_dir_all(Path::new("/d")).unwrap();
    for (disk, root) in [(RealDisk::shared(), dir.path()), (sim.shared(), Path::new("/d"))] {
        let (one, two) = (root.join("one"), root.join("two"));
        let file = disk.create(&one).unwrap();
        assert!(file.is_in_place().unwrap());
        disk.rename(&one, &two).unwrap();
        assert!(!file.is_in_place().unwrap(), "moved");
        let other = disk.create(&one).unwrap();
        assert!(!file.is_in_place().unwrap() && other.is_in_place().unwrap(), "replaced");
        disk.remove_file(&one).unwrap();
        assert!(!other.is_in_place().unwrap(), "removed");
    }
}

#[test]
fn mount_points_and_lower_directories_stay_where_they_are() {
    let make = || {
        let disk = SimDisk::new(0);
        for dir in ["/n/chainstate", "/n/ffwd/chainstate"] {
            disk.create_dir_all(Path::new(dir)).unwrap();
            disk.create(&Path::new(dir).join("file")).unwrap();
        }
        disk
    };
    let (old, new) = (Path::new("/n/chainstate"), Path::new("/n/ffwd/chainstate"));
    let disk = make();
    disk.mount(old);
    for disk in [disk.clone(), disk.reopen(Loss::Nothing)] {
        for (from, to) in [(old, new), (new, old), (old, Path::new("/n/aside"))] {
            let why = disk.rename(from, to).unwrap_err();
            assert!(why.is_immovable() && why.source.kind() == std::io::ErrorKind::ResourceBusy, "{why}");
        }
        assert!(disk.exchange(old, new).unwrap_err().is_immovable());
        let why = disk.rename(&new.join("file"), &old.join("other")).unwrap_err();
        assert_eq!(why.source.kind(), std::io::ErrorKind::CrossesDevices, "{why}");
        disk.rename(&old.join("file"), &old.join("other")).unwrap();
        assert!(disk.remove_dir_all(old).unwrap_err().is_immovable());
        assert_eq!(disk.list(old).unwrap(), []);
    }

    let disk = make();
    disk.be(Kind::Overlay);
    assert_eq!(disk.exchange(old, new).unwrap_err().source.kind(), std::io::ErrorKind::CrossesDevices);
    assert!(disk.rename(old, Path::new("/n/aside")).unwrap_err().is_immovable());
    disk.rename(&new.join("file"), &old.join("other")).unwrap();
    disk.remove_dir_all(new).unwrap();
    disk.create_dir_all(new).unwrap();
    disk.rename(new, Path::new("/n/aside")).unwrap();

    let disk = make();
    disk.be(Kind::NoExchange);
    assert!(disk.exchange(old, new).unwrap_err().is_unsupported());
    disk.be(Kind::NoLocks);
    let why = disk.lock(&old.join("LOCK")).unwrap_err();
    assert!(!why.is_held() && why.to_string().contains("no file locks"), "{why}");
    disk.be(Kind::NoMaps);
    assert!(disk.open(&old.join("file")).unwrap().bytes().unwrap_err().is_unsupported());
    assert!(disk.can_sync_dir(old).unwrap());
    disk.be(Kind::NoDirectorySync);
    assert!(!disk.can_sync_dir(old).unwrap());
    disk.sync_dir(old).unwrap();
    assert!(RealDisk.can_sync_dir(tempfile::tempdir().unwrap().path()).unwrap());
}
