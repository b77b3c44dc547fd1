//! Validity of a header's block as far as known, and its encoding together with a height.

use primitives::Height;

/// Validity of a header's block, as far as known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Fate {
    /// Not known to be invalid.
    #[default]
    Open,
    /// The block itself broke a rule, or was marked invalid.
    Failed,
    /// An ancestor is invalid.
    FailedParent,
}

/// A height, with a fate in the two bits above it.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeightAndFate(u32);

/// Heights are below 2^30: as many headers would need 100 GB.
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
