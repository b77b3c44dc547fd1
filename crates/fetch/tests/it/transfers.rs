//! What mirrors do, one row each: docs/snapshots.md has the table.

use crate::mirror::{Mirror, Way};
use fetch::Mirrors;
use node::jobs::{Got, SnapshotStream};
use std::net::TcpListener;
use std::time::{Duration, Instant};
use testkit::Rng;

const PATIENCE: Duration = Duration::from_secs(60);

fn file() -> Vec<u8> {
    [b"utxo\xff".to_vec(), Rng::new(7).bytes(3 << 20)].concat()
}

fn urls(mirrors: &[Mirror]) -> Vec<String> {
    mirrors.iter().map(|mirror| mirror.url.clone()).collect()
}

/// Reads to the end.
fn read(stream: &mut Mirrors) -> Result<Vec<u8>, String> {
    let begun = Instant::now();
    let mut got = Vec::new();
    let mut out = vec![0; 100_000];
    loop {
        match stream.read(&mut out, Duration::from_millis(100)) {
            Ok(Got::Bytes(count)) => got.extend_from_slice(&out[..count]),
            Ok(Got::Waiting) => assert!(begun.elapsed() < PATIENCE, "it does not end: {:?}", stream.notes()),
            Ok(Got::End) => return Ok(got),
            Err(why) => return Err(why.to_string()),
        }
    }
}

fn from(urls: &[String]) -> Result<Vec<u8>, String> {
    read(&mut Mirrors::new(urls, None, "test").unwrap())
}

#[test]
fn mirrors_alone_give_the_file_or_say_why_not() {
    let file = file();
    let good = Mirror::new(&file, Way::Good);
    let round = Way::Redirects("/again".to_owned());
    for (way, want) in [
        (Way::Good, Ok(())),
        (Way::NoRange, Ok(())),
        (Way::Cuts, Ok(())),
        (Way::Busy, Ok(())),
        (Way::Redirects(good.url.clone()), Ok(())),
        (Way::Html, Err("web page (text/html)")),
        (Way::Missing, Err("404 Not Found")),
        (Way::Gzip, Err("packed (gzip)")),
        (Way::Chunked, Err("does not send the length of the file")),
        (Way::Changes, Err("its file has changed: it had 3145733 bytes, and has 3145810 now")),
        (Way::Retags, Err("its file has changed (ETag")),
        (Way::WrongRange, Err("another part of the file")),
        (Way::Garbage, Err("does not speak HTTP/1")),
        (Way::EndlessHead, Err("does not end")),
        (round, Err("redirects more than 5 times")),
        (Way::Redirects("ftp://x/".to_owned()), Err("not a URL")),
    ] {
        let row = format!("{way:?}");
        let mirror = Mirror::new(&file, way);
        match (from(&urls(std::slice::from_ref(&mirror))), want) {
            (Ok(got), Ok(())) => assert!(got == file, "{row}: {} bytes", got.len()),
            (Err(why), Err(want)) => {
                assert!(why.contains(want) && why.contains(&mirror.url), "{row}: {why}");
            }
            (got, want) => panic!("{row}: {:?} for {want:?}", got.map(|got| got.len())),
        }
        let most = file.len() as u64 * 11 / 10;
        assert!(mirror.sent() <= most, "{row}: {} bytes in {} answers", mirror.sent(), mirror.answers());
    }
}

#[test]
fn one_good_mirror_makes_up_for_a_bad_one() {
    let file = file();
    let elsewhere = Mirror::new(&file, Way::Good);
    let rows = [
        Way::Good,
        Way::NoRange,
        Way::Cuts,
        Way::Stalls,
        Way::Html,
        Way::Missing,
        Way::Gzip,
        Way::Changes,
        Way::Redirects(elsewhere.url.clone()),
        Way::Garbage,
    ];
    let play = &|way: Way| {
        let row = format!("{way:?}");
        let pair = [Mirror::new(&file, way), Mirror::new(&file, Way::Good)];
        let got = from(&urls(&pair)).unwrap_or_else(|why| panic!("{row}: {why}"));
        assert!(got == file, "{row}: {} bytes", got.len());
    };
    // At once: the row of a silent mirror takes ten seconds.
    std::thread::scope(|scope| rows.into_iter().for_each(|way| drop(scope.spawn(move || play(way)))));
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let good = Mirror::new(&file, Way::Good);
    assert!(from(&[format!("http://{closed}/x"), good.url.clone()]).unwrap() == file, "a port that nobody listens on");
}

#[test]
fn a_mirror_that_lies_is_found() {
    let file = file();
    let three = [Way::Lies, Way::Good, Way::Good].map(|way| Mirror::new(&file, way));
    let mut stream = Mirrors::new(&urls(&three), None, "test").unwrap();
    assert!(read(&mut stream).unwrap() == file);
    let notes = stream.notes().join("\n");
    assert!(
        notes.contains(&format!("{}: not used any more: it sends other bytes than two others", three[0].url)),
        "{notes}"
    );
    // Of two nobody can say which lies: the first is believed, and the other one tried when that was wrong.
    let two = [Way::Lies, Way::Good].map(|way| Mirror::new(&file, way));
    let mut stream = Mirrors::new(&urls(&two), None, "test").unwrap();
    assert!(read(&mut stream).unwrap() != file);
    let how = stream.try_others().unwrap();
    assert!(how.contains(&two[1].url), "{how}");
    assert!(read(&mut stream).unwrap() == file);
}

#[test]
fn a_transfer_goes_on_where_it_was_left() {
    let file = file();
    let mirror = Mirror::new(&file, Way::Good);
    for offset in [51, 1_000_000, file.len() as u64 - 1, file.len() as u64] {
        let before = mirror.sent();
        let mut stream = Mirrors::new(std::slice::from_ref(&mirror.url), None, "test").unwrap();
        // As a loader does: the header first.
        let mut start = [0; 51];
        let mut have = 0;
        while have < start.len() {
            if let Got::Bytes(count) = stream.read(&mut start[have..], PATIENCE).unwrap() {
                have += count;
            }
        }
        assert_eq!((stream.bytes(), stream.can_seek()), (Some(file.len() as u64), true));
        stream.seek(offset).unwrap();
        assert!(read(&mut stream).unwrap() == file[offset as usize..], "{offset}");
        // Bytes in flight before the seek are lost: at most the whole file, because the system's buffers may take all of it.
        assert!(mirror.sent() - before <= file.len() as u64 * 2 - offset, "{offset}");
    }
}

#[test]
fn urls_that_are_wrong_are_refused_at_once() {
    for (urls, want) in
        [(&["ftp://x/y"][..], "http://"), (&["http://x/y", "http://x/y"], "twice"), (&["http://u:p@x/y"], "password")]
    {
        let urls: Vec<String> = urls.iter().map(|&url| url.to_owned()).collect();
        let why = Mirrors::new(&urls, None, "test").err().unwrap();
        assert!(why.contains(want), "{why}");
    }
    let many: Vec<String> = (0..17).map(|number| format!("http://x/{number}")).collect();
    assert!(Mirrors::new(&many, None, "test").err().unwrap().contains("at most 16"));
}
