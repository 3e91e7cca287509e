//! MULTI and EXEC: commands that are queued, and run as one.
//!
//! EXEC takes the union of the shards of all queued commands and of the watched keys, in order,
//! as one multi-key command would; nobody sees a state in between. A queued command that needs
//! the whole keyspace makes EXEC stop the world. A queue with much to do is run by the slow lane,
//! as a single command with much to do is. Here is what is queued and watched, and what it needs;
//! the stages of [`crate::dispatch`] run it.

use crate::dispatch::request::Task;
use std::sync::atomic::Ordering;
use weft_commands::{Error, Flags};
use weft_memory::holdings::Holding;
use weft_state::command_table::{Cmd, Run};
use weft_state::queued::Transaction;
use weft_state::server::Server;
use weft_state::session::Session;

const NOT_IN_MULTI: Error = Error::new("ERR EXEC without MULTI");
const ABORTED: Error = Error::new("EXECABORT Transaction discarded because of previous errors.");

/// Forgets transaction and watches: DISCARD, RESET.
pub fn discard(srv: &Server, session: &mut Session) {
    if let Some(transaction) = session.transaction.take() {
        release(srv, transaction);
    }
    session.watched = None;
}

/// Frees a transaction that was run or given up.
pub fn release(srv: &Server, transaction: Box<Transaction>) {
    srv.background.bio.release(transaction.commands(), move || drop(transaction));
}

/// Takes the session's transaction, to be run.
///
/// # Errors
/// There is none, or a command of it was refused; it is given up then.
pub fn take(srv: &Server, session: &mut Session) -> Result<Box<Transaction>, Error> {
    let transaction = session.transaction.take().ok_or(NOT_IN_MULTI)?;
    if transaction.failed {
        release(srv, transaction);
        discard(srv, session);
        renew_shared(session);
        return Err(ABORTED);
    }
    Ok(transaction)
}

/// EXEC can't run now: the transaction stays what it was.
pub fn put_back(task: &mut Task<'_>, transaction: Box<Transaction>) {
    task.session.transaction = Some(transaction);
}

/// Whether EXEC must be refused as its queue would be: out of memory, paused for writes.
pub fn flags_of(session: &Session, cmd: &Cmd) -> Flags {
    match (&session.transaction, cmd.run) {
        (Some(transaction), Run::Exec) => cmd.spec.flags.or(Flags(transaction.flags)),
        _ => cmd.spec.flags,
    }
}

/// Copies what CLIENT LIST shows of the transaction.
pub fn renew_shared(session: &Session) {
    let shared = &session.shared;
    let (transaction, watched) = (session.transaction.as_ref(), session.watched.as_ref());
    shared.transaction.is_open.store(transaction.is_some(), Ordering::Relaxed);
    let used = shared.transaction.queued.load(Ordering::Relaxed) >= 0;
    if used || transaction.is_some() || watched.is_some() {
        let queued = transaction.map_or(0, |t| t.commands() as i64);
        shared.transaction.queued.store(queued, Ordering::Relaxed);
    }
    shared.memory.holdings.set(Holding::Queue, transaction.map_or(0, |t| t.memory()));
    let before = shared.transaction.watched.load(Ordering::Relaxed);
    let keys = watched.map_or(0, |w| w.watched() as u64);
    // Most transactions come without WATCH.
    if (before, keys) != (0, 0) {
        shared.transaction.watched.store(keys, Ordering::Relaxed);
        let watch = watched.map(|w| w.watch().clone());
        *shared.transaction.watch.lock().unwrap_or_else(|p| p.into_inner()) = watch;
    }
}
