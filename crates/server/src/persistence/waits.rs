//! Writes that wait for a snapshot at its memory limit.
//!
//! Near `snapshot-memory-limit` a snapshot is full ([`weft_keyspace::snapshot`]). A command that would make
//! it hold more is then held back before it takes shards, as by CLIENT PAUSE: its client waits, and others
//! go on. The walkers say when there is room, and the first thread looks at each tick.
//!
//! A command waits for `snapshot-max-write-delay` at most. Then it goes on and the snapshot's limit is
//! raised. What can't wait goes on at once: expiry and eviction, a client that is served, a command that
//! had begun, FLUSHALL and whatever else names no keys.

use crate::dispatch::table::{Cmd, Run};
use crate::dispatch::{Core, request::Request};
use crate::io::{Message, Session};
use crate::server::{Server, attention};
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use weft_base::num::parse_i64;
use weft_commands::spec::Lock;
use weft_keyspace::snapshot::Snapshot;
use weft_process::{log_notice, log_warning};

/// What INFO tells of waits, and who takes part.
#[derive(Debug, Default)]
pub struct Waits {
    state: Mutex<State>,
    /// Clients that wait now; changed with the state in hand.
    waiting: AtomicUsize,
    /// Commands that have waited.
    pub delayed: AtomicU64,
    /// Of these, how many went on since their time was over.
    pub expired: AtomicU64,
    /// Milliseconds of the longest wait.
    pub longest_ms: AtomicU64,
    /// DEBUG PAUSE-SNAPSHOT: the walkers stand still.
    pub is_paused: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    is_taken: bool,
    /// What was said in the log of the present snapshot.
    told_full: bool,
    told_raised: bool,
}

impl Waits {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Clients that wait now.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

/// A snapshot at whose limit writes wait.
pub struct Taken {
    srv: &'static Server,
    /// Dropped before those who wait look again.
    snapshot: Option<Snapshot<'static>>,
}

impl Taken {
    /// One that has just begun.
    pub fn new(srv: &'static Server, snapshot: Snapshot<'static>) -> Taken {
        let mut state = srv.persistence.waits.state();
        *state = State { is_taken: true, ..State::default() };
        srv.set_attention(attention::SNAPSHOT, true);
        Taken { srv, snapshot: Some(snapshot) }
    }
}

impl Deref for Taken {
    type Target = Snapshot<'static>;

    fn deref(&self) -> &Snapshot<'static> {
        self.snapshot.as_ref().expect("it is there until this is dropped")
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let srv = self.srv;
        let waits = &srv.persistence.waits;
        let mut state = waits.state();
        state.is_taken = false;
        srv.set_attention(attention::SNAPSHOT, waits.waiting() > 0);
        drop(state);
        // Not before: with its place free, the next one may begin and note that it is taken.
        self.snapshot = None;
        wake(srv);
    }
}

/// Has those who wait look again, if there are such.
pub fn wake(srv: &Server) {
    if srv.persistence.waits.waiting() > 0 {
        srv.broadcast(|| Message::Unpause);
    }
}

/// Whether writes wait for the snapshot that is being taken.
pub fn is_waited_for(srv: &Server) -> bool {
    srv.persistence.waits.waiting() > 0
}

/// Has those who wait look again if the snapshot has room. For walkers, often. Some loads.
pub fn look(srv: &Server) {
    if srv.ks.is_snapshot_relieved() {
        wake(srv);
    }
}

/// Stands still while DEBUG PAUSE-SNAPSHOT says so and `goes_on`.
pub fn pause(srv: &Server, goes_on: impl Fn() -> bool) {
    const LOOK: std::time::Duration = std::time::Duration::from_millis(1);
    while srv.persistence.waits.is_paused.load(Ordering::Relaxed) && goes_on() {
        std::thread::sleep(LOOK);
    }
}

/// That a command waits; it does so no longer when this is dropped.
pub struct Wait {
    srv: &'static Server,
    since_ms: i64,
}

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait").field("since_ms", &self.since_ms).finish_non_exhaustive()
    }
}

impl Wait {
    fn new(srv: &'static Server) -> Wait {
        let waits = &srv.persistence.waits;
        let mut state = waits.state();
        waits.waiting.fetch_add(1, Ordering::Relaxed);
        srv.set_attention(attention::SNAPSHOT, true);
        let tells = !std::mem::replace(&mut state.told_full, true);
        drop(state);
        waits.delayed.fetch_add(1, Ordering::Relaxed);
        if tells {
            let progress = srv.ks.snapshot_progress().unwrap_or_default();
            log_notice!(
                "The snapshot holds {} bytes of {}: writes of keys that are not saved yet wait for it",
                progress.kept_bytes,
                progress.limit_bytes
            );
        }
        Wait { srv, since_ms: srv.mono_ms() }
    }

