//! ZSCAN: iterates over a sorted set in small steps driven by the client.
//!
//! A packed set is returned whole. The cursor of a large one is a position among the hashes of its
//! members (see [`Tree::scan`](weft_types::zset::Tree::scan)). So a scan misses no member when
//! scores change, or when other members are added or removed.
//!
//! Scores of a large set are written with up to 17 digits, like `%.17g` in C, unlike elsewhere.
//! Clients parse the same number either way.

use super::zset;
use crate::collection_scan::{Options, ScanReply, cursor};
use crate::ctx::Ctx;
use crate::error::CmdResult;
use crate::lock::Lock;
use crate::registry::Command;
use weft_base::num_format::fmt_f64;
use weft_command_spec::{Flags, Group, QueuedWork, Spec, Special, keys};
use weft_types::Type;
use weft_types::string::Digits;
use weft_types::zset::View;

pub const ZSCAN: Command = Command {
    spec: Spec {
        name: "zscan",
        arity: -3,
        flags: Flags::READONLY,
        keys: &keys::one(&["RO", "ACCESS"]),
        acl: &[],
        group: Group::SortedSet,
        since: "2.8.0",
        summary: "Iterates over the members of a sorted set and their scores.",
        complexity: "O(COUNT) for a call, O(N) for a complete scan of N members.",
        syntax: "key cursor:integer [MATCH pattern] [COUNT count:integer] [noscores=NOSCORES]",
        history: &[("8.0.0", "The option NOSCORES.")],
        tips: &["nondeterministic_output"],
        special: Special::queued_work(QueuedWork::ScanCount),
    },
    lock: Lock::Keys,
    run: zscan,
    subcommands: &[],
};

fn zscan(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let cursor = cursor(ctx.args[2])?;
    let mut found = ScanReply::new(ctx.reply.proto);
    let Some(record) = ctx.db.read(&key) else {
        found.write_to(ctx.reply, 0);
        return Ok(());
    };
    let set = zset(&record)?;
    let options = Options::parse(&ctx.args[3..], Type::Zset)?;
    let work = match set {
        View::Packed(..) => set.len(),
        View::Tree(_) => options.work(set.len()),
    };
    ctx.lane.weigh(work, &mut ctx.pause)?;
    let mut room = Digits::new();
    let next = set.scan(cursor, work, |member, score| {
        let member = member.bytes(&mut room);
        if !options.matches(member) {
            return;
        }
        found.push(member);
        if !options.names_only {
            match set {
                View::Packed(..) => found.push(&fmt_f64(score)),
                View::Tree(_) => match whole(score) {
                    Some(score) => found.push(itoa::Buffer::new().format(score).as_bytes()),
                    None => found.push(seventeen_digits(score).as_bytes()),
                },
            }
        }
    });
    found.write_to(ctx.reply, next);
    Ok(())
}

/// A score that 17 digits print as a plain integer, as most are.
fn whole(score: f64) -> Option<i64> {
    // Integers below this are exact, so the conversion can be checked. Negative zero is excluded:
    // its sign must show.
    const PLAIN: f64 = 1e15;
    let whole = score as i64;
    let is_plain = score.abs() < PLAIN && whole as f64 == score;
    (is_plain && (whole != 0 || score.is_sign_positive())).then_some(whole)
}

/// A score with up to 17 digits, as printed by `%.17g`.
fn seventeen_digits(score: f64) -> String {
    const DIGITS: i32 = 17;
    if !score.is_finite() {
        return if score > 0.0 { "inf" } else { "-inf" }.to_string();
    }
    let scientific = format!("{:.*e}", DIGITS as usize - 1, score);
    let (mantissa, exponent) = scientific.split_once('e').expect("an exponent");
    let exponent: i32 = exponent.parse().expect("a number");
    if (-4..DIGITS).contains(&exponent) {
        let fixed = format!("{:.*}", (DIGITS - 1 - exponent) as usize, score);
        return without_zeros(&fixed).to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs())
}

/// A decimal without trailing zeros in its fraction.
fn without_zeros(text: &str) -> &str {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_match_c() {
        for (score, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (100.0, "100"),
            (-1.5, "-1.5"),
            (0.1, "0.10000000000000001"),
            (1e-9, "1.0000000000000001e-09"),
            (0.0001, "0.0001"),
            (0.00001, "1.0000000000000001e-05"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1e20, "1e+20"),
            (1e100, "1e+100"),
            (123456789.123, "123456789.123"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (-7.0, "-7"),
            (999_999_999_999_999.0, "999999999999999"),
        ] {
            assert_eq!(seventeen_digits(score), text);
            if let Some(whole) = whole(score) {
                assert_eq!(whole.to_string(), text);
            }
        }
    }
}
