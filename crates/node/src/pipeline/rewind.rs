//! Taking back what is in flight.

use super::Pipeline;
use super::state::State;
use super::work::block_ops;
use coins::LANES;

impl Pipeline<'_> {
    /// Takes every block in flight back, the highest first, and forgets it. Nobody may be working.
    pub(crate) fn rewind(&self, state: &mut State) {
        assert_eq!(state.running, 0, "nobody works while the lanes are rewound");
        let end = state.end();
        // A generation whose last block is in flight is not being written: it is opened again on the way down.
        let open_again = match &state.seal {
            Some(seal) if !seal.writing && seal.at >= state.first => state.seal.take(),
            _ => None,
        };
        let sealed: Vec<bool> =
            (0..LANES).map(|lane| open_again.as_ref().is_some_and(|seal| seal.parts[lane].is_some())).collect();
        let sealed_at = open_again.as_ref().map(|seal| seal.at);
        drop(open_again); // The lanes' own handles must be the only ones.
        for (index, lane) in self.lanes.iter().enumerate() {
            let mut lane = lane.lock().expect("no worker panics with it");
            for seq in (state.first..end).rev() {
                if sealed[index] && sealed_at == Some(seq) {
                    lane.unseal();
                }
                if state.lane_next[index] > seq {
                    let flight = &state.flights[(seq - state.first) as usize].flight;
                    let answers = flight.answers[index].read().expect("no worker panics with it");
                    lane.rewind(&block_ops(flight, index), &answers);
                }
            }
            state.lane_next[index] = state.first;
            state.lane_busy[index] = false;
        }
        state.flights.clear();
        state.flight_bytes = 0;
        state.committing = false;
        state.ready.clear();
    }
}
