//! The options as bitcoind would read them from the command line.
//!
//! Absent on purpose: clap's part, which has the same options in its own form (`spelling`).

use super::value::{Entry, Place, Setting, Value};
use crate::options::CoreOption;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Every option of bitcoind that is on the command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct OnLine {
    /// The options, in their order.
    pub(crate) entries: Vec<Entry>,
    /// Warnings: options that were left out, and double negatives.
    pub(crate) warnings: Vec<String>,
}

impl OnLine {
    /// Adds an option; `written` is the name as typed, with or without "no".
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
