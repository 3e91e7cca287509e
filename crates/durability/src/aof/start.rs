//! Starts and stops the append-only file: at the start of the server, and by CONFIG SET.

use crate::aof::aof;
use crate::aof::lifecycle::Switching;
use crate::aof::load;
use crate::aof::order::Order;
use crate::aof::writer;
use crate::aof::writer::{Seat, Writer};
use crate::aof::{Handle, Switch, base, directory};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::Instant;
use weft_config::{Config, Id};
use weft_keyspace::log::{Target, WakeReader};
use weft_keyspace::{ExecContext, Guard, LogReader};
use weft_persist::aof::{Appender, Directory, Loaded, Manifest, Position};
use weft_process::{log_notice, log_warning};
use weft_state::attention;
use weft_state::server::Server;

/// Files to load.
pub struct Found {
    dir: Directory,
    manifest: Manifest,
}

/// At the start, before there are clients: looks for files. If there are none, begins the log, so
/// that no client gets a LOADING error. [`load_at_start`] loads the files found.
///
/// # Errors
/// A fault of the files, as lines for the operator. The server must not start then.
pub fn at_start(srv: &'static Server) -> Result<Option<Found>, String> {
    aof(srv).lifecycle().load();
    let dir = directory(srv);
    aof(srv).locks.lock(&dir)?;
    dir.clean();
    let mut manifest = dir.manifest().map_err(|fault| fault.to_string())?;
    if dir.upgrade(&mut manifest).map_err(|fault| fault.to_string())? {
        log_notice!(
            "Successfully migrated an old-style AOF file ({}) into the AOF directory ({}).",
            dir.stem(),
            dir.folder().display()
        );
    }
    if !manifest.is_empty() {
        return Ok(Some(Found { dir, manifest }));
    }
    let policy = srv.settings().persistence.aof;
    let name = manifest.next_base(dir.stem(), policy.snapshot).name;
    log_notice!("Creating AOF base file {name} on server start");
    let made = base::of_nothing(srv, &dir, &policy).map_err(not_opened)?;
    let appender = Appender::create(dir, manifest, policy.annotations, &made.name, made.snapshot);
    go_on(srv, appender.map_err(not_opened)?)?;
    Ok(None)
}

/// Loads the files that [`at_start`] has found, and continues the log after them. Clients get
/// LOADING errors until the caller ends that state. Returns the data's position in a replication
/// history, if the files have one.
///
/// # Errors
/// Like [`at_start`].
pub fn load_at_start(srv: &'static Server, found: Found) -> Result<Option<Position>, String> {
    let Found { dir, mut manifest } = found;
    let began = Instant::now();
    let Loaded { position, lacks_end } = load::at_start(srv, &dir, &manifest)?;
    manifest.led = manifest.led.filter(|_| !lacks_end && aof(srv).locks.are_real());
    aof(srv).mark.set_found(manifest.led);
    let seconds = began.elapsed().as_secs_f64();
    log_notice!("DB loaded from append only file: {seconds:.3} seconds");
    let appender = Appender::open(dir, manifest, srv.settings().persistence.aof.annotations);
    go_on(srv, appender.map_err(not_opened)?)?;
    Ok(position)
}

fn not_opened(e: std::io::Error) -> String {
    format!("Can't open the append-only file: {}", base::told(&e))
}

/// Begins the log of a starting server.
fn go_on(srv: &'static Server, mut appender: Appender) -> Result<(), String> {
    let act = if appender.is_fresh() { "Creating" } else { "Opening" };
    log_notice!("{act} AOF incr file {} on server start", appender.file_name());
    let seat = Seat::default();
    let log = begin_log(srv, &seat).ok_or("The log of effects has too many readers")?;
    appender.begin_at(log.position());
    run(srv, log, appender, &seat).map_err(|e| format!("Can't start a thread: {e}"))
}

/// Records the value of the directive, which has or may have changed. [`follow`] applies it.
pub fn want(srv: &Server, config: &Config) {
    aof(srv).lifecycle().want(config.bool(Id::APPENDONLY));
}

/// An appender for a log that has no base yet.
fn waiting(srv: &Server) -> Result<Appender, String> {
    let dir = directory(srv);
    aof(srv).locks.lock(&dir)?;
    let manifest = dir.manifest().map_err(|fault| fault.to_string())?;
    let annotations = srv.settings().persistence.aof.annotations;
    Appender::wait_for_base(dir, manifest, annotations).map_err(not_opened)
}

/// Starts or stops the log to match the configuration. Stops the world and waits for the disk, so
/// the caller must hold nothing but the switch.
///
/// # Errors
/// The reason why the log could not begin, which is also logged. It is then off, and still wanted.
pub fn follow(srv: &'static Server, _switch: &Switch<'_>) -> Result<(), String> {
    loop {
        let next = aof(srv).lifecycle().next_switch();
        match next {
            Switching::TurnOff => turn_off(srv),
            Switching::TurnOn => turn_on(srv).inspect_err(|why| {
                log_warning!("The append-only file can't be switched on: {why}");
            })?,
            Switching::Done => return Ok(()),
        }
    }
}

/// Like [`follow`], on a separate thread. Calls `failed` if the log could not begin.
pub fn follow_soon(srv: &'static Server, failed: fn(&'static Server, &Switch<'_>)) {
    let thread = std::thread::Builder::new().name("weft-aof-switch".into());
    let spawned = thread.spawn(move || {
        let switch = aof(srv).switch();
        if follow(srv, &switch).is_err() {
            failed(srv, &switch);
        }
    });
    if let Err(e) = spawned {
        log_warning!("The append-only file is not switched: {e}");
    }
}

