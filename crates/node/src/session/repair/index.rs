//! A block index made of the block files and undo files, beside coins that are not touched.

use super::Repair;
use crate::fault::Fault;
use crate::offline::doctor::Examination;

impl Repair<'_> {
    /// Makes the index again.
    pub(super) fn index(&mut self, _: &Examination) -> Result<(), Fault> {
        self.whole("the block index cannot be read, or does not go with the chainstate")
    }
}
