//! The server's own description of its commands: COMMAND DOCS as trees of arguments, COMMAND as
//! flags.
//!
//! Parts of an unexpected form are left out or treated as a string. So a table of a new version, or
//! of a server with few commands, works too.

use std::collections::HashSet;
use std::io;

use crate::control::{Control, Reply};

/// The deepest nesting of arguments; deeper ones are left out.
const DEPTH: usize = 16;

/// One command, or one subcommand.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Its words: `SET`, or `CLIENT` and `LIST`.
    pub words: Vec<Vec<u8>>,
    /// `string`, `sorted-set`, `server`, ...
    pub group: String,
    pub args: Vec<Arg>,
}

/// One argument, or several in a group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arg {
    pub name: String,
    pub kind: Kind,
    /// The word before it, or instead of it.
    pub token: Option<Vec<u8>>,
    pub optional: bool,
    /// It may be repeated.
    pub multiple: bool,
    /// Its token is repeated with it.
    pub multiple_token: bool,
}

/// The kind of an argument.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Kind {
    Key,
    #[default]
    Text,
    Integer,
    Double,
    Pattern,
    UnixTime,
    /// Its token alone.
    Token,
    OneOf(Vec<Arg>),
    /// All of them, in this order.
    Block(Vec<Arg>),
}

/// All commands of a server.
#[derive(Clone, Debug, Default)]
pub struct Table {
    pub specs: Vec<Spec>,
    /// The commands that may block, in upper case.
    pub blocking: HashSet<Vec<u8>>,
}

impl Table {
    /// Reads the table of a server.
    ///
    /// # Errors
    /// If it has no COMMAND DOCS, or documents nothing, or is gone.
    pub fn fetch(control: &mut Control) -> io::Result<Table> {
        let docs = match control.ask(&["COMMAND", "DOCS"])? {
            Reply::Error(error) => {
                let message = format!("Failed to execute COMMAND DOCS. {error}");
                return Err(io::Error::other(message));
            }
            docs => docs,
        };
        let table = Table { specs: specs(&docs), blocking: blocking(&control.ask(&["COMMAND"])?) };
        if table.specs.is_empty() {
            return Err(io::Error::other("COMMAND DOCS: the server documents no commands"));
        }
        Ok(table)
    }
}

/// The pairs of a map, which RESP2 sends as an array.
fn pairs(reply: &Reply) -> impl Iterator<Item = (String, &Reply)> {
    reply.items().chunks_exact(2).map(|pair| (lower(pair[0].text()), &pair[1]))
}

fn lower(text: &[u8]) -> String {
    String::from_utf8_lossy(text).to_ascii_lowercase()
}

/// The commands in a reply of COMMAND DOCS; a container yields its subcommands, and itself if it
/// takes arguments or has no subcommands.
pub fn specs(docs: &Reply) -> Vec<Spec> {
    let mut all = Vec::new();
    for (name, doc) in pairs(docs) {
        add_command(&name, doc, 0, &mut all);
    }
    all
}

fn add_command(name: &str, doc: &Reply, depth: usize, all: &mut Vec<Spec>) {
    let words: Vec<Vec<u8>> =
        name.split('|').map(|word| word.to_ascii_uppercase().into_bytes()).collect();
    let (mut group, mut args) = (String::new(), Vec::new());
    let before = all.len();
    for (field, value) in pairs(doc) {
        match field.as_str() {
            "group" => group = lower(value.text()),
            "arguments" => args = arguments(value, 0),
            "subcommands" if depth < DEPTH => {
                for (name, doc) in pairs(value) {
                    add_command(&name, doc, depth + 1, all);
                }
            }
            // The fields summary, since, complexity, history and future ones.
            _ => {}
        }
    }
    if name.is_empty() || (all.len() > before && args.is_empty()) {
        return;
    }
    all.push(Spec { words, group, args });
}

fn arguments(list: &Reply, depth: usize) -> Vec<Arg> {
    if depth == DEPTH {
        return Vec::new();
    }
    list.items().iter().map(|argument| one_argument(argument, depth)).collect()
}

