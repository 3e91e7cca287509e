//! Metrics over HTTP: `metrics-port`.
//!
//! | path | response |
//! |---|---|
//! | `/metrics` | OpenMetrics 1.0, or the text format 0.0.4 for clients that don't accept it |
//! | `/` | a page that shows the server live |
//! | `/state.json` | the server's state, for that page |
//! | `/keys.json` | the keys of most requests, sampled while a client asks for them |
//! | `/healthz` | 200 while the process lives |
//! | `/readyz` | 503 while the server loads, a replica is not in sync, or a primary of a cluster holds no lease |
//!
//! With port 0 there is no thread and no socket. Otherwise one thread, `weft-metrics`, serves HTTP. It reads counters that
//! the other threads write anyway, and stops none of them.
//!
//! * [`table`] - the metrics; [`docs`]: the page that is made from them
//! * [`sample`] - the state of the server at a scrape; [`tasks`]: its threads; [`exposition`]: the text;
//!   [`state_json`]: `/state.json`
//! * [`page`] - the files of the page; [`host`]: CPUs and interrupts; [`hot_keys`], [`type_memory`]: `/keys.json`
//! * [`http`] - the thread, its limits; [`routes`]: paths; [`negotiate`]: formats; [`access`]: who may read; [`ready`]:
//!   `/readyz`
//!
//! `docs/design/metrics.md` has the reasons.

pub mod access;
pub mod docs;
pub mod exposition;
pub mod host;
pub mod hot_keys;
pub mod http;
pub mod negotiate;
pub mod page;
pub mod ready;
pub mod routes;
pub mod sample;
pub mod state_json;
pub mod table;
pub mod tasks;
pub mod type_memory;

use crate::sample::Sampler;
use std::io;
use weft_net::listen::Listener;
use weft_process::{log_notice, log_warning};
use weft_scheduler::placement::bind_to;
use weft_scheduler::yielding;
use weft_state::server::Server;

/// Starts the thread, if there are sockets. Call it when replication has begun and the server knows whether it will load
/// files.
///
/// # Errors
/// Those of the system.
pub fn start(srv: &'static Server, listeners: &[Listener]) -> io::Result<()> {
    if listeners.is_empty() {
        return Ok(());
    }
    let sockets = listeners.iter().map(Listener::try_clone_std).collect::<io::Result<Vec<_>>>()?;
    std::thread::Builder::new().name("weft-metrics".into()).spawn(move || {
        let _stack = weft_process::crash::second_stack();
        bind_to(&srv.placement().bio);
        // Clients of HTTP must not slow down those of the server.
        yielding::lower_priority();
        if let Err(e) = http::serve(sockets, Sampler::new(srv)) {
            log_warning!("There are no metrics: {e}");
        }
    })?;
    for address in listeners.iter().filter_map(Listener::address) {
        log_notice!("Metrics: http://{address}/metrics, live page: http://{address}/");
    }
    Ok(())
}
