//! The command table finds every command of every crate by its name. It holds facts only: functions that work
//! on the server are referred to by number.
//!
//! The table is built once at start, when `rename-command` may rename and disable commands. It never changes afterwards,
//! so commands are `&'static`. Each has a small number by
//! which threads index their statistics. Names of up to eight bytes (all frequent commands) are looked up as
//! one integer, without a string hash.

use smallvec::{SmallVec, smallvec};
use std::collections::HashMap;
use weft_base::limits::SLOTS;
use weft_command_spec::{CommandRole, Group, ScriptCommand, Spec};
use weft_commands::{CmdResult, Command, Ctx, Lock};
use weft_keyspace::{Keyspace, ShardSet, shard_of};
use weft_table::LINES;

/// How a command is executed.
#[derive(Clone, Copy, Debug)]
pub enum Run {
    /// On keys: under a guard, with a [`Ctx`].
    Data { lock: Lock, run: fn(&mut Ctx<'_>) -> CmdResult },
    /// On the connection or the server, by the function with this number among those that [`CommandTable::new`]
    /// returns. Their arguments have types that this crate does not know.
    Server(usize),
    /// EXEC: runs with the shards of the queued commands locked.
    Exec,
    /// WATCH: runs with the shards of the keys locked.
    Watch,
    /// EVAL, FCALL and the like: calls commands under the shards of the declared keys, and of others.
    Script(ScriptCommand),
}

/// The locks that a command on the server needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    Nothing,
    /// The shard of the key at this argument.
    Key(usize),
    /// The shards of the keys from this argument on.
    KeysFrom(usize),
    /// This shard.
    Shard(u16),
    /// The shards of this slot and of the next ones that have keys, until they have so many. In a cluster only.
    SlotsFrom {
        slot: u16,
        keys: u64,
    },
    /// The other I/O threads must be between two commands.
    Stop,
    World,
    /// No locks, but a slow-lane thread: the command takes its locks itself.
    Aside,
}

/// Returns the locks that a request needs, by its arguments.
pub type NeedsFn = fn(&[&[u8]]) -> Needs;

/// For commands that need no locks.
pub const NOTHING: NeedsFn = |_| Needs::Nothing;

/// The locks that are held while a request runs.
#[derive(Clone, Debug)]
pub enum Need {
    Nothing,
    One(u16),
    Shards(ShardSet),
    /// The other I/O threads must be between two commands.
    Stop,
    World,
    /// All shards, on a thread of the slow lane; the I/O threads continue.
    AllShards,
    /// All shards that the slow lane does not hold.
    Rest,
    /// The names of all keys at one moment.
    Names,
    /// No locks, but a slow-lane thread.
    Aside,
}

impl Needs {
    /// Resolves the keys to shards.
    pub fn of(self, ks: &Keyspace, args: &[&[u8]]) -> Need {
        let shards = |from, to| {
            let keys = args.get(from..to).unwrap_or_default();
            Need::Shards(ShardSet::of(keys.iter().map(|key| ks.shard(key))))
        };
        match self {
            Needs::Nothing => Need::Nothing,
            Needs::Key(at) => shards(at, at + 1),
            Needs::KeysFrom(at) => shards(at, args.len()),
            Needs::Shard(shard) => Need::One(shard),
            Needs::SlotsFrom { slot, keys } => Need::Shards(shards_of_slots(ks, slot, keys)),
            Needs::Stop => Need::Stop,
            Needs::World => Need::World,
            Needs::Aside => Need::Aside,
        }
    }
}

/// See [`Needs::SlotsFrom`]. The counts are momentary. O(slots) at most.
fn shards_of_slots(ks: &Keyspace, slot: u16, keys: u64) -> ShardSet {
    if !ks.is_by_slot() {
        return ShardSet::default();
    }
    let keys_of = |slot| {
        let of_database = |db| ks.slot_len(slot, db) as u64;
        ks.occupied_databases().map(of_database).sum::<u64>()
    };
    let mut covered = keys_of(slot);
    let mut shards: SmallVec<[u16; 16]> = smallvec![shard_of(slot)];
    for slot in slot + 1..SLOTS as u16 {
        if covered >= keys {
            break;
        }
        let keys = keys_of(slot);
        if keys > 0 {
            shards.push(shard_of(slot));
            covered += keys;
        }
    }
    ShardSet::of(shards)
}

/// A command on the connection or the server, run by an `F`.
#[derive(Debug)]
pub struct ServerCommand<F: 'static> {
    pub spec: Spec,
    pub needs: NeedsFn,
    pub run: F,
    /// The subcommands of a container (CLIENT, CONFIG ...). `run` is not called if there are any.
    pub subcommands: &'static [ServerCommand<F>],
}

