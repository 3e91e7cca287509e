//! Starting I/O threads, at the start of the server and when `io-threads` is raised.

use crate::io::Listener;
use crate::io::worker::Worker;
use crate::server::Server;
use crate::start::second_stack;
use std::io;
use weft_config::{Config, Id};
use weft_process::{log_notice, log_warning};

/// How many threads `io-threads` asks for. `auto` counts the CPUs that the process may use, also
/// when the calling thread is bound to one of them.
pub fn wanted(srv: &Server, config: &Config) -> usize {
    match config.int_or_auto(Id::IO_THREADS) {
        Some(n) => n.max(1) as usize,
        None => {
            let allowed = srv.allowed_cpus.len();
            weft_base::topology::usable_cpus_under(std::path::Path::new("/"), allowed)
        }
    }
}

/// Makes everything for `count` threads but the threads.
///
/// # Errors
/// The kernel's, for want of descriptors.
pub fn prepare(srv: &Server, count: usize) -> io::Result<()> {
    srv.threads.fill(count)?;
    srv.ks.gates().use_up_to(count);
    srv.threads.note_started(count);
    srv.threads.set_configured(count);
    if srv.settings().always_active {
        srv.threads.set_active(count);
    }
    Ok(())
}

/// Starts all prepared threads but the first, which is the caller's.
///
/// # Errors
/// The kernel's, when it has no room for another thread.
pub fn start_prepared(srv: &'static Server) -> io::Result<()> {
    (1..srv.threads.started()).try_for_each(|id| spawn(srv, id))
}

/// Changes the number of threads while they run. Fewer: the others pass on their connections and
/// sleep.
///
/// # Errors
/// The kernel's; the number is then what it was.
pub fn resize(srv: &'static Server, count: usize) -> io::Result<()> {
    let before = srv.threads.configured();
    srv.threads.fill(count)?;
    srv.ks.gates().use_up_to(count);
    for id in srv.threads.started()..count {
        spawn(srv, id)?;
        srv.threads.note_started(id + 1);
    }
    srv.threads.set_configured(count);
    if count != before {
        log_notice!("io-threads: {before} before, {count} now");
    }
    Ok(())
}

fn spawn(srv: &'static Server, id: usize) -> io::Result<()> {
    let thread = std::thread::Builder::new().name(format!("weft-io-{id}"));
    let handle = thread.spawn(move || work(id, srv, Vec::new()))?;
    srv.threads[id].set_handle(handle);
    Ok(())
}

/// Runs I/O thread `id` on the calling thread until the server stops.
pub fn work(id: usize, srv: &'static Server, listeners: Vec<Listener>) {
    // The first thread has got its own before it started the others.
    let _stack = if id == 0 { None } else { second_stack() };
    let ended = Worker::new(id, srv, listeners).and_then(|mut worker| worker.run());
    if let Err(e) = ended {
        log_warning!("I/O thread {id} failed: {e}");
        srv.shut_down(1);
    }
}

/// Waits for all threads but the first to end.
pub fn join(srv: &Server) {
    srv.threads.iter().filter_map(|thread| thread.take_handle()).for_each(|handle| {
        let _ = handle.join();
    });
}
