//! What is kept with the header tree so that walks along it are short: states of deployments, and where an anchor jumps to.

use crate::threads::locks::lock;
use consensus::Deployment;
use consensus::deployments::ThresholdState;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;

/// States of deployments, each of the period behind a block: one entry a deployment and period.
#[derive(Debug)]
pub(crate) struct Kept<Id>(Mutex<HashMap<(Deployment, Id), ThresholdState>>);

impl<Id> Default for Kept<Id> {
    fn default() -> Kept<Id> {
        Kept(Mutex::default())
    }
}

impl<Id: Eq + Hash> Kept<Id> {
    /// The state in the period behind a block, where it was kept.
    pub(crate) fn get(&self, which: Deployment, last: Id) -> Option<ThresholdState> {
        lock(&self.0).get(&(which, last)).copied()
    }

    /// Keeps it.
    pub(crate) fn keep(&self, which: Deployment, last: Id, state: ThresholdState) {
        lock(&self.0).insert((which, last), state);
    }
}

/// The jump of the anchor of this number: to a lower one that has more zero bits at its end.
/// Any choice is right; this one makes every walk logarithmic.
pub(crate) fn skip_number(number: u32) -> u32 {
    let clear = |n: u32| n & n.wrapping_sub(1);
    match number {
        0 | 1 => 0,
        odd if odd & 1 == 1 => (clear(clear(odd - 1)) + 1).min(odd - 1),
        even => clear(even),
    }
}
