//! The compression function in vector lanes: one message a lane, written once for all vector widths.
//!
//! [`lanes_engine`] defines an engine from a vector type and the functions of that width in scope: `add`, `splat`,
//! `choice`, `majority`, the four sigmas, `load`, `store`, `load_blocks`, `store_digests`, `copy`. State and schedule
//! are word-major: vector i holds word i of every lane.

/// The state of `N` lanes, word by word.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct LaneWords<const N: usize>(pub(super) [[u32; N]; 8]);

/// One round: `$work` is schedule plus round constant. Instead of the values, the names of the variables rotate.
macro_rules! round {
    ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident, $work:expr) => {
        let early = add($h, $work);
        let one = add(add(early, choice($e, $f, $g)), big_sigma_1($e));
        $d = add($d, one);
        $h = add(one, add(big_sigma_0($a), majority($a, $b, $c)));
    };
}

/// Sixteen rounds over the state `$s`; `$work` gives round i's schedule plus constant.
macro_rules! sixteen_rounds {
    ($s:ident, |$i:ident| $work:expr) => {
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = $s;
        macro_rules! work {
            ($at:expr) => {{
                let $i: usize = $at;
                $work
            }};
        }
        round!(a b c d e f g h, work!(0));
        round!(h a b c d e f g, work!(1));
        round!(g h a b c d e f, work!(2));
        round!(f g h a b c d e, work!(3));
        round!(e f g h a b c d, work!(4));
        round!(d e f g h a b c, work!(5));
        round!(c d e f g h a b, work!(6));
        round!(b c d e f g h a, work!(7));
        round!(a b c d e f g h, work!(8));
        round!(h a b c d e f g, work!(9));
        round!(g h a b c d e f, work!(10));
        round!(f g h a b c d e, work!(11));
        round!(e f g h a b c d, work!(12));
        round!(d e f g h a b c, work!(13));
        round!(c d e f g h a b, work!(14));
        round!(b c d e f g h a, work!(15));
        $s = [a, b, c, d, e, f, g, h];
    };
}

/// Defines the engine `$engine` of `$lanes` lanes with the instructions `$features`.
macro_rules! lanes_engine {
    ($engine:ident, $vector:ty, $lanes:literal, $features:literal) => {
        impl Engine<$lanes> for $engine {
            type State = LaneWords<$lanes>;

            fn detect() -> Option<Self> {
                $engine::detect_features()
            }

            fn start() -> LaneWords<$lanes> {
                LaneWords(START.map(|word| [word; $lanes]))
            }

            #[inline]
            fn set(state: &mut LaneWords<$lanes>, lane: usize, words: Words) {
                for (lanes, word) in state.0.iter_mut().zip(words) {
                    lanes[lane] = word;
                }
            }

            #[inline]
            fn get(state: &LaneWords<$lanes>, lane: usize) -> Words {
                state.0.each_ref().map(|lanes| lanes[lane])
            }

            fn compress(self, state: &mut LaneWords<$lanes>, lanes: &[&[u8]; $lanes], count: usize) {
                // SAFETY: a value of the engine exists only if the processor has its instructions.
                unsafe { compress(state, &lanes.map(|lane| blocks_of(lane, count)), count) }
            }

            fn pad_64(self, state: &mut LaneWords<$lanes>) {
                // SAFETY: as above.
                unsafe { pad_64(state) }
            }

            fn again(self, state: &mut LaneWords<$lanes>) {
                // SAFETY: as above.
                unsafe { again(state) }
            }

            fn digests(self, state: &LaneWords<$lanes>, out: &mut [[u8; 32]; $lanes]) {
                // SAFETY: as above.
                unsafe { digests(state, out) }
            }

            fn stage<'a>(self, stage: &mut Stage, message: &Pieces<'a>, blocks: Blocks) -> Option<&'a [u8]> {
                // SAFETY: as above.
                unsafe { fill(stage, message, blocks) }
            }
        }

        /// Writes the bytes of digests.
        #[target_feature(enable = $features)]
        fn digests(state: &LaneWords<$lanes>, out: &mut [[u8; 32]; $lanes]) {
            store_digests(load_state(state), out);
        }

        /// [`Stage::fill`] with this width's copy function.
        #[target_feature(enable = $features)]
        fn fill<'a>(stage: &mut Stage, message: &Pieces<'a>, blocks: Blocks) -> Option<&'a [u8]> {
            stage.fill(message, blocks, |to, from| copy(to, from))
        }

        /// Hashes `count` blocks of each lane into the state.
        #[target_feature(enable = $features)]
        fn compress(state: &mut LaneWords<$lanes>, lanes: &[&[[u8; 64]]; $lanes], count: usize) {
            for at in 0..count {
                let end = rounds(load_state(state), load_blocks(lanes, at));
                for (words, end) in state.0.iter_mut().zip(end) {
                    *words = store(add(load(words), end));
                }
            }
        }

        /// Hashes the padding of 64 bytes, whose schedule is constant, into the state.
        #[target_feature(enable = $features)]
        fn pad_64(state: &mut LaneWords<$lanes>) {
            let mut s = load_state(state);
            for work in PADDING_64_ROUNDS.as_chunks::<16>().0 {
                sixteen_rounds!(s, |i| splat(work[i]));
            }
            for (words, end) in state.0.iter_mut().zip(s) {
                *words = store(add(load(words), end));
            }
        }

        /// Replaces digests by their hashes.
        #[target_feature(enable = $features)]
        fn again(state: &mut LaneWords<$lanes>) {
            let mut w = [splat(0); 16];
            for (w, words) in w.iter_mut().zip(&state.0) {
                *w = load(words);
            }
            (w[8], w[15]) = (splat(0x8000_0000), splat(256));
            let mut start = [splat(0); 8];
            for (start, word) in start.iter_mut().zip(START) {
                *start = splat(word);
            }
            let end = rounds(start, w);
            for (words, (start, end)) in state.0.iter_mut().zip(start.into_iter().zip(end)) {
                *words = store(add(start, end));
            }
        }

        /// The state as vectors.
        #[inline]
        #[target_feature(enable = $features)]
        fn load_state(state: &LaneWords<$lanes>) -> [$vector; 8] {
            let mut s = [splat(0); 8];
            for (s, words) in s.iter_mut().zip(&state.0) {
                *s = load(words);
            }
            s
        }

        /// The 64 rounds over one block of each lane.
        #[inline]
        #[target_feature(enable = $features)]
        fn rounds(mut s: [$vector; 8], mut w: [$vector; 16]) -> [$vector; 8] {
            let (k, _) = K.as_chunks::<16>();
            sixteen_rounds!(s, |i| add(w[i], splat(k[0][i])));
            for k in &k[1..] {
                sixteen_rounds!(s, |i| {
                    let early = add(small_sigma_0(w[(i + 1) % 16]), w[(i + 9) % 16]);
                    w[i] = add(add(w[i], early), small_sigma_1(w[(i + 14) % 16]));
                    add(w[i], splat(k[i]))
                });
            }
            s
        }
    };
}

pub(super) use {lanes_engine, round, sixteen_rounds};
