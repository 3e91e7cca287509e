//! The context in which a command's function runs.

use crate::error::{CmdResult, Error, NOT_AN_INTEGER};
use weft_base::num;
use weft_keyspace::log::unit::{Arg, SHARE_FROM};
use weft_keyspace::{Classes, Db, Key};
use weft_resp::Reply;
use weft_types::Limits;
use weft_types::string::{Blob, New};

/// The settings that commands read. Each thread has a copy and renews it when the configuration
/// changes.
#[derive(Clone, Debug)]
pub struct CommandSettings {
    /// `proto-max-bulk-len` in bytes: the maximum length of a string.
    pub max_string: usize,
    /// `lazyfree-lazy-user-flush`: FLUSHALL and FLUSHDB without an option mean ASYNC.
    pub lazy_user_flush: bool,
    /// Whether `maxmemory-policy` is an LFU policy, for OBJECT FREQ and IDLETIME.
    pub lfu: bool,
    /// `cluster-enabled`: a client's command works on keys of one slot.
    pub cluster: bool,
    /// The sizes up to which collections stay packed.
    pub limits: Limits,
}

/// One execution of one command.
#[derive(Debug)]
pub struct Ctx<'a> {
    /// The command's name and arguments.
    pub args: &'a [&'a [u8]],
    /// The client's database. Its guard holds the shards that the command's spec asks for.
    pub db: Db<'a>,
    pub reply: &'a mut Reply,
    pub settings: &'a CommandSettings,
    /// Large arguments, by position, each in a buffer of its own: see [`Ctx::value`].
    pub blobs: &'a [(usize, Blob)],
    /// The key at argument 1, if the plan has already hashed it.
    pub first_key: Option<Key<'a>>,
    /// Where the command runs this time.
    pub lane: Lane,
    /// Set by a command that could not finish: see [`Ctx::weigh`] and [`Ctx::block`].
    pub pause: Option<Pause>,
}

/// Where a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// An I/O thread that has other clients to serve.
    Fast,
    /// A thread for long commands.
    Slow,
    /// EXEC, or a script in the slow lane: the command must finish now, however long it takes.
    Transaction,
    /// A script on an I/O thread: nothing blocks, and a long command makes the script start over in the slow lane.
    Script,
    /// The thread that serves a client blocked on one of the keys. The guard holds the shards that
    /// this thread happens to hold. Keys in other shards count as absent.
    Served,
}

impl Lane {
    /// The amount of work beyond which the exact amount makes no difference.
    #[inline]
    pub fn work_limit(self) -> usize {
        match self {
            Lane::Fast | Lane::Slow | Lane::Transaction | Lane::Script => FAST_WORK,
            Lane::Served => SERVED_WORK,
        }
    }

    /// Whether a command continues in this lane, however much work it has.
    #[inline]
    fn runs_long_commands(self) -> bool {
        match self {
            Lane::Fast | Lane::Served | Lane::Script => false,
            Lane::Slow | Lane::Transaction => true,
        }
    }

    /// As [`Ctx::weigh`], for callers that have borrowed the context's database. `pause` is the
    /// context's.
    #[inline]
    pub fn weigh(self, elements: usize, pause: &mut Option<Pause>) -> CmdResult {
        if self.allows_work(elements) { Ok(()) } else { Err(move_to_slow_lane(pause)) }
    }

    /// Whether this lane does work on so many elements.
    #[inline]
    pub fn allows_work(self, elements: usize) -> bool {
        elements <= FAST_WORK || elements <= self.work_limit() || self.runs_long_commands()
    }

    /// The meter of a command that may finish before it has examined all of `elements`. Examining
    /// all of them would be `work` in the unit of [`Ctx::weigh`].
    #[inline]
    pub fn meter(self, elements: usize, work: usize) -> Meter {
        let left = match self.allows_work(work) {
            true => usize::MAX,
            // Less than `elements`, since `work_limit` is less than `work` here.
            false => (elements as u128 * self.work_limit() as u128 / work as u128) as usize,
        };
        Meter { left, is_exhausted: false }
    }
}

/// Returns the error that makes the command run again in the slow lane.
#[cold]
fn move_to_slow_lane(pause: &mut Option<Pause>) -> Error {
    *pause = Some(Pause::Slow);
    Error::new("ERR moved to the slow lane")
}

/// Counts the elements that a command examines. A command that has used up its allowance stops, and
/// starts again in the slow lane. So it must not have changed anything by then. Its reply is
/// dropped, and hits, misses and access clocks count once (`paused` in the server's
/// `dispatch/run.rs`).
#[derive(Debug)]
pub struct Meter {
    left: usize,
    is_exhausted: bool,
}

