//! `--debug bench`: the cost of each block, in debug.log, under Core's nearest line names.
//!
//! A time is busy time over all workers; blocks overlap, so their sum is more than the elapsed time. Lines and their
//! order: Bitcoin Core b88bffe, `Chainstate::ConnectBlock` and `ConnectTip`. "Connect transactions" is spending,
//! creating, looking up and judging coins; "Verify" adds the scripts, as in Core. "Fork checks", "Flush", "Writing
//! chainstate" and "Connect postprocess" have no counterpart for one block here.

use crate::pipeline::Connected;
use crate::pipeline::stats::Stage;
use crate::reporting::log::Log;
use std::time::Duration;

/// Sums over the blocks so far, for the second half of each line.
#[derive(Default)]
pub(crate) struct BenchLines {
    blocks: u32,
    sums: [Duration; 7],
}

impl BenchLines {
    /// Writes the lines before the block's UpdateTip line; `undo` and `index` are the times of committing it. Returns
    /// the line for after UpdateTip.
    pub(crate) fn lines(&mut self, log: &Log, block: &Connected<'_>, undo: Duration, index: Duration) -> String {
        let busy = |stage| block.times.busy(stage);
        let read = busy(Stage::Read);
        let sanity = busy(Stage::Decode);
        let connect = busy(Stage::Apply) + busy(Stage::LookUp) + busy(Stage::Judge);
        let verify = connect + busy(Stage::Scripts);
        let total = sanity + verify + undo + index;
        self.blocks += 1;
        for (sum, one) in self.sums.iter_mut().zip([sanity, connect, verify, undo, index, total, read + total]) {
            *sum += one;
        }
        let sum = |i: usize| {
            let sum = self.sums[i];
            format!("[{:.2}s ({:.2}ms/blk)]", sum.as_secs_f64(), ms(sum) / f64::from(self.blocks))
        };
        let transactions = block.prepared.txids.len();
        let inputs = block.judged.inputs();
        let each = |time: Duration, count: usize| if count == 0 { 0.0 } else { ms(time) / count as f64 };
        log.later(&format!("[bench]   - Load block from disk: {:.2}ms", ms(read)));
        log.later(&format!("[bench]     - Sanity checks: {:.2}ms {}", ms(sanity), sum(0)));
        log.later(&format!(
            "[bench]       - Connect {transactions} transactions: {:.2}ms ({:.3}ms/tx, {:.3}ms/txin) {}",
            ms(connect),
            each(connect, transactions),
            each(connect, inputs),
            sum(1)
        ));
        log.later(&format!(
            "[bench]     - Verify {inputs} txins: {:.2}ms ({:.3}ms/txin) {}",
            ms(verify),
            each(verify, inputs),
            sum(2)
        ));
        log.later(&format!("[bench]     - Write undo data: {:.2}ms {}", ms(undo), sum(3)));
        log.later(&format!("[bench]     - Index writing: {:.2}ms {}", ms(index), sum(4)));
        log.later(&format!("[bench]   - Connect total: {:.2}ms {}", ms(total), sum(5)));
        format!("[bench] - Connect block: {:.2}ms {}", ms(read + total), sum(6))
    }
}

/// A commit that is durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flushed {
    pub(crate) records: u64,
    pub(crate) took: Duration,
}

/// The line for a durable generation; `cached` is the number of coin records in memory. Source: Bitcoin Core b88bffe,
/// txdb.cpp, `CCoinsViewDB::BatchWrite`.
pub(crate) fn flush(flushed: &Flushed, cached: u64) -> String {
    let records = flushed.records;
    let took = ms(flushed.took);
    format!(
        "[bench] BatchWrite: write coins cache to disk ({records} out of {cached} cached coins) completed ({took:.2}ms)"
    )
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
