//! The values that bitcoind rejects or warns about at start, including those of options that ffwd does not use.
//!
//! Each check is one of Core's, in Core's order and wording, with the place of the value added.
//! Source: Bitcoin Core b88bffe, init.cpp, `AppInitParameterInteraction`, `CheckHostPortOptions` and `AppInitMain`;
//! node/mempool_args.cpp, node/mining_args.cpp, node/chainstatemanager_args.cpp; httprpc.cpp, `InitRPCAuthentication`.
//! Absent on purpose: checks of values that ffwd uses, which are made where they are read (`settings`, `sync_settings`).

mod values;

#[cfg(feature = "server")]
pub(crate) use values::subnet;

use crate::Failure;
use crate::conf::{Conf, Place, Setting};
use crate::options::values::byte_units;
use consensus::Chain;
use p2p::bad_ports;
use std::path::{Path, PathBuf};
use values::{is_amount, is_rpcauth, looked_up, split_host_port};

/// Core's limits. Source: policy/policy.h, consensus/consensus.h, txgraph.h.
const BLOCK_WEIGHT_MAX: i64 = 4_000_000;
const RESERVED_WEIGHT_MIN: i64 = 2_000;
const RESERVED_WEIGHT: i64 = 8_000;
const CLUSTER_COUNT_MAX: i64 = 64;
const CLUSTER_KVB: i64 = 101;
/// Minimum number of clusters that a mempool holds.
const CLUSTERS_MIN: i64 = 40;
/// Default mempool size in megabytes. Source: kernel/mempool_options.h, `DEFAULT_MAX_MEMPOOL_SIZE_MB`.
const MEMPOOL_MB: i64 = 300;
const MEMPOOL_MB_OF_BLOCKS_ONLY: i64 = 5;
/// Values of Core's `-test`.
const TEST_OPTIONS: [&str; 3] = ["addrman", "reindex_after_failure_noninteractive_yes", "bip94"];

/// A rejected value.
#[derive(Debug)]
struct Refused {
    why: String,
    place: Option<Place>,
}

type Outcome = Result<(), Refused>;

/// The settings that are checked.
struct Checked<'a> {
    conf: &'a Conf,
    chain: Chain,
    net_dir: PathBuf,
}

/// Runs every check. Returns Core's warnings.
///
/// # Errors
///
/// The first check that fails.
pub(crate) fn check(conf: &Conf, chain: Chain, datadir: &Path) -> Result<Vec<String>, Failure> {
    let checked = Checked { conf, chain, net_dir: datadir.join(chain.net_dir()) };
    for one in all() {
        one(&checked).map_err(|refused| {
            match refused.place {
                // The message already names the option.
                Some(Place::CommandLine) => Failure::Usage(refused.why),
                Some(place) => Failure::Conf(format!("{} ({place})", refused.why)),
                None => Failure::Conf(refused.why),
            }
        })?;
    }
    Ok(checked.warnings())
}

/// Every check, in Core's order.
fn all<'a>() -> [fn(&Checked<'a>) -> Outcome; 14] {
    [
        Checked::sections,
        Checked::signet,
        Checked::directories,
        Checked::filters,
        Checked::prune,
        Checked::listening,
        Checked::mining,
        Checked::test_options,
        Checked::mempool,
        Checked::traffic,
        Checked::ports,
        Checked::server,
        Checked::asmap,
        Checked::addresses,
    ]
}

fn refuse(why: impl Into<String>, setting: Option<&Setting>) -> Outcome {
    Err(Refused { why: why.into(), place: setting.map(|setting| setting.place.clone()) })
}

