//! SCAN: iterates over the keys of a database in small steps driven by the client.
//!
//! The keyspace is an array of shards, and each shard's table has its own scan. A client's cursor
//! encodes the position:
//!
//! ```text
//!   63                46 45                            8 7          0
//!  ┌────────────────────┬───────────────────────────────┬────────────┐
//!  │ 0                  │ cursor in the shard's table   │ shard      │
//!  └────────────────────┴───────────────────────────────┴────────────┘
//! ```
//!
//! A table's scan starts and ends with 0. When it ends, the scan moves to the next shard. After the
//! last shard the returned cursor is 0. No cursor in between is 0: in shard 0 the table's cursor is
//! not 0 after a step, and in the others the shard number is not 0.
//!
//! **Guarantee.** A key that exists during the whole scan is returned at least once: it never
//! leaves its shard, and the table gives the same guarantee. The scan skips empty shards without
//! holding them. The counter of a shard with such a key is never zero.
//!
//! **Work per call.** COUNT counts the keys examined, not the keys returned, so a call takes
//! bounded time whatever MATCH and TYPE filter out. In a small database most shards have few keys
//! or none, so one call must cover several shards. [`shards`] returns the shards for the dispatcher
//! to hold, and the command scans those.

use crate::collection_scan::{self, DEFAULT_COUNT, NOSCORES, NOVALUES, STEPS_PER_COUNT};
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error, SYNTAX};
use crate::lock::Lock;
use crate::registry::Command;
use weft_base::glob::Pattern;
use weft_base::slot::pattern_slot;
use weft_command_spec::{Flags, Group, Spec, Special};
use weft_keyspace::{Keyspace, Record, SHARDS, ShardSet};
use weft_resp::Reply;
use weft_types::{Kind, Type};

pub const SCAN: Command = Command {
    spec: Spec {
        name: "scan",
        arity: -2,
        flags: Flags::READONLY,
        keys: &[],
        acl: &[],
        group: Group::Generic,
        since: "2.8.0",
        summary: "Iterates over the keys of the database.",
        complexity: "O(COUNT) for a call, O(N) for a complete scan of N keys.",
        syntax: "cursor:integer [MATCH pattern] [COUNT count:integer] [TYPE type]@6.0.0",
        history: &[("6.0.0", "The option TYPE.")],
        tips: &["nondeterministic_output", "request_policy:special", "response_policy:special"],
        special: Special::NONE,
    },
    lock: Lock::ScanRange,
    run: scan,
    subcommands: &[],
};

const SHARD_BITS: u32 = 8;
const _: () = assert!(SHARDS == 1 << SHARD_BITS);

/// A position in the scan.
#[derive(Clone, Copy)]
struct Cursor {
    shard: u16,
    /// The table's own cursor.
    table_cursor: u64,
}

impl Cursor {
    /// Parses a cursor. Any 64-bit number is valid; one that no call returned does no harm.
    fn parse(text: &[u8]) -> Result<Cursor, Error> {
        let n = collection_scan::cursor(text)?;
        Ok(Cursor { shard: (n % SHARDS as u64) as u16, table_cursor: n >> SHARD_BITS })
    }

    /// The cursor as a number; 0 after the last shard.
    fn number(self) -> u64 {
        if usize::from(self.shard) < SHARDS {
            self.table_cursor << SHARD_BITS | u64::from(self.shard)
        } else {
            0
        }
    }
}

/// The arguments of SCAN.
struct Options<'a> {
    cursor: Cursor,
    filter: Filter<'a>,
}

