//! The block index behind its lock.

use super::BlockIndex;
use crate::chain::tree::Tree;
use crate::threads::locks::{read, write};
use std::ops::Deref;
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The block index, shared by several threads.
#[derive(Debug)]
pub struct SharedIndex(RwLock<BlockIndex>);

impl SharedIndex {
    /// Puts an index behind a lock.
    pub fn new(index: BlockIndex) -> SharedIndex {
        SharedIndex(RwLock::new(index))
    }

    /// Locks it for reading. A thread must not call this again while it holds the guard: if a writer waits in between,
    /// both deadlock.
    ///
    /// # Panics
    ///
    /// After a panic of a thread that held the write lock.
    pub fn read(&self) -> RwLockReadGuard<'_, BlockIndex> {
        read(&self.0)
    }

    /// The headers, locked for reading: see [`SharedIndex::read`].
    ///
    /// # Panics
    ///
    /// See [`SharedIndex::read`].
    pub fn headers(&self) -> Headers<'_> {
        Headers(self.read())
    }

    /// Locks it for changes.
    ///
    /// # Panics
    ///
    /// After a panic of a thread that held the write lock.
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
