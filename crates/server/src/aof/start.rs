//! The append-only file begins and ends: at the start of the server, and by CONFIG SET.

use super::load;
use super::writer::{self, Order, Seat, Writer};
use super::{Handle, base, directory, directory_of};
use crate::server::{Server, attention};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Instant;
use weft_config::{Config, Id};
use weft_keyspace::{Guard, LogReader, Turn};
use weft_persist::aof::Appender;
use weft_process::{log_notice, log_warning};

/// At the start: loads what there is, and goes on behind it.
///
/// # Errors
/// What is wrong with the files: lines for the operator. The server must not start then.
pub fn at_start(srv: &'static Server) -> Result<(), String> {
    let dir = directory(srv);
    let mut manifest = dir.manifest().map_err(|fault| fault.to_string())?;
    if dir.upgrade(&mut manifest).map_err(|fault| fault.to_string())? {
        log_notice!(
            "Successfully migrated an old-style AOF file ({}) into the AOF directory ({}).",
            dir.stem(),
            dir.folder().display()
        );
    }
    let policy = srv.settings().aof;
    let failed = |e: std::io::Error| format!("Can't open the append-only file: {e}");
    let appender = if manifest.is_empty() {
        dir.create().map_err(failed)?;
        let name = manifest.next_base(dir.stem(), policy.snapshot).name;
        log_notice!("Creating AOF base file {name} on server start");
        let made = base::of_nothing(srv, &dir, &policy).map_err(failed)?;
        Appender::create(dir, manifest, policy.annotations, &made.name, made.snapshot)
    } else {
        let began = Instant::now();
        load::at_start(srv, &dir, &manifest)?;
        let seconds = began.elapsed().as_secs_f64();
        log_notice!("DB loaded from append only file: {seconds:.3} seconds");
        Appender::open(dir, manifest, policy.annotations)
    };
    let mut appender = appender.map_err(failed)?;
    log_notice!("Opening AOF incr file {} on server start", appender.file_name());
    let seat = Seat::default();
    let log = begin_log(srv, &seat).ok_or("The log of effects is in use")?;
    appender.begin_at(log.position());
    run(srv, log, appender, &seat).map_err(|e| format!("Can't start a thread: {e}"))
}

/// The directive has changed: begins or ends the log on a thread of its own, since both stop the
/// world.
///
/// # Errors
/// Why that can't be, after which the directive keeps its value.
pub fn set(srv: &'static Server, config: &Config) -> Result<(), String> {
    let on = config.bool(Id::APPENDONLY);
    if on == srv.aof.is_on() {
        return Ok(());
    }
    if !on {
        return spawn(move || turn_off(srv));
    }
    // What is wrong with the directory is found out while somebody listens.
    let dir = directory_of(config);
    let manifest = dir.manifest().map_err(|fault| {
        log_warning!("{fault}");
        "Unable to turn on AOF. Check server logs.".to_string()
    })?;
    let policy = srv.settings().aof;
    let appender = Appender::wait_for_base(dir, manifest, policy.annotations).map_err(|e| {
        log_warning!("Can't open the append-only file: {e}");
        "Unable to turn on AOF. Check server logs.".to_string()
    })?;
    spawn(move || turn_on(srv, appender))
}

fn spawn(task: impl FnOnce() + Send + 'static) -> Result<(), String> {
    let thread = std::thread::Builder::new().name("weft-aof-switch".into());
    thread.spawn(task).map(drop).map_err(|e| e.to_string())
}

fn turn_on(srv: &'static Server, mut appender: Appender) {
    let seat = Seat::default();
    // Who has ended it just now may not have gone yet.
    let log = loop {
        match begin_log(srv, &seat) {
            Some(log) => break log,
            None if srv.aof.is_on() => return,
            None => std::thread::sleep(std::time::Duration::from_millis(1)),
        }
    };
    appender.begin_at(log.position());
    if let Err(e) = run(srv, log, appender, &seat) {
        log_warning!("The append-only file can't be written: {e}");
        end_log(srv);
    }
}

fn turn_off(srv: &'static Server) {
    srv.aof.cancel_rewrite();
    end_log(srv);
    srv.aof.ask(Order::End);
    *srv.aof.handle() = None;
    srv.aof.status.set_error(None);
    srv.set_attention(attention::AOF_FAILING, false);
}

fn begin_log(srv: &'static Server, seat: &Seat) -> Option<LogReader> {
    let seat = seat.clone();
    let wake = Arc::new(move || {
        if let Some(thread) = seat.get() {
            thread.unpark();
        }
    });
    with_world(srv, |guard| guard.begin_log(wake))
}

fn end_log(srv: &'static Server) {
    with_world(srv, |guard| guard.end_log());
}

fn with_world<T>(srv: &'static Server, act: impl FnOnce(&Guard<'_>) -> T) -> T {
    let mut hand = srv.hand();
    let mut turn = Turn::new(srv.now_ms(), 0);
    let guard = hand.world(&mut turn);
    act(&guard)
}

/// Starts the threads.
fn run(
    srv: &'static Server,
    log: LogReader,
    appender: Appender,
    seat: &Seat,
) -> std::io::Result<()> {
    let (to, orders) = writer::orders();
    let (syncs, jobs) = channel();
    let done = to.clone();
    std::thread::Builder::new()
        .name("weft-aof-sync".into())
        .spawn(move || writer::run_syncer(srv, &jobs, &done))?;
    let writer = Writer::new(srv, log, appender, orders, syncs);
    let thread = std::thread::Builder::new().name("weft-aof".into()).spawn(move || {
        let _stack = weft_process::crash::second_stack();
        crate::threads::bind_to(&srv.placement().bio);
        writer.run();
    })?;
    let _ = seat.set(thread.thread().clone());
    *srv.aof.handle() = Some(Handle { to, thread: thread.thread().clone() });
    // What came before the seat was known.
    thread.thread().unpark();
    Ok(())
}
