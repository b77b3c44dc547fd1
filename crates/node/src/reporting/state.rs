//! The one answer to "why is nothing happening?": [`state_of`] computes it from plain facts, in one fixed order of
//! causes.
//!
//! The progress line, `ffwd top`, the page, `/metrics`, `/events`, `--json` and `warnings` show this state. They do not
//! compute their own. Names are stable; sentences are for people.
//!
//! Absent on purpose: the sentences (`super::sentence`), the sources of the facts, and showing it.

use super::alerts::AlertKind;
use super::assumed::AssumedElsewhere;
use crate::chain::pruned_fork::PrunedFork;
use crate::fault::Message;
use primitives::{BlockHash, Height};

/// Seconds without first headers from peers until that becomes the state.
pub const HEADERS_PATIENCE_S: u64 = 5;
/// Seconds without a requested block until that becomes the state.
pub const BLOCK_PATIENCE_S: u64 = 5;

/// Activity of a session, or what it waits for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum SessionState {
    /// The data directory is being opened.
    #[default]
    Opening,
    /// A stop was requested.
    Stopping,
    /// A data directory is served without peers.
    Serving,
    /// The disk is full.
    DiskFull,
    /// The block download is paused on request.
    Paused(Pause),
    /// A block that is marked invalid excludes a chain with more work.
    ChainShutOut(ShutOut),
    /// The chain has reached the height at which it was to stop.
    AtStopHeight {
        /// `--stopatheight`.
        stop: Height,
        /// Height of the last connected block.
        height: Height,
    },
    /// `setnetworkactive false`.
    NetworkOff,
    /// No outbound connections: `--connect 0`.
    NoConnections {
        /// Whether peers may connect.
        listens: bool,
    },
    /// Connections are being made, and none has failed yet.
    Connecting,
    /// This machine has no network.
    NoNetwork,
    /// Names of peers or seeds cannot be resolved.
    DnsFailed {
        /// One of these names.
        name: String,
    },
    /// The proxy cannot be reached, or refuses.
    ProxyRefuses {
        /// Its address.
        proxy: String,
        /// The proxy's answer, or the system's error.
        why: String,
    },
    /// No peer can be reached.
    NoPeer {
        /// The last address that was tried.
        address: String,
        /// The system's error.
        why: String,
    },
    /// No peer can be reached, and a proxy is not used for that peer: its address is one of this machine or of a local
    /// network.
    NoPeerPastProxy {
        /// The last address that was tried.
        address: String,
        /// The system's error.
        why: String,
    },
    /// No peer has sent headers.
    NoHeaders,
    /// The chains of the peers have less work than the minimum.
    LittleWork,
    /// All peers with the chain of the next block keep only its last blocks.
    PeersPruned {
        /// The lowest block that one of them has.
        lowest: Height,
        /// The next block.
        needed: Height,
    },
    /// All peers are behind this node's headers, and its tip is old.
    PeersBehind {
        /// Their best height.
        best: Height,
        /// Height of the best header.
        known: Height,
    },
    /// A requested block has not arrived.
    WaitingForBlock(BlockWait),
    /// Headers are downloaded, and there is no block to connect.
    Headers {
        /// Height of the headers.
        height: Height,
    },
    /// Blocks are connected; the limit is not measured yet.
    Blocks,
    /// Peers limit the speed.
    NetworkBound,
    /// The processors limit the speed.
    CpuBound,
    /// The disk limits the speed.
    DiskBound,
    /// The coins of a snapshot are written into tables.
    LoadingSnapshot(Loading),
    /// The tip is reached, and the blocks below a snapshot, or those that were pruned, are validated.
    ValidatingPast(Past),
    /// The tip is current by Core's rule.
    Following {
        /// Its height.
        height: Height,
    },
    /// All blocks of the peers are connected, and the last one is old.
    WaitingForNewerBlocks {
        /// Height of the last connected block.
        height: Height,
        /// Its age in seconds.
        age_s: u64,
    },
}