impl Meter {
    /// For a command that has already weighed its work.
    pub fn unlimited() -> Meter {
        Meter { left: usize::MAX, is_exhausted: false }
    }

    /// Counts one more element. Returns whether the command may examine it. If not, the command
    /// stops and calls [`Meter::check`].
    #[inline]
    pub fn step(&mut self) -> bool {
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => self.is_exhausted = true,
        }
        !self.is_exhausted
    }

    /// Whether the allowance is used up.
    #[inline]
    pub fn is_exhausted(&self) -> bool {
        self.is_exhausted
    }

    /// Fails, as [`Ctx::weigh`] does, if the allowance was used up. The command calls this when it
    /// has stopped examining elements, before it changes anything.
    #[inline]
    pub fn check(self, pause: &mut Option<Pause>) -> CmdResult {
        if self.is_exhausted { Err(move_to_slow_lane(pause)) } else { Ok(()) }
    }
}

/// Why a command's function has returned without a reply and without changes.
#[derive(Clone, Debug, PartialEq)]
pub enum Pause {
    /// The work is too much for this lane: the command moves to the slow one.
    Slow,
    /// The client blocks. Boxed, since every command's result reserves space for this.
    Block(Box<Block>),
}

/// The condition that a blocked client waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// The client waits for one of the keys at these arguments.
    pub keys: Vec<usize>,
    pub timeout_ms: Option<u64>,
    /// Arguments to replace, by position, when the command runs again.
    pub replacement_args: Vec<(usize, Vec<u8>)>,
}

/// Work that the fast lane does at once, in elements examined, copied or returned. About a tenth of
/// a millisecond.
pub const FAST_WORK: usize = 2000;

/// Work that the serving thread does at once for a blocked client. More than [`FAST_WORK`], since
/// the client loses its position in the wait queue if the slow lane has to do it. Some
/// milliseconds.
pub const SERVED_WORK: usize = 20 * FAST_WORK;

