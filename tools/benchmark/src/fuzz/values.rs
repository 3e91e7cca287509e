//! Values of arguments: mostly plain ones that commands can use, sometimes unusual ones.
//!
//! Keys come from a small space, by the type of their values, so that commands use each other's
//! values. Numbers are small or at a limit of some integer type, with nothing in between: a count
//! of two billion makes a correct server build a reply of that size, which finds no bug and
//! exhausts the machine. -(2^63 - 1) is left out for the same reason: some commands take it for a
//! count.

use rand::RngExt;
use rand::rngs::SmallRng;

/// Keys of each kind.
const KEYS: u32 = 5;

/// Kinds of keys, by the groups of the commands that use them.
const KINDS: [(&str, &str); 9] = [
    ("string", "string"),
    ("list", "list"),
    ("hash", "hash"),
    ("set", "set"),
    ("sorted-set", "zset"),
    ("stream", "stream"),
    ("geo", "geo"),
    ("bitmap", "bitmap"),
    ("hyperloglog", "hll"),
];

/// The longest value; LCS needs four bytes for each pair of bytes of two of them.
const LONG: usize = 8192;

/// Users that ACL commands may create and delete.
pub const USER: &str = "fuzz-user-";

/// Numbers that are small, or at a limit.
const INTEGERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "10",
    "127",
    "128",
    "255",
    "256",
    "1024",
    "4096",
    "-1",
    "-2",
    "-3",
    "-10",
    "-129",
    "9223372036854775807",
    "-9223372036854775808",
];

/// Texts that are not 64-bit numbers.
const BROKEN_NUMBERS: &[&str] = &[
    "",
    " 1",
    "1 ",
    "+1",
    "01",
    "-0",
    "1.5",
    "0x10",
    "1e3",
    "--1",
    "-",
    "one",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "100000000000000000000000000000000000000000",
    "1\0",
];

const DOUBLES: &[&str] = &[
    "0",
    "-0",
    "1",
    "0.5",
    "-1.5",
    "3.0e3",
    "1e-7",
    "inf",
    "-inf",
    "+inf",
    "1e308",
    "-1e308",
    "5e-324",
    "0.1",
    "1e17",
    "12345678901234567",
];

const BROKEN_DOUBLES: &[&str] =
    &["nan", "-nan", "NaN", "", "1e400", "1,5", "0x1p3", "1.2.3", "infinit", "1e", " 1.0", "\0"];

/// Draws values. In a cluster all keys of a command have one tag.
#[derive(Debug)]
pub struct Values<'a> {
    pub rng: &'a mut SmallRng,
    pub tag: Option<[u8; 3]>,
    /// The group of the command, which determines the type of its keys.
    pub group: &'a str,
    /// Whether the command may block, so that its timeouts must be short.
    pub waits: bool,
}

