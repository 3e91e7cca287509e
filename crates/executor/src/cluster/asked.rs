//! The slot of a request, and whether its keys are here.

use crate::dispatch::core::Core;
use crate::dispatch::request::Request;
use crate::script::resolve;
use crate::transaction;
use smallvec::SmallVec;
use std::sync::atomic::Ordering;
use weft_base::num::parse_i64;
use weft_base::slot::key_slot;
use weft_cluster::{Asker, KeysFound};
use weft_command_spec::{CommandRole, Databases, Flags, GetKeys, Spec};
use weft_keyspace::{Db, ExecContext, Guard};
use weft_state::args::ArgBuf;
pub use weft_state::asked_slot::AskedSlot;
use weft_state::clients::ClientShared;
use weft_state::command_table::{Cmd, Run};
use weft_state::session::Session;

/// The slot of a request; of EXEC, that of all queued commands, unless one was refused: then EXEC is, too. O(arguments); of EXEC, O(1).
pub fn find_slot(session: &Session, cmd: &Cmd, args: &[&[u8]]) -> AskedSlot {
    let Run::Exec = cmd.run else { return slot_of_command(cmd.spec, args) };
    if session.transaction.as_ref().is_some_and(|transaction| transaction.failed) {
        return AskedSlot::None;
    }
    transaction::slot(session)
}

/// The slot of a request between MULTI and EXEC.
pub fn slot_of_queued(cmd: &Cmd, request: &Request<'_>) -> AskedSlot {
    match &request.key {
        Some(key) if cmd.has_one_key(request.args.len()) => AskedSlot::One(key.slot),
        _ => slot_of_command(cmd.spec, request.args),
    }
}

/// Whether a request is a write without keys, or an EXEC of one.
pub fn writes_without_keys(session: &Session, cmd: &Cmd, args: &[&[u8]]) -> bool {
    let is_one = |spec: &Spec, args: &[&[u8]]| {
        spec.flags.has(Flags::WRITE) && slot_of_command(spec, args) == AskedSlot::None
    };
    let Run::Exec = cmd.run else { return is_one(cmd.spec, args) };
    let queued = transaction::queue(session).iter();
    queued.into_iter().any(|queued| is_one(queued.cmd.spec, &queued_args(&queued.args)))
}

/// The slot of the keys and shard channels of a command.
pub fn slot_of_command(spec: &Spec, args: &[&[u8]]) -> AskedSlot {
    let mut asked = AskedSlot::None;
    match spec.hashed_positions(args, |at| asked = asked.and(AskedSlot::One(key_slot(args[at])))) {
        Some(()) => asked,
        // It has no keys, and fails with an error of its own.
        None => AskedSlot::None,
    }
}

/// The client and the command that ask.
pub fn asker(core: &mut Core, session: &Session, cmd: &Cmd, args: &[&[u8]], asking: bool) -> Asker {
    let flags = transaction::flags_of(session, cmd);
    let writes = match cmd.run {
        Run::Script(command) => resolve::declares_writes(core, args, command),
        Run::Data { .. } | Run::Server(_) | Run::Exec | Run::Watch => flags.has(Flags::WRITE),
    };
    Asker {
        writes,
        readonly: is_readonly(&session.shared),
        asking: asking || flags.has(Flags::ASKING),
        shard_channels: flags.has(Flags::PUBSUB),
        migrates: cmd.spec.special.get_keys == GetKeys::Migrate,
    }
}

/// Looks for the keys of a request, whose shards the guard holds. O(keys).
pub fn find_keys(
    context: &mut ExecContext,
    guard: &Guard<'_>,
    session: &Session,
    cmd: &Cmd,
    args: &[&[u8]],
) -> KeysFound {
    let mut search = Search { context, guard, first: None, found: KeysFound::default() };
    let Run::Exec = cmd.run else {
        search.add(cmd, args, session.db);
        return search.found;
    };
    let mut db = session.db;
    let args: Vec<_> =
        transaction::queue(session).iter().map(|queued| queued_args(&queued.args)).collect();
    for (queued, args) in transaction::queue(session).iter().zip(&args) {
        db = selected(guard, queued.cmd, args).unwrap_or(db);
        search.add(queued.cmd, args, db);
    }
    search.found
}

/// The database that a queued SELECT selects.
fn selected(guard: &Guard<'_>, cmd: &Cmd, args: &[&[u8]]) -> Option<usize> {
    if cmd.spec.special.role != CommandRole::Select {
        return None;
    }
    let db = usize::try_from(parse_i64(args.get(1)?)?).ok()?;
    (db < guard.keyspace().databases()).then_some(db)
}

/// A search for the keys of a request.
struct Search<'s, 'a> {
    context: &'s mut ExecContext,
    guard: &'s Guard<'s>,
    first: Option<&'a [u8]>,
    found: KeysFound,
}

impl<'a> Search<'_, 'a> {
    fn add(&mut self, cmd: &Cmd, args: &'a [&'a [u8]], db: usize) {
        let mut db_view = Db::new(self.guard, self.context, db);
        let (found, first) = (&mut self.found, &mut self.first);
        let _ = cmd.spec.hashed_positions(args, |at| {
            found.several |= *first.get_or_insert(args[at]) != args[at];
            let key = db_view.key(args[at]);
            // A command on the server may have keys that it doesn't lock: it only looks at them, too.
            let is_here = !db_view.holds(key.shard())
                || !db_view.is_expired(&key) && db_view.peek(&key).is_some();
            match is_here {
                true => found.existing += 1,
                false => found.missing += 1,
            }
        });
        found.crosses_databases |= crosses_databases(cmd, args, db);
    }
}

/// Whether the command is MOVE, or COPY to another database: the key there is not expected to exist, so it is unknown whether it
/// has moved.
pub fn crosses_databases(cmd: &Cmd, args: &[&[u8]], db: usize) -> bool {
    match cmd.spec.special.databases {
        Databases::At(_) => !cmd.spec.keys.is_empty(),
        Databases::AfterDb => {
            let is_db = args.get(3).is_some_and(|word| word.eq_ignore_ascii_case(b"db"));
            let to = || args.get(4).and_then(|to| parse_i64(to));
            is_db && to() != i64::try_from(db).ok()
        }
        Databases::Current | Databases::All => false,
    }
}

/// Whether the client said READONLY.
pub fn is_readonly(client: &ClientShared) -> bool {
    client.options.readonly.load(Ordering::Relaxed)
}

/// The arguments of a queued command.
fn queued_args(args: &[ArgBuf]) -> SmallVec<[&[u8]; 16]> {
    args.iter().map(ArgBuf::bytes).collect()
}
