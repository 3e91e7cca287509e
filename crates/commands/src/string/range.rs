//! APPEND, GETRANGE (SUBSTR), SETRANGE, STRLEN: parts of a value, and its length.

use super::{TOO_LONG, string, write_string};
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error};
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Flags, Group, QueuedWork, Spec, Special, keys};
use weft_keyspace::{Classes, Record};
use weft_types::string::{
    self as strings, Digits, TextMut, edit_text, edit_work, record, record_text,
};

pub const APPEND: Command = Command {
    spec: Spec {
        name: "append",
        arity: 3,
        flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
        keys: &keys::one(&["RW", "INSERT"]),
        acl: &[],
        group: Group::String,
        since: "2.0.0",
        summary: "Appends a string to a key's value. Creates the key if it does not exist.",
        complexity: "O(1), amortized over many appends of short strings.",
        syntax: "key value",
        history: &[],
        tips: &[],
        special: Special::queued_work(QueuedWork::ChangeBytes),
    },
    lock: Lock::Keys,
    run: append,
    subcommands: &[],
};

pub const GETRANGE: Command = Command {
    spec: Spec {
        name: "getrange",
        arity: 4,
        flags: Flags::READONLY,
        keys: &keys::one(&["RO", "ACCESS"]),
        since: "2.4.0",
        summary: "Returns a part of a key's string value.",
        complexity: "O(N) where N is the length of the reply.",
        syntax: "key start:integer end:integer",
        special: Special::queued_work(QueuedWork::ReadBytes),
        ..APPEND.spec
    },
    run: getrange,
    ..APPEND
};

pub const SUBSTR: Command = Command {
    spec: Spec {
        name: "substr",
        flags: GETRANGE.spec.flags,
        since: "1.0.0",
        summary: "Returns a part of a key's string value. The old name of GETRANGE.",
        special: Special::queued_work(QueuedWork::ReadBytes),
        ..GETRANGE.spec
    },
    ..GETRANGE
};

pub const SETRANGE: Command = Command {
    spec: Spec {
        name: "setrange",
        arity: 4,
        flags: Flags::WRITE.or(Flags::DENYOOM),
        keys: &keys::one(&["RW", "UPDATE"]),
        since: "2.2.0",
        summary: "Overwrites a part of a key's value. Creates the key if it does not exist.",
        complexity: "O(N) where N is the length of the given string plus the growth of the value.",
        syntax: "key offset:integer value",
        special: Special::queued_work(QueuedWork::ChangeBytes),
        ..APPEND.spec
    },
    run: setrange,
    ..APPEND
};

pub const STRLEN: Command = Command {
    spec: Spec {
        name: "strlen",
        arity: 2,
        flags: Flags::READONLY.or(Flags::FAST),
        keys: &keys::one(&["RO"]),
        since: "2.2.0",
        summary: "Returns the length of a key's string value.",
        complexity: "O(1)",
        syntax: "key",
        special: Special::NONE,
        ..APPEND.spec
    },
    run: strlen,
    ..APPEND
};

/// Bytes of a string copied in the time of one element of a collection: see [`Ctx::weigh`].
pub const BYTES_PER_ELEMENT: usize = 1024;

/// The work of changing a part of the string of `record`, which is copied if it is shared, for
/// [`Ctx::weigh`]. O(1).
pub fn change_work(record: &Record) -> usize {
    edit_work(record, 0) / BYTES_PER_ELEMENT
}

const BAD_OFFSET: Error = Error::new("ERR offset is out of range");

fn append(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let tail = ctx.args[2];
    let len = match ctx.db.for_write(&key) {
        None => {
            let clock = ctx.db.context.access.fresh();
            ctx.db.set(&key, record(key.bytes, ctx.value(2), None, clock));
            tail.len()
        }
        Some(old) => {
            let end = string(&old)?.len();
            let len = checked_end(end, tail.len(), ctx.settings.max_string)?;
            let work = edit_work(&old, len);
            ctx.weigh(work / BYTES_PER_ELEMENT)?;
            ctx.db.update(&key, |old| strings::append(old, tail));
            len
        }
    };
    ctx.notify(Classes::STRING, "append", &key);
    ctx.dirty();
    ctx.reply.int(len as i64);
    Ok(())
}

