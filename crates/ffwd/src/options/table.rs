//! The rows, in the order of bitcoind's help: by category, then by name.

use super::Category::{
    BlockCreation, ChainParams, Connection, DebugTest, Hidden, NodeRelay, Options, Rpc, Wallet, WalletDebugTest, Zmq,
};
use super::CoreOption;
use super::Effect::{FileOnly, Instead, LineOnly, Removed, Unused, Used};
use super::Kind::{Flag, FlagOrText, Number, Path, Text};
use super::Place::{Before, Common, Indexes, Notify, OwnFiles, Server, Sync, Writing};
use super::logging::{category_parser, level};
use super::values::{
    CONNECTIONS_MAX, PAR_MAX, TestOption, activation, chain_parser, challenge, cores, dbcache, filter_type, hash,
    peer_timeout, port, prune, upload_target, user_agent_comment, version_bits, work, zero_or_one,
};
use clap::builder::{TypedValueParser, ValueParser};
use primitives::Height;
use std::path::PathBuf;

const WALLET: super::Effect = Unused("ffwd has no wallet");
const TRANSACTIONS: super::Effect = Unused("ffwd takes and relays no transactions");
const LOG: super::Effect = Unused("lines of ffwd's debug.log have one form and one level");
const NETWORK: super::Effect = Unused("ffwd's connections have no such setting");
const PROGRAM: super::Effect = Unused("ffwd has no such setting");
const CAPTURE: super::Effect = Unused("ffwd keeps no copy of messages; -debug=net names each in debug.log");
const GRAPHICAL: super::Effect = Unused("it is for the graphical program");
const DAEMON: super::Effect = Instead(
    "ffwd runs in the foreground: start it by systemd (dist/ffwd.service), or behind `nohup ffwd sync ... &`, without this option",
);
const ZEROMQ: super::Effect = Instead(
    "ffwd publishes nothing by ZeroMQ: -blocknotify runs a command, the call waitfornewblock waits, and /events of --server sends a line for each change",
);
const AFTER_IMPORT: super::Effect =
    Instead("ffwd import FILE and ffwd reindex end when the blocks are connected: run one of them");

fn yes_or_no() -> ValueParser {
    ValueParser::new(zero_or_one)
}

fn text() -> ValueParser {
    clap::value_parser!(String)
}

fn path() -> ValueParser {
    clap::value_parser!(PathBuf)
}

const fn o(name: &'static str, kind: super::Kind, category: super::Category, effect: super::Effect) -> CoreOption {
    CoreOption::new(name, kind, category, effect)
}

