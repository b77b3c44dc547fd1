//! What is known of a header's fate, and how the tree keeps it beside a height.

use primitives::Height;

/// What is known of a header's fate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Fate {
    /// Nothing against it.
    #[default]
    Open,
    /// The block itself broke a rule.
    Failed,
    /// An ancestor did.
    FailedParent,
}

/// A height, and a fate in the two bits above it.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeightAndFate(u32);

/// Heights are below 2^30: that number of headers needs 100 GB.
pub(super) const FATE_SHIFT: u32 = 30;

impl HeightAndFate {
    pub(super) fn new(height: Height, fate: Fate) -> HeightAndFate {
        let height = height.to_u32();
        assert!(height < 1 << FATE_SHIFT, "no chain is that high");
        HeightAndFate((fate as u32) << FATE_SHIFT | height)
    }

    pub(super) fn height(self) -> Height {
        Height::new(self.0 & ((1 << FATE_SHIFT) - 1))
    }

    pub(super) fn fate(self) -> Fate {
        match self.0 >> FATE_SHIFT {
            0 => Fate::Open,
            1 => Fate::Failed,
            _ => Fate::FailedParent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn height_and_fate_share_a_word() {
        for height in [0, 1, 950_000, (1 << FATE_SHIFT) - 1] {
            for fate in [Fate::Open, Fate::Failed, Fate::FailedParent] {
                let place = HeightAndFate::new(Height::new(height), fate);
                assert_eq!((place.height(), place.fate()), (Height::new(height), fate));
            }
        }
    }
}
