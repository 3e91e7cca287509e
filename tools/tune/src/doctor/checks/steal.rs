//! Steal: CPU time that the hypervisor gave to other machines.

use super::{CheckInput, Finding};
use crate::doctor::finding::Severity;

/// Permille of the time since boot from which steal is reported.
const ADVICE: u64 = 10;

/// Permille from which latency suffers.
const WARNING: u64 = 50;

/// `steal` in `/proc/stat`, as a share of all time since boot.
pub fn check(input: &CheckInput) -> Vec<Finding> {
    let (check, subject, file) = ("steal", "steal, time given to other machines", "proc/stat");
    let page = "https://docs.kernel.org/filesystems/proc.html#miscellaneous-kernel-statistics-in-proc-stat";
    let text = match input.host.read(file) {
        Ok(text) => text,
        Err(error) => {
            return vec![Finding::unreadable(check, subject, file, &error, "").see(page)];
        }
    };
    // user, nice, system, idle, iowait, irq, softirq, steal; user includes guest time.
    let times: Option<Vec<u64>> = text.lines().find_map(|line| {
        let numbers = line.strip_prefix("cpu ")?.split_whitespace().take(8);
        numbers.map(|number| number.parse().ok()).collect()
    });
    let Some((all, steal)) = times
        .filter(|times| times.len() == 8)
        .map(|times| (times.iter().fold(0u64, |sum, t| sum.saturating_add(*t)), times[7]))
        .filter(|(all, _)| *all > 0)
    else {
        let finding = Finding::new(check, subject, file, "not in the file");
        return vec![
            finding.unknown("The file does not show how the CPUs spent their time.").see(page),
        ];
    };
    let permille = u64::try_from(u128::from(steal) * 1000 / u128::from(all)).unwrap_or(1000);
    let value = format!("{}.{} % since the start", permille / 10, permille % 10);
    let finding = Finding::new(check, subject, file, value);
    let why = "The hypervisor ran other machines while this one had work: each stopped thread \
               delays all its clients. Don't trust figures measured here.";
    let advise = |finding: Finding| {
        finding.advise(
            "Move the server to a machine with dedicated CPUs ('vmstat 1' shows the steal as st)",
            "the same: nothing on this machine changes it",
        )
    };
    let finding = match permille {
        WARNING.. => advise(finding.all(Severity::Warning, why)),
        ADVICE.. => advise(finding.all(Severity::Advice, why)),
        _ => finding.all(Severity::Ok, "Almost none on average."),
    };
    vec![finding.see(page)]
}
