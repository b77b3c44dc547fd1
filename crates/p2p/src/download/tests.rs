//! Tests of the download window.

use super::*;
use crate::reason::Reason;
use primitives::{BlockHash, Height};

const A: PeerId = PeerId(1);
const B: PeerId = PeerId(2);
const C: PeerId = PeerId(3);
const D: PeerId = PeerId(4);
const LIMITS: Limits = Limits { window_bytes: 100_000_000, window_count: 1024, start_count: IN_FLIGHT_COUNT_START };

fn hash(i: usize) -> BlockHash {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&(i as u64).to_le_bytes());
    BlockHash::from_bytes(bytes)
}

fn list(range: std::ops::Range<usize>) -> Vec<Want> {
    range.map(|i| Want { hash: hash(i), height: Height::new(i as u32) }).collect()
}

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A scheduler with these peers, which have the whole list.
fn download(count: usize, peers: &[PeerId]) -> Download {
    let mut download = Download::default();
    download.want(vec![list(0..count)]);
    for peer in peers {
        download.add_peer(*peer, Source::Sought, 0, at(0));
        download.set_reach(*peer, 0, Reach { count, height_min: Height::GENESIS });
    }
    download
}

fn asked(assigned: &[(PeerId, Vec<Want>)], peer: PeerId) -> Vec<usize> {
    let of = assigned.iter().filter(|(id, _)| *id == peer);
    of.flat_map(|(_, wants)| wants.iter().map(|want| want.height.to_usize())).collect()
}

fn all(assigned: &[(PeerId, Vec<Want>)]) -> Vec<usize> {
    let mut heights: Vec<_> = assigned.iter().flat_map(|(_, w)| w.iter().map(|w| w.height.to_usize())).collect();
    heights.sort_unstable();
    heights
}

#[test]
fn lowest_blocks_are_asked_first_and_once() {
    let mut download = download(100, &[A, B]);
    let assigned = download.assign(0, LIMITS, at(0));
    assert_eq!(all(&assigned), (0..8).collect::<Vec<_>>(), "two peers of four");
    assert_eq!(asked(&assigned, A).len(), IN_FLIGHT_COUNT_START);
    assert!(download.assign(0, LIMITS, at(1)).is_empty(), "nothing is free");
    let first = asked(&assigned, A)[0];
    assert!(matches!(download.arrived(A, &hash(first), 1000, at(2)), Arrival::Wanted(_)));
    assert_eq!(all(&download.assign(0, LIMITS, at(2))), [8, 9], "one more for each that came");
}

/// One peer, which sends a block in six seconds: nothing waits although the requests are older.
#[test]
fn wait_begins_when_a_requested_block_is_the_lowest() {
    let mut download = download(4, &[A]);
    let waits = |of: &Download, ms| of.waits_for(at(ms)).map(|(want, peer, time)| (want.hash, peer, time));
    assert_eq!(all(&download.assign(0, LIMITS, at(1000))), [0, 1, 2, 3]);
    for i in 0..4u64 {
        let begin = 1000 + i * 6000;
        assert_eq!(waits(&download, begin + 5999), Some((hash(i as usize), Some(A), at(5999))), "{i}");
        download.arrived(A, &hash(i as usize), 1000, at(begin + 6000));
        download.assign(0, LIMITS, at(begin + 6000));
    }
    assert_eq!(waits(&download, 30_000), None);
    // The lowest one is requested later than it is the lowest.
    download.remove_peer(A);
    download.want(vec![list(9..10)]);
    download.assign(0, LIMITS, at(30_000));
    assert_eq!(waits(&download, 31_000), Some((hash(9), None, at(1000))), "nobody has it");
    download.add_peer(B, Source::Sought, 0, at(32_000));
    download.set_reach(B, 0, Reach { count: 1, height_min: Height::GENESIS });
    download.assign(0, LIMITS, at(32_000));
    assert_eq!(waits(&download, 33_000), Some((hash(9), Some(B), at(1000))));
}

