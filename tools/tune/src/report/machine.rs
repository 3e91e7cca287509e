//! The state of the machine during a sweep: quiet or not, in one or two sentences at the top of
//! each report, since other work on the machine affects the figures.

use crate::results::{Cell, Sweep};
use crate::stats::median;

/// A run is disturbed if other processes use more CPUs than this.
pub const OTHERS: f64 = 0.2;
/// The machine was not quiet if a larger share of runs was disturbed.
const FEW: f64 = 0.05;
/// Other programs ran before the sweep if the load average, as a share of the CPUs, was higher.
const LOAD: f64 = 0.5;

/// Quiet or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Quiet,
    Disturbed,
    /// Not recorded.
    Unknown,
}

/// The state of the machine.
#[derive(Debug)]
pub struct Account {
    pub state: State,
    /// For people.
    pub text: String,
}

/// The account of a sweep's runs.
pub fn account(sweep: &Sweep) -> Account {
    let others: Vec<f64> = sweep.cells.iter().filter_map(others_of).collect();
    let host = &sweep.header.host;
    let apart = sweep.header.grid.placements.iter().all(|placement| placement.keeps_apart());
    let shared = match apart || sweep.header.created == 0 {
        true => "",
        false => {
            " Server and load were not bound to CPUs of their own: each took time from the other."
        }
    };
    if others.is_empty() {
        let text = format!("It was not recorded whether the machine was quiet.{shared}");
        return Account { state: State::Unknown, text };
    }
    let disturbed = others.iter().filter(|cpus| **cpus > OTHERS).count();
    let most = others.iter().copied().fold(0.0, f64::max);
    let of = host.cpus.map_or(String::new(), |cpus| format!(" of {cpus}"));
    let busy_before = host
        .load
        .zip(host.cpus)
        .filter(|(load, cpus)| *load > LOAD * f64::from(*cpus))
        .map(|(load, _)| format!(" The load average was {load:.1} when it began."));
    let state = match disturbed as f64 > FEW * others.len() as f64 {
        true => State::Disturbed,
        false => State::Quiet,
    };
    let text = match state {
        State::Disturbed => format!(
            "The machine was not quiet: in {disturbed} of {} runs others used more than {OTHERS} \
             CPUs ({:.1}{of} in the middle, {most:.1} at most). Intervals show it; differences \
             within them mean nothing.",
            others.len(),
            median(&others)
        ),
        State::Quiet | State::Unknown => {
            format!(
                "The machine was quiet: others used {:.2}{of} CPUs in the middle, {most:.1} at most.",
                median(&others)
            )
        }
    };
    Account { state, text: format!("{text}{}{shared}", busy_before.unwrap_or_default()) }
}

fn others_of(cell: &Cell) -> Option<f64> {
    cell.measured()?.others_cpus
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::summary::tests::sweep;
    use crate::results::Outcome;

    fn with(others: &[Option<f64>]) -> Account {
        let mut sweep = sweep(&[(1, &vec![100.0; others.len()])]);
        for (cell, others) in sweep.cells.iter_mut().zip(others) {
            if let Outcome::Measured(measured) = &mut cell.outcome {
                measured.others_cpus = *others;
            }
        }
        account(&sweep)
    }

    #[test]
    fn busy_neighbours_are_named_first() {
        let quiet = with(&[Some(0.01), Some(0.02), Some(0.0)]);
        assert_eq!(quiet.state, State::Quiet, "{}", quiet.text);
        let busy = with(&[Some(0.01), Some(0.9), Some(1.5)]);
        assert_eq!(busy.state, State::Disturbed);
        assert!(
            busy.text.contains("in 2 of 3 runs") && busy.text.contains("1.5 at most"),
            "{}",
            busy.text
        );
        let unknown = with(&[None, None]);
        assert_eq!(unknown.state, State::Unknown, "{}", unknown.text);
    }
}
