//! The state that both machines share.

use crate::Ms;
use crate::action::{Action, Ids, Level};
use crate::cluster::ShardMember;
use crate::settings::Settings;
use crate::stream::Stream;

pub(crate) struct Cx<'a> {
    pub now: Ms,
    pub settings: &'a Settings,
    pub stream: &'a mut Stream,
    pub ids: &'a mut Ids,
    pub out: &'a mut Vec<Action>,
    /// In a cluster with a store.
    pub member: Option<&'a dyn ShardMember>,
    /// Bytes of its own history that this server has dropped.
    pub discarded: &'a mut u64,
    /// Notifications of the called machine for the other one.
    pub notifications: Vec<Notification>,
}

/// A notification that the other machine must handle at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notification {
    /// This server's replicas can't continue with the stream as it was.
    CutReplicas,
    /// The primary accepts this server: with a continuation or a copy.
    Accepted,
    /// The primary refuses.
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
