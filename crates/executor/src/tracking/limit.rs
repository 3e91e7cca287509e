//! `tracking-table-max-keys`: when too many keys are remembered, some are declared invalid early.
//!
//! A key is forgotten by who holds its shard, as it is when it changes: else its readers could be told
//! before they have their replies. Who has just read something holds one shard or a few, and takes
//! another one that is free, drawn at random.

use crate::dispatch::core::Core;
use crate::tracking::pusher;
use weft_keyspace::invalidation::NO_CLIENT;
use weft_keyspace::{Guard, Inside, SHARDS, ShardSet};
use weft_tracking::message::News;

/// Keys that are forgotten behind one command at most, and shards that are looked at for each.
const AT_ONCE: usize = 100;

/// Keys that are forgotten by a thread in one tick at most.
const IN_A_TICK: usize = 10_000;

/// How many keys too many are remembered.
fn excess(core: &Core) -> usize {
    match core.settings.clients.tracked_keys {
        0 => 0,
        most => core.srv.clients.tracking.keys().saturating_sub(most),
    }
}

/// Brings the number of remembered keys down to what is allowed, if a little is enough for that. O(1)
/// while they are not too many. May add shards to what is held, which must be those of some keys.
#[inline]
pub fn enforce(core: &mut Core, guard: &mut Guard<'_>) {
    let excess = excess(core);
    if excess > 0 {
        forget_some(core, guard, excess.min(AT_ONCE));
    }
}

#[cold]
fn forget_some(core: &mut Core, guard: &mut Guard<'_>, keys: usize) {
    for _ in 0..keys {
        let first = core.context.random() as usize;
        let mut shards = (0..SHARDS).map(|n| ((first + n) % SHARDS) as u16);
        let forgot = shards.any(|shard| {
            // Only who holds the shard may lock its table.
            let held = guard.holds(shard)
                || core.srv.ks.is_read(shard)
                    && guard.try_extend(&mut core.context, &ShardSet::one(shard)).is_ok();
            held && forget_one(core, shard)
        });
        if !forgot {
            return;
        }
    }
}

/// Declares a key of `shard`, which is held, invalid; whether there was one.
fn forget_one(core: &mut Core, shard: u16) -> bool {
    let (srv, random) = (core.srv, core.context.random());
    let mut table = srv.clients.tracking.table(shard);
    let Some((key, readers)) = table.take_any(random) else { return false };
    let is_empty = table.is_empty();
    drop(table);
    if is_empty {
        srv.ks.set_read(shard, false);
    }
    srv.clients.tracking.forgot(&readers);
    let news = News::of([&*key].into_iter());
    readers.iter().for_each(|reader| reader.notify_of_key(&pusher(srv), &news, NO_CLIENT));
    true
}

/// As [`enforce`], between commands, for the case that the limit was lowered: in these shards.
pub fn shrink(core: &mut Core, inside: &mut Inside<'_>, shards: &[u16]) {
    let mut left = IN_A_TICK;
    for shard in shards {
        if excess(core) == 0 || left == 0 {
            return;
        }
        if !core.srv.ks.is_read(*shard) {
            continue;
        }
        let Ok(guard) = inside.guard_one(&mut core.context, *shard) else { continue };
        while left > 0 && excess(core) > 0 && forget_one(core, *shard) {
            left -= 1;
        }
        guard.release();
    }
}

/// Whether [`shrink`] has something to do.
#[inline]
pub fn is_over(core: &Core) -> bool {
    excess(core) > 0
}
