//! SHUTDOWN.
//!
//! If the server has data to save or replicas to wait for, the client blocks and writing clients
//! are paused until that is done. Then the server ends. If the save fails, the server continues,
//! unless FORCE is given.
//!
//! * ABORT cancels a SHUTDOWN or a signal's shutdown in progress.
//! * NOW does not wait for replicas that lag.
//! * SAFE does not shut a cluster's primary down, and FAILOVER hands its role over first. Without a
//!   cluster, neither has an effect.
//!
//! [`crate::stopping`] implements the shutdown.

use crate::commands::replication::wait::waiting;
use crate::commands::shape::{ADMIN, command, spec};
use crate::stopping::FAILED;
use weft_command_spec::{Flags, Spec};
use weft_commands::{CmdResult, Error, error};
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_executor::dispatch::outcome::Suspend;
use weft_process::{log_notice, log_warning};
use weft_state::stop_state::Stop;

const NOT_IN_PROGRESS: Error = Error::new("ERR No shutdown in progress.");

pub const SHUTDOWN: ServerCommand = command(
    Spec {
        complexity: "O(N) when saving, where N is the number of keys in all databases; else O(1)",
        history: &[("7.0.0", "Takes NOW, FORCE and ABORT."), ("9.0.0", "Takes SAFE and FAILOVER.")],
        ..spec(
            "shutdown",
            -1,
            ADMIN.or(Flags::NO_MULTI).or(Flags::ALLOW_BUSY),
            "1.0.0",
            "Saves the data if configured, and ends the server.",
            "[abort-selector=(save-selector-block=([save-selector=(nosave=NOSAVE|save=SAVE)] \
             [now=NOW]@7.0.0 [force=FORCE]@7.0.0 [safe=SAFE]@9.0.0 \
             [failover=FAILOVER]@9.0.0)|abort=ABORT@7.0.0)]",
        )
    },
    run,
);

/// The options of the command.
#[derive(Debug, Default)]
struct Words {
    save: bool,
    no_save: bool,
    force: bool,
    abort: bool,
    now: bool,
    /// SAFE or FAILOVER.
    other: bool,
}

fn words(args: &[&[u8]]) -> Result<Words, Error> {
    let mut words = Words::default();
    for arg in args {
        let known = match &arg.to_ascii_lowercase()[..] {
            b"save" => &mut words.save,
            b"nosave" => &mut words.no_save,
            b"force" => &mut words.force,
            b"abort" => &mut words.abort,
            b"now" => &mut words.now,
            b"safe" | b"failover" => &mut words.other,
            _ => return Err(error::SYNTAX),
        };
        *known = true;
    }
    let more = words.save || words.no_save || words.force || words.now || words.other;
    if (words.abort && more) || (words.save && words.no_save) {
        return Err(error::SYNTAX);
    }
    Ok(words)
}

fn run(cx: &mut ConnCx<'_>) -> CmdResult {
    let words = words(&cx.args[1..])?;
    if words.abort {
        if !crate::stopping::abort_stop(cx.srv()) {
            return Err(NOT_IN_PROGRESS);
        }
        log_notice!("Shutdown manually aborted.");
        cx.reply.ok();
        return Ok(());
    }
    if !words.no_save
        && let Some(e) = weft_executor::dispatch::busy::error(cx.srv(), |_| true)
    {
        return Err(e);
    }
    let save = if words.no_save { Some(false) } else { words.save.then_some(true) };
    let stop = Stop { save, force: words.force, now: words.now };
    let srv = cx.srv();
    let client = cx.session.shared.clone();
    let says = || {
        let (id, peer) = (client.id, &client.origin.peer);
        log_warning!("User requested shutdown... (by client id={id} addr={peer})");
    };
    if !srv.process.ending.attempts.is_under_way() && !crate::stop::has_to_wait(stop, srv) {
        says();
        // No reply: the client sees the connection close, and no request that it sent later runs.
        cx.session.close = true;
        srv.shut_down(0);
        return Ok(());
    }
    let waiting = waiting(cx, Vec::new(), 0, None)?;
    crate::stopping::stop_for_client(srv, stop, waiting.clone(), says).map_err(|e| {
        log_warning!("Can't prepare the exit, not shutting down: {e}");
        FAILED
    })?;
    cx.suspend = Some(Suspend::Blocked(waiting));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_rejects_conflicting_options() {
        let parse = |line: &str| words(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        for good in ["NOSAVE now Force", "save", "abort ABORT", "safe failover"] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for bad in ["foo", "save nosave", "abort now", "nosave save now"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
