//! The notation of requests in the tables of `commands/`.
//!
//! ```text
//! SET <key> <value> {[NX|XX|IFEQ <value>] [GET] [EX <secs>|PX <ms>|KEEPTTL]}
//! MSETEX <numkeys> (<key> <value>)... [NX|XX]
//! SET <key=a> <value> PX 1 ; @sleep ; TTL <a>
//! ~CLIENT REPLY SKIP ; ~SET <key> <value> ; GET <key>
//! ```
//!
//! | notation | meaning |
//! |---|---|
//! | `WORD`, `"two words"`, `""` | the text itself; a bare word is sometimes sent in odd case |
//! | `<kind>` | a random argument of that kind ([`Kind`]) |
//! | `<kind=x>`, `<x>` | the same, stored as `x`, and sent again |
//! | `[a\|b]` | nothing, or one of the alternatives |
//! | `(a\|b)` | one of the alternatives |
//! | `{ ... }` | its parts in any order |
//! | `x...` | `x` one to four times |
//! | `;` | the next command of a script |
//! | `~` before a command | the server doesn't reply to it |
//! | `@sync` | waits until both servers have replied to all commands |
//! | `@sleep` | the same, then waits until lifetimes of a millisecond are over |
//! | `@closes` | both servers must close the connection now; a new one follows |
//!
//! Syntax is parsed once, at the start of a run. An error in it is a bug of the table and panics
//! with the text.

use super::values::Kind;

