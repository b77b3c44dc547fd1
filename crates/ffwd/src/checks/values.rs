//! Parsers of values in Core's formats: amounts, sizes, addresses, ports.
//!
//! Source: Bitcoin Core b88bffe, util/moneystr.cpp, `ParseMoney`; util/strencodings.cpp, `ParseByteUnits` and `SplitHostPort`;
//! netbase.cpp, `Lookup`; httprpc.cpp.

use p2p::wire::Target;

/// The maximum amount of money, in satoshi. Source: consensus/amount.h, `MAX_MONEY`.
const MONEY_MAX: i64 = 21_000_000 * COIN;
const COIN: i64 = 100_000_000;
/// Maximum number of digits before the decimal point.
const WHOLE_DIGITS_MAX: usize = 10;
/// Time limit of a DNS look-up. Core has no limit of its own; after this time the name is accepted as valid.
#[cfg(not(test))]
const LOOK_UP: std::time::Duration = std::time::Duration::from_secs(2);
/// Whether `text` is an amount in BTC.
pub(super) fn is_amount(text: &str) -> bool {
    let text = text.trim_matches([' ', '\x0c', '\n', '\r', '\t', '\x0b']);
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let fits = whole.len() <= WHOLE_DIGITS_MAX && part.len() <= 8;
    if text.is_empty() || !fits || !are_digits(whole) || !are_digits(part) {
        return false;
    }
    let units: i64 = format!("{part:0<8}").parse().unwrap_or(0);
    let whole: i64 = whole.parse().unwrap_or(0);
    whole.checked_mul(COIN).and_then(|value| value.checked_add(units)).is_some_and(|value| value <= MONEY_MAX)
}

/// The port of an address, if present. The outer `None` means that the port is not a number from 1 to 65535.
pub(super) fn split_host_port(text: &str) -> Option<Option<u16>> {
    let Some((host, port)) = text.rsplit_once(':') else { return Some(None) };
    let is_bracketed = text.starts_with('[') && host.ends_with(']');
    // Several colons without brackets: a plain IPv6 address without a port.
    if host.contains(':') && !is_bracketed {
        return Some(None);
    }
    let is_plain = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    port.parse().ok().filter(|port: &u16| is_plain && *port != 0).map(Some)
}

/// Whether `text` is an address, or a name that resolves.
pub(super) fn looked_up(text: &str, by_name: bool) -> bool {
    match Target::parse(text, 1) {
        Err(_) => false,
        Ok(Target::Name(name, port)) => by_name && is_found(&name, port),
        Ok(_) => true,
    }
}

/// Tests make no DNS queries.
#[cfg(test)]
fn is_found(name: &str, _port: u16) -> bool {
    name == "localhost"
}

#[cfg(not(test))]
fn is_found(name: &str, port: u16) -> bool {
    use std::net::ToSocketAddrs as _;
    let (say, heard) = std::sync::mpsc::channel();
    let name = name.to_owned();
    // The look-up may hang beyond the time limit; its result is then dropped.
    let asked = std::thread::Builder::new().name("look-up".to_owned()).spawn(move || {
        let found = (name.as_str(), port).to_socket_addrs().is_ok_and(|mut all| all.next().is_some());
        let _ = say.send(found);
    });
    asked.is_err() || heard.recv_timeout(LOOK_UP).unwrap_or(true)
}

/// Parses `-rpcallowip`. A single address may be in brackets, as in -rpcbind.
///
/// # Errors
///
/// Core's message.
#[cfg(feature = "server")]
pub(crate) fn subnet(text: &str) -> Result<server::settings::Subnet, String> {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    server::settings::Subnet::parse(inner.unwrap_or(text))
}

/// With `-cjdnsreachable`, an address of fc00::/8 is one of CJDNS, and those have no subnets.
///
/// # Errors
///
/// Core's text.
///
/// Source: Bitcoin Core b88bffe, `MaybeFlipIPv6toCJDNS`, `CSubNet`.
#[cfg(feature = "server")]
pub(super) fn no_subnet_of_cjdns(text: &str) -> Result<(), String> {
    const CJDNS_PREFIX: u8 = 0xfc;
    let is_cjdns =
        |address: &str| address.parse::<std::net::Ipv6Addr>().is_ok_and(|address| address.octets()[0] == CJDNS_PREFIX);
    match text.split_once('/') {
        Some((address, _)) if is_cjdns(address) => Err(server::settings::Subnet::refusal(text)),
        _ => Ok(()),
    }
}

/// Whether `text` has the form `USER:SALT$HASH`.
pub(super) fn is_rpcauth(text: &str) -> bool {
    let fields: Vec<&str> = text.split(':').collect();
    matches!(fields[..], [_, salted] if salted.split('$').count() == 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::values::byte_units;

    #[test]
    fn amounts_are_cores() {
        for text in ["0", "1", "0.00001", "21000000", "1.", ".5", " 2 ", "0.12345678", "."] {
            assert!(is_amount(text), "{text}");
        }
        for text in ["", "abc", "-1", "1.123456789", "21000000.00000001", "1 2", "1,5", "99999999999", "1.-5", "+1"] {
            assert!(!is_amount(text), "{text}");
        }
    }

    #[test]
    fn sizes_are_cores() {
        for (text, want) in [
            ("5", Some(5 << 20)),
            ("5M", Some(5 << 20)),
            ("5m", Some(5_000_000)),
            ("1T", Some(1 << 40)),
            ("0", Some(0)),
            ("", None),
            ("M", None),
            ("-5", None),
            ("+5", None),
            ("5b", None),
            ("5 M", None),
            ("99999999999999999999", None),
            ("99999999T", None),
            ("5\u{e4}", None),
        ] {
            assert_eq!(byte_units(text), want, "{text}");
        }
    }

    #[test]
    fn ports_of_addresses_are_cores() {
        for (text, want) in [
            ("127.0.0.1", Some(None)),
            ("127.0.0.1:8333", Some(Some(8333))),
            ("[::1]:1", Some(Some(1))),
            ("[::1]", Some(None)),
            ("::1", Some(None)),
            ("host:65535", Some(Some(65535))),
            ("", Some(None)),
            (":1", Some(Some(1))),
            ("a:", None),
            ("a:0", None),
            ("a:65536", None),
            ("a:b", None),
            ("a:+1", None),
            ("tcp://1.2.3.4:5", Some(None)),
        ] {
            assert_eq!(split_host_port(text), want, "{text}");
        }
    }

    #[test]
    fn addresses_are_looked_up() {
        for text in ["1.2.3.4", "1.2.3.4:5", "[::1]:5", "::1", "localhost:1"] {
            assert!(looked_up(text, true), "{text}");
        }
        assert!(!looked_up("localhost", false), "names only where they may be looked up");
        for text in ["", "a b", "foo.invalid"] {
            assert!(!looked_up(text, true), "{text}");
        }
    }

    #[test]
    fn hashed_passwords_have_three_parts() {
        assert!(is_rpcauth("a:b$c") && is_rpcauth(":$"));
        assert!(!is_rpcauth("x") && !is_rpcauth("a:b") && !is_rpcauth("a:b:c$d") && !is_rpcauth("a:b$c$d"));
    }
}
