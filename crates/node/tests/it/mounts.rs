//! A data directory whose drive is not mounted: no chain begins on the system's drive.

use crate::data_directory::{DATADIR, options};
use disk::{Disk, SimDisk};
use node::jobs;
use std::path::Path;

fn write(disk: &SimDisk, path: &str, text: &str) {
    let path = Path::new(path);
    disk.create_dir_all(path.parent().unwrap()).unwrap();
    disk.create(path).unwrap().write_at(0, text.as_bytes()).unwrap();
}

#[test]
fn chain_is_not_begun_where_a_drive_is_not_mounted() {
    let mounted = |more: &str| format!("/dev/root / ext4 rw 0 0\n{more}");
    for (row, mounts, files, is_refused) in [
        ("not mounted", mounted(""), &[][..], true),
        ("mounted", mounted(&format!("/dev/sdb {DATADIR} ext4 rw 0 0\n")), &[], false),
        ("not mounted, and in use all the same", mounted(""), &["bitcoin.conf"], false),
    ] {
        let disk = SimDisk::new(0);
        disk.create_dir_all(Path::new(DATADIR)).unwrap();
        write(&disk, "/etc/fstab", &format!("UUID=1 / ext4 defaults 0 1\nUUID=2 {DATADIR} ext4 nofail 0 2\n"));
        write(&disk, "/proc/self/mounts", &mounts);
        files.iter().for_each(|name| write(&disk, &format!("{DATADIR}/{name}"), ""));
        let options = options(&disk, false);
        let said = jobs::info(&options).map(|info| info.to_string()).unwrap_or_else(|why| why.to_string());
        let done = jobs::import(&options, &[], &|_| {});
        assert_eq!(said.contains("it is not mounted"), is_refused, "{row}: {said}");
        match (done, is_refused) {
            (Err(why), true) => {
                let why = why.to_string();
                assert!(why.contains(&format!("Mount it (mount {DATADIR})")), "{row}: {why}");
                assert!(disk.list(Path::new(DATADIR)).unwrap().is_empty(), "{row}: nothing is made");
            }
            (Ok(_), false) => {}
            (done, _) => panic!("{row}: {done:?}"),
        }
    }
}