/// Progress of loading a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loading {
    /// Bytes of the file whose coins are in tables.
    pub bytes: u64,
    /// Bytes of the file; `None` if its length is unknown.
    pub bytes_end: Option<u64>,
    /// Estimated seconds left at the speed so far.
    pub seconds_left: Option<u64>,
}

/// Why blocks are not downloaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pause {
    /// Paused by the RPC call, or the signal.
    Call,
    /// `--download-hours`: the hour at which the download resumes.
    Hours {
        /// The hour, local time.
        from: u8,
    },
    /// `--maxdownloadtarget`, in MiB a day.
    Target {
        /// MiB.
        mib: u64,
    },
}

/// A chain with more work than the connected one, and the mark that excludes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShutOut {
    /// The lowest marked block.
    pub hash: BlockHash,
    /// Its height.
    pub height: Height,
    /// Number of known blocks from it to the end of the chain.
    pub blocks: u32,
}

/// Progress of the blocks below the tip that are validated later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Past {
    /// Height of the last validated block.
    pub height: Height,
    /// Height of the last block to validate.
    pub end: Height,
    /// Whether they were pruned, and the data directory becomes archival; otherwise they are below a snapshot.
    pub were_pruned: bool,
}

/// A requested block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockWait {
    /// Its height.
    pub height: Height,
    /// The peer of the last request; `None` if no connected peer delivers it.
    pub peer: Option<String>,
    /// How long it has been requested and the lowest missing block.
    pub seconds: u64,
}

/// The bottleneck while blocks are connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// Workers are busy.
    Processor,
    /// Workers wait for memory that is being written, or for files.
    Disk,
    /// Workers wait for peers.
    Network,
}

impl Limit {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Limit::Processor => "processor",
            Limit::Disk => "disk",
            Limit::Network => "network",
        }
    }
}

/// Phase of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stage {
    /// The data directory is being opened.
    #[default]
    Opening,
    /// It works.
    Working,
    /// It serves a data directory without peers.
    AtRest,
    /// A stop was requested.
    Stopping,
}

/// All facts from which the state is computed, at one moment. The job fills them in.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SessionFacts {
    /// Phase of the program.
    pub stage: Stage,
    /// Height of the last connected block.
    pub height: Height,
    /// Age of its time stamp in seconds.
    pub tip_age_s: u64,
    /// Whether it is current by Core's rule: minimum work, and not too old.
    pub is_current: bool,
    /// Height of the best header that is not refused and has minimum work.
    pub headers: Height,
    /// `--stopatheight`.
    pub stop_height: Option<Height>,
    /// Whether work waits for disk space.
    pub is_disk_full: bool,
    /// Why the block download is paused.
    pub pause: Option<Pause>,
    /// A better chain that a mark excludes.
    pub shut_out: Option<ShutOut>,
    /// The block of `--assumevalid`, if it is not on the best header chain.
    pub assumed_elsewhere: Option<AssumedElsewhere>,
    /// A better chain that begins below the pruned blocks.
    pub pruned_fork: Option<PrunedFork>,
    /// What limits the speed, once measured.
    pub limit: Option<Limit>,
    /// The lowest missing block that was requested.
    pub block_wait: Option<BlockWait>,
    /// Progress of loading a snapshot, while that continues.
    pub loading: Option<Loading>,
    /// Progress of the blocks below a snapshot, or of pruned blocks, while they are validated.
    pub past: Option<Past>,
    /// Facts about the network; `None` for a job without one.
    pub network: Option<NetworkFacts>,
}

/// Facts about the network.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NetworkFacts {
    /// `setnetworkactive false`.
    pub is_off: bool,
    /// Whether no outbound connections are made (`--connect 0`).
    pub makes_none: bool,
    /// Whether peers may connect.
    pub listens: bool,
    /// Number of peers with a completed handshake.
    pub peers: u32,
    /// Seconds since the oldest current connection began.
    pub peers_for_s: u64,
    /// Failed connections since the last peer was connected.
    pub failures: DialFailures,
    /// Whether any peer, current or earlier, has sent headers.
    pub has_headers: bool,
    /// Whether all peers that sent headers have less work than the minimum.
    pub has_little_work: bool,
    /// Height up to which headers of unknown work were checked.
    pub presync: Option<Height>,
    /// Whether all headers of the peers are known.
    pub headers_done: bool,
    /// The greatest height that a current peer announced.
    pub best_height: Option<Height>,
    /// If no current peer has the next block, because all keep only the last blocks: the lowest block that one has.
    pub pruned_below: Option<Height>,
}

