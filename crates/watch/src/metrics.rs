//! Metrics in Prometheus' text format. Names and units follow its rules: base units, and `_total` for counters.
//!
//! docs/server.md lists them; only the help text of each defines its meaning.

use crate::exposition::{Exposition, Kind, Series};
use crate::sight::Sight;
use node::histogram;
use node::reporting::state::SessionState;
use node::stats::STAGES;

/// The content type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The most frequent reasons for refused blocks: their series exist from the start.
const REASONS: [&str; 4] =
    ["bad-txnmrklroot", "bad-txns-inputs-missingorspent", "block-script-verify-flag-failed", "high-hash"];
/// Types of connections whose series exist from the start.
const KINDS: [(&str, &str, &str); 4] = [
    ("inbound", "inbound", "v1"),
    ("inbound", "inbound", "v2"),
    ("outbound", "outbound-full-relay", "v1"),
    ("outbound", "outbound-full-relay", "v2"),
];

/// All metrics as text.
pub(crate) fn text(sight: &Sight<'_>) -> String {
    let mut out = Exposition::default();
    chain(&mut out, sight);
    work(&mut out, sight);
    cache(&mut out, sight);
    peers(&mut out, sight);
    machine(&mut out, sight);
    out.into_text()
}

fn chain(out: &mut Exposition, sight: &Sight<'_>) {
    let progress = sight.progress;
    let height = |height: primitives::Height| f64::from(height.to_u32());
    let settings = sight.settings;
    let labels = [("version", settings.version.as_str()), ("build", &settings.build), ("chain", &settings.chain)];
    out.family(Kind::Gauge, "ffwd_build_info", "The program: always 1.", vec![Series::new(&labels, 1.0)]);
    out.gauge("ffwd_uptime_seconds", "Time since the start.", sight.uptime_s);
    let now = sight.state.name();
    let state = |name: &&str| Series::new(&[("state", name)], f64::from(u8::from(*name == now)));
    let states = SessionState::NAMES.iter().map(state).collect();
    out.family(Kind::Gauge, "ffwd_state", "1 for the state that the program is in, 0 for the others.", states);
    out.gauge("ffwd_block_height", "Height of the last connected block.", height(progress.height));
    out.gauge("ffwd_header_height", "Height of the best header.", height(progress.headers.max(progress.height)));
    out.gauge("ffwd_target_height", "Height where the work is expected to end.", height(progress.height_end));
    let presync = progress.presync.map_or(0.0, height);
    out.gauge("ffwd_presync_height", "Height that pre-synchronisation of headers has reached; 0 without.", presync);
    let is_initial = !progress.is_current && sight.state != SessionState::Serving;
    out.gauge(
        "ffwd_initial_block_download",
        "1 while the initial block download goes on.",
        f64::from(u8::from(is_initial)),
    );
    out.gauge("ffwd_chain_done_bytes", "Bytes of the blocks that are connected, of this run.", progress.bytes as f64);
    out.gauge("ffwd_chain_expected_bytes", "Bytes of blocks that there will be.", progress.bytes_end as f64);
    if let Some(seconds) = sight.to_go_s {
        out.gauge("ffwd_time_to_go_seconds", "Estimate of the time that the rest takes.", seconds);
    }
    let stats = &progress.stats;
    out.counter("ffwd_reorgs_total", "Reorganisations to a better chain.", stats.reorgs as f64);
    out.counter("ffwd_blocks_disconnected_total", "Disconnected blocks.", stats.disconnected as f64);
    let mut refused = sight.refused.clone();
    for reason in REASONS {
        refused.entry(reason.to_owned()).or_default();
    }
    let refused = refused.iter().map(|(reason, count)| Series::new(&[("reason", reason)], *count as f64)).collect();
    out.family(Kind::Counter, "ffwd_blocks_refused_total", "Blocks and bodies refused, by Core's reason.", refused);
}

fn work(out: &mut Exposition, sight: &Sight<'_>) {
    let stats = &sight.progress.stats;
    for (name, help, value) in [
        ("ffwd_blocks_decoded_total", "Parsed blocks, connected or not.", stats.blocks),
        ("ffwd_block_bytes_total", "Bytes of connected blocks.", stats.bytes),
        ("ffwd_transactions_total", "Transactions of connected blocks.", stats.transactions),
        ("ffwd_inputs_total", "Inputs of connected blocks, coinbases' not counted.", stats.inputs),
        ("ffwd_outputs_total", "Outputs of connected blocks.", stats.outputs),
        ("ffwd_scripts_verified_total", "Inputs whose scripts ran.", stats.scripts),
    ] {
        out.counter(name, help, value as f64);
    }
    out.gauge("ffwd_workers", "Threads that work on blocks.", sight.settings.workers as f64);
    let by_stage = |value: &dyn Fn(usize) -> f64| {
        STAGES.iter().enumerate().map(|(i, (_, name))| Series::new(&[("stage", name)], value(i))).collect()
    };
    let busy = by_stage(&|i| stats.busy[i].as_secs_f64());
    let help = "Time that threads were busy with a stage; its rate is the number of threads.";
    out.family(Kind::Counter, "ffwd_stage_busy_seconds_total", help, busy);
    let queued = by_stage(&|i| stats.waited[i].as_secs_f64());
    let help = "Time that tasks of a stage waited for a worker; its rate is the mean depth of the queue.";
    out.family(Kind::Counter, "ffwd_stage_queue_seconds_total", help, queued);
    let tasks = by_stage(&|i| stats.tasks[i] as f64);
    out.family(Kind::Counter, "ffwd_stage_tasks_total", "Tasks of a stage that were done.", tasks);
}

