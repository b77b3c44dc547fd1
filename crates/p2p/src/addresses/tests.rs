//! The memory as a whole: Core's vectors, its rules, its file.

use super::peers_file::PeersFileError;
use super::*;
use crate::wire::{AddressEntry, Target};

const NOW: u64 = 1_700_000_000;
const DAY: u64 = 24 * 3600;
const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];

fn peer(text: &str) -> PeerAddress {
    match Target::parse(text, 8333).unwrap() {
        Target::Peer(peer) => peer,
        Target::Name(..) => panic!("{text} is an address"),
    }
}

fn v4(a: u8, b: u8, c: u8) -> PeerAddress {
    PeerAddress { address: NetAddress::V4([a, b, c, 1]), port: 8333 }
}

fn told(peer: PeerAddress) -> AddressEntry {
    AddressEntry { peer, services: 9, time: NOW as u32 - 1000 }
}

fn memory() -> Addresses {
    Addresses::deterministic(Arc::default())
}

/// As `addpeeraddress` does.
fn add(memory: &mut Addresses, peer: PeerAddress) -> bool {
    memory.add(&[told(peer)], peer.address, 0, NOW)
}

fn place(table: Table, memory: &Addresses, peer: &PeerAddress) -> Option<String> {
    let placed = memory.placed(table).into_iter().find(|placed| placed.entry.peer == *peer)?;
    Some(format!("{}/{}", placed.place.bucket, placed.place.position))
}

/// Core's rpc_net.py, `test_getrawaddrman`, with `-test=addrman`.
#[test]
fn places_are_those_of_core_s_vectors() {
    let onion = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion";
    let other = "nrfj6inpyf73gpkyool35hcmne5zwfmse3jl3aw23vk7chdemalyaqad.onion:45324";
    let i2p = NetAddress::parse("c4gfnttsuwqomiygupdqqqyy5y5emnk5c73hrfvatri67prd7vyq.b32.i2p").unwrap();
    let i2p = PeerAddress { address: i2p, port: 8333 };
    let mut memory = memory();
    for (peer, table, want) in [
        (peer("1.2.3.4"), Table::Tried, "6/33"),
        (peer("2.0.0.0"), Table::New, "82/8"),
        (peer("[1233:3432:2434:2343:3234:2345:6546:4534]"), Table::Tried, "197/34"),
        (peer("[2803:0:1234:abcd::1]:45324"), Table::New, "613/6"),
        (peer(onion), Table::Tried, "72/61"),
        (peer(other), Table::Tried, "139/46"),
        (i2p, Table::New, "963/46"),
    ] {
        assert!(add(&mut memory, peer), "{peer}");
        assert!(table == Table::New || memory.good(&peer, NOW), "{peer}");
        assert_eq!(place(table, &memory, &peer).as_deref(), Some(want), "{peer}");
    }
    assert_eq!((memory.count_in(Table::New, None), memory.count_in(Table::Tried, None)), (3, 4));
    assert_eq!((memory.count_of(1), memory.count_of(2), memory.count_of(4), memory.count_of(5)), (2, 2, 2, 1));
    assert_eq!(memory.check(), None);
}

#[test]
fn an_address_is_told_by_many_and_forgotten_once_it_is_terrible() {
    let mut memory = memory();
    let one = v4(8, 8, 8);
    assert!(add(&mut memory, one));
    // Others tell of it, later and later: it comes into more buckets, eight at most.
    for i in 0..2000u64 {
        let later = AddressEntry { time: (NOW + i) as u32, ..told(one) };
        memory.add(&[later], v4(20 + (i % 200) as u8, 1, 1).address, 0, NOW + i);
        assert_eq!(memory.check(), None);
    }
    let count = memory.placed(Table::New).len();
    assert!((2..=usize::from(BUCKETS_PER_ADDRESS)).contains(&count), "{count}");
    assert_eq!(memory.count(), 1);
    for (row, peer) in [("not routable", v4(10, 1, 1)), ("of this machine", v4(127, 0, 0))] {
        assert!(!add(&mut memory, peer), "{row}");
    }
    // One that failed three times and never worked is told to nobody.
    memory.good(&v4(9, 9, 9), NOW + 1);
    for i in 0..3 {
        memory.good(&v4(9, 9, 9), NOW + 3000 + i * 2000);
        memory.attempted(&one, true, NOW + 3001 + i * 2000);
    }
    assert_eq!(memory.entry(&one).unwrap().attempts, 3);
    assert_eq!(memory.get(0, 0, None, NOW + 20_000), []);
    assert_eq!(memory.get(0, 0, None, NOW + 7030).len(), 1, "not within a minute of the last try");
    // Without a success since the last failure was counted it is we who are offline.
    memory.attempted(&one, true, NOW + 9000);
    assert_eq!(memory.entry(&one).unwrap().attempts, 3);
}

