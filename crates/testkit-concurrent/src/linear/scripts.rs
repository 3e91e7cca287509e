//! Scripts as commands of the model: `EVALSHA name count key... word...`. The server gets the hash in place of the
//! name, and the first `count` words are declared as keys.
//!
//! | script | words | effect |
//! |---|---|---|
//! | `each` | declared keys, then commands between `;` | calls the commands, returns their replies |
//! | `spin` | the same; `~ n` counts to n | leaves the I/O thread |
//! | `whole` | the same | has commands on all keys |
//! | `swap` | two strings | exchanges them, returns the old values |
//! | `move` | two numbers and an amount | moves the amount if the first has it |
//! | `follow` | a pointer, four strings, a value | sets the string that the pointer names, returns the old value |
//!
//! `each`, `spin` and `whole` differ in a comment only: the server remembers for each script that it needs long, or all
//! shards.

use super::answer::Answer;
use std::collections::HashMap;
use weft_testkit::Client;

/// Calls the commands among the arguments, which are separated by `;`.
const EACH: &str = "local replies, words = {}, {}
for n = 1, #ARGV + 1 do
  local word = ARGV[n]
  if word ~= nil and word ~= ';' then
    words[#words + 1] = word
  elseif words[1] == '~' then
    for n = 1, tonumber(words[2]) do end
    replies[#replies + 1], words = false, {}
  else
    replies[#replies + 1], words = redis.pcall(unpack(words)), {}
  end
end
return replies";

/// Declared keys and other words are one list for these scripts.
const WORDS: &str = "local w = {}
for _, word in ipairs(KEYS) do w[#w + 1] = word end
for _, word in ipairs(ARGV) do w[#w + 1] = word end
";

const SWAP: &str = "local a, b = redis.call('get', w[1]), redis.call('get', w[2])
if b then redis.call('set', w[1], b) else redis.call('del', w[1]) end
if a then redis.call('set', w[2], a) else redis.call('del', w[2]) end
return {a, b}";

const MOVE: &str = "if tonumber(redis.call('get', w[1]) or 0) < tonumber(w[3]) then return 0 end
redis.call('decrby', w[1], w[3])
redis.call('incrby', w[2], w[3])
return 1";

const FOLLOW: &str = "local at = w[2 + tonumber(redis.call('get', w[1]) or 9)]
if at == nil or at == w[6] then return false end
local old = redis.call('get', at)
redis.call('set', at, w[6])
return old";

fn bodies() -> [(&'static str, String); 6] {
    [
        ("each", EACH.to_string()),
        ("spin", format!("{EACH} -- spin")),
        ("whole", format!("{EACH} -- whole")),
        ("swap", format!("{WORDS}{SWAP}")),
        ("move", format!("{WORDS}{MOVE}")),
        ("follow", format!("{WORDS}{FOLLOW}")),
    ]
}

/// The hashes of the scripts on a server.
#[derive(Clone, Debug)]
pub struct Hashes(HashMap<&'static str, String>);

impl Hashes {
    /// Loads the scripts.
    pub fn load(client: &mut Client) -> Hashes {
        let load = |(name, body): (&'static str, String)| {
            (name, client.cmd(&["SCRIPT", "LOAD", &body]).text())
        };
        Hashes(bodies().into_iter().map(load).collect())
    }

    /// Replaces the name of a script by its hash.
    pub fn put_in(&self, args: &mut [String]) {
        if is_script(args) {
            args[1] = self.0[args[1].as_str()].clone();
        }
    }
}

/// Whether a command of the model runs a script.
pub fn is_script(args: &[String]) -> bool {
    args[0].starts_with("EVALSHA")
}

/// Whether a word is a key: a letter and digits. `f` is for fields.
pub fn is_key(word: &str) -> bool {
    let mut bytes = word.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_lowercase() && b != b'f')
        && word.len() > 1
        && bytes.all(|b| b.is_ascii_digit())
}

/// The words after the count of declared keys; for a script that gets commands, those after the declared keys.
fn words(args: &[String]) -> &[String] {
    &args[3..]
}

/// The commands of a script that gets them as arguments.
pub fn inner(args: &[String]) -> Option<impl Iterator<Item = &[String]>> {
    if !is_script(args) || !matches!(args[1].as_str(), "each" | "spin" | "whole") {
        return None;
    }
    let declared: usize = args[2].parse().expect("a number");
    Some(args[3 + declared..].split(|word| word == ";"))
}

/// Whether the reply of a script without inner commands shows its change.
pub fn tells(args: &[String]) -> bool {
    matches!(args[1].as_str(), "swap" | "move")
}

/// Runs a script in the model. `call` runs one command: with the words, and the recorded reply to it. `None`: the
/// recorded reply doesn't fit.
pub fn run(
    args: &[String],
    answer: Option<&Answer>,
    mut call: impl FnMut(&[String], Option<&Answer>) -> Option<Answer>,
) -> Option<Answer> {
    if let Some(commands) = inner(args) {
        let got = |n: usize| match answer {
            Some(Answer::List(answers)) => answers.get(n),
            _ => None,
        };
        let one = |(n, command): (usize, &[String])| match command[0].as_str() {
            "~" => Some(Answer::Nil),
            _ => call(command, got(n)),
        };
        return commands.enumerate().map(one).collect::<Option<Vec<_>>>().map(Answer::list);
    }
    let mut call = |command: &[&str]| {
        let command: Vec<String> = command.iter().map(|word| word.to_string()).collect();
        call(&command, None)
    };
    let w: Vec<&str> = words(args).iter().map(String::as_str).collect();
    match args[1].as_str() {
        "swap" => {
            let (a, b) = (call(&["GET", w[0]])?, call(&["GET", w[1]])?);
            for (to, value) in [(w[0], &b), (w[1], &a)] {
                match value {
                    Answer::Text(text) => call(&["SET", to, text])?,
                    _ => call(&["DEL", to])?,
                };
            }
            Some(Answer::List(vec![a, b]))
        }
        "move" => {
            let has: i64 = match call(&["GET", w[0]])? {
                Answer::Text(text) => text.parse().expect("a number"),
                _ => 0,
            };
            if has < w[2].parse().expect("a number") {
                return Some(Answer::Int(0));
            }
            call(&["INCRBY", w[0], &format!("-{}", w[2])])?;
            call(&["INCRBY", w[1], w[2]])?;
            Some(Answer::Int(1))
        }
        "follow" => {
            let Answer::Text(at) = call(&["GET", w[0]])? else { return Some(Answer::Nil) };
            let at: usize = at.parse().expect("a number");
            if at > 3 {
                return Some(Answer::Nil);
            }
            let old = call(&["GET", w[1 + at]])?;
            call(&["SET", w[1 + at], w[5]])?;
            Some(old)
        }
        other => panic!("no script {other}"),
    }
}
