//! MULTI, EXEC, DISCARD, WATCH and UNWATCH. [`weft_executor::transaction`] implements them. EXEC and WATCH
//! hold shards, unlike all other commands of this crate, and the dispatcher runs them from there.

use crate::commands::shape;
use weft_command_spec::{CommandRole, Flags, Group, KeySpec, Spec, Special, keys};
use weft_commands::{CmdResult, Error};
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_executor::transaction;
use weft_state::command_table::NOTHING;
use weft_state::queued::Transaction;

/// The commands of this group.
pub const COMMANDS: &[&ServerCommand] = &[&DISCARD, &EXEC, &MULTI, &UNWATCH, &WATCH];

/// Flags of commands that are not queued in a transaction.
const AT_ONCE: Flags = QUICK.or(Flags::RUNS_IN_MULTI);
const ALWAYS: Flags = Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE);
const QUICK: Flags = ALWAYS.or(Flags::FAST).or(Flags::ALLOW_BUSY);

const fn spec(
    name: &'static str,
    arity: i16,
    flags: Flags,
    keys: &'static [KeySpec],
    since: &'static str,
    summary: &'static str,
    complexity: &'static str,
) -> Spec {
    let syntax = if keys.is_empty() { "" } else { "key..." };
    let plain = shape::spec(name, arity, flags, since, summary, syntax);
    Spec { keys, group: Group::Transactions, complexity, ..plain }
}

const DISCARD: ServerCommand = ServerCommand {
    spec: spec(
        "discard",
        1,
        AT_ONCE,
        &[],
        "2.0.0",
        "Discards a transaction.",
        "O(N) for N queued commands.",
    ),
    needs: NOTHING,
    run: discard,
    subcommands: &[],
};

const EXEC: ServerCommand = ServerCommand {
    spec: Spec {
        special: Special::role(CommandRole::Exec),
        ..spec(
            "exec",
            1,
            ALWAYS.or(Flags::SKIP_COMMANDLOG).or(Flags::RUNS_IN_MULTI),
            &[],
            "1.2.0",
            "Runs the commands of a transaction as one.",
            "That of the commands.",
        )
    },
    needs: NOTHING,
    run: elsewhere,
    subcommands: &[],
};

const MULTI: ServerCommand = ServerCommand {
    spec: Spec {
        special: Special::role(CommandRole::Multi),
        ..spec(
            "multi",
            1,
            AT_ONCE.or(Flags::NO_MULTI),
            &[],
            "1.2.0",
            "Begins a transaction.",
            "O(1)",
        )
    },
    needs: NOTHING,
    run: multi,
    subcommands: &[],
};

const UNWATCH: ServerCommand = ServerCommand {
    spec: spec("unwatch", 1, QUICK, &[], "2.2.0", "Unwatches all keys.", "O(1)"),
    needs: NOTHING,
    run: unwatch,
    subcommands: &[],
};

const WATCH: ServerCommand = ServerCommand {
    spec: Spec {
        special: Special::role(CommandRole::Watch),
        ..spec(
            "watch",
            -2,
            AT_ONCE.or(Flags::NO_MULTI),
            &keys::all(1, &["RO"]),
            "2.2.0",
            "Makes the next transaction fail if one of these keys changes before it.",
            "O(1) for each key.",
        )
    },
    needs: NOTHING,
    run: elsewhere,
    subcommands: &[],
};

/// EXEC and WATCH hold shards, so the dispatcher runs them.
fn elsewhere(_: &mut ConnCx<'_>) -> CmdResult {
    unreachable!("run by the dispatcher")
}

fn multi(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.session.transaction = Some(Box::new(Transaction::new(cx.session.db)));
    cx.reply.ok();
    Ok(())
}

fn discard(cx: &mut ConnCx<'_>) -> CmdResult {
    if cx.session.transaction.is_none() {
        return Err(Error::new("ERR DISCARD without MULTI"));
    }
    transaction::discard(cx.core.srv, cx.session);
    cx.reply.ok();
    Ok(())
}

fn unwatch(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.session.watched = None;
    cx.reply.ok();
    Ok(())
}
