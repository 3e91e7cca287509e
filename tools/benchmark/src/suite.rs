//! The tests: their names, titles, requests and expected replies.
//!
//! Names, titles, order, keys and values are those of valkey-benchmark, so that results are
//! comparable. A test is one or more kinds of requests with weights; all but mixes have one kind.

use std::ops::Range;

use crate::options::Options;
use crate::skipper::Types;
use crate::template::{DIGITS, Template, encode};
use crate::verify::{Check, Content};

/// One kind of request.
#[derive(Clone, Debug)]
pub struct Kind {
    /// The command, for reports.
    pub name: String,
    /// Prepared requests to choose from evenly: one for each size of value.
    pub variants: Vec<Template>,
    /// The possible types of a reply.
    pub expect: Types,
    /// The right content of a reply.
    pub check: Check,
}

impl Kind {
    /// The number of keys in one request whose values are compared.
    pub fn keys(&self) -> usize {
        if self.check == Check::OfKeys { self.variants[0].singles() } else { 0 }
    }
}

/// One test.
#[derive(Clone, Debug)]
pub struct Test {
    pub title: String,
    pub kinds: Vec<Kind>,
    /// Weight of each kind.
    pub weights: Vec<u32>,
    /// The payload size in the report.
    pub data_size: usize,
    /// A request to send once before the test; its error doesn't count for the test.
    pub prepare: Option<Vec<Vec<u8>>>,
}

/// Name of each default test, with other names that select it.
const TESTS: &[(&str, &[&str])] = &[
    ("ping_inline", &["ping"]),
    ("ping_mbulk", &["ping"]),
    ("set", &[]),
    ("get", &[]),
    ("incr", &[]),
    ("lpush", &[]),
    ("rpush", &[]),
    ("lpop", &[]),
    ("rpop", &[]),
    ("sadd", &[]),
    ("hset", &[]),
    ("spop", &[]),
    ("zadd", &[]),
    ("zpopmin", &[]),
    ("lrange_prepare", &["lrange", "lrange_100", "lrange_300", "lrange_500", "lrange_600"]),
    ("lrange_100", &["lrange"]),
    ("lrange_300", &["lrange"]),
    ("lrange_500", &["lrange"]),
    ("lrange_600", &["lrange"]),
    ("mset", &[]),
    ("mget", &[]),
    ("xadd", &[]),
    ("function_load", &[]),
    ("fcall", &[]),
];

/// Whether this name selects that test of [`TESTS`].
fn selects(name: &str, test: &(&str, &[&str])) -> bool {
    (test.0 == name && name != "lrange_prepare") || test.1.contains(&name)
}

/// The first of these names, in lower case, that selects no test.
pub fn unknown(names: &[String]) -> Option<&String> {
    names.iter().find(|name| !TESTS.iter().any(|test| selects(name, test)))
}

/// The names that select tests, in lines of the width of the help.
pub fn list_of_tests() -> String {
    const WIDTH: usize = 90;
    let mut names: Vec<&str> = Vec::new();
    for (name, more) in TESTS {
        for name in more.iter().chain([name]) {
            if *name != "lrange_prepare" && !names.contains(name) {
                names.push(name);
            }
        }
    }
    let mut lines: Vec<String> = Vec::new();
    for name in names {
        match lines.last_mut().filter(|line| line.len() + name.len() < WIDTH) {
            Some(line) => line.push_str(&format!(" {name}")),
            None => lines.push(format!("  {name}")),
        }
    }
    lines.join("\n")
}

/// Keys of MSET and MGET.
const KEYS: usize = 10;

/// Makes tests from options.
#[derive(Debug)]
pub struct Suite<'a> {
    options: &'a Options,
    sizes: Vec<usize>,
    filler: Vec<u8>,
    /// The text between the name of a key and its number: `:{tag}` in cluster mode.
    tag: &'static str,
}

