//! Commands on the connection and on the server, which need no key.
//!
//! As in `weft-commands`, a command is a spec and a function. Here the function gets a
//! [`ConnCx`](weft_executor::dispatch::core::ConnCx).

mod acl;
pub mod cluster;
mod connection;
mod functions;
mod introspection;
mod pubsub;
mod replication;
mod scripting;
mod server;
mod shape;
mod transaction;

pub use acl::file::load_at_start as load_users;
pub use connection::{log_in_as, logged_line};
pub use server::derived;
pub use server::stay_off;

use weft_commands::Command;
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::Functions;
use weft_state::command_table::CommandTable;

/// Every command of this crate, by group.
pub const SERVER_COMMANDS: &[&[&ServerCommand]] = &[
    acl::COMMANDS,
    cluster::COMMANDS,
    connection::COMMANDS,
    functions::COMMANDS,
    introspection::COMMANDS,
    pubsub::COMMANDS,
    replication::COMMANDS,
    scripting::COMMANDS,
    server::COMMANDS,
    transaction::COMMANDS,
];

/// The commands of this crate that work on keys.
pub const KEY_COMMANDS: &[&[&Command]] = &[weft_transfer::COMMANDS];

/// The table of all commands, and the functions of the server's commands.
pub fn table() -> (CommandTable, Functions) {
    let on_keys = weft_commands::REGISTRY.iter().chain(KEY_COMMANDS).copied().flatten().copied();
    let on_server = SERVER_COMMANDS.iter().copied().flatten().copied();
    let (table, functions) = CommandTable::new(on_keys, on_server);
    (table, Functions(functions))
}

#[cfg(test)]
mod tests {
    use super::table;
    use weft_command_spec::Flags;
    use weft_executor::dispatch::absent;

    #[test]
    fn missing_command_is_not_in_the_table() {
        let table = table().0;
        for name in absent::names() {
            let there = match name.split_once('|') {
                None => table.find(name.as_bytes()),
                Some((container, sub)) => {
                    let container = table.find(container.as_bytes());
                    let container = container.unwrap_or_else(|| panic!("{name}: no container"));
                    container.subcommand(sub.as_bytes())
                }
            };
            assert!(there.is_none(), "{name} is implemented: remove it from the list");
        }
    }

    /// The single-key shortcut is right for all commands and argument counts.
    #[test]
    fn has_one_key_agrees_with_key_positions() {
        let table = table().0;
        let words = [b"1".as_slice(); 12];
        for cmd in table.all().iter().filter(|cmd| cmd.first_key > 0) {
            for args in (cmd.first_key + 1..words.len()).filter(|n| cmd.spec.fits(*n)) {
                let mut keys = Vec::new();
                let _ = cmd.spec.key_positions(&words[..args], |at| keys.push(at));
                let one = keys == [cmd.first_key];
                assert!(one || !cmd.has_one_key(args), "{}: {keys:?}", cmd.full_name);
                let range = matches!(cmd.full_name, "get" | "del" | "mset" | "lpush" | "blpop");
                assert!(!range || one == cmd.has_one_key(args), "{}: {keys:?}", cmd.full_name);
            }
        }
    }

    #[test]
    fn syntax_of_every_command_parses() {
        for cmd in table().0.all() {
            let parsed = weft_command_spec::syntax::parse(cmd.spec.syntax);
            assert!(parsed.is_ok(), "{}: {:?}: {parsed:?}", cmd.full_name, cmd.spec.syntax);
        }
    }

    /// A subcommand may have the name of another command: SLOWLOG RESET is queued in a transaction, RESET is not.
    #[test]
    fn subcommands_have_no_facts_of_commands_with_their_name() {
        let table = table().0;
        let with = |flag| {
            let all = table.all().iter().filter(|cmd| cmd.spec.flags.has(flag));
            let mut names: Vec<&str> = all.map(|cmd| cmd.full_name).collect();
            names.sort_unstable();
            names
        };
        let at_once = ["discard", "exec", "multi", "quit", "reset", "watch"];
        assert_eq!(with(Flags::RUNS_IN_MULTI), at_once);
        let is_plain = |name: &&str| !name.contains("subscribe");
        let others: Vec<&str> =
            with(Flags::WHILE_SUBSCRIBED).into_iter().filter(is_plain).collect();
        assert_eq!(others, ["ping", "quit", "reset"]);
    }

    #[test]
    fn renamed_commands_are_found_by_their_new_name_only() {
        let mut table = table().0;
        let number = table.find(b"set").unwrap().number;
        table.rename(b"SeT", b"a much longer name").unwrap();
        table.rename(b"A much longer NAME", b"Put").unwrap();
        table.rename(b"DEL", b"").unwrap();
        assert_eq!(table.find(b"pUT").unwrap().number, number);
        assert_eq!(table.all()[number].full_name, "set");
        for name in [&b"set"[..], b"a much longer name", b"del", b"", b"put\0"] {
            assert!(table.find(name).is_none(), "{}", name.escape_ascii());
        }
        for (name, full) in [(&b"put"[..], "set"), (b"Set", "set"), (b"DEL", "del")] {
            assert_eq!(table.find_logged(name).unwrap().full_name, full);
        }
        let listed = |name: &str| table.top().iter().any(|cmd| cmd.full_name == name);
        assert!(listed("set") && listed("get") && !listed("del"));
        let unknown = Err("No such command in rename-command");
        for name in [&b"del"[..], b"set", b"nosuch", b"config|get", b""] {
            assert_eq!(table.rename(name, b"x"), unknown);
        }
        assert_eq!(table.rename(b"put", b"GET"), Err("Target command name already exists"));
        let taken = Err("Target command name is the original name of another command");
        assert_eq!(table.rename(b"get", b"Del"), taken);
        // Back to its own name.
        table.rename(b"put", b"SET").unwrap();
        assert_eq!(table.find(b"set").unwrap().number, number);
        table.rename(b"get", b"get").unwrap();
        assert_eq!(table.find(b"get").unwrap().full_name, "get");
    }

    #[test]
    fn find_ignores_case() {
        let table = table().0;
        assert_eq!(table.find(b"gEt").unwrap().full_name, "get");
        for cmd in table.top() {
            let upper = cmd.spec.name.to_ascii_uppercase();
            assert_eq!(table.find(upper.as_bytes()).unwrap().number, cmd.number);
        }
        for name in [&b""[..], b"nosuch", b"\x07et", b"nosuchcommandatall", b"get\0"] {
            assert!(table.find(name).is_none());
        }
    }
}
