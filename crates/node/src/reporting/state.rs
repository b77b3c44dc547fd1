//! The one answer to "why is nothing happening?": [`state_of`] makes it from plain facts, in one fixed order of causes.
//!
//! The progress line, `ffwd top`, the page, `/metrics`, `/events`, `--json` and `warnings` show this state. None of them
//! computes its own. Names are stable; sentences are for people.
//!
//! Absent on purpose: the sentences (`super::sentence`), where the facts come from, and who is told.

use super::alerts::AlertKind;
use super::assumed::AssumedElsewhere;
use crate::chain::pruned_fork::PrunedFork;
use crate::fault::Message;
use primitives::{BlockHash, Height};

/// How long peers may take for their first headers before that is the state, in seconds.
pub const HEADERS_PATIENCE_S: u64 = 5;
/// How long a block that a peer was asked for may take before that is the state, in seconds.
pub const BLOCK_PATIENCE_S: u64 = 5;

/// What a session does at the moment, or waits for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum SessionState {
    /// The data directory is being opened.
    #[default]
    Opening,
    /// The program was told to stop.
    Stopping,
    /// A data directory is served without peers.
    Serving,
    /// There is no space on the disk.
    DiskFull,
    /// Blocks are not downloaded, as was asked for.
    Paused(Pause),
    /// A chain with more work is shut out by a block that is marked invalid.
    ChainShutOut(ShutOut),
    /// The work has reached the height where it was to stop.
    AtStopHeight {
        /// `--stopatheight`.
        stop: Height,
        /// Height of the last connected block.
        height: Height,
    },
    /// `setnetworkactive false`.
    NetworkOff,
    /// No connection is made: `--connect 0`.
    NoConnections {
        /// Whether peers may connect.
        listens: bool,
    },
    /// Connections are being made, and none failed yet.
    Connecting,
    /// This machine has no network.
    NoNetwork,
    /// Names of peers or seeds have no address.
    DnsFailed {
        /// One of them.
        name: String,
    },
    /// The proxy cannot be reached, or refuses.
    ProxyRefuses {
        /// Its address.
        proxy: String,
        /// What it said, or the system.
        why: String,
    },
    /// No peer can be reached.
    NoPeer {
        /// The last one that was tried.
        address: String,
        /// What the system said.
        why: String,
    },
    /// The same, with a proxy that is not used for that peer: its address is one of this machine or of a local network.
    NoPeerPastProxy {
        /// The last one that was tried.
        address: String,
        /// What the system said.
        why: String,
    },
    /// No peer has sent headers.
    NoHeaders,
    /// The chains of the peers have less work than the minimum.
    LittleWork,
    /// The only peers that have the next block's chain keep its last blocks alone.
    PeersPruned {
        /// The lowest block that one of them has.
        lowest: Height,
        /// The block that is needed.
        needed: Height,
    },
    /// The only peers have less than this node knows of, and its tip is old.
    PeersBehind {
        /// The best height of them.
        best: Height,
        /// Height of the best header.
        known: Height,
    },
    /// A block was asked for and has not come.
    WaitingForBlock(BlockWait),
    /// Headers are downloaded, and no block is to be connected.
    Headers {
        /// How far they are.
        height: Height,
    },
    /// Blocks are connected; what limits that is not measured yet.
    Blocks,
    /// Peers are slower than this machine.
    NetworkBound,
    /// The processors limit the work.
    CpuBound,
    /// The disk limits the work.
    DiskBound,
    /// The coins of a snapshot become tables.
    LoadingSnapshot(Loading),
    /// The tip is there, and the blocks below a snapshot are validated.
    ValidatingPast {
        /// Height of the last validated block.
        height: Height,
        /// Height of the snapshot's block.
        end: Height,
    },
    /// The tip is current by Core's rule.
    Following {
        /// Its height.
        height: Height,
    },
    /// All blocks of the peers are connected, and the last one is old.
    WaitingForNewerBlocks {
        /// Height of the last connected block.
        height: Height,
        /// Age of it in seconds.
        age_s: u64,
    },
}

/// How far a snapshot is loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loading {
    /// Bytes of the file that became tables.
    pub bytes: u64,
    /// Bytes of the file; none where its end is not known before it comes.
    pub bytes_end: Option<u64>,
    /// Seconds that the rest takes at the speed so far.
    pub seconds_left: Option<u64>,
}

/// Why blocks are not downloaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pause {
    /// By the call, or the signal.
    Call,
    /// `--download-hours`: from this hour on they are again.
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

/// A chain with more work than the connected one, and the mark that shuts it out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShutOut {
    /// The lowest marked block.
    pub hash: BlockHash,
    /// Its height.
    pub height: Height,
    /// Known blocks from it to the end of the chain.
    pub blocks: u32,
}

