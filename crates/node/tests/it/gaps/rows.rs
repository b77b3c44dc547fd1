//! What users' block files looked like (docs/situations.md), one row each: what a reindex makes of them and says, what is
//! done then, and that a sync asks for the blocks that are nowhere and for no others.

use super::*;

/// Blocks in a file of their own, one behind another.
fn part(known: &Known, heights: impl IntoIterator<Item = usize>) -> Vec<u8> {
    let blocks: Vec<Vec<u8>> = heights.into_iter().map(|height| known.blocks[height].clone()).collect();
    file(&blocks)
}

fn record(known: &Known, height: usize) -> Vec<u8> {
    part(known, [height])
}

/// The chain in four files, 0..=39, 40..=79, 80..=119 and the rest.
fn four(known: &Known) -> Vec<Vec<u8>> {
    (0..4).map(|n| part(known, n * 40..((n + 1) * 40).min(TIP + 1))).collect()
}

/// The chain in one file, with other bytes in place of one record.
fn instead(known: &Known, height: usize, bytes: &[u8]) -> Vec<Vec<u8>> {
    vec![[&part(known, 0..height), bytes, &part(known, height + 1..=TIP)].concat()]
}

/// The chain in one file, with bytes before one record.
fn before(known: &Known, height: usize, bytes: &[u8]) -> Vec<Vec<u8>> {
    instead(known, height, &[bytes, &record(known, height)].concat())
}

fn put_files(disk: &SimDisk, files: &[Vec<u8>]) {
    for (number, bytes) in (0..).zip(files).filter(|(_, bytes)| !bytes.is_empty()) {
        put(disk, &block_path(number), bytes);
    }
}

fn put_foreign(disk: &SimDisk, bytes: &[u8]) {
    put(disk, Path::new(FOREIGN), bytes);
}

