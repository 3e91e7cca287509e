//! INFO keyspace: the databases that have keys.
//!
//! `avg_ttl` is an estimate: the mean over the keys with an expiry in a few buckets of a few
//! shards that happen to be free.

use super::text::Text;
use crate::dispatch::Core;
use crate::dispatch::hold::Held;
use weft_keyspace::{Db, Guard, SHARDS, Turn};

/// Shards that are looked at for one estimate.
const SHARDS_SAMPLED: u64 = 8;
/// Keys that make an estimate good enough.
const KEYS_SAMPLED: u64 = 32;

pub fn write(core: &mut Core, held: &mut Held<'_>, text: &mut Text) {
    for db in 0..core.srv.ks.databases() {
        let (keys, expires) = core.srv.ks.counts(db);
        if keys == 0 {
            continue;
        }
        let ttl = if expires == 0 { 0 } else { average_ttl(core, held, db) };
        let timed = core.srv.ks.timed(db);
        text.field(
            &format!("db{db}"),
            format_args!(
                "keys={keys},expires={expires},avg_ttl={ttl},keys_with_volatile_items={timed}"
            ),
        );
    }
}

/// Milliseconds that a key with an expiry has left on average.
fn average_ttl(core: &mut Core, held: &mut Held<'_>, db: usize) -> i64 {
    let srv = core.srv;
    let ks = &srv.ks;
    let now = core.turn.now_ms;
    let first = core.turn.random() % SHARDS as u64;
    let (mut sum, mut count) = (0i128, 0u64);
    let occupied = (0..SHARDS as u64)
        .map(|n| ((first + n) % SHARDS as u64) as u16)
        .filter(|shard| ks.shard_len(*shard, db) > 0);
    for (looked, shard) in occupied.enumerate() {
        if count >= KEYS_SAMPLED || (looked as u64 >= SHARDS_SAMPLED && count > 0) {
            break;
        }
        let turn = &mut core.turn;
        let mut look = |guard: &Guard<'_>, turn: &mut Turn| {
            let mut cursor = 0;
            for _ in 0..KEYS_SAMPLED {
                cursor = Db::new(guard, turn, db).scan_shard(shard, cursor, |record| {
                    if let Some(at) = record.expiry() {
                        sum += i128::from(at - now);
                        count += 1;
                    }
                });
                if cursor == 0 || count >= KEYS_SAMPLED {
                    break;
                }
            }
        };
        // A busy shard is passed over: the estimate is not worth waiting for.
        match held {
            Held::Nothing(inside) => match inside.guard_one(turn, shard) {
                Ok(guard) => look(&guard, turn),
                Err(_) => continue,
            },
            Held::Guard(guard) if guard.holds(shard) => look(guard, turn),
            Held::Guard(_) | Held::Stop(_) | Held::Aside => continue,
        }
    }
    (sum / i128::from(count.max(1))) as i64
}
