//! The calls, by topic.

#[cfg(feature = "descriptors")]
mod activity;
pub(crate) mod block;
pub(crate) mod block_json;
#[cfg(feature = "regtest-tools")]
mod block_template;
mod chain;
mod change;
pub(crate) mod coins;
mod connect;
mod control;
#[cfg(feature = "descriptors")]
mod create_transaction;
mod deployments;
#[cfg(feature = "descriptors")]
mod descriptors;
#[cfg(feature = "regtest-tools")]
mod generate;
mod hidden;
pub(crate) mod indexed;
mod info;
mod mempool;
#[cfg(not(feature = "regtest-tools"))]
mod mempool_empty;
#[cfg(feature = "regtest-tools")]
mod mempool_shown;
mod mining;
#[cfg(feature = "descriptors")]
mod multisig;
mod network;
mod network_info;
#[cfg(feature = "regtest-tools")]
mod priority;
mod program;
#[cfg(feature = "descriptors")]
mod scan_blocks;
#[cfg(feature = "descriptors")]
mod scan_coins;
#[cfg(feature = "regtest-tools")]
mod send;
#[cfg(feature = "descriptors")]
mod signed_messages;
pub(crate) mod silent_payments;
mod snapshot;
pub(crate) mod transaction;
pub mod view;
mod waits;
#[cfg(feature = "regtest-tools")]
mod witness_commitment;

use crate::registry::Call;

/// Calls that need another feature, and its name.
const ELSEWHERE: [(&str, &str); 18] = [
    ("createmultisig", "descriptors"),
    ("createrawtransaction", "descriptors"),
    ("deriveaddresses", "descriptors"),
    ("generateblock", "regtest-tools"),
    ("generatetoaddress", "regtest-tools"),
    ("generatetodescriptor", "regtest-tools"),
    ("getblocktemplate", "regtest-tools"),
    ("getdescriptoractivity", "descriptors"),
    ("getdescriptorinfo", "descriptors"),
    ("getmempoolcluster", "regtest-tools"),
    ("getprioritisedtransactions", "regtest-tools"),
    ("prioritisetransaction", "regtest-tools"),
    ("scanblocks", "descriptors"),
    ("scantxoutset", "descriptors"),
    ("sendrawtransaction", "regtest-tools"),
    ("signmessagewithprivkey", "descriptors"),
    ("testmempoolaccept", "regtest-tools"),
    ("verifymessage", "descriptors"),
];

/// The feature that a call needs.
pub(crate) fn feature_of(method: &str) -> Option<&'static str> {
    ELSEWHERE.iter().find(|(name, _)| *name == method).map(|(_, feature)| *feature)
}

/// All calls.
pub fn all() -> Vec<Call> {
    [
        #[cfg(feature = "descriptors")]
        activity::CALLS,
        block::CALLS,
        #[cfg(feature = "regtest-tools")]
        block_template::CALLS,
        chain::CALLS,
        change::CALLS,
        coins::CALLS,
        connect::CALLS,
        control::CALLS,
        #[cfg(feature = "descriptors")]
        create_transaction::CALLS,
        deployments::CALLS,
        #[cfg(feature = "descriptors")]
        descriptors::CALLS,
        #[cfg(feature = "regtest-tools")]
        generate::CALLS,
        hidden::CALLS,
        info::CALLS,
        mempool::CALLS,
        #[cfg(feature = "regtest-tools")]
        mempool_shown::CALLS,
        mining::CALLS,
        #[cfg(feature = "descriptors")]
        multisig::CALLS,
        network::CALLS,
        network_info::CALLS,
        #[cfg(feature = "regtest-tools")]
        priority::CALLS,
        program::CALLS,
        #[cfg(feature = "descriptors")]
        scan_blocks::CALLS,
        #[cfg(feature = "descriptors")]
        scan_coins::CALLS,
        #[cfg(feature = "regtest-tools")]
        send::CALLS,
        #[cfg(feature = "descriptors")]
        signed_messages::CALLS,
        silent_payments::CALLS,
        snapshot::CALLS,
        transaction::CALLS,
        waits::CALLS,
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_there_or_name_their_feature() {
        let has = |feature: &str| match feature {
            "descriptors" => cfg!(feature = "descriptors"),
            "regtest-tools" => cfg!(feature = "regtest-tools"),
            other => panic!("{other} is no feature"),
        };
        for (name, feature) in ELSEWHERE {
            assert_eq!(all().iter().any(|call| call.name == name), has(feature), "{name}");
            assert_eq!(feature_of(name), Some(feature));
        }
        assert!(all().len() > 60 && feature_of("getblock").is_none());
    }
}
