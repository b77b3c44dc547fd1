//! What bitcoind would read on the command line.
//!
//! Absent on purpose: clap's part of it, which has the same options in its own form (`spelling`).

use super::value::{Entry, Place, Setting, Value};
use crate::options::CoreOption;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Every option of bitcoind's on the command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct OnLine {
    /// In order.
    pub(crate) entries: Vec<Entry>,
    /// Warnings: options that were left out, and double negatives.
    pub(crate) warnings: Vec<String>,
}

impl OnLine {
    /// Adds an option, which is written with or without "no".
    pub(crate) fn add(&mut self, option: &CoreOption, written: &str, value: &OsStr) {
        let setting = Setting::of_bytes(value.as_bytes(), Place::CommandLine);
        let entry =
            if written == option.name { Entry::plain(option.name, setting) } else { Entry::new(written, setting) };
        if entry.setting.value == Value::Yes {
            let name = option.name;
            self.warnings.push(format!("Parsed potentially confusing double-negative -{name}=0"));
        }
        self.entries.push(entry);
    }
}
