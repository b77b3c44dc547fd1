//! State shared by all requests.

use crate::auth::Users;
use crate::context::Context;
use crate::long_bodies::LongBodies;
use crate::not_started::NotStarted;
use crate::publisher::Publisher;
use crate::settings::Settings;
use std::net::SocketAddr;
use std::sync::Arc;

/// Both ends of a request's connection: every request has them as an extension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    /// The client's.
    pub(crate) client: SocketAddr,
    /// This program's.
    pub(crate) server: SocketAddr,
}

/// State shared by all requests.
pub(crate) struct App {
    /// State for calls.
    pub(crate) context: Arc<Context>,
    /// Settings of the server.
    pub(crate) settings: Arc<Settings>,
    /// Users and their permissions.
    pub(crate) users: Users,
    /// Source of the page's events.
    pub(crate) publisher: Arc<Publisher>,
    /// Limit of long bodies.
    pub(crate) long_bodies: LongBodies,
}

impl App {
    /// Writes the cookie, if one is configured.
    ///
    /// # Errors
    ///
    /// [`NotStarted`]: the cookie cannot be written; a line of `-rpcauth` is malformed.
    pub(crate) fn new(context: Arc<Context>, settings: Arc<Settings>) -> Result<App, NotStarted> {
        let users = Users::new(&settings)?;
        let publisher = Arc::new(Publisher::new(context.program.board.clone()));
        Ok(App { context, settings, users, publisher, long_bodies: LongBodies::default() })
    }
}
