//! The options of the server, with Core's names, and the command that serves a data directory without peers.

use super::{Common, Writing};
use crate::options::Place;
use crate::options::given::Given;
use clap::Args;

/// Who may ask, and where.
pub(crate) type Server = Given<{ Place::Server as u8 }>;

#[derive(Args, Clone, Debug)]
pub(crate) struct Stop {
    #[command(flatten)]
    pub(crate) server: Server,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) server: Server,
    #[command(flatten)]
    pub(crate) writing: Writing,
    #[command(flatten)]
    pub(crate) common: Common,
}
