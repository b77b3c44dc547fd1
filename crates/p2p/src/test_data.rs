//! Finds the files that tests read and that are not part of the project.

/// The file `name` of the test data; says so when it is missing, and the test is then to pass.
pub(crate) fn read(name: &str) -> Option<Vec<u8>> {
    let folder = std::env::var("FFWD_TEST_DATA")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data").to_owned());
    let found = std::fs::read(std::path::Path::new(&folder).join(name)).ok();
    if found.is_none() {
        eprintln!("skipped: no {name} in {folder} (FFWD_TEST_DATA names the folder)");
    }
    found
}
