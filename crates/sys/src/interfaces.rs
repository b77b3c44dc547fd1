//! Addresses of the machine's network interfaces.
//!
//! Absent on purpose: names, masks and hardware addresses. On systems without such a call there are none.

use std::net::IpAddr;
#[cfg(unix)]
use std::net::{Ipv4Addr, Ipv6Addr};

/// Maximum number of addresses that are returned. Machines with many containers have a few hundred.
pub const ADDRESSES_MAX: usize = 1000;

/// The addresses of the interfaces that are up and are no loopback; empty if the system does not report them.
/// Source: `getifaddrs(3)` of Linux, the BSDs and macOS.
#[cfg(unix)]
pub fn addresses() -> Vec<IpAddr> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the pointer is valid for the call, which stores a list there if it returns 0.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut next: *const libc::ifaddrs = first;
    while !next.is_null() && found.len() < ADDRESSES_MAX {
        // SAFETY: a member of the list, which is freed only below.
        let one = unsafe { &*next };
        let flags = one.ifa_flags;
        let is_used = flags & libc::IFF_UP as libc::c_uint != 0 && flags & libc::IFF_LOOPBACK as libc::c_uint == 0;
        if is_used && !one.ifa_addr.is_null() {
            // SAFETY: an address of the list; its family says which structure it is.
            found.extend(unsafe { ip(one.ifa_addr) });
        }
        next = one.ifa_next;
    }
    // SAFETY: the list of the call above, of which no reference is left.
    unsafe { libc::freeifaddrs(first) };
    found
}

/// The address, if it is one of IPv4 or IPv6.
///
/// # Safety
///
/// `address` points at a socket address of as many bytes as its family has.
#[cfg(unix)]
unsafe fn ip(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: every socket address begins with its family.
    match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: its family is IPv4. The copy needs no alignment.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: its family is IPv6. The copy needs no alignment.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// None: unknown on this system.
#[cfg(not(unix))]
pub fn addresses() -> Vec<IpAddr> {
    Vec::new()
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;

    /// /proc lists the IPv6 addresses with the name of their interface, all of which are up.
    #[test]
    fn addresses_are_those_of_interfaces_other_than_loopback() {
        let found = addresses();
        assert!(found.iter().all(|address| !address.is_loopback() && !address.is_unspecified()), "{found:?}");
        let listed = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
        for line in listed.lines().filter(|line| !line.ends_with(" lo")) {
            let bits = u128::from_str_radix(&line[..32], 16).unwrap();
            assert!(found.contains(&Ipv6Addr::from_bits(bits).into()), "{line}: {found:?}");
        }
        // An address that leads elsewhere is one of an interface: no packet is sent for this.
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        if socket.connect("9.9.9.9:9").is_ok() {
            let own = socket.local_addr().unwrap().ip();
            assert!(own.is_loopback() || found.contains(&own), "{own}: {found:?}");
        }
    }
}