#[test]
fn window_bounds_requests_but_never_the_lowest_block() {
    let mut by_count = download(100, &[A]);
    let limits = Limits { window_count: 3, ..LIMITS };
    assert_eq!(all(&by_count.assign(0, limits, at(0))), [0, 1, 2]);
    by_count.arrived(A, &hash(2), 10, at(1));
    assert!(by_count.assign(0, limits, at(1)).is_empty(), "the lowest has not arrived");
    by_count.arrived(A, &hash(0), 10, at(2));
    assert_eq!(all(&by_count.assign(0, limits, at(2))), [3]);

    let mut by_bytes = download(100, &[A]);
    let limits = Limits { window_bytes: 350_000, ..LIMITS };
    assert_eq!(all(&by_bytes.assign(0, limits, at(0))), [0, 1, 2], "100 kB is assumed of each");
    assert!(by_bytes.is_window_full());
    by_bytes.arrived(A, &hash(1), 100_000, at(1));
    by_bytes.arrived(A, &hash(2), 100_000, at(1));
    by_bytes.remove_peer(A);
    by_bytes.add_peer(B, Source::Sought, 0, at(2));
    by_bytes.set_reach(B, 0, Reach { count: 100, height_min: Height::GENESIS });
    assert!(by_bytes.assign(900_000, limits, at(2)).is_empty(), "the node has not done with what came");
    by_bytes.judged(&hash(1));
    by_bytes.judged(&hash(2));
    assert_eq!(all(&by_bytes.assign(900_000, limits, at(2))), [0], "whatever is held");
}

#[test]
fn lowest_block_is_asked_beyond_the_peer_limit() {
    let mut download = download(40, &[A, B]);
    let assigned = download.assign(0, LIMITS, at(0));
    let owner = if asked(&assigned, A).contains(&0) { A } else { B };
    let other = if owner == A { B } else { A };
    assert_eq!(download.turn_of_first(owner), Turn::Next);
    assert_eq!(download.turn_of_first(other), Turn::Elsewhere);
    download.remove_peer(owner);
    assert_eq!(download.turn_of_first(other), Turn::Next, "no peer was asked for it: any may free a place");
    assert_eq!(asked(&download.assign(0, LIMITS, at(1)), other), [0], "beyond its four");
    assert_eq!(download.turn_of_first(other), Turn::Queued);
    assert_eq!(download.first_is_queued_at(), Some(other));
    assert!(download.assign(0, LIMITS, at(2)).is_empty());
}

#[test]
fn arrivals_are_classified() {
    let mut download = download(4, &[A, B]);
    let assigned = download.assign(0, LIMITS, at(0));
    let (of_a, of_b) = (asked(&assigned, A)[0], asked(&assigned, B)[0]);
    assert_eq!(download.arrived(C, &hash(of_a), 10, at(1)), Arrival::Unasked, "no such peer");
    assert_eq!(download.arrived(A, &hash(of_b), 10, at(1)), Arrival::Unasked, "asked of another");
    assert!(matches!(download.arrived(A, &hash(of_a), 10, at(1)), Arrival::Wanted(_)));
    assert_eq!(download.arrived(A, &hash(of_a), 10, at(1)), Arrival::Unasked, "a second time: no longer in flight");
    download.want(vec![list(2..3)]);
    let other = if of_b == 2 { asked(&assigned, B)[1] } else { of_b };
    assert_eq!(download.arrived(B, &hash(other), 10, at(1)), Arrival::Late, "wanted no more");
}

#[test]
fn new_list_does_not_repeat_requests() {
    let mut download = download(3, &[A]);
    download.assign(0, LIMITS, at(0));
    download.arrived(A, &hash(0), 10, at(1));
    download.want(vec![list(0..20)]);
    download.set_reach(A, 0, Reach { count: 20, height_min: Height::GENESIS });
    assert_eq!(all(&download.assign(0, LIMITS, at(2))), [3, 4, 5], "two are in flight");
    assert_eq!(download.judged(&hash(0)), Some(A));
    assert_eq!(download.judged(&hash(0)), None);
}

#[test]
fn more_is_requested_once_for_each_list() {
    let mut download = download(20, &[A, B, C, D]);
    assert!(!download.wants_more());
    download.assign(0, LIMITS, at(0));
    assert!(download.wants_more(), "16 of 20 are asked for");
    assert!(!download.wants_more());
    download.want(vec![list(5..20)]);
    assert!(!download.wants_more(), "the list ends where the last one did");
    download.want(vec![list(5..21)]);
    assert!(download.wants_more());
    download.want(vec![vec![]]);
    assert!(!download.wants_more());
}

