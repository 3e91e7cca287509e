//! Memory by type of the keys, estimated from keys that are drawn at random.
//!
//! Each request for `/keys.json` draws some keys. It holds the shard of each for the moment in which it reads the key, and skips a shard
//! that is busy. Older keys count less and less.

use serde_json::{Value, json};
use weft_keyspace::{Db, ExecContext, Keyspace, ShardSet, SlowLaneThread};
use weft_state::server::Server;
use weft_types::{Kind, Type};

/// Keys that one request draws.
const DRAWS: usize = 128;
/// Elements of a collection whose memory is measured.
const ELEMENTS: usize = 16;
/// After this time a key counts half, in seconds.
const HALF_LIFE_S: f64 = 5.0;
/// Requests that follow sooner draw no keys, in milliseconds.
const PAUSE_MS: i64 = 200;

/// The keys of one type that were drawn.
#[derive(Clone, Copy, Debug, Default)]
struct Drawn {
    keys: f64,
    /// Their memory (bytes).
    bytes: f64,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct TypeMemory {
    drawn: [Drawn; Type::ALL.len()],
    read_ms: i64,
}

impl TypeMemory {
    /// Draws keys. O(shards that have keys).
    pub fn draw(&mut self, srv: &'static Server) {
        let now_ms = srv.mono_ms();
        let elapsed_ms = (now_ms - self.read_ms).max(0);
        if self.read_ms != 0 && elapsed_ms < PAUSE_MS {
            return;
        }
        self.read_ms = now_ms;
        let keeps = 0.5f64.powf(elapsed_ms as f64 / 1e3 / HALF_LIFE_S);
        for drawn in &mut self.drawn {
            *drawn = Drawn { keys: drawn.keys * keeps, bytes: drawn.bytes * keeps };
        }
        let tables = Tables::of(&srv.ks);
        let mut hand = srv.hand();
        let mut context = ExecContext::new(srv.now_ms(), srv.seed(now_ms as usize));
        for _ in 0..DRAWS {
            let Some((db, shard)) = tables.nth(context.random()) else { return };
            if let Some((of, bytes)) = draw_key(&mut hand, &mut context, db, shard) {
                let drawn = &mut self.drawn[of as usize];
                drawn.keys += 1.0;
                drawn.bytes += bytes as f64;
            }
        }
    }

    /// The estimate for each type that was drawn, in a keyspace of `keys` keys.
    pub fn json(&self, keys: u64) -> Value {
        let all: f64 = self.drawn.iter().map(|drawn| drawn.keys).sum();
        let shown = Type::ALL.into_iter().zip(&self.drawn).filter(|(_, drawn)| drawn.keys > 0.0);
        let shown = shown.map(|(of, drawn)| {
            json!({
                "type": of.name(),
                "keys": keys as f64 * drawn.keys / all,
                "bytes": keys as f64 * drawn.bytes / all,
                "mean": drawn.bytes / drawn.keys,
                "samples": drawn.keys,
            })
        });
        shown.collect::<Vec<_>>().into()
    }
}

/// The type and the memory of a random key; `None` if its shard is busy, or if it has expired.
fn draw_key(
    hand: &mut SlowLaneThread<'_>,
    context: &mut ExecContext,
    db: usize,
    shard: u16,
) -> Option<(Type, usize)> {
    let guard = hand.hold_or_give_up(context, &ShardSet::one(shard), &|_| true).ok()?;
    Db::new(&guard, context, db).see_random(shard, |record| {
        (Kind::of(record.kind()).type_of(), weft_types::value::memory(&record, ELEMENTS))
    })
}

/// The tables that have keys.
struct Tables {
    /// Each with the number of keys in it and in those before it.
    ends: Vec<(u64, usize, u16)>,
}

impl Tables {
    fn of(ks: &Keyspace) -> Tables {
        let mut ends = Vec::new();
        let mut end = 0;
        for db in ks.occupied_databases() {
            for shard in ks.occupied_shards(db) {
                end += ks.shard_len(shard, db) as u64;
                ends.push((end, db, shard));
            }
        }
        Tables { ends }
    }

    /// The database and the shard of a random key; `None` without keys.
    fn nth(&self, random: u64) -> Option<(usize, u16)> {
        let all = self.ends.last().map(|(end, ..)| *end).filter(|all| *all > 0)?;
        let nth = random % all;
        let (_, db, shard) = self.ends[self.ends.partition_point(|(end, ..)| *end <= nth)];
        Some((db, shard))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_drawn_by_their_keys() {
        let tables = Tables { ends: vec![(0, 0, 1), (3, 0, 2), (3, 1, 3), (4, 2, 4)] };
        let drawn: Vec<_> = (0..5).map(|n| tables.nth(n)).collect();
        let (first, last) = (Some((0, 2)), Some((2, 4)));
        assert_eq!(drawn, [first, first, first, last, first]);
        assert_eq!(Tables { ends: vec![(0, 0, 1)] }.nth(7), None);
        assert_eq!(Tables { ends: vec![] }.nth(7), None);
    }

    #[test]
    fn estimates_are_for_all_keys() {
        let mut memory = TypeMemory::default();
        assert_eq!(memory.json(10), json!([]));
        memory.drawn[Type::String as usize] = Drawn { keys: 3.0, bytes: 300.0 };
        memory.drawn[Type::Hash as usize] = Drawn { keys: 1.0, bytes: 1000.0 };
        let shown = memory.json(400);
        assert_eq!(shown[0]["type"], "string");
        assert_eq!((&shown[0]["keys"], &shown[0]["bytes"]), (&json!(300.0), &json!(30_000.0)));
        assert_eq!((&shown[1]["bytes"], &shown[1]["mean"]), (&json!(100_000.0), &json!(1000.0)));
    }
}
