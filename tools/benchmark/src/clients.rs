//! The clients of a run: connects them, and where that ends early says how far it got and what
//! limit it met.
//!
//! A server that has enough clients accepts one more, says so and hangs up. The tool would notice
//! only under load, when all connections speak at once. So now and then, and at the end, the latest
//! connection sends a PING: servers accept in order, and when the latest is served, so are those
//! before it.

use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::control::{Control, Reply};
use crate::plan::Plan;
use crate::run::plain;
use crate::stream::NonBlocking;

/// Connections between two looks at whether the server still takes them.
const BATCH: usize = 256;

/// Connects the clients of a run, with greetings: the streams by thread, with the places of their
/// nodes.
///
/// # Errors
/// With where it could not connect, why, and how many connections there were by then.
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

/// The first connection of a batch that the server did not keep; looked for only when the last was
/// not kept.
fn refused(batch: &mut [Control]) -> Option<(usize, io::Error)> {
    let last = turned_away(batch.last_mut()?)?;
    let found = batch.iter_mut().enumerate();
    let first = found.map(|(at, control)| (at, turned_away(control))).find(|(_, e)| e.is_some());
    match first {
        Some((at, Some(e))) => Some((at, e)),
        Some((_, None)) | None => Some((batch.len() - 1, last)),
    }
}

/// Why the server did not keep a connection. Any other answer to a PING is one.
fn turned_away(control: &mut Control) -> Option<io::Error> {
    match control.ask(&["PING"]) {
        Ok(Reply::Error(error)) if error.contains("max number of clients") => {
            Some(io::Error::other(error))
        }
        // the test itself reports a malformed reply
        Err(e) if e.kind() != io::ErrorKind::InvalidData => Some(e),
        Ok(_) | Err(_) => None,
    }
}

/// How many connections there were, and what limit it may have been. Nothing for the very first.
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

/// Lets this process open as many files as it may ask for. Without success it is met later, and
/// said there.
fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}