impl<'a> Ctx<'a> {
    /// The key at argument `i`.
    #[inline]
    pub fn key(&self, i: usize) -> Key<'a> {
        match self.first_key {
            Some(key) if i == 1 => key,
            _ => self.hashed_key(i),
        }
    }

    /// Not inlined, so that [`Ctx::key`] is: most commands have one key, which the plan has hashed.
    #[inline(never)]
    fn hashed_key(&self, i: usize) -> Key<'a> {
        self.db.key(self.args[i])
    }

    /// Argument `i` as a value to store. A large one is not copied: it stays in the buffer into
    /// which it was read.
    #[inline]
    pub fn value(&self, i: usize) -> New<'a> {
        match self.blobs.iter().find(|(at, _)| *at == i) {
            Some((_, blob)) => New::Blob(blob.clone()),
            None => New::Bytes(self.args[i]),
        }
    }

    /// The argument `i` as an integer.
    pub fn int(&self, i: usize) -> Result<i64, Error> {
        num::parse_i64(self.args[i]).ok_or(NOT_AN_INTEGER)
    }

    /// Whether argument `i` is `word`, in any case.
    pub fn is(&self, i: usize, word: &str) -> bool {
        self.args[i].eq_ignore_ascii_case(word.as_bytes())
    }

    /// Commands call this before work on `elements` of a collection, and before they change
    /// anything. If the work is too much for the fast lane, the returned error makes the command
    /// run again in the slow lane. No client sees that error. This is for work that is certain; a
    /// command that may finish early counts with a [`Meter`] instead.
    #[inline]
    pub fn weigh(&mut self, elements: usize) -> CmdResult {
        self.lane.weigh(elements, &mut self.pause)
    }

    /// As [`Ctx::weigh`], for a command that processes each of its arguments. When a client blocks
    /// on very many keys, its own thread retries the command, not the thread that created one of
    /// the keys.
    #[inline]
    pub fn weigh_args(&mut self) -> CmdResult {
        self.weigh(self.args.len())
    }

    /// Blocks the client until one of the keys at the argument positions `keys` exists. The
    /// command's function writes the reply for a timeout (usually null), calls this and returns. It
    /// runs again ([`Lane::Served`]) when one of the keys is created. After `timeout_ms` (`None`:
    /// never) the client gets the written reply. In a transaction nothing blocks, and the client
    /// gets that reply at once.
    pub fn block(&mut self, keys: Vec<usize>, timeout_ms: Option<u64>) -> CmdResult {
        self.block_with(keys, timeout_ms, Vec::new())
    }

    /// As [`Ctx::block`]. The second run gets the arguments in `replacement_args`, for arguments whose
    /// meaning depends on the time of the call, such as `$` of XREAD.
    pub fn block_with(
        &mut self,
        keys: Vec<usize>,
        timeout_ms: Option<u64>,
        replacement_args: Vec<(usize, Vec<u8>)>,
    ) -> CmdResult {
        match self.lane {
            Lane::Transaction | Lane::Script => {}
            Lane::Fast | Lane::Slow | Lane::Served => {
                self.pause =
                    Some(Pause::Block(Box::new(Block { keys, timeout_ms, replacement_args })));
            }
        }
        Ok(())
    }

    /// Whether the guard holds `key`. Always true outside of [`Lane::Served`].
    pub fn holds(&self, key: &Key<'_>) -> bool {
        self.db.holds(key.shard())
    }

    /// Counts one change of the keyspace.
    #[inline]
    pub fn dirty(&mut self) {
        self.db.context.tally.dirty += 1;
    }

    /// Emits an event for `key`: see [`Db::notify`].
    #[inline]
    pub fn notify(&mut self, class: Classes, event: &'static str, key: &Key<'_>) {
        self.db.notify(class, event, key);
    }

    /// Whether this command's changes are logged. Callers check this before they build the words
    /// for [`Ctx::log`].
    #[inline]
    pub fn is_logged(&self) -> bool {
        self.db.is_logged()
    }

    /// Whether the command has changed a key so far and the change is logged.
    #[inline]
    pub fn is_changed_for_log(&self) -> bool {
        self.db.is_changed_for_log()
    }

    /// Logs these words instead of the client's. AOF replay and replicas execute them. May be
    /// called again to log more commands. Without a call, the client's words are logged if a key
    /// has changed. Does nothing if nothing is logged.
    pub fn log(&mut self, words: &[&[u8]]) {
        self.db.log(words);
    }

    /// As [`Ctx::log`], with client arguments that may be large.
    pub fn log_args(&mut self, words: &[Arg<'_>]) {
        self.db.log_args(&mut words.iter().copied());
    }

    /// The argument `i` as it is logged.
    pub fn arg(&self, i: usize) -> Arg<'a> {
        match self.blobs.iter().find(|(at, _)| *at == i) {
            Some((_, blob)) if blob.len() >= SHARE_FROM => Arg::Shared(blob),
            Some(_) | None => Arg::Bytes(self.args[i]),
        }
    }

    /// Logs the deletion of `key`, whose new expiry had already passed.
    pub fn log_expired(&mut self, key: &Key<'_>) {
        let word = self.db.context.deletions.expiry.word();
        self.db.log(&[word, key.bytes]);
    }

    /// Unix time of this command in milliseconds.
    pub fn now_ms(&self) -> i64 {
        self.db.context.now_ms
    }

    /// Keys that expire at or before this moment count as expired for this client. Equals
    /// [`Ctx::now_ms`], except for the client that imports data in import mode.
    pub fn over_ms(&self) -> i64 {
        self.db.context.over_ms
    }

    /// A key is removed at once if its new expiry is at or before this moment. Equals
    /// [`Ctx::now_ms`], except in import mode.
    pub fn past_ms(&self) -> i64 {
        self.db.context.past_ms()
    }
}

#[cfg(test)]
mod tests {
    use super::Lane;
    use crate::testing::Bench;
    use weft_keyspace::Tally;

