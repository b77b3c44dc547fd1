//! The RPC server of a sync, and the command `serve`, which runs it on a data directory without peers.

use crate::args::HashType;
use crate::args::server::{Serve, Stop};
use crate::conf::OnLine;
use crate::settings::Role;
use crate::{Failure, clock, load, load_as, output, work};
use node::Fault;
use node::handle::Handle;
use node::jobs::{self, FromSnapshot, PeerSettings, SyncOptions};
use node::options::Options;
use node::reporting::{Event, Events, JobReport};
use p2p::Peers;
use serde::Serialize;
use server::ban_file::BanFile;
use server::calls;
use server::context::{Context, Program};
use server::http::Server;
use server::not_started::NotStarted;
use server::registry::Registry;
use server::settings::Settings;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;
use store::private_files::PrivateDir;
use watch::Board;

/// The server to run during a job, if any.
pub(crate) struct Wanted {
    server: Option<(Settings, Arc<Handle>)>,
    peers: Arc<Peers>,
    is_served: bool,
    categories: Vec<&'static str>,
}

impl Wanted {
    /// A server with these settings. `categories` are the enabled log categories.
    pub(crate) fn of(settings: Option<Settings>, is_served: bool, categories: &[&'static str]) -> Wanted {
        let with_handle = |settings: Settings| {
            let handle: Arc<Handle> = Arc::default();
            if settings.accepts_nonstandard {
                handle.mempool().accept_nonstandard();
            }
            if let Some(expiry) = settings.mempool_expiry {
                handle.mempool().expire_after(expiry.as_secs());
            }
            (settings, handle)
        };
        Wanted { server: settings.map(with_handle), peers: Arc::default(), is_served, categories: categories.to_vec() }
    }

    /// The handle through which the server queries the job's connections.
    pub(crate) fn peers(&self) -> Arc<Peers> {
        self.peers.clone()
    }

    /// The handle for the job.
    pub(crate) fn handle(&self) -> Option<Arc<Handle>> {
        self.server.as_ref().map(|(_, handle)| handle.clone())
    }

    /// Runs `job` while the server answers calls.
    ///
    /// # Errors
    ///
    /// The server cannot be started; the errors of the job.
    pub(crate) fn around(
        &self,
        options: &Options,
        events: Events<'_>,
        job: impl FnOnce(&Options, Events<'_>) -> Result<JobReport, Fault>,
    ) -> Result<JobReport, Fault> {
        let (bans, is_there) = read_bans(&self.peers, options, events);
        let Some((settings, handle)) = &self.server else { return job(options, events) };
        // Another program's cookie must not be replaced.
        jobs::check_free(options, events)?;
        let mut options = options.clone();
        if !is_there {
            options.own_files.first_lines.push("Recreating the banlist database".to_owned());
            bans.write(Vec::new).err().into_iter().for_each(|why| events(Event::Warning(why.to_string())));
        }
        let board = Arc::new(self.board(&options));
        let seen = |event: Event| {
            board.event(&event);
            events(event);
        };
        let events: Events<'_> = &seen;
        let program = Program {
            stop: options.stop.clone(),
            set_mock_time: clock::setter(&options.params),
            log_path: options.log_path().unwrap_or_default(),
            is_served: self.is_served,
            board: board.clone(),
            peers: self.peers.clone(),
            bans,
            version: options.build,
        };
        let context = Context::new(handle.clone(), Registry::new(calls::all()), program)
            .with_room(settings.threads, settings.work_queue);
        self.categories.iter().for_each(|category| context.set_logging(category, true));
        let server = Server::start(settings.clone(), Arc::new(context)).map_err(|why| not_started(&why))?;
        server.warnings().iter().for_each(|why| events(Event::Warning(why.clone())));
        for address in server.addresses() {
            events(Event::Note(format!("Answering RPC calls on {address}")));
        }
        let done = job(&options, events);
        board.stopping();
        handle.opening("Shutting down");
        server.stop();
        done
    }
}

impl Wanted {
    fn board(&self, options: &Options) -> Board {
        let settings = watch::board::Settings {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build: options.build.to_owned(),
            chain: options.params.chain.name().to_owned(),
            datadir: options.datadir.clone(),
            dbcache_bytes: options.dbcache_bytes as u64,
            workers: options.par,
            at_rest: self.is_served,
            clock: SystemTime::now,
        };
        Board::new(settings, self.peers.clone())
    }
}

/// Sets the bans of earlier runs of bitcoind or ffwd. Returns their file, and whether it exists.
pub(crate) fn read_bans(peers: &Peers, options: &Options, events: Events<'_>) -> (BanFile, bool) {
    let net_dir = options.datadir.join(options.params.chain.net_dir());
    let file = BanFile::new(PrivateDir::new(options.disk.clone(), net_dir));
    let read = file.read();
    let is_there = read.is_some();
    let (bans, why) = read.unwrap_or_default();
    peers.bans().replace(bans);
    why.into_iter().for_each(|why| events(Event::Warning(why)));
    (file, is_there)
}

/// Why there is no server, with the remedy for this cause.
fn not_started(why: &NotStarted) -> Fault {
    let what = format!("the server cannot be started: {why}");
    match why {
        NotStarted::Unbound(_) => {
            Fault::refused(what, "Give --rpcport another port, or --rpcbind an address of this machine")
        }
        NotStarted::Cookie(_) => {
            Fault::refused(what, "Give --rpccookiefile a file in an existing directory that this user may write")
        }
        NotStarted::Auth => Fault::refused(what, "Give --rpcauth USER:SALT$HASH, which Core's share/rpcauth makes"),
        NotStarted::System(_) => Fault::refused(what, "Raise the system's limits of threads and open files (ulimit)"),
    }
}

/// The command `ffwd serve`.
///
/// # Errors
///
/// [`Failure`].
pub(crate) fn run(given: &Serve, line: &OnLine) -> Result<ExitCode, Failure> {
    let mut settings = load_as(Role::Serve, &given.common, Some(&given.writing), line)?;
    let server = Wanted::of(settings.server(&given.server, true)?, true, &settings.categories);
    let peers = PeerSettings { control: server.peers(), ..PeerSettings::default() };
    let sync = SyncOptions { handle: server.handle(), peers, ..SyncOptions::alone() };
    work("serve", &settings, &given.common, HashType::None, false, |options, events| {
        server.around(options, events, |options, events| {
            jobs::sync_from(options, &sync, &FromSnapshot::default(), events)
        })
    })
}

#[derive(Serialize)]
struct StopObject<'a> {
    chain: &'static str,
    datadir: String,
    answer: &'a str,
}

/// The command `ffwd stop`: sends `stop` to the RPC port of the data directory.
///
/// # Errors
///
/// [`Failure`]: no program answers, or it has another password.
pub(crate) fn stop(given: &Stop) -> Result<ExitCode, Failure> {
    let mut settings = load(&given.common, None)?;
    let Some(server) = settings.server(&given.server, true)? else {
        return Err(Failure::Usage("server=0: no server runs that could be stopped".to_owned()));
    };
    let user = match (server.password.is_empty(), &server.cookie_file) {
        (false, _) => format!("{}:{}", server.user, server.password),
        (true, Some(path)) => std::fs::read_to_string(path).map_err(|why| {
            Failure::fault(format!("{} cannot be read: {why}", path.display()), "Is it running, with --server?")
        })?,
        (true, None) => return Err(Failure::Usage("there is neither a cookie nor --rpcpassword".to_owned())),
    };
    let at: Vec<String> = server.bind.iter().map(ToString::to_string).collect();
    let body = "{\"method\":\"stop\",\"id\":\"ffwd\"}".to_owned();
    let (status, answer) = server::client::post(&server.bind, user.trim(), body).map_err(|why| {
        Failure::fault(format!("no answer on {}: {why}", at.join(", ")), "Is it running, with --server?")
    })?;
    let answer = server::json::Json::parse(&answer).unwrap_or_default();
    match answer.field("result") {
        Some(server::json::Json::Str(text)) if status == 200 => {
            if given.common.json {
                let chain = settings.options.params.chain.name();
                let datadir = settings.options.datadir.display().to_string();
                output::print(&output::json(&StopObject { chain, datadir, answer: text }));
            } else {
                output::print(text);
            }
            Ok(ExitCode::SUCCESS)
        }
        _ => {
            let what = format!("{} answered with status {status}: {}", at.join(", "), answer.text());
            Err(Failure::fault(
                what,
                "Give the server's --rpcuser and --rpcpassword, or its --datadir, which has the cookie",
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn remedy_fits_the_cause() {
        let io = || io::Error::from(io::ErrorKind::PermissionDenied);
        for (why, want) in [
            (NotStarted::Unbound("x".into()), "Give --rpcport another port"),
            (NotStarted::Cookie(io()), "Give --rpccookiefile a file"),
            (NotStarted::Auth, "Give --rpcauth USER:SALT$HASH"),
            (NotStarted::System(io()), "Raise the system's limits"),
        ] {
            let text = not_started(&why).to_string();
            assert!(text.contains(want), "{text}");
        }
    }
}
