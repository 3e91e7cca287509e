//! The frequency of cores.

use std::collections::BTreeMap;

use super::{CheckInput, Finding};
use crate::cpus::{Cpus, strided};
use crate::doctor::finding::Severity;

const CPU: &str = "sys/devices/system/cpu";

/// The governors of all CPUs, with the CPUs of each.
pub fn governor(input: &CheckInput) -> Vec<Finding> {
    let (check, subject) = ("governor", "frequency governor");
    let file = |cpu: usize| format!("{CPU}/cpu{cpu}/cpufreq/scaling_governor");
    let mut found: BTreeMap<String, Cpus> = BTreeMap::new();
    let mut error = None;
    for cpu in &input.machine.cpus {
        match input.host.read(&file(cpu.id)) {
            Ok(governor) => {
                found.entry(governor).or_default().0.insert(cpu.id);
            }
            Err(e) => {
                error.get_or_insert((cpu.id, e));
            }
        }
    }
    let first = input.machine.cpus[0].id;
    let driver = input.host.text(&format!("{CPU}/cpu{first}/cpufreq/scaling_driver"));
    let finding = match error {
        Some((cpu, error)) if found.is_empty() => Finding::unreadable(
            check,
            subject,
            &file(cpu),
            &error,
            "Virtual machines have no such setting: their host decides. On hardware the \
             firmware may decide.",
        ),
        Some(_) | None => judge_governors(
            Finding::new(check, subject, &file(first), shown(&found)),
            &found,
            driver.as_deref(),
        ),
    };
    vec![
        finding
            .lasting(
                "a restart brings back the setting of the kernel or of a service such as tuned",
            )
            .fix(
                "Run the cores at full speed",
                "cpupower frequency-set -g performance",
                "tuned-adm profile throughput-performance, or add \
                 cpufreq.default_governor=performance to the kernel's command line",
            )
            .see("https://docs.kernel.org/admin-guide/pm/cpufreq.html"),
    ]
}

fn shown(found: &BTreeMap<String, Cpus>) -> String {
    match found.len() {
        1 => found.keys().next().cloned().unwrap_or_default(),
        _ => {
            let one = |(governor, cpus): (&String, &Cpus)| {
                format!("{governor} on CPUs {}", strided(cpus))
            };
            found.iter().map(one).collect::<Vec<_>>().join(", ")
        }
    }
}

fn judge_governors(
    finding: Finding,
    found: &BTreeMap<String, Cpus>,
    driver: Option<&str>,
) -> Finding {
    use Severity::{Advice, Ok, Warning};
    // In their active modes these drivers have their own governors of the same names: their
    // "powersave" follows the load.
    let by_hardware = matches!(driver, Some("intel_pstate" | "amd-pstate-epp"));
    let judge = |governor: &String| match governor.as_str() {
        "performance" => (Ok, "Cores run as fast as they can."),
        "powersave" if !by_hardware => (
            Warning,
            "Cores run at their lowest frequency under any load: requests take several times as \
             long.",
        ),
        "powersave" | "schedutil" | "ondemand" | "conservative" => (
            Advice,
            "Cores slow down between requests and take time to speed up: latency is higher at low \
             and middle load, and varies between measurements.",
        ),
        "userspace" => (Advice, "A program sets the frequency; see scaling_setspeed."),
        _ => (Severity::Unknown, "Unknown governor."),
    };
    let worst = found.keys().map(judge).max_by_key(|(severity, _)| *severity);
    match worst {
        Some((Severity::Unknown, why)) => finding.unknown(why),
        Some((severity, why)) => finding.all(severity, why),
        None => finding.unknown("There is no governor."),
    }
}

/// Turbo: either of two files, depending on the driver.
pub fn turbo(input: &CheckInput) -> Vec<Finding> {
    let (check, subject) = ("turbo", "turbo");
    let (intel, other) = (format!("{CPU}/intel_pstate/no_turbo"), format!("{CPU}/cpufreq/boost"));
    let page = "https://docs.kernel.org/admin-guide/pm/cpufreq.html#frequency-boost-support";
    let (file, text, on) = match (input.host.read(&intel), input.host.read(&other)) {
        (Ok(text), _) => (intel, text, "0"),
        (Err(_), Ok(text)) => (other, text, "1"),
        (Err(_), Err(error)) => {
            let without = format!(
                "Nor is /{intel}. Virtual machines have neither: their host decides. On \
                 hardware the firmware may decide."
            );
            return vec![Finding::unreadable(check, subject, &other, &error, &without).see(page)];
        }
    };
    let finding = Finding::new(check, subject, &file, &text);
    let finding = match text.as_str() {
        text if text == on => finding.all(Severity::Ok, "On."),
        "0" | "1" => finding.all(
            Severity::Advice,
            "Cores stay at their nominal frequency: measurements are steadier, but a server with \
             few busy threads is slower.",
        ),
        _ => finding.unknown("Unknown setting."),
    };
    vec![
        finding
            .lasting(
                "a restart brings back the setting of the firmware or of a service such as tuned",
            )
            .fix(
                "Switch turbo on",
                &format!("echo {on} > /{file}"),
                &format!("add a line to /etc/tmpfiles.d/weft.conf: 'w /{file} - - - - {on}'"),
            )
            .see(page),
    ]
}
