//! Estimates the work of queued commands whose arguments bound it better than the value's size.
//!
//! EXEC asks before any command of its queue has run, so this is an estimate from the current
//! values. Commands not listed here count as examining all elements.

use crate::collection_scan;
use crate::list;
use crate::zset::ranks;
use weft_base::num::parse_i64;
use weft_command_spec::QueuedWork;
use weft_keyspace::Record;
use weft_types::list::List;
use weft_types::value::elements;
use weft_types::zset::View;

/// The work of a command of this kind on `record`, in elements. `None`: all elements of the value.
pub fn work(kind: QueuedWork, args: &[&[u8]], record: &Record) -> Option<usize> {
    match (kind, args) {
        (QueuedWork::ListRange, [_, _, start, stop]) => {
            let list = List::of(record)?;
            let (start, count) = list::range(parse_i64(start)?, parse_i64(stop)?, list.len())?;
            Some(list.range_work(start, count).saturating_add(list.distance_work(start)))
        }
        (QueuedWork::ListIndex, [_, _, index] | [_, _, index, _]) => {
            let list = List::of(record)?;
            let index = parse_i64(index)?;
            let (index, _) = list::range(index, index, list.len())?;
            Some(list.distance_work(index))
        }
        (QueuedWork::RankRange, [_, _, start, stop] | [_, _, start, stop, _]) => {
            let words = args.get(4);
            let by_rank = words.is_none_or(|word| word.eq_ignore_ascii_case(b"withscores"));
            let (start, stop) = (parse_i64(start)?, parse_i64(stop)?);
            let len = View::of(record)?.len();
            by_rank.then(|| ranks(start, stop, len).len())
        }
        (QueuedWork::ScanCount, [_, _, _, options @ ..]) => {
            collection_scan::requested_count(options).map(|count| count.min(elements(record)))
        }
        (QueuedWork::Counted, [_, _]) => Some(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::registry::REGISTRY;
    use crate::testing::Bench;
    use weft_keyspace::{Db, Outside};

    /// The estimated work of `line` on its key, which is argument 1.
    fn work(bench: &mut Bench, line: &str) -> Option<usize> {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut inside = Outside::new(&bench.ks, 0).enter();
        let guard = inside.world(&mut bench.context).expect("the slow lane is empty");
        let mut db = Db::new(&guard, &mut bench.context, 0);
        let key = db.key(args[1]);
        let record = db.peek(&key).expect("the key exists");
        let name = args[0].to_ascii_lowercase();
        let command = REGISTRY.iter().copied().flatten().find(|c| c.spec.name.as_bytes() == name);
        super::work(command.expect("a command").spec.special.queued_work, &args, &record)
    }

    #[test]
    fn arguments_bound_the_work() {
        let mut bench = Bench::new(1000);
        for (name, command) in [("list", "RPUSH"), ("set", "SADD")] {
            let words: Vec<String> = (0..20_000).map(|n| format!("e{n}")).collect();
            let mut args: Vec<&[u8]> = vec![command.as_bytes(), name.as_bytes()];
            args.extend(words.iter().map(|word| word.as_bytes()));
            bench.run_words(&args);
        }
        bench.run("ZADD zset 1 a 2 b 3 c");
        for (line, most) in [
            ("LRANGE list 0 9", 20),
            ("LRANGE list -10 -1", 20),
            ("LINDEX list -1", 10),
            ("LSET list 5 x", 10),
            ("ZRANGE zset 0 1", 2),
            ("ZRANGE zset 0 1 WITHSCORES", 2),
            ("SSCAN set 0", 10),
            ("SSCAN set 0 MATCH a* COUNT 100", 100),
            ("SRANDMEMBER set", 1),
        ] {
            let work = work(&mut bench, line).expect(line);
            assert!(work <= most, "{line}: {work}");
        }
        assert!(work(&mut bench, "LRANGE list 0 -1").expect("a range") >= 20_000);
        for line in ["ZRANGE zset 0 1 BYSCORE", "SRANDMEMBER set 5", "SMEMBERS set", "LPOS list x"]
        {
            assert_eq!(work(&mut bench, line), None, "{line}");
        }
    }
}
