//! debug.log files, written for these tests in the line formats of Bitcoin Core b88bffe and older versions.

use super::*;

/// A reindex with `-debug=bench -debug=coindb`, a flush in it.
pub(crate) const REINDEX: &str = "\
2026-01-01T00:00:00Z Bitcoin Core version v31.0.0 (release build)
2026-01-01T00:00:01Z Assuming ancestors of block 00 have valid signatures.
2026-01-01T00:00:02Z Reindexing finished
2026-01-01T00:00:02Z Disabling script verification at block #1 (00).
@BLOCK 1 00:00:03@
@BLOCK 2 00:00:04@
2026-01-01T00:00:05Z [coindb] Writing chainstate to disk: flush mode=IF_NEEDED, prune=0, large=1, critical=0, periodic=0
2026-01-01T00:00:05Z [bench] BatchWrite: write coins cache to disk (20 out of 30 cached coins) started
2026-01-01T00:00:06Z [coindb] Committed 20 changed transaction outputs (out of 30) to coin database...
2026-01-01T00:00:06Z [bench] BatchWrite: write coins cache to disk (20 out of 30 cached coins) completed (1000.00ms)
@BLOCK 3 00:00:08@
2026-01-01T00:00:09Z [coindb] Committed 0 changed transaction outputs (out of 0) to coin database...
2026-01-01T00:00:10Z Shutdown done
";

/// Flushes of a snapshot that is loaded, in parts, and one more.
pub(crate) const MORE_FLUSHES: &str = "\
2026-01-01T00:00:02Z FlushSnapshotToDisk: saving snapshot chainstate (64.00 MB) started
2026-01-01T00:00:02Z [coindb] Writing partial batch of 16.50 MiB
2026-01-01T00:00:02Z [coindb] Writing partial batch of 16.70 MiB
2026-01-01T00:00:02Z [coindb] Writing final batch of 3.00 MiB
2026-01-01T00:00:02Z FlushSnapshotToDisk: completed (1550.25ms)
2026-01-01T00:00:02Z [bench] BatchWrite: write coins cache to disk (7 out of 8 cached coins) completed (10.00ms)
";

/// A sync in which a snapshot's background is validated, and which is cut off.
pub(crate) const SYNC: &str = "\
2026-01-02T00:00:00.000000Z [init] [init/common.cpp:156] [LogPackageVersion] Bitcoin Core version v31.0.0 (release build)
2026-01-02T00:00:00.100000Z [init] Validating signatures for all blocks.
2026-01-02T00:00:01.000000Z [msghand] [validation.cpp:2889] [UpdateTipLog] @TIP 1@
2026-01-02T00:00:01.250000Z [msghand] [validation.cpp:2889] [UpdateTipLog] [background validation] @TIP 2000@
2026-01-02T00:00:01.500000Z [msghand] [validation.cpp:2889] [UpdateTipLog] @TIP 2@
2026-01-02T00:00:03.000000Z [msghand] [validation.cpp:2889] [UpdateTipLog] @TIP 3@
2026-01-02T00:00:04.000000Z [msghand] UpdateTip: new best=00";

/// The lines of `@TIP h@` and `@BLOCK h time@` written out.
pub(crate) fn written(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        match line.split_once('@').map(|(head, rest)| (head, rest.trim_end_matches('@').split(' ').collect::<Vec<_>>()))
        {
            Some((head, parts)) if parts[0] == "TIP" => out += &format!("{head}{}\n", tip(parts[1].parse().unwrap())),
            Some((_, parts)) if parts[0] == "BLOCK" => out += &block(parts[1].parse().unwrap(), parts[2]),
            _ => out += &format!("{line}\n"),
        }
    }
    out
}

pub(crate) fn tip(height: u32) -> String {
    let cache = f64::from(height % 3) * 10.0 + 1.0;
    format!(
        "UpdateTip: new best={:064x} height={height} version=0x20000000 log2_work=32.000022 tx={} date='2020-01-01T00:00:00Z' \
         progress=0.5 cache={cache:.1}MiB({}txo)",
        u64::from(height) + 1,
        height * 10,
        height * 100
    )
}

