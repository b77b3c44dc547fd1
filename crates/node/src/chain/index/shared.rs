//! The block index behind its lock.

use super::BlockIndex;
use crate::chain::tree::Tree;
use crate::threads::locks::{read, write};
use std::ops::Deref;
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The block index, read and changed by several threads.
#[derive(Debug)]
pub struct SharedIndex(RwLock<BlockIndex>);

impl SharedIndex {
    /// Shares it.
    pub fn new(index: BlockIndex) -> SharedIndex {
        SharedIndex(RwLock::new(index))
    }

    /// To be read. A thread must not ask again while it holds this: with a writer waiting in between, both would wait
    /// for ever.
    ///
    /// # Panics
    ///
    /// After a panic of a thread that changed it.
    pub fn read(&self) -> RwLockReadGuard<'_, BlockIndex> {
        read(&self.0)
    }

    /// The headers, to be read: as [`SharedIndex::read`].
    ///
    /// # Panics
    ///
    /// As there.
    pub fn headers(&self) -> Headers<'_> {
        Headers(self.read())
    }

    /// To be changed.
    ///
    /// # Panics
    ///
    /// After a panic of a thread that changed it.
    pub fn write(&self) -> RwLockWriteGuard<'_, BlockIndex> {
        write(&self.0)
    }
}

/// The headers of an index that is locked for reading.
#[derive(Debug)]
pub struct Headers<'a>(RwLockReadGuard<'a, BlockIndex>);

impl Deref for Headers<'_> {
    type Target = Tree;

    fn deref(&self) -> &Tree {
        self.0.headers()
    }
}
