//! The options of a sync: its peers and its listening addresses.
//!
//! Listening follows Core's rules, except that it is off by default: it needs `listen` or `bind`.
//! Source: facts of Bitcoin Core b88bffe, init.cpp, `InitParameterInteraction` and `AppInitMain`.
//! Absent on purpose: connecting (`p2p`).

use crate::Failure;
use crate::args::WithPeers;
use crate::listening::{Listening, check_duplicates};
use crate::options::values::{CONNECTIONS_MAX, TestOption, upload_target, user_agent_comment};
use crate::settings::{Files, Settings, number};
use node::jobs::{
    self, BLOCK_RELAY_COUNT_MAX, Download, DownloadLimits, OUTBOUND_RESERVED, PeerAddress, PeerSettings, Permissions,
    PermittedNet, Reachable, SyncOptions, check_peer_address, parse_whitebind, peer_address,
};
use node::options::{IndexKind, Prune};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Default port of a proxy: Tor's.
const TOR_PORT: u16 = 9050;
/// Maximum length of a socket path: the system's `sun_path`, without the terminating zero.
const UNIX_PATH_BYTES_MAX: usize = 107;
/// Maximum length of the user agent. Source: Bitcoin Core b88bffe, net.h, `MAX_SUBVERSION_LENGTH`.
const USER_AGENT_BYTES_MAX: usize = 256;
/// Why `--exit-at-tip` would never end.
const NO_PEERS: &str = "--exit-at-tip ends at the tip of the peers' best chain, and with connect=0 and no addnode there are no peers: name one with --connect";

impl Settings {
    /// The options of a sync, or of a repair, which syncs missing blocks.
    ///
    /// # Errors
    ///
    /// [`Failure`].
    pub(crate) fn sync(&mut self, given: &WithPeers, exit_at_tip: bool) -> Result<SyncOptions, Failure> {
        let default_port = self.options.params.default_port;
        let connections = self.files.option(&given.core, "maxconnections", |setting| {
            u16::try_from(number(setting).min(CONNECTIONS_MAX.into()))
                .map_err(|_| "-maxconnections must be greater or equal than zero".to_owned())
        })?;
        let files = &mut self.files;
        let connect = files.connect(given, connections == Some(0));
        let mut addnode = files.texts(&given.core, "addnode");
        // Source: Bitcoin Core b88bffe, init.cpp, `AppInitMain`.
        let empty = addnode.extract_if(.., |text| text.trim().is_empty());
        self.warnings.extend(empty.map(|_| "Ignoring empty -addnode value".to_owned()));
        let seed_nodes = files.texts(&given.core, "seednode");
        check_peers(given, connect.as_deref().unwrap_or_default(), &addnode, &seed_nodes, default_port)?;
        let no_peers = connect.as_ref().is_some_and(Vec::is_empty) && addnode.is_empty();
        if exit_at_tip && no_peers && given.from.is_empty() && self.options.stop_at_height.is_none() {
            // An index in an unsupported format is reported first, because peers would not help.
            jobs::check_index_form(&self.options)?;
            return Err(Failure::Usage(NO_PEERS.to_owned()));
        }
        self.check_network()?;
        let whitebind =
            permitted(&given.core.many::<String>("whitebind"), self.files.list("whitebind"), parse_whitebind)?;
        let whitelist =
            permitted(&given.core.many::<String>("whitelist"), self.files.list("whitelist"), PermittedNet::parse)?;
        let Listening { addresses, onion, onion_default } = self.listen(given, &whitebind)?;
        check_duplicates(addresses.iter().chain(&onion).chain(whitebind.iter().map(|(address, _)| address)))?;
        let port = self.files.port(&given.core, "port")?.unwrap_or(default_port);
        let own_port = p2p::announced(&addresses, &whitebind).next().map_or(port, |address| address.port());
        let is_listening = !addresses.is_empty() || !whitebind.is_empty();
        let files = &mut self.files;
        let proxy = proxy(given, files)?;
        let discovers = is_listening && discovers(given, files, proxy.is_some())?;
        let onion_proxy = onion_proxy(given, files)?;
        let v2transport = files.flag(&given.core, "v2transport")?;
        let only_networks = only_networks(given, files, &onion_proxy, proxy.is_some())?;
        let is_clear = |network: &Reachable| *network != Reachable::Onion;
        let clear = only_networks.is_empty() || only_networks.iter().any(is_clear);
        let (dnsseed, force_dns_seed) = dns_seeds(given, files, connect.is_some(), clear)?;
        let outbound = usize::from(given.maxoutbound).min(usize::from(connections.unwrap_or(u16::MAX)).max(1));
        let peers = PeerSettings {
            seed_nodes,
            force_dns_seed,
            only_networks,
            whitelist,
            whitebind,
            onion,
            onion_default,
            onion_proxy: onion_proxy.address(),
            block_relay: connections.map(|count| block_relay_count(count, outbound)),
            inbound_max: connections.map(|count| usize::from(count).saturating_sub(OUTBOUND_RESERVED)),
            discover: discovers.then_some(own_port),
            ..self.single_settings(given, own_port)?
        };
        Ok(SyncOptions {
            dnsseed,
            connect,
            addnode,
            listen: addresses,
            proxy,
            exit_at_tip,
            v2transport: v2transport.unwrap_or(true),
            outbound,
            peers,
            download: download(given),
            handle: None,
            from: given.from.clone(),
            to_archival: self.is_archival(given),
        })
    }

