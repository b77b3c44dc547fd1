//! Undoes the changes of blocks in flight to the coins in memory.

use super::Pipeline;
use super::flight::Flight;
use super::scheduler::TakenBack;
use crate::threads::locks::lock;
use std::sync::Arc;

impl Pipeline<'_> {
    /// Undoes every block that was in flight, the highest first. No worker may be using a shard group.
    pub(super) fn rewind(&self, taken: &TakenBack<Arc<Flight>>) {
        for (group, shards) in self.groups.iter().enumerate() {
            let mut shards = lock(shards);
            for (index, flight) in taken.flights.iter().enumerate().rev() {
                if taken.is_sealed_after(group, index) {
                    shards.unseal();
                }
                if taken.is_applied(group, index) {
                    shards.rewind(&flight.group_ops(group), &flight.answers(group));
                }
            }
        }
    }
}