fn one_argument(argument: &Reply, depth: usize) -> Arg {
    let mut arg = Arg::default();
    let (mut kind, mut parts) = (String::new(), Vec::new());
    for (field, value) in pairs(argument) {
        match field.as_str() {
            "name" => arg.name = lower(value.text()),
            "type" => kind = lower(value.text()),
            "token" => arg.token = Some(value.text().to_vec()),
            "arguments" => parts = arguments(value, depth + 1),
            "flags" => {
                for flag in value.items() {
                    match flag.text() {
                        b"optional" => arg.optional = true,
                        b"multiple" => arg.multiple = true,
                        b"multiple_token" => arg.multiple_token = true,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    arg.kind = match kind.as_str() {
        "key" => Kind::Key,
        "integer" => Kind::Integer,
        "double" => Kind::Double,
        "pattern" => Kind::Pattern,
        "unix-time" => Kind::UnixTime,
        "pure-token" => Kind::Token,
        "oneof" if !parts.is_empty() => Kind::OneOf(parts),
        "block" if !parts.is_empty() => Kind::Block(parts),
        _ => Kind::Text,
    };
    arg
}

/// The names of the commands with the flag `blocking` in a reply of COMMAND.
fn blocking(commands: &Reply) -> HashSet<Vec<u8>> {
    let waits = |command: &&Reply| {
        let flags = command.items().get(2).map_or(&[][..], Reply::items);
        flags.iter().any(|flag| flag.text() == b"blocking")
    };
    let name =
        |command: &Reply| command.items().first().map(|name| name.text().to_ascii_uppercase());
    commands.items().iter().filter(waits).filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skipper::Types;

    fn text(text: &str) -> Reply {
        Reply::Text(Types::BULK, text.into())
    }

    fn list(items: &[Reply]) -> Reply {
        Reply::Items(Types::ARRAY, items.to_vec())
    }

    #[test]
    fn documents_become_trees() {
        let key = list(&[text("name"), text("key"), text("type"), text("key")]);
        let flags = list(&[text("optional"), text("multiple"), text("multiple_token")]);
        let pattern = [text("name"), text("p"), text("type"), text("pattern"), text("token")];
        let pattern = [&pattern[..], &[text("GET"), text("flags"), flags]].concat();
        let block = [text("type"), text("block"), text("arguments"), list(&[list(&pattern)])];
        let doc = [text("group"), text("generic"), text("arguments"), list(&[key, list(&block)])];
        let all = specs(&list(&[text("sort"), list(&doc)]));
        let get = Arg {
            name: "p".into(),
            kind: Kind::Pattern,
            token: Some(b"GET".to_vec()),
            optional: true,
            multiple: true,
            multiple_token: true,
        };
        let key = Arg { name: "key".into(), kind: Kind::Key, ..Arg::default() };
        let block = Arg { kind: Kind::Block(vec![get]), ..Arg::default() };
        let want =
            Spec { words: vec![b"SORT".to_vec()], group: "generic".into(), args: vec![key, block] };
        assert_eq!(all, [want]);
    }

    #[test]
    fn containers_give_their_subcommands() {
        let doc = list(&[text("group"), text("connection")]);
        let subs = list(&[text("client|id"), doc.clone(), text("client|list"), doc]);
        let docs = list(&[text("client"), list(&[text("subcommands"), subs])]);
        let words: Vec<_> = specs(&docs).into_iter().map(|spec| spec.words.join(&b' ')).collect();
        assert_eq!(words, [&b"CLIENT ID"[..], b"CLIENT LIST"]);
    }

    #[test]
    fn any_other_form_is_no_harm() {
        for odd in [
            Reply::Null,
            Reply::Integer(3),
            list(&[text("alone")]),
            list(&[Reply::Null, Reply::Null]),
        ] {
            assert!(specs(&odd).is_empty(), "{odd:?}");
            assert!(blocking(&odd).is_empty());
        }
        let strange = list(&[text("x"), list(&[text("arguments"), list(&[Reply::Integer(1)])])]);
        assert_eq!(specs(&strange)[0].args, [Arg::default()]);
    }

    #[test]
    fn flags_name_those_that_wait() {
        let command = |name: &str, flag: &str| {
            list(&[text(name), Reply::Integer(1), list(&[text("write"), text(flag)])])
        };
        let all = blocking(&list(&[command("blpop", "blocking"), command("set", "denyoom")]));
        assert_eq!(all, HashSet::from([b"BLPOP".to_vec()]));
    }
}