    /// Whether `--prune 0` was given: then the user asks for no pruning explicitly.
    fn is_archival(&self, given: &WithPeers) -> bool {
        let given = given.writing.prune.or_else(|| given.writing.core.one("prune"));
        given == Some(Prune::Off)
    }

    /// The connection settings that follow from one option each. `port` is that of our own addresses.
    fn single_settings(&mut self, given: &WithPeers, port: u16) -> Result<PeerSettings, Failure> {
        let peer_block_filters = self.peer_block_filters(given)?;
        let debug_net = self.categories.contains(&"net");
        let debug_addrman = self.categories.contains(&"addrman");
        let files = &mut self.files;
        let upload_max = files.option(&given.core, "maxuploadtarget", |setting| upload_target(setting.value.text()))?;
        Ok(PeerSettings {
            no_fixed_seeds: files.flag(&given.core, "fixedseeds")? == Some(false),
            user_agent_comments: user_agent_comments(given, files)?,
            upload_max: upload_max.unwrap_or(0),
            peer_block_filters,
            window_blocks: given.window.map(|blocks| blocks as usize),
            timeout: peer_timeout(given, files)?,
            debug_net,
            debug_addrman,
            cjdns: files.flag(&given.core, "cjdnsreachable")? == Some(true),
            log_ips: files.flag(&given.writing.core, "logips")? == Some(true),
            no_proxy_randomize: files.flag(&given.core, "proxyrandomize")? == Some(false),
            external: external_addresses(given, files, port)?,
            asmap: asmap(given, files),
            has_known_key: has_addrman_test(given, files),
            check_addresses: check_addresses(given, files)?,
            no_log_rate_limit: files.flag(&given.core, "logratelimit")?.is_some_and(|is_on| !is_on),
            ..PeerSettings::default()
        })
    }

    /// Whether block filters are served, which needs their index. Source: Bitcoin Core b88bffe,
    /// `AppInitParameterInteraction`.
    fn peer_block_filters(&mut self, given: &WithPeers) -> Result<bool, Failure> {
        let is_wanted = self.files.flag(&given.core, "peerblockfilters")?;
        if is_wanted != Some(true) || self.options.indexes.contains(&IndexKind::BlockFilter) {
            return Ok(is_wanted == Some(true));
        }
        let why = "Cannot set -peerblockfilters without -blockfilterindex.".to_owned();
        Err(if given.core.one::<bool>("peerblockfilters").is_some() { Failure::Usage(why) } else { Failure::Conf(why) })
    }

    /// Rejects `networkactive=0`, because a sync would connect to peers anyway.
    fn check_network(&self) -> Result<(), Failure> {
        let setting = self.files.conf.get("networkactive", self.files.chain);
        match setting.filter(|setting| !setting.value.truth()) {
            Some(setting) => Err(Failure::Conf(format!(
                "{}: networkactive={}: ffwd sync cannot restrict its connections so: remove the line, or let bitcoind sync; ffwd serve works without peers",
                setting.place,
                setting.value.text()
            ))),
            None => Ok(()),
        }
    }

