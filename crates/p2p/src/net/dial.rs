//! Connection attempts and name lookups, in separate threads.

use super::{LoopMessage, LoopSender};
use crate::api::PeerId;
use crate::rng::Rng;
use crate::socks5::{self, SocksError};
use crate::trouble::{DialError, TroubleKind};
use crate::wire::Target;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Timeout of a connection attempt. Source: Core's `DEFAULT_CONNECT_TIMEOUT`.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Prefix of the path of a proxy's Unix socket. Source: Core's `ADDR_PREFIX_UNIX`.
const UNIX_PREFIX: &str = "unix:";
/// Timeout of each answer of a proxy. Source: Core's `SOCKS5_RECV_TIMEOUT`.
pub(super) const PROXY_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum number of addresses tried for a name.
const NAME_ADDRESS_COUNT_MAX: usize = 4;

/// Whether each connection through a proxy is isolated, so that Tor gives each its own circuit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Isolation {
    /// Each connection has random credentials.
    Each,
    /// No credentials.
    None,
}

/// A proxy, and how it is used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Proxy {
    pub(super) address: String,
    pub(super) isolation: Isolation,
}

/// Begins a connection attempt to `target`.
pub(super) fn dial(peer: PeerId, target: Target, proxy: Option<Proxy>, inbox_sender: &LoopSender) {
    let answer = inbox_sender.clone();
    let work = move || {
        let result = connect(&target, proxy.as_ref());
        answer.send(LoopMessage::Dialed(peer, result));
    };
    if let Err(why) = std::thread::Builder::new().name("ffwd-dial".to_owned()).spawn(work) {
        let error = DialError::of_peer(TroubleKind::Other, format!("no thread to connect with: {why}"));
        inbox_sender.send(LoopMessage::Dialed(peer, Err(error)));
    }
}

/// Begins a name lookup.
pub(super) fn resolve(name: String, port: u16, inbox_sender: &LoopSender) {
    let answer = inbox_sender.clone();
    let asked = name.clone();
    let work = move || {
        let found = (asked.as_str(), port).to_socket_addrs().map(Iterator::collect).map_err(lookup_text);
        answer.send(LoopMessage::Resolved(asked, found));
    };
    if let Err(why) = std::thread::Builder::new().name("ffwd-resolve".to_owned()).spawn(work) {
        inbox_sender.send(LoopMessage::Resolved(name, Err(format!("no thread to look it up with: {why}"))));
    }
}

/// The message of a resolver, without the prefix common to all such errors.
fn lookup_text(error: io::Error) -> String {
    let text = error.to_string();
    text.strip_prefix("failed to lookup address information: ").map_or(text.clone(), str::to_owned)
}

fn connect(target: &Target, proxy: Option<&Proxy>) -> Result<TcpStream, DialError> {
    let stream = match proxy {
        Some(proxy) => through_proxy(target, proxy)?,
        None => match target {
            Target::Peer(peer) => {
                let no_proxy = || DialError::of_peer(TroubleKind::Other, "only a proxy (--proxy) reaches this network");
                let ip = peer.address.to_ip().ok_or_else(no_proxy)?;
                TcpStream::connect_timeout(&SocketAddr::new(ip, peer.port), CONNECT_TIMEOUT).map_err(of_peer)?
            }
            Target::Name(name, port) => {
                let addresses = look_up(name, *port).map_err(|why| DialError::of(TroubleKind::Lookup, name, why))?;
                to_any(&addresses).map_err(of_peer)?
            }
        },
    };
    let is_unix = proxy.is_some_and(|proxy| proxy.address.starts_with(UNIX_PREFIX));
    // Only TCP delays small writes.
    let prepared = if is_unix { stream.set_nonblocking(true) } else { prepare(&stream) };
    prepared.map_err(of_peer)?;
    Ok(stream)
}

fn of_peer(error: io::Error) -> DialError {
    DialError::of_peer(TroubleKind::of_connect(&error), error.to_string())
}

/// Options of every socket to a peer: no delay of small writes, and no blocking.
pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)
}

