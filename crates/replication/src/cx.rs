//! What both machines work with that is not their own.

use crate::Ms;
use crate::action::{Action, Ids, Level};
use crate::settings::Settings;
use crate::stream::Stream;

pub(crate) struct Cx<'a> {
    pub now: Ms,
    pub settings: &'a Settings,
    pub stream: &'a mut Stream,
    pub ids: &'a mut Ids,
    pub out: &'a mut Vec<Action>,
    /// What the machine that is called has found for the other one.
    pub told: Vec<Told>,
}

/// What the other machine has to know at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Our own replicas can't be served on as they were.
    CutReplicas,
    /// Our primary accepts us: with a continuation or a copy.
    Accepted,
    /// It does not.
    Refused,
}

impl Cx<'_> {
    pub fn log(&mut self, level: Level, text: impl Into<String>) {
        self.out.push(Action::Log { level, text: text.into() });
    }

    pub fn notice(&mut self, text: impl Into<String>) {
        self.log(Level::Notice, text);
    }
}