impl<'a> Options<'a> {
    fn parse(args: &[&'a [u8]]) -> Result<Options<'a>, Error> {
        let cursor = Cursor::parse(args[1])?;
        Ok(Options { cursor, filter: Filter::parse(&args[2..], |_, _| Ok(false))? })
    }
}

/// The options of a scan over keys.
#[derive(Debug)]
pub struct Filter<'a> {
    pub count: u64,
    pattern: Option<Pattern<'a>>,
    /// `None`: every type.
    wanted_type: Option<Type>,
}

impl<'a> Filter<'a> {
    /// Parses the options. `other` gets each unknown word with the next argument, and returns whether the two are an
    /// option.
    ///
    /// # Errors
    /// Those of the reference, and those of `other`.
    pub fn parse(
        mut rest: &[&'a [u8]],
        mut other: impl FnMut(&'a [u8], &'a [u8]) -> Result<bool, Error>,
    ) -> Result<Filter<'a>, Error> {
        let mut filter = Filter { count: DEFAULT_COUNT, pattern: None, wanted_type: None };
        loop {
            rest = match rest {
                [] => return Ok(filter),
                [word, value, rest @ ..] if word.eq_ignore_ascii_case(b"count") => {
                    filter.count = collection_scan::count(value)?;
                    rest
                }
                [word, value, rest @ ..] if word.eq_ignore_ascii_case(b"match") => {
                    filter.pattern = collection_scan::pattern(value);
                    rest
                }
                [word, value, rest @ ..] if word.eq_ignore_ascii_case(b"type") => {
                    let unknown =
                        || Error::owned([&b"ERR unknown type name '"[..], value, b"'"].concat());
                    filter.wanted_type = Some(Type::by_name(value).ok_or_else(unknown)?);
                    rest
                }
                [word, ..] if word.eq_ignore_ascii_case(b"novalues") => return Err(NOVALUES),
                [word, ..] if word.eq_ignore_ascii_case(b"noscores") => return Err(NOSCORES),
                [word, value, rest @ ..] if other(word, value)? => rest,
                [..] => return Err(SYNTAX),
            };
        }
    }

    /// Whether the scan returns this record.
    pub fn matches(&self, record: &Record) -> bool {
        let type_of = || Kind::of(record.kind()).type_of();
        let matches_type = self.wanted_type.is_none_or(|wanted| type_of() == wanted);
        matches_type && self.pattern.is_none_or(|pattern| pattern.matches(record.key()))
    }

    /// The slot of all keys that can match, if it is one.
    pub fn slot(&self) -> Option<u16> {
        self.pattern.and_then(|pattern| pattern_slot(pattern.text()))
    }

    /// The steps after which a call ends that has not found COUNT keys.
    pub fn max_steps(&self) -> u64 {
        self.count.saturating_mul(STEPS_PER_COUNT)
    }
}

/// The shards to hold for a SCAN with these arguments in database `db`: the cursor's shard and the
/// next non-empty ones, until they have COUNT keys together. So one call scans a small database
/// completely, and a large one is scanned a shard at a time. For invalid arguments, an arbitrary
/// shard.
///
/// The key counts are momentary. O(`SHARDS`) at most.
pub fn shards(args: &[&[u8]], ks: &Keyspace, db: usize) -> ShardSet {
    let options = match args {
        [_, _, ..] => Options::parse(args),
        [..] => Err(SYNTAX),
    };
    let Ok(Options { cursor, filter }) = options else {
        return ShardSet::one(0);
    };
    let mut held = vec![cursor.shard];
    let mut covered = ks.shard_len(cursor.shard, db) as u64;
    for shard in cursor.shard + 1..SHARDS as u16 {
        if covered >= filter.count {
            break;
        }
        let keys = ks.shard_len(shard, db) as u64;
        if keys > 0 {
            held.push(shard);
            covered += keys;
        }
    }
    ShardSet::of(held)
}

fn scan(ctx: &mut Ctx<'_>) -> CmdResult {
    let options = Options::parse(ctx.args)?;
    let mut keys = Reply::new(ctx.reply.proto);
    let mut found = 0;
    let next = visit_keys(ctx, &options, |record| {
        if options.filter.matches(record) {
            keys.bulk(record.key());
            found += 1;
        }
    });
    ctx.reply.array(2);
    ctx.reply.bulk_int(next.number() as i64);
    ctx.reply.array(found);
    ctx.reply.append(&mut keys);
    Ok(())
}

/// Visits keys from the cursor on, until enough were visited or all held shards are done. Returns
/// the next cursor.
fn visit_keys(ctx: &mut Ctx<'_>, options: &Options<'_>, mut visit: impl FnMut(&Record)) -> Cursor {
    let mut cursor = options.cursor;
    let mut keys = 0;
    let mut steps = 0;
    let max_steps = options.filter.max_steps();
    while usize::from(cursor.shard) < SHARDS {
        let work_limit = keys >= options.filter.count || steps >= max_steps;
        let empty = ctx.db.shard_len(cursor.shard) == 0;
        // Empty shards are skipped even then: they would cost the client a call.
        if !empty && (work_limit || !ctx.db.holds(cursor.shard)) {
            break;
        }
        if !empty {
            steps += 1;
            cursor.table_cursor = ctx.db.scan_shard(cursor.shard, cursor.table_cursor, |record| {
                keys += 1;
                visit(&record);
            });
        }
        if empty || cursor.table_cursor == 0 {
            cursor = Cursor { shard: cursor.shard + 1, table_cursor: 0 };
        }
    }
    cursor
}
