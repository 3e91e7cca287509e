//! The primary of a replica in a cluster with a store.

use super::{AGAIN, Copy, Follower, State};
use crate::Ms;
use crate::action::{Level, LinkId};
use crate::cluster::{Greeting, PromiseQuestion};
use crate::cx::Cx;
use crate::id::{ReplicationId, Second};
use crate::planted::{self, Fault};
use weft_base::num::parse_i64;
use weft_cluster::NodeId;
use weft_cluster::node::{OpId, Revision};

/// Delay after the first refused greeting; each one doubles it.
const SOON: Ms = 100;
/// Until an idle replica connects.
const NEVER: Ms = Ms::MAX;

/// The primary, and how this server introduces itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub primary: NodeId,
    pub greeting: Greeting,
    /// Where the primary's history has left its predecessor's.
    left: Option<Second>,
    /// Refused greetings.
    refusals: u32,
}

impl Source {
    pub fn new(primary: NodeId, greeting: Greeting) -> Source {
        Source { primary, greeting, left: None, refusals: 0 }
    }
}

/// Parses the reply to the greeting: `+OK`, or `+OK ID BYTE`.
fn left(answer: &[u8]) -> Option<Second> {
    let mut words = answer.split(|byte| *byte == b' ').skip(1);
    let id = ReplicationId::parse(words.next()?)?;
    let valid_to = parse_i64(words.next()?).and_then(|byte| u64::try_from(byte).ok())?;
    Some(Second { id, valid_to })
}

impl Follower {
    /// A replica without a primary.
    pub(crate) fn idle(now: Ms, link: LinkId, resumable: bool) -> Follower {
        let mut follower = Follower::new(now, String::new(), 0, link, resumable);
        follower.state = State::Waiting { until: NEVER };
        follower
    }

    /// The primary is that of this server's shard.
    pub(crate) fn set_source(&mut self, source: Source) {
        self.source = Some(source);
    }

    /// The epoch of the shard to which the link belongs.
    #[cfg(test)]
    pub(crate) fn epoch(&self) -> Option<Revision> {
        self.source.map(|source| source.greeting.epoch)
    }

    /// The primary has accepted the greeting.
    pub(super) fn greeted(&mut self, answer: &[u8]) {
        self.has_heard = true;
        if let Some(source) = &mut self.source {
            source.left = left(answer);
        }
    }

    /// The primary has refused the greeting. A new primary may not know of its role yet, and its
    /// writes may wait for this replica, so the first attempts follow each other sooner.
    pub(super) fn greeting_refused(&mut self, cx: &mut Cx<'_>, why: String) {
        self.fail(cx, why);
        if let Some(source) = &mut self.source {
            let pause = AGAIN.min(SOON << source.refusals.min(8));
            source.refusals += 1;
            self.state = State::Waiting { until: cx.now + pause };
        }
    }

    /// Whether something has arrived from the primary since the last call.
    pub(crate) fn take_heard(&mut self) -> bool {
        std::mem::take(&mut self.has_heard)
    }

    /// Gives the primary a promise that it has asked for in this epoch.
    pub(crate) fn promise(&mut self, cx: &mut Cx<'_>, epoch: Revision, ask: OpId) {
        let is_of_link = self.source.is_some_and(|source| source.greeting.epoch == epoch);
        if is_of_link && self.is_online() {
            self.send(cx, PromiseQuestion::promise(epoch, ask));
        }
    }

    /// Reports what this server has.
    pub(super) fn report_data(&self, cx: &Cx<'_>) {
        if let Some(shard) = cx.member.filter(|_| self.resumable) {
            shard.has_data(cx.stream.offset());
        }
    }

    /// Whether the old data may be dropped for a copy. If not, the attempt has ended.
    pub(super) fn may_drop(&mut self, cx: &mut Cx<'_>) -> bool {
        let (Some(Source { primary, greeting, .. }), Some(shard)) = (self.source, cx.member) else {
            return true;
        };
        let may = shard.drops_data(primary, greeting.epoch) || planted::is(Fault::CopyNotAsked);
        if !may {
            self.fail(cx, "The cluster keeps the data of this node: no copy replaces them");
        }
        may
    }

    /// Counts the writes that are lost when `copy` replaces the data.
    pub(super) fn count_discarded(&self, cx: &mut Cx<'_>, copy: &Copy) {
        let Some(Source { left, .. }) = self.source else { return };
        let history = *cx.stream.history();
        let is_other = copy.of.is_none_or(|(id, _)| id != history.id);
        if !self.resumable || !is_other || history.offset == 0 {
            return;
        }
        match left.filter(|left| left.id == history.id) {
            Some(left) => {
                let bytes = (history.offset + 1).saturating_sub(left.valid_to);
                *cx.discarded += bytes;
                if bytes > 0 {
                    let text = format!(
                        "Discarding {bytes} bytes of writes: the history of the shard has continued \
                         without them from offset {}",
                        left.valid_to - 1
                    );
                    cx.log(Level::Warning, text);
                }
            }
            None => cx.log(
                Level::Warning,
                format!(
                    "The primary doesn't know the history {}: an unknown part of the data of this \
                     node is discarded",
                    history.id
                ),
            ),
        }
    }

    /// The stream of this link may not be applied any more. A part of it was received, so only a
    /// new link can continue.
    pub(crate) fn refuse_stream(&mut self, cx: &mut Cx<'_>, link: LinkId) {
        if self.may_apply(link) {
            self.fail(cx, "The cluster ends the link to the primary");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_to_greetings_are_parsed() {
        let id = ReplicationId::from_random([3; 20]);
        let text = format!("+OK {id} 101");
        assert_eq!(left(text.as_bytes()), Some(Second { id, valid_to: 101 }));
        for other in ["+OK", "+OK x 1", &format!("+OK {id}"), &format!("+OK {id} -1")] {
            assert_eq!(left(other.as_bytes()), None, "{other}");
        }
    }
}