    /// The addresses at which connections are accepted.
    fn listen(&mut self, given: &WithPeers, whitebind: &[(SocketAddr, Permissions)]) -> Result<Listening, Failure> {
        let files = &mut self.files;
        let port_given = files.port(&given.core, "port")?;
        let port = port_given.unwrap_or(self.options.params.default_port);
        let (switches, mut texts): (Vec<String>, Vec<String>) =
            given.core.many::<String>("listen").into_iter().partition(|text| matches!(text.as_str(), "0" | "1"));
        texts.extend(given.core.many::<String>("bind"));
        let mut found = Listening::default();
        for text in &texts {
            found.take(text, port).map_err(Failure::Usage)?;
        }
        for text in files.list("bind") {
            let fault = |why| Failure::Conf(format!("bind={text} in the configuration: {why}"));
            found.take(&text, port).map_err(fault)?;
        }
        let switch = switches.last().map(|text| *text == "1");
        let switch = files.value(switch, "listen", |setting| Ok(setting.value.truth()))?;
        let is_unnamed = found.addresses.is_empty() && found.onion.is_empty() && whitebind.is_empty();
        match switch {
            Some(false) if !is_unnamed => {
                Err(Failure::Usage("Cannot set -bind or -whitebind together with -listen=0".to_owned()))
            }
            Some(true) if is_unnamed => Ok(Listening::everywhere(port)),
            _ => {
                // The port is also that of an -externalip without one.
                let is_used = !is_unnamed || !files.texts(&given.core, "externalip").is_empty();
                if port_given.is_some() && !is_used {
                    self.notes.push("port has no effect: ffwd listens with listen=1 or bind alone".to_owned());
                }
                Ok(found)
            }
        }
    }
}

/// The proxy for onion services.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OnionProxy {
    /// The proxy of all other connections.
    AsOthers,
    /// A separate proxy.
    Own(String),
    /// Onion services are not connected to.
    Off,
}

impl OnionProxy {
    fn address(self) -> Option<String> {
        if let OnionProxy::Own(address) = self { Some(address) } else { None }
    }

    /// Whether onion services can be reached.
    fn reaches(&self, has_proxy: bool) -> bool {
        match self {
            OnionProxy::AsOthers => has_proxy,
            OnionProxy::Own(_) => true,
            OnionProxy::Off => false,
        }
    }
}

/// `-onion`. Source: Bitcoin Core b88bffe, init.cpp, `AppInitMain`.
fn onion_proxy(given: &WithPeers, files: &mut Files) -> Result<OnionProxy, Failure> {
    let of_line = given.core.one::<String>("onion");
    let is_of_line = of_line.is_some();
    let text = files.value(of_line, "onion", |setting| Ok(setting.value.text().to_owned()))?;
    let failure = |why: String| if is_of_line { Failure::Usage(why) } else { Failure::Conf(why) };
    match text.as_deref() {
        None | Some("") => Ok(OnionProxy::AsOthers),
        Some("0") => Ok(OnionProxy::Off),
        Some(text) if is_unusable_unix(text) => Err(failure(format!("Invalid -onion address or hostname: '{text}'"))),
        Some(text) if text.starts_with("unix:") => Ok(OnionProxy::Own(text.to_owned())),
        Some(text) => {
            check_peer_address(text, TOR_PORT).map_err(|why| failure(format!("-onion={text}: {why}")))?;
            Ok(OnionProxy::Own(text.to_owned()))
        }
    }
}

/// Whether addresses of this machine are announced, if it listens. Source: Bitcoin Core b88bffe, init.cpp,
/// `InitParameterInteraction`.
fn discovers(given: &WithPeers, files: &mut Files, has_proxy: bool) -> Result<bool, Failure> {
    let has_external = !files.texts(&given.core, "externalip").is_empty();
    Ok(files.flag(&given.core, "discover")?.unwrap_or(!has_proxy && !has_external))
}

/// `-externalip`; the default port is our listening port.
fn external_addresses(given: &WithPeers, files: &mut Files, port: u16) -> Result<Vec<PeerAddress>, Failure> {
    let of_line = given.core.many::<String>("externalip");
    let texts = files.texts(&given.core, "externalip");
    let one = |text: &String| {
        peer_address(text, port).ok_or_else(|| {
            let why = format!("Cannot resolve -externalip address: '{text}'");
            if of_line.contains(text) { Failure::Usage(why) } else { Failure::Conf(why) }
        })
    };
    texts.iter().map(one).collect()
}

