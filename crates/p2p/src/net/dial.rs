//! Connections and names that take their time, in threads of their own.

use super::{LoopMessage, LoopSender};
use crate::api::PeerId;
use crate::rng::Rng;
use crate::socks5::{self, Host};
use crate::wire::Target;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long a connection may take to be made. Source: Core's `DEFAULT_CONNECT_TIMEOUT`.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a proxy may take for each answer. Source: Core's `SOCKS5_RECV_TIMEOUT`.
pub(super) const PROXY_TIMEOUT: Duration = Duration::from_secs(20);
/// Addresses of a name that are tried.
const NAME_ADDRESS_COUNT_MAX: usize = 4;

/// Begins a connection to `target`.
pub(super) fn dial(peer: PeerId, target: Target, proxy: Option<String>, inbox_sender: &LoopSender) {
    let answer = inbox_sender.clone();
    let work = move || {
        let result = connect(&target, proxy.as_deref()).map_err(|why| why.to_string());
        answer.send(LoopMessage::Dialed(peer, result));
    };
    if let Err(why) = std::thread::Builder::new().name("ffwd-dial".to_owned()).spawn(work) {
        inbox_sender.send(LoopMessage::Dialed(peer, Err(format!("no thread to connect with: {why}"))));
    }
}

/// Begins to look up a name.
pub(super) fn resolve(name: String, port: u16, inbox_sender: &LoopSender) {
    let (answer, asked) = (inbox_sender.clone(), name.clone());
    let work = move || {
        let found = (asked.as_str(), port).to_socket_addrs().map_or_else(|_| Vec::new(), Iterator::collect);
        answer.send(LoopMessage::Resolved(asked, found));
    };
    if std::thread::Builder::new().name("ffwd-resolve".to_owned()).spawn(work).is_err() {
        inbox_sender.send(LoopMessage::Resolved(name, Vec::new()));
    }
}

/// Whether a proxy is for this target: in Core it is for the networks, and not for addresses of this machine or a local network.
/// Source: Bitcoin Core b88bffe, netbase.cpp, `GetProxy` of `NET_UNROUTABLE`.
fn is_proxied(target: &Target) -> bool {
    match target {
        Target::Peer(peer) => peer.address.to_ip().is_none() || peer.address.is_routable(),
        Target::Name(..) => true,
    }
}

fn connect(target: &Target, proxy: Option<&str>) -> Result<TcpStream, Box<dyn std::error::Error>> {
    let stream = match proxy.filter(|_| is_proxied(target)) {
        Some(proxy) => through_proxy(target, proxy)?,
        None => match target {
            Target::Peer(peer) => {
                let ip = peer.address.to_ip().ok_or("only a proxy (--proxy) reaches this network")?;
                TcpStream::connect_timeout(&SocketAddr::new(ip, peer.port), CONNECT_TIMEOUT)?
            }
            Target::Name(name, port) => to_name(&format!("{name}:{port}"))?,
        },
    };
    prepare(&stream)?;
    Ok(stream)
}

/// What every socket to a peer has: requests leave at once, and nothing waits.
pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)
}

fn to_name(name: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, format!("{name} has no address"));
    for address in name.to_socket_addrs()?.take(NAME_ADDRESS_COUNT_MAX) {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(why) => last = why,
        }
    }
    Err(last)
}

fn through_proxy(target: &Target, proxy: &str) -> Result<TcpStream, Box<dyn std::error::Error>> {
    let (host, port) = match target {
        Target::Name(name, port) => (Host::Name(name.clone()), *port),
        Target::Peer(peer) => {
            let host = peer.address.to_ip().map_or_else(|| Host::Name(peer.address.to_string()), Host::Ip);
            (host, peer.port)
        }
    };
    let mut stream = to_name(proxy).map_err(|why| format!("proxy {proxy}: {why}"))?;
    stream.set_read_timeout(Some(PROXY_TIMEOUT))?;
    stream.set_write_timeout(Some(PROXY_TIMEOUT))?;
    socks5::connect(&mut stream, &host, port, Rng::System.number())?;
    Ok(stream)
}
