//! Random operations on few keys in several shards, of all types.
//!
//! Values are unique, so a read shows which write it saw. Keys are few, so clients collide. Lists
//! stay short, since more elements are popped than pushed. The first letter of a key is its type:
//!
//! | keys | type |
//! |---|---|
//! | `s` `n` | strings, numbers |
//! | `x` | strings that expire |
//! | `l` `m` `h` `z` | lists, sets, hashes, sorted sets |
//! | `e` | hashes whose fields expire |
//! | `t` | streams with a consumer group |
//! | `p` | pointers to strings, for scripts |
//! | `b` `q` | a set and a list with so many elements that their commands leave the fast path |
//!
//! Keys end in their group and a number. An operation stays within a group, so groups can be
//! checked separately. Commands on all keys are drawn only if there is one group.

use super::disturb::Disturbances;
use super::history::Op;
use super::scripts;
use weft_testkit::rng::Rng;

/// Elements of a large set: the union of two exceeds the limit of an I/O thread.
const SET: usize = 1100;
/// Elements of a large list: more than an I/O thread returns.
const LIST: usize = 2100;
/// Additional keys: more than KEYS reads on an I/O thread.
pub const FILLER: usize = 2500;

/// The kinds of operations to draw.
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    pub groups: usize,
    pub with: Disturbances,
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(String::from).collect()
}

/// Replaces the placeholders of a line: `s#4` is one of four keys of that type, `s@1` is key number
/// 1; `U` is a unique value, `N` and `D` are small numbers, `F` is a field, `E` an end of a list, `T`
/// a lifetime in milliseconds, `I` the id of a stream entry, `C` a consumer; `K2` is the number of declared
/// keys, at most 2.
struct Filler<'a> {
    rng: &'a mut Rng,
    group: usize,
    unique: &'a str,
}

impl Filler<'_> {
    fn word(&mut self, word: &str) -> String {
        let bytes = word.as_bytes();
        match (word, bytes) {
            ("U", _) => self.unique.to_string(),
            ("N", _) => self.rng.below(5).to_string(),
            ("D", _) => self.rng.between(-2, 2).to_string(),
            ("E", _) => self.rng.pick(&["LEFT", "RIGHT"]).to_string(),
            ("T", _) => self.rng.pick(&["5", "12", "20", "40"]).to_string(),
            ("F", _) => format!("f{}", self.rng.below(3)),
            ("I", _) => format!("7-{}", self.rng.below(12)),
            ("C", _) => format!("C{}", self.rng.below(3)),
            (_, [b'K', most @ b'1'..=b'9']) => {
                self.rng.below(usize::from(most - b'0') + 1).to_string()
            }
            // A lower-case letter and the number of such keys.
            (_, [letter @ b'a'..=b'z', b'#', many @ b'1'..=b'9']) => {
                let number = self.rng.below(usize::from(many - b'0'));
                format!("{}{}{number}", *letter as char, self.group)
            }
            // Each of these keys has its own number.
            (_, [letter @ b'a'..=b'z', b'@', number]) => {
                format!("{}{}{}", *letter as char, self.group, *number as char)
            }
            _ => word.to_string(),
        }
    }

    fn line(&mut self, line: &str) -> Vec<String> {
        line.split(' ').map(|word| self.word(word)).collect()
    }

    fn pick(&mut self, lines: &[&str]) -> Vec<String> {
        let line = lines[self.rng.below(lines.len())];
        self.line(line)
    }
}

const PLAIN: &[&str] = &[
    "GET s#4",
    "GET s#4",
    "GET s#4",
    "GET s#4",
    "SET s#4 U",
    "SET s#4 U",
    "GETSET s#4 U",
    "DEL s#4 l#3",
    "INCRBY n#2 D",
    "INCRBY n#2 D",
    "MGET s@0 s@1 s@2 s@3 n@0 n@1",
    "MSET s#4 U s#4 U",
    "RPUSH l#3 U",
    "LPUSH l#3 U",
    "LPOP l#3",
    "RPOP l#3",
    "LRANGE l#3 0 -1",
    "LMOVE l#3 l#3 E E",
    "SADD m#3 N",
    "SMOVE m#3 m#3 N",
    "SINTERCARD 2 m#3 m#3",
    "HINCRBY h#2 F 1",
    "ZADD z#2 N N",
    "ZPOPMIN z#2",
    "RENAME s#4 s#4",
    "COPY s#4 s#4 REPLACE",
];

