//! Experiment: XOR with the eight bytes of a key: a block of 1 MB at the start of the file and at an odd offset, and
//! coins.

use crate::bench::Bench;
use crate::input::{Digest, Inputs, Rng};
use crate::{Error, Experiment};
use kernels::Kernels;
use kernels::xor::{Kernel, xor_with};

pub(crate) const EXPERIMENT: Experiment = Experiment { tables: &[ALIGNED, ODD, COINS], run };

const ALIGNED: &str = "obfuscation: 1 MB, aligned";
const ODD: &str = "obfuscation: 1 MB, not aligned, key rotated";
const COINS: &str = "obfuscation: values of 40 bytes";
const KEY: [u8; 8] = [0x8a, 0x31, 0xf7, 0x05, 0x6c, 0xd2, 0x9e, 0x4b];
const COIN_BYTES: usize = 40;

const SHIPPED: &str = "8 bytes at a time below 256, else the widest";

fn run(bench: &mut Bench<'_>, _: &Inputs) -> Result<(), Error> {
    let data = Rng(2).bytes(bench.size(10_000, 1_000_008));
    let all = data.len() - 8;
    one(bench, ALIGNED, &data, 0, all, 0)?;
    one(bench, ODD, &data, 3, all, 5)?;
    one(bench, COINS, &data[..bench.size(4_008, 40_008)], 0, COIN_BYTES, 0)
}

/// XORs `data` from byte `start` on in pieces, each as if it were at `offset` of its file.
fn one(
    bench: &mut Bench<'_>,
    name_of_table: &'static str,
    data: &[u8],
    start: usize,
    piece: usize,
    offset: u64,
) -> Result<(), Error> {
    let end = start + (data.len() - 8) / piece * piece;
    let Some(mut table) = bench.table(name_of_table, "byte", end - start) else { return Ok(()) };
    for kernel in Kernel::available().into_iter().map(Some).chain([None]) {
        let by = move |part: &mut [u8]| match kernel {
            Some(kernel) => xor_with(kernel, part, KEY, offset),
            None => Kernels::AUTO.xor(part, KEY, offset),
        };
        // Additional space, so that an address that is a multiple of 64 exists for any result of the allocator.
        let mut room = vec![0; data.len() + 64];
        let from = room.as_ptr().align_offset(64);
        room[from..from + data.len()].copy_from_slice(data);
        let mut checked = data.to_vec();
        checked[start..end].chunks_mut(piece).for_each(by);
        table.add(kernel.map_or(SHIPPED, Kernel::name), Digest::of(&checked), move || {
            room[from + start..from + end].chunks_mut(piece).for_each(by);
            Ok(room[from + start])
        });
    }
    table.shipped();
    bench.run(table)
}
