//! PFSELFTEST: tests the HyperLogLog code on the machine of a running server.
//!
//! It touches no key. Random registers are packed and unpacked with the code chosen for this
//! processor. Then numbers are counted in the dense form, and in the sparse form while it lasts.
//! The estimates must stay within the error bound.

use crate::ctx::Ctx;
use crate::error::{CmdResult, Error};
use crate::lock::Lock;
use crate::registry::Command;
use weft_base::rng::Rng;
use weft_base::sixbit::{self, Open, PACKED, REGISTERS};
use weft_command_spec::{Flags, Group, Spec, Special};
use weft_types::hyperloglog::{
    Added, EMPTY, Place, SparseBuilder, View, add_dense, count, to_dense,
};

pub const PFSELFTEST: Command = Command {
    spec: Spec {
        name: "pfselftest",
        arity: 1,
        flags: Flags::ADMIN.or(Flags::SYSTEM),
        keys: &[],
        acl: &[],
        group: Group::HyperLogLog,
        since: "2.8.9",
        summary: "Tests the HyperLogLog implementation.",
        complexity: "N/A",
        syntax: "",
        history: &[],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: pfselftest,
    subcommands: &[],
};

/// The number of elements counted.
const ELEMENTS: u64 = 1_000_000;

/// The number of elements that are also counted in the sparse form, and the maximum size of that
/// form (bytes).
const SPARSE_ELEMENTS: u64 = 1000;
const SPARSE_MAX: usize = 3000;

/// The number of arrays of random registers.
const ARRAYS: usize = 100;

fn pfselftest(ctx: &mut Ctx<'_>) -> CmdResult {
    ctx.weigh(ELEMENTS as usize)?;
    let mut rng = Rng::new(ctx.db.context.random());
    for _ in 0..ARRAYS {
        registers(&mut rng)?;
    }
    estimates(rng.next_u64())?;
    ctx.reply.ok();
    Ok(())
}

fn failed(what: String) -> Error {
    Error::owned(format!("TESTFAILED {what}"))
}

fn registers(rng: &mut Rng) -> CmdResult {
    let mut open: Box<Open> = Box::new([0; REGISTERS]);
    open.iter_mut().for_each(|register| *register = rng.below(64) as u8);
    let mut packed = Box::new([0; PACKED]);
    for (at, value) in open.iter().enumerate() {
        sixbit::set(&mut packed, at, *value);
    }
    if let Some(at) = (0..REGISTERS).find(|at| sixbit::get(&packed, *at) != open[*at]) {
        return Err(failed(format!("register {at} has a wrong value")));
    }
    let (mut packed_at_once, mut unpacked) = (Box::new([0; PACKED]), Box::new([0; REGISTERS]));
    sixbit::pack(&open, &mut packed_at_once);
    sixbit::raise(&mut unpacked, &[&packed]);
    if packed_at_once != packed || unpacked != open {
        return Err(failed("registers packed one by one and together differ".to_owned()));
    }
    Ok(())
}

fn estimates(seed: u64) -> CmdResult {
    let counted = |bytes: &[u8]| View::of(bytes).and_then(|view| count(view).ok());
    let corrupted = || failed("a HyperLogLog is corrupted".to_owned());
    let mut growing = SparseBuilder::new(EMPTY);
    let mut dense = to_dense(EMPTY).map_err(|_| corrupted())?;
    let mut next = 1;
    for n in 1..=ELEMENTS {
        let place = Place::of(&(seed ^ n).to_le_bytes());
        let raised = add_dense(&mut dense, place);
        if n <= SPARSE_ELEMENTS {
            let added = growing.add(place, SPARSE_MAX).map_err(|_| corrupted())?;
            // A rank that the sparse form can't represent occurs once in four billion elements.
            if added != Added::TooMuch && (added == Added::Raised) != raised {
                return Err(failed(format!("sparse and dense differ at element {n}")));
            }
        }
        if n != next {
            continue;
        }
        next *= 10;
        let estimate = counted(&dense).ok_or_else(corrupted)?;
        if n <= SPARSE_ELEMENTS && counted(growing.bytes()) != Some(estimate) {
            return Err(failed(format!("sparse and dense differ in the estimate of {n}")));
        }
        // Six standard errors, plus one for small numbers.
        let max_error = (6.0 * 1.04 / (REGISTERS as f64).sqrt() * n as f64).ceil() + 1.0;
        if estimate.abs_diff(n) as f64 > max_error {
            return Err(failed(format!("{n} elements are estimated as {estimate}")));
        }
    }
    Ok(())
}
