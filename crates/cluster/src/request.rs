//! CLUSTER commands that change the map.

/// A command that changes the map, with the arguments after its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    pub verb: Verb,
    pub args: &'a [&'a [u8]],
}

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    AddSlots,
    AddSlotsRange,
    BumpEpoch,
    DelSlots,
    DelSlotsRange,
    Failover,
    FlushSlots,
    Forget,
    Meet,
    MigrateSlots,
    Replicate,
    Reset,
    SetConfigEpoch,
    SetSlot,
}

impl Verb {
    pub const ALL: [Verb; 14] = [
        Verb::AddSlots,
        Verb::AddSlotsRange,
        Verb::BumpEpoch,
        Verb::DelSlots,
        Verb::DelSlotsRange,
        Verb::Failover,
        Verb::FlushSlots,
        Verb::Forget,
        Verb::Meet,
        Verb::MigrateSlots,
        Verb::Replicate,
        Verb::Reset,
        Verb::SetConfigEpoch,
        Verb::SetSlot,
    ];
}
