//! A height that one thread writes and others read.

use primitives::Height;
use std::sync::atomic::{AtomicU32, Ordering};

/// A [`Height`] with the atomic load and store of `std::sync::atomic`.
#[derive(Debug, Default)]
pub(crate) struct AtomicHeight(AtomicU32);

impl AtomicHeight {
    /// The value now.
    pub(crate) fn load(&self, order: Ordering) -> Height {
        Height::new(self.0.load(order))
    }

    /// Sets the value.
    pub(crate) fn store(&self, height: Height, order: Ordering) {
        self.0.store(height.to_u32(), order);
    }
}
