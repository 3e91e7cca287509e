//! Mitigations of the processor's vulnerabilities, which make system calls slower.

use super::{CheckInput, Finding};
use crate::doctor::finding::Severity;

const FOLDER: &str = "sys/devices/system/cpu/vulnerabilities";
const PAGE: &str = "https://docs.kernel.org/admin-guide/hw-vuln/index.html";

/// Mitigations at each entry to the kernel, or at each return from it: the file, and its text
/// between `Mitigation: ` and the first semicolon. Other mitigations act when tasks are switched,
/// when guests are entered, or when a program requests them. `mmio_stale_data` is not here: if its
/// clearing of buffers is done for programs at all, the reason is another vulnerability, whose file
/// reports it (`hw-vuln/processor_mmio_stale_data.rst`).
const AT_EACH_CALL: &[(&str, &[&str])] = &[
    ("meltdown", &["PTI"]),
    ("mds", &["Clear CPU buffers"]),
    ("tsx_async_abort", &["Clear CPU buffers"]),
    ("reg_file_data_sampling", &["Clear Register File"]),
    ("tsa", &["Clear CPU buffers", "Clear CPU buffers: user/kernel boundary"]),
    ("spectre_v2", &["IBRS"]),
    ("retbleed", &["IBRS", "IBPB", "Stuffing", "untrained return thunk"]),
    ("spec_rstack_overflow", &["Safe RET", "IBPB"]),
];

/// In the same file as others, but also at each entry: a loop that clears the history of branches.
const HISTORY_LOOP: &str = "BHI: SW loop";

/// All vulnerabilities that the kernel reports.
pub fn check(input: &CheckInput) -> Vec<Finding> {
    let (check, subject) = ("mitigations", "vulnerabilities of the processor");
    let names = input.host.entries(FOLDER);
    if names.is_empty() {
        let error = std::io::Error::from(std::io::ErrorKind::NotFound);
        let finding = Finding::unreadable(check, subject, FOLDER, &error, "");
        return vec![finding.see(PAGE)];
    }
    let states: Vec<(String, String)> = names
        .into_iter()
        .filter_map(|name| {
            let state = input.host.text(&format!("{FOLDER}/{name}"))?;
            Some((name, state))
        })
        .collect();
    let those = |is_so: fn(&str, &str) -> bool| -> Vec<&str> {
        let so = states.iter().filter(|(name, state)| is_so(name, state));
        so.map(|(name, _)| name.as_str()).collect()
    };
    // With a capital: also a part of a mitigated one, such as "BHI: Vulnerable". "SMT vulnerable"
    // only means that siblings may observe each other.
    let open = those(|_, state| state.contains("Vulnerable"));
    let calls = those(at_each_call);
    let mut facts = vec![format!(
        "{} known, {} of them mitigated",
        states.len(),
        those(|_, state| state.starts_with("Mitigation")).len()
    )];
    if !calls.is_empty() {
        facts.push(format!("at each system call: {}", calls.join(", ")));
    }
    if !open.is_empty() {
        facts.push(format!("open: {}", open.join(", ")));
    }
    let finding = Finding::new(check, subject, FOLDER, facts.join("; ")).lasting(boot(input));
    let finding = match (calls.is_empty(), open.is_empty()) {
        (true, true) => finding.all(Severity::Ok, "No mitigation makes each system call slower."),
        (false, _) => finding
            .all(
                Severity::Advice,
                "These mitigations slow down each system call, and a server makes at least two for \
                 each client and iteration of its loop.",
            )
            .advise(
                "Pipeline requests, so that one system call serves many",
                "mitigations=off on the kernel's command line removes the cost; only where every \
                 program is trusted and no other tenant shares the machine",
            ),
        (true, false) => finding
            .all(
                Severity::Advice,
                "Other programs or tenants may read the server's memory. It matters only where \
                 some of them are not trusted.",
            )
            .advise(
                match cmdline(input).contains("mitigations=off") {
                    true => "Remove mitigations=off from the kernel's command line",
                    false => "Update the kernel and the microcode",
                },
                "the same: the processor's mitigations are chosen at each start",
            ),
    };
    vec![finding.see(PAGE)]
}

fn at_each_call(name: &str, state: &str) -> bool {
    let Some(done) = state.strip_prefix("Mitigation: ") else { return false };
    let main = done.split(';').next().unwrap_or_default().trim();
    let listed = AT_EACH_CALL.iter().find(|(listed, _)| *listed == name);
    listed.is_some_and(|(_, words)| words.contains(&main)) || done.contains(HISTORY_LOOP)
}

fn cmdline(input: &CheckInput) -> String {
    input.host.text("proc/cmdline").unwrap_or_default()
}

fn boot(input: &CheckInput) -> String {
    match cmdline(input).split_whitespace().find(|word| word.starts_with("mitigations=")) {
        Some(word) => format!("yes: {word} on the kernel's command line"),
        None => "yes: the kernel's default".to_string(),
    }
}
