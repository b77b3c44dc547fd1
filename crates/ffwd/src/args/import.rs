//! The options of `ffwd import`.

use super::{Common, Writing};
use clap::Args;
use std::path::PathBuf;

#[derive(Args, Clone, Debug)]
pub(crate) struct Import {
    /// Block files, bootstrap.dat, pipes (repeatable; "-": standard input): plain or packed (gzip, xz, zstd), obfuscated
    /// with the xor.dat of their directory, or plain
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) writing: Writing,
    #[command(flatten)]
    pub(crate) common: Common,
}

impl Import {
    /// The files, standard input by the name that the system gives it.
    pub(crate) fn sources(&self) -> Vec<PathBuf> {
        let source = |file: &PathBuf| if file.as_os_str() == "-" { "/dev/stdin".into() } else { file.clone() };
        self.files.iter().map(source).collect()
    }
}
