//! What is logged of deliveries: each pending entry as the XCLAIM that makes it what it is now.
//!
//! XREADGROUP, XCLAIM and XAUTOCLAIM depend on what a group has delivered, on the time and on what is
//! there, and answer much. Their effect is a list of pending entries, each with its consumer, its time
//! and its count, and how far the group has come.

use crate::ctx::Ctx;
use weft_keyspace::Key;
use weft_types::stream::StreamId;
use weft_types::stream::groups::{Group, Pending};

/// What a command has done to a group, gathered where it is logged.
pub(super) struct Deliveries {
    is_logged: bool,
    /// With the consumer's name, and how far the group had come.
    claims: Vec<(StreamId, Box<[u8]>, Pending, StreamId)>,
    /// This consumer was made.
    pub(super) new_consumer: Option<Box<[u8]>>,
    /// How far the group has come, if that has to be said: the last id, and how many it has read.
    pub(super) position: Option<(StreamId, Option<i64>)>,
}

impl Deliveries {
    pub(super) fn new(ctx: &Ctx<'_>) -> Deliveries {
        let is_logged = ctx.is_logged();
        Deliveries { is_logged, claims: Vec::new(), new_consumer: None, position: None }
    }

    /// Notes the pending entry with this id, as it is now: to be called while it is there. One that
    /// is no longer in the stream goes from the group when it is claimed.
    pub(super) fn note(&mut self, group: &Group, id: StreamId) {
        if self.is_logged
            && let Some(pending) = group.pending(id)
        {
            let name = group.consumer(pending.owner).name().into();
            self.claims.push((id, name, pending, group.last_id));
        }
    }

    /// The group has come so far.
    pub(super) fn note_position(&mut self, group: &Group) {
        if self.is_logged {
            self.position = Some((group.last_id, group.entries_read));
        }
    }

    /// The consumer of this name was made.
    pub(super) fn note_consumer(&mut self, name: &[u8]) {
        if self.is_logged {
            self.new_consumer = Some(name.into());
        }
    }

    /// Whether any entry was noted.
    pub(super) fn has_claims(&self) -> bool {
        !self.claims.is_empty()
    }

    /// Logs it all, for the group of that name of the stream at `key`.
    pub(super) fn log(mut self, ctx: &mut Ctx<'_>, key: &Key<'_>, group: &[u8]) {
        if !self.is_logged {
            return;
        }
        // Not the words of the client, were it that there is nothing to say.
        ctx.db.log_nothing();
        self.claims.sort_by_key(|(id, ..)| *id);
        // A claim makes its consumer.
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
