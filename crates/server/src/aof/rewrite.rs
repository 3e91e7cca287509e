//! A rewrite: a snapshot, written while the log goes on in a new file, then put in the place of all
//! files from before its cut.
//!
//! ```text
//!  weft-aof-rewrite   cut ──────────► walk ─► base ─► synced ─┐
//!  weft-aof           ... n │ new file: n + 1 ...             └─► manifest ─► old files go
//! ```
//!
//! The number of the cut is noted while the world stands still, so that the thread that writes knows of
//! every unit to which file it belongs. There is no second buffer, and nothing to be caught up with.

use super::writer::{Base, Order};
use super::{base, directory};
use crate::server::Server;
use std::sync::atomic::Ordering;
use std::time::Instant;
use weft_keyspace::snapshot::Snapshot;
use weft_keyspace::{SlowHand, Turn};
use weft_persist::aof::Appender;
use weft_process::{log_notice, log_warning};

/// Why a rewrite has not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// One is under way.
    Busy,
    /// There is no thread for it.
    Failed,
}

/// Begins a rewrite on a thread of its own.
///
/// # Errors
/// See [`Refusal`].
pub fn begin(srv: &'static Server) -> Result<(), Refusal> {
    if srv.aof.rewriting.swap(true, Ordering::SeqCst) {
        return Err(Refusal::Busy);
    }
    let status = &srv.aof.status;
    status.rewrites.fetch_add(1, Ordering::Relaxed);
    status.rewrite_began_s.store((srv.now_ms() / 1000).max(1), Ordering::Relaxed);
    let thread = std::thread::Builder::new().name("weft-aof-rewrite".into());
    if let Err(e) = thread.spawn(move || run(srv)) {
        log_warning!("Can't rewrite append only file in background: {e}");
        status.rewrite_began_s.store(0, Ordering::Relaxed);
        srv.aof.rewriting.store(false, Ordering::SeqCst);
        return Err(Refusal::Failed);
    }
    log_notice!("Background append only file rewriting started");
    Ok(())
}

fn run(srv: &'static Server) {
    let _stack = weft_process::crash::second_stack();
    crate::threads::bind_to(&srv.placement().rewrite);
    let began = Instant::now();
    let came = rewrite(srv);
    let status = &srv.aof.status;
    status.last_rewrite_s.store(began.elapsed().as_secs() as i64, Ordering::Relaxed);
    status.last_rewrite_failed.store(came.is_err(), Ordering::Relaxed);
    status.rewrite_began_s.store(0, Ordering::Relaxed);
    match came {
        Ok(()) => log_notice!("Background AOF rewrite finished successfully"),
        Err(e) => log_warning!("Background AOF rewrite terminated with error: {e}"),
    }
    srv.aof.rewriting.store(false, Ordering::SeqCst);
    // It may be time for the next one, or to sync again.
    srv.aof.order(Order::Look);
}

fn rewrite(srv: &'static Server) -> Result<(), String> {
    let clock = || srv.now_ms();
    let mut hand = SlowHand::background(&srv.ks, &clock);
    let mut turn = Turn::new(srv.now_ms(), 0);
    let limit = super::base::memory_limit(srv);
    let dir = directory(srv);
    let is_on = srv.aof.is_on();
    let cut = |_: &weft_keyspace::Stop<'_>| {
        let last = srv.ks.log().last();
        if is_on {
            srv.aof.cut.store(last, Ordering::Relaxed);
        }
    };
    let (snapshot, ()) =
        Snapshot::begin(&mut hand, &mut turn, limit, cut).map_err(|e| e.to_string())?;
    if !is_on {
        dir.create().map_err(|e| e.to_string())?;
        let made = base::write(srv, &dir, &snapshot, &mut hand, &mut turn)?;
        return Appender::only_base(&dir, &made.name, made.snapshot).map_err(|e| e.to_string());
    }
    let over = || "the append-only file was turned off".to_string();
    srv.aof.ask(Order::Rotate).ok_or_else(over)??;
    let base = base::write(srv, &dir, &snapshot, &mut hand, &mut turn);
    drop(snapshot);
    let failed = base.as_ref().err().cloned();
    let told = |done| Order::Rebase { base: base.map(Base::from), done };
    let came = srv.aof.ask(told).ok_or_else(over)?;
    match failed {
        Some(e) => Err(e),
        None => came,
    }
}
