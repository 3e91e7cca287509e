//! Random steps: rules, questions, commands, ACL files.

use weft_testkit::client::Client;
use weft_testkit::rng::Rng;

/// The users of an episode, except `default`.
pub const USERS: [&str; 4] = ["u1", "u2", "u3", "tester"];

const PASSWORDS: [&str; 3] = ["p1", "secret", ""];
/// Of "p1".
const HASH: &str = "c6f3ac57944a531490cd39902d0f777715fd005efac9a30622d5f5205e7f6894";
const KEYS: [&str; 8] = ["a", "a1", "a2", "b1", "ab", "x", "", "k:1"];
const PATTERNS: [&str; 13] =
    ["a*", "b*", "*", "a1", "?", "[ab]*", "", "k:*", "x", "*1", "a[", "\\*", "a\\"];
const NUMBERS: [&str; 9] = ["0", "1", "2", "9", "15", "16", "-1", "x", "07"];
const OPTIONS: [&str; 18] = [
    "STORE",
    "STOREDIST",
    "GET",
    "BY",
    "STREAMS",
    "KEYS",
    "DB",
    "REPLACE",
    "LIMIT",
    "COUNT",
    "AUTH",
    "COPY",
    "SET",
    "u8",
    "LEFT",
    "WITHSCORES",
    "NX",
    "AGGREGATE",
];

/// A step of an episode.
#[derive(Debug)]
pub enum Step {
    /// The administrator sends a command.
    Administrator(Vec<Vec<u8>>),
    /// A client of that number sends a command.
    Client(usize, Vec<Vec<u8>>),
    /// The administrator loads a file with this text.
    Load(Vec<u8>),
    Save,
}

/// The words of the reference that rules may contain.
#[derive(Debug)]
pub struct Names {
    commands: Vec<String>,
    categories: Vec<String>,
}

impl Names {
    /// Asks the reference.
    pub fn of(reference: &mut Client) -> Names {
        let mut list = |args: &[&str]| {
            let reply = reference.cmd(args);
            let mut names: Vec<String> = reply.items().iter().map(|name| name.text()).collect();
            names.sort();
            names
        };
        Names { commands: list(&["COMMAND", "LIST"]), categories: list(&["ACL", "CAT"]) }
    }
}

pub(super) fn words(text: &str) -> Vec<Vec<u8>> {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn args(words: Vec<String>) -> Vec<Vec<u8>> {
    words.into_iter().map(String::into_bytes).collect()
}

fn acl(rest: &[&str]) -> Step {
    let words = ["ACL"].iter().chain(rest).map(|word| word.to_string());
    Step::Administrator(args(words.collect()))
}

fn user(rng: &mut Rng) -> &'static str {
    if rng.percent(4) { ["default", "nobody", ""][rng.below(3)] } else { USERS[rng.below(4)] }
}

/// The next step of an episode.
pub fn step(rng: &mut Rng, names: &Names) -> Step {
    match rng.below(100) {
        0..=29 => setuser(rng, names),
        30..=39 => acl(&["GETUSER", user(rng)]),
        40..=42 => acl(&["LIST"]),
        43 => acl(&["USERS"]),
        44..=45 => cat(rng, names),
        46..=68 => dry_run(rng, names),
        69..=78 => log_in(rng),
        79..=91 => Step::Client(rng.below(3), words_with_keys(rng, &COMMANDS)),
        92..=93 => acl(&["LOG"]),
        94 => acl(&["LOG", ["RESET", "1", "0", "-1", "x", "3"][rng.below(6)]]),
        95 => deluser(rng),
        96 => Step::Save,
        97 => load(rng, names),
        98 => acl(&["GENPASS", ["0", "x", "5000", "-1"][rng.below(4)]]),
        _ => other(rng),
    }
}

fn other(rng: &mut Rng) -> Step {
    match rng.below(4) {
        0 => {
            let value = ["allchannels", "resetchannels"][rng.below(2)];
            Step::Administrator(words(&format!("CONFIG SET acl-pubsub-default {value}")))
        }
        1 => acl(&["NOSUCH"]),
        2 => acl(&["WHOAMI"]),
        _ => acl(&["SETUSER", "has space", "on"]),
    }
}

fn setuser(rng: &mut Rng, names: &Names) -> Step {
    let mut all = vec!["ACL".to_string(), "SETUSER".to_string(), USERS[rng.below(4)].to_string()];
    if rng.percent(25) {
        // A user who can log in and do something.
        all.extend(["on", ">p1", "+@all"].map(String::from));
    }
    let count = if rng.percent(10) { rng.below(12) } else { rng.below(5) };
    (0..count).for_each(|_| rule(rng, names, &mut all));
    Step::Administrator(args(all))
}

