//! Mitigations of the processor's vulnerabilities: what a system call costs.

use super::{Finding, Patient};
use crate::doctor::finding::Severity;

const FOLDER: &str = "sys/devices/system/cpu/vulnerabilities";
const PAGE: &str = "https://docs.kernel.org/admin-guide/hw-vuln/index.html";

/// Words of the kernel for what is done at each entry to it or exit from it. (Other
/// mitigations act when tasks are switched, or only where a program asks for them.)
const AT_EACH_CALL: &[&str] =
    &["PTI", "Clear CPU buffers", "IBRS", "untrained return thunk", "Safe RET"];

/// Of those, what the word IBRS must not be taken for: it is set once, and costs nothing then.
const SET_ONCE: &[&str] = &["Enhanced IBRS", "Enhanced / Automatic IBRS", "Automatic IBRS"];

/// All vulnerabilities that the kernel knows of.
pub fn look(patient: &Patient) -> Vec<Finding> {
    let (check, subject) = ("mitigations", "vulnerabilities of the processor");
    let names = patient.host.entries(FOLDER);
    if names.is_empty() {
        let error = std::io::Error::from(std::io::ErrorKind::NotFound);
        let finding = Finding::unreadable(check, subject, FOLDER, &error, "");
        return vec![finding.see(PAGE)];
    }
    let states: Vec<(String, String)> = names
        .into_iter()
        .filter_map(|name| {
            let state = patient.host.text(&format!("{FOLDER}/{name}"))?;
            Some((name, state))
        })
        .collect();
    let those = |is_so: fn(&str) -> bool| -> Vec<&str> {
        let so = states.iter().filter(|(_, state)| is_so(state));
        so.map(|(name, _)| name.as_str()).collect()
    };
    let open = those(|state| state.starts_with("Vulnerable"));
    let calls = those(at_each_call);
    let mut facts = vec![format!(
        "{} known, {} of them mitigated",
        states.len(),
        those(|state| state.starts_with("Mitigation")).len()
    )];
    if !calls.is_empty() {
        facts.push(format!("at each system call: {}", calls.join(", ")));
    }
    if !open.is_empty() {
        facts.push(format!("open: {}", open.join(", ")));
    }
    let finding = Finding::new(check, subject, FOLDER, facts.join("; ")).lasting(boot(patient));
    let finding = match (calls.is_empty(), open.is_empty()) {
        (true, true) => finding.all(Severity::Ok, "None makes each system call slower."),
        (false, _) => finding
            .all(
                Severity::Advice,
                "Each system call pays for these, and a server makes at least two for each \
                 client and turn of its loop. Pipelining and more connections per turn spread \
                 the cost. Only where every program on the machine is trusted, and no other \
                 tenant shares it, may they be given up.",
            )
            .cure(
                "none: it is decided at the start",
                "mitigations=off on the kernel's command line, if at all",
            ),
        (true, false) => finding.all(
            Severity::Advice,
            "The processor has vulnerabilities that are not mitigated: nothing is slower for \
             it, but programs and tenants may read what is not theirs.",
        ),
    };
    vec![finding.see(PAGE)]
}

fn at_each_call(state: &str) -> bool {
    let Some(done) = state.strip_prefix("Mitigation:") else { return false };
    let rest = SET_ONCE.iter().fold(done.to_string(), |text, once| text.replace(once, ""));
    // "PBRSB-eIBRS" and the like are other things than IBRS.
    let mut parts = rest.split([';', ':', ',']).map(str::trim);
    parts.any(|part| AT_EACH_CALL.contains(&part))
}

fn boot(patient: &Patient) -> String {
    let line = patient.host.text("proc/cmdline").unwrap_or_default();
    match line.split_whitespace().find(|word| word.starts_with("mitigations=")) {
        Some(word) => format!("yes: {word} on the kernel's command line"),
        None => "yes: the kernel's default".to_string(),
    }
}
