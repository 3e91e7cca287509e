//! Making the values of CONFIG SET effective.
//!
//! Most directives are read where they matter, through the published
//! [`Settings`](crate::settings::Settings) or a copy that
//! [`apply_derived`](crate::start::apply_derived) hands out. The others are here: those that act
//! on the process, and those that can't change while the server runs, or not at all because they
//! would protect nothing. An error undoes the whole
//! CONFIG SET, and then this is called once more with the old values.

use crate::server::Server;
use crate::start;
use crate::threads;
use weft_config::{Config, Id};
use weft_process::{limits, log_warning};

/// Why a directive keeps its value, after `CONFIG SET failed (...) - `.
type Refusal = (Id, String);

/// Directives of which the threads keep sockets: changed by a restart.
const FIXED: [(Id, &str); 2] = [
    (Id::PORT, "can't change the port at run time"),
    (Id::BIND, "can't change the listening addresses at run time"),
];

/// Makes `config` effective, in which `changed` are new.
pub fn apply(srv: &'static Server, config: &mut Config, changed: &[Id]) -> Result<(), Refusal> {
    for (id, reason) in FIXED {
        if changed.contains(&id) {
            return Err((id, reason.into()));
        }
    }
    let refused = config.unsupported_guards().into_iter().find(|(id, _)| changed.contains(id));
    if let Some((id, feature)) = refused {
        return Err((id, format!("not supported by this version, which does not have {feature}")));
    }
    if changed.contains(&Id::SAVE) || changed.contains(&Id::APPENDONLY) {
        crate::announce::tell_memory_only(config);
    }
    for id in changed {
        apply_to_process(srv, config, *id).map_err(|reason| (*id, reason))?;
    }
    start::apply_derived(srv, config);
    srv.publish_settings(config);
    // The threads look at the new settings in their next batch; one that sleeps, now.
    srv.broadcast(|| crate::io::Message::Wake);
    Ok(())
}

fn apply_to_process(srv: &'static Server, config: &Config, id: Id) -> Result<(), String> {
    match id {
        Id::DIR => change_directory(config),
        Id::MAXCLIENTS => raise_limit(config),
        Id::IO_THREADS => threads::resize(srv, config, threads::wanted(srv, config)),
        Id::MAXMEMORY => {
            warn_of_eviction(srv, config);
            Ok(())
        }
        Id::OOM_SCORE_ADJ | Id::OOM_SCORE_ADJ_VALUES => start::apply_oom_score(srv, config)
            .map_err(|_| {
                "Failed to apply new oom_score_adj configuration, check server logs.".into()
            }),
        Id::PROC_TITLE_TEMPLATE => {
            crate::announce::apply_title(srv, config);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn change_directory(config: &Config) -> Result<(), String> {
    let dir = config.path(Id::DIR).unwrap_or_else(|| ".".into());
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
