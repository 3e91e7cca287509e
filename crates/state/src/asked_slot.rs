//! The hash slot of a request, in cluster mode.

/// The slot of a request: of its keys and shard channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AskedSlot {
    /// It has no keys.
    #[default]
    None,
    One(u16),
    Several,
}

impl AskedSlot {
    /// The slot of two requests together.
    #[must_use]
    pub fn and(self, other: AskedSlot) -> AskedSlot {
        match (self, other) {
            (AskedSlot::None, slot) | (slot, AskedSlot::None) => slot,
            (AskedSlot::One(first), AskedSlot::One(second)) if first == second => self,
            (AskedSlot::One(_) | AskedSlot::Several, _) => AskedSlot::Several,
        }
    }

    /// The slot, if it is one.
    pub fn one(self) -> Option<u16> {
        match self {
            AskedSlot::One(slot) => Some(slot),
            AskedSlot::None | AskedSlot::Several => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::AskedSlot::{None, One, Several};

    #[test]
    fn slots_are_united() {
        assert_eq!(None.and(None), None);
        assert_eq!((None.and(One(5)), One(5).and(None)), (One(5), One(5)));
        assert_eq!((One(5).and(One(5)), One(5).and(One(6))), (One(5), Several));
        assert_eq!((Several.and(None), Several.and(One(5))), (Several, Several));
        assert_eq!(One(5).and(Several), Several);
    }
}