/// Connects to a proxy on a Unix socket. Source: Bitcoin Core b88bffe, `ConnectDirectly`, `ADDR_PREFIX_UNIX`.
///
/// Returned as a TCP stream like all others: reads, writes, timeouts and polling work the same for both kinds of
/// socket; calls that only TCP supports return an error.
fn to_unix(path: &str) -> io::Result<TcpStream> {
    let stream = UnixStream::connect(path)?;
    Ok(TcpStream::from(OwnedFd::from(stream)))
}

/// The first addresses of a name, at least one.
fn look_up(name: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let found = (name, port).to_socket_addrs().map_err(lookup_text)?;
    let addresses: Vec<_> = found.take(NAME_ADDRESS_COUNT_MAX).collect();
    if addresses.is_empty() { Err("it has no address".to_owned()) } else { Ok(addresses) }
}

/// Connects to the first of these addresses that accepts the connection.
fn to_any(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect_timeout(address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(why) => last = why,
        }
    }
    Err(last)
}

/// Host and port of the proxy, or the path of its socket after `unix:`; if the port is missing, Tor's is used.
pub(super) fn proxy_address(text: &str) -> io::Result<String> {
    const TOR_PORT: u16 = 9050;
    if text.starts_with(UNIX_PREFIX) {
        return Ok(text.to_owned());
    }
    let target = Target::parse(text, TOR_PORT)
        .map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, format!("--proxy: {why}")))?;
    Ok(target.to_string())
}

/// Connects to `target` through `proxy`, as `--proxy` names it, with credentials of its own. Blocks, as the stream does.
///
/// # Errors
///
/// The proxy is malformed, cannot be reached, or does not connect.
pub fn connect_through(proxy: &str, target: &Target) -> Result<TcpStream, DialError> {
    let malformed = |why: io::Error| DialError::of(TroubleKind::ProxyUnreachable, proxy, why.to_string());
    let address = proxy_address(proxy).map_err(malformed)?;
    through_proxy(target, &Proxy { address, isolation: Isolation::Each })
}

fn through_proxy(target: &Target, proxy: &Proxy) -> Result<TcpStream, DialError> {
    let Proxy { address: proxy, isolation } = proxy;
    let (host, port) = match target {
        Target::Name(name, port) => (name.clone(), *port),
        Target::Peer(peer) => (peer.address.to_string(), peer.port),
    };
    let unreachable = |why: String| DialError::of(TroubleKind::ProxyUnreachable, proxy, why);
    let unreachable_io = |why: io::Error| unreachable(why.to_string());
    let mut stream = match proxy.strip_prefix(UNIX_PREFIX) {
        Some(path) => to_unix(path).map_err(unreachable_io)?,
        None => to_any(&proxy_addresses(proxy).map_err(unreachable)?).map_err(unreachable_io)?,
    };
    stream.set_read_timeout(Some(PROXY_TIMEOUT)).map_err(unreachable_io)?;
    stream.set_write_timeout(Some(PROXY_TIMEOUT)).map_err(unreachable_io)?;
    let credentials = (*isolation == Isolation::Each).then(|| Rng::System.number());
    socks5::connect(&mut stream, &host, port, credentials).map_err(|why| of_proxy(proxy, &why))?;
    Ok(stream)
}

/// The addresses of a proxy. It was validated when the network started: the port is after the last colon.
fn proxy_addresses(proxy: &str) -> Result<Vec<SocketAddr>, String> {
    if let Ok(address) = proxy.parse::<SocketAddr>() {
        return Ok(vec![address]);
    }
    let (name, port) = proxy.rsplit_once(':').unwrap_or((proxy, ""));
    look_up(name, port.parse().unwrap_or_default())
}

