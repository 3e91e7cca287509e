//! BITFIELD and BITFIELD_RO: several operations on integers in a string.
//!
//! All operations are parsed before the first one runs, so an invalid one changes nothing. The
//! string grows at the start to hold the last bit that any operation writes, even if that write
//! then overflows and fails.

use super::integer::{Integer, MAX_SPAN, Overflow};
use super::offset;
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error, SYNTAX};
use crate::lock::Lock;
use crate::registry::Command;
use crate::string::range::BYTES_PER_ELEMENT;
use crate::string::string;
use smallvec::SmallVec;
use weft_command_spec::{
    Begin, Find, Flags, GetKeys, Group, KeySpec, QueuedWork, Spec, Special, keys,
};
use weft_keyspace::Classes;
use weft_keyspace::db::Rework;
use weft_resp::Reply;
use weft_types::string::{
    Digits, Pieces, Text, TextMut, edit_text, edit_work, place_work, record_text,
};

pub const BITFIELD: Command = Command {
    spec: Spec {
        name: "bitfield",
        arity: -2,
        flags: Flags::WRITE.or(Flags::DENYOOM),
        keys: &[KeySpec {
            flags: &["RW", "ACCESS", "UPDATE", "VARIABLE_FLAGS"],
            begin: Begin::Index(1),
            find: Find::Range { last: 0, step: 1, limit: 0 },
            notes: "only read when all operations are `GET`",
        }],
        acl: &[],
        group: Group::Bitmap,
        since: "3.2.0",
        summary: "Reads, writes and increments integers of any width in a key's value.",
        complexity: "O(1) for each operation, plus O(N) when the value grows by N bytes.",
        syntax: "key [operation=(GET get-block=(encoding offset:integer)|\
                 write=([OVERFLOW overflow-block=(wrap=WRAP|sat=SAT|fail=FAIL)] \
                 write-operation=(SET set-block=(encoding offset:integer value:integer)|\
                 INCRBY incrby-block=(encoding offset:integer increment:integer))))...]",
        history: &[],
        tips: &[],
        special: Special {
            queued_work: QueuedWork::ChangeBytes,
            get_keys: GetKeys::Bitfield,
            ..Special::NONE
        },
    },
    lock: Lock::Keys,
    run: |ctx| bitfield(ctx, true),
    subcommands: &[],
};

pub const BITFIELD_RO: Command = Command {
    spec: Spec {
        name: "bitfield_ro",
        flags: Flags::READONLY.or(Flags::FAST),
        keys: &keys::one(&["RO", "ACCESS"]),
        since: "6.0.0",
        summary: "Reads integers of any width in a key's value.",
        complexity: "O(1) for each operation.",
        syntax: "key [GET get-block=(encoding offset:integer)...+]",
        special: Special::NONE,
        ..BITFIELD.spec
    },
    run: |ctx| bitfield(ctx, false),
    ..BITFIELD
};

const BAD_TYPE: Error = Error::new(
    "ERR Invalid bitfield type. Use something like i16 u8. \
     Note that u64 is not supported but i64 is.",
);
const BAD_OVERFLOW: Error = Error::new("ERR Invalid OVERFLOW type specified");
const ONLY_GET: Error = Error::new("ERR BITFIELD_RO only supports the GET subcommand");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Get,
    /// Sets the integer to this value.
    Set(i64),
    /// Adds this number.
    Increment(i64),
}

/// An operation on the integer at one position.
#[derive(Clone, Copy, Debug)]
struct Operation {
    integer: Integer,
    /// Its first bit.
    at: usize,
    action: Action,
    overflow: Overflow,
}

type Operations = SmallVec<[Operation; 4]>;

impl Operation {
    /// The position after its last bit.
    fn end(&self) -> usize {
        self.at + self.integer.width as usize
    }

    fn writes(&self) -> bool {
        self.action != Action::Get
    }

    /// The bytes that it may touch, starting at the byte of its first bit, and their number.
    fn span(&self, pieces: &Pieces) -> ([u8; MAX_SPAN], usize) {
        let mut span = [0; MAX_SPAN];
        let len = pieces.read(self.at / 8, &mut span);
        (span, len)
    }

    /// As [`Operation::run`], for a string in pieces. Writes only when the integer changes.
    fn run_in_pieces(&self, pieces: &mut Pieces, reply: &mut Reply) -> Written {
        let (mut span, len) = self.span(pieces);
        let written = Operation { at: self.at % 8, ..*self }.run(&mut span[..len], reply);
        if written == Written::Changed {
            pieces.write(self.at / 8, &span[..len]);
        }
        written
    }