fn deluser(rng: &mut Rng) -> Step {
    let count = 1 + rng.below(2);
    let mut all = vec!["DELUSER"];
    all.extend((0..count).map(|_| user(rng)));
    acl(&all)
}

fn cat(rng: &mut Rng, names: &Names) -> Step {
    let name = match rng.below(8) {
        0 => "nosuch",
        1 => "READ",
        _ => rng.pick(&names.categories),
    };
    acl(&["CAT", name])
}

fn log_in(rng: &mut Rng) -> Step {
    let password = PASSWORDS[if rng.percent(80) { 0 } else { rng.below(3) }];
    let name = user(rng);
    let words = match rng.below(6) {
        0 => vec!["HELLO", "3", "AUTH", name, password],
        1 => vec!["AUTH", password],
        _ => vec!["AUTH", name, password],
    };
    Step::Client(rng.below(3), args(words.into_iter().map(String::from).collect()))
}

/// Appends one rule, which may be wrong, or have several words.
fn rule(rng: &mut Rng, names: &Names, out: &mut Vec<String>) {
    match rng.below(20) {
        0..=15 => out.push(simple_rule(rng, names)),
        16..=18 => selector(rng, names, out),
        _ => out.push(bad_rule(rng)),
    }
}

fn selector(rng: &mut Rng, names: &Names, out: &mut Vec<String>) {
    let count = rng.below(4);
    let inner: Vec<String> = (0..count)
        .map(|_| if rng.percent(95) { selector_rule(rng, names) } else { bad_rule(rng) })
        .collect();
    let text = format!("({})", inner.join(" "));
    match rng.below(4) {
        0 => out.extend(text.split(' ').map(String::from)),
        1 => out.push(text.replace(' ', "  ")),
        _ => out.push(text),
    }
}

fn simple_rule(rng: &mut Rng, names: &Names) -> String {
    const FIXED: [&str; 12] = [
        "on",
        "off",
        "nopass",
        "resetpass",
        "reset",
        "clearselectors",
        "sanitize-payload",
        "skip-sanitize-payload",
        "on",
        "on",
        "",
        "ON",
    ];
    match rng.below(10) {
        0 | 1 => FIXED[rng.below(FIXED.len())].into(),
        2 => {
            let sign = [">", "<", ">", "#", "!"][rng.below(5)];
            match sign {
                "#" | "!" => format!("{sign}{HASH}"),
                _ => format!("{sign}{}", rng.pick(&PASSWORDS)),
            }
        }
        _ => selector_rule(rng, names),
    }
}

fn selector_rule(rng: &mut Rng, names: &Names) -> String {
    const FIXED: [&str; 14] = [
        "allkeys",
        "resetkeys",
        "allchannels",
        "resetchannels",
        "alldbs",
        "resetdbs",
        "allcommands",
        "nocommands",
        "~*",
        "&*",
        "+@all",
        "-@all",
        "ResetKeys",
        "+@ALL",
    ];
    match rng.below(20) {
        0..=2 => FIXED[rng.below(FIXED.len())].into(),
        3..=5 => {
            let sign = ["~", "~", "%R~", "%W~", "%RW~", "%wr~"][rng.below(6)];
            format!("{sign}{}", rng.pick(&PATTERNS))
        }
        6 => format!("&{}", rng.pick(&PATTERNS)),
        7 => databases(rng),
        8..=11 => {
            let sign = ["+", "-"][rng.below(2)];
            format!("{sign}@{}", rng.pick(&names.categories))
        }
        12 => {
            let first = rng.pick(&["0", "1", "a1", "GET", "x"]);
            format!("+{}|{first}", rng.pick(&["select", "get", "debug", "SET", "config"]))
        }
        _ => {
            let sign = ["+", "-"][rng.below(2)];
            let name = rng.pick(&names.commands);
            if rng.percent(10) {
                format!("{sign}{}", name.to_uppercase())
            } else {
                format!("{sign}{name}")
            }
        }
    }
}

fn databases(rng: &mut Rng) -> String {
    let count = 1 + rng.below(3);
    let list: Vec<&str> = (0..count)
        .map(|_| if rng.percent(95) { NUMBERS[rng.below(5)] } else { *rng.pick(&NUMBERS) })
        .collect();
    format!("{}{}", if rng.percent(90) { "db=" } else { "DB=" }, list.join(","))
}