impl Values<'_> {
    pub fn chance(&mut self, percent: f64) -> bool {
        self.rng.random_bool(percent / 100.0)
    }

    pub fn below(&mut self, bound: u32) -> u32 {
        self.rng.random_range(0..bound)
    }

    pub fn pick<'b, T: ?Sized>(&mut self, from: &[&'b T]) -> &'b T {
        from[self.rng.random_range(0..from.len())]
    }

    fn numbered(&mut self, what: &str, bound: u32) -> Vec<u8> {
        format!("{what}{}", self.below(bound)).into_bytes()
    }

    /// A key that mostly holds the type that the command needs.
    pub fn key(&mut self) -> Vec<u8> {
        let own = KINDS.iter().find(|(group, _)| *group == self.group);
        let kind = match own {
            Some((_, kind)) if !self.chance(8.0) => kind,
            _ => KINDS[self.below(KINDS.len() as u32) as usize].1,
        };
        let key = self.numbered(&format!("{kind}:"), KEYS);
        match self.tag {
            Some(tag) => [b"{", &tag[..], b"}", &key].concat(),
            None => key,
        }
    }

    /// An integer; `name` is the argument's name.
    pub fn integer(&mut self, name: &str) -> Vec<u8> {
        let plain = match name {
            // 0 blocks forever.
            "timeout" | "milliseconds" if self.waits => return self.decimal(1, 30),
            "destination-db" | "db" | "index" | "index1" | "index2" => return self.decimal(0, 3),
            "offset" | "len" => self.decimal(0, 4096),
            "protover" => self.decimal(2, 3),
            "count" | "start" | "stop" | "end" | "rank" => self.decimal(-5, 20),
            "seconds" => self.decimal(1, 3),
            "milliseconds" => self.decimal(1, 2000),
            _ => self.decimal(0, 50),
        };
        // A bit or a byte at 65536 would make all values long.
        if self.chance(92.0) {
            plain
        } else if name == "offset" {
            self.pick(&["-1", "4294967296000", "9223372036854775807", "-9223372036854775808"])
                .into()
        } else {
            self.pick(INTEGERS).into()
        }
    }

    fn decimal(&mut self, from: i64, to: i64) -> Vec<u8> {
        self.rng.random_range(from..=to).to_string().into_bytes()
    }

    /// A number with a fraction.
    pub fn double(&mut self, name: &str) -> Vec<u8> {
        if self.waits && name == "timeout" {
            return format!("0.0{}", 1 + self.below(3)).into_bytes();
        }
        match self.below(100) {
            0..10 => self.pick(DOUBLES).into(),
            10..40 => self.decimal(-20, 50),
            _ => format!("{:.4}", self.rng.random_range(-30.0..60.0)).into_bytes(),
        }
    }

    /// A point in time around now, in seconds or milliseconds.
    pub fn unix_time(&mut self, name: &str) -> Vec<u8> {
        if self.chance(8.0) {
            return self.pick(INTEGERS).into();
        }
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs() as i64);
        let off = self.rng.random_range(-5..=100);
        let unit = if name.contains("milli") { 1000 } else { 1 };
        ((now + off) * unit).to_string().into_bytes()
    }

    pub fn pattern(&mut self) -> Vec<u8> {
        const PATTERNS: &[&str] =
            &["*", "string:*", "*:[0-3]", "h?sh:*", "", "[", "\\", "[^a-", "hash:*->field:1", "#"];
        match self.chance(3.0) {
            true => b"*a".repeat(20),
            false => self.pick(PATTERNS).into(),
        }
    }

    /// A text; `name` is the argument's name.
    pub fn text(&mut self, name: &str) -> Vec<u8> {
        match name {
            "field" => self.numbered("field:", 20),
            "member" | "member1" | "member2" => self.numbered("member:", 50),
            "group" => self.numbered("group-", 3),
            "consumer" => self.numbered("consumer-", 5),
            "channel" | "shardchannel" => self.numbered("channel:", 3),
            "username" => self.numbered(USER, 3),
            "id" | "last-id" | "lastid" | "threshold" | "start-id" => self.stream_id(),
            "min" | "max" | "start" | "stop" | "end" => self.bound(),
            "min-idle-time" => self.decimal(0, 100),
            "cursor" => self.decimal(0, 20),
            "subcommand" | "command" | "command-name" => self.command_name(),
            "encoding" => self.pick(&["u8", "i16", "u63", "i64", "u64", "i0", "x"]).into(),
            "type" => self.pick(&["string", "list", "hash", "set", "zset", "stream", "x"]).into(),
            "rule" => self.pick(&["on", "off", "nopass", "~*", "+@all", "-@write", "&*"]).into(),
            "script" => self.pick(SCRIPTS).into(),
            "function-code" => LIBRARY.into(),
            "function" => self.pick(&["fuzz_echo", "fuzz_get", "none"]).into(),
            "library-name" => b"fuzz".to_vec(),
            "element" | "pivot" if self.chance(70.0) => self.numbered("element-", 30),
            _ => self.anything(),
        }
    }

    fn stream_id(&mut self) -> Vec<u8> {
        match self.below(10) {
            0 => self.pick(&["*", "$", "-", "+", ">", "0", "0-0"]).into(),
            1 => format!("{}-*", self.below(1000)).into_bytes(),
            _ => format!("{}-{}", self.below(1000), self.below(1000)).into_bytes(),
        }
    }

    /// A bound of a range, by score, by name or by stream id.
    fn bound(&mut self) -> Vec<u8> {
        match self.below(8) {
            0 => self.pick(&["-", "+", "-inf", "+inf", "(", "["]).into(),
            1..4 => self.numbered("[member:", 50),
            4 => self.numbered("(", 50),
            _ => self.decimal(-5, 50),
        }
    }

    fn command_name(&mut self) -> Vec<u8> {
        self.pick(&["GET", "set", "ZADD", "client|list", "config", "no-such-command", "EVAL"])
            .into()
    }

    /// Any content: a number in half of the cases, short or, rarely, long.
    pub fn anything(&mut self) -> Vec<u8> {
        match self.below(100) {
            0..30 => self.numbered("value-", 100),
            30..50 => self.decimal(-100, 1000),
            50..55 => self.double(""),
            55..60 => self.pick(INTEGERS).into(),
            60..65 => self.bytes(32),
            65..67 => Vec::new(),
            67..97 => self.filler(200),
            97..99 => self.filler(2000),
            _ => self.filler(LONG),
        }
    }

    fn filler(&mut self, longest: usize) -> Vec<u8> {
        vec![b'a' + self.below(26) as u8; self.rng.random_range(1..=longest)]
    }

    /// Bytes of all values, except a line end of the protocol: Valkey 9.1 puts some arguments
    /// unescaped into errors (`FUNCTION LIST`), and this known fault would end runs.
    pub fn bytes(&mut self, longest: usize) -> Vec<u8> {
        let len = self.rng.random_range(0..=longest);
        let bytes = (0..len).map(|_| self.rng.random());
        bytes.map(|byte| if byte == b'\r' { 0 } else { byte }).collect()
    }

    /// A value that is invalid nearly everywhere.
    pub fn odd(&mut self) -> Vec<u8> {
        match self.below(8) {
            0 => self.pick(INTEGERS).into(),
            1 | 2 => self.pick(BROKEN_NUMBERS).into(),
            3 => self.pick(DOUBLES).into(),
            4 => self.pick(BROKEN_DOUBLES).into(),
            5 => self.bytes(40),
            6 => b"\n\r\t\"\\'$%^&*(){}[]<>\0".to_vec(),
            _ => self.filler(LONG),
        }
    }
}

/// Scripts that end, and have no effects that direct commands don't have.
const SCRIPTS: &[&str] = &[
    "return 1",
    "return redis.call('SET', KEYS[1] or 'string:0', ARGV[1] or 'x')",
    "return redis.pcall('LPUSH', KEYS[1] or 'list:0', 'a', 'b')",
    "return {1, 'two', {3.7, false}, {err = 'ERR four'}}",
    "return redis.call('NO-SUCH-COMMAND')",
    "return redis.sha1hex(string.rep('x', 1000))",
    "syntax error",
    "error('on purpose')",
];

const LIBRARY: &str = "#!lua name=fuzz\n\
    server.register_function('fuzz_echo', function(keys, args) return args end)\n\
    server.register_function{function_name='fuzz_get', flags={'no-writes'}, \
    callback=function(keys) return server.call('TYPE', keys[1] or 'string:0') end}";