    /// Requests: the words at the start, and the words that repeat.
    const REPEATING: &[(&[&str], &[&str])] = &[
        (&["MGET"], &["k"]),
        (&["MSET"], &["k", "v"]),
        (&["MSETNX"], &["k", "v"]),
        (&["MSETEX", "#"], &["k", "v"]),
        (&["DEL"], &["k"]),
        (&["UNLINK"], &["k"]),
        (&["EXISTS"], &["k"]),
        (&["TOUCH"], &["k"]),
        (&["SADD", "s"], &["m"]),
        (&["SREM", "s"], &["m"]),
        (&["SMISMEMBER", "s"], &["m"]),
        (&["SUNION"], &["s"]),
        (&["SDIFF"], &["s"]),
        (&["SINTER"], &["s"]),
        (&["SINTERCARD", "#"], &["s"]),
        (&["SUNIONSTORE", "d"], &["s"]),
        (&["SDIFFSTORE", "d"], &["s"]),
        (&["SINTERSTORE", "d"], &["s"]),
        (&["ZADD", "z"], &["1", "m"]),
        (&["ZREM", "z"], &["m"]),
        (&["ZMSCORE", "z"], &["m"]),
        (&["ZUNION", "#"], &["z"]),
        (&["ZINTER", "#"], &["z"]),
        (&["ZDIFF", "#"], &["z"]),
        (&["ZINTERCARD", "#"], &["z"]),
        (&["ZUNIONSTORE", "d", "#"], &["z"]),
        (&["ZINTERSTORE", "d", "#"], &["z"]),
        (&["ZDIFFSTORE", "d", "#"], &["z"]),
        (&["BITFIELD", "k"], &["GET", "u8", "0"]),
        (&["BITFIELD_RO", "k"], &["GET", "u8", "0"]),
        (&["BITOP", "AND", "d"], &["k"]),
        (&["PFADD", "p"], &["e"]),
        (&["PFCOUNT"], &["p"]),
        (&["PFMERGE", "d"], &["p"]),
        (&["GEOADD", "g"], &["1", "1", "m"]),
        (&["GEOPOS", "g"], &["m"]),
        (&["GEOHASH", "g"], &["m"]),
        (&["XADD", "x", "1-1"], &["f", "v"]),
        (&["XDEL", "x"], &["1"]),
        (&["XACK", "x", "g"], &["1"]),
        (&["XCLAIM", "x", "g", "c", "0"], &["1"]),
        (&["XREADGROUP", "GROUP", "g", "c", "STREAMS"], &["x", "0"]),
        (&["HSET", "h"], &["f", "v"]),
        (&["HMSET", "h"], &["f", "v"]),
        (&["HDEL", "h"], &["f"]),
        (&["HMGET", "h"], &["f"]),
        (&["HGETEX", "h", "FIELDS", "#"], &["f"]),
        (&["HGETDEL", "h", "FIELDS", "#"], &["f"]),
        (&["HSETEX", "h", "FIELDS", "#"], &["f", "v"]),
        (&["HEXPIRE", "h", "9", "FIELDS", "#"], &["f"]),
        (&["HPERSIST", "h", "FIELDS", "#"], &["f"]),
        (&["HTTL", "h", "FIELDS", "#"], &["f"]),
    ];

    /// Blocking commands: the words at the start, those that repeat, and those at the end.
    const WAITING: &[(&[&str], &[&str], &[&str])] = &[
        (&["BLPOP"], &["k"], &["0"]),
        (&["BRPOP"], &["k"], &["0"]),
        (&["BLMPOP", "0", "#"], &["k"], &["LEFT"]),
        (&["BZPOPMIN"], &["k"], &["0"]),
        (&["BZPOPMAX"], &["k"], &["0"]),
        (&["BZMPOP", "0", "#"], &["k"], &["MIN"]),
        (&["LMPOP", "#"], &["k"], &["LEFT"]),
        (&["ZMPOP", "#"], &["k"], &["MIN"]),
        (&["XREAD", "BLOCK", "0", "STREAMS"], &["k", "0"], &[]),
    ];

    /// The words of a request in which `repeated` occurs `n` times.
    fn request(once: &[&str], repeated: &[&str], n: usize) -> Vec<String> {
        let count = n.to_string();
        let once = once.iter().map(|word| if *word == "#" { &count } else { *word }.to_owned());
        let mut words: Vec<String> = once.collect();
        for i in 0..n {
            words.extend(repeated.iter().enumerate().map(|(at, word)| match at {
                0 if *word != "1" => format!("{word}{i}"),
                _ => (*word).to_owned(),
            }));
        }
        words
    }

    /// A request of 100,000 arguments does nothing in the fast lane. A short request stays there.
    #[test]
    fn many_arguments_are_weighed_before_anything_happens() {
        for (once, repeated) in REPEATING {
            let mut bench = Bench::new(1000);
            for (n, too_long) in [(5, false), (100_000, true)] {
                let words = request(once, repeated, n);
                let args: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
                bench.run("FLUSHALL");
                bench.context.tally = Tally::default();
                assert_eq!(bench.needs_slow_lane(&args), too_long, "{once:?} {n}");
                if too_long {
                    assert_eq!(
                        bench.context.tally,
                        Tally::default(),
                        "{once:?}: the command has begun"
                    );
                    assert_eq!(
                        bench.run("DBSIZE"),
                        ":0|",
                        "{once:?}: the command has changed a key"
                    );
                }
            }
        }
    }

