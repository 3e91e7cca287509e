//! INFO keyspace: the databases that have keys.
//!
//! `avg_ttl` is an estimate: the mean over the keys with an expiry in a few buckets of a few shards
//! whose locks are free. To bound its time, one INFO makes at most [`ESTIMATES`] of them. The other
//! databases keep the estimates of earlier calls.

use crate::info::text::Text;
use std::sync::atomic::Ordering;
use weft_executor::dispatch::core::Core;
use weft_executor::dispatch::core::Held;
use weft_keyspace::{Db, ExecContext, Guard, SHARDS};
use weft_state::info_state::base::Estimate;

/// Shards sampled for one estimate.
const SHARDS_SAMPLED: usize = 8;
/// Keys after which an estimate is good enough.
const KEYS_SAMPLED: u64 = 32;
/// Steps of the walk over one shard.
const STEPS: u64 = 8;
/// How long an estimate stays valid while the number of keys with an expiry is unchanged
/// (milliseconds).
const ESTIMATE_MS: i64 = 100;
/// Estimates per INFO. Each takes some microseconds at worst.
const ESTIMATES: usize = 16;
/// Empty tables that one INFO marks as unoccupied, so that later calls skip them.
const FORGOTTEN: usize = 64;

/// The cost of INFO keyspace for [`ConnCx::weigh`](weft_executor::dispatch::core::ConnCx::weigh). Adding up a
/// table costs about a quarter of what replying with one element costs. O(databases).
pub fn work(core: &Core) -> usize {
    core.srv.ks.occupied() / 4
}

/// The databases whose `avg_ttl` one INFO estimates. The next INFO continues with the database
/// after them.
struct Estimates {
    first: usize,
    left: usize,
}

impl Estimates {
    fn begin(core: &Core) -> Self {
        let first = core.srv.statistics.info.next_estimate.load(Ordering::Relaxed);
        Estimates { first, left: ESTIMATES }
    }

    /// Estimates `db`, which has keys with an expiry, if its position is reached and this thread
    /// may read keys.
    fn make(&mut self, core: &mut Core, held: &mut Held<'_>, db: usize, expiring: usize) {
        let now = core.context.now_ms;
        let is_fresh = |old: &Estimate| {
            old.expiring == expiring && (0..ESTIMATE_MS).contains(&(now - old.made_ms))
        };
        let has_fresh = core.srv.statistics.info.expiries().get(&db).is_some_and(is_fresh);
        if self.left == 0 || db < self.first || has_fresh {
            return;
        }
        self.left -= 1;
        if let Some(at) = average_expiry(core, held, db) {
            core.srv.statistics.info.expiries().insert(db, Estimate { at, expiring, made_ms: now });
        }
        let next = if self.left == 0 { db + 1 } else { 0 };
        core.srv.statistics.info.next_estimate.store(next, Ordering::Relaxed);
    }

    /// After the last database: the next INFO begins at the first database, unless this INFO used
    /// up its estimates.
    fn end(&self, core: &Core) {
        if self.left > 0 {
            core.srv.statistics.info.next_estimate.store(0, Ordering::Relaxed);
        }
    }
}

/// Makes estimates for an INFO that is written in the slow lane, which must not read keys.
pub fn estimate(core: &mut Core, held: &mut Held<'_>) {
    let mut estimates = Estimates::begin(core);
    let ks = &core.srv.ks;
    let first = estimates.first;
    for db in ks.occupied_databases().skip_while(|db| *db < first) {
        if estimates.left == 0 {
            break;
        }
        let expiring = ks.counts(db).1;
        if expiring > 0 {
            estimates.make(core, held, db, expiring);
        }
    }
    estimates.end(core);
}

pub fn write(core: &mut Core, held: &mut Held<'_>, text: &mut Text) {
    let ks = &core.srv.ks;
    let mut forget = Vec::new();
    let mut estimates = may_look(held).then(|| Estimates::begin(core));
    for db in ks.occupied_databases() {
        let sums = ks.sums(db);
        if sums.keys == 0 {
            let empty = ks.occupied_shards(db).map(|shard| (shard, db));
            forget.extend(empty.take(FORGOTTEN - forget.len()));
            continue;
        }
        let mut ttl = 0;
        if sums.expiring > 0 {
            if let Some(estimates) = &mut estimates {
                estimates.make(core, held, db, sums.expiring);
            }
            let known = core.srv.statistics.info.expiries().get(&db).copied();
            ttl = known.map_or(0, |known| (known.at - core.context.now_ms).max(0));
        }
        text.begin("db");
        text.int(db);
        text.push(":keys=");
        text.int(sums.keys);
        text.push(",expires=");
        text.int(sums.expiring);
        text.push(",avg_ttl=");
        text.int(ttl);
        text.push(",keys_with_volatile_items=");
        text.int(sums.timed);
        text.end();
    }
    if let Some(estimates) = estimates {
        estimates.end(core);
    }
    for (shard, db) in forget {
        with_shard(core, held, shard, |guard, context| {
            Db::new(guard, context, db).note_empty(shard)
        });
    }
}

/// Whether the caller may read single keys.
fn may_look(held: &Held<'_>) -> bool {
    match held {
        Held::Nothing(_) => true,
        Held::Guard(guard) => (0..SHARDS as u16).any(|shard| guard.holds(shard)),
        Held::Stop(_) | Held::Aside => false,
    }
}

/// Passes the guard of `shard` to `look`, unless the shard is busy or `held` excludes it. Returns
/// whether `look` ran.
fn with_shard(
    core: &mut Core,
    held: &mut Held<'_>,
    shard: u16,
    look: impl FnOnce(&Guard<'_>, &mut ExecContext),
) -> bool {
    let context = &mut core.context;
    match held {
        Held::Nothing(inside) => match inside.guard_one(context, shard) {
            Ok(guard) => look(&guard, context),
            // An estimate is not worth waiting for.
            Err(_) => return false,
        },
        Held::Guard(guard) if guard.holds(shard) => look(guard, context),
        Held::Guard(_) | Held::Stop(_) | Held::Aside => return false,
    }
    true
}

/// The average time at which keys with an expiry expire, if the sample has any.
fn average_expiry(core: &mut Core, held: &mut Held<'_>, db: usize) -> Option<i64> {
    let srv = core.srv;
    let first = core.context.random() % SHARDS as u64;
    let (mut sum, mut count) = (0i128, 0u64);
    let ks = &srv.ks;
    let expire = ks.occupied_shards(db).filter(|shard| ks.shard_expiring(*shard, db) > 0);
    let mut shards: Vec<u16> = expire.collect();
    let middle = shards.partition_point(|shard| u64::from(*shard) < first);
    shards.rotate_left(middle);
    for shard in shards.into_iter().take(SHARDS_SAMPLED) {
        with_shard(core, held, shard, |guard, context| {
            let mut cursor = 0;
            for _ in 0..STEPS {
                cursor = Db::new(guard, context, db).some_expiries(shard, cursor, |at| {
                    sum += i128::from(at);
                    count += 1;
                });
                if cursor == 0 || count >= KEYS_SAMPLED {
                    break;
                }
            }
        });
        if count >= KEYS_SAMPLED {
            break;
        }
    }
    (count > 0).then(|| (sum / i128::from(count)) as i64)
}
