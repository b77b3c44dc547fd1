//! Starting threads. If the system refuses one, the result is a fault that names the limits, never a panic. Also
//! helpers that threads share: locks, work in shares, heights.

pub(crate) mod atomic_height;
pub(crate) mod locks;
pub(crate) mod shares;

use crate::fault::Fault;
use std::io;
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// Starts a scoped thread.
///
/// # Errors
///
/// [`Fault::System`]: the system refused the thread.
pub(crate) fn spawn<'s, T: Send + 's>(
    scope: &'s Scope<'s, '_>,
    name: impl Into<String>,
    work: impl FnOnce() -> T + Send + 's,
) -> Result<ScopedJoinHandle<'s, T>, Fault> {
    let name = name.into();
    Builder::new().name(name.clone()).spawn_scoped(scope, work).map_err(|why| refused(&name, why))
}

/// Runs a closure on drop, also while unwinding, so that a thread that waits for it is always told.
pub(crate) struct AtEnd<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// The fault of a thread that did not start.
pub(crate) fn refused(name: &str, why: io::Error) -> Fault {
    let advice = "Raise the limit of processes and threads (ulimit -u, RLIMIT_NPROC) or of address space (ulimit -v, \
                  RLIMIT_AS), or lower --par";
    Fault::system(format!("the thread {name} cannot be started ({why})"), advice, why)
}