    /// Also holds when another client's thread runs the blocked command: many keys go to the slow
    /// lane.
    #[test]
    fn many_keys_to_wait_for_are_weighed() {
        for (once, repeated, last) in WAITING {
            let mut bench = Bench::new(1000);
            for (n, too_long) in [(5, false), (100_000, true)] {
                let mut words = request(once, repeated, n);
                words.extend(last.iter().map(|word| (*word).to_owned()));
                let args: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
                for lane in [Lane::Fast, Lane::Served] {
                    assert_eq!(bench.exceeds_lane(lane, &args), too_long, "{once:?} {n} {lane:?}");
                }
            }
        }
    }

    /// Adds `n` elements made by `element` to key `name` with `command`.
    fn fill(bench: &mut Bench, command: &str, name: &str, n: usize, element: fn(usize) -> String) {
        let words: Vec<String> = (0..n).map(element).collect();
        let words = words.iter().flat_map(|word| word.split(' '));
        let args: Vec<&[u8]> =
            [command, name].into_iter().chain(words).map(str::as_bytes).collect();
        bench.run_words(&args);
    }

    fn large() -> Bench {
        let mut bench = Bench::new(1000);
        fill(&mut bench, "RPUSH", "list", 50_000, |n| format!("e{n}"));
        for key in ["set", "twin"] {
            fill(&mut bench, "SADD", key, 20_000, |n| format!("m{n}"));
        }
        fill(&mut bench, "SADD", "other", 20_000, |n| format!("n{n}"));
        for key in ["zset", "ztwin"] {
            fill(&mut bench, "ZADD", key, 20_000, |n| format!("{n} m{n}"));
        }
        fill(&mut bench, "GEOADD", "geo", 20_000, |n| format!("13.{:05} 38.1 p{n}", n % 100));
        bench.run("SADD few m1 m2 m3");
        bench.run("ZADD zfew 1 m1 2 m2");
        bench
    }

    /// Commands that may finish early: a request that does, and one that does not.
    const METERED: &[(&str, &str)] = &[
        ("LPOS list e5", "LPOS list none"),
        ("LPOS list e49990 RANK -1", "LPOS list e5 RANK -1"),
        ("LPOS list e5 MAXLEN 100", "LPOS list e5 COUNT 0"),
        ("LPOS list none MAXLEN 100", "LPOS list e5 COUNT 2"),
        ("LINSERT list BEFORE e5 new", "LINSERT list BEFORE none new"),
        ("LREM list 1 e7", "LREM list 1 none"),
        ("LREM list -1 e49999", "LREM list -1 e1"),
        ("SDIFF few set other", "SDIFF set twin"),
        ("SINTER few set twin", "SINTER set twin"),
        ("SINTERCARD 2 set twin LIMIT 10", "SINTERCARD 2 set other LIMIT 10"),
        ("SINTERCARD 1 set LIMIT 10", "SINTERCARD 1 set"),
        ("SDIFFSTORE dst few set", "SDIFFSTORE dst set few"),
        ("SDIFFSTORE dst set set", "SDIFFSTORE dst set other"),
        ("SINTERSTORE dst few set", "SINTERSTORE dst set twin"),
        ("SINTERSTORE dst none set", "SUNIONSTORE dst none set"),
        ("ZDIFF 2 zfew zset", "ZDIFF 2 zset zfew"),
        ("ZDIFF 2 zset zset", "ZDIFF 2 zset ztwin"),
        ("ZINTER 2 zset zfew", "ZINTER 2 zset ztwin"),
        ("ZINTERCARD 2 zset ztwin LIMIT 10", "ZINTERCARD 2 zset ztwin"),
        ("ZINTERSTORE dst 2 zset zfew", "ZINTERSTORE dst 2 zset ztwin"),
        (
            "GEOSEARCH geo FROMLONLAT 13.0 38.1 BYRADIUS 300 km COUNT 10 ANY",
            "GEOSEARCH geo FROMLONLAT 13.0 38.1 BYRADIUS 300 km COUNT 10",
        ),
        (
            "GEOSEARCH geo FROMLONLAT 13.0 38.1 BYRADIUS 300 km COUNT 10 ANY",
            "GEOSEARCH geo FROMLONLAT 13.0 38.1 BYRADIUS 300 km COUNT 10000 ANY",
        ),
        ("SORT list BY nosort LIMIT 10 5", "SORT list LIMIT 10 5 ALPHA"),
        ("SORT list BY nosort LIMIT 10 5 DESC", "SORT list BY nosort LIMIT 10 5000"),
        ("SORT zset BY nosort LIMIT 15000 5", "SORT zset LIMIT 15000 5 ALPHA"),
        ("SORT set BY nosort LIMIT 10 5", "SORT set BY nosort LIMIT 15000 5"),
    ];