/// Failed connections, by cause.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DialFailures {
    /// The proxy, and its error: every connection uses it.
    pub proxy: Option<(String, String)>,
    /// The system has no route to an address.
    pub is_unreachable: bool,
    /// A name that cannot be resolved.
    pub name: Option<String>,
    /// An address that did not answer, or refused, and the error.
    pub address: Option<(String, String)>,
    /// Whether there is a proxy that is not used for that address.
    pub is_past_proxy: bool,
}

impl SessionFacts {
    /// The alerts about the chain.
    pub(crate) fn alerts(&self) -> [(AlertKind, Option<Message>); 3] {
        [
            (AlertKind::ChainShutOut, self.shut_out.map(|shut_out| shut_out.message())),
            (AlertKind::PrunedFork, self.pruned_fork.map(|fork| fork.message())),
            (AlertKind::AssumedElsewhere, self.assumed_elsewhere.map(|assumed| assumed.message())),
        ]
    }

    /// Height at which the work ends, if known.
    fn end(&self) -> Height {
        self.headers.min(self.stop_height.unwrap_or(Height::MAX))
    }

    /// Whether known blocks are missing.
    fn lacks_blocks(&self) -> bool {
        self.height < self.end()
    }
}

/// The state that follows from the facts.
///
/// The order is that of causes: an earlier one hides later ones, because those cannot happen before it is resolved.
pub fn state_of(facts: &SessionFacts) -> SessionState {
    match facts.stage {
        Stage::Stopping => return SessionState::Stopping,
        Stage::Opening if facts.is_disk_full => return SessionState::DiskFull,
        Stage::Opening => return SessionState::Opening,
        Stage::Working if facts.is_disk_full => return SessionState::DiskFull,
        Stage::AtRest => return SessionState::Serving,
        Stage::Working => {}
    }
    if let Some(loading) = facts.loading {
        return SessionState::LoadingSnapshot(loading);
    }
    if let Some(pause) = facts.pause.filter(|_| facts.lacks_blocks()) {
        return SessionState::Paused(pause);
    }
    if let Some(state) = at_an_end(facts) {
        return state;
    }
    facts.network.as_ref().and_then(|network| of_network(facts, network)).unwrap_or_else(|| of_work(facts))
}

/// States that need no more blocks, whatever peers have.
fn at_an_end(facts: &SessionFacts) -> Option<SessionState> {
    if facts.lacks_blocks() {
        return None;
    }
    if let Some(stop) = facts.stop_height.filter(|&stop| stop <= facts.height) {
        return Some(SessionState::AtStopHeight { stop, height: facts.height });
    }
    facts.shut_out.map(SessionState::ChainShutOut)
}

/// Problems of the network.
fn of_network(facts: &SessionFacts, network: &NetworkFacts) -> Option<SessionState> {
    if network.is_off {
        return Some(SessionState::NetworkOff);
    }
    if network.peers == 0 {
        return Some(without_peers(network));
    }
    if network.has_little_work {
        return Some(SessionState::LittleWork);
    }
    let is_mute = !network.has_headers && network.presync.is_none() && network.peers_for_s >= HEADERS_PATIENCE_S;
    if is_mute && !facts.is_current {
        return Some(SessionState::NoHeaders);
    }
    if let Some(lowest) = network.pruned_below.filter(|_| facts.lacks_blocks()) {
        return Some(SessionState::PeersPruned { lowest, needed: facts.height + 1 });
    }
    let known = facts.headers.max(facts.height);
    // Older blocks come from peers that are behind as well.
    let is_behind = |best: &Height| *best < known && *best <= facts.height && !facts.is_current && facts.past.is_none();
    network.best_height.filter(is_behind).map(|best| SessionState::PeersBehind { best, known })
}

