//! A switch that pauses and resumes the block download.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether the user paused the download, by a call or a signal.
#[derive(Debug, Default)]
pub struct DownloadSwitch(AtomicBool);

impl DownloadSwitch {
    /// Stops requesting blocks.
    pub fn pause(&self) {
        self.0.store(true, Relaxed);
    }

    /// Requests blocks again.
    pub fn resume(&self) {
        self.0.store(false, Relaxed);
    }

    /// Whether it is paused.
    pub fn is_paused(&self) -> bool {
        self.0.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_pauses_and_resumes() {
        let switch = DownloadSwitch::default();
        assert!(!switch.is_paused());
        switch.pause();
        assert!(switch.is_paused());
        switch.resume();
        assert!(!switch.is_paused());
    }
}
