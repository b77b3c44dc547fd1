//! The owner of a connection on this machine: the user of the socket at its other end.
//!
//! Linux lists sockets in `/proc/net/tcp` and `tcp6`: a line for each socket, with both ends and its user.
//!
//! ```text
//!   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
//!    0: 0100007F:208C 0100007F:B2F4 01 00000000:00000000 00:00000000 00000000  1000        0 5512 ..
//! ```
//!
//! Addresses are words of 32 bits in the machine's byte order, ports are numbers. A socket without a program is
//! listed as root's: only established connections count.
//! Absent on purpose: other systems, on which the owner of a connection is unknown.
//! Source: Linux, Documentation/networking/proc_net_tcp.rst.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Maximum length of a line: Linux writes some 150 bytes.
const LINE_BYTES_MAX: usize = 1024;
/// State of an established connection.
const ESTABLISHED: &str = "01";

/// An address without a scope, and a port.
type End = (IpAddr, u16);

/// An established connection, seen from one end.
struct Socket {
    local: End,
    remote: End,
    user: u32,
}

/// Whether the socket at `client`, connected to ours at `server`, belongs to the same user, or to root, which can
/// read everything on this machine anyway.
pub(crate) fn is_own(client: SocketAddr, server: SocketAddr) -> bool {
    let mut users = Users { ends: (canonical(client), canonical(server)), client: None, server: None };
    for table in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        if let Ok(file) = File::open(table) {
            users.look(BufReader::new(file));
        }
    }
    match (users.client, users.server) {
        (Some(client), Some(server)) => client == server || client == 0,
        _ => false,
    }
}

fn canonical(address: SocketAddr) -> End {
    (address.ip().to_canonical(), address.port())
}

/// The users of both ends of a connection, if found.
struct Users {
    /// The client's and the server's.
    ends: (End, End),
    client: Option<u32>,
    server: Option<u32>,
}

impl Users {
    fn look(&mut self, table: impl std::io::Read) {
        let mut lines = BufReader::new(table);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = std::io::Read::take(&mut lines, LINE_BYTES_MAX as u64).read_until(b'\n', &mut line);
            if !matches!(read, Ok(1..)) {
                return;
            }
            let Some(Socket { local, remote, user }) = std::str::from_utf8(&line).ok().and_then(socket) else {
                continue;
            };
            let (client, server) = self.ends;
            if (local, remote) == (client, server) {
                self.client = Some(user);
            } else if (local, remote) == (server, client) {
                self.server = Some(user);
            }
        }
    }
}

/// Parses a line of the table; `None` for another state.
fn socket(line: &str) -> Option<Socket> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let local = fields.next()?;
    let remote = fields.next()?;
    let state = fields.next()?;
    let user = fields.nth(3)?.parse().ok()?;
    (state == ESTABLISHED).then_some(Socket { local: end(local)?, remote: end(remote)?, user })
}

fn end(text: &str) -> Option<End> {
    let (address, port) = text.split_once(':')?;
    let mut bytes = Vec::new();
    for word in address.as_bytes().chunks(8) {
        bytes.extend(u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?.to_ne_bytes());
    }
    let address = match bytes.len() {
        4 => IpAddr::V4(Ipv4Addr::from(*bytes.first_chunk::<4>()?)),
        16 => IpAddr::V6(Ipv6Addr::from(*bytes.first_chunk::<16>()?)),
        _ => return None,
    };
    Some((address.to_canonical(), u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    /// A table of a machine with 32-bit words that begin with their lowest byte.
    #[cfg(target_endian = "little")]
    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:208C 00000000:0000 0A 00000000:00000000 00:00000000 00000000   101        0 1 1 0 100 0 0 10 0
   1: 0100007F:208C 0100007F:B2F4 01 00000000:00000000 00:00000000 00000000   101        0 2 1 0 20 4 30 10 -1
   2: 0100007F:B2F4 0100007F:208C 01 00000000:00000000 00:00000000 00000000  1000        0 3 1 0 20 4 30 10 -1
   3: 0100007F:B2F6 0100007F:208C 06 00000000:00000000 03:00000000 00000000     0        0 0 3 0
   4: 0000000000000000FFFF00000100007F:B2F8 0000000000000000FFFF00000100007F:208C 01 0:0 00:0 0  7  0 4
   5: garbage
   6: 0100007F:B2FA 0100007F:208C 01 00000000:00000000 00:00000000 00000000
";

    #[test]
    #[cfg(target_endian = "little")]
    fn both_ends_of_a_connection_are_found_in_the_table() {
        let server: End = ("127.0.0.1".parse().unwrap(), 0x208c);
        for (row, port, want) in [
            ("established", 0xb2f4, (Some(1000), Some(101))),
            ("closed by its program", 0xb2f6, (None, None)),
            ("an IPv6 socket to an IPv4 address", 0xb2f8, (Some(7), None)),
            ("without a user", 0xb2fa, (None, None)),
            ("another", 1, (None, None)),
        ] {
            let mut users = Users { ends: (("127.0.0.1".parse().unwrap(), port), server), client: None, server: None };
            users.look(TABLE.as_bytes());
            assert_eq!((users.client, users.server), want, "{row}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn connection_of_this_program_is_its_own() {
        for place in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(place) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, peer) = listener.accept().unwrap();
            assert!(is_own(peer, server.local_addr().unwrap()), "{place}");
            drop(client);
            let other = SocketAddr::new(peer.ip(), 1);
            assert!(!is_own(other, server.local_addr().unwrap()), "{place}: nobody's");
        }
    }
}
