//! What a running job shows of itself: to monitors, to a browser, to the service manager, to a person's own commands.
//!
//! In: the events of a job ([`node::reporting::Event`]), the connections ([`p2p::Peers`]), what Linux says of the process.
//! Out: text of metrics, the page and its events as JSON, messages of sd_notify, processes. It must never know: HTTP, options.
//!
//! A job tells how far it is four times a second, as values; [`Board`] keeps the last of them. So nothing here is asked of the
//! pipeline, and what is asked of the network's thread is asked once a second at most, while there is a reader.

pub mod board;
mod exposition;
mod machine;
mod metrics;
pub mod notify;
mod page;
pub mod rates;
pub mod service;
mod sight;
pub mod view;

pub use board::Board;
pub use metrics::CONTENT_TYPE;
pub use page::PAGE;
pub use view::View;