#[test]
fn entry_is_terrible_and_chosen_by_core_s_rules() {
    let fresh = Entry { time: NOW as u32, ..Entry::new(&told(v4(8, 8, 8)), v4(1, 1, 1).address) };
    let now = NOW as i64;
    let long_ago = now - 8 * DAY as i64;
    for (row, entry, want) in [
        ("fresh", fresh.clone(), false),
        ("of the future", Entry { time: NOW as u32 + 601, ..fresh.clone() }, true),
        ("of ten minutes ahead", Entry { time: NOW as u32 + 600, ..fresh.clone() }, false),
        ("not seen for 30 days", Entry { time: (NOW - 30 * DAY - 1) as u32, ..fresh.clone() }, true),
        ("seen 30 days ago", Entry { time: (NOW - 30 * DAY) as u32, ..fresh.clone() }, false),
        ("never worked, tried thrice", Entry { attempts: 3, ..fresh.clone() }, true),
        ("tried thrice, just now", Entry { attempts: 3, last_try: now - 60, ..fresh.clone() }, false),
        ("worked, failed since", Entry { attempts: 9, last_success: long_ago, ..fresh.clone() }, false),
        ("worked, failed ten times", Entry { attempts: 10, last_success: long_ago, ..fresh.clone() }, true),
        ("worked this week", Entry { attempts: 10, last_success: now - 6 * DAY as i64, ..fresh.clone() }, false),
    ] {
        assert_eq!(entry.is_terrible(now), want, "{row}");
    }
    let chance = |entry: &Entry| (entry.chance(now) * 10_000.0).round();
    assert_eq!(chance(&fresh), 10_000.0);
    assert_eq!(chance(&Entry { last_try: now - 599, ..fresh.clone() }), 100.0);
    assert_eq!(chance(&Entry { attempts: 1, ..fresh.clone() }), 6600.0);
    assert_eq!(chance(&Entry { attempts: 8, ..fresh.clone() }), chance(&Entry { attempts: 80, ..fresh }));
}

/// Two addresses with the same place among the tried ones.
fn colliding(memory: &mut Addresses) -> (PeerAddress, PeerAddress) {
    let mut seen = HashMap::new();
    for a in 1..=200u8 {
        for b in 0..=255 {
            let peer = v4(a, b, 1);
            if !peer.address.is_routable() {
                continue;
            }
            let at = memory.key.tried_place(&peer, &memory.groups);
            if let Some(other) = seen.insert(at, peer) {
                assert!(add(memory, other) && add(memory, peer));
                return (other, peer);
            }
        }
    }
    panic!("51,200 addresses have 16,384 places")
}

#[test]
fn tried_address_is_tested_before_it_gives_its_place() {
    for (row, seconds, old_tried, want) in [
        ("it worked within four hours", 3600, None, false),
        ("it was tried and failed", 5 * 3600, Some(120), true),
        ("it is being tried", 5 * 3600, Some(30), false),
        ("it could not be tried for forty minutes", 5 * 3600, None, true),
    ] {
        let mut memory = memory();
        let (old, new) = colliding(&mut memory);
        assert!(memory.good(&old, NOW), "{row}");
        let later = NOW + seconds;
        assert!(!memory.good(&new, later - 2401), "{row}: the place is taken");
        assert_eq!(memory.select_collision().map(|entry| entry.peer), Some(old), "{row}");
        if let Some(before) = old_tried {
            memory.attempted(&old, true, later - before);
        }
        memory.resolve_collisions(later);
        assert_eq!(place(Table::Tried, &memory, &new).is_some(), want, "{row}");
        assert_eq!(place(Table::Tried, &memory, &old).is_some(), !want, "{row}");
        let has_place = place(Table::New, &memory, &old).is_some() || !want;
        assert!(has_place, "{row}: it is a new one again");
        assert_eq!(memory.check(), None, "{row}");
    }
}

