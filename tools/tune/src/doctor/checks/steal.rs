//! Time that the hypervisor gave to others.

use super::{Finding, Patient};
use crate::doctor::finding::Severity;

/// Permille of the time since the start from which steal is worth knowing.
const ADVICE: u64 = 10;

/// And from which it spoils latency.
const WARNING: u64 = 50;

/// `steal` in `/proc/stat`, beside all time since the start.
pub fn look(patient: &Patient) -> Vec<Finding> {
    let (check, subject, file) = ("steal", "stolen time", "proc/stat");
    let page = "https://docs.kernel.org/filesystems/proc.html#miscellaneous-kernel-statistics-in-proc-stat";
    let text = match patient.host.read(file) {
        Ok(text) => text,
        Err(error) => {
            return vec![Finding::unreadable(check, subject, file, &error, "").see(page)];
        }
    };
    // user, nice, system, idle, iowait, irq, softirq, steal; guest time is in user already.
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
        return vec![finding.unknown("The kernel does not say how its time was spent.").see(page)];
    };
    let permille = u64::try_from(u128::from(steal) * 1000 / u128::from(all)).unwrap_or(1000);
    let value = format!("{}.{} % since the start", permille / 10, permille % 10);
    let finding = Finding::new(check, subject, file, value);
    let why = "The hypervisor ran others while this machine had work. A thread that is stopped \
               holds up all its clients, whatever the server does. Figures of a host with much \
               of it are not to be trusted.";
    let cure = |finding: Finding| {
        finding.cure(
            "none from inside; 'vmstat 1' shows it as it happens (st)",
            "a machine with processors of its own, or less load beside it",
        )
    };
    let finding = match permille {
        WARNING.. => cure(finding.all(Severity::Warning, why)),
        ADVICE.. => cure(finding.all(Severity::Advice, why)),
        _ => finding.all(Severity::Ok, "Next to none, on the average."),
    };
    vec![finding.see(page)]
}