/// A command or subcommand in the table.
#[derive(Clone, Debug)]
pub struct Cmd {
    /// Its index in [`CommandTable::all`].
    pub number: usize,
    pub spec: &'static Spec,
    /// `get`, `client|list`. Replies, statistics and ACL rules use it, also for a renamed command.
    pub full_name: &'static str,
    /// The name that clients and scripts call a top-level command by.
    current_name: &'static [u8],
    pub run: Run,
    pub subcommands: Vec<&'static Cmd>,
    /// The position of the first key if it does not depend on the arguments; else 0.
    pub first_key: usize,
    /// With at most this many arguments (including the name) that key is the only one.
    one_key_of: usize,
    /// The number of cache lines of the key's record to prefetch.
    pub lines: u8,
    needs: NeedsFn,
}

/// All commands.
#[derive(Debug)]
pub struct CommandTable {
    all: Vec<&'static Cmd>,
    top: Vec<&'static Cmd>,
    short: Box<[(u64, Option<&'static Cmd>)]>,
    long: HashMap<Vec<u8>, &'static Cmd>,
    /// Renamed and disabled commands by their original names.
    originals: HashMap<Vec<u8>, &'static Cmd>,
}

/// Slots of the table of short names: a power of two several times their number.
const SHORT_SLOTS: usize = 2048;

/// The bytes of a name of one to eight bytes in lower case, as one integer. Names of the same length are equal
/// if and only if their integers are.
#[inline]
fn packed(name: &[u8]) -> Option<u64> {
    let word = match *name {
        [a] => u64::from(a),
        [a, b] => u64::from_le_bytes([a, b, 0, 0, 0, 0, 0, 0]),
        [a, b, c] => u64::from_le_bytes([a, b, c, 0, 0, 0, 0, 0]),
        // Two words that overlap in the middle.
        _ if matches!(name.len(), 4..=8) => {
            let low = u32::from_le_bytes(*name.first_chunk()?);
            let high = u32::from_le_bytes(*name.last_chunk()?);
            u64::from(low) | u64::from(high) << (8 * (name.len() - 4))
        }
        _ => return None,
    };
    Some(lower(word))
}

/// Converts ASCII letters to lower case, eight bytes at once. Other bytes don't change.
#[inline]
fn lower(word: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    let seven = word & !HIGH;
    // The high bit of each byte: set from 'A' on; set after 'Z'.
    let from_a = seven + ONES * (0x80 - b'A' as u64);
    let behind_z = seven + ONES * (0x7f - b'Z' as u64);
    word | (((from_a ^ behind_z) & !word & HIGH) >> 2)
}

#[inline]
fn slot_of(packed: u64) -> usize {
    (packed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (SHORT_SLOTS - 1)
}

/// The number of cache lines of a record that commands of `group` usually read. Bitmaps and HyperLogLogs are
/// often longer and are changed in the middle: twice as many.
fn lines_of(group: Group) -> u8 {
    let lines = match group {
        Group::Bitmap | Group::HyperLogLog => 2 * LINES,
        Group::String
        | Group::Generic
        | Group::List
        | Group::Set
        | Group::SortedSet
        | Group::Geo
        | Group::Hash
        | Group::Stream
        | Group::PubSub
        | Group::Transactions
        | Group::Connection
        | Group::Server
        | Group::Scripting
        | Group::Cluster => LINES,
    };
    lines as u8
}

impl CommandTable {
    /// Builds the table. Returns it with the functions of the commands on the server, in the order of their
    /// numbers in [`Run::Server`]. Called once per server.
    pub fn new<F: Copy + 'static>(
        on_keys: impl Iterator<Item = &'static Command>,
        on_server: impl Iterator<Item = &'static ServerCommand<F>>,
    ) -> (Self, Vec<F>) {
        let mut table = CommandTable {
            all: Vec::new(),
            top: Vec::new(),
            short: vec![(0, None); SHORT_SLOTS].into(),
            long: HashMap::new(),
            originals: HashMap::new(),
        };
        let mut functions = Vec::new();
        for command in on_keys {
            let cmd = table.add_data(command, None);
            table.add_top(cmd);
        }
        for command in on_server {
            let cmd = table.add_server(command, None, &mut functions);
            table.add_top(cmd);
        }
        (table, functions)
    }

    fn add_data(&mut self, c: &'static Command, parent: Option<&str>) -> &'static Cmd {
        let subs = c.subcommands.iter().map(|s| self.add_data(s, Some(c.spec.name))).collect();
        self.add(&c.spec, parent, Run::Data { lock: c.lock, run: c.run }, NOTHING, subs)
    }

    fn add_server<F: Copy + 'static>(
        &mut self,
        c: &'static ServerCommand<F>,
        parent: Option<&str>,
        functions: &mut Vec<F>,
    ) -> &'static Cmd {
        let subs = c
            .subcommands
            .iter()
            .map(|s| self.add_server(s, Some(c.spec.name), functions))
            .collect();
        let run = match c.spec.special.role {
            CommandRole::Exec => Run::Exec,
            CommandRole::Watch => Run::Watch,
            CommandRole::Script(script) => Run::Script(script),
            CommandRole::Plain
            | CommandRole::Multi
            | CommandRole::Select
            | CommandRole::Publish
            | CommandRole::ShardPublish => {
                functions.push(c.run);
                Run::Server(functions.len() - 1)
            }
        };
        self.add(&c.spec, parent, run, c.needs, subs)
    }

    fn add(
        &mut self,
        spec: &'static Spec,
        parent: Option<&str>,
        run: Run,
        needs: NeedsFn,
        subcommands: Vec<&'static Cmd>,
    ) -> &'static Cmd {
        let full_name: &'static str = match parent {
            Some(parent) => Box::leak(format!("{parent}|{}", spec.name).into_boxed_str()),
            None => spec.name,
        };
        let fixed = spec.fixed_key().unwrap_or_default();
        let number = self.all.len();
        let cmd: &'static Cmd = Box::leak(Box::new(Cmd {
            number,
            spec,
            full_name,
            current_name: spec.name.as_bytes(),
            run,
            subcommands,
            first_key: fixed.at,
            one_key_of: fixed.only_key_up_to,
            lines: lines_of(spec.group),
            needs,
        }));
        self.all.push(cmd);
        cmd
    }

    fn add_top(&mut self, cmd: &'static Cmd) {
        self.top.push(cmd);
        self.index(cmd);
    }

    /// Makes a command known by its current name.
    fn index(&mut self, cmd: &'static Cmd) {
        let Some(packed) = packed(cmd.current_name) else {
            self.long.insert(cmd.current_name.to_ascii_lowercase(), cmd);
            return;
        };
        let mut at = slot_of(packed);
        while self.short[at].1.is_some() {
            at = (at + 1) & (SHORT_SLOTS - 1);
        }
        self.short[at] = (packed, Some(cmd));
    }

    /// The command with that name, in any case. Expected O(1).
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&'static Cmd> {
        let Some(packed) = packed(name) else {
            return self.long.get(&name.to_ascii_lowercase()).copied();
        };
        let mut at = slot_of(packed);
        loop {
            let (key, cmd) = self.short[at];
            let cmd = cmd?;
            if key == packed && cmd.current_name.len() == name.len() {
                return Some(cmd);
            }
            at = (at + 1) & (SHORT_SLOTS - 1);
        }
    }

    /// Renames the command that is now called `old`; an empty `new` disables it. Called at start only.
    ///
    /// # Errors
    /// No command has the name, or another command has or had the new one.
    pub fn rename(&mut self, old: &[u8], new: &[u8]) -> Result<(), &'static str> {
        let cmd = self.find(old).ok_or("No such command in rename-command")?;
        if !new.is_empty() {
            if self.find(new).is_some_and(|other| other.number != cmd.number) {
                return Err("Target command name already exists");
            }
            // Files and replication streams contain original names, too: see `find_logged`.
            let taken = self.originals.get(&new.to_ascii_lowercase());
            if taken.is_some_and(|other| other.number != cmd.number) {
                return Err("Target command name is the original name of another command");
            }
        }
        let current_name: &'static [u8] = Box::leak(new.to_vec().into_boxed_slice());
        let renamed: &'static Cmd = Box::leak(Box::new(Cmd { current_name, ..cmd.clone() }));
        self.all[cmd.number] = renamed;
        self.originals.insert(cmd.spec.name.as_bytes().to_vec(), renamed);
        self.top.iter_mut().filter(|c| c.number == cmd.number).for_each(|c| *c = renamed);
        self.top.retain(|c| !c.current_name.is_empty());
        self.short.fill((0, None));
        self.long.clear();
        (0..self.top.len()).for_each(|at| self.index(self.top[at]));
        Ok(())
    }

    /// As [`CommandTable::find`], for files and replication streams: they contain the names that clients have used, and
    /// the original names of commands that the server itself has logged, such as DEL of an expired key.
    #[inline]
    pub fn find_logged(&self, name: &[u8]) -> Option<&'static Cmd> {
        self.find(name).or_else(|| self.originals.get(&name.to_ascii_lowercase()).copied())
    }

    /// Commands and subcommands by number, disabled ones included.
    pub fn all(&self) -> &[&'static Cmd] {
        &self.all
    }

    /// Commands that are not subcommands and not disabled, in the order of the registries.
    pub fn top(&self) -> &[&'static Cmd] {
        &self.top
    }
}

