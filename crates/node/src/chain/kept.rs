//! Data stored with the header tree to shorten walks: states of deployments, and jumps between anchors.

use crate::threads::locks::lock;
use consensus::Deployment;
use consensus::deployments::ThresholdState;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;

/// States of deployments in the period after a block: one entry per deployment and period.
#[derive(Debug)]
pub(crate) struct Kept<Id>(Mutex<HashMap<(Deployment, Id), ThresholdState>>);

impl<Id> Default for Kept<Id> {
    fn default() -> Kept<Id> {
        Kept(Mutex::default())
    }
}

impl<Id: Eq + Hash> Kept<Id> {
    /// The state in the period after a block, if it is stored.
    pub(crate) fn get(&self, which: Deployment, last: Id) -> Option<ThresholdState> {
        lock(&self.0).get(&(which, last)).copied()
    }

    /// Stores the state in the period after a block.
    pub(crate) fn keep(&self, which: Deployment, last: Id, state: ThresholdState) {
        lock(&self.0).insert((which, last), state);
    }
}

/// Number of the anchor that this anchor jumps to: a lower one with more trailing zero bits. Any choice is correct;
/// this one makes every walk logarithmic.
pub(crate) fn skip_number(number: u32) -> u32 {
    let clear = |n: u32| n & n.wrapping_sub(1);
    match number {
        0 | 1 => 0,
        odd if odd & 1 == 1 => (clear(clear(odd - 1)) + 1).min(odd - 1),
        even => clear(even),
    }
}
