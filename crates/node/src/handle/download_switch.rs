//! The switch with which a person pauses the download of blocks, and resumes it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether a person paused the download: by a call or a signal.
#[derive(Debug, Default)]
pub struct DownloadSwitch(AtomicBool);

impl DownloadSwitch {
    /// No block is asked for from here on.
    pub fn pause(&self) {
        self.0.store(true, Relaxed);
    }

    /// Blocks are asked for again.
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
