//! A rewrite: writes a snapshot while the log continues in a new file, then replaces all files from
//! before its cut.
//!
//! ```text
//!  weft-aof-rewrite   cut ──────────► walk ─► base ─► synced ─┐
//!  weft-aof           ... n │ new file: n + 1 ...             └─► manifest ─► old files go
//! ```
//!
//! The number of the cut is stored while the world is stopped, so the writing thread knows the file
//! of each unit. There is no second buffer, and nothing to catch up with.

use crate::aof::aof;
pub use crate::aof::lifecycle::Refusal;
use crate::aof::lifecycle::{Outcome, Requested};
use crate::aof::order::{At, Base, Order};
use crate::aof::{base, directory};
use crate::persistence::save::{HALF, Plan};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_executor::script::functions::Libraries;
use weft_executor::snapshot_waits::Taken;
use weft_keyspace::snapshot::{BeginError, Snapshot};
use weft_keyspace::{ExecContext, Import, Stop};
use weft_persist::aof::{Appender, Directory};
use weft_process::{log_notice, log_warning};
use weft_state::saves::Running;
use weft_state::server::Server;

/// The polling interval for the end of another snapshot.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How a rewrite has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    Started,
    /// It waits for a running snapshot.
    Scheduled,
}

/// Starts a rewrite on a separate thread. `later`: the caller is in a transaction, so the snapshot
/// must wait for its end.
///
/// # Errors
/// See [`Refusal`].
pub fn begin(srv: &'static Server, later: bool) -> Result<Begun, Refusal> {
    // Saves take the same lock before they begin, so a rewrite and a save see each other.
    let saves = srv.persistence.saves();
    let waits = later || saves.running().is_some();
    let mut lifecycle = aof(srv).lifecycle();
    // The last save announces itself before it checks for a rewrite. Read it under the lock of that
    // check.
    let requested = lifecycle.request(waits, srv.persistence.is_ending())?;
    drop((lifecycle, saves));
    let (cancel, waits) = match requested {
        Requested::New { cancel, is_scheduled } => (cancel, is_scheduled),
        Requested::Served => return Ok(Begun::Scheduled),
    };
    let thread = std::thread::Builder::new().name("weft-aof-rewrite".into());
    if let Err(e) = thread.spawn(move || run(srv, cancel)) {
        log_warning!("Can't rewrite append only file in background: {e}");
        aof(srv).lifecycle().not_started();
        return Err(Refusal::Failed);
    }
    Ok(if waits { Begun::Scheduled } else { Begun::Started })
}

fn run(srv: &'static Server, cancel: Arc<AtomicBool>) {
    weft_memory::count_whole_thread(&srv.memory);
    let _stack = weft_process::crash::second_stack();
    weft_scheduler::placement::bind_to(&srv.placement().rewrite);
    let running = Running::new(true, cancel);
    let came = rewrite(srv, &running);
    let was_given_up = running.cancel.load(Ordering::Relaxed);
    let outcome = match &came {
        Ok(()) => Outcome::Succeeded,
        Err(_) if was_given_up => Outcome::Cancelled,
        Err(_) => Outcome::Failed,
    };
    aof(srv).lifecycle().conclude(outcome, running.since.elapsed().as_secs() as i64);
    match came {
        Ok(()) => log_notice!("Background AOF rewrite finished successfully"),
        Err(e) if was_given_up => log_warning!("Background AOF rewrite was cancelled: {e}"),
        Err(e) => {
            log_warning!("Background AOF rewrite terminated with error: {e}");
            // The failure is counted before the next rewrite may begin.
            aof(srv).ask(Order::Failed);
        }
    }
    aof(srv).lifecycle().over();
    // The next rewrite or a paused sync may be due.
    aof(srv).order(Order::Look);
}