fn turn_on(srv: &'static Server) -> Result<(), String> {
    if srv.persistence.is_ending() {
        // There would be no base for this log, and the next start would ignore the last snapshot.
        return Err("the server is being shut down".into());
    }
    aof(srv).lifecycle().turn_on();
    let mut appender = waiting(srv)?;
    // A rewrite from before this log can't be its base, so the log needs a new one.
    if aof(srv).has_cut() {
        aof(srv).cancel_rewrite();
    }
    let seat = Seat::default();
    let log = begin_log(srv, &seat).ok_or("the log of effects has too many readers")?;
    appender.begin_at(log.position());
    run(srv, log, appender, &seat).map_err(|e| {
        end_log(srv);
        e.to_string()
    })
}

fn turn_off(srv: &'static Server) {
    end(srv, |srv| {
        end_log(srv);
        aof(srv).ask(Order::End);
    });
    aof(srv).refuse_waits(srv);
}

/// Ends the log by `stop`, and the thread that writes it.
fn end(srv: &'static Server, stop: impl FnOnce(&'static Server)) {
    // Replies don't wait for the disk from `stop` on.
    aof(srv).ask(Order::Unmark);
    aof(srv).cancel_rewrite();
    stop(srv);
    aof(srv).lifecycle().ended();
    srv.set_attention(attention::AOF_FAILING, false);
}

/// Restarts the log because the keyspace no longer matches it, with a base that is written from now
/// on. Until the base exists, the old files stay in force, as when the log is switched on. The
/// world is stopped. O(data waiting to be written).
///
/// # Errors
/// The reason why the log is off, or why [`follow`] must restart it.
pub fn again(srv: &'static Server, guard: &Guard<'_>) -> Result<(), String> {
    let Ok(_switch) = aof(srv).switch.try_lock() else {
        // Another thread is switching the log, and may need the world. The next switch restarts it.
        aof(srv).lifecycle().replace_data();
        return Err("it is being switched".into());
    };
    if !aof(srv).is_on() {
        return Ok(());
    }
    end(srv, |srv| {
        end_log_by(srv, guard);
        aof(srv).ask(Order::End);
    });
    let mut appender = waiting(srv)?;
    let seat = Seat::default();
    let log = begin_log_by(srv, guard, &seat).ok_or("the log of effects has too many readers")?;
    appender.begin_at(log.position());
    run(srv, log, appender, &seat).map_err(|e| {
        end_log_by(srv, guard);
        e.to_string()
    })
}

/// Like [`again`], on a separate thread, for callers that must not wait.
pub fn again_soon(srv: &'static Server) {
    aof(srv).lifecycle().replace_data();
    follow_soon(srv, aof(srv).stay_off);
}

fn waker(seat: &Seat) -> WakeReader {
    let seat = seat.clone();
    Arc::new(move || {
        if let Some(thread) = seat.get() {
            thread.unpark();
        }
    })
}

fn begin_log(srv: &'static Server, seat: &Seat) -> Option<LogReader> {
    with_world(srv, |guard| begin_log_by(srv, guard, seat))
}

/// Like [`begin_log`], with the world already stopped.
fn begin_log_by(srv: &'static Server, guard: &Guard<'_>, seat: &Seat) -> Option<LogReader> {
    let log = guard.begin_log(Target::AOF, waker(seat))?;
    aof(srv).begin_log(log.id());
    // While the log had no reader, the data has changed without a new unit.
    srv.links.replicator.forget_positions(srv);
    Some(log)
}

fn end_log(srv: &'static Server) {
    with_world(srv, |guard| end_log_by(srv, guard));
}

fn end_log_by(srv: &Server, guard: &Guard<'_>) {
    let reader = aof(srv).lifecycle().end_log();
    if let Some(reader) = reader {
        guard.end_log(&reader);
        srv.links.replicator.forget_durable();
    }
}

fn with_world<T>(srv: &'static Server, act: impl FnOnce(&Guard<'_>) -> T) -> T {
    let mut hand = srv.hand();
    let mut context = ExecContext::new(srv.now_ms(), 0);
    let guard = hand.world(&mut context);
    act(&guard)
}

/// Starts the threads.
fn run(
    srv: &'static Server,
    log: LogReader,
    appender: Appender,
    seat: &Seat,
) -> std::io::Result<()> {
    // Set these before the log counts as on, so that readers see its own files.
    let (size, base) = appender.sizes();
    aof(srv).status.size.store(size, Ordering::Relaxed);
    aof(srv).status.base_size.store(base, Ordering::Relaxed);
    let files = writer::files(&appender);
    let (to, orders) = writer::orders();
    let (syncs, jobs) = channel();
    let done = to.clone();
    std::thread::Builder::new()
        .name("weft-aof-sync".into())
        .spawn(move || writer::run_syncer(srv, &jobs, &done))?;
    let writer = Writer::new(srv, log, appender, orders, syncs);
    // The thread may begin a rewrite at once, which uses its handle.
    let mut lifecycle = aof(srv).lifecycle();
    let thread = std::thread::Builder::new().name("weft-aof".into()).spawn(move || {
        let _stack = weft_process::crash::second_stack();
        weft_scheduler::placement::bind_to(&srv.placement().bio);
        writer.run();
    })?;
    let _ = seat.set(thread.thread().clone());
    lifecycle.opened(Handle { to, thread: thread.thread().clone() }, files);
    drop(lifecycle);
    // Wake it for units logged before the seat was set.
    thread.thread().unpark();
    aof(srv).renew(srv, srv.settings().persistence.aof.sync);
    Ok(())
}
