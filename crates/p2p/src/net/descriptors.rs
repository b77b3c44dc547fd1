//! File descriptors: raises the limit of the process if allowed, and limits connections to it.
//!
//! Source: Bitcoin Core b88bffe, init.cpp, `AppInitParameterInteraction`, and `RaiseFileDescriptorLimit`. Unlike
//! Core, a low limit does not prevent the start: a sync needs fewer descriptors than Core reserves, and also works
//! without inbound connections.

use crate::api::{Config, OUTBOUND_RESERVED};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Reserved for the node's files. Source: Core's `MIN_CORE_FDS`.
const FILES_RESERVED: usize = 151;
/// Reserved for peers that the user names. Source: Core's `MAX_ADDNODE_CONNECTIONS`.
const NAMED_RESERVED: usize = 8;

/// Limits the inbound connections to the available file descriptors; returns a message if that changes the setting.
pub(super) fn fit(config: &mut Config) -> Option<String> {
    let wanted = config.inbound_count_max.saturating_add(OUTBOUND_RESERVED);
    let reserved = reserved(config);
    let fitting = connections(wanted, reserved, raised(wanted.saturating_add(reserved)));
    config.inbound_count_max = fitting.saturating_sub(OUTBOUND_RESERVED);
    let is_told = fitting < wanted && config.listens();
    is_told.then(|| format!("Reducing -maxconnections from {wanted} to {fitting}, because of system limitations."))
}

/// Number of descriptors not available for automatic and inbound connections.
fn reserved(config: &Config) -> usize {
    FILES_RESERVED + NAMED_RESERVED + (config.listen.len() + config.whitebind.len() + config.onion.len()).max(1)
}

/// Number of connections for which there are descriptors, at most `wanted`.
fn connections(wanted: usize, reserved: usize, descriptors: usize) -> usize {
    wanted.min(descriptors.saturating_sub(reserved))
}

/// Raises the limit of the process to `wanted`, as far as the system allows; returns the new limit.
fn raised(wanted: usize) -> usize {
    let current = || getrlimit(Resource::Nofile);
    let count = |limit: Option<u64>| limit.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX));
    let limit = current();
    if count(limit.current) < wanted {
        let most = limit.maximum.map_or(u64::MAX, |most| most);
        let raised = Rlimit { current: Some(most.min(wanted as u64)), maximum: limit.maximum };
        // If the system refuses it, the limit is unchanged.
        let _ = setrlimit(Resource::Nofile, raised);
    }
    count(current().current)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::REGTEST;

    #[test]
    fn connections_are_reckoned_as_in_core() {
        let config = Config::new(REGTEST);
        assert_eq!(config.inbound_count_max, 189, "of 200 connections 11 are outbound");
        let reserved = reserved(&config);
        assert_eq!(reserved, 160, "151 for files, 8 for named peers, 1 listening socket");
        for (row, descriptors, want) in [
            ("enough", 360, 200),
            ("one too few", 359, 199),
            ("a usual limit", 1024, 200),
            ("only what is reserved", 160, 0),
            ("less than that", 20, 0),
        ] {
            assert_eq!(connections(200, reserved, descriptors), want, "{row}");
        }
        let two = Config { listen: vec!["127.0.0.1:1".parse().unwrap(), "[::1]:1".parse().unwrap()], ..config };
        assert_eq!(super::reserved(&two), 161, "a socket each");
    }
}
