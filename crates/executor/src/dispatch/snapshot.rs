//! Writes that wait for a snapshot at its memory limit: see [`crate::snapshot_waits`].

use crate::dispatch::core::Core;
use crate::dispatch::request::Request;
use crate::snapshot_waits::wake;
use std::sync::atomic::Ordering;
use weft_base::num::parse_i64;
use weft_command_spec::{CommandRole, Flags};
use weft_commands::Lock;
use weft_process::{log_notice, log_warning};
use weft_state::command_table::{Cmd, Run};
use weft_state::server::Server;
use weft_state::session::Session;
use weft_state::snapshot_waits::Wait;

/// Begins a wait, and logs the first one for each snapshot.
fn begin(srv: &'static Server) -> Wait {
    let (wait, is_first) = Wait::begin(&srv.persistence.waits, &srv.attention);
    if is_first {
        let progress = srv.ks.snapshot_progress().unwrap_or_default();
        log_notice!(
            "The snapshot holds {} of {} bytes: writes to keys that are not saved yet wait for it",
            progress.kept_bytes,
            progress.limit_bytes
        );
    }
    wait
}

/// Whether a command waits for the snapshot. `must`: it has to, unless it has waited for
/// `snapshot-max-write-delay` already. `wait` is its wait so far.
pub fn waits_on(core: &Core, wait: &mut Option<Wait>, must: bool) -> bool {
    if !must {
        *wait = None;
        return false;
    }
    let patience_ms = core.settings.persistence.snapshot_write_delay_ms;
    if wait.get_or_insert_with(|| begin(core.srv)).elapsed_ms() < patience_ms {
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
    if !std::mem::replace(&mut waits.state().logged_raised, true) {
        log_warning!(
            "A write has waited for the snapshot for snapshot-max-write-delay: it runs now, and \
             the snapshot may use more memory than snapshot-memory-limit"
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
    // A retry must not wait again: the clients after it in the wait queue would have to wait, too.
    if request.attempt.retry.is_some() || session.transaction.is_some() && !is_exec {
        return false;
    }
    let must = core.srv.ks.is_snapshot_full()
        && match (&session.transaction, is_exec) {
            (Some(transaction), true) => {
                let mut db = session.db;
                transaction.queue.iter().any(|queued| {
                    let args: Vec<&[u8]> = queued.args.iter().map(|arg| arg.bytes()).collect();
                    if queued.cmd.spec.special.role == CommandRole::Select {
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
    if !cmd.spec.flags.has(Flags::WRITE) {
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
