//! What all requests share.

use crate::auth::Users;
use crate::context::Context;
use crate::long_bodies::LongBodies;
use crate::publisher::Publisher;
use crate::settings::Settings;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// The two ends of the connection that a request came through: every request has it as an extension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    /// The client's.
    pub(crate) client: SocketAddr,
    /// This program's.
    pub(crate) server: SocketAddr,
}

/// What all requests share.
pub(crate) struct App {
    /// What calls may touch.
    pub(crate) context: Arc<Context>,
    /// Settings of the server.
    pub(crate) settings: Arc<Settings>,
    /// Who may ask.
    pub(crate) users: Users,
    /// Who shows the page.
    pub(crate) publisher: Arc<Publisher>,
    /// Long bodies that may be read now.
    pub(crate) long_bodies: LongBodies,
}

impl App {
    /// Makes the cookie, where there is to be one.
    ///
    /// # Errors
    ///
    /// It cannot be written; a line of `-rpcauth` is malformed.
    pub(crate) fn new(context: Arc<Context>, settings: Arc<Settings>) -> io::Result<App> {
        let users = Users::new(&settings)?;
        let publisher = Arc::new(Publisher::new(context.program.board.clone()));
        Ok(App { context, settings, users, publisher, long_bodies: LongBodies::default() })
    }
}
