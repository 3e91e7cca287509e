//! Saves in the background, and SAVE, for which a client waits.

use crate::aof::aof;
use crate::persistence::save;
use crate::persistence::save::{Asked, Failed, Plan};
use std::sync::atomic::Ordering;
use std::time::Duration;
use weft_process::{log_notice, log_warning};
use weft_state::saves::Own;
use weft_state::server::Server;

/// The polling interval for the end of a rewrite.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The reason why a save did not begin or did not succeed.
#[derive(Debug)]
pub enum Refused {
    /// Another save is running.
    Busy,
    /// An AOF rewrite is running, and there is one snapshot at a time.
    Rewriting,
    Failed(Failed),
}

/// Starts a save in the background. When this returns, the snapshot has been taken.
///
/// # Errors
/// A save is already running, or this one can't begin.
pub fn begin(srv: &'static Server, asked: Asked) -> Result<(), Refused> {
    let own = srv.persistence.begin(true).ok_or(Refused::Busy)?;
    if aof(srv).has_cut() {
        return Err(Refused::Rewriting);
    }
    let mut saves = srv.persistence.saves();
    saves.tried_ms = srv.mono_ms();
    let was_scheduled = std::mem::take(&mut saves.is_scheduled);
    drop(saves);
    let plan = Plan::new(srv, true).map_err(Failed::Disk);
    let begun = match plan.and_then(|plan| save::begin(srv, &own.running, plan, asked)) {
        Ok(begun) => begun,
        Err(Failed::Taken) => {
            srv.persistence.saves().is_scheduled |= was_scheduled;
            return Err(Refused::Rewriting);
        }
        Err(failed) => {
            conclude(srv, own, Err(&failed));
            return Err(Refused::Failed(failed));
        }
    };
    log_notice!("Background saving started");
    let thread = std::thread::Builder::new().name("weft-save-0".into());
    let spawned = thread.spawn(move || {
        weft_memory::count_whole_thread(&srv.memory);
        weft_scheduler::yielding::lower_priority();
        let done = begun.finish(srv);
        conclude(srv, own, done.as_ref().copied());
    });
    spawned.map(|_| ()).map_err(|e| {
        let failed = Failed::Disk(e);
        log_warning!("Can't save in background: {failed}");
        srv.persistence.saves().is_last_ok = false;
        srv.renew_unsaved();
        Refused::Failed(failed)
    })
}

/// Logs and records the result of a save in the background.
fn conclude(srv: &Server, own: Own<'_>, done: Result<(), &Failed>) {
    match done {
        Ok(()) => log_notice!("Background saving terminated with success"),
        Err(Failed::Cancelled) => log_warning!("Background saving cancelled"),
        Err(failed) => log_warning!("Background saving error: {failed}"),
    }
    let mut saves = srv.persistence.saves();
    saves.last_seconds = own.running.since.elapsed().as_secs() as i64;
    match done {
        Ok(()) => saves.is_last_ok = true,
        Err(Failed::Cancelled | Failed::Taken | Failed::BusyScript) => {}
        Err(Failed::Disk(_) | Failed::Snapshot(_)) => saves.is_last_ok = false,
    }
    drop(saves);
    // Record the result before the save counts as ended.
    drop(own);
    srv.renew_unsaved();
}

/// Saves, and returns when that is done. `quiet`: the server serves clients meanwhile.
///
/// # Errors
/// A save is already running, or this one failed.
pub fn save_now(srv: &'static Server, quiet: bool, asked: Asked) -> Result<(), Refused> {
    if quiet && srv.persistence.is_ending() {
        return Err(Refused::Busy);
    }
    let own = srv.persistence.begin(false).ok_or(Refused::Busy)?;
    let begin = || {
        let plan = Plan::new(srv, quiet)?;
        save::begin(srv, &own.running, plan, asked)
    };
    let mut begun = begin();
    // The client of SAVE waits for the end of a rewrite, too.
    while let Err(Failed::Taken) = begun {
        std::thread::sleep(LOOK_AGAIN);
        begun = begin();
    }
    let done = begun.and_then(|begun| begun.finish(srv));
    if let Err(failed) = &done {
        log_warning!("Error while saving the DB: {failed}");
    } else {
        srv.persistence.saves().is_last_ok = true;
    }
    drop(own);
    srv.renew_unsaved();
    done.map_err(Refused::Failed)
}

/// Cancels the last save before the end of the server, if it has begun.
pub fn cancel_last(srv: &Server) {
    let saves = srv.persistence.saves();
    if let Some(running) = saves.running().filter(|running| !running.in_background) {
        running.cancel.store(true, Ordering::Relaxed);
    }
}