fn block(height: u32, time: &str) -> String {
    let lines = [
        "[bench]   - Load block from disk: 1.00ms".to_owned(),
        "[bench]     - Sanity checks: 2.00ms [0.00s (2.00ms/blk)]".to_owned(),
        "[bench]     - Fork checks: 3.00ms [0.00s (3.00ms/blk)]".to_owned(),
        "[bench]       - Connect 10 transactions: 4.00ms (0.4ms/tx, 0.2ms/txin) [0.00s (4.00ms/blk)]".to_owned(),
        "[bench]     - Verify 20 txins: 9.00ms (0.450ms/txin) [0.00s (9.00ms/blk)]".to_owned(),
        "[bench]     - Write undo data: 5.00ms [0.00s (5.00ms/blk)]".to_owned(),
        "[bench]     - Index writing: 1.00ms [0.00s (1.00ms/blk)]".to_owned(),
        "[bench]   - Connect total: 21.00ms [0.00s (21.00ms/blk)]".to_owned(),
        "[bench]   - Flush: 6.00ms [0.00s (6.00ms/blk)]".to_owned(),
        "[bench]   - Writing chainstate: 7.00ms [0.00s (7.00ms/blk)]".to_owned(),
        tip(height),
        "[bench]   - Connect postprocess: 8.00ms [0.00s (8.00ms/blk)]".to_owned(),
        "[bench] - Connect block: 44.00ms [0.00s (44.00ms/blk)]".to_owned(),
    ];
    lines.iter().map(|line| format!("2026-01-01T{time}Z {line}\n")).collect()
}

fn log(text: &str) -> Log {
    read(written(text).as_bytes()).unwrap()
}

#[test]
fn log_of_core_reindex_gives_tips_stages_flushes() {
    for (row, text) in [("as it is", written(REINDEX)), ("with CRLF", written(REINDEX).replace('\n', "\r\n"))] {
        let log = read(text.as_bytes()).unwrap();
        let [run] = &log.runs[..] else { panic!("{row}: {} runs", log.runs.len()) };
        assert_eq!(run.version, "Bitcoin Core version v31.0.0 (release build)", "{row}");
        assert_eq!(run.tips.iter().map(|tip| tip.fields.height).collect::<Vec<_>>(), [1, 2, 3], "{row}");
        assert_eq!((run.shut_down, run.trust, run.damaged), (true, Some(Trust::Assumed), 0), "{row}");
        let [flush] = &run.flushes[..] else { panic!("{row}: {:?}", run.flushes) };
        assert_eq!((flush.height, flush.coins, flush.ms), (2, Some(20), Some(1000.0)), "{row}");
        let sums = &run.stages[&0];
        assert_eq!(
            (sums.blocks, sums.ms),
            (3, [1.0, 2.0, 3.0, 4.0, 9.0, 5.0, 1.0, 21.0, 6.0, 7.0, 8.0, 44.0].map(|ms| ms * 3.0)),
            "{row}"
        );
        assert_eq!(run.block_ms, [44.0; 3], "{row}");
    }
}

#[test]
fn log_of_core_sync_gives_tips_apart_from_background() {
    let log = log(SYNC);
    let [run] = &log.runs[..] else { panic!("{} runs", log.runs.len()) };
    let heights = |tips: &[Tip]| tips.iter().map(|tip| tip.fields.height).collect::<Vec<_>>();
    assert_eq!((heights(&run.tips), heights(&run.background)), (vec![1, 2, 3], vec![2000]));
    assert_eq!((run.micros, run.shut_down, run.trust, run.damaged), (true, false, Some(Trust::AllPlanned), 1));
    assert_eq!(last_height(written(SYNC).as_bytes()), Some(3), "neither the background nor the cut line");
}