#[test]
fn bad_body_is_asked_of_another_peer() {
    let mut download = download(1, &[A, B]);
    let assigned = download.assign(0, LIMITS, at(0));
    let liar = assigned[0].0;
    download.arrived(liar, &hash(0), 10, at(1));
    assert_eq!(download.open_count(), 0);
    download.bad_body(liar, &hash(0));
    assert_eq!(download.open_count(), 1);
    download.remove_peer(liar);
    let again = download.assign(0, LIMITS, at(2));
    assert_eq!((again.len(), again[0].0 == liar), (1, false));
}

#[test]
fn requests_of_a_lost_peer_go_to_others() {
    let mut download = download(4, &[A]);
    assert_eq!(all(&download.assign(0, LIMITS, at(0))).len(), 4);
    download.add_peer(B, Source::Sought, 0, at(0));
    download.set_reach(B, 0, Reach { count: 4, height_min: Height::GENESIS });
    download.not_found(A, &hash(3), at(1));
    assert_eq!(asked(&download.assign(0, LIMITS, at(1)), B), [3], "A lacks it");
    download.remove_peer(A);
    assert_eq!(asked(&download.assign(0, LIMITS, at(2)), B), [0, 1, 2]);
}

#[test]
fn notfound_is_forgotten_after_its_backoff() {
    let mut download = download(1, &[A]);
    let mut asked_at = Vec::new();
    for ms in (0..20_000).step_by(250) {
        download.sample(false, at(ms), |_| Some((0, None)));
        if !download.assign(0, LIMITS, at(ms)).is_empty() {
            asked_at.push(ms);
            download.not_found(A, &hash(0), at(ms));
        }
    }
    assert_eq!(asked_at, [0, 1000, 3000, 7000, 15_000], "each time it is believed for longer");
    // What it gives says that it had only been too early.
    download.sample(false, at(40_000), |_| Some((0, None)));
    assert_eq!(all(&download.assign(0, LIMITS, at(40_000))), [0]);
    download.arrived(A, &hash(0), 10, at(40_001));
    download.want(vec![list(5..6)]);
    download.set_reach(A, 0, Reach { count: 1, height_min: Height::GENESIS });
    download.assign(0, LIMITS, at(40_002));
    download.not_found(A, &hash(5), at(40_003));
    download.sample(false, at(41_100), |_| Some((0, None)));
    assert_eq!(all(&download.assign(0, LIMITS, at(41_100))), [5]);
}

#[test]
fn inbound_peers_are_asked_only_for_what_others_lack() {
    let mut download = Download::default();
    download.want(vec![list(0..10)]);
    for (peer, source, count) in [(A, Source::Inbound, 10), (B, Source::Named, 3), (C, Source::Inbound, 10)] {
        download.add_peer(peer, source, 0, at(0));
        download.set_reach(peer, 0, Reach { count, height_min: Height::GENESIS });
    }
    let assigned = download.assign(0, LIMITS, at(0));
    assert_eq!(asked(&assigned, B), (0..3).collect::<Vec<_>>());
    assert_eq!(all(&assigned), (0..10).collect::<Vec<_>>(), "and the others for the rest");
    // What the named one holds up is asked of them, too.
    for i in 3..10 {
        let owner = if asked(&assigned, A).contains(&i) { A } else { C };
        download.arrived(owner, &hash(i), 10, at(1));
    }
    download.assign(0, LIMITS, at(2));
    assert_eq!(all(&download.assign(0, LIMITS, at(2000))), (0..3).collect::<Vec<_>>());
}

#[test]
fn other_bytes_do_not_count_as_speed() {
    let mut download = download(100, &[A]);
    download.assign(0, LIMITS, at(0));
    // A message of 4 MB comes again and again, and is taken off when it is whole and no block.
    for i in 1..200u64 {
        let counted = if i % 8 == 0 { 0 } else { (i % 8) * 500_000 };
        download.sample(false, at(i * 250), |_| Some((counted, None)));
    }
    assert!(download.links[&A].speed.unwrap() < 10.0, "{:?}", download.links[&A].speed);
}

