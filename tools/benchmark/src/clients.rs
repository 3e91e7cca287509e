//! Connects the clients of a run. If that fails early, the error has the number of connections and
//! the limit that was reached.
//!
//! A server that has enough clients accepts one more, reports an error and closes it. Without a
//! check, the tool would notice only under load, when all connections send at once. So from time to
//! time, and at the end, the latest connection sends a PING. Servers accept in order: when the
//! latest connection is served, so are all earlier ones.

use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::control::{Control, Reply};
use crate::plan::Plan;
use crate::run::plain;
use crate::stream::NonBlocking;

/// Connections between two checks that the server still accepts them.
const BATCH: usize = 256;

/// Connects the clients of a run and sends greetings. Returns the streams by thread, with the
/// indexes of their nodes.
///
/// # Errors
/// With the target, the reason, and the number of connections so far.
pub fn connect(
    plan: &Plan,
    clients: usize,
    names: &[String],
    greetings: &[Vec<String>],
) -> Result<Vec<Vec<(NonBlocking, usize)>>, String> {
    raise_limit();
    let mut threads: Vec<Vec<(NonBlocking, usize)>> =
        (0..plan.threads).map(|_| Vec::new()).collect();
    let failed = |client: usize, what: &str, e: &io::Error| {
        let name = names.get(client % plan.addresses.len()).map_or("", |name| name);
        format!("{what} {name}: {}{}", plain(e), how_far(client, clients, e))
    };
    for first in (0..clients).step_by(BATCH) {
        let mut batch = Vec::with_capacity(BATCH);
        for client in first..clients.min(first + BATCH) {
            let mut control = Control::connect(&plan.addresses[client % plan.addresses.len()])
                .map_err(|e| failed(client, "Could not connect to server at", &e))?;
            control.greet(greetings).map_err(|e| failed(client, "Error from server", &e))?;
            batch.push(control);
        }
        if let Some((at, e)) = refused(&mut batch) {
            return Err(failed(first + at, "Error from server", &e));
        }
        for (client, control) in (first..).zip(batch) {
            let stream = control
                .into_stream()
                .into_nonblocking()
                .map_err(|e| failed(client, "Could not connect to server at", &e))?;
            threads[client % plan.threads].push((stream, client % plan.addresses.len()));
        }
    }
    Ok(threads)
}

/// The first connection of a batch that the server closed; called only if the last one was closed.
fn refused(batch: &mut [Control]) -> Option<(usize, io::Error)> {
    let last = rejection(batch.last_mut()?)?;
    let found = batch.iter_mut().enumerate();
    let first = found.map(|(at, control)| (at, rejection(control))).find(|(_, e)| e.is_some());
    match first {
        Some((at, Some(e))) => Some((at, e)),
        Some((_, None)) | None => Some((batch.len() - 1, last)),
    }
}

/// The error with which the server closed a connection. Any reply to a PING means that it is open.
fn rejection(control: &mut Control) -> Option<io::Error> {
    match control.ask(&["PING"]) {
        Ok(Reply::Error(error)) if error.contains("max number of clients") => {
            Some(io::Error::other(error))
        }
        // The test itself reports a malformed reply.
        Err(e) if e.kind() != io::ErrorKind::InvalidData => Some(e),
        Ok(_) | Err(_) => None,
    }
}

/// The number of connections, and the limit that may have been reached. Empty for the first
/// connection.
fn how_far(made: usize, wanted: usize, e: &io::Error) -> String {
    if made == 0 {
        return String::new();
    }
    let limit = match Errno::from_io_error(e) {
        Some(Errno::MFILE) => {
            let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
            format!("; this process may open {files} files (ulimit -n)")
        }
        Some(Errno::ADDRNOTAVAIL) => {
            "; the local ports are used up (net.ipv4.ip_local_port_range)".to_string()
        }
        _ if e.to_string().contains("max number of clients") => {
            "; the server takes no more (its maxclients)".to_string()
        }
        _ => String::new(),
    };
    format!("\n{made} of {wanted} connections were made{limit}")
}

/// Raises this process's limit of open files to the maximum. A failure is reported later, when the
/// limit is reached.
fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}
