//! Logging of XADD and XTRIM. The log has the chosen id and an exact trim, since the effect of an
//! approximate trim depends on block boundaries.

use super::stream;
use crate::ctx::Ctx;
use weft_keyspace::Key;
use weft_keyspace::log::unit::Arg;
use weft_types::stream::StreamId;

/// Logs the command. Trim options between argument 2 and `end` are made exact, and `id`, if given,
/// replaces argument `end`.
#[cold]
pub(super) fn log(ctx: &mut Ctx<'_>, key: &Key<'_>, end: usize, id: Option<StreamId>) {
    let (len, first) = match ctx.db.peek(key) {
        Some(record) => match stream(&record) {
            Ok(stream) if stream.log.is_empty() => (0, StreamId::MAX),
            Ok(stream) => (stream.log.len(), stream.log.first_id()),
            Err(_) => return,
        },
        None => return,
    };
    // An empty stream was trimmed completely.
    let (len, first) = (len.to_string(), first.text());
    let mut words: Vec<Arg<'_>> = vec![ctx.arg(0), ctx.arg(1)];
    let mut i = 2;
    while i < end {
        let (maxlen, minid) = (ctx.is(i, "maxlen"), ctx.is(i, "minid"));
        if (maxlen || minid) && ctx.args[i + 1] == b"~" {
            let bound = if maxlen { len.as_bytes() } else { first.as_bytes() };
            words.extend([ctx.arg(i), Arg::Bytes(b"="), Arg::Bytes(bound)]);
            i += 3;
        } else if ctx.is(i, "limit") {
            // LIMIT is only valid with an approximate trim.
            i += 2;
        } else {
            words.push(ctx.arg(i));
            i += 1;
        }
    }
    let id = id.map(|id| id.text());
    if let Some(id) = &id {
        words.push(Arg::Bytes(id.as_bytes()));
        i += 1;
    }
    words.extend((i..ctx.args.len()).map(|i| ctx.arg(i)));
    ctx.log_args(&words);
}