/// A block that was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockWait {
    /// Its height.
    pub height: Height,
    /// The peer that was asked last; none where no connected peer gives it.
    pub peer: Option<String>,
    /// How long it is waited for.
    pub seconds: u64,
}

/// What the work waits for while blocks are connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// Workers work.
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

/// Where in its life the program is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stage {
    /// The data directory is being opened.
    #[default]
    Opening,
    /// It works.
    Working,
    /// It serves a data directory without peers.
    AtRest,
    /// It was told to stop.
    Stopping,
}

/// All that the state is made of, at one moment. Whoever drives the work fills it in.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SessionFacts {
    /// Where in its life the program is.
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
    /// Whether work waits for space on the disk.
    pub is_disk_full: bool,
    /// Why blocks are not downloaded.
    pub pause: Option<Pause>,
    /// A better chain that a mark shuts out.
    pub shut_out: Option<ShutOut>,
    /// The block of `--assumevalid`, where it is not on the best header chain.
    pub assumed_elsewhere: Option<AssumedElsewhere>,
    /// A better chain that begins below the pruned blocks.
    pub pruned_fork: Option<PrunedFork>,
    /// What limits the work, once measured.
    pub limit: Option<Limit>,
    /// The lowest missing block that was asked for.
    pub block_wait: Option<BlockWait>,
    /// How far a snapshot is loaded, while that goes on.
    pub loading: Option<Loading>,
    /// Height of the validated blocks below a snapshot, and of the snapshot, while that goes on.
    pub past: Option<(Height, Height)>,
    /// The network; none for a job without one.
    pub network: Option<NetworkFacts>,
}

/// What is known of the network.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NetworkFacts {
    /// `setnetworkactive false`.
    pub is_off: bool,
    /// Whether no connection is made (`--connect 0`).
    pub makes_none: bool,
    /// Whether peers may connect.
    pub listens: bool,
    /// Peers whose handshake is done.
    pub peers: u32,
    /// How long the first of the present peers has been there, in seconds.
    pub peers_for_s: u64,
    /// Failed connections since a peer was there last.
    pub failures: DialFailures,
    /// Whether a present peer, or an earlier one, has told headers.
    pub has_headers: bool,
    /// Whether all peers that told their chains have less work than the minimum.
    pub has_little_work: bool,
    /// Height up to which headers of unknown work were looked at.
    pub presync: Option<Height>,
    /// Whether the headers of the peers are all there.
    pub headers_done: bool,
    /// The greatest height that a present peer has told.
    pub best_height: Option<Height>,
    /// Where no present peer has the next block, because all keep the last blocks alone: the lowest block that one has.
    pub pruned_below: Option<Height>,
}

/// Connections that could not be made, by cause.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DialFailures {
    /// The proxy, and why: no connection goes past it.
    pub proxy: Option<(String, String)>,
    /// The system knows no way to an address.
    pub is_unreachable: bool,
    /// A name without an address.
    pub name: Option<String>,
    /// An address that did not answer, or refused, and why.
    pub address: Option<(String, String)>,
    /// Whether there is a proxy that is not used for that address.
    pub is_past_proxy: bool,
}

impl SessionFacts {
    /// What a person must know of the chain, as far as it holds.
    pub(crate) fn alerts(&self) -> [(AlertKind, Option<Message>); 3] {
        [
            (AlertKind::ChainShutOut, self.shut_out.map(|shut_out| shut_out.message())),
            (AlertKind::PrunedFork, self.pruned_fork.map(|fork| fork.message())),
            (AlertKind::AssumedElsewhere, self.assumed_elsewhere.map(|assumed| assumed.message())),
        ]
    }

    /// Height where the work ends, as far as is known.
    fn end(&self) -> Height {
        self.headers.min(self.stop_height.unwrap_or(Height::MAX))
    }

    /// Whether blocks are missing that are known.
    fn lacks_blocks(&self) -> bool {
        self.height < self.end()
    }
}

/// The state that follows from the facts.
///
/// The order is that of causes: what is further up hides what is further down, because nothing below it can happen before.
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

/// No more blocks are wanted, whatever peers have.
fn at_an_end(facts: &SessionFacts) -> Option<SessionState> {
    if facts.lacks_blocks() {
        return None;
    }
    if let Some(stop) = facts.stop_height.filter(|&stop| stop <= facts.height) {
        return Some(SessionState::AtStopHeight { stop, height: facts.height });
    }
    facts.shut_out.map(SessionState::ChainShutOut)
}

/// What is wrong with the network.
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
    let is_behind = |best: &Height| *best < known && *best <= facts.height && !facts.is_current;
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

/// What is done, where nothing is wrong with the network.
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
    if let Some((height, end)) = facts.past {
        return SessionState::ValidatingPast { height, end };
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

    fn rows_of_work() -> Vec<Row> {
        let limited = |limit| SessionFacts { limit: Some(limit), ..downloading() };
        let past = |f: &mut SessionFacts| f.past = Some((height(10), height(150)));
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
