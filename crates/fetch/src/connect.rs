//! Connections to mirrors: TCP or TLS, optionally through a SOCKS5 proxy, with a timeout on every read.

use crate::http::{self, Failure, HEAD_BYTES_MAX, Head};
use crate::url::{Scheme, Url};
use p2p::wire::Target;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Inactivity timeout of a mirror.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Timeout of the head of an answer, and of a body of some KiB.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Interval of checks whether the transfer has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum number of addresses tried for a name.
const ADDRESS_COUNT_MAX: usize = 4;
/// Maximum bytes of one read.
pub(crate) const READ_BYTES: usize = 64 << 10;

/// Settings shared by all connections of a transfer.
pub(crate) struct Dialer {
    /// `--proxy`.
    pub(crate) proxy: Option<String>,
    /// User agent.
    pub(crate) agent: String,
    /// TLS configuration, loaded at the first connection with HTTPS.
    pub(crate) tls: OnceLock<Result<Arc<ClientConfig>, String>>,
    /// The transfer is over.
    pub(crate) has_ended: AtomicBool,
}

/// TLS configuration with the trusted certificate authorities: the system's, or those of SSL_CERT_FILE and
/// SSL_CERT_DIR.
///
/// # Errors
///
/// No authority was found.
fn tls_config() -> Result<Arc<ClientConfig>, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (count, _) = roots.add_parsable_certificates(found.certs);
    if count == 0 {
        let why = found.errors.first().map_or(String::new(), |why| format!(" ({why})"));
        return Err(format!(
            "this system has no certificates of authorities{why}: install them (ca-certificates), or name a file with \
             SSL_CERT_FILE"
        ));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|why| why.to_string())?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

enum Socket {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// A connection to one server.
pub(crate) struct Connection<'d> {
    dialer: &'d Dialer,
    url: Url,
    socket: Socket,
    /// Bytes read and not yet used.
    buffer: Vec<u8>,
}

/// Fails if the answer that began at `since` takes longer than [`ANSWER_MAX`], even if bytes keep arriving.
pub(crate) fn check_slowness(since: Instant) -> Result<(), Failure> {
    match since.elapsed() >= ANSWER_MAX {
        true => Err(later(format!("its answer takes more than {} s", ANSWER_MAX.as_secs()))),
        false => Ok(()),
    }
}

fn later(why: impl std::fmt::Display) -> Failure {
    Failure::Later(why.to_string())
}

impl Dialer {
    /// Connects to the server of a URL.
    ///
    /// # Errors
    ///
    /// It cannot be reached, or has no trusted certificate.
    pub(crate) fn connect(&self, url: &Url) -> Result<Connection<'_>, Failure> {
        let tcp = self.tcp(url)?;
        let settle = || {
            // Only TCP delays small writes: a proxy may have a Unix socket.
            let _ = tcp.set_nodelay(true);
            tcp.set_read_timeout(Some(LOOK_INTERVAL))?;
            tcp.set_write_timeout(Some(CONNECT_TIMEOUT))
        };
        settle().map_err(later)?;
        let socket = match url.scheme {
            Scheme::Http => Socket::Plain(tcp),
            Scheme::Https => {
                let config = self.tls.get_or_init(tls_config).as_ref().map_err(|why| Failure::Never(why.clone()))?;
                Socket::Tls(Box::new(handshake(self, config, url, tcp)?))
            }
        };
        Ok(Connection { dialer: self, url: url.clone(), socket, buffer: Vec::new() })
    }

    fn tcp(&self, url: &Url) -> Result<TcpStream, Failure> {
        // An invalid name is not looked up: with a proxy, the look-up would bypass it.
        let target = Target::parse(&format!("{}:{}", url.host_in_url(), url.port), url.port)
            .map_err(|why| Failure::Never(why.to_string()))?;
        match &self.proxy {
            Some(proxy) if target.is_proxied() => p2p::net::connect_through(proxy, &target).map_err(later),
            None if matches!(&target, Target::Peer(peer) if peer.address.to_ip().is_none()) => {
                Err(Failure::Never("only a proxy (--proxy) reaches this network".to_owned()))
            }
            _ => to_any((url.host.as_str(), url.port)),
        }
    }
}

/// Connects to the first address of a name that accepts the connection.
fn to_any(name: impl ToSocketAddrs) -> Result<TcpStream, Failure> {
    let addresses: Vec<SocketAddr> = name.to_socket_addrs().map_err(later)?.take(ADDRESS_COUNT_MAX).collect();
    let mut last = later("its name has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(why) => last = later(why),
        }
    }
    Err(last)
}

fn handshake(
    dialer: &Dialer,
    config: &Arc<ClientConfig>,
    url: &Url,
    mut tcp: TcpStream,
) -> Result<StreamOwned<ClientConnection, TcpStream>, Failure> {
    let name = ServerName::try_from(url.host.clone()).map_err(|why| Failure::Never(why.to_string()))?;
    let mut tls = ClientConnection::new(config.clone(), name).map_err(|why| Failure::Never(why.to_string()))?;
    let begun = Instant::now();
    while tls.is_handshaking() {
        match tls.complete_io(&mut tcp) {
            Ok(_) => {}
            Err(why) if is_pause(&why) => dialer.check_silence(begun)?,
            Err(why) => return Err(of_tls(&why)),
        }
    }
    Ok(StreamOwned::new(tls, tcp))
}

/// A certificate that is not trusted now will not be trusted later.
fn of_tls(why: &io::Error) -> Failure {
    let of = why.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match of {
        Some(rustls::Error::InvalidCertificate(_)) => {
            Failure::Never(format!("{why}. If you trust its authority, name that one's certificate with SSL_CERT_FILE"))
        }
        _ => later(why),
    }
}