fn cache(out: &mut Exposition, sight: &Sight<'_>) {
    let stats = &sight.progress.stats;
    out.gauge("ffwd_cache_coins", "Records of the UTXO set in memory.", stats.coins as f64);
    out.gauge("ffwd_cache_bytes", "Memory of those records.", stats.coin_bytes as f64);
    out.gauge("ffwd_cache_limit_bytes", "The budget (-dbcache).", sight.settings.dbcache_bytes as f64);
    out.counter("ffwd_cache_lookups_total", "Coins asked for by inputs.", stats.spends as f64);
    out.counter("ffwd_cache_misses_total", "Those that were asked of the tables.", stats.asked as f64);
    out.counter("ffwd_flushes_total", "Times that coins were made durable.", stats.flushes as f64);
    let help = "How long making coins durable took.";
    out.histogram("ffwd_flush_duration_seconds", help, &histogram::FLUSH_S, &stats.flush_times);
    let compactions = stats.tasks[node::stats::Stage::Compact as usize];
    out.counter("ffwd_compactions_total", "Pieces of compactions of the tables.", compactions as f64);
    let help = "How long looking up a block's coins in the tables took.";
    out.histogram("ffwd_table_lookup_duration_seconds", help, &histogram::LOOK_UP_S, &stats.look_up_times);
}

fn peers(out: &mut Exposition, sight: &Sight<'_>) {
    let mut count: std::collections::BTreeMap<(&str, &str, &str), f64> = KINDS.map(|kind| (kind, 0.0)).into();
    for peer in &sight.peers {
        let direction = if peer.inbound { "inbound" } else { "outbound" };
        *count.entry((direction, peer.connection_type, peer.transport)).or_default() += 1.0;
    }
    let series = count.iter().map(|((direction, kind, transport), count)| {
        Series::new(&[("direction", direction), ("type", kind), ("transport", transport)], *count)
    });
    let series = series.collect();
    out.family(Kind::Gauge, "ffwd_peers", "Connections.", series);
    let by_kind = |of: &dyn Fn((u64, u64)) -> u64| {
        let mut all = sight.by_kind.clone();
        for (_, kind, transport) in KINDS {
            all.entry((kind, transport)).or_default();
        }
        let series = all.iter().map(|((kind, transport), bytes)| {
            Series::new(&[("type", kind), ("transport", transport)], of(*bytes) as f64)
        });
        series.collect()
    };
    let received = by_kind(&|(received, _)| received);
    let help =
        "Bytes received by type of connection, as seen by scrapes: what comes after the last one is not counted.";
    out.family(Kind::Counter, "ffwd_peer_received_bytes_total", help, received);
    let help = "Bytes sent by type of connection, as seen by scrapes.";
    out.family(Kind::Counter, "ffwd_peer_sent_bytes_total", help, by_kind(&|(_, sent)| sent));
    out.counter("ffwd_network_received_bytes_total", "Bytes received from all peers.", sight.totals.0 as f64);
    out.counter("ffwd_network_sent_bytes_total", "Bytes sent to all peers.", sight.totals.1 as f64);
    let network = &sight.network;
    let help = "Connections ended because a requested answer did not arrive in time.";
    out.counter("ffwd_peer_stalls_total", help, network.stalled_count as f64);
    let help = "Connections ended because the peer misbehaved.";
    out.counter("ffwd_peer_misbehaviours_total", help, network.misbehaved_count as f64);
    let help = "Lines that peers caused and that were left out of debug.log and standard output: they are limited.";
    out.counter("ffwd_log_lines_left_out_total", help, sight.progress.lines_left_out as f64);
    let help = "Peers that were asked for the next block and have kept it waiting.";
    let stalling = sight.peers.iter().filter(|peer| peer.stalls.is_some()).count();
    out.gauge("ffwd_peers_stalling", help, stalling as f64);
    for (name, help, value) in [
        ("ffwd_download_in_flight_blocks", "Blocks asked for and not there yet.", network.in_flight_count),
        ("ffwd_download_queue_blocks", "Blocks of the present list that have not arrived.", network.wanted_count),
        ("ffwd_download_window_bytes", "Blocks that have arrived and are held in memory.", network.held_bytes),
        ("ffwd_download_window_full", "1 while the network waits for the node.", usize::from(network.window_full)),
        ("ffwd_download_peers", "Peers that can serve the next block.", network.download_peer_count),
    ] {
        out.gauge(name, help, value as f64);
    }
}

