//! INFO: see [`crate::info`].

use crate::commands::shape::{ANYTIME, command, spec};
use crate::info;
use crate::info::selection::Selection;
use weft_command_spec::Spec;
use weft_commands::CmdResult;
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;

pub const INFO: ServerCommand = command(
    Spec {
        acl: &["@dangerous"],
        history: &[("7.0.0", "Takes several sections.")],
        tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        ..spec(
            "info",
            -1,
            ANYTIME,
            "1.0.0",
            "Returns facts and statistics of the server.",
            "[section...]",
        )
    },
    run,
);

fn run(cx: &mut ConnCx<'_>) -> CmdResult {
    let selection = Selection::of(&cx.args[1..]);
    let work = info::prepare(cx.core, &mut cx.held, cx.lane, &selection);
    cx.weigh(work)?;
    let text = info::render(cx.core, &mut cx.held, &selection);
    cx.reply.verbatim("txt", text.as_bytes());
    Ok(())
}