#[test]
fn log_with_several_starts_gives_a_run_each() {
    let at = |day: u32, height: u32| format!("2026-01-{day:02}T00:00:00Z {}\n", tip(height));
    let many = |day: u32, heights: std::ops::Range<u32>| heights.map(|height| at(day, height)).collect::<String>();
    for (row, text, want) in [
        ("two starts", written(REINDEX) + &written(REINDEX), vec![3, 3]),
        ("no version lines, height falls", many(1, 0..500) + &many(2, 0..300), vec![500, 300]),
        ("a small reorganisation", many(1, 0..500) + &many(1, 450..600), vec![650]),
        ("the clock goes back a day", many(2, 0..50) + &many(1, 50..60), vec![50, 10]),
        (
            "a start without blocks",
            "2026-01-01T00:00:00Z ffwd version v0.1.0 (info)\n".to_owned() + &written(REINDEX),
            vec![0, 3],
        ),
        ("nothing", String::new(), vec![]),
    ] {
        let log = read(text.as_bytes()).unwrap();
        assert_eq!(log.runs.iter().map(|run| run.tips.len()).collect::<Vec<_>>(), want, "{row}");
    }
}

/// Cut at any byte, with any bit flipped, a log still reads, and no height is made up.
#[test]
fn damaged_lines_are_counted_and_skipped() {
    let text = written(REINDEX).into_bytes();
    for cut in 0..text.len() {
        let log = read(&text[..cut]).unwrap();
        assert!(
            log.runs.iter().flat_map(|run| &run.tips).all(|tip| (1..=3).contains(&tip.fields.height)),
            "cut at {cut}"
        );
        let mut flipped = text.clone();
        flipped[cut] ^= 1 << (cut % 8);
        read(&flipped[..]).unwrap();
    }
    let joined =
        format!("2026-01-01T00:00:00Z {}\n2026-01-01T00:00:00Z Upd2026-01-01T00:00:00Z {}\n\0\0\0\n", tip(1), tip(2));
    assert_eq!(read(joined.as_bytes()).unwrap().runs[0].damaged, 2, "a line run into another, and zeros");
    let endless = [
        tip(1).into_bytes(),
        vec![b'x'; 10 << 20],
        b"\n".to_vec(),
        format!("2026-01-01T00:00:00Z {}\n", tip(5)).into_bytes(),
    ]
    .concat();
    let log = read(&endless[..]).unwrap();
    assert_eq!(
        (log.runs[0].tips.len(), log.runs[0].damaged > 0),
        (1, true),
        "a line without end does not fill the memory"
    );
}

#[test]
fn flushes_of_a_snapshot_and_partial_batches_are_read() {
    let log = read(MORE_FLUSHES.as_bytes()).unwrap();
    let run = &log.runs[0];
    let flushes: Vec<_> = run.flushes.iter().map(|flush| (flush.ms, flush.coins)).collect();
    assert_eq!(flushes, [(Some(1550.25), None), (Some(10.0), Some(7))]);
    assert_eq!(run.partial_batches, 2);
}

/// Lines of threads about flushes, alone in a log: each is one flush, and cut anywhere none or the same.
#[test]
fn flushes_of_patched_programs_are_read() {
    for (message, ms) in [
        ("FlushSnapshotToDisk: completed (1234.25ms)", 1234.25),
        ("BatchWrite took=2345ms, maxMem=317MiB", 2345.0),
        ("BatchWrite: completed in 3456ms", 3456.0),
    ] {
        let text = format!("2026-01-01T00:00:01Z {message}\n");
        let log = read(text.as_bytes()).unwrap();
        let flush = Flush { time_us: log.runs[0].flushes[0].time_us, height: 0, ms: Some(ms), coins: None };
        assert_eq!(log.runs[0].flushes, [flush], "{message}");
        for cut in 0..text.len() - 1 {
            let log = read(&text.as_bytes()[..cut]).unwrap();
            let found: Vec<_> = log.runs.iter().flat_map(|run| &run.flushes).map(|flush| flush.ms).collect();
            let is_same = found.is_empty() || found == [Some(ms)] || message.starts_with("Flush");
            assert!(is_same, "{message} cut at {cut}: {found:?}");
        }
    }
}
