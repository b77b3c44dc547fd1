//! Work: driver steps in the middle of a sync, with 20,000 headers; with SLOW=1 with the 950,000 of mainnet. Unit:
//! microseconds per step, for each input; printed. Checked: less than 20 in optimised builds; for a step that lists up
//! to 4,096 blocks, less than 20 per listed block.
//!
//! `SLOW=1 cargo test --release -p ffwd-node --lib step_cost -- --nocapture`

use super::*;
use crate::chain::headers::AssumeValid;
use crate::chain::testing::Chains;
use crate::session::budget::DownloadLimits;
use crate::session::testing::claim;
use primitives::Work;
use std::hint::black_box;
use std::time::Instant;

/// Maximum time of a step, in microseconds.
const STEP_US_MAX: f64 = 20.0;
/// Number of stored blocks above the tip.
const STORED: usize = 1_000;

struct Bench {
    chains: Chains,
    driver: SyncDriver,
    main: Vec<NodeId>,
    /// Place of the tip in `main`.
    tip: usize,
}

impl Bench {
    /// Half of the headers are connected; `prune_target` is in bytes of block files.
    fn new(count: usize, prune_target: Option<u64>) -> Bench {
        let mut chains = Chains::new();
        let main = chains.grow(None, count);
        let tip = count / 2;
        chains.store(&main[..=tip + STORED]);
        chains.connect(&main[..=tip]);
        chains.set_active(main[tip]);
        let settings = Settings {
            ends_at_tip: true,
            stop_at: None,
            minimum_work: Work::ZERO,
            run_blocks_max: crate::options::RUN_BLOCKS_MAX,
            prune_target,
            assume: AssumeValid { hash: chains.hash(main[count - 100]), minimum_chain_work: Work::ZERO },
            spacing_s: 600,
            expects_peers: true,
            snapshot: None,
            is_archiving: false,
            limits: DownloadLimits::default(),
        };
        let driver = SyncDriver::new(settings, Goal::Tip, main[tip]);
        let mut bench = Bench { chains, driver, main, tip };
        let targets = bench.targets();
        let told = bench.progress();
        bench.on(targets);
        bench.on(told);
        bench
    }

    fn on(&mut self, input: Input) -> Vec<Action> {
        let view = View { index: self.chains.index(), is_prune_due: false, past_tip: None, hinted: None };
        self.driver.on(input, view, Duration::from_secs(9))
    }

    fn targets(&self) -> Input {
        Input::Targets(vec![self.chains.hash(self.main[self.main.len() - 1])])
    }

    fn progress(&self) -> Input {
        let best_claim = Some(claim(&self.chains, self.main[self.main.len() - 1]));
        Input::Network(Box::new(Progress {
            headers_done: true,
            headers_settled: true,
            best_claim,
            ..Progress::default()
        }))
    }

    fn stored(&self) -> Input {
        let hash = self.chains.hash(self.main[self.tip + STORED]);
        Input::Judged { hash, verdict: BlockVerdict::Stored, bytes: Some(1_500_000) }
    }

    fn rested(&self) -> Input {
        let tip = Standing {
            tip: self.main[self.tip],
            wanted: self.main[self.tip + STORED],
            is_held: false,
            is_at_stop: false,
        };
        Input::Rested { tip, past: None }
    }

    /// Microseconds per step with this input (median of several rounds), and the actions of the last step.
    fn cost_us(&mut self, make: impl Fn(&Bench) -> Input) -> (f64, Vec<Action>) {
        let mut times = Vec::new();
        let mut last = Vec::new();
        for _ in 0..50 {
            let inputs: Vec<Input> = (0..20).map(|_| make(self)).collect();
            let count = inputs.len() as f64;
            let start = Instant::now();
            for input in inputs {
                last = black_box(self.on(input));
            }
            times.push(start.elapsed().as_secs_f64() * 1e6 / count);
        }
        times.sort_by(f64::total_cmp);
        (times[times.len() / 2], last)
    }
}

/// Makes the input whose step is measured.
type MakeInput = fn(&Bench) -> Input;

#[test]
fn step_cost_is_below_twenty_microseconds() {
    let count = if std::env::var_os("SLOW").is_some() { 950_000 } else { 20_000 };
    for (row, prune_target) in [("all blocks kept", None), ("pruned", Some(550 << 20))] {
        let mut bench = Bench::new(count, prune_target);
        let inputs: [(&str, MakeInput); 6] = [
            ("block stored", Bench::stored),
            ("tick", |_| Input::Tick),
            ("network's state", Bench::progress),
            ("engine rested", Bench::rested),
            ("more blocks wanted", |_| Input::WantMore),
            ("targets", Bench::targets),
        ];
        for (input, make) in inputs {
            let (us, actions) = bench.cost_us(make);
            println!("{count} headers, {row}, {input}: {us:.2} us");
            if input == "engine rested" {
                assert!(matches!(actions.last(), Some(Action::RunTo(_))), "{row}: {actions:?}");
            }
            let listed = actions.iter().map(|action| match action {
                Action::Want(lists) => lists.iter().map(Vec::len).sum(),
                _ => 0,
            });
            let us = us / listed.sum::<usize>().max(1) as f64;
            assert!(cfg!(debug_assertions) || us < STEP_US_MAX, "{row}, {input}: {us:.2} us");
        }
    }
}
