//! The compression function by instructions for several rounds of one message, written once for all processors that
//! have some. These instructions have to wait for their own results; interleaved messages (streams) hide that latency.
//!
//! [`streams_engine`] defines an engine from a vector of four words and the functions of that processor in scope:
//! `load`, `add`, `into_halves`, `from_halves` (a state in the instructions' layout), `four_rounds`, `schedule` (the
//! next four words of the schedule from the last sixteen) and `load_block`.

/// Defines the engine `$engine` with the instructions `$features`; `$has` detects them.
macro_rules! streams_engine {
    ($engine:ident, $vector:ty, $features:literal, $has:expr) => {
        /// The engine of `S` streams; only `detect` makes one.
        #[derive(Clone, Copy)]
        pub(super) struct $engine<const S: usize>(());

        /// A state in the instructions' layout.
        type Halves = [$vector; 2];

        impl<const S: usize> Engine<S> for $engine<S> {
            type State = [Words; S];

            fn detect() -> Option<Self> {
                $has.then_some($engine(()))
            }

            fn start() -> [Words; S] {
                [START; S]
            }

            #[inline]
            fn set(state: &mut [Words; S], lane: usize, words: Words) {
                state[lane] = words;
            }

            #[inline]
            fn get(state: &[Words; S], lane: usize) -> Words {
                state[lane]
            }

            fn compress(self, state: &mut [Words; S], lanes: &[&[u8]; S], count: usize) {
                // SAFETY: a value of the engine exists only if the processor has its instructions.
                unsafe { compress(state, &lanes.map(|lane| blocks_of(lane, count)), count) }
            }

            fn pad_64(self, state: &mut [Words; S]) {
                // SAFETY: as above.
                unsafe { pad_64(state) }
            }

            fn again(self, state: &mut [Words; S]) {
                // SAFETY: as above.
                unsafe { again(state) }
            }
        }

        /// The 64 rounds over one block of each stream.
        #[inline]
        #[target_feature(enable = $features)]
        fn rounds<const S: usize>(state: &mut [Halves; S], mut w: [[$vector; 4]; S]) {
            let (k, _) = K.as_chunks();
            for (t, k) in k.iter().enumerate() {
                let mut work = [load(k); S];
                for (work, w) in work.iter_mut().zip(&w) {
                    *work = add(*work, w[t % 4]);
                }
                four_rounds(state, work);
                if t < 12 {
                    for w in &mut w {
                        w[t % 4] = schedule([w[t % 4], w[(t + 1) % 4], w[(t + 2) % 4], w[(t + 3) % 4]]);
                    }
                }
            }
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn sum(a: Halves, b: Halves) -> Halves {
            [add(a[0], b[0]), add(a[1], b[1])]
        }

        /// Hashes `count` blocks of each stream into its state.
        #[target_feature(enable = $features)]
        fn compress<const S: usize>(state: &mut [Words; S], lanes: &[&[[u8; 64]]; S], count: usize) {
            let mut halves = load_state(state);
            for at in 0..count {
                let start = halves;
                let mut w = [[load(&[0; 4]); 4]; S];
                for (w, lane) in w.iter_mut().zip(lanes) {
                    *w = load_block(&lane[at]);
                }
                rounds(&mut halves, w);
                for (halves, start) in halves.iter_mut().zip(start) {
                    *halves = sum(*halves, start);
                }
            }
            store_state(state, halves);
        }

        /// Hashes the padding of 64 bytes, whose schedule is constant, into the states.
        #[target_feature(enable = $features)]
        fn pad_64<const S: usize>(state: &mut [Words; S]) {
            let mut halves = load_state(state);
            let start = halves;
            for work in PADDING_64_ROUNDS.as_chunks().0 {
                four_rounds(&mut halves, [load(work); S]);
            }
            for (halves, start) in halves.iter_mut().zip(start) {
                *halves = sum(*halves, start);
            }
            store_state(state, halves);
        }

        /// Replaces digests by their hashes.
        #[target_feature(enable = $features)]
        fn again<const S: usize>(state: &mut [Words; S]) {
            let mark = load(&[0x8000_0000, 0, 0, 0]);
            let length = load(&[0, 0, 0, 256]);
            let mut w = [[mark, mark, mark, length]; S];
            for (w, words) in w.iter_mut().zip(&*state) {
                let (parts, _) = words.as_chunks();
                (w[0], w[1]) = (load(&parts[0]), load(&parts[1]));
            }
            let start = into_halves(&START);
            let mut halves = [start; S];
            rounds(&mut halves, w);
            for halves in &mut halves {
                *halves = sum(*halves, start);
            }
            store_state(state, halves);
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn load_state<const S: usize>(state: &[Words; S]) -> [Halves; S] {
            let mut halves = [[load(&[0; 4]); 2]; S];
            for (halves, words) in halves.iter_mut().zip(state) {
                *halves = into_halves(words);
            }
            halves
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn store_state<const S: usize>(state: &mut [Words; S], halves: [Halves; S]) {
            for (words, halves) in state.iter_mut().zip(halves) {
                *words = from_halves(halves);
            }
        }
    };
}

pub(super) use streams_engine;