/// A piece of a command's arguments.
#[derive(Clone, Debug)]
pub enum Node {
    /// Sent as written, except for its case.
    Word(&'static str),
    /// Sent exactly as written.
    Quoted(&'static str),
    /// A random argument, which may be stored under a name.
    Slot(Kind, Option<&'static str>),
    /// A stored argument.
    Again(&'static str),
    /// None or one of the sequences.
    Optional(Vec<Vec<Node>>),
    /// One of the sequences.
    Choice(Vec<Vec<Node>>),
    /// All nodes, in any order.
    AnyOrder(Vec<Node>),
    /// One to four times.
    Repeat(Box<Node>),
}

/// A piece of a script.
#[derive(Clone, Debug)]
pub enum Part {
    /// A command; `answered` unless the server must not reply.
    Command {
        /// Its words, with the name first.
        nodes: Vec<Node>,
        /// Whether the server replies.
        answered: bool,
    },
    /// Wait for all replies.
    Sync,
    /// Wait for all replies and for the end of short lifetimes.
    Sleep,
    /// The servers close the connection.
    Closes,
}

/// Parses the syntax of one rule.
///
/// # Panics
/// If the syntax is invalid, or names an unknown kind.
pub fn parse(syntax: &'static str) -> Vec<Part> {
    let mut names = Vec::new();
    split_script(syntax)
        .into_iter()
        .map(|part| match part {
            "@sync" => Part::Sync,
            "@sleep" => Part::Sleep,
            "@closes" => Part::Closes,
            command => {
                let (answered, command) = match command.strip_prefix('~') {
                    Some(rest) => (false, rest),
                    None => (true, command),
                };
                let mut parser = Parser { syntax, rest: command, names: &mut names };
                let nodes = parser.sequence();
                assert!(parser.rest.is_empty(), "unexpected {:?} in rule {syntax:?}", parser.rest);
                assert!(!nodes.is_empty(), "an empty command in rule {syntax:?}");
                Part::Command { nodes, answered }
            }
        })
        .collect()
}

/// Cuts at the semicolons that are not quoted.
fn split_script(syntax: &'static str) -> Vec<&'static str> {
    let mut parts = Vec::new();
    let (mut start, mut quoted) = (0, false);
    for (i, b) in syntax.bytes().enumerate() {
        match b {
            b'"' => quoted = !quoted,
            b';' if !quoted => {
                parts.push(syntax[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(syntax[start..].trim());
    parts
}

struct Parser<'a> {
    syntax: &'static str,
    rest: &'static str,
    names: &'a mut Vec<&'static str>,
}

impl Parser<'_> {
    fn fail(&self, what: &str) -> ! {
        panic!("{what} before {:?} in rule {:?}", self.rest, self.syntax)
    }

    fn skip(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Nodes up to a closing bracket, a bar or the end.
    fn sequence(&mut self) -> Vec<Node> {
        let mut nodes = Vec::new();
        loop {
            self.rest = self.rest.trim_start();
            if self.rest.is_empty() || self.rest.starts_with(['|', ')', ']', '}']) {
                return nodes;
            }
            let node = self.node();
            nodes.push(match self.skip("...") {
                true => Node::Repeat(Box::new(node)),
                false => node,
            });
        }
    }

    fn alternatives(&mut self, close: &str) -> Vec<Vec<Node>> {
        let mut all = vec![self.sequence()];
        while self.skip("|") {
            all.push(self.sequence());
        }
        if !self.skip(close) {
            self.fail("a bracket is not closed");
        }
        all
    }

    fn node(&mut self) -> Node {
        if self.skip("[") {
            Node::Optional(self.alternatives("]"))
        } else if self.skip("(") {
            Node::Choice(self.alternatives(")"))
        } else if self.skip("{") {
            let nodes = self.sequence();
            if !self.skip("}") {
                self.fail("a brace is not closed");
            }
            Node::AnyOrder(nodes)
        } else if self.skip("<") {
            self.slot()
        } else if self.skip("\"") {
            let Some((text, rest)) = self.rest.split_once('"') else {
                self.fail("a quote is not closed")
            };
            self.rest = rest;
            Node::Quoted(text)
        } else {
            let end = self.rest.find([' ', '|', ')', ']', '}']).unwrap_or(self.rest.len());
            let (word, rest) = self.rest.split_at(end);
            self.rest = rest;
            Node::Word(word)
        }
    }

    fn slot(&mut self) -> Node {
        let Some((inside, rest)) = self.rest.split_once('>') else {
            self.fail("a slot is not closed")
        };
        self.rest = rest;
        let (kind, name) = match inside.split_once('=') {
            Some((kind, name)) => (kind, Some(name)),
            None => (inside, None),
        };
        if name.is_none() && self.names.contains(&kind) {
            return Node::Again(kind);
        }
        let Some(kind) = Kind::named(kind) else { self.fail("an unknown kind") };
        self.names.extend(name);
        Node::Slot(kind, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_notation_is_parsed() {
        let parts =
            parse("SET <key=a> \"x;y\" {[NX|XX] (<value>)...} ; @sleep ; ~GET <a> ; @closes");
        assert_eq!(parts.len(), 4);
        let Part::Command { nodes, answered: true } = &parts[0] else { panic!("{parts:?}") };
        assert!(matches!(nodes[0], Node::Word("SET")));
        assert!(matches!(nodes[1], Node::Slot(Kind::Key, Some("a"))));
        assert!(matches!(nodes[2], Node::Quoted("x;y")));
        let Node::AnyOrder(inner) = &nodes[3] else { panic!("{nodes:?}") };
        assert!(matches!(&inner[0], Node::Optional(all) if all.len() == 2));
        assert!(matches!(&inner[1], Node::Repeat(_)));
        assert!(matches!(parts[1], Part::Sleep));
        let Part::Command { nodes, answered: false } = &parts[2] else { panic!("{parts:?}") };
        assert!(matches!(nodes[1], Node::Again("a")));
        assert!(matches!(parts[3], Part::Closes));
    }

    #[test]
    fn errors_in_a_table_panic() {
        for wrong in [
            "GET <nokind>",
            "GET [a",
            "GET (a]",
            "GET {a",
            "GET <key",
            "GET \"a",
            "GET a)",
            "GET ;",
            "",
        ] {
            assert!(std::panic::catch_unwind(|| parse(wrong)).is_err(), "{wrong:?} was accepted");
        }
    }
}