#[test]
fn a_handshake_tells_nobody_when_it_was() {
    let mut memory = memory();
    let one = v4(8, 8, 8);
    add(&mut memory, one);
    let time = |memory: &Addresses| memory.entry(&one).unwrap().time;
    let before = time(&memory);
    memory.attempted(&one, true, NOW);
    memory.good(&one, NOW);
    assert_eq!(time(&memory), before, "it is connected, and its time is as it was");
    memory.disconnected(&one, u64::from(before) + 20 * 60);
    assert_eq!(time(&memory), before, "nor does a short time change it");
    memory.disconnected(&one, NOW + 5000);
    assert_eq!(u64::from(time(&memory)), NOW + 5000);
}

#[test]
fn choices_are_of_the_networks_and_tables_that_are_meant() {
    let mut memory = memory();
    let (tried, new) = (v4(8, 8, 8), v4(9, 9, 9));
    let onion = PeerAddress { address: NetAddress::TorV3([9; 32]), port: 8333 };
    let clear = Networks::NONE.with(1).with(2);
    assert_eq!(memory.select(From::Both, clear, NOW), None);
    for one in [tried, new, onion] {
        add(&mut memory, one);
    }
    memory.good(&tried, NOW - 3600);
    let mut drawn = |from, networks, now| {
        let all = (0..200).filter_map(|_| memory.select(from, networks, now)).map(|entry| entry.peer);
        let count = |peer| move |one: &&PeerAddress| **one == peer;
        let all: Vec<_> = all.collect();
        [tried, new, onion].map(|peer| all.iter().filter(count(peer)).count())
    };
    let [a, b, none] = drawn(From::Both, clear, NOW);
    assert!((70..=130).contains(&a) && a + b == 200 && none == 0, "{a} tried, {b} new");
    assert_eq!(drawn(From::New, clear, NOW), [0, 200, 0]);
    assert_eq!(drawn(From::Both, Networks::NONE.with(4), NOW), [0, 0, 200]);
    assert_eq!(drawn(From::Both, Networks::NONE.with(5), NOW), [0, 0, 0]);
}

#[test]
fn a_part_of_the_addresses_is_told() {
    let mut memory = memory();
    for i in 0..=255 {
        add(&mut memory, v4(11 + i % 100, i, 1));
    }
    let known = memory.count();
    assert_eq!(memory.get(1000, TOLD_PERCENT, None, NOW).len(), known * 23 / 100, "of {known}");
    assert_eq!((memory.get(10, TOLD_PERCENT, None, NOW).len(), memory.get(0, 0, Some(4), NOW).len()), (10, 0));
    let first = memory.get(20, 0, None, NOW);
    assert!((0..20).any(|_| memory.get(20, 0, None, NOW) != first), "each time others");
    assert_eq!(memory.check(), None);
}