    /// Runs the operation and writes its reply. Returns whether the integer has changed.
    fn run(&self, bytes: &mut [u8], reply: &mut Reply) -> Written {
        let old = self.integer.read(bytes, self.at);
        let (new, answer) = match self.action {
            Action::Get => {
                reply.int(old);
                return Written::Nothing;
            }
            Action::Set(n) => (self.integer.convert(n, self.overflow), Some(old)),
            Action::Increment(n) => {
                let new = self.integer.add(old, n, self.overflow);
                (new, new)
            }
        };
        let (Some(new), Some(answer)) = (new, answer) else {
            reply.null();
            return Written::Nothing;
        };
        reply.int(answer);
        self.integer.write(bytes, self.at, new);
        if new == old { Written::Same } else { Written::Changed }
    }
}

/// The effect of an operation on the string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Nothing,
    /// The value that was there before.
    Same,
    Changed,
}

fn parse(ctx: &Ctx<'_>) -> Result<Operations, Error> {
    let mut operations = Operations::new();
    let mut overflow = Overflow::default();
    let mut i = 2;
    while i < ctx.args.len() {
        let words_left = ctx.args.len() - i - 1;
        if ctx.is(i, "OVERFLOW") && words_left >= 1 {
            overflow = match ctx.args[i + 1] {
                word if word.eq_ignore_ascii_case(b"wrap") => Overflow::Wrap,
                word if word.eq_ignore_ascii_case(b"sat") => Overflow::Saturate,
                word if word.eq_ignore_ascii_case(b"fail") => Overflow::Fail,
                _ => return Err(BAD_OVERFLOW),
            };
            i += 2;
            continue;
        }
        let action: Option<fn(i64) -> Action> = match words_left {
            2.. if ctx.is(i, "GET") => None,
            3.. if ctx.is(i, "SET") => Some(Action::Set),
            3.. if ctx.is(i, "INCRBY") => Some(Action::Increment),
            _ => return Err(SYNTAX),
        };
        let integer = Integer::parse(ctx.args[i + 1]).ok_or(BAD_TYPE)?;
        let at = offset(ctx, i + 2, Some(integer.width))?;
        let action = match action {
            None => Action::Get,
            Some(action) => action(ctx.int(i + 3)?),
        };
        i += if action == Action::Get { 3 } else { 4 };
        operations.push(Operation { integer, at, action, overflow });
    }
    Ok(operations)
}

fn bitfield(ctx: &mut Ctx<'_>, may_write: bool) -> CmdResult {
    ctx.weigh_args()?;
    let operations = parse(ctx)?;
    let writes = operations.iter().filter(|operation| operation.writes());
    match writes.map(Operation::end).max() {
        None => read(ctx, &operations),
        Some(_) if !may_write => Err(ONLY_GET),
        Some(end) => write(ctx, &operations, end.div_ceil(8)),
    }
}

fn read(ctx: &mut Ctx<'_>, operations: &[Operation]) -> CmdResult {
    let key = ctx.key(1);
    let record = ctx.db.read(&key);
    let mut room = Digits::new();
    let text = match &record {
        None => Text::Whole(b""),
        Some(record) => string(record)?.text(&mut room),
    };
    ctx.reply.array(operations.len());
    for operation in operations {
        ctx.reply.int(match text {
            Text::Whole(bytes) => operation.integer.read(bytes, operation.at),
            Text::Pieces(pieces) => {
                let (span, len) = operation.span(pieces);
                operation.integer.read(&span[..len], operation.at % 8)
            }
        });
    }
    Ok(())
}

/// Runs the operations on a string of at least `end` bytes.
fn write(ctx: &mut Ctx<'_>, operations: &[Operation], end: usize) -> CmdResult {
    let key = ctx.key(1);
    let (lane, pause, reply) = (ctx.lane, &mut ctx.pause, &mut *ctx.reply);
    let changes = ctx.db.rework(&key, |old, clock| {
        let (old, len) = match old {
            None => (record_text(key.bytes, b"", None, clock), 0),
            Some(old) => {
                let len = string(&old).map(|text| text.len());
                let places = operations.len().saturating_mul(place_work(&old));
                let work = edit_work(&old, end).saturating_add(places) / BYTES_PER_ELEMENT;
                match len.and_then(|len| lane.weigh(work, pause).map(|()| len)) {
                    Ok(len) => (old, len),
                    Err(e) => return (Rework::Same(old), Err(e)),
                }
            }
        };
        let grows = end > len;
        let mut changes = 0;
        let new = edit_text(old, end, |mut text| {
            reply.array(operations.len());
            for operation in operations {
                let written = match &mut text {
                    TextMut::Whole(bytes) => operation.run(bytes, reply),
                    TextMut::Pieces(pieces) => operation.run_in_pieces(pieces, reply),
                };
                changes += match written {
                    Written::Nothing => 0,
                    Written::Same => u64::from(grows),
                    Written::Changed => 1,
                };
            }
        });
        let changed = grows || changes > 0;
        let rework = if changed { Rework::Changed(new) } else { Rework::Same(new) };
        (rework, Ok(changes))
    })?;
    if changes > 0 {
        ctx.notify(Classes::STRING, "setbit", &key);
    }
    ctx.db.context.tally.dirty += changes;
    Ok(())
}
