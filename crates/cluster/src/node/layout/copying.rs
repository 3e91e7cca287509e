//! The part of `handovers/ID` for slots whose keys move with them (MIGRATESLOTS).

use super::text::{Invalid, number};
use crate::node::action::Revision;

/// A move of the keys of slots. Only the processes that are the primaries in these two epochs know which keys were copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copying {
    pub from_epoch: Revision,
    pub to_epoch: Revision,
    pub phase: CopyPhase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyPhase {
    /// Keys are copied, and the slots are served.
    Copying,
    /// The slots are suspended until the rest is copied.
    Final,
    /// The slots have their new owner. The earlier one deletes its keys, then the handover.
    Moved,
    /// The owner stays. The other shard deletes what it got, then the handover.
    Failed,
}

impl CopyPhase {
    const ALL: [CopyPhase; 4] =
        [CopyPhase::Copying, CopyPhase::Final, CopyPhase::Moved, CopyPhase::Failed];

    fn word(self) -> &'static str {
        match self {
            CopyPhase::Copying => "copying",
            CopyPhase::Final => "final",
            CopyPhase::Moved => "moved",
            CopyPhase::Failed => "failed",
        }
    }

    /// Whether the slots may still move.
    pub fn is_open(self) -> bool {
        matches!(self, CopyPhase::Copying | CopyPhase::Final)
    }
}

impl Copying {
    pub(super) fn text(self) -> String {
        format!("{} {} {}", self.from_epoch, self.to_epoch, self.phase.word())
    }

    pub(super) fn parse(text: &str) -> Result<Copying, Invalid> {
        let wrong = || Invalid(format!("'{text}' is no move of keys"));
        let words: Vec<&str> = text.split(' ').collect();
        let [from, to, phase] = words[..] else { return Err(wrong()) };
        let phase = CopyPhase::ALL.into_iter().find(|of| of.word() == phase).ok_or_else(wrong)?;
        Ok(Copying { from_epoch: number(from)?, to_epoch: number(to)?, phase })
    }
}