/// Everything at once, by seed: what always holds holds after each step.
#[test]
fn any_order_of_operations_leaves_the_memory_sound() {
    let mut rng = Rng::Seeded(3);
    let mut memory = Addresses::plain(&mut rng).checked_every(50);
    for step in 0..6000u64 {
        let now = NOW + step * 60;
        let peer = v4(1 + rng.below(3) as u8, rng.below(40) as u8, rng.below(4) as u8);
        match rng.below(8) {
            0..=2 => {
                let source = v4(30 + rng.below(60) as u8, 1, 1).address;
                let entry = AddressEntry { time: (now - rng.below(40 * DAY as usize) as u64) as u32, ..told(peer) };
                memory.add(&[entry], source, 7200, now);
            }
            3 => drop(memory.good(&peer, now)),
            4 => memory.attempted(&peer, true, now),
            5 => memory.resolve_collisions(now),
            6 => memory.disconnected(&peer, now),
            _ => drop(memory.get(5, 23, None, now)),
        }
        if step % 500 == 0 {
            assert_eq!(memory.check(), None, "step {step}");
            let bytes = memory.to_bytes(MAGIC);
            let again = Addresses::plain(&mut rng).read(&bytes, MAGIC).unwrap();
            assert_eq!(sorted(&again), sorted(&memory), "step {step}");
        }
    }
    assert!(memory.count() > 100 && !memory.take_said().is_empty());
}

fn sorted(memory: &Addresses) -> Vec<(usize, usize, PeerAddress, u32, i64, i32)> {
    let all = [Table::New, Table::Tried].into_iter().flat_map(|table| memory.placed(table));
    let key = |one: Placed| {
        let Entry { peer, time, last_success, attempts, .. } = one.entry;
        (one.place.bucket, one.place.position, peer, time, last_success, attempts)
    };
    let mut out: Vec<_> = all.map(key).collect();
    out.sort();
    out
}

/// A second reader of peers.dat, written from Core's comments alone, without any of the above: bucket, network, address bytes,
/// port and source of each new entry, and the tried ones without a bucket.
mod reader {
    use kernels::sha256::sha256d;

    type Row = (Option<u32>, u8, Vec<u8>, u16, Vec<u8>);

    fn number(bytes: &[u8], at: &mut usize, count: usize) -> u64 {
        let value = bytes[*at..*at + count].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        *at += count;
        value
    }

    fn size(bytes: &[u8], at: &mut usize) -> u64 {
        match number(bytes, at, 1) {
            253 => number(bytes, at, 2),
            254 => number(bytes, at, 4),
            255 => number(bytes, at, 8),
            small => small,
        }
    }

    fn address(bytes: &[u8], at: &mut usize) -> (u8, Vec<u8>) {
        let network = number(bytes, at, 1) as u8;
        let length = size(bytes, at) as usize;
        *at += length;
        (network, bytes[*at - length..*at].to_vec())
    }

    pub(super) fn read(file: &[u8]) -> Vec<Row> {
        let (body, sum) = file.split_at(file.len() - 32);
        assert_eq!(sha256d(body), sum, "the hash is of all before");
        assert_eq!(body[4..6], [4, 36], "format 4, which a reader has to know");
        let mut at = 6 + 32;
        let new = number(body, &mut at, 4);
        let tried = number(body, &mut at, 4);
        assert_eq!(number(body, &mut at, 4), 1024 ^ 1 << 30);
        let mut rows: Vec<Row> = Vec::new();
        for _ in 0..new + tried {
            assert_eq!(number(body, &mut at, 4) & !0x7_ffff, 1 << 29);
            at += 4;
            size(body, &mut at);
            let (network, bytes) = address(body, &mut at);
            at += 2;
            let port = u16::from_be_bytes(body[at - 2..at].try_into().unwrap());
            let source = address(body, &mut at).1;
            at += 12;
            rows.push((None, network, bytes, port, source));
        }
        let mut out = rows.split_off(new as usize);
        for bucket in 0..1024 {
            for _ in 0..number(body, &mut at, 4) {
                let mut row = rows[number(body, &mut at, 4) as usize].clone();
                row.0 = Some(bucket);
                out.push(row);
            }
        }
        assert_eq!(body.len() - at, 32, "the version of the map, and no more");
        out.sort();
        out
    }
}

/// A memory with addresses of five networks, some of them tried.
fn of_five_networks() -> Addresses {
    let mut memory = memory();
    for i in 1..=60u8 {
        for address in [
            NetAddress::V4([i, 7, 7, 7]),
            NetAddress::V6([0x2a, i, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, i]),
            NetAddress::TorV3([i; 32]),
            NetAddress::I2p([i; 32]),
            NetAddress::Cjdns([0xfc, i, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]),
        ] {
            let peer = PeerAddress { address, port: 1000 + u16::from(i) };
            memory.add(&[told(peer)], v4(80 + i, 1, 1).address, 0, NOW);
            if i % 5 == 0 {
                memory.good(&peer, NOW);
            }
        }
    }
    memory
}

