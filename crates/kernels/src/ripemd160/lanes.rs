//! The compression function in vector lanes: one message a lane, written once for all vector widths.
//!
//! [`compress_in_lanes`] defines `compress` from a vector type and the functions of that width in scope: `add`,
//! `splat`, `load`, `store`, `turn` (rotates left) and the five functions of RIPEMD-160, `f1` to `f5`. Vector i holds
//! word i of every lane. Source: H. Dobbertin, A. Bosselaers, B. Preneel, "RIPEMD-160: A Strengthened Version of
//! RIPEMD".

/// The state before the first block.
pub(super) const START: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];

/// The constants of each round, on the left and on the right.
pub(super) const ADDED: [[u32; 5]; 2] =
    [[0, 0x5a82_7999, 0x6ed9_eba1, 0x8f1b_bcdc, 0xa953_fd4e], [0x50a2_8be6, 0x5c4d_d124, 0x6d70_3ef3, 0x7a6d_76e9, 0]];

/// The word of the block for each step, on the left and on the right.
#[rustfmt::skip]
pub(super) const TAKEN: [[[u8; 16]; 5]; 2] = [
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [7, 4, 13, 1, 10, 6, 15, 3, 12, 0, 9, 5, 2, 14, 11, 8],
        [3, 10, 14, 4, 9, 15, 8, 1, 2, 7, 0, 6, 13, 11, 5, 12],
        [1, 9, 11, 10, 0, 8, 12, 4, 13, 3, 7, 15, 14, 5, 6, 2],
        [4, 0, 5, 9, 7, 12, 2, 10, 14, 1, 3, 8, 11, 6, 15, 13],
    ],
    [
        [5, 14, 7, 0, 9, 2, 11, 4, 13, 6, 15, 8, 1, 10, 3, 12],
        [6, 11, 3, 7, 0, 13, 5, 10, 14, 15, 8, 12, 4, 9, 1, 2],
        [15, 5, 1, 3, 7, 14, 6, 9, 11, 8, 12, 2, 10, 0, 4, 13],
        [8, 6, 4, 1, 3, 11, 15, 0, 5, 12, 2, 13, 9, 7, 10, 14],
        [12, 15, 10, 4, 1, 5, 8, 7, 6, 2, 13, 14, 0, 3, 9, 11],
    ],
];

/// The rotation of each step, on the left and on the right.
#[rustfmt::skip]
pub(super) const TURNED: [[[u8; 16]; 5]; 2] = [
    [
        [11, 14, 15, 12, 5, 8, 7, 9, 11, 13, 14, 15, 6, 7, 9, 8],
        [7, 6, 8, 13, 11, 9, 7, 15, 7, 12, 15, 9, 11, 7, 13, 12],
        [11, 13, 6, 7, 14, 9, 13, 15, 14, 8, 13, 6, 5, 12, 7, 5],
        [11, 12, 14, 15, 14, 15, 9, 8, 9, 14, 5, 6, 8, 6, 5, 12],
        [9, 15, 5, 11, 6, 8, 13, 12, 5, 12, 13, 14, 11, 8, 5, 6],
    ],
    [
        [8, 9, 9, 11, 13, 15, 15, 5, 7, 7, 8, 11, 14, 14, 12, 6],
        [9, 13, 15, 7, 12, 8, 9, 11, 7, 7, 12, 7, 6, 15, 13, 11],
        [9, 7, 15, 11, 8, 6, 6, 14, 12, 13, 5, 14, 13, 13, 7, 5],
        [15, 5, 8, 11, 14, 14, 6, 14, 6, 9, 12, 9, 12, 5, 15, 8],
        [8, 5, 12, 9, 12, 5, 14, 6, 8, 13, 6, 5, 15, 13, 11, 11],
    ],
];

/// Defines `compress` with `$lanes` lanes and the instructions `$features`.
macro_rules! compress_in_lanes {
    ($vector:ty, $lanes:literal, $features:literal) => {
        /// The states after the block of 32 bytes, the first eight words, and their padding.
        #[target_feature(enable = $features)]
        pub(super) fn compress(words: &[[u32; $lanes]; 8]) -> [[u32; $lanes]; 5] {
            let mut block = [splat(0); 16];
            for (block, words) in block.iter_mut().zip(words) {
                *block = load(words);
            }
            (block[8], block[14]) = (splat(0x80), splat(256));
            let mut start = [splat(0); 5];
            for (start, word) in start.iter_mut().zip(START) {
                *start = splat(word);
            }
            let mut left = start;
            let mut right = start;
            // Both sides are interleaved to hide instruction latency.
            sixteen_steps!(left right, 0, f1, f5, block);
            sixteen_steps!(left right, 1, f2, f4, block);
            sixteen_steps!(left right, 2, f3, f3, block);
            sixteen_steps!(left right, 3, f4, f2, block);
            sixteen_steps!(left right, 4, f5, f1, block);
            let mut state = [[0; $lanes]; 5];
            for (at, state) in state.iter_mut().enumerate() {
                *state = store(add(add(start[(at + 1) % 5], left[(at + 2) % 5]), right[(at + 3) % 5]));
            }
            state
        }
    };
}

/// Sixteen steps on both sides.
macro_rules! sixteen_steps {
    ($left:ident $right:ident, $round:literal, $f:ident, $g:ident, $block:ident) => {
        for step in 0..16 {
            step!($left, 0, $round, step, $f, $block);
            step!($right, 1, $round, step, $g, $block);
        }
    };
}

/// One step on one side.
macro_rules! step {
    ($state:ident, $side:literal, $round:literal, $step:ident, $f:ident, $block:ident) => {
        let [a, b, c, d, e] = $state;
        let word = $block[usize::from(TAKEN[$side][$round][$step]) % 16];
        let early = add(add(a, word), splat(ADDED[$side][$round]));
        let turned = turn(add(early, $f(b, c, d)), u32::from(TURNED[$side][$round][$step]));
        $state = [e, add(turned, e), b, turn(c, 10), d];
    };
}

pub(super) use {compress_in_lanes, sixteen_steps, step};
