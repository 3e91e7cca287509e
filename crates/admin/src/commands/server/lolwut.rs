//! LOLWUT: a small woven picture, different each time, and the version.
//!
//! `LOLWUT [VERSION n] [columns rows]`. The picture is a weaver's draft. A threading gives the
//! shaft that lifts each warp thread, a treadling the shafts that each weft thread passes under;
//! where they cross, either the warp or the weft shows. Small random numbers in both give twills,
//! herringbones and damasks. There is one picture, so every VERSION shows it.

use crate::commands::shape::{command, spec};
use weft_command_spec::{Flags, Spec};
use weft_commands::{CmdResult, Error};
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_state::version::VERSION;

const DEFAULT_COLUMNS: usize = 64;
const DEFAULT_ROWS: usize = 20;
const MAX_COLUMNS: i64 = 200;
const MAX_ROWS: i64 = 100;
const SHAFTS: usize = 8;

const USAGE: Error = Error::new("ERR Syntax error. Use: LOLWUT [VERSION n] [columns rows]");

pub const LOLWUT: ServerCommand = command(
    Spec {
        complexity: "",
        ..spec(
            "lolwut",
            -1,
            Flags::READONLY.or(Flags::FAST),
            "5.0.0",
            "Returns a picture and the server's version.",
            "[VERSION version:integer]",
        )
    },
    run,
);

fn run(cx: &mut ConnCx<'_>) -> CmdResult {
    let mut at = 1;
    if cx.args.len() > 2 && cx.is(1, "version") {
        cx.int(2)?;
        at = 3;
    }
    let (columns, rows) = match cx.args.len() - at {
        0 => (DEFAULT_COLUMNS, DEFAULT_ROWS),
        // Further numbers are for the pictures of other servers.
        2.. => {
            let size = |n: i64, max| n.clamp(1, max) as usize;
            (size(cx.int(at)?, MAX_COLUMNS), size(cx.int(at + 1)?, MAX_ROWS))
        }
        _ => return Err(USAGE),
    };
    let context = &mut cx.core.context;
    let mut text = weave(columns, rows, || context.random());
    text.push_str(&format!("\nWarp and weft. Weft ver. {VERSION}\n"));
    cx.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// A cloth with these numbers of warp and weft threads.
fn weave(columns: usize, rows: usize, mut random: impl FnMut() -> u64) -> String {
    let threading = zigzag(columns, &mut random);
    let treadling = zigzag(rows, &mut random);
    // The shafts that a treadle lifts: a run of up to half of them, shifted by one for each
    // treadle.
    let lifted = 1 + random() as usize % (SHAFTS / 2);
    let mut text = String::new();
    for treadle in treadling {
        for shaft in &threading {
            let lifts = (shaft + SHAFTS - treadle) % SHAFTS < lifted;
            text.push(if lifts { '#' } else { '.' });
        }
        text.push('\n');
    }
    text
}

/// Steps up and down the shafts, and turns after a random number of steps.
fn zigzag(len: usize, random: &mut impl FnMut() -> u64) -> Vec<usize> {
    let turn_after = 3 + random() as usize % (2 * SHAFTS);
    let mut shaft = random() as usize % SHAFTS;
    (0..len)
        .map(|n| {
            let down = (n / turn_after) % 2 == 1;
            shaft = (shaft + if down { SHAFTS - 1 } else { 1 }) % SHAFTS;
            shaft
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cloth_has_its_size_and_both_threads() {
        let mut rng = weft_keyspace::context::Rng::new(1);
        for _ in 0..100 {
            let text = weave(30, 12, || rng.next());
            assert_eq!(text.lines().count(), 12);
            assert!(text.lines().all(|line| line.len() == 30));
            assert!(text.contains('#') && text.contains('.'));
        }
    }
}
