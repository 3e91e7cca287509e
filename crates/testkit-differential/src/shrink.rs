//! Shortens a failing sequence by delta debugging of its steps.
//!
//! Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", IEEE TSE 28(2),
//! 2002. A chunk of steps is dropped if the last step still differs without it. Chunks become
//! smaller until no single step can be dropped. Every trial runs on empty servers, so the resulting
//! sequence is complete. Differences that depend on timing may not show in a trial; then the
//! sequence only stays longer than necessary.

use std::io;

use super::generate::Step;
use super::mismatch::Mismatch;

/// The most trials.
const TRIALS: usize = 400;
/// Commands per batch of a trial.
const BATCH: usize = 400;

/// The shortest sequence found that ends in the same kind of mismatch, and its description. `play` plays steps on empty
/// servers, in batches of some commands.
///
/// # Errors
/// If a server can't be reached any more.
pub fn shrink(
    steps: Vec<Step>,
    found: Mismatch,
    mut play: impl FnMut(&[Step], usize) -> io::Result<Option<Mismatch>>,
) -> io::Result<(Vec<Step>, String)> {
    let mut best = steps;
    best.truncate(found.step + 1);
    let mut what = found.what.clone();
    let mut chunk = best.len() / 2;
    let mut trials = 0;
    while chunk > 0 && trials < TRIALS {
        let mut start = 0;
        let mut dropped = false;
        // The last step shows the difference, so it stays.
        while start < best.len() && trials < TRIALS {
            let end = (start + chunk).min(best.len());
            let mut candidate = best[..start].to_vec();
            candidate.extend_from_slice(&best[end..]);
            trials += 1;
            match play(&candidate, BATCH)? {
                Some(again) if again.key == found.key => {
                    candidate.truncate(again.step + 1);
                    best = candidate;
                    what = again.what;
                    dropped = true;
                }
                _ => start = end,
            }
        }
        if !dropped || chunk > best.len() / 2 {
            chunk /= 2;
        }
    }
    Ok((best, what))
}
