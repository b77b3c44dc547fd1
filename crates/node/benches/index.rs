//! The block index at the size of the main chain.
#![allow(clippy::unwrap_used, reason = "a benchmark that finds something else than it needs should fail there")]

use consensus::{Chain, Params};
use node::chain::index::BlockIndex;
use node::chain::tree::{GENESIS, NodeId};
use primitives::{Hash256, Header, Height};
use std::hint::black_box;
use store::blockfiles::BlockAt;
use store::{IndexEntry, Status};
use testkit::{Bench, Per};

/// Headers of the main chain, about.
const HEADERS: u32 = 950_000;

fn main() {
    tip_turn(&mut Bench::from_args());
}

/// Work: what a turn of the loop at the tip asks of the index: the best candidate, and whether a better header is known.
/// Unit: a turn. Checked: the tip is the best. The size is the same under `cargo test`: the set is quickly made.
fn tip_turn(bench: &mut Bench) {
    let count = bench.size(10_000, HEADERS);
    let mut index = BlockIndex::new(&Params::new(Chain::Regtest));
    let tip = grow(&mut index, count);
    assert_eq!(index.tip(), tip);
    bench.time(&format!("turn at the tip, {count} headers"), Per::of(1, "turn"), || {
        let index = black_box(&index);
        assert_eq!(index.best_candidate(tip), tip);
        let headers = index.headers();
        assert!(headers.work(headers.best()) <= headers.work(tip) && headers.is_ancestor(tip, headers.best()));
    });
}

/// A chain of which every block is there and connected.
fn grow(index: &mut BlockIndex, count: u32) -> NodeId {
    let (mut tip, mut prev) = (GENESIS, index.headers().hash(GENESIS));
    for height in 1..count {
        let header = Header::new(4, prev, Hash256::ZERO, height, 0x207f_ffff, height);
        prev = header.hash();
        let (file, data_offset) = (height / 1000, height % 1000 * 1000 + 8);
        let status = Status::SCRIPTS.with(Status::HAVE_DATA);
        let entry = IndexEntry {
            hash: prev,
            header,
            height: Height::new(height),
            status,
            tx_count: 1,
            file,
            data_offset,
            undo_offset: 0,
        };
        tip = index.load(&entry).unwrap();
        index.loaded_body(tip, 900);
        assert_eq!(index.place(tip), Some(BlockAt { file, offset: u64::from(data_offset), size: 900 }));
    }
    index.set_active(tip);
    tip
}