#[test]
fn headers_before_the_first_request_do_not_lower_speed() {
    let mut download = Download::default();
    download.add_peer(A, Source::Sought, 0, at(0));
    // Half of a message of headers, which is whole and no block by the time blocks are asked for.
    download.sample(false, at(250), |_| Some((150_000, None)));
    download.want(vec![list(0..100)]);
    download.set_reach(A, 0, Reach { count: 100, height_min: Height::GENESIS });
    download.assign(0, LIMITS, at(300));
    for i in 2..10 {
        download.sample(false, at(i * 250), |_| Some((10_000 * (i - 1), None)));
    }
    let speed = download.links[&A].speed.unwrap();
    assert!((39_000.0..41_000.0).contains(&speed), "10 kB in 250 ms: {speed}");
}

#[test]
fn limited_peer_is_asked_from_its_lowest_height() {
    let mut download = download(50, &[A]);
    download.set_reach(A, 0, Reach { count: 45, height_min: Height::new(41) });
    assert_eq!(all(&download.assign(0, LIMITS, at(0))), (41..45).collect::<Vec<_>>());
    assert_eq!(download.peer_count(), 0, "no peer has the lowest");
}

#[test]
fn stalled_block_is_asked_of_a_second_and_third_peer() {
    let mut download = download(1, &[A, B, C]);
    let owner = download.assign(0, LIMITS, at(0))[0].0;
    assert!(download.assign(0, LIMITS, at(10)).is_empty());
    assert!(download.assign(0, LIMITS, at(900)).is_empty(), "not yet");
    let again = download.assign(0, LIMITS, at(1100));
    assert_eq!(all(&again), [0]);
    assert_ne!(again[0].0, owner);
    assert!(download.assign(0, LIMITS, at(9000)).is_empty());
    let third = download.assign(0, LIMITS, at(10_100));
    assert_eq!(all(&third), [0]);
    assert!(third[0].0 != owner && third[0].0 != again[0].0);
    assert!(download.assign(0, LIMITS, at(60_000)).is_empty(), "no peer is left");
    assert!(matches!(download.arrived(again[0].0, &hash(0), 10, at(60_001)), Arrival::Wanted(_)));
    assert_eq!(download.arrived(owner, &hash(0), 10, at(60_002)), Arrival::Twice, "no offence");
}

/// A peer that was forgiven its only request is idle, and begins anew.
#[test]
fn given_up_request_leaves_the_peer_idle() {
    let mut download = download(2, &[A]);
    download.set_reach(A, 0, Reach { count: 1, height_min: Height::GENESIS });
    assert_eq!(all(&download.assign(0, LIMITS, at(0))), [0]);
    download.forgo(A, &hash(0), at(1000));
    download.want(Vec::new());
    for ms in (1250..1_800_000).step_by(250) {
        download.sample(false, at(ms), |_| Some((0, None)));
    }
    download.want(vec![list(0..1)]);
    download.set_reach(A, 0, Reach { count: 1, height_min: Height::GENESIS });
    assert_eq!(all(&download.assign(0, LIMITS, at(1_800_000))), [0]);
    assert_eq!(download.peer_to_disconnect(true, at(1_800_250)), None);
}

/// With a low limit of the download, its peers share little.
#[test]
fn peers_that_share_a_low_limit_are_not_late() {
    for (rate_max, want) in [(None, true), (Some(4_000), false)] {
        let mut download = download(1, &[A, B, C]);
        download.limit_rate(rate_max);
        let owner = download.assign(0, LIMITS, at(0))[0].0;
        let mut is_late = false;
        for ms in (250..=120_000).step_by(250) {
            // 3,000 bytes a second.
            download.sample(false, at(ms), |peer| Some((if peer == owner { 3 * ms } else { 0 }, None)));
            is_late |= download.overdue(at(ms)).iter().any(|(peer, ..)| *peer == owner);
        }
        assert_eq!(is_late, want, "{rate_max:?}");
    }
}

