//! MULTI and EXEC: the session's queued commands and watched keys.
//!
//! EXEC takes the union of the shards of all queued commands and of the watched keys, in order, as one multi-key command
//! would; no client sees a state in between. A queued command that needs the whole keyspace makes EXEC stop the world. A
//! queue with much work runs in the slow lane. The transaction stays in its session until EXEC has all that it needs
//! ([`crate::dispatch::hold`]), so an attempt that fails leaves nothing to restore.

use std::sync::atomic::Ordering;
use weft_command_spec::Flags;
use weft_commands::Error;
use weft_memory::holdings::ClientMemoryKind;
use weft_state::asked_slot::AskedSlot;
use weft_state::command_table::{Cmd, Run};
use weft_state::queued::{Queued, Transaction};
use weft_state::server::Server;
use weft_state::session::Session;

const NOT_IN_MULTI: Error = Error::new("ERR EXEC without MULTI");
const ABORTED: Error = Error::new("EXECABORT Transaction discarded because of previous errors.");

/// Drops the transaction and the watches: DISCARD, RESET.
pub fn discard(srv: &Server, session: &mut Session) {
    if let Some(transaction) = session.transaction.take() {
        release(srv, transaction);
    }
    session.watched = None;
}

/// Frees a transaction, in the background if it is large.
fn release(srv: &Server, transaction: Box<Transaction>) {
    srv.process.background.bio.release(transaction.commands(), move || drop(transaction));
}

/// Checks that EXEC can run the session's transaction.
///
/// # Errors
/// There is no transaction, or one of its commands was refused: then it is discarded.
pub fn check(srv: &Server, session: &mut Session) -> Result<(), Error> {
    let transaction = session.transaction.as_ref().ok_or(NOT_IN_MULTI)?;
    if transaction.failed {
        discard(srv, session);
        renew_shared(session);
        return Err(ABORTED);
    }
    Ok(())
}

/// The commands that the session has queued.
pub fn queue(session: &Session) -> &[Queued] {
    session.transaction.as_ref().map_or(&[], |transaction| &transaction.queue)
}

/// In cluster mode, the slot of the commands that the session has queued.
pub fn slot(session: &Session) -> AskedSlot {
    session.transaction.as_ref().map_or(AskedSlot::None, |transaction| transaction.slot)
}

/// Whether one of the queued commands runs a script.
pub fn has_script(session: &Session) -> bool {
    queue(session).iter().any(|queued| matches!(queued.cmd.run, Run::Script(_)))
}

/// Queued commands and watched keys of the session.
pub fn size(session: &Session) -> usize {
    let watched = session.watched.as_ref().map_or(0, |watched| watched.watched());
    session.transaction.as_ref().map_or(0, |transaction| transaction.commands()) + watched
}

/// The flags of a command; of EXEC, with those of the queued commands: it is refused as they would be. A script may write:
/// a pause of writes delays it.
pub fn flags_of(session: &Session, cmd: &Cmd) -> Flags {
    match (&session.transaction, cmd.run) {
        (Some(transaction), Run::Exec) => cmd.spec.flags.or(Flags(transaction.flags)),
        (_, Run::Script(script)) if !script.only_reads => cmd.spec.flags.or(Flags::MAY_REPLICATE),
        _ => cmd.spec.flags,
    }
}

/// Whether a command has a flag; of EXEC, whether all queued commands have it, too.
pub fn all_have(session: &Session, cmd: &Cmd, flag: Flags) -> bool {
    let queued = match cmd.run {
        Run::Exec => queue(session),
        Run::Data { .. } | Run::Server(_) | Run::Watch | Run::Script(_) => &[],
    };
    cmd.spec.flags.has(flag) && queued.iter().all(|queued| queued.cmd.spec.flags.has(flag))
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
    shared.memory.holdings.set(ClientMemoryKind::Queue, transaction.map_or(0, |t| t.memory()));
    let before = shared.transaction.watched.load(Ordering::Relaxed);
    let keys = watched.map_or(0, |w| w.watched() as u64);
    // Most transactions have no WATCH.
    if (before, keys) != (0, 0) {
        shared.transaction.watched.store(keys, Ordering::Relaxed);
        let watch = watched.map(|w| w.watch().clone());
        *shared.transaction.watch.lock().unwrap_or_else(|p| p.into_inner()) = watch;
    }
}
