//! SOCKS5 (RFC 1928, RFC 1929): requests a connection from a proxy. Addresses are sent as names too, as in Core,
//! because a proxy with Tor's `SafeSocks` refuses requests by address.
//!
//! Source: Bitcoin Core b88bffe, netbase.cpp, `Socks5`.
//! Each connection may have random credentials, so that Tor gives each its own circuit (Core's `-proxyrandomize`).

use std::fmt;
use std::io::{self, Read, Write};

/// Why the connection failed.
#[derive(Debug)]
pub enum SocksError {
    /// The connection to the proxy failed.
    Io(io::Error),
    /// The proxy does not speak SOCKS5, or sent an invalid answer.
    Protocol(&'static str),
    /// The proxy requires another kind of authentication.
    Method(u8),
    /// The proxy refuses our credentials.
    Credentials,
    /// The proxy does not answer the request: it may still be trying.
    NoReply(io::Error),
    /// The proxy could not connect: the code of RFC 1928.
    Refused(u8),
}

impl From<io::Error> for SocksError {
    fn from(error: io::Error) -> SocksError {
        SocksError::Io(error)
    }
}

impl fmt::Display for SocksError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SocksError::Io(error) => write!(f, "proxy: {error}"),
            SocksError::NoReply(error) => write!(f, "proxy: no answer to the request: {error}"),
            SocksError::Protocol(what) => write!(f, "proxy: not SOCKS5: {what}"),
            SocksError::Method(method) => write!(f, "proxy: wants authentication method {method}"),
            SocksError::Credentials => write!(f, "proxy: refuses our credentials"),
            SocksError::Refused(code) => {
                let text = match code {
                    1 => "general failure",
                    2 => "connection not allowed",
                    3 => "network unreachable",
                    4 => "host unreachable",
                    5 => "connection refused",
                    6 => "TTL expired",
                    7 => "command not supported",
                    8 => "address type not supported",
                    0xf0 => "onion service descriptor can not be found",
                    0xf2 => "onion service introduction failed",
                    0xf3 => "onion service rendezvous failed",
                    0xf7 => "onion service introduction timed out",
                    _ => "unknown code",
                };
                write!(f, "proxy: {text} ({code})")
            }
        }
    }
}

impl std::error::Error for SocksError {}

const NO_AUTHENTICATION: u8 = 0;
const USER_AND_PASSWORD: u8 = 2;
/// The address type of the requests.
const DOMAIN_NAME: u8 = 3;

/// Requests a connection to `host`, a name or an address as text, from the proxy at the other end of `stream`.
///
/// `credentials` becomes user name and password if the proxy requires authentication; without them, authentication is
/// not offered.
///
/// # Errors
///
/// See [`SocksError`]. The proxy's answers are untrusted.
pub fn connect(
    stream: &mut (impl Read + Write),
    host: &str,
    port: u16,
    credentials: Option<u64>,
) -> Result<(), SocksError> {
    match credentials {
        Some(_) => stream.write_all(&[5, 2, NO_AUTHENTICATION, USER_AND_PASSWORD])?,
        None => stream.write_all(&[5, 1, NO_AUTHENTICATION])?,
    }
    match (read::<2>(stream)?, credentials) {
        ([5, NO_AUTHENTICATION], _) => {}
        ([5, USER_AND_PASSWORD], Some(credentials)) => authenticate(stream, credentials)?,
        ([5, method], _) => return Err(SocksError::Method(method)),
        _ => return Err(SocksError::Protocol("greeting")),
    }
    let bytes = u8::try_from(host.len()).map_err(|_| SocksError::Protocol("name longer than 255 bytes"))?;
    let mut request = vec![5, 1, 0, DOMAIN_NAME, bytes];
    request.extend_from_slice(host.as_bytes());
    request.extend_from_slice(&port.to_be_bytes());
    stream.write_all(&request)?;
    read_reply(stream)
}

