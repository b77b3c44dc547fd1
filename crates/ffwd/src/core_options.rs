//! Options of bitcoind that ffwd has no use for: they are taken on the command line of a sync, as they are in bitcoin.conf,
//! and named in a warning.
//!
//! Source: Bitcoin Core b88bffe, init.cpp, `SetupServerArgs`; wallet/init.cpp, `AddWalletOptions`.
//! Absent on purpose: options that would change what is done (`-daemon`, `-stopafterblockimport`); those are refused.

/// What a group of options is about, and why it is not used.
struct Group {
    why: &'static str,
    names: &'static [&'static str],
}

const WALLET: Group = Group {
    why: "ffwd has no wallet",
    names: &[
        "addresstype",
        "avoidpartialspends",
        "changetype",
        "consolidatefeerate",
        "disablewallet",
        "discardfee",
        "fallbackfee",
        "keypool",
        "maxapsfee",
        "maxtxfee",
        "mintxfee",
        "signer",
        "spendzeroconfchange",
        "txconfirmtarget",
        "unsafesqlitesync",
        "wallet",
        "walletbroadcast",
        "walletcrosschain",
        "walletdir",
        "walletnotify",
        "walletrbf",
        "walletrejectlongchains",
    ],
};

const TRANSACTIONS: Group = Group {
    why: "ffwd takes and relays no transactions",
    names: &[
        "acceptnonstdtxn",
        "acceptstalefeeestimates",
        "blockmaxweight",
        "blockmintxfee",
        "blockreconstructionextratxn",
        "blockreservedweight",
        "blocksonly",
        "blockversion",
        "bytespersigop",
        "checkmempool",
        "datacarrier",
        "datacarriersize",
        "dustrelayfee",
        "incrementalrelayfee",
        "limitancestorcount",
        "limitancestorsize",
        "limitclustercount",
        "limitclustersize",
        "limitdescendantcount",
        "limitdescendantsize",
        "maxmempool",
        "mempoolexpiry",
        "minrelaytxfee",
        "peerbloomfilters",
        "permitbaremultisig",
        "persistmempool",
        "persistmempoolv1",
        "printpriority",
        "privatebroadcast",
        "txreconciliation",
        "txsendrate",
        "whitelistforcerelay",
        "whitelistrelay",
    ],
};

const LOG: Group = Group {
    why: "lines of ffwd's debug.log have one form and one level",
    names: &[
        "help-debug",
        "loglevelalways",
        "logsourcelocations",
        "logthreadnames",
        "logtimestamps",
        "shrinkdebugfile",
    ],
};

const NETWORK: Group = Group {
    why: "ffwd's connections have no such setting",
    names: &[
        "asmap",
        "cjdnsreachable",
        "discover",
        "dns",
        "externalip",
        "i2pacceptincoming",
        "i2psam",
        "inboundrelaypercent",
        "listenonion",
        "maxreceivebuffer",
        "maxsendbuffer",
        "maxuploadtarget",
        "natpmp",
        "onion",
        "proxyrandomize",
        "signetseednode",
        "timeout",
        "torcontrol",
        "torpassword",
    ],
};

const PROGRAM: Group = Group {
    why: "ffwd has no such setting",
    names: &[
        "allowignoredconf",
        "checkaddrman",
        "checkblocks",
        "checklevel",
        "checkpoints",
        "dbbatchsize",
        "deprecatedrpc",
        "maxsigcachesize",
        "prevoutfetchthreads",
        "rpcdoccheck",
    ],
};

/// Why ffwd has no use for an option of bitcoind; nothing for every other name.
pub(crate) fn why_unused(name: &str) -> Option<&'static str> {
    let find = |name: &str| {
        let groups = [WALLET, TRANSACTIONS, LOG, NETWORK, PROGRAM];
        groups.iter().find(|group| group.names.contains(&name)).map(|group| group.why)
    };
    find(name).or_else(|| find(name.strip_prefix("no")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::CommandFactory;

    #[test]
    fn options_that_ffwd_has_are_not_among_the_unused() {
        let cli = Cli::command();
        let sync = cli.find_subcommand("sync").unwrap();
        let ours: Vec<&str> = sync.get_arguments().filter_map(clap::Arg::get_long).collect();
        assert!(ours.contains(&"datadir"));
        assert_eq!(ours.into_iter().filter(|name| why_unused(name).is_some()).collect::<Vec<_>>(), Vec::<&str>::new());
        assert_eq!(why_unused("keypool"), Some("ffwd has no wallet"));
        assert_eq!((why_unused("nolistenonion"), why_unused("nodnsseed")), (why_unused("discover"), None));
        assert_eq!((why_unused("daemon"), why_unused("no")), (None, None), "what would change what is done is refused");
    }
}