/// Commands that set deadlines, and reads around them.
const EXPIRING: &[&str] = &[
    "SET x#3 U PX T",
    "SET x#3 U",
    "GET x#3",
    "GET x#3",
    "MGET x@0 x@1 x@2",
    "PEXPIRE x#3 T",
    "PEXPIREAT x#3 T",
    "PERSIST x#3",
    "PTTL x#3",
    "DEL x#3",
    "RENAME x#3 x#3",
    "COPY x#3 x#3 REPLACE",
    "PEXPIRE l#3 T",
    "HSET e#2 F N",
    "HINCRBY e#2 F 1",
    "HGET e#2 F",
    "HGET e#2 F",
    "HPEXPIRE e#2 T FIELDS 1 F",
    "HPEXPIRE e#2 T FIELDS 1 F",
    "HDEL e#2 F",
];

/// Streams restart often, so drawn ids are those of entries.
const STREAMS: &[&str] = &[
    "XADD t#2 MAXLEN 4 7-* f U",
    "XADD t#2 MAXLEN 4 7-* f U",
    "XADD t#2 MAXLEN 4 7-* f U",
    "XADD t#2 MAXLEN 4 7-* f U",
    "XGROUP CREATE t#2 g 0 MKSTREAM",
    "XGROUP CREATE t#2 g 0 MKSTREAM",
    "XREADGROUP GROUP g C COUNT 2 STREAMS t#2 >",
    "XREADGROUP GROUP g C COUNT 1 STREAMS t#2 >",
    "XREADGROUP GROUP g C COUNT 3 STREAMS t#2 0",
    "XACK t#2 g I I I",
    "XACK t#2 g I I I",
    "XPENDING t#2 g",
    "XCLAIM t#2 g C 0 I I JUSTID",
    "XRANGE t#2 - +",
    "XLEN t#2",
    "XDEL t#2 I",
    "DEL t#2",
    "RENAME t#2 t#2",
];

/// Commands that are too large for an I/O thread.
const SLOW: &[&str] = &[
    "SORT b#2",
    "SORT b#2 STORE q@0",
    "SUNIONSTORE b@2 b@0 b@1",
    "COPY b@0 b@1 REPLACE",
    "LRANGE q@0 0 -1",
    "LMOVE q@0 q@0 LEFT RIGHT",
    "SADD b#2 N",
    "SREM b#2 N",
    "SCARD b@2",
    "SINTERCARD 2 b@0 b@1",
];

/// Commands on all keys. SWAPDB notifies no client that caches.
const WORLD: &[&str] = &["DBSIZE", "KEYS [a-z][0-9]*", "FLUSHALL", "SWAPDB 0 1"];

/// Scripts with a fixed program.
const PROGRAMS: &[&str] = &[
    "EVALSHA swap K2 s#4 s#4",
    "EVALSHA swap K2 s#4 s#4",
    "EVALSHA move K2 n#2 n#2 N",
    "EVALSHA follow K5 p#2 s@0 s@1 s@2 s@3 U",
    "EVALSHA follow K1 p#2 s@0 s@1 s@2 s@3 U",
    "SET p#2 N",
];

/// Commands of scripts that only read.
const READS: &[&str] = &[
    "GET s#4",
    "GET s#4",
    "GET n#2",
    "GET p#2",
    "LRANGE l#3 0 -1",
    "MGET s@0 s@3",
    "HGET h#2 F",
    "ZCARD z#2",
    "SCARD m#3",
];

/// Counts to this, in Lua: longer than an I/O thread runs a script.
const SPINS: &str = "400000";

impl Draw {
    /// A non-blocking command.
    fn command(&self, rng: &mut Rng, group: usize, unique: &str) -> Vec<String> {
        let class = rng.below(100);
        let mut filler = Filler { rng, group, unique };
        match class {
            0..=19 if self.with.expiry => filler.pick(EXPIRING),
            20 if self.with.slow => filler.pick(SLOW),
            21 if self.with.slow && filler.rng.percent(40) => self.refill(filler.rng, group),
            24 if self.with.world && self.groups == 1 => {
                filler.pick(&WORLD[..WORLD.len() - usize::from(self.with.tracking)])
            }
            25..=44 if self.with.streams => filler.pick(STREAMS),
            45..=69 if self.with.scripts => self.script(filler.rng, group, unique),
            _ => filler.pick(PLAIN),
        }
    }

