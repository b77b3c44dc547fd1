//! What the system unpacks.

use std::path::Path;
use std::process::Command;

/// Unpacked by the system's `bzip2`; says so where it is missing.
pub(crate) fn bz2(path: &Path) -> Option<Vec<u8>> {
    match Command::new("bzip2").arg("-dc").arg(path).output() {
        Ok(output) if output.status.success() => Some(output.stdout),
        Ok(output) => panic!("{}: {}", path.display(), String::from_utf8_lossy(&output.stderr)),
        Err(why) => {
            println!("skipped: bzip2 does not run here ({why})");
            None
        }
    }
}
