//! CONFIG: the directives while the server runs, and the reset of statistics.
//!
//! What a directive is, which values it takes and how the file is rewritten is in
//! `weft-config`; [`super::apply`] makes new values effective.

use super::apply::apply;
use crate::commands::shape::{ADMIN, ALL_NODES, answer_help, command, container, help, spec};
use crate::dispatch::{ConnCx, ServerCommand};
use crate::info::totals;
use weft_commands::{CmdResult, Error, Spec, error};
use weft_config::{Config, Id, Permit, SetError};
use weft_process::{log_notice, log_warning};

pub const CONFIG: ServerCommand = container(
    "config",
    "2.0.0",
    "Holds the commands on the configuration.",
    &[
        command(
            Spec {
                complexity: "O(N) where N is the number of directives",
                history: &[("7.0.0", "Takes several patterns.")],
                ..spec("get", -3, ADMIN, "2.0.0", "Answers directives and values.", "parameter...")
            },
            get,
        ),
        help("5.0.0", |cx| answer_help(cx, HELP)),
        command(
            Spec {
                tips: ALL_NODES,
                ..spec("resetstat", 2, ADMIN, "2.0.0", "Sets the statistics of INFO back.", "")
            },
            reset_stat,
        ),
        command(
            Spec {
                tips: ALL_NODES,
                ..spec("rewrite", 2, ADMIN, "2.8.0", "Writes the values into the file.", "")
            },
            rewrite,
        ),
        command(
            Spec {
                complexity: "O(N) where N is the number of directives",
                history: &[("7.0.0", "Sets several directives at once, all or none.")],
                tips: ALL_NODES,
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
    "    Let the statistics of INFO count from zero again.",
    "REWRITE",
    "    Write the values in force into the configuration file.",
];

fn get(cx: &mut ConnCx<'_>) -> CmdResult {
    /// Each pattern is compared with all directives.
    const PATTERN: usize = 200;
    cx.weigh(PATTERN * cx.args.len())?;
    // Nobody else waits for the configuration meanwhile.
    let found = Config::find(&cx.args[2..]);
    let found = cx.srv().config().answers(found);
    cx.reply.map(found.len());
    for (name, value) in found {
        cx.reply.bulk(name.as_bytes());
        cx.reply.bulk(&value);
    }
    Ok(())
}

fn set(cx: &mut ConnCx<'_>) -> CmdResult {
    let (pairs, []) = cx.args[2..].as_chunks::<2>() else {
        return Err(error::SYNTAX);
    };
    let pairs: Vec<(&[u8], &[u8])> = pairs.iter().map(|[name, value]| (*name, *value)).collect();
    let srv = cx.srv();
    let mut config = srv.config();
    let protected = super::is_permitted(cx, config.word(Id::ENABLE_PROTECTED_CONFIGS));
    let permit = Permit { protected, loading: srv.persistence.loading.is_on() };
    let done = config.set(&pairs, permit, &mut |config, changed| apply(srv, config, changed));
    drop(config);
    match done {
        Ok(()) => cx.reply.ok(),
        Err(SetError::Refused(text)) => return Err(Error::owned(text)),
        Err(SetError::Loading) => {
            return Err(Error::new("LOADING Weft is loading the dataset in memory"));
        }
    }
    Ok(())
}

fn rewrite(cx: &mut ConnCx<'_>) -> CmdResult {
    match cx.srv().config().rewrite() {
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
    totals::reset(cx.srv());
    cx.reply.ok();
    Ok(())
}