impl Checked<'_> {
    fn get(&self, name: &str) -> Option<Setting> {
        self.conf.get_of_all(name, self.chain)
    }

    fn list(&self, name: &str) -> Vec<Setting> {
        self.conf.list_of_all(name, self.chain)
    }

    fn is(&self, name: &str) -> Option<bool> {
        self.get(name).map(|setting| setting.value.truth())
    }

    fn is_on(&self, name: &str) -> bool {
        self.is(name) == Some(true)
    }

    fn number(&self, name: &str) -> Option<(i64, Setting)> {
        self.get(name).map(|setting| (setting.value.number(), setting))
    }

    /// Whether the option has a value that is neither empty nor 0.
    fn has_text(&self, name: &str) -> bool {
        self.get(name).is_some_and(|setting| !matches!(setting.value.text(), "" | "0"))
    }

    /// Whether Core would listen, which is its default. Source: init.cpp, `InitParameterInteraction`.
    fn listens_in_core(&self) -> bool {
        let has = |name: &str| !self.list(name).is_empty();
        let no_peers = has("connect")
            || self.get("connect").is_some_and(|setting| !setting.value.truth())
            || self.number("maxconnections").is_some_and(|(count, _)| count <= 0);
        let by_others = has("bind") || has("whitebind") || !(no_peers || self.has_text("proxy"));
        self.is("listen").unwrap_or(by_others)
    }

    fn sections(&self) -> Outcome {
        let wrong = self.conf.outside_their_section(self.chain);
        let chain = self.chain.name();
        let say = |(name, setting): &(&str, Setting)| {
            let place = &setting.place;
            format!("Config setting for -{name} only applied on {chain} network when in [{chain}] section. ({place})")
        };
        if wrong.is_empty() { Ok(()) } else { refuse(wrong.iter().map(say).collect::<Vec<_>>().join("\n"), None) }
    }

    fn signet(&self) -> Outcome {
        let challenges = self.list("signetchallenge");
        if self.chain == Chain::Signet && challenges.len() > 1 {
            return refuse("-signetchallenge cannot be multiple values.", challenges.last());
        }
        Ok(())
    }

    fn directories(&self) -> Outcome {
        match self.get("blocksdir") {
            // An empty value on the command line is not a usage error; the code that reads the option handles
            // it.
            Some(setting) if setting.place == Place::CommandLine => Ok(()),
            Some(setting) if setting.value.text().is_empty() => {
                refuse("-blocksdir names no directory: cannot make absolute path", Some(&setting))
            }
            Some(setting) if !setting.path().is_dir() => {
                let text = setting.value.text();
                refuse(format!("Specified blocks directory \"{text}\" does not exist."), Some(&setting))
            }
            _ => Ok(()),
        }
    }

    fn filters(&self) -> Outcome {
        let first = self.get("blockfilterindex");
        if first.is_none_or(|first| matches!(first.value.text(), "" | "0" | "1")) {
            return Ok(());
        }
        let all = self.list("blockfilterindex");
        let unknown = all.iter().find(|setting| setting.value.text() != "basic");
        let why = |setting: &Setting| format!("Unknown -blockfilterindex value {}.", setting.value.text());
        unknown.map_or(Ok(()), |setting| refuse(why(setting), Some(setting)))
    }

    fn prune(&self) -> Outcome {
        let is_pruned = self.number("prune").is_some_and(|(target, _)| target != 0);
        for (name, instead) in
            [("txindex", ""), ("txospenderindex", ""), ("reindex-chainstate", " Use full -reindex instead.")]
        {
            if is_pruned && self.is_on(name) {
                return refuse(format!("Prune mode is incompatible with -{name}.{instead}"), self.get(name).as_ref());
            }
        }
        Ok(())
    }

    fn listening(&self) -> Outcome {
        if self.is_on("listenonion") && !self.listens_in_core() {
            let setting = self.get("listenonion");
            return refuse("Cannot set -listen=0 together with -listenonion=1", setting.as_ref());
        }
        Ok(())
    }

    fn amount(&self, name: &str) -> Outcome {
        match self.get(name) {
            Some(setting) if !is_amount(setting.value.text()) => {
                let text = setting.value.text();
                refuse(format!("Invalid amount for -{name}=<amount>: '{text}'"), Some(&setting))
            }
            _ => Ok(()),
        }
    }

    fn mining(&self) -> Outcome {
        self.amount("blockmintxfee")?;
        let weight = |name: &str| self.number(name).map(|(weight, setting)| (weight.max(0), setting));
        let reserved = weight("blockreservedweight");
        let most = weight("blockmaxweight");
        if let Some((weight, setting)) = reserved.as_ref().filter(|(weight, _)| *weight < RESERVED_WEIGHT_MIN) {
            let why = format!(
                "-blockreservedweight ({weight}) is lower than minimum safety value of ({RESERVED_WEIGHT_MIN})"
            );
            return refuse(why, Some(setting));
        }
        for (name, given) in [("blockreservedweight", &reserved), ("blockmaxweight", &most)] {
            if let Some((weight, setting)) = given.as_ref().filter(|(weight, _)| *weight > BLOCK_WEIGHT_MAX) {
                let why = format!("-{name} ({weight}) exceeds consensus maximum block weight ({BLOCK_WEIGHT_MAX})");
                return refuse(why, Some(setting));
            }
        }
        let of = |given: &Option<(i64, Setting)>, default: i64| given.as_ref().map_or(default, |(weight, _)| *weight);
        let least = of(&reserved, RESERVED_WEIGHT);
        let limit = of(&most, BLOCK_WEIGHT_MAX);
        if least > limit {
            let setting = most.or(reserved).map(|(_, setting)| setting);
            return refuse(
                format!("-blockreservedweight ({least}) exceeds -blockmaxweight ({limit})"),
                setting.as_ref(),
            );
        }
        Ok(())
    }

    fn test_options(&self) -> Outcome {
        let options = self.list("test");
        if let Some(first) = options.first().filter(|_| self.chain != Chain::Regtest) {
            return refuse("-test=<option> can only be used with regtest", Some(first));
        }
        for name in ["testactivationheight", "vbparams"] {
            if let Some(setting) = self.get(name).filter(|_| self.chain == Chain::Main) {
                return refuse(format!("The -{name} option may not be used on mainnet."), Some(&setting));
            }
        }
        let moved = self.list("testactivationheight");
        match moved.first().filter(|_| self.chain != Chain::Regtest) {
            Some(first) => refuse(format!("-testactivationheight is for regtest: this is {}", self.chain), Some(first)),
            None => Ok(()),
        }
    }

    fn mempool(&self) -> Outcome {
        if let Some((threads, setting)) = self.number("prevoutfetchthreads").filter(|(threads, _)| *threads < 0) {
            let why = format!(
                "-prevoutfetchthreads must be non-negative (got {threads}). Use 0 to disable parallel input fetching."
            );
            return refuse(why, Some(&setting));
        }
        for name in ["incrementalrelayfee", "minrelaytxfee", "dustrelayfee"] {
            self.amount(name)?;
        }
        if self.chain == Chain::Main && self.is_on("acceptnonstdtxn") {
            let setting = self.get("acceptnonstdtxn");
            return refuse("acceptnonstdtxn is not currently supported for main chain", setting.as_ref());
        }
        // Core reads it as an unsigned 32-bit number: a negative value exceeds the maximum.
        let count = self.number("limitclustercount");
        if let Some((_, setting)) = count.filter(|(count, _)| !(0..=CLUSTER_COUNT_MAX).contains(count)) {
            let why = format!("limitclustercount must be less than or equal to {CLUSTER_COUNT_MAX}");
            return refuse(why, Some(&setting));
        }
        let cluster_kvb = self.number("limitclustersize").map_or(CLUSTER_KVB, |(kvb, _)| kvb);
        let least = cluster_kvb.saturating_mul(1_000 * CLUSTERS_MIN);
        let default_mb = if self.is_on("blocksonly") { MEMPOOL_MB_OF_BLOCKS_ONLY } else { MEMPOOL_MB };
        let bytes = self.number("maxmempool").map_or(default_mb, |(mb, _)| mb).saturating_mul(1_000_000);
        if bytes >= 0 && (bytes == 0 || bytes >= least) {
            return Ok(());
        }
        let setting = self.get("maxmempool").or_else(|| self.get("limitclustersize"));
        let least_mb = least.saturating_add(999_999) / 1_000_000;
        refuse(format!("-maxmempool must be at least {least_mb} MB"), setting.as_ref())
    }

    fn traffic(&self) -> Outcome {
        match self.get("maxuploadtarget") {
            Some(setting) if byte_units(setting.value.text()).is_none() => {
                let text = setting.value.text();
                refuse(format!("Unable to parse -maxuploadtarget: '{text}'"), Some(&setting))
            }
            _ => Ok(()),
        }
    }

    fn ports(&self) -> Outcome {
        for name in ["port", "rpcport"] {
            let Some(setting) = self.get(name) else { continue };
            let text = setting.value.text();
            if text.parse::<u16>().ok().is_none_or(|port| port == 0 || text.starts_with('+')) {
                return refuse(format!("Invalid port specified in -{name}: '{text}'"), Some(&setting));
            }
        }
        for (name, unix, suffix) in [
            ("i2psam", false, false),
            ("onion", true, false),
            ("proxy", true, true),
            ("bind", false, true),
            ("rpcbind", false, false),
            ("torcontrol", false, false),
            ("whitebind", false, false),
            ("zmqpubhashblock", true, false),
            ("zmqpubhashtx", true, false),
            ("zmqpubrawblock", true, false),
            ("zmqpubrawtx", true, false),
            ("zmqpubsequence", true, false),
        ] {
            for setting in self.list(name) {
                let text = setting.value.text();
                let address = if suffix { text.rsplit_once('=').map_or(text, |(address, _)| address) } else { text };
                let is_good = split_host_port(address).is_some() || (unix && text.starts_with("unix:"));
                if !is_good {
                    return refuse(format!("Invalid port specified in -{name}: '{text}'"), Some(&setting));
                }
            }
        }
        Ok(())
    }

    /// bitcoind starts an RPC server by default.
    fn server(&self) -> Outcome {
        if self.is("server") == Some(false) {
            return Ok(());
        }
        let why = |text: String| format!("Unable to start HTTP server: {text}");
        #[cfg(feature = "server")]
        for setting in self.list("rpcallowip") {
            let text = setting.value.text();
            let cjdns = self.is("cjdnsreachable") == Some(true);
            let read = subnet(text).and_then(|_| if cjdns { values::no_subnet_of_cjdns(text) } else { Ok(()) });
            if let Err(text) = read {
                return refuse(why(text), Some(&setting));
            }
        }
        let has_password = self.get("rpcpassword").is_some_and(|setting| !setting.value.text().is_empty());
        if let Some(setting) = self.get("rpccookieperms").filter(|_| !has_password) {
            let text = setting.value.text();
            if !matches!(text, "owner" | "group" | "all") {
                let text = format!("Invalid -rpccookieperms={text}; must be one of 'owner', 'group', or 'all'.");
                return refuse(why(text), Some(&setting));
            }
        }
        let bad = self.list("rpcauth").into_iter().find(|setting| !is_rpcauth(setting.value.text()));
        match bad {
            Some(setting) => refuse(why("Invalid -rpcauth argument.".to_owned()), Some(&setting)),
            None => Ok(()),
        }
    }

    fn asmap(&self) -> Outcome {
        if let Some(setting) = self.get("asmap").filter(|setting| setting.value.truth()) {
            return refuse("Embedded asmap data not available", Some(&setting));
        }
        if let Some(setting) = self.get("asmap").filter(|setting| !setting.value.truth() && setting.value.text() != "0")
        {
            let path = self.net_dir.join(setting.path());
            match std::fs::metadata(&path) {
                Err(_) => return refuse(format!("Could not find asmap file \"{}\"", path.display()), Some(&setting)),
                Ok(metadata) if metadata.is_file() && metadata.len() == 0 => {
                    return refuse(format!("Could not parse asmap file \"{}\"", path.display()), Some(&setting));
                }
                Ok(_) => {}
            }
        }
        if self.chain != Chain::Regtest && self.is_on("acceptstalefeeestimates") && !self.is_on("blocksonly") {
            let setting = self.get("acceptstalefeeestimates");
            return refuse(
                format!("acceptstalefeeestimates is not supported on {} chain.", self.chain),
                setting.as_ref(),
            );
        }
        Ok(())
    }

    fn addresses(&self) -> Outcome {
        let by_name = self.is("dns").unwrap_or(true);
        let only_onion = self.list("onlynet").iter().any(|setting| setting.value.text().eq_ignore_ascii_case("onion"));
        for setting in self.list("proxy") {
            let text = setting.value.text();
            let address = text.rsplit_once('=').map_or(text, |(address, _)| address);
            if !matches!(address, "" | "0") && !address.starts_with("unix:") && !looked_up(address, by_name) {
                return refuse(format!("Invalid -proxy address or hostname: '{address}'"), Some(&setting));
            }
        }
        if let Some(setting) = self.get("onion").filter(|setting| !setting.value.text().is_empty()) {
            let text = setting.value.text();
            if text == "0" && only_onion {
                let why = "Outbound connections restricted to Tor (-onlynet=onion) but the proxy for reaching the Tor network is explicitly forbidden: -onion=0";
                return refuse(why, Some(&setting));
            }
            if text != "0" && !text.starts_with("unix:") && !looked_up(text, by_name) {
                return refuse(format!("Invalid -onion address or hostname: '{text}'"), Some(&setting));
            }
        }
        for setting in self.list("externalip") {
            if !looked_up(setting.value.text(), by_name) {
                let text = setting.value.text();
                return refuse(format!("Cannot resolve -externalip address: '{text}'"), Some(&setting));
            }
        }
        if let Some(setting) = self.get("i2psam").filter(|setting| !setting.value.text().is_empty()) {
            let text = setting.value.text();
            if !looked_up(text, by_name) {
                return refuse(format!("Invalid -i2psam address or hostname: '{text}'"), Some(&setting));
            }
        }
        self.private_broadcast(only_onion)
    }

    fn private_broadcast(&self, only_onion: bool) -> Outcome {
        if !self.is_on("privatebroadcast") {
            return Ok(());
        }
        const ASKED: &str = "Private broadcast of own transactions requested (-privatebroadcast), but";
        let setting = self.get("privatebroadcast");
        let only = self.list("onlynet");
        let in_only = |name: &str| only.iter().any(|setting| setting.value.text().eq_ignore_ascii_case(name));
        let i2p = self.has_text("i2psam") && (only.is_empty() || in_only("i2p"));
        let has_onion_proxy = self.has_text("onion") || (self.has_text("proxy") && self.is("onion") != Some(false));
        let listens_onion = self.is("listenonion").unwrap_or_else(|| self.listens_in_core());
        let onion = (has_onion_proxy || listens_onion) && (only.is_empty() || only_onion);
        if !(i2p || onion) {
            return refuse(format!("{ASKED} none of Tor or I2P networks is reachable"), setting.as_ref());
        }
        let has_peers = !self.list("connect").is_empty() || self.is("connect") == Some(false);
        if has_peers {
            return refuse(format!("{ASKED} -connect is also configured. They are incompatible"), setting.as_ref());
        }
        Ok(())
    }

    /// Core's warnings that no other module of ffwd prints.
    fn warnings(&self) -> Vec<String> {
        let mut out = Vec::new();
        for setting in self.list("test") {
            let text = setting.value.text();
            if !TEST_OPTIONS.contains(&text) {
                out.push(format!("Unrecognised option \"{text}\" provided in -test=<option>. ({})", setting.place));
            }
        }
        let has = |name: &str| !self.list(name).is_empty();
        if has("rpcallowip") && !has("rpcbind") {
            let why = "Option -rpcallowip was specified without -rpcbind; this doesn't usually make sense";
            out.push(why.to_owned());
        }
        if has("rpcbind") && !has("rpcallowip") {
            let why = "Option -rpcbind was ignored because -rpcallowip was not specified, refusing to allow everyone to connect";
            out.push(why.to_owned());
        }
        let bad = |name: &str, port: u16, setting: &Setting| {
            format!(
                "-{name} request to listen on port {port}. This port is considered \"bad\" and thus it is unlikely that any peer will connect to it. ({})",
                setting.place
            )
        };
        let binds = self.list("bind");
        for setting in &binds {
            let port = split_host_port(setting.value.text()).flatten();
            out.extend(port.filter(|port| bad_ports::is_bad(*port)).map(|port| bad("bind", port, setting)));
        }
        if let Some(setting) = self.get("port").filter(|_| binds.is_empty() && self.list("whitebind").is_empty()) {
            let port = setting.value.text().parse().ok();
            out.extend(port.filter(|port| bad_ports::is_bad(*port)).map(|port| bad("port", port, &setting)));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use crate::settings::Role;
    use crate::test_line;

    /// The warnings, or the refusal, of `ffwd sync` with this bitcoin.conf and these options.
    fn says(conf: &str, line: &str) -> Result<Vec<String>, String> {
        let given = test_line::sync(conf, line);
        let settings = given.load(Role::Sync).map_err(|why| why.to_string())?;
        Ok(settings.warnings)
    }

    #[test]
    fn options_without_use_have_cores_checks() {
        for (conf, want) in [
            (
                "regtest=1\nport=5\naddnode=a",
                "Config setting for -addnode only applied on regtest network when in [regtest] section.",
            ),
            ("signet=1\nsignetchallenge=51\nsignetchallenge=52", "-signetchallenge cannot be multiple values."),
            ("blocksdir=", "-blocksdir names no directory: cannot make absolute path"),
            ("blocksdir=/nowhere/x", "Specified blocks directory \"/nowhere/x\" does not exist."),
            ("blockfilterindex=basic\nblockfilterindex=more", "Unknown -blockfilterindex value more."),
            (
                "prune=550\nreindex-chainstate=1",
                "Prune mode is incompatible with -reindex-chainstate. Use full -reindex instead.",
            ),
            ("listen=0\nlistenonion=1", "Cannot set -listen=0 together with -listenonion=1"),
            ("proxy=127.0.0.1\nlistenonion=1", "Cannot set -listen=0 together"),
            ("blockmintxfee=x", "Invalid amount for -blockmintxfee=<amount>: 'x'"),
            ("blockreservedweight=5", "-blockreservedweight (5) is lower than minimum safety value of (2000)"),
            ("blockmaxweight=4000001", "-blockmaxweight (4000001) exceeds consensus maximum block weight (4000000)"),
            ("blockmaxweight=1", "-blockreservedweight (8000) exceeds -blockmaxweight (1)"),
            ("test=bip94", "-test=<option> can only be used with regtest"),
            ("testactivationheight=csv@5", "The -testactivationheight option may not be used on mainnet."),
            ("prevoutfetchthreads=-1", "-prevoutfetchthreads must be non-negative (got -1)."),
            ("minrelaytxfee=-1", "Invalid amount for -minrelaytxfee=<amount>: '-1'"),
            ("acceptnonstdtxn=1", "acceptnonstdtxn is not currently supported for main chain"),
            ("limitclustersize=10000", "-maxmempool must be at least 400 MB"),
            ("limitclustercount=65", "limitclustercount must be less than or equal to 64"),
            ("maxmempool=4", "-maxmempool must be at least 5 MB"),
            ("maxuploadtarget=5x", "Unable to parse -maxuploadtarget: '5x'"),
            ("torcontrol=a:b", "Invalid port specified in -torcontrol: 'a:b'"),
            ("rpcport=65536", "Invalid port specified in -rpcport: '65536'"),
            ("rpcallowip=x", "Invalid -rpcallowip subnet specification: x."),
            ("rpcallowip=fc00:db8::/80\ncjdnsreachable=1", "Invalid -rpcallowip subnet specification: fc00:db8::/80."),
            ("rpccookieperms=x", "Invalid -rpccookieperms=x; must be one of"),
            ("rpcauth=x", "Unable to start HTTP server: Invalid -rpcauth argument."),
            ("asmap=nowhere", "Could not find asmap file \""),
            ("asmap=1", "Embedded asmap data not available"),
            ("acceptstalefeeestimates=1", "acceptstalefeeestimates is not supported on main chain."),
            ("onion=a b", "Invalid -onion address or hostname: 'a b'"),
            ("externalip=a b", "Cannot resolve -externalip address: 'a b'"),
            ("proxy=foo.invalid", "Invalid -proxy address or hostname: 'foo.invalid'"),
            ("i2psam=a b", "Invalid -i2psam address or hostname: 'a b'"),
            ("privatebroadcast=1\nlisten=0", "but none of Tor or I2P networks is reachable"),
        ] {
            let why = says(conf, "").expect_err(conf);
            assert!(
                why.contains(want) && (why.contains("bitcoin.conf line") || why.contains("reindex-chainstate")),
                "{conf}: {why}"
            );
        }
    }

    #[test]
    fn good_values_pass_and_the_rest_is_named() {
        for conf in [
            "blockmintxfee=0.00001\nblockreservedweight=8000\nblockmaxweight=3996000",
            "maxmempool=5\nmaxuploadtarget=5000M",
            "maxmempool=0",
            "listen=1\nlistenonion=1",
            "rpcallowip=fd00:db8::/80\ncjdnsreachable=1",
            "rpcallowip=fc00:db8::1\ncjdnsreachable=1",
            "rpcallowip=fc00:db8::/80",
            "server=0\nrpcauth=x\nrpcallowip=y",
            "rpcpassword=a\nrpccookieperms=x",
            "dns=0\nonion=127.0.0.1:9050\ni2psam=127.0.0.1:7656",
            "onion=unix:/run/tor\nexternalip=1.2.3.4",
            "noonion=1\nasmap=0",
            "regtest=1\nacceptstalefeeestimates=1\nacceptnonstdtxn=1",
        ] {
            says(conf, "").unwrap();
        }
        for (conf, want) in [
            ("bind=127.0.0.1:22", "-bind request to listen on port 22. This port is considered \"bad\""),
            ("port=6667\nlisten=1", "-port request to listen on port 6667."),
            ("regtest=1\ntest=nosuch", "Unrecognised option \"nosuch\" provided in -test=<option>."),
        ] {
            let got = says(conf, "").unwrap();
            assert!(got.iter().any(|warning| warning.contains(want)), "{conf}: {got:?}");
        }
    }

    #[test]
    fn the_command_line_counts_in_checks() {
        for (conf, line, want) in [
            ("maxmempool=1", "-maxmempool=300", None),
            ("", "-maxmempool=1", Some("-maxmempool must be at least 5 MB")),
            ("listenonion=1", "-listen=0", Some("Cannot set -listen=0 together with -listenonion=1")),
            ("listenonion=1", "-connect=0 -nolistenonion", None),
            ("regtest=1\nconnect=0", "-connect=127.0.0.1:1", None),
            ("rpcauth=x", "-noserver", None),
        ] {
            match (says(conf, line), want) {
                (Ok(_), None) => {}
                (Err(why), Some(want)) => assert!(why.contains(want), "{conf} {line}: {why}"),
                (got, want) => panic!("{conf} {line}: got {got:?}, want {want:?}"),
            }
        }
    }
}
