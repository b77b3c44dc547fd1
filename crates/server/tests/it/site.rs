//! A data directory of regtest's genesis block that is served, and a client that says every byte itself.

use consensus::{Chain, Params};
use node::handle::Handle;
use node::jobs::{FromSnapshot, PeerSettings, SyncOptions, sync_from};
use node::options::{Clock, IndexKind, Options, Prune, real_disk};
use p2p::Peers;
use primitives::{BlockHash, Height, Work};
use server::ban_file::BanFile;
use server::context::{Context, Program};
use server::http::Server;
use server::json::Json;
use server::registry::Registry;
use server::settings::Settings;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};
use store::blockfiles::Limits;
use store::private_files::PrivateDir;
use watch::Board;

/// A served data directory.
pub(crate) struct Site {
    stop: Arc<AtomicBool>,
    job: Option<JoinHandle<()>>,
    server: Option<Server>,
    pub(crate) at: SocketAddr,
    pub(crate) handle: Arc<Handle>,
    /// Where other nodes connect.
    pub(crate) listens_at: Option<SocketAddr>,
    dir: tempfile::TempDir,
}

/// What differs from a data directory that is served without peers.
#[derive(Default)]
struct How {
    listen: Option<SocketAddr>,
    set_mock_time: Option<fn(u64)>,
}

/// `bob:word` in base 64.
pub(crate) const AUTH: &str = "Authorization: Basic Ym9iOndvcmQ=\r\n";

/// Bitcoin Core b88bffe, src/test/data/asmap.raw: a map of autonomous systems, for sites that listen.
pub(crate) const MAP: &str = "fb03ec0fb03fc0fe00fb03ec0fb03fc0fe00fb03ec0fb0fffffeffedb0ffd486e628290000400000400040990100800180040000050006001cf039";

/// A clock that stands still: 2023-11-14, 22:13:20.
fn still() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)
}

fn options(dir: &std::path::Path, clock: Clock, stop: Arc<AtomicBool>) -> Options {
    Options {
        dbcache_bytes: 16 << 20,
        par: 1,
        assumevalid: BlockHash::ZERO,
        minimum_chain_work: Work::ZERO,
        stop,
        ..Options::new(dir.to_path_buf(), Params::new(Chain::Regtest), clock)
    }
}

impl Site {
    /// Serves; with another time for clients where that is given.
    pub(crate) fn new(timeout: Option<Duration>) -> Site {
        Site::at(
            Settings { timeout: timeout.unwrap_or(Settings::default().timeout), ..Settings::default() },
            SystemTime::now,
            |_| {},
        )
    }

    /// Serves by these settings; the user is always the same.
    pub(crate) fn with(settings: Settings) -> Site {
        Site::at(settings, SystemTime::now, |_| {})
    }

    /// Serves by a clock that stands still, what may be pruned by hand from block 100 on, in files of some 200 blocks.
    pub(crate) fn pruned() -> Site {
        Site::at(Settings::default(), still, |options| {
            options.prune = Prune::Manual;
            options.params.prune_after_height = Height::new(100);
            options.sizes.limits = Limits { file_bytes_max: 1 << 16, chunk_bytes: 1 << 14 };
        })
    }

    /// Serves by a clock that stands still.
    pub(crate) fn still() -> Site {
        Site::at(Settings::default(), still, |_| {})
    }

    /// Serves, with all indexes.
    pub(crate) fn indexed() -> Site {
        let settings = Settings { rest: true, ..Settings::default() };
        Site::at(settings, SystemTime::now, |options| options.indexes = IndexKind::ALL.to_vec())
    }

    /// Serves, and other nodes may connect.
    pub(crate) fn listening() -> Site {
        // Free a moment ago: the next one that is given is another.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        Site::how(Settings::default(), SystemTime::now, |_| {}, How { listen: Some(free), ..How::default() })
    }

    /// Serves; its clock may be set, which does nothing.
    pub(crate) fn mocked() -> Site {
        Site::how(Settings::default(), still, |_| {}, How { set_mock_time: Some(|_| {}), ..How::default() })
    }

    fn at(settings: Settings, clock: Clock, change: impl FnOnce(&mut Options)) -> Site {
        Site::how(settings, clock, change, How::default())
    }

