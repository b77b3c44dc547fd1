//! Memory that a thread uses again for each block it works on, so that the stages allocate none.

use crate::stages::{CheckScratch, ScriptScratch};
use std::cell::RefCell;

thread_local! {
    static CHECK: RefCell<CheckScratch> = RefCell::default();
    static SCRIPTS: RefCell<ScriptScratch> = RefCell::default();
}

/// Calls `work` with this thread's scratch space for checking blocks.
pub(crate) fn with_check<R>(work: impl FnOnce(&mut CheckScratch) -> R) -> R {
    CHECK.with_borrow_mut(work)
}

/// Calls `work` with this thread's scratch space for running scripts.
pub(crate) fn with_scripts<R>(work: impl FnOnce(&mut ScriptScratch) -> R) -> R {
    SCRIPTS.with_borrow_mut(work)
}
