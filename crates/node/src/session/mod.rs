//! The session: the work of a data directory with its peers, and the answer to "why is nothing happening?".
//!
//! [`state`] makes the one state that everybody is shown from plain facts; `facts` gathers them; [`limit`] measures what the
//! work waits for.

pub(crate) mod facts;
pub mod limit;
pub mod state;