    fn how(settings: Settings, clock: Clock, change: impl FnOnce(&mut Options), how: How) -> Site {
        let dir = tempfile::tempdir().unwrap();
        let (stop, handle) = (Arc::new(AtomicBool::new(false)), Arc::new(Handle::default()));
        let mut options = options(dir.path(), clock, stop.clone());
        change(&mut options);
        let peers: Arc<Peers> = Arc::default();
        let alone = SyncOptions::alone();
        let asmap = how.listen.map(|_| {
            std::fs::create_dir_all(dir.path().join("regtest")).unwrap();
            std::fs::write(dir.path().join("regtest/some.map"), primitives::hex::decode(MAP).unwrap()).unwrap();
            "some.map".into()
        });
        let sync = SyncOptions {
            handle: Some(handle.clone()),
            listen: how.listen.into_iter().collect(),
            peers: PeerSettings { control: peers.clone(), asmap, ..alone.peers },
            ..alone
        };
        let board = watch::board::Settings {
            version: "test".to_owned(),
            build: "test".to_owned(),
            chain: "regtest".to_owned(),
            datadir: dir.path().to_path_buf(),
            dbcache_bytes: 16 << 20,
            workers: 1,
            at_rest: true,
            clock: SystemTime::now,
        };
        let program = Program {
            stop: stop.clone(),
            set_mock_time: how.set_mock_time,
            log_path: dir.path().join("debug.log"),
            is_served: true,
            board: Arc::new(Board::new(board, peers.clone())),
            peers,
            bans: BanFile::new(PrivateDir::new(real_disk(), dir.path().join("regtest"))),
            version: "test",
        };
        let context = Context::new(handle.clone(), Registry::new(server::calls::all()), program)
            .with_room(settings.threads, settings.work_queue);
        let settings = Settings {
            bind: match settings.bind.is_empty() {
                true => vec!["127.0.0.1:0".parse().unwrap()],
                false => settings.bind,
            },
            user: "bob".to_owned(),
            password: "word".to_owned(),
            ..settings
        };
        let server = Server::start(settings, Arc::new(context)).unwrap();
        let job = std::thread::spawn(move || {
            sync_from(&options, &sync, &FromSnapshot::default(), &|_| {}).unwrap();
        });
        while handle.live().is_err() {
            assert!(!job.is_finished(), "the job goes on");
            std::thread::sleep(Duration::from_millis(5));
        }
        Site {
            stop,
            job: Some(job),
            at: server.addresses()[0],
            handle,
            listens_at: how.listen,
            server: Some(server),
            dir,
        }
    }

    /// Takes blocks in; `blocks` begins with genesis.
    pub(crate) fn take_blocks(&self, blocks: &[&[u8]], heights: Range<usize>) {
        for height in heights {
            let block = primitives::hex::encode(blocks[height]);
            assert_eq!(self.call("submitblock", &format!("[\"{block}\"]")), Ok(Json::Null), "block {height}");
        }
    }

    /// Takes headers in.
    pub(crate) fn take_headers(&self, blocks: &[&[u8]], heights: Range<usize>) {
        for height in heights {
            let header = primitives::hex::encode(&blocks[height][..80]);
            assert_eq!(self.call("submitheader", &format!("[\"{header}\"]")), Ok(Json::Null), "header {height}");
        }
    }

    /// Ends the job, as Ctrl-C does; the server goes on.
    pub(crate) fn end_job(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        assert!(self.job.take().is_some_and(|job| job.join().is_ok()), "the job ends well");
    }

    /// Blocks the job, and with it every call that asks it, until the result is dropped: as a full disk does.
    pub(crate) fn block_job(&self) -> Sender<()> {
        let (end, ended) = channel::<()>();
        let (begun, begins) = channel();
        let handle = self.handle.clone();
        std::thread::spawn(move || {
            handle.ask(move |_| {
                begun.send(()).unwrap();
                let _ = ended.recv();
                Ok(())
            })
        });
        begins.recv().unwrap();
        end
    }

    /// The directory of the network's files; relative paths of calls begin there.
    pub(crate) fn net_dir(&self) -> std::path::PathBuf {
        self.dir.path().join("regtest")
    }

    pub(crate) fn log_path(&self) -> std::path::PathBuf {
        self.dir.path().join("regtest/debug.log")
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.at).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Sends bytes and reads until the end: status, head and body.
    pub(crate) fn raw(&self, request: &[u8]) -> (u16, String, Vec<u8>) {
        let mut stream = self.connect();
        // The server may answer, and close, before it has read all.
        let _ = stream.write_all(request);
        answer(stream)
    }

    /// One request with the password.
    pub(crate) fn post(&self, body: impl AsRef<[u8]>) -> (u16, String, Vec<u8>) {
        let body = body.as_ref();
        let head =
            format!("POST / HTTP/1.1\r\nHost: x\r\n{AUTH}Connection: close\r\nContent-Length: {}\r\n\r\n", body.len());
        self.raw(&[head.as_bytes(), body].concat())
    }

    /// The result of a call, or its error.
    pub(crate) fn call(&self, method: &str, params: &str) -> Result<Json, (i64, String)> {
        let (_, _, body) = self.post(format!("{{\"method\":\"{method}\",\"params\":{params},\"id\":1}}"));
        let reply = Json::parse(&body).unwrap();
        match reply.field("error").unwrap() {
            Json::Null => Ok(reply.field("result").unwrap().clone()),
            error => match (error.field("code"), error.field("message")) {
                (Some(Json::Int(code)), Some(Json::Str(text))) => Err((*code, text.clone())),
                _ => panic!("{reply:?}"),
            },
        }
    }
}

/// What the server says until it closes.
pub(crate) fn answer(mut stream: TcpStream) -> (u16, String, Vec<u8>) {
    let mut bytes = Vec::new();
    // A reset after the answer is no answer less.
    let _ = stream.read_to_end(&mut bytes);
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(bytes.len());
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, head, bytes.get(end + 4..).unwrap_or_default().to_vec())
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.job.take().map(JoinHandle::join);
        drop(self.server.take());
        assert!(std::thread::panicking() || ended.is_none_or(|ended| ended.is_ok()), "the job ends well");
    }
}