fn authenticate(stream: &mut (impl Read + Write), credentials: u64) -> Result<(), SocksError> {
    let text = credentials.to_string();
    let bytes = u8::try_from(text.len()).expect("at most 20 digits");
    let mut message = vec![1];
    for _ in 0..2 {
        message.push(bytes);
        message.extend_from_slice(text.as_bytes());
    }
    stream.write_all(&message)?;
    match read::<2>(stream)? {
        [1, 0] => Ok(()),
        [1, _] => Err(SocksError::Credentials),
        _ => Err(SocksError::Protocol("answer to credentials")),
    }
}

/// Reads the answer with the proxy's own address, which is unused but must be removed from the stream.
fn read_reply(stream: &mut impl Read) -> Result<(), SocksError> {
    let [version, code, _, kind] = read::<4>(stream).map_err(|error| match error {
        SocksError::Io(error) if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => {
            SocksError::NoReply(error)
        }
        error => error,
    })?;
    if version != 5 {
        return Err(SocksError::Protocol("answer"));
    }
    if code != 0 {
        return Err(SocksError::Refused(code));
    }
    match kind {
        1 => read::<6>(stream).map(|_| ()),
        4 => read::<18>(stream).map(|_| ()),
        3 => {
            let [bytes] = read::<1>(stream)?;
            let mut rest = vec![0; usize::from(bytes) + 2];
            Ok(stream.read_exact(&mut rest)?)
        }
        _ => Err(SocksError::Protocol("address type")),
    }
}

fn read<const N: usize>(stream: &mut impl Read) -> Result<[u8; N], SocksError> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A proxy that says what it was told to say, and remembers what it heard.
    struct Proxy<'a> {
        says: &'a [u8],
        heard: Vec<u8>,
    }

    impl Read for Proxy<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            self.says.read(out)
        }
    }

    impl Write for Proxy<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.heard.extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn ask(says: &[u8], host: &str) -> (Result<(), SocksError>, Vec<u8>) {
        let mut proxy = Proxy { says, heard: Vec::new() };
        let result = connect(&mut proxy, host, 8333, Some(7));
        assert!(result.is_err() || proxy.says.is_empty(), "nothing of the answer is left for the peer's bytes");
        (result, proxy.heard)
    }

    #[test]
    fn connect_sends_the_bytes_of_rfc_1928() {
        let name = "ab.onion";
        let (result, heard) = ask(&[5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0], name);
        result.unwrap();
        assert_eq!(heard, b"\x05\x02\x00\x02\x05\x01\x00\x03\x08ab.onion\x20\x8d");
        let (result, heard) = ask(&[5, 2, 1, 0, 5, 0, 0, 3, 1, b'x', 0, 0], name);
        result.unwrap();
        assert!(heard.starts_with(b"\x05\x02\x00\x02\x01\x017\x017\x05"));
        let (result, heard) = ask(&[[5, 0, 5, 0, 0, 4].as_slice(), &[0; 18]].concat(), "1.2.3.4");
        result.unwrap();
        assert!(heard.ends_with(b"\x05\x01\x00\x03\x071.2.3.4\x20\x8d"));
    }

    #[test]
    fn refused_connect_names_the_reason() {
        for (row, says, want) in [
            ("closed", &[][..], "proxy: "),
            ("http", b"HT", "not SOCKS5: greeting"),
            ("other method", &[5, 255], "authentication method 255"),
            ("credentials", &[5, 2, 1, 1], "refuses our credentials"),
            ("credentials answer", &[5, 2, 2, 0], "answer to credentials"),
            ("refused", &[5, 0, 5, 5, 0, 1], "connection refused (5)"),
            ("no onion", &[5, 0, 5, 0xf0, 0, 1], "descriptor can not be found"),
            ("unknown", &[5, 0, 5, 99, 0, 1], "unknown code (99)"),
            ("answer", &[5, 0, 4, 0, 0, 1], "not SOCKS5: answer"),
            ("address type", &[5, 0, 5, 0, 0, 9], "address type"),
            ("cut", &[5, 0, 5, 0, 0, 1, 0], "proxy: "),
        ] {
            let why = ask(says, "a").0.unwrap_err().to_string();
            assert!(why.contains(want), "{row}: {why}");
        }
        let why = ask(&[5, 0], &"a".repeat(256)).0.unwrap_err().to_string();
        assert!(why.contains("longer than 255"), "{why}");
    }
}
