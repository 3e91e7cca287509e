//! The meaning of a command of the stream.

use weft_command_spec::CommandRole;
use weft_commands::Lock;
use weft_executor::dispatch::call::DataFn;
use weft_executor::script::functions::changes_functions;
use weft_pubsub::registry::Kind;
use weft_state::command_table::Cmd;
use weft_state::command_table::Run;
use weft_state::server::Server;

/// The work of a command.
#[derive(Clone, Copy)]
pub enum Work {
    Data(&'static Cmd, Lock, DataFn),
    Publish(&'static Cmd, Kind),
    /// It changes the libraries of functions.
    Functions(&'static Cmd),
    /// The command changes no data here.
    Nothing,
}

/// Looks a command up.
///
/// # Errors
/// The error that a client would get, and the name of the command, if known.
pub fn work_of(srv: &Server, args: &[&[u8]]) -> Result<Work, (String, &'static str)> {
    let unknown = || {
        let name = args[0].escape_ascii();
        (format!("ERR unknown command '{name}'"), "<unknown>")
    };
    let mut cmd = srv.table.find_logged(args[0]).ok_or_else(unknown)?;
    if !cmd.subcommands.is_empty() {
        let sub = args.get(1).and_then(|word| cmd.subcommand(word));
        cmd = sub.ok_or_else(unknown)?;
    }
    let name = cmd.full_name;
    if !cmd.spec.fits(args.len()) {
        return Err((format!("ERR wrong number of arguments for '{name}' command"), name));
    }
    match cmd.run {
        Run::Data { lock, run } => Ok(Work::Data(cmd, lock, run)),
        Run::Server(_) if changes_functions(cmd) => Ok(Work::Functions(cmd)),
        Run::Script(_) => {
            Err((format!("ERR '{name}' is not supported in a replication stream"), name))
        }
        Run::Server(_) => match cmd.spec.special.role {
            CommandRole::Publish => Ok(Work::Publish(cmd, Kind::Channel)),
            CommandRole::ShardPublish => Ok(Work::Publish(cmd, Kind::Shard)),
            _ => Ok(Work::Nothing),
        },
        Run::Exec | Run::Watch => Ok(Work::Nothing),
    }
}
