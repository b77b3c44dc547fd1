//! Ports of other services: gossiped addresses with such a port are ignored, so that a peer cannot make us connect to
//! those services.
//!
//! Absent on purpose: ports that the user names. Those are always connected to.

/// Ports that belong to other services, in ascending order. Source: Bitcoin Core b88bffe, netbase.cpp, `IsBadPort`.
const BAD_PORTS: [u16; 85] = [
    1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
    111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532,
    540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3306, 3389, 3659, 4045, 5060,
    5061, 5432, 5900, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6697, 10080, 27017,
];

/// Whether a port belongs to another service.
///
/// Source: Bitcoin Core b88bffe, netbase.cpp, `IsBadPort`. Core still connects to such a port after 50 draws from the
/// address memory without another result; ffwd never does.
pub fn is_bad(port: u16) -> bool {
    BAD_PORTS.binary_search(&port).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_other_services_are_bad() {
        assert!(BAD_PORTS.is_sorted());
        for port in [1, 22, 25, 79, 587, 2049, 5432, 27017] {
            assert!(is_bad(port), "{port}");
        }
        for port in [80, 443, 8332, 8333, 9050, 18333, 18444, 38333, 48333, 65535] {
            assert!(!is_bad(port), "{port}");
        }
    }
}
