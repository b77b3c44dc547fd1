//! State of a running job for monitoring, a browser, the service manager, and the user's own commands.
//!
//! In: the events of a job ([`node::reporting::Event`]), the connections ([`p2p::Peers`]), Linux' statistics of the
//! process.
//! Out: text of metrics, the page and its events as JSON, messages of sd_notify, processes. It must never know: HTTP,
//! options.
//!
//! A job reports its progress four times a second, as values; [`Board`] keeps the last ones. So readers never query
//! the pipeline, and they query the network's thread at most once a second, while there is a reader.

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
