//! BGREWRITEAOF. During a save or in a transaction, it schedules a rewrite after that.

use crate::commands::shape::{command, spec};
use weft_command_spec::{Flags, Spec};
use weft_commands::{CmdResult, Error};
use weft_durability::aof::rewrite;
use weft_durability::aof::rewrite::{Begun, Refusal};
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;

const BUSY: Error = Error::new("ERR Background append only file rewriting already in progress");
const FAILED: Error = Error::new(
    "ERR Can't execute an AOF background rewriting. Please check the server logs for more \
     information.",
);

pub const BGREWRITEAOF: ServerCommand = command(
    Spec {
        complexity: "O(1), and O(N) in the background for N keys in all databases.",
        ..spec(
            "bgrewriteaof",
            1,
            Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::NO_ASYNC_LOADING),
            "1.0.0",
            "Rewrites the append-only file in the background.",
            "",
        )
    },
    run,
);

fn run(cx: &mut ConnCx<'_>) -> CmdResult {
    let begun = rewrite::begin(cx.srv(), cx.in_transaction()).map_err(|refusal| match refusal {
        Refusal::Busy => BUSY,
        Refusal::Failed => FAILED,
    })?;
    cx.reply.simple(match begun {
        Begun::Started if !cx.in_transaction() => "Background append only file rewriting started",
        // The rewrite's snapshot must come after the transaction.
        Begun::Started | Begun::Scheduled => "Background append only file rewriting scheduled",
    });
    Ok(())
}
