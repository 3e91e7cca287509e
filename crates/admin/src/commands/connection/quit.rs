//! QUIT: the server sends the pending replies, then closes the connection.

use crate::commands::connection::{HANDSHAKE, plain};
use weft_command_spec::Flags;
use weft_commands::CmdResult;
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;

const FLAGS: Flags = HANDSHAKE.or(Flags::RUNS_IN_MULTI).or(Flags::WHILE_SUBSCRIBED);

pub const QUIT: ServerCommand =
    plain("quit", -1, FLAGS, "1.0.0", "Closes the connection.", "", quit);

fn quit(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.reply.ok();
    cx.session.close = true;
    Ok(())
}
