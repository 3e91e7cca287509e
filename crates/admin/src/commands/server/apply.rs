//! Applies new values of CONFIG SET.
//!
//! Most directives are read where they matter, through the published
//! [`Settings`](weft_state::settings::Settings) or a copy that
//! [`apply_derived`](crate::commands::server::derived::apply_derived) hands out. This module handles the
//! rest: directives that change the process, and directives that can't change while the server runs.
//! An error undoes the whole CONFIG SET; then [`apply`] runs once more with the old values.

use crate::commands::server::derived;
use crate::threads;
use crate::watchdog;
use weft_config::{Config, Id, Permit};
use weft_durability::aof::aof;
use weft_process::{limits, log_warning};
use weft_replication_driver::hub;
use weft_state::listening;
use weft_state::mailbox::{Message, ThreadMessage};
use weft_state::server::Server;

/// A directive that can't change, with the text after `CONFIG SET failed (...) - `.
type Refusal = (Id, String);

/// Applies `config`, in which the directives `changed` are new.
pub fn apply(srv: &'static Server, config: &mut Config, changed: &[Id]) -> Result<(), Refusal> {
    if changed.contains(&Id::APPENDONLY) {
        crate::announce::warn_no_log(config);
    }
    if let Some(id) = changed.iter().find(|id| is_of_tls(**id)) {
        crate::tls::configure(srv, config).map_err(|why| {
            log_warning!("{why}");
            failed(*id, "Unable to update TLS configuration. Check server logs.")
        })?;
    }
    for id in changed {
        apply_to_process(srv, config, *id).map_err(|reason| failed(*id, reason))?;
    }
    if changed.contains(&Id::APPENDONLY) {
        weft_durability::aof::start::want(srv, config);
    }
    if changed.contains(&Id::WATCHDOG_PERIOD) {
        set_watchdog(srv, config).map_err(|reason| (Id::WATCHDOG_PERIOD, reason))?;
    }
    crate::cluster::apply(srv, config, changed);
    derived::apply_derived(srv, config);
    if !config.bool(Id::REPLICA_READ_ONLY) && srv.nodes.replication.is_replica() {
        // Before clients may write.
        srv.ks.note_replica_expiry(true);
    }
    srv.publish_settings(config);
    weft_replication_driver::roles::note_expiry(srv, srv.nodes.replication.is_replica());
    hub(srv).set(srv, config);
    if aof(srv).is_on() {
        aof(srv).renew(srv, srv.settings().persistence.aof.sync);
    }
    // Running threads see the new settings in their next batch. This wakes sleeping threads.
    srv.broadcast(|| Message::Thread(ThreadMessage::Wake));
    Ok(())
}

/// Logs that `id` can't change.
fn failed(id: Id, reason: impl Into<String>) -> Refusal {
    log_warning!(
        "Failed applying new configuration. Possibly related to new {} setting. Restoring previous \
         settings.",
        id.name()
    );
    (id, reason.into())
}

/// Whether certificates and keys must be read again.
fn is_of_tls(id: Id) -> bool {
    id == Id::TLS_PORT || weft_state::tls::DIRECTIVES.contains(&id)
}

fn apply_to_process(srv: &'static Server, config: &Config, id: Id) -> Result<(), String> {
    match id {
        Id::DIR => change_directory(srv, config),
        Id::REQUIREPASS => {
            srv.access.set_default_password(config.bytes(Id::REQUIREPASS));
            Ok(())
        }
        Id::MAXCLIENTS => raise_limit(config),
        Id::IO_THREADS => {
            find_descriptors(config)?;
            threads::resize(srv, config, threads::wanted(srv, config))
        }
        Id::MAXMEMORY => {
            warn_of_eviction(srv, config);
            Ok(())
        }
        Id::OOM_SCORE_ADJ | Id::OOM_SCORE_ADJ_VALUES => derived::apply_oom_score(srv, config)
            .map_err(|_| "Failed to set current oom_score_adj. Check server logs.".into()),
        // These three share a function. The first of them that has changed does the work for all.
        Id::PORT | Id::TLS_PORT => change_listeners(srv, config)
            .ok_or("Unable to listen on this port. Check server logs.".into()),
        Id::BIND => {
            change_listeners(srv, config).ok_or("Failed to bind to specified addresses.".into())
        }
        Id::PROC_TITLE_TEMPLATE => {
            crate::announce::apply_title(srv, config);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Raises a period that is shorter than the ticks of the watchdog.
fn set_watchdog(srv: &'static Server, config: &mut Config) -> Result<(), String> {
    let wished = config.int(Id::WATCHDOG_PERIOD);
    let period = watchdog::possible_period(wished, config);
    if period != wished {
        let value = period.to_string();
        let pair = (&b"watchdog-period"[..], value.as_bytes());
        let permit = Permit { protected: true, loading: false };
        if config.set(&[pair], permit, &mut |_, _| Ok(())).is_err() {
            log_warning!("watchdog-period can't be raised to {period}");
        }
    }
    crate::watchdog::set_watchdog(srv, period).map_err(|e| e.to_string())
}

fn change_listeners(srv: &Server, config: &Config) -> Option<()> {
    listening::change(&srv.process.listening, &srv.threads, config).ok()?;
    crate::announce::apply_title(srv, config);
    Some(())
}

/// The append-only file continues below the new directory with the next rewrite.
fn change_directory(srv: &Server, config: &Config) -> Result<(), String> {
    let dir = config.path(Id::DIR).unwrap_or_else(|| ".".into());
    if aof(srv).is_on() {
        let log = weft_durability::aof::directory_in(&dir, config);
        // If the folder is missing, the rewrite creates and locks it.
        if log.folder().is_dir() {
            aof(srv).locks.lock(&log)?;
        }
    }
    std::env::set_current_dir(dir).map_err(|e| e.to_string())
}

fn raise_limit(config: &Config) -> Result<(), String> {
    let wanted = config.int(Id::MAXCLIENTS) as u32;
    match limits::raise_open_files(wanted, threads::descriptors(config)) {
        Ok(possible) if possible >= wanted => Ok(()),
        Ok(possible) => Err(format!(
            "The operating system is not able to handle the specified number of clients, try \
             with {possible}"
        )),
        Err(e) => Err(e.to_string()),
    }
}

/// Threads must not use the descriptors that `maxclients` promises to clients.
fn find_descriptors(config: &Config) -> Result<(), String> {
    let clients = config.int(Id::MAXCLIENTS) as u32;
    match limits::raise_open_files(clients, threads::descriptors(config)) {
        Ok(possible) if possible >= clients => Ok(()),
        Ok(possible) => Err(format!(
            "The operating system is not able to handle so many threads with maxclients \
             {clients}, with them it is {possible}"
        )),
        Err(e) => Err(e.to_string()),
    }
}

fn warn_of_eviction(srv: &Server, config: &Config) {
    let (limit, used) = (config.memory(Id::MAXMEMORY), srv.memory.used() as u64);
    if limit > 0 && limit < used {
        log_warning!(
            "WARNING: the new maxmemory value set via CONFIG SET ({limit}) is smaller than the \
             current memory usage ({used}). This will result in key eviction and/or the \
             inability to accept new write commands depending on the maxmemory-policy."
        );
    }
}