fn setrange(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let at = usize::try_from(ctx.int(2)?).map_err(|_| BAD_OFFSET)?;
    let part = ctx.args[3];
    let old = match ctx.db.for_write(&key) {
        Some(old) => Some((string(&old)?.len(), edit_work(&old, at.saturating_add(part.len())))),
        None => None,
    };
    if part.is_empty() {
        ctx.reply.int(old.map_or(0, |(len, _)| len) as i64);
        return Ok(());
    }
    let end = checked_end(at, part.len(), ctx.settings.max_string)?;
    if let Some((_, work)) = old {
        ctx.weigh(work / BYTES_PER_ELEMENT)?;
    }
    let write = |mut text: TextMut<'_>| text.write(at, part);
    if old.is_some() {
        ctx.db.update(&key, |old| edit_text(old, end, write));
    } else {
        let empty = record_text(key.bytes, b"", None, ctx.db.context.access.fresh());
        ctx.db.set(&key, edit_text(empty, end, write));
    }
    ctx.notify(Classes::STRING, "setrange", &key);
    ctx.dirty();
    ctx.reply.int(end.max(old.map_or(0, |(len, _)| len)) as i64);
    Ok(())
}

/// The end of `len` bytes written at `at`, or the error if it exceeds `max`.
fn checked_end(at: usize, len: usize, max: usize) -> Result<usize, Error> {
    at.checked_add(len).filter(|end| *end <= max).ok_or(TOO_LONG)
}

fn getrange(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let (start, end) = (ctx.int(2)?, ctx.int(3)?);
    let Some(record) = ctx.db.read(&key) else {
        ctx.reply.bulk(b"");
        return Ok(());
    };
    let mut room = Digits::new();
    let text = string(&record)?.text(&mut room);
    match clamp_range(start, end, text.len()) {
        // A whole large value is sent without a copy.
        whole if whole.len() == text.len() => write_string(ctx.reply, &record)?,
        part => {
            ctx.lane.weigh(part.len() / BYTES_PER_ELEMENT, &mut ctx.pause)?;
            match text.slice_from(part.start).get(..part.len()) {
                Some(bytes) => ctx.reply.bulk(bytes),
                None => ctx.reply.bulk_slices(part.len(), text.slices(part)),
            }
        }
    }
    Ok(())
}

/// The range from `start` to `end` (inclusive) of `len` bytes. Negative numbers count from the end.
/// Positions are clamped to the value, so a range entirely before the beginning is the first byte.
/// Only reversed ranges of negative positions, such as -3 to -5, are empty.
fn clamp_range(start: i64, end: i64, len: usize) -> std::ops::Range<usize> {
    if len == 0 || (start < 0 && end < 0 && start > end) {
        return 0..0;
    }
    let place = |i: i64| {
        let back = usize::try_from(i.unsigned_abs()).unwrap_or(usize::MAX);
        if i < 0 { len.saturating_sub(back) } else { back }
    };
    let (start, last) = (place(start), place(end).min(len - 1));
    if start > last { 0..0 } else { start..last + 1 }
}

fn strlen(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let len = match ctx.db.read(&key) {
        Some(record) => string(&record)?.len(),
        None => 0,
    };
    ctx.reply.int(len as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_clamped() {
        for (start, end, len, want) in [
            (0, -1, 5, 0..5),
            (1, 2, 5, 1..3),
            (-3, -2, 5, 2..4),
            (5, 10, 5, 0..0),
            (3, 1, 5, 0..0),
            (-100, -90, 5, 0..1),
            (-100, -100, 5, 0..1),
            (0, -100, 5, 0..1),
            (-1, -5, 5, 0..0),
            (1, -100, 5, 0..0),
            (0, -1, 0, 0..0),
            (i64::MIN, i64::MAX, 5, 0..5),
            (i64::MAX, i64::MAX, 5, 0..0),
            (i64::MIN, i64::MIN, 5, 0..1),
        ] {
            assert_eq!(clamp_range(start, end, len), want, "{start} {end} {len}");
        }
    }

    #[test]
    fn lengths_are_limited() {
        assert_eq!(checked_end(3, 2, 5), Ok(5));
        assert_eq!(checked_end(3, 3, 5), Err(TOO_LONG));
        assert_eq!(checked_end(usize::MAX, 2, 5), Err(TOO_LONG));
    }
}