#[test]
fn file_is_read_by_another_reader_and_back() {
    let memory = of_five_networks();
    let bytes = memory.to_bytes(MAGIC);
    let row = |table, placed: Placed| {
        let Entry { peer, source, .. } = placed.entry;
        let bucket = (table == Table::New).then_some(placed.place.bucket as u32);
        (bucket, peer.address.network(), peer.address.bytes().to_vec(), peer.port, source.bytes().to_vec())
    };
    let of = |table| memory.placed(table).into_iter().map(move |placed| row(table, placed));
    let mut want: Vec<_> = of(Table::New).chain(of(Table::Tried)).collect();
    want.sort();
    assert_eq!(reader::read(&bytes), want);
    let again = Addresses::plain(&mut Rng::Seeded(1)).read(&bytes, MAGIC).unwrap();
    assert_eq!(sorted(&again), sorted(&memory));
    assert_eq!(again.key, memory.key, "it goes on with the key of the file");
    assert_eq!(again.count_of(6), memory.count_of(6));
}

#[test]
fn damaged_files_are_refused_in_core_s_words() {
    let whole = of_five_networks().to_bytes(MAGIC);
    let read = |bytes: &[u8]| Addresses::plain(&mut Rng::Seeded(1)).read(bytes, MAGIC);
    for cut in (0..whole.len()).step_by(97).chain([whole.len() - 1]) {
        let why = read(&whole[..cut]).unwrap_err().to_string();
        assert!(why.starts_with("AutoFile::read: end of file"), "cut at {cut}: {why}");
    }
    for at in (0..200).chain((200..whole.len()).step_by(61)) {
        let mut bad = whole.clone();
        bad[at] ^= 0x10;
        assert!(read(&bad).is_err(), "byte {at}");
        // With a right hash anything else may be read; nothing goes wrong.
        let end = bad.len() - 32;
        let fixed = Addresses::file_of(&bad[4..end], MAGIC);
        let _ = read(&fixed).map(|memory| memory.check().map(|code| panic!("byte {at}: {code}")));
    }
    let header = |format: u8, compat: u8, key: u8, new: i32, tried: i32| {
        let mut out = vec![format, compat, key];
        out.extend_from_slice(&[0; 31]);
        out.extend_from_slice(&new.to_le_bytes());
        out.extend_from_slice(&tried.to_le_bytes());
        out.extend_from_slice(&(1024i32 ^ 1 << 30).to_le_bytes());
        out.extend_from_slice(&[0; 4096]);
        out
    };
    // The cases of Core's feature_addrman.py.
    for (row, contents, want) in [
        (
            "compat",
            header(1, 0, 1, 0, 0),
            "Corrupted addrman database: The compat value (0) is lower than the expected",
        ),
        ("tried", header(1, 36, 1, 0, -1), "Corrupt AddrMan serialization: nTried=-1, should be in [0, 16384]:"),
        ("many tried", header(1, 36, 1, 0, 16385), "Corrupt AddrMan serialization: nTried=16385, should be"),
        ("new", header(1, 36, 1, -1, 0), "Corrupt AddrMan serialization: nNew=-1, should be in [0, 65536]:"),
        ("many new", header(1, 36, 1, 65537, 0), "Corrupt AddrMan serialization: nNew=65537, should be"),
        ("no key", header(1, 36, 0, 0, 0), "Corrupt data. Consistency check failed with code -16: "),
    ] {
        let why = read(&Addresses::file_of(&contents, MAGIC)).unwrap_err();
        assert!(why.to_string().starts_with(want) && matches!(why, PeersFileError::Damaged(_)), "{row}: {why}");
    }
    let later = read(&Addresses::file_of(&header(4, 143, 1, 0, 0), MAGIC)).unwrap_err();
    assert!(matches!(later, PeersFileError::Version(_)), "{later}");
    for (row, bytes, want) in [
        ("another network", Addresses::file_of(&header(1, 36, 1, 0, 0), [1; 4]), "Invalid network magic number"),
        ("another hash", [&whole[..whole.len() - 1], &[0]].concat(), "Checksum mismatch, data corrupted"),
    ] {
        assert_eq!(read(&bytes).unwrap_err().to_string(), want, "{row}");
    }
    assert_eq!(read(&Addresses::file_of(&header(1, 36, 1, 0, 0), MAGIC)).unwrap().count(), 0, "of format 1");
}

