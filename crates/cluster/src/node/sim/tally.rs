//! Totals of a run.

/// Counts of events, so that tests can see that they happened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub acked: u64,
    pub promotions: u64,
    pub handovers: u64,
    /// Moves of slots with their keys.
    pub copied: u64,
    /// Changes of marks.
    pub marked: u64,
    pub moved: u64,
    pub lost: u64,
    pub discarded: u64,
    pub kills: u64,
    pub stops: u64,
    pub zombies: u64,
    pub unknown: u64,
    pub takeovers: u64,
    pub full_syncs: u64,
    pub promised: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        let Tally { acked, promotions, handovers, moved, lost, discarded, kills, .. } = other;
        self.acked += acked;
        self.promotions += promotions;
        self.handovers += handovers;
        self.moved += moved;
        self.lost += lost;
        self.discarded += discarded;
        self.kills += kills;
        let Tally { stops, zombies, unknown, takeovers, full_syncs, promised, .. } = other;
        self.stops += stops;
        self.zombies += zombies;
        self.unknown += unknown;
        self.takeovers += takeovers;
        self.full_syncs += full_syncs;
        self.promised += promised;
        self.copied += other.copied;
        self.marked += other.marked;
    }
}
