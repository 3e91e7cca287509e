//! The state of a connection that is, or may become, a replica.

use crate::Ms;
use crate::action::{ConnId, Form, Parts, SnapshotId, Target};
use crate::cluster::Greeting;
use crate::settings::OutputLimit;

/// The progress of the synchronization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It has sent REPLCONF options, and no request yet.
    Guest,
    /// It needs a copy of the data, and no snapshot is requested for it yet.
    Waiting { since: Ms },
    /// It gets this snapshot, which is requested or in progress.
    Snapshot { snapshot: SnapshotId },
    /// The snapshot is being sent.
    Sending { snapshot: SnapshotId, target: Target, confirmed: bool },
    /// It has a copy. `started`: the stream is being sent.
    Online { started: bool },
}

/// The properties that it has announced by REPLCONF.
#[derive(Clone, Debug)]
pub(super) struct Announced {
    pub port: i64,
    pub address: Option<String>,
    /// It supports copies that end with a mark, and a new id in `+CONTINUE`.
    pub eof: bool,
    pub psync2: bool,
    /// Its Valkey version, 0x090100 for 9.1.0.
    pub version: u32,
    pub parts: Parts,
    /// It requests a copy without the stream.
    pub rdb_only: bool,
}

/// The last offsets that it has acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Acks {
    pub applied: u64,
    pub durable: u64,
    /// Time of the last message from it.
    pub time: Ms,
}

#[derive(Clone, Debug)]
pub(super) struct Attached {
    pub conn: ConnId,
    /// The address of the connection.
    pub peer: String,
    pub announced: Announced,
    /// In a cluster with a store: the member that it is.
    pub greeting: Option<Greeting>,
    /// It used SYNC and never acknowledges an offset.
    pub silent: bool,
    pub phase: Phase,
    pub acks: Acks,
    /// Offset up to which the stream was sent to it, once there is something to send.
    pub cursor: Option<u64>,
    /// Time at which it exceeded the soft limit.
    over_soft: Option<Ms>,
}

impl Attached {
    pub fn new(conn: ConnId, peer: &str) -> Attached {
        Attached {
            conn,
            peer: peer.to_string(),
            announced: Announced {
                port: 0,
                address: None,
                eof: false,
                psync2: false,
                version: 0,
                parts: Parts::ALL,
                rdb_only: false,
            },
            greeting: None,
            silent: false,
            phase: Phase::Guest,
            acks: Acks::default(),
            cursor: None,
            over_soft: None,
        }
    }

    pub fn is_replica(&self) -> bool {
        self.phase != Phase::Guest
    }

    pub fn is_online(&self) -> bool {
        matches!(self.phase, Phase::Online { .. })
    }

    /// The address at which other servers reach it.
    pub fn host(&self) -> &str {
        self.announced.address.as_deref().unwrap_or(&self.peer)
    }

    /// Its name in the log.
    pub fn name(&self) -> String {
        match self.announced.port {
            0 => format!("{}:<unknown-replica-port>", self.host()),
            port => format!("{}:{port}", self.host()),
        }
    }

    pub fn form(&self) -> Form {
        let rdb_version =
            if self.announced.version >= 0x09_00_00 { Form::NEWEST } else { Form::OLDEST };
        Form { parts: self.announced.parts, rdb_version }
    }

    /// Its state as INFO prints it.
    pub fn state_name(&self) -> &'static str {
        match self.phase {
            Phase::Guest => "none",
            Phase::Waiting { .. }
            | Phase::Snapshot { .. }
            | Phase::Sending { target: Target::Stream, .. } => "wait_bgsave",
            Phase::Sending { target: Target::Disk, .. } => "send_bulk",
            Phase::Online { .. } => "online",
        }
    }

    pub fn lag(&self, now: Ms) -> Ms {
        now.saturating_sub(self.acks.time)
    }

    /// Bytes of a stream of length `end` that it still needs.
    pub fn pending(&self, end: u64) -> u64 {
        self.cursor.map_or(0, |cursor| end.saturating_sub(cursor))
    }

    /// Whether it exceeds its output limit. `backlog` is the size of the backlog: bytes kept anyway
    /// cost nothing.
    pub fn is_over(&mut self, now: Ms, end: u64, limit: &OutputLimit, backlog: u64) -> bool {
        let pending = self.pending(end);
        let hard = limit.hard > 0 && pending > limit.hard.max(backlog);
        if limit.soft == 0 || pending <= limit.soft {
            self.over_soft = None;
        } else {
            self.over_soft.get_or_insert(now);
        }
        hard || self.over_soft.is_some_and(|since| now.saturating_sub(since) > limit.soft_time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hard_limit_applies_at_once_and_soft_limit_after_its_time() {
        let mut replica = Attached::new(ConnId(1), "::1");
        let limit = OutputLimit { hard: 1000, soft: 100, soft_time: 50 };
        assert!(!replica.is_over(0, 5000, &limit, 0), "nothing to send yet");
        replica.cursor = Some(5000);
        let mut over = |now, end| replica.is_over(now, end, &limit, 2000);
        assert!(!over(0, 5100), "as much as the soft limit");
        assert!(!over(10, 5101));
        assert!(!over(60, 5101));
        assert!(!over(61, 5050), "it has caught up");
        assert!(!over(62, 5101));
        assert!(over(113, 5101), "for too long");
        let mut over = |end, backlog| replica.is_over(62, end, &limit, backlog);
        assert!(!over(7000, 2000), "the backlog is larger than the limit");
        assert!(over(7001, 2000));
        assert!(over(6001, 0));
        let none = OutputLimit { hard: 0, soft: 0, soft_time: 0 };
        assert!(!replica.is_over(1 << 40, 1 << 50, &none, 0));
    }
}
