//! Counts of replicas by offset, and their state for ROLE and INFO.

use super::Primary;
use super::attached::Attached;
use crate::Ms;
use crate::action::ConnId;
use crate::settings::Settings;

/// The state of a replica, for INFO, ROLE and CLIENT LIST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaView {
    pub conn: ConnId,
    pub host: String,
    pub port: i64,
    /// `wait_bgsave`, `send_bulk` or `online`.
    pub state: &'static str,
    pub is_online: bool,
    /// The last offset that it has acknowledged, and the last that is durable on its disk.
    pub ack_offset: u64,
    pub aof_offset: u64,
    /// Time since its last message, in ms.
    pub lag: Ms,
    /// Bytes that it still needs.
    pub pending: u64,
}

impl Primary {
    /// Number of replicas that have acknowledged this offset (WAIT). O(replicas).
    #[must_use]
    pub fn acked(&self, offset: u64) -> usize {
        self.online().filter(|replica| replica.acks.applied >= offset).count()
    }

    /// Number of replicas on whose disk this offset is durable (WAITAOF). O(replicas).
    #[must_use]
    pub fn acked_on_disk(&self, offset: u64) -> usize {
        self.online().filter(|replica| replica.acks.durable >= offset).count()
    }

    fn online(&self) -> impl Iterator<Item = &Attached> {
        self.all().filter(|replica| replica.is_online())
    }

    /// Number of replicas without excessive lag (`min_slaves_good_slaves`). O(replicas).
    #[must_use]
    pub fn good(&self, now: Ms, settings: &Settings) -> usize {
        self.online().filter(|replica| replica.lag(now) <= settings.max_lag).count()
    }

    /// Whether enough replicas keep up to accept a client's write.
    #[must_use]
    pub fn may_write(&self, now: Ms, settings: &Settings) -> bool {
        settings.min_replicas == 0
            || settings.max_lag == 0
            || self.good(now, settings) >= settings.min_replicas
    }

    /// All replicas in order of connection. O(replicas).
    #[must_use]
    pub fn views(&self, now: Ms, end: u64) -> Vec<ReplicaView> {
        let view = |replica: &Attached| ReplicaView {
            conn: replica.conn,
            host: replica.host().to_string(),
            port: replica.announced.port,
            state: replica.state_name(),
            is_online: replica.is_online(),
            ack_offset: replica.acks.applied,
            aof_offset: replica.acks.durable,
            lag: replica.lag(now),
            pending: replica.pending(end),
        };
        self.all().map(view).collect()
    }

    /// The replica with this announced address.
    pub(crate) fn find(&self, host: &str, port: i64) -> Option<ReplicaView> {
        let found = |view: &ReplicaView| view.host.eq_ignore_ascii_case(host) && view.port == port;
        self.views(0, 0).into_iter().find(found)
    }

    /// The first replica that has acknowledged all of a stream of length `end`.
    pub(crate) fn caught_up(&self, end: u64) -> Option<(String, i64)> {
        let mut all = self
            .online()
            .filter(|replica| replica.acks.applied == end && replica.announced.port > 0);
        all.next().map(|replica| (replica.host().to_string(), replica.announced.port))
    }
}
