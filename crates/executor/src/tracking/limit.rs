//! `tracking-table-max-keys`: if too many keys are tracked, some are invalidated early.
//!
//! The thread that removes a key holds its shard, as when the key changes. Otherwise its readers could get the
//! invalidation before the reply of their read. A thread that has just run a read holds few shards. It takes another
//! free one at random.

use crate::dispatch::core::Core;
use crate::tracking::pusher;
use weft_keyspace::invalidation::NO_CLIENT;
use weft_keyspace::{Guard, Inside, SHARDS, ShardSet};
use weft_tracking::message::News;

/// Keys removed after one command at most.
const KEYS_PER_COMMAND: usize = 100;

/// Keys removed by one thread in one tick at most.
const KEYS_PER_TICK: usize = 10_000;

/// The number of tracked keys above the limit.
fn excess(core: &Core) -> usize {
    match core.settings.clients.tracked_keys {
        0 => 0,
        most => core.srv.clients.tracking.keys().saturating_sub(most),
    }
}

/// Removes tracked keys above the limit, a bounded number per call. O(1) below the limit. May extend the guard, which
/// must hold the shards of some keys.
#[inline]
pub fn enforce(core: &mut Core, guard: &mut Guard<'_>) {
    let excess = excess(core);
    if excess > 0 {
        forget_keys(core, guard, excess.min(KEYS_PER_COMMAND));
    }
}

#[cold]
fn forget_keys(core: &mut Core, guard: &mut Guard<'_>, keys: usize) {
    for _ in 0..keys {
        let first = core.context.random() as usize;
        let mut shards = (0..SHARDS).map(|n| ((first + n) % SHARDS) as u16);
        let forgot = shards.any(|shard| {
            // The table of a shard may only be locked while the shard is held.
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

/// Invalidates one tracked key of `shard`, which the caller holds. Returns whether there was one.
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

/// As [`enforce`], between commands, in these shards: the limit may have been lowered.
pub fn shrink(core: &mut Core, inside: &mut Inside<'_>, shards: &[u16]) {
    let mut left = KEYS_PER_TICK;
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

/// Whether more keys are tracked than the limit allows.
#[inline]
pub fn is_over(core: &Core) -> bool {
    excess(core) > 0
}
