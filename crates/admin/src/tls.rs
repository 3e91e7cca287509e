//! TLS of a running server: reads certificates and keys at start, after CONFIG SET, and when their files
//! change; warns before they expire; logs clients in by their certificates.
//!
//! New contexts are built as a whole before they replace the old ones. If they can't be, the old ones stay
//! in force, and the reason is logged.

use crate::commands::log_in_as;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;
use weft_config::{Config, Id};
use weft_executor::access;
use weft_process::{log_notice, log_verbose, log_warning};
use weft_state::server::Server;
use weft_state::session::Session;
use weft_state::tls;
use weft_tls::Contexts;
use weft_tls::certificate::Facts;
use weft_tls::files::Stamps;

/// Certificates that expire within this number of days are mentioned in the log.
const WARN_DAYS: i64 = 30;
const DAY_S: i64 = 24 * 3600;
/// Time between two warnings.
const WARN_EVERY_MS: i64 = DAY_S * 1000;

/// Reads certificates and keys, and puts them into force. Does nothing without TLS.
///
/// # Errors
/// The reason why the directives can't be followed. Nothing has changed.
pub fn configure(srv: &Server, config: &Config) -> Result<(), String> {
    if !tls::is_wanted(config) {
        weft_transfer::migrate::encrypt_links(None);
        return Ok(());
    }
    let settings = tls::settings(config);
    let stamps = Stamps::read(&settings);
    let contexts = Contexts::build(&settings)?;
    put_in_force(srv, config, contexts, stamps);
    Ok(())
}

fn put_in_force(srv: &Server, config: &Config, contexts: Contexts, stamps: Stamps) {
    for warning in &contexts.warnings {
        log_warning!("{warning}");
    }
    if let Some(facts) = &contexts.facts.server {
        let days = facts.expires_in(SystemTime::now()) / DAY_S;
        log_notice!("TLS: certificate {} is in use and expires in {days} days", facts.serial);
    }
    *srv.process.tls.stamps.lock().unwrap_or_else(|p| p.into_inner()) = stamps;
    let contexts = Arc::new(contexts);
    srv.process.tls.set_contexts(contexts.clone());
    let is_encrypted = config.bool(Id::TLS_CLUSTER);
    weft_transfer::migrate::encrypt_links(is_encrypted.then(|| contexts.client.clone()));
    warn_of_expiry(srv, &contexts);
}

fn warn_of_expiry(srv: &Server, contexts: &Contexts) {
    srv.process.tls.next_warning_ms.store(srv.mono_ms() + WARN_EVERY_MS, Ordering::Relaxed);
    let facts = &contexts.facts;
    let all = [
        ("tls-cert-file", &facts.server),
        ("tls-client-cert-file", &facts.client),
        ("tls-ca-cert-file or tls-ca-cert-dir", &facts.authority),
    ];
    for (directive, facts) in all {
        let Some(seconds) = facts.as_ref().map(|facts| facts.expires_in(SystemTime::now())) else {
            continue;
        };
        let days = seconds.div_euclid(DAY_S);
        if seconds < 0 {
            log_warning!("WARNING: the certificate of {directive} has expired");
        } else if days < WARN_DAYS {
            log_warning!("WARNING: the certificate of {directive} expires in {days} days");
        }
    }
}

/// Called on the first I/O thread at each tick: reloads files that have changed, on a thread of its own,
/// and warns of certificates that expire soon.
pub fn tick(srv: &'static Server) {
    let now_ms = srv.mono_ms();
    let interval_s = srv.settings().tls_reload_s;
    if interval_s > 0 && now_ms >= srv.process.tls.next_reload_ms.load(Ordering::Relaxed) {
        let next_ms = now_ms.saturating_add(interval_s.saturating_mul(1000));
        let is_first = srv.process.tls.next_reload_ms.swap(next_ms, Ordering::Relaxed) == 0;
        if !is_first {
            let thread = std::thread::Builder::new().name("weft-tls".into());
            if let Err(e) = thread.spawn(move || reload_if_changed(srv)) {
                log_warning!("Can't start a thread to check certificates: {e}");
            }
        }
    }
    if now_ms >= srv.process.tls.next_warning_ms.load(Ordering::Relaxed)
        && let Some(contexts) = srv.process.tls.contexts()
    {
        warn_of_expiry(srv, &contexts);
    }
}

fn reload_if_changed(srv: &Server) {
    let config = srv.config();
    if !tls::is_wanted(&config) {
        return;
    }
    let settings = tls::settings(&config);
    drop(config);
    let loaded = || srv.process.tls.stamps.lock().unwrap_or_else(|p| p.into_inner()).clone();
    let (before, stamps) = (loaded(), Stamps::read(&settings));
    if before == stamps {
        return;
    }
    log_notice!("TLS materials changed, reloading in background");
    match Contexts::build(&settings) {
        Ok(contexts) => {
            // CONFIG SET may have loaded these files or others meanwhile, which are newer.
            let config = srv.config();
            if tls::settings(&config) == settings && loaded() == before {
                put_in_force(srv, &config, contexts, stamps);
                log_notice!("TLS materials reloaded successfully");
            }
        }
        Err(why) => log_warning!("Background TLS reload failed: {why}"),
    }
}

/// Logs the client in as the user that its certificate names, if `tls-auth-clients-user` asks for that.
pub fn log_in_by_certificate(srv: &Server, session: &mut Session, certificate: Option<&Facts>) {
    let Some(facts) = certificate else { return };
    let config = srv.config();
    let field = config.word(Id::TLS_AUTH_CLIENTS_USER);
    drop(config);
    let names: Vec<&str> = match field {
        "CN" => facts.common_name.as_deref().into_iter().collect(),
        "URI" => facts.uris.iter().map(String::as_str).collect(),
        _ => return,
    };
    let Some(first) = names.first() else { return };
    match names.iter().find(|name| log_in_as(srv, session, name.as_bytes())) {
        Some(name) => log_verbose!("TLS: Auto-authenticated client as {name}"),
        None => {
            access::note_refused_certificate(srv, &session.shared, first.as_bytes());
            log_verbose!("TLS: No matching user found for certificate {field} {names:?}");
        }
    }
}
