//! The last save: it must contain all acknowledged writes.
//!
//! First, the progress callback pauses writes, and long writes that had begun are waited for. Then
//! the keyspace no longer changes, and is saved as usual.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weft_config::Id;
use weft_durability::aof::aof;
use weft_durability::persistence::background;
use weft_durability::persistence::background::Refused;
use weft_durability::persistence::save::Asked;
use weft_keyspace::ExecContext;
use weft_process::{log_notice, log_warning};
use weft_replication_driver::hub;
use weft_state::saves::Cancelled;
use weft_state::server::Server;
use weft_state::stop_state::{Phase, Stop};

/// Whether the shutdown needs [`prepare`], which may take a while.
pub fn has_to_wait(stop: Stop, srv: &Server) -> bool {
    let waits = !stop.now && hub(srv).lock().node.primary().has_replicas();
    waits || saves(stop, srv) || aof(srv).waits_for_base()
}

/// Whether to save the data.
pub fn saves(stop: Stop, srv: &Server) -> bool {
    // Data that is not loaded yet is still in the file.
    !srv.persistence.loading.is_on()
        && stop.save.unwrap_or_else(|| {
            !srv.settings().persistence.save_points.is_empty() && !keeps_file(srv)
        })
}

/// Questions that the preparation asks its caller.
#[derive(Clone, Copy)]
pub struct Questions<'a> {
    /// Called now and then with the progress. Returns whether to continue.
    pub goes_on: &'a dyn Fn(Phase) -> bool,
    /// Whether to ask [`Questions::outlasts`] before a wait. Called under locks of the keyspace.
    pub is_held_up: &'a dyn Fn() -> bool,
    /// A busy script holds the preparation up. Returns whether to wait for it.
    pub outlasts: &'a dyn Fn() -> bool,
}

/// Whether to leave the file as it is, because it has more data than the keyspace.
fn keeps_file(srv: &Server) -> bool {
    let keeps = srv.is_file_better();
    if keeps {
        log_notice!(
            "The data was dropped for a full sync that has not arrived: the RDB file is left as \
             it is."
        );
    }
    keeps
}

/// Saves if configured, and returns whether the server may end now. I/O threads and threads that
/// hold shards must not call this: the save or the rewrite that it waits for may be about to stop
/// the world.
pub fn prepare(srv: &'static Server, stop: Stop, ask: Questions<'_>) -> bool {
    if !stop.force && !has_base(srv, ask.goes_on) {
        return false;
    }
    if !stop.now && !wait_for_replicas(srv, stop, ask) {
        return false;
    }
    if !saves(stop, srv) {
        return true;
    }
    let is_ending = &srv.persistence.is_ending;
    if is_ending.swap(true, Ordering::SeqCst) {
        log_warning!("The data is being saved before the exit already.");
        return false;
    }
    let saved = (ask.goes_on)(Phase::Saving) && save(srv, stop, ask);
    if !saved {
        is_ending.store(false, Ordering::SeqCst);
    }
    saved
}

/// Performs the last save. Returns whether the server may end now.
fn save(srv: &'static Server, stop: Stop, ask: Questions<'_>) -> bool {
    let goes_on = ask.goes_on;
    break_off(srv);
    if !wait_for_writes(srv, stop, ask) || !goes_on(Phase::Saving) {
        return false;
    }
    log_notice!("Saving the final RDB snapshot before exiting.");
    let asked = if stop.save == Some(true) { Asked::ByClient } else { Asked::ByNobody };
    let Err(refused) = background::save_now(srv, false, asked) else { return true };
    if !goes_on(Phase::Saving) {
        return false;
    }
    if stop.force {
        log_warning!("Error trying to save the DB. Exiting anyway.");
        return true;
    }
    log_warning!("Error trying to save the DB, can't exit.");
    if let Refused::Busy = refused {
        log_warning!("Another save is running.");
    }
    false
}

