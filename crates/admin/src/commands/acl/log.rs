//! ACL LOG.

use weft_acl::LogEntry;
use weft_base::num_format::fmt_f64;
use weft_commands::{CmdResult, Error, error};
use weft_executor::dispatch::core::ConnCx;
use weft_resp::Reply;

/// The entries that are returned when no count is given.
const DEFAULT_COUNT: usize = 10;

pub fn log(cx: &mut ConnCx<'_>) -> CmdResult {
    let count = match cx.args.len() {
        2 => DEFAULT_COUNT,
        3 if cx.is(2, "reset") => {
            cx.srv().access.log().clear();
            cx.reply.ok();
            return Ok(());
        }
        3 => count(cx)?,
        _ => return Err(crate::commands::acl::too_many(cx)),
    };
    let now = cx.srv().now_ms();
    let log = cx.srv().access.log();
    let count = count.min(log.iter().len());
    cx.reply.array(count);
    log.iter().take(count).for_each(|entry| describe(cx.reply, entry, now));
    Ok(())
}

/// A negative count returns no entries.
fn count(cx: &ConnCx<'_>) -> Result<usize, Error> {
    let count = weft_base::num::parse_i64(cx.args[2]).ok_or(error::NOT_AN_INTEGER)?;
    Ok(usize::try_from(count).unwrap_or(0))
}

fn describe(reply: &mut Reply, entry: &LogEntry, now: i64) {
    let last = &entry.last;
    reply.map(10);
    reply.bulk(b"count");
    reply.int(entry.count as i64);
    for (field, value) in [
        ("reason", last.reason.word().as_bytes()),
        ("context", last.context.word().as_bytes()),
        ("object", &last.object),
        ("username", &last.user),
    ] {
        reply.bulk(field.as_bytes());
        reply.bulk(value);
    }
    reply.bulk(b"age-seconds");
    let age = (now - last.now) as f64 / 1000.0;
    reply.double(&String::from_utf8_lossy(&fmt_f64(age)));
    reply.bulk(b"client-info");
    reply.bulk(&last.client);
    for (field, value) in [
        ("entry-id", entry.id as i64),
        ("timestamp-created", entry.created),
        ("timestamp-last-updated", last.now),
    ] {
        reply.bulk(field.as_bytes());
        reply.int(value);
    }
}
