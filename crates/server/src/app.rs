//! State shared by all requests.

use crate::auth::Users;
use crate::client_lines::ClientLines;
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
    /// Limit of lines in debug.log.
    client_lines: ClientLines,
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
        Ok(App {
            context,
            settings,
            users,
            publisher,
            long_bodies: LongBodies::default(),
            client_lines: ClientLines::default(),
        })
    }

    /// Logs a wrong password.
    pub(crate) fn log_wrong_password(&self, ends: Option<&Ends>) {
        self.log(self.client_lines.wrong_password(ends.map(|ends| ends.client)));
    }

    /// Whether the work queue is full, which is logged.
    pub(crate) fn refuses(&self) -> bool {
        let is_crowded = self.context.pool.is_crowded();
        if is_crowded {
            self.log(self.client_lines.refused());
        }
        is_crowded
    }

    /// Writes lines to debug.log, which is open while the data directory is.
    fn log(&self, lines: Vec<String>) {
        if let Ok(live) = self.context.live() {
            lines.iter().for_each(|line| live.log(line));
        }
    }
}