#[test]
fn hostile_files_with_a_right_hash_are_survived() {
    let whole = of_five_networks().to_bytes(MAGIC);
    let mut rng = Rng::Seeded(4);
    for _ in 0..400 {
        let mut body = whole[4..whole.len() - 32].to_vec();
        for _ in 0..=rng.below(4) {
            let at = rng.below(body.len());
            let run = rng.below(9).min(body.len() - at);
            rng.fill(&mut body[at..at + run]);
        }
        if rng.below(3) == 0 {
            body.truncate(rng.below(body.len()));
        }
        let fixed = Addresses::file_of(&body, MAGIC);
        if let Ok(mut memory) = Addresses::plain(&mut rng).read(&fixed, MAGIC) {
            assert_eq!(memory.check(), None);
            memory.resolve_collisions(NOW);
            let _ = memory.select(From::Both, Networks::NONE.with(1), NOW);
        }
    }
    for anchors in [&b""[..], &[0xfd, 0xff, 0xff], &[1, 0, 0], &[0xff; 40]] {
        let fixed = Addresses::file_of(anchors, MAGIC);
        assert_eq!(anchors_file::from_bytes(&fixed, MAGIC), [], "{anchors:?}");
    }
}

#[test]
fn anchors_are_written_and_read_as_by_core() {
    let anchors = [told(v4(8, 8, 8)), told(PeerAddress { address: NetAddress::TorV3([7; 32]), port: 8333 })];
    let bytes = anchors_file::to_bytes(&anchors, MAGIC);
    // Magic, two, version, time, services 9, IPv4, its length, 8.8.8.1, port.
    assert_eq!(bytes[4], 2);
    assert_eq!(bytes[13..22], [9, 1, 4, 8, 8, 8, 1, 0x20, 0x8d]);
    assert_eq!(anchors_file::from_bytes(&bytes, MAGIC), anchors);
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 1;
        assert_eq!(anchors_file::from_bytes(&bad, MAGIC), [], "byte {at}");
        assert_eq!(anchors_file::from_bytes(&bytes[..at], MAGIC), [], "cut at {at}");
    }
}

/// Where there is a map, one autonomous system is one group; a file of another map is sorted anew.
#[test]
fn map_decides_groups_and_sorts_the_file_anew() {
    let raw = "fb03ec0fb03fc0fe00fb03ec0fb03fc0fe00fb03ec0fb0fffffeffedb0ffd486e628290000400000400040990100800180040000050006001cf039";
    let map = asmap::AsMap::new(primitives::hex::decode(raw).unwrap()).unwrap();
    let groups = Arc::new(NetGroups::of(map));
    let mut with = Addresses::deterministic(groups.clone());
    for (b, is_good) in [(0, true), (1, true), (2, false), (3, false)] {
        let peer = v4(101, b, 0);
        assert!(add(&mut with, peer) && (!is_good || with.good(&peer, NOW)));
    }
    let bytes = with.to_bytes(MAGIC);
    assert_eq!(bytes[bytes.len() - 64..bytes.len() - 32], groups.version());
    let same = Addresses::deterministic(groups).read(&bytes, MAGIC).unwrap();
    let plain = Addresses::deterministic(Arc::default()).read(&bytes, MAGIC).unwrap();
    assert_eq!(sorted(&same), sorted(&with));
    assert_eq!((plain.count(), plain.check()), (4, None));
    assert_ne!(sorted(&plain), sorted(&with));
}
