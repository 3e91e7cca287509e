//! Selectors: a user may run what one of them allows.

use crate::catalog::{Catalog, Command};
use crate::commands::Commands;
use crate::databases::Databases;
use crate::patterns::{Access, Channels, Keys, has_invalid_bytes};
use crate::policy::{ChannelDefault, Policy};
use crate::request::{Denied, Reason, Request};
use crate::rule_error::Why;
use weft_base::words;

/// A set of rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    pub(crate) commands: Commands,
    pub(crate) keys: Keys,
    pub(crate) channels: Channels,
    pub(crate) databases: Databases,
}

type Apply = fn(&mut Selector);

/// The rules without an argument.
const WORDS: [(&str, Apply); 12] = [
    ("allkeys", |s| s.keys.set_all(true)),
    ("~*", |s| s.keys.set_all(true)),
    ("resetkeys", |s| s.keys.set_all(false)),
    ("allchannels", |s| s.channels.set_all(true)),
    ("&*", |s| s.channels.set_all(true)),
    ("resetchannels", |s| s.channels.set_all(false)),
    ("alldbs", |s| s.databases = Databases::All),
    ("resetdbs", |s| s.databases = Databases::Only(Vec::new())),
    ("allcommands", |s| s.commands = Commands::new(true)),
    ("+@all", |s| s.commands = Commands::new(true)),
    ("nocommands", |s| s.commands = Commands::new(false)),
    ("-@all", |s| s.commands = Commands::new(false)),
];

impl Selector {
    /// No commands and keys, all databases; all channels or none by `acl-pubsub-default`.
    pub(crate) fn new(channels: ChannelDefault) -> Selector {
        let mut selector = Selector {
            commands: Commands::new(false),
            keys: Keys::default(),
            channels: Channels::default(),
            databases: Databases::All,
        };
        selector.channels.set_all(channels == ChannelDefault::All);
        selector
    }

    /// Parses a selector with its parentheses. Quotes that are not closed make it empty, as in the reference.
    pub(crate) fn parse(policy: Policy<'_>, text: &[u8]) -> Result<Selector, Why> {
        let mut selector = Selector::new(policy.channels);
        for rule in words::split(&text[1..text.len() - 1]).unwrap_or_default() {
            selector.apply(policy.catalog, &rule)?;
        }
        Ok(selector)
    }

    /// Applies one rule.
    pub(crate) fn apply(&mut self, catalog: &Catalog, rule: &[u8]) -> Result<(), Why> {
        let is = |word: &str| rule.eq_ignore_ascii_case(word.as_bytes());
        if let Some((_, apply)) = WORDS.iter().find(|(word, _)| is(word)) {
            apply(self);
            return Ok(());
        }
        if let Some((name, numbers)) = rule.split_at_checked(3)
            && name.eq_ignore_ascii_case(b"db=")
        {
            self.databases = Databases::parse(numbers)?;
            return Ok(());
        }
        match rule {
            [b'~' | b'%', ..] => self.add_keys(rule),
            [b'&', pattern @ ..] => self.add_channels(pattern),
            [b'+' | b'-', ..] => self.commands.apply(catalog, rule),
            _ => Err(Why::Syntax),
        }
    }