fn bad_rule(rng: &mut Rng) -> String {
    const BAD: [&str; 26] = [
        "bad",
        "+nosuch",
        "-nosuch",
        "+@nosuch",
        "%~x",
        "%RR~x",
        "%R",
        "%X~a",
        "#abc",
        "!abc",
        "+get|",
        "+|",
        "+config|nosuch",
        "-get|x",
        "+config|get|x",
        "(",
        ")",
        "db=",
        "db=x",
        "db=-1",
        "db=1,",
        "db=99999999999",
        "(+get",
        "((+get))",
        "~a b",
        "&a\tb",
    ];
    BAD[rng.below(BAD.len())].into()
}

/// Templates of commands that clients may really send; `K` is a key, `N` a number.
const COMMANDS: [&str; 46] = [
    "GET K",
    "SET K v",
    "SET K v GET",
    "DEL K",
    "MSET K 1 K 2",
    "MGET K K",
    "APPEND K x",
    "STRLEN K",
    "INCR K",
    "GETDEL K",
    "EXISTS K",
    "TYPE K",
    "KEYS nosuch",
    "DBSIZE",
    "SCARD K",
    "SELECT N",
    "COPY K K",
    "COPY K K DB N",
    "MOVE K N",
    "RENAME K K",
    "LPUSH K a",
    "RPOP K",
    "LMOVE K K LEFT LEFT",
    "SADD K m",
    "SINTERSTORE K K",
    "SORT K",
    "SORT K BY w_* GET #",
    "SORT K STORE K",
    "ZADD K 1 m",
    "ZUNIONSTORE K 1 K",
    "XADD K 1-1 f v",
    "PFADD K e",
    "PFMERGE K K",
    "PUBLISH K m",
    "SPUBLISH K m",
    "PING",
    "ECHO x",
    "ACL WHOAMI",
    "CONFIG GET hz",
    "FLUSHDB",
    "TTL K",
    "EVAL return{redis.call('get',KEYS[1])} 1 K",
    "MULTI",
    "EXEC",
    "DISCARD",
    "CLIENT GETNAME",
];

fn words_with_keys(rng: &mut Rng, templates: &[&str]) -> Vec<Vec<u8>> {
    let template = templates[rng.below(templates.len())];
    let word = |word: &str| match word {
        "K" => rng.pick(&KEYS).to_string(),
        "N" => rng.pick(&NUMBERS).to_string(),
        word => word.to_string(),
    };
    args(template.split(' ').map(word).collect())
}

fn dry_run(rng: &mut Rng, names: &Names) -> Step {
    let mut all = words("ACL DRYRUN");
    all.push(user(rng).as_bytes().to_vec());
    if rng.percent(50) {
        all.extend(words_with_keys(rng, &COMMANDS));
        return Step::Administrator(all);
    }
    // Any command, with arguments that may be keys, numbers of keys or options.
    let name = rng.pick(&names.commands);
    if name == "pfmerge" {
        // With one key it needs more rights here: docs/differences.md.
        return acl(&["USERS"]);
    }
    all.extend(name.split('|').map(|word| word.as_bytes().to_vec()));
    for _ in 0..rng.below(7) {
        let word = match rng.below(10) {
            0..=5 => rng.pick(&KEYS),
            6 | 7 => rng.pick(&NUMBERS),
            _ => rng.pick(&OPTIONS),
        };
        all.push(word.as_bytes().to_vec());
    }
    Step::Administrator(all)
}

/// A file. Most lines are users, so that the file is right now and then.
fn load(rng: &mut Rng, names: &Names) -> Step {
    let mut text = String::from("user default on nopass ~* &* +@all\n");
    let correct = rng.percent(60);
    for name in &USERS[..rng.below(4)] {
        let mut rules = Vec::new();
        for _ in 0..rng.below(5) {
            if correct {
                rules.push(selector_rule_for_file(rng, names));
            } else {
                // The reference crashes at a parenthesis that is not closed after another rule.
                let any = if rng.percent(80) { simple_rule(rng, names) } else { bad_rule(rng) };
                rules.extend(Some(any).filter(|rule| !rule.contains('(')));
            }
        }
        text.push_str(&format!("user {name} {}\n", rules.join(" ")));
    }
    if !correct && rng.percent(50) {
        let bad = [
            "# comment",
            "usr x on",
            "user",
            "user u1 on",
            "",
            "  ",
            "user u9 on\r",
            "user \"q\" on",
            "user u8 (+get",
        ];
        text.push_str(bad[rng.below(bad.len())]);
        text.push('\n');
    }
    Step::Load(text.into_bytes())
}

/// A rule that is valid after all others.
fn selector_rule_for_file(rng: &mut Rng, names: &Names) -> String {
    match rng.below(6) {
        0 => "on".into(),
        1 => ">p1".into(),
        2 => format!("+@{}", rng.pick(&names.categories)),
        3 => format!("-{}", rng.pick(&names.commands)),
        4 => "db=0,1".into(),
        _ => "(~a* +@read)".into(),
    }
}