/// The file of `-asmap`; `None` if it is negated.
fn asmap(given: &WithPeers, files: &mut Files) -> Option<PathBuf> {
    let text = given.core.one::<String>("asmap");
    let text = text.or_else(|| files.conf.get("asmap", files.chain).map(|setting| setting.value.text().to_owned()));
    text.filter(|text| !matches!(text.as_str(), "" | "0" | "1")).map(PathBuf::from)
}

/// Whether `-test=addrman` is given.
fn has_addrman_test(given: &WithPeers, files: &mut Files) -> bool {
    let of_line = given.common.core.many::<TestOption>("test").contains(&TestOption::Addrman);
    of_line || files.conf.list("test", files.chain).iter().any(|setting| setting.value.text() == "addrman")
}

/// `-checkaddrman`.
fn check_addresses(given: &WithPeers, files: &mut Files) -> Result<u32, Failure> {
    let of_line = given.core.one::<u32>("checkaddrman");
    let ratio = files.value(of_line, "checkaddrman", |setting| {
        Ok(u32::try_from(number(setting).clamp(0, 1_000_000)).unwrap_or(0))
    })?;
    Ok(ratio.unwrap_or(0))
}

/// Number of block-relay-only connections among `connections`. Source: Bitcoin Core b88bffe, net.h,
/// `m_max_outbound_block_relay`.
fn block_relay_count(connections: u16, outbound: usize) -> usize {
    usize::from(connections).saturating_sub(outbound).min(BLOCK_RELAY_COUNT_MAX)
}

impl Files {
    /// The peers of `connect`, from the command line and then the files, if it is set. Empty if it is negated, or if no
    /// connection is allowed. `--connect 0` is Core's -noconnect, after which the files do not count.
    /// Source: Bitcoin Core b88bffe, common/settings.cpp, `GetSettingsList`; init.cpp, `m_specified_outgoing`.
    fn connect(&mut self, given: &WithPeers, none: bool) -> Option<Vec<String>> {
        let given = given.core.many::<String>("connect");
        let by_files = !given.iter().any(|address| address == "0") && self.conf.get("connect", self.chain).is_some();
        let mut list = given.clone();
        if by_files {
            list.extend(self.list("connect"));
        }
        list.retain(|address| address != "0");
        (by_files || none || !given.is_empty()).then_some(list)
    }
}

/// Rejects malformed addresses of peers.
fn check_peers(
    given: &WithPeers,
    connect: &[String],
    addnode: &[String],
    seed_nodes: &[String],
    port: u16,
) -> Result<(), Failure> {
    for (option, list, ours) in [
        ("connect", connect, &given.core.many::<String>("connect")),
        ("addnode", addnode, &given.core.many::<String>("addnode")),
        ("seednode", seed_nodes, &given.core.many::<String>("seednode")),
    ] {
        for text in list {
            check_peer_address(text, port).map_err(|why| match ours.contains(text) {
                true => Failure::Usage(format!("--{option} {text}: {why}")),
                false => Failure::Conf(format!("{option}={text} in the configuration: {why}")),
            })?;
        }
    }
    Ok(())
}