    fn add_keys(&mut self, rule: &[u8]) -> Result<(), Why> {
        if self.keys.all {
            return Err(Why::KeysAfterAll);
        }
        let (access, pattern) = key_rule(rule).ok_or(Why::Syntax)?;
        if has_invalid_bytes(pattern) {
            return Err(Why::Syntax);
        }
        self.keys.add(pattern, access);
        Ok(())
    }

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), Why> {
        if self.channels.all {
            return Err(Why::ChannelsAfterAll);
        }
        if has_invalid_bytes(pattern) {
            return Err(Why::Syntax);
        }
        self.channels.add(pattern);
        Ok(())
    }

    /// Whether it allows a request. The checks have the order of the reference: database, command, keys, channels.
    #[inline]
    pub(crate) fn check(
        &self,
        catalog: &Catalog,
        command: &Command,
        request: &Request<'_>,
    ) -> Result<(), Denied> {
        if self.databases != Databases::All
            && let Some(at) = self.refused_database(catalog, command, request)
        {
            return Err(Denied { reason: Reason::Database, at });
        }
        if !self.commands.allow(command, request.args) {
            return Err(Denied { reason: Reason::Command, at: 0 });
        }
        if !self.keys.all {
            let may = |at: usize, access: Access| self.keys.allow(request.args[at], access);
            if let Some(at) = command.refused_key(request.args, may) {
                return Err(Denied { reason: Reason::Key, at });
            }
        }
        if !self.channels.all {
            let (mut at, is_pattern) = command.channels(request.args.len());
            if let Some(at) = at.find(|at| !self.channels.allow(request.args[*at], is_pattern)) {
                return Err(Denied { reason: Reason::Channel, at });
            }
        }
        Ok(())
    }

    /// The argument that names a database which is not allowed; 0 for the selected one or all.
    fn refused_database(
        &self,
        catalog: &Catalog,
        command: &Command,
        request: &Request<'_>,
    ) -> Option<usize> {
        use weft_command_spec::Databases as Named;
        let args = request.args;
        let named = match command.spec.special.databases {
            Named::Current => None,
            Named::All => Some(0),
            Named::At(positions) => self.refused_of(catalog, args, positions.iter().copied()),
            Named::AfterDb => copy_databases(args)
                .and_then(|positions| self.refused_of(catalog, args, positions.into_iter())),
        };
        let is_refused = || command.uses_database && !self.databases.allow(request.database);
        named.or_else(|| is_refused().then_some(0))
    }

    /// The first of these arguments that is a database which is not allowed. If one of them is no database, the
    /// command fails anyway.
    fn refused_of(
        &self,
        catalog: &Catalog,
        args: &[&[u8]],
        positions: impl Iterator<Item = usize> + Clone,
    ) -> Option<usize> {
        let database = |at: usize| {
            let number = weft_base::num::parse_i64(args.get(at)?)?;
            catalog.has_database(number).then_some(number as usize)
        };
        if positions.clone().any(|at| database(at).is_none()) {
            return None;
        }
        let mut positions = positions;
        positions.find(|at| database(*at).is_some_and(|number| !self.databases.allow(number)))
    }

    /// The rules, for a line of ACL LIST.
    pub(crate) fn describe(&self) -> Vec<u8> {
        let mut parts = Vec::new();
        let keys = self.keys.describe();
        if !keys.is_empty() {
            parts.push(keys);
        }
        if !self.channels.all {
            parts.push(b"resetchannels".to_vec());
        }
        let channels = self.channels.describe();
        if !channels.is_empty() {
            parts.push(channels);
        }
        if self.databases != Databases::All {
            parts.push(self.databases.describe().into_bytes());
        }
        parts.push(self.commands.describe().into_bytes());
        parts.join(&b' ')
    }

    /// The field "commands" of ACL GETUSER.
    pub fn commands_text(&self) -> String {
        self.commands.describe()
    }

    /// The field "keys" of ACL GETUSER.
    pub fn keys_text(&self) -> Vec<u8> {
        self.keys.describe()
    }

    /// The field "channels" of ACL GETUSER.
    pub fn channels_text(&self) -> Vec<u8> {
        self.channels.describe()
    }

    /// The field "databases" of ACL GETUSER: empty for none.
    pub fn databases_text(&self) -> String {
        match &self.databases {
            Databases::Only(numbers) if numbers.is_empty() => String::new(),
            databases => databases.describe(),
        }
    }

    pub(crate) fn is_unrestricted(&self) -> bool {
        self.commands.all && self.keys.all && self.channels.all && self.databases == Databases::All
    }
}

/// Parses `~pattern`, `%R~pattern` and the like.
fn key_rule(rule: &[u8]) -> Option<(Access, &[u8])> {
    if let [b'~', pattern @ ..] = rule {
        return Some((Access::BOTH, pattern));
    }
    let mut access = Access::default();
    let mut rest = &rule[1..];
    while let [byte, after @ ..] = rest {
        rest = after;
        match byte.to_ascii_uppercase() {
            b'R' if !access.read => access.read = true,
            b'W' if !access.write => access.write = true,
            b'~' => break,
            _ => return None,
        }
    }
    (access != Access::default()).then_some((access, rest))
}

/// The arguments of COPY that name a database. `None`: the options are not valid, so the command fails.
fn copy_databases(args: &[&[u8]]) -> Option<Vec<usize>> {
    let (mut found, mut at) = (Vec::new(), 3);
    while let Some(word) = args.get(at) {
        if word.eq_ignore_ascii_case(b"db") && at + 1 < args.len() {
            found.push(at + 1);
            at += 2;
        } else if word.eq_ignore_ascii_case(b"replace") {
            at += 1;
        } else {
            return None;
        }
    }
    Some(found)
}
