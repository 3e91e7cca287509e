//! The clock that the kernel reads.

use super::{CheckInput, Finding};
use crate::doctor::finding::Severity;

const FOLDER: &str = "sys/devices/system/clocksource/clocksource0";

/// Sources that programs read without a system call.
const FAST: &[&str] =
    &["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "timebase"];

/// Sources that are devices: each reading leaves the processor and takes a system call.
const SLOW: &[&str] = &["hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"];

/// `current_clocksource`.
pub fn check(input: &CheckInput) -> Vec<Finding> {
    let (check, subject) = ("clocksource", "clock source");
    let (file, page) = (
        format!("{FOLDER}/current_clocksource"),
        "https://docs.kernel.org/timers/timekeeping.html",
    );
    let available = input.host.text(&format!("{FOLDER}/available_clocksource"));
    let available = available.unwrap_or_default();
    let finding = match input.host.read(&file) {
        Err(error) => Finding::unreadable(check, subject, &file, &error, ""),
        Ok(source) => {
            let finding = Finding::new(check, subject, &file, &source).lasting(
                "the kernel chooses at each start, and leaves a clock that it finds unstable",
            );
            if FAST.contains(&source.as_str()) {
                finding.all(Severity::Ok, "Read without a system call.")
            } else if SLOW.contains(&source.as_str()) {
                judge_slow(finding, &available)
            } else {
                finding.unknown("Unknown clock source.")
            }
        }
    };
    vec![finding.see(page)]
}

fn judge_slow(finding: Finding, available: &str) -> Finding {
    let finding = finding.all(
        Severity::Warning,
        "Each reading of the time is a system call and an access to a slow device, about a \
         microsecond. Servers read the time in every iteration of their loop.",
    );
    match available.split_whitespace().find(|source| FAST.contains(source)) {
        Some(source) => finding.fix(
            &format!("Use the clock source {source}"),
            &format!("echo {source} > /{FOLDER}/current_clocksource"),
            &format!("add clocksource={source} to the kernel's command line"),
        ),
        None => {
            let why = format!("{} The kernel offers no better one.", finding.why);
            Finding { why, ..finding }.advise(
                "Use a machine or a kernel with a fast clock source",
                "none: the kernel chooses the clock source at each start",
            )
        }
    }
}