/// Whoever changes what is wanted, or goes, gives a peer that holds up the lowest block no more time.
#[test]
fn other_lists_and_peers_leave_a_held_up_block_held_up() {
    let mut download = download(1, &[A, B, C]);
    let owner = download.assign(0, LIMITS, at(0))[0].0;
    let idle = if owner == C { B } else { C };
    let mut asked_at = Vec::new();
    for ms in (100..=91_000).step_by(100) {
        let also = (ms / 100 % 2 == 0).then(|| list(900..901));
        download.want([vec![list(0..1)], also.into_iter().collect()].concat());
        let overdue: Vec<_> = download.overdue(at(ms)).into_iter().map(|(peer, want, _)| (peer, want.height)).collect();
        assert_eq!(overdue.contains(&(owner, Height::GENESIS)), ms > 90_100, "{ms} ms: {overdue:?}");
        for peer in [A, B, C] {
            download.set_reach(peer, 0, Reach { count: 1, height_min: Height::GENESIS });
        }
        if ms == 600 {
            download.remove_peer(idle);
        }
        if !download.assign(0, LIMITS, at(ms)).is_empty() {
            asked_at.push(ms);
        }
    }
    assert_eq!(asked_at, [1100], "a second later another is asked");
}

/// Gives each peer this rate in bytes a second, over `samples` samples from `start` on.
fn measure(download: &mut Download, rates: &[(PeerId, u64)], start: u64, samples: u64) -> u64 {
    let mut now = start;
    for _ in 0..samples {
        now += 250;
        let bytes = |peer: PeerId| rates.iter().find(|(id, _)| *id == peer).map(|(_, rate)| rate * now / 1000);
        download.sample(false, at(now), |peer| Some((bytes(peer)?, None)));
    }
    now
}

#[test]
fn in_flight_limit_follows_speed() {
    let mut download = download(4000, &[A, B, C]);
    download.block_bytes = 10_000.0;
    download.assign(0, LIMITS, at(0));
    measure(&mut download, &[(A, 1_000_000), (B, 100_000_000), (C, 1000)], 0, 40);
    let limit = |peer| download.links[&peer].limit;
    assert!((90..=101).contains(&limit(A)), "a second's worth: {}", limit(A));
    assert_eq!((limit(B), limit(C)), (IN_FLIGHT_COUNT_MAX, IN_FLIGHT_COUNT_MIN));
}

/// A node that is behind reads less than the peer sends: what came is the least that the peer can do.
#[test]
fn pauses_in_reading_do_not_lower_speed() {
    let mut download = download(1000, &[A]);
    let next = |download: &mut Download, arrived: usize, ms| {
        download.arrived(A, &hash(arrived), 100_000, at(ms));
        all(&download.assign(0, LIMITS, at(ms))).len()
    };
    download.assign(0, LIMITS, at(0));
    download.sample(true, at(250), |_| Some((2_500_000, None)));
    assert_eq!(next(&mut download, 0, 251), 100 - 3, "ten megabytes a second");
    // A pause before it is time to measure counts as well.
    download.sample(true, at(400), |_| Some((2_510_000, None)));
    download.sample(false, at(500), |_| Some((2_525_000, None)));
    assert_eq!(next(&mut download, 1, 501), 1);
    for i in 1..20 {
        download.sample(false, at(500 + 250 * i), |_| Some((2_525_000 + 25_000 * i, None)));
    }
    assert_eq!(next(&mut download, 2, 5300), 0, "it was read, and sent less");
    assert_eq!(download.unjudged_bytes(), 300_000);
    download.judged(&hash(1));
    download.bad_body(A, &hash(2));
    assert_eq!(download.unjudged_bytes(), 100_000);
}

