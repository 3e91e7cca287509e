//! QUIT: the server sends the pending replies, then closes the connection.

use super::{HANDSHAKE, plain};
use crate::dispatch::{ConnCx, ServerCommand};
use weft_commands::CmdResult;

pub const QUIT: ServerCommand =
    plain("quit", -1, HANDSHAKE, "1.0.0", "Closes the connection.", "", quit);

fn quit(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.reply.ok();
    cx.session.close = true;
    Ok(())
}
