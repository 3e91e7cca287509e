//! ECHO: returns the message.

use crate::commands::connection::plain;
use weft_command_spec::Flags;
use weft_commands::CmdResult;
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;

const FLAGS: Flags = Flags::LOADING.or(Flags::STALE).or(Flags::FAST);

pub const ECHO: ServerCommand =
    plain("echo", 2, FLAGS, "1.0.0", "Returns the message.", "message", echo);

fn echo(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.reply.bulk(cx.args[1]);
    Ok(())
}