/// A job, its height at the end, its exit code, and what it says.
fn said(
    job: impl FnOnce(node::reporting::Events<'_>) -> Result<node::reporting::JobReport, node::Fault>,
    row: &str,
) -> (usize, u8, String) {
    let said = Mutex::new(String::new());
    let report = job(&|event| match event {
        Event::Note(text) => *said.lock().unwrap() += &format!("{text}\n"),
        Event::Warning(text) => *said.lock().unwrap() += &format!("{text}\n"),
        _ => {}
    });
    let said = said.into_inner().unwrap();
    let report = report.unwrap_or_else(|why| panic!("{row}: {why}: {said}"));
    (report.height.to_usize(), u8::from(report.end_reason.is_some()), said)
}

fn reindex(disk: &SimDisk, row: &str) -> (usize, u8, String) {
    said(|events| jobs::reindex(&options(disk, false), false, events), row)
}

fn import(disk: &SimDisk, row: &str) -> (usize, u8, String) {
    said(|events| jobs::import(&options(disk, false), &[FOREIGN.into()], events), row)
}

/// What is done after the reindex.
type Then = fn(&SimDisk, &Known, &str);

struct Row {
    name: &'static str,
    files: Vec<Vec<u8>>,
    /// Height that a reindex reaches, its exit code, and a part of what it says.
    reindexed: (usize, u8, &'static str),
    then: Then,
    /// The blocks that a sync asks for in the end.
    asked: Vec<usize>,
}

fn nothing(_: &SimDisk, _: &Known, _: &str) {}

fn play(row: Row, known: &Known) {
    let Row { name, files, reindexed, then, asked } = row;
    let disk = SimDisk::new(0);
    put_files(&disk, &files);
    let kept = Kept::new(&disk, known);
    let (height, code, text) = reindex(&disk, name);
    assert_eq!((height, code), (reindexed.0, reindexed.1), "{name}: {text}");
    assert!(text.contains(reindexed.2), "{name}: {text}");
    kept.check(&disk, known, name);
    check_where_core_appends(&disk, known, name);
    then(&disk, known, name);
    kept.check(&disk, known, name);
    let got: Vec<usize> = sync(&disk, known, Until::Tip, name).into_iter().collect();
    assert_eq!(got, asked, "{name}: asked for");
    kept.check(&disk, known, name);
    check_where_core_appends(&disk, known, name);
    ends_whole(&disk, known, name);
}

/// The record with another bit in its body.
fn bad_body(known: &Known, height: usize) -> Vec<u8> {
    let mut bytes = record(known, height);
    *bytes.last_mut().unwrap() ^= 1;
    bytes
}

/// The record with a header that belongs to no chain: its parent is another.
fn bad_header(known: &Known, height: usize) -> Vec<u8> {
    let mut bytes = record(known, height);
    bytes[8 + 4 + 7] ^= 1;
    bytes
}

/// A record whose size reaches into the next one, which lies over its end: as old versions of Core left them.
fn overlapping(known: &Known, height: usize) -> Vec<Vec<u8>> {
    let first = record(known, height);
    let cut = first[..first.len() - 60].to_vec();
    instead(known, height, &cut)
}

const WAIT: &str = "have no parent in the files";

fn gaps(known: &Known) -> Vec<Row> {
    let all = || four(known);
    let without = |number: usize| {
        let mut files = all();
        files[number].clear();
        files
    };
    vec![
        Row {
            name: "one block is in no file",
            files: instead(known, 20, &[]),
            reindexed: (19, 0, WAIT),
            then: nothing,
            asked: vec![20],
        },
        Row {
            name: "a file is missing in the middle",
            files: without(1),
            reindexed: (39, 0, "blk00001.dat to 1 are missing"),
            then: nothing,
            asked: (40..80).collect(),
        },
        Row {
            name: "a file is missing, a sync is stopped soon",
            files: without(1),
            reindexed: (39, 0, WAIT),
            then: |disk, known, row| {
                let asked = sync(disk, known, Until::Stop(45), row);
                assert!(asked.iter().all(|height| (40..80).contains(height)), "{row}: {asked:?}");
                check_where_core_appends(disk, known, row);
            },
            asked: (46..80).collect(),
        },
        Row {
            name: "a missing file is imported",
            files: without(1),
            reindexed: (39, 0, WAIT),
            then: |disk, known, row| {
                put_foreign(disk, &part(known, 40..80));
                let (height, _, text) = import(disk, row);
                assert_eq!(height, TIP, "{row}: {text}");
                assert!(text.contains("had no parent and have one now"), "{row}: {text}");
                check_where_core_appends(disk, known, row);
            },
            asked: vec![],
        },
        Row {
            name: "a missing file is put back after the reindex",
            files: without(1),
            reindexed: (39, 0, WAIT),
            then: |disk, known, _| put(disk, &block_path(1), &part(known, 40..80)),
            asked: vec![],
        },
        Row {
            name: "a missing file is put back, and another reindex runs",
            files: without(2),
            reindexed: (79, 0, WAIT),
            then: |disk, known, row| {
                put(disk, &block_path(2), &part(known, 80..120));
                assert_eq!(reindex(disk, row).0, TIP, "{row}");
            },
            asked: vec![],
        },
        Row {
            name: "the first file is missing",
            files: without(0),
            reindexed: (0, 0, "blk00000.dat to 0 are missing"),
            then: nothing,
            asked: (1..40).collect(),
        },
        Row {
            name: "part of what is missing is imported, below and above the gap",
            files: without(1),
            reindexed: (39, 0, WAIT),
            then: |disk, known, row| {
                put_foreign(disk, &part(known, (40..50).chain(60..70)));
                let (height, _, text) = import(disk, row);
                assert_eq!(height, 49, "{row}: {text}");
                assert!(text.contains("10 blocks have no parent, neither there nor"), "{row}: {text}");
            },
            asked: (50..80).collect(),
        },
        Row {
            name: "a file of another node is put behind the others",
            files: all()[..2].to_vec(),
            reindexed: (79, 0, ""),
            then: |disk, known, _| put(disk, &block_path(7), &part(known, 100..130)),
            asked: (80..100).chain(130..=TIP).collect(),
        },
    ]
}

fn damage(known: &Known) -> Vec<Row> {
    let torn = {
        let last = record(known, TIP);
        [part(known, 0..TIP), last[..last.len() / 2].to_vec()].concat()
    };
    vec![
        Row {
            name: "a header is damaged",
            files: instead(known, 60, &bad_header(known, 60)),
            reindexed: (59, 1, WAIT),
            then: nothing,
            asked: vec![60],
        },
        Row {
            name: "a body is damaged",
            files: instead(known, 60, &bad_body(known, 60)),
            reindexed: (59, 1, ""),
            then: nothing,
            asked: vec![60],
        },
        Row {
            name: "a body is damaged, and a whole copy follows",
            files: vec![[instead(known, 60, &bad_body(known, 60)).remove(0), record(known, 60)].concat()],
            reindexed: (TIP, 0, "are in the files more than once"),
            then: nothing,
            asked: vec![],
        },
        Row {
            name: "the last record is torn",
            files: vec![torn.clone()],
            reindexed: (TIP - 1, 0, "the file was cut short"),
            then: nothing,
            asked: vec![TIP],
        },
        Row {
            name: "the last record is torn, with reserved room behind",
            files: vec![[torn, vec![0; 20_000]].concat()],
            reindexed: (TIP - 1, 1, "the headers continue to height 140"),
            then: nothing,
            asked: vec![TIP],
        },
        Row {
            name: "a file in the middle is cut",
            files: {
                let mut files = four(known);
                let end = files[1].len() - record(known, 79).len() - 30;
                files[1].truncate(end);
                files
            },
            reindexed: (77, 1, WAIT),
            then: nothing,
            asked: vec![78, 79],
        },
        Row {
            name: "records overlap",
            files: overlapping(known, 60),
            reindexed: (59, 1, WAIT),
            then: nothing,
            asked: vec![60],
        },
        Row {
            name: "zeros in place of a record",
            files: instead(known, 60, &vec![0; record(known, 60).len()]),
            reindexed: (59, 0, WAIT),
            then: nothing,
            asked: vec![60],
        },
        Row {
            name: "a file of zeros",
            files: {
                let mut files = four(known);
                files[2].fill(0);
                files
            },
            reindexed: (79, 0, WAIT),
            then: nothing,
            asked: (80..120).collect(),
        },
    ]
}

fn leftovers(known: &Known) -> Vec<Row> {
    let magic = Params::new(Chain::Regtest).magic;
    let last = |bytes: Vec<u8>| vec![[part(known, 0..=TIP), bytes].concat()];
    let whole = |name, files, said| Row { name, files, reindexed: (TIP, 0, said), then: nothing, asked: vec![] };
    vec![
        whole("eight zeros between two records", before(known, 60, &[0; 8]), ""),
        whole("293 zeros behind the genesis block", before(known, 1, &[0; 293]), ""),
        whole("a magic and a size before a record", before(known, 60, &[&magic[..], &[200, 1, 0, 0]].concat()), ""),
        whole("garbage between two records", before(known, 60, &[0xab; 77]), "network's magic"),
        whole("garbage behind the last record", last(vec![0xab; 77]), "network's magic"),
        whole("reserved room behind the last record", last(vec![0; 70_000]), ""),
        whole(
            "a record behind a hole of zeros",
            vec![[part(known, 0..TIP), vec![0; 9_000], record(known, TIP)].concat()],
            "",
        ),
        whole("the genesis block sixteen times at the end", last(part(known, [0; 16])), "more than once"),
        whole("ten blocks twice", last(part(known, 50..60)), "more than once"),
        whole("every file twice", [four(known), four(known)].concat(), "more than once"),
        whole("blocks lie before their parents", vec![part(known, std::iter::once(0).chain((1..=TIP).rev()))], ""),
        Row {
            name: "a block of no chain at the end",
            files: vec![[part(known, 0..TIP), bad_header(known, 70)].concat()],
            reindexed: (TIP - 1, 0, WAIT),
            then: nothing,
            asked: vec![TIP],
        },
    ]
}

#[test]
fn block_files_with_gaps_end_well() {
    let known = Known::new();
    gaps(&known).into_iter().for_each(|row| play(row, &known));
}

#[test]
fn block_files_with_damage_end_well() {
    let known = Known::new();
    damage(&known).into_iter().for_each(|row| play(row, &known));
}

#[test]
fn block_files_with_leftovers_end_well() {
    let known = Known::new();
    leftovers(&known).into_iter().for_each(|row| play(row, &known));
}

/// Blocks that were stored behind the last commit of the index, by a program that was killed then, are used.
#[test]
fn blocks_behind_the_last_commit_are_used_after_a_kill() {
    let known = Known::new();
    for (row, behind, is_torn) in [
        ("whole records", part(&known, 90..=TIP), false),
        ("the last one torn", part(&known, 90..=TIP)[..part(&known, 90..=TIP).len() - 50].to_vec(), true),
    ] {
        let disk = SimDisk::new(0);
        put_files(&disk, &[part(&known, 0..90)]);
        assert_eq!(reindex(&disk, row).0, 89);
        let path = block_path(0);
        let bytes = [part(&known, 0..90), behind, vec![0; 5_000]].concat();
        disk.remove_file(&path).unwrap();
        put(&disk, &path, &bytes);
        let kept = Kept::new(&disk, &known);
        let asked: Vec<usize> = sync(&disk, &known, Until::Tip, row).into_iter().collect();
        assert_eq!(asked, if is_torn { vec![TIP] } else { vec![] }, "{row}: asked for");
        kept.check(&disk, &known, row);
        check_where_core_appends(&disk, &known, row);
        ends_whole(&disk, &known, row);
    }
}

/// What the infos of an index say too much of files is put right: files that are gone, or shorter, of which nothing is named.
#[test]
fn unnamed_files_that_went_or_were_cut_keep_nothing_from_going_on() {
    let known = Known::new();
    let gone: fn(&SimDisk) = |disk| disk.remove_file(&block_path(2)).unwrap();
    let cut: fn(&SimDisk) = |disk| disk.modify(&block_path(2)).unwrap().set_len(1000).unwrap();
    for (row, change) in [("a file is gone", gone), ("a file was cut", cut)] {
        let disk = SimDisk::new(0);
        put_files(&disk, &[part(&known, 0..40), vec![], part(&known, 80..=TIP)]);
        assert_eq!(reindex(&disk, row).0, 39);
        change(&disk);
        let there = Kept::new(&disk, &known);
        let asked = sync(&disk, &known, Until::Tip, row);
        let want: BTreeSet<usize> = (40..=TIP).filter(|height| !there.heights().contains(height)).collect();
        assert_eq!(asked, want, "{row}");
        there.check(&disk, &known, row);
        check_where_core_appends(&disk, &known, row);
        ends_whole(&disk, &known, row);
    }
}

#[test]
fn info_tells_of_block_files_that_the_index_does_not_name() {
    let known = Known::new();
    let disk = SimDisk::new(0);
    put_files(&disk, &[part(&known, 0..40), vec![], part(&known, 80..120), part(&known, 120..=TIP)]);
    let row = "a file is missing";
    assert_eq!(reindex(&disk, row).0, 39);
    let found = jobs::info(&options(&disk, false)).unwrap().unindexed.expect("blk00002.dat and blk00003.dat");
    let bytes = part(&known, 80..=TIP).len() as u64;
    assert_eq!((found.files, found.bytes, &found.first), (2, bytes, &block_path(2)), "{found}");
    sync(&disk, &known, Until::Tip, row);
    assert_eq!(jobs::info(&options(&disk, false)).unwrap().unindexed, None);
    // What another program appended, and did not commit.
    let file = disk.modify(&block_path(3)).unwrap();
    let end = file.bytes().unwrap().iter().rposition(|&byte| byte != 0).unwrap() as u64 + 8;
    file.write_at(end, &record(&known, TIP)).unwrap();
    let found = jobs::info(&options(&disk, false)).unwrap().unindexed.expect("a record behind the end");
    assert_eq!((found.files, &found.first), (1, &block_path(3)), "{found}");
}