/// Waits for the first base of an append-only file that was switched on. Without it, the next start
/// finds the old files or none, and ignores the snapshot. Returns whether the base exists.
fn has_base(srv: &Server, goes_on: &dyn Fn(Phase) -> bool) -> bool {
    let waits = || aof(srv).waits_for_base();
    if waits() {
        log_notice!("Writing the initial AOF before the exit.");
    }
    while waits() {
        if aof(srv).has_rewrite_failed() {
            log_warning!("Writing initial AOF. Can't exit.");
            return false;
        }
        if !goes_on(Phase::Log) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Cancels the save in the background and the AOF rewrite, and waits for their end. They would only
/// delay the exit, since the existing files have all data. I/O threads must not call this: both may
/// be about to stop them.
fn break_off(srv: &Server) {
    if aof(srv).has_cut() {
        log_warning!("An append-only file rewrite is running. Cancelling it.");
    }
    aof(srv).cancel_rewrite();
    if srv.cancel_save() == Cancelled::Running {
        log_warning!("A background save is running. Cancelling it.");
    }
    if aof(srv).is_rewriting() {
        log_warning!("The append-only file is being rewritten. Cancelling that.");
    }
    while is_at_work(srv) {
        // A rewrite that has just begun may not have published its cancel flag yet.
        aof(srv).cancel_rewrite();
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether any thread writes data to a file, even for a client that waits.
fn is_at_work(srv: &Server) -> bool {
    srv.persistence.saves().running().is_some() || aof(srv).is_rewriting()
}

/// Cancels background writes after the last command, and waits until they have removed their
/// temporary files. Does not wait for a disk that hangs.
pub fn finish(srv: &Server) {
    const PATIENCE: Duration = Duration::from_secs(2);
    srv.persistence.is_ending.store(true, Ordering::SeqCst);
    srv.cancel_save();
    let began = Instant::now();
    while is_at_work(srv) && began.elapsed() < PATIENCE {
        aof(srv).cancel_rewrite();
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until replicas have all writes, for `shutdown-timeout` at most. Returns whether to
/// continue.
fn wait_for_replicas(srv: &'static Server, stop: Stop, ask: Questions<'_>) -> bool {
    const LOOK: Duration = Duration::from_millis(5);
    let timeout_s = srv.config().int(Id::SHUTDOWN_TIMEOUT).max(0);
    let hub = hub(srv);
    if timeout_s == 0
        || srv.nodes.replication.is_replica()
        || !hub.lock().node.primary().has_replicas()
    {
        return true;
    }
    let until_ms = srv.mono_ms().saturating_add(timeout_s.saturating_mul(1000));
    let (goes_on, phase) = (ask.goes_on, Phase::Replicas { until_ms });
    if !goes_on(phase) || !wait_for_writes(srv, stop, ask) {
        return false;
    }
    drop(hub.up_to_date(srv));
    // The request for acknowledgements is part of the stream that they must have.
    hub.step(srv, |node, now, out| node.request_acks(now, out));
    let end = hub.lock().node.stream().offset();
    // The number of replicas that have it, and of all replicas.
    let count = || {
        let state = hub.lock();
        let primary = state.node.primary();
        (primary.acked(end), primary.views(0, end).iter().filter(|view| view.is_online).count())
    };
    let (mut have, mut all) = count();
    if have < all {
        log_notice!("Waiting for replicas before shutting down.");
    }
    while have < all && srv.mono_ms() < until_ms {
        if !goes_on(phase) {
            return false;
        }
        std::thread::sleep(LOOK);
        (have, all) = count();
    }
    if have < all {
        log_warning!("{} of {all} replicas lag behind when shutting down.", all - have);
    } else {
        log_notice!("{have} of {all} replicas are in sync when shutting down.");
    }
    goes_on(phase)
}

/// Waits until all commands that had begun before the pause have ended. Returns whether to continue. SHUTDOWN NOSAVE
/// drops what a busy script has written.
fn wait_for_writes(srv: &'static Server, stop: Stop, ask: Questions<'_>) -> bool {
    let drops_writes = stop.save == Some(false);
    let gives_up = || if drops_writes { srv.scripts.busy.is_any() } else { (ask.is_held_up)() };
    let mut context = ExecContext::new(srv.now_ms(), 0);
    let mut hand = srv.hand();
    while hand.world_or_give_up(&mut context, &|_| gives_up()).is_err() {
        if drops_writes {
            return true;
        }
        if !(ask.outlasts)() {
            return false;
        }
    }
    true
}
