//! Logging of deliveries: each pending entry is logged as an XCLAIM that sets its current state.
//!
//! The effect of XREADGROUP, XCLAIM and XAUTOCLAIM depends on what the group has delivered, on the
//! time and on the existing entries. So the log has the result: the pending entries, each with its
//! consumer, time and count, and the group's read position.

use crate::ctx::Ctx;
use weft_keyspace::Key;
use weft_types::stream::StreamId;
use weft_types::stream::groups::{Group, Pending};

/// The changes of a command to a group. Collected only if the command is logged.
pub(super) struct Deliveries {
    is_logged: bool,
    /// Each with the consumer's name and the group's last id at that time.
    claims: Vec<(StreamId, Box<[u8]>, Pending, StreamId)>,
    /// The name of a consumer that was created.
    pub(super) new_consumer: Option<Box<[u8]>>,
    /// The group's position, if it must be logged: the last id and the number of entries read.
    pub(super) position: Option<(StreamId, Option<i64>)>,
}

impl Deliveries {
    pub(super) fn new(ctx: &Ctx<'_>) -> Deliveries {
        let is_logged = ctx.is_logged();
        Deliveries { is_logged, claims: Vec::new(), new_consumer: None, position: None }
    }

    /// Notes the current state of the pending entry `id`. The entry must still be pending. If it is
    /// no longer in the stream, the replayed XCLAIM removes it from the group.
    pub(super) fn note(&mut self, group: &Group, id: StreamId) {
        if self.is_logged
            && let Some(pending) = group.pending(id)
        {
            let name = group.consumer(pending.owner).name().into();
            self.claims.push((id, name, pending, group.last_id));
        }
    }

    /// Notes the group's position.
    pub(super) fn note_position(&mut self, group: &Group) {
        if self.is_logged {
            self.position = Some((group.last_id, group.entries_read));
        }
    }

    /// Notes the name of a new consumer.
    pub(super) fn note_consumer(&mut self, name: &[u8]) {
        if self.is_logged {
            self.new_consumer = Some(name.into());
        }
    }

    /// Whether any entry was noted.
    pub(super) fn has_claims(&self) -> bool {
        !self.claims.is_empty()
    }

    /// Logs the changes of group `group` of the stream at `key`.
    pub(super) fn log(mut self, ctx: &mut Ctx<'_>, key: &Key<'_>, group: &[u8]) {
        if !self.is_logged {
            return;
        }
        // Never log the client's words, even if there is nothing to log.
        ctx.db.log_nothing();
        self.claims.sort_by_key(|(id, ..)| *id);
        // XCLAIM creates its consumer.
        let claimed = |name: &[u8]| self.claims.iter().any(|(_, of, ..)| **of == *name);
        if let Some(name) = self.new_consumer.as_deref().filter(|name| !claimed(name)) {
            ctx.log(&[b"XGROUP", b"CREATECONSUMER", key.bytes, group, name]);
        }
        for (id, consumer, pending, last_id) in &self.claims {
            let (id, last_id) = (id.text(), last_id.text());
            let (time, count) = (pending.delivered_ms.to_string(), pending.deliveries.to_string());
            let whose = [b"XCLAIM", key.bytes, group, consumer, b"0", id.as_bytes()];
            let when = [b"TIME", time.as_bytes(), b"RETRYCOUNT", count.as_bytes()];
            let how = [&b"FORCE"[..], b"JUSTID", b"LASTID", last_id.as_bytes()];
            ctx.log(&[&whose[..], &when[..], &how[..]].concat());
        }
        if let Some((last_id, read)) = self.position {
            let (id, read) = (last_id.text(), read.unwrap_or(-1).to_string());
            let whose = [b"XGROUP", &b"SETID"[..], key.bytes, group];
            ctx.log(&[&whose[..], &[id.as_bytes(), b"ENTRIESREAD", read.as_bytes()]].concat());
        }
    }
}
