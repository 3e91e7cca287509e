//! XSETID: sets a stream's last id and counters, for replication and restores.

use super::id;
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error, NO_SUCH_KEY, SYNTAX, WRONG_TYPE};
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Flags, Group, QueuedWork, Spec, Special, keys};
use weft_keyspace::Classes;
use weft_keyspace::db::Rework;
use weft_types::stream::{Log, Stream, StreamId};

pub const XSETID: Command = Command {
    spec: Spec {
        name: "xsetid",
        arity: -3,
        flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
        keys: &keys::one(&["RW", "UPDATE"]),
        acl: &[],
        group: Group::Stream,
        since: "5.0.0",
        summary: "Sets the last id and the counters of a stream, for replication.",
        complexity: "O(1)",
        syntax: "key last-id [ENTRIESADDED entries-added:integer]@7.0.0 \
                 [MAXDELETEDID max-deleted-id]@7.0.0",
        history: &[("7.0.0", "ENTRIESADDED and MAXDELETEDID.")],
        tips: &[],
        special: Special::queued_work(QueuedWork::Constant),
    },
    lock: Lock::Keys,
    run: xsetid,
    subcommands: &[],
};

const NEGATIVE: Error = Error::new("ERR entries_added must be positive");
const BELOW_GIVEN: Error =
    Error::new("ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id");
const BELOW_DELETED: Error =
    Error::new("ERR The ID specified in XSETID is smaller than current max_deleted_entry_id");
const BELOW_TOP: Error =
    Error::new("ERR The ID specified in XSETID is smaller than the target stream top item");
const TOO_FEW: Error = Error::new(
    "ERR The entries_added specified in XSETID is smaller than the target stream length",
);

/// The arguments after the key.
struct Settings {
    last: StreamId,
    added: Option<u64>,
    /// 0-0 keeps the current value.
    max_deleted: StreamId,
}

impl Settings {
    fn parse(ctx: &Ctx<'_>) -> Result<Settings, Error> {
        let last = id(ctx.args[2])?;
        let mut settings = Settings { last, added: None, max_deleted: StreamId::MIN };
        let mut i = 3;
        while i < ctx.args.len() {
            if i + 1 == ctx.args.len() {
                return Err(SYNTAX);
            }
            if ctx.is(i, "entriesadded") {
                settings.added = Some(u64::try_from(ctx.int(i + 1)?).map_err(|_| NEGATIVE)?);
            } else if ctx.is(i, "maxdeletedid") {
                settings.max_deleted = id(ctx.args[i + 1])?;
                if last < settings.max_deleted {
                    return Err(BELOW_GIVEN);
                }
            } else {
                return Err(SYNTAX);
            }
            i += 2;
        }
        Ok(settings)
    }

    fn set(&self, log: &mut Log) -> Result<(), Error> {
        if self.last < log.max_deleted_id {
            return Err(BELOW_DELETED);
        }
        if log.last_entry_id().is_some_and(|top| self.last < top) {
            return Err(BELOW_TOP);
        }
        // An empty stream accepts any value.
        if self.added.is_some_and(|added| added < log.len()) {
            return Err(TOO_FEW);
        }
        log.last_id = self.last;
        if let Some(added) = self.added {
            log.entries_added = added;
        }
        if self.max_deleted != StreamId::MIN {
            log.max_deleted_id = self.max_deleted;
        }
        Ok(())
    }
}

fn xsetid(ctx: &mut Ctx<'_>) -> CmdResult {
    let settings = Settings::parse(ctx)?;
    let key = ctx.key(1);
    ctx.db.rework(&key, |record, _| match record {
        None => (Rework::Absent, Err(NO_SUCH_KEY)),
        Some(mut record) => {
            let set = match Stream::of_mut(&mut record) {
                Some(stream) => settings.set(&mut stream.log),
                None => Err(WRONG_TYPE),
            };
            match set {
                Ok(()) => (Rework::Changed(record), set),
                Err(_) => (Rework::Same(record), set),
            }
        }
    })?;
    ctx.notify(Classes::STREAM, "xsetid", &key);
    ctx.dirty();
    ctx.reply.ok();
    Ok(())
}
