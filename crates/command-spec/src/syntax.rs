//! Parses a command's arguments from their notation.
//!
//! The notation is that of `docs/design/command-syntax.md`: for example `key
//! [condition=(nx=NX|xx=XX)] [EX seconds:integer] [MATCH pattern]`. The lines are constants of this
//! program. A test checks that each of them parses, so a parse error can't reach a client.
//!
//! A recursive descent over the bytes of the line:
//!
//! ```text
//! list     = item { " " item }  |  item { "|" item }
//! item     = ( "[" item "]" | [ TOKEN " " ] name [ ":" type | "=(" list ")" | "=" literal ] )
//!            { "@" version | "~" version | "<" text ">" | "#" | "..." | "+" }
//! ```

use crate::spec::Spec;

/// The kind of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// A value of this type: string, integer, key ...
    Value(&'a str),
    /// A token without a value.
    PureToken,
    /// One of these.
    OneOf(Vec<Arg<'a>>),
    /// All of these, in this order.
    Block(Vec<Arg<'a>>),
}

impl<'a> Kind<'a> {
    /// The type's name in COMMAND DOCS.
    pub fn name(&self) -> &'a str {
        match self {
            Kind::Value(name) => name,
            Kind::PureToken => "pure-token",
            Kind::OneOf(_) => "oneof",
            Kind::Block(_) => "block",
        }
    }
}

/// One argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arg<'a> {
    pub name: &'a str,
    pub kind: Kind<'a>,
    pub token: Option<&'a str>,
    /// The text shown instead of the name.
    pub display: Option<&'a str>,
    pub since: Option<&'a str>,
    pub deprecated_since: Option<&'a str>,
    pub optional: bool,
    pub multiple: bool,
    /// May be repeated, each time with its token.
    pub multiple_token: bool,
    pub of_key: OfKey,
}

/// Which key specification an argument refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfKey {
    /// An argument of type key refers to the specification of its rank, others to none.
    ByType,
    /// That of the key before it, though the argument is no key: `#`.
    Last,
    /// The specification with this index: `#1`.
    Nth(usize),
}

/// Assigns key specifications to arguments of type key: by rank, and the last specification for all
/// further arguments.
#[derive(Debug)]
pub struct KeyRanks {
    next: usize,
    specs: usize,
}

impl KeyRanks {
    pub fn new(spec: &Spec) -> KeyRanks {
        KeyRanks { next: 0, specs: spec.keys.len() }
    }

    /// The index of the key specification of `arg`. Called once for each argument, in their order.
    pub fn rank_of(&mut self, arg: &Arg<'_>) -> Option<usize> {
        match (arg.of_key, &arg.kind) {
            (OfKey::Nth(index), _) => Some(index),
            (OfKey::Last, _) => self.next.checked_sub(1),
            (OfKey::ByType, Kind::Value("key")) => self.take(),
            (OfKey::ByType, _) => None,
        }
    }

    fn take(&mut self) -> Option<usize> {
        let rank = self.next.min(self.specs.checked_sub(1)?);
        self.next += 1;
        Some(rank)
    }
}

/// Parses a line; the error is the byte at which parsing failed.
pub fn parse(line: &str) -> Result<Vec<Arg<'_>>, usize> {
    let mut parser = Parser { line, at: 0 };
    if line.is_empty() {
        return Ok(Vec::new());
    }
    let (items, separator) = parser.list()?;
    match separator {
        Some(b'|') => Err(0),
        _ if parser.at < line.len() => Err(parser.at),
        _ => Ok(items),
    }
}