fn machine(out: &mut Exposition, sight: &Sight<'_>) {
    let machine = &sight.machine;
    if let Some(free) = machine.free_bytes {
        out.gauge("ffwd_disk_free_bytes", "Bytes that are free where the data directory is.", free as f64);
    }
    out.counter("ffwd_disk_read_bytes_total", "Bytes that the disk gave.", machine.read_bytes as f64);
    out.counter("ffwd_disk_written_bytes_total", "Bytes that the disk was given.", machine.written_bytes as f64);
    let anonymous = machine.anonymous_bytes as f64;
    out.gauge("ffwd_process_resident_anonymous_bytes", "Anonymous memory of the program (RssAnon).", anonymous);
    let help = "Resident memory of the program, mapped files with it.";
    out.gauge("ffwd_process_resident_memory_bytes", help, machine.resident_bytes as f64);
    out.counter("ffwd_process_cpu_seconds_total", "Processor time of the program.", machine.processor_s);
}

#[cfg(test)]
mod tests {
    use crate::board::tests::{board, quiet_board};
    use node::stats::STAGES;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// Names of families, and of series.
    fn names(text: &str) -> (BTreeSet<String>, BTreeSet<String>) {
        let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        let series =
            text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split(['{', ' ']).next());
        (families.map(str::to_owned).collect(), series.map(str::to_owned).collect())
    }

    #[test]
    fn names_and_units_are_by_prometheus_rules() {
        let text = board().metrics();
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        for (name, kind) in types {
            assert!(name.starts_with("ffwd_") && text.contains(&format!("# HELP {name} ")), "{name}");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
            assert!(kind != "histogram" || name.ends_with("_seconds"), "{name}");
            let wrong = ["_ms", "_millis", "_kb", "_mib", "_count", "_sum", "_bucket"];
            assert!(!wrong.iter().any(|end| name.ends_with(end)), "{name}");
        }
        for want in [
            "ffwd_block_height 10",
            "ffwd_header_height 21",
            "ffwd_state{state=\"cpu_bound\"} 1",
            "ffwd_cache_lookups_total 1000",
            "ffwd_cache_misses_total 250",
            "ffwd_stage_busy_seconds_total{stage=\"scripts\"} 15",
            "ffwd_flush_duration_seconds_bucket{le=\"0.5\"} 2",
            "ffwd_flush_duration_seconds_bucket{le=\"+Inf\"} 2",
            "ffwd_flush_duration_seconds_sum 0.8",
            "ffwd_flush_duration_seconds_count 2",
            "ffwd_time_to_go_seconds 10",
        ] {
            assert!(text.lines().any(|line| line == want), "{want} is not in\n{text}");
        }
    }

    /// Also before a job has reported its progress.
    #[test]
    fn no_series_comes_twice() {
        for text in [quiet_board().metrics(), board().metrics()] {
            let mut series = BTreeSet::new();
            for sample in text.lines().filter(|line| !line.starts_with('#')) {
                let (name, _) = sample.rsplit_once(' ').unwrap();
                assert!(series.insert(name), "{name} comes twice");
            }
        }
    }

    /// What a dashboard, an alert or the documentation names is there.
    #[test]
    fn what_contrib_and_docs_name_exists() {
        let (families, series) = names(&board().metrics());
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for file in ["contrib/grafana-dashboard.json", "contrib/prometheus-alerts.yml", "docs/metrics.md"] {
            let text = std::fs::read_to_string(root.join(file)).unwrap_or_else(|why| panic!("{file}: {why}"));
            let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let named: BTreeSet<&str> =
                text.split(|c| !is_of_name(c)).filter(|word| word.starts_with("ffwd_")).collect();
            assert!(named.len() > 10, "{file} names {}", named.len());
            let missing: Vec<_> =
                named.iter().filter(|name| !families.contains(**name) && !series.contains(**name)).collect();
            assert!(missing.is_empty(), "{file} names what is not there: {missing:?}");
            if file.starts_with("docs") {
                let states = format!("state: {} |", node::reporting::state::SessionState::NAMES.join(", "));
                assert!(text.contains(&states), "{file} does not name {states}");
                let stages = format!("stage: {} |", STAGES.map(|(_, name)| name).join(", "));
                assert!(text.contains(&stages), "{file} does not name {stages}");
                let unsaid: Vec<_> = families.iter().filter(|name| !named.contains(name.as_str())).collect();
                assert!(unsaid.is_empty(), "{file} does not name {unsaid:?}");
            }
        }
    }
}