/// Every option of bitcoind, and silentpaymentindex, which bitcoind reports as ignored in bitcoin.conf.
pub(crate) static TABLE: &[CoreOption] = &[
    o("alertnotify", Text, Options, Used).many()
        .lines(Notify, "COMMAND", text, "Run this command when a warning is given; %s is the message (repeatable)"),
    o("allowignoredconf", Flag, Options, Used)
        .line(Common, "0|1", yes_or_no, "Continue if the data directory has another bitcoin.conf than the one in use [default: 0]"),
    o("assumevalid", Text, Options, Used)
        .line(Common, "HASH|0", || ValueParser::new(hash), "Assume the scripts of this block and its ancestors valid; 0: verify all [default: Core's]"),
    o("blockfilterindex", FlagOrText, Options, Used).many()
        .line(Indexes, "TYPE|0|1", || ValueParser::new(cores(filter_type)), "Maintain an index of compact filters by block; basic is the one type [default: 0]"),
    o("blocknotify", Text, Options, Used).many()
        .lines(Notify, "COMMAND", text, "Run this command when the best block changes, after the initial block download; %s is its hash (repeatable)"),
    o("blockreconstructionextratxn", Number, Options, TRANSACTIONS),
    o("blocksdir", Path, Options, Used)
        .line(Common, "DIR", path, "Directory that holds blocks/ [default: the data directory]"),
    o("blocksonly", Flag, Options, TRANSACTIONS),
    o("blocksxor", Flag, Options, Used)
        .line(Writing, "0|1", yes_or_no, "Obfuscate the block files of a new data directory [default: 1]"),
    o("coinstatsindex", Flag, Options, Used)
        .line(Indexes, "0|1", yes_or_no, "Maintain an index of statistics of the UTXO set at every height [default: 0]"),
    o("conf", Path, Options, LineOnly)
        .line(Common, "FILE", path, "Configuration file, relative to the data directory; 0: read none [default: bitcoin.conf]"),
    o("daemon", Flag, Options, DAEMON),
    o("daemonwait", Flag, Options, DAEMON),
    o("datadir", Path, Options, Used).never_negated()
        .line(Common, "DIR", path, "Data directory [default: Core's]"),
    o("dbbatchsize", Number, Options, PROGRAM),
    o("dbcache", Number, Options, Used)
        .line(Common, "MiB|auto", || ValueParser::new(dbcache), "Memory for coins, blocks in flight and tables, at least 4; auto: half of the free memory, less when other programs need it [default: auto]"),
    o("debuglogfile", Path, Options, Used)
        .line(OwnFiles, "FILE", path, "Log, relative to the network's directory; 0: write none [default: debug.log]"),
    o("help", Flag, Options, LineOnly),
    o("includeconf", Path, Options, FileOnly).many(),
    o("loadblock", Path, Options, Used).many()
        .lines(Before, "FILE", path, "First import the blocks of this file, as `import` does (repeatable)"),
    o("maxmempool", Number, Options, TRANSACTIONS),
    #[cfg(feature = "regtest-tools")]
    o("mempoolexpiry", Number, Options, Used)
        .line(Server, "HOURS", || clap::value_parser!(u32).into(), "Hours after which transactions leave the mempool; needs the feature regtest-tools [default: 336]").hidden(),
    #[cfg(not(feature = "regtest-tools"))]
    o("mempoolexpiry", Number, Options, TRANSACTIONS),
    o("minimumchainwork", Text, Options, Used)
        .line(Common, "HEX", || ValueParser::new(cores(work)), "Minimum work of a chain, in hexadecimal [default: Core's]"),
    o("par", Number, Options, Used)
        .line(Common, "N", || clap::value_parser!(i64).range(-PAR_MAX..=PAR_MAX).into(), "Worker threads; 0: one per core, -N: all cores but N [default: 0]").negative(),
    o("persistmempool", Flag, Options, TRANSACTIONS),
    o("persistmempoolv1", Flag, Options, TRANSACTIONS),
    o("pid", Path, Options, Used)
        .line(OwnFiles, "FILE", path, "File with the number of the process, relative to the network's directory; 0: write none [default: bitcoind.pid]"),
    o("prevoutfetchthreads", Number, Options, PROGRAM),
    o("prune", Number, Options, Used)
        .line(Writing, "MiB", || ValueParser::new(cores(prune)), "Target size of block and undo files, at least 550; 0: keep all, 1: manual pruning [default: 0]").negative(),
    o("reindex", Flag, Options, Used)
        .line(Before, "0|1", yes_or_no, "First rebuild block index, undo files and UTXO set from the block files, as `reindex` does [default: 0]"),
    o("reindex-chainstate", Flag, Options, Used)
        .line(Before, "0|1", yes_or_no, "First rebuild only the UTXO set, as `reindex --chainstate-only` does [default: 0]"),
    o("settings", Path, Options, Used)
        .line(Common, "FILE", path, "File of settings made at run time, as bitcoind's, relative to the network's directory; 0 on the command line, nosettings=1 in a file: read none [default: settings.json]"),
    o("shutdownnotify", Text, Options, Used).many()
        .lines(Notify, "COMMAND", text, "Run this command before the program ends, and wait for it (repeatable)"),
    o("startupnotify", Text, Options, Used).many()
        .lines(Notify, "COMMAND", text, "Run this command when the program is ready (repeatable)"),
    o("silentpaymentindex", Flag, Options, Used)
        .line(Indexes, "0|1", yes_or_no, "Maintain an index of tweaks for receivers of silent payments (BIP 352), which Core does not have [default: 0]"),
    o("txindex", Flag, Options, Used)
        .line(Indexes, "0|1", yes_or_no, "Maintain an index of all transactions [default: 0]"),
    o("txospenderindex", Flag, Options, Used)
        .line(Indexes, "0|1", yes_or_no, "Maintain an index of the spenders of transaction outputs [default: 0]"),
    o("version", Flag, Options, LineOnly),
    // Connection options.
    o("addnode", Text, Connection, Used).many().networks_own()
        .lines(Sync, "ADDR", text, "Keep a connection to this node, in addition to others (repeatable)"),
    o("asmap", FlagOrText, Connection, Used)
        .line(Sync, "FILE", text, "Map of autonomous systems by which peers are spread, relative to the network's directory; 0: none [default: 0]"),
    o("bantime", Number, Connection, Used)
        .line(Sync, "SECONDS", || clap::value_parser!(i64).into(), "Default ban duration in seconds [default: 86400]"),
    o("bind", Text, Connection, Used).many().networks_own()
        .lines(Sync, "ADDR", text, "Address to accept connections on, IP or IP:PORT, with =onion behind it for those of a Tor service (repeatable)"),
    o("cjdnsreachable", Flag, Connection, Used)
        .line(Sync, "0|1", yes_or_no, "Take addresses of fc00::/8 in addpeeraddress as those of CJDNS, where ffwd connects to no peer [default: 0]").hidden(),
    o("connect", Text, Connection, Used).many().networks_own()
        .lines(Sync, "ADDR", text, "Connect only to this node (repeatable); 0: connect to none"),
    o("discover", Flag, Connection, Used)
        .line(Sync, "0|1", yes_or_no, "Announce addresses of this machine's interfaces that peers may connect to [default: 1 when listening without --externalip and --proxy]"),
    o("dns", Flag, Connection, NETWORK),
    o("dnsseed", Flag, Connection, Used)
        .line(Sync, "0|1", yes_or_no, "Query DNS seeds for peers [default: 1; 0 if --connect is given]"),
    o("externalip", Text, Connection, Used).many()
        .lines(Sync, "ADDR", text, "Address of this node that is announced to peers, IP, IP:PORT or NAME.onion (repeatable)"),
    o("fixedseeds", Flag, Connection, Used)
        .line(Sync, "0|1", yes_or_no, "Use fixed seeds if DNS seeds give no peers [default: 1]"),
    o("forcednsseed", Flag, Connection, Used)
        .line(Sync, "0|1", yes_or_no, "Query all DNS seeds at once, even if addresses are known [default: 0]"),
    o("i2pacceptincoming", Flag, Connection, NETWORK),
    o("i2psam", Text, Connection, NETWORK),
    o("inboundrelaypercent", Number, Connection, NETWORK),
    o("listen", Flag, Connection, Used)
        .lines(Sync, "ADDR|0|1", text, "Accept connections on IP or IP:PORT (repeatable); 1: on every address; 0: none [default: 0; 1 if --bind is given]"),
    o("listenonion", Flag, Connection, NETWORK),
    o("maxconnections", Number, Connection, Used)
        .line(Sync, "N", || clap::value_parser!(u16).range(..=i64::from(CONNECTIONS_MAX)).into(), "Maximum number of connections, 11 of them outbound [default: 200]"),
    o("maxreceivebuffer", Number, Connection, NETWORK),
    o("maxsendbuffer", Number, Connection, NETWORK),
    o("maxuploadtarget", Text, Connection, Used)
        .line(Sync, "SIZE", || ValueParser::new(cores(upload_target)), "Most bytes sent to peers in 24 hours, with k, K, m, M, g, G, t or T [default: 0, no limit; unit M]"),
    o("natpmp", Flag, Connection, NETWORK),
    o("networkactive", Flag, Connection, Instead("ffwd serve works without peers, and so does ffwd sync -connect=0")),
    o("onion", Text, Connection, Used)
        .line(Sync, "ADDR", text, "SOCKS5 proxy for onion services, HOST:PORT; 0: none [default: that of --proxy]"),
    o("onlynet", Text, Connection, Used).many()
        .lines(Sync, "NET", text, "Connect only to peers of this network: ipv4, ipv6 or onion (repeatable) [default: every network]"),
    o("peerblockfilters", Flag, Connection, Used)
        .line(Sync, "0|1", yes_or_no, "Serve compact block filters to peers (BIP 157); needs --blockfilterindex [default: 0]"),
    o("peerbloomfilters", Flag, Connection, TRANSACTIONS),
    o("peertimeout", Number, Connection, Used)
        .line(Sync, "SECONDS", || ValueParser::new(cores(peer_timeout)), "Handshake and inactivity timeout in seconds, at least 1 [default: 60]"),
    o("port", Number, Connection, Used).networks_own()
        .line(Sync, "PORT", || ValueParser::new(cores(port)), "Port of --listen and --bind without one [default: the network's]"),
    o("proxy", Text, Connection, Used).many()
        .line(Sync, "ADDR", text, "SOCKS5 proxy for every connection but those to this machine and local networks, HOST:PORT or unix:PATH [default: no proxy]"),
    o("proxyrandomize", Flag, Connection, Used)
        .line(Sync, "0|1", yes_or_no, "Use credentials of its own for each connection through a proxy, so that Tor gives each its own circuit [default: 1]"),
    o("seednode", Text, Connection, Used).many()
        .lines(Sync, "ADDR", text, "Connect to this node to get addresses, then disconnect (repeatable)"),
    o("timeout", Number, Connection, NETWORK),
    o("torcontrol", Text, Connection, NETWORK),
    o("torpassword", Text, Connection, NETWORK).secret(),
    o("txreconciliation", Flag, Connection, TRANSACTIONS),
    o("v2transport", Flag, Connection, Used)
        .line(Sync, "0|1", yes_or_no, "Use BIP 324 v2 transport where the peer supports it [default: 1]"),
    o("whitebind", Text, Connection, Used).many()
        .lines(Sync, "ADDR", text, "Like --bind, with permissions for its peers: PERMISSIONS@IP:PORT or IP:PORT (repeatable)"),
    o("whitelist", Text, Connection, Used).many()
        .lines(Sync, "NET", text, "Permissions for peers of a network: PERMISSIONS@IP/BITS, each part but IP optional (repeatable); noban (the default), download, addr; in, out"),
    // Wallet options.
    o("addresstype", Text, Wallet, WALLET),
    o("avoidpartialspends", Flag, Wallet, WALLET),
    o("changetype", Text, Wallet, WALLET),
    o("consolidatefeerate", Text, Wallet, WALLET),
    o("disablewallet", Flag, Wallet, WALLET),
    o("discardfee", Text, Wallet, WALLET),
    o("fallbackfee", Text, Wallet, WALLET),
    o("keypool", Number, Wallet, WALLET),
    o("maxapsfee", Text, Wallet, WALLET),
    o("mintxfee", Text, Wallet, WALLET),
    o("signer", Text, Wallet, WALLET),
    o("spendzeroconfchange", Flag, Wallet, WALLET),
    o("txconfirmtarget", Number, Wallet, WALLET),
    o("wallet", Path, Wallet, WALLET).many().networks_own(),
    o("walletbroadcast", Flag, Wallet, WALLET),
    o("walletdir", Path, Wallet, WALLET).networks_own(),
    o("walletnotify", Text, Wallet, WALLET),
    o("walletrbf", Flag, Wallet, WALLET),
    o("unsafesqlitesync", Flag, WalletDebugTest, WALLET),
    o("walletcrosschain", Flag, WalletDebugTest, WALLET),
    o("walletrejectlongchains", Flag, WalletDebugTest, WALLET),
    // ZeroMQ notification options.
    o("zmqpubhashblock", Text, Zmq, ZEROMQ).many(),
    o("zmqpubhashblockhwm", Number, Zmq, ZEROMQ),
    o("zmqpubhashtx", Text, Zmq, ZEROMQ).many(),
    o("zmqpubhashtxhwm", Number, Zmq, ZEROMQ),
    o("zmqpubrawblock", Text, Zmq, ZEROMQ).many(),
    o("zmqpubrawblockhwm", Number, Zmq, ZEROMQ),
    o("zmqpubrawtx", Text, Zmq, ZEROMQ).many(),
    o("zmqpubrawtxhwm", Number, Zmq, ZEROMQ),
    o("zmqpubsequence", Text, Zmq, ZEROMQ).many(),
    o("zmqpubsequencehwm", Number, Zmq, ZEROMQ),
    // Debugging and testing options.
    o("acceptstalefeeestimates", Flag, DebugTest, TRANSACTIONS),
    o("capturemessages", Flag, DebugTest, CAPTURE),
    o("checkaddrman", Number, DebugTest, Used)
        .line(Sync, "N", || clap::value_parser!(u32).range(0..=1_000_000).into(), "Check the address memory at one operation in N; 0: never [default: 0]").hidden(),
    o("checkblockindex", FlagOrText, DebugTest, Used)
        .line(Common, "N", || clap::value_parser!(u32).into(), "Check the block index after every N changes of the chain; 0: never [default: 0]").hidden(),
    o("checkblocks", Number, DebugTest, Unused("ffwd verify checks blocks again: it takes --blocks and --level")),
    o("checklevel", Number, DebugTest, Unused("ffwd verify checks blocks again: it takes --blocks and --level")),
    o("checkmempool", Number, DebugTest, TRANSACTIONS),
    o("debug", FlagOrText, DebugTest, Used).many()
        .lines(Writing, "CATEGORY", || ValueParser::new(category_parser()), "Additional output (repeatable)"),
    o("debugexclude", Text, DebugTest, Used).many()
        .lines(Writing, "CATEGORY", || ValueParser::new(category_parser()), "Disable this category of --debug (repeatable)").values_hidden(),
    o("deprecatedrpc", Text, DebugTest, PROGRAM).many(),
    o("fastprune", Flag, DebugTest, Used)
        .line(Common, "0|1", yes_or_no, "Block files of 64 KiB, and pruning from height 100 on regtest [default: 0]").hidden(),
    o("help-debug", Flag, DebugTest, LineOnly),
    o("limitancestorcount", Number, DebugTest, TRANSACTIONS),
    o("limitclustercount", Number, DebugTest, TRANSACTIONS),
    o("limitclustersize", Number, DebugTest, TRANSACTIONS),
    o("limitdescendantcount", Number, DebugTest, TRANSACTIONS),
    o("logips", Flag, DebugTest, Used)
        .line(Writing, "0|1", yes_or_no, "Addresses of peers in lines of the category net about their version [default: 0]"),
    o("loglevel", Text, DebugTest, Used).many().never_negated()
        .lines(Writing, "LEVEL|CATEGORY:LEVEL", || ValueParser::new(cores(level)), "Checked as bitcoind does: lines of ffwd's debug.log have one level (repeatable)").hidden(),
    o("loglevelalways", Flag, DebugTest, LOG),
    o("logratelimit", Flag, DebugTest, Used)
        .line(Sync, "0|1", yes_or_no, "Limit the lines that peers cause, in debug.log and on the console, to 1 MiB an hour in all [default: 1]"),
    o("logsourcelocations", Flag, DebugTest, LOG),
    o("logthreadnames", Flag, DebugTest, LOG),
    o("logtimemicros", Flag, DebugTest, Used)
        .line(Writing, "0|1", yes_or_no, "Microseconds in the times of debug.log [default: 0]"),
    o("logtimestamps", Flag, DebugTest, LOG),
    o("maxsigcachesize", Number, DebugTest, PROGRAM),
    o("maxtipage", Number, DebugTest, Used)
        .line(Common, "SECONDS", || clap::value_parser!(u64).into(), "Maximum age of the tip after which the initial block download continues [default: 86400]").hidden(),
    o("maxtxfee", Text, DebugTest, WALLET),
    o("mocktime", Number, DebugTest, Used)
        .line(Common, "SECONDS", || clap::value_parser!(u64).into(), "Unix time in place of the clock's, on regtest; 0: the clock's [default: 0]").hidden(),
    o("printpriority", Flag, DebugTest, TRANSACTIONS),
    o("printtoconsole", Flag, DebugTest, Used)
        .line(Writing, "0|1", yes_or_no, "Progress, notes and warnings on standard error; 0: only errors, the rest is in debug.log [default: 1]"),
    o("shrinkdebugfile", Flag, DebugTest, LOG),
    o("stopafterblockimport", Flag, DebugTest, AFTER_IMPORT),
    o("stopatheight", Number, DebugTest, Used)
        .line(Writing, "HEIGHT", || ValueParser::new(clap::value_parser!(u32).map(Height::new)), "Stop at exactly this height; 0: do not stop [default: 0]"),
    o("test", Text, DebugTest, Used).many()
        .lines(Common, "OPTION", || clap::value_parser!(TestOption).into(), "Test option on regtest; addrman: key of the address memory is 1; bip94: enforce BIP 94 (repeatable)"),
    o("testactivationheight", Text, DebugTest, Used).many()
        .lines(Common, "NAME@H", || ValueParser::new(cores(activation)), "Activation height of segwit, bip34, dersig, cltv or csv on regtest (repeatable)"),
    o("uacomment", Text, DebugTest, Used).many()
        .lines(Sync, "TEXT", || ValueParser::new(cores(user_agent_comment)), "Text added to the user agent (repeatable)"),
    // Chain selection options.
    o("chain", Text, ChainParams, Used)
        .line(Common, "CHAIN", || ValueParser::new(chain_parser()), "Network [default: main]"),
    o("regtest", Flag, ChainParams, Used),
    o("signet", Flag, ChainParams, Used),
    o("signetchallenge", Text, ChainParams, Used).many().never_negated()
        .line(Common, "HEX", || ValueParser::new(cores(challenge)), "Challenge script of a custom signet [default: the public signet's]"),
    o("signetseednode", Text, ChainParams, Unused("-seednode=HOST names a node that is asked for addresses"))
        .many()
        .never_negated(),
    o("testnet", Flag, ChainParams, Used),
    o("testnet4", Flag, ChainParams, Used),
    o("vbparams", Text, ChainParams, Used).many()
        .lines(Common, "NAME:START:END[:HEIGHT]", || ValueParser::new(cores(version_bits)), "Start, end and activation height of a version bits deployment (repeatable)").hidden(),
    // Node relay options.
    o("acceptnonstdtxn", Flag, NodeRelay, Used)
        .line(Server, "0|1", yes_or_no, "Take transactions that are not standard from calls, on test networks [default: 0]").hidden(),
    o("bytespersigop", Number, NodeRelay, TRANSACTIONS),
    o("datacarrier", Flag, NodeRelay, TRANSACTIONS),
    o("datacarriersize", Number, NodeRelay, TRANSACTIONS),
    o("dustrelayfee", Text, NodeRelay, TRANSACTIONS),
    o("incrementalrelayfee", Text, NodeRelay, TRANSACTIONS),
    o("minrelaytxfee", Text, NodeRelay, TRANSACTIONS),
    o("permitbaremultisig", Flag, NodeRelay, TRANSACTIONS),
    o("privatebroadcast", Flag, NodeRelay, TRANSACTIONS),
    o("txsendrate", Number, NodeRelay, TRANSACTIONS),
    o("whitelistforcerelay", Flag, NodeRelay, TRANSACTIONS),
    o("whitelistrelay", Flag, NodeRelay, TRANSACTIONS),
    // Block creation options.
    o("blockmaxweight", Number, BlockCreation, TRANSACTIONS),
    o("blockmintxfee", Text, BlockCreation, TRANSACTIONS),
    o("blockreservedweight", Number, BlockCreation, TRANSACTIONS),
    o("blockversion", Number, BlockCreation, TRANSACTIONS),
    // RPC server options.
    o("rest", Flag, Rpc, Used)
        .line(Server, "0|1", yes_or_no, "Answer REST requests, which need no password [default: 0]"),
    o("rpcallowip", Text, Rpc, Used).many()
        .lines(Server, "NET", text, "Let clients of this network connect: IP, IP/BITS or IP/NETMASK (repeatable) [default: only this machine]"),
    o("rpcauth", Text, Rpc, Used).many().secret()
        .lines(Server, "LINE", text, "User with the hash of a password, USER:SALT$HASH, as Core's share/rpcauth makes it (repeatable)"),
    o("rpcbind", Text, Rpc, Used).many().networks_own()
        .lines(Server, "ADDR", text, "Address of the server, IP or IP:PORT; takes --rpcallowip too (repeatable) [default: 127.0.0.1 and ::1]"),
    o("rpccookiefile", Path, Rpc, Used)
        .line(Server, "FILE", text, "File of the cookie, relative to the network's directory [default: .cookie]; none with -norpccookiefile"),
    o("rpccookieperms", Text, Rpc, Used)
        .line(Server, "WHO", text, "Readers of the cookie file: owner, group or all [default: owner]"),
    o("rpcdoccheck", Flag, Rpc, PROGRAM),
    o("rpcmaxconnections", Number, Rpc, Used)
        .line(Server, "N", || clap::value_parser!(u16).range(1..).into(), "Maximum number of client connections, up to 128; further clients wait. Clients that were answered and are idle do not count [default: 16]"),
    o("rpcpassword", Text, Rpc, Used).secret()
        .line(Server, "PASSWORD", text, "Password in place of the cookie; every program of this machine may see it [default: none]"),
    o("rpcport", Number, Rpc, Used).networks_own()
        .line(Server, "PORT", || clap::value_parser!(u16).range(1..).into(), "Port of the server [default: the network's]"),
    o("rpcservertimeout", Number, Rpc, Used)
        .line(Server, "SECONDS", || clap::value_parser!(u16).into(), "Seconds for a client to send a request; 0: a day [default: 30]"),
    o("rpcthreads", Number, Rpc, Used)
        .line(Server, "N", || clap::value_parser!(u16).range(1..=256).into(), "Number of calls processed in parallel [default: 16]"),
    o("rpcuser", Text, Rpc, Used).secret()
        .line(Server, "USER", text, "User of --rpcpassword [default: none]"),
    o("rpcwhitelist", Text, Rpc, Used).many()
        .lines(Server, "LINE", text, "Allowed calls of a user, USER:CALL,CALL (repeatable) [default: everything]"),
    o("rpcwhitelistdefault", Flag, Rpc, Used)
        .line(Server, "0|1", yes_or_no, "Deny all calls to users without --rpcwhitelist [default: 1 with --rpcwhitelist, else 0]"),
    o("rpcworkqueue", Number, Rpc, Used)
        .line(Server, "N", || clap::value_parser!(u16).range(1..).into(), "Length of the queue of waiting calls [default: 64]"),
    o("server", Flag, Rpc, Used)
        .line(Server, "0|1", yes_or_no, "Answer JSON-RPC calls [default: 0; of serve 1]"),
    // Options that bitcoind accepts and its help hides.
    o("?", Flag, Hidden, LineOnly),
    o(
        "checkpoints",
        Flag,
        Hidden,
        Removed("Option '-checkpoints' is set but checkpoints were removed. This option has no effect."),
    ),
    o("choosedatadir", Flag, Hidden, GRAPHICAL),
    #[cfg(feature = "regtest-tools")]
    o("dbcrashratio", Number, Hidden, Used)
        .line(Common, "N", || clap::value_parser!(u32).into(), "Commit coins after each block, and end in one of N commits, as by a crash; 0: never; needs the feature regtest-tools [default: 0]").hidden(),
    #[cfg(not(feature = "regtest-tools"))]
    o("dbcrashratio", Number, Hidden, PROGRAM),
    o("forcecompactdb", Flag, Hidden, PROGRAM),
    o("h", Flag, Hidden, LineOnly),
    o("lang", Text, Hidden, GRAPHICAL),
    o(
        "limitancestorsize",
        Number,
        Hidden,
        Removed(
            "Option '-limitancestorsize' is given but ancestor size limits have been replaced with cluster size limits (see -limitclustersize). This option has no effect.",
        ),
    ),
    o(
        "limitdescendantsize",
        Number,
        Hidden,
        Removed(
            "Option '-limitdescendantsize' is given but descendant size limits have been replaced with cluster size limits (see -limitclustersize). This option has no effect.",
        ),
    ),
    o("min", Flag, Hidden, GRAPHICAL),
    o("resetguisettings", Flag, Hidden, GRAPHICAL),
    o("splash", Flag, Hidden, GRAPHICAL),
    o("uiplatform", Text, Hidden, GRAPHICAL),
];

/// ffwd's own options, and what each is about.
pub(crate) static OWN: &[(&str, &str)] = &[
    ("blocks", "number of blocks that verify checks"),
    ("chainstate-only", "what reindex rebuilds"),
    ("check-configuration", "report on each line of the configuration"),
    ("cpu", "kernels"),
    ("deep", "what doctor reads"),
    ("download-hours", "when blocks are downloaded"),
    ("exit-at-tip", "end of a sync"),
    ("from", "where blocks come from"),
    ("hash", "hash of the UTXO set"),
    ("hints", "where a sync begins"),
    ("json", "form of the result"),
    ("level", "what verify checks"),
    ("maxdownload", "speed of the download"),
    ("maxdownloadtarget", "download of a day"),
    ("maxoutbound", "connections"),
    ("noincludeconf", "bitcoind's -noincludeconf"),
    ("signature-hints", "speed of signatures"),
    ("snapshot", "where a sync begins"),
    ("snapshot-hash", "where a sync begins"),
    ("snapshot-list", "where a sync begins"),
    ("window", "blocks in flight"),
    ("without", "measuring"),
];