    fn elapsed_ms(&self) -> i64 {
        self.srv.mono_ms().saturating_sub(self.since_ms).max(0)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let waits = &self.srv.persistence.waits;
        waits.longest_ms.fetch_max(self.elapsed_ms() as u64, Ordering::Relaxed);
        let state = waits.state();
        let was_last = waits.waiting.fetch_sub(1, Ordering::Relaxed) == 1;
        if was_last && !state.is_taken {
            self.srv.set_attention(attention::SNAPSHOT, false);
        }
    }
}

/// Whether a command waits that `must`, if there is time left, for whom `wait` is kept.
pub fn waits_on(core: &Core, wait: &mut Option<Wait>, must: bool) -> bool {
    if !must {
        *wait = None;
        return false;
    }
    let patience_ms = core.settings.snapshot_write_delay_ms;
    if wait.get_or_insert_with(|| Wait::new(core.srv)).elapsed_ms() < patience_ms {
        return true;
    }
    *wait = None;
    raise(core.srv);
    false
}

#[cold]
fn raise(srv: &Server) {
    let waits = &srv.persistence.waits;
    waits.expired.fetch_add(1, Ordering::Relaxed);
    srv.ks.raise_snapshot_limit();
    if !std::mem::replace(&mut waits.state().told_raised, true) {
        log_warning!(
            "A write has waited for the snapshot for as long as snapshot-max-write-delay says: it goes \
             on, and the snapshot takes more memory than snapshot-memory-limit"
        );
    }
    wake(srv);
}

/// Whether a command that is about to take its shards must wait, as it would make the snapshot hold more.
#[cold]
pub fn holds_back(
    core: &Core,
    session: &mut Session,
    request: &Request<'_>,
    cmd: &'static Cmd,
) -> bool {
    let is_exec = matches!(cmd.run, Run::Exec);
    // Who is served has waited, and those behind it wait for it.
    if request.retry.is_some() || session.transaction.is_some() && !is_exec {
        return false;
    }
    let must = core.srv.ks.is_snapshot_full()
        && match (&session.transaction, is_exec) {
            (Some(transaction), true) => {
                let mut db = session.db;
                transaction.queue.iter().any(|queued| {
                    let args: Vec<&[u8]> = queued.args.iter().map(|arg| arg.bytes()).collect();
                    if queued.cmd.spec.name == "select" {
                        db = selected(core.srv, &args).unwrap_or(db);
                    }
                    must_wait(core.srv, db, queued.cmd, &args)
                })
            }
            _ => must_wait(core.srv, session.db, cmd, request.args),
        };
    waits_on(core, &mut session.snapshot_wait, must)
}

fn selected(srv: &Server, args: &[&[u8]]) -> Option<usize> {
    let db = usize::try_from(parse_i64(args.get(1)?)?).ok()?;
    (db < srv.ks.databases()).then_some(db)
}

/// Whether one of the keys that the command may change must wait.
pub fn must_wait(srv: &Server, db: usize, cmd: &Cmd, args: &[&[u8]]) -> bool {
    let Run::Data { lock, .. } = cmd.run else { return false };
    if !cmd.spec.flags.has(weft_commands::Flags::WRITE) {
        return false;
    }
    let ks = &srv.ks;
    let waits =
        |at: usize| args.get(at).is_some_and(|key| ks.must_wait_for_snapshot(db, &ks.key(key)));
    let mut must = false;
    for spec in cmd.spec.keys.iter().filter(|spec| !spec.flags.contains(&"RO")) {
        let _ = spec.positions(args, |at| must = must || waits(at));
    }
    if let Lock::Named(keys) = lock {
        must = must || keys(args).is_some_and(|all| all.into_iter().any(waits));
    }
    must
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use weft_config::Config;
    use weft_keyspace::Turn;

    /// While a snapshot is marked as taken no other one begins: its mark would end with that of the one before.
    #[test]
    fn taken_snapshot_keeps_its_mark_when_the_one_before_ends() {
        const ROUNDS: usize = 5000;
        let srv = Server::new(Config::default(), String::new());
        let waits = &srv.persistence.waits;
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut hand, mut turn) = (srv.hand(), Turn::new(0, 0));
                for _ in 0..ROUNDS {
                    let begun = Snapshot::begin(&mut hand, &mut turn, 0, |_| ());
                    let Ok((snapshot, ())) = begun else { break };
                    drop(Taken::new(srv, snapshot));
                }
                is_over.store(true, Ordering::Relaxed);
            });
            let (mut hand, mut turn) = (srv.hand(), Turn::new(0, 0));
            while !is_over.load(Ordering::Relaxed) {
                let state = waits.state();
                for _ in 0..if state.is_taken { 100 } else { 0 } {
                    let next = Snapshot::begin(&mut hand, &mut turn, 0, |_| ());
                    assert!(next.is_err(), "the next one begins before the mark is gone");
                }
            }
        });
        assert!(!waits.state().is_taken);
    }
}