struct Parser<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.line[self.at..]
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        self.at += if found { text.len() } else { 0 };
        found
    }

    fn expect(&mut self, text: &str) -> Result<(), usize> {
        if self.eat(text) { Ok(()) } else { Err(self.at) }
    }

    /// The bytes up to the first for which `ends` holds; at least one.
    fn until(&mut self, ends: impl Fn(char) -> bool) -> Result<&'a str, usize> {
        let rest = self.rest();
        let len = rest.find(ends).unwrap_or(rest.len());
        if len == 0 {
            return Err(self.at);
        }
        self.at += len;
        Ok(&rest[..len])
    }

    fn word(&mut self) -> Result<&'a str, usize> {
        self.until(|c| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'))
    }

    /// Parses items with the same separator between them, and returns the separator, too.
    fn list(&mut self) -> Result<(Vec<Arg<'a>>, Option<u8>), usize> {
        let mut items = vec![self.item()?];
        let separator = self.rest().bytes().next().filter(|b| matches!(b, b' ' | b'|'));
        if let Some(separator) = separator {
            let text = if separator == b'|' { "|" } else { " " };
            while self.eat(text) {
                items.push(self.item()?);
            }
        }
        Ok((items, separator))
    }

    fn item(&mut self) -> Result<Arg<'a>, usize> {
        let mut arg = if self.eat("[") {
            let mut inner = self.item()?;
            self.expect("]")?;
            inner.optional = true;
            inner
        } else {
            self.plain()?
        };
        self.suffixes(&mut arg)?;
        Ok(arg)
    }

    /// An argument without brackets and suffixes.
    fn plain(&mut self) -> Result<Arg<'a>, usize> {
        let mut name = self.word()?;
        let mut token = None;
        if name.starts_with(|c: char| c.is_ascii_uppercase()) {
            self.expect(" ")?;
            token = Some(name);
            name = self.word()?;
        }
        let kind = if self.eat(":") {
            Kind::Value(self.word()?)
        } else if self.eat("=(") {
            let (parts, separator) = self.list()?;
            self.expect(")")?;
            if separator == Some(b'|') { Kind::OneOf(parts) } else { Kind::Block(parts) }
        } else if self.eat("=") {
            token = Some(self.literal()?);
            Kind::PureToken
        } else {
            Kind::Value(default_type(name))
        };
        Ok(Arg {
            name,
            kind,
            token,
            display: None,
            since: None,
            deprecated_since: None,
            optional: false,
            multiple: false,
            multiple_token: false,
            of_key: OfKey::ByType,
        })
    }

    /// A literal word: any first byte, so that `=` and `~` work; `""` is the empty word.
    fn literal(&mut self) -> Result<&'a str, usize> {
        if self.eat("\"\"") {
            return Ok("");
        }
        let rest = self.rest();
        let first = rest.chars().next().ok_or(self.at)?.len_utf8();
        let more = rest[first..].find([' ', '|', ')', ']', '@', '~', '<', '.']);
        let len = first + more.unwrap_or(rest.len() - first);
        self.at += len;
        Ok(&rest[..len])
    }

    fn suffixes(&mut self, arg: &mut Arg<'a>) -> Result<(), usize> {
        loop {
            if self.eat("...") {
                arg.multiple = true;
            } else if arg.multiple && self.eat("+") {
                arg.multiple_token = true;
            } else if self.eat("#") {
                let digit = self.rest().bytes().next().filter(u8::is_ascii_digit);
                self.at += usize::from(digit.is_some());
                arg.of_key = digit.map_or(OfKey::Last, |d| OfKey::Nth(usize::from(d - b'0')));
            } else if self.eat("@") {
                arg.since = Some(self.version()?);
            } else if self.eat("~") {
                arg.deprecated_since = Some(self.version()?);
            } else if self.eat("<") {
                arg.display = Some(self.until(|c| c == '>')?);
                self.expect(">")?;
            } else {
                return Ok(());
            }
        }
    }

    /// Three numbers with dots between them.
    fn version(&mut self) -> Result<&'a str, usize> {
        let start = self.at;
        for part in 0..3 {
            if part > 0 {
                self.expect(".")?;
            }
            self.until(|c| !c.is_ascii_digit())?;
        }
        Ok(&self.line[start..self.at])
    }
}

fn default_type(name: &str) -> &str {
    match name {
        "key" | "pattern" => name,
        _ => "string",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A compact text form of a tree.
    fn show(args: &[Arg<'_>]) -> String {
        let one = |arg: &Arg<'_>| {
            let parts = match &arg.kind {
                Kind::OneOf(parts) | Kind::Block(parts) => format!("({})", show(parts)),
                Kind::Value(_) | Kind::PureToken => String::new(),
            };
            let token = arg.token.map(|t| format!("{t}!")).unwrap_or_default();
            let on = [(arg.optional, "?"), (arg.multiple, "*"), (arg.multiple_token, "+")];
            let on: String = on.iter().filter(|(on, _)| *on).map(|(_, mark)| *mark).collect();
            let since = arg.since.map(|v| format!(" since {v}")).unwrap_or_default();
            let old = arg.deprecated_since.map(|v| format!(" until {v}")).unwrap_or_default();
            let display = arg.display.map(|d| format!(" as {d}")).unwrap_or_default();
            format!("{token}{}:{}{parts}{on}{since}{old}{display}", arg.name, arg.kind.name())
        };
        args.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn parse_reads_every_form() {
        for (line, tree) in [
            ("", ""),
            ("key", "key:key"),
            ("key value", "key:key, value:string"),
            ("src:key n:integer", "src:key, n:integer"),
            ("[MATCH pattern]", "MATCH!pattern:pattern?"),
            ("key...", "key:key*"),
            ("[name...]", "name:string?*"),
            ("[GET pattern...+]", "GET!pattern:pattern?*+"),
            ("[get=GET]", "GET!get:pure-token?"),
            ("a=~ b==", "~!a:pure-token, =!b:pure-token"),
            ("[c=(nx=NX|IFEQ v)]", "c:oneof(NX!nx:pure-token, IFEQ!v:string)?"),
            ("data=(key value)...", "data:block(key:key, value:string)*"),
            ("AUTH a=(u p)", "AUTH!a:block(u:string, p:string)"),
            ("[u]@6.0.0 p", "u:string? since 6.0.0, p:string"),
            ("[u...]@6.0.0", "u:string?* since 6.0.0"),
            ("nx=NX@2.6.12", "NX!nx:pure-token since 2.6.12"),
            ("old~2.8.12<ip:port>", "old:string until 2.8.12 as ip:port"),
            ("LIB-NAME name@9.0.0...", "LIB-NAME!name:string* since 9.0.0"),
        ] {
            assert_eq!(parse(line).map(|args| show(&args)).as_deref(), Ok(tree), "{line}");
        }
    }

    #[test]
    fn parse_error_names_its_byte() {
        for (line, at) in [
            ("a|b", 0),
            ("a b|c", 3),
            ("[a", 2),
            ("a=(b", 4),
            ("a=", 2),
            ("a:", 2),
            ("A", 1),
            ("a  b", 2),
            ("a@1.2", 5),
            ("a<b", 3),
            ("a)", 1),
        ] {
            assert_eq!(parse(line).map(|args| show(&args)), Err(at), "{line}");
        }
    }
}