impl Cmd {
    /// Whether the first key is the only one of a request with this many arguments.
    #[inline]
    pub fn has_one_key(&self, args: usize) -> bool {
        args <= self.one_key_of
    }

    /// Whether the command may change the session, which then moves to the slow lane with it.
    pub fn takes_session(&self) -> bool {
        match self.run {
            Run::Data { .. } => false,
            Run::Server(_) | Run::Exec | Run::Watch | Run::Script(_) => true,
        }
    }

    /// The locks that a request of this server command needs.
    pub fn need(&self, ks: &Keyspace, args: &[&[u8]]) -> Need {
        (self.needs)(args).of(ks, args)
    }

    /// The subcommand with that name, in any case.
    pub fn subcommand(&self, name: &[u8]) -> Option<&'static Cmd> {
        self.subcommands.iter().copied().find(|s| s.spec.name.as_bytes().eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ascii_letters_become_lower_case() {
        for byte in 0..=255u8 {
            for len in 1..=8 {
                let mut name = [b'Q'; 8];
                name[len / 2] = byte;
                let mut small = [0; 8];
                small[..len].copy_from_slice(&name[..len].to_ascii_lowercase());
                assert_eq!(packed(&name[..len]), Some(u64::from_le_bytes(small)), "{byte} {len}");
            }
        }
        assert_eq!((packed(b""), packed(b"123456789")), (None, None));
    }
}
