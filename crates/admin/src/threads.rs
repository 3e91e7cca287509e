//! Starting I/O threads, at the start of the server and when `io-threads` is raised.

use std::io;
use std::sync::mpsc::sync_channel;
use weft_base::topology;
use weft_config::{Config, Id};
use weft_net::listen::Listener;
use weft_process::log_notice;
use weft_scheduler::placement::Placement;
use weft_state::server::Server;

/// The number of threads that `io-threads` asks for. `auto` counts the CPUs that the process may
/// use, even if the calling thread is bound to one of them.
pub fn wanted(srv: &Server, config: &Config) -> usize {
    match config.int_or_auto(Id::IO_THREADS) {
        Some(n) => n.max(1) as usize,
        None => {
            let allowed = srv.process.hardware.allowed_cpus.len();
            topology::usable_cpus_under(std::path::Path::new("/"), allowed)
        }
    }
}

/// File descriptors of the I/O threads except the first: each has an epoll instance, an eventfd and
/// its statistics file in /proc.
pub fn descriptors(config: &Config) -> u64 {
    const EACH: u64 = 3;
    /// Up to 32 connections, a few sockets, and the event loop of `weft-metrics`.
    const FOR_METRICS: u64 = 56;
    let threads = match config.int_or_auto(Id::IO_THREADS) {
        Some(n) => n.max(1) as u64,
        None => {
            let allowed = topology::allowed_cpus().len();
            topology::usable_cpus_under(std::path::Path::new("/"), allowed) as u64
        }
    };
    (threads - 1) * EACH + if config.int(Id::METRICS_PORT) == 0 { 0 } else { FOR_METRICS }
}

/// Prepares everything that `count` threads need, without starting them.
///
/// # Errors
/// Invalid CPU lists (see [`Placement::of`]), or kernel errors such as a lack of file descriptors.
pub fn prepare(srv: &Server, config: &Config, count: usize) -> Result<(), String> {
    let placement = Placement::of(
        config,
        &srv.process.hardware.machine,
        &srv.process.hardware.allowed_cpus,
        count,
    )?;
    srv.set_placement(placement);
    srv.threads.fill(count).map_err(|e| e.to_string())?;
    srv.ks.safepoints().use_up_to(count);
    srv.threads.note_started(count);
    srv.threads.set_configured(count);
    let settings = srv.settings();
    if settings.threads.always_active && settings.threads.all_read {
        srv.threads.set_active(count);
    }
    Ok(())
}

/// Starts all prepared threads. The first thread gets the listeners.
///
/// # Errors
/// The kernel can't create another thread.
pub fn start_prepared(srv: &'static Server, listeners: Vec<Listener>) -> io::Result<()> {
    (1..srv.threads.started()).try_for_each(|id| spawn(srv, id, Vec::new()))?;
    spawn(srv, 0, listeners)
}

/// Changes the number of threads at run time. Surplus threads pass on their connections and sleep.
///
/// # Errors
/// Kernel errors; the number of threads is then unchanged.
pub fn resize(srv: &'static Server, config: &Config, count: usize) -> Result<(), String> {
    let before = srv.threads.configured();
    let failed = |e: io::Error| format!("Can't start a thread: {e}");
    srv.threads.fill(count).map_err(failed)?;
    srv.ks.safepoints().use_up_to(count);
    for id in srv.threads.started()..count {
        spawn(srv, id, Vec::new()).map_err(failed)?;
        srv.threads.note_started(id + 1);
    }
    srv.set_placement(Placement::of(
        config,
        &srv.process.hardware.machine,
        &srv.process.hardware.allowed_cpus,
        count,
    )?);
    srv.threads.set_configured(count);
    if count != before {
        log_notice!("io-threads: {before} before, {count} now");
    }
    Ok(())
}

/// Starts a thread. When this returns, the thread has all file descriptors that it needs.
fn spawn(srv: &'static Server, id: usize, listeners: Vec<Listener>) -> io::Result<()> {
    let (is_up, up) = sync_channel(1);
    let thread = std::thread::Builder::new().name(format!("weft-io-{id}"));
    let handle = thread.spawn(move || (srv.links.run_thread)(id, srv, listeners, &is_up))?;
    // The thread reports success or failure before it can end.
    up.recv().map_err(io::Error::other)??;
    srv.threads[id].set_handle(handle);
    Ok(())
}

/// Waits until all threads have ended, including threads that start meanwhile.
pub fn join(srv: &Server) {
    let mut id = 0;
    while id < srv.threads.started() {
        if let Some(handle) = srv.threads[id].take_handle() {
            let _ = handle.join();
        }
        id += 1;
    }
}
