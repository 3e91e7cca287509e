//! The facts of all commands that access control needs, by number.

use crate::patterns::Access;
use std::collections::HashMap;
use weft_command_spec::{
    CATEGORIES, Channels, Databases, Flags, GetKeys, KeySpec, NOT_A_KEY, Spec, key_options,
};

/// The numbers that a bitmap of commands has room for. The last one stands for commands of the future.
pub(crate) const MAX_COMMANDS: usize = 1024;

/// The categories of commands that work on the selected database, even without keys.
const OF_DATABASE: [&str; 3] = ["@keyspace", "@read", "@write"];

/// A command or subcommand to put into a catalog.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Unique, and less than 1023.
    pub number: usize,
    /// `get`, `client|list`.
    pub full_name: &'static str,
    pub spec: &'static Spec,
    /// The number of its container.
    pub container: Option<usize>,
    pub has_subcommands: bool,
}

/// A command or subcommand.
#[derive(Debug)]
pub(crate) struct Command {
    pub number: usize,
    pub full_name: &'static str,
    pub spec: &'static Spec,
    pub is_subcommand: bool,
    pub subcommands: Vec<usize>,
    /// A bit for each of [`CATEGORIES`].
    categories: u32,
    /// The specifications of keys, without those of channels.
    keys: Box<[(KeySpec, Access)]>,
    /// Whether it works on the selected database.
    pub uses_database: bool,
    /// AUTH and the like: allowed whatever the user's commands are.
    pub is_always_allowed: bool,
}

/// All commands.
#[derive(Debug)]
pub struct Catalog {
    commands: Vec<Option<Command>>,
    by_name: HashMap<&'static str, usize>,
    databases: usize,
}

impl Catalog {
    /// `databases`: the number of databases of the server.
    ///
    /// # Panics
    /// If a number is too large or not unique.
    pub fn new(entries: impl IntoIterator<Item = Entry>, databases: usize) -> Self {
        let mut catalog = Catalog { commands: Vec::new(), by_name: HashMap::new(), databases };
        let mut parents = Vec::new();
        for entry in entries {
            let number = entry.number;
            assert!(number < MAX_COMMANDS - 1, "{}: too many commands", entry.full_name);
            if catalog.commands.len() <= number {
                catalog.commands.resize_with(number + 1, || None);
            }
            assert!(catalog.commands[number].is_none(), "{}: {number} is taken", entry.full_name);
            catalog.commands[number] = Some(Command::new(&entry));
            catalog.by_name.insert(entry.full_name, number);
            parents.extend(entry.container.map(|container| (container, number)));
        }
        for (container, number) in parents {
            if let Some(Some(container)) = catalog.commands.get_mut(container) {
                container.subcommands.push(number);
            }
        }
        catalog
    }

    /// The command with that full name, in any case.
    pub(crate) fn find(&self, name: &[u8]) -> Option<&Command> {
        let name = name.to_ascii_lowercase();
        let number = self.by_name.get(std::str::from_utf8(&name).ok()?)?;
        self.get(*number)
    }

    /// The number of the command or subcommand that a request with these arguments would run. `None`: there is none.
    pub fn number_of(&self, args: &[&[u8]]) -> Option<usize> {
        // A name with `|` names no command here.
        let command = self.find(args.first()?).filter(|command| !command.is_subcommand)?;
        if command.subcommands.is_empty() || args.len() == 1 {
            return Some(command.number);
        }
        self.find(&[command.full_name.as_bytes(), b"|", args[1]].concat()).map(|c| c.number)
    }

    #[inline]
    pub(crate) fn get(&self, number: usize) -> Option<&Command> {
        self.commands.get(number)?.as_ref()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Command> {
        self.commands.iter().flatten()
    }

    /// `get`, `client|list`. Empty if there is no such command.
    pub fn full_name(&self, number: usize) -> &'static str {
        self.get(number).map_or("", |command| command.full_name)
    }

