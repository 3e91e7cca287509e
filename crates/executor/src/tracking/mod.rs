//! Client-side caching: clients that keep what they read are told when it is no longer so.
//!
//! ```text
//!  GET k by a client that tracks        SET k by anybody
//!  run                                  run
//!  commit: the client is noted as       commit: k is looked up in the table,
//!          a reader of k, in the                its readers are told and forgotten
//!          table of k's shard
//!  release                              release
//! ```
//!
//! Both are done while the shard of the key is held, so a reader that saw the old value is in the table
//! when the value changes. What it is told goes through the mailbox of its thread, and so comes behind
//! the reply of that read.
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
use weft_state::server::Server;
use weft_state::session::Session;
use weft_tracking::message::News;

/// A function that pushes a message to a client.
fn pusher(srv: &Server) -> impl Fn(&Arc<ClientShared>, weft_tracking::message::Message) + '_ {
    |client, message| pubsub::push(srv, client, message)
}

/// What the keyspace tells of, told to clients.
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
            self.0.background.bio.free_later(move || drop(tables));
            tracking.keys.store(0, Ordering::Relaxed);
            tracking.readers.store(0, Ordering::Relaxed);
        }
    }

    fn spread(&self, keys: Vec<Changed>) {
        self.0.clients.tracking.prefixes.spread(&pusher(self.0), &keys);
    }
}

/// Remembers that `reader` has read the keys of a command, as far as `guard` holds their shards
/// (without a guard that would be too late: a fault for tests);
/// whether there were any. What was changed before must have been told of. Expected O(keys).
#[cold]
pub fn remember(
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

/// What CLIENT TRACKING ON asks for.
pub struct Wishes<'a> {
    /// With [`Mode::ON`].
    pub mode: Mode,
    pub redirect: Option<Arc<ClientShared>>,
    pub prefixes: Vec<&'a [u8]>,
}

/// Has the session's client be told from now on.
pub fn enable(srv: &Server, session: &mut Session, wishes: &Wishes<'_>) {
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

/// Has the thread of a client know that there will be pushes for it.
fn announce(srv: &Server, client: &Arc<ClientShared>) {
    client.pushes.is_redirected_to.store(true, Ordering::Relaxed);
    let mut route = client.route();
    route.was_pushed_to = true;
    let mailbox = &srv.threads[client.thread()].mailbox;
    mailbox.put(weft_state::mailbox::Message::PushedTo { client: client.id });
    drop(route);
    mailbox.ring();
}

/// The session's client is told no more.
pub fn disable(srv: &Server, session: &mut Session) {
    leave(srv, &session.shared);
    session.pushes.tracks = None;
    // What was put into the mailbox before is for it all the same.
    session.pushes.is_pushed_to = session.shared.pushes.is_redirected_to.load(Ordering::Relaxed);
}

/// The client is told no more. What it has read is forgotten when it changes.
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

/// Takes the client out of the list of all prefixes. O(its prefixes).
pub fn leave_prefixes(srv: &Server, tracker: &Tracker) {
    srv.clients.tracking.prefixes.leave(tracker, |any| srv.ks.set_followed_by_prefix(any));
}

/// As [`leave`], of a client that is gone. Where it has followed very many prefixes, they are left in the background.
pub fn leave_for_good(srv: &'static Server, client: &ClientShared) {
    if let Some(tracker) = client.tracker() {
        switch_off(srv, &tracker);
        tracker.mourn();
        srv.background.bio.release(tracker.prefix_count(), move || leave_prefixes(srv, &tracker));
    }
}