/// Maps a SOCKS error: a refusal concerns the peer, everything else concerns the proxy.
fn of_proxy(proxy: &str, error: &SocksError) -> DialError {
    let text = error.to_string();
    match error {
        SocksError::Io(_) => DialError::of(TroubleKind::ProxyUnreachable, proxy, text),
        SocksError::Refused(5) => DialError::of_peer(TroubleKind::Refused, text),
        SocksError::NoReply(_) | SocksError::Refused(4 | 6 | 0xf7) => DialError::of_peer(TroubleKind::TimedOut, text),
        SocksError::Refused(0xf0..=0xf6) => DialError::of_peer(TroubleKind::Other, text),
        SocksError::Refused(_) | SocksError::Protocol(_) | SocksError::Method(_) | SocksError::Credentials => {
            DialError::of(TroubleKind::ProxyRefuses, proxy, text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    fn error(target: &str, proxy: Option<&str>) -> DialError {
        let proxy = proxy.map(|address| Proxy { address: address.to_owned(), isolation: Isolation::Each });
        connect(&Target::parse(target, 8333).unwrap(), proxy.as_ref()).expect_err("it cannot be reached")
    }

    /// An address of this machine at which nothing listens.
    fn nobody() -> String {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
    }

    #[test]
    fn failed_connections_say_what_failed() {
        let refused = error(&nobody(), None);
        assert_eq!((refused.kind, refused.subject.as_str()), (TroubleKind::Refused, ""));
        let lookup = error("no-such-name.invalid", None);
        assert_eq!((lookup.kind, lookup.subject.as_str()), (TroubleKind::Lookup, "no-such-name.invalid"));
        assert!(!lookup.why.contains("failed to lookup"), "{lookup}");
        let proxy = nobody();
        let dead = error("9.9.9.9", Some(&proxy));
        assert_eq!((dead.kind, dead.subject.as_str()), (TroubleKind::ProxyUnreachable, proxy.as_str()), "{dead}");
        assert!(dead.to_string().starts_with(&format!("proxy {proxy} cannot be reached: ")), "{dead}");
        let unnamed = error("9.9.9.9", Some("no-such-proxy.invalid:9050"));
        assert_eq!(unnamed.kind, TroubleKind::ProxyUnreachable, "{unnamed}");
        let onion = error("pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion", None);
        assert_eq!(onion.kind, TroubleKind::Other, "{onion}");
    }

    /// A proxy that answers the greeting, and the request with this code.
    #[test]
    fn refusals_of_a_proxy_are_its_own_or_of_the_peer() {
        for (code, want) in [
            (1, TroubleKind::ProxyRefuses),
            (2, TroubleKind::ProxyRefuses),
            (4, TroubleKind::TimedOut),
            (5, TroubleKind::Refused),
            (0xf0, TroubleKind::Other),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let proxy = listener.local_addr().unwrap().to_string();
            let answers = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                stream.read_exact(&mut [0; 4]).unwrap();
                stream.write_all(&[5, 0]).unwrap();
                stream.read_exact(&mut [0; 14]).unwrap();
                stream.write_all(&[5, code, 0, 1]).unwrap();
            });
            assert_eq!(error("9.9.9.9:8333", Some(&proxy)).kind, want, "{code:#x}");
            answers.join().unwrap();
        }
    }

    /// A proxy on a Unix socket gets the same request as one on TCP, and the bytes after its answer are the peer's.
    #[test]
    fn proxy_on_a_unix_socket_is_reached() {
        let path = std::env::temp_dir().join(format!("ffwd-proxy-{}", std::process::id()));
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let proxy = format!("unix:{}", path.display());
        let served = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut greeting = [0; 2];
            socket.read_exact(&mut greeting).unwrap();
            let mut methods = vec![0; usize::from(greeting[1])];
            socket.read_exact(&mut methods).unwrap();
            socket.write_all(&[5, 0]).unwrap();
            let mut request = [0; 14];
            socket.read_exact(&mut request).unwrap();
            socket.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
            socket.write_all(b"peer").unwrap();
            request
        });
        let target = Target::parse("9.9.9.9:8333", 8333).unwrap();
        let mut stream = connect(&target, Some(&Proxy { address: proxy, isolation: Isolation::Each })).unwrap();
        stream.set_nonblocking(false).unwrap();
        let mut said = [0; 4];
        stream.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"peer");
        // Source: RFC 1928.
        assert_eq!(&served.join().unwrap(), b"\x05\x01\x00\x03\x079.9.9.9\x20\x8d");
        std::fs::remove_file(&path).unwrap();
        let gone = error("9.9.9.9", Some("unix:/nowhere/proxy"));
        assert_eq!((gone.kind, gone.subject.as_str()), (TroubleKind::ProxyUnreachable, "unix:/nowhere/proxy"));
    }
}