#[test]
fn stalling_peer_is_disconnected_unless_it_keeps_pace() {
    for (row, rate_of_a, of_inbound, goes) in [
        ("slow", 10_000, None, true),
        ("half as fast", 600_000, None, false),
        ("half as fast, and an inbound peer was faster", 600_000, Some(100e6), false),
    ] {
        let mut download = download(64, &[A, B]);
        download.add_peer(D, Source::Inbound, 0, at(0));
        let assigned = download.assign(0, LIMITS, at(0));
        let slow = if asked(&assigned, A).contains(&0) { A } else { B };
        let fast = if slow == A { B } else { A };
        let now = measure(&mut download, &[(slow, rate_of_a), (fast, 1_000_000)], 0, 8);
        download.links.get_mut(&D).unwrap().speed = of_inbound;
        // The fast one delivers all it was asked for; nothing else may be asked for.
        for i in asked(&assigned, fast) {
            download.arrived(fast, &hash(i), 1000, at(now));
        }
        let limits = Limits { window_count: 8, ..LIMITS };
        download.assign(0, limits, at(now));
        assert_eq!(download.peer_to_disconnect(false, at(now + 100)), None, "{row}: not at once");
        download.assign(0, limits, at(now + 1500));
        download.assign(0, limits, at(now + 2500));
        let gone = download.peer_to_disconnect(false, at(now + 2500)).map(|(peer, _)| peer);
        assert_eq!(gone, goes.then_some(slow), "{row}");
        if goes {
            assert_eq!(download.stall_timeout, STALL_TIMEOUT_MIN * 2, "the next one has longer");
            download.remove_peer(slow);
            download.judged(&hash(asked(&assigned, fast)[0]));
            assert_eq!(download.stall_timeout, Duration::from_millis(3400));
        }
    }
}

#[test]
fn slow_peer_is_disconnected_if_replaceable() {
    for (row, can_replace, peers, goes) in [
        ("three peers", true, &[A, B, C][..], true),
        ("no peer to take its place", false, &[A, B, C], false),
        ("two are always kept", true, &[A, B], false),
    ] {
        let mut download = download(4000, peers);
        download.assign(0, LIMITS, at(0));
        let rates = [(A, 100_000), (B, 1_000_000), (C, 1_000_000)];
        let mut now = 0;
        let mut gone = None;
        for _ in 0..200 {
            now = measure(&mut download, &rates, now, 1);
            gone = gone.or(download.peer_to_disconnect(can_replace, at(now)));
            // Some arrive all the time, so that no other timeout is met.
            for peer in peers {
                let front = download.links[peer].in_flight.front().copied();
                front.iter().for_each(|hash| _ = download.arrived(*peer, hash, 100_000, at(now)));
            }
            download.assign(0, LIMITS, at(now));
        }
        match gone {
            Some((peer, Reason::Slow { .. })) => assert!(goes && peer == A, "{row}"),
            other => assert!(!goes && other.is_none(), "{row}: {other:?}"),
        }
    }
}

/// Otherwise one peer could have all others disconnected, one after another.
#[test]
fn one_fast_peer_makes_no_other_slow() {
    const FAST: f64 = 100e6;
    for (row, source, is_busy) in [
        ("inbound, measured once", Source::Inbound, false),
        ("named, measured once", Source::Named, false),
        ("named, at work", Source::Named, true),
        ("sought, measured once", Source::Sought, false),
        ("sought, at work", Source::Sought, true),
    ] {
        let mut download = download(4000, &[A, B, C]);
        download.add_peer(D, source, 0, at(0));
        if is_busy {
            download.set_reach(D, 0, Reach { count: 4000, height_min: Height::GENESIS });
        }
        download.assign(0, LIMITS, at(0));
        let mut now = 0;
        for _ in 0..200 {
            let rates = [(A, 200_000), (B, 200_000), (C, 200_000), (D, if is_busy { FAST as u64 } else { 0 })];
            now = measure(&mut download, &rates, now, 1);
            download.links.get_mut(&D).unwrap().speed = Some(FAST);
            for peer in [A, B, C, D] {
                let front = download.links[&peer].in_flight.front().copied();
                front.iter().for_each(|hash| _ = download.arrived(peer, hash, 100_000, at(now)));
            }
            download.assign(0, LIMITS, at(now));
            assert_eq!(download.links[&D].is_busy(), is_busy, "{row}");
            assert_eq!(download.peer_to_disconnect(true, at(now)), None, "{row}");
        }
    }
}

