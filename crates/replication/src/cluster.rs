//! The shard of a node in a cluster with a store: replication asks it, and reports to it.
//!
//! A link belongs to one epoch of the shard. Replica and primary compare shard and epoch before the
//! replica asks for data, and every link ends when the duty of either server changes. So no stream
//! of an earlier epoch is applied.

use std::sync::Arc;
use weft_base::num::parse_i64;
use weft_cluster::node::{Duty, Member, OpId, Revision};
use weft_cluster::{NodeId, ShardId};
use weft_resp::{Limits, Parser, Step, append_request};

/// The cluster's side of replication. The machine calls it synchronously, in the order of its
/// events, so a report is never older than a question that was answered before.
///
/// The caller holds the lock of the machine. So an implementation may take its own lock, must not
/// wait for anything else, and must not call replication. The holder of that lock must not either.
pub trait ShardMember: Send + Sync {
    /// Whether this primary of `shard` accepts the handshake of a replica.
    fn admits(&self, member: Member, shard: ShardId, epoch: Revision) -> bool;

    /// A replica has applied the stream of this epoch up to `acked`. `whole` is false before a copy
    /// is sent to it: from then on it may drop its data.
    fn progress(&self, member: Member, epoch: Revision, acked: u64, whole: bool);

    /// The link of a replica has ended.
    fn gone(&self, member: Member);

    /// Whether the stream of this primary may be applied.
    fn may_follow(&self, primary: NodeId, epoch: Revision) -> bool;

    /// Whether this server's data may be dropped for a copy of this primary. From `true` on they
    /// are incomplete, until `has_data`.
    fn drops_data(&self, primary: NodeId, epoch: Revision) -> bool;

    /// This server's data are complete: loaded, or received up to this offset. It is reported
    /// before each acknowledgement to the primary, when a link ends, and once a tick.
    fn has_data(&self, offset: u64);

    /// The primary has sent something.
    fn heard_primary(&self);

    /// This primary has written up to this offset: once a tick, and when the driver asks for it.
    fn written(&self, offset: u64);

    /// The primary asks this replica not to try a promotion for a while.
    fn promise_asked(&self, primary: NodeId, epoch: Revision, ask: OpId);

    /// A replica has promised that to this primary, in its present epoch.
    fn promised(&self, member: Member, ask: OpId);
}

/// This server as a member of a shard.
#[derive(Clone)]
pub struct Cluster {
    pub me: Member,
    pub shard: Arc<dyn ShardMember>,
}

/// The membership with the present duty.
pub(crate) struct Membership {
    pub me: Member,
    pub shard: Arc<dyn ShardMember>,
    pub duty: Duty,
    /// The last reported end of the written stream, or of the received one.
    pub reported: Option<u64>,
}

/// The primary to follow, by the map of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardPrimary {
    pub host: String,
    pub port: u16,
    pub node: NodeId,
    pub shard: ShardId,
    pub epoch: Revision,
}

/// The first words of a replica: `REPLCONF weft-cluster SHARD EPOCH NODE INCARNATION`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    pub shard: ShardId,
    pub epoch: Revision,
    pub member: Member,
}

impl Greeting {
    /// The option of REPLCONF.
    pub const OPTION: &str = "weft-cluster";

    /// Parses the arguments of REPLCONF. `None`: they are other options.
    ///
    /// # Errors
    /// The text of the error reply.
    pub fn parse(args: &[&[u8]]) -> Option<Result<Greeting, String>> {
        let [option, words @ ..] = args else { return None };
        let is_greeting = option.eq_ignore_ascii_case(Greeting::OPTION.as_bytes());
        is_greeting.then(|| Greeting::of(words).ok_or_else(|| "ERR syntax error".to_string()))
    }

    fn of(words: &[&[u8]]) -> Option<Greeting> {
        let [shard, epoch, node, incarnation] = words else { return None };
        let epoch = parse_i64(epoch).and_then(|epoch| u64::try_from(epoch).ok())?;
        let incarnation = std::str::from_utf8(incarnation).ok()?.parse().ok()?;
        let member = Member { node: NodeId::parse(node)?, incarnation };
        Some(Greeting { shard: ShardId::parse(shard)?, epoch, member })
    }

    /// Appends the request.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let Greeting { shard, epoch, member } = self;
        let (epoch, incarnation) = (epoch.to_string(), member.incarnation.to_string());
        let words: [&[u8]; 6] = [
            b"REPLCONF",
            Greeting::OPTION.as_bytes(),
            shard.as_str().as_bytes(),
            epoch.as_bytes(),
            member.node.as_str().as_bytes(),
            incarnation.as_bytes(),
        ];
        append_request(&words, out);
    }
}

/// A question in the stream: `REPLCONF weft-promise EPOCH ASK NODE INCARNATION`. All replicas get it, and this member answers
/// `REPLCONF weft-promise EPOCH ASK`, which has no reply. An epoch belongs to one process of the primary, and so do the
/// numbers of its questions. A replica that continues after a lost link may get an old question again: its promise counts from the sending of
/// that question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromiseQuestion {
    pub epoch: Revision,
    pub ask: OpId,
    pub member: Member,
}

impl PromiseQuestion {
    /// The option of REPLCONF, in both directions.
    pub const OPTION: &str = "weft-promise";

    /// The bytes in the stream.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let PromiseQuestion { epoch, ask, member } = self;
        let numbers = [*epoch, ask.0, member.incarnation].map(|number| number.to_string());
        let [epoch, ask, incarnation] = numbers.each_ref().map(String::as_bytes);
        let node = member.node.as_str().as_bytes();
        let words =
            [b"REPLCONF", PromiseQuestion::OPTION.as_bytes(), epoch, ask, node, incarnation];
        let mut out = Vec::new();
        append_request(&words, &mut out);
        out
    }

    /// Parses the bytes of a unit of the stream.
    #[must_use]
    pub fn parse(unit: &[u8]) -> Option<PromiseQuestion> {
        let mut spans = Vec::new();
        let Step::Complete = Parser::default().next(unit, &mut spans, &Limits::default()) else {
            return None;
        };
        let [_, _, epoch, ask, node, incarnation] = spans[..] else { return None };
        let (epoch, ask) = numbers(epoch.of(unit), ask.of(unit))?;
        let incarnation = std::str::from_utf8(incarnation.of(unit)).ok()?.parse().ok()?;
        let member = Member { node: NodeId::parse(node.of(unit))?, incarnation };
        Some(PromiseQuestion { epoch, ask, member })
    }

    /// The bytes of the promise.
    #[must_use]
    pub(crate) fn promise(epoch: Revision, ask: OpId) -> Vec<u8> {
        let (epoch, ask, mut out) = (epoch.to_string(), ask.0.to_string(), Vec::new());
        let option = PromiseQuestion::OPTION.as_bytes();
        append_request(&[b"REPLCONF", option, epoch.as_bytes(), ask.as_bytes()], &mut out);
        out
    }

    /// Parses the arguments of REPLCONF as a promise. `None`: they are none.
    #[must_use]
    pub(crate) fn parse_promise(args: &[&[u8]]) -> Option<(Revision, OpId)> {
        let [option, epoch, ask] = args else { return None };
        let is_promise = option.eq_ignore_ascii_case(PromiseQuestion::OPTION.as_bytes());
        is_promise.then(|| numbers(epoch, ask)).flatten()
    }
}

fn numbers(epoch: &[u8], ask: &[u8]) -> Option<(Revision, OpId)> {
    let number = |text| parse_i64(text).and_then(|number| u64::try_from(number).ok());
    Some((number(epoch)?, OpId(number(ask)?)))
}
