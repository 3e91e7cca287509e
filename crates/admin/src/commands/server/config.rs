//! CONFIG: reads and changes directives while the server runs, and resets statistics.
//!
//! `weft-config` defines the directives and their values, and rewrites the file. [`super::apply`]
//! applies new values.

use crate::commands::server::apply::apply;
use crate::commands::shape::{
    ADMIN, ALL_NODES, answer_help, command, container, help, holding, spec,
};
use crate::info::totals;
use weft_command_spec::{Secrets, Spec, Special};
use weft_commands::{CmdResult, Error, error};
use weft_config::{Config, Id, Permit, SetError};
use weft_durability::aof::aof;
use weft_durability::aof::{Switch, start};
use weft_executor::dispatch::core::ConnCx;
use weft_executor::dispatch::core::Held;
use weft_executor::dispatch::refusals::is_permitted;
use weft_executor::dispatch::{ServerCommand, busy};
use weft_keyspace::{ExecContext, GaveUp};
use weft_process::{log_notice, log_warning};
use weft_replication_driver::hub;
use weft_state::command_table::Needs;
use weft_state::server::Server;

pub const CONFIG: ServerCommand = container(
    "config",
    "2.0.0",
    "Holds the commands on the configuration.",
    &[
        command(
            Spec {
                complexity: "O(N) where N is the number of directives",
                history: &[("7.0.0", "Takes several patterns.")],
                ..spec("get", -3, ADMIN, "2.0.0", "Returns directives and values.", "parameter...")
            },
            get,
        ),
        help("5.0.0", |cx| answer_help(cx, HELP)),
        command(
            Spec {
                tips: ALL_NODES,
                ..spec("resetstat", 2, ADMIN, "2.0.0", "Resets the statistics of INFO.", "")
            },
            reset_stat,
        ),
        holding(
            // It writes to the disk.
            |_| Needs::Aside,
            Spec {
                tips: ALL_NODES,
                ..spec("rewrite", 2, ADMIN, "2.8.0", "Writes the values into the file.", "")
            },
            rewrite,
        ),
        holding(
            |args| match args.iter().any(|arg| arg.eq_ignore_ascii_case(b"appendonly")) {
                // It stops the world and waits for that.
                true => Needs::Aside,
                // A change of users.
                false if names_password(args) => Needs::Stop,
                false => Needs::Nothing,
            },
            Spec {
                complexity: "O(N) where N is the number of directives",
                history: &[("7.0.0", "Sets several directives at once, all or none.")],
                tips: ALL_NODES,
                special: Special::secrets(Secrets::Directives),
                ..spec(
                    "set",
                    -4,
                    ADMIN,
                    "2.0.0",
                    "Changes directives.",
                    "data=(parameter value)...",
                )
            },
            set,
        ),
    ],
);

const HELP: &[&str] = &[
    "GET <pattern> [<pattern> ...]",
    "    Answer the directives whose names match a glob-style <pattern>, with values.",
    "SET <directive> <value> [<directive> <value> ...]",
    "    Change directives: all of them, or none if one can't be changed.",
    "RESETSTAT",
    "    Reset the statistics of INFO.",
    "REWRITE",
    "    Write the values in force into the configuration file.",
];

fn get(cx: &mut ConnCx<'_>) -> CmdResult {
    /// The cost of comparing one pattern with all directives.
    const PATTERN: usize = 200;
    cx.weigh(PATTERN * cx.args.len())?;
    // Match before locking the configuration, so that no other thread waits for it meanwhile.
    let found = Config::find(&cx.args[2..]);
    let mut config = cx.srv().config();
    hub(cx.srv()).set_replicaof(&mut config);
    let ids: Vec<Id> = found.iter().map(|(_, id)| *id).collect();
    let mut found = config.answers(found);
    if config.int_or_auto(Id::IO_THREADS).is_none()
        && let Some(at) = ids.iter().position(|id| *id == Id::IO_THREADS)
    {
        // Exporters expect a number, and drop the series if they get the word `auto`.
        found[at].1 = cx.srv().threads.configured().to_string().into_bytes();
    }
    drop(config);
    cx.reply.map(found.len());
    for (name, value) in found {
        cx.reply.bulk(name.as_bytes());
        cx.reply.bulk(&value);
    }
    Ok(())
}