impl<'a> Suite<'a> {
    pub fn new(options: &'a Options) -> Suite<'a> {
        let sizes = options.sizes.steps();
        let filler = filler(sizes.iter().copied().max().unwrap_or(1));
        let tag = if options.cluster.is_some() { ":{tag}" } else { "" };
        Suite { options, sizes, filler, tag }
    }

    /// The form of values.
    pub fn content(&self) -> Content {
        let bound = |size: Option<&usize>| size.map_or(1, |size| *size as u64);
        Content {
            filler: self.filler.clone(),
            sizes: (bound(self.sizes.iter().min()), bound(self.sizes.iter().max())),
            keyed: self.is_keyed(),
        }
    }

    /// The default tests, or the selected ones.
    pub fn selected(&self) -> Vec<Test> {
        let is_wanted = |test: &&(&str, &[&str])| match &self.options.tests {
            Some(names) => names.iter().any(|name| selects(name, test)),
            None => true,
        };
        TESTS.iter().filter(is_wanted).map(|(name, _)| self.named(name)).collect()
    }

    /// A mix of default tests, as in `GET:8,SET:2`.
    ///
    /// # Errors
    /// With the reason why the text is invalid.
    pub fn mix(&self, text: &str) -> Result<Test, String> {
        let (mut kinds, mut weights, mut prepare) = (Vec::new(), Vec::new(), None);
        for part in text.split(',') {
            let (name, weight) = part.split_once(':').unwrap_or((part, "1"));
            let weight: u32 = weight
                .parse()
                .ok()
                .filter(|weight| (1..=1_000_000).contains(weight))
                .ok_or_else(|| format!("--mix: {weight:?} is not a weight"))?;
            let name = match name.to_ascii_lowercase() {
                name if name == "ping" => "ping_mbulk".to_string(),
                name => name,
            };
            if name == "lrange_prepare" || !TESTS.iter().any(|test| test.0 == name) {
                return Err(format!("--mix: there is no test {name:?}"));
            }
            let mut test = self.named(&name);
            prepare = prepare.or(test.prepare.take());
            kinds.append(&mut test.kinds);
            weights.push(weight);
        }
        let (title, data_size) = (text.to_string(), self.data_size());
        Ok(Test { title, kinds, weights, data_size, prepare })
    }

    /// SET of each key in turn, for `--preload`.
    pub fn preload(&self) -> Test {
        Test { title: "preload".to_string(), ..self.named("set") }
    }

    /// A command, or several, from the command line.
    ///
    /// # Errors
    /// If there is no command at all.
    pub fn custom(&self, args: &[Vec<u8>]) -> Result<Test, String> {
        let sequence = sequence(args);
        if sequence.is_empty() {
            return Err("There is no command between the separators.".to_string());
        }
        let has_data = args.iter().any(|arg| memchr::memmem::find(arg, b"__data__").is_some());
        let sizes = if has_data { &self.sizes[..] } else { &self.sizes[..1] };
        let random = self.options.keyspace.is_some();
        let variants = sizes.iter().map(|&size| {
            let (mut bytes, mut replies) = (Vec::new(), 0);
            for (repeat, range) in &sequence {
                let args: Vec<Vec<u8>> =
                    args[range.clone()].iter().map(|arg| self.with_data(arg, size)).collect();
                for _ in 0..*repeat {
                    encode(&args, &mut bytes);
                }
                replies += repeat;
            }
            Template::new(bytes, replies, random, self.options.cluster.is_some())
        });
        let variants: Vec<Template> = variants.collect();
        let title = String::from_utf8_lossy(&args.join(&b' ')).into_owned();
        let kind = Kind {
            name: String::from_utf8_lossy(&args[sequence[0].1.start]).to_ascii_uppercase(),
            expect: Types::ANY,
            check: Check::Nothing,
            variants,
        };
        let data_size = kind.variants[0].bytes().len();
        Ok(Test { title, kinds: vec![kind], weights: vec![1], data_size, prepare: None })
    }

    fn with_data(&self, arg: &[u8], size: usize) -> Vec<u8> {
        let (mut out, mut from) = (Vec::new(), 0);
        for at in memchr::memmem::find_iter(arg, b"__data__") {
            out.extend_from_slice(&arg[from..at]);
            out.extend_from_slice(&self.filler[..size]);
            from = at + b"__data__".len();
        }
        out.extend_from_slice(&arg[from..]);
        out
    }

    fn data_size(&self) -> usize {
        self.sizes.iter().sum::<usize>() / self.sizes.len()
    }

    /// Whether values begin with the number of their key.
    fn is_keyed(&self) -> bool {
        self.options.verify
            && self.options.keyspace.is_some()
            && self.sizes.iter().all(|&size| size >= DIGITS)
    }

    /// The word in place of a written key's number, and the beginning of its value.
    fn written(&self, nth: usize) -> (&'static str, &'static str) {
        const SHARED: [&str; 9] = [
            "__rand_1st__",
            "__rand_2nd__",
            "__rand_3rd__",
            "__rand_4th__",
            "__rand_5th__",
            "__rand_6th__",
            "__rand_7th__",
            "__rand_8th__",
            "__rand_9th__",
        ];
        let word = SHARED[nth % SHARED.len()];
        if self.is_keyed() { (word, word) } else { ("__rand_int__", "") }
    }

    /// One of [`TESTS`].
    ///
    /// # Panics
    /// If no test has that name.
    fn named(&self, name: &str) -> Test {
        let tag = self.tag;
        let (number, written) = ("__rand_int__", Types::SIMPLE);
        let or_null = Types::BULK.or(Types::NULL);
        let list = format!("mylist{tag}");
        let elements = |last: &str| {
            let args = format!("LRANGE {list} 0 {last}");
            let title = format!("LRANGE_{0} (first {0} elements)", last.parse().unwrap_or(0) + 1);
            self.test(&title, Types::ARRAY, Check::Filler, &args)
        };
        match name {
            "ping_inline" => self.inline_ping(),
            "ping_mbulk" => self.test("PING_MBULK", written, Check::Text(b"PONG\r\n"), "PING"),
            "set" => {
                let (key, head) = self.written(0);
                let args = format!("SET key{tag}:{key} {head}<data>");
                self.test("SET", written, Check::Text(b"OK\r\n"), &args)
            }
            "get" => self.test("GET", or_null, Check::OfKeys, &format!("GET key{tag}:{number}")),
            "incr" => self.plain("INCR", Types::INTEGER, &format!("INCR counter{tag}:{number}")),
            "lpush" => self.plain("LPUSH", Types::INTEGER, &format!("LPUSH {list} <data>")),
            "rpush" => self.plain("RPUSH", Types::INTEGER, &format!("RPUSH {list} <data>")),
            "lpop" => self.test("LPOP", or_null, Check::Filler, &format!("LPOP {list}")),
            "rpop" => self.test("RPOP", or_null, Check::Filler, &format!("RPOP {list}")),
            "sadd" => {
                self.plain("SADD", Types::INTEGER, &format!("SADD myset{tag} element:{number}"))
            }
            "hset" => {
                let args = format!("HSET myhash{tag} element:{number} <data>");
                self.plain("HSET", Types::INTEGER, &args)
            }
            "spop" => self.plain("SPOP", or_null, &format!("SPOP myset{tag}")),
            "zadd" => {
                let score = if self.options.keyspace.is_some() { number } else { "0" };
                let args = format!("ZADD myzset{tag} {score} element:__rand_1st__");
                self.plain("ZADD", Types::INTEGER, &args)
            }
            "zpopmin" => self.plain("ZPOPMIN", Types::ARRAY, &format!("ZPOPMIN myzset{tag}")),
            "lrange_prepare" => {
                let title = "LPUSH (needed to benchmark LRANGE)";
                self.plain(title, Types::INTEGER, &format!("LPUSH {list} <data>"))
            }
            "lrange_100" => elements("99"),
            "lrange_300" => elements("299"),
            "lrange_500" => elements("499"),
            "lrange_600" => elements("599"),
            "mset" => {
                let pairs = (0..KEYS).map(|nth| {
                    let (key, head) = self.written(nth);
                    format!(" key{tag}:{key} {head}<data>")
                });
                let args = format!("MSET{}", pairs.collect::<String>());
                self.test("MSET (10 keys)", written, Check::Text(b"OK\r\n"), &args)
            }
            "mget" => {
                let args = format!("MGET{}", format!(" key{tag}:{number}").repeat(KEYS));
                self.test("MGET (10 keys)", Types::ARRAY, Check::OfKeys, &args)
            }
            "xadd" => {
                let args = format!("XADD mystream{tag} * myfield <data>");
                self.plain("XADD", Types::BULK, &args)
            }
            "function_load" => {
                let script = function_script(self.options.functions, false).into_bytes();
                let args = [b"function".to_vec(), b"load".to_vec(), b"replace".to_vec(), script];
                self.of_args("FUNCTION LOAD", Types::BULK, Check::Nothing, &args, false)
            }
            "fcall" => self.fcall(),
            other => unreachable!("{other} is not a test"),
        }
    }

    fn inline_ping(&self) -> Test {
        let mut test = self.test("PING_INLINE", Types::SIMPLE, Check::Text(b"PONG\r\n"), "PING");
        test.kinds[0].variants = vec![Template::new(b"PING\r\n".to_vec(), 1, false, false)];
        test
    }

    fn fcall(&self) -> Test {
        let keys = self.options.function_keys;
        let mut args: Vec<String> = vec!["fcall".into(), "foo1".into(), keys.to_string()];
        args.extend((1..=keys).map(|nth| format!("key{nth}")));
        let args: Vec<Vec<u8>> = args.into_iter().map(String::into_bytes).collect();
        let mut test = self.of_args("FCALL", Types::ANY, Check::Nothing, &args, false);
        let script = function_script(1, keys > 0);
        let load = ["FUNCTION", "LOAD", "REPLACE", &script];
        test.prepare = Some(load.iter().map(|arg| arg.as_bytes().to_vec()).collect());
        test
    }

    fn plain(&self, title: &str, expect: Types, args: &str) -> Test {
        self.test(title, expect, Check::Nothing, args)
    }

    /// Arguments are separated by blanks; `<data>` stands for data.
    fn test(&self, title: &str, expect: Types, check: Check, args: &str) -> Test {
        let args: Vec<Vec<u8>> = args.split(' ').map(|arg| arg.as_bytes().to_vec()).collect();
        self.of_args(title, expect, check, &args, true)
    }

    fn of_args(
        &self,
        title: &str,
        expect: Types,
        check: Check,
        args: &[Vec<u8>],
        with_data: bool,
    ) -> Test {
        let is_data = |arg: &[u8]| with_data && arg.ends_with(b"<data>");
        let has_data = args.iter().any(|arg| is_data(arg));
        let sizes = if has_data { &self.sizes[..] } else { &self.sizes[..1] };
        let random = self.options.keyspace.is_some();
        let variants = sizes.iter().map(|&size| {
            let args = args.iter().map(|arg| match arg.strip_suffix(b"<data>") {
                Some(head) if is_data(arg) => [head, &self.filler[head.len()..size]].concat(),
                _ => arg.clone(),
            });
            let mut bytes = Vec::new();
            encode(&args.collect::<Vec<_>>(), &mut bytes);
            Template::new(bytes, 1, random, self.options.cluster.is_some())
        });
        let kind = Kind {
            name: title.split(['_', ' ']).next().unwrap_or(title).to_string(),
            variants: variants.collect(),
            expect,
            check: if self.options.verify { check } else { Check::Nothing },
        };
        let (title, data_size) = (title.to_string(), self.data_size());
        Test { title, kinds: vec![kind], weights: vec![1], data_size, prepare: None }
    }
}

/// The commands of a sequence: the repetitions of each, and its arguments.
fn sequence(args: &[Vec<u8>]) -> Vec<(u32, Range<usize>)> {
    let (mut commands, mut start, mut repeat) = (Vec::new(), 0, 1);
    for i in 0..=args.len() {
        let number =
            args.get(i).filter(|arg| i == start && matches!(arg.first(), Some(b'1'..=b'9')));
        if let Some(number) = number {
            let digits = number.iter().take_while(|byte| byte.is_ascii_digit());
            repeat = digits.fold(0u32, |n, digit| {
                n.saturating_mul(10).saturating_add(u32::from(digit - b'0'))
            });
            start += 1;
        } else if i == args.len() || args[i] == b";" {
            if i > start {
                commands.push((repeat, start..i));
            }
            (start, repeat) = (i + 1, 1);
        }
    }
    commands
}

/// Values: printable, of 64 characters, without a pattern, the same in each run.
fn filler(len: usize) -> Vec<u8> {
    let mut rng = weft_base::rng::Rng::new(1234);
    (0..len).map(|_| b'0' + (rng.next_u64() >> 58) as u8).collect()
}

/// A library of functions in Lua. Valkey has the object `redis` like Redis.
fn function_script(functions: u32, with_keys: bool) -> String {
    let mut script = "#!lua name=benchlib\n".to_string();
    for nth in (1..=functions).rev() {
        let (args, value) = if with_keys { ("keys, args", "keys[0]") } else { ("", "0") };
        script.push_str(&format!(
            "local function foo{nth}({args})\nreturn {value}\nend\n\
             redis.register_function('foo{nth}', foo{nth})\n"
        ));
    }
    script
}

#[cfg(test)]
mod tests;
