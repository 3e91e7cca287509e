//! Client-side caching: clients that cache values get an invalidation when a value changes.
//!
//! ```text
//!  GET k by a client that tracks        SET k by any client
//!  run                                  run
//!  commit: records the client as a      commit: removes the readers of k from
//!          reader of k, in the table            the table, and sends them
//!          of k's shard                         invalidations
//!  release                              release
//! ```
//!
//! Both hold the shard of the key, so a reader of the old value is in the table when the value changes. The
//! invalidation goes through the mailbox of the reader's thread, and so follows the reply of that read.
//!
//! * crate `weft-tracking` - tables, prefixes, trackers and messages
//! * [`limit`](self::limit) - `tracking-table-max-keys`
//!
//! See `docs/design/tracking.md`.

mod limit;
pub use limit::{enforce, is_over, shrink};
pub use weft_tracking::tracker::Mode;

use crate::pubsub;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_keyspace::invalidation::{Caches, Changed};
use weft_keyspace::{Guard, SHARDS};
use weft_state::clients::{ClientShared, Own, Table, Tracker};
use weft_state::command_table::Cmd;
use weft_state::mailbox::Message;
use weft_state::push::PushMessage;
use weft_state::server::Server;
use weft_state::session::Session;
use weft_tracking::message::News;

/// A function that pushes a message to a client.
fn pusher(srv: &Server) -> impl Fn(&Arc<ClientShared>, weft_tracking::message::Message) + '_ {
    |client, message| pubsub::push(srv, client, message)
}

/// Sends invalidations to clients for the keyspace.
pub struct Told(pub &'static Server);

impl Caches for Told {
    fn invalidate(&self, shard: u16, key: &[u8], by: u64) -> bool {
        let tracking = &self.0.clients.tracking;
        let mut table = tracking.table(shard);
        let readers = table.take(key);
        let are_left = !table.is_empty();
        drop(table);
        if let Some(readers) = readers {
            tracking.forgot(&readers);
            let news = News::of([key].into_iter());
            readers.iter().for_each(|reader| reader.notify_of_key(&pusher(self.0), &news, by));
        }
        are_left
    }

    fn emptied(&self) {
        let tracking = &self.0.clients.tracking;
        if tracking.clients() > 0 {
            for client in self.0.clients.registry.all() {
                if let Some(tracker) = client.tracker().filter(|t| t.mode().has(Mode::ON)) {
                    tracker.tell(&pusher(self.0), &News::All);
                }
            }
        }
        if tracking.keys() > 0 {
            let all = (0..SHARDS as u16).map(|shard| std::mem::take(&mut *tracking.table(shard)));
            let tables: Vec<Table> = all.filter(|table| !table.is_empty()).collect();
            self.0.process.background.bio.free_in_background(move || drop(tables));
            tracking.keys.store(0, Ordering::Relaxed);
            tracking.readers.store(0, Ordering::Relaxed);
        }
    }

    fn spread(&self, keys: Vec<Changed>) {
        self.0.clients.tracking.prefixes.spread(&pusher(self.0), &keys);
    }
}

/// Records `reader` as a reader of the keys of a command in the shards that `guard` holds. Returns whether the command
/// has keys. The invalidations of earlier changes must have been sent. Expected O(keys).
///
/// `guard` is `None` only in a fault for tests, which records the reader too late.
#[cold]
pub fn record_reader(
    srv: &Server,
    guard: Option<&Guard<'_>>,
    reader: &Arc<Tracker>,
    cmd: &Cmd,
    args: &[&[u8]],
) -> bool {
    let mut at: SmallVec<[usize; 8]> = SmallVec::new();
    if cmd.spec.key_positions(args, |i| at.push(i)).is_none() {
        return false;
    }
    let tracking = &srv.clients.tracking;
    for key in at.iter().map(|i| args[*i]) {
        let shard = srv.ks.shard(key);
        if guard.is_some_and(|guard| !guard.holds(shard)) {
            continue;
        }
        let mut table = tracking.table(shard);
        let was_empty = table.is_empty();
        let added = table.add(key, reader);
        tracking.keys.fetch_add(added.keys, Ordering::Relaxed);
        tracking.readers.fetch_add(added.readers, Ordering::Relaxed);
        tracking.readers.fetch_sub(added.dead, Ordering::Relaxed);
        if was_empty {
            srv.ks.set_read(shard, true);
        }
    }
    !at.is_empty()
}

/// The options of CLIENT TRACKING ON.
pub struct TrackingOptions<'a> {
    /// With [`Mode::ON`].
    pub mode: Mode,
    pub redirect: Option<Arc<ClientShared>>,
    pub prefixes: Vec<&'a [u8]>,
}

/// Turns tracking on for the session's client.
pub fn enable(srv: &Server, session: &mut Session, wishes: &TrackingOptions<'_>) {
    let tracker = session.shared.make_tracker();
    if !tracker.set(wishes.mode, wishes.redirect.as_ref()).has(Mode::ON) {
        srv.clients.tracking.clients.fetch_add(1, Ordering::Relaxed);
    }
    if wishes.mode.has(Mode::BCAST) {
        let prefixes: &[&[u8]] = if wishes.prefixes.is_empty() { &[b""] } else { &wishes.prefixes };
        let changed = |any| srv.ks.set_followed_by_prefix(any);
        srv.clients.tracking.prefixes.follow(&tracker, prefixes, changed);
    }
    if let Some(to) = &wishes.redirect {
        announce(srv, to);
    }
    (session.pushes.is_pushed_to, session.pushes.listens) = (true, true);
    match &mut session.pushes.tracks {
        Some(own) => own.tracker = tracker,
        none => *none = Some(Own::new(tracker)),
    }
}

/// Notifies a client's thread that the client will get pushes.
fn announce(srv: &Server, client: &Arc<ClientShared>) {
    client.pushes.is_redirected_to.store(true, Ordering::Relaxed);
    let mut route = client.route();
    route.was_pushed_to = true;
    let mailbox = &srv.threads[client.thread()].mailbox;
    mailbox.put(Message::Push(PushMessage::Expected { client: client.id }));
    drop(route);
    mailbox.ring();
}

/// Turns tracking off for the session's client.
pub fn disable(srv: &Server, session: &mut Session) {
    leave(srv, &session.shared);
    session.pushes.tracks = None;
    // The client still gets the invalidations that are in the mailbox already.
    session.pushes.is_pushed_to = session.shared.pushes.is_redirected_to.load(Ordering::Relaxed);
}

/// Turns tracking off for a client. Its entries in the tables stay until their keys change.
fn leave(srv: &Server, client: &ClientShared) {
    if let Some(tracker) = client.tracker() {
        switch_off(srv, &tracker);
        leave_prefixes(srv, &tracker);
    }
}

fn switch_off(srv: &Server, tracker: &Tracker) {
    if tracker.set(Mode::OFF, None).has(Mode::ON) {
        srv.clients.tracking.clients.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Removes the client from the lists of its prefixes. O(its prefixes).
pub fn leave_prefixes(srv: &Server, tracker: &Tracker) {
    srv.clients.tracking.prefixes.leave(tracker, |any| srv.ks.set_followed_by_prefix(any));
}

/// As [`leave`], for a client that has disconnected. Very many prefixes are left in the background.
pub fn leave_for_good(srv: &'static Server, client: &ClientShared) {
    if let Some(tracker) = client.tracker() {
        switch_off(srv, &tracker);
        tracker.mourn();
        srv.process
            .background
            .bio
            .release(tracker.prefix_count(), move || leave_prefixes(srv, &tracker));
    }
}