#[test]
fn silent_download_peer_is_disconnected_after_ten_minutes() {
    let mut download = download(5, &[A]);
    download.assign(0, LIMITS, at(0));
    // Bytes trickle: kept.
    let now = measure(&mut download, &[(A, 10)], 0, 4 * 700);
    assert_eq!(download.peer_to_disconnect(false, at(now)), None);
    // Nothing at all: let go.
    let mut end = now;
    for _ in 0..4 * 601 {
        end += 250;
        download.sample(false, at(end), |_| Some((10 * now / 1000, None)));
    }
    assert!(matches!(download.peer_to_disconnect(false, at(end)), Some((A, Reason::BlockTimeout(_)))));
    // While we do not read, no clock runs against it.
    let mut download = self::download(5, &[A]);
    download.assign(0, LIMITS, at(0));
    for i in 1..5000 {
        download.sample(true, at(i * 250), |_| Some((0, None)));
    }
    assert_eq!(download.peer_to_disconnect(false, at(5000 * 250)), None);
}

/// Three peers that connected to us hold all that was asked for; then one that we connected to comes.
#[test]
fn what_inbound_peers_owe_is_asked_of_a_sought_one_at_once() {
    for (row, delivers, asked_at) in [("silent", false, 1_500), ("one delivers", true, 1_500)] {
        let mut download = download(64, &[]);
        for peer in [A, B] {
            download.add_peer(peer, Source::Inbound, 0, at(0));
            download.set_reach(peer, 0, Reach { count: 64, height_min: Height::GENESIS });
        }
        let owed = download.assign(0, LIMITS, at(0));
        assert_eq!(all(&owed).len(), 2 * IN_FLIGHT_COUNT_START, "{row}");
        let (first, second) = (hash(asked(&owed, A)[0]), hash(asked(&owed, A)[1]));
        if delivers {
            assert!(matches!(download.arrived(A, &first, 1000, at(asked_at - 100)), Arrival::Wanted(_)), "{row}");
        }
        download.add_peer(C, Source::Sought, 0, at(asked_at));
        download.set_reach(C, 0, Reach { count: 64, height_min: Height::GENESIS });
        download.sample(false, at(asked_at), |_| None);
        // It is asked for the lowest, be they owed by others, as many as any peer is.
        let of_sought = asked(&download.assign(0, LIMITS, at(asked_at)), C);
        let owed_by = |peer: PeerId| asked(&owed, peer);
        let expected: Vec<_> =
            if delivers { owed_by(B).into_iter().collect() } else { (0..IN_FLIGHT_COUNT_START).collect() };
        let lowest: Vec<_> = expected.into_iter().take(IN_FLIGHT_COUNT_START).collect();
        assert_eq!(of_sought, lowest, "{row}");
        // What those give all the same is taken, once, whether or not it was asked for again.
        assert!(matches!(download.arrived(A, &second, 1000, at(asked_at + 1)), Arrival::Wanted(_)), "{row}");
        if !delivers {
            assert_eq!(download.arrived(C, &second, 1000, at(asked_at + 2)), Arrival::Twice, "{row}");
        }
        let last = hash(*asked(&owed, B).last().unwrap());
        assert!(matches!(download.arrived(B, &last, 1000, at(asked_at + 3)), Arrival::Wanted(_)), "{row}");
        // Who stopped to deliver is not waited for either.
        download.sample(false, at(asked_at + 2_000), |_| None);
        download.sample(false, at(asked_at + 2_300), |_| None);
        let left: Vec<_> =
            (0..64).filter(|i| download.requests.get(&hash(*i)).is_some_and(|r| r.owners == [A])).collect();
        assert_eq!(left, [] as [usize; 0], "{row}");
    }
}

/// Bytes of 250 ms that each peer gave, over and over until `until`; what was asked for meanwhile.
fn go_on(download: &mut Download, rates: &[(PeerId, u64)], from: u64, until: u64) -> Vec<(PeerId, Vec<Want>)> {
    let mut all_asked = Vec::new();
    for now in (from + 250..=until).step_by(250) {
        measure(download, rates, now - 250, 1);
        all_asked.extend(download.assign(0, LIMITS, at(now)));
    }
    all_asked
}