    /// The facts of a command.
    pub fn spec(&self, number: usize) -> Option<&'static Spec> {
        self.get(number).map(|command| command.spec)
    }

    /// The names of all commands and subcommands of a category, which has no `@` here.
    /// `None`: there is no such category.
    pub fn names_in(&self, category: &[u8]) -> Option<Vec<&'static str>> {
        let bit = category_bit(category)?;
        Some(self.all().filter(|c| c.is_in(bit)).map(|c| c.full_name).collect())
    }

    /// Whether the server has a database with this number.
    pub(crate) fn has_database(&self, number: i64) -> bool {
        usize::try_from(number).is_ok_and(|number| number < self.databases)
    }
}

/// The bit of a category, which has no `@` here. Its case does not matter.
pub(crate) fn category_bit(name: &[u8]) -> Option<u32> {
    let is = |known: &str| known.as_bytes()[1..].eq_ignore_ascii_case(name);
    CATEGORIES.iter().position(|known| is(known)).map(|at| 1 << at)
}

fn access_of(spec: &KeySpec) -> Access {
    let has = |flag| spec.flags.contains(&flag);
    let writes = has("INSERT") || has("DELETE") || has("UPDATE");
    Access { read: has("ACCESS"), write: writes }
}

impl Command {
    fn new(entry: &Entry) -> Command {
        let spec = entry.spec;
        let names = spec.categories(entry.has_subcommands);
        let bit = |name: &&str| category_bit(&name.as_bytes()[1..]).unwrap_or(0);
        let is_key = |key: &&KeySpec| !key.flags.contains(&NOT_A_KEY);
        let keys = spec.keys.iter().filter(is_key);
        let keys: Box<[_]> = keys.map(|key| (*key, access_of(key))).collect();
        let is_on_database = OF_DATABASE.iter().any(|category| names.contains(category));
        let names_databases = spec.special.databases != Databases::Current;
        Command {
            number: entry.number,
            full_name: entry.full_name,
            spec,
            is_subcommand: entry.container.is_some(),
            subcommands: Vec::new(),
            categories: names.iter().map(bit).fold(0, |all, bit| all | bit),
            uses_database: !keys.is_empty() || (is_on_database && !names_databases),
            keys,
            is_always_allowed: spec.flags.has(Flags::NO_AUTH),
        }
    }

    pub fn is_in(&self, category: u32) -> bool {
        self.categories & category != 0
    }

    /// The position of the first key that `is_allowed` refuses, given its position and the access to it.
    ///
    /// If the arguments do not determine the keys, the request has none: it fails with an error of its own.
    #[inline]
    pub fn refused_key(
        &self,
        args: &[&[u8]],
        mut is_allowed: impl FnMut(usize, Access) -> bool,
    ) -> Option<usize> {
        let rule = self.spec.special.get_keys;
        let mut refused = None;
        let mut check = |at: usize, access: Access| {
            if refused.is_none() && !is_allowed(at, access) {
                refused = Some(at);
            }
        };
        if rule == GetKeys::Migrate {
            let access = self.keys.first().map(|(_, access)| *access)?;
            key_options::migrate_keys(args)?.for_each(|at| check(at, access));
            return refused;
        }
        for (spec, access) in &self.keys {
            // Several words can name the destination of GEORADIUS; the last one counts.
            let is_option = matches!(spec.begin, weft_command_spec::Begin::Keyword { .. });
            if rule == GetKeys::GeoStore && is_option {
                continue;
            }
            let access = match rule {
                GetKeys::Set => Access { read: key_options::set_reads(args), write: true },
                GetKeys::Bitfield if key_options::bitfield_only_reads(args) => Access::READ,
                _ => *access,
            };
            spec.positions(args, |at| check(at, access))?;
        }
        let destination = match rule {
            GetKeys::Sort => key_options::sort_destination(args),
            GetKeys::GeoStore => key_options::geo_destination(args),
            GetKeys::BySpecs | GetKeys::Migrate | GetKeys::Set | GetKeys::Bitfield => None,
        };
        if let Some(at) = destination {
            check(at, Access::WRITE);
        }
        refused
    }

    /// The positions of the channels to check, and whether they are patterns.
    pub fn channels(&self, args: usize) -> (std::ops::Range<usize>, bool) {
        match self.spec.special.channels {
            Channels::None => (0..0, false),
            Channels::Publish => (1..2.min(args), false),
            Channels::Subscribe => (1..args, false),
            Channels::SubscribePatterns => (1..args, true),
        }
    }
}