/// Waits for long commands, before anything has changed: switching the log stops the world.
///
/// # Errors
/// It would have to wait for a busy script.
fn wait_until_idle(srv: &'static Server) -> CmdResult {
    let idle = srv.hand().wait_until_idle(&|_| srv.scripts.busy.is_any());
    idle.map_err(|GaveUp| busy::error(srv, |_| true).unwrap_or(error::BUSY_SCRIPT))
}

fn names_password(args: &[&[u8]]) -> bool {
    args.iter().any(|arg| arg.eq_ignore_ascii_case(b"requirepass"))
}

fn set(cx: &mut ConnCx<'_>) -> CmdResult {
    let (pairs, []) = cx.args[2..].as_chunks::<2>() else {
        return Err(error::SYNTAX);
    };
    let pairs: Vec<(&[u8], &[u8])> = pairs.iter().map(|[name, value]| (*name, *value)).collect();
    let srv = cx.srv();
    let switches = pairs.iter().any(|(name, _)| name.eq_ignore_ascii_case(b"appendonly"));
    if switches && matches!(cx.held, Held::Aside) {
        wait_until_idle(srv)?;
    }
    // Other threads that switch the log do so entirely before or entirely after this.
    let switch = (switches && matches!(cx.held, Held::Aside)).then(|| aof(srv).switch());
    let mut changes = Vec::new();
    let mut config = srv.config();
    let before = switch.is_some().then(|| config.clone());
    let protected = is_permitted(&cx.session.shared, config.word(Id::ENABLE_PROTECTED_CONFIGS));
    let permit = Permit { protected, loading: srv.persistence.loading.is_on() };
    let done = config.set(&pairs, permit, &mut |config, changed| {
        changes = changed.to_vec();
        apply(srv, config, changed)
    });
    let span = before.map(|before| (before, config.clone()));
    drop(config);
    done.map_err(told)?;
    if changes.contains(&Id::REQUIREPASS) && matches!(cx.held, Held::Aside) {
        // Each I/O thread finds the change at its next command, which must follow the reply.
        drop(srv.hand().world(&mut ExecContext::new(0, 0)));
    }
    // The disk I/O happens here, without the lock of the configuration.
    if let (Some(switch), Some((before, after))) = (switch, span) {
        if start::follow(srv, &switch).is_err() {
            let because = (Id::APPENDONLY, "Unable to turn on AOF. Check server logs.");
            let apply = &mut |config: &mut Config, changed: &[Id]| apply(srv, config, changed);
            let error = srv.config().take_back((&before, &after), &changes, apply, because);
            // The log may have been on and about to end when another client requested it again.
            stay_off(srv, &switch);
            return Err(told(error));
        }
    } else if switches && !aof(srv).is_switched() {
        // A transaction may not wait for the disk.
        start::follow_soon(srv, stay_off);
    }
    cx.reply.ok();
    Ok(())
}

fn told(error: SetError) -> Error {
    match error {
        SetError::Refused(text) => Error::owned(text),
        SetError::Loading => Error::new("LOADING Weft is loading the dataset in memory"),
    }
}

/// Sets `appendonly` to `no` after the log failed to start too late for an error reply.
pub fn stay_off(srv: &'static Server, _switch: &Switch<'_>) {
    let permit = Permit { protected: true, loading: false };
    let pair = (&b"appendonly"[..], &b"no"[..]);
    let set = srv.config().set(&[pair], permit, &mut |config, changed| apply(srv, config, changed));
    if set.is_err() {
        log_warning!("appendonly can't be set to no");
    }
}

fn rewrite(cx: &mut ConnCx<'_>) -> CmdResult {
    match cx.srv().rewrite_config(Config::rewrite) {
        Ok(()) => {
            log_notice!("CONFIG REWRITE executed with success.");
            cx.reply.ok();
            Ok(())
        }
        Err(e) => {
            log_warning!("CONFIG REWRITE failed: {e}");
            Err(Error::owned(e.to_string()))
        }
    }
}

fn reset_stat(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.core.publish();
    totals::reset(cx.srv(), cx.core.stats());
    cx.reply.ok();
    Ok(())
}