/// The permissions that an option grants, from the command line and the files together.
fn permitted<T>(
    given: &[String],
    of_files: Vec<String>,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, Failure> {
    let ours = given.iter().map(|text| parse(text).map_err(Failure::Usage));
    ours.chain(of_files.iter().map(|text| parse(text).map_err(Failure::Conf))).collect()
}

/// The networks of `-onlynet`, from the command line and the files. Source: Bitcoin Core b88bffe, init.cpp,
/// `AppInitMain`.
fn only_networks(
    given: &WithPeers,
    files: &mut Files,
    onion_proxy: &OnionProxy,
    has_proxy: bool,
) -> Result<Vec<Reachable>, Failure> {
    let of_line = given.core.many::<String>("onlynet");
    let names = files.texts(&given.core, "onlynet");
    let network = |name: &String| {
        match name.to_ascii_lowercase().as_str() {
        "ipv4" => Ok(Reachable::Ipv4),
        "ipv6" => Ok(Reachable::Ipv6),
        "onion" if onion_proxy.reaches(has_proxy) => Ok(Reachable::Onion),
        "onion" if *onion_proxy == OnionProxy::Off => Err("Outbound connections restricted to Tor (-onlynet=onion) but the proxy for reaching the Tor network is explicitly forbidden: -onion=0".to_owned()),
        "onion" => Err("Outbound connections restricted to Tor (-onlynet=onion) but the proxy for reaching the Tor network is not provided: -proxy is not given".to_owned()),
        "i2p" | "cjdns" => Err(format!("-onlynet={name}: ffwd makes no connection to this network")),
        _ => Err(format!("Unknown network specified in -onlynet: '{name}'")),
    }
    };
    let failure = |name: &String, why| if of_line.contains(name) { Failure::Usage(why) } else { Failure::Conf(why) };
    if names.is_empty() && *onion_proxy == OnionProxy::Off {
        return Ok(vec![Reachable::Ipv4, Reachable::Ipv6]);
    }
    names.iter().map(|name| network(name).map_err(|why| failure(name, why))).collect()
}

/// The proxy of the command line, otherwise the last of the files. Source: Bitcoin Core b88bffe, init.cpp,
/// `AppInitMain`.
fn proxy(given: &WithPeers, files: &mut Files) -> Result<Option<String>, Failure> {
    let last = match &given.core.one::<String>("proxy") {
        Some(text) => {
            one_proxy(text).map_err(Failure::Usage)?;
            let is_proxy = |text: &&String| !matches!(text.as_str(), "" | "0") && !text.starts_with("unix:");
            Some(text).filter(is_proxy).map_or(Ok(()), |text| {
                check_peer_address(text, TOR_PORT).map_err(|why| Failure::Usage(format!("--proxy {text}: {why}")))
            })?;
            Some(text.clone())
        }
        None => {
            let all = files.list("proxy");
            all.iter().try_for_each(|text| one_proxy(text)).map_err(Failure::Conf)?;
            all.last().cloned()
        }
    };
    Ok(last.filter(|text| !matches!(text.as_str(), "" | "0")))
}

/// Rejects a proxy for only some networks, and a malformed address.
fn one_proxy(text: &str) -> Result<(), String> {
    let only = "ffwd has one proxy, for every network";
    match text.rsplit_once('=').map(|(address, network)| (address, network.to_ascii_lowercase())) {
        Some((_, network)) if network.is_empty() => {
            Err(format!("Invalid -proxy address or hostname, ends with '=': '{text}'"))
        }
        Some((address, network)) if matches!(&*network, "ipv4" | "ipv6" | "onion" | "cjdns") => {
            Err(format!("-proxy={text}: {only}: write -proxy={address}"))
        }
        Some((_, network)) => Err(format!("Unrecognized network in -proxy='{text}': '{network}'")),
        None if is_unusable_unix(text) => Err(format!("Invalid -proxy address or hostname: '{text}'")),
        None => Ok(()),
    }
}

/// Whether this is a Unix socket of a proxy with a path that no socket has.
fn is_unusable_unix(text: &str) -> bool {
    text.strip_prefix("unix:").is_some_and(|path| path.is_empty() || path.len() > UNIX_PATH_BYTES_MAX)
}

/// Download limits: rate and schedule.
fn download(given: &WithPeers) -> Download {
    Download {
        limits: DownloadLimits {
            rate_max: given.download.maxdownload,
            target_mib: given.download.maxdownloadtarget,
            hours: given.download.download_hours,
        },
        switch: std::sync::Arc::default(),
        local_ahead_s: sys::local_time::ahead_s,
    }
}

/// `-peertimeout`. Source: Bitcoin Core b88bffe, init.cpp, `AppInitParameterInteraction`.
fn peer_timeout(given: &WithPeers, files: &mut Files) -> Result<Option<Duration>, Failure> {
    let seconds = given.core.one::<u32>("peertimeout").map(u64::from);
    let seconds = files.value(seconds, "peertimeout", |setting| {
        let seconds = u64::try_from(number(setting)).ok().filter(|&seconds| seconds > 0);
        seconds.ok_or_else(|| "peertimeout must be a positive integer.".to_owned())
    })?;
    Ok(seconds.map(Duration::from_secs))
}

/// Whether DNS seeds are queried, and whether even if addresses are known. Source: Bitcoin Core b88bffe,
/// init.cpp, `AppInitParameterInteraction`.
fn dns_seeds(given: &WithPeers, files: &mut Files, connects_only: bool, clear: bool) -> Result<(bool, bool), Failure> {
    let wanted = files.flag(&given.core, "dnsseed")?;
    if wanted == Some(true) && !clear {
        return Err(Failure::Usage(
            "Incompatible options: -dnsseed=1 was explicitly specified, but -onlynet forbids connections to IPv4/IPv6"
                .to_owned(),
        ));
    }
    let is_asked = wanted.unwrap_or(!connects_only && clear);
    let forced = files.flag(&given.core, "forcednsseed")?;
    if forced == Some(true) && !is_asked {
        let why = "Cannot set -forcednsseed to true when setting -dnsseed to false.";
        return Err(Failure::Conf(why.to_owned()));
    }
    Ok((is_asked, forced == Some(true)))
}

fn user_agent_comments(given: &WithPeers, files: &mut Files) -> Result<Vec<String>, Failure> {
    let mut comments = given.core.many::<String>("uacomment");
    for text in files.list("uacomment") {
        comments.push(user_agent_comment(&text).map_err(Failure::Conf)?);
    }
    let bytes = format!("/ffwd:{}({})/", env!("CARGO_PKG_VERSION"), comments.join("; ")).len();
    if bytes > USER_AGENT_BYTES_MAX {
        return Err(Failure::Usage(format!(
            "Total length of network version string ({bytes}) exceeds maximum length ({USER_AGENT_BYTES_MAX}). Reduce the number or size of uacomments."
        )));
    }
    Ok(comments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_line::sync_options as sync;

    #[test]
    fn sync_options_merge_command_line_and_files() {
        let plain = sync("", "").unwrap();
        assert_eq!((plain.connect, plain.dnsseed, plain.v2transport, plain.outbound), (None, true, true, 8));
        for (row, conf, line, connect, dnsseed) in [
            ("one", "", "--connect a", Some(vec!["a"]), false),
            ("none", "", "--connect 0", Some(vec![]), false),
            ("none of the file", "connect=0", "", Some(vec![]), false),
            ("negated in the file", "noconnect=1", "", Some(vec![]), false),
            ("of the file", "connect=a\nconnect=b", "", Some(vec!["a", "b"]), false),
            ("of both", "connect=a", "--connect b", Some(vec!["b", "a"]), false),
            ("none, whatever the file says", "connect=a", "--connect 0", Some(vec![]), false),
            ("none of the file, one of the line", "connect=0", "--connect b", Some(vec!["b"]), false),
            ("another network's", "[main]\nconnect=a", "--chain regtest", None, true),
            ("seeds all the same", "", "--connect a --dnsseed 1", Some(vec!["a"]), true),
            ("no seeds", "dnsseed=0", "", None, false),
        ] {
            let got = sync(conf, line).unwrap();
            assert_eq!(got.connect, connect.map(|list| list.into_iter().map(str::to_owned).collect()), "{row}");
            assert_eq!(got.dnsseed, dnsseed, "{row}");
        }
        let got = sync(
            "addnode=a\nproxy=127.0.0.1:9050\nv2transport=0",
            "--addnode b --listen [::1] --listen 1.2.3.4:5 --maxoutbound 12",
        )
        .unwrap();
        assert_eq!((got.addnode, got.v2transport, got.outbound), (vec!["b".to_owned(), "a".to_owned()], false, 12));
        assert_eq!(got.proxy.as_deref(), Some("127.0.0.1:9050"));
        assert_eq!(got.listen.iter().map(ToString::to_string).collect::<Vec<_>>(), ["[::1]:8333", "1.2.3.4:5"]);
        assert_eq!(sync("noproxy=1", "").unwrap().proxy, None);
        assert!(matches!(sync("", "--listen here"), Err(Failure::Usage(_))));
        for (row, conf, line, ends) in [
            ("no peers", "", "--connect 0 --exit-at-tip", false),
            ("no peers, by the file", "noconnect=1", "--exit-at-tip", false),
            ("a peer", "connect=0", "--connect a --exit-at-tip", true),
            ("a peer of addnode", "", "--connect 0 --addnode a --exit-at-tip", true),
            ("at a height", "", "--connect 0 --exit-at-tip --stopatheight 5", true),
            ("never", "", "--connect 0", true),
        ] {
            assert_eq!(sync(conf, line).is_ok(), ends, "{row}");
        }
    }

    #[test]
    fn options_that_a_sync_cannot_use_are_refused_or_named() {
        let why = sync("networkactive=0", "").expect_err("no network");
        let want = "line 1: networkactive=0: ffwd sync cannot restrict";
        assert!(matches!(why, Failure::Conf(_)) && why.to_string().contains(want), "{why}");
        assert!(sync("networkactive=1\nmaxuploadtarget=5", "").is_ok());
    }

    #[test]
    fn discovery_and_port_of_our_addresses_are_cores() {
        for (row, conf, line, want) in [
            ("not listening", "", "", None),
            ("not listening, switched on", "discover=1", "", None),
            ("listening", "", "--listen 1", Some(8333)),
            ("the port", "port=5\nlisten=1", "", Some(5)),
            ("the first address", "port=5", "--bind 1.2.3.4:6 --bind 1.2.3.4:7 --whitebind 1.2.3.4:8", Some(6)),
            ("with permissions", "port=5", "--whitebind 1.2.3.4:7", Some(7)),
            ("not where noban is named", "port=5", "--whitebind noban@1.2.3.4:7", Some(5)),
            ("switched off", "discover=0", "--listen 1", None),
            ("the command line's", "discover=0", "--listen 1 --discover 1", Some(8333)),
            ("behind a proxy", "proxy=127.0.0.1", "--listen 1", None),
            ("behind a proxy, switched on", "proxy=127.0.0.1\ndiscover=1", "--listen 1", Some(8333)),
            ("a named address", "externalip=2.2.2.2", "--listen 1", None),
        ] {
            assert_eq!(sync(conf, line).unwrap().peers.discover, want, "{row}");
        }
        let named = sync("externalip=2.2.2.2\nport=5", "--whitebind 1.2.3.4:7").unwrap().peers.external;
        assert_eq!(named[0].to_string(), "2.2.2.2:7");
    }

    #[test]
    fn whitelist_and_whitebind_are_cores() {
        let got = sync("whitelist=addr@10.0.0.0/8", "--whitelist 127.0.0.1 --whitebind noban@127.0.0.1:7").unwrap();
        assert_eq!((got.peers.whitelist.len(), got.listen.len()), (2, 0), "whitebind listens there alone");
        assert_eq!(got.peers.whitebind, [("127.0.0.1:7".parse().unwrap(), Permissions::NOBAN)]);
        let both = sync("", "--bind 127.0.0.1:6 --whitebind 127.0.0.1:7").unwrap();
        assert_eq!((both.listen.len(), both.peers.whitebind.len()), (1, 1));
        for (row, conf, line, want) in [
            ("a network", "", "--whitelist 1.2.3.4/40", "Invalid netmask specified in -whitelist"),
            ("of the file", "whitelist=x@1.2.3.4", "", "Invalid P2P permission: 'x'"),
            ("no port", "", "--whitebind 127.0.0.1", "Need to specify a port with -whitebind"),
            ("not listening", "listen=0", "--whitebind 127.0.0.1:7", "Cannot set -bind or -whitebind"),
        ] {
            let why = sync(conf, line).expect_err(row);
            assert!(why.to_string().contains(want), "{row}: {why}");
        }
    }

    #[test]
    fn peerblockfilters_needs_the_index() {
        for (row, conf, line, want) in [
            ("by default", "blockfilterindex=1", "", Ok(false)),
            ("both", "", "--peerblockfilters 1 --blockfilterindex basic", Ok(true)),
            ("both of the file", "peerblockfilters=1\nblockfilterindex=1", "", Ok(true)),
            ("off above the file", "peerblockfilters=1", "--peerblockfilters 0", Ok(false)),
            ("without the index", "", "--peerblockfilters 1", Err(true)),
            ("the index negated", "blockfilterindex=1", "--peerblockfilters 1 --blockfilterindex 0", Err(true)),
            ("without the index, of the file", "peerblockfilters=1", "", Err(false)),
        ] {
            match (sync(conf, line), want) {
                (Ok(got), Ok(want)) => assert_eq!(got.peers.peer_block_filters, want, "{row}"),
                (Err(why), Err(is_usage)) => {
                    assert_eq!(matches!(why, Failure::Usage(_)), is_usage, "{row}: {why}");
                    let want = "Cannot set -peerblockfilters without -blockfilterindex.";
                    assert!(why.to_string().contains(want), "{row}: {why}");
                }
                (got, want) => panic!("{row}: got {got:?}, want {want:?}"),
            }
        }
    }

    #[test]
    fn onlynet_is_cores() {
        let (v4, v6, onion) = (Reachable::Ipv4, Reachable::Ipv6, Reachable::Onion);
        for (row, conf, line, want, dnsseed) in [
            ("by default", "", "", vec![], true),
            ("one", "", "--onlynet ipv4", vec![v4], true),
            ("of both", "onlynet=ipv6", "--onlynet IPv4", vec![v4, v6], true),
            ("no onion services", "noonion=1", "", vec![v4, v6], true),
            ("no onion services, although a proxy is there", "proxy=127.0.0.1:9050", "--onion 0", vec![v4, v6], true),
            ("onion alone asks no DNS seed", "proxy=127.0.0.1:9050", "--onlynet onion", vec![onion], false),
        ] {
            let got = sync(conf, line).unwrap();
            assert_eq!((got.peers.only_networks, got.dnsseed), (want, dnsseed), "{row}");
        }
        for (row, conf, line, want) in [
            ("unknown", "", "--onlynet tcp", "Unknown network specified in -onlynet: 'tcp'"),
            ("unknown in the file", "onlynet=x", "", "Unknown network specified in -onlynet: 'x'"),
            ("not reachable", "", "--onlynet i2p", "ffwd makes no connection to this network"),
            ("a Unix socket without a path", "onion=unix:", "", "Invalid -onion address or hostname: 'unix:'"),
            ("forbidden", "", "--onlynet onion --onion 0", "the Tor network is explicitly forbidden: -onion=0"),
            ("without a proxy", "", "--onlynet onion", "the proxy for reaching the Tor network is not provided"),
            ("DNS seeds", "proxy=127.0.0.1:9050", "--onlynet onion --dnsseed 1", "Incompatible options: -dnsseed=1"),
        ] {
            let why = sync(conf, line).expect_err(row);
            assert!(why.to_string().contains(want), "{row}: {why}");
        }
    }

    #[test]
    fn options_of_seeds_are_cores() {
        let got = sync("seednode=b\nforcednsseed=1", "--seednode a:7").unwrap();
        assert_eq!((got.peers.seed_nodes, got.peers.force_dns_seed), (vec!["a:7".to_owned(), "b".to_owned()], true));
        for (row, conf, line, want) in [
            ("no seeds", "dnsseed=0", "--forcednsseed 1", "Cannot set -forcednsseed to true when setting -dnsseed to"),
            ("named peers alone", "forcednsseed=1", "--connect a", "Cannot set -forcednsseed to true when setting"),
            ("no address", "", "--seednode a:b", "--seednode a:b: "),
            ("no address in the file", "seednode=a:b", "", "seednode=a:b in the configuration: "),
        ] {
            let why = sync(conf, line).expect_err(row);
            assert!(why.to_string().contains(want), "{row}: {why}");
        }
    }

    #[test]
    fn categories_and_levels_of_the_log_are_cores() {
        for (row, conf, line, net) in [
            ("by default", "", "", false),
            ("of the file", "debug=net", "", true),
            ("not of the file", "debug=net", "--debug bench", false),
            ("all but one", "debugexclude=net", "--debug all", false),
            ("dropped in the file", "debug=abc\ndebug=0\ndebug=net", "", true),
        ] {
            assert_eq!(sync(conf, line).unwrap().peers.debug_net, net, "{row}");
        }
        assert!(sync("logips=1", "").unwrap().peers.log_ips);
        let why = sync("loglevel=abc", "").unwrap_err().to_string();
        assert!(why.contains("Unsupported global logging level -loglevel=abc."), "{why}");
    }

    #[test]
    fn maxconnections_and_uacomment_are_cores() {
        for (row, conf, line, outbound, inbound) in [
            ("by default", "", "", 8, None),
            ("of the file", "maxconnections=40", "", 8, Some(29)),
            ("above the file", "maxconnections=40", "--maxconnections 4", 4, Some(0)),
        ] {
            let got = sync(conf, line).unwrap();
            assert_eq!((got.outbound, got.peers.inbound_max), (outbound, inbound), "{row}");
        }
        assert_eq!(sync("", "--maxconnections 0").unwrap().connect, Some(vec![]));
        let got = sync("uacomment=b", "--uacomment a").unwrap();
        assert_eq!(got.peers.user_agent_comments, ["a", "b"]);
        assert!(sync("uacomment=(b)", "").unwrap_err().to_string().contains("unsafe characters"));
        let long = format!("--uacomment {}", "x".repeat(250));
        assert!(sync("", &long).unwrap_err().to_string().contains("exceeds maximum length"));
    }
}