#[test]
fn what_a_quiet_peer_owes_is_asked_of_others() {
    for (row, rate, is_quiet) in [("silent", 0, true), ("drips", 100, true), ("slow", 8_000, false)] {
        let mut download = download(4, &[A]);
        assert_eq!(asked(&download.assign(0, LIMITS, at(0)), A), [0, 1, 2, 3], "{row}");
        download.add_peer(B, Source::Sought, 0, at(0));
        download.set_reach(B, 0, Reach { count: 4, height_min: Height::GENESIS });
        let again = go_on(&mut download, &[(A, rate)], 0, 1000);
        assert_eq!(all(&again), [] as [usize; 0], "{row}: not yet");
        let again = go_on(&mut download, &[(A, rate)], 1000, 1500);
        assert_eq!(download.links[&A].is_quiet, is_quiet, "{row}");
        assert_eq!(asked(&again, B), [0, 1, 2, 3], "{row}: what is quiet, or holds up the lowest block for a second");
        assert_eq!(download.quiet_request_count(), 0, "{row}: what B was asked for takes room again");
        assert_eq!(asked(&again, A), [] as [usize; 0], "{row}");
        // What it gives all the same is taken, once.
        assert!(matches!(download.arrived(A, &hash(1), 1000, at(1600)), Arrival::Wanted(_)), "{row}");
        assert_eq!(download.arrived(B, &hash(1), 1000, at(1700)), Arrival::Twice, "{row}");
    }
}

#[test]
fn quiet_peer_takes_no_room_and_is_asked_for_nothing_more() {
    let mut download = download(100, &[A, B]);
    let limits = Limits { window_bytes: 850_000, ..LIMITS };
    let assigned = download.assign(0, limits, at(0));
    assert_eq!(all(&assigned), (0..8).collect::<Vec<_>>());
    measure(&mut download, &[(A, 0), (B, 0)], 0, 6);
    assert_eq!(download.quiet_request_count(), 8);
    assert!(download.assign(0, limits, at(1500)).is_empty(), "both are quiet: there is none to ask");
    download.add_peer(C, Source::Sought, 0, at(1500));
    download.set_reach(C, 0, Reach { count: 100, height_min: Height::GENESIS });
    assert_eq!(asked(&download.assign(0, limits, at(1500)), C), [0, 1, 2, 3], "the lowest first");
    for i in 0..4 {
        download.arrived(C, &hash(i), 100_000, at(1600));
        download.judged(&hash(i));
    }
    assert_eq!(asked(&download.assign(0, limits, at(1600)), C), (4..12).collect::<Vec<_>>());
    // It goes on: it is as any other.
    assert!(!download.links[&A].is_free());
    assert_eq!(download.arrived(A, &hash(asked(&assigned, A)[0]), 100_000, at(1700)), Arrival::Twice);
    assert!(download.links[&A].is_free() && !download.links[&B].is_free());
}

/// The end of a list, of which a slow peer owes two blocks: the fast one has nothing else to do.
#[test]
fn idle_peer_takes_over_what_a_slower_one_owes() {
    for (row, slow, taken) in [("slower", 50_000, vec![2, 3]), ("hardly slower", 700_000, vec![])] {
        let mut download = download(4, &[A, B]);
        download.links.get_mut(&A).unwrap().limit = 2;
        download.links.get_mut(&B).unwrap().limit = 2;
        let assigned = download.assign(0, LIMITS, at(0));
        let fast = if asked(&assigned, A).contains(&0) { A } else { B };
        let other = if fast == A { B } else { A };
        let of_other = asked(&assigned, other);
        let now = measure(&mut download, &[(fast, 1_000_000), (other, slow)], 0, 4);
        for i in asked(&assigned, fast) {
            download.arrived(fast, &hash(i), 100_000, at(now));
            assert!(
                download.assign(0, LIMITS, at(now + 100)).is_empty(),
                "{row}: the node has not done with what came"
            );
            download.judged(&hash(i));
        }
        let again = download.assign(0, LIMITS, at(now + 200));
        let taken: Vec<usize> = if taken.is_empty() { vec![] } else { of_other };
        assert_eq!((asked(&again, fast), asked(&again, other)), (taken, vec![]), "{row}");
        assert!(download.assign(0, LIMITS, at(now + 300)).is_empty(), "{row}: once");
    }
}