fn rewrite(srv: &'static Server, running: &Running) -> Result<(), String> {
    let plan = Plan::on(srv, true, srv.placement().rewrite.clone()).map_err(|e| base::told(&e))?;
    let (snapshot, cut, functions) = cut(srv, running, &plan)?;
    // Not earlier: while the world is stopped, every thread waits for this one.
    weft_scheduler::yielding::lower_priority();
    let dir = directory(srv);
    // If the log is off, the files may not be locked yet: CONFIG SET dir may have changed the
    // folder.
    aof(srv).locks.lock(&dir)?;
    let At::Log(cut) = cut else {
        let made = base::write(srv, &dir, &plan, (&snapshot, &functions), running)?;
        return put_alone(srv, &dir, &made, cut, running);
    };
    let over = || {
        running.cancel.store(true, Ordering::Relaxed);
        "the append-only file was turned off".to_string()
    };
    // The log may have begun just now, and its writing thread is about to start.
    while aof(srv).lifecycle().is_opening(cut.log) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let rotated = aof(srv).ask(|done| Order::Rotate { cut, done }).ok_or_else(over)?;
    let base =
        rotated.and_then(|()| base::write(srv, &dir, &plan, (&snapshot, &functions), running));
    aof(srv).status.last_kept.store(snapshot.progress().peak_bytes as u64, Ordering::Relaxed);
    drop(snapshot);
    let (failed, name) = match &base {
        Ok(made) => (None, Some(made.name.clone())),
        Err(e) => (Some(e.clone()), None),
    };
    let Some(came) = aof(srv).ask(|done| Order::Rebase { cut, base, done }) else {
        // No writing thread is left to add the base to the manifest.
        name.inspect(|name| drop(dir.storage.remove(&dir.path(name))));
        return Err(over());
    };
    failed.map_or(came, Err)
}

/// Puts a base into force while the log is off. Fails if a log has begun meanwhile: that log has
/// read the manifest already, and may have ended since.
fn put_alone(
    srv: &Server,
    dir: &Directory,
    made: &Base,
    at: At,
    running: &Running,
) -> Result<(), String> {
    let _switch = aof(srv).switch();
    if !aof(srv).lifecycle().is_still_after(at) {
        let _ = dir.storage.remove(&dir.path(&made.name));
        running.cancel.store(true, Ordering::Relaxed);
        return Err("the append-only file was turned on".into());
    }
    Appender::put_base_alone(dir, &made.name, made.snapshot).map_err(|e| base::told(&e))
}

/// Takes the snapshot once no other is running. Returns it with its position and the functions of its moment.
fn cut(
    srv: &'static Server,
    running: &Running,
    plan: &Plan,
) -> Result<(Taken, At, Arc<Libraries>), String> {
    let mut hand = srv.hand();
    let mut context = ExecContext::new(srv.now_ms(), 0);
    context.cancel = Some(running.cancel.clone());
    // Write expired keys as well: neither replicas nor the log have been notified of their expiry.
    context.set_import(Import::Source);
    let note = |_: &Stop<'_>| {
        if srv.persistence.loading.is_on() {
            return None;
        }
        // Read it during the cut: before that, the log may begin or end.
        let functions = srv.scripts.functions.current();
        let unit = srv.ks.log().last();
        let at = aof(srv).lifecycle().cut(unit, srv.now_ms() / 1000);
        if let At::Log(_) = at {
            aof(srv).progress.cut.store(unit, Ordering::Relaxed);
        }
        Some((at, functions))
    };
    loop {
        match Snapshot::begin(&mut hand, &mut context, plan.limit, note) {
            Ok((_, None)) => {
                aof(srv).lifecycle().set_scheduled(false);
                return Err(HALF.into());
            }
            Ok((snapshot, Some((cut, functions)))) => {
                aof(srv).status.rewrites.fetch_add(1, Ordering::Relaxed);
                log_notice!("Background append only file rewriting started");
                return Ok((Taken::new(srv, snapshot), cut, functions));
            }
            Err(BeginError::Taken) if !running.cancel.load(Ordering::Relaxed) => {
                aof(srv).lifecycle().set_scheduled(true);
                std::thread::sleep(LOOK_AGAIN);
            }
            Err(e) => {
                aof(srv).lifecycle().set_scheduled(false);
                return Err(e.to_string());
            }
        }
    }
}
