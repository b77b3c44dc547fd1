//! Memory that a thread reuses for each block, so that the stages allocate none.

use crate::pipeline::stages::{CheckScratch, ScriptScratch};
use coins::ops::NewCoins;
use kernels::Kernels;
use std::cell::RefCell;

thread_local! {
    static CHECK: RefCell<CheckScratch> = RefCell::default();
    static NEW_COINS: RefCell<NewCoins> = RefCell::default();
    static SCRIPTS: RefCell<ScriptScratch> = RefCell::default();
}

/// Calls `work` with this thread's scratch space for checking blocks, with these kernels.
pub(crate) fn with_check<R>(kernels: Kernels, work: impl FnOnce(&mut CheckScratch) -> R) -> R {
    CHECK.with_borrow_mut(|scratch| {
        scratch.kernels = kernels;
        work(scratch)
    })
}

/// Calls `work` with this thread's scratch space for the coins that a block creates.
pub(crate) fn with_new_coins<R>(work: impl FnOnce(&mut NewCoins) -> R) -> R {
    NEW_COINS.with_borrow_mut(work)
}

/// Calls `work` with this thread's scratch space for running scripts.
pub(crate) fn with_scripts<R>(work: impl FnOnce(&mut ScriptScratch) -> R) -> R {
    SCRIPTS.with_borrow_mut(work)
}