    #[test]
    fn commands_that_finish_early_stay_in_the_fast_lane() {
        for (early, late) in METERED {
            let (mut fast, mut slow) = (large(), large());
            let args = |line: &'static str| line.split(' ').map(str::as_bytes).collect::<Vec<_>>();
            let sorted = |mut reply: Vec<u8>| {
                reply.sort_unstable();
                reply
            };
            let (reply, too_long) = fast.run_fast(&args(early));
            assert!(!too_long, "{early}");
            let in_slow_lane = slow.run_words(&args(early));
            // The order of a set's elements depends on the seed.
            if !early.starts_with("SORT set") {
                assert_eq!(sorted(reply), sorted(in_slow_lane), "{early}");
            }
            let left = |bench: &mut Bench| (bench.run("DBSIZE"), bench.run("LLEN list"));
            let before = left(&mut fast);
            fast.context.tally = Tally::default();
            assert!(fast.needs_slow_lane(&args(late)), "{late}");
            assert_eq!(fast.context.tally.dirty, 0, "{late}: the command has changed a key");
            assert_eq!(left(&mut fast), before, "{late}: the command has changed the data");
        }
    }

    #[test]
    fn copies_are_weighed() {
        let mut bench = Bench::new(1000);
        let long = vec![b'x'; 1 << 20];
        // Few elements of many bytes, and many of few bytes.
        for n in 0..6 {
            bench.run_words(&[b"HSET", b"h", &[b'f', n], &long]);
        }
        let members: Vec<Vec<u8>> = (0..5000).map(|n| format!("m{n}").into_bytes()).collect();
        let add = [&b"SADD"[..], b"s"].into_iter().chain(members.iter().map(|m| &m[..]));
        bench.run_words(&add.collect::<Vec<_>>());
        bench.run("SADD few a b c");
        bench.run("SET taken v");
        for key in [&b"h"[..], b"s"] {
            assert!(bench.needs_slow_lane(&[b"COPY", key, b"d"]));
            assert!(!bench.needs_slow_lane(&[b"COPY", key, b"taken"]), "nothing to copy");
            assert!(bench.needs_slow_lane(&[b"COPY", key, b"taken", b"REPLACE"]));
        }
        assert!(!bench.needs_slow_lane(&[b"COPY", b"few", b"d"]));
        bench.run_words(&[b"SET", b"string", &long.repeat(5)]);
        assert!(!bench.needs_slow_lane(&[b"COPY", b"string", b"d2"]), "the value is shared");
        // The extra byte fits into the allocation, so the value does not move. It is not copied
        // while shared.
        assert!(!bench.needs_slow_lane(&[b"APPEND", b"string", b"x"]));
        assert!(!bench.needs_slow_lane(&[b"SETRANGE", b"string", b"0", b"x"]));
        assert!(!bench.needs_slow_lane(&[b"SETBIT", b"string", b"7", b"1"]));
        // Many writes to a shared value go to the slow lane.
        let set = [&b"SET"[..], b"u8", b"#9", b"1"].repeat(200);
        assert!(bench.needs_slow_lane(&[&[&b"BITFIELD"[..], b"string"], &set[..]].concat()));
        assert!(!bench.needs_slow_lane(&[&[&b"BITFIELD"[..], b"string"], &set[..40]].concat()));
        assert!(bench.needs_slow_lane(&[b"GETRANGE", b"string", b"1", b"-1"]));
        bench.run("DEL d2");
        drop(bench.context.take_removed());
        assert!(!bench.needs_slow_lane(&[b"SETRANGE", b"string", b"0", b"x"]));
        bench.run_words(&[b"SET", b"a", &long[..4000]]);
        bench.run_words(&[b"SET", b"b", &long[..4000]]);
        assert!(bench.needs_slow_lane(&[b"LCS", b"a", b"b", b"LEN"]));
        bench.run("RPUSH list ing");
        assert!(bench.needs_slow_lane(&[b"SORT", b"list", b"BY", b"none", b"GET", b"str*"]));
        bench.run_words(&[b"SET", b"a", &long[..100]]);
        assert!(!bench.needs_slow_lane(&[b"LCS", b"a", b"b", b"LEN"]));
    }
}
