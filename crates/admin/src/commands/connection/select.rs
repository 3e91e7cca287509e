//! SELECT: sets the database that this connection's commands use.

use crate::commands::connection::plain;
use crate::commands::shape::special;
use weft_command_spec::{CommandRole, Databases, Flags, Special};
use weft_commands::{CmdResult, Error, error};
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;

const FLAGS: Flags = Flags::LOADING.or(Flags::STALE).or(Flags::FAST).or(Flags::ALLOW_BUSY);

/// The reference reads the number into a C `int`, and has an error for one that does not fit.
const NOT_AN_INT: Error =
    Error::new("ERR value is out of range, value must between -2147483648 and 2147483647");

pub const SELECT: ServerCommand = special(
    plain(
        "select",
        2,
        FLAGS,
        "1.0.0",
        "Chooses the database of this connection.",
        "index:integer",
        select,
    ),
    Special { databases: Databases::At(&[1]), ..Special::role(CommandRole::Select) },
);

fn select(cx: &mut ConnCx<'_>) -> CmdResult {
    let index = i32::try_from(cx.int(1)?).map_err(|_| NOT_AN_INT)?;
    let index = usize::try_from(index).map_err(|_| error::DB_OUT_OF_RANGE)?;
    if index >= cx.srv().ks.databases() {
        return Err(error::DB_OUT_OF_RANGE);
    }
    cx.session.db = index;
    cx.reply.ok();
    Ok(())
}