    /// A script.
    fn script(&self, rng: &mut Rng, group: usize, unique: &str) -> Vec<String> {
        let name = match rng.below(20) {
            0..=5 => return Filler { rng, group, unique }.pick(PROGRAMS),
            6 | 7 => "spin",
            8 if self.with.world && self.groups == 1 => "whole",
            _ => "each",
        };
        let only_reads = rng.percent(20);
        // Some need so many shards that they start over several times.
        let count = if rng.percent(20) { 14 } else { 2 + rng.below(6) };
        let mut commands: Vec<Vec<String>> = (0..count)
            .map(|n| match only_reads {
                true => Filler { rng, group, unique }.pick(READS),
                false => self.command_of_script(rng, group, name, &format!("{unique}.{n}")),
            })
            .collect();
        if name == "whole" {
            let most = WORLD.len() - usize::from(self.with.tracking);
            commands.push(Filler { rng, group, unique }.pick(&WORLD[..most]));
            rng.shuffle(&mut commands);
        }
        if name == "spin" && rng.percent(70) {
            commands.insert(rng.below(count), words(&format!("~ {SPINS}")));
        }
        let share = *rng.pick(&[0, 50, 100]);
        let is_declared = |word: &&String| scripts::is_key(word) && rng.percent(share);
        let declared: Vec<String> =
            commands.iter().flatten().filter(is_declared).cloned().collect();
        let verb = if only_reads && name != "whole" { "EVALSHA_RO" } else { "EVALSHA" };
        let mut args = words(&format!("{verb} {name} {}", declared.len()));
        args.extend(declared);
        args.extend(commands.join(&";".to_string()));
        args
    }

    /// A command that scripts may call; those for the slow lane in `spin` only.
    fn command_of_script(
        &self,
        rng: &mut Rng,
        group: usize,
        name: &str,
        unique: &str,
    ) -> Vec<String> {
        let slow = self.with.slow && name == "spin";
        let with = Disturbances { scripts: false, world: false, slow, ..self.with };
        loop {
            let args = Draw { with, ..*self }.command(rng, group, unique);
            // The time is relative to the client's clock.
            if args[0] != "PEXPIREAT" {
                return args;
            }
        }
    }

    /// Creates large values again after FLUSHALL.
    fn refill(&self, rng: &mut Rng, group: usize) -> Vec<String> {
        match rng.below(4) {
            0 => words(&format!("SADD b{group}0 0..{SET}")),
            1 => words(&format!("SADD b{group}1 500..{}", 500 + SET)),
            _ if !self.with.world => words(&format!("SADD b{group}0 7")),
            2 => words(&format!("SORT b{group}0 STORE q{group}0")),
            _ if self.groups == 1 => words(&format!("FILL {FILLER}")),
            _ => words(&format!("SADD b{group}0 8")),
        }
    }

    /// The commands that fill the database at the start.
    pub fn first(&self) -> Vec<Vec<String>> {
        let mut lines = Vec::new();
        if !self.with.slow {
            return lines;
        }
        for group in 0..self.groups {
            lines.push(words(&format!("SADD b{group}0 0..{SET}")));
            lines.push(words(&format!("SADD b{group}1 500..{}", 500 + SET)));
            lines.push(words(&format!("RPUSH q{group}0 0..{LIST}")));
        }
        if self.groups == 1 {
            lines.push(words(&format!("FILL {FILLER}")));
        }
        lines
    }

    /// The next operation of a client; `watching`: the group of its watched keys.
    pub fn op(&self, rng: &mut Rng, unique: &str, watching: &mut Option<usize>) -> Op {
        let group = watching.unwrap_or_else(|| rng.below(self.groups));
        match rng.below(20) {
            0..=4 => {
                *watching = None;
                let n = 2 + rng.below(4);
                // A transaction with a script stops the world. That takes long while long scripts run.
                let scripts = self.with.scripts && rng.percent(20);
                let draw = Draw { with: Disturbances { scripts, ..self.with }, ..*self };
                let command = |i| draw.command(rng, group, &format!("{unique}.{i}"));
                Op::Exec((0..n).map(command).collect())
            }
            5 if watching.is_none() => {
                *watching = Some(group);
                let kind = if self.with.expiry { *rng.pick(&["s", "s", "x"]) } else { "s" };
                let (a, b) = (rng.below(3), rng.below(3));
                Op::Watch(vec![format!("{kind}{group}{a}"), format!("l{group}{b}")])
            }
            6 | 7 => Op::Command(self.waiting(rng, group)),
            _ => {
                let group = rng.below(self.groups);
                Op::Command(self.command(rng, group, unique))
            }
        }
    }

    fn waiting(&self, rng: &mut Rng, group: usize) -> Vec<String> {
        // Long enough to be unblocked or killed meanwhile, and seldom, since the client can do
        // nothing else.
        let long = self.with.unblock && rng.percent(10);
        let timeout = if long { "0.06" } else { "0.002" };
        if self.with.streams && rng.percent(30) {
            let ms = if long { 60 } else { 2 };
            let line = format!("XREADGROUP GROUP g C COUNT 1 BLOCK {ms} STREAMS t#2 >");
            return Filler { rng, group, unique: "" }.line(&line);
        }
        let line = *rng.pick(&["BLPOP l#3 l#3", "BLMOVE l#3 l#3 LEFT RIGHT"]);
        let mut args = Filler { rng, group, unique: "" }.line(line);
        args.push(timeout.to_string());
        args
    }
}