/// Nothing arrived within [`LOOK_INTERVAL`].
fn is_pause(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

impl Dialer {
    fn check_silence(&self, since: Instant) -> Result<(), Failure> {
        if self.has_ended.load(Relaxed) {
            return Err(later("the transfer has ended"));
        }
        if since.elapsed() >= SILENCE_MAX {
            return Err(later(format!("it has sent nothing for {} s", SILENCE_MAX.as_secs())));
        }
        Ok(())
    }
}

impl Connection<'_> {
    /// Whether a request for `url` can use this connection.
    pub(crate) fn serves(&self, url: &Url) -> bool {
        self.url.is_same_server(url)
    }

    /// Requests the bytes from `from` on, and reads the head of the answer.
    ///
    /// # Errors
    ///
    /// The connection breaks, or the answer is not HTTP.
    pub(crate) fn ask(&mut self, url: &Url, from: u64, to: Option<u64>) -> Result<Head, Failure> {
        let request = http::request(url, from, to, &self.dialer.agent);
        match &mut self.socket {
            Socket::Plain(tcp) => tcp.write_all(&request),
            Socket::Tls(tls) => tls.write_all(&request).and_then(|()| tls.flush()),
        }
        .map_err(later)?;
        // A few 1xx heads may precede the answer.
        for _ in 0..5 {
            let head = self.head()?;
            if head.status >= 200 {
                return Ok(head);
            }
        }
        Err(Failure::Never("it does not speak HTTP/1".to_owned()))
    }

    fn head(&mut self) -> Result<Head, Failure> {
        let begun = Instant::now();
        loop {
            check_slowness(begun)?;
            if let Some(end) = http::head_end(&self.buffer) {
                let head = http::parse_head(&self.buffer[..end]);
                self.buffer.drain(..end);
                return head;
            }
            if self.buffer.len() > HEAD_BYTES_MAX {
                return Err(Failure::Never("the head of its answer does not end".to_owned()));
            }
            let mut piece = [0; 4096];
            let count = self.read_socket(&mut piece)?;
            self.buffer.extend_from_slice(&piece[..count]);
        }
    }

    /// Reads part of the body, at least a byte.
    ///
    /// # Errors
    ///
    /// The connection breaks, or times out.
    pub(crate) fn read(&mut self, out: &mut [u8]) -> Result<usize, Failure> {
        if self.buffer.is_empty() {
            return self.read_socket(out);
        }
        let count = self.buffer.len().min(out.len());
        out[..count].copy_from_slice(&self.buffer[..count]);
        self.buffer.drain(..count);
        Ok(count)
    }

    fn read_socket(&mut self, out: &mut [u8]) -> Result<usize, Failure> {
        let begun = Instant::now();
        loop {
            let read = match &mut self.socket {
                Socket::Plain(tcp) => tcp.read(out),
                Socket::Tls(tls) => tls.read(out),
            };
            match read {
                Ok(0) => return Err(later("it has closed the connection in the middle of an answer")),
                Ok(count) => return Ok(count),
                Err(why) if is_pause(&why) => self.dialer.check_silence(begun)?,
                Err(why) => return Err(of_tls(&why)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    fn dialer(proxy: Option<String>) -> Dialer {
        Dialer { proxy, agent: "test".to_owned(), tls: OnceLock::new(), has_ended: AtomicBool::default() }
    }

    /// The message of a connection that is refused for good.
    fn refused(dialer: &Dialer, url: &str) -> String {
        match dialer.connect(&Url::parse(url).unwrap()) {
            Err(Failure::Never(why)) => why,
            Err(Failure::Later(why)) => panic!("{url}: tried again after {why}"),
            Ok(_) => panic!("{url}: connected"),
        }
    }

    /// A name that is not valid would be looked up past the proxy, an onion service past Tor.
    #[test]
    fn names_that_only_a_proxy_may_see_are_not_looked_up() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("proxy");
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let proxied = dialer(Some(format!("unix:{}", path.display())));
        for url in ["http://a!b.example/x", "http://mistyped.onion/x"] {
            let why = refused(&proxied, url);
            assert!(!why.is_empty(), "{url}");
            assert!(listener.accept().is_err(), "{url}: the proxy is not asked");
        }
        let onion = "http://pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion/x";
        assert!(refused(&dialer(None), onion).contains("only a proxy"));
    }

    fn take(socket: &mut UnixStream, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        socket.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// As `--proxy unix:PATH` is for peers.
    #[test]
    fn a_proxy_may_have_a_unix_socket() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("proxy");
        let listener = UnixListener::bind(&path).unwrap();
        let served = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let methods = take(&mut socket, 2)[1];
            take(&mut socket, methods.into());
            socket.write_all(&[5, 2]).unwrap();
            let user = usize::from(take(&mut socket, 2)[1]);
            let password = take(&mut socket, user + 1)[user];
            take(&mut socket, password.into());
            socket.write_all(&[1, 0]).unwrap();
            let head = take(&mut socket, 5);
            let name = take(&mut socket, usize::from(head[4]) + 2);
            socket.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
            (head, name)
        });
        let dialer = dialer(Some(format!("unix:{}", path.display())));
        assert!(dialer.connect(&Url::parse("http://mirror.example/x").unwrap()).is_ok());
        let (head, name) = served.join().unwrap();
        assert_eq!((&head[..4], &name[..]), (&[5, 1, 0, 3][..], &b"mirror.example\0\x50"[..]));
    }
}