fn without_peers(network: &NetworkFacts) -> SessionState {
    let failures = &network.failures;
    if network.makes_none {
        SessionState::NoConnections { listens: network.listens }
    } else if let Some((proxy, why)) = failures.proxy.clone() {
        SessionState::ProxyRefuses { proxy, why }
    } else if failures.is_unreachable {
        SessionState::NoNetwork
    } else if let Some((address, why)) = failures.address.clone() {
        match failures.is_past_proxy {
            true => SessionState::NoPeerPastProxy { address, why },
            false => SessionState::NoPeer { address, why },
        }
    } else if let Some(name) = failures.name.clone() {
        SessionState::DnsFailed { name }
    } else {
        SessionState::Connecting
    }
}

/// The activity, if the network has no problem.
fn of_work(facts: &SessionFacts) -> SessionState {
    let height = facts.height;
    if facts.lacks_blocks() {
        if let Some(wait) = facts.block_wait.clone().filter(|wait| wait.seconds >= BLOCK_PATIENCE_S) {
            return SessionState::WaitingForBlock(wait);
        }
        return match facts.limit {
            None => SessionState::Blocks,
            Some(Limit::Processor) => SessionState::CpuBound,
            Some(Limit::Disk) => SessionState::DiskBound,
            Some(Limit::Network) => SessionState::NetworkBound,
        };
    }
    if let Some(reached) = facts.network.as_ref().and_then(|network| network.presync) {
        return SessionState::Headers { height: reached };
    }
    if let Some(past) = facts.past {
        return SessionState::ValidatingPast(past);
    }
    match &facts.network {
        None => SessionState::Blocks,
        Some(_) if facts.is_current => SessionState::Following { height },
        Some(network) if !network.headers_done => SessionState::Headers { height: facts.headers },
        Some(_) => SessionState::WaitingForNewerBlocks { height, age_s: facts.tip_age_s },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn height(height: u32) -> Height {
        Height::new(height)
    }

    /// A sync with one peer that has told 200 headers, of which 100 are connected.
    fn downloading() -> SessionFacts {
        let network = NetworkFacts {
            peers: 1,
            peers_for_s: 60,
            has_headers: true,
            headers_done: true,
            best_height: Some(height(200)),
            ..NetworkFacts::default()
        };
        SessionFacts {
            stage: Stage::Working,
            height: height(100),
            headers: height(200),
            tip_age_s: 86_400,
            network: Some(network),
            ..SessionFacts::default()
        }
    }

    /// The same at the tip, which is current.
    fn following() -> SessionFacts {
        SessionFacts { height: height(200), is_current: true, tip_age_s: 60, ..downloading() }
    }

    /// A sync without a peer, whose connections failed like this.
    fn alone(failures: DialFailures) -> SessionFacts {
        SessionFacts { network: Some(NetworkFacts { failures, ..NetworkFacts::default() }), ..downloading() }
    }

    fn changed(mut facts: SessionFacts, change: impl Fn(&mut SessionFacts)) -> SessionFacts {
        change(&mut facts);
        facts
    }

    fn network(mut facts: SessionFacts, change: impl Fn(&mut NetworkFacts)) -> SessionFacts {
        change(facts.network.as_mut().unwrap());
        facts
    }

    fn wait(seconds: u64) -> Option<BlockWait> {
        Some(BlockWait { height: height(101), peer: Some("192.0.2.1:8333".to_owned()), seconds })
    }

    fn shut_out() -> Option<ShutOut> {
        Some(ShutOut { hash: BlockHash::ZERO, height: height(201), blocks: 7 })
    }

    fn proxy() -> Option<(String, String)> {
        Some(("127.0.0.1:9050".to_owned(), "Connection refused".to_owned()))
    }

    fn address() -> Option<(String, String)> {
        Some(("192.0.2.1:8333".to_owned(), "Connection refused".to_owned()))
    }

    fn name() -> Option<String> {
        Some("seed.example".to_owned())
    }

    type Row = (&'static str, SessionFacts, &'static str);

    fn rows_of_the_program() -> Vec<Row> {
        let at = |stage| SessionFacts { stage, ..downloading() };
        let full = |stage| SessionFacts { is_disk_full: true, ..at(stage) };
        vec![
            ("nothing is known", SessionFacts::default(), "opening"),
            ("opening", at(Stage::Opening), "opening"),
            ("opening on a full disk", full(Stage::Opening), "disk_full"),
            ("stopping", at(Stage::Stopping), "stopping"),
            ("stopping on a full disk", full(Stage::Stopping), "stopping"),
            ("at rest", at(Stage::AtRest), "serving"),
            ("a full disk", full(Stage::Working), "disk_full"),
            ("a full disk hides a pause", changed(full(Stage::Working), |f| f.pause = Some(Pause::Call)), "disk_full"),
            ("a full disk hides the network", network(full(Stage::Working), |n| n.peers = 0), "disk_full"),
            ("paused by a call", changed(downloading(), |f| f.pause = Some(Pause::Call)), "paused"),
            ("paused for hours", changed(downloading(), |f| f.pause = Some(Pause::Hours { from: 22 })), "paused"),
            ("paused by a target", changed(downloading(), |f| f.pause = Some(Pause::Target { mib: 9 })), "paused"),
            ("a pause with nothing to download", changed(following(), |f| f.pause = Some(Pause::Call)), "following"),
            (
                "a pause hides a block that is waited for",
                changed(downloading(), |f| {
                    (f.pause, f.block_wait) = (Some(Pause::Call), wait(60));
                }),
                "paused",
            ),
        ]
    }

    fn rows_of_ends() -> Vec<Row> {
        let stop = |at| move |f: &mut SessionFacts| f.stop_height = Some(height(at));
        vec![
            ("at the stop height", changed(following(), stop(200)), "at_stop_height"),
            ("above the stop height", changed(following(), stop(105)), "at_stop_height"),
            ("below the stop height", changed(downloading(), stop(150)), "blocks"),
            ("at the stop height, headers go on", changed(downloading(), stop(100)), "at_stop_height"),
            (
                "a stop height hides a mark",
                changed(following(), |f| {
                    (f.stop_height, f.shut_out) = (Some(height(200)), shut_out());
                }),
                "at_stop_height",
            ),
            ("a mark on a better chain", changed(following(), |f| f.shut_out = shut_out()), "chain_shut_out"),
            (
                "the same without peers",
                network(changed(following(), |f| f.shut_out = shut_out()), |n| n.peers = 0),
                "chain_shut_out",
            ),
            ("other blocks come first", changed(downloading(), |f| f.shut_out = shut_out()), "blocks"),
        ]
    }

    fn rows_of_connections() -> Vec<Row> {
        let both = DialFailures { name: name(), address: address(), ..DialFailures::default() };
        let no_route = DialFailures { is_unreachable: true, ..both.clone() };
        let all = DialFailures { proxy: proxy(), ..no_route.clone() };
        let of_name = DialFailures { name: name(), ..DialFailures::default() };
        vec![
            ("off", network(downloading(), |n| n.is_off = true), "network_off"),
            ("off hides all", network(alone(all.clone()), |n| n.is_off = true), "network_off"),
            ("connect 0", network(alone(DialFailures::default()), |n| n.makes_none = true), "no_connections"),
            ("connect 0 hides failures", network(alone(all.clone()), |n| n.makes_none = true), "no_connections"),
            ("none failed yet", alone(DialFailures::default()), "connecting"),
            ("the proxy", alone(all), "proxy_refuses"),
            ("no route", alone(no_route), "no_network"),
            ("an address and a name", alone(both.clone()), "no_peer"),
            ("an address without the proxy", alone(DialFailures { is_past_proxy: true, ..both }), "no_peer_past_proxy"),
            ("names alone", alone(of_name), "dns_failed"),
            ("no peer at the tip", network(following(), |n| n.peers = 0), "connecting"),
        ]
    }

    fn rows_of_peers() -> Vec<Row> {
        let mute = |n: &mut NetworkFacts| (n.has_headers, n.best_height, n.headers_done) = (false, None, false);
        let old = || changed(following(), |f| f.is_current = false);
        let empty = || changed(downloading(), |f| (f.height, f.headers) = (Height::GENESIS, Height::GENESIS));
        let pruned = |n: &mut NetworkFacts| n.pruned_below = Some(height(150));
        vec![
            ("little work", network(empty(), |n| n.has_little_work = true), "little_work"),
            ("no headers", network(empty(), mute), "no_headers"),
            ("no headers, blocks to connect", network(downloading(), mute), "no_headers"),
            ("no headers for a moment", network(network(empty(), mute), |n| n.peers_for_s = 1), "headers"),
            ("no headers, at the tip", network(following(), mute), "following"),
            ("presync has no headers yet", network(network(empty(), mute), |n| n.presync = Some(height(9))), "headers"),
            ("pruned peers", network(downloading(), pruned), "peers_pruned"),
            ("pruned peers at the tip", network(following(), pruned), "following"),
            (
                "pruned hides a block that is waited for",
                changed(network(downloading(), pruned), |f| f.block_wait = wait(60)),
                "peers_pruned",
            ),
            ("behind", network(old(), |n| n.best_height = Some(height(150))), "peers_behind"),
            ("behind what is known", network(downloading(), |n| n.best_height = Some(height(100))), "peers_behind"),
            ("behind at a current tip", network(following(), |n| n.best_height = Some(height(199))), "following"),
        ]
    }

    fn loading() -> Loading {
        Loading { bytes: 3_200_000_000, bytes_end: Some(9_100_000_000), seconds_left: Some(240) }
    }

    fn past(were_pruned: bool) -> Past {
        Past { height: height(10), end: height(1_150), were_pruned }
    }

    /// At a tip that is old, with one peer, which lacks its last blocks.
    fn behind_an_old_tip() -> SessionFacts {
        network(changed(following(), |f| f.is_current = false), |n| n.best_height = Some(height(150)))
    }

    fn rows_of_work() -> Vec<Row> {
        let limited = |limit| SessionFacts { limit: Some(limit), ..downloading() };
        let past = |f: &mut SessionFacts| f.past = Some(past(false));
        let job = || SessionFacts { network: None, ..downloading() };
        let loading = |f: &mut SessionFacts| f.loading = Some(loading());
        vec![
            ("a snapshot is loaded", changed(downloading(), loading), "loading_snapshot"),
            ("while there is no peer", network(changed(downloading(), loading), |n| n.peers = 0), "loading_snapshot"),
            ("a block does not come", changed(downloading(), |f| f.block_wait = wait(5)), "waiting_for_block"),
            ("it hides a limit", changed(limited(Limit::Disk), |f| f.block_wait = wait(5)), "waiting_for_block"),
            ("a block comes soon", changed(limited(Limit::Network), |f| f.block_wait = wait(4)), "network_bound"),
            ("not measured", downloading(), "blocks"),
            ("network", limited(Limit::Network), "network_bound"),
            ("processor", limited(Limit::Processor), "cpu_bound"),
            ("disk", limited(Limit::Disk), "disk_bound"),
            ("the tip comes before the past", changed(downloading(), past), "blocks"),
            ("the past", changed(following(), past), "validating_past"),
            ("the past, of a peer behind an old tip", changed(behind_an_old_tip(), past), "validating_past"),
            ("presync", network(following(), |n| n.presync = Some(height(9))), "headers"),
            (
                "headers are not done",
                changed(network(following(), |n| n.headers_done = false), |f| f.is_current = false),
                "headers",
            ),
            ("current", following(), "following"),
            ("an old tip", changed(following(), |f| f.is_current = false), "waiting_for_newer_blocks"),
            ("a job without a network", job(), "blocks"),
            ("such a job at its end", changed(job(), |f| f.height = height(200)), "blocks"),
            ("such a job, by the processor", changed(job(), |f| f.limit = Some(Limit::Processor)), "cpu_bound"),
        ]
    }

    #[test]
    fn state_follows_from_facts_in_the_order_of_causes() {
        let mut seen: Vec<&str> = Vec::new();
        let rows = [rows_of_the_program(), rows_of_ends(), rows_of_connections(), rows_of_peers(), rows_of_work()];
        for (row, facts, want) in rows.into_iter().flatten() {
            let state = state_of(&facts);
            assert_eq!(state.name(), want, "{row}: {state:?}");
            let sentence = state.sentence();
            assert!(sentence.starts_with(char::is_uppercase) && !sentence.ends_with('.'), "{row}: {sentence}");
            seen.push(want);
        }
        let missing: Vec<_> = SessionState::NAMES.iter().filter(|name| !seen.contains(name)).collect();
        assert!(missing.is_empty(), "no row has {missing:?}");
    }

    /// What claims to be done is said of a current tip alone.
    #[test]
    fn only_a_current_tip_is_followed() {
        for (row, facts, _) in
            [rows_of_ends(), rows_of_connections(), rows_of_peers(), rows_of_work()].into_iter().flatten()
        {
            let state = state_of(&facts);
            let text = state.sentence().to_lowercase();
            let claims = ["following", "at the tip", "up to date", "every known block", "100 %"];
            let claims_end = claims.iter().any(|claim| text.contains(claim));
            assert!(!claims_end || facts.is_current, "{row}: {text}");
        }
    }

    #[test]
    fn sentences_say_what_is_wrong_and_what_helps() {
        let alone = |failures| state_of(&alone(failures)).sentence();
        for (row, got, want) in [
            (
                "proxy",
                alone(DialFailures { proxy: proxy(), ..DialFailures::default() }),
                "Proxy 127.0.0.1:9050 does not connect (Connection refused)",
            ),
            (
                "name",
                alone(DialFailures { name: name(), ..DialFailures::default() }),
                "DNS fails: no address for seed.example",
            ),
            (
                "peer",
                alone(DialFailures { address: address(), ..DialFailures::default() }),
                "the last one tried was 192.0.2.1:8333 (Connection refused)",
            ),
            (
                "block",
                SessionState::WaitingForBlock(wait(75).unwrap()).sentence(),
                "Waiting for block 101 from peer 192.0.2.1:8333 for 1 min 15 s",
            ),
            (
                "mark",
                shut_out().unwrap().message().to_string(),
                "at height 201 is marked invalid, with 7 blocks from it on. If the mark is wrong",
            ),
            (
                "a snapshot",
                SessionState::LoadingSnapshot(loading()).sentence(),
                "Loading the snapshot: 3.20 GB of 9.10 GB (35 %), about 4 min 00 s left",
            ),
            (
                "a snapshot from a pipe",
                SessionState::LoadingSnapshot(Loading { bytes_end: None, seconds_left: None, ..loading() }).sentence(),
                "Loading the snapshot: 3.20 GB",
            ),
            (
                "the past of a snapshot",
                SessionState::ValidatingPast(past(false)).sentence(),
                "Validating the blocks below the snapshot: height 10 of 1,150",
            ),
            (
                "the past of a pruned directory",
                SessionState::ValidatingPast(past(true)).sentence(),
                "Downloading and validating the pruned blocks: height 10 of 1,150",
            ),
            (
                "stop",
                SessionState::AtStopHeight { stop: height(105), height: height(399) }.sentence(),
                "height 399, already above --stopatheight 105",
            ),
            (
                "pruned",
                SessionState::PeersPruned { lowest: height(1_112), needed: height(1) }.sentence(),
                "no blocks below height 1,112, and block 1 is needed",
            ),
        ] {
            assert!(got.contains(want), "{row}: {got}");
        }
    }
}
