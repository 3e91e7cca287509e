//! SAVE and BGSAVE.
//!
//! Both write the data of one moment while the server continues to serve clients. SAVE replies when
//! the file is in place, BGSAVE when the moment has passed. SAVE blocks only its client; in the
//! reference, it blocks the server.

use crate::commands::shape::{holding, spec};
use weft_command_spec::{Flags, Spec};
use weft_commands::{CmdResult, Error, error};
use weft_durability::aof::aof;
use weft_durability::persistence::background;
use weft_durability::persistence::background::Refused;
use weft_durability::persistence::save::{Asked, Failed};
use weft_executor::dispatch::core::ConnCx;
use weft_executor::dispatch::{ServerCommand, busy};
use weft_state::command_table::Needs;
use weft_state::saves::Cancelled;
use weft_state::server::Server;

const BUSY: Error = Error::new("ERR Background save already in progress");
const REWRITING: Error = Error::new(
    "ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order \
     to schedule a BGSAVE whenever possible.",
);
const NOTHING_TO_CANCEL: Error =
    Error::new("ERR Background saving is currently not in progress or scheduled");
/// The log has the reason.
const FAILED: Error = Error::new("ERR");

const SAVING: Flags = Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::NO_ASYNC_LOADING);

pub const SAVE: ServerCommand = holding(
    |_| Needs::Aside,
    Spec {
        complexity: "O(N) for N keys in all databases.",
        ..spec(
            "save",
            1,
            SAVING.or(Flags::NO_MULTI),
            "1.0.0",
            "Saves the data to disk and replies when that is done.",
            "",
        )
    },
    save,
);

pub const BGSAVE: ServerCommand = holding(
    |args| match args.get(1) {
        Some(word) if word.eq_ignore_ascii_case(b"cancel") => Needs::Nothing,
        _ => Needs::Aside,
    },
    Spec {
        history: &[("3.2.2", "The option SCHEDULE."), ("8.1.0", "The option CANCEL.")],
        ..spec(
            "bgsave",
            -1,
            SAVING,
            "1.0.0",
            "Saves the data to disk in the background.",
            "[operation=(schedule=SCHEDULE@3.2.2|cancel=CANCEL@8.1.0)]",
        )
    },
    bgsave,
);

fn save(cx: &mut ConnCx<'_>) -> CmdResult {
    answer(cx.srv(), background::save_now(cx.srv(), true, Asked::ByClient))?;
    cx.reply.ok();
    Ok(())
}

fn answer(srv: &Server, done: Result<(), Refused>) -> CmdResult {
    done.map_err(|refused| match refused {
        Refused::Busy => BUSY,
        Refused::Rewriting => REWRITING,
        Refused::Failed(Failed::BusyScript) => {
            busy::error(srv, |_| true).unwrap_or(error::BUSY_SCRIPT)
        }
        Refused::Failed(_) => FAILED,
    })
}

fn bgsave(cx: &mut ConnCx<'_>) -> CmdResult {
    let srv = cx.srv();
    let mut waits = cx.in_transaction();
    match cx.args.len() {
        1 => {}
        2 if cx.is(1, "schedule") => waits |= aof(srv).has_cut(),
        2 if cx.is(1, "cancel") => {
            cx.reply.simple(match srv.cancel_save() {
                Cancelled::Running => "Background saving cancelled",
                Cancelled::Scheduled => "Scheduled background saving cancelled",
                Cancelled::Nothing => return Err(NOTHING_TO_CANCEL),
            });
            return Ok(());
        }
        _ => return Err(error::SYNTAX),
    }
    if waits {
        let mut saves = srv.persistence.saves();
        if saves.running().is_some() {
            return Err(BUSY);
        }
        // The snapshot must be taken between two transactions, or after a rewrite.
        saves.is_scheduled = true;
        cx.reply.simple("Background saving scheduled");
        return Ok(());
    }
    answer(srv, background::begin(srv, Asked::ByClient))?;
    cx.reply.simple("Background saving started");
    Ok(())
}
