//! The last save: nothing that was acknowledged may be missing in it.
//!
//! Writes are paused first, by whoever is told how far this is, and long ones that had begun are waited for.
//! Then the keyspace is what it will be at the end, and is saved as ever.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weft_config::Id;
use weft_durability::aof::aof;
use weft_durability::persistence::background;
use weft_durability::persistence::background::Refused;
use weft_durability::persistence::save::Asked;
use weft_keyspace::Turn;
use weft_process::{log_notice, log_warning};
use weft_replication_driver::hub;
use weft_state::saves::Cancelled;
use weft_state::server::Server;
use weft_state::stop_state::{Phase, Stop};

/// Whether anything has to be done before the end, for which [`prepare`] may take a while.
pub fn has_to_wait(stop: Stop, srv: &Server) -> bool {
    let waits = !stop.now && hub(srv).lock().node.primary().has_replicas();
    waits || saves(stop, srv) || aof(srv).status.waits_for_base.load(Ordering::SeqCst)
}

/// Whether the data is to be saved.
pub fn saves(stop: Stop, srv: &Server) -> bool {
    // What is not loaded yet is in the file still.
    !srv.persistence.loading.is_on()
        && stop.save.unwrap_or_else(|| !srv.settings().save_points.is_empty() && !keeps_file(srv))
}

/// Told now and then how far it is; answers whether to go on.
pub type GoesOn<'a> = &'a dyn Fn(Phase) -> bool;

/// Whether the file is to stay as it is, since it has more than what is here.
fn keeps_file(srv: &Server) -> bool {
    let keeps = srv.is_file_better();
    if keeps {
        log_notice!(
            "The data have gone for a copy of the primary's that has not come: the RDB file is left as \
             it is."
        );
    }
    keeps
}

/// Saves if that is wanted, and says whether the server may end now. Not to be called by an I/O thread, nor by
/// anybody who holds shards: those who are waited for may be about to stop the world.
pub fn prepare(srv: &'static Server, stop: Stop, goes_on: GoesOn<'_>) -> bool {
    if !stop.force && !has_base(srv, goes_on) {
        return false;
    }
    if !stop.now && !wait_for_replicas(srv, goes_on) {
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
    let saved = goes_on(Phase::Saving) && save(srv, stop, goes_on);
    if !saved {
        is_ending.store(false, Ordering::SeqCst);
    }
    saved
}

/// The last save itself; whether the server may end now.
fn save(srv: &'static Server, stop: Stop, goes_on: GoesOn<'_>) -> bool {
    break_off(srv);
    wait_for_writes(srv);
    if !goes_on(Phase::Saving) {
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
        log_warning!("Somebody else is saving.");
    }
    false
}

/// Waits for the first base of an append-only file that was switched on: without it the next start finds
/// the files of before, or none, and does not look at the snapshot. Whether it is there.
fn has_base(srv: &Server, goes_on: GoesOn<'_>) -> bool {
    let status = &aof(srv).status;
    let waits = || status.waits_for_base.load(Ordering::SeqCst);
    if waits() {
        log_notice!("Writing the initial AOF before the exit.");
    }
    while waits() {
        if !aof(srv).is_rewriting() && status.last_rewrite_failed.load(Ordering::SeqCst) {
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

/// Ends the save in the background and the rewrite of the append-only file, which would only be in the
/// way (all that it would write is in the files that are there), and waits for their end. Not to be
/// called by an I/O thread: both may be about to stop those.
fn break_off(srv: &Server) {
    if aof(srv).has_cut() {
        log_warning!("There is an append-only file rewrite. Breaking it off.");
    }
    aof(srv).cancel_rewrite();
    if srv.cancel_save() == Cancelled::Running {
        log_warning!("There is a background save. Breaking it off.");
    }
    if aof(srv).is_rewriting() {
        log_warning!("The append-only file is being rewritten. Breaking that off.");
    }
    while is_at_work(srv) {
        // One that has just begun may not have said yet how it is broken off.
        aof(srv).cancel_rewrite();
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether anybody writes data to a file, be it one that a client waits for.
fn is_at_work(srv: &Server) -> bool {
    srv.persistence.saves().running().is_some() || aof(srv).is_rewriting()
}

/// Nobody executes any more: what is written in the background is given up, and what it has left in
/// folders goes with it. A disk that does not answer is not waited for.
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

/// Waits until replicas have what was written, for `shutdown-timeout` at most; whether to go on.
fn wait_for_replicas(srv: &'static Server, goes_on: GoesOn<'_>) -> bool {
    const LOOK: Duration = Duration::from_millis(5);
    let timeout_s = srv.config().int(Id::SHUTDOWN_TIMEOUT).max(0);
    let hub = hub(srv);
    if timeout_s == 0 || srv.replication.is_replica() || !hub.lock().node.primary().has_replicas() {
        return true;
    }
    let until_ms = srv.mono_ms().saturating_add(timeout_s.saturating_mul(1000));
    let phase = Phase::Replicas { until_ms };
    if !goes_on(phase) {
        return false;
    }
    wait_for_writes(srv);
    drop(hub.up_to_date(srv));
    // What asks them counts, too.
    hub.step(srv, |node, now, out| node.request_acks(now, out));
    let end = hub.lock().node.stream().offset();
    // How many have it, and how many there are.
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

/// Until every command that had begun before the pause is over.
fn wait_for_writes(srv: &'static Server) {
    let mut turn = Turn::new(srv.now_ms(), 0);
    drop(srv.hand().world(&mut turn));
}
